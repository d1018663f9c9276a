// recognise_test.c -- the spellings of composites that exporters write, each against the interpreter.
//
// A row is a body in text form and the op that it must become.  After the passes up to `recognise` the body holds the op as
// often as said, and computes what it did.
#include "ir/interpret.h"
#include "passes/passes.h"
#include "test.h"

#include <math.h>

typedef struct Spelling {
  int op, count;
  const char *text;
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
  const char *text = str_printf(&a, "graph @\"spelling\"%s", sp->text);
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
  if (!s && count_op(after, sp->op) != sp->count) {
    StrBuf b;
    strbuf_init(&b, &a);
    graph_print(after, &b);
    FAIL("%d of %s, not %d in\n%s", (int)count_op(after, sp->op), op_info(sp->op)->name, sp->count,
         strbuf_text(&b));
  }
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
