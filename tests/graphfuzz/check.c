// check.c -- a graph and its optimised forms must agree (graphfuzz.h).
//
// Oracles, at each of the sizes that the graph's symbols take:
//  - the plan interpreter's bits after the passes equal the reference interpreter's before, whatever passes are left out, wherever
//    every rule that fired is exact;
//  - where a licensed rule fired, results stay within what the graph makes of a few roundings of each value: it is run
//    again with every value shaken by so much, and what that changes is the bound.  Graphs with ops that turn a rounding
//    into a jump, or with a value that is no finite number, have no such bound;
//  - the graph with its symbols replaced by numbers, and that one optimised, give the same bits;
//  - text, printed and read back, is the same text; that of the optimised graph also runs the same.
#include "graphfuzz/graphfuzz.h"
#include "ir/internal.h"
#include "rules/rules.h"

#include <math.h>

typedef struct Outcome {
  Run run;
  Value *out[FUZZ_RESULTS];
  Value *spread[FUZZ_RESULTS];  // f64: how far a shaken run went off, by element
  bool bounded;
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
  run->max_bytes = 64 << 20;
  run->budget = 4096;
}

static tenon_status inputs(Check *c, Graph *g, Run *run, int k, Value ***out) {
  *out = arena_array(c->arena, Value *, g->main->nparams + 1);
  for (int64_t i = 0; i < g->main->nparams; i++)
    TRY(fuzz_input(run, type_of(g->main->param[i]), g->main->param[i]->name, k, &(*out)[i]));
  return TENON_OK;
}

static tenon_status interpret(Check *c, Graph *g, Run *run, int k, const Placement *p,
                              Value **in, Value **out) {
  Interp *it;
  if (!in) TRY(inputs(c, g, run, k, &in));
  TRY(interp_create(g, NULL, &c->quiet, &it));
  tenon_status s = interp_run_placed(it, run, p, in, out);
  for (int64_t i = 0; !s && i < g->main->nresults; i++) s = fuzz_own(run, &out[i]);
  interp_free(it);
  return s;
}

static tenon_status run_planned(Check *c, Graph *g, const MemPlan *p, Run *run, int k,
                                Value **out) {
  Value **in;
  TRY(inputs(c, g, run, k, &in));
  return plan_run(p, run, in, out);
}

// ---- what a few roundings do ----

static double rounding(DType t) {
  switch (t) {
  case DT_F64: return 0x1p-53;
  case DT_F32: return 0x1p-24;
  case DT_F16: return 0x1p-11;
  case DT_BF16: return 0x1p-8;
  default: return dtype_is_float(t) ? 0.25 : 0;
  }
}

// Numbers so large that an intermediate result in another order may overflow.
static double too_large(DType t) { return t == DT_F64 ? 1e290 : t == DT_F16 ? 2048 : 1e30; }
// The distance of the smallest numbers.
static double smallest(DType t) {
  return t == DT_F64 ? 0x1p-1074 : t == DT_F32 ? 0x1p-149 : t == DT_F16 ? 0x1p-24 : 0x1p-133;
}

typedef struct Shake {
  uint64_t rng;
  bool odd;  // a value that is no finite number was seen
} Shake;

enum { SHAKEN = 3, ROUNDINGS = 4, BOUND = 24 };

static void shake(Shake *s, Value *v) {
  if (!v || v->kind != VK_TENSOR || !dtype_is_float(v->dtype)) return;
  for (int64_t i = 0; i < v->n; i++) {
    double x = val_f64(v, i);
    s->odd |= !(fabs(x) < too_large(v->dtype));
    s->rng = hash_u64(s->rng + 0x9e3779b97f4a7c15ull);
    double u = (double)(s->rng >> 11) * 0x1p-52 - 1;
    val_put_f64(v, i, x * (1 + ROUNDINGS * u * rounding(v->dtype)));
  }
}

static tenon_status shake_begin(void *ctx, Run *run, const int64_t *bind, const bool *bound,
                                int32_t nbind) {
  (void)ctx, (void)run, (void)bind, (void)bound, (void)nbind;
  return TENON_OK;
}
static tenon_status shake_place(void *ctx, Run *run, const Node *n, int result, Value **v) {
  (void)n, (void)result;
  if (!*v || (*v)->kind != VK_TENSOR || !dtype_is_float((*v)->dtype)) return TENON_OK;
  Value *copy;  // it may share its bytes with another
  TRY(value_tensor(run, NOWHERE, (*v)->dtype, (*v)->rank, (*v)->dims, &copy));
  copy_elems(copy->dtype, copy->data, 0, (*v)->data, 0, copy->n);
  shake(ctx, copy);
  if ((*v)->run) value_release(*v);
  *v = copy;
  return TENON_OK;
}
static void shake_dead(void *ctx, const Node *n, int result) { (void)ctx, (void)n, (void)result; }

static void widen(Outcome *ref, int64_t i, const Value *got) {
  const Value *want = ref->out[i];
  if (want->kind != VK_TENSOR || got->kind != VK_TENSOR || got->n != want->n ||
      !dtype_is_float(want->dtype)) {
    ref->bounded &= fuzz_same(want, got);
    return;
  }
  if (!ref->spread[i] &&
      value_tensor(&ref->run, NOWHERE, DT_F64, want->rank, want->dims, &ref->spread[i])) {
    ref->bounded = false;
    return;
  }
  for (int64_t e = 0; e < want->n; e++)
    val_put_f64(ref->spread[i], e,
                fmax(val_f64(ref->spread[i], e), fabs(val_f64(want, e) - val_f64(got, e))));
}

// Fills the bounds of a reference run.
static void find_bounds(Check *c, int k) {
  Outcome *ref = &c->ref[k];
  ref->bounded = !c->steep;
  for (int round = 0; ref->bounded && round < SHAKEN; round++) {
    Shake s = {.rng = (uint64_t)round * 77 + 5};
    Placement p = {&s, shake_begin, shake_place, shake_dead};
    Value **in, *out[FUZZ_RESULTS] = {NULL};
    ref->bounded = !inputs(c, c->g, &ref->run, k, &in);
    for (int64_t i = 0; ref->bounded && i < c->g->main->nparams; i++) shake(&s, in[i]);
    ref->bounded = ref->bounded && !interpret(c, c->g, &ref->run, k, &p, in, out) && !s.odd;
    for (int64_t i = 0; ref->bounded && i < c->g->main->nresults; i++) widen(ref, i, out[i]);
  }
}

static bool within(const Outcome *ref, int64_t i, const Value *got) {
  const Value *want = ref->out[i];
  if (!ref->spread[i]) return fuzz_same(want, got);
  if (got->kind != VK_TENSOR || got->dtype != want->dtype || got->rank != want->rank ||
      memcmp(got->dims, want->dims, (size_t)got->rank * sizeof got->dims[0]))
    return false;
  double largest = 0;
  for (int64_t e = 0; e < want->n; e++) largest = fmax(largest, fabs(val_f64(want, e)));
  for (int64_t e = 0; e < want->n; e++) {
    double x = val_f64(want, e), y = val_f64(got, e);
    double bound = BOUND * val_f64(ref->spread[i], e) +
                   BOUND * rounding(want->dtype) * (fabs(x) + largest / 4) +
                   BOUND * smallest(want->dtype);
    if (!(fabs(x - y) <= bound)) return false;
  }
  return true;
}

// Ops that turn a rounding into a jump: behind them only exact graphs can be compared.
static bool is_steep(const Node *n) {
  const OpInfo *op = op_info(n->op);
  if (!n->nsrc || n->op == OP_param || n->op == OP_proj) return false;
  bool from_float = false;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const Type *t = type_of(n->src[i]);
    from_float |= t->kind == TK_TENSOR && dtype_is_float(t->dtype);
  }
  for (int i = 0; i < n->nres; i++) {
    const Type *t = n->type[i];
    if (t->kind != TK_TENSOR) return true;
    if (from_float && !dtype_is_float(t->dtype) && n->op != OP_shape && n->op != OP_size &&
        n->op != OP_dims)
      return true;
    if (dtype_is_float(t->dtype) && dtype_bits(t->dtype) <= 8) return true;
  }
  static const int steep[] = {OP_round, OP_floor, OP_ceil, OP_sign, OP_mod, OP_fmod,
                              OP_max_pool, OP_shrink, OP_dynamic_quantize_linear};
  for (int64_t i = 0; i < ARRAY_LEN(steep); i++)
    if (n->op == steep[i]) return true;
  return from_float && (op->flags & OPF_HOST);
}

typedef VEC(Node *) Nodes;

static void add_nodes(Graph *g, const Body *b, Arena *a, Nodes *out) {
  NodeList l = body_order(g, b, a);
  for (int64_t i = 0; i < l.n; i++) {
    const OpInfo *op = op_info(l.v[i]->op);
    vec_push(a, out, l.v[i]);
    for (int k = 0; k < op->nattrs; k++)
      if (op->attrs[k].kind == ATTR_body)
        add_nodes(g, *(const Body *const *)((const char *)l.v[i]->attrs + op->attrs[k].offset), a,
                  out);
  }
}

// ---- one way to optimise ----

typedef struct Way {
  const char *what, *disable;
  int level;
  unsigned fast;
} Way;

// Whether anything ran that may change a bit.
static bool is_exact(const OptReport *r) {
  for (int64_t i = 0; i < r->npasses; i++)
    if (r->pass[i].changed &&
        (!strcmp(r->pass[i].pass->name, "chain") || !strcmp(r->pass[i].pass->name, "parallel")))
      return false;
  for (const RuleSet *const *s = rule_sets; *s; s++)
    for (int64_t i = 0; i < (*s)->n; i++) {
      uint64_t hits = 0;
      if ((*s)->rule[i].fast && intmap_get(&r->hits, (uint64_t)(uintptr_t)&(*s)->rule[i], &hits) &&
          hits)
        return false;
    }
  return true;
}

static bool compare(Check *c, const Way *w, int k, bool exact, const char *why, Value **got) {
  Outcome *ref = &c->ref[k];
  for (int64_t i = 0; i < c->g->main->nresults; i++) {
    if (exact ? fuzz_same(ref->out[i], got[i]) : !ref->bounded || within(ref, i, got[i])) continue;
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
  if (ok && interpret(c, again, &run, 0, NULL, NULL, got))
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
  Nodes l = {0};
  add_nodes(g, g->main, c->arena, &l);
  for (int64_t i = 0; i < l.n; i++) {
    c->st->used[l.v[i]->op] += !seen[l.v[i]->op];
    seen[l.v[i]->op] = 1;
  }
}

// `sizes`: the first and last of the runs to compare.
static bool check_graph(Check *c, Graph *g, const Way *w, int from, int to, uint8_t *seen) {
  OptOptions o;
  opt_defaults(&o);
  o.level = w->level;
  o.fast = w->fast;
  o.disable = w->disable;
  o.verify_each = true;
  OptReport report = {.arena = c->arena};
  diag_init(&c->quiet);
  g->diag = &c->quiet;
  if (graph_optimise(g, &o, &report)) return differs(c, w->what, c->quiet.text);
  if (c->way->planted && !plant(c, g)) return differs(c, w->what, c->quiet.text);
  bool exact = !w->fast || is_exact(&report), ok = true;
  MemPlan *p;
  if (plan_create(g, c->arena, &p) || plan_verify(p, &c->quiet))
    return differs(c, w->what, c->quiet.text);
  for (int k = from; ok && k <= to; k++) {
    Run run;
    Value *got[FUZZ_RESULTS] = {NULL};
    start(c, &run);
    if (run_planned(c, g, p, &run, k, got))
      ok = differs(c, w->what, c->quiet.text);
    else
      ok = compare(c, w, k, exact, "", got);
    if (w->fast && !exact && c->ref[k].bounded) c->st->bounded++;
    if (w->fast && !exact && !c->ref[k].bounded) c->st->unbounded++;
    c->st->exact += exact;
    run_deinit(&run);
  }
  if (ok && seen) note_ops(c, g, seen);
  if (ok && seen && from == 0) ok = check_saved(c, w, g, exact);
  return ok;
}

static bool check_way(Check *c, const Way *w, uint8_t *seen) {
  Graph *g = NULL;
  diag_init(&c->quiet);
  if (graph_parse(c->text, NULL, &c->quiet, &g))
    return differs(c, "its own text is refused", c->quiet.text);
  bool ok = check_graph(c, g, w, 0, c->nsizes - 1, seen);
  graph_free(g);
  return ok;
}

// The same graph with numbers for its symbols.
static bool check_concrete(Check *c, int k) {
  static const Way as_is = {"with numbers for symbols", NULL, 3, 0};
  diag_init(&c->quiet);
  Graph *g = fuzz_copy(c->g, &(Edit){.kind = EDIT_SIZES, .a = k}, &c->quiet);
  if (!g) return differs(c, "numbers for symbols are refused", c->quiet.text);
  Run run;
  Value *got[FUZZ_RESULTS] = {NULL};
  start(c, &run);
  bool ok = true;
  if (interpret(c, g, &run, k, NULL, NULL, got))
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
  out[n++] = (Way){"exact", NULL, 3, 0};
  out[n++] = (Way){"with the usual licences", NULL, 3, opt_licences(3, false, false)};
  if (!s) {
    out[n++] = (Way){"with all licences", NULL, 3, FAST_ALL};
    for (int level = 0; level < 3; level++) out[n++] = (Way){"at a lower level", NULL, level, 0};
    for (int64_t i = 0; i < graph_npasses; i++)
      out[n++] = (Way){"without a pass", graph_passes[i].name, 3, 0};
    return n;
  }
  StrBuf off;
  strbuf_init(&off, c->arena);
  for (int64_t i = 0; i < graph_npasses; i++)
    if (hash_u64(s * 31 + (uint64_t)i) % 3 == 0)
      strbuf_printf(&off, "%s%s", off.n ? "," : "", graph_passes[i].name);
  int level = (int)(hash_u64(s ^ 0x51) % 4);
  unsigned fast = hash_u64(s ^ 0x52) % 2 ? 0 : FAST_ALL;
  out[n++] = (Way){"without some passes", off.n ? strbuf_text(&off) : NULL, level, fast};
  return n;
}

// The graph's own runs; false where it cannot be run.
static bool run_reference(Check *c) {
  if (graph_verify(c->g, &c->quiet)) return differs(c, "the graph is refused", c->quiet.text);
  for (int k = 0; k < c->nsizes; k++)
    if (interpret(c, c->g, &c->ref[k].run, k, NULL, NULL, c->ref[k].out))
      return differs(c, "the graph cannot be run", c->quiet.text);
  for (int k = 0; k < c->nsizes; k++) find_bounds(c, k);
  return true;
}

static bool check_all(Check *c, bool *valid) {
  StrBuf text;
  strbuf_init(&text, c->arena);
  graph_print(c->g, &text);
  c->text = (Str){strbuf_text(&text), text.n};
  Nodes l = {0};
  add_nodes(c->g, c->g->main, c->arena, &l);
  for (int64_t i = 0; i < l.n; i++) c->steep |= is_steep(l.v[i]);
  *valid = run_reference(c);
  if (!*valid) return true;
  uint8_t *seen = arena_array(c->arena, uint8_t, OP_COUNT);
  note_ops(c, c->g, seen);
  Way way[32];
  int n = list_ways(c, way);
  bool ok = check_text(c);
  for (int i = 0; ok && i < n; i++) ok = check_way(c, &way[i], seen);
  for (int k = 0; ok && c->nsizes > 1 && k < c->nsizes; k++) ok = check_concrete(c, k);
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
  Nodes l = {0};
  uint32_t dtypes = 0, ranks = 0;
  bool bodies = false, empty = false;
  add_nodes(g, g->main, a, &l);
  for (int64_t i = 0; i < l.n; i++) {
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
