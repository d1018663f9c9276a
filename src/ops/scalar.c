// scalar.c -- records of the scalar ops, from eval/scalar.def.
//
// Besides types, inference follows the contents of small integer tensors: what exporters compute of
// shapes (batch*seq, height/2) comes out as expressions over the model's symbols.
#include "eval/scalar.h"
#include "ir/opinfo.h"
#include "ops/sym.h"

// ---- contents known symbolically ----

// The element of an operand that a result element reads; operands of at most KNOWN_MAX elements.
static int64_t operand_index(const Type *t, const Type *out, int64_t at) {
  int64_t index = 0, stride = 1;
  for (int d = out->rank - 1; d >= 0; d--) {
    int64_t i = at % out->dims[d]->value;
    at /= out->dims[d]->value;
    int k = d - (out->rank - t->rank);
    if (k < 0) continue;
    if (!ie_is(t->dims[k], 1)) index += i * stride;
    stride *= t->dims[k]->value;
  }
  return index;
}

// Truncating division is floor division where nothing is negative; what lies between -b and 0 gives
// 0, as in (size - 1) / b + 1.
static Dim sym_div(Infer *in, Dim a, Dim b) {
  IntPool *p = &in->g->dims;
  bool real = dtype_is_float(infer_type(in, 0)->dtype);
  if (!real && a->lo < 0 && ie_is_const(b) && a->lo > -b->value) a = ie_max(p, a, p->zero);
  if (ie_is(b, 0) || a->lo < 0 || b->lo < 0 || (real && b->lo < 1)) return NULL;
  if (!ie_is_const(b) && b->lo < 1 && ie_is_const(a)) return NULL;
  Dim q = ie_div(p, a, b);
  // A float quotient is known only when the division is exact.
  if (real && ie_mul(p, q, b) != a) return NULL;
  return q;
}

static Dim sym_bool(IntPool *p, Answer a) { return a == UNKNOWN ? NULL : ie_const(p, a == YES); }

static Answer sym_le(IntPool *p, Dim a, Dim b) {
  Answer gt = ie_lt(p, b, a);
  return gt == UNKNOWN ? UNKNOWN : gt == YES ? NO : YES;
}

static bool may_be_minus_zero(Infer *in, int op, Dim a, Dim b) {
  if (!dtype_is_float(infer_type(in, 0)->dtype)) return false;
  if (op == OP_neg) return sym_may_vanish(a);
  if (op == OP_mod) return a->lo < 0 || b->lo < 0;
  return op == OP_mul && sym_may_be_minus_zero(a, b);
}

static Dim sym_apply(Infer *in, int op, Dim a, Dim b) {
  IntPool *p = &in->g->dims;
  if (may_be_minus_zero(in, op, a, b)) return NULL;
  bool bits = ie_is_const(a) && (!b || ie_is_const(b));
  switch (op) {
  case OP_add: return ie_add(p, a, b);
  case OP_sub: return ie_sub(p, a, b);
  case OP_mul: return ie_mul(p, a, b);
  case OP_div: return sym_div(in, a, b);
  case OP_mod: return ie_is(b, 0) ? NULL : ie_mod(p, a, b);
  case OP_min: return ie_min(p, a, b);
  case OP_max: return ie_max(p, a, b);
  case OP_neg: return ie_sub(p, p->zero, a);
  case OP_abs:
  case OP_relu: return a->lo >= 0 ? a : NULL;
  case OP_floor:
  case OP_ceil:
  case OP_round: return a;  // contents followed through floats are whole numbers
  case OP_eq: return sym_bool(p, ie_eq(p, a, b));
  case OP_lt: return sym_bool(p, ie_lt(p, a, b));
  case OP_le: return sym_bool(p, sym_le(p, a, b));
  case OP_not: return bits ? ie_const(p, !a->value) : NULL;
  case OP_and: return bits ? ie_const(p, a->value && b->value) : NULL;
  case OP_or: return bits ? ie_const(p, a->value || b->value) : NULL;
  default: return NULL;
  }
}

static int opcode(const OpInfo *op) {
  for (int i = 0; i < OP_COUNT; i++)
    if (op_table[i] == op) return i;
  return -1;
}

static void infer_contents(Infer *in) {
  const Type *out = in->type[0];
  int64_t n = 1, count[3];
  const Dim *sym[3];
  if (in->nsrc > 3 || !type_is_static(out)) return;
  for (int i = 0; i < out->rank; i++)
    if (!ck_mul(n, out->dims[i]->value, &n) || n > KNOWN_MAX) return;
  for (int i = 0; i < in->nsrc; i++)
    if (!infer_src(in, i) || !node_sym(in->g, in->src[i], &count[i], &sym[i])) return;
  int op = opcode(in->op);
  Dim *r = arena_array(&in->g->arena, Dim, MAX(n, 1));
  for (int64_t k = 0; k < n; k++) {
    Dim v[3] = {NULL, NULL, NULL};
    for (int i = 0; i < in->nsrc; i++) v[i] = sym[i][operand_index(infer_type(in, i), out, k)];
    if (op == OP_where)
      r[k] = ie_is_const(v[0]) ? v[v[0]->value ? 1 : 2] : v[1] == v[2] ? v[1] : NULL;
    else
      r[k] = sym_apply(in, op, v[0], v[1]);
    // Arithmetic on tensors wraps; an expression does not.
    if (!r[k] || ie_is_poison(r[k]) || !sym_fits(out->dtype, r[k])) return;
  }
  in->sym = r;
  in->nsym = n;
}

// ---- types ----

static bool class_taken(int classes, DType t) {
  switch (dtype_class(t)) {
  case DC_FLOAT: return classes & SC_F;
  case DC_INT:
  case DC_UINT: return classes & SC_I;
  case DC_BOOL: return classes & SC_B;
  case DC_COMPLEX: return classes & SC_X;
  case DC_STRING: return classes & SC_T;
  case DC_NONE: return true;
  }
  return false;
}

static tenon_status infer_scalar(Infer *in, int classes, bool to_bool) {
  TRY(infer_need(in, 0, 0));
  DType t = 0;
  for (int i = 0; i < in->nsrc; i++) {
    TRY(infer_need(in, i, 0));
    DType ti = infer_type(in, i)->dtype;
    if (!class_taken(classes, ti))
      return infer_fail(in, TENON_EINVAL, "operand %d is %s, which %s does not take", i,
                        dtype_name(ti), in->op->name);
    if (!t) t = ti;
    if (!(classes & SC_MIXED) && ti && t != ti)
      return infer_fail(in, TENON_EINVAL, "operands 0 and %d differ in type: %s and %s", i,
                        dtype_name(t), dtype_name(ti));
  }
  if (classes & SC_MIXED) t = infer_type(in, 0)->dtype;
  int rank;
  Dim dims[MAX_RANK];
  TRY(infer_broadcast(in, 0, in->nsrc, &rank, dims));
  if (to_bool) t = DT_BOOL;
  if (rank < 0) {
    infer_set_unranked(in, 0, t);
    return TENON_OK;
  }
  TRY(infer_set(in, 0, t, rank, dims));
  infer_contents(in);
  return TENON_OK;
}

enum { C = OPF_COMMUTES, A = OPF_ASSOCIATES };
enum { F = SC_F, I = SC_I, S = SC_S, B = SC_B, X = SC_X, T = SC_T, MIXED = SC_MIXED };
#define SAME false
#define BOOL true
// Samples by what the op takes: f32 always where floats are taken, else i32, else bool.
#define SAMPLES_1(cls) (cls) & F ? samples_f1 : (cls)&I ? samples_i1 : samples_b1
#define SAMPLES_2(cls) (cls) & F ? samples_f2 : (cls)&I ? samples_i2 : samples_b2
static const char *const samples_f1[] = {"(f32[2,3])", "(f32[])",    "(f64[5])", "(f16[0,3])",
                                         "(bf16[7])",  "(f32[b,4])", NULL};
static const char *const samples_i1[] = {"(i32[2,3])", "(u8[5])", "(i64[])", NULL};
static const char *const samples_b1[] = {"(bool[2,3])", "(bool[])", NULL};
static const char *const samples_f2[] = {
    "(f32[2,3], f32[2,3])", "(f32[2,3], f32[3])", "(f32[], f32[2,1])",  "(f16[2,3], f16[2,1])",
    "(f32[0,3], f32[3])",   "(f64[4], f64[])",    "(f32[b,4], f32[4])", NULL};
static const char *const samples_i2[] = {"(i32[2,3], i32[3])", "(u8[5], u8[])",
                                         "(i64[2,1], i64[1,3])", NULL};
static const char *const samples_b2[] = {"(bool[2,3], bool[3])", "(bool[], bool[2])", NULL};

#define CLASSES(cls)                                                                               \
  (cls) & T ? "any"                                                                                \
  : (cls)&X ? "number complex"                                                                     \
  : (cls)&B ? ((cls)&F ? "number bool" : "bool")                                                   \
  : (cls)&F ? ((cls)&I ? "number" : "float")                                                       \
            : "integer"

#define SCALAR(nm, ar, cls, res, onnx_name, onnx_opset, fl, fexpr, iexpr, text, ...)               \
  static tenon_status infer_##nm(Infer *in) { return infer_scalar(in, cls, res); }                 \
  const OpInfo op_##nm = {.name = #nm,                                                             \
                          .doc = text,                                                             \
                          .onnx = onnx_name,                                                       \
                          .onnx_since = onnx_opset,                                                \
                          .operands = ar == 1 ? "x" : "x y",                                       \
                          .results = "z",                                                          \
                          .dtypes = CLASSES(cls),                                                  \
                          .arity = ar,                                                             \
                          .nres = 1,                                                               \
                          .flags = OPF_ELEMENTWISE | (fl),                                         \
                          .infer = infer_##nm,                                                     \
                          .eval = eval_##nm,                                                       \
                          .samples = ar == 1 ? (SAMPLES_1(cls)) : (SAMPLES_2(cls)),                \
                          __VA_ARGS__};
#include "eval/scalar.def"
#undef SCALAR

// ---- where, cast, bit_cast, is_inf, clip ----

static tenon_status infer_where(Infer *in) {
  TRY(infer_need(in, 0, DT_BOOL));
  TRY(infer_same_dtype(in, 1, 2));
  int rank;
  Dim dims[MAX_RANK];
  TRY(infer_broadcast(in, 0, 3, &rank, dims));
  DType t = infer_type(in, 1)->dtype;
  if (rank < 0) {
    infer_set_unranked(in, 0, t);
    return TENON_OK;
  }
  TRY(infer_set(in, 0, t, rank, dims));
  infer_contents(in);
  return TENON_OK;
}

static tenon_status infer_cast(Infer *in) {
  const cast_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  if (!dtype_valid(at->to)) return infer_fail(in, TENON_EINVAL, "no result type is given");
  const Type *t = infer_type(in, 0);
  bool complex_text = (dtype_class(t->dtype) == DC_COMPLEX && at->to == DT_STRING) ||
                      (t->dtype == DT_STRING && dtype_class(at->to) == DC_COMPLEX);
  if (complex_text)
    return infer_fail(in, TENON_EUNSUPPORTED,
                      "casts between strings and complex numbers are not defined");
  infer_set_type(in, 0, type_with_dtype(in->g, t, at->to));
  int64_t n;
  const Dim *sym;
  bool keeps = dtype_bits(at->to) >= 32 && (dtype_is_int(at->to) || dtype_is_float(at->to));
  if (!keeps || !node_sym(in->g, in->src[0], &n, &sym)) return TENON_OK;
  for (int64_t i = 0; i < n; i++)
    if (!sym_fits(at->to, sym[i])) return TENON_OK;
  in->sym = sym;
  in->nsym = n;
  return TENON_OK;
}

static tenon_status infer_bit_cast(Infer *in) {
  const bit_cast_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  const Type *t = infer_type(in, 0);
  if (!dtype_valid(at->to) || at->to == DT_STRING ||
      (t->dtype && dtype_bits(t->dtype) != dtype_bits(at->to)))
    return infer_fail(in, TENON_EINVAL, "%s cannot be read as %s: the widths differ",
                      dtype_name(t->dtype), dtype_name(at->to));
  infer_set_type(in, 0, type_with_dtype(in->g, t, at->to));
  return TENON_OK;
}

static tenon_status infer_is_inf(Infer *in) {
  TRY(infer_need(in, 0, 0));
  infer_set_type(in, 0, type_with_dtype(in->g, infer_type(in, 0), DT_BOOL));
  return TENON_OK;
}

static tenon_status infer_clip(Infer *in) {
  TRY(infer_need(in, 0, 0));
  for (int i = 1; i < in->nsrc; i++) {
    if (!infer_src(in, i)) continue;
    TRY(infer_same_dtype(in, 0, i));
    Dim n = type_numel(in->g, infer_type(in, i));
    if (n && ie_eq(&in->g->dims, n, in->g->dims.one) == NO)
      return infer_fail(in, TENON_EINVAL, "operand %d must be a scalar", i);
  }
  infer_set_type(in, 0, infer_type(in, 0));
  return TENON_OK;
}

static void expand_clip(Graph *g, const Node *n, Node **out) {
  Node *lo = src_or_null(g, n, 1), *hi = src_or_null(g, n, 2), *x = n->src[0];
  Node *scalar = node_i64s(g, 0, NULL);
  if (lo) x = N(g, max, x, N(g, reshape, lo, scalar));
  if (hi) x = N(g, min, x, N(g, reshape, hi, scalar));
  out[0] = x;
}

ATTR_TABLE(cast, CAST_ATTRS);
ATTR_TABLE(bit_cast, BIT_CAST_ATTRS);
ATTR_TABLE(is_inf, IS_INF_ATTRS);

const OpInfo op_where = {
    .name = "where",
    .doc = "x where the condition holds, else y",
    .onnx = "Where",
    .onnx_since = 9,
    .operands = "condition x y",
    .results = "z",
    .dtypes = "bool",
    .arity = 3,
    .nres = 1,
    .range = RANGE_where,
    .flags = OPF_ELEMENTWISE,
    .infer = infer_where,
    .eval = eval_where,
    SAMPLES("(bool[2,3], f32[2,3], f32[3])", "(bool[], i64[2], i64[1])", "(bool[3], i4[3], i4[3])",
            "(bool[0], f16[0], f16[])"),
};
const OpInfo op_cast = {
    .name = "cast",
    .doc = "the same values in another type",
    .onnx = "Cast",
    .onnx_since = 6,
    .operands = "x",
    .results = "y",
    .dtypes = "any",
    .arity = 1,
    .nres = 1,
    .range = RANGE_cast,
    .flags = OPF_ELEMENTWISE,
    OP_ATTRS(cast),
    .infer = infer_cast,
    .eval = eval_cast,
    SAMPLES("(f32[2,3]) to=i32", "(i64[4]) to=f16", "(f32[5]) to=f8e4m3", "(f32[5]) to=bf16",
            "(i4[5]) to=f32", "(bool[]) to=f64", "(f32[0,2]) to=u8"),
};
const OpInfo op_bit_cast = {
    .name = "bit_cast",
    .doc = "the same bits read as another type of that width",
    .onnx = "BitCast",
    .onnx_since = 26,
    .operands = "x",
    .results = "y",
    .dtypes = "any",
    .arity = 1,
    .nres = 1,
    .flags = OPF_ELEMENTWISE,
    OP_ATTRS(bit_cast),
    .infer = infer_bit_cast,
    .eval = eval_bit_cast,
    SAMPLES("(f32[2,3]) to=i32", "(f16[]) to=u16"),
};
const OpInfo op_is_inf = {
    .name = "is_inf",
    .doc = "infinite, of the signs asked for",
    .onnx = "IsInf",
    .onnx_since = 10,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .flags = OPF_ELEMENTWISE,
    OP_ATTRS(is_inf),
    .infer = infer_is_inf,
    .eval = eval_is_inf,
    SAMPLES("(f32[2,3])", "(f64[]) detect_negative=false"),
};
const OpInfo op_clip = {
    .name = "clip",
    .doc = "x kept between min and max",
    .onnx = "Clip",
    .onnx_since = 11,
    .operands = "x min? max?",
    .results = "y",
    .dtypes = "number",
    .arity = -1,
    .nres = 1,
    .range = RANGE_clip,
    .flags = OPF_ELEMENTWISE | OPF_COMPOSITE,
    .infer = infer_clip,
    .eval = eval_clip,
    .expand = expand_clip,
    SAMPLES("(f32[2,3], f32[]{-0.5}, f32[]{0.5})", "(f32[4], _, f32[]{0})", "(i8[5], i8[]{-3})",
            "(f16[2,0])", "(u64[3], u64[]{2}, u64[]{5})"),
};
