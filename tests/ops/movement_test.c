// movement_test.c -- slices of an axis of dynamic size, with bounds and steps at their limits:
// inference, interpreter and kernels agree with the specification.
#include "codegen.h"
#include "compiled.h"
#include "ir/interpret.h"
#include "ir/text.h"
#include "runtime/session.h"
#include "test.h"

static const int64_t bound[] = {0,  1,  3,         5,          INT32_MAX,     INT64_MAX,
                                -1, -2, -4,        -6,         -INT32_MAX,    INT32_MIN,
                                -9, 9,  INT64_MIN, -INT64_MAX, INT64_MAX - 1, INT64_MIN + 2};
static const int64_t step[] = {1,  2,  3,  INT64_MAX,  INT32_MAX, (int64_t)1 << 40,
                               -1, -2, -3, -INT64_MAX, INT64_MIN, -((int64_t)1 << 40)};
static const int64_t size[] = {0, 1, 2, 4, 7};
// Of which sizes are inferred, but nothing is run.
static const int64_t huge[] = {INT32_MAX, (int64_t)INT32_MAX + 6, (int64_t)1 << 40};
enum { ENDS = ARRAY_LEN(bound), LONGEST = 7 };

// Indices that the specification selects: `start` and `end` clamped by the sign of the step, then
// walked in arithmetic that has no limit.  Without `out` they are counted alone.
static int64_t select_elements(int64_t n, int64_t start, int64_t end, int64_t by, int64_t *out) {
  __int128 from = start, to = end, low = by > 0 ? 0 : -1, high = by > 0 ? n : n - 1;
  int64_t count = 0;
  if (from < 0) from += n;
  if (to < 0) to += n;
  if (n == 0) return 0;
  from = MIN(MAX(from, (__int128)0), high);
  to = MIN(MAX(to, low), high);
  __int128 span = by > 0 ? to - from : from - to, stride = by > 0 ? by : -(__int128)by;
  if (!out) return span > 0 ? (int64_t)((span + stride - 1) / stride) : 0;
  for (; by > 0 ? from < to : from > to; from += by) out[count++] = (int64_t)from;
  return count;
}

// All ends for one start and one step: a graph of as many results.
static const char *slices(Arena *a, int64_t start, int64_t by) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_puts(&b, "graph @\"s\"(%x: i32[n]) {\n");
  strbuf_printf(&b, "  %%s = const i64[1] {%lld}\n  %%a = const i64[1] {0}\n", (long long)start);
  strbuf_printf(&b, "  %%t = const i64[1] {%lld}\n", (long long)by);
  for (int i = 0; i < ENDS; i++) {
    strbuf_printf(&b, "  %%e%d = const i64[1] {%lld}\n", i, (long long)bound[i]);
    strbuf_printf(&b, "  %%y%d = slice(%%x, %%s, %%e%d, %%a, %%t)\n", i, i);
    strbuf_printf(&b, "  %%z%d = neg(%%y%d)\n", i, i);
  }
  strbuf_puts(&b, "  return ");
  for (int i = 0; i < ENDS; i++) strbuf_printf(&b, "%s%%z%d", i ? ", " : "", i);
  strbuf_puts(&b, "\n}\n");
  return strbuf_text(&b);
}

typedef struct Case {
  Arena arena;
  Diag diag;
  Graph *g;
  Interp *interp;
  Program *program;
  Session *session;
  int64_t start, by;
  const char *target;
} Case;

static void say(const Case *c, int64_t n, int end, const char *what) {
  FAIL("%s: size %lld, %lld:%lld:%lld: %s", c->target, (long long)n, (long long)c->start,
       (long long)bound[end], (long long)c->by, what);
}

static void compare(const Case *c, int64_t n, Value *const *got) {
  for (int i = 0; i < ENDS; i++) {
    int64_t want[LONGEST], count = select_elements(n, c->start, bound[i], c->by, want);
    if (!got[i] || got[i]->rank != 1 || got[i]->n != count) {
      say(c, n, i, "another size");
      continue;
    }
    for (int64_t k = 0; k < count; k++)
      if (val_i64(got[i], k) != -want[k]) say(c, n, i, "another element");
  }
}

// What is inferred must be the size, or a symbol of its own where a step is too long for a formula.
static void check_inferred(const Case *c, int64_t n, int64_t *formulas) {
  int64_t bind[1] = {n};
  bool bound_to[1] = {true};
  for (int i = 0; i < ENDS; i++) {
    int64_t got;
    Dim d = type_of(c->g->main->result[i])->dims[0];
    if (ie_has_fresh(d)) continue;
    ++*formulas;
    if (!ie_eval(d, bind, bound_to, 1, &got))
      say(c, n, i, "no size");
    else if (got != select_elements(n, c->start, bound[i], c->by, NULL))
      say(c, n, i, "another size is inferred");
  }
}

static tenon_status run_case(Case *c, int64_t n, Run *run, Value **out) {
  Value *x;
  TRY(value_tensor(run, NOWHERE, DT_I32, 1, &n, &x));
  for (int64_t i = 0; i < n; i++) val_put_i64(x, i, i);
  return c->session ? session_run(c->session, run, &x, NULL, out)
                    : interp_run(c->interp, run, &x, out);
}

static void run_sizes(Case *c) {
  for (int i = 0; i < ARRAY_LEN(size); i++) {
    Run run;
    Value *out[ENDS] = {0};
    run_init(&run, NULL, &c->diag);
    diag_init(&c->diag);
    if (run_case(c, size[i], &run, out))
      say(c, size[i], 0, c->diag.text);
    else
      compare(c, size[i], out);
    run_deinit(&run);
  }
}

static int64_t check_slices(int64_t start, int64_t by, const char *target) {
  Case *c = mem_alloc((int64_t)sizeof *c);
  int64_t formulas = 0;
  if (!c) return 0;
  *c = (Case){.start = start, .by = by, .target = target};
  arena_init(&c->arena);
  diag_init(&c->diag);
  const char *text = slices(&c->arena, start, by);
  if (!strcmp(target, "interp")) {
    if (graph_parse(str_of(text), NULL, &c->diag, &c->g) ||
        interp_create(c->g, NULL, &c->diag, &c->interp))
      FAIL("%s", c->diag.text);
    for (int i = 0; c->interp && i < ARRAY_LEN(size); i++) check_inferred(c, size[i], &formulas);
    for (int i = 0; c->interp && i < ARRAY_LEN(huge); i++) check_inferred(c, huge[i], &formulas);
  } else if (compile_text(text, target, &c->arena, &c->diag, &c->program) ||
             session_create(c->program, &(SessionOptions){.threads = 1}, &c->diag, &c->session)) {
    FAIL("%s: %s", target, c->diag.text);
  }
  if (c->interp || c->session) run_sizes(c);
  session_free(c->session);
  program_release(c->program);
  interp_free(c->interp);
  graph_free(c->g);
  arena_deinit(&c->arena);
  mem_free(c, (int64_t)sizeof *c);
  return formulas;
}

TEST(slice_of_an_open_size) {
  int64_t formulas = 0;
  for (int i = 0; i < ARRAY_LEN(bound); i++)
    for (int k = 0; k < ARRAY_LEN(step); k++) formulas += check_slices(bound[i], step[k], "interp");
  EXPECT(formulas > 10000);
}

TEST(slice_of_an_open_size_in_kernels) {
  for (int i = 0; i < ARRAY_LEN(bound); i++)
    for (int k = 0; k < ARRAY_LEN(step); k++)
      if (test_takes()) check_slices(bound[i], step[k], "ref");
  if (!codegen_there()) SKIP("no tenon-codegen");
  for (int k = 0; k < ARRAY_LEN(step); k++)
    check_slices(bound[(k * 5) % ARRAY_LEN(bound)], step[k], "cpu");
}
