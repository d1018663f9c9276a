// measure.h -- builds schedules of a task, and times them beside its default.
#ifndef TENON_TUNE_MEASURE_H
#define TENON_TUNE_MEASURE_H

#include "compile/compile.h"
#include "tune/task.h"
#include "tune/trial.h"

typedef struct Rival {
  const char *schedule;
  TrialStatus status;
  Program *program;
  Session *session;
  int64_t code_bytes;
  ResultRoom *room;  // results of the first run, where later ones go
  bool out;          // left the race
  int n;
  int64_t ns[TRIAL_SAMPLES];
} Rival;

typedef struct Stage {  // where rivals of one task meet; rival 0 is the default
  TuneModel *m;
  const TuneTask *task;
  Arena arena;
  Run run;  // holds the results that rooms lie in
  Rival *rival;
  int64_t n;
  bool reorder;    // other bits are no fault
  bool processor;  // by processor time, which is too coarse for short kernels
  char *cold;      // what is read between runs, so that weights are as cold as in the model
  int64_t cold_bytes;
} Stage;

typedef struct Building {  // what is built of a stage
  CompileReport *report;   // by rival
  Str *text;
  int64_t *of, n;  // rivals that have a text
} Building;

// The loops of the default and of these schedules; what has none of its own is out.
MUST_USE tenon_status stage_lower(Stage *s, TuneModel *m, const TuneTask *t,
                                  const char *const *schedule, int64_t n, Building *b);
// Builds the default and these schedules, in parallel.  What cannot be built, or has other bits
// than the default, is out and has a status.
MUST_USE tenon_status stage_open(Stage *s, TuneModel *m, const TuneTask *t,
                                 const char *const *schedule, int64_t n, bool quick);
// Runs all, one after another: `rounds` times, or until the time is over (but at least twice). With
// `drop` those that are far behind leave after some rounds.
MUST_USE tenon_status stage_race(Stage *s, int rounds, int64_t until, bool drop);
// Runs all, one after another, each for a part of a second: `rounds` times, or until the time is
// over (but at least twice).  Samples are in the unit of TuneModel.confirm.
MUST_USE tenon_status stage_energy(Stage *s, int rounds, int64_t until);
void stage_trial(const Stage *s, int64_t i, TrialPhase phase, Trial *out);
void stage_close(Stage *s);

// The model with these schedules and without, interleaved.
MUST_USE tenon_status measure_model(TuneModel *m, const TunedSchedules *s, int rounds,
                                    int64_t until, Trial *out);

#endif
