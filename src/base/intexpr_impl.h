// intexpr_impl.h -- what the files of intexpr share: limits, polynomials under construction,
// interning.
//
// The limits bound what hostile text can cost: evaluating, printing or comparing an expression
// walks it as a tree, so its tree size is limited where it is made and nothing later needs a
// counter of its own.
#ifndef TENON_BASE_INTEXPR_IMPL_H
#define TENON_BASE_INTEXPR_IMPL_H

#include "base/intexpr.h"

enum {
  IE_MAX_TERMS = LIMIT_DIM_TERMS,  // terms of a sum
  IE_MAX_ATOMS = 32,               // factors of a term
  IE_MAX_PAIRS = 4096,             // term pairs of one multiplication
  IE_MAX_LEAVES = 64,              // operands of one flattened min, max or bcast
  IE_MAX_DEPTH =
      LIMIT_DIM_DEPTH,  // nesting; the parser's too, so that what can be made can be read back
  IE_MAX_SIZE = LIMIT_DIM_NODES,  // nodes as a tree; a name counts a node for each 16 bytes
  IE_MAX_NAME = LIMIT_DIM_NAME,   // bytes of a symbol's name
};

// A sum being built.  Terms borrow their atoms from interned expressions or from the pool's
// scratch.
typedef struct Poly {
  int n;
  IntTerm t[IE_MAX_TERMS];
} Poly;

static inline int64_t floor_div(int64_t a, int64_t b) {  // b > 0
  int64_t q = a / b;
  return q - (a % b < 0);
}
static inline int64_t floor_mod(int64_t a, int64_t b) {  // b > 0
  int64_t r = a % b;
  return r < 0 ? r + b : r;
}

// ---- intexpr.c ----
bool poly_push(Poly *out, IntTerm t);                   // in order; false when full
bool poly_add(Poly *out, Dim a, int64_t scale, Dim b);  // a + scale*b; false: poison
int mono_order(const IntTerm *a, const IntTerm *b);     // by degree, then atoms
Dim *intpool_scratch(IntPool *p, int64_t n);            // room for n atoms, until the next call
Dim intern_poly(IntPool *p, const Poly *poly);
Dim intern_pair(IntPool *p, IntExprKind kind, Dim a,
                Dim b);  // as given, no folding but to its range

// ---- intexpr_range.c ----
void range_fix(int64_t *lo, int64_t *hi);  // keeps the two infinities apart
void range_poly(const IntTerm *t, int n, int64_t *lo, int64_t *hi);
void range_pair(IntExprKind kind, Dim a, Dim b, int64_t *lo, int64_t *hi);
void range_diff(Dim a, Dim b, int64_t *lo, int64_t *hi);          // of a - b, neither poison
bool floor_divide(int64_t a, int64_t b, bool mod, int64_t *out);  // false: b is 0, or overflow

#endif
