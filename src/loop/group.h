// group.h -- kernels whose work items are groups of threads: where the threads must wait for each other.
#ifndef TENON_LOOP_GROUP_H
#define TENON_LOOP_GROUP_H

#include "loop/loop.h"

enum { LOOP_FENCE_SHARED = 1, LOOP_FENCE_GLOBAL = 2 };
// For each thread loop (by its address) before which threads wait: whose stores they must see.  As few as the order of the
// loops allows: two thread loops that touch different memory run into each other.
void loop_barriers(const LoopKernel *k, Arena *a, IntMap *out);
// Marks the buffers that a block stores to.
void loop_stored(const LoopKernel *k, const LoopBlock *b, bool *stored);

#endif
