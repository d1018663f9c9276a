// template_expr.c -- the expressions of a chat template, with jinja2's grammar and precedence.
//
// From the loosest: a if b else c; or; and; not; comparisons, in, not in; + -; ~; * / // %; **;
// unary - +; then postfix: .name [index] (call), | filter, is test.
//
// Needs:       the parser's state (template_parse.c).
// Guarantees:  an operand chain of any length costs height one level a term, which is bounded.
#include "text/template_impl.h"

static const Token *take(TplParser *p) {
  const Token *t = tpl_token(p);
  if (p->at + 1 < p->t.n) p->at++;
  p->x->line = tpl_token(p)->line;
  return t;
}

static TplNode *make(TplParser *p, NodeKind kind, int line, TplNode *a, TplNode *b, TplNode *c) {
  TplNode *n = tpl_node(p, kind, line);
  n->a = a;
  n->b = b;
  n->c = c;
  tpl_height(p, n, a);
  tpl_height(p, n, b);
  tpl_height(p, n, c);
  return n;
}

static void add_child(TplParser *p, TplNode *n, NodeList *list, TplNode *child) {
  tpl_list_add(p, list, child);
  tpl_height(p, n, child);
}

static TplNode *make_const(TplParser *p, int line, Value v) {
  TplNode *n = tpl_node(p, N_CONST, line);
  n->value = v;
  return n;
}

static TplNode *parse_unary(TplParser *p, bool with_filter);

// ---- primaries ----

static TplNode *parse_list(TplParser *p) {
  TplNode *n = tpl_node(p, N_LIST, take(p)->line);
  while (!tpl_is_op(p, "]")) {
    if (n->v.n) tpl_expect_op(p, ",");
    if (tpl_is_op(p, "]")) break;
    add_child(p, n, &n->v, tpl_parse_expression(p, true));
  }
  tpl_expect_op(p, "]");
  return n;
}

static TplNode *parse_dict(TplParser *p) {
  TplNode *n = tpl_node(p, N_DICT, take(p)->line);
  while (!tpl_is_op(p, "}")) {
    if (n->v.n) tpl_expect_op(p, ",");
    if (tpl_is_op(p, "}")) break;
    add_child(p, n, &n->v, tpl_parse_expression(p, true));
    tpl_expect_op(p, ":");
    add_child(p, n, &n->v, tpl_parse_expression(p, true));
  }
  tpl_expect_op(p, "}");
  return n;
}

static TplNode *parse_strings(TplParser *p) {
  int line = tpl_token(p)->line;
  Value v = v_str(p->x, take(p)->text);
  while (tpl_token(p)->kind == T_STRING) v = text_join(p->x, v, v_str(p->x, take(p)->text));
  // Threads share constants: nothing is appended to them, and they are counted here.
  v = v_str(p->x, str_of_value(v));
  (void)text_chars(p->x, v.s);
  return make_const(p, line, v);
}

static TplNode *parse_name(TplParser *p, bool namespaces) {
  const Token *t = take(p);
  if (str_is(t->text, "true") || str_is(t->text, "True"))
    return make_const(p, t->line, v_bool(true));
  if (str_is(t->text, "false") || str_is(t->text, "False"))
    return make_const(p, t->line, v_bool(false));
  if (str_is(t->text, "none") || str_is(t->text, "None")) return make_const(p, t->line, v_none());
  bool dotted = namespaces && tpl_skip_op(p, ".");
  TplNode *n = tpl_node(p, dotted ? N_NSREF : N_NAME, t->line);
  n->name = t->text;
  if (dotted) n->attr = tpl_expect_name(p);
  return n;
}

static TplNode *parse_primary(TplParser *p, bool namespaces) {
  const Token *t = tpl_token(p);
  switch ((TokenKind)t->kind) {
  case T_NAME: return parse_name(p, namespaces);
  case T_STRING: return parse_strings(p);
  case T_INT: take(p); return make_const(p, t->line, v_int(t->i));
  case T_FLOAT: take(p); return make_const(p, t->line, v_float(t->f));
  default: break;
  }
  if (tpl_skip_op(p, "(")) {
    TplNode *n = tpl_parse_tuple(p, (TupleRule){.parens = true});
    tpl_expect_op(p, ")");
    return n;
  }
  if (tpl_is_op(p, "[")) return parse_list(p);
  if (tpl_is_op(p, "{")) return parse_dict(p);
  tpl_unexpected(p, "an expression");
}

static bool tuple_ends(const TplParser *p, const TupleRule *rule) {
  const Token *t = tpl_token(p);
  if (t->kind == T_VAR_END || t->kind == T_BLOCK_END || tpl_is_op(p, ")")) return true;
  return rule->end && tpl_is_name(p, rule->end);
}

TplNode *tpl_parse_tuple(TplParser *p, TupleRule rule) {
  TplNode *tuple = tpl_node(p, N_TUPLE, tpl_token(p)->line);
  bool is_tuple = false;
  if (++p->nesting > LIMIT_TEMPLATE_DEPTH) tpl_limit(p->x, "nesting");
  for (;;) {
    if (tuple->v.n) tpl_expect_op(p, ",");
    if (tuple_ends(p, &rule)) break;
    add_child(p, tuple, &tuple->v,
              rule.simple ? parse_primary(p, rule.namespaces)
                          : tpl_parse_expression(p, !rule.no_cond));
    if (!tpl_is_op(p, ",")) break;
    is_tuple = true;
  }
  p->nesting--;
  if (is_tuple) return tuple;
  if (tuple->v.n) return tuple->v.v[0];
  if (!rule.parens) tpl_unexpected(p, "an expression");
  return tuple;
}

// ---- targets ----

static void make_target(TplParser *p, TplNode *n) {
  switch ((NodeKind)n->kind) {
  case N_NAME:
  case N_NSREF: n->ctx = CTX_STORE; return;
  case N_TUPLE:
    n->ctx = CTX_STORE;
    for (int64_t i = 0; i < n->v.n; i++) make_target(p, n->v.v[i]);
    return;
  default: p->x->line = n->line; tpl_fail(p->x, "nothing can be assigned to this");
  }
}

TplNode *tpl_parse_target(TplParser *p, TupleRule rule) {
  TplNode *n = tpl_parse_tuple(p, rule);
  make_target(p, n);
  return n;
}

TplNode *tpl_parse_target_name(TplParser *p) {
  static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
  TplNode *n = tpl_node(p, N_NAME, tpl_token(p)->line);
  n->name = tpl_expect_name(p);
  n->ctx = CTX_STORE;
  for (int64_t i = 0; i < ARRAY_LEN(constants); i++)
    if (str_is(n->name, constants[i])) tpl_fail(p->x, "nothing can be assigned to a constant");
  return n;
}

// ---- calls, filters, tests, subscripts ----

static void keyword(TplParser *p, TplNode *call) {
  TplNode *k = tpl_node(p, N_KEYWORD, tpl_token(p)->line);
  k->name = take(p)->text;
  take(p);
  for (int64_t i = 0; i < call->w.n; i++)
    if (str_eq(call->w.v[i]->name, k->name))
      tpl_fail(p->x, "the argument '%.*s' is there twice", STR_ARG(k->name));
  if (call->w.n > LIMIT_TEMPLATE_DEPTH) tpl_limit(p->x, "arguments");
  k->a = tpl_parse_expression(p, true);
  tpl_height(p, k, k->a);
  add_child(p, call, &call->w, k);
}

static void need(TplParser *p, bool ok) {
  if (!ok) tpl_fail(p->x, "arguments in an order that a call does not take");
}

static void parse_args(TplParser *p, TplNode *call) {
  bool comma = false;
  tpl_expect_op(p, "(");
  while (!tpl_is_op(p, ")")) {
    if (comma) {
      tpl_expect_op(p, ",");
      if (tpl_is_op(p, ")")) break;
    }
    if (tpl_skip_op(p, "*")) {
      need(p, !call->b && !call->c);
      call->b = tpl_parse_expression(p, true);
      tpl_height(p, call, call->b);
    } else if (tpl_skip_op(p, "**")) {
      need(p, !call->c);
      call->c = tpl_parse_expression(p, true);
      tpl_height(p, call, call->c);
    } else if (tpl_token(p)->kind == T_NAME && tpl_look(p)->kind == T_OP &&
               !strcmp(tpl_look(p)->op, "=")) {
      need(p, !call->c);
      keyword(p, call);
    } else {
      need(p, !call->b && !call->c && !call->w.n);
      add_child(p, call, &call->v, tpl_parse_expression(p, true));
    }
    comma = true;
  }
  tpl_expect_op(p, ")");
}

static TplNode *parse_call(TplParser *p, TplNode *callee) {
  TplNode *n = make(p, N_CALL, tpl_token(p)->line, callee, NULL, NULL);
  parse_args(p, n);
  return n;
}

static Str dotted_name(TplParser *p) {
  Str name = tpl_expect_name(p);
  while (tpl_skip_op(p, ".")) {
    Str more = tpl_expect_name(p);
    name = str_of(str_printf(p->x->arena, "%.*s.%.*s", STR_ARG(name), STR_ARG(more)));
  }
  return name;
}

// Filters behind one another.  `inside`: the first one has no `|` in front.
TplNode *tpl_parse_filter(TplParser *p, TplNode *of, bool inside) {
  while (inside || tpl_is_op(p, "|")) {
    if (!inside) take(p);
    inside = false;
    TplNode *n = make(p, N_FILTER, tpl_token(p)->line, of, NULL, NULL);
    n->name = dotted_name(p);
    if (tpl_is_op(p, "(")) parse_args(p, n);
    of = n;
  }
  return of;
}

static TplNode *parse_slice(TplParser *p) {
  TplNode *part[3] = {NULL, NULL, NULL};
  int line = tpl_token(p)->line, i = 0;
  if (!tpl_is_op(p, ":")) {
    part[0] = tpl_parse_expression(p, true);
    if (!tpl_is_op(p, ":")) return part[0];
  }
  for (i = 1; i < 3 && tpl_skip_op(p, ":"); i++)
    if (!tpl_is_op(p, ":") && !tpl_is_op(p, "]") && !tpl_is_op(p, ","))
      part[i] = tpl_parse_expression(p, true);
  return make(p, N_SLICE, line, part[0], part[1], part[2]);
}

static TplNode *parse_subscript(TplParser *p, TplNode *of) {
  int line = tpl_token(p)->line;
  if (tpl_skip_op(p, ".")) {
    const Token *t = take(p);
    if (t->kind == T_INT)
      return make(p, N_ITEM, line, of, make_const(p, t->line, v_int(t->i)), NULL);
    if (t->kind != T_NAME) tpl_fail(p->x, "expected a name or a number behind '.'");
    TplNode *n = make(p, N_ATTR, line, of, NULL, NULL);
    n->name = t->text;
    return n;
  }
  take(p);
  TplNode *index = tpl_node(p, N_TUPLE, line);
  while (!tpl_is_op(p, "]")) {
    if (index->v.n) tpl_expect_op(p, ",");
    add_child(p, index, &index->v, parse_slice(p));
  }
  tpl_expect_op(p, "]");
  if (index->v.n == 1) return make(p, N_ITEM, line, of, index->v.v[0], NULL);
  for (int64_t i = 0; i < index->v.n; i++)
    if (index->v.v[i]->kind == N_SLICE) tpl_fail(p->x, "a slice among several indices");
  return make(p, N_ITEM, line, of, index, NULL);
}

static TplNode *parse_postfix(TplParser *p, TplNode *n) {
  for (;;) {
    if (tpl_is_op(p, ".") || tpl_is_op(p, "["))
      n = parse_subscript(p, n);
    else if (tpl_is_op(p, "("))
      n = parse_call(p, n);
    else
      return n;
  }
}

static bool test_has_operand(const TplParser *p) {
  const Token *t = tpl_token(p);
  if (t->kind == T_NAME)
    return !tpl_is_name(p, "else") && !tpl_is_name(p, "or") && !tpl_is_name(p, "and");
  return t->kind == T_STRING || t->kind == T_INT || t->kind == T_FLOAT || tpl_is_op(p, "[") ||
         tpl_is_op(p, "{");
}

static TplNode *parse_test(TplParser *p, TplNode *of) {
  int line = take(p)->line;
  bool negated = tpl_skip_name(p, "not");
  TplNode *n = make(p, N_TEST, line, of, NULL, NULL);
  n->name = dotted_name(p);
  if (tpl_is_op(p, "(")) {
    parse_args(p, n);
  } else if (test_has_operand(p)) {
    if (tpl_is_name(p, "is")) tpl_fail(p->x, "tests cannot follow one another with 'is'");
    add_child(p, n, &n->v, parse_postfix(p, parse_primary(p, false)));
  }
  return negated ? make(p, N_NOT, line, n, NULL, NULL) : n;
}

static TplNode *parse_filters(TplParser *p, TplNode *n) {
  for (;;) {
    if (tpl_is_op(p, "|"))
      n = tpl_parse_filter(p, n, false);
    else if (tpl_is_name(p, "is"))
      n = parse_test(p, n);
    else if (tpl_is_op(p, "("))
      n = parse_call(p, n);
    else
      return n;
  }
}

// ---- operators ----

static TplNode *parse_unary(TplParser *p, bool with_filter) {
  int line = tpl_token(p)->line;
  TplNode *n;
  if (++p->nesting > LIMIT_TEMPLATE_DEPTH) tpl_limit(p->x, "nesting");
  if (tpl_skip_op(p, "-"))
    n = make(p, N_NEG, line, parse_unary(p, false), NULL, NULL);
  else if (tpl_skip_op(p, "+"))
    n = make(p, N_POS, line, parse_unary(p, false), NULL, NULL);
  else
    n = parse_primary(p, false);
  n = parse_postfix(p, n);
  if (with_filter) n = parse_filters(p, n);
  p->nesting--;
  return n;
}

typedef struct OpWord {
  const char *text;
  TplOp op;
} OpWord;

static const OpWord *op_here(const TplParser *p, const OpWord *word, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (tpl_is_op(p, word[i].text)) return &word[i];
  return NULL;
}

static TplNode *binary(TplParser *p, const OpWord *word, int64_t nwords,
                       TplNode *(*operand)(TplParser *)) {
  TplNode *left = operand(p);
  for (const OpWord *w; (w = op_here(p, word, nwords));) {
    int line = take(p)->line;
    left = make(p, N_BINARY, line, left, operand(p), NULL);
    left->op = (uint8_t)w->op;
  }
  return left;
}

static TplNode *unary_operand(TplParser *p) { return parse_unary(p, true); }
static TplNode *parse_pow(TplParser *p) {
  static const OpWord words[] = {{"**", OP_POW}};
  return binary(p, words, 1, unary_operand);
}
static TplNode *parse_product(TplParser *p) {
  static const OpWord words[] = {{"*", OP_MUL}, {"/", OP_DIV}, {"//", OP_FLOORDIV}, {"%", OP_MOD}};
  return binary(p, words, 4, parse_pow);
}
static TplNode *parse_concat(TplParser *p) {
  TplNode *first = parse_product(p);
  if (!tpl_is_op(p, "~")) return first;
  TplNode *n = tpl_node(p, N_CONCAT, first->line);
  add_child(p, n, &n->v, first);
  while (tpl_skip_op(p, "~")) add_child(p, n, &n->v, parse_product(p));
  return n;
}
static TplNode *parse_sum(TplParser *p) {
  static const OpWord words[] = {{"+", OP_ADD}, {"-", OP_SUB}};
  return binary(p, words, 2, parse_concat);
}

static bool comparison(TplParser *p, TplOp *op) {
  static const OpWord words[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT},
                                 {"<=", OP_LE}, {">", OP_GT},  {">=", OP_GE}};
  const OpWord *w = op_here(p, words, ARRAY_LEN(words));
  if (w) {
    take(p);
    *op = w->op;
    return true;
  }
  if (tpl_skip_name(p, "in")) {
    *op = OP_IN;
    return true;
  }
  if (!tpl_is_name(p, "not") || tpl_look(p)->kind != T_NAME || !str_is(tpl_look(p)->text, "in"))
    return false;
  take(p);
  take(p);
  *op = OP_NOTIN;
  return true;
}

static TplNode *parse_compare(TplParser *p) {
  TplNode *first = parse_sum(p), *n = NULL;
  TplOp op;
  while (comparison(p, &op)) {
    if (!n) n = make(p, N_COMPARE, first->line, first, NULL, NULL);
    TplNode *o = make(p, N_OPERAND, tpl_token(p)->line, parse_sum(p), NULL, NULL);
    o->op = (uint8_t)op;
    add_child(p, n, &n->v, o);
  }
  return n ? n : first;
}

static TplNode *parse_not(TplParser *p) {
  int line = tpl_token(p)->line, nots = 0;
  while (tpl_skip_name(p, "not")) nots++;
  TplNode *n = parse_compare(p);
  while (nots-- > 0) n = make(p, N_NOT, line, n, NULL, NULL);
  return n;
}

static TplNode *parse_and(TplParser *p) {
  TplNode *left = parse_not(p);
  while (tpl_is_name(p, "and")) {
    int line = take(p)->line;
    left = make(p, N_AND, line, left, parse_not(p), NULL);
  }
  return left;
}

static TplNode *parse_or(TplParser *p) {
  TplNode *left = parse_and(p);
  while (tpl_is_name(p, "or")) {
    int line = take(p)->line;
    left = make(p, N_OR, line, left, parse_and(p), NULL);
  }
  return left;
}

TplNode *tpl_parse_expression(TplParser *p, bool with_cond) {
  if (++p->nesting > LIMIT_TEMPLATE_DEPTH) tpl_limit(p->x, "nesting");
  TplNode *n = parse_or(p);
  while (with_cond && tpl_is_name(p, "if")) {
    int line = take(p)->line;
    TplNode *condition = parse_or(p), *otherwise = NULL;
    if (tpl_skip_name(p, "else")) otherwise = tpl_parse_expression(p, true);
    n = make(p, N_COND, line, condition, n, otherwise);
  }
  p->nesting--;
  return n;
}
