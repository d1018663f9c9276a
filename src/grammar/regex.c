// regex.c -- regular expressions after ECMA-262 as expressions.
//
// Supported: literals, `.`, sets, \d \w \s and their complements, \p{...} of general categories,
// escapes, groups of all kinds that only group, repetitions (a lazy one has the same language),
// `^` and `$` anywhere.  Refused by name: backreferences, lookahead, lookbehind, \b and \B, flags.
//
// `^` and `$` are symbols of their own.  Where there are any, the expression is cut with what has
// both ends exactly once, around any text, and the two symbols are taken away again (E_BOUND).
#include "grammar/impl.h"

typedef struct Regex {
  Build *b;
  Str text;
  int64_t at;
  int flags, depth;
  bool bound;  // has `^` or `$`
} Regex;

static tenon_status wrong(Regex *r, tenon_status code, const char *what) {
  return fail(r->b->d, code, NOWHERE, "regular expression, byte %lld of '%.*s': %s",
              (long long)r->at, STR_ARG(r->text), what);
}
static bool more(const Regex *r) { return r->at < r->text.n; }
static bool next_is(const Regex *r, const char *z) {
  Str rest = {r->text.p + r->at, r->text.n - r->at};
  return str_starts(rest, z);
}
static bool take(Regex *r, const char *z) {
  if (!next_is(r, z)) return false;
  r->at += (int64_t)strlen(z);
  return true;
}
static uint32_t get(Regex *r) {
  int n;
  uint32_t c = utf8_get((const uint8_t *)r->text.p + r->at, &n);
  r->at += n;
  return c;
}

// ---- sets ----
static void add_categories(Regex *r, uint32_t categories, CodeSet *s) {
  for (int64_t i = 0; i < unicode_runs(); i++) {
    UnicodeCategory c;
    UnicodeRange run = unicode_run(i, &c);
    if (categories >> c & 1) code_add(r->b, s, run.first, run.last);
  }
}

// \d \w \s; a complement leaves out what either of ECMA-262 and Python counts in.
static void add_class(Regex *r, uint32_t c, CodeSet *out) {
  static const UnicodeRange spaces[] = {{9, 13},          {' ', ' '},       {0xa0, 0xa0},
                                        {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
                                        {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
  bool narrow = r->flags & REGEX_NARROW, not = c < 'a';
  CodeSet s = {0};
  Build *b = r->b;
  switch (c | 0x20) {
  case 'w':
    code_add(b, &s, 'A', 'Z');
    code_add(b, &s, 'a', 'z');
    code_add(b, &s, '_', '_');
    if (not &&narrow) add_categories(r, UC_L | UC_N, &s);
    code_add(b, &s, '0', '9');
    break;
  case 'd':
    code_add(b, &s, '0', '9');
    if (not &&narrow) add_categories(r, UC_N, &s);
    break;
  case 's':
    for (int i = 0; i < ARRAY_LEN(spaces); i++) code_add(b, &s, spaces[i].first, spaces[i].last);
    if (not || !narrow) code_add(b, &s, 0xfeff, 0xfeff);
    if (not &&narrow) code_add(b, &s, 0x1c, 0x1f), code_add(b, &s, 0x85, 0x85);
    break;
  }
  code_order(&s);
  if (not ) code_not(b, &s);
  for (int64_t i = 0; i < s.n; i++) code_add(b, out, s.v[i].first, s.v[i].last);
}

static tenon_status read_property(Regex *r, bool not, CodeSet *out) {
  const char *end =
      take(r, "{") ? memchr(r->text.p + r->at, '}', (size_t)(r->text.n - r->at)) : NULL;
  if (!end) return wrong(r, TENON_EINVAL, "\\p without {...}");
  Str name = {r->text.p + r->at, end - r->text.p - r->at};
  const char *const prefix[] = {"General_Category=", "gc="};
  for (int i = 0; i < 2; i++)
    if (str_starts(name, prefix[i])) {
      name.p += strlen(prefix[i]);
      name.n -= (int64_t)strlen(prefix[i]);
    }
  uint32_t categories = 0;
  for (int c = 0; c < UC_COUNT; c++)
    if (str_is(name, unicode_category_name[c]) ||
        (name.n == 1 && name.p[0] == unicode_category_name[c][0]))
      categories |= 1u << c;
  if (!categories) return wrong(r, TENON_EUNSUPPORTED, "a property other than a general category");
  r->at += name.n + (end - (name.p + name.n)) + 1;
  r->at = end - r->text.p + 1;
  CodeSet s = {0};
  add_categories(r, categories, &s);
  code_order(&s);
  if (not ) code_not(r->b, &s);
  for (int64_t i = 0; i < s.n; i++) code_add(r->b, out, s.v[i].first, s.v[i].last);
  return TENON_OK;
}

static bool read_hex(Regex *r, int n, uint32_t *out) {
  *out = 0;
  if (r->text.n - r->at < n) return false;
  for (int i = 0; i < n; i++) {
    char c = r->text.p[r->at + i];
    int v = c >= '0' && c <= '9'                 ? c - '0'
            : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 87
                                                 : -1;
    if (v < 0) return false;
    *out = *out << 4 | (uint32_t)v;
  }
  r->at += n;
  return true;
}

static tenon_status read_code(Regex *r, uint32_t *out) {
  if (take(r, "{")) {
    int n = 0;
    while (r->at + n < r->text.n && r->text.p[r->at + n] != '}') n++;
    if (n < 1 || n > 6 || !read_hex(r, n, out) || !take(r, "}") || *out >= UNICODE_END)
      return wrong(r, TENON_EINVAL, "\\u{...} is no character");
    return TENON_OK;
  }
  uint32_t low;
  if (!read_hex(r, 4, out)) return wrong(r, TENON_EINVAL, "\\u needs four digits");
  int64_t back = r->at;
  if (*out >= 0xd800 && *out < 0xdc00 && take(r, "\\u") && read_hex(r, 4, &low) && low >= 0xdc00 &&
      low < 0xe000)
    *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
  else
    r->at = back;
  return TENON_OK;
}

// What is behind a backslash: a character, or (*out_set) what is added to `s`.
static tenon_status read_escape(Regex *r, bool in_set, CodeSet *s, uint32_t *out, bool *out_set) {
  static const char named[] = "tnrfv0", meant[] = "\t\n\r\f\v";
  *out_set = false;
  if (!more(r)) return wrong(r, TENON_EINVAL, "a backslash at the end");
  uint32_t c = *out = get(r);
  if (c < 128 && c && strchr("dDwWsS", (int)c)) {
    *out_set = true;
    add_class(r, c, s);
    return TENON_OK;
  }
  if (c == 'p' || c == 'P') {
    *out_set = true;
    return read_property(r, c == 'P', s);
  }
  const char *at = c && c < 128 ? strchr(named, (int)c) : NULL;
  if (at) {
    *out = (uint32_t)meant[at - named];
    return TENON_OK;
  }
  if (c == 'b' && in_set) return *out = 8, TENON_OK;
  if (c == 'b' || c == 'B') return wrong(r, TENON_EUNSUPPORTED, "\\b and \\B are not supported");
  if ((c >= '1' && c <= '9') || c == 'k')
    return wrong(r, TENON_EUNSUPPORTED, "backreferences are not supported");
  if (c == 'x')
    return read_hex(r, 2, out) ? TENON_OK : wrong(r, TENON_EINVAL, "\\x needs two digits");
  if (c == 'u') return read_code(r, out);
  if (c == 'c') {
    if (!more(r)) return wrong(r, TENON_EINVAL, "\\c needs a letter");
    *out = get(r) & 31;
    return TENON_OK;
  }
  if (c < 128 && ((c | 32) >= 'a' && (c | 32) <= 'z'))
    return wrong(r, TENON_EUNSUPPORTED, "this escape is not supported");
  return TENON_OK;
}

static tenon_status read_set(Regex *r, const Expr **out) {
  bool not = take(r, "^");
  CodeSet s = {0};
  while (!next_is(r, "]")) {
    uint32_t first, last;
    bool set = false;
    if (!more(r)) return wrong(r, TENON_EINVAL, "'[' without ']'");
    first = get(r);
    if (first == '\\') TRY(read_escape(r, true, &s, &first, &set));
    last = first;
    if (!set && next_is(r, "-") && r->at + 1 < r->text.n && r->text.p[r->at + 1] != ']') {
      int64_t back = r->at++;
      last = get(r);
      if (last == '\\') TRY(read_escape(r, true, &s, &last, &set));
      if (set) {  // a class is no end of a range: the '-' is a character
        last = first;
        set = false;
        code_add(r->b, &s, '-', '-');
      } else if (last < first) {
        r->at = back;
        return wrong(r, TENON_EINVAL, "a range whose ends are the wrong way round");
      }
    }
    if (!set) code_add(r->b, &s, first, last);
  }
  r->at++;
  code_order(&s);
  if (not ) code_not(r->b, &s);
  *out = expr_set(r->b, s.v, s.n, r->flags & REGEX_JSON);
  return TENON_OK;
}

// ---- expressions ----
static tenon_status read_either(Regex *r, const Expr **out);

static tenon_status read_group(Regex *r, const Expr **out) {
  if (take(r, "?")) {
    if (next_is(r, "=") || next_is(r, "!") || next_is(r, "<=") || next_is(r, "<!"))
      return wrong(r, TENON_EUNSUPPORTED, "lookahead and lookbehind are not supported");
    if (take(r, "<") || take(r, "P<")) {
      while (more(r) && r->text.p[r->at] != '>') r->at++;
      if (!take(r, ">")) return wrong(r, TENON_EINVAL, "a group's name without '>'");
    } else if (!take(r, ":")) {
      return wrong(r, TENON_EUNSUPPORTED, "this kind of group is not supported");
    }
  }
  TRY(read_either(r, out));
  return take(r, ")") ? TENON_OK : wrong(r, TENON_EINVAL, "'(' without ')'");
}

static const Expr *one_char(Regex *r, uint32_t c) {
  UnicodeRange one = {c, c};
  return expr_set(r->b, &one, 1, r->flags & REGEX_JSON);
}

static tenon_status read_atom(Regex *r, const Expr **out) {
  static const UnicodeRange line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  if (take(r, "(")) return read_group(r, out);
  if (take(r, "[")) return read_set(r, out);
  if (take(r, ".")) {
    *out = expr_not_set(r->b, line_ends, 3, r->flags & REGEX_JSON);
    return TENON_OK;
  }
  if (next_is(r, "^") || next_is(r, "$")) {
    r->bound = true;
    *out = expr_symbol(r->b, r->text.p[r->at++] == '^' ? SYMBOL_BEGIN : SYMBOL_END);
    return TENON_OK;
  }
  if (next_is(r, "*") || next_is(r, "+") || next_is(r, "?"))
    return wrong(r, TENON_EINVAL, "a repetition of nothing");
  uint32_t c = get(r);
  bool set = false;
  CodeSet s = {0};
  if (c == '\\') TRY(read_escape(r, false, &s, &c, &set));
  code_order(&s);
  *out = set ? expr_set(r->b, s.v, s.n, r->flags & REGEX_JSON) : one_char(r, c);
  return TENON_OK;
}

static bool read_count(Regex *r, int64_t *out) {
  int64_t from = r->at;
  *out = 0;
  while (more(r) && r->text.p[r->at] >= '0' && r->text.p[r->at] <= '9')
    *out = MIN(*out * 10 + (r->text.p[r->at] - '0'), 1 << 30), r->at++;
  return r->at > from;
}

// {n}, {n,}, {n,m}; what is none is a character, and r->at stays.
static bool read_braces(Regex *r, int64_t *least, int64_t *most) {
  int64_t back = r->at;
  if (take(r, "{") && read_count(r, least)) {
    *most = *least;
    if (take(r, ",") && !read_count(r, most)) *most = -1;
    if (take(r, "}")) return true;
  }
  r->at = back;
  return false;
}

static tenon_status read_repeats(Regex *r, const Expr **io) {
  for (;;) {
    int64_t least = 0, most = -1;
    if (take(r, "*")) {
    } else if (take(r, "+")) {
      least = 1;
    } else if (take(r, "?")) {
      most = 1;
    } else if (!read_braces(r, &least, &most)) {
      return TENON_OK;
    }
    take(r, "?");  // lazy: the same language
    if (most >= 0 && most < least)
      return wrong(r, TENON_EINVAL, "a repetition whose ends are the wrong way round");
    if (MAX(least, most) > LIMIT_GRAMMAR_STATES)
      return wrong(r, TENON_EUNSUPPORTED, "too many repetitions");
    *io = expr_repeat(r->b, *io, least, most);
  }
}

static tenon_status read_either(Regex *r, const Expr **out) {
  ExprChoices c = {0};
  if (++r->depth > LIMIT_GRAMMAR_NESTING) return wrong(r, TENON_EUNSUPPORTED, "nested too deeply");
  for (;;) {
    if (!more(r) || next_is(r, ")") || next_is(r, "|")) {
      choices_next(r->b, &c);
      if (take(r, "|")) continue;
      break;
    }
    const Expr *x;
    TRY(read_atom(r, &x));
    TRY(read_repeats(r, &x));
    choices_part(r->b, &c, x);
  }
  r->depth--;
  *out = choices_expr(r->b, &c);
  return TENON_OK;
}

tenon_status regex_read(Build *b, Str text, int flags, const Expr **out) {
  Regex r = {.b = b, .text = text, .flags = flags};
  if (!str_is_utf8(text)) return wrong(&r, TENON_EFORMAT, "it is not UTF-8");
  const Expr *x;
  TRY(read_either(&r, &x));
  if (more(&r)) return wrong(&r, TENON_EINVAL, "')' without '('");
  const Expr *any = expr_repeat(b, expr_any(b, flags & REGEX_JSON), 0, -1);
  if (!r.bound) {
    *out = flags & REGEX_SEARCH ? expr_seq(b, any, x, any) : x;
    return TENON_OK;
  }
  const Expr *begin = expr_symbol(b, SYMBOL_BEGIN), *end = expr_symbol(b, SYMBOL_END);
  const Expr *none = expr_z(b, ""), *gap = flags & REGEX_SEARCH ? any : none;
  const Expr *found = expr_seq(b, expr_alt(b, none, expr_seq(b, begin, gap)), x,
                               expr_alt(b, none, expr_seq(b, gap, end)));
  const Expr *both = expr_pair(b, E_AND, found, expr_seq(b, begin, any, end));
  *out = expr_pair(b, E_BOUND, both, NULL);
  return TENON_OK;
}
