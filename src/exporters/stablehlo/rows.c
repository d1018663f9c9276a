// rows.c -- how each op of the graph is said in StableHLO, and what is said by other ops of the
// graph.
#include "eval/contract.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
#include "exporters/stablehlo/write.h"

#include <math.h>

// ---- element by element ----

static HloValue elementwise(HloOut *o, const Node *n, const char *word) {
  HloValue in[3];
  for (uint32_t i = 0; i < n->nsrc && i < 3; i++)
    in[i] = hlo_out_spread(o, hlo_out_source(o, n, i), type_of(n));
  return hlo_out_op(o, word, (int)n->nsrc, in, NULL, type_of(n));
}

static HloValue shift_right(HloOut *o, const Node *n, const char *word) {
  bool sign = dtype_class(type_of(n)->dtype) == DC_INT;
  (void)word;
  return elementwise(o, n,
                     sign ? "stablehlo.shift_right_arithmetic" : "stablehlo.shift_right_logical");
}

static HloValue compare(HloOut *o, const Node *n, const char *word) {
  HloValue in[2];
  for (uint32_t i = 0; i < 2; i++)
    in[i] = hlo_out_spread(o, hlo_out_source(o, n, n->nsrc == 2 ? i : 0), type_of(n));
  const char *attrs =
      str_printf(o->arena, "comparison_direction = #stablehlo<comparison_direction %s>", word);
  return hlo_out_op(o, "stablehlo.compare", 2, in, attrs, type_of(n));
}

static HloValue convert(HloOut *o, const Node *n, const char *word) {
  HloValue x = hlo_out_source(o, n, 0);
  return hlo_out_op(o, word, 1, &x, NULL, type_of(n));
}

// A bool is a bit there.
static HloValue bit_cast(HloOut *o, const Node *n, const char *word) {
  if (type_of(n)->dtype == DT_BOOL || type_of(n->src[0])->dtype == DT_BOOL)
    return hlo_out_refuse(o, n, "a bool has another width");
  return convert(o, n, word);
}

// ---- movement ----

static HloValue reshape(HloOut *o, const Node *n, const char *word) {
  (void)word;
  return hlo_out_reshape(o, hlo_out_source(o, n, 0), type_of(n));
}

static HloValue spread(HloOut *o, const Node *n, const char *word) {
  (void)word;
  return hlo_out_spread(o, hlo_out_source(o, n, 0), type_of(n));
}

static HloValue transpose(HloOut *o, const Node *n, const char *word) {
  const transpose_attrs *at = n->attrs;
  int rank = type_of(n)->rank;
  int64_t perm[MAX_RANK];
  for (int i = 0; i < rank; i++) perm[i] = at->perm.n ? at->perm.v[i] : rank - 1 - i;
  for (int i = 0; i < rank; i++) perm[i] += perm[i] < 0 ? rank : 0;
  HloValue x = hlo_out_source(o, n, 0);
  return hlo_out_op(o, word, 1, &x, hlo_out_ints(o, "permutation", rank, perm), type_of(n));
}

static HloValue concat(HloOut *o, const Node *n, const char *word) {
  int64_t axis = ((const concat_attrs *)n->attrs)->axis;
  HloValue *in = arena_array(o->arena, HloValue, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) in[i] = hlo_out_source(o, n, i);
  axis += axis < 0 ? type_of(n)->rank : 0;
  return hlo_out_op(o, word, (int)n->nsrc, in,
                    str_printf(o->arena, "dimension = %lld : i64", (long long)axis), type_of(n));
}

static HloValue put_slice(HloOut *o, HloValue x, const int64_t *start, const int64_t *end,
                          const int64_t *step, const Type *t) {
  const char *attrs = str_printf(
      o->arena, "%s, %s, %s", hlo_out_ints(o, "start_indices", t->rank, start),
      hlo_out_ints(o, "limit_indices", t->rank, end), hlo_out_ints(o, "strides", t->rank, step));
  return hlo_out_op(o, "stablehlo.slice", 1, &x, attrs, t);
}

// The part of a split that a projection stands for: behind those before it.
static HloValue split(HloOut *o, const Node *p, const char *word) {
  (void)word;
  const Node *n = p->src[0];
  const split_attrs *at = n->attrs;
  const Type *t = type_of(n->src[0]);
  int64_t axis = at->axis + (at->axis < 0 ? t->rank : 0), start[MAX_RANK] = {0}, end[MAX_RANK],
          step[MAX_RANK], before = 0;
  for (int i = 0; i < n->nres && n->type[i] != NULL; i++) {
    if (i == *(const int64_t *)p->attrs) break;
    before += n->type[i]->dims[axis]->value;
  }
  for (int i = 0; i < t->rank; i++) {
    start[i] = i == axis ? before : 0;
    end[i] = start[i] + type_of(p)->dims[i]->value;
    step[i] = 1;
  }
  return put_slice(o, hlo_out_source(o, n, 0), start, end, step, type_of(p));
}

// A step backwards is one forwards over the axis the other way round.
static HloValue slice(HloOut *o, const Node *n, const char *word) {
  (void)word;
  Ints part[4] = {{0}};  // starts, ends, axes, steps
  const Type *t = type_of(n->src[0]);
  int64_t start[MAX_RANK], end[MAX_RANK], step[MAX_RANK], reversed[MAX_RANK], nreversed = 0;
  for (uint32_t i = 1; i < 5; i++)
    if (src_or_null(o->g, n, i) && !node_ints(o->g, n->src[i], &part[i - 1]))
      return hlo_out_refuse(o, n, "its bounds are not constants");
  for (int i = 0; i < t->rank; i++) start[i] = 0, end[i] = t->dims[i]->value, step[i] = 1;
  for (int64_t k = 0; k < part[0].n; k++) {
    int64_t axis = part[2].n ? part[2].v[k] : k, size, s = part[3].n ? part[3].v[k] : 1,
            a = part[0].v[k];
    axis += axis < 0 ? t->rank : 0;
    size = t->dims[axis]->value;
    int64_t count = type_of(n)->dims[axis]->value;
    a += a < 0 ? size : 0;
    a = s > 0 ? MIN(MAX(a, 0), size) : MIN(MAX(a, 0), size - 1);
    if (s < 0) {
      reversed[nreversed++] = axis;
      a = size - 1 - a;
      s = -s;
    }
    if (!count) a = 0;
    start[axis] = a;
    end[axis] = count ? a + (count - 1) * s + 1 : a;
    step[axis] = count ? s : 1;
  }
  HloValue x = hlo_out_source(o, n, 0);
  if (nreversed)
    x = hlo_out_op(o, "stablehlo.reverse", 1, &x,
                   hlo_out_ints(o, "dimensions", nreversed, reversed), t);
  return put_slice(o, x, start, end, step, type_of(n));
}

static HloValue pad(HloOut *o, const Node *n, const char *word) {
  const Type *t = type_of(n->src[0]);
  Ints pads, axes = {0};
  int64_t low[MAX_RANK] = {0}, high[MAX_RANK] = {0}, none[MAX_RANK] = {0};
  if (((const pad_attrs *)n->attrs)->mode != PAD_CONSTANT)
    return hlo_out_refuse(o, n, "only constants are padded with");
  if (!node_ints(o->g, n->src[1], &pads) ||
      (src_or_null(o->g, n, 3) && !node_ints(o->g, n->src[3], &axes)))
    return hlo_out_refuse(o, n, "its pads are not constants");
  int64_t count = pads.n / 2;
  for (int64_t k = 0; k < count; k++) {
    int64_t axis = axes.n ? axes.v[k] : k;
    axis += axis < 0 ? t->rank : 0;
    low[axis] = pads.v[k];
    high[axis] = pads.v[count + k];
  }
  const char *attrs =
      str_printf(o->arena, "%s, %s, %s", hlo_out_ints(o, "edge_padding_low", t->rank, low),
                 hlo_out_ints(o, "edge_padding_high", t->rank, high),
                 hlo_out_ints(o, "interior_padding", t->rank, none));
  HloValue fill = src_or_null(o->g, n, 2)
                      ? hlo_out_reshape(o, hlo_out_source(o, n, 2), type_scalar(o->g, t->dtype))
                      : hlo_out_scalar(o, t->dtype, 0);
  return hlo_out_op(o, word, 2, (HloValue[]){hlo_out_source(o, n, 0), fill}, attrs, type_of(n));
}

static HloValue fill(HloOut *o, const Node *n, const char *word) {
  (void)word;
  HloValue v =
      src_or_null(o->g, n, 1) ? hlo_out_source(o, n, 1) : hlo_out_scalar(o, type_of(n)->dtype, 0);
  return hlo_out_spread(o, hlo_out_reshape(o, v, type_scalar(o->g, type_of(n)->dtype)), type_of(n));
}

// ---- sums and products ----

// What changes nothing.
static double neutral(const char *join, DType t) {
  bool most = !strcmp(join, "stablehlo.maximum"), least = !strcmp(join, "stablehlo.minimum");
  if (!most && !least) return !strcmp(join, "stablehlo.multiply") ? 1 : 0;
  if (dtype_is_float(t)) return most ? -INFINITY : INFINITY;
  if (t == DT_BOOL) return least;
  int bits = dtype_bits(t);
  if (dtype_class(t) == DC_UINT) return most ? 0 : ldexp(1, bits) - 1;
  return most ? -ldexp(1, bits - 1) : ldexp(1, bits - 1) - 1;
}

static HloValue reduce(HloOut *o, const Node *n, const char *word) {
  const reduce_attrs *at = n->attrs;
  const Type *t = type_of(n->src[0]);
  Ints axes = {0};
  bool gone[MAX_RANK] = {false};
  int64_t list[MAX_RANK], nlist = 0;
  Dim kept[MAX_RANK];
  int nkept = 0;
  if (src_or_null(o->g, n, 1) && !node_ints(o->g, n->src[1], &axes))
    return hlo_out_refuse(o, n, "its axes are not constants");
  if (!axes.n && at->noop_with_empty_axes) return hlo_out_source(o, n, 0);
  if (dtype_bits(t->dtype) > 32 && !dtype_is_float(t->dtype) && strstr(word, "imum"))
    return hlo_out_refuse(o, n, "the least 64-bit integer is no double");
  for (int64_t i = 0; i < axes.n; i++) gone[(axes.v[i] + t->rank) % t->rank] = true;
  for (int i = 0; i < t->rank; i++)
    if (gone[i] || !axes.n)
      list[nlist++] = i;
    else
      kept[nkept++] = t->dims[i];
  HloValue in[2] = {hlo_out_source(o, n, 0), hlo_out_scalar(o, t->dtype, neutral(word, t->dtype))};
  HloValue r =
      hlo_out_joining(o, "stablehlo.reduce", 2, in, hlo_out_ints(o, "dimensions", nlist, list),
                      word, type_tensor(o->g, t->dtype, nkept, kept));
  return hlo_out_reshape(o, r, type_of(n));
}

static const char *axis_list(HloOut *o, Ints v, int rank) {
  StrBuf b;
  strbuf_init(&b, o->arena);
  for (int64_t i = 0; i < v.n; i++)
    strbuf_printf(&b, "%s%lld", i ? ", " : "", (long long)(v.v[i] + (v.v[i] < 0 ? rank : 0)));
  return strbuf_text(&b);
}

static HloValue dot(HloOut *o, const Node *n, const char *word) {
  const dot_attrs *at = n->attrs;
  HloValue in[2] = {hlo_out_source(o, n, 0), hlo_out_source(o, n, 1)};
  int l = in[0].type->rank, r = in[1].type->rank;
  const char *attrs =
      str_printf(o->arena,
                 "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [%s], "
                 "rhs_batching_dimensions = [%s], lhs_contracting_dimensions = [%s], "
                 "rhs_contracting_dimensions = [%s]>",
                 axis_list(o, at->batch_lhs, l), axis_list(o, at->batch_rhs, r),
                 axis_list(o, at->contract_lhs, l), axis_list(o, at->contract_rhs, r));
  return hlo_out_op(o, word, 2, in, attrs, type_of(n));
}

// ---- what other ops of the graph say ----

static Node *number(Graph *g, const Node *like, double v) {
  return node_scalar(g, type_of(like)->dtype, v);
}

static Node *rewrite_relu(Graph *g, Node *n) { return N(g, max, n->src[0], number(g, n, 0)); }
static Node *rewrite_reciprocal(Graph *g, Node *n) { return N(g, div, number(g, n, 1), n->src[0]); }
static Node *rewrite_clip(Graph *g, Node *n) {
  Node *x = n->src[0], *lo = src_or_null(g, n, 1), *hi = src_or_null(g, n, 2);
  if (lo) x = N(g, max, x, lo);
  return hi ? N(g, min, x, hi) : x;
}

static Node *rewrite_mean(Graph *g, Node *n) {
  const Type *from = type_of(n->src[0]), *to = type_of(n);
  if (!dtype_is_float(to->dtype) || from->rank < 0 || !type_is_static(from) || !type_is_static(to))
    return NULL;
  Dim a = type_numel(g, from), b = type_numel(g, to);
  if (!a || !b || !b->value) return NULL;
  Node *sum = node_new(g, OP_reduce_sum, (int)n->nsrc, n->src, n->attrs, 1, n->name);
  return N(g, div, sum, number(g, n, (double)(a->value / b->value)));
}

// The bias of a convolution by itself.
static Node *rewrite_conv(Graph *g, Node *n) {
  Node *b = src_or_null(g, n, 2);
  int rank = type_of(n)->rank;
  if (!b || rank < 3 || ((const conv_attrs *)n->attrs)->channels_last) return NULL;
  int64_t axes[MAX_RANK];
  for (int i = 1; i < rank - 1; i++) axes[i - 1] = i;
  Node *y = node_new(g, n->op, 2, n->src, n->attrs, 1, n->name);
  return N(g, add, y, N(g, unsqueeze, b, node_i64s(g, rank - 2, axes)));
}

// A tensor whose contents are known is a constant.
static Node *rewrite_known(Graph *g, Node *n) {
  Ints v;
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || t->dtype != DT_I64 || t->rank > 1 || !node_ints(g, n, &v))
    return NULL;
  return t->rank ? node_i64s(g, v.n, v.v) : node_i64(g, v.v[0]);
}

// Fewest steps: the mean over all that is spatial.
static Node *global_mean(Graph *g, Node *n) {
  int rank = type_of(n)->rank;
  int64_t axes[MAX_RANK];
  for (int i = 2; i < rank; i++) axes[i - 2] = i;
  return rank > 2 ? N(g, reduce_mean, n->src[0], node_i64s(g, rank - 2, axes)) : NULL;
}
static Node *global_max(Graph *g, Node *n) {
  int rank = type_of(n)->rank;
  int64_t axes[MAX_RANK];
  for (int i = 2; i < rank; i++) axes[i - 2] = i;
  return rank > 2 ? N(g, reduce_max, n->src[0], node_i64s(g, rank - 2, axes)) : NULL;
}

// Eight bits of float become infinite or NaN there, where ours stop at the largest.
static Node *rewrite_cast(Graph *g, Node *n) {
  const cast_attrs *at = n->attrs;
  Node *x = n->src[0];
  double most = at->to == DT_F8E4M3 ? 448 : at->to == DT_F8E4M3Z ? 240 : 57344;
  bool narrow =
      at->to == DT_F8E4M3 || at->to == DT_F8E4M3Z || at->to == DT_F8E5M2 || at->to == DT_F8E5M2Z;
  if (!narrow || !at->saturate || !dtype_is_float(type_of(x)->dtype)) return NULL;
  cast_attrs plain = *at;
  plain.saturate = false;
  return NA(g, cast, &plain, N(g, min, N(g, max, x, number(g, x, -most)), number(g, x, most)));
}

// Both operands in one type: the floating one, if there is one.
static Node *rewrite_pow(Graph *g, Node *n) {
  Node *x = n->src[0], *y = n->src[1];
  DType a = type_of(x)->dtype, b = type_of(y)->dtype;
  if (a == b) return NULL;
  DType t = dtype_is_float(a) || !dtype_is_float(b) ? a : b;
  cast_attrs wide = {.to = t, .saturate = true}, back = {.to = a, .saturate = true};
  if (a != t) x = NA(g, cast, &wide, x);
  if (b != t) y = NA(g, cast, &wide, y);
  Node *p = N(g, pow, x, y);
  return a == t ? p : NA(g, cast, &back, p);
}

// Bytes less their zero points, in 32 bits.  One zero point, one a row of the left side or column
// of the right, or a tensor that broadcasts.
static Node *less_zero(Graph *g, Node *x, Node *zero, bool rows) {
  cast_attrs wide = {.to = DT_I32, .saturate = true};
  Node *y = NA(g, cast, &wide, x);
  if (!zero) return y;
  Node *z = NA(g, cast, &wide, zero);
  const Type *t = type_of(zero);
  if (rows && t->rank == 1 && type_of(x)->rank > 1 && !ie_is(t->dims[0], 1))
    z = N(g, unsqueeze, z, node_i64s(g, 1, (int64_t[]){1}));
  return N(g, sub, y, z);
}

static Node *rewrite_integer_product(Graph *g, Node *n) {
  Node *a = less_zero(g, n->src[0], src_or_null(g, n, 2), true);
  Node *b = less_zero(g, n->src[1], src_or_null(g, n, 3), false);
  return N(g, mat_mul, a, b);
}

const RewriteRow hlo_out_rewrites[] = {
    // clang-format off
    {OP_dims,                rewrite_dims},
    {OP_shape,               rewrite_known},
    {OP_size,                rewrite_known},
    {OP_mod,                 rewrite_mod},
    {OP_relu,                rewrite_relu},
    {OP_reciprocal,          rewrite_reciprocal},
    {OP_clip,                rewrite_clip},
    {OP_reduce_mean,         rewrite_mean},
    {OP_conv,                rewrite_conv},
    {OP_cast,                rewrite_cast},
    {OP_pow,                 rewrite_pow},
    {OP_mat_mul_integer,     rewrite_integer_product},
    {OP_unpack_n_bits,       rewrite_unpack},
    {OP_mat_mul_n_bits,      rewrite_product_of_bits},
    {OP_global_average_pool, global_mean},
    {OP_global_max_pool,     global_max},
    // clang-format on
};
const int64_t hlo_out_nrewrites = ARRAY_LEN(hlo_out_rewrites);

static const HloRow rows[] = {
    // clang-format off
    {OP_add,         elementwise, "stablehlo.add"},
    {OP_sub,         elementwise, "stablehlo.subtract"},
    {OP_mul,         elementwise, "stablehlo.multiply"},
    {OP_div,         elementwise, "stablehlo.divide"},
    {OP_fmod,        elementwise, "stablehlo.remainder"},
    {OP_pow,         elementwise, "stablehlo.power"},
    {OP_min,         elementwise, "stablehlo.minimum"},
    {OP_max,         elementwise, "stablehlo.maximum"},
    {OP_and,         elementwise, "stablehlo.and"},
    {OP_or,          elementwise, "stablehlo.or"},
    {OP_xor,         elementwise, "stablehlo.xor"},
    {OP_not,         elementwise, "stablehlo.not"},
    {OP_bit_and,     elementwise, "stablehlo.and"},
    {OP_bit_or,      elementwise, "stablehlo.or"},
    {OP_bit_xor,     elementwise, "stablehlo.xor"},
    {OP_bit_not,     elementwise, "stablehlo.not"},
    {OP_shift_left,  elementwise, "stablehlo.shift_left"},
    {OP_shift_right, shift_right, NULL},
    {OP_neg,         elementwise, "stablehlo.negate"},
    {OP_abs,         elementwise, "stablehlo.abs"},
    {OP_sign,        elementwise, "stablehlo.sign"},
    {OP_ceil,        elementwise, "stablehlo.ceil"},
    {OP_floor,       elementwise, "stablehlo.floor"},
    {OP_round,       elementwise, "stablehlo.round_nearest_even"},
    {OP_sqrt,        elementwise, "stablehlo.sqrt"},
    {OP_exp,         elementwise, "stablehlo.exponential"},
    {OP_log,         elementwise, "stablehlo.log"},
    {OP_sin,         elementwise, "stablehlo.sine"},
    {OP_cos,         elementwise, "stablehlo.cosine"},
    {OP_tan,         elementwise, "stablehlo.tan"},
    {OP_tanh,        elementwise, "stablehlo.tanh"},
    {OP_sigmoid,     elementwise, "stablehlo.logistic"},
    {OP_asin,        elementwise, "chlo.asin"},
    {OP_acos,        elementwise, "chlo.acos"},
    {OP_atan,        elementwise, "chlo.atan"},
    {OP_sinh,        elementwise, "chlo.sinh"},
    {OP_cosh,        elementwise, "chlo.cosh"},
    {OP_asinh,       elementwise, "chlo.asinh"},
    {OP_acosh,       elementwise, "chlo.acosh"},
    {OP_atanh,       elementwise, "chlo.atanh"},
    {OP_erf,         elementwise, "chlo.erf"},
    {OP_where,       elementwise, "stablehlo.select"},
    {OP_eq,          compare,     "EQ"},
    {OP_lt,          compare,     "LT"},
    {OP_le,          compare,     "LE"},
    {OP_is_nan,      compare,     "NE"},
    {OP_cast,        convert,     "stablehlo.convert"},
    {OP_bit_cast,    bit_cast,    "stablehlo.bitcast_convert"},
    {OP_reshape,     reshape,     NULL},
    {OP_flatten,     reshape,     NULL},
    {OP_squeeze,     reshape,     NULL},
    {OP_unsqueeze,   reshape,     NULL},
    {OP_expand,      spread,      NULL},
    {OP_transpose,   transpose,   "stablehlo.transpose"},
    {OP_concat,      concat,      "stablehlo.concatenate"},
    {OP_split,       split,       NULL},
    {OP_slice,       slice,       NULL},
    {OP_pad,         pad,         "stablehlo.pad"},
    {OP_constant_of_shape, fill,  NULL},
    {OP_reduce_sum,  reduce,      "stablehlo.add"},
    {OP_reduce_prod, reduce,      "stablehlo.multiply"},
    {OP_reduce_max,  reduce,      "stablehlo.maximum"},
    {OP_reduce_min,  reduce,      "stablehlo.minimum"},
    {OP_dot,         dot,         "stablehlo.dot_general"},
    {OP_conv,        hlo_out_convolution, NULL},
    {OP_conv_integer, hlo_out_conv_integer, NULL},
    {OP_max_pool,    hlo_out_pool,    "stablehlo.maximum"},
    {OP_average_pool, hlo_out_pool,   "stablehlo.add"},
    {OP_gather,      hlo_out_gather,  NULL},
    {OP_gather_elements, hlo_out_gather_elements, NULL},
    {OP_range,       hlo_out_range,   NULL},
    {OP_arg_max,     hlo_out_arg,     "stablehlo.maximum"},
    {OP_arg_min,     hlo_out_arg,     "stablehlo.minimum"},
    // clang-format on
};

const HloRow *hlo_out_row(int op) {
  for (int64_t i = 0; i < ARRAY_LEN(rows); i++)
    if (rows[i].op == op) return &rows[i];
  return NULL;
}
