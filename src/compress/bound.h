// bound.h -- confidence bounds on one side.
#ifndef TENON_COMPRESS_BOUND_H
#define TENON_COMPRESS_BOUND_H

#include "base/base.h"

// Clopper and Pearson's: the least rate with which `hits` or more of n have a probability of at
// least `miss`.
double bound_rate_least(int64_t hits, int64_t n, double miss);
// The probability that at most `most` of n come, at this rate.
double bound_most(int64_t most, int64_t n, double rate);
// Of a mean, by a studentised bootstrap of 2,000 draws from the seed: above it (`upper`) or below
// it.
double bound_mean(const double *v, int64_t n, double miss, bool upper, uint64_t seed, Arena *a);

#endif
