// tile.h -- what stands in `tile` loops: a matrix of sums of products, and where its operands lie.
//
//   tile i < 128 by 4 {            rows; 4 blocks of the contracted axis under way at once
//     tile j < 256 by 2 {          columns; 2 warpgroups share the tile
//       reduce %v0: f32 = add over k < K { yield mul(cast f32 (a[g*lda + k] if g = row0 + i < M),
//                                                    cast f32 (b[h*ldb + k] if h = col0 + j < N)) }
//       ...                        what is done with each sum
//
// Both operands lie along the contracted axis, and what is beyond their last row counts as 0: so units that copy boxes of a matrix
// into shared memory can fetch them.
#ifndef TENON_LOOP_TILE_H
#define TENON_LOOP_TILE_H

#include "loop/loop.h"

enum { TILE_DEPTH_BYTES = 128, TILE_ROWS = 64, TILE_COLS = 32, TILE_MOST_COLS = 256 };

typedef struct LoopTileOperand {
  int32_t buffer;
  DType dtype;
  Dim row;     // of the matrix, in terms of the item's symbols and the tile's variable
  Dim rows;    // of the matrix
  Dim stride;  // elements from one row to the next
} LoopTileOperand;
typedef struct LoopTile {
  const LoopStmt *rows, *cols, *sum;
  LoopTileOperand a, b;
  int m, n, stages, groups;
  Dim depth;
} LoopTile;

// Whether the loop is the outer one of a tile; else *why says what is wrong.
bool loop_tile_match(const LoopKernel *k, const LoopStmt *s, LoopTile *out, const char **why);
// The tile of a kernel; false: it has none.
bool loop_find_tile(const LoopKernel *k, LoopTile *out);

#endif
