// textnum.c -- numbers of the text form: the shortest decimal that reads back as the same bits.
//
// What a decimal means is fixed by one function, text_decimal (correctly rounded to double),
// followed by one rounding to the element's type.  The printer tries more and more digits until
// that gives the bits it started from, so the two can never disagree; bits that no decimal gives
// (NaN payloads) are written in hex.  The C library's decimal point follows the locale, so none is
// ever given to or taken from it.
#include "ir/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- bits ----

uint64_t text_get_bits(DType t, const void *base, int64_t i) {
  int bits = dtype_bits(t);
  const uint8_t *p = base;
  if (bits < 8) {
    int each = 8 / bits;
    return (uint64_t)(p[i / each] >> (i % each * bits)) & ((1u << bits) - 1);
  }
  uint64_t out = 0;
  memcpy(&out, p + i * (bits / 8), (size_t)(bits / 8));
  return out;
}

void text_put_bits(DType t, void *base, int64_t i, uint64_t value) {
  int bits = dtype_bits(t);
  uint8_t *p = base;
  if (bits < 8) {
    int each = 8 / bits, shift = (int)(i % each) * bits;
    unsigned mask = ((1u << bits) - 1) << shift;
    p[i / each] = (uint8_t)((p[i / each] & ~mask) | ((unsigned)value << shift & mask));
    return;
  }
  memcpy(p + i * (bits / 8), &value, (size_t)(bits / 8));
}

bool text_can_list(DType t, const void *base, int64_t n) {
  const uint8_t *p = base;
  int bits = dtype_bits(t);
  if (t == DT_BOOL)
    for (int64_t i = 0; i < n; i++)
      if (p[i] > 1) return false;
  if (bits < 8 && n % (8 / bits)) return p[n / (8 / bits)] >> (n % (8 / bits) * bits) == 0;
  return true;
}

// ---- reading ----

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool text_unsigned(Str s, uint64_t *out) {
  bool hex = s.n > 2 && s.p[0] == '0' && s.p[1] == 'x';
  uint64_t v = 0;
  for (int64_t i = hex ? 2 : 0; i < s.n; i++) {
    char c = s.p[i];
    uint64_t digit;
    if (is_digit(c))
      digit = (uint64_t)(c - '0');
    else if (hex && c >= 'a' && c <= 'f')
      digit = (uint64_t)(c - 'a' + 10);
    else
      return false;
    if (__builtin_mul_overflow(v, hex ? 16u : 10u, &v) || __builtin_add_overflow(v, digit, &v))
      return false;
  }
  *out = v;
  return s.n > 0;
}

// The exponent after e, clamped to where every double is 0 or infinite.
static bool exponent(Str s, int64_t *out) {
  bool negative = s.n > 0 && s.p[0] == '-';
  int64_t i = s.n > 0 && (s.p[0] == '-' || s.p[0] == '+'), v = 0;
  if (i == s.n) return false;
  for (; i < s.n; i++) {
    if (!is_digit(s.p[i])) return false;
    v = MIN(v * 10 + (s.p[i] - '0'), 100000);
  }
  *out = negative ? -v : v;
  return true;
}

bool text_decimal(Str s, double *out) {
  if (s.n == 0 || s.n > TEXT_NUMBER_MAX) return false;
  bool f32 = s.p[s.n - 1] == 'f';
  s.n -= f32;
  char digits[TEXT_NUMBER_MAX + 32];
  int64_t n = 0, exp = 0, after_point = 0;
  bool point = false;
  for (int64_t i = 0; i < s.n; i++) {
    char c = s.p[i];
    if (is_digit(c)) {
      digits[n++] = c;
      after_point += point;
    } else if (c == '.' && !point && n > 0) {
      point = true;
    } else if ((c == 'e' || c == 'E') && n > 0) {
      if (!exponent((Str){s.p + i + 1, s.n - i - 1}, &exp)) return false;
      break;
    } else {
      return false;
    }
  }
  if (n == 0) return false;
  snprintf(digits + n, sizeof digits - (size_t)n, "e%lld", (long long)(exp - after_point));
  *out = strtod(digits, NULL);
  if (f32) *out = (double)(float)*out;
  return true;
}

// ---- writing ----

typedef struct Decimal {
  char text[64];
} Decimal;

// |x| with `precision` significant digits: plain between 1e-5 and 1e17, else with an exponent.
static void format_decimal(double x, int precision, Decimal *out) {
  char e[64], digits[32];
  snprintf(e, sizeof e, "%.*e", precision - 1, fabs(x));
  int n = 0, exp = 0;
  const char *p = e;
  for (; *p && *p != 'e'; p++)
    if (is_digit(*p) && n < (int)sizeof digits - 1) digits[n++] = *p;
  if (*p == 'e') exp = (int)strtol(p + 1, NULL, 10);
  while (n > 1 && digits[n - 1] == '0') n--;
  digits[n] = 0;
  char *to = out->text;
  size_t cap = sizeof out->text;
  const char *sign = signbit(x) ? "-" : "";
  if (exp >= 0 && exp < 17) {
    int whole = exp + 1;
    if (n <= whole)
      snprintf(to, cap, "%s%s%.*s", sign, digits, whole - n, "00000000000000000");
    else
      snprintf(to, cap, "%s%.*s.%s", sign, whole, digits, digits + whole);
  } else if (exp < 0 && exp >= -5) {
    snprintf(to, cap, "%s0.%.*s%s", sign, -exp - 1, "0000", digits);
  } else if (n == 1) {
    snprintf(to, cap, "%s%se%d", sign, digits, exp);
  } else {
    snprintf(to, cap, "%s%c.%se%d", sign, digits[0], digits + 1, exp);
  }
}

static double read_back(const Decimal *d) {
  double x = 0;
  bool negative = d->text[0] == '-';
  text_decimal(str_of(d->text + negative), &x);
  return negative ? -x : x;
}

// The bits that reading the double gives in an element of type t.
static uint64_t bits_of(DType t, double x) {
  uint64_t word[2] = {0};
  put_f64(t, word, 0, x);
  return text_get_bits(t, word, 0);
}

// False when no decimal gives these bits.
static bool shortest(DType t, double x, uint64_t bits, Decimal *out) {
  if (fabs(x) < 1e15 &&
      x == trunc(x)) {  // whole numbers as they are: 448, where 450 would do in 8 bits
    format_decimal(x, 15, out);
    return bits_of(t, read_back(out)) == bits;
  }
  for (int precision = 1; precision <= 17; precision++) {
    format_decimal(x, precision, out);
    if (bits_of(t, read_back(out)) == bits) return true;
  }
  return false;
}

static void put_float(StrBuf *b, DType t, const void *base, int64_t i) {
  uint64_t bits = text_get_bits(t, base, i);
  double x = get_f64(t, base, i);
  Decimal d;
  if (isnan(x) && bits == bits_of(t, (double)NAN))
    strbuf_puts(b, "nan");
  else if (isinf(x) && bits == bits_of(t, x))
    strbuf_puts(b, x < 0 ? "-inf" : "inf");
  else if (isfinite(x) && shortest(t, x, bits, &d))
    strbuf_puts(b, d.text);
  else
    strbuf_printf(b, "0x%0*llx", (dtype_bits(t) + 3) / 4, (unsigned long long)bits);
}

void text_put_f64(StrBuf *b, double x) {
  float f = (float)x;
  Decimal wide, narrow;
  uint64_t bits;
  uint32_t narrow_bits;
  memcpy(&bits, &x, sizeof bits);
  memcpy(&narrow_bits, &f, sizeof narrow_bits);
  // Attributes that were f32 read better as such: 0.1f, not 0.10000000149011612.
  if (isfinite(x) && (double)f == x && shortest(DT_F64, x, bits, &wide) &&
      shortest(DT_F32, x, narrow_bits, &narrow) && strlen(narrow.text) + 1 < strlen(wide.text))
    strbuf_printf(b, "%sf", narrow.text);
  else
    put_float(b, DT_F64, &x, 0);
}

void text_put_element(StrBuf *b, DType t, const void *base, int64_t i) {
  switch (dtype_class(t)) {
  case DC_BOOL: strbuf_puts(b, text_get_bits(t, base, i) ? "true" : "false"); return;
  case DC_INT: strbuf_printf(b, "%lld", (long long)get_i64(t, base, i)); return;
  case DC_UINT: strbuf_printf(b, "%llu", (unsigned long long)text_get_bits(t, base, i)); return;
  case DC_FLOAT: put_float(b, t, base, i); return;
  case DC_COMPLEX: {
    DType part = t == DT_C64 ? DT_F32 : DT_F64;
    strbuf_putc(b, '(');
    put_float(b, part, base, 2 * i);
    strbuf_puts(b, ", ");
    put_float(b, part, base, 2 * i + 1);
    strbuf_putc(b, ')');
    return;
  }
  case DC_NONE:
  case DC_STRING: break;
  }
  CHECK(false, "no text for an element of type %s", dtype_name(t));
}
