// build.c -- a graph of logits from a spec and its tensors (llm.h).
//
// The builder looks at the spec alone.  Weights are constants that refer to the mapped files; what
// is not f32 is cast, and fused products are split behind the product, so that no weight is copied.
#include "models/quant.h"

#include "eval/activation.h"
#include "eval/contract.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/norm.h"
#include "eval/scalar.h"

// ---- pieces ----

Node *lm_number(Build *b, double v) { return node_scalar(b->g, DT_F32, v); }

Node *lm_reshape(Build *b, Node *x, int rank, const int64_t *dims) {
  return N(b->g, reshape, x, node_i64s(b->g, rank, dims));
}

Node *lm_transpose(Build *b, Node *x, int64_t n, const int64_t *perm) {
  return NA(b->g, transpose, &((transpose_attrs){.perm = {n, (int64_t *)perm}}), x);
}

Node *lm_scale(Build *b, Node *x, double by) {
  return by == 1 ? x : N(b->g, mul, x, lm_number(b, by));
}

void lm_split(Build *b, Node *x, int64_t axis, int n, const int64_t *size, Node **out) {
  Node *src[] = {x, node_i64s(b->g, n, size)};
  Node *parts = node_new(b->g, OP_split, 2, src, &(split_attrs){.axis = axis}, n, NULL);
  for (int i = 0; i < n; i++) out[i] = node_proj(b->g, parts, i);
}

Node *lm_repeat(Build *b, Node *x, int64_t heads, int64_t n, int64_t size) {
  if (n == 1) return x;
  float *one = arena_array(&b->g->scratch, float, n);
  for (int64_t i = 0; i < n; i++) one[i] = 1;
  Node *ones = node_const(b->g, DT_F32, 4, (int64_t[]){1, 1, n, 1}, one, NULL);
  Node *y = N(b->g, mul, RESHAPE(b, x, -1, heads, 1, size), ones);
  return RESHAPE(b, y, -1, heads * n, size);
}

// ---- weights ----

const LlmSlot *lm_slot(const Build *b, LlmRole role, LlmPart part) {
  return llm_slot(b->m, role, part, llm_role[role].place == LLM_OF_MODEL ? -1 : b->layer);
}

bool lm_has(const Build *b, LlmRole role, LlmPart part) {
  const LlmSlot *s = lm_slot(b, role, part);
  return s->w || s->n;
}

static Node *one_weight(Build *b, const Weight *w) {
  return weights_attach(b->g, (Weights *)b->m->weights, str_of(w->name), DT_F32, w->rank, w->dims,
                        NOWHERE);
}

// Tensors of single experts or heads, one behind the other.
static Node *stacked(Build *b, const LlmSlot *s) {
  Node **part = arena_array(&b->g->scratch, Node *, s->n);
  for (int64_t i = 0; i < s->n; i++) {
    const Weight *w = s->by[i];
    int64_t dims[MAX_RANK] = {1};
    memcpy(dims + 1, w->dims, (size_t)w->rank * sizeof *dims);
    part[i] = lm_reshape(b, one_weight(b, w), w->rank + 1, dims);
  }
  return node_new(b->g, OP_concat, (int)s->n, part, &(concat_attrs){.axis = 0}, 1, NULL);
}

Node *lm_weight(Build *b, LlmRole role, LlmPart part) {
  const LlmSlot *s = lm_slot(b, role, part);
  if (s->n) return stacked(b, s);
  if (!s->w)
    return graph_fail(b->g, TENON_EINTERNAL, NOWHERE, "the tensor of '%s' was not asked for",
                      llm_role[role].name);
  return one_weight(b, s->w);
}

Node *lm_product(Build *b, Node *x, LlmRole role) {
  const LlmSlot *s = lm_slot(b, role, LLM_WEIGHT);
  Node *y = s->w ? lm_block_product(b, x, s->w) : NULL;
  if (!y && s->w) y = lm_packed_product(b, x, s->w);
  if (y) return y;
  gemm_attrs at = {.alpha = 1, .beta = 1, .transB = true};
  return NA(b->g, gemm, &at, x, lm_weight(b, role, LLM_WEIGHT));
}

Node *lm_rows(Build *b, LlmRole role, Node *ids) {
  const LlmSlot *s = lm_slot(b, role, LLM_WEIGHT);
  Node *y = s->w ? lm_block_rows(b, s->w, ids) : NULL;
  if (y) return y;
  return NA(b->g, gather, (&(gather_attrs){.axis = 0}), lm_weight(b, role, LLM_WEIGHT), ids);
}

Node *lm_linear(Build *b, Node *x, LlmRole role) {
  bool in_out = b->s->in_out && llm_role[role].place != LLM_OF_MODEL;
  Node *y = in_out ? N(b->g, mat_mul, x, lm_weight(b, role, LLM_WEIGHT)) : lm_product(b, x, role);
  y = lm_adapted(b, x, y, role);
  return lm_has(b, role, LLM_BIAS) ? N(b->g, add, y, lm_weight(b, role, LLM_BIAS)) : y;
}

Node *lm_norm(Build *b, Node *x, LlmRole role) {
  const LlmSpec *s = b->s;
  Node *w = lm_weight(b, role, LLM_WEIGHT);
  if (s->norm_plus_one) w = N(b->g, add, w, lm_number(b, 1));
  if (s->norm == LLM_RMS) {
    rms_normalization_attrs at = {.axis = -1, .epsilon = s->epsilon, .stash_type = 1};
    return NA(b->g, rms_normalization, &at, x, w);
  }
  layer_normalization_attrs at = {.axis = -1, .epsilon = s->epsilon, .stash_type = 1};
  if (!lm_has(b, role, LLM_BIAS)) return NA(b->g, layer_normalization, &at, x, w);
  return NA(b->g, layer_normalization, &at, x, w, lm_weight(b, role, LLM_BIAS));
}

Node *lm_act(Build *b, Node *x) {
  Graph *g = b->g;
  switch (b->s->act) {
  case LLM_SILU: return NA(g, swish, (&(swish_attrs){.alpha = 1}), x);
  case LLM_GELU: return NA(g, gelu, (&(gelu_attrs){.approximate = 0}), x);
  case LLM_GELU_TANH: return NA(g, gelu, (&(gelu_attrs){.approximate = 1}), x);
  case LLM_RELU: return N(g, relu, x);
  case LLM_RELU2: {
    Node *y = N(g, relu, x);
    return N(g, mul, y, y);
  }
  }
  return x;
}

Node *lm_cap(Build *b, Node *x, double cap) {
  if (!(cap > 0)) return x;
  return lm_scale(b, N(b->g, tanh, lm_scale(b, x, 1 / cap)), cap);
}

// ---- inputs ----

static Node *input(Build *b, DType t, int rank, const Dim *dims, const char *name) {
  Node *n = node_param(b->g, type_tensor(b->g, t, rank, dims), name);
  vec_push(&b->g->arena, &b->param, n);
  return n;
}

static bool embeds(const Build *b) { return b->paged && (b->o->embed || llm_headless(b->s)); }

static void make_inputs(Build *b) {
  Graph *g = b->g;
  Dim rows = ie_sym(&g->dims, STR("T"), 1, LLM_SIZE_MAX);
  b->ids = input(b, DT_I32, 1, &rows, "ids");
  if (b->paged) {
    Dim table[] = {ie_sym(&g->dims, STR("S"), 1, LLM_SIZE_MAX),
                   ie_sym(&g->dims, STR("P"), 1, LLM_SIZE_MAX)};
    Dim wanted = ie_sym(&g->dims, STR("R"), 0, LLM_SIZE_MAX);
    b->pos = input(b, DT_I32, 1, &rows, "pos");
    b->seq = input(b, DT_I32, 1, &rows, "seq");
    b->slot = input(b, DT_I32, 1, &rows, "slot");
    b->table = input(b, DT_I32, 2, table, "table");
    if (!llm_headless(b->s)) b->out = input(b, DT_I32, 1, &wanted, "out");
    if (llm_state_bytes(b->s)) {
      b->from = input(b, DT_I32, 1, table, "from");
      b->to = input(b, DT_I32, 1, table, "to");
    }
    if (b->s->encoder) {
      b->last = input(b, DT_I32, 1, &rows, "last");
      b->type = input(b, DT_I32, 1, &rows, "type");
    }
    Dim picked = ie_sym(&g->dims, STR("E"), 0, LLM_SIZE_MAX);
    if (embeds(b)) b->pick = input(b, DT_I32, 1, &picked, "pick");
    if (b->o->adapters) b->adapter = input(b, DT_I32, 1, &rows, "adapter");
  } else {
    Node *n = N(g, size, b->ids);
    b->pos = N(g, range, node_i64(g, 0), n, node_i64(g, 1));
  }
}

// ---- layers ----

static Node *mixer(Build *b, Node *x) {
  LlmMixer m = b->s->layer[b->layer].mixer;
  return m == LLM_ATTENTION || m == LLM_MLA ? lm_attention(b, x) : lm_recurrent(b, x);
}

static Node *joined(Build *b, Node *x, Node *y) {
  return N(b->g, add, x, lm_scale(b, y, b->s->residual_scale));
}

// Norms behind both parts, of the sums.
static Node *layer_of_sums(Build *b, Node *x) {
  x = lm_norm(b, joined(b, x, mixer(b, x)), LLM_ROLE_attn_post_norm);
  return lm_norm(b, joined(b, x, lm_ffn(b, x)), LLM_ROLE_ffn_post_norm);
}

static Node *layer(Build *b, Node *x) {
  const LlmSpec *s = b->s;
  if (s->norm_sum) return layer_of_sums(b, x);
  bool ffn = s->layer[b->layer].ffn != LLM_NO_FFN;
  Node *in = s->attn_norm ? lm_norm(b, x, LLM_ROLE_attn_norm) : x;
  Node *a = mixer(b, in);
  if (s->attn_post_norm) a = lm_norm(b, a, LLM_ROLE_attn_post_norm);
  if (!ffn) return joined(b, x, a);
  Node *y = s->parallel ? x : joined(b, x, a);
  Node *from = s->ffn_norm ? lm_norm(b, y, LLM_ROLE_ffn_norm) : s->parallel ? in : y;
  Node *f = lm_ffn(b, from);
  if (s->ffn_post_norm) f = lm_norm(b, f, LLM_ROLE_ffn_post_norm);
  if (s->parallel) f = N(b->g, add, f, a);
  return joined(b, y, f);
}

// Rows of the table of positions.
static Node *place(Build *b) {
  if (!b->s->position_offset) return b->pos;
  DType t = b->paged ? DT_I32 : DT_I64;
  return N(b->g, add, b->pos, node_scalar(b->g, t, (double)b->s->position_offset));
}

static Node *embedded(Build *b) {
  const LlmSpec *s = b->s;
  Node *x = lm_scale(b, lm_rows(b, LLM_ROLE_embed, b->ids), s->embed_scale);
  if (s->types) {
    Node *type = b->paged ? b->type : N(b->g, sub, b->ids, b->ids);
    x = N(b->g, add, x, lm_rows(b, LLM_ROLE_types, type));
  }
  if (s->positions) x = N(b->g, add, x, lm_rows(b, LLM_ROLE_positions, place(b)));
  return s->embed_norm ? lm_norm(b, x, LLM_ROLE_embed_norm) : x;
}

static Node *chosen(Build *b, Node *x, Node *which) {
  if (b->paged) x = NA(b->g, gather, (&(gather_attrs){.axis = 0}), x, which);
  return b->s->final_norm ? lm_norm(b, x, LLM_ROLE_final_norm) : x;
}

// Of rows that stand for their texts.
static Node *scores(Build *b, Node *x) {
  if (b->s->pooler) x = lm_linear(b, x, LLM_ROLE_pooler);
  if (b->s->pooler == LLM_HEAD_TANH) x = N(b->g, tanh, x);
  if (b->s->pooler == LLM_HEAD_RELU) x = N(b->g, relu, x);
  return lm_linear(b, x, LLM_ROLE_classifier);
}

static void result(Build *b, Node *y, const char *name) {
  vec_push(&b->g->scratch, &b->result, y);
  vec_push(&b->g->scratch, &b->name, name);
}

static Node *logits(Build *b, Node *x) {
  const LlmSpec *s = b->s;
  x = chosen(b, x, b->out);
  Node *y = lm_product(b, x, s->tied ? LLM_ROLE_embed : LLM_ROLE_head);
  if (s->head_bias) y = N(b->g, add, y, lm_weight(b, LLM_ROLE_head, LLM_BIAS));
  return lm_cap(b, lm_scale(b, y, s->logits_scale), s->logits_cap);
}

static void results(Build *b, Node *x) {
  bool plain = !b->paged && (b->o->hidden || llm_headless(b->s));
  if (!llm_headless(b->s) && !plain) result(b, logits(b, x), "logits");
  if (!plain && !embeds(b)) return;
  Node *rows = chosen(b, x, b->pick);
  result(b, rows, "hidden");
  if (b->s->classify && !plain) result(b, scores(b, rows), "scores");
}

static void finish(Build *b) {
  Graph *g = b->g;
  if (g->status) return;
  int64_t named = b->name.n;
  for (int64_t i = 0; i < b->next.n; i++) vec_push(&g->scratch, &b->result, b->next.v[i]);
  Body *main = body_new(g, "main", b->param.n, b->param.v, b->result.n, b->result.v);
  if (g->status) return;
  for (int64_t i = 0; i < named; i++) main->result_name[i] = b->name.v[i];
  g->main = main;
  g->body.n--;  // main is not among the bodies of control flow
}

tenon_status llm_build(const LlmModel *m, const LlmBuildOptions *o, Graph *g) {
  static const LlmBuildOptions plain = {0};
  Build b = {.g = g, .m = m, .s = &m->spec, .o = o ? o : &plain, .layer = -1};
  b.paged = b.o->form == LLM_PAGED;
  make_inputs(&b);
  b.position = NA(g, cast, (&(cast_attrs){.to = DT_F32}), b.pos);
  Node *x = embedded(&b);
  for (b.layer = 0; b.layer < m->spec.layers && !g->status; b.layer++) x = layer(&b, x);
  b.layer = -1;
  results(&b, x);
  finish(&b);
  return g->status;
}

bool llm_headless(const LlmSpec *s) { return s->encoder || s->base; }

int64_t llm_page_bytes(const LlmSpec *s, DType kv) {
  int64_t each = dtype_bits(kv ? kv : DT_F32) / 8, layers = 0, scales = kv == DT_I8 ? 8 : 0;
  for (int64_t i = 0; i < s->layers; i++) layers += s->layer[i].mixer <= LLM_MLA;
  return layers * LLM_PAGE * s->kv_heads * ((s->head_size + s->value_size) * each + scales);
}
