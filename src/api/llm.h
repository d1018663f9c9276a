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
#include "grammar/grammar.h"
#include "models/llm.h"
#include "runtime/session.h"
#include "text/template.h"
#include "text/tokenizer.h"

enum { LLM_STOPS = 16, LLM_STOP_BYTES = 256, LLM_SHOWN = 64, LLM_CHOICES = 4096 };

typedef struct LlmServeOptions {
  const CompileOptions *compile;                                       // not NULL
  int32_t threads, context, sequences, requests, batch, pages, draft;  // as in tenon_llm_options
  int32_t logits;  // rows of logits of a step; 0: one for each sequence, and some for drafts
  int64_t memory_limit;
  DType kv;
  bool exact, no_prefix;
  bool embed;                      // decoders give hidden states, too
  int32_t adapters, adapter_rank;  // as in tenon_llm_options
  const char *draft_model;         // likewise
  bool drafts;                     // it is a draft model: as much of `context` as it was made for
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
  bool cut;                  // a stop text was found; what the engine still gives is dropped
  int32_t shown[LLM_SHOWN];  // control tokens whose text is part of the answer
  int32_t nshown;
  struct LlmAnswerForm *form;  // what the answer is held to; NULL: nothing
  bool normalise;              // the vector gets the length 1
} LlmStream;

typedef struct LlmEvent {
  const EngineEvent *e;  // with id, user, token, position and log-probabilities
  EngineFinish finish;   // a stop text ends a request, too
  Str text;
  const float *vector;  // of EVENT_VECTOR
  int32_t nvector;
} LlmEvent;

// Adapters (llm_adapters.c).  A slot is free where it has no name and no request uses it.
typedef struct LlmAdapterSlot {
  char name[128];
  uint64_t serial;  // of what is in it, never used again
} LlmAdapterSlot;
typedef struct LlmAdapters {
  int32_t n, rank;
  LlmAdapterSlot *slot;  // [n]
  int32_t *a, *b;        // states of the session, by target (models/adapter.h)
  uint64_t serial;
} LlmAdapters;

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
  struct Llm *drafter;  // the draft model, whose engine has nothing but its sizes; NULL: none
  int32_t nstates;
  int64_t state_bytes_each;  // of a sequence, in recurrent layers; 0: there are none
  void **state;              // memory of the KV cache and of recurrent states
  int64_t *state_bytes;
  LlmStream *stream;  // by slot of the engine
  LlmAdapters adapters;
  // Of the last step.
  Arena step;
  ArenaMark step_begin;
  LlmEvent *event;
  int32_t nevents;
  TokenBuffer tokens;   // of the prompt that is submitted
  GrammarVocab *vocab;  // made for the first form of an answer
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
  // Of requests with r.pool, which generate nothing:
  const Str *pair;  // the text that is read behind `text`; NULL: none
  bool truncate;    // what is too long loses its end
  bool normalise;
  const char *adapter;      // the name of a loaded one; NULL: none
  const GrammarSpec *form;  // of the answer; NULL: any text
  const int32_t *shown;
  int32_t nshown;
} LlmRequest;
// r.max_tokens < 0: what is left of the context.
MUST_USE tenon_status llm_submit(Llm *l, const LlmRequest *r, Diag *d, uint64_t *out_id);
MUST_USE tenon_status llm_step(Llm *l, Diag *d);
bool llm_cancel(Llm *l, uint64_t id);
EnginePool llm_pool(const Llm *l);  // how the model's files make one vector of a text
// The tokens that end an answer; returns how many.
int32_t llm_ends(const Llm *l, int32_t out[ENGINE_STOPS]);
// The prompt of a conversation; `tools` and `extra` may be NULL.  In arena `a`.
MUST_USE tenon_status llm_chat(const Llm *l, const Json *messages, const Json *tools,
                               const Json *extra, Arena *a, Diag *d, Str *out);

// ---- llm_form.c ----
typedef struct LlmAnswerForm LlmAnswerForm;
// For an answer of at most `left` tokens.  The mask holds until llm_form_free.
MUST_USE tenon_status llm_form_begin(Llm *l, const GrammarSpec *spec, int64_t left, Diag *d,
                                     LlmAnswerForm **out, TokenMask *mask);
void llm_form_free(LlmAnswerForm *f);  // NULL is fine

// ---- llm_draft.c ----
// Opens the draft model for as many sequences and such a context; with its bytes.
MUST_USE tenon_status llm_open_drafter(Llm *l, const LlmServeOptions *o, const EngineModel *m,
                                       Diag *d);

// ---- llm_adapters.c ----
MUST_USE tenon_status llm_load_adapter(Llm *l, const char *name, const char *path, float scale,
                                       Diag *d);
MUST_USE tenon_status llm_drop_adapter(Llm *l, const char *name, Diag *d);
MUST_USE tenon_status llm_use_adapter(const Llm *l, const char *name, Diag *d, EngineRequest *r);
// The rank that room is made for; 0: there is none.
MUST_USE tenon_status llm_adapters_size(const LlmServeOptions *o, Diag *d, int32_t *rank);
// Behind make_session, before the states have memory.
MUST_USE tenon_status llm_adapters_init(Llm *l, int32_t adapters, int32_t rank, Diag *d);

// ---- llm_model.c: the engine's model over a session ----
MUST_USE tenon_status llm_run(void *llm, const EngineBatch *b, Diag *d);
// The states' memory for this many pages, and slots of recurrent states.
MUST_USE tenon_status llm_bind_states(Llm *l, int32_t pages, int32_t states, Diag *d);
void llm_drop_states(Llm *l);

#endif
