// attention.c -- scaled-dot-product attention: softmax(scale q k' + mask) v as one node.
//
// From the last product inwards everything that an exporter may put between is taken off: casts, a
// guard against rows without keys, masks (added, or chosen by where), a soft cap, and factors on
// the scores, on q, on k, or on both.  Keys are un-transposed and un-repeated (grouped heads) where
// that is a matter of the graph.  Reshapes into heads stay where they are.
#include "eval/attention.h"
#include "eval/movement.h"
#include "eval/norm.h"
#include "rules/factor.h"
#include "rules/letters.h"
#include "rules/recognise/recognise.h"
#include "rules/rules.h"

#include <math.h>

typedef struct Scores {
  Graph *g;
  Node *q, *k, *mask;  // mask: NULL, bool, or what is added
  double scale, softcap;
  int rank;
} Scores;

// ---- masks ----

// As the op wants it: sizes 1 or the scores' own, the last one whole.
static bool mask_fits(const Type *t, const Type *scores) {
  if (t->kind != TK_TENSOR || t->rank < 1 || t->rank > scores->rank) return false;
  if (t->dtype != DT_BOOL && !dtype_is_float(t->dtype)) return false;
  if (t->dims[t->rank - 1] != scores->dims[scores->rank - 1]) return false;
  for (int i = 0; i < t->rank; i++) {
    Dim want = scores->dims[scores->rank - t->rank + i];
    if (t->dims[i] != want && !ie_is(t->dims[i], 1)) return false;
  }
  return true;
}

static Node *as_added(Graph *g, Node *mask, DType t) {
  if (type_of(mask)->dtype != DT_BOOL) return mask;
  return N(g, where, mask, node_scalar(g, t, 0), node_scalar(g, t, -INFINITY));
}

static bool add_mask(Scores *s, Node *mask, const Type *scores) {
  if (!mask_fits(type_of(mask), scores)) return false;
  if (s->mask && type_of(s->mask)->dtype == DT_BOOL && type_of(mask)->dtype == DT_BOOL)
    mask = N(s->g, and, s->mask, mask);
  else if (s->mask) {
    s->mask = as_added(s->g, s->mask, scores->dtype);
    mask = as_added(s->g, mask, scores->dtype);
    if (type_of(mask)->dtype != type_of(s->mask)->dtype) return false;
    mask = N(s->g, add, s->mask, mask);
  }
  s->mask = mask;
  return true;
}

// where(cond, x, low) or where(cond, low, x): the scores and the mask; low is what hides a key.
static Node *chosen(Scores *s, Node *n) {
  Graph *g = s->g;
  double low;
  for (int i = 1; i <= 2; i++) {
    Node *x = n->src[3 - i], *fill = n->src[i];
    if (!node_splat(g, fill, &low) || low > -1e3 || type_of(x) != type_of(n)) continue;
    Node *seen = n->src[0];
    if (low == -INFINITY && i == 2) return add_mask(s, seen, type_of(n)) ? x : NULL;
    DType t = type_of(x)->dtype;
    Node *zero = node_scalar(g, t, 0), *hidden = node_scalar(g, t, low);
    Node *mask = i == 2 ? N(g, where, seen, zero, hidden) : N(g, where, seen, hidden, zero);
    return add_mask(s, mask, type_of(n)) ? x : NULL;
  }
  return NULL;
}

// Does a product of matrices lie below, through what scores go through?
static bool leads_to_product(const Node *n, int depth) {
  if (n->op == OP_mat_mul) return true;
  if (!depth) return false;
  switch (n->op) {
  case OP_cast:
  case OP_tanh:
  case OP_neg: return leads_to_product(n->src[0], depth - 1);
  case OP_add:
  case OP_mul:
  case OP_div:
    return leads_to_product(n->src[0], depth - 1) || leads_to_product(n->src[1], depth - 1);
  case OP_where:
    return leads_to_product(n->src[1], depth - 1) || leads_to_product(n->src[2], depth - 1);
  default: return false;
  }
}

// ---- keys ----

// k' as k.
static Node *keys_of(Graph *g, Node *kt) {
  const Type *t = type_of(kt);
  int r = t->rank;
  int64_t perm[MAX_RANK];
  if (kt->op == OP_transpose && transpose_perm(kt, perm) == r) {
    int64_t last = perm[r - 1];
    perm[r - 1] = perm[r - 2];
    perm[r - 2] = last;
    return transpose_to(g, kt->src[0], r, perm);
  }
  // The leading axes were split or joined after the transpose: transpose their operand.
  const Node *in = kt->op == OP_reshape || kt->op == OP_unsqueeze ? kt->src[0] : NULL;
  if (in && in->op == OP_transpose && transpose_perm(in, perm) >= 0) {
    const Type *u = type_of(in);
    int n = u->rank;
    bool swaps = n >= 2 && perm[n - 1] == n - 2 && perm[n - 2] == n - 1 &&
                 u->dims[n - 1] == t->dims[r - 1] && u->dims[n - 2] == t->dims[r - 2];
    for (int i = 0; i < n - 2; i++) swaps &= perm[i] == i;
    Dim dims[MAX_RANK];
    for (int i = 0; i < r; i++) dims[i] = t->dims[i];
    dims[r - 1] = t->dims[r - 2];
    dims[r - 2] = t->dims[r - 1];
    Node *k = swaps ? rec_view(g, in->src[0], r, dims) : NULL;
    if (k) return k;
  }
  for (int i = 0; i < r; i++) perm[i] = i;
  perm[r - 1] = r - 2;
  perm[r - 2] = r - 1;
  return transpose_to(g, kt, r, perm);
}

// The heads before each was repeated for a group of queries: reshape(expand(unsqueeze(x))); NULL
// when not so.
static Node *unrepeated(Graph *g, Node *n) {
  Node *wide = n;
  while (wide->op == OP_reshape) wide = wide->src[0];
  if (wide == n || wide->op != OP_expand) return NULL;
  Node *thin = wide->src[0];
  const Type *t = type_of(n), *w = type_of(wide), *u = type_of(thin);
  if (t->rank != 4 || w->rank != 5 || u->rank != 5 || !ie_is(u->dims[2], 1)) return NULL;
  bool ok = t->dims[0] == w->dims[0] && t->dims[2] == w->dims[3] && t->dims[3] == w->dims[4];
  for (int i = 0; i < 5; i++) ok &= i == 2 || u->dims[i] == w->dims[i];
  if (!ok) return NULL;
  Dim dims[] = {u->dims[0], u->dims[1], u->dims[3], u->dims[4]};
  return rec_view(g, thin, 4, dims);
}

// ---- from the softmax down to q and k ----

static bool read_product(Scores *s, Node *n) {
  double factor;
  s->q = rec_unscaled(s->g, rec_uncast(n->src[0]), &factor);
  s->scale *= factor;
  Node *kt = rec_unscaled(s->g, rec_uncast(n->src[1]), &factor);
  s->scale *= factor;
  s->rank = type_of(s->q)->rank;
  if (s->rank != type_of(kt)->rank || (s->rank != 3 && s->rank != 4)) return false;
  s->k = rec_unscaled(s->g, keys_of(s->g, kt), &factor);
  s->scale *= factor;
  return true;
}

// Takes factors off, through casts.
static Node *unscaled(Scores *s, Node *n) {
  for (double factor;;) {
    Node *x = rec_unscaled(s->g, rec_uncast(n), &factor);
    s->scale *= factor;
    if (x == n) return n;
    n = x;
  }
}

// Which operand of a sum the scores are; -1 when neither.
static int scores_operand(const Node *sum) {
  for (int depth = 4; depth <= 8; depth += 4)  // the nearer product, where both have one
    for (int i = 0; i < 2; i++)
      if (type_of(sum->src[i]) == type_of(sum) && leads_to_product(sum->src[i], depth)) return i;
  return -1;
}

// A mask of windows once for each image of x, however many there are.
static Node *for_images(Graph *g, Node *mask, Node *x) {
  const int64_t one[] = {1, 1, 1, 1};
  shape_attrs at = {.start = 0, .end = 1};
  Node *images = NA(g, shape, &at, x), *rest = node_i64s(g, 4, one);
  concat_attrs along = {.axis = 0};
  return N(g, expand, mask, NA(g, concat, &along, images, rest));
}

// Scores of windows, masked by window: reshape(reshape(x, [images, windows, heads, ...]) + mask) as
// x and a mask by matrix; NULL when it is none.
static Node *windowed(Scores *s, Node *n) {
  Graph *g = s->g;
  const Type *t = type_of(n), *u = type_of(n->src[0]);
  if (n->op != OP_reshape || n->src[0]->op != OP_add || t->rank != 4 || u->rank != 5) return NULL;
  for (int i = 0; i < 2; i++) {
    Node *x = n->src[0]->src[i], *mask = n->src[0]->src[1 - i];
    const Type *tm = type_of(mask);
    if (x->op != OP_reshape || type_of(x->src[0]) != t || tm->rank < 4) continue;
    Dim of_mask[5];
    for (int k = 0; k < 5; k++)
      of_mask[k] = k < 5 - tm->rank ? g->dims.one : tm->dims[k + tm->rank - 5];
    if (of_mask[1] != u->dims[1] || tm->rank > 5) continue;
    if (of_mask[0] != u->dims[0]) mask = for_images(g, mask, x);
    mask = rec_view(g, mask, 4, (Dim[]){t->dims[0], of_mask[2], of_mask[3], of_mask[4]});
    return mask && add_mask(s, mask, t) ? x->src[0] : NULL;
  }
  return NULL;
}

static bool read_scores(Scores *s, Node *n) {
  s->scale = 1;
  n = rec_uncast(n);
  for (int depth = 0; n->op == OP_add || n->op == OP_where || n->op == OP_reshape;
       depth++, n = rec_uncast(n)) {
    if (depth == 4) return false;
    if (n->op != OP_add) {
      n = n->op == OP_where ? chosen(s, n) : windowed(s, n);
      if (!n) return false;
      continue;
    }
    int at = scores_operand(n);
    if (at < 0 || !add_mask(s, n->src[1 - at], type_of(n))) return false;
    n = n->src[at];
  }
  n = unscaled(s, n);
  if (n->op == OP_tanh) {  // cap tanh(x / cap)
    s->softcap = s->scale;
    if (s->softcap <= 0) return false;
    n = unscaled(s, n->src[0]);
  }
  return n->op == OP_mat_mul && read_product(s, n);
}

// A guard that gives 0 for a row without keys, which attention does by itself.  `mask` is what the
// guard looks at; NULL: the softmax's own NaN.
static bool is_guard(Graph *g, const Node *cond, const Node *soft, Node **mask) {
  double v;
  *mask = NULL;
  if (cond->op == OP_is_nan) return cond->src[0] == soft;
  if (node_splat(g, cond, &v)) return v == 0;
  for (int i = 0; cond->op == OP_eq && i < 2; i++) {
    const Node *max = cond->src[i];
    if (!node_splat(g, cond->src[1 - i], &v) || v != -INFINITY || max->op != OP_reduce_max)
      continue;
    *mask = max->src[0];
    int rank = type_of(*mask)->rank;
    return rank > 0 && rec_axes(g, max) == 1u << (rank - 1);
  }
  return false;
}

// The softmax under casts and a guard; NULL when somebody else needs it too.
static Node *under_guard(const Match *m, Node *p, Node **mask) {
  Graph *g = m->g;
  *mask = NULL;
  p = rec_uncast(p);
  if (p->op == OP_where && rec_is(g, p->src[1], 0) && is_guard(g, p->src[0], p->src[2], mask) &&
      match_once(m, p)) {
    bool twice = p->src[0]->op == OP_is_nan;
    return rewriter_uses(m->rw, p->src[2]) <= 1 + twice ? rec_uncast(p->src[2]) : NULL;
  }
  return match_once(m, p) ? p : NULL;
}

static bool dims_agree(const Scores *s, const Node *k, const Node *v) {
  const Type *q = type_of(s->q), *tk = type_of(k), *tv = type_of(v);
  int r = s->rank;
  if (tk->rank != r || tv->rank != r || q->dims[0] != tk->dims[0] || q->dims[0] != tv->dims[0])
    return false;
  if (q->dims[r - 1] != tk->dims[r - 1] || tk->dims[r - 2] != tv->dims[r - 2]) return false;
  if (r == 3) return true;
  if (tk->dims[1] != tv->dims[1]) return false;
  if (q->dims[1] == tk->dims[1]) return true;
  return ie_is_const(q->dims[1]) && ie_is_const(tk->dims[1]) && tk->dims[1]->value > 0 &&
         q->dims[1]->value % tk->dims[1]->value == 0;
}

// Scores are scaled in f32 where they are not f64; a softcap is divided by as well.
static bool scale_fits(DType t, double x) {
  DType wide = t == DT_F64 ? DT_F64 : DT_F32;
  return is_normal_in(wide, x) && is_normal_in(wide, 1 / x);
}

static Node *make_attention(Graph *g, const Match *m) {
  Node *guarded, *soft = under_guard(m, m->var[SLOT_a], &guarded), *v = rec_uncast(m->var[SLOT_b]);
  if (!soft || soft->op != OP_softmax) return NULL;
  int64_t axis = ((const softmax_attrs *)soft->attrs)->axis;
  int rank = type_of(m->root)->rank;
  if (rank != type_of(soft)->rank || (axis != -1 && axis != rank - 1)) return NULL;
  Scores s = {.g = g};
  if (!read_scores(&s, soft->src[0]) || s.rank != rank || s.scale <= 0 || g->status) return NULL;
  if (guarded && guarded != s.mask) return NULL;
  DType t = type_of(m->root)->dtype;
  if (!scale_fits(t, s.scale) || (s.softcap > 0 && !scale_fits(t, s.softcap))) return NULL;
  if (type_of(s.q)->dtype != t || type_of(s.k)->dtype != t || type_of(v)->dtype != t) return NULL;
  Node *k1 = unrepeated(g, s.k), *v1 = unrepeated(g, v);
  if (k1 && v1 && dims_agree(&s, k1, v1)) {
    s.k = k1;
    v = v1;
  }
  if (!dims_agree(&s, s.k, v)) return NULL;
  attention_attrs at = {
      .scale = s.scale, .softcap = s.softcap, .left_window_size = -1, .right_window_size = -1};
  if (rank == 3) {  // every matrix of the batch is one head
    at.q_num_heads = at.kv_num_heads = 1;
    if (s.mask && type_of(s.mask)->rank == 3) {
      const Dim *d3 = type_of(s.mask)->dims;
      s.mask = rec_view(g, s.mask, 4, (Dim[]){d3[0], g->dims.one, d3[1], d3[2]});
      if (!s.mask) return NULL;
    }
  }
  return s.mask ? NA(g, attention, &at, s.q, s.k, v, s.mask) : NA(g, attention, &at, s.q, s.k, v);
}

// v softmax(...)', as image models write it, is the transpose of softmax(...) v'.
static Node *swap_last(Graph *g, Node *x) {
  int64_t perm[MAX_RANK];
  int r = type_of(x)->rank;
  for (int i = 0; i < r; i++) perm[i] = i < r - 2 ? i : 2 * r - 3 - i;
  return transpose_to(g, x, r, perm);
}
static Node *make_transposed(Graph *g, const Match *m) {
  const Node *transposed = m->var[SLOT_q];
  int64_t perm[MAX_RANK];
  int r = transpose_perm(transposed, perm);
  if (r < 3 || type_of(m->var[SLOT_a])->rank != r || perm[r - 1] != r - 2 || perm[r - 2] != r - 1)
    return NULL;
  return swap_last(g, N(g, mat_mul, m->var[SLOT_p], swap_last(g, m->var[SLOT_a])));
}

// ---- factors of queries and keys ----

// n without a factor under data movement, and the factor; NULL when there is none.
static Node *unscaled_below(Graph *g, Node *n, int depth, double *factor) {
  Node *x = rec_unscaled(g, n, factor);
  if (x != n) return *factor > 0 ? x : NULL;
  if (!depth || (n->op != OP_transpose && n->op != OP_reshape)) return NULL;
  x = unscaled_below(g, n->src[0], depth - 1, factor);
  if (!x) return NULL;
  Node *src[] = {x, n->nsrc > 1 ? n->src[1] : NULL};
  return node_with(g, n, src);
}

// The projections before the heads are split are then products without arithmetic, and can be one.
static Node *take_factor(Graph *g, const Match *m) {
  enum { PAST_KEY = 4 };
  const Node *n = m->root;
  attention_attrs at = *(const attention_attrs *)n->attrs;
  const Type *t = type_of(n->src[0]);
  Node *src[16];
  if (at.scale <= 0 || n->nres != 1 || n->nsrc > ARRAY_LEN(src) || t->kind != TK_TENSOR)
    return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = n->src[i];
  bool past = n->nsrc > PAST_KEY && n->src[PAST_KEY] != g->none;
  double factor;
  for (int i = 0; i < (past ? 1 : 2); i++) {
    Node *x = unscaled_below(g, n->src[i], 4, &factor);
    if (!x || type_of(x) != type_of(n->src[i])) continue;
    if (!scale_fits(t->dtype, at.scale * factor)) continue;
    at.scale *= factor;
    src[i] = x;
    return node_new(g, OP_attention, (int)n->nsrc, src, &at, 1, n->name);
  }
  return NULL;
}

#define QKV           "%q: f32[2, 4, s, 8], %k: f32[2, 4, t, 8], %v: f32[2, 4, t, 8]"
#define A(body)       "(" QKV ") { " body " return %r }"
#define M(mask, body) "(" QKV ", %m: " mask ") { " body " return %r }"
#define T             "%kt = transpose(%k) perm=[0, 1, 3, 2] "
#define EIGHTH        "%c = const f32[] {0.35355338} "

static const Rule attend[] = {
    // clang-format off
    RULE("attention.product", P(mat_mul, a, b), .make = make_attention, .fast = FAST_APPROX,
         .example = M("f32[2, 1, s, t]", T EIGHTH "%z = mat_mul(%q, %kt) %y = mul(%z, %c) %x = add(%y, %m) %p = softmax(%x) %r = mat_mul(%p, %v)")),
    RULE("attention.transposed", P(mat_mul, a, BIND_ONCE(q, transpose, BIND_ONCE(p, softmax, b))), .make = make_transposed, .fast = FAST_REASSOC,
         .example = "(%v: f32[2, 5, t], %x: f32[2, s, t]) { %p = softmax(%x) %pt = transpose(%p) perm=[0, 2, 1] %r = mat_mul(%v, %pt) return %r }"),
    RULE("attention.factor", ANY(attention), .make = take_factor, .fast = FAST_APPROX,
         .example = "(%x: f32[2, s, 32], %k: f32[2, 4, t, 8], %v: f32[2, 4, t, 8]) { %c = const f32[] {0.35355338} %y = mul(%x, %c) %h = const i64[4] {2, 1, 4, 8} %z = reshape(%y, %h) into=[-1, 1, -1] %q = transpose(%z) perm=[0, 2, 1, 3] %r = attention(%q, %k, %v) scale=1 return %r }"),
    // clang-format on
};
const RuleSet rules_recognise_attention =
    RULES("recognise_attention", attend, "each rule leaves fewer nodes that are not composites");
