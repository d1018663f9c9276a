// intexpr.h -- integer expressions over symbols: dimensions now, loop indices later.
//
// An expression is interned in its pool in canonical form: a sum of constant x product-of-atoms
// terms, where an atom is a symbol or an opaque floor division, remainder, minimum, maximum or
// broadcast.  Invariants: same pointer means equal (within one pool); the terms of a sum are sorted
// by degree, then by their atoms in ie_order, and no coefficient is 0; constants fold.  Arithmetic
// that leaves int64, or an expression past the limits of intexpr_impl.h, gives the pool's poison,
// which every operation passes on; ask `ie_is_poison` once, at the end.
//
// A divisor counts as not 0: floor(n*m/n) is m.  Where a size that divides may be 0, the code that
// asks for the division checks it at run time.  Likewise bcast(a, b) takes for granted that its
// sizes agree.
#ifndef TENON_BASE_INTEXPR_H
#define TENON_BASE_INTEXPR_H

#include "base/base.h"

typedef enum {
  IE_CONST,
  IE_SYM,
  IE_SUM,
  IE_DIV,
  IE_MOD,
  IE_MIN,
  IE_MAX,
  IE_BCAST,
  IE_POISON
} IntExprKind;
typedef struct IntExpr IntExpr;
typedef const IntExpr *Dim;

// One coefficient x atom x atom ... of a sum; natoms 0 is the constant term, always first.
typedef struct IntTerm {
  int64_t coef;
  int natoms;
  const Dim *atom;  // sorted by ie_order; an atom is never IE_CONST or IE_SUM
} IntTerm;

struct IntExpr {
  uint8_t kind;
  uint32_t id, hash;
  int64_t value;     // IE_CONST; IE_SYM: bytes of the name
  const char *name;  // IE_SYM
  int64_t lo, hi;    // range: INT64_MIN / INT64_MAX mean unbounded
  int nterms;        // every kind as a sum: 0 has no term, an atom is one term of itself
  const IntTerm *term;
  Dim a, b;             // IE_DIV, IE_MOD, IE_MIN, IE_MAX, IE_BCAST
  bool fresh;           // IE_SYM: made for a data-dependent size, not written by the model
  int32_t slot;         // IE_SYM: index into a binding array
  int32_t depth, size;  // nesting, and nodes when written out as a tree; both limited
};

// A symbol that stands for a number: whoever asks for it gets the number.
typedef struct IntFixed {
  Str name;
  int64_t value;
  bool used;
} IntFixed;

typedef struct IntPool {
  Arena *arena;
  struct IntPoolSlot *slot;
  int64_t n, cap;
  uint32_t next_id;
  int32_t nsyms;
  StrMap syms;
  Dim poison, zero, one;
  VEC(Dim) sym;  // by slot
  int64_t next_fresh;
  Dim *scratch;  // atoms of the product or quotient under construction
  int64_t scratch_cap;
  IntFixed *fixed;  // lives as long as the pool
  int64_t nfixed;
} IntPool;

void intpool_init(IntPool *p, Arena *a);
Dim ie_const(IntPool *p, int64_t v);
Dim ie_sym(IntPool *p, Str name, int64_t lo,
           int64_t hi);  // the same name gives the same symbol; first range stands
Dim ie_fresh(IntPool *p, const char *hint);  // a new symbol, range [0, inf), named hint_N
Dim ie_fresh_named(IntPool *p, Str name);    // the fresh symbol of that name: for reading it back
Dim ie_add(IntPool *p, Dim a, Dim b);
Dim ie_sum(IntPool *p, const Dim *v, int64_t n);  // of all of them; no partial sums are interned
Dim ie_sub(IntPool *p, Dim a, Dim b);
Dim ie_mul(IntPool *p, Dim a, Dim b);
Dim ie_div(IntPool *p, Dim a,
           Dim b);  // floor; exact polynomial division by a monomial cancels; /0 is poison
Dim ie_ceildiv(IntPool *p, Dim a, Dim b);
Dim ie_mod(IntPool *p, Dim a, Dim b);  // sign of the divisor (floor)
Dim ie_min(IntPool *p, Dim a, Dim b);
Dim ie_max(IntPool *p, Dim a, Dim b);
Dim ie_bcast(IntPool *p, Dim a, Dim b);  // a == 1 ? b : a, for sizes that must be equal or 1
static inline Dim ie_addc(IntPool *p, Dim a, int64_t c) { return ie_add(p, a, ie_const(p, c)); }
static inline Dim ie_mulc(IntPool *p, Dim a, int64_t c) { return ie_mul(p, a, ie_const(p, c)); }

static inline bool ie_is_const(Dim a) { return a->kind == IE_CONST; }
static inline bool ie_is(Dim a, int64_t v) { return a->kind == IE_CONST && a->value == v; }
static inline bool ie_is_poison(Dim a) { return a->kind == IE_POISON; }
typedef enum { NO, YES, UNKNOWN } Answer;
Answer ie_eq(IntPool *p, Dim a, Dim b);
Answer ie_lt(IntPool *p, Dim a, Dim b);
bool ie_has_fresh(Dim a);  // mentions a data-dependent symbol
// A total order that depends on what the expressions say and not on when they were made, so that
// text printed from two pools is the same.  0 only for equal expressions.
int ie_order(Dim a, Dim b);

// The expression with every symbol replaced by what `leaf` gives for it, in the pool `to`, which
// may be another.
typedef Dim IntLeaf(void *ctx, Dim sym);
Dim ie_map(IntPool *to, Dim a, IntLeaf *leaf, void *ctx);

// `bind[slot]` holds each symbol's value, `bound[slot]` whether it is known.  False when a symbol
// is unbound, a divisor is 0, or the result leaves int64.
bool ie_eval(Dim a, const int64_t *bind, const bool *bound, int32_t nbind, int64_t *out);

// Text: `2*seq + 1`, `floor(h/2)`, `mod(a, b)`, `min(a, b)`, `max(a, b)`, `bcast(a, b)`; a name
// that is not an identifier is quoted with single quotes; a fresh symbol is `?name_3`.  Printing
// and parsing round-trip to the same pointer.
void ie_print(StrBuf *b, Dim a);
// Parses at *at, advancing it past the expression, or to where it is malformed (then NULL).  A
// symbol not seen before gets the range [0, inf).  Depth and size are limited; arithmetic may still
// give poison.
Dim ie_parse(IntPool *p, const char **at, const char *end);

#endif
