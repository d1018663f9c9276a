// rotary.c -- rotary embedding: pairs of a head's elements, rotated by angles of their
// position.
//
// A pair (a, b) becomes (a cos - b sin, b cos + a sin).  Pairs are the two halves of a head or
// neighbours; what exporters write is either x cos + rotate(x) sin with whole tables, or both
// elements computed separately and put together.  Elements are followed through slices, splits and
// views to base[from : : step], so that how they were taken does not matter.  Heads may stand
// before the sequence or after it.
#include "eval/attention.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "ir/internal.h"
#include "rules/letters.h"
#include "rules/recognise/recognise.h"
#include "rules/rules.h"

// ---- which elements ----

// n itself is base[..., from : from + step * size : step] with its other axes in the order `perm`.
typedef struct Piece {
  Node *base;
  int64_t from, step, size;
  int64_t perm[MAX_RANK];
} Piece;

static int64_t last_size(const Node *n) {
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || t->rank < 1 || !ie_is_const(t->dims[t->rank - 1])) return -1;
  return t->dims[t->rank - 1]->value;
}
static bool last_axis(int64_t axis, const Node *n) {
  return axis == -1 || axis == type_of(n)->rank - 1;
}

static bool sliced(Graph *g, const Node *n, int64_t *from, int64_t *step) {
  Ints start, axes, steps;
  int64_t whole = last_size(n->src[0]);
  *step = 1;
  if (n->op != OP_slice || n->nsrc < 4 || n->src[3] == g->none || whole < 0) return false;
  if (!node_ints(g, n->src[1], &start) || !node_ints(g, n->src[3], &axes) || start.n != 1 ||
      axes.n != 1 || !last_axis(axes.v[0], n))
    return false;
  if (n->nsrc > 4 && (!node_ints(g, n->src[4], &steps) || steps.n != 1)) return false;
  if (n->nsrc > 4) *step = steps.v[0];
  *from = start.v[0] < 0 ? start.v[0] + whole : start.v[0];
  return *from >= 0 && *step > 0;
}

// One of each pair of a view [..., pairs, 2].
static bool of_pairs(Graph *g, const Node *n, Piece *out) {
  int64_t from, step;
  if (n->op != OP_reshape || n->src[0]->op != OP_slice) return false;
  const Node *cut = n->src[0], *pairs = cut->src[0];
  if (last_size(cut) != 1 || last_size(pairs) != 2 || !sliced(g, cut, &from, &step)) return false;
  const Type *t = type_of(n), *p = type_of(pairs);
  if (pairs->op != OP_reshape || p->rank != t->rank + 1) return false;
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] != p->dims[i]) return false;
  const Type *under = type_of(pairs->src[0]);
  if (under->rank != t->rank || last_size(pairs->src[0]) != 2 * last_size(n)) return false;
  for (int i = 0; i < t->rank - 1; i++)
    if (t->dims[i] != under->dims[i]) return false;
  *out = (Piece){.base = pairs->src[0], .from = from, .step = 2, .size = last_size(n)};
  return true;
}

// Axes in another order, the last one where it was: one more to follow.
static bool under_transpose(Piece *p) {
  int64_t perm[MAX_RANK];
  if (p->base->op != OP_transpose) return false;
  int rank = transpose_perm(p->base, perm);
  if (rank < 1 || perm[rank - 1] != rank - 1) return false;
  for (int i = 0; i < rank; i++) p->perm[i] = perm[p->perm[i]];
  p->base = p->base->src[0];
  return true;
}

static bool piece_of(Graph *g, Node *n, Piece *out) {
  if (last_size(n) < 1) return false;
  *out = (Piece){.base = n, .step = 1, .size = last_size(n)};
  for (int i = 0; i < type_of(n)->rank; i++) out->perm[i] = i;
  for (int depth = 0; depth < 6; depth++) {
    int64_t from, step;
    if (under_transpose(out)) continue;
    Node *under = out->base;
    Piece pairs;
    if (under->op == OP_proj && under->src[0]->op == OP_split) {
      const Node *split = under->src[0];
      if (!last_axis(((const split_attrs *)split->attrs)->axis, under)) return true;
      from = 0;
      step = 1;
      int rank = type_of(under)->rank;
      for (int64_t i = 0; i < ((const proj_attrs *)under->attrs)->index; i++) {
        if (!ie_is_const(split->type[i]->dims[rank - 1])) return true;
        from += split->type[i]->dims[rank - 1]->value;
      }
      under = split->src[0];
    } else if (under->op == OP_slice && sliced(g, under, &from, &step)) {
      under = under->src[0];
    } else if (of_pairs(g, under, &pairs)) {
      under = pairs.base;
      from = pairs.from;
      step = 2;
    } else {
      break;
    }
    out->base = under;
    out->from = from + out->from * step;
    out->step *= step;
  }
  return true;
}

// Are lo and hi the first and the second elements of all pairs of `whole`?
static bool pairs_of(const Piece *lo, const Piece *hi, const Piece *whole, bool *neighbours) {
  if (lo->base != whole->base || hi->base != whole->base || lo->size != hi->size ||
      lo->step != hi->step || whole->step != 1 || whole->size != 2 * lo->size ||
      lo->from != whole->from || memcmp(lo->perm, hi->perm, sizeof lo->perm) ||
      memcmp(lo->perm, whole->perm, sizeof lo->perm))
    return false;
  *neighbours = lo->step == 2 && hi->from == lo->from + 1;
  return *neighbours || (lo->step == 1 && hi->from == lo->from + lo->size);
}

// ---- tables of angles ----

typedef enum { TABLE_HALF, TABLE_TWICE, TABLE_PAIRS } TableKind;

// One number of each pair of a constant's rows, where both are the same bytes.
static Node *half_table(Graph *g, const Node *n, TableKind kind) {
  enum { TABLE_MAX = 1 << 24 };
  const Type *t = type_of(n);
  const void *bytes;
  int64_t size = 0, dims[MAX_RANK] = {0};
  if (t->rank < 1 || n->data->bytes > TABLE_MAX || n->data->bytes < 1 || dtype_bits(t->dtype) % 8 ||
      !dtype_bytes(t->dtype, 1, &size))
    return NULL;
  Diag *quiet = arena_new(&g->scratch, Diag);
  diag_init(quiet);
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  int64_t row = dims[t->rank - 1], half = row / 2, rows = n->data->n / MAX(row, 1);
  if (row < 2 || row % 2 || const_bytes(g, n, &bytes, quiet)) return NULL;
  char *out = arena_alloc(&g->scratch, rows * half * size);
  for (int64_t i = 0; i < rows * half; i++) {
    const char *p = (const char *)bytes + i / half * row * size;
    int64_t at = i % half, first = kind == TABLE_PAIRS ? 2 * at : at;
    int64_t second = kind == TABLE_PAIRS ? first + 1 : at + half;
    if (memcmp(p + first * size, p + second * size, (size_t)size)) return NULL;
    memcpy(out + i * size, p + first * size, (size_t)size);
  }
  dims[t->rank - 1] = half;
  return node_const(g, t->dtype, t->rank, dims, out, n->name);
}

// The dims of t with the last one halved.
static const Type *half_type(Graph *g, const Type *t) {
  Dim dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i];
  dims[t->rank - 1] = ie_const(&g->dims, dims[t->rank - 1]->value / 2);
  return type_tensor(g, t->dtype, t->rank, dims);
}

// reshape([..., half, 2]) of the same number twice.
static Node *each_twice(Graph *g, const Node *n) {
  const Node *in = n->src[0];
  const Type *t = type_of(in);
  if (t->rank != type_of(n)->rank + 1 || last_size(in) != 2 ||
      !ie_is(t->dims[t->rank - 2], last_size(n) / 2))
    return NULL;
  Node *one = NULL;
  if (in->op == OP_expand) one = in->src[0];
  if (in->op == OP_concat && in->nsrc == 2 && in->src[0] == in->src[1] &&
      last_axis(((const concat_attrs *)in->attrs)->axis, in))
    one = in->src[0];
  if (!one || last_size(one) != 1) return NULL;
  return rec_view(g, one, type_of(n)->rank, half_type(g, type_of(n))->dims);
}

static Node *half_of(Graph *g, Node *n, TableKind kind, int depth);

static Node *half_of_view(Graph *g, const Node *n, TableKind kind, int depth) {
  if (kind == TABLE_PAIRS) {
    Node *one = each_twice(g, n);
    if (one) return one;
  }
  if (last_size(n->src[0]) != last_size(n)) return NULL;
  Node *x = half_of(g, n->src[0], kind, depth);
  return x ? reshape_to(g, x, half_type(g, type_of(n))) : NULL;
}

static Node *half_of_slice(Graph *g, const Node *n, TableKind kind, int depth) {
  Ints axes;
  Node *src[5];
  if (n->nsrc < 4 || n->nsrc > 5 || n->src[3] == g->none || !node_ints(g, n->src[3], &axes))
    return NULL;
  for (int64_t i = 0; i < axes.n; i++)
    if (last_axis(axes.v[i], n)) return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = n->src[i];
  src[0] = half_of(g, n->src[0], kind, depth);
  return src[0] ? node_new(g, OP_slice, (int)n->nsrc, src, n->attrs, 1, NULL) : NULL;
}

// One number of each pair along n's last axis where both are the same; NULL when that cannot be
// seen.
static Node *half_of(Graph *g, Node *n, TableKind kind, int depth) {
  if (last_size(n) < 2 || last_size(n) % 2 || !depth) return NULL;
  if (n->op == OP_const) return half_table(g, n, kind);
  Node *src[2] = {NULL};
  double v;
  int number;
  switch (n->op) {
  case OP_concat:
    return kind == TABLE_TWICE && n->nsrc == 2 && n->src[0] == n->src[1] &&
                   last_axis(((const concat_attrs *)n->attrs)->axis, n)
               ? n->src[0]
               : NULL;
  case OP_reshape:
  case OP_unsqueeze:
  case OP_squeeze: return half_of_view(g, n, kind, depth - 1);
  case OP_slice: return half_of_slice(g, n, kind, depth - 1);
  case OP_cos:
  case OP_sin:
  case OP_neg:
  case OP_cast: src[0] = half_of(g, n->src[0], kind, depth - 1); break;
  case OP_mul:
    number = rec_number(g, n->src[1], &v) ? 1 : 0;
    if (!rec_number(g, n->src[number], &v) || !same_type(n, n->src[1 - number])) return NULL;
    src[0] = half_of(g, n->src[1 - number], kind, depth - 1);
    src[1] = node_scalar(g, type_of(n)->dtype, v);
    break;
  case OP_gather:
    if (((const gather_attrs *)n->attrs)->axis != 0 || type_of(n->src[0])->rank != 2) return NULL;
    src[0] = half_of(g, n->src[0], kind, depth - 1);
    src[1] = n->src[1];
    break;
  default: return NULL;
  }
  return src[0] ? node_new(g, n->op, src[1] ? 2 : 1, src, n->attrs, 1, NULL) : NULL;
}

// cos or sin as the op wants it, [batch, seq, half], for x of rank 4 with its sequence at axis
// `seq`.
static Node *angles(Graph *g, Node *n, Node *x, int seq, TableKind kind) {
  const Type *tx = type_of(x), *t = type_of(n);
  Dim size[4];
  if (t->kind != TK_TENSOR || t->rank < 1 || t->rank > 4 || t->dtype != tx->dtype) return NULL;
  for (int i = 0; i < 4; i++) size[i] = i < 4 - t->rank ? g->dims.one : t->dims[i - (4 - t->rank)];
  if (size[seq] != tx->dims[seq] || !ie_is(size[3 - seq], 1) ||
      (size[0] != tx->dims[0] && !ie_is(size[0], 1)))
    return NULL;
  if (!ie_is(size[3], kind == TABLE_HALF ? last_size(x) / 2 : last_size(x))) return NULL;
  bool by_batch = size[0] == tx->dims[0];
  if (kind != TABLE_HALF) n = half_of(g, n, kind, 8);
  if (!n) return NULL;
  n = rec_view(g, n, 3, (Dim[]){size[0], size[seq], ie_const(&g->dims, last_size(x) / 2)});
  if (!n || by_batch) return n;
  Node *parts[] = {NA(g, shape, (&(shape_attrs){.start = 0, .end = 1}), x),
                   node_i64s(g, 2, (int64_t[]){1, 1})};
  return N(g, expand, n, node_new(g, OP_concat, 2, parts, &(concat_attrs){.axis = 0}, 1, NULL));
}

// The op over x, heads first or sequence first as the tables say; NULL when they say neither.
static Node *rotation(Graph *g, Node *x, Node *cosine, Node *sine, bool neighbours,
                      bool whole_tables) {
  if (type_of(x)->rank != 4 || last_size(x) % 2) return NULL;
  TableKind kind = !whole_tables ? TABLE_HALF : neighbours ? TABLE_PAIRS : TABLE_TWICE;
  rotary_embedding_attrs at = {.interleaved = neighbours};
  for (int seq = 2; seq >= 1; seq--) {
    Node *cos3 = angles(g, cosine, x, seq, kind);
    Node *sin3 = cos3 ? angles(g, sine, x, seq, kind) : NULL;
    if (!sin3 || type_of(sin3) != type_of(cos3)) continue;
    if (seq == 2) return NA(g, rotary_embedding, &at, x, cos3, sin3);
    static const int64_t swap[] = {0, 2, 1, 3};
    Node *y = NA(g, rotary_embedding, &at, transpose_to(g, x, 4, swap), cos3, sin3);
    return y == g->poison ? NULL : transpose_to(g, y, 4, swap);
  }
  return NULL;
}

// ---- x cos + rotate(x) sin ----

// rotate(x): the second elements negated, the first ones in their place.
static bool rotates(Graph *g, const Node *n, Node *x, bool *neighbours) {
  const Node *join = n->op == OP_reshape ? n->src[0] : n;
  Piece lo, hi, whole;
  if (join->op != OP_concat || join->nsrc != 2 ||
      !last_axis(((const concat_attrs *)join->attrs)->axis, join))
    return false;
  Node *minus = join->src[0], *plus = join->src[1];
  if (join != n) {  // stacked: [..., half, 1] each
    if (last_size(minus) != 1 || last_size(plus) != 1 || minus->op != OP_reshape ||
        plus->op != OP_reshape)
      return false;
    minus = minus->src[0];
    plus = plus->src[0];
  }
  if (minus->op != OP_neg || !piece_of(g, minus->src[0], &hi) || !piece_of(g, plus, &lo) ||
      !piece_of(g, x, &whole) || type_of(plus)->rank != type_of(x)->rank)
    return false;
  return pairs_of(&lo, &hi, &whole, neighbours) && *neighbours == (join != n);
}

static Node *make_rotated(Graph *g, const Match *m) {
  for (int i = 0; i < 8; i++) {
    const Node *plain = m->root->src[i & 1], *rotated = m->root->src[1 - (i & 1)];
    Node *x = plain->src[i >> 1 & 1], *cosine = plain->src[1 - (i >> 1 & 1)];
    Node *t = rotated->src[i >> 2 & 1], *sine = rotated->src[1 - (i >> 2 & 1)];
    bool neighbours;
    if (type_of(x) != type_of(m->root) || !rotates(g, t, x, &neighbours)) continue;
    Node *y = rotation(g, x, cosine, sine, neighbours, true);
    if (y) return y;
  }
  return NULL;
}

// ---- both elements separately ----

static bool is_product(const Node *n, const Node *x, const Node *y) {
  return n->op == OP_mul &&
         ((n->src[0] == x && n->src[1] == y) || (n->src[0] == y && n->src[1] == x));
}

// u = a c - b s, v = b c + a s
static bool read_pair(const Node *u, const Node *v, int order, Node **lo, Node **hi, Node **cosine,
                      Node **sine) {
  if (u->op != OP_sub || v->op != OP_add || u->src[0]->op != OP_mul || u->src[1]->op != OP_mul)
    return false;
  *lo = u->src[0]->src[order & 1];
  *cosine = u->src[0]->src[1 - (order & 1)];
  *hi = u->src[1]->src[order >> 1];
  *sine = u->src[1]->src[1 - (order >> 1)];
  return (is_product(v->src[0], *hi, *cosine) && is_product(v->src[1], *lo, *sine)) ||
         (is_product(v->src[1], *hi, *cosine) && is_product(v->src[0], *lo, *sine));
}

static Node *whole_of(Graph *g, const Piece *p) {
  int rank = type_of(p->base)->rank;
  if (p->from + p->size > last_size(p->base)) return NULL;
  Node *x = p->base;
  if (p->from || p->size != last_size(x))
    x = slice_axis(g, x, rank - 1, p->from, p->from + p->size, 1);
  return transpose_to(g, x, rank, p->perm);
}

static Node *from_pair(Graph *g, const Node *u, const Node *v, bool stacked) {
  Node *lo, *hi, *cosine, *sine;
  for (int order = 0; order < 4; order++) {
    Piece pa, pb;
    bool neighbours;
    if (!read_pair(u, v, order, &lo, &hi, &cosine, &sine) || type_of(lo) != type_of(hi)) continue;
    if (!piece_of(g, lo, &pa) || !piece_of(g, hi, &pb)) continue;
    Piece whole = pa;
    whole.step = 1;
    whole.size = 2 * pa.size;
    if (!pairs_of(&pa, &pb, &whole, &neighbours) || neighbours != stacked) continue;
    Node *x = whole_of(g, &whole);
    return x ? rotation(g, x, cosine, sine, neighbours, false) : NULL;
  }
  return NULL;
}

static Node *make_joined(Graph *g, const Match *m) {
  const Node *n = m->root;
  if (n->nsrc != 2 || !last_axis(((const concat_attrs *)n->attrs)->axis, n)) return NULL;
  return from_pair(g, n->src[0], n->src[1], false);
}

static Node *make_stacked(Graph *g, const Match *m) {
  const Node *n = m->var[SLOT_p], *u, *v;
  if (n->nsrc != 2 || !last_axis(((const concat_attrs *)n->attrs)->axis, n)) return NULL;
  u = n->src[0];
  v = n->src[1];
  if (last_size(u) != 1 || last_size(v) != 1 || u->op != OP_reshape || v->op != OP_reshape)
    return NULL;
  return from_pair(g, u->src[0], v->src[0], true);
}

// ---- a part of a head ----

// concat(rotated first elements, the others as they are) => the op over the whole, with how many
// are rotated.
static Node *make_partial(Graph *g, const Match *m) {
  static const int64_t swap[] = {0, 2, 1, 3};
  const Node *n = m->root;
  Piece rest, part;
  int64_t perm[MAX_RANK];
  if (n->nsrc != 2 || !last_axis(((const concat_attrs *)n->attrs)->axis, n)) return NULL;
  const Node *r = n->src[0];
  bool moved = r->op == OP_transpose;
  if (moved) {
    if (transpose_perm(r, perm) != 4 || memcmp(perm, swap, sizeof swap)) return NULL;
    r = r->src[0];
  }
  if (r->op != OP_rotary_embedding || r->nsrc != 3 || type_of(r)->rank != 4) return NULL;
  rotary_embedding_attrs at = *(const rotary_embedding_attrs *)r->attrs;
  Node *x = r->src[0];
  if (moved) {
    if (x->op != OP_transpose || transpose_perm(x, perm) != 4 || memcmp(perm, swap, sizeof swap))
      return NULL;
    x = x->src[0];
  }
  if (at.rotary_embedding_dim || !piece_of(g, n->src[1], &rest) || !piece_of(g, x, &part))
    return NULL;
  if (part.base != rest.base || part.step != 1 || rest.step != 1 ||
      rest.from != part.from + part.size || memcmp(part.perm, rest.perm, sizeof part.perm))
    return NULL;
  at.rotary_embedding_dim = part.size;
  part.size += rest.size;
  Node *whole = whole_of(g, &part);
  if (!whole) return NULL;
  if (moved) whole = transpose_to(g, whole, 4, swap);
  Node *y = NA(g, rotary_embedding, &at, whole, r->src[1], r->src[2]);
  return y == g->poison ? NULL : moved ? transpose_to(g, y, 4, swap) : y;
}

#define X(body) "(%x: f32[b, 2, s, 8], %a: f32[b, s, 4]) { " body " return %r }"
#define FROM                                                                                       \
  "%i0 = const i64[1] {0} %i1 = const i64[1] {1} %i2 = const i64[1] {2} %i4 = const i64[1] {4} "   \
  "%i8 = const i64[1] {8} %ax = const i64[1] {3} "
#define TABLES(from)                                                                               \
  "%c = cos(" from ") %s = sin(" from ") %one = const i64[1] {1} %cu = unsqueeze(%c, %one) %su = " \
  "unsqueeze(%s, %one) "
#define HALVES "%lo = slice(%x, %i0, %i4, %ax) %hi = slice(%x, %i4, %i8, %ax) "
#define EVENS                                                                                      \
  "%lo = slice(%x, %i0, %i8, %ax, %i2) %hi = slice(%x, %i1, %i8, %ax, %i2) %st = const i64[5] "    \
  "{0, 0, 0, 4, 1} "
#define SEPARATE                                                                                   \
  "%lc = mul(%lo, %cu) %hs = mul(%hi, %su) %u = sub(%lc, %hs) %hc = mul(%hi, %cu) %ls = mul(%lo, " \
  "%su) %v = add(%hc, %ls) "
#define SUM "%xc = mul(%x, %cu) %xs = mul(%rot, %su) %r = add(%xc, %xs)"

static const Rule rotary[] = {
    // clang-format off
    RULE("rotary_embedding.rotate_half", P(add, P(mul, a, b), P(mul, c, d)), .make = make_rotated, .fast = FAST_APPROX,
         .example = X("%ang = concat(%a, %a) axis=2 " TABLES("%ang") FROM HALVES "%nh = neg(%hi) %rot = concat(%nh, %lo) axis=3 " SUM)),
    RULE("rotary_embedding.rotate_pairs", P(add, P(mul, a, b), P(mul, c, d)), .make = make_rotated, .fast = FAST_APPROX,
         .example = X("%e4 = const i64[4] {0, 0, 4, 1} %a4 = reshape(%a, %e4) %aa = concat(%a4, %a4) axis=3 %e3 = const i64[3] {0, 0, 8} %ang = reshape(%aa, %e3) "
                      TABLES("%ang") FROM EVENS "%nh = neg(%hi) %nu = reshape(%nh, %st) %lu = reshape(%lo, %st) %both = concat(%nu, %lu) axis=4 "
                      "%back = const i64[4] {0, 0, 0, 8} %rot = reshape(%both, %back) " SUM)),
    RULE("rotary_embedding.joined", ANY(concat), .make = make_joined, .fast = FAST_APPROX,
         .example = X(TABLES("%a") FROM HALVES SEPARATE "%r = concat(%u, %v) axis=3")),
    RULE("rotary_embedding.stacked", P(reshape, BIND_ANY(p, concat), a), .make = make_stacked, .fast = FAST_APPROX,
         .example = X(TABLES("%a") FROM EVENS SEPARATE "%uu = reshape(%u, %st) %vu = reshape(%v, %st) %both = concat(%uu, %vu) axis=4 "
                      "%back = const i64[4] {0, 0, 0, 8} %r = reshape(%both, %back)")),
    RULE("rotary_embedding.partial", ANY(concat), .make = make_partial,
         .example = "(%x: f32[b, 2, s, 8], %a: f32[b, s, 2]) { " FROM HALVES "%c = cos(%a) %s = sin(%a) %y = rotary_embedding(%lo, %c, %s) "
                    "%r = concat(%y, %hi) axis=3 return %r }"),
    // clang-format on
};
const RuleSet rules_recognise_rotary =
    RULES("recognise_rotary", rotary, "each rule leaves fewer nodes that are not composites");
