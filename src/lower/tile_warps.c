// tile_warps.c -- the choice of a tile where units multiply for a warp each (mma.sync), from 8.0 on.
//
// As in tile.c it is the one that takes the machine least: waves of tiles, each as long as the slowest of its products, what its warps read of shared
// memory, what is copied from L2, and the steps that wait for one another.  Of two blocks on a multiprocessor one stores while the other multiplies; they
// share its memory, so it is a matter of stages.  Warpgroups that share the contracted axis wait at the same time, and are chosen by the number of
// rows: not where sums must not depend on it.
#include "lower/tile.h"

enum {
  BLOCK_BYTES = 1 << 10,  // of shared memory, which the machine keeps of each block
  MOST_STAGES = 5,
  MEET = 60,   // cycles of a block of the contracted axis that no thread computes in,
  WAIT = 140,  // and in which its steps wait for one another
  FINISH = 1000
};

// Operations a cycle of a multiprocessor of 8.0, and bytes of an element.
typedef struct WarpRate {
  double rate;
  int bytes;
} WarpRate;
static const WarpRate rate[] = {[TILE_HALF] = {2048, 2}, [TILE_TF32] = {1024, 4}};

typedef struct WarpTile {
  uint8_t groups, beside;
  uint16_t m, n;
} WarpTile;

static int ways_of(const WarpTile *w) { return MAX(w->groups * TILE_ROWS / w->m, 1); }

// `tiles`: of a multiprocessor.
static double product_cycles(const WarpTile *w, const WarpRate *r, int64_t tiles, int64_t depth) {
  int64_t across = w->n >= 128 ? 4 : 2, down = w->m / (w->n >= 128 ? 64 : 32);
  double steps = (double)depth * r->bytes / 32, both = w->m + w->n;
  double work = 2.0 * w->m * w->n * (double)depth / r->rate;
  double read = (double)(across * down) * (w->m / (double)down + w->n / (double)across);
  double shared = steps * (read + both) * 32 / 128, copies = steps * both * 32 / 48;
  double waits = steps / 4 * (MEET + WAIT / (double)ways_of(w)) / (double)MIN(w->beside, tiles);
  return MAX(MAX(work, shared), MAX(copies, waits));
}

static double tile_cycles(const WarpTile *w, const WarpRate *r, int64_t tiles, int64_t depth,
                          TileFinish f) {
  double products = product_cycles(w, r, tiles, depth);
  double finish = FINISH + w->m * (double)w->n * f.work / (6 * w->m / TILE_ROWS);
  if (w->beside == 1) return (double)tiles * (products + finish);
  return products + finish + (double)(tiles - 1) * MAX(products, (products + finish) / 2);
}

// How many stages there is memory for; 0: too few.
static int stages_of(const WarpTile *w, const LowerTarget *t) {
  int64_t room = (t->tile_bytes + BLOCK_BYTES) / w->beside - BLOCK_BYTES - TILE_DEPTH_BYTES;
  int64_t stages = MIN(room / ((w->m + w->n) * TILE_DEPTH_BYTES), MOST_STAGES);
  if (ways_of(w) > 1) return stages < 4 ? 0 : 4;  // a warpgroup has two of its own
  return stages < 2 ? 0 : (int)stages;
}

TileSchedule tile_for_warps(const Contraction *c, const LowerTarget *t, LoopTileProduct product,
                            int64_t depth, TileFinish f) {
  static const WarpTile tile[] = {
      {2, 1, 128, 256}, {2, 1, 128, 192}, {2, 1, 128, 128}, {2, 2, 128, 64}, {2, 2, 128, 32},
      {1, 2, 64, 256},  {1, 2, 64, 192},  {1, 2, 64, 128},  {1, 2, 64, 96},  {1, 2, 64, 64},
      {1, 2, 64, 32},   {2, 2, 64, 64},   {2, 2, 64, 32}};
  int64_t rows = elem_rows(c->e, c->m, TILE_SOME_ROWS), cols = c->n->value;
  TileSchedule best = {0};
  double least = 0;
  for (int64_t i = 0; i < ARRAY_LEN(tile); i++) {
    const WarpTile *w = &tile[i];
    int stages = stages_of(w, t);
    if (!stages || (t->batch_invariant && ways_of(w) > 1)) continue;
    int64_t tiles = ((rows + w->m - 1) / w->m) * ((cols + w->n - 1) / w->n);
    double cycles = tile_cycles(w, &rate[product], (tiles + t->units - 1) / t->units, depth, f);
    if (best.m && cycles >= least) continue;
    best = (TileSchedule){
        .m = w->m, .n = w->n, .stages = stages, .groups = w->groups, .at_once = 1, .cluster = 1};
    least = cycles;
  }
  return best;
}
