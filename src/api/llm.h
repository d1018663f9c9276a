// llm.h -- an open language model: what the public interface and the command line share.
//
// llm_create reads the files (models), the tokenizer and the chat template (text), builds one graph
// for prefill and decoding, compiles it, makes a session with the KV cache as its states, and puts
// an engine on top.  All memory of serving is reserved then.
//
// One thread at a time uses an Llm.
#ifndef TENON_API_LLM_H
#define TENON_API_LLM_H

#include "compile/compile.h"
#include "engine/engine.h"
#include "models/llm.h"
#include "runtime/session.h"
#include "text/template.h"
#include "text/tokenizer.h"

enum { LLM_STOPS = 16, LLM_STOP_BYTES = 256 };

typedef struct LlmServeOptions {
  const CompileOptions *compile;                                       // not NULL
  int32_t threads, context, sequences, requests, batch, pages, draft;  // as in tenon_llm_options
  int32_t logits;  // rows of logits of a step; 0: one for each sequence, and some for drafts
  int64_t memory_limit;
  DType kv;
  bool exact, no_prefix;
  int64_t step_ns;
  const Watch *watch;  // or NULL
} LlmServeOptions;

// Text that one request has given out, and holds back.
typedef struct LlmStream {
  uint64_t id;  // 0: unused
  TokenStream text;
  int32_t nstop;
  int32_t stop_bytes[LLM_STOPS];
  char *stop[LLM_STOPS];      // each LLM_STOP_BYTES
  char held[LLM_STOP_BYTES];  // text that may be the beginning of a stop text
  int32_t nheld;
  bool cut;  // a stop text was found; what the engine still gives is dropped
} LlmStream;

typedef struct LlmEvent {
  const EngineEvent *e;  // with id, user, token, position and log-probabilities
  EngineFinish finish;   // a stop text ends a request, too
  Str text;
} LlmEvent;

typedef struct Llm {
  Arena arena;  // tokenizer, template, streams
  LlmModel *model;
  Tokenizer *tokenizer;
  Str chat_text;     // the chat template; empty: the model has none
  TextList warning;  // of the compilation
  Program *program;
  Session *session;
  RunKeep keep;
  Value **in, **out;  // of a run
  ResultRoom *room;
  Engine *engine;
  ModelBytes bytes;
  Certificate certificate;
  int32_t nstates;
  void **state;  // memory of the KV cache
  int64_t *state_bytes;
  LlmStream *stream;  // by slot of the engine
  // Of the last step.
  Arena step;
  ArenaMark step_begin;
  LlmEvent *event;
  int32_t nevents;
  TokenBuffer tokens;  // of the prompt that is submitted
} Llm;

// Needs a Trap, as all that follows.
MUST_USE tenon_status llm_create(const char *path, const LlmServeOptions *o, Diag *d, Llm **out);
void llm_free(Llm *l);  // NULL is fine

typedef struct LlmRequest {
  EngineRequest r;  // tokens and stop tokens are filled in, unless tokens are given
  Str text;         // else
  int tokenize;     // TOKENIZE_ flags
  const Str *stop;
  int32_t nstop;
  bool ignore_end;
} LlmRequest;
// r.max_tokens < 0: what is left of the context.
MUST_USE tenon_status llm_submit(Llm *l, const LlmRequest *r, Diag *d, uint64_t *out_id);
MUST_USE tenon_status llm_step(Llm *l, Diag *d);
bool llm_cancel(Llm *l, uint64_t id);
// The prompt of a conversation; `tools` and `extra` may be NULL.  In arena `a`.
MUST_USE tenon_status llm_chat(const Llm *l, const Json *messages, const Json *tools,
                               const Json *extra, Arena *a, Diag *d, Str *out);

// ---- llm_model.c: the engine's model over a session ----
MUST_USE tenon_status llm_run(void *llm, const EngineBatch *b, Diag *d);
// The states' memory for this many pages.
MUST_USE tenon_status llm_bind_states(Llm *l, int32_t pages, Diag *d);
void llm_drop_states(Llm *l);

#endif
