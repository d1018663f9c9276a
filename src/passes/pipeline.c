// pipeline.c -- the order of the graph passes, and why.
//
//   import -> clean-up, folding, algebra -> ...
#include "passes/passes.h"

const Pass graph_passes[] = {
    // clang-format off
    //  name       what it does                                          run           flags            -O
    { "cells",     "steps of LSTM and GRU layers, and loops over them",  pass_cells,   0,               1 },
    { "clean",     "control flow that is decided before anything runs",  pass_clean,   PASSF_FIXPOINT,  1 },
    { "qdq",       "dequantise, compute, quantise: in integers",         pass_qdq,     0,               1 },
    { "shapes",    "replace shape arithmetic by its result",             pass_shapes,  0,               1 },
    { "moves",     "movement in one form: rules/moves.c",                pass_moves,   0,               1 },
    { "fold",      "compute what depends on constants alone",            pass_fold,    0,               1 },
    { "algebra",   "identities of rules/algebra.c, to a fixed point",    pass_algebra, PASSF_FIXPOINT,  1 },
    { "recognise", "composites that exporters took apart, whole again",  pass_recognise, 0,             1 },
    { "past",      "keys of the past, and what attention hands on",      pass_past,    0,               1 },
    { "unpack",    "weights of a few bits that no product reads as such", pass_unpack, 0,               1 },
    { "chain",     "the cheapest order of a chain of matrix products",   pass_chain,   0,               1 },
    { "parallel",  "products of one tensor with several weights as one", pass_parallel, 0,              2 },
    { "simplify",  "clean, shapes, fold, algebra and moves, to a fixed point", pass_simplify, PASSF_FIXPOINT, 1 },
    { "blocks",    "transposed convolutions as blocks, maxima as lines", pass_blocks,  0,               2 },
    { "precision", "contractions in bf16, where it is asked for",        pass_precision, 0,             1 },
    { "layout",    "channels first or last, by cost over the whole graph", pass_layout, 0,              2 },
    { "partial",   "sums of small wide images in parts, for a core each", pass_partial, 0,              2 },
    { "turn",      "matrices that units for products read across, transposed", pass_turn, 0,            2 },
    { "fuse",      "group nodes into kernels; below -O2 each its own",   pass_fuse,    0,               0 },
    // clang-format on
};
const int64_t graph_npasses = ARRAY_LEN(graph_passes);

const PassOrder graph_pass_order[] = {
    {"cells", "clean", "a loop over a step is a layer; unrolled it would be many"},
    {"clean", "shapes", "a body that goes takes its captures along"},
    {"shapes", "moves", "reshapes want constant shapes"},
    {"moves", "fold", "movement of constants is folded"},
    {"fold", "algebra", "identities look for constants"},
    {"qdq", "fold", "folding makes floats of quantised weights"},
    {"fold", "recognise", "scales and epsilons are constants by then"},
    {"algebra", "recognise", "fewer spellings are left"},
    {"recognise", "unpack", "what is left of such weights is read by no product"},
    {"unpack", "simplify", "what is made of floats is folded"},
    {"recognise", "past", "rules about attention know its form of one result and all its keys"},
    {"past", "simplify", "what is joined is movement like any other"},
    {"recognise", "parallel", "what is left of a result's users is then known"},
    {"recognise", "chain", "attention's two products are none of a chain"},
    {"chain", "simplify", "products of constants are folded"},
    {"parallel", "simplify", "the weights are put together by folding"},
    {"recognise", "simplify", "movement is sunk, which takes spellings apart"},
    {"simplify", "blocks", "norms, sums and pads go into a convolution or a pool first"},
    {"blocks", "layout", "these rules too know channels first alone"},
    {"simplify", "layout",
     "rules know convolutions channels first alone, and would sink conversions"},
    {"simplify", "precision", "rules about contractions have fired, and weights are constants"},
    {"precision", "layout", "what is narrowed is channels first"},
    {"layout", "fuse", "conversions go into the kernels that read through them"},
    {"layout", "partial", "channels lie side by side by then"},
    {"partial", "fuse", "the parts of a sum share a kernel with what they are made from"},
    {"simplify", "turn", "two transposes that undo one another go"},
    {"layout", "turn", "its conversions are put in one form, in which they go, too"},
    {"turn", "fuse", "the first of the two is a kernel of its own"},
    {"simplify", "fuse", "rules look through nodes, not through kernels"},
};
const int64_t graph_npass_orders = ARRAY_LEN(graph_pass_order);

tenon_status graph_optimise(Graph *g, const OptOptions *o, OptReport *report) {
  if (!pass_check_order(graph_passes, graph_npasses, graph_pass_order, graph_npass_orders, g->diag))
    return TENON_EINTERNAL;
  g->fast = o->fast;
  g->tiles = o->tiles && !o->shared;
  return passes_run(graph_passes, graph_npasses, g, o, report);
}
