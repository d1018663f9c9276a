// order.c -- channels-last ops by their channels-first evaluation.
//
// Operands are turned, the one evaluation of the op runs, and its result is turned back.  A second
// evaluation with other strides would be faster, and a second place to be wrong: this is the
// reference, and both orders must agree to the bit.
//
// Guarantees: the run's budget is charged as if the op had been evaluated as it stands.
#include "eval/order.h"

#include "eval/move.h"

void order_first(OrderKind k, int rank, int64_t *perm) {
  for (int i = 0; i < rank; i++) perm[i] = i;
  if (rank < 3) return;
  for (int i = 2; i < rank; i++) perm[i] = k == ORDER_DATA ? i - 1 : i - 2;
  perm[0] = k == ORDER_DATA ? 0 : k == ORDER_CONV ? rank - 1 : rank - 2;
  perm[1] = k == ORDER_CONV ? rank - 2 : rank - 1;
}

void order_last(OrderKind k, int rank, int64_t *perm) {
  int64_t first[MAX_RANK];
  order_first(k, rank, first);
  for (int i = 0; i < rank; i++) perm[first[i]] = i;
}

static tenon_status transposed(Eval *e, const Value *v, const int64_t *perm, Value **out) {
  int64_t strides[MAX_RANK], from[MAX_RANK], dims[MAX_RANK];
  shape_strides(v->rank, v->dims, strides);
  for (int i = 0; i < v->rank; i++) {
    dims[i] = v->dims[perm[i]];
    from[i] = strides[perm[i]];
  }
  TRY(value_tensor(e->run, e->at, v->dtype, v->rank, dims, out));
  move_strided(e->run, *out, v->data, 0, from);
  return TENON_OK;
}

// What the op costs with its result 0 in the order that the node gives it.
static double cost_last(const Eval *inner) {
  const Eval *e = inner->node;
  int64_t perm[MAX_RANK];
  Value y = *inner->out[0], *out = &y;
  order_last(ORDER_DATA, y.rank, perm);
  for (int i = 0; i < y.rank; i++) y.dims[i] = inner->out[0]->dims[perm[i]];
  Eval asked = *e;
  asked.out = &out;
  asked.nout = 1;  // the others are vectors or absent
  return e->cost(&asked);
}

static tenon_status run_first(Eval *e, EvalFn *first, int w, OrderKind k, const Value **in) {
  int64_t perm[MAX_RANK];
  Value *x = NULL, *weights = NULL;
  order_first(ORDER_DATA, in[0]->rank, perm);
  TRY(transposed(e, in[0], perm, &x));
  in[0] = x;
  if (w) {
    order_first(k, in[w]->rank, perm);
    TRY(transposed(e, in[w], perm, &weights));
    in[w] = weights;
  }
  Eval inner = *e;
  inner.in = in;
  inner.node = e;
  inner.cost = e->cost ? cost_last : NULL;
  TRY(first(&inner));
  value_release(x);
  value_release(weights);
  Value *y = e->out[0];
  e->out[0] = NULL;
  order_last(ORDER_DATA, y->rank, perm);
  TRY(transposed(e, y, perm, &e->out[0]));
  value_release(y);
  return TENON_OK;
}

tenon_status eval_last(Eval *e, EvalFn *first, int w, OrderKind k) {
  TRY(eval_need(e, 0, "x", 0));
  if (w) TRY(eval_need(e, w, "w", 0));
  const Value **in = arena_array(&e->run->scratch, const Value *, e->nin);
  for (int i = 0; i < e->nin; i++) in[i] = e->in[i];
  return run_first(e, first, w, k, in);
}
