// blocks.c -- convolutions whose results are blocks of pixels.
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

#define X "(%x: f32[n, 2, 3, 4]) { "

static const Rule blocks[] = {
    // clang-format off
    RULE("depth_to_space.order", P(depth_to_space, BIND_ANY(p, conv)), .make = shuffled,
         .example = X "%w = const f32[4, 2, 1, 1] {1, 2, 3, -1, -2, 1, 0.5, 0.25} %b = const f32[4] {0.5, 1, 2, 3} %c = conv(%x, %w, %b) "
                    "%r = depth_to_space(%c) blocksize=2 mode=CRD return %r }"),
    // clang-format on
};
const RuleSet rules_blocks = RULES("blocks", blocks, "fewer blocks of channels in the other order");
