// values.c -- operands, options and constructions that the operators' rows share (import.h).
#include "eval/movement.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
#include "eval/window.h"
#include "frontends/tflite/import.h"

#include <stdio.h>

Node *tfl_fail(TflOp *op, const char *fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return graph_fail(op->g, TENON_EUNSUPPORTED, op->at, "%s", text);
}

bool tfl_need(TflOp *op, int least_in, int least_out) {
  if (op->g->status) return false;
  if (op->nin >= least_in && op->nout >= least_out) return true;
  tfl_fail(op, "%d inputs and %d outputs, at least %d and %d are needed", op->nin, op->nout,
           least_in, least_out);
  return false;
}

// ---- operands ----

const TflTensor *tfl_in_tensor(const TflOp *op, int i) {
  int64_t k = i < op->nin ? fb_i32_at(&op->o->in, i) : -1;
  return k < 0 ? NULL : &op->scope->sub->tensor[k];
}

const TflTensor *tfl_out_tensor(const TflOp *op, int i) {
  return i < op->nout ? &op->scope->sub->tensor[fb_i32_at(&op->o->out, i)] : NULL;
}

Node *tfl_in_opt(TflOp *op, int i) {
  const TflTensor *t = tfl_in_tensor(op, i);
  if (!t) return NULL;
  if (op->g->status) return op->g->poison;
  Node **slot = &op->scope->value[t - op->scope->sub->tensor];
  if (!*slot) *slot = tfl_const(op->im, t);
  return *slot ? *slot : tfl_fail(op, "nothing computes its input '%s'", t->name);
}

Node *tfl_in(TflOp *op, int i) {
  Node *n = tfl_in_opt(op, i);
  return n ? n : tfl_fail(op, "input %d is missing", i);
}

Node *tfl_in_i64(TflOp *op, int i) {
  Node *n = tfl_in(op, i);
  if (op->g->status) return op->g->poison;
  if (!dtype_is_int(type_of(n)->dtype)) return tfl_fail(op, "input %d must be integers", i);
  return tb_cast(op->g, n, DT_I64);
}

void tfl_give(TflOp *op, int i, Node *n) {
  const TflTensor *t = tfl_out_tensor(op, i);
  if (!t || op->g->status) return;
  const Type *type = type_of(n);
  bool pairs = tfl_is_complex(t) && type->dtype == DT_F32;
  if (t->dtype && type->kind == TK_TENSOR && type->dtype != t->dtype && !pairs) {
    tfl_fail(op, "output '%s' is declared %s and computed as %s", t->name, dtype_name(t->dtype),
             dtype_name(type->dtype));
    return;
  }
  Node **slot = &op->scope->value[t - op->scope->sub->tensor];
  if (*slot)
    tfl_fail(op, "tensor '%s' is computed twice, or is an input as well", t->name);
  else
    *slot = n;
}

void tfl_set_state(TflOp *op, int i, Node *n) {
  const TflTensor *t = tfl_in_tensor(op, i);
  if (!t || op->g->status) return;
  if (!t->variable) {
    tfl_fail(op, "input %d, '%s', must be a variable tensor", i, t->name);
    return;
  }
  if (type_of(n)->dtype != t->dtype) {
    tfl_fail(op, "the state '%s' is declared %s and computed as %s", t->name, dtype_name(t->dtype),
             dtype_name(type_of(n)->dtype));
    return;
  }
  op->scope->value[t - op->scope->sub->tensor] = n;
  for (int64_t k = 0; k < op->im->states.n; k++)
    if (op->im->states.v[k].tensor == t) {
      op->im->states.v[k].value = n;
      op->im->states.v[k].changed = true;
    }
}

int tfl_rank(TflOp *op, const Node *x) {
  if (op->g->status) return 0;
  if (type_of(x)->kind == TK_TENSOR && type_of(x)->rank >= 0) return type_of(x)->rank;
  tfl_fail(op, "the rank of an operand is not known");
  return 0;
}

int64_t tfl_size(TflOp *op, const Node *x, int axis) {
  if (op->g->status) return -1;
  const Type *t = type_of(x);
  if (t->rank > axis && axis >= 0 && ie_is_const(t->dims[axis])) return t->dims[axis]->value;
  tfl_fail(op, "the size of axis %d of an operand must be known while the model is read", axis);
  return -1;
}

bool tfl_ints(TflOp *op, int i, Ints *out) {
  Node *n = tfl_in_opt(op, i);
  *out = (Ints){0};
  return n && !op->g->status && node_ints(op->g, n, out);
}

Ints tfl_need_ints(TflOp *op, int i, const char *what) {
  Ints v;
  if (!tfl_ints(op, i, &v) && !op->g->status)
    tfl_fail(op, "%s (input %d) must be known while the model is read", what, i);
  return v;
}

int64_t tfl_axis(TflOp *op, int64_t axis, int rank) {
  if (op->g->status) return 0;
  int64_t n = MAX(rank, 1);
  if (axis >= -n && axis < n) return axis < 0 ? axis + n : axis;
  tfl_fail(op, "axis %lld of a tensor of rank %d", (long long)axis, rank);
  return 0;
}

// ---- options ----

int64_t tfl_opt_i8(const TflOp *op, int field, int64_t dflt) {
  return fb_i8(&op->o->options, field, dflt);
}
int64_t tfl_opt_i32(const TflOp *op, int field, int64_t dflt) {
  return fb_i32(&op->o->options, field, dflt);
}
bool tfl_opt_bool(const TflOp *op, int field, bool dflt) {
  return fb_u8(&op->o->options, field, dflt) != 0;
}
double tfl_opt_f32(const TflOp *op, int field, double dflt) {
  return fb_f32(&op->o->options, field, dflt);
}

Node *tfl_activate(TflOp *op, Node *x, int64_t activation) {
  Graph *g = op->g;
  switch (activation) {
  case ACT_NONE: return x;
  case ACT_RELU: return N(g, relu, x);
  case ACT_RELU_N1_TO_1: return N(g, clip, x, tb_num(g, x, -1), tb_num(g, x, 1));
  case ACT_RELU6: return N(g, clip, x, tb_num(g, x, 0), tb_num(g, x, 6));
  case ACT_TANH: return N(g, tanh, x);
  default: return tfl_fail(op, "fused activation %lld", (long long)activation);
  }
}

int tfl_auto_pad(TflOp *op, int64_t padding) {
  if (padding != 0 && padding != 1) tfl_fail(op, "padding %lld", (long long)padding);
  return padding == 0 ? PAD_SAME_UPPER : PAD_VALID;
}

// ---- constructions ----

Node *tb_cast(Graph *g, Node *x, DType t) {
  if (g->status || type_of(x)->dtype == t) return x;
  return NA(g, cast, (&(cast_attrs){.to = t, .saturate = true}), x);
}
Node *tb_num(Graph *g, const Node *like, double v) {
  return g->status ? g->poison : node_scalar(g, type_of(like)->dtype, v);
}
Node *tb_reshape(Graph *g, Node *x, int n, const int64_t *dims) {
  bool zero = false, rest = false;
  for (int i = 0; i < n; i++) {
    zero = zero || dims[i] == 0;
    rest = rest || dims[i] == -1;
  }
  return NA(g, reshape, (&(reshape_attrs){.allowzero = zero && !rest}), x, node_i64s(g, n, dims));
}
Node *tb_transpose(Graph *g, Node *x, int n, const int64_t *perm) {
  for (int i = 0; i < n; i++)
    if (perm[i] != i) return NA(g, transpose, (&(transpose_attrs){.perm = {n, perm}}), x);
  return x;
}
Node *tb_slice(Graph *g, Node *x, int64_t axis, int64_t begin, int64_t end) {
  return N(g, slice, x, node_i64s(g, 1, &begin), node_i64s(g, 1, &end), node_i64s(g, 1, &axis));
}
Node *tb_concat(Graph *g, int64_t axis, int n, Node *const *x) {
  if (n == 1) return x[0];
  return node_new(g, OP_concat, n, x, &(concat_attrs){.axis = axis}, 1, NULL);
}
Node *tb_unsqueeze(Graph *g, Node *x, int64_t axis) {
  return N(g, unsqueeze, x, node_i64s(g, 1, &axis));
}
Node *tb_squeeze(Graph *g, Node *x, int64_t axis) {
  return N(g, squeeze, x, node_i64s(g, 1, &axis));
}
Node *tb_dims(Graph *g, Node *x, int from, int to) {
  if (from >= to) return node_i64s(g, 0, NULL);
  return NA(g, shape, (&(shape_attrs){.start = from, .end = to}), x);
}
Node *tb_reduce(Graph *g, int op, Node *x, Ints axes, bool keep) {
  if (!axes.n) return x;
  Node *src[] = {x, node_i64s(g, axes.n, axes.v)};
  return node_new(g, op, 2, src, &(reduce_attrs){.keepdims = keep}, 0, NULL);
}
Node *tb_full(Graph *g, Node *shape, DType t, double v) {
  return N(g, expand, node_scalar(g, t, v), shape);
}
Node *tb_nchw(Graph *g, Node *x, int rank) {
  int64_t perm[MAX_RANK] = {0, rank - 1};
  for (int i = 2; i < rank; i++) perm[i] = i - 1;
  return tb_transpose(g, x, rank, perm);
}
Node *tb_nhwc(Graph *g, Node *x, int rank) {
  int64_t perm[MAX_RANK] = {0};
  for (int i = 1; i < rank - 1; i++) perm[i] = i + 1;
  perm[rank - 1] = 1;
  return tb_transpose(g, x, rank, perm);
}
Node *tb_vector(Graph *g, DType t, int64_t n, const double *v) {
  int64_t bytes;
  if (g->status) return g->poison;
  CHECK(dtype_bytes(t, n, &bytes), "a vector of ours");
  void *p = arena_alloc(&g->arena, MAX(bytes, 8));
  for (int64_t i = 0; i < n; i++) put_f64(t, p, i, v[i]);
  return node_const(g, t, 1, &n, p, NULL);
}
