// fold.c -- computes what depends on constants alone.
//
// Every node whose operands are all constants is run by its own evaluation, as the interpreter would, and
// becomes a constant, unless the result is larger than the limit and than what it is made from.  Weights are read here, once.
//
// Guarantees: bit-equal; random and control-flow ops stay; a node whose evaluation fails stays, so that the error comes at run time.
#include "ir/internal.h"
#include "passes/passes.h"

typedef struct Folder {
  PassCtx *c;
  Run run;
  Diag quiet;
  bool unpacks;  // weights of a few bits, and nothing else
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

enum { LARGE = 1 << 16 };  // bytes

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

// What is large goes over to the graph as it is: copying weights would take longer than all the passes.
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
  run_init(&f->run, NULL, &f->quiet);
  f->run.max_bytes = machine_memory() / 2;
  Value *out;
  Node *r = n;
  tenon_status s = const_evaluate(g, n, &f->run, &out);
  if (!s && out->kind == VK_TENSOR) r = as_const(g, out, n->name);
  if (r != n && r != g->poison && type_of(r) != type_of(n)) r = n;
  run_deinit(&f->run);
  return r;
}

tenon_status pass_fold(PassCtx *c, bool *out_changed) {
  Folder *f = arena_new(c->scratch, Folder);
  f->c = c;
  GraphMap m = {.g = c->g, .fn = fold_node, .ctx = f};
  return graph_map(&m, out_changed);
}

// What no product reads as it is: a kernel would unpack it in every run.
tenon_status pass_unpack(PassCtx *c, bool *out_changed) {
  Folder *f = arena_new(c->scratch, Folder);
  f->c = c;
  f->unpacks = true;
  GraphMap m = {.g = c->g, .fn = fold_node, .ctx = f};
  return graph_map(&m, out_changed);
}
