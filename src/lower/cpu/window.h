// window.h -- template window: what its two files share.
//
// A work item is a band of lines of one channel's plane.  Its input lines are staged in scratch
// with their padding written out, one line for each phase of the stride, so that every tap of every
// pixel is a contiguous load without a guard.
#ifndef TENON_LOWER_CPU_WINDOW_H
#define TENON_LOWER_CPU_WINDOW_H

#include "lower/element/epilogue.h"
#include "lower/template.h"

#define WINDOW_SCHEDULE(I, B, C, T)                                                                \
  I(T, rows, 0, 1, 16, 1, FREE, "lines of the result that are computed together")                  \
  I(T, band, 0, 1, 1 << 20, 1, FREE, "lines of the result per work item, a divisor of all")
SCHEDULE_STRUCT(Window, WINDOW_SCHEDULE);

typedef enum { WINDOW_CONV, WINDOW_MAXIMUM, WINDOW_AVERAGE } WindowOp;
enum { WINDOW_DEPTH, WINDOW_LINE, WINDOW_COLUMN, WINDOW_AXES };

typedef struct WindowAxis {
  int64_t kernel, stride, dilation, lo, hi, in, out;
} WindowAxis;

typedef struct WindowKernel {
  ElementBuilder e;
  EpilogueWalk walk;
  const Node *anchor, *image, *weight, *bias;  // weight: of a convolution; bias: may be NULL
  const Node *image_zero, *weight_zero;        // of bytes; may be NULL
  WindowOp op;
  bool count_padding;
  int nd;                        // spatial axes of the op
  WindowAxis axis[WINDOW_AXES];  // those that the op does not have are one tap wide
  int64_t multiplier;            // output channels of an input channel
  DType sum;
  WindowSchedule s;
  // layout of the staged lines: [depth tap][line][phase][pitch]
  int64_t phases, pitch, lines;
  int32_t staged, folded[2], counts;  // scratch; counts: taps along a line, -1: always the same
  // of the item, the tile and the pixels at hand
  Dim image_index, channel, plane, first_line;  // channel: of the input
  int64_t rows;                                 // lines of the tile
  Dim at[MAX_RANK];                             // of the result
  const LoopExpr *value;
} WindowKernel;

// From the first tap of an axis to behind the last.
static inline int64_t window_extent(const WindowAxis *a) {
  return (a->kernel - 1) * a->dilation + 1;
}
bool window_build_loops(WindowKernel *w);

#endif
