// layout_test.c -- cheapest cuts, and ops that are computed channels last.
//
// Graphs, and which of their values the pass computes channels last, are in
// tests/text/choose_layout.
#include "base/min_cut.h"
#include "ops/order.h"
#include "passes/passes.h"
#include "sample.h"
#include "test.h"
#include "text/text.h"

// ---- cuts ----

typedef struct Rng {
  uint64_t state;
} Rng;
static int64_t draw(Rng *r, int64_t n) {
  r->state = r->state * 6364136223846793005ull + 1442695040888963407ull;
  return (int64_t)(r->state >> 33) % n;
}

enum { MAX_VARS = 10, MAX_PAIRS = 24, MAX_SHARED = 8, MAX_USERS = 4 };
typedef struct Problem {
  int nvars, npairs, nshared;
  struct {
    int32_t own, user[MAX_USERS];
    int nusers;
    int64_t cost;
  } shared[MAX_SHARED];
  int64_t cost[MAX_VARS][2];
  struct {
    int a, b;
    int64_t cost;
  } pair[MAX_PAIRS];
} Problem;

static bool bit_of(unsigned bits, int32_t v) { return v < 0 ? v == CUT_ONE : bits >> v & 1; }

static int64_t price(const Problem *p, unsigned bits) {
  int64_t sum = 0;
  for (int i = 0; i < p->nvars; i++) sum += p->cost[i][bits >> i & 1];
  for (int i = 0; i < p->npairs; i++)
    if (bits >> p->pair[i].a & 1 && !(bits >> p->pair[i].b & 1)) sum += p->pair[i].cost;
  for (int i = 0; i < p->nshared; i++) {
    bool differs = false;
    for (int k = 0; k < p->shared[i].nusers; k++)
      differs |= bit_of(bits, p->shared[i].user[k]) != bit_of(bits, p->shared[i].own);
    if (differs) sum += p->shared[i].cost;
  }
  return sum;
}

static int32_t draw_var(Rng *r, int n) {
  int64_t v = draw(r, n + 2);
  return v < n ? (int32_t)v : v == n ? CUT_ZERO : CUT_ONE;
}

static void draw_problem(Problem *p, Rng *r) {
  p->nvars = 1 + (int)draw(r, MAX_VARS);
  p->npairs = (int)draw(r, MAX_PAIRS + 1);
  for (int i = 0; i < p->nvars; i++)
    for (int v = 0; v < 2; v++) p->cost[i][v] = draw(r, 3) ? draw(r, 20) : 0;
  for (int i = 0; i < p->npairs; i++) {
    p->pair[i].a = (int)draw(r, p->nvars);
    p->pair[i].b = (int)draw(r, p->nvars);
    p->pair[i].cost = draw(r, 6) ? draw(r, 20) : CUT_NEVER;
  }
  p->nshared = (int)draw(r, MAX_SHARED + 1);
  for (int i = 0; i < p->nshared; i++) {
    p->shared[i].own = draw_var(r, p->nvars);
    p->shared[i].nusers = (int)draw(r, MAX_USERS + 1);
    p->shared[i].cost = draw(r, 30);
    for (int k = 0; k < MAX_USERS; k++) p->shared[i].user[k] = draw_var(r, p->nvars);
  }
}

TEST(cut_is_cheapest) {
  Rng r = {1};
  for (int round = 0; round < 2000; round++) {
    static Problem p;
    Arena a;
    Cut c;
    draw_problem(&p, &r);
    arena_init(&a);
    cut_init(&c, &a);
    for (int i = 0; i < p.nvars; i++) cut_var(&c);
    for (int i = 0; i < p.nvars; i++) cut_cost(&c, i, p.cost[i][0], p.cost[i][1]);
    for (int i = 0; i < p.npairs; i++) cut_pair(&c, p.pair[i].a, p.pair[i].b, p.pair[i].cost);
    for (int i = 0; i < p.nshared; i++)
      cut_shared(&c, p.shared[i].own, p.shared[i].user, p.shared[i].nusers, p.shared[i].cost);
    bool *is_one = arena_array(&a, bool, c.n);
    cut_solve(&c, is_one);
    unsigned got = 0, least = 0;
    for (int i = 0; i < p.nvars; i++) got |= (unsigned)is_one[i] << i;
    for (unsigned bits = 1; bits < 1u << p.nvars; bits++) {
      int64_t x = price(&p, bits), y = price(&p, least);
      int more = __builtin_popcount(bits) - __builtin_popcount(least);
      if (x < y || (x == y && more < 0)) least = bits;
    }
    if (price(&p, got) != price(&p, least) || __builtin_popcount(got) != __builtin_popcount(least))
      FAIL("round %d: %x costs %lld, %x costs %lld", round, got, (long long)price(&p, got), least,
           (long long)price(&p, least));
    arena_deinit(&a);
  }
}

// A chain of variables pulled to either end takes few looks at each arc.
TEST(cut_of_a_chain_is_fast) {
  enum { N = 20000 };
  Arena a;
  Cut c;
  arena_init(&a);
  cut_init(&c, &a);
  bool *is_one = arena_array(&a, bool, N);
  for (int i = 0; i < N; i++) cut_var(&c);
  for (int i = 0; i < N; i++)
    cut_cost(&c, i, 7 * (i % 3 == 0), i == 0 || i == N - 1 ? CUT_NEVER : 0);
  for (int i = 0; i + 1 < N; i++) {
    cut_pair(&c, i, i + 1, 10);
    cut_pair(&c, i + 1, i, 10);
  }
  cut_solve(&c, is_one);
  EXPECT(!is_one[0] && !is_one[N - 1] && is_one[N / 2]);
  EXPECT(c.work < 100 * (int64_t)N);
  arena_deinit(&a);
}

// ---- ops ----

// Each channels-last sample computes what the channels-first node does between transposes.
static void check_sample(const OpInfo *op, const char *text) {
  static Diag d;
  Arena a;
  arena_init(&a);
  diag_init(&d);
  const char *t = sample_graph(&a, &(Sample){op, text});
  Graph *g = NULL, *h = NULL;
  if (!t || graph_parse(str_of(t), NULL, &d, &g) || graph_parse(str_of(t), NULL, &d, &h)) {
    FAIL("%s %s: %s", op->name, text, d.text);
  } else {
    Node *n = h->main->result[0];
    while (n->op == OP_proj) n = n->src[0];
    EXPECT(node_channels_last(n));
    g->diag = h->diag = &d;
    OptOptions o;
    OptReport report = {.arena = &a};
    opt_defaults(&o);
    o.fast = 0;
    if (graph_optimise(h, &o, &report)) FAIL("%s: %s", op->name, d.text);
    TextSection s = {0};
    TextRun r = {0};
    StrBuf why;
    strbuf_init(&why, &a);
    if (!text_compare(g, h, &s, &r, &d, &why)) FAIL("%s %s: %s", op->name, text, strbuf_text(&why));
  }
  graph_free(g);
  graph_free(h);
  arena_deinit(&a);
}

TEST(layout_of_samples) {
  int64_t seen = 0;
  for (int i = 0; i < OP_COUNT; i++)
    for (int k = 0; op_table[i]->samples && op_table[i]->samples[k]; k++)
      if (strstr(op_table[i]->samples[k], "channels_last=true")) {
        check_sample(op_table[i], op_table[i]->samples[k]);
        seen++;
      }
  EXPECT(seen >= 16);
}

// Weights and data go to the other order and back.
TEST(layout_orders_are_inverse) {
  for (int kind = ORDER_DATA; kind <= ORDER_CONV_TRANSPOSE; kind++)
    for (int rank = 0; rank <= 6; rank++) {
      int64_t first[MAX_RANK], last[MAX_RANK];
      order_first((OrderKind)kind, rank, first);
      order_last((OrderKind)kind, rank, last);
      for (int i = 0; i < rank; i++) EXPECT(first[last[i]] == i && last[first[i]] == i);
    }
}
