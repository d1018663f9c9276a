// prove.h -- proofs about index expressions: e >= 0 for all values of the symbols in scope.
#ifndef TENON_LOOP_PROVE_H
#define TENON_LOOP_PROVE_H

#include "base/intexpr.h"

// A symbol in scope, later ones inside earlier ones.  It lies in [0, extent), and code runs only
// where that is not empty; a dim (extent NULL) lies in its own range.  A guard is also equal to
// `value`.
typedef struct ProverSym {
  Dim sym, extent, value;
  bool positive;  // a dim without which there would be no work items
} ProverSym;
// What was found out before, by the place of an expression's address: goals of one search, and what
// is positive in one scope.
enum { PROVER_MEMO = 256 };
typedef struct ProverMemo {
  Dim e;
  int64_t when;  // the search or the scope that it holds for
  bool yes;
} ProverMemo;
typedef struct Prover {
  IntPool *pool;
  Arena *arena;
  VEC(ProverSym) sym;
  VEC(Dim) fact;          // known to be at least 0 wherever their symbols are in scope
  IntMap order;           // slot -> position + 1
  int fuel, goal_fuel;    // steps left of this attempt, and of all at this goal
  int64_t search, scope;  // their numbers, from 1
  ProverMemo goal[PROVER_MEMO], positive[PROVER_MEMO];
  bool remainders_alone;  // remainders are bounded by themselves
  bool once;              // set: a proof that is not found at the first try is not needed
} Prover;

void prover_init(Prover *p, IntPool *pool, Arena *a);
void prover_push(Prover *p, Dim sym, Dim extent, Dim value);
// All code runs in a loop of this extent: dims that would make it empty by being 0 are at least 1.
void prover_all_in(Prover *p, Dim extent);
void prover_pop(Prover *p, int64_t n);          // back to n symbols
int64_t prover_find(const Prover *p, Dim sym);  // position, or -1: not in scope
// True only where it holds for all values; false says nothing.
bool prove_ge0(Prover *p, Dim e);
bool prove_lt(Prover *p, Dim a, Dim b);
bool prover_positive(Prover *p, Dim e);  // e >= 1, by its form and the extents in scope

// ---- expressions ----
bool dim_has(Dim e, Dim sym);
// Whether e >= 1 follows from extent >= 1: e is a factor of it, and e or the other factor is never
// negative.
bool dim_forced(IntPool *pool, Dim e, Dim extent);
Dim dim_quotient(IntPool *pool, Dim e, Dim d);  // q with q*d = e whatever d is; NULL: none is seen
// e = c*atom + r, the atom neither in c nor a factor of r's terms (it may stand within other atoms
// of r).
bool dim_split(IntPool *pool, Dim e, Dim atom, Dim *c, Dim *r);
Dim dim_term(IntPool *pool, const IntTerm *t,
             int without);                      // one term, less the factor at `without`
bool dim_divides(IntPool *pool, Dim d, Dim e);  // e is a multiple of d, by their form

#endif
