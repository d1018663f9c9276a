// template_eval.c -- expressions of chat templates.
//
// Every node but a constant or a name counts as nesting while it is evaluated, so that the stack is
// bounded (LIMIT_TEMPLATE_NESTING).
#include "text/template_impl.h"

static Value eval_name(Tpl *x, Act *act, const TplNode *n) {
  Value v = *tpl_slot(act, n->slot, n->up);
  return v.kind == V_MISSING ? v_undef_name(x, v_missing(), v_str(x, n->name)) : v;
}

static Value *eval_all(Tpl *x, Act *act, const NodeList *l) {
  Value *v = tpl_array(x, Value, l->n);
  for (int64_t i = 0; i < l->n; i++) v[i] = tpl_eval(x, act, l->v[i]);
  return v;
}

static Value eval_dict(Tpl *x, Act *act, const TplNode *n) {
  Dict *d = dict_new(x);
  for (int64_t i = 0; i + 1 < n->v.n; i += 2) {
    Value key = tpl_eval(x, act, n->v.v[i]);
    dict_put(x, d, key, tpl_eval(x, act, n->v.v[i + 1]));
  }
  return v_dict(d);
}

static Value eval_optional(Tpl *x, Act *act, const TplNode *n) {
  return n ? tpl_eval(x, act, n) : v_missing();
}

static Value eval_item(Tpl *x, Act *act, const TplNode *n) {
  Value obj = tpl_eval(x, act, n->a);
  if (n->b->kind != N_SLICE) return v_item(x, obj, tpl_eval(x, act, n->b));
  Value start = eval_optional(x, act, n->b->a), stop = eval_optional(x, act, n->b->b);
  return v_slice(x, obj, start, stop, eval_optional(x, act, n->b->c));
}

// ---- arguments ----

static void add_mapping(Tpl *x, Args *args, Str *name, Value *kw, Value mapping) {
  need_defined(x, mapping);
  if (mapping.kind != V_DICT) tpl_fail(x, "what follows ** must be a mapping");
  for (int64_t i = 0; i < mapping.d->n; i++) {
    if (!is_str(mapping.d->key[i])) tpl_fail(x, "names of arguments are strings");
    Str key = str_of_value(mapping.d->key[i]);
    for (int64_t k = 0; k < args->nkw; k++)
      if (str_eq(name[k], key)) tpl_fail(x, "the argument '%.*s' is there twice", STR_ARG(key));
    tpl_spend(x, args->nkw / 4);
    name[args->nkw] = key;
    kw[args->nkw++] = mapping.d->val[i];
  }
}

// `more`: places for further keywords behind those of the node.
static Args eval_args(Tpl *x, Act *act, const TplNode *n, int64_t more, Str **name, Value **kw) {
  Args args = {.npos = n->v.n, .nkw = 0};
  args.pos = eval_all(x, act, &n->v);
  Value *values = eval_all(x, act, &n->w);
  if (n->b) {
    Value rest = tpl_eval(x, act, n->b);
    Value list = iter_rest(x, iter_of(x, rest));
    Value *pos = tpl_array(x, Value, args.npos + list.l->n);
    if (args.npos) memcpy(pos, args.pos, (size_t)args.npos * sizeof *pos);
    if (list.l->n) memcpy(pos + args.npos, list.l->v, (size_t)list.l->n * sizeof *pos);
    args.pos = pos;
    args.npos += list.l->n;
  }
  Value mapping = eval_optional(x, act, n->c);
  int64_t room = n->w.n + more + (mapping.kind == V_DICT ? mapping.d->n : 0);
  *name = tpl_array(x, Str, room);
  *kw = tpl_array(x, Value, room);
  for (int64_t i = 0; i < n->w.n; i++) {
    (*name)[i] = n->w.v[i]->name;
    (*kw)[i] = values[i];
  }
  args.nkw = n->w.n;
  args.name = *name;
  args.kw = *kw;
  if (n->c) add_mapping(x, &args, *name, *kw, mapping);
  return args;
}

Value tpl_call_node(Tpl *x, Act *act, const TplNode *n, const Value *caller) {
  Str *name;
  Value *kw;
  Value callee = tpl_eval(x, act, n->a);
  Args args = eval_args(x, act, n, caller ? 1 : 0, &name, &kw);
  x->line = n->line;
  if (caller) {
    for (int64_t i = 0; i < args.nkw; i++)
      if (str_is(name[i], "caller")) tpl_fail(x, "the argument 'caller' is there twice");
    name[args.nkw] = STR("caller");
    kw[args.nkw++] = *caller;
  }
  return tpl_call(x, callee, &args);
}

Value tpl_filter(Tpl *x, Act *act, const TplNode *n, Value v) {
  Str *name;
  Value *kw;
  Args args = eval_args(x, act, n, 0, &name, &kw);
  x->line = n->line;
  if (n->flag)
    tpl_fail(x, "no %s named '%.*s'", n->kind == N_FILTER ? "filter" : "test", STR_ARG(n->name));
  return fn_call(x, n->fn, v, &args);
}

// ---- operators ----

static Value eval_concat(Tpl *x, Act *act, const TplNode *n) {
  Value *v = eval_all(x, act, &n->v);
  Value s = to_str(x, v[0]);
  for (int64_t i = 1; i < n->v.n; i++) s = text_join(x, s, to_str(x, v[i]));
  return s;
}

static Value eval_compare(Tpl *x, Act *act, const TplNode *n) {
  Value left = tpl_eval(x, act, n->a);
  for (int64_t i = 0; i < n->v.n; i++) {
    Value right = tpl_eval(x, act, n->v.v[i]->a);
    x->line = n->line;
    if (!v_compare(x, (TplOp)n->v.v[i]->op, left, right)) return v_bool(false);
    left = right;
  }
  return v_bool(true);
}

static Value eval_cond(Tpl *x, Act *act, const TplNode *n) {
  if (v_true(x, tpl_eval(x, act, n->a))) return tpl_eval(x, act, n->b);
  if (n->c) return tpl_eval(x, act, n->c);
  return v_undef(x, "an inline if was false and has no else");
}

static Value eval_binary(Tpl *x, Act *act, const TplNode *n) {
  Value a = tpl_eval(x, act, n->a), b = tpl_eval(x, act, n->b);
  x->line = n->line;
  return v_binary(x, (TplOp)n->op, a, b);
}

static Value eval_filter(Tpl *x, Act *act, const TplNode *n) {
  return tpl_filter(x, act, n, tpl_eval(x, act, n->a));
}

static Value eval_attr(Tpl *x, Act *act, const TplNode *n) {
  Value obj = tpl_eval(x, act, n->a);
  x->line = n->line;
  return v_attr(x, obj, n->name);
}

static Value eval_node(Tpl *x, Act *act, const TplNode *n) {
  Value v;
  switch ((NodeKind)n->kind) {
  case N_TUPLE: return v_items(x, V_TUPLE, eval_all(x, act, &n->v), n->v.n);
  case N_LIST: return v_items(x, V_LIST, eval_all(x, act, &n->v), n->v.n);
  case N_DICT: return eval_dict(x, act, n);
  case N_ATTR: return eval_attr(x, act, n);
  case N_ITEM: return eval_item(x, act, n);
  case N_CALL: return tpl_call_node(x, act, n, NULL);
  case N_FILTER:
  case N_TEST: return eval_filter(x, act, n);
  case N_KEYWORD: return tpl_eval(x, act, n->a);
  case N_NOT: return v_bool(!v_true(x, tpl_eval(x, act, n->a)));
  case N_NEG: return v_negate(x, tpl_eval(x, act, n->a), true);
  case N_POS: return v_negate(x, tpl_eval(x, act, n->a), false);
  case N_BINARY: return eval_binary(x, act, n);
  case N_AND: v = tpl_eval(x, act, n->a); return v_true(x, v) ? tpl_eval(x, act, n->b) : v;
  case N_OR: v = tpl_eval(x, act, n->a); return v_true(x, v) ? v : tpl_eval(x, act, n->b);
  case N_CONCAT: return eval_concat(x, act, n);
  case N_COMPARE: return eval_compare(x, act, n);
  case N_COND: return eval_cond(x, act, n);
  default: CHECK(false, "a statement as an expression"); return v_none();
  }
}

Value tpl_eval(Tpl *x, Act *act, const TplNode *n) {
  if (n->kind == N_CONST) return n->value;
  if (n->kind == N_NAME) return eval_name(x, act, n);
  tpl_enter(x);
  x->line = n->line;
  Value v = eval_node(x, act, n);
  tpl_leave(x);
  return v;
}
