// rewrite_test.c -- the driver of the rules: how far one call gets, use counts, and sets that do
// not end.
#include "rules/letters.h"
#include "rules/rules.h"
#include "test.h"

static const Rule waiting[] = {
    // clang-format off
    RULE("neg.of_exp", P(neg, ONCE(exp, a)), P(log, a)),
    RULE("floor.of_exp", P(floor, P(exp, a)), P(ceil, a)),
    // clang-format on
};
static const RuleSet waiting_set = RULES("two", waiting, "the number of exp");
static const Rule counted[] = {
    // clang-format off
    RULE("neg.of_exp", P(neg, ONCE(exp, a)), P(log, a)),
    RULE("abs.abs", P(abs, P(abs, a)), P(abs, a)),
    // clang-format on
};
static const RuleSet counted_set = RULES("two", counted, "the number of nodes");
static const Rule endless[] = {
    // clang-format off
    RULE("neg.more", P(neg, a), P(neg, P(abs, a))),
    RULE("abs.more", P(abs, a), P(abs, P(neg, a))),
    // clang-format on
};
static const RuleSet endless_set = RULES("endless", endless, "nothing");

static Graph *parse(const char *text, Diag *diag) {
  Graph *g = NULL;
  diag_init(diag);
  tenon_status s = graph_parse(str_of(text), NULL, diag, &g);
  if (s) FAIL("%s", diag->text);
  return s ? NULL : g;
}

static tenon_status rewrite(Graph *g, const RuleSet *const *sets, int64_t n, Rewriter *rw) {
  bool changed;
  *rw = (Rewriter){.g = g, .set = sets, .nsets = n, .fast = FAST_ALL, .budget = rw->budget};
  return graph_rewrite(rw, &changed);
}

static int64_t count_op(Graph *g, int op) {
  Arena arena;
  arena_init(&arena);
  NodeList l = body_order(g, g->main, &arena);
  int64_t n = 0;
  for (int64_t i = 0; i < l.n; i++) n += l.v[i]->op == op;
  arena_deinit(&arena);
  return n;
}

// Against the order of the walk: each step makes the node at which the next one is taken.
TEST(rewrite_moves_through_a_long_graph_at_once) {
  enum { LENGTH = 3000 };
  static Diag diag;
  Arena arena;
  arena_init(&arena);
  StrBuf text;
  strbuf_init(&text, &arena);
  strbuf_puts(
      &text, "graph(%x: f32[6, 8, 8]) { %s = const i64[3] {0, 4, 16} %q = const i64[3] {0, 8, 8} ");
  for (int i = 0; i < LENGTH; i++) {
    if (i)
      strbuf_printf(&text, "%%t%d = transpose(%%v%d) perm=[0, 2, 1] ", i, i - 1);
    else
      strbuf_puts(&text, "%t0 = transpose(%x) perm=[0, 2, 1] ");
    strbuf_printf(&text, "%%v%d = reshape(%%t%d, %%%c) ", i, i, i % 2 ? 'q' : 's');
  }
  strbuf_printf(&text,
                "%%a = const i64[1] {0} %%e = const i64[1] {1} %%r = slice(%%v%d, %%a, %%e, %%a) "
                "return %%r }",
                LENGTH - 1);
  Graph *g = parse(strbuf_text(&text), &diag);
  REQUIRE(g);
  static const RuleSet *const sets[] = {&rules_movement, &rules_slices};
  Rewriter rw = {0};
  EXPECT_STATUS(rewrite(g, sets, ARRAY_LEN(sets), &rw), TENON_OK);
  EXPECT_STATUS(graph_verify(g, &diag), TENON_OK);
  NodeList l = body_order(g, g->main, &arena);
  for (int64_t i = 0; i < l.n; i++)
    if (l.v[i]->op == OP_slice) EXPECT(l.v[i]->src[0]->op == OP_param);
  EXPECT_INT_EQ(count_op(g, OP_slice), 1);
  graph_free(g);
  arena_deinit(&arena);
}

// The first rule waits until the second, at a later node, has taken the other use away.
TEST(rewrite_looks_again_when_a_use_is_gone) {
  static Diag diag;
  static const RuleSet *const sets[] = {&waiting_set};
  Graph *g =
      parse("graph(%x: f32[n]) { %e = exp(%x) %p = neg(%e) %q = floor(%e) return %p, %q }", &diag);
  REQUIRE(g);
  Rewriter rw = {0};
  EXPECT_STATUS(rewrite(g, sets, 1, &rw), TENON_OK);
  EXPECT_INT_EQ(rw.nfired, 2);
  EXPECT_INT_EQ(count_op(g, OP_exp), 0);
  EXPECT_INT_EQ(count_op(g, OP_log), 1);
  graph_free(g);
}

// As long as there is another use, it does not fire: not even when the operand is made anew.
TEST(rewrite_counts_uses_through_replacements) {
  static Diag diag;
  static const RuleSet *const sets[] = {&counted_set};
  Graph *g = parse("graph(%x: f32[n]) { %a = abs(%x) %b = abs(%a) %e = exp(%b) %p = neg(%e) %q = "
                   "floor(%e) return "
                   "%p, %q }",
                   &diag);
  REQUIRE(g);
  Rewriter rw = {0};
  EXPECT_STATUS(rewrite(g, sets, 1, &rw), TENON_OK);
  EXPECT_INT_EQ(count_op(g, OP_abs), 1);
  EXPECT_INT_EQ(count_op(g, OP_exp), 1);
  EXPECT_INT_EQ(count_op(g, OP_log), 0);
  graph_free(g);
}

TEST(rewrite_names_the_rules_of_a_set_without_end) {
  static Diag diag;
  static const RuleSet *const sets[] = {&endless_set};
  Graph *g = parse("graph(%x: f32[n]) { %p = neg(%x) return %p }", &diag);
  REQUIRE(g);
  Rewriter rw = {.budget = 500};
  EXPECT_STATUS(rewrite(g, sets, 1, &rw), TENON_EINTERNAL);
  EXPECT_CONTAINS(diag.text, "does not come to an end; the last rules were");
  EXPECT_CONTAINS(diag.text, "neg.more");
  graph_free(g);
}
