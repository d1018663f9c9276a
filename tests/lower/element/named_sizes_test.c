// named_sizes_test.c -- windows over dynamic lengths have kernels: sizes that are quotients of
// others become dims, and results are the interpreter's.
#include "codegen.h"
#include "compiled.h"
#include "test.h"

#define CONV(pads, stride, taps)                                                                   \
  "graph @\"g\"(%x: f32[b, n], %w: f32[3, 1, " #taps "]) {\n"                                      \
  "  %s = const i64[3] {0, 1, -1}\n  %v = reshape(%x, %s)\n"                                       \
  "  %y = conv(%v, %w) pads=[" pads "] strides=[" #stride "]\n  return %y\n}\n"

static const char *const text[] = {
    CONV("1, 2", 2, 3),
    CONV("7, 13", 6, 20),
    CONV("0, 0", 3, 2),
    // what follows such a size: a transpose, a sum over windows, a matrix product
    "graph @\"g\"(%x: f32[b, 1, n], %w: f32[4, 1, 3], %m: f32[4, 5]) {\n"
    "  %c = conv(%x, %w) pads=[1, 1] strides=[2]\n  %t = transpose(%c) perm=[0, 2, 1]\n"
    "  %p = mat_mul(%t, %m)\n  %y = relu(%p)\n  return %y\n}\n",
};

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++) val_put_f64(v, i, (double)(i % 7) - 2.5);
}

// No step of the main function is left to the reference evaluation of a contraction.
static void expect_kernels(const Program *p, const char *what) {
  const ProgFunction *f = p->function[0];
  for (int32_t i = 0; i < f->nsteps; i++)
    if (f->step[i].kind == STEP_HOST && f->step[i].op && !strcmp(f->step[i].op, "conv"))
      FAIL("the host computes a convolution of\n%s", what);
}

static void check_on(const char *target) {
  for (int64_t i = 0; i < ARRAY_LEN(text); i++) {
    static BothWays b;
    if (!both_ways_run(&b, text[i], target, fill, NULL, NULL)) {
      FAIL("%s\n%s", b.diag.text, text[i]);
    } else {
      expect_kernels(b.program, text[i]);
      for (int64_t k = 0; k < b.want[0]->n; k++)
        if (!test_near(__FILE__, __LINE__, text[i], val_f64(b.got[0], k), val_f64(b.want[0], k),
                       1e-5))
          break;
    }
    both_ways_free(&b);
  }
}

TEST(named_sizes_loops) { check_on("ref"); }
TEST(named_sizes_code) {
  if (!codegen_there()) SKIP("built without LLVM");
  check_on("cpu");
}
