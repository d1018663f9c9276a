// conv_chain.c -- template conv_chain: inverted residuals and depthwise separable convolutions.
//
// The wide image between the convolutions is several times as large as input and output.  A work
// item owns lines of the result.  It computes the part of the wide image that these lines need into
// scratch that stays in its core's cache.  Lines at the border of two items are computed by both.
//
// Needs:      2-D convolutions in f32, channels last, with constant weights: a depthwise one with a
//             pointwise one before it, after it, or both.  All sizes except the batch are constant.
// Guarantees: work items and the order of every sum depend on the shapes and the target alone.
#include "lower/cpu/conv_chain.h"

#include "eval/contract.h"
#include "ir/internal.h"
#include "ops/order.h"
#include "passes/fuse_kernels/band.h"

// ---- the links ----

static bool read_link(ConvChain *c, ConvChainLink *l, const Node *n) {
  l->anchor = n;
  return node_channels_last(n) && band_image(n) && band_image(n->src[0]) &&
         contract_map(&l->c, &c->e, n, 0) && l->c.weight;
}

// A matrix product of every pixel with the weights.
static bool is_pointwise(const ConvChainLink *l) {
  for (int d = 0; d < 2; d++) {
    const ContractAxis *s = &l->c.space[d];
    if (s->kernel != 1 || s->stride != 1 || s->lo || s->in != s->out) return false;
  }
  return !l->c.depthwise;
}

static bool is_depthwise(const ConvChainLink *l) {
  for (int d = 0; d < 2; d++)
    if (l->c.space[d].lo < 0) return false;
  return l->c.depthwise;
}

// The convolutions of the body, in order: which of them are there follows from which one is
// depthwise.
static bool find_links(ConvChain *c) {
  const Node *conv[3] = {0};
  int n = 0, deep = -1;
  NodeList all = body_order(c->e.lo->g, c->e.body, c->e.a);
  for (int64_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_conv) continue;
    if (n == 3) return false;
    conv[n++] = all.v[i];
  }
  for (int i = 0; i < n; i++) {
    ConvChainLink l = {0};
    if (read_link(c, &l, conv[i]) && l.c.depthwise && deep < 0) deep = i;
  }
  if (n < 2 || deep < 0 || deep > 1 || n - deep > 2) return false;
  if (!read_link(c, &c->depth, conv[deep]) || !is_depthwise(&c->depth)) return false;
  if (deep &&
      (!read_link(c, &c->expand, conv[0]) || !is_pointwise(&c->expand) || c->expand.c.groups != 1))
    return false;
  if (deep < n - 1 && (!read_link(c, &c->project, conv[n - 1]) || !is_pointwise(&c->project)))
    return false;
  c->expand.value = c->depth.anchor->src[0];
  if (c->project.anchor) c->depth.value = c->project.anchor->src[0];
  return true;
}

// What stands behind each link: whether it is heavy; and that all results are made from the last
// one.
static bool look_behind(ConvChain *c) {
  ConvChainLink *link[3] = {&c->expand, &c->depth, &c->project};
  for (int i = 0; i < 3; i++) {
    if (!link[i]->anchor) continue;
    const Node *next = i < 2 && link[i + 1]->anchor ? link[i + 1]->anchor : NULL;
    EpilogueWalk *f = &c->walk;
    epilogue_begin(f, &c->e, link[i]->anchor);
    f->own = link[i]->anchor;
    for (int64_t k = 0; k < f->all.n; k++) {
      const Node *n = f->all.v[k];
      if (n == next) break;
      if (n != link[i]->anchor && epilogue_reads(f, n))
        link[i]->expensive |= contract_is_expensive(n);
    }
    if (next && link[i]->value != link[i]->anchor && !epilogue_reads(f, link[i]->value))
      return false;
    if (next && !band_image(link[i]->value)) return false;
  }
  for (int i = 0; i < c->e.fused->nres; i++)
    if (!epilogue_reads(&c->walk, c->e.body->result[i])) return false;
  return true;
}

static bool same_sizes_of(const Node *a, const Node *b) {
  for (int i = 0; i < 4; i++)
    if (type_of(a)->dims[i] != type_of(b)->dims[i]) return false;
  return true;
}

static bool read_sizes(ConvChain *c) {
  ConvChainLink *link[3] = {&c->expand, &c->depth, &c->project};
  const Type *wide = type_of(c->depth.anchor->src[0]), *deep = type_of(c->depth.anchor);
  for (int i = 0; i < 3; i++)
    if (link[i]->anchor && !contract_sizes(&link[i]->c)) return false;
  if (c->expand.anchor && !same_sizes_of(c->expand.anchor, c->expand.value)) return false;
  if (c->project.anchor && !same_sizes_of(c->depth.anchor, c->depth.value)) return false;
  c->height = wide->dims[1]->value;
  c->width = wide->dims[2]->value;
  c->wide = wide->dims[3]->value;
  c->out_height = deep->dims[1]->value;
  c->out_width = deep->dims[2]->value;
  c->narrow = c->expand.anchor ? c->expand.c.depth : 0;
  c->groups = c->project.anchor ? c->project.c.groups : 1;
  c->out = c->project.anchor ? c->project.c.n->value : 0;
  return true;
}

// ---- schedule ----

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Channels of a tile: whole vectors, or the lowest power of two that holds all.  `half`: also one
// and a half vectors; `whole`: only what divides them.
static int64_t choose_columns(int64_t n, int64_t lanes, bool half, bool whole) {
  const int64_t width[] = {2 * lanes, 3 * lanes, lanes, half ? lanes + lanes / 2 : 0};
  const int64_t cost[] = {100, 103, 115, 106};
  int64_t best = 1, least = INT64_MAX;
  if (n < lanes) {
    while (best < n) best *= 2;
    return best;
  }
  for (int i = 0; i < ARRAY_LEN(width); i++) {
    if (!width[i] || (whole && n % width[i])) continue;
    int64_t padded = ceil_div(n, width[i]) * width[i] * cost[i];
    if (padded >= least) continue;
    least = padded;
    best = width[i];
  }
  return best;
}

// Pixels of a tile: as many as registers hold, a line split evenly.
static int64_t choose_pixels(const LowerTarget *t, int64_t lanes, int64_t columns, int64_t width) {
  int64_t vectors = MAX(ceil_div(columns, lanes), 1);  // of 0 columns `legal` says what is wrong
  int64_t most = MAX(MIN((t->vector_registers - vectors - 1) / vectors, 16), 1);
  if (columns % lanes && most > 2)
    most -= 2;  // parts of vectors are kept in registers of their own
  return width < 1 ? 1 : ceil_div(width, ceil_div(width, most));
}

// Lines of the wide image that so many lines of the result are made from.
static int64_t lines_of(const ConvChain *c, int64_t rows) {
  const ContractAxis *s = &c->depth.c.space[0];
  return (rows - 1) * s->stride + (s->kernel - 1) * s->dilation + 1;
}

// What an item holds in the cache: scratch, and the lines of the input, which are read for each
// chunk.
static int64_t item_bytes(const ConvChain *c, int64_t rows) {
  int64_t n = c->project.anchor ? rows * c->out_width * c->pitch : 0;
  if (c->expand.anchor) n += lines_of(c, rows) * c->width * (c->s.channels + c->narrow);
  return n * 4;
}

// What an item of so many lines costs: operations for each wide channel, and its weights, which are
// read again for each item.
static double item_work(const ConvChain *c, const LowerTarget *t, int64_t rows) {
  const ContractAxis *s = &c->depth.c.space[0];
  int64_t need = lines_of(c, rows);
  if (2 * rows >= c->out_height) need -= s->lo;  // every item has an edge of the image
  double lines = (double)MIN(need, c->height);
  double wide = lines * (double)(c->width * c->narrow);
  double deep = (double)(rows * c->out_width) * (double)(s->kernel * c->depth.c.space[1].kernel);
  double out = (double)(rows * c->out_width * c->out);
  double work = wide + deep + out + 2 * (double)(c->narrow + c->out);
  return item_bytes(c, rows) > t->l1 * 3 / 4 ? 1.04 * work : work;
}

// How many threads there will be is not known: an item is as high as is good for one, two and four
// of them, two counting most, among those heights that the cache holds.
static int64_t choose_rows(const ConvChain *c, const LowerTarget *t) {
  static const int64_t threads[] = {1, 2, 4};
  static const double weight[] = {1, 2, 0.1};
  Dim images = c->depth.c.out[0];
  int64_t times = ie_is_const(images) ? MAX(images->value, 1) : 1, best = 1;
  double least = 0;
  times *= c->project.anchor ? c->groups : ceil_div(c->wide, c->s.channels);
  for (int64_t rows = 1; rows <= c->out_height; rows++) {
    int64_t bands = ceil_div(c->out_height, rows);
    if (rows > 1 &&
        (item_bytes(c, rows) > t->l2 * 3 / 4 || bands == ceil_div(c->out_height, rows - 1)))
      continue;
    double cost = 0;
    for (int i = 0; i < ARRAY_LEN(threads); i++) {
      int64_t rounds = ceil_div(bands * times, threads[i]);
      cost += weight[i] * (double)(threads[i] * rounds) * item_work(c, t, rows);
    }
    if (rows > 1 && cost >= least) continue;
    least = cost;
    best = rows;
  }
  return best;
}

// What follows from the channels that are made at a time, and from the lines of an item.
static void derive_channels(ConvChain *c) {
  c->chunks = ceil_div(c->wide / c->groups, c->s.channels);
  c->pitch = c->chunks * c->s.channels;
  if (c->pitch % 1024 == 0)
    c->pitch += 16;  // lines of memory 4096 bytes apart share a place in the cache
}

static void derive_lines(ConvChain *c) {
  c->lines = lines_of(c, c->s.item_lines);
  c->lines_inside = MIN(c->lines - c->depth.c.space[0].lo, c->height);
}

static bool conv_chain_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                              void *fields) {
  ConvChain *c = match;
  ConvChainSchedule *s = &c->s;
  enum { DEPTH_PIXELS = 8 };  // that neighbouring taps share loads of
  *s = (ConvChainSchedule){.lanes = MAX(t->vector_bytes / 4, 1)};
  schedule_keep(given, s);
  s->channels = choose_columns(c->wide / c->groups, s->lanes, false, c->groups > 1);
  int64_t most = MAX(MIN(DEPTH_PIXELS, t->vector_registers / 2 - 1), 1);
  s->depth_pixels = ceil_div(c->out_width, ceil_div(c->out_width, most));
  if (c->project.anchor) s->cols = choose_columns(c->out, s->lanes, true, false);
  schedule_keep(given, s);
  derive_channels(c);
  s->item_lines = choose_rows(c, t);
  schedule_keep(given, s);
  derive_lines(c);
  bool whole = s->item_lines == c->out_height, even = c->out_height % s->item_lines == 0;
  if (c->expand.anchor)
    s->expand_pixels =
        choose_pixels(t, s->lanes, s->channels, whole ? c->lines_inside * c->width : c->width);
  if (c->project.anchor)
    s->pixels =
        choose_pixels(t, s->lanes, s->cols, even ? s->item_lines * c->out_width : c->out_width);
  *(ConvChainSchedule *)fields = *s;
  return given->t || c->groups == 1 || c->wide / c->groups % s->channels == 0;
}

static bool conv_chain_legal(const void *match, const LowerTarget *t, const void *fields,
                             const char **why) {
  enum { SCRATCH_MOST = 64 << 20 };  // bytes
  const ConvChain *c = match;
  const ConvChainSchedule *s = fields;
  double wide = (double)lines_of(c, s->item_lines) * (double)c->width * (double)s->channels;
  double deep = (double)s->item_lines * (double)c->out_width * (double)(c->wide + s->channels + 16);
  (void)t;
  *why = s->item_lines > c->out_height              ? "item_lines is above the lines of the result"
         : s->channels % MIN(s->lanes, s->channels) ? "channels is not a multiple of lanes"
         : c->groups > 1 && c->wide / c->groups % s->channels
             ? "channels does not divide the channels of a group"
         : !s->expand_pixels != !c->expand.anchor
             ? "expand_pixels is 0 just where there is no first convolution"
         : !s->pixels != !c->project.anchor || !s->cols != !c->project.anchor
             ? "pixels and cols are 0 just where there is no last convolution"
         : 4 * (wide + deep) > SCRATCH_MOST ? "its scratch is too large"
                                            : NULL;
  return !*why;
}

// ---- the template ----

static bool pack(ConvChain *c, ConvChainLink *l, int64_t columns, const char *name) {
  PackSpec p;
  if (!l->anchor) return true;
  if (!contract_pack(&l->c, columns, &p)) return false;
  l->packed = elem_packed(&c->e, l->c.weight, &p, name);
  return l->packed >= 0;
}

static void *conv_chain_match(Lowering *lo, const Node *fused) {
  ConvChain *c = arena_new(lo->arena, ConvChain);
  c->e =
      (ElementBuilder){.lo = lo, .fused = fused, .body = ((const fused_attrs *)fused->attrs)->body};
  c->e.a = lo->arena;
  lo->why = "it is not a chain of pointwise, depthwise and pointwise convolutions";
  if (!find_links(c)) return NULL;
  const Node *skip[3] = {c->depth.c.rhs, c->expand.anchor ? c->expand.c.rhs : NULL,
                         c->project.anchor ? c->project.c.rhs : NULL};
  if (!elem_begin(&c->e, lo, fused, skip, 3)) return NULL;
  return find_links(c) && look_behind(c) && read_sizes(c) ? c : NULL;
}

static bool conv_chain_build(void *match, const void *fields, Lowered *out) {
  ConvChain *c = match;
  c->s = *(const ConvChainSchedule *)fields;
  derive_channels(c);
  derive_lines(c);
  if (!pack(c, &c->expand, c->s.channels, "we") || !pack(c, &c->depth, c->s.channels, "wd") ||
      !pack(c, &c->project, c->s.cols, "wp"))
    return false;
  if (!conv_chain_emit(c)) return false;
  elem_finish(&c->e, out);
  return true;
}

SCHEDULE_TABLE(ConvChain, CONV_CHAIN_SCHEDULE);
const TemplateCode template_conv_chain = {.match = conv_chain_match,
                                          .choose = conv_chain_choose,
                                          .legal = conv_chain_legal,
                                          .build = conv_chain_build,
                                          SCHEDULE(ConvChain)};
