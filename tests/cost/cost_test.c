// cost_test.c -- operations, bytes and memory of small graphs, counted by hand.
#include "cost/cost.h"

#include "test.h"

static Diag diag;

static bool cost_text(const char *text, int64_t size, Arena *a, Graph **g, GraphCost *out) {
  DimBinding b;
  diag_init(&diag);
  if (graph_parse(str_of(text), NULL, &diag, g)) {
    FAIL("%s", diag.text);
    return false;
  }
  binding_init(&b, a, *g);
  binding_default(&b, *g, size);
  cost_graph(*g, &b, a, out);
  return true;
}

TEST(cost_of_a_product) {
  Arena a;
  Graph *g = NULL;
  GraphCost c;
  arena_init(&a);
  REQUIRE(cost_text("graph @\"m\"(%x: f32[n, 8], %w: f32[8, 16]) -> (y: f32[n, 16]) {\n"
                    "  %h = mat_mul(%x, %w) : f32[n, 16]\n"
                    "  %y = relu(%h) : f32[n, 16]\n"
                    "  return %y\n}\n",
                    4, &a, &g, &c));
  EXPECT_INT_EQ(c.n, 2);
  EXPECT_F64_EQ(c.node[0].flops, 2.0 * 4 * 8 * 16);
  EXPECT_F64_EQ(c.node[1].flops, 4 * 16);
  EXPECT_INT_EQ(c.node[0].bytes, 4 * (4 * 8 + 8 * 16 + 4 * 16));
  EXPECT_INT_EQ(c.bytes, c.node[0].bytes + 2 * 4 * 4 * 16);
  // Both inputs and the product, or the product and the result.
  EXPECT_INT_EQ(c.peak_bytes, 4 * (4 * 8 + 8 * 16 + 4 * 16));
  EXPECT_INT_EQ(c.nunknown, 0);
  graph_free(g);
  arena_deinit(&a);
}

TEST(cost_of_movement) {
  Arena a;
  Graph *g = NULL;
  GraphCost c;
  arena_init(&a);
  REQUIRE(cost_text("graph @\"m\"(%x: f32[1000, 8], %i: i64[2]) -> (y: f32[2, 8]) {\n"
                    "  %y = gather(%x, %i) : f32[2, 8]\n"
                    "  return %y\n}\n",
                    1, &a, &g, &c));
  EXPECT_F64_EQ(c.flops, 0);
  EXPECT_INT_EQ(c.bytes, 2 * 2 * 8 * 4);
  graph_free(g);
  arena_deinit(&a);
}

TEST(cost_of_a_composite) {
  Arena a;
  Graph *g = NULL;
  GraphCost c;
  arena_init(&a);
  REQUIRE(cost_text("graph @\"m\"(%x: f32[n, 10]) -> (y: f32[n, 10]) {\n"
                    "  %y = softmax(%x) : f32[n, 10]\n"
                    "  return %y\n}\n",
                    3, &a, &g, &c));
  // At least a subtraction, an exponential, a sum and a division an element.
  EXPECT(c.flops >= 4 * 30 && c.flops <= 12 * 30);
  graph_free(g);
  arena_deinit(&a);
}

TEST(cost_saturates) {
  Arena a;
  Graph *g = NULL;
  GraphCost c;
  arena_init(&a);
  REQUIRE(cost_text("graph @\"m\"(%x: f32[n, 10]) -> (y: f32[n, 10]) {\n"
                    "  %y = relu(%x) : f32[n, 10]\n"
                    "  return %y\n}\n",
                    INT64_MAX / 4, &a, &g, &c));
  EXPECT_INT_EQ(c.nunknown, 1);
  EXPECT_F64_EQ(c.flops, 0);
  graph_free(g);
  arena_deinit(&a);
}

// Sizes that a model of its kind is used with: by the rank and the place of a dimension.
TEST(typical_sizes_of_inputs) {
  static const struct {
    const char *type;
    int64_t want[3];  // of a, b, c
  } cases[] = {
      {"f32[a, 3, b, c]", {1, 224, 224}},
      {"f32[a, b, c, 1]", {1, 224, 224}},
      {"i64[a, b]", {1, 128, 7}},
      {"f32[a, b, c]", {1, 128, 128}},
      {"f32[a, 64, b, c]", {1, 7, 7}},
      {"i64[a, 3, b, c]", {1, 7, 7}},
      {"f32[a]", {1, 7, 7}},
  };
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    Arena a;
    Graph *g;
    arena_init(&a);
    diag_init(&diag);
    const char *text =
        str_printf(&a, "graph(%%x: %s, %%u: f32[7, a, b, c, 1, 2]) { return y = %%x, z = %%u }",
                   cases[i].type);
    REQUIRE(!graph_parse(str_of(text), NULL, &diag, &g));
    DimBinding b;
    binding_init(&b, &a, g);
    binding_typical(&b, g);
    binding_default(&b, g, 7);
    for (int32_t k = 0; k < b.n; k++)
      EXPECT_INT_EQ(b.value[k], cases[i].want[g->dims.sym.v[k]->name[0] - 'a']);
    graph_free(g);
    arena_deinit(&a);
  }
}
