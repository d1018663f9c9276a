// flexbuffer.c -- a checked view of a FlexBuffer (flexbuffer.h).
//
// The last byte is the width of the root, the one before it the root's type.  A vector is preceded
// by its length, and followed, unless its elements are of one type, by a byte a element: the type,
// and in its low two bits the width of what an offset leads to.  A map is a vector of values that
// is preceded by an offset to the vector of its keys, and by the width of that.
#include "frontends/common/flexbuffer.h"

#include <math.h>
#include <string.h>

enum {
  FLEX_INT = 1,
  FLEX_UINT = 2,
  FLEX_FLOAT = 3,
  FLEX_INDIRECT_INT = 6,
  FLEX_INDIRECT_UINT = 7,
  FLEX_INDIRECT_FLOAT = 8,
  FLEX_MAP = 9,
  FLEX_BOOL = 26,
};

static bool is_size(uint64_t size) { return size == 1 || size == 2 || size == 4 || size == 8; }

static bool inside(Str b, int64_t at, int64_t bytes) {
  return at >= 0 && bytes >= 0 && at <= b.n && bytes <= b.n - at;
}

// Little-endian; the caller has checked the place.
static uint64_t raw(Str b, int64_t at, int size) {
  uint64_t v = 0;
  for (int i = 0; i < size; i++) v |= (uint64_t)(uint8_t)b.p[at + i] << 8 * i;
  return v;
}

// Where an offset that lies at `at` leads to; -1: outside of the bytes.
static int64_t follow(Str b, int64_t at, int size) {
  if (!inside(b, at, size)) return -1;
  uint64_t back = raw(b, at, size);
  return back > (uint64_t)at ? -1 : at - (int64_t)back;
}

bool flex_map(Str bytes, FlexMap *out) {
  *out = (FlexMap){.bytes = bytes};
  if (bytes.n < 3) return false;
  uint64_t root_size = raw(bytes, bytes.n - 1, 1), type = raw(bytes, bytes.n - 2, 1);
  if (!is_size(root_size) || type >> 2 != FLEX_MAP) return false;
  int64_t at = follow(bytes, bytes.n - 2 - (int64_t)root_size, (int)root_size);
  int size = out->size = 1 << (type & 3);
  if (at < 0 || !inside(bytes, at - 3 * size, 3 * size)) return false;
  uint64_t n = raw(bytes, at - size, size), key_size = raw(bytes, at - 2 * size, size);
  out->values = at;
  out->keys = follow(bytes, at - 3 * size, size);
  if (!is_size(key_size) || n > (uint64_t)bytes.n || out->keys < 0) return false;
  out->key_size = (int)key_size;
  out->n = (int64_t)n;
  // Values and then their types; keys and, before them, their number.
  if (!inside(bytes, at, out->n * (size + 1)) ||
      !inside(bytes, out->keys - out->key_size, (out->n + 1) * out->key_size))
    return false;
  return raw(bytes, out->keys - out->key_size, out->key_size) == n;
}

static double number_at(Str b, int64_t at, int size, int kind) {
  uint64_t v = raw(b, at, size);
  if (kind == FLEX_UINT || kind == FLEX_BOOL) return (double)v;
  if (kind == FLEX_FLOAT) {
    float f;
    double d;
    uint32_t low = (uint32_t)v;
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &v, sizeof d);
    return size == 4 ? f : size == 8 ? d : NAN;
  }
  int unused = 64 - 8 * size;
  return (double)((int64_t)(v << unused) >> unused);
}

// The number of entry i; false: it is something else.
static bool entry_number(const FlexMap *m, int64_t i, double *out) {
  int type = (int)raw(m->bytes, m->values + m->n * m->size + i, 1), kind = type >> 2;
  int64_t at = m->values + i * m->size;
  int size = m->size;
  if (kind >= FLEX_INDIRECT_INT && kind <= FLEX_INDIRECT_FLOAT) {
    at = follow(m->bytes, at, size);
    size = 1 << (type & 3);
    kind -= FLEX_INDIRECT_INT - FLEX_INT;
    if (at < 0 || !inside(m->bytes, at, size)) return false;
  }
  if (kind != FLEX_INT && kind != FLEX_UINT && kind != FLEX_FLOAT && kind != FLEX_BOOL)
    return false;
  *out = number_at(m->bytes, at, size, kind);
  return !isnan(*out);
}

bool flex_number(const FlexMap *m, const char *key, double *out) {
  int64_t length = (int64_t)strlen(key) + 1;  // with its 0
  for (int64_t i = 0; i < m->n; i++) {
    int64_t at = follow(m->bytes, m->keys + i * m->key_size, m->key_size);
    if (at >= 0 && inside(m->bytes, at, length) && !memcmp(m->bytes.p + at, key, (size_t)length))
      return entry_number(m, i, out);
  }
  return false;
}
