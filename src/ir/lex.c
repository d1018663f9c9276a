// lex.c -- tokens of the text form.
//
// One token of lookahead, read on demand; tokens are slices of the text, so lexing allocates
// nothing.  Whitespace and // comments separate tokens and mean nothing else.
#include "ir/text.h"

static bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_value_char(char c) { return is_alpha(c) || is_digit(c) || c == '/'; }

bool text_is_identifier(Str s) {
  if (s.n == 0 || !is_alpha(s.p[0])) return false;
  for (int64_t i = 1; i < s.n; i++)
    if (!is_alpha(s.p[i]) && !is_digit(s.p[i])) return false;
  return true;
}

// A name that begins with a digit is quoted: bare numbers are for values without a name.
bool text_is_value_name(Str s) {
  if (s.n == 0 || is_digit(s.p[0])) return false;
  for (int64_t i = 0; i < s.n; i++)
    if (!is_value_char(s.p[i])) return false;
  return true;
}

static void skip_space(Lexer *l) {
  while (l->at < l->end) {
    char c = *l->at;
    if (c == '\n') {
      l->line++;
      l->line_start = ++l->at;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      l->at++;
    } else if (c == '/' && l->end - l->at > 1 && l->at[1] == '/') {
      const char *nl = memchr(l->at, '\n', (size_t)(l->end - l->at));
      l->at = nl ? nl : l->end;
    } else {
      return;
    }
  }
}

// The inside of a quoted token; leaves `at` behind the closing quote.
static bool take_quoted(Lexer *l, char quote, Str *out) {
  const char *begin = ++l->at;
  for (; l->at < l->end && *l->at != '\n'; l->at++) {
    if (*l->at == '\\' && l->end - l->at > 1 && l->at[1] != '\n') {
      l->at++;
    } else if (*l->at == quote) {
      *out = (Str){begin, l->at++ - begin};
      return true;
    }
  }
  return false;
}

static void take_number(Lexer *l) {
  const char *begin = l->at;
  bool hex = l->end - begin > 1 && begin[0] == '0' && (begin[1] == 'x' || begin[1] == 'X');
  for (; l->at < l->end; l->at++) {
    char c = *l->at, before = l->at > begin ? l->at[-1] : 0;
    bool exponent_sign = (c == '-' || c == '+') && !hex && (before == 'e' || before == 'E');
    if (!is_alpha(c) && !is_digit(c) && c != '.' && !exponent_sign) break;
  }
  l->tok.kind = TOK_NUMBER;
  l->tok.text = (Str){begin, l->at - begin};
}

static void bad(Lexer *l, const char *why) {
  l->tok.kind = TOK_BAD;
  l->tok.text = str_of(why);
}

static void take_value(Lexer *l) {
  l->tok.kind = TOK_VALUE;
  l->at++;
  if (l->at < l->end && *l->at == '"') {
    l->tok.quoted = true;
    if (!take_quoted(l, '"', &l->tok.text)) bad(l, "a name without its closing quote");
    return;
  }
  const char *begin = l->at;
  while (l->at < l->end && is_value_char(*l->at)) l->at++;
  l->tok.text = (Str){begin, l->at - begin};
  if (l->at == begin) bad(l, "a % without a name");
}

static void take_punct(Lexer *l) {
  char c = *l->at;
  if ((unsigned char)c < 0x20 || (unsigned char)c >= 0x7f) {
    bad(l, "a character that belongs in quotes");
    return;
  }
  l->tok.kind = TOK_PUNCT;
  l->tok.c = c;
  l->tok.text = (Str){l->at++, 1};
  if (c == '-' && l->at < l->end && *l->at == '>') {
    l->at++;
    l->tok.kind = TOK_ARROW;
    l->tok.text.n = 2;
  }
}

void lex_next(Lexer *l) {
  skip_space(l);
  l->tok = (Token){.start = l->at, .line = l->line};
  l->tok.column = (int)MIN(l->at - l->line_start + 1, INT32_MAX);
  if (l->at == l->end) {
    l->tok.kind = TOK_END;
    return;
  }
  char c = *l->at;
  if (is_alpha(c)) {
    while (l->at < l->end && (is_alpha(*l->at) || is_digit(*l->at))) l->at++;
    l->tok.kind = TOK_WORD;
    l->tok.text = (Str){l->tok.start, l->at - l->tok.start};
  } else if (is_digit(c)) {
    take_number(l);
  } else if (c == '"' || c == '\'') {
    l->tok.kind = c == '"' ? TOK_STRING : TOK_SYMBOL;
    if (!take_quoted(l, c, &l->tok.text)) bad(l, "a string without its closing quote");
  } else if (c == '%') {
    take_value(l);
  } else {
    take_punct(l);
  }
}

void lex_init(Lexer *l, Str text) {
  *l = (Lexer){.at = text.p, .end = text.p + text.n, .line_start = text.p, .line = 1};
  lex_next(l);
}

void lex_seek(Lexer *l, const char *at) {
  l->at = at;
  lex_next(l);
}

// ---- strings ----

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void text_put_quoted(StrBuf *b, Str s) {
  bool utf8 = str_is_utf8(s);
  strbuf_putc(b, '"');
  for (int64_t i = 0; i < s.n; i++) {
    unsigned char c = (unsigned char)s.p[i];
    if (c == '"' || c == '\\') {
      strbuf_putc(b, '\\');
      strbuf_putc(b, (char)c);
    } else if (c == '\n') {
      strbuf_puts(b, "\\n");
    } else if (c == '\t') {
      strbuf_puts(b, "\\t");
    } else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8)) {
      strbuf_printf(b, "\\x%02x", (unsigned)c);
    } else {
      strbuf_putc(b, (char)c);
    }
  }
  strbuf_putc(b, '"');
}

bool text_unescape(Arena *a, Str raw, Str *out) {
  char *to = arena_alloc(a, raw.n + 1);
  int64_t n = 0;
  for (int64_t i = 0; i < raw.n; i++) {
    char c = raw.p[i];
    if (c == '\\') {
      if (++i == raw.n) return false;
      c = raw.p[i];
      if (c == 'x') {
        if (raw.n - i < 3) return false;
        int high = hex_digit(raw.p[i + 1]), low = hex_digit(raw.p[i + 2]);
        if (high < 0 || low < 0) return false;
        c = (char)(high << 4 | low);
        i += 2;
      } else if (c == 'n') {
        c = '\n';
      } else if (c == 't') {
        c = '\t';
      } else if (c != '"' && c != '\\') {
        return false;
      }
    }
    to[n++] = c;
  }
  *out = (Str){to, n};
  return true;
}
