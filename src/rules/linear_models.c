// linear_models.c -- linear models and support vector machines of ai.onnx.ml as matrix products.
//
// A support vector machine is its kernel between the rows and all support vectors, and products of
// that with constant coefficients.  Distances of the radial kernel are formed from differences, not
// from squares that would cancel.  Probabilities of support vectors are found by iteration, which
// stays with the host; so does the probit, and what the evaluation refuses.
#include "eval/ml.h"

#include "eval/index.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
#include "ir/internal.h"
#include "rules/features.h"
#include "rules/letters.h"
#include "rules/shape.h"

#include <math.h>

// Elements of a table of coefficients.
enum { TABLE_MAX = 1 << 24 };

typedef struct Labels {
  Ints ints;
  Strs strings;
} Labels;

static Node *to_f32(Graph *g, Node *x) {
  return type_of(x)->dtype == DT_F32 ? x : NA(g, cast, &(cast_attrs){.to = DT_F32}, x);
}

static Node *scalar_like(Graph *g, const Node *x, double v) {
  return node_scalar(g, type_of(x)->dtype, v);
}

// x times a constant matrix [rows][columns], or its transpose, and a constant added.
static Node *product(Graph *g, Node *x, int64_t rows, int64_t columns, const double *w, bool swap,
                     Floats plus) {
  int64_t n;
  if (!ck_mul(rows, columns, &n) || n > TABLE_MAX) return NULL;
  double *t = arena_array(&g->scratch, double, n);
  for (int64_t i = 0; i < n; i++) t[i] = swap ? w[i % columns * rows + i / columns] : w[i];
  DType dtype = type_of(x)->dtype;
  Node *table = features_const(g, dtype, 2, (int64_t[]){rows, columns}, t);
  Node *y = table ? N(g, mat_mul, x, table) : NULL;
  return y && plus.n ? N(g, add, y, features_const(g, dtype, 1, &plus.n, plus.v)) : y;
}

// What evaluation does to a row of more than one score; NULL: not here.
static Node *post_transform(Graph *g, int kind, Node *scores) {
  switch (kind) {
  case POST_NONE: return scores;
  case POST_SOFTMAX: return N(g, softmax, scores);
  case POST_LOGISTIC: return N(g, sigmoid, scores);
  default: return NULL;
  }
}

// Labels of the classes whose numbers are given.
static Node *labels_at(Graph *g, const Labels *l, int64_t classes, Node *which) {
  int64_t n = MAX(classes, l->strings.n);
  Node *table;
  if (l->strings.n) {
    Str *text = arena_array(&g->scratch, Str, n);
    for (int64_t i = 0; i < n; i++) text[i] = i < l->strings.n ? l->strings.v[i] : STR("");
    table = node_const(g, DT_STRING, 1, &n, text, NULL);
  } else {
    int64_t *number = arena_array(&g->scratch, int64_t, n);
    for (int64_t i = 0; i < n; i++) number[i] = i < l->ints.n ? l->ints.v[i] : i;
    table = node_i64s(g, n, number);
  }
  return N(g, gather, table, which);
}

// The first class of the highest score; one that is no number is not chosen.
static Node *best_of(Graph *g, Node *scores) {
  scores = N(g, where, N(g, is_nan, scores), scalar_like(g, scores, -INFINITY), scores);
  arg_attrs at = {.axis = 1};
  return NA(g, arg_max, &at, scores);
}

// The first column, as 1 where it is above zero.
static Node *above_zero(Graph *g, Node *score) {
  score = N(g, reshape, score, node_i64s(g, 1, (int64_t[]){-1}));
  return NA(g, cast, &(cast_attrs){.to = DT_I64}, N(g, lt, scalar_like(g, score, 0), score));
}

static Node *joined(Graph *g, Node *x, Node *y) {
  return NA(g, concat, &(concat_attrs){.axis = 1}, x, y);
}

// ---- linear models ----

static Node *linear_regressor(Graph *g, const Match *m) {
  const linear_regressor_attrs *at = m->root->attrs;
  Node *x = features_rows(g, m->root->src[0]);
  int64_t columns = x ? features_columns(x) : -1, need;
  if (columns < 1 || !ck_mul(columns, at->targets, &need) || need != at->coefficients.n)
    return NULL;
  if (at->intercepts.n && at->intercepts.n != at->targets) return NULL;
  if (at->targets == 1 && at->post_transform == POST_PROBIT) return NULL;
  Node *y = product(g, x, columns, at->targets, at->coefficients.v, true, at->intercepts);
  if (y && at->targets > 1) y = post_transform(g, at->post_transform, y);
  return y ? to_f32(g, y) : NULL;
}

// One score: with two labels it is the second one's, else it says whether the row is of the class.
static Node *linear_one(Graph *g, const linear_classifier_attrs *at, const Labels *l, Node *score,
                        bool pair, bool scores) {
  if (at->post_transform == POST_PROBIT) return NULL;
  if (scores && !pair) return score;
  if (scores && at->post_transform == POST_LOGISTIC)
    return joined(g, N(g, sigmoid, N(g, neg, score)), N(g, sigmoid, score));
  if (scores) return joined(g, N(g, sub, scalar_like(g, score, 1), score), score);
  Node *is = above_zero(g, score);
  if (pair) return labels_at(g, l, 2, is);
  return l->strings.n ? labels_at(g, l, 2, N(g, sub, node_i64(g, 1), is)) : is;
}

static Node *linear_classifier(Graph *g, const Node *n, bool scores) {
  const linear_classifier_attrs *at = n->attrs;
  Labels l = {at->classlabels_ints, at->classlabels_strings};
  Node *x = features_rows(g, n->src[0]);
  int64_t columns = x ? features_columns(x) : -1, classes = l.ints.n + l.strings.n, need;
  if (columns < 1) return NULL;
  int64_t k = at->intercepts.n ? at->intercepts.n : at->coefficients.n / columns;
  if (k < 1 || !ck_mul(columns, k, &need) || need != at->coefficients.n) return NULL;
  Node *y = product(g, x, columns, k, at->coefficients.v, true, at->intercepts);
  if (!y) return NULL;
  if (k == 1) {
    y = linear_one(g, at, &l, y, classes == 2, scores);
    return y && scores ? to_f32(g, y) : y;
  }
  if (!scores) return labels_at(g, &l, k, best_of(g, y));
  y = post_transform(g, at->post_transform, y);
  return y ? to_f32(g, y) : NULL;
}

// ---- support vector machines ----

// The kernel between all rows of x and all support vectors: [N, vectors].
static Node *kernel_of(Graph *g, Node *x, int type, Floats params, int64_t vectors,
                       const double *v) {
  int64_t columns = features_columns(x), n;
  double gamma = params.n > 0 ? params.v[0] : 0, coef0 = params.n > 1 ? params.v[1] : 0;
  double degree = params.n > 2 ? params.v[2] : 0;
  if (!ck_mul(columns, vectors, &n) || n > TABLE_MAX) return NULL;
  if (type == KERNEL_RBF) {
    double *t = arena_array(&g->scratch, double, n);
    for (int64_t i = 0; i < n; i++) t[i] = v[i % vectors * columns + i / vectors];
    Node *table = features_const(g, type_of(x)->dtype, 3, (int64_t[]){1, columns, vectors}, t);
    Node *difference = N(g, sub, N(g, unsqueeze, x, node_i64s(g, 1, (int64_t[]){2})), table);
    Node *square = NA(g, reduce_sum_square, &(reduce_attrs){.keepdims = false}, difference,
                      node_i64s(g, 1, (int64_t[]){1}));
    return N(g, exp, N(g, mul, square, scalar_like(g, x, -gamma)));
  }
  Node *y = product(g, x, columns, vectors, v, true, (Floats){0});
  if (!y || type == KERNEL_LINEAR) return y;
  y = N(g, add, N(g, mul, y, scalar_like(g, x, gamma)), scalar_like(g, x, coef0));
  return type == KERNEL_POLY ? N(g, pow, y, scalar_like(g, x, degree)) : N(g, tanh, y);
}

static Node *svm_regressor(Graph *g, const Match *m) {
  const svm_regressor_attrs *at = m->root->attrs;
  Node *x = features_rows(g, m->root->src[0]), *y;
  int64_t columns = x ? features_columns(x) : -1, need, n = at->n_supports;
  if (columns < 1 || n < 0 || at->rho.n < 1 || at->post_transform == POST_PROBIT) return NULL;
  Floats rho = {1, at->rho.v};
  if (n) {
    if (!ck_mul(n, columns, &need) || at->support_vectors.n != need || at->coefficients.n != n)
      return NULL;
    y = kernel_of(g, x, at->kernel_type, at->kernel_params, n, at->support_vectors.v);
    if (y) y = product(g, y, n, 1, at->coefficients.v, false, rho);
  } else {
    if (at->coefficients.n != columns) return NULL;
    y = product(g, x, columns, 1, at->coefficients.v, false, rho);
  }
  if (y && at->one_class)
    y = N(g, where, N(g, lt, scalar_like(g, y, 0), y), scalar_like(g, y, 1), scalar_like(g, y, -1));
  return y ? to_f32(g, y) : NULL;
}

// Coefficients of the scores of all pairs of classes: [vectors][pairs].
static double *pair_table(Graph *g, const svm_classifier_attrs *at, int64_t classes,
                          int64_t vectors, int64_t pairs) {
  const int64_t *count = at->vectors_per_class.v;
  int64_t pair = 0, begin_a = 0;
  double *t = arena_array(&g->scratch, double, vectors *pairs);
  for (int64_t i = 0; i < vectors * pairs; i++) t[i] = 0;
  for (int64_t one = 0; one < classes; begin_a += count[one++]) {
    int64_t begin_b = begin_a + count[one];
    for (int64_t two = one + 1; two < classes; begin_b += count[two++], pair++) {
      for (int64_t i = begin_a; i < begin_a + count[one]; i++)
        t[i * pairs + pair] = at->coefficients.v[(two - 1) * vectors + i];
      for (int64_t i = begin_b; i < begin_b + count[two]; i++)
        t[i * pairs + pair] = at->coefficients.v[one * vectors + i];
    }
  }
  return t;
}

// The class with most votes.  A pair votes for its first class above zero, else for its second.
static Node *votes_of(Graph *g, Node *scores, int64_t classes, int64_t pairs) {
  double *t = arena_array(&g->scratch, double, pairs *classes);
  double *least = arena_array(&g->scratch, double, classes);
  int64_t pair = 0;
  for (int64_t i = 0; i < pairs * classes; i++) t[i] = 0;
  for (int64_t i = 0; i < classes; i++) least[i] = (double)i;  // pairs in which it is the second
  for (int64_t one = 0; one < classes; one++)
    for (int64_t two = one + 1; two < classes; two++, pair++) {
      t[pair * classes + one] = 1;
      t[pair * classes + two] = -1;
    }
  Node *is = NA(g, cast, &(cast_attrs){.to = DT_F32}, N(g, lt, scalar_like(g, scores, 0), scores));
  return best_of(g, product(g, is, pairs, classes, t, false, (Floats){classes, least}));
}

static Node *svm_pairs(Graph *g, const svm_classifier_attrs *at, const Labels *l, Node *x,
                       int64_t vectors, bool scores) {
  int64_t classes = l->ints.n + l->strings.n, pairs = classes * (classes - 1) / 2, n, most;
  if (at->vectors_per_class.n != classes || classes < 2 || at->prob_a.n || at->rho.n < pairs ||
      !ck_mul(vectors, features_columns(x), &n) || at->support_vectors.n != n ||
      !ck_mul(classes - 1, vectors, &n) || at->coefficients.n < n ||
      !ck_mul(vectors, pairs, &most) || most > TABLE_MAX)
    return NULL;
  Node *k = kernel_of(g, x, at->kernel_type, at->kernel_params, vectors, at->support_vectors.v);
  if (!k) return NULL;
  const double *table = pair_table(g, at, classes, vectors, pairs);
  Node *y = product(g, k, vectors, pairs, table, false, (Floats){pairs, at->rho.v});
  if (!y || !scores) return y ? labels_at(g, l, classes, votes_of(g, y, classes, pairs)) : NULL;
  if (pairs == 1) y = joined(g, N(g, neg, y), y);
  return pairs > 1 || at->post_transform != POST_PROBIT ? post_transform(g, at->post_transform, y)
                                                        : NULL;
}

static Node *svm_linear(Graph *g, const svm_classifier_attrs *at, const Labels *l, Node *x,
                        bool scores) {
  int64_t classes = l->ints.n + l->strings.n, columns = features_columns(x), need;
  if (classes < 1 || classes > 4096 || !ck_mul(classes, columns, &need) ||
      at->coefficients.n < need || at->rho.n < 1)
    return NULL;
  double *rho = arena_array(&g->scratch, double, classes);
  for (int64_t i = 0; i < classes; i++) rho[i] = at->rho.v[0];
  Node *y = product(g, x, columns, classes, at->coefficients.v, true, (Floats){classes, rho});
  if (!y) return NULL;
  if (scores)
    return classes == 1 && at->post_transform != POST_PROBIT
               ? y
               : post_transform(g, at->post_transform, y);
  bool positive = classes == 2;
  for (int64_t i = 0; i < at->coefficients.n; i++) positive &= at->coefficients.v[i] >= 0;
  return positive ? NULL : labels_at(g, l, classes, best_of(g, y));
}

static Node *svm_classifier(Graph *g, const Node *n, bool scores) {
  const svm_classifier_attrs *at = n->attrs;
  Labels l = {at->classlabels_ints, at->classlabels_strings};
  Node *x = features_rows(g, n->src[0]), *y;
  int64_t vectors = 0;
  if (!x || features_columns(x) < 1) return NULL;
  for (int64_t i = 0; i < at->vectors_per_class.n; i++)
    if (at->vectors_per_class.v[i] < 0 || !ck_add(vectors, at->vectors_per_class.v[i], &vectors))
      return NULL;
  y = vectors ? svm_pairs(g, at, &l, x, vectors, scores) : svm_linear(g, at, &l, x, scores);
  return y && scores ? to_f32(g, y) : y;
}

static Node *classes_of(Graph *g, const Match *m) {
  const Node *n = m->root->src[0];
  bool scores = ((const proj_attrs *)m->root->attrs)->index == 1;
  if (n->op == OP_linear_classifier) return linear_classifier(g, n, scores);
  return n->op == OP_svm_classifier ? svm_classifier(g, n, scores) : NULL;
}

#define MODEL FAST_REASSOC | FAST_APPROX | FAST_CONTRACT
static const Rule models[] = {
    // clang-format off
    RULE("linear_regressor.product", ANY(linear_regressor), .make = linear_regressor, .fast = MODEL,
         .example = "(%x: f32[n, 2]) { %r = linear_regressor(%x) targets=2 coefficients=[1, 2, 3, 4] intercepts=[0.5, 1] return %r }"),
    RULE("svm_regressor.product",    ANY(svm_regressor),    .make = svm_regressor, .fast = MODEL,
         .example = "(%x: f32[n, 2]) { %r = svm_regressor(%x) coefficients=[1, -1] rho=[0.1] n_supports=2 support_vectors=[1, 2, 3, 4] kernel_type=RBF kernel_params=[0.5, 1, 2] return %r }"),
    RULE("proj.classes",             P(proj, a),            .make = classes_of, .fast = MODEL,
         .example = "(%x: f32[n, 2]) { %m:2 = linear_classifier(%x) classlabels_ints=[0, 1, 2] coefficients=[1, 2, -1, 0.5, 0.25, 1] intercepts=[0, 1, -1] return %m.1 }"),
    // clang-format on
};
const RuleSet rules_linear_models =
    RULES("linear models", models, "each removes a result of a model");
