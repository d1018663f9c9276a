// layout_test.c -- the order of channels: cheapest cuts, which values are converted, and that no bit changes.
#include "ir/interpret.h"
#include "ops/order.h"
#include "passes/cut.h"
#include "passes/kernels.h"
#include "passes/passes.h"
#include "sample.h"
#include "test.h"

#include <stdlib.h>

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

// ---- graphs ----

typedef struct Case {
  const char *what, *text;
  int64_t turned, conversions, kernels, transposes;
} Case;

// clang-format off
static const Case cases[] = {
  {"a chain that ends in one pixel",
   "(%x: f32[n, 16, 32, 32]) { %w = const f32[16, 16, 1, 1] fill %a = conv(%x, %w) %r = relu(%a) %b = conv(%r, %w) "
   "%g = global_average_pool(%b) %y = flatten(%g) return %y }", 4, 1, 3, 1},
  {"a residual",
   "(%x: f32[n, 16, 32, 32]) { %w = const f32[16, 16, 3, 3] fill %a = conv(%x, %w) pads=[1, 1, 1, 1] "
   "%b = conv(%a, %w) pads=[1, 1, 1, 1] %c = add(%a, %b) "
   "%r = relu(%c) return %r }", 3, 2, 2, 2},
  {"one channel stays first",
   "(%x: f32[n, 1, 8, 8]) { %w = const f32[1, 1, 3, 3] fill %y = conv(%x, %w) return %y }", 0, 0, 1, 0},
  {"a pool alone is not worth two conversions",
   "(%x: f32[n, 16, 8, 8]) { %y = max_pool(%x) kernel_shape=[2, 2] %z = relu(%y) return %z }", 0, 0, 1, 0},
  {"a model that is channels last by its own transposes",
   "(%x: f32[n, 32, 32, 16]) { %w = const f32[16, 16, 1, 1] fill %t = transpose(%x) perm=[0, 3, 1, 2] %c = conv(%t, %w) "
   "%r = relu(%c) %y = transpose(%r) perm=[0, 2, 3, 1] return %y }", 2, 0, 1, 0},
  {"channels are joined, cut, padded and reduced in either order",
   "(%x: f32[n, 16, 32, 32]) { %w = const f32[16, 16, 1, 1] fill %a = conv(%x, %w) %c = concat(%a, %x) axis=1 "
   "%b = const i64[1] {4} %e = const i64[1] {20} %o = const i64[1] {1} %s = slice(%c, %b, %e, %o) "
   "%p = const i64[8] {0, 0, 1, 1, 0, 0, 1, 1} %q = pad(%s, %p) %d = conv(%q, %w) %k = const i64[2] {2, 3} "
   "%m = reduce_mean(%d, %k) keepdims=false return %m }", 4, 1, 3, 2},
  {"squeeze and excite",
   "(%x: f32[n, 16, 32, 32]) { %w = const f32[16, 16, 1, 1] fill %a = conv(%x, %w) %g = global_average_pool(%a) "
   "%c = conv(%g, %w) %s = sigmoid(%c) %m = mul(%a, %s) %b = conv(%m, %w) %y = global_max_pool(%b) return %y }", 7, 1, 5, 1},
  {"parts of a split",
   "(%x: f32[n, 16, 32, 32]) { %w = const f32[16, 16, 1, 1] fill %v = const f32[16, 8, 1, 1] fill %a = conv(%x, %w) "
   "%s:2 = split(%a) axis=1 num_outputs=2 : f32[n, 8, 32, 32], f32[n, 8, 32, 32] %p = conv(%s.0, %v) %q = conv(%s.1, %v) "
   "%r = add(%p, %q) %y = global_average_pool(%r) return %y }", 7, 1, 4, 1},
  {"pixels in a row, then channels last by the model",
   "(%x: f32[n, 16, 32, 32]) { %w = const f32[16, 16, 1, 1] fill %a = conv(%x, %w) %s = const i64[3] {0, 16, 1024} "
   "%r = reshape(%a, %s) %y = transpose(%r) perm=[0, 2, 1] return %y }", 2, 1, 1, 1},
  {"sizes that are not known",
   "(%x: f32[n, 16, h, w]) { %w = const f32[32, 16, 3, 3] fill %a = conv(%x, %w) strides=[2, 2] pads=[1, 1, 1, 1] "
   "%p = average_pool(%a) kernel_shape=[3, 3] %y = global_average_pool(%p) return %y }", 3, 1, 3, 1},
  {"transposed convolution and resize",
   "(%x: f32[n, 16, 8, 8]) { %w = const f32[16, 16, 2, 2] fill %a = conv_transpose(%x, %w) strides=[2, 2] "
   "%s = const f32[4] {1, 1, 2, 2} %r = resize(%a, _, %s) mode=linear %b = conv_transpose(%r, %w) "
   "%y = global_average_pool(%b) return %y }", 4, 1, 4, 1},
};
// clang-format on

// The text with weights written out: "const TYPE[dims] fill".
static Graph *parse(const Case *c, Diag *d) {
  Arena a;
  StrBuf b;
  Graph *g = NULL;
  arena_init(&a);
  strbuf_init(&b, &a);
  strbuf_puts(&b, "graph @\"case\"");
  for (const char *p = c->text; *p;) {
    if (strncmp(p, " fill", 5)) {
      strbuf_printf(&b, "%c", *p++);
      continue;
    }
    const char *open = p;
    while (*open != '[') open--;
    int64_t n = 1;
    for (const char *q = open + 1; q < p; q++)
      if (q[-1] == '[' || q[-1] == ' ') n *= atoll(q);
    strbuf_puts(&b, " {");
    for (int64_t i = 0; i < n; i++)
      strbuf_printf(&b, "%s%g", i ? ", " : "", (double)(i * 37 % 29 - 14) / 16);
    strbuf_puts(&b, "}");
    p += 5;
  }
  diag_init(d);
  if (graph_parse(strbuf_str(&b), NULL, d, &g)) FAIL("%s: %s", c->what, d->text);
  if (g) g->diag = d;
  arena_deinit(&a);
  return g;
}

static bool run_random(Graph *g, Run *run, Value **out) {
  Interp *in = NULL;
  Value *input[8] = {NULL};
  Rng r = {7};
  tenon_status s = interp_create(g, NULL, run->diag, &in);
  for (int64_t i = 0; !s && i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    int64_t dims[MAX_RANK];
    for (int k = 0; k < t->rank; k++) dims[k] = ie_is_const(t->dims[k]) ? t->dims[k]->value : 9 - k;
    s = value_tensor(run, NOWHERE, t->dtype, t->rank, dims, &input[i]);
    for (int64_t k = 0; !s && k < input[i]->n; k++)
      val_put_f64(input[i], k, (double)draw(&r, 1 << 20) * 0x1p-19 - 1);
  }
  if (!s) s = interp_run(in, run, input, out);
  for (int64_t i = 0; !s && i < g->main->nresults; i++)
    if (!out[i]->run) s = TENON_EINTERNAL;
  interp_free(in);
  return !s;
}

static void expect_same_bits(const char *what, Graph *before, Graph *after, Diag *d) {
  Run p, q;
  Value *a[8] = {NULL}, *b[8] = {NULL};
  run_init(&p, NULL, d);
  run_init(&q, NULL, d);
  bool ok = run_random(before, &p, a) && run_random(after, &q, b);
  if (!ok) FAIL("%s: %s", what, d->text);
  for (int64_t i = 0; ok && i < before->main->nresults; i++) {
    ok = a[i]->n == b[i]->n && a[i]->rank == b[i]->rank && a[i]->dtype == b[i]->dtype;
    for (int64_t k = 0; ok && k < a[i]->rank; k++) ok = a[i]->dims[k] == b[i]->dims[k];
    int64_t bytes = 0;
    ok = ok && dtype_bytes(a[i]->dtype, a[i]->n, &bytes);
    if (!ok || memcmp(a[i]->data, b[i]->data, (size_t)bytes))
      FAIL("%s: result %lld differs", what, (long long)i);
  }
  run_deinit(&p);
  run_deinit(&q);
}

static int64_t count_transposes(Graph *g, const Body *b, Arena *a) {
  int64_t n = 0;
  NodeList order = body_order(g, b, a);
  for (int64_t i = 0; i < order.n; i++) {
    if (order.v[i]->op == OP_fused)
      n += count_transposes(g, ((const fused_attrs *)order.v[i]->attrs)->body, a);
    n += order.v[i]->op == OP_transpose;
  }
  return n;
}

static void check_case(const Case *c, bool forced, const char *disable) {
  static Diag d;
  Arena a;
  OptOptions o;
  arena_init(&a);
  OptReport report = {.arena = &a};
  opt_defaults(&o);
  o.fast = 0;
  o.verify_each = true;
  o.channels_last = forced;
  o.disable = disable;
  Graph *before = parse(c, &d), *after = parse(c, &d);
  if (before && after) {
    if (graph_optimise(after, &o, &report)) FAIL("%s: %s", c->what, d.text);
    KernelCount k;
    graph_kernels(after, &k);
    const LayoutReport *l = &report.layout;
    int64_t left = count_transposes(after, after->main, &a);
    if (!forced && !disable &&
        (l->turned != c->turned || l->converted.n != c->conversions || k.kernels != c->kernels ||
         left != c->transposes))
      FAIL("%s: %lld turned, %lld conversions, %lld kernels, %lld transposes", c->what,
           (long long)l->turned, (long long)l->converted.n, (long long)k.kernels, (long long)left);
    if (disable && l->turned) FAIL("%s: turned all the same", c->what);
    expect_same_bits(c->what, before, after, &d);
  }
  graph_free(before);
  graph_free(after);
  arena_deinit(&a);
}

TEST(layout_of_graphs) {
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    check_case(&cases[i], false, NULL);
    check_case(&cases[i], true, NULL);
    check_case(&cases[i], false, "layout");
  }
}

// Weights lie as [K, N], whatever the model says.
TEST(layout_of_weights) {
  static const Case gemm = {
      "gemm",
      "(%x: f32[n, 8]) { %w = const f32[4, 8] fill %y = gemm(%x, %w) transB=true return %y }",
      0,
      0,
      1,
      0};
  static const Case dot = {
      "dot",
      "(%x: f32[n, 8]) { %w = const f32[4, 8] fill %y = dot(%x, %w) contract_lhs=[1] "
      "contract_rhs=[1] return %y }",
      0,
      0,
      1,
      0};
  check_case(&gemm, false, NULL);
  check_case(&dot, false, NULL);
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
    expect_same_bits(op->name, g, h, &d);
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
