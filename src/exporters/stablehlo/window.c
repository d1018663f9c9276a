// window.c -- convolutions, pools and gathers as StableHLO.
#include "eval/contract.h"
#include "eval/index.h"
#include "eval/window.h"
#include "exporters/stablehlo/write.h"

#include <math.h>

// Along each spatial axis: taps, step between windows, distance of taps, and what is added in front
// and behind so that the result has the size that the graph says.
typedef struct Taps {
  int n;
  int64_t taps[MAX_RANK], step[MAX_RANK], dilation[MAX_RANK], low[MAX_RANK], high[MAX_RANK];
} Taps;

static int64_t or_one(Ints v, int i) { return i < v.n ? v.v[i] : 1; }

static void fill_window(Taps *w, const Type *x, const Type *y, Ints strides, Ints dilations,
                        Ints pads, int auto_pad) {
  for (int i = 0; i < w->n; i++) {
    int64_t in = x->dims[i + 2]->value, out = y->dims[i + 2]->value;
    w->step[i] = or_one(strides, i);
    w->dilation[i] = or_one(dilations, i);
    int64_t total = (out - 1) * w->step[i] + (w->taps[i] - 1) * w->dilation[i] + 1 - in;
    int64_t same = MAX(total, 0);
    w->low[i] = auto_pad == PAD_SAME_UPPER   ? same / 2
                : auto_pad == PAD_SAME_LOWER ? same - same / 2
                : i < pads.n                 ? pads.v[i]
                                             : 0;
    w->high[i] = total - w->low[i];  // negative: what no window reaches is left out
  }
}

static const char *padding(HloOut *o, const Taps *w, int front) {
  StrBuf b;
  strbuf_init(&b, o->arena);
  strbuf_puts(&b, "padding = dense<[");
  for (int i = 0; i < front; i++) strbuf_puts(&b, i ? ", [0, 0]" : "[0, 0]");
  for (int i = 0; i < w->n; i++)
    strbuf_printf(&b, "%s[%lld, %lld]", front || i ? ", " : "", (long long)w->low[i],
                  (long long)w->high[i]);
  strbuf_printf(&b, "]> : tensor<%dx2xi64>", front + w->n);
  return strbuf_text(&b);
}

static void spatial(StrBuf *b, int n) {
  for (int i = 0; i < n; i++) strbuf_printf(b, ", %d", i);
}

static HloValue convolution(HloOut *o, const Node *n, const HloValue in[2]) {
  const conv_attrs *at = n->attrs;
  Taps w = {.n = in[0].type->rank - 2};
  StrBuf b;
  if (at->channels_last || w.n < 1) return hlo_out_refuse(o, n, "its channels must come first");
  for (int i = 0; i < w.n; i++) w.taps[i] = in[1].type->dims[i + 2]->value;
  fill_window(&w, in[0].type, type_of(n), at->strides, at->dilations, at->pads, at->auto_pad);
  strbuf_init(&b, o->arena);
  strbuf_puts(&b, "dimension_numbers = #stablehlo.conv<[b, f");
  spatial(&b, w.n);
  strbuf_puts(&b, "]x[o, i");
  spatial(&b, w.n);
  strbuf_puts(&b, "]->[b, f");
  spatial(&b, w.n);
  strbuf_printf(&b, "]>, batch_group_count = 1 : i64, feature_group_count = %lld : i64, %s, %s, %s",
                (long long)at->group, padding(o, &w, 0),
                hlo_out_ints(o, "window_strides", w.n, w.step),
                hlo_out_ints(o, "rhs_dilation", w.n, w.dilation));
  return hlo_out_op(o, "stablehlo.convolution", 2, in, strbuf_text(&b), type_of(n));
}

HloValue hlo_out_convolution(HloOut *o, const Node *n, const char *word) {
  (void)word;
  return convolution(o, n, (HloValue[]){hlo_out_source(o, n, 0), hlo_out_source(o, n, 1)});
}

// Bytes less their zero points, in 32 bits: what is padded is 0 then.  A zero point is one number,
// or one an output channel.
static HloValue less_zero(HloOut *o, const Node *n, uint32_t i) {
  HloValue x = hlo_out_source(o, n, i);
  const Type *t = type_with_dtype(o->g, x.type, DT_I32);
  x = hlo_out_op(o, "stablehlo.convert", 1, &x, NULL, t);
  if (!src_or_null(o->g, n, i + 2)) return x;
  HloValue z = hlo_out_source(o, n, i + 2);
  z = hlo_out_op(o, "stablehlo.convert", 1, &z, NULL, type_with_dtype(o->g, z.type, DT_I32));
  bool single = !z.type->rank || ie_is(z.type->dims[0], 1);
  if (single) z = hlo_out_reshape(o, z, type_scalar(o->g, DT_I32));
  z = hlo_out_op(o, "stablehlo.broadcast_in_dim", 1, &z,
                 hlo_out_ints(o, "broadcast_dimensions", !single, (int64_t[]){0}), t);
  return hlo_out_op(o, "stablehlo.subtract", 2, (HloValue[]){x, z}, NULL, t);
}

HloValue hlo_out_conv_integer(HloOut *o, const Node *n, const char *word) {
  (void)word;
  return convolution(o, n, (HloValue[]){less_zero(o, n, 0), less_zero(o, n, 1)});
}

static HloValue reduce_window(HloOut *o, const Taps *w, HloValue x, double start, const char *join,
                              const Type *t) {
  int64_t taps[MAX_RANK] = {1, 1}, step[MAX_RANK] = {1, 1}, dilation[MAX_RANK] = {1, 1};
  for (int i = 0; i < w->n; i++)
    taps[i + 2] = w->taps[i], step[i + 2] = w->step[i], dilation[i + 2] = w->dilation[i];
  const char *attrs =
      str_printf(o->arena, "%s, %s, %s, %s", hlo_out_ints(o, "window_dimensions", w->n + 2, taps),
                 hlo_out_ints(o, "window_strides", w->n + 2, step),
                 hlo_out_ints(o, "window_dilations", w->n + 2, dilation), padding(o, w, 2));
  HloValue in[2] = {x, hlo_out_scalar(o, t->dtype, start)};
  return hlo_out_joining(o, "stablehlo.reduce_window", 2, in, attrs, join, t);
}

// A mean divides by the elements that a window has: all taps, or those within the image, which a
// sum of ones counts.
static HloValue mean_pool(HloOut *o, const Node *n, const Taps *w) {
  const average_pool_attrs *at = n->attrs;
  const Type *t = type_of(n);
  HloValue x = hlo_out_source(o, n, 0), sum = reduce_window(o, w, x, 0, "stablehlo.add", t), count;
  int64_t all = 1;
  bool padded = false, beyond = false;
  for (int i = 0; i < w->n; i++) {
    all *= w->taps[i];
    padded |= w->low[i] > 0 || w->high[i] > 0;
    beyond |= w->high[i] > (i + w->n < at->pads.n ? at->pads.v[i + w->n] : 0);
  }
  if (at->count_include_pad && beyond && at->ceil_mode)
    return hlo_out_refuse(o, n, "a mean over padding that ends within a window");
  if (padded && !at->count_include_pad)
    count = reduce_window(o, w, hlo_out_spread(o, hlo_out_scalar(o, t->dtype, 1), x.type), 0,
                          "stablehlo.add", t);
  else
    count = hlo_out_spread(o, hlo_out_scalar(o, t->dtype, (double)all), t);
  return hlo_out_op(o, "stablehlo.divide", 2, (HloValue[]){sum, count}, NULL, t);
}

HloValue hlo_out_pool(HloOut *o, const Node *n, const char *word) {
  const Type *x = type_of(n->src[0]), *y = type_of(n);
  Taps w = {.n = x->rank - 2};
  if (w.n < 1 || !dtype_is_float(y->dtype))
    return hlo_out_refuse(o, n, "only images of floats are pooled");
  if (n->op == OP_average_pool) {
    const average_pool_attrs *at = n->attrs;
    if (at->channels_last) return hlo_out_refuse(o, n, "its channels must come first");
    for (int i = 0; i < w.n; i++) w.taps[i] = at->kernel_shape.v[i];
    fill_window(&w, x, y, at->strides, at->dilations, at->pads, at->auto_pad);
    return mean_pool(o, n, &w);
  }
  const max_pool_attrs *at = n->attrs;
  if (at->channels_last || n->nres > 1)
    return hlo_out_refuse(o, n, "its indices cannot be written");
  for (int i = 0; i < w.n; i++) w.taps[i] = at->kernel_shape.v[i];
  fill_window(&w, x, y, at->strides, at->dilations, at->pads, at->auto_pad);
  return reduce_window(o, &w, hlo_out_source(o, n, 0), -INFINITY, word, y);
}

// An index below 0 counts from the end, which StableHLO does not know.
static HloValue count_from_end(HloOut *o, HloValue i, const Type *x, int64_t axis) {
  const Type *flags = type_with_dtype(o->g, i.type, DT_BOOL);
  double size = (double)x->dims[axis + (axis < 0 ? x->rank : 0)]->value;
  HloValue zero = hlo_out_spread(o, hlo_out_scalar(o, i.type->dtype, 0), i.type);
  HloValue sizes = hlo_out_spread(o, hlo_out_scalar(o, i.type->dtype, size), i.type);
  HloValue below = hlo_out_op(o, "stablehlo.compare", 2, (HloValue[]){i, zero},
                              "comparison_direction = #stablehlo<comparison_direction LT>", flags);
  HloValue from_end = hlo_out_op(o, "stablehlo.add", 2, (HloValue[]){i, sizes}, NULL, i.type);
  return hlo_out_op(o, "stablehlo.select", 3, (HloValue[]){below, from_end, i}, NULL, i.type);
}

// A gather out of nothing is not sound, not even of nothing: such a result is a constant.
static bool is_empty(const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (ie_is(t->dims[i], 0)) return true;
  return false;
}
static HloValue nothing(HloOut *o, const Type *t) {
  return hlo_out_spread(o, hlo_out_scalar(o, t->dtype, 0), t);
}

// Rows of x along an axis.
HloValue hlo_out_gather(HloOut *o, const Node *n, const char *word) {
  int64_t axis = ((const gather_attrs *)n->attrs)->axis, sizes[MAX_RANK];
  HloValue x = hlo_out_source(o, n, 0), i = hlo_out_source(o, n, 1);
  StrBuf b;
  Ints known;
  bool positive = node_ints(o->g, n->src[1], &known);
  (void)word;
  if (is_empty(type_of(n))) return nothing(o, type_of(n));
  axis += axis < 0 ? x.type->rank : 0;
  for (int64_t k = 0; positive && k < known.n; k++) positive = known.v[k] >= 0;
  if (!positive) i = count_from_end(o, i, x.type, axis);
  for (int k = 0; k < x.type->rank; k++) sizes[k] = k == axis ? 1 : x.type->dims[k]->value;
  strbuf_init(&b, o->arena);
  strbuf_puts(&b, "dimension_numbers = #stablehlo.gather<offset_dims = [");
  for (int k = 0, first = 1; k < type_of(n)->rank; k++)
    if (k < axis || k >= axis + i.type->rank) {
      strbuf_printf(&b, "%s%d", first ? "" : ", ", k);
      first = 0;
    }
  strbuf_printf(&b,
                "], collapsed_slice_dims = [%lld], start_index_map = [%lld], index_vector_dim = "
                "%d>, indices_are_sorted = false, %s",
                (long long)axis, (long long)axis, i.type->rank,
                hlo_out_ints(o, "slice_sizes", x.type->rank, sizes));
  return hlo_out_op(o, "stablehlo.gather", 2, (HloValue[]){x, i}, strbuf_text(&b), type_of(n));
}

// ---- positions ----

static HloValue iota(HloOut *o, const Type *t, int64_t axis) {
  return hlo_out_op(o, "stablehlo.iota", 0, NULL,
                    str_printf(o->arena, "iota_dimension = %lld : i64", (long long)axis), t);
}

HloValue hlo_out_range(HloOut *o, const Node *n, const char *word) {
  const Type *t = type_of(n), *scalar = type_scalar(o->g, t->dtype);
  HloValue at = iota(o, t, 0), start = hlo_out_reshape(o, hlo_out_source(o, n, 0), scalar),
           step = hlo_out_reshape(o, hlo_out_source(o, n, 2), scalar);
  (void)word;
  HloValue far =
      hlo_out_op(o, "stablehlo.multiply", 2, (HloValue[]){at, hlo_out_spread(o, step, t)}, NULL, t);
  return hlo_out_op(o, "stablehlo.add", 2, (HloValue[]){far, hlo_out_spread(o, start, t)}, NULL, t);
}

// Every element's place in full: its own along all axes but one.
HloValue hlo_out_gather_elements(HloOut *o, const Node *n, const char *word) {
  int64_t axis = ((const gather_elements_attrs *)n->attrs)->axis, ones[MAX_RANK];
  HloValue x = hlo_out_source(o, n, 0),
           i = count_from_end(o, hlo_out_source(o, n, 1), x.type, axis), part[MAX_RANK];
  int rank = x.type->rank;
  Dim dims[MAX_RANK + 1];
  StrBuf b;
  (void)word;
  if (!rank || rank >= MAX_RANK) return hlo_out_refuse(o, n, "its rank");
  if (is_empty(type_of(n))) return nothing(o, type_of(n));
  axis += axis < 0 ? rank : 0;
  for (int k = 0; k < rank; k++) dims[k] = i.type->dims[k], ones[k] = 1;
  dims[rank] = o->g->dims.one;
  const Type *single = type_tensor(o->g, i.type->dtype, rank + 1, dims);
  for (int k = 0; k < rank; k++)
    part[k] = hlo_out_reshape(o, k == axis ? i : iota(o, i.type, k), single);
  dims[rank] = ie_const(&o->g->dims, rank);
  HloValue places = hlo_out_op(o, "stablehlo.concatenate", rank, part,
                               str_printf(o->arena, "dimension = %d : i64", rank),
                               type_tensor(o->g, i.type->dtype, rank + 1, dims));
  strbuf_init(&b, o->arena);
  for (int k = 0; k < rank; k++) strbuf_printf(&b, "%s%d", k ? ", " : "", k);
  const char *all = strbuf_text(&b);
  const char *attrs =
      str_printf(o->arena,
                 "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [%s], "
                 "start_index_map = [%s], index_vector_dim = %d>, indices_are_sorted = false, %s",
                 all, all, rank, hlo_out_ints(o, "slice_sizes", rank, ones));
  return hlo_out_op(o, "stablehlo.gather", 2, (HloValue[]){x, places}, attrs, type_of(n));
}

static HloValue reduce_axis(HloOut *o, HloValue x, int64_t axis, double start, const char *join) {
  Dim kept[MAX_RANK];
  int n = 0;
  for (int k = 0; k < x.type->rank; k++)
    if (k != axis) kept[n++] = x.type->dims[k];
  HloValue in[2] = {x, hlo_out_scalar(o, x.type->dtype, start)};
  return hlo_out_joining(o, "stablehlo.reduce", 2, in, hlo_out_ints(o, "dimensions", 1, &axis),
                         join, type_tensor(o->g, x.type->dtype, n, kept));
}

// The first, or last, place that holds the extreme value.
HloValue hlo_out_arg(HloOut *o, const Node *n, const char *word) {
  const arg_attrs *at = n->attrs;
  HloValue x = hlo_out_source(o, n, 0);
  const Type *t = x.type, *places = type_with_dtype(o->g, t, DT_I64),
             *flags = type_with_dtype(o->g, t, DT_BOOL);
  bool most = !strcmp(word, "stablehlo.maximum"), last = at->select_last_index;
  if (!dtype_is_float(t->dtype) || !t->rank)
    return hlo_out_refuse(o, n, "only floats are searched");
  int64_t axis = at->axis + (at->axis < 0 ? t->rank : 0), across[MAX_RANK];
  int count = 0;
  for (int k = 0; k < t->rank; k++)
    if (k != axis) across[count++] = k;
  HloValue best = reduce_axis(o, x, axis, most ? -INFINITY : INFINITY, word);
  HloValue wide = hlo_out_op(o, "stablehlo.broadcast_in_dim", 1, &best,
                             hlo_out_ints(o, "broadcast_dimensions", count, across), t);
  HloValue is = hlo_out_op(o, "stablehlo.compare", 2, (HloValue[]){x, wide},
                           "comparison_direction = #stablehlo<comparison_direction EQ>", flags);
  double outside = last ? -1 : (double)t->dims[axis]->value;
  HloValue place =
      hlo_out_op(o, "stablehlo.select", 3,
                 (HloValue[]){is, iota(o, places, axis),
                              hlo_out_spread(o, hlo_out_scalar(o, DT_I64, outside), places)},
                 NULL, places);
  return hlo_out_reshape(
      o, reduce_axis(o, place, axis, outside, last ? "stablehlo.maximum" : "stablehlo.minimum"),
      type_of(n));
}
