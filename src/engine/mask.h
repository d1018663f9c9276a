// mask.h -- which tokens may come next: what structured output asks of the sampler.
//
// A request may have a mask.  It is asked once for each token that is drawn, before the draw, in
// the order of positions: `ntokens` is one more than at the call before, and what is behind the
// first `nprompt` is the answer so far, exactly as it will stand.  Drafts, chunks and preemption
// add no calls and take none back: a draft is compared with the token that was drawn under the
// mask.  So a mask may keep a state, and step it by the tokens that are new since the last call.
//
// The answer must depend on the place and on what the mask was made from, else equal requests give
// unequal texts.  It must not call back into the engine.
//
// The types are those of the public interface (tenon/tenon.h), so that a caller's mask goes into
// the sampler as it is.
#ifndef TENON_ENGINE_MASK_H
#define TENON_ENGINE_MASK_H

#include "base/base.h"

typedef struct TokenMask {
  tenon_llm_mask fn;  // NULL: every token may come
  void *ctx;
} TokenMask;

#endif
