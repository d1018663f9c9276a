// script_parse.c -- parser of the Python subset that TorchScript archives hold.
//
// Lines with indentation, one statement each; expressions are names, literals, calls, attributes,
// subscripts, lists, tuples and dictionaries.  Depth and size are bounded.
#include "frontends/pytorch/script.h"

#include <stdlib.h>

enum { DEEPEST = 200 };
static const int64_t MOST_NODES = 4000000;

typedef struct Parser {
  PyModules *m;
  const char *p, *end, *file;
  int line, depth, paren;
  tenon_status status;  // sticky
} Parser;

static void bad(Parser *q, const char *what) {
  if (!q->status)
    q->status = fail(q->m->diag, TENON_EFORMAT,
                     (Where){.file = q->file, .line = q->line, .column = 1}, "%s", what);
}

// Spaces within a line; within brackets line ends, too.
static void space(Parser *q) {
  for (; q->p < q->end; q->p++) {
    if (*q->p == '\n' && q->paren)
      q->line++;
    else if (*q->p == '#')
      while (q->p + 1 < q->end && q->p[1] != '\n') q->p++;
    else if (*q->p != ' ' && *q->p != '\t' && *q->p != '\r')
      break;
  }
}
static bool peek(Parser *q, char c) {
  space(q);
  return q->p < q->end && *q->p == c;
}
static bool take(Parser *q, char c) {
  if (q->status || !peek(q, c)) return false;
  q->p++;
  return true;
}
static void need(Parser *q, char c) {
  char what[] = "expected ' '";
  what[10] = c;
  if (!take(q, c)) bad(q, what);
}
static bool is_word(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static Str word(Parser *q) {
  space(q);
  const char *from = q->p;
  while (q->p < q->end && is_word(*q->p)) q->p++;
  if (from == q->p) bad(q, "expected a name");
  return (Str){from, q->p - from};
}
static bool take_word(Parser *q, const char *w) {
  space(q);
  int64_t n = (int64_t)strlen(w);
  if (q->status || q->end - q->p < n || memcmp(q->p, w, (size_t)n)) return false;
  if (q->end - q->p > n && is_word(q->p[n])) return false;
  q->p += n;
  return true;
}

static PyExpr *expr_new(Parser *q, PyKind kind) {
  PyExpr *e = arena_new(q->m->arena, PyExpr);
  if (q->m->nodes++ > MOST_NODES) bad(q, "the program is too large");
  e->kind = kind;
  e->line = q->line;
  return e;
}

static PyExpr *expression(Parser *q);

static PyExpr *number(Parser *q) {
  const char *from = q->p;
  bool whole = true;
  if (q->p < q->end && *q->p == '-') q->p++;
  while (q->p < q->end &&
         (is_word(*q->p) || *q->p == '.' ||
          ((*q->p == '-' || *q->p == '+') && (q->p[-1] == 'e' || q->p[-1] == 'E')))) {
    if (*q->p == '.' || *q->p == 'e' || *q->p == 'E' || *q->p == 'n') whole = false;
    q->p++;
  }
  Str s = {from, q->p - from};
  PyExpr *e = expr_new(q, whole ? PE_INT : PE_FLOAT);
  char buffer[64];
  if (s.n >= (int64_t)sizeof buffer) bad(q, "a number that is too long");
  if (q->status) return e;
  memcpy(buffer, s.p, (size_t)s.n);
  buffer[s.n] = 0;
  if (whole && !str_to_i64(s, &e->i)) bad(q, "not a number");
  if (!whole) e->f = strtod(buffer, NULL);
  return e;
}

static PyExpr *string(Parser *q) {
  char quote = *q->p++;
  PyExpr *e = expr_new(q, PE_STR);
  StrBuf b;
  strbuf_init(&b, q->m->arena);
  while (q->p < q->end && *q->p != quote && *q->p != '\n') {
    char c = *q->p++;
    if (c == '\\' && q->p < q->end) {
      c = *q->p++;
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
    strbuf_putc(&b, c);
  }
  if (q->p == q->end || *q->p != quote)
    bad(q, "a string without an end");
  else
    q->p++;
  e->s = str_of(strbuf_text(&b));
  return e;
}

// Items up to the closing bracket, commas between; *trailing: there was a comma after the last.
static void items(Parser *q, char close, PyExpr *e, bool *comma) {
  *comma = false;
  q->paren++;
  while (!q->status && !peek(q, close)) {
    PyExpr *one = expression(q);
    if (e->kind == PE_CALL && one->kind == PE_NAME && peek(q, '=')) {
      q->p++;
      vec_push(q->m->arena, &e->kw_name, one->s);
      PyExpr *v = expression(q);
      vec_push(q->m->arena, &e->kw, v);
    } else {
      vec_push(q->m->arena, &e->item, one);
      if (e->kind == PE_DICT) {
        need(q, ':');
        PyExpr *v = expression(q);
        vec_push(q->m->arena, &e->item, v);
      }
    }
    if (!take(q, ',')) break;
    *comma = true;
  }
  q->paren--;
  q->paren++;
  space(q);
  q->paren--;
  need(q, close);
}

static PyExpr *atom(Parser *q) {
  bool comma;
  space(q);
  char c = q->p < q->end ? *q->p : 0;
  if (c == '"' || c == '\'') return string(q);
  if ((c >= '0' && c <= '9') || c == '-' || c == '.') return number(q);
  if (take(q, '(')) {
    PyExpr *e = expr_new(q, PE_TUPLE);
    items(q, ')', e, &comma);
    return e->item.n == 1 && !comma ? e->item.v[0] : e;
  }
  if (take(q, '[')) {
    PyExpr *e = expr_new(q, PE_LIST);
    items(q, ']', e, &comma);
    return e;
  }
  if (take(q, '{')) {
    PyExpr *e = expr_new(q, PE_DICT);
    items(q, '}', e, &comma);
    return e;
  }
  Str w = word(q);
  PyExpr *e = expr_new(q, PE_NAME);
  e->s = w;
  if (str_is(w, "None")) e->kind = PE_NONE;
  if (str_is(w, "True") || str_is(w, "False")) {
    e->kind = PE_BOOL;
    e->i = w.p[0] == 'T';
  }
  return e;
}

static PyExpr *expression(Parser *q) {
  if (q->depth++ > DEEPEST) bad(q, "an expression that is nested too deep");
  PyExpr *e = q->status ? expr_new(q, PE_NONE) : atom(q);
  bool comma;
  while (!q->status) {
    PyExpr *outer = NULL;
    if (take(q, '.')) {
      outer = expr_new(q, PE_ATTR);
      vec_push(q->m->arena, &outer->item, e);
      outer->s = word(q);
    } else if (take(q, '(')) {
      outer = expr_new(q, PE_CALL);
      vec_push(q->m->arena, &outer->item, e);
      items(q, ')', outer, &comma);
    } else if (take(q, '[')) {
      outer = expr_new(q, PE_INDEX);
      vec_push(q->m->arena, &outer->item, e);
      PyExpr *in = expr_new(q, PE_TUPLE);
      items(q, ']', in, &comma);
      vec_push(q->m->arena, &outer->item, in->item.n == 1 ? in->item.v[0] : in);
    }
    if (!outer) break;
    e = outer;
  }
  q->depth--;
  return e;
}

// a, b, c without brackets is a tuple.
static PyExpr *expression_list(Parser *q) {
  PyExpr *e = expression(q);
  if (q->status || !peek(q, ',')) return e;
  PyExpr *t = expr_new(q, PE_TUPLE);
  vec_push(q->m->arena, &t->item, e);
  while (take(q, ',')) {
    space(q);
    if (q->p == q->end || *q->p == '\n' || *q->p == '=') break;
    e = expression(q);
    vec_push(q->m->arena, &t->item, e);
  }
  return t;
}

// ---- lines ----

// The indentation of the next line that has anything on it; -1 at the end.  Nothing is consumed but
// empty lines.
static int next_indent(Parser *q) {
  while (q->p < q->end) {
    const char *at = q->p;
    while (at < q->end && *at == ' ') at++;
    if (at < q->end && *at != '\n' && *at != '\r' && *at != '#') return (int)(at - q->p);
    while (at < q->end && *at != '\n') at++;
    q->p = at < q->end ? at + 1 : at;
    q->line++;
  }
  return -1;
}

static void end_line(Parser *q) {
  space(q);
  if (q->status || q->p == q->end) return;
  if (*q->p != '\n') {
    bad(q, "more on the line than expected");
    return;
  }
  q->p++;
  q->line++;
}

static PyBlock block(Parser *q, int outer);

static PyStmt *stmt_new(Parser *q, PyStmtKind kind) {
  PyStmt *s = arena_new(q->m->arena, PyStmt);
  s->kind = kind;
  s->line = q->line;
  return s;
}

static void suite(Parser *q, PyBlock *out, int indent) {
  need(q, ':');
  end_line(q);
  *out = block(q, indent);
}

static PyStmt *compound(Parser *q, PyStmtKind kind, int indent) {
  PyStmt *s = stmt_new(q, kind);
  if (kind == PS_FOR) {
    s->target = expression_list(q);
    if (!take_word(q, "in")) bad(q, "expected 'in'");
  }
  s->value = expression_list(q);
  if (kind == PS_WITH && take_word(q, "as")) s->target = expression(q);
  suite(q, &s->body, indent);
  if (kind == PS_IF && !q->status && next_indent(q) == indent) {
    const char *at = q->p;
    q->p += indent;
    if (take_word(q, "else"))
      suite(q, &s->other, indent);
    else
      q->p = at;
  }
  return s;
}

static PyStmt *statement(Parser *q, int indent) {
  if (take_word(q, "if")) return compound(q, PS_IF, indent);
  if (take_word(q, "for")) return compound(q, PS_FOR, indent);
  if (take_word(q, "while")) return compound(q, PS_WHILE, indent);
  if (take_word(q, "with")) return compound(q, PS_WITH, indent);
  PyStmt *s;
  if (take_word(q, "return")) {
    s = stmt_new(q, PS_RETURN);
    space(q);
    if (q->p < q->end && *q->p != '\n') s->value = expression_list(q);
  } else if (take_word(q, "pass")) {
    s = stmt_new(q, PS_PASS);
  } else {
    s = stmt_new(q, PS_EXPR);
    s->value = expression_list(q);
    if (take(q, ':')) expression(q);  // an annotation
    if (take(q, '=')) {
      s->kind = PS_ASSIGN;
      s->target = s->value;
      s->value = expression_list(q);
    }
  }
  end_line(q);
  return s;
}

static PyBlock block(Parser *q, int outer) {
  PyBlock b = {0};
  int indent = next_indent(q);
  if (q->depth++ > DEEPEST) bad(q, "blocks that are nested too deep");
  if (indent <= outer) bad(q, "expected an indented block");
  while (!q->status && next_indent(q) == indent) {
    q->p += indent;
    PyStmt *s = statement(q, indent);
    vec_push(q->m->arena, &b, s);
  }
  if (!q->status && next_indent(q) > indent) bad(q, "unexpected indentation");
  q->depth--;
  return b;
}

// ---- definitions ----

static PyFunction *function(Parser *q, int indent) {
  PyFunction *f = arena_new(q->m->arena, PyFunction);
  f->file = q->file;
  f->line = q->line;
  f->name = word(q);
  need(q, '(');
  q->paren++;
  while (!q->status && !peek(q, ')')) {
    PyParam p = {0};
    take(q, '*');
    p.name = word(q);
    if (take(q, ':')) p.type = expression(q);
    if (take(q, '=')) p.dflt = expression(q);
    vec_push(q->m->arena, &f->params, p);
    if (!take(q, ',')) break;
  }
  space(q);
  q->paren--;
  need(q, ')');
  if (take(q, '-')) {
    need(q, '>');
    f->returns = expression(q);
  }
  suite(q, &f->body, indent);
  vec_push(q->m->arena, &q->m->all, f);
  return f;
}

static void class_line(Parser *q, PyClass *c, int indent) {
  if (take_word(q, "def")) {
    PyFunction *f = function(q, indent);
    if (!q->status) strmap_put(&c->methods, f->name, f);
    return;
  }
  if (take_word(q, "pass")) {
    end_line(q);
    return;
  }
  PyExpr *name = expression(q);
  if (take(q, ':')) expression(q);
  if (take(q, '=')) {
    PyExpr *v = expression_list(q);
    if (!q->status && name->kind == PE_NAME) strmap_put(&c->finals, name->s, v);
  }
  end_line(q);
}

static void class_of(Parser *q, Str module) {
  PyClass *c = arena_new(q->m->arena, PyClass);
  Str name = word(q);
  c->name = str_of(str_printf(q->m->arena, "%.*s.%.*s", STR_ARG(module), STR_ARG(name)));
  c->file = q->file;
  strmap_init(&c->methods, q->m->arena);
  strmap_init(&c->finals, q->m->arena);
  if (take(q, '(')) {
    while (!q->status && !take(q, ')')) {
      expression(q);
      take(q, ',');
    }
  }
  need(q, ':');
  end_line(q);
  int indent = next_indent(q);
  while (!q->status && indent > 0 && next_indent(q) == indent) {
    q->p += indent;
    class_line(q, c, indent);
  }
  strmap_put(&q->m->classes, c->name, c);
}

tenon_status py_parse(PyModules *m, Str text, Str module, const char *file) {
  Parser q = {.m = m, .p = text.p, .end = text.p + text.n, .file = file, .line = 1};
  int indent;
  while (!q.status && (indent = next_indent(&q)) >= 0) {
    if (indent) bad(&q, "unexpected indentation");
    if (take_word(&q, "class")) {
      class_of(&q, module);
    } else if (take_word(&q, "def")) {
      PyFunction *f = function(&q, 0);
      const char *full = str_printf(m->arena, "%.*s.%.*s", STR_ARG(module), STR_ARG(f->name));
      if (!q.status) strmap_put(&m->functions, str_of(full), f);
    } else {
      statement(&q, 0);  // imports of constants and the like define nothing that is looked up
    }
  }
  return q.status;
}
