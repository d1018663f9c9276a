// sample.c -- an op's sample as the text of a graph (sample.h).
#include "sample.h"

#include <math.h>
#include <stdlib.h>

static const char *skip(const char *p) {
  while (*p == ' ') p++;
  return p;
}

// End of an operand: the next comma or parenthesis outside brackets.
static const char *operand_end(const char *p) {
  int depth = 0;
  for (; *p; p++) {
    if (*p == '"')
      for (p++; *p && *p != '"'; p++) p += *p == '\\';
    if (depth == 0 && (*p == ',' || *p == ')')) return p;
    depth += *p == '[' || *p == '{' || *p == '(';
    depth -= *p == ']' || *p == '}' || *p == ')';
  }
  return p;
}

const char *sample_graph(Arena *a, const Sample *s) {
  StrBuf params, consts, args, out;
  strbuf_init(&params, a);
  strbuf_init(&consts, a);
  strbuf_init(&args, a);
  strbuf_init(&out, a);
  const char *p = skip(s->text);
  if (*p != '(') return NULL;
  int nparams = 0, nconsts = 0;
  for (p = skip(p + 1); *p != ')'; p = skip(*p == ',' ? p + 1 : p)) {
    const char *end = operand_end(p);
    Str t = {p, end - p};
    const char *comma = args.n ? ", " : "";
    if (str_is(t, "_")) {
      strbuf_printf(&args, "%s_", comma);
    } else if (memchr(t.p, '{', (size_t)t.n)) {
      const char *brace = memchr(t.p, '{', (size_t)t.n);
      strbuf_printf(&consts, "  %%c%d = const %.*s %.*s\n", nconsts, (int)(brace - t.p), t.p,
                    (int)(end - brace), brace);
      strbuf_printf(&args, "%s%%c%d", comma, nconsts++);
    } else {
      strbuf_printf(&params, "%s%%p%d: %.*s", nparams ? ", " : "", nparams, (int)t.n, t.p);
      strbuf_printf(&args, "%s%%p%d", comma, nparams++);
    }
    p = end;
    if (!*p) return NULL;
  }
  const char *attrs = skip(p + 1),
             *arrow = strncmp(attrs, "-> ", 3) ? strstr(attrs, " -> ") : attrs;
  int nres = arrow ? atoi(strchr(arrow, '>') + 1) : MAX(s->op->nres, 1);
  int nattrs = arrow ? (int)(arrow - attrs) : (int)strlen(attrs);
  strbuf_printf(&out, "graph @\"sample\"(%s) {\n%s  %%r", strbuf_text(&params),
                strbuf_text(&consts));
  if (nres > 1) strbuf_printf(&out, ":%d", nres);
  strbuf_printf(&out, " = %s(%s) %.*s\n  return ", s->op->name, strbuf_text(&args), nattrs, attrs);
  for (int i = 0; i < nres; i++)
    strbuf_printf(&out, nres > 1 ? "%s%%r.%d" : "%s%%r", i ? ", " : "", i);
  strbuf_puts(&out, "\n}\n");
  return strbuf_text(&out);
}

// ---- values ----

static uint64_t rng_state;
void sample_seed(void) { rng_state = 42; }

static double uniform(void) {
  rng_state = rng_state * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(rng_state >> 11) * 0x1p-53;
}

tenon_status sample_value(Run *run, const Type *t, Value **out) {
  int64_t dims[MAX_RANK];
  if (t->kind != TK_TENSOR || t->rank < 0) return TENON_EUNSUPPORTED;
  for (int i = 0; i < t->rank; i++) dims[i] = ie_is_const(t->dims[i]) ? t->dims[i]->value : 3;
  TRY(value_tensor(run, NOWHERE, t->dtype, t->rank, dims, out));
  for (int64_t i = 0; i < (*out)->n; i++) {
    double u = uniform();
    switch (dtype_class(t->dtype)) {
    case DC_FLOAT: val_put_f64(*out, i, t->dtype == DT_F8E8M0 ? 1 + 7 * u : 4 * u - 2); break;
    case DC_BOOL: val_put_i64(*out, i, u < 0.5); break;
    case DC_INT:
      val_put_i64(*out, i, (int64_t)(dtype_bits(t->dtype) < 8 ? 4 * u - 2 : 20 * u - 10));
      break;
    case DC_UINT: val_put_i64(*out, i, (int64_t)(dtype_bits(t->dtype) < 8 ? 4 * u : 20 * u)); break;
    case DC_STRING: ((Str *)(*out)->data)[i] = u < 0.5 ? STR("one Two") : STR("3"); break;
    case DC_COMPLEX:
      put_f64(t->dtype == DT_C64 ? DT_F32 : DT_F64, (*out)->data, 2 * i, u);
      put_f64(t->dtype == DT_C64 ? DT_F32 : DT_F64, (*out)->data, 2 * i + 1, uniform());
      break;
    case DC_NONE: break;
    }
  }
  return TENON_OK;
}

// How far a composite and its expansion may lie apart: a few roundings of every step between.
static double tolerance(DType t) {
  switch (t) {
  case DT_F64: return 1e-9;
  case DT_F32: return 2e-5;
  case DT_F16: return 2e-2;
  case DT_BF16: return 1e-1;
  default: return dtype_is_float(t) ? 0.5 : 0;
  }
}

bool sample_close(const Value *a, const Value *b, bool exact) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind) return false;
  if (a->kind != VK_TENSOR) {
    if (a->nitems != b->nitems) return false;
    for (int64_t i = 0; i < a->nitems; i++)
      if (!sample_close(a->items[i], b->items[i], exact)) return false;
    return true;
  }
  if (a->dtype != b->dtype || a->rank != b->rank ||
      memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]))
    return false;
  for (int64_t i = 0; i < a->n; i++) {
    if (a->dtype == DT_STRING) {
      if (!str_eq(val_str(a, i), val_str(b, i))) return false;
    } else if (dtype_class(a->dtype) == DC_COMPLEX) {
      int64_t size = elem_bytes(a->dtype);
      if (exact && memcmp((char *)a->data + i * size, (char *)b->data + i * size, (size_t)size))
        return false;
    } else {
      double x = val_f64(a, i), y = val_f64(b, i);
      if (x == y || (x != x && y != y)) continue;
      if (exact || !(fabs(x - y) <= tolerance(a->dtype) * (1 + fmax(fabs(x), fabs(y)))))
        return false;
    }
  }
  return true;
}
