// harness_test.c -- the harness itself.
#include "test.h"

TEST(harness_runs) {
  EXPECT(1 + 1 == 2);
  EXPECT_INT_EQ(2 + 2, 4);
  EXPECT_STR_EQ("a", "a");
  EXPECT_CONTAINS("abc", "b");
  EXPECT_STATUS(TENON_OK, TENON_OK);
}
