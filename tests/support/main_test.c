// main_test.c -- the harness itself.
#include "test.h"

#include <stdlib.h>
#include <sys/stat.h>

TEST(harness_runs) {
  EXPECT(1 + 1 == 2);
  EXPECT_INT_EQ(2 + 2, 4);
  EXPECT_STR_EQ("a", "a");
  EXPECT_CONTAINS("abc", "b");
  EXPECT_STATUS(TENON_OK, TENON_OK);
}

TEST(harness_has_a_folder) {
  struct stat st;
  const char *folder = test_folder();
  EXPECT(stat(folder, &st) == 0 && S_ISDIR(st.st_mode));
  EXPECT_STR_EQ(test_folder(), folder);
}

TEST(harness_takes_each_nth_case) {
  const char *set = getenv("TEST_EVERY");
  char before[32];
  snprintf(before, sizeof before, "%s", set ? set : "");
  setenv("TEST_EVERY", "3", 1);
  for (int i = 0; i < 7; i++) EXPECT_INT_EQ(test_takes(), i % 3 == 0);
  unsetenv("TEST_EVERY");
  for (int i = 0; i < 3; i++) EXPECT(test_takes());
  if (set) setenv("TEST_EVERY", before, 1);
}
