// gemm_test.c -- prologues of contractions over images of dynamic size.
#include "compiled.h"
#include "test.h"

#include <math.h>

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++) ((float *)v->data)[i] = (float)((i * 37) % 23) / 8 - 1;
}

// A squeeze-and-excite block: a scale by image and channel in front of a 1x1 convolution, over
// images whose sizes are quotients of dynamic ones.
static const char *scaled_text(Arena *a, const char *pool) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[n, h, w, 8]) {\n"
                    "  %%a = const i64[2] {1, 2}\n"
                    "  %%k = const f32[1, 1, 8, 12] {");
  for (int i = 0; i < 96; i++) strbuf_printf(&b, "%s%g", i ? ", " : "", (i % 7 - 3) * 0.25);
  strbuf_printf(&b,
                "}\n%s  %%r = reduce_mean(%%p, %%a)\n  %%s = sigmoid(%%r)\n"
                "  %%m = mul(%%p, %%s)\n  %%y = conv(%%m, %%k) channels_last=true\n"
                "  %%z = relu(%%y)\n  return %%z\n}\n",
                pool);
  return strbuf_text(&b);
}

TEST(gemm_with_a_scale_by_image_is_one_kernel) {
  static const char *const pools[] = {
      "  %p = max_pool(%x) channels_last=true kernel_shape=[3, 3] pads=[1, 1, 1, 1] "
      "strides=[2, 2]\n",
      "  %q = max_pool(%x) channels_last=true kernel_shape=[3, 3] pads=[1, 1, 1, 1] "
      "strides=[4, 2]\n  %p = relu(%q)\n",
  };
  for (int i = 0; i < ARRAY_LEN(pools); i++) {
    BothWays b;
    Compiled c = {0};
    Asked asked = {.compiled = &c, .fast = fast_flags(), .advised = true};
    Arena a;
    arena_init(&a);
    const char *text = scaled_text(&a, pools[i]);
    bool ok = both_ways_run(&b, text, "ref", fill, compile_asked, &asked);
    if (!ok) FAIL("%s\n%s", b.diag.text, text);
    if (c.ndeclined) FAIL("%s\n%s", first_declined(&c, ""), text);
    EXPECT_INT_EQ(c.nuses, 3);
    for (int64_t k = 0; ok && k < b.want[0]->n; k++)
      if (fabs(val_f64(b.want[0], k) - val_f64(b.got[0], k)) > 1e-4) {
        FAIL("element %d is %g, not %g", (int)k, val_f64(b.got[0], k), val_f64(b.want[0], k));
        break;
      }
    both_ways_free(&b);
    arena_deinit(&a);
  }
}
