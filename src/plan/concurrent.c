// concurrent.c -- kernels that run concurrently.
//
// A kernel that is done in a few microseconds does not fill the threads: they wait for one another
// more than they work.  Where several such kernels do not need each other's results (the branches
// of an inception block, the two halves of a fire module, the heads of a detector, recurrences of
// few sequences), they are one step of the plan: the runtime shares out their items together, and
// the threads meet once.
//
// In the given order, each kernel takes those of the next few steps along that are small, too, and
// need nothing that is not done yet.  How far it looks decides how much longer values live; the
// caller looks less far where memory would grow.  Linear in the graph for a given distance.
//
// Needs: an order in which operands come first.  Guarantees: so does the one that is made, in which
//        the members of a step are neighbours; none needs another, and each is a kernel.  Nothing
//        here depends on the number of threads, nor do results depend on what is decided here.
#include "plan/impl.h"

#include "eval/fuse.h"

// A kernel that takes one core less than SMALL_NS gains more by meeting less often than its caches
// lose to its neighbours.
enum { SMALL_NS = 400000, OPERANDS = 64 };

typedef struct ConcurrentOrder {
  Graph *g;
  const DimBinding *sizes;
  Arena *a;
  NodeList order;
  int64_t *placed;  // by node: 0 while it waits, else the time at which its step was made
  bool *small;      // by position in `order`
  int32_t *proj;    // by node: the first projection of it, a position; by position: the next one
  int32_t *next;
  NodeList out;
  bool *concurrent;  // by position in `out`
} ConcurrentOrder;

bool plan_is_kernel(const Node *n) {
  if (n->op != OP_fused) return false;
  const fused_attrs *at = n->attrs;
  const Body *b;
  return at->kind != FUSED_HOST && at->kind != FUSED_VIEW && plan_view_operand(n) < 0 &&
         !plan_joined(n, &b);
}

// Writes an operand in place, as far as the node tells: it has a step of its own.
static bool writes_operand(const Node *n) { return node_in_place(n) >= 0; }

static bool is_small(const ConcurrentOrder *x, const Node *n) {
  NodeCost c;
  if (!plan_is_kernel(n) || n->nsrc > OPERANDS || writes_operand(n)) return false;
  // One sequence is one item, however long it takes.
  if (((const fused_attrs *)n->attrs)->kind == FUSED_RECURRENT) return true;
  ArenaMark m = arena_mark(x->a);
  cost_node(x->g, n, x->sizes, x->a, &c);
  arena_reset(x->a, m);
  return c.known && cost_ns(c.flops, (double)c.bytes) < SMALL_NS;
}

// Every operand was placed before `time`.
static bool is_ready(const ConcurrentOrder *x, const Node *n, int64_t time) {
  for (uint32_t k = 0; k < n->nsrc; k++) {
    int result;
    const Node *s = plan_source(n->src[k], &result);
    if (plan_is_step(x->g, s) && (!x->placed[s->id] || x->placed[s->id] >= time)) return false;
  }
  return true;
}

static void emit(ConcurrentOrder *x, Node *n, bool concurrent) {
  x->concurrent[x->out.n] = concurrent;
  x->out.v[x->out.n++] = n;
}

static void emit_projections(ConcurrentOrder *x, const Node *n) {
  for (int32_t i = x->proj[n->id]; i >= 0; i = x->next[i]) emit(x, x->order.v[i], false);
}

// A step that begins with order.v[at], and what of the next `reach` steps goes with it.
static int32_t take_step(ConcurrentOrder *x, int64_t at, int64_t time, int reach) {
  Node *member[PLAN_CONCURRENT_MAX] = {x->order.v[at]};
  int32_t n = 1;
  x->placed[member[0]->id] = time;
  for (int64_t i = at + 1; x->small[at] && i < x->order.n && reach > 0 && n < PLAN_CONCURRENT_MAX;
       i++) {
    Node *o = x->order.v[i];
    const Body *body;
    if (!plan_is_step(x->g, o)) continue;
    reach--;
    bool view = plan_view_operand(o) >= 0 || plan_joined(o, &body);
    if (x->placed[o->id] || !(view || x->small[i]) || !is_ready(x, o, time)) continue;
    x->placed[o->id] = view ? time - 1 : time;
    if (view) {  // nothing is launched for it, and others may be ready after it
      emit(x, o, false);
      emit_projections(x, o);
    } else {
      member[n++] = o;
    }
  }
  for (int32_t i = 0; i < n; i++) emit(x, member[i], i > 0);
  for (int32_t i = 0; i < n; i++) emit_projections(x, member[i]);
  return n;
}

static void index_projections(ConcurrentOrder *x) {
  x->proj = arena_array(x->a, int32_t, x->g->node.n);
  x->next = arena_array(x->a, int32_t, MAX(x->order.n, 1));
  for (int64_t i = 0; i < x->g->node.n; i++) x->proj[i] = -1;
  for (int64_t i = x->order.n - 1; i >= 0; i--) {
    const Node *n = x->order.v[i];
    if (n->op != OP_proj) continue;
    x->next[i] = x->proj[n->src[0]->id];
    x->proj[n->src[0]->id] = (int32_t)i;
  }
}

NodeList plan_order_concurrent(const MemPlan *p, int reach, Arena *a, const bool **concurrent) {
  ConcurrentOrder x = {.g = p->g, .sizes = &p->reference, .a = a, .order = p->order};
  int64_t n = p->order.n, time = 2, together = 0;
  x.small = arena_array(a, bool, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) together += x.small[i] = is_small(&x, p->order.v[i]);
  *concurrent = NULL;
  if (together < 2) return p->order;
  x.placed = arena_array(a, int64_t, p->g->node.n);
  x.out = (NodeList){arena_array(a, Node *, n), 0};
  x.concurrent = arena_array(a, bool, n);
  index_projections(&x);
  for (int64_t i = 0; i < n; i++)
    if (!plan_is_step(p->g, p->order.v[i]) && p->order.v[i]->op != OP_proj)
      emit(&x, p->order.v[i], false);
  together = 0;
  for (int64_t i = 0; i < n; i++) {
    Node *o = p->order.v[i];
    if (!plan_is_step(p->g, o) || x.placed[o->id]) continue;
    together += take_step(&x, i, time, reach) > 1;
    time += 2;
  }
  if (!together) return p->order;
  *concurrent = x.concurrent;
  return x.out;
}
