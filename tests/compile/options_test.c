// options_test.c -- the table of compile options: values from text and to text, by one row each.
#include "compile/options.h"
#include "test.h"

// A value that is not the default, as text, and as compile_options_list writes it.
static const char *other_value(const CompileOptionRow *r, const char **written) {
  switch (r->kind) {
  case OPTION_KIND_FLAG: return *written = "1";
  case OPTION_KIND_BYTES: *written = "2048"; return "2K";
  case OPTION_KIND_INT: return *written = r->dflt == 1 ? "2" : "1";
  case OPTION_KIND_CHOICE: return *written = strrchr(r->words, ' ') + 1;
  case OPTION_KIND_TEXT:
  case OPTION_KIND_LIST: break;
  case OPTION_KIND_FILE:
    *written = "sha256:cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30";
    return TENON_SOURCE_DIR "/LICENSE";
  }
  return *written = "a b=c";
}

TEST(options_go_to_text_and_back) {
  Arena a;
  Diag d;
  arena_init(&a);
  diag_init(&d);
  for (int i = 0; i < COMPILE_OPTIONS; i++) {
    const CompileOptionRow *r = &compile_option[i];
    const char *written, *value = other_value(r, &written);
    CompileOptions o;
    compile_defaults(&o);
    EXPECT_INT_EQ(compile_options_list(&o, OPTION_RECORD | OPTION_KEY, &a).n, 0);
    EXPECT_STATUS(compile_option_set(&o, r->name, value, &a, &d), TENON_OK);
    TextList l = compile_options_list(&o, OPTION_RECORD, &a);
    EXPECT_INT_EQ(l.n, (r->marks & OPTION_RECORD) != 0);
    if (l.n) EXPECT_STR_EQ(l.v[0], str_printf(&a, "%s=%s", r->name, written));
    EXPECT_INT_EQ(*compile_options_key(&o, &a) != 0, (r->marks & OPTION_KEY) != 0);
    EXPECT(strlen(r->help) > 10);
  }
  arena_deinit(&a);
}

TEST(options_are_named_as_on_the_command_line) {
  Arena a;
  Diag d;
  CompileOptions o;
  arena_init(&a);
  diag_init(&d);
  compile_defaults(&o);
  EXPECT_STATUS(compile_option_set(&o, "fold-limit", "4K", &a, &d), TENON_OK);
  EXPECT_INT_EQ(o.fold_limit, 4096);
  EXPECT_STATUS(compile_option_set(&o, "place", "x*=cpu", &a, &d), TENON_OK);
  EXPECT_STATUS(compile_option_set(&o, "place", "y*=cuda", &a, &d), TENON_OK);
  EXPECT_INT_EQ(o.place.n, 2);
  EXPECT_STR_EQ(o.place.v[1], "y*=cuda");
  EXPECT_STATUS(compile_option_set(&o, "exact", "true", &a, &d), TENON_OK);
  EXPECT_STATUS(compile_option_set(&o, "exact", "0", &a, &d), TENON_OK);
  EXPECT(!o.exact);
  arena_deinit(&a);
}

TEST(options_refuse_what_they_do_not_take) {
  static const struct {
    const char *name, *value, *said;
  } wrong[] = {{"level", "4", "from 0 to 3"},
               {"level", "", "from 0 to 3"},
               {"bisect", "-1", "from 0 up"},
               {"precision", "f8", "f32, tf32, bf16 or f16"},
               {"exact", "yes", "1 or 0"},
               {"fold_limit", "64X", "from 0 up"},
               {"unrol_limit", "1", "'unroll_limit'"}};
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(wrong); i++) {
    Diag d;
    CompileOptions o;
    diag_init(&d);
    compile_defaults(&o);
    EXPECT_STATUS(compile_option_set(&o, wrong[i].name, wrong[i].value, &a, &d), TENON_EINVAL);
    if (!strstr(d.text, wrong[i].said)) FAIL("%s: %s", wrong[i].said, d.text);
  }
  arena_deinit(&a);
}

TEST(options_that_exclude_one_another) {
  Diag d;
  CompileOptions o;
  diag_init(&d);
  compile_defaults(&o);
  EXPECT_STATUS(compile_options_check(&o, &d), TENON_OK);
  o.exact = true;
  EXPECT_STATUS(compile_options_check(&o, &d), TENON_OK);
  o.fast = true;
  EXPECT_STATUS(compile_options_check(&o, &d), TENON_EINVAL);
  o.fast = false;
  o.precision = PRECISION_TF32;
  EXPECT_STATUS(compile_options_check(&o, &d), TENON_EINVAL);
}
