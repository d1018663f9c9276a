// plan_test.c -- the memory plan: sound on random graphs, and every way to break it is noticed.
#include "compile/compile.h"
#include "plan/plan.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t rng = 1;
static int64_t draw(int64_t n) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (int64_t)((rng >> 33) % (uint64_t)n);
}

// A random graph: point-wise ops, products, views and joins over values of a few sizes.
static Graph *random_graph(Diag *d, int nnodes, uint64_t seed) {
  Graph *g;
  diag_init(d);
  if (graph_create(d, &g)) return NULL;
  rng = seed * 2654435761u + 1;
  Dim dims[2] = {ie_sym(&g->dims, STR("n"), 0, INT64_MAX), ie_const(&g->dims, 8)};
  VEC(Node *) v = {0};
  Node *param[2];
  for (int i = 0; i < 2; i++) {
    param[i] = node_param(g, type_tensor(g, DT_F32, 2, dims), i ? "y" : "x");
    vec_push(&g->arena, &v, param[i]);
  }
  static const int unary[] = {OP_neg, OP_relu, OP_tanh, OP_abs},
                   binary[] = {OP_add, OP_mul, OP_sub, OP_max};
  int64_t flat[2] = {-1, 8}, swapped[2] = {8, -1};
  for (int i = 0; i < nnodes; i++) {
    Node *a = v.v[draw(MIN(v.n, 6)) + MAX(v.n - 6, 0)], *b = v.v[draw(v.n)], *r;
    switch (draw(6)) {
    case 0:
    case 1: r = node_new(g, unary[draw(4)], 1, &a, NULL, 1, NULL); break;
    case 2:
      r = N(g, reshape, N(g, reshape, a, node_i64s(g, 2, swapped)), node_i64s(g, 2, flat));
      break;
    case 3: r = N(g, sub, a, N(g, softmax, b)); break;
    default:
      r = type_of(a) == type_of(b)
              ? node_new(g, binary[draw(4)], 2, (Node *[]){a, b}, NULL, 1, NULL)
              : N(g, neg, a);
    }
    if (graph_status(g)) break;
    if (type_of(r) == type_of(param[0])) vec_push(&g->arena, &v, r);
  }
  Node *result[2] = {v.v[v.n - 1], v.v[v.n / 2]};
  g->main = body_new(g, "random", 2, param, 2, result);
  g->body.n--;
  g->main->result_name[0] = "a";
  g->main->result_name[1] = "b";
  return g;
}

static tenon_status run_plan_or_graph(Graph *g, const MemPlan *p, int64_t n, Run *run,
                                      Value **out) {
  Value *in[2];
  for (int i = 0; i < 2; i++) {
    TRY(value_tensor(run, NOWHERE, DT_F32, 2, (int64_t[]){n, 8}, &in[i]));
    for (int64_t k = 0; k < in[i]->n; k++)
      val_put_f64(in[i], k, (double)((k * 37 + i * 11) % 19) / 7 - 1);
  }
  if (p) return plan_run(p, run, in, out);
  Interp *it;
  TRY(interp_create(g, NULL, run->diag, &it));
  tenon_status s = interp_run(it, run, in, out);
  interp_free(it);
  return s;
}

static bool same_results(Graph *g, const MemPlan *p, int64_t n, Diag *d) {
  Run x, y;
  Value *a[2] = {NULL}, *b[2] = {NULL};
  run_init(&x, NULL, d);
  run_init(&y, NULL, d);
  bool same = !run_plan_or_graph(g, NULL, n, &x, a) && !run_plan_or_graph(g, p, n, &y, b);
  for (int i = 0; same && i < 2; i++)
    same = a[i]->n == b[i]->n &&
           (a[i]->n == 0 || !memcmp(a[i]->data, b[i]->data, (size_t)a[i]->n * 4));
  run_deinit(&x);
  run_deinit(&y);
  return same;
}

static bool plan_of(Graph *g, Arena *a, MemPlan **p, Diag *d) {
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = plan_create(g, a, p);
  trap_leave(&t);
  return !t.status;
}

TEST(plan_random_graphs) {
  static Diag d;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    Graph *g = random_graph(&d, 5 + (int)seed, seed);
    REQUIRE(g && !graph_status(g));
    Arena a;
    arena_init(&a);
    MemPlan *p = NULL;
    EXPECT(plan_of(g, &a, &p, &d));
    EXPECT_STATUS(plan_verify(p, &d), TENON_OK);
    EXPECT(p->arena_bytes >= p->bound_bytes && p->bound_bytes <= p->import_bytes);
    for (int64_t n = 0; n <= 9; n += 3)
      if (!same_results(g, p, n, &d))
        FAIL("seed %d, n = %d: the plan gives other results %s", (int)seed, (int)n, d.text);
    arena_deinit(&a);
    graph_free(g);
  }
}

// More buffers than several packings are tried for: every pair looked at, by itself.
TEST(plan_very_many_buffers) {
  enum { NODES = 20000 };
  static Diag d;
  Graph *g = random_graph(&d, NODES, 5);
  REQUIRE(g && !graph_status(g));
  Arena a;
  arena_init(&a);
  MemPlan *p = NULL;
  REQUIRE(plan_of(g, &a, &p, &d));
  EXPECT(p->nroots > 3000);
  EXPECT_STATUS(plan_verify(p, &d), TENON_OK);
  EXPECT(p->arena_bytes >= p->bound_bytes && p->arena_bytes <= 2 * p->bound_bytes);
  int64_t *offset = arena_array(&a, int64_t, p->n), *size = arena_array(&a, int64_t, p->n), total;
  REQUIRE(
      plan_layout(p, p->reference.value, p->reference.known, p->reference.n, offset, size, &total));
  int64_t bad = 0;
  for (int32_t i = 0; i < p->nroots; i++)
    for (int32_t k = 0; k < i; k++) {
      int32_t lo = p->by_offset[k], hi = p->by_offset[i];
      const PlanBuffer *x = &p->buffer[lo], *y = &p->buffer[hi];
      if (x->live_first > y->live_last || y->live_first > x->live_last) continue;
      bad += offset[lo] + size[lo] > offset[hi] || x->offset + x->size > y->offset;
    }
  EXPECT_INT_EQ(bad, 0);
  arena_deinit(&a);
  graph_free(g);
}

TEST(plan_keeps_what_a_list_holds) {  // beyond the lives of the tensors that went into it
  static Diag d;
  static const char text[] =
      "graph @\"g\"(%x: f32[n, 8], %y: f32[n, 8]) -> (a: f32[n, 8], b: f32[?joined_0, 8]) {\n"
      "  %p = neg(%x) : f32[n, 8]\n"
      "  %q = abs(%y) : f32[n, 8]\n"
      "  %s = sequence_construct(%p, %q)\n"
      "  %u = tanh(%x) : f32[n, 8]\n"
      "  %v = softmax(%u) axis=-1 : f32[n, 8]\n"
      "  %w = softmax(%v) axis=-1 : f32[n, 8]\n"
      "  %c = concat_from_sequence(%s) axis=0\n"
      "  return %w, %c\n}\n";
  Graph *g = NULL;
  Arena a;
  diag_init(&d);
  arena_init(&a);
  MemPlan *p = NULL;
  REQUIRE(!graph_parse(str_of(text), "g.tir", &d, &g));
  EXPECT(plan_of(g, &a, &p, &d));
  EXPECT(same_results(g, p, 3, &d));
  arena_deinit(&a);
  graph_free(g);
}

TEST(plan_of_sizes_below_zero) {  // n - 7 where n is small, n - 19 at the reference as well
  static Diag d;
  static const char *const windows[] = {"8", "20"}, *const sizes[] = {"n - 7", "n - 19"};
  for (int i = 0; i < 2; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "graph @\"g\"(%%x: f32[m], %%y: f32[2, n, 1], %%z: f32[3, j, k, 2]) -> (a: f32[2, %s, "
             "%d, 2], "
             "b: f32[3, j, k, 2], c: f32[m]) {\n"
             "  %%one = const i64[] {1}\n"
             "  %%len = const i64[] {%s}\n"
             "  %%a = stft(%%y, %%one, %%x, %%len)\n"
             "  %%b = round(%%z)\n"
             "  %%c = sigmoid(%%x)\n"
             "  return %%a, %%b, %%c\n}\n",
             sizes[i], i ? 11 : 5, windows[i]);
    Graph *g = NULL;
    Arena a;
    diag_init(&d);
    arena_init(&a);
    if (graph_parse(str_of(text), "g.tir", &d, &g)) FAIL("%s", d.text);
    REQUIRE(g);
    CompileOptions o;
    CompileReport r = {0};
    compile_defaults(&o);
    if (compile_graph(g, &o, COMPILE_PLAN, &a, &d, &r)) FAIL("%s", d.text);
    arena_deinit(&a);
    graph_free(g);
  }
}

// Values that are joined are parts of one buffer; what writes over it waits for all who read a
// part.
// A product of sizes that no number holds at the reference, and four bytes in a run.
TEST(plan_of_sizes_beyond_numbers) {
  static const char text[] =
      "graph @\"g\"(%x: f32[n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n]) {\n"
      "  %a = neg(%x)\n  %b = softmax(%a)\n  %c = add(%a, %b)\n  return %c\n}\n";
  static Diag d;
  Graph *g = NULL;
  MemPlan *p;
  Arena a;
  Run r;
  int64_t dims[16];
  Value *x, *y[1] = {NULL};
  arena_init(&a);
  diag_init(&d);
  for (int i = 0; i < 16; i++) dims[i] = 1;
  EXPECT_STATUS(graph_parse(str_of(text), NULL, &d, &g), TENON_OK);
  EXPECT_STATUS(plan_create(g, &a, &p), TENON_OK);
  EXPECT_STATUS(plan_verify(p, &d), TENON_OK);
  run_init(&r, NULL, &d);
  EXPECT_STATUS(value_tensor(&r, NOWHERE, DT_F32, 16, dims, &x), TENON_OK);
  EXPECT_STATUS(plan_run(p, &r, &x, y), TENON_OK);
  EXPECT(y[0] && val_f64(y[0], 0) == 1);  // of 0: 0 + 1
  run_deinit(&r);
  graph_free(g);
  arena_deinit(&a);
}

TEST(plan_makes_adjacent_parts) {
  static Diag d;
  static const char text[] =
      "graph @\"g\"(%x: f32[n, 8], %y: f32[n, 8]) -> (a: f32[2*n, 16], b: f32[n, 16]) {\n"
      "  %w = concat(%x, %y) axis=1 : f32[n, 16]\n"
      "  %p = softmax(%w) : f32[n, 16]\n"
      "  %q = tanh(%w) : f32[n, 16]\n"
      "  %j = fused(%p, %q) kind=view body={ (%p: f32[n, 16], %q: f32[n, 16])\n"
      "    %j = concat(%p, %q) axis=0 : f32[2*n, 16]\n"
      "    return %j\n"
      "  } : f32[2*n, 16]\n"
      "  %r = neg(%j) : f32[2*n, 16]\n"
      "  %s = abs(%p) : f32[n, 16]\n"
      "  return %r, %s\n}\n";
  Graph *g = NULL;
  Arena a;
  diag_init(&d);
  arena_init(&a);
  MemPlan *p = NULL;
  REQUIRE(!graph_parse(str_of(text), "g.tir", &d, &g));
  REQUIRE(plan_of(g, &a, &p, &d));
  EXPECT_INT_EQ(p->ncopies, 0);
  EXPECT_STATUS(plan_verify(p, &d), TENON_OK);
  for (int64_t n = 0; n < 4; n++) EXPECT(same_results(g, p, n, &d));
  int32_t joined = -1, second = -1, after = -1;
  for (int32_t b = 0; b < p->n; b++) {
    if (p->buffer[b].node->op == OP_fused) joined = b;
    if (p->buffer[b].node->op == OP_tanh) second = p->buffer[b].root;
    if (p->buffer[b].node->op == OP_neg) after = b;
  }
  REQUIRE(joined >= 0 && second >= 0 && after >= 0);
  PlanBuffer *part = &p->buffer[second];
  EXPECT_INT_EQ(part->within, joined);
  // Broken in each way, and mended again.
  Dim at = part->at;
  part->at = g->dims.zero;
  EXPECT_STATUS(plan_verify(p, &d), TENON_EINTERNAL);
  part->at = at;
  part->within = -1;
  EXPECT_STATUS(plan_verify(p, &d), TENON_EINTERNAL);
  part->within = after;
  EXPECT_STATUS(plan_verify(p, &d), TENON_EINTERNAL);
  part->within = joined;
  EXPECT_STATUS(plan_verify(p, &d), TENON_OK);
  EXPECT(p->buffer[after].root != joined && p->buffer[after].first < p->buffer[joined].live_last);
  p->buffer[after].root = joined;
  EXPECT_STATUS(plan_verify(p, &d), TENON_EINTERNAL);
  arena_deinit(&a);
  graph_free(g);
}

// ---- breaking it ----

// What a value's bytes are: a view's are those of what it looks at.
static int32_t content_of(const MemPlan *p, int32_t b) {
  while (p->buffer[b].node->op == OP_reshape && p->buffer[b].root != b)
    b = plan_find(p, p->buffer[b].node->src[0], 0);
  return b;
}

// Walks the plan with a map of what was written last into each line of memory: true when a value
// that is read, or is a result, has been written over.  Knows nothing of lives.
static bool reads_garbage(const MemPlan *p, const int64_t *offset, const int64_t *size,
                          int64_t total) {
  int32_t lines = (int32_t)(total / PLAN_ALIGN) + 1;
  int32_t *holds = malloc((size_t)lines * sizeof *holds);
  for (int32_t i = 0; i < lines; i++) holds[i] = -1;
  bool bad = false;
  for (int64_t i = 0; i <= p->order.n; i++) {
    const Node *n = i < p->order.n ? p->order.v[i] : NULL;
    int64_t nread = n ? n->nsrc : p->g->main->nresults;
    for (int64_t k = 0; k < nread; k++) {
      int32_t b = plan_find(p, n ? n->src[k] : p->g->main->result[k], 0);
      for (int64_t at = 0; b >= 0 && at < size[b]; at += PLAN_ALIGN)
        bad |= holds[(offset[p->buffer[b].root] + at) / PLAN_ALIGN] != content_of(p, b);
    }
    int32_t b = n ? plan_find(p, n, 0) : -1;
    for (int64_t at = 0; b >= 0 && at < size[b]; at += PLAN_ALIGN)
      holds[(offset[p->buffer[b].root] + at) / PLAN_ALIGN] = content_of(p, b);
  }
  free(holds);
  return bad;
}

// One random damage: an offset shifted, a dependence between two buffers dropped, a step moved
// forward.
static bool mutate(MemPlan *p, int64_t *offset, const int64_t *size, int64_t *total) {
  int32_t b = p->by_offset[draw(p->nroots)];
  switch (draw(3)) {
  case 0:
    offset[b] = PLAN_ALIGN * draw(*total / PLAN_ALIGN + 1);
    p->buffer[b].offset = offset[b];
    if (offset[b] + size[b] > *total) return false;
    return true;
  case 1: {
    PlanBuffer *x = &p->buffer[b];
    if (!x->nbelow) return false;
    int32_t *below = (int32_t *)(uintptr_t)x->below;
    below[draw(x->nbelow)] = below[x->nbelow - 1];
    x->nbelow--;
    return plan_layout(p, p->reference.value, p->reference.known, p->reference.n, offset,
                       (int64_t *)(uintptr_t)size, total);
  }
  default: {
    int64_t from = draw(p->order.n), to = draw(from + 1);
    Node *n = p->order.v[from];
    for (int64_t i = from; i > to; i--) p->order.v[i] = p->order.v[i - 1];
    p->order.v[to] = n;
    return from != to;
  }
  }
}

// Operands before users, by the graph alone.
static bool in_order(const MemPlan *p) {
  for (int64_t i = 0; i < p->order.n; i++)
    for (uint32_t k = 0; k < p->order.v[i]->nsrc; k++) {
      bool seen = p->order.v[i]->src[k] == p->g->none;
      for (int64_t j = 0; j < i && !seen; j++) seen = p->order.v[j] == p->order.v[i]->src[k];
      if (!seen) return false;
    }
  return true;
}

TEST(plan_mutations_are_caught) {
  static Diag d;
  int harmful = 0, missed = 0;
  for (uint64_t seed = 1; seed < 2000 && harmful < 200; seed++) {
    Graph *g = random_graph(&d, 24, seed);
    Arena a;
    arena_init(&a);
    MemPlan *p = NULL;
    REQUIRE(plan_of(g, &a, &p, &d));
    int64_t *offset = arena_array(&a, int64_t, p->n), *size = arena_array(&a, int64_t, p->n), total;
    REQUIRE(plan_layout(p, p->reference.value, p->reference.known, p->reference.n, offset, size,
                        &total));
    EXPECT(!reads_garbage(p, offset, size, total));
    if (mutate(p, offset, size, &total) &&
        (!in_order(p) || reads_garbage(p, offset, size, total))) {
      harmful++;
      diag_init(&d);
      if (!plan_verify(p, &d)) missed++;
    }
    arena_deinit(&a);
    graph_free(g);
  }
  EXPECT_INT_EQ(harmful, 200);
  EXPECT_INT_EQ(missed, 0);
}

// ---- plans that were changed behind the planner's back ----

typedef struct Damage {
  MemPlan *p;
  int32_t first, other, late, joined, part;  // buffers
} Damage;

static void damage_nothing(Damage *x) { (void)x; }
static void damage_steps(Damage *x) { x->p->nsteps--; }
static void damage_steps_more(Damage *x) { x->p->nsteps++; }
static void damage_order(Damage *x) { x->p->order.n--; }
static void damage_twice(Damage *x) { x->p->order.v[x->p->order.n - 2] = x->p->order.v[0]; }
static void damage_root(Damage *x) { x->p->buffer[x->first].root = x->p->n; }
static void damage_root_negative(Damage *x) { x->p->buffer[x->first].root = -1; }
static void damage_root_of_other(Damage *x) { x->p->buffer[x->late].root = x->part; }
static void damage_size(Damage *x) {
  x->p->buffer[x->late].root = x->joined;  // half as large
}
static void damage_within_zero(Damage *x) {
  x->p->buffer[x->late].root = x->first;  // shares memory, so it is no part by itself
  x->p->buffer[x->late].within = 0;
}
static void damage_within_far(Damage *x) { x->p->buffer[x->part].within = x->p->n; }
static void damage_over_part(Damage *x) {  // free but for the part that is made before the join
  x->p->buffer[x->other].offset = x->p->buffer[x->joined].offset;
}
static void damage_offset(Damage *x) { x->p->buffer[x->first].offset = -PLAN_ALIGN; }
static void damage_alignment(Damage *x) { x->p->buffer[x->first].offset += 4; }
static void damage_end(Damage *x) { x->p->buffer[x->joined].offset = x->p->arena_bytes; }

TEST(plan_damage_is_named) {
  static const struct {
    void (*damage)(Damage *x);
    const char *message;  // NULL: the plan is sound
  } row[] = {
      {damage_nothing, NULL},
      {damage_steps, "says that it has"},
      {damage_steps_more, "says that it has"},
      {damage_order, "leaves this node out"},
      {damage_twice, "leaves this node out"},
      {damage_root, "into memory of another size"},
      {damage_root_negative, "into memory of another size"},
      {damage_root_of_other, "writes this value over"},
      {damage_size, "into memory of another size"},
      {damage_within_zero, "into a part of no value"},
      {damage_within_far, "into a part of no value"},
      {damage_over_part, "which is still needed"},
      {damage_offset, "is outside the arena"},
      {damage_alignment, "is outside the arena"},
      {damage_end, "is outside the arena"},
  };
  static const char text[] =
      "graph @\"g\"(%x: f32[n, 16], %y: f32[n, 16]) -> (a: f32[2*n, 16], b: f32[n, 16]) {\n"
      "  %p = softmax(%x) : f32[n, 16]\n"
      "  %u = softmax(%y) : f32[n, 16]\n"
      "  %v = softmax(%u) : f32[n, 16]\n"
      "  %q = softmax(%v) : f32[n, 16]\n"
      "  %j = fused(%p, %q) kind=view body={ (%p: f32[n, 16], %q: f32[n, 16])\n"
      "    %j = concat(%p, %q) axis=0 : f32[2*n, 16]\n"
      "    return %j\n"
      "  } : f32[2*n, 16]\n"
      "  %r = softmax(%j) : f32[2*n, 16]\n"
      "  %s = softmax(%q) : f32[n, 16]\n"
      "  return %r, %s\n}\n";
  for (int i = 0; i < ARRAY_LEN(row); i++) {
    static Diag d;
    Graph *g = NULL;
    Arena a;
    diag_init(&d);
    arena_init(&a);
    Damage x = {.p = NULL};
    REQUIRE(!graph_parse(str_of(text), "g.tir", &d, &g));
    REQUIRE(plan_of(g, &a, &x.p, &d));
    for (int32_t b = 0; b < x.p->n; b++) {
      const char *name = x.p->buffer[b].node->name;
      if (!strcmp(name, "p")) x.part = b;
      if (!strcmp(name, "u")) x.other = x.first = b;
      if (!strcmp(name, "j")) x.joined = b;
      if (!strcmp(name, "s")) x.late = b;
    }
    EXPECT_INT_EQ(x.p->buffer[x.part].within, x.joined);
    EXPECT_INT_EQ(x.p->buffer[x.other].within, -1);
    row[i].damage(&x);
    tenon_status s = plan_verify(x.p, &d);
    if (!s != !row[i].message)
      FAIL("damage %d: %s", i, s ? d.text : "accepted");
    else if (s)
      EXPECT_CONTAINS(d.text, row[i].message);
    arena_deinit(&a);
    graph_free(g);
  }
}

// ---- what shares memory ----

TEST(plan_views_share_their_operand) {
  static Diag d;
  static const char text[] = "graph @\"g\"(%x: f32[n, 8]) -> (a: f32[8*n], b: f32[n, 8]) {\n"
                             "  %p = softmax(%x) : f32[n, 8]\n"
                             "  %v = fused(%p) kind=view body={ (%p: f32[n, 8])\n"
                             "    %s = const i64[1] {-1}\n"
                             "    %v = reshape(%p, %s) : f32[8*n]\n"
                             "    return %v\n"
                             "  } : f32[8*n]\n"
                             "  %w = softmax(%v) : f32[8*n]\n"
                             "  %b = softmax(%p) : f32[n, 8]\n"
                             "  return %w, %b\n}\n";
  Graph *g = NULL;
  Arena a;
  diag_init(&d);
  arena_init(&a);
  MemPlan *p = NULL;
  if (graph_parse(str_of(text), "g.tir", &d, &g)) FAIL("%s", d.text);
  REQUIRE(g && plan_of(g, &a, &p, &d));
  EXPECT_INT_EQ(p->nviews, 1);
  for (int32_t b = 0; b < p->n; b++)
    EXPECT_INT_EQ(p->buffer[b].root, p->buffer[b].node->op == OP_fused
                                         ? plan_find(p, p->buffer[b].node->src[0], 0)
                                         : b);
  EXPECT_STATUS(plan_verify(p, &d), TENON_OK);
  arena_deinit(&a);
  graph_free(g);
}

// Parts can be made in place where the axis is outermost, but for axes of size 1, and where each
// begins aligned.
TEST(plan_joins_outermost_axes_alone) {
  static const struct {
    const char *part, *axis;
    bool can;
  } row[] = {
      {"f32[n, 16]", "0", true},     {"f32[n, 16]", "1", false},     {"f32[1, 16]", "1", true},
      {"f32[2, 16]", "1", false},    {"f32[1, 1, 32]", "2", true},   {"f32[1, 2, 32]", "2", false},
      {"f32[2, 1, 32]", "2", false}, {"f32[1, 16]", "-1", true},     {"f32[1, 15]", "1", false},
      {"f32[n, 16, 2]", "-3", true}, {"f32[n, 16, 2]", "-2", false}, {"u8[n, 64]", "0", true},
      {"u8[n, 63]", "0", false},
  };
  for (int i = 0; i < ARRAY_LEN(row); i++) {
    static Diag d;
    Graph *g = NULL;
    char text[256];
    diag_init(&d);
    snprintf(
        text, sizeof text,
        "graph @\"g\"(%%x: %s, %%y: %s) {\n  %%j = concat(%%x, %%y) axis=%s\n  return %%j\n}\n",
        row[i].part, row[i].part, row[i].axis);
    if (graph_parse(str_of(text), "g.tir", &d, &g)) FAIL("%s", d.text);
    REQUIRE(g);
    if (plan_can_join(g, g->main->result[0]) != row[i].can)
      FAIL("%s along %s: %s", row[i].part, row[i].axis, row[i].can ? "refused" : "accepted");
    graph_free(g);
  }
}
