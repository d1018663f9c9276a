// gemm_mma_sync_test.c -- MMA tiles by mma.sync, as on sm_80: how they share a tile, what is
// refused, the CUDA text, which tiles are chosen, and what the loops compute.
#include "compiled.h"
#include "loop/tile.h"
#include "passes/passes.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"
#include "targets/target.h"

#include "loop_fixture.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

// ---- single tiles ----

// 1000 rows and 384 columns of sums of `depth` products of a kind.
static bool read_tile(LoopFixture *f, Arena *a, const char *type, const char *kind, int depth,
                      int m, int stages, int n, const char *groups) {
  const char *sum = *type == 'i' ? "i32" : "f32";
  int across = (384 + n - 1) / n, down = (1000 + m - 1) / m;
  return loop_fixture_read(
      f,
      str_printf(a,
                 "kernel @k (%%a: %s[%d], %%b: %s[%d], out %%y: %s[384000]) {\n"
                 "  parallel item < %d {\n    mma %%v0: %s = %s over i < %d, j < %d, k < %d "
                 "stages=%d warpgroups=%s {\n"
                 "      a matrix %%a[row = i + %d*floor(item/%d) < 1000] stride %d\n"
                 "      b matrix %%b[col = j + %d*mod(item, %d) < 384] stride %d\n"
                 "      store where(row = i + %d*floor(item/%d) < 1000, col = j + "
                 "%d*mod(item, %d) < 384) %%y[col + 384*row] = %%v0\n    }\n  }\n}\n",
                 type, 1000 * depth, type, 384 * depth, sum, across * down, sum, kind, m, n, depth,
                 stages, groups, m, across, depth, n, across, depth, m, across, n, across));
}

TEST(warps_share_a_tile) {
  static const struct {
    int m, n, groups, rows, cols, resident_blocks;
  } row[] = {{128, 256, 2, 64, 64, 1}, {128, 128, 2, 64, 32, 1}, {128, 64, 2, 32, 32, 2},
             {128, 32, 2, 32, 16, 2},  {64, 256, 1, 64, 64, 2},  {64, 192, 1, 64, 48, 2},
             {64, 96, 1, 32, 48, 2},   {64, 32, 1, 32, 16, 2}};
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    LoopTile t;
    LoopTileWarps w;
    const char *why;
    if (!read_tile(&f, &a, "bf16", "half", 72, row[i].m, 4, row[i].n,
                   row[i].groups == 2 ? "2" : "1"))
      return;
    REQUIRE(loop_find_tile(f.k, &t));
    if (!loop_tile_warps(&t, &w, &why)) FAIL("%dx%d: %s", row[i].m, row[i].n, why);
    EXPECT_INT_EQ(w.rows, row[i].rows);
    EXPECT_INT_EQ(w.cols, row[i].cols);
    EXPECT_INT_EQ(w.resident_blocks, row[i].resident_blocks);
    EXPECT_INT_EQ(w.threads, 128 * row[i].groups);
    EXPECT_INT_EQ(w.down * w.rows, row[i].m);
    EXPECT_INT_EQ(w.across * w.cols, row[i].n);
    EXPECT_INT_EQ(w.down * w.across * 32, w.threads);
    EXPECT_INT_EQ(w.bytes, 4 * (row[i].m + row[i].n) * 128 + 128);
    loop_fixture_free(&f);
  }
  arena_deinit(&a);
}

TEST(warps_refuse_what_they_cannot_multiply) {
  static const struct {
    const char *type, *kind;
    int depth, m, stages, n;
    const char *groups, *said;
  } row[] = {{"f32", "3xtf32", 64, 128, 4, 128, "2", "of 16 bits, tf32 or int8"},
             {"bf16", "half", 64, 128, 4, 160, "2", "whole ones of 16"},
             {"bf16", "half", 64, 64, 6, 64, "2", "do not split the depth"},
             {"bf16", "half", 64, 64, 4, 64, "2 cluster=2", "one tile at a time"},
             {"bf16", "half", 20, 128, 4, 128, "2", "runs of 16 bytes"},
             {"f32", "tf32", 18, 128, 4, 128, "2", "runs of 16 bytes"},
             {"i8", "int8", 40, 128, 4, 128, "2", "runs of 16 bytes"}};
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    LoopTile t;
    LoopTileWarps w;
    const char *why = "nothing";
    if (!read_tile(&f, &a, row[i].type, row[i].kind, row[i].depth, row[i].m, row[i].stages,
                   row[i].n, row[i].groups))
      return;
    REQUIRE(loop_find_tile(f.k, &t));
    EXPECT(!loop_tile_warps(&t, &w, &why));
    EXPECT_CONTAINS(why, row[i].said);
    loop_fixture_free(&f);
  }
  arena_deinit(&a);
}

static tenon_status emit(LoopFixture *f, Arena *a, int64_t tile_bytes, CudaRecord *record,
                         const char **text) {
  CStyle style;
  StrBuf out;
  LoopTile t;
  bool differs;
  strbuf_init(&out, a);
  cstyle_init(&style, &spelling_cuda, 0, a, &f->d);
  style.extension = &(CudaTensorCores){.record = record, .warps = true, .tile_bytes = tile_bytes};
  if (loop_find_tile(f->k, &t)) cs_mma_top(&t, &out);
  tenon_status s = cstyle_kernel(&style, f->k, "tn_kernel", false, &out, &differs);
  *text = strbuf_text(&out);
  return s;
}

TEST(tiles_become_products_of_warps) {
  Arena a;
  LoopFixture f;
  CudaRecord record;
  StrBuf head;
  const char *text;
  arena_init(&a);
  strbuf_init(&head, &a);
  if (!read_tile(&f, &a, "bf16", "half", 72, 128, 3, 128, "2")) return;
  EXPECT_STATUS(emit(&f, &a, 163 << 10, &record, &text), TENON_OK);
  cuda_record_write(&record, &head);
  EXPECT_STR_EQ(strbuf_text(&head), "//tn threads 256\n//tn shared 98432\n");
  static const char *const has[] = {
      "__launch_bounds__(256, 1) tn_kernel(",
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
      "cp.async.wait_group 1;",
      "const int tn_blocks = (int)((72 + 63) / 64);",
      "const bool tn_whole = tn_next * 64 + tn_piece * 8 < 72;",  // the last block is not whole
      "tn_row + i * 32 < 1000 && tn_whole);",                     // nor are the last rows,
      "tn_b + (long long)i * 32 * (72) * 2, tn_whole);",          // but all columns
      "float tn_sum[4][16];",
      "= tn_down * 64 + tn_b * 16 + tn_h * 8 + (tn_lane >> 2);"};
  for (int64_t i = 0; i < ARRAY_LEN(has); i++) EXPECT_CONTAINS(text, has[i]);
  EXPECT(!strstr(text, "wgmma") && !strstr(text, "tn_map") && !strstr(text, "griddepcontrol"));
  EXPECT(!strstr(strstr(text, "tn_kernel("), "tn_round_four"));
  // sm_86 has less shared memory.
  EXPECT_STATUS(emit(&f, &a, 96 << 10, &record, &text), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(f.d.text, "a tile needs 98432 bytes");
  loop_fixture_free(&f);
  if (!read_tile(&f, &a, "f32", "tf32", 36, 64, 4, 64, "1")) return;
  EXPECT_STATUS(emit(&f, &a, 163 << 10, &record, &text), TENON_OK);
  EXPECT_CONTAINS(text, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32");
  EXPECT_CONTAINS(strstr(text, "tn_kernel("), "tn_round_four(tn_x_of[q & 1][i]);");
  loop_fixture_free(&f);
  arena_deinit(&a);
}

// Bytes are copied as all else is, 16 in a piece; sums are integers.
TEST(bytes_become_products_of_warps) {
  static const char *const has[] = {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
                                    "tn_multiply(int *d,",
                                    "\"+r\"(d[3])",
                                    "const int tn_blocks = (int)((144 + 127) / 128);",
                                    "const bool tn_whole = tn_next * 128 + tn_piece * 16 < 144;",
                                    "int tn_sum[4][16];",
                                    "tn_sum[q / 16][q % 16] = 0;",
                                    "const int tn_x = __shfl_xor_sync("};
  Arena a;
  LoopFixture f;
  CudaRecord record;
  const char *text;
  arena_init(&a);
  if (!read_tile(&f, &a, "i8", "int8", 144, 128, 3, 128, "2")) return;
  EXPECT_STATUS(emit(&f, &a, 163 << 10, &record, &text), TENON_OK);
  for (int64_t i = 0; i < ARRAY_LEN(has); i++) EXPECT_CONTAINS(text, has[i]);
  loop_fixture_free(&f);
  arena_deinit(&a);
}

// ---- graphs ----

static const struct {
  int form;  // -1: no tile
  const char *text;
} graphs[] = {
    {TILE_MATRIX, "graph @\"rows\"(%x: f32[70, 36], %w: f32[40, 36], %b: f32[40]) {\n"
                  "  %y = gemm(%x, %w, %b) transB=true\n  return %y\n}\n"},
    {TILE_MATRIX, "graph @\"long\"(%x: f32[9, 3072], %w: f32[40, 3072]) {\n"
                  "  %y = gemm(%x, %w) transB=true\n  %r = relu(%y)\n  return %r\n}\n"},
    {-1, "graph @\"odd rows\"(%x: f32[70, 37]) {\n  %c = const f32[] {0.125}\n"
         "  %s = const i64[2] {37, 20}\n  %w = expand(%c, %s)\n"
         "  %y = mat_mul(%x, %w)\n  return %y\n}\n"},
    {TILE_WINDOW, "graph @\"image\"(%x: f32[2, 9, 8, 12]) {\n  %c = const f32[] {0.125}\n"
                  "  %s = const i64[4] {24, 12, 3, 3}\n  %w = expand(%c, %s)\n"
                  "  %t = transpose(%x) perm=[0, 3, 1, 2]\n"
                  "  %y = conv(%t, %w) pads=[1, 1, 1, 1] strides=[2, 2]\n"
                  "  %r = transpose(%y) perm=[0, 2, 3, 1]\n  return %r\n}\n"},
};

static bool tile_of(Arena *a, const char *text, const char *chip, unsigned fast, LoopTile *out) {
  return first_tile((Asked){.device = chip, .fast = fast}, text, a, out);
}

TEST(chips_without_wgmma_have_tiles_of_warps) {
  static const char *const chip[] = {"sm_80", "sm_86", "sm_89", "sm_100", "sm_120"};
  unsigned usual = opt_fast_math_flags(3, false, false);
  LoopTile t;
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(graphs); i++)
    for (int64_t k = 0; k < ARRAY_LEN(chip); k++) {
      bool has = tile_of(&a, graphs[i].text, chip[k], usual | FAST_TF32, &t);
      if (has != (graphs[i].form >= 0)) FAIL("%s:\n%s", chip[k], graphs[i].text);
      if (!has) continue;
      LoopTileWarps w;
      const char *why;
      EXPECT_INT_EQ(t.a.form, graphs[i].form);
      EXPECT(loop_tile_warps(&t, &w, &why));
      EXPECT(w.bytes <= (k == 1 || k == 2 || k == 4 ? 101376 : 166912));
      EXPECT(!tile_of(&a, graphs[i].text, chip[k], usual, &t));  // f32 as it is
    }
  EXPECT(!tile_of(&a, graphs[0].text, "sm_75", usual | FAST_TF32, &t));
  arena_deinit(&a);
}

// A first layer becomes one over blocks of pixels where the units then multiply it: not f32 as it
// is.
TEST(first_layers_are_blocks_where_warps_multiply_them) {
  const char *text = "graph @\"g\"(%x: f32[2, 3, 16, 16]) {\n  %c = const f32[] {0.125}\n"
                     "  %s = const i64[4] {32, 3, 7, 7}\n  %w = expand(%c, %s)\n"
                     "  %y = conv(%x, %w) pads=[3, 3, 3, 3] strides=[2, 2]\n  return %y\n}\n";
  for (int rounded = 0; rounded < 2; rounded++) {
    Arena a;
    Diag d;
    Program *p;
    Compiled c = {0};
    int tiles = 0;
    LoopTile t;
    arena_init(&a);
    diag_init(&d);
    Asked asked = {.device = "sm_80",
                   .compiled = &c,
                   .fast = opt_fast_math_flags(3, false, false) | (rounded ? FAST_TF32 : 0),
                   .advised = true};
    if (compile_asked(&asked, text, "cuda", &a, &d, &p)) FAIL("%s", d.text);
    for (int64_t i = 0; i < c.nkernels; i++)
      tiles += loop_find_tile(c.kernel[i].lowered->kernel, &t);
    EXPECT_INT_EQ(tiles, rounded);
    EXPECT_INT_EQ(c.nkernels > 1, rounded);  // blocks of pixels are written out
    program_release(p);
    arena_deinit(&a);
  }
}

// The tile that takes least of shapes that were measured: large ones for many rows, small ones so
// that all multiprocessors have one.
TEST(warps_have_the_tile_that_takes_least) {
  static const struct {
    const char *chip;
    int rows, cols, depth, m, n;
  } row[] = {{"sm_80", 4096, 4096, 4096, 128, 256},
             {"sm_80", 128, 768, 3072, 64, 32},
             {"sm_80", 100352, 32, 96, 128, 32},
             {"sm_86", 4096, 4096, 4096, 128, 256}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    char text[256];
    LoopTile t;
    Arena a;
    arena_init(&a);
    (void)snprintf(text, sizeof text,
                   "graph @\"g\"(%%x: bf16[%d, %d], %%w: bf16[%d, %d]) {\n"
                   "  %%y = gemm(%%x, %%w) transB=true\n  return %%y\n}\n",
                   row[i].rows, row[i].depth, row[i].cols, row[i].depth);
    REQUIRE(tile_of(&a, text, row[i].chip, opt_fast_math_flags(3, false, false), &t));
    if (t.s.m != row[i].m || t.s.n != row[i].n) FAIL("%dx%d:\n%s", t.s.m, t.s.n, text);
    arena_deinit(&a);
  }
}

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++)
    ((float *)v->data)[i] = (float)((i * 7919) % 1013) / 997.0f - 0.5f;
}

TEST(tiles_of_warps_are_right) {
  setenv("TENON_BLOCK_THREADS", "256", 1);
  setenv("TENON_MMA", "warp", 1);
  for (int64_t i = 0; i < ARRAY_LEN(graphs); i++) {
    BothWays b;
    Asked asked = {.fast = opt_fast_math_flags(3, false, false) | FAST_TF32};
    double error = 0, largest = 0;
    if (!both_ways_run(&b, graphs[i].text, "ref", fill, compile_asked, &asked))
      FAIL("%s", b.diag.text);
    for (int64_t k = 0; b.got[0] && k < b.got[0]->n; k++) {
      double x = val_f64(b.want[0], k), y = val_f64(b.got[0], k);
      largest = fmax(largest, fabs(x));
      error = fmax(error, fabs(x - y));
    }
    both_ways_free(&b);
    if (!(error < 1e-2 * largest)) FAIL("error %g:\n%s", error / largest, graphs[i].text);
    EXPECT(graphs[i].form < 0 || error > 1e-6 * largest);  // rounded to tf32
  }
  unsetenv("TENON_MMA");
  unsetenv("TENON_BLOCK_THREADS");
}
