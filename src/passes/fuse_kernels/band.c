// band.c -- convolution chains by bands of lines: what they are, and what is computed twice
// (band.h).
//
// Needs:      inferred types.
// Guarantees: pure functions of the nodes' shapes and attributes.
#include "passes/fuse_kernels/band.h"

#include "eval/contract.h"

#include <math.h>

bool band_image(const Node *n) {
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || t->rank != 4 || t->dtype != DT_F32) return false;
  for (int i = 1; i < 4; i++)
    if (!ie_is_const(t->dims[i]) || t->dims[i]->value < 1) return false;
  return true;
}

static int64_t size_at(const Node *n, int axis) { return type_of(n)->dims[axis]->value; }

// A convolution of an image, channels last, with weights that are numbers.
static bool is_conv(const Node *n) {
  return n->op == OP_conv && ((const conv_attrs *)n->attrs)->channels_last && band_image(n) &&
         band_image(n->src[0]) && band_image(n->src[1]) && n->src[1]->op == OP_const &&
         ie_is_const(type_of(n->src[1])->dims[0]);
}

static int64_t item(Ints l, int64_t i, int64_t otherwise) { return l.n > i ? l.v[i] : otherwise; }

bool band_pointwise(const Node *n) {
  if (!is_conv(n)) return false;
  const conv_attrs *at = n->attrs;
  for (int d = 0; d < 2; d++)
    if (size_at(n->src[1], d) != 1 || item(at->strides, d, 1) != 1 || item(at->pads, d, 0) ||
        item(at->pads, d + 2, 0))
      return false;
  // Vectors of channels belong to one group.
  return at->group == 1 || (at->group > 1 && size_at(n->src[0], 3) / at->group % BAND_VECTOR == 0);
}

bool band_depthwise(const Node *n) {
  if (!is_conv(n)) return false;
  const conv_attrs *at = n->attrs;
  for (int d = 0; d < 4; d++)
    if (item(at->pads, d, 0) < 0) return false;
  return at->group > 1 && at->group == size_at(n, 3) && at->group == size_at(n->src[0], 3);
}

void band_measure(Band *b, const Node *expand, const Node *deep, const Node *project) {
  const conv_attrs *at = deep->attrs;
  Dim images = type_of(deep)->dims[0];
  *b = (Band){.in = expand ? size_at(expand->src[0], 3) : 0,
              .wide = size_at(deep, 3),
              .out = project ? size_at(project, 3) : 0,
              .width = size_at(deep->src[0], 2),
              .height = size_at(deep->src[0], 1),
              .out_width = size_at(deep, 2),
              .out_height = size_at(deep, 1),
              .taps = size_at(deep->src[1], 0) * size_at(deep->src[1], 1),
              .stride = item(at->strides, 0, 1),
              .groups = project ? ((const conv_attrs *)project->attrs)->group : 1,
              .images = ie_is_const(images) ? MAX(images->value, 1) : 1};
  if (at->auto_pad == PAD_NOTSET) b->above = item(at->pads, 0, 0);
  b->lines = (size_at(deep->src[1], 0) - 1) * item(at->dilations, 0, 1) + 1;
}

static double work_of(const Band *b, double lines, double rows) {
  double project = (double)b->out / (double)b->groups;
  return lines * (double)(b->width * b->in) +
         rows * (double)b->out_width * ((double)b->taps + project);
}

// How much more is computed than in kernels of their own, at best: lines at the edges of bands
// twice, and where there are few bands, as much as if two threads waited for one another.  A band's
// part of the image between stays in a core's cache.
double band_excess(const Band *b) {
  enum { CACHE = 768 << 10, CHUNK = 32, FEW = 8 };
  double least = INFINITY;
  for (int64_t rows = 1; rows <= b->out_height; rows++) {
    int64_t lines = (rows - 1) * b->stride + b->lines, parts = (b->out_height + rows - 1) / rows;
    if (parts <= 2) lines -= b->above;  // every band has an edge of the image
    lines = MIN(lines, b->height);
    int64_t bytes = 4 * (b->in ? lines * b->width * (CHUNK + b->in) : 0);
    bytes += b->out ? 4 * rows * b->out_width * b->wide / b->groups : 0;
    if (bytes > CACHE) break;
    // Without a projection there are as many items as parts of the channels.
    int64_t items = parts * b->images * b->groups;
    if (b->out && items < FEW) items += items % 2;
    double work = (double)items / (double)b->groups * work_of(b, (double)lines, (double)rows);
    least = MIN(least, work);
  }
  return least / ((double)b->images * work_of(b, (double)b->height, (double)b->out_height)) - 1;
}
