// order.h -- channels first or last: the two orders in which channel-aware ops take their operands.
//
// Channels first is ONNX's order: x is [N, C, spatial...].  An op with channels_last=true takes x
// as [N, spatial..., C] and gives its result likewise; weights follow, so that the channels that
// are computed together are contiguous:
//   convolution             [Cout, Cin / group, taps...]   becomes   [taps..., Cin / group, Cout]
//   transposed convolution  [Cin, Cout / group, taps...]   becomes   [taps..., Cin, Cout / group]
// All other operands, vectors by channel or by batch, are the same in both.
#ifndef TENON_EVAL_ORDER_H
#define TENON_EVAL_ORDER_H

#include "eval/eval.h"

#define CHANNELS_LAST_ATTR(A, T)                                                                   \
  A(T, bool, channels_last, false,                                                                 \
    "x and the result are [N, spatial..., C], weights [taps..., Cin, Cout]")

typedef enum { ORDER_DATA, ORDER_CONV, ORDER_CONV_TRANSPOSE } OrderKind;
// perm[i]: where axis i of the channels-first form stands in the channels-last form; and the other
// way round.
void order_first(OrderKind k, int rank, int64_t *perm);
void order_last(OrderKind k, int rank, int64_t *perm);

// Evaluates a channels-last op by its channels-first evaluation: the same sums in the same order.
// x is operand 0; w is the operand with the weights, 0 for none.
MUST_USE tenon_status eval_last(Eval *e, EvalFn *first, int w, OrderKind k);
#define EVAL_ORDERED(op, attrs_type, w, kind)                                                      \
  tenon_status eval_##op(Eval *e) {                                                                \
    const attrs_type *order_at = e->attrs;                                                         \
    return order_at->channels_last ? eval_last(e, first_##op, w, kind) : first_##op(e);            \
  }

#endif
