// split_reductions.c -- the pass split-reductions: few long sums, formed in two steps.
//
// A work item forms all of a sum.  Where there are fewer sums than a machine has cores or
// multiprocessors, and each is long, most of the machine waits.  So the operand is divided into
// parts along its outermost reduced axes: one kernel reduces the parts, a second one what they
// gave.  An axis that is too long by itself is cut into parts of equal length, and what is left
// over is a part of its own.
//
// A product whose result is one element is such a sum.  So is, on a CPU, one of few terms with one
// column: a matrix has no lanes for it, a reduction has its rows.
//
// A composite whose result is small beside its operand, such as a norm of vectors, is expanded
// where the sums inside are long.
//
// Needs:      constant sizes; choose-layout has run, so axes lie in memory as they stay.
// Guarantees: the parts depend on the shapes and on the kind of machine alone.  Sums of floats only
//             under FAST_REASSOC, and never with OptOptions.batch_invariant: the number of parts
//             depends on how many sums there are.
#include "eval/contract.h"
#include "eval/movement.h"
#include "eval/norm.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
#include "ir/internal.h"
#include "passes/passes.h"
#include "rules/shape.h"

#include <math.h>

typedef struct SplitSums {
  PassCtx *c;
  int64_t items;     // work items that keep the machine at work
  int64_t elements;  // of one item, from which a second kernel pays
  IntMap results;    // composite -> what its results are replaced by, or 0
} SplitSums;

// How a reduction is divided.
typedef struct Parts {
  bool over[MAX_RANK];  // reduced axes
  int rank;
  int whole;      // the first `whole` reduced axes stay in the first step
  int cut;        // the axis that is cut; -1: none
  int64_t parts;  // of the axis that is cut
} Parts;

static bool reduced_axes(Graph *g, const Node *n, Parts *p) {
  const Type *t = type_of(n->src[0]);
  const reduce_attrs *at = n->attrs;
  const Node *given = src_or_null(g, n, 1);
  Ints axes = {0};
  if (!type_is_static(t) || (given && !node_ints(g, given, &axes))) return false;
  p->rank = t->rank;
  memset(p->over, 0, sizeof p->over);
  if (!axes.n && at->noop_with_empty_axes) return false;
  for (int i = 0; !axes.n && i < t->rank; i++) p->over[i] = true;
  for (int64_t i = 0; i < axes.n; i++) p->over[axis_of(axes.v[i], t->rank)] = true;
  return true;
}

// The divisor of n nearest to `wish`, within a factor of two; 0: there is none.
static int64_t near_divisor(int64_t n, int64_t wish) {
  for (int64_t off = 0; off < wish; off++) {
    if (n % (wish + off) == 0) return wish + off;
    if (2 * off <= wish && n % (wish - off) == 0) return wish - off;
  }
  return 0;
}

// Whether the sums are few and long, and how they are divided.
static bool find_parts(const SplitSums *s, const Type *t, Parts *p) {
  enum { VECTOR = 64, LEAST = 1024, ROUND = 4 };
  double all = 1, sums = 1;
  for (int i = 0; i < t->rank; i++) {
    all *= (double)t->dims[i]->value;
    if (!p->over[i]) sums *= (double)t->dims[i]->value;
  }
  if (!t->rank || sums < 1) return false;
  // Sums beside one another along the last axis are the lanes of an item.
  double items = p->over[t->rank - 1] ? sums : ceil(sums / VECTOR);
  if (items * 2 > (double)s->items || all / items < (double)s->elements) return false;
  int64_t wish = (int64_t)MIN((double)s->items / items, all / items / LEAST);
  p->whole = 0;
  p->cut = -1;
  p->parts = 1;
  for (int i = 0; i < t->rank && wish > 1; i++) {
    int64_t n = t->dims[i]->value;
    if (!p->over[i]) continue;
    if (n > 2 * wish) {
      p->cut = i;
      p->parts = near_divisor(n, wish);
      if (!p->parts) p->parts = n / ROUND > wish ? wish : 1;
      break;
    }
    p->whole++;
    wish /= n;
  }
  if (p->parts < 2) p->cut = -1;
  int left = p->cut >= 0;
  for (int i = 0, seen = 0; i < t->rank; i++)
    if (p->over[i]) left += seen++ >= p->whole && i != p->cut && t->dims[i]->value > 1;
  // Something is divided, and something is left to be summed.
  bool divided = p->cut >= 0;
  for (int i = 0, seen = 0; i < t->rank; i++)
    if (p->over[i] && seen++ < p->whole) divided |= t->dims[i]->value > 1;
  return divided && left;
}

static Node *reduce(Graph *g, int op, Node *x, int naxes, const int64_t *axes) {
  reduce_attrs at = {.keepdims = false};
  return node_new(g, op, 2, (Node *[]){x, node_i64s(g, naxes, axes)}, &at, 0, NULL);
}

// The first step on a part of the operand, `first` to `end` along the axis that is cut, as `parts`
// equal parts.
static Node *first_step(Graph *g, int op, const Parts *p, Node *x, int64_t first, int64_t end,
                        int64_t parts) {
  int64_t axes[MAX_RANK], at = 0;
  int n = 0;
  if (p->cut >= 0 && end - first < type_of(x)->dims[p->cut]->value)
    x = slice_axis(g, x, p->cut, first, end, 1);
  const Type *t = type_of(x);
  if (t->kind != TK_TENSOR || t->rank != p->rank) return g->poison;
  Dim dims[MAX_RANK];
  int rank = 0;
  for (int i = 0, seen = 0; i < p->rank; i++) {
    bool stays = !p->over[i] || seen < p->whole;
    seen += p->over[i];
    if (i == p->cut) {
      dims[rank++] = ie_const(&g->dims, parts);
      dims[rank++] = ie_const(&g->dims, (end - first) / parts);
      at = rank - 1;
      axes[n++] = at;
      continue;
    }
    if (!stays) axes[n++] = rank;
    dims[rank++] = t->dims[i];
  }
  x = reshape_to(g, x, type_tensor(g, t->dtype, rank, dims));
  return x ? reduce(g, op, x, n, axes) : g->poison;
}

// Both steps of a plain reduction; NULL where it is left alone.
static Node *two_steps(const SplitSums *s, const Node *n) {
  Graph *g = s->c->g;
  Parts p;
  Node *x = n->src[0];
  const Type *t = type_of(x);
  if (!reduced_axes(g, n, &p) || p.rank + 1 > MAX_RANK || !find_parts(s, t, &p)) return NULL;
  bool mean = n->op == OP_reduce_mean, is_float = dtype_is_float(t->dtype);
  if (mean && !is_float) return NULL;
  bool narrow = is_float && dtype_bits(t->dtype) < 32;
  if (narrow) x = NA(g, cast, (&(cast_attrs){.to = DT_F32, .saturate = true}), x);
  int op = mean ? OP_reduce_sum : n->op;
  int64_t size = p.cut < 0 ? 1 : t->dims[p.cut]->value, length = size / p.parts * p.parts;
  Node *sums = first_step(g, op, &p, x, 0, length, p.parts);
  // What the first step leaves: axes that stay, and the parts where their axis was.
  int64_t axes[MAX_RANK], count = 1;
  int naxes = 0, rank = 0, part = 0;
  for (int i = 0, seen = 0; i < p.rank; i++) {
    if (p.over[i]) count *= t->dims[i]->value;
    bool stays = !p.over[i] || seen < p.whole || i == p.cut;
    if (stays && p.over[i]) axes[naxes++] = rank;
    if (i == p.cut) part = rank;
    seen += p.over[i];
    rank += stays;
  }
  if (length < size && sums != g->poison) {
    concat_attrs at = {.axis = part};
    sums = NA(g, concat, &at, sums, first_step(g, op, &p, x, length, size, 1));
  }
  if (sums == g->poison) return NULL;
  Node *y = reduce(g, op, sums, naxes, axes);
  if (mean) y = N(g, div, y, node_scalar(g, type_of(x)->dtype, (double)count));
  if (narrow) y = NA(g, cast, (&(cast_attrs){.to = t->dtype, .saturate = true}), y);
  if (y != g->poison) y = reshape_to(g, y, type_of(n));
  if (!y || y == g->poison || type_of(y) != type_of(n)) return NULL;
  y->name = n->name;
  return y;
}

static bool is_plain(const Node *n) {
  return n->op == OP_reduce_sum || n->op == OP_reduce_prod || n->op == OP_reduce_max ||
         n->op == OP_reduce_min || n->op == OP_reduce_mean;
}

static bool is_function_of_plain(const Node *n) {
  return n->op == OP_reduce_l1 || n->op == OP_reduce_l2 || n->op == OP_reduce_log_sum ||
         n->op == OP_reduce_log_sum_exp || n->op == OP_reduce_sum_square;
}

static bool may_split(const SplitSums *s, const Node *n) {
  if (!dtype_is_float(type_of(n->src[0])->dtype)) return true;
  return (s->c->o->fast & FAST_REASSOC) && !s->c->o->batch_invariant;
}

static Node *split(void *ctx, Node *n, Node *old) {
  SplitSums *s = ctx;
  (void)old;
  if (!is_plain(n) || type_of(n)->kind != TK_TENSOR || !may_split(s, n)) return n;
  Node *y = two_steps(s, n);
  return y ? y : n;
}

// The axes that a composite reduces beside what it computes for each element.
static bool reduces_within(const Node *n, Parts *p) {
  const Type *t = n->nsrc ? type_of(n->src[0]) : NULL;
  const batch_normalization_attrs *at = n->attrs;
  bool norm = n->op == OP_batch_normalization && at->training_mode;
  if ((!norm && n->op != OP_dynamic_quantize_linear) || !type_is_static(t) || t->rank < 1 + norm)
    return false;
  p->rank = t->rank;
  for (int i = 0; i < t->rank; i++) p->over[i] = true;
  if (norm) p->over[at->channels_last ? t->rank - 1 : 1] = false;
  return true;
}

static Node **results_of(SplitSums *s, const Node *n) {
  Graph *g = s->c->g;
  uint64_t known;
  Parts p;
  if (!reduces_within(n, &p) || !may_split(s, n) || !find_parts(s, type_of(n->src[0]), &p))
    return NULL;
  if (intmap_get(&s->results, n->id, &known)) return (Node **)(uintptr_t)known;
  Node **out = arena_array(&g->scratch, Node *, n->nres);
  op_info(n->op)->expand(g, n, out);
  bool ok = !graph_status(g) && out[0];
  for (int i = 0; ok && i < n->nres; i++) ok = out[i] && type_of(out[i]) == n->type[i];
  if (!ok) out = NULL;
  intmap_put(&s->results, n->id, (uint64_t)(uintptr_t)out);
  return out;
}

// A reduction that is a function of plain ones, or a composite that has some within, is expanded
// where those would be divided.
static Node *expand(void *ctx, Node *n, Node *old) {
  SplitSums *s = ctx;
  Graph *g = s->c->g;
  Parts p;
  (void)old;
  Node **results = n->op == OP_proj ? results_of(s, n->src[0])
                   : n->nres == 1   ? results_of(s, n)
                                    : NULL;
  if (results) return results[n->op == OP_proj ? ((const proj_attrs *)n->attrs)->index : 0];
  if (!is_function_of_plain(n) || !may_split(s, n) || !reduced_axes(g, n, &p) ||
      !find_parts(s, type_of(n->src[0]), &p))
    return n;
  Node *out[1] = {NULL};
  op_info(n->op)->expand(g, n, out);
  if (!out[0] || out[0] == g->poison || type_of(out[0]) != type_of(n)) return n;
  out[0]->name = n->name;
  return out[0];
}

// ---- products of one column ----

// sum(x * y) over these axes of x.
static Node *sum_of_products(Graph *g, const Node *n, Node *x, Node *y, int naxes,
                             const int64_t *axes, bool keepdims) {
  DType t = type_of(n)->dtype;
  DType wide = dtype_is_float(t) && dtype_bits(t) < 32 ? DT_F32 : t;
  for (int i = 0; i < 2; i++) {  // what is wider than the result is multiplied before it is cast
    DType from = type_of(i ? y : x)->dtype;
    if (dtype_is_float(from) != dtype_is_float(wide) || dtype_bits(from) > dtype_bits(wide))
      return NULL;
  }
  cast_attrs up = {.to = wide, .saturate = true}, down = {.to = t, .saturate = true};
  if (type_of(x)->dtype != wide) x = NA(g, cast, &up, x);
  if (type_of(y)->dtype != wide) y = NA(g, cast, &up, y);
  reduce_attrs at = {.keepdims = keepdims};
  Node *product = N(g, mul, x, y), *to = node_i64s(g, naxes, axes);
  Node *sum = node_new(g, OP_reduce_sum, 2, (Node *[]){product, to}, &at, 0, NULL);
  if (wide != t) sum = NA(g, cast, &down, sum);
  if (graph_status(g) || type_of(sum) != type_of(n)) return NULL;
  sum->name = n->name;
  return sum;
}

// All axes of both sides are summed over.
static Node *inner_dot(Graph *g, const Node *n) {
  const dot_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]), *y = type_of(n->src[1]);
  int64_t axes[MAX_RANK], perm[MAX_RANK];
  if (x->rank < 1 || at->contract_lhs.n != x->rank || at->contract_rhs.n != y->rank) return NULL;
  for (int i = 0; i < x->rank; i++) {
    axes[i] = i;
    perm[axis_of(at->contract_lhs.v[i], x->rank)] = axis_of(at->contract_rhs.v[i], y->rank);
  }
  Node *r = transpose_to(g, n->src[1], y->rank, perm);
  return sum_of_products(g, n, n->src[0], r, x->rank, axes, false);
}

static Node *one_column(Graph *g, const Node *n) {
  enum { FEW_TERMS = 16, LONG_SUM = 1024 };
  const Type *x = type_of(n->src[0]), *y = type_of(n->src[1]);
  if (x->rank < 1 || y->rank < 1 || y->rank > 2 || (y->rank == 2 && !ie_is(y->dims[1], 1)) ||
      !ie_is_const(y->dims[0]))
    return NULL;
  int64_t terms = y->dims[0]->value, flat = -1, last = x->rank - 1;
  bool one = true;
  for (int i = 0; i < x->rank - 1; i++) one &= ie_is(x->dims[i], 1);
  if (one ? terms < LONG_SUM : terms < 1 || terms > FEW_TERMS || g->traits->gpu) return NULL;
  Node *r = y->rank == 2 ? N(g, reshape, n->src[1], node_i64s(g, 1, &flat)) : n->src[1];
  return sum_of_products(g, n, n->src[0], r, 1, &last, y->rank == 2);
}

static Node *product_as_sum(void *ctx, Node *n, Node *old) {
  const SplitSums *s = ctx;
  Node *y = NULL;
  (void)old;
  if ((n->op != OP_dot && n->op != OP_mat_mul) || type_of(n)->kind != TK_TENSOR ||
      type_of(n)->rank < 0 || !may_split(s, n))
    return n;
  y = n->op == OP_dot ? inner_dot(s->c->g, n) : one_column(s->c->g, n);
  return y ? y : n;
}

tenon_status pass_split_reductions(PassCtx *c, bool *out_changed) {
  SplitSums s = {.c = c,
                 .items = traits_busy_items(c->g->traits),
                 .elements = traits_split_elements(c->g->traits)};
  GraphMap m = {.g = c->g, .ctx = &s};
  intmap_init(&s.results, &c->g->scratch);
  Node *(*const step[])(void *, Node *, Node *) = {product_as_sum, expand, split};
  *out_changed = false;
  for (int i = 0; i < ARRAY_LEN(step); i++) {
    bool changed = false;
    m.fn = step[i];
    TRY(graph_map(&m, &changed));
    *out_changed |= changed;
  }
  return TENON_OK;
}
