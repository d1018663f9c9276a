// subpixel.c -- transposed convolutions as dense ones, whose channels are blocks of pixels.
//
// A transposed convolution with stride s writes s x s pixels for each one that it reads.  Those
// pixels are channels of a convolution of stride 1 over the image as it is (sub-pixel
// convolution): taps that lie s apart are its taps, and depth_to_space puts its channels in place.
// Kernels are filled up with zeros to whole blocks.  What pads take off the result, whole blocks
// at its beginning aside, is cut off afterwards.
//
// Tensor cores multiply such a convolution.  A transposed one has another set of taps for each
// pixel of a block.
#include "eval/contract.h"
#include "eval/movement.h"

#include "ops/order.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

// MOST_ZEROS: the filled-up kernel may be so many times as large.
enum { SPATIAL = 2, MOST_AXES = 2, MOST_ZEROS = 4, CHANNELS_FIRST = 1 };  // of depth_to_space: CRD

typedef struct Axis {
  int64_t kernel, stride, taps;  // taps: of blocks
  int64_t begin, end, blocks;    // pads of the convolution, and its results
  int64_t rest, size;            // pixels before the result in its first block; the result's
} Axis;

static int64_t item(Ints l, int64_t i, int64_t otherwise) { return l.n ? l.v[i] : otherwise; }

// One spatial axis; false where a convolution does not give it.
static bool measure(const Node *n, int i, Axis *out) {
  const conv_transpose_attrs *at = n->attrs;
  int nd = type_of(n)->rank - SPATIAL;
  Dim in = type_of(n->src[0])->dims[SPATIAL + i], all = type_of(n)->dims[SPATIAL + i];
  Ints shape = at->output_shape;
  int64_t size, lo, kernel = type_of(n->src[1])->dims[SPATIAL + i]->value;
  int64_t stride = item(at->strides, i, 1);
  if (shape.n == nd + SPATIAL) shape = (Ints){nd, shape.v + SPATIAL};
  if (!ie_is_const(in) || !ie_is_const(all) || all->value < 1 || in->value < 1 || kernel < 1 ||
      item(at->dilations, i, 1) != 1 ||
      !conv_transpose_axis(at->auto_pad, in->value, kernel, stride, 1, item(at->pads, i, 0),
                           item(at->pads, nd + i, 0), item(at->output_padding, i, 0),
                           item(shape, i, -1), &size, &lo) ||
      size != all->value || lo < 0)
    return false;
  int64_t taps = (kernel + stride - 1) / stride, before = lo / stride;
  *out = (Axis){.kernel = kernel, .stride = stride, .taps = taps, .rest = lo % stride};
  out->size = size;
  out->begin = taps - 1 - before;
  int64_t blocks = (out->rest + size + stride - 1) / stride;
  out->end = MAX(blocks - in->value + before, 0);
  out->blocks = in->value + out->begin + out->end - taps + 1;
  return out->begin >= 0 && out->blocks >= blocks;
}

// The weights [group * channels, columns, taps...] as [group * columns * block, channels,
// taps...]: those of a block's pixel together, the last taps first, which meet the first pixels.
static Node *block_weights(Graph *g, const Node *n, const Axis *axis, int nd) {
  int64_t pads[2 * MAX_RANK] = {0}, dims[MAX_RANK], perm[MAX_RANK], out[MAX_RANK];
  const Type *t = type_of(n->src[1]);
  int64_t groups = ((const conv_transpose_attrs *)n->attrs)->group;
  int rank = t->rank, r = 0, block = 1;
  for (int i = 0; i < nd; i++)
    pads[rank + SPATIAL + i] = axis[i].taps * axis[i].stride - axis[i].kernel;
  Node *w = N(g, pad, n->src[1], node_i64s(g, 2 * (int64_t)rank, pads));
  dims[r++] = groups;
  dims[r++] = t->dims[0]->value / groups;
  dims[r++] = t->dims[1]->value;
  for (int i = 0; i < nd; i++) {
    dims[r++] = axis[i].taps;
    dims[r++] = axis[i].stride;
    block *= (int)axis[i].stride;
  }
  w = N(g, reshape, w, node_i64s(g, r, dims));
  for (int i = 0; i < nd; i++)
    if (axis[i].taps > 1) w = slice_axis(g, w, 3 + 2 * i, -1, INT64_MIN, -1);
  int k = 0;
  perm[k++] = 0;
  perm[k++] = 2;
  for (int i = 0; i < nd; i++) perm[k++] = 4 + 2 * i;
  perm[k++] = 1;
  for (int i = 0; i < nd; i++) perm[k++] = 3 + 2 * i;
  out[0] = dims[0] * dims[2] * block;
  out[1] = dims[1];
  for (int i = 0; i < nd; i++) out[SPATIAL + i] = axis[i].taps;
  return N(g, reshape, transpose_to(g, w, r, perm), node_i64s(g, rank, out));
}

// A bias for each pixel of a block.
static Node *block_bias(Graph *g, Node *bias, int64_t channels, int64_t block) {
  int64_t one[] = {channels, 1}, each[] = {channels, block}, all[] = {channels * block};
  Node *wide = N(g, expand, N(g, reshape, bias, node_i64s(g, 2, one)), node_i64s(g, 2, each));
  return N(g, reshape, wide, node_i64s(g, 1, all));
}

// From channels [columns * block] to pixels.
static Node *in_place(Graph *g, Node *x, const Type *t, const Axis *axis, int nd) {
  int64_t dims[MAX_RANK], perm[MAX_RANK], all[MAX_RANK];
  if (nd == 2 && axis[0].stride == axis[1].stride) {
    depth_to_space_attrs at = {.blocksize = axis[0].stride, .mode = CHANNELS_FIRST};
    return axis[0].stride > 1 ? NA(g, depth_to_space, &at, x) : x;
  }
  int r = 0;
  dims[r++] = 0;  // as many as there are
  dims[r++] = t->dims[1]->value;
  for (int i = 0; i < nd; i++) dims[r++] = axis[i].stride;
  for (int i = 0; i < nd; i++) dims[r++] = axis[i].blocks;
  perm[0] = all[0] = 0;
  perm[1] = 1;
  all[1] = dims[1];
  for (int i = 0; i < nd; i++) {
    perm[SPATIAL + 2 * i] = SPATIAL + nd + i;
    perm[SPATIAL + 2 * i + 1] = SPATIAL + i;
    all[SPATIAL + i] = axis[i].blocks * axis[i].stride;
  }
  x = transpose_to(g, N(g, reshape, x, node_i64s(g, r, dims)), r, perm);
  return N(g, reshape, x, node_i64s(g, t->rank, all));
}

static Node *in_blocks(Graph *g, const Match *m) {
  const Node *n = m->root;
  const conv_transpose_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]), *w = type_of(n->src[1]), *t = type_of(n);
  Axis axis[MOST_AXES];
  int nd = t->rank - SPATIAL;
  if (at->channels_last || nd < 1 || nd > MOST_AXES || !type_is_static(w) ||
      n->src[1]->op != OP_const || x->dtype != DT_F32 || !ie_is_const(t->dims[1]) ||
      !w->dims[0]->value || !w->dims[1]->value)
    return NULL;
  int64_t block = 1, filled = 1, taps = 1, one[MOST_AXES], kernel[MOST_AXES], pads[2 * MOST_AXES];
  for (int i = 0; i < nd; i++) {
    if (!measure(n, i, &axis[i])) return NULL;
    one[i] = 1;
    kernel[i] = axis[i].taps;
    pads[i] = axis[i].begin;
    pads[nd + i] = axis[i].end;
    block *= axis[i].stride;
    taps *= axis[i].kernel;
    filled *= axis[i].taps * axis[i].stride;
  }
  if (filled > MOST_ZEROS * taps) return NULL;
  conv_attrs conv = {.auto_pad = PAD_NOTSET,
                     .group = at->group,
                     .kernel_shape = {nd, kernel},
                     .strides = {nd, one},
                     .dilations = {nd, one},
                     .pads = {2 * (int64_t)nd, pads}};
  Node *bias = src_or_null(g, n, 2);
  Node *src[3] = {n->src[0], block_weights(g, n, axis, nd),
                  bias ? block_bias(g, bias, t->dims[1]->value, block) : NULL};
  Node *r = node_new(g, OP_conv, bias ? 3 : 2, src, &conv, 1, n->name);
  r = in_place(g, r, t, axis, nd);
  for (int i = 0; i < nd; i++)
    if (axis[i].rest || axis[i].size != axis[i].blocks * axis[i].stride)
      r = slice_axis(g, r, SPATIAL + i, axis[i].rest, axis[i].rest + axis[i].size, 1);
  return r != g->poison && type_of(r) == type_of(n) ? r : NULL;
}

static const Rule subpixel[] = {
    // clang-format off
    RULE("conv_transpose.subpixel", ANY(conv_transpose), .make = in_blocks, .fast = FAST_REASSOC,
         .example = "(%x: f32[n, 2, 3, 4]) { %w = const f32[2, 1, 3, 3] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 4, 1, 0, -1, 2, 3, -2, 0.5, 1, 1} %b = const f32[1] {0.5} "
                    "%r = conv_transpose(%x, %w, %b) strides=[2, 2] pads=[1, 0, 0, 1] return %r }"),
    // clang-format on
};
const RuleSet rules_subpixel = RULES("subpixel", subpixel, "fewer transposed convolutions");
