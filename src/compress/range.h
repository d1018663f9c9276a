// range.h -- from a histogram to the scale and zero point of a quantised tensor.
#ifndef TENON_COMPRESS_RANGE_H
#define TENON_COMPRESS_RANGE_H

#include "compress/histogram.h"

typedef enum {
  RANGE_MINMAX,
  RANGE_PERCENTILE,
  RANGE_ENTROPY,
  RANGE_MSE,
  RANGE_METHODS
} RangeMethod;
extern const char *const range_method_name[RANGE_METHODS];

// Integers in [0, 255]: x is about scale * (q - zero).
typedef struct QuantParams {
  float scale;
  int32_t zero;
} QuantParams;

// The interval that the method keeps; lo <= 0 <= hi.
void range_of(const Histogram *h, RangeMethod method, double *lo, double *hi);
// Zero is represented exactly.  The scale is a normal f32.
QuantParams range_params(double lo, double hi);
// Mean square error of quantising values by these parameters, from the histogram.
double range_error(const Histogram *h, QuantParams p);

#endif
