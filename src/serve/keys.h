// keys.h -- API keys from a file, compared in a time that does not depend on them.
#ifndef TENON_SERVE_KEYS_H
#define TENON_SERVE_KEYS_H

#include "base/base.h"
#include "base/sha256.h"

typedef struct Keys {
  int64_t n;
  uint8_t (*digest)[32];
} Keys;

// One key a line; empty lines and those that begin with # are left out.
MUST_USE tenon_status keys_read(Arena *a, const char *path, Diag *d, Keys *out);
// The number of the key in the header Authorization, `Bearer KEY`, from 1 on; 0: it fits none.
// Without keys anything fits, and what is there is told apart by a hash.
uint32_t keys_client(const Keys *k, Str authorization);

#endif
