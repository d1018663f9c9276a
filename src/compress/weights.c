// weights.c -- i8 weights with one scale for each output channel (weights.h).
#include "compress/weights.h"

#include <float.h>
#include <math.h>

enum { I8_MOST = 127, STEPS = 16 };

// The elements of one output channel: `runs` of `len` elements, `stride` apart.
typedef struct ChannelWalk {
  int64_t first, runs, len, stride;
} ChannelWalk;

static ChannelWalk channel(const WeightShape *s, int64_t o) {
  if (s->axis == 0) {
    int64_t n = s->inputs * s->taps;
    return (ChannelWalk){o * n, 1, n, n};
  }
  return (ChannelWalk){o, s->inputs, 1, s->outputs};
}

static float largest(const float *w, const ChannelWalk *c) {
  float most = 0;
  for (int64_t r = 0; r < c->runs; r++)
    for (int64_t i = 0; i < c->len; i++) most = fmaxf(most, fabsf(w[c->first + r * c->stride + i]));
  return most;
}

static float rounded(float w, float inverse) {
  return fminf(fmaxf(nearbyintf(w * inverse), -I8_MOST), I8_MOST);
}

static double error_of(const float *w, const ChannelWalk *c, float scale) {
  double sum = 0;
  float inverse = 1 / scale;
  for (int64_t r = 0; r < c->runs; r++)
    for (int64_t i = 0; i < c->len; i++) {
      float x = w[c->first + r * c->stride + i];
      double e = (double)(x - scale * rounded(x, inverse));
      sum += e * e;
    }
  return sum;
}

static float scale_of(const float *w, const ChannelWalk *c, bool search) {
  float whole = largest(w, c) / I8_MOST, best = whole;
  if (!(whole > 2 * FLT_MIN)) return whole > 0 ? 2 * FLT_MIN : 1;
  double least = search ? error_of(w, c, whole) : 0;
  for (int i = 1; search && i < STEPS; i++) {
    float s = whole * (1 - 0.025F * (float)i);
    double e = error_of(w, c, s);
    if (e < least) least = e, best = s;
  }
  return fmaxf(best, 2 * FLT_MIN);
}

// Rounds a channel; what that adds to the sum of products, where inputs have their means.
static double round_channel(const WeightShape *s, const float *w, int64_t o, float scale,
                            const double *mean, int8_t *out) {
  ChannelWalk c = channel(s, o);
  double shift = 0;
  int64_t first = s->parts > 1 ? o / (s->outputs / s->parts) * s->inputs : 0;
  for (int64_t r = 0; r < c.runs; r++)
    for (int64_t i = 0; i < c.len; i++) {
      int64_t at = c.first + r * c.stride + i;
      float q = rounded(w[at], 1 / scale);
      out[at] = (int8_t)q;
      int64_t in = first + (s->axis ? r : i / s->taps);
      if (mean) shift += ((double)scale * (double)q - (double)w[at]) * mean[in];
    }
  return shift;
}

tenon_status weights_quantize(Graph *g, const QuantGroup *q, const double *least,
                              const double *mean, bool search, Arena *a, Diag *d,
                              QuantWeights *out) {
  const void *bytes;
  const WeightShape *s = &q->shape;
  TRY(const_elements(g, q->node->src[1], a, &bytes, d));
  const float *w = bytes;
  *out = (QuantWeights){.n = q->node->src[1]->data->n};
  for (int64_t i = 0; i < out->n; i++)
    if (!isfinite(w[i]))
      return fail(d, TENON_EINVAL, (Where){.node = q->name}, "weight %lld is NaN or an infinity",
                  (long long)i);
  out->scale = arena_array(a, float, s->outputs);
  if (mean) out->shift = arena_array(a, double, s->outputs);
  out->value = mem_alloc(MAX(out->n, 1));
  if (!out->value)
    return fail(d, TENON_ENOMEM, (Where){.node = q->name}, "no memory for %lld weights",
                (long long)out->n);
  for (int64_t o = 0; o < s->outputs; o++) {
    ChannelWalk c = channel(s, o);
    float scale = scale_of(w, &c, search);
    if (least) scale = fmaxf(scale, (float)least[o]);
    out->scale[o] = scale;
    double shift = round_channel(s, w, o, scale, mean, out->value);
    if (mean) out->shift[o] = shift;
  }
  return TENON_OK;
}
