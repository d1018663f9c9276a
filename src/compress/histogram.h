// histogram.h -- the values of a tensor as integer counts in bins whose edges are exact.
//
// Bin k holds the values of [k - HALF, k - HALF + 1) times 2^exponent.  The exponent is the least
// with which all values fit, so it follows from the largest magnitude alone.  A larger one joins
// bins in pairs, without a rounding: counts do not depend on the order of the values, on batches or
// threads.  Of a large array runs spread over it are counted; its ends are those of all values.
#ifndef TENON_COMPRESS_HISTOGRAM_H
#define TENON_COMPRESS_HISTOGRAM_H

#include "base/num.h"

enum { HISTOGRAM_BINS = 2048, HISTOGRAM_HALF = HISTOGRAM_BINS / 2 };
enum { HISTOGRAM_COUNTED = 1 << 14 };  // values of an array that are counted at most
enum { HISTOGRAM_LEAST = -160, HISTOGRAM_MOST = 119 };  // exponents that f32 needs

typedef struct Histogram {
  int exponent;
  int64_t total, zeros;  // zeros: exactly 0, which are not in `count`
  double min, max;       // of all values; 0 where there are none
  int64_t count[HISTOGRAM_BINS];
} Histogram;

void histogram_init(Histogram *h);
// Adds finite values; false: one is not, and nothing was added.
bool histogram_add(Histogram *h, const float *x, int64_t n);
void histogram_merge(Histogram *h, const Histogram *from);
// What a file says must be a histogram that values could have made; NULL: it is, else why not.
const char *histogram_wrong(const Histogram *h);
static inline double histogram_width(const Histogram *h) { return __builtin_ldexp(1, h->exponent); }

#endif
