// gather_test.c -- rows of matrices in ggml's block types: every bit, of loops and of machine code.
#include "compiled.h"
#include "eval/blocks.h"
#include "test.h"

#include <math.h>

static uint64_t rng;

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++) {
    rng = hash_u64(rng + 0x9e3779b97f4a7c15ull);
    val_put_i64(v, i, (int64_t)(rng % (v->dtype == DT_U8 ? 256u : 7u)));
  }
}

static void check(int code, const char *target) {
  static BothWays w;
  char text[400];
  const GgmlType *t = &ggml_type[code];
  Str name = attr_choice_word(BLOCK_TYPES, block_choice(code));
  snprintf(text, sizeof text,
           "graph @\"g\"(%%w: u8[7, %d], %%i: i64[m]) {\n"
           "  %%y = gather_blocks(%%w, %%i) type=%.*s k=%d\n  return %%y\n}\n",
           2 * t->bytes, STR_ARG(name), 2 * t->block);
  if (!both_ways_run(&w, text, target, fill, NULL, NULL)) {
    FAIL("%s\n%s", w.diag.text, text);
  } else {
    const float *x = w.want[0]->data, *y = w.got[0]->data;
    for (int64_t i = 0; i < w.want[0]->n; i++)
      if (!(x[i] == y[i] || (isnan(x[i]) && isnan(y[i])) || fabsf(x[i]) < 1e-37f)) {
        FAIL("%s: element %d is %g instead of %g\n%s", target, (int)i, (double)y[i], (double)x[i],
             text);
        break;
      }
  }
  both_ways_free(&w);
}

TEST(gathered_rows_of_blocks) {
  for (int code = 1; code < GGML_NTYPES; code++) {
    if (block_choice(code) < 0) continue;
    check(code, "ref");
    if (target_available(target_find("cpu"))) check(code, "cpu");
  }
}
