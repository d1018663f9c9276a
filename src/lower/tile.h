// tile.h -- what the choices of tiles share (tile.c, tile_warps.c).
#ifndef TENON_LOWER_TILE_H
#define TENON_LOWER_TILE_H

#include "loop/tile.h"
#include "lower/contract.h"

enum { TILE_SOME_ROWS = 4096 };  // where their number is open

typedef struct TileSchedule {
  int m, n, stages, groups, at_once;
  int cluster;  // blocks of a tile, each with its part of the contracted axis
} TileSchedule;

// What is done with the sums: how much beside storing each, which is 1, and whether a matrix is read along with them.
typedef struct TileFinish {
  double work;
  bool beside;
} TileFinish;

// Where units multiply for a warp each.  `depth`: of what is multiplied.
TileSchedule tile_for_warps(const Contraction *c, const LowerTarget *t, LoopTileProduct product,
                            int64_t depth, bool window, TileFinish f);

#endif
