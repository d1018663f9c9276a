// placement_test.c -- kernels assigned to two machines: never more expensive than any other
// assignment.
#include "plan/placement.h"
#include "eval/fuse.h"
#include "ir/ir.h"
#include "passes/passes.h"
#include "test.h"

enum { MOST = 14 };
typedef struct Net {
  Arena arena;
  Diag diag;
  Graph *g;
  DimBinding sizes;
  const Node *kernel[MOST];
  int n;
} Net;

// Kernels that read one another's results, with branches that join.
static const char *net_text(Arena *a, uint64_t *seed, int layers) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_puts(&b, "graph @\"net\"(%v0: f32[8, 8], %c: f32[8, 8]) {\n  %one = const i64[] {1}\n");
  for (int i = 1; i <= layers; i++) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    int x = (int)(*seed >> 33) % i, y = (int)(*seed >> 43) % i;
    switch (*seed >> 53 & 3) {
    case 0: strbuf_printf(&b, "  %%v%d = mat_mul(%%v%d, %%v%d)\n", i, x, y); break;
    case 1: strbuf_printf(&b, "  %%v%d = softmax(%%v%d)\n", i, x); break;
    case 2: strbuf_printf(&b, "  %%v%d = cum_sum(%%v%d, %%one)\n", i, x); break;
    default: strbuf_printf(&b, "  %%v%d = mat_mul(%%v%d, %%c)\n", i, x); break;
    }
  }
  strbuf_printf(&b, "  return %%v%d, %%v%d\n}\n", layers, layers > 1 ? layers - 1 : 1);
  return strbuf_text(&b);
}

static bool net_make(Net *t, uint64_t *seed, int layers) {
  OptOptions o;
  OptReport report = {0};
  memset(t, 0, sizeof *t);
  arena_init(&t->arena);
  diag_init(&t->diag);
  report.arena = &t->arena;
  opt_defaults(&o);
  const char *text = net_text(&t->arena, seed, layers);
  if (graph_parse(str_of(text), NULL, &t->diag, &t->g)) return false;
  if (graph_optimise(t->g, &o, &report)) return false;
  binding_init(&t->sizes, &t->arena, t->g);
  NodeList all = body_order(t->g, t->g->main, &t->arena);
  for (int64_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_fused) continue;
    int kind = ((const fused_attrs *)all.v[i]->attrs)->kind;
    if (kind == FUSED_HOST || kind == FUSED_VIEW) continue;
    if (t->n == MOST) return false;
    t->kernel[t->n++] = all.v[i];
  }
  return true;
}

static void net_free(Net *t) {
  graph_free(t->g);
  arena_deinit(&t->arena);
}

static int where(const Net *t, unsigned bits, const Node *n) {
  if (n->op == OP_proj) n = n->src[0];
  for (int i = 0; i < t->n; i++)
    if (t->kernel[i] == n) return bits >> i & 1;
  return 0;
}

// Whether the value is read on that machine: by a kernel there, or as a result of the graph, which
// is the host's.
static bool read_on(const Net *t, unsigned bits, const Node *value, int machine) {
  for (int i = 0; i < t->n; i++)
    for (uint32_t k = 0; k < t->kernel[i]->nsrc; k++)
      if (t->kernel[i]->src[k] == value && (int)(bits >> i & 1) == machine) return true;
  for (int64_t i = 0; i < t->g->main->nresults; i++)
    if (t->g->main->result[i] == value && machine == 0) return true;
  return false;
}

static int64_t total(Net *t, unsigned bits, const AssignCosts *c) {
  int64_t sum = 0;
  NodeList all = body_order(t->g, t->g->main, &t->arena);
  for (int i = 0; i < t->n; i++) {
    NodeCost cost;
    cost_node(t->g, t->kernel[i], &t->sizes, &t->arena, &cost);
    sum += assign_kernel_cost(&c->machine[bits >> i & 1], &cost);
  }
  for (int64_t i = 0; i < all.n; i++) {
    int64_t bytes;
    if (all.v[i]->op == OP_const || all.v[i]->nres != 1) continue;
    if (!read_on(t, bits, all.v[i], !where(t, bits, all.v[i]))) continue;
    if (!cost_type_bytes(type_of(all.v[i]), &t->sizes, &bytes)) bytes = 0;
    sum += assign_copy_cost(c, bytes);
  }
  return sum;
}

static double pick(uint64_t *seed, double low, double high) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return low + (high - low) * (double)(*seed >> 40) / (double)(1 << 24);
}

TEST(assignment_is_cheapest) {
  uint64_t seed = 5;
  int64_t mixed = 0, nets = 0;
  for (int round = 0; round < 60; round++) {
    Net t;
    if (!net_make(&t, &seed, 3 + round % 7)) {
      FAIL("round %d: %s", round, t.diag.text);
    } else {
      // One is good at sums, the other at bytes.
      AssignCosts c = {.machine = {{pick(&seed, 5e8, 1e9), pick(&seed, 4e9, 8e9), 1e-8},
                                   {pick(&seed, 2e9, 9e9), pick(&seed, 5e8, 2e9), 1e-8}},
                       .link = pick(&seed, 2e9, 1e11),
                       .copy = pick(&seed, 0, 1e-7)};
      Assignment got;
      assign_kernels(t.g, &t.sizes, &c, NULL, NULL, &t.arena, &got);
      unsigned bits = 0;
      for (int i = 0; i < t.n; i++) bits |= (unsigned)assigned_to(&got, t.kernel[i]) << i;
      int64_t ours = total(&t, bits, &c);
      for (unsigned other = 0; other < 1u << t.n; other++)
        if (total(&t, other, &c) < ours) {
          FAIL("round %d: %x costs %lld, %x %lld", round, bits, (long long)ours, other,
               (long long)total(&t, other, &c));
          break;
        }
      EXPECT_INT_EQ(got.n[0] + got.n[1], t.n);
      mixed += got.n[0] && got.n[1];
      nets += t.n > 2;
    }
    net_free(&t);
  }
  EXPECT(nets > 30);
  EXPECT(mixed > 5);  // else nothing was cut
}

static int odd_ones(void *ctx, const Node *n) {
  int *count = ctx;
  (void)n;
  return (*count)++ % 2;
}

TEST(assignment_keeps_what_is_forced) {
  uint64_t seed = 11;
  Net t;
  int count = 0;
  AssignCosts c = {.machine = {{1e9, 1e9, 0}, {1e12, 1e12, 0}}, .link = 1e12};
  Assignment got;
  if (net_make(&t, &seed, 6)) {
    assign_kernels(t.g, &t.sizes, &c, odd_ones, &count, &t.arena, &got);
    EXPECT_INT_EQ(count, t.n);
    EXPECT(t.n >= 2);
    for (int i = 0; i < t.n; i++) EXPECT_INT_EQ(assigned_to(&got, t.kernel[i]), i % 2);
  } else {
    FAIL("%s", t.diag.text);
  }
  net_free(&t);
}
