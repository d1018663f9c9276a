// math_exhaustive.c -- the program tenon-math: every f32 through every generated math function.
//
// tenon-math [--step=N] [FUNCTION...] prints the largest distance of each from the C library's
// result in double; status 1: one is more than 2 units in the last place off.  About two minutes a
// function; --step takes every Nth operand, by its bits, and odd numbers are best.  f64 and pow are
// sampled.
#include "math_check.h"
#include "test.h"

#include <math.h>

// The harness's reports, which codegen.c makes.
void test_failed(const char *file, int line, const char *fmt, ...) {
  fprintf(stderr, "%s:%d: %s\n", file, line, fmt);
}
bool test_int_eq(const char *file, int line, const char *text, int64_t got, int64_t want) {
  if (got != want) test_failed(file, line, text);
  return got == want;
}

static bool asked(int argc, char **argv, const char *name) {
  bool any = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], name)) return true;
    any |= argv[i][0] != '-';
  }
  return !any;
}

static int64_t step_of(int argc, char **argv) {
  int64_t n = 1;
  for (int i = 1; i < argc; i++)
    if (str_starts(str_of(argv[i]), "--step=")) str_to_i64(str_of(argv[i] + 7), &n);
  return MAX(n, 1);
}

static int bad;
static void show(const char *name, const char *type, MathWorst w) {
  printf("%-8s %s  %10lld values  %.3f ulp at %a, %a (got %a)\n", name, type, (long long)w.tried,
         w.ulps, w.x, w.y, w.got);
  fflush(stdout);
  bad |= !(w.ulps <= 2);
}

int main(int argc, char **argv) {
  Machine m;
  int64_t step = step_of(argc, argv);
  machine_host(&m);
  if (!codegen_there()) {
    fputs("tenon-codegen was not built\n", stderr);
    return 1;
  }
  for (int i = 0; i < math_nrows; i++) {
    if (!asked(argc, argv, math_rows[i].name)) continue;
    show(math_rows[i].name, "f64", math_check_f64(&math_rows[i], &m, 4 << 20, 1));
    show(math_rows[i].name, "f32",
         math_check_f32(&math_rows[i], &m, 0, (uint32_t)step, ((int64_t)1 << 32) / step));
  }
  if (asked(argc, argv, "pow")) {
    show("pow", "f64", math_check_pow(DT_F64, &m, 16 << 20, 1));
    show("pow", "f32", math_check_pow(DT_F32, &m, 64 << 20, 1));
  }
  return bad;
}
