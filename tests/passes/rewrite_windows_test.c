// rewrite_windows_test.c -- transposed convolutions and convolutions to a few channels on tensor
// cores: which kernels they become, and what these compute.
//
// Tiles run everywhere as plain loops (TENON_MMA), so that results are compared with the
// interpreter's.
#include "compiled.h"
#include "loop/tile.h"
#include "passes/passes.h"
#include "targets/target.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

// Weights that differ: sin(0), sin(1), ...
#define WEIGHTS(count, dims)  WEIGHTS_(count, "4", dims)
#define WEIGHTS5(count, dims) WEIGHTS_(count, "5", dims)
#define WEIGHTS_(count, rank, dims)                                                                \
  "  %a = const i64[] {0}\n  %n = const i64[] {" count                                             \
  "}\n  %d = const i64[] {1}\n  %i = range(%a, %n, %d)\n"                                          \
  "  %f = cast(%i) to=f32\n  %v = sin(%f)\n  %s = const i64[" rank "] {" dims                      \
  "}\n  %w = reshape(%v, %s)\n"

static const struct {
  int tiles, form, kernels;
  DType precision;
  const char *text;
} graphs[] = {
    // one input pixel a block
    {1, TILE_MATRIX, 1, 0,
     "graph @\"blocks\"(%x: f32[2, 6, 5, 32]) {\n" WEIGHTS(
         "1024", "32, 8, 2, 2") "  %t = transpose(%x) perm=[0, 3, 1, 2]\n  %y = conv_transpose(%t, "
                                "%w) strides=[2, 2]\n"
                                "  %r = relu(%y)\n  return %r\n}\n"},
    // taps of blocks; pads are cut off
    {1, TILE_WINDOW, 2, 0,
     "graph @\"taps\"(%x: f32[2, 6, 5, 32]) {\n" WEIGHTS(
         "4096", "32, 8, 4, 4") "  %b = const f32[8] {1, 2, 3, 4, 5, 6, 7, 8}\n  %t = "
                                "transpose(%x) perm=[0, 3, 1, 2]\n"
                                "  %y = conv_transpose(%t, %w, %b) strides=[2, 2] pads=[1, 1, 1, "
                                "1]\n  return %y\n}\n"},
    // other strides along the axes, an output larger than the windows reach
    {1, TILE_WINDOW, 2, 0,
     "graph @\"unequal\"(%x: f32[1, 9, 8, 32]) {\n" WEIGHTS(
         "3072",
         "32, 8, 4, 3") "  %b = const f32[8] {1, 2, 3, 4, 5, 6, 7, 8}\n  %t = transpose(%x) "
                        "perm=[0, 3, 1, 2]\n"
                        "  %y = conv_transpose(%t, %w, %b) strides=[3, 2] pads=[2, 1, 0, 0] "
                        "output_padding=[2, 1]\n  return %y\n}\n"},
    // without strides: the same convolution backwards
    {1, TILE_WINDOW, 1, 0,
     "graph @\"backwards\"(%x: f32[1, 9, 8, 32]) {\n" WEIGHTS(
         "2304", "32, 8, 3, 3") "  %t = transpose(%x) perm=[0, 3, 1, 2]\n"
                                "  %y = conv_transpose(%t, %w) pads=[1, 1, 1, 1]\n"
                                "  %r = transpose(%y) perm=[0, 2, 3, 1]\n  return %r\n}\n"},
    // mostly zeros in a block: as it is
    {0, 0, 1, 0,
     "graph @\"apart\"(%x: f32[1, 9, 8, 32]) {\n" WEIGHTS(
         "256", "32, 8, 1, 1") "  %t = transpose(%x) perm=[0, 3, 1, 2]\n"
                               "  %y = conv_transpose(%t, %w) strides=[3, 3]\n  return %y\n}\n"},
    // taps along the first of three axes are channels
    {1, TILE_WINDOW, 2, 0,
     "graph @\"planes\"(%x: f32[1, 8, 5, 6, 7]) {\n" WEIGHTS5(
         "3456", "16, 8, 3, 3, 3") "  %y = conv(%x, %w) strides=[2, 1, 1] pads=[1, 1, 0, 1, 1, 2]\n"
                                   "  %r = transpose(%y) perm=[0, 2, 3, 4, 1]\n  return %r\n}\n"},
    // a product, and shifted sums
    {1, TILE_MATRIX, 3, DT_BF16,
     "graph @\"head\"(%x: f32[1, 96, 90, 24]) {\n" WEIGHTS(
         "432",
         "2, 24, 3, 3") "  %b = const f32[2] {1, 2}\n  %t = transpose(%x) perm=[0, 3, 1, 2]\n"
                        "  %y = conv(%t, %w, %b) pads=[1, 0, 1, 2] dilations=[1, 2]\n  return "
                        "%y\n}\n"},
    // a small image has a window
    {1, TILE_WINDOW, 2, DT_BF16,
     "graph @\"small head\"(%x: f32[1, 9, 9, 24]) {\n" WEIGHTS(
         "432", "2, 24, 3, 3") "  %t = transpose(%x) perm=[0, 3, 1, 2]\n"
                               "  %y = conv(%t, %w) pads=[1, 1, 1, 1]\n  return %y\n}\n"},
};

TEST(convolutions_become_tiles_in_other_forms) {
  for (int64_t i = 0; i < ARRAY_LEN(graphs); i++) {
    Arena a;
    Diag d;
    Program *p;
    Compiled c = {0};
    LoopTile t, found = {0};
    int tiles = 0;
    arena_init(&a);
    diag_init(&d);
    Asked asked = {.device = "sm_90a",
                   .compiled = &c,
                   .precision = (uint8_t)graphs[i].precision,
                   .fast = opt_fast_math_flags(3, false, false),
                   .advised = true};
    if (compile_asked(&asked, graphs[i].text, "cuda", &a, &d, &p)) FAIL("%s", d.text);
    for (int64_t k = 0; k < c.nkernels; k++)
      if (loop_find_tile(c.kernel[k].lowered->kernel, &t)) {
        tiles++;
        found = t;
      }
    if (tiles != graphs[i].tiles || (tiles && found.a.form != graphs[i].form) ||
        c.nkernels != graphs[i].kernels)
      FAIL("%d tiles of form %d in %d kernels:\n%s", tiles, found.a.form, (int)c.nkernels,
           graphs[i].text);
    program_release(p);
    arena_deinit(&a);
  }
}

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++)
    ((float *)v->data)[i] = (float)((i * 7919) % 1013) / 997.0f - 0.5f;
}

TEST(convolutions_in_other_forms_are_right) {
  setenv("TENON_BLOCK_THREADS", "256", 1);
  setenv("TENON_MMA", "1", 1);
  for (int64_t k = 0; k < ARRAY_LEN(graphs); k++) {
    BothWays b;
    Asked asked = {.fast = opt_fast_math_flags(3, false, false),
                   .advised = true,
                   .precision = (uint8_t)graphs[k].precision};
    double most = asked.precision ? 1e-2 : 2e-5;
    double error = 0, largest = 0;
    if (!both_ways_run(&b, graphs[k].text, "ref", fill, compile_asked, &asked))
      FAIL("%s", b.diag.text);
    for (int64_t i = 0; b.got[0] && i < b.got[0]->n; i++) {
      double x = val_f64(b.want[0], i), y = val_f64(b.got[0], i);
      largest = fmax(largest, fabs(x));
      error = fmax(error, fabs(x - y));
    }
    both_ways_free(&b);
    if (!(error <= most * largest)) FAIL("error %g of %g:\n%s", error, largest, graphs[k].text);
  }
  unsetenv("TENON_MMA");
  unsetenv("TENON_BLOCK_THREADS");
}
