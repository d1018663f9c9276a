// gemm_mma.h -- what the choices of MMA tiles share (gemm_mma.c, gemm_mma_sync.c).
#ifndef TENON_LOWER_GPU_GEMM_MMA_H
#define TENON_LOWER_GPU_GEMM_MMA_H

#include "loop/tile.h"
#include "lower/contract/contract.h"

enum { TILE_SOME_ROWS = 4096 };  // where their number is dynamic

// A tile of sums is formed in the order of K.  Warpgroups beyond those that hold a tile's rows, and
// the blocks of a cluster, divide that axis (split-K), which changes the order.
#define GEMM_MMA_SCHEDULE(I, B, C, T)                                                              \
  I(T, m, 0, 64, 128, 0, ORDER, "rows of a tile, 64 per warpgroup; further warpgroups split K")    \
  I(T, n, 0, 32, 256, 32, FREE, "columns of a tile")                                               \
  I(T, stages, 0, 2, 8, 1, FREE, "K blocks in shared memory")                                      \
  I(T, warpgroups, 1, 1, 4, 1, ORDER, "consumer warpgroups per tile; with mma.sync, 4 warps each") \
  I(T, cluster, 1, 1, 4, 0, ORDER, "thread blocks that share a tile by split-K")                   \
  B(T, pingpong, false, FREE, "two consumer warpgroups with a tile each, one in its epilogue")     \
  C(T, lhs, "matrix|window|value", 0, FREE,                                                        \
    "how lhs is fetched: rows, windows over an image, or elements that threads compute")           \
  C(T, math, LOOP_MMA_WORDS, 0, ORDER, "data type of the MMA; 3xtf32 is f32 by three tf32 MMAs")
SCHEDULE_STRUCT(GemmMma, GEMM_MMA_SCHEDULE);

// What a schedule is chosen by.
typedef struct TileProblem {
  const LowerTarget *target;
  int64_t rows, cols, depth;  // depth: of what is multiplied
  Dim m, n;
  LoopMmaKind kind;
  uint8_t form;   // of lhs: LoopTileForm
  double work;    // of the epilogue, for each sum: storing it is 1
  bool operand;   // the epilogue reads a matrix of the result's sizes
  int64_t parts;  // groups or batches, each with tiles of its own
} TileProblem;

// mma.sync (gemm_mma_sync.c).
LoopTileSchedule tile_for_warps(const TileProblem *w);

#endif
