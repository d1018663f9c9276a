// sink.c -- movement goes below arithmetic, where it meets other movement and cancels.
//
// f(transpose(x)) => transpose(f(x)), and so for reshapes and broadcasts, when the other operands
// are numbers, constants that can be transposed back, or moved in the same way.  Exporters that
// convert layouts wrap each convolution in two transposes: sinking brings the second of one to the
// first of the next.
#include "eval/contract.h"
#include "eval/reduce.h"

#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

static bool is_number(Graph *g, const Node *n) {
  const Type *t = type_of(n);
  Dim count = t->kind == TK_TENSOR && t->rank >= 0 ? type_numel(g, t) : NULL;
  return count && ie_is(count, 1);
}

// The number without axes, so that it broadcasts against anything.
static Node *as_scalar(Graph *g, Node *n) {
  return reshape_to(g, n, type_scalar(g, type_of(n)->dtype));
}

// A constant as it must be before the transpose, so that broadcasting still pairs the right axes.
static Node *transposed_back(Graph *g, Node *v, int rank, const int64_t *perm) {
  const Type *t = type_of(v);
  Dim dims[MAX_RANK];
  int64_t inverse[MAX_RANK];
  if (v->op != OP_const || t->rank < 0 || t->rank > rank) return NULL;
  for (int i = 0; i < rank; i++)
    dims[i] = i < rank - t->rank ? g->dims.one : t->dims[i - (rank - t->rank)];
  Node *whole = reshape_to(g, v, type_tensor(g, t->dtype, rank, dims));
  perm_inverse(rank, perm, inverse);
  return whole ? transpose_to(g, whole, rank, inverse) : NULL;
}

static Node *before_transpose(Graph *g, const Node *moved, Node *v) {
  int64_t perm[MAX_RANK], other[MAX_RANK];
  int rank = transpose_perm(moved, perm);
  if (is_materialized(v)) return NULL;
  if (v->op != OP_transpose) return transposed_back(g, v, rank, perm);
  if (transpose_perm(v, other) != rank || memcmp(perm, other, sizeof *perm * (size_t)rank))
    return NULL;
  return v->src[0];
}

static bool same_dims(const Type *x, const Type *y) {
  if (x->rank != y->rank) return false;
  return x->rank <= 0 || !memcmp(x->dims, y->dims, sizeof(Dim) * (size_t)x->rank);
}

// Reshaped alike, or a constant along the last axes, which stay.
static Node *before_reshape(const Node *moved, Node *v) {
  const Type *from = type_of(moved->src[0]), *to = type_of(moved), *t = type_of(v);
  if (v->op == OP_reshape && same_dims(type_of(v->src[0]), from) && same_dims(t, to))
    return v->src[0];
  if (v->op != OP_const || t->rank > from->rank || t->rank > to->rank) return NULL;
  for (int i = 1; i <= t->rank; i++)
    if (!ie_is(t->dims[t->rank - i], 1) && from->dims[from->rank - i] != to->dims[to->rank - i])
      return NULL;
  // Where the constant has the size 1 the axes may differ, but those behind it must not have moved.
  for (int i = 1, outer = 0; i <= t->rank; i++) {
    outer |= from->dims[from->rank - i] != to->dims[to->rank - i];
    if (outer && !ie_is(t->dims[t->rank - i], 1)) return NULL;
  }
  return v;
}

static Node *before(Graph *g, const Node *moved, Node *v) {
  if (v == g->none) return v;
  if (is_number(g, v) && v->op != moved->op) return as_scalar(g, v);
  if (moved->op == OP_transpose) return before_transpose(g, moved, v);
  return moved->op == OP_reshape ? before_reshape(moved, v) : NULL;
}

// The first operand that is moved and has no other user; a broadcast may have others: it costs
// nothing to repeat.
static const Node *moved_operand(const Match *m) {
  const Node *n = m->root;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const Node *s = n->src[i];
    bool moves = is_movable_transpose(s) || s->op == OP_reshape || s->op == OP_expand;
    if (moves && type_of(s)->rank >= 0 && type_of(s->src[0])->rank >= 0 &&
        type_of(s)->rank == type_of(n)->rank && (s->op == OP_expand || match_once(m, s)) &&
        s->src[0]->op != OP_const)
      return s;
  }
  return NULL;
}

static Node *sink(Graph *g, const Match *m) {
  const Node *n = m->root, *moved = moved_operand(m);
  Node *src[4];
  if (!moved || n->nsrc > 4) return NULL;
  if (n->op == OP_prelu && moved != n->src[0]) return NULL;  // x is never broadcast to the slope
  for (uint32_t i = 0; i < n->nsrc; i++) {
    src[i] = n->src[i] == moved ? moved->src[0] : before(g, moved, n->src[i]);
    if (!src[i]) return NULL;
  }
  // Arithmetic on fewer elements than before, or as many: a constant must not broadcast what was
  // moved.
  const Type *t = type_of(moved), *r = type_of(n);
  if (!same_dims(t, r)) return NULL;
  Node *y = node_with(g, n, src);
  if (y == g->poison || !same_dims(type_of(y), type_of(moved->src[0]))) return NULL;
  if (moved->op == OP_expand) return N(g, expand, y, moved->src[1]);
  if (moved->op == OP_reshape) return reshape_to(g, y, r);
  int64_t perm[MAX_RANK];
  int rank = transpose_perm(moved, perm);
  return transpose_to(g, y, rank, perm);
}

// concat of tensors that are all transposed alike.
static Node *sink_concat(Graph *g, const Match *m) {
  const Node *n = m->root, *first = n->src[0];
  int64_t perm[MAX_RANK];
  if (!is_movable_transpose(first) || n->nsrc > 64 || type_of(n)->rank < 0) return NULL;
  int rank = transpose_perm(first, perm);
  if (rank < 0) return NULL;
  Node *src[64];
  for (uint32_t i = 0; i < n->nsrc; i++) {
    if (!match_once(m, n->src[i]) || n->src[i]->op != OP_transpose) return NULL;
    src[i] = before_transpose(g, first, n->src[i]);
    if (!src[i]) return NULL;
  }
  concat_attrs at = {.axis = perm[axis_of(((const concat_attrs *)n->attrs)->axis, rank)]};
  return transpose_to(g, node_new(g, OP_concat, (int)n->nsrc, src, &at, 1, n->name), rank, perm);
}

// ---- pieces ----

static const Node *under_reshape(const Match *m, const Node *n) {
  return n->op == OP_reshape && match_once(m, n) ? n->src[0] : n;
}

static bool has_operand(const Node *n, const Node *x) {
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (n->src[i] == x) return true;
  return false;
}

// All are one node, or element-wise nodes of one operand that nobody else needs: a kernel computes
// them together.
static bool made_together(const Match *m, const Node *cat) {
  const Node *first = under_reshape(m, cat->src[0]);
  bool same = true, alike = match_once(m, cat);
  for (uint32_t i = 0; i < cat->nsrc; i++) {
    const Node *x = under_reshape(m, cat->src[i]);
    same &= cat->src[i] == cat->src[0];
    alike &=
        op_info(x->op)->flags & OPF_ELEMENTWISE && match_once(m, x) && match_once(m, cat->src[i]);
  }
  if (same || !alike) return same;
  for (uint32_t k = 0; k < first->nsrc; k++) {
    bool shared = first->src[k]->op != OP_const && type_of(first->src[k]) == type_of(first);
    for (uint32_t i = 1; shared && i < cat->nsrc; i++)
      shared = has_operand(under_reshape(m, cat->src[i]), first->src[k]);
    if (shared) return true;
  }
  return false;
}

// f(concat(x, y)) => concat(f(x), f(y)): rotary angles are concatenated with themselves, the
// corners of boxes are put together before they are clipped.
static Node *sink_pieces(Graph *g, const Match *m) {
  enum { MAX_PIECES = 16 };
  const Node *n = m->root, *cat = n->src[0];
  if (cat->op != OP_concat || !cat->nsrc || cat->nsrc > MAX_PIECES || n->nres != 1 || n->nsrc > 4 ||
      !made_together(m, cat))
    return NULL;
  Node *piece[MAX_PIECES], *src[4];
  for (uint32_t k = 1; k < n->nsrc; k++) {
    src[k] = n->src[k];
    if (src[k] != g->none && type_of(src[k])->rank != 0) return NULL;
  }
  for (uint32_t i = 0; i < cat->nsrc; i++) {
    src[0] = cat->src[i];
    piece[i] = node_with(g, n, src);
    if (piece[i] == g->poison) return NULL;
  }
  return node_new(g, OP_concat, (int)cat->nsrc, piece, cat->attrs, 1, cat->name);
}

// A reduction of a transposed tensor: over the axes before the transpose.
static Node *sink_reduce(Graph *g, const Match *m) {
  const Node *n = m->root, *t = n->src[0];
  const reduce_attrs *at = n->attrs;
  Ints axes;
  int64_t perm[MAX_RANK], own[MAX_RANK], left[MAX_RANK], place[MAX_RANK];
  bool gone[MAX_RANK] = {false};
  if (!is_movable_transpose(t) || n->nsrc != 2 || !match_once(m, t) ||
      !node_ints(g, n->src[1], &axes) || !axes.n)
    return NULL;
  int rank = transpose_perm(t, perm), kept = 0;
  if (rank < 0 || axes.n > rank) return NULL;
  for (int64_t i = 0; i < axes.n; i++) {
    own[i] = perm[axis_of(axes.v[i], rank)];
    gone[own[i]] = true;
  }
  Node *y = node_with(g, n, (Node *[]){t->src[0], node_i64s(g, axes.n, own)});
  if (at->keepdims) return transpose_to(g, y, rank, perm);
  for (int i = 0, k = 0; i < rank; i++) place[i] = gone[i] ? -1 : k++;
  for (int i = 0; i < rank; i++)
    if (!gone[perm[i]]) left[kept++] = place[perm[i]];
  return transpose_to(g, y, kept, left);
}

// Whether axes before the last are transposed, for this reader alone.
static bool transposes_rows(const Match *m, const Node *t, int64_t *perm) {
  if (!is_movable_transpose(t) || !match_once(m, t)) return false;
  int rank = transpose_perm(t, perm);
  return rank > 1 && perm[rank - 1] == rank - 1;
}

static bool is_weight(const Node *n) { return n->op == OP_const && type_of(n)->rank == 2; }

// Rows of a product in another order are its result's.
static Node *sink_product(Graph *g, const Match *m) {
  const Node *n = m->root, *t = n->src[0];
  int64_t perm[MAX_RANK];
  if (!transposes_rows(m, t, perm) || !is_weight(n->src[1])) return NULL;
  Node *y = node_with(g, n, (Node *[]){t->src[0], n->src[1]});
  return transpose_to(g, y, type_of(t)->rank, perm);
}

// How many of a value's first axes are the rows of it as a matrix; 0: there is no such number.
static int axes_of_rows(Graph *g, const Type *t, const Type *matrix) {
  Dim depth = g->dims.one;
  for (int p = t->rank - 1; p > 0; p--) {
    depth = ie_mul(&g->dims, depth, t->dims[p]);
    if (depth == matrix->dims[1]) return p;
  }
  return 0;
}

// The first n of the axes in the order in which they lie; where each of them went.  False: they lie
// so.
static bool in_order(int n, int64_t *perm, int64_t *back) {
  int64_t was[MAX_RANK];
  bool moved = false;
  memcpy(was, perm, sizeof *was * (size_t)n);
  for (int i = 0; i < n; i++) {
    back[i] = 0;
    for (int k = 0; k < n; k++) back[i] += was[k] < was[i];
    perm[back[i]] = was[i];
    moved |= back[i] != i;
  }
  back[n] = n;
  return moved;
}

// The transpose whose result's axes are counted through as rows of a matrix, by its only readers.
static const Node *transposed_rows(const Match *m, const Node *matrix) {
  if (matrix->op != OP_reshape || type_of(matrix)->rank != 2 || !match_once(m, matrix)) return NULL;
  const Node *t = matrix->src[0];
  return is_movable_transpose(t) && match_once(m, t) ? t : NULL;
}

// A product of such a matrix: of the untransposed axes, and its result is transposed.
static Node *sink_matrix(Graph *g, const Match *m, Node *w, Node *bias) {
  const Node *n = m->root, *rows = n->src[0], *t = transposed_rows(m, rows);
  int64_t perm[MAX_RANK], back[MAX_RANK];
  Dim dims[MAX_RANK];
  int rank = t ? transpose_perm(t, perm) : 0;
  int p = rank > 0 ? axes_of_rows(g, type_of(t), type_of(rows)) : 0;
  if (p < 2 || !in_order(p, perm, back)) return NULL;
  Node *x = transpose_to(g, t->src[0], rank, perm);
  for (int i = 0; i < p; i++) dims[i] = type_of(x)->dims[i];
  dims[p] = type_of(rows)->dims[1];
  x = reshape_to(g, x, type_tensor(g, type_of(x)->dtype, p + 1, dims));
  if (!x) return NULL;
  Node *src[] = {x, w}, *y = node_new(g, OP_mat_mul, 2, src, NULL, 1, n->name);
  return reshape_to(g, transpose_to(g, bias ? N(g, add, y, bias) : y, p + 1, back), type_of(n));
}

static Node *sink_rows(Graph *g, const Match *m) {
  return is_weight(m->root->src[1]) ? sink_matrix(g, m, m->root->src[1], NULL) : NULL;
}

static Node *sink_gemm(Graph *g, const Match *m) {
  const Node *n = m->root;
  const gemm_attrs *at = n->attrs;
  Node *w = n->src[1], *bias = n->nsrc > 2 && n->src[2] != g->none ? n->src[2] : NULL;
  if (!is_weight(w) || at->transA || at->alpha != 1 || at->beta != 1 ||
      (bias && type_of(bias)->rank != 1) || !transposed_rows(m, n->src[0]))
    return NULL;
  return sink_matrix(g, m, at->transB ? transpose_to(g, w, 2, (int64_t[]){1, 0}) : w, bias);
}

#define TRANSPOSE "(%x: f32[n, 3, 4], %y: f32[n, 3, 4]) { %s = transpose(%x) perm=[2, 0, 1] "
#define U(op)                                                                                      \
  RULE(#op ".sink", ANY(op), .make = sink, .example = TRANSPOSE "%r = " #op "(%s) return %r }")
#define V(op, flags)                                                                               \
  RULE(#op ".sink", ANY(op), .make = sink, .fast = flags,                                          \
       .example = TRANSPOSE "%t = transpose(%y) perm=[2, 0, 1] %r = " #op "(%s, %t) return %r }")
#define C(op)                                                                                      \
  RULE(#op ".sink_const", ANY(op), .make = sink,                                                   \
       .example =                                                                                  \
           TRANSPOSE "%c = const f32[4, 1, 1] {1, 2, 3, 0.5} %r = " #op "(%s, %c) return %r }")
#define D(op)                                                                                      \
  RULE(#op ".sink_pieces", ANY(op), .make = sink_pieces,                                           \
       .example = "(%x: f32[n, 3]) { %c = concat(%x, %x) axis=1 %r = " #op "(%c) return %r }")
#define E(op)                                                                                      \
  RULE(#op ".sink_shape", ANY(op), .make = sink,                                                   \
       .example = "(%x: f32[n, 3, 4]) { %t = const i64[2] {3, 4} %s = reshape(%x, %t) into=[0, "   \
                  "-1, -1] %c = const f32[4] {1, 2, 3, 0.5} %r = " #op "(%s, %c) return %r }")
#define R(op)                                                                                      \
  RULE(#op ".sink", ANY(op), .make = sink_reduce, .fast = FAST_REASSOC,                            \
       .example =                                                                                  \
           TRANSPOSE "%a = const i64[1] {1} %r = " #op "(%s, %a) keepdims=false return %r }")

static const Rule sinks[] = {
    // clang-format off
    U(neg), U(abs), U(sign), U(ceil), U(floor), U(round), U(sqrt), U(reciprocal), U(exp), U(log), U(tanh), U(erf),
    U(sigmoid), U(relu), U(elu), U(selu), U(celu), U(leaky_relu), U(hard_sigmoid), U(hard_swish), U(mish), U(softplus),
    U(softsign), U(gelu), U(swish), U(cos), U(sin), D(cos), D(sin), D(exp), D(tanh), D(sigmoid), D(relu), D(sqrt),
    RULE("clip.sink_pieces", ANY(clip), .make = sink_pieces, .example = "(%x: f32[n, 3], %y: f32[n, 3]) { %a = add(%x, %y) %b = sub(%x, %y) %c = concat(%a, %b) axis=1 %d = const f32[] {0.5} %r = clip(%c, %d) return %r }"),
    RULE("clip.sink", ANY(clip), .make = sink, .example = TRANSPOSE "%c = const f32[] {0.5} %r = clip(%s, %c) return %r }"),
    RULE("cast.sink", ANY(cast), .make = sink, .example = TRANSPOSE "%r = cast(%s) to=f64 return %r }"),
    RULE("where.sink", ANY(where), .make = sink, .example = "(%x: bool[n, 1, 4], %y: f32[3]) { %t = const i64[3] {1, 3, 1} %e = expand(%x, %t) %c = const f32[] {0} %k = const f32[1] {-2} %r = where(%e, %c, %k) return %r }"),
    V(add, 0), V(sub, 0), V(mul, 0), V(div, 0), V(min, FAST_NO_SZ), V(max, FAST_NO_SZ),
    C(pow), E(prelu),
    R(reduce_mean), R(reduce_sum), R(reduce_max), R(reduce_min),
    RULE("mat_mul.sink", ANY(mat_mul), .make = sink_product, .example = "(%x: f32[n, 3, 4]) { %s = transpose(%x) perm=[1, 0, 2] %w = const f32[4, 2] {1, 2, 3, 4, 5, 6, 7, 8} %r = mat_mul(%s, %w) return %r }"),
    RULE("mat_mul.sink_rows", ANY(mat_mul), .make = sink_rows, .example = "(%x: f32[5, 3, 4, 2]) { %s = transpose(%x) perm=[2, 0, 1, 3] %t = const i64[2] {20, 6} %f = reshape(%s, %t) %w = const f32[6, 2] {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3} %r = mat_mul(%f, %w) return %r }"),
    RULE("gemm.sink",    ANY(gemm),    .make = sink_gemm, .fast = FAST_CONTRACT, .example = "(%x: f32[5, 3, 4]) { %s = transpose(%x) perm=[1, 0, 2] %t = const i64[2] {15, 4} %f = reshape(%s, %t) %w = const f32[2, 4] {1, 2, 3, 4, 5, 6, 7, 8} %c = const f32[2] {1, 2} %r = gemm(%f, %w, %c) transB=true return %r }"),
    RULE("concat.sink", ANY(concat), .make = sink_concat, .example = TRANSPOSE "%t = transpose(%y) perm=[2, 0, 1] %r = concat(%s, %t) axis=1 return %r }"),
    // clang-format on
};
const RuleSet rules_sink = RULES("sink", sinks, "how early movement comes");
