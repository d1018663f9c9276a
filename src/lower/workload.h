// workload.h -- what a kernel of the graph computes, as text without names: what its tuned schedule
// is found by.
#ifndef TENON_LOWER_WORKLOAD_H
#define TENON_LOWER_WORKLOAD_H

#include "ir/ir.h"

enum { WORKLOAD_KEY = 32 };  // hexadecimal digits

// The ops of a `fused` node, with shapes, attributes and which operands are constants.  Symbols are
// s0, s1, ... in the order in which they are met, each with its range.  Kernels of one text have
// the same templates and legal schedules, but for what the values of large constants decide.
Str workload_text(Graph *g, const Node *fused, Arena *a);
// Of a text: the first half of its SHA-256.
const char *workload_key(Str text, Arena *a);

#endif
