// main.c -- runs the registered tests.
//
//   tenon-tests [--list] [--queue F] [GLOB...]
//
// A test's full name is FILE.NAME, as in base_test.arena_grows; a glob without a dot is matched against the name
// alone.  With --queue processes share the work through F, a file that is not there yet: each takes the tests of one file
// after another, for tests of one file may use the same folder.
// The last line is `N passed, N failed, N skipped`; the exit status is 1 when a test failed.
#include "test.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// What an OpenCL driver (C++, with a compiler inside) still holds at the end is not ours; its frames are cut short, so that the allocator it
// uses is all there is to tell it by.
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void) {
  return "leak:libLLVM\nleak:libpocl\nleak:libstdc++\n";
}

static Test *tests;              // sorted by file, then line
static int failures_here;        // of the running test
static const char *skipped_why;  // of the running test

static bool comes_before(const Test *a, const Test *b) {
  int order = strcmp(a->file, b->file);
  return order ? order < 0 : a->line < b->line;
}

void test_register(Test *t) {
  Test **at = &tests;
  while (*at && comes_before(*at, t)) at = &(*at)->next;
  t->next = *at;
  *at = t;
}

void test_failed(const char *file, int line, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  printf("%s:%d: ", file, line);
  vprintf(fmt, ap);
  printf("\n");
  fflush(stdout);
  va_end(ap);
  failures_here++;
}

void test_skip(const char *why) { skipped_why = why; }

bool test_int_eq(const char *file, int line, const char *text, int64_t got, int64_t want) {
  if (got == want) return true;
  test_failed(file, line, "%s is %" PRId64 ", not %" PRId64, text, got, want);
  return false;
}

bool test_f64_eq(const char *file, int line, const char *text, double got, double want) {
  if (got == want ? signbit(got) == signbit(want) : isnan(got) && isnan(want)) return true;
  test_failed(file, line, "%s is %.17g, not %.17g", text, got, want);
  return false;
}

bool test_near(const char *file, int line, const char *text, double got, double want, double tol) {
  if (fabs(got - want) <= tol || got == want) return true;
  test_failed(file, line, "%s is %.17g, not within %g of %.17g", text, got, tol, want);
  return false;
}

bool test_str_eq(const char *file, int line, const char *text, const char *got, const char *want) {
  if (got && want && !strcmp(got, want)) return true;
  test_failed(file, line, "%s is\n  \"%s\", not\n  \"%s\"", text, got ? got : "(null)",
              want ? want : "(null)");
  return false;
}

bool test_contains(const char *file, int line, const char *text, const char *got,
                   const char *part) {
  if (got && strstr(got, part)) return true;
  test_failed(file, line, "%s is\n  \"%s\", without\n  \"%s\"", text, got ? got : "(null)", part);
  return false;
}

bool test_status(const char *file, int line, const char *text, tenon_status got,
                 tenon_status want) {
  if (got == want) return true;
  test_failed(file, line, "%s gives status %d, not %d", text, (int)got, (int)want);
  return false;
}

const char *test_data_dir(void) {
  const char *dir = getenv("TENON_DATA");
  if (!dir || !*dir) dir = TENON_SOURCE_DIR "/../shared/data";
  struct stat st;
  return stat(dir, &st) == 0 && S_ISDIR(st.st_mode) ? dir : NULL;
}

// * and ? only.  The harness has its own, so that it does not lean on what it tests.
static bool glob_matches(const char *pattern, const char *text) {
  for (; *pattern; pattern++, text++) {
    if (*pattern == '*') {
      do
        if (glob_matches(pattern + 1, text)) return true;
      while (*text++);
      return false;
    }
    if (!*text || (*pattern != '?' && *pattern != *text)) return false;
  }
  return !*text;
}

// "base_test" of "/x/tests/base_test.c".
static void file_stem(const char *file, char *out, size_t cap) {
  const char *slash = strrchr(file, '/');
  snprintf(out, cap, "%s", slash ? slash + 1 : file);
  char *dot = strrchr(out, '.');
  if (dot) *dot = 0;
}

static bool is_wanted(const Test *t, const char *full, int nglobs, char **globs) {
  for (int i = 0; i < nglobs; i++)
    if (glob_matches(globs[i], strchr(globs[i], '.') ? full : t->name)) return true;
  return nglobs == 0;
}

static double seconds_now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

// Processes that share the work take the files of tests one by one: a byte of `queue` is a file that was taken.
static int next_of(const char *queue) {
  int fd = open(queue, O_WRONLY | O_APPEND | O_CREAT, 0600);
  struct stat st;
  bool ok = fd >= 0 && !flock(fd, LOCK_EX) && write(fd, "x", 1) == 1 && !fstat(fd, &st);
  if (fd >= 0) close(fd);
  return ok ? (int)st.st_size : -1;
}

int main(int argc, char **argv) {
  bool list = argc > 1 && !strcmp(argv[1], "--list");
  int first = 1 + list, mine = 0;
  const char *queue = NULL;
  if (argc > first + 1 && !strcmp(argv[first], "--queue")) {
    queue = argv[first + 1];
    first += 2;
  }
  char **globs = argv + first;
  int nglobs = argc - first, number = 0;
  const char *before = NULL;
  int passed = 0, failed = 0, skipped = 0;
  for (Test *t = tests; t; t = t->next) {
    char stem[200], full[600];
    file_stem(t->file, stem, sizeof stem);
    snprintf(full, sizeof full, "%s.%s", stem, t->name);
    if (!before || strcmp(before, t->file)) number++;
    before = t->file;
    if (!is_wanted(t, full, nglobs, globs)) continue;
    while (queue && mine < number)
      if ((mine = next_of(queue)) < 0) return 2;
    if (queue && mine != number) continue;
    if (list) {
      printf("%s\n", full);
      continue;
    }
    failures_here = 0;
    skipped_why = NULL;
    double start = seconds_now();
    t->run();
    double took = seconds_now() - start;
    if (failures_here) {
      printf("FAIL %s (%d checks)\n", full, failures_here);
      failed++;
    } else if (skipped_why) {
      printf("skip %s: %s\n", full, skipped_why);
      skipped++;
    } else {
      passed++;
      if (took > 1) printf("ok   %s (%.1f s)\n", full, took);
    }
    fflush(stdout);
  }
  if (list) return 0;
  if (nglobs && !(passed + failed + skipped)) {
    printf("no test has such a name (--list names them)\n");
    return 1;
  }
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed > 0;
}
