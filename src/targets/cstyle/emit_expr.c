// emit_expr.c -- expressions, loads and stores as C-family text.
//
// An expression is written where it is used.  One that a statement uses more than once, or whose
// text is long, gets a named temporary before the statement.  A guarded load stays one expression,
// so that nothing behind a guard is evaluated early.
//
// Needs:      cs_new_statement before each statement: it counts uses and clears the memo.
// Guarantees: constants read back to the same bits.  Memory behind a guard that does not hold is
//             not accessed.  Vector accesses assume the alignment of one element only.
#include "targets/cstyle/emit.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONG_TEXT = 110, LISTED_LANES = 16 };

// ---- constants ----

static const char *real_text(Arena *a, double v, bool single) {
  if (isnan(v)) return single ? "NAN" : "(double)NAN";
  if (isinf(v)) return v < 0 ? "-INFINITY" : "INFINITY";
  char s[40];
  for (int digits = 1; digits <= 17; digits++) {  // the shortest that reads back
    snprintf(s, sizeof s, "%.*g", digits, v);
    double back = strtod(s, NULL);
    if (single ? (float)back == (float)v : back == v) break;
  }
  bool whole = !strpbrk(s, ".e");
  return str_printf(a, "%s%s%s", s, whole ? ".0" : "", single ? "f" : "");
}

static const char *int_text(Arena *a, DType t, int64_t i) {
  if (t == DT_I64 && i == INT64_MIN) return "INT64_MIN";
  if (t == DT_I32 && i == INT32_MIN) return "INT32_MIN";
  if (t == DT_I64) return str_printf(a, "INT64_C(%lld)", (long long)i);
  if (t == DT_U64) return str_printf(a, "UINT64_C(%llu)", (unsigned long long)i);
  if (t == DT_U32) return str_printf(a, "%lluu", (unsigned long long)(uint32_t)i);
  return str_printf(a, "%lld", (long long)i);
}

const char *cstyle_constant(Arena *a, DType t, double f, int64_t i) {
  if (t == DT_F32 || t == DT_F64) return real_text(a, f, t == DT_F32);
  if (!dtype_is_float(t)) return int_text(a, t, i);
  uint64_t bits = 0;
  store_f64(t, &bits, 0, 1, &f);
  return str_printf(a, "0x%llx", (unsigned long long)bits);
}

CVal cs_constant(CEmit *e, DType t, double f, int64_t i) {
  CVal v = {
      .text = cstyle_constant(e->arena, t, f, i), .dtype = t, .constant = true, .f = f, .i = i};
  v.sum = *v.text == '-' || *v.text == '(';
  return v;
}

// ---- names for values ----

static bool is_plain(const char *text) {
  for (const char *p = text; *p; p++)
    if (!isalnum((unsigned char)*p) && *p != '_' && *p != '.') return false;
  return true;
}

static const char *value_type(CEmit *e, CVal v) {
  return v.dtype == DT_BOOL && v.lanes ? cs_mask_type(e, v.mask, v.lanes)
                                       : cs_type(e, v.dtype, v.lanes);
}

static CVal name_it(CEmit *e, CVal v, const char *base) {
  const char *name = cs_name(e, base);
  cs_line(e, "const %s %s = %s;", value_type(e, v), name, v.text);
  v.text = name;
  v.sum = false;
  v.constant = false;
  return v;
}

CVal cs_atom(CEmit *e, CVal v) { return v.constant || is_plain(v.text) ? v : name_it(e, v, "t"); }

CVal cs_widen(CEmit *e, CVal v) {
  if (!e->lanes || v.lanes) return v;
  v.lanes = e->lanes;
  if (v.dtype == DT_BOOL) {
    helper_need(e->c, "set", DT_I32, e->lanes);
    v.text = str_printf(e->arena, "tn_set_i32x%d(-(%s))", e->lanes, v.text);
    v.mask = 4;
  } else {
    DType t = v.dtype;
    helper_need(e->c, "set", t, e->lanes);
    v.text = str_printf(e->arena, "tn_set_%s(%s)", cs_type(e, t, e->lanes) + 3, v.text);
  }
  v.sum = false;
  return v;
}

// ---- loads ----

static const char *place(CEmit *e, int32_t buffer, CLin at) {
  e->buffer_used[buffer] = true;
  return str_printf(e->arena, "%s[%s]", e->buffer[buffer], cs_lin_text(e, at));
}

static const char *address(CEmit *e, int32_t buffer, CLin at) {
  e->buffer_used[buffer] = true;
  if (!at.text && !at.c) return e->buffer[buffer];
  const char *text = cs_lin_text(e, at);
  if (*text == '-' && at.text) return str_printf(e->arena, "%s + (%s)", e->buffer[buffer], text);
  return str_printf(e->arena, *text == '-' ? "%s - %s" : "%s + %s", e->buffer[buffer],
                    *text == '-' ? text + 1 : text);
}

// Several elements at once, wherever they lie.
static const char *load_word(CEmit *e, const char *at, int64_t elements) {
  if (e->sp->has_vload) return str_printf(e->arena, "as_uint(vload%d(0, %s))", (int)elements, at);
  helper_need(e->c, "word", DT_U32, 0);
  return str_printf(e->arena, "tn_word(%s)", at);
}

static void store_word(CEmit *e, const char *at, const LoopStmt *s, CVal v) {
  if (e->sp->has_vload) {
    cs_line(e, "vstore4(as_%s4((uint)(%s)), 0, %s);",
            e->sp->type[e->k->buffer[s->buffer].dtype == DT_I8 ? DT_I8 : DT_U8], v.text, at);
    return;
  }
  cs_open(e, "{");
  cs_line(e, "const %s tn_bytes = %s;", e->sp->type[DT_U32], v.text);
  cs_line(e, "memcpy(%s, &tn_bytes, sizeof tn_bytes);", at);
  cs_close(e);
}

static CVal load_scalar(CEmit *e, const LoopExpr *x, CLin at, int64_t wide) {
  CVal v = {.dtype = x->dtype};
  if (wide > 1) {
    v.text = load_word(e, address(e, x->buffer, at), wide);
  } else {
    v.text = place(e, x->buffer, at);
  }
  if (x->dtype == DT_BOOL) {
    v.text = str_printf(e->arena, "%s != 0", v.text);
    v.sum = true;
  }
  return v;
}

// Each lane's element by itself.
static const char *list_lanes(CEmit *e, const LoopExpr *x, CLin at) {
  StrBuf b;
  strbuf_init(&b, e->arena);
  DType t = x->dtype == DT_BOOL ? DT_U8 : x->dtype;
  for (int i = 0; i < e->lanes; i++) {
    CLin one = at;
    if (!ck_add(at.c, at.stride * i, &one.c)) e->not_vector = true;
    strbuf_printf(&b, "%s%s", i ? ", " : "", place(e, x->buffer, one));
  }
  return cs_list(e, cs_type(e, t, e->lanes), strbuf_text(&b));
}

static CVal load_lanes(CEmit *e, const LoopExpr *x, CLin at, int64_t wide) {
  CVal v = {.dtype = x->dtype, .lanes = e->lanes};
  DType t = x->dtype == DT_BOOL ? DT_U8 : x->dtype;
  const char *type = cs_type(e, t, e->lanes);
  if (wide > 1 && e->sp->has_vload) e->not_vector = true;  // vload takes elements as they are
  if (at.stride == wide) {
    helper_need(e->c, "load", t, e->lanes);
    v.text = str_printf(e->arena, "tn_load_%s(%s)", type + 3, address(e, x->buffer, at));
  } else {
    if (wide > 1 || e->lanes > LISTED_LANES) e->not_vector = true;
    v.text = list_lanes(e, x, at);
  }
  if (x->dtype == DT_BOOL) {
    v.mask = 1;
    helper_need(e->c, "set", DT_U8, e->lanes);
    v.text = str_printf(e->arena, "%s != tn_set_u8x%d(0)", v.text, e->lanes);
    if (!e->sp->has_vload) v.text = cs_as(e, cs_mask_type(e, 1, e->lanes), v.text);
    v.sum = e->sp->has_vload;
  }
  return v;
}

static CVal emit_load(CEmit *e, const LoopExpr *x) {
  const char *packed = cs_packed(e, x);
  if (packed) return (CVal){.dtype = x->dtype, .text = packed};
  bool has_other = x->nguards && x->src[0];
  CVal other = has_other ? cs_expr(e, x->src[0]) : cs_constant(e, x->dtype, 0, 0);
  const char *guard = cs_guards(e, x->nguards, x->guard);
  CLin at = cs_place(e, x->buffer, x->index);
  int64_t wide = cs_bytes(x->dtype) / cs_bytes(e->k->buffer[x->buffer].dtype);
  CVal v;
  if (!e->sp->extension || *guard || !e->sp->extension->load(e, x, &v))
    v = at.stride ? load_lanes(e, x, at, wide) : load_scalar(e, x, at, wide);
  cs_drop_guards(e, x->nguards, x->guard);
  if (!*guard) return v;
  if (v.lanes || other.lanes) {
    if (!v.lanes) {  // read once, where the guard holds
      const char *zero = cstyle_constant(e->arena, x->dtype, 0, 0);
      v.text = str_printf(e->arena, "%s ? %s : %s", guard, v.text, zero);
      v.sum = true;
      v = cs_widen(e, v);
    }
    other = cs_widen(e, other);
    if (x->dtype == DT_BOOL) other = cs_mask(e, other, v.mask);
  }
  v.text = str_printf(e->arena, "%s ? %s : %s", guard, v.text, other.text);
  v.sum = true;
  return v;
}

// ---- stores ----

static void store_lanes(CEmit *e, const LoopStmt *s, CLin at, CVal v) {
  DType t = v.dtype;
  if (t == DT_BOOL) {
    v = cs_mask(e, v, 1);
    helper_need(e->c, "set", DT_I8, e->lanes);
    const char *bits = v.sum ? str_printf(e->arena, "(%s)", v.text) : v.text;
    v.text = cs_as(e, cs_type(e, DT_U8, e->lanes),
                   str_printf(e->arena, "%s & tn_set_i8x%d(1)", bits, e->lanes));
    v.dtype = t = DT_U8;
    v.sum = false;
  }
  if (at.stride == 1) {
    helper_need(e->c, "store", t, e->lanes);
    cs_line(e, "tn_store_%s(%s, %s);", cs_type(e, t, e->lanes) + 3, address(e, s->buffer, at),
            v.text);
    return;
  }
  if (e->lanes > LISTED_LANES) e->not_vector = true;
  v = cs_atom(e, v);
  for (int i = 0; i < e->lanes && !e->not_vector; i++) {
    CLin one = at;
    if (!ck_add(at.c, at.stride * i, &one.c)) e->not_vector = true;
    cs_line(e, "%s = %s;", place(e, s->buffer, one), cs_lane(e, v.text, i));
  }
}

void cs_store(CEmit *e, const LoopStmt *s) {
  CVal v = cs_expr(e, s->value);
  const char *packed = cs_packed(e, s);
  if (packed) {
    cs_line(e, "%s = %s;", packed, v.text);
    return;
  }
  const char *guard = cs_guards(e, s->nguards, s->guard);
  CLin at = cs_place(e, s->buffer, s->index);
  bool word = cs_bytes(s->value->dtype) > cs_bytes(e->k->buffer[s->buffer].dtype);
  if (e->sp->extension && !*guard && e->sp->extension->store(e, s, v)) {
    cs_drop_guards(e, s->nguards, s->guard);
    return;
  }
  if (*guard) {
    if (v.lanes) v = cs_atom(e, v);
    cs_open(e, "if (%s) {", guard);
  }
  if (word) {  // four bytes at once
    if (at.stride || v.lanes) e->not_vector = true;
    store_word(e, address(e, s->buffer, at), s, v);
  } else if (at.stride) {
    store_lanes(e, s, at, cs_widen(e, v));
  } else {
    if (v.lanes) e->not_vector = true;  // all lanes to one element
    cs_line(e, "%s = %s;", place(e, s->buffer, at), v.text);
  }
  if (*guard) cs_close(e);
  cs_drop_guards(e, s->nguards, s->guard);
}

// ---- expressions ----

static CVal emit_index(CEmit *e, const LoopExpr *x) {
  CLin at = cs_lin(e, x->index);
  CVal v = {.dtype = DT_I64, .lanes = at.stride ? e->lanes : 0};
  if (!at.stride) {
    if (!at.text) return cs_constant(e, DT_I64, 0, at.c);
    v.text = str_printf(e->arena, "(int64_t)%s", cs_operand(e, at));
    return v;
  }
  if (e->lanes > LISTED_LANES) e->not_vector = true;
  StrBuf b;
  strbuf_init(&b, e->arena);
  helper_need(e->c, "set", DT_I64, e->lanes);
  for (int i = 0; i < e->lanes; i++)
    strbuf_printf(&b, "%s%lld", i ? ", " : "", (long long)(at.stride * i));
  v.text = str_printf(e->arena, "tn_set_i64x%d(%s) + %s", e->lanes, cs_lin_text(e, at),
                      cs_list(e, cs_type(e, DT_I64, e->lanes), strbuf_text(&b)));
  v.sum = true;
  return v;
}

static CVal bit_cast(CEmit *e, const LoopExpr *x, CVal v) {
  DType from = x->src[0]->dtype, to = x->dtype;
  bool narrow_from = from != DT_F32 && from != DT_F64, narrow_to = to != DT_F32 && to != DT_F64;
  CVal r = {.dtype = to, .lanes = v.lanes};
  if (v.lanes) {
    if (from == DT_BOOL || to == DT_BOOL) e->not_vector = true;
    r.text = cs_as(e, cs_type(e, to, v.lanes), v.text);
  } else if (to == DT_BOOL) {
    r.text = str_printf(e->arena, "(%s) != 0", v.text);
    r.sum = true;
  } else if (narrow_from && narrow_to) {  // integers on both sides
    r.text = str_printf(e->arena, "(%s)(%s)", cs_type(e, to, 0), v.text);
  } else {
    return cs_call(e, narrow_from ? "float_of_bits" : "bits_of_float", narrow_from ? to : from, to,
                   1, v, v, v);
  }
  return r;
}

// The table is two numbers, whatever the lanes.
static CVal lookup(CEmit *e, const LoopExpr *x) {
  CVal v = cs_expr(e, x->src[0]);
  if (!helper_need(e->c, "lookup", DT_U32, v.lanes)) cs_refuse(e, "lookup has no vectors");
  const char *low = cs_expr(e, x->src[1]).text, *high = cs_expr(e, x->src[2]).text;
  const char *lanes = v.lanes ? str_printf(e->arena, "x%d", v.lanes) : "";
  v.text = str_printf(e->arena, "tn_lookup_u32%s(%s, %s, %s)", lanes, v.text, low, high);
  v.sum = v.constant = false;
  return v;
}

static CVal emit_op(CEmit *e, const LoopExpr *x) {
  CVal own;
  if (e->sp->extension && e->sp->extension->op(e, x, &own)) return own;
  if (x->op == LOOP_lookup) return lookup(e, x);
  CVal v[3] = {{0}, {0}, {0}};
  int n = loop_op_arity[x->op];
  for (int i = 0; i < n; i++) v[i] = cs_expr(e, x->src[i]);
  if (x->op == LOOP_select) return cs_select(e, v[0], v[1], v[2]);
  if (x->op == LOOP_bit_cast) return bit_cast(e, x, v[0]);
  if (x->op == LOOP_cast) return cs_cast(e, x, v[0]);
  DType t = x->op == LOOP_dot ? x->dtype : x->src[0]->dtype;
  return cs_op(e, (LoopOp)x->op, t, v[0], v[1], v[2]);
}

static bool used_again(CEmit *e, const LoopExpr *x) {
  uint64_t n = 0;
  return intmap_get(&e->uses, (uint64_t)(uintptr_t)x, &n) && n > 1;
}

CVal cs_expr(CEmit *e, const LoopExpr *x) {
  uint64_t known;
  if (intmap_get(&e->memo, (uint64_t)(uintptr_t)x, &known)) return e->vals.v[known];
  CVal r = {.text = "0", .dtype = x->dtype};
  switch ((LoopExprKind)x->kind) {
  case LX_CONST: r = cs_constant(e, x->dtype, x->f, x->i); break;
  case LX_INDEX: r = emit_index(e, x); break;
  case LX_LOAD: r = emit_load(e, x); break;
  case LX_VAR: r = e->var[x->var]; break;
  case LX_OP: r = emit_op(e, x); break;
  }
  if (!r.text) {
    cs_fail(e, "a variable has no value where it is used");
    r.text = "0";
  }
  bool named = x->kind == LX_LOAD || x->kind == LX_OP || x->kind == LX_INDEX;
  if (named && (used_again(e, x) || strlen(r.text) > LONG_TEXT)) r = cs_atom(e, r);
  intmap_put(&e->memo, (uint64_t)(uintptr_t)x, (uint64_t)e->vals.n);
  vec_push(e->arena, &e->vals, r);
  return r;
}

static void count_uses(CEmit *e, const LoopExpr *x) {
  uint64_t n = 0;
  if (!x) return;
  bool seen = intmap_get(&e->uses, (uint64_t)(uintptr_t)x, &n);
  intmap_put(&e->uses, (uint64_t)(uintptr_t)x, n + 1);
  for (int i = 0; i < 3 && !seen; i++) count_uses(e, x->src[i]);
}

void cs_new_statement(CEmit *e, const LoopExpr *x) {
  intmap_init(&e->memo, e->arena);
  intmap_init(&e->uses, e->arena);
  e->vals.n = 0;
  count_uses(e, x);
}
