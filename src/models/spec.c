// spec.c -- what a row of an architecture says, and the verifier of a spec (llm.h).
#include "models/spec.h"

#include <math.h>

bool llm_act_of(Str name, LlmAct *out) {
  static const struct {
    const char *name;
    LlmAct act;
  } acts[] = {{"silu", LLM_SILU},
              {"swish", LLM_SILU},
              {"gelu", LLM_GELU},
              {"gelu_new", LLM_GELU_TANH},
              {"gelu_pytorch_tanh", LLM_GELU_TANH},
              {"gelu_fast", LLM_GELU_TANH},
              {"relu", LLM_RELU},
              {"relu2", LLM_RELU2}};
  for (int64_t i = 0; i < ARRAY_LEN(acts); i++)
    if (str_is(name, acts[i].name)) {
      *out = acts[i].act;
      return true;
    }
  return false;
}

static void norms_of_block(LlmBlock b, LlmSpec *s) {
  s->norm_sum = b == BLOCK_SUM;
  s->attn_norm = b != BLOCK_POST && !s->norm_sum;
  s->attn_post_norm = b == BLOCK_POST || b == BLOCK_SANDWICH || s->norm_sum;
  s->ffn_norm = b == BLOCK_PRE || b == BLOCK_SANDWICH || b == BLOCK_PARALLEL2;
  s->ffn_post_norm = s->attn_post_norm;
  s->final_norm = !s->norm_sum;
  s->parallel = b == BLOCK_PARALLEL || b == BLOCK_PARALLEL2;
}

void llm_spec_of_row(Arena *a, const LlmArch *row, LlmSpec *s) {
  *s = (LlmSpec){.name = row->name,
                 .row = row,
                 .norm = row->norm,
                 .epsilon = row->epsilon,
                 .norm_bias = row->norm_bias,
                 .qk_norm = row->qk_norm,
                 .qk_norm_bias = row->norm_bias,
                 .embed_norm = row->embed_norm,
                 .q_gate = row->q_gate,
                 .sinks = row->sinks,
                 .encoder = row->encoder,
                 .pooler = row->pooler,
                 .alibi = row->alibi,
                 .act = row->act,
                 .gated = row->gated,
                 .act_alpha = 1,
                 .embed_scale = 1,
                 .residual_scale = 1,
                 .logits_scale = 1};
  norms_of_block(row->block, s);
  (void)a;
}

tenon_status llm_spec_layers(Arena *a, LlmSpec *s, Diag *d) {
  if (s->layers < 1 || s->layers > LLM_LAYERS_MAX)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "%lld layers, must be 1 to %d",
                (long long)s->layers, LLM_LAYERS_MAX);
  s->layer = arena_array(a, LlmLayer, s->layers);
  for (int64_t i = 0; i < s->layers; i++)
    s->layer[i] = (LlmLayer){.mixer = s->row->mixer,
                             .ffn = s->row->block == BLOCK_MIXER ? LLM_NO_FFN
                                    : s->row->moe                ? LLM_MOE
                                                                 : LLM_DENSE,
                             .rope = s->row->ropes == ROPE_NONE ? -1 : 0};
  return TENON_OK;
}

// ---- the verifier ----

typedef struct Bound {
  const char *what;
  int64_t value, least, most;
} Bound;

static tenon_status check_bounds(const Bound *b, int64_t n, Diag *d) {
  for (int64_t i = 0; i < n; i++)
    if (b[i].value < b[i].least || b[i].value > b[i].most)
      return fail(d, TENON_EUNSUPPORTED, NOWHERE, "the %s is %lld, must be %lld to %lld", b[i].what,
                  (long long)b[i].value, (long long)b[i].least, (long long)b[i].most);
  return TENON_OK;
}

static bool has_mixer(const LlmSpec *s, LlmMixer m) {
  for (int64_t i = 0; i < s->layers; i++)
    if (s->layer[i].mixer == m) return true;
  return false;
}
static bool has_ffn(const LlmSpec *s, LlmFfn f) {
  for (int64_t i = 0; i < s->layers; i++)
    if (s->layer[i].ffn == f) return true;
  return false;
}

static tenon_status verify_attention(const LlmSpec *s, Diag *d) {
  const Bound b[] = {{"number of heads", s->heads, 1, LLM_HEADS_MAX},
                     {"number of heads of keys", s->kv_heads, 1, LLM_HEADS_MAX},
                     {"head size", s->head_size, 1, 1 << 16},
                     {"head size of values", s->value_size, 1, 1 << 16}};
  TRY(check_bounds(b, ARRAY_LEN(b), d));
  if (s->heads % s->kv_heads)
    return fail(d, TENON_EFORMAT, NOWHERE,
                "%lld heads of queries cannot share %lld heads of keys and values",
                (long long)s->heads, (long long)s->kv_heads);
  for (int64_t i = 0; i < s->layers; i++) {
    const LlmLayer *l = &s->layer[i];
    int64_t size = l->mixer == LLM_MLA ? s->mla.rope : s->head_size;
    if (l->window < 0 || l->rope >= LLM_ROPES_MAX || (l->rope >= 0 && !s->rope[l->rope].dim))
      return fail(d, TENON_EFORMAT, NOWHERE, "layer %lld has no sound window or positions",
                  (long long)i);
    if (l->rope >= 0 && l->mixer <= LLM_MLA && s->rope[l->rope].dim > size)
      return fail(d, TENON_EFORMAT, NOWHERE, "%lld elements of a head turn, which has %lld",
                  (long long)s->rope[l->rope].dim, (long long)size);
  }
  return TENON_OK;
}

static tenon_status verify_mla(const LlmSpec *s, Diag *d) {
  const LlmMla *m = &s->mla;
  const Bound b[] = {{"rank of compressed queries", m->q_rank, 0, LLM_SIZE_MAX},
                     {"rank of compressed keys and values", m->kv_rank, 1, LLM_SIZE_MAX},
                     {"part of a head without rotary positions", m->nope, 1, 1 << 16},
                     {"part of a head with rotary positions", m->rope, 2, 1 << 16}};
  TRY(check_bounds(b, ARRAY_LEN(b), d));
  if (m->nope + m->rope == s->head_size && s->kv_heads == s->heads) return TENON_OK;
  return fail(d, TENON_EFORMAT, NOWHERE, "the sizes of latent attention do not fit");
}

static tenon_status verify_moe(const LlmSpec *s, Diag *d) {
  const LlmMoe *m = &s->moe;
  const Bound b[] = {{"number of experts", m->experts, 1, LLM_EXPERTS_MAX},
                     {"number of experts of a token", m->top_k, 1, m->experts},
                     {"width of an expert", m->size, 1, LLM_SIZE_MAX},
                     {"width of the shared expert", m->shared, 0, LLM_SIZE_MAX},
                     {"number of groups of experts", m->groups, 1, m->experts},
                     {"number of groups of a token", m->top_groups, 1, m->groups}};
  TRY(check_bounds(b, ARRAY_LEN(b), d));
  int64_t each = m->experts / m->groups;
  if (m->experts % m->groups || each * m->top_groups < m->top_k ||
      (m->group_rank == LLM_GROUP_TOP2 && m->groups > 1 && each < 2))
    return fail(d, TENON_EFORMAT, NOWHERE, "%lld experts do not fit %lld groups",
                (long long)m->experts, (long long)m->groups);
  return isfinite(m->scale)
             ? TENON_OK
             : fail(d, TENON_EFORMAT, NOWHERE, "the factor of experts is %g", m->scale);
}

static tenon_status verify_recurrent(const LlmSpec *s, Diag *d) {
  const LlmRecurrent *r = &s->recurrent;
  const Bound b[] = {{"number of heads of the state", r->heads, 1, LLM_HEADS_MAX},
                     {"size of these heads", r->head_size, 1, 1 << 16},
                     {"number of heads of its keys", r->key_heads, 1, r->heads},
                     {"size of the state", r->state_size, 1, 1 << 16},
                     {"number of taps", r->conv, 1, 256},
                     {"number of groups of its norm", r->norm_groups, 1, r->heads}};
  TRY(check_bounds(b, ARRAY_LEN(b), d));
  if (r->heads % r->key_heads || (r->heads * r->head_size) % r->norm_groups)
    return fail(d, TENON_EFORMAT, NOWHERE, "%lld heads of the state cannot share %lld of keys",
                (long long)r->heads, (long long)r->key_heads);
  return TENON_OK;
}

static tenon_status verify_numbers(const LlmSpec *s, Diag *d) {
  const double v[] = {s->embed_scale, s->residual_scale, s->attention_scale, s->logits_scale};
  for (int64_t i = 0; i < ARRAY_LEN(v); i++)
    if (!isfinite(v[i]) || v[i] == 0)
      return fail(d, TENON_EFORMAT, NOWHERE, "a multiplier is %g", v[i]);
  bool caps = s->attention_cap >= 0 && s->logits_cap >= 0 && isfinite(s->attention_cap) &&
              isfinite(s->logits_cap) && s->act_limit >= 0 && isfinite(s->act_limit);
  if (!caps || !(s->epsilon > 0 && s->epsilon < 1))
    return fail(d, TENON_EFORMAT, NOWHERE, "a soft cap or the epsilon of norms is out of range");
  return TENON_OK;
}

tenon_status llm_spec_verify(const LlmSpec *s, Diag *d) {
  const Bound b[] = {{"vocabulary", s->vocab, 1, LLM_SIZE_MAX},
                     {"hidden size", s->hidden, 1, LLM_SIZE_MAX},
                     {"number of layers", s->layers, 1, LLM_LAYERS_MAX},
                     {"context", s->context, 1, LLM_SIZE_MAX},
                     {"number of learned positions", s->positions, 0, LLM_SIZE_MAX},
                     {"row of the first position", s->position_offset, 0, LLM_SIZE_MAX},
                     {"number of halves of a pair", s->types, 0, 1 << 16}};
  TRY(check_bounds(b, ARRAY_LEN(b), d));
  TRY(verify_numbers(s, d));
  if (has_ffn(s, LLM_DENSE))
    TRY(check_bounds(&(Bound){"width of the feed-forward part", s->ffn, 1, LLM_SIZE_MAX}, 1, d));
  if (has_ffn(s, LLM_MOE)) TRY(verify_moe(s, d));
  if (has_mixer(s, LLM_ATTENTION) || has_mixer(s, LLM_MLA)) TRY(verify_attention(s, d));
  if (has_mixer(s, LLM_MLA)) TRY(verify_mla(s, d));
  if (s->positions && s->context + s->position_offset > s->positions)
    return fail(d, TENON_EFORMAT, NOWHERE, "%lld positions from row %lld on, of a table of %lld",
                (long long)s->context, (long long)s->position_offset, (long long)s->positions);
  if (has_mixer(s, LLM_MAMBA2) || has_mixer(s, LLM_GATED_DELTA)) TRY(verify_recurrent(s, d));
  return TENON_OK;
}
