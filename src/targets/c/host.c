// host.c -- host steps as C: if, loop, shape, concat of shapes, and casts of narrow types.
//
// Types of less than a byte and fp8 are converted element by element through double or int64_t, as
// eval/cast.c does.  A loop keeps carried values where its results will be, and an iteration's new
// values beside them until it ends.
//
// Needs:      branches with equal result types; carried values of constant size.
// Guarantees: the bits of the reference evaluation.  All other host steps are refused by op name.
#include "targets/c/emit.h"

#include "eval/control.h"
#include "eval/movement.h"
#include "eval/scalar.h"

// ---- elements of any type ----

static const char elements[] =
    "\n/* Elements by the number of their type in ONNX: 1 f32, 2 u8, 3 i8, 4 u16, 5 i16, 6 i32, 7 "
    "i64, 9 bool, 10 f16,\n"
    " * 11 f64, 12 u32, 13 u64, 16 bf16, 17 f8e4m3, 18 f8e4m3z, 19 f8e5m2, 20 f8e5m2z, 21 u4, 22 "
    "i4, 23 f4e2m1, 24 f8e8m0,\n"
    " * 25 u2, 26 i2.  Those of less than a byte are packed, the first in the low bits. */\n"
    "static unsigned tn_part(const unsigned char *p, size_t i, unsigned bits) {\n"
    "  const size_t per = 8 / bits;\n"
    "  return p[i / per] >> (i % per * bits) & ((1u << bits) - 1);\n}\n"
    "static void tn_put_part(unsigned char *p, size_t i, unsigned bits, unsigned v) {\n"
    "  const size_t per = 8 / bits, at = i % per * bits;\n"
    "  const unsigned mask = ((1u << bits) - 1) << at;\n"
    "  p[i / per] = (unsigned char)((p[i / per] & ~mask) | (v << at & mask));\n}\n"
    "static int64_t tn_get_int(int t, const unsigned char *p, size_t i) {\n"
    "  switch (t) {\n"
    "  case 2: return p[i];\n  case 3: return ((const tn_i8 *)(const void *)p)[i];\n"
    "  case 4: return ((const tn_u16 *)(const void *)p)[i];\n"
    "  case 5: return ((const tn_i16 *)(const void *)p)[i];\n"
    "  case 6: return ((const tn_i32 *)(const void *)p)[i];\n"
    "  case 7:\n  case 13: return ((const tn_i64 *)(const void *)p)[i];\n"
    "  case 9: return p[i] != 0;\n"
    "  case 12: return ((const tn_u32 *)(const void *)p)[i];\n"
    "  case 21: return tn_part(p, i, 4);\n"
    "  case 22: return (int64_t)(tn_part(p, i, 4) ^ 8) - 8;\n"
    "  case 25: return tn_part(p, i, 2);\n"
    "  default: return (int64_t)(tn_part(p, i, 2) ^ 2) - 2;\n  }\n}\n"
    "static void tn_put_int(int t, unsigned char *p, size_t i, int64_t v) {\n"
    "  switch (t) {\n"
    "  case 2:\n  case 3: p[i] = (unsigned char)v; break;\n"
    "  case 4:\n  case 5: ((tn_u16 *)(void *)p)[i] = (uint16_t)v; break;\n"
    "  case 6:\n  case 12: ((tn_u32 *)(void *)p)[i] = (uint32_t)v; break;\n"
    "  case 7:\n  case 13: ((tn_i64 *)(void *)p)[i] = v; break;\n"
    "  case 9: p[i] = v != 0; break;\n"
    "  case 21:\n  case 22: tn_put_part(p, i, 4, (unsigned)v); break;\n"
    "  default: tn_put_part(p, i, 2, (unsigned)v); break;\n  }\n}\n"
    "static double tn_small(unsigned code, int mant, int emin) {\n"
    "  const unsigned hidden = 1u << mant, field = code >> mant;\n"
    "  if (!field) return ldexp((double)code, emin - mant);\n"
    "  return ldexp((double)((code & (hidden - 1)) | hidden), emin - mant + (int)field - 1);\n}\n"
    "static double tn_mini(unsigned bits, int mant, int emin, unsigned sign, unsigned most, "
    "unsigned "
    "inf, int zero) {\n"
    "  const unsigned code = bits & (sign - 1);\n  double x;\n"
    "  if (zero ? bits == sign : code > most)\n"
    "    return inf && code == inf ? (bits & sign ? -INFINITY : INFINITY) : (double)NAN;\n"
    "  x = tn_small(code, mant, emin);\n  return bits & sign ? -x : x;\n}\n"
    "static double tn_get(int t, const unsigned char *p, size_t i) {\n"
    "  const uint16_t h = t == 10 || t == 16 ? ((const tn_u16 *)(const void *)p)[i] : 0;\n"
    "  switch (t) {\n"
    "  case 1: return (double)((const tn_f32 *)(const void *)p)[i];\n"
    "  case 11: return ((const tn_f64 *)(const void *)p)[i];\n"
    "  case 10: return tn_mini(h, 10, -14, 0x8000, 0x7bff, 0x7c00, 0);\n"
    "  case 16: return tn_mini(h, 7, -126, 0x8000, 0x7f7f, 0x7f80, 0);\n"
    "  case 17: return tn_mini(p[i], 3, -6, 0x80, 0x7e, 0, 0);\n"
    "  case 18: return tn_mini(p[i], 3, -7, 0x80, 0x7f, 0, 1);\n"
    "  case 19: return tn_mini(p[i], 2, -14, 0x80, 0x7b, 0x7c, 0);\n"
    "  case 20: return tn_mini(p[i], 2, -15, 0x80, 0x7f, 0, 1);\n"
    "  case 23: return tn_mini(tn_part(p, i, 4), 1, 0, 8, 7, 0, 0);\n"
    "  case 24: return p[i] == 255 ? (double)NAN : ldexp(1, (int)p[i] - 127);\n"
    "  case 13: return (double)((const tn_u64 *)(const void *)p)[i];\n"
    "  default: return (double)tn_get_int(t, p, i);\n  }\n}\n"
    "/* |x| in units of the type, to nearest even; above the largest code where it does not fit "
    "*/\n"
    "static unsigned tn_code(double x, int mant, int emin) {\n"
    "  int e;\n  if (x == 0) return 0;\n  if (!(fabs(x) < 0x1p200)) return 0x7fffffff;\n"
    "  (void)frexp(x, &e);\n  e = e - 1 < emin ? emin : e - 1;\n"
    "  return (unsigned)nearbyint(ldexp(fabs(x), mant - e)) + ((unsigned)(e - emin) << mant);\n}\n"
    "static unsigned tn_put_mini(double x, int mant, int emin, unsigned sign, unsigned most, "
    "unsigned "
    "inf, unsigned nan, int zero, int saturate) {\n"
    "  const unsigned s = signbit(x) ? sign : 0;\n  unsigned code;\n"
    "  if (x != x) return zero ? nan : nan | s;\n"
    "  code = tn_code(x, mant, emin);\n"
    "  if (code > most) return saturate ? most | s : inf ? inf | s : zero ? nan : nan | s;\n"
    "  return !code && zero ? 0 : code | s;\n}\n"
    "static unsigned tn_put_scale(double x, int saturate, int mode) {\n"
    "  int e, code;\n  double m;\n  if (x != x || x < 0) return 255;\n"
    "  if (x < 0x1p-127) {\n    const int up = mode == 0 || (mode == 2 && x >= 0x1.8p-128);\n"
    "    return saturate || (x > 0 && up) ? 0 : 255;\n  }\n"
    "  if (!(x < 0x1p200)) return saturate ? 254 : 255;\n"
    "  m = frexp(x, &e);\n  code = e - 1 + 127;\n"
    "  code += mode == 0 ? m > 0.5 : mode == 2 ? m >= 0.75 : 0;\n"
    "  return (unsigned)(code <= 254 ? code : saturate ? 254 : 255);\n}\n"
    "static void tn_put(int t, unsigned char *p, size_t i, double x, int saturate, int mode) {\n"
    "  switch (t) {\n"
    "  case 1: ((tn_f32 *)(void *)p)[i] = (float)x; return;\n"
    "  case 11: ((tn_f64 *)(void *)p)[i] = x; return;\n"
    "  case 10: ((tn_u16 *)(void *)p)[i] = (uint16_t)tn_put_mini(x, 10, -14, 0x8000, 0x7bff, "
    "0x7c00, "
    "0x7e00, 0, 0); return;\n"
    "  case 16: ((tn_u16 *)(void *)p)[i] = (uint16_t)tn_put_mini(x, 7, -126, 0x8000, 0x7f7f, "
    "0x7f80, "
    "0x7fc0, 0, 0); return;\n"
    "  case 17: p[i] = (unsigned char)tn_put_mini(x, 3, -6, 0x80, 0x7e, 0, 0x7f, 0, saturate); "
    "return;\n"
    "  case 18: p[i] = (unsigned char)tn_put_mini(x, 3, -7, 0x80, 0x7f, 0, 0x80, 1, saturate); "
    "return;\n"
    "  case 19: p[i] = (unsigned char)tn_put_mini(x, 2, -14, 0x80, 0x7b, 0x7c, 0x7e, 0, saturate); "
    "return;\n"
    "  case 20: p[i] = (unsigned char)tn_put_mini(x, 2, -15, 0x80, 0x7f, 0, 0x80, 1, saturate); "
    "return;\n"
    "  case 23: tn_put_part(p, i, 4, x != x ? 8 : tn_put_mini(x, 1, 0, 8, 7, 0, 0, 0, 1)); "
    "return;\n"
    "  case 24: p[i] = (unsigned char)tn_put_scale(x, saturate, mode); return;\n"
    "  case 9: p[i] = x != 0; return;\n"
    "  case 13:\n    if (x >= 0x1p63) {\n"
    "      ((tn_u64 *)(void *)p)[i] = x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;\n      return;\n    "
    "}\n"
    "  }\n"
    "  tn_put_int(t, p, i, x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : "
    "(int64_t)x);\n}\n"
    "/* A 64-bit integer so that rounding it again, to a narrower float, is right. */\n"
    "static double tn_wide(int t, const unsigned char *p, size_t i) {\n"
    "  const int64_t v = tn_get_int(t, p, i);\n  const int negative = t == 7 && v < 0;\n"
    "  uint64_t m = negative ? 0 - (uint64_t)v : (uint64_t)v;\n"
    "  if (m >> 53) m = (m & ~UINT64_C(0x7ff)) | ((m & 0x7ff) != 0 ? 0x800 : 0);\n"
    "  return negative ? -(double)m : (double)m;\n}\n"
    "/* n elements converted, as ONNX casts. */\n"
    "static void tn_cast(int from, const void *x, int to, void *y, size_t n, int saturate, int "
    "mode) {\n"
    "  const int whole_from = from != 1 && from != 10 && from != 11 && (from < 16 || from > 20) && "
    "from "
    "!= 23 && from != 24;\n"
    "  const int whole_to = to != 1 && to != 10 && to != 11 && (to < 16 || to > 20) && to != 23 && "
    "to != "
    "24;\n"
    "  for (size_t i = 0; i < n; i++) {\n"
    "    if (whole_from && whole_to)\n      tn_put_int(to, y, i, tn_get_int(from, x, i));\n"
    "    else if ((from == 7 || from == 13) && to != 11)\n"
    "      tn_put(to, y, i, tn_wide(from, x, i), saturate, mode);\n"
    "    else\n      tn_put(to, y, i, tn_get(from, x, i), saturate, mode);\n  }\n}\n";

static bool is_number(DType t) {
  DTypeClass k = dtype_class(t);
  return k == DC_FLOAT || k == DC_INT || k == DC_UINT || k == DC_BOOL;
}

static void cast_step(CModel *m, const ProgFunction *f, const ProgStep *st, const char **value) {
  const cast_attrs *at = st->attrs;
  const ProgValue *x = &f->value[st->in[0]], *y = &f->value[st->out[0]];
  if (!is_number(x->dtype) || !is_number(y->dtype)) {
    c_refuse(m, st, "C has no strings as elements: compile to a .tenon file");
    return;
  }
  m->elements = elements;
  strbuf_printf(&m->out, "  tn_cast(%d, %s, %d, %s, %s, %d, %d);\n", (int)x->dtype,
                c_address(m, f, st->in[0], value), (int)y->dtype,
                c_address(m, f, st->out[0], value), c_count(m, x), at->saturate,
                (int)at->round_mode);
}

// ---- sizes as values ----

static void shape_step(CModel *m, const ProgFunction *f, const ProgStep *st, const char **value) {
  const shape_attrs *at = st->attrs;
  const ProgValue *x = &f->value[st->in[0]];
  int64_t from = at->start < 0 ? at->start + x->rank : at->start,
          to = at->end < 0 ? at->end + x->rank : MIN(at->end, x->rank);
  const char *out = c_address(m, f, st->out[0], value);
  for (int64_t i = MAX(from, 0); i < to; i++)
    strbuf_printf(&m->out, "  ((tn_i64 *)(void *)(%s))[%lld] = %s;\n", out,
                  (long long)(i - MAX(from, 0)), c_expr(m, x->dim[i]));
}

// The parts of lists one after another.
static void concat_step(CModel *m, const ProgFunction *f, const ProgStep *st, const char **value) {
  const char *out = c_address(m, f, st->out[0], value);
  const ProgValue *y = &f->value[st->out[0]];
  if (y->rank != 1 || dtype_bits(y->dtype) < 8) {
    c_refuse(m, st, "there are no loops for this operator: only a .tenon file holds it");
    return;
  }
  strbuf_printf(&m->out, "  {\n    unsigned char *to = (void *)(%s);\n", out);
  for (int32_t i = 0; i < st->nin; i++) {
    const char *n = c_count(m, &f->value[st->in[i]]);
    strbuf_printf(&m->out, "    memcpy(to, %s, %s * %d);\n    to += %s * %d;\n",
                  c_address(m, f, st->in[i], value), n, dtype_bits(y->dtype) / 8, n,
                  dtype_bits(y->dtype) / 8);
  }
  strbuf_puts(&m->out, "    (void)to;\n  }\n");
}

// ---- branches ----

// A branch, called with the addresses of its operands.
static void call_body(CModel *m, const ProgFunction *f, const ProgStep *st,
                      const ProgFunction *body, int32_t first, const char **value) {
  StrBuf *b = &m->out;
  strbuf_puts(b, "    const void *const body_in[] = {");
  for (int32_t i = 0; i < body->nparams; i++) {
    int32_t v = st->in[first + i];
    strbuf_printf(b, "%s, ", v >= 0 ? c_address(m, f, v, value) : "NULL");
  }
  strbuf_puts(b, "NULL};\n    void *const body_out[] = {");
  for (int32_t i = 0; i < st->nout; i++)
    strbuf_printf(b, "%s, ", c_address(m, f, st->out[i], value));
  strbuf_printf(b, "NULL};\n    rc = body_%d(body_in, body_out);\n    if (rc) return rc;\n",
                body->index);
}

static bool same_types(CModel *m, const ProgFunction *f, const ProgStep *st,
                       const ProgFunction *body) {
  for (int32_t i = 0; i < st->nout; i++) {
    const ProgValue *a = &f->value[st->out[i]], *b = &body->value[body->result[i]];
    if (c_not_held(m, b) || a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int32_t k = 0; k < a->rank; k++)
      if (strcmp(c_expr(m, a->dim[k]), c_expr(m, b->dim[k])) != 0) return false;
  }
  return true;
}

static void if_step(CModel *m, const ProgFunction *f, const ProgStep *st, const char **value) {
  const if_attrs *at = st->attrs;
  const ProgFunction *yes = (const ProgFunction *)(const void *)at->then_branch,
                     *no = (const ProgFunction *)(const void *)at->else_branch;
  if (!same_types(m, f, st, yes) || !same_types(m, f, st, no)) {
    c_refuse(m, st, "the branches give results of different sizes");
    return;
  }
  strbuf_printf(&m->out, "  if (*(const unsigned char *)(%s)) {\n",
                c_address(m, f, st->in[0], value));
  call_body(m, f, st, yes, 1, value);
  strbuf_puts(&m->out, "  } else {\n");
  call_body(m, f, st, no, 1 + (int32_t)at->then_captures, value);
  strbuf_puts(&m->out, "  }\n");
}

// ---- loops ----

// Why a loop cannot be written; NULL: it can.
static const char *loop_refused(CModel *m, const ProgFunction *f, const ProgStep *st,
                                const ProgFunction *body, int32_t ncarried) {
  for (int32_t i = 0; i < st->nout; i++) {
    const ProgValue *a = &f->value[st->out[i]], *b = &body->value[body->result[1 + i]];
    int64_t n;
    if (c_not_held(m, b))
      return "a value changes its size from round to round, or has no type in C";
    if (i >= ncarried && (dtype_bits(a->dtype) < 8 || !c_number(m, a->dim[0], &n)))
      return "the number of rows depends on data";
    if (i < ncarried && strcmp(c_count(m, a), c_count(m, b)) != 0)
      return "a value changes its size from round to round";
  }
  return NULL;
}

// Carried values lie where the results will, and a round's beside them until it is over; rows are
// written in place.
static void loop_step(CModel *m, const ProgFunction *f, const ProgStep *st, const char **value) {
  const loop_attrs *at = st->attrs;
  const ProgFunction *body = (const ProgFunction *)(const void *)at->body;
  int32_t ncaptures = (int32_t)at->captures, ncarried = st->nin - 2 - ncaptures;
  StrBuf *b = &m->out;
  const char *why = loop_refused(m, f, st, body, ncarried), *trips = "INT64_MAX", *go = "1";
  if (why) {
    c_refuse(m, st, why);
    return;
  }
  if (st->in[0] >= 0 && value[st->in[0]])
    trips = str_printf(m->arena, "*(const tn_i64 *)(const void *)(%s)",
                       c_address(m, f, st->in[0], value));
  if (st->in[1] >= 0 && value[st->in[1]])
    go = str_printf(m->arena, "*(const unsigned char *)(%s)", c_address(m, f, st->in[1], value));
  strbuf_printf(b, "  {\n    const int64_t trips = %s;\n    unsigned char go = %s, next;\n", trips,
                go);
  for (int32_t i = 0; i < ncarried; i++) {
    const char *bytes = c_bytes(m, &f->value[st->out[i]]);
    strbuf_printf(b, "    static unsigned char _Alignas(64) round_%d[%s + 1];\n", i, bytes);
    strbuf_printf(b, "    memmove(%s, %s, %s);\n", c_address(m, f, st->out[i], value),
                  c_address(m, f, st->in[2 + i], value), bytes);
  }
  strbuf_puts(b, "    for (int64_t trip = 0; trip < trips && go; trip++) {\n"
                 "      const void *const body_in[] = {&trip, &go, ");
  for (int32_t i = 0; i < ncarried; i++)
    strbuf_printf(b, "%s, ", c_address(m, f, st->out[i], value));
  for (int32_t i = 0; i < ncaptures; i++)
    strbuf_printf(b, "%s, ", c_address(m, f, st->in[2 + ncarried + i], value));
  strbuf_puts(b, "NULL};\n      void *const body_out[] = {&next, ");
  for (int32_t i = 0; i < st->nout; i++) {
    if (i < ncarried)
      strbuf_printf(b, "round_%d, ", i);
    else
      strbuf_printf(b, "(unsigned char *)(%s) + (size_t)trip * %s, ",
                    c_address(m, f, st->out[i], value),
                    c_bytes(m, &body->value[body->result[1 + i]]));
  }
  strbuf_printf(b, "NULL};\n      rc = body_%d(body_in, body_out);\n      if (rc) return rc;\n",
                body->index);
  for (int32_t i = 0; i < ncarried; i++)
    strbuf_printf(b, "      memcpy(%s, round_%d, %s);\n", c_address(m, f, st->out[i], value), i,
                  c_bytes(m, &f->value[st->out[i]]));
  strbuf_puts(b, "      go = next;\n    }\n  }\n");
}

void c_host_step(CModel *m, const ProgFunction *f, const ProgStep *st, const char **value) {
  if (!strcmp(st->op, "if"))
    if_step(m, f, st, value);
  else if (!strcmp(st->op, "loop"))
    loop_step(m, f, st, value);
  else if (!strcmp(st->op, "cast"))
    cast_step(m, f, st, value);
  else if (!strcmp(st->op, "shape"))
    shape_step(m, f, st, value);
  else if (!strcmp(st->op, "concat"))
    concat_step(m, f, st, value);
  else
    c_refuse(m, st, "there are no loops for this operator: only a .tenon file holds it");
}
