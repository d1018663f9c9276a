// expr.c -- expressions and rules: what all readers build.
#include "grammar/impl.h"

#include <stdlib.h>

void build_fuel(Build *b, int64_t steps) {
  b->fuel -= steps;
  if (b->fuel < 0)
    trap_raise(TENON_EUNSUPPORTED, "the form is too large: its automaton takes more than %d steps",
               LIMIT_GRAMMAR_KILO_STEPS * 1000);
}

int32_t build_rule(Build *b, Str name) {
  build_fuel(b, 1);
  Rule r = {.name = name, .start = -1};
  vec_push(b->a, &b->rule, r);
  return (int32_t)(b->rule.n - 1);
}

void build_body(Build *b, int32_t rule, const Expr *body) { b->rule.v[rule].body = body; }

int32_t build_control(Build *b, int32_t id) {
  for (int64_t i = 0; i < b->token.n; i++)
    if (b->token.v[i] == id) return SYMBOL_TOKEN + (int32_t)i;
  vec_push(b->a, &b->token, id);
  CHECK(b->token.n <= SYMBOL_MOST - SYMBOL_TOKEN, "too many control tokens");
  return SYMBOL_TOKEN + (int32_t)b->token.n - 1;
}

Expr *expr_new(Build *b, ExprKind kind) {
  build_fuel(b, 1);
  Expr *x = arena_new(b->a, Expr);
  x->kind = kind;
  return x;
}

const Expr *expr_bytes(Build *b, Str s) {
  Expr *x = expr_new(b, s.n ? E_BYTES : E_EMPTY);
  x->bytes = s;
  return x;
}

const Expr *expr_set(Build *b, const UnicodeRange *range, int64_t n, bool json) {
  Expr *x = expr_new(b, n ? E_SET : E_NEVER);
  x->range = arena_dup(b->a, range, n * (int64_t)sizeof *range);
  x->n = n;
  x->json = json;
  return x;
}

const Expr *expr_not_set(Build *b, const UnicodeRange *range, int64_t n, bool json) {
  CodeSet s = {0};
  for (int64_t i = 0; i < n; i++) code_add(b, &s, range[i].first, range[i].last);
  code_order(&s);
  code_not(b, &s);
  return expr_set(b, s.v, s.n, json);
}

const Expr *expr_any(Build *b, bool json) { return expr_not_set(b, NULL, 0, json); }

const Expr *expr_list(Build *b, ExprKind kind, const Expr **of, int64_t n) {
  if (n == 1) return of[0];
  Expr *x = expr_new(b, n ? kind : kind == E_SEQ ? E_EMPTY : E_NEVER);
  x->of = arena_dup(b->a, of, n * (int64_t)sizeof *of);
  x->n = n;
  return x;
}

void choices_part(Build *b, ExprChoices *c, const Expr *part) { vec_push(b->a, &c->part, part); }

void choices_next(Build *b, ExprChoices *c) {
  const Expr *seq = expr_list(b, E_SEQ, c->part.v, c->part.n);
  vec_push(b->a, &c->alternative, seq);
  c->part.n = 0;
}

const Expr *choices_expr(Build *b, const ExprChoices *c) {
  return expr_list(b, E_ALT, c->alternative.v, c->alternative.n);
}

const Expr *expr_pair(Build *b, ExprKind kind, const Expr *x, const Expr *y) {
  Expr *e = expr_new(b, kind);
  e->of = arena_array(b->a, const Expr *, 2);
  e->of[0] = x;
  e->of[1] = y;
  e->n = y ? 2 : 1;
  return e;
}

const Expr *expr_repeat(Build *b, const Expr *x, int64_t least, int64_t most) {
  if (least == 1 && most == 1) return x;
  Expr *e = (Expr *)expr_pair(b, E_REPEAT, x, NULL);
  e->least = (int32_t)least;
  e->most = (int32_t)most;
  return e;
}

const Expr *expr_rule(Build *b, int32_t rule) {
  Expr *x = expr_new(b, E_RULE);
  x->rule = rule;
  return x;
}

const Expr *expr_symbol(Build *b, int32_t symbol) {
  Expr *x = expr_new(b, E_SYMBOL);
  x->symbol = symbol;
  return x;
}

// ---- sets of code points ----
void code_add(Build *b, CodeSet *s, uint32_t first, uint32_t last) {
  build_fuel(b, 1);
  UnicodeRange r = {first, last};
  vec_push(b->a, s, r);
}

static int by_first(const void *x, const void *y) {
  uint32_t a = ((const UnicodeRange *)x)->first, b = ((const UnicodeRange *)y)->first;
  return (a > b) - (a < b);
}

void code_order(CodeSet *s) {
  if (!s->n) return;
  qsort(s->v, (size_t)s->n, sizeof *s->v, by_first);
  int64_t n = 0;
  for (int64_t i = 0; i < s->n; i++) {
    if (n && s->v[i].first <= s->v[n - 1].last + 1)
      s->v[n - 1].last = MAX(s->v[n - 1].last, s->v[i].last);
    else
      s->v[n++] = s->v[i];
  }
  s->n = n;
}

void code_not(Build *b, CodeSet *s) {
  CodeSet out = {0};
  uint32_t at = 0;
  for (int64_t i = 0; i < s->n; i++) {
    if (s->v[i].first > at) code_add(b, &out, at, s->v[i].first - 1);
    at = s->v[i].last + 1;
  }
  if (at < UNICODE_END) code_add(b, &out, at, UNICODE_END - 1);
  *s = out;
}
