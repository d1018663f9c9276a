// move.c -- movements that came in pieces: pixel and channel shuffles, products by index
// letters.
#include "eval/contract.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/rnn.h"
#include "ir/internal.h"
#include "rules/letters.h"
#include "rules/recognise/recognise.h"
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
  Node *x = m->var[SLOT_a], *transposed = m->var[SLOT_p];
  const Type *t = type_of(x), *mid = type_of(m->var[SLOT_q]);
  if (t->rank != 4 || mid->rank != 6) return NULL;
  bool first = perm_is(transposed, 6, crd);
  if (!first && !perm_is(transposed, 6, dcr)) return NULL;
  depth_to_space_attrs at = {.mode = first};
  if (!block_side(mid, first ? 2 : 1, first ? 3 : 2, &at.blocksize)) return NULL;
  if (mid->dims[0] != t->dims[0] || mid->dims[4] != t->dims[2] || mid->dims[5] != t->dims[3])
    return NULL;
  return NA(g, depth_to_space, &at, x);
}

static Node *make_pixel_unshuffle(Graph *g, const Match *m) {
  static const int64_t dcr[] = {0, 3, 5, 1, 2, 4}, crd[] = {0, 1, 3, 5, 2, 4};
  Node *x = m->var[SLOT_a], *transposed = m->var[SLOT_p];
  const Type *t = type_of(x), *mid = type_of(m->var[SLOT_q]);
  if (t->rank != 4 || mid->rank != 6) return NULL;
  bool last = perm_is(transposed, 6, crd);
  if (!last && !perm_is(transposed, 6, dcr)) return NULL;
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
  Node *x = m->var[SLOT_a], *transposed = m->var[SLOT_p];
  const Type *t = type_of(x), *mid = type_of(m->var[SLOT_q]);
  if (t->rank < 3 || t->rank > 6 || mid->rank != t->rank + 1 ||
      !perm_is(transposed, mid->rank, swap))
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

// ---- rows taken one by one and put together again ----

// The state after the last step of a recurrent layer is also the last row of its first result.
static Node *last_row(Graph *g, const Node *n, int64_t *k) {
  if (n->op != OP_proj || ((const proj_attrs *)n->attrs)->index != 1) return NULL;
  Node *layer = n->src[0];
  bool lstm = layer->op == OP_lstm;
  if ((!lstm && layer->op != OP_gru) || src_or_null(g, layer, 4)) return NULL;
  const lstm_attrs *l = lstm ? layer->attrs : NULL;
  const gru_attrs *r = lstm ? NULL : layer->attrs;
  if ((lstm ? l->direction : r->direction) != RNN_FORWARD || (lstm ? l->layout : r->layout))
    return NULL;
  Dim steps = layer->type[0]->dims[0];
  if (!ie_is_const(steps) || steps->value < 1) return NULL;
  *k = steps->value - 1;
  return node_proj(g, layer, 0);
}

// n = x[..., k, ...], its axis dropped or moved: the axis, and k.
static Node *row_of(Graph *g, const Node *n, int *axis, int64_t *k) {
  Ints start, axes;
  const Node *cut = n->op == OP_reshape ? n->src[0] : n;
  Node *rows = last_row(g, cut, k);
  *axis = 0;
  if (rows) return rows;
  if (cut->op != OP_slice || cut->nsrc != 4 || !node_ints(g, cut->src[1], &start) ||
      cut->src[3] == g->none || !node_ints(g, cut->src[3], &axes) || axes.n != 1 || start.n != 1)
    return NULL;
  *axis = axis_of(axes.v[0], type_of(cut)->rank);
  *k = start.v[0];
  return *axis >= 0 && ie_is(type_of(cut)->dims[*axis], 1) ? cut->src[0] : NULL;
}

// The dims of t but for one axis; those of size 1 do not matter.
static int dims_without(const Type *t, int axis, Dim *out) {
  int n = 0;
  for (int i = 0; i < t->rank; i++)
    if (i != axis && !ie_is(t->dims[i], 1)) out[n++] = t->dims[i];
  return n;
}

static Node *make_rows(Graph *g, const Match *m) {
  const Node *n = m->root;
  const Type *t = type_of(n);
  int to = axis_of(((const concat_attrs *)n->attrs)->axis, t->rank), from = -1, axis;
  Node *x = NULL;
  if (n->nsrc < 2 || to < 0) return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    int64_t k;
    Node *base = row_of(g, n->src[i], &axis, &k);
    if (!base || (x && (base != x || axis != from)) || k != (int64_t)i) return NULL;
    if (!ie_is(type_of(n->src[i])->dims[to], 1)) return NULL;
    x = base;
    from = axis;
  }
  const Type *tx = type_of(x);
  Dim p[MAX_RANK], q[MAX_RANK];
  int rank = dims_without(tx, from, p);
  if (!ie_is(tx->dims[from], n->nsrc) || dims_without(t, to, q) != rank ||
      memcmp(p, q, (size_t)rank * sizeof *p) || rank + 1 > MAX_RANK)
    return NULL;
  // Without axes of size 1, the rows' axis from where it was to where it goes.
  int before = 0, after = 0;
  for (int i = 0; i < from; i++) before += !ie_is(tx->dims[i], 1);
  for (int i = 0; i < to; i++) after += !ie_is(t->dims[i], 1);
  Dim dims[MAX_RANK];
  int64_t perm[MAX_RANK];
  for (int i = 0, k = 0; i <= rank; i++) dims[i] = i == before ? tx->dims[from] : p[k++];
  for (int i = 0, k = 0; i <= rank; i++) {
    if (i == after) {
      perm[i] = before;
      continue;
    }
    if (k == before) k++;
    perm[i] = k++;
  }
  x = reshape_to(g, x, type_tensor(g, t->dtype, rank + 1, dims));
  return x ? reshape_to(g, transpose_to(g, x, rank + 1, perm), t) : NULL;
}

// ---- einsum ----

// What an index of a two-operand equation is: of both and the result, summed over, of one alone.
enum { IN_BATCH, IN_ROWS, IN_SUM, IN_COLUMNS, IN_KINDS };
typedef struct Product {
  uint8_t label[IN_KINDS][MAX_RANK];
  int n[IN_KINDS];
} Product;

static int place_of(const uint8_t *v, int n, uint8_t label) {
  for (int i = 0; i < n; i++)
    if (v[i] == label) return i;
  return -1;
}

static bool sort_indices(const Einsum *q, Product *p) {
  *p = (Product){.n = {0}};
  for (int op = 0; op < 2; op++)
    for (int i = 0; i < q->nlabels[op]; i++) {
      uint8_t l = q->label[op][i];
      if (place_of(q->label[op], i, l) >= 0) return false;  // a diagonal
      bool other = place_of(q->label[1 - op], q->nlabels[1 - op], l) >= 0;
      bool kept = place_of(q->out, q->nout, l) >= 0;
      if (!other && !kept) return false;
      int kind = other ? (kept ? IN_BATCH : IN_SUM) : op ? IN_COLUMNS : IN_ROWS;
      if (!op || !other) p->label[kind][p->n[kind]++] = l;
    }
  return p->n[IN_SUM] > 0;
}

// x with its axes in the order of two kinds after the batch, each kind as one axis.
static Node *as_matrices(Graph *g, const Einsum *q, const Product *p, int op, Node *x, int first,
                         int second) {
  int64_t perm[MAX_RANK];
  Dim dims[MAX_RANK];
  int n = 0, kinds[] = {IN_BATCH, first, second};
  const Type *t = type_of(x);
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < p->n[kinds[k]]; i++)
      perm[n++] = place_of(q->label[op], q->nlabels[op], p->label[kinds[k]][i]);
  int rank = p->n[IN_BATCH];
  for (int i = 0; i < rank; i++) dims[i] = t->dims[perm[i]];
  for (int k = 1, at = rank; k < 3; k++) {
    Dim size = g->dims.one;
    for (int i = 0; i < p->n[kinds[k]]; i++) size = ie_mul(&g->dims, size, t->dims[perm[at++]]);
    if (ie_is_poison(size)) return NULL;
    dims[rank++] = size;
  }
  return reshape_to(g, transpose_to(g, x, t->rank, perm), type_tensor(g, t->dtype, rank, dims));
}

// Sizes that an index has in both operands must be equal: a 1 would be broadcast.
static bool sizes_agree(const Einsum *q, const Type *x, const Type *y) {
  for (int i = 0; i < q->nlabels[0]; i++) {
    int at = place_of(q->label[1], q->nlabels[1], q->label[0][i]);
    if (at >= 0 && x->dims[i] != y->dims[at]) return false;
  }
  return true;
}

// The product's axes, each kind split again, in the equation's order.
static Node *in_order(Graph *g, const Einsum *q, const Product *p, Node *z, const Type *want) {
  static const int kinds[] = {IN_BATCH, IN_ROWS, IN_COLUMNS};
  int64_t perm[MAX_RANK];
  Dim dims[MAX_RANK];
  int n = 0;
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < p->n[kinds[k]]; i++, n++) {
      int at = place_of(q->out, q->nout, p->label[kinds[k]][i]);
      perm[at] = n;
      dims[n] = want->dims[at];
    }
  z = reshape_to(g, z, type_tensor(g, want->dtype, n, dims));
  return z ? transpose_to(g, z, n, perm) : NULL;
}

static Node *make_einsum(Graph *g, const Match *m) {
  const Node *n = m->root;
  Einsum *q = arena_new(&g->scratch, Einsum);
  Product p;
  int64_t at;
  if (n->nsrc != 2) return NULL;
  const Type *x = type_of(n->src[0]), *y = type_of(n->src[1]), *t = type_of(n);
  if (x->rank < 1 || y->rank < 1 || t->rank < 0 || !dtype_is_float(t->dtype)) return NULL;
  if (einsum_parse(((const einsum_attrs *)n->attrs)->equation, 2, (int[]){x->rank, y->rank}, q,
                   &at))
    return NULL;
  if (!sort_indices(q, &p) || !sizes_agree(q, x, y) ||
      q->nout != p.n[IN_BATCH] + p.n[IN_ROWS] + p.n[IN_COLUMNS] || q->nout != t->rank)
    return NULL;
  Node *left = as_matrices(g, q, &p, 0, n->src[0], IN_ROWS, IN_SUM);
  Node *right = as_matrices(g, q, &p, 1, n->src[1], IN_SUM, IN_COLUMNS);
  if (!left || !right) return NULL;
  return in_order(g, q, &p, N(g, mat_mul, left, right), t);
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
    RULE("concat.rows", ANY(concat), .make = make_rows,
         .example = "(%x: f32[n, 2, 3]) { %i0 = const i64[1] {0} %i1 = const i64[1] {1} %i2 = const i64[1] {2} %s = slice(%x, %i0, %i1, %i1) %t = slice(%x, %i1, %i2, %i1) "
                    "%h = const i64[3] {1, -1, 3} %u = reshape(%s, %h) %v = reshape(%t, %h) %r = concat(%u, %v) axis=0 return %r }"),
    RULE("mat_mul.einsum", ANY(einsum), .make = make_einsum, .fast = FAST_REASSOC,
         .example = "(%x: f32[2, n, 3, 4], %y: f32[2, m, 3, 4]) { %r = einsum(%x, %y) equation=\"bqhd,bkhd->bhqk\" return %r }"),
    RULE("gather.channel_shuffle", P(reshape, BIND(p, transpose, BIND(q, reshape, a, b)), c), .make = make_channel_shuffle,
         .example = X4 "%s = const i64[5] {2, 3, 4, 4, 6} %m = reshape(%x, %s) %t = transpose(%m) perm=[0, 2, 1, 3, 4] "
                    "%o = const i64[4] {2, 12, 4, 6} %r = reshape(%t, %o) return %r }"),
    // clang-format on
};
const RuleSet rules_recognise_move =
    RULES("recognise_move", move, "each rule leaves fewer nodes that are not composites");
