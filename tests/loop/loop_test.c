// loop_test.c -- kernels: the text form, building and folding.
#include "loop/loop.h"
#include "loop/survey.h"
#include "loop_fixture.h"
#include "test.h"

#include <math.h>

static const char *text_of(LoopFixture *f, const LoopKernel *k) {
  StrBuf b;
  strbuf_init(&b, &f->arena);
  loop_print(k, &b);
  return strbuf_text(&b);
}

// Reads the text in a pool of its own, prints it, and wants the same text.
static void expect_round_trip(const char *text) {
  LoopFixture f;
  loop_fixture_init(&f);
  LoopKernel *k;
  if (loop_parse(str_of(text), NULL, &f.arena, &f.pool, &f.d, &k))
    FAIL("%s\n%s", f.d.text, text);
  else
    EXPECT_STR_EQ(text_of(&f, k), text);
  loop_fixture_free(&f);
}

static const char *const golden[] = {
    "kernel @empty () {\n}\n",
    "kernel @words (%x: u8[64], %w: u32[16], out %y: i32[16]) {\n"
    "  parallel i < 16 {\n"
    "    store %y[i] = dot(wide where(g = i - 1 < 15) %x[4*g], %w[i], i32(7))\n"
    "  }\n"
    "}\n",
    "kernel @pixels (%w: u32[16], out %y: u8[64]) {\n"
    "  parallel i < 16 {\n"
    "    store wide %y[4*i] = %w[i]\n"
    "  }\n"
    "}\n",
    "kernel @dot dims(n in [1, 4096]) (%x: f32[64*n], %w: f32[4096], out %y: f32[n]) {\n"
    "  scratch %t: f32[64]\n"
    "  register %acc: f64[8]\n"
    "  parallel i < n {\n"
    "    reduce %v0: f32 = add lanes 16 over k < 64 {\n"
    "      yield mul(%x[64*i + k], %w[k])\n"
    "    }\n"
    "    let %v1: f32 = mul(#0 = exp(%v0), #0)\n"
    "    store %y[i] = max(%v1, 0.0)\n"
    "  }\n"
    "}\n",
    "kernel @conv dims(H in [1, *], W in [1, 512], b) (%x: f32[H*W*b], %ids: i64[b], out %y: "
    "f32[H*W*b]) {\n"
    "  parallel i < H*b {\n"
    "    bind j < 30522 = %ids[floor(i/H)] check \"index out of range of \\\"axis\\\" 0\"\n"
    "    vector w < W {\n"
    "      unroll c < 3 {\n"
    "        store where(iw = c + w - 1 < W) %y[iw + W*i] = "
    "add(where(ih = mod(i, H) - 1 < H, iw = c + w - 1 < W) %x[iw + W*ih] else -inf, 0x1.8p-1)\n"
    "      }\n"
    "    }\n"
    "    for z < 2 {\n"
    "      prefetch %x[z + W*i]\n"
    "      if lt(cast[f32]([i + j]), nan(0x7ff8000000000001)) {\n"
    "        store %y[W*i] = select(true, -0.0, nan)\n"
    "      } else {\n"
    "        store %y[W*i] = cast[f32](add(u8(255), u8(1)))\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n",
};

static const char *const golden_file[] = {"conv", "tiles", "gather", "rest"};

static void expect_file(const char *name) {
  char path[1024], text[8192];
  snprintf(path, sizeof path, "%s/tests/golden/%s.loop", TENON_SOURCE_DIR, name);
  FILE *in = fopen(path, "r");
  REQUIRE(in);
  text[fread(text, 1, sizeof text - 1, in)] = 0;
  fclose(in);
  expect_round_trip(text);
}

TEST(loop_text_round_trips) {
  for (int64_t i = 0; i < ARRAY_LEN(golden_file); i++) expect_file(golden_file[i]);
  for (int64_t i = 0; i < ARRAY_LEN(golden); i++) expect_round_trip(golden[i]);
}

// ---- malformed text ----
typedef struct BadText {
  const char *text, *error;
} BadText;
static const BadText bad_text[] = {
    {"", "1:1: expected kernel, found the end"},
    {"kernel @k () {\n  parallel i < n {", "2:16: 'n' is not defined"},
    {"kernel @k () {\n  parallel i < 4 {\n    stor", "3:5: expected a statement, found 's'"},
    {"kernel @k (%x: f32[2], %x: f32[2]) {", "buffer %x is defined twice"},
    {"kernel @k (%x: u4[2]) {", "kernels have no u4"},
    {"kernel @k (%x: f32[9223372036854775807*9]) {", "has no value"},
    {"kernel @k dims(n in [3, 2]) () {", "an empty range"},
    {"kernel @k dims(n, n) () {", "defined twice"},
    {"kernel @k () { for i < 2 { } for i < 2 { } }", "symbol 'i' is defined twice"},
    {"kernel @k () { let %v0: f32 = 0.0 let %v0: f32 = 0.0 }", "%v0 is defined twice"},
    {"kernel @k () { let %v0: f32 = %v1 }", "variable %v1 is not defined"},
    {"kernel @k () { let %v0: f32 = frob(1.0) }", "no operation 'frob'"},
    {"kernel @k () { let %v0: f32 = 0x1.0000001p+0 }", "f32 does not have this number"},
    {"kernel @k () { let %v0: i8 = i8(200) }", "i8 does not have this number"},
    {"kernel @k () { let %v0: i8 = i8(1.0) }", "another kind than i8"},
    {"kernel @k () { let %v0: f32 = add(#1 = exp(1.0), #1) }", "the next shared value is #0"},
    {"kernel @k () { let %v0: f32 = exp(#0 = exp(#0)) }", "#0 is not defined here"},
    {"kernel @k () { let %v0: f32 = exp(1.0, 2.0) }", "expected ')', found ','"},
    {"kernel @k () { reduce %v0: f32 = add lanes 3 over j < 2 { yield 1.0 } }", "a power of two"},
    {"kernel @k () { reduce %v0: f32 = sub over j < 2 { yield 1.0 } }",
     "no operation that reduces"},
    {"kernel @k () { } x", "expected the end of the text"},
};

TEST(loop_text_errors_say_where) {
  for (int64_t i = 0; i < ARRAY_LEN(bad_text); i++) {
    LoopFixture f;
    LoopKernel *k;
    loop_fixture_init(&f);
    EXPECT_STATUS(loop_parse(str_of(bad_text[i].text), NULL, &f.arena, &f.pool, &f.d, &k),
                  TENON_EINVAL);
    EXPECT_CONTAINS(f.d.text, bad_text[i].error);
    loop_fixture_free(&f);
  }
}

TEST(loop_text_nests_so_deep) {
  LoopFixture f;
  LoopKernel *k;
  StrBuf b;
  loop_fixture_init(&f);
  strbuf_init(&b, &f.arena);
  strbuf_puts(&b, "kernel @k () { let %v0: f32 = ");
  for (int i = 0; i < 100000; i++) strbuf_puts(&b, "exp(");
  EXPECT_STATUS(loop_parse(strbuf_str(&b), NULL, &f.arena, &f.pool, &f.d, &k), TENON_EINVAL);
  EXPECT_CONTAINS(f.d.text, "nested too deeply");
  b.n = 0;
  strbuf_puts(&b, "kernel @k () { ");
  for (int i = 0; i < 100000; i++) strbuf_puts(&b, "if true {");
  EXPECT_STATUS(loop_parse(strbuf_str(&b), NULL, &f.arena, &f.pool, &f.d, &k), TENON_EINVAL);
  loop_fixture_free(&f);
}

// ---- the verifier: what it must prove, and what it must refuse ----
typedef struct Case {
  const char *text;
  const char *error;  // NULL: the kernel passes
} Case;

static tenon_status verify_text_of(LoopFixture *f, const char *text, LoopKernel **k) {
  TRY(loop_parse(str_of(text), NULL, &f->arena, &f->pool, &f->d, k));
  return loop_verify(*k, &f->d);
}

static void expect_verify(const char *text, const char *error) {
  LoopFixture f;
  LoopKernel *k;
  loop_fixture_init(&f);
  tenon_status s = verify_text_of(&f, text, &k);
  if (!s != !error)
    FAIL("%s\n%s", s ? f.d.text : "passes", text);
  else if (error)
    EXPECT_CONTAINS(f.d.text, error);
  loop_fixture_free(&f);
}

static const char *const provable[] = {
    // rows
    "kernel @rows dims(n in [0, 4096]) (%x: f32[64*n], out %y: f32[64*n]) {\n"
    "  parallel i < n { vector j < 64 { store %y[64*i + j] = neg(%x[64*i + j]) } } }",
    // a flat array in blocks with a tail
    "kernel @blocks dims(n in [0, *]) (%x: f32[n], out %y: f32[n]) {\n"
    "  parallel t < floor((n + 1023)/1024) { vector j < min(1024, n - 1024*t) {\n"
    "    store %y[1024*t + j] = neg(%x[1024*t + j]) } } }",
    // the same with a guard
    "kernel @guarded dims(n) (%x: f32[n], out %y: f32[n]) {\n"
    "  parallel t < floor((n + 1023)/1024) { vector j < 1024 {\n"
    "    store where(a = 1024*t + j < n) %y[a] = where(a = 1024*t + j < n) %x[a] } } }",
    // main loop and rest
    "kernel @rest dims(n) (%x: f32[n], out %y: f32[1]) {\n"
    "  parallel t < 1 {\n"
    "    reduce %v0: f32 = add over b < floor(n/16) {\n"
    "      reduce %v1: f32 = add over j < 16 { yield %x[16*b + j] } yield %v1 }\n"
    "    reduce %v2: f32 = add over r < mod(n, 16) { yield %x[16*floor(n/16) + r] }\n"
    "    store %y[0] = add(%v0, %v2) } }",
    // convolution: channels last, items are images x rows x blocks of channels
    "kernel @conv dims(N in [1, *], H in [1, *], W in [1, *]) (%x: f32[32*H*N*W], %w: f32[18432], "
    "out %y: f32[64*H*N*W]) {\n"
    "  register %acc: f32[96]\n"
    "  parallel i < 4*H*N {\n"
    "    for owb < floor((W + 5)/6) {\n"
    "      unroll z < 6 { vector q < 16 { store %acc[16*z + q] = 0.0 } }\n"
    "      for kh < 3 { for kw < 3 { for c < 32 { unroll p < 6 { vector l < 16 {\n"
    "        store %acc[16*p + l] = fma(where(ih = mod(floor(i/4), H) + kh - 1 < H, "
    "iw = 6*owb + p + kw - 1 < W) %x[32*H*W*floor(i/(4*H)) + 32*W*ih + 32*iw + c] else 0.0, "
    "%w[6144*kh + 2048*kw + 64*c + 16*mod(i, 4) + l], %acc[16*p + l]) } } } } }\n"
    "      unroll s < 6 { vector u < 16 {\n"
    "        store where(ow = 6*owb + s < W) "
    "%y[64*H*W*floor(i/(4*H)) + 64*W*mod(floor(i/4), H) + 64*ow + 16*mod(i, 4) + u] = "
    "%acc[16*s + u] } } } } }",
    // blocks of channels with a tail: 64*b + c stays below C
    "kernel @depth dims(P in [1, *], C in [1, *]) (%x: f32[C*P], out %y: f32[C*P]) {\n"
    "  parallel i < P*floor((C + 63)/64) {\n"
    "    vector c < min(64, C - 64*mod(i, floor((C + 63)/64))) {\n"
    "      store %y[C*floor(i/floor((C + 63)/64)) + 64*mod(i, floor((C + 63)/64)) + c] = 0.0 } } }",
    // rows outside, blocks of columns as items, a guard on the column
    "kernel @cols dims(M in [1, *], N in [1, *]) (out %y: f32[M*N]) {\n"
    "  parallel b < floor((N + 15)/16) { for m < M { vector j < 16 {\n"
    "    store where(n = 16*b + j < N) %y[N*m + n] = 1.0 } } } }",
    // two dimensional tiles with tails, both item coordinates by div and mod
    "kernel @tiles dims(M in [1, *], N in [1, *]) (%x: f32[M], out %y: f32[M*N]) {\n"
    "  parallel i < floor((M + 13)/14)*floor((N + 31)/32) {\n"
    "    for r < min(14, M - 14*floor(i/floor((N + 31)/32))) {\n"
    "      vector c < min(32, N - 32*mod(i, floor((N + 31)/32))) {\n"
    "        store %y[N*(14*floor(i/floor((N + 31)/32)) + r) + 32*mod(i, floor((N + 31)/32)) + c] "
    "= "
    "%x[14*floor(i/floor((N + 31)/32)) + r] } } } }",
    // gather by data
    "kernel @gather dims(n) (%ids: i64[n], %w: f32[30522*64], out %y: f32[64*n]) {\n"
    "  parallel i < n {\n"
    "    bind j < 30522 = %ids[i] check \"index out of range of axis 0\"\n"
    "    vector c < 64 { store %y[64*i + c] = %w[64*j + c] } } }",
    // transposition, and a result that is read again where the item wrote it
    "kernel @turn dims(M in [1, 100], N in [1, 100]) (%x: f32[M*N], out %y: f32[M*N]) {\n"
    "  parallel j < N { for i < M { store %y[M*j + i] = %x[N*i + j] }\n"
    "    for k < M { store %y[M*j + k] = exp(%y[M*j + k]) } } }",
    // max pool: window within the padded image
    "kernel @pool dims(H in [2, 1000]) (%x: f32[H], out %y: f32[floor(H/2)]) {\n"
    "  parallel o < floor(H/2) {\n"
    "    reduce %v0: f32 = max over k < 2 { yield %x[2*o + k] } store %y[o] = %v0 } }",
    // a flat range in blocks, the other side's index by division of the sum
    "kernel @transpose dims(M in [1, *], N in [1, *]) (%x: f32[M*N], %b: f32[M], out %y: f32[M*N]) "
    "{\n"
    "  parallel t < floor((M*N + 1023)/1024) { vector j < min(1024, M*N - 1024*t) {\n"
    "    store %y[1024*t + j] = add(%x[N*mod(1024*t + j, M) + floor((1024*t + j)/M)], "
    "%b[mod(1024*t + j, M)]) } } }",
    // matrix product with packed weights, tiles of rows with a tail, blocks of columns
    "kernel @gemm dims(M in [1, *]) (%a: f32[256*M], %b: f32[196608], out %y: f32[768*M]) {\n"
    "  register %acc: f32[224]\n"
    "  parallel i < 48*floor((M + 13)/14) {\n"
    "    for k < 256 { unroll r < 14 { vector l < 16 {\n"
    "      store %acc[16*r + l] = fma(%a[256*min(14*floor(i/48) + r, M - 1) + k], "
    "%b[4096*mod(i, 48) + 16*k + l], %acc[16*r + l]) } } }\n"
    "    unroll s < 14 { vector u < 16 {\n"
    "      store where(m = 14*floor(i/48) + s < M) %y[768*m + 16*mod(i, 48) + u] = %acc[16*s + u] "
    "} } } }",
    // attention: items are batch x head x blocks of rows; keys in blocks with a tail
    "kernel @attend dims(B in [1, 64], S in [1, 4096]) (%q: f32[768*B*S], out %y: f32[768*B*S]) {\n"
    "  scratch %p: f32[1024]\n"
    "  parallel i < 12*B*floor((S + 15)/16) {\n"
    "    for kb < floor((S + 63)/64) {\n"
    "      for r < min(16, S - 16*mod(i, floor((S + 15)/16))) { for c < min(64, S - 64*kb) {\n"
    "        store %p[64*r + c] = "
    "%q[768*S*floor(i/(12*floor((S + 15)/16))) + 768*(64*kb + c) + 64*mod(floor(i/floor((S + "
    "15)/16)), 12)] } }\n"
    "    }\n"
    "    for w < min(16, S - 16*mod(i, floor((S + 15)/16))) { vector d < 64 {\n"
    "      store %y[768*S*floor(i/(12*floor((S + 15)/16))) + 768*(16*mod(i, floor((S + 15)/16)) + "
    "w) + "
    "64*mod(floor(i/floor((S + 15)/16)), 12) + d] = 0.0 } } } }",
    // resize by two, padding by one, concatenation at an offset
    "kernel @resize dims(H in [1, *], W in [1, *]) (%x: f32[H*W], out %y: f32[4*H*W]) {\n"
    "  parallel i < 2*H { for w < 2*W { store %y[2*W*i + w] = %x[W*floor(i/2) + floor(w/2)] } } }",
    "kernel @concat dims(n in [1, *], A in [1, *], B in [1, *]) "
    "(%a: f32[A*n], %b: f32[B*n], out %y: f32[A*n + B*n]) {\n"
    "  parallel i < n { vector j < A { store %y[(A + B)*i + j] = %a[A*i + j] }\n"
    "    vector k < B { store %y[(A + B)*i + A + k] = %b[B*i + k] } } }",
    // flattened inner loop, decomposed
    "kernel @flat dims(A in [1, *], B in [1, *]) (%x: f32[A*B], out %y: f32[A*B]) {\n"
    "  parallel t < 1 { for f < A*B {\n"
    "    store %y[A*mod(f, B) + floor(f/B)] = %x[f] } } }",
    // rows that are cut otherwise than they lie, remainders beside their quotients
    "kernel @k dims(B) (%x: f32[76800*B], out %y: f32[22400*B]) { parallel i < B + floor((11*B + "
    "13)/14) {\n"
    "  for t < floor(min(112, 200*B - 112*i)/14) { for k < 6 { for u < 64 { for r < 14 {\n"
    "    let %v0: f32 = %x[12800*k + u + 76800*floor((r + 14*t + 112*i)/200) + 64*mod(r + 14*t + "
    "112*i, 200)]\n"
    "  } } } } } }",
    // strides that are quotients of sizes: of the items, and of another loop
    "kernel @strides dims(n in [4, *], M in [1, *]) (out %y: f32[M*floor(n/4)]) {\n"
    "  parallel i < M { for j < floor(n/4) { store %y[floor(n/4)*i + j] = 0.0 } } }",
    "kernel @apart dims(n in [1, *], M in [1, *]) (out %y: f32[2*M*floor((n + 15)/16)]) {\n"
    "  parallel i < floor((n + 15)/16) { for m < M {\n"
    "    store %y[2*floor((n + 15)/16)*m + i] = 0.0 } } }",
    // a divisor without which there would be no items
    "kernel @k dims(A, B) (%x: f32[A*floor(max(0, B - 3)/4)], out %y: f32[A*floor(max(0, B - "
    "3)/4)]) {\n"
    "  parallel i < A*floor(max(0, B - 3)/4) {\n"
    "    store %y[i] = %x[floor(max(0, B - 3)/4)*floor(i/floor(max(0, B - 3)/4)) + mod(i, "
    "floor(max(0, B - 3)/4))] } }",
    // a permutation of the elements that a guard lets through
    "kernel @k dims(A, B) (%x: f32[A*A*B], out %y: f32[A*A*B + 12]) { parallel i < A*A*B + 12 {\n"
    "  store %y[i] = where(g = i < A*A*B) %x[mod(floor(g/B), A) + A*mod(g, B) + "
    "A*B*floor(floor(g/B)/A)] } }",
    // rows of a length that is a sum, so that each stride is: by tiles of columns, and groups of
    // rows
    "kernel @k dims(n) (out %y: f32[16*n + 64]) {\n"
    "  parallel i < 4*floor((n + 19)/16) { for r < 4 {\n"
    "    for c < min(16, n - 16*floor(i/4) + 4) {\n"
    "      store %y[16*floor(i/4) + c + 4*r + n*r + 16*mod(i, 4) + 4*n*mod(i, 4)] = 0.0 } } } }",
    // a number of tiles whose divisor has a factor in common with all terms but the constant
    "kernel @k dims(n) (out %y: f32[2*n + 3]) {\n"
    "  parallel i < floor((2*n + 130)/128) { for t < floor(min(128, 2*n - 128*i + 3)/16) {\n"
    "    for r < 16 { store %y[128*i + 16*t + r] = 0.0 } } } }",
};

TEST(loop_verifier_proves) {
  for (int64_t i = 0; i < ARRAY_LEN(provable); i++) expect_verify(provable[i], NULL);
}

#define BODY(text)                                                                                 \
  "kernel @k dims(n in [1, 100]) (%x: f32[64*n], %b: bool[n], %q: i32[n], out %y: f32[64*n]) {\n"  \
  "  scratch %t: f32[64]\n  register %r: f32[16]\n  parallel i < n {\n" text "\n  }\n}\n"

static const Case refused[] = {
    // accesses
    {BODY("for j < 65 { let %v0: f32 = %x[64*i + j] }"),
     "load of %x[64*i + j]: cannot prove that the index is below 64*n"},
    {BODY("for j < 64 { let %v0: f32 = %x[64*i + j - 1] }"), "is not negative"},
    {BODY("for j < 64 { store %y[64*i + j + 1] = 0.0 }"),
     "store to %y[64*i + j + 1]: cannot prove"},
    {BODY("store %t[i] = 0.0"), "%t[i]: cannot prove that the index is below 64"},
    {BODY("store where(g = i + 1 < n + 1) %y[64*g] = 0.0"), "cannot prove that the index is below"},
    {BODY("bind j < n + 1 = %q[i] check \"c\" let %v0: f32 = %x[64*j]"), "is below 64*n"},
    {BODY("let %v0: i64 = [floor(i/(n - 1))]"), "divisor n - 1 is positive"},
    {BODY("store %y[floor((64*i)/mod(n, 2))] = 0.0"), "divisor mod(n, 2) is positive"},
    {BODY("let %v0: i64 = [mod(floor(i/(n - 1)), 3)]"), "divisor n - 1 is positive"},
    {BODY("let %v0: i64 = [floor(i/max(1, floor(i/(n - 1))))]"), "divisor n - 1 is positive"},
    {BODY("for z < 4 { unroll q < 4 { store %r[4*z + q] = 0.0 } }"), "registers are indexed"},
    {BODY("for z < 4 { unroll q < 4 { store %r[4*q + floor((z + 1)/2)] = 0.0 } }"),
     "registers are indexed"},
    // in every branch, and behind a loop
    {BODY("if true { for j < 65 { let %v0: f32 = %x[64*i + j] } }"), "is below 64*n"},
    {BODY("if true { } else { for j < 65 { let %v0: f32 = %x[64*i + j] } }"), "is below 64*n"},
    {BODY("if true { } else { store %y[0] = 0.0 }"), "work items may meet in %y"},
    {BODY("reduce %v0: f32 = add over j < 65 { yield %x[64*i + j] }"), "is below 64*n"},
    {BODY("for j < 64 { } store %y[64*i + 64] = 0.0"), "is below 64*n"},
    {BODY("if eq(%x[64*i + 64], 0.0) { }"), "is below 64*n"},
    // one element too far, by remainders and quotients
    {"kernel @k dims(B) (%x: f32[76799*B], out %y: f32[22400*B]) { parallel i < B + floor((11*B + "
     "13)/14) {\n"
     "  for t < floor(min(112, 200*B - 112*i)/14) { for k < 6 { for u < 64 { for r < 14 {\n"
     "    let %v0: f32 = %x[12800*k + u + 76800*floor((r + 14*t + 112*i)/200) + 64*mod(r + 14*t + "
     "112*i, 200)]\n"
     "  } } } } } }",
     "is below 76799*B"},
    {"kernel @k dims(B) (%x: f32[76800*B], out %y: f32[22400*B]) { parallel i < B + floor((11*B + "
     "13)/14) {\n"
     "  for t < floor(min(112, 200*B - 112*i)/14) { for k < 6 { for u < 64 { for r < 15 {\n"
     "    let %v0: f32 = %x[12800*k + u + 76800*floor((r + 14*t + 112*i)/200) + 64*mod(r + 14*t + "
     "112*i, 200)]\n"
     "  } } } } } }",
     "is below 76800*B"},
    {"kernel @k dims(A, B) (%x: f32[A*A*B], out %y: f32[A*A*B + 12]) { parallel i < A*A*B + 12 {\n"
     "  store %y[i] = where(g = i < A*A*B + 1) %x[mod(floor(g/B), A) + A*mod(g, B) + "
     "A*B*floor(floor(g/B)/A)] } }",
     "cannot prove"},
    {"kernel @k dims(n) (out %y: f32[2*n + 3]) {\n"
     "  parallel i < floor((2*n + 130)/128) { for t < floor(min(128, 2*n - 128*i + 4)/16) {\n"
     "    for r < 16 { store %y[128*i + 16*t + r] = 0.0 } } } }",
     "is below 2*n + 3"},
    {"kernel @k dims(A, B) (%x: f32[A], out %y: f32[A + 1]) { parallel i < A + 1 {\n"
     "  store %y[i] = %x[mod(i, floor(max(0, B - 3)/4))] } }",
     "is positive"},
    // races
    {BODY("store %y[0] = 0.0"), "work items may meet in %y"},
    {BODY("for j < 64 { store %y[32*i + j] = 0.0 }"), "cannot read i off store to %y[32*i + j]"},
    {BODY("for j < n { store %y[j] = 0.0 }"), "may meet"},
    {"kernel @k dims(n) (out %y: f32[16*n + 64]) {\n"
     "  parallel i < 4*floor((n + 19)/16) { for r < 4 {\n"
     "    for c < min(16, n - 16*floor(i/4) + 4) {\n"
     "      store %y[16*floor(i/4) + c + 3*r + n*r + 16*mod(i, 4) + 4*n*mod(i, 4)] = 0.0 } } } }",
     "may meet"},
    {BODY("bind j < n = %q[i] check \"c\" store %y[j] = 0.0"), "may meet"},
    {BODY("store %y[64*i] = 0.0 let %v0: f32 = %y[0]"), "off load of %y[0]"},
    {BODY("store %y[64*i] = 0.0 store %y[i] = 0.0"), "as off the accesses before it"},
    {BODY("store %y[64*floor(i/2)] = 0.0"), "may meet"},
    {BODY("store %y[mod(i, 3)] = 0.0"), "may meet"},
    {BODY("store %y[64*n - 1 - 64*i] = 0.0"), "may meet"},
    // scopes
    {BODY("for j < 2 { } let %v0: i64 = [j]"), "symbol 'j' is not defined here"},
    {BODY("for j < 2 { let %v0: f32 = 0.0 } store %y[64*i] = %v0"), "%v0 is not defined here"},
    {BODY("reduce %v0: f32 = add over j < 2 { yield %v0 }"), "%v0 is not defined here"},
    {BODY("if true { let %v0: f32 = 0.0 } else { store %y[64*i] = %v0 }"), "not defined here"},
    {BODY("store where(g = i < n) %y[64*i] = where(h = g < n) %x[h]"), "'g' is not defined here"},
    // loops
    {BODY("parallel j < 2 { }"), "the outermost one and occurs once"},
    {"kernel @k () { }", "one parallel loop"},
    {"kernel @k () { for i < 2 { } }", "one parallel loop"},
    {BODY("vector j < 16 { for k < 2 { } }"), "holds no loops but unrolled ones"},
    {BODY("vector j < 16 { vector k < 2 { } }"), "holds no loops but unrolled ones"},
    {BODY("vector j < 16 { reduce %v0: f32 = add lanes 2 over k < 2 { yield 0.0 } }"), "one lane"},
    {BODY("unroll j < n { }"), "constant extent, not n"},
    // registers
    {BODY("for j < 16 { store %r[j] = 0.0 }"), "registers are indexed by"},
    {BODY("store where(g = i < 16) %r[g] = 0.0"), "registers are indexed by"},
    // dtypes
    {BODY("store %y[64*i] = 1"), "a store of i64 to %y, which is f32"},
    {BODY("let %v0: f64 = 1.0"), "%v0 is f64, not f32"},
    {BODY("let %v0: f32 = add(1.0, f64(1.0))"), "operands of one dtype, not f32 and f64"},
    {BODY("let %v0: f32 = select(1.0, 1.0, 1.0)"), "select takes a bool first, not f32"},
    {BODY("let %v0: i64 = exp(1)"), "exp does not take i64"},
    {BODY("let %v0: i64 = bit_cast[i64](1.0)"), "bit_cast of f32 to i64"},
    {BODY("let %v0: f32 = where(g = i < n) %x[g] else 1"), "as f32, else i64"},
    {BODY("if 1.0 { }"), "a condition is a bool, not f32"},
    {BODY("bind j < 4 = 1.0 check \"c\""), "an index is an integer, not f32"},
    {BODY("reduce %v0: f32 = and over j < 2 { yield 1.0 }"), "and does not reduce f32"},
    {BODY("reduce %v0: f32 = add over j < 2 { yield 1 }"), "%v0 is f32, not i64"},
    {BODY("let %v0: i32 = dot(1, 1, i32(0))"), "dot takes two u32 and a sum of i32 or f32"},
    {BODY("let %v0: u32 = lookup(u32(1), u64(1), 1)"), "lookup takes a u32 and two constants"},
    {BODY("let %v0: u32 = lookup(u32(1), [i], u64(1))"), "lookup takes a u32 and two constants"},
    {BODY("let %v0: u32 = wide %x[64*i]"), "a load of %x, which is f32, as u32"},
    {"kernel @k (%x: u8[7], out %y: u32[1]) { parallel i < 1 { store %y[0] = wide %x[4] } }",
     "cannot prove that the index is below 7"},
    {"kernel @k (out %x: u8[8]) { parallel i < 1 { let %v0: u32 = wide %x[4] } }",
     "a load of %x, which is u8, as u32"},
    {BODY("store wide %y[64*i] = u32(1)"), "a store of u32 to %y, which is f32"},
    {"kernel @k (out %y: u8[8]) { register %r: u8[8] parallel i < 1 { store wide %r[0] = u32(1) } "
     "}",
     "a store of u32 to %r, which is u8"},
    {"kernel @k (out %y: u8[30]) { parallel i < 8 { store wide %y[4*i] = u32(1) } }",
     "cannot prove that the index is below 30"},
    {"kernel @k (out %y: u8[64]) { parallel i < 8 { store wide %y[2*i] = u32(1) } }",
     "work items may meet in %y"},
    // buffers
    {BODY("store %x[64*i] = 0.0"), "a store to %x, which is not a result"},
    {"kernel @k dims(n) () { scratch %t: f32[n] parallel i < 1 { } }", "its size is a number"},
};

TEST(loop_verifier_refuses) {
  for (int64_t i = 0; i < ARRAY_LEN(refused); i++) expect_verify(refused[i].text, refused[i].error);
}

// What text cannot say: broken in the tree.
typedef struct Broken {
  void (*change)(LoopKernel *k, LoopStmt *store);
  const char *error;
} Broken;
static LoopExpr *value_of(LoopStmt *s) { return (LoopExpr *)(uintptr_t)s->value; }
static void bad_buffer(LoopKernel *k, LoopStmt *s) { s->buffer = k->nbuffers; }
static void bad_op(LoopKernel *k, LoopStmt *s) { (void)k, value_of(s)->op = LOOP_OP_COUNT; }
static void bad_operands(LoopKernel *k, LoopStmt *s) { (void)k, value_of(s)->src[1] = NULL; }
static void no_value(LoopKernel *k, LoopStmt *s) { (void)k, s->value = NULL; }
static void no_index(LoopKernel *k, LoopStmt *s) { (void)k, s->index = NULL; }
static void bad_index(LoopKernel *k, LoopStmt *s) { s->index = k->pool->poison; }
static void bad_kind(LoopKernel *k, LoopStmt *s) { (void)k, s->kind = 99; }
static void bad_dtype(LoopKernel *k, LoopStmt *s) { (void)k, value_of(s)->dtype = DT_F64; }
static void bad_class(LoopKernel *k, LoopStmt *s) { (void)s, k->buffer[0].dtype = DT_U4; }
static void bad_space(LoopKernel *k, LoopStmt *s) { (void)s, k->buffer[0].space = LOOP_SCRATCH; }
static void twice(LoopKernel *k, LoopStmt *s) {
  LoopStmt *top = k->body.v[0], *again = arena_dup(k->arena, top->body.v[0], sizeof *top);
  (void)s;
  top->body.v[1] = again;
}
static void bad_lanes(LoopKernel *k, LoopStmt *s) { (void)s, k->body.v[0]->body.v[0]->lanes = 3; }
static void bad_range(LoopKernel *k, LoopStmt *s) {
  (void)s;
  k->body.v[0]->body.v[0]->extent = ie_const(k->pool, 9);
}
static const Broken broken[] = {
    {bad_buffer, "buffer 2"},
    {bad_op, "operation"},
    {bad_operands, "mul takes 2 operands"},
    {no_value, "no value"},
    {no_index, "no index"},
    {bad_index, "has no value"},
    {bad_kind, "statement of kind 99"},
    {bad_dtype, "mul of f32 is no f64"},
    {bad_class, "kernels have no u4"},
    {bad_space, "arguments come first"},
    {twice, "symbol 'j' is defined twice"},
    {bad_lanes, "3 lanes"},
    {bad_range, "the range of 'j' leaves out values below 9"},
};

TEST(loop_verifier_refuses_broken_trees) {
  for (int64_t i = 0; i < ARRAY_LEN(broken); i++) {
    LoopFixture f;
    LoopKernel *k;
    loop_fixture_init(&f);
    const char *text = "kernel @k (%x: f32[8], out %y: f32[2]) {\n  parallel i < 2 {\n"
                       "    reduce %v0: f32 = add lanes 4 over j < 4 { yield %x[4*i + j] }\n"
                       "    store %y[i] = mul(%v0, 2.0)\n  }\n}\n";
    EXPECT_STATUS(verify_text_of(&f, text, &k), TENON_OK);
    broken[i].change(k, k->body.v[0]->body.v[1]);
    EXPECT_STATUS(loop_verify(k, &f.d), TENON_EINVAL);
    EXPECT_CONTAINS(f.d.text, broken[i].error);
    loop_fixture_free(&f);
  }
}

// A value that is used twice by one that is used twice, and so on: each is looked at once.
TEST(loop_verifier_looks_at_each_value_once) {
  LoopFixture f;
  if (!loop_fixture_read(&f, "kernel @k (%x: f32[8], out %y: f32[8]) {\n  parallel i < 8 {\n"
                             "    store %y[i] = %x[i]\n  }\n}\n"))
    return;
  LoopStmt *store = f.k->body.v[0]->body.v[0];
  for (int i = 0; i < 60; i++)
    store->value = loop_op(f.k, LOOP_mul, store->value, store->value, NULL);
  EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_OK);
  loop_fixture_free(&f);
}

TEST(loop_statements_count_unrolled_bodies) {
  static const char *const loops[] = {
      "for j < 8 {\n store %y[8*i + j] = add(%x[8*i + j], 1.0)\n }",
      "unroll j < 8 {\n store %y[8*i + j] = add(%x[8*i + j], 1.0)\n }",
  };
  int64_t count[2] = {0};
  for (int n = 0; n < 2; n++) {
    LoopFixture f;
    loop_fixture_init(&f);
    LoopKernel *k;
    const char *text = str_printf(&f.arena,
                                  "kernel @k (%%x: f32[64], out %%y: f32[64]) {\n"
                                  "  parallel i < 8 {\n%s\n  }\n}\n",
                                  loops[n]);
    if (loop_parse(str_of(text), NULL, &f.arena, &f.pool, &f.d, &k))
      FAIL("%s", f.d.text);
    else
      count[n] = loop_statements(k);
    loop_fixture_free(&f);
  }
  int64_t body = count[0] - 2;  // besides the two loops
  EXPECT(body >= 2);
  EXPECT_INT_EQ(count[1], 2 + 8 * body);
}
