// factor.h -- may a rule make one constant of several?
//
// x * b * c is x * (b c) within rounding only where b c is an ordinary number: where it overflows,
// 0 becomes NaN, and where it is below the normal range, digits are lost or all of it is flushed to
// 0. Every rule that merges constants, or takes the reciprocal of one, asks here.
#ifndef TENON_RULES_FACTOR_H
#define TENON_RULES_FACTOR_H

#include "ir/rule.h"

// Finite, and not below the normal range of the data type: neither 0 nor subnormal.
bool is_normal_in(DType t, double x);
// Finite in the data type.
bool is_finite_in(DType t, double x);

// The elements of a float constant, in the graph's scratch arena; NULL when they cannot be read.
const double *const_numbers(Graph *g, const Node *n, int64_t *count);

// Whether b c, b + c, b - c or 1 / b of float constants may replace them, for each pair of elements
// that broadcasting makes.  An operand that is 0 or not finite decides the result in either form.
// Integers wrap alike in any order.
bool product_fits(Graph *g, const Node *b, const Node *c);
bool sum_fits(Graph *g, const Node *b, const Node *c);
bool difference_fits(Graph *g, const Node *b, const Node *c);
bool reciprocal_fits(Graph *g, const Node *b);

// The largest |element| of a float constant, infinite when they cannot be read.
double const_peak(Graph *g, const Node *n);
// Whether weights may be multiplied by s[i], one number for each index along `axis`, or by s[0].
// In a sum small terms may vanish: the largest weight of each index must not.
bool weights_fit(Graph *g, const Node *w, int axis, const double *s, int64_t n);

#endif
