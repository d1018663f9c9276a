// channels.c -- channels that are picked by number before a convolution: their order goes into its
// weights.
//
// A channel shuffle is a gather along the channels.  A convolution sums over all of them, so it may
// read them in any order: each channel is followed through gathers, slices and concatenations to
// the tensor that it comes from, and those of one tensor that follow one another are read as one
// slice.  Halves of shuffled halves are such runs too, so nothing is left that is moved element by
// element.  Where every channel is by itself the gather is moved behind the convolution.
#include "eval/contract.h"
#include "eval/index.h"
#include "ops/order.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

enum {
  MAX_SLICES = 16,    // most slices
  MEAN_CHANNELS = 4,  // least channels of a slice, on average
  MAX_STEPS = 256     // most nodes that are looked through
};

typedef struct ChannelRef {
  Node *x;
  int64_t channel;  // of x, at axis 1
} ChannelRef;

// ---- where a channel comes from ----

static bool through_gather(Graph *g, Node *x, ChannelRef *p, int64_t n) {
  Ints at;
  Dim size = type_of(x->src[0])->dims[1];
  if (axis_of(((const gather_attrs *)x->attrs)->axis, type_of(x)->rank) != 1 ||
      type_of(x->src[1])->rank != 1 || !ie_is_const(size) || !node_ints(g, x->src[1], &at))
    return false;
  for (int64_t i = 0; i < at.n; i++)
    if (at.v[i] < -size->value || at.v[i] >= size->value) return false;
  for (int64_t i = 0; i < n; i++) {
    if (p[i].x != x) continue;
    int64_t from = at.v[p[i].channel];
    p[i] = (ChannelRef){x->src[0], from < 0 ? from + size->value : from};
  }
  return true;
}

static bool through_slice(Graph *g, Node *x, ChannelRef *p, int64_t n) {
  Box box;
  if (!slice_box(g, x, &box) || !box.cut[1]) return false;
  for (int i = 0; i < box.rank; i++)
    if (i != 1 && box.cut[i]) return false;
  for (int64_t i = 0; i < n; i++)
    if (p[i].x == x) p[i] = (ChannelRef){x->src[0], box.start[1] + p[i].channel * box.step[1]};
  return true;
}

static bool through_concat(Node *x, ChannelRef *p, int64_t n) {
  if (axis_of(((const concat_attrs *)x->attrs)->axis, type_of(x)->rank) != 1) return false;
  for (uint32_t k = 0; k < x->nsrc; k++)
    if (!ie_is_const(type_of(x->src[k])->dims[1])) return false;
  for (int64_t i = 0; i < n; i++) {
    uint32_t part = 0;
    int64_t in = p[i].channel;
    if (p[i].x != x) continue;
    for (; in >= type_of(x->src[part])->dims[1]->value; part++)
      in -= type_of(x->src[part])->dims[1]->value;
    p[i] = (ChannelRef){x->src[part], in};
  }
  return true;
}

static bool through(Graph *g, Node *x, ChannelRef *p, int64_t n) {
  if (x->op == OP_gather) return through_gather(g, x, p, n);
  if (x->op == OP_slice) return through_slice(g, x, p, n);
  return x->op == OP_concat && through_concat(x, p, n);
}

// The n channels of x, each followed as far as it goes; false where no gather was on the way.
static bool follow(Graph *g, Node *x, ChannelRef *p, int64_t n) {
  bool gathered = false;
  int64_t steps = 0;
  for (int64_t i = 0; i < n; i++) p[i] = (ChannelRef){x, i};
  for (int64_t i = 0; i < n; i++) {
    for (Node *at = p[i].x; through(g, at, p, n); at = p[i].x) {
      gathered |= at->op == OP_gather;
      if (++steps > MAX_STEPS) return false;
    }
  }
  return gathered;
}

// ---- in order ----

typedef struct ChannelOrder {
  int64_t n;
  int64_t *from;  // the channel that is now at each place
  Node *x;        // the channels in that order, in slices
} ChannelOrder;

// Tensors in the order in which they first come, then channels: from[] is sorted so.
static void sort_channels(const ChannelRef *p, int64_t n, int64_t *from) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) {
    bool seen = false;
    for (int64_t k = 0; k < count && !seen; k++) seen = p[from[k]].x == p[i].x;
    if (seen) continue;
    for (int64_t k = i, first = count; k < n; k++) {
      if (p[k].x != p[i].x) continue;
      int64_t at = count++;
      for (; at > first && p[from[at - 1]].channel > p[k].channel; at--) from[at] = from[at - 1];
      from[at] = k;
    }
  }
}

static bool in_order(Graph *g, const Node *conv, ChannelOrder *out) {
  Node *x = conv->src[0], *part[MAX_SLICES];
  Dim size = type_of(x)->dims[1];
  if (!ie_is_const(size) || size->value < 2 || size->value > KNOWN_MAX) return false;
  int64_t n = size->value, runs = 0;
  ChannelRef *p = arena_array(&g->scratch, ChannelRef, n);
  *out = (ChannelOrder){.n = n, .from = arena_array(&g->scratch, int64_t, n)};
  if (!follow(g, x, p, n)) return false;
  sort_channels(p, n, out->from);
  for (int64_t i = 0, end; i < n; i = end) {
    const ChannelRef *first = &p[out->from[i]];
    for (end = i + 1; end < n; end++) {
      const ChannelRef *next = &p[out->from[end]];
      if (next->x != first->x || next->channel != first->channel + end - i) break;
    }
    if (runs == MAX_SLICES) return false;
    bool whole = ie_is(type_of(first->x)->dims[1], end - i);
    part[runs++] =
        whole ? first->x : slice_axis(g, first->x, 1, first->channel, first->channel + end - i, 1);
  }
  if (runs * MEAN_CHANNELS > n) return false;
  out->x = runs == 1 ? part[0]
                     : node_new(g, OP_concat, (int)runs, part, &(concat_attrs){.axis = 1}, 0, NULL);
  return true;
}

// ---- rules ----

static Node *gathered(Graph *g, Node *x, int64_t axis, int64_t n, const int64_t *from) {
  return NA(g, gather, (&(gather_attrs){.axis = axis}), x, node_i64s(g, n, from));
}

static bool ready(const Node *conv) {
  const Type *x = type_of(conv->src[0]), *w = type_of(conv->src[1]);
  return !node_channels_last(conv) && x->rank >= 3 && w->rank == x->rank &&
         conv->src[1]->op == OP_const && dtype_is_float(x->dtype);
}

// Channels are summed in another order.
static Node *conv_gathered(Graph *g, const Match *m) {
  const Node *conv = m->root;
  ChannelOrder p;
  Node *src[3];
  if (!ready(conv) || ((const conv_attrs *)conv->attrs)->group != 1 || !in_order(g, conv, &p))
    return NULL;
  for (uint32_t i = 0; i < conv->nsrc; i++) src[i] = conv->src[i];
  src[0] = p.x;
  src[1] = gathered(g, src[1], 1, p.n, p.from);
  return node_with(g, conv, src);
}

// Every channel by itself: the picked ones in order, then back.
static Node *depthwise_gathered(Graph *g, const Match *m) {
  const Node *conv = m->root;
  ChannelOrder p;
  Node *src[3];
  int64_t group = ((const conv_attrs *)conv->attrs)->group;
  if (!ready(conv) || group < 2 || !ie_is(type_of(conv)->dims[1], group) ||
      !ie_is(type_of(conv->src[0])->dims[1], group) || !in_order(g, conv, &p))
    return NULL;
  for (uint32_t i = 0; i < conv->nsrc; i++)
    src[i] =
        i && conv->src[i] != g->none ? gathered(g, conv->src[i], 0, p.n, p.from) : conv->src[i];
  src[0] = p.x;
  int64_t *back = arena_array(&g->scratch, int64_t, p.n);
  for (int64_t i = 0; i < p.n; i++) back[p.from[i]] = i;
  return gathered(g, node_with(g, conv, src), 1, p.n, back);
}

#define SHUFFLED                                                                                   \
  "%i = const i64[8] {0, 4, 1, 5, 2, 6, 3, 7} %s = concat(%x, %y) axis=1 "                         \
  "%g = gather(%s, %i) axis=1 "

static const Rule channels[] = {
    // clang-format off
    RULE("conv.gathered", ANY(conv), .make = conv_gathered, .fast = FAST_REASSOC,
         .example = "(%x: f32[n, 4, 3], %y: f32[n, 4, 3]) { " SHUFFLED "%w = const f32[1, 8, 1] {1, 2, 3, -1, -2, 1, 0.5, 0.25} %r = conv(%g, %w) return %r }"),
    RULE("conv.depthwise_gathered", ANY(conv), .make = depthwise_gathered,
         .example = "(%x: f32[n, 4, 3], %y: f32[n, 4, 3]) { " SHUFFLED "%w = const f32[8, 1, 2] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 2, 1, 1, 1, -1, 2, 0, 3} %r = conv(%g, %w) group=8 return %r }"),
    // clang-format on
};
const RuleSet rules_channels =
    RULES("channels", channels, "fewer gathers stand before convolutions");
