// emit_op.c -- scalar operations and conversions as C-family text, by eval/scalar.def.
//
// Operators of C are used where they mean the same; all else calls a helper (helpers.def).  Signed
// integers are added as unsigned ones, so they wrap.  f16, bf16 and fp8 are computed in f32 and
// rounded after each operation, or in f64 where f32 would round twice.
//
// Needs:      operands of one data type, as the loop IR's verifier demands.
// Guarantees: the bits of eval/scalar.def, for functions of the math library within their error.
//             Integer division by zero continues with 0 and sets the kernel's fault.
#include "loop/span.h"
#include "targets/cstyle/emit.h"

#include <math.h>

static const char *paren(CEmit *e, CVal v) {
  return v.sum ? str_printf(e->arena, "(%s)", v.text) : v.text;
}

static bool is_f32_or_f64(DType t) { return t == DT_F32 || t == DT_F64; }

// ---- calls ----

CVal cs_call(CEmit *e, const char *helper, DType t, DType to, int n, CVal x, CVal y, CVal z) {
  CVal v[3] = {x, y, z};
  int lanes = 0;
  StrBuf b;
  strbuf_init(&b, e->arena);
  for (int i = 0; i < n; i++) lanes = MAX(lanes, v[i].lanes);
  if (!helper_need(e->c, helper, t, lanes))
    cs_refuse(e, "%s does not take %s", helper, dtype_name(t));
  strbuf_printf(&b, "tn_%s_%s", helper, dtype_name(t));
  if (lanes) strbuf_printf(&b, "x%d", lanes);
  strbuf_putc(&b, '(');
  for (int i = 0; i < n; i++)
    strbuf_printf(&b, "%s%s", i ? ", " : "", lanes ? cs_widen(e, v[i]).text : v[i].text);
  strbuf_putc(&b, ')');
  return (CVal){.text = strbuf_text(&b),
                .dtype = to,
                .lanes = lanes,
                .mask = to == DT_BOOL ? (int)cs_bytes(t) : 0};
}

// ---- masks ----

CVal cs_mask(CEmit *e, CVal m, int bytes) {
  if (!m.lanes || m.mask == bytes) return m;
  m.text = cs_convert(e, cs_mask_type(e, bytes, m.lanes), m.text);
  m.mask = bytes;
  m.sum = false;
  return m;
}

CVal cs_select(CEmit *e, CVal m, CVal x, CVal y) {
  DType t = x.dtype;
  bool vec = m.lanes || x.lanes || y.lanes;
  if (vec) x = cs_widen(e, x), y = cs_widen(e, y);
  CVal r = {.dtype = t, .lanes = vec ? e->lanes : 0};
  if (vec && t == DT_BOOL) {
    r.mask = MAX(x.mask, y.mask);
    x = cs_mask(e, x, r.mask), y = cs_mask(e, y, r.mask);
  }
  if (!m.lanes) {
    r.text = str_printf(e->arena, "%s ? %s : %s", paren(e, m), paren(e, x), paren(e, y));
    r.sum = true;
    return r;
  }
  if (t == DT_BOOL) {
    m = cs_atom(e, cs_mask(e, m, r.mask));
    r.text =
        str_printf(e->arena, "(%s & %s) | (%s & ~%s)", m.text, paren(e, x), paren(e, y), m.text);
    r.sum = true;
    return r;
  }
  helper_need(e->c, "sel", t, e->lanes);
  r.text = str_printf(e->arena, "tn_sel_%s(%s, %s, %s)", cs_type(e, t, e->lanes) + 3,
                      cs_mask(e, m, (int)cs_bytes(t)).text, x.text, y.text);
  return r;
}

// ---- operators ----

// x OP y.  One operand may be a scalar where the elements are f32 or f64: the languages widen it.
static CVal infix(CEmit *e, DType t, DType to, const char *op, CVal x, CVal y) {
  int lanes = MAX(x.lanes, y.lanes);
  if (lanes && !is_f32_or_f64(t)) x = cs_widen(e, x), y = cs_widen(e, y);
  CVal r = {.dtype = to, .lanes = lanes, .sum = true};
  r.text = str_printf(e->arena, "%s %s %s", paren(e, x), op, paren(e, y));
  if (lanes && to == DT_BOOL) r.mask = (int)cs_bytes(t);
  return r;
}

static CVal bool_op(CEmit *e, LoopOp op, CVal x, CVal y) {
  bool vec = x.lanes || y.lanes;
  if (vec) {
    int bytes = MAX(x.mask, y.mask);
    x = cs_mask(e, cs_widen(e, x), bytes);
    if (op != LOOP_not) y = cs_mask(e, cs_widen(e, y), x.mask), x = cs_mask(e, x, y.mask);
  }
  CVal r = {.dtype = DT_BOOL, .lanes = vec ? e->lanes : 0, .mask = x.mask, .sum = true};
  const char *sign = NULL;
  switch ((int)op) {
  case LOOP_and:
  case LOOP_min: sign = "&"; break;
  case LOOP_or:
  case LOOP_max: sign = "|"; break;
  case LOOP_xor: sign = "^"; break;
  case LOOP_eq: sign = vec ? "^" : "=="; break;
  case LOOP_not: r.text = str_printf(e->arena, vec ? "~%s" : "!%s", paren(e, x)); return r;
  default: cs_refuse(e, "%s does not take bool", loop_op_name[op]); return x;
  }
  r.text = str_printf(e->arena, "%s %s %s", paren(e, x), sign, paren(e, y));
  if (op == LOOP_eq && vec) r.text = str_printf(e->arena, "~(%s)", r.text);
  return r;
}

// ---- floats ----

static bool not_zero(CVal v) { return v.constant && !isnan(v.f) && (v.f < 0 || v.f > 0); }

// Against a constant one comparison decides: the order of -0 and 0 cannot matter, or is known.
static CVal pick(CEmit *e, LoopOp op, DType t, CVal x, CVal y) {
  if (x.constant) {
    CVal swap = x;
    x = y;
    y = swap;
  }
  bool positive_zero = y.constant && !x.constant && y.f == 0 && !signbit(y.f);
  if (!not_zero(y) && !(positive_zero && op == LOOP_max))
    return cs_call(e, loop_op_name[op], t, t, 2, x, y, y);
  x = cs_atom(e, x);
  const char *sign = op == LOOP_min ? ">" : positive_zero ? "<=" : "<";
  return cs_select(e, infix(e, t, DT_BOOL, sign, x, y), y, x);
}

static CVal float_op(CEmit *e, LoopOp op, DType t, CVal x, CVal y, CVal z) {
  switch ((int)op) {
  case LOOP_add: return infix(e, t, t, "+", x, y);
  case LOOP_sub: return infix(e, t, t, "-", x, y);
  case LOOP_mul: return infix(e, t, t, "*", x, y);
  case LOOP_div: return infix(e, t, t, "/", x, y);
  case LOOP_eq: return infix(e, t, DT_BOOL, "==", x, y);
  case LOOP_lt: return infix(e, t, DT_BOOL, "<", x, y);
  case LOOP_le: return infix(e, t, DT_BOOL, "<=", x, y);
  case LOOP_min:
  case LOOP_max: return pick(e, op, t, x, y);
  case LOOP_fma: return cs_call(e, "fma", t, t, 3, x, y, z);
  case LOOP_mod:
  case LOOP_fmod:
  case LOOP_pow: return cs_call(e, loop_op_name[op], t, t, 2, x, y, y);
  case LOOP_reciprocal: return infix(e, t, t, "/", cs_constant(e, t, 1, 0), x);
  case LOOP_is_nan: x = cs_atom(e, x); return infix(e, t, DT_BOOL, "!=", x, x);
  case LOOP_neg: {
    CVal r = x;
    r.text = str_printf(e->arena, "-%s", paren(e, x));
    r.sum = true;
    r.constant = false;
    return r;
  }
  case LOOP_relu: {
    CVal zero = cs_constant(e, t, 0, 0);
    x = cs_atom(e, x);
    return cs_select(e, infix(e, t, DT_BOOL, "<", x, zero), zero, x);
  }
  }
  return cs_call(e, loop_op_name[op], t, t, 1, x, x, x);
}

static CVal widen_float(CEmit *e, DType t, CVal x) {
  return cs_call(e, "from", t, DT_F32, 1, x, x, x);
}
static CVal narrow_float(CEmit *e, DType t, CVal x) {
  CVal r = cs_call(e, "to", t, t, 1, x, x, x);
  return r;
}

static CVal narrow_op(CEmit *e, LoopOp op, DType t, CVal x, CVal y, CVal z) {
  int n = loop_op_arity[op];
  x = widen_float(e, t, x);
  if (n > 1) y = widen_float(e, t, y);
  if (n > 2) z = widen_float(e, t, z);
  if (op == LOOP_fma) return narrow_float(e, t, cs_call(e, "fma_odd", DT_F32, DT_F32, 3, x, y, z));
  CVal r = float_op(e, op, DT_F32, x, y, z);
  return loop_op_is_compare(op) ? r : narrow_float(e, t, r);
}

// ---- integers ----

static DType unsigned_of(DType t) {
  int bits = dtype_bits(t);
  return bits == 8 ? DT_U8 : bits == 16 ? DT_U16 : bits == 32 ? DT_U32 : DT_U64;
}

// +, -, *, & and the like, wrapped to the dtype.
static CVal wrapped(CEmit *e, DType t, const char *op, CVal x, CVal y) {
  int lanes = MAX(x.lanes, y.lanes);
  DType u = unsigned_of(t);
  if (lanes) x = cs_widen(e, x), y = cs_widen(e, y);
  if (t == u && (lanes || dtype_bits(t) >= 32)) return infix(e, t, t, op, x, y);
  if (!lanes && dtype_bits(t) < 32) u = DT_U32;
  const char *cast = cs_type(e, u, lanes);
  const char *a = paren(e, x), *b = paren(e, y), *text;
  if (lanes && e->sp->has_vload)
    text = str_printf(e->arena, "as_%s(%s) %s as_%s(%s)", cast, x.text, op, cast, y.text);
  else
    text = str_printf(e->arena, "(%s)%s %s (%s)%s", cast, a, op, cast, b);
  text = lanes ? cs_as(e, cs_type(e, t, lanes), text)
               : str_printf(e->arena, "(%s)(%s)", cs_type(e, t, 0), text);
  return (CVal){.text = text, .dtype = t, .lanes = lanes};
}

static CVal divide(CEmit *e, LoopOp op, DType t, CVal x, CVal y) {
  if (x.lanes || y.lanes) e->not_vector = true;
  const char *name = op == LOOP_trunc_div ? "div" : loop_op_name[op];
  if (!helper_need(e->c, name, t, 0)) cs_refuse(e, "%s does not take %s", name, dtype_name(t));
  e->faults = true;
  CVal r = {.text = str_printf(e->arena, "tn_%s_%s(%s, %s, &fault%s)", name, dtype_name(t), x.text,
                               y.text, e->sp->is_device ? "s" : ""),
            .dtype = t};
  return cs_atom(e, r);  // in any case, whatever a select makes of it
}

static CVal int_op(CEmit *e, LoopOp op, DType t, CVal x, CVal y) {
  bool uns = dtype_class(t) == DC_UINT;
  CVal zero = cs_constant(e, t, 0, 0);
  switch ((int)op) {
  case LOOP_add: return wrapped(e, t, "+", x, y);
  case LOOP_sub: return wrapped(e, t, "-", x, y);
  case LOOP_mul: return wrapped(e, t, "*", x, y);
  case LOOP_bit_and: return wrapped(e, t, "&", x, y);
  case LOOP_bit_or: return wrapped(e, t, "|", x, y);
  case LOOP_bit_xor: return wrapped(e, t, "^", x, y);
  case LOOP_bit_not: return wrapped(e, t, "^", x, cs_constant(e, t, 0, -1));
  case LOOP_neg: return wrapped(e, t, "-", zero, x);
  case LOOP_div:
  case LOOP_trunc_div:
  case LOOP_mod:
  case LOOP_fmod: return divide(e, op, t, x, y);
  case LOOP_eq: return infix(e, t, DT_BOOL, "==", x, y);
  case LOOP_lt: return infix(e, t, DT_BOOL, "<", x, y);
  case LOOP_le: return infix(e, t, DT_BOOL, "<=", x, y);
  case LOOP_min:
  case LOOP_max:
    x = cs_atom(e, x), y = cs_atom(e, y);
    return cs_select(e, infix(e, t, DT_BOOL, op == LOOP_min ? "<" : ">", x, y), x, y);
  case LOOP_ceil:
  case LOOP_floor: return x;
  case LOOP_abs:
  case LOOP_relu:
    if (uns) return x;
    x = cs_atom(e, x);
    return cs_select(e, infix(e, t, DT_BOOL, "<", x, zero),
                     op == LOOP_abs ? wrapped(e, t, "-", zero, x) : zero, x);
  }
  return cs_call(e, loop_op_name[op], t, t, loop_op_arity[op], x, y, y);
}

CVal cs_op(CEmit *e, LoopOp op, DType t, CVal x, CVal y, CVal z) {
  if (op == LOOP_dot) return cs_call(e, "dot", t, t, 3, x, y, z);
  if (t == DT_BOOL) return bool_op(e, op, x, y);
  if (is_f32_or_f64(t)) return float_op(e, op, t, x, y, z);
  if (dtype_is_float(t)) return narrow_op(e, op, t, x, y, z);
  return int_op(e, op, t, x, y);
}

// ---- conversions ----

// Between f32, f64 and integers, as C converts.
static CVal plain_cast(CEmit *e, DType to, CVal x) {
  CVal r = {.dtype = to, .lanes = x.lanes};
  if (x.lanes)
    r.text = cs_convert(e, cs_type(e, to, x.lanes), x.text);
  else
    r.text = str_printf(e->arena, "(%s)%s", cs_type(e, to, 0), paren(e, x));
  return r;
}

static CVal bool_to(CEmit *e, DType to, CVal x) {
  if (x.lanes) return cs_select(e, x, cs_constant(e, to, 1, 1), cs_constant(e, to, 0, 0));
  if (!is_f32_or_f64(to) && dtype_is_float(to)) x = plain_cast(e, DT_F32, x);
  return is_f32_or_f64(to) || !dtype_is_float(to) ? plain_cast(e, to, x) : narrow_float(e, to, x);
}

static CVal int_to_float(CEmit *e, DType from, DType to, CVal x) {
  if (is_f32_or_f64(to)) return plain_cast(e, to, x);
  if (dtype_bits(from) == 64)
    x = cs_call(e, "sticky", from, DT_F64, 1, x, x, x);
  else if (dtype_bits(from) == 32)
    x = plain_cast(e, DT_F64, x);
  else
    return narrow_float(e, to, plain_cast(e, DT_F32, x));
  return narrow_float(e, to, cs_call(e, "odd", DT_F64, DT_F32, 1, x, x, x));
}

static CVal float_to_int(CEmit *e, DType from, DType to, CVal x, LoopSpan s) {
  if (s.lo >= -0x1p31 && s.hi < 0x1p31) {
    if (s.nan) {
      x = cs_atom(e, x);
      x = cs_select(e, infix(e, from, DT_BOOL, "==", x, x), x, cs_constant(e, from, 0, 0));
    }
    x = plain_cast(e, DT_I32, x);
    return to == DT_I32 ? x : plain_cast(e, to, x);
  }
  DType whole = to == DT_U64 ? DT_U64 : DT_I64;
  x = cs_call(e, whole == DT_U64 ? "to_u64" : "to_i64", from, whole, 1, x, x, x);
  return to == whole ? x : plain_cast(e, to, x);
}

CVal cs_cast(CEmit *e, const LoopExpr *node, CVal x) {
  DType from = node->src[0]->dtype, to = node->dtype;
  if (from == to) return x;
  if (from == DT_BOOL) return bool_to(e, to, x);
  if (!dtype_is_float(from)) {
    if (to == DT_BOOL) return infix(e, from, DT_BOOL, "!=", x, cs_constant(e, from, 0, 0));
    return dtype_is_float(to) ? int_to_float(e, from, to, x) : plain_cast(e, to, x);
  }
  if (!is_f32_or_f64(from)) {
    const char *packed = from == DT_BF16 ? cs_packed_bf16(e, node->src[0]) : NULL;
    x = packed ? (CVal){.text = packed, .dtype = DT_F32} : widen_float(e, from, x);
    from = DT_F32;
  }
  if (to == DT_BOOL) return infix(e, from, DT_BOOL, "!=", x, cs_constant(e, from, 0, 0));
  if (!dtype_is_float(to)) return float_to_int(e, from, to, x, loop_span(node->src[0]));
  if (from == to) return x;
  if (is_f32_or_f64(to)) return plain_cast(e, to, x);
  if (from == DT_F64) x = cs_call(e, "odd", DT_F64, DT_F32, 1, x, x, x);
  return narrow_float(e, to, x);
}
