// gemm_mma_f32_test.c -- f32 products and convolutions in tiles: which are, how they multiply, and
// what they compute.
//
// Tiles run everywhere as plain loops (TENON_MMA), so that schedules, packed weights and epilogues
// are compared with the interpreter.
#include "compiled.h"
#include "loop/tile.h"
#include "passes/passes.h"
#include "targets/target.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static const struct {
  int form;  // -1: no tile
  const char *text;
} graphs[] = {
    {TILE_MATRIX, "graph @\"rows\"(%x: f32[70, 36], %w: f32[40, 36], %b: f32[40]) {\n"
                  "  %y = gemm(%x, %w, %b) transB=true\n  return %y\n}\n"},
    {TILE_MATRIX, "graph @\"batch of one\"(%x: f32[1, 70, 36]) {\n  %c = const f32[] {0.125}\n"
                  "  %s = const i64[2] {36, 20}\n  %w = expand(%c, %s)\n"
                  "  %y = mat_mul(%x, %w)\n  %r = relu(%y)\n  return %r\n}\n"},
    {TILE_VALUE, "graph @\"odd rows\"(%x: f32[70, 37]) {\n  %c = const f32[] {0.125}\n"
                 "  %s = const i64[2] {37, 20}\n  %w = expand(%c, %s)\n"
                 "  %y = mat_mul(%x, %w)\n  return %y\n}\n"},
    {-1, "graph @\"odd rows of both\"(%x: f32[70, 37], %w: f32[40, 37]) {\n"
         "  %y = gemm(%x, %w) transB=true\n  return %y\n}\n"},
    {TILE_WINDOW, "graph @\"image\"(%x: f32[2, 9, 8, 12]) {\n  %c = const f32[] {0.125}\n"
                  "  %s = const i64[4] {24, 12, 3, 3}\n  %w = expand(%c, %s)\n"
                  "  %t = transpose(%x) perm=[0, 3, 1, 2]\n"
                  "  %y = conv(%t, %w) pads=[1, 1, 1, 1] strides=[2, 2]\n"
                  "  %r = transpose(%y) perm=[0, 2, 3, 1]\n  return %r\n}\n"},
    {TILE_WINDOW, "graph @\"lines\"(%x: f32[2, 9, 10, 12]) {\n  %c = const f32[] {0.125}\n"
                  "  %s = const i64[4] {24, 12, 3, 3}\n  %w = expand(%c, %s)\n"
                  "  %t = transpose(%x) perm=[0, 3, 1, 2]\n"
                  "  %y = conv(%t, %w) pads=[1, 0, 1, 0]\n"
                  "  %r = transpose(%y) perm=[0, 2, 3, 1]\n  return %r\n}\n"},
    // along the first axis a window of its own for each place
    {TILE_WINDOW, "graph @\"planes\"(%x: f32[2, 3, 9, 10, 12]) {\n  %c = const f32[] {0.125}\n"
                  "  %s = const i64[5] {24, 12, 1, 3, 3}\n  %w = expand(%c, %s)\n"
                  "  %t = transpose(%x) perm=[0, 4, 1, 2, 3]\n"
                  "  %y = conv(%t, %w) pads=[0, 1, 0, 0, 1, 0]\n"
                  "  %r = transpose(%y) perm=[0, 2, 3, 4, 1]\n  return %r\n}\n"},
    {TILE_WINDOW, "graph @\"groups\"(%x: f32[2, 9, 8, 48]) {\n  %a = const i64[] {0}\n"
                  "  %n = const i64[] {10368}\n  %d = const i64[] {1}\n  %i = range(%a, %n, %d)\n"
                  "  %f = cast(%i) to=f32\n  %v = sin(%f)\n  %s = const i64[4] {72, 16, 3, 3}\n"
                  "  %w = reshape(%v, %s)\n  %t = transpose(%x) perm=[0, 3, 1, 2]\n"
                  "  %y = conv(%t, %w) pads=[1, 1, 1, 1] group=3\n"
                  "  %r = transpose(%y) perm=[0, 2, 3, 1]\n  return %r\n}\n"},
    {TILE_MATRIX, "graph @\"groups of rows\"(%x: f32[2, 9, 8, 48]) {\n  %a = const i64[] {0}\n"
                  "  %n = const i64[] {960}\n  %d = const i64[] {1}\n  %i = range(%a, %n, %d)\n"
                  "  %f = cast(%i) to=f32\n  %v = sin(%f)\n  %s = const i64[4] {60, 16, 1, 1}\n"
                  "  %w = reshape(%v, %s)\n  %t = transpose(%x) perm=[0, 3, 1, 2]\n"
                  "  %y = conv(%t, %w) group=3\n"
                  "  %r = transpose(%y) perm=[0, 2, 3, 1]\n  return %r\n}\n"},
    {TILE_VALUE, "graph @\"three channels\"(%x: f32[2, 9, 8, 3]) {\n  %c = const f32[] {0.125}\n"
                 "  %s = const i64[4] {24, 3, 3, 3}\n  %w = expand(%c, %s)\n"
                 "  %t = transpose(%x) perm=[0, 3, 1, 2]\n"
                 "  %y = conv(%t, %w) pads=[1, 1, 1, 1]\n"
                 "  %r = transpose(%y) perm=[0, 2, 3, 1]\n  return %r\n}\n"},
};

// What is read of the tile is its own.
static bool tile_of(const char *text, unsigned fast, LoopTile *out) {
  Arena a;
  arena_init(&a);
  bool found = first_tile((Asked){.device = "sm_90a", .fast = fast}, text, &a, out);
  arena_deinit(&a);
  return found;
}

TEST(f32_in_tiles_multiplies_as_it_is_told) {
  unsigned usual = opt_fast_math_flags(3, false, false);
  for (int64_t i = 0; i < ARRAY_LEN(graphs); i++) {
    LoopTile t;
    const char *text = graphs[i].text;
    bool has = tile_of(text, usual, &t);
    if (has != (graphs[i].form >= 0)) FAIL("%s", text);
    if (!has) continue;
    EXPECT_INT_EQ(t.a.form, graphs[i].form);
    EXPECT_INT_EQ(t.kind, MMA_F32);
    REQUIRE(tile_of(text, usual | FAST_TF32, &t));
    EXPECT_INT_EQ(t.kind, MMA_TF32);
    EXPECT(!tile_of(text, 0, &t));  // the order of sums is kept
  }
}

// The taps of a line are one where none is outside the image and it takes fewer blocks of the
// contracted axis.
TEST(f32_in_tiles_joins_the_taps_of_lines) {
  static const struct {
    const char *pads;
    int channels, joined;
  } conv[] = {{"1, 0, 1, 0", 12, 36}, {"1, 1, 1, 1", 12, 12}, {"1, 0, 1, 0", 32, 32}};
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(conv); i++) {
    LoopTile t;
    REQUIRE(tile_of(str_printf(&a,
                               "graph @\"g\"(%%x: f32[2, 9, 10, %d]) {\n"
                               "  %%c = const f32[] {0.125}\n  %%s = const i64[4] {24, %d, 3, 3}\n"
                               "  %%w = expand(%%c, %%s)\n"
                               "  %%t = transpose(%%x) perm=[0, 3, 1, 2]\n"
                               "  %%y = conv(%%t, %%w) pads=[%s] strides=[1, 2]\n"
                               "  %%r = transpose(%%y) perm=[0, 2, 3, 1]\n  return %%r\n}\n",
                               conv[i].channels, conv[i].channels, conv[i].pads),
                    opt_fast_math_flags(3, false, false), &t));
    EXPECT_INT_EQ(t.a.form, TILE_WINDOW);
    EXPECT_INT_EQ(t.a.window.channels, conv[i].joined);
    EXPECT_INT_EQ(t.a.window.pixel, conv[i].channels);
    EXPECT_INT_EQ(t.a.window.line, 10 * conv[i].channels);
    EXPECT_INT_EQ(t.a.window.taps[1], conv[i].joined == conv[i].channels ? 3 : 1);
  }
  arena_deinit(&a);
}

// Of few columns and many rows a tile has no more columns than there are, by 32.
TEST(narrow_products_have_narrow_tiles) {
  static const struct { int cols, n; } narrow[] = {{16, 32}, {32, 32}, {48, 64}};
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(narrow); i++) {
    LoopTile t;
    REQUIRE(tile_of(str_printf(&a,
                               "graph @\"g\"(%%x: f32[100352, 96]) {\n"
                               "  %%c = const f32[] {0.125}\n  %%s = const i64[2] {96, %d}\n"
                               "  %%w = expand(%%c, %%s)\n  %%y = mat_mul(%%x, %%w)\n"
                               "  return %%y\n}\n",
                               narrow[i].cols),
                    opt_fast_math_flags(3, false, false) | FAST_TF32, &t));
    EXPECT_INT_EQ(t.s.m, 128);
    EXPECT_INT_EQ(t.s.n, narrow[i].n);
  }
  arena_deinit(&a);
}

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++)
    ((float *)v->data)[i] = (float)((i * 7919) % 1013) / 997.0f - 0.5f;
}

// The largest error by the largest value.
static double error_of(const char *text, unsigned fast) {
  BothWays b;
  Asked asked = {.fast = fast};
  double error = 0, largest = 0;
  if (!both_ways_run(&b, text, "ref", fill, compile_asked, &asked)) FAIL("%s", b.diag.text);
  for (int64_t i = 0; b.got[0] && i < b.got[0]->n; i++) {
    double x = val_f64(b.want[0], i), y = val_f64(b.got[0], i);
    largest = fmax(largest, fabs(x));
    error = fmax(error, fabs(x - y));
  }
  both_ways_free(&b);
  return error / largest;
}

TEST(f32_in_tiles_is_right) {
  unsigned usual = opt_fast_math_flags(3, false, false);
  setenv("TENON_BLOCK_THREADS", "256", 1);
  setenv("TENON_MMA", "1", 1);
  for (int64_t i = 0; i < ARRAY_LEN(graphs); i++) {
    double plain = error_of(graphs[i].text, usual);
    double rounded = error_of(graphs[i].text, usual | FAST_TF32);
    if (!(plain < 1e-5)) FAIL("error %g:\n%s", plain, graphs[i].text);
    if (!(rounded < 1e-2)) FAIL("error %g in tf32:\n%s", rounded, graphs[i].text);
    EXPECT(graphs[i].form < 0 || rounded > plain);
  }
  unsetenv("TENON_MMA");
  unsetenv("TENON_BLOCK_THREADS");
}
