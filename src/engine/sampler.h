// sampler.h -- from logits to a token.
//
// The order is fixed.  Each stage sees what the stages before it left, and probabilities are of
// what is left:
//
//   1  bias         logit += bias of the token
//   2  penalties    repeat: logit / p where positive, logit * p where negative, for tokens of the
//                   prompt or the answer; presence: logit -= p, frequency: logit -= p * count, for
//                   tokens of the answer
//   3  DRY          of a token that would go on with a repetition: what stands behind the last n
//                   tokens stood behind the same n before, n >= dry_length (looked for up to
//                   SAMPLER_DRY_MOST); logit -= dry * dry_base^(n - dry_length)
//   4  mask         tokens that it does not allow are out (mask.h)
//   5  temperature  0: the token of the greatest logit, the smallest id of equals, and no stage
//                   below; else logit /= temperature
//   6  top-k        the k greatest logits; 0: all
//   7  top-p        the fewest tokens, most probable first, whose probabilities reach p; 1: all
//   8  min-p        tokens at least p times as probable as the most probable one; 0: all
//   9  typical      the fewest tokens, nearest to the entropy first, whose probabilities reach p;
//                   1: all
//   10 XTC          with the probability xtc: of the tokens whose probability is at least
//                   xtc_threshold, all are out but the least probable
//   11 draw         by a uniform number over the cumulative weights in order of token id
//
// Equal keys go by the smaller id.  Uniform numbers are Philox(seed, position, draw): of a
// request's seed and the token's position alone, so they do not depend on the batch or the step.
// Number 0 is that of the draw, number 1 that of XTC. Log-probabilities are of the model's own
// logits, before stage 1.
#ifndef TENON_ENGINE_SAMPLER_H
#define TENON_ENGINE_SAMPLER_H

#include "engine/mask.h"

enum { SAMPLER_TOP = 20, SAMPLER_BIASES = 300, SAMPLER_DRY_MOST = 64 };

typedef struct SamplerParams {
  float temperature;          // 0 to 100
  int32_t top_k;              // 0: off
  float top_p, min_p;         // 0 < top_p <= 1, 0 <= min_p <= 1
  float typical;              // 0 < typical <= 1
  float repeat;               // 0.1 to 10; 1: off
  float presence, frequency;  // -2 to 2; 0: off
  float dry, dry_base;        // 0 to 100, 0: off; 1 to 10
  int32_t dry_length;         // 1 to SAMPLER_DRY_MOST
  float xtc, xtc_threshold;   // 0 to 1, 0: off; 0 to 1
  uint64_t seed;
} SamplerParams;
// Greedy: temperature 0, everything else off.
extern const SamplerParams sampler_greedy;

typedef struct SamplerBias {
  int32_t id;
  float bias;  // -100 to 100
} SamplerBias;

// Memory of one draw at a time; the caller's.
typedef struct SamplerScratch {
  float *logit;       // [vocab]
  float *key;         // [vocab]
  int32_t *id;        // [vocab]
  int32_t *count;     // [vocab], all 0 between draws
  uint32_t *allowed;  // [(vocab + 31) / 32]
} SamplerScratch;

typedef struct SamplerInput {
  const SamplerParams *params;
  const SamplerBias *bias;
  int32_t nbias;
  TokenMask mask;
  const int32_t *tokens;  // so far
  int32_t n, prompt;      // of which the first `prompt` are the prompt
  int32_t left;           // tokens that may still be drawn, for the mask
} SamplerInput;

typedef struct SamplerReport {
  float logprob;
  int32_t ntop;
  int32_t top_id[SAMPLER_TOP];
  float top_logprob[SAMPLER_TOP];
} SamplerReport;

// NULL: they are in range; else what is not.
const char *sampler_wrong(const SamplerParams *p);
// The next token, at position in->n; -1: no token is left.  `logits` stay as they are.
int32_t sampler_draw(const SamplerInput *in, const float *logits, int32_t vocab,
                     SamplerScratch *scratch);
// The log-probability of `token` and of the `ntop` most probable tokens.
void sampler_report(const float *logits, int32_t vocab, int32_t token, int32_t ntop,
                    SamplerReport *out);

// Philox4x32-10 of Salmon et al. (SC 2011): four words of a 64-bit key and a 128-bit counter.
void philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);
// In [0, 1), 53 bits.
double philox_uniform(uint64_t seed, uint64_t position, uint32_t draw);

#endif
