// ml_tree_prepared.c -- ensembles of decision trees for repeated calls.
//
// The first call flattens the forest.  Every comparison becomes x <= value: a strict one takes the
// number before, its opposite swaps the children, equality and sets are chains of two such nodes a
// number.  Where it holds, a walk goes on with the next node, else with the child.  A leaf is a
// node that leads to itself.  So a step has no branch, and several walks are concurrent to hide
// the latency of their loads: over rows, or over trees where there are few rows.
//
// Needs:      a session's EvalKeep; the attributes of a later call are those of the first.
// Guarantees: the bits of the reference evaluation (ml_tree.c): comparisons are exact, and a row
//             adds its votes in double in the order of the trees.
#include "eval/ml_forest.h"

#include <math.h>

enum { LANES = 8, BLOCK = 64 };  // concurrent walks; rows that go through a tree together

// Walks count in bytes, which saves them the scaling of indices.
typedef struct FlatNode {
  double value;     // NaN, which nothing is below or equal to: always skips
  uint32_t column;  // in bytes of a row, and 1 where NaN counts as x <= value
  int32_t skip;     // from the next node to the child, in bytes; back from a leaf to itself
} FlatNode;
enum { NODE = sizeof(FlatNode), CELL = sizeof(double) };

typedef struct FlatForest {
  const FlatNode *node;
  const int32_t *leaf;   // of each node that is one: its number
  const int32_t *root;   // in bytes, as the walks
  const int32_t *least;  // of each tree: steps to its nearest leaf,
  const int32_t *most;   // and to its farthest where that is little more; else 0
  bool nan;              // some node takes NaN for x <= value
  const int64_t *vote_begin;
  const Vote *vote;
  const double *weight;     // [leaf][target]: each leaf adds one for each target; NULL: otherwise
  int64_t nroots, columns;  // columns: that nodes read
  Forest sizes;             // counts of the forest that it was made of, for its cost
  TreeClasses classes;
} FlatForest;

// ---- flattening ----

typedef struct Flatten {
  const Forest *f;
  FlatNode *node;
  int64_t *child;  // of each flat node
  int64_t *want;   // the place of f that this child is, while `child` is -1
  int64_t n;
  int64_t *at, *leaf_at;  // of each node and leaf of f: the flat one; -1: none yet
  int64_t columns;
} Flatten;

// The largest double below v; NaN where there is none.
static double before(double v) { return v == -INFINITY ? NAN : nextafter(v, -INFINITY); }

static int64_t flat_count(const TreeNode *n) {
  if (n->mode == TREE_MEMBER) return 2 * MAX(n->nmembers, 1);
  return n->mode == TREE_EQ || n->mode == TREE_NEQ ? 2 : 1;
}

static int64_t *flat_of(const Flatten *w, int64_t place) {
  return place < 0 ? &w->leaf_at[~place] : &w->at[place];
}

static void flat_put(Flatten *w, double value, int64_t feature, bool nan, int64_t want) {
  w->want[w->n] = want;
  w->child[w->n] = -1;
  w->node[w->n++] = (FlatNode){value, (uint32_t)(feature * CELL) | nan, 0};
}

// x == v leads to `when`; all else goes on behind the two nodes.
static void flat_equal(Flatten *w, const TreeNode *t, double v, bool nan, int64_t when) {
  int64_t at = w->n;
  flat_put(w, v, t->feature, nan, when);
  flat_put(w, before(v), t->feature, false, when);
  w->child[at] = w->n;
}

// The comparisons of a node.  Returns the place that follows them; `out_other` is the one beside.
static int64_t flat_node(Flatten *w, const TreeNode *t, int64_t *out_other) {
  w->columns = MAX(w->columns, t->feature + 1);
  if (t->mode == TREE_EQ || t->mode == TREE_NEQ) {
    bool eq = t->mode == TREE_EQ;
    *out_other = t->child[eq];
    flat_equal(w, t, t->value, eq && t->missing_true, t->child[eq]);
    return t->child[!eq];
  }
  if (t->mode == TREE_MEMBER) {
    *out_other = t->child[1];
    for (int64_t k = 0; k < MAX(t->nmembers, 1); k++)
      flat_equal(w, t, t->nmembers ? w->f->member[t->members + k] : NAN, t->missing_true,
                 t->child[1]);
    return t->child[0];
  }
  bool swapped = t->mode == TREE_GTE || t->mode == TREE_GT;
  bool strict = t->mode == TREE_LT || t->mode == TREE_GTE;
  double v = strict ? before(t->value) : t->value;
  if (swapped && t->value != t->value) v = INFINITY;  // nothing is above NaN
  *out_other = t->child[swapped];
  flat_put(w, v, t->feature, t->missing_true != swapped, t->child[swapped]);
  return t->child[!swapped];
}

// All that a root leads to and is not there yet.
static void flat_tree(Flatten *w, int64_t root, int64_t *stack) {
  int64_t top = 0;
  stack[top++] = root;
  while (top) {
    int64_t place = stack[--top];
    if (*flat_of(w, place) >= 0) continue;
    while (*flat_of(w, place) < 0) {
      *flat_of(w, place) = w->n;
      if (place < 0) {
        flat_put(w, NAN, 0, false, place);
        break;
      }
      int64_t other;
      place = flat_node(w, &w->f->node[place], &other);
      if (*flat_of(w, other) < 0) stack[top++] = other;
      if (*flat_of(w, place) < 0) continue;
      flat_put(w, NAN, 0, false, place);  // on to where it is
      break;
    }
  }
}

// Room for all nodes; false: too many.
static bool flat_room(Flatten *w, Arena *scratch) {
  const Forest *f = w->f;
  int64_t room = f->nleaves;
  for (int64_t i = 0; i < f->nnodes; i++)
    if (f->node[i].mode != TREE_LEAF && !ck_add(room, flat_count(&f->node[i]) + 1, &room))
      return false;
  if (room >= INT32_MAX / NODE || f->features > INT32_MAX / CELL) return false;
  w->node = arena_array(scratch, FlatNode, room);
  w->child = arena_array(scratch, int64_t, room);
  w->want = arena_array(scratch, int64_t, room);
  w->at = arena_array(scratch, int64_t, f->nnodes);
  w->leaf_at = arena_array(scratch, int64_t, f->nleaves);
  for (int64_t i = 0; i < f->nnodes; i++) w->at[i] = -1;
  for (int64_t i = 0; i < f->nleaves; i++) w->leaf_at[i] = -1;
  return true;
}

// Weights by leaf and target; NULL where some leaf has other votes, or they are not added.
static const double *flat_weights(const Forest *f, int how, Arena *a) {
  int64_t n = f->ntargets;
  if ((how != AGGREGATE_SUM && how != AGGREGATE_AVERAGE) || !f->nroots) return NULL;
  for (int64_t k = 0; k < f->nleaves; k++) {
    if (f->vote_begin[k + 1] - f->vote_begin[k] != n) return NULL;
    for (int64_t i = 0; i < n; i++)
      if (f->vote[f->vote_begin[k] + i].target != i) return NULL;
  }
  double *weight = arena_array(a, double, f->nleaves *n);
  for (int64_t i = 0; i < f->nleaves * n; i++) weight[i] = f->vote[i].weight;
  return weight;
}

enum { FAR = 1 << 20 };  // steps that are not counted

// Steps from each flat node to its nearest and to its farthest leaf.  A node comes before those
// that it leads to, or skips back to what an earlier tree wrote: then these are bounds.
static void flat_steps(const Flatten *w, int32_t *least, int32_t *most) {
  for (int64_t i = w->n - 1; i >= 0; i--) {
    int64_t to = w->child[i];
    if (to == i) continue;
    bool falls = w->node[i].value == w->node[i].value || w->node[i].column & 1;
    int32_t near = to > i ? least[to] : 0, far = to > i ? most[to] : FAR;
    least[i] = 1 + (falls ? MIN(least[i + 1], near) : near);
    most[i] = MIN(1 + (falls ? MAX(most[i + 1], far) : far), FAR);
  }
}

static void flat_link(Flatten *w, int32_t *leaf, bool *nan) {
  for (int64_t i = 0; i < w->n; i++) {
    if (w->child[i] < 0) w->child[i] = *flat_of(w, w->want[i]);
    if (w->child[i] == i) leaf[i] = (int32_t)~w->want[i];
    w->node[i].skip = (int32_t)((w->child[i] - i - 1) * NODE);
    *nan |= w->node[i].column & 1;
  }
}

static FlatForest *flatten(Eval *e, const Forest *f, int how) {
  Arena *a = e->keep->arena, *scratch = &e->run->scratch;
  Flatten w = {.f = f};
  if (!flat_room(&w, scratch)) return NULL;
  int64_t *stack = arena_array(scratch, int64_t, f->nnodes + 2);
  FlatForest *out = arena_array(a, FlatForest, 1);
  int32_t *root = arena_array(a, int32_t, f->nroots), *near = arena_array(a, int32_t, f->nroots);
  int32_t *far = arena_array(a, int32_t, f->nroots);
  for (int64_t r = 0; r < f->nroots; r++) flat_tree(&w, f->root[r], stack);
  int32_t *leaf = arena_array(a, int32_t, w.n);
  flat_link(&w, leaf, &out->nan);
  int32_t *least = arena_array(scratch, int32_t, w.n), *most = arena_array(scratch, int32_t, w.n);
  flat_steps(&w, least, most);
  for (int64_t r = 0; r < f->nroots; r++) {
    int64_t at = *flat_of(&w, f->root[r]);
    root[r] = (int32_t)(at * NODE);
    near[r] = least[at];
    far[r] = most[at] <= least[at] + 3 ? most[at] : 0;
  }
  out->node = arena_dup(a, w.node, w.n * NODE);
  out->leaf = leaf;
  out->root = root;
  out->least = near;
  out->most = far;
  out->nroots = f->nroots;
  out->columns = w.columns;
  out->vote_begin = arena_dup(a, f->vote_begin, (f->nleaves + 1) * (int64_t)sizeof(int64_t));
  out->vote = arena_dup(a, f->vote, f->vote_begin[f->nleaves] * (int64_t)sizeof(Vote));
  out->weight = flat_weights(f, how, a);
  out->sizes = (Forest){.nnodes = f->nnodes, .nroots = f->nroots, .ntargets = f->ntargets};
  return out;
}

// ---- walking ----

// The choice is arithmetic: as a branch it would be mispredicted every other time.
static inline int32_t step(const char *node, const double *x, int32_t at, bool nan) {
  const FlatNode *n = (const FlatNode *)(const void *)(node + at);
  uint32_t column = nan ? n->column & ~1u : n->column;
  double v = *(const double *)(const void *)((const char *)x + column);
  int32_t fails = !(v <= n->value);
  if (nan) fails &= ~((v != v) & (int32_t)n->column);
  return at + NODE + (n->skip & -fails);
}

// Takes every walk to its leaf: at[k] begins at a root and reads the row x[k].  The first `sure`
// steps need no look at where walks are; `all`: they lead to a leaf.
static inline void walk_with(const FlatForest *f, const double *const x[LANES], int32_t at[LANES],
                             int32_t sure, bool all, bool nan) {
  const char *node = (const char *)f->node;
  for (int32_t i = 0; i < sure; i++)
    for (int k = 0; k < LANES; k++) at[k] = step(node, x[k], at[k], nan);
  int32_t moved = !all;
  while (moved) {
    moved = 0;
    for (int k = 0; k < LANES; k++) {
      int32_t to = step(node, x[k], at[k], nan);
      moved |= to ^ at[k];
      at[k] = to;
    }
  }
}
static void walk(const FlatForest *f, const double *const x[LANES], int32_t at[LANES], int32_t sure,
                 bool all) {
  if (f->nan)
    walk_with(f, x, at, sure, all, true);
  else
    walk_with(f, x, at, sure, all, false);
}

typedef struct FlatJob {
  const FlatForest *f;
  int aggregate;
  int64_t rows, columns, ntargets;
  const double *x;
  double *score;  // [rows][ntargets]
  uint8_t *has;   // whether any vote came
} FlatJob;

// What tree t adds to row r.
static void count_votes(const FlatJob *j, int64_t t, int64_t r, int64_t leaf) {
  const FlatForest *f = j->f;
  int64_t n = j->ntargets;
  double *score = j->score + r * n;
  if (f->weight) {
    const double *w = f->weight + leaf * n;
    for (int64_t k = 0; k < n; k++) score[k] = t ? score[k] + w[k] : w[k];
    return;
  }
  uint8_t *has = j->has + r * n;
  bool adds = j->aggregate == AGGREGATE_SUM || j->aggregate == AGGREGATE_AVERAGE;
  for (int64_t v = f->vote_begin[leaf]; v < f->vote_begin[leaf + 1]; v++) {
    int64_t k = f->vote[v].target;
    double w = f->vote[v].weight;
    score[k] = !has[k] ? w : adds ? score[k] + w : forest_aggregate(j->aggregate, score[k], w);
    has[k] = 1;
  }
}

// Up to LANES rows through some trees; lanes past the last row repeat it.
static void walk_lanes(const FlatJob *j, int64_t r, int64_t n, int64_t tree, int64_t end) {
  const FlatForest *f = j->f;
  const double *x[LANES];
  int32_t at[LANES];
  for (int64_t k = 0; k < LANES; k++) x[k] = j->x + (r + MIN(k, n - 1)) * j->columns;
  for (int64_t t = tree; t < end; t++) {
    int32_t most = f->most[t];
    for (int k = 0; k < LANES; k++) at[k] = f->root[t];
    walk(f, x, at, most ? most : f->least[t], most > 0);
    if (f->weight && j->ntargets == 1) {
      double *score = j->score + r;
      for (int64_t k = 0; k < n; k++) {
        double w = f->weight[f->leaf[at[k] / NODE]];
        score[k] = t ? score[k] + w : w;
      }
    } else {
      for (int64_t k = 0; k < n; k++) count_votes(j, t, r + k, f->leaf[at[k] / NODE]);
    }
  }
}

// Some rows through all trees: through as many trees as a cache holds, one after the other.
static void walk_rows(const FlatJob *j, int64_t begin, int64_t end) {
  enum { CACHED = 1 << 17 };
  const FlatForest *f = j->f;
  for (int64_t t = 0, next; t < f->nroots; t = next) {
    for (next = t + 1; next < f->nroots && f->root[next] - f->root[t] < CACHED;) next++;
    for (int64_t r = begin; r < end; r += LANES) walk_lanes(j, r, MIN(LANES, end - r), t, next);
  }
}

// One row through LANES trees at a time.
static void walk_trees(const FlatJob *j, int64_t r) {
  const FlatForest *f = j->f;
  const double *x[LANES];
  int32_t at[LANES];
  for (int k = 0; k < LANES; k++) x[k] = j->x + r * j->columns;
  for (int64_t t = 0; t < f->nroots; t += LANES) {
    int64_t n = MIN(LANES, f->nroots - t);
    int32_t least = INT32_MAX;
    for (int64_t k = 0; k < LANES; k++) {
      int64_t tree = t + MIN(k, n - 1);
      at[k] = f->root[tree];
      least = MIN(least, f->least[tree]);
    }
    walk(f, x, at, least, false);
    for (int64_t k = 0; k < n; k++) count_votes(j, t + k, r, f->leaf[at[k] / NODE]);
  }
}

static void walk_block(void *ctx, int64_t begin, int64_t end) {
  const FlatJob *j = ctx;
  for (int64_t b = begin; b < end; b++) {
    int64_t first = b * BLOCK, last = MIN(first + BLOCK, j->rows);
    if (last - first < LANES / 2)
      for (int64_t r = first; r < last; r++) walk_trees(j, r);
    else
      walk_rows(j, first, last);
    for (int64_t i = first * j->ntargets; i < last * j->ntargets; i++) {
      if (j->f->weight) j->has[i] = 1;
      if (j->aggregate == AGGREGATE_AVERAGE && j->f->nroots) j->score[i] /= (double)j->f->nroots;
    }
  }
}

static tenon_status run_flat(Eval *e, int how, const double *x, int64_t rows, int64_t columns,
                             FlatJob *j) {
  const FlatForest *f = e->keep->made;
  int64_t n, ntargets = f->sizes.ntargets;
  if (!ck_mul(rows, ntargets, &n))
    return eval_fail(e, TENON_EINVAL, "%lld rows are too many", (long long)rows);
  TRY(forest_charge(e, &f->sizes, rows));
  *j = (FlatJob){f, how, rows, columns, ntargets, x, .score = NULL};
  j->score = arena_array(&e->run->scratch, double, n);
  j->has = arena_array(&e->run->scratch, uint8_t, n);
  // Fewer walks than these are not worth another thread.
  int64_t grain = MAX(1, 4096 / (BLOCK * MAX(f->nroots, 1)));
  parallel_for(e->run->pool, (rows + BLOCK - 1) / BLOCK, grain, walk_block, j);
  return TENON_OK;
}

// ---- the ops ----

// Whether the kept forest fits a matrix of so many columns; made in the first call.  The reference
// evaluation has the words for what does not fit.
static tenon_status ready(Eval *e, int how, int64_t ntargets,
                          tenon_status (*build)(Eval *, Forest *), bool *out_fits) {
  int64_t rows;
  Forest f = {.ntargets = ntargets};
  *out_fits = false;
  TRY(ml_matrix(e, 0, &rows, &f.features));
  if (!f.features || ntargets < 1) return TENON_OK;
  if (!e->keep->made) {
    TRY(build(e, &f));
    e->keep->made = flatten(e, &f, how);
  }
  const FlatForest *made = e->keep->made;
  *out_fits = made && made->columns <= f.features;
  return TENON_OK;
}

tenon_status prepared_tree_ensemble_regressor(Eval *e) {
  const tree_ensemble_regressor_attrs *at = e->attrs;
  int64_t rows, columns, n = at->n_targets;
  const double *x;
  FlatJob j;
  Value *y;
  bool fits;
  TRY(ready(e, at->aggregate_function, n, forest_of_regressor, &fits));
  if (!fits) return eval_tree_ensemble_regressor(e);
  TRY(ml_load(e, &rows, &columns, &x));
  TRY(eval_out(e, 0, DT_F32, 2, (int64_t[]){rows, n}, &y));
  TRY(run_flat(e, at->aggregate_function, x, rows, columns, &j));
  for (int64_t r = 0; r < rows; r++)
    forest_finish_targets(j.score + r * n, n, at->base_values, at->post_transform);
  store_f64(DT_F32, y->data, 0, y->n, j.score);
  return TENON_OK;
}

tenon_status prepared_tree_ensemble(Eval *e) {
  const tree_ensemble_attrs *at = e->attrs;
  int64_t rows, columns, n = at->n_targets;
  const double *x;
  FlatJob j;
  Value *y;
  bool fits;
  TRY(ready(e, at->aggregate_function, n, forest_of_flat, &fits));
  if (!fits) return eval_tree_ensemble(e);
  TRY(ml_load(e, &rows, &columns, &x));
  TRY(eval_out(e, 0, e->in[0]->dtype, 2, (int64_t[]){rows, n}, &y));
  TRY(run_flat(e, at->aggregate_function, x, rows, columns, &j));
  for (int64_t r = 0; r < rows; r++)
    forest_finish_targets(j.score + r * n, n, (Floats){0}, at->post_transform);
  store_f64(y->dtype, y->data, 0, y->n, j.score);
  return TENON_OK;
}

tenon_status prepared_tree_ensemble_classifier(Eval *e) {
  const tree_ensemble_classifier_attrs *at = e->attrs;
  int64_t rows, columns, strings = at->classlabels_strings.n;
  int64_t n = strings ? strings : at->classlabels_int64s.n;
  const double *x;
  FlatJob j;
  Value *labels, *z = NULL;
  bool fits, first = !e->keep->made;
  TRY(ready(e, AGGREGATE_SUM, n, forest_of_classifier, &fits));
  if (!fits) return eval_tree_ensemble_classifier(e);
  FlatForest *f = e->keep->made;
  if (first) f->classes = forest_classes(at);
  TRY(ml_load(e, &rows, &columns, &x));
  TRY(eval_out(e, 0, f->classes.text ? DT_STRING : DT_I64, 1, &rows, &labels));
  if (eval_wants(e, 1)) TRY(eval_out(e, 1, DT_F32, 2, (int64_t[]){rows, n}, &z));
  TRY(run_flat(e, AGGREGATE_SUM, x, rows, columns, &j));
  forest_finish_classes(&f->classes, rows, j.score, j.has, labels, z);
  return TENON_OK;
}
