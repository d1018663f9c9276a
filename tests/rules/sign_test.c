// sign_test.c -- which values are known not to be negative.
#include "rules/sign.h"
#include "test.h"

TEST(signs_that_are_known) {
  static const struct {
    const char *body;  // of %r
    bool known;
  } row[] = {
      {"%r = relu(%x)", true},
      {"%r = neg(%x)", false},
      {"%r = exp(%x)", true},
      {"%r = softmax(%x)", true},
      {"%r = mul(%x, %x)", true},
      {"%r = mul(%x, %y)", false},
      {"%a = relu(%x) %b = exp(%y) %r = mul(%a, %b)", true},
      {"%a = relu(%x) %b = exp(%y) %r = add(%a, %b)", true},
      {"%a = relu(%x) %r = add(%a, %y)", false},
      {"%a = relu(%x) %r = add(%y, %a)", false},
      {"%a = relu(%x) %b = exp(%y) %r = min(%a, %b)", true},
      {"%a = relu(%x) %r = min(%a, %y)", false},
      {"%a = relu(%x) %r = max(%a, %y)", true},
      {"%a = relu(%x) %r = max(%y, %a)", true},
      {"%r = max(%x, %y)", false},
      {"%a = relu(%x) %b = exp(%y) %r = concat(%a, %b) axis=0", true},
      {"%a = relu(%x) %r = concat(%a, %y) axis=0", false},
      {"%lo = const f32[] {0} %hi = const f32[] {6} %r = clip(%x, %lo, %hi)", true},
      {"%lo = const f32[] {-1} %hi = const f32[] {6} %r = clip(%x, %lo, %hi)", false},
      {"%hi = const f32[] {6} %r = clip(%x, _, %hi)", false},
      {"%r = const f32[3] {0, 1, 2}", true},
      {"%r = const f32[3] {0, -1, 2}", false},
      {"%r = reduce_l2(%x)", true},
      {"%r = reduce_sum(%x)", false},
      {"%a = relu(%x) %r = reduce_sum(%a)", true},
      {"%a = relu(%x) %r = reduce_mean(%a)", true},
      {"%a = relu(%x) %r = transpose(%a)", true},
      {"%s = const i64[1] {-1} %a = relu(%x) %r = reshape(%a, %s)", true},
      {"%s = const i64[1] {-1} %r = reshape(%x, %s)", false},
      {"%s = const i64[3] {2, 1, 4} %a = relu(%x) %r = expand(%a, %s)", true},
      {"%a = relu(%x) %r = cast(%a) to=f16", true},
      {"%r = cast(%x) to=f16", false},
      {"%r = cast(%q) to=i32", true},
      {"%r = cast(%u) to=i32", true},
      {"%r = cast(%w) to=i32", false},
      {"%r = cast(%x) to=i32", false},
      {"%r = arg_max(%x) axis=1", true},
      {"%r = shape(%x)", true},
      {"%a = cast(%q) to=i32 %r = transpose(%a)", true},
      {"%r = abs(%i)", false},
      {"%r = neg(%i)", false},
      {"%r = cast(%i) to=u8", true},
      {"%r = not(%q)", true},
      // followed through eight nodes, no more
      {"%a = relu(%x) %c = transpose(%a) %r = transpose(%c)", true},
      {"%z = relu(%x) %a = transpose(%z) %c = transpose(%a) %d = transpose(%c) %e = transpose(%d) "
       "%f = transpose(%e) %g = transpose(%f) %h = transpose(%g) %k = transpose(%h) %r = "
       "transpose(%k)",
       false},
  };
  for (int i = 0; i < ARRAY_LEN(row); i++) {
    static Diag d;
    Graph *g = NULL;
    char text[1024];
    diag_init(&d);
    snprintf(text, sizeof text,
             "graph(%%x: f32[n, 4], %%y: f32[n, 4], %%q: bool[n, 4], %%u: u8[n, 4], %%w: u32[n, "
             "4], %%i: i32[n, 4]) {\n %s\n return %%r\n}\n",
             row[i].body);
    if (graph_parse(str_of(text), NULL, &d, &g)) FAIL("%s\n%s", d.text, text);
    REQUIRE(g);
    if (node_not_negative(g, g->main->result[0]) != row[i].known)
      FAIL("%s: %s", row[i].body, row[i].known ? "not known" : "known");
    graph_free(g);
  }
}
