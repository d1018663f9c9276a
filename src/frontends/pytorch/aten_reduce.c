// aten_reduce.c -- ATen operators that join the elements along axes, or find some of them.
#include "frontends/pytorch/aten.h"

#include "eval/index.h"
#include "eval/reduce.h"
#include "eval/scalar.h"

static bool is_int_like(DType t) { return dtype_is_int(t) || t == DT_BOOL; }

// The operand of a sum or product: integers are summed in 64 bits.
static Node *summand(AtenCall *c, int dtype_arg) {
  Node *x = at_tensor(c, 0);
  if (c->g->status) return x;
  DType t = type_of(x)->dtype, want = is_int_like(t) ? DT_I64 : t;
  return bt_cast(c->g, x, dtype_arg < 0 ? want : at_dtype(c, dtype_arg, want));
}

static void all_axes(AtenCall *c) {  // (self, *, dtype)
  Node *x = summand(c, c->schema->nargs > 1 ? 1 : -1);
  int rank = at_rank(c, x);
  int64_t axes[MAX_RANK];
  for (int i = 0; i < rank; i++) axes[i] = i;
  at_give(c, bt_reduce(c->g, c->schema->row->op, x, (Ints){rank, axes}, false));
}
static void some_axes(AtenCall *c) {  // (self, dim, keepdim, *, dtype)
  Node *x = summand(c, c->schema->nargs > 3 ? 3 : -1);
  int rank = at_rank(c, x);
  at_give(c, bt_reduce(c->g, c->schema->row->op, x, at_axes(c, 1, rank), at_bool(c, 2)));
}
static void extreme(AtenCall *c) {  // amax, amin; max, min of everything
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  Ints axes = c->schema->nargs > 1 ? at_axes(c, 1, rank) : (Ints){0};
  int64_t every[MAX_RANK];
  for (int i = 0; i < rank; i++) every[i] = i;
  if (c->schema->nargs == 1) axes = (Ints){rank, every};
  bool flag = !c->g->status && type_of(x)->dtype == DT_BOOL;
  Node *y = bt_reduce(c->g, c->schema->row->op, flag ? bt_cast(c->g, x, DT_U8) : x, axes,
                      c->schema->nargs > 1 && at_bool(c, 2));
  at_give(c, flag ? bt_cast(c->g, y, DT_BOOL) : y);
}

static Node *arg_along(AtenCall *c, Node *x, int64_t axis, bool keep, bool most) {
  arg_attrs at = {.axis = axis, .keepdims = keep};
  Node *src[] = {x};
  return node_new(c->g, most ? OP_arg_max : OP_arg_min, 1, src, &at, 0, NULL);
}

static void extreme_along(AtenCall *c) {  // max.dim, min.dim: values and indices
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  int64_t axis = at_axis(c, 1, rank);
  bool keep = at_bool(c, 2), most = c->schema->row->op == OP_reduce_max;
  if (!rank) {
    at_give_all(c, 2, (Node *[]){x, node_i64(g, 0)});
    return;
  }
  Node *v = bt_reduce(g, c->schema->row->op, x, (Ints){1, &axis}, keep);
  at_give_all(c, 2, (Node *[]){v, arg_along(c, x, axis, keep, most)});
}

static void arg_row(AtenCall *c) {  // argmax(self, dim?, keepdim)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  bool most = c->schema->row->op == OP_arg_max;
  int rank = at_rank(c, x);
  if (!at_none(c, 1)) {
    at_give(c, arg_along(c, x, at_axis(c, 1, rank), at_bool(c, 2), most));
    return;
  }
  int64_t rest = -1;
  at_give(c, arg_along(c, bt_reshape(g, x, 1, &rest), 0, false, most));
}

static void any_all(AtenCall *c) {
  Graph *g = c->g;
  Node *x = bt_cast(g, bt_cast(g, at_tensor(c, 0), DT_BOOL), DT_U8);
  int rank = at_rank(c, x);
  int64_t every[MAX_RANK];
  for (int i = 0; i < rank; i++) every[i] = i;
  Ints axes = c->schema->nargs > 1 ? at_axes(c, 1, rank) : (Ints){rank, every};
  Node *y = bt_reduce(g, c->schema->row->op, x, axes, c->schema->nargs > 1 && at_bool(c, 2));
  at_give(c, bt_cast(g, y, DT_BOOL));
}

// ---- variance ----

// How many elements the axes have, as a scalar of x's type.
static Node *count_of(AtenCall *c, Node *x, Ints axes) {
  Graph *g = c->g;
  AtenValue n = av_int(1);
  for (int64_t i = 0; i < axes.n; i++) {
    AtenValue d = aten_size(c->a, x, axes.v[i]);
    n = aten_number_op(c->a, '*', &n, &d, c->at);
  }
  return g->status ? g->poison : av_node(g, &n, type_of(x)->dtype);
}

static Node *variance(AtenCall *c, Node *x, Ints axes, double correction, bool keep, Node **mean) {
  Graph *g = c->g;
  Node *m = bt_reduce(g, OP_reduce_mean, x, axes, true), *d = N(g, sub, x, m);
  Node *v = bt_reduce(g, OP_reduce_mean, N(g, mul, d, d), axes, keep);
  *mean = bt_reduce(g, OP_reduce_mean, x, axes, keep);
  if (correction == 0) return v;
  Node *n = count_of(c, x, axes), *less = N(g, sub, n, bt_num(g, x, correction));
  return N(g, mul, v, N(g, div, n, N(g, max, less, bt_num(g, x, 0))));
}

typedef enum { VAR, STD, VAR_MEAN, STD_MEAN } Spread;

static void give_spread(AtenCall *c, Ints axes, double correction, bool keep) {
  Node *mean, *v = variance(c, at_tensor(c, 0), axes, correction, keep, &mean);
  int kind = c->schema->row->op;
  if (kind == STD || kind == STD_MEAN) v = N(c->g, sqrt, v);
  if (kind == VAR || kind == STD)
    at_give(c, v);
  else
    at_give_all(c, 2, (Node *[]){v, mean});
}
static void var_correction(AtenCall *c) {  // (self, dim?, *, correction?, keepdim)
  Ints axes = at_axes(c, 1, at_rank(c, at_tensor(c, 0)));
  give_spread(c, axes, at_none(c, 2) ? 1 : at_f64(c, 2), at_bool(c, 3));
}
static void var_dim(AtenCall *c) {  // (self, dim?, unbiased, keepdim)
  Ints axes = at_axes(c, 1, at_rank(c, at_tensor(c, 0)));
  give_spread(c, axes, at_bool(c, 2) ? 1 : 0, at_bool(c, 3));
}
static void var_all(AtenCall *c) {  // (self, unbiased)
  int rank = at_rank(c, at_tensor(c, 0));
  int64_t every[MAX_RANK];
  for (int i = 0; i < rank; i++) every[i] = i;
  give_spread(c, (Ints){rank, every}, at_bool(c, 1) ? 1 : 0, false);
}

// ---- norms, sums along ----

static void norm_of(AtenCall *c, Node *x, double p, Ints axes, bool keep) {
  Graph *g = c->g;
  Node *a = N(g, abs, x);
  if (p == 2)
    at_give(c, bt_reduce(g, OP_reduce_l2, x, axes, keep));
  else if (p == 1)
    at_give(c, bt_reduce(g, OP_reduce_l1, x, axes, keep));
  else if (p > 1e300)
    at_give(c, bt_reduce(g, OP_reduce_max, a, axes, keep));
  else if (p < -1e300)
    at_give(c, bt_reduce(g, OP_reduce_min, a, axes, keep));
  else
    at_give(c, N(g, pow, bt_reduce(g, OP_reduce_sum, N(g, pow, a, bt_num(g, x, p)), axes, keep),
                 bt_num(g, x, 1 / p)));
}
static void norm_dims(AtenCall *c) {  // (self, p, dim, keepdim)
  Node *x = at_tensor(c, 0);
  norm_of(c, x, at_none(c, 1) ? 2 : at_f64(c, 1), at_axes(c, 2, at_rank(c, x)), at_bool(c, 3));
}
static void log_sum_exp(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  at_give(c,
          bt_reduce(c->g, OP_reduce_log_sum_exp, x, at_axes(c, 1, at_rank(c, x)), at_bool(c, 2)));
}
static void cumulative(AtenCall *c) {
  Node *x = summand(c, 2);
  int64_t axis = at_axis(c, 1, at_rank(c, x));
  Node *src[] = {x, node_i64(c->g, axis)};
  at_give(c, node_new(c->g, c->schema->row->op, 2, src, &(cum_attrs){0}, 0, NULL));
}
static void cosine_similarity(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *y = at_tensor(c, 1);
  int64_t axis = at_axis(c, 2, at_rank(c, x));
  Ints axes = {1, &axis};
  Node *d = bt_reduce(g, OP_reduce_sum, N(g, mul, x, y), axes, false);
  Node *eps = bt_num(g, x, at_f64(c, 3));
  Node *a = N(g, max, bt_reduce(g, OP_reduce_l2, x, axes, false), eps);
  Node *b = N(g, max, bt_reduce(g, OP_reduce_l2, y, axes, false), eps);
  at_give(c, N(g, div, d, N(g, mul, a, b)));
}

static void diff_row(AtenCall *c) {  // (self, n, dim, prepend?, append?)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *before = at_tensor_opt(c, 3), *after = at_tensor_opt(c, 4), *part[3];
  int rank = at_rank(c, x), k = 0;
  int64_t n = at_int(c, 1), axis = at_axis(c, 2, rank);
  if (before) part[k++] = before;
  part[k++] = x;
  if (after) part[k++] = after;
  x = bt_concat(g, axis, k, part);
  for (int64_t i = 0; i < n && i < 16 && !g->status; i++) {
    Node *next = bt_slice(g, x, axis, 1, INT64_MAX), *last = bt_slice(g, x, axis, 0, -1);
    x = !g->status && type_of(x)->dtype == DT_BOOL ? N(g, xor, next, last) : N(g, sub, next, last);
  }
  at_give(c, x);
}

static void topk_row(AtenCall *c) {  // (self, k, dim, largest, sorted)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  if (g->status) return;
  top_k_attrs at = {.axis = at_axis(c, 2, at_rank(c, x)), .largest = at_bool(c, 3), .sorted = true};
  int64_t one = 1;
  Node *k = N(g, reshape, av_node(g, at_arg(c, 1), DT_I64), node_i64s(g, 1, &one));
  Node *n = NA(g, top_k, &at, x, k);
  at_give_all(c, 2, (Node *[]){node_proj(g, n, 0), node_proj(g, n, 1)});
}
static void sort_by(AtenCall *c, int dim, bool descending) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int64_t axis = at_axis(c, dim, at_rank(c, x));
  if (g->status) return;
  top_k_attrs at = {.axis = axis, .largest = descending, .sorted = true};
  Node *n = NA(g, top_k, &at, x, bt_dims(g, x, (int)axis, (int)axis + 1));
  at_give_all(c, 2, (Node *[]){node_proj(g, n, 0), node_proj(g, n, 1)});
}
static void sort_row(AtenCall *c) { sort_by(c, 1, at_bool(c, 2)); }
static void sort_stable(AtenCall *c) { sort_by(c, 2, at_bool(c, 3)); }
static void argsort_row(AtenCall *c) {
  sort_by(c, 1, at_bool(c, 2));
  if (c->out.kind == AV_TUPLE) c->out = c->out.list->v.v[1];
}

static const AtenRow rows[] = {
    // clang-format off
    {"sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", all_axes, OP_reduce_sum, NULL},
    {"sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", some_axes, OP_reduce_sum, NULL},
    {"mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", all_axes, OP_reduce_mean, NULL},
    {"mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", some_axes, OP_reduce_mean, NULL},
    {"prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", all_axes, OP_reduce_prod, NULL},
    {"prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", some_axes, OP_reduce_prod, NULL},
    {"amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", extreme, OP_reduce_max, NULL},
    {"amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", extreme, OP_reduce_min, NULL},
    {"max(Tensor self) -> Tensor", extreme, OP_reduce_max, NULL},
    {"min(Tensor self) -> Tensor", extreme, OP_reduce_min, NULL},
    {"max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", extreme_along, OP_reduce_max, NULL},
    {"min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", extreme_along, OP_reduce_min, NULL},
    {"argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", arg_row, OP_arg_max, NULL},
    {"argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", arg_row, OP_arg_min, NULL},
    {"any(Tensor self) -> Tensor", any_all, OP_reduce_max, NULL},
    {"any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", any_all, OP_reduce_max, NULL},
    {"any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", any_all, OP_reduce_max, NULL},
    {"all(Tensor self) -> Tensor", any_all, OP_reduce_min, NULL},
    {"all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", any_all, OP_reduce_min, NULL},
    {"all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", any_all, OP_reduce_min, NULL},
    {"var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", var_correction, VAR, NULL},
    {"var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", var_dim, VAR, NULL},
    {"var(Tensor self, bool unbiased=True) -> Tensor", var_all, VAR, NULL},
    {"std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", var_correction, STD, NULL},
    {"std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", var_dim, STD, NULL},
    {"std(Tensor self, bool unbiased=True) -> Tensor", var_all, STD, NULL},
    {"var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)", var_correction, VAR_MEAN, NULL},
    {"var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)", var_dim, VAR_MEAN, NULL},
    {"std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)", var_correction, STD_MEAN, NULL},
    {"norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", norm_dims, 0, NULL},
    {"linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", norm_dims, 0, NULL},
    {"logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", log_sum_exp, 0, NULL},
    {"cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumulative, OP_cum_sum, NULL},
    {"cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumulative, OP_cum_prod, NULL},
    {"cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", cosine_similarity, 0, NULL},
    {"diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", diff_row, 0, NULL},
    {"topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)", topk_row, 0, NULL},
    {"sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort_row, 0, NULL},
    {"sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort_stable, 0, NULL},
    {"argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", argsort_row, 0, NULL},
    // clang-format on
};
ATEN_TABLE(reduce);
