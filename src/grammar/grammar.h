// grammar.h -- structured output: which tokens may come next, so that an answer has a given form.
//
// A form is a JSON Schema (2020-12), a regular expression (ECMA-262), a GBNF grammar, a list of
// choices, or text with tool calls.  Each becomes one byte-level automaton with a stack.  A mask
// has a bit for each token of the vocabulary: set where some answer of the form goes on with it.
//
//   GrammarVocab *v;  Grammar *g;  GrammarState *s;
//   grammar_vocab_create(tokenizer, diag, &v);                    once for a model
//   grammar_compile(v, &(GrammarSpec){.kind = GRAMMAR_SCHEMA, .text = schema}, diag, &g);
//   grammar_state_create(g, diag, &s);
//   loop: grammar_mask(s, tokens left, allowed);  draw;  grammar_accept(s, token);
//
// Whole in time.  A mask is made for the number of tokens that are left.  It holds no token after
// which the answer could not be ended within the rest, so an answer that max_tokens ends is whole.
// grammar_least says how many tokens that takes; a request for fewer must be refused first.
//
// Refused first.  What a schema, regular expression or grammar asks for and Tenon does not have is
// TENON_EUNSUPPORTED, by name and with the JSON pointer.  Malformed text is TENON_EFORMAT or
// TENON_EINVAL, and what is beyond a limit of limits.def TENON_EUNSUPPORTED.
//
// Threads.  A vocabulary is immutable.  A grammar with all its states is used by one thread at a
// time, because masks are remembered in it; different grammars share nothing but the vocabulary.
#ifndef TENON_GRAMMAR_GRAMMAR_H
#define TENON_GRAMMAR_GRAMMAR_H

#include "text/tokenizer.h"

// ---- the vocabulary ----
typedef struct GrammarVocab GrammarVocab;
// Keeps nothing of the tokenizer.  Control tokens are in no mask, except those that a tool call's
// tags name and those that end a generation, where the answer may end.
MUST_USE tenon_status grammar_vocab_create(const Tokenizer *t, Diag *d, GrammarVocab **out);
// The same of tokens that a function tells, for models behind the public interface: what a token
// stands for, and whether it is a control token, or ends a generation.
typedef struct GrammarTokens {
  int64_t n;
  Str (*piece)(const void *ctx, int32_t id, bool *special, bool *end);
  const void *ctx;
} GrammarTokens;
MUST_USE tenon_status grammar_vocab_of(const GrammarTokens *t, Diag *d, GrammarVocab **out);
void grammar_vocab_free(GrammarVocab *v);            // NULL is nothing
int64_t grammar_vocab_words(const GrammarVocab *v);  // words of 32 bits of a mask

// ---- forms ----
typedef enum GrammarKind {
  GRAMMAR_SCHEMA,   // text: a JSON Schema
  GRAMMAR_JSON,     // any JSON object: response_format json_object
  GRAMMAR_REGEX,    // text: a regular expression, of the whole answer
  GRAMMAR_GBNF,     // text: a grammar as llama.cpp writes them, whose rule `root` is the answer
  GRAMMAR_CHOICES,  // one of `choice`
  GRAMMAR_TOOLS     // tool calls between tags
} GrammarKind;

// A tool call: `begin`, JSON of `schema`, `end`.  A control token in `begin` or `end` is named by
// its text; it is looked for where the tag begins or ends, as a whole.
//
// With `args` each argument stands between texts of its own instead, in this order.
typedef struct GrammarArg {
  Str begin, end;
  Str schema;     // of the value as JSON; empty: it is a text as it is
  Str never;      // what such a text does not hold
  const Str *of;  // the text is one of these; NULL: any
  int64_t nof;
  bool required;
} GrammarArg;
typedef struct GrammarTag {
  Str begin, end;
  Str schema;  // of what is between the tags; empty: any JSON object
  bool args;
  const GrammarArg *arg;
  int64_t narg;
} GrammarTag;

typedef struct GrammarSpec {
  GrammarKind kind;
  Str text;
  const Str *choice;
  int64_t nchoice;
  const GrammarTag *tag;  // in GRAMMAR_TOOLS: any of them
  int64_t ntag;
  int32_t least, most;  // calls; most 0: any number
  bool free_text;       // text may be around the calls; it cannot hold a tag's beginning
  Str between;          // between two calls, where there is no free text
  Str open, close;      // around calls, with `between` between them; empty: nothing
  const Str *never;     // further texts that free text does not hold
  int64_t nnever;
  // Reasoning in front: text up to `think_end`.  It begins with `think`, or there is none; with
  // `thinking` it has begun already.
  Str think, think_end;
  bool thinking;
  bool compact;  // JSON without white space between its tokens
} GrammarSpec;

typedef struct Grammar Grammar;
// Refers to the vocabulary, and to nothing of `spec`.
MUST_USE tenon_status grammar_compile(const GrammarVocab *v, const GrammarSpec *spec, Diag *d,
                                      Grammar **out);
void grammar_free(Grammar *g);  // NULL is nothing; its states must be gone
// The tokens that a shortest answer takes: at most so many, and no bound below it is known.
int64_t grammar_least(const Grammar *g);

// ---- states: how far an answer is ----
typedef struct GrammarState GrammarState;
MUST_USE tenon_status grammar_state_create(Grammar *g, Diag *d, GrammarState **out);
void grammar_state_free(GrammarState *s);  // NULL is nothing
// Sets the bits of the tokens that may come next, where `left` tokens may still come: bit id % 32
// of word id / 32.  Tokens that end a generation are among them where the answer may end.  They
// need no room in `left`.  No bit is set where memory ended; grammar_wrong says so.
void grammar_mask(GrammarState *s, int64_t left, uint32_t *allowed);
// Goes on by a token.  False: the form does not allow it, and the state is as before.
bool grammar_accept(GrammarState *s, int32_t token);
bool grammar_accept_bytes(GrammarState *s, Str bytes);  // counts as one token
bool grammar_can_end(const GrammarState *s);            // the answer is whole
bool grammar_must_end(const GrammarState *s);           // ... and nothing can follow
int64_t grammar_state_least(const GrammarState *s);     // tokens that ending takes, as above
int64_t grammar_taken(const GrammarState *s);           // tokens accepted
// NULL, or why masks are empty: memory or a limit.
const char *grammar_wrong(const GrammarState *s);

// ---- for a sampler ----
// A tenon_llm_mask: `state` is a GrammarState.  It takes the answer's tokens that are new, then
// makes the mask.
tenon_llm_allowed grammar_hook(const tenon_llm_place *place, uint32_t *allowed, void *state);

#endif
