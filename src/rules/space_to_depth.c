// space_to_depth.c -- convolutions with strides over few channels, as dense ones over blocks of
// pixels.
//
// The first layer of most networks on images reads three channels, which TMA cannot fetch.  A block
// of s x s pixels, s the stride, is a pixel of s*s times as many channels, and the convolution one
// of stride 1 over those: its weights are rearranged the same way, after zeros before them so that
// blocks begin where windows do.  Channels are padded with zeros to a multiple of eight, and so are
// lines on both sides: where a window's line is contiguous, its taps can be fetched as one.  That
// is done without strides, too, where a block is one pixel.
#include "eval/contract.h"
#include "eval/movement.h"

#include "ops/order.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

enum { FEW_CHANNELS = 4, WHOLE_CHANNELS = 8, MAX_STRIDE = 32 };
enum { PIXELS_WITHIN = 1 };  // of space_to_depth: a channel's pixels are contiguous

typedef struct Axis {
  int64_t lead;        // zeros before the weights
  int64_t taps;        // of blocks
  int64_t begin, end;  // pads in blocks
} Axis;

static int64_t item(Ints l, int64_t i, int64_t otherwise) { return l.n ? l.v[i] : otherwise; }

// One spatial axis; false where blocks do not fit.
static bool measure(const Node *conv, const conv_attrs *at, int which, int64_t stride, Axis *out) {
  Dim in = type_of(conv->src[0])->dims[2 + which], all = type_of(conv)->dims[2 + which];
  Dim kernel = type_of(conv->src[1])->dims[2 + which];
  if (!ie_is_const(in) || !ie_is_const(all) || in->value % stride || all->value < 1) return false;
  int64_t pad = item(at->pads, which, 0), taps = kernel->value;
  if (pad < 0 || item(at->strides, which, 1) != stride || item(at->dilations, which, 1) != 1)
    return false;
  out->lead = (stride - pad % stride) % stride;
  out->taps = (taps + out->lead + stride - 1) / stride;
  out->begin = (pad + out->lead) / stride;
  out->end = all->value - 1 + out->taps - in->value / stride - out->begin;
  return out->end >= 0;
}

// More channels at the end, and pixels on both sides.
static Node *filled_up(Graph *g, Node *x, int64_t channels, int64_t left, int64_t right) {
  int64_t pads[8] = {[3] = left, [5] = channels, [7] = right};
  return channels || left || right ? N(g, pad, x, node_i64s(g, 8, pads)) : x;
}

static Node *in_blocks(Graph *g, const Match *m, bool strided) {
  const Node *conv = m->root;
  conv_attrs at = *(const conv_attrs *)conv->attrs;
  const Type *x = type_of(conv->src[0]), *w = type_of(conv->src[1]);
  Axis axis[2];
  if (at.channels_last || at.auto_pad != PAD_NOTSET || at.group != 1 || x->rank != 4 ||
      !type_is_static(w) || conv->src[1]->op != OP_const || x->dtype != DT_F32)
    return NULL;
  int64_t stride = item(at.strides, 0, 1), channels = w->dims[1]->value;
  if (strided != (stride > 1) || stride > MAX_STRIDE || channels > FEW_CHANNELS) return NULL;
  for (int k = 0; k < 2; k++)
    if (!measure(conv, &at, k, stride, &axis[k])) return NULL;
  int64_t pads[8] = {0, 0, axis[0].lead, axis[1].lead, 0, 0, 0, 0};
  for (int k = 0; k < 2; k++)
    pads[6 + k] = axis[k].taps * stride - axis[k].lead - w->dims[2 + k]->value;
  int64_t deep = channels * stride * stride;
  int64_t whole = (deep + WHOLE_CHANNELS - 1) / WHOLE_CHANNELS * WHOLE_CHANNELS;
  space_to_depth_attrs blocks = {.blocksize = stride, .mode = PIXELS_WITHIN};
  Node *image = conv->src[0], *weight = conv->src[1];
  if (stride > 1) {
    image = NA(g, space_to_depth, &blocks, image);
    weight = NA(g, space_to_depth, &blocks, N(g, pad, weight, node_i64s(g, 8, pads)));
  }
  image = filled_up(g, image, whole - deep, axis[1].begin, axis[1].end);
  weight = filled_up(g, weight, whole - deep, 0, 0);
  int64_t kernel[2] = {axis[0].taps, axis[1].taps}, one[2] = {1, 1};
  int64_t around[4] = {axis[0].begin, 0, axis[0].end, 0};
  at.kernel_shape = (Ints){2, kernel};
  at.strides = at.dilations = (Ints){2, one};
  at.pads = (Ints){4, around};
  Node *src[3] = {image, weight, src_or_null(g, conv, 2)};
  Node *r = node_new(g, OP_conv, src[2] ? 3 : 2, src, &at, 1, conv->name);
  return r != g->poison && type_of(r) == type_of(conv) ? r : NULL;
}

static Node *with_strides(Graph *g, const Match *m) { return in_blocks(g, m, true); }
static Node *without_strides(Graph *g, const Match *m) { return in_blocks(g, m, false); }

static const Rule space_to_depth[] = {
    // clang-format off
    RULE("conv.space_to_depth", ANY(conv), .make = with_strides, .fast = FAST_REASSOC,
         .example = "(%x: f32[n, 1, 4, 6]) { %w = const f32[2, 1, 3, 3] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 4, 1, 0, -1, 2, 3, -2, 0.5, 1, 1} %b = const f32[2] {0.5, 1} "
                    "%r = conv(%x, %w, %b) strides=[2, 2] pads=[1, 1, 0, 0] return %r }"),
    RULE("conv.few_channels", ANY(conv), .make = without_strides, .fast = FAST_REASSOC,
         .example = "(%x: f32[n, 2, 4, 5]) { %w = const f32[1, 2, 3, 3] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 4, 1, 0, -1, 2, 3, -2, 0.5, 1, 1} "
                    "%r = conv(%x, %w) pads=[1, 1, 1, 1] return %r }"),
    // clang-format on
};
const RuleSet rules_space_to_depth =
    RULES("space_to_depth", space_to_depth, "convolutions of few channels");
