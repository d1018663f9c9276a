// logprobs.h -- log-probabilities as OpenAI's two interfaces write them.
#ifndef TENON_SERVE_OPENAI_LOGPROBS_H
#define TENON_SERVE_OPENAI_LOGPROBS_H

#include "serve/openai/answers.h"

// "logprobs": {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}
void logprobs_chat(JsonWriter *w, const TokenLog *log, int64_t n);
// "logprobs": {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; *offset is that of the
// first token in characters, and moves on.
void logprobs_completion(JsonWriter *w, const TokenLog *log, int64_t n, int64_t *offset);

#endif
