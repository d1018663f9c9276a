// textnum.h -- numbers as the text form writes them (textnum.c): the same in every locale.
#ifndef TENON_IR_TEXTNUM_H
#define TENON_IR_TEXTNUM_H

#include "base/base.h"
#include "base/num.h"

enum { TEXT_NUMBER_MAX = LIMIT_TEXT_NUMBER };  // characters of one number

// One element, written so that reading it gives the same bits.  Strings excepted.
void text_put_element(StrBuf *b, DType t, const void *base, int64_t i);
bool text_can_list(DType t, const void *base, int64_t n);  // else hex: bits that no element shows
void text_put_f64(StrBuf *b, double x);                    // an attribute
uint64_t text_get_bits(DType t, const void *base, int64_t i);
void text_put_bits(DType t, void *base, int64_t i, uint64_t bits);
// An unsigned decimal: digits, point, exponent, independent of the locale.  An `f` at the end
// rounds to f32.
bool text_decimal(Str s, double *out);
bool text_unsigned(Str s, uint64_t *out);  // decimal digits or 0x and hex digits, whole string

#endif
