// bytes.h -- growing bytes that own their memory, for the scratch of one encoding.
//
// Memory comes from mem_alloc and grows by doubling.  A refusal raises ENOMEM in the innermost
// Trap, whose owner frees the buffers.
#ifndef TENON_TEXT_BYTES_H
#define TENON_TEXT_BYTES_H

#include "base/base.h"

typedef struct Bytes {
  uint8_t *p;
  int64_t n, cap;
} Bytes;
void bytes_grow(Bytes *b, int64_t more);  // room for so many more
void bytes_free(Bytes *b);
static inline void bytes_room(Bytes *b, int64_t more) {
  if (__builtin_expect(b->cap - b->n < more, 0)) bytes_grow(b, more);
}
static inline void bytes_put(Bytes *b, const void *p, int64_t n) {
  if (!n) return;
  bytes_room(b, n);
  memcpy(b->p + b->n, p, (size_t)n);
  b->n += n;
}
static inline void bytes_put_str(Bytes *b, Str s) { bytes_put(b, s.p, s.n); }
void bytes_put_char(Bytes *b, uint32_t c);  // as UTF-8
static inline Str bytes_str(const Bytes *b) { return (Str){(const char *)b->p, b->n}; }

#endif
