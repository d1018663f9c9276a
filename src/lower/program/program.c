// program.c -- builds a program from a planned graph: values, places, steps.
//
// Each node becomes a step: a kernel where lowering has one, else a host step.  A kernel that
// cannot be lowered is built node by node, and so is a composite without an evaluation.
//
// Places: values of the main body are where the plan puts them in the arena.  A result of the model
// is in the caller's memory, with every value that shares it.  All other values are on the heap and
// are freed after their last use.
//
// Needs:      an optimised graph and a memory plan of it that plan_verify accepts.
// Guarantees: on failure there is no program, and graph status and diagnostics are as before.  The
//             program owns all that it refers to.  Every graph that the interpreter runs gets a
//             program.
#include "lower/element/element.h"
#include "lower/program/builder.h"
#include "lower/residual.h"
#include "lower/tuned.h"

#include "eval/table.h"
#include "ir/custom.h"
#include "ir/internal.h"
#include "passes/fuse_kernels/fuse_kernels.h"
#include "plan/impl.h"

static uint64_t key(const Node *n, int result) { return (uint64_t)n->id << 16 | (uint64_t)result; }

const char *keep_name(ProgBuilder *b, const char *name) {
  return name ? str_copy(&b->p->arena, str_of(name)) : NULL;
}

// ---- values ----

// The buffer with a place of its own that holds this one, and where in it: a part of what is joined
// lies inside.
static int32_t planned_place(FuncBuilder *f, int32_t buffer, int32_t *at) {
  const PlanBuffer *b = &f->plan->buffer[f->plan->buffer[buffer].root];
  Dim sum = f->b->g->dims.zero;
  for (; b->within >= 0; b = &f->plan->buffer[b->within]) sum = ie_add(&f->b->g->dims, sum, b->at);
  *at = b == &f->plan->buffer[f->plan->buffer[buffer].root] ? -1 : build_expr(f->b, sum);
  return (int32_t)(b - f->plan->buffer);
}

static int32_t param_number(const Body *b, const Node *param) {
  for (int64_t i = 0; i < b->nparams; i++)
    if (b->param[i] == param) return (int32_t)i;
  return -1;
}

int32_t new_value(FuncBuilder *f, const Node *n, int result, const Type *t) {
  static const uint8_t kind[] = {[TK_NONE] = VK_TENSOR,
                                 [TK_TENSOR] = VK_TENSOR,
                                 [TK_SEQUENCE] = VK_SEQUENCE,
                                 [TK_OPTIONAL] = VK_OPTIONAL,
                                 [TK_MAP] = VK_MAP};
  Program *p = f->b->p;
  ProgValue v = {.place = PLACE_HEAP, .kind = kind[t->kind], .rank = -1, .at = -1};
  v.name = keep_name(f->b, n->name);
  if (t->elem) v.item = kind[t->elem->kind];
  for (const Type *e = t->elem; e && !v.dtype; e = e->elem)
    if (e->kind == TK_TENSOR) v.dtype = e->dtype;
  if (t->kind == TK_TENSOR) {
    int32_t *dim = arena_array(&p->arena, int32_t, MAX(t->rank, 1));
    v.dtype = t->dtype;
    v.rank = t->rank;
    for (int i = 0; i < t->rank; i++) dim[i] = build_expr(f->b, t->dims[i]);
    v.dim = dim;
  }
  const Node *state = f->plan ? plan_state(f->plan, n) : NULL;
  if (state) {
    v.place = PLACE_STATE;
    v.slot = param_number(f->b->g->main, state);
    v.device = (uint8_t)state_device(f, state);
  }
  int32_t planned = f->plan ? plan_find(f->plan, n, result) : -1;
  if (planned >= 0) {
    v.place = PLACE_ARENA;
    v.slot = f->root_of[planned_place(f, planned, &v.at)];
  }
  vec_push(f->b->a, &f->value, v);
  vec_push(f->b->a, &f->origin, ((ValueOrigin){n, result}));
  int32_t number = (int32_t)(f->value.n - 1);
  intmap_put(&f->map, key(n, result), (uint64_t)number);
  return number;
}

void note_bound(FuncBuilder *f, const Type *t) {
  for (int i = 0; t->kind == TK_TENSOR && i < t->rank; i++)
    if (t->dims[i]->kind == IE_SYM) intmap_put(&f->bound, (uint64_t)t->dims[i]->slot, 1);
}

int32_t const_value(FuncBuilder *f, int32_t constant, const char *name) {
  const ProgConst *k = &f->b->constant.v[constant];
  int32_t *dim = arena_array(&f->b->p->arena, int32_t, MAX(k->rank, 1));
  for (int i = 0; i < k->rank; i++) dim[i] = build_expr(f->b, ie_const(&f->b->g->dims, k->dims[i]));
  ProgValue v = {.place = PLACE_CONST,
                 .kind = VK_TENSOR,
                 .dtype = k->dtype,
                 .rank = k->rank,
                 .slot = constant,
                 .at = -1,
                 .dim = dim,
                 .name = keep_name(f->b, name)};
  vec_push(f->b->a, &f->value, v);
  vec_push(f->b->a, &f->origin, ((ValueOrigin){NULL, 0}));
  return (int32_t)(f->value.n - 1);
}

int32_t value_of(FuncBuilder *f, const Node *n) {
  int result;
  if (n == f->b->g->none) return -1;
  const Node *from = plan_source(n, &result);
  uint64_t v = 0;
  if (intmap_get(&f->map, key(from, result), &v)) return (int32_t)v;
  CHECK(from->op == OP_const, "%s is used before it is made", op_name(from));
  v = (uint64_t)const_value(f, build_const(f->b, from), from->name);
  intmap_put(&f->map, key(from, 0), v);
  return (int32_t)v;
}

// ---- steps ----

static tenon_status build_node(FuncBuilder *f, const Node *n);

// The op's struct with its bodies replaced by functions.
static tenon_status build_attrs(FuncBuilder *f, const Node *n, const void **out) {
  const OpInfo *op = op_info(n->op);
  *out = NULL;
  if (!n->attrs || !op->nattrs) return TENON_OK;
  char *at = arena_alloc(&f->b->p->arena, op->attrs_size);
  attrs_copy(&f->b->p->arena, op->attrs, op->nattrs, n->attrs, at);
  for (int i = 0; i < op->nattrs; i++) {
    if (op->attrs[i].kind != ATTR_body) continue;
    const Body **slot = (const Body **)(void *)(at + op->attrs[i].offset);
    ProgFunction *fn = NULL;
    if (!*slot) continue;
    TRY(build_function(f->b, *slot, NULL, &fn));
    *slot = (const Body *)(const void *)fn;
  }
  *out = at;
  return TENON_OK;
}

void count_work(FuncBuilder *f, const Node *n, ProgStep *st) {
  NodeCost c;
  ArenaMark m = arena_mark(f->b->a);
  cost_node(f->b->g, n, &f->b->sizes, f->b->a, &c);
  arena_reset(f->b->a, m);
  if (!c.known) return;
  st->flops = c.flops;
  st->bytes = (double)c.bytes;
}

static tenon_status build_host(FuncBuilder *f, const Node *n) {
  Arena *pa = &f->b->p->arena;
  ProgStep st = {.kind = STEP_HOST, .when = -1, .op = op_info(n->op)->name};
  st.eval = eval_find(st.op);
  st.node = keep_name(f->b, n->name);
  st.nin = (int32_t)n->nsrc;
  st.nout = n->nres;
  int32_t *in = arena_array(pa, int32_t, MAX(st.nin, 1));
  int32_t *out = arena_array(pa, int32_t, MAX(st.nout, 1));
  for (int32_t i = 0; i < st.nin; i++) in[i] = value_of(f, n->src[i]);
  for (int32_t i = 0; i < st.nout; i++) {
    out[i] = new_value(f, n, i, n->type[i]);
    note_bound(f, n->type[i]);
  }
  st.in = in;
  st.out = out;
  count_work(f, n, &st);
  TRY(build_attrs(f, n, &st.attrs));
  vec_push(f->b->a, &f->step, st);
  return TENON_OK;
}

// Steps for the nodes below `root` that have none yet, operands first, without recursion.
static tenon_status build_tree(FuncBuilder *f, Node *root) {
  Arena *a = f->b->a;
  VEC(Node *) stack = {0};
  vec_push(a, &stack, root);
  while (stack.n) {
    Node *n = stack.v[stack.n - 1];
    uint64_t have;
    int result;
    if (n == f->b->g->none || n->op == OP_const ||
        intmap_get(&f->map, key(plan_source(n, &result), 0), &have)) {
      stack.n--;
      continue;
    }
    bool ready = true;
    for (uint32_t i = 0; i < n->nsrc; i++) {
      const Node *o = plan_source(n->src[i], &result);
      if (o == f->b->g->none || o->op == OP_const || intmap_get(&f->map, key(o, 0), &have))
        continue;
      vec_push(a, &stack, n->src[i]);
      ready = false;
    }
    if (!ready) continue;
    stack.n--;
    TRY(build_node(f, n));
  }
  return TENON_OK;
}

// Result `i` of `n` is the value `from`: under another name where it has no place of its own, else
// a copy into it.
static void build_same(FuncBuilder *f, const Node *n, int i, int32_t from) {
  Arena *pa = &f->b->p->arena;
  int32_t *in = arena_array(pa, int32_t, 1), *out = arena_array(pa, int32_t, 1);
  in[0] = from;
  out[0] = new_value(f, n, i, n->type[i]);
  int place = f->value.v[out[0]].place;
  bool copy = place == PLACE_ARENA || place == PLACE_STATE;
  ProgStep st = {.kind = copy ? STEP_COPY : STEP_VIEW, .when = -1, .op = op_info(n->op)->name};
  st.node = keep_name(f->b, n->name);
  st.in = in;
  st.out = out;
  st.nin = st.nout = 1;
  vec_push(f->b->a, &f->step, st);
}

// *done is false when the op leaves this node whole.
static tenon_status build_expansion(FuncBuilder *f, const Node *n, bool *done) {
  ProgBuilder *b = f->b;
  Node **out = arena_array(b->a, Node *, n->nres);
  *done = elem_expand(b->g, b->a, n, out);
  TRY(graph_status(b->g));
  if (!*done) return TENON_OK;
  CHECK(f->depth < 32, "the expansion of %s does not end", op_name(n));
  f->depth++;
  for (int i = 0; i < n->nres; i++) TRY(build_tree(f, out[i]));
  f->depth--;
  for (int i = 0; i < n->nres; i++) build_same(f, n, i, value_of(f, out[i]));
  return TENON_OK;
}

// ---- kernels that cannot be made whole ----

// Whether a result's shape is known before it is made: else only its evaluation can tell.
static bool shape_known(const Type *t) {
  if (t->kind != TK_TENSOR || t->rank < 0 || t->dtype == DT_STRING) return false;
  for (int i = 0; i < t->rank; i++)
    if (ie_has_fresh(t->dims[i])) return false;
  return true;
}

// Nodes of a body that compute something.
static int64_t body_work(FuncBuilder *f, const Body *body) {
  NodeList all = body_order(f->b->g, body, f->b->a);
  int64_t n = 0;
  for (int64_t i = 0; i < all.n; i++)
    n += all.v[i]->op != OP_param && all.v[i]->op != OP_const && all.v[i]->op != OP_proj &&
         all.v[i] != f->b->g->none;
  return n;
}

// What an operand of a kernel's node is: a parameter of the kernel that stands for a constant is
// that constant, which templates pack.
static Node *constant_behind(const FuncBuilder *f, Node *s) {
  if (!f->split || s->op != OP_param) return s;
  const Body *body = ((const fused_attrs *)f->split->attrs)->body;
  for (int64_t i = 0; i < body->nparams; i++)
    if (body->param[i] == s && f->split->src[i]->op == OP_const) return f->split->src[i];
  return s;
}

// A node as a kernel of its own: its operands are parameters, but for small constants.
static const Node *alone(FuncBuilder *f, const Node *n, FuseOp op) {
  enum { SMALL = 64 };
  Graph *g = f->b->g;
  fused_attrs at = {.kind = op.cls == FC_ANCHOR  ? op.kind
                            : op.cls == FC_POINT ? FUSED_POINTWISE
                                                 : FUSED_MOVEMENT};
  Node **src = arena_array(f->b->a, Node *, MAX(n->nsrc, 1));
  Node **param = arena_array(f->b->a, Node *, MAX(n->nsrc, 1));
  Node **outer = arena_array(f->b->a, Node *, MAX(n->nsrc, 1));
  int nparams = 0;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    Node *s = src[i] = constant_behind(f, n->src[i]);
    if (s == g->none || (s->op == OP_const && s->data->n <= SMALL)) continue;
    int at_param = 0;
    while (at_param < nparams && outer[at_param] != s) at_param++;
    if (at_param == nparams) {
      outer[nparams] = s;
      param[nparams] = node_param(g, type_of(s), s->name);
      if (param[nparams] == g->poison) return NULL;
      param[nparams]->sym = s->sym;
      param[nparams++]->nsym = s->nsym;
    }
    src[i] = param[at_param];
  }
  Node *made = node_new(g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name);
  Node **result = arena_array(f->b->a, Node *, n->nres);
  for (int i = 0; i < n->nres; i++) result[i] = n->nres == 1 ? made : node_proj(g, made, i);
  if (graph_status(g)) return NULL;
  at.body = body_new(g, NULL, nparams, param, n->nres, result);
  if (g->body.n) g->body.n--;  // no part of the graph
  Node *fused = node_new(g, OP_fused, nparams, outer, &at, n->nres, n->name);
  return graph_status(g) ? NULL : fused;
}

static const char on_host[] = "the host's reference evaluation";

static tenon_status build_alone(FuncBuilder *f, const Node *n) {
  FuseOp op = fuse_op(n);
  bool fits =
      op.cls == FC_INDEX_MAP || op.cls == FC_POINT || op.cls == FC_MAP || op.cls == FC_ANCHOR;
  for (int i = 0; i < n->nres; i++) fits &= shape_known(n->type[i]);
  const Node *fused = fits ? alone(f, n, op) : NULL;
  if (!fused) return TENON_EUNSUPPORTED;
  int64_t declined;
  tenon_status s = build_kernel_step(f, fused, &declined);
  if (declined >= 0 && s == TENON_EUNSUPPORTED) f->b->declined.v[declined].instead = on_host;
  for (int i = 0; !s && i < n->nres; i++) {
    uint64_t v = 0;
    CHECK(intmap_get(&f->map, key(fused, i), &v), "a kernel without its result");
    intmap_put(&f->map, key(n, i), v);
  }
  return s;
}

// Those that read elements: sizes are the host's anyway.
static int64_t host_steps(const FuncBuilder *f) {
  int64_t n = 0;
  for (int64_t i = 0; i < f->step.n; i++) {
    const ProgStep *s = &f->step.v[i];
    n += s->kind == STEP_HOST && strcmp(s->op, "shape") && strcmp(s->op, "size");
  }
  return n;
}

// A composite that no kernel does whole, by kernels for what it is made of.  *done as above.
static tenon_status build_parts(FuncBuilder *f, const Node *n, bool *done) {
  bool outer = f->node_by_node;
  *done = false;
  for (int i = 0; i < n->nres; i++)
    if (!shape_known(n->type[i])) return TENON_OK;
  f->node_by_node = true;
  tenon_status s = build_expansion(f, n, done);
  f->node_by_node = outer;
  return s;
}

// The nodes of a kernel, one by one: each as a kernel where it can be one, else on the host.  Its
// parameters are its operands.
static tenon_status build_inline(FuncBuilder *f, const Node *n, HostKernel why) {
  const Body *body = ((const fused_attrs *)n->attrs)->body;
  int32_t *operand = arena_array(f->b->a, int32_t, MAX(body->nparams, 1));
  int32_t *made = arena_array(f->b->a, int32_t, MAX(body->nresults, 1));
  for (int64_t i = 0; i < body->nparams; i++) operand[i] = value_of(f, n->src[i]);
  IntMap outer = f->map;
  const MemPlan *plan = f->plan;
  f->plan = NULL;  // only what leaves the kernel has a place
  bool outer_alone = f->node_by_node;
  const Node *outer_split = f->split;
  f->split = n;
  int64_t before = host_steps(f);
  f->node_by_node = !f->b->o->host_only && body_work(f, body) > 1;
  intmap_init(&f->map, f->b->a);
  for (int64_t i = 0; i < body->nparams; i++)
    intmap_put(&f->map, key(body->param[i], 0), (uint64_t)operand[i]);
  for (int64_t i = 0; i < body->nresults; i++) TRY(build_tree(f, body->result[i]));
  for (int64_t i = 0; i < body->nresults; i++) made[i] = value_of(f, body->result[i]);
  f->map = outer;
  f->plan = plan;
  f->node_by_node = outer_alone;
  f->split = outer_split;
  for (int i = 0; i < n->nres; i++) build_same(f, n, i, made[i]);
  if (host_steps(f) > before) {
    f->b->nhost++;
    vec_push(f->b->a, &f->b->left, why);
  }
  return TENON_OK;
}

static bool same_place(const ProgValue *a, const ProgValue *b) {
  return a->place == PLACE_ARENA && b->place == PLACE_ARENA && a->slot == b->slot && a->at == b->at;
}

static tenon_status build_view(FuncBuilder *f, const Node *n, int operand) {
  build_same(f, n, 0, value_of(f, n->src[operand]));
  ProgStep *st = &f->step.v[f->step.n - 1];
  const ProgValue *from = &f->value.v[st->in[0]], *to = &f->value.v[st->out[0]];
  if (same_place(from, to) || to->place == PLACE_HEAP) st->kind = STEP_VIEW;
  same_checked(f, n, st);
  return TENON_OK;
}

// What is joined and lies where the parts were made: nothing is left to do.  False: some part lies
// elsewhere.
static bool build_joined(FuncBuilder *f, const Node *n) {
  const Body *body;
  const Node *concat = f->plan ? plan_joined(n, &body) : NULL;
  int32_t b = concat ? plan_find(f->plan, n, 0) : -1, at;
  if (b < 0 || f->plan->buffer[b].root != b) return false;
  Arena *pa = &f->b->p->arena;
  int32_t *in = arena_array(pa, int32_t, concat->nsrc), *out = arena_array(pa, int32_t, 1);
  for (uint32_t k = 0; k < concat->nsrc; k++) {
    int operand = plan_part_operand(body, concat, k), result;
    const Node *part = operand >= 0 ? plan_source(n->src[operand], &result) : NULL;
    int32_t o = part ? plan_find(f->plan, part, result) : -1;
    if (o < 0 || f->plan->buffer[f->plan->buffer[o].root].within != b) return false;
    in[k] = value_of(f, n->src[operand]);
    ProgValue want = {.place = PLACE_ARENA};
    want.slot = f->root_of[planned_place(f, o, &at)];
    want.at = at;
    if (!same_place(&f->value.v[in[k]], &want)) return false;  // lowering moved it
  }
  ProgStep st = {.kind = STEP_VIEW, .when = -1, .op = op_info(concat->op)->name};
  st.node = keep_name(f->b, n->name);
  st.nin = (int32_t)concat->nsrc;
  st.nout = 1;
  out[0] = new_value(f, n, 0, n->type[0]);
  st.in = in;
  st.out = out;
  same_checked(f, n, &st);
  vec_push(f->b->a, &f->step, st);
  return true;
}

static tenon_status build_node(FuncBuilder *f, const Node *n) {
  const OpInfo *op = op_info(n->op);
  if (n->op == OP_proj || n->op == OP_const) return TENON_OK;
  int view = plan_view_operand(n);
  if (view >= 0 && shape_known(type_of(n))) return build_view(f, n, view);
  if (n->op == OP_fused && build_joined(f, n)) return TENON_OK;
  if (n->op == OP_fused) {
    tenon_status s = TENON_EUNSUPPORTED;
    int64_t declined = -1, host = f->b->nhost;
    if (!f->b->o->host_only) s = build_kernel_step(f, n, &declined);
    if (s != TENON_EUNSUPPORTED) return s;
    HostKernel h = {.node = n,
                    .why = f->b->o->host_only ? "this target has no kernels" : f->b->why,
                    .declined = declined >= 0,
                    .refused = f->b->lowering.refused.v,
                    .nrefused = f->b->lowering.refused.n};
    TRY(build_inline(f, n, h));
    if (declined >= 0)
      f->b->declined.v[declined].instead = f->b->nhost > host ? on_host : "a kernel for each node";
    return TENON_OK;
  }
  if (f->node_by_node) {
    tenon_status s = build_alone(f, n);
    if (s != TENON_EUNSUPPORTED) return s;
  }
  bool expanded = false;
  if (op->expand && f->split && !f->b->o->host_only) TRY(build_parts(f, n, &expanded));
  if (!expanded && op->expand && !op->eval) TRY(build_expansion(f, n, &expanded));
  if (expanded) return TENON_OK;
  Str name = n->op == OP_foreign ? ((const foreign_attrs *)n->attrs)->op : str_of(op->name);
  bool known = n->op == OP_foreign ? custom_find(f->b->g->custom, name) != NULL
                                   : eval_find(op->name) != NULL;
  if (!known)
    return fail(f->b->diag, TENON_EUNSUPPORTED, (Where){.node = n->name},
                "operator %.*s is not supported in compiled models", STR_ARG(name));
  return build_host(f, n);
}

// ---- places ----

// Roots of the plan, lowest first, so that each lies after those below it.
static void build_roots(FuncBuilder *f) {
  const MemPlan *plan = f->plan;
  ProgFunction *fn = f->f;
  Arena *pa = &f->b->p->arena;
  f->root_of = arena_array(f->b->a, int32_t, MAX(plan->n, 1));
  fn->nroots = plan->nroots;
  fn->root = arena_array(pa, ProgRoot, MAX(plan->nroots, 1));
  for (int32_t i = 0; i < plan->nroots; i++) f->root_of[plan->by_offset[i]] = i;
  for (int32_t i = 0; i < plan->nroots; i++) {
    const PlanBuffer *r = &plan->buffer[plan->by_offset[i]];
    int32_t *below = arena_array(pa, int32_t, MAX(r->nbelow, 1));
    for (int32_t k = 0; k < r->nbelow; k++) below[k] = f->root_of[r->below[k]];
    fn->root[i] =
        (ProgRoot){.bytes = build_expr(f->b, r->bytes), .nbelow = r->nbelow, .below = below};
  }
}

// The memory of a model's result is the caller's: its root leaves the arena, with all that share
// it.
static void place_results(FuncBuilder *f) {
  ProgFunction *fn = f->f;
  int32_t none = build_expr(f->b, f->b->g->dims.zero);
  for (int32_t i = 0; i < fn->nresults; i++) {
    ProgValue *v = &f->value.v[fn->result[i]];
    if (v->place != PLACE_ARENA) continue;
    int32_t root = v->slot;
    for (int64_t k = 0; k < f->value.n; k++)
      if (f->value.v[k].place == PLACE_ARENA && f->value.v[k].slot == root) {
        f->value.v[k].place = PLACE_RESULT;
        f->value.v[k].slot = i;
      }
    fn->root[root].bytes = none;
  }
}

static void mark_used(bool *used, const int32_t *list, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if (list[i] >= 0) used[list[i]] = true;
}

// An evaluation of sizes alone, none of which anybody reads: kernels have them as numbers.
static bool is_idle(const FuncBuilder *f, const ProgStep *st, const bool *used) {
  bool idle = st->kind == STEP_HOST && !st->nsame;
  for (int32_t i = 0; i < st->nout && idle; i++) {
    const ValueOrigin *from = &f->origin.v[st->out[i]];
    int64_t n;
    const Dim *sym;
    idle = !used[st->out[i]] && from->node && node_sym(f->b->g, from->node, &n, &sym);
  }
  return idle;
}

static void drop_idle(FuncBuilder *f) {
  bool *used = arena_array(f->b->a, bool, MAX(f->value.n, 1));
  int64_t kept = f->step.n;
  mark_used(used, f->f->result, f->f->nresults);
  for (int64_t s = f->step.n - 1; s >= 0; s--) {
    ProgStep st = f->step.v[s];
    if (is_idle(f, &st, used)) continue;
    mark_used(used, st.in, st.nin);
    if (st.kind == STEP_KERNEL) mark_used(used, st.arg, st.nargs);
    f->step.v[--kept] = st;
  }
  for (int64_t s = kept; s < f->step.n; s++) f->step.v[s - kept] = f->step.v[s];
  f->step.n -= kept;
}

// Heap values are freed after the last step that names them.
static void free_after_last_use(FuncBuilder *f) {
  ProgFunction *fn = f->f;
  Arena *a = f->b->a;
  bool *kept = arena_array(a, bool, MAX(f->value.n, 1));
  for (int32_t i = 0; i < fn->nresults; i++) kept[fn->result[i]] = true;
  for (int64_t s = f->step.n - 1; s >= 0; s--) {
    ProgStep *st = &f->step.v[s];
    int32_t *dead = arena_array(&f->b->p->arena, int32_t, MAX(st->nin + st->nout + st->nargs, 1));
    const int32_t *lists[] = {st->in, st->out, st->arg};
    int32_t counts[] = {st->nin, st->nout, st->nargs};
    for (int l = 0; l < 3; l++)
      for (int32_t i = 0; i < counts[l]; i++) {
        int32_t v = lists[l][i];
        if (v < 0 || kept[v] || f->value.v[v].place != PLACE_HEAP) continue;
        kept[v] = true;
        dead[st->nfree++] = v;
      }
    st->free = dead;
  }
}

static void finish_function(FuncBuilder *f) {
  ProgFunction *fn = f->f;
  Arena *pa = &f->b->p->arena;
  if (f->plan) place_results(f);
  if (f->b->o->ndevices) {
    drop_idle(f);
    place_steps(f);
  }
  if (f->plan) f->b->origin = f->origin.v;
  free_after_last_use(f);
  fn->nvalues = (int32_t)f->value.n;
  fn->nsteps = (int32_t)f->step.n;
  fn->value = arena_dup(pa, f->value.v, f->value.n * (int64_t)sizeof(ProgValue));
  fn->step = arena_dup(pa, f->step.v, f->step.n * (int64_t)sizeof(ProgStep));
}

// The steps since `before` are of one node, which the plan runs beside those since `first`, if
// any.  A node that is done by the host ends the row.  Returns where the row begins; -1: there is
// none to go on with.
static int64_t put_concurrent(FuncBuilder *f, int64_t before, int64_t first) {
  bool kernel = f->step.n == before + 1 && f->step.v[before].kind == STEP_KERNEL;
  if (!kernel) return -1;
  if (first < 0) return before;
  f->step.v[first].more++;
  return first;
}

tenon_status build_function(ProgBuilder *b, const Body *body, const MemPlan *plan,
                            ProgFunction **out) {
  uint64_t have;
  if (intmap_get(&b->bodies, (uint64_t)(uintptr_t)body, &have)) {
    *out = (ProgFunction *)(uintptr_t)have;
    return TENON_OK;
  }
  Arena *pa = &b->p->arena;
  ProgFunction *fn = *out = arena_new(pa, ProgFunction);
  FuncBuilder f = {.b = b, .f = fn, .plan = plan};
  intmap_init(&f.map, b->a);
  intmap_init(&f.bound, b->a);
  intmap_init(&f.state_on, b->a);
  fn->index = (int32_t)b->function.n;
  vec_push(pa, &b->function, fn);
  intmap_put(&b->bodies, (uint64_t)(uintptr_t)body, (uint64_t)(uintptr_t)fn);
  fn->name = keep_name(b, body->name);
  fn->nparams = (int32_t)body->nparams;
  fn->nresults = (int32_t)body->nresults;
  int32_t *param = arena_array(pa, int32_t, MAX(fn->nparams, 1));
  int32_t *result = arena_array(pa, int32_t, MAX(fn->nresults, 1));
  fn->result_name = arena_array(pa, const char *, MAX(fn->nresults, 1));
  if (plan) {
    build_roots(&f);
    place_states(&f);
  }
  for (int32_t i = 0; i < fn->nparams; i++) {
    param[i] = new_value(&f, body->param[i], 0, type_of(body->param[i]));
    f.value.v[param[i]].slot = i;
    if (f.value.v[param[i]].place != PLACE_STATE) f.value.v[param[i]].place = PLACE_PARAM;
    note_bound(&f, type_of(body->param[i]));
  }
  NodeList order = plan ? plan->order : body_order(b->g, body, b->a);
  int64_t first = -1;
  for (int64_t i = 0; i < order.n; i++) {
    if (plan) TRY(watch_step(b->o->watch, b->diag, "lower", order.v[i]->name, i, order.n));
    int64_t before = f.step.n;
    TRY(build_tree(&f, order.v[i]));
    first = put_concurrent(&f, before, plan && plan_is_concurrent(plan, i) ? first : -1);
  }
  for (int32_t i = 0; i < fn->nresults; i++) {
    result[i] = value_of(&f, body->result[i]);
    if (body->result_name) fn->result_name[i] = keep_name(b, body->result_name[i]);
  }
  fn->param = param;
  fn->result = result;
  finish_function(&f);
  return TENON_OK;
}

// ---- the program ----

static void build_symbols(ProgBuilder *b) {
  IntPool *pool = &b->g->dims;
  b->p->nsyms = pool->nsyms;
  b->p->sym = arena_array(&b->p->arena, ProgSym, MAX(pool->nsyms, 1));
  for (int32_t i = 0; i < pool->nsyms; i++) {
    Dim s = pool->sym.v[i];
    b->p->sym[i] = (ProgSym){.name = keep_name(b, s->name), .lo = s->lo, .hi = s->hi};
  }
}

static tenon_status build(ProgBuilder *b) {
  Program *p = b->p;
  ProgFunction *main;
  intmap_init(&b->exprs, b->a);
  intmap_init(&b->plain, b->a);
  intmap_init(&b->bodies, b->a);
  strmap_init(&b->texts, b->a);
  strmap_init(&b->labels, b->a);
  TRY(read_schedules(b));
  TRY(check_tuned_machine(b));
  TRY(build_function(b, b->g->main, b->plan, &main));
  TRY(check_schedules(b));
  build_symbols(b);
  TRY(fill_constants(b));
  p->nexprs = (int32_t)b->expr.n;
  p->expr = b->expr.v;
  p->nfunctions = (int32_t)b->function.n;
  p->function = b->function.v;
  p->nconsts = (int32_t)b->constant.n;
  p->constant = b->constant.v;
  p->nkernels = (int32_t)b->prog_kernel.n;
  p->kernel = b->prog_kernel.v;
  return TENON_OK;
}

tenon_status lower_program(Graph *g, const MemPlan *plan, const LowerOptions *o, Arena *a, Diag *d,
                           Compiled *out) {
  *out = (Compiled){0};
  ProgBuilder b = {.g = g, .plan = plan, .o = o, .a = a, .diag = d};
  if (!(b.p = program_create())) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  b.sizes = o->sizes ? *o->sizes : plan->reference;
  b.lowering = (Lowering){.g = g,
                          .arena = a,
                          .target = o->target,
                          .diag = d,
                          .residual = residual_table,
                          .nresiduals = o->no_residual ? 0 : residual_count,
                          .accepts = accept_kernel,
                          .accepts_ctx = &b,
                          .tamper = o->tamper,
                          .tamper_ctx = o->tamper_ctx};
  Diag *graph_diag = g->diag;
  tenon_status graph_was = g->status;
  g->diag = d;
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = build(&b);
  trap_leave(&t);
  g->diag = graph_diag;
  g->status = graph_was;  // an expansion that failed says so again the next time
  if (t.status) {
    program_release(b.p);
    return t.status;
  }
  *out = (Compiled){.program = b.p,
                    .kernel = b.kernel.v,
                    .nkernels = b.kernel.n,
                    .nhost = b.nhost,
                    .declined = b.declined.v,
                    .ndeclined = b.declined.n,
                    .left = b.left.v,
                    .use = b.use.v,
                    .nuses = b.use.n,
                    .origin = b.origin,
                    .untuned = b.untuned.v,
                    .nuntuned = b.untuned.n,
                    .ntuned = b.ntuned};
  if (o->workloads)
    out->machine = tuned_machine(o->ndevices ? &o->device[o->ndevices - 1] : &o->target, a);
  return TENON_OK;
}
