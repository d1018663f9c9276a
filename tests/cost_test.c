// cost_test.c -- operations, bytes, parameters and peak memory of small graphs, worked out by hand.
#include "test.h"
#include "cost/cost.h"

typedef struct Fixture {
  Diag diag;
  Graph *g;
  Arena arena;
  Cost cost;
} Fixture;

static Fixture f;

static bool open_text(const char *text) {
  diag_init(&f.diag);
  arena_init(&f.arena);
  Trap t;
  trap_enter(&t, &f.diag);
  f.g = NULL;
  if (setjmp(t.env) == 0) t.status = graph_parse(str_of(text), NULL, &f.diag, &f.g);
  trap_leave(&t);
  if (t.status) FAIL("%s", f.diag.text);
  return !t.status;
}

static tenon_status count(const SymbolValue *v, int64_t n) {
  return cost_graph(f.g, v, n, &f.arena, &f.diag, &f.cost);
}

static void close_graph(void) {
  graph_free(f.g);
  arena_deinit(&f.arena);
}

static const char *const chain = "graph @\"chain\"(%x: f32[batch, 4]) -> (f32[batch, 4]) {\n"
                                 "  %c = const f32[4] {1, 2, 3, 4}\n"
                                 "  %a = add(%x, %c)\n"
                                 "  %b = exp(%a)\n"
                                 "  %t = transpose(%b)\n"
                                 "  %u = transpose(%t)\n"
                                 "  return %u\n"
                                 "}\n";

TEST(cost_counts_a_chain) {
  REQUIRE(open_text(chain));
  EXPECT_STATUS(count(&(SymbolValue){STR("batch"), 8}, 1), TENON_OK);
  EXPECT_F64_EQ(f.cost.flops, 64);  // one each for add and exp; moving is free
  // add: 128 + 16 in, 128 out; exp and the two transposes: 128 in, 128 out each
  EXPECT_INT_EQ(f.cost.bytes, 272 + 3 * 256);
  EXPECT_INT_EQ(f.cost.params, 4);
  EXPECT_INT_EQ(f.cost.params_bytes, 16);
  EXPECT_INT_EQ(f.cost.peak_bytes, 256);
  EXPECT_INT_EQ(f.cost.nnodes, 4);
  EXPECT_INT_EQ(f.cost.nassumed, 0);
  EXPECT_INT_EQ(f.cost.nunknown, 0);
  EXPECT_INT_EQ(f.cost.nlargest, 6);
  EXPECT_INT_EQ(f.cost.largest[0].bytes, 128);
  EXPECT_INT_EQ(f.cost.largest[5].bytes, 16);
  close_graph();
}

TEST(cost_assumes_one) {
  REQUIRE(open_text(chain));
  EXPECT_STATUS(count(NULL, 0), TENON_OK);
  EXPECT_F64_EQ(f.cost.flops, 8);
  REQUIRE(f.cost.nassumed == 1);
  EXPECT_STR_EQ(f.cost.assumed[0]->name, "batch");
  close_graph();
}

TEST(cost_refuses_symbols) {
  REQUIRE(open_text(chain));
  EXPECT_STATUS(count(&(SymbolValue){STR("seq"), 8}, 1), TENON_EINVAL);
  EXPECT_CONTAINS(f.diag.text, "no dimension 'seq'; it has batch");
  diag_init(&f.diag);
  EXPECT_STATUS(count(&(SymbolValue){STR("batch"), -8}, 1), TENON_EINVAL);
  EXPECT_CONTAINS(f.diag.text, "dimension 'batch' cannot be -8");
  close_graph();
}

TEST(cost_never_overflows) {
  REQUIRE(open_text(chain));
  EXPECT_STATUS(count(&(SymbolValue){STR("batch"), INT64_MAX}, 1), TENON_OK);
  EXPECT(f.cost.nunknown == 4 && f.cost.bytes >= 0);
  EXPECT_STATUS(count(&(SymbolValue){STR("batch"), INT64_MAX / 32}, 1), TENON_OK);
  EXPECT_INT_EQ(f.cost.bytes, INT64_MAX);
  EXPECT(f.cost.peak_bytes > INT64_MAX / 2);
  close_graph();
}

TEST(cost_unknown_operator) {
  REQUIRE(open_text("graph @\"g\"(%x: f32[n]) -> (any[*]) {\n"
                    "  %y = foreign(%x) op=\"com.example.Blur\"\n"
                    "  return %y\n"
                    "}\n"));
  EXPECT_STATUS(count(NULL, 0), TENON_OK);
  EXPECT_INT_EQ(f.cost.nnodes, 1);
  EXPECT_INT_EQ(f.cost.nunknown, 1);
  EXPECT(!f.cost.node[0].known);
  close_graph();
}

TEST(cost_counts_bodies_once) {
  REQUIRE(open_text(
      "graph @\"g\"(%c: bool[], %x: f32[n]) -> (f32[n]) {\n"
      "  %k = const f32[3] {1, 2, 3}\n"
      "  %y = if(%c, %x, %x) then_branch={ (%p: f32[n])\n  %e = exp(%p)\n  return %e\n} "
      "else_branch={ (%q: f32[n])\n  %s = exp(%q)\n  %l = log(%s)\n  return %l\n} then_captures=1\n"
      "  return %y\n"
      "}\n"));
  EXPECT_STATUS(count(&(SymbolValue){STR("n"), 10}, 1), TENON_OK);
  EXPECT_F64_EQ(f.cost.flops, 30);
  EXPECT_INT_EQ(f.cost.bytes, 3 * 80);
  EXPECT_INT_EQ(f.cost.nnodes, 4);
  EXPECT_INT_EQ(f.cost.params, 0);  // nothing reaches the constant
  // inputs, the result, and the longer branch's two values
  EXPECT_INT_EQ(f.cost.peak_bytes, 1 + 40 + 40 + 80);
  close_graph();
}
