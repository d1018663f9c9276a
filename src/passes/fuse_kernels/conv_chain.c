// conv_chain.c -- convolution chains: inverted residuals, depthwise separable convolutions.
//
// A pointwise convolution widens an image, a depthwise one follows, and a pointwise one narrows it
// again.  The wide image between them is several times as large as input and output, and need not
// be written.  A depthwise convolution takes the one before it into its kernel, and a pointwise one
// a depthwise one, where nothing else reads the image between.
//
// Needs:      a Fuser (fuse_kernels.c) whose groups hold the earlier convolutions.
// Guarantees: a chain is joined only where the work that bands repeat (band.h) stays below a bound;
//             the report has a note for each candidate.
#include "eval/contract.h"
#include "passes/fuse_kernels/band.h"
#include "passes/fuse_kernels/fuse_kernels.h"

void fuse_mark_heads(Fuser *f) {
  enum { DEPTH = 8 };
  for (int64_t i = 0; i < f->order.n; i++) {
    if (!f->n[i].needed || !band_depthwise(f->n[i].node)) continue;
    const Node *n = f->n[i].node->src[0];
    for (int depth = 0; depth < DEPTH && op_info(n->op)->flags & OPF_ELEMENTWISE && n->nsrc;
         depth++)
      n = n->src[0];
    fuse_at(f, n)->head = band_pointwise(n);
  }
}

// The convolutions of a group in order, at most two; gives their number, 0 where something stands
// before them.
static int convs_of(Fuser *f, int32_t group, const Node **out) {
  int n = 0;
  int32_t first = INT32_MAX;
  for (int32_t i = f->group[group].head; i >= 0; i = f->n[i].next) first = MIN(first, i);
  for (int32_t i = f->group[group].head; i >= 0; i = f->n[i].next) {
    if (f->n[i].op.cls != FC_ANCHOR) continue;
    if (n == 2) return 0;
    out[n++] = f->n[i].node;
  }
  if (n == 2 && f->pos[out[0]->id] > f->pos[out[1]->id]) {
    const Node *last = out[0];
    out[0] = out[1];
    out[1] = last;
  }
  return n && f->pos[out[0]->id] == first ? n : 0;
}

static void note(Fuser *f, const Node *n, bool joins, double more) {
  OptReport *r = f->c->report;
  ConvChainNote c = {.name = n->name, .joins = joins, .more = more};
  vec_push(r->arena, &r->conv_chains, c);
}

// A kernel of its own leaves out the channels whose weights are 0 for many results (template gemm),
// and gains more than the chain.
static bool is_pruned(Fuser *f, const Node *conv) {
  static const double MOST_LEFT = 0.7;
  return conv && (f->g->fast & FAST_REASSOC) &&
         const_runs_left(f->g, conv->src[1], BAND_VECTOR) < MOST_LEFT;
}

static bool worth_it(Fuser *f, const Node *n, const Node *expand, const Node *deep,
                     const Node *project) {
  const double MAX_EXCESS = 0.1;  // what a kernel less, and an image less in memory, are worth
  if (is_pruned(f, expand) || is_pruned(f, project)) return false;
  Band b;
  band_measure(&b, expand, deep, project);
  // A projection in the chain sums up its channels chunk by chunk.
  if (f->c->o->batch_invariant) b.images = 1;
  double more = band_excess(&b);
  note(f, n, more <= MAX_EXCESS, more);
  return more <= MAX_EXCESS;
}

// The first convolution reads memory directly: through an index map every tap would be
// read through it.
static bool reads_plain(Fuser *f, const Node *first) {
  return fuse_at(f, first->src[0])->op.cls != FC_INDEX_MAP || fuse_is_view(f, first->src[0]);
}

int32_t fuse_conv_chain(Fuser *f, int32_t i) {
  const Node *n = f->n[i].node, *conv[2];
  if (!traits_fuses_conv_chains(f->g->traits)) return NO_GROUP;
  bool deep = band_depthwise(n);
  int32_t own = fuse_find(f, i);
  if ((!deep && !band_pointwise(n)) || f->group[own].size != 1) return NO_GROUP;
  int32_t v = f->pos[n->src[0]->id];
  uint8_t cls = f->n[v].op.cls;
  if ((cls != FC_POINT && cls != FC_ANCHOR) || f->n[v].parent < 0) return NO_GROUP;
  int32_t group = fuse_find(f, v);
  const FuseGroup *g = &f->group[group];
  if (g->host || g->anchor < 0 || g->uses != 1 || g->size + 1 > FUSE_MEMBERS) return NO_GROUP;
  const Node *anchor = f->n[g->anchor].node;
  if (type_of(anchor) != type_of(n->src[0])) return NO_GROUP;
  int count = convs_of(f, group, conv);
  if (!count || !reads_plain(f, conv[0])) return NO_GROUP;
  bool one =
      count == 1 && band_pointwise(anchor) && ((const conv_attrs *)anchor->attrs)->group == 1;
  bool taken = deep ? one && worth_it(f, n, anchor, n, NULL)
                    : count >= 1 && band_depthwise(anchor) &&
                          worth_it(f, n, count == 2 ? conv[0] : NULL, anchor, n);
  return taken ? group : NO_GROUP;
}
