// compare.c -- a graph before and after the passes, run on the same random inputs (text.h).
//
// Floats are in [-2, 2), integers in [0, 20).  The last element of each row of a mask is true, so
// that every row of an attention has a key.  The n-th symbol is 2 + n % 4, unless SIZES gives it a
// value.
#include "text/text.h"

#include <math.h>

typedef struct Ran {
  Interp *interp;  // owns results that are constants
  Run run;
  Value **out;
} Ran;
typedef struct Comparing {
  const TextSection *section;
  const TextRun *run;
  uint64_t rng;
  Arena arena;
  Diag *diag;
  StrBuf *why;
} Comparing;

static double uniform(Comparing *c) {
  c->rng = c->rng * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(c->rng >> 11) * 0x1p-53;
}

static int64_t size_of(const Comparing *c, Dim d) {
  if (ie_is_const(d)) return d->value;
  StrBuf b;
  strbuf_init(&b, (Arena *)&c->arena);
  ie_print(&b, d);
  for (int64_t i = 0; i < c->section->size.n; i++)
    if (str_eq(c->section->size.v[i].name, strbuf_str(&b))) return c->section->size.v[i].value;
  return 2 + d->slot % 4;
}

static tenon_status random_input(Comparing *c, Run *run, const Type *t, Value **out) {
  int64_t dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = size_of(c, t->dims[i]);
  TRY(value_tensor(run, NOWHERE, t->dtype, t->rank, dims, out));
  for (int64_t i = 0; i < (*out)->n; i++) {
    if (dtype_is_float(t->dtype))
      val_put_f64(*out, i, 4 * uniform(c) - 2);
    else if (t->dtype == DT_BOOL)
      val_put_i64(*out, i, uniform(c) < 0.6 || !t->rank || (i + 1) % dims[t->rank - 1] == 0);
    else
      val_put_i64(*out, i, (int64_t)(uniform(c) * 20));
  }
  return TENON_OK;
}

static tenon_status run_graph(Comparing *c, Graph *g, Ran *r) {
  Value **in = arena_array(&c->arena, Value *, MAX(g->main->nparams, 1));
  r->out = arena_array(&c->arena, Value *, MAX(g->main->nresults, 1));
  c->rng = 12345;
  TRY(interp_create(g, NULL, c->diag, &r->interp));
  for (int64_t i = 0; i < g->main->nparams; i++)
    TRY(random_input(c, &r->run, type_of(g->main->param[i]), &in[i]));
  return interp_run(r->interp, &r->run, in, r->out);
}

// How far two elements may be apart, relative to 1 + |x|.  Integers are the same, always.
static double allowed(const Comparing *c, DType t) {
  bool narrow = t != DT_F32 && t != DT_F64;
  if (!dtype_is_float(t) || c->run->tolerance <= 0) return 0;
  return narrow ? fmax(c->run->tolerance, 1e-2) : c->run->tolerance;
}

static double element_distance(const Value *x, const Value *y, int64_t i) {
  double a = val_f64(x, i), b = val_f64(y, i);
  return fabs(a - b) / (1 + fabs(a));
}

static bool same_shape(const Value *x, const Value *y) {
  bool same = x->dtype == y->dtype && x->rank == y->rank && x->n == y->n;
  for (int i = 0; same && i < x->rank; i++) same = x->dims[i] == y->dims[i];
  return same;
}

static bool same_result(Comparing *c, int64_t result, const Value *x, const Value *y) {
  int64_t bytes = 0;
  double tol = allowed(c, x->dtype);
  if (!same_shape(x, y) || !dtype_bytes(x->dtype, x->n, &bytes)) {
    strbuf_printf(c->why, "result %lld has another type or shape\n", (long long)result);
    return false;
  }
  for (int64_t i = 0; i < x->n; i++) {
    if (element_distance(x, y, i) <= tol) continue;  // false for infinities and NaN, too
    strbuf_printf(c->why, "result %lld, element %lld: %.9g before the passes, %.9g after\n",
                  (long long)result, (long long)i, val_f64(x, i), val_f64(y, i));
    return false;
  }
  if (tol > 0 || !memcmp(x->data, y->data, (size_t)bytes)) return true;
  strbuf_printf(c->why, "result %lld: a zero has another sign\n", (long long)result);
  return false;
}

bool text_compare(Graph *before, Graph *after, const TextSection *s, const TextRun *r, Diag *d,
                  StrBuf *why) {
  Comparing c = {.section = s, .run = r, .diag = d, .why = why};
  Ran x = {0}, y = {0};
  arena_init(&c.arena);
  run_init(&x.run, NULL, d);
  run_init(&y.run, NULL, d);
  bool ok = !run_graph(&c, before, &x) && !run_graph(&c, after, &y);
  if (!ok) strbuf_printf(why, "%s\n", d->text);
  for (int64_t i = 0; ok && i < before->main->nresults; i++)
    ok = same_result(&c, i, x.out[i], y.out[i]);
  run_deinit(&x.run);
  run_deinit(&y.run);
  interp_free(x.interp);
  interp_free(y.interp);
  arena_deinit(&c.arena);
  return ok;
}
