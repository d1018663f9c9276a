// graphfuzz.h -- random graphs over all ops, and what optimising them must not change.
//
// A graph is grown from the ops' own samples: an op and one of its samples are drawn, and each operand that
// the sample wants is taken from what the graph has computed so far, brought to the wanted type by casts, slices and reshapes;
// now and then it is a new input.  So every graph is valid by construction, and every op is reached through its record alone.
#ifndef TENON_TESTS_GRAPHFUZZ_H
#define TENON_TESTS_GRAPHFUZZ_H

#include "ir/interpret.h"
#include "passes/passes.h"
#include "passes/plan.h"

typedef struct FuzzStats {
  int64_t graphs, invalid, compared, refused, loose;
  int64_t turned;          // nodes that were computed channels last
  int64_t used[OP_COUNT];  // graphs that hold the op
} FuzzStats;

// A random graph; NULL (with the diag filled) when it came out invalid.  No trap is needed.
Graph *fuzz_graph(uint64_t seed, Diag *d);
// Optimises a graph made from the same seed in several ways and compares: true when all agree; else the message says what differs.
bool fuzz_check(uint64_t seed, FuzzStats *stats, Diag *d);
// Writes the failing graph, reduced to what still fails, as text.
void fuzz_reduce(uint64_t seed, StrBuf *out);

#endif
