// windows.c -- cheaper forms of convolutions before depth_to_space, and of large max pools.
//
// A depth_to_space in CRD order becomes one in DCR order: the weights get the other order of
// channels.  A large max pool becomes two, one along each axis: the maximum of a line serves
// several windows.
//
// These rules come after all others that know convolutions.
#include "eval/contract.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/window.h"

#include "ops/order.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

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

static int64_t item(Ints l, int i, int64_t otherwise) { return l.n ? l.v[i] : otherwise; }

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

static const Rule windows[] = {
    // clang-format off
    RULE("depth_to_space.order", P(depth_to_space, BIND_ANY(p, conv)), .make = shuffled,
         .example = X "%w = const f32[4, 2, 1, 1] {1, 2, 3, -1, -2, 1, 0.5, 0.25} %b = const f32[4] {0.5, 1, 2, 3} %c = conv(%x, %w, %b) "
                    "%r = depth_to_space(%c) blocksize=2 mode=CRD return %r }"),
    RULE("max_pool.lines", ANY(max_pool), .make = max_of_lines,
         .example = "(%x: f32[n, 2, 9, 8]) { %r = max_pool(%x) kernel_shape=[5, 6] pads=[2, 1, 0, 2] strides=[1, 2] ceil_mode=true return %r }"),
    // clang-format on
};
const RuleSet rules_windows =
    RULES("windows", windows, "fewer blocks of channels in the other order, smaller windows");
