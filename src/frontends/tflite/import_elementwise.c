// import_elementwise.c -- element-wise builtin operators on plain values.
#include "eval/activation.h"
#include "eval/scalar.h"
#include "frontends/tflite/import.h"

#include <math.h>

static Node *made(TflOp *op, int code, Node *x, Node *y) {
  return node_new(op->g, code, y ? 2 : 1, (Node *[]){x, y}, NULL, 0, NULL);
}

// ---- one operand ----

static void unary(TflOp *op) { tfl_give(op, 0, made(op, op->row->arg, tfl_in(op, 0), NULL)); }
static void relu_n1_to_1(TflOp *op) {
  tfl_give(op, 0, tfl_activate(op, tfl_in(op, 0), ACT_RELU_N1_TO_1));
}
static void relu6(TflOp *op) { tfl_give(op, 0, tfl_activate(op, tfl_in(op, 0), ACT_RELU6)); }
static void relu_0_to_1(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  tfl_give(op, 0, N(g, clip, x, tb_num(g, x, 0), tb_num(g, x, 1)));
}
static void rsqrt(TflOp *op) {
  tfl_give(op, 0, N(op->g, reciprocal, N(op->g, sqrt, tfl_in(op, 0))));
}
static void square(TflOp *op) {
  Node *x = tfl_in(op, 0);
  tfl_give(op, 0, N(op->g, mul, x, x));
}
static void leaky_relu(TflOp *op) {
  leaky_relu_attrs at = {.alpha = tfl_opt_f32(op, 0, 0)};
  tfl_give(op, 0, NA(op->g, leaky_relu, &at, tfl_in(op, 0)));
}
static void elu(TflOp *op) {
  tfl_give(op, 0, NA(op->g, elu, (&(elu_attrs){.alpha = 1}), tfl_in(op, 0)));
}
static void gelu(TflOp *op) {
  gelu_attrs at = {.approximate = tfl_opt_bool(op, 0, false) ? 1 : 0};
  tfl_give(op, 0, NA(op->g, gelu, &at, tfl_in(op, 0)));
}
static void cbrt_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *root = N(g, pow, N(g, abs, x), tb_num(g, x, 1.0 / 3));
  tfl_give(op, 0, N(g, mul, N(g, sign, x), root));
}
static void cast_row(TflOp *op) {
  const TflTensor *t = tfl_out_tensor(op, 0);
  if (!tfl_need(op, 1, 1)) return;
  if (!t->dtype || t->dtype == DT_STRING)
    tfl_fail(op, "to type %d", t->type);
  else if (tfl_is_complex(t) || tfl_is_complex(tfl_in_tensor(op, 0)))
    tfl_give(op, 0, tfl_cast_complex(op));
  else
    tfl_give(op, 0, tb_cast(op->g, tfl_in(op, 0), t->dtype));
}
static void bit_cast(TflOp *op) {
  if (!tfl_need(op, 1, 1)) return;
  bit_cast_attrs at = {.to = tfl_out_tensor(op, 0)->dtype};
  tfl_give(op, 0, NA(op->g, bit_cast, &at, tfl_in(op, 0)));
}
static void zeros_like(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int rank = tfl_rank(op, x);
  if (!g->status) tfl_give(op, 0, tb_full(g, tb_dims(g, x, 0, rank), type_of(x)->dtype, 0));
}

// Values rounded to what `bits` bits can hold between min and max, moved so that 0 is one of them.
static void fake_quant(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  float min = (float)tfl_opt_f32(op, 0, 0), max = (float)tfl_opt_f32(op, 1, 0);
  int64_t bits = tfl_opt_i32(op, 2, 0);
  if (bits < 2 || bits > 16 || !(min <= 0 && max >= 0 && min < max)) {
    tfl_fail(op, "%lld bits between %g and %g", (long long)bits, (double)min, (double)max);
    return;
  }
  float lo = tfl_opt_bool(op, 3, false) ? 1 : 0, hi = (float)((1 << bits) - 1);
  float scale = (max - min) / (hi - lo), zero = lo - min / scale;
  zero = zero < lo ? lo : zero > hi ? hi : roundf(zero);
  float from = (lo - zero) * scale, to = (hi - zero) * scale;
  Node *y = N(g, clip, x, tb_num(g, x, (double)from), tb_num(g, x, (double)to));
  y = N(g, mul, N(g, sub, y, tb_num(g, x, (double)from)), tb_num(g, x, (double)(1 / scale)));
  y = N(g, floor, N(g, add, y, tb_num(g, x, 0.5)));
  y = N(g, add, N(g, mul, y, tb_num(g, x, (double)scale)), tb_num(g, x, (double)from));
  tfl_give(op, 0, y);
}

// ---- two operands ----

// With a fused activation in field 0.
static void binary(TflOp *op) {
  Node *y = made(op, op->row->arg, tfl_in(op, 0), tfl_in(op, 1));
  tfl_give(op, 0, tfl_activate(op, y, tfl_opt_i8(op, 0, 0)));
}
static void plain_binary(TflOp *op) {
  tfl_give(op, 0, made(op, op->row->arg, tfl_in(op, 0), tfl_in(op, 1)));
}
static void swapped(TflOp *op) {
  tfl_give(op, 0, made(op, op->row->arg, tfl_in(op, 1), tfl_in(op, 0)));
}
static void not_equal(TflOp *op) {
  tfl_give(op, 0, N(op->g, not, N(op->g, eq, tfl_in(op, 0), tfl_in(op, 1))));
}
// Of bools, or of the bits of integers: arg is the op for bools.
static void logical(TflOp *op) {
  Node *x = tfl_in(op, 0);
  if (op->g->status) return;
  bool bits = dtype_is_int(type_of(x)->dtype);
  int code = !bits                    ? op->row->arg
             : op->row->arg == OP_and ? OP_bit_and
             : op->row->arg == OP_or  ? OP_bit_or
                                      : OP_bit_xor;
  tfl_give(op, 0, made(op, code, x, tfl_in(op, 1)));
}
static Node *floored(Graph *g, Node *x, Node *y) {
  if (g->status) return g->poison;
  if (dtype_is_float(type_of(x)->dtype)) return N(g, floor, N(g, div, x, y));
  return N(g, div, N(g, sub, x, N(g, mod, x, y)), y);
}
static void floor_div(TflOp *op) { tfl_give(op, 0, floored(op->g, tfl_in(op, 0), tfl_in(op, 1))); }
static void squared_difference(TflOp *op) {
  Node *d = N(op->g, sub, tfl_in(op, 0), tfl_in(op, 1));
  tfl_give(op, 0, N(op->g, mul, d, d));
}
static void add_n(TflOp *op) {
  Node *y = tfl_in(op, 0);
  for (int i = 1; i < op->nin && !op->g->status; i++) y = N(op->g, add, y, tfl_in(op, i));
  tfl_give(op, 0, y);
}
static void atan2_row(TflOp *op) {
  Graph *g = op->g;
  Node *y = tfl_in(op, 0), *x = tfl_in(op, 1), *zero = tb_num(g, x, 0);
  double pi = 3.14159265358979323846;
  Node *turn = N(g, where, N(g, lt, y, zero), tb_num(g, x, -pi), tb_num(g, x, pi));
  Node *a = N(g, atan, N(g, div, y, x));
  Node *r = N(g, where, N(g, lt, x, zero), N(g, add, a, turn), a);
  Node *origin = N(g, and, N(g, eq, x, zero), N(g, eq, y, zero));
  tfl_give(op, 0, N(g, where, origin, zero, r));
}
// The sign moves in; more bits than there are count as all but one.
static void right_shift(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *n = tfl_in(op, 1);
  if (g->status) return;
  DType t = type_of(x)->dtype;
  if (!dtype_is_int(t)) {
    tfl_fail(op, "of %s", dtype_name(t));
    return;
  }
  double most = dtype_bits(t) - 1;
  Node *by = tb_cast(g, n, DT_I64);
  by = N(g, clip, by, tb_num(g, by, 0), tb_num(g, by, most));
  Node *power = N(g, shift_left, node_i64(g, 1), by);
  tfl_give(op, 0, tb_cast(g, floored(g, tb_cast(g, x, DT_I64), power), t));
}

// ---- choices ----

static void select_v2(TflOp *op) {
  tfl_give(op, 0, N(op->g, where, tfl_in(op, 0), tfl_in(op, 1), tfl_in(op, 2)));
}
// A condition of rank 1 chooses whole rows.
static void select_row(TflOp *op) {
  Graph *g = op->g;
  Node *c = tfl_in(op, 0), *x = tfl_in(op, 1);
  int rank = tfl_rank(op, x), crank = tfl_rank(op, c);
  if (g->status) return;
  for (int i = 1; crank == 1 && i < rank; i++) c = tb_unsqueeze(g, c, i);
  tfl_give(op, 0, N(g, where, c, x, tfl_in(op, 2)));
}
static void clamp(TflOp *op) {
  Node *x = N(op->g, max, tfl_in(op, 1), tfl_in(op, 0));
  tfl_give(op, 0, N(op->g, min, x, tfl_in(op, 2)));
}
static void compare(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *y = tfl_in(op, 1), *r;
  switch (fb_u32(&op->o->options2, 0, 0)) {
  case 0: r = N(g, eq, x, y); break;
  case 1: r = N(g, not, N(g, eq, x, y)); break;
  case 2: r = N(g, le, y, x); break;
  case 3: r = N(g, lt, y, x); break;
  case 4: r = N(g, le, x, y); break;
  case 5: r = N(g, lt, x, y); break;
  default: r = tfl_fail(op, "a comparison that is not known");
  }
  tfl_give(op, 0, r);
}

static const TflRow rows[] = {
    // clang-format off
    {0,   "ADD",                    binary, 5, OP_add},
    {8,   "FLOOR",                  unary, 2, OP_floor},
    {14,  "LOGISTIC",               unary, 3, OP_sigmoid},
    {18,  "MUL",                    binary, 7, OP_mul},
    {19,  "RELU",                   unary, 3, OP_relu},
    {20,  "RELU_N1_TO_1",           relu_n1_to_1, 1, 0},
    {21,  "RELU6",                  relu6, 3, 0},
    {28,  "TANH",                   unary, 3, OP_tanh},
    {41,  "SUB",                    binary, 5, OP_sub},
    {42,  "DIV",                    binary, 2, OP_div},
    {47,  "EXP",                    unary, 2, OP_exp},
    {53,  "CAST",                   cast_row, 7, 0},
    {54,  "PRELU",                  plain_binary, 1, OP_prelu},
    {55,  "MAXIMUM",                plain_binary, 4, OP_max},
    {57,  "MINIMUM",                plain_binary, 4, OP_min},
    {58,  "LESS",                   plain_binary, 3, OP_lt},
    {59,  "NEG",                    unary, 2, OP_neg},
    {61,  "GREATER",                swapped, 3, OP_lt},
    {62,  "GREATER_EQUAL",          swapped, 3, OP_le},
    {63,  "LESS_EQUAL",             plain_binary, 3, OP_le},
    {64,  "SELECT",                 select_row, 4, 0},
    {66,  "SIN",                    unary, 1, OP_sin},
    {71,  "EQUAL",                  plain_binary, 4, OP_eq},
    {72,  "NOT_EQUAL",              not_equal, 3, 0},
    {73,  "LOG",                    unary, 2, OP_log},
    {75,  "SQRT",                   unary, 2, OP_sqrt},
    {76,  "RSQRT",                  rsqrt, 3, 0},
    {78,  "POW",                    plain_binary, 1, OP_pow},
    {80,  "FAKE_QUANT",             fake_quant, 2, 0},
    {84,  "LOGICAL_OR",             logical, 1, OP_or},
    {86,  "LOGICAL_AND",            logical, 1, OP_and},
    {87,  "LOGICAL_NOT",            unary, 1, OP_not},
    {90,  "FLOOR_DIV",              floor_div, 3, 0},
    {92,  "SQUARE",                 square, 1, 0},
    {93,  "ZEROS_LIKE",             zeros_like, 1, 0},
    {95,  "FLOOR_MOD",              plain_binary, 2, OP_mod},
    {98,  "LEAKY_RELU",             leaky_relu, 2, 0},
    {99,  "SQUARED_DIFFERENCE",     squared_difference, 2, 0},
    {101, "ABS",                    unary, 5, OP_abs},
    {104, "CEIL",                   unary, 1, OP_ceil},
    {106, "ADD_N",                  add_n, 1, 0},
    {108, "COS",                    unary, 1, OP_cos},
    {111, "ELU",                    elu, 1, 0},
    {116, "ROUND",                  unary, 1, OP_round},
    {117, "HARD_SWISH",             unary, 1, OP_hard_swish},
    {123, "SELECT_V2",              select_v2, 2, 0},
    {150, "GELU",                   gelu, 2, 0},
    {152, "RELU_0_TO_1",            relu_0_to_1, 1, 0},
    {156, "ATAN2",                  atan2_row, 1, 0},
    {158, "SIGN",                   unary, 2, OP_sign},
    {159, "BITCAST",                bit_cast, 1, 0},
    {160, "BITWISE_XOR",            logical, 1, OP_xor},
    {161, "RIGHT_SHIFT",            right_shift, 1, 0},
    {162, "STABLEHLO_LOGISTIC",     unary, 1, OP_sigmoid},
    {163, "STABLEHLO_ADD",          plain_binary, 1, OP_add},
    {164, "STABLEHLO_DIVIDE",       plain_binary, 1, OP_div},
    {165, "STABLEHLO_MULTIPLY",     plain_binary, 1, OP_mul},
    {166, "STABLEHLO_MAXIMUM",      plain_binary, 1, OP_max},
    {168, "STABLEHLO_CLAMP",        clamp, 1, 0},
    {175, "STABLEHLO_ABS",          unary, 1, OP_abs},
    {176, "STABLEHLO_AND",          logical, 1, OP_and},
    {177, "STABLEHLO_COSINE",       unary, 1, OP_cos},
    {178, "STABLEHLO_EXPONENTIAL",  unary, 1, OP_exp},
    {179, "STABLEHLO_FLOOR",        unary, 1, OP_floor},
    {180, "STABLEHLO_LOG",          unary, 1, OP_log},
    {181, "STABLEHLO_MINIMUM",      plain_binary, 1, OP_min},
    {182, "STABLEHLO_NEGATE",       unary, 1, OP_neg},
    {183, "STABLEHLO_OR",           logical, 1, OP_or},
    {184, "STABLEHLO_POWER",        plain_binary, 1, OP_pow},
    {185, "STABLEHLO_REMAINDER",    plain_binary, 1, OP_fmod},
    {186, "STABLEHLO_RSQRT",        rsqrt, 1, 0},
    {187, "STABLEHLO_SELECT",       select_v2, 1, 0},
    {188, "STABLEHLO_SUBTRACT",     plain_binary, 1, OP_sub},
    {189, "STABLEHLO_TANH",         unary, 1, OP_tanh},
    {191, "STABLEHLO_COMPARE",      compare, 1, 0},
    {192, "STABLEHLO_CONVERT",      cast_row, 1, 0},
    {207, "STABLEHLO_SHIFT_LEFT",   plain_binary, 1, OP_shift_left},
    {208, "STABLEHLO_CBRT",         cbrt_row, 1, 0},
    // clang-format on
};
TFL_TABLE(elementwise);
