// features.c -- preprocessing of ai.onnx.ml as element-wise operators, reductions and gathers.
//
// Scalers, imputers and encoders hold their numbers in attributes.  As constants of plain operators
// they get the kernels of those, and fuse with what follows.  What an operator refuses stays as it
// is, so that the host says what is wrong; so do strings.
#include "rules/features.h"

#include "eval/index.h"
#include "eval/ml.h"
#include "eval/scalar.h"
#include "rules/letters.h"
#include "rules/shape.h"

#include <math.h>
#include <stdlib.h>

static bool numbers(DType t) {
  return (dtype_is_float(t) && dtype_bits(t) >= 16) || (dtype_is_int(t) && dtype_bits(t) >= 8);
}

Node *features_wide(Graph *g, Node *x) {
  DType t = type_of(x)->dtype;
  if (!numbers(t)) return NULL;
  return t == DT_F32 || t == DT_F64 ? x : NA(g, cast, &(cast_attrs){.to = DT_F64}, x);
}

Node *features_rows(Graph *g, Node *x) {
  const Type *t = type_of(x);
  if (t->rank != 1 && t->rank != 2) return NULL;
  x = features_wide(g, x);
  return x && t->rank == 1 ? N(g, reshape, x, node_i64s(g, 2, (int64_t[]){1, -1})) : x;
}

Node *features_const(Graph *g, DType t, int rank, const int64_t *dims, const double *v) {
  int64_t n = 1, bytes = 0;
  for (int i = 0; i < rank; i++)
    if (!ck_mul(n, dims[i], &n)) return NULL;
  if (!dtype_bytes(t, n, &bytes)) return NULL;
  void *data = arena_alloc(&g->scratch, bytes);
  store_f64(t, data, 0, n, v);
  return node_const(g, t, rank, dims, data, NULL);
}

int64_t features_columns(const Node *x) {
  const Type *t = type_of(x);
  Dim last = t->rank > 0 ? t->dims[t->rank - 1] : NULL;
  return last && ie_is_const(last) ? last->value : -1;
}

static Node *cast_to(Graph *g, DType t, Node *x) {
  return type_of(x)->dtype == t ? x : NA(g, cast, &(cast_attrs){.to = t}, x);
}

// A list that has one value for all columns, or one a column of a matrix.
static Node *by_column(Graph *g, const Node *x, DType t, Floats v) {
  if (v.n == 1) return node_scalar(g, t, v.v[0]);
  if (type_of(x)->rank > 2 || !v.n || v.n != features_columns(x)) return NULL;
  return features_const(g, t, 1, &v.n, v.v);
}

// Whether the numbers are the same in f32.
static bool in_f32(Floats v) {
  for (int64_t i = 0; i < v.n; i++)
    if (!isnan(v.v[i]) && (double)(float)v.v[i] != v.v[i]) return false;
  return true;
}

// ---- element by element ----

static Node *binarizer(Graph *g, const Match *m) {
  double at = ((const binarizer_attrs *)m->root->attrs)->threshold;
  DType t = type_of(m->root)->dtype;
  Node *x = features_wide(g, m->root->src[0]);
  if (!x) return NULL;
  if (!in_f32((Floats){1, &at})) x = cast_to(g, DT_F64, x);
  return cast_to(g, t, N(g, lt, node_scalar(g, type_of(x)->dtype, at), x));
}

static Node *scaler(Graph *g, const Match *m) {
  const scaler_attrs *at = m->root->attrs;
  Node *x = features_wide(g, m->root->src[0]);
  if (!x) return NULL;
  DType t = type_of(x)->dtype;
  Node *offset = by_column(g, x, t, at->offset), *scale = by_column(g, x, t, at->scale);
  return offset && scale ? cast_to(g, DT_F32, N(g, mul, N(g, sub, x, offset), scale)) : NULL;
}

static Floats doubles_of(Graph *g, Ints v) {
  double *to = arena_array(&g->scratch, double, v.n);
  for (int64_t i = 0; i < v.n; i++) to[i] = (double)v.v[i];
  return (Floats){v.n, to};
}

// Integers that a double says exactly.
static bool exact(const Ints v) {
  for (int64_t i = 0; i < v.n; i++)
    if (v.v[i] > 1ll << 53 || v.v[i] < -(1ll << 53)) return false;
  return true;
}

static Node *imputer(Graph *g, const Match *m) {
  const imputer_attrs *at = m->root->attrs;
  Node *x = m->root->src[0];
  DType t = type_of(x)->dtype;
  bool floats = at->imputed_value_floats.n > 0;
  if (!numbers(t) || floats != dtype_is_float(t)) return NULL;
  if (!floats && !exact(at->imputed_value_int64s)) return NULL;
  if (!floats && !exact((Ints){1, (int64_t[]){at->replaced_value_int64}})) return NULL;
  double old = floats ? at->replaced_value_float : (double)at->replaced_value_int64;
  Node *put = by_column(
      g, x, t, floats ? at->imputed_value_floats : doubles_of(g, at->imputed_value_int64s));
  if (!put) return NULL;
  Node *seen = floats && !in_f32((Floats){1, &old}) ? cast_to(g, DT_F64, x) : x;
  if (t == DT_F16 || t == DT_BF16) seen = cast_to(g, DT_F64, x);
  Node *hit =
      isnan(old) ? N(g, is_nan, x) : N(g, eq, seen, node_scalar(g, type_of(seen)->dtype, old));
  return N(g, where, hit, put, x);
}

// ---- row by row ----

// The greatest number of each row, as comparisons from the first on find it: what is no number
// counts in the first column alone.
static Node *greatest(Graph *g, Node *x, Node *last) {
  Node *least = node_scalar(g, type_of(x)->dtype, -INFINITY), *first = slice_axis(g, x, 1, 0, 1, 1);
  Node *most = N(g, reduce_max, N(g, where, N(g, is_nan, x), least, x), last);
  return N(g, where, N(g, is_nan, first), first, most);
}

static Node *normalizer(Graph *g, const Match *m) {
  Node *x = features_rows(g, m->root->src[0]), *over = NULL;
  if (!x || features_columns(x) < 1) return NULL;
  Node *last = node_i64s(g, 1, (int64_t[]){-1});
  switch (((const normalizer_attrs *)m->root->attrs)->norm) {
  case NORM_MAX: over = greatest(g, x, last); break;
  case NORM_L1: over = N(g, reduce_l1, x, last); break;
  default: over = N(g, reduce_l2, x, last); break;
  }
  Node *zero = node_scalar(g, type_of(x)->dtype, 0), *one = node_scalar(g, type_of(x)->dtype, 1);
  Node *y = cast_to(g, DT_F32, N(g, div, x, N(g, where, N(g, eq, over, zero), one, over)));
  return reshape_to(g, y, type_of(m->root));
}

static Node *feature_vectorizer(Graph *g, const Match *m) {
  const Node *n = m->root;
  const Ints width = ((const feature_vectorizer_attrs *)n->attrs)->inputdimensions;
  Node **part = arena_array(&g->scratch, Node *, MAX(n->nsrc, 1));
  if (!n->nsrc) return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    Node *x = features_rows(g, n->src[i]);
    int64_t have = x ? features_columns(x) : -1;
    if (!x || (width.n && have < 0)) return NULL;
    part[i] = cast_to(g, DT_F32, x);
    if (!width.n || have == width.v[i]) continue;
    if (width.v[i] < 1) return NULL;
    if (have > width.v[i])
      part[i] = slice_axis(g, part[i], 1, 0, width.v[i], 1);
    else
      part[i] = N(g, pad, part[i], node_i64s(g, 4, (int64_t[]){0, 0, 0, width.v[i] - have}));
  }
  return node_new(g, OP_concat, (int)n->nsrc, part, &(concat_attrs){.axis = 1}, 1, NULL);
}

// ---- looking up ----

bool features_indices_fit(Graph *g, const Node *index, Dim size) {
  Ints v;
  if (!node_ints(g, index, &v)) return true;
  for (int64_t i = 0; i < v.n; i++)
    if (v.v[i] < 0 || (ie_is_const(size) && v.v[i] >= size->value)) return false;
  return true;
}

static Node *array_feature_extractor(Graph *g, const Match *m) {
  Node *x = m->root->src[0], *index = m->root->src[1];
  const Type *t = type_of(x);
  if (t->rank < 1 || type_of(index)->rank < 0) return NULL;
  if (!features_indices_fit(g, index, t->dims[t->rank - 1])) return NULL;
  index = N(g, reshape, index, node_i64s(g, 1, (int64_t[]){-1}));
  Node *y = NA(g, gather, &(gather_attrs){.axis = t->rank - 1}, x, index);
  return t->rank > 1 ? y : N(g, reshape, y, node_i64s(g, 2, (int64_t[]){1, -1}));
}

static Node *one_hot_encoder(Graph *g, const Match *m) {
  const one_hot_encoder_attrs *at = m->root->attrs;
  const Ints cats = at->cats_int64s;
  Node *x = m->root->src[0];
  const Type *t = type_of(x);
  if (!at->zeros || !cats.n || cats.n > 4096 || t->rank < 0 || !numbers(t->dtype)) return NULL;
  for (int64_t i = 0; i < cats.n; i++)  // of equal categories the last one counts
    for (int64_t k = 0; k < i; k++)
      if (cats.v[i] == cats.v[k]) return NULL;
  x = N(g, unsqueeze, cast_to(g, DT_I64, x), node_i64s(g, 1, (int64_t[]){-1}));
  return cast_to(g, DT_F32, N(g, eq, x, node_i64s(g, cats.n, cats.v)));
}

// The elements of a constant of numbers; NULL for what is none.
static const Value *table_of(Graph *g, const Node *n) {
  Value *v = arena_new(&g->scratch, Value);
  Diag *quiet = arena_new(&g->scratch, Diag);
  const void *bytes;
  const Type *t = type_of(n);
  Dim count = type_numel(g, t);
  diag_init(quiet);
  if (n->op != OP_const || !numbers(t->dtype) || !count || !ie_is_const(count)) return NULL;
  if (const_elements(g, n, &g->scratch, &bytes, quiet)) return NULL;
  *v = (Value){.dtype = t->dtype, .n = count->value, .data = (void *)bytes};
  return v;
}

typedef struct Entry {
  double key;
  int64_t at;
} Entry;

static int by_key(const void *one, const void *two) {
  const Entry *x = one, *y = two;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}

// The keys in order, of equal ones the last, and as many as a power of two: the greatest is
// repeated.  Where a key is no number that a double says: none.
static Entry *sorted_keys(Graph *g, const Value *keys, int64_t *out_n) {
  int64_t n = 0, all = 1;
  while (all < keys->n) all *= 2;
  Entry *key = arena_array(&g->scratch, Entry, all);
  for (int64_t i = 0; i < keys->n; i++) {
    if (dtype_is_int(keys->dtype) && !exact((Ints){1, (int64_t[]){val_i64(keys, i)}})) return NULL;
    key[i] = (Entry){val_f64(keys, i), i};
    if (isnan(key[i].key)) return NULL;
  }
  qsort(key, (size_t)keys->n, sizeof *key, by_key);
  for (int64_t i = 0; i < keys->n; i++)
    if (i + 1 == keys->n || key[i].key != key[i + 1].key) key[n++] = key[i];
  for (*out_n = 1; *out_n < n;) *out_n *= 2;
  for (int64_t i = n; i < *out_n; i++) key[i] = key[n - 1];
  return key;
}

// A binary search of all elements at once: each step adds a power of two to the place where the
// key there is not greater.
static Node *places(Graph *g, Node *x, Node *keys, int64_t n) {
  Node *at = N(g, expand, node_i64(g, 0), N(g, shape, x));
  for (int64_t step = n / 2; step; step /= 2) {
    Node *next = N(g, add, at, node_i64(g, step));
    at = N(g, where, N(g, le, N(g, gather, keys, next), x), next, at);
  }
  return at;
}

static Node *label_encoder(Graph *g, const Match *m) {
  enum { KEYS = 1 << 16 };
  Node *x = m->root->src[0];
  const Value *keys = table_of(g, m->root->src[1]), *values = table_of(g, m->root->src[2]);
  const Value *other = table_of(g, m->root->src[3]);
  if (!keys || !values || !other || !keys->n || keys->n > KEYS || keys->n != values->n ||
      other->n != 1)
    return NULL;
  DType t = keys->dtype, to = values->dtype;
  int64_t n;
  if (!numbers(t) || t != type_of(x)->dtype || !numbers(to) || to != other->dtype) return NULL;
  Entry *sorted = sorted_keys(g, keys, &n);
  int64_t key_bytes = 0, value_bytes = 0;
  if (!sorted || !dtype_bytes(t, n, &key_bytes) || !dtype_bytes(to, n, &value_bytes)) return NULL;
  void *key = arena_alloc(&g->scratch, key_bytes), *value = arena_alloc(&g->scratch, value_bytes);
  for (int64_t i = 0; i < n; i++) {
    copy_elems(t, key, i, keys->data, sorted[i].at, 1);
    copy_elems(to, value, i, values->data, sorted[i].at, 1);
  }
  Node *k = node_const(g, t, 1, &n, key, NULL), *v = node_const(g, to, 1, &n, value, NULL);
  Node *none = node_const(g, to, 0, NULL, other->data, NULL), *at = places(g, x, k, n);
  return N(g, where, N(g, eq, N(g, gather, k, at), x), N(g, gather, v, at), none);
}

static const Rule features[] = {
    // clang-format off
    RULE("binarizer.compare",         ANY(binarizer),               .make = binarizer, .example = "(%x: f32[n, 4]) { %r = binarizer(%x) threshold=0.3 return %r }"),
    RULE("scaler.product",            ANY(scaler),                  .make = scaler, .fast = FAST_REASSOC | FAST_APPROX, .example = "(%x: f32[n, 3]) { %r = scaler(%x) offset=[1, 2, 3] scale=[0.5, 2, 0.1] return %r }"),
    RULE("imputer.where",             ANY(imputer),                 .make = imputer, .example = "(%x: f32[n, 2]) { %r = imputer(%x) imputed_value_floats=[1, 2] return %r }"),
    RULE("normalizer.divide",         ANY(normalizer),              .make = normalizer, .fast = FAST_REASSOC | FAST_APPROX, .example = "(%x: f32[n, 5]) { %r = normalizer(%x) norm=L2 return %r }"),
    RULE("feature_vectorizer.concat", ANY(feature_vectorizer),      .make = feature_vectorizer, .example = "(%x: f32[n, 2], %y: f32[n, 3]) { %r = feature_vectorizer(%x, %y) inputdimensions=[3, 2] return %r }"),
    RULE("array_feature_extractor.gather", ANY(array_feature_extractor), .make = array_feature_extractor, .example = "(%x: f32[n, 4]) { %i = const i64[2] {2, 1} %r = array_feature_extractor(%x, %i) return %r }"),
    RULE("one_hot_encoder.compare",   ANY(one_hot_encoder),         .make = one_hot_encoder, .example = "(%x: i64[n]) { %r = one_hot_encoder(%x) cats_int64s=[0, 3, 1] return %r }"),
    RULE("label_encoder.search",      ANY(label_encoder),           .make = label_encoder, .example = "(%x: i64[n, 3]) { %k = const i64[3] {2, 0, 1} %v = const f32[3] {0.5, 1.5, 2.5} %d = const f32[1] {-1} %r = label_encoder(%x, %k, %v, %d) return %r }"),
    // clang-format on
};
const RuleSet rules_features =
    RULES("features", features, "each removes an operator of ai.onnx.ml");
