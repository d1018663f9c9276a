// thread_block.h -- kernels whose work items are thread blocks: where barriers are needed.
#ifndef TENON_LOOP_THREAD_BLOCK_H
#define TENON_LOOP_THREAD_BLOCK_H

#include "loop/loop.h"

enum { LOOP_FENCE_SHARED = 1, LOOP_FENCE_GLOBAL = 2 };
// For each thread loop (by its address) before which threads wait: whose stores they must see.  As
// few as the order of the loops allows: two thread loops that touch different memory run into each
// other.  `own`, by buffer: of these each thread has its own element and is handed others' without
// waiting; NULL: of none.
void loop_barriers(const LoopKernel *k, Arena *a, const bool *own, IntMap *out);
// Shared buffers that the threads of a warp, `most` of them, can keep in registers: a thread stores
// element t alone, and what is read is the sum, in halves, of the elements of n neighbours, itself
// among them, n at most `most`, by all threads at once:
//   thread t < T { store %part[t] = x }
//   thread u < T { reduce %v = add over q < n lanes n { yield %part[n*floor(u/n) + q] } ... }
void loop_shuffled(const LoopKernel *k, Arena *a, int64_t most, bool *out);
// Marks the buffers that a block stores to.
void loop_stored(const LoopKernel *k, const LoopBlock *b, bool *stored);

#endif
