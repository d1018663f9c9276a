// winograd.h -- what the files of the Winograd template share.
//
// A convolution of 3x3 taps in steps of one pixel.  Tiles of m x m pixels of the result are made from (m + 2) x (m + 2) pixels
// of the input, which are transformed along both axes (V = B' d B), multiplied point by point by weights that were transformed when
// the program was made (U = G g G'), summed over the channels, and transformed back (A' (sums) A).  That takes (m + 2)^2
// products for m^2 pixels instead of 9 m^2: 2.25 times fewer for m = 2, 4 times fewer for m = 4.
//
// The transforms are polynomials taken at m + 1 numbers and at infinity: 0, 1, -1 for m = 2, and 0, +-5/8, +-3/2 for m = 4,
// whose squares, cubes and products are exact in f32 and whose errors are the smallest of all that were tried (docs/codegen.md).
#ifndef TENON_LOWER_WINOGRAD_H
#define TENON_LOWER_WINOGRAD_H

#include "lower/contract.h"

enum { WINOGRAD_TAPS = 3, WINOGRAD_POINTS = 6 };  // of an axis; points: at most
#define WINOGRAD_A 0.625                          // the points of m = 4
#define WINOGRAD_B 1.5

// How it is done.  Chosen by shapes and the target alone; printed as a kernel's name, and read back.
typedef struct WinogradSchedule {
  int64_t m;       // pixels of a tile along an axis: 2 or 4
  int64_t mr, nr;  // held in registers: tiles, outputs
  int64_t rows;    // rows of tiles of a work item
  int64_t
      groups;  // work items that share the outputs of the same tiles, each transforming these for itself
  int64_t high, wide;  // tiles that are transformed together: rows of them, and tiles of a row
  int64_t
      ahead;  // bytes of the weights by which they are fetched before they are read; 0: they are not
  bool spill;  // results of a tile go through scratch to what is done with them
} WinogradSchedule;
const char *winograd_schedule_print(Arena *a, const WinogradSchedule *s);
bool winograd_schedule_parse(const char *text, WinogradSchedule *out);

typedef struct Winograd {
  Contraction *c;
  Elem *e;
  Finish *finish;
  WinogradSchedule s;
  int64_t lanes;               // of a vector: channels lie in runs of so many
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

// False: the direct form is no slower.
bool winograd_choose(Winograd *w, const LowerTarget *t, bool heavy);
bool winograd_pack(const Winograd *w, PackSpec *out);
bool winograd_emit(Winograd *w);

#endif
