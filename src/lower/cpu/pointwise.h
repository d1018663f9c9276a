// pointwise.h -- what the templates of elementwise kernels share.
#ifndef TENON_LOWER_CPU_POINTWISE_H
#define TENON_LOWER_CPU_POINTWISE_H

#include "lower/element/element.h"

// Whether all results and operands lie alike, so that an element's number is its place in each of
// them.
bool pointwise_is_flat(const ElementBuilder *e);

#endif
