// features.h -- what the rules about ai.onnx.ml share: rows of features and lists of numbers.
#ifndef TENON_RULES_FEATURES_H
#define TENON_RULES_FEATURES_H

#include "rules/rules.h"

// x in the type that its rule computes in: f32 as it is, other numbers as f64, as the evaluation
// has them; NULL for what are no numbers.
Node *features_wide(Graph *g, Node *x);
// The same as a matrix of rows, [F] as one row; NULL where x is neither.
Node *features_rows(Graph *g, Node *x);
// Numbers of an attribute as a constant of the type.
Node *features_const(Graph *g, DType t, int rank, const int64_t *dims, const double *v);
// How many columns a matrix has; -1 where that is not known.
int64_t features_columns(const Node *x);
// Whether indices that are known lie in [0, size).
bool features_indices_fit(Graph *g, const Node *index, Dim size);

#endif
