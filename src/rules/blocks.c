// blocks.c -- windows in cheaper forms: convolutions that give blocks of pixels, and maxima along lines.
//
// A maximum over a large window is the maximum of the maxima of its lines, each of which serves several windows.
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
  int64_t first, last;                                  // pixels to cut off
} Phases;

static int64_t item(Ints l, int i, int64_t otherwise) { return l.n ? l.v[i] : otherwise; }
static int64_t floor_div(int64_t x, int64_t by) { return x / by - (x % by < 0); }

// Without its pads (`whole`) all pixels of a block need the same neighbours; what is too much is then cut off.
static bool find_phases(const Node *n, int axis, bool whole, Phases *out) {
  const conv_transpose_attrs *at = n->attrs;
  Dim kernel = type_of(n->src[1])->dims[2 + axis];
  bool padded = at->auto_pad == PAD_NOTSET;
  if (!ie_is_const(kernel) || item(at->dilations, axis, 1) != 1 || at->output_shape.n ||
      (!padded && at->auto_pad != PAD_VALID))
    return false;
  int64_t lo = padded ? item(at->pads, axis, 0) : 0, hi = padded ? item(at->pads, 2 + axis, 0) : 0;
  int64_t k = kernel->value, s = item(at->strides, axis, 1);
  int64_t more = k + item(at->output_padding, axis, 0) - s - lo - hi;
  if (s < 2 || s > 64 || k < 1 || k > 1024 || lo < 0 || lo >= k || hi < 0 || hi >= k) return false;
  *out = (Phases){.kernel = k, .stride = s};
  if (whole) {
    int64_t blocks = (k + s - 1) / s - 1;
    out->first = lo;
    out->last = blocks * s - more - lo;
    more = blocks * s;
    lo = 0;
  }
  if (more % s || out->last < 0) return false;  // the result is no whole number of blocks
  // Neighbours, seen from a block's own pixel.
  int64_t least = -floor_div(k - 1 - lo, s), most = floor_div(s - 1 + lo, s);
  out->taps = most - least + 1;
  out->before = -least;
  out->behind = more / s + most;
  out->shift = lo - s * least;
  return out->taps >= 1 && out->before >= 0 && out->behind >= 0;
}

// The way with the fewer taps.
static bool find_all(const Node *n, Phases *out) {
  Phases whole[2];
  bool any = find_phases(n, 0, false, &out[0]) && find_phases(n, 1, false, &out[1]);
  if (!find_phases(n, 0, true, &whole[0]) || !find_phases(n, 1, true, &whole[1])) return any;
  if (any && out[0].taps * out[1].taps <= whole[0].taps * whole[1].taps) return true;
  memcpy(out, whole, sizeof whole);
  return true;
}

static Node *cut_off(Graph *g, Node *x, const Phases *p) {
  int64_t from[2], to[2], axes[2] = {2, 3};
  for (int i = 0; i < 2; i++) {
    from[i] = p[i].first;
    to[i] = p[i].last ? -p[i].last : INT64_MAX;
  }
  if (!p[0].first && !p[1].first && !p[0].last && !p[1].last) return x;
  return N(g, slice, x, node_i64s(g, 2, from), node_i64s(g, 2, to), node_i64s(g, 2, axes));
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
      !dtype_is_float(type_of(n)->dtype) || !find_all(n, p) || p[0].stride != p[1].stride ||
      p[0].stride > 8 || !ie_is_const(w->dims[0]) || !ie_is_const(w->dims[1]))
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
  return cut_off(g, NA(g, depth_to_space, (&(depth_to_space_attrs){.blocksize = s}), conv), p);
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

// ---- maxima ----

static Node *along_axis(Graph *g, Node *x, const max_pool_attrs *at, int axis) {
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1}, pads[4] = {0};
  max_pool_attrs one = *at;
  kernel[axis] = at->kernel_shape.v[axis];
  stride[axis] = item(at->strides, axis, 1);
  dilation[axis] = item(at->dilations, axis, 1);
  pads[axis] = item(at->pads, axis, 0);
  pads[2 + axis] = item(at->pads, 2 + axis, 0);
  one.kernel_shape = (Ints){2, kernel};
  one.strides = (Ints){2, stride};
  one.dilations = (Ints){2, dilation};
  one.pads = (Ints){4, pads};
  return NA(g, max_pool, &one, x);
}

// First along lines, which leaves all of them, then across.
static Node *max_of_lines(Graph *g, const Match *m) {
  const Node *n = m->root;
  const max_pool_attrs *at = n->attrs;
  if (n->nres != 1 || node_channels_last(n) || at->kernel_shape.n != 2 ||
      at->auto_pad != PAD_NOTSET)
    return NULL;
  int64_t high = at->kernel_shape.v[0], wide = at->kernel_shape.v[1], all, lines;
  if (high < 2 || wide < 2 || !ck_mul(high, wide, &all) ||
      !ck_mul(item(at->strides, 0, 1), wide, &lines) || !ck_add(lines, high, &lines) ||
      all / 2 < lines)
    return NULL;
  return along_axis(g, along_axis(g, n->src[0], at, 1), at, 0);
}

#define X "(%x: f32[n, 2, 3, 4]) { "

static const Rule blocks[] = {
    // clang-format off
    RULE("conv_transpose.blocks", ANY(conv_transpose), .make = transposed, .fast = FAST_REASSOC,
         .example = X "%w = const f32[2, 1, 3, 4] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 2, 1, 1, 1, 3, 4, 5, 6, 7, 8, -9, 1, 2, 3, 4, 5} %b = const f32[1] {0.5} "
                    "%r = conv_transpose(%x, %w, %b) strides=[2, 2] pads=[1, 1, 1, 1] output_padding=[1, 0] return %r }"),
    RULE("conv_transpose.cut", ANY(conv_transpose), .make = transposed, .fast = FAST_REASSOC,
         .example = X "%w = const f32[2, 1, 2, 4] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 2, 1, 1, 1, 3, 4, 5, 6} "
                    "%r = conv_transpose(%x, %w) strides=[2, 2] pads=[0, 1, 1, 1] return %r }"),
    RULE("depth_to_space.order", P(depth_to_space, BIND_ANY(p, conv)), .make = shuffled,
         .example = X "%w = const f32[4, 2, 1, 1] {1, 2, 3, -1, -2, 1, 0.5, 0.25} %b = const f32[4] {0.5, 1, 2, 3} %c = conv(%x, %w, %b) "
                    "%r = depth_to_space(%c) blocksize=2 mode=CRD return %r }"),
    RULE("max_pool.lines", ANY(max_pool), .make = max_of_lines,
         .example = "(%x: f32[n, 2, 9, 8]) { %r = max_pool(%x) kernel_shape=[5, 6] pads=[2, 1, 0, 2] strides=[1, 2] ceil_mode=true return %r }"),
    // clang-format on
};
const RuleSet rules_blocks =
    RULES("blocks", blocks,
          "fewer transposed convolutions, fewer blocks in the other order, smaller windows");
