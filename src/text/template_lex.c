// template_lex.c -- the text of a chat template to tokens, as jinja2's lexer cuts it.
//
// Outside of tags everything is data.  trim_blocks removes the line end behind a block or comment,
// lstrip_blocks the spaces between the start of a line and a block or comment; `-` removes all
// white space, `+` keeps it.  `%}` and `}}` end a tag only where brackets are balanced.
//
// Needs:       nothing: any bytes are taken; what is not UTF-8 is refused.
// Guarantees:  linear time; tokens point into a copy of the source in the arena.
#include "text/template_impl.h"

typedef struct Lexer {
  Tpl *x;
  const char *p, *end;
  Tokens *out;
  int line;
  bool line_start;                  // what was read last ended with a line end
  char open[LIMIT_TEMPLATE_DEPTH];  // brackets to be closed
  int nopen;
} Lexer;

static Token *add(Lexer *l, TokenKind kind, Str text) {
  tpl_spend(l->x, 1);
  if (l->out->n == l->out->cap) {
    int64_t cap = MAX(64, l->out->cap * 2);
    Token *v = tpl_array(l->x, Token, cap);
    if (l->out->n) memcpy(v, l->out->v, (size_t)l->out->n * sizeof *v);
    l->out->v = v;
    l->out->cap = cap;
  }
  Token *t = &l->out->v[l->out->n++];
  *t = (Token){.kind = (uint8_t)kind, .line = l->line, .text = text};
  return t;
}

static NORETURN void bad(Lexer *l, const char *what) {
  l->x->line = l->line;
  tpl_fail(l->x, "%s", what);
}

static void count_lines(Lexer *l, const char *from, const char *to) {
  for (; from < to; from++) l->line += *from == '\n';
}

static const char *skip_space(const char *p, const char *end) {
  while (p < end) {
    const char *q = p;
    if (!uc_is_space(utf8_next(&q))) break;
    p = q;
  }
  return p;
}

static bool at(const Lexer *l, const char *p, const char *word) {
  size_t n = strlen(word);
  return (size_t)(l->end - p) >= n && !memcmp(p, word, n);
}

// Moves over what was read; whether a line begins there decides about lstrip_blocks.
static void move(Lexer *l, const char *to) {
  count_lines(l, l->p, to);
  l->line_start = to > l->p && to[-1] == '\n';
  l->p = to;
}

// Data in front of a tag with the given sign.
static void add_data(Lexer *l, const char *from, const char *to, char sign, bool variable) {
  const char *stop = to;
  if (sign == '-') {
    while (stop > from) {
      const char *q = stop;
      if (!uc_is_space(utf8_last(from, &q))) break;
      stop = q;
    }
  } else if (sign != '+' && !variable) {
    const char *start = to;
    while (start > from && start[-1] != '\n') start--;
    if ((start > from || l->line_start) && start < to && skip_space(start, to) == to) stop = start;
  }
  if (stop > from) add(l, T_DATA, (Str){from, stop - from});
}

static char sign_at(const Lexer *l, const char *p) {
  return p < l->end && (*p == '-' || *p == '+') ? *p : 0;
}

// The end of a block or comment at p, or NULL: `-%}` with the white space behind it, `+%}`, or `%}`
// with one line end.
static const char *block_end(const Lexer *l, const char *p, const char *mark) {
  if (*p == '+' && at(l, p + 1, mark)) return p + 3;
  if (*p == '-' && at(l, p + 1, mark)) return skip_space(p + 3, l->end);
  if (!at(l, p, mark)) return NULL;
  return p + 2 < l->end && p[2] == '\n' ? p + 3 : p + 2;
}

static void comment(Lexer *l) {
  for (const char *p = l->p; p < l->end; p++) {
    const char *stop = block_end(l, p, "#}");
    if (!stop) continue;
    move(l, stop);
    return;
  }
  bad(l, "a comment without its end");
}

// Behind `{%`: whether it is `raw`, and the end of that tag.
static const char *raw_begin(const Lexer *l, const char *p) {
  if (sign_at(l, p)) p++;
  p = skip_space(p, l->end);
  if (!at(l, p, "raw")) return NULL;
  p = skip_space(p + 3, l->end);
  if (at(l, p, "-%}")) return skip_space(p + 3, l->end);
  return at(l, p, "%}") ? p + 2 : NULL;
}

static void raw(Lexer *l) {
  const char *from = l->p;
  for (const char *p = from; l->end - p >= 2; p++) {
    if (p[0] != '{' || p[1] != '%') continue;
    char sign = sign_at(l, p + 2);
    const char *q = skip_space(p + 2 + (sign != 0), l->end);
    if (!at(l, q, "endraw")) continue;
    q = skip_space(q + 6, l->end);
    const char *stop = q < l->end ? block_end(l, q, "%}") : NULL;
    if (!stop) continue;
    add_data(l, from, p, sign, false);
    move(l, stop);
    return;
  }
  bad(l, "raw without endraw");
}

// ---- inside a tag ----

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Digits, with single underscores between them; p itself where there is none.
static const char *digits(const Lexer *l, const char *p) {
  const char *from = p;
  while (p < l->end && (is_digit(*p) || (*p == '_' && p > from && is_digit(p[-1]) &&
                                         p + 1 < l->end && is_digit(p[1]))))
    p++;
  return p;
}

static const char *exponent(const Lexer *l, const char *p) {
  if (p == l->end || (*p != 'e' && *p != 'E')) return NULL;
  p++;
  if (sign_at(l, p)) p++;
  const char *stop = digits(l, p);
  return stop > p ? stop : NULL;
}

static const char *float_end(const Lexer *l) {
  if (l->out->n && l->p > l->out->v[0].text.p && l->p[-1] == '.') return NULL;
  const char *p = digits(l, l->p), *stop;
  if (p == l->p) return NULL;
  if (p < l->end && *p == '.') {
    const char *q = digits(l, p + 1);
    if (q > p + 1) return (stop = exponent(l, q)) ? stop : q;
  }
  return exponent(l, p);
}

static Str without_underscores(Lexer *l, Str s) {
  char *p = tpl_alloc(l->x, s.n + 1);
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; i++)
    if (s.p[i] != '_') p[n++] = s.p[i];
  return (Str){p, n};
}

static int base_of(char c) {
  switch (c | 32) {
  case 'b': return 2;
  case 'o': return 8;
  case 'x': return 16;
  default: return 0;
  }
}

static bool in_base(char c, int base) {
  int d = is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
  return d < base;
}

static const char *integer_end(const Lexer *l) {
  const char *p = l->p;
  int base = *p == '0' && l->end - p > 2 ? base_of(p[1]) : 0;
  if (base) {
    const char *q = p + 2;
    for (;;) {
      const char *d = q + (q < l->end && *q == '_');
      if (d >= l->end || !in_base(*d, base)) break;
      q = d + 1;
    }
    if (q > p + 2) return q;
  }
  if (*p != '0') return digits(l, p);
  const char *q = p + 1;
  for (;;) {
    const char *d = q + (q < l->end && *q == '_');
    if (d >= l->end || *d != '0') break;
    q = d + 1;
  }
  return q;
}

static void number(Lexer *l) {
  const char *stop = float_end(l);
  Str text = {l->p, 0};
  if (stop) {
    text.n = stop - l->p;
    Token *t = add(l, T_FLOAT, text);
    if (!float_parse(without_underscores(l, text), &t->f)) bad(l, "a number that is none");
  } else {
    stop = integer_end(l);
    text.n = stop - l->p;
    Token *t = add(l, T_INT, text);
    IntEnd end = str_to_int(without_underscores(l, text), 0, &t->i);
    if (end == INT_BIG) tpl_unsupported(l->x, "an integer beyond 64 bits");
    if (end == INT_BAD) bad(l, "a number that is none");
  }
  move(l, stop);
}

// ---- strings ----

static bool hex_digits(const char **p, const char *end, int n, uint32_t *out) {
  uint32_t c = 0;
  if (end - *p < n) return false;
  for (int i = 0; i < n; i++) {
    char d = (*p)[i];
    if (!in_base(d, 16)) return false;
    c = c * 16 + (uint32_t)(is_digit(d) ? d - '0' : (d | 32) - 'a' + 10);
  }
  *p += n;
  *out = c;
  return true;
}

static void put_code(Lexer *l, char **to, uint32_t c) {
  if (c >= 0xd800 && c <= 0xdfff) tpl_unsupported(l->x, "a surrogate in a string");
  if (c > 0x10ffff) bad(l, "a character beyond Unicode");
  *to += utf8_put(*to, c);
}

// A backslash in front of a character beyond ASCII: Python's codec writes that as an escape first,
// so the letters of the escape stay.
static void escaped_unicode(char **to, uint32_t c) {
  static const char hex[] = "0123456789abcdef";
  int n = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  *(*to)++ = '\\';
  *(*to)++ = n == 2 ? 'x' : n == 4 ? 'u' : 'U';
  for (int i = n - 1; i >= 0; i--) *(*to)++ = hex[c >> (4 * i) & 15];
}

static void escape(Lexer *l, const char **p, const char *end, char **to) {
  static const char from[] = "\\'\"abfnrtv", into[] = "\\'\"\a\b\f\n\r\t\v";
  const char *start = *p;
  uint32_t c = utf8_next(p), code = 0;
  const char *e = c && c < 0x80 ? strchr(from, (char)c) : NULL;
  if (c == '\n') return;
  if (e) {
    *(*to)++ = into[e - from];
  } else if (c >= '0' && c <= '7') {
    *p = start;
    for (int i = 0; i < 3 && *p < end && **p >= '0' && **p <= '7'; i++)
      code = code * 8 + (uint32_t)(*(*p)++ - '0');
    put_code(l, to, code);
  } else if (c == 'x' || c == 'u' || c == 'U') {
    if (!hex_digits(p, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, &code)) bad(l, "a truncated escape");
    put_code(l, to, code);
  } else if (c == 'N') {
    tpl_unsupported(l->x, "the escape \\N in a string");
  } else if (c >= 0x80) {
    escaped_unicode(to, c);
  } else {
    *(*to)++ = '\\';
    *(*to)++ = (char)c;
  }
}

static Str unescape(Lexer *l, const char *p, const char *end) {
  if (!memchr(p, '\\', (size_t)(end - p))) return (Str){p, end - p};
  int64_t room;  // an escape of two characters becomes up to ten
  if (!ck_mul(end - p, 5, &room)) bad(l, "a string too long");
  char *start = tpl_alloc(l->x, room + 16), *to = start;
  while (p < end) {
    if (*p == '\\') {
      p++;
      escape(l, &p, end, &to);
    } else {
      *to++ = *p++;
    }
  }
  return (Str){start, to - start};
}

static void string(Lexer *l) {
  char quote = *l->p;
  const char *p = l->p + 1;
  while (p < l->end && *p != quote) p += *p == '\\' && l->end - p > 1 ? 2 : 1;
  if (p >= l->end) bad(l, "a string without its end");
  add(l, T_STRING, unescape(l, l->p + 1, p));
  move(l, p + 1);
}

static void bracket(Lexer *l, char c) {
  static const char open[] = "({[", close[] = ")}]";
  const char *o = strchr(open, c), *e = strchr(close, c);
  if (o) {
    if (l->nopen == LIMIT_TEMPLATE_DEPTH) tpl_limit(l->x, "brackets");
    l->open[l->nopen++] = close[o - open];
  } else if (e) {
    if (!l->nopen || l->open[--l->nopen] != c) {
      l->x->line = l->line;
      tpl_fail(l->x, "unexpected '%c'", c);
    }
  }
}

static void operator_(Lexer *l) {
  static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
  static const char one[] = "+-/*%~[](){}><=.:|,;";
  int n = 0;
  for (size_t i = 0; i < sizeof two / sizeof *two; i++)
    if (at(l, l->p, two[i])) n = 2;
  if (!n && *l->p && strchr(one, *l->p)) n = 1;
  if (!n) {
    l->x->line = l->line;
    if ((uint8_t)*l->p >= 0x80) tpl_unsupported(l->x, "a name or sign beyond ASCII");
    tpl_fail(l->x, "unexpected character '%c'", *l->p >= 0x20 && *l->p < 0x7f ? *l->p : '?');
  }
  if (n == 1) bracket(l, *l->p);
  Token *t = add(l, T_OP, (Str){l->p, n});
  memcpy(t->op, l->p, (size_t)n);
  move(l, l->p + n);
}

// The end of the tag at p, or NULL.
static const char *tag_end(const Lexer *l, bool variable) {
  if (!variable) return block_end(l, l->p, "%}");
  if (at(l, l->p, "-}}")) return skip_space(l->p + 3, l->end);
  return at(l, l->p, "}}") ? l->p + 2 : NULL;
}

static void tag(Lexer *l, bool variable) {
  add(l, variable ? T_VAR_BEGIN : T_BLOCK_BEGIN, (Str){l->p, 0});
  l->nopen = 0;
  while (l->p < l->end) {
    const char *stop = l->nopen ? NULL : tag_end(l, variable);
    if (stop) {
      add(l, variable ? T_VAR_END : T_BLOCK_END, (Str){l->p, 0});
      move(l, stop);
      return;
    }
    stop = skip_space(l->p, l->end);
    if (stop > l->p) {
      move(l, stop);
    } else if (is_digit(*l->p)) {
      number(l);
    } else if (is_word(*l->p)) {
      for (stop = l->p; stop < l->end && is_word(*stop);) stop++;
      if (stop < l->end && (uint8_t)*stop >= 0x80)
        tpl_unsupported(l->x, "a name or sign beyond ASCII");
      add(l, T_NAME, (Str){l->p, stop - l->p});
      move(l, stop);
    } else if (*l->p == '\'' || *l->p == '"') {
      string(l);
    } else {
      operator_(l);
    }
  }
}

// ---- the whole ----

// A copy in which every line ends with '\n', without the last line end.
static Str normalise(Tpl *x, Str s) {
  char *p = tpl_alloc(x, s.n + 1);
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; i++) {
    if (s.p[i] == '\r') {
      p[n++] = '\n';
      if (i + 1 < s.n && s.p[i + 1] == '\n') i++;
    } else {
      p[n++] = s.p[i];
    }
  }
  if (n && p[n - 1] == '\n') n--;
  return (Str){p, n};
}

// The next `{%`, `{{` or `{#` from p on; the end where there is none.
static const char *next_tag(const Lexer *l, const char *p) {
  for (; l->end - p >= 2; p++)
    if (p[0] == '{' && (p[1] == '%' || p[1] == '{' || p[1] == '#')) return p;
  return l->end;
}

void tpl_lex(Tpl *x, Str source, Tokens *out) {
  if (!str_is_utf8(source)) tpl_fail(x, "the template is not valid UTF-8");
  Str s = normalise(x, source);
  Lexer l = {.x = x, .p = s.p, .end = s.p + s.n, .out = out, .line = 1, .line_start = true};
  while (l.p < l.end) {
    const char *begin = next_tag(&l, l.p);
    x->line = l.line;
    if (begin == l.end) {
      add(&l, T_DATA, (Str){l.p, l.end - l.p});
      move(&l, l.end);
      break;
    }
    char what = begin[1], sign = sign_at(&l, begin + 2);
    add_data(&l, l.p, begin, sign, what == '{');
    const char *is_raw = what == '%' ? raw_begin(&l, begin + 2) : NULL;
    move(&l, is_raw ? is_raw : begin + 2 + (sign != 0));
    if (is_raw)
      raw(&l);
    else if (what == '#')
      comment(&l);
    else
      tag(&l, what == '{');
  }
  x->line = l.line;
  add(&l, T_EOF, (Str){l.end, 0});
}
