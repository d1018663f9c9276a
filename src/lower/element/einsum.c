// einsum.c -- einsum element by element, where the contraction templates do not match.
//
// Takes any number of operands up to EINSUM_MAX_OPERANDS, and repeated labels (diagonals).  Each
// element of the result is a nest of reduction loops of its own, so nothing is reused.
//
// Needs:      ranked operands; sizes of one label are equal or 1, as far as symbols can show it.
// Guarantees: NULL where a size or operand has no expression.  Terms are added in order; sums of
//             16-bit floats are formed in f32 and rounded once.  Sizes may be dynamic.
#include "lower/element/element.h"

#include "eval/contract.h"
#include "ir/internal.h"

typedef struct Sums {
  ElementBuilder *e;
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
  ElementBuilder *e = s->e;
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
  ElementBuilder *e = s->e;
  if (i == s->nsummed) return product(s);
  int64_t known = e->memo.n;  // what is defined in the loop is not to be used after it
  s->at[s->summed[i]] = loop_reduce(&e->b, LOOP_add, "k", elem_dim(e, s->size[s->summed[i]]), 1);
  const LoopExpr *x = sum_over(s, i + 1);
  if (!x) return NULL;
  x = loop_yield(&e->b, x);
  e->memo.n = known;
  return x;
}

const LoopExpr *elem_einsum(ElementBuilder *e, const Node *n, int result, const Dim *index) {
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
