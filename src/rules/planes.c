// planes.c -- convolutions over three spatial axes as ones over planes.
//
// TMA fetches windows over planes.  Taps along the first axis become channels: the images that they
// see, moved by the tap's place and joined, are one image of so many more channels, and each place
// along the first axis is a plane by itself.  Few channels then fill more of a block of the depth.
// The joined image is written once, by the kernel that lays images out channels last in any case.
#include "eval/contract.h"
#include "eval/movement.h"

#include "ops/order.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

enum { SPATIAL = 2, AXES = 3, RANK = SPATIAL + AXES, MOST_TAPS = 8 };

static int64_t item(Ints l, int64_t i, int64_t otherwise) { return l.n ? l.v[i] : otherwise; }

// What a tap sees: every stride-th plane from its own on.
static Node *seen(Graph *g, Node *x, int64_t first, int64_t count, int64_t stride) {
  return slice_axis(g, x, SPATIAL, first, first + (count - 1) * stride + 1, stride);
}

static Node *in_planes(Graph *g, const Match *m) {
  const Node *conv = m->root;
  conv_attrs at = *(const conv_attrs *)conv->attrs;
  const Type *x = type_of(conv->src[0]), *w = type_of(conv->src[1]), *t = type_of(conv);
  if (at.channels_last || at.auto_pad != PAD_NOTSET || at.group != 1 || t->rank != RANK ||
      conv->src[1]->op != OP_const || !type_is_static(w) || x->dtype != DT_F32 ||
      !ie_is_const(x->dims[SPATIAL]) || !ie_is_const(t->dims[SPATIAL]))
    return NULL;
  int64_t taps = w->dims[SPATIAL]->value, planes = t->dims[SPATIAL]->value;
  int64_t begin = item(at.pads, 0, 0), end = item(at.pads, AXES, 0);
  bool alone = taps == 1 && item(at.strides, 0, 1) == 1 && !begin && !end;
  if (alone || taps > MOST_TAPS || planes < 1 || begin < 0 || end < 0) return NULL;
  int64_t pads[2 * RANK] = {[SPATIAL] = begin, [RANK + SPATIAL] = end}, swap[] = {0, 2, 1, 3, 4};
  Node *image = conv->src[0], *part[MOST_TAPS];
  if (begin || end) image = N(g, pad, image, node_i64s(g, ARRAY_LEN(pads), pads));
  for (int64_t i = 0; i < taps; i++)
    part[i] = seen(g, image, i * item(at.dilations, 0, 1), planes, item(at.strides, 0, 1));
  concat_attrs joined = {.axis = 1};
  image = taps > 1 ? node_new(g, OP_concat, (int)taps, part, &joined, 1, NULL) : part[0];
  int64_t dims[RANK], kernel[AXES], stride[AXES], dilation[AXES], around[2 * AXES];
  for (int i = 0; i < RANK; i++) dims[i] = w->dims[i]->value;
  dims[1] *= taps;
  dims[SPATIAL] = 1;
  Node *weight = N(g, reshape, transpose_to(g, conv->src[1], RANK, swap), node_i64s(g, RANK, dims));
  for (int i = 0; i < AXES; i++) {
    kernel[i] = dims[SPATIAL + i];
    stride[i] = i ? item(at.strides, i, 1) : 1;
    dilation[i] = i ? item(at.dilations, i, 1) : 1;
    around[i] = i ? item(at.pads, i, 0) : 0;
    around[AXES + i] = i ? item(at.pads, AXES + i, 0) : 0;
  }
  at.kernel_shape = (Ints){AXES, kernel};
  at.strides = (Ints){AXES, stride};
  at.dilations = (Ints){AXES, dilation};
  at.pads = (Ints){2 * AXES, around};
  Node *src[3] = {image, weight, src_or_null(g, conv, 2)};
  Node *r = node_new(g, OP_conv, src[2] ? 3 : 2, src, &at, 1, conv->name);
  return r != g->poison && type_of(r) == type_of(conv) ? r : NULL;
}

static const Rule planes[] = {
    // clang-format off
    RULE("conv.planes", ANY(conv), .make = in_planes, .fast = FAST_REASSOC,
         .example = "(%x: f32[n, 1, 5, 3, 4]) { %w = const f32[2, 1, 3, 1, 2] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 4, 1, 0, -1} %b = const f32[2] {0.5, 1} "
                    "%r = conv(%x, %w, %b) strides=[2, 1, 2] pads=[1, 0, 1, 2, 0, 0] return %r }"),
    // clang-format on
};
const RuleSet rules_planes = RULES("planes", planes, "fewer taps along the first of three axes");
