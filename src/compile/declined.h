// declined.h -- what a user is told of kernels that were not made as they were chosen.
#ifndef TENON_COMPILE_DECLINED_H
#define TENON_COMPILE_DECLINED_H

#include "compile/compile.h"

// One sentence or two for each of the first few such kernels, with its nodes, the reason and what
// computes it now; then what to do.  In `a`; none where all kernels are as they were chosen.
TextList compile_warnings(const CompileReport *r, Arena *a);

#endif
