// llm.h -- language models in the front: their engines, and who waits.
//
// An LlmCall belongs to whoever made it and stays where it is until its last answer, or until
// llm_call_cancel.  It waits in the model's queue; the engine gets as many as it has places for,
// those of the client with the fewest in there first.
//
//   llm_call: 0, and `answer` is called, later; or a status with the reason, and it is not
//   llm_call_cancel: the client is gone; `answer` is not called any more
//
// An engine that dies fails the calls that it had with 503, and another one is started.
#ifndef TENON_SERVE_LLM_H
#define TENON_SERVE_LLM_H

#include "serve/llm/llm_packet.h"
#include "serve/models.h"
#include "serve/worker.h"

typedef struct LlmCall LlmCall;
typedef struct LlmModel LlmModel;

typedef enum LlmAnswerKind {
  LLM_IS_ACCEPTED,
  LLM_IS_EVENT,
  LLM_IS_RESULT,
  LLM_IS_ERROR
} LlmAnswerKind;
typedef struct LlmAnswer {
  LlmAnswerKind kind;
  bool last;
  Str bytes;              // ACCEPTED: JSON; RESULT
  const LlmEvent *event;  // EVENT
  int status;             // ERROR: of HTTP, and the reason
  const char *why;
} LlmAnswer;

struct LlmCall {
  // ---- filled in by whoever makes it ----
  Model *model;
  Str ask;          // JSON (llm_ask.c), in memory of the caller's until the last answer
  uint32_t client;  // whose it is
  // What the answer has holds during the call.
  void (*answer)(LlmCall *c, const LlmAnswer *a);
  void *user;
  // ---- the model's ----
  int64_t came;   // platform->now()
  int64_t place;  // of the engine; -1: it waits
  LlmCall *prev, *next;
};

int llm_call(LlmCall *c, Diag *d);
void llm_call_cancel(LlmCall *c);

// Sums of what was measured, for /metrics: counts of values up to each bound, and their sum.
enum { LLM_BOUNDS = 14 };
extern const double llm_bound[LLM_BOUNDS];  // seconds
typedef struct LlmHistogram {
  uint64_t count[LLM_BOUNDS + 1];
  double sum;
} LlmHistogram;
void llm_measure(LlmHistogram *h, double seconds);

typedef struct LlmStats {
  LlmHistogram first_token, next_token, whole, queue;
  uint64_t requests, failed, cancelled, refused, deaths;
  uint64_t prompt_tokens, tokens;
  uint64_t rows_of_step[LLM_BOUNDS + 1];  // steps by rows: up to 1, 2, 4 ... 8192
  tenon_llm_counts counts;                // the engine's last ones
} LlmStats;

bool llm_is(const Model *m);                // of this kind
const LlmAbout *llm_about(const Model *m);  // NULL while it is not known
LlmStats *llm_stats(const Model *m);        // NULL: it was never loaded
int64_t llm_waiting(const Model *m);
extern const ModelKind llm_kind;

#endif
