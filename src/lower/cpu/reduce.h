// reduce.h -- what the templates of rows share: which sums a kernel forms, over which axes, and how
// its results lie.
#ifndef TENON_LOWER_CPU_REDUCE_H
#define TENON_LOWER_CPU_REDUCE_H

#include "lower/element/element.h"
#include "lower/template.h"

enum { SUMS = 16, KEEP = 8 };

typedef enum { ALONG, ACROSS, BROKEN } RowKind;

typedef struct Rows {
  ElementBuilder e;
  const Node *sum[SUMS];
  const LoopExpr *total[SUMS];
  int32_t row_sum[SUMS];  // scratch, across: finished
  int nsums;
  const Node *kept[KEEP];  // values in scratch
  int32_t scratch[KEEP];
  int nkept;
  const Type *type;     // of the rows
  bool over[MAX_RANK];  // axes that sums go over
  RowKind kind;
  int inner;   // BROKEN: the axes from here on lie together
  int vector;  // ACROSS: the last axis that has more than one element
  bool whole;  // some result has an element for each of the rows'
  Dim shape[MAX_RANK], index[MAX_RANK];
  Dim length, outer_length, inner_length;
  Dim place;               // of the element in its row
  Dim first, width, lane;  // across: the piece of the last axis, and the lane in it
  // of the schedule
  int lanes;
  int64_t cols;
  bool keep;
} Rows;

// Finds the sums; false when the kernel is not rows.
bool rows_begin(Rows *r, Lowering *lo, const Node *fused);
void rows_measure(Rows *r);                  // shapes and lengths
bool rows_is_whole(Rows *r, const Type *t);  // an element for each of the rows'
bool rows_is_arg(const Node *n);             // the place of the greatest or least
LoopOp rows_sum_op(const Node *n);
bool rows_costly(const Node *n);               // to compute again
bool rows_read_again(Rows *r, int i);          // something besides sum i reads its operand
bool rows_kept(const Rows *r, const Node *n);  // its elements are kept already
bool rows_same_index(const Rows *r, int axis, Dim index);  // of the element at hand
// The index of the row's element, or of the row, in a result's shape.
void rows_result_index(Rows *r, const Type *t, bool whole, Dim *out);
// Elements of an axis that lanes go along per work item: a divisor of its size where that is known,
// so that sums of so many bytes stay in registers, in eight vectors at most, and fewer where there
// would be few items.  `over`: axes that sums go over.
int64_t rows_choose_cols(const Type *t, int axis, const bool *over, const LowerTarget *target,
                         int bytes);
// The sum's value from what was added up: a variable.
const LoopExpr *rows_finish_sum(Rows *r, const Node *n, const LoopExpr *x);

#endif
