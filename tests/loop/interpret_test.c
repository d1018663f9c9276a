// interpret_test.c -- kernels run by the interpreter: what operations and statements mean, random
// kernels through text and back, and the verifier's answers against what running shows.
#include "loop/impl.h"
#include "loop_fixture.h"
#include "test.h"

#include <math.h>

static uint64_t rng_state;
static int64_t rnd(int64_t n) {
  rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((rng_state >> 33) % (uint64_t)n);
}

static LoopKernel *parsed(LoopFixture *f, const char *text) {
  LoopKernel *k = NULL;
  if (loop_parse(str_of(text), NULL, &f->arena, &f->pool, &f->d, &k))
    FAIL("%s\n%s", f->d.text, text);
  return k;
}

// ---- meanings ----
TEST(loop_runs_lanes_in_their_order) {
  LoopFixture f;
  loop_fixture_init(&f);
  LoopKernel *k = parsed(&f, "kernel @k dims(n in [0, 100]) (%x: f32[n], out %y: f32[1]) {\n"
                             "  parallel i < 1 {\n"
                             "    reduce %v0: f32 = add lanes 4 over j < n { yield %x[j] }\n"
                             "    store %y[0] = %v0\n  }\n}\n");
  REQUIRE(k);
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_OK);
  float x[100], y[1], p[4] = {0};
  for (int i = 0; i < 100; i++) x[i] = 1.0f / (float)(i + 1) * (i % 3 ? 1e3f : -1e-3f);
  for (int i = 0; i < 77; i++) p[i % 4] += x[i];
  float want = (p[0] + p[2]) + (p[1] + p[3]);
  int32_t failed;
  void *args[] = {x, y};
  EXPECT_STATUS(loop_interpret(k, args, (int64_t[]){77, 1}, (int64_t[]){77}, 0, 1, &f.d, &failed),
                TENON_OK);
  EXPECT(y[0] == want);
  EXPECT_INT_EQ(failed, -1);
  EXPECT_STATUS(loop_interpret(k, args, (int64_t[]){0, 1}, (int64_t[]){0}, 0, 1, &f.d, &failed),
                TENON_OK);
  EXPECT(y[0] == 0 && !signbit(y[0]));
  // wrong calls
  EXPECT_STATUS(loop_interpret(k, args, (int64_t[]){76, 1}, (int64_t[]){77}, 0, 1, &f.d, &failed),
                TENON_EINVAL);
  EXPECT_STATUS(loop_interpret(k, args, (int64_t[]){101, 1}, (int64_t[]){101}, 0, 1, &f.d, &failed),
                TENON_EINVAL);
  EXPECT_STATUS(loop_interpret(k, args, (int64_t[]){77, 1}, (int64_t[]){77}, 0, 2, &f.d, &failed),
                TENON_EINVAL);
  loop_fixture_free(&f);
}

TEST(loop_runs_guards_checks_and_scratch) {
  LoopFixture f;
  loop_fixture_init(&f);
  LoopKernel *k =
      parsed(&f, "kernel @k dims(n in [1, 9]) (%x: f32[n], %ids: i32[n], out %y: f32[3*n]) {\n"
                 "  scratch %t: f32[1]\n"
                 "  parallel i < n {\n"
                 "    bind j < n = %ids[i] check \"too far\"\n"
                 "    store %y[3*i] = %x[j]\n"
                 "    store %y[3*i + 1] = where(l = i - 1 < n) %x[l] else -1.0\n"
                 "    store %y[3*i + 2] = %t[0]\n"
                 "    store %t[0] = 1.0\n"
                 "  }\n}\n");
  REQUIRE(k);
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_OK);
  float x[] = {10, 11, 12}, y[9] = {0};
  int32_t ids[] = {2, 0, 1}, failed;
  void *args[] = {x, ids, y};
  EXPECT_STATUS(loop_interpret(k, args, (int64_t[]){3, 3, 9}, (int64_t[]){3}, 0, 3, &f.d, &failed),
                TENON_OK);
  EXPECT_INT_EQ(failed, -1);
  const float want[] = {12, -1, 0, 10, 10, 0, 11, 11, 0};
  for (int i = 0; i < 9; i++) {
    if (i % 3 == 2)
      EXPECT(isnan(y[i]));  // scratch is undefined at the start of every item
    else
      EXPECT_F64_EQ(y[i], want[i]);
  }
  ids[1] = 3;
  EXPECT_STATUS(loop_interpret(k, args, (int64_t[]){3, 3, 9}, (int64_t[]){3}, 0, 3, &f.d, &failed),
                TENON_OK);
  EXPECT_INT_EQ(failed, 0);
  EXPECT_STR_EQ(k->check[0], "too far");
  loop_fixture_free(&f);
}

// One operation of two elements each, by text; gives the result's bits.
static uint64_t bits_of(DType t, const char *expr) {
  LoopFixture f;
  loop_fixture_init(&f);
  uint64_t out = 0;
  int32_t failed;
  char text[512];
  snprintf(text, sizeof text, "kernel @k (out %%y: %s[1]) { parallel i < 1 { store %%y[0] = %s } }",
           dtype_name(t), expr);
  LoopKernel *k = parsed(&f, text);
  if (k) {
    EXPECT_STATUS(loop_verify(k, &f.d), TENON_OK);
    void *args[] = {&out};
    tenon_status s = loop_interpret(k, args, (int64_t[]){1}, NULL, 0, 1, &f.d, &failed);
    if (s) FAIL("%s: %s", expr, f.d.text);
  }
  loop_fixture_free(&f);
  return out;
}

TEST(loop_operations_mean_what_scalar_def_says) {
  static const struct {
    DType t;
    const char *expr;
    uint64_t bits;
  } c[] = {
      {DT_U8, "add(u8(200), u8(100))", 44},
      {DT_I8, "mul(i8(-128), i8(-1))", 0x80},
      {DT_I32, "div(i32(-7), i32(2))", 0xfffffffd},
      {DT_I64, "trunc_div(-7, 2)", (uint64_t)-3},
      {DT_I64, "mod(-7, 2)", 1},
      {DT_U64, "div(u64(18446744073709551615), u64(2))", 0x7fffffffffffffff},
      {DT_U64, "max(u64(18446744073709551615), u64(2))", 0xffffffffffffffff},
      {DT_I16, "shift_left(i16(1), i16(15))", 0x8000},
      {DT_BOOL, "lt(1.0, nan)", 0},
      // 255 * -128 + 1 * 127 + 2 * 1 + 3 * -1 + 5, and beyond the end of the range
      {DT_I32, "dot(u32(50463231), u32(4278288256), i32(5))", (uint32_t)(-32640 + 127 + 2 - 3 + 5)},
      {DT_I32, "dot(u32(255), u32(127), i32(2147483647))", 0x80007e80},
      // 1 * 2 + 3 * -1 + 0.5
      {DT_F32, "dot(u32(1077952384), u32(3212853248), 0x1p-1)", 0xbf000000},
      // bytes 1, 15, 8 and 7, whose upper halves do not count
      {DT_U32, "lookup(u32(119078657), u64(506097522914230528), u64(1084818905618843912))",
       0x07080f01},
      {DT_BOOL, "and(true, not(false))", 1},
      {DT_F32, "max(-0.0, 0.0)", 0},
      {DT_F32, "min(0.0, -0.0)", 0x80000000},
      {DT_F32, "add(1.0, 0x1p-24)", 0x3f800000},
      {DT_F32, "add(0x1.000002p+0, 0x1p-24)", 0x3f800002},
      // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: a tie that c breaks, below the bits of a double
      {DT_F32, "fma(0x1.001p+0, 0x1.001p+0, 0x1p-80)", 0x3f801001},
      {DT_F32, "fma(0x1.001p+0, 0x1.001p+0, -0x1p-80)", 0x3f801000},
      {DT_F16, "fma(f16(0x1.004p+0), f16(0x1p-11), f16(1.0))", 0x3c01},
      {DT_F16, "add(f16(2048.0), f16(1.0))", 0x6800},
      {DT_BF16, "mul(bf16(0x1.02p+0), bf16(0x1.02p+0))", 0x3f82},
      {DT_F64, "fma(f64(0x1.0000000000001p+0), f64(0x1.0000000000001p+0), f64(-1.0))",
       0x3cc0000000000000},
      {DT_I32, "cast[i32](-0x1.fp+0)", 0xffffffff},
      {DT_F32, "cast[f32](i64(16777217))", 0x4b800000},
      {DT_U8, "cast[u8](i32(300))", 44},
      {DT_BOOL, "cast[bool](f64(0x1p-1000))", 1},
      {DT_I32, "bit_cast[i32](1.0)", 0x3f800000},
      {DT_F32, "bit_cast[f32](i32(1073741824))", 0x40000000},
      {DT_F32, "select(eq(1, 1), 1.0, 2.0)", 0x3f800000},
      {DT_I64, "[7]", 7},
  };
  for (int64_t i = 0; i < ARRAY_LEN(c); i++) {
    uint64_t got = bits_of(c[i].t, c[i].expr);
    if (got != c[i].bits)
      FAIL("%s is 0x%llx, not 0x%llx", c[i].expr, (unsigned long long)got,
           (unsigned long long)c[i].bits);
  }
}

TEST(loop_building_folds_what_is_exact) {
  LoopFixture f;
  loop_fixture_init(&f);
  LoopKernel *k = loop_kernel(&f.arena, &f.pool, "9 k/k");
  EXPECT_STR_EQ(k->name, "_9_k_k");
  int32_t b = loop_buffer(k, LOOP_ARG, "a/b", DT_F32, ie_const(&f.pool, 4), false);
  loop_buffer(k, LOOP_ARG, "a/b", DT_F32, ie_const(&f.pool, 4), false);
  EXPECT_STR_EQ(k->buffer[1].name, "a_b_1");
  const LoopExpr *x = loop_load(k, b, f.pool.zero), *one = loop_float(k, DT_F32, 1);
  const LoopExpr *zero = loop_float(k, DT_F32, 0), *minus = loop_float(k, DT_F32, -0.0);
  EXPECT(loop_op(k, LOOP_mul, x, one, NULL) == x);
  EXPECT(loop_op(k, LOOP_mul, one, x, NULL) == x);
  EXPECT(loop_op(k, LOOP_add, x, minus, NULL) == x);
  EXPECT(loop_op(k, LOOP_add, x, zero, NULL) != x);  // -0 + 0 is 0
  EXPECT(loop_op(k, LOOP_sub, x, zero, NULL) == x);
  EXPECT(loop_op(k, LOOP_sub, x, minus, NULL) != x);
  EXPECT(loop_op(k, LOOP_mul, x, zero, NULL)->kind == LX_OP);
  EXPECT(loop_op(k, LOOP_neg, loop_op(k, LOOP_neg, x, NULL, NULL), NULL, NULL) == x);
  EXPECT_F64_EQ(loop_op(k, LOOP_add, one, one, NULL)->f, 2);
  EXPECT(loop_op(k, LOOP_exp, one, NULL, NULL)->kind == LX_OP);  // targets approximate it
  EXPECT_F64_EQ(loop_op(k, LOOP_fma, one, one, one)->f, 2);
  EXPECT(loop_op(k, LOOP_lt, zero, one, NULL)->i == 1);
  EXPECT(loop_cast(k, DT_F32, x) == x);
  EXPECT_INT_EQ(loop_cast(k, DT_U8, loop_int(k, DT_I32, 300))->i, 44);
  EXPECT_INT_EQ(loop_index(k, ie_const(&f.pool, 5))->i, 5);
  const LoopExpr *tiny = loop_float(k, DT_F32, 0x1p-130);  // targets flush it
  EXPECT(loop_op(k, LOOP_mul, tiny, one, NULL) == tiny);
  EXPECT(loop_op(k, LOOP_mul, tiny, tiny, NULL)->kind == LX_OP);
  loop_fixture_free(&f);
}

TEST(loop_sizes) {
  LoopFixture f;
  loop_fixture_init(&f);
  LoopKernel *k = parsed(&f, "kernel @k dims(n) () { scratch %a: f32[17] scratch %b: u8[1] "
                             "register %r: f32[64] parallel i < 2*n { } }");
  REQUIRE(k);
  EXPECT_INT_EQ(loop_scratch_bytes(k), 192);
  EXPECT(loop_items(k) == ie_mulc(&f.pool, k->dim[0], 2));
  loop_fixture_free(&f);
}

// ---- random kernels: built, printed, read, and both run ----
typedef struct Gen {
  LoopKernel *k;
  LoopBuilder b;
  Dim n, sym[24];
  const LoopExpr *value[48];
  int nsyms, nvalues, left;
} Gen;

static Dim gen_index(Gen *g, Dim limit) {
  // Any value, taken into the buffer by a remainder.
  Dim e = ie_const(g->k->pool, rnd(7));
  for (int64_t i = rnd(3); i >= 0; i--)
    e = ie_add(g->k->pool, e, ie_mulc(g->k->pool, g->sym[rnd(g->nsyms)], 1 + rnd(5)));
  return ie_mod(g->k->pool, e, limit);
}

static const LoopExpr *gen_value(Gen *g, int depth) {
  static const LoopOp unary[] = {LOOP_neg, LOOP_abs, LOOP_exp, LOOP_tanh, LOOP_relu, LOOP_floor};
  static const LoopOp binary[] = {LOOP_add, LOOP_sub, LOOP_mul, LOOP_min, LOOP_max, LOOP_div};
  LoopKernel *k = g->k;
  const LoopExpr *a, *b;
  if (g->nvalues && rnd(3) == 0) return g->value[rnd(g->nvalues)];
  switch (depth ? rnd(8) : rnd(2)) {
  case 0: return loop_float(k, DT_F32, (double)(rnd(2000) - 1000) / 64);
  case 1: return loop_load(k, 0, gen_index(g, g->n));
  case 2: return loop_op(k, unary[rnd(6)], gen_value(g, depth - 1), NULL, NULL);
  case 3: {
    LoopBound guard = {.value = ie_addc(k->pool, g->sym[rnd(g->nsyms)], rnd(5) - 2),
                       .extent = g->n};
    guard.sym = loop_sym(k, "g", g->n);
    return loop_load_guarded(k, 0, guard.sym, 1, &guard, rnd(2) ? gen_value(g, depth - 1) : NULL);
  }
  case 4:
    a = gen_value(g, depth - 1);
    b = loop_op(k, LOOP_lt, a, gen_value(g, depth - 1), NULL);
    return loop_op(k, LOOP_select, b, a, gen_value(g, depth - 1));
  case 5: return loop_cast(k, DT_F32, loop_index(k, gen_index(g, g->n)));
  default:
    a = gen_value(g, depth - 1);
    return loop_op(k, binary[rnd(6)], a, rnd(3) ? gen_value(g, depth - 1) : a, NULL);
  }
}

static void gen_block(Gen *g, int depth);

static void gen_stmt(Gen *g, int depth) {
  static const LoopOp reduce[] = {LOOP_add, LOOP_max, LOOP_min, LOOP_mul};
  int syms = g->nsyms, values = g->nvalues;
  switch (rnd(depth ? 6 : 2)) {
  case 0:
    if (g->nvalues < ARRAY_LEN(g->value)) g->value[g->nvalues++] = loop_let(&g->b, gen_value(g, 4));
    return;
  case 1: loop_store(&g->b, 2, gen_index(g, ie_const(g->k->pool, 8)), gen_value(g, 4)); return;
  case 2:
    g->sym[g->nsyms++] = loop_for(&g->b, LOOP_SERIAL, "j", ie_addc(g->k->pool, g->n, rnd(2)));
    gen_block(g, depth - 1);
    loop_end(&g->b);
    break;
  case 3:
    loop_if(&g->b, loop_op(g->k, LOOP_lt, gen_value(g, 2), gen_value(g, 2), NULL));
    gen_block(g, depth - 1);
    g->nvalues = values;
    if (rnd(2)) {
      loop_else(&g->b);
      gen_block(g, depth - 1);
    }
    loop_end(&g->b);
    break;
  default:
    g->sym[g->nsyms++] = loop_reduce(&g->b, reduce[rnd(4)], "r", g->n, 1 << rnd(5));
    gen_block(g, depth - 1);
    g->value[values] = loop_yield(&g->b, gen_value(g, 3));
    g->nvalues = values + 1;
    g->nsyms = syms;
    return;
  }
  g->nsyms = syms;
  g->nvalues = values;
}

static void gen_block(Gen *g, int depth) {
  for (int64_t n = 1 + rnd(3); n > 0 && g->left-- > 0 && g->nvalues < 40; n--) gen_stmt(g, depth);
}

static LoopKernel *gen_kernel(LoopFixture *f) {
  Gen g = {.k = loop_kernel(&f->arena, &f->pool, "random"), .left = 14};
  IntPool *p = &f->pool;
  g.n = loop_dim(g.k, "n", 1, 6);
  loop_buffer(g.k, LOOP_ARG, "x", DT_F32, g.n, false);
  loop_buffer(g.k, LOOP_ARG, "y", DT_F32, ie_mulc(p, g.n, 3), true);
  loop_buffer(g.k, LOOP_SCRATCH, "t", DT_F32, ie_const(p, 8), false);
  loop_begin(&g.b, g.k);
  Dim i = loop_for(&g.b, LOOP_PARALLEL, "i", g.n);
  g.sym[g.nsyms++] = i;
  gen_block(&g, 3);
  Dim z = loop_for(&g.b, LOOP_VECTOR, "z", ie_const(p, 3));
  g.sym[g.nsyms++] = z;
  loop_store(&g.b, 1, ie_add(p, ie_mulc(p, i, 3), z), gen_value(&g, 4));
  loop_end(&g.b);
  loop_end(&g.b);
  loop_finish(&g.b);
  return g.k;
}

static const char *text_of(LoopFixture *f, const LoopKernel *k) {
  StrBuf b;
  strbuf_init(&b, &f->arena);
  loop_print(k, &b);
  return strbuf_text(&b);
}

static tenon_status run_random(LoopFixture *f, const LoopKernel *k, int64_t n, float *y) {
  float x[6];
  int32_t failed;
  for (int i = 0; i < 6; i++) x[i] = (float)(i * i) * 0.37f - 3;
  void *args[] = {x, y};
  return loop_interpret(k, args, (int64_t[]){n, 3 * n}, &n, 0, n, &f->d, &failed);
}

TEST(loop_random_kernels_survive_text) {
  rng_state = 11;
  for (int round = 0; round < 400; round++) {
    LoopFixture f, g;
    loop_fixture_init(&f);
    loop_fixture_init(&g);
    LoopKernel *k = gen_kernel(&f), *again = NULL;
    const char *text = text_of(&f, k);
    if (loop_verify(k, &f.d)) FAIL("%s\n%s", f.d.text, text);
    again = parsed(&g, text);
    REQUIRE(again);
    EXPECT_STR_EQ(text_of(&g, again), text);
    EXPECT_STATUS(loop_verify(again, &g.d), TENON_OK);
    float y[2][18];
    memset(y, 0, sizeof y);
    int64_t n = 1 + rnd(6);
    tenon_status s = run_random(&f, k, n, y[0]);
    if (s) FAIL("%s\n%s", f.d.text, text);
    EXPECT_STATUS(run_random(&g, again, n, y[1]), s);
    EXPECT(!memcmp(y[0], y[1], sizeof y[0]));
    loop_fixture_free(&f);
    loop_fixture_free(&g);
  }
}

// ---- the verifier against brute force ----
// A random kernel of one store, its items decomposed in some way.
static void random_store(char *text, size_t cap) {
  static const char *const items[] = {
      "n", "n*m", "3*n", "2*m", "floor((n + 1)/2)", "m*floor((n + 2)/3)"};
  static const char *const atom[] = {"i",         "floor(i/m)", "mod(i, m)", "floor(i/3)",
                                     "mod(i, 3)", "floor(i/2)", "mod(i, 2)", "mod(floor(i/2), m)",
                                     "j",         "g"};
  static const char *const inner[] = {
      "1", "2", "3", "m", "n", "min(2, n - 2*i)", "min(3, n - 3*floor(i/m))"};
  static const char *const coef[] = {"1", "2", "3", "m", "n", "2*m", "3*m", "(0 - 1)"};
  static const char *const size[] = {"n", "n*m", "3*n", "2*n*m", "6*n", "3*m*n", "n + 2", "2*m"};
  static const char *const limit[] = {"n", "m", "2", "3*n"};
  char index[256] = "";
  size_t at = 0;
  for (int64_t terms = 1 + rnd(3); terms > 0; terms--)
    at += (size_t)snprintf(index + at, sizeof index - at, "%s%s*%s", at ? " + " : "",
                           coef[rnd(rnd(3) ? 5 : 8)], atom[rnd(10)]);
  snprintf(
      text, cap,
      "kernel @k dims(n in [1, 4], m in [1, 3]) (out %%y: f32[%s]) {\n  parallel i < %s {\n"
      "    for j < %s {\n      store where(g = %s*%s + j - %d < %s) %%y[%s] = 1.0\n    }\n  }\n}\n",
      size[rnd(8)], items[rnd(6)], inner[rnd(7)], coef[rnd(5)], atom[rnd(8)], (int)rnd(2),
      limit[rnd(4)], index);
}

// Whether some access lies outside, or two items write one element.
static bool brute_force(LoopFixture *f, const LoopKernel *k, int64_t n, int64_t m) {
  float y[256], count[256] = {0};
  int64_t dims[] = {n, m}, size, items;
  int64_t bind[64] = {0};
  bool bound[64] = {false};
  for (int i = 0; i < 2; i++) bind[k->dim[i]->slot] = dims[i], bound[k->dim[i]->slot] = true;
  if (!ie_eval(k->buffer[0].size, bind, bound, 64, &size)) return false;
  if (!ie_eval(loop_items(k), bind, bound, 64, &items)) return false;
  for (int64_t i = 0; i < items; i++) {
    int32_t failed;
    void *args[] = {y};
    memset(y, 0, sizeof y);
    if (loop_interpret(k, args, &size, dims, i, i + 1, &f->d, &failed)) return true;
    for (int64_t j = 0; j < size; j++) count[j] += y[j];
  }
  for (int64_t j = 0; j < size; j++)
    if (count[j] > 1) return true;
  return false;
}

TEST(loop_verifier_is_never_wrong) {
  int64_t passed = 0, bad = 0, sound = 0;
  rng_state = 5;
  for (int round = 0; round < 1000; round++) {
    LoopFixture f;
    char text[1024];
    loop_fixture_init(&f);
    random_store(text, sizeof text);
    LoopKernel *k = parsed(&f, text);
    REQUIRE(k);
    bool verified = !loop_verify(k, &f.d), wrong = false;
    if (f.pool.nsyms <= 64)
      for (int64_t n = 1; n <= 4; n++)
        for (int64_t m = 1; m <= 3; m++) wrong |= brute_force(&f, k, n, m);
    passed += verified;
    bad += wrong;
    sound += !wrong;
    if (verified && wrong) FAIL("verified, but wrong: %s\n%s", f.d.text, text);
    loop_fixture_free(&f);
  }
  // It must also find proofs, though many of these kernels keep the rules by chance, their dims
  // being small.
  if (passed * 5 < sound)
    FAIL("%lld of %lld good kernels pass", (long long)passed, (long long)sound);
  EXPECT(bad > 200);
}
