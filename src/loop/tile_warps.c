// tile_warps.c -- how the warps of a thread block share an MMA tile with mma.sync (tile.h).
#include "loop/tile.h"

enum { STEP_ROWS = 16, STEP_COLS = 16, WARPS_OF_WARPGROUP = 4, WIDE_COLS = 128 };
enum {
  MOST_SUMS = 128,       // registers of a thread that sums may fill
  OTHER_REGISTERS = 44,  // beside sums and operands: addresses, copies, the epilogue
  REGISTERS = 1 << 16,   // of a multiprocessor
};

// Whether so many elements are whole pieces of 16 bytes, whatever the sizes.
static bool is_whole(Dim d, DType t) {
  for (int i = 0; i < d->nterms; i++)
    if (d->term[i].coef * (dtype_bits(t) / 8) % 16) return false;
  return true;
}

static bool has_whole_pieces(const LoopTile *t) {
  const LoopWindow *w = &t->a.window;
  int64_t piece = 16 / (dtype_bits(t->a.dtype) / 8);
  if (!is_whole(t->b.stride, t->b.dtype) || !is_whole(t->depth, t->b.dtype)) return false;
  if (t->a.first && !is_whole(t->a.first, t->a.dtype)) return false;
  if (t->b.first && !is_whole(t->b.first, t->b.dtype)) return false;
  if (t->a.form == TILE_MATRIX) return is_whole(t->a.stride, t->a.dtype);
  return w->channels % piece == 0 && w->pixel % piece == 0 && w->line % piece == 0;
}

// Parts that are about square read the least of shared memory.
static void divide(const LoopTile *t, LoopTileWarps *w) {
  w->down = t->s.m / (t->s.n >= WIDE_COLS ? TILE_ROWS : TILE_ROWS / 2);
  w->across = t->s.warpgroups * WARPS_OF_WARPGROUP / w->down;
  w->rows = t->s.m / w->down;
  w->cols = t->s.n / w->across;
  w->threads = t->s.warpgroups * WARPS_OF_WARPGROUP * 32;
  w->bytes = t->s.stages * (t->s.m + t->s.n) * TILE_DEPTH_BYTES + TILE_DEPTH_BYTES;
  int operands = 2 * (w->rows / STEP_ROWS + w->cols / STEP_COLS) * 4;
  int registers = w->rows * w->cols / 32 + operands + OTHER_REGISTERS;
  w->resident_blocks = 2 * w->threads * registers <= REGISTERS ? 2 : 1;
}

bool loop_tile_warps(const LoopTile *t, LoopTileWarps *out, const char **why) {
  *why = "warps multiply rows of matrices or windows, of 16 bits, tf32 or int8";
  bool numbers = loop_mma[t->kind].warp_rate > 0;
  if (t->is_attention || t->a.form == TILE_VALUE || !numbers) return false;
  *why = "warps of one block have one tile at a time";
  if (t->s.cluster > 1 || t->s.pingpong) return false;
  *why = "warps do not split the depth";
  if (t->s.m < t->s.warpgroups * TILE_ROWS) return false;
  *why = "a warp's columns are whole ones of 16";
  if (t->s.n >= WIDE_COLS && t->s.n % (WARPS_OF_WARPGROUP * STEP_COLS)) return false;
  divide(t, out);
  *why = "a warp's sums are more than its threads have registers for";
  if (out->rows * out->cols / 32 > MOST_SUMS) return false;
  *why = "mma.sync operands are in runs of 16 bytes";
  return has_whole_pieces(t);
}
