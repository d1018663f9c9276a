// kernels.c -- what holds for the kernels of every fused graph (text.h).
#include "passes/fuse_kernels/fuse_kernels.h"
#include "passes/fuse_kernels/kernels.h"
#include "text/text.h"

static bool kernel_is_sound(Graph *g, const Node *fused, Arena *a, StrBuf *why) {
  int anchors = 0;
  NodeList inner = body_order(g, ((const fused_attrs *)fused->attrs)->body, a);
  for (int64_t k = 0; k < inner.n; k++) {
    int op = inner.v[k]->op;
    if (op == OP_param || op == OP_const || op == OP_proj || op == OP_none) continue;
    anchors += fuse_op(inner.v[k]).cls == FC_ANCHOR;
    if (fuse_op(inner.v[k]).cls == FC_HOST) {
      strbuf_printf(why, "a kernel holds %s, which the host runs\n", op_name(inner.v[k]));
      return false;
    }
  }
  if (anchors > 1) strbuf_printf(why, "a kernel has %d anchors\n", anchors);
  return anchors <= 1;
}

bool kernels_are_sound(Graph *g, StrBuf *why) {
  Arena a;
  arena_init(&a);
  bool ok = true;
  NodeList order = body_order(g, g->main, &a);
  for (int64_t i = 0; ok && i < order.n; i++)
    if (order.v[i]->op == OP_fused) ok = kernel_is_sound(g, order.v[i], &a, why);
  arena_deinit(&a);
  return ok;
}

int64_t kernels_bytes_moved(Graph *g) {
  Arena a;
  arena_init(&a);
  DimBinding b;
  GraphCost cost;
  binding_init(&b, &a, g);
  binding_default(&b, g, 3);
  cost_graph(g, &b, &a, &cost);
  arena_deinit(&a);
  return cost.bytes;
}
