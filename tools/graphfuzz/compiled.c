// compiled.c -- what a compiled graph must give (graphfuzz.h).
//
// The compiled graph is compared with the interpreter's run of the same optimised graph, so that
// only lowering and generated code can make them differ.  How much they may is a property of each
// result: whole numbers, what only moves elements and what asks about inputs is the same in every
// bit; a float that was computed lies within what a few roundings of every value make of it
// (bound.c); behind an op that turns such a rounding into a jump, only the number of threads can be
// asked about, which may never change a bit.
#include "graphfuzz/graphfuzz.h"
#include "base/limits.h"
#include "ir/internal.h"
#include "runtime/session.h"
#include "targets/target.h"

#include <math.h>

// ---- classes ----

static bool is_float(const Type *t) { return t->kind != TK_TENSOR || dtype_is_float(t->dtype); }

// Questions about floats whose answer no rounding takes part in.
static bool asks_only(const Node *n) {
  static const int ops[] = {OP_eq,      OP_lt,      OP_le,    OP_is_nan, OP_is_inf,
                            OP_arg_max, OP_arg_min, OP_top_k, OP_cast,   OP_proj};
  for (int64_t i = 0; i < ARRAY_LEN(ops); i++)
    if (n->op == ops[i]) return true;
  return (op_info(n->op)->flags & OPF_HOST) != 0;
}

static bool asks_for_sizes(const Node *n) {
  return n->op == OP_shape || n->op == OP_size || n->op == OP_dims;
}

// Bodies: nothing is said of their insides, only whether floats are computed there.
static FuzzClass class_of_body(Graph *g, const Node *n, Arena *a) {
  const OpInfo *op = op_info(n->op);
  FuzzClass c = CLASS_EXACT;
  for (int k = 0; k < op->nattrs; k++) {
    if (op->attrs[k].kind != ATTR_body) continue;
    NodeList l =
        body_order(g, *(const Body *const *)((const char *)n->attrs + op->attrs[k].offset), a);
    for (int64_t i = 0; i < l.n; i++) {
      const Node *m = l.v[i];
      bool steep = fuzz_node_is_steep(m);
      bool moves = op_info(m->op)->flags & OPF_MOVEMENT || m->op <= OP_foreign || asks_for_sizes(m);
      if (!moves && (steep || is_float(m->type[0]))) c = MAX(c, steep ? CLASS_JUMP : CLASS_ROUNDED);
      FuzzClass inside = op_info(m->op)->flags & OPF_CONTROL ? class_of_body(g, m, a) : CLASS_EXACT;
      c = MAX(c, inside);
    }
  }
  return c;
}

static FuzzClass class_of(Graph *g, const Node *n, bool tiny, const uint8_t *cls, Arena *a) {
  FuzzClass c = CLASS_EXACT;
  bool from_float = false, to_float = false;
  if (asks_for_sizes(n)) return CLASS_EXACT;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    c = MAX(c, (FuzzClass)cls[n->src[i]->id]);
    from_float |= is_float(type_of(n->src[i]));
  }
  for (int i = 0; i < n->nres; i++) to_float |= is_float(n->type[i]);
  if (op_info(n->op)->flags & OPF_CONTROL) {
    FuzzClass inside = class_of_body(g, n, a);
    return c && inside ? CLASS_JUMP : MAX(c, inside);
  }
  if (n->op <= OP_foreign || op_info(n->op)->flags & OPF_MOVEMENT) return c;
  if (!from_float && !to_float) return c;
  if (c && fuzz_node_is_steep(n)) return CLASS_JUMP;
  if (to_float) return MAX(c, CLASS_ROUNDED);
  return asks_only(n) && !tiny ? c : CLASS_JUMP;
}

void fuzz_classes(Graph *g, bool tiny, Arena *a, FuzzClass *out) {
  NodeList l = body_order(g, g->main, a);
  uint32_t most = 0;
  for (int64_t i = 0; i < l.n; i++) most = MAX(most, l.v[i]->id);
  uint8_t *cls = arena_array(a, uint8_t, most + 1);
  for (int64_t i = 0; i < l.n; i++) cls[l.v[i]->id] = (uint8_t)class_of(g, l.v[i], tiny, cls, a);
  for (int64_t i = 0; i < g->main->nresults; i++) out[i] = (FuzzClass)cls[g->main->result[i]->id];
}

static bool is_tiny(const Value *v) {
  if (!v || v->kind != VK_TENSOR || !dtype_is_float(v->dtype)) return false;
  double normal = v->dtype == DT_F64 ? 0x1p-1022 : 0x1p-126;
  for (int64_t i = 0; i < v->n; i++) {
    double x = val_f64(v, i);
    if (x != 0 && fabs(x) < normal) return true;
  }
  return false;
}

bool fuzz_has_tiny(Graph *g, Value *const *in, Arena *a) {
  NodeList l = fuzz_nodes(g, a);
  for (int64_t i = 0; i < g->main->nparams; i++)
    if (is_tiny(in[i])) return true;
  for (int64_t i = 0; i < l.n; i++)
    if (l.v[i]->op == OP_const && is_tiny(node_known(g, l.v[i]))) return true;
  return false;
}

// ---- running ----

enum { MANY_THREADS = 3 };

typedef struct Compared {
  const FuzzTarget *t;
  Session *session[2];  // of one thread and of three
} Compared;

static void start(const FuzzTarget *t, Run *run) {
  diag_init(t->quiet);
  run_init(run, NULL, t->quiet);
  run->max_bytes = 64 << 20;
  run->budget = 4096;
}

static bool agrees(const FuzzTarget *t, int k, int64_t i, const Value *want, const Value *got) {
  const FuzzBound *b = t->bound[k];
  switch (t->cls[i]) {
  case CLASS_EXACT: t->st->exact++; return fuzz_same(want, got);
  case CLASS_ROUNDED:
    if (!b->known[i]) break;
    t->st->bounded++;
    return fuzz_within(b, i, want, got);
  default: break;
  }
  t->st->unbounded++;
  return true;
}

// The element that is furthest off.
static const char *example(const FuzzTarget *t, const Value *want, const Value *got) {
  if (!want || !got || want->kind != VK_TENSOR || got->kind != VK_TENSOR ||
      want->dtype != got->dtype || want->n != got->n || dtype_class(want->dtype) >= DC_COMPLEX)
    return "other type";
  int64_t at = 0;
  double most = -1;
  for (int64_t i = 0; i < want->n; i++) {
    double off = fabs(val_f64(want, i) - val_f64(got, i));
    if (off > most) most = off, at = i;
  }
  return want->n ? str_printf(t->arena, "at %lld %.17g, not %.17g", (long long)at, val_f64(got, at),
                              val_f64(want, at))
                 : "empty";
}

// One result alone, `all` being what a run of everything gave: the same bits.
static const char *run_wanted(const Compared *c, int k, Run *run, Value *const *all) {
  const FuzzTarget *t = c->t;
  int64_t n = t->g->main->nresults, one = k % n;
  bool wanted[FUZZ_RESULTS] = {false};
  Value **in, *out[FUZZ_RESULTS] = {NULL};
  wanted[one] = true;
  run->wanted = wanted;
  if (fuzz_inputs(t->g, run, k, t->arena, &in) || session_run(c->session[0], run, in, NULL, out))
    return t->quiet->text;
  for (int64_t i = 0; i < n; i++)
    if (wanted[i] ? !fuzz_same(out[i], all[i]) : out[i] != NULL)
      return str_printf(t->arena,
                        "result %lld differs at sizes %d where result %lld alone is wanted",
                        (long long)i, k, (long long)one);
  return NULL;
}

static const char *run_at(const Compared *c, int k, Run *run) {
  const FuzzTarget *t = c->t;
  int64_t n = t->g->main->nresults;
  Value **in, *out[3][FUZZ_RESULTS] = {{NULL}};
  bool jumps = false;
  for (int64_t i = 0; i < n; i++) jumps |= t->cls[i] == CLASS_JUMP;
  if (fuzz_inputs(t->g, &run[0], k, t->arena, &in) || plan_run(t->made->plan, &run[0], in, out[0]))
    return t->quiet->text;
  for (int i = 1; i < 3; i++) {
    if (fuzz_inputs(t->g, &run[i], k, t->arena, &in)) return t->quiet->text;
    // A jump may lead to sizes and indices that nothing can be done with.
    if (session_run(c->session[i - 1], &run[i], in, NULL, out[i]))
      return jumps ? NULL : t->quiet->text;
  }
  for (int64_t i = 0; i < n; i++) {
    if (!fuzz_same(out[1][i], out[2][i]))
      return str_printf(t->arena, "result %lld differs between 1 thread and 3 at sizes %d",
                        (long long)i, k);
    if (!agrees(t, k, i, out[0][i], out[1][i]))
      return str_printf(t->arena, "result %lld differs at sizes %d (%s): %s", (long long)i, k,
                        t->cls[i] ? "bounded" : "exact", example(t, out[0][i], out[1][i]));
  }
  return run_wanted(c, k, &run[3], out[1]);
}

static const char *run_all(Compared *c, Program *p, int from, int to) {
  const char *why = NULL;
  if (session_create(p, &(SessionOptions){.threads = 1}, c->t->quiet, &c->session[0]) ||
      session_create(p, &(SessionOptions){.threads = MANY_THREADS}, c->t->quiet, &c->session[1]))
    why = c->t->quiet->text;
  for (int k = from; !why && k <= to; k++) {
    enum { RUNS = 4 };  // the plan, one thread, several, and one result alone
    Run run[RUNS];
    for (int i = 0; i < RUNS; i++) start(c->t, &run[i]);
    why = run_at(c, k, run);
    for (int i = 0; i < RUNS; i++) run_deinit(&run[i]);
  }
  session_free(c->session[0]);
  session_free(c->session[1]);
  return why;
}

// No kernel of the program has more code than a limit allows.  A schedule above a limit
// (base/limits.def: statements, code bytes, processor time) is left for a cheaper one, which is no
// failure while there is one; a template or a code generator that fails is.
static const char *over_budget(const FuzzTarget *t) {
  const TargetReport *r = &t->made->target;
  for (int64_t i = 0; r->kernel && i < r->nkernels; i++)
    if (r->kernel[i].bytes > (int64_t)LIMIT_KERNEL_CODE_KIB << 10)
      return str_printf(t->arena, "kernel %s has %lld bytes of code", r->kernel[i].name,
                        (long long)r->kernel[i].bytes);
  for (int64_t i = 0; i < r->ndeclined; i++) {
    const DeclinedKernel *k = &r->declined[i];
    bool host = k->instead && strstr(k->instead, "host");
    for (int64_t j = 0; j < k->ntried; j++) {
      t->st->unproven += k->tried[j].kind == DECLINED_UNPROVEN;
      t->st->limited += k->tried[j].kind == DECLINED_LIMIT;
      if (k->tried[j].kind == DECLINED_DEFECT || (host && k->tried[j].kind == DECLINED_LIMIT))
        return str_printf(t->arena, "kernel of %s by '%s': %s", k->nodes, k->tried[j].schedule,
                          k->tried[j].why);
    }
  }
  return NULL;
}

const char *fuzz_compiled(const FuzzTarget *t, int from, int to) {
  static const char *const place[] = {"alternate"};  // so that everything crosses
  CompileOptions o;
  compile_defaults(&o);
  o.target = t->target;
  o.no_cache = true;
  o.cflags = "-O1 -march=native";
  o.place = (TextList){place, t->target->with != NULL};
  Compared c = {.t = t};
  diag_init(t->quiet);
  tenon_status s = compile_graph(t->g, &o, COMPILE_BUILD, t->arena, t->quiet, t->made);
  if (s) {
    bool source = s == TENON_EUNSUPPORTED && !strcmp(t->target->name, "c");  // what C cannot hold
    if (!source && !strstr(t->quiet->text, "not supported in compiled models"))
      return t->quiet->text;
    t->st->refused++;
    return NULL;
  }
  t->st->kernels += t->made->target.nkernels;
  t->st->host += t->made->target.nhost;
  const char *why = over_budget(t);
  if (!why) why = run_all(&c, t->made->program, from, to);
  program_release(t->made->program);
  return why;
}
