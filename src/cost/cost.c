// cost.c -- counts operations, bytes and parameters of a graph.
//
// Symbols get their numbers first; then every body is walked once, operands before users.  A node's
// operations come from its record: its own cost function, else the sum over its expansion, else one for
// each element of its results.  Peak memory comes from the interpreter's own plan, made without data.
//
// Needs:      a graph that graph_verify accepts.
// Guarantees: totals never overflow (bytes stop at the largest int64); no file is opened.
// Does not:   know how often a loop runs.
#include "cost/cost.h"

enum { MAX_EXPANSION_DEPTH = 16, SHAPE_PAD = 16 };

typedef struct Counter {
  Graph *g;
  Arena *a;
  Diag *diag;
  Cost *cost;
  int64_t *bind;
  bool *bound;
  IntMap bodies;  // those that were counted
  IntMap consts;  // node ids
  VEC(NodeCost) node;
  uint8_t *seen_dim;  // by id of an expression
  uint8_t *used;      // by slot: appears in the type of a reachable node
  uint8_t *assumed;   // by slot: was given no value
  uint32_t ndims;
  Diag *quiet;  // for expansions that fail
  int depth;
} Counter;

static const int64_t no_dims[MAX_RANK];

static int64_t add_bytes(int64_t a, int64_t b) {
  int64_t sum;
  return ck_add(a, b, &sum) ? sum : INT64_MAX;
}

// ---- symbols ----

static Dim find_symbol(const Graph *g, Str name) {
  for (int32_t i = 0; i < g->dims.nsyms; i++)
    if (str_is(name, g->dims.sym.v[i]->name)) return g->dims.sym.v[i];
  return NULL;
}

static tenon_status unknown_symbol(Counter *c, Str name) {
  StrBuf b;
  strbuf_init(&b, c->a);
  for (int32_t i = 0; i < c->g->dims.nsyms && b.n < 500; i++)
    if (!c->g->dims.sym.v[i]->fresh)
      strbuf_printf(&b, "%s%s", b.n ? ", " : "", c->g->dims.sym.v[i]->name);
  return fail(c->diag, TENON_EINVAL, NOWHERE, "the model has no dimension '%.*s'; it has %s",
              STR_ARG(name), b.n ? strbuf_text(&b) : "none that can be chosen");
}

static tenon_status bind_symbols(Counter *c, const SymbolValue *v, int64_t nv) {
  int32_t n = c->g->dims.nsyms;
  c->bind = arena_array(c->a, int64_t, MAX(n, 1));
  c->bound = arena_array(c->a, bool, MAX(n, 1));
  c->used = arena_array(c->a, uint8_t, MAX(n, 1));
  c->assumed = arena_array(c->a, uint8_t, MAX(n, 1));
  c->ndims = c->g->dims.next_id;
  c->seen_dim = arena_array(c->a, uint8_t, MAX((int64_t)c->ndims, 1));
  for (int64_t i = 0; i < nv; i++) {
    Dim s = find_symbol(c->g, v[i].name);
    if (!s) return unknown_symbol(c, v[i].name);
    if (v[i].value < s->lo || v[i].value > s->hi)
      return fail(c->diag, TENON_EINVAL, NOWHERE, "dimension '%s' cannot be %lld", s->name,
                  (long long)v[i].value);
    c->bind[s->slot] = v[i].value;
    c->bound[s->slot] = true;
  }
  return TENON_OK;
}

// Notes the symbols of an expression.
static void use_symbols(Counter *c, Dim d) {
  if (d->id >= c->ndims || c->seen_dim[d->id]) return;
  c->seen_dim[d->id] = 1;
  if (d->kind == IE_SYM) c->used[d->slot] = 1;
  for (int t = 0; d->kind == IE_SUM && t < d->nterms; t++)
    for (int i = 0; i < d->term[t].natoms; i++) use_symbols(c, d->term[t].atom[i]);
  if (d->a) use_symbols(c, d->a);
  if (d->b) use_symbols(c, d->b);
}

static void use_type(Counter *c, const Type *t) {
  for (; t->elem; t = t->elem) continue;
  for (int i = 0; t->kind == TK_TENSOR && i < t->rank; i++) use_symbols(c, t->dims[i]);
}

static void assume_rest(Counter *c) {
  Graph *g = c->g;
  int32_t n = g->dims.nsyms;
  for (int32_t i = 0; i < n; i++) {
    if (c->bound[i]) continue;
    Dim s = g->dims.sym.v[i];
    c->bind[i] = s->lo > 1 ? s->lo : s->hi < 1 ? s->hi : 1;  // a range may leave 1 out
    c->bound[i] = true;
    c->assumed[i] = 1;
  }
  c->cost->bind = c->bind;
  c->cost->bound = c->bound;
  c->cost->nbind = n;
}

static void list_assumed(Counter *c) {
  Cost *cost = c->cost;
  Dim *list = arena_array(c->a, Dim, MAX(cost->nbind, 1));
  for (int32_t i = 0; i < cost->nbind; i++)
    if (c->assumed[i] && c->used[i]) list[cost->nassumed++] = c->g->dims.sym.v[i];
  cost->assumed = list;
}

// ---- sizes ----

// Fills dims (MAX_RANK of them); false when the rank or a size is not known.
static bool type_shape(const Cost *c, const Type *t, int64_t *dims, int64_t *out_n) {
  *out_n = 0;
  if (t->kind != TK_TENSOR || t->rank < 0) return false;
  for (int i = 0; i < t->rank; i++) {
    if (!ie_eval(t->dims[i], c->bind, c->bound, c->nbind, &dims[i])) return false;
    dims[i] = MAX(dims[i], 0);
  }
  return shape_count(t->rank, dims, out_n);
}

bool cost_type_bytes(const Cost *c, const Type *t, int64_t *out) {
  int64_t dims[MAX_RANK], n;
  *out = 0;
  return type_shape(c, t, dims, &n) && t->dtype && dtype_bytes(t->dtype, n, out);
}

// What the record's cost function sees: always MAX_RANK dims that may be read.
static bool cost_shape(Counter *c, const Type *t, CostShape *out) {
  int64_t *dims = arena_array(c->a, int64_t, MAX_RANK);
  *out = (CostShape){.rank = -1, .dims = dims};
  if (t->kind != TK_TENSOR) return true;
  out->dtype = t->dtype;
  if (!type_shape(c->cost, t, dims, &out->n)) return false;
  out->rank = t->rank;
  return true;
}

static CostShape *padded_shapes(Counter *c, int64_t n) {
  CostShape *s = arena_array(c->a, CostShape, n + SHAPE_PAD);
  for (int64_t i = 0; i < n + SHAPE_PAD; i++) s[i] = (CostShape){.rank = -1, .dims = no_dims};
  return s;
}

// ---- operations ----

static double node_flops(Counter *c, const Node *n, bool *out_known);

// The operations of a composite's expansion; false when it cannot be expanded.
static bool expansion_flops(Counter *c, const Node *n, double *out, bool *out_known) {
  Graph *g = c->g;
  const OpInfo *op = op_info(n->op);
  if (c->depth >= MAX_EXPANSION_DEPTH) return false;
  Node **made = arena_array(c->a, Node *, n->nres);
  Diag *diag = g->diag;
  diag_init(c->quiet);
  g->diag = c->quiet;
  op->expand(g, n, made);
  g->diag = diag;
  if (g->status) {
    g->status = TENON_OK;
    return false;
  }
  IntMap seen;
  VEC(const Node *) stack = {0};
  intmap_init(&seen, c->a);
  for (uint32_t i = 0; i < n->nsrc; i++) intmap_put(&seen, n->src[i]->id, 1);
  for (int i = 0; i < n->nres; i++) vec_push(c->a, &stack, (const Node *)made[i]);
  c->depth++;
  while (stack.n) {
    const Node *m = stack.v[--stack.n];
    uint64_t have;
    if (m == g->none || intmap_get(&seen, m->id, &have)) continue;
    intmap_put(&seen, m->id, 1);
    *out += node_flops(c, m, out_known);
    for (uint32_t i = 0; i < m->nsrc; i++) vec_push(c->a, &stack, (const Node *)m->src[i]);
  }
  c->depth--;
  return true;
}

static double node_flops(Counter *c, const Node *n, bool *out_known) {
  const OpInfo *op = op_info(n->op);
  if (op->flags & (OPF_MOVEMENT | OPF_CONTROL)) return 0;
  if (n->op == OP_const || n->op == OP_param || n->op == OP_proj || n->op == OP_none) return 0;
  ArenaMark m = arena_mark(c->a);
  CostIn in = {.node = n, .nin = (int)n->nsrc, .nout = n->nres};
  CostShape *src = padded_shapes(c, n->nsrc), *out = padded_shapes(c, n->nres);
  bool known = true;
  for (uint32_t i = 0; i < n->nsrc; i++) known &= cost_shape(c, type_of(n->src[i]), &src[i]);
  for (int i = 0; i < n->nres; i++) known &= cost_shape(c, n->type[i], &out[i]);
  in.in = src;
  in.out = out;
  double flops = 0;
  if (!known)
    *out_known = false;  // a cost function relies on the shapes
  else if (op->cost)
    flops = op->cost(&in);
  else if (!op->expand || !expansion_flops(c, n, &flops, out_known))
    for (int i = 0; i < n->nres; i++) flops += (double)out[i].n;
  arena_reset(c->a, m);
  return flops;
}

// ---- the walk ----

static void note_tensor(Counter *c, const Node *n, int result, int64_t bytes) {
  Cost *cost = c->cost;
  int at = cost->nlargest;
  if (at == COST_LARGEST && bytes <= cost->largest[at - 1].bytes) return;
  if (at < COST_LARGEST) cost->nlargest++;
  at = cost->nlargest - 1;
  for (; at > 0 && cost->largest[at - 1].bytes < bytes; at--)
    cost->largest[at] = cost->largest[at - 1];
  cost->largest[at] = (TensorCost){.node = n, .result = result, .bytes = bytes};
}

// Bytes of a value that is no tensor are not known and count as nothing.
static int64_t value_bytes(Counter *c, const Type *t, bool *known) {
  int64_t bytes;
  if (!cost_type_bytes(c->cost, t, &bytes) && t->kind == TK_TENSOR) *known = false;
  return bytes;
}

static void count_const(Counter *c, const Node *n) {
  uint64_t have;
  if (intmap_get(&c->consts, n->id, &have)) return;
  intmap_put(&c->consts, n->id, 1);
  c->cost->params = add_bytes(c->cost->params, n->data->n);
  c->cost->params_bytes = add_bytes(c->cost->params_bytes, n->data->bytes);
  note_tensor(c, n, 0, n->data->bytes);
}

static void count_body(Counter *c, const Body *b);

static void count_bodies(Counter *c, const Node *n) {
  const OpInfo *op = op_info(n->op);
  for (int i = 0; i < op->nattrs; i++) {
    if (op->attrs[i].kind != ATTR_body) continue;
    const Body *b = *(const Body *const *)((const char *)n->attrs + op->attrs[i].offset);
    if (b) count_body(c, b);
  }
}

static void count_operation(Counter *c, const Body *b, const Node *n) {
  NodeCost nc = {.node = n, .body = b, .known = true};
  bool control = op_info(n->op)->flags & OPF_CONTROL;
  nc.flops = node_flops(c, n, &nc.known);
  for (int i = 0; i < n->nres; i++) {
    int64_t bytes = value_bytes(c, n->type[i], &nc.known);
    note_tensor(c, n, i, bytes);
    if (!control) nc.bytes = add_bytes(nc.bytes, bytes);
  }
  for (uint32_t i = 0; !control && i < n->nsrc; i++)
    nc.bytes = add_bytes(nc.bytes, value_bytes(c, type_of(n->src[i]), &nc.known));
  c->cost->flops += nc.flops;
  c->cost->bytes = add_bytes(c->cost->bytes, nc.bytes);
  c->cost->nunknown += !nc.known;
  vec_push(c->a, &c->node, nc);
  count_bodies(c, n);
}

static void count_body(Counter *c, const Body *b) {
  uint64_t have;
  if (intmap_get(&c->bodies, (uint64_t)(uintptr_t)b, &have)) return;
  intmap_put(&c->bodies, (uint64_t)(uintptr_t)b, 1);
  NodeList order = body_order(c->g, b, c->a);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    bool known = true;
    for (int k = 0; k < n->nres; k++) use_type(c, n->type[k]);
    if (n->op == OP_none || n->op == OP_proj) continue;
    if (n->op == OP_const)
      count_const(c, n);
    else if (n->op != OP_param)
      count_operation(c, b, n);
    else if (b == c->g->main)
      note_tensor(c, n, 0, value_bytes(c, type_of(n), &known));
  }
}

static tenon_status count(Counter *c, const SymbolValue *v, int64_t nv) {
  TRY(bind_symbols(c, v, nv));
  assume_rest(c);
  c->quiet = arena_new(c->a, Diag);
  intmap_init(&c->bodies, c->a);
  intmap_init(&c->consts, c->a);
  count_body(c, c->g->main);
  c->cost->node = c->node.v;
  c->cost->nnodes = c->node.n;
  list_assumed(c);
  return TENON_OK;
}

static int64_t find_peak(const Interp *in, const Cost *c) {
  return interp_peak_bytes(in, c->bind, c->bound, c->nbind);
}

tenon_status cost_graph(Graph *g, const SymbolValue *v, int64_t nv, Arena *a, Diag *d, Cost *out) {
  *out = (Cost){0};
  Counter c = {.g = g, .a = a, .diag = d, .cost = out};
  Diag *graph_diag = g->diag;
  Interp *plan = NULL;
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = count(&c, v, nv);
  trap_leave(&t);
  g->diag = graph_diag;
  if (!t.status) t.status = interp_create(g, &(InterpOptions){.dry = true}, d, &plan);
  if (t.status) return t.status;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) out->peak_bytes = find_peak(plan, out);
  trap_leave(&t);
  interp_free(plan);
  return t.status;
}
