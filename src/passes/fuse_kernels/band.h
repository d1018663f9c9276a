// band.h -- chains of convolutions by bands of lines: a pointwise one that widens an image, a
// depthwise one, a pointwise one that narrows it again.  A kernel of several of them makes lines of
// the result band by band.
#ifndef TENON_PASSES_FUSE_KERNELS_BAND_H
#define TENON_PASSES_FUSE_KERNELS_BAND_H

#include "passes/passes.h"

enum { BAND_VECTOR = 16 };  // channels: no target has longer vectors

bool band_image(const Node *n);  // f32, of lines, pixels and channels that are known
// Convolutions of images, f32, channels last, with constant weights; of numbers of lines, pixels
// and channels that are known.
bool band_pointwise(const Node *n);  // every pixel by itself; in groups of whole vectors
bool band_depthwise(const Node *n);  // every channel by itself

// Of the image between: channels come in (0: they are wide), are wide, go out (0: they stay wide).
typedef struct Band {
  int64_t in, wide, out;
  int64_t width, height, out_width, out_height;
  int64_t taps, lines;    // of the depthwise convolution; lines that one of its lines is made from
  int64_t stride, above;  // above: lines before the first one of the image
  int64_t groups;         // of the projection
  int64_t images;
} Band;
void band_measure(Band *b, const Node *expand, const Node *deep, const Node *project);
// How much more is computed in one kernel than in kernels of their own, of all; infinite: no cache
// holds a band.
double band_excess(const Band *b);

#endif
