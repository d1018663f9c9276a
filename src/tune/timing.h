// timing.h -- builds and times the kernels of a frame in this process: what a worker does.
//
// Values that do not travel are made from the number of their tensor: the same on every machine.  A
// kernel computes the same bits whichever machine it is built for (loop/loop.h), so the hashes of
// its results can be compared between machines.
#ifndef TENON_TUNE_TIMING_H
#define TENON_TUNE_TIMING_H

#include "tune/frame.h"

// With `rounds` 0 each kernel runs once, for its hash.  A kernel that cannot be built or run has
// TRIAL_FAILED and says why; an error is only what makes all of them useless.
MUST_USE tenon_status timing_run(const FrameTask *t, const Machine *m, int threads, Arena *a,
                                 Diag *d, FrameTimes *out);

#endif
