// templates.h -- the templates that kernels are made by.  Each takes a `fused` node or says EUNSUPPORTED, with no
// message; the first that takes it has it.
#ifndef TENON_LOWER_TEMPLATES_H
#define TENON_LOWER_TEMPLATES_H

#include "lower/elem.h"

typedef tenon_status LowerFn(Lowering *lo, const Node *fused, Lowered *out);
LowerFn lower_pointwise;  // every element by itself: also movement
LowerFn lower_chain;      // convolutions one after the other, the image between them in cache
LowerFn lower_winograd;   // 3x3 convolutions in fewer products
LowerFn lower_tile, lower_tile_attention;  // matrix products by units for matrices
LowerFn lower_contract;                    // matrix products and convolutions
LowerFn lower_n_bits;                      // matrix products with weights of a few bits
LowerFn lower_attention;                   // attention, streamed over keys
LowerFn lower_scan;                        // sums that are stored as they grow
LowerFn lower_top_k;                       // the first of each row, in order
LowerFn lower_scatter;                     // copies with some elements replaced
LowerFn lower_recurrent;                   // lstm, gru, rnn: whole layers
LowerFn lower_rows;                        // reductions, norms, softmax: rows by themselves

// Where the target has groups of threads (group_*.c): tried first.
LowerFn lower_group_attention;  // blocks of queries, keys streamed through shared memory
LowerFn lower_group_contract;   // tiles in shared memory
LowerFn lower_group_depthwise;  // each channel by itself, 16 bytes of them a thread
LowerFn lower_group_direct;     // each sum by a few threads
LowerFn lower_group_stream;     // few rows: weights are read once, as fast as memory gives them
LowerFn lower_group_rows;       // rows by groups, or several to a group
LowerFn lower_group_pointwise;  // a thread for each element
// Whether all results and operands lie alike, so that an element's number is its place in each of them.
bool pointwise_is_flat(const Elem *e);

#endif
