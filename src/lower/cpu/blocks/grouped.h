// grouped.h -- rows that take one of several matrices, sorted by matrix.
#ifndef TENON_LOWER_CPU_BLOCKS_GROUPED_H
#define TENON_LOWER_CPU_BLOCKS_GROUPED_H

#include "lower/cpu/blocks/blocks.h"

// A work item's rows.  In scratch `list` has them matrix after matrix, each time in order, and
// `begin` where those of each matrix begin; begin[count] is behind the last.
typedef struct RowGroups {
  int64_t count;     // matrices
  const Node *node;  // the operand that names them: i32 or i64 of the result's rows
  Dim x_rows;        // rows of x
  bool spread;       // several rows of the result have one row of x
  int64_t most;      // rows of an item
  Dim rows;          // those of this one
  int32_t begin, list;
  Dim from;  // place in the list of the first row of the matrix at hand
} RowGroups;

void groups_init(RowGroups *r, ElementBuilder *e, const Node *product, const Node *group);
void groups_declare(RowGroups *r, ElementBuilder *e, int64_t most);
// Sorts the item's rows, which are `start` and those behind.  False: an operand has no element.
bool groups_sort(RowGroups *r, ElementBuilder *e, Dim start, Dim rows);
// Opens a loop over the matrices that rows take, until groups_end: the matrix, and *n rows of it.
Dim groups_begin(RowGroups *r, ElementBuilder *e, Dim *n);
void groups_end(ElementBuilder *e);
Dim groups_row(RowGroups *r, ElementBuilder *e, Dim i);      // row i of the matrix, in the item
Dim groups_x_row(RowGroups *r, ElementBuilder *e, Dim row);  // the row of x of one of the result

#endif
