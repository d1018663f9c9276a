// blocks.c -- convolutions whose results are blocks of pixels.
//
// A transposed convolution by a stride s gives blocks of s x s pixels.  Each pixel of a block sums over taps of its own, so a
// convolution with s x s times as many channels gives them all, and depth_to_space puts them where they belong: a step in
// which nothing is computed, done while the sums are stored.  Pixels need different neighbours, so some of the weights are 0; where
// too many would be, the transposed convolution stays.  These rules come after all others that know convolutions.
#include "eval/contract.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/window.h"

#include "ops/order.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

enum {
  USEFUL_LEAST = 40,              // percent of the weights that are not 0 for certain
  WEIGHTS_MOST = 8 * 1024 * 1024  // elements, which are computed while compiling
};

// Along one spatial axis: pixel r of a block takes tap j of the convolution by weight r + shift - stride * j of the
// transposed one.
typedef struct Phases {
  int64_t kernel, stride, shift, taps, before, behind;  // taps and pads of the convolution
} Phases;

static int64_t item(Ints l, int i, int64_t otherwise) { return l.n ? l.v[i] : otherwise; }
static int64_t floor_div(int64_t x, int64_t by) { return x / by - (x % by < 0); }

static bool find_phases(const Node *n, int axis, int nd, Phases *out) {
  const conv_transpose_attrs *at = n->attrs;
  Dim kernel = type_of(n->src[1])->dims[2 + axis];
  int64_t more;
  bool padded = at->auto_pad == PAD_NOTSET;
  if (!ie_is_const(kernel) || item(at->dilations, axis, 1) != 1 || at->output_shape.n ||
      (!padded && at->auto_pad != PAD_VALID))
    return false;
  int64_t lo = padded ? item(at->pads, axis, 0) : 0, hi = padded ? item(at->pads, nd + axis, 0) : 0;
  *out = (Phases){.kernel = kernel->value, .stride = item(at->strides, axis, 1)};
  if (out->stride < 2 || out->stride > 64 || out->kernel < 1 || out->kernel > 1024 || lo < 0 ||
      lo >= out->kernel || hi < 0 || hi >= out->kernel)
    return false;
  more = out->kernel + item(at->output_padding, axis, 0) - out->stride - lo - hi;
  if (more % out->stride) return false;  // the result is no whole number of blocks
  int64_t least =
      -floor_div(out->kernel - 1 - lo, out->stride);  // neighbours, seen from a block's own pixel
  int64_t most = floor_div(out->stride - 1 + lo, out->stride);
  out->taps = most - least + 1;
  out->before = -least;
  out->behind = more / out->stride + most;
  out->shift = lo - out->stride * least;
  return out->taps >= 1 && out->before >= 0 && out->behind >= 0;
}

// w [Cin, Cout, k, k] with one more row of zeros along each spatial axis, picked as [Cin, Cout, s * taps, s * taps].
static Node *spread(Graph *g, Node *w, const Phases *p) {
  int64_t wide[8] = {0, 0, 0, 0, 0, 0, 1, 1};
  w = N(g, pad, w, node_i64s(g, 8, wide));
  for (int i = 0; i < 2; i++) {
    int64_t n = p[i].stride * p[i].taps, *from = arena_array(&g->scratch, int64_t, n);
    for (int64_t k = 0; k < n; k++) {
      int64_t tap = k / p[i].taps + p[i].shift - p[i].stride * (k % p[i].taps);
      from[k] = tap < 0 || tap >= p[i].kernel ? p[i].kernel : tap;
    }
    w = NA(g, gather, (&(gather_attrs){.axis = 2 + i}), w, node_i64s(g, n, from));
  }
  return w;
}

static Node *transposed(Graph *g, const Match *m) {
  const Node *n = m->root;
  const conv_transpose_attrs *at = n->attrs;
  const Type *w = type_of(n->src[1]);
  Node *bias = src_or_null(g, n, 2), *many[64];
  Phases p[2];
  if (node_channels_last(n) || w->rank != 4 || type_of(n)->rank != 4 || at->group != 1 ||
      n->src[1]->op != OP_const || (bias && bias->op != OP_const) ||
      !dtype_is_float(type_of(n)->dtype) || !find_phases(n, 0, 2, &p[0]) ||
      !find_phases(n, 1, 2, &p[1]) || p[0].stride != p[1].stride || p[0].stride > 8 ||
      !ie_is_const(w->dims[0]) || !ie_is_const(w->dims[1]))
    return NULL;
  int64_t s = p[0].stride, in = w->dims[0]->value, out = w->dims[1]->value;
  int64_t all = s * s * p[0].taps * p[1].taps, size;
  if (100 * p[0].kernel * p[1].kernel < USEFUL_LEAST * all || !ck_mul(in, out, &size) ||
      !ck_mul(size, all, &size) || size > WEIGHTS_MOST || size < 1)
    return NULL;
  int64_t six[6] = {in, out, s, p[0].taps, s, p[1].taps}, perm[6] = {2, 4, 1, 0, 3, 5};
  int64_t four[4] = {s * s * out, in, p[0].taps, p[1].taps};
  Node *turned = N(g, reshape, spread(g, n->src[1], p), node_i64s(g, 6, six));
  Node *src[3] = {n->src[0]};
  src[1] = N(g, reshape, transpose_to(g, turned, 6, perm), node_i64s(g, 4, four));
  for (int64_t i = 0; i < s * s; i++) many[i] = bias;
  if (bias)
    src[2] = node_new(g, OP_concat, (int)(s * s), many, &(concat_attrs){.axis = 0}, 0, NULL);
  int64_t pads[4] = {p[0].before, p[1].before, p[0].behind, p[1].behind};
  conv_attrs plain = {.group = 1, .pads = {4, pads}};
  Node *conv = node_new(g, OP_conv, bias ? 3 : 2, src, &plain, 1, n->name);
  return NA(g, depth_to_space, (&(depth_to_space_attrs){.blocksize = s}), conv);
}

// The channels of a block in the order in which a block's pixels lie: each pixel's together.
static Node *shuffled(Graph *g, const Match *m) {
  depth_to_space_attrs at = *(const depth_to_space_attrs *)m->root->attrs;
  const Node *conv = m->var[SLOT_p];
  Dim channels = type_of(conv)->dims[1];
  if (at.mode == 0 || at.channels_last || node_channels_last(conv) || type_of(conv)->rank != 4 ||
      !match_once(m, conv) || ((const conv_attrs *)conv->attrs)->group != 1 ||
      conv->src[1]->op != OP_const || !ie_is_const(channels) || channels->value > KNOWN_MAX)
    return NULL;
  int64_t square = at.blocksize * at.blocksize, n = channels->value, depth = n / square;
  int64_t *from = arena_array(&g->scratch, int64_t, n);
  for (int64_t i = 0; i < n; i++) from[i] = i % depth * square + i / depth;
  Node *src[3], *order = node_i64s(g, n, from);
  for (uint32_t i = 0; i < conv->nsrc; i++)
    src[i] = i && conv->src[i] != g->none ? N(g, gather, conv->src[i], order) : conv->src[i];
  at.mode = 0;
  return NA(g, depth_to_space, &at, node_with(g, conv, src));
}

#define X "(%x: f32[n, 2, 3, 4]) { "

static const Rule blocks[] = {
    // clang-format off
    RULE("conv_transpose.blocks", ANY(conv_transpose), .make = transposed, .fast = FAST_REASSOC,
         .example = X "%w = const f32[2, 1, 3, 4] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 2, 1, 1, 1, 3, 4, 5, 6, 7, 8, -9, 1, 2, 3, 4, 5} %b = const f32[1] {0.5} "
                    "%r = conv_transpose(%x, %w, %b) strides=[2, 2] pads=[1, 1, 1, 1] output_padding=[1, 0] return %r }"),
    RULE("depth_to_space.order", P(depth_to_space, BIND_ANY(p, conv)), .make = shuffled,
         .example = X "%w = const f32[4, 2, 1, 1] {1, 2, 3, -1, -2, 1, 0.5, 0.25} %b = const f32[4] {0.5, 1, 2, 3} %c = conv(%x, %w, %b) "
                    "%r = depth_to_space(%c) blocksize=2 mode=CRD return %r }"),
    // clang-format on
};
const RuleSet rules_blocks =
    RULES("blocks", blocks, "fewer transposed convolutions, and fewer blocks in the other order");
