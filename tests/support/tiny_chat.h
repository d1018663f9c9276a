// tiny_chat.h -- a whole small language model for tests of serving: weights, tokenizer, template.
#ifndef TENON_TESTS_SUPPORT_TINY_CHAT_H
#define TENON_TESTS_SUPPORT_TINY_CHAT_H

#include "tiny_llm.h"

// Ids below TINY_END are bytes.
enum { TINY_END = 256, TINY_TURN, TINY_VOCAB, TINY_CONTEXT = 256 };

// A folder of the test's own with a Llama of two layers; its path lives as long as `m`.
const char *tiny_chat(TinyLlm *m, const char *name);
// The same in two parts, between which a test may change the weights.
void tiny_chat_weights(TinyLlm *m);
const char *tiny_chat_folder(TinyLlm *m, const char *name);

#endif
