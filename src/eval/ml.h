// ml.h -- attributes and evaluation of the classical models and their preprocessing (ai.onnx.ml).
#ifndef TENON_EVAL_ML_H
#define TENON_EVAL_ML_H

#include "eval/eval.h"

// clang-format off
#define BINARIZER_ATTRS(A, C, T) A(T, f64, threshold, 0.0, "values above this become 1")
ATTR_STRUCT(binarizer, BINARIZER_ATTRS);
#define CAST_MAP_ATTRS(A, C, T)                                                                    \
  C(T, cast_to, "TO_FLOAT|TO_STRING|TO_INT64", 0, "type of the result")                            \
  C(T, map_form, "DENSE|SPARSE", 0, "values in order of their keys, or at their keys")             \
  A(T, i64, max_map, 1, "length of the result when sparse")
ATTR_STRUCT(cast_map, CAST_MAP_ATTRS);
enum { CAST_TO_FLOAT, CAST_TO_STRING, CAST_TO_INT64 };
#define CATEGORY_MAPPER_ATTRS(A, C, T)                                                             \
  A(T, i64s, cats_int64s, , "integers of the pairs") A(T, strs, cats_strings, , "strings of the pairs") \
  A(T, i64, default_int64, -1, "for a string that is not there")                                   \
  A(T, str, default_string, "_Unused", "for an integer that is not there")
ATTR_STRUCT(category_mapper, CATEGORY_MAPPER_ATTRS);
#define DICT_VECTORIZER_ATTRS(A, C, T)                                                             \
  A(T, i64s, int64_vocabulary, , "integer key of each column") A(T, strs, string_vocabulary, , "string key of each column")
ATTR_STRUCT(dict_vectorizer, DICT_VECTORIZER_ATTRS);
#define FEATURE_VECTORIZER_ATTRS(A, C, T) A(T, i64s, inputdimensions, , "columns of each operand")
ATTR_STRUCT(feature_vectorizer, FEATURE_VECTORIZER_ATTRS);
#define IMPUTER_ATTRS(A, C, T)                                                                     \
  A(T, f64s, imputed_value_floats, , "what to put, one for all or one a column (floats)")          \
  A(T, i64s, imputed_value_int64s, , "what to put, one for all or one a column (integers)")        \
  A(T, f64, replaced_value_float, 0.0, "what to replace; NaN is a value here")                     \
  A(T, i64, replaced_value_int64, 0, "what to replace")
ATTR_STRUCT(imputer, IMPUTER_ATTRS);
#define POST_TRANSFORMS "NONE|SOFTMAX|LOGISTIC|SOFTMAX_ZERO|PROBIT"
enum { POST_NONE, POST_SOFTMAX, POST_LOGISTIC, POST_SOFTMAX_ZERO, POST_PROBIT };
#define LINEAR_CLASSIFIER_ATTRS(A, C, T)                                                           \
  A(T, i64s, classlabels_ints, , "labels") A(T, strs, classlabels_strings, , "labels, or these")   \
  A(T, f64s, coefficients, , "one row a score") A(T, f64s, intercepts, , "one a score")            \
  A(T, i64, multi_class, 0, "one against the rest, or multinomial: no difference here")            \
  C(T, post_transform, POST_TRANSFORMS, 0, "of the scores")
ATTR_STRUCT(linear_classifier, LINEAR_CLASSIFIER_ATTRS);
#define LINEAR_REGRESSOR_ATTRS(A, C, T)                                                            \
  A(T, f64s, coefficients, , "one row a target") A(T, f64s, intercepts, , "one a target")          \
  C(T, post_transform, POST_TRANSFORMS, 0, "of the targets") A(T, i64, targets, 1, "number of targets")
ATTR_STRUCT(linear_regressor, LINEAR_REGRESSOR_ATTRS);
#define NORMALIZER_ATTRS(A, C, T) C(T, norm, "MAX|L1|L2", 0, "what each row is divided by")
ATTR_STRUCT(normalizer, NORMALIZER_ATTRS);
enum { NORM_MAX, NORM_L1, NORM_L2 };
#define ONE_HOT_ENCODER_ATTRS(A, C, T)                                                             \
  A(T, i64s, cats_int64s, , "categories") A(T, strs, cats_strings, , "categories, or these")       \
  A(T, bool, zeros, true, "a value that is no category gives zeros, else an error")
ATTR_STRUCT(one_hot_encoder, ONE_HOT_ENCODER_ATTRS);
#define SCALER_ATTRS(A, C, T)                                                                      \
  A(T, f64s, offset, , "subtracted; one for all or one a column") A(T, f64s, scale, , "then multiplied")
ATTR_STRUCT(scaler, SCALER_ATTRS);
#define SVM_KERNELS "LINEAR|POLY|RBF|SIGMOID"
enum { KERNEL_LINEAR, KERNEL_POLY, KERNEL_RBF, KERNEL_SIGMOID };
#define SVM_CLASSIFIER_ATTRS(A, C, T)                                                              \
  A(T, i64s, classlabels_ints, , "labels") A(T, strs, classlabels_strings, , "labels, or these")   \
  A(T, f64s, coefficients, , "of the support vectors, a row for every other class; or of the features") \
  A(T, f64s, kernel_params, , "gamma, coef0, degree") C(T, kernel_type, SVM_KERNELS, 0, "kernel")  \
  C(T, post_transform, POST_TRANSFORMS, 0, "of the scores")                                        \
  A(T, f64s, prob_a, , "slopes of the probabilities") A(T, f64s, prob_b, , "their offsets")        \
  A(T, f64s, rho, , "offset of each pair of classes") A(T, f64s, support_vectors, , "one a row")   \
  A(T, i64s, vectors_per_class, , "support vectors of each class; empty: linear")
ATTR_STRUCT(svm_classifier, SVM_CLASSIFIER_ATTRS);
#define SVM_REGRESSOR_ATTRS(A, C, T)                                                               \
  A(T, f64s, coefficients, , "of the support vectors, or of the features")                         \
  A(T, f64s, kernel_params, , "gamma, coef0, degree") C(T, kernel_type, SVM_KERNELS, 0, "kernel")  \
  A(T, i64, n_supports, 0, "support vectors; 0: linear") A(T, bool, one_class, false, "give 1 or -1") \
  C(T, post_transform, POST_TRANSFORMS, 0, "of the result") A(T, f64s, rho, , "offset")            \
  A(T, f64s, support_vectors, , "one a row")
ATTR_STRUCT(svm_regressor, SVM_REGRESSOR_ATTRS);
#define AGGREGATES "AVERAGE|SUM|MIN|MAX"
enum { AGGREGATE_AVERAGE, AGGREGATE_SUM, AGGREGATE_MIN, AGGREGATE_MAX };
#define TREE_NODES_ATTRS(A, C, T)                                                                  \
  A(T, i64s, nodes_falsenodeids, , "child when the comparison fails")                              \
  A(T, i64s, nodes_featureids, , "column compared")                                                \
  A(T, i64s, nodes_missing_value_tracks_true, , "1: NaN counts as true")                           \
  A(T, strs, nodes_modes, , "BRANCH_LEQ, _LT, _GTE, _GT, _EQ, _NEQ or LEAF")                       \
  A(T, i64s, nodes_nodeids, , "id within the tree") A(T, i64s, nodes_treeids, , "tree")            \
  A(T, i64s, nodes_truenodeids, , "child when the comparison holds")                               \
  A(T, f64s, nodes_values, , "what the column is compared with")                                   \
  C(T, post_transform, POST_TRANSFORMS, 0, "of the scores") A(T, f64s, base_values, , "added to the scores")
#define TREE_ENSEMBLE_CLASSIFIER_ATTRS(A, C, T)                                                    \
  TREE_NODES_ATTRS(A, C, T)                                                                        \
  A(T, i64s, class_ids, , "class of each vote") A(T, i64s, class_nodeids, , "leaf of each vote")   \
  A(T, i64s, class_treeids, , "tree of each vote") A(T, f64s, class_weights, , "weight of each vote") \
  A(T, i64s, classlabels_int64s, , "labels") A(T, strs, classlabels_strings, , "labels, or these")
ATTR_STRUCT(tree_ensemble_classifier, TREE_ENSEMBLE_CLASSIFIER_ATTRS);
#define TREE_ENSEMBLE_REGRESSOR_ATTRS(A, C, T)                                                     \
  TREE_NODES_ATTRS(A, C, T)                                                                        \
  C(T, aggregate_function, AGGREGATES, 1, "over the trees") A(T, i64, n_targets, 1, "number of targets") \
  A(T, i64s, target_ids, , "target of each vote") A(T, i64s, target_nodeids, , "leaf of each vote") \
  A(T, i64s, target_treeids, , "tree of each vote") A(T, f64s, target_weights, , "weight of each vote")
ATTR_STRUCT(tree_ensemble_regressor, TREE_ENSEMBLE_REGRESSOR_ATTRS);
#define TREE_ENSEMBLE_ATTRS(A, C, T)                                                               \
  C(T, aggregate_function, AGGREGATES, 1, "over the trees") C(T, post_transform, POST_TRANSFORMS, 0, "of the scores") \
  A(T, i64, n_targets, 1, "number of targets")                                                     \
  A(T, i64s, leaf_targetids, , "target of each leaf") A(T, f64s, leaf_weights, , "weight of each leaf") \
  A(T, f64s, membership_values, , "sets of the nodes with mode 6, each ended by NaN")              \
  A(T, i64s, nodes_falseleafs, , "1: the false child is a leaf") A(T, i64s, nodes_falsenodeids, , "false child") \
  A(T, i64s, nodes_featureids, , "column compared")                                                \
  A(T, i64s, nodes_missing_value_tracks_true, , "1: NaN counts as true")                           \
  A(T, i64s, nodes_modes, , "0 <=, 1 <, 2 >=, 3 >, 4 ==, 5 !=, 6 member of a set")                 \
  A(T, f64s, nodes_splits, , "what the column is compared with")                                   \
  A(T, i64s, nodes_trueleafs, , "1: the true child is a leaf") A(T, i64s, nodes_truenodeids, , "true child") \
  A(T, i64s, tree_roots, , "node where each tree begins")
ATTR_STRUCT(tree_ensemble, TREE_ENSEMBLE_ATTRS);
#define ZIP_MAP_ATTRS(A, C, T)                                                                     \
  A(T, i64s, classlabels_int64s, , "keys") A(T, strs, classlabels_strings, , "keys, or these")
ATTR_STRUCT(zip_map, ZIP_MAP_ATTRS);
// clang-format on

// ---- shared by the ml files ----
// Rows and columns of an operand: [N, F], or [F] as one row.
MUST_USE tenon_status ml_matrix(Eval *e, int i, int64_t *rows, int64_t *columns);
// All elements of the operand as double, when it is a matrix of numbers.
MUST_USE tenon_status ml_load(Eval *e, int64_t *rows, int64_t *columns, const double **out);
double ml_logistic(double x);
// A single score is left as it is, but for the probit.
void ml_post_transform(int kind, double *scores, int64_t n);
// One score for two classes, with `positive` as a probability, else as a margin.
void ml_spread(int kind, bool positive, double score, double out[2]);
double ml_probit(double x);
// The label of class k for row r: a string when there are string labels.
void ml_put_label(Value *labels, int64_t r, const Ints *ints, const Strs *strings, int64_t k);

EvalFn eval_array_feature_extractor, eval_binarizer, eval_cast_map, eval_category_mapper,
    eval_dict_vectorizer, eval_feature_vectorizer, eval_imputer, eval_label_encoder,
    eval_linear_classifier, eval_linear_regressor, eval_normalizer, eval_one_hot_encoder,
    eval_scaler, eval_svm_classifier, eval_svm_regressor, eval_tree_ensemble_classifier,
    eval_tree_ensemble_regressor, eval_tree_ensemble, eval_zip_map;
// For repeated calls (eval/table.h)
EvalFn prepared_tree_ensemble, prepared_tree_ensemble_classifier, prepared_tree_ensemble_regressor;

#endif
