// clean_test.c -- control flow that is decided, and what is left of the rest.
#include "ir/interpret.h"
#include "passes/passes.h"
#include "test.h"

static tenon_status clean(Graph *g, bool *out_changed) {
  Arena a;
  arena_init(&a);
  OptOptions o;
  opt_defaults(&o);
  OptReport report = {.arena = &a};
  PassCtx c = {.g = g, .o = &o, .report = &report, .scratch = &a};
  tenon_status s = TENON_OK;
  *out_changed = false;
  for (bool again = true; again && !s;) {
    s = pass_clean(&c, &again);
    *out_changed |= again;
  }
  arena_deinit(&a);
  return s;
}

static int64_t count(Graph *g, const Body *b, int op) {
  Arena a;
  arena_init(&a);
  NodeList l = body_order(g, b, &a);
  int64_t n = 0;
  for (int64_t i = 0; i < l.n; i++) n += l.v[i]->op == op;
  arena_deinit(&a);
  return n;
}

// The sum of the first result on the input 1, 2, 3, ...
static double run(Graph *g, Diag *d) {
  Interp *in = NULL;
  double sum = -1;
  if (interp_create(g, NULL, d, &in)) return sum;
  Run r;
  run_init(&r, NULL, d);
  Value *input[4] = {NULL}, *out[8] = {NULL};
  bool ok = true;
  for (int64_t i = 0; ok && i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    int64_t dims[MAX_RANK];
    for (int k = 0; k < t->rank; k++) dims[k] = ie_is_const(t->dims[k]) ? t->dims[k]->value : 2;
    ok = !value_tensor(&r, NOWHERE, t->dtype, t->rank, dims, &input[i]);
    for (int64_t k = 0; ok && k < input[i]->n; k++) val_put_f64(input[i], k, (double)k + 1);
  }
  if (ok && !interp_run(in, &r, input, out)) {
    sum = 0;
    for (int64_t k = 0; k < out[0]->n; k++) sum += val_f64(out[0], k);
  }
  run_deinit(&r);
  interp_free(in);
  return sum;
}

typedef struct Case {
  const char *what, *text;
  int gone, left;  // an op that must not be in the main body any more, and one that must
  bool changes;
} Case;

#define ADD_ONE "{(%a: f32[n]) %o = const f32[] {1} %s = add(%a, %o) return %s}"
#define NEGATE  "{(%b: f32[n]) %t = neg(%b) return %t}"

static const Case cases[] = {
    {"a condition that holds",
     "graph @\"g\"(%x: f32[n]) { %c = const bool[] {true} %r = if(%c, %x, %x) then_captures=1 "
     "then_branch=" ADD_ONE " else_branch=" NEGATE " return %r }",
     OP_if, OP_add, true},
    {"a condition that does not",
     "graph @\"g\"(%x: f32[n]) { %c = const bool[] {false} %r = if(%c, %x, %x) then_captures=1 "
     "then_branch=" ADD_ONE " else_branch=" NEGATE " return %r }",
     OP_if, OP_neg, true},
    {"a condition that nobody knows",
     "graph @\"g\"(%x: f32[n], %c: bool[]) { %r = if(%c, %x, %x) then_captures=1 "
     "then_branch=" ADD_ONE " else_branch=" NEGATE " return %r }",
     OP_add, OP_if, false},
    {"three rounds",
     "graph @\"g\"(%x: f32[n]) { %m = const i64[] {3} %r:2 = loop(%m, _, %x) "
     "body={(%i: i64[], %c: bool[], %a: f32[n]) %o = const f32[] {2} %s = mul(%a, %o) return %c, "
     "%s, %a} return %r.0, %r.1 }",
     OP_loop, OP_concat, true},
    {"no round",
     "graph @\"g\"(%x: f32[n]) { %m = const i64[] {0} %r = loop(%m, _, %x) "
     "body={(%i: i64[], %c: bool[], %a: f32[n]) %s = neg(%a) return %c, %s} return %r }",
     OP_loop, OP_param, true},
    {"too many rounds",
     "graph @\"g\"(%x: f32[n]) { %m = const i64[] {1000} %r = loop(%m, _, %x) "
     "body={(%i: i64[], %c: bool[], %a: f32[n]) %s = neg(%a) return %c, %s} return %r }",
     OP_neg, OP_loop, false},
    {"what does not change goes out",
     "graph @\"g\"(%x: f32[n], %y: f32[n], %m: i64[]) { %r = loop(%m, _, %x, %y) captures=1 "
     "body={(%i: i64[], %c: bool[], %a: f32[n], %b: f32[n]) %e = exp(%b) %s = add(%a, %e) "
     "return %c, %s} return %r }",
     OP_add, OP_exp, true},
    {"three rows",
     "graph @\"g\"(%x: f32[n], %y: f32[3, n]) { %r:2 = scan(%x, %y) num_scan_inputs=1 "
     "body={(%a: f32[n], %b: f32[n]) %s = mul(%a, %b) %t = sub(%s, %b) return %s, %t} return %r.1, "
     "%r.0 }",
     OP_scan, OP_concat, true},
    {"three columns from the end, the rows in front of one another",
     "graph @\"g\"(%x: f32[n], %y: f32[n, 3]) { %r:2 = scan(%x, %y) num_scan_inputs=1 "
     "scan_input_axes=[1] scan_input_directions=[1] scan_output_axes=[-1] "
     "scan_output_directions=[1] body={(%a: f32[n], %b: f32[n]) %s = mul(%a, %b) %t = sub(%s, %b) "
     "return %s, %t} %w = const f32[3] {1, 10, 100} %z = mul(%r.1, %w) return %z, %r.0 }",
     OP_scan, OP_concat, true},
    {"too many rows",
     "graph @\"g\"(%x: f32[2], %y: f32[40, 2]) { %r = scan(%x, %y) num_scan_inputs=1 "
     "body={(%a: f32[2], %b: f32[2]) %s = add(%a, %b) return %s} return %r }",
     OP_add, OP_scan, false},
    {"views that do not change go out",
     "graph @\"g\"(%x: f32[2], %y: f32[2, 1], %m: i64[]) { %r = loop(%m, _, %x, %y) captures=1 "
     "body={(%i: i64[], %c: bool[], %a: f32[2], %b: f32[2, 1]) %ax = const i64[1] {1} %v = "
     "squeeze(%b, %ax) %s = add(%a, %v) return %c, %s} return %r }",
     OP_add, OP_squeeze, true},
    {"what would grow stays where it is",
     "graph @\"g\"(%x: f32[n, k], %y: f32[n, 1], %z: f32[k], %m: i64[]) { %r = loop(%m, _, %x, %y, "
     "%z) captures=2 body={(%i: i64[], %c: bool[], %a: f32[n, k], %b: f32[n, 1], %d: f32[k]) %e = "
     "mul(%b, %d) %s = add(%a, %e) return %c, %s} return %r }",
     OP_mul, OP_loop, false},
    {"a capture that nobody uses goes",
     "graph @\"g\"(%x: f32[n], %y: f32[n], %m: i64[]) { %e = exp(%y) %r = loop(%m, _, %x, %e) "
     "captures=1 body={(%i: i64[], %c: bool[], %a: f32[n], %b: f32[n]) %s = neg(%a) "
     "return %c, %s} return %r }",
     OP_exp, OP_loop, true},
};

TEST(clean_resolves_control_flow) {
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    const Case *c = &cases[i];
    static Diag d;
    diag_init(&d);
    Graph *g = NULL;
    if (graph_parse(str_of(c->text), NULL, &d, &g)) {
      FAIL("%s: %s", c->what, d.text);
      graph_free(g);
      continue;
    }
    bool changed;
    double before = run(g, &d);
    if (clean(g, &changed) || graph_verify(g, &d)) FAIL("%s: %s", c->what, d.text);
    if (changed != c->changes) FAIL("%s: changed is %d", c->what, changed);
    if (count(g, g->main, c->gone)) FAIL("%s: %s is still there", c->what, op_info(c->gone)->name);
    if (!count(g, g->main, c->left)) FAIL("%s: %s is not there", c->what, op_info(c->left)->name);
    EXPECT_F64_EQ(run(g, &d), before);
    EXPECT(before >= -1000 && before != -1);
    graph_free(g);
  }
}
