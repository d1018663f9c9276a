// export_dim.c -- sizes of torch.export programs: symbols and the functions that SymPy writes
// around them.
//
// Newer files have `Mul(Integer(2), Symbol('s0', positive=True))`, older ones `2*s0`, which is our
// own spelling, too.
#include "frontends/pytorch/export.h"

enum { DEEPEST = 64 };

typedef struct Text {
  ExportProgram *p;
  const char *at, *end;
  int depth;
} Text;

static void spaces(Text *t) {
  while (t->at < t->end && *t->at == ' ') t->at++;
}
static bool take(Text *t, char c) {
  spaces(t);
  if (t->at == t->end || *t->at != c) return false;
  t->at++;
  return true;
}
static Str word(Text *t) {
  spaces(t);
  const char *from = t->at;
  while (t->at < t->end && *t->at != '(' && *t->at != ')' && *t->at != ',' && *t->at != ' ')
    t->at++;
  return (Str){from, t->at - from};
}

// A symbol with the range that the program states.
static Dim symbol(ExportProgram *p, Str name) {
  const Json *range = NULL;
  for (int64_t k = 0; p->ranges && p->ranges->kind == JSON_OBJECT && k < p->ranges->n; k++)
    if (str_eq(p->ranges->key[k], name)) range = &p->ranges->item[k];
  const Json *lo = json_get(range, "min_val"), *hi = json_get(range, "max_val");
  return ie_sym(&p->g->dims, name, lo && lo->kind == JSON_INT ? MAX(lo->i, 0) : 0,
                hi && hi->kind == JSON_INT && hi->i >= 0 ? hi->i : INT64_MAX);
}

static Dim joined(IntPool *pool, Str fn, Dim a, Dim b) {
  if (str_is(fn, "Mul")) return ie_mul(pool, a, b);
  if (str_is(fn, "Add")) return ie_add(pool, a, b);
  if (str_is(fn, "Max")) return ie_max(pool, a, b);
  if (str_is(fn, "Min")) return ie_min(pool, a, b);
  if (str_is(fn, "FloorDiv") || str_is(fn, "CleanDiv")) return ie_div(pool, a, b);
  if (str_is(fn, "CeilDiv")) return ie_ceildiv(pool, a, b);
  if (str_is(fn, "Mod") || str_is(fn, "PythonMod")) return ie_mod(pool, a, b);
  return NULL;
}

static Dim function(Text *t) {
  Str fn = word(t);
  if (t->depth++ > DEEPEST || !take(t, '(')) return NULL;
  IntPool *pool = &t->p->g->dims;
  Dim d = NULL;
  if (str_is(fn, "Symbol") || str_is(fn, "Integer")) {
    Str w = word(t);
    int64_t n;
    bool quoted = w.n > 2 && w.p[0] == '\'' && w.p[w.n - 1] == '\'';
    if (fn.p[0] == 'S' && quoted) d = symbol(t->p, (Str){w.p + 1, w.n - 2});
    if (fn.p[0] == 'I' && str_to_i64(w, &n)) d = ie_const(pool, n);
    while (t->at < t->end && *t->at != ')') t->at++;  // what SymPy assumes of the symbol
  } else {
    d = function(t);
    while (d && take(t, ',')) {
      Dim next = function(t);
      d = next ? joined(pool, fn, d, next) : NULL;
    }
  }
  t->depth--;
  return take(t, ')') ? d : NULL;
}

static bool is_name(Str s) {
  for (int64_t k = 0; k < s.n; k++) {
    char c = s.p[k];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(k && c >= '0' && c <= '9')) return false;
  }
  return s.n > 0;
}

Dim export_dim(ExportProgram *p, Str s) {
  if (is_name(s)) return symbol(p, s);
  Text t = {.p = p, .at = s.p, .end = s.p + s.n};
  Dim d = function(&t);
  if (!d || t.at != t.end) {
    const char *at = s.p;
    d = ie_parse(&p->g->dims, &at, s.p + s.n);
    if (at != s.p + s.n) d = NULL;
  }
  return d && !ie_is_poison(d) ? d : NULL;
}
