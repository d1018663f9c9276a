// cost.c -- operations, bytes and memory of a graph (cost.h).
//
// One walk over each body in the order of its nodes.  Memory: a value lives from its node to its
// last user; the most that live at once is the peak, which is what the interpreter takes.
//
// Needs:      inferred types.
// Guarantees: counts saturate instead of overflowing; a size that is not known counts as nothing.
#include "cost/cost.h"

#include "eval/control.h"
#include "eval/fuse.h"

enum { EXPANSION_DEPTH = 8 };

void binding_init(DimBinding *b, Arena *a, const Graph *g) {
  b->n = g->dims.nsyms;
  b->value = arena_array(a, int64_t, b->n);
  b->known = arena_array(a, bool, b->n);
}

void binding_default(DimBinding *b, const Graph *g, int64_t size) {
  for (int32_t i = 0; i < b->n; i++) {
    Dim s = g->dims.sym.v[i];
    if (b->known[i] || s->fresh) continue;
    b->value[i] = MAX(MIN(size, s->hi), s->lo);
    b->known[i] = true;
  }
}

// Of dimension i: channels are a small number that is known, first or last.
static int64_t typical_size(const Type *t, int i) {
  enum { IMAGE = 224, SEQUENCE = 128, CHANNELS_MOST = 4 };
  if (i == 0) return 1;
  if (t->rank == 2 || t->rank == 3) return SEQUENCE;
  if (t->rank != 4 || !dtype_is_float(t->dtype)) return 0;
  Dim first = t->dims[1], last = t->dims[3];
  bool nchw = first->kind == IE_CONST && first->value <= CHANNELS_MOST;
  bool nhwc = last->kind == IE_CONST && last->value <= CHANNELS_MOST;
  return (nchw && i >= 2) || (nhwc && i <= 2) ? IMAGE : 0;
}

void binding_typical(DimBinding *b, const Graph *g) {
  for (int64_t k = 0; k < g->main->nparams; k++) {
    const Type *t = g->main->param[k]->type[0];
    for (int i = 0; t->kind == TK_TENSOR && i < t->rank; i++) {
      Dim d = t->dims[i];
      int64_t size = d->kind == IE_SYM && !d->fresh ? typical_size(t, i) : 0;
      if (!size || b->known[d->slot]) continue;
      b->value[d->slot] = MAX(MIN(size, d->hi), d->lo);
      b->known[d->slot] = true;
    }
  }
}

static int64_t add_sat(int64_t a, int64_t b) {
  int64_t s;
  return ck_add(a, b, &s) ? s : INT64_MAX;
}

// ---- shapes ----
static bool concrete(const Type *t, const DimBinding *b, Arena *a, CostShape *out) {
  *out = (CostShape){.rank = -1};
  if (t->kind != TK_TENSOR || t->rank < 0) return false;
  int64_t *dims = arena_array(a, int64_t, t->rank);
  for (int i = 0; i < t->rank; i++)
    if (!ie_eval(t->dims[i], b->value, b->known, b->n, &dims[i]) || dims[i] < 0) return false;
  int64_t n;
  if (!shape_count(t->rank, dims, &n)) return false;
  *out = (CostShape){.dtype = t->dtype, .rank = t->rank, .dims = dims, .n = n};
  return true;
}

bool cost_type_bytes(const Type *t, const DimBinding *b, int64_t *out) {
  int64_t n = 1, d;
  *out = 0;
  if (t->kind != TK_TENSOR || t->rank < 0) return false;
  for (int i = 0; i < t->rank; i++)
    if (!ie_eval(t->dims[i], b->value, b->known, b->n, &d) || d < 0 || !ck_mul(n, d, &n))
      return false;
  return t->dtype && dtype_bytes(t->dtype, n, out);
}

static int64_t bytes_of(const CostShape *s) {
  int64_t bytes;
  if (s->rank < 0 || !s->dtype) return 0;
  return dtype_bytes(s->dtype, s->n, &bytes) ? bytes : INT64_MAX;
}

// ---- nodes ----
typedef struct Coster {
  Graph *g;
  const DimBinding *b;
  Arena *arena;
  int depth;
} Coster;

static bool is_work(const Node *n) {
  return n->op != OP_param && n->op != OP_const && n->op != OP_proj && n->op != OP_none;
}

static void body_cost(Coster *c, const Body *b, double *flops, int64_t *bytes);

// Rounds of a loop or scan, where they are known.
static double rounds(Coster *c, const Node *n) {
  Ints trip;
  CostShape s;
  if (n->op == OP_loop && n->nsrc > 0 && n->src[0] != c->g->none &&
      node_ints(c->g, n->src[0], &trip) && trip.n == 1)
    return (double)MAX(trip.v[0], 0);
  if (n->op != OP_scan) return 1;
  const scan_attrs *at = n->attrs;
  int64_t first = (int64_t)n->nsrc - at->captures - at->num_scan_inputs;
  int64_t axis = at->scan_input_axes.n ? at->scan_input_axes.v[0] : 0;
  if (first < 0 || first >= (int64_t)n->nsrc ||
      !concrete(type_of(n->src[first]), c->b, c->arena, &s))
    return 1;
  axis += axis < 0 ? s.rank : 0;
  return axis >= 0 && axis < s.rank ? (double)s.dims[axis] : 1;
}

static void control_cost(Coster *c, const Node *n, NodeCost *out) {
  const OpInfo *op = op_info(n->op);
  double times = rounds(c, n), flops = 0;
  int64_t bytes = 0;
  for (int i = 0; i < op->nattrs; i++) {
    if (op->attrs[i].kind != ATTR_body) continue;
    const Body *b = *(const Body *const *)((const char *)n->attrs + op->attrs[i].offset);
    double f = 0;
    int64_t m = 0;
    if (b) body_cost(c, b, &f, &m);
    flops = MAX(flops, f);
    bytes = MAX(bytes, m);
  }
  out->flops = flops * times;
  double moved = (double)bytes * times;
  out->bytes = add_sat(out->bytes, moved < 9e18 ? (int64_t)moved : INT64_MAX);
}

static void node_cost(Coster *c, const Node *n, NodeCost *out);

// The operations of a composite: those of its expansion's nodes, down to its own operands.  -1 when
// it declines to be decomposed.
static double expansion_flops(Coster *c, const OpInfo *op, const Node *n) {
  Graph *g = c->g;
  Node **out = arena_array(c->arena, Node *, n->nres);
  Diag *outer = g->diag;
  Diag *own = arena_new(c->arena, Diag);
  diag_init(own);
  g->diag = own;
  op->expand(g, n, out);
  g->diag = outer;
  double flops = 0;
  if (graph_status(g)) {  // an expansion that its own types refuse: not ours to report
    g->status = TENON_OK;
    return -1;
  }
  for (int i = 0; i < n->nres; i++)
    if (!out[i]) return -1;
  IntMap seen;
  VEC(const Node *) stack = {0};
  intmap_init(&seen, c->arena);
  for (uint32_t i = 0; i < n->nsrc; i++) intmap_put(&seen, n->src[i]->id, 1);
  for (int i = 0; i < n->nres; i++) vec_push(c->arena, &stack, (const Node *)out[i]);
  while (stack.n) {
    const Node *x = stack.v[--stack.n];
    uint64_t have;
    if (intmap_get(&seen, x->id, &have)) continue;
    intmap_put(&seen, x->id, 1);
    NodeCost part;
    if (is_work(x)) {
      node_cost(c, x, &part);
      flops += part.flops;
    }
    for (uint32_t i = 0; i < x->nsrc; i++) vec_push(c->arena, &stack, (const Node *)x->src[i]);
  }
  return flops;
}

// A kernel moves what it is given and what it gives, whatever its body does in between; of a value
// that is only read through index maps, no more than those give.
static void kernel_cost(Coster *c, const Node *n, NodeCost *out) {
  const fused_attrs *at = n->attrs;
  int64_t inner = 0, read = 0;
  out->bytes = 0;
  body_cost(c, at->body, &out->flops, &inner);
  if (at->kind == FUSED_VIEW) return;
  IntMap seen;  // node id -> bytes read of it
  intmap_init(&seen, c->arena);
  NodeList order = body_order(c->g, at->body, c->arena);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *x = order.v[i];
    bool moves = op_info(x->op)->flags & OPF_MOVEMENT;
    for (uint32_t k = 0; k < x->nsrc; k++) {
      if (x->src[k]->op != OP_param) continue;
      uint64_t have = 0;
      int64_t bytes = INT64_MAX;
      intmap_get(&seen, x->src[k]->id, &have);
      if (moves && !cost_type_bytes(type_of(x), c->b, &bytes)) bytes = INT64_MAX;
      intmap_put(&seen, x->src[k]->id, (uint64_t)add_sat((int64_t)have, bytes));
    }
  }
  for (int64_t i = 0; i < at->body->nparams; i++) {
    int64_t bytes;
    uint64_t have = INT64_MAX;
    intmap_get(&seen, at->body->param[i]->id, &have);
    if (cost_type_bytes(type_of(at->body->param[i]), c->b, &bytes))
      read = add_sat(read, MIN(bytes, (int64_t)have));
  }
  out->bytes = add_sat(read, out->out_bytes);
}

static void node_cost(Coster *c, const Node *n, NodeCost *out) {
  const OpInfo *op = op_info(n->op);
  CostShape *in = arena_array(c->arena, CostShape, n->nsrc + 1);
  CostShape *res = arena_array(c->arena, CostShape, n->nres + 1);
  *out = (NodeCost){.node = n, .known = true};
  for (uint32_t i = 0; i < n->nsrc; i++) {
    if (n->src[i] == c->g->none) {
      in[i].rank = -1;
      continue;
    }
    out->known &= concrete(type_of(n->src[i]), c->b, c->arena, &in[i]);
    out->bytes = add_sat(out->bytes, bytes_of(&in[i]));
  }
  int64_t elements = 0;
  for (int i = 0; i < n->nres; i++) {
    out->known &= concrete(n->type[i], c->b, c->arena, &res[i]);
    out->out_bytes = add_sat(out->out_bytes, bytes_of(&res[i]));
    if (res[i].rank >= 0) elements = add_sat(elements, res[i].n);
  }
  // What only moves elements reads no more than it writes: a gather does not read its whole table.
  if (op->flags & OPF_MOVEMENT) out->bytes = MIN(out->bytes, out->out_bytes);
  out->bytes = add_sat(out->bytes, out->out_bytes);
  if (n->op == OP_fused) {
    kernel_cost(c, n, out);
  } else if (op->flags & OPF_CONTROL) {
    control_cost(c, n, out);
  } else if (!out->known || op->flags & OPF_MOVEMENT) {
    out->flops = 0;
  } else if (op->cost) {
    CostIn ci = {.node = n, .nin = (int)n->nsrc, .nout = n->nres, .in = in, .out = res};
    out->flops = op->cost(&ci);
  } else {
    out->flops = -1;
    c->depth++;
    if (op->expand && c->depth <= EXPANSION_DEPTH) out->flops = expansion_flops(c, op, n);
    c->depth--;
    if (out->flops < 0) out->flops = (double)elements;
  }
}

static void body_cost(Coster *c, const Body *b, double *flops, int64_t *bytes) {
  if (c->depth >= EXPANSION_DEPTH) return;
  c->depth++;
  NodeList order = body_order(c->g, b, c->arena);
  for (int64_t i = 0; i < order.n; i++) {
    NodeCost n;
    if (!is_work(order.v[i])) continue;
    node_cost(c, order.v[i], &n);
    *flops += n.flops;
    *bytes = add_sat(*bytes, n.bytes);
  }
  c->depth--;
}

// ---- memory ----
// The node whose buffer a use keeps alive: that of the value itself, not of its projection.
static const Node *owner(const Node *n) { return n->op == OP_proj ? n->src[0] : n; }

static int64_t value_bytes(const Node *n, const DimBinding *b) {
  int64_t total = 0, bytes;
  for (int i = 0; i < n->nres; i++)
    if (cost_type_bytes(n->type[i], b, &bytes)) total = add_sat(total, bytes);
  return total;
}

static void find_peak(Coster *c, const NodeList *order, const Body *b, GraphCost *out) {
  IntMap last;  // node id -> position of its last user
  intmap_init(&last, c->arena);
  for (int64_t i = 0; i < order->n; i++)
    for (uint32_t k = 0; order->v[i]->op != OP_proj && k < order->v[i]->nsrc; k++)
      intmap_put(&last, owner(order->v[i]->src[k])->id, (uint64_t)i);
  for (int64_t i = 0; i < b->nresults; i++)
    intmap_put(&last, owner(b->result[i])->id, (uint64_t)order->n);
  int64_t live = 0;
  for (int64_t i = 0; i < order->n; i++) {
    const Node *n = order->v[i];
    if (n->op == OP_const) out->const_bytes = add_sat(out->const_bytes, value_bytes(n, c->b));
    if (n->op == OP_const || n->op == OP_proj || n->op == OP_none) continue;
    live = add_sat(live, value_bytes(n, c->b));
    out->peak_bytes = MAX(out->peak_bytes, live);
    uint64_t at;
    if (!intmap_get(&last, n->id, &at)) live -= value_bytes(n, c->b);
    for (uint32_t k = 0; k < n->nsrc; k++) {
      const Node *s = owner(n->src[k]);
      if (s->op == OP_const || s->op == OP_none || !intmap_get(&last, s->id, &at)) continue;
      if (at != (uint64_t)i) continue;
      live -= value_bytes(s, c->b);
      intmap_put(&last, s->id, UINT64_MAX);  // an operand given twice dies once
    }
  }
}

void cost_node(Graph *g, const Node *n, const DimBinding *b, Arena *a, NodeCost *out) {
  Coster c = {.g = g, .b = b, .arena = a};
  node_cost(&c, n, out);
}

int64_t cost_node_bytes(Graph *g, const Node *n, const DimBinding *b, Arena *a) {
  NodeCost out;
  cost_node(g, n, b, a, &out);
  return out.bytes;
}

void cost_graph(Graph *g, const DimBinding *b, Arena *a, GraphCost *out) {
  *out = (GraphCost){0};
  Coster c = {.g = g, .b = b, .arena = a};
  NodeList order = body_order(g, g->main, a);
  out->node = arena_array(a, NodeCost, order.n);
  for (int64_t i = 0; i < order.n; i++) {
    if (!is_work(order.v[i])) continue;
    NodeCost *n = &out->node[out->n++];
    node_cost(&c, order.v[i], n);
    out->flops += n->flops;
    out->bytes = add_sat(out->bytes, n->bytes);
    out->nunknown += !n->known;
  }
  find_peak(&c, &order, g->main, out);
}
