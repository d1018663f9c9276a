// pruned_test.c -- constants with zeros, as they are and moved.
#include "eval/movement.h"
#include "ir/opinfo.h"
#include "test.h"

// A matrix whose runs of 16 columns are 0 but for each `kept`-th of a row.
static Node *matrix(Graph *g, int64_t kept) {
  float w[64][96];
  for (int64_t r = 0; r < 64; r++)
    for (int64_t c = 0; c < 96; c++)
      w[r][c] = (r + c / 16) % kept ? 0 : (float)((r * 96 + c) % 13 + 1);
  return node_const(g, DT_F32, 2, (int64_t[]){64, 96}, w, NULL);
}

TEST(constants_of_runs_of_zeros_are_pruned) {
  static const struct {
    int64_t kept;
    bool pruned;
    double left;
  } rows[] = {{1, false, 1}, {2, true, 0.5}, {4, true, 0.25}};
  for (int i = 0; i < ARRAY_LEN(rows); i++) {
    Diag d;
    diag_init(&d);
    Graph *g;
    EXPECT_STATUS(graph_create(&d, &g), TENON_OK);
    Node *w = matrix(g, rows[i].kept);
    const Node *moved = node_const_moved(g, NA(g, transpose, (&(transpose_attrs){0}), w));
    EXPECT_INT_EQ(const_is_pruned(g, w), rows[i].pruned);
    EXPECT_INT_EQ(const_is_pruned(g, moved), rows[i].pruned);
    EXPECT_NEAR(const_runs_left(g, w, 16), rows[i].left, 1e-9);
    graph_free(g);
  }
}
