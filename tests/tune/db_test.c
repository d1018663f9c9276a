// db_test.c -- the tuner's database when memory runs out, SQLite's or our own: an error, and a
// database that is as it was.
#include "base/platform.h"
#include "lower/workload.h"
#include "test.h"
#include "tune/db.h"
#include "tune/records.h"

#include <sqlite3.h>
#include <unistd.h>

// ---- memory of SQLite and ours that fails ----

static sqlite3_mem_methods usual;
static int64_t allow = INT64_MAX;
static bool ours;  // which of the two

static bool denied(bool own) { return own == ours && allow-- <= 0; }
static void *sql_malloc(int n) { return denied(false) ? NULL : usual.xMalloc(n); }
static void *sql_realloc(void *p, int n) { return denied(false) ? NULL : usual.xRealloc(p, n); }
static void *own_alloc(int64_t bytes) { return denied(true) ? NULL : platform_posix.alloc(bytes); }

static bool fail_sqlite(void) {
  sqlite3_mem_methods m;
  if (sqlite3_shutdown() || sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual)) return false;
  m = usual;
  m.xMalloc = sql_malloc;
  m.xRealloc = sql_realloc;
  return !sqlite3_config(SQLITE_CONFIG_MALLOC, &m) && !sqlite3_initialize();
}

// ---- what is done ----

static const char *sample(Arena *a) {
  StrBuf b;
  const char *key = workload_key(STR("w"), a);
  RunRecord r = {.uid = "0123456789abcdef0123456789abcdef",
                 .machine = "0123456789abcdef vector=64",
                 .model = "m.onnx",
                 .tool = "0.1",
                 .finished = true};
  Trial t = {.phase = TRIAL_CONFIRM,
             .key = key,
             .schedule = "gemm rows=2",
             .dflt = "gemm rows=1",
             .n = 4,
             .ns = {10, 10, 10, 10},
             .anchor_ns = {20, 20, 20, 20}};
  strbuf_init(&b, a);
  record_put_head(&b);
  record_put_workload(&b, key, STR("w"));
  record_put_run(&b, &r);
  for (int i = 0; i < 3; i++) record_put_trial(&b, i, &t);
  return strbuf_text(&b);
}

typedef struct Done {
  bool imported;
  Str text;  // exported
} Done;

static tenon_status use(const char *path, Str records, Arena *a, Diag *d, Db **db, Done *out) {
  StrBuf b;
  TunedSchedules s;
  int64_t added;
  TRY(db_open(path, a, d, db));
  TRY(db_import(*db, records, "f", a, d, &added));
  out->imported = true;
  TRY(db_replay(*db, 1, a, d, &s));
  EXPECT_INT_EQ(s.n, 1);
  strbuf_init(&b, a);
  TRY(db_list(*db, &b, a, d));
  strbuf_init(&b, a);
  TRY(db_export(*db, &b, a, d));
  out->text = strbuf_str(&b);
  return TENON_OK;
}

static tenon_status try_use(const char *path, Str records, Arena *a, Done *out) {
  static Diag d;
  Db *volatile db = NULL;
  Trap t;
  diag_init(&d);
  *out = (Done){0};
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = use(path, records, a, &d, (Db **)(uintptr_t)&db, out);
  trap_leave(&t);
  db_close(db);
  EXPECT(!t.status == !d.len);
  return t.status;
}

static void remove_db(const char *path, Arena *a) {
  unlink(path);
  unlink(str_printf(a, "%s-wal", path));
  unlink(str_printf(a, "%s-shm", path));
}

// With each allocation failing in turn, and then without: whole or not there, never torn.
static void fail_each(bool own) {
  Arena outer;
  arena_init(&outer);
  ours = own;
  const char *path = str_printf(&outer, "%s/%s.db", test_folder(), own ? "own" : "sqlite");
  Str records = str_of(sample(&outer));
  Platform p = platform_posix;
  p.alloc = own_alloc;
  p.chunk_bytes = own ? 0 : platform_posix.chunk_bytes;
  tenon_status status = TENON_ENOMEM;
  int64_t k = 0;
  for (; status && k < 100000; k += 1 + k / 8) {
    Arena a;
    Done done, again;
    remove_db(path, &outer);
    platform = &p;
    arena_init(&a);
    allow = k;
    status = try_use(path, records, &a, &done);
    allow = INT64_MAX;
    platform = &platform_posix;
    if (status && status != TENON_ENOMEM && status != TENON_EIO)
      FAIL("allocation %lld: status %d", (long long)k, (int)status);
    if (!status) EXPECT(str_eq(done.text, records));
    EXPECT_STATUS(try_use(path, records, &outer, &again), TENON_OK);
    EXPECT(str_eq(again.text, records));
    arena_deinit(&a);
  }
  EXPECT(k > 10 && !status);
  arena_deinit(&outer);
}

TEST(tune_db_without_memory) {
  if (!fail_sqlite()) SKIP("this SQLite takes no other allocator");
  fail_each(false);
  fail_each(true);
}
