// parse.c -- kernels out of text, as print.c writes it.
//
// One pass, character by character; what stands in brackets and behind `<` is read by ie_parse.  A
// symbol gets the range that its extent allows before anything that uses it is read, since
// expressions fold by ranges: so guards stand in front of what they guard.  Nothing is folded
// besides, and types, scopes and accesses are the verifier's affair; only what the tree cannot hold
// is refused here.
//
// Guarantees: time and memory are linear in the text; nesting is limited.
#include "loop/parse.h"

#include <math.h>

static tenon_status parse_expr(Parser *p, const LoopExpr **out);

// ---- text ----
PRINTF(3, 4) tenon_status parser_fail(Parser *p, const char *at, const char *fmt, ...) {
  Where w = {.file = p->path, .line = 1, .column = 1};
  for (const char *c = p->begin; c < at; c++) {
    w.line += *c == '\n';
    w.column = *c == '\n' ? 1 : w.column + 1;
  }
  va_list ap;
  va_start(ap, fmt);
  tenon_status s = failv(p->d, TENON_EINVAL, w, fmt, ap);
  va_end(ap);
  return s;
}

void parser_skip(Parser *p) {
  while (p->at < p->end) {
    char c = *p->at;
    if (c == '/' && p->end - p->at > 1 && p->at[1] == '/')
      while (p->at < p->end && *p->at != '\n') p->at++;
    else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
      p->at++;
    else
      return;
  }
}

static bool peek(Parser *p, char c) {
  parser_skip(p);
  return p->at < p->end && *p->at == c;
}

bool parser_take(Parser *p, char c) {
  if (!peek(p, c)) return false;
  p->at++;
  return true;
}

tenon_status parser_expected(Parser *p, const char *what) {
  parser_skip(p);
  if (p->at == p->end) return parser_fail(p, p->at, "expected %s, found the end of the text", what);
  unsigned char c = (unsigned char)*p->at;
  if (c < 0x20 || c > 0x7e) return parser_fail(p, p->at, "expected %s, found byte 0x%02x", what, c);
  return parser_fail(p, p->at, "expected %s, found '%c'", what, c);
}

tenon_status parser_need(Parser *p, char c) {
  char what[] = {'\'', c, '\'', 0};
  return parser_take(p, c) ? TENON_OK : parser_expected(p, what);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}

Str parser_word(Parser *p) {
  parser_skip(p);
  Str w = {p->at, 0};
  while (w.p + w.n < p->end && is_word_char(w.p[w.n])) w.n++;
  return w;
}

bool parser_take_word(Parser *p, const char *word) {
  Str w = parser_word(p);
  if (!str_is(w, word)) return false;
  p->at += w.n;
  return true;
}

tenon_status parser_need_word(Parser *p, const char *word) {
  if (parser_take_word(p, word)) return TENON_OK;
  Str w = parser_word(p);
  if (!w.n) return parser_expected(p, word);
  return parser_fail(p, p->at, "expected '%s', found '%.*s'", word, STR_ARG(w));
}

static tenon_status need_name(Parser *p, char mark, Str *out) {
  TRY(parser_need(p, mark));
  *out = (Str){p->at, 0};
  while (p->at < p->end && is_word_char(*p->at)) p->at++, out->n++;
  return out->n ? TENON_OK : parser_expected(p, "a name");
}

static tenon_status parse_dtype(Parser *p, DType *out) {
  Str w = parser_word(p);
  if (!dtype_parse(w, out)) return parser_expected(p, "a dtype");
  if (!loop_dtype_ok(*out)) return parser_fail(p, w.p, "kernels have no %s", dtype_name(*out));
  p->at += w.n;
  return TENON_OK;
}

static tenon_status parse_u64(Parser *p, uint64_t *out) {
  parser_skip(p);
  const char *start = p->at;
  for (*out = 0; p->at < p->end && is_digit(*p->at); p->at++)
    if (__builtin_mul_overflow(*out, 10u, out) ||
        __builtin_add_overflow(*out, (uint64_t)(*p->at - '0'), out))
      return parser_fail(p, start, "the number does not fit");
  return p->at > start ? TENON_OK : parser_expected(p, "a number");
}

tenon_status parser_i64(Parser *p, int64_t *out) {
  bool negative = parser_take(p, '-');
  const char *start = p->at;
  uint64_t v;
  TRY(parse_u64(p, &v));
  if (v > (uint64_t)INT64_MAX + negative) return parser_fail(p, start, "the number does not fit");
  *out = (int64_t)(negative ? 0 - v : v);
  return TENON_OK;
}

// ---- symbols and index expressions ----
tenon_status parser_dim(Parser *p, Dim *out) {
  parser_skip(p);
  const char *start = p->at;
  int32_t known = p->pool->nsyms;
  *out = ie_parse(p->pool, &p->at, p->end);
  if (!*out) return parser_fail(p, p->at, "malformed index expression");
  if (ie_is_poison(*out)) return parser_fail(p, start, "this index expression has no value");
  if (p->pool->nsyms > known) {
    Dim s = p->pool->sym.v[known];
    return parser_fail(p, start, "'%.*s' is not defined", STR_ARG(((Str){s->name, s->value})));
  }
  return TENON_OK;
}

static tenon_status parse_sym_name(Parser *p, Dim *out) {
  parser_skip(p);
  const char *start = p->at;
  *out = ie_parse(&p->names, &p->at, p->end);
  if (*out && (*out)->kind == IE_SYM) return TENON_OK;
  return parser_fail(p, start, "expected the name of a symbol");
}

// `as` is the symbol in the pool of names.
static tenon_status define_sym(Parser *p, const char *start, Dim as, int64_t lo, int64_t hi,
                               Dim *out) {
  Str name = {as->name, as->value};
  *out = as->fresh ? ie_fresh_named(p->pool, name) : ie_sym(p->pool, name, lo, hi);
  if (ie_is_poison(*out)) return parser_fail(p, start, "this name is too long");
  if ((*out)->lo != lo || (*out)->hi != hi)
    return parser_fail(p, start, "symbol '%.*s' is known with another range", STR_ARG(name));
  uint64_t seen;
  if (intmap_get(&p->defined, (uint64_t)(*out)->slot, &seen))
    return parser_fail(p, start, "symbol '%.*s' is defined twice", STR_ARG(name));
  intmap_put(&p->defined, (uint64_t)(*out)->slot, 1);
  return TENON_OK;
}

tenon_status parser_loop_sym(Parser *p, Dim *sym, Dim *extent) {
  Dim as;
  parser_skip(p);
  const char *start = p->at;
  TRY(parse_sym_name(p, &as));
  TRY(parser_need(p, '<'));
  TRY(parser_dim(p, extent));
  return define_sym(p, start, as, 0, loop_sym_hi(*extent), sym);
}

// The same guard may stand before several accesses.
tenon_status parser_guard(Parser *p, LoopBound *g) {
  Dim as;
  uint64_t seen;
  parser_skip(p);
  const char *start = p->at;
  TRY(parse_sym_name(p, &as));
  TRY(parser_need(p, '='));
  TRY(parser_dim(p, &g->value));
  TRY(parser_need(p, '<'));
  TRY(parser_dim(p, &g->extent));
  int64_t hi = loop_sym_hi(g->extent);
  Dim old = as->fresh ? NULL : strmap_get(&p->pool->syms, (Str){as->name, as->value});
  if (old && intmap_get(&p->defined, (uint64_t)old->slot, &seen) && seen > 1) {
    const LoopBound *was = (const LoopBound *)(uintptr_t)seen;
    g->sym = old;
    if (was->value == g->value && was->extent == g->extent) return TENON_OK;
  }
  TRY(define_sym(p, start, as, 0, hi, &g->sym));
  const LoopBound *kept = arena_dup(p->arena, g, (int64_t)sizeof *g);
  intmap_put(&p->defined, (uint64_t)g->sym->slot, (uint64_t)(uintptr_t)kept);
  return TENON_OK;
}

// An empty list, or `where(...)`.
static tenon_status parse_guards(Parser *p, uint8_t *n, const LoopBound **out) {
  LoopBound g[LOOP_GUARDS];
  *n = 0;
  if (!parser_take_word(p, "where")) return TENON_OK;
  TRY(parser_need(p, '('));
  do {
    if (*n == LOOP_GUARDS) return parser_fail(p, p->at, "more than %d guards", LOOP_GUARDS);
    TRY(parser_guard(p, &g[*n]));
    ++*n;
  } while (parser_take(p, ','));
  *out = arena_dup(p->arena, g, *n * (int64_t)sizeof g[0]);
  return parser_need(p, ')');
}

tenon_status parser_buffer(Parser *p, int32_t *out) {
  Str name;
  parser_skip(p);
  const char *start = p->at;
  TRY(need_name(p, '%', &name));
  uintptr_t b = (uintptr_t)strmap_get(&p->buffer, name);
  if (!b) return parser_fail(p, start, "there is no buffer %%%.*s", STR_ARG(name));
  *out = (int32_t)(b - 1);
  return TENON_OK;
}

static tenon_status parse_place(Parser *p, int32_t *buffer, Dim *index) {
  TRY(parser_buffer(p, buffer));
  TRY(parser_need(p, '['));
  TRY(parser_dim(p, index));
  return parser_need(p, ']');
}

// ---- constants ----
static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Hex digits; counts those behind a point.
static tenon_status parse_hex(Parser *p, uint64_t *out, int *places) {
  int digits = 0;
  bool point = false;
  *out = 0;
  *places = 0;
  for (; p->at < p->end; p->at++) {
    int h = hex_digit(*p->at);
    if (*p->at == '.' && !point) {
      point = true;
      continue;
    }
    if (h < 0) break;
    if (*out >> 60) return parser_fail(p, p->at, "too many digits");
    *out = *out << 4 | (uint64_t)h;
    *places += point;
    digits++;
  }
  return digits ? TENON_OK : parser_expected(p, "a hexadecimal digit");
}

static tenon_status parse_hex_float(Parser *p, double *out) {
  uint64_t m, e;
  int places;
  TRY(parse_hex(p, &m, &places));
  if (m >> 53) return parser_fail(p, p->at, "too many digits");
  if (p->at == p->end || *p->at != 'p') return parser_expected(p, "'p'");
  p->at++;
  bool negative = p->at < p->end && *p->at == '-';
  p->at += p->at < p->end && (*p->at == '-' || *p->at == '+');
  TRY(parse_u64(p, &e));
  if (e > 5000) return parser_fail(p, p->at, "the exponent is out of range");
  *out = ldexp((double)m, (negative ? -(int)e : (int)e) - 4 * places);
  return TENON_OK;
}

static tenon_status parse_nan(Parser *p, double *out) {
  uint64_t bits = 0x7ff8000000000000;
  int places = 0;
  if (parser_take(p, '(')) {
    if (!peek(p, '0') || p->end - p->at < 2 || p->at[1] != 'x') return parser_expected(p, "0x");
    p->at += 2;
    const char *start = p->at;
    TRY(parse_hex(p, &bits, &places));
    if (places || (bits & INT64_MAX) <= 0x7ff0000000000000)
      return parser_fail(p, start, "these bits are a number");
    TRY(parser_need(p, ')'));
  }
  memcpy(out, &bits, sizeof bits);
  return TENON_OK;
}

// A number as it is written; `t` is NONE where it says its own dtype.
static tenon_status parse_number(Parser *p, DType t, const LoopExpr **out) {
  parser_skip(p);
  const char *start = p->at;
  LoopCell v = {.i = 0};
  bool negative = parser_take(p, '-'), is_float = true;
  uint64_t u;
  parser_skip(p);
  if (parser_take_word(p, "inf")) {
    v.f = (double)INFINITY;
  } else if (parser_take_word(p, "nan")) {
    TRY(parse_nan(p, &v.f));
  } else if (p->end - p->at > 1 && p->at[0] == '0' && p->at[1] == 'x') {
    p->at += 2;
    TRY(parse_hex_float(p, &v.f));
  } else {
    TRY(parse_u64(p, &u));
    is_float = p->end - p->at > 1 && p->at[0] == '.' && p->at[1] == '0';
    if (is_float) p->at += 2;
    if (is_float)
      v.f = (double)u;
    else
      v.i = (int64_t)(negative ? 0 - u : u);
    bool fits = t == DT_U64 ? !negative || !u : u <= (uint64_t)INT64_MAX + negative;
    if (!is_float && !fits) return parser_fail(p, start, "the number does not fit");
  }
  if (is_float && negative) v.f = -v.f;
  if (!t) t = is_float ? DT_F32 : DT_I64;
  if (dtype_is_float(t) != is_float || t == DT_BOOL)
    return parser_fail(p, start, "a number of another kind than %s", dtype_name(t));
  LoopCell r = loop_round(t, v);
  if (is_float ? v.f == v.f && (r.f != v.f || signbit(r.f) != signbit(v.f)) : r.i != v.i)
    return parser_fail(p, start, "%s does not have this number", dtype_name(t));
  LoopExpr *e = loop_new_expr(p->k, LX_CONST, t);
  if (is_float)
    e->f = v.f;
  else
    e->i = v.i;
  *out = e;
  return TENON_OK;
}

// ---- expressions ----
static tenon_status parse_load(Parser *p, const LoopExpr **out) {
  LoopExpr *e = loop_new_expr(p->k, LX_LOAD, TENON_DTYPE_NONE);
  bool wide = parser_take_word(p, "wide");
  TRY(parse_guards(p, &e->nguards, &e->guard));
  TRY(parse_place(p, &e->buffer, &e->index));
  e->dtype = wide ? DT_U32 : p->k->buffer[e->buffer].dtype;
  if (e->nguards && parser_take_word(p, "else")) TRY(parse_expr(p, &e->src[0]));
  *out = e;
  return TENON_OK;
}

// Behind `%v`; the number of a variable.
static tenon_status parse_var_number(Parser *p, int32_t *out) {
  Str name;
  parser_skip(p);
  const char *start = p->at;
  int64_t n = 0;
  TRY(need_name(p, '%', &name));
  Str digits = {name.p + 1, name.n - 1};
  if (name.p[0] != 'v' || !digits.n || !is_digit(digits.p[0]) || !str_to_i64(digits, &n) ||
      n >= LOOP_MAX_VARS || (digits.n > 1 && digits.p[0] == '0'))
    return parser_fail(p, start, "%%%.*s is neither a variable nor a buffer", STR_ARG(name));
  *out = (int32_t)n;
  return TENON_OK;
}

static tenon_status parse_var(Parser *p, const LoopExpr **out) {
  LoopExpr *e = loop_new_expr(p->k, LX_VAR, TENON_DTYPE_NONE);
  const char *start = p->at;
  TRY(parse_var_number(p, &e->var));
  if (e->var >= p->var.n || !p->var.v[e->var])
    return parser_fail(p, start, "variable %%v%d is not defined", (int)e->var);
  e->dtype = p->var.v[e->var];
  *out = e;
  return TENON_OK;
}

static tenon_status parse_percent(Parser *p, const LoopExpr **out) {
  const char *c = p->at + 1;
  while (c < p->end && is_word_char(*c)) c++;
  return c < p->end && *c == '[' ? parse_load(p, out) : parse_var(p, out);
}

static tenon_status parse_op(Parser *p, LoopOp op, const LoopExpr **out) {
  LoopExpr *e = loop_new_expr(p->k, LX_OP, TENON_DTYPE_NONE);
  e->op = (uint8_t)op;
  if (op == LOOP_cast || op == LOOP_bit_cast) {
    TRY(parser_need(p, '['));
    TRY(parse_dtype(p, &e->dtype));
    TRY(parser_need(p, ']'));
  }
  for (int i = 0; i < loop_op_arity[op]; i++) {
    TRY(parser_need(p, i ? ',' : '('));
    TRY(parse_expr(p, &e->src[i]));
  }
  if (!e->dtype) e->dtype = e->src[op == LOOP_select ? 1 : op == LOOP_dot ? 2 : 0]->dtype;
  if (loop_op_is_compare(op)) e->dtype = DT_BOOL;
  *out = e;
  return parser_need(p, ')');
}

static bool find_op(Str word, LoopOp *out) {
  for (int i = 0; i < LOOP_OP_COUNT; i++)
    if (str_is(word, loop_op_name[i])) {
      *out = (LoopOp)i;
      return true;
    }
  return false;
}

static tenon_status parse_word_expr(Parser *p, const LoopExpr **out) {
  Str w = parser_word(p);
  LoopOp op;
  DType t;
  if (str_is(w, "inf") || str_is(w, "nan")) return parse_number(p, TENON_DTYPE_NONE, out);
  if (str_is(w, "where") || str_is(w, "wide")) return parse_load(p, out);
  if (!w.n) return parser_expected(p, "a value");
  if (str_is(w, "true") || str_is(w, "false")) {
    LoopExpr *e = loop_new_expr(p->k, LX_CONST, DT_BOOL);
    e->i = w.p[0] == 't';
    p->at += w.n;
    *out = e;
    return TENON_OK;
  }
  if (dtype_parse(w, &t)) {
    TRY(parse_dtype(p, &t));
    TRY(parser_need(p, '('));
    TRY(parse_number(p, t, out));
    return parser_need(p, ')');
  }
  if (!find_op(w, &op)) return parser_fail(p, w.p, "there is no operation '%.*s'", STR_ARG(w));
  p->at += w.n;
  return parse_op(p, op, out);
}

// `#2 = expr` names a node, `#2` is it again; numbers go up from 0 in each statement.
static tenon_status parse_shared(Parser *p, const LoopExpr **out) {
  const char *start = p->at++;
  uint64_t n;
  TRY(parse_u64(p, &n));
  if (!parser_take(p, '=')) {
    if (n >= (uint64_t)p->shared.n || !p->shared.v[n])
      return parser_fail(p, start, "#%llu is not defined here", (unsigned long long)n);
    *out = p->shared.v[n];
    return TENON_OK;
  }
  if (n != (uint64_t)p->shared.n)
    return parser_fail(p, start, "the next shared value is #%lld", (long long)p->shared.n);
  vec_push(p->arena, &p->shared, NULL);
  TRY(parse_expr(p, out));
  if ((*out)->kind != LX_OP && (*out)->kind != LX_LOAD)
    return parser_fail(p, start, "only loads and operations are shared");
  p->shared.v[n] = *out;
  return TENON_OK;
}

static tenon_status parse_expr(Parser *p, const LoopExpr **out) {
  parser_skip(p);
  if (p->at == p->end) return parser_expected(p, "a value");
  if (p->depth == LOOP_MAX_DEPTH)
    return parser_fail(p, p->at, "the expression is nested too deeply");
  p->depth++;
  char c = *p->at;
  tenon_status s;
  if (c == '%') {
    s = parse_percent(p, out);
  } else if (c == '#') {
    s = parse_shared(p, out);
  } else if (c == '[') {
    LoopExpr *e = loop_new_expr(p->k, LX_INDEX, DT_I64);
    p->at++;
    s = parser_dim(p, &e->index);
    *out = e;
    if (!s) s = parser_need(p, ']');
  } else if (c == '-' || is_digit(c)) {
    s = parse_number(p, TENON_DTYPE_NONE, out);
  } else {
    s = parse_word_expr(p, out);
  }
  p->depth--;
  return s;
}

tenon_status parser_value(Parser *p, const LoopExpr **out) {
  p->shared.n = 0;
  return parse_expr(p, out);
}

// ---- statements ----
static tenon_status parse_string(Parser *p, const char **out) {
  StrBuf b;
  strbuf_init(&b, p->arena);
  TRY(parser_need(p, '"'));
  for (; p->at < p->end && *p->at != '"'; p->at++) {
    char c = *p->at;
    if ((unsigned char)c < 0x20) break;
    if (c == '\\') {
      if (p->end - p->at < 2) break;
      c = *++p->at;
      if (c == 'x') {
        int hi = p->end - p->at > 2 ? hex_digit(p->at[1]) : -1;
        int lo = hi >= 0 ? hex_digit(p->at[2]) : -1;
        if (lo < 0 || (hi | lo) == 0) return parser_fail(p, p->at, "malformed escape");
        c = (char)(hi << 4 | lo);
        p->at += 2;
      } else if (c != '"' && c != '\\') {
        return parser_fail(p, p->at, "malformed escape");
      }
    }
    strbuf_putc(&b, c);
  }
  *out = strbuf_text(&b);
  return parser_need(p, '"');
}

// `%v3: f32`
tenon_status parser_var(Parser *p, int32_t *var) {
  DType t;
  parser_skip(p);
  const char *start = p->at;
  TRY(parse_var_number(p, var));
  TRY(parser_need(p, ':'));
  TRY(parse_dtype(p, &t));
  while (p->var.n <= *var) vec_push(p->arena, &p->var, TENON_DTYPE_NONE);
  if (p->var.v[*var]) return parser_fail(p, start, "variable %%v%d is defined twice", (int)*var);
  p->var.v[*var] = t;
  return TENON_OK;
}

static tenon_status parse_braces(Parser *p) {
  TRY(parser_need(p, '{'));
  loop_open(&p->b);
  TRY(parser_block(p));
  loop_close(&p->b);
  return parser_need(p, '}');
}

// How many rounds have loads in flight: ` by N`.
static tenon_status parse_in_flight(Parser *p, LoopStmt *s) {
  int64_t n = 0;
  if (!parser_take_word(p, "by")) return TENON_OK;
  TRY(parser_i64(p, &n));
  if (n < 1 || n > LOOP_MAX_THREADS) return parser_fail(p, p->at, "a loop by %lld", (long long)n);
  s->in_flight = (int32_t)n;
  return TENON_OK;
}

static tenon_status parse_for(Parser *p, LoopKind kind) {
  LoopStmt *s = loop_new_stmt(&p->b, LS_FOR);
  s->loop = (uint8_t)kind;
  TRY(parser_loop_sym(p, &s->sym, &s->extent));
  if (kind == LOOP_SERIAL) TRY(parse_in_flight(p, s));
  return parse_braces(p);
}

static tenon_status parse_where(Parser *p) {
  LoopStmt *s = loop_new_stmt(&p->b, LS_FOR);
  LoopBound g = {0};
  s->loop = LOOP_WHERE;
  TRY(parser_guard(p, &g));
  s->sym = g.sym;
  s->index = g.value;
  s->extent = g.extent;
  return parse_braces(p);
}

static tenon_status parse_let(Parser *p) {
  LoopStmt *s = loop_new_stmt(&p->b, LS_LET);
  TRY(parser_var(p, &s->var));
  TRY(parser_need(p, '='));
  return parser_value(p, &s->value);
}

static tenon_status parse_bind(Parser *p) {
  LoopStmt *s = loop_new_stmt(&p->b, LS_BIND);
  const char *message = NULL;
  TRY(parser_loop_sym(p, &s->sym, &s->extent));
  TRY(parser_need(p, '='));
  TRY(parser_value(p, &s->value));
  TRY(parser_need_word(p, "check"));
  TRY(parse_string(p, &message));
  s->check = loop_find_check(p->k, message);
  return TENON_OK;
}

static tenon_status parse_store(Parser *p) {
  LoopStmt *s = loop_new_stmt(&p->b, LS_STORE);
  parser_take_word(p, "wide");  // the value says so, too
  TRY(parse_guards(p, &s->nguards, &s->guard));
  TRY(parse_place(p, &s->buffer, &s->index));
  TRY(parser_need(p, '='));
  return parser_value(p, &s->value);
}

static tenon_status parse_if(Parser *p) {
  LoopStmt *s = loop_new_stmt(&p->b, LS_IF);
  TRY(parser_value(p, &s->value));
  TRY(parser_need(p, '{'));
  loop_open(&p->b);
  TRY(parser_block(p));
  TRY(parser_need(p, '}'));
  if (parser_take_word(p, "else")) {
    loop_else(&p->b);
    TRY(parser_need(p, '{'));
    TRY(parser_block(p));
    TRY(parser_need(p, '}'));
  }
  loop_close(&p->b);
  return TENON_OK;
}

static tenon_status parse_reduce(Parser *p) {
  LoopStmt *s = loop_new_stmt(&p->b, LS_REDUCE);
  TRY(parser_var(p, &s->var));
  TRY(parser_need(p, '='));
  Str w = parser_word(p);
  LoopOp op;
  double f;
  int64_t lanes = 1, i;
  if (!find_op(w, &op) || !loop_identity(op, p->var.v[s->var], &f, &i))
    return parser_fail(p, w.p, "'%.*s' is no operation that reduces", STR_ARG(w));
  p->at += w.n;
  s->op = (uint8_t)op;
  if (parser_take_word(p, "lanes")) TRY(parser_i64(p, &lanes));
  if (lanes < 1 || lanes > LOOP_LANES || (lanes & (lanes - 1)))
    return parser_fail(p, p->at, "lanes are a power of two up to %d", LOOP_LANES);
  s->lanes = (int32_t)lanes;
  TRY(parser_need_word(p, "over"));
  TRY(parser_loop_sym(p, &s->sym, &s->extent));
  TRY(parser_need(p, '{'));
  loop_open(&p->b);
  TRY(parser_block(p));
  TRY(parser_need_word(p, "yield"));
  TRY(parser_value(p, &s->value));
  loop_close(&p->b);
  return parser_need(p, '}');
}

static tenon_status parse_prefetch(Parser *p) {
  LoopStmt *s = loop_new_stmt(&p->b, LS_PREFETCH);
  return parse_place(p, &s->buffer, &s->index);
}

static tenon_status parse_stmt(Parser *p) {
  if (parser_take_word(p, "for")) return parse_for(p, LOOP_SERIAL);
  if (parser_take_word(p, "parallel")) return parse_for(p, LOOP_PARALLEL);
  if (parser_take_word(p, "unroll")) return parse_for(p, LOOP_UNROLL);
  if (parser_take_word(p, "vector")) return parse_for(p, LOOP_VECTOR);
  if (parser_take_word(p, "thread")) return parse_for(p, LOOP_THREAD);
  if (parser_take_word(p, "where")) return parse_where(p);
  if (parser_take_word(p, "let")) return parse_let(p);
  if (parser_take_word(p, "bind")) return parse_bind(p);
  if (parser_take_word(p, "store")) return parse_store(p);
  if (parser_take_word(p, "if")) return parse_if(p);
  if (parser_take_word(p, "reduce")) return parse_reduce(p);
  if (parser_take_word(p, "prefetch")) return parse_prefetch(p);
  if (parser_take_word(p, "mma")) return parser_mma(p);
  if (parser_take_word(p, "attention")) return parser_attention(p);
  return parser_expected(p, "a statement");
}

// Up to `}`, `yield` or `score`.
tenon_status parser_block(Parser *p) {
  if (p->nesting == LOOP_MAX_NESTING) return parser_fail(p, p->at, "blocks are nested too deeply");
  p->nesting++;
  while (!peek(p, '}') && !str_is(parser_word(p), "yield") && !str_is(parser_word(p), "score"))
    TRY(parse_stmt(p));
  p->nesting--;
  return TENON_OK;
}

// ---- kernels ----
static tenon_status parse_kernel_dim(Parser *p) {
  Dim as;
  int64_t lo = 0, hi = INT64_MAX;
  parser_skip(p);
  const char *start = p->at;
  TRY(parse_sym_name(p, &as));
  if (parser_take_word(p, "in")) {
    lo = INT64_MIN;
    TRY(parser_need(p, '['));
    if (!parser_take(p, '*')) TRY(parser_i64(p, &lo));
    TRY(parser_need(p, ','));
    if (!parser_take(p, '*')) TRY(parser_i64(p, &hi));
    TRY(parser_need(p, ']'));
  }
  if (lo > hi) return parser_fail(p, start, "an empty range");
  Dim sym;
  TRY(define_sym(p, start, as, lo, hi, &sym));
  loop_add_dim(p->k, sym);
  return TENON_OK;
}

static tenon_status parse_buffer(Parser *p, LoopSpace space) {
  Str name;
  DType t;
  Dim size;
  bool written = space == LOOP_ARG && parser_take_word(p, "out");
  bool constant = space == LOOP_ARG && !written && parser_take_word(p, "const");
  parser_skip(p);
  const char *start = p->at;
  TRY(need_name(p, '%', &name));
  TRY(parser_need(p, ':'));
  TRY(parse_dtype(p, &t));
  TRY(parser_need(p, '['));
  TRY(parser_dim(p, &size));
  if (strmap_has(&p->buffer, name))
    return parser_fail(p, start, "buffer %%%.*s is defined twice", STR_ARG(name));
  int32_t b = loop_add_buffer(p->k, space, str_copy(p->arena, name), t, size, written);
  p->k->buffer[b].constant = constant;
  strmap_put(&p->buffer, str_of(p->k->buffer[b].name), (void *)(uintptr_t)(b + 1));
  return parser_need(p, ']');
}

static tenon_status parse_head(Parser *p) {
  Str name;
  TRY(parser_need_word(p, "kernel"));
  TRY(need_name(p, '@', &name));
  p->k = loop_kernel(p->arena, p->pool, str_copy(p->arena, name));
  loop_begin(&p->b, p->k);
  if (parser_take_word(p, "dims")) {
    TRY(parser_need(p, '('));
    do TRY(parse_kernel_dim(p));
    while (parser_take(p, ','));
    TRY(parser_need(p, ')'));
  }
  TRY(parser_need(p, '('));
  if (parser_take(p, ')')) return TENON_OK;
  do TRY(parse_buffer(p, LOOP_ARG));
  while (parser_take(p, ','));
  return parser_need(p, ')');
}

// The rest of the line.
static void parse_schedule(Parser *p) {
  if (!parser_take_word(p, "schedule")) return;
  const char *end = memchr(p->at, '\n', (size_t)(p->end - p->at));
  if (!end) end = p->end;
  while (p->at < end && *p->at == ' ') p->at++;
  p->k->schedule = str_copy(p->arena, (Str){p->at, end - p->at});
  p->at = end;
}

static LoopSpace parse_space(Parser *p) {
  return parser_take_word(p, "scratch")    ? LOOP_SCRATCH
         : parser_take_word(p, "register") ? LOOP_REGISTER
         : parser_take_word(p, "shared")   ? LOOP_SHARED
                                           : LOOP_ARG;  // none that is declared inside
}

static tenon_status parse_kernel(Parser *p) {
  TRY(parse_head(p));
  TRY(parser_need(p, '{'));
  parse_schedule(p);
  for (LoopSpace space; (space = parse_space(p)) != LOOP_ARG;) TRY(parse_buffer(p, space));
  TRY(parser_block(p));
  TRY(parser_need(p, '}'));
  parser_skip(p);
  if (p->at < p->end) return parser_expected(p, "the end of the text");
  // A number without a variable: one that the kernel was built without after all.
  for (int64_t i = 0; i < p->var.n; i++)
    if (!p->var.v[i]) p->var.v[i] = DT_F32;
  p->k->var = p->var.v;
  p->k->nvars = (int32_t)p->var.n;
  loop_finish(&p->b);
  return TENON_OK;
}

tenon_status loop_parse(Str text, const char *path, Arena *a, IntPool *pool, Diag *d,
                        LoopKernel **out) {
  Parser p = {.arena = a, .pool = pool, .path = path, .d = d};
  p.at = p.begin = text.p;
  p.end = text.p + text.n;
  intpool_init(&p.names, a);
  strmap_init(&p.buffer, a);
  intmap_init(&p.defined, a);
  *out = NULL;
  TRY(parse_kernel(&p));
  *out = p.k;
  return TENON_OK;
}
