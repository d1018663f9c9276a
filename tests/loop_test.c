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
