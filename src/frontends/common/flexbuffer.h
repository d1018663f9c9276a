// flexbuffer.h -- a checked view of a FlexBuffer whose root is a map: the options of custom
// operators.
//
// A FlexBuffer has no schema: every value has a byte with its type and width.  All offsets lead
// backwards.  Each is checked when it is followed, so that nothing is read outside of the bytes;
// what is damaged is no map, or a key that is not there.
#ifndef TENON_FRONTENDS_COMMON_FLEXBUFFER_H
#define TENON_FRONTENDS_COMMON_FLEXBUFFER_H

#include "base/base.h"

typedef struct FlexMap {
  Str bytes;
  int64_t n;             // entries
  int64_t keys, values;  // where their elements begin
  int key_size, size;    // bytes of an element: 1, 2, 4, 8
} FlexMap;

bool flex_map(Str bytes, FlexMap *out);  // false: no map
// The number of a key: an integer, a float or a truth value.  False: there is none.
bool flex_number(const FlexMap *m, const char *key, double *out);

#endif
