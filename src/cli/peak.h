// peak.h -- what this machine can do at most, measured: f32 operations and bytes a second.
#ifndef TENON_CLI_PEAK_H
#define TENON_CLI_PEAK_H

#include "base/base.h"

typedef struct Peak {
  double flops;      // multiplications and additions of f32 a second, on all the threads together
  double bandwidth;  // bytes of memory read a second
  int threads;
} Peak;

// Takes about half a second.
MUST_USE tenon_status peak_measure(int threads, Diag *d, Peak *out);
// The figures of an earlier measurement on this machine, else new ones, which are then kept.
MUST_USE tenon_status peak_get(int threads, Diag *d, Peak *out);
// Measures, and keeps the figures; *out_file, which may be NULL, gets where, or "" when they cannot be kept.
MUST_USE tenon_status peak_renew(int threads, Arena *a, Diag *d, Peak *out, const char **out_file);

#endif
