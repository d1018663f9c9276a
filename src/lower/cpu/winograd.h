// winograd.h -- what the files of the Winograd template share.
//
// A convolution of 3x3 taps in steps of one pixel.  Tiles of m x m pixels of the result are made
// from (m + 2) x (m + 2) pixels of the input, which are transformed along both axes (V = B' d B),
// multiplied point by point by weights that were transformed when the program was made (U = G g
// G'), summed over the channels, and transformed back (A' (sums) A).  That takes (m + 2)^2 products
// for m^2 pixels instead of 9 m^2: 2.25 times fewer for m = 2, 4 times fewer for m = 4.
//
// The transforms are polynomials taken at m + 1 numbers and at infinity: 0, 1, -1 for m = 2, and 0,
// +-5/8, +-3/2 for m = 4, whose squares, cubes and products are exact in f32 and whose errors are
// the smallest of all that were tried (docs/codegen.md).
#ifndef TENON_LOWER_CPU_WINOGRAD_H
#define TENON_LOWER_CPU_WINOGRAD_H

#include "lower/contract/contract.h"

enum { WINOGRAD_TAPS = 3, WINOGRAD_POINTS = 6 };  // of an axis; points: at most
#define WINOGRAD_A 0.625                          // the points of m = 4
#define WINOGRAD_B 1.5

// How it is done.  The size of a tile says which products there are; inputs are added in order,
// whatever the rest.
#define WINOGRAD_SCHEDULE(I, B, C, T)                                                              \
  I(T, tile, 0, 2, 4, 0, ORDER, "pixels of a tile along an axis: F(2x2, 3x3) or F(4x4, 3x3)")      \
  I(T, tiles, 0, 1, 64, 1, FREE, "tiles of a register tile")                                       \
  I(T, cols, 0, 1, 256, 1, FREE, "output channels of a register tile, and of a panel of weights")  \
  I(T, lanes, 0, 1, 64, 0, FREE, "contiguous input channels of the transformed image")             \
  I(T, item_rows, 0, 1, 1 << 16, 1, FREE, "rows of tiles of a work item")                          \
  I(T, item_groups, 1, 1, 1 << 16, 1, FREE,                                                        \
    "work items that divide the output channels of a tile; each repeats the transform")            \
  I(T, block_rows, 1, 1, 1 << 10, 1, FREE, "rows of tiles that are transformed together")          \
  I(T, block_cols, 0, 1, 1 << 12, 1, FREE, "tiles of a row that are transformed together")         \
  I(T, prefetch, 0, 0, 1 << 16, 1, FREE, "prefetch distance of packed weights in bytes")           \
  B(T, spill, false, FREE, "store pixels to scratch before the epilogue")
SCHEDULE_STRUCT(Winograd, WINOGRAD_SCHEDULE);

typedef struct Winograd {
  Contraction *c;
  ElementBuilder *e;
  Epilogue *finish;
  WinogradSchedule s;
  int64_t inputs, outputs;     // channels
  int64_t panels;              // runs of nr outputs
  Dim images, lines, columns;  // rows of tiles, and tiles of a row
  int64_t counted;             // images, as the choice counts them
  int32_t packed;              // argument: transformed weights, [panel][point][input][nr]
  int32_t v;         // transformed pixels of a block: [point][inputs / lanes][tile][lanes]
  int32_t products;  // of a block and a panel: [point][tile][nr]
  int32_t acc,
      pixels;  // registers: sums; a tile of the result, which is scratch where it is spilled
  int64_t v_point, p_point;  // distance of two points
  Dim image, group, block;   // of the item
} Winograd;

// False: the direct form is no slower, and nobody asks for this one.
bool winograd_choose(Winograd *w, const LowerTarget *t, bool expensive, const ScheduleGiven *given);
void winograd_derive(Winograd *w);  // what follows from the schedule
bool winograd_legal(const Winograd *w, const WinogradSchedule *s, bool wide, const char **why);
bool winograd_pack(const Winograd *w, PackSpec *out);
bool winograd_emit(Winograd *w);

#endif
