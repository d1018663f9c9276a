// mask.c -- a mask that hides what comes after a query is the attention's own.
//
// Exporters build the triangle from constants, from trilu of ones, or by comparing ranges of
// positions.  Each is read as a condition on row i and column j; a kernel that knows it needs no
// mask, and half of the products.
#include "eval/attention.h"
#include "eval/movement.h"
#include "ir/internal.h"
#include "rules/affine.h"
#include "rules/letters.h"
#include "rules/recognise/recognise.h"
#include "rules/rules.h"

// Where the elements are that are not 0: j <= i, j > i, or anywhere.
typedef enum { TRI_NONE, TRI_LOWER, TRI_UPPER } Triangle;

static Triangle opposite(Triangle t) {
  return t == TRI_LOWER ? TRI_UPPER : t == TRI_UPPER ? TRI_LOWER : TRI_NONE;
}

// One matrix, whatever axes of size 1 stand before.
static bool one_matrix(const Type *t) {
  if (t->kind != TK_TENSOR || t->rank < 2) return false;
  for (int i = 0; i < t->rank - 2; i++)
    if (!ie_is(t->dims[i], 1)) return false;
  return true;
}

static const double LOW = -1e4;  // what hides a key is this or less

// The elements of a constant matrix; NULL when it is too large or cannot be read.
static const double *elements(Graph *g, const Node *n) {
  enum { MATRIX_MAX = 1 << 22 };
  const void *bytes;
  if (n->op != OP_const || n->data->n > MATRIX_MAX || n->data->n < 1) return NULL;
  DType t = type_of(n)->dtype;
  if (!dtype_is_float(t) && !dtype_is_int(t) && t != DT_BOOL) return NULL;
  Diag *quiet = arena_new(&g->scratch, Diag);
  diag_init(quiet);
  if (const_bytes(g, n, &bytes, quiet)) return NULL;
  double *v = arena_array(&g->scratch, double, n->data->n);
  load_f64(t, bytes, 0, n->data->n, v);
  return v;
}

// `hides`: an element counts when it hides; else when it is not 0.
static Triangle of_const(Graph *g, const Node *n, bool hides) {
  const Type *t = type_of(n);
  const double *v = elements(g, n);
  if (!v) return TRI_NONE;
  int64_t columns = t->dims[t->rank - 1]->value, rows = t->dims[t->rank - 2]->value;
  bool lower = true, upper = true;
  for (int64_t k = 0; k < n->data->n; k++) {
    bool set = hides ? v[k] <= LOW : v[k] != 0, below = k % columns <= k / columns % rows;
    if (hides && !set && v[k] != 0) return TRI_NONE;
    lower &= set == below;
    upper &= set != below;
  }
  return lower ? TRI_LOWER : upper ? TRI_UPPER : TRI_NONE;
}

// A comparison of positions: base + ri i + cj j against 0.
static Triangle of_compare(Graph *g, const Node *n) {
  Affine x, y;
  IntPool *p = &g->dims;
  if (!node_affine(g, n->src[0], &x) || !node_affine(g, n->src[1], &y)) return TRI_NONE;
  if (!affine_broadcast(g, type_of(n->src[0]), type_of(n), &x) ||
      !affine_broadcast(g, type_of(n->src[1]), type_of(n), &y))
    return TRI_NONE;
  Dim at[2];
  for (int i = 0; i < 2; i++) at[i] = ie_sub(p, x.stride[x.rank - 2 + i], y.stride[y.rank - 2 + i]);
  Dim base = ie_sub(p, x.base, y.base);
  bool strict = n->op == OP_lt;
  if (ie_is(at[0], -1) && ie_is(at[1], 1) && ie_is(base, strict ? -1 : 0)) return TRI_LOWER;
  if (ie_is(at[0], 1) && ie_is(at[1], -1) && ie_is(base, strict ? 0 : 1)) return TRI_UPPER;
  return TRI_NONE;
}

// The value that every element of a trilu's operand has.
static bool filled(Graph *g, const Node *n, double *v) {
  if (n->op == OP_expand) n = n->src[0];
  return node_splat(g, n, v) && *v != 0;
}
static Triangle of_trilu(Graph *g, const Node *n) {
  double k = 0;
  Node *by = src_or_null(g, n, 1);
  if (by && !node_splat(g, by, &k)) return TRI_NONE;
  bool upper = ((const trilu_attrs *)n->attrs)->upper;
  return upper && k == 1 ? TRI_UPPER : !upper && k == 0 ? TRI_LOWER : TRI_NONE;
}

// Views that keep the matrix.
static const Node *under_views(const Node *n) {
  while (n->op == OP_reshape || n->op == OP_unsqueeze) {
    const Type *t = type_of(n), *u = type_of(n->src[0]);
    if (!one_matrix(t) || !one_matrix(u) || t->dims[t->rank - 1] != u->dims[u->rank - 1] ||
        t->dims[t->rank - 2] != u->dims[u->rank - 2])
      break;
    n = n->src[0];
  }
  return n;
}

static Triangle triangle(Graph *g, const Node *n, int depth) {
  double v;
  n = under_views(n);
  if (!depth || type_of(n)->rank < 2) return TRI_NONE;
  if (n->op != OP_const && !one_matrix(type_of(n))) return TRI_NONE;
  switch (n->op) {
  case OP_const: return of_const(g, n, false);
  case OP_lt:
  case OP_le: return of_compare(g, n);
  case OP_trilu: return filled(g, n->src[0], &v) ? of_trilu(g, n) : TRI_NONE;
  case OP_not: return opposite(triangle(g, n->src[0], depth - 1));
  case OP_cast: return triangle(g, n->src[0], depth - 1);
  case OP_eq:
    for (int i = 0; i < 2; i++)
      if (rec_number(g, n->src[i], &v) && v == 0)
        return opposite(triangle(g, n->src[1 - i], depth - 1));
    return TRI_NONE;
  default: return TRI_NONE;
  }
}

// Does the mask hide j > i and nothing else?
static bool is_causal(Graph *g, const Node *mask) {
  double yes, no, v;
  mask = under_views(mask);
  if (type_of(mask)->rank < 2) return false;
  if (type_of(mask)->dtype == DT_BOOL) return triangle(g, mask, 6) == TRI_LOWER;
  if (mask->op == OP_const) return of_const(g, mask, true) == TRI_UPPER;
  if (!one_matrix(type_of(mask))) return false;
  if (mask->op == OP_trilu)
    return filled(g, mask->src[0], &v) && v <= LOW && of_trilu(g, mask) == TRI_UPPER;
  if (mask->op != OP_where || !rec_number(g, mask->src[1], &yes) ||
      !rec_number(g, mask->src[2], &no))
    return false;
  Triangle seen = triangle(g, mask->src[0], 6);
  return (seen == TRI_LOWER && yes == 0 && no <= LOW) ||
         (seen == TRI_UPPER && no == 0 && yes <= LOW);
}

// One row for each query and one column for each key: a mask with fewer is repeated, or hides what
// it does not reach.
static bool covers(const Type *mask, const Type *q, const Type *k) {
  return q->rank >= 3 && k->rank >= 3 && mask->dims[mask->rank - 2] == q->dims[q->rank - 2] &&
         mask->dims[mask->rank - 1] == k->dims[k->rank - 2];
}

static Node *make_causal(Graph *g, const Match *m) {
  const Node *n = m->root, *mask = src_or_null(g, n, 3);
  attention_attrs at = *(const attention_attrs *)n->attrs;
  if (!mask || n->nsrc != 4 || n->nres != 1 || at.is_causal || at.left_window_size >= 0 ||
      at.right_window_size >= 0 || !is_causal(g, mask) ||
      !covers(type_of(mask), type_of(n->src[0]), type_of(n->src[1])))
    return NULL;
  at.is_causal = true;
  return NA(g, attention, &at, n->src[0], n->src[1], n->src[2]);
}

#define QKV "(%q: f32[2, 4, s, 8], %k: f32[2, 4, s, 8], %v: f32[2, 4, s, 8]) { "

static const Rule mask[] = {
    // clang-format off
    RULE("attention.causal", ANY(attention), .make = make_causal, .fast = FAST_APPROX,
         .example = QKV "%e = shape(%q) start=2 end=3 %n = squeeze(%e) %z = const i64[] {0} %o = const i64[] {1} %i = range(%z, %n, %o) "
                        "%h = const i64[2] {0, 1} %u = reshape(%i, %h) %m = le(%i, %u) %r = attention(%q, %k, %v, %m) return %r }"),
    // clang-format on
};
const RuleSet rules_recognise_mask = RULES("recognise_mask", mask, "a mask goes");
