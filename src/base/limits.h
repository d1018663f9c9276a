// limits.h -- the limits of limits.def as constants: LIMIT_RANK and so on, each in the unit of its
// row.
#ifndef TENON_BASE_LIMITS_H
#define TENON_BASE_LIMITS_H

enum {
#define LIMIT(name, value, unit, of, what, beyond) LIMIT_##name = (value),
#include "base/limits.def"
#undef LIMIT
};

#endif
