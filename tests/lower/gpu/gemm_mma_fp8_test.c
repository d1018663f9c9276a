// gemm_mma_fp8_test.c -- fp8 GEMMs in MMA tiles: which are found, how they multiply, and what they
// compute.
//
// Tiles run everywhere as plain loops (TENON_MMA), which add as f32: what is compared are scales,
// packed weights and epilogues.
#include "compiled.h"
#include "loop/tile.h"
#include "loop_fixture.h"
#include "passes/passes.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"
#include "targets/target.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { NONE = -1 };  // no tile of such products

static const struct {
  int form;
  const char *text;
} graphs[] = {
    {TILE_MATRIX, "graph @\"widened\"(%x: f8e4m3[70, 48], %w: f8e5m2[40, 48], %b: f32[40]) {\n"
                  "  %a = cast(%x) to=f32\n  %v = cast(%w) to=f32\n"
                  "  %y = gemm(%a, %v, %b) transB=true\n  %r = relu(%y)\n  return %r\n}\n"},
    {TILE_MATRIX, "graph @\"scaled\"(%x: f8e5m2[2, 35, 48], %s: f32[]) {\n"
                  "  %c = const f32[] {0.375}\n  %d = const i64[2] {48, 40}\n"
                  "  %e = expand(%c, %d)\n  %w = cast(%e) to=f8e4m3\n"
                  "  %a = cast(%x) to=f32\n  %p = mul(%s, %a)\n  %v = cast(%w) to=f32\n"
                  "  %y = mat_mul(%p, %v)\n  return %y\n}\n"},
    {TILE_MATRIX, "graph @\"quantised\"(%x: f32[70, 48], %w: f8e4m3[40, 48], %ws: f32[40]) {\n"
                  "  %s = const f32[] {0.05}\n  %z = const f8e4m3[] {0}\n"
                  "  %q = quantize_linear(%x, %s, %z)\n  %a = dequantize_linear(%q, %s, %z)\n"
                  "  %v = dequantize_linear(%w, %ws) axis=0\n"
                  "  %y = gemm(%a, %v) transB=true\n  return %y\n}\n"},
    {TILE_VALUE, "graph @\"odd rows\"(%x: f8e4m3[70, 45]) {\n"
                 "  %c = const f32[] {0.375}\n  %d = const i64[2] {45, 40}\n"
                 "  %e = expand(%c, %d)\n  %w = cast(%e) to=f8e4m3\n"
                 "  %a = cast(%x) to=f32\n  %v = cast(%w) to=f32\n"
                 "  %y = mat_mul(%a, %v)\n  return %y\n}\n"},
    {NONE, "graph @\"weights alone\"(%x: f32[70, 48], %w: f8e4m3[40, 48]) {\n"
           "  %v = cast(%w) to=f32\n  %y = gemm(%x, %v) transB=true\n  return %y\n}\n"},
    {NONE, "graph @\"another format\"(%x: f8e4m3z[70, 48], %w: f8e4m3[40, 48]) {\n"
           "  %a = cast(%x) to=f32\n  %v = cast(%w) to=f32\n"
           "  %y = gemm(%a, %v) transB=true\n  return %y\n}\n"},
    {NONE, "graph @\"a scale for each place\"(%x: f8e4m3[70, 48], %w: f8e4m3[40, 48], %s: f32[48]) "
           "{\n  %a = cast(%x) to=f32\n  %v = dequantize_linear(%w, %s) axis=1\n"
           "  %y = gemm(%a, %v) transB=true\n  return %y\n}\n"},
};

// What is read of the tile is its own.
static bool tile_of(const char *text, unsigned fast, LoopTile *out) {
  Arena a;
  arena_init(&a);
  bool found =
      first_tile((Asked){.device = "sm_90a", .fast = fast, .advised = true}, text, &a, out);
  arena_deinit(&a);
  return found && out->kind == MMA_FP8;
}

TEST(float8_in_tiles_is_found_where_sums_may_be_reordered) {
  for (int64_t i = 0; i < ARRAY_LEN(graphs); i++) {
    LoopTile t;
    bool has = tile_of(graphs[i].text, opt_fast_math_flags(3, false, false), &t);
    if (has != (graphs[i].form != NONE)) FAIL("%s", graphs[i].text);
    if (has) EXPECT_INT_EQ(t.a.form, graphs[i].form);
    EXPECT(!tile_of(graphs[i].text, 0, &t));
  }
}

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++) val_put_f64(v, i, (double)((i * 7919) % 1013) / 997.0 - 0.5);
}

TEST(float8_in_tiles_is_right) {
  setenv("TENON_BLOCK_THREADS", "256", 1);
  setenv("TENON_MMA", "1", 1);
  for (int64_t i = 0; i < ARRAY_LEN(graphs); i++) {
    BothWays b;
    Asked asked = {.fast = opt_fast_math_flags(3, false, false), .advised = true};
    double error = 0, largest = 0;
    if (!both_ways_run(&b, graphs[i].text, "ref", fill, compile_asked, &asked))
      FAIL("%s", b.diag.text);
    for (int64_t e = 0; b.got[0] && e < b.got[0]->n; e++) {
      double x = val_f64(b.want[0], e), y = val_f64(b.got[0], e);
      largest = fmax(largest, fabs(x));
      error = fmax(error, fabs(x - y));
    }
    if (!(error < 1e-5 * largest)) FAIL("error %g of %g:\n%s", error, largest, graphs[i].text);
    both_ways_free(&b);
  }
  unsetenv("TENON_MMA");
  unsetenv("TENON_BLOCK_THREADS");
}

// Sums of a block are added as f32; of wide tiles half of the columns at a time.
TEST(float8_in_tiles_becomes_warpgroup_products) {
  static const struct {
    int n;
    const char *instruction, *second;
  } row[] = {{64, "m64n64k32.f32.e4m3.e5m2 {", NULL},
             {192, "m64n96k32.f32.e4m3.e5m2 {", "tn_sum[0][48 + q] += tn_block[q];"}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    CStyle style;
    CudaRecord record;
    LoopTile t;
    StrBuf text;
    Arena a;
    bool differs;
    arena_init(&a);
    REQUIRE(loop_fixture_read(
        &f, str_printf(&a,
                       "kernel @k (%%x: f8e4m3[38400], %%w: f8e5m2[%d], out %%y: f32[%d]) {\n"
                       "  parallel item < 4 {\n"
                       "    mma %%v0: f32 = fp8 over i < 128, j < %d, k < 96 stages=4 warpgroups=2 "
                       "{\n      a matrix %%x[row = i + 128*item < 400] stride 96\n"
                       "      b matrix %%w[col = j < %d] stride 96\n"
                       "      store where(row = i + 128*item < 400, col = j < %d) "
                       "%%y[col + %d*row] = %%v0\n    }\n  }\n}\n",
                       row[i].n * 96, row[i].n * 400, row[i].n, row[i].n, row[i].n, row[i].n)));
    EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_OK);
    REQUIRE(loop_find_tile(f.k, &t));
    EXPECT_INT_EQ(t.kind, MMA_FP8);
    strbuf_init(&text, &a);
    cstyle_init(&style, &spelling_cuda, 0, &a, &f.d);
    style.extension = &(CudaTensorCores){.record = &record};
    EXPECT_STATUS(cstyle_kernel(&style, f.k, "tn_kernel", false, &text, &differs), TENON_OK);
    EXPECT_CONTAINS(strbuf_text(&text), "tn_sum[0][0 + q] += tn_block[q];");
    if (row[i].second) EXPECT_CONTAINS(strbuf_text(&text), row[i].second);
    text.n = 0;
    cs_tile_top(&t, &text);
    EXPECT_CONTAINS(strbuf_text(&text), row[i].instruction);
    loop_fixture_free(&f);
    arena_deinit(&a);
  }
}
