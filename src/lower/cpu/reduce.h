// reduce.h -- what the templates of rows share: which sums a kernel forms, over which axes, and how
// its results lie.
#ifndef TENON_LOWER_CPU_REDUCE_H
#define TENON_LOWER_CPU_REDUCE_H

#include "lower/cpu/row_lanes.h"
#include "lower/element/element.h"
#include "lower/template.h"

enum { SUMS = 16, KEEP = 8 };

typedef enum { ALONG, ACROSS, BROKEN, SHORT } RowKind;
enum { SHORT_MOST = 16 };  // elements of a short row

typedef struct Rows {
  ElementBuilder e;
  const Node *sum[SUMS];
  const LoopExpr *total[SUMS];
  int32_t row_sum[SUMS];  // scratch, across: finished
  int nsums;
  const Node *kept[KEEP];  // values in scratch
  int32_t scratch[KEEP];
  const LoopExpr *value[KEEP][SHORT_MOST];  // short rows: kept, by element
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
  Dim first, width, lane;  // across: the piece of the last axis, the lane in it
  RowLanes rows;           // short
  // Across: axes from here to `vector` are one in the lanes, of so many elements.  An item has so
  // many rows of axis unroll_axis, whose sums do not wait for each other, from row unroll *
  // unroll_first on.
  int from;
  Dim last;
  int64_t unroll;
  int unroll_axis;
  Dim unroll_first;
  bool guarded;  // the last piece has fewer elements, and its lanes a guard
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
// The element's index: the row's own axes are set already; the others come from its place in the
// row.
void rows_set_place(Rows *r, Dim outer, Dim inner);
// Elements of a piece within which results read their operands alike or one after the other; a
// divisor of the row's length.  0: the row is one.
int64_t rows_piece(Rows *r);
int rows_open_pieces(Rows *r, int64_t piece);  // opens loops over them; how many
// The index of the row's element, or of the row, in a result's shape.
void rows_result_index(Rows *r, const Type *t, bool whole, Dim *out);
// Joins the axes that lanes go along, where all loads stay contiguous.
void rows_join(Rows *r);
// As rows_choose_cols, of the joined axes: where machines have masks, also a number that does not
// divide them.
int64_t rows_choose_lanes(const Rows *r, const LowerTarget *target, int bytes);
// With `cols` given: how many rows are added at once, and whether lanes have guards.
void rows_choose_together(Rows *r);
// Elements of an axis that lanes go along per work item: a divisor of its size where that is known,
// so that sums of so many bytes stay in registers, in eight vectors at most, and fewer where there
// would be few items.  `over`: axes that sums go over.
int64_t rows_choose_cols(const Type *t, int axis, const bool *over, const LowerTarget *target,
                         int bytes);
// The sum's value from what was added up: a variable.
const LoopExpr *rows_finish_sum(Rows *r, const Node *n, const LoopExpr *x);

#endif
