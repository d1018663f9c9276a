// db.h -- the database of runs of the tuner (SQLite, in WAL mode).
//
// Any number of processes may use one database.  The trials of a round are one transaction, so a
// process that is killed loses the round that it was at.  What is read is checked like any input:
// kinds and lengths of all columns, keys, schedules as text.  No names of hosts or users are kept.
#ifndef TENON_TUNE_DB_H
#define TENON_TUNE_DB_H

#include "tune/task.h"
#include "tune/trial.h"

typedef struct Db Db;

// NULL: TENON_TUNE_DB, else tenon/tune.db below XDG_DATA_HOME or ~/.local/share, with its folders.
MUST_USE tenon_status db_open(const char *path, Arena *a, Diag *d, Db **out);
void db_close(Db *db);  // NULL is fine

MUST_USE tenon_status db_begin_run(Db *db, const TuneModel *m, const char *model, int64_t seed,
                                   Diag *d, int64_t *out_run);
// The trials of the log from `first` on, with their numbers in it.
MUST_USE tenon_status db_add_trials(Db *db, int64_t run, const TuneModel *m, const TrialLog *l,
                                    int64_t first, Diag *d);
MUST_USE tenon_status db_end_run(Db *db, int64_t run, Diag *d);
// What earlier runs on this machine measured of the model's workloads, in their order.
MUST_USE tenon_status db_earlier(Db *db, const TuneModel *m, TrialLog *out, Diag *d);
// The latest trials of other kernels on this machine, oldest first.
MUST_USE tenon_status db_similar(Db *db, const TuneModel *m, TrialLog *out, Diag *d);
// The schedules that follow from a run's trials.
MUST_USE tenon_status db_replay(Db *db, int64_t run, Arena *a, Diag *d, TunedSchedules *out);

MUST_USE tenon_status db_list(Db *db, StrBuf *out, Arena *a, Diag *d);  // a line each, for people
// All runs as JSON Lines: workloads by key, runs by their own ids, each before its trials.
MUST_USE tenon_status db_export(Db *db, StrBuf *out, Arena *a, Diag *d);
// Adds the runs of such a text that are not there; all of them or, on failure, none.
MUST_USE tenon_status db_import(Db *db, Str text, const char *name, Arena *a, Diag *d,
                                int64_t *out_added);

#endif
