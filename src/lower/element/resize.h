// resize.h -- taps of a resized axis: which elements of the operand an element is made of, and
// their weights.
#ifndef TENON_LOWER_ELEMENT_RESIZE_H
#define TENON_LOWER_ELEMENT_RESIZE_H

#include "lower/element/element.h"

#include "eval/image.h"

enum { RESIZE_TAPS = 4 };

typedef struct ResizeAxis {
  int axis;
  Dim in, out;
  bool by_size, identity;
  double scale;  // where sizes are not given
  double roi[2];
  const LoopExpr *scale_x, *width;  // f64
  Dim place[RESIZE_TAPS];
  const LoopExpr *weight[RESIZE_TAPS];
} ResizeAxis;

typedef struct Resize {
  ElementBuilder *e;
  const Node *n;
  const resize_attrs *at;
  bool nearest;  // an element is one of the operand's: also linear, where positions are whole
  int ntaps;
  DType sum;  // of weights and sums
  int naxes;
  ResizeAxis axis[MAX_RANK];
  const LoopExpr *outside;  // bool; NULL: nowhere
  // A neighbour of weight 0 adds nothing, not NaN where it is infinite: an axis whose sizes only a
  // run knows may turn out to keep its size, and is then not interpolated at all.
  bool exact;
} Resize;

// Reads the axes; false where kernels do not resize so.
bool resize_begin(Resize *r, ElementBuilder *e, const Node *n);
// Finds the places and weights of an axis for an index of the result, with statements where the
// builder stands.  Nearest has one place and no weight.
void resize_taps(Resize *r, ResizeAxis *a, Dim index);
// Whether nearest takes every element k times, so that its place is the index divided by k.
bool resize_repeats(const Resize *r, const ResizeAxis *a, int64_t *k);
// The weight of one of four cubic taps; t: from the second to the position, f64.
const LoopExpr *resize_cubic(LoopKernel *k, double a, const LoopExpr *t, int tap);
// Whether tap k of every index i of an axis of constant sizes lies at stride * i + first + k, as
// where an image is halved.
bool resize_strided(Resize *r, const ResizeAxis *a, int64_t *stride, int64_t *first);
// What an element of the operand adds, by its weight.
const LoopExpr *resize_term(Resize *r, const LoopExpr *x, const LoopExpr *weight);

#endif
