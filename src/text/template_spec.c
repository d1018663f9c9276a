// template_spec.c -- format(value, spec) of Python: width, alignment, signs, groups, precision.
//
//   [[fill]align][sign][z][#][0][width][group][.precision][type]
#include "text/template_impl.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH_MOST = 1 << 24, PRECISION_MOST = 400 };

typedef struct Spec {
  uint32_t fill;
  char align, sign, group, type;
  bool alt, positive_zero, zero;
  int64_t width, precision;  // -1: not given
} Spec;

static NORETURN void bad(Tpl *x, const char *what) { tpl_fail(x, "format: %s", what); }

static bool is_align(uint32_t c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

static int64_t read_number(Tpl *x, const char **p, const char *end) {
  int64_t n = -1;
  for (; *p < end && **p >= '0' && **p <= '9'; ++*p) {
    n = MAX(n, 0) * 10 + (**p - '0');
    if (n > WIDTH_MOST) tpl_limit(x, "output");
  }
  return n;
}

static Spec parse_spec(Tpl *x, Str s, char default_align) {
  const char *p = s.p, *end = s.p + s.n, *second = p;
  Spec out = {.fill = ' ', .align = default_align, .width = -1, .precision = -1};
  bool filled = false, aligned = false;
  uint32_t first = p < end ? utf8_next(&second) : 0;
  if (second < end && is_align((uint8_t)*second)) {
    out.fill = first;
    filled = aligned = true;
    out.align = *second;
    p = second + 1;
  } else if (p < end && is_align(first)) {
    out.align = *p++;
    aligned = true;
  }
  if (p < end && (*p == '+' || *p == '-' || *p == ' ')) out.sign = *p++;
  if (p < end && *p == 'z') out.positive_zero = (p++, true);
  if (p < end && *p == '#') out.alt = (p++, true);
  if (!filled && p < end && *p == '0') {
    out.fill = '0';
    if (!aligned && default_align == '>') out.align = '=';
    p++;
  }
  out.width = read_number(x, &p, end);
  if (p < end && (*p == ',' || *p == '_')) out.group = *p++;
  if (p < end && (*p == ',' || *p == '_')) bad(x, "two signs of groups");
  if (p < end && *p == '.') {
    p++;
    out.precision = read_number(x, &p, end);
    if (out.precision < 0) bad(x, "a precision is missing");
  }
  if (end - p > 1 || (p < end && (uint8_t)*p >= 0x80)) bad(x, "an unknown form");
  if (p < end) out.type = *p;
  return out;
}

// sign and prefix, then the body, with fill around or between them.
static void put_padded(Tpl *x, Buf *b, const Spec *s, Str prefix, Str body) {
  int64_t more = s->width - utf8_count(prefix.p, prefix.n) - utf8_count(body.p, body.n), left = 0;
  if (more < 0) more = 0;
  if (s->align == '>') left = more;
  if (s->align == '^') left = more / 2;
  if (s->align != '=') buf_fill(x, b, s->fill, left);
  buf_put(x, b, prefix);
  if (s->align == '=') {
    buf_fill(x, b, s->fill, more);
    left = more;
  }
  buf_put(x, b, body);
  buf_fill(x, b, s->fill, more - left);
}

static void put_text(Tpl *x, Buf *b, Value v, Str spec) {
  Spec s = parse_spec(x, spec, '<');
  if (s.type && s.type != 's') bad(x, "an unknown type for a string");
  if (s.sign || s.alt || s.positive_zero || s.group || s.align == '=')
    bad(x, "a form of numbers for a string");
  Str text = str_of_value(v);
  if (s.precision >= 0 && s.precision < text_chars(x, v.s))
    text.n = utf8_at(x, v.s, s.precision) - text.p;
  put_padded(x, b, &s, (Str){0}, text);
}

// ---- digits in groups ----

// `digits` with the sign of groups between them; zeros in front until `least` characters are there.
static void put_grouped(Tpl *x, Buf *out, Str digits, const Spec *s, int64_t each, int64_t least) {
  int64_t n = digits.n, zeros = 0;
  if (!s->group) {
    buf_put(x, out, digits);
    return;
  }
  while (n + zeros + (n + zeros - 1) / each < least) zeros++;
  for (int64_t i = 0; i < n + zeros; i++) {
    if (i && (n + zeros - i) % each == 0) buf_putc(x, out, s->group);
    buf_putc(x, out, i < zeros ? '0' : digits.p[i - zeros]);
  }
}

static int64_t zeros_to(const Spec *s, int64_t taken) {
  return s->fill == '0' && s->align == '=' && s->width > taken ? s->width - taken : 0;
}

static char sign_of(const Spec *s, bool minus) {
  return minus ? '-' : s->sign == '+' || s->sign == ' ' ? s->sign : 0;
}

// ---- integers ----

static int64_t base_digits(uint64_t v, int base, bool upper, char out[72]) {
  const char *digit = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  int64_t n = 72;
  do out[--n] = digit[v % (uint64_t)base];
  while (v /= (uint64_t)base);
  return n;
}

static void put_char(Tpl *x, Buf *b, int64_t i, const Spec *s) {
  char text[4];
  if (s->sign || s->alt || s->group) bad(x, "a sign for a character");
  if (i < 0 || i > 0x10ffff || (i >= 0xd800 && i <= 0xdfff)) bad(x, "no character has this number");
  put_padded(x, b, s, (Str){0}, (Str){text, utf8_put(text, (uint32_t)i)});
}

static void put_float(Tpl *x, Buf *b, double f, Spec s);

static void put_integer(Tpl *x, Buf *b, int64_t i, Spec s) {
  char digits[72], prefix[4];
  int base = s.type == 'b' ? 2 : s.type == 'o' ? 8 : s.type == 'x' || s.type == 'X' ? 16 : 10;
  int64_t np = 0;
  if (s.type && strchr("eEfFgG%", s.type)) {
    put_float(x, b, (double)i, s);
    return;
  }
  if (s.type && !strchr("bcdoxXn", s.type)) bad(x, "an unknown type for an integer");
  if (s.precision >= 0) bad(x, "a precision for an integer");
  if (s.positive_zero) bad(x, "z for an integer");
  if (s.type == 'c') {
    put_char(x, b, i, &s);
    return;
  }
  if ((s.group == ',' && base != 10) || (s.group && s.type == 'n')) bad(x, "groups for this type");
  int64_t from = base_digits(i < 0 ? 0 - (uint64_t)i : (uint64_t)i, base, s.type == 'X', digits);
  if (sign_of(&s, i < 0)) prefix[np++] = sign_of(&s, i < 0);
  if (s.alt && base != 10) {
    prefix[np++] = '0';
    prefix[np++] = s.type;
  }
  Buf body = {0};
  put_grouped(x, &body, (Str){digits + from, 72 - from}, &s, base == 10 ? 3 : 4, zeros_to(&s, np));
  put_padded(x, b, &s, (Str){prefix, np}, (Str){body.p, body.n});
}

// ---- floats ----

// The C library's text with a point, whatever the locale.
static void print_float(Tpl *x, Buf *out, const char *form, int precision, double f) {
  char text[1024];
  const char *point = localeconv()->decimal_point;
  int n = snprintf(text, sizeof text, form, precision, f);
  if (n < 0 || n >= (int)sizeof text) tpl_limit(x, "output");
  const char *at = *point ? strstr(text, point) : NULL;
  if (!at) {
    buf_put(x, out, (Str){text, n});
    return;
  }
  buf_put(x, out, (Str){text, at - text});
  buf_putc(x, out, '.');
  buf_puts(x, out, at + strlen(point));
}

// No type but a precision: as 'g', with a digit behind the point.
static void print_short(Tpl *x, Buf *out, double f, int precision) {
  Buf e = {0};
  print_float(x, &e, "%.*e", MAX(precision, 1) - 1, f);
  buf_putc(x, &e, 0);
  int exponent = (int)strtol(strchr(e.p, 'e') + 1, NULL, 10) + 1;
  bool with_exponent = f != 0 && (exponent <= -4 || exponent > MAX(precision, 1) - 1);
  int64_t from = out->n;
  print_float(x, out, "%.*g", MAX(precision, 1), f);
  bool has_e = memchr(out->p + from, 'e', (size_t)(out->n - from)) != NULL;
  if (with_exponent && !has_e) {
    // 'g' would still write it plainly: the digits of the exponent form, without zeros at the end.
    char *p = strchr(e.p, 'e');
    int64_t end = p - e.p;
    while (memchr(e.p, '.', (size_t)end) && (e.p[end - 1] == '0' || e.p[end - 1] == '.')) {
      end--;
      if (e.p[end] == '.') break;
    }
    out->n = from;
    buf_put(x, out, (Str){e.p, end});
    buf_puts(x, out, p);
    return;
  }
  if (!has_e && !memchr(out->p + from, '.', (size_t)(out->n - from))) buf_puts(x, out, ".0");
}

static void float_text(Tpl *x, Buf *out, double f, const Spec *s) {
  char form[8] = {'%', 0}, repr[40];
  int at = 1;
  bool upper = s->type == 'E' || s->type == 'F' || s->type == 'G';
  if (!isfinite(f)) {
    buf_puts(x, out, isnan(f) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf");
    return;
  }
  if (!s->type) {
    if (s->precision < 0)
      buf_put(x, out, (Str){repr, float_repr(f, repr)});
    else
      print_short(x, out, f, (int)s->precision);
    return;
  }
  if (s->alt) form[at++] = '#';
  memcpy(form + at, ".*", 2);
  form[at + 2] = s->type == '%' ? 'f' : s->type == 'n' ? 'g' : s->type;
  form[at + 3] = 0;
  print_float(x, out, form, s->precision < 0 ? 6 : (int)s->precision, f);
}

static bool is_zero_text(const Buf *b) {
  for (int64_t i = 0; i < b->n && (b->p[i] | 32) != 'e'; i++)
    if (b->p[i] >= '1' && b->p[i] <= '9') return false;
  return true;
}

static void put_float(Tpl *x, Buf *b, double f, Spec s) {
  if (s.type && !strchr("eEfFgGn%", s.type)) bad(x, "an unknown type for a float");
  if (s.precision > PRECISION_MOST) tpl_limit(x, "output");
  if (s.group && s.type == 'n') bad(x, "groups for this type");
  if (s.alt && !s.type) tpl_unsupported(x, "'#' for a float without a type");
  if (s.type == '%') f *= 100;
  Buf text = {0}, body = {0};
  bool minus = signbit(f) && !isnan(f);
  float_text(x, &text, fabs(f), &s);
  if (s.positive_zero && minus && isfinite(f) && is_zero_text(&text)) minus = false;
  if (s.type == '%') buf_putc(x, &text, '%');
  char sign = sign_of(&s, minus);
  int64_t whole = 0;
  while (whole < text.n && text.p[whole] >= '0' && text.p[whole] <= '9') whole++;
  put_grouped(x, &body, (Str){text.p, whole}, &s, 3, zeros_to(&s, (sign != 0) + text.n - whole));
  buf_put(x, &body, (Str){text.p + whole, text.n - whole});
  put_padded(x, b, &s, (Str){&sign, sign != 0}, (Str){body.p, body.n});
}

void put_format(Tpl *x, Buf *b, Value v, Str spec) {
  if (!spec.n) {
    put_str(x, b, v);
  } else if (is_str(v)) {
    put_text(x, b, v, spec);
  } else if (is_int(v)) {
    put_integer(x, b, int_of(v), parse_spec(x, spec, '>'));
  } else if (v.kind == V_FLOAT) {
    put_float(x, b, v.f, parse_spec(x, spec, '>'));
  } else {
    tpl_fail(x, "a value of type %s takes no format", kind_name(v));
  }
}
