// move.h -- copying elements between dense tensors, by strides or by index maps.
//
// Every movement and index op is one of three copies: by strides (transpose, expand, slice), by one
// map per axis (pad, tile, crop), or in blocks (concat, gather).  Elements are moved as they are,
// so any dtype works: strings, complex and packed sub-byte types too.  Callers have checked every
// offset.
#ifndef TENON_EVAL_MOVE_H
#define TENON_EVAL_MOVE_H

#include "eval/eval.h"

// Fills all of dst, element i from src[base + sum over axes of index x stride]; strides count
// elements and may be 0 or negative.
void move_strided(Run *r, Value *dst, const void *src, int64_t base, const int64_t *strides);

// Fills all of dst: map[axis][index] is what that index adds to the source position, in elements,
// or -1 for an element that is not there and takes the value of `fill` (one element; NULL: stays
// zero).
void move_mapped(Run *r, Value *dst, const void *src, int64_t *const *map, const void *fill);

// dst = n blocks of `block` elements, block i from src at block number from[i].
void move_blocks(Run *r, Value *dst, const void *src, int64_t n, int64_t block,
                 const int64_t *from);

// n elements at dst[at...], each a copy of the one element `fill`.
void move_fill(DType t, void *dst, int64_t at, int64_t n, const void *fill);

// A pool that may split a tensor of this dtype anywhere: NULL for sub-byte types, whose neighbours
// share a byte.
static inline Pool *move_pool(const Run *r, DType t) { return elem_bytes(t) ? r->pool : NULL; }

// Product of dims [from, to): the tensor exists, so that it fits.
static inline int64_t dims_product(const int64_t *dims, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++) n *= dims[i];
  return n;
}

#endif
