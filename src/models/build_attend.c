// build_attend.c -- attention of rows to their sequence: one sequence as a whole, or pages.
#include "models/build.h"

#include "eval/attention.h"
#include "eval/movement.h"
#include "eval/norm.h"
#include "eval/reduce.h"
#include "eval/scalar.h"

#include <math.h>

// Slopes of ALiBi: powers of 2^(-8 / n), n the power of two at or below the heads; then every
// other one of twice as many.
static Node *slopes(Build *b) {
  if (b->slopes) return b->slopes;
  int64_t heads = b->s->heads, n = 1;
  while (n * 2 <= heads) n *= 2;
  float *v = arena_array(&b->g->scratch, float, heads);
  for (int64_t i = 0; i < heads; i++)
    v[i] = i < n ? (float)pow(2, -8.0 * (double)(i + 1) / (double)n)
                 : (float)pow(2, -4.0 * (double)(2 * (i - n) + 1) / (double)n);
  b->slopes = node_const(b->g, DT_F32, 1, &heads, v, NULL);
  return b->slopes;
}

// Key position less query position, [T, T].
static Node *distance(Build *b) {
  return N(b->g, sub, RESHAPE(b, b->position, 1, -1), RESHAPE(b, b->position, -1, 1));
}

// 0 where a query sees a key, else minus infinity: [T, T].
static Node *mask(Build *b, int64_t window) {
  Graph *g = b->g;
  Node *d = distance(b), *zero = lm_number(b, 0);
  Node *hidden = N(g, lt, zero, d);
  if (window) hidden = N(g, or, hidden, N(g, le, d, lm_number(b, -(double)window)));
  return N(g, where, hidden, lm_number(b, -INFINITY), zero);
}

// ---- one sequence ----

// A logit per head joins the softmax and is dropped: written out, since `attention` has no such
// operand.
static Node *attend_sinks(Build *b, Node *q, Node *k, Node *v) {
  const LlmSpec *s = b->s;
  Graph *g = b->g;
  int64_t kv = s->kv_heads, group = s->heads / kv, d = s->head_size;
  Node *q4 = TRANSPOSE(b, RESHAPE(b, q, -1, kv, group, d), 1, 2, 0, 3);
  Node *k4 = RESHAPE(b, TRANSPOSE(b, k, 1, 2, 0), kv, 1, d, -1);
  Node *v4 = RESHAPE(b, TRANSPOSE(b, v, 1, 0, 2), kv, 1, -1, s->value_size);
  Node *score = lm_scale(b, N(g, mat_mul, q4, k4), s->attention_scale);
  score = lm_cap(b, score, s->attention_cap);
  score = N(g, add, score, mask(b, s->layer[b->layer].window));
  Node *sink = RESHAPE(b, lm_weight(b, LLM_ROLE_sinks, LLM_WEIGHT), kv, group, 1, 1);
  Node *zero = RESHAPE(b, N(g, mul, b->position, lm_number(b, 0)), 1, 1, -1, 1);
  concat_attrs last = {.axis = 3};
  Node *all = NA(g, concat, &last, score, N(g, add, sink, zero));
  Node *p = NA(g, softmax, (&(softmax_attrs){.axis = -1}), all);
  Node *end = node_i64s(g, 1, (int64_t[]){-1});
  p = N(g, slice, p, node_i64s(g, 1, (int64_t[]){0}), end, end);
  Node *y = TRANSPOSE(b, N(g, mat_mul, p, v4), 2, 0, 1, 3);
  return RESHAPE(b, y, -1, s->heads * s->value_size);
}

static Node *attend_plain(Build *b, Node *q, Node *k, Node *v) {
  const LlmSpec *s = b->s;
  Graph *g = b->g;
  int64_t window = s->layer[b->layer].window;
  if (s->sinks) return attend_sinks(b, q, k, v);
  attention_attrs at = {.is_causal = !s->encoder,
                        .q_num_heads = s->heads,
                        .kv_num_heads = s->kv_heads,
                        .scale = s->attention_scale,
                        .softcap = s->attention_cap,
                        .left_window_size = window ? window - 1 : -1,
                        .right_window_size = -1};
  Node *q3 = RESHAPE(b, q, 1, -1, s->heads * s->head_size);
  Node *k3 = RESHAPE(b, k, 1, -1, s->kv_heads * s->head_size);
  Node *v3 = RESHAPE(b, v, 1, -1, s->kv_heads * s->value_size);
  Node *y;
  if (s->alibi) {
    Node *by = N(g, mul, RESHAPE(b, slopes(b), s->heads, 1, 1), distance(b));
    y = NA(g, attention, &at, q3, k3, v3, N(g, unsqueeze, by, node_i64s(g, 1, (int64_t[]){0})));
  } else {
    y = NA(g, attention, &at, q3, k3, v3);
  }
  return RESHAPE(b, y, -1, s->heads * s->value_size);
}

// ---- pages ----

static Node *state(Build *b, const char *letter, DType t, int64_t size) {
  Graph *g = b->g;
  Dim dims[] = {ie_sym(&g->dims, STR("N"), 1, LLM_SIZE_MAX), ie_const(&g->dims, b->s->kv_heads),
                ie_const(&g->dims, LLM_PAGE), ie_const(&g->dims, size)};
  const char *name = str_printf(&g->arena, "%s.%lld", letter, (long long)b->layer);
  Node *n = node_state(g, type_tensor(g, t, 4, dims), name);
  vec_push(&g->arena, &b->param, n);
  return n;
}

// Keys or values of all sequences, with those of this step.
typedef struct Cache {
  Node *all, *scale;  // scale: of i8
} Cache;

// Codes of -127 to 127 of each head of a row, and its scale: the largest magnitude / 127.  What is
// below 2^-90 is 0, so that no scale is subnormal.
static Cache in_8_bits(Build *b, Node *x) {
  Graph *g = b->g;
  Node *size = N(g, abs, x), *axis = node_i64s(g, 1, (int64_t[]){2});
  Node *most = NA(g, reduce_max, (&(reduce_attrs){.keepdims = true}), size, axis);
  Node *none = N(g, lt, most, lm_number(b, 0x1p-90)), *zero = lm_number(b, 0);
  Node *scale = N(g, where, none, zero, N(g, div, most, lm_number(b, 127)));
  Node *by = N(g, where, none, zero, N(g, div, lm_number(b, 127), most));
  Node *code = N(g, round, N(g, mul, x, by));
  code = N(g, min, N(g, max, code, lm_number(b, -127)), lm_number(b, 127));
  return (Cache){NA(g, cast, (&(cast_attrs){.to = DT_I8}), code), scale};
}

static Cache cached(Build *b, const char *letter, Node *x, int64_t size) {
  Graph *g = b->g;
  DType t = b->o->kv ? b->o->kv : DT_F32;
  Node *all = state(b, letter, t, size);
  if (t != DT_I8) return (Cache){N(g, kv_append, all, x, b->slot), g->none};
  Node *scales = state(b, str_printf(&g->arena, "%s_scale", letter), DT_F32, 1);
  Cache row = in_8_bits(b, x);
  return (Cache){N(g, kv_append, all, row.all, b->slot),
                 N(g, kv_append, scales, row.scale, b->slot)};
}

static Node *attend_paged(Build *b, Node *q, Node *k, Node *v) {
  const LlmSpec *s = b->s;
  Graph *g = b->g;
  Cache keys = cached(b, "k", k, s->head_size), values = cached(b, "v", v, s->value_size);
  paged_attention_attrs at = {.scale = s->attention_scale,
                              .window = s->layer[b->layer].window,
                              .softcap = s->attention_cap};
  Node *sinks = s->sinks ? lm_weight(b, LLM_ROLE_sinks, LLM_WEIGHT) : g->none;
  // An encoder's row sees all keys of its sequence, which are appended by now.
  Node *upto = s->encoder ? b->last : b->pos;
  Node *src[] = {q,          keys.all,    values.all, b->seq,
                 upto,       b->table,    sinks,      s->alibi ? slopes(b) : g->none,
                 keys.scale, values.scale};
  int n = keys.scale != g->none ? 10 : s->alibi ? 8 : s->sinks ? 7 : 6;
  Node *y = node_new(g, OP_paged_attention, n, src, &at, 1, NULL);
  return RESHAPE(b, y, -1, s->heads * s->value_size);
}

Node *lm_attend(Build *b, Node *q, Node *k, Node *v) {
  return b->paged ? attend_paged(b, q, k, v) : attend_plain(b, q, k, v);
}
