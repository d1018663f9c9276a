// template_attr.c -- attributes, methods and global functions of chat templates, and calls.
//
// A template sees of a value what Python's sandbox lets it see: methods that change nothing, and no
// name that begins with an underscore.  Attributes that Python has and this engine has not are
// refused by name, so that they never look undefined.
//
// Arguments are bound by a row's list of names, as Python binds them.
#include "text/template_impl.h"

#include <stdio.h>
#include <time.h>

enum { RANGE_MOST = 100000 };

// ---- rows and calls ----

const FnRow *fn_find(const FnRow *row, int64_t n, Str name) {
  for (int64_t i = 0; i < n; i++)
    if (str_is(name, row[i].name)) return &row[i];
  return NULL;
}

// The index of a name among `params`; -1: none.  *count: how many there are.
static int param_find(const char *params, Str name, int *count) {
  int at = -1;
  *count = 0;
  while (*params) {
    const char *end = params;
    while (*end && *end != ' ') end++;
    if (name.p && str_eq(name, (Str){params, end - params})) at = *count;
    ++*count;
    params = *end ? end + 1 : end;
  }
  return at;
}

static void bind(Tpl *x, const FnRow *row, const Args *args, Value out[MOST_PARAMS]) {
  const char *params = row->params;
  bool positional = params[0] == '/';
  int count, given;
  params += positional;
  (void)param_find(params, (Str){0}, &count);
  if (args->npos > count) tpl_fail(x, "%s takes at most %d arguments", row->name, count);
  for (int i = 0; i < count; i++) out[i] = i < args->npos ? args->pos[i] : v_missing();
  for (int64_t i = 0; i < args->nkw; i++) {
    int at = positional ? -1 : param_find(params, args->name[i], &given);
    if (at < 0 || out[at].kind != V_MISSING)
      tpl_fail(x, "%s takes no argument '%.*s' here", row->name, STR_ARG(args->name[i]));
    out[at] = args->kw[i];
  }
  for (int i = 0; i < row->least; i++)
    if (out[i].kind == V_MISSING) tpl_fail(x, "%s needs more arguments", row->name);
}

Value fn_call(Tpl *x, const FnRow *row, Value self, const Args *args) {
  Value arg[MOST_PARAMS];
  if (!row->params) tpl_unsupported(x, "'%s'", row->name);
  if (row->raw) return row->raw(x, self, args);
  bind(x, row, args, arg);
  return row->fn(x, self, arg);
}

Value tpl_call(Tpl *x, Value callee, const Args *args) {
  switch ((ValueKind)callee.kind) {
  case V_FUNC: return fn_call(x, callee.fn, v_none(), args);
  case V_METHOD: return fn_call(x, callee.method->row, callee.method->self, args);
  case V_MACRO: return macro_call(x, callee.macro, args);
  case V_JOINER: {
    if (args->npos || args->nkw) tpl_fail(x, "a joiner takes no arguments");
    bool first = !callee.cycler->pos;
    callee.cycler->pos = 1;
    return first ? v_cstr(x, "") : callee.cycler->items->v[0];
  }
  case V_LOOP: tpl_fail(x, "the loop is not recursive");
  default:
    need_defined(x, callee);
    tpl_fail(x, "a value of type %s cannot be called", kind_name(callee));
  }
}

// ---- methods of dicts, lists, tuples ----

static Value dict_get_method(Tpl *x, Value self, const Value *arg) {
  (void)need_hash(x, arg[0]);
  const Value *v = dict_get(x, self.d, arg[0]);
  return v ? *v : arg[1].kind == V_MISSING ? v_none() : arg[1];
}

static Value view(Tpl *x, Value self, char what) {
  View *v = tpl_new(x, View);
  *v = (View){self.d, what};
  return (Value){.kind = V_VIEW, .view = v};
}
static Value dict_keys(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  return view(x, self, 'k');
}
static Value dict_values(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  return view(x, self, 'v');
}
static Value dict_items(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  return view(x, self, 'i');
}

// A value that does not change is as good as its copy, but it is another object.
static Value dict_copy(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  Dict *d = tpl_new(x, Dict);
  *d = *self.d;
  return v_dict(d);
}
static Value list_copy(Tpl *x, Value self, const Value *arg) {
  (void)arg;
  Items *l = tpl_new(x, Items);
  *l = *self.l;
  return (Value){.kind = V_LIST, .l = l};
}

static Value items_count(Tpl *x, Value self, const Value *arg) {
  int64_t n = 0;
  for (int64_t i = 0; i < self.l->n; i++)
    n += v_same(self.l->v[i], arg[0]) || v_equal(x, self.l->v[i], arg[0]);
  return v_int(n);
}

static int64_t clip(Tpl *x, Value v, int64_t n, int64_t dflt) {
  int64_t i = opt_int_arg(x, v, dflt, "an index");
  if (i < 0) i = i < -n ? 0 : i + n;
  return MIN(i, n);
}

static Value items_index(Tpl *x, Value self, const Value *arg) {
  int64_t n = self.l->n, from = clip(x, arg[1], n, 0), to = clip(x, arg[2], n, n);
  for (int64_t i = from; i < to; i++)
    if (v_same(self.l->v[i], arg[0]) || v_equal(x, self.l->v[i], arg[0])) return v_int(i);
  tpl_fail(x, "index: the value is not in the list");
}

// Rows without `params` are not supported, those without functions are refused by the sandbox.
static const FnRow dict_method[] = {
    {"get", "/key default", 1, dict_get_method, NULL},
    {"items", "/", 0, dict_items, NULL},
    {"keys", "/", 0, dict_keys, NULL},
    {"values", "/", 0, dict_values, NULL},
    {"copy", "/", 0, dict_copy, NULL},
    {"fromkeys", NULL, 0, NULL, NULL},
    {"clear", "", 0, NULL, NULL},
    {"pop", "", 0, NULL, NULL},
    {"popitem", "", 0, NULL, NULL},
    {"setdefault", "", 0, NULL, NULL},
    {"update", "", 0, NULL, NULL},
};
static const FnRow list_method[] = {
    {"index", "/value start stop", 1, items_index, NULL},
    {"count", "/value", 1, items_count, NULL},
    {"copy", "/", 0, list_copy, NULL},
    {"append", "", 0, NULL, NULL},
    {"clear", "", 0, NULL, NULL},
    {"pop", "", 0, NULL, NULL},
    {"reverse", "", 0, NULL, NULL},
    {"insert", "", 0, NULL, NULL},
    {"sort", "", 0, NULL, NULL},
    {"extend", "", 0, NULL, NULL},
    {"remove", "", 0, NULL, NULL},
};
static const FnRow tuple_method[] = {
    {"index", "/value start stop", 1, items_index, NULL},
    {"count", "/value", 1, items_count, NULL},
};
static const FnRow int_method[] = {
    {"bit_length", NULL, 0, NULL, NULL}, {"bit_count", NULL, 0, NULL, NULL},
    {"to_bytes", NULL, 0, NULL, NULL},   {"from_bytes", NULL, 0, NULL, NULL},
    {"conjugate", NULL, 0, NULL, NULL},  {"as_integer_ratio", NULL, 0, NULL, NULL},
    {"real", NULL, 0, NULL, NULL},       {"imag", NULL, 0, NULL, NULL},
    {"numerator", NULL, 0, NULL, NULL},  {"denominator", NULL, 0, NULL, NULL},
};
static const FnRow float_method[] = {
    {"is_integer", NULL, 0, NULL, NULL},
    {"hex", NULL, 0, NULL, NULL},
    {"fromhex", NULL, 0, NULL, NULL},
    {"conjugate", NULL, 0, NULL, NULL},
    {"real", NULL, 0, NULL, NULL},
    {"imag", NULL, 0, NULL, NULL},
    {"as_integer_ratio", NULL, 0, NULL, NULL},
};
static const FnRow range_method[] = {
    {"start", NULL, 0, NULL, NULL}, {"stop", NULL, 0, NULL, NULL},  {"step", NULL, 0, NULL, NULL},
    {"count", NULL, 0, NULL, NULL}, {"index", NULL, 0, NULL, NULL},
};
static const FnRow view_method[] = {
    {"mapping", NULL, 0, NULL, NULL},
    {"isdisjoint", NULL, 0, NULL, NULL},
};
static const FnRow iter_method[] = {
    {"send", NULL, 0, NULL, NULL},
    {"throw", NULL, 0, NULL, NULL},
    {"close", NULL, 0, NULL, NULL},
};

static Value cycler_next(Tpl *x, Value self, const Value *arg) {
  (void)x;
  (void)arg;
  Cycler *c = self.cycler;
  Value v = c->items->v[c->pos];
  c->pos = (c->pos + 1) % c->items->n;
  return v;
}
static Value cycler_reset(Tpl *x, Value self, const Value *arg) {
  (void)x;
  (void)arg;
  self.cycler->pos = 0;
  return v_none();
}
static const FnRow cycler_method[] = {
    {"next", "/", 0, cycler_next, NULL},
    {"reset", "/", 0, cycler_reset, NULL},
};

static Value macro_attr(Tpl *x, const Macro *m, Str name) {
  const TplNode *n = m->node;
  if (str_is(name, "name")) return n->kind == N_MACRO ? v_str(x, n->name) : v_none();
  if (str_is(name, "catch_kwargs")) return v_bool(n->kwargs);
  if (str_is(name, "catch_varargs")) return v_bool(n->varargs);
  if (str_is(name, "caller")) return v_bool(n->caller);
  if (str_is(name, "explicit_caller")) return v_bool(n->caller && n->caller_slot < 0);
  if (!str_is(name, "arguments")) return v_missing();
  Value *v = tpl_array(x, Value, n->w.n);
  for (int64_t i = 0; i < n->w.n; i++) v[i] = v_str(x, n->w.v[i]->name);
  return v_items(x, V_TUPLE, v, n->w.n);
}

static Value method_of(Tpl *x, Value self, const FnRow *row) {
  if (row->params && !row->fn && !row->raw)
    return v_undef(x, str_printf(x->arena, "the method '%s' would change a value", row->name));
  Method *m = tpl_new(x, Method);
  *m = (Method){self, row};
  return (Value){.kind = V_METHOD, .method = m};
}

static const FnRow *row_of(Value obj, Str name) {
  switch ((ValueKind)obj.kind) {
  case V_STR: return str_method_find(name);
  case V_DICT: return fn_find(dict_method, ARRAY_LEN(dict_method), name);
  case V_LIST: return fn_find(list_method, ARRAY_LEN(list_method), name);
  case V_TUPLE: return fn_find(tuple_method, ARRAY_LEN(tuple_method), name);
  case V_BOOL:
  case V_INT: return fn_find(int_method, ARRAY_LEN(int_method), name);
  case V_FLOAT: return fn_find(float_method, ARRAY_LEN(float_method), name);
  case V_RANGE: return fn_find(range_method, ARRAY_LEN(range_method), name);
  case V_VIEW: return fn_find(view_method, ARRAY_LEN(view_method), name);
  case V_ITER: return fn_find(iter_method, ARRAY_LEN(iter_method), name);
  case V_CYCLER: return fn_find(cycler_method, ARRAY_LEN(cycler_method), name);
  default: return NULL;
  }
}

static bool is_dunder(Str s) {
  return s.n > 4 && s.p[0] == '_' && s.p[1] == '_' && s.p[s.n - 1] == '_' && s.p[s.n - 2] == '_';
}

static Value special_attr(Tpl *x, Value obj, Str name) {
  if (obj.kind == V_NS) {
    const Value *v = dict_get_str(x, obj.d, name);
    return v ? *v : v_missing();
  }
  if (obj.kind == V_LOOP) return loop_attr(x, obj.loop, name);
  if (obj.kind == V_MACRO) return macro_attr(x, obj.macro, name);
  if (obj.kind == V_CYCLER && str_is(name, "current")) return obj.cycler->items->v[obj.cycler->pos];
  if (obj.kind == V_CYCLER && str_is(name, "items"))
    return (Value){.kind = V_TUPLE, .l = obj.cycler->items};
  if (obj.kind == V_CYCLER && str_is(name, "pos")) return v_int(obj.cycler->pos);
  if (obj.kind == V_JOINER && str_is(name, "sep")) return obj.cycler->items->v[0];
  if (obj.kind == V_JOINER && str_is(name, "used")) return v_bool(obj.cycler->pos != 0);
  if (obj.kind == V_TUPLE && obj.l->named && str_is(name, "grouper")) return obj.l->v[0];
  if (obj.kind == V_TUPLE && obj.l->named && str_is(name, "list")) return obj.l->v[1];
  return v_missing();
}

// Python's getattr behind the sandbox: V_MISSING where there is no such attribute.
Value v_own_attr(Tpl *x, Value obj, Str name) {
  Value v = special_attr(x, obj, name);
  bool is_there = v.kind != V_MISSING || (is_dunder(name) && obj.kind != V_NS);
  if (is_there && name.n && name.p[0] == '_')
    return v_undef(x, str_printf(x->arena, "the attribute '%.*s' is not safe", STR_ARG(name)));
  if (is_there) return v;
  const FnRow *row = row_of(obj, name);
  if (!row) return v_missing();
  if (!row->params) tpl_unsupported(x, "the attribute '%s' of %s", row->name, kind_name(obj));
  return method_of(x, obj, row);
}

// What every Python object has; an undefined value has these and no other.
static bool is_of_object(Str name) {
  static const char *const names[] = {"__class__", "__dir__",  "__doc__",  "__eq__",   "__hash__",
                                      "__init__",  "__new__",  "__repr__", "__str__",  "__len__",
                                      "__iter__",  "__bool__", "__ne__",   "__slots__"};
  for (int64_t i = 0; i < ARRAY_LEN(names); i++)
    if (str_is(name, names[i])) return true;
  return false;
}

Value v_attr(Tpl *x, Value obj, Str name) {
  if (obj.kind != V_UNDEF || !is_of_object(name)) need_defined(x, obj);
  Value v = v_own_attr(x, obj, name);
  if (v.kind != V_MISSING) return v;
  if (obj.kind == V_DICT) {
    const Value *item = dict_get_str(x, obj.d, name);
    if (item) return *item;
  }
  return v_undef_name(x, obj, v_str(x, name));
}

// ---- global functions ----

static Value fn_range(Tpl *x, Value self, const Value *arg) {
  (void)self;
  bool one = arg[1].kind == V_MISSING;
  Range r = {.start = one ? 0 : need_int(x, arg[0], "a bound of range"),
             .stop = need_int(x, one ? arg[0] : arg[1], "a bound of range"),
             .step = opt_int_arg(x, arg[2], 1, "the step of range")};
  if (!r.step) tpl_fail(x, "the step of range is 0");
  uint64_t span = 0, by = r.step < 0 ? 0 - (uint64_t)r.step : (uint64_t)r.step;
  if (r.step > 0 && r.start < r.stop) span = (uint64_t)r.stop - (uint64_t)r.start;
  if (r.step < 0 && r.start > r.stop) span = (uint64_t)r.start - (uint64_t)r.stop;
  uint64_t n = span / by + (span % by != 0);
  if (n > RANGE_MOST) tpl_fail(x, "a range of more than %d values", RANGE_MOST);
  r.n = (int64_t)n;
  Range *out = tpl_new(x, Range);
  *out = r;
  return (Value){.kind = V_RANGE, .r = out};
}

// dict(mapping or pairs, **more)
static Dict *make_dict(Tpl *x, const Args *args, const char *what) {
  Dict *d = dict_new(x);
  if (args->npos > 1) tpl_fail(x, "%s takes at most one value", what);
  if (args->npos && args->pos[0].kind == V_DICT) {
    const Dict *from = args->pos[0].d;
    for (int64_t i = 0; i < from->n; i++) dict_put(x, d, from->key[i], from->val[i]);
  } else if (args->npos) {
    Iter *it = iter_of(x, args->pos[0]);
    for (Value item; iter_next(x, it, &item);) {
      Value pair = v_list_of(x, item);
      if (pair.l->n != 2) tpl_fail(x, "%s needs pairs", what);
      dict_put(x, d, pair.l->v[0], pair.l->v[1]);
    }
  }
  for (int64_t i = 0; i < args->nkw; i++) dict_put(x, d, v_str(x, args->name[i]), args->kw[i]);
  return d;
}

static Value fn_dict(Tpl *x, Value self, const Args *args) {
  (void)self;
  return v_dict(make_dict(x, args, "dict"));
}

static Value fn_namespace(Tpl *x, Value self, const Args *args) {
  (void)self;
  return (Value){.kind = V_NS, .d = make_dict(x, args, "namespace")};
}

static Value fn_raise(Tpl *x, Value self, const Value *arg) {
  (void)self;
  Value s = to_str(x, arg[0]);
  char *text = tpl_alloc(x, s.s->n + 1);
  memcpy(text, s.s->p, (size_t)s.s->n);
  tpl_fail_as(x, TENON_EINVAL, TEMPLATE_REFUSED, "%s", text);
}

// %f, %z and %Z are Python's own: a local time without a zone.
static Value fn_strftime(Tpl *x, Value self, const Value *arg) {
  (void)self;
  if (!is_str(arg[0])) tpl_fail(x, "strftime_now needs a format");
  Buf form = {0};
  Str s = str_of_value(arg[0]);
  for (int64_t i = 0; i < s.n; i++) {
    if (s.p[i] == '%' && i + 1 < s.n && strchr("fzZ", s.p[i + 1])) {
      if (s.p[++i] == 'f') buf_puts(x, &form, "000000");
      continue;
    }
    buf_putc(x, &form, s.p[i]);
    if (s.p[i] == '%' && i + 1 < s.n) buf_putc(x, &form, s.p[++i]);
  }
  if (!form.n) return v_cstr(x, "");
  buf_putc(x, &form, '.');  // so that an empty result can be told from one that did not fit
  buf_putc(x, &form, 0);
  time_t now = (time_t)x->now;
  struct tm tm;
  int64_t cap = 4096 + 64 * form.n;
  char *out = tpl_alloc(x, cap);
  if (!gmtime_r(&now, &tm)) tpl_fail(x, "the time is out of range");
  size_t n = strftime(out, (size_t)cap, form.p, &tm);
  if (!n) tpl_limit(x, "output");
  return v_text(x, (Str){out, (int64_t)n - 1});
}

static Value fn_cycler(Tpl *x, Value self, const Args *args) {
  (void)self;
  if (!args->npos || args->nkw) tpl_fail(x, "cycler needs at least one item");
  Value *v = tpl_array(x, Value, args->npos);
  memcpy(v, args->pos, (size_t)args->npos * sizeof *v);
  Cycler *c = tpl_new(x, Cycler);
  c->items = v_items(x, V_TUPLE, v, args->npos).l;
  return (Value){.kind = V_CYCLER, .cycler = c};
}

static Value fn_joiner(Tpl *x, Value self, const Value *arg) {
  (void)self;
  Value *v = tpl_array(x, Value, 1);
  v[0] = arg[0].kind == V_MISSING ? v_cstr(x, ", ") : arg[0];
  Cycler *c = tpl_new(x, Cycler);
  c->items = v_items(x, V_TUPLE, v, 1).l;
  return (Value){.kind = V_JOINER, .cycler = c};
}

static const FnRow global[] = {
    {"range", "/start stop step", 1, fn_range, NULL},
    {"dict", "*", 0, NULL, fn_dict},
    {"namespace", "*", 0, NULL, fn_namespace},
    {"raise_exception", "message", 1, fn_raise, NULL},
    {"strftime_now", "format", 1, fn_strftime, NULL},
    {"cycler", "*", 0, NULL, fn_cycler},
    {"joiner", "sep", 0, fn_joiner, NULL},
    {"lipsum", NULL, 0, NULL, NULL},
};

Value fn_global(Str name) {
  const FnRow *row = fn_find(global, ARRAY_LEN(global), name);
  return row ? (Value){.kind = V_FUNC, .fn = row} : v_missing();
}
