// pass.c -- the pass manager: a table and a loop.
//
// For each row: run it (to a fixed point where the row says so), verify when asked, print when
// asked and changed, note time and node counts.  A broken invariant after a pass is an error that
// names the pass.
#include "ir/pass.h"

#include "base/platform.h"

bool opt_keeps(const OptOptions *o, const Node *n) {
  for (int64_t i = 0; n->name && i < o->nkeep; i++)
    if (str_glob(o->keep[i], n->name)) return true;
  return false;
}

unsigned opt_fast_math_flags(int level, bool exact, bool fast) {
  if (exact) return 0;
  if (fast) return FAST_ALL;
  return level >= 1 ? FAST_REASSOC | FAST_CONTRACT | FAST_APPROX | FAST_QUANT | FAST_NO_SZ : 0;
}

void opt_defaults(OptOptions *o) {
  *o = (OptOptions){.level = 3, .fold_limit = 64 << 20, .unroll_limit = 512, .bisect = -1};
  o->fast = opt_fast_math_flags(o->level, false, false);
}

static int64_t find(const Pass *p, int64_t n, const char *name) {
  for (int64_t i = 0; i < n; i++)
    if (!strcmp(p[i].name, name)) return i;
  return -1;
}

bool pass_check_order(const Pass *p, int64_t n, const PassOrder *o, int64_t m, Diag *d) {
  for (int64_t i = 0; i < m; i++) {
    int64_t x = find(p, n, o[i].before), y = find(p, n, o[i].after);
    if (x >= 0 && y >= 0 && x < y) continue;
    fail(d, TENON_EINTERNAL, NOWHERE, "pass %s must come before %s: %s", o[i].before, o[i].after,
         o[i].why);
    return false;
  }
  return true;
}

static bool listed(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
    if (!strncmp(p, name, n) && (p[n] == ',' || !p[n])) return true;
  return false;
}

static tenon_status no_such_pass(const Pass *p, int64_t n, Str name, Diag *d) {
  enum { MOST = 64 };
  const char *words[MOST];
  for (int64_t i = 0; i < n && i < MOST; i++) words[i] = p[i].name;
  HintText hint = did_you_mean(name, words, MIN(n, MOST));
  return fail(d, TENON_EINVAL, NOWHERE, "there is no pass '%.*s'%s (`tenon passes` lists them)",
              STR_ARG(name), hint.s);
}

tenon_status passes_check_names(const Pass *p, int64_t n, const OptOptions *o, Diag *d) {
  const char *named[] = {o->stop_after, o->start_from,
                         o->dump_after && strcmp(o->dump_after, "all") ? o->dump_after : NULL};
  for (int64_t i = 0; i < ARRAY_LEN(named); i++)
    if (named[i] && find(p, n, named[i]) < 0) return no_such_pass(p, n, str_of(named[i]), d);
  if (o->start_from && o->stop_after && find(p, n, o->stop_after) < find(p, n, o->start_from))
    return fail(d, TENON_EINVAL, NOWHERE,
                "no pass runs from '%s' to '%s'; `tenon passes` lists them in order", o->start_from,
                o->stop_after);
  for (const char *q = o->disable; q && *q; q = strchr(q, ',') ? strchr(q, ',') + 1 : NULL) {
    Str name = {q, (int64_t)strcspn(q, ",")};
    int64_t at = -1;
    for (int64_t i = 0; i < n; i++)
      if (str_is(name, p[i].name)) at = i;
    if (at < 0) return no_such_pass(p, n, name, d);
    if (p[at].flags & PASSF_REQUIRED)
      return fail(d, TENON_EINVAL, NOWHERE, "pass '%s' is required", p[at].name);
  }
  return TENON_OK;
}

int64_t graph_count_nodes(Graph *g) {
  Arena a;
  arena_init_scoped(&a);
  NodeList l = body_order(g, g->main, &a);
  int64_t n = 0;
  for (int64_t i = 0; i < l.n; i++) {
    int op = l.v[i]->op;
    n += op != OP_const && op != OP_param && op != OP_proj && op != OP_none;
  }
  arena_deinit(&a);
  return n;
}

static void dump(PassCtx *c, const char *name) {
  if (!c->o->print) return;
  StrBuf b;
  strbuf_init(&b, c->scratch);
  strbuf_printf(&b, "// after %s\n", name);
  graph_print(c->g, &b);
  c->o->print(c->o->print_ctx, strbuf_str(&b));
}

enum { MAX_REPEATS = 16 };

static tenon_status run_one(PassCtx *c, const Pass *p, PassStat *st) {
  int64_t start = platform->now();
  c->nfired = 0;
  c->pass = p;
  at_work_part("pass", p->name, -1);
  st->ran = true;
  st->nodes_before = graph_count_nodes(c->g);
  for (int i = 0; i < ((p->flags & PASSF_FIXPOINT) ? MAX_REPEATS : 1); i++) {
    bool changed = false;
    TRY(p->run(c, &changed));
    TRY(graph_status(c->g));
    st->changed |= changed;
    if (!changed) break;
  }
  st->nodes_after = graph_count_nodes(c->g);
  st->ns = platform->now() - start;
  st->rules = c->nfired;
  const OptOptions *o = c->o;
  if (o->verify_each) {
    tenon_status s = graph_verify(c->g, c->g->diag);
    if (s) {
      diag_note(c->g->diag, "found after pass %s", p->name);
      return TENON_EINTERNAL;
    }
  }
  bool asked = o->dump_after && (!strcmp(o->dump_after, "all") || !strcmp(o->dump_after, p->name));
  if (asked || (o->dump_changed && st->changed)) dump(c, p->name);
  return TENON_OK;
}

static tenon_status run_all(PassCtx *c, const Pass *p, int64_t n) {
  const OptOptions *o = c->o;
  int64_t first = o->start_from ? find(p, n, o->start_from) : 0;
  for (int64_t i = 0; i < n; i++) {
    c->report->pass[i].pass = &p[i];
    bool on =
        (p[i].flags & PASSF_REQUIRED) || (o->level >= p[i].level && !listed(o->disable, p[i].name));
    if (i < first) continue;
    if (on) TRY(watch_step(o->watch, c->g->diag, "optimise", p[i].name, i, n));
    ArenaMark m = arena_mark(c->scratch);
    if (on) TRY(run_one(c, &p[i], &c->report->pass[i]));
    arena_reset(c->scratch, m);
    if (o->stop_after && !strcmp(o->stop_after, p[i].name)) break;
  }
  return TENON_OK;
}

tenon_status passes_run(const Pass *p, int64_t n, Graph *g, const OptOptions *o,
                        OptReport *report) {
  TRY(passes_check_names(p, n, o, g->diag));
  Arena scratch;
  arena_init(&scratch);
  int64_t limit = o->bisect;
  PassCtx c = {.g = g,
               .o = o,
               .report = report,
               .scratch = &scratch,
               .fire_limit = o->bisect >= 0 ? &limit : NULL};
  if (n) at_work_part("pass", p[0].name, -1);  // what is prepared counts as the first one's
  report->pass = arena_array(report->arena, PassStat, n);
  report->npasses = n;
  intmap_init(&report->hits, report->arena);
  Trap t;
  trap_enter(&t, g->diag);
  if (setjmp(t.env) == 0) t.status = run_all(&c, p, n);
  trap_leave(&t);
  arena_deinit(&scratch);
  return t.status;
}

static void trace_rule(void *ctx, const Rule *r, const Node *from, const Node *to) {
  PassCtx *c = ctx;
  c->nfired++;
  if (c->o->record)
    vec_push(c->report->arena, &c->report->fired,
             ((RuleFiring){r, c->pass, from->name, to->name, from->op, to->op}));
  if (!c->o->trace_rules) return;
  const char *slash = strrchr(r->file, '/');
  char *line =
      str_printf(c->report->arena, "%s:%d %s  %s '%s' => %s", slash ? slash + 1 : r->file, r->line,
                 r->name, op_name(from), from->name ? from->name : "", op_name(to));
  text_clean(line, (int64_t)strlen(line));
  vec_push(c->report->arena, &c->report->trace, line);
  if (c->o->print) c->o->print(c->o->print_ctx, str_of(str_printf(c->scratch, "%s\n", line)));
}

tenon_status pass_rewrite(PassCtx *c, const RuleSet *const *sets, int64_t n, bool *out_changed) {
  Rewriter rw = {.g = c->g,
                 .set = sets,
                 .nsets = n,
                 .fast = c->o->fast,
                 .fire_limit = c->fire_limit,
                 .trace = trace_rule,
                 .trace_ctx = c,
                 .hits = &c->report->hits};
  return graph_rewrite(&rw, out_changed);
}
