// train.h -- learns corrections of what templates choose from the records of many runs.
//
// A task is a workload on a machine; what counts of it is the gain of each schedule that differs
// from the default in one FREE field.  For each template rules are chosen one after another, each
// the one that saves most over the tasks that no earlier rule covers.  A template's rules are kept
// only where they gain on workloads that they were not chosen by (five folds), and where rules of
// other machines lose on no machine.  Then all tasks choose the rules.
//
// Equal records give equal bytes, in whatever order they come.
#ifndef TENON_TUNE_TRAIN_H
#define TENON_TUNE_TRAIN_H

#include "lower/residual.h"
#include "tune/records.h"

typedef struct TrainScore {  // of rules on tasks that did not choose them
  int64_t tasks, affected;   // that there are; whose default a rule changes
  double gain;               // geometric mean over the affected ones; 1: none
  double least;              // likewise
  double recovered;          // of the gain that the best schedule has, over all tasks: 0 to 1
} TrainScore;

typedef struct TrainTemplate {
  const char *name;
  TrainScore held_out;
  int64_t first, n;  // rules, when it is kept; n 0: none are
} TrainTemplate;
typedef struct TrainMachine {  // left out, and all others have chosen the rules
  const char *name;            // "vector=64"
  TrainScore score;
} TrainMachine;
typedef struct Training {
  int64_t tasks;
  ResidualRule *rule;
  int64_t nrules;
  TrainTemplate *of;
  int64_t ntemplates;
  TrainMachine *machine;
  int64_t nmachines;
} Training;

void train(const Records *r, Arena *a, Training *out);
void train_print(const Training *t, StrBuf *out);  // the text of cost/residual.def

#endif
