// fuse_test.c -- kernels of large and of random graphs: results, bytes moved, time.
//
// Small graphs and the kernels that they become are in tests/text/fuse_kernels.
#include "ir/interpret.h"
#include "passes/fuse_kernels/kernels.h"
#include "passes/passes.h"
#include "test.h"
#include "text/text.h"

static bool optimise(Graph *g, const char *only, Diag *d) {
  Arena a;
  arena_init(&a);
  OptOptions o;
  OptReport report = {.arena = &a};
  opt_defaults(&o);
  o.start_from = only;
  o.verify_each = true;
  tenon_status s = graph_optimise(g, &o, &report);
  if (s) FAIL("%s", d->text);
  arena_deinit(&a);
  return !s;
}

// The same bits, in kernels that are sound and move fewer bytes.
static void check_fused(Graph *before, Graph *after, uint64_t seed, Diag *d) {
  Arena a;
  StrBuf why;
  TextSection s = {0};
  TextRun r = {0};
  arena_init(&a);
  strbuf_init(&why, &a);
  if (!kernels_are_sound(after, &why) || !text_compare(before, after, &s, &r, d, &why))
    FAIL("seed %d: %s", (int)seed, strbuf_text(&why));
  if (kernels_bytes_moved(after) >= kernels_bytes_moved(before))
    FAIL("seed %d: no bytes saved", (int)seed);
  arena_deinit(&a);
}

// More parts than a kernel reads through: the concatenation is still no copy.
TEST(many_values_are_joined_in_place) {
  enum { PARTS = 100 };
  static Diag d;
  Arena a;
  StrBuf text;
  arena_init(&a);
  strbuf_init(&text, &a);
  strbuf_puts(&text, "graph @\"parts\"(%x: f32[8, 16], %w: f32[16, 4], %v: f32[16, 4]) { ");
  for (int i = 0; i < PARTS; i++) {
    strbuf_printf(&text, "%%a%d = softmax(%%", i);
    if (i) strbuf_printf(&text, "a%d", i - 1);
    strbuf_printf(&text, "%s) axis=%d ", i ? "" : "x", i % 2);
  }
  strbuf_puts(&text, "%j = concat(");
  for (int i = 0; i < PARTS; i++) strbuf_printf(&text, "%s%%a%d", i ? ", " : "", i);
  strbuf_puts(&text, ") axis=0 %y = mat_mul(%j, %w) %z = mat_mul(%j, %v) return %y, %z }");
  Graph *g = NULL;
  diag_init(&d);
  EXPECT_STATUS(graph_parse(strbuf_str(&text), NULL, &d, &g), TENON_OK);
  REQUIRE(g);
  g->diag = &d;
  REQUIRE(optimise(g, "fuse-kernels", &d));
  KernelCount k;
  graph_kernels(g, &k);
  EXPECT_INT_EQ(k.kernels, PARTS + 2);
  EXPECT_INT_EQ(k.kind[FUSED_VIEW], 1);
  graph_free(g);
  arena_deinit(&a);
}

// ---- large graphs ----

// A random graph of element-wise nodes, contractions, reductions and movement over [4, 4].
static Graph *random_graph(int64_t n, uint64_t seed, int back, Diag *d) {
  Graph *g = NULL;
  if (graph_create(d, &g)) return NULL;
  Arena a;
  arena_init(&a);
  Node **v = arena_array(&a, Node *, n + 1);
  const Type *t = type_tensor(g, DT_F32, 2, (Dim[]){ie_const(&g->dims, 4), ie_const(&g->dims, 4)});
  v[0] = node_param(g, t, "x");
  for (int64_t i = 1; i <= n; i++) {
    seed = hash_u64(seed + 1);
    Node *x = v[i - 1 - (int64_t)(seed % (uint64_t)MIN(back, i))];
    Node *y = v[i - 1 - (int64_t)((seed >> 20) % (uint64_t)MIN(back, i))];
    switch (seed >> 60) {
    case 0: v[i] = N(g, mat_mul, x, y); break;
    case 1: v[i] = N(g, transpose, x); break;
    case 2: v[i] = N(g, add, x, N(g, reduce_max, x)); break;
    case 3: v[i] = N(g, softmax, x); break;
    case 4:
    case 5:
    case 6: v[i] = N(g, tanh, x); break;
    default: v[i] = N(g, mul, N(g, sigmoid, x), y); break;
    }
  }
  Node *results[4] = {v[n], v[n - n / 4], v[n / 2], v[n / 4]};
  g->main = body_new(g, "random", 1, v, 4, results);
  g->body.n--;
  static const char *const name[] = {"a", "b", "c", "d"};
  for (int i = 0; i < 4; i++) g->main->result_name[i] = name[i];
  arena_deinit(&a);
  return g;
}

TEST(random_graphs_keep_their_results) {
  static Diag d;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    diag_init(&d);
    int back = seed % 3 ? 6 : 40;
    Graph *before = random_graph(60, seed, back, &d), *after = random_graph(60, seed, back, &d);
    REQUIRE(before && after && !before->status);
    if (optimise(after, "fuse-kernels", &d)) check_fused(before, after, seed, &d);
    graph_free(before);
    graph_free(after);
  }
}

// Work grows with the number of nodes: seconds are noisy, so the bound is wide.
TEST(fusion_is_about_linear) {
  static Diag d;
  double time[2];
  for (int k = 0; k < 2; k++) {
    diag_init(&d);
    Graph *g = random_graph(k ? 40000 : 4000, 3, 30, &d);
    REQUIRE(g);
    int64_t start = platform->now();
    Arena a;
    arena_init(&a);
    OptOptions o;
    OptReport report = {.arena = &a};
    opt_defaults(&o);
    o.start_from = "fuse-kernels";
    g->diag = &d;
    if (graph_optimise(g, &o, &report)) FAIL("%s", d.text);
    time[k] = (double)(platform->now() - start) / 1e9;
    arena_deinit(&a);
    graph_free(g);
  }
  if (time[1] > 60 * time[0] + 0.2)
    FAIL("%.3f s for 4,000 nodes, %.3f for 40,000", time[0], time[1]);
}
