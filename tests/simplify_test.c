// simplify_test.c -- what exporters write comes out as what a person would have written.
//
// Each case is a graph, what the passes must leave of it, and the same numbers, but for rounding.
#include "ir/interpret.h"
#include "passes/passes.h"
#include "test.h"

#include <math.h>

static uint64_t rng = 3;
static double uniform(void) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(rng >> 11) * 0x1p-53;
}

// The first result, copied into the arena, with the symbols 2, 3, ... by their order.
static Value *run(Graph *g, Arena *a, Diag *d) {
  Interp *in = NULL;
  if (interp_create(g, NULL, d, &in)) return NULL;
  Run r;
  run_init(&r, NULL, d);
  Value *input[8] = {NULL}, *out[8] = {NULL}, *copy = NULL;
  bool ok = true;
  rng = 3;
  for (int64_t i = 0; ok && i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    int64_t dims[MAX_RANK];
    for (int k = 0; k < t->rank; k++)
      dims[k] = ie_is_const(t->dims[k]) ? t->dims[k]->value : 2 + t->dims[k]->slot;
    ok = !value_tensor(&r, NOWHERE, t->dtype, t->rank, dims, &input[i]);
    for (int64_t k = 0; ok && k < input[i]->n; k++) val_put_f64(input[i], k, 2 * uniform() - 1);
  }
  if (ok && !interp_run(in, &r, input, out)) {
    copy = arena_dup(a, out[0], (int64_t)sizeof *copy);
    copy->data = arena_dup(a, out[0]->data, MAX(out[0]->data_bytes, 1));
  }
  run_deinit(&r);
  interp_free(in);
  return copy;
}

static bool close_to(const Value *x, const Value *y) {
  if (!x || !y || x->rank != y->rank || x->n != y->n || x->dtype != y->dtype) return false;
  for (int64_t i = 0; i < x->n; i++)
    if (!(fabs(val_f64(x, i) - val_f64(y, i)) <= 1e-6 * (1 + fabs(val_f64(x, i))))) return false;
  return true;
}

static int64_t count(Graph *g, int op) {
  Arena a;
  arena_init(&a);
  NodeList l = body_order(g, g->main, &a);
  int64_t n = 0;
  for (int64_t i = 0; i < l.n; i++) n += l.v[i]->op == op;
  arena_deinit(&a);
  return n;
}

typedef struct Case {
  const char *what, *text;
  int op;          // so many of this op are left,
  int64_t n, all;  // and so many nodes in all
} Case;

static const Case cases[] = {
    {"heads split by computed sizes",
     "graph @\"g\"(%x: f32[b, t, 12]) { %s = shape(%x) %i0 = const i64[] {0} %i1 = const i64[] {1} "
     "%p = gather(%s, %i0) %q = gather(%s, %i1) %z = const i64[1] {0} %u = unsqueeze(%p, %z) "
     "%v = unsqueeze(%q, %z) %h = const i64[1] {3} %m = const i64[1] {-1} %c = concat(%u, %v, %h, "
     "%m) %y = reshape(%x, %c) %r = transpose(%y) perm=[0, 2, 1, 3] return %r }",
     OP_reshape, 1, 2},
    {"batch and heads merged",
     "graph @\"g\"(%x: f32[b, 3, t, 4]) { %s = shape(%x) end=1 %h = const i64[1] {3} %p = mul(%s, "
     "%h) %t = shape(%x) start=2 end=3 %m = const i64[1] {4} %c = concat(%p, %t, %m) %r = "
     "reshape(%x, %c) return %r }",
     OP_reshape, 1, 1},
    {"positions cut out of a constant",
     "graph @\"g\"(%x: i64[b, t]) { %i = const i64[1, 4] {0, 1, 2, 3} %w = const f32[4, 2] {1, 2, "
     "3, 4, 5, 6, 7, 8} %z = const i64[1] {0} %e = shape(%x) start=1 %o = const i64[1] {1} %s = "
     "slice(%i, %z, %e, %o) %r = gather(%w, %s) return %r }",
     OP_gather, 0, 2},
    {"zeros of a computed size",
     "graph @\"g\"(%x: f32[b, 4]) { %s = shape(%x) %c = const f32[1] {0.5} %f = "
     "constant_of_shape(%s, %c) %r = add(%x, %f) return %r }",
     OP_add, 1, 1},
    {"layout conversions around arithmetic",
     "graph @\"g\"(%x: f32[b, 2, 3, 4], %w: f32[b, 4, 2, 3]) { %y = transpose(%x) perm=[0, 3, 1, "
     "2] %z = relu(%y) %c = const f32[4, 1, 1] {1, 2, 3, 4} %s = mul(%z, %c) %t = transpose(%s) "
     "perm=[0, 2, 3, 1] %r = sigmoid(%t) return %r }",
     OP_transpose, 0, 3},
    {"one of three",
     "graph @\"g\"(%x: f32[5, 1, 12]) { %s = const i64[4] {5, 1, 3, 4} %y = reshape(%x, %s) %z = "
     "const i64[1] {0} %u = unsqueeze(%y, %z) %t = transpose(%u) perm=[3, 1, 2, 0, 4] %m = const "
     "i64[1] {-2} %v = squeeze(%t, %m) %i = const i64[] {1} %r = gather(%v, %i) return %r }",
     OP_slice, 1, 1},
    {"three products of one input",
     "graph @\"g\"(%x: f32[b, 2]) { %p = const f32[2, 2] {1, 2, 3, 4} %q = const f32[2, 2] {5, 6, "
     "7, 8} %c = const f32[2] {1, -1} %k = const f32[2] {2, 3} %y = mat_mul(%x, %p) %z = "
     "mat_mul(%x, %q) %u = add(%y, %c) %v = add(%z, %k) %t = transpose(%v) %r = mat_mul(%u, %t) "
     "return %r }",
     OP_mat_mul, 2, 6},
    {"products with and without a bias",
     "graph @\"g\"(%x: f32[b, 2]) { %p = const f32[2, 2] {1, 2, 3, 4} %q = const f32[2, 2] {5, 6, "
     "7, 8} %c = const f32[2] {1, -1} %y = mat_mul(%x, %p) %z = mat_mul(%x, %q) %u = add(%y, %c) "
     "%t = transpose(%z) %r = mat_mul(%u, %t) return %r }",
     OP_mat_mul, 2, 6},
    {"corners picked, clipped and put together",
     "graph @\"g\"(%x: f32[b, 1], %y: f32[b, 1]) { %s = sub(%x, %y) %a = add(%x, %y) %n = neg(%x) "
     "%c = concat(%s, %n, %a, %n) axis=1 %z = const i64[1] {0} %e = const i64[1] {4} %i = const "
     "i64[1] {1} %t = const i64[1] {2} %p = slice(%c, %z, %e, %i, %t) %l = const f32[] {0} %h = "
     "const f32[] {1} %k = clip(%p, %l, %h) %r = concat(%k, %n) axis=1 return %r }",
     OP_slice, 0, 6},
    {"a pool that skips and one that does nothing",
     "graph @\"g\"(%x: f32[b, 2, 6, 6]) { %p = max_pool(%x) kernel_shape=[1, 1] strides=[2, 2] "
     "%r = average_pool(%p) kernel_shape=[1, 1] return %r }",
     OP_slice, 1, 1},
    {"a pooled image made large",
     "graph @\"g\"(%x: f32[b, 2, 6, 6]) { %p = global_average_pool(%x) %n = shape(%x) end=2 %m = "
     "const i64[2] {6, 6} %s = concat(%n, %m) %r = resize(%p, _, _, %s) mode=linear return %r }",
     OP_expand, 1, 2},
    {"a linear layer over merged axes",
     "graph @\"g\"(%x: f32[b, t, 2]) { %s = const i64[2] {-1, 2} %y = reshape(%x, %s) %w = const "
     "f32[3, 2] {1, 2, 3, 4, 5, 6} %c = const f32[3] {1, 0, 2} %z = gemm(%y, %w, %c) transB=true "
     "%u = relu(%z) %d = shape(%x) end=2 %e = const i64[1] {3} %f = concat(%d, %e) %r = "
     "reshape(%u, %f) return %r }",
     OP_reshape, 0, 3},
};

TEST(simplify_leaves_what_is_needed) {
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    const Case *c = &cases[i];
    static Diag d;
    diag_init(&d);
    Arena a;
    arena_init(&a);
    Graph *g = NULL;
    if (graph_parse(str_of(c->text), NULL, &d, &g)) {
      FAIL("%s: %s", c->what, d.text);
    } else {
      OptOptions o;
      opt_defaults(&o);
      o.stop_after = "simplify";
      o.verify_each = true;
      OptReport report = {.arena = &a};
      Value *before = run(g, &a, &d);
      g->diag = &d;
      if (graph_optimise(g, &o, &report)) FAIL("%s: %s", c->what, d.text);
      if (count(g, c->op) != c->n || graph_count_nodes(g) != c->all)
        FAIL("%s: %lld of %s and %lld nodes in all", c->what, (long long)count(g, c->op),
             op_info(c->op)->name, (long long)graph_count_nodes(g));
      if (!close_to(before, run(g, &a, &d))) FAIL("%s: another result %s", c->what, d.text);
    }
    graph_free(g);
    arena_deinit(&a);
  }
}
