// import_custom.c -- custom operators that TensorFlow Lite's own runtimes ship: MediaPipe's
// transposed convolution with a bias, and the options of others (import_audio.c,
// import_detection.c).
//
// What: a row per operator, found by its name.  Needs: the operator's options, which are not a
// table of the schema but the bytes of a C struct on the machine that wrote the file, or a
// FlexBuffer; each function checks their length.  Guarantees: as other rows (import.h).
#include "eval/window.h"
#include "frontends/common/flexbuffer.h"
#include "frontends/tflite/import.h"

#include <math.h>

// ---- options that are a FlexBuffer ----

static bool number_of(TflOp *op, const char *key, double *out) {
  FbVector v = fb_vector(&op->o->table, 5, 1);
  FlexMap m;
  if (op->g->status || v.fb->status) return false;
  if (!flex_map((Str){(const char *)v.fb->p + v.at, v.n}, &m)) {
    tfl_fail(op, "its options are no map of a FlexBuffer");
    return false;
  }
  return flex_number(&m, key, out);
}

int64_t tfl_flex_int(TflOp *op, const char *key, int64_t dflt) {
  double v;
  if (!number_of(op, key, &v)) return dflt;
  if (fabs(v) <= INT32_MAX) return (int64_t)v;
  tfl_fail(op, "its option %s is %g", key, v);
  return dflt;
}

double tfl_flex_float(TflOp *op, const char *key, double dflt) {
  double v;
  return number_of(op, key, &v) ? (float)v : dflt;
}

// ---- options that are a C struct ----

// Word i of the custom options, little-endian; `dflt` where they end before it.
static int64_t word(const FbVector *v, int64_t i, int64_t dflt) {
  if (4 * i + 4 > v->n) return dflt;
  uint32_t w = 0;
  for (int k = 3; k >= 0; k--) w = w << 8 | (uint32_t)fb_u8_at(v, 4 * i + k);
  return (int32_t)w;
}

// (x, weights [out, h, w, in], bias).  Options: padding (1: SAME, 2: VALID), stride along w, stride
// along h.
static void transpose_conv_bias(TflOp *op) {
  Graph *g = op->g;
  enum { SAME = 1, VALID = 2 };
  FbVector v = fb_vector(&op->o->table, 5, 1);
  Node *x = tfl_in(op, 0), *w = tfl_in(op, 1), *b = tfl_in(op, 2);
  int64_t padding = word(&v, 0, 0), strides[] = {word(&v, 2, 0), word(&v, 1, 0)}, out[2];
  if (tfl_rank(op, x) != 4 || tfl_rank(op, w) != 4 || tfl_rank(op, b) != 1) {
    tfl_fail(op, "operands must have rank 4, the bias 1");
    return;
  }
  if (padding != SAME && padding != VALID) tfl_fail(op, "padding %lld", (long long)padding);
  w = tb_transpose(g, w, 4, (const int64_t[]){3, 0, 1, 2});
  for (int i = 0; i < 2 && !g->status; i++) {
    int64_t in = tfl_size(op, x, i + 1), k = tfl_size(op, w, i + 2);
    if (strides[i] < 1 || strides[i] >= WINDOW_MAX || in >= WINDOW_MAX || k >= WINDOW_MAX)
      tfl_fail(op, "a stride of %lld, or too large", (long long)strides[i]);
    else
      out[i] = padding == SAME ? in * strides[i] : (in - 1) * strides[i] + k;
  }
  if (g->status) return;
  tfl_give(op, 0,
           tfl_transposed(op, &(TflTransposed){.x = x,
                                               .w = w,
                                               .bias = b,
                                               .spatial = 2,
                                               .strides = strides,
                                               .out = out,
                                               .same = padding == SAME}));
}

static const TflRow rows[] = {
    {TFL_CUSTOM, "Convolution2DTransposeBias", transpose_conv_bias, 1, 0},
};
TFL_TABLE(custom);
