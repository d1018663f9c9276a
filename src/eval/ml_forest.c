// ml_forest.c -- builds and checks forests of decision trees, and finishes their scores.
//
// Both encodings (lists of nodes with ids, and the flat one of opset 5) become one Forest: inner
// nodes with two children, leaves with any number of votes.  The trees come from a model, so
// everything is checked while the forest is built: children exist, no node is its own ancestor,
// votes name real targets.  After that a walk from a root always ends.
#include "eval/ml_forest.h"

// ---- checks ----

// No cycles: a walk in depth that never meets a node it is still inside of.
static tenon_status check_acyclic(Eval *e, const Forest *f) {
  Arena *a = &e->run->scratch;
  uint8_t *seen = arena_array(a, uint8_t, f->nnodes);  // 1 inside, 2 done
  int64_t *stack = arena_array(a, int64_t, f->nnodes);
  for (int64_t r = 0; r < f->nroots; r++) {
    int64_t top = 0;
    if (f->root[r] < 0 || seen[f->root[r]]) continue;
    stack[top++] = f->root[r];
    seen[f->root[r]] = 1;
    while (top) {
      int64_t n = stack[top - 1], next = -1;
      for (int c = 0; c < 2 && next < 0; c++) {
        int64_t child = f->node[n].child[c];
        if (child < 0 || seen[child] == 2) continue;
        if (seen[child] == 1)
          return eval_fail(e, TENON_EINVAL, "tree node %lld is its own ancestor", (long long)child);
        next = child;
      }
      if (next < 0) {
        seen[n] = 2;
        top--;
      } else {
        seen[next] = 1;
        stack[top++] = next;
      }
    }
  }
  return TENON_OK;
}

static tenon_status check_features(Eval *e, Forest *f) {
  for (int64_t i = 0; i < f->nnodes; i++) {
    int64_t k = f->node[i].feature;
    if (f->node[i].mode != TREE_LEAF && (k < 0 || k >= f->features))
      return eval_fail(e, TENON_EINVAL, "tree node %lld reads column %lld of %lld", (long long)i,
                       (long long)k, (long long)f->features);
  }
  return TENON_OK;
}

// ---- lists of nodes with ids ----

// The node lists of both older operators.
typedef struct NodeLists {
  Ints tree, id, feature, when_true, when_false, missing;
  Floats value;
  Strs mode;
  Ints vote_tree, vote_id, vote_target;
  Floats vote_weight;
} NodeLists;

// Tree and node ids are any integers; (tree, id) is found through dense numbers of both.
typedef struct NodeIndex {
  IntMap tree, id, node;
} NodeIndex;

static bool pair_key(const NodeIndex *ix, int64_t tree, int64_t id, uint64_t *key) {
  uint64_t t, n;
  if (!intmap_get(&ix->tree, (uint64_t)tree, &t) || !intmap_get(&ix->id, (uint64_t)id, &n))
    return false;
  *key = t << 32 | n;
  return true;
}
static int64_t find_node(const NodeIndex *ix, int64_t tree, int64_t id) {
  uint64_t key, at;
  return pair_key(ix, tree, id, &key) && intmap_get(&ix->node, key, &at) ? (int64_t)at : -1;
}

static int mode_code(Str s) {
  static const char words[] =
      "BRANCH_LEQ|BRANCH_LT|BRANCH_GTE|BRANCH_GT|BRANCH_EQ|BRANCH_NEQ|BRANCH_MEMBER|LEAF";
  return attr_choice_find(words, s);
}

static tenon_status check_lists(Eval *e, const NodeLists *l) {
  int64_t n = l->tree.n;
  if (n != l->id.n || n != l->feature.n || n != l->when_true.n || n != l->when_false.n ||
      n != l->mode.n || n != l->value.n || n >= INT32_MAX)
    return eval_fail(e, TENON_EINVAL,
                     "the lists nodes_... differ in length: %lld tree ids, %lld node ids, "
                     "%lld features, %lld values, %lld modes",
                     (long long)n, (long long)l->id.n, (long long)l->feature.n,
                     (long long)l->value.n, (long long)l->mode.n);
  n = l->vote_tree.n;
  if (n != l->vote_id.n || n != l->vote_target.n || n != l->vote_weight.n)
    return eval_fail(e, TENON_EINVAL, "the lists of votes differ in length: %lld, %lld, %lld, %lld",
                     (long long)n, (long long)l->vote_id.n, (long long)l->vote_target.n,
                     (long long)l->vote_weight.n);
  return TENON_OK;
}

// Numbers the nodes and finds the roots: the first node of each tree.
static tenon_status index_nodes(Eval *e, const NodeLists *l, NodeIndex *ix, Forest *f) {
  Arena *a = &e->run->scratch;
  intmap_init(&ix->tree, a);
  intmap_init(&ix->id, a);
  intmap_init(&ix->node, a);
  f->nnodes = l->tree.n;
  f->node = arena_array(a, TreeNode, f->nnodes);
  f->root = arena_array(a, int64_t, f->nnodes);
  for (int64_t i = 0; i < f->nnodes; i++) {
    uint64_t key, old;
    int mode = mode_code(l->mode.v[i]);
    if (mode < 0 || mode == TREE_MEMBER)
      return eval_fail(e, TENON_EINVAL, "tree node %lld has mode '%.*s'", (long long)i,
                       STR_ARG(l->mode.v[i]));
    if (!intmap_get(&ix->tree, (uint64_t)l->tree.v[i], &old)) {
      intmap_put(&ix->tree, (uint64_t)l->tree.v[i], (uint64_t)f->nroots);
      f->root[f->nroots++] = i;
    }
    if (!intmap_get(&ix->id, (uint64_t)l->id.v[i], &old))
      intmap_put(&ix->id, (uint64_t)l->id.v[i], (uint64_t)ix->id.n);
    CHECK(pair_key(ix, l->tree.v[i], l->id.v[i], &key), "tree node %lld", (long long)i);
    if (intmap_get(&ix->node, key, &old))
      return eval_fail(e, TENON_EINVAL, "node %lld of tree %lld is there twice",
                       (long long)l->id.v[i], (long long)l->tree.v[i]);
    intmap_put(&ix->node, key, (uint64_t)i);
    TreeNode *n = &f->node[i];
    n->mode = (uint8_t)mode;
    n->feature = l->feature.v[i];
    n->value = l->value.v[i];
    n->missing_true = i < l->missing.n && l->missing.v[i] == 1;
    if (mode == TREE_LEAF)
      n->child[0] = f->nleaves++;  // its number, until link_nodes puts its place there
  }
  return TENON_OK;
}

static int64_t place_of(const Forest *f, int64_t node) {
  return f->node[node].mode == TREE_LEAF ? ~f->node[node].child[0] : node;
}

static tenon_status link_nodes(Eval *e, const NodeLists *l, const NodeIndex *ix, Forest *f) {
  for (int64_t i = 0; i < f->nnodes; i++) {
    if (f->node[i].mode == TREE_LEAF) continue;
    for (int c = 0; c < 2; c++) {
      int64_t id = c ? l->when_true.v[i] : l->when_false.v[i], to = find_node(ix, l->tree.v[i], id);
      if (to < 0)
        return eval_fail(e, TENON_EINVAL, "tree %lld has no node %lld, the child of node %lld",
                         (long long)l->tree.v[i], (long long)id, (long long)l->id.v[i]);
      f->node[i].child[c] = place_of(f, to);
    }
  }
  for (int64_t r = 0; r < f->nroots; r++) f->root[r] = place_of(f, f->root[r]);
  return TENON_OK;
}

// Groups the votes by leaf, keeping their order.
static tenon_status gather_votes(Eval *e, const NodeLists *l, const NodeIndex *ix, Forest *f) {
  Arena *a = &e->run->scratch;
  int64_t n = l->vote_tree.n, *leaf = arena_array(a, int64_t, n);
  f->vote_begin = arena_array(a, int64_t, f->nleaves + 1);
  f->vote = arena_array(a, Vote, n);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = find_node(ix, l->vote_tree.v[i], l->vote_id.v[i]), target = l->vote_target.v[i];
    if (at < 0 || target < 0 || target >= f->ntargets)
      return eval_fail(e, TENON_EINVAL,
                       "vote %lld is for target %lld of %lld, at node %lld of tree %lld",
                       (long long)i, (long long)target, (long long)f->ntargets,
                       (long long)l->vote_id.v[i], (long long)l->vote_tree.v[i]);
    leaf[i] = f->node[at].mode == TREE_LEAF ? f->node[at].child[0] : -1;  // inner nodes do not vote
    if (leaf[i] >= 0) f->vote_begin[leaf[i] + 1]++;
  }
  for (int64_t k = 0; k < f->nleaves; k++) f->vote_begin[k + 1] += f->vote_begin[k];
  int64_t *next = arena_dup(a, f->vote_begin, (f->nleaves + 1) * (int64_t)sizeof(*next));
  for (int64_t i = 0; i < n; i++)
    if (leaf[i] >= 0) f->vote[next[leaf[i]]++] = (Vote){l->vote_target.v[i], l->vote_weight.v[i]};
  return TENON_OK;
}

static tenon_status from_lists(Eval *e, const NodeLists *l, Forest *f) {
  NodeIndex ix;
  TRY(check_lists(e, l));
  TRY(index_nodes(e, l, &ix, f));
  TRY(check_features(e, f));
  TRY(link_nodes(e, l, &ix, f));
  TRY(gather_votes(e, l, &ix, f));
  return check_acyclic(e, f);
}

tenon_status forest_of_regressor(Eval *e, Forest *f) {
  const tree_ensemble_regressor_attrs *at = e->attrs;
  NodeLists l = {at->nodes_treeids,     at->nodes_nodeids,      at->nodes_featureids,
                 at->nodes_truenodeids, at->nodes_falsenodeids, at->nodes_missing_value_tracks_true,
                 at->nodes_values,      at->nodes_modes,        at->target_treeids,
                 at->target_nodeids,    at->target_ids,         at->target_weights};
  return from_lists(e, &l, f);
}

tenon_status forest_of_classifier(Eval *e, Forest *f) {
  const tree_ensemble_classifier_attrs *at = e->attrs;
  NodeLists l = {at->nodes_treeids,     at->nodes_nodeids,      at->nodes_featureids,
                 at->nodes_truenodeids, at->nodes_falsenodeids, at->nodes_missing_value_tracks_true,
                 at->nodes_values,      at->nodes_modes,        at->class_treeids,
                 at->class_nodeids,     at->class_ids,          at->class_weights};
  return from_lists(e, &l, f);
}

// ---- the flat encoding ----

static tenon_status check_flat(Eval *e, const tree_ensemble_attrs *at) {
  int64_t n = at->nodes_featureids.n, leaves = at->leaf_targetids.n;
  if (n != at->nodes_falseleafs.n || n != at->nodes_falsenodeids.n || n != at->nodes_modes.n ||
      n != at->nodes_splits.n || n != at->nodes_trueleafs.n || n != at->nodes_truenodeids.n ||
      leaves != at->leaf_weights.n)
    return eval_fail(e, TENON_EINVAL,
                     "the lists nodes_... or leaf_... differ in length: %lld features, %lld "
                     "splits, %lld modes; %lld targets, %lld weights",
                     (long long)n, (long long)at->nodes_splits.n, (long long)at->nodes_modes.n,
                     (long long)leaves, (long long)at->leaf_weights.n);
  for (int64_t i = 0; i < leaves; i++)
    if (at->leaf_targetids.v[i] < 0 || at->leaf_targetids.v[i] >= at->n_targets)
      return eval_fail(e, TENON_EINVAL, "leaf %lld is for target %lld of %lld", (long long)i,
                       (long long)at->leaf_targetids.v[i], (long long)at->n_targets);
  for (int64_t i = 0; i < at->tree_roots.n; i++)
    if (at->tree_roots.v[i] < 0 || at->tree_roots.v[i] >= n)
      return eval_fail(e, TENON_EINVAL, "tree %lld begins at node %lld of %lld", (long long)i,
                       (long long)at->tree_roots.v[i], (long long)n);
  return TENON_OK;
}

static tenon_status flat_node(Eval *e, const tree_ensemble_attrs *at, int64_t i, int64_t *member,
                              TreeNode *out) {
  int64_t mode = at->nodes_modes.v[i];
  if (mode < 0 || mode > TREE_MEMBER)
    return eval_fail(e, TENON_EINVAL, "tree node %lld has mode %lld, must be 0 to 6", (long long)i,
                     (long long)mode);
  *out = (TreeNode){
      .mode = (uint8_t)mode, .feature = at->nodes_featureids.v[i], .value = at->nodes_splits.v[i]};
  out->missing_true =
      i < at->nodes_missing_value_tracks_true.n && at->nodes_missing_value_tracks_true.v[i] == 1;
  for (int c = 0; c < 2; c++) {
    bool leaf = c ? at->nodes_trueleafs.v[i] != 0 : at->nodes_falseleafs.v[i] != 0;
    int64_t to = c ? at->nodes_truenodeids.v[i] : at->nodes_falsenodeids.v[i];
    int64_t n = leaf ? at->leaf_targetids.n : at->nodes_featureids.n;
    if (to < 0 || to >= n)
      return eval_fail(e, TENON_EINVAL, "tree node %lld leads to %s %lld of %lld", (long long)i,
                       leaf ? "leaf" : "node", (long long)to, (long long)n);
    out->child[c] = leaf ? ~to : to;
  }
  if (mode != TREE_MEMBER) return TENON_OK;
  const Floats sets = at->membership_values;
  if (*member >= sets.n)
    return eval_fail(e, TENON_EINVAL, "tree node %lld has no set of members", (long long)i);
  out->members = *member;
  while (*member < sets.n && sets.v[*member] == sets.v[*member]) ++*member;
  out->nmembers = *member - out->members;
  ++*member;  // past the NaN
  return TENON_OK;
}

tenon_status forest_of_flat(Eval *e, Forest *f) {
  const tree_ensemble_attrs *at = e->attrs;
  Arena *a = &e->run->scratch;
  int64_t member = 0;
  TRY(check_flat(e, at));
  f->nnodes = at->nodes_featureids.n;
  f->node = arena_array(a, TreeNode, f->nnodes);
  for (int64_t i = 0; i < f->nnodes; i++) TRY(flat_node(e, at, i, &member, &f->node[i]));
  f->nroots = at->tree_roots.n;
  f->root = arena_dup(a, at->tree_roots.v, f->nroots * (int64_t)sizeof(int64_t));
  f->nleaves = at->leaf_targetids.n;
  f->vote_begin = arena_array(a, int64_t, f->nleaves + 1);
  f->vote = arena_array(a, Vote, f->nleaves);
  for (int64_t i = 0; i < f->nleaves; i++) {
    f->vote_begin[i + 1] = i + 1;
    f->vote[i] = (Vote){at->leaf_targetids.v[i], at->leaf_weights.v[i]};
  }
  f->member = at->membership_values.v;
  TRY(check_features(e, f));
  return check_acyclic(e, f);
}

tenon_status forest_charge(Eval *e, const Forest *f, int64_t rows) {
  // A path is no longer than the nodes; trees may share them.
  return eval_work(e, (double)rows * (double)(f->nroots + 1) * (double)(f->nnodes + f->ntargets));
}

// ---- what follows the votes ----

double forest_aggregate(int how, double a, double b) {
  switch (how) {
  case AGGREGATE_MIN: return b < a ? b : a;
  case AGGREGATE_MAX: return b > a ? b : a;
  default: return a + b;
  }
}

void forest_finish_targets(double *s, int64_t n, Floats base, int post) {
  for (int64_t k = 0; k < n && base.n; k++)
    if (base.n == n) s[k] += base.v[k];
  ml_post_transform(post, s, n);
}

// Two classes, and all votes are for one of them: the second class wins when they pass a threshold.
static int64_t finish_binary(const TreeClasses *c, double *s) {
  const Floats base = c->at->base_values;
  double threshold = c->positive ? 0.5 : 0;
  if (c->only == 1) {
    int64_t label = s[1] > threshold;
    ml_post_transform(c->at->post_transform, s, 2);
    return label;
  }
  double score = s[0] + (base.n ? base.v[0] : 0);
  ml_spread(c->at->post_transform, c->positive, score, s);
  return score > threshold;
}

static int64_t finish_classes(const TreeClasses *c, double *s, uint8_t *has) {
  const Floats base = c->at->base_values;
  if (c->binary && base.n < 2) return finish_binary(c, s);
  if (c->n == 1) {
    s[0] += base.n ? base.v[base.n == 2 ? 1 : 0] : 0;
    int64_t label = s[0] > 0;
    ml_post_transform(c->at->post_transform, s, 1);
    return label;
  }
  int64_t best = -1;
  for (int64_t k = 0; k < MIN(base.n, c->n); k++) {
    s[k] += base.v[k];
    has[k] = 1;
  }
  for (int64_t k = 0; k < c->n; k++)
    if (has[k] && (best < 0 || s[k] > s[best])) best = k;
  ml_post_transform(c->at->post_transform, s, c->n);
  return MAX(best, 0);
}

void forest_finish_classes(const TreeClasses *c, int64_t rows, double *score, uint8_t *has,
                           Value *labels, Value *z) {
  const tree_ensemble_classifier_attrs *at = c->at;
  for (int64_t r = 0; r < rows; r++) {
    int64_t k = finish_classes(c, score + r * c->n, has + r * c->n);
    if (c->n == 1 && !c->text)
      ((int64_t *)labels->data)[r] = k;  // one class: whether it is that class
    else
      ml_put_label(labels, r, &at->classlabels_int64s, &at->classlabels_strings,
                   c->n == 1 ? !k : k);
  }
  if (z) store_f64(DT_F32, z->data, 0, z->n, score);
}

TreeClasses forest_classes(const tree_ensemble_classifier_attrs *at) {
  TreeClasses c = {.at = at, .text = at->classlabels_strings.n > 0, .positive = true};
  c.n = c.text ? at->classlabels_strings.n : at->classlabels_int64s.n;
  c.binary = c.n == 2;
  if (at->class_ids.n) c.only = at->class_ids.v[0];
  for (int64_t i = 0; i < at->class_ids.n; i++) {
    c.binary &= at->class_ids.v[i] == at->class_ids.v[0];
    c.positive &= i >= at->class_weights.n || !(at->class_weights.v[i] < 0);
  }
  return c;
}
