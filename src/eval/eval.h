// eval.h -- how an op's reference evaluation is called.
//
// An evaluation reads e->in (NULL = absent optional input), and sets each e->out[i] to a value it
// owns one reference of (made with eval_out, or a retained input).  It works out its own result
// shapes from concrete inputs and never looks at the graph's inferred ones: the interpreter
// compares the two afterwards, so that shape inference and evaluation check each other.  It checks
// every index and size that comes from data.  Arithmetic: floats in double, one rounding to the
// result dtype at the end; integers exact.  The order of every sum is fixed by the shapes alone.
#ifndef TENON_EVAL_EVAL_H
#define TENON_EVAL_EVAL_H

#include "base/attr.h"
#include "eval/value.h"

// What a prepared evaluation (eval/table.h) made of a step's attributes: its caller's, which lives
// as long as they do.  One run at a time uses it.
typedef struct EvalKeep {
  Arena *arena;  // for what `made` points to
  void *made;    // NULL before the first call
} EvalKeep;

typedef struct Eval {
  Run *run;
  const Value *const *in;
  int nin;
  Value **out;  // nout slots, NULL on entry
  int nout;
  const void *attrs;
  Where at;        // node and op, for messages
  EvalKeep *keep;  // of a prepared evaluation; else NULL
  // What the op's cost function says of these inputs once result 0 has its shape; NULL: nothing.
  // Asked by eval_out, where the work of a run is limited.
  double (*cost)(const struct Eval *e);
  const void *node;  // for `cost`
} Eval;
typedef tenon_status EvalFn(Eval *e);

static inline const Value *eval_in(const Eval *e, int i) { return i < e->nin ? e->in[i] : NULL; }
static inline bool eval_wants(const Eval *e, int i) { return i < e->nout; }
MUST_USE tenon_status eval_out(Eval *e, int i, DType t, int rank, const int64_t *dims,
                               Value **out_value);
tenon_status eval_fail(Eval *e, tenon_status code, const char *fmt, ...) PRINTF(3, 4);
// Takes operations from the run's budget before they are done; EINVAL when that many are not left.
// eval_out charges an op's cost and the elements of its results; work that they do not tell of is
// charged where it is done.
MUST_USE tenon_status eval_work(Eval *e, double ops);
MUST_USE tenon_status run_work(Run *r, Where at, double ops);  // the same without an evaluation
// Steps of loops over a tensor's sizes: its elements, and where it has none, as many as its other
// sizes say.
double eval_extent(const Value *v);
// Presence, kind and (when t != 0) dtype of an input that must be there.
MUST_USE tenon_status eval_need(Eval *e, int i, const char *name, DType t);
// All elements of an integer (or bool) tensor input as int64, in run->scratch.
MUST_USE tenon_status eval_ints(Eval *e, int i, Ints *out);
// All elements as double, in run->scratch (large: use load_f64 in blocks instead).
MUST_USE tenon_status eval_doubles(Eval *e, int i, Floats *out);
// axis in [-rank, rank) -> [0, rank)
MUST_USE tenon_status eval_axis(Eval *e, int64_t axis, int rank, int *out);
// numpy broadcasting of n shapes
MUST_USE tenon_status eval_broadcast(Eval *e, const Value *const *v, int n, int *out_rank,
                                     int64_t *out_dims);
// For each output dim, the stride of v in elements (0 where broadcast).
void broadcast_strides(const Value *v, int rank, int64_t *out_strides);

#endif
