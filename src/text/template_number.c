// template_number.c -- numbers as text, as Python reads and writes them.
//
// A float is written with the fewest digits that give it back.  The C library rounds correctly, so
// 15 digits are tried first, then 16 and 17.  The locale's decimal point never shows.
#include "text/template_impl.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The digits and the exponent of v, which is finite and not 0: v = 0.d1d2... * 10^exponent.
static int shortest(double v, char digit[20], int *exponent) {
  char text[48];
  for (int n = 15;; n++) {
    snprintf(text, sizeof text, "%.*e", n - 1, v);
    if (n == 17 || strtod(text, NULL) == v) break;
  }
  int count = 0;
  char *p = text;
  for (; *p && *p != 'e'; p++)
    if (*p >= '0' && *p <= '9' && count < 19) digit[count++] = *p;
  *exponent = (int)strtol(p + 1, NULL, 10) + 1;
  while (count > 1 && digit[count - 1] == '0') count--;
  return count;
}

static int fixed_form(const char *digit, int n, int exponent, char *out) {
  int len = 0;
  if (exponent <= 0) {
    out[len++] = '0';
    out[len++] = '.';
    for (int i = exponent; i < 0; i++) out[len++] = '0';
    for (int i = 0; i < n; i++) out[len++] = digit[i];
    return len;
  }
  for (int i = 0; i < MAX(n, exponent); i++) {
    if (i == exponent) out[len++] = '.';
    out[len++] = i < n ? digit[i] : '0';
  }
  if (n <= exponent) {
    out[len++] = '.';
    out[len++] = '0';
  }
  return len;
}

int float_repr(double v, char out[40]) {
  char digit[20];
  int exponent, len = 0;
  if (!isfinite(v)) {
    const char *text = isnan(v) ? "nan" : v < 0 ? "-inf" : "inf";
    memcpy(out, text, strlen(text));
    return (int)strlen(text);
  }
  if (signbit(v)) out[len++] = '-';
  if (v == 0) {
    memcpy(out + len, "0.0", 3);
    return len + 3;
  }
  int n = shortest(fabs(v), digit, &exponent);
  if (exponent > -4 && exponent <= 16) return len + fixed_form(digit, n, exponent, out + len);
  out[len++] = digit[0];
  if (n > 1) out[len++] = '.';
  for (int i = 1; i < n; i++) out[len++] = digit[i];
  return len + snprintf(out + len, 8, "e%c%02d", exponent - 1 < 0 ? '-' : '+', abs(exponent - 1));
}

bool float_parse(Str s, double *out) {
  char copy[512];
  const char *point = localeconv()->decimal_point;
  int64_t n = 0;
  if (!s.n || s.n > 400) return false;
  for (int64_t i = 0; i < s.n; i++) {
    if (s.p[i] != '.') {
      copy[n++] = s.p[i];
      continue;
    }
    for (const char *q = point; *q && n < 500; q++) copy[n++] = *q;
  }
  copy[n] = 0;
  char *end;
  *out = strtod(copy, &end);
  return *end == 0;
}

// ---- float(s) ----

// s without white space around it, in ASCII: digits of other scripts become plain ones.
static bool plain(Str s, char *out, int64_t cap, int64_t *n) {
  const char *p = s.p, *end = s.p + s.n;
  *n = 0;
  while (p < end) {
    const char *q = p;
    if (!uc_is_space(utf8_next(&q))) break;
    p = q;
  }
  while (end > p) {
    const char *q = end;
    if (!uc_is_space(utf8_last(p, &q))) break;
    end = q;
  }
  while (p < end) {
    uint32_t c = utf8_next(&p);
    if (c >= 0x80 && !(uc_flags(c) & UC_DECIMAL)) return false;
    if (*n == cap) return false;
    out[(*n)++] = (char)(c < 0x80 ? (int)c : '0' + uc_digit(c));
  }
  return *n > 0;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Underscores stand between digits only, and are removed.
static bool remove_underscores(char *p, int64_t *n) {
  int64_t to = 0;
  for (int64_t i = 0; i < *n; i++) {
    if (p[i] != '_') {
      p[to++] = p[i];
      continue;
    }
    if (i == 0 || i + 1 == *n || !is_digit(p[i - 1]) || !is_digit(p[i + 1])) return false;
  }
  *n = to;
  return true;
}

static bool same_word(const char *p, int64_t n, const char *word) {
  if (n != (int64_t)strlen(word)) return false;
  for (int64_t i = 0; i < n; i++)
    if ((p[i] | 32) != word[i]) return false;
  return true;
}

static bool is_decimal(const char *p, int64_t n) {
  int64_t i = 0, digits = 0;
  while (i < n && is_digit(p[i])) i++, digits++;
  if (i < n && p[i] == '.') i++;
  while (i < n && is_digit(p[i])) i++, digits++;
  if (!digits) return false;
  if (i == n) return true;
  if ((p[i++] | 32) != 'e') return false;
  if (i < n && (p[i] == '+' || p[i] == '-')) i++;
  int64_t from = i;
  while (i < n && is_digit(p[i])) i++;
  return i == n && i > from;
}

bool str_to_float(Str s, double *out) {
  char text[400];
  int64_t n;
  if (!plain(s, text, sizeof text, &n)) return false;
  if (!remove_underscores(text, &n)) return false;
  bool minus = text[0] == '-';
  int64_t from = minus || text[0] == '+';
  const char *p = text + from;
  n -= from;
  if (same_word(p, n, "inf") || same_word(p, n, "infinity"))
    *out = INFINITY;
  else if (same_word(p, n, "nan"))
    *out = NAN;
  else if (!is_decimal(p, n) || !float_parse((Str){p, n}, out))
    return false;
  if (minus) *out = -*out;
  return true;
}

// ---- int(s, base) ----

static int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  c |= 32;
  return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

// A prefix 0x, 0o, 0b is taken where the base is its own or 0.
static int64_t prefix_of(const char *p, int64_t n, int64_t *base) {
  int64_t of = 0;
  if (n >= 2 && p[0] == '0')
    of = (p[1] | 32) == 'x' ? 16 : (p[1] | 32) == 'o' ? 8 : (p[1] | 32) == 'b' ? 2 : 0;
  if (of && (*base == 0 || *base == of)) {
    *base = of;
    return 2;
  }
  return 0;
}

IntEnd str_to_int(Str s, int64_t base, int64_t *out) {
  char text[400];
  int64_t n, i = 0, digits = 0;
  if (base != 0 && (base < 2 || base > 36)) return INT_BAD;
  if (!plain(s, text, sizeof text, &n)) return s.n > 400 ? INT_BIG : INT_BAD;
  bool minus = text[0] == '-', big = false, zeros = false;
  if (minus || text[0] == '+') i++;
  int64_t skip = prefix_of(text + i, n - i, &base);
  i += skip;
  if (skip && i < n && text[i] == '_') i++;
  if (base == 0) {
    base = 10;
    zeros = true;  // 0 alone may begin with 0
  }
  bool leading = zeros && i < n && text[i] == '0';
  int64_t v = 0;
  for (; i < n; i++) {
    if (text[i] == '_' && digits && i + 1 < n && text[i - 1] != '_') continue;
    int d = digit_of(text[i]);
    if (d >= base) return INT_BAD;
    digits++;
    if (leading && d) return INT_BAD;
    if (!ck_mul(v, base, &v) || !ck_sub(v, d, &v)) big = true;
  }
  if (!digits || text[n - 1] == '_') return INT_BAD;
  if (big || (!minus && v == INT64_MIN)) return INT_BIG;
  *out = minus ? v : -v;
  return INT_OK;
}
