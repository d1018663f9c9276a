// placement.c -- kernels to machines by a minimum cut (placement.h).
#include "plan/placement.h"

#include "eval/fuse.h"
#include "ir/internal.h"
#include "base/min_cut.h"
#include "passes/fuse_kernels/fuse_kernels.h"

static const double UNITS = 16e9;  // a second
typedef struct Uses {              // of one value: who reads it, by variable or constant of the cut
  VEC(int32_t) user;
} Uses;
typedef struct Assign {
  Graph *g;
  const DimBinding *sizes;
  const AssignCosts *costs;
  AssignForced *forced;
  void *forced_ctx;
  Arena *arena;
  Assignment *out;
  IntMap seen;  // bodies
  // of the body at hand
  Cut cut;
  IntMap var;    // id of a kernel -> variable
  IntMap value;  // id of what makes a value -> Uses
} Assign;

static int64_t units(double seconds) {
  double u = seconds * UNITS;
  return u < 1 ? 1 : u > (double)(CUT_NEVER >> 20) ? CUT_NEVER >> 20 : (int64_t)u;
}

int64_t assign_kernel_cost(const AssignMachine *m, const NodeCost *c) {
  double work = c->flops / m->flops, memory = (double)c->bytes / m->bytes;
  return units(m->start + MAX(work, memory));
}

int64_t assign_copy_cost(const AssignCosts *c, int64_t bytes) {
  return units(c->copy + (double)bytes / c->link);
}

static bool is_kernel(const Node *n) {
  if (n->op != OP_fused) return false;
  int kind = ((const fused_attrs *)n->attrs)->kind;
  return kind != FUSED_HOST && kind != FUSED_VIEW;
}

// Shows the bytes of its operand.
static bool is_view(const Node *n) {
  if (!n->nsrc) return false;
  if (n->op == OP_fused) return ((const fused_attrs *)n->attrs)->kind == FUSED_VIEW;
  FuseOp op = fuse_op(n);
  return op.cls == FC_INDEX_MAP && op.flags & FF_VIEW;
}

// What a value is made by, through views; a projection stands for itself.
static const Node *made_by(const Node *n) {
  while (is_view(n)) n = n->src[0];
  return n;
}

static int32_t code_of(const Assign *x, const Node *n) {
  uint64_t v;
  if (n->op == OP_proj) n = n->src[0];
  return intmap_get(&x->var, n->id, &v) ? (int32_t)v : CUT_ZERO;
}

static void note_use(Assign *x, const Node *value, int32_t user) {
  uint64_t have;
  value = made_by(value);
  if (value->op == OP_const || value->op == OP_none || value->known || value->sym) return;
  if (!intmap_get(&x->value, value->id, &have)) {
    have = (uint64_t)(uintptr_t)arena_new(x->arena, Uses);
    intmap_put(&x->value, value->id, have);
  }
  Uses *u = (Uses *)(uintptr_t)have;
  vec_push(x->arena, &u->user, user);
}

static void add_kernel(Assign *x, const Node *n) {
  NodeCost c;
  int32_t v = cut_var(&x->cut);
  int must = x->forced ? x->forced(x->forced_ctx, n) : -1;
  cost_node(x->g, n, x->sizes, x->arena, &c);
  int64_t on[2];
  for (int i = 0; i < 2; i++) on[i] = assign_kernel_cost(&x->costs->machine[i], &c);
  if (must >= 0) on[!must] = CUT_NEVER;
  cut_cost(&x->cut, v, on[0], on[1]);
  intmap_put(&x->var, n->id, (uint64_t)v);
}

static void add_copies(Assign *x, const NodeList *order) {
  for (int64_t i = 0; i < order->n; i++) {
    const Node *n = order->v[i];
    uint64_t have;
    int64_t bytes = 0;
    if (!intmap_get(&x->value, n->id, &have)) continue;
    const Uses *u = (const Uses *)(uintptr_t)have;
    const Type *t = type_of(n);
    if (t->kind != TK_TENSOR || t->rank < 0 || !cost_type_bytes(t, x->sizes, &bytes)) bytes = 0;
    cut_shared(&x->cut, code_of(x, n), u->user.v, u->user.n, assign_copy_cost(x->costs, bytes));
  }
}

static void assign_body(Assign *x, const Body *b);

static void assign_inner(Assign *x, const Node *n) {
  const OpInfo *op = op_info(n->op);
  for (int k = 0; n->op != OP_fused && k < op->nattrs; k++) {
    if (op->attrs[k].kind != ATTR_body) continue;
    const Body *inner = *(const Body *const *)((const char *)n->attrs + op->attrs[k].offset);
    if (inner) assign_body(x, inner);
  }
}

static void assign_body(Assign *x, const Body *b) {
  uint64_t have;
  if (intmap_get(&x->seen, (uint64_t)(uintptr_t)b, &have)) return;
  intmap_put(&x->seen, (uint64_t)(uintptr_t)b, 1);
  NodeList order = body_order(x->g, b, x->arena);
  for (int64_t i = 0; i < order.n; i++) assign_inner(x, order.v[i]);
  cut_init(&x->cut, x->arena);
  intmap_init(&x->var, x->arena);
  intmap_init(&x->value, x->arena);
  for (int64_t i = 0; i < order.n; i++)
    if (is_kernel(order.v[i])) add_kernel(x, order.v[i]);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    if (n->op == OP_proj || is_view(n)) continue;
    for (uint32_t k = 0; k < n->nsrc; k++) note_use(x, n->src[k], code_of(x, n));
  }
  for (int64_t i = 0; i < b->nresults; i++) note_use(x, b->result[i], CUT_ZERO);
  add_copies(x, &order);
  bool *on = arena_array(x->arena, bool, MAX(x->cut.n, 1));
  cut_solve(&x->cut, on);
  for (int64_t i = 0; i < order.n; i++) {
    uint64_t v;
    if (!intmap_get(&x->var, order.v[i]->id, &v)) continue;
    intmap_put(&x->out->machine, order.v[i]->id, on[v]);
    x->out->n[on[v]]++;
  }
}

void assign_kernels(Graph *g, const DimBinding *sizes, const AssignCosts *c, AssignForced *forced,
                    void *ctx, Arena *a, Assignment *out) {
  Assign x = {.g = g,
              .sizes = sizes,
              .costs = c,
              .forced = forced,
              .forced_ctx = ctx,
              .arena = a,
              .out = out};
  *out = (Assignment){0};
  intmap_init(&out->machine, a);
  intmap_init(&x.seen, a);
  assign_body(&x, g->main);
}

int assigned_to(const Assignment *x, const Node *n) {
  uint64_t on;
  return intmap_get(&x->machine, n->id, &on) ? (int)on : 0;
}
