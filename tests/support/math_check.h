// math_check.h -- how far generated math functions are off.
#ifndef TENON_TESTS_SUPPORT_MATH_CHECK_H
#define TENON_TESTS_SUPPORT_MATH_CHECK_H

#include "codegen.h"

typedef struct MathRow {
  const char *name;
  double (*f32)(double);            // f32's reference
  long double (*f64)(long double);  // f64's
} MathRow;
extern const MathRow math_rows[];
extern const int math_nrows;

typedef struct MathWorst {
  double ulps, x, y, got;  // units in the last place; NaN or infinity missed: infinite
  int64_t tried;
} MathWorst;
// f32: operands with bit patterns first, first + step, ...; f64: random ones, of all magnitudes,
// `count` of them.
MathWorst math_check_f32(const MathRow *r, const Machine *m, uint32_t first, uint32_t step,
                         int64_t count);
MathWorst math_check_f64(const MathRow *r, const Machine *m, int64_t count, uint64_t seed);
MathWorst math_check_pow(DType t, const Machine *m, int64_t count, uint64_t seed);

#endif
