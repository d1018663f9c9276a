// interpret.c -- the reference interpreter: plans and steps.
//
// A plan numbers the values of a body (slots) and lists its steps in order; each slot knows after
// which step it is dead.  Running evaluates step by step, compares each result with the inferred
// type (so that inference and evaluation check each other), binds symbols as sizes become known,
// and releases what is dead.  A composite without an evaluation, or every composite when asked, is
// replaced in the plan by the nodes of its expansion.
//
// Needs:      a graph that graph_verify accepts.
// Guarantees: the same bits for any number of threads; a bad input or size is an error with the
//             node's name.
#include "ir/custom.h"
#include "ir/interpret.h"
#include "ir/internal.h"

typedef struct Step {
  const Node *node;
  int32_t *src;   // slot of each operand; -1 = absent
  int32_t out;    // first result's slot
  int32_t *dead;  // slots that nothing needs after this step
  int32_t ndead;
  int32_t state;  // the slot of the state whose memory the result is written to; -1: none
} Step;

typedef struct Plan {
  const Body *body;
  Step *step;
  int64_t nsteps;
  int32_t nslots;
  int32_t *param, *result;  // slots
  struct {
    const Node *node;
    int result;
  } * owner;  // by slot: what it holds; no node: a copy
} Plan;

struct Interp {
  Graph *g;
  Arena arena;
  bool expand, dry;
  const NodeList *order;  // of the main body, while planning
  IntMap plans;           // Body -> Plan
  IntMap consts;          // const node id -> Value (borrowed data)
  const Node **versions;  // of states (state_versions), of the first `nnodes` nodes
  int64_t nnodes;
  Plan *main;
  Diag *diag;  // while planning
  // The symbols that the plan's types may hold: others may be added to the graph while it is run.
  const Dim *sym;
  int32_t nsyms;
};

// ---- planning ----

typedef struct Planner {
  Interp *in;
  Plan *plan;
  IntMap slot;  // node id -> first slot
  VEC(Step) steps;
  int depth;  // expansions within expansions
} Planner;

static tenon_status plan_body(Interp *in, const Body *b);

static int32_t slot_of(Planner *p, const Node *n) {
  if (n == p->in->g->none) return -1;
  uint64_t s = 0;
  bool found = intmap_get(&p->slot, n->id, &s);
  CHECK(found, "%s %u is used before it is made", op_name(n), n->id);
  return (int32_t)s;
}

static int32_t new_slots(Planner *p, const Node *n, int count) {
  int32_t s = p->plan->nslots;
  p->plan->nslots += count;
  intmap_put(&p->slot, n->id, (uint64_t)s);
  return s;
}

static tenon_status plan_const(Planner *p, const Node *n) {
  Interp *in = p->in;
  uint64_t have;
  if (intmap_get(&in->consts, n->id, &have)) return TENON_OK;
  const void *bytes;
  TRY(const_bytes(in->g, n, &bytes, in->diag));
  const Type *t = type_of(n);
  Value *v = arena_new(&in->arena, Value);
  v->kind = VK_TENSOR;
  v->dtype = t->dtype;
  v->rank = t->rank;
  v->n = n->data->n;
  for (int i = 0; i < t->rank; i++) v->dims[i] = t->dims[i]->value;
  v->data = (void *)(uintptr_t)bytes;
  if ((uintptr_t)bytes % 16) {  // a file gives no alignment, evaluations need their element's
    int64_t size = 0;
    CHECK(dtype_bytes(t->dtype, v->n, &size), "constant of impossible size");
    v->data = arena_alloc(&in->arena, MAX(size, 1));
    if (size) memcpy(v->data, bytes, (size_t)size);
  }
  v->refs = 1;
  intmap_put(&in->consts, n->id, (uint64_t)(uintptr_t)v);
  return TENON_OK;
}

static tenon_status plan_bodies(Interp *in, const Node *n) {
  const OpInfo *op = op_info(n->op);
  for (int i = 0; i < op->nattrs; i++) {
    if (op->attrs[i].kind != ATTR_body) continue;
    const Body *b = *(const Body *const *)((const char *)n->attrs + op->attrs[i].offset);
    uint64_t have;
    if (b && !intmap_get(&in->plans, (uint64_t)(uintptr_t)b, &have)) TRY(plan_body(in, b));
  }
  return TENON_OK;
}

static tenon_status plan_node(Planner *p, Node *n);

// Puts the nodes below `n` into the plan, operands first, without recursion.
static tenon_status plan_tree(Planner *p, Node *root) {
  VEC(Node *) stack = {0};
  vec_push(&p->in->arena, &stack, root);
  while (stack.n) {
    Node *n = stack.v[stack.n - 1];
    uint64_t have;
    if (n == p->in->g->none || intmap_get(&p->slot, n->id, &have)) {
      stack.n--;
      continue;
    }
    bool ready = true;
    for (uint32_t i = 0; i < n->nsrc; i++)
      if (n->src[i] != p->in->g->none && !intmap_get(&p->slot, n->src[i]->id, &have)) {
        vec_push(&p->in->arena, &stack, n->src[i]);
        ready = false;
      }
    if (!ready) continue;
    stack.n--;
    TRY(plan_node(p, n));
  }
  return TENON_OK;
}

// *done is false when the op leaves this node whole.
static tenon_status plan_expansion(Planner *p, const OpInfo *op, Node *n, bool *done) {
  Graph *g = p->in->g;
  Node **out = arena_array(&p->in->arena, Node *, n->nres);
  g->diag = p->in->diag;
  op->expand(g, n, out);
  TRY(graph_status(g));
  *done = out[0] != NULL;
  if (!*done) return TENON_OK;
  // The expansion's results take the composite's own slots: found before, so that a result may be
  // any node.
  CHECK(p->depth < 32, "the expansion of %s does not end", op->name);
  p->depth++;
  for (int i = 0; i < n->nres; i++) TRY(plan_tree(p, out[i]));
  p->depth--;
  if (n->nres == 1) {
    intmap_put(&p->slot, n->id, (uint64_t)slot_of(p, out[0]));
    return TENON_OK;
  }
  int32_t first = new_slots(p, n, n->nres);
  for (int i = 0; i < n->nres; i++) {  // a copy step: the same value under another slot
    Step s = {
        .node = n, .out = first + i, .state = -1, .src = arena_array(&p->in->arena, int32_t, 1)};
    s.src[0] = slot_of(p, out[i]);
    s.ndead = -1;
    vec_push(&p->in->arena, &p->steps, s);
  }
  return TENON_OK;
}

static tenon_status plan_node(Planner *p, Node *n) {
  Interp *in = p->in;
  const OpInfo *op = op_info(n->op);
  if (n->op == OP_proj) {
    int64_t index = ((const proj_attrs *)n->attrs)->index;
    intmap_put(&p->slot, n->id, (uint64_t)(slot_of(p, n->src[0]) + index));
    return TENON_OK;
  }
  if (n->op == OP_param)
    return fail(in->diag, TENON_EINTERNAL, (Where){.node = n->name}, "parameter of another body");
  if (n->op == OP_const && !in->dry) TRY(plan_const(p, n));
  bool known =
      in->dry || op->eval || n->op == OP_const ||
      (n->op == OP_foreign && custom_find(in->g->custom, ((const foreign_attrs *)n->attrs)->op));
  // What an expansion makes is no version, and has an id beyond those.
  const Node *state = in->versions && n->id < in->nnodes ? in->versions[n->id] : NULL;
  bool expanded = false, decompose = in->expand && !state;
  if (op->expand && (!op->eval || decompose)) TRY(plan_expansion(p, op, n, &expanded));
  if (expanded) return TENON_OK;
  if (!known)
    return fail(
        in->diag, TENON_EUNSUPPORTED, (Where){.node = n->name}, "operator %.*s is not supported",
        STR_ARG(n->op == OP_foreign ? ((const foreign_attrs *)n->attrs)->op : str_of(op->name)));
  TRY(plan_bodies(in, n));
  Step s = {.node = n, .src = arena_array(&in->arena, int32_t, n->nsrc), .state = -1};
  if (state) s.state = slot_of(p, state);
  for (uint32_t i = 0; i < n->nsrc; i++) s.src[i] = slot_of(p, n->src[i]);
  s.out = new_slots(p, n, n->nres);
  vec_push(&in->arena, &p->steps, s);
  return TENON_OK;
}

static int32_t step_nsrc(const Step *s) { return s->ndead == -1 ? 1 : (int32_t)s->node->nsrc; }

// Walks the steps backwards: the last step that reads a slot is the one after which it is dead.
static void find_dead(Planner *p) {
  Plan *plan = p->plan;
  Arena *a = &p->in->arena;
  bool *live = arena_array(a, bool, plan->nslots);
  for (int64_t i = 0; i < plan->body->nresults; i++)
    if (plan->result[i] >= 0) live[plan->result[i]] = true;
  for (int64_t k = plan->nsteps - 1; k >= 0; k--) {
    Step *s = &plan->step[k];
    int32_t nsrc = step_nsrc(s), nout = s->ndead == -1 ? 1 : s->node->nres;
    s->dead = arena_array(a, int32_t, nsrc + nout + 1);
    bool copy = s->ndead == -1;
    s->ndead = 0;
    for (int32_t i = 0; i < nout; i++)
      if (!live[s->out + i]) s->dead[s->ndead++] = s->out + i;
    for (int32_t i = 0; i < nsrc; i++)
      if (s->src[i] >= 0 && !live[s->src[i]]) {
        live[s->src[i]] = true;
        s->dead[s->ndead++] = s->src[i];
      }
    if (s->state >= 0 && !live[s->state]) {
      live[s->state] = true;
      s->dead[s->ndead++] = s->state;
    }
    if (copy) s->node = NULL;
  }
}

static tenon_status plan_body(Interp *in, const Body *b) {
  Plan *plan = arena_new(&in->arena, Plan);
  plan->body = b;
  Planner p = {.in = in, .plan = plan};
  intmap_init(&p.slot, &in->arena);
  intmap_put(&in->plans, (uint64_t)(uintptr_t)b, (uint64_t)(uintptr_t)plan);
  plan->param = arena_array(&in->arena, int32_t, b->nparams);
  plan->result = arena_array(&in->arena, int32_t, b->nresults);
  for (int64_t i = 0; i < b->nparams; i++) plan->param[i] = new_slots(&p, b->param[i], 1);
  NodeList order = b == in->g->main && in->order ? *in->order : body_order(in->g, b, &in->arena);
  if (b == in->g->main) {
    in->nnodes = in->g->node.n;
    in->versions = state_versions(in->g, order, &in->arena);
    if (!in->order) order = state_order(in->g, order, &in->arena);
  }
  for (int64_t i = 0; i < order.n; i++) TRY(plan_tree(&p, order.v[i]));
  for (int64_t i = 0; i < b->nresults; i++) plan->result[i] = slot_of(&p, b->result[i]);
  plan->step = p.steps.v;
  plan->nsteps = p.steps.n;
  plan->owner = arena_alloc_array(&in->arena, MAX(plan->nslots, 1), (int64_t)sizeof *plan->owner);
  for (int64_t i = 0; i < plan->nsteps; i++) {
    const Step *s = &plan->step[i];
    for (int k = 0; s->ndead != -1 && k < s->node->nres; k++) {
      plan->owner[s->out + k].node = s->node;
      plan->owner[s->out + k].result = k;
    }
  }
  find_dead(&p);
  return TENON_OK;
}

tenon_status interp_create(Graph *g, const InterpOptions *o, Diag *d, Interp **out) {
  *out = NULL;
  Interp *in = mem_alloc((int64_t)sizeof *in);
  if (!in) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  in->g = g;
  in->expand = o && o->expand;
  in->order = o ? o->order : NULL;
  in->dry = o && o->dry;
  in->diag = d;
  arena_init(&in->arena);
  Trap t;  // so that the half-made plan is freed
  trap_enter(&t, d);
  Diag *graph_diag = g->diag;
  tenon_status graph_was = g->status;
  if (setjmp(t.env) == 0) {
    intmap_init(&in->plans, &in->arena);
    intmap_init(&in->consts, &in->arena);
    t.status = in->dry ? TENON_OK : graph_open_sources(g, d);
    if (!t.status) t.status = plan_body(in, g->main);
    uint64_t main = 0;
    intmap_get(&in->plans, (uint64_t)(uintptr_t)g->main, &main);
    in->main = (Plan *)(uintptr_t)main;
    in->sym = g->dims.sym.v;
    in->nsyms = g->dims.nsyms;
  }
  trap_leave(&t);
  g->diag = graph_diag;
  g->status = graph_was;  // an expansion that failed says so again the next time
  if (t.status) {
    interp_free(in);
    return t.status;
  }
  *out = in;
  return TENON_OK;
}

void interp_free(Interp *in) {
  if (!in) return;
  arena_deinit(&in->arena);
  mem_free(in, (int64_t)sizeof *in);
}

// ---- running ----

enum { OWN_BYTES = 1 << 20 };  // left to strings, scratch and bookkeeping by the least limit

// What one thread's execution needs besides the Run: symbol values, and which of them a body call
// bound.
typedef struct Exec {
  const Interp *in;
  const Placement *placement;  // of the main body's values; NULL = the heap
  int64_t *bind;
  bool *bound;
  int32_t nbind;
  int32_t *trail;  // symbols in the order they were bound
  int32_t ntrail;
  int depth;
  Arena arena;
} Exec;

static void value_type_text(StrBuf *b, const Value *v) {
  if (v->kind != VK_TENSOR) {
    strbuf_puts(b, v->kind == VK_SEQUENCE   ? "a sequence"
                   : v->kind == VK_OPTIONAL ? "an optional"
                                            : "a map");
    return;
  }
  strbuf_printf(b, "%s[", dtype_name(v->dtype));
  for (int i = 0; i < v->rank; i++)
    strbuf_printf(b, "%s%lld", i ? ", " : "", (long long)v->dims[i]);
  strbuf_putc(b, ']');
}

static bool match_dim(Exec *x, Dim d, int64_t actual) {
  int64_t want;
  if (ie_eval(d, x->bind, x->bound, x->nbind, &want)) return want == actual;
  if (d->kind == IE_SYM && d->slot < x->nbind) {
    if (actual < d->lo || actual > d->hi) return false;
    x->bind[d->slot] = actual;
    x->bound[d->slot] = true;
    x->trail[x->ntrail++] = d->slot;
    return true;
  }
  return true;  // an expression over sizes that are not known yet: nothing to compare
}

static bool match_type(Exec *x, const Type *t, const Value *v) {
  switch ((TypeKind)t->kind) {
  case TK_NONE: return true;
  case TK_SEQUENCE:
    // Elements of a sequence may differ in shape: a symbol inside its type is not bound by them.
    return v->kind == VK_SEQUENCE;
  case TK_OPTIONAL: return v->kind == VK_OPTIONAL || match_type(x, t->elem, v);
  case TK_MAP: return v->kind == VK_MAP || v->kind == VK_SEQUENCE;
  case TK_TENSOR: break;
  }
  if (v->kind != VK_TENSOR || (t->dtype && v->dtype != t->dtype)) return false;
  if (t->rank < 0) return true;
  if (t->rank != v->rank) return false;
  for (int i = 0; i < t->rank; i++)
    if (!match_dim(x, t->dims[i], v->dims[i])) return false;
  return true;
}

static tenon_status mismatch(Exec *x, Run *run, Where at, const char *what, const Type *t,
                             const Value *v) {
  StrBuf want, got;
  strbuf_init(&want, &x->arena);
  strbuf_init(&got, &x->arena);
  type_print(&want, t);
  value_type_text(&got, v);
  for (int32_t i = 0; i < x->nbind; i++)
    if (x->bound[i])
      strbuf_printf(&want, "%s%s=%lld", strchr(strbuf_text(&want), '=') ? ", " : " with ",
                    x->in->sym[i]->name, (long long)x->bind[i]);
  return fail(run->diag, TENON_EINVAL, at, "%s is %s, must be %s", what, strbuf_text(&got),
              strbuf_text(&want));
}

static Value *const_value(const Interp *in, const Node *n) {
  uint64_t v = 0;
  intmap_get(&in->consts, n->id, &v);
  return (Value *)(uintptr_t)v;
}

static tenon_status eval_node(Exec *x, Run *run, const Node *n, Eval *e) {
  if (n->op == OP_foreign) {
    const CustomOp *c = custom_find(x->in->g->custom, ((const foreign_attrs *)n->attrs)->op);
    return c->eval(c, e);
  }
  ArenaMark m = arena_mark(&run->scratch);
  int64_t said = run->diag->len;
  tenon_status s = op_info(n->op)->eval(e);
  if (s && run->diag->len == said)
    s = fail(run->diag, s, e->at, "evaluation failed (%s)", status_name(s));
  arena_reset(&run->scratch, m);
  return s;
}

static tenon_status run_step(Exec *x, Run *run, const Step *s, Value **slot) {
  const Node *n = s->node;
  if (!n) {
    slot[s->out] = value_retain(slot[s->src[0]]);
    return TENON_OK;
  }
  if (n->op == OP_const) {
    slot[s->out] = const_value(x->in, n);
    return TENON_OK;
  }
  at_work_step(n->name);
  ArenaMark m = arena_mark(&x->arena);
  const Value **in = arena_array(&x->arena, const Value *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) in[i] = s->src[i] < 0 ? NULL : slot[s->src[i]];
  Eval e = {.run = run,
            .in = in,
            .nin = (int)n->nsrc,
            .out = slot + s->out,
            .nout = n->nres,
            .attrs = n->attrs,
            .at = {.node = n->name, .op = op_name(n)}};
  if (run->ops_budget >= 0) TRY(work_begin(&e, n));
  TRY(eval_node(x, run, n, &e));
  for (int i = 0; i < n->nres; i++) {
    const Value *v = slot[s->out + i];
    if (!v) return fail(run->diag, TENON_EINTERNAL, e.at, "result %d was not computed", i);
    if (!match_type(x, n->type[i], v)) return mismatch(x, run, e.at, "the result", n->type[i], v);
  }
  arena_reset(&x->arena, m);
  return TENON_OK;
}

// A constant's value belongs to the interpreter: it has no run and its count does not matter.
static void drop(Value **slot) {
  if (*slot && (*slot)->run) value_release(*slot);
  *slot = NULL;
}

// The result goes to the memory of the state that it is a version of, which all its readers have
// read by now.
static void write_state(const Step *s, Value **slot) {
  Value *state = slot[s->state], *v = slot[s->out];
  copy_elems(v->dtype, state->data, 0, v->data, 0, v->n);
  drop(&slot[s->out]);
  slot[s->out] = state->run ? value_retain(state) : state;
}

// Hands a step's results to the placement, and tells it what has died.
static bool is_placed(const Exec *x) {
  return x->placement && (x->depth == 1 || x->placement->everywhere);
}
static tenon_status place_results(Exec *x, Run *run, const Step *s, Value **slot) {
  if (!is_placed(x) || !s->node || (s->node->op == OP_const && !x->placement->everywhere))
    return TENON_OK;
  for (int i = 0; i < s->node->nres; i++)
    TRY(x->placement->place(x->placement->ctx, run, s->node, i, &slot[s->out + i]));
  return TENON_OK;
}
static void drop_dead(Exec *x, const Plan *p, const Step *s, Value **slot) {
  for (int32_t i = 0; i < s->ndead; i++) {
    bool made = slot[s->dead[i]] != NULL;  // else its step was not needed
    drop(&slot[s->dead[i]]);
    const Node *n = p->owner[s->dead[i]].node;
    if (made && n && is_placed(x))
      x->placement->dead(x->placement->ctx, n, p->owner[s->dead[i]].result);
  }
}

// The steps that the wanted results need; NULL: all.  A step follows what it reads, so one walk
// backwards finds them.
static const bool *needed_steps(Exec *x, const Run *run, const Plan *p) {
  if (x->depth != 1 || !run->wanted) return NULL;
  bool *step = arena_array(&x->arena, bool, MAX(p->nsteps, 1));
  bool *slot = arena_array(&x->arena, bool, MAX(p->nslots, 1));
  for (int64_t i = 0; i < p->body->nresults; i++)
    if (run_wants(run, i) && p->result[i] >= 0) slot[p->result[i]] = true;
  for (int64_t k = p->nsteps - 1; k >= 0; k--) {
    const Step *s = &p->step[k];
    int32_t nsrc = s->node ? (int32_t)s->node->nsrc : 1, nout = s->node ? s->node->nres : 1;
    step[k] = s->state >= 0;  // the runs that follow want it
    for (int32_t i = 0; i < nout; i++) step[k] = step[k] || slot[s->out + i];
    for (int32_t i = 0; step[k] && i < nsrc; i++)
      if (s->src[i] >= 0) slot[s->src[i]] = true;
  }
  return step;
}

static tenon_status run_plan(Exec *x, Run *run, const Plan *p, Value *const *in, Value **out) {
  if (x->depth >= 64)
    return fail(run->diag, TENON_EUNSUPPORTED, NOWHERE, "sub-graphs nested over 64 deep");
  Value **slot = arena_array(&x->arena, Value *, p->nslots);
  int32_t trail = x->ntrail;
  x->depth++;
  for (int64_t i = 0; i < p->body->nparams; i++) {
    const Node *param = p->body->param[i];
    if (in[i] && !match_type(x, type_of(param), in[i]))
      return mismatch(x, run, (Where){.node = param->name, .op = "input"}, "the value",
                      type_of(param), in[i]);
    slot[p->param[i]] = in[i] && in[i]->run ? value_retain(in[i]) : in[i];
  }
  if (x->placement && x->depth == 1)
    TRY(x->placement->begin(x->placement->ctx, run, x->bind, x->bound, x->nbind));
  const bool *needed = needed_steps(x, run, p);
  for (int64_t k = 0; k < p->nsteps; k++) {
    const Step *s = &p->step[k];
    if (!needed || needed[k]) {
      TRY(run_step(x, run, s, slot));
      if (s->node && s->state >= 0) write_state(s, slot);
      TRY(place_results(x, run, s, slot));
    }
    drop_dead(x, p, s, slot);
  }
  for (int64_t i = 0; i < p->body->nresults; i++) {
    bool wanted = x->depth != 1 || run_wants(run, i);
    Value *v = !wanted || p->result[i] < 0 ? NULL : slot[p->result[i]];
    out[i] = v && v->run ? value_retain(v) : v;
  }
  for (int32_t i = 0; i < p->nslots; i++) drop(&slot[i]);
  x->depth--;
  while (x->ntrail > trail) x->bound[x->trail[--x->ntrail]] = false;
  return TENON_OK;
}

static tenon_status call_body(Run *run, const struct Body *body, Value *const *in, int64_t nin,
                              Value **out, int64_t nout) {
  Exec *x = run->user;
  CHECK(nin == body->nparams && nout == body->nresults, "body called with %lld and %lld values",
        (long long)nin, (long long)nout);
  uint64_t plan = 0;
  bool found = intmap_get(&x->in->plans, (uint64_t)(uintptr_t)body, &plan);
  CHECK(found, "body '%s' has no plan", body->name);
  ArenaMark m = arena_mark(&x->arena);
  tenon_status s = run_plan(x, run, (const Plan *)(uintptr_t)plan, in, out);
  if (!s) arena_reset(&x->arena, m);
  return s;
}

// Sizes inside a body may have names of their own, which its parameters give when it is called:
// here the operands that would have been handed over.
static tenon_status empty_stack(const struct Eval *e, const struct Body *body, int64_t result,
                                int64_t axis, const Ints *declared, Value **out) {
  Exec *x = e->run->user;
  const Type *t = type_of(body->result[result]);
  int64_t dims[MAX_RANK] = {0};
  bool ranked = t->kind == TK_TENSOR && t->rank >= 0;
  int rank = ranked ? t->rank : declared ? (int)declared->n : 0;
  if (rank >= MAX_RANK || axis < -(rank + 1) || axis > rank)
    return fail(e->run->diag, TENON_EINVAL, e->at, "axis %lld for rows of rank %d", (long long)axis,
                rank);
  if (axis < 0) axis += rank + 1;
  int32_t trail = x->ntrail;
  for (int64_t i = 0; i < body->nparams && i < e->nin; i++)
    if (e->in[i]) (void)match_type(x, type_of(body->param[i]), e->in[i]);
  for (int d = 0, k = 0; d <= rank; d++) {
    if (d == axis) continue;
    int64_t said = declared && declared->n == rank ? MAX(declared->v[k], 0) : 0;
    if (!ranked || !ie_eval(t->dims[k], x->bind, x->bound, x->nbind, &dims[d])) dims[d] = said;
    k++;
  }
  while (x->ntrail > trail) x->bound[x->trail[--x->ntrail]] = false;
  dims[axis] = 0;
  return value_tensor(e->run, e->at, t->dtype ? t->dtype : DT_F32, rank + 1, dims, out);
}

tenon_status interp_run(const Interp *in, Run *run, Value *const *inputs, Value **out) {
  return interp_run_placed(in, run, NULL, inputs, out);
}

tenon_status interp_run_placed(const Interp *in, Run *run, const Placement *placement,
                               Value *const *inputs, Value **out) {
  Exec x = {.in = in, .nbind = in->nsyms, .placement = placement};
  CHECK(!in->dry, "a dry plan cannot be run");
  arena_init(&x.arena);
  Trap t;
  trap_enter(&t, run->diag);
  if (setjmp(t.env) == 0) {
    x.bind = arena_array(&x.arena, int64_t, x.nbind);
    x.bound = arena_array(&x.arena, bool, x.nbind);
    x.trail = arena_array(&x.arena, int32_t, x.nbind);
    run->call_body = call_body;
    run->empty_stack = empty_stack;
    run->user = &x;
    if (run->max_bytes)
      run->strings.limit = run->scratch.limit = x.arena.limit = MAX(run->max_bytes, OWN_BYTES);
    t.status = run_plan(&x, run, in->main, inputs, out);
  }
  trap_leave(&t);
  run->call_body = NULL;
  run->empty_stack = NULL;
  run->user = NULL;
  arena_deinit(&x.arena);
  return t.status;
}

// ---- peak memory ----

typedef struct Peak {
  const Interp *in;
  const int64_t *bind;
  const bool *bound;
  int32_t nbind;
  IntMap done;  // Plan of a body -> its peak
  Arena arena;
} Peak;

static int64_t add_bytes(int64_t a, int64_t b) {
  int64_t sum;
  return ck_add(a, b, &sum) ? sum : INT64_MAX;
}

static int64_t type_bytes(const Peak *k, const Type *t) {
  if (t->kind != TK_TENSOR || t->rank < 0) return 0;
  int64_t n = 1, bytes;
  for (int i = 0; i < t->rank; i++) {
    int64_t v;
    if (!ie_eval(t->dims[i], k->bind, k->bound, k->nbind, &v) || !ck_mul(n, MAX(v, 0), &n))
      return 0;
  }
  return dtype_bytes(t->dtype, n, &bytes) ? bytes : 0;
}

static int64_t plan_peak(Peak *k, const Plan *p, bool params);

static int64_t body_peak(Peak *k, const Body *b) {
  uint64_t plan, peak;
  if (!b || !intmap_get(&k->in->plans, (uint64_t)(uintptr_t)b, &plan)) return 0;
  if (intmap_get(&k->done, plan, &peak)) return (int64_t)peak;
  peak = (uint64_t)plan_peak(k, (const Plan *)(uintptr_t)plan, false);
  intmap_put(&k->done, plan, peak);
  return (int64_t)peak;
}

// Bodies of a node run one at a time, while its operands and results are there.
static int64_t bodies_peak(Peak *k, const Node *n) {
  const OpInfo *op = op_info(n->op);
  int64_t peak = 0;
  for (int i = 0; i < op->nattrs; i++) {
    if (op->attrs[i].kind != ATTR_body) continue;
    peak = MAX(peak,
               body_peak(k, *(const Body *const *)((const char *)n->attrs + op->attrs[i].offset)));
  }
  return peak;
}

static int64_t plan_peak(Peak *k, const Plan *p, bool params) {
  int64_t *size = arena_array(&k->arena, int64_t, MAX(p->nslots, 1));
  int64_t live = 0, peak = 0;
  for (int64_t i = 0; params && i < p->body->nparams; i++) {
    size[p->param[i]] = type_bytes(k, type_of(p->body->param[i]));
    live = add_bytes(live, size[p->param[i]]);
  }
  for (int64_t j = 0; j < p->nsteps; j++) {
    const Step *s = &p->step[j];
    for (int i = 0; s->node && s->node->op != OP_const && i < s->node->nres; i++) {
      size[s->out + i] = type_bytes(k, s->node->type[i]);
      live = add_bytes(live, size[s->out + i]);
    }
    peak = MAX(peak, s->node ? add_bytes(live, bodies_peak(k, s->node)) : live);
    for (int32_t i = 0; i < s->ndead; i++) {
      // A copy step only gives a value another slot.
      if (!s->node && s->dead[i] == s->src[0])
        size[s->out] = size[s->src[0]];
      else
        live -= size[s->dead[i]];
      size[s->dead[i]] = 0;
    }
  }
  return MAX(peak, live);
}

int64_t interp_peak_bytes(const Interp *in, const int64_t *bind, const bool *bound, int32_t nbind) {
  Peak k = {.in = in, .bind = bind, .bound = bound, .nbind = nbind};
  arena_init(&k.arena);
  volatile int64_t peak = 0;
  Trap t;
  trap_enter(&t, NULL);
  if (setjmp(t.env) == 0) {
    intmap_init(&k.done, &k.arena);
    peak = plan_peak(&k, in->main, true);
  }
  trap_leave(&t);
  arena_deinit(&k.arena);
  if (t.status) trap_raise(t.status, "out of memory");
  return peak;
}
