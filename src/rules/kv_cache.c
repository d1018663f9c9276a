// kv_cache.c -- KV cache: past keys and values of an attention, and the present ones that it
// returns.
//
// Present keys and values are a concatenation, in which nothing is computed.  Outside the attention
// it is a kernel of its own, or none where the parts are written into one buffer; the attention
// then has one result, which templates need.
//
// GPUs read keys as one matrix: there the attention reads the concatenation (rules_kv_cache).
#include "eval/attention.h"
#include "eval/movement.h"
#include "ir/internal.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

enum { Q, K, V, MASK, PAST_K, PAST_V };

// [batch, seq, heads * size] as [batch, heads, seq, size]; NULL where the size is no number.
static Node *by_heads(Graph *g, Node *x, int64_t heads) {
  const Type *t = type_of(x);
  if (t->rank == 4) return x;
  if (t->rank != 3 || !ie_is_const(t->dims[2]) || heads < 1) return NULL;
  reshape_attrs split = {.allowzero = false};
  Node *to = node_i64s(g, 4, (int64_t[]){0, 0, heads, t->dims[2]->value / heads});
  return transpose_to(g, NA(g, reshape, &split, x, to), 4, (int64_t[]){0, 2, 1, 3});
}

static Node *joined(Graph *g, const Node *n, int of, int past) {
  const attention_attrs *at = n->attrs;
  Node *now = by_heads(g, n->src[of], at->kv_num_heads), *before = src_or_null(g, n, past);
  return now && before ? NA(g, concat, (&(concat_attrs){.axis = 2}), before, now) : now;
}

// Where the scores are a result as well, the attention stays as it is.
static Node *present(Graph *g, const Match *m) {
  const Node *n = m->root->src[0];
  int64_t index = ((const proj_attrs *)m->root->attrs)->index;
  if (n->op != OP_attention || n->nres > 3) return NULL;
  if (index > 0) return joined(g, n, index == 1 ? K : V, index == 1 ? PAST_K : PAST_V);
  return node_new(g, OP_attention, (int)n->nsrc, n->src, n->attrs, 1, n->name);
}

// Query 0 comes after all past keys.  That is where the last query stands at the last key only if
// there are as many queries as keys at hand.
static bool stands_at_end(Graph *g, const attention_attrs *at, const Node *q, const Node *k) {
  bool by_place = at->is_causal || at->left_window_size >= 0 || at->right_window_size >= 0;
  return !by_place || ie_eq(&g->dims, type_of(q)->dims[2], type_of(k)->dims[2]) == YES;
}

static Node *join_kv_cache(Graph *g, const Match *m) {
  const Node *n = m->root;
  attention_attrs at = *(const attention_attrs *)n->attrs;
  if (n->nres != 1 || !src_or_null(g, n, PAST_K)) return NULL;
  Node *q = by_heads(g, n->src[Q], at.q_num_heads);
  const Node *now = by_heads(g, n->src[K], at.kv_num_heads);
  if (!q || !now || !stands_at_end(g, &at, q, now)) return NULL;
  Node *k = joined(g, n, K, PAST_K), *v = joined(g, n, V, PAST_V);
  if (!k || !v) return NULL;
  Node *src[] = {q, k, v, n->src[MASK]};
  at.at_end = true;
  at.q_num_heads = at.kv_num_heads = 0;
  Node *y = node_new(g, OP_attention, n->src[MASK] == g->none ? 3 : 4, src, &at, 1, n->name);
  if (type_of(n)->rank == 4 || g->status) return y;
  return reshape_to(g, transpose_to(g, y, 4, (int64_t[]){0, 2, 1, 3}), type_of(n));
}

#define QKV                                                                                        \
  "(%q: f32[2, 4, s, 8], %k: f32[2, 2, s, 8], %v: f32[2, 2, s, 8], %o: f32[2, 2, p, 8], %w: "      \
  "f32[2, 2, p, 8]) { "
#define FLAT                                                                                       \
  "(%q: f32[2, s, 32], %k: f32[2, s, 16], %v: f32[2, s, 16], %o: f32[2, 2, p, 8], %w: f32[2, 2, "  \
  "p, 8]) { "

static const Rule kv_present[] = {
    // clang-format off
    RULE("proj.present", P(proj, a), .make = present,
         .example = QKV "%a:3 = attention(%q, %k, %v, _, %o, %w) is_causal=true %x = concat(%a.0, %a.1) axis=1 %r = concat(%x, %a.2) axis=1 return %r }"),
    // clang-format on
};
const RuleSet rules_kv_present = RULES("kv_present", kv_present, "an attention has fewer results");

static const Rule kv_cache[] = {
    // clang-format off
    RULE("attention.past", ANY(attention), .make = join_kv_cache,
         .example = FLAT "%r = attention(%q, %k, %v, _, %o, %w) is_causal=true q_num_heads=4 kv_num_heads=2 left_window_size=3 return %r }"),
    // clang-format on
};
const RuleSet rules_kv_cache =
    RULES("kv_cache", kv_cache, "an attention has no past key and value any more");
