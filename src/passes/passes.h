// passes.h -- the graph passes and their order.
#ifndef TENON_PASSES_PASSES_H
#define TENON_PASSES_PASSES_H

#include "ir/pass.h"

PassFn pass_algebra, pass_cells, pass_chain, pass_clean, pass_unpack, pass_fold, pass_fuse,
    pass_layout, pass_moves, pass_parallel, pass_past, pass_qdq, pass_recognise, pass_shapes,
    pass_simplify, pass_blocks, pass_partial, pass_precision, pass_turn;

extern const Pass graph_passes[];
extern const int64_t graph_npasses;
extern const PassOrder graph_pass_order[];
extern const int64_t graph_npass_orders;

// The whole pipeline on a graph.
MUST_USE tenon_status graph_optimise(Graph *g, const OptOptions *o, OptReport *report);

#endif
