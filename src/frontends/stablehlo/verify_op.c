// verify_op.c -- rules of single ops: dimensions that exist, shapes that follow from operands and
// attributes.
//
// A size that is not known agrees with every other; it is checked when the program runs.
#include "frontends/stablehlo/verify.h"

typedef struct List {
  const int64_t *v;
  int64_t n;
} List;

static List list_of(Verify *v, const MlirAttr *attr) {
  List l;
  mlir_ints(v->arena, attr, &l.v, &l.n);
  return l;
}
static List list(Verify *v, const char *name) { return list_of(v, mlir_attr(v->op, name)); }

static tenon_status need_tensor(Verify *v, int64_t i) {
  if (vf_in(v, i)->kind == MT_TENSOR) return TENON_OK;
  return vf_fail(v, "operand %lld is %s, not a tensor", (long long)i,
                 mlir_type_text(v->arena, vf_in(v, i)));
}

// Each dimension exists, and none comes twice.
static tenon_status distinct_dims(Verify *v, List l, int64_t rank, const char *what) {
  for (int64_t i = 0; i < l.n; i++) {
    if (l.v[i] < 0 || l.v[i] >= rank)
      return vf_fail(v, "%s: there is no dimension %lld of %lld", what, (long long)l.v[i],
                     (long long)rank);
    for (int64_t k = 0; k < i; k++)
      if (l.v[k] == l.v[i]) return vf_fail(v, "%s: dimension %lld twice", what, (long long)l.v[i]);
  }
  return TENON_OK;
}

static tenon_status one_dim(Verify *v, const char *name, const MlirType *t) {
  int64_t d = mlir_int(mlir_attr(v->op, name), 0);
  if (vf_ranked(t) && (d < 0 || d >= t->rank))
    return vf_fail(v, "%s: there is no dimension %lld of %s", name, (long long)d,
                   mlir_type_text(v->arena, t));
  return TENON_OK;
}

static tenon_status list_length(Verify *v, const char *name, int64_t n) {
  if (!mlir_attr(v->op, name)) return TENON_OK;
  List l = list(v, name);
  if (l.n != n)
    return vf_fail(v, "%s has %lld numbers, not %lld", name, (long long)l.n, (long long)n);
  return TENON_OK;
}

// ---- elementwise ----

static tenon_status same_shapes(Verify *v) {
  for (int64_t i = 0; i < v->op->noperands; i++) {
    TRY(need_tensor(v, i));
    if (!vf_shapes_agree(vf_in(v, i), vf_out(v, 0)))
      return vf_fail(v, "operand %s is %s, the result %s", v->op->operands[i]->name,
                     mlir_type_text(v->arena, vf_in(v, i)), mlir_type_text(v->arena, vf_out(v, 0)));
  }
  return TENON_OK;
}

static bool same_elem(const MlirType *a, const MlirType *b) {
  // quantised ones are compared by what they express
  MlirElem x = a->quant ? a->quant->expressed : a->elem,
           y = b->quant ? b->quant->expressed : b->elem;
  return x == y;
}

static tenon_status same_types(Verify *v) {
  TRY(same_shapes(v));
  for (int64_t i = 0; i < v->op->noperands; i++)
    if (!same_elem(vf_in(v, i), vf_out(v, 0)))
      return vf_fail(v, "operand %s is %s, the result %s", v->op->operands[i]->name,
                     mlir_type_text(v->arena, vf_in(v, i)), mlir_type_text(v->arena, vf_out(v, 0)));
  return TENON_OK;
}

static tenon_status compare_rule(Verify *v) {
  TRY(same_shapes(v));
  if (vf_out(v, 0)->elem != ME_BOOL) return vf_fail(v, "the result is not of i1");
  if (!same_elem(vf_in(v, 0), vf_in(v, 1)))
    return vf_fail(v, "compares %s with %s", mlir_type_text(v->arena, vf_in(v, 0)),
                   mlir_type_text(v->arena, vf_in(v, 1)));
  return TENON_OK;
}

// A scalar may stand for a whole tensor.
static bool fits_or_scalar(const MlirType *a, const MlirType *b) {
  return (vf_ranked(a) && a->rank == 0) || vf_shapes_agree(a, b);
}

static tenon_status select_rule(Verify *v) {
  for (int i = 0; i < 3; i++) TRY(need_tensor(v, i));
  if (vf_in(v, 0)->elem != ME_BOOL) return vf_fail(v, "the predicate is not of i1");
  if (!fits_or_scalar(vf_in(v, 0), vf_out(v, 0)) || !vf_shapes_agree(vf_in(v, 1), vf_out(v, 0)) ||
      !vf_shapes_agree(vf_in(v, 2), vf_out(v, 0)))
    return vf_fail(v, "operands of different shapes");
  return TENON_OK;
}

static tenon_status clamp_rule(Verify *v) {
  for (int i = 0; i < 3; i++) TRY(need_tensor(v, i));
  if (!fits_or_scalar(vf_in(v, 0), vf_out(v, 0)) || !vf_shapes_agree(vf_in(v, 1), vf_out(v, 0)) ||
      !fits_or_scalar(vf_in(v, 2), vf_out(v, 0)))
    return vf_fail(v, "operands of different shapes");
  return TENON_OK;
}

static tenon_status constant_rule(Verify *v) {
  const MlirAttr *a = mlir_attr(v->op, "value");
  if (!vf_shapes_agree(a->type, vf_out(v, 0)) ||
      (a->type->elem != vf_out(v, 0)->elem && vf_out(v, 0)->elem != ME_QUANT))
    return vf_fail(v, "the constant is %s, the result %s", mlir_type_text(v->arena, a->type),
                   mlir_type_text(v->arena, vf_out(v, 0)));
  return TENON_OK;
}

// ---- movement ----

static tenon_status broadcast_rule(Verify *v) {
  const MlirType *in = vf_in(v, 0), *out = vf_out(v, 0);
  List d = list(v, "broadcast_dimensions");
  TRY(need_tensor(v, 0));
  if (!vf_ranked(in) || !vf_ranked(out)) return TENON_OK;
  TRY(list_length(v, "broadcast_dimensions", in->rank));
  TRY(distinct_dims(v, d, out->rank, "broadcast_dimensions"));
  for (int64_t i = 0; i < d.n; i++)
    if (in->dims[i] != 1 && !vf_dims_agree(in->dims[i], out->dims[d.v[i]]))
      return vf_fail(v, "%s cannot be broadcast to %s", mlir_type_text(v->arena, in),
                     mlir_type_text(v->arena, out));
  return TENON_OK;
}

static tenon_status transpose_rule(Verify *v) {
  const MlirType *in = vf_in(v, 0), *out = vf_out(v, 0);
  List p = list(v, "permutation");
  TRY(need_tensor(v, 0));
  if (!vf_ranked(in) || !vf_ranked(out)) return TENON_OK;
  TRY(list_length(v, "permutation", in->rank));
  TRY(distinct_dims(v, p, in->rank, "permutation"));
  bool fits = out->rank == in->rank;
  for (int64_t i = 0; i < p.n && fits; i++) fits = vf_dims_agree(out->dims[i], in->dims[p.v[i]]);
  if (!fits) return vf_fail(v, "the result is %s", mlir_type_text(v->arena, out));
  return TENON_OK;
}

static tenon_status reshape_rule(Verify *v) {
  int64_t a, b;
  TRY(need_tensor(v, 0));
  if (mlir_type_count(vf_in(v, 0), &a) && mlir_type_count(vf_out(v, 0), &b) && a != b)
    return vf_fail(v, "%s cannot become %s", mlir_type_text(v->arena, vf_in(v, 0)),
                   mlir_type_text(v->arena, vf_out(v, 0)));
  return TENON_OK;
}

static tenon_status concatenate_rule(Verify *v) {
  const MlirType *out = vf_out(v, 0);
  int64_t d = mlir_int(mlir_attr(v->op, "dimension"), 0), sum = 0;
  bool known = true;
  if (!v->op->noperands) return vf_fail(v, "has no operands");
  if (!vf_ranked(out)) return TENON_OK;
  TRY(one_dim(v, "dimension", out));
  for (int64_t i = 0; i < v->op->noperands; i++) {
    const MlirType *in = vf_in(v, i);
    TRY(need_tensor(v, i));
    if (!vf_ranked(in)) return TENON_OK;
    bool fits = in->rank == out->rank;
    for (int64_t k = 0; k < in->rank && fits; k++)
      fits = k == d || vf_dims_agree(in->dims[k], out->dims[k]);
    if (!fits)
      return vf_fail(v, "operand %lld is %s, the result %s", (long long)i,
                     mlir_type_text(v->arena, in), mlir_type_text(v->arena, out));
    known = known && in->dims[d] >= 0 && ck_add(sum, in->dims[d], &sum);
  }
  if (known && !vf_dims_agree(sum, out->dims[d]))
    return vf_fail(v, "dimension %lld of the operands sums to %lld, the result has %lld",
                   (long long)d, (long long)sum, (long long)out->dims[d]);
  return TENON_OK;
}

static tenon_status slice_rule(Verify *v) {
  static const char *const names[] = {"start_indices", "limit_indices", "strides"};
  const MlirType *in = vf_in(v, 0), *out = vf_out(v, 0);
  TRY(need_tensor(v, 0));
  if (!vf_ranked(in) || !vf_ranked(out)) return TENON_OK;
  for (int i = 0; i < 3; i++) TRY(list_length(v, names[i], in->rank));
  List from = list(v, names[0]), to = list(v, names[1]), step = list(v, names[2]);
  if (out->rank != in->rank) return vf_fail(v, "the result has another rank");
  for (int64_t i = 0; i < in->rank; i++) {
    bool inside = from.v[i] >= 0 && from.v[i] <= to.v[i] && step.v[i] >= 1 &&
                  (in->dims[i] < 0 || to.v[i] <= in->dims[i]);
    int64_t n = inside ? (to.v[i] - from.v[i] - 1 + step.v[i]) / step.v[i] : 0;
    if (inside && to.v[i] == from.v[i]) n = 0;
    if (!inside || !vf_dims_agree(out->dims[i], n))
      return vf_fail(v, "dimension %lld: %lld:%lld:%lld of %s as %s", (long long)i,
                     (long long)from.v[i], (long long)to.v[i], (long long)step.v[i],
                     mlir_type_text(v->arena, in), mlir_type_text(v->arena, out));
  }
  return TENON_OK;
}

static tenon_status pad_rule(Verify *v) {
  static const char *const names[] = {"edge_padding_low", "edge_padding_high", "interior_padding"};
  const MlirType *in = vf_in(v, 0), *out = vf_out(v, 0);
  TRY(need_tensor(v, 0));
  TRY(need_tensor(v, 1));
  if (!vf_ranked(in) || !vf_ranked(out)) return TENON_OK;
  for (int i = 0; i < 3; i++) TRY(list_length(v, names[i], in->rank));
  List low = list(v, names[0]), high = list(v, names[1]), inner = list(v, names[2]);
  if (out->rank != in->rank) return vf_fail(v, "the result has another rank");
  for (int64_t i = 0; i < in->rank; i++) {
    int64_t n = in->dims[i], between, gaps = n > 0 ? n - 1 : 0;
    if (inner.v[i] < 0) return vf_fail(v, "interior padding of %lld", (long long)inner.v[i]);
    if (n < 0) continue;
    bool ok = ck_mul(gaps, inner.v[i], &between) && ck_add(n, between, &n) &&
              ck_add(n, low.v[i], &n) && ck_add(n, high.v[i], &n) && n >= 0;
    if (!ok || !vf_dims_agree(out->dims[i], n))
      return vf_fail(v, "dimension %lld is padded to another size than %s has", (long long)i,
                     mlir_type_text(v->arena, out));
  }
  return TENON_OK;
}

static tenon_status iota_rule(Verify *v) { return one_dim(v, "iota_dimension", vf_out(v, 0)); }

static tenon_status reverse_rule(Verify *v) {
  TRY(same_shapes(v));
  if (!vf_ranked(vf_in(v, 0))) return TENON_OK;
  return distinct_dims(v, list(v, "dimensions"), vf_in(v, 0)->rank, "dimensions");
}

static tenon_status dimension_rule(Verify *v) {
  TRY(need_tensor(v, 0));
  return one_dim(v, "dimension", vf_in(v, 0));
}

static tenon_status dynamic_slice_rule(Verify *v) {
  if (!v->op->noperands) return vf_fail(v, "has no operands");
  TRY(need_tensor(v, 0));
  const MlirType *in = vf_in(v, 0);
  bool update = !strcmp(v->op->name, "stablehlo.dynamic_update_slice");
  if (update && v->op->noperands < 2) return vf_fail(v, "has no update");
  if (!vf_ranked(in)) return TENON_OK;
  int64_t starts = v->op->noperands - 1 - update;
  if (starts != in->rank)
    return vf_fail(v, "has %lld start indices for %s", (long long)starts,
                   mlir_type_text(v->arena, in));
  const MlirType *part = update ? vf_in(v, 1) : vf_out(v, 0);
  if (!update) TRY(list_length(v, "slice_sizes", in->rank));
  if (!vf_ranked(part)) return TENON_OK;
  if (part->rank != in->rank) return vf_fail(v, "a part of another rank");
  for (int64_t i = 0; i < in->rank; i++)
    if (in->dims[i] >= 0 && part->dims[i] > in->dims[i])
      return vf_fail(v, "a part of %s out of %s", mlir_type_text(v->arena, part),
                     mlir_type_text(v->arena, in));
  return TENON_OK;
}

static tenon_status tuple_element_rule(Verify *v) {
  const MlirType *t = vf_in(v, 0);
  int64_t i = mlir_int(mlir_attr(v->op, "index"), 0);
  if (t->kind != MT_TUPLE || i < 0 || i >= t->nparts)
    return vf_fail(v, "element %lld of %s", (long long)i, mlir_type_text(v->arena, t));
  if (!mlir_type_eq(t->parts[i], vf_out(v, 0))) return vf_fail(v, "the element has another type");
  return TENON_OK;
}

// ---- contractions ----

static tenon_status paired_dims(Verify *v, const MlirAttr *d, const char *lhs, const char *rhs) {
  const MlirType *a = vf_in(v, 0), *b = vf_in(v, 1);
  List l = list_of(v, mlir_field(d, lhs)), r = list_of(v, mlir_field(d, rhs));
  if (l.n != r.n) return vf_fail(v, "%s and %s have different lengths", lhs, rhs);
  TRY(distinct_dims(v, l, a->rank, lhs));
  TRY(distinct_dims(v, r, b->rank, rhs));
  for (int64_t i = 0; i < l.n; i++)
    if (!vf_dims_agree(a->dims[l.v[i]], b->dims[r.v[i]]))
      return vf_fail(v, "dimension %lld of %s meets dimension %lld of %s", (long long)l.v[i],
                     mlir_type_text(v->arena, a), (long long)r.v[i], mlir_type_text(v->arena, b));
  return TENON_OK;
}

static tenon_status dot_rule(Verify *v) {
  const MlirAttr *d = mlir_attr(v->op, "dot_dimension_numbers");
  for (int i = 0; i < 2; i++) TRY(need_tensor(v, i));
  if (!vf_ranked(vf_in(v, 0)) || !vf_ranked(vf_in(v, 1))) return TENON_OK;
  TRY(paired_dims(v, d, "lhs_batching_dimensions", "rhs_batching_dimensions"));
  TRY(paired_dims(v, d, "lhs_contracting_dimensions", "rhs_contracting_dimensions"));
  List batch = list_of(v, mlir_field(d, "lhs_batching_dimensions"));
  List sum = list_of(v, mlir_field(d, "lhs_contracting_dimensions"));
  int64_t rank = vf_in(v, 0)->rank + vf_in(v, 1)->rank - batch.n - 2 * sum.n;
  if (vf_ranked(vf_out(v, 0)) && vf_out(v, 0)->rank != rank)
    return vf_fail(v, "the result has rank %lld, not %lld", (long long)vf_out(v, 0)->rank,
                   (long long)rank);
  return TENON_OK;
}

static tenon_status conv_side(Verify *v, const char *one, const char *two, const char *spatial,
                              const MlirType *t, int64_t n) {
  const MlirAttr *d = mlir_attr(v->op, "dimension_numbers");
  List s = list_of(v, mlir_field(d, spatial));
  if (s.n != n || t->rank != n + 2)
    return vf_fail(v, "%s: %s has %lld", spatial, mlir_type_text(v->arena, t), (long long)s.n);
  int64_t *all = arena_array(v->arena, int64_t, n + 2);
  for (int64_t i = 0; i < n; i++) all[i] = s.v[i];
  all[n] = mlir_int(mlir_field(d, one), -1);
  all[n + 1] = mlir_int(mlir_field(d, two), -1);
  return distinct_dims(v, (List){all, n + 2}, t->rank, spatial);
}

// Of a dynamic convolution writers leave more numbers than there are dimensions: the first ones
// count.
static tenon_status conv_list(Verify *v, const char *name, int64_t n) {
  if (strcmp(v->op->name, "stablehlo.dynamic_conv")) return list_length(v, name, n);
  if (mlir_attr(v->op, name) && list(v, name).n < n) return list_length(v, name, n);
  return TENON_OK;
}

static tenon_status conv_rule(Verify *v) {
  static const char *const lists[] = {"window_strides", "lhs_dilation", "rhs_dilation"};
  const MlirType *x = vf_in(v, 0), *w = vf_in(v, 1), *y = vf_out(v, 0);
  for (int i = 0; i < 2; i++) TRY(need_tensor(v, i));
  if (!vf_ranked(x) || !vf_ranked(w) || !vf_ranked(y)) return TENON_OK;
  int64_t n = x->rank - 2;
  if (n < 0) return vf_fail(v, "%s is no operand of a convolution", mlir_type_text(v->arena, x));
  TRY(conv_side(v, "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
                x, n));
  TRY(conv_side(v, "kernel_input_feature_dimension", "kernel_output_feature_dimension",
                "kernel_spatial_dimensions", w, n));
  TRY(conv_side(v, "output_batch_dimension", "output_feature_dimension",
                "output_spatial_dimensions", y, n));
  for (int i = 0; i < ARRAY_LEN(lists); i++) {
    List l = list(v, lists[i]);
    TRY(conv_list(v, lists[i], n));
    for (int64_t k = 0; k < l.n; k++)
      if (l.v[k] < 1) return vf_fail(v, "%s of %lld", lists[i], (long long)l.v[k]);
  }
  TRY(conv_list(v, "window_reversal", n));
  TRY(list_length(v, "padding", 2 * n));
  if (mlir_int(mlir_attr(v->op, "feature_group_count"), 1) < 1 ||
      mlir_int(mlir_attr(v->op, "batch_group_count"), 1) < 1)
    return vf_fail(v, "groups of less than one");
  return TENON_OK;
}

// ---- bodies ----

static tenon_status body_args(Verify *v, int region, int64_t n) {
  const MlirBlock *b = v->op->regions[region]->blocks[0];
  if (b->nargs != n)
    return vf_fail(v, "region %d takes %lld arguments, not %lld", region, (long long)b->nargs,
                   (long long)n);
  return TENON_OK;
}

static tenon_status body_results(Verify *v, int region, int64_t n) {
  const MlirBlock *b = v->op->regions[region]->blocks[0];
  if (b->ops[b->nops - 1]->noperands != n)
    return vf_fail(v, "region %d returns %lld values, not %lld", region,
                   (long long)b->ops[b->nops - 1]->noperands, (long long)n);
  return TENON_OK;
}

static tenon_status reduced(Verify *v) {
  int64_t n = v->op->noperands / 2;
  if (n < 1 || v->op->noperands != 2 * n || v->op->nresults != n)
    return vf_fail(v, "has %lld operands and %lld results", (long long)v->op->noperands,
                   (long long)v->op->nresults);
  for (int64_t i = 0; i < 2 * n; i++) TRY(need_tensor(v, i));
  for (int64_t i = 1; i < n; i++)
    if (!vf_shapes_agree(vf_in(v, 0), vf_in(v, i))) return vf_fail(v, "inputs of different shapes");
  TRY(body_args(v, 0, 2 * n));
  return body_results(v, 0, n);
}

static tenon_status reduce_rule(Verify *v) {
  TRY(reduced(v));
  const MlirType *in = vf_in(v, 0), *out = vf_out(v, 0);
  List d = list(v, "dimensions");
  if (!vf_ranked(in)) return TENON_OK;
  TRY(distinct_dims(v, d, in->rank, "dimensions"));
  if (vf_ranked(out) && out->rank != in->rank - d.n)
    return vf_fail(v, "the result is %s", mlir_type_text(v->arena, out));
  return TENON_OK;
}

static tenon_status window_rule(Verify *v) {
  static const char *const lists[] = {"window_dimensions", "window_strides", "base_dilations",
                                      "window_dilations"};
  TRY(reduced(v));
  const MlirType *in = vf_in(v, 0);
  if (!vf_ranked(in)) return TENON_OK;
  for (int i = 0; i < ARRAY_LEN(lists); i++) {
    List l = list(v, lists[i]);
    TRY(list_length(v, lists[i], in->rank));
    for (int64_t k = 0; k < l.n; k++)
      if (l.v[k] < 1) return vf_fail(v, "%s of %lld", lists[i], (long long)l.v[k]);
  }
  TRY(list_length(v, "padding", 2 * in->rank));
  if (!vf_ranked(vf_out(v, 0)) || vf_out(v, 0)->rank == in->rank) return TENON_OK;
  return vf_fail(v, "the result has another rank");
}

static tenon_status sort_rule(Verify *v) {
  int64_t n = v->op->noperands, d = mlir_int(mlir_attr(v->op, "dimension"), -1);
  if (n < 1 || v->op->nresults != n)
    return vf_fail(v, "has %lld operands and %lld results", (long long)n,
                   (long long)v->op->nresults);
  for (int64_t i = 0; i < n; i++) {
    TRY(need_tensor(v, i));
    if (!vf_shapes_agree(vf_in(v, 0), vf_in(v, i)) || !vf_shapes_agree(vf_in(v, i), vf_out(v, i)))
      return vf_fail(v, "operands and results of different shapes");
  }
  int64_t rank = vf_in(v, 0)->rank;
  if (vf_ranked(vf_in(v, 0)) && (d < -rank || d >= rank))
    return vf_fail(v, "there is no dimension %lld of %lld", (long long)d, (long long)rank);
  TRY(body_args(v, 0, 2 * n));
  return body_results(v, 0, 1);
}

static tenon_status while_rule(Verify *v) {
  int64_t n = v->op->noperands;
  if (v->op->nresults != n)
    return vf_fail(v, "has %lld operands and %lld results", (long long)n,
                   (long long)v->op->nresults);
  for (int r = 0; r < 2; r++) {
    TRY(body_args(v, r, n));
    const MlirBlock *b = v->op->regions[r]->blocks[0];
    for (int64_t i = 0; i < n; i++)
      if (!vf_shapes_agree(b->args[i]->type, vf_in(v, i)))
        return vf_fail(v, "argument %lld of region %d has another shape", (long long)i, r);
  }
  TRY(body_results(v, 0, 1));
  return body_results(v, 1, n);
}

static tenon_status branch_rule(Verify *v) {
  if (v->op->nregions < 1) return vf_fail(v, "has no branches");
  for (int r = 0; r < v->op->nregions; r++) {
    TRY(body_args(v, r, 0));
    TRY(body_results(v, r, v->op->nresults));
  }
  if (vf_ranked(vf_in(v, 0)) && vf_in(v, 0)->rank == 0) return TENON_OK;
  return vf_fail(v, "chooses by %s, which is no scalar", mlir_type_text(v->arena, vf_in(v, 0)));
}

// ---- gather and scatter ----

static tenon_status gather_rule(Verify *v) {
  const MlirAttr *d = mlir_attr(v->op, "dimension_numbers");
  const MlirType *x = vf_in(v, 0), *ind = vf_in(v, 1), *out = vf_out(v, 0);
  for (int i = 0; i < 2; i++) TRY(need_tensor(v, i));
  if (!vf_ranked(x) || !vf_ranked(ind) || !vf_ranked(out)) return TENON_OK;
  int64_t at = mlir_int(mlir_field(d, "index_vector_dim"), 0);
  if (at < 0 || at > ind->rank) return vf_fail(v, "index_vector_dim %lld", (long long)at);
  TRY(distinct_dims(v, list_of(v, mlir_field(d, "offset_dims")), out->rank, "offset_dims"));
  TRY(distinct_dims(v, list_of(v, mlir_field(d, "collapsed_slice_dims")), x->rank,
                    "collapsed_slice_dims"));
  TRY(distinct_dims(v, list_of(v, mlir_field(d, "operand_batching_dims")), x->rank,
                    "operand_batching_dims"));
  TRY(distinct_dims(v, list_of(v, mlir_field(d, "start_indices_batching_dims")), ind->rank,
                    "start_indices_batching_dims"));
  List map = list_of(v, mlir_field(d, "start_index_map"));
  TRY(distinct_dims(v, map, x->rank, "start_index_map"));
  int64_t width = at == ind->rank ? 1 : ind->dims[at];
  if (!vf_dims_agree(width, map.n))
    return vf_fail(v, "start_index_map has %lld dimensions for indices of %lld", (long long)map.n,
                   (long long)width);
  if (v->op->noperands == 3) return TENON_OK;
  List sizes = list(v, "slice_sizes");
  TRY(list_length(v, "slice_sizes", x->rank));
  for (int64_t i = 0; i < sizes.n; i++)
    if (sizes.v[i] < 0 || (x->dims[i] >= 0 && sizes.v[i] > x->dims[i]))
      return vf_fail(v, "a slice of %lld out of %s", (long long)sizes.v[i],
                     mlir_type_text(v->arena, x));
  return TENON_OK;
}

static tenon_status scatter_rule(Verify *v) {
  const MlirAttr *d = mlir_attr(v->op, "scatter_dimension_numbers");
  int64_t n = v->op->nresults;
  if (n < 1 || v->op->noperands != 2 * n + 1)
    return vf_fail(v, "has %lld operands and %lld results", (long long)v->op->noperands,
                   (long long)n);
  for (int64_t i = 0; i < 2 * n + 1; i++) TRY(need_tensor(v, i));
  TRY(body_args(v, 0, 2 * n));
  TRY(body_results(v, 0, n));
  const MlirType *x = vf_in(v, 0), *ind = vf_in(v, n), *up = vf_in(v, n + 1);
  if (!vf_ranked(x) || !vf_ranked(ind) || !vf_ranked(up)) return TENON_OK;
  int64_t at = mlir_int(mlir_field(d, "index_vector_dim"), 0);
  if (at < 0 || at > ind->rank) return vf_fail(v, "index_vector_dim %lld", (long long)at);
  TRY(distinct_dims(v, list_of(v, mlir_field(d, "update_window_dims")), up->rank,
                    "update_window_dims"));
  TRY(distinct_dims(v, list_of(v, mlir_field(d, "inserted_window_dims")), x->rank,
                    "inserted_window_dims"));
  TRY(distinct_dims(v, list_of(v, mlir_field(d, "input_batching_dims")), x->rank,
                    "input_batching_dims"));
  TRY(distinct_dims(v, list_of(v, mlir_field(d, "scatter_indices_batching_dims")), ind->rank,
                    "scatter_indices_batching_dims"));
  List map = list_of(v, mlir_field(d, "scatter_dims_to_operand_dims"));
  TRY(distinct_dims(v, map, x->rank, "scatter_dims_to_operand_dims"));
  int64_t width = at == ind->rank ? 1 : ind->dims[at];
  if (!vf_dims_agree(width, map.n))
    return vf_fail(v, "scatter_dims_to_operand_dims has %lld dimensions for indices of %lld",
                   (long long)map.n, (long long)width);
  return TENON_OK;
}

static tenon_status select_scatter_rule(Verify *v) {
  for (int i = 0; i < 3; i++) TRY(need_tensor(v, i));
  for (int r = 0; r < 2; r++) {
    TRY(body_args(v, r, 2));
    TRY(body_results(v, r, 1));
  }
  if (!vf_ranked(vf_in(v, 0))) return TENON_OK;
  TRY(list_length(v, "window_dimensions", vf_in(v, 0)->rank));
  TRY(list_length(v, "window_strides", vf_in(v, 0)->rank));
  return list_length(v, "padding", 2 * vf_in(v, 0)->rank);
}

// ---- the table ----

static const struct {
  VerifyFn *rule;
  const char *ops;  // words between spaces, one behind the last
} rules[] = {
    {same_types,
     "add atan2 cbrt ceil cosine divide exponential exponential_minus_one floor log "
     "log_plus_one logistic maximum minimum multiply negate not power remainder round_nearest_afz "
     "round_nearest_even rsqrt shift_left shift_right_arithmetic shift_right_logical sign sine "
     "sqrt "
     "subtract tan tanh and or xor popcnt count_leading_zeros reduce_precision "},
    {same_shapes, "abs complex convert real imag is_finite uniform_quantize uniform_dequantize "},
    {compare_rule, "compare "},
    {select_rule, "select "},
    {clamp_rule, "clamp "},
    {constant_rule, "constant "},
    {broadcast_rule, "broadcast_in_dim dynamic_broadcast_in_dim "},
    {transpose_rule, "transpose "},
    {reshape_rule, "reshape "},
    {concatenate_rule, "concatenate "},
    {slice_rule, "slice "},
    {pad_rule, "pad "},
    {iota_rule, "iota dynamic_iota "},
    {reverse_rule, "reverse "},
    {dimension_rule, "get_dimension_size set_dimension_size "},
    {dynamic_slice_rule, "dynamic_slice dynamic_update_slice "},
    {tuple_element_rule, "get_tuple_element "},
    {dot_rule, "dot_general "},
    {conv_rule, "convolution dynamic_conv "},
    {reduce_rule, "reduce "},
    {window_rule, "reduce_window "},
    {sort_rule, "sort "},
    {while_rule, "while "},
    {branch_rule, "if case "},
    {gather_rule, "gather dynamic_gather "},
    {scatter_rule, "scatter "},
    {select_scatter_rule, "select_and_scatter "},
};

VerifyFn *vf_rule(const char *op) {
  const char *dot = strchr(op, '.');
  if (!dot || !str_starts(str_of(op), "stablehlo.")) return NULL;
  size_t n = strlen(dot + 1);
  for (int i = 0; i < ARRAY_LEN(rules); i++)
    for (const char *at = rules[i].ops; *at; at = strchr(at, ' ') + 1)
      if (!strncmp(at, dot + 1, n) && at[n] == ' ') return rules[i].rule;
  return NULL;
}
