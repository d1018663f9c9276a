// cost_test.c -- operations, bytes and peak memory of small graphs, worked out by hand.
#include "test.h"
#include "cost/cost.h"
#include "ir/interpret.h"

typedef struct Fixture {
  Diag diag;
  Graph *g;
  Arena arena;
  GraphCost cost;
  DimBinding dims;
} Fixture;

static Fixture f;

static bool open_text(const char *text) {
  diag_init(&f.diag);
  arena_init(&f.arena);
  f.g = NULL;
  if (!graph_parse(str_of(text), NULL, &f.diag, &f.g)) return true;
  FAIL("%s", f.diag.text);
  return false;
}

// Costs the graph with every named symbol of this size.
static void count(int64_t size) {
  Trap t;
  trap_enter(&t, &f.diag);
  if (setjmp(t.env) == 0) {
    binding_init(&f.dims, &f.arena, f.g);
    binding_default(&f.dims, f.g, size);
    cost_graph(f.g, &f.dims, &f.arena, &f.cost);
  }
  trap_leave(&t);
  EXPECT_STATUS(t.status, TENON_OK);
}

// The interpreter's own plan, made without data.
static int64_t plan_peak(void) {
  Interp *in;
  if (interp_create(f.g, &(InterpOptions){.dry = true}, &f.diag, &in)) return -1;
  volatile int64_t peak = -1;
  Trap t;
  trap_enter(&t, &f.diag);
  if (setjmp(t.env) == 0) peak = interp_peak_bytes(in, f.dims.value, f.dims.known, f.dims.n);
  trap_leave(&t);
  interp_free(in);
  return peak;
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
  count(8);
  EXPECT_F64_EQ(f.cost.flops, 64);  // one each for add and exp; moving is free
  // add: 128 + 16 in, 128 out; exp and the two transposes: 128 in, 128 out each
  EXPECT_INT_EQ(f.cost.bytes, 272 + 3 * 256);
  EXPECT_INT_EQ(f.cost.const_bytes, 16);
  EXPECT_INT_EQ(f.cost.peak_bytes, 256);
  EXPECT_INT_EQ(plan_peak(), 256);
  EXPECT_INT_EQ(f.cost.n, 4);
  EXPECT_INT_EQ(f.cost.nunknown, 0);
  close_graph();
}

TEST(cost_never_overflows) {
  REQUIRE(open_text(chain));
  count(INT64_MAX);
  EXPECT(f.cost.nunknown == 4 && f.cost.bytes >= 0);
  count(INT64_MAX / 32);
  EXPECT_INT_EQ(f.cost.bytes, INT64_MAX);
  EXPECT(f.cost.peak_bytes > INT64_MAX / 2);
  EXPECT(plan_peak() > INT64_MAX / 2);
  close_graph();
}

TEST(cost_operand_given_twice) {
  REQUIRE(open_text("graph(%x: f32[8]) -> (f32[8]) {\n"
                    "  %y = exp(%x)\n"
                    "  %z = mul(%y, %y)\n"
                    "  %w = neg(%z)\n"
                    "  return %w\n"
                    "}\n"));
  count(1);
  EXPECT_INT_EQ(f.cost.peak_bytes, 64);
  EXPECT_INT_EQ(plan_peak(), 64);
  close_graph();
}

TEST(cost_unknown_operator) {
  REQUIRE(open_text("graph(%x: f32[n]) -> (any[*]) {\n"
                    "  %y = foreign(%x) op=\"com.example.Blur\"\n"
                    "  return %y\n"
                    "}\n"));
  count(1);
  EXPECT_INT_EQ(f.cost.n, 1);
  EXPECT_INT_EQ(f.cost.nunknown, 1);
  EXPECT(!f.cost.node[0].known);
  EXPECT_INT_EQ(plan_peak(), 4);
  close_graph();
}

TEST(cost_of_branches) {
  REQUIRE(open_text("graph(%c: bool[], %x: f32[n]) -> (f32[n]) {\n"
                    "  %y = if(%c, %x, %x) then_branch={ (%p: f32[n])\n"
                    "    %e = exp(%p)\n"
                    "    return %e\n"
                    "  } else_branch={ (%q: f32[n])\n"
                    "    %s = exp(%q)\n"
                    "    %l = log(%s)\n"
                    "    return %l\n"
                    "  } then_captures=1\n"
                    "  return %y\n"
                    "}\n"));
  count(10);
  EXPECT_F64_EQ(f.cost.flops, 20);  // the dearer branch
  EXPECT_INT_EQ(f.cost.n, 1);
  // inputs, the result, and the longer branch's two values
  EXPECT_INT_EQ(plan_peak(), 1 + 40 + 40 + 80);
  close_graph();
}
