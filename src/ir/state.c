// state.c -- states: which values are versions of one, and in which order they are read and
// written.
//
// A version is the state itself, a parameter, or what a node makes of a version that it writes in
// place.  All versions are one memory, and a view of a version shows it.  So whoever reads a
// version or a view of it must run before the node that writes the next one; no operand says so,
// and every order of the main body is made to keep it.
//
// state_order sorts the nodes again, with an edge from each reader of a version to its writer.  It
// takes, of those that are ready, the first in the given order: an order that holds already stays
// as it is.
//
// Guarantees: linear in nodes and operands, but for a heap of what is ready.
#include "ir/internal.h"

#include "eval/fuse.h"

int node_in_place(const Node *n) {
  if (n->nres != 1) return -1;
  if (n->op != OP_fused) return op_table[n->op]->in_place - 1;
  const Body *b = ((const fused_attrs *)n->attrs)->body;
  if (b->nresults != 1) return -1;
  const Node *y = b->result[0];
  int operand = op_table[y->op]->in_place - 1;
  for (int64_t i = 0; operand >= 0 && y->nres == 1 && i < b->nparams; i++)
    if (y->src[operand] == b->param[i]) return (int)i;
  return -1;
}

static bool is_view_op(int op) { return (op_table[op]->flags & OPF_VIEW) != 0; }

int node_view_operand(const Node *n) {
  if (is_view_op(n->op)) return 0;
  if (n->op != OP_fused || n->nres != 1) return -1;
  const Body *b = ((const fused_attrs *)n->attrs)->body;
  const Node *at = b->result[0];
  while (is_view_op(at->op)) at = at->src[0];
  for (int64_t i = 0; i < b->nparams; i++)
    if (at == b->param[i] && at != b->result[0]) return (int)i;
  return -1;
}

static bool has_state(const Graph *g) {
  for (int64_t i = 0; i < g->main->nparams; i++)
    if (node_is_state(g->main->param[i])) return true;
  return false;
}

const Node **state_versions(const Graph *g, NodeList order, Arena *a) {
  if (!has_state(g)) return NULL;
  const Node **state = arena_array(a, const Node *, g->node.n);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    int operand = n->op == OP_param || n->op == OP_none ? -1 : node_in_place(n);
    if (node_is_state(n)) state[n->id] = n;
    if (operand >= 0) state[n->id] = state[n->src[operand]->id];
  }
  return state;
}

// What is known of the versions, by node id.
typedef struct Versions {
  const Node **state;   // of a version
  const Node **shows;   // the version itself, or the one that a view shows; NULL: none
  const Node **writer;  // of a version: the node that writes the next one; NULL: none
} Versions;

static const char *name_of(const Node *state) { return state->name ? state->name : "?"; }

static tenon_status find_versions(const Graph *g, NodeList order, const Node **state, Arena *a,
                                  Diag *d, Versions *v) {
  *v = (Versions){state, arena_array(a, const Node *, g->node.n),
                  arena_array(a, const Node *, g->node.n)};
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    int view = n->op == OP_param || n == g->none ? -1 : node_view_operand(n);
    if (view >= 0) v->shows[n->id] = v->shows[n->src[view]->id];
    if (!state[n->id]) continue;
    v->shows[n->id] = n;
    if (n->op == OP_param) continue;
    const Node *from = n->src[node_in_place(n)];
    if (v->writer[from->id])
      return fail(d, TENON_EINVAL, (Where){.node = n->name, .op = op_name(n)},
                  "the state '%s' is written by two nodes, neither after the other",
                  name_of(state[n->id]));
    v->writer[from->id] = n;
  }
  return TENON_OK;
}

// ---- the order ----

// Positions that are ready, the least on top.
typedef struct Heap {
  int64_t *v, n;
} Heap;

static void heap_put(Heap *h, int64_t x) {
  int64_t i = h->n++;
  for (; i && h->v[(i - 1) / 2] > x; i = (i - 1) / 2) h->v[i] = h->v[(i - 1) / 2];
  h->v[i] = x;
}

static int64_t heap_take(Heap *h) {
  int64_t top = h->v[0], x = h->v[--h->n], i = 0;
  for (int64_t k = 1; k < h->n; i = k, k = 2 * k + 1) {
    if (k + 1 < h->n && h->v[k + 1] < h->v[k]) k++;
    if (h->v[k] >= x) break;
    h->v[i] = h->v[k];
  }
  h->v[i] = x;
  return top;
}

// Who waits for whom: edges by the position that they lead from, in lists.
typedef struct Waits {
  int32_t *pos;            // by node id
  int64_t *first, *count;  // by position: its edges; edges to it
  struct {
    int64_t to, next;
  } * edge;
  int64_t nedges;
} Waits;

static void add_edge(Waits *w, int64_t from, int64_t to) {
  w->edge[w->nedges].to = to;
  w->edge[w->nedges].next = w->first[from];
  w->first[from] = w->nedges++;
  w->count[to]++;
}

static void find_edges(Waits *w, const Graph *g, NodeList order, const Versions *v, Arena *a) {
  int64_t n = 0;
  for (int64_t i = 0; i < order.n; i++) n += 2 * (int64_t)order.v[i]->nsrc;
  w->pos = arena_array(a, int32_t, g->node.n);
  w->first = arena_array(a, int64_t, MAX(order.n, 1));
  w->count = arena_array(a, int64_t, MAX(order.n, 1));
  w->edge = arena_alloc_array(a, MAX(n, 1), (int64_t)sizeof *w->edge);
  for (int64_t i = 0; i < order.n; i++) {
    w->pos[order.v[i]->id] = (int32_t)i;
    w->first[i] = -1;
  }
  for (int64_t i = 0; i < order.n; i++) {
    const Node *x = order.v[i];
    for (uint32_t k = 0; k < x->nsrc; k++) {
      if (x->src[k] == g->none) continue;
      const Node *version = v->shows[x->src[k]->id],
                 *next = version ? v->writer[version->id] : NULL;
      add_edge(w, w->pos[x->src[k]->id], i);
      if (next && next != x) add_edge(w, i, w->pos[next->id]);
    }
  }
}

// Fewer nodes than are given where some wait for one another.
static NodeList sorted(const Graph *g, NodeList order, const Versions *v, Arena *a) {
  Waits w = {0};
  NodeList out = {arena_array(a, Node *, MAX(order.n, 1)), 0};
  Heap ready = {arena_array(a, int64_t, MAX(order.n, 1)), 0};
  find_edges(&w, g, order, v, a);
  for (int64_t i = 0; i < order.n; i++)
    if (!w.count[i]) heap_put(&ready, i);
  while (ready.n) {
    int64_t i = heap_take(&ready);
    out.v[out.n++] = order.v[i];
    for (int64_t e = w.first[i]; e >= 0; e = w.edge[e].next)
      if (!--w.count[w.edge[e].to]) heap_put(&ready, w.edge[e].to);
  }
  return out;
}

NodeList state_order(const Graph *g, NodeList order, Arena *a) {
  const Node **state = state_versions(g, order, a);
  Versions v;
  if (!state || find_versions(g, order, state, a, g->diag, &v)) return order;
  NodeList out = sorted(g, order, &v, a);
  return out.n == order.n ? out : order;
}

// ---- verification ----

static tenon_status check_state(const Graph *g, const Node *n, Diag *d) {
  const Type *t = type_of(n);
  Where at = {.node = n->name, .op = "state"};
  if (t->kind != TK_TENSOR || t->rank < 0 || !t->dtype || t->dtype == DT_STRING ||
      dtype_bits(t->dtype) % 8)
    return fail(d, TENON_EINVAL, at,
                "a state must be a tensor of known rank, of elements of whole bytes");
  for (int64_t i = 0; i < g->main->nparams; i++)
    if (g->main->param[i] == n) return TENON_OK;
  return fail(d, TENON_EINVAL, at, "a state must be an input of the graph");
}

static tenon_status check_node(const Versions *v, const Node *n, Diag *d) {
  Where at = {.node = n->name, .op = op_name(n)};
  const Node *s = v->state[n->id];
  if (!s || n == s) return TENON_OK;
  if (type_of(n) != type_of(s))
    return fail(d, TENON_EINVAL, at, "a version of the state '%s' has another type", name_of(s));
  for (uint32_t k = 0; k < n->nsrc; k++) {
    const Node *version = v->shows[n->src[k]->id];
    if (version && v->state[version->id] == s && (int)k != node_in_place(n))
      return fail(d, TENON_EINVAL, at, "operand %u is the state that the node writes", (unsigned)k);
  }
  return TENON_OK;
}

tenon_status state_verify(const Graph *g, NodeList order, Arena *a, Diag *d) {
  for (int64_t i = 0; i < g->node.n; i++)
    if (node_is_state(g->node.v[i])) TRY(check_state(g, g->node.v[i], d));
  const Node **state = state_versions(g, order, a);
  if (!state) return TENON_OK;
  Versions v;
  TRY(find_versions(g, order, state, a, d, &v));
  for (int64_t i = 0; i < order.n; i++) TRY(check_node(&v, order.v[i], d));
  for (int64_t i = 0; i < g->main->nresults; i++) {
    const Node *y = g->main->result[i], *version = v.shows[y->id];
    if (version && v.writer[version->id])
      return fail(d, TENON_EINVAL, (Where){.node = y->name, .op = "output"},
                  "it is a version of the state '%s' that is written over",
                  name_of(v.state[version->id]));
  }
  if (sorted(g, order, &v, a).n == order.n) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE,
              "a version of a state is read by what needs a later version of it");
}

tenon_status state_check_order(const Graph *g, NodeList order, Arena *a, Diag *d) {
  const Node **state = state_versions(g, order, a);
  Versions v;
  if (!state) return TENON_OK;
  TRY(find_versions(g, order, state, a, d, &v));
  const Node **now = arena_array(a, const Node *, g->node.n);  // by state: its latest version
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    for (uint32_t k = 0; k < n->nsrc; k++) {
      const Node *read = v.shows[n->src[k]->id], *s = read ? state[read->id] : NULL;
      if (s && (now[s->id] ? now[s->id] : s) != read)
        return fail(d, TENON_EINTERNAL, (Where){.node = n->name, .op = op_name(n)},
                    "the state '%s' is read after it was written over", name_of(s));
    }
    if (state[n->id]) now[state[n->id]->id] = n;
  }
  return TENON_OK;
}
