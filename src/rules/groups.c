// groups.c -- convolutions of many small groups as ones of fewer groups, for tensor cores.
//
// An MMA tile multiplies blocks of 64 channels by 32 columns or more.  Where a group has fewer
// channels, several groups become one: their weights are the blocks on the diagonal of a matrix
// whose other elements are 0.  That multiplies more, but on tensor cores, which are faster by more
// than that.  Depthwise convolutions stay: they are bound by memory.
#include "eval/contract.h"
#include "eval/movement.h"

#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

enum { BLOCK_CHANNELS = 64, LINE_CHANNELS = 8, SPATIAL = 2 };

// How many groups become one; 1: none does.
static int64_t joined(int64_t groups, int64_t channels) {
  int64_t best = 1;
  for (int64_t n = 2; n <= groups && n * channels <= BLOCK_CHANNELS; n++)
    if (groups % n == 0 && n * channels % LINE_CHANNELS == 0) best = n;
  // One that is left can be filled up to whole lines.
  bool odd = best == 1 && channels % LINE_CHANNELS && groups * channels <= 2 * BLOCK_CHANNELS;
  return odd ? groups : best;
}

static Node *join_groups(Graph *g, const Match *m) {
  const Node *conv = m->root;
  conv_attrs at = *(const conv_attrs *)conv->attrs;
  const Type *x = type_of(conv->src[0]), *w = type_of(conv->src[1]);
  if (at.channels_last || at.group < 2 || conv->src[1]->op != OP_const || !type_is_static(w) ||
      w->rank < 3 || x->dtype != DT_F32)
    return NULL;
  int64_t channels = w->dims[1]->value, columns = w->dims[0]->value / at.group, taps = 1;
  int64_t n = joined(at.group, channels), dims[MAX_RANK];
  if (channels < 2 || columns < 1 || n == 1) return NULL;
  for (int i = 0; i < w->rank; i++) dims[i] = w->dims[i]->value;
  for (int i = SPATIAL; i < w->rank; i++) taps *= dims[i];
  dims[1] = n * channels;
  int64_t split[] = {at.group / n, n, columns, 1, channels * taps}, which[] = {n, 1, n, 1};
  float *one = arena_array(&g->scratch, float, n *n);
  for (int64_t i = 0; i < n; i++) one[i * n + i] = 1;
  Node *diagonal = node_const(g, DT_F32, ARRAY_LEN(which), which, one, NULL);
  Node *alone = N(g, reshape, conv->src[1], node_i64s(g, ARRAY_LEN(split), split));
  Node *blocks = N(g, mul, alone, diagonal);
  at.group /= n;
  Node *src[3] = {conv->src[0], N(g, reshape, blocks, node_i64s(g, w->rank, dims)),
                  src_or_null(g, conv, 2)};
  Node *r = node_new(g, OP_conv, src[2] ? 3 : 2, src, &at, 1, conv->name);
  return r != g->poison && type_of(r) == type_of(conv) ? r : NULL;
}

static const Rule groups[] = {
    // clang-format off
    RULE("conv.join_groups", ANY(conv), .make = join_groups, .fast = FAST_REASSOC,
         .example = "(%x: f32[n, 8, 3, 2]) { %w = const f32[4, 4, 1, 1] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 4, 1, 0, -1, 2, 3, -2, 0.5} "
                    "%r = conv(%x, %w) group=2 return %r }"),
    // clang-format on
};
const RuleSet rules_groups = RULES("groups", groups, "convolutions of fewer groups");
