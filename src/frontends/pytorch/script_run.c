// script_run.c -- run TorchScript over nodes of the graph: statements, expressions, calls
// (script.h).
#include "frontends/pytorch/script.h"

#include <math.h>
#include <stdio.h>

enum { DEEPEST_CALL = 100, MOST_ARGS = 256 };

tenon_status script_fail(Script *s, const char *fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  graph_fail(s->g, TENON_EUNSUPPORTED, s->at, "%s", text);
  return s->g->status;
}

// ---- names ----

const AtenValue *script_lookup(const Script *s, Str name) {
  for (int64_t i = s->frame->v.n; i-- > 0;)
    if (str_eq(s->frame->v.v[i].name, name)) return &s->frame->v.v[i].value;
  return NULL;
}

void script_bind(Script *s, Str name, AtenValue v) {
  for (int64_t i = s->frame->v.n; i-- > 0;)
    if (str_eq(s->frame->v.v[i].name, name)) {
      s->frame->v.v[i].value = v;
      return;
    }
  Binding b = {name, v};
  vec_push(s->arena, &s->frame->v, b);
}

// ---- attributes ----

static Attribute *find_attr(Script *s, const Pickled *object, Str name) {
  uint64_t at, key = hash_bytes(name.p, name.n, (uint64_t)(uintptr_t)object);
  if (!intmap_get(&s->attr_index, key, &at)) return NULL;
  Attribute *a = &s->attrs.v[at - 1];
  return a->object == object && str_eq(a->name, name) ? a : NULL;
}

static Attribute *add_attr(Script *s, Pickled *object, Str name, AtenValue v) {
  Attribute a = {.object = object, .name = name, .value = v};
  vec_push(s->arena, &s->attrs, a);
  intmap_put(&s->attr_index, hash_bytes(name.p, name.n, (uint64_t)(uintptr_t)object),
             (uint64_t)s->attrs.n);
  return &s->attrs.v[s->attrs.n - 1];
}

static tenon_status tensor_value(Script *s, Pickled *p, AtenValue *out) {
  uint64_t at;
  Node *n;
  if (intmap_get(&s->nodes, (uint64_t)(uintptr_t)p, &at)) {
    n = (Node *)(uintptr_t)at;
  } else {
    Weight w;
    const char *name = p->path.n ? p->path.p : "constant";
    TRY(torch_weight(s->in, p, name, s->at, s->g->diag, &w));
    n = aten_weight(&s->aten, &w, str_of(name), s->at).box->node;
    TRY(graph_status(s->g));
    intmap_put(&s->nodes, (uint64_t)(uintptr_t)p, (uint64_t)(uintptr_t)n);
  }
  bool complex = p->dtype == DT_C64 || p->dtype == DT_C128;
  *out = complex ? av_complex(s->arena, n) : av_tensor(s->arena, n);
  return TENON_OK;
}

static tenon_status container_value(Script *s, Pickled *p, AtenValue *out) {
  *out = av_list(s->arena, p->kind == PK_TUPLE ? AV_TUPLE : p->kind == PK_LIST ? AV_LIST : AV_DICT);
  if (s->depth++ > DEEPEST_CALL) return script_fail(s, "attributes are nested too deep");
  for (int64_t i = 0; i < p->items.n; i++) {
    AtenValue v;
    TRY(script_value(s, p->items.v[i], &v));
    av_push(s->arena, out, v);
  }
  s->depth--;
  return TENON_OK;
}

tenon_status script_value(Script *s, Pickled *p, AtenValue *out) {
  *out = (AtenValue){0};
  switch (p->kind) {
  case PK_NONE:
  case PK_GLOBAL: return TENON_OK;
  case PK_BOOL: *out = av_bool(p->i != 0); return TENON_OK;
  case PK_INT: *out = av_int(p->i); return TENON_OK;
  case PK_FLOAT: *out = av_float(p->f); return TENON_OK;
  case PK_STR: *out = av_str(p->s); return TENON_OK;
  case PK_TUPLE:
  case PK_LIST:
  case PK_DICT: return container_value(s, p, out);
  case PK_TENSOR: return tensor_value(s, p, out);
  case PK_OBJECT: *out = (AtenValue){.kind = AV_OBJECT, .object = p}; return TENON_OK;
  case PK_STORAGE: break;
  }
  return script_fail(s, "a storage as a value");
}

tenon_status script_attr(Script *s, Pickled *object, Str name, AtenValue *out) {
  Attribute *a = find_attr(s, object, name);
  if (a) {
    *out = a->value;
    return TENON_OK;
  }
  const Pickled *p = pickle_get(object, str_copy(s->arena, name));
  if (p) {
    TRY(script_value(s, (Pickled *)(uintptr_t)p, out));
    add_attr(s, object, name, *out);
    return TENON_OK;
  }
  const PyClass *c = strmap_get(&s->modules.classes, object->s);
  const PyExpr *final = c ? strmap_get(&c->finals, name) : NULL;
  if (final) return script_eval(s, final, out);
  return script_fail(s, "'%.*s' has no attribute '%.*s'", STR_ARG(object->s), STR_ARG(name));
}

tenon_status script_set_attr(Script *s, Pickled *object, Str name, AtenValue v) {
  Attribute *a = find_attr(s, object, name);
  if (!a) a = add_attr(s, object, name, v);
  a->value = v;
  a->assigned = true;
  return TENON_OK;
}

// ---- statements ----

tenon_status script_assign(Script *s, const PyExpr *target, AtenValue v) {
  if (target->kind == PE_NAME) {
    script_bind(s, target->s, v);
    return TENON_OK;
  }
  if (target->kind == PE_ATTR) {
    AtenValue o;
    TRY(script_eval(s, target->item.v[0], &o));
    if (o.kind != AV_OBJECT) return script_fail(s, "an attribute of what is no object");
    return script_set_attr(s, o.object, target->s, v);
  }
  if (target->kind != PE_TUPLE && target->kind != PE_LIST)
    return script_fail(s, "an assignment to what is no name");
  if (!v.list || v.list->v.n != target->item.n)
    return script_fail(s, "%lld values for %lld names", (long long)(v.list ? v.list->v.n : 1),
                       (long long)target->item.n);
  for (int64_t i = 0; i < target->item.n; i++)
    TRY(script_assign(s, target->item.v[i], v.list->v.v[i]));
  return TENON_OK;
}

static bool is_call_of(const PyExpr *e, const char *name) {
  return e->kind == PE_CALL && e->item.v[0]->kind == PE_NAME && str_is(e->item.v[0]->s, name);
}

static tenon_status run_if(Script *s, const PyStmt *st) {
  AtenValue v, c;
  TRY(script_eval(s, st->value, &v));
  TRY(script_truth(s, &v, &c));
  if (c.node) return script_dynamic_if(s, st, c.node);
  return script_block(s, c.i ? &st->body : &st->other);
}

static tenon_status run_for(Script *s, const PyStmt *st) {
  AtenValue v;
  if (is_call_of(st->value, "range")) {
    if (st->value->item.n != 2) return script_fail(s, "range with more than one number");
    TRY(script_eval(s, st->value->item.v[1], &v));
    if (v.kind != AV_INT) return script_fail(s, "range of what is no integer");
    if (v.node) return script_dynamic_loop(s, st, &v, NULL);
    for (int64_t i = 0; i < v.i && !s->frame->returned; i++) {
      TRY(script_assign(s, st->target, av_int(i)));
      TRY(script_block(s, &st->body));
    }
    return TENON_OK;
  }
  TRY(script_eval(s, st->value, &v));
  if (!v.list) return script_fail(s, "a loop over what is no list");
  bool dict = v.kind == AV_DICT;
  for (int64_t i = 0; i < v.list->v.n && !s->frame->returned; i += dict ? 2 : 1) {
    TRY(script_assign(s, st->target, v.list->v.v[i]));
    TRY(script_block(s, &st->body));
  }
  return TENON_OK;
}

static tenon_status run_while(Script *s, const PyStmt *st) {
  for (;;) {
    AtenValue v, c;
    TRY(script_eval(s, st->value, &v));
    TRY(script_truth(s, &v, &c));
    if (c.node) return script_dynamic_loop(s, st, NULL, &c);
    if (!c.i || s->frame->returned) return TENON_OK;
    TRY(script_block(s, &st->body));
  }
}

static tenon_status run_statement(Script *s, const PyStmt *st) {
  AtenValue v = {0};
  switch (st->kind) {
  case PS_ASSIGN: TRY(script_eval(s, st->value, &v)); return script_assign(s, st->target, v);
  case PS_EXPR: return script_eval(s, st->value, &v);
  case PS_RETURN:
    if (st->value) TRY(script_eval(s, st->value, &v));
    s->frame->result = v;
    s->frame->returned = true;
    return TENON_OK;
  case PS_IF: return run_if(s, st);
  case PS_FOR: return run_for(s, st);
  case PS_WHILE: return run_while(s, st);
  case PS_PASS: return TENON_OK;
  case PS_WITH: return script_block(s, &st->body);  // no_grad and its like
  }
  return TENON_OK;
}

tenon_status script_block(Script *s, const PyBlock *b) {
  for (int64_t i = 0; i < b->n && !s->frame->returned; i++) {
    Where at = {.file = s->frame->fn->file, .line = b->v[i]->line, .column = 1};
    s->at = at;
    if (s->budget-- <= 0) return script_fail(s, "the program does too much while it is read");
    tenon_status status = run_statement(s, b->v[i]);
    if (!status) status = graph_status(s->g);
    if (status && !s->failed.file) s->failed = at;
    TRY(status);
  }
  return TENON_OK;
}

// ---- calls ----

tenon_status script_call(Script *s, const PyFunction *f, const AtenValue *args, int nargs,
                         AtenValue *out) {
  Frame frame = {.fn = f}, *outer = s->frame;
  Where at = s->at;
  if (s->depth++ > DEEPEST_CALL) return script_fail(s, "calls are nested too deep");
  if (nargs > f->params.n) return script_fail(s, "too many arguments for '%.*s'", STR_ARG(f->name));
  s->frame = &frame;
  for (int64_t i = 0; i < f->params.n; i++) {
    AtenValue v = {0};
    if (i < nargs)
      v = args[i];
    else if (f->params.v[i].dflt)
      TRY(script_eval(s, f->params.v[i].dflt, &v));
    else
      return script_fail(s, "'%.*s' needs '%.*s'", STR_ARG(f->name), STR_ARG(f->params.v[i].name));
    script_bind(s, f->params.v[i].name, v);
  }
  tenon_status status = script_block(s, &f->body);
  s->frame = outer;
  s->depth--;
  s->at = at;
  *out = frame.result;
  return status;
}

// The full name of a chain of attributes that begins with a name; false where it begins with
// anything else.
static bool dotted(const PyExpr *e, StrBuf *b) {
  if (e->kind == PE_NAME) {
    strbuf_put(b, e->s);
    return true;
  }
  if (e->kind != PE_ATTR || !dotted(e->item.v[0], b)) return false;
  strbuf_putc(b, '.');
  strbuf_put(b, e->s);
  return true;
}

static tenon_status eval_args(Script *s, const PyExpr *e, AtenValue *args, int *nargs,
                              AtenKeyword *kw, int *nkw) {
  *nargs = *nkw = 0;
  if (e->item.n > MOST_ARGS || e->kw.n > 32) return script_fail(s, "too many arguments");
  for (int64_t i = 1; i < e->item.n; i++) TRY(script_eval(s, e->item.v[i], &args[(*nargs)++]));
  for (int64_t i = 0; i < e->kw.n; i++) {
    kw[i].name = e->kw_name.v[i];
    TRY(script_eval(s, e->kw.v[i], &kw[i].value));
    ++*nkw;
  }
  return TENON_OK;
}

static tenon_status call_method(Script *s, const AtenValue *o, Str name, AtenValue *args, int nargs,
                                AtenValue *out) {
  const Pickled *p = o->object;
  const PyClass *c = strmap_get(&s->modules.classes, p->s);
  const PyFunction *f = c ? strmap_get(&c->methods, name) : NULL;
  if (!f) return script_fail(s, "'%.*s' has no method '%.*s'", STR_ARG(p->s), STR_ARG(name));
  AtenValue *all = arena_array(s->arena, AtenValue, nargs + 1);
  all[0] = *o;
  memcpy(all + 1, args, (size_t)nargs * sizeof *args);
  return script_call(s, f, all, nargs + 1, out);
}

// annotate(T, v), unchecked_cast(T, v): the type is not evaluated.
static tenon_status eval_cast(Script *s, const PyExpr *e, AtenValue *out) {
  if (e->item.n != 3) return script_fail(s, "a cast without a value");
  return script_eval(s, e->item.v[2], out);
}

static tenon_status eval_call(Script *s, const PyExpr *e, AtenValue *out) {
  const PyExpr *fn = e->item.v[0];
  if (is_call_of(e, "annotate") || is_call_of(e, "unchecked_cast")) return eval_cast(s, e, out);
  if (is_call_of(e, "uninitialized")) {
    *out = av_unknown();
    return TENON_OK;
  }
  AtenValue *args = arena_array(s->arena, AtenValue, e->item.n + 1);
  AtenKeyword *kw = arena_array(s->arena, AtenKeyword, e->kw.n + 1);
  int nargs, nkw;
  TRY(eval_args(s, e, args, &nargs, kw, &nkw));
  StrBuf b;
  strbuf_init(&b, s->arena);
  bool chain = dotted(fn, &b);
  Str name = strbuf_str(&b);
  const AtenValue *local = chain && fn->kind == PE_NAME ? script_lookup(s, name) : NULL;
  if (local && local->kind == AV_FUNCTION) return script_call(s, local->object, args, nargs, out);
  if (chain && str_starts(name, "torch."))
    return script_builtin(s, (Str){name.p + 6, name.n - 6}, args, nargs, kw, nkw, out);
  if (chain && str_starts(name, "ops.prim."))
    return script_prim(s, (Str){name.p + 9, name.n - 9}, args, nargs, out);
  if (chain && str_starts(name, "ops.aten."))
    return script_builtin(s, (Str){name.p + 9, name.n - 9}, args, nargs, kw, nkw, out);
  if (chain && str_starts(name, "__torch__.")) {
    const PyFunction *f = strmap_get(&s->modules.functions, name);
    if (f) return script_call(s, f, args, nargs, out);
    if (str_ends(name, ".__new__")) {  // an object of a class without data of its own
      Pickled *p = arena_new(s->arena, Pickled);
      p->kind = PK_OBJECT;
      p->s = (Str){name.p, name.n - 8};
      *out = (AtenValue){.kind = AV_OBJECT, .object = p};
      return TENON_OK;
    }
    const PyClass *c = strmap_get(&s->modules.classes, name);
    if (c && !c->methods.n) {  // a tuple whose items have names
      *out = av_list(s->arena, AV_TUPLE);
      for (int i = 0; i < nargs; i++) av_push(s->arena, out, args[i]);
      return TENON_OK;
    }
    return script_fail(s, "there is no function '%.*s' in the archive", STR_ARG(name));
  }
  if (fn->kind == PE_NAME) return script_prim(s, fn->s, args, nargs, out);
  if (fn->kind != PE_ATTR) return script_fail(s, "a call of what is no function");
  AtenValue o;
  TRY(script_eval(s, fn->item.v[0], &o));
  if (o.kind != AV_OBJECT)
    return script_fail(s, "a method '%.*s' of what is no object", STR_ARG(fn->s));
  return call_method(s, &o, fn->s, args, nargs, out);
}

// ---- expressions ----

static tenon_status eval_name(Script *s, const PyExpr *e, AtenValue *out) {
  const AtenValue *v = s->frame ? script_lookup(s, e->s) : NULL;
  if (v) {
    *out = *v;
    return TENON_OK;
  }
  if (str_is(e->s, "inf"))
    *out = av_float(INFINITY);
  else if (str_is(e->s, "nan"))
    *out = av_float(NAN);
  else
    return script_fail(s, "the name '%.*s' has no value", STR_ARG(e->s));
  return TENON_OK;
}

static tenon_status eval_constant(Script *s, Str name, AtenValue *out) {
  int64_t i;
  Str digits = {name.p + 1, name.n - 1};
  if (name.n < 2 || name.p[0] != 'c' || !str_to_i64(digits, &i) || i < 0 || !s->constants ||
      i >= s->constants->items.n)
    return script_fail(s, "there is no constant '%.*s'", STR_ARG(name));
  Pickled *p = s->constants->items.v[i];
  TRY(script_value(s, p, out));
  // Tracing made these of numbers; as such they give way to the types of tensors.
  bool number = p->kind == PK_TENSOR && !p->rank && (p->dtype == DT_F64 || p->dtype == DT_I64);
  if (number) *out = av_number(s->g, out->box->node, p->dtype == DT_F64 ? AV_FLOAT : AV_INT);
  return TENON_OK;
}

static tenon_status eval_attr(Script *s, const PyExpr *e, AtenValue *out) {
  const PyExpr *of = e->item.v[0];
  if (of->kind == PE_NAME && str_is(of->s, "CONSTANTS")) return eval_constant(s, e->s, out);
  StrBuf b;
  strbuf_init(&b, s->arena);
  if (dotted(e, &b) && str_starts(strbuf_str(&b), "__torch__.")) {
    PyFunction *f = strmap_get(&s->modules.functions, strbuf_str(&b));
    *out = f ? (AtenValue){.kind = AV_FUNCTION, .object = f} : (AtenValue){0};
    return TENON_OK;
  }
  AtenValue o;
  TRY(script_eval(s, of, &o));
  if (o.kind != AV_OBJECT)
    return script_fail(s, "an attribute '%.*s' of what is no object", STR_ARG(e->s));
  return script_attr(s, o.object, e->s, out);
}

static bool same_key(const AtenValue *a, const AtenValue *b) {
  if (a->kind != b->kind) return false;
  return a->kind == AV_STR ? str_eq(a->s, b->s) : av_is_known(a) && av_is_known(b) && a->i == b->i;
}

static tenon_status eval_index(Script *s, const PyExpr *e, AtenValue *out) {
  AtenValue of, at;
  TRY(script_eval(s, e->item.v[0], &of));
  TRY(script_eval(s, e->item.v[1], &at));
  if (of.kind == AV_DICT) {
    for (int64_t i = 0; i + 1 < of.list->v.n; i += 2)
      if (same_key(&of.list->v.v[i], &at)) {
        *out = of.list->v.v[i + 1];
        return TENON_OK;
      }
    return script_fail(s, "a key that is not in the dictionary");
  }
  if (!of.list || at.kind != AV_INT || at.node)
    return script_fail(s, "an index that is not known while the model is read");
  int64_t i = at.i < 0 ? at.i + of.list->v.n : at.i;
  if (i < 0 || i >= of.list->v.n)
    return script_fail(s, "item %lld of %lld", (long long)at.i, (long long)of.list->v.n);
  *out = of.list->v.v[i];
  return TENON_OK;
}

static tenon_status eval_items(Script *s, const PyExpr *e, AvKind kind, AtenValue *out) {
  *out = av_list(s->arena, kind);
  for (int64_t i = 0; i < e->item.n; i++) {
    AtenValue v;
    TRY(script_eval(s, e->item.v[i], &v));
    av_push(s->arena, out, v);
  }
  return TENON_OK;
}

tenon_status script_eval(Script *s, const PyExpr *e, AtenValue *out) {
  *out = (AtenValue){0};
  switch (e->kind) {
  case PE_NONE: return TENON_OK;
  case PE_BOOL: *out = av_bool(e->i); return TENON_OK;
  case PE_INT: *out = av_int(e->i); return TENON_OK;
  case PE_FLOAT: *out = av_float(e->f); return TENON_OK;
  case PE_STR: *out = av_str(e->s); return TENON_OK;
  case PE_NAME: return eval_name(s, e, out);
  case PE_ATTR: return eval_attr(s, e, out);
  case PE_CALL: return eval_call(s, e, out);
  case PE_INDEX: return eval_index(s, e, out);
  case PE_LIST: return eval_items(s, e, AV_LIST, out);
  case PE_TUPLE: return eval_items(s, e, AV_TUPLE, out);
  case PE_DICT: return eval_items(s, e, AV_DICT, out);
  }
  return TENON_OK;
}
