// report.h -- `tenon bench --report`: models measured over the values of options, as one page.
//
// An axis is an option of `tenon bench` with the values to try; a case is one model with one value
// of each axis.  Cases lie in the order of models, then axes, the last one fastest.
#ifndef TENON_CLI_BENCH_REPORT_H
#define TENON_CLI_BENCH_REPORT_H

#include "cli/bench/peak.h"
#include "cli/compare/subject.h"

enum { MAX_AXES = 8, MAX_CASES = 1000 };

typedef struct Axis {
  const char *option;
  const char *const *value;  // [n]
  int64_t n;
} Axis;

typedef struct Case {
  const char *model;
  const char *value[MAX_AXES];  // NULL: the model has no use for the option
  int64_t batch;                // items of a run; 1 where nothing is said
  Figures figures;
  const char *why;  // it failed: no figures; NULL: it did not
} Case;

typedef struct Report {
  const char *machine;
  const char *when;  // the day
  const char *command;
  Peak peak;  // of all threads
  Axis axis[MAX_AXES];
  int naxes;
  Case *item;  // [n]
  int64_t n;
} Report;

int bench_report(Cli *c);
// A page of its own: no script, nothing that is loaded from elsewhere.
void report_html(const Report *r, Arena *a, StrBuf *out);

#endif
