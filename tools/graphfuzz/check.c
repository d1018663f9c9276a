// check.c -- a graph and its optimised forms must agree (graphfuzz.h).
//
// Oracles, at each of the sizes that the graph's symbols take:
//  - the plan interpreter's bits after the passes equal the reference interpreter's before,
//    whatever passes are left out, wherever every rule that fired is exact;
//  - where a rule that needs a fast-math flag fired, results stay within what the graph makes of a
//    few roundings of each value: it is run again with every value perturbed by so much, and what
//    that changes is the bound.  Graphs with ops that turn a rounding into a jump, or with a value
//    that is no finite number, have no such bound;
//  - the graph with its symbols replaced by numbers, and that one optimised, give the same bits;
//  - with a target: what the compiled graph gives differs from the optimised graph's own run by as
//    much as its class allows (compiled.c);
//  - text, printed and read back, is the same text; that of the optimised graph also runs the same.
#include "graphfuzz/graphfuzz.h"
#include "ir/internal.h"
#include "rules/rules.h"

typedef struct Outcome {
  Run run;
  Value *out[FUZZ_RESULTS];
  FuzzBound bound;
} Outcome;

typedef struct Check {
  Graph *g;
  Str text;
  const FuzzWay *way;
  FuzzStats *st;
  int nsizes;
  bool steep;
  Outcome ref[FUZZ_SIZES];
  Arena *arena;
  Diag quiet;
  Diag *d;
} Check;

static bool differs(Check *c, const char *what, const char *why) {
  if (!c->d->len) fail(c->d, TENON_EINTERNAL, NOWHERE, "%s: %s", what, why);
  return false;
}

// ---- running ----

static void start(Check *c, Run *run) {
  diag_init(&c->quiet);
  run_init(run, NULL, &c->quiet);
  run->max_bytes = 256 << 20;  // a bound keeps the results of every disturbed run
  run->budget = 4096;
}

static tenon_status run_planned(Check *c, Graph *g, const MemPlan *p, Run *run, int k,
                                Value **out) {
  Value **in;
  TRY(fuzz_inputs(g, run, k, c->arena, &in));
  return plan_run(p, run, in, out);
}

// ---- one way to optimise ----

typedef struct Way {
  const char *what, *disable;
  int level;
  unsigned fast;
  bool channels_last;  // every node that can be
} Way;

// Whether anything ran that may change a bit.
static bool is_exact(const OptReport *r) {
  for (int64_t i = 0; i < r->npasses; i++)
    if (r->pass[i].changed && (!strcmp(r->pass[i].pass->name, "reorder-matmuls") ||
                               !strcmp(r->pass[i].pass->name, "merge-matmuls") ||
                               !strcmp(r->pass[i].pass->name, "split-k") ||
                               !strcmp(r->pass[i].pass->name, "split-reductions")))
      return false;
  for (const RuleSet *const *s = rule_sets; *s; s++)
    for (int64_t i = 0; i < (*s)->n; i++) {
      uint64_t hits = 0;
      if ((*s)->rule[i].fast &&
          intmap_get(&r->hits, (uint64_t)(uintptr_t) & (*s)->rule[i], &hits) && hits)
        return false;
    }
  return true;
}

static bool compare(Check *c, const Way *w, int k, bool exact, const char *why, Value **got) {
  Outcome *ref = &c->ref[k];
  for (int64_t i = 0; i < c->g->main->nresults; i++) {
    if (exact ? fuzz_same(ref->out[i], got[i])
              : !ref->bound.found || fuzz_within(&ref->bound, i, ref->out[i], got[i]))
      continue;
    return differs(c, w->what,
                   str_printf(c->arena, "result %lld differs %s(%s, sizes %d, -O%d, without %s)",
                              (long long)i, why, exact ? "exact" : "bounded", k, w->level,
                              w->disable ? w->disable : "nothing"));
  }
  return true;
}

// The optimised graph's own text: the same when read and printed again, and the same results.
static bool check_saved(Check *c, const Way *w, Graph *g, bool exact) {
  StrBuf one, two;
  strbuf_init(&one, c->arena);
  strbuf_init(&two, c->arena);
  graph_print(g, &one);
  Graph *again = NULL;
  diag_init(&c->quiet);
  if (graph_parse(strbuf_str(&one), NULL, &c->quiet, &again))
    return differs(c, "the optimised graph's text is refused", c->quiet.text);
  graph_print(again, &two);
  bool ok = !strcmp(strbuf_text(&one), strbuf_text(&two));
  if (!ok) differs(c, w->what, "the optimised graph's text changes when read back");
  Run run;
  start(c, &run);
  Value *got[FUZZ_RESULTS] = {NULL};
  if (ok && fuzz_run(again, &run, 0, NULL, NULL, c->arena, got))
    ok = differs(c, "the optimised graph, read back", c->quiet.text);
  if (ok) ok = compare(c, w, 0, exact, "once read back ", got);
  run_deinit(&run);
  graph_free(again);
  return ok;
}

static bool plant(Check *c, Graph *g) {
  const RuleSet *sets[] = {c->way->planted};
  Rewriter rw = {.g = g, .set = sets, .nsets = 1, .fast = FAST_ALL};
  bool changed;
  return !graph_rewrite(&rw, &changed);
}

static void note_ops(Check *c, Graph *g, uint8_t *seen) {
  NodeList l = fuzz_nodes(g, c->arena);
  for (int64_t i = 0; i < l.n; i++) {
    c->st->used[l.v[i]->op] += !seen[l.v[i]->op];
    seen[l.v[i]->op] = 1;
  }
}

static bool compile(Check *c, Graph *g, const Way *w, CompileStage until, CompileReport *r) {
  CompileOptions o;
  compile_defaults(&o);
  o.level = w->level;
  o.fast_math = &w->fast;
  o.disable = w->disable;
  o.channels_last = w->channels_last;
  o.verify_each = true;
  diag_init(&c->quiet);
  return !compile_graph(g, &o, until, c->arena, &c->quiet, r) || differs(c, w->what, c->quiet.text);
}

// `sizes`: the first and last of the runs to compare.
static bool check_graph(Check *c, Graph *g, const Way *w, int from, int to, uint8_t *seen) {
  CompileReport made = {0};
  if (!compile(c, g, w, COMPILE_OPTIMISE, &made)) return false;
  if (c->way->planted && !plant(c, g)) return differs(c, w->what, c->quiet.text);
  bool exact = !w->fast || is_exact(&made.opt), ok = true;
  c->st->channels_last += made.opt.layout.channels_last_nodes;
  if (!compile(c, g, w, COMPILE_PLAN, &made)) return false;
  MemPlan *p = made.plan;
  if (p->ncopies) return differs(c, w->what, "the plan copies what a kernel shows as a view");
  for (int k = from; ok && k <= to; k++) {
    Run run;
    Value *got[FUZZ_RESULTS] = {NULL};
    start(c, &run);
    if (run_planned(c, g, p, &run, k, got))
      ok = differs(c, w->what, c->quiet.text);
    else
      ok = compare(c, w, k, exact, "", got);
    if (w->fast && !exact && c->ref[k].bound.found) c->st->bounded++;
    if (w->fast && !exact && !c->ref[k].bound.found) c->st->unbounded++;
    c->st->exact += exact;
    run_deinit(&run);
  }
  if (ok && seen) note_ops(c, g, seen);
  if (ok && seen && from == 0) ok = check_saved(c, w, g, exact);
  return ok;
}

// What was compiled of the optimised graph against the interpreter's run of it.
static bool check_compiled(Check *c, Graph *g, const Way *w) {
  CompileReport made = {0};
  FuzzTarget t = {.target = c->way->target,
                  .g = g,
                  .licensed = w->fast,
                  .arena = c->arena,
                  .st = c->st,
                  .quiet = &c->quiet};
  bool tiny = false;
  if (!compile(c, g, w, COMPILE_PLAN, &made)) return false;
  t.made = &made;
  for (int k = 0; k < c->nsizes; k++) {
    Value **in;
    t.bound[k] = &c->ref[k].bound;
    if (fuzz_inputs(c->g, &c->ref[k].run, k, c->arena, &in))
      return differs(c, w->what, c->quiet.text);
    tiny |= fuzz_has_tiny(c->g, in, c->arena);
  }
  fuzz_classes(c->g, tiny, c->arena, t.cls);
  const char *why = fuzz_compiled(&t, 0, c->nsizes - 1);
  return !why || differs(c, w->what,
                         str_printf(c->arena, "%s (%s, -O%d%s%s)", why, t.target->name, w->level,
                                    w->fast ? ", licensed" : "",
                                    w->channels_last ? ", channels last" : ""));
}

static bool check_way(Check *c, const Way *w, uint8_t *seen) {
  Graph *g = NULL;
  diag_init(&c->quiet);
  if (graph_parse(c->text, NULL, &c->quiet, &g))
    return differs(c, "its own text is refused", c->quiet.text);
  bool ok = c->way->target ? check_compiled(c, g, w) : check_graph(c, g, w, 0, c->nsizes - 1, seen);
  graph_free(g);
  return ok;
}

// The same graph with numbers for its symbols.
static bool check_concrete(Check *c, int k) {
  static const Way as_is = {.what = "with numbers for symbols", .level = 3};
  diag_init(&c->quiet);
  Graph *g = fuzz_copy(c->g, &(Edit){.kind = EDIT_SIZES, .a = k}, &c->quiet);
  if (!g) return differs(c, "numbers for symbols are refused", c->quiet.text);
  Run run;
  Value *got[FUZZ_RESULTS] = {NULL};
  start(c, &run);
  bool ok = true;
  if (fuzz_run(g, &run, k, NULL, NULL, c->arena, got))
    ok = differs(c, as_is.what, c->quiet.text);
  else
    ok = compare(c, &as_is, k, true, "before optimising ", got);
  run_deinit(&run);
  if (ok) ok = check_graph(c, g, &as_is, k, k, NULL);
  graph_free(g);
  return ok;
}

// ---- one graph ----

static bool check_text(Check *c) {
  Graph *g = NULL;
  diag_init(&c->quiet);
  if (graph_parse(c->text, NULL, &c->quiet, &g))
    return differs(c, "its own text is refused", c->quiet.text);
  StrBuf again;
  strbuf_init(&again, c->arena);
  graph_print(g, &again);
  bool ok = !strcmp(strbuf_text(&again), c->text.p);
  if (!ok) differs(c, "text", "it changes when read back");
  graph_free(g);
  return ok;
}

static bool has_symbols(const Graph *g) {
  for (int64_t i = 0; i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    for (int k = 0; t->kind == TK_TENSOR && k < t->rank; k++)
      if (!ie_is_const(t->dims[k])) return true;
  }
  return false;
}

// The random ways of a seed; of 0, a fixed list that misses no pass.
static int list_ways(Check *c, Way *out) {
  int n = 0;
  uint64_t s = c->way->seed;
  out[n++] = (Way){.what = "exact", .level = 3};
  out[n++] = (Way){.what = "channels last", .level = 3, .channels_last = true};
  out[n++] = (Way){.what = "with the usual fast_flags",
                   .level = 3,
                   .fast = opt_fast_math_flags(3, false, false)};
  if (!s) {
    out[n++] = (Way){.what = "with all fast_flags", .level = 3, .fast = FAST_ALL};
    for (int level = 0; level < 3; level++)
      out[n++] = (Way){.what = "at a lower level", .level = level};
    for (int64_t i = 0; i < graph_npasses; i++)
      out[n++] = (Way){.what = "without a pass", .disable = graph_passes[i].name, .level = 3};
    return n;
  }
  StrBuf off;
  strbuf_init(&off, c->arena);
  for (int64_t i = 0; i < graph_npasses; i++)
    if (hash_u64(s * 31 + (uint64_t)i) % 3 == 0)
      strbuf_printf(&off, "%s%s", off.n ? "," : "", graph_passes[i].name);
  int level = (int)(hash_u64(s ^ 0x51) % 4);
  unsigned fast = hash_u64(s ^ 0x52) % 2 ? 0 : FAST_ALL;
  out[n++] = (Way){.what = "without some passes",
                   .disable = off.n ? strbuf_text(&off) : NULL,
                   .level = level,
                   .fast = fast};
  return n;
}

// One way of a seed, as compiling is slow; of 0, several.
static int list_targets(Check *c, Way *out) {
  const unsigned usual = opt_fast_math_flags(3, false, false);
  uint64_t s = c->way->seed;
  const Way all[] = {{.what = "compiled", .level = 3, .fast = usual},
                     {.what = "compiled", .level = 3, .fast = usual, .channels_last = true},
                     {.what = "compiled", .level = 3},
                     {.what = "compiled", .level = 0}};
  if (!s) {
    memcpy(out, all, sizeof all);
    return ARRAY_LEN(all);
  }
  out[0] = all[hash_u64(s ^ 0x53) % ARRAY_LEN(all)];
  return 1;
}

// The graph's own runs; false where it cannot be run.
static bool run_reference(Check *c) {
  if (graph_verify(c->g, &c->quiet)) return differs(c, "the graph is refused", c->quiet.text);
  for (int k = 0; k < c->nsizes; k++)
    if (fuzz_run(c->g, &c->ref[k].run, k, NULL, NULL, c->arena, c->ref[k].out))
      return differs(c, "the graph cannot be run", c->quiet.text);
  for (int k = 0; (!c->steep || c->way->target) && k < c->nsizes; k++) {
    fuzz_bound(c->g, &c->ref[k].run, k, c->arena, c->ref[k].out, &c->ref[k].bound);
    c->ref[k].bound.flushed = c->way->target;
  }
  return true;
}

static bool check_all(Check *c, bool *valid) {
  StrBuf text;
  strbuf_init(&text, c->arena);
  graph_print(c->g, &text);
  c->text = (Str){strbuf_text(&text), text.n};
  c->steep = fuzz_is_steep(c->g, c->arena);
  *valid = run_reference(c);
  if (!*valid) return true;
  uint8_t *seen = arena_array(c->arena, uint8_t, OP_COUNT);
  note_ops(c, c->g, seen);
  Way way[32];
  int n = c->way->target ? list_targets(c, way) : list_ways(c, way);
  bool ok = check_text(c);
  for (int i = 0; ok && i < n; i++) ok = check_way(c, &way[i], seen);
  for (int k = 0; ok && !c->way->target && c->nsizes > 1 && k < c->nsizes; k++)
    ok = check_concrete(c, k);
  return ok;
}

bool fuzz_compare(Graph *g, const FuzzWay *way, FuzzStats *st, bool *out_valid, Diag *d) {
  static Check c;
  Arena a;
  arena_init(&a);
  c = (Check){.g = g, .way = way, .st = st, .arena = &a, .d = d};
  c.nsizes = has_symbols(g) ? FUZZ_SIZES : 1;
  *out_valid = true;
  for (int k = 0; k < c.nsizes; k++) start(&c, &c.ref[k].run);
  Trap t;
  volatile bool ok = false;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) ok = check_all(&c, out_valid);
  trap_leave(&t);
  for (int k = 0; k < c.nsizes; k++) run_deinit(&c.ref[k].run);
  arena_deinit(&a);
  return ok;
}

static void note_values(FuzzStats *st, Graph *g, Arena *a) {
  NodeList l = fuzz_nodes(g, a);
  uint32_t dtypes = 0, ranks = 0;
  bool bodies = false, empty = false;
  for (int64_t i = 0; i < l.n; i++) {
    st->nodes += l.v[i]->op > OP_foreign;
    bodies |= (op_info(l.v[i]->op)->flags & OPF_CONTROL) != 0;
    for (int k = 0; k < l.v[i]->nres; k++) {
      const Type *t = l.v[i]->type[k];
      if (t->kind != TK_TENSOR || t->rank < 0) continue;
      dtypes |= 1u << (t->dtype & 31);
      ranks |= 1u << MIN(t->rank, 7);
      for (int d = 0; d < t->rank; d++) empty |= ie_is(t->dims[d], 0);
    }
  }
  for (int i = 0; i < 32; i++) st->dtype[i] += dtypes >> i & 1;
  for (int i = 0; i < 8; i++) st->rank[i] += ranks >> i & 1;
  st->bodies += bodies;
  st->empty += empty;
}

bool fuzz_check(uint64_t seed, const FuzzWay *way, FuzzStats *st, Diag *d) {
  st->graphs++;
  Graph *g = fuzz_graph(seed, d);
  if (!g) {
    st->invalid++;
    return true;
  }
  bool valid = true, ok = fuzz_compare(g, way, st, &valid, d);
  st->invalid += !valid;
  st->symbolic += valid && has_symbols(g);
  Arena a;
  arena_init(&a);
  note_values(st, g, &a);
  arena_deinit(&a);
  graph_free(g);
  return ok;
}
