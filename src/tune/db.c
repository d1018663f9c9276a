// db.c -- runs, workloads and trials in SQLite (db.h).
//
// Texts that repeat (machines, workloads, schedules) are rows of their own.  Samples are blobs of
// 8-byte integers in the machine's order, at most TRIAL_SAMPLES of each kind.
//
// Needs:      SQLite 3.24 or newer.
// Guarantees: a transaction is whole or absent.  No text of the file is believed before `is_text`,
//             `is_key` and the bounds of trials have seen it.
#include "tune/db.h"

#include "base/json.h"
#include "base/platform.h"
#include "lower/workload.h"
#include "tune/records.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  VERSION = 1,
  BUSY_MS = 20000,
  EARLIER_MOST = 20000,
  SIMILAR_MOST = 4000,
  PATH_CAP = 4096,
  UID = WORKLOAD_KEY
};

struct Db {
  sqlite3 *sql;
  const char *path;
};

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS text(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);"
    "CREATE TABLE IF NOT EXISTS workload(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,"
    " text TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS run(id INTEGER PRIMARY KEY, uid TEXT NOT NULL UNIQUE,"
    " machine INTEGER NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL, seed INTEGER NOT NULL,"
    " reorder INTEGER NOT NULL, started INTEGER NOT NULL, finished INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS trial(run INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " phase INTEGER NOT NULL, status INTEGER NOT NULL, workload INTEGER NOT NULL,"
    " schedule INTEGER NOT NULL, dflt INTEGER NOT NULL, ns BLOB NOT NULL, anchor_ns BLOB NOT NULL,"
    " code_bytes INTEGER NOT NULL, PRIMARY KEY(run, seq)) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS trial_workload ON trial(workload);"
    "PRAGMA user_version=1;";

// ---- errors ----

static tenon_status failed(const Db *db, Diag *d) {
  int code = sqlite3_errcode(db->sql) & 0xff;
  if (code == SQLITE_NOMEM) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
    return fail(d, TENON_EFORMAT, NOWHERE,
                "%s: the database is damaged (%s); move it away, or give another one by --db",
                db->path, sqlite3_errmsg(db->sql));
  return fail(d, TENON_EIO, NOWHERE, "%s: %s", db->path, sqlite3_errmsg(db->sql));
}

// Without memory SQLite gives empty columns, too.
static tenon_status damaged(const Db *db, const char *what, Diag *d) {
  if ((sqlite3_errcode(db->sql) & 0xff) == SQLITE_NOMEM) return failed(db, d);
  return fail(d, TENON_EFORMAT, NOWHERE,
              "%s: the database is damaged (%s); move it away, or give another one by --db",
              db->path, what);
}

static tenon_status run_sql(Db *db, const char *sql, Diag *d) {
  return sqlite3_exec(db->sql, sql, NULL, NULL, NULL) == SQLITE_OK ? TENON_OK : failed(db, d);
}

static tenon_status prepare(Db *db, const char *sql, Diag *d, sqlite3_stmt **out) {
  return sqlite3_prepare_v2(db->sql, sql, -1, out, NULL) == SQLITE_OK ? TENON_OK : failed(db, d);
}

// One step of a statement that gives no row, and its end.
static tenon_status finish(Db *db, sqlite3_stmt *s, Diag *d) {
  int code = sqlite3_step(s);
  tenon_status status = code == SQLITE_DONE || code == SQLITE_ROW ? TENON_OK : failed(db, d);
  sqlite3_finalize(s);
  return status;
}

static void bind_str(sqlite3_stmt *s, int at, Str text) {
  sqlite3_bind_text64(s, at, text.p ? text.p : "", (sqlite3_uint64)text.n, SQLITE_TRANSIENT,
                      SQLITE_UTF8);
}
static void bind_text(sqlite3_stmt *s, int at, const char *text) { bind_str(s, at, str_of(text)); }

static Str column_str(sqlite3_stmt *s, int at) {
  const char *p = (const char *)sqlite3_column_text(s, at);
  return (Str){p ? p : "", p ? sqlite3_column_bytes(s, at) : 0};
}

// ---- opening ----

static bool default_path(char *out, size_t cap) {
  const char *given = getenv("TENON_TUNE_DB"), *data = getenv("XDG_DATA_HOME"),
             *home = getenv("HOME");
  if (given && *given) return (size_t)snprintf(out, cap, "%s", given) < cap;
  const char *below = data && *data == '/' ? "" : "/.local/share";
  const char *base = *below ? home : data;
  if (!base || *base != '/') return false;
  return (size_t)snprintf(out, cap, "%s%s/tenon/tune.db", base, below) < cap;
}

static void make_folders(char *path) {
  for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
    *p = 0;
    (void)mkdir(path, 0700);
    *p = '/';
  }
}

static tenon_status check_version(Db *db, Diag *d) {
  sqlite3_stmt *s;
  TRY(prepare(db, "PRAGMA user_version", d, &s));
  int code = sqlite3_step(s);
  int version = code == SQLITE_ROW ? sqlite3_column_int(s, 0) : -1;
  tenon_status status = code == SQLITE_ROW ? TENON_OK : failed(db, d);
  sqlite3_finalize(s);
  TRY(status);
  if (version > VERSION || version < 0)
    return fail(d, TENON_EFORMAT, NOWHERE, "%s: it is of version %d, and this one reads up to %d",
                db->path, version, VERSION);
  return TENON_OK;
}

static tenon_status set_up(Db *db, Diag *d) {
  sqlite3_busy_timeout(db->sql, BUSY_MS);
  sqlite3_db_config(db->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config(db->sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  sqlite3_limit(db->sql, SQLITE_LIMIT_LENGTH, RECORD_TEXT_MAX);
  TRY(check_version(db, d));
  TRY(run_sql(db, "PRAGMA cell_size_check=ON; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
              d));
  TRY(run_sql(db, "BEGIN IMMEDIATE", d));
  tenon_status status = run_sql(db, schema, d);
  if (status) {
    sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    return status;
  }
  return run_sql(db, "COMMIT", d);
}

tenon_status db_open(const char *path, Arena *a, Diag *d, Db **out) {
  char found[PATH_CAP];
  *out = NULL;
  if (!path && !default_path(found, sizeof found))
    return fail(d, TENON_EIO, NOWHERE,
                "there is no place for a database: none of TENON_TUNE_DB, XDG_DATA_HOME and HOME "
                "is set; --db F names one, --db none does without");
  if (!path) make_folders(found);
  Db *db = arena_new(a, Db);
  db->path = str_copy(a, str_of(path ? path : found));
  *out = db;  // so that who catches memory that runs out can close it
  int code = sqlite3_open_v2(
      db->path, &db->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL);
  tenon_status status = code == SQLITE_OK ? set_up(db, d)
                        : !db->sql        ? fail(d, TENON_ENOMEM, NOWHERE, "out of memory")
                                          : failed(db, d);
  if (!status) return TENON_OK;
  db_close(db);
  *out = NULL;
  return status;
}

// Where memory ran out, statements may be left: with one the connection would stay.
void db_close(Db *db) {
  if (!db || !db->sql) return;
  for (sqlite3_stmt *s; (s = sqlite3_next_stmt(db->sql, NULL));) sqlite3_finalize(s);
  sqlite3_close_v2(db->sql);
  db->sql = NULL;
}

// ---- writing ----

static tenon_status text_id(Db *db, Str text, Diag *d, int64_t *out) {
  sqlite3_stmt *s;
  TRY(prepare(db, "INSERT INTO text(text) VALUES(?) ON CONFLICT(text) DO NOTHING", d, &s));
  bind_str(s, 1, text);
  TRY(finish(db, s, d));
  TRY(prepare(db, "SELECT id FROM text WHERE text=?", d, &s));
  bind_str(s, 1, text);
  int code = sqlite3_step(s);
  *out = sqlite3_column_int64(s, 0);
  sqlite3_finalize(s);
  return code == SQLITE_ROW ? TENON_OK : failed(db, d);
}

static tenon_status workload_id(Db *db, const char *key, Str text, Diag *d, int64_t *out) {
  sqlite3_stmt *s;
  TRY(prepare(db, "INSERT INTO workload(key, text) VALUES(?, ?) ON CONFLICT(key) DO NOTHING", d,
              &s));
  bind_text(s, 1, key);
  bind_str(s, 2, text);
  TRY(finish(db, s, d));
  TRY(prepare(db, "SELECT id FROM workload WHERE key=?", d, &s));
  bind_text(s, 1, key);
  int code = sqlite3_step(s);
  *out = sqlite3_column_int64(s, 0);
  sqlite3_finalize(s);
  return code == SQLITE_ROW ? TENON_OK : failed(db, d);
}

// Of a trial of the model `key` is a list of workloads, which lies with the schedules.
static tenon_status put_trial(Db *db, int64_t run, int64_t seq, const Trial *t, Str workload,
                              Diag *d) {
  sqlite3_stmt *s;
  int64_t wl = 0, schedule, dflt;
  bool model = t->phase == TRIAL_MODEL;
  if (!model) TRY(workload_id(db, t->key, workload, d, &wl));
  TRY(text_id(db, str_of(model ? t->key : t->schedule), d, &schedule));
  TRY(text_id(db, str_of(t->dflt), d, &dflt));
  TRY(prepare(db, "INSERT INTO trial VALUES(?,?,?,?,?,?,?,?,?,?)", d, &s));
  sqlite3_bind_int64(s, 1, run);
  sqlite3_bind_int64(s, 2, seq);
  sqlite3_bind_int(s, 3, t->phase);
  sqlite3_bind_int(s, 4, t->status);
  sqlite3_bind_int64(s, 5, wl);
  sqlite3_bind_int64(s, 6, schedule);
  sqlite3_bind_int64(s, 7, dflt);
  sqlite3_bind_blob(s, 8, t->ns, t->n * (int)sizeof *t->ns, SQLITE_TRANSIENT);
  sqlite3_bind_blob(s, 9, t->anchor_ns, t->n * (int)sizeof *t->ns, SQLITE_TRANSIENT);
  sqlite3_bind_int64(s, 10, t->code_bytes);
  return finish(db, s, d);
}

static tenon_status put_run(Db *db, const RunRecord *r, Diag *d, int64_t *out) {
  sqlite3_stmt *s;
  int64_t machine;
  TRY(text_id(db, str_of(r->machine), d, &machine));
  TRY(prepare(db,
              "INSERT INTO run(uid,machine,model,tool,seed,reorder,started,finished)"
              " VALUES(?,?,?,?,?,?,?,?)",
              d, &s));
  bind_text(s, 1, r->uid);
  sqlite3_bind_int64(s, 2, machine);
  bind_text(s, 3, r->model);
  bind_text(s, 4, r->tool);
  sqlite3_bind_int64(s, 5, r->seed);
  sqlite3_bind_int(s, 6, r->reorder);
  sqlite3_bind_int64(s, 7, r->started);
  sqlite3_bind_int(s, 8, r->finished);
  TRY(finish(db, s, d));
  *out = sqlite3_last_insert_rowid(db->sql);
  return TENON_OK;
}

static tenon_status end_transaction(Db *db, tenon_status status, Diag *d) {
  if (!status) status = run_sql(db, "COMMIT", d);
  if (status) sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
  return status;
}

tenon_status db_begin_run(Db *db, const TuneModel *m, const char *model, int64_t seed, Diag *d,
                          int64_t *out_run) {
  const char *slash = strrchr(model, '/');
  int64_t now = (int64_t)time(NULL);
  const char *base = record_clean(slash ? slash + 1 : model, m->arena);
  const char *all =
      str_printf(m->arena, "%lld %lld %ld %p %s %s", (long long)now, (long long)platform->now(),
                 (long)getpid(), (const void *)m, base, m->machine_text);
  RunRecord r = {.uid = workload_key(str_of(all), m->arena),
                 .machine = m->machine_text,
                 .model = base,
                 .tool = TENON_VERSION,
                 .seed = seed,
                 .reorder = m->reorder,
                 .started = now};
  TRY(run_sql(db, "BEGIN IMMEDIATE", d));
  return end_transaction(db, put_run(db, &r, d, out_run), d);
}

static Str workload_of(const TuneModel *m, const char *key) {
  for (int64_t i = 0; i < m->ntasks; i++)
    if (!strcmp(m->task[i].key, key)) return str_of(m->task[i].workload);
  return (Str){0};
}

tenon_status db_add_trials(Db *db, int64_t run, const TuneModel *m, const TrialLog *l,
                           int64_t first, Diag *d) {
  tenon_status status = TENON_OK;
  if (first >= l->n) return TENON_OK;
  TRY(run_sql(db, "BEGIN IMMEDIATE", d));
  for (int64_t i = first; !status && i < l->n; i++)
    status = put_trial(db, run, i, l->v[i], workload_of(m, l->v[i]->key), d);
  return end_transaction(db, status, d);
}

tenon_status db_end_run(Db *db, int64_t run, Diag *d) {
  sqlite3_stmt *s;
  TRY(prepare(db, "UPDATE run SET finished=1 WHERE id=?", d, &s));
  sqlite3_bind_int64(s, 1, run);
  return finish(db, s, d);
}

// ---- reading ----

static bool read_samples(sqlite3_stmt *s, int at, int64_t *out, int *n) {
  int bytes = sqlite3_column_bytes(s, at);
  const void *p = sqlite3_column_blob(s, at);
  if (bytes % 8 || bytes / 8 > TRIAL_SAMPLES || (bytes && !p)) return false;
  *n = bytes / 8;
  if (bytes) memcpy(out, p, (size_t)bytes);
  return true;
}

// Columns: phase, status, key, schedule, dflt, ns, anchor_ns, code_bytes.
static tenon_status read_trial(const Db *db, sqlite3_stmt *s, Arena *a, Diag *d, Trial *t) {
  int n, m;
  *t = (Trial){0};
  int phase = sqlite3_column_int(s, 0), status = sqlite3_column_int(s, 1);
  if (phase < 0 || phase >= TRIAL_PHASES || status < 0 || status >= TRIAL_STATUSES ||
      !read_samples(s, 5, t->ns, &n) || !read_samples(s, 6, t->anchor_ns, &m) || n != m)
    return damaged(db, "a trial that is none", d);
  t->phase = (uint8_t)phase;
  t->status = (uint8_t)status;
  t->n = n;
  t->code_bytes = sqlite3_column_int64(s, 7);
  bool model = phase == TRIAL_MODEL;
  t->key = str_copy(a, column_str(s, model ? 3 : 2));
  t->schedule = model ? "" : str_copy(a, column_str(s, 3));
  t->dflt = str_copy(a, column_str(s, 4));
  return record_check(t) ? TENON_OK : damaged(db, "a trial without a key or a schedule", d);
}

#define TRIAL_COLUMNS "t.phase, t.status, w.key, x.text, y.text, t.ns, t.anchor_ns, t.code_bytes"
#define TRIAL_TABLES                                                                               \
  " FROM trial t LEFT JOIN workload w ON w.id=t.workload LEFT JOIN text x ON x.id=t.schedule"      \
  " LEFT JOIN text y ON y.id=t.dflt "

static tenon_status read_trials(Db *db, sqlite3_stmt *s, TrialLog *out, Diag *d) {
  Trial t;
  int code;
  tenon_status status = TENON_OK;
  while (!status && (code = sqlite3_step(s)) == SQLITE_ROW) {
    status = read_trial(db, s, out->arena, d, &t);
    if (!status) trial_log_add(out, &t);
  }
  if (!status && code != SQLITE_DONE) status = failed(db, d);
  sqlite3_finalize(s);
  return status;
}

tenon_status db_earlier(Db *db, const TuneModel *m, TrialLog *out, Diag *d) {
  for (int64_t i = 0; i < m->ntasks; i++) {
    sqlite3_stmt *s;
    TRY(prepare(db,
                "SELECT * FROM (SELECT " TRIAL_COLUMNS ", t.run, t.seq" TRIAL_TABLES
                "JOIN run r ON r.id=t.run JOIN text z ON z.id=r.machine "
                "WHERE w.key=? AND z.text=? AND r.reorder=? AND y.text=? "
                "ORDER BY t.run DESC, t.seq DESC LIMIT ?) ORDER BY 9, 10",
                d, &s));
    bind_text(s, 1, m->task[i].key);
    bind_text(s, 2, m->machine_text);
    sqlite3_bind_int(s, 3, m->reorder);
    bind_text(s, 4, m->task[i].dflt);
    sqlite3_bind_int64(s, 5, EARLIER_MOST / MAX(m->ntasks, 1));
    TRY(read_trials(db, s, out, d));
  }
  return TENON_OK;
}

tenon_status db_similar(Db *db, const TuneModel *m, TrialLog *out, Diag *d) {
  sqlite3_stmt *s;
  TrialLog all = {.arena = out->arena};
  StrMap own;
  TRY(prepare(db,
              "SELECT * FROM (SELECT " TRIAL_COLUMNS ", t.run, t.seq" TRIAL_TABLES
              "JOIN run r ON r.id=t.run JOIN text z ON z.id=r.machine "
              "WHERE z.text=? AND t.phase=? AND t.status<=? "
              "ORDER BY t.run DESC, t.seq DESC LIMIT ?) ORDER BY 9, 10",
              d, &s));
  bind_text(s, 1, m->machine_text);
  sqlite3_bind_int(s, 2, TRIAL_RACE);
  sqlite3_bind_int(s, 3, TRIAL_SLOW);
  sqlite3_bind_int(s, 4, SIMILAR_MOST);
  TRY(read_trials(db, s, &all, d));
  strmap_init(&own, out->arena);
  for (int64_t i = 0; i < m->ntasks; i++) strmap_put(&own, str_of(m->task[i].key), &own);
  for (int64_t i = 0; i < all.n; i++)
    if (!strmap_has(&own, str_of(all.v[i]->key))) vec_push(out->arena, out, all.v[i]);
  return TENON_OK;
}

static tenon_status trials_of(Db *db, int64_t run, TrialLog *out, Diag *d) {
  sqlite3_stmt *s;
  TRY(prepare(db, "SELECT " TRIAL_COLUMNS TRIAL_TABLES "WHERE t.run=? ORDER BY t.seq", d, &s));
  sqlite3_bind_int64(s, 1, run);
  return read_trials(db, s, out, d);
}

// Columns: id, uid, machine, model, tool, seed, reorder, started, finished.
#define RUN_COLUMNS                                                                                \
  "SELECT r.id, r.uid, z.text, r.model, r.tool, r.seed, r.reorder, r.started, r.finished "         \
  "FROM run r JOIN text z ON z.id=r.machine "

static tenon_status read_run(const Db *db, sqlite3_stmt *s, Arena *a, Diag *d, RunRecord *r) {
  *r = (RunRecord){.id = sqlite3_column_int64(s, 0),
                   .uid = str_copy(a, column_str(s, 1)),
                   .machine = str_copy(a, column_str(s, 2)),
                   .model = str_copy(a, column_str(s, 3)),
                   .tool = str_copy(a, column_str(s, 4)),
                   .seed = sqlite3_column_int64(s, 5),
                   .reorder = sqlite3_column_int(s, 6) != 0,
                   .started = sqlite3_column_int64(s, 7),
                   .finished = sqlite3_column_int(s, 8) != 0};
  return record_check_run(r) ? TENON_OK : damaged(db, "a run that is none", d);
}

typedef struct RunList {
  RunRecord *v;
  int64_t n, cap;
} RunList;

static tenon_status runs_of(Db *db, const char *order, Arena *a, Diag *d, RunList *out) {
  sqlite3_stmt *s;
  int code;
  tenon_status status = TENON_OK;
  TRY(prepare(db, str_printf(a, RUN_COLUMNS "ORDER BY %s", order), d, &s));
  while (!status && (code = sqlite3_step(s)) == SQLITE_ROW) {
    RunRecord r;
    status = read_run(db, s, a, d, &r);
    if (!status) vec_push(a, out, r);
  }
  if (!status && code != SQLITE_DONE) status = failed(db, d);
  sqlite3_finalize(s);
  return status;
}

tenon_status db_replay(Db *db, int64_t run, Arena *a, Diag *d, TunedSchedules *out) {
  RunList l = {0};
  TrialLog log = {.arena = a};
  TRY(runs_of(db, "r.id", a, d, &l));
  for (int64_t i = 0; i < l.n; i++) {
    if (l.v[i].id != run) continue;
    TRY(trials_of(db, run, &log, d));
    tune_decide(&log, l.v[i].machine, l.v[i].reorder, a, out);
    return TENON_OK;
  }
  return fail(d, TENON_EINVAL, NOWHERE, "%s: there is no run %lld; `tenon tune list` prints them",
              db->path, (long long)run);
}

// ---- list, export, import ----

tenon_status db_list(Db *db, StrBuf *out, Arena *a, Diag *d) {
  RunList l = {0};
  TRY(runs_of(db, "r.id", a, d, &l));
  strbuf_printf(out, "%s: %lld runs\n", db->path, (long long)l.n);
  for (int64_t i = 0; i < l.n; i++) {
    TrialLog log = {.arena = a};
    TunedSchedules s;
    TRY(trials_of(db, l.v[i].id, &log, d));
    tune_decide(&log, l.v[i].machine, l.v[i].reorder, a, &s);
    double gain = 1;
    for (int64_t k = 0; k < log.n; k++)
      if (log.v[k]->phase == TRIAL_MODEL) gain = s.n ? trial_gain(log.v[k]) : 1;
    strbuf_printf(out, "%6lld  %-32s %6lld trials  %3lld kernels  %.3f%s\n", (long long)l.v[i].id,
                  l.v[i].model, (long long)log.n, (long long)s.n, gain,
                  l.v[i].finished ? "" : "  not finished");
  }
  return TENON_OK;
}

static tenon_status export_workloads(Db *db, StrBuf *out, Arena *a, Diag *d) {
  sqlite3_stmt *s;
  int code;
  tenon_status status = TENON_OK;
  TRY(prepare(db, "SELECT key, text FROM workload ORDER BY key", d, &s));
  while (!status && (code = sqlite3_step(s)) == SQLITE_ROW) {
    const char *key = str_copy(a, column_str(s, 0));
    Str text = column_str(s, 1);
    if (strcmp(workload_key(text, a), key)) status = damaged(db, "a workload with another key", d);
    if (!status) record_put_workload(out, key, text);
  }
  if (!status && code != SQLITE_DONE) status = failed(db, d);
  sqlite3_finalize(s);
  return status;
}

tenon_status db_export(Db *db, StrBuf *out, Arena *a, Diag *d) {
  RunList l = {0};
  TRY(run_sql(db, "BEGIN", d));  // one state of the file for all that is read
  record_put_head(out);
  tenon_status status = export_workloads(db, out, a, d);
  if (!status) status = runs_of(db, "r.uid", a, d, &l);
  for (int64_t i = 0; !status && i < l.n; i++) {
    TrialLog log = {.arena = a};
    record_put_run(out, &l.v[i]);
    status = trials_of(db, l.v[i].id, &log, d);
    for (int64_t k = 0; !status && k < log.n; k++) record_put_trial(out, k, log.v[k]);
  }
  sqlite3_exec(db->sql, "COMMIT", NULL, NULL, NULL);
  return status;
}

static tenon_status has_run(Db *db, const char *uid, Diag *d, bool *out) {
  sqlite3_stmt *s;
  TRY(prepare(db, "SELECT 1 FROM run WHERE uid=?", d, &s));
  bind_text(s, 1, uid);
  int code = sqlite3_step(s);
  *out = code == SQLITE_ROW;
  sqlite3_finalize(s);
  return code == SQLITE_ROW || code == SQLITE_DONE ? TENON_OK : failed(db, d);
}

static tenon_status add_records(Db *db, const Records *r, Diag *d, int64_t *added) {
  for (int64_t i = 0; i < r->nruns; i++) {
    int64_t id;
    bool there;
    TRY(has_run(db, r->run[i].uid, d, &there));
    if (there) continue;
    TRY(put_run(db, &r->run[i], d, &id));
    for (int64_t k = 0; k < r->log[i].n; k++) {
      const Trial *t = r->log[i].v[k];
      Str text = t->phase == TRIAL_MODEL ? (Str){0} : records_workload(r, t->key);
      TRY(put_trial(db, id, k, t, text, d));
    }
    ++*added;
  }
  return TENON_OK;
}

tenon_status db_import(Db *db, Str text, const char *name, Arena *a, Diag *d, int64_t *out_added) {
  Records r;
  *out_added = 0;
  TRY(records_parse(text, name, a, d, &r));
  TRY(run_sql(db, "BEGIN IMMEDIATE", d));
  tenon_status status = end_transaction(db, add_records(db, &r, d, out_added), d);
  if (status) *out_added = 0;
  return status;
}
