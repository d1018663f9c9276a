// markup.h -- strings of models within HTML and SVG.
//
// Guarantees: whatever the bytes, the output is well-formed UTF-8 and cannot leave the place it is
//             put in: text cannot become markup.
#ifndef TENON_BASE_MARKUP_H
#define TENON_BASE_MARKUP_H

#include "base/base.h"

// The next character of s from *i on; bytes that are not UTF-8 give U+FFFD, one for each.
uint32_t markup_next(Str s, int64_t *i);
void markup_put(StrBuf *b, uint32_t u);
// Characters that text must not hold as they are.
bool markup_unwanted(uint32_t u);
// Text for XML content and double-quoted attributes: markup escaped, what XML forbids replaced.
void escape_xml(StrBuf *b, Str s);

#endif
