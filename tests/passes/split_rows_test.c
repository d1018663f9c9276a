// split_rows_test.c -- few long rows on thread blocks: which are cut into parts, and what is
// computed.
//
// Blocks run everywhere as plain loops (TENON_BLOCK_THREADS), so that results are compared with the
// interpreter's.
#include "compiled.h"
#include "passes/passes.h"
#include "targets/target.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static const struct {
  int kernels, whole;  // with the pass, and without it
  const char *text;
} graphs[] = {
    {2, 1, "graph @\"sum\"(%x: f32[6, 4, 132, 16]) {\n  %y = reduce_sum(%x)\n  return %y\n}\n"},
    {2, 1,
     "graph @\"most of a row\"(%x: f32[3, 20000]) {\n  %a = const i64[1] {1}\n"
     "  %y = reduce_max(%x, %a) keepdims=false\n  return %y\n}\n"},
    {2, 1,
     "graph @\"mean across\"(%x: f32[128, 2, 160]) {\n  %a = const i64[2] {0, 2}\n"
     "  %y = reduce_mean(%x, %a)\n  return %y\n}\n"},
    {2, 1,
     "graph @\"squares\"(%x: f32[20000]) {\n  %a = const i64[1] {0}\n"
     "  %y = reduce_sum_square(%x, %a)\n  return %y\n}\n"},
    {3, 1,
     "graph @\"a prime\"(%x: f32[20011]) {\n  %a = const i64[1] {0}\n"
     "  %y = reduce_sum(%x, %a)\n  return %y\n}\n"},
    {1, 1,
     "graph @\"many rows\"(%x: f32[100, 20000]) {\n  %a = const i64[1] {1}\n"
     "  %y = reduce_sum(%x, %a)\n  return %y\n}\n"},
    {1, 1, "graph @\"symbol\"(%x: f32[n, 4]) {\n  %y = reduce_sum(%x)\n  return %y\n}\n"},
    {4, 1,
     "graph @\"groups\"(%x: f32[1, 8, 64, 64]) {\n  %s = const f32[8] {1, 2, 3, 4, 5, 6, 7, 8}\n"
     "  %b = const f32[8] {1, 2, 3, 4, -5, 6, 7, 8}\n  %h = const f32[] {60}\n"
     "  %v = add(%x, %h)\n  %y = group_normalization(%v, %s, %b) num_groups=2\n  return %y\n}\n"},
    {4, 1,
     "graph @\"groups last\"(%x: f32[1, 64, 64, 8]) {\n"
     "  %s = const f32[8] {1, 2, 3, 4, 5, 6, 7, 8}\n"
     "  %b = const f32[8] {1, 2, 3, 4, -5, 6, 7, 8}\n"
     "  %y = group_normalization(%x, %s, %b) num_groups=2 channels_last=true\n  return %y\n}\n"},
    {4, 1,
     "graph @\"images\"(%x: f32[1, 3, 128, 130]) {\n  %s = const f32[3] {1, 2, 3}\n"
     "  %y = instance_normalization(%x, %s, %s)\n  return %y\n}\n"},
    {4, 1,
     "graph @\"layer\"(%x: f32[2, 160, 125], %s: f32[160, 125]) {\n"
     "  %y = layer_normalization(%x, %s, %s) axis=1\n  return %y\n}\n"},
    {5, 1, "graph @\"softmax\"(%x: f32[2, 20000]) {\n  %y = softmax(%x)\n  return %y\n}\n"},
    {5, 1,
     "graph @\"softmax across\"(%x: f32[20000, 3]) {\n"
     "  %y = log_softmax(%x) axis=0\n  return %y\n}\n"},
    {3, 1,
     "graph @\"scan\"(%x: f32[20000]) {\n  %a = const i64[] {0}\n"
     "  %y = cum_sum(%x, %a)\n  return %y\n}\n"},
    {3, 1,
     "graph @\"scan back\"(%x: f32[2, 17000, 2]) {\n  %a = const i64[] {1}\n"
     "  %y = cum_sum(%x, %a) exclusive=true reverse=true\n  return %y\n}\n"},
};

static int64_t kernels_of(const char *text, unsigned fast, bool invariant) {
  Arena a;
  Diag d;
  Program *p;
  Compiled c = {0};
  arena_init(&a);
  diag_init(&d);
  Asked asked = {
      .device = "sm_90a", .compiled = &c, .fast = fast, .advised = true, .invariant = invariant};
  if (compile_asked(&asked, text, "cuda", &a, &d, &p)) FAIL("%s", d.text);
  int64_t n = c.nkernels;
  program_release(p);
  arena_deinit(&a);
  return n;
}

TEST(long_rows_are_cut_into_parts) {
  unsigned usual = opt_fast_math_flags(3, false, false);
  for (int64_t i = 0; i < ARRAY_LEN(graphs); i++) {
    int64_t cut = kernels_of(graphs[i].text, usual, false);
    int64_t same = kernels_of(graphs[i].text, usual, true);
    int64_t exact = kernels_of(graphs[i].text, 0, false);
    if (cut != graphs[i].kernels || same != graphs[i].whole || exact != graphs[i].whole)
      FAIL("%d kernels, %d batch-invariant, %d exact:\n%s", (int)cut, (int)same, (int)exact,
           graphs[i].text);
  }
}

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++)
    ((float *)v->data)[i] = (float)((i * 7919) % 1013) / 997.0f - 0.5f;
}

TEST(long_rows_in_parts_are_right) {
  setenv("TENON_BLOCK_THREADS", "64", 1);
  for (int64_t k = 0; k < ARRAY_LEN(graphs); k++) {
    BothWays b;
    Asked asked = {.fast = opt_fast_math_flags(3, false, false), .advised = true};
    double error = 0, largest = 0;
    if (graphs[k].kernels == graphs[k].whole) continue;
    if (!both_ways_run(&b, graphs[k].text, "ref", fill, compile_asked, &asked))
      FAIL("%s", b.diag.text);
    for (int64_t i = 0; b.got[0] && i < b.got[0]->n; i++) {
      double x = val_f64(b.want[0], i), y = val_f64(b.got[0], i);
      largest = fmax(largest, fabs(x));
      error = fmax(error, fabs(x - y));
    }
    both_ways_free(&b);
    if (!(error <= 2e-5 * largest)) FAIL("error %g of %g:\n%s", error, largest, graphs[k].text);
  }
  unsetenv("TENON_BLOCK_THREADS");
}
