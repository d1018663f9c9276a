// row_lanes.h -- rows as lanes: a vector computes that many rows, each lane its own from the first
// element to the last.
#ifndef TENON_LOWER_CPU_ROW_LANES_H
#define TENON_LOWER_CPU_ROW_LANES_H

#include "lower/element/element.h"

// Lanes go along the last of the axes that stay: along several of them, where one is too short.
typedef struct RowLanes {
  int n, axis[MAX_RANK];  // the axes that stay
  Dim size[MAX_RANK];
  int from;  // of these, the axes from here on are one, of `last` rows
  Dim last;
  Dim at[MAX_RANK], first, width;  // of the item: the axes before, its first row, how many it has
} RowLanes;

// `over`: the axes of a row, which do not stay.
void row_lanes_find(RowLanes *r, IntPool *p, int rank, const Dim *shape, const bool *over);
bool row_lanes_many(const RowLanes *r);  // enough rows that most lanes have one
// Opens the loop over items of so many rows; then a vector over those, which sets their indices.
// Gives the lane.
void row_lanes_items(RowLanes *r, ElementBuilder *e, int64_t cols);
Dim row_lanes_vector(RowLanes *r, ElementBuilder *e, Dim *index);
// The same over all `cols`, with a guard until elem_unguard: where the last item has fewer rows, or
// where only the row's number as a symbol of its own shows that items do not meet.
Dim row_lanes_whole(RowLanes *r, ElementBuilder *e, int64_t cols, Dim *index);

#endif
