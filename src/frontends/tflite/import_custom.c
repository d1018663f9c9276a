// import_custom.c -- custom operators that TensorFlow Lite's own runtimes ship: MediaPipe's
// transposed convolution with a bias, its pooling with indices and the reverse, and the options of
// others (import_audio.c, import_detection.c).
//
// What: a row per operator, found by its name.  Needs: the operator's options, which are not a
// table of the schema but the bytes of a C struct on the machine that wrote the file, or a
// FlexBuffer; each function checks their length.  Guarantees: as other rows (import.h).
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/scalar.h"
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

// ---- pooling with indices: windows that do not overlap ----
//
// An index is dx * window_h + dy, the position in its window: windows are numbered by columns, and
// the first of equal elements counts.  Files declare the tensor of indices as f32, and XNNPACK
// stores the integers' bits there.

typedef struct PoolWindow {
  int64_t size[2];  // h, w; strides are equal to it
  bool same;        // padding SAME, else VALID
} PoolWindow;

// Options: padding (1: SAME, 2: VALID), stride_w, stride_h, window_w, window_h.
static bool pool_window(TflOp *op, const Node *x, PoolWindow *out) {
  enum { SAME = 1, VALID = 2 };
  FbVector v = fb_vector(&op->o->table, 5, 1);
  int64_t padding = word(&v, 0, 0);
  *out = (PoolWindow){.size = {word(&v, 4, 0), word(&v, 3, 0)}, .same = padding == SAME};
  if (tfl_rank(op, x) != 4) tfl_fail(op, "operands must have rank 4");
  if (padding != SAME && padding != VALID) tfl_fail(op, "padding %lld", (long long)padding);
  for (int i = 0; i < 2 && !op->g->status; i++) {
    int64_t stride = word(&v, 2 - i, 0);
    if (out->size[i] < 1 || out->size[i] >= WINDOW_MAX)
      tfl_fail(op, "a window of %lld", (long long)out->size[i]);
    else if (stride != out->size[i])
      tfl_fail(op, "a stride of %lld, where windows of %lld must not overlap", (long long)stride,
               (long long)out->size[i]);
  }
  return !op->g->status;
}

// [n, h, w, c] cut or, with SAME, extended by its border to whole windows: out[0] by out[1].
static Node *whole_windows(TflOp *op, Node *x, const PoolWindow *p, int64_t out[2]) {
  Graph *g = op->g;
  int64_t pads[8] = {0};
  for (int i = 0; i < 2 && !g->status; i++) {
    int64_t in = tfl_size(op, x, i + 1), k = p->size[i];
    if (in >= WINDOW_MAX) tfl_fail(op, "too large");
    if (g->status) break;
    out[i] = p->same ? (in + k - 1) / k : in / k;
    int64_t more = out[i] * k - in;
    if (p->same) pads[i + 1] = more / 2, pads[i + 5] = more - more / 2;
    if (more < 0) x = tb_slice(g, x, i + 1, 0, out[i] * k);
  }
  if (g->status || !p->same) return x;
  return NA(g, pad, (&(pad_attrs){.mode = PAD_EDGE}), x, node_i64s(g, 8, pads));
}

// The largest element of each window, and its index.
static void pool_with_indices(TflOp *op) {
  Graph *g = op->g;
  if (!tfl_need(op, 1, 2)) return;
  Node *x = tfl_in(op, 0);
  PoolWindow p;
  int64_t out[2], last = 4;
  if (!pool_window(op, x, &p)) return;
  int64_t channels = tfl_size(op, x, 3);
  x = whole_windows(op, x, &p, out);
  if (g->status) return;
  x = tb_reshape(g, x, 6, (int64_t[]){-1, out[0], p.size[0], out[1], p.size[1], channels});
  x = tb_transpose(g, x, 6, (const int64_t[]){0, 1, 3, 5, 4, 2});
  x = tb_reshape(g, x, 5, (int64_t[]){-1, out[0], out[1], channels, p.size[0] * p.size[1]});
  Node *index =
      tb_cast(g, NA(g, arg_max, (&(arg_attrs){.axis = last, .keepdims = false}), x), DT_I32);
  if (tfl_out_tensor(op, 1)->dtype == DT_F32)
    index = NA(g, bit_cast, (&(bit_cast_attrs){.to = DT_F32}), index);
  tfl_give(op, 0, tb_reduce(g, OP_reduce_max, x, (Ints){1, &last}, false));
  tfl_give(op, 1, index);
}

// (values, indices): zeros but for the indexed element of each window.
static void unpool(TflOp *op) {
  Graph *g = op->g;
  if (!tfl_need(op, 2, 1)) return;
  Node *x = tfl_in(op, 0), *index = tfl_in(op, 1);
  PoolWindow p;
  if (!pool_window(op, x, &p)) return;
  if (p.same) tfl_fail(op, "padding SAME");
  int64_t h = tfl_size(op, x, 1), w = tfl_size(op, x, 2), c = tfl_size(op, x, 3);
  if (g->status) return;
  index = tfl_in_tensor(op, 1)->dtype == DT_F32
              ? NA(g, bit_cast, (&(bit_cast_attrs){.to = DT_I32}), index)
              : tb_cast(g, index, DT_I32);
  int64_t taps = p.size[0] * p.size[1];
  Node *tap = N(g, range, node_scalar(g, DT_I32, 0), node_scalar(g, DT_I32, (double)taps),
                node_scalar(g, DT_I32, 1));
  Node *hit = N(g, eq, tb_unsqueeze(g, index, 4), tap);
  Node *y = N(g, where, hit, tb_unsqueeze(g, x, 4), tb_num(g, x, 0));
  y = tb_reshape(g, y, 6, (int64_t[]){-1, h, w, c, p.size[1], p.size[0]});
  y = tb_transpose(g, y, 6, (const int64_t[]){0, 1, 5, 2, 4, 3});
  tfl_give(op, 0, tb_reshape(g, y, 4, (int64_t[]){-1, h * p.size[0], w * p.size[1], c}));
}

static const TflRow rows[] = {
    {TFL_CUSTOM, "Convolution2DTransposeBias", transpose_conv_bias, 1, 0},
    {TFL_CUSTOM, "MaxPoolingWithArgmax2D", pool_with_indices, 1, 0},
    {TFL_CUSTOM, "MaxUnpooling2D", unpool, 1, 0},
};
TFL_TABLE(custom);
