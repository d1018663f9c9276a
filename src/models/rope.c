// rope.c -- tables of angles of rotary positions, with the scalings of long contexts.
//
// The roundings are those of the reference implementations: exponents and powers in f32.  Scalings
// that depend on a sequence's length take the longest one that will be run, so that the angles of a
// token never depend on the others.
#include "models/arch.h"

#include <math.h>

const char *const llm_rope_name[ROPE_TYPES] = {"default", "linear", "dynamic",
                                               "yarn",    "llama3", "longrope"};

void llm_rope_scaling_init(LlmRopeScaling *r, double theta) {
  *r = (LlmRopeScaling){.theta = theta,
                        .factor = 1,
                        .attention_factor = -1,
                        .beta_fast = 32,
                        .beta_slow = 1,
                        .low_freq = 1,
                        .high_freq = 4,
                        .truncate = true};
}

static float power(double base, int64_t i, int64_t dim) {
  float exponent = (float)(2 * i) / (float)dim;
  return (float)pow(base, (double)exponent);
}

static double mscale_of(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

double llm_rope_mla_scale(const LlmRopeScaling *r) {
  if (r->type == ROPE_DEFAULT || r->mscale_all_dim == 0) return 1;
  double m = mscale_of(r->factor, r->mscale_all_dim);
  return m * m;
}

static double correction(double rotations, int64_t dim, double base, double context) {
  return (double)dim * log(context / (rotations * 2 * M_PI)) / (2 * log(base));
}

// Angles that turn often keep their frequency, those that turn seldom are interpolated.
static void fill_yarn(const LlmRopeScaling *r, int64_t dim, LlmRope *out) {
  double low = correction(r->beta_fast, dim, r->theta, r->original);
  double high = correction(r->beta_slow, dim, r->theta, r->original);
  if (r->truncate) {
    low = floor(low);
    high = ceil(high);
  }
  low = MAX(low, 0);
  high = MIN(high, (double)dim - 1);
  if (low == high) high += 0.001;
  for (int64_t i = 0; i < dim / 2; i++) {
    float p = power(r->theta, i, dim);
    float ramp = ((float)i - (float)low) / (float)(high - low);
    float keep = 1 - (ramp < 0 ? 0 : ramp > 1 ? 1 : ramp);
    float inter = 1 / ((float)r->factor * p), extra = 1 / p;
    out->inv_freq[i] = inter * (1 - keep) + extra * keep;
  }
  if (r->attention_factor >= 0)
    out->factor = r->attention_factor;
  else if (r->mscale != 0 && r->mscale_all_dim != 0)
    out->factor = mscale_of(r->factor, r->mscale) / mscale_of(r->factor, r->mscale_all_dim);
  else
    out->factor = mscale_of(r->factor, 1);
}

static void fill_llama3(const LlmRopeScaling *r, int64_t dim, LlmRope *out) {
  double longest = r->original / r->low_freq, shortest = r->original / r->high_freq;
  for (int64_t i = 0; i < dim / 2; i++) {
    float inv = 1 / power(r->theta, i, dim);
    float wave = (float)(2 * M_PI) / inv;
    float y = (double)wave > longest ? inv / (float)r->factor : inv;
    if ((double)wave >= shortest && (double)wave <= longest) {
      float smooth =
          ((float)r->original / wave - (float)r->low_freq) / (float)(r->high_freq - r->low_freq);
      y = (1 - smooth) * y / (float)r->factor + smooth * y;
    }
    out->inv_freq[i] = y;
  }
}

static void fill_long(const LlmRopeScaling *r, int64_t dim, int64_t length, LlmRope *out) {
  const double *by = (double)length > r->original ? r->long_factor : r->short_factor;
  for (int64_t i = 0; i < dim / 2; i++)
    out->inv_freq[i] = 1 / ((float)by[i] * power(r->theta, i, dim));
  if (r->attention_factor >= 0)
    out->factor = r->attention_factor;
  else
    out->factor = r->factor <= 1 ? 1 : sqrt(1 + log(r->factor) / log(r->original));
}

static tenon_status check(const LlmRopeScaling *r, int64_t dim, Diag *d) {
  bool fine = dim >= 2 && dim % 2 == 0 && dim <= 1 << 16 && r->theta > 0 && isfinite(r->theta);
  if (!fine)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "rotary positions of %lld elements with the base %g", (long long)dim, r->theta);
  fine = r->factor > 0 && isfinite(r->factor) && r->original > 0 && r->low_freq > 0 &&
         r->high_freq > r->low_freq && r->beta_fast > 0 && r->beta_slow > 0;
  if (!fine && r->type != ROPE_DEFAULT)
    return fail(d, TENON_EFORMAT, NOWHERE,
                "the scaling '%s' of rotary positions has numbers out of range",
                llm_rope_name[r->type]);
  if (r->type == ROPE_LONGROPE && (r->nlong != dim / 2 || r->nshort != dim / 2))
    return fail(d, TENON_EFORMAT, NOWHERE,
                "longrope has %lld long and %lld short factors, must have %lld",
                (long long)r->nlong, (long long)r->nshort, (long long)dim / 2);
  return TENON_OK;
}

tenon_status llm_rope_fill(Arena *a, const LlmRopeScaling *given, int64_t dim, int64_t context,
                           int64_t length, Diag *d, LlmRope *out) {
  LlmRopeScaling r = *given;
  if (r.original == 0) r.original = (double)context;
  TRY(check(&r, dim, d));
  *out = (LlmRope){.dim = dim, .factor = 1, .about = llm_rope_name[r.type]};
  out->inv_freq = arena_array(a, float, dim / 2);
  double base = r.theta;
  if (r.type == ROPE_DYNAMIC && dim > 2) {
    double seq = (double)MAX(length, context);
    base *= pow(r.factor * seq / (double)context - (r.factor - 1), (double)dim / (double)(dim - 2));
  }
  for (int64_t i = 0; i < dim / 2; i++) out->inv_freq[i] = 1 / power(base, i, dim);
  if (r.type == ROPE_LINEAR)
    for (int64_t i = 0; i < dim / 2; i++) out->inv_freq[i] /= (float)r.factor;
  if (r.type == ROPE_YARN) fill_yarn(&r, dim, out);
  if (r.type == ROPE_LLAMA3) fill_llama3(&r, dim, out);
  if (r.type == ROPE_LONGROPE) fill_long(&r, dim, length, out);
  return TENON_OK;
}
