// compare.c -- compares values element by element.
//
// Integers, bool, text, fp8 and smaller floats must be equal; the rest within a tolerance that is
// near what the type can hold.  The message names the worst element, which is where one starts to
// look.
#include "cli/tensors.h"

#include "base/json.h"

#include <math.h>

Tolerance tolerance_of(DType t) {
  switch ((int)t) {
  case DT_F64:
  case DT_C128: return (Tolerance){1e-7, 1e-9};
  case DT_F32:
  case DT_C64: return (Tolerance){1e-5, 1e-6};
  case DT_F16: return (Tolerance){1e-3, 1e-5};   // one step of 11 bits
  case DT_BF16: return (Tolerance){1e-2, 1e-5};  // one step of 8 bits
  }
  return (Tolerance){0, 0};
}

const Tolerance *tolerance_given(Cli *c, int rtol, int atol) {
  Tolerance f32 = tolerance_of(DT_F32);
  Tolerance t = {opt_real(c, rtol, f32.rtol), opt_real(c, atol, f32.atol)};
  return opt_given(c, rtol) || opt_given(c, atol) ? arena_dup(&c->arena, &t, sizeof t) : NULL;
}

Tolerance tolerance_scaled(const Value *want) {
  enum { ROOM = 4 };  // for the layers before
  Tolerance t = tolerance_of(want->dtype);
  double most = 0;
  if (dtype_class(want->dtype) != DC_FLOAT) return t;
  for (int64_t i = 0; i < want->n; i++) {
    double x = fabs(val_f64(want, i));
    if (isfinite(x) && x > most) most = x;
  }
  t.atol = fmax(t.atol, ROOM * t.rtol * most);
  return t;
}

// ---- elements ----
static void put_real(StrBuf *b, double x, bool single) {
  char text[32];
  if (isnan(x)) {
    strbuf_puts(b, "nan");
  } else if (isinf(x)) {
    strbuf_puts(b, x < 0 ? "-inf" : "inf");
  } else {
    json_number(x, single, text, sizeof text);
    strbuf_puts(b, text);
  }
}

static void complex_parts(const Value *v, int64_t i, double *re, double *im) {
  DType part = v->dtype == DT_C64 ? DT_F32 : DT_F64;
  *re = get_f64(part, v->data, 2 * i);
  *im = get_f64(part, v->data, 2 * i + 1);
}

void print_element(StrBuf *b, const Value *v, int64_t i) {
  double re, im;
  switch (dtype_class(v->dtype)) {
  case DC_BOOL: strbuf_puts(b, val_i64(v, i) ? "true" : "false"); return;
  case DC_INT: strbuf_printf(b, "%lld", (long long)val_i64(v, i)); return;
  case DC_UINT: strbuf_printf(b, "%llu", (unsigned long long)val_i64(v, i)); return;
  case DC_STRING:
    strbuf_printf(b, "'%.*s'", (int)MIN(val_str(v, i).n, 60), val_str(v, i).p);
    return;
  case DC_FLOAT: put_real(b, val_f64(v, i), dtype_bits(v->dtype) <= 32); return;
  case DC_COMPLEX:
    complex_parts(v, i, &re, &im);
    put_real(b, re, v->dtype == DT_C64);
    if (!(im < 0)) strbuf_putc(b, '+');
    put_real(b, im, v->dtype == DT_C64);
    strbuf_putc(b, 'i');
    return;
  case DC_NONE: return;
  }
}

// How far one pair of reals is outside: 0 inside, the excess over the bound, infinite where nothing
// helps.
static double excess(double got, double want, Tolerance t, double *abs_diff) {
  *abs_diff = 0;
  if (isnan(got) && isnan(want)) return 0;
  if (isnan(got) || isnan(want)) return INFINITY;
  if (isinf(got) || isinf(want)) return got == want ? 0 : INFINITY;
  *abs_diff = fabs(got - want);
  double bound = t.atol + t.rtol * fabs(want);
  return *abs_diff <= bound ? 0 : *abs_diff - bound;
}

static double element_excess(const Value *g, const Value *w, int64_t i, Tolerance t, double *diff) {
  double gr, gi, wr, wi, d2;
  *diff = 0;
  switch (dtype_class(g->dtype)) {
  case DC_STRING: return str_eq(val_str(g, i), val_str(w, i)) ? 0 : INFINITY;
  case DC_FLOAT: return excess(val_f64(g, i), val_f64(w, i), t, diff);
  case DC_COMPLEX: {
    complex_parts(g, i, &gr, &gi);
    complex_parts(w, i, &wr, &wi);
    // The bound of the whole number holds for each part.
    Tolerance whole = {0, t.atol + t.rtol * (isfinite(wr) && isfinite(wi) ? hypot(wr, wi) : 0)};
    double a = excess(gr, wr, whole, diff), b = excess(gi, wi, whole, &d2);
    *diff = fmax(*diff, d2);
    return fmax(a, b);
  }
  default: break;
  }
  int64_t x = val_i64(g, i), y = val_i64(w, i);
  *diff = fabs((double)x - (double)y);
  if (t.rtol == 0 && t.atol == 0) return x == y ? 0 : MAX(*diff, 1);
  return excess((double)x, (double)y, t, diff);
}

static void put_index(StrBuf *b, const Value *v, int64_t i) {
  int64_t index[MAX_RANK];
  for (int k = v->rank - 1; k >= 0; k--) {
    index[k] = i % v->dims[k];
    i /= v->dims[k];
  }
  strbuf_putc(b, '[');
  for (int k = 0; k < v->rank; k++) strbuf_printf(b, k ? ", %lld" : "%lld", (long long)index[k]);
  strbuf_putc(b, ']');
}

static bool tensors_match(Comparison *c, const Value *g, const Value *w) {
  Tolerance t = c->given ? *c->given : c->scaled ? tolerance_scaled(w) : tolerance_of(g->dtype);
  bool is_float = dtype_class(w->dtype) == DC_FLOAT;
  if (c->scaled && c->factor > 1 && is_float)
    t = (Tolerance){t.rtol * c->factor, t.atol * c->factor};
  int64_t wrong = 0, worst = 0;
  double most = 0, diff, worst_diff = 0;
  for (int64_t i = 0; i < g->n; i++) {
    double e = element_excess(g, w, i, t, &diff);
    c->max_abs = fmax(c->max_abs, diff);
    if (e <= 0) continue;
    if (!wrong++ || e > most) {
      most = e;
      worst = i;
      worst_diff = diff;
    }
  }
  c->n += g->n;
  if (c->scaled && !is_float && (double)wrong < c->factor) wrong = 0;
  c->nwrong += wrong;
  if (!wrong || c->why) return !wrong;
  StrBuf b;
  strbuf_init(&b, c->arena);
  strbuf_printf(&b, "%lld of %lld elements differ, worst at ", (long long)wrong, (long long)g->n);
  put_index(&b, g, worst);
  strbuf_puts(&b, ": got ");
  print_element(&b, g, worst);
  strbuf_puts(&b, ", expected ");
  print_element(&b, w, worst);
  if (dtype_class(g->dtype) != DC_STRING) strbuf_printf(&b, " (off by %.3g)", worst_diff);
  c->why = strbuf_text(&b);
  return false;
}

static bool differ(Comparison *c, const char *fmt, ...) PRINTF(2, 3);
static bool differ(Comparison *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (!c->why) c->why = str_vprintf(c->arena, fmt, ap);
  va_end(ap);
  c->nwrong++;
  return false;
}

bool values_match(Comparison *c, const Value *got, const Value *want) {
  if (!got || !want)
    return got == want || differ(c, got ? "a value where none is expected" : "no value");
  bool same = got->kind == want->kind &&
              (got->kind != VK_TENSOR || (got->dtype == want->dtype && got->rank == want->rank));
  for (int i = 0; same && got->kind == VK_TENSOR && i < got->rank; i++)
    same = got->dims[i] == want->dims[i];
  if (!same || got->nitems != want->nitems)
    return differ(c, "got %s, expected %s", value_text(c->arena, got), value_text(c->arena, want));
  if (got->kind == VK_TENSOR) return tensors_match(c, got, want);
  for (int64_t i = 0; i < got->nitems; i++)
    if (!values_match(c, got->items[i], want->items[i])) {
      c->why = str_printf(c->arena, "item %lld: %s", (long long)i, c->why);
      return false;
    }
  return true;
}
