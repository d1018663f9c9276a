// template_value.c -- values of chat templates: Python's, as far as templates need them.
//
// Values do not change once they are built, but for namespaces.  Equality, order and hashes are
// Python's: 1, 1.0 and true are one key.  Containers know how deep they are, so that walks over
// them are bounded; every walk spends steps.
#include "text/template_impl.h"

#include <math.h>

enum { FEW = 8, NEST_VALUES = 200 };

// ---- text ----

Value v_str(Tpl *x, Str s) {
  Text *t = tpl_new(x, Text);
  *t = (Text){.p = s.n ? s.p : "", .n = s.n, .chars = -1};
  return (Value){.kind = V_STR, .s = t};
}

Value v_text(Tpl *x, Str s) {
  char *p = tpl_alloc(x, s.n + 1);
  tpl_spend(x, s.n / 64);
  if (s.n) memcpy(p, s.p, (size_t)s.n);
  return v_str(x, (Str){p, s.n});
}

Value v_cstr(Tpl *x, const char *z) { return v_str(x, str_of(z)); }

Value v_like(Value like, Value s) {
  s.safe = like.safe;
  return s;
}

int64_t text_chars(Tpl *x, const Text *t) {
  if (t->chars < 0) {
    tpl_spend(x, t->n / 64);
    ((Text *)t)->chars = utf8_count(t->p, t->n);  // computed once; texts belong to one rendering
  }
  return t->chars;
}

// a + b.  Behind the text that was made last in a block there is room for more.
Value text_join(Tpl *x, Value a, Value b) {
  int64_t n, na = a.s->n, nb = b.s->n;
  if (!nb) return (Value){.kind = V_STR, .s = a.s};
  if (!na) return (Value){.kind = V_STR, .s = b.s};
  if (!ck_add(na, nb, &n) || n > x->memory) tpl_limit(x, "memory");
  TextRoom *room = a.s->room;
  tpl_spend(x, nb / 64);
  if (!room || room->p + room->used != a.s->p + na || room->cap - room->used < nb) {
    room = tpl_new(x, TextRoom);
    room->cap = a.s->room ? 2 * n : n + 16;
    room->p = tpl_alloc(x, room->cap);
    tpl_spend(x, na / 64);
    memcpy(room->p, a.s->p, (size_t)na);
    room->used = na;
    Text *t = tpl_new(x, Text);
    *t = (Text){.p = room->p, .n = na, .chars = -1, .room = room};
    a.s = t;
  }
  memcpy(room->p + room->used, b.s->p, (size_t)nb);
  room->used += nb;
  Text *t = tpl_new(x, Text);
  *t = (Text){.p = a.s->p, .n = n, .chars = -1, .room = room};
  return (Value){.kind = V_STR, .s = t};
}

// ---- undefined ----

Value v_undef(Tpl *x, const char *hint) {
  Undef *u = tpl_new(x, Undef);
  u->hint = hint;
  return (Value){.kind = V_UNDEF, .u = u};
}

Value v_undef_name(Tpl *x, Value obj, Value name) {
  Undef *u = tpl_new(x, Undef);
  u->obj = obj;
  u->name = name;
  return (Value){.kind = V_UNDEF, .u = u};
}

NORETURN void fail_undef(Tpl *x, Value v) {
  const Undef *u = v.u;
  if (u->hint) tpl_fail(x, "%s", u->hint);
  Buf b = {0};
  put_repr(x, &b, u->name);
  Str name = {b.p, b.n};
  if (u->obj.kind == V_MISSING) tpl_fail(x, "%.*s is undefined", STR_ARG(name));
  if (!is_str(u->name))
    tpl_fail(x, "a value of type %s has no element %.*s", kind_name(u->obj), STR_ARG(name));
  tpl_fail(x, "a value of type %s has no attribute %.*s", kind_name(u->obj), STR_ARG(name));
}

// ---- lists ----

int v_depth(Value v) {
  if (v.kind == V_LIST || v.kind == V_TUPLE) return v.l->depth;
  return v.kind == V_DICT ? v.d->depth : v.kind == V_VIEW ? v.view->of->depth : 0;
}

static int deeper(Tpl *x, int depth) {
  if (depth >= NEST_VALUES) tpl_limit(x, "nesting of values");
  return depth + 1;
}

Value v_items(Tpl *x, ValueKind kind, Value *v, int64_t n) {
  Items *l = tpl_new(x, Items);
  int depth = 0;
  tpl_spend(x, n / 8);
  for (int64_t i = 0; i < n; i++) depth = MAX(depth, v_depth(v[i]));
  *l = (Items){.v = v, .n = n, .depth = deeper(x, depth)};
  return (Value){.kind = (uint8_t)kind, .l = l};
}

Value items_join(Tpl *x, Value a, Value b) {
  int64_t n, na = a.l->n, nb = b.l->n;
  if (!ck_add(na, nb, &n)) tpl_limit(x, "memory");
  ItemsRoom *room = a.l->room;
  Value *v = a.l->v;
  tpl_spend(x, nb / 8);
  if (!room || room->v + room->used != a.l->v + na || room->cap - room->used < nb) {
    room = tpl_new(x, ItemsRoom);
    room->cap = a.l->room ? 2 * n : n + 4;
    room->v = v = tpl_array(x, Value, room->cap);
    tpl_spend(x, na / 8);
    if (na) memcpy(v, a.l->v, (size_t)na * sizeof *v);
    room->used = na;
  }
  if (nb) memcpy(room->v + room->used, b.l->v, (size_t)nb * sizeof *v);
  room->used += nb;
  Items *l = tpl_new(x, Items);
  *l = (Items){.v = v, .n = n, .depth = MAX(a.l->depth, b.l->depth), .room = room};
  return (Value){.kind = a.kind, .l = l};
}

Value v_iter(Iter *it) { return (Value){.kind = V_ITER, .it = it}; }

// ---- dicts ----

Dict *dict_new(Tpl *x) {
  Dict *d = tpl_new(x, Dict);
  d->depth = 1;
  return d;
}

Value v_dict(Dict *d) { return (Value){.kind = V_DICT, .d = d}; }

static void reindex(Tpl *x, Dict *d) {
  d->nindex = 2 * d->cap;
  d->index = tpl_array(x, int32_t, d->nindex);
  for (int64_t i = 0; i < d->n; i++) {
    uint64_t h = need_hash(x, d->key[i]);
    int64_t at = (int64_t)(h % (uint64_t)d->nindex);
    while (d->index[at]) at = at + 1 == d->nindex ? 0 : at + 1;
    d->index[at] = (int32_t)(i + 1);
  }
}

static void grow(Tpl *x, Dict *d) {
  int64_t cap = d->cap ? 2 * d->cap : 4;
  if (cap > INT32_MAX / 2) tpl_limit(x, "memory");
  Value *key = tpl_array(x, Value, cap), *val = tpl_array(x, Value, cap);
  if (d->n) memcpy(key, d->key, (size_t)d->n * sizeof *key);
  if (d->n) memcpy(val, d->val, (size_t)d->n * sizeof *val);
  d->key = key;
  d->val = val;
  d->cap = cap;
  if (cap > FEW) reindex(x, d);
}

static int64_t find(Tpl *x, const Dict *d, Value key) {
  if (!d->index) {
    for (int64_t i = 0; i < d->n; i++)
      if (v_equal(x, d->key[i], key)) return i;
    return -1;
  }
  uint64_t h = need_hash(x, key);
  for (int64_t at = (int64_t)(h % (uint64_t)d->nindex); d->index[at];
       at = at + 1 == d->nindex ? 0 : at + 1)
    if (v_equal(x, d->key[d->index[at] - 1], key)) return d->index[at] - 1;
  return -1;
}

void dict_put(Tpl *x, Dict *d, Value key, Value val) {
  (void)need_hash(x, key);
  int64_t at = find(x, d, key);
  d->depth = MAX(d->depth, deeper(x, MAX(v_depth(key), v_depth(val))));
  if (at >= 0) {
    d->val[at] = val;
    return;
  }
  if (d->n == d->cap) grow(x, d);
  d->key[d->n] = key;
  d->val[d->n++] = val;
  if (!d->index) return;
  uint64_t h = need_hash(x, key);
  at = (int64_t)(h % (uint64_t)d->nindex);
  while (d->index[at]) at = at + 1 == d->nindex ? 0 : at + 1;
  d->index[at] = (int32_t)d->n;
}

Value *dict_get(Tpl *x, const Dict *d, Value key) {
  int64_t at = find(x, d, key);
  return at < 0 ? NULL : &d->val[at];
}

Value *dict_get_str(Tpl *x, const Dict *d, Str key) {
  Text t = {.p = key.p, .n = key.n, .chars = -1};
  return dict_get(x, d, (Value){.kind = V_STR, .s = &t});
}

// ---- from JSON ----

Value v_from_json(Tpl *x, const Json *j) {
  tpl_spend(x, 1);
  switch (j->kind) {
  case JSON_NULL: return v_none();
  case JSON_BOOL: return v_bool(j->b);
  case JSON_INT: return v_int(j->i);
  case JSON_FLOAT:
    // Python would keep every digit of a whole number; there is none that large in a conversation.
    return v_float(j->f);
  case JSON_STRING: return v_str(x, j->s);
  case JSON_ARRAY: {
    Value *v = tpl_array(x, Value, j->n);
    for (int64_t i = 0; i < j->n; i++) v[i] = v_from_json(x, &j->item[i]);
    return v_items(x, V_LIST, v, j->n);
  }
  case JSON_OBJECT: break;
  }
  Dict *d = dict_new(x);
  for (int64_t i = 0; i < j->n; i++)
    dict_put(x, d, v_str(x, j->key[i]), v_from_json(x, &j->item[i]));
  return v_dict(d);
}

// ---- what every value has ----

const char *kind_name(Value v) {
  switch ((ValueKind)v.kind) {
  case V_MISSING: return "missing";
  case V_UNDEF: return "Undefined";
  case V_NONE: return "NoneType";
  case V_BOOL: return "bool";
  case V_INT: return "int";
  case V_FLOAT: return "float";
  case V_STR: return v.safe ? "Markup" : "str";
  case V_LIST: return "list";
  case V_TUPLE: return "tuple";
  case V_DICT: return "dict";
  case V_RANGE: return "range";
  case V_VIEW:
    return v.view->what == 'k' ? "dict_keys" : v.view->what == 'v' ? "dict_values" : "dict_items";
  case V_ITER: return "generator";
  case V_NS: return "Namespace";
  case V_LOOP: return "LoopContext";
  case V_MACRO: return "Macro";
  case V_FUNC: return "function";
  case V_METHOD: return "method";
  case V_CYCLER: return "Cycler";
  case V_JOINER: return "Joiner";
  }
  return "?";
}

int64_t v_len(Tpl *x, Value v) {
  switch ((ValueKind)v.kind) {
  case V_UNDEF: return 0;
  case V_STR: return text_chars(x, v.s);
  case V_LIST:
  case V_TUPLE: return v.l->n;
  case V_DICT: return v.d->n;
  case V_RANGE: return v.r->n;
  case V_VIEW: return v.view->of->n;
  case V_LOOP: return loop_length(x, v.loop);
  default: return -1;
  }
}

bool v_true(Tpl *x, Value v) {
  switch ((ValueKind)v.kind) {
  case V_MISSING:
  case V_UNDEF:
  case V_NONE: return false;
  case V_BOOL: return v.b;
  case V_INT: return v.i != 0;
  case V_FLOAT: return v.f != 0;
  case V_STR: return v.s->n != 0;
  default: return v_len(x, v) != 0;
  }
}

// ---- equality, order, hashes ----

// Python compares an int and a float exactly.
static int order_int_float(int64_t i, double f) {
  if (f >= 0x1p63) return -1;
  if (f < -0x1p63) return 1;
  int64_t whole = (int64_t)f;
  if (i != whole) return i < whole ? -1 : 1;
  double rest = f - (double)whole;
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

static bool equal_numbers(Value a, Value b) {
  if (is_int(a) && is_int(b)) return int_of(a) == int_of(b);
  if (a.kind == V_FLOAT && b.kind == V_FLOAT) return a.f == b.f;
  double f = a.kind == V_FLOAT ? a.f : b.f;
  return !isnan(f) && order_int_float(int_of(a.kind == V_FLOAT ? b : a), f) == 0;
}

static bool equal_items(Tpl *x, const Items *a, const Items *b) {
  if (a->n != b->n) return false;
  for (int64_t i = 0; i < a->n; i++)
    if (!v_same(a->v[i], b->v[i]) && !v_equal(x, a->v[i], b->v[i])) return false;
  return true;
}

static bool equal_dicts(Tpl *x, const Dict *a, const Dict *b) {
  if (a->n != b->n) return false;
  for (int64_t i = 0; i < a->n; i++) {
    const Value *v = dict_get(x, b, a->key[i]);
    if (!v || (!v_same(a->val[i], *v) && !v_equal(x, a->val[i], *v))) return false;
  }
  return true;
}

static bool equal_ranges(const Range *a, const Range *b) {
  return a->n == b->n && (!a->n || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

// Keys and items are sets: their order does not matter.
static bool equal_views(Tpl *x, const View *a, const View *b) {
  if (a->what == 'v' || b->what == 'v') return a == b;
  if (a->what != b->what) return a->of->n == 0 && b->of->n == 0;
  if (a->what == 'i') return equal_dicts(x, a->of, b->of);
  if (a->of->n != b->of->n) return false;
  for (int64_t i = 0; i < a->of->n; i++)
    if (!dict_get(x, b->of, a->of->key[i])) return false;
  return true;
}

bool v_same(Value a, Value b) {
  if (a.kind != b.kind) return false;
  switch ((ValueKind)a.kind) {
  case V_MISSING:
  case V_NONE: return true;
  case V_BOOL: return a.b == b.b;
  case V_INT: return a.i == b.i;
  case V_FLOAT: return false;
  case V_STR: return a.safe == b.safe && a.s->p == b.s->p && a.s->n == b.s->n;
  default: return a.l == b.l;
  }
}

bool v_equal(Tpl *x, Value a, Value b) {
  tpl_spend(x, 1);
  if (is_number(a) && is_number(b)) return equal_numbers(a, b);
  if (a.kind != b.kind) return false;
  switch ((ValueKind)a.kind) {
  case V_UNDEF:
  case V_NONE: return true;
  case V_STR:
    tpl_spend(x, a.s->n == b.s->n ? a.s->n / 64 : 0);
    return str_eq(str_of_value(a), str_of_value(b));
  case V_LIST:
  case V_TUPLE: return a.l == b.l || equal_items(x, a.l, b.l);
  case V_DICT: return a.d == b.d || equal_dicts(x, a.d, b.d);
  case V_RANGE: return equal_ranges(a.r, b.r);
  case V_VIEW: return equal_views(x, a.view, b.view);
  case V_METHOD: return a.method->row == b.method->row && v_same(a.method->self, b.method->self);
  default: return a.l == b.l;
  }
}

static NORETURN void not_ordered(Tpl *x, Value a, Value b) {
  need_defined(x, a);
  need_defined(x, b);
  tpl_fail(x, "values of types %s and %s have no order", kind_name(a), kind_name(b));
}

// 2: neither less, equal nor greater (NaN).
int v_order(Tpl *x, Value a, Value b) {
  tpl_spend(x, 1);
  if (is_int(a) && is_int(b)) return (int_of(a) > int_of(b)) - (int_of(a) < int_of(b));
  if (is_number(a) && is_number(b)) {
    if (isnan(float_of(a)) || isnan(float_of(b))) return 2;
    if (a.kind == V_FLOAT && b.kind == V_FLOAT) return (a.f > b.f) - (a.f < b.f);
    return a.kind == V_FLOAT ? -order_int_float(int_of(b), a.f) : order_int_float(int_of(a), b.f);
  }
  if (is_str(a) && is_str(b)) {
    int order = str_cmp(str_of_value(a), str_of_value(b));
    return (order > 0) - (order < 0);
  }
  if (a.kind != b.kind || !is_items(a)) not_ordered(x, a, b);
  for (int64_t i = 0; i < MIN(a.l->n, b.l->n); i++)
    if (!v_same(a.l->v[i], b.l->v[i]) && !v_equal(x, a.l->v[i], b.l->v[i]))
      return v_order(x, a.l->v[i], b.l->v[i]);
  return (a.l->n > b.l->n) - (a.l->n < b.l->n);
}

bool v_less(Tpl *x, Value a, Value b) { return v_order(x, a, b) < 0; }

static uint64_t hash_number(Value v) {
  double f = float_of(v);
  if (v.kind != V_FLOAT || (f == floor(f) && f >= -0x1p63 && f < 0x1p63))
    return hash_u64((uint64_t)(v.kind == V_FLOAT ? (int64_t)f : int_of(v)));
  return hash_bytes(&f, sizeof f, 1);
}

bool v_hash(Tpl *x, Value v, uint64_t *out) {
  tpl_spend(x, 1);
  switch ((ValueKind)v.kind) {
  case V_BOOL:
  case V_INT:
  case V_FLOAT: *out = hash_number(v); return true;
  case V_STR:
    tpl_spend(x, v.s->n / 64);
    *out = hash_bytes(v.s->p, v.s->n, 2);
    return true;
  case V_TUPLE:
    *out = 3;
    for (int64_t i = 0; i < v.l->n; i++) {
      uint64_t h;
      if (!v_hash(x, v.l->v[i], &h)) return false;
      *out = hash_u64(*out ^ h) + 1;
    }
    return true;
  case V_RANGE: *out = hash_u64((uint64_t)v.r->n); return true;
  case V_UNDEF:
  case V_NONE: *out = v.kind; return true;
  case V_LIST:
  case V_DICT: return false;
  case V_VIEW: *out = 5; return v.view->what == 'v';
  default: *out = v.kind; return true;
  }
}

uint64_t need_hash(Tpl *x, Value v) {
  uint64_t h;
  if (!v_hash(x, v, &h)) tpl_fail(x, "a value of type %s cannot be a key", kind_name(v));
  return h;
}

// ---- membership ----

static bool in_text(Tpl *x, Value v, Value in) {
  if (!is_str(v)) {
    need_defined(x, v);
    tpl_fail(x, "'in' needs a string on its left, not %s", kind_name(v));
  }
  return text_find(x, str_of_value(in), str_of_value(v), 0) >= 0;
}

static bool in_range(const Range *r, Value v) {
  int64_t i;
  if (v.kind == V_FLOAT) {
    if (v.f != floor(v.f) || fabs(v.f) > 0x1p53) return false;
    i = (int64_t)v.f;
  } else if (is_int(v)) {
    i = int_of(v);
  } else {
    return false;
  }
  int64_t off = i - r->start;
  return r->n && off % r->step == 0 && off / r->step >= 0 && off / r->step < r->n;
}

bool v_in(Tpl *x, Value v, Value in) {
  if (is_str(in)) return in_text(x, v, in);
  if (in.kind == V_DICT) {
    (void)need_hash(x, v);
    return dict_get(x, in.d, v) != NULL;
  }
  if (in.kind == V_VIEW && in.view->what == 'k') {
    (void)need_hash(x, v);
    return dict_get(x, in.view->of, v) != NULL;
  }
  if (in.kind == V_RANGE) return in_range(in.r, v);
  if (!is_iterable(in)) tpl_fail(x, "'in' cannot look into a value of type %s", kind_name(in));
  Iter *it = iter_of(x, in);
  for (Value item; iter_next(x, it, &item);)
    if (v_same(item, v) || v_equal(x, item, v)) return true;
  return false;
}
