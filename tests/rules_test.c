// rules_test.c -- every rule against the interpreter.
//
// A rule's example is a graph body on which it must fire.  The rule alone is applied to it, and both graphs are
// run on random sizes and values: an exact rule must not change a bit, a licensed one stays within rounding.
#include "ir/interpret.h"
#include "rules/rules.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static uint64_t rng = 1;
static double uniform(void) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(rng >> 11) * 0x1p-53;
}

// Mostly ordinary numbers; now and then what rules trip over.
static double any_float(unsigned fast) {
  static const double special[] = {0.0, -0.0, 1, -1, 1e-30, 1e30, INFINITY, -INFINITY, NAN};
  double u = uniform();
  if (u < 0.1) {
    int64_t n = ARRAY_LEN(special) - ((fast & (FAST_NO_NAN | FAST_APPROX | FAST_REASSOC)) ? 5 : 0);
    return special[(int64_t)(uniform() * (double)n)];
  }
  return 4 * uniform() - 2;
}

static tenon_status make_input(Run *run, const Type *t, unsigned fast, const int64_t *size,
                               Value **out) {
  int64_t dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    dims[i] = ie_is_const(t->dims[i]) ? t->dims[i]->value : size[t->dims[i]->slot % 8];
  TRY(value_tensor(run, NOWHERE, t->dtype, t->rank, dims, out));
  for (int64_t i = 0; i < (*out)->n; i++) {
    if (dtype_is_float(t->dtype))
      val_put_f64(*out, i, any_float(fast));
    else
      val_put_i64(*out, i,
                  t->dtype == DT_BOOL
                      ? uniform() < 0.5
                      : (int64_t)(uniform() * 20) - (dtype_class(t->dtype) == DC_INT ? 10 : 0));
  }
  return TENON_OK;
}

static tenon_status run_on(Graph *g, const Interp *in, Run *run, unsigned fast, uint64_t seed,
                           Value **out) {
  Value *input[16] = {NULL};
  int64_t size[8];
  rng = seed;
  for (int i = 0; i < 8; i++) size[i] = (int64_t)(uniform() * 5) + (uniform() < 0.9);
  for (int64_t i = 0; i < g->main->nparams && i < 16; i++)
    TRY(make_input(run, type_of(g->main->param[i]), fast, size, &input[i]));
  return interp_run(in, run, input, out);
}

static bool agree(const Value *a, const Value *b, bool exact) {
  if (a->kind != VK_TENSOR || b->kind != VK_TENSOR || a->dtype != b->dtype || a->rank != b->rank ||
      a->n != b->n)
    return false;
  for (int64_t i = 0; i < a->n; i++) {
    double x = val_f64(a, i), y = val_f64(b, i);
    if (x == y && (!exact || signbit(x) == signbit(y))) continue;
    if (x != x && y != y) continue;
    double tol = a->dtype == DT_F64    ? 1e-9
                 : a->dtype == DT_F32  ? 1e-4
                 : a->dtype == DT_F16  ? 2e-2
                 : a->dtype == DT_BF16 ? 1e-1
                                       : 1.01;
    if (exact || !(fabs(x - y) <= tol * (1 + fmax(fabs(x), fabs(y))))) return false;
  }
  return true;
}

static Graph *parse_example(const Rule *r, Arena *a, Diag *d) {
  Graph *g = NULL;
  const char *text = str_printf(a, "graph @\"rule\"%s", r->example ? r->example : "");
  return graph_parse(str_of(text), NULL, d, &g) ? NULL : g;
}

// Runs both graphs `times` times; false with a message at the first difference.
static bool compare_graphs(const Rule *r, Graph *before, Graph *after, int times) {
  static Diag d;
  diag_init(&d);
  Interp *p = NULL, *q = NULL;
  bool ok = !interp_create(before, NULL, &d, &p) && !interp_create(after, NULL, &d, &q);
  if (!ok) FAIL("%s: %s", r->name, d.text);
  for (int k = 0; ok && k < times; k++) {
    Run x, y;
    Value *a[16] = {NULL}, *b[16] = {NULL};
    diag_init(&d);
    run_init(&x, NULL, &d);
    run_init(&y, NULL, &d);
    uint64_t seed = (uint64_t)k * 7919 + 17;
    tenon_status s = run_on(before, p, &x, r->fast, seed, a),
                 t = run_on(after, q, &y, r->fast, seed, b);
    ok = s == t;
    for (int64_t i = 0; ok && !s && i < before->main->nresults; i++)
      ok = agree(a[i], b[i], !r->fast);
    if (!ok)
      FAIL("%s:%d rule %s changes the result (instance %d) %s", r->file, r->line, r->name, k,
           d.text);
    run_deinit(&x);
    run_deinit(&y);
  }
  interp_free(p);
  interp_free(q);
  return ok;
}

static bool check_rule(const Rule *r, int times) {
  Arena a;
  arena_init(&a);
  static Diag d;
  diag_init(&d);
  Graph *before = parse_example(r, &a, &d), *after = before ? parse_example(r, &a, &d) : NULL;
  bool ok = after != NULL, changed = false;
  if (!ok) FAIL("%s:%d rule %s: its example is refused: %s", r->file, r->line, r->name, d.text);
  if (ok) {
    RuleSet one = {.name = "one", .rule = r, .n = 1};
    const RuleSet *sets[] = {&one};
    Rewriter rw = {.g = after, .set = sets, .nsets = 1, .fast = FAST_ALL};
    after->diag = before->diag = &d;
    ok = !graph_rewrite(&rw, &changed) && changed;
    if (!ok)
      FAIL("%s:%d rule %s does not fire on its example: %s", r->file, r->line, r->name, d.text);
    if (ok && graph_verify(after, &d)) FAIL("%s: %s", r->name, d.text);
  }
  if (ok) ok = compare_graphs(r, before, after, times);
  graph_free(before);
  graph_free(after);
  arena_deinit(&a);
  return ok;
}

TEST(rules_keep_the_meaning) {
  const char *times = getenv("RULE_FUZZ");
  int64_t n = 0;
  for (const RuleSet *const *s = rule_sets; *s; s++)
    for (int64_t i = 0; i < (*s)->n; i++, n++)
      check_rule(&(*s)->rule[i], times ? atoi(times) : 100);
  EXPECT(n > 20);
}
