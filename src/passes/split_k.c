// split_k.c -- the pass split-k: split-K for the projections of small images, on CPUs.
//
// A small image has too few lines to be divided among cores: in bands, which share a kernel with
// the convolutions before them, too many lines would be computed twice.  So its channels are
// divided.  The projection at the end of an inverted residual becomes a grouped convolution: each
// group sums its part of the wide channels, and the partial sums are added.  A kernel's items are
// then parts of the wide channels, each computed from the first convolution to the last on one
// core.  Only the partial sums go through memory, and there are fewer of them than wide channels.
//
// Needs:      choose-layout has run: channels are contiguous.
// Guarantees: the number of parts depends on the shapes alone.  Only under FAST_REASSOC, never on
//             GPUs or with OptOptions.batch_invariant.
#include "eval/contract.h"
#include "passes/fuse_kernels/band.h"
#include "rules/shape.h"

typedef struct SplitK {
  PassCtx *c;
  IntMap uses;  // node id -> reads in its body
} SplitK;

static void begin_body(void *ctx, const Body *b, NodeList order) {
  SplitK *p = ctx;
  for (int64_t i = 0; i < order.n; i++)
    for (uint32_t k = 0; k < order.v[i]->nsrc; k++) {
      uint64_t n = 0;
      intmap_get(&p->uses, order.v[i]->src[k]->id, &n);
      intmap_put(&p->uses, order.v[i]->src[k]->id, n + 1);
    }
  for (int64_t i = 0; i < b->nresults; i++) intmap_put(&p->uses, b->result[i]->id, UINT32_MAX);
}

// The convolution that `n` is made from element by element, of values that nothing else reads;
// NULL: none.
static const Node *conv_behind(const SplitK *p, const Node *n) {
  enum { DEPTH = 8 };
  for (int depth = 0; depth < DEPTH; depth++) {
    uint64_t uses = 0;
    if (!intmap_get(&p->uses, n->id, &uses) || uses != 1) return NULL;
    if (n->op == OP_conv) return n;
    if (!(op_info(n->op)->flags & OPF_ELEMENTWISE)) return NULL;
    const Node *next = NULL;
    for (uint32_t i = 0; i < n->nsrc; i++) {
      if (n->src[i]->op == OP_const || n->src[i] == p->c->g->none) continue;
      if (next || type_of(n->src[i]) != type_of(n)) return NULL;
      next = n->src[i];
    }
    if (!next) return NULL;
    n = next;
  }
  return NULL;
}

// The cost of partial sums in memory, relative to all operations: each sum is written and read by
// another core, which takes as long as some products; and one more kernel is begun.
static double cost_of_parts(const Band *b) {
  const double SUM = 12, KERNEL = 230e3;
  double pixels = (double)(b->out_width * b->out_height);
  double all = (double)(b->width * b->height * b->in) + pixels * (double)(b->taps + b->out);
  return (SUM * (double)b->groups * pixels * (double)b->out + KERNEL) / (all * (double)b->wide);
}

// How many parts the sums of a projection are formed in; 1: it is left alone.  More parts serve
// more cores.
static int64_t parts_of(const SplitK *p, const Node *n) {
  static const int64_t parts[] = {4, 2};
  if (!band_pointwise(n) || ((const conv_attrs *)n->attrs)->group != 1) return 1;
  const Node *deep = conv_behind(p, n->src[0]);
  const Node *expand = deep && band_depthwise(deep) ? conv_behind(p, deep->src[0]) : NULL;
  if (!expand || !band_pointwise(expand) || ((const conv_attrs *)expand->attrs)->group != 1)
    return 1;
  Band b;
  band_measure(&b, expand, deep, n);
  double bands = band_excess(&b);
  for (int i = 0; i < ARRAY_LEN(parts) && b.images == 1; i++) {
    b.groups = parts[i];
    if (b.wide % (b.groups * BAND_VECTOR) || b.groups * b.out > b.wide) continue;
    if (bands > cost_of_parts(&b) && band_excess(&b) < 0.01) return b.groups;
  }
  return 1;
}

// The weights as those of a grouped convolution, the parts adjacent in each row.
static Node *split_weight(const SplitK *p, const Node *w, int64_t parts) {
  Graph *g = p->c->g;
  const void *bytes;
  Diag *quiet = arena_new(p->c->scratch, Diag);
  const Type *t = type_of(w);
  int64_t rows = t->dims[2]->value / parts, cols = t->dims[3]->value;
  diag_init(quiet);
  if (const_elements(g, w, p->c->scratch, &bytes, quiet)) return NULL;
  float *to = arena_array(p->c->scratch, float, rows *parts *cols);
  const float *from = bytes;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < parts; k++)
      memcpy(to + (r * parts + k) * cols, from + (k * rows + r) * cols, (size_t)cols * sizeof *to);
  return node_const(g, DT_F32, 4, (int64_t[]){1, 1, rows, parts * cols}, to, w->name);
}

static Node *split(void *ctx, Node *n, Node *old) {
  SplitK *p = ctx;
  Graph *g = p->c->g;
  int64_t parts = n->op == OP_conv && old->op == OP_conv ? parts_of(p, old) : 1;
  if (parts < 2) return n;
  Node *w = split_weight(p, n->src[1], parts), *bias = src_or_null(g, n, 2);
  if (!w) return n;
  conv_attrs at = *(const conv_attrs *)n->attrs;
  int64_t cols = type_of(n)->dims[3]->value;
  at.group = parts;
  Node *sums = NA(g, conv, &at, n->src[0], w), *all = NULL;
  if (sums == g->poison) return n;
  sums->name = n->name;
  for (int64_t k = 0; k < parts; k++) {
    Node *part = slice_axis(g, sums, 3, k * cols, (k + 1) * cols, 1);
    all = all ? N(g, add, all, part) : part;
  }
  if (bias) all = N(g, add, all, bias);
  return all != g->poison && type_of(all) == type_of(n) ? all : n;
}

tenon_status pass_split_k(PassCtx *c, bool *out_changed) {
  SplitK p = {.c = c};
  // An image that is small by itself may be one of a large batch.
  bool wanted = traits_needs_split_k(c->g->traits) && !c->o->batch_invariant;
  if (!(c->o->fast & FAST_REASSOC) || !wanted) return TENON_OK;
  intmap_init(&p.uses, c->scratch);
  GraphMap m = {.g = c->g, .fn = split, .ctx = &p, .begin_body = begin_body};
  return graph_map(&m, out_changed);
}
