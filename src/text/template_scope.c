// template_scope.c -- which variable a name of a chat template means.
//
// jinja2 compiles a template to Python functions, and what a name means follows from that: each
// scope has its own variables, named by level and name, which take a value when the scope is
// entered: a parameter's, that of the same name outside, what the context has, or none.  This file
// computes the same tables (jinja2's idtracking) and gives every variable a slot of its function.
//
// A name that an `if` sets is looked up outside first, since the branch may not be taken.
//
// Needs:       a tree of template_parse.c.
// Guarantees:  every name has a slot; every filter and test that must exist does.  Time is linear
//              in the size of the tree times its depth.
#include "text/template_impl.h"

typedef struct Def {  // a Python function
  struct Def *outer;
  int nslots;
  StrMap ident;  // "level name" -> Ident
} Def;
typedef struct Ident {
  Def *def;
  int slot;
} Ident;
typedef struct Ref {
  Ident *ident;
  bool stored, has_load;
  Load load;
  const Ident *alias;
} Ref;
typedef struct Syms {
  struct Syms *parent;
  int level;
  Def *def;
  StrMap refs;
  VEC(Ref *) order;  // with a load, as they came
  int branch;        // `if`s around what is visited
} Syms;
typedef struct Frame {
  Syms *syms;
  bool soft, top;
} Frame;

static Def *def_new(Tpl *x, Def *outer) {
  Def *d = tpl_new(x, Def);
  d->outer = outer;
  strmap_init(&d->ident, x->arena);
  return d;
}

static Syms *syms_new(Tpl *x, Syms *parent, Def *def) {
  Syms *s = tpl_new(x, Syms);
  s->parent = parent;
  s->level = parent ? parent->level + 1 : 0;
  s->def = def;
  strmap_init(&s->refs, x->arena);
  return s;
}

static Ref *own_ref(const Syms *s, Str name) { return strmap_get(&s->refs, name); }

static Ref *find_ref(const Syms *s, Str name) {
  for (; s; s = s->parent) {
    Ref *r = own_ref(s, name);
    if (r) return r;
  }
  return NULL;
}

static Ident *ident_of(Tpl *x, Syms *s, Str name) {
  Str key = str_of(str_printf(x->arena, "%d %.*s", s->level, (int)name.n, name.p));
  Ident *id = strmap_get(&s->def->ident, key);
  if (id) return id;
  id = tpl_new(x, Ident);
  *id = (Ident){s->def, s->def->nslots++};
  strmap_put(&s->def->ident, key, id);
  return id;
}

static Ref *define(Tpl *x, Syms *s, Str name, LoadKind kind, const Ident *alias) {
  Ref *r = own_ref(s, name);
  if (!r) {
    r = tpl_new(x, Ref);
    r->ident = ident_of(x, s, name);
    strmap_put(&s->refs, name, r);
    vec_push(x->arena, &s->order, r);
  }
  r->load = (Load){.kind = kind, .to = r->ident->slot, .name = name};
  r->alias = alias;
  return r;
}

static void sym_param(Tpl *x, Syms *s, Str name) {
  define(x, s, name, LOAD_PARAM, NULL)->stored = true;
}

static void sym_load(Tpl *x, Syms *s, Str name) {
  if (!find_ref(s, name)) define(x, s, name, LOAD_RESOLVE, NULL);
}

static void sym_store(Tpl *x, Syms *s, Str name) {
  Ref *r = own_ref(s, name), *outer = s->parent ? find_ref(s->parent, name) : NULL;
  if (r && (r->stored || !s->branch)) {
    r->stored = true;
    return;
  }
  if (outer)
    r = define(x, s, name, LOAD_ALIAS, outer->ident);
  else
    r = define(x, s, name, s->branch ? LOAD_RESOLVE : LOAD_UNDEF, NULL);
  r->stored = true;
}

// ---- which names a scope has: what jinja2's FrameSymbolVisitor visits ----

static void visit(Tpl *x, Syms *s, const TplNode *n, bool as_param);

static void visit_all(Tpl *x, Syms *s, const NodeList *l) {
  for (int64_t i = 0; i < l->n; i++) visit(x, s, l->v[i], false);
}

static void visit_children(Tpl *x, Syms *s, const TplNode *n, bool as_param) {
  if (n->kind == N_COND) {
    visit(x, s, n->a, false);
    visit(x, s, n->b, false);
    visit(x, s, n->c, false);
    return;
  }
  bool args = n->kind == N_CALL || n->kind == N_FILTER || n->kind == N_TEST;
  visit(x, s, n->a, false);
  if (!args) visit(x, s, n->b, false);
  if (!args) visit(x, s, n->c, false);
  for (int64_t i = 0; i < n->v.n; i++) visit(x, s, n->v.v[i], as_param);
  visit_all(x, s, &n->w);
  if (args) visit(x, s, n->b, false);
  if (args) visit(x, s, n->c, false);
}

static void visit_if(Tpl *x, Syms *s, const TplNode *n) {
  visit(x, s, n->a, false);
  s->branch++;
  visit_all(x, s, &n->v);
  visit_all(x, s, &n->u);
  visit_all(x, s, &n->w);
  s->branch--;
}

static void visit(Tpl *x, Syms *s, const TplNode *n, bool as_param) {
  if (!n) return;
  switch ((NodeKind)n->kind) {
  case N_NAME:
    if (as_param || n->ctx == CTX_PARAM)
      sym_param(x, s, n->name);
    else if (n->ctx == CTX_STORE)
      sym_store(x, s, n->name);
    else
      sym_load(x, s, n->name);
    return;
  case N_NSREF: sym_load(x, s, n->name); return;
  case N_IF: visit_if(x, s, n); return;
  case N_MACRO: sym_store(x, s, n->name); return;
  case N_SET:
    visit(x, s, n->b, false);
    visit(x, s, n->a, false);
    return;
  case N_FOR: visit(x, s, n->b, false); return;
  case N_SETBLOCK:
  case N_CALLBLOCK:
  case N_FILTERBLOCK: visit(x, s, n->a, false); return;
  case N_WITH: visit_all(x, s, &n->u); return;
  default: visit_children(x, s, n, as_param);
  }
}

// ---- names used without being set: jinja2's UndeclaredNameVisitor ----

typedef struct Wanted {
  const char *name[3];
  bool live[3], found[3];
} Wanted;

static void look(const TplNode *n, Wanted *w);
static void look_all(const NodeList *l, Wanted *w) {
  for (int64_t i = 0; i < l->n; i++) look(l->v[i], w);
}

static void look_name(const TplNode *n, Wanted *w) {
  for (int i = 0; i < 3; i++) {
    if (!w->name[i] || !str_is(n->name, w->name[i])) continue;
    if (n->ctx != CTX_LOAD)
      w->live[i] = false;
    else if (w->live[i])
      w->found[i] = true;
  }
}

// In the order of the node's fields in jinja2.
static void look(const TplNode *n, Wanted *w) {
  if (!n) return;
  switch ((NodeKind)n->kind) {
  case N_NAME: look_name(n, w); return;
  case N_IF:
    look(n->a, w);
    look_all(&n->v, w);
    look_all(&n->u, w);
    look_all(&n->w, w);
    return;
  case N_FOR:
    look(n->a, w);
    look(n->b, w);
    look_all(&n->v, w);
    look_all(&n->w, w);
    look(n->c, w);
    return;
  case N_MACRO:
  case N_CALLBLOCK:
    look(n->a, w);
    look_all(&n->w, w);
    look_all(&n->u, w);
    look_all(&n->v, w);
    return;
  case N_FILTERBLOCK:
    look_all(&n->v, w);
    look(n->a, w);
    return;
  case N_WITH:
    look_all(&n->w, w);
    look_all(&n->u, w);
    look_all(&n->v, w);
    return;
  default: break;
  }
  look(n->a, w);
  look(n->b, w);
  look(n->c, w);
  look_all(&n->v, w);
  look_all(&n->w, w);
}

static bool stores_loop(const TplNode *n);
static bool any_stores_loop(const NodeList *l) {
  for (int64_t i = 0; i < l->n; i++)
    if (stores_loop(l->v[i])) return true;
  return false;
}
static bool stores_loop(const TplNode *n) {
  if (!n) return false;
  if (n->kind == N_NAME) return n->ctx == CTX_STORE && str_is(n->name, "loop");
  return stores_loop(n->a) || stores_loop(n->b) || stores_loop(n->c) || any_stores_loop(&n->v) ||
         any_stores_loop(&n->w) || any_stores_loop(&n->u);
}

// ---- slots ----

static void scope_out(Tpl *x, const Syms *s, Scope *out) {
  out->load = tpl_array(x, Load, s->order.n);
  out->n = s->order.n;
  for (int64_t i = 0; i < s->order.n; i++) {
    Load l = s->order.v[i]->load;
    const Ident *from = s->order.v[i]->alias;
    if (l.kind == LOAD_ALIAS) {
      l.from = from->slot;
      for (const Def *d = s->def; d != from->def; d = d->outer) l.up++;
    }
    out->load[i] = l;
  }
}

static void place(Tpl *x, const Frame *f, TplNode *n, Str name) {
  const Ref *r = find_ref(f->syms, name);
  x->line = n->line;
  if (!r) tpl_fail(x, "the name '%.*s' is not known in this place", STR_ARG(name));
  n->slot = r->ident->slot;
  for (const Def *d = f->syms->def; d != r->ident->def; d = d->outer) n->up++;
}

static void gen(Tpl *x, Frame *f, TplNode *n);

static void gen_all(Tpl *x, Frame *f, const NodeList *l) {
  for (int64_t i = 0; i < l->n; i++) gen(x, f, l->v[i]);
}

static void gen_callable(Tpl *x, Frame *f, TplNode *n) {
  bool filter = n->kind == N_FILTER;
  x->line = n->line;
  n->fn = filter ? filter_find(n->name) : test_find(n->name);
  if (n->fn && !n->fn->params)
    tpl_unsupported(x, "the %s '%.*s'", filter ? "filter" : "test", STR_ARG(n->name));
  // In a branch jinja2 reports it only when it gets there.
  n->flag = !n->fn;
  if (n->flag && !f->soft)
    tpl_fail(x, "no %s named '%.*s'", filter ? "filter" : "test", STR_ARG(n->name));
}

static Frame inner(Tpl *x, const Frame *f, Def *def) {
  return (Frame){.syms = syms_new(x, f->syms, def ? def : f->syms->def)};
}

static void gen_default(const TplNode *n, Tpl *x) {
  int64_t required = n->w.n - n->u.n;
  for (int64_t i = 0; i < n->w.n; i++)
    if (n->caller && str_is(n->w.v[i]->name, "caller") && i < required)
      tpl_fail(x, "the argument 'caller' must be omitted or have a default");
}

static bool has_param(const TplNode *n, const char *name) {
  for (int64_t i = 0; i < n->w.n; i++)
    if (str_is(n->w.v[i]->name, name)) return true;
  return false;
}

static int special(Tpl *x, Syms *s, const char *name, bool used) {
  if (!used) return -1;
  sym_param(x, s, str_of(name));
  return own_ref(s, str_of(name))->ident->slot;
}

// A macro or the body of a call block: a function of its own.
static void gen_macro(Tpl *x, Frame *f, TplNode *n) {
  Def *def = def_new(x, f->syms->def);
  Frame in = inner(x, f, def);
  Wanted w = {.name = {"caller", "kwargs", "varargs"}, .live = {true, true, true}};
  visit_all(x, in.syms, &n->w);
  visit_all(x, in.syms, &n->u);
  visit_all(x, in.syms, &n->v);
  look_all(&n->v, &w);
  n->caller = w.found[0];
  n->kwargs = w.found[1] && !has_param(n, "kwargs");
  n->varargs = w.found[2] && !has_param(n, "varargs");
  x->line = n->line;
  gen_default(n, x);
  n->caller_slot = special(x, in.syms, "caller", n->caller && !has_param(n, "caller"));
  n->kwargs_slot = special(x, in.syms, "kwargs", n->kwargs);
  n->varargs_slot = special(x, in.syms, "varargs", n->varargs);
  scope_out(x, in.syms, &n->scope);
  gen_all(x, &in, &n->w);
  gen_all(x, &in, &n->u);
  gen_all(x, &in, &n->v);
  n->nslots = def->nslots;
}

static TplNode *copy_target(Tpl *x, const TplNode *n) {
  TplNode *c = tpl_new(x, TplNode);
  *c = *n;
  if (n->v.n) {
    c->v.v = tpl_array(x, TplNode *, n->v.n);
    c->v.cap = n->v.n;
    for (int64_t i = 0; i < n->v.n; i++) c->v.v[i] = copy_target(x, n->v.v[i]);
  }
  return c;
}

static void gen_for(Tpl *x, Frame *f, TplNode *n) {
  Frame body = inner(x, f, NULL), other = inner(x, f, NULL);
  Wanted w = {.name = {"loop"}, .live = {true}};
  x->line = n->line;
  if (stores_loop(n)) tpl_fail(x, "nothing can be assigned to the variable 'loop' of a loop");
  look_all(&n->v, &w);
  n->flag = w.found[0];
  n->slot = special(x, body.syms, "loop", n->flag);
  visit(x, body.syms, n->a, true);
  visit_all(x, body.syms, &n->v);
  visit_all(x, other.syms, &n->w);
  if (n->c) {
    Def *def = def_new(x, f->syms->def);
    Frame test = inner(x, f, def);
    n->d = copy_target(x, n->a);
    visit(x, test.syms, n->d, true);
    visit(x, test.syms, n->c, false);
    scope_out(x, test.syms, &n->filter);
    gen(x, &test, n->d);
    gen(x, &test, n->c);
    n->nfilter = def->nslots;
  }
  gen(x, f, n->b);
  scope_out(x, body.syms, &n->scope);
  gen(x, &body, n->a);
  gen_all(x, &body, &n->v);
  scope_out(x, other.syms, &n->other);
  gen_all(x, &other, &n->w);
}

static void gen_with(Tpl *x, Frame *f, TplNode *n) {
  Frame in = inner(x, f, NULL);
  visit_all(x, in.syms, &n->w);
  visit_all(x, in.syms, &n->v);
  scope_out(x, in.syms, &n->scope);
  gen_all(x, &in, &n->w);
  gen_all(x, f, &n->u);
  gen_all(x, &in, &n->v);
}

// A set block or a filter block: its body, then its filters in the same scope.
static void gen_block(Tpl *x, Frame *f, TplNode *n) {
  Frame in = inner(x, f, NULL);
  bool set = n->kind == N_SETBLOCK;
  visit_all(x, in.syms, &n->v);
  if (!set) visit(x, in.syms, n->a, false);
  scope_out(x, in.syms, &n->scope);
  gen_all(x, &in, &n->v);
  gen(x, &in, set ? n->b : n->a);
  if (set) gen(x, f, n->a);
}

static void gen_if(Tpl *x, Frame *f, TplNode *n) {
  Frame soft = *f;
  soft.soft = true;
  gen(x, &soft, n->a);
  gen_all(x, &soft, &n->v);
  gen_all(x, &soft, &n->u);
  gen_all(x, &soft, &n->w);
}

static void gen_children(Tpl *x, Frame *f, TplNode *n) {
  gen(x, f, n->a);
  gen(x, f, n->b);
  gen(x, f, n->c);
  gen_all(x, f, &n->v);
  gen_all(x, f, &n->w);
}

static void gen(Tpl *x, Frame *f, TplNode *n) {
  if (!n) return;
  Frame soft = *f;
  switch ((NodeKind)n->kind) {
  case N_NAME:
    place(x, f, n, n->name);
    n->flag = n->ctx == CTX_STORE && f->top;
    return;
  case N_NSREF: place(x, f, n, n->name); return;
  case N_COND:
    soft.soft = true;
    gen_children(x, &soft, n);
    return;
  case N_FILTER:
  case N_TEST:
    gen_callable(x, f, n);
    gen_children(x, f, n);
    return;
  case N_IF: gen_if(x, f, n); return;
  case N_FOR: gen_for(x, f, n); return;
  case N_MACRO:
    gen_macro(x, f, n);
    place(x, f, n, n->name);
    n->flag = f->top;
    return;
  case N_CALLBLOCK:
    gen_macro(x, f, n);
    gen(x, f, n->a);
    return;
  case N_WITH: gen_with(x, f, n); return;
  case N_SETBLOCK:
  case N_FILTERBLOCK: gen_block(x, f, n); return;
  default: gen_children(x, f, n);
  }
}

void tpl_resolve(Tpl *x, ChatTemplate *t) {
  Def *def = def_new(x, NULL);
  Frame f = {.syms = syms_new(x, NULL, def), .top = true};
  visit_all(x, f.syms, &t->body);
  scope_out(x, f.syms, &t->scope);
  gen_all(x, &f, &t->body);
  t->nslots = def->nslots;
}
