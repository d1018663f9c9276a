// repeat.c -- what a kernel would compute again and again, were it the prologue of another.
//
// A prologue is computed where its value is read.  That is more often than once where the value is
// broadcast, and where an anchor reads it for several of its sums.
//
// Needs:      the node at hand has its leaves in Fuser.leaf.
// Guarantees: nothing changes; the time is linear in the group's members and the leaves.
#include "passes/fuse_kernels/fuse_kernels.h"

#include "ir/internal.h"
#include "ops/order.h"

// A small group that is broadcast is computed again for each element: only where that is little
// work.
static bool worth_repeating(Fuser *f, const Node *n, int32_t group) {
  enum { CHEAP = 4 };
  if (f->group[group].size <= CHEAP) return true;
  for (int64_t k = 0; k < f->leaf.n; k++)
    if (fuse_group_of(f, f->leaf.v[k]) == group &&
        fuse_numel(f, f->n[f->leaf.v[k]].node) != fuse_numel(f, n))
      return false;
  return true;
}

// A convolution with a window reads each element for every place of the window and every few
// channels, and computes it anew each time: what takes several operations is cheaper made once.
static bool read_too_often(Fuser *f, const Node *anchor, int32_t group) {
  enum { SEVERAL = 3, TAPS = 3, CHANNELS = 64 };
  if (anchor->op != OP_conv || type_of(anchor->src[1])->rank < 3) return false;
  const Type *w = type_of(anchor->src[1]);
  bool last = node_channels_last(
      anchor);  // then weights are places, inputs, outputs; else outputs, inputs, places
  Dim taps = f->g->dims.one, channels = w->dims[last ? w->rank - 1 : 0];
  for (int k = 2; k < w->rank; k++) taps = ie_mul(&f->g->dims, taps, w->dims[last ? k - 2 : k]);
  if (taps->lo < TAPS || channels->lo < CHANNELS) return false;
  int operations = 0;
  for (int32_t m = f->group[group].head; m >= 0; m = f->n[m].next)
    operations += f->n[m].op.cls == FC_POINT;
  return operations >= SEVERAL;
}

// A function that is broadcast, such as the gate of a channel, is computed anew wherever it is
// read: one element after the other for each tile of sums or line of pixels.  A kernel that
// computes it once, in vectors, takes less time than that.
static bool repeats_function(Fuser *f, const Node *n, int32_t group) {
  enum { LEAST = 16, TIMES = 8 };  // elements that are worth a kernel, and how often each is read
  bool costly = false, repeated = false;
  if (traits_repeats_functions(f->g->traits)) return false;
  for (int32_t m = f->group[group].head; m >= 0; m = f->n[m].next)
    costly |= op_info(f->n[m].node->op)->expense >= EXPENSE_TRANSCENDENTAL;
  for (int64_t k = 0; k < f->leaf.n && costly; k++) {
    int64_t size = fuse_numel(f, f->n[f->leaf.v[k]].node)->lo;
    repeated |= fuse_group_of(f, f->leaf.v[k]) == group && size >= LEAST &&
                fuse_numel(f, n)->lo / TIMES >= size;
  }
  return repeated;
}

bool fuse_repeats(Fuser *f, int32_t i, int32_t group) {
  const Node *n = f->n[i].node;
  if (f->n[i].op.cls == FC_ANCHOR) return read_too_often(f, n, group);
  return repeats_function(f, n, group) || !worth_repeating(f, n, group);
}
