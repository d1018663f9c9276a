// intexpr_print.c -- integer expressions as text, and back.
//
//   sum    = ["-"] term {("+" | "-") term}
//   term   = factor {"*" factor}
//   factor = number | name | "?" name | quoted | "(" sum ")" | "!poison"
//          | "floor" "(" part "/" part ")" | ("mod" | "min" | "max" | "bcast") "(" sum "," sum ")"
//   part   = ["-"] factor
//   quoted = "'" {any byte but a control, ' or \ | \' | \\ | \xHH} "'"
//
// Blanks may stand between tokens.  The constant of a sum is written last, where a reader looks for
// it.
//
// Guarantees: parsing what was printed gives the same pointer.  The text depends on the expression
//             alone,
// not on the pool.  The parser's time and memory are bounded by the text's length and by the limits
// of intexpr_impl.h; it takes a factor for each node that an expression of the largest size can
// have.
#include "base/intexpr_impl.h"

static const char *const function_name[] = {
    [IE_DIV] = "floor", [IE_MOD] = "mod", [IE_MIN] = "min", [IE_MAX] = "max", [IE_BCAST] = "bcast"};

// IE_CONST when the word is no function's.
static IntExprKind find_function(Str word) {
  for (IntExprKind k = IE_DIV; k <= IE_BCAST; k++)
    if (str_is(word, function_name[k])) return k;
  return IE_CONST;
}

static bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_name_char(char c) { return is_alpha(c) || is_digit(c) || c == '.'; }

static bool is_control(char c) { return (unsigned char)c < 0x20 || c == 0x7f; }

// ---- printing ----
static bool is_plain_name(Str s) {
  if (s.n == 0 || !is_alpha(s.p[0])) return false;
  for (int64_t i = 1; i < s.n; i++)
    if (!is_name_char(s.p[i])) return false;
  return find_function(s) == IE_CONST;
}

static void print_sym(StrBuf *b, Dim e) {
  Str s = {e->name, e->value};
  if (e->fresh) strbuf_putc(b, '?');
  if (e->fresh || is_plain_name(s)) {
    strbuf_put(b, s);
    return;
  }
  bool utf8 = str_is_utf8(s);
  strbuf_putc(b, '\'');
  for (int64_t i = 0; i < s.n; i++) {
    char c = s.p[i];
    if (c == '\'' || c == '\\') strbuf_putc(b, '\\');
    if (is_control(c) || (!utf8 && (c & 0x80)))
      strbuf_printf(b, "\\x%02x", (unsigned)(unsigned char)c);
    else
      strbuf_putc(b, c);
  }
  strbuf_putc(b, '\'');
}

static void print_term(StrBuf *b, const IntTerm *t, bool first) {
  uint64_t c = t->coef < 0 ? 0 - (uint64_t)t->coef : (uint64_t)t->coef;
  const char *minus = first ? "-" : " - ", *plus = first ? "" : " + ";
  strbuf_puts(b, t->coef < 0 ? minus : plus);
  if (c != 1 || t->natoms == 0) strbuf_printf(b, "%llu", (unsigned long long)c);
  for (int i = 0; i < t->natoms; i++) {
    if (i > 0 || c != 1) strbuf_putc(b, '*');
    ie_print(b, t->atom[i]);
  }
}

static void print_sum(StrBuf *b, Dim e) {
  bool constant = e->nterms > 0 && e->term[0].natoms == 0;
  for (int i = constant; i < e->nterms; i++) print_term(b, &e->term[i], i == constant);
  if (constant) print_term(b, &e->term[0], e->nterms == 1);
}

static void print_part(StrBuf *b, Dim e) {
  if (e->kind == IE_SUM) strbuf_putc(b, '(');
  ie_print(b, e);
  if (e->kind == IE_SUM) strbuf_putc(b, ')');
}

static void print_function(StrBuf *b, Dim e) {
  strbuf_puts(b, function_name[e->kind]);
  strbuf_putc(b, '(');
  if (e->kind == IE_DIV) {
    print_part(b, e->a);
    strbuf_putc(b, '/');
    print_part(b, e->b);
  } else {
    ie_print(b, e->a);
    strbuf_puts(b, ", ");
    ie_print(b, e->b);
  }
  strbuf_putc(b, ')');
}

void ie_print(StrBuf *b, Dim a) {
  switch ((IntExprKind)a->kind) {
  case IE_CONST: strbuf_printf(b, "%lld", (long long)a->value); break;
  case IE_SYM: print_sym(b, a); break;
  case IE_SUM: print_sum(b, a); break;
  case IE_DIV:
  case IE_MOD:
  case IE_MIN:
  case IE_MAX:
  case IE_BCAST: print_function(b, a); break;
  case IE_POISON: strbuf_puts(b, "!poison"); break;
  }
}

// ---- parsing ----
// Every function below gives NULL where the text is malformed, with `at` at the place.
typedef struct Parser {
  IntPool *pool;
  const char *at, *end;
  int depth, factors;
  VEC(Dim) terms;  // of the sums being read, innermost last
} Parser;

static Dim parse_sum(Parser *s);

static void skip_blanks(Parser *s) {
  while (s->at < s->end && (*s->at == ' ' || *s->at == '\t')) s->at++;
}

static bool take(Parser *s, char c) {
  skip_blanks(s);
  if (s->at == s->end || *s->at != c) return false;
  s->at++;
  return true;
}

// An operator after blanks; where there is none nothing is taken, so that the expression ends
// before them.
static char take_operator(Parser *s, const char *which) {
  const char *c = s->at;
  while (c < s->end && (*c == ' ' || *c == '\t')) c++;
  if (c == s->end || !*c || !strchr(which, *c)) return 0;
  if (*c == '-' && s->end - c > 1 && c[1] == '>') return 0;  // an arrow follows the expression
  s->at = c + 1;
  return *c;
}

// Reads below zero, where INT64_MIN has room.
static Dim parse_number(Parser *s, bool negative) {
  int64_t v = 0;
  for (; s->at < s->end && is_digit(*s->at); s->at++)
    if (!ck_mul(v, 10, &v) || !ck_sub(v, *s->at - '0', &v)) return NULL;
  if (!negative && !ck_sub(0, v, &v)) return NULL;
  return ie_const(s->pool, v);
}

static Str parse_word(Parser *s) {
  Str word = {s->at, 0};
  if (s->at == s->end || !is_alpha(*s->at)) return word;
  while (s->at < s->end && is_name_char(*s->at)) s->at++;
  word.n = s->at - word.p;
  return word;
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// One byte of a quoted name.
static bool parse_quoted_byte(Parser *s, char *out) {
  if (is_control(*s->at)) return false;
  *out = *s->at++;
  if (*out != '\\') return true;
  if (s->at == s->end) return false;
  *out = *s->at++;
  if (*out == '\'' || *out == '\\') return true;
  if (*out != 'x' || s->end - s->at < 2) return false;
  int high = hex_digit(s->at[0]), low = hex_digit(s->at[1]);
  if (high < 0 || low < 0) return false;
  *out = (char)(high << 4 | low);
  s->at += 2;
  return true;
}

static Dim parse_quoted(Parser *s) {
  StrBuf name;
  strbuf_init(&name, s->pool->arena);
  for (s->at++; s->at < s->end && *s->at != '\'';) {
    char c;
    if (name.n == IE_MAX_NAME || !parse_quoted_byte(s, &c)) return NULL;
    strbuf_putc(&name, c);
  }
  if (s->at == s->end) return NULL;
  s->at++;
  return ie_sym(s->pool, strbuf_str(&name), 0, INT64_MAX);
}

static Dim parse_factor(Parser *s, bool negative);

static Dim parse_part(Parser *s) {
  bool negative = take(s, '-');
  return parse_factor(s, negative);
}

static Dim apply(IntPool *p, IntExprKind kind, Dim a, Dim b) {
  if (kind == IE_DIV) return ie_div(p, a, b);
  if (kind == IE_MOD) return ie_mod(p, a, b);
  if (kind == IE_MIN) return ie_min(p, a, b);
  if (kind == IE_MAX) return ie_max(p, a, b);
  return ie_bcast(p, a, b);
}

static Dim parse_call(Parser *s, IntExprKind kind) {
  bool division = kind == IE_DIV;
  if (!take(s, '(')) return NULL;
  Dim a = division ? parse_part(s) : parse_sum(s);
  if (!a || !take(s, division ? '/' : ',')) return NULL;
  Dim b = division ? parse_part(s) : parse_sum(s);
  if (!b || !take(s, ')')) return NULL;
  return apply(s->pool, kind, a, b);
}

static Dim parse_name(Parser *s) {
  bool fresh = *s->at == '?', poison = *s->at == '!';
  s->at += fresh || poison;
  Str word = parse_word(s);
  if (word.n == 0 || word.n > IE_MAX_NAME) return NULL;
  if (poison) return str_is(word, "poison") ? s->pool->poison : NULL;
  if (fresh) return ie_fresh_named(s->pool, word);
  IntExprKind kind = find_function(word);
  if (kind == IE_CONST) return ie_sym(s->pool, word, 0, INT64_MAX);
  return parse_call(s, kind);
}

static Dim parse_bare_factor(Parser *s) {
  if (*s->at == '\'') return parse_quoted(s);
  if (*s->at != '(') return parse_name(s);
  s->at++;
  Dim e = parse_sum(s);
  return e && take(s, ')') ? e : NULL;
}

static Dim parse_factor(Parser *s, bool negative) {
  skip_blanks(s);
  if (s->at == s->end || s->depth == IE_MAX_DEPTH || s->factors++ == IE_MAX_SIZE) return NULL;
  if (is_digit(*s->at)) return parse_number(s, negative);
  s->depth++;
  Dim e = parse_bare_factor(s);
  s->depth--;
  return e && negative ? ie_mulc(s->pool, e, -1) : e;
}

static Dim parse_term(Parser *s, bool negative) {
  Dim e = parse_factor(s, negative);
  while (e && take_operator(s, "*")) {
    Dim f = parse_factor(s, false);
    e = f ? ie_mul(s->pool, e, f) : NULL;
  }
  return e;
}

static Dim parse_sum(Parser *s) {
  bool negative = take(s, '-');
  Dim e = parse_term(s, negative);
  char op = e ? take_operator(s, "+-") : 0;
  if (!op) return e;
  int64_t first = s->terms.n;
  vec_push(s->pool->arena, &s->terms, e);
  for (; op; op = take_operator(s, "+-")) {
    e = parse_term(s, op == '-');
    if (!e) return NULL;
    vec_push(s->pool->arena, &s->terms, e);
  }
  e = ie_sum(s->pool, s->terms.v + first, s->terms.n - first);
  s->terms.n = first;
  return e;
}

Dim ie_parse(IntPool *p, const char **at, const char *end) {
  Parser s = {.pool = p, .at = *at, .end = end};
  Dim e = parse_sum(&s);
  *at = s.at;
  return e;
}
