// llm_engine.h -- the process that holds a language model: `tenon-serve --engine=llm PATH OPTIONS`.
#ifndef TENON_SERVE_LLM_ENGINE_H
#define TENON_SERVE_LLM_ENGINE_H

#include "grammar/tool_forms.h"
#include "serve/llm/llm_packet.h"
#include "serve/worker.h"

// A request that generates or embeds, until its last event.
typedef struct LlmJob {
  uint64_t frame, id;    // of the ask's frame; of tenon_llm_submit.  0: the place is free
  bool pieces;           // events carry bytes and log-probabilities of tokens
  struct LlmForm *form;  // of the answer, and how far it is; NULL: any text
  GrammarState *state;
} LlmJob;

typedef struct LlmForm LlmForm;

typedef struct LlmEngine {
  tenon_llm *llm;
  tenon_llm_info info;
  FrameOut out;
  int64_t njobs;  // places
  LlmJob *job;
  GrammarVocab *vocab;  // made for the first form
  LlmForm *forms;
  tenon_llm_counts counts;  // those sent last
  int64_t counted;          // platform->now() of that
} LlmEngine;

int llm_engine_work(int argc, char **argv);  // the process

// ---- llm_tools.c ----
enum { LLM_SHOWN = 64 };
typedef struct LlmChatAsk {
  const char *messages, *tools, *extra;  // JSON; NULL: none
} LlmChatAsk;
// A conversation as the model reads it, and how its answer is to be read.
typedef struct LlmChat {
  Str prompt;
  const ToolSyntax *syntax;    // of calls; NULL: there are no tools
  const Reasoning *reasoning;  // NULL: the template knows none
  bool inside, open;           // as in ToolParse
} LlmChat;
MUST_USE tenon_status llm_chat_read(LlmEngine *e, const LlmChatAsk *ask, Arena *a, Diag *d,
                                    LlmChat *out);
// Control tokens that markers have; returns how many.
int64_t llm_chat_shown(LlmEngine *e, const LlmChat *c, int32_t token[LLM_SHOWN]);
void llm_chat_say(const LlmChat *c, JsonWriter *w);  // members of LLM_ACCEPTED

// ---- llm_form.c ----
// What an answer of at most `left` tokens is held to: a form, or calls of the tools.
typedef struct LlmHold {
  const Json *form;     // NULL: calls
  const LlmChat *chat;  // NULL: the prompt is no conversation
  int64_t left;
  const char *tools, *named;  // JSON; NULL: any of them
  bool required, parallel;
} LlmHold;
// Its grammar and a state of it.
MUST_USE tenon_status llm_form_take(LlmEngine *e, const LlmHold *h, Arena *a, Diag *d,
                                    LlmForm **out, GrammarState **state);
void llm_form_leave(LlmEngine *e, LlmForm *f, GrammarState *state);  // NULL is fine
void llm_forms_free(LlmEngine *e);

// ---- llm_ask.c ----
// Answers an ask, or begins it.  An error is the ask's own: the caller tells the front.
MUST_USE tenon_status llm_ask(LlmEngine *e, uint64_t frame, Str payload, Arena *a, Diag *d);

#endif
