// fuse_chain.c -- which convolutions share a kernel: inverted residuals, depthwise separable convolutions.
//
// A pointwise convolution that widens an image, a depthwise one and a pointwise one that narrows it again: the wide image
// between them is several times as large as what comes in and goes out, and need not be written.  A depthwise
// convolution takes the one before it in, and a pointwise one a depthwise one, where nothing else reads the image between.
#include "eval/contract.h"
#include "passes/fuse.h"

#include <math.h>

static bool is_image(const Node *n) {
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || t->rank != 4 || t->dtype != DT_F32) return false;
  for (int i = 1; i < 4; i++)
    if (!ie_is_const(t->dims[i]) || t->dims[i]->value < 1) return false;
  return true;
}

static int64_t size_at(const Node *n, int axis) { return type_of(n)->dims[axis]->value; }

// A convolution of an image, channels last, with weights that are numbers.
static bool is_conv(const Node *n) {
  return n->op == OP_conv && ((const conv_attrs *)n->attrs)->channels_last && is_image(n) &&
         is_image(n->src[0]) && is_image(n->src[1]) && n->src[1]->op == OP_const &&
         ie_is_const(type_of(n->src[1])->dims[0]);
}

static int64_t item(Ints l, int64_t i, int64_t otherwise) { return l.n > i ? l.v[i] : otherwise; }

static bool is_pointwise(const Node *n) {
  if (!is_conv(n)) return false;
  const conv_attrs *at = n->attrs;
  for (int d = 0; d < 2; d++)
    if (size_at(n->src[1], d) != 1 || item(at->strides, d, 1) != 1 || item(at->pads, d, 0) ||
        item(at->pads, d + 2, 0))
      return false;
  return at->group == 1;
}

static bool is_depthwise(const Node *n) {
  if (!is_conv(n)) return false;
  const conv_attrs *at = n->attrs;
  for (int d = 0; d < 4; d++)
    if (item(at->pads, d, 0) < 0) return false;
  return at->group > 1 && at->group == size_at(n, 3) && at->group == size_at(n->src[0], 3);
}

// The convolutions of a group in order, at most two; gives their number, 0 where something stands before them.
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

// ---- what it costs ----

// Of the image between: channels come in, are wide, go out (0: they stay wide).
typedef struct Band {
  int64_t in, wide, out;
  int64_t width, height, out_width, out_height;
  int64_t taps, lines;    // of the depthwise convolution; lines that one of its lines is made from
  int64_t stride, above;  // above: lines before the first one of the image
  int64_t images;
} Band;

static void measure(Band *b, const Node *expand, const Node *deep, const Node *project) {
  const conv_attrs *at = deep->attrs;
  Dim images = type_of(deep)->dims[0];
  *b = (Band){.in = expand ? size_at(expand->src[0], 3) : 0,
              .wide = size_at(deep, 3),
              .out = project ? size_at(project, 3) : 0,
              .width = size_at(deep->src[0], 2),
              .height = size_at(deep->src[0], 1),
              .out_width = size_at(deep, 2),
              .out_height = size_at(deep, 1),
              .taps = size_at(deep->src[1], 0) * size_at(deep->src[1], 1),
              .stride = item(at->strides, 0, 1),
              .images = ie_is_const(images) ? MAX(images->value, 1) : 1};
  if (at->auto_pad == PAD_NOTSET) b->above = item(at->pads, 0, 0);
  b->lines = (size_at(deep->src[1], 0) - 1) * item(at->dilations, 0, 1) + 1;
}

static double work_of(const Band *b, double lines, double rows) {
  return lines * (double)(b->width * b->in) +
         rows * (double)b->out_width * (double)(b->taps + b->out);
}

// How much more is computed than in kernels of their own, at best: lines at the edges of bands twice, and where there are few
// bands, as much as if two threads waited for one another.  A band's part of the image between stays in a core's cache.
static double excess(const Band *b) {
  enum { CACHE = 768 << 10, CHUNK = 32, FEW = 8 };
  double least = INFINITY;
  for (int64_t rows = 1; rows <= b->out_height; rows++) {
    int64_t lines = (rows - 1) * b->stride + b->lines, parts = (b->out_height + rows - 1) / rows;
    if (parts <= 2) lines -= b->above;  // every band has an edge of the image
    lines = MIN(lines, b->height);
    int64_t bytes = 4 * (b->in ? lines * b->width * CHUNK : 0);
    bytes += b->out ? 4 * rows * b->out_width * b->wide : 0;
    if (bytes > CACHE) break;
    // Without a projection there are as many items as parts of the channels.
    int64_t bands = parts * b->images;
    if (b->out && bands < FEW) bands += bands % 2;
    double work = (double)bands * work_of(b, (double)lines, (double)rows);
    least = MIN(least, work);
  }
  return least / ((double)b->images * work_of(b, (double)b->height, (double)b->out_height)) - 1;
}

static void note(Fuser *f, const Node *n, bool joins, double more) {
  OptReport *r = f->c->report;
  ChainNote c = {.name = n->name, .joins = joins, .more = more};
  vec_push(r->arena, &r->chain, c);
}

static bool worth_it(Fuser *f, const Node *n, const Node *expand, const Node *deep,
                     const Node *project) {
  const double MOST = 0.1;  // what a kernel less, and an image less in memory, are worth
  Band b;
  measure(&b, expand, deep, project);
  double more = excess(&b);
  note(f, n, more <= MOST, more);
  return more <= MOST;
}

// The first convolution reads what lies in memory as it is: through an index map every tap would be read through it.
static bool reads_plain(Fuser *f, const Node *first) {
  return fuse_at(f, first->src[0])->op.cls != FC_LAZY || fuse_is_view(f, first->src[0]);
}

int32_t fuse_chained(Fuser *f, int32_t i) {
  const Node *n = f->n[i].node, *conv[2];
  bool deep = is_depthwise(n);
  int32_t own = fuse_find(f, i);
  if ((!deep && !is_pointwise(n)) || f->group[own].size != 1) return NO_GROUP;
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
  bool taken = deep ? count == 1 && is_pointwise(anchor) && worth_it(f, n, anchor, n, NULL)
                    : count >= 1 && is_depthwise(anchor) &&
                          worth_it(f, n, count == 2 ? conv[0] : NULL, anchor, n);
  return taken ? group : NO_GROUP;
}
