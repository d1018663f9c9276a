// validate_regex.h -- regular expressions for the validator of answers.
#ifndef TENON_GRAMMAR_VALIDATE_REGEX_H
#define TENON_GRAMMAR_VALIDATE_REGEX_H

#include "base/base.h"

// 1: the expression is found in the text, 0: it is not, -1: it is not known here, or *fuel ended.
int validate_search(Arena *a, Str pattern, Str text, int64_t *fuel);

#endif
