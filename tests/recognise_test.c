// recognise_test.c -- the spellings of composites that exporters write, each against the interpreter.
//
// A row is a body in text form and the op that it must become.  After the passes up to `recognise` the body holds the op as
// often as said, and computes what it did.
#include "ir/interpret.h"
#include "passes/passes.h"
#include "test.h"

#include <math.h>
#include <string.h>

typedef struct Spelling {
  int op, count;
  const char
      *text;  // "(...) { ... } => part": the part must stand in the text of the graph afterwards
} Spelling;

static uint64_t rng;
static double uniform(void) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(rng >> 11) * 0x1p-53;
}

static tenon_status random_input(Run *run, const Type *t, Value **out) {
  int64_t dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    dims[i] = ie_is_const(t->dims[i]) ? t->dims[i]->value : 2 + t->dims[i]->slot % 4;
  TRY(value_tensor(run, NOWHERE, t->dtype, t->rank, dims, out));
  for (int64_t i = 0; i < (*out)->n; i++) {
    if (dtype_is_float(t->dtype))
      val_put_f64(*out, i, 4 * uniform() - 2);
    else  // of a mask the last element of a row is always set, so that no row is without keys
      val_put_i64(*out, i,
                  t->dtype == DT_BOOL ? uniform() < 0.6 || (i + 1) % dims[t->rank - 1] == 0
                                      : (int64_t)(uniform() * 20));
  }
  return TENON_OK;
}

static tenon_status run_graph(Graph *g, Run *run, Diag *d, Value **out) {
  Interp *in = NULL;
  Value *input[8] = {NULL};
  TRY(interp_create(g, NULL, d, &in));
  rng = 12345;
  tenon_status s = TENON_OK;
  for (int64_t i = 0; !s && i < g->main->nparams; i++)
    s = random_input(run, type_of(g->main->param[i]), &input[i]);
  if (!s) s = interp_run(in, run, input, out);
  interp_free(in);
  return s;
}

static double worst(const Value *x, const Value *y) {
  double w = x->n == y->n ? 0 : INFINITY;
  for (int64_t i = 0; i < x->n && w < INFINITY; i++) {
    double diff = fabs(val_f64(x, i) - val_f64(y, i)) / (1 + fabs(val_f64(x, i)));
    if (!(diff <= w)) w = diff;
  }
  return w;
}

static int64_t count_op(Graph *g, int op) {
  Arena a;
  arena_init(&a);
  NodeList order = body_order(g, g->main, &a);
  int64_t n = 0;
  for (int64_t i = 0; i < order.n; i++) n += order.v[i]->op == op;
  arena_deinit(&a);
  return n;
}

static void check_spelling(const Spelling *sp) {
  static Diag d;
  diag_init(&d);
  Arena a;
  arena_init(&a);
  Graph *before = NULL, *after = NULL;
  const char *has = strstr(sp->text, " => ");
  int size = has ? (int)(has - sp->text) : (int)strlen(sp->text);
  const char *text = str_printf(&a, "graph @\"spelling\"%.*s", size, sp->text);
  Run x, y;
  Value *p[8] = {NULL}, *q[8] = {NULL};
  run_init(&x, NULL, &d);
  run_init(&y, NULL, &d);
  OptOptions o;
  opt_defaults(&o);
  o.stop_after = "recognise";
  o.verify_each = true;
  OptReport report = {.arena = &a};
  tenon_status s = graph_parse(str_of(text), NULL, &d, &before);
  if (!s) s = graph_parse(str_of(text), NULL, &d, &after);
  if (!s) before->diag = after->diag = &d;
  if (!s) s = graph_optimise(after, &o, &report);
  if (!s) s = run_graph(before, &x, &d, p);
  if (!s) s = run_graph(after, &y, &d, q);
  if (s) FAIL("%s\n%s", d.text, sp->text);
  StrBuf b;
  strbuf_init(&b, &a);
  if (!s) graph_print(after, &b);
  if (!s && count_op(after, sp->op) != sp->count)
    FAIL("%d of %s, not %d in\n%s", (int)count_op(after, sp->op), op_info(sp->op)->name, sp->count,
         strbuf_text(&b));
  if (!s && has && !strstr(strbuf_text(&b), has + 4))
    FAIL("no \"%s\" in\n%s", has + 4, strbuf_text(&b));
  for (int64_t i = 0; !s && i < before->main->nresults; i++) {
    double tol = q[i]->dtype == DT_F16 ? 1e-2 : dtype_is_float(q[i]->dtype) ? 1e-5 : 1.01;
    if (!(worst(p[i], q[i]) <= tol)) FAIL("off by %g in\n%s", worst(p[i], q[i]), sp->text);
  }
  run_deinit(&x);
  run_deinit(&y);
  graph_free(before);
  graph_free(after);
  arena_deinit(&a);
}

static void check_all(const Spelling *v, int64_t n) {
  for (int64_t i = 0; i < n; i++) check_spelling(&v[i]);
}

#define X(body)  "(%x: f32[n, 3, 8]) { " body " return %r }"
#define XW(body) "(%x: f32[n, 3, 8], %w: f32[8], %b: f32[8]) { " body " return %r }"
#define NUMBERS                                                                                    \
  "%one = const f32[] {1} %two = const f32[] {2} %half = const f32[] {0.5} %root2 = const f32[] "  \
  "{1.4142135} %iroot2 = const f32[] {0.70710677} %k1 = const f32[] {0.7978846} %k3 = const "      \
  "f32[] {0.044715} %c3 = const f32[] {3} %c6 = const f32[] {6} %zero = const f32[] {0} "

TEST(recognise_gelu) {
  static const Spelling v[] = {
      {OP_gelu, 1,
       X(NUMBERS "%d = mul(%x, %iroot2) %e = erf(%d) %s = add(%one, %e) %h = mul(%half, %s) %r = "
                 "mul(%x, %h)")},
      {OP_gelu, 1,
       X(NUMBERS "%d = div(%x, %root2) %e = erf(%d) %s = add(%e, %one) %h = mul(%x, %s) %r = "
                 "mul(%h, %half)")},
      {OP_gelu, 1,
       X(NUMBERS "%d = div(%x, %root2) %e = erf(%d) %h = mul(%e, %half) %s = add(%h, %half) %r = "
                 "mul(%s, %x)")},
      {OP_gelu, 1,  // x is itself a product with a number
       X(NUMBERS "%y = mul(%x, %two) %d = div(%y, %root2) %e = erf(%d) %s = add(%e, %one) %h = "
                 "mul(%y, %half) %r = mul(%h, %s)")},
      {OP_gelu, 1,
       X(NUMBERS "%x2 = mul(%x, %x) %x3 = mul(%x2, %x) %q = mul(%k3, %x3) %s = add(%x, %q) %u = "
                 "mul(%k1, %s) %t = tanh(%u) %v = add(%one, %t) %h = mul(%x, %v) %r = mul(%h, "
                 "%half)")},
      {OP_gelu, 1,
       X(NUMBERS "%x2 = pow(%x, %two) %q = mul(%k3, %x2) %s = add(%one, %q) %xk = mul(%x, %k1) %u "
                 "= mul(%xk, %s) %t = tanh(%u) %v = add(%t, %one) %h = mul(%half, %v) %r = mul(%x, "
                 "%h)")},
      {OP_gelu, 1,
       "(%x: f16[n, 8]) { %c = const f16[] {1.414} %one = const f16[] {1} %half = const f16[] "
       "{0.5} %d = div(%x, %c) %e = erf(%d) %s = add(%e, %one) %h = mul(%x, %s) %r = mul(%h, "
       "%half) return %r }"},
      {OP_gelu, 0,  // another factor
       X(NUMBERS "%d = div(%x, %two) %e = erf(%d) %s = add(%e, %one) %h = mul(%x, %s) %r = "
                 "mul(%h, %half)")},
      {OP_gelu, 0,
       X(NUMBERS "%d = div(%x, %root2) %e = erf(%d) %s = add(%e, %one) %r = mul(%x, %s)")},
  };
  check_all(v, ARRAY_LEN(v));
}

TEST(recognise_gates) {
  static const Spelling v[] = {
      {OP_swish, 1,
       X("%k = const f32[] {1.702} %u = mul(%k, %x) %s = sigmoid(%u) %r = mul(%s, %x)")},
      {OP_swish, 1,
       X(NUMBERS
         "%m = neg(%x) %e = exp(%m) %s = add(%one, %e) %i = div(%one, %s) %r = mul(%x, %i)")},
      {OP_hard_swish, 1,
       X(NUMBERS "%a = add(%x, %c3) %p = max(%a, %zero) %q = min(%p, %c6) %h = div(%q, %c6) %r = "
                 "mul(%x, %h)")},
      {OP_hard_swish, 1,
       X(NUMBERS "%a = add(%x, %c3) %p = relu(%a) %q = min(%p, %c6) %h = mul(%x, %q) %r = div(%h, "
                 "%c6)")},
      {OP_mish, 1,
       X(NUMBERS "%e = exp(%x) %s = add(%one, %e) %l = log(%s) %t = tanh(%l) %r = mul(%t, %x)")},
      {OP_softplus, 1,
       X(NUMBERS "%k = const f32[] {20} %e = exp(%x) %s = add(%e, %one) %l = log(%s) %c = lt(%k, "
                 "%x) %r = where(%c, %x, %l)")},
  };
  check_all(v, ARRAY_LEN(v));
}

#define AX                                                                                         \
  "%ax = const i64[1] {-1} %eps = const f32[] {1e-5} %one = const f32[] {1} %two = const f32[] "   \
  "{2} "
#define MEAN AX "%m = reduce_mean(%x, %ax) %d = sub(%x, %m) "

TEST(recognise_norms) {
  static const Spelling v[] = {
      {OP_layer_normalization, 1,
       XW(MEAN "%s = pow(%d, %two) %v = reduce_mean(%s, %ax) %e = add(%v, %eps) %q = sqrt(%e) %n = "
               "div(%d, %q) %nw = mul(%n, %w) %r = add(%nw, %b)")},
      {OP_layer_normalization, 1,
       XW(MEAN "%s = mul(%d, %d) %v = reduce_mean(%s, %ax) %e = add(%eps, %v) %q = sqrt(%e) %i = "
               "div(%one, %q) %n = mul(%i, %d) %nw = mul(%w, %n) %r = add(%b, %nw)")},
      {OP_layer_normalization, 1,
       XW(MEAN "%s = mul(%d, %d) %v = reduce_mean(%s, %ax) %e = add(%v, %eps) %p = const f32[] "
               "{-0.5} %i = pow(%e, %p) %n = mul(%d, %i) %r = mul(%n, %w)")},
      {OP_layer_normalization, 1,
       "(%x: f32[n, 3, 8], %w: f32[3, 8]) { %ax = const i64[2] {1, 2} %eps = const f32[] {1e-5} %m "
       "= reduce_mean(%x, %ax) %d = sub(%x, %m) %s = mul(%d, %d) %v = reduce_mean(%s, %ax) %e = "
       "add(%v, %eps) %q = sqrt(%e) %n = div(%d, %q) %r = mul(%n, %w) return %r }"},
      {OP_layer_normalization, 1,
       "(%h: f16[n, 8], %w: f16[8], %b: f16[8]) { %x = cast(%h) to=f32 " MEAN
       "%s = mul(%d, %d) %v = reduce_mean(%s, %ax) %e = add(%v, %eps) %q = sqrt(%e) %n = div(%d, "
       "%q) %nh = cast(%n) to=f16 %nw = mul(%nh, %w) %r = add(%nw, %b) return %r }"},
      {OP_layer_normalization, 0,  // the mean of one axis, the variance of another
       XW("%a0 = const i64[1] {1} " MEAN "%s = mul(%d, %d) %v = reduce_mean(%s, %a0) %eq = const "
          "f32[] {1e-5} %e = add(%v, %eq) %q = sqrt(%e) %r = div(%d, %q)")},
      {OP_layer_normalization, 1,  // the variance from the mean of the squares
       XW(MEAN
          "%s = mul(%x, %x) %ms = reduce_mean(%s, %ax) %mm = mul(%m, %m) %v = sub(%ms, %mm) %e "
          "= add(%v, %eps) %q = sqrt(%e) %n = div(%d, %q) %r = mul(%n, %w)")},
      {OP_rms_normalization, 1,
       XW(AX "%s = pow(%x, %two) %v = reduce_mean(%s, %ax) %e = add(%v, %eps) %q = sqrt(%e) %n = "
             "div(%x, %q) %r = mul(%w, %n)")},
      {OP_rms_normalization, 1,
       "(%h: f16[n, 3, 8], %w: f16[8]) { " AX
       "%x = cast(%h) to=f32 %s = mul(%x, %x) %v = reduce_mean(%s, %ax) %e = add(%v, %eps) %q = "
       "sqrt(%e) %i = reciprocal(%q) %n = mul(%x, %i) %nh = cast(%n) to=f16 %r = mul(%w, %nh) "
       "return %r }"},
      {OP_group_normalization, 1,
       "(%x: f32[n, 6, h, w], %w: f32[6, 1, 1], %b: f32[6, 1, 1]) { %s = const i64[3] {0, 2, -1} "
       "%g = reshape(%x, %s) %o = const f32[2] {1, 1} %z = const f32[2] {0, 0} %i = "
       "instance_normalization(%g, %o, %z) %sh = shape(%x) %y = reshape(%i, %sh) %yw = mul(%y, %w) "
       "%r = add(%yw, %b) return %r }"},
      {OP_instance_normalization, 1,
       "(%x: f32[n, 6, h, w], %w: f32[6, 1, 1], %b: f32[6, 1, 1]) { %ax = const i64[2] {2, 3} %eps "
       "= const f32[] {1e-5} %m = reduce_mean(%x, %ax) %d = sub(%x, %m) %s = mul(%d, %d) %v = "
       "reduce_mean(%s, %ax) %e = add(%v, %eps) %q = sqrt(%e) %n = div(%d, %q) %nw = mul(%n, %w) "
       "%r = add(%nw, %b) return %r }"},
      {OP_softmax, 1,
       X("%ax = const i64[1] {1} %m = reduce_max(%x, %ax) %d = sub(%x, %m) %e = exp(%d) %s = "
         "reduce_sum(%e, %ax) %r = div(%e, %s)")},
      {OP_log_softmax, 1,
       X("%ax = const i64[1] {2} %m = reduce_max(%x, %ax) %d = sub(%x, %m) %e = exp(%d) %s = "
         "reduce_sum(%e, %ax) %l = log(%s) %r = sub(%d, %l)")},
  };
  check_all(v, ARRAY_LEN(v));
}

#define QKV        "%q: f32[2, 4, s, 8], %k: f32[2, 4, t, 8], %v: f32[2, 4, t, 8]"
#define A(body)    "(" QKV ") { " body " return %r }"
#define M(t, body) "(" QKV ", %m: " t ") { " body " return %r }"
#define KT         "%kt = transpose(%k) perm=[0, 1, 3, 2] "
#define C                                                                                          \
  "%c = const f32[] {0.35355338} %cs = const f32[] {0.59460354} %ci = const f32[] {2.828427} "
#define END(x) "%p = softmax(" x ") %r = mat_mul(%p, %v)"

TEST(recognise_attention) {
  static const Spelling v[] = {
      {OP_attention, 1, A(KT "%z = mat_mul(%q, %kt) " END("%z"))},
      {OP_attention, 1, A(KT C "%y = mul(%q, %c) %z = mat_mul(%y, %kt) " END("%z"))},
      {OP_attention, 1,
       A(C "%y = mul(%k, %c) %kt = transpose(%y) perm=[0, 1, 3, 2] %z = mat_mul(%q, %kt) " END(
           "%z"))},
      {OP_attention, 1,
       A(KT C "%y = mul(%q, %cs) %x = mul(%kt, %cs) %z = mat_mul(%y, %x) " END("%z"))},
      {OP_attention, 1, A(KT C "%z = mat_mul(%q, %kt) %y = div(%z, %ci) " END("%y"))},
      {OP_attention, 1,  // the factor before the heads are split
       "(%x: f32[2, s, 32], %k: f32[2, 4, t, 8], %v: f32[2, 4, t, 8]) { " KT C
       "%y = mul(%x, %c) %h = const i64[4] {0, 0, 4, 8} %u = reshape(%y, %h) %q = transpose(%u) "
       "perm=[0, 2, 1, 3] %z = mat_mul(%q, %kt) " END("%z") " return %r }"},
      {OP_attention, 1,  // windows, masked by window, for any number of images
       "(%x: f32[b, 3, 2, 4, 8], %y: f32[b, 3, 2, 4, 8], %m: f32[3, 1, 4, 4]) { %i = const i64[4] "
       "{-1, 2, 4, 8} %q = reshape(%x, %i) %k = reshape(%y, %i) %v = neg(%k) " KT
       "%z = mat_mul(%q, %kt) %h = const i64[5] {-1, 3, 2, 4, 4} %u = reshape(%z, %h) %a = add(%u, "
       "%m) %j = const i64[4] {-1, 2, 4, 4} %w = reshape(%a, %j) " END("%w") " return %r }"},
      {OP_attention, 1,  // the root of the head size, from its shape
       A(KT "%sh = shape(%q) %i = const i64[1] {3} %n = gather(%sh, %i) %f = cast(%n) to=f32 %h = "
            "sqrt(%f) %z = mat_mul(%q, %kt) %y = div(%z, %h) " END("%y"))},
      {OP_attention, 1,
       M("bool[2, 1, 1, t]", KT C "%low = const f32[] {-inf} %z = mat_mul(%q, %kt) %y = mul(%z, "
                                  "%c) %x = where(%m, %y, %low) " END("%x"))},
      {OP_attention, 1,
       M("bool[s, t]", KT C "%low = const f32[] {-3.4e38} %z = mat_mul(%q, %kt) %y = mul(%z, %c) "
                            "%nm = not(%m) %x = where(%nm, %low, %y) " END("%x"))},
      {OP_attention, 1,  // a bias of positions and a mask
       "(" QKV ", %m: f32[2, 1, 1, t], %u: f32[1, 4, s, t]) { " KT
       "%z = mat_mul(%q, %kt) %y = add(%z, %u) %x = add(%y, %m) " END("%x") " return %r }"},
      {OP_attention, 1,  // capped scores
       M("f32[s, t]",
         KT "%a = const f32[] {0.0070710676} %cap = const f32[] {50} %z = mat_mul(%q, "
            "%kt) %y = mul(%z, %a) %w = tanh(%y) %x = mul(%w, %cap) %o = add(%x, %m) " END("%o"))},
      {OP_attention, 1,
       M("bool[2, 1, 1, t]",
         KT "%low = const f32[] {-inf} %zero = const f32[] {0} %z = mat_mul(%q, "
            "%kt) %x = where(%m, %z, %low) %p = softmax(%x) %n = is_nan(%p) %o "
            "= where(%n, %zero, %p) %r = mat_mul(%o, %v)")},
      {OP_attention, 1,  // softmax in a wider type
       "(%q: f16[2, 4, s, 8], %k: f16[2, 4, t, 8], %v: f16[2, 4, t, 8], %m: f32[s, t]) { " KT
       "%z = mat_mul(%q, %kt) %y = cast(%z) to=f32 %x = add(%y, %m) %p = softmax(%x) %o = cast(%p) "
       "to=f16 %r = mat_mul(%o, %v) return %r }"},
      {OP_attention, 1,  // matrices of a batch, mask by matrix
       "(%q: f32[6, s, 8], %k: f32[6, t, 8], %v: f32[6, t, 5], %m: f32[6, 1, t]) { %kt = "
       "transpose(%k) perm=[0, 2, 1] %z = mat_mul(%q, %kt) %x = add(%z, %m) " END(
           "%x") " return %r }"},
      {OP_attention, 1,  // keys transposed before the heads were split off
       "(%q: f32[1, 4, s, 8], %k: f32[4, 6, 8], %v: f32[1, 4, 6, 8]) { %t = transpose(%k) perm=[0, "
       "2, 1] %h = const i64[4] {1, 4, 8, 6} %kt = reshape(%t, %h) %z = mat_mul(%q, %kt) " END(
           "%z") " return %r }"},
      {OP_attention, 1,  // two queries share a key
       "(%q: f32[2, 4, s, 8], %k: f32[2, 2, 5, 8], %v: f32[2, 2, 5, 8]) { %i = const i64[1] {2} %e "
       "= const i64[5] {2, 2, 2, 5, 8} %h = const i64[4] {2, 4, 5, 8} %ku = unsqueeze(%k, %i) %ke "
       "= expand(%ku, %e) %kr = reshape(%ke, %h) %vu = unsqueeze(%v, %i) %ve = expand(%vu, %e) %vr "
       "= reshape(%ve, %h) %kt = transpose(%kr) perm=[0, 1, 3, 2] %z = mat_mul(%q, %kt) %p = "
       "softmax(%z) %r = mat_mul(%p, %vr) return %r }"},
      {OP_attention, 1,  // rows without keys told by the mask
       M("bool[s, t]",
         KT "%zero = const f32[] {0} %low = const f32[] {-inf} %ax = const i64[1] {-1} "
            "%u = where(%m, %zero, %low) %rm = reduce_max(%u, %ax) %none = eq(%rm, "
            "%low) %z = mat_mul(%q, %kt) %x = add(%z, %u) %p = softmax(%x) %o = "
            "where(%none, %zero, %p) %r = mat_mul(%o, %v)")},
      {OP_attention, 1,  // windows of two images, masked by window
       "(%q: f32[6, 4, 5, 8], %k: f32[6, 4, 5, 8], %v: f32[6, 4, 5, 8], %u: f32[1, 4, 5, 5], %m: "
       "f32[1, 3, 1, 5, 5]) { " KT "%z = mat_mul(%q, %kt) %zu = add(%z, %u) %h = const i64[5] {2, "
       "3, 4, 5, 5} %y = reshape(%zu, "
       "%h) %ym = add(%y, %m) %i = const i64[4] {6, 4, 5, 5} %x = reshape(%ym, %i) " END(
           "%x") " return %r }"},
      {OP_attention, 0,  // not over the keys
       A(KT "%z = mat_mul(%q, %kt) %p = softmax(%z) axis=2 %r = mat_mul(%p, %v)")},
      {OP_attention, 0,  // the weights are a result as well
       "(" QKV ") { " KT "%z = mat_mul(%q, %kt) " END("%z") " return %r, %p }"},
      {OP_attention, 0,  // a factor on scores and mask alike
       M("f32[s, t]", KT C "%z = mat_mul(%q, %kt) %y = add(%z, %m) %x = mul(%y, %c) " END("%x"))},
  };
  check_all(v, ARRAY_LEN(v));
}

#define ROTATE                                                                                     \
  "%i0 = const i64[1] {0} %i4 = const i64[1] {4} %end = const i64[1] {9223372036854775807} %ax = " \
  "const i64[1] {3} %lo = slice(%x, %i0, %i4, %ax) %hi = slice(%x, %i4, %end, %ax) %nh = "         \
  "neg(%hi) %rot = concat(%nh, %lo) axis=3 "

TEST(recognise_rotary) {
  static const Spelling v[] = {
      {OP_rotary_embedding, 1,  // one table for every batch
       "(%x: f32[b, 2, s, 8], %a: f32[s, 4]) { " ROTATE
       "%ang = concat(%a, %a) axis=1 %c = cos(%ang) %n = sin(%ang) %xc = mul(%x, %c) %xs = "
       "mul(%rot, %n) %r = add(%xc, %xs) return %r }"},
      {OP_rotary_embedding, 1,  // halves by split
       "(%x: f32[2, 2, s, 8], %a: f32[2, s, 4]) { %h:2 = split(%x) axis=3 num_outputs=2 %nh = "
       "neg(%h.1) %rot = concat(%nh, %h.0) axis=3 %one = const i64[1] {1} %ang = concat(%a, %a) "
       "axis=2 %c0 = cos(%ang) %n0 = sin(%ang) %c = unsqueeze(%c0, %one) %n = unsqueeze(%n0, %one) "
       "%xc = mul(%c, %x) %xs = mul(%n, %rot) %r = add(%xs, %xc) return %r }"},
      {OP_rotary_embedding, 1,  // the first half of a head turns
       "(%y: f32[b, 2, s, 16], %a: f32[s, 4]) { %j0 = const i64[1] {0} %j8 = const i64[1] {8} %jx "
       "= "
       "const i64[1] {3} %x = slice(%y, %j0, %j8, %jx) " ROTATE
       "%ang = concat(%a, %a) axis=1 %c = cos(%ang) %n = sin(%ang) %xc = mul(%x, %c) %xs = "
       "mul(%rot, %n) %r = add(%xc, %xs) return %r }"},
      {OP_rotary_embedding, 0,  // the halves of the angles differ
       "(%x: f32[b, 2, s, 8], %a: f32[s, 8]) { " ROTATE
       "%c = cos(%a) %n = sin(%a) %xc = mul(%x, %c) %xs = mul(%rot, %n) %r = add(%xc, %xs) return "
       "%r }"},
  };
  check_all(v, ARRAY_LEN(v));
}

#define STEP                                                                                       \
  "%i = sigmoid(%p.0) %f = sigmoid(%p.1) %g = tanh(%p.2) %o = sigmoid(%p.3) %fc = mul(%f, %c) "    \
  "%ig = mul(%i, %g) %cn = add(%fc, %ig) %t = tanh(%cn) %hn = mul(%o, %t) "
#define XHC "%x: f32[n, 3], %h: f32[n, 2], %c: f32[n, 2]"
#define GATES                                                                                      \
  "%gi = gemm(%x, %w, %b) transB=true %gh = gemm(%h, %u, %d) transB=true %s = add(%gi, %gh) "
#define LSTM_WEIGHTS "%w: f32[8, 3], %u: f32[8, 2], %b: f32[8], %d: f32[8]"

TEST(recognise_lstm_cells) {
  static const Spelling v[] = {
      {OP_lstm, 1,  // both PyTorch exporters
       "(" XHC ", " LSTM_WEIGHTS ") { " GATES "%p:4 = split(%s) axis=1 num_outputs=4 " STEP
       "return %hn, %cn }"},
      {OP_lstm,
       1,  // tf2onnx: x and h side by side, order i j f o, a number added to the forget gate
       "(" XHC ", %w: f32[5, 8], %b: f32[8]) { %z = concat(%x, %h) axis=1 %m = mat_mul(%z, %w) %s "
       "= add(%m, %b) %p:4 = split(%s) axis=1 num_outputs=4 %one = const f32[] {1} %f1 = "
       "add(%p.2, %one) %i = sigmoid(%p.0) %g = tanh(%p.1) %f = sigmoid(%f1) %o = sigmoid(%p.3) "
       "%fc = mul(%c, %f) %ig = mul(%i, %g) %cn = add(%fc, %ig) %t = tanh(%cn) %hn = mul(%t, %o) "
       "return %hn, %cn }"},
      {OP_lstm, 1,  // Keras: one bias, slices
       "(" XHC ", %w: f32[3, 8], %u: f32[2, 8], %b: f32[8]) { %m = mat_mul(%x, %w) %k = "
       "mat_mul(%h, %u) %mk = add(%m, %k) %s = add(%mk, %b) %ax = const i64[1] {1} %c0 = const "
       "i64[1] {0} %c2 = const i64[1] {2} %c4 = const i64[1] {4} %c6 = const i64[1] {6} %c8 = "
       "const i64[1] {8} %si = slice(%s, %c0, %c2, %ax) %sf = slice(%s, %c2, %c4, %ax) %sg = "
       "slice(%s, %c4, %c6, %ax) %so = slice(%s, %c6, %c8, %ax) %i = sigmoid(%si) %f = "
       "sigmoid(%sf) %g = tanh(%sg) %o = sigmoid(%so) %fc = mul(%f, %c) %ig = mul(%i, %g) %cn = "
       "add(%fc, %ig) %t = tanh(%cn) %hn = mul(%o, %t) return %hn }"},
      {OP_lstm, 1,  // a product for each gate
       "(" XHC ", %wi: f32[5, 2], %wf: f32[5, 2], %wg: f32[5, 2], %wo: f32[5, 2], %b: f32[2]) { "
       "%z = concat(%h, %x) axis=-1 %si = mat_mul(%z, %wi) %sf0 = mat_mul(%z, %wf) %sf = add(%b, "
       "%sf0) %sg = mat_mul(%z, %wg) %so = mat_mul(%z, %wo) %i = sigmoid(%si) %f = sigmoid(%sf) "
       "%g = tanh(%sg) %o = sigmoid(%so) %fc = mul(%f, %c) %ig = mul(%g, %i) %cn = add(%ig, %fc) "
       "%t = tanh(%cn) %hn = mul(%o, %t) return %hn, %cn }"},
      {OP_lstm, 1,  // two steps of an unrolled loop are one layer
       "(%xs: f32[n, 2, 3], %h: f32[n, 2], %c: f32[n, 2], " LSTM_WEIGHTS
       ") { %j0 = const i64[] {0} %j1 = const i64[] {1} %x = gather(%xs, %j0) axis=1 " GATES
       "%p:4 = split(%s) axis=1 num_outputs=4 " STEP
       "%x2 = gather(%xs, %j1) axis=1 %gi2 = gemm(%x2, %w, %b) transB=true %gh2 = gemm(%hn, %u, "
       "%d) transB=true %s2 = add(%gi2, %gh2) %q:4 = split(%s2) axis=1 num_outputs=4 %i2 = "
       "sigmoid(%q.0) %f2 = sigmoid(%q.1) %g2 = tanh(%q.2) %o2 = sigmoid(%q.3) %fc2 = mul(%f2, "
       "%cn) %ig2 = mul(%i2, %g2) %cn2 = add(%fc2, %ig2) %t2 = tanh(%cn2) %hn2 = mul(%o2, %t2) "
       "return %hn, %hn2, %cn2 }"},
      {OP_lstm, 2,  // the second step reads what the first one made
       "(" XHC ", " LSTM_WEIGHTS ", %v: f32[2, 3]) { " GATES
       "%p:4 = split(%s) axis=1 num_outputs=4 " STEP
       "%x2 = mat_mul(%hn, %v) %gi2 = gemm(%x2, %w, %b) transB=true %gh2 = gemm(%hn, %u, %d) "
       "transB=true %s2 = add(%gi2, %gh2) %q:4 = split(%s2) axis=1 num_outputs=4 %i2 = "
       "sigmoid(%q.0) %f2 = sigmoid(%q.1) %g2 = tanh(%q.2) %o2 = sigmoid(%q.3) %fc2 = mul(%f2, "
       "%cn) %ig2 = mul(%i2, %g2) %cn2 = add(%fc2, %ig2) %t2 = tanh(%cn2) %hn2 = mul(%o2, %t2) "
       "return %hn2, %cn2 }"},
      {OP_lstm, 0,  // another function of the cell gate
       "(" XHC ", " LSTM_WEIGHTS ") { " GATES
       "%p:4 = split(%s) axis=1 num_outputs=4 %i = sigmoid(%p.0) %f = sigmoid(%p.1) %g = "
       "relu(%p.2) %o = sigmoid(%p.3) %fc = mul(%f, %c) %ig = mul(%i, %g) %cn = add(%fc, %ig) %t = "
       "tanh(%cn) %hn = mul(%o, %t) return %hn, %cn }"},
  };
  check_all(v, ARRAY_LEN(v));
}

#define XH          "%x: f32[n, 3], %h: f32[n, 2]"
#define GRU_WEIGHTS "%w: f32[6, 3], %u: f32[6, 2], %b: f32[6], %d: f32[6]"
#define GRU_GATES                                                                                  \
  "%gi = gemm(%x, %w, %b) transB=true %gh = gemm(%h, %u, %d) transB=true %p:3 = split(%gi) "       \
  "axis=1 num_outputs=3 %q:3 = split(%gh) axis=1 num_outputs=3 %rs = add(%p.0, %q.0) %r0 = "       \
  "sigmoid(%rs) %zs = add(%p.1, %q.1) %z = sigmoid(%zs) %rh = mul(%r0, %q.2) %ns = add(%p.2, "     \
  "%rh) %k = tanh(%ns) "

TEST(recognise_gru_cells) {
  static const Spelling v[] = {
      {OP_gru, 1,  // PyTorch
       "(" XH ", " GRU_WEIGHTS ") { " GRU_GATES
       "%e = sub(%h, %k) %ze = mul(%z, %e) %r = add(%ze, %k) return %r }"},
      {OP_gru, 1,  // Keras, resetting after the product
       "(" XH ", " GRU_WEIGHTS ") { " GRU_GATES "%one = const f32[] {1} %zh = mul(%z, %h) %y = "
       "sub(%one, %z) %yk = mul(%y, %k) %r = add(%zh, %yk) return %r }"},
      {OP_gru, 1,  // tf2onnx: the state is reset before its product
       "(" XH ", %w: f32[5, 4], %b: f32[4], %u: f32[5, 2], %d: f32[2]) { %c = concat(%x, %h) "
       "axis=1 %m = mat_mul(%c, %w) %s = add(%m, %b) %a = sigmoid(%s) %sr:2 = split(%s) axis=1 "
       "num_outputs=2 %r0 = sigmoid(%sr.0) %z = sigmoid(%sr.1) %rh = mul(%r0, %h) %c2 = "
       "concat(%x, %rh) axis=1 %m2 = mat_mul(%c2, %u) %s2 = add(%m2, %d) %k = tanh(%s2) %one = "
       "const f32[] {1} %zh = mul(%z, %h) %y = sub(%one, %z) %yk = mul(%y, %k) %r = add(%zh, %yk) "
       "return %r }"},
      {OP_gru, 0,  // the state and the new value change places
       "(" XH ", " GRU_WEIGHTS ") { " GRU_GATES "%one = const f32[] {1} %zh = mul(%z, %k) %y = "
       "sub(%one, %z) %yk = mul(%y, %h) %r = add(%zh, %yk) return %r }"},
  };
  check_all(v, ARRAY_LEN(v));
}

TEST(recognise_loops_over_cells) {
  static const Spelling v[] = {
      {OP_lstm, 1,
       "(%xs: f32[t, 3, 3], %h: f32[3, 2], %c: f32[3, 2], " LSTM_WEIGHTS
       ") { %y:3 = scan(%h, %c, %xs, %w, %u, %b, %d) captures=4 num_scan_inputs=1 body={ @\"step\" "
       "(%h: f32[3, 2], %c: f32[3, 2], %x: f32[3, 3], " LSTM_WEIGHTS ") " GATES
       "%p:4 = split(%s) axis=1 num_outputs=4 " STEP
       "return %hn, %cn, %hn } return %y.0, %y.1, %y.2 }"},
      {OP_lstm, 1,  // scripted by PyTorch: counted, the captured sequence read by number
       "(%xs: f32[t, 3, 3], %h: f32[3, 2], %c: f32[3, 2], " LSTM_WEIGHTS
       ") { %sh = shape(%xs) %zero = const i64[] {0} %n = gather(%sh, %zero) %go = const bool[] "
       "{true} %y:3 = loop(%n, %go, %h, %c, %xs, %w, %u, %b, %d) captures=5 body={ @\"step\" (%k: "
       "i64[], %on: bool[], %h: f32[3, 2], %c: f32[3, 2], %xs: f32[t, 3, 3], " LSTM_WEIGHTS
       ") %x = gather(%xs, %k) " GATES "%p:4 = split(%s) axis=1 num_outputs=4 " STEP
       "return %on, %hn, %cn, %hn } return %y.0, %y.1, %y.2 }"},
      {OP_gru, 1,
       "(%xs: f32[t, 3, 3], %h: f32[3, 2], " GRU_WEIGHTS
       ") { %y:2 = scan(%h, %xs, %w, %u, %b, %d) captures=4 num_scan_inputs=1 body={ @\"step\" "
       "(%h: f32[3, 2], %x: f32[3, 3], " GRU_WEIGHTS ") " GRU_GATES
       "%e = sub(%h, %k) %ze = mul(%z, %e) %r = add(%ze, %k) return %r, %r } return %y.0, %y.1 }"},
      {OP_scan, 1,  // the rows are none of the layer's
       "(%xs: f32[t, 3, 3], %h: f32[3, 2], %c: f32[3, 2], " LSTM_WEIGHTS
       ") { %y:3 = scan(%h, %c, %xs, %w, %u, %b, %d) captures=4 num_scan_inputs=1 body={ @\"step\" "
       "(%h: f32[3, 2], %c: f32[3, 2], %x: f32[3, 3], " LSTM_WEIGHTS ") " GATES
       "%p:4 = split(%s) axis=1 num_outputs=4 " STEP
       "return %hn, %cn, %cn } return %y.0, %y.1, %y.2 }"},
  };
  check_all(v, ARRAY_LEN(v));
}

#define STANDARD(axes)                                                                             \
  "%ax = const i64[" axes "} %eps = const f32[] {1e-5} %m = reduce_mean(%x, %ax) %d = sub(%x, "    \
  "%m) %s = mul(%d, %d) %v = reduce_mean(%s, %ax) %e = add(%v, %eps) %q = sqrt(%e) "
#define IMAGE(body) "(%x: f32[n, 6, h, w], %g: f32[6, 1, 1], %b: f32[6, 1, 1]) { " body
#define LAST(body)  "(%x: f32[n, h, w, 6], %g: f32[6], %b: f32[6]) { " body

TEST(recognise_norms_over_other_axes) {
  static const Spelling v[] = {
      {OP_layer_normalization, 1,  // over channels (ConvNeXt)
       IMAGE(STANDARD(
           "1] {1") "%n = div(%d, %q) %nw = mul(%g, %n) %r = add(%nw, %b) return %r }") " => "
                                                                                        "perm=[0, "
                                                                                        "2, 3, 1]"},
      {OP_rms_normalization, 1,
       IMAGE("%ax = const i64[1] {1} %eps = const f32[] {1e-5} %s = mul(%x, %x) %v = "
             "reduce_mean(%s, %ax) %e = add(%v, %eps) %q = sqrt(%e) %i = reciprocal(%q) %n = "
             "mul(%x, %i) %r = mul(%n, %g) return %r }")},
      {OP_layer_normalization, 1,  // instance norm, channels last
       LAST(STANDARD(
           "2] {1, 2") "%n = div(%d, %q) %nw = mul(%n, %g) %r = add(%nw, %b) return %r }") " => "
                                                                                           "axis=-"
                                                                                           "2"},
      {OP_layer_normalization, 1,  // the same from tf2onnx
       LAST(STANDARD("2] {1, 2") "%i = reciprocal(%q) %ig = mul(%i, %g) %l = mul(%x, %ig) %mi = "
                                 "mul(%m, %ig) %c = sub(%b, %mi) %r = add(%l, %c) return %r }")},
      {OP_layer_normalization, 1,  // group norm, channels last
       "(%z: f32[2, 4, 5, 6]) { %hs = const i64[5] {2, 4, 5, 3, 2} %x = reshape(%z, %hs) " STANDARD(
           "3] {1, 2, 4") "%n = div(%d, %q) %back = const i64[4] {2, 4, 5, 6} %r = reshape(%n, "
                          "%back) return %r }"
                          " => axis=-3"},
      {OP_group_normalization, 1,  // the new exporter drops the variance's axes and puts them back
       "(%z: f32[2, 6, 4, 5], %g: f32[6, 1, 1], %b: f32[6, 1, 1]) { %hs = const i64[5] {2, 3, 2, "
       "4, "
       "5} %x = reshape(%z, %hs) %ax = const i64[3] {2, 3, 4} %eps = const f32[] {1e-5} %m = "
       "reduce_mean(%x, %ax) %d = sub(%x, %m) %s = mul(%d, %d) %v0 = reduce_mean(%s, %ax) "
       "keepdims=false %vs = const i64[5] {2, 3, 1, 1, 1} %v = reshape(%v0, %vs) %e = add(%v, "
       "%eps) %q = sqrt(%e) %n = div(%d, %q) %back = const i64[4] {2, 6, 4, 5} %y = reshape(%n, "
       "%back) %yw = mul(%y, %g) %r = add(%yw, %b) return %r }"
       " => num_groups=3"},
  };
  check_all(v, ARRAY_LEN(v));
}

#define INDICES                                                                                    \
  "%i0 = const i64[1] {0} %i1 = const i64[1] {1} %i2 = const i64[1] {2} %i4 = const i64[1] {4} "   \
  "%i8 = const i64[1] {8} %end = const i64[1] {9223372036854775807} %ax = const i64[1] {3} "
#define PAIRED                                                                                     \
  "%ev = slice(%x, %i0, %i8, %ax, %i2) %od = slice(%x, %i1, %i8, %ax, %i2) %no = neg(%od) %last "  \
  "= const i64[1] {-1} %u0 = unsqueeze(%no, %last) %u1 = unsqueeze(%ev, %last) %st = concat(%u0, " \
  "%u1) axis=-1 "
#define TURN_TWO                                                                                   \
  "%ac = mul(%p, %c) %bs = mul(%q, %n) %u = sub(%ac, %bs) %bc = mul(%q, %c) %as = mul(%p, %n) %v " \
  "= add(%bc, %as) "

TEST(recognise_rotary_forms) {
  static const Spelling v[] = {
      {OP_rotary_embedding, 1,  // GPT-J: neighbours, each angle twice
       "(%x: f32[b, 2, s, 8], %a: f32[s, 4]) { " INDICES PAIRED
       "%sh = shape(%x) %rot = reshape(%st, %sh) %au = unsqueeze(%a, %last) %e = const i64[3] {1, "
       "1, 2} %aw = expand(%au, %e) %as = const i64[2] {-1, 8} %ang = reshape(%aw, %as) %c = "
       "cos(%ang) %n = sin(%ang) %xc = mul(%x, %c) %xs = mul(%rot, %n) %r = add(%xc, %xs) return "
       "%r }"
       " => interleaved=true"},
      {OP_rotary_embedding, 1,  // both halves computed apart
       "(%x: f32[b, 2, s, 8], %a: f32[s, 4]) { " INDICES
       "%p = slice(%x, %i0, %i4, %ax) %q = slice(%x, %i4, %end, %ax) %c = cos(%a) %n = "
       "sin(%a) " TURN_TWO "%r = concat(%u, %v) axis=-1 return %r }"},
      {OP_rotary_embedding, 1,  // pairs as a view, the sequence before the heads
       "(%x: f32[2, s, 3, 8], %a: f32[s, 4]) { %hs = const i64[5] {2, -1, 3, 4, 2} %y = "
       "reshape(%x, %hs) %k0 = const i64[] {0} %k1 = const i64[] {1} %p = gather(%y, %k0) axis=-1 "
       "%q = gather(%y, %k1) axis=-1 %o = const i64[1] {1} %au = unsqueeze(%a, %o) %c = cos(%au) "
       "%n = sin(%au) " TURN_TWO "%l = const i64[1] {-1} %u1 = unsqueeze(%u, %l) %v1 = "
       "unsqueeze(%v, %l) %st = concat(%u1, %v1) axis=-1 %back = const i64[4] {2, -1, 3, 8} %r = "
       "reshape(%st, %back) return %r }"
       " => interleaved=true"},
      {OP_rotary_embedding, 1,  // GPT-NeoX: the first part of a head
       "(%w: f32[b, 2, s, 20], %a: f32[s, 4]) { " INDICES
       "%x = slice(%w, %i0, %i8, %ax) %rest = slice(%w, %i8, %end, %ax) %p = slice(%x, %i0, %i4, "
       "%ax) %q = slice(%x, %i4, %end, %ax) %nq = neg(%q) %rot = concat(%nq, %p) axis=3 %ang = "
       "concat(%a, %a) axis=1 %c = cos(%ang) %n = sin(%ang) %xc = mul(%x, %c) %xs = mul(%rot, %n) "
       "%y = add(%xc, %xs) %r = concat(%y, %rest) axis=3 return %r }"
       " => rotary_embedding_dim=8"},
      {OP_rotary_embedding, 0,  // turned the other way: not the same function
       "(%x: f32[b, 2, s, 8], %a: f32[s, 4]) { " INDICES
       "%p = slice(%x, %i4, %end, %ax) %q = slice(%x, %i0, %i4, %ax) %c = cos(%a) %n = "
       "sin(%a) " TURN_TWO "%r = concat(%u, %v) axis=-1 return %r }"},
  };
  check_all(v, ARRAY_LEN(v));
}

#define SAME      "%q: f32[2, 4, s, 8], %k: f32[2, 4, s, 8], %v: f32[2, 4, s, 8]"
#define CAUSAL(b) "(" SAME ") { " KT C "%z = mat_mul(%q, %kt) %y = mul(%z, %c) " b " return %r }"
#define POSITIONS                                                                                  \
  "%e = shape(%q) start=2 end=3 %n = squeeze(%e) %i0 = const i64[] {0} %i1 = const i64[] {1} %i "  \
  "= range(%i0, %n, %i1) %ax = const i64[1] {1} %row = unsqueeze(%i, %ax) %low = const f32[] "     \
  "{-inf} %zero = const f32[] {0} "
#define SQUARE "%nn = concat(%e, %e) "

TEST(recognise_causal_attention) {
  static const Spelling v[] = {
      {OP_attention, 1,
       CAUSAL(POSITIONS
              "%m = le(%i, %row) %x = where(%m, %y, %low) " END("%x")) " => is_causal=true"},
      {OP_attention, 1,
       CAUSAL(POSITIONS "%m = lt(%row, %i) %u = where(%m, %low, %zero) %x = add(%y, %u) " END(
           "%x")) " => is_causal=true"},
      {OP_attention, 1,  // the first exporter: ones, their lower triangle, what is 0 in it
       CAUSAL(POSITIONS SQUARE "%one = const f32[] {1} %w = expand(%one, %nn) %t = trilu(%w) "
                               "upper=false %m = eq(%t, %zero) %u = where(%m, %low, %zero) %x = "
                               "add(%y, %u) " END("%x")) " => is_causal=true"},
      {OP_attention, 1,  // -inf above the diagonal
       CAUSAL(POSITIONS SQUARE "%w = expand(%low, %nn) %t = trilu(%w, %i1) %x = add(%y, %t) " END(
           "%x")) " => is_causal=true"},
      {OP_attention, 1,  // a constant
       "(%q: f32[2, 4, 3, 8], %k: f32[2, 4, 3, 8], %v: f32[2, 4, 3, 8]) { " KT
       "%m = const bool[1, 1, 3, 3] {true, false, false, true, true, false, true, true, true} %z = "
       "mat_mul(%q, %kt) %low = const f32[] {-3.4e38} %x = where(%m, %z, %low) " END(
           "%x") " return %r }"
                 " => is_causal=true"},
      {OP_attention, 1,  // what came before is hidden: another mask
       CAUSAL(POSITIONS "%h = const f32[] {-1e9} %m = le(%row, %i) %x = where(%m, %y, %h) " END(
           "%x")) " => where"},
      {OP_attention, 1,  // by index letters, heads last
       "(%q: f32[2, s, 4, 8], %k: f32[2, t, 4, 8], %v: f32[2, t, 4, 8]) { %z = einsum(%q, %k) "
       "equation=\"bqhd,bkhd->bhqk\" %p = softmax(%z) %r = einsum(%p, %v) "
       "equation=\"bhqk,bkhd->bqhd\" return %r }"},
      {OP_attention, 1,  // images: v times the transposed weights
       "(%q: f32[2, s, 8], %k: f32[2, 8, t], %v: f32[2, 5, t]) { %z = mat_mul(%q, %k) %p = "
       "softmax(%z) %pt = transpose(%p) perm=[0, 2, 1] %r = mat_mul(%v, %pt) return %r }"},
      {OP_attention, 1,  // grouped heads, their keys transposed after batch and heads were merged
       "(%q: f32[2, 4, 5, 8], %k: f32[2, 2, 5, 8], %v: f32[2, 2, 5, 8]) { %a = const i64[1] {2} "
       "%ku "
       "= unsqueeze(%k, %a) %e = const i64[5] {2, 2, 2, 5, 8} %ke = expand(%ku, %e) %h3 = const "
       "i64[3] {8, 5, 8} %k3 = reshape(%ke, %h3) %kt3 = transpose(%k3) perm=[0, 2, 1] %h4 = const "
       "i64[4] {2, 4, 8, 5} %kt = reshape(%kt3, %h4) %vu = unsqueeze(%v, %a) %ve = expand(%vu, %e) "
       "%hv = const i64[4] {2, 4, 5, 8} %vr = reshape(%ve, %hv) %z = mat_mul(%q, %kt) %p = "
       "softmax(%z) %r = mat_mul(%p, %vr) return %r }"
       " => attention(%q, %k, %v)"},
  };
  check_all(v, ARRAY_LEN(v));
}

#define DQ(f, x, s) "%" f " = dequantize_linear(%" x ", %" s ", %z) "
#define BYTES       "%s1 = const f32[] {0.05} %s2 = const f32[] {0.08} %z = const u8[] {100} "
#define Q(y)        "%r = quantize_linear(%" y ", %s1, %z) return %r }"

TEST(recognise_quantised) {
  static const Spelling v[] = {
      {OP_mat_mul_integer, 1,
       "(%x: u8[n, 4], %w: u8[3, 4], %b: f32[3]) { " BYTES DQ("f", "x", "s1")
           DQ("g", "w", "s2") "%y = gemm(%f, %g, %b) transB=true " Q("y")},
      {OP_mat_mul_integer, 1,  // nobody quantises the result
       "(%x: u8[n, 4], %w: u8[4, 3]) { " BYTES DQ("f", "x", "s1")
           DQ("g", "w", "s2") "%r = mat_mul(%f, %g) return %r }"},
      {OP_q_linear_conv, 1,  // a bound that is not the least number
       "(%x: u8[n, 2, 4, 4], %w: u8[3, 2, 3, 3]) { " BYTES DQ("f", "x", "s1")
           DQ("g", "w", "s2") "%c = conv(%f, %g) %y = relu(%c) " Q("y") " => = max("},
      {OP_dequantize_linear, 0,
       "(%x: u8[n, 2, 4, 4]) { " BYTES DQ("f", "x",
                                          "s1") "%y = max_pool(%f) kernel_shape=[2, 2] " Q("y")},
      {OP_dequantize_linear, 1,  // one of two has another scale
       "(%x: u8[n, 4], %u: u8[n, 3]) { " BYTES DQ("f", "x", "s1")
           DQ("g", "u", "s2") "%y = concat(%f, %g) axis=1 " Q("y")},
      {OP_gather, 1,
       "(%x: u8[n, 4]) { " BYTES DQ("f", "x", "s2") "%y = sigmoid(%f) " Q("y") " => const u8[256]"},
      {OP_gather, 1,
       "(%x: u8[n, 4]) { " BYTES DQ("f", "x", "s2") "%y = leaky_relu(%f) alpha=0.1 " Q("y")},
      {OP_gather, 0,  // two tensors: no table
       "(%x: u8[n, 4], %u: u8[n, 4]) { " BYTES DQ("f", "x", "s2")
           DQ("g", "u", "s1") "%y = mul(%f, %g) " Q("y")},
  };
  check_all(v, ARRAY_LEN(v));
}
