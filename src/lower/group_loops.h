// group_loops.h -- loops that the templates with groups of threads share.
//
// A place that may lie outside is asked for once, around all that is done there: nothing that is read needs a guard of its own.
#ifndef TENON_LOWER_GROUP_LOOPS_H
#define TENON_LOWER_GROUP_LOOPS_H

#include "lower/templates.h"

// Opens such a question where one is needed, and counts it in *depth: `value` as it is inside.
Dim group_inside(Elem *e, Dim value, Dim extent, int *depth);
void group_close(Elem *e, int depth);  // so many loops
// Opens a loop over the threads.
Dim group_threads(Elem *e);
// How many rounds it takes `step` threads to go over `size` elements, for the one that begins at `first`: every place first + step * i,
// i below it, lies inside.
Dim group_rounds(Elem *e, Dim size, Dim first, int64_t step);
int64_t group_power(int64_t n,
                    int64_t most);  // the power of two that is n or more, or at most `most`

#endif
