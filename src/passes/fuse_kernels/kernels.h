// kernels.h -- the kernels of a graph: what launches, and what it moves.
#ifndef TENON_PASSES_FUSE_KERNELS_KERNELS_H
#define TENON_PASSES_FUSE_KERNELS_KERNELS_H

#include "cost/cost.h"
#include "eval/fuse.h"
#include "ir/pass.h"

enum { FUSED_KINDS = FUSED_VIEW + 1 };
extern const char *const fused_kind_name[FUSED_KINDS];

typedef struct KernelCount {
  int64_t kernels;            // that launch: all kinds but views and the host's
  int64_t kind[FUSED_KINDS];  // FUSED_HOST: nodes that the host runs, shape arithmetic left out
  int64_t constant;  // computed once, before the first run: folding did not get at the bytes
} KernelCount;
// Of the main body and of the bodies of control flow in it.  Before fusion every node that computes
// is a kernel.
void graph_kernels(Graph *g, KernelCount *out);

// What the nodes of a kernel would move, each launched alone; *out_nodes counts them.
int64_t kernel_unfused_bytes(Graph *g, const Node *fused, const DimBinding *b, Arena *a,
                             int64_t *out_nodes);

// Bytes of the values that are needed in both orders of channels, at these sizes; an unknown size
// counts as nothing.
int64_t conversion_bytes(const LayoutReport *l, const DimBinding *b);

#endif
