// elem_sum.c -- contractions element by element: what the template of contractions does not take.
//
// An einsum of one operand or of more than two, with diagonals, and a convolution whose weights come with the run: every element
// of the result is a nest of sums of its own.  Slower than a tile in registers, and for any shape.
#include "lower/elem.h"

#include "eval/contract.h"
#include "ir/internal.h"
#include "ops/order.h"

// ---- einsum ----

typedef struct Sums {
  Elem *e;
  const Node *node;
  Einsum q;
  Dim size[EINSUM_LABELS];  // of the graph
  Dim at[EINSUM_LABELS];
  int nsummed;
  uint8_t summed[EINSUM_LABELS];
  DType acc;
} Sums;

// Sizes of the labels; an axis of 1 is repeated.
static bool find_sizes(Sums *s) {
  IntPool *p = &s->e->lo->g->dims;
  for (int i = 0; i < s->q.nops; i++) {
    const Type *t = type_of(s->node->src[i]);
    for (int d = 0; d < s->q.nlabels[i]; d++) {
      Dim *size = &s->size[s->q.label[i][d]];
      if (!*size || ie_is(*size, 1)) *size = t->dims[d];
    }
  }
  for (int i = 0; i < s->q.nops; i++) {
    const Type *t = type_of(s->node->src[i]);
    for (int d = 0; d < s->q.nlabels[i]; d++)
      if (!ie_is(t->dims[d], 1) && ie_eq(p, t->dims[d], s->size[s->q.label[i][d]]) != YES)
        return false;
  }
  return true;
}

static const LoopExpr *product(Sums *s) {
  Elem *e = s->e;
  const LoopExpr *all = NULL;
  for (int i = 0; i < s->q.nops; i++) {
    const Type *t = type_of(s->node->src[i]);
    Dim at[MAX_RANK];
    for (int d = 0; d < t->rank; d++)
      at[d] = ie_is(t->dims[d], 1) ? e->pool->zero : s->at[s->q.label[i][d]];
    const LoopExpr *x = elem_at(e, s->node->src[i], at);
    if (!x) return NULL;
    x = loop_cast(e->k, s->acc, x);
    all = all ? loop_op(e->k, LOOP_mul, all, x, NULL) : x;
  }
  return all;
}

static const LoopExpr *sum_over(Sums *s, int i) {
  Elem *e = s->e;
  if (i == s->nsummed) return product(s);
  int64_t known = e->memo.n;  // what is defined in the loop is not to be used after it
  s->at[s->summed[i]] = loop_reduce(&e->b, LOOP_add, "k", elem_dim(e, s->size[s->summed[i]]), 1);
  const LoopExpr *x = sum_over(s, i + 1);
  if (!x) return NULL;
  x = loop_yield(&e->b, x);
  e->memo.n = known;
  return x;
}

const LoopExpr *elem_einsum(Elem *e, const Node *n, int result, const Dim *index) {
  Sums *s = arena_new(e->a, Sums);
  int rank[EINSUM_MAX_OPERANDS];
  int64_t bad;
  (void)result;
  *s = (Sums){.e = e, .node = n, .acc = elem_sum_dtype(type_of(n)->dtype)};
  if (n->nsrc > EINSUM_MAX_OPERANDS) return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if ((rank[i] = type_of(n->src[i])->rank) < 0) return NULL;
  const einsum_attrs *at = n->attrs;
  if (einsum_parse(at->equation, (int)n->nsrc, rank, &s->q, &bad) || !find_sizes(s)) return NULL;
  for (int i = 0; i < s->q.nout; i++) s->at[s->q.out[i]] = index[i];
  for (int i = 0; i < EINSUM_LABELS; i++)
    if (s->size[i] && !s->at[i]) s->summed[s->nsummed++] = (uint8_t)i;
  const LoopExpr *x = sum_over(s, 0);
  return x ? loop_cast(e->k, type_of(n)->dtype, loop_let(&e->b, x)) : NULL;
}

// ---- convolutions ----

typedef struct ConvSum {
  Elem *e;
  const Node *node;
  const Dim *index;  // of the result
  int nd, channel, space;
  bool last;
  Dim kernel[MAX_RANK], in[MAX_RANK], lo[MAX_RANK];
  int64_t stride[MAX_RANK], dilation[MAX_RANK];
  Dim channels;  // that are summed: of one group
  Dim first;     // the group's first
  Dim tap[MAX_RANK], at;
  DType acc;
} ConvSum;

static bool find_window(ConvSum *w) {
  Elem *e = w->e;
  IntPool *p = e->pool;
  const conv_attrs *at = w->node->attrs;
  const Type *x = type_of(w->node->src[0]), *f = type_of(w->node->src[1]);
  if (x->rank < 3 || x->rank != f->rank || at->group < 1) return false;
  w->last = node_channels_last(w->node);
  w->nd = x->rank - 2;
  w->channel = w->last ? x->rank - 1 : 1;
  w->space = w->last ? 1 : 2;
  for (int d = 0; d < w->nd; d++) {
    w->kernel[d] = elem_dim(e, f->dims[w->last ? d : d + 2]);
    w->in[d] = elem_dim(e, x->dims[w->space + d]);
    w->stride[d] = at->strides.n ? at->strides.v[d] : 1;
    w->dilation[d] = at->dilations.n ? at->dilations.v[d] : 1;
    w->lo[d] = ie_const(p, at->auto_pad == PAD_NOTSET && at->pads.n ? at->pads.v[d] : 0);
    if (at->auto_pad != PAD_SAME_UPPER && at->auto_pad != PAD_SAME_LOWER) continue;
    Dim out = elem_dim(e, type_of(w->node)->dims[w->space + d]);
    Dim reach = ie_addc(p, ie_mulc(p, ie_addc(p, w->kernel[d], -1), w->dilation[d]), 1);
    Dim need = ie_add(p, ie_mulc(p, ie_addc(p, out, -1), w->stride[d]), reach);
    Dim total = ie_max(p, p->zero, ie_sub(p, need, w->in[d]));
    w->lo[d] = ie_div(p, ie_addc(p, total, at->auto_pad == PAD_SAME_LOWER), ie_const(p, 2));
  }
  Dim out = type_of(w->node)->dims[w->channel];
  w->channels = elem_dim(e, f->dims[w->last ? f->rank - 2 : 1]);
  w->first = p->zero;
  if (at->group == 1) return true;
  if (!ie_is_const(out) || !ie_is_const(w->channels) || out->value % at->group) return false;
  Dim group = ie_div(p, w->index[w->channel], ie_const(p, out->value / at->group));
  w->first = ie_mul(p, group, w->channels);
  return true;
}

// One tap of one channel; in the padding it is 0.
static const LoopExpr *tap_product(ConvSum *w) {
  Elem *e = w->e;
  IntPool *p = e->pool;
  Dim x[MAX_RANK], f[MAX_RANK];
  int before = e->nguards, taps = w->last ? 0 : 2;
  f[w->last ? w->nd : 1] = w->at;
  f[w->last ? w->nd + 1 : 0] = w->index[w->channel];
  x[0] = w->index[0];
  x[w->channel] = ie_add(p, w->first, w->at);
  for (int d = 0; d < w->nd; d++) f[taps + d] = w->tap[d];
  const LoopExpr *b = elem_at(e, w->node->src[1], f), *a = NULL;
  bool ok = b != NULL;
  for (int d = 0; d < w->nd && ok; d++) {
    Dim begin = ie_sub(p, ie_mulc(p, w->index[w->space + d], w->stride[d]), w->lo[d]);
    Dim place = ie_add(p, begin, ie_mulc(p, w->tap[d], w->dilation[d]));
    x[w->space + d] = elem_guard(e, place, w->in[d]);
    ok = x[w->space + d] != NULL;
  }
  if (ok) a = elem_at(e, w->node->src[0], x);
  if (a) {
    a = loop_op(e->k, LOOP_mul, loop_cast(e->k, w->acc, a), loop_cast(e->k, w->acc, b), NULL);
    a = elem_guarded(e, before, a, elem_number(e, w->acc, 0));  // whatever the weight is
  }
  elem_unguard(e, before);
  return a;
}

static const LoopExpr *sum_taps(ConvSum *w, int d) {
  Elem *e = w->e;
  if (d > w->nd) return tap_product(w);
  int64_t known = e->memo.n;
  Dim i = loop_reduce(&e->b, LOOP_add, "k", d ? w->kernel[d - 1] : w->channels, 1);
  if (d)
    w->tap[d - 1] = i;
  else
    w->at = i;
  const LoopExpr *x = sum_taps(w, d + 1);
  if (!x) return NULL;
  x = loop_yield(&e->b, x);
  e->memo.n = known;
  return x;
}

const LoopExpr *elem_conv(Elem *e, const Node *n, int result, const Dim *index) {
  ConvSum *w = arena_new(e->a, ConvSum);
  const Node *bias = src_or_null(e->lo->g, n, 2);
  (void)result;
  *w = (ConvSum){.e = e, .node = n, .index = index, .acc = elem_sum_dtype(type_of(n)->dtype)};
  if (!find_window(w)) return NULL;
  const LoopExpr *x = sum_taps(w, 0);
  if (!x) return NULL;
  x = loop_let(&e->b, x);
  if (bias) {
    const LoopExpr *b = elem_at(e, bias, &index[w->channel]);
    if (!b) return NULL;
    x = loop_op(e->k, LOOP_add, x, loop_cast(e->k, w->acc, b), NULL);
  }
  return loop_cast(e->k, type_of(n)->dtype, x);
}
