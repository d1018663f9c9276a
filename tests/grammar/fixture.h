// fixture.h -- a small vocabulary for tests of structured output.
#ifndef TENON_TESTS_GRAMMAR_FIXTURE_H
#define TENON_TESTS_GRAMMAR_FIXTURE_H

#include "grammar/grammar.h"
#include "test.h"

typedef struct TestVocab {
  Arena arena;
  Diag diag;
  Tokenizer *t;
  GrammarVocab *v;
} TestVocab;

// Token 1 is <s>, 2 ends, 3 and 4 are <|call|> and <|done|>; 256 bytes follow, then words.
void test_vocab_begin(TestVocab *o);
void test_vocab_end(TestVocab *o);
uint64_t test_random(uint64_t *x);

#endif
