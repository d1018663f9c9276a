// shifted_sums.c -- convolutions to a few channels as one product and shifted sums.
//
// An implicit GEMM reads a pixel once for each tap.  With a few columns there is little to do with
// it, so that reading takes all the time.  Here each pixel is read once: a product with the weights
// of all taps gives as many columns as taps times channels, which are stored as planes.  A tap's
// planes, moved by the tap's place, are then added up element by element, which is one kernel.
//
// It is worth it where columns are narrower than what they are made of, and the image is large
// enough for two kernels.  All images of a batch count as one.
#include "eval/contract.h"
#include "eval/movement.h"

#include "ops/order.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

enum {
  SPATIAL = 2,
  LEAST_TAPS = 4,
  MOST_TAPS = 32,
  CHANNELS_A_COLUMN = 12,  // of the image, at least
  LEAST_PIXELS = 1 << 13,  // a tile of 64 for each multiprocessor
  WHOLE_COLUMNS = 8
};

typedef struct Axis {
  int64_t in, out, taps, dilation, lo;
} Axis;
typedef struct Head {
  Axis axis[SPATIAL];
  int64_t channels, columns, all;  // all: of the product, filled up
} Head;

static int64_t item(Ints l, int64_t i, int64_t otherwise) { return l.n ? l.v[i] : otherwise; }

static bool measure(const Node *n, Head *h) {
  const conv_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]), *w = type_of(n->src[1]), *t = type_of(n);
  if (at->channels_last || at->auto_pad != PAD_NOTSET || at->group != 1 || t->rank != 2 + SPATIAL ||
      n->src[1]->op != OP_const || !type_is_static(w) || x->dtype != DT_F32)
    return false;
  h->columns = w->dims[0]->value;
  h->channels = w->dims[1]->value;
  int64_t taps = 1, pixels = 1;
  for (int k = 0; k < SPATIAL; k++) {
    Dim in = x->dims[2 + k], out = t->dims[2 + k];
    if (!ie_is_const(in) || !ie_is_const(out) || in->value < 1 || out->value < 1) return false;
    if (item(at->strides, k, 1) != 1 || item(at->pads, k, 0) < 0) return false;
    h->axis[k] = (Axis){in->value, out->value, w->dims[2 + k]->value, item(at->dilations, k, 1),
                        item(at->pads, k, 0)};
    if (!ck_mul(pixels, in->value, &pixels) || h->axis[k].taps > MOST_TAPS) return false;
    taps *= h->axis[k].taps;
  }
  if (taps < LEAST_TAPS || taps > MOST_TAPS || h->columns < 1 ||
      h->channels / CHANNELS_A_COLUMN < h->columns)
    return false;
  h->all = (taps * h->columns + WHOLE_COLUMNS - 1) / WHOLE_COLUMNS * WHOLE_COLUMNS;
  return pixels >= LEAST_PIXELS;
}

// [columns, channels, taps...] as [channels, taps * columns], and columns of zeros behind.
static Node *columns_of(Graph *g, Node *w, const Head *h) {
  int64_t taps = h->axis[0].taps * h->axis[1].taps, to[] = {1, 2, 3, 0};
  int64_t matrix[] = {h->channels, taps * h->columns}, pads[4] = {[3] = h->all - matrix[1]};
  Node *m = N(g, reshape, transpose_to(g, w, 4, to), node_i64s(g, 2, matrix));
  return pads[3] ? N(g, pad, m, node_i64s(g, 4, pads)) : m;
}

// A tap's planes where the result's pixels find them: 0 where the tap is outside the image.  NULL:
// it is outside for all pixels.
static Node *shifted(Graph *g, Node *z, const Head *h, int64_t i, int64_t j) {
  int64_t tap[] = {i, j}, first[3], end[3], axes[] = {2, 3, 1}, pads[8] = {0};
  for (int k = 0; k < SPATIAL; k++) {
    const Axis *axis = &h->axis[k];
    int64_t from = tap[k] * axis->dilation - axis->lo;
    first[k] = MAX(from, 0);
    end[k] = MIN(from + axis->out, axis->in);
    if (first[k] >= end[k]) return NULL;
    pads[2 + k] = first[k] - from;
    pads[6 + k] = from + axis->out - end[k];
  }
  first[2] = (i * h->axis[1].taps + j) * h->columns;
  end[2] = first[2] + h->columns;
  Node *part = N(g, slice, z, node_i64s(g, 3, first), node_i64s(g, 3, end), node_i64s(g, 3, axes));
  bool cut = pads[2] || pads[3] || pads[6] || pads[7];
  return cut ? N(g, pad, part, node_i64s(g, 8, pads)) : part;
}

static Node *as_sums(Graph *g, const Match *m) {
  const Node *n = m->root;
  Head h;
  if (!measure(n, &h)) return NULL;
  int64_t last[4], first[4], shape[] = {-1, 1, 1};
  order_last(ORDER_DATA, 4, last);
  order_first(ORDER_DATA, 4, first);
  Node *z = N(g, mat_mul, transpose_to(g, n->src[0], 4, last), columns_of(g, n->src[1], &h));
  Node *sum = NULL, *bias = src_or_null(g, n, 2);
  z->name = n->name;
  z = NA(g, transpose, (&(transpose_attrs){.perm = {4, first}, .materialize = true}), z);
  for (int64_t i = 0; i < h.axis[0].taps; i++)
    for (int64_t j = 0; j < h.axis[1].taps; j++) {
      Node *part = shifted(g, z, &h, i, j);
      if (part) sum = sum ? N(g, add, sum, part) : part;
    }
  if (!sum) return NULL;
  if (bias) sum = N(g, add, sum, N(g, reshape, bias, node_i64s(g, 3, shape)));
  return sum != g->poison && type_of(sum) == type_of(n) ? sum : NULL;
}

#define FEW "1, 2, 3, -1, -2, 0.5, 0.25, 4, -3, "

static const Rule shifted_sums[] = {
    // clang-format off
    RULE("conv.shifted_sums", ANY(conv), .make = as_sums, .fast = FAST_REASSOC,
         .example = "(%x: f32[1, 12, 64, 128]) { %w = const f32[1, 12, 2, 2] {" FEW FEW FEW FEW FEW "1, 2, 3} %b = const f32[1] {0.5} "
                    "%r = conv(%x, %w, %b) pads=[1, 0, 0, 1] dilations=[1, 2] return %r }"),
    // clang-format on
};
const RuleSet rules_shifted_sums = RULES("shifted_sums", shifted_sums, "fewer convolutions");
