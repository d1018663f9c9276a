// check_test.c -- the checks of text tests: what passes, and that each kind can fail.
#include "test.h"
#include "text/text.h"

static const char output[] = "kernels: 2\n"
                             "graph @\"g\"(%x: f32[2]) -> (f32[2]) {\n"
                             "  %0 = exp(%x) : f32[2]\n"
                             "  %1 = neg(%0) : f32[2]\n"
                             "  %2 = exp(%1) : f32[2]\n"
                             "  return %2\n"
                             "}\n";

// Line of the first check that fails; 0: all hold; -1: the file is wrong.
static int first_failure(const char *checks, StrBuf *why) {
  Arena *a = why->arena;
  TextFile f;
  int line = 0;
  const char *text = str_printf(a, "// RUN: opt\n%s", checks);
  if (!text_file_read("x.tir", str_of(text), a, &f, &line, why)) return -1;
  const TextSection *s = &f.section.v[0];
  return check_output(&s->check, str_of("CHECK"), str_of(output), a, &line, why) ? 0 : line;
}

TEST(text_checks_of_each_kind) {
  static const struct {
    const char *checks;
    int line;  // of the failure
    const char *why;
  } row[] = {
      {"// CHECK: exp(\n// CHECK: neg\n// CHECK: exp(%1)\n", 0, ""},
      {"// CHECK: neg\n// CHECK: exp(%x)\n", 3, "not found"},
      {"// CHECK: kernels: 2\n// CHECK-NEXT: graph\n", 0, ""},
      {"// CHECK: kernels: 2\n// CHECK-NEXT: exp\n", 3, "not in the next line"},
      {"// CHECK: graph\n// CHECK-NOT: neg\n// CHECK: exp(%x)\n", 0, ""},
      {"// CHECK: graph\n// CHECK-NOT: neg\n// CHECK: return\n", 3, "must not be"},
      {"// CHECK-NOT: tanh\n", 0, ""},
      {"// CHECK-NOT: return\n", 2, "must not be"},
      {"// CHECK-COUNT-2: = exp(\n// CHECK-COUNT-0: tanh\n// CHECK: neg\n", 0, ""},
      {"// CHECK-COUNT-1: = exp(\n", 2, "2 lines and not 1"},
      {"// CHECK: neg\n// CHECK-COUNT-1: = exp(\n", 0, ""},
      {"// CHECK: {{^  %[0-9]+}} = neg({{.*}}) : f32[{{[0-9]}}]\n", 0, ""},
      {"// CHECK: {{^%[0-9]+}} = neg(\n", 2, "not found"},
      {"// CHECK: [[e:%[0-9]+]] = exp(%x)\n// CHECK: neg([[e]])\n", 0, ""},
      {"// CHECK: [[e:%[0-9]+]] = exp(%x)\n// CHECK: exp([[e]])\n", 3, "not found"},
      {"// CHECK: neg([[e]])\n", 2, "not defined"},
      {"// CHECK: {{(}}\n", 2, "not a regular expression"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Arena a;
    StrBuf why;
    arena_init(&a);
    strbuf_init(&why, &a);
    int line = first_failure(row[i].checks, &why);
    if (line != row[i].line || !strstr(strbuf_text(&why), row[i].why))
      FAIL("line %d and not %d in\n%s%s", line, row[i].line, row[i].checks, strbuf_text(&why));
    arena_deinit(&a);
  }
}

TEST(text_tests_with_mistakes_are_refused) {
  static const struct {
    const char *text, *why;
    int line;
  } row[] = {
      {"// CHECK: x\n", "no RUN line", 1},
      {"// RUN: opt\n// -----\n// CHECK: x\n", "checks nothing", 1},
      {"// RUN: opt\n// CHECK: x\n// CHEKC: y\n", "no RUN line has the prefix: CHEKC", 3},
      {"// RUN: opt\n// CHECK-NXET: x\n", "no such check", 2},
      {"// RUN: opt --wrong\n// CHECK: x\n", "RUN has no option: --wrong", 1},
      {"// RUN: opt --stop-after\n// CHECK: x\n", "needs a value", 1},
      {"// RUN: opt --tolerance much\n// CHECK: x\n", "not a number", 1},
      {"// RUN: run\n// CHECK: x\n", "begins with 'opt'", 1},
      {"// RUN: opt\n// SIZES: n\n// CHECK: x\n", "NAME=NUMBER", 2},
      {"// RUN: opt\n// CHECK:\n", "without a pattern", 2},
      {"// RUN: opt\n// GENERATED: CHECK\n\n// GENERATED: CHECK\n", "generated twice", 4},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Arena a;
    TextFile f;
    StrBuf why;
    int line = 0;
    arena_init(&a);
    strbuf_init(&why, &a);
    EXPECT(!text_file_read("x.tir", str_of(row[i].text), &a, &f, &line, &why));
    EXPECT_INT_EQ(line, row[i].line);
    EXPECT_CONTAINS(strbuf_text(&why), row[i].why);
    arena_deinit(&a);
  }
}

#define GRAPH "graph @\"g\"(%x: f32[n]) {\n  %y = neg(%x)\n  %z = neg(%y)\n  return %z\n}\n"

// Generated lines that are wrong fail with a difference; --update replaces these lines alone.
TEST(text_update_rewrites_generated_checks) {
  static const char before[] =
      "// RUN: opt --stop-after simplify-algebra\n" GRAPH "// CHECK: return %x\n"
      "// GENERATED: CHECK\n"
      "// CHECK:      graph @\"g\"(%x: f32[n]) -> (f32[n]) {\n"
      "// CHECK-NEXT:   %y = tanh(%x) : f32[n]\n"
      "// CHECK-NEXT:   return %x\n"
      "// CHECK-NEXT: }\n"
      "// -----\n" GRAPH "// CHECK-NOT: neg\n";
  static const char after[] =
      "// RUN: opt --stop-after simplify-algebra\n" GRAPH "// CHECK: return %x\n"
      "// GENERATED: CHECK\n"
      "// CHECK:      graph @\"g\"(%x: f32[n]) -> (f32[n]) {\n"
      "// CHECK-NEXT:   return %x\n"
      "// CHECK-NEXT: }\n"
      "// -----\n" GRAPH "// CHECK-NOT: neg\n";
  Arena a;
  TextFile f;
  TextOutput out[2], *of_section[2] = {&out[0], &out[1]};
  StrBuf why, now;
  int line = 0;
  arena_init(&a);
  strbuf_init(&why, &a);
  strbuf_init(&now, &a);
  EXPECT(text_file_read("x.tir", str_of(before), &a, &f, &line, &why));
  EXPECT_INT_EQ(f.section.n, 2);
  for (int i = 0; i < 2; i++)
    EXPECT(text_section_run(&f, &f.section.v[i], &f.section.v[i].run.v[0], &a, &out[i], &why));
  EXPECT(!check_generated(&f.section.v[0].check, str_of("CHECK"), out[0].graph, &a, &line, &why));
  EXPECT_INT_EQ(line, 9);
  EXPECT_CONTAINS(strbuf_text(&why), "\n  - %y = tanh(%x) : f32[n]\n    return %x\n");
  text_file_update(&f, of_section, &now);
  EXPECT_STR_EQ(strbuf_text(&now), after);
  arena_deinit(&a);
}

// A node more renumbers the values behind it: the difference shows that node alone.
TEST(text_difference_ignores_renumbering) {
  static const char text[] = "// RUN: opt\n// GENERATED: CHECK\n"
                             "// CHECK: %0 = exp(%x)\n// CHECK-NEXT: %1 = neg(%0)\n"
                             "// CHECK-NEXT: %2 = add(%0, %1)\n";
  static const char more[] = "%0 = tanh(%x)\n%1 = exp(%x)\n%2 = neg(%1)\n%3 = add(%1, %2)\n",
                    other[] = "%0 = exp(%x)\n%1 = neg(%0)\n%2 = add(%1, %0)\n";
  Arena a;
  TextFile f;
  StrBuf why;
  int line = 0;
  arena_init(&a);
  strbuf_init(&why, &a);
  EXPECT(text_file_read("x.tir", str_of(text), &a, &f, &line, &why));
  const CheckLines *c = &f.section.v[0].check;
  EXPECT(!check_generated(c, str_of("CHECK"), str_of(more), &a, &line, &why));
  EXPECT_CONTAINS(strbuf_text(&why), "  + %0 = tanh(%x)\n    %1 = exp(%x)\n    %2 = neg(%1)\n");
  EXPECT(!strchr(strbuf_text(&why) + 80, '-'));
  strbuf_init(&why, &a);
  EXPECT(!check_generated(c, str_of("CHECK"), str_of(other), &a, &line, &why));
  EXPECT_CONTAINS(strbuf_text(&why), "  - %2 = add(%0, %1)\n  + %2 = add(%1, %0)\n");
  arena_deinit(&a);
}

static bool same_results(const char *x, const char *y, double tolerance, StrBuf *why) {
  static Diag d;
  Graph *before = NULL, *after = NULL;
  TextSection s = {0};
  TextRun r = {.tolerance = tolerance};
  diag_init(&d);
  bool ok = !graph_parse(str_of(x), NULL, &d, &before) &&
            !graph_parse(str_of(y), NULL, &d, &after) &&
            text_compare(before, after, &s, &r, &d, why);
  graph_free(before);
  graph_free(after);
  return ok;
}

#define OF_X(type, body) "graph @\"g\"(%x: " type "[n]) { " body " return %y }"

TEST(text_compare_sees_other_results) {
  static const char exp_x[] = OF_X("f32", "%y = exp(%x)"),
                    near[] = OF_X("f32", "%c = const f32[] {1.0001} %e = exp(%x) %y = mul(%e, %c)"),
                    zero[] = OF_X("f32", "%c = const f32[] {0} %a = abs(%x) %y = mul(%a, %c)"),
                    minus[] = OF_X("f32", "%c = const f32[] {-0} %a = abs(%x) %y = mul(%a, %c)"),
                    nan[] = OF_X("f32", "%a = abs(%x) %b = neg(%a) %y = sqrt(%b)"),
                    wide[] = OF_X("f32", "%e = exp(%x) %y = cast(%e) to=f64"),
                    int_x[] = OF_X("i32", "%y = add(%x, %x)"),
                    int_off[] =
                        OF_X("i32", "%c = const i32[] {1} %a = add(%x, %x) %y = add(%a, %c)");
  Arena a;
  StrBuf why;
  arena_init(&a);
  strbuf_init(&why, &a);
  EXPECT(same_results(exp_x, exp_x, 0, &why));
  EXPECT(same_results(exp_x, near, 1e-3, &why));
  EXPECT(same_results(int_x, int_x, 0, &why));
  EXPECT_STR_EQ(strbuf_text(&why), "");
  EXPECT(!same_results(exp_x, near, 1e-5, &why));
  EXPECT(!same_results(exp_x, near, 0, &why));
  EXPECT(!same_results(exp_x, wide, 1, &why));
  EXPECT(!same_results(int_x, int_off, 1, &why));
  EXPECT(!same_results(nan, nan, 1, &why));
  EXPECT(!same_results(zero, minus, 0, &why));
  EXPECT_CONTAINS(strbuf_text(&why), "another sign");
  arena_deinit(&a);
}
