// recognise_move.c -- movements that came in pieces: pixel and channel shuffles.
#include "eval/index.h"
#include "eval/movement.h"
#include "rules/letters.h"
#include "rules/recognise.h"
#include "rules/rules.h"

// ---- reshape, transpose, reshape ----

static bool perm_is(const Node *n, int rank, const int64_t *want) {
  int64_t perm[MAX_RANK];
  if (transpose_perm(n, perm) != rank) return false;
  return !memcmp(perm, want, (size_t)rank * sizeof *perm);
}

// The blocks of a pixel shuffle of rank 4 through rank 6; side: where its two sides stand.
static bool block_side(const Type *mid, int first, int second, int64_t *side) {
  if (mid->dims[first] != mid->dims[second] || !ie_is_const(mid->dims[first])) return false;
  *side = mid->dims[first]->value;
  return *side > 0;
}

static Node *make_pixel_shuffle(Graph *g, const Match *m) {
  static const int64_t crd[] = {0, 1, 4, 2, 5, 3}, dcr[] = {0, 3, 4, 1, 5, 2};
  Node *x = m->var[SLOT_a], *turn = m->var[SLOT_p];
  const Type *t = type_of(x), *mid = type_of(m->var[SLOT_q]);
  if (t->rank != 4 || mid->rank != 6) return NULL;
  bool first = perm_is(turn, 6, crd);
  if (!first && !perm_is(turn, 6, dcr)) return NULL;
  depth_to_space_attrs at = {.mode = first};
  if (!block_side(mid, first ? 2 : 1, first ? 3 : 2, &at.blocksize)) return NULL;
  if (mid->dims[0] != t->dims[0] || mid->dims[4] != t->dims[2] || mid->dims[5] != t->dims[3])
    return NULL;
  return NA(g, depth_to_space, &at, x);
}

static Node *make_pixel_unshuffle(Graph *g, const Match *m) {
  static const int64_t dcr[] = {0, 3, 5, 1, 2, 4}, crd[] = {0, 1, 3, 5, 2, 4};
  Node *x = m->var[SLOT_a], *turn = m->var[SLOT_p];
  const Type *t = type_of(x), *mid = type_of(m->var[SLOT_q]);
  if (t->rank != 4 || mid->rank != 6) return NULL;
  bool last = perm_is(turn, 6, crd);
  if (!last && !perm_is(turn, 6, dcr)) return NULL;
  space_to_depth_attrs at = {.mode = last};
  if (!block_side(mid, 3, 5, &at.blocksize)) return NULL;
  IntPool *pool = &g->dims;
  if (mid->dims[0] != t->dims[0] || mid->dims[1] != t->dims[1] ||
      ie_mul(pool, mid->dims[2], mid->dims[3]) != t->dims[2] ||
      ie_mul(pool, mid->dims[4], mid->dims[5]) != t->dims[3])
    return NULL;
  return NA(g, space_to_depth, &at, x);
}

// Channels in another order are picked by number: whole planes move.
static Node *make_channel_shuffle(Graph *g, const Match *m) {
  enum { CHANNELS_MAX = 65536 };
  static const int64_t swap[MAX_RANK + 1] = {0, 2, 1, 3, 4, 5, 6, 7};
  Node *x = m->var[SLOT_a], *turn = m->var[SLOT_p];
  const Type *t = type_of(x), *mid = type_of(m->var[SLOT_q]);
  if (t->rank < 3 || t->rank > 6 || mid->rank != t->rank + 1 || !perm_is(turn, mid->rank, swap))
    return NULL;
  if (mid->dims[0] != t->dims[0] || !ie_is_const(mid->dims[1]) || !ie_is_const(mid->dims[2]) ||
      !ie_is_const(t->dims[1]))
    return NULL;
  for (int i = 2; i < t->rank; i++)
    if (mid->dims[i + 1] != t->dims[i]) return NULL;
  int64_t groups = mid->dims[1]->value, each = mid->dims[2]->value, n = t->dims[1]->value;
  if (groups < 2 || each < 2 || n > CHANNELS_MAX || groups > n || groups * each != n) return NULL;
  int64_t *from = arena_array(&g->scratch, int64_t, n);
  for (int64_t i = 0; i < n; i++) from[i] = i % groups * each + i / groups;
  return NA(g, gather, (&(gather_attrs){.axis = 1}), x, node_i64s(g, n, from));
}

#define X4 "(%x: f32[2, 12, 4, 6]) { "

static const Rule move[] = {
    // clang-format off
    RULE("depth_to_space.pixel_shuffle", P(reshape, BIND(p, transpose, BIND(q, reshape, a, b)), c), .make = make_pixel_shuffle,
         .example = X4 "%s = const i64[6] {2, 3, 2, 2, 4, 6} %m = reshape(%x, %s) %t = transpose(%m) perm=[0, 1, 4, 2, 5, 3] "
                    "%o = const i64[4] {2, 3, 8, 12} %r = reshape(%t, %o) return %r }"),
    RULE("space_to_depth.pixel_unshuffle", P(reshape, BIND(p, transpose, BIND(q, reshape, a, b)), c), .make = make_pixel_unshuffle,
         .example = X4 "%s = const i64[6] {2, 12, 2, 2, 3, 2} %m = reshape(%x, %s) %t = transpose(%m) perm=[0, 1, 3, 5, 2, 4] "
                    "%o = const i64[4] {2, 48, 2, 3} %r = reshape(%t, %o) return %r }"),
    RULE("gather.channel_shuffle", P(reshape, BIND(p, transpose, BIND(q, reshape, a, b)), c), .make = make_channel_shuffle,
         .example = X4 "%s = const i64[5] {2, 3, 4, 4, 6} %m = reshape(%x, %s) %t = transpose(%m) perm=[0, 2, 1, 3, 4] "
                    "%o = const i64[4] {2, 12, 4, 6} %r = reshape(%t, %o) return %r }"),
    // clang-format on
};
const RuleSet rules_recognise_move =
    RULES("recognise_move", move, "each rule leaves fewer nodes that are not composites");
