// build_ffn.c -- the feed-forward part of a layer: dense, or experts.
//
// Experts, on CPUs: each row goes through those that it chose alone, whose matrices are read where
// they are (mat_mul_blocks with group).  The sum over them has the order of their scores.
//
// Else every row goes through all of them, and the results are weighted with scores that are 0 for
// those that the row did not choose.  The sum over experts has their order.  Both orders are the
// same whatever the other rows are.
#include "models/build.h"

#include "eval/contract.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/norm.h"
#include "eval/reduce.h"
#include "eval/scalar.h"

// ---- gates ----

static Node *clipped(Build *b, Node *x, double least, double most) {
  if (least > -1e30) x = N(b->g, max, x, lm_number(b, least));
  return N(b->g, min, x, lm_number(b, most));
}

static Node *gated(Build *b, Node *gate, Node *up) {
  const LlmSpec *s = b->s;
  Graph *g = b->g;
  if (!(s->act_limit > 0)) return N(g, mul, lm_act(b, gate), up);
  gate = clipped(b, gate, -1e31, s->act_limit);
  up = clipped(b, up, -s->act_limit, s->act_limit);
  Node *glu = N(g, mul, gate, N(g, sigmoid, lm_scale(b, gate, s->act_alpha)));
  return N(g, mul, N(g, add, up, lm_number(b, 1)), glu);
}

// Both halves of a fused product along its last axis, which is number `axis`.
static void cut_gate_up(Build *b, Node *y, LlmGateUp form, int64_t axis, int64_t size, Node **out) {
  if (form == LLM_UP_CONCAT) {
    lm_split(b, y, axis, 2, (int64_t[]){size, size}, out);
    return;
  }
  Graph *g = b->g;
  Node *axes = node_i64s(g, 1, &axis), *two = node_i64s(g, 1, (int64_t[]){2});
  Node *end = node_i64s(g, 1, (int64_t[]){2 * size});
  for (int64_t i = 0; i < 2; i++) out[i] = N(g, slice, y, node_i64s(g, 1, &i), end, axes, two);
}

static Node *dense(Build *b, Node *x) {
  const LlmSpec *s = b->s;
  Node *part[2];
  if (!s->gated) return lm_linear(b, lm_act(b, lm_linear(b, x, LLM_ROLE_up)), LLM_ROLE_down);
  if (s->gate_up != LLM_UP_APART) {
    cut_gate_up(b, lm_linear(b, x, LLM_ROLE_gate_up), s->gate_up, 1, s->ffn, part);
  } else {
    part[0] = lm_linear(b, x, LLM_ROLE_gate);
    part[1] = lm_linear(b, x, LLM_ROLE_up);
  }
  return lm_linear(b, gated(b, part[0], part[1]), LLM_ROLE_down);
}

// ---- scores ----

static Node *summed(Build *b, Node *x, int64_t axis, bool keep) {
  reduce_attrs at = {.keepdims = keep};
  return NA(b->g, reduce_sum, &at, x, node_i64s(b->g, 1, &axis));
}

// The best k of the last axis: values (or NULL) and which.
static Node *best(Build *b, Node *x, int64_t k, Node **which) {
  Node *src[] = {x, node_i64s(b->g, 1, &k)};
  top_k_attrs at = {.axis = -1, .largest = true, .sorted = true};
  Node *n = node_new(b->g, OP_top_k, 2, src, &at, 2, NULL);
  *which = node_proj(b->g, n, 1);
  return node_proj(b->g, n, 0);
}

// [T, k] of indices below `size` as [T, k, size] of 0 and 1.
static Node *chosen(Build *b, Node *which, int64_t size) {
  Node *values = node_const(b->g, DT_F32, 1, (int64_t[]){2}, (float[]){0, 1}, NULL);
  return NA(b->g, one_hot, (&(one_hot_attrs){.axis = -1}), which, node_i64(b->g, size), values);
}

// Scores of experts whose group is not among the best become 0.
static Node *limit_groups(Build *b, Node *score) {
  const LlmMoe *m = &b->s->moe;
  Graph *g = b->g;
  if (m->groups == 1) return score;
  int64_t each = m->experts / m->groups;
  Node *by = RESHAPE(b, score, -1, m->groups, each), *which, *rank;
  if (m->group_rank == LLM_GROUP_TOP2)
    rank = summed(b, best(b, by, 2, &which), 2, false);
  else
    rank = NA(g, reduce_max, (&(reduce_attrs){.keepdims = false}), by,
              node_i64s(g, 1, (int64_t[]){2}));
  best(b, rank, m->top_groups, &which);
  Node *in = RESHAPE(b, summed(b, chosen(b, which, m->groups), 1, false), -1, m->groups, 1);
  Node *keep = N(g, lt, lm_number(b, 0.5), in);
  return RESHAPE(b, N(g, where, keep, by, lm_number(b, m->group_fill)), -1, m->experts);
}

// The experts that each row chose, [T, top_k], best first, and their weights.
static Node *choose(Build *b, Node *x, Node **chosen_ones) {
  const LlmMoe *m = &b->s->moe;
  Graph *g = b->g;
  gemm_attrs at = {.alpha = 1, .beta = 1, .transB = true};
  Node *score = NA(g, gemm, &at, x, lm_weight(b, LLM_ROLE_router, LLM_WEIGHT)), *which, *top;
  if (m->biases) score = N(g, add, score, lm_weight(b, LLM_ROLE_router, LLM_BIAS));
  softmax_attrs last = {.axis = -1};
  if (m->score == LLM_SOFTMAX) score = NA(g, softmax, &last, score);
  if (m->score == LLM_SIGMOID) score = N(g, sigmoid, score);
  Node *choice = score;
  if (m->bias) choice = N(g, add, score, lm_weight(b, LLM_ROLE_expert_bias, LLM_BIAS));
  top = best(b, limit_groups(b, choice), m->top_k, &which);
  if (m->bias) top = NA(g, gather_elements, (&(gather_elements_attrs){.axis = 1}), score, which);
  if (m->score == LLM_SOFTMAX_TOP) top = NA(g, softmax, &last, top);
  if (m->norm_top) top = N(g, div, top, summed(b, top, 1, true));
  *chosen_ones = which;
  return lm_scale(b, top, m->scale);
}

// Weights of all experts for each row, [T, experts]: 0 for those not chosen.
static Node *spread(Build *b, Node *top, Node *which) {
  const LlmMoe *m = &b->s->moe;
  Node *one = chosen(b, which, m->experts);
  return summed(b, N(b->g, mul, one, RESHAPE(b, top, -1, m->top_k, 1)), 1, false);
}

// ---- the chosen experts ----

// x [T, in] or [T, top_k, in] times the matrices of the chosen experts, [T, top_k, out]; NULL: it
// is not done so.
static Node *chosen_product(Build *b, Node *x, LlmRole role, Node *which) {
  const LlmMoe *m = &b->s->moe;
  Node *y = lm_expert_product(b, x, lm_slot(b, role, LLM_WEIGHT), which);
  if (!y || !m->biases) return y;
  Node *bias = lm_weight(b, role, LLM_BIAS);
  return N(b->g, add, y, NA(b->g, gather, (&(gather_attrs){.axis = 0}), bias, which));
}

static Node *chosen_experts(Build *b, Node *x, Node *top, Node *which) {
  const LlmMoe *m = &b->s->moe;
  Node *part[2], *y;
  if (m->gate_up != LLM_UP_APART) {
    if (!(y = chosen_product(b, x, LLM_ROLE_expert_gate_up, which))) return NULL;
    cut_gate_up(b, y, m->gate_up, 2, m->size, part);
  } else {
    part[0] = chosen_product(b, x, LLM_ROLE_expert_gate, which);
    part[1] = part[0] ? chosen_product(b, x, LLM_ROLE_expert_up, which) : NULL;
    if (!part[1]) return NULL;
  }
  y = chosen_product(b, gated(b, part[0], part[1]), LLM_ROLE_expert_down, which);
  return y ? summed(b, N(b->g, mul, y, RESHAPE(b, top, -1, m->top_k, 1)), 1, false) : NULL;
}

// ---- all experts ----

// x [T, in] times the matrices of all experts: [T, experts, out].
static Node *first_product(Build *b, Node *x, LlmRole role) {
  int64_t one = 1, in = b->s->moe.in_out ? 1 : 2;
  dot_attrs at = {.contract_lhs = {1, &one}, .contract_rhs = {1, &in}};
  Node *y = NA(b->g, dot, &at, x, lm_weight(b, role, LLM_WEIGHT));
  return b->s->moe.biases ? N(b->g, add, y, lm_weight(b, role, LLM_BIAS)) : y;
}

// h [T, experts, size] times the matrices of its own expert: [experts, T, out].
static Node *second_product(Build *b, Node *h) {
  const LlmMoe *m = &b->s->moe;
  int64_t zero = 0, one = 1, two = 2, in = m->in_out ? 1 : 2;
  dot_attrs at = {.batch_lhs = {1, &one},
                  .batch_rhs = {1, &zero},
                  .contract_lhs = {1, &two},
                  .contract_rhs = {1, &in}};
  Node *y = NA(b->g, dot, &at, h, lm_weight(b, LLM_ROLE_expert_down, LLM_WEIGHT));
  if (!m->biases) return y;
  Node *bias = lm_weight(b, LLM_ROLE_expert_down, LLM_BIAS);
  return N(b->g, add, y, RESHAPE(b, bias, m->experts, 1, b->s->hidden));
}

static Node *shared(Build *b, Node *x) {
  Node *y = gated(b, lm_linear(b, x, LLM_ROLE_shared_gate), lm_linear(b, x, LLM_ROLE_shared_up));
  y = lm_linear(b, y, LLM_ROLE_shared_down);
  if (!b->s->moe.shared_gate) return y;
  Node *w = RESHAPE(b, lm_weight(b, LLM_ROLE_shared_router, LLM_WEIGHT), 1, b->s->hidden);
  gemm_attrs at = {.alpha = 1, .beta = 1, .transB = true};
  return N(b->g, mul, y, N(b->g, sigmoid, NA(b->g, gemm, &at, x, w)));
}

static Node *all_experts(Build *b, Node *x, Node *top, Node *which) {
  const LlmMoe *m = &b->s->moe;
  Node *part[2];
  if (m->gate_up != LLM_UP_APART) {
    cut_gate_up(b, first_product(b, x, LLM_ROLE_expert_gate_up), m->gate_up, 2, m->size, part);
  } else {
    part[0] = first_product(b, x, LLM_ROLE_expert_gate);
    part[1] = first_product(b, x, LLM_ROLE_expert_up);
  }
  Node *y = second_product(b, gated(b, part[0], part[1]));
  Node *w = TRANSPOSE(b, spread(b, top, which), 1, 0);
  return summed(b, N(b->g, mul, y, RESHAPE(b, w, m->experts, -1, 1)), 0, false);
}

static Node *experts(Build *b, Node *x) {
  Node *which, *top = choose(b, x, &which), *y = chosen_experts(b, x, top, which);
  if (!y) y = all_experts(b, x, top, which);
  return b->s->moe.shared ? N(b->g, add, y, shared(b, x)) : y;
}

Node *lm_ffn(Build *b, Node *x) {
  return b->s->layer[b->layer].ffn == LLM_MOE ? experts(b, x) : dense(b, x);
}
