// template_format.c -- "..." % values, and "...".format(...), as Python's sandbox has them.
#include "text/template_impl.h"

#include <math.h>
#include <stdio.h>

static NORETURN void bad(Tpl *x, const char *what) { tpl_fail(x, "format: %s", what); }

// ascii(v)
static void put_ascii(Tpl *x, Buf *b, Value v) {
  Buf text = {0};
  char code[16];
  put_repr(x, &text, v);
  for (const char *p = text.p; p < text.p + text.n;) {
    uint32_t c = utf8_next(&p);
    const char *form = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
    snprintf(code, sizeof code, form, (unsigned)c);
    if (c < 0x80)
      buf_putc(x, b, (char)c);
    else
      buf_puts(x, b, code);
  }
}

// ---- "..." % values ----

typedef struct Percent {
  Tpl *x;
  Value args;
  int64_t at;     // the next one of a tuple
  bool one_used;  // args itself, where it is no tuple
  bool mapping, safe;
} Percent;
typedef struct Piece {
  bool left, plus, space, alt, zero;
  int64_t width, precision;  // -1: not given
  char type;
} Piece;

static Value next_arg(Percent *f) {
  if (f->args.kind == V_TUPLE && f->at < f->args.l->n) return f->args.l->v[f->at++];
  if (f->args.kind == V_TUPLE || f->one_used) bad(f->x, "too few values");
  f->one_used = true;
  return f->args;
}

static int64_t number_here(Percent *f, const char **p, const char *end, bool *negative) {
  int64_t n = 0;
  if (*p < end && **p == '*') {
    ++*p;
    n = need_int(f->x, next_arg(f), "a width");
    *negative = n < 0;
    if (n < -(1 << 24) || n > 1 << 24) tpl_limit(f->x, "output");
    return n < 0 ? -n : n;
  }
  for (; *p < end && **p >= '0' && **p <= '9'; ++*p) {
    n = n * 10 + (**p - '0');
    if (n > 1 << 24) tpl_limit(f->x, "output");
  }
  return n;
}

static Value key_of(Percent *f, const char **p, const char *end) {
  if (!f->mapping) bad(f->x, "a key needs a mapping");
  const char *from = ++*p;
  for (int open = 1; open; ++*p) {
    if (*p >= end) bad(f->x, "a key without its end");
    open += **p == '(' ? 1 : **p == ')' ? -1 : 0;
  }
  Value key = v_str(f->x, (Str){from, *p - 1 - from});
  if (f->args.kind != V_DICT) bad(f->x, "a key needs a mapping");
  const Value *v = dict_get(f->x, f->args.d, key);
  if (!v) bad(f->x, "a key that the mapping has not");
  return *v;
}

static Piece read_piece(Percent *f, const char **p, const char *end) {
  Piece s = {.width = -1, .precision = -1};
  bool negative = false;
  for (; *p < end && **p && strchr("-+ #0", **p); ++*p) {
    s.left |= **p == '-';
    s.plus |= **p == '+';
    s.space |= **p == ' ';
    s.alt |= **p == '#';
    s.zero |= **p == '0';
  }
  s.width = number_here(f, p, end, &negative);
  s.left |= negative;
  if (*p < end && **p == '.') {
    ++*p;
    negative = false;
    s.precision = number_here(f, p, end, &negative);
    if (negative) s.precision = 0;
  }
  if (*p < end && **p && strchr("hlL", **p)) ++*p;
  if (*p >= end) bad(f->x, "a form without its type");
  s.type = *(*p)++;
  return s;
}

// The sign and prefix, then the digits, padded.
static void put_piece(Percent *f, Buf *b, const Piece *s, Str prefix, Str body, bool number) {
  int64_t more = s->width - utf8_count(body.p, body.n) - prefix.n;
  bool zeros = s->zero && number && !s->left;
  if (more < 0) more = 0;
  if (!s->left && !zeros) buf_fill(f->x, b, ' ', more);
  buf_put(f->x, b, prefix);
  if (zeros) buf_fill(f->x, b, '0', more);
  buf_put(f->x, b, body);
  if (s->left) buf_fill(f->x, b, ' ', more);
}

static void put_text_piece(Percent *f, Buf *b, const Piece *s, Value v) {
  Buf text = {0};
  if (s->type == 's')
    put_str(f->x, &text, f->safe ? v_escape(f->x, v) : v);
  else if (s->type == 'r')
    put_repr(f->x, &text, v);
  else
    put_ascii(f->x, &text, v);
  Value t = buf_value(f->x, &text);
  if (f->safe && s->type != 's') t = v_escape(f->x, t);
  Str body = str_of_value(t);
  if (s->precision >= 0 && s->precision < text_chars(f->x, t.s))
    body.n = utf8_at(f->x, t.s, s->precision) - body.p;
  put_piece(f, b, s, (Str){0}, body, false);
}

static int64_t whole(Percent *f, const Piece *s, Value v) {
  need_defined(f->x, v);
  if (is_int(v)) return int_of(v);
  if (v.kind != V_FLOAT || !strchr("diu", s->type)) bad(f->x, "an integer is needed");
  if (!isfinite(v.f)) bad(f->x, "an integer is needed");
  if (fabs(v.f) >= 0x1p63) tpl_unsupported(f->x, "an integer beyond 64 bits");
  return (int64_t)v.f;
}

static char sign_of(const Piece *s, bool minus) {
  return minus ? '-' : s->plus ? '+' : s->space ? ' ' : 0;
}

static void put_int_piece(Percent *f, Buf *b, const Piece *s, Value v) {
  int64_t i = whole(f, s, v), n = 0;
  uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
  char digits[32], prefix[4];
  const char *form = s->type == 'o'   ? "%llo"
                     : s->type == 'x' ? "%llx"
                     : s->type == 'X' ? "%llX"
                                      : "%llu";
  int len = snprintf(digits, sizeof digits, form, (unsigned long long)u);
  if (sign_of(s, i < 0)) prefix[n++] = sign_of(s, i < 0);
  if (s->alt && strchr("oxX", s->type)) {
    prefix[n++] = '0';
    prefix[n++] = s->type;
  }
  Buf body = {0};
  buf_fill(f->x, &body, '0', s->precision - len);
  buf_put(f->x, &body, (Str){digits, len});
  put_piece(f, b, s, (Str){prefix, n}, (Str){body.p, body.n}, true);
}

static void put_float_piece(Percent *f, Buf *b, const Piece *s, Value v) {
  char spec[32];
  Buf body = {0};
  need_defined(f->x, v);
  if (!is_number(v)) bad(f->x, "a number is needed");
  double d = float_of(v);
  snprintf(spec, sizeof spec, "%s.%lld%c", s->alt ? "#" : "",
           (long long)(s->precision < 0 ? 6 : s->precision), s->type);
  put_format(f->x, &body, v_float(fabs(d)), str_of(spec));
  char sign = sign_of(s, signbit(d) && !isnan(d));
  put_piece(f, b, s, (Str){&sign, sign != 0}, (Str){body.p, body.n}, true);
}

static void put_char_piece(Percent *f, Buf *b, const Piece *s, Value v) {
  char text[4];
  if (is_int(v)) {
    int64_t i = int_of(v);
    if (i < 0 || i > 0x10ffff || (i >= 0xd800 && i <= 0xdfff)) bad(f->x, "no such character");
    put_piece(f, b, s, (Str){0}, (Str){text, utf8_put(text, (uint32_t)i)}, false);
    return;
  }
  if (!is_str(v) || text_chars(f->x, v.s) != 1) bad(f->x, "one character is needed");
  put_piece(f, b, s, (Str){0}, str_of_value(v), false);
}

static void put_percent(Percent *f, Buf *b, const char **p, const char *end) {
  Value v = v_missing();
  bool keyed = *p < end && **p == '(';
  if (keyed) v = key_of(f, p, end);
  Piece s = read_piece(f, p, end);
  if (s.type == '%') {
    buf_putc(f->x, b, '%');
    return;
  }
  if (!strchr("diuoxXeEfFgGcrsa", s.type) || !s.type) bad(f->x, "an unknown type");
  if (!keyed) v = next_arg(f);
  if (strchr("rsa", s.type))
    put_text_piece(f, b, &s, v);
  else if (f->safe && s.type == 'c')
    bad(f->x, "one character is needed");
  else if (s.type == 'c')
    put_char_piece(f, b, &s, v);
  else if (f->safe)
    tpl_unsupported(f->x, "a number in the format of safe text");
  else if (strchr("diuoxX", s.type))
    put_int_piece(f, b, &s, v);
  else
    put_float_piece(f, b, &s, v);
}

Value format_percent(Tpl *x, Value s, Value args) {
  Percent f = {.x = x, .args = args, .safe = s.safe};
  f.mapping =
      args.kind == V_DICT || args.kind == V_LIST || args.kind == V_RANGE || args.kind == V_UNDEF;
  Str t = str_of_value(s);
  Buf b = {0};
  for (const char *p = t.p, *end = t.p + t.n; p < end;) {
    const char *at = memchr(p, '%', (size_t)(end - p));
    if (!at) at = end;
    buf_put(x, &b, (Str){p, at - p});
    p = at;
    if (p == end) break;
    p++;
    put_percent(&f, &b, &p, end);
  }
  bool all = args.kind == V_TUPLE ? f.at == args.l->n : f.one_used || f.mapping;
  if (!all) bad(x, "too many values");
  return v_like(s, buf_value(x, &b));
}

// ---- "...".format(...) ----

typedef struct Format {
  Tpl *x;
  const Args *args;
  bool safe;
  int64_t automatic;  // the next number; -1: numbers are given
} Format;

static bool is_number_text(Str s) {
  if (!s.n) return false;
  for (int64_t i = 0; i < s.n; i++)
    if (s.p[i] < '0' || s.p[i] > '9') return false;
  return true;
}

static Value first_value(Format *f, Str name, bool automatic) {
  int64_t i = 0;
  if (automatic) {
    if (f->automatic < 0) bad(f->x, "numbers are given and left out");
    i = f->automatic++;
  } else if (is_number_text(name)) {
    if (!str_to_i64(name, &i)) bad(f->x, "a number too large");
  } else {
    for (int64_t k = 0; k < f->args->nkw; k++)
      if (str_eq(f->args->name[k], name)) return f->args->kw[k];
    tpl_fail(f->x, "format: there is no argument '%.*s'", STR_ARG(name));
  }
  if (i >= f->args->npos) bad(f->x, "too few values");
  return f->args->pos[i];
}

// name.attribute[index]...
static Value field_value(Format *f, Str name) {
  int64_t n = 0;
  while (n < name.n && name.p[n] != '.' && name.p[n] != '[') n++;
  if (is_number_text(name) && f->automatic > 0) bad(f->x, "numbers are given and left out");
  if (is_number_text(name)) f->automatic = -1;
  Value v = first_value(f, (Str){name.p, n}, name.n == 0);
  while (n < name.n) {
    bool index = name.p[n] == '[';
    if (!index && name.p[n] != '.') bad(f->x, "something behind ']'");
    int64_t from = ++n;
    while (n < name.n && (index ? name.p[n] != ']' : name.p[n] != '.' && name.p[n] != '[')) n++;
    Str part = {name.p + from, n - from};
    if (index && n++ == name.n) bad(f->x, "']' is missing");
    if (!part.n) bad(f->x, "an empty attribute");
    int64_t i;
    if (!index)
      v = v_attr(f->x, v, part);
    else if (is_number_text(part) && str_to_i64(part, &i))
      v = v_item(f->x, v, v_int(i));
    else
      v = v_item(f->x, v, v_str(f->x, part));
  }
  return v;
}

typedef struct Field {
  Str name, spec;
  char conversion;
} Field;

// Behind '{'.
static Field read_field(Format *f, const char **p, const char *end) {
  Field out = {.name = {*p, 0}, .spec = STR("")};
  char c = 0;
  if (*p == end) bad(f->x, "a single '{'");
  while (*p < end) {
    c = *(*p)++;
    if (c == '{') bad(f->x, "'{' in a field's name");
    if (c == '[')
      while (*p < end && **p != ']') ++*p;
    if (c == '}' || c == ':' || c == '!') break;
  }
  if (c != '}' && c != ':' && c != '!') bad(f->x, "a single '{'");
  out.name.n = *p - 1 - out.name.p;
  if (c == '!') {
    if (*p == end) bad(f->x, "a conversion is missing");
    out.conversion = *(*p)++;
    if (*p == end) bad(f->x, "a single '{'");
    c = *(*p)++;
    if (c != '}' && c != ':') bad(f->x, "':' is missing behind a conversion");
  }
  if (c == '}') return out;
  out.spec.p = *p;
  for (int open = 1; open; ++*p) {
    if (*p == end) bad(f->x, "a single '{'");
    open += **p == '{' ? 1 : **p == '}' ? -1 : 0;
  }
  out.spec.n = *p - 1 - out.spec.p;
  return out;
}

static void put_formatted(Format *f, Buf *b, Str s, int level);

static Value convert(Format *f, Value v, char conversion) {
  Buf b = {0};
  switch (conversion) {
  case 0: return v;
  case 's': return to_str(f->x, v);
  case 'r': put_repr(f->x, &b, v); break;
  case 'a': put_ascii(f->x, &b, v); break;
  default: bad(f->x, "an unknown conversion");
  }
  return buf_value(f->x, &b);
}

static void put_field(Format *f, Buf *b, const Field *field, int level) {
  Value v = convert(f, field_value(f, field->name), field->conversion);
  Buf spec = {0}, text = {0};
  put_formatted(f, &spec, field->spec, level - 1);
  if (!f->safe) {
    put_format(f->x, b, v, (Str){spec.p, spec.n});
    return;
  }
  if (is_str(v) && v.safe) {
    if (spec.n) bad(f->x, "a form for safe text");
    put_str(f->x, b, v);
    return;
  }
  put_format(f->x, &text, v, (Str){spec.p, spec.n});
  put_str(f->x, b, v_escape(f->x, buf_value(f->x, &text)));
}

static void put_formatted(Format *f, Buf *b, Str s, int level) {
  if (level < 0) bad(f->x, "forms within forms");
  for (const char *p = s.p, *end = s.p + s.n; p < end;) {
    const char *from = p;
    while (p < end && *p != '{' && *p != '}') p++;
    buf_put(f->x, b, (Str){from, p - from});
    if (p == end) break;
    char c = *p++;
    if (p < end && *p == c) {
      buf_putc(f->x, b, c);
      p++;
    } else if (c == '}') {
      bad(f->x, "a single '}'");
    } else {
      Field field = read_field(f, &p, end);
      tpl_enter(f->x);
      put_field(f, b, &field, level);
      tpl_leave(f->x);
    }
  }
}

Value format_method(Tpl *x, Value s, const Args *args) {
  enum { LEVELS = 2 };
  Format f = {.x = x, .args = args, .safe = s.safe};
  Buf b = {0};
  put_formatted(&f, &b, str_of_value(s), LEVELS);
  return v_like(s, buf_value(x, &b));
}
