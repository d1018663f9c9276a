// decided.c -- tests whose stored outputs contradict the specification's text: the outputs that it
// asks for.
//
// Each row has the sentence that decides.  ONNX Runtime gives these outputs too.
#include "conform/conform.h"

#include <math.h>

typedef struct Decided {
  const char *test;
  int n;
  double value[16];
  const char *sentence;
} Decided;

#define LENGTH_RESIZED                                                                             \
  "Resize: \"length_resized as the length of the resized tensor in axis x\", which is a whole "    \
  "number; the stored outputs divide by the width before it was rounded down"

static const Decided decided[] = {
    {"test_resize_downsample_scales_linear_align_corners", 2, {1, 4}, LENGTH_RESIZED},
    {"test_resize_downsample_scales_cubic_align_corners",
     9,
     {1, 2.5, 4, 7, 8.5, 10, 13, 14.5, 16},
     LENGTH_RESIZED},
};

const char *conform_decided(const Case *c, const Value *got, bool *out_right) {
  for (int64_t i = 0; i < ARRAY_LEN(decided); i++) {
    const Decided *row = &decided[i];
    if (strcmp(row->test, c->name)) continue;
    *out_right = got && got->kind == VK_TENSOR && got->dtype == DT_F32 && got->n == row->n;
    for (int64_t k = 0; *out_right && k < row->n; k++)
      *out_right = fabs(val_f64(got, k) - row->value[k]) <= 1e-5 * (1 + fabs(row->value[k]));
    return row->sentence;
  }
  return NULL;
}
