// batch_invariant_test.c -- the option that an item of a batch has the same bits whatever the size
// of the batch.
//
// Graphs whose schedules would otherwise depend on how many items there are: products of a few
// rows, sums across, convolutions.
#include "compiled.h"
#include "loop/tile.h"
#include "passes/passes.h"
#include "targets/target.h"
#include "test.h"

#include <stdlib.h>

// %d is the batch.
static const char *const graphs[] = {
    "graph @\"product\"(%%x: f32[%d, 600], %%w: f32[600, 24]) {\n"
    "  %%y = mat_mul(%%x, %%w)\n  return %%y\n}\n",
    "graph @\"few\"(%%x: f32[%d, 512], %%w: f32[512, 3]) {\n"
    "  %%y = mat_mul(%%x, %%w)\n  return %%y\n}\n",
    "graph @\"across\"(%%x: f32[%d, 49, 96]) {\n"
    "  %%a = const i64[1] {1}\n  %%y = reduce_mean(%%x, %%a)\n  return %%y\n}\n",
    "graph @\"chain\"(%%x: f32[%d, 40], %%a: f32[40, 30], %%b: f32[30, 2]) {\n"
    "  %%s = mat_mul(%%x, %%a)\n  %%y = mat_mul(%%s, %%b)\n  return %%y\n}\n",
    "graph @\"convolution\"(%%x: f32[%d, 8, 6, 6], %%w: f32[16, 8, 3, 3]) {\n"
    "  %%y = conv(%%x, %%w) pads=[1, 1, 1, 1]\n  return %%y\n}\n",
};
static const int batches[] = {1, 2, 8, 17};

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++)
    ((float *)v->data)[i] = (float)((i * 7919) % 1013) / 997.0f - 0.5f;
}

// Whether the first item has the same bits at every batch.
static bool same_bits(const char *graph, const char *target, bool invariant) {
  Asked asked = {.fast = fast_flags(), .advised = true, .invariant = invariant};
  float first[4096] = {0};
  bool same = true;
  for (int64_t i = 0; i < ARRAY_LEN(batches); i++) {
    BothWays b;
    char text[1024];
    (void)snprintf(text, sizeof text, graph, batches[i]);
    if (!both_ways_run(&b, text, target, fill, compile_asked, &asked)) {
      FAIL("%s\n%s", b.diag.text, text);
      both_ways_free(&b);
      return false;
    }
    int64_t n = b.got[0]->n / batches[i];
    if (n > ARRAY_LEN(first)) FAIL("%lld elements are too many", (long long)n);
    if (!i) memcpy(first, b.got[0]->data, (size_t)n * sizeof(float));
    same &= memcmp(first, b.got[0]->data, (size_t)n * sizeof(float)) == 0;
    both_ways_free(&b);
  }
  return same;
}

TEST(batch_invariant_items_have_the_same_bits) {
  int64_t differ = 0;
  setenv("TENON_BLOCK_THREADS", "32", 1);
  for (int64_t i = 0; i < ARRAY_LEN(graphs); i++) {
    if (!same_bits(graphs[i], "ref", true)) FAIL("other bits, in groups:\n%s", graphs[i]);
    differ += !same_bits(graphs[i], "ref", false);
  }
  unsetenv("TENON_BLOCK_THREADS");
  EXPECT(differ > 0);  // else the option would be for nothing
  for (int64_t i = 0; i < ARRAY_LEN(graphs); i++)
    if (!same_bits(graphs[i], "ref", true)) FAIL("other bits:\n%s", graphs[i]);
}

// A product by tiles of one row and of many: tiles of other sizes, but no warpgroups that divide a
// sum.
TEST(batch_invariant_tiles_take_no_turns) {
  const char *graph = "graph @\"g\"(%%x: bf16[%d, 4096], %%w: bf16[64, 4096]) {\n"
                      "  %%y = gemm(%%x, %%w) transB=true\n  return %%y\n}\n";
  for (int invariant = 0; invariant < 2; invariant++) {
    int64_t turns = 0;
    for (int rows = 1; rows <= 4096; rows *= 64) {
      Arena a;
      Diag d;
      Program *p;
      Compiled c = {0};
      LoopTile t;
      char text[1024];
      arena_init(&a);
      diag_init(&d);
      (void)snprintf(text, sizeof text, graph, rows);
      Asked asked = {.device = "sm_90a",
                     .compiled = &c,
                     .fast = fast_flags(),
                     .advised = true,
                     .invariant = invariant};
      tenon_status s = compile_asked(&asked, text, "cuda", &a, &d, &p);
      if (s) FAIL("%s", d.text);
      for (int64_t i = 0; i < c.nkernels; i++)
        if (loop_find_tile(c.kernel[i].lowered->kernel, &t)) turns += t.s.warpgroups * 64 > t.s.m;
      program_release(p);
      arena_deinit(&a);
    }
    EXPECT(invariant ? !turns : turns > 0);
  }
}
