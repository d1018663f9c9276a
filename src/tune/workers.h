// workers.h -- workers of a tuner: other machines that time kernels, each at the end of a command.
//
// A round's schedules are shared out among the workers, each with the default beside its own.  What
// a worker says is checked: frames, the number and the sum of its times, the hashes of results
// against those computed here, and the times of a copy of the default among the schedules.  A
// worker that dies, is silent for too long, sends something else or is wrong is dropped with its
// reason; its share goes to the others.
#ifndef TENON_TUNE_WORKERS_H
#define TENON_TUNE_WORKERS_H

#include "tune/measure.h"

typedef struct Workers Workers;
enum { WORKERS_MOST = 16 };

typedef struct WorkersOptions {
  const char *const *command;  // [n] for sh
  int64_t n;
  int threads;      // for code that checks them
  double patience;  // seconds that a worker may be silent on top of the time of its runs
} WorkersOptions;

// Starts all of them.  They must be machines of one kind: that of the first which answers.  Those
// that do not are dropped; EIO where none is left.
MUST_USE tenon_status workers_open(const WorkersOptions *o, Arena *a, Diag *d, Workers **out);
void workers_close(Workers *w);  // NULL is fine
const Machine *workers_machine(const Workers *w);
int64_t workers_left(const Workers *w);
// Why the i-th one was dropped, in the order of dropping; NULL: no more were.
const char *workers_dropped(const Workers *w, int64_t i);

typedef struct WorkersRace {
  TrialPhase phase;  // TRIAL_RACE: quick code, and who is behind leaves
  int rounds;
  double seconds;
} WorkersRace;
// Trials of n schedules of a task.  EIO: no worker is left.
MUST_USE tenon_status workers_measure(Workers *w, TuneModel *m, const TuneTask *t,
                                      const char *const *schedule, int64_t n, const WorkersRace *r,
                                      Trial *out);
// What the task's default takes one run.
MUST_USE tenon_status workers_time(Workers *w, TuneModel *m, const TuneTask *t, double *out_ns);

#endif
