// pipeline.c -- the order of the graph passes, and why.
//
// pipeline.def has the passes in the order in which they run.  Each row of graph_pass_order says
// that one pass must come before another, and why; graph_optimise checks the rows before it runs
// anything.
//
// Needs:      a verified graph; OptOptions with the traits of the target, if one is known.
// Guarantees: a graph of `fused` nodes that computes the same function, within the fast-math flags.
#include "passes/passes.h"

const Pass graph_passes[] = {
#define PASS(name, fn, doc, flags, level) {name, doc, pass_##fn, flags, level},
#include "passes/pipeline.def"
};
const int64_t graph_npasses = ARRAY_LEN(graph_passes);

const PassOrder graph_pass_order[] = {
    {"recognise-recurrent", "fold-control-flow",
     "a loop over a step is a layer; unrolled it would be many"},
    {"fold-control-flow", "fold-shapes", "removing a body also removes its captures"},
    {"fold-shapes", "merge-movement", "reshapes need constant shapes"},
    {"merge-movement", "fold-constants", "movement of constants is folded"},
    {"fold-constants", "simplify-algebra", "identities look for constants"},
    {"fuse-qdq", "fold-constants", "folding makes floats of quantised weights"},
    {"fold-constants", "recognise-composites", "scales and epsilons are constants by then"},
    {"simplify-algebra", "recognise-composites", "fewer spellings are left"},
    {"recognise-composites", "unpack-weights", "the remaining packed weights are read by no GEMM"},
    {"unpack-weights", "simplify-graph", "unpacked weights are folded"},
    {"recognise-composites", "expose-kv-cache",
     "rules about attention need one result and all its keys"},
    {"expose-kv-cache", "simplify-graph", "the concatenation is data movement like any other"},
    {"recognise-composites", "merge-matmuls", "the remaining users of a result are then known"},
    {"recognise-composites", "reorder-matmuls", "attention's two products are no chain"},
    {"recognise-recurrent", "unroll-recurrent", "layers that came in pieces are steps too"},
    {"recognise-composites", "unroll-recurrent", "gates are no activations that came in pieces"},
    {"unroll-recurrent", "merge-matmuls", "both directions multiply one input"},
    {"unroll-recurrent", "simplify-graph", "weights are cut and transposed by folding"},
    {"reorder-matmuls", "simplify-graph", "products of constants are folded"},
    {"merge-matmuls", "simplify-graph", "the weights are put together by folding"},
    {"recognise-composites", "simplify-graph", "sinking data movement destroys spellings"},
    {"simplify-graph", "rewrite-windows",
     "norms, sums and pads fold into a convolution or a pool first"},
    {"rewrite-windows", "choose-layout", "these rules know channels first alone"},
    {"simplify-graph", "choose-layout",
     "rules know convolutions channels first alone, and would sink conversions"},
    {"simplify-graph", "lower-precision",
     "rules about contractions have fired, and weights are constants"},
    {"lower-precision", "choose-layout", "what is narrowed is channels first"},
    {"choose-layout", "fuse-kernels", "conversions go into the kernels that read through them"},
    {"choose-layout", "split-k", "channels are contiguous by then"},
    {"choose-layout", "split-rows", "norms are whole ops until their order is known"},
    {"split-rows", "fuse-kernels", "parts share kernels with what makes their elements"},
    {"split-k", "fuse-kernels", "partial sums share a kernel with their operands"},
    {"choose-layout", "split-reductions", "axes lie in memory as they stay"},
    {"split-reductions", "fuse-kernels", "each step is in a kernel with what it reads"},
    {"simplify-graph", "transpose-operands", "transposes that undo one another are gone by then"},
    {"choose-layout", "transpose-operands", "so are its conversions"},
    {"transpose-operands", "fuse-kernels",
     "a transpose that it materialises is a kernel of its own"},
    {"simplify-graph", "fuse-kernels", "rules look through nodes, not through kernels"},
};
const int64_t graph_npass_orders = ARRAY_LEN(graph_pass_order);

tenon_status graph_optimise(Graph *g, const OptOptions *o, OptReport *report) {
  if (!pass_check_order(graph_passes, graph_npasses, graph_pass_order, graph_npass_orders, g->diag))
    return TENON_EINTERNAL;
  g->fast = o->fast;
  if (o->traits) g->traits = arena_dup(&g->arena, o->traits, sizeof *o->traits);
  return passes_run(graph_passes, graph_npasses, g, o, report);
}
