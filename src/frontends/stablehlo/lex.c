// lex.c -- tokens of MLIR text: slices of the file, read on demand, one ahead.
#include "frontends/stablehlo/text.h"

static bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
static bool is_name(char c) {
  return is_alpha(c) || is_digit(c) || c == '$' || c == '.' || c == '-';
}

static void skip_space(Parser *p) {
  while (p->at < p->end) {
    char c = *p->at;
    if (c == '\n') {
      p->line++;
      p->line_start = ++p->at;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      p->at++;
    } else if (c == '/' && p->end - p->at > 1 && p->at[1] == '/') {
      const char *nl = memchr(p->at, '\n', (size_t)(p->end - p->at));
      p->at = nl ? nl : p->end;
    } else {
      return;
    }
  }
}

static void set(Parser *p, TokKind kind, const char *from, const char *to) {
  p->tok.kind = kind;
  p->tok.text = (Str){from, to - from};
}

static void take_quotes(Parser *p, TokKind kind) {
  const char *from = ++p->at;
  p->tok.quoted = true;
  for (; p->at < p->end && *p->at != '\n'; p->at++) {
    if (*p->at == '"') {
      set(p, kind, from, p->at);
      p->at++;
      return;
    }
    if (*p->at == '\\') {
      p->tok.escaped = true;
      if (p->end - p->at > 1 && p->at[1] != '\n') p->at++;
    }
  }
  p->tok.kind = T_BAD;
  p->tok.text = STR("a string that does not end on its line");
}

static void take_digits(Parser *p) {
  const char *from = p->at;
  if (p->end - from > 2 && from[0] == '0' && from[1] == 'x' && is_hex(from[2])) {
    for (p->at += 2; p->at < p->end && is_hex(*p->at);) p->at++;
  } else {
    while (p->at < p->end && is_digit(*p->at)) p->at++;
    if (p->at < p->end && *p->at == '.') {
      for (p->at++; p->at < p->end && is_digit(*p->at);) p->at++;
      const char *e = p->at;
      if (e < p->end && (*e == 'e' || *e == 'E')) {
        e++;
        if (e < p->end && (*e == '+' || *e == '-')) e++;
        if (e < p->end && is_digit(*e)) {
          while (e < p->end && is_digit(*e)) e++;
          p->at = e;
        }
      }
    }
  }
  set(p, T_NUMBER, from, p->at);
}

static void take_sigil(Parser *p, TokKind kind) {
  p->at++;
  if (kind == T_SYMBOL && p->at < p->end && *p->at == '"') {
    take_quotes(p, kind);
    return;
  }
  const char *from = p->at;
  while (p->at < p->end && is_name(*p->at)) {
    // `-` belongs to a name, but not the arrow behind it
    if (*p->at == '-' && p->end - p->at > 1 && p->at[1] == '>') break;
    p->at++;
  }
  set(p, kind, from, p->at);
  if (!p->tok.text.n) {
    p->tok.kind = T_BAD;
    p->tok.text = STR("a sign without a name behind it");
  }
}

static void take_value(Parser *p) {
  take_sigil(p, T_VALUE);
  p->tok.number = -1;
  if (p->tok.kind != T_VALUE || p->end - p->at < 2 || *p->at != '#' || !is_digit(p->at[1])) return;
  const char *from = ++p->at;
  while (p->at < p->end && is_digit(*p->at)) p->at++;
  if (!str_to_i64((Str){from, p->at - from}, &p->tok.number)) {
    p->tok.kind = T_BAD;
    p->tok.text = STR("a result's number that is too large");
  }
}

static bool take_long(Parser *p) {
  static const struct {
    const char *text;
    TokKind kind;
  } longer[] = {{"->", T_ARROW}, {"::", T_COLONS}, {"{-#", T_META}, {"#-}", T_META_END}};
  Str rest = {p->at, p->end - p->at};
  for (int i = 0; i < ARRAY_LEN(longer); i++)
    if (str_starts(rest, longer[i].text)) {
      set(p, longer[i].kind, p->at, p->at + strlen(longer[i].text));
      p->at += strlen(longer[i].text);
      return true;
    }
  return false;
}

void mt_lex_next(Parser *p) {
  skip_space(p);
  p->tok = (Tok){
      .start = p->at, .line = p->line, .column = (int)MIN(p->at - p->line_start + 1, 1 << 30)};
  if (p->at == p->end) return;
  char c = *p->at;
  const char *from = p->at;
  if (take_long(p)) return;
  if (is_alpha(c)) {
    while (p->at < p->end && is_name(*p->at) && *p->at != '-') p->at++;
    set(p, T_WORD, from, p->at);
  } else if (is_digit(c)) {
    take_digits(p);
  } else if (c == '"') {
    take_quotes(p, T_STRING);
  } else if (c == '%') {
    take_value(p);
  } else if (c == '@') {
    take_sigil(p, T_SYMBOL);
  } else if (c == '#' || c == '!' || c == '^') {
    // #stablehlo<...> has no name of its own behind it
    take_sigil(p, c == '#' ? T_HASH : c == '!' ? T_BANG : T_CARET);
  } else if ((unsigned char)c >= 0x21 && (unsigned char)c < 0x7F) {
    p->at++;
    set(p, T_PUNCT, from, p->at);
  } else {
    p->tok.kind = T_BAD;
    p->tok.text = STR("a byte that no MLIR text has");
  }
}

void mt_lex_back_to(Parser *p, const char *at) {
  p->at = at;
  mt_lex_next(p);
}

Where mt_tok_where(const Parser *p) {
  return (Where){.line = p->tok.line, .column = p->tok.column};
}

tenon_status mt_expected(Parser *p, const char *what) {
  if (p->tok.kind == T_BAD)
    return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "%.*s", STR_ARG(p->tok.text));
  if (p->tok.kind == T_END)
    return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "expected %s, but the text ends", what);
  int64_t n = MIN(p->at - p->tok.start, 40);
  return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "expected %s, found '%.*s'", what, (int)n,
              p->tok.start);
}

bool mt_is_punct(const Parser *p, char c) {
  return p->tok.kind == T_PUNCT && p->tok.text.p[0] == c;
}
bool mt_is_word(const Parser *p, const char *word) {
  return p->tok.kind == T_WORD && str_is(p->tok.text, word);
}
bool mt_take_punct(Parser *p, char c) {
  bool yes = mt_is_punct(p, c);
  if (yes) mt_lex_next(p);
  return yes;
}
bool mt_take_word(Parser *p, const char *word) {
  bool yes = mt_is_word(p, word);
  if (yes) mt_lex_next(p);
  return yes;
}
tenon_status mt_need_punct(Parser *p, char c) {
  char what[4] = {'\'', c, '\'', 0};
  return mt_take_punct(p, c) ? TENON_OK : mt_expected(p, what);
}
tenon_status mt_need_word(Parser *p, const char *word) {
  return mt_take_word(p, word) ? TENON_OK : mt_expected(p, str_printf(p->arena, "'%s'", word));
}

static int bracket(const Parser *p) {
  if (p->tok.kind == T_META) return 1;
  if (p->tok.kind == T_META_END) return -1;
  if (p->tok.kind != T_PUNCT) return 0;
  char c = p->tok.text.p[0];
  return strchr("<([{", c) ? 1 : strchr(">)]}", c) ? -1 : 0;
}

tenon_status mt_take_balanced(Parser *p, Str *out) {
  const char *from = p->tok.start, *last = p->at;
  int64_t depth = 0;
  do {
    if (p->tok.kind == T_END || p->tok.kind == T_BAD) return mt_expected(p, "a closing bracket");
    depth += bracket(p);
    last = p->at;
    mt_lex_next(p);
  } while (depth > 0);
  *out = (Str){from, last - from};
  return TENON_OK;
}

static int hex_value(char c) {
  return is_digit(c) ? c - '0' : c >= 'a' ? c - 'a' + 10 : c - 'A' + 10;
}

tenon_status mt_take_text(Parser *p, const char **out, int64_t *n) {
  Str s = p->tok.text;
  if (!p->tok.escaped) {
    *out = str_copy(p->arena, s);
    *n = s.n;
    mt_lex_next(p);
    return TENON_OK;
  }
  char *t = arena_alloc(p->arena, s.n + 1);
  int64_t k = 0;
  for (int64_t i = 0; i < s.n; i++) {
    char c = s.p[i];
    if (c == '\\' && i + 2 < s.n && is_hex(s.p[i + 1]) && is_hex(s.p[i + 2])) {
      c = (char)(hex_value(s.p[i + 1]) * 16 + hex_value(s.p[i + 2]));
      i += 2;
    } else if (c == '\\' && i + 1 < s.n) {
      c = s.p[++i];
      if (!strchr("\"\\nt", c))
        return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "an escape that no string has: \\%c",
                    c);
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
    }
    t[k++] = c;
  }
  *out = t;
  *n = k;
  mt_lex_next(p);
  return TENON_OK;
}

tenon_status mt_take_int(Parser *p, int64_t *out) {
  bool minus = mt_take_punct(p, '-');
  if (p->tok.kind != T_NUMBER) return mt_expected(p, "an integer");
  uint64_t v = 0;
  bool ok = p->tok.text.n < 24;
  for (int64_t i = 0; ok && i < p->tok.text.n; i++)
    ok = is_digit(p->tok.text.p[i]) && !__builtin_mul_overflow(v, 10u, &v) &&
         !__builtin_add_overflow(v, (uint64_t)(p->tok.text.p[i] - '0'), &v);
  if (!ok || v > (uint64_t)INT64_MAX + minus) return mt_expected(p, "an integer of 64 bits");
  *out = minus ? (int64_t)(0 - v) : (int64_t)v;
  mt_lex_next(p);
  return TENON_OK;
}

tenon_status mt_enter(Parser *p) {
  if (++p->depth > MLIR_DEPTH_MAX)
    return fail(p->diag, TENON_EFORMAT, mt_tok_where(p), "nested more than %d deep",
                MLIR_DEPTH_MAX);
  return TENON_OK;
}
