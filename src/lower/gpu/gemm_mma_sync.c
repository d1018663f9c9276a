// gemm_mma_sync.c -- chooses the MMA tile for mma.sync (sm_80 and later).
//
// As in gemm_mma.c the cheapest tile wins: waves of tiles, each as long as the slowest of its MMAs,
// its copies from L2 and the latency of its steps.  Warps read operands from shared memory, so that
// time is added in part.  Two resident blocks overlap one's epilogue with the other's main loop,
// but share the memory for stages.
//
// Needs:      TileProblem with sm_count and tile_bytes of the target; constants measured on sm_80.
// Guarantees: the tile's stages fit tile_bytes; `m` is 0 where no tile does.  Every tile has the
//             same order of sums: no split-K here.
#include "lower/gpu/gemm_mma.h"

enum {
  BLOCK_BYTES = 1 << 10,  // of shared memory, which the machine keeps of each block
  MOST_STAGES = 5,
  WAIT = 200,  // cycles of a block of the depth at least: a barrier, and four steps
  FINISH = 1000,
  MOST_WINDOW_COLS = 192  // beside more sums there are no registers for the addresses of pixels
};
// Of the time of products and of reading shared memory, as measured: the one goes on during the
// other, but for this; and where a stage is multiplied while only one is in flight.
static const double products_part = 0.45, reads_part = 0.68, two_stages = 1.2;

typedef struct WarpTile {
  uint8_t groups, resident_blocks;
  uint16_t m, n;
} WarpTile;

// `tiles`: of a multiprocessor.
static double product_cycles(const WarpTile *w, const LoopMmaInfo *r, int stages, int64_t tiles,
                             int64_t depth) {
  int across = w->n >= 128 ? 4 : 2, down = w->groups * 4 / across, both = w->m + w->n;
  double steps = (double)depth * r->bytes / 32, read = (double)(across * w->m + down * w->n);
  double work = 2.0 * w->m * w->n * (double)depth / r->warp_rate;
  double shared = steps * (read + both) * 32 / 128, copies = steps * both * 32 / 48;
  double waits = steps / 4 * WAIT / (double)MIN(w->resident_blocks, tiles);
  double cycles = products_part * work + reads_part * shared;
  return MAX(cycles * (stages == 2 ? two_stages : 1), MAX(copies, waits));
}

static double tile_cycles(const WarpTile *w, const TileProblem *q, int stages, int64_t tiles) {
  double products = product_cycles(w, &loop_mma[q->kind], stages, tiles, q->depth);
  double finish = FINISH + w->m * (double)w->n * q->work / (6 * w->groups);
  if (w->resident_blocks == 1) return (double)tiles * (products + finish);
  return products + finish + (double)(tiles - 1) * MAX(products, (products + finish) / 2);
}

// How many stages there is memory for; 0: too few.
static int stages_of(const WarpTile *w, const LowerTarget *t) {
  int64_t room =
      (t->tile_bytes + BLOCK_BYTES) / w->resident_blocks - BLOCK_BYTES - TILE_DEPTH_BYTES;
  int64_t stages = MIN(room / ((w->m + w->n) * TILE_DEPTH_BYTES), MOST_STAGES);
  return stages < 2 ? 0 : (int)stages;
}

LoopTileSchedule tile_for_warps(const TileProblem *q) {
  static const WarpTile tile[] = {
      {2, 1, 128, 256}, {2, 1, 128, 192}, {2, 1, 128, 128}, {2, 2, 128, 64}, {2, 2, 128, 32},
      {1, 2, 64, 192},  {1, 2, 64, 128},  {1, 2, 64, 96},   {1, 2, 64, 64},  {1, 2, 64, 32}};
  const LowerTarget *t = q->target;
  LoopTileSchedule best = {0};
  double least = 0;
  for (int64_t i = 0; i < ARRAY_LEN(tile); i++) {
    const WarpTile *w = &tile[i];
    int stages = stages_of(w, t);
    if (!stages || (q->form == TILE_WINDOW && w->n > MOST_WINDOW_COLS)) continue;
    int64_t tiles = ((q->rows + w->m - 1) / w->m) * ((q->cols + w->n - 1) / w->n) * q->parts;
    int64_t waves = (tiles + t->traits.sm_count - 1) / t->traits.sm_count;
    double cycles = tile_cycles(w, q, stages, waves);
    if (best.m && cycles >= least) continue;
    best = (LoopTileSchedule){
        .m = w->m, .n = w->n, .stages = stages, .warpgroups = w->groups, .cluster = 1};
    least = cycles;
  }
  return best;
}
