// sha256.h -- SHA-256 (FIPS 180-4): by the CPU's instructions where it has them, else in C.
//
// For keys that a model must not be able to share with another on purpose.
#ifndef TENON_BASE_SHA256_H
#define TENON_BASE_SHA256_H

#include "base/platform.h"

enum { SHA256_BYTES = 32, SHA256_BLOCK = 64 };

typedef struct Sha256 {
  uint32_t h[8];
  uint64_t n;                   // bytes so far
  uint8_t block[SHA256_BLOCK];  // the last ones, not yet taken
  bool portable;                // without instructions, whatever the CPU has
} Sha256;

void sha256_init(Sha256 *s);
void sha256_init_portable(Sha256 *s);  // for tests, and for CPUs without instructions
void sha256_put(Sha256 *s, const void *p, int64_t n);
void sha256_end(Sha256 *s, uint8_t out[SHA256_BYTES]);

// The hashes of pieces of memory, by the threads of the pool, which may be NULL.
typedef struct Sha256Piece {
  const void *p;
  int64_t n;
  uint8_t hash[SHA256_BYTES];
} Sha256Piece;
void sha256_pieces(Sha256Piece *piece, int64_t n, Pool *pool);

#endif
