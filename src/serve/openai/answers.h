// answers.h -- generated answers to a request: one or several choices, whole or as a stream.
//
// A route reads its fields into an Answers and calls answers_begin, which asks the engine for each
// choice.  What comes back goes to the form of the route (chat, completions, responses).  A stream
// begins when the engine has accepted the first choice, so what is wrong with a request is still an
// answer of 400; a later error is an event, behind which the stream ends.
#ifndef TENON_SERVE_OPENAI_ANSWERS_H
#define TENON_SERVE_OPENAI_ANSWERS_H

#include "serve/llm/llm.h"
#include "serve/openai/fields.h"
#include "serve/serve.h"
#include "text/tool_calls.h"

typedef struct Answers Answers;
typedef struct Choice Choice;

// A token with its log-probability, and the most probable ones at its place.
typedef struct TokenLog {
  Str bytes;
  float logprob;
  bool none;  // the first token of a prompt has no log-probability
  int64_t ntop;
  LlmPiece *top;
} TokenLog;

typedef struct Delta {
  Str text;
  int64_t n;
  const TokenLog *log;
} Delta;

typedef struct AnswerForm {
  void (*begin)(Answers *a);  // the stream begins.  NULL: nothing is sent
  void (*delta)(Answers *a, Choice *c, const Delta *d);
  // Of conversations, whose answers may have reasoning and tool calls; NULL: a text is all.
  void (*reasoning)(Answers *a, Choice *c, Str text);
  void (*call_begin)(Answers *a, Choice *c, int64_t index);
  void (*arguments)(Answers *a, Choice *c, int64_t index, Str piece);
  void (*choice_end)(Answers *a, Choice *c);
  void (*end)(Answers *a);
  void (*whole)(Answers *a, JsonWriter *w);  // the body of an answer that is no stream
} AnswerForm;

typedef struct CallMade {
  Str id, name;
  StrBuf arguments;
} CallMade;

struct Choice {
  LlmCall call;
  Answers *answers;
  int64_t index, prompt_tokens, tokens;
  int64_t last;          // platform->now() of its last token
  bool accepted, ended;  // ended: its last answer came
  const char *finish;    // "stop", "length", "tool_calls"; NULL: not yet
  StrBuf text;           // of an answer that is no stream
  StrBuf reasoning;      // likewise
  ToolParser *parser;    // NULL: the text is all
  const ToolSyntax *syntax;
  VEC(CallMade) call_made;
  VEC(TokenLog) log;  // likewise
  int64_t offset;     // characters before the next token, for text_offset
};

struct Answers {
  // ---- filled in by the route ----
  HttpExchange *x;
  Model *model;
  const char *name;  // that the request gave: the model's or an adapter's
  const AnswerForm *form;
  bool stream, usage;  // usage: the stream ends with it
  int64_t n;           // choices for each prompt
  int64_t nprompts;
  const Str *prompt;  // each `"text": ...` or the like, as members of the ask
  Str sampling;       // further members
  bool logs;          // log-probabilities were asked for
  bool echo;
  int64_t seed;
  const Json *tools;   // that may be called; NULL: none
  int64_t most_calls;  // 0: any number
  const char *id;      // "chatcmpl-"; with the number of the request behind it later
  void *of_form;
  // ---- theirs ----
  int64_t nchoices, ended;
  Choice *choice;
  bool begun, entered, form_given;
  int64_t first_token;  // platform->now()
  Arena scratch;        // of one event
  ArenaMark scratch_begin;
};

// Asks the engine; the exchange is answered later.
void answers_begin(Answers *a);
// A writer of an event's JSON, and the event.  `name` NULL: it has none.
JsonWriter *answers_event(Answers *a);
void answers_send(Answers *a, const char *name, const JsonWriter *w);
int64_t answers_prompt_tokens(const Answers *a);
int64_t answers_tokens(const Answers *a);
void answers_head(const Answers *a, JsonWriter *w,
                  const char *object);                // id, object, created, model
void answers_usage(const Answers *a, JsonWriter *w);  // "usage": {...}

// ---- fields that chat, completions and responses share (generate.c) ----
// The model that `model` names, or the only one that fits.  NULL: f->why or f->missing says why.
Model *openai_model(Fields *f, bool (*fits)(const Model *m), const char *what);
// True: the model was not there, and the exchange is answered with 404.
bool openai_missing(const Fields *f);
Model *generate_model(Fields *f);
// Sampling, stops, n, stream and seed; the first of `max_tokens` that is given.
void generate_read(Fields *f, Answers *a, const char *const max_tokens[2]);
// What the answer must look like: `response_format` of chat, and vLLM's and llama.cpp's fields.
void form_read(Fields *f, Answers *a);
void form_of_text(Fields *f, Answers *a, const Json *format);  // `text.format` of /v1/responses
void generate_add(Answers *a, const char *members);            // `,"name":value` to the ask
// Counts a request of its client from here to generate_leave.  False: it has as many as it may
// (--key-requests), and the exchange is answered with 429.
bool generate_enter(HttpExchange *x, bool *entered);
void generate_leave(const HttpExchange *x, bool *entered);
uint64_t generate_salt(const HttpExchange *x);

#endif
