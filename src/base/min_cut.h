// min_cut.h -- the cheapest assignment of 0 or 1 to variables, with costs of single values and of
// neighbours that differ.
//
// Costs are whole numbers of at least 0; a cost for (a = 1, b = 0) is the capacity of an arc from a
// to b, and the cheapest assignment is a minimum cut.
#ifndef TENON_BASE_MIN_CUT_H
#define TENON_BASE_MIN_CUT_H

#include "base/base.h"

#define CUT_NEVER ((int64_t)1 << 60)  // a cost that no cheapest assignment pays

typedef struct CutArc {
  int32_t to, next;
  int64_t room;  // what may still flow
} CutArc;
typedef struct Cut {
  Arena *arena;
  int32_t n;           // variables; two more nodes are the ends
  VEC(CutArc) arc;     // arc i ^ 1 is arc i backwards
  VEC(int32_t) first;  // by node
  int64_t work;        // arcs looked at, for tests
} Cut;

void cut_init(Cut *c, Arena *a);
int32_t cut_var(Cut *c);
void cut_cost(Cut *c, int32_t v, int64_t if0, int64_t if1);
void cut_pair(Cut *c, int32_t a, int32_t b, int64_t cost);  // paid when a = 1 and b = 0
// Something of value `own` that users want with their own values: paid once when any of them
// differs from it, however many do.  Instead of a variable any of them may be a constant.
enum { CUT_ZERO = -1, CUT_ONE = -2 };
void cut_shared(Cut *c, int32_t own, const int32_t *user, int64_t n, int64_t cost);
// out[v] for every variable; of several cheapest assignments the one with the fewest ones.
void cut_solve(Cut *c, bool *out);

#endif
