// trial.h -- what a run of the tuner measured, and what follows from it.
//
// The search sees time through trials alone, and its result is a function of them: tune_decide.  So
// `tenon tune replay` gives the same file of schedules.
#ifndef TENON_TUNE_TRIAL_H
#define TENON_TUNE_TRIAL_H

#include "lower/schedule.h"

typedef enum {
  TRIAL_RACE,     // quick code, few runs: who goes on
  TRIAL_CONFIRM,  // full code, many runs beside the default: what counts
  TRIAL_MODEL,    // the whole model with a set of schedules beside the default: `keys`
  TRIAL_ENERGY,   // as TRIAL_CONFIRM; samples are nanojoules of a run above the machine's at rest
  TRIAL_EDP,      // the same times the run's time: femtojoule-seconds
  TRIAL_PHASES
} TrialPhase;
typedef enum {
  TRIAL_OK,
  TRIAL_SLOW,    // dropped in a race
  TRIAL_FAILED,  // it could not be built or run
  TRIAL_WRONG,   // results had other bits
  TRIAL_STATUSES
} TrialStatus;
extern const char *const trial_phase_name[TRIAL_PHASES];
extern const char *const trial_status_name[TRIAL_STATUSES];

enum { TRIAL_SAMPLES = 64 };

typedef struct Trial {
  uint8_t phase, status;
  const char *key;       // of the workload; of TRIAL_MODEL the keys that were reverted, with spaces
  const char *schedule;  // "" of TRIAL_MODEL
  const char *dflt;      // the default's
  int n;
  int64_t ns[TRIAL_SAMPLES],
      anchor_ns[TRIAL_SAMPLES];  // interleaved: the schedule's, the default's
                                 // (of TRIAL_MODEL in the unit of the phase that confirms)
  int64_t code_bytes;
} Trial;
typedef struct TrialLog {
  Arena *arena;
  Trial **v;
  int64_t n, cap;
} TrialLog;

void trial_log_add(TrialLog *l, const Trial *t);
// The median of anchor over own times: above 1 is faster.  0: it has none.
double trial_gain(const Trial *t);
// Of the same ratios the lower quartile: what is left of the gain when noise is against it.
double trial_sure_gain(const Trial *t);
// Whether its samples are times of a kernel.
bool trial_is_time(const Trial *t);
// Whether a confirmed schedule is taken.
bool trial_wins(const Trial *t);
// The best confirmed schedule of each workload that wins and that no later TRIAL_MODEL reverted.
// Where there are trials of energy, or of its product with time, those confirm.
void tune_decide(const TrialLog *l, const char *machine, bool reorder, Arena *a,
                 TunedSchedules *out);

#endif
