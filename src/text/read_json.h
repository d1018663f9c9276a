// read_json.h -- what the two readers of tokenizer.json share.
#ifndef TENON_TEXT_READ_JSON_H
#define TENON_TEXT_READ_JSON_H

#include "base/json.h"
#include "text/impl.h"

// A member of the right kind; NULL, `absent` or an empty Str where there is none.
const Json *json_of(const Json *j, const char *key, JsonKind kind);
bool json_flag(const Json *j, const char *key, bool absent);
int64_t json_number_of(const Json *j, const char *key, int64_t absent);
Str json_text(const Json *j, const char *key);

// Normalizer, pre-tokenizer and decoder; then, with the tokens known, the post-processor.
MUST_USE tenon_status read_json_steps(TokenizerBuild *b, const Json *root);
MUST_USE tenon_status read_json_post(TokenizerBuild *b, const Json *root);

#endif
