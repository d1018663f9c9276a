// choose.h -- which groups are quantised: from coded runs to the time and error of each group, and
// from those to choices between the fastest and the most exact.
//
// A coded run quantises half of the groups, by a row of a Hadamard matrix.  Each group's figures
// follow from all runs together, with less noise than a run for each group would have.  Time and
// error are sums over quantised groups; a tensor that goes from a quantised group to one in floats,
// or back, has a price by byte.  The cheapest choices for a weight of the error are a minimum cut.
#ifndef TENON_COMPRESS_CHOOSE_H
#define TENON_COMPRESS_CHOOSE_H

#include "base/base.h"

typedef struct ChoosePair {  // groups joined by a tensor
  int32_t a, b;
  double bytes;
} ChoosePair;
typedef struct ChooseProblem {
  int64_t n;           // groups
  const double *work;  // [n] shares of the operations, which sum to 1
  VEC(ChoosePair) pair;
} ChooseProblem;
typedef struct CodedRun {
  const bool *on;    // [n] what was quantised
  double ns, error;  // against the model in floats
} CodedRun;
typedef VEC(CodedRun) CodedRuns;
typedef struct ChooseModel {
  double *ns, *error;  // [n] that quantising a group adds
  double pair_ns;      // by byte
} ChooseModel;
typedef VEC(const bool *) ChoicePath;

enum { CODED_RUNS_MOST = 64 };
int64_t choose_runs(int64_t groups);
// Run 0 quantises all groups.
void choose_pattern(int64_t run, int64_t n, bool *on);
// `noise_ns`: of a run's time.
void choose_fit(const ChooseProblem *p, const CodedRuns *runs, double noise_ns, Arena *a,
                ChooseModel *out);
double choose_ns(const ChooseProblem *p, const ChooseModel *m, const bool *on);
double choose_error(const ChooseProblem *p, const ChooseModel *m, const bool *on);
// Different choices, each the cheapest for some weight of the error: from the fastest to the most
// exact.
void choose_path(const ChooseProblem *p, const ChooseModel *m, Arena *a, ChoicePath *out);

#endif
