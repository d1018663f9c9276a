// test.h -- the test harness: tests that register themselves, and checks that say what they saw.
//
//   TEST(arena_grows) {
//     Arena a;
//     ...
//     EXPECT(p != NULL);
//     EXPECT_INT_EQ(a.total, 4096);
//   }
//
// A failed EXPECT prints its place and values and the test goes on; REQUIRE returns from the function
// (a test, or a helper that returns nothing).  SKIP("why") ends the test and counts it as skipped.
// Tests run one after the other in one process, in the order of file, then line.
#ifndef TENON_TESTS_TEST_H
#define TENON_TESTS_TEST_H

#include "base/base.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct Test {
  const char *name, *file;
  int line;
  void (*run)(void);
  struct Test *next;
} Test;

void test_register(Test *t);
void test_failed(const char *file, int line, const char *fmt, ...) PRINTF(3, 4);
void test_skip(const char *why);
bool test_int_eq(const char *file, int line, const char *text, int64_t got, int64_t want);
bool test_f64_eq(const char *file, int line, const char *text, double got,
                 double want);  // NaN == NaN
bool test_str_eq(const char *file, int line, const char *text, const char *got, const char *want);
bool test_contains(const char *file, int line, const char *text, const char *got, const char *part);
bool test_status(const char *file, int line, const char *text, tenon_status got, tenon_status want);
bool test_near(const char *file, int line, const char *text, double got, double want, double tol);

// Folder of the models and suites ($TENON_DATA, else ../shared/data), or NULL where there is none.
const char *test_data_dir(void);

#define TEST(nm)                                                                                   \
  static void test_##nm(void);                                                                     \
  static Test test_record_##nm = {                                                                 \
      .name = #nm, .file = __FILE__, .line = __LINE__, .run = test_##nm};                          \
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
