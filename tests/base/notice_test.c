// notice_test.c -- texts that wait to be taken: each is said once, cut where there is no room, and
// never printed.
#include "base/notice.h"
#include "tenon/tenon.h"
#include "test.h"

static void take_all(void) {
  char text[1024];
  while (notice_take(text, sizeof text)) continue;
}

TEST(notice_is_said_once) {
  char text[64];
  take_all();
  for (int i = 0; i < 3; i++) notice_add("the %s of this test", "first");
  notice_add("the second of this test, which is long");
  EXPECT_INT_EQ(tenon_notice(NULL, 8), 0);
  EXPECT_INT_EQ(tenon_notice(text, 0), 0);
  EXPECT_INT_EQ(tenon_notice(text, sizeof text), 1);
  EXPECT_STR_EQ(text, "the first of this test");
  EXPECT_INT_EQ(tenon_notice(text, 11), 1);
  EXPECT_STR_EQ(text, "the second");
  EXPECT_INT_EQ(tenon_notice(text, sizeof text), 0);
  notice_add("the first of this test");
  EXPECT(!notice_take(text, sizeof text));
}
