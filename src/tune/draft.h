// draft.h -- which other schedules a task may have: legal ones, without building any.
//
// A draft differs from a schedule that is at hand in a few fields.  With `reorder` unset it keeps
// the template and every ORDER field of the default, so that results keep their bits.  With it,
// each other template that takes the kernel gives a draft, with the fields that it would choose.
#ifndef TENON_TUNE_DRAFT_H
#define TENON_TUNE_DRAFT_H

#include "lower/template.h"
#include "tune/task.h"

enum { DRAFT_MOST = 4096, DRAFT_FEATURES = 4 * SCHEDULE_FIELDS };

typedef struct Draft {
  const char *schedule;      // "gemm rows=14 ...", every field
  int nchanged;              // fields that differ from the one at hand; of another template 1
  bool other;                // of another template than the one at hand
  double x[DRAFT_FEATURES];  // how it differs from the default (rank.h); of another template 0
} Draft;
typedef struct DraftList {
  Draft *v;
  int64_t n, cap;
} DraftList;

typedef struct DraftRules {
  bool reorder;
  uint64_t seed;  // of the random ones
  int64_t pairs;  // drafts that differ in two fields or more, at most
} DraftRules;

// Appends the legal schedules near `from` that are not in `seen`, and puts them there.  Equal
// arguments give equal drafts, in the same order.
MUST_USE tenon_status draft_near(TuneModel *m, const TuneTask *t, const char *from,
                                 const DraftRules *rules, StrMap *seen, Arena *a, DraftList *out);
// The features of any schedule beside a default; false: they are of two templates, or none.
bool draft_features(const char *dflt, const char *schedule, Arena *a, double *x);

#endif
