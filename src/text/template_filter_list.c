// template_filter_list.c -- the filters of chat templates that work on sequences.
//
// map, select, reject, selectattr, rejectattr, batch, slice, unique and items give iterators
// (template_iter.c): nothing is computed before it is asked for, as in jinja2.
#include "text/template_impl.h"

static Iter *lazy(Tpl *x, IterKind kind, Value source) {
  Iter *it = tpl_new(x, Iter);
  it->kind = kind;
  it->source = source;
  return it;
}

// ---- one value of many ----

static Value f_first(Tpl *x, Value v, const Value *arg) {
  Value out;
  (void)arg;
  if (iter_next(x, iter_of(x, v), &out)) return out;
  return v_undef(x, "no first item, the sequence was empty");
}

static Value f_last(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  Value out;
  if (is_items(v)) return v.l->n ? v.l->v[v.l->n - 1] : v_undef(x, "no last item");
  Iter *it = iter_reversed(x, v);
  if (!it) tpl_fail(x, "a value of type %s cannot be reversed", kind_name(v));
  if (iter_next(x, it, &out)) return out;
  return v_undef(x, "no last item, the sequence was empty");
}

static Value f_join(Tpl *x, Value v, const Value *arg) {
  Buf b = {0};
  Value d = arg[0].kind == V_MISSING ? v_cstr(x, "") : to_str(x, arg[0]);
  bool attribute = arg[1].kind != V_MISSING && arg[1].kind != V_NONE, first = true;
  AttrPath *path = attribute ? attr_path(x, arg[1], false, false, v_missing()) : NULL;
  Iter *it = iter_of(x, v);
  for (Value item; iter_next(x, it, &item); first = false) {
    if (!first) buf_put(x, &b, str_of_value(d));
    put_str(x, &b, path ? attr_path_get(x, path, item) : item);
  }
  return buf_value(x, &b);
}

static Value f_sum(Tpl *x, Value v, const Value *arg) {
  Value total = arg[1].kind == V_MISSING ? v_int(0) : arg[1];
  bool attribute = arg[0].kind != V_MISSING && arg[0].kind != V_NONE;
  AttrPath *path = attribute ? attr_path(x, arg[0], false, false, v_missing()) : NULL;
  Iter *it = iter_of(x, v);
  if (is_str(total)) tpl_fail(x, "sum does not add strings");
  for (Value item; iter_next(x, it, &item);)
    total = v_binary(x, OP_ADD, total, path ? attr_path_get(x, path, item) : item);
  return total;
}

static Value extreme(Tpl *x, Value v, const Value *arg, bool max) {
  AttrPath *path = attr_path(x, arg[1], false, !opt_true(x, arg[0], false), v_missing());
  Iter *it = iter_of(x, v);
  Value best, item;
  if (!iter_next(x, it, &best)) return v_undef(x, "no aggregated item, the sequence was empty");
  Value best_key = attr_path_get(x, path, best);
  while (iter_next(x, it, &item)) {
    Value key = attr_path_get(x, path, item);
    if (max ? !v_compare(x, OP_GT, key, best_key) : !v_compare(x, OP_LT, key, best_key)) continue;
    best = item;
    best_key = key;
  }
  return best;
}
static Value f_min(Tpl *x, Value v, const Value *arg) { return extreme(x, v, arg, false); }
static Value f_max(Tpl *x, Value v, const Value *arg) { return extreme(x, v, arg, true); }

// ---- sorting ----

typedef struct Keyed {
  Value key, value;
} Keyed;

// Stable, by merging.  With `reverse` equal items keep their order too.
static void sort(Tpl *x, Keyed *v, int64_t n, bool reverse) {
  Keyed *from = v, *to = tpl_array(x, Keyed, n);
  for (int64_t step = 1; step < n; step *= 2) {
    for (int64_t at = 0; at < n; at += 2 * step) {
      int64_t a = at, mid = MIN(at + step, n), b = mid, end = MIN(at + 2 * step, n);
      for (int64_t k = at; k < end; k++) {
        bool right =
            a == mid || (b < end && (reverse ? v_compare(x, OP_LT, from[a].key, from[b].key)
                                             : v_compare(x, OP_LT, from[b].key, from[a].key)));
        to[k] = right ? from[b++] : from[a++];
      }
    }
    Keyed *swap = from;
    from = to;
    to = swap;
  }
  if (from != v && n) memcpy(v, from, (size_t)n * sizeof *v);
}

static Keyed *keyed(Tpl *x, Value list, const AttrPath *path) {
  Keyed *k = tpl_array(x, Keyed, list.l->n);
  for (int64_t i = 0; i < list.l->n; i++)
    k[i] = (Keyed){attr_path_get(x, path, list.l->v[i]), list.l->v[i]};
  return k;
}

static Value values_of(Tpl *x, const Keyed *k, int64_t n) {
  Value *v = tpl_array(x, Value, n);
  for (int64_t i = 0; i < n; i++) v[i] = k[i].value;
  return v_items(x, V_LIST, v, n);
}

static Value f_sort(Tpl *x, Value v, const Value *arg) {
  AttrPath *path = attr_path(x, arg[2], true, !opt_true(x, arg[1], false), v_missing());
  Value list = v_list_of(x, v);
  Keyed *k = keyed(x, list, path);
  sort(x, k, list.l->n, opt_true(x, arg[0], false));
  return values_of(x, k, list.l->n);
}

static Value f_dictsort(Tpl *x, Value v, const Value *arg) {
  bool by_value = false;
  if (arg[1].kind != V_MISSING) {
    by_value = is_str(arg[1]) && str_is(str_of_value(arg[1]), "value");
    if (!by_value && !(is_str(arg[1]) && str_is(str_of_value(arg[1]), "key")))
      tpl_fail(x, "dictsort sorts by 'key' or by 'value'");
  }
  need_defined(x, v);
  if (v.kind != V_DICT) tpl_fail(x, "dictsort needs a mapping, not %s", kind_name(v));
  View view = {v.d, 'i'};
  Value list = v_list_of(x, (Value){.kind = V_VIEW, .view = &view});
  AttrPath *path = attr_path(x, v_int(by_value), false, !opt_true(x, arg[0], false), v_missing());
  Keyed *k = keyed(x, list, path);
  sort(x, k, list.l->n, opt_true(x, arg[2], false));
  return values_of(x, k, list.l->n);
}

static Value group_of(Tpl *x, Value key, Value list) {
  Value *pair = tpl_array(x, Value, 2);
  pair[0] = key;
  pair[1] = list;
  Value t = v_items(x, V_TUPLE, pair, 2);
  ((Items *)t.l)->named = true;
  return t;
}

static Value f_groupby(Tpl *x, Value v, const Value *arg) {
  bool exact = opt_true(x, arg[2], false);
  AttrPath *path = attr_path(x, arg[0], false, !exact, arg[1]);
  AttrPath *shown = attr_path(x, arg[0], false, false, arg[1]);
  Value list = v_list_of(x, v), out = v_items(x, V_LIST, NULL, 0);
  Keyed *k = keyed(x, list, path);
  sort(x, k, list.l->n, false);
  for (int64_t from = 0, to; from < list.l->n; from = to) {
    for (to = from + 1; to < list.l->n; to++)
      if (!v_same(k[from].key, k[to].key) && !v_equal(x, k[from].key, k[to].key)) break;
    Value *one = tpl_array(x, Value, 1);
    Value key = exact ? k[from].key : attr_path_get(x, shown, k[from].value);
    one[0] = group_of(x, key, values_of(x, k + from, to - from));
    out = items_join(x, out, v_items(x, V_LIST, one, 1));
  }
  return out;
}

// ---- lists and iterators ----

static Value f_list(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  if (v.kind != V_LIST) return v_list_of(x, v);
  Items *l = tpl_new(x, Items);
  *l = *v.l;
  return (Value){.kind = V_LIST, .l = l};
}

static Value f_reverse(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  if (is_str(v)) return v_slice(x, v, v_missing(), v_missing(), v_int(-1));
  Iter *it = iter_reversed(x, v);
  if (it) return v_iter(it);
  Value list = v_list_of(x, v);
  return iter_rest(x, iter_reversed(x, list));
}

static Value f_items(Tpl *x, Value v, const Value *arg) {
  (void)arg;
  return v_iter(lazy(x, ITER_DICT_ITEMS, v));
}

static Value f_unique(Tpl *x, Value v, const Value *arg) {
  Iter *it = lazy(x, ITER_UNIQUE, v);
  it->path = attr_path(x, arg[1], false, !opt_true(x, arg[0], false), v_missing());
  it->seen = dict_new(x);
  return v_iter(it);
}

static Value f_batch(Tpl *x, Value v, const Value *arg) {
  Iter *it = lazy(x, ITER_BATCH, v);
  it->count = is_int(arg[0]) ? int_of(arg[0]) : -1;
  if (!is_int(arg[0])) tpl_unsupported(x, "batch with a size that is no integer");
  it->fill = arg[1];
  return v_iter(it);
}

static Value f_slice(Tpl *x, Value v, const Value *arg) {
  Iter *it = lazy(x, ITER_SLICES, v);
  if (!is_int(arg[0])) tpl_unsupported(x, "slice with a number that is no integer");
  it->count = int_of(arg[0]);
  it->fill = arg[1];
  return v_iter(it);
}

// Arguments outlive the call: the iterator asks for them later.
static Args keep(Tpl *x, const Args *args) {
  Args out = {.npos = args->npos, .nkw = args->nkw};
  Value *pos = tpl_array(x, Value, out.npos), *kw = tpl_array(x, Value, out.nkw);
  Str *name = tpl_array(x, Str, out.nkw);
  if (out.npos) memcpy(pos, args->pos, (size_t)out.npos * sizeof *pos);
  if (out.nkw) memcpy(kw, args->kw, (size_t)out.nkw * sizeof *kw);
  if (out.nkw) memcpy(name, args->name, (size_t)out.nkw * sizeof *name);
  out.pos = pos;
  out.kw = kw;
  out.name = name;
  return out;
}

static Value keyword(const Args *args, const char *name) {
  for (int64_t i = 0; i < args->nkw; i++)
    if (str_is(args->name[i], name)) return args->kw[i];
  return v_missing();
}

static const FnRow *need_row(Tpl *x, Value name, bool test) {
  const FnRow *row = NULL;
  if (is_str(name)) row = test ? test_find(str_of_value(name)) : filter_find(str_of_value(name));
  if (!row && is_str(name))
    tpl_fail(x, "no %s named '%.*s'", test ? "test" : "filter", STR_ARG(str_of_value(name)));
  if (!row) tpl_fail(x, "the name of a %s is needed", test ? "test" : "filter");
  if (!row->params) tpl_unsupported(x, "the filter '%s'", row->name);
  return row;
}

static void skip_args(Iter *it, int64_t n) {
  it->args.pos += n;
  it->args.npos = MAX(it->args.npos - n, 0);
}

static void prepare_map(Tpl *x, Iter *it) {
  const Args *args = &it->args;
  Value attribute = keyword(args, "attribute"), dflt = keyword(args, "default");
  if (!args->npos && attribute.kind != V_MISSING) {
    if (args->nkw != 1 + (dflt.kind != V_MISSING)) tpl_fail(x, "map: an unknown argument");
    it->path = attr_path(x, attribute, false, false, dflt);
    return;
  }
  if (!args->npos) tpl_fail(x, "map needs a filter");
  it->fn = need_row(x, args->pos[0], false);
  skip_args(it, 1);
}

// The arguments of map and select are looked at when the first item is asked for.
void iter_prepare(Tpl *x, Iter *it) {
  if (it->kind == ITER_MAP) {
    prepare_map(x, it);
    return;
  }
  if (it->by_attr) {
    if (!it->args.npos) tpl_fail(x, "the name of an attribute is missing");
    it->path = attr_path(x, it->args.pos[0], false, false, v_missing());
    skip_args(it, 1);
  }
  it->raw_true = !it->args.npos;
  if (!it->raw_true) it->fn = need_row(x, it->args.pos[0], true);
  skip_args(it, !it->raw_true);
}

static Value f_map(Tpl *x, Value v, const Args *args) {
  Iter *it = lazy(x, ITER_MAP, v);
  it->args = keep(x, args);
  return v_iter(it);
}

static Value select(Tpl *x, Value v, const Args *args, bool negate, bool attr) {
  Iter *it = lazy(x, ITER_SELECT, v);
  it->negate = negate;
  it->by_attr = attr;
  it->args = keep(x, args);
  return v_iter(it);
}
static Value f_select(Tpl *x, Value v, const Args *args) {
  return select(x, v, args, false, false);
}
static Value f_reject(Tpl *x, Value v, const Args *args) { return select(x, v, args, true, false); }
static Value f_selectattr(Tpl *x, Value v, const Args *args) {
  return select(x, v, args, false, true);
}
static Value f_rejectattr(Tpl *x, Value v, const Args *args) {
  return select(x, v, args, true, true);
}

static const FnRow filter[] = {
    {"batch", "linecount fill_with", 1, f_batch, NULL},
    {"dictsort", "case_sensitive by reverse", 0, f_dictsort, NULL},
    {"first", "", 0, f_first, NULL},
    {"groupby", "attribute default case_sensitive", 1, f_groupby, NULL},
    {"items", "", 0, f_items, NULL},
    {"join", "d attribute", 0, f_join, NULL},
    {"last", "", 0, f_last, NULL},
    {"list", "", 0, f_list, NULL},
    {"map", "*", 0, NULL, f_map},
    {"max", "case_sensitive attribute", 0, f_max, NULL},
    {"min", "case_sensitive attribute", 0, f_min, NULL},
    {"reject", "*", 0, NULL, f_reject},
    {"rejectattr", "*", 0, NULL, f_rejectattr},
    {"reverse", "", 0, f_reverse, NULL},
    {"select", "*", 0, NULL, f_select},
    {"selectattr", "*", 0, NULL, f_selectattr},
    {"slice", "slices fill_with", 1, f_slice, NULL},
    {"sort", "reverse case_sensitive attribute", 0, f_sort, NULL},
    {"sum", "attribute start", 0, f_sum, NULL},
    {"unique", "case_sensitive attribute", 0, f_unique, NULL},
};

const FnRow *filter_list_find(Str name) { return fn_find(filter, ARRAY_LEN(filter), name); }
