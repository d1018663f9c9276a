// thread_loops.h -- loops that the thread block templates share.
//
// A place that may lie outside is asked for once, around all that is done there: nothing that is
// read needs a guard of its own.
#ifndef TENON_LOWER_GPU_THREAD_LOOPS_H
#define TENON_LOWER_GPU_THREAD_LOOPS_H

#include "lower/element/element.h"
#include "lower/template.h"

// Opens such a question where one is needed, and counts it in *depth: `value` as it is inside.
Dim thread_guard(ElementBuilder *e, Dim value, Dim extent, int *depth);
// Likewise for a number that is split into `n` coordinates of these sizes, and of which threads or
// items have every step-th: where the steps do not go with the sizes it is a symbol of its own,
// from which the verifier reads off the thread.
Dim thread_apart(ElementBuilder *e, Dim value, Dim extent, int n, const Dim *shape, int64_t step,
                 int *depth);
void thread_close(ElementBuilder *e, int depth);  // so many loops
// Opens a loop over the threads.
Dim thread_loop(ElementBuilder *e);
// How many rounds it takes `step` threads to go over `size` elements, for the one that begins at
// `first`: every place first + step * i, i below it, lies inside.
Dim thread_rounds(ElementBuilder *e, Dim size, Dim first, int64_t step);
int64_t power_of_two(int64_t n,
                     int64_t most);  // the power of two that is n or more, or at most `most`

#endif
