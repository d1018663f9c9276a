// llm_fake.h -- a language model without weights, for tests of the engine.
//
// Its logits are a hash of the tokens that it reads through the page table, so a wrong page, a row
// at a wrong place or a lost token changes them.  Its cache knows what each slot holds; a read of a
// slot that does not hold the asked position of the asked sequence's tokens is counted.  Freed
// pages are poisoned.  Where the model has states, logits depend on a hash of all tokens, too,
// which those hold.
#ifndef TENON_TESTS_SUPPORT_LLM_FAKE_H
#define TENON_TESTS_SUPPORT_LLM_FAKE_H

#include "engine/engine.h"

typedef struct FakeModel {
  EngineModel model;  // to be given to engine_create; ctx is this
  int32_t history;    // tokens that logits depend on, besides far ones
  bool far;           // logits depend on every token of the sequence
  int32_t *id, *at;   // of each slot: what was written; -1: poisoned
  int32_t *by;        // ... and the adapter that its row had
  int32_t *gathered;
  uint64_t *state, *read;  // of each slot of states, and of each sequence of the step
  int32_t *state_at;       // tokens that are in it; -1: poisoned
  int64_t runs, wrong_reads;
  int64_t fail_in;  // runs until one fails; 0: none does
} FakeModel;

// Sizes are those of `m`, whose functions it sets.
void fake_init(FakeModel *f, const EngineModel *m, int32_t history, bool far);
void fake_deinit(FakeModel *f);
// What the model says after these tokens, with an adapter (0: none).
void fake_logits(const FakeModel *f, const int32_t *token, int32_t n, int32_t adapter,
                 float *logits);

// The vector that a request for one gets: model.hidden or model.scores elements.
void fake_vector(const FakeModel *f, const EngineRequest *r, float *out);

// One request by a plain loop: no batch, no pages, no drafts.  Writes the tokens that follow the
// prompt, and returns how many; `out_why` says how it ended.
int32_t fake_generate(const FakeModel *f, const EngineRequest *r, int32_t *tokens,
                      EngineFinish *out_why);

#endif
