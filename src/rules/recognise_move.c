// recognise_move.c -- movements and rotations that came in pieces: pixel and channel shuffles, rotary embedding.
#include "eval/attention.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "ir/internal.h"
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

// ---- rotary embedding: x cos + rotate_half(x) sin ----

// A part of a tensor along its last axis: n itself is base[..., from : from + size].
typedef struct Part {
  const Node *base;
  int64_t from, size;
} Part;

static bool sliced(Graph *g, const Node *n, int64_t *from) {
  Ints start, axes, step;
  int rank = type_of(n)->rank;
  Dim whole = type_of(n->src[0])->dims[rank - 1];
  if (n->op != OP_slice || n->nsrc < 4 || n->src[3] == g->none || !ie_is_const(whole)) return false;
  if (!node_ints(g, n->src[1], &start) || !node_ints(g, n->src[3], &axes) || start.n != 1 ||
      axes.n != 1 || (axes.v[0] != -1 && axes.v[0] != rank - 1))
    return false;
  if (n->nsrc > 4 && (!node_ints(g, n->src[4], &step) || step.n != 1 || step.v[0] != 1))
    return false;
  *from = start.v[0] < 0 ? start.v[0] + whole->value : start.v[0];
  return *from >= 0;
}

static bool part_of(Graph *g, const Node *n, Part *out) {
  int rank = type_of(n)->rank;
  if (rank < 1 || !ie_is_const(type_of(n)->dims[rank - 1])) return false;
  *out = (Part){n, 0, type_of(n)->dims[rank - 1]->value};
  for (int depth = 0; depth < 4; depth++) {
    int64_t from;
    if (out->base->op == OP_proj && out->base->src[0]->op == OP_split) {
      const Node *split = out->base->src[0];
      int64_t axis = ((const split_attrs *)split->attrs)->axis;
      int64_t at = ((const proj_attrs *)out->base->attrs)->index;
      if (axis != -1 && axis != rank - 1) return true;
      for (int64_t i = 0; i < at; i++) {
        if (!ie_is_const(split->type[i]->dims[rank - 1])) return true;
        out->from += split->type[i]->dims[rank - 1]->value;
      }
      out->base = split->src[0];
    } else if (out->base->op == OP_slice && sliced(g, out->base, &from)) {
      out->from += from;
      out->base = out->base->src[0];
    } else {
      break;
    }
  }
  return true;
}

// Is n the first (0) or second half of x along its last axis?
static bool is_half(Graph *g, const Node *n, const Node *x, int which) {
  Part p, whole;
  if (type_of(n)->rank != type_of(x)->rank || !part_of(g, n, &p) || !part_of(g, x, &whole))
    return false;
  return p.base == whole.base && p.size * 2 == whole.size && p.from == whole.from + which * p.size;
}

static bool rotates(Graph *g, const Node *n, const Node *x) {
  const concat_attrs *at = n->attrs;
  int rank = type_of(x)->rank;
  return n->op == OP_concat && n->nsrc == 2 && (at->axis == -1 || at->axis == rank - 1) &&
         n->src[0]->op == OP_neg && is_half(g, n->src[0]->src[0], x, 1) &&
         is_half(g, n->src[1], x, 0);
}

static Node *half_table(Graph *g, const Node *n) {  // rows whose halves are the same bytes
  enum { TABLE_MAX = 1 << 24 };
  const Type *t = type_of(n);
  const void *bytes;
  int64_t row = 0, dims[MAX_RANK] = {0};
  if (t->rank < 1 || n->data->bytes > TABLE_MAX || n->data->bytes < 1) return NULL;
  Diag *quiet = arena_new(&g->scratch, Diag);
  diag_init(quiet);
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  if (dims[t->rank - 1] % 2 || !dtype_bytes(t->dtype, dims[t->rank - 1], &row) || row % 2)
    return NULL;
  if (const_bytes(g, n, &bytes, quiet)) return NULL;
  int64_t rows = n->data->bytes / row, half = row / 2;
  char *out = arena_alloc(&g->scratch, rows * half);
  for (int64_t i = 0; i < rows; i++) {
    const char *p = (const char *)bytes + i * row;
    if (memcmp(p, p + half, (size_t)half)) return NULL;
    memcpy(out + i * half, p, (size_t)half);
  }
  dims[t->rank - 1] /= 2;
  return node_const(g, t->dtype, t->rank, dims, out, n->name);
}

// The first half of n along its last axis where the second is the same; NULL when that cannot be seen.
static Node *half_of(Graph *g, Node *n, int depth) {
  int rank = type_of(n)->rank;
  if (rank < 1 || !depth) return NULL;
  if (n->op == OP_const) return half_table(g, n);
  if (n->op == OP_concat) {
    int64_t axis = ((const concat_attrs *)n->attrs)->axis;
    bool twice = n->nsrc == 2 && n->src[0] == n->src[1] && (axis == -1 || axis == rank - 1);
    return twice ? n->src[0] : NULL;
  }
  Node *src[2] = {NULL};
  switch (n->op) {
  case OP_cos:
  case OP_sin:
  case OP_neg:
  case OP_cast: src[0] = half_of(g, n->src[0], depth - 1); break;
  case OP_mul: {
    double v;
    int number = rec_number(g, n->src[1], &v) ? 1 : 0;
    if (!rec_number(g, n->src[number], &v) || !same_type(n, n->src[1 - number])) return NULL;
    src[0] = half_of(g, n->src[1 - number], depth - 1);
    src[1] = node_scalar(g, type_of(n)->dtype, v);
    break;
  }
  case OP_gather:
    if (((const gather_attrs *)n->attrs)->axis != 0 || type_of(n->src[0])->rank != 2) return NULL;
    src[0] = half_of(g, n->src[0], depth - 1);
    src[1] = n->src[1];
    break;
  default: return NULL;
  }
  return src[0] ? node_new(g, n->op, src[1] ? 2 : 1, src, n->attrs, 1, NULL) : NULL;
}

// cos or sin as the op wants it: [batch, seq, half].
static Node *angles(Graph *g, Node *n, Node *x) {
  const Type *tx = type_of(x);
  const Type *u = type_of(n);
  if (u->rank == 4 && ie_is(u->dims[1], 1) && n->op != OP_const) {
    n = rec_view(g, n, 3, (Dim[]){u->dims[0], u->dims[2], u->dims[3]});
    if (!n) return NULL;
  }
  const Type *t = type_of(n);
  int lead = t->rank - 2;  // axes before the sequence
  if (lead < 0 || lead > 2 || t->dims[lead] != tx->dims[2] || t->dims[lead + 1] != tx->dims[3])
    return NULL;
  if (lead == 2 && !ie_is(t->dims[1], 1)) return NULL;
  bool by_batch = lead > 0 && t->dims[0] == tx->dims[0];
  if (lead > 0 && !by_batch && !ie_is(t->dims[0], 1)) return NULL;
  n = half_of(g, n, 8);
  if (!n) return NULL;
  const Dim *sizes = type_of(n)->dims;
  n = rec_view(g, n, 3, (Dim[]){lead ? sizes[0] : g->dims.one, sizes[lead], sizes[lead + 1]});
  if (!n) return NULL;
  if (by_batch || ie_is(tx->dims[0], 1)) return n;
  Node *parts[] = {NA(g, shape, (&(shape_attrs){.start = 0, .end = 1}), x),
                   node_i64s(g, 2, (int64_t[]){1, 1})};
  return N(g, expand, n, node_new(g, OP_concat, 2, parts, &(concat_attrs){.axis = 0}, 1, NULL));
}

static Node *make_rotary(Graph *g, const Match *m) {
  for (int i = 0; i < 8; i++) {
    const Node *plain = m->root->src[i & 1], *turned = m->root->src[1 - (i & 1)];
    Node *x = plain->src[i >> 1 & 1], *c0 = plain->src[1 - (i >> 1 & 1)];
    Node *r = turned->src[i >> 2 & 1], *s0 = turned->src[1 - (i >> 2 & 1)];
    if (type_of(x)->rank != 4 || type_of(x) != type_of(m->root) || !rotates(g, r, x)) continue;
    Node *cosine = angles(g, c0, x), *sine = cosine ? angles(g, s0, x) : NULL;
    if (sine && type_of(sine) == type_of(cosine)) return N(g, rotary_embedding, x, cosine, sine);
  }
  return NULL;
}

#define X4 "(%x: f32[2, 12, 4, 6]) { "
#define ROTARY                                                                                     \
  "(%x: f32[b, 2, s, 8], %a: f32[b, s, 4]) { %ang = concat(%a, %a) axis=2 %c = cos(%ang) %s = "    \
  "sin(%ang) %one = const i64[1] {1} %cu = unsqueeze(%c, %one) %su = unsqueeze(%s, %one) %i0 = "   \
  "const i64[1] {0} %i4 = const i64[1] {4} %i8 = const i64[1] {8} %ax = const i64[1] {3} %lo = "   \
  "slice(%x, %i0, %i4, %ax) %hi = slice(%x, %i4, %i8, %ax) %nh = neg(%hi) %rot = concat(%nh, "     \
  "%lo) axis=3 %xc = mul(%x, %cu) %xs = mul(%rot, %su) %r = add(%xc, %xs) return %r }"

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
    RULE("rotary_embedding.rotate_half", P(add, P(mul, a, b), P(mul, c, d)), .make = make_rotary, .fast = FAST_APPROX, .example = ROTARY),
    // clang-format on
};
const RuleSet rules_recognise_move =
    RULES("recognise_move", move, "each rule leaves fewer nodes that are not composites");
