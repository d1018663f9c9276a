// ml.c -- records of the ai.onnx.ml operators.
//
// Models hold their numbers in attributes.  What depends on the attributes alone is checked here
// where it gives the result's type; the rest is checked where it is used, by the evaluation.
#include "eval/ml.h"
#include "ir/opinfo.h"

// ---- shapes ----

// Rows of a matrix operand: [N, F], or [F] as one row.
static tenon_status rows_of(Infer *in, int i, Dim *out) {
  TRY(infer_need(in, i, 0));
  const Type *x = infer_type(in, i);
  if (x->rank == 0 || x->rank > 2)
    return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be [N, F] or [F]", i,
                      x->rank);
  *out = x->rank == 2   ? x->dims[0]
         : x->rank == 1 ? in->g->dims.one
                        : ie_fresh(&in->g->dims, "rows");
  return TENON_OK;
}

static tenon_status set_matrix(Infer *in, int i, DType t, int64_t columns) {
  Dim dims[2] = {NULL, ie_const(&in->g->dims, columns)};
  TRY(rows_of(in, 0, &dims[0]));
  return infer_set(in, i, t, 2, dims);
}

static tenon_status set_labels(Infer *in, bool text) {
  Dim rows;
  TRY(rows_of(in, 0, &rows));
  return infer_set(in, 0, text ? DT_STRING : DT_I64, 1, &rows);
}

// Exactly one of two lists must be given.
static tenon_status one_of(Infer *in, int64_t a, int64_t b, const char *what) {
  if ((a > 0) != (b > 0)) return TENON_OK;
  return infer_fail(in, TENON_EINVAL, "%s must be given as integers or as strings, and not as both",
                    what);
}

static tenon_status to_float(Infer *in) {  // the shape of x, in f32
  TRY(infer_need(in, 0, 0));
  infer_set_type(in, 0, type_with_dtype(in->g, infer_type(in, 0), DT_F32));
  return TENON_OK;
}

// ---- preprocessing ----

static tenon_status infer_array_feature_extractor(Infer *in) {
  TRY(infer_need(in, 0, 0));
  TRY(infer_need(in, 1, DT_I64));
  const Type *x = infer_type(in, 0), *index = infer_type(in, 1);
  if (x->rank == 0) return infer_fail(in, TENON_EINVAL, "x is a scalar, must have an axis");
  if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  Dim dims[MAX_RANK] = {in->g->dims.one}, n = type_numel(in->g, index);
  int rank = MAX(x->rank, 2);
  for (int i = 0; i < x->rank - 1; i++) dims[i] = x->dims[i];
  dims[rank - 1] = n ? n : ie_fresh(&in->g->dims, "indices");
  return infer_set(in, 0, x->dtype, rank, dims);
}

static tenon_status infer_feature_vectorizer(Infer *in) {
  const feature_vectorizer_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  Dim dims[2] = {p->one, p->zero}, rows;
  if (at->inputdimensions.n && at->inputdimensions.n != in->nsrc)
    return infer_fail(in, TENON_EINVAL, "%d operands and %lld inputdimensions", in->nsrc,
                      (long long)at->inputdimensions.n);
  for (int i = 0; i < in->nsrc; i++) {
    TRY(rows_of(in, i, &rows));
    if (i) TRY(infer_equal_dim(in, dims[0], rows, "rows of the operands"));
    if (!i || (!ie_is_const(dims[0]) && ie_is_const(rows))) dims[0] = rows;
    const Type *x = infer_type(in, i);
    Dim width = x->rank < 1 ? ie_fresh(p, "columns") : x->dims[x->rank - 1];
    if (at->inputdimensions.n) width = ie_const(p, at->inputdimensions.v[i]);
    dims[1] = ie_add(p, dims[1], width);
  }
  return infer_set(in, 0, DT_F32, 2, dims);
}

static tenon_status infer_imputer(Infer *in) {
  const imputer_attrs *at = in->attrs;
  if (!at->imputed_value_floats.n && !at->imputed_value_int64s.n)
    return infer_fail(in, TENON_EINVAL, "no imputed values are given");
  return infer_same_as_first(in);
}

static tenon_status infer_scaler(Infer *in) {
  const scaler_attrs *at = in->attrs;
  if (!at->offset.n || !at->scale.n)
    return infer_fail(in, TENON_EINVAL, "offset or scale is missing");
  return to_float(in);
}

static tenon_status infer_one_hot_encoder(Infer *in) {
  const one_hot_encoder_attrs *at = in->attrs;
  TRY(one_of(in, at->cats_int64s.n, at->cats_strings.n, "the categories"));
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, DT_F32);
    return TENON_OK;
  }
  if (x->rank == MAX_RANK)
    return infer_fail(in, TENON_EUNSUPPORTED, "rank %d leaves no axis for the categories", x->rank);
  Dim dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  dims[x->rank] = ie_const(&in->g->dims, at->cats_int64s.n + at->cats_strings.n);
  return infer_set(in, 0, DT_F32, x->rank + 1, dims);
}

static tenon_status infer_label_encoder(Infer *in) {
  for (int i = 0; i < 4; i++) TRY(infer_need(in, i, 0));
  TRY(infer_same_dtype(in, 0, 1));
  TRY(infer_same_dtype(in, 2, 3));
  const Type *keys = infer_type(in, 1), *values = infer_type(in, 2);
  Dim nk = type_numel(in->g, keys), nv = type_numel(in->g, values);
  if (nk && nv) TRY(infer_equal_dim(in, nk, nv, "number of keys and of values"));
  infer_set_type(in, 0, type_with_dtype(in->g, infer_type(in, 0), values->dtype));
  return TENON_OK;
}

static tenon_status infer_category_mapper(Infer *in) {
  const category_mapper_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  if (at->cats_int64s.n != at->cats_strings.n)
    return infer_fail(in, TENON_EINVAL, "%lld integers and %lld strings must be as many",
                      (long long)at->cats_int64s.n, (long long)at->cats_strings.n);
  const Type *x = infer_type(in, 0);
  if (x->dtype && x->dtype != DT_STRING && x->dtype != DT_I64)
    return infer_fail(in, TENON_EINVAL, "x is %s, must be i64 or string", dtype_name(x->dtype));
  infer_set_type(in, 0, type_with_dtype(in->g, x, x->dtype == DT_STRING ? DT_I64 : DT_STRING));
  return TENON_OK;
}

// ---- maps ----

static tenon_status infer_zip_map(Infer *in) {
  const zip_map_attrs *at = in->attrs;
  Dim rows;
  TRY(infer_need(in, 0, DT_F32));
  TRY(rows_of(in, 0, &rows));
  TRY(one_of(in, at->classlabels_int64s.n, at->classlabels_strings.n, "the keys"));
  DType key = at->classlabels_strings.n ? DT_STRING : DT_I64;
  infer_set_type(in, 0, type_sequence(in->g, type_map(in->g, key, type_scalar(in->g, DT_F32))));
  return TENON_OK;
}

static tenon_status need_map(Infer *in, DType key, const Type **value) {
  const Type *m = infer_type(in, 0);
  if (!m || m->kind != TK_MAP) return infer_fail(in, TENON_EINVAL, "operand 0 must be a map");
  if (key && m->dtype && m->dtype != key)
    return infer_fail(in, TENON_EINVAL, "the keys are %s, must be %s", dtype_name(m->dtype),
                      dtype_name(key));
  *value = m->elem;
  return TENON_OK;
}

static tenon_status infer_cast_map(Infer *in) {
  static const DType type[] = {DT_F32, DT_STRING, DT_I64};
  const cast_map_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  const Type *value;
  TRY(need_map(in, DT_I64, &value));
  Dim dims[2] = {p->one, at->map_form ? ie_const(p, at->max_map) : ie_fresh(p, "entries")};
  return infer_set(in, 0, type[at->cast_to], 2, dims);
}

static tenon_status infer_dict_vectorizer(Infer *in) {
  const dict_vectorizer_attrs *at = in->attrs;
  const Type *value;
  TRY(one_of(in, at->int64_vocabulary.n, at->string_vocabulary.n, "the vocabulary"));
  TRY(need_map(in, at->string_vocabulary.n ? DT_STRING : DT_I64, &value));
  Dim dims[2] = {in->g->dims.one,
                 ie_const(&in->g->dims, at->int64_vocabulary.n + at->string_vocabulary.n)};
  return infer_set(in, 0, value && value->kind == TK_TENSOR ? value->dtype : 0, 2, dims);
}

// ---- models ----

static tenon_status infer_linear_regressor(Infer *in) {
  const linear_regressor_attrs *at = in->attrs;
  if (at->targets < 1 || at->coefficients.n % at->targets)
    return infer_fail(in, TENON_EINVAL, "%lld coefficients do not divide among %lld targets",
                      (long long)at->coefficients.n, (long long)at->targets);
  return set_matrix(in, 0, DT_F32, at->targets);
}

static tenon_status infer_linear_classifier(Infer *in) {
  const linear_classifier_attrs *at = in->attrs;
  TRY(one_of(in, at->classlabels_ints.n, at->classlabels_strings.n, "the class labels"));
  TRY(set_labels(in, at->classlabels_strings.n > 0));
  const Type *x = infer_type(in, 0);
  int64_t classes = at->classlabels_ints.n + at->classlabels_strings.n, n = at->intercepts.n;
  Dim f = x->rank > 0 ? x->dims[x->rank - 1] : NULL;
  if (!n && f && ie_is_const(f) && f->value) n = at->coefficients.n / f->value;
  if (!n && !(f && ie_is_const(f))) {
    infer_set_unranked(in, 1, DT_F32);
    return TENON_OK;
  }
  return set_matrix(in, 1, DT_F32, n == 1 && classes == 2 ? 2 : n ? n : classes);
}

static tenon_status infer_svm_classifier(Infer *in) {
  const svm_classifier_attrs *at = in->attrs;
  TRY(one_of(in, at->classlabels_ints.n, at->classlabels_strings.n, "the class labels"));
  TRY(set_labels(in, at->classlabels_strings.n > 0));
  int64_t n = at->classlabels_ints.n + at->classlabels_strings.n, vectors = 0;
  for (int64_t i = 0; i < at->vectors_per_class.n; i++) vectors |= at->vectors_per_class.v[i];
  if (n >= 65536)
    return infer_fail(in, TENON_EUNSUPPORTED, "%lld classes, the limit is 65535", (long long)n);
  bool pairs = vectors && !at->prob_a.n && n > 2;
  return set_matrix(in, 1, DT_F32, pairs ? n * (n - 1) / 2 : n);
}

static tenon_status infer_svm_regressor(Infer *in) { return set_matrix(in, 0, DT_F32, 1); }

static tenon_status infer_trees(Infer *in, DType t, int64_t targets) {
  if (targets < 1)
    return infer_fail(in, TENON_EINVAL, "%lld targets, must be at least 1", (long long)targets);
  TRY(infer_need(in, 0, 0));
  return set_matrix(in, 0, t ? t : infer_type(in, 0)->dtype, targets);
}
static tenon_status infer_tree_ensemble(Infer *in) {
  return infer_trees(in, 0, ((const tree_ensemble_attrs *)in->attrs)->n_targets);
}
static tenon_status infer_tree_ensemble_regressor(Infer *in) {
  return infer_trees(in, DT_F32, ((const tree_ensemble_regressor_attrs *)in->attrs)->n_targets);
}
static tenon_status infer_tree_ensemble_classifier(Infer *in) {
  const tree_ensemble_classifier_attrs *at = in->attrs;
  TRY(one_of(in, at->classlabels_int64s.n, at->classlabels_strings.n, "the class labels"));
  TRY(set_labels(in, at->classlabels_strings.n > 0));
  return set_matrix(in, 1, DT_F32, at->classlabels_int64s.n + at->classlabels_strings.n);
}

static double cost_linear(const CostIn *c) {  // one product a feature and score
  const CostShape *y = &c->out[c->nout - 1];
  return c->in[0].rank == 2 && y->rank == 2 ? 2.0 * (double)y->n * (double)c->in[0].dims[1] : 0;
}
static double cost_svm(int64_t vectors, const CostIn *c) {
  return 2.0 * (double)vectors * (double)c->in[0].n;
}
static double cost_svm_classifier(const CostIn *c) {
  const svm_classifier_attrs *at = c->node->attrs;
  int64_t n = 0;
  for (int64_t i = 0; i < at->vectors_per_class.n; i++)
    if (!ck_add(n, at->vectors_per_class.v[i], &n)) return 0;
  return n ? cost_svm(n, c) : cost_linear(c);
}
static double cost_svm_regressor(const CostIn *c) {
  const svm_regressor_attrs *at = c->node->attrs;
  return cost_svm(MAX(at->n_supports, 1), c);
}

ATTR_TABLE(binarizer, BINARIZER_ATTRS);
ATTR_TABLE(cast_map, CAST_MAP_ATTRS);
ATTR_TABLE(category_mapper, CATEGORY_MAPPER_ATTRS);
ATTR_TABLE(dict_vectorizer, DICT_VECTORIZER_ATTRS);
ATTR_TABLE(feature_vectorizer, FEATURE_VECTORIZER_ATTRS);
ATTR_TABLE(imputer, IMPUTER_ATTRS);
ATTR_TABLE(linear_classifier, LINEAR_CLASSIFIER_ATTRS);
ATTR_TABLE(linear_regressor, LINEAR_REGRESSOR_ATTRS);
ATTR_TABLE(normalizer, NORMALIZER_ATTRS);
ATTR_TABLE(one_hot_encoder, ONE_HOT_ENCODER_ATTRS);
ATTR_TABLE(scaler, SCALER_ATTRS);
ATTR_TABLE(svm_classifier, SVM_CLASSIFIER_ATTRS);
ATTR_TABLE(svm_regressor, SVM_REGRESSOR_ATTRS);
ATTR_TABLE(tree_ensemble, TREE_ENSEMBLE_ATTRS);
ATTR_TABLE(tree_ensemble_classifier, TREE_ENSEMBLE_CLASSIFIER_ATTRS);
ATTR_TABLE(tree_ensemble_regressor, TREE_ENSEMBLE_REGRESSOR_ATTRS);
ATTR_TABLE(zip_map, ZIP_MAP_ATTRS);

// clang-format off
#define ML(nm, spelling, since, text, types)                                                       \
  .name = #nm, .doc = text, .onnx = "ai.onnx.ml." spelling, .onnx_since = since, .dtypes = types, .arity = 1,                  \
  .eval = eval_##nm, .flags = OPF_HOST
#define ML_ONE(nm, infer_fn)   .operands = "x", .results = "y", .nres = 1, OP_ATTRS(nm), .infer = infer_fn
#define ML_LABELS(nm, infer_fn) .operands = "x", .results = "labels scores", .nres = 2, OP_ATTRS(nm), .infer = infer_fn

const OpInfo op_array_feature_extractor = {
    .name = "array_feature_extractor", .doc = "columns of x, by their numbers", .onnx = "ai.onnx.ml.ArrayFeatureExtractor", .onnx_since = 1,
    .operands = "x indices", .results = "y", .dtypes = "any", .arity = 2, .nres = 1, .flags = OPF_HOST | OPF_MOVEMENT | OPF_SELECTS,
    .infer = infer_array_feature_extractor, .eval = eval_array_feature_extractor,
    SAMPLES("(f32[3,4], i64[2]{0,3})", "(i64[5], i64[1,2]{4,4})", "(string[2,2,3], i64[]{1})", "(f32[n,4], i64[1]{2})")};
const OpInfo op_binarizer = {ML(binarizer, "Binarizer", 1, "1 above the threshold, else 0", "float int"), ML_ONE(binarizer, infer_same_as_first),
    SAMPLES("(f32[3,4]) threshold=0.5", "(i64[5])", "(f64[0])")};
const OpInfo op_cast_map = {ML(cast_map, "CastMap", 1, "a map's values as a row", "any"), ML_ONE(cast_map, infer_cast_map)};
const OpInfo op_category_mapper = {ML(category_mapper, "CategoryMapper", 1, "strings to integers, or back", "int string"), ML_ONE(category_mapper, infer_category_mapper),
    SAMPLES("(string[2,2]) cats_int64s=[1, 2] cats_strings=[\"a\", \"b\"]", "(i64[3]) cats_int64s=[1, 2] cats_strings=[\"a\", \"b\"]")};
const OpInfo op_dict_vectorizer = {ML(dict_vectorizer, "DictVectorizer", 1, "a map's values at the columns of their keys", "any"), ML_ONE(dict_vectorizer, infer_dict_vectorizer)};
const OpInfo op_feature_vectorizer = {
    .name = "feature_vectorizer", .doc = "columns of all operands, concatenated", .onnx = "ai.onnx.ml.FeatureVectorizer", .onnx_since = 1,
    .operands = "x*", .results = "y", .dtypes = "float int", .arity = -1, .nres = 1, .flags = OPF_HOST, OP_ATTRS(feature_vectorizer),
    .infer = infer_feature_vectorizer, .eval = eval_feature_vectorizer,
    SAMPLES("(f32[3,2], i64[3,1]) inputdimensions=[2, 1]", "(f32[3], f64[2]) inputdimensions=[4, 1]", "(f32[n,2], f32[n,3])")};
const OpInfo op_imputer = {ML(imputer, "Imputer", 1, "x with one value replaced", "float int"), ML_ONE(imputer, infer_imputer),
    SAMPLES("(f32[3,2]) imputed_value_floats=[1, 2]", "(i64[3,2]) imputed_value_int64s=[5] replaced_value_int64=1", "(f64[2,1]) imputed_value_floats=[0.5]")};
const OpInfo op_label_encoder = {
    .name = "label_encoder", .doc = "the value of each element's key, or the default", .onnx = "ai.onnx.ml.LabelEncoder", .onnx_since = 4,
    .operands = "x keys values default", .results = "y", .dtypes = "any", .arity = 4, .nres = 1, .flags = OPF_HOST,
    .infer = infer_label_encoder, .eval = eval_label_encoder,
    SAMPLES("(i64[2,3], i64[2]{0,1}, f32[2]{0.5,1.5}, f32[1]{-1})", "(f32[3], f32[1]{1}, i32[1]{7}, i32[]{-1})", "(f64[0], f64[0], i64[0], i64[1]{0})")};
const OpInfo op_linear_classifier = {ML(linear_classifier, "LinearClassifier", 1, "classes by linear scores", "float int"), ML_LABELS(linear_classifier, infer_linear_classifier), .cost = cost_linear,
    SAMPLES("(f32[3,2]) classlabels_ints=[0, 1, 2] coefficients=[1, 2, -1, 0.5, 0.25, 1] intercepts=[0, 1, -1] post_transform=SOFTMAX",
            "(f32[n,2]) classlabels_strings=[\"a\", \"b\"] coefficients=[1, -1] intercepts=[0.5] post_transform=LOGISTIC")};
const OpInfo op_linear_regressor = {ML(linear_regressor, "LinearRegressor", 1, "x times coefficients plus intercepts", "float int"), ML_ONE(linear_regressor, infer_linear_regressor), .cost = cost_linear,
    SAMPLES("(f32[3,2]) coefficients=[1, 2] intercepts=[0.5]", "(f64[n,2]) targets=2 coefficients=[1, 2, 3, 4]")};
const OpInfo op_normalizer = {ML(normalizer, "Normalizer", 1, "each row over its largest value, sum of sizes or length", "float int"), ML_ONE(normalizer, to_float),
    SAMPLES("(f32[3,4]) norm=L2", "(i64[4]) norm=L1", "(f64[2,3])")};
const OpInfo op_one_hot_encoder = {ML(one_hot_encoder, "OneHotEncoder", 1, "1 at the place of each element's category", "float int string"), ML_ONE(one_hot_encoder, infer_one_hot_encoder),
    SAMPLES("(i64[3]) cats_int64s=[0, 1, 2]", "(f32[2,2]) cats_int64s=[0, 1]", "(string[n]) cats_strings=[\"a\", \"b\"]")};
const OpInfo op_scaler = {ML(scaler, "Scaler", 1, "(x - offset) times scale, by columns", "float int"), ML_ONE(scaler, infer_scaler),
    SAMPLES("(f32[3,2]) offset=[1, 2] scale=[0.5, 2]", "(i64[n,3]) offset=[1] scale=[3]")};
const OpInfo op_svm_classifier = {ML(svm_classifier, "SVMClassifier", 1, "classes by support vectors", "float int"), ML_LABELS(svm_classifier, infer_svm_classifier), .cost = cost_svm_classifier,
    SAMPLES("(f32[3,2]) classlabels_ints=[0, 1] coefficients=[1, -1] rho=[0.1] support_vectors=[1, 2, 3, 4] vectors_per_class=[1, 1] kernel_type=RBF kernel_params=[0.5, 0, 0]",
            "(f32[2,2]) classlabels_strings=[\"a\", \"b\", \"c\"] coefficients=[1, -1, 0.5, 1, 2, 3] rho=[0.1]")};
const OpInfo op_svm_regressor = {ML(svm_regressor, "SVMRegressor", 1, "a value by support vectors", "float int"), ML_ONE(svm_regressor, infer_svm_regressor), .cost = cost_svm_regressor,
    SAMPLES("(f32[3,2]) coefficients=[1, -1] rho=[0.1] n_supports=2 support_vectors=[1, 2, 3, 4] kernel_type=POLY kernel_params=[0.5, 1, 2]",
            "(f32[n,2]) coefficients=[1, -1] rho=[0.1]")};
const OpInfo op_tree_ensemble = {ML(tree_ensemble, "TreeEnsemble", 5, "sums over the leaves that x reaches in each tree", "float"), ML_ONE(tree_ensemble, infer_tree_ensemble),
    SAMPLES("(f32[3,2]) n_targets=2 leaf_targetids=[0, 1] leaf_weights=[1.5, -2] nodes_falseleafs=[1] nodes_falsenodeids=[0] nodes_featureids=[1] nodes_modes=[0] "
            "nodes_splits=[0.5] nodes_trueleafs=[1] nodes_truenodeids=[1] tree_roots=[0]",
            "(f64[n,1]) leaf_targetids=[0, 0] leaf_weights=[1, 2] nodes_falseleafs=[1] nodes_falsenodeids=[0] nodes_featureids=[0] nodes_modes=[3] nodes_splits=[0] "
            "nodes_trueleafs=[1] nodes_truenodeids=[1] tree_roots=[0]")};
const OpInfo op_tree_ensemble_classifier = {ML(tree_ensemble_classifier, "TreeEnsembleClassifier", 1, "classes by the votes of trees", "float int"), ML_LABELS(tree_ensemble_classifier, infer_tree_ensemble_classifier),
    SAMPLES("(f32[3,2]) classlabels_int64s=[0, 1, 2] nodes_treeids=[0, 0, 0] nodes_nodeids=[0, 1, 2] nodes_featureids=[1, 0, 0] nodes_values=[0.5, 0, 0] "
            "nodes_modes=[\"BRANCH_LEQ\", \"LEAF\", \"LEAF\"] nodes_truenodeids=[1, 0, 0] nodes_falsenodeids=[2, 0, 0] class_treeids=[0, 0] class_nodeids=[1, 2] "
            "class_ids=[0, 2] class_weights=[1, 1]",
            "(f32[n,1]) classlabels_strings=[\"a\", \"b\"] nodes_treeids=[0] nodes_nodeids=[0] nodes_featureids=[0] nodes_values=[0] nodes_modes=[\"LEAF\"] "
            "nodes_truenodeids=[0] nodes_falsenodeids=[0] class_treeids=[0] class_nodeids=[0] class_ids=[1] class_weights=[0.75]")};
const OpInfo op_tree_ensemble_regressor = {ML(tree_ensemble_regressor, "TreeEnsembleRegressor", 1, "values by the votes of trees", "float int"), ML_ONE(tree_ensemble_regressor, infer_tree_ensemble_regressor),
    SAMPLES("(f32[3,2]) n_targets=2 nodes_treeids=[0, 0, 0] nodes_nodeids=[0, 1, 2] nodes_featureids=[1, 0, 0] nodes_values=[0.5, 0, 0] "
            "nodes_modes=[\"BRANCH_GT\", \"LEAF\", \"LEAF\"] nodes_truenodeids=[1, 0, 0] nodes_falsenodeids=[2, 0, 0] target_treeids=[0, 0] target_nodeids=[1, 2] "
            "target_ids=[0, 1] target_weights=[1, 2.5] aggregate_function=AVERAGE",
            "(i64[n,1]) nodes_treeids=[3] nodes_nodeids=[7] nodes_featureids=[0] nodes_values=[0] nodes_modes=[\"LEAF\"] nodes_truenodeids=[0] "
            "nodes_falsenodeids=[0] target_treeids=[3] target_nodeids=[7] target_ids=[0] target_weights=[1] base_values=[0.5]")};
const OpInfo op_zip_map = {ML(zip_map, "ZipMap", 1, "a map from the labels to the scores, for each row", "float"), ML_ONE(zip_map, infer_zip_map),
    SAMPLES("(f32[3,2]) classlabels_int64s=[0, 1]", "(f32[n,2]) classlabels_strings=[\"a\", \"b\"]")};
// clang-format on
