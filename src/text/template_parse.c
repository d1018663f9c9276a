// template_parse.c -- the statements of a chat template, and the entry of parsing.
//
// A recursive-descent parser with jinja2's grammar.  Statements within one another, expressions
// within one another and the height of the tree are bounded by LIMIT_TEMPLATE_DEPTH, so that the
// stack is too.  What jinja2 knows and this engine does not (inheritance, includes, recursive
// loops) is refused by name.
//
// Needs:       the tokens of template_lex.c.
// Guarantees:  a tree in which every node's operands are there; names are not resolved yet.
#include "text/template_impl.h"

#include <stdio.h>

// ---- errors and memory ----

NORETURN void tpl_fail_as(Tpl *x, tenon_status code, TemplateEnd end, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  x->message = str_vprintf(x->arena, fmt, ap);
  va_end(ap);
  x->status = code;
  x->end = end;
  trap_raise(code, "template");
}

NORETURN void tpl_fail(Tpl *x, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = str_vprintf(x->arena, fmt, ap);
  va_end(ap);
  tpl_fail_as(x, TENON_EINVAL, TEMPLATE_BROKEN, "%s", text);
}

NORETURN void tpl_unsupported(Tpl *x, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = str_vprintf(x->arena, fmt, ap);
  va_end(ap);
  tpl_fail_as(x, TENON_EUNSUPPORTED, TEMPLATE_BROKEN, "%s is not supported in chat templates",
              text);
}

NORETURN void tpl_limit(Tpl *x, const char *what) {
  tpl_fail_as(x, TENON_ENOMEM, TEMPLATE_LIMIT, "the template needs more %s than the limit allows",
              what);
}

void *tpl_alloc(Tpl *x, int64_t bytes) {
  if (bytes < 0 || bytes > x->memory - 16) tpl_limit(x, "memory");
  x->memory -= bytes + 16;
  return arena_alloc(x->arena, bytes);
}

void *tpl_alloc_array(Tpl *x, int64_t n, int64_t bytes) {
  int64_t all;
  if (n < 0 || !ck_mul(n, bytes, &all)) tpl_limit(x, "memory");
  return tpl_alloc(x, all);
}

// ---- tokens ----

const Token *tpl_look(const TplParser *p) { return &p->t.v[MIN(p->at + 1, p->t.n - 1)]; }

static const Token *next(TplParser *p) {
  const Token *t = tpl_token(p);
  if (p->at + 1 < p->t.n) p->at++;
  p->x->line = tpl_token(p)->line;
  return t;
}

bool tpl_is_op(const TplParser *p, const char *op) {
  const Token *t = tpl_token(p);
  return t->kind == T_OP && !strcmp(t->op, op);
}

bool tpl_is_name(const TplParser *p, const char *name) {
  const Token *t = tpl_token(p);
  return t->kind == T_NAME && str_is(t->text, name);
}

bool tpl_skip_op(TplParser *p, const char *op) {
  if (!tpl_is_op(p, op)) return false;
  next(p);
  return true;
}

bool tpl_skip_name(TplParser *p, const char *name) {
  if (!tpl_is_name(p, name)) return false;
  next(p);
  return true;
}

NORETURN void tpl_unexpected(TplParser *p, const char *wanted) {
  const Token *t = tpl_token(p);
  p->x->line = t->line;
  switch ((TokenKind)t->kind) {
  case T_EOF: tpl_fail(p->x, "unexpected end of the template, expected %s", wanted);
  case T_NAME:
  case T_INT:
  case T_FLOAT:
  case T_OP: tpl_fail(p->x, "expected %s, got '%.*s'", wanted, STR_ARG(t->text));
  case T_STRING: tpl_fail(p->x, "expected %s, got a string", wanted);
  default: tpl_fail(p->x, "expected %s, got the end of the tag", wanted);
  }
}

void tpl_expect_op(TplParser *p, const char *op) {
  char wanted[16];
  snprintf(wanted, sizeof wanted, "'%s'", op);
  if (!tpl_skip_op(p, op)) tpl_unexpected(p, wanted);
}

Str tpl_expect_name(TplParser *p) {
  if (tpl_token(p)->kind != T_NAME) tpl_unexpected(p, "a name");
  return next(p)->text;
}

static void expect_kind(TplParser *p, TokenKind kind, const char *wanted) {
  if (tpl_token(p)->kind != kind) tpl_unexpected(p, wanted);
  next(p);
}

// ---- nodes ----

TplNode *tpl_node(TplParser *p, NodeKind kind, int line) {
  TplNode *n = tpl_new(p->x, TplNode);
  n->kind = (uint8_t)kind;
  n->line = line;
  n->height = 1;
  return n;
}

void tpl_height(TplParser *p, TplNode *n, const TplNode *child) {
  if (!child) return;
  n->height = MAX(n->height, child->height + 1);
  if (n->height > LIMIT_TEMPLATE_DEPTH) tpl_limit(p->x, "nesting");
}

void tpl_list_add(TplParser *p, NodeList *l, TplNode *n) {
  if (l->n == l->cap) {
    int64_t cap = MAX(4, l->cap * 2);
    TplNode **v = tpl_array(p->x, TplNode *, cap);
    if (l->n) memcpy(v, l->v, (size_t)l->n * sizeof(TplNode *));
    l->v = v;
    l->cap = cap;
  }
  l->v[l->n++] = n;
}

// ---- statements ----

static void subparse(TplParser *p, NodeList *out, const char *const *ends);

static bool is_one_of(const TplParser *p, const char *const *names) {
  for (; *names; names++)
    if (tpl_is_name(p, *names)) return true;
  return false;
}

// The body behind a tag, up to one of the end tags, whose name stays the current token.
static void statements(TplParser *p, NodeList *out, const char *const *ends) {
  tpl_skip_op(p, ":");
  expect_kind(p, T_BLOCK_END, "the end of the tag");
  subparse(p, out, ends);
}

static void statements_to(TplParser *p, NodeList *out, const char *end) {
  const char *const ends[] = {end, NULL};
  statements(p, out, ends);
  next(p);
}

static TplNode *parse_set(TplParser *p, int line) {
  TplNode *target = tpl_parse_target(p, (TupleRule){.simple = true, .namespaces = true});
  if (tpl_skip_op(p, "=")) {
    TplNode *n = tpl_node(p, N_SET, line);
    n->a = target;
    n->b = tpl_parse_tuple(p, (TupleRule){0});
    return n;
  }
  TplNode *n = tpl_node(p, N_SETBLOCK, line);
  n->a = target;
  n->b = tpl_parse_filter(p, NULL, false);
  statements_to(p, &n->v, "endset");
  return n;
}

static TplNode *parse_for(TplParser *p, int line) {
  static const char *const ends[] = {"endfor", "else", NULL};
  TplNode *n = tpl_node(p, N_FOR, line);
  n->a = tpl_parse_target(p, (TupleRule){.simple = true, .end = "in"});
  if (!tpl_skip_name(p, "in")) tpl_unexpected(p, "'in'");
  n->b = tpl_parse_tuple(p, (TupleRule){.no_cond = true, .end = "recursive"});
  if (tpl_skip_name(p, "if")) n->c = tpl_parse_expression(p, true);
  if (tpl_is_name(p, "recursive")) tpl_unsupported(p->x, "a recursive loop");
  p->loops++;
  statements(p, &n->v, ends);
  p->loops--;
  if (tpl_skip_name(p, "else"))
    statements_to(p, &n->w, "endfor");
  else
    next(p);
  return n;
}

static TplNode *parse_if(TplParser *p, int line) {
  static const char *const ends[] = {"elif", "else", "endif", NULL};
  TplNode *first = tpl_node(p, N_IF, line), *n = first;
  for (;;) {
    n->a = tpl_parse_tuple(p, (TupleRule){.no_cond = true});
    statements(p, &n->v, ends);
    if (tpl_skip_name(p, "elif")) {
      n = tpl_node(p, N_IF, tpl_token(p)->line);
      tpl_list_add(p, &first->u, n);
      continue;
    }
    if (tpl_skip_name(p, "else"))
      statements_to(p, &first->w, "endif");
    else
      next(p);
    return first;
  }
}

static TplNode *parse_with(TplParser *p, int line) {
  TplNode *n = tpl_node(p, N_WITH, line);
  while (tpl_token(p)->kind != T_BLOCK_END) {
    if (n->w.n) tpl_expect_op(p, ",");
    TplNode *target = tpl_parse_target(p, (TupleRule){.simple = true});
    if (target->kind == N_TUPLE)
      for (int64_t i = 0; i < target->v.n; i++) target->v.v[i]->ctx = CTX_PARAM;
    target->ctx = CTX_PARAM;
    tpl_list_add(p, &n->w, target);
    tpl_expect_op(p, "=");
    tpl_list_add(p, &n->u, tpl_parse_expression(p, true));
  }
  statements_to(p, &n->v, "endwith");
  return n;
}

static void signature(TplParser *p, TplNode *n) {
  tpl_expect_op(p, "(");
  while (!tpl_is_op(p, ")")) {
    if (n->w.n) tpl_expect_op(p, ",");
    TplNode *arg = tpl_parse_target_name(p);
    arg->ctx = CTX_PARAM;
    for (int64_t i = 0; i < n->w.n; i++)
      if (str_eq(n->w.v[i]->name, arg->name))
        tpl_fail(p->x, "the argument '%.*s' is there twice", STR_ARG(arg->name));
    if (tpl_skip_op(p, "="))
      tpl_list_add(p, &n->u, tpl_parse_expression(p, true));
    else if (n->u.n)
      tpl_fail(p->x, "an argument without default follows one with a default");
    tpl_list_add(p, &n->w, arg);
    if (n->w.n > LIMIT_TEMPLATE_DEPTH) tpl_limit(p->x, "arguments");
  }
  tpl_expect_op(p, ")");
}

// A body that is a function of its own: no loop around it can be left from inside.
static void function_body(TplParser *p, TplNode *n, const char *end) {
  int loops = p->loops;
  p->loops = 0;
  statements_to(p, &n->v, end);
  p->loops = loops;
}

static TplNode *parse_macro(TplParser *p, int line) {
  TplNode *n = tpl_node(p, N_MACRO, line);
  n->name = tpl_parse_target_name(p)->name;
  signature(p, n);
  function_body(p, n, "endmacro");
  return n;
}

static TplNode *parse_call(TplParser *p, int line) {
  TplNode *n = tpl_node(p, N_CALLBLOCK, line);
  if (tpl_is_op(p, "(")) signature(p, n);
  n->a = tpl_parse_expression(p, true);
  if (n->a->kind != N_CALL) tpl_fail(p->x, "a call block needs a call");
  function_body(p, n, "endcall");
  return n;
}

// What transformers marks as the assistant's part: a call block whose caller prints its body.
static TplNode *parse_generation(TplParser *p, int line) {
  TplNode *n = tpl_node(p, N_CALLBLOCK, line);
  function_body(p, n, "endgeneration");
  return n;
}

static TplNode *parse_filter_block(TplParser *p, int line) {
  TplNode *n = tpl_node(p, N_FILTERBLOCK, line);
  n->a = tpl_parse_filter(p, NULL, true);
  statements_to(p, &n->v, "endfilter");
  return n;
}

static TplNode *parse_print(TplParser *p, int line) {
  TplNode *n = tpl_node(p, N_OUTPUT, line);
  while (tpl_token(p)->kind != T_BLOCK_END) {
    if (n->v.n) tpl_expect_op(p, ",");
    tpl_list_add(p, &n->v, tpl_parse_expression(p, true));
  }
  return n;
}

static TplNode *parse_leave(TplParser *p, int line, NodeKind kind) {
  if (!p->loops) tpl_fail(p->x, "break or continue outside of a loop");
  return tpl_node(p, kind, line);
}

static TplNode *parse_statement(TplParser *p) {
  static const char *const refused[] = {"block", "extends",    "include", "import",
                                        "from",  "autoescape", NULL};
  if (tpl_token(p)->kind != T_NAME) tpl_unexpected(p, "the name of a tag");
  const Token *t = tpl_token(p);
  for (int i = 0; refused[i]; i++)
    if (str_is(t->text, refused[i])) tpl_unsupported(p->x, "the tag '%s'", refused[i]);
  next(p);
  if (str_is(t->text, "for")) return parse_for(p, t->line);
  if (str_is(t->text, "if")) return parse_if(p, t->line);
  if (str_is(t->text, "set")) return parse_set(p, t->line);
  if (str_is(t->text, "macro")) return parse_macro(p, t->line);
  if (str_is(t->text, "call")) return parse_call(p, t->line);
  if (str_is(t->text, "filter")) return parse_filter_block(p, t->line);
  if (str_is(t->text, "with")) return parse_with(p, t->line);
  if (str_is(t->text, "print")) return parse_print(p, t->line);
  if (str_is(t->text, "generation")) return parse_generation(p, t->line);
  if (str_is(t->text, "break")) return parse_leave(p, t->line, N_BREAK);
  if (str_is(t->text, "continue")) return parse_leave(p, t->line, N_CONTINUE);
  p->x->line = t->line;
  tpl_fail(p->x, "unknown tag '%.*s'", STR_ARG(t->text));
}

static TplNode *parse_data(TplParser *p, TplNode *output) {
  const Token *t = tpl_token(p);
  if (!output) output = tpl_node(p, N_OUTPUT, t->line);
  if (t->kind == T_DATA) {
    TplNode *n = tpl_node(p, N_CONST, t->line);
    n->value = v_str(p->x, t->text);
    (void)text_chars(p->x, n->value.s);
    tpl_list_add(p, &output->v, n);
    next(p);
    return output;
  }
  next(p);
  tpl_list_add(p, &output->v, tpl_parse_tuple(p, (TupleRule){0}));
  expect_kind(p, T_VAR_END, "'}}'");
  return output;
}

static void subparse(TplParser *p, NodeList *out, const char *const *ends) {
  if (++p->nesting > LIMIT_TEMPLATE_DEPTH) tpl_limit(p->x, "nesting");
  TplNode *output = NULL;
  for (;;) {
    const Token *t = tpl_token(p);
    if (t->kind == T_EOF) {
      if (ends) tpl_unexpected(p, ends[0]);
      break;
    }
    if (t->kind == T_DATA || t->kind == T_VAR_BEGIN) {
      bool is_new = !output;
      output = parse_data(p, output);
      if (is_new) tpl_list_add(p, out, output);
      continue;
    }
    output = NULL;
    expect_kind(p, T_BLOCK_BEGIN, "a tag");
    if (ends && is_one_of(p, ends)) break;
    tpl_list_add(p, out, parse_statement(p));
    expect_kind(p, T_BLOCK_END, "the end of the tag");
  }
  p->nesting--;
}

// ---- the entry ----

static void parse(Tpl *x, Str source, ChatTemplate *t) {
  TplParser p = {.x = x};
  if (source.n > (int64_t)LIMIT_TEMPLATE_KIB << 10) tpl_limit(x, "text");
  tpl_lex(x, source, &p.t);
  subparse(&p, &t->body, NULL);
  tpl_resolve(x, t);
}

tenon_status template_parse(Arena *a, Str source, const char *name, Diag *d, ChatTemplate **out) {
  Trap trap;
  Diag *inner = arena_new(a, Diag);
  Tpl *x = arena_new(a, Tpl);
  ChatTemplate *t = arena_new(a, ChatTemplate);
  *out = NULL;
  diag_init(inner);
  *x = (Tpl){.arena = a,
             .name = name,
             .steps = INT64_MAX,
             .memory = (int64_t)LIMIT_TEMPLATE_MIB << 20,
             .line = 1};
  t->name = name ? str_copy(a, str_of(name)) : NULL;
  trap_enter(&trap, inner);
  if (setjmp(trap.env) == 0) parse(x, source, t);
  trap_leave(&trap);
  if (!trap.status) {
    *out = t;
    return TENON_OK;
  }
  if (!x->message) return diag_again(d, trap.status, inner->text);
  tenon_status code = x->status == TENON_EINVAL ? TENON_EFORMAT : x->status;
  return fail(d, code, (Where){.file = name, .line = x->line}, "%s", x->message);
}
