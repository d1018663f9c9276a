// rope_config.c -- rotary positions as config.json has them: the rope_parameters of transformers 5,
// or rope_theta and rope_scaling of earlier versions.
#include "models/config.h"
#include "models/spec.h"

#include <math.h>
#include <stddef.h>

typedef struct RopeKey {
  const char *name;
  size_t at;  // of a double in LlmRopeScaling
} RopeKey;
static const RopeKey rope_key[] = {
    {"rope_theta", offsetof(LlmRopeScaling, theta)},
    {"factor", offsetof(LlmRopeScaling, factor)},
    {"attention_factor", offsetof(LlmRopeScaling, attention_factor)},
    {"original_max_position_embeddings", offsetof(LlmRopeScaling, original)},
    {"beta_fast", offsetof(LlmRopeScaling, beta_fast)},
    {"beta_slow", offsetof(LlmRopeScaling, beta_slow)},
    {"mscale", offsetof(LlmRopeScaling, mscale)},
    {"mscale_all_dim", offsetof(LlmRopeScaling, mscale_all_dim)},
    {"low_freq_factor", offsetof(LlmRopeScaling, low_freq)},
    {"high_freq_factor", offsetof(LlmRopeScaling, high_freq)},
};

// ---- one object of parameters ----

static void read_type(Config *c, const Json *j, LlmRopeScaling *r) {
  if (j->kind == JSON_STRING) {
    for (int t = 0; t < ROPE_TYPES; t++)
      if (str_is(j->s, llm_rope_name[t])) {
        r->type = (LlmRopeType)t;
        return;
      }
    if (str_is(j->s, "su")) {  // as Phi 3 called it first
      r->type = ROPE_LONGROPE;
      return;
    }
  }
  config_fail(c, TENON_EUNSUPPORTED, "the type '%.*s' of rotary positions is not supported",
              j->kind == JSON_STRING ? (int)MIN(j->s.n, 100) : 1,
              j->kind == JSON_STRING ? j->s.p : "?");
}

static void read_factors(Config *c, const Json *j, const double **out, int64_t *n) {
  if (j->kind != JSON_ARRAY || j->n > LLM_SIZE_MAX) {
    config_fail(c, TENON_EFORMAT, "the factors of longrope must be a list of numbers");
    return;
  }
  double *v = arena_array(c->arena, double, j->n + 1);
  for (int64_t i = 0; i < j->n; i++)
    if (!config_json_number(&j->item[i], &v[i]) || !(v[i] > 0))
      config_fail(c, TENON_EFORMAT, "the factors of longrope must be positive numbers");
  *out = v;
  *n = j->n;
}

static bool read_number(Config *c, Str key, const Json *j, LlmRopeScaling *r) {
  for (int64_t i = 0; i < ARRAY_LEN(rope_key); i++) {
    if (!str_is(key, rope_key[i].name)) continue;
    double v;
    if (!config_json_number(j, &v) || !isfinite(v))
      config_fail(c, TENON_EFORMAT, "'%s' of rotary positions must be a number", rope_key[i].name);
    else
      memcpy((char *)r + rope_key[i].at, &v, sizeof v);
    return true;
  }
  return false;
}

static void read_parameters(Config *c, const Json *j, LlmRopeScaling *r, double *partial) {
  if (j->kind != JSON_OBJECT) {
    config_fail(c, TENON_EFORMAT, "the parameters of rotary positions must be an object");
    return;
  }
  for (int64_t i = 0; i < j->n && !c->status; i++) {
    Str key = j->key[i];
    const Json *v = &j->item[i];
    if (v->kind == JSON_NULL || read_number(c, key, v, r)) continue;
    if (str_is(key, "rope_type") || str_is(key, "type"))
      read_type(c, v, r);
    else if (str_is(key, "long_factor"))
      read_factors(c, v, &r->long_factor, &r->nlong);
    else if (str_is(key, "short_factor"))
      read_factors(c, v, &r->short_factor, &r->nshort);
    else if (str_is(key, "truncate") && v->kind == JSON_BOOL)
      r->truncate = v->b;
    else if (str_is(key, "partial_rotary_factor") && config_json_number(v, partial))
      continue;
    else
      config_fail(c, TENON_EUNSUPPORTED,
                  "rotary positions have the parameter '%.*s', which is not supported",
                  STR_ARG(key));
  }
}

// ---- both tables ----

// The factor of a scaling that says none is the growth of the context.
static bool has_factor(const Json *j) {
  const Json *f = json_get(j, "factor");
  return f && f->kind != JSON_NULL;
}

static void fill(Config *c, const SpecOptions *o, LlmSpec *s, int which, const Json *j,
                 double theta) {
  LlmRopeScaling r;
  llm_rope_scaling_init(&r, theta);
  double partial = o->partial;
  if (j) read_parameters(c, j, &r, &partial);
  double original = config_number(c, CFG_original_max_position_embeddings, 0);
  if (original > 0) r.original = original;
  if (r.original == 0) r.original = (double)s->context;
  if (j && !has_factor(j)) r.factor = (double)s->context / r.original;
  if (c->status) return;
  if (!(partial > 0 && partial <= 1)) {
    config_fail(c, TENON_EFORMAT, "partial_rotary_factor is %g, must be above 0 and at most 1",
                partial);
    return;
  }
  int64_t head = s->layer[0].mixer == LLM_MLA ? s->mla.rope : s->head_size;
  int64_t dim = (int64_t)((double)head * partial);
  c->status = llm_rope_fill(c->arena, &r, dim, s->context, o->length, c->d, &s->rope[which]);
  s->rope[which].interleaved = c->arch->interleaved;
  if (which == 0 && s->layer[0].mixer == LLM_MLA) s->attention_scale *= llm_rope_mla_scale(&r);
}

void llm_rope_of_config(Config *c, const SpecOptions *o, LlmSpec *s) {
  const LlmArch *a = c->arch;
  const Json *now = config_json(c, CFG_rope_parameters), *old = config_json(c, CFG_rope_scaling);
  double theta = config_number(c, CFG_rope_theta, a->theta);
  double local =
      a->local_theta > 0 ? config_number(c, CFG_rope_local_base_freq, a->local_theta) : 0;
  if (now && old)
    config_fail(c, TENON_EFORMAT, "config.json has both 'rope_parameters' and 'rope_scaling'");
  const Json *global = now ? json_get(now, "full_attention") : NULL;
  const Json *windowed = now ? json_get(now, "sliding_attention") : NULL;
  if ((global || windowed) && now->n != (global != NULL) + (windowed != NULL))
    config_fail(c, TENON_EUNSUPPORTED, "rope_parameters has a kind of layer that is not known");
  bool by_layer = global || windowed;
  fill(c, o, s, 0, by_layer ? global : now ? now : old, theta);
  if (a->local_theta > 0) fill(c, o, s, 1, by_layer ? windowed : NULL, local);
  if (by_layer && a->local_theta == 0)
    config_fail(c, TENON_EUNSUPPORTED, "rope_parameters differ by layer, which '%s' does not have",
                a->name);
}
