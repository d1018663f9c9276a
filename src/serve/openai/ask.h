// ask.h -- asks of an engine that each have one answer: a text, or a vector.
#ifndef TENON_SERVE_OPENAI_ASK_H
#define TENON_SERVE_OPENAI_ASK_H

#include "serve/openai/answers.h"

typedef struct Asks Asks;
typedef struct AskOne {
  LlmCall call;
  Asks *asks;
  bool ended;
  int64_t tokens;  // that the engine read
  Str text;        // of an answer that is text
  int64_t n;
  float *vector;  // else
} AskOne;

// Filled in by the route: `ask` has the JSON of each.  `done` is called when all are answered, and
// answers the exchange; an error of one is that of all.
struct Asks {
  HttpExchange *x;
  Model *model;
  int64_t n, ended;
  bool entered;
  AskOne *one;
  void (*done)(Asks *a);
  void *of_route;
};
void asks_begin(Asks *a, const Str *ask);

#endif
