// worker.h -- `tenon tune worker`: times kernels for a tuner elsewhere, over standard input and
// output.
#ifndef TENON_TUNE_WORKER_H
#define TENON_TUNE_WORKER_H

#include "tune/frame.h"

// Says what machine this is, and answers tasks until the input ends.  EFORMAT: the input is none.
MUST_USE tenon_status worker_serve(int in, int out, int threads, Diag *d);

#endif
