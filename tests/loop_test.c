// loop_test.c -- kernels: the text form, building and folding.
#include "loop/loop.h"
#include "test.h"

#include <math.h>

typedef struct Fixture {
  Arena arena;
  IntPool pool;
  Diag d;
} Fixture;

static void fixture_init(Fixture *f) {
  arena_init(&f->arena);
  intpool_init(&f->pool, &f->arena);
  diag_init(&f->d);
}

static const char *text_of(Fixture *f, const LoopKernel *k) {
  StrBuf b;
  strbuf_init(&b, &f->arena);
  loop_print(k, &b);
  return strbuf_text(&b);
}

// Reads the text in a pool of its own, prints it, and wants the same text.
static void expect_round_trip(const char *text) {
  Fixture f;
  fixture_init(&f);
  LoopKernel *k;
  if (loop_parse(str_of(text), NULL, &f.arena, &f.pool, &f.d, &k))
    FAIL("%s\n%s", f.d.text, text);
  else
    EXPECT_STR_EQ(text_of(&f, k), text);
  arena_deinit(&f.arena);
}

static const char *const golden[] = {
    "kernel @empty () {\n}\n",
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

TEST(loop_text_round_trips) {
  for (int64_t i = 0; i < ARRAY_LEN(golden); i++) expect_round_trip(golden[i]);
}

// ---- the verifier: what it must prove, and what it must refuse ----
typedef struct Case {
  const char *text;
  const char *error;  // NULL: the kernel passes
} Case;

static tenon_status verify_text_of(Fixture *f, const char *text, LoopKernel **k) {
  TRY(loop_parse(str_of(text), NULL, &f->arena, &f->pool, &f->d, k));
  return loop_verify(*k, &f->d);
}

static void expect_verify(const char *text, const char *error) {
  Fixture f;
  LoopKernel *k;
  fixture_init(&f);
  tenon_status s = verify_text_of(&f, text, &k);
  if (!s != !error)
    FAIL("%s\n%s", s ? f.d.text : "passes", text);
  else if (error)
    EXPECT_CONTAINS(f.d.text, error);
  arena_deinit(&f.arena);
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
    // flattened inner loop, taken apart
    "kernel @flat dims(A in [1, *], B in [1, *]) (%x: f32[A*B], out %y: f32[A*B]) {\n"
    "  parallel t < 1 { for f < A*B {\n"
    "    store %y[A*mod(f, B) + floor(f/B)] = %x[f] } } }",
};

TEST(loop_verifier_proves) {
  for (int64_t i = 0; i < ARRAY_LEN(provable); i++) expect_verify(provable[i], NULL);
}
