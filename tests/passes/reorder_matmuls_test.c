// matmul_order_test.c -- the order of matrix products against trying every order.
//
// Dynamic shapes, batches and fast-math flags are in tests/text/reorder_matmuls.
#include "passes/passes.h"
#include "test.h"

#include <math.h>

static uint64_t rng = 7;
static int64_t draw(int64_t n) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (int64_t)((rng >> 33) % (uint64_t)n);
}

// A random bracketing of factors i to j as text; the value's number is returned.
static int bracket(StrBuf *b, int i, int j, int *next) {
  if (i == j) return i;
  int k = i + (int)draw(j - i);
  int left = bracket(b, i, k, next), right = bracket(b, k + 1, j, next), at = (*next)++;
  strbuf_printf(b, "%%v%d = mat_mul(%%v%d, %%v%d) ", at, left, right);
  return at;
}

static double brute_force(const int64_t *size, int i, int j) {
  double best = i == j ? 0 : INFINITY;
  for (int k = i; k < j; k++)
    best = fmin(best, brute_force(size, i, k) + brute_force(size, k + 1, j) +
                          (double)(size[i] * size[k + 1] * size[j + 1]));
  return best;
}

static double graph_cost(Graph *g) {
  Arena a;
  arena_init(&a);
  NodeList l = body_order(g, g->main, &a);
  double cost = 0;
  for (int64_t i = 0; i < l.n; i++) {
    if (l.v[i]->op != OP_mat_mul) continue;
    const Type *x = type_of(l.v[i]->src[0]), *y = type_of(l.v[i]->src[1]);
    double part = (double)y->dims[y->rank - 1]->value;
    for (int k = 0; k < x->rank; k++)
      part *= (double)(ie_is_const(x->dims[k]) ? x->dims[k]->value : 64);
    cost += part;
  }
  arena_deinit(&a);
  return cost;
}

static tenon_status run_reorder(Graph *g, unsigned fast, bool *out_changed) {
  Arena a;
  arena_init(&a);
  OptOptions o;
  opt_defaults(&o);
  o.fast = fast;
  OptReport report = {.arena = &a};
  PassCtx c = {.g = g, .o = &o, .report = &report, .scratch = &a};
  tenon_status s = pass_reorder_matmuls(&c, out_changed);
  arena_deinit(&a);
  return s;
}

static Graph *parse(const char *text, Diag *d) {
  Graph *g = NULL;
  return graph_parse(str_of(text), NULL, d, &g) ? NULL : g;
}

TEST(matmul_order_is_the_cheapest) {
  for (int t = 0; t < 200; t++) {
    static Diag d;
    diag_init(&d);
    Arena a;
    arena_init(&a);
    StrBuf b;
    strbuf_init(&b, &a);
    int n = 3 + (int)draw(10), next = n;
    int64_t size[13];
    for (int i = 0; i <= n; i++) size[i] = 1 + draw(50);
    strbuf_puts(&b, "graph @\"chain\"(");
    for (int i = 0; i < n; i++)
      strbuf_printf(&b, "%s%%v%d: f32[%d, %d]", i ? ", " : "", i, (int)size[i], (int)size[i + 1]);
    strbuf_puts(&b, ") { ");
    int root = bracket(&b, 0, n - 1, &next);
    strbuf_printf(&b, "return %%v%d }", root);
    Graph *g = parse(strbuf_text(&b), &d);
    REQUIRE(g != NULL);
    bool changed;
    EXPECT(!run_reorder(g, FAST_ALL, &changed));
    EXPECT(!graph_verify(g, &d));
    EXPECT_F64_EQ(graph_cost(g), brute_force(size, 0, n - 1));
    graph_free(g);
    arena_deinit(&a);
  }
}
