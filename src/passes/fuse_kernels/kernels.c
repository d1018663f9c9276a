// kernels.c -- counts kernels and the bytes that they move (kernels.h).
//
// Needs:      inferred types; before fusion every node that computes is a kernel.
// Guarantees: the graph does not change.
#include "passes/fuse_kernels/kernels.h"

#include "passes/fuse_kernels/fuse_kernels.h"

const char *const fused_kind_name[FUSED_KINDS] = {"pointwise", "contraction", "reduction",
                                                  "window",    "attention",   "recurrent",
                                                  "movement",  "host",        "view"};

// A node that is in no kernel: of the kind that it would be alone; of a type that is not known, the
// host's.
static FusedKind lone_kind(const Node *n) {
  for (int i = 0; i < n->nres; i++)
    if (n->type[i]->kind != TK_TENSOR || n->type[i]->rank < 0 || !n->type[i]->dtype)
      return FUSED_HOST;
  FuseOp op = fuse_op(n);
  if (op.cls == FC_HOST) return FUSED_HOST;
  if (op.cls == FC_INDEX_MAP && op.flags & FF_VIEW) return FUSED_VIEW;
  return (FusedKind)op.kind;
}

static bool is_work(const Node *n) {
  return n->op != OP_param && n->op != OP_const && n->op != OP_proj && n->op != OP_none;
}

static void count_body(Graph *g, const Body *b, Arena *a, IntMap *seen, KernelCount *out) {
  uint64_t have;
  if (intmap_get(seen, (uint64_t)(uintptr_t)b, &have)) return;
  intmap_put(seen, (uint64_t)(uintptr_t)b, 1);
  NodeList order = body_order(g, b, a);
  IntMap fixed;  // what depends on constants alone
  intmap_init(&fixed, a);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    bool once = n->op == OP_const || n->op == OP_none || n->nsrc > 0;
    for (uint32_t k = 0; once && k < n->nsrc; k++) once = intmap_get(&fixed, n->src[k]->id, &have);
    once &= !(op_info(n->op)->flags & OPF_RANDOM);
    if (once) intmap_put(&fixed, n->id, 1);
    if (!is_work(n) || n->sym || n->known) continue;
    if (once) {
      out->constant++;
      continue;
    }
    if (n->op == OP_fused) {
      out->kind[((const fused_attrs *)n->attrs)->kind]++;
      continue;
    }
    out->kind[lone_kind(n)]++;
    const OpInfo *op = op_info(n->op);
    for (int k = 0; k < op->nattrs; k++) {
      if (op->attrs[k].kind != ATTR_body) continue;
      const Body *inner = *(const Body *const *)((const char *)n->attrs + op->attrs[k].offset);
      if (inner) count_body(g, inner, a, seen, out);
    }
  }
}

void graph_kernels(Graph *g, KernelCount *out) {
  Arena a;
  IntMap seen;
  arena_init_scoped(&a);
  intmap_init(&seen, &a);
  *out = (KernelCount){0};
  count_body(g, g->main, &a, &seen, out);
  for (int i = 0; i < FUSED_KINDS; i++)
    if (i != FUSED_HOST && i != FUSED_VIEW) out->kernels += out->kind[i];
  arena_deinit(&a);
}

int64_t kernel_unfused_bytes(Graph *g, const Node *fused, const DimBinding *b, Arena *a,
                             int64_t *out_nodes) {
  NodeList order = body_order(g, ((const fused_attrs *)fused->attrs)->body, a);
  int64_t total = 0;
  *out_nodes = 0;
  for (int64_t i = 0; i < order.n; i++) {
    int64_t bytes;
    if (!is_work(order.v[i])) continue;
    ++*out_nodes;
    bytes = cost_node_bytes(g, order.v[i], b, a);
    if (!ck_add(total, bytes, &total)) total = INT64_MAX;
  }
  return total;
}

int64_t conversion_bytes(const LayoutReport *l, const DimBinding *b) {
  int64_t total = 0, bytes;
  for (int64_t i = 0; i < l->converted.n; i++)
    if (cost_type_bytes(l->converted.v[i], b, &bytes) && !ck_add(total, bytes, &total))
      return INT64_MAX;
  return total;
}
