// records.h -- runs and trials as JSON Lines: what `tenon tune export` writes and `import` reads.
//
//   {"tenon-records": 1, "generator": "..."}
//   {"workload": KEY, "text": "..."}
//   {"run": UID, "machine": "...", "model": "...", "tool": "...", "seed": 0, "reorder": false, ...}
//   {"trial": 0, "phase": "race", "status": "ok", "workload": KEY, "schedule": "...", ...}
//
// Workloads come first, sorted by key; then runs, sorted by their ids; a run's trials follow it.
#ifndef TENON_TUNE_RECORDS_H
#define TENON_TUNE_RECORDS_H

#include "tune/trial.h"

enum { RECORDS_VERSION = 1, RECORD_TEXT_MAX = 1 << 20, RECORD_MODEL = 256 };

typedef struct RunRecord {
  int64_t id;  // in its database; 0: in none
  const char *uid, *machine, *model, *tool;
  int64_t seed, started;
  bool reorder, finished;
} RunRecord;
typedef struct Records {
  RunRecord *run;
  TrialLog *log;  // [nruns]
  int64_t nruns;
  StrMap workload;  // key -> text
} Records;

bool record_check(const Trial *t);  // keys, schedules and samples are what they should be
bool record_check_run(const RunRecord *r);
const char *record_clean(const char *name, Arena *a);  // a model's name as records have it
void record_put_head(StrBuf *b);
void record_put_workload(StrBuf *b, const char *key, Str text);
void record_put_run(StrBuf *b, const RunRecord *r);
void record_put_trial(StrBuf *b, int64_t seq, const Trial *t);

// EFORMAT, with the line, where it is damaged; nothing of it is then used.
MUST_USE tenon_status records_parse(Str text, const char *name, Arena *a, Diag *d, Records *out);
Str records_workload(const Records *r, const char *key);

#endif
