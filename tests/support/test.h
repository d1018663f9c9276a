// test.h -- the test harness: tests that register themselves, and checks that say what they saw.
//
//   TEST(arena_grows) {
//     Arena a;
//     ...
//     EXPECT(p != NULL);
//     EXPECT_INT_EQ(a.total, 4096);
//   }
//
// A failed EXPECT prints its place and values and the test goes on; REQUIRE returns from the
// function (a test, or a helper that returns nothing).  SKIP("why") ends the test and counts it as
// skipped.  Tests run one after the other in a process; several processes may share the tests
// between them (tests/unit.sh), so a test counts on no other test and writes only into
// test_folder() or into a folder of its own.  TEST_LONG declares a test that takes 10 processor
// seconds or more in `make test`: those start first.
#ifndef TENON_TESTS_SUPPORT_TEST_H
#define TENON_TESTS_SUPPORT_TEST_H

#include "base/base.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct Test {
  const char *name, *file;
  int line;
  bool is_long;  // started before those that are not
  void (*run)(void);
  struct Test *next;
} Test;

void test_register(Test *t);
void test_failed(const char *file, int line, const char *fmt, ...) PRINTF(3, 4);
void test_skip(const char *why);
const Test *test_running(void);  // the running test
bool test_update(void);          // --update was given: golden files are to be rewritten
bool test_int_eq(const char *file, int line, const char *text, int64_t got, int64_t want);
bool test_f64_eq(const char *file, int line, const char *text, double got,
                 double want);  // NaN == NaN
bool test_str_eq(const char *file, int line, const char *text, const char *got, const char *want);
bool test_contains(const char *file, int line, const char *text, const char *got, const char *part);
bool test_status(const char *file, int line, const char *text, tenon_status got, tenon_status want);
bool test_near(const char *file, int line, const char *text, double got, double want, double tol);

// Folder of the models and suites ($TENON_DATA, else ../shared/data), or NULL where there is none.
const char *test_data_dir(void);

// For loops over many cases: true for each Nth call in a test, where TEST_EVERY=N is set (always
// where it is not), so that runs under sanitizers can take a part.
bool test_takes(void);

// A folder for the files of the running process, made at the first call and removed at its end.
const char *test_folder(void);

#define TEST(nm)      TEST_DECLARE(nm, false)
#define TEST_LONG(nm) TEST_DECLARE(nm, true)
#define TEST_DECLARE(nm, takes_long)                                                               \
  static void test_##nm(void);                                                                     \
  static Test test_record_##nm = {                                                                 \
      .name = #nm, .file = __FILE__, .line = __LINE__, .is_long = takes_long, .run = test_##nm};   \
  __attribute__((constructor)) static void test_add_##nm(void) {                                   \
    test_register(&test_record_##nm);                                                              \
  }                                                                                                \
  static void test_##nm(void)

#define EXPECT(cond)                                                                               \
  do {                                                                                             \
    if (!(cond)) test_failed(__FILE__, __LINE__, "%s", #cond);                                     \
  } while (0)
#define REQUIRE(cond)                                                                              \
  do {                                                                                             \
    if (!(cond)) {                                                                                 \
      test_failed(__FILE__, __LINE__, "%s", #cond);                                                \
      return;                                                                                      \
    }                                                                                              \
  } while (0)
#define FAIL(...) test_failed(__FILE__, __LINE__, __VA_ARGS__)
#define EXPECT_INT_EQ(got, want)                                                                   \
  test_int_eq(__FILE__, __LINE__, #got, (int64_t)(got), (int64_t)(want))
#define EXPECT_F64_EQ(got, want)    test_f64_eq(__FILE__, __LINE__, #got, (got), (want))
#define EXPECT_NEAR(got, want, tol) test_near(__FILE__, __LINE__, #got, (got), (want), (tol))
#define EXPECT_STR_EQ(got, want)    test_str_eq(__FILE__, __LINE__, #got, (got), (want))
#define EXPECT_CONTAINS(got, part)  test_contains(__FILE__, __LINE__, #got, (got), (part))
#define EXPECT_STATUS(expr, want)   test_status(__FILE__, __LINE__, #expr, (expr), (want))
#define SKIP(why)                                                                                  \
  do {                                                                                             \
    test_skip(why);                                                                                \
    return;                                                                                        \
  } while (0)

#endif
