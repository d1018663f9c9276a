// llm_packet.h -- what the front and an engine of a language model say to each other, in frames
// (worker.h).
//
// The engine sends LLM_READY with an LlmAbout as JSON, or LLM_FAILED with the reason.  The front
// asks with LLM_ASK, JSON whose keys are those of llm_ask.c, under an id of its own; every ask is
// answered by LLM_ERROR, by LLM_RESULT, or by LLM_ACCEPTED and then events, of which the last one
// says so.  LLM_CANCEL ends an ask: its last event still comes.  LLM_COUNTS come by themselves.
//
// Events are bytes in the machine's own order: both processes are one program on one machine.
#ifndef TENON_SERVE_LLM_PACKET_H
#define TENON_SERVE_LLM_PACKET_H

#include "base/json.h"

enum {
  LLM_READY = 1,
  LLM_FAILED,
  LLM_ASK,
  LLM_CANCEL,
  LLM_ACCEPTED,  // JSON: prompt_tokens, and what the ask wanted to know of the prompt
  LLM_EVENT,     // an LlmEvent
  LLM_RESULT,    // bytes whose meaning depends on the ask
  LLM_ERROR,     // a tenon_status in the first byte, then text
  LLM_COUNTS     // a tenon_llm_counts
};

// What the front knows of a model.
typedef struct LlmAbout {
  const char *architecture, *fingerprint;
  int64_t context, vocabulary, sequences, requests, embedding, scores, bytes, layers;
  bool chat, encoder;
} LlmAbout;
void llm_about_write(JsonWriter *w, const LlmAbout *m);
MUST_USE tenon_status llm_about_read(Arena *a, Str text, LlmAbout *out, Diag *d);

enum { LLM_TOP = 20 };
typedef struct LlmPiece {
  int32_t token;
  float logprob;
  Str bytes;
} LlmPiece;
typedef struct LlmEvent {
  int32_t kind, finish;  // tenon_llm_event_kind, tenon_llm_finish
  int32_t position, npieces;
  Str text;
  int64_t nvector;
  const float *vector;
  LlmPiece piece[1 + LLM_TOP];  // the token with its bytes and log-probability, then the others
} LlmEvent;
static inline bool llm_event_last(const LlmEvent *e) { return e->finish != 0; }
int64_t llm_event_bytes(const LlmEvent *e);
void llm_event_write(char *out, const LlmEvent *e);
// False: it is none.  Texts point into the payload, which holds the vector as bytes.
bool llm_event_read(Str payload, LlmEvent *out);
void llm_vector_copy(const LlmEvent *e, float *out);

#endif
