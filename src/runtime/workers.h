// workers.h -- the threads of a session: one job at a time, split into as many parts as there are
// threads.
//
// Between jobs workers spin for a short while, then sleep, so that kernels follow one another
// within a fraction of a microsecond and an idle session costs nothing.  The caller is thread 0.
#ifndef TENON_RUNTIME_WORKERS_H
#define TENON_RUNTIME_WORKERS_H

#include "base/platform.h"

typedef struct Workers Workers;
typedef void WorkersFn(void *ctx, int thread, int nthreads);

// 0 threads: what affinity and cgroup allow.  Fewer are started where the system refuses more;
// NULL: out of memory.
Workers *workers_create(int nthreads);
void workers_free(Workers *w);  // NULL is fine
int workers_count(const Workers *w);
int workers_asleep(Workers *w);  // how many sleep now, without a job for a while
// Calls fn once for each thread, and returns when all have.  What they wrote is then seen by the
// caller.
void workers_run(Workers *w, WorkersFn *fn, void *ctx);
// Calls fn in the caller, and in every other thread that comes before the caller's call returns: fn
// takes its work from what all share, and returns when none is left.  A thread that the system
// keeps waiting then holds up nobody.
void workers_share(Workers *w, WorkersFn *fn, void *ctx);

#endif
