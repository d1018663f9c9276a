// main.c -- runs the registered tests.
//
//   tenon-tests [--list] [--update] [--times] [--queue F] [GLOB...]
//
// A test's full name is FILE.NAME, as in base_test.arena_grows; a glob without a dot is matched
// against the name alone.
//
//   --list     print the names of the tests and run none
//   --update   tests that hold generated text rewrite it in their files (tests/text)
//   --times    print the slowest tests at the end, with their processor seconds
//   --queue F  share the work with other processes through F, a file that does not exist yet:
//              each process takes one test after another (tests/unit.sh starts the processes)
//
// Tests marked TEST_LONG come first, so that none of them is the tail of a parallel run.
// The last line is `N passed, N failed, N skipped`; the exit status is 1 when a test failed.
#include "test.h"

#include "base/platform.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef UNDER_ASAN
#include <sanitizer/lsan_interface.h>
#endif

// Looks for leaks now, not in exit(): there the threads of an OpenCL driver are ending, and
// LeakSanitizer can crash on the thread-local storage of a thread that ends.
static void check_leaks(void) {
#ifdef UNDER_ASAN
  __lsan_do_leak_check();
#endif
}

static Test *tests;              // sorted: long ones first, then by file and line
static int failures_here;        // of the running test
static const char *skipped_why;  // of the running test
static int64_t cases_here;       // calls of test_takes in the running test
static const Test *running;
static bool update;

const Test *test_running(void) { return running; }
bool test_update(void) { return update; }

static bool comes_before(const Test *a, const Test *b) {
  if (a->is_long != b->is_long) return a->is_long;
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

bool test_takes(void) {
  const char *every = getenv("TEST_EVERY");
  int64_t n = every ? atoll(every) : 1;
  return cases_here++ % MAX(n, 1) == 0;
}

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

// ---- the scratch folder ----

static char folder[400];

const char *test_folder(void) {
  if (*folder) return folder;
  const char *parent = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/tenon-tests-XXXXXX", parent && *parent ? parent : "/tmp");
  if (!mkdtemp(folder)) {
    printf("cannot make the folder %s\n", folder);
    exit(2);
  }
  return folder;
}

static void remove_folder(void) {
  char command[500];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  if (*folder && system(command)) printf("cannot remove %s\n", folder);
}

// ---- which tests ----

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

// ---- the queue ----

// Processes that share the work take the tests one by one: a byte of `queue` is a test that was
// taken.  The number of the test that is this process's next, from 1; -1: the file cannot be used.
static int next_of(const char *queue) {
  int fd = open(queue, O_WRONLY | O_APPEND | O_CREAT, 0600);
  struct stat st;
  bool ok = fd >= 0 && !flock(fd, LOCK_EX) && write(fd, "x", 1) == 1 && !fstat(fd, &st);
  if (fd >= 0) close(fd);
  return ok ? (int)st.st_size : -1;
}

// ---- how long they take ----

enum { SLOWEST = 25 };
typedef struct Clock {
  double wall, processors;  // seconds; processors: of this process and of children that ended
} Clock;
static struct {
  const Test *test;
  Clock took;
} slowest[SLOWEST];  // by processor seconds, most first

static double seconds_of(const struct timeval *t) {
  return (double)t->tv_sec + (double)t->tv_usec * 1e-6;
}

static Clock clock_read(void) {
  struct timespec ts;
  struct rusage own, children;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  getrusage(RUSAGE_SELF, &own);
  getrusage(RUSAGE_CHILDREN, &children);
  return (Clock){(double)ts.tv_sec + (double)ts.tv_nsec * 1e-9,
                 seconds_of(&own.ru_utime) + seconds_of(&own.ru_stime) +
                     seconds_of(&children.ru_utime) + seconds_of(&children.ru_stime)};
}

static void note_time(const Test *t, Clock took) {
  int i = SLOWEST - 1;
  if (slowest[i].test && slowest[i].took.processors >= took.processors) return;
  for (; i > 0 && (!slowest[i - 1].test || slowest[i - 1].took.processors < took.processors); i--)
    slowest[i] = slowest[i - 1];
  slowest[i].test = t;
  slowest[i].took = took;
}

static void print_times(void) {
  for (int i = 0; i < SLOWEST && slowest[i].test; i++) {
    char stem[200];
    file_stem(slowest[i].test->file, stem, sizeof stem);
    printf("time %7.2f s of processors, %7.2f s: %s.%s\n", slowest[i].took.processors,
           slowest[i].took.wall, stem, slowest[i].test->name);
  }
}

// ---- the run ----

typedef struct Options {
  bool list, times;
  const char *queue;
  int nglobs;
  char **globs;
} Options;
typedef struct Counts {
  int passed, failed, skipped;
} Counts;

static Options options_read(int argc, char **argv) {
  Options o = {0};
  int i = 1;
  for (; i < argc && !strncmp(argv[i], "--", 2); i++) {
    if (!strcmp(argv[i], "--list"))
      o.list = true;
    else if (!strcmp(argv[i], "--update"))
      update = true;
    else if (!strcmp(argv[i], "--times"))
      o.times = true;
    else if (!strcmp(argv[i], "--queue") && i + 1 < argc)
      o.queue = argv[++i];
    else {
      printf("usage: tenon-tests [--list] [--update] [--times] [--queue F] [GLOB...]\n");
      exit(2);
    }
  }
  o.globs = argv + i;
  o.nglobs = argc - i;
  return o;
}

static void run_test(const Test *t, const char *full, Counts *n) {
  failures_here = 0;
  skipped_why = NULL;
  cases_here = 0;
  running = t;
  Clock start = clock_read();
  t->run();
  Clock end = clock_read();
  Clock took = {end.wall - start.wall, end.processors - start.processors};
  note_time(t, took);
  if (failures_here) {
    printf("FAIL %s (%d checks)\n", full, failures_here);
    n->failed++;
  } else if (skipped_why) {
    printf("skip %s: %s\n", full, skipped_why);
    n->skipped++;
  } else {
    n->passed++;
    if (took.wall > 1) printf("ok   %s (%.1f s)\n", full, took.wall);
  }
  fflush(stdout);
}

int main(int argc, char **argv) {
  Options o = options_read(argc, argv);
  Counts n = {0};
  int number = 0, mine = 0;
  for (Test *t = tests; t; t = t->next) {
    char stem[200], full[600];
    file_stem(t->file, stem, sizeof stem);
    snprintf(full, sizeof full, "%s.%s", stem, t->name);
    if (!is_wanted(t, full, o.nglobs, o.globs)) continue;
    if (o.list) {
      printf("%s\n", full);
      continue;
    }
    number++;
    while (o.queue && mine < number)
      if ((mine = next_of(o.queue)) < 0) return 2;
    if (!o.queue || mine == number) run_test(t, full, &n);
  }
  if (o.list) return 0;
  remove_folder();
  check_leaks();
  if (o.nglobs && !number) {
    printf("no test has such a name (--list names them)\n");
    return 1;
  }
  if (o.times) print_times();
  printf("%d passed, %d failed, %d skipped\n", n.passed, n.failed, n.skipped);
  return n.failed > 0;
}
