// ml_tree_prepared_test.c -- prepared ensembles of trees give the bits of the reference evaluation,
// call after call: random forests of every mode, shared nodes, sets, NaN, few and many rows.
#include "eval/ml.h"
#include "eval/table.h"
#include "test.h"

#include <math.h>

enum { MOST_NODES = 60, MOST_LEAVES = 40, MOST_TREES = 20, MOST_ROWS = 150, COLUMNS = 5 };

static uint64_t drawn;
static int64_t draw(int64_t n) {
  drawn = drawn * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((drawn >> 33) % (uint64_t)n);
}
// Few values, so that rows meet thresholds exactly.
static double draw_value(bool nan) {
  static const double value[] = {-INFINITY, -2, -0.5, -0.0, 0, 1e-40, 0.5, 1, 3, INFINITY};
  return nan && draw(8) == 0 ? NAN : value[draw(ARRAY_LEN(value))];
}

typedef struct Lists {
  int64_t feature[MOST_NODES], mode[MOST_NODES], missing[MOST_NODES], leaf[2][MOST_NODES],
      child[2][MOST_NODES], target[MOST_LEAVES], root[MOST_TREES];
  double split[MOST_NODES], weight[MOST_LEAVES], member[MOST_NODES * 4];
  int64_t nmember;
} Lists;

// Children have higher numbers, so that nothing is its own ancestor; some have several parents.
static tree_ensemble_attrs random_forest(Lists *l) {
  int64_t n = 1 + draw(MOST_NODES), leaves = 1 + draw(MOST_LEAVES), trees = draw(MOST_TREES + 1);
  int64_t targets = draw(2) ? 1 : 1 + draw(4);
  l->nmember = 0;
  for (int64_t i = 0; i < n; i++) {
    l->feature[i] = draw(COLUMNS);
    l->mode[i] = draw(7);
    l->missing[i] = draw(2);
    l->split[i] = draw_value(true);
    for (int c = 0; c < 2; c++) {
      l->leaf[c][i] = i + 1 == n || draw(4) == 0;
      l->child[c][i] = l->leaf[c][i] ? draw(leaves) : i + 1 + draw(MIN(n - i - 1, 4));
    }
    if (l->mode[i] != 6) continue;
    for (int64_t k = draw(4); k > 0; k--) l->member[l->nmember++] = draw_value(false);
    l->member[l->nmember++] = NAN;
  }
  for (int64_t i = 0; i < leaves; i++) {
    l->target[i] = draw(targets);
    l->weight[i] = (double)(float)(draw_value(false) * 0.1);
    if (!isfinite(l->weight[i])) l->weight[i] = -0.0;
  }
  for (int64_t i = 0; i < trees; i++) l->root[i] = draw(n);
  return (tree_ensemble_attrs){.aggregate_function = (int)draw(4),
                               .post_transform = (int)draw(4),
                               .n_targets = targets,
                               .leaf_targetids = {leaves, l->target},
                               .leaf_weights = {leaves, l->weight},
                               .membership_values = {l->nmember, l->member},
                               .nodes_falseleafs = {n, l->leaf[0]},
                               .nodes_falsenodeids = {n, l->child[0]},
                               .nodes_featureids = {n, l->feature},
                               .nodes_missing_value_tracks_true = {draw(2) * n, l->missing},
                               .nodes_modes = {n, l->mode},
                               .nodes_splits = {n, l->split},
                               .nodes_trueleafs = {n, l->leaf[1]},
                               .nodes_truenodeids = {n, l->child[1]},
                               .tree_roots = {trees, l->root}};
}

static void fill(Value *x) {
  for (int64_t i = 0; i < x->n; i++) val_put_f64(x, i, draw_value(true));
}

static bool same_bits(const Value *a, const Value *b) {
  return a->n == b->n && a->dtype == b->dtype &&
         !memcmp(a->data, b->data, (size_t)(a->n * elem_bytes(a->dtype)));
}

// One call each way; false where both refuse.
static void compare(const char *name, const void *attrs, const Value *x, int nout, EvalKeep *keep) {
  const EvalOp *op = eval_find(name);
  static Diag d;
  Run run;
  Value *want[2] = {NULL}, *got[2] = {NULL};
  diag_init(&d);
  run_init(&run, NULL, &d);
  Eval e = {.run = &run, .in = &x, .nin = 1, .out = want, .nout = nout, .attrs = attrs};
  EXPECT(op && op->prepared);
  EXPECT_STATUS(op->eval(&e), TENON_OK);
  e.out = got;
  e.keep = keep;
  EXPECT_STATUS(op->prepared(&e), TENON_OK);
  for (int i = 0; i < nout; i++)
    if (!want[i] || !got[i] || !same_bits(want[i], got[i]))
      FAIL("%s: result %d of %lld rows differs", name, i, (long long)x->dims[0]);
  run_deinit(&run);
}

TEST(prepared_trees_are_the_references) {
  static Lists l;
  static Diag d;
  for (int round = 0; round < 300; round++) {
    drawn = (uint64_t)round + 1;
    tree_ensemble_attrs at = random_forest(&l);
    Arena arena;
    Run run;
    diag_init(&d);
    arena_init(&arena);
    run_init(&run, NULL, &d);
    EvalKeep keep = {.arena = &arena};
    for (int call = 0; call < 3; call++) {
      Value *x;
      int64_t rows = call == 1 ? draw(MOST_ROWS) : draw(6);
      DType t = round % 3 ? DT_F32 : DT_F64;
      EXPECT_STATUS(value_tensor(&run, NOWHERE, t, 2, (int64_t[]){rows, COLUMNS}, &x), TENON_OK);
      fill(x);
      compare("tree_ensemble", &at, x, 1, &keep);
    }
    run_deinit(&run);
    arena_deinit(&arena);
  }
}

// Three classes: each leaf votes for all of them, for some, or for one alone.
TEST(prepared_classifiers_are_the_references) {
  static const Str mode[] = {{"BRANCH_LEQ", 10}, {"LEAF", 4}, {"LEAF", 4}};
  static Diag d;
  for (int round = 0; round < 60; round++) {
    drawn = (uint64_t)round + 1;
    int64_t trees = 1 + draw(12), n = 3 * trees, votes = 0, classes = 2 + draw(2), kind = draw(3);
    int64_t tree[36], id[36], feature[36], yes[36], no[36], vt[72], vi[72], vc[72];
    double value[36], weight[72];
    Str modes[36];
    for (int64_t i = 0; i < n; i++) {
      tree[i] = i / 3, id[i] = i % 3, feature[i] = draw(COLUMNS), yes[i] = 1, no[i] = 2;
      value[i] = draw_value(false);
      modes[i] = mode[i % 3];
      for (int64_t c = 0; i % 3 && c < (kind ? classes : 1); c++) {
        if (kind == 2 && draw(2)) continue;
        vt[votes] = i / 3, vi[votes] = i % 3, vc[votes] = kind ? c : classes - 1;
        weight[votes++] = (double)(float)((double)draw(100) * 0.01 - 0.3);
      }
    }
    tree_ensemble_classifier_attrs at = {.nodes_treeids = {n, tree},
                                         .nodes_nodeids = {n, id},
                                         .nodes_featureids = {n, feature},
                                         .nodes_values = {n, value},
                                         .nodes_modes = {n, modes},
                                         .nodes_truenodeids = {n, yes},
                                         .nodes_falsenodeids = {n, no},
                                         .class_treeids = {votes, vt},
                                         .class_nodeids = {votes, vi},
                                         .class_ids = {votes, vc},
                                         .class_weights = {votes, weight},
                                         .classlabels_int64s = {classes, (int64_t[]){7, 5, 3}},
                                         .post_transform = (int)draw(4)};
    Arena arena;
    Run run;
    diag_init(&d);
    arena_init(&arena);
    run_init(&run, NULL, &d);
    EvalKeep keep = {.arena = &arena};
    for (int call = 0; call < 2; call++) {
      Value *x;
      EXPECT_STATUS(value_tensor(&run, NOWHERE, DT_F32, 2, (int64_t[]){call ? 70 : 1, COLUMNS}, &x),
                    TENON_OK);
      fill(x);
      compare("tree_ensemble_classifier", &at, x, 2, &keep);
    }
    run_deinit(&run);
    arena_deinit(&arena);
  }
}

// A call with too few columns is refused in the reference's words, and the next one runs.
TEST(prepared_trees_check_columns) {
  static Lists l;
  static Diag d;
  drawn = 5;
  tree_ensemble_attrs at = random_forest(&l);
  for (int64_t i = 0; i < at.nodes_featureids.n; i++) l.feature[i] = COLUMNS - 1;
  if (!at.tree_roots.n) at.tree_roots = (Ints){1, l.root};
  Arena arena;
  Run run;
  diag_init(&d);
  arena_init(&arena);
  run_init(&run, NULL, &d);
  EvalKeep keep = {.arena = &arena};
  for (int call = 0; call < 3; call++) {
    Value *x, *y = NULL;
    EXPECT_STATUS(value_tensor(&run, NOWHERE, DT_F32, 2, (int64_t[]){9, COLUMNS - (call == 1)}, &x),
                  TENON_OK);
    const Value *in = x;
    Eval e = {.run = &run, .in = &in, .nin = 1, .out = &y, .nout = 1, .attrs = &at, .keep = &keep};
    tenon_status s = eval_find("tree_ensemble")->prepared(&e);
    EXPECT(call == 1 ? s == TENON_EINVAL : s == TENON_OK);
  }
  EXPECT_CONTAINS(d.text, "reads column 4 of 4");
  run_deinit(&run);
  arena_deinit(&arena);
}
