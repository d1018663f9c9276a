// pack.h -- constants put into the order in which kernels read them.
//
// A constant may be the weight as it is, or a PackSpec of it (lower.h).  A weight that is only
// moved (ConstData.moved) is read through the move, from where its bytes lie: nothing is written
// twice.
#ifndef TENON_LOWER_CONTRACT_PACK_H
#define TENON_LOWER_CONTRACT_PACK_H

#include "base/platform.h"
#include "lower/lower.h"

enum { CONST_ALIGN = 64 };

// One piece of work: a part of a weight to its places in a constant.
typedef struct PackTask PackTask;
typedef struct PackList {
  VEC(PackTask *) task;
  int64_t npieces;
} PackList;

// Adds what fills `to`, whose bytes are 0, from the constant `n`; `spec` NULL: as it is.
MUST_USE tenon_status pack_add(PackList *list, Graph *g, const Node *n, const PackSpec *spec,
                               char *to, Arena *a, Diag *d);
// A large constant that is the bytes of a mapped file need not be copied: it lies in place when its
// address has the phase of its bytes in a page.  -1: it must be copied, as where that is no
// multiple of `align`.
int64_t pack_phase(Graph *g, const Node *n, int64_t align, Diag *d);
bool pack_in_place(Graph *g, const Node *n, char *to, Diag *d);  // false: it cannot be, after all
// Does all of it.
void pack_run(const PackList *list, Pool *pool);

#endif
