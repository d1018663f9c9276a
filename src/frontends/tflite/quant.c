// quant.c -- fixed-point arithmetic in graph ops.
//
// All of it is element-wise in i64, so that it joins the kernel of the sum before it; what is per
// channel is a constant along the last axis.  Functions of 8 or 16 bits are tables.
#include "frontends/tflite/quant.h"
#include "eval/index.h"
#include "eval/scalar.h"

Node *quant_cast(Graph *g, Node *x, DType t) {
  if (g->status || type_of(x)->dtype == t) return x;
  return NA(g, cast, (&(cast_attrs){.to = t, .saturate = true}), x);
}

Node *quant_wide(Graph *g, Node *x, int64_t zero) {
  Node *w = quant_cast(g, x, DT_I64);
  return zero ? N(g, sub, w, node_i64(g, zero)) : w;
}

Node *quant_const(Graph *g, int64_t n, const int64_t *v) {
  return n == 1 ? node_i64(g, v[0]) : node_const(g, DT_I64, 1, &n, v, NULL);
}

int64_t quant_min(DType t) {
  return t == DT_I8 ? INT8_MIN : t == DT_I16 ? INT16_MIN : t == DT_I32 ? INT32_MIN : 0;
}
int64_t quant_max(DType t) {
  return t == DT_I8 ? INT8_MAX : t == DT_I16 ? INT16_MAX : t == DT_I32 ? INT32_MAX : UINT8_MAX;
}

static Node *shift_right(Graph *g, Node *x, Node *by) { return N(g, shift_right, x, by); }

Node *quant_high_mul_node(Graph *g, Node *a, Node *b) {
  Node *p = N(g, add, N(g, mul, a, b), node_i64(g, (int64_t)1 << 30));
  return shift_right(g, p, node_i64(g, 31));
}

Node *quant_shift_node(Graph *g, Node *x, int e) {
  if (e <= 0) return x;
  Node *away = shift_right(g, x, node_i64(g, 63));  // -1 where x is negative
  Node *up = N(g, add, N(g, add, x, node_i64(g, (int64_t)1 << (e - 1))), away);
  return shift_right(g, up, node_i64(g, e));
}

// Shifts of several channels: those that shift by nothing must not be rounded either.
static Node *shift_each(Graph *g, Node *x, const QMul *m, int64_t n) {
  Arena *a = &g->scratch;
  int64_t *by = arena_array(a, int64_t, n), *half = arena_array(a, int64_t, n);
  int64_t *mask = arena_array(a, int64_t, n);
  bool any = false, all = true;
  for (int64_t i = 0; i < n; i++) {
    by[i] = MAX(-m[i].shift, 0);
    half[i] = by[i] ? (int64_t)1 << (by[i] - 1) : 0;
    mask[i] = by[i] ? -1 : 0;
    any |= by[i] > 0;
    all &= by[i] > 0;
  }
  if (!any) return x;
  Node *away = shift_right(g, x, node_i64(g, 63));
  if (!all) away = N(g, bit_and, away, quant_const(g, n, mask));
  Node *up = N(g, add, N(g, add, x, quant_const(g, n, half)), away);
  return shift_right(g, up, quant_const(g, n, by));
}

Node *quant_scale32(Graph *g, Node *x, const QMul *m, int64_t n) {
  ArenaMark mark = arena_mark(&g->scratch);
  int64_t *factor = arena_array(&g->scratch, int64_t, n);
  for (int64_t i = 0; i < n; i++) factor[i] = m[i].m * ((int64_t)1 << MAX(m[i].shift, 0));
  Node *high = quant_high_mul_node(g, x, quant_const(g, n, factor));
  Node *y = n == 1 ? quant_shift_node(g, high, -m->shift) : shift_each(g, high, m, n);
  arena_reset(&g->scratch, mark);
  return y;
}

// (x factor + half) >> by, with a factor and shift each.
static Node *round_once(Graph *g, Node *x, const QMul *m, int64_t n, bool upper) {
  ArenaMark mark = arena_mark(&g->scratch);
  int64_t *v = arena_array(&g->scratch, int64_t, 3 * n), *half = v + n, *by = half + n;
  for (int64_t i = 0; i < n; i++) {
    v[i] = !upper ? m[i].m : m[i].m < 0x7FFF0000 ? (m[i].m + (1 << 15)) >> 16 : 0x7FFF;
    by[i] = MAX((upper ? 15 : 31) - m[i].shift, 0);
    half[i] = by[i] ? (int64_t)1 << (by[i] - 1) : 0;
  }
  Node *p = N(g, add, N(g, mul, x, quant_const(g, n, v)), quant_const(g, n, half));
  Node *y = shift_right(g, p, quant_const(g, n, by));
  arena_reset(&g->scratch, mark);
  return y;
}

Node *quant_scale_once(Graph *g, Node *x, const QMul *m, int64_t n) {
  return round_once(g, x, m, n, false);
}
Node *quant_scale64(Graph *g, Node *x, const QMul *m, int64_t n) {
  return round_once(g, x, m, n, true);
}

Node *quant_clamp(Graph *g, Node *x, int64_t lo, int64_t hi) {
  return N(g, min, N(g, max, x, node_i64(g, lo)), node_i64(g, hi));
}

Node *quant_narrow(Graph *g, Node *x, int64_t lo, int64_t hi, DType t) {
  return quant_cast(g, quant_clamp(g, x, lo, hi), t);
}

Node *quant_table(Graph *g, Node *x, DType t, const int64_t *value) {
  if (g->status) return g->poison;
  int64_t n = type_of(x)->dtype == DT_I16 ? 65536 : 256, bytes;
  CHECK(dtype_bytes(t, n, &bytes), "a table of ours");
  void *table = arena_alloc(&g->arena, bytes);
  for (int64_t i = 0; i < n; i++) put_i64(t, table, i, value[i]);
  // Negative indices count from the end, which is where the bits of negative values are.
  return N(g, gather, node_const(g, t, 1, &n, table, NULL), quant_cast(g, x, DT_I32));
}

Node *quant_round_node(Graph *g, Node *x) {
  Node *d = quant_cast(g, x, DT_F64), *half = node_scalar(g, DT_F64, 0.5);
  return N(g, mul, N(g, sign, d), N(g, floor, N(g, add, N(g, abs, d), half)));
}

Node *quant_leading_zeros(Graph *g, Node *x) {
  Node *zeros = node_i64(g, 0);
  for (int by = 16; by; by /= 2) {
    Node *small = N(g, lt, x, node_i64(g, (int64_t)1 << (32 - by)));
    zeros = N(g, add, zeros, N(g, where, small, node_i64(g, by), node_i64(g, 0)));
    x = N(g, where, small, N(g, shift_left, x, node_i64(g, by)), x);
  }
  return zeros;
}

Node *quant_reciprocal(Graph *g, Node *a) {
  Node *d = shift_right(g, N(g, add, a, node_i64(g, (int64_t)1 << 31)), node_i64(g, 1));
  Node *x = N(g, add, quant_high_mul_node(g, d, node_i64(g, -1010580540)), node_i64(g, 1515870810));
  for (int i = 0; i < 3; i++) {
    Node *miss = N(g, sub, node_i64(g, (int64_t)1 << 29), quant_high_mul_node(g, d, x));
    Node *more = N(g, mul, quant_high_mul_node(g, x, miss), node_i64(g, 4));
    x = N(g, add, x, quant_clamp(g, more, INT32_MIN, INT32_MAX));
  }
  return quant_clamp(g, N(g, mul, x, node_i64(g, 2)), INT32_MIN, INT32_MAX);
}
