// import_q.h -- what the rows for quantised values share.
//
// A quantised operand is a node of integers with one scale and zero point, or one a channel.  Rows
// work out multipliers from the scales exactly as the reference kernels do, in float where those
// do, since the last bit of a multiplier shows in results.
#ifndef TENON_FRONTENDS_TFLITE_IMPORT_Q_H
#define TENON_FRONTENDS_TFLITE_IMPORT_Q_H

#include "frontends/tflite/import.h"
#include "frontends/tflite/quant.h"

typedef struct QArg {
  Node *x;  // NULL of results, and of operands that are absent
  DType t;
  int64_t n;  // pairs below; 0: not quantised
  const float *scale;
  const int64_t *zero;
  int axis;
} QArg;
typedef struct QRow {
  int code;
  TflFn *fn;
} QRow;
typedef struct QTable {
  const QRow *row;
  int64_t n;
} QTable;
#define Q_TABLE(name) const QTable tfl_q_##name = {rows, ARRAY_LEN(rows)}
extern const QTable tfl_q_product, tfl_q_elementwise, tfl_q_shape;

// Operands and results that must be quantised; 4-bit weights come as i8.  False: failed.
bool q_in(TflOp *op, int i, QArg *out);
bool q_out(TflOp *op, int i, QArg *out);
// Of any type; n is 0 where it is not quantised.
bool q_any(TflOp *op, int i, QArg *out);
// One scale for all.
bool q_single(TflOp *op, const QArg *a);
static inline float q_scale(const QArg *a) { return a->scale[0]; }
static inline int64_t q_zero(const QArg *a) { return a->zero[0]; }
static inline bool q_same(const QArg *a, const QArg *b) {
  return a->t == b->t && q_scale(a) == q_scale(b) && q_zero(a) == q_zero(b);
}
// The least and the largest value of a result after a fused activation.
void q_range(TflOp *op, const QArg *y, int64_t activation, int64_t *lo, int64_t *hi);
// Gives result 0: y, already in the result's scale, and its zero point, clamped by the activation.
void q_give(TflOp *op, const QArg *to, Node *y, int64_t activation);
// quant_table, of which a model may have a limited number: each is much larger than the operator in
// the file.
Node *q_table(TflOp *op, Node *x, DType t, const int64_t *value);
Node *q_zero_node(TflOp *op, const QArg *a);  // a's zero points in a's type; none where all are 0
// The factor of a product's sum, as for convolutions with one scale: x and w multiplied in float.
QMul q_product(const QArg *x, const QArg *w, const QArg *y);

// Products of rows of x with w [units, depth] over floats and 8-bit weights: x is quantised as it
// comes.
Node *q_hybrid_rows(TflOp *op, Node *x, const QArg *w, bool asymmetric);
// Sums of (x - zero) (w - zero) in i64, w [units, depth].
Node *q_row_sums(TflOp *op, const QArg *x, const QArg *w);

#endif
