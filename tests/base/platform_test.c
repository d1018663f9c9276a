// platform_test.c -- memory, files and threads, each made to fail through a table of the test's
// own.
#include "test.h"
#include "base/platform.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- memory ----

TEST(alloc_zeroed_and_aligned) {
  int64_t sizes[] = {0, 1, 63, 64, 65, 4096, 1 << 20, (1 << 20) + 1, 80 << 20};
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < ARRAY_LEN(sizes); i++) {
      int64_t n = sizes[i];
      uint8_t *p = mem_alloc(n);
      REQUIRE(p);
      if (n >= 64) EXPECT((uintptr_t)p % 64 == 0);
      for (int64_t k = 0; k < n; k += 509) EXPECT(p[k] == 0);
      if (n) EXPECT(p[n - 1] == 0);
      memset(p, 0xAA, (size_t)MIN(n, 1 << 20));
      mem_free(p, n);
    }
  EXPECT(!mem_alloc(-1));
  EXPECT(!mem_alloc(INT64_MIN));
  EXPECT(!mem_alloc(INT64_MAX));
  EXPECT(!mem_alloc(INT64_C(1) << 50));
  mem_free(NULL, 10);
}

// A table that lets `allow` calls through and fails all later ones.
static int64_t allow;
static int64_t live_blocks;
static void *counted_alloc(int64_t bytes) {
  if (allow-- <= 0) return NULL;
  live_blocks++;
  return platform_posix.alloc(bytes);
}
static void counted_free(void *p, int64_t bytes) {
  live_blocks--;
  platform_posix.free(p, bytes);
}

static int64_t use_much(void) {
  Arena a;
  Diag d;
  Trap t;
  diag_init(&d);
  arena_init(&a);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    StrMap m;
    strmap_init(&m, &a);
    for (int i = 0; i < 3000; i++) strmap_put(&m, str_of(str_printf(&a, "k%d", i)), &a);
  }
  trap_leave(&t);
  arena_deinit(&a);
  EXPECT_INT_EQ(live_blocks, 0);
  if (t.status) EXPECT_STATUS(t.status, TENON_ENOMEM);
  return t.status == TENON_OK;
}

TEST(alloc_failing_at_every_point) {
  Platform p = platform_posix;
  p.alloc = counted_alloc;
  p.free = counted_free;
  platform = &p;
  int64_t k = 0;
  for (;; k++) {
    allow = k;
    live_blocks = 0;
    if (use_much()) break;
  }
  platform = &platform_posix;
  EXPECT(k > 5);
}

// ---- files ----

static char folder[64];
static const char *in_folder(const char *name) {
  static char path[2][160];
  static int turn;
  if (!folder[0]) {
    strcpy(folder, "/tmp/tenon-test-XXXXXX");
    if (!mkdtemp(folder)) folder[0] = 0;
  }
  turn ^= 1;
  snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
  return path[turn];
}
static void remove_folder(void) {
  rmdir(folder);
  folder[0] = 0;
}

TEST(file_round_trip) {
  static Diag d;
  File f;
  diag_init(&d);
  const char *path = in_folder("a");
  EXPECT_STATUS(file_write(path, "hello", 5, &d), TENON_OK);
  EXPECT_STATUS(file_open(path, &f, &d), TENON_OK);
  EXPECT(f.size == 5 && f.mapped && !memcmp(f.bytes, "hello", 5));
  file_close(&f);
  EXPECT_STATUS(file_write(path, NULL, 0, &d), TENON_OK);
  EXPECT_STATUS(file_open(path, &f, &d), TENON_OK);
  EXPECT(f.size == 0);
  file_close(&f);
  EXPECT_STR_EQ(d.text, "");
  unlink(path);
  remove_folder();
}

TEST(file_open_refuses) {
  static Diag d;
  File f;
  diag_init(&d);
  EXPECT_STATUS(file_open("/no/such/file", &f, &d), TENON_EIO);
  EXPECT_CONTAINS(d.text, "/no/such/file: cannot open: ");
  EXPECT_STATUS(file_open("/tmp", &f, &d), TENON_EIO);
  EXPECT_STATUS(file_open("/dev/zero", &f, &d), TENON_EIO);
  EXPECT_CONTAINS(d.text, "/dev/zero: not a regular file");
  const char *fifo = in_folder("fifo");
  REQUIRE(mkfifo(fifo, 0600) == 0);
  EXPECT_STATUS(file_open(fifo, &f, &d), TENON_EIO);
  unlink(fifo);
  remove_folder();
}

static int no_map(int fd, int64_t bytes, const void **out) {
  (void)fd, (void)bytes;
  *out = NULL;
  return ENOMEM;
}

TEST(file_open_out_of_memory) {
  static Diag d;
  File f;
  const char *path = in_folder("a");
  diag_init(&d);
  EXPECT_STATUS(file_write(path, "x", 1, &d), TENON_OK);
  Platform p = platform_posix;
  p.map = no_map;
  platform = &p;
  EXPECT_STATUS(file_open(path, &f, &d), TENON_ENOMEM);
  platform = &platform_posix;
  unlink(path);
  remove_folder();
}

static int read_some(int fd, void *p, int64_t bytes, int64_t *out_got) {
  (void)fd;
  static int64_t left;
  if (left == 0) left = 300001;
  *out_got = MIN(MIN(bytes, 777), left - 1);
  left -= *out_got;
  if (*out_got == 0) left = 0;
  memset(p, 'x', (size_t)*out_got);
  return 0;
}

TEST(file_open_standard_input) {
  static Diag d;
  File f;
  diag_init(&d);
  Platform p = platform_posix;
  p.read = read_some;
  platform = &p;
  EXPECT_STATUS(file_open("-", &f, &d), TENON_OK);
  EXPECT(f.size == 300000 && !f.mapped && f.bytes[299999] == 'x');
  file_close(&f);
  for (allow = 0; allow < 4;) {
    int64_t k = allow;
    p.alloc = counted_alloc;
    p.free = counted_free;
    live_blocks = 0;
    EXPECT_STATUS(file_open("-", &f, &d), TENON_ENOMEM);
    EXPECT_INT_EQ(live_blocks, 0);
    allow = k + 1;
    // The input goes on from where the last attempt stopped; read it to its end.
    int64_t got = 1;
    char rest[777];
    while (got) read_some(0, rest, sizeof(rest), &got);
  }
  platform = &platform_posix;
}

// ---- threads ----

TEST(machine_limits) {
  EXPECT(machine_threads() >= 1);
  EXPECT(machine_memory() > 1 << 20);
}

typedef struct Sum {
  Pool *pool;
  double *part;
  int64_t grain, nested;
} Sum;
static void sum_piece(void *ctx, int64_t begin, int64_t end) {
  Sum *s = ctx;
  double sum = 0;
  for (int64_t i = begin; i < end; i++) sum += 1.0 / (double)(i + 1);
  s->part[begin / s->grain] = sum;
}

TEST(pool_same_pieces_for_any_threads) {
  enum { N = 100003, GRAIN = 1000, PIECES = 101 };
  double want[PIECES], got[PIECES];
  Sum s = {.part = want, .grain = GRAIN};
  parallel_for(NULL, N, GRAIN, sum_piece, &s);
  for (int threads = 1; threads <= 9; threads += 2) {
    Pool *p = pool_create(threads);
    REQUIRE(p);
    EXPECT_INT_EQ(pool_threads(p), threads);
    for (int round = 0; round < 50; round++) {
      memset(got, 0, sizeof(got));
      s.part = got;
      parallel_for(p, N, GRAIN, sum_piece, &s);
      if (memcmp(want, got, sizeof(got))) FAIL("%d threads differ", threads);
    }
    pool_release(p);
  }
  pool_release(NULL);
  EXPECT_INT_EQ(pool_threads(NULL), 1);
}

static void count_piece(void *ctx, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) ((char *)ctx)[i]++;
}

TEST(pool_covers_odd_sizes) {
  static char seen[5000];
  Pool *p = pool_create(3);
  REQUIRE(p);
  int64_t cases[][2] = {{0, 1}, {-5, 1}, {1, 0}, {7, -3}, {5000, 4999}, {4999, 7}, {3, INT64_MAX}};
  for (int i = 0; i < ARRAY_LEN(cases); i++) {
    int64_t n = cases[i][0];
    memset(seen, 0, sizeof(seen));
    parallel_for(p, n, cases[i][1], count_piece, seen);
    for (int64_t k = 0; k < ARRAY_LEN(seen); k++)
      if (seen[k] != (k < n)) {
        FAIL("case %d, item %d seen %d times", i, (int)k, seen[k]);
        break;
      }
  }
  pool_release(p);
}

static void raise_late(void *ctx, int64_t begin, int64_t end) {
  (void)ctx, (void)end;
  if (begin == 300 || begin == 310 || begin >= 700) trap_raise(TENON_ENOMEM, "item %d", (int)begin);
}

static tenon_status run_and_raise(Pool *p, Diag *d) {
  Trap t;
  diag_init(d);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) parallel_for(p, 1000, 10, raise_late, NULL);
  trap_leave(&t);
  return t.status;
}

// The same error for any number of threads: that of the lowest piece.
TEST(pool_raises_the_first_trap) {
  static Diag d;
  for (int threads = 1; threads <= 8; threads++) {
    Pool *p = pool_create(threads);
    REQUIRE(p);
    for (int round = 0; round < 50; round++) {
      EXPECT_STATUS(run_and_raise(p, &d), TENON_ENOMEM);
      EXPECT_STR_EQ(d.text, "item 300");
    }
    char seen[100] = {0};
    parallel_for(p, 100, 1, count_piece, seen);
    for (int i = 0; i < 100; i++) EXPECT(seen[i] == 1);
    pool_release(p);
  }
}

static void nested_piece(void *ctx, int64_t begin, int64_t end) {
  Sum *s = ctx;
  for (int64_t i = begin; i < end; i++) {
    char seen[64] = {0};
    parallel_for(s->pool, 64, 1, count_piece, seen);
    for (int k = 0; k < 64; k++) s->part[i] += seen[k];
  }
}

TEST(pool_nested_calls) {
  Pool *p = pool_create(4);
  REQUIRE(p);
  double part[100] = {0};
  Sum s = {.pool = p, .part = part};
  parallel_for(p, 100, 1, nested_piece, &s);
  for (int i = 0; i < 100; i++) EXPECT(part[i] == 64);
  pool_release(p);
}

static void *second_caller(void *arg) {
  Sum *s = arg;
  for (int round = 0; round < 200; round++) {
    double part[11];
    Sum mine = {.part = part, .grain = 100};
    parallel_for(s->pool, 1001, 100, sum_piece, &mine);
    if (memcmp(part, s->part, sizeof(part))) s->nested++;
  }
  return NULL;
}

TEST(pool_two_callers) {
  double want[11];
  Pool *p = pool_create(3);
  REQUIRE(p);
  Sum a = {.pool = p, .part = want, .grain = 100}, b;
  parallel_for(NULL, 1001, 100, sum_piece, &a);
  b = a;
  void *thread;
  REQUIRE(platform->thread_start(second_caller, &a, &thread) == 0);
  second_caller(&b);
  platform->thread_join(thread);
  EXPECT_INT_EQ(a.nested + b.nested, 0);
  pool_release(p);
}

static int threads_left;
static int few_threads(void *(*fn)(void *), void *arg, void **out_thread) {
  if (threads_left-- <= 0) return EAGAIN;
  return platform_posix.thread_start(fn, arg, out_thread);
}

TEST(pool_without_threads) {
  Platform table = platform_posix;
  table.thread_start = few_threads;
  platform = &table;
  for (int can = 0; can < 3; can++) {
    threads_left = can;
    Pool *p = pool_create(8);
    REQUIRE(p);
    EXPECT_INT_EQ(pool_threads(p), can + 1);
    char seen[100] = {0};
    parallel_for(p, 100, 3, count_piece, seen);
    for (int i = 0; i < 100; i++) EXPECT(seen[i] == 1);
    pool_release(p);
  }
  table.alloc = counted_alloc;
  allow = 0;
  EXPECT(!pool_create(2));
  platform = &platform_posix;
}
