// make.h -- what the files that make random graphs share.
//
// An Item is a node of the graph together with its value in each of the runs, so that a node that
// would fail when run is never kept.  A Scope is a body under construction: the main one, or one of
// control flow, whose parameters have the values of its first round.
#ifndef TENON_TOOLS_GRAPHFUZZ_MAKE_H
#define TENON_TOOLS_GRAPHFUZZ_MAKE_H

#include "graphfuzz/graphfuzz.h"

typedef struct Item {
  Node *n;
  Value *at[FUZZ_SIZES];
} Item;
typedef VEC(Item) Items;

typedef struct FuzzScope {
  struct FuzzScope *outer;
  Items pool;     // values to draw from, most recent last
  Items param;    // in order; of a body: its own values, then the captured ones
  Items capture;  // the outer item of each captured parameter
} FuzzScope;

typedef struct Maker {
  Graph *g;
  uint64_t rng;
  FuzzScope *scope;
  Run run[FUZZ_SIZES];
  int nsizes;  // 1 where the graph has no symbols
  Dim sym[2];
  Item carrier[2];  // an input with the symbol as a size
  int nsyms, depth;
  bool tame;  // ordinary numbers only, so that bounds are found for what fast_flags change
  int64_t nparams;
  Arena *arena;
  Diag quiet;
} Maker;

int64_t maker_draw(Maker *m, int64_t n);
static inline bool maker_one_in(Maker *m, int64_t n) { return maker_draw(m, n) == 0; }

// A node over these items; false (and nothing kept) where it is refused or cannot be evaluated.
bool maker_apply(Maker *m, int op, int nsrc, const Item *src, const void *attrs, int nres,
                 Item *out);
void maker_remember(Maker *m, Item it);
bool maker_param(Maker *m, const Type *t, Item *out);
Item maker_const(Maker *m, DType t, int rank, const int64_t *dims, const void *bytes);
Item maker_i64s(Maker *m, int64_t n, const int64_t *v);
// An item of the enclosing scope as a parameter of this one.
Item maker_capture(Maker *m, Item outer);
// A value brought to a type; false where that cannot be.
bool maker_adapt(Maker *m, Item v, const Type *t, Item *out);
// Any value of this type: an old one brought to it, a new input, a constant.
bool maker_operand(Maker *m, const Type *t, Item *out);
// Some tensor of numbers from the pool; false when there is none.
bool maker_some(Maker *m, Item *out);

// A new type like `t`: other sizes, other element type (splice.c).
const Type *maker_random_type(Maker *m);
// Grows the scope by about `count` samples.
void maker_grow(Maker *m, int64_t count);
// One of if, loop, scan, sequence_map with bodies (body.c).
bool maker_control(Maker *m);

#endif
