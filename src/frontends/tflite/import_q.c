// import_q.c -- operands of quantised operators; between floats and integers (import_q.h).
#include <math.h>

#include "eval/movement.h"
#include "eval/scalar.h"
#include "frontends/tflite/import_q.h"

static const QTable *const tables[] = {&tfl_q_product, &tfl_q_elementwise, &tfl_q_shape};

TflFn *tfl_quantized(int64_t code) {
  for (int64_t t = 0; t < (int64_t)ARRAY_LEN(tables); t++)
    for (int64_t i = 0; i < tables[t]->n; i++)
      if (tables[t]->row[i].code == code) return tables[t]->row[i].fn;
  // These work on values of either kind.
  static const TflTable *const both[] = {&tfl_quant, &tfl_recurrent};
  for (int64_t t = 0; t < (int64_t)ARRAY_LEN(both); t++)
    for (int64_t i = 0; i < both[t]->n; i++)
      if (both[t]->row[i].code == code) return both[t]->row[i].fn;
  return NULL;
}

// ---- operands ----

static bool params(TflOp *op, const TflTensor *t, QArg *out) {
  Arena *a = &op->g->arena;
  out->t = t->dtype;
  out->n = t->scale.n;
  out->axis = t->qaxis;
  if (!out->n) return true;
  if (t->zero.n && t->zero.n != 1 && t->zero.n != out->n) {
    tfl_fail(op, "'%s' has %lld scales and %lld zero points", t->name, (long long)out->n,
             (long long)t->zero.n);
    return false;
  }
  float *scale = arena_array(a, float, out->n);
  int64_t *zero = arena_array(a, int64_t, out->n);
  for (int64_t i = 0; i < out->n; i++) {
    scale[i] = (float)fb_f32_at(&t->scale, i);
    zero[i] = t->zero.n ? fb_i64_at(&t->zero, t->zero.n > 1 ? i : 0) : 0;
    bool fits = zero[i] >= INT32_MIN && zero[i] <= INT32_MAX;
    if (isfinite(scale[i]) && scale[i] >= 0 && fits) continue;
    tfl_fail(op, "'%s' has the scale %g and the zero point %lld", t->name, (double)scale[i],
             (long long)zero[i]);
    return false;
  }
  out->scale = scale;
  out->zero = zero;
  return true;
}

bool q_any(TflOp *op, int i, QArg *out) {
  *out = (QArg){0};
  const TflTensor *t = tfl_in_tensor(op, i);
  if (!t) return !op->g->status;
  out->x = tfl_in(op, i);
  if (op->g->status || !params(op, t, out)) return false;
  if (t->dtype == DT_I4 || t->dtype == DT_I2) {
    out->x = quant_cast(op->g, out->x, DT_I8);
    out->t = DT_I8;
  }
  return !op->g->status;
}

bool q_in(TflOp *op, int i, QArg *out) {
  if (!q_any(op, i, out)) return false;
  if (!out->x || !out->n) {
    tfl_fail(op, "input %d is %s", i, out->x ? "not quantised" : "missing");
    return false;
  }
  return true;
}

// One scale for all, or one a channel.
static bool q_result(TflOp *op, int i, QArg *out) {
  *out = (QArg){0};
  const TflTensor *t = tfl_out_tensor(op, i);
  if (!t || op->g->status || !params(op, t, out)) return false;
  if (!out->n) {
    tfl_fail(op, "output %d, '%s', is not quantised", i, t->name);
    return false;
  }
  return true;
}

bool q_out(TflOp *op, int i, QArg *out) { return q_result(op, i, out) && q_single(op, out); }

bool q_single(TflOp *op, const QArg *a) {
  if (a->n == 1) return true;
  tfl_fail(op, "a scale for each channel of an operand that must have one for all");
  return false;
}

void q_range(TflOp *op, const QArg *y, int64_t activation, int64_t *lo, int64_t *hi) {
  static const struct {
    float least, most;
    bool below, above;
  } acts[] = {[ACT_NONE] = {0, 0, false, false},
              [ACT_RELU] = {0, 0, true, false},
              [ACT_RELU_N1_TO_1] = {-1, 1, true, true},
              [ACT_RELU6] = {0, 6, true, true}};
  *lo = quant_min(y->t);
  *hi = quant_max(y->t);
  if (activation < 0 || activation >= (int64_t)ARRAY_LEN(acts)) {
    tfl_fail(op, "fused activation %lld", (long long)activation);
    return;
  }
  float scale = q_scale(y);
  if (acts[activation].below)
    *lo = MAX(*lo, q_zero(y) + (int64_t)roundf(MAX(acts[activation].least / scale, -1e9f)));
  if (acts[activation].above)
    *hi = MIN(*hi, q_zero(y) + (int64_t)roundf(MIN(acts[activation].most / scale, 1e9f)));
}

void q_give(TflOp *op, const QArg *to, Node *y, int64_t activation) {
  Graph *g = op->g;
  int64_t lo, hi;
  q_range(op, to, activation, &lo, &hi);
  if (q_zero(to)) y = N(g, add, y, node_i64(g, q_zero(to)));
  tfl_give(op, 0, quant_narrow(g, y, lo, hi, to->t));
}

Node *q_table(TflOp *op, Node *x, DType t, const int64_t *value) {
  enum { MOST_TABLE_BYTES = 1 << 27 };
  if (op->g->status) return op->g->poison;
  op->im->table_bytes += type_of(x)->dtype == DT_I16 ? 65536 * 2 : 256;
  if (op->im->table_bytes > MOST_TABLE_BYTES)
    return tfl_fail(op, "more than %d MiB of tables", MOST_TABLE_BYTES >> 20);
  return quant_table(op->g, x, t, value);
}

Node *q_zero_node(TflOp *op, const QArg *a) {
  Graph *g = op->g;
  bool any = false;
  for (int64_t i = 0; i < a->n; i++) {
    any = any || a->zero[i];
    if (a->zero[i] < quant_min(a->t) || a->zero[i] > quant_max(a->t))
      return tfl_fail(op, "the zero point %lld is no value of %s", (long long)a->zero[i],
                      dtype_name(a->t));
  }
  if (!any) return g->none;
  return quant_cast(g, quant_const(g, a->n, a->zero), a->t);
}

QMul q_product(const QArg *x, const QArg *w, const QArg *y) {
  float both = q_scale(x) * q_scale(w);
  return quant_multiplier((double)both / (double)q_scale(y));
}

// ---- floats and integers ----

// Scales or zero points along x's axis, to be broadcast.
static Node *along(TflOp *op, const QArg *a, bool zeros) {
  Graph *g = op->g;
  double *v = arena_array(&g->arena, double, a->n);
  for (int64_t i = 0; i < a->n; i++) v[i] = zeros ? (double)a->zero[i] : (double)a->scale[i];
  if (a->n == 1) return node_scalar(g, DT_F32, v[0]);
  int rank = tfl_rank(op, a->x);
  int64_t axis = tfl_axis(op, a->axis, rank), dims[MAX_RANK];
  for (int i = 0; i < rank; i++) dims[i] = i == axis ? a->n : 1;
  return tb_reshape(g, tb_vector(g, DT_F32, a->n, v), rank, dims);
}

static void dequantize(TflOp *op) {
  Graph *g = op->g;
  QArg x;
  if (!q_any(op, 0, &x) || !x.x) {
    tfl_need(op, 1, 1);
    return;
  }
  if (!x.n && dtype_is_int(x.t)) {
    tfl_fail(op, "the operand has no scale");
    return;
  }
  Node *y = quant_cast(g, x.x, DT_F32);
  if (x.n && dtype_is_int(x.t))
    y = N(g, mul, N(g, sub, y, along(op, &x, true)), along(op, &x, false));
  const TflTensor *to = tfl_out_tensor(op, 0);
  tfl_give(op, 0, to ? quant_cast(g, y, to->dtype) : y);
}

static void quantize(TflOp *op) {
  Graph *g = op->g;
  QArg x, y;
  if (!q_any(op, 0, &x) || !q_result(op, 0, &y)) return;
  if (x.t == DT_F32) {
    y.x = x.x;  // its axes
    Node *q = N(g, div, x.x, along(op, &y, false));
    q = N(g, add, quant_round_node(g, q), quant_cast(g, along(op, &y, true), DT_F64));
    q = N(g, clip, q, node_scalar(g, DT_F64, (double)quant_min(y.t)),
          node_scalar(g, DT_F64, (double)quant_max(y.t)));
    tfl_give(op, 0, quant_cast(g, q, y.t));
    return;
  }
  if (!x.n || !q_single(op, &x) || !q_single(op, &y)) {
    if (!x.n) tfl_fail(op, "input 0 is neither f32 nor quantised");
    return;
  }
  QMul m = quant_multiplier((double)q_scale(&x) / (double)q_scale(&y));
  q_give(op, &y, quant_scale32(g, quant_wide(g, x.x, q_zero(&x)), &m, 1), ACT_NONE);
}

static const TflRow rows[] = {
    // clang-format off
    {6,   "DEQUANTIZE", dequantize, 6, 0},
    {114, "QUANTIZE",   quantize,   4, 0},
    // clang-format on
};
TFL_TABLE(quant);
