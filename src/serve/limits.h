// limits.h -- the limits of limits.def as constants: SERVE_HEAD_BYTES and so on, each in its unit.
#ifndef TENON_SERVE_LIMITS_H
#define TENON_SERVE_LIMITS_H

enum {
#define SERVE_LIMIT(name, least, value, most, unit, what, beyond) SERVE_##name = (value),
#define SERVE_FIELD(name, kind, least, most, what)
#include "serve/limits.def"
#undef SERVE_LIMIT
#undef SERVE_FIELD
};

#endif
