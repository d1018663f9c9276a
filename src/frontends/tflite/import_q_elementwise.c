// import_q_elementwise.c -- element-wise operators on quantised values.
//
// Functions of one value are tables over all that its type has, worked out while the model is read;
// operators of two bring both to a common scale with bits to spare, as the reference kernels do.
#include <math.h>

#include "eval/movement.h"
#include "eval/scalar.h"
#include "frontends/tflite/import_q.h"

// ---- one operand ----

// What a table is made from: q is a value of the operand, the answer one of the result, not yet
// clamped.
typedef struct Unary {
  QArg x, y;
  float alpha;
  int64_t lo, hi;
  QMul identity, other;
  int64_t factor;
  int shift, radius;
} Unary;
typedef int64_t UnaryFn(const Unary *u, int64_t q);

static bool unary_begin(TflOp *op, Unary *u) {
  *u = (Unary){0};
  if (!q_in(op, 0, &u->x) || !q_out(op, 0, &u->y) || !q_single(op, &u->x)) return false;
  if (u->x.t != DT_I8 && u->x.t != DT_U8 && u->x.t != DT_I16) {
    tfl_fail(op, "quantised values of %s", dtype_name(u->x.t));
    return false;
  }
  u->lo = quant_min(u->y.t);
  u->hi = quant_max(u->y.t);
  return true;
}

static void unary_end(TflOp *op, const Unary *u, UnaryFn *fn) {
  int64_t n = u->x.t == DT_I16 ? 65536 : 256, low = quant_min(u->x.t);
  ArenaMark mark = arena_mark(&op->g->scratch);
  int64_t *v = arena_array(&op->g->scratch, int64_t, n);
  for (int64_t q = low; q < low + n; q++) v[q < 0 ? q + n : q] = MIN(MAX(fn(u, q), u->lo), u->hi);
  tfl_give(op, 0, q_table(op, u->x.x, u->y.t, v));
  arena_reset(&op->g->scratch, mark);
}

// Of 16 bits a multiplication is cheaper than a table; `other` is the factor of negative values.
static void scaled_end(TflOp *op, const Unary *u, UnaryFn *fn) {
  Graph *g = op->g;
  if (u->x.t != DT_I16) {
    unary_end(op, u, fn);
    return;
  }
  Node *x = quant_wide(g, u->x.x, q_zero(&u->x)), *y = quant_scale32(g, x, &u->identity, 1);
  if (u->other.m) {
    Node *below = N(g, lt, x, node_i64(g, 0));
    y = N(g, where, below, quant_scale32(g, x, &u->other, 1), y);
  }
  if (q_zero(&u->y)) y = N(g, add, y, node_i64(g, q_zero(&u->y)));
  tfl_give(op, 0, quant_narrow(g, y, u->lo, u->hi, u->y.t));
}

static int64_t rescaled(const Unary *u, int64_t q) {
  return q_zero(&u->y) + quant_mul32(q - q_zero(&u->x), u->identity);
}
static double ratio(const Unary *u) { return (double)(q_scale(&u->x) / q_scale(&u->y)); }

static void relu_of(TflOp *op, int64_t activation) {
  Unary u;
  if (!unary_begin(op, &u)) return;
  u.identity = quant_multiplier(ratio(&u));
  q_range(op, &u.y, activation, &u.lo, &u.hi);
  scaled_end(op, &u, rescaled);
}
static void relu(TflOp *op) { relu_of(op, ACT_RELU); }
static void relu6(TflOp *op) { relu_of(op, ACT_RELU6); }
static void relu_n1_to_1(TflOp *op) { relu_of(op, ACT_RELU_N1_TO_1); }
static void relu_0_to_1(TflOp *op) {
  Unary u;
  if (!unary_begin(op, &u)) return;
  u.identity = quant_multiplier(ratio(&u));
  u.lo = MAX(u.lo, q_zero(&u.y));
  u.hi = MIN(u.hi, q_zero(&u.y) + (int64_t)roundf(MIN(1 / q_scale(&u.y), 1e9f)));
  scaled_end(op, &u, rescaled);
}

static int64_t leaky_value(const Unary *u, int64_t q) {
  int64_t x = q - q_zero(&u->x);
  return q_zero(&u->y) + quant_mul32(x, x >= 0 ? u->identity : u->other);
}
static void leaky_relu(TflOp *op) {
  Unary u;
  if (!unary_begin(op, &u)) return;
  float alpha = (float)tfl_opt_f32(op, 0, 0);
  u.identity = quant_multiplier(ratio(&u));
  u.other = quant_multiplier((double)(q_scale(&u.x) * alpha / q_scale(&u.y)));
  scaled_end(op, &u, leaky_value);
}

static int64_t abs_value(const Unary *u, int64_t q) {
  int64_t x = q - q_zero(&u->x);
  x = x < 0 ? -x : x;
  bool same = q_scale(&u->x) == q_scale(&u->y);
  return q_zero(&u->y) + (same ? x : quant_mul32(x, u->identity));
}
static void abs_row(TflOp *op) {
  Unary u;
  if (!unary_begin(op, &u)) return;
  u.identity = quant_multiplier(ratio(&u));
  unary_end(op, &u, abs_value);
}

// ---- logistic, tanh, hard swish: in fixed point ----

static int64_t logistic_8(const Unary *u, int64_t q) {
  int64_t x = q - q_zero(&u->x);
  if (x <= -u->radius) return u->lo;
  if (x >= u->radius) return u->hi;
  return quant_shift(quant_logistic_q4(quant_mul32(x, u->identity)), 23) + u->lo;
}
static int64_t tanh_8(const Unary *u, int64_t q) {
  int64_t x = q - q_zero(&u->x);
  if (x <= -u->radius) return u->lo;
  if (x >= u->radius) return u->hi;
  int64_t centre = u->y.t == DT_U8 ? 128 : 0;
  return quant_shift(quant_tanh_q4(quant_mul32(x, u->identity)), 24) + centre;
}
static int64_t logistic_16(const Unary *u, int64_t q) {
  return quant_logistic_16(q, u->factor, u->shift);
}
static int64_t tanh_16(const Unary *u, int64_t q) { return quant_tanh_16(q, u->factor, u->shift); }

// The operand's scale as a factor and a shift to 24 entries of the table a unit.
static void table_scale(Unary *u, int most_shift) {
  int power = 0;
  bool pot = quant_log2(q_scale(&u->x), &power);
  int left = 12 + power;
  if (pot && left >= 0 && left <= most_shift) {
    u->factor = (int64_t)3 << left;
    return;
  }
  double m = (double)q_scale(&u->x) * 4096.0 * 3.0;
  while (m <= 32767.0 / 2.0 && u->shift <= 30) {
    u->shift++;
    m *= 2;
  }
  u->factor = (int64_t)MIN(m, 32767.0);
}

static void sigmoid_like(TflOp *op, UnaryFn *f8, UnaryFn *f16, int most_shift) {
  Unary u;
  if (!unary_begin(op, &u)) return;
  if (u.x.t == DT_I16) {
    table_scale(&u, most_shift);
    unary_end(op, &u, f16);
    return;
  }
  u.identity = quant_multiplier((double)q_scale(&u.x) * (double)(1 << 27));
  u.radius = quant_radius(4, u.identity.shift);
  unary_end(op, &u, f8);
}
static void logistic(TflOp *op) { sigmoid_like(op, logistic_8, logistic_16, 0); }
static void tanh_row(TflOp *op) { sigmoid_like(op, tanh_8, tanh_16, 1); }

static int64_t high_mul_16(int64_t a, int64_t b) {
  return a == b && a == INT16_MIN ? INT16_MAX : (a * b + (1 << 14)) >> 15;
}
static int64_t fit_16(int64_t x) { return MIN(MAX(x, (int64_t)INT16_MIN), (int64_t)INT16_MAX); }
static int64_t upper_16(QMul m) {
  return m.m >= INT32_MAX - (1 << 15) ? INT16_MAX : (m.m + (1 << 15)) >> 16;
}

static int64_t hard_swish_value(const Unary *u, int64_t q) {
  int64_t fine = (q - q_zero(&u->x)) * 128, e = u->other.shift;
  int64_t out = high_mul_16(fine, upper_16(u->identity)), gate = fine;
  if (e > 0) gate = fit_16(gate * ((int64_t)1 << (e - 1)));
  gate = high_mul_16(gate, upper_16(u->other));
  if (e > 0) gate = fit_16(gate * 2);
  if (e < 0) gate = quant_shift(gate, (int)-e);
  gate = (gate + (1 << 15)) >> 1;
  int64_t r = gate * out / (1 << 15);
  return quant_shift(r, -u->identity.shift) + q_zero(&u->y);
}
static void hard_swish(TflOp *op) {
  Unary u;
  if (!unary_begin(op, &u)) return;
  float fine = (1.0f / 128.0f) * q_scale(&u.x);
  u.identity = quant_multiplier((double)(fine / q_scale(&u.y)));
  u.other = quant_multiplier((double)(fine / (3.0f / 32768.0f)));
  if (u.identity.shift > 0 || u.other.shift > 15) {
    tfl_fail(op, "a result scale below the operand's 128th");
    return;
  }
  unary_end(op, &u, hard_swish_value);
}

// ---- functions of reals, by tables ----

static double gelu_erf(double x, const void *arg) {
  (void)arg;
  return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}
static double gelu_tanh(double x, const void *arg) {
  (void)arg;
  return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
static double elu_value(double x, const void *arg) {
  (void)arg;
  return x < 0 ? expm1(x) : x;
}
static double exp_value(double x, const void *arg) {
  (void)arg;
  return exp(x);
}
static double log_value(double x, const void *arg) {
  (void)arg;
  return x > 0 ? log(x) : -1e30;
}
static double sqrt_value(double x, const void *arg) {
  (void)arg;
  return x > 0 ? sqrt(x) : 0;
}
static double rsqrt_value(double x, const void *arg) {
  (void)arg;
  return x > 0 ? 1 / sqrt(x) : 1e30;
}

static void real_function(TflOp *op, QuantFn *f) {
  Unary u;
  if (!unary_begin(op, &u)) return;
  int64_t n = u.x.t == DT_I16 ? 65536 : 256, low = quant_min(u.x.t);
  ArenaMark mark = arena_mark(&op->g->scratch);
  int64_t *v = arena_array(&op->g->scratch, int64_t, n);
  int16_t lut[513];
  if (u.x.t == DT_I16)
    quant_lut_16(q_scale(&u.x), q_zero(&u.x), q_scale(&u.y), q_zero(&u.y), f, NULL, lut);
  float inverse = 1.0f / q_scale(&u.y);
  for (int64_t q = low; q < low + n; q++) {
    float x = q_scale(&u.x) * (float)(q - q_zero(&u.x));
    float r = roundf((float)f((double)x, NULL) * inverse);
    int64_t at = q < 0 ? q + n : q;
    v[at] = u.x.t == DT_I16 ? quant_lut_16_at(lut, q)
                            : (int64_t)MIN(MAX(r, -1e9f), 1e9f) + q_zero(&u.y);
    v[at] = MIN(MAX(v[at], u.lo), u.hi);
  }
  tfl_give(op, 0, q_table(op, u.x.x, u.y.t, v));
  arena_reset(&op->g->scratch, mark);
}
static void gelu(TflOp *op) {
  real_function(op, tfl_opt_bool(op, 0, false) ? gelu_tanh : gelu_erf);
}
static void elu(TflOp *op) { real_function(op, elu_value); }
static void exp_row(TflOp *op) { real_function(op, exp_value); }
static void log_row(TflOp *op) { real_function(op, log_value); }
static void sqrt_row(TflOp *op) { real_function(op, sqrt_value); }
static void rsqrt_row(TflOp *op) { real_function(op, rsqrt_value); }

// ---- two operands ----

typedef struct Binary {
  QArg a, b, y;
} Binary;

static bool binary_begin(TflOp *op, Binary *n) {
  return q_in(op, 0, &n->a) && q_in(op, 1, &n->b) && q_out(op, 0, &n->y) && q_single(op, &n->a) &&
         q_single(op, &n->b);
}

// (x - zero) with `left` bits to spare, in units of `per`.
static Node *common_scale(TflOp *op, const QArg *x, int left, double per) {
  Graph *g = op->g;
  QMul m = quant_multiplier((double)q_scale(x) / per);
  Node *fine = N(g, mul, quant_wide(g, x->x, q_zero(x)), node_i64(g, (int64_t)1 << left));
  return quant_scale32(g, fine, &m, 1);
}

static Node *saturated_16(Graph *g, Node *x) { return quant_clamp(g, x, INT16_MIN, INT16_MAX); }

// 16-bit operands whose scales are powers of two: one of them is shifted to the result's.
static bool power_of_two(TflOp *op, const Binary *n, int shift[2]) {
  int a, b, y;
  if (n->y.t != DT_I16 || !tfl_opt_bool(op, 1, true)) return false;
  if (q_zero(&n->a) || q_zero(&n->b) || q_zero(&n->y)) return false;
  if (!quant_log2(q_scale(&n->a), &a) || !quant_log2(q_scale(&n->b), &b) ||
      !quant_log2(q_scale(&n->y), &y))
    return false;
  shift[0] = a - y;
  shift[1] = b - y;
  return shift[0] <= 0 && shift[1] <= 0 && (shift[0] == 0 || shift[1] == 0) && shift[0] > -31 &&
         shift[1] > -31;
}

static void sum_of(TflOp *op, int node_op) {
  Graph *g = op->g;
  Binary n;
  int shift[2];
  if (!binary_begin(op, &n)) return;
  int64_t activation = tfl_opt_i8(op, 0, 0);
  if (power_of_two(op, &n, shift)) {
    Node *src[] = {quant_shift_node(g, quant_wide(g, n.a.x, 0), -shift[0]),
                   quant_shift_node(g, quant_wide(g, n.b.x, 0), -shift[1])};
    q_give(op, &n.y, saturated_16(g, node_new(g, node_op, 2, src, NULL, 0, NULL)), activation);
    return;
  }
  int left = n.y.t == DT_I16 ? 15 : 20;
  double twice = 2 * (double)MAX(q_scale(&n.a), q_scale(&n.b));
  Node *src[] = {common_scale(op, &n.a, left, twice), common_scale(op, &n.b, left, twice)};
  QMul m = quant_multiplier(twice / ((double)((int64_t)1 << left) * (double)q_scale(&n.y)));
  Node *raw = node_new(g, node_op, 2, src, NULL, 0, NULL);
  q_give(op, &n.y, quant_scale32(g, raw, &m, 1), activation);
}
static void add(TflOp *op) { sum_of(op, OP_add); }
static void sub(TflOp *op) { sum_of(op, OP_sub); }

static void mul(TflOp *op) {
  Graph *g = op->g;
  Binary n;
  if (!binary_begin(op, &n)) return;
  float real = q_scale(&n.a) * q_scale(&n.b) / q_scale(&n.y);
  QMul m = quant_multiplier((double)real);
  Node *p = N(g, mul, quant_wide(g, n.a.x, q_zero(&n.a)), quant_wide(g, n.b.x, q_zero(&n.b)));
  q_give(op, &n.y, quant_scale32(g, p, &m, 1), tfl_opt_i8(op, 0, 0));
}

// Only bytes have a quantised division; its reciprocals are approximations there, exact here.
static void div_row(TflOp *op) {
  Graph *g = op->g;
  Binary n;
  if (!binary_begin(op, &n)) return;
  double real = (double)q_scale(&n.a) / ((double)q_scale(&n.b) * (double)q_scale(&n.y));
  Node *a = quant_cast(g, quant_wide(g, n.a.x, q_zero(&n.a)), DT_F64);
  Node *b = quant_cast(g, quant_wide(g, n.b.x, q_zero(&n.b)), DT_F64);
  Node *q = quant_round_node(g, N(g, mul, N(g, div, a, b), node_scalar(g, DT_F64, real)));
  q = N(g, clip, q, node_scalar(g, DT_F64, -1e9), node_scalar(g, DT_F64, 1e9));
  q_give(op, &n.y, quant_cast(g, q, DT_I64), tfl_opt_i8(op, 0, 0));
}

static void squared_difference(TflOp *op) {
  Graph *g = op->g;
  Binary n;
  if (!binary_begin(op, &n)) return;
  int left = n.y.t == DT_I16 ? 0 : 7;
  double twice = 2.0 * (double)MAX(q_scale(&n.a), q_scale(&n.b));
  Node *d = N(g, sub, common_scale(op, &n.a, left, twice), common_scale(op, &n.b, left, twice));
  QMul m = quant_multiplier(twice * twice / ((double)(1 << (2 * left)) * (double)q_scale(&n.y)));
  q_give(op, &n.y, quant_scale32(g, N(g, mul, d, d), &m, 1), ACT_NONE);
}

// The larger or smaller after both have the result's scale.
static void extreme(TflOp *op, int node_op) {
  Graph *g = op->g;
  Binary n;
  if (!binary_begin(op, &n)) return;
  if (q_same(&n.a, &n.y) && q_same(&n.b, &n.y)) {
    Node *src[] = {n.a.x, n.b.x};
    tfl_give(op, 0, node_new(g, node_op, 2, src, NULL, 0, NULL));
    return;
  }
  QMul ma = quant_multiplier((double)q_scale(&n.a) / (double)q_scale(&n.y));
  QMul mb = quant_multiplier((double)q_scale(&n.b) / (double)q_scale(&n.y));
  Node *src[] = {quant_scale32(g, quant_wide(g, n.a.x, q_zero(&n.a)), &ma, 1),
                 quant_scale32(g, quant_wide(g, n.b.x, q_zero(&n.b)), &mb, 1)};
  q_give(op, &n.y, node_new(g, node_op, 2, src, NULL, 0, NULL), ACT_NONE);
}
static void maximum(TflOp *op) { extreme(op, OP_max); }
static void minimum(TflOp *op) { extreme(op, OP_min); }

static void prelu(TflOp *op) {
  Graph *g = op->g;
  Binary n;
  if (!binary_begin(op, &n)) return;
  double s = (double)q_scale(&n.a);
  QMul up = quant_multiplier(s / (double)q_scale(&n.y));
  QMul down = quant_multiplier(s * (double)q_scale(&n.b) / (double)q_scale(&n.y));
  Node *x = quant_wide(g, n.a.x, q_zero(&n.a));
  Node *p = N(g, mul, x, quant_wide(g, n.b.x, q_zero(&n.b)));
  Node *negative = N(g, lt, x, node_i64(g, 0));
  Node *y = N(g, where, negative, quant_scale32(g, p, &down, 1), quant_scale32(g, x, &up, 1));
  q_give(op, &n.y, y, ACT_NONE);
}

// ---- comparisons: in a common scale with 8 bits to spare ----

static void compare(TflOp *op, int node_op, bool swap, bool negate) {
  Graph *g = op->g;
  QArg a, b;
  if (!q_in(op, 0, &a) || !q_in(op, 1, &b) || !q_single(op, &a) || !q_single(op, &b)) return;
  Node *x = q_same(&a, &b) ? a.x : common_scale(op, &a, 8, 1);
  Node *y = q_same(&a, &b) ? b.x : common_scale(op, &b, 8, 1);
  Node *src[] = {swap ? y : x, swap ? x : y};
  Node *r = node_new(g, node_op, 2, src, NULL, 0, NULL);
  tfl_give(op, 0, negate ? N(g, not, r) : r);
}
static void equal(TflOp *op) { compare(op, OP_eq, false, false); }
static void not_equal(TflOp *op) { compare(op, OP_eq, false, true); }
static void less(TflOp *op) { compare(op, OP_lt, false, false); }
static void less_equal(TflOp *op) { compare(op, OP_le, false, false); }
static void greater(TflOp *op) { compare(op, OP_lt, true, false); }
static void greater_equal(TflOp *op) { compare(op, OP_le, true, false); }

static const QRow rows[] = {
    {0, add},           {14, logistic},  {18, mul},         {19, relu},
    {20, relu_n1_to_1}, {21, relu6},     {28, tanh_row},    {41, sub},
    {42, div_row},      {47, exp_row},   {54, prelu},       {55, maximum},
    {57, minimum},      {58, less},      {61, greater},     {62, greater_equal},
    {63, less_equal},   {71, equal},     {72, not_equal},   {73, log_row},
    {75, sqrt_row},     {76, rsqrt_row}, {98, leaky_relu},  {99, squared_difference},
    {101, abs_row},     {111, elu},      {117, hard_swish}, {150, gelu},
    {152, relu_0_to_1},
};
Q_TABLE(elementwise);
