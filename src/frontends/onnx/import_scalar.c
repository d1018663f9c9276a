// import_scalar.c -- element-wise operators whose ONNX form differs from ours.
//
// Before opset 7 a binary operator broadcast only when told so, with the second operand's axes
// lined up at `axis`.
#include "eval/scalar.h"
#include "frontends/onnx/import_build.h"
#include "frontends/onnx/onnx.h"

// Second operand of a legacy binary operator, lined up with the first.
static tenon_status legacy_operand(ImportNode *n, Node **y) {
  *y = n->in[1];
  const OnnxAttr *axis = import_attr(n, "axis");
  if (!import_i64(n, "broadcast", 0) || !axis) return TENON_OK;
  int rx = type_of(n->in[0])->rank, ry = type_of(*y)->rank;
  int64_t at = import_i64(n, "axis", 0);
  if (rx < 0 || ry < 0)
    return import_fail(n, TENON_EUNSUPPORTED, "broadcasting at an axis needs known ranks");
  if (at < 0) at += rx;
  int64_t tail = rx - at - ry;
  if (at < 0 || tail < 0)
    return import_fail(n, TENON_EINVAL, "axis %lld does not fit ranks %d and %d", (long long)at, rx,
                       ry);
  if (!tail) return TENON_OK;
  int64_t axes[MAX_RANK];
  for (int64_t i = 0; i < tail; i++) axes[i] = ry + i;
  *y = N(n->g, unsqueeze, *y, node_i64s(n->g, tail, axes));
  return graph_status(n->g);
}

static tenon_status legacy_binary(ImportNode *n, int op, bool swap) {
  if (n->nin != 2) return import_fail(n, TENON_EINVAL, "%d inputs, must be 2", n->nin);
  Node *y;
  TRY(legacy_operand(n, &y));
  Node *src[2] = {swap ? y : n->in[0], swap ? n->in[0] : y};
  return import_as(n, op, NULL, 2, src);
}
#define LEGACY(name, op, swap)                                                                     \
  static tenon_status legacy_##name(ImportNode *n) { return legacy_binary(n, OP_##op, swap); }
LEGACY(add, add, false)
LEGACY(sub, sub, false)
LEGACY(mul, mul, false)
LEGACY(div, div, false)
LEGACY(pow, pow, false)
LEGACY(and, and, false)
LEGACY(or, or, false)
LEGACY(xor, xor, false)
LEGACY(eq, eq, false)
LEGACY(less, lt, false)
LEGACY(greater, lt, true)

static tenon_status swapped(ImportNode *n, int op) {
  if (n->nin != 2) return import_fail(n, TENON_EINVAL, "%d inputs, must be 2", n->nin);
  return import_as(n, op, NULL, 2, (Node *[]){n->in[1], n->in[0]});
}
static tenon_status greater(ImportNode *n) { return swapped(n, OP_lt); }
static tenon_status greater_equal(ImportNode *n) { return swapped(n, OP_le); }
static tenon_status power(ImportNode *n) { return import_as(n, OP_pow, NULL, n->nin, n->in); }

// Operators of any number of operands fold from the left.  Sums of narrow floats are of type f32
// until the last one, so that none on the way is rounded or leaves the range.
static tenon_status fold(ImportNode *n, int op, bool mean) {
  if (n->nin < 1) return import_fail(n, TENON_EINVAL, "no inputs");
  Node *r = n->in[0];
  if (op != OP_add || n->nin > 1) {
    DTypeClass c = dtype_class(type_of(r)->dtype);
    if (type_of(r)->kind != TK_TENSOR || c == DC_STRING || c == DC_COMPLEX)
      return import_fail(n, TENON_EINVAL, "input 0 must be a tensor of numbers");
  }
  DType t = type_of(r)->dtype;
  bool wide = op == OP_add && n->nin > 1 + !mean && dtype_is_float(t) && dtype_bits(t) < 32;
  if (wide) r = build_cast(n->g, r, DT_F32);
  for (int i = 1; i < n->nin; i++) {
    Node *x = wide ? build_cast(n->g, n->in[i], DT_F32) : n->in[i];
    r = node_new(n->g, op, 2, (Node *[]){r, x}, NULL, 1, n->name);
  }
  if (mean && n->nin > 1)
    r = node_new(n->g, OP_div, 2, (Node *[]){r, node_scalar(n->g, type_of(r)->dtype, n->nin)}, NULL,
                 1, n->name);
  if (wide) r = build_cast(n->g, r, t);
  if (n->nout > 0) n->out[0] = r;
  return graph_status(n->g);
}
static tenon_status fold_min(ImportNode *n) { return fold(n, OP_min, false); }
static tenon_status fold_max(ImportNode *n) { return fold(n, OP_max, false); }
static tenon_status fold_sum(ImportNode *n) { return fold(n, OP_add, false); }
static tenon_status fold_mean(ImportNode *n) { return fold(n, OP_add, true); }

static tenon_status modulo(ImportNode *n) {
  bool like_c = import_i64(n, "fmod", 0) != 0;
  if (n->nin == 2 && !like_c && dtype_is_float(type_of(n->in[0])->dtype))
    return import_fail(n, TENON_EINVAL, "fmod must be 1 for %s",
                       dtype_name(type_of(n->in[0])->dtype));
  return import_as(n, like_c ? OP_fmod : OP_mod, NULL, n->nin, n->in);
}

static tenon_status bit_shift(ImportNode *n) {
  Str dir = import_str(n, "direction", "");
  if (!str_is(dir, "LEFT") && !str_is(dir, "RIGHT"))
    return import_fail(n, TENON_EINVAL, "direction is '%.*s', must be LEFT or RIGHT", STR_ARG(dir));
  return import_as(n, str_is(dir, "LEFT") ? OP_shift_left : OP_shift_right, NULL, n->nin, n->in);
}

static tenon_status cast_like(ImportNode *n) {
  if (n->nin != 2) return import_fail(n, TENON_EINVAL, "%d inputs, must be 2", n->nin);
  if (!type_of(n->in[1])->dtype) {  // below an unsupported op: nothing to convert to
    n->out[0] = n->in[0];
    return TENON_OK;
  }
  cast_attrs at = {.to = type_of(n->in[1])->dtype, .saturate = import_i64(n, "saturate", 1) != 0};
  Str mode = import_str(n, "round_mode", "up");
  at.round_mode = attr_choice_find("up|down|nearest", mode);
  if (at.round_mode < 0) return import_fail(n, TENON_EINVAL, "round_mode is '%.*s'", STR_ARG(mode));
  return import_as(n, OP_cast, &at, 1, n->in);
}

// Before opset 6 the type was spelt as a word.
static tenon_status cast_legacy(ImportNode *n) {
  static const char *const words[] = {"UNDEFINED", "FLOAT",  "UINT8",  "INT8",   "UINT16",
                                      "INT16",     "INT32",  "INT64",  "STRING", "BOOL",
                                      "FLOAT16",   "DOUBLE", "UINT32", "UINT64"};
  Str to = import_str(n, "to", "");
  for (int64_t i = 1; i < ARRAY_LEN(words); i++)
    if (str_is(to, words[i]))
      return import_as(n, OP_cast, &(cast_attrs){.to = (DType)i, .saturate = true}, n->nin, n->in);
  return import_fail(n, TENON_EINVAL, "'%.*s' is not a type", STR_ARG(to));
}

static tenon_status clip_legacy(ImportNode *n) {
  if (n->nin != 1) return import_fail(n, TENON_EINVAL, "%d inputs, must be 1", n->nin);
  DType t = type_of(n->in[0])->dtype;
  if (!dtype_is_float(t))
    return import_fail(n, TENON_EINVAL, "the input is %s, must be a float type", dtype_name(t));
  Node *lo = import_attr(n, "min") ? node_scalar(n->g, t, import_f64(n, "min", 0)) : n->g->none;
  Node *hi = import_attr(n, "max") ? node_scalar(n->g, t, import_f64(n, "max", 0)) : n->g->none;
  return import_as(n, OP_clip, NULL, 3, (Node *[]){n->in[0], lo, hi});
}

static tenon_status identity(ImportNode *n) {
  if (n->nin != 1 || n->nout != 1)
    return import_fail(n, TENON_EINVAL, "one input and one output, not %d and %d", n->nin, n->nout);
  n->out[0] = n->in[0];
  return TENON_OK;
}

// Unary operators whose first versions only differ in an attribute for in-place use.
#define LEGACY_UNARY(name)                                                                         \
  static tenon_status legacy_##name(ImportNode *n) {                                               \
    return import_as(n, OP_##name, NULL, n->nin, n->in);                                           \
  }
LEGACY_UNARY(neg)
LEGACY_UNARY(abs)
LEGACY_UNARY(ceil)
LEGACY_UNARY(floor)
LEGACY_UNARY(sqrt)
LEGACY_UNARY(reciprocal)
LEGACY_UNARY(exp)
LEGACY_UNARY(log)
LEGACY_UNARY(tanh)
LEGACY_UNARY(sigmoid)
LEGACY_UNARY(relu)

static const ImportRow rows[] = {
    // clang-format off
    {"", "Add",            1, 6,  legacy_add,     NULL},
    {"", "Sub",            1, 6,  legacy_sub,     NULL},
    {"", "Mul",            1, 6,  legacy_mul,     NULL},
    {"", "Div",            1, 6,  legacy_div,     NULL},
    {"", "Pow",            1, 6,  legacy_pow,     NULL},
    {"", "Pow",            7, 0,  power,          NULL},
    {"", "And",            1, 6,  legacy_and,     NULL},
    {"", "Or",             1, 6,  legacy_or,      NULL},
    {"", "Xor",            1, 6,  legacy_xor,     NULL},
    {"", "Equal",          1, 6,  legacy_eq,      NULL},
    {"", "Less",           1, 6,  legacy_less,    NULL},
    {"", "Greater",        1, 6,  legacy_greater, NULL},
    {"", "Greater",        7, 0,  greater,        NULL},
    {"", "GreaterOrEqual", 12, 0, greater_equal,  NULL},
    {"", "Neg",            1, 5,  legacy_neg,     NULL},
    {"", "Abs",            1, 5,  legacy_abs,     NULL},
    {"", "Ceil",           1, 5,  legacy_ceil,    NULL},
    {"", "Floor",          1, 5,  legacy_floor,   NULL},
    {"", "Sqrt",           1, 5,  legacy_sqrt,    NULL},
    {"", "Reciprocal",     1, 5,  legacy_reciprocal, NULL},
    {"", "Exp",            1, 5,  legacy_exp,     NULL},
    {"", "Log",            1, 5,  legacy_log,     NULL},
    {"", "Tanh",           1, 5,  legacy_tanh,    NULL},
    {"", "Sigmoid",        1, 5,  legacy_sigmoid, NULL},
    {"", "Relu",           1, 5,  legacy_relu,    NULL},
    {"", "Min",            1, 0,  fold_min,       NULL},
    {"", "Max",            1, 0,  fold_max,       NULL},
    {"", "Sum",            1, 0,  fold_sum,       NULL},
    {"", "Mean",           1, 0,  fold_mean,      NULL},
    {"", "Mod",            10, 0, modulo,         NULL},
    {"", "BitShift",       11, 0, bit_shift,      NULL},
    {"", "Cast",           1, 5,  cast_legacy,    NULL},
    {"", "CastLike",       15, 0, cast_like,      NULL},
    {"", "Clip",           1, 10, clip_legacy,    NULL},
    {"", "Identity",       1, 0,  identity,       NULL},
    // clang-format on
};
const ImportTable onnx_rows_scalar = {rows, ARRAY_LEN(rows)};
