// element_test.c -- loops of single elements against the interpreter, where types meet.
#include "compiled.h"
#include "test.h"

// Negative bases and those near 1, exponents that f16 and f32 cannot hold: an odd one rounded is
// even, 2049 is 2048 in f16.
static void fill_powers(Value *v) {
  static const double base[] = {-1.25, 1.0009765625, -1, -0.75};
  static const int64_t exponent[] = {2147483647, 2049, 16777217, 33554433};
  for (int64_t i = 0; i < v->n; i++) {
    if (dtype_is_float(v->dtype))
      val_put_f64(v, i, base[i % 4]);
    else
      val_put_i64(v, i, exponent[i / 4 % 4]);
  }
}

TEST(exponents_keep_their_value) {
  static const char *const types[] = {"f16", "bf16", "f32"};
  for (int t = 0; t < ARRAY_LEN(types); t++) {
    char text[256];
    static BothWays b;
    memset(&b, 0, sizeof b);
    snprintf(text, sizeof text,
             "graph @\"g\"(%%x: %s[16], %%y: i32[16]) {\n  %%r = pow(%%x, %%y) : %s[16]\n"
             "  return %%r\n}\n",
             types[t], types[t]);
    if (!both_ways_run(&b, text, "ref", fill_powers, NULL, NULL)) {
      FAIL("%s: %s", types[t], b.diag.text);
    } else {
      int64_t wrong = 0;
      for (int64_t i = 0; i < 16; i++) {
        double want = val_f64(b.want[0], i), got = val_f64(b.got[0], i);
        double off = want - got;
        wrong += !(want == got || (off < 0 ? -off : off) <= 1e-3 * (want < 0 ? -want : want));
      }
      if (wrong) FAIL("%s: %lld of 16 powers are wrong", types[t], (long long)wrong);
    }
    both_ways_free(&b);
  }
}
