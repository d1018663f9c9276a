// platform_collect_test.c -- what process_collect gives: output, exit status, signals, limits.
#include "base/process.h"
#include "test.h"

#include <errno.h>

static int collect(Arena *a, const char *script, int64_t cap, StrBuf *out, int *status) {
  const char *const argv[] = {"sh", "-c", script, NULL};
  strbuf_init(out, a);
  *status = -1000;
  return process_collect("/bin/sh", argv, cap, out, status);
}

TEST(process_collects_output) {
  static const struct {
    const char *script, *text;
    int64_t cap;
    int err, status;
  } row[] = {
      {"echo one; echo two", "one\ntwo\n", 100, 0, 0},
      {"exit 4", "", 100, 0, 4},
      {"printf half; kill -9 $$", "half", 100, 0, -9},
      {"cat", "", 100, 0, 0},  // no standard input
      {"printf 12345", "12345", 5, 0, 0},
      {"printf 123456; sleep 60", NULL, 5, E2BIG, -9},
      {"yes", NULL, 10000, E2BIG, -9},  // has no end of its own
      {"sleep 0.05; printf late", "late", 100, 0, 0},
  };
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    StrBuf out;
    int status;
    EXPECT_INT_EQ(collect(&a, row[i].script, row[i].cap, &out, &status), row[i].err);
    EXPECT_INT_EQ(status, row[i].status);
    if (row[i].text) EXPECT_STR_EQ(strbuf_text(&out), row[i].text);
    EXPECT(out.n <= row[i].cap);
  }
  const char *const argv[] = {"no", NULL};
  StrBuf out;
  int status = 0;
  strbuf_init(&out, &a);
  EXPECT_INT_EQ(process_collect("/no/such/program", argv, 10, &out, &status), ENOENT);
  arena_deinit(&a);
}
