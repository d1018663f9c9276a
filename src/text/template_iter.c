// template_iter.c -- iterators of chat templates: lists, and what filters compute item by item.
//
// Filters such as map and select are lazy and are consumed once, as Python's generators are.  An
// iterator may ask another one, so each step counts as nesting.
#include "text/template_impl.h"

// ---- making ----

Iter *iter_array(Tpl *x, const Value *v, int64_t n) {
  Iter *it = tpl_new(x, Iter);
  it->kind = ITER_ITEMS;
  it->v = v;
  it->n = n;
  return it;
}

static Iter *iter_view(Tpl *x, const Dict *d, char what) {
  if (what != 'i') return iter_array(x, what == 'k' ? d->key : d->val, d->n);
  Value *v = tpl_array(x, Value, d->n);
  tpl_spend(x, d->n);
  for (int64_t i = 0; i < d->n; i++) {
    Value *pair = tpl_array(x, Value, 2);
    pair[0] = d->key[i];
    pair[1] = d->val[i];
    v[i] = v_items(x, V_TUPLE, pair, 2);
  }
  return iter_array(x, v, d->n);
}

bool is_iterable(Value v) {
  switch ((ValueKind)v.kind) {
  case V_UNDEF:
  case V_STR:
  case V_LIST:
  case V_TUPLE:
  case V_DICT:
  case V_RANGE:
  case V_VIEW:
  case V_ITER:
  case V_LOOP: return true;
  default: return false;
  }
}

Iter *iter_of(Tpl *x, Value v) {
  switch ((ValueKind)v.kind) {
  case V_UNDEF: return iter_array(x, NULL, 0);
  case V_LIST:
  case V_TUPLE: return iter_array(x, v.l->v, v.l->n);
  case V_DICT: return iter_view(x, v.d, 'k');
  case V_VIEW: return iter_view(x, v.view->of, v.view->what);
  case V_ITER: return v.it;
  case V_LOOP: tpl_unsupported(x, "a loop over the variable 'loop'");
  case V_STR:
  case V_RANGE: break;
  default: tpl_fail(x, "a value of type %s cannot be iterated", kind_name(v));
  }
  Iter *it = tpl_new(x, Iter);
  if (v.kind == V_STR) {
    it->kind = ITER_CHARS;
    it->p = v.s->p;
    it->end = v.s->p + v.s->n;
    it->safe = false;  // Python iterates a Markup by plain characters
  } else {
    it->kind = ITER_RANGE;
    it->n = v.r->n;
    it->source = v;
  }
  return it;
}

Iter *iter_reversed(Tpl *x, Value v) {
  switch ((ValueKind)v.kind) {
  case V_UNDEF:
  case V_STR:
  case V_LIST:
  case V_TUPLE:
  case V_DICT:
  case V_RANGE:
  case V_VIEW: break;
  default: return NULL;
  }
  Value l = v_list_of(x, v);
  Value *r = tpl_array(x, Value, l.l->n);
  for (int64_t i = 0; i < l.l->n; i++) {
    r[i] = l.l->v[l.l->n - 1 - i];
    if (is_str(v))
      r[i].safe = v.safe;  // reversed() asks by index, and Markup's characters are Markup
  }
  return iter_array(x, r, l.l->n);
}

// ---- attributes by path: "a.b.0" ----

typedef struct Path {
  Value *part;
  int64_t n;
} Path;
struct AttrPath {
  Path *path;
  int64_t n;
  bool many, fold;
  Value dflt;
};

static bool all_digits(Str s) {
  if (!s.n) return false;
  for (const char *p = s.p; p < s.p + s.n;)
    if (!(uc_flags(utf8_next(&p)) & UC_DIGIT)) return false;
  return true;
}

static Path path_of(Tpl *x, Str s) {
  Path path = {0};
  for (int64_t i = 0; i <= s.n; i++) path.n += i == s.n || s.p[i] == '.';
  path.part = tpl_array(x, Value, path.n);
  int64_t from = 0, k = 0;
  for (int64_t i = 0; i <= s.n; i++) {
    if (i < s.n && s.p[i] != '.') continue;
    Str part = {s.p + from, i - from};
    int64_t number;
    bool digits = all_digits(part);
    if (digits && str_to_int(part, 10, &number) != INT_OK) tpl_fail(x, "a number too large");
    path.part[k++] = digits ? v_int(number) : v_str(x, part);
    from = i + 1;
  }
  return path;
}

AttrPath *attr_path(Tpl *x, Value attribute, bool many, bool fold, Value dflt) {
  AttrPath *p = tpl_new(x, AttrPath);
  *p = (AttrPath){.n = 1, .many = many, .fold = fold, .dflt = dflt};
  Str s = is_str(attribute) ? str_of_value(attribute) : STR("");
  if (is_str(attribute) && many)
    for (int64_t i = 0; i < s.n; i++) p->n += s.p[i] == ',';
  p->path = tpl_array(x, Path, p->n);
  if (attribute.kind == V_MISSING || attribute.kind == V_NONE) return p;
  if (!is_str(attribute)) {
    p->path[0].part = tpl_array(x, Value, 1);
    p->path[0].part[0] = attribute;
    p->path[0].n = 1;
    return p;
  }
  int64_t from = 0, k = 0;
  for (int64_t i = 0; i <= s.n; i++) {
    if (i < s.n && !(many && s.p[i] == ',')) continue;
    p->path[k++] = path_of(x, (Str){s.p + from, i - from});
    from = i + 1;
  }
  return p;
}

static Value fold_case(Tpl *x, Value v) {
  const FnRow *lower = str_method_find(STR("lower"));
  return is_str(v) ? lower->fn(x, v, NULL) : v;
}

static Value one_path(Tpl *x, const AttrPath *p, const Path *path, Value v) {
  for (int64_t i = 0; i < path->n; i++) {
    v = v_item(x, v, path->part[i]);
    if (v.kind == V_UNDEF && p->dflt.kind != V_MISSING && p->dflt.kind != V_NONE) v = p->dflt;
  }
  return p->fold ? fold_case(x, v) : v;
}

Value attr_path_get(Tpl *x, const AttrPath *p, Value v) {
  if (!p->many) return one_path(x, p, &p->path[0], v);
  Value *key = tpl_array(x, Value, p->n);
  for (int64_t i = 0; i < p->n; i++) key[i] = one_path(x, p, &p->path[i], v);
  return v_items(x, V_LIST, key, p->n);
}

// ---- stepping ----

static void prepare(Tpl *x, Iter *it) {
  if (it->started) return;
  it->started = true;
  if (it->kind == ITER_SELECT || it->kind == ITER_MAP) {
    it->done = !v_true(x, it->source);
    if (it->done) return;
    iter_prepare(x, it);
  }
  it->from = iter_of(x, it->source);
}

static bool map_next(Tpl *x, Iter *it, Value *out) {
  Value v;
  if (!iter_next(x, it->from, &v)) return false;
  if (it->path)
    *out = attr_path_get(x, it->path, v);
  else
    *out = fn_call(x, it->fn, v, &it->args);
  return true;
}

static bool select_next(Tpl *x, Iter *it, Value *out) {
  for (Value v; iter_next(x, it->from, &v);) {
    Value of = it->path ? attr_path_get(x, it->path, v) : v;
    bool ok = v_true(x, it->raw_true ? of : fn_call(x, it->fn, of, &it->args));
    if (ok == it->negate) continue;
    *out = v;
    return true;
  }
  return false;
}

static bool batch_next(Tpl *x, Iter *it, Value *out) {
  Value l = v_items(x, V_LIST, NULL, 0), item;
  if (it->fill.kind == V_MISSING || it->count < 0) it->fill = v_none();
  // An item that was read for the next batch waits in `seen`'s place: `v`.
  if (it->v) {
    l = v_items(x, V_LIST, (Value *)it->v, 1);
    it->v = NULL;
  }
  while (iter_next(x, it->from, &item)) {
    Value *one = tpl_array(x, Value, 1);
    one[0] = item;
    if (l.l->n == it->count) {
      it->v = one;
      *out = l;
      return true;
    }
    l = items_join(x, l, v_items(x, V_LIST, one, 1));
  }
  if (!l.l->n) return false;
  if (it->fill.kind != V_NONE && l.l->n < it->count) {
    int64_t more = it->count - l.l->n;
    Value *fill = tpl_array(x, Value, more);
    for (int64_t i = 0; i < more; i++) fill[i] = it->fill;
    l = items_join(x, l, v_items(x, V_LIST, fill, more));
  }
  *out = l;
  return true;
}

static bool unique_next(Tpl *x, Iter *it, Value *out) {
  for (Value v; iter_next(x, it->from, &v);) {
    Value key = attr_path_get(x, it->path, v);
    (void)need_hash(x, key);
    if (dict_get(x, it->seen, key)) continue;
    dict_put(x, it->seen, key, v_none());
    *out = v;
    return true;
  }
  return false;
}

static bool slices_next(Tpl *x, Iter *it, Value *out) {
  if (!it->v) {
    Value all = iter_rest(x, it->from);
    it->v = all.l->v ? all.l->v : tpl_array(x, Value, 1);
    it->n = all.l->n;
    if (!it->count) tpl_fail(x, "division by zero");
  }
  if (it->pos >= it->count) return false;
  int64_t each = it->n / it->count, extra = it->n % it->count, k = it->pos++;
  int64_t from = k * each + MIN(k, extra), n = each + (k < extra);
  Value *v = tpl_array(x, Value, n + 1);
  if (n) memcpy(v, it->v + from, (size_t)n * sizeof *v);
  if (it->fill.kind != V_MISSING && it->fill.kind != V_NONE && k >= extra) v[n++] = it->fill;
  *out = v_items(x, V_LIST, v, n);
  return true;
}

static bool dict_items_next(Tpl *x, Iter *it, Value *out) {
  if (!it->v) {
    if (it->source.kind == V_UNDEF) return false;
    if (it->source.kind != V_DICT)
      tpl_fail(x, "items needs a mapping, not %s", kind_name(it->source));
    Iter *view = iter_view(x, it->source.d, 'i');
    it->v = view->v;
    it->n = view->n;
  }
  if (it->pos >= it->n) return false;
  *out = it->v[it->pos++];
  return true;
}

static bool computed_next(Tpl *x, Iter *it, Value *out) {
  if (it->kind != ITER_DICT_ITEMS && it->kind != ITER_LOOP_FILTER) prepare(x, it);
  if (it->done) return false;
  switch (it->kind) {
  case ITER_MAP: return map_next(x, it, out);
  case ITER_SELECT: return select_next(x, it, out);
  case ITER_BATCH: return batch_next(x, it, out);
  case ITER_UNIQUE: return unique_next(x, it, out);
  case ITER_SLICES: return slices_next(x, it, out);
  case ITER_DICT_ITEMS: return dict_items_next(x, it, out);
  default: return loop_filter_next(x, it, out);
  }
}

bool iter_next(Tpl *x, Iter *it, Value *out) {
  tpl_spend(x, 1);
  if (it->done) return false;
  if (it->kind == ITER_ITEMS) {
    if (it->pos >= it->n) return false;
    *out = it->v[it->pos++];
    return true;
  }
  if (it->kind == ITER_RANGE) {
    if (it->pos >= it->n) return false;
    *out = v_int(it->source.r->start + it->pos++ * it->source.r->step);
    return true;
  }
  if (it->kind == ITER_CHARS) {
    const char *p = it->p;
    if (p >= it->end) return false;
    (void)utf8_next(&it->p);
    *out = v_str(x, (Str){p, it->p - p});
    return true;
  }
  tpl_enter(x);
  bool more = computed_next(x, it, out);
  it->done = !more;
  tpl_leave(x);
  return more;
}

Value iter_rest(Tpl *x, Iter *it) {
  Value *v = NULL;
  int64_t n = 0, cap = 0;
  for (Value item; iter_next(x, it, &item);) {
    if (n == cap) {
      cap = MAX(8, 2 * cap);
      Value *more = tpl_array(x, Value, cap);
      if (n) memcpy(more, v, (size_t)n * sizeof *v);
      v = more;
    }
    v[n++] = item;
  }
  return v_items(x, V_LIST, v, n);
}

Value v_list_of(Tpl *x, Value v) {
  if (v.kind == V_LIST) return (Value){.kind = V_LIST, .l = v.l};
  return iter_rest(x, iter_of(x, v));
}
