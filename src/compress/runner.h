// runner.h -- a graph compiled for the data set's samples, and run on them one at a time.
#ifndef TENON_COMPRESS_RUNNER_H
#define TENON_COMPRESS_RUNNER_H

#include "compile/compile.h"
#include "compress/data.h"
#include "runtime/session.h"

typedef struct RunnerOptions {
  const Target *target;
  int threads;         // 0: what affinity and cgroup allow
  bool profile;        // time of every step
  const Watch *watch;  // told of samples, too; may be NULL
  int64_t max_bytes;   // of the values of a run; 0: the machine's memory
} RunnerOptions;
typedef struct Runner {
  Arena arena;
  Program *program;
  Session *session;
  int64_t nresults, max_bytes;
  CompileReport made;
  Run run;  // of the last sample
  bool running;
} Runner;

// Compiles the main body of `g`, which stays as it was.  *out begins as zeros; its owner closes it,
// also after a failure.
MUST_USE tenon_status runner_open(Graph *g, const RunnerOptions *o, Diag *d, Runner *out);
void runner_close(Runner *r);  // one of zeros is fine
// One sample.  *out are the values of its results, up to the next sample or runner_close.
MUST_USE tenon_status runner_run(Runner *r, const Dataset *s, int64_t sample, Diag *d,
                                 Value *const **out);

#endif
