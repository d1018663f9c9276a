// fold_constants.c -- the pass fold-constants: computes what depends on constants alone.
//
// Runs every node whose operands are all constants by its own evaluation, as the interpreter would,
// and puts a constant in its place, unless the result is larger than the limit and than its
// operands, or folding has spent its sums (budget_fold_left).  Weights are read here, once.  A
// large tensor that is only moved stays a view.
//
// Needs:      inferred types; fuse-qdq has run, since folding dequantises weights.
// Guarantees: bit-equal; random and control-flow ops stay; a node whose evaluation fails stays, so
//             that the error comes at run time.
#include "passes/fold_constants.h"

#include "base/budget.h"
#include "ir/internal.h"

typedef struct Folder {
  PassCtx *c;
  Pool *pool;     // NULL until there is much to do
  int64_t bytes;  // of all that was read so far
  Run run;
  bool running;  // `run` is to be ended, also after an allocation that failed
  Diag quiet;
  bool unpacks;  // packed int4 weights, and nothing else
} Folder;

static bool foldable(const Graph *g, const Node *n) {
  const OpInfo *op = op_info(n->op);
  if (!op->eval || !n->nsrc || n->nres != 1 || (op->flags & (OPF_RANDOM | OPF_CONTROL | OPF_HOST)))
    return false;
  if (!type_is_static(type_of(n)) || type_of(n)->dtype == DT_STRING) return false;
  bool any = false;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    if (n->src[i] == g->none) continue;
    if (n->src[i]->op != OP_const || type_of(n->src[i])->dtype == DT_STRING) return false;
    any = true;
  }
  return any;
}

static bool worth_it(const Folder *f, const Node *n) {
  if (f->unpacks) return true;
  int64_t count = 1, bytes = 0, from = 0;
  const Type *t = type_of(n);
  for (int i = 0; i < t->rank; i++)
    if (!ck_mul(count, t->dims[i]->value, &count)) return false;
  if (!dtype_bytes(t->dtype, count, &bytes)) return false;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (n->src[i]->data) from += n->src[i]->data->bytes;
  // A large tensor that is only moved stays as it is: its user reads it in another order.
  bool moved = op_info(n->op)->flags & OPF_MOVEMENT;
  return (bytes <= from && !moved) || bytes <= f->c->o->fold_limit;
}

enum { LARGE = 1 << 16, ALONE = 1 << 20 };  // bytes; ALONE: done before other threads have begun

// What is only moved is read through the move by whoever packs it, if it can be read at all.
static bool may_wait(Folder *f, const Node *n) {
  const Type *t = type_of(n);
  int64_t count = 1, bytes = 0;
  if ((n->op != OP_transpose && n->op != OP_concat) || !elem_bytes(t->dtype)) return false;
  for (int i = 0; i < t->rank; i++) count *= t->dims[i]->value;
  if (!dtype_bytes(t->dtype, count, &bytes) || bytes <= LARGE) return false;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const void *unused;
    if (n->src[i] == f->c->g->none) return false;
    if (!n->src[i]->data->moved && const_bytes(f->c->g, n->src[i], &unused, &f->quiet))
      return false;
  }
  return true;
}

static Node *fold_node(void *ctx, Node *n, Node *old);

// A cast of what is only moved: what is moved is cast instead, and goes on waiting.  NULL: it is no
// such cast.
static Node *cast_moved(Folder *f, const Node *n) {
  Graph *g = f->c->g;
  const ConstData *c = n->op == OP_cast ? n->src[0]->data : NULL;
  if (!c || !c->moved || c->mem) return NULL;
  const Node *m = c->moved;
  Node **src = arena_array(f->c->scratch, Node *, m->nsrc);
  for (uint32_t i = 0; i < m->nsrc; i++) {
    Node *cast = node_new(g, OP_cast, 1, (Node *[]){m->src[i]}, n->attrs, 1, m->src[i]->name);
    src[i] = cast == g->poison ? cast : fold_node(f, cast, cast);
    if (src[i]->op != OP_const) return NULL;
  }
  Node *moved = node_new(g, m->op, (int)m->nsrc, src, m->attrs, 1, m->name);
  return moved != g->poison && may_wait(f, moved) ? node_const_moved(g, moved) : NULL;
}

// What is large goes over to the graph as it is: copying weights would take longer than all the
// passes.
static Node *as_const(Graph *g, Value *v, const char *name) {
  int64_t bytes = 0, block = 0;
  void *data =
      dtype_bytes(v->dtype, v->n, &bytes) && bytes > LARGE ? value_take_data(v, &block) : NULL;
  return data ? node_const_take(g, v->dtype, v->rank, v->dims, data, block, name)
              : node_const(g, v->dtype, v->rank, v->dims, v->data, name);
}

static Node *fold_node(void *ctx, Node *n, Node *old) {
  Folder *f = ctx;
  Graph *g = f->c->g;
  (void)old;
  if (!foldable(g, n) || f->unpacks != (n->op == OP_unpack_n_bits) || !worth_it(f, n)) return n;
  diag_init(&f->quiet);
  if (may_wait(f, n)) return node_const_moved(g, n);
  Node *waits = cast_moved(f, n);
  if (waits) return waits;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (n->src[i]->data) f->bytes += n->src[i]->data->bytes;
  if (!f->pool && f->bytes > ALONE) f->pool = pool_create(0);
  int64_t bytes, ops;
  budget_fold_left(&bytes, &ops);
  run_init(&f->run, f->pool, &f->quiet);
  f->running = true;
  f->run.max_bytes = MIN(machine_memory() / 2, MAX(bytes, 1));
  f->run.ops_budget = ops;
  Value *out;
  Node *r = n;
  tenon_status s = const_evaluate(g, n, &f->run, &out);
  if (!s && out->kind == VK_TENSOR) r = as_const(g, out, n->name);
  if (r != n && r != g->poison && type_of(r) != type_of(n)) r = n;
  budget_fold(r != n && r->data ? r->data->bytes : 0, ops - MAX(f->run.ops_budget, 0));
  run_deinit(&f->run);
  f->running = false;
  return r;
}

tenon_status fold_constants(PassCtx *c, bool unpacks, bool *out_changed) {
  Folder *f = arena_new(c->scratch, Folder);
  f->c = c;
  f->unpacks = unpacks;
  GraphMap m = {.g = c->g, .fn = fold_node, .ctx = f};
  Trap t;
  volatile bool raised = true;
  trap_enter(&t, c->g->diag);
  if (setjmp(t.env) == 0) {
    t.status = graph_map(&m, out_changed);
    raised = false;
  }
  trap_leave(&t);
  if (f->running) run_deinit(&f->run);
  pool_release(f->pool);
  if (raised) trap_again(t.status, c->g->diag->text);
  return t.status;
}

tenon_status pass_fold_constants(PassCtx *c, bool *out_changed) {
  return fold_constants(c, false, out_changed);
}
