// gbnf.c -- grammars as llama.cpp and xgrammar write them.
//
//   root  ::= item ("," item)*     # a comment
//   item  ::= "a" | [^\n]{1,3} | .
//
// Literals have the escapes \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH.  A rule ends where the
// next one begins.  Rules may call themselves anywhere but to the left.
#include "grammar/impl.h"

typedef struct Gbnf {
  Build *b;
  Str text;
  int64_t at;
  int depth;
  StrMap rule;  // name -> rule + 1
} Gbnf;

static tenon_status wrong(Gbnf *r, tenon_status code, const char *fmt, ...) PRINTF(3, 4);
static tenon_status wrong(Gbnf *r, tenon_status code, const char *fmt, ...) {
  Where where = {.file = "grammar", .line = 1, .column = 1};
  for (int64_t i = 0; i < MIN(r->at, r->text.n); i++) {
    where.column++;
    if (r->text.p[i] == '\n') where.line++, where.column = 1;
  }
  va_list ap;
  va_start(ap, fmt);
  tenon_status s = failv(r->b->d, code, where, fmt, ap);
  va_end(ap);
  return s;
}
static char peek(const Gbnf *r) { return r->at < r->text.n ? r->text.p[r->at] : 0; }
static bool take(Gbnf *r, const char *z) {
  Str rest = {r->text.p + r->at, r->text.n - r->at};
  if (!str_starts(rest, z)) return false;
  r->at += (int64_t)strlen(z);
  return true;
}
static void space(Gbnf *r) {
  for (;;) {
    char c = peek(r);
    if (c == '#')
      while (r->at < r->text.n && r->text.p[r->at] != '\n') r->at++;
    else if (c && strchr(" \t\r\n", c))
      r->at++;
    else
      return;
  }
}
static bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}
// '.' alone is any character; within a name it is a letter.
static Str name(Gbnf *r) {
  int64_t from = r->at;
  if (peek(r) == '.') return (Str){0};
  while (r->at < r->text.n && is_name(r->text.p[r->at])) r->at++;
  return (Str){r->text.p + from, r->at - from};
}
static bool rule_begins(Gbnf *r) {
  int64_t back = r->at;
  Str s = name(r);
  space(r);
  bool yes = s.n && take(r, "::=");
  r->at = back;
  return yes;
}

static int32_t rule_of(Gbnf *r, Str s) {
  uintptr_t have = (uintptr_t)strmap_get(&r->rule, s);
  if (have) return (int32_t)have - 1;
  int32_t rule = build_rule(r->b, s);
  strmap_put(&r->rule, s, (void *)((uintptr_t)rule + 1));
  return rule;
}

static tenon_status hex(Gbnf *r, int n, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < n; i++) {
    char c = peek(r);
    int v = c >= '0' && c <= '9'                 ? c - '0'
            : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 87
                                                 : -1;
    if (v < 0) return wrong(r, TENON_EFORMAT, "an escape of %d digits ends too soon", n);
    *out = *out << 4 | (uint32_t)v;
    r->at++;
  }
  return *out < UNICODE_END ? TENON_OK : wrong(r, TENON_EFORMAT, "this is no character");
}

static tenon_status character(Gbnf *r, uint32_t *out) {
  int n;
  *out = utf8_get((const uint8_t *)r->text.p + r->at, &n);
  r->at += n;
  if (*out != '\\') return TENON_OK;
  char c = peek(r);
  r->at++;
  switch (c) {
  case 'n': *out = '\n'; break;
  case 'r': *out = '\r'; break;
  case 't': *out = '\t'; break;
  case 'x': return hex(r, 2, out);
  case 'u': return hex(r, 4, out);
  case 'U': return hex(r, 8, out);
  case '\\':
  case '"':
  case '\'':
  case '[':
  case ']':
  case '-':
  case '^':
  case '/':
  case '.': *out = (uint32_t)c; break;
  default: return wrong(r, TENON_EFORMAT, "there is no escape '\\%c'", c > ' ' ? c : '?');
  }
  return TENON_OK;
}

static tenon_status literal(Gbnf *r, const Expr **out) {
  StrBuf text;
  strbuf_init(&text, r->b->a);
  while (!take(r, "\"")) {
    uint32_t c;
    uint8_t bytes[4];
    if (r->at >= r->text.n || peek(r) == '\n')
      return wrong(r, TENON_EFORMAT, "a literal without its end");
    TRY(character(r, &c));
    strbuf_put(&text, (Str){(const char *)bytes, utf8_write(bytes, c)});
  }
  *out = expr_bytes(r->b, strbuf_str(&text));
  return TENON_OK;
}

static tenon_status set(Gbnf *r, const Expr **out) {
  bool not = take(r, "^");
  CodeSet s = {0};
  while (!take(r, "]")) {
    uint32_t first, last;
    if (r->at >= r->text.n) return wrong(r, TENON_EFORMAT, "'[' without ']'");
    TRY(character(r, &first));
    last = first;
    if (peek(r) == '-' && r->at + 1 < r->text.n && r->text.p[r->at + 1] != ']') {
      r->at++;
      TRY(character(r, &last));
    }
    if (last < first) return wrong(r, TENON_EFORMAT, "a range whose ends are the wrong way round");
    code_add(r->b, &s, first, last);
  }
  code_order(&s);
  if (not ) code_not(r->b, &s);
  *out = expr_set(r->b, s.v, s.n, false);
  return TENON_OK;
}

static tenon_status either(Gbnf *r, const Expr **out);

static tenon_status atom(Gbnf *r, const Expr **out) {
  if (take(r, "\"")) return literal(r, out);
  if (take(r, "[")) return set(r, out);
  if (take(r, "(")) {
    TRY(either(r, out));
    space(r);
    return take(r, ")") ? TENON_OK : wrong(r, TENON_EFORMAT, "'(' without ')'");
  }
  Str s = name(r);
  if (s.n) {
    *out = expr_rule(r->b, rule_of(r, s));
    return TENON_OK;
  }
  if (take(r, ".")) {
    *out = expr_any(r->b, false);
    return TENON_OK;
  }
  char c = peek(r);
  return wrong(r, c == '<' || c == '!' ? TENON_EUNSUPPORTED : TENON_EFORMAT,
               "'%c' begins no expression", c > ' ' && c < 127 ? c : '?');
}

static bool count(Gbnf *r, int64_t *out) {
  int64_t from = r->at;
  *out = 0;
  space(r);
  while (peek(r) >= '0' && peek(r) <= '9')
    *out = MIN(*out * 10 + (r->text.p[r->at] - '0'), 1 << 30), r->at++;
  bool any = r->at > from;
  space(r);
  return any;
}

static tenon_status repeats(Gbnf *r, const Expr **io) {
  for (;;) {
    int64_t least = 0, most = -1;
    if (take(r, "*")) {
    } else if (take(r, "+")) {
      least = 1;
    } else if (take(r, "?")) {
      most = 1;
    } else if (take(r, "{")) {
      bool any = count(r, &least);
      most = least;
      if (take(r, ",") && !count(r, &most)) most = -1;
      if (!take(r, "}") || (!any && most < 0) || (most >= 0 && most < least))
        return wrong(r, TENON_EFORMAT, "a repetition is {n}, {n,}, {,m} or {n,m}");
    } else {
      return TENON_OK;
    }
    if (MAX(least, most) > LIMIT_GRAMMAR_STATES)
      return wrong(r, TENON_EUNSUPPORTED, "more than %d repetitions", LIMIT_GRAMMAR_STATES);
    *io = expr_repeat(r->b, *io, least, most);
  }
}

static tenon_status either(Gbnf *r, const Expr **out) {
  ExprChoices c = {0};
  if (++r->depth > LIMIT_GRAMMAR_NESTING)
    return wrong(r, TENON_EUNSUPPORTED, "more than %d levels", LIMIT_GRAMMAR_NESTING);
  for (;;) {
    space(r);
    bool end = r->at >= r->text.n || peek(r) == ')' || peek(r) == '|' || rule_begins(r);
    if (end) {
      choices_next(r->b, &c);
      if (take(r, "|")) continue;
      break;
    }
    const Expr *x;
    TRY(atom(r, &x));
    TRY(repeats(r, &x));
    choices_part(r->b, &c, x);
  }
  r->depth--;
  *out = choices_expr(r->b, &c);
  return TENON_OK;
}

tenon_status gbnf_read(Build *b, Str text, const Expr **out) {
  Gbnf r = {.b = b, .text = text};
  strmap_init(&r.rule, b->a);
  if (!str_is_utf8(text)) return wrong(&r, TENON_EFORMAT, "it is not UTF-8");
  for (space(&r); r.at < text.n; space(&r)) {
    Str s = name(&r);
    space(&r);
    if (!s.n || !take(&r, "::=")) return wrong(&r, TENON_EFORMAT, "a rule is NAME ::= ...");
    int32_t rule = rule_of(&r, s);
    if (b->rule.v[rule].body)
      return wrong(&r, TENON_EFORMAT, "rule '%.*s' is given twice", STR_ARG(s));
    const Expr *x;
    TRY(either(&r, &x));
    if (peek(&r) == ')') return wrong(&r, TENON_EFORMAT, "')' without '('");
    b->rule.v[rule].body = x;
  }
  uintptr_t root = (uintptr_t)strmap_get(&r.rule, STR("root"));
  if (!root) return wrong(&r, TENON_EFORMAT, "there is no rule 'root'");
  for (int64_t i = 0; i < b->rule.n; i++)
    if (!b->rule.v[i].body)
      return wrong(&r, TENON_EFORMAT, "there is no rule '%.*s'", STR_ARG(b->rule.v[i].name));
  *out = expr_rule(b, (int32_t)root - 1);
  return TENON_OK;
}
