// compile_options_test.c -- compile options by name through the public interface: set, refused,
// listed, kept by a program.
#include "test.h"

static tenon_error error;

static const char add_text[] = "graph(%x: f32[4]) { %y = add(%x, %x)  return y = %y }";

static tenon_model *open_text(const char *text) {
  tenon_model *m = NULL;
  if (tenon_model_open_memory(text, strlen(text), NULL, &m, &error)) FAIL("%s", error.message);
  return m;
}

static void count_bytes(const char *text, size_t size, void *user) {
  *(size_t *)user += text ? size : 0;
}

TEST(options_by_name) {
  const char *path = TENON_BINARY_DIR "/named.tenon";
  tenon_model *m = open_text(add_text);
  tenon_program *p = NULL, *q = NULL;
  size_t printed = 0;
  const tenon_named_option named[] = {
      {"level", "1"}, {"fold-limit", "1K"}, {"place", "a=b"}, {"time_passes", "1"}};
  tenon_options o = {.struct_size = sizeof o, .target = "host", .named = named, .nnamed = 2};
  REQUIRE(m);
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_OK);
  REQUIRE(p);
  REQUIRE(tenon_program_option_count(p) == 2);
  EXPECT_STR_EQ(tenon_program_option(p, 0), "level=1");
  EXPECT_STR_EQ(tenon_program_option(p, 1), "fold_limit=1024");
  EXPECT(!tenon_program_option(p, 2));
  EXPECT_STATUS(tenon_program_save(p, path, &error), TENON_OK);
  EXPECT_STATUS(tenon_program_load(path, NULL, &q, &error), TENON_OK);
  REQUIRE(q && tenon_program_option_count(q) == 2);
  EXPECT_STR_EQ(tenon_program_option(q, 1), "fold_limit=1024");
  tenon_program_release(p);
  tenon_program_release(q);
  o.nnamed = 3;  // what the target has no meaning for
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  o.named = &named[3], o.nnamed = 1, o.print = count_bytes, o.user = &printed;
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_OK);
  EXPECT(printed > 100);
  tenon_program_release(p);
  tenon_model_close(m);
}

TEST(options_by_name_are_checked) {
  tenon_model *m = open_text(add_text);
  tenon_program *p = NULL;
  const tenon_named_option wrong[] = {{"levle", "1"}, {"level", "9"}, {NULL, "1"}, {"level", NULL}};
  tenon_options o = {.struct_size = sizeof o, .target = "host", .nnamed = 1};
  REQUIRE(m);
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  for (int64_t i = 0; i < ARRAY_LEN(wrong); i++) {
    o.named = &wrong[i];
    EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  }
  // The struct of the version before had none.
  o.struct_size = offsetof(tenon_options, named);
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_OK);
  tenon_program_release(p);
  tenon_model_close(m);
}

// What a compilation may take; reading the model again counts.
TEST(options_limit_memory) {
  tenon_model *m = open_text(add_text);
  tenon_program *p = NULL;
  static const struct {
    const char *text;
    tenon_status gives;
  } rows[] = {{"16K", TENON_ENOMEM}, {"256M", TENON_OK},   {"0", TENON_EINVAL},
              {"-1", TENON_EINVAL},  {"1X", TENON_EINVAL}, {"9999999T", TENON_EINVAL}};
  REQUIRE(m);
  for (int64_t i = 0; i < ARRAY_LEN(rows); i++) {
    const tenon_named_option named = {"max_memory", rows[i].text};
    tenon_options o = {.struct_size = sizeof o, .target = "ref", .named = &named, .nnamed = 1};
    EXPECT_STATUS(tenon_compile(m, &o, &p, &error), rows[i].gives);
    if (rows[i].gives == TENON_ENOMEM) EXPECT_CONTAINS(error.message, "memory");
    tenon_program_release(p);
  }
  // With the model's last use it is not read again: the limit is compiling's own.
  const tenon_named_option named = {"max_memory", "16K"};
  tenon_options o = {
      .struct_size = sizeof o, .target = "ref", .named = &named, .nnamed = 1, .last_use = 1};
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_ENOMEM);
  EXPECT_CONTAINS(error.message, "max-memory");
  tenon_model_close(m);
}

TEST(options_are_listed) {
  tenon_option_info info;
  size_t n = tenon_option_count(), found = 0;
  for (size_t i = 0; i < n; i++) {
    EXPECT_STATUS(tenon_option(i, &info), TENON_OK);
    EXPECT(info.name && info.kind && info.help);
    EXPECT(!info.choices == (strcmp(info.kind, "choice") != 0));
    found += !strcmp(info.name, "precision") && !strcmp(info.choices, "f32 tf32 bf16 f16");
  }
  EXPECT_INT_EQ(found, 1);
  EXPECT_STATUS(tenon_option(n, &info), TENON_EINVAL);
}
