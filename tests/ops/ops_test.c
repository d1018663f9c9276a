// ops_test.c -- one runner for every op's samples.
//
// A sample is "(operands) attributes [-> results]": operands are types, for which values are made,
// constants such as i64[2]{0, 1}, or _ for an absent one; `-> 3` asks for three results where the
// usual number is not meant.  Each sample becomes a graph in text form, and then
//  - its text is printed, read back and printed again: the same;
//  - it is verified, and run: evaluation must give what inference says;
//  - a composite is run once more, decomposed: within rounding the same;
//  - it is run on one thread and on three: the same bits.
#include "compiled.h"
#include "ir/interpret.h"
#include "runtime/session.h"
#include "sample.h"
#include "test.h"

#include <stdlib.h>
#include <time.h>

typedef struct Outcome {
  Run run;
  Value *out[64];
  Interp *in;  // constants among the results lie in it
  tenon_status status;
} Outcome;

static void outcome_free(Outcome *o) {
  run_deinit(&o->run);
  interp_free(o->in);
}

static void run_graph(Graph *g, bool expand, int threads, Diag *d, Outcome *o) {
  Pool *pool = threads > 1 ? pool_create(threads) : NULL;
  memset(o, 0, sizeof *o);
  run_init(&o->run, pool, d);
  o->run.seed = 7;
  sample_seed();
  Value *input[64] = {NULL};
  for (int64_t i = 0; !o->status && i < g->main->nparams; i++)
    o->status = sample_value(&o->run, type_of(g->main->param[i]), &input[i]);
  if (!o->status) o->status = interp_create(g, &(InterpOptions){.expand = expand}, d, &o->in);
  if (!o->status) o->status = interp_run(o->in, &o->run, input, o->out);
  pool_release(pool);
  o->run.pool = NULL;
}

static void compare(const Sample *s, const Outcome *a, const Outcome *b, const char *what,
                    bool exact, int64_t nout) {
  for (int64_t i = 0; i < nout; i++)
    if (!sample_close(a->out[i], b->out[i], exact))
      FAIL("%s%s: result %lld differs %s", s->op->name, s->text, (long long)i, what);
}

static void check_text(const Sample *s, Graph *g, Arena *a) {
  StrBuf one, two;
  strbuf_init(&one, a);
  strbuf_init(&two, a);
  graph_print(g, &one);
  Graph *again = NULL;
  static Diag d;
  diag_init(&d);
  if (graph_parse(strbuf_str(&one), NULL, &d, &again)) {
    FAIL("%s%s: its own text is refused: %s\n%s", s->op->name, s->text, d.text, strbuf_text(&one));
    return;
  }
  graph_print(again, &two);
  if (strcmp(strbuf_text(&one), strbuf_text(&two)))
    FAIL("%s%s: printed again:\n%s%s", s->op->name, s->text, strbuf_text(&one), strbuf_text(&two));
  graph_free(again);
}

static void check_runs(const Sample *s, Graph *g, Diag *d) {
  static Outcome a, b;
  int64_t nout = g->main->nresults;
  run_graph(g, false, 1, d, &a);
  if (a.status) {
    FAIL("%s%s: %s", s->op->name, s->text, d->text);
    outcome_free(&a);
    return;
  }
  run_graph(g, false, 3, d, &b);
  if (b.status)
    FAIL("%s%s: on three threads: %s", s->op->name, s->text, d->text);
  else
    compare(s, &a, &b, "on three threads", true, nout);
  outcome_free(&b);
  if (s->op->expand && s->op->eval) {
    run_graph(g, true, 1, d, &b);
    if (b.status)
      FAIL("%s%s: taken apart: %s", s->op->name, s->text, d->text);
    else
      compare(s, &a, &b, "taken apart", false, nout);
    outcome_free(&b);
  }
  outcome_free(&a);
}

static void check_sample(const Sample *s) {
  Arena a;
  arena_init(&a);
  static Diag d;
  diag_init(&d);
  Graph *g = NULL;
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    const char *text = sample_graph(&a, s);
    if (!text) {
      FAIL("%s: sample '%s' cannot be read", s->op->name, s->text);
    } else if (graph_parse(str_of(text), NULL, &d, &g)) {
      FAIL("%s%s: %s\n%s", s->op->name, s->text, d.text, text);
    } else {
      if (graph_verify(g, &d)) FAIL("%s%s: %s", s->op->name, s->text, d.text);
      check_text(s, g, &a);
      check_runs(s, g, &d);
    }
  } else {
    FAIL("%s%s: trap: %s", s->op->name, s->text, d.text);
  }
  trap_leave(&t);
  graph_free(g);
  arena_deinit(&a);
}

TEST(op_samples) {
  int64_t nsamples = 0;
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = op_table[i];
    for (const char *const *s = op->samples; s && *s; s++, nsamples++)
      check_sample(&(Sample){op, *s});
  }
  EXPECT(nsamples > 500);
}

// ---- hostile sizes ----

// Every number of every sample, one after the other, becomes an extreme one; and every pair of
// sizes becomes 0 and 2^40, a shape that holds nothing and is large all the same.  Any outcome is
// fine, with a message, in little time.
static void hostile_run(const Sample *s, const char *text) {
  static Diag d;
  Graph *g = NULL;
  Interp *in = NULL;
  Run run;
  Value *input[64] = {NULL}, *out[64] = {NULL};
  diag_init(&d);
  run_init(&run, NULL, &d);
  run.max_bytes = 1 << 20;
  run.budget = 100;
  run.ops_budget = 1 << 20;
  clock_t start = clock();
  tenon_status st = graph_parse(str_of(text), NULL, &d, &g);
  for (int64_t i = 0; !st && i < g->main->nparams; i++)
    st = sample_value(&run, type_of(g->main->param[i]), &input[i]);
  if (!st) st = interp_create(g, NULL, &d, &in);
  if (!st) st = interp_run(in, &run, input, out);
  double took = (double)(clock() - start) / CLOCKS_PER_SEC;
  run_deinit(&run);
  interp_free(in);
  graph_free(g);
  if (took > 1) FAIL("%s%s: %.1f s for\n%s", s->op->name, s->text, took, text);
  if (st == TENON_EINTERNAL || (st && st != TENON_EUNSUPPORTED && !d.len))
    FAIL("%s%s: '%s' for\n%s", s->op->name, s->text, d.text, text);
}

static const char *replaced(Arena *a, const char *text, Str at, const char *by) {
  return str_printf(a, "%.*s%s%s", (int)(at.p - text), text, by, at.p + at.n);
}

typedef VEC(Str) Places;
// The numbers of a text, and the sizes of its parameters, which may be symbols.
static void find_numbers(Arena *a, const char *text, Places *numbers, Places *sizes) {
  const char *body = strstr(text, "{\n");
  bool in_shape = false;
  for (const char *p = strchr(text, '('); p && *p;) {
    in_shape = (in_shape || *p == '[') && *p != ']';
    int64_t n = (int64_t)strspn(p, "-0123456789");
    if (!n || (p[-1] != '[' && p[-1] != ' ' && p[-1] != '=' && p[-1] != ',' && p[-1] != '{')) {
      p += MAX(n, 1);
      continue;
    }
    vec_push(a, numbers, ((Str){p, n}));
    if (in_shape && p < body) vec_push(a, sizes, ((Str){p, n}));
    p += n;
  }
}

static int64_t hostile_sample(const Sample *s) {
  static const char *const extreme[] = {
      "0", "-1", "7", "1099511627776", "9223372036854775807", "-9223372036854775808"};
  Arena a;
  arena_init(&a);
  const char *text = sample_graph(&a, s);
  Places numbers = {0}, sizes = {0};
  int64_t count = 0;
  if (text) find_numbers(&a, text, &numbers, &sizes);
  for (int64_t i = 0; i < numbers.n; i++)
    for (int64_t k = 0; k < ARRAY_LEN(extreme); k++, count++)
      hostile_run(s, replaced(&a, text, numbers.v[i], extreme[k]));
  for (int64_t i = 0; i < sizes.n; i++)
    for (int64_t j = i + 1; j < sizes.n; j++)
      for (int k = 0; k < 2; k++, count++) {
        // The later one first, so that the place of the other stays.
        const char *one = replaced(&a, text, sizes.v[j], k ? "0" : "1099511627776");
        Str at = {one + (sizes.v[i].p - text), sizes.v[i].n};
        hostile_run(s, replaced(&a, one, at, k ? "1099511627776" : "0"));
      }
  arena_deinit(&a);
  return count;
}

TEST(op_samples_hostile) {
  int64_t count = 0;
  for (int i = 0; i < OP_COUNT; i++)
    for (const char *const *s = op_table[i]->samples; s && *s; s++)
      count += hostile_sample(&(Sample){op_table[i], *s});
  EXPECT(count > 10000);
}

// ---- values that the specification fixes ----

static void check_refusal(const char *op, const char *text, const char *want) {
  static Diag d;
  static Outcome got;
  Arena a;
  arena_init(&a);
  diag_init(&d);
  Graph *g = NULL;
  Sample s = {op_table[op_find(str_of(op))], text};
  const char *graph = sample_graph(&a, &s);
  if (graph && !graph_parse(str_of(graph), NULL, &d, &g)) {
    run_graph(g, false, 1, &d, &got);
    outcome_free(&got);
  }
  if (!strstr(d.text, want)) FAIL("%s%s: '%s', not '%s'", op, text, d.text, want);
  graph_free(g);
  arena_deinit(&a);
}

// The same after optimisation: what is folded, and the loops of the rest.
static void check_lowered(const Sample *s, const char *graph, int result, const Value *want,
                          Arena *a) {
  static Diag d;
  static Value *out[64];
  Program *p = NULL;
  Session *session = NULL;
  Run run;
  diag_init(&d);
  memset(out, 0, sizeof out);
  run_init(&run, NULL, &d);
  if (compile_text(graph, "ref", a, &d, &p) ||
      session_create(p, &(SessionOptions){.threads = 1}, &d, &session) ||
      session_run(session, &run, NULL, NULL, out))
    FAIL("%s%s: lowered: %s", s->op->name, s->text, d.text);
  else if (!sample_close(out[result], want, true))
    FAIL("%s%s: lowered to another value", s->op->name, s->text);
  run_deinit(&run);
  session_free(session);
  program_release(p);
}

static void check_value(const char *op, const char *text, int result, const char *want) {
  static Diag d;
  static Outcome got, expected;
  Arena a;
  arena_init(&a);
  diag_init(&d);
  Graph *g = NULL, *e = NULL;
  Sample s = {op_table[op_find(str_of(op))], text};
  const char *graph = sample_graph(&a, &s);
  const char *brace = strchr(want, '{');
  const char *other = str_printf(&a, "graph @\"want\"() {\n  %%r = const %.*s%s\n  return %%r\n}\n",
                                 (int)(brace - want), want, brace);
  if (!graph || graph_parse(str_of(graph), NULL, &d, &g) ||
      graph_parse(str_of(other), NULL, &d, &e)) {
    FAIL("%s%s: %s", op, text, d.text);
  } else {
    run_graph(g, false, 1, &d, &got);
    run_graph(e, false, 1, &d, &expected);
    if (got.status || expected.status)
      FAIL("%s%s: %s", op, text, d.text);
    else if (!sample_close(got.out[result], expected.out[0], true))
      FAIL("%s%s is not %s", op, text, want);
    else
      check_lowered(&s, graph, result, expected.out[0], &a);
    outcome_free(&got);
    outcome_free(&expected);
  }
  graph_free(g);
  graph_free(e);
  arena_deinit(&a);
}

TEST(op_values) {
  static const struct {
    const char *op, *text;
    int result;
    const char *want;
  } row[] = {
#include "op_values.def"
  };
  for (int i = 0; i < ARRAY_LEN(row); i++) {
    if (strchr(row[i].want, '{'))
      check_value(row[i].op, row[i].text, row[i].result, row[i].want);
    else
      check_refusal(row[i].op, row[i].text, row[i].want);
  }
}

TEST(op_records) {  // what every record must say
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = op_table[i];
    EXPECT(op->name && op->doc && *op->doc);
    EXPECT_INT_EQ(op_find(str_of(op->name)), i);
    bool core = i == OP_none || i == OP_param || i == OP_const || i == OP_proj || i == OP_foreign;
    if (!op->eval && !op->expand && !core)
      FAIL("%s can be neither evaluated nor expanded", op->name);
    if (!op->infer && !op->expand) FAIL("%s has no inference", op->name);
    if (op->attrs_size && !op->nattrs) FAIL("%s has attributes without a table", op->name);
    for (int k = 0; k < op->nattrs; k++)
      if (!op->attrs[k].doc || !*op->attrs[k].doc)
        FAIL("%s: attribute %s is not documented", op->name, op->attrs[k].name);
    if (!core && !op->samples && !(op->flags & (OPF_CONTROL | OPF_HOST)))
      FAIL("%s has no samples", op->name);
  }
}
