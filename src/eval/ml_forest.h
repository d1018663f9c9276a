// ml_forest.h -- a forest of decision trees, as both encodings of ONNX become one.
#ifndef TENON_EVAL_ML_FOREST_H
#define TENON_EVAL_ML_FOREST_H

#include "eval/ml.h"

enum { TREE_LEQ, TREE_LT, TREE_GTE, TREE_GT, TREE_EQ, TREE_NEQ, TREE_MEMBER, TREE_LEAF };

// A place in a forest: a node, or ~leaf.
typedef struct TreeNode {
  int64_t feature, child[2];  // when false, when true
  double value;
  int64_t members, nmembers;  // TREE_MEMBER: its set
  uint8_t mode;
  bool missing_true;
} TreeNode;
typedef struct Vote {
  int64_t target;
  double weight;
} Vote;
typedef struct Forest {
  TreeNode *node;
  int64_t *root, *vote_begin;  // vote_begin[leaf] .. vote_begin[leaf + 1]
  Vote *vote;
  const double *member;
  int64_t nnodes, nroots, nleaves, features, ntargets;
} Forest;

// Builds and checks the forest of a node, whose operand has f->features columns; f->ntargets is
// given.  It lies in run->scratch.
MUST_USE tenon_status forest_of_classifier(Eval *e, Forest *f);
MUST_USE tenon_status forest_of_regressor(Eval *e, Forest *f);
MUST_USE tenon_status forest_of_flat(Eval *e, Forest *f);
// Takes the operations of a run over so many rows from the budget.
MUST_USE tenon_status forest_charge(Eval *e, const Forest *f, int64_t rows);

// ---- what follows the votes ----
// A sum, a minimum or a maximum goes on with another weight.
double forest_aggregate(int how, double a, double b);
// Adds the base values and applies the transform.
void forest_finish_targets(double *s, int64_t n, Floats base, int post);
typedef struct TreeClasses {
  const tree_ensemble_classifier_attrs *at;
  int64_t n;
  bool text;      // labels are strings
  bool binary;    // two classes, all votes for one of them
  int64_t only;   // which
  bool positive;  // no vote has a negative weight
} TreeClasses;
TreeClasses forest_classes(const tree_ensemble_classifier_attrs *at);
// Labels and scores of rows whose votes are counted; z may be NULL.
void forest_finish_classes(const TreeClasses *c, int64_t rows, double *score, uint8_t *has,
                           Value *labels, Value *z);

#endif
