// sample.h -- elements read at positions that data give: taps of grid_sample and roi_align.
//
// A point of the result is a weighted sum of elements of one plane.  Which elements and which
// weights does not depend on the channel, so templates may find them once for all channels.
#ifndef TENON_LOWER_ELEMENT_SAMPLE_H
#define TENON_LOWER_ELEMENT_SAMPLE_H

#include "lower/element/element.h"

enum { SAMPLE_TAPS = 64, SAMPLE_AXES = 4 };

typedef struct SampleTap {
  // i64: 1 + the element's number in its plane; 0: there is none, it is 0.  Without the 1 where
  // every tap is inside.
  const LoopExpr *place;
  const LoopExpr *weight;  // in the dtype of the sum; NULL: 1
} SampleTap;

typedef struct Sampler {
  ElementBuilder *e;
  const Node *n;
  int ntaps;
  bool weighted;
  bool inside;  // no tap lies outside the plane
  DType sum;
  double count;           // the sum is divided by it
  int nd;                 // spatial axes
  Dim size[SAMPLE_AXES];  // of the planes
  Dim volume;             // their product
} Sampler;

// False where kernels do not sample so.
bool sample_begin(Sampler *s, ElementBuilder *e, const Node *n);
// The image that points of the result's first index lie in; NULL: it cannot be told.
Dim sample_image(Sampler *s, Dim first);
// Finds the taps of a point, its index but for the channel; false: an operand has no expression.
bool sample_taps(Sampler *s, const Dim *point, SampleTap *out);
// The sum over the taps in a plane of an image; `tap` gives place and weight of each.
const LoopExpr *sample_sum(Sampler *s, Dim image, Dim channel, const SampleTap *tap);

#endif
