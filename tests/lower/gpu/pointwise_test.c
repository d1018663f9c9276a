// pointwise_test.c -- element-wise kernels on thread blocks: images that become channels last.
#include "compiled.h"
#include "passes/passes.h"
#include "schedules.h"
#include "test.h"

#include <stdlib.h>

static const struct {
  const char *schedule, *text;
} graphs[] = {
    {"pointwise_block vector=4 transpose=true",
     "graph @\"image\"(%x: f32[2, 20, 43, 45]) {\n  %t = transpose(%x) perm=[0, 2, 3, 1]\n"
     "  %r = relu(%t)\n  return %r\n}\n"},
    {"pointwise_block vector=4 transpose=true",  // channels are filled up
     "graph @\"filled\"(%x: f32[1, 17, 43, 95]) {\n  %t = transpose(%x) perm=[0, 2, 3, 1]\n"
     "  %n = const i64[8] {0, 0, 0, 0, 0, 0, 0, 3}\n  %p = pad(%t, %n)\n  %r = neg(%p)\n"
     "  return %r\n}\n"},
    {"pointwise_block vector=4 transpose=true",  // two images
     "graph @\"joined\"(%x: f32[1, 12, 43, 75], %y: f32[1, 12, 43, 75]) {\n"
     "  %c = concat(%x, %y) axis=1\n  %t = transpose(%c) perm=[0, 2, 3, 1]\n"
     "  %r = relu(%t)\n  return %r\n}\n"},
    {"pointwise_block vector=4",  // runs of a part do not divide a block's threads: one part
     "graph @\"halves\"(%x: f32[1000, 48], %y: f32[1000, 48]) {\n"
     "  %c = concat(%x, %y) axis=1\n  %r = relu(%c)\n  return %r\n}\n"},
};

TEST(images_become_channels_last_by_pixels) {
  for (int64_t i = 0; i < ARRAY_LEN(graphs); i++) {
    Arena a;
    Diag d;
    Program *p;
    Compiled c = {0};
    arena_init(&a);
    diag_init(&d);
    Asked asked = {.device = "sm_90a",
                   .compiled = &c,
                   .fast = opt_fast_math_flags(3, false, false),
                   .advised = true};
    if (compile_asked(&asked, graphs[i].text, "cuda", &a, &d, &p)) FAIL("%s", d.text);
    if (c.nkernels != 1 || !schedule_fits(c.kernel[0].lowered, graphs[i].schedule))
      FAIL("%s:\n%s", schedule_text(&a, c.kernel[0].lowered->schedule), graphs[i].text);
    program_release(p);
    arena_deinit(&a);
  }
}

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++) ((float *)v->data)[i] = (float)((i * 7919) % 1013) - 500;
}

TEST(images_channels_last_are_right) {
  setenv("TENON_BLOCK_THREADS", "256", 1);
  for (int64_t k = 0; k < ARRAY_LEN(graphs); k++) {
    BothWays b;
    Asked asked = {.fast = opt_fast_math_flags(3, false, false), .advised = true};
    if (!both_ways_run(&b, graphs[k].text, "ref", fill, compile_asked, &asked))
      FAIL("%s", b.diag.text);
    int64_t other = 0;
    for (int64_t i = 0; b.got[0] && i < b.got[0]->n; i++)
      other += val_f64(b.want[0], i) != val_f64(b.got[0], i);
    both_ways_free(&b);
    if (other) FAIL("%lld elements differ:\n%s", (long long)other, graphs[k].text);
  }
  unsetenv("TENON_BLOCK_THREADS");
}
