// gemv_test.c -- a few rows by constant weights in thread blocks: which products are streamed, and
// what they compute.
//
// Groups run everywhere as plain loops (TENON_BLOCK_THREADS, TENON_MMA), so that packed weights and
// the order of sums are compared with the interpreter.
#include "schedules.h"
#include "compiled.h"
#include "passes/passes.h"
#include "targets/target.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

// Rows, contracted places, columns; bits of a weight.
static const struct {
  int rows, depth, cols, bits;
  bool streamed;
} products[] = {{1, 512, 64, 32, true},  {3, 256, 72, 32, true},   {8, 768, 64, 16, true},
                {2, 1280, 80, 16, true}, {1, 300, 64, 32, false},  {2, 1000, 64, 16, false},
                {9, 512, 64, 32, false}, {1, 128, 64, 32, false},  {4, 544, 64, 32, true},
                {1, 512, 66, 32, false}, {5, 1024, 136, 16, true}, {1, 2048, 64, 32, true}};

static const char *graph_of(Arena *a, int64_t i) {
  const char *t = products[i].bits == 16 ? "bf16" : "f32";
  return str_printf(a,
                    "graph @\"g\"(%%x: %s[%d, %d]) {\n  %%c = const %s[] {0.125}\n"
                    "  %%s = const i64[2] {%d, %d}\n  %%w = expand(%%c, %%s)\n"
                    "  %%y = mat_mul(%%x, %%w)\n  return %%y\n}\n",
                    t, products[i].rows, products[i].depth, t, products[i].depth, products[i].cols);
}

static bool is_streamed(const char *text) {
  Arena a;
  Diag d;
  Program *p;
  Compiled c = {0};
  bool found = false;
  arena_init(&a);
  diag_init(&d);
  Asked asked = {.device = "sm_90a", .compiled = &c};
  if (compile_asked(&asked, text, "cuda", &a, &d, &p)) FAIL("%s", d.text);
  for (int64_t i = 0; i < c.nkernels; i++) found |= schedule_fits(c.kernel[i].lowered, "gemv");
  program_release(p);
  arena_deinit(&a);
  return found;
}

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++) val_put_f64(v, i, (double)((i * 7919) % 1013) / 997.0 - 0.25);
}

// The largest error by the largest value.
static double error_of(const char *text) {
  BothWays b;
  double error = 0, largest = 0;
  Asked asked = {0};
  if (!both_ways_run(&b, text, "ref", fill, compile_asked, &asked)) FAIL("%s", b.diag.text);
  for (int64_t i = 0; b.got[0] && i < b.got[0]->n; i++) {
    double x = val_f64(b.want[0], i), y = val_f64(b.got[0], i);
    largest = fmax(largest, fabs(x));
    error = fmax(error, x == x && y == y ? fabs(x - y) : INFINITY);
  }
  both_ways_free(&b);
  return error / largest;
}

TEST(streams_are_chosen_by_shape) {
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(products); i++) {
    const char *text = graph_of(&a, i);
    if (is_streamed(text) != products[i].streamed) FAIL("%s", text);
  }
  arena_deinit(&a);
}

TEST(streams_are_right_for_groups_of_any_size) {
  Arena a;
  static const char *const groups[] = {"32", "64", "256"};
  arena_init(&a);
  setenv("TENON_MMA", "1", 1);
  for (int64_t k = 0; k < ARRAY_LEN(groups); k++) {
    setenv("TENON_BLOCK_THREADS", groups[k], 1);
    for (int64_t i = 0; i < ARRAY_LEN(products); i++) {
      const char *text = graph_of(&a, i);
      double error = error_of(text);
      if (!(error < (products[i].bits == 16 ? 1e-2 : 1e-5)))
        FAIL("groups of %s, error %g:\n%s", groups[k], error, text);
    }
  }
  unsetenv("TENON_BLOCK_THREADS");
  unsetenv("TENON_MMA");
  arena_deinit(&a);
}
