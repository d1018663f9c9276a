// passes.h -- the graph passes and their order.
#ifndef TENON_PASSES_PASSES_H
#define TENON_PASSES_PASSES_H

#include "ir/pass.h"

#define PASS(name, fn, doc, flags, level) PassFn pass_##fn;
#include "passes/pipeline.def"

extern const Pass graph_passes[];
extern const int64_t graph_npasses;
extern const PassOrder graph_pass_order[];
extern const int64_t graph_npass_orders;

// The whole pipeline on a graph.
MUST_USE tenon_status graph_optimise(Graph *g, const OptOptions *o, OptReport *report);

#endif
