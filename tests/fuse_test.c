// fuse_test.c -- kernels: how many there are, what is in them, and that they compute what the nodes did.
#include "ir/interpret.h"
#include "passes/fuse.h"
#include "passes/kernels.h"
#include "test.h"

#include <math.h>

typedef struct Sample {
  const char *what, *text;
  int64_t kernels, views;
} Sample;

// clang-format off
static const Sample sample[] = {
  {"a chain is one kernel",
   "(%x: f32[n, 4]) { %a = exp(%x) %b = add(%a, %x) %c = relu(%b) return %c }", 1, 0},
  {"what others need is another result",
   "(%x: f32[n, 4]) { %a = exp(%x) %b = neg(%a) return %a, %b }", 1, 0},
  {"bias, residual and activation",
   "(%x: f32[3, 4], %w: f32[4, 5], %b: f32[5], %r: f32[3, 5]) { %m = mat_mul(%x, %w) %a = add(%m, %b) %s = add(%a, %r) "
   "%y = relu(%s) return %y }", 1, 0},
  {"two contractions are two kernels",
   "(%x: f32[3, 4], %w: f32[4, 4]) { %m = mat_mul(%x, %w) %y = relu(%m) %z = mat_mul(%y, %w) return %z }", 2, 0},
  {"a norm waits for a contraction",
   "(%x: f32[3, 4], %w: f32[4, 4]) { %m = mat_mul(%x, %w) %y = softmax(%m) %z = neg(%y) return %z }", 2, 0},
  {"a norm takes in what feeds it, also what others read",
   "(%x: f32[3, 4], %r: f32[3, 4]) { %a = add(%x, %r) %y = softmax(%a) %z = mul(%y, %a) return %z, %a }", 1, 0},
  {"a value that is needed whole cannot be recomputed on the way",
   "(%x: f32[3, 4]) { %a = exp(%x) %s = reduce_sum(%a) %d = div(%a, %s) return %d }", 2, 0},
  {"movement in between is an index map",
   "(%x: f32[2, 3, 4], %w: f32[3, 5]) { %t = transpose(%x) perm=[0, 2, 1] %e = exp(%t) %m = mat_mul(%e, %w) "
   "%u = transpose(%m) perm=[2, 1, 0] %y = relu(%u) return %y }", 1, 0},
  {"two orders of one value do not meet in one kernel",
   "(%x: f32[4, 4], %w: f32[4, 4]) { %m = mat_mul(%x, %w) %t = transpose(%m) %y = add(%m, %t) return %y }", 2, 0},
  {"no path leaves a kernel and comes back",
   "(%x: f32[4, 4], %w: f32[4, 4]) { %m = mat_mul(%x, %w) %e = exp(%m) %p = mat_mul(%e, %w) %y = add(%e, %p) return %y }",
   2, 0},
  {"nor through a reduction",
   "(%x: f32[4, 4], %w: f32[4, 4]) { %m = mat_mul(%x, %w) %e = exp(%m) %s = reduce_max(%e) %d = sub(%e, %s) return %d }",
   3, 0},
  {"concat and slices are read through",
   "(%x: f32[2, 3], %y: f32[2, 3]) { %a = exp(%x) %c = concat(%a, %y) axis=1 %n = neg(%c) %s = sigmoid(%n) return %s }",
   1, 0},
  {"a view launches nothing",
   "(%x: f32[2, 3]) { %y = flatten(%x) axis=0 return %y }", 0, 1},
  {"a view of what is written anyway",
   "(%x: f32[2, 3]) { %e = exp(%x) %y = flatten(%e) axis=0 return %y, %e }", 1, 1},
  {"a view of what is only needed so is written so",
   "(%x: f32[2, 3]) { %e = exp(%x) %y = flatten(%e) axis=0 return %y }", 1, 0},
  {"a transposition is written by the kernel that has the value",
   "(%x: f32[2, 3]) { %e = exp(%x) %y = transpose(%e) return %y, %e }", 1, 0},
  {"a lone transposition moves",
   "(%x: f32[2, 3]) { %y = transpose(%x) return %y }", 1, 0},
  {"shapes of inner values do not keep a kernel from its epilogue",
   "(%x: f32[n, 4], %w: f32[4, 6]) { %m = mat_mul(%x, %w) %s = shape(%m) end=1 %c = const i64[2] {2, 3} "
   "%t = concat(%s, %c) %r = reshape(%m, %t) %y = relu(%r) return %y }", 1, 0},
  {"split into parts",
   "(%x: f32[2, 6], %w: f32[6, 6]) { %m = mat_mul(%x, %w) %s:2 = split(%m) axis=1 num_outputs=2 : f32[2, 3], f32[2, 3] "
   "%a = relu(%s.0) %b = exp(%s.1) %y = add(%a, %b) return %y }", 2, 0},
  {"what one kernel alone reads is part of it, however often it is read",
   "(%x: f32[n, 4], %y: f32[n, 4]) { %a = exp(%x) %b = neg(%y) %s = sub(%b, %a) %t = add(%b, %a) return %s, %t }", 1, 0},
  {"readers of one value lie side by side",
   "(%x: f32[2, 6], %w: f32[6, 6]) { %m = mat_mul(%x, %w) %s:2 = split(%m) axis=1 num_outputs=2 : f32[2, 3], f32[2, 3] "
   "%a = relu(%s.0) %b = exp(%s.1) return %a, %b }", 2, 0},
  {"but not where one waits for the other",
   "(%x: f32[4, 4], %w: f32[4, 4]) { %m = mat_mul(%x, %w) %t = transpose(%m) %a = add(%m, %t) %u = transpose(%a) "
   "%b = add(%u, %a) %c = mul(%b, %t) return %a, %c }", 3, 0},
  {"what is joined along the outermost axis is made side by side, and costs no kernel",
   "(%x: f32[1, 2, 4, 4], %y: f32[1, 3, 4, 4]) { %a = softmax(%x) %b = softmax(%y) %j = concat(%a, %b) axis=1 return %j, %a }", 2, 1},
  {"of every size",
   "(%x: f32[n, 16], %y: f32[m, 16]) { %a = softmax(%x) %b = softmax(%y) %j = concat(%a, %b) axis=0 return %j }", 2, 1},
  {"but a value lies in one place",
   "(%x: f32[n, 16], %y: f32[m, 16]) { %a = softmax(%x) %b = softmax(%y) %j = concat(%a, %b) axis=0 %k = concat(%b, %a) axis=0 "
   "return %j, %k }", 3, 1},
  {"and another axis interleaves its parts",
   "(%x: f32[2, 16], %y: f32[2, 16]) { %a = softmax(%x) %b = softmax(%y) %j = concat(%a, %b) axis=1 return %j }", 3, 0},
  {"an input is not made here",
   "(%x: f32[2, 16], %y: f32[2, 16]) { %a = softmax(%x) %j = concat(%a, %y) axis=0 return %j }", 2, 0},
  {"a body of control flow has kernels, too",
   "(%x: f32[4], %c: bool[]) { %y = if(%c, %x, %x) then_captures=1 then_branch={ (%a: f32[4]) %e = exp(%a) %r = neg(%e) return %r } "
   "else_branch={ (%a: f32[4]) %r = relu(%a) return %r } return %y }", 2, 0},
};
// clang-format on

static Graph *parse(const Sample *s, Diag *d) {
  static char text[8192];
  Graph *g = NULL;
  snprintf(text, sizeof text, "graph @\"sample\"%s", s->text);
  diag_init(d);
  tenon_status st = graph_parse(str_of(text), NULL, d, &g);
  if (st) FAIL("%s: %s", s->what, d->text);
  if (g) g->diag = d;
  return g;
}

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

static bool run_random(Graph *g, Run *run, Value **out) {
  Interp *in = NULL;
  Value *input[8] = {NULL};
  uint64_t rng = 7;
  tenon_status s = interp_create(g, NULL, run->diag, &in);
  for (int64_t i = 0; !s && i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    int64_t dims[MAX_RANK];
    for (int k = 0; k < t->rank; k++) dims[k] = ie_is_const(t->dims[k]) ? t->dims[k]->value : 3;
    s = value_tensor(run, NOWHERE, t->dtype, t->rank, dims, &input[i]);
    for (int64_t k = 0; !s && k < input[i]->n; k++) {
      rng = rng * 6364136223846793005ull + 1442695040888963407ull;
      val_put_f64(input[i], k, t->dtype == DT_BOOL ? 1 : (double)(rng >> 40) * 0x1p-23 - 1);
    }
  }
  if (!s) s = interp_run(in, run, input, out);
  for (int64_t i = 0; !s && i < g->main->nresults; i++)  // constants go with the interpreter
    if (!out[i]->run) s = TENON_EINTERNAL;
  interp_free(in);
  return !s;
}

static bool same_results(Graph *before, Graph *after, Diag *d) {
  Run p, q;
  Value *a[8] = {NULL}, *b[8] = {NULL};
  run_init(&p, NULL, d);
  run_init(&q, NULL, d);
  bool ok = run_random(before, &p, a) && run_random(after, &q, b);
  if (!ok) FAIL("%s", d->text);
  for (int64_t i = 0; ok && i < before->main->nresults; i++) {
    ok = a[i]->n == b[i]->n && a[i]->rank == b[i]->rank && a[i]->dtype == b[i]->dtype;
    for (int64_t k = 0; ok && k < a[i]->n; k++) ok = val_f64(a[i], k) == val_f64(b[i], k);
  }
  run_deinit(&p);
  run_deinit(&q);
  return ok;
}

// At most one anchor in each kernel, and nothing but kernels and the host's nodes around them.
static void check_kernels(Graph *g, const char *what) {
  Arena a;
  arena_init(&a);
  NodeList order = body_order(g, g->main, &a);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    if (n->op != OP_fused) continue;
    int anchors = 0;
    NodeList inner = body_order(g, ((const fused_attrs *)n->attrs)->body, &a);
    for (int64_t k = 0; k < inner.n; k++) {
      int op = inner.v[k]->op;
      if (op == OP_param || op == OP_const || op == OP_proj || op == OP_none) continue;
      anchors += fuse_op(inner.v[k]).cls == FC_ANCHOR;
      if (fuse_op(inner.v[k]).cls == FC_HOST) FAIL("%s: %s in a kernel", what, op_name(inner.v[k]));
    }
    if (anchors > 1) FAIL("%s: a kernel with %d anchors", what, anchors);
  }
  arena_deinit(&a);
}

// Kernels move no more than their nodes would, each launched alone.
static int64_t bytes_moved(Graph *g) {
  Arena a;
  arena_init(&a);
  DimBinding b;
  GraphCost cost;
  binding_init(&b, &a, g);
  binding_default(&b, g, 3);
  cost_graph(g, &b, &a, &cost);
  arena_deinit(&a);
  return cost.bytes;
}

// More than a kernel would read through: still no copy, whoever reads the joined value.
TEST(many_values_are_joined_in_place) {
  enum { PARTS = 100 };
  static Diag d;
  Arena a;
  StrBuf text;
  arena_init(&a);
  strbuf_init(&text, &a);
  strbuf_puts(&text, "(%x: f32[8, 16], %w: f32[16, 4], %v: f32[16, 4]) { ");
  for (int i = 0; i < PARTS; i++) {
    strbuf_printf(&text, "%%a%d = softmax(%%", i);
    if (i) strbuf_printf(&text, "a%d", i - 1);
    strbuf_printf(&text, "%s) axis=%d ", i ? "" : "x", i % 2);
  }
  strbuf_puts(&text, "%j = concat(");
  for (int i = 0; i < PARTS; i++) strbuf_printf(&text, "%s%%a%d", i ? ", " : "", i);
  strbuf_puts(&text, ") axis=0 %y = mat_mul(%j, %w) %z = mat_mul(%j, %v) return %y, %z }");
  Sample s = {"many parts", strbuf_text(&text), PARTS + 2, 1};
  Graph *g = parse(&s, &d);
  REQUIRE(g && optimise(g, "fuse", &d));
  KernelCount k;
  graph_kernels(g, &k);
  EXPECT_INT_EQ(k.kernels, s.kernels);
  EXPECT_INT_EQ(k.kind[FUSED_VIEW], s.views);
  graph_free(g);
  arena_deinit(&a);
}

TEST(kernels_of_samples) {
  static Diag d;
  for (int64_t i = 0; i < ARRAY_LEN(sample); i++) {
    const Sample *s = &sample[i];
    Graph *before = parse(s, &d), *after = before ? parse(s, &d) : NULL;
    if (after && optimise(after, "fuse", &d)) {
      KernelCount k;
      graph_kernels(after, &k);
      if (k.kernels != s->kernels || k.kind[FUSED_VIEW] != s->views)
        FAIL("%s: %lld kernels and %lld views, expected %lld and %lld", s->what,
             (long long)k.kernels, (long long)k.kind[FUSED_VIEW], (long long)s->kernels,
             (long long)s->views);
      check_kernels(after, s->what);
      if (bytes_moved(after) > bytes_moved(before)) FAIL("%s: more bytes are moved", s->what);
      if (!same_results(before, after, &d)) FAIL("%s: other results", s->what);
    }
    graph_free(before);
    graph_free(after);
  }
}

TEST(fusing_again_changes_nothing) {
  static Diag d;
  for (int64_t i = 0; i < ARRAY_LEN(sample); i++) {
    Graph *g = parse(&sample[i], &d);
    KernelCount once, twice;
    if (g && optimise(g, "fuse", &d)) {
      graph_kernels(g, &once);
      optimise(g, "fuse", &d);
      graph_kernels(g, &twice);
      EXPECT_INT_EQ(twice.kernels, once.kernels);
    }
    graph_free(g);
  }
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
    if (optimise(after, "fuse", &d)) {
      check_kernels(after, "random");
      if (bytes_moved(after) >= bytes_moved(before)) FAIL("seed %d: no bytes saved", (int)seed);
      if (!same_results(before, after, &d)) FAIL("seed %d: other results", (int)seed);
    }
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
    o.start_from = "fuse";
    g->diag = &d;
    if (graph_optimise(g, &o, &report)) FAIL("%s", d.text);
    time[k] = (double)(platform->now() - start) / 1e9;
    arena_deinit(&a);
    graph_free(g);
  }
  if (time[1] > 60 * time[0] + 0.2)
    FAIL("%.3f s for 4,000 nodes, %.3f for 40,000", time[0], time[1]);
}
