// ml_map.c -- looking things up: encoders of labels and categories, and the ops that make and read
// maps.
#include "eval/ml.h"
#include "eval/scalar.h"

#include <math.h>
#include <stdlib.h>

// ---- a table from keys to positions ----

typedef struct Lookup {
  bool text;
  IntMap ints;
  StrMap strings;
} Lookup;

static void lookup_init(Lookup *l, Arena *a, bool text) {
  l->text = text;
  intmap_init(&l->ints, a);
  strmap_init(&l->strings, a);
}

// A number as a key: floats by value, so that 0 and -0 are one key and NaN is a key like any other.
static uint64_t number_key(const Value *v, int64_t i) {
  if (!dtype_is_float(v->dtype)) return (uint64_t)val_i64(v, i);
  double d = val_f64(v, i);
  uint64_t bits;
  if (d == 0) d = 0;
  if (d != d) d = NAN;
  memcpy(&bits, &d, sizeof(bits));
  return bits;
}

// Position of element i of v among the keys, -1 when it is not one.
static int64_t lookup_find(const Lookup *l, const Value *v, int64_t i) {
  uint64_t at;
  if (l->text) return (int64_t)(uintptr_t)strmap_get(&l->strings, val_str(v, i)) - 1;
  return intmap_get(&l->ints, number_key(v, i), &at) ? (int64_t)at : -1;
}
static void add_string(Lookup *l, Str s, int64_t at) {
  strmap_put(&l->strings, s, (void *)(uintptr_t)(at + 1));
}
static void add_ints(Lookup *l, Ints k) {
  for (int64_t i = 0; i < k.n; i++) intmap_put(&l->ints, (uint64_t)k.v[i], (uint64_t)i);
}
static void add_strings(Lookup *l, Strs k) {
  for (int64_t i = 0; i < k.n; i++) add_string(l, k.v[i], i);
}

// ---- label_encoder, category_mapper, one_hot_encoder ----

static tenon_status check_encoder(Eval *e) {
  static const char *const name[] = {"x", "keys", "values", "default"};
  for (int i = 0; i < 4; i++) TRY(eval_need(e, i, name[i], 0));
  const Value *x = e->in[0], *k = e->in[1], *v = e->in[2], *d = e->in[3];
  if (x->dtype != k->dtype || v->dtype != d->dtype || k->n != v->n || d->n != 1)
    return eval_fail(
        e, TENON_EINVAL,
        "x is %s, %lld keys %s, %lld values %s, %lld defaults %s: types and counts must agree",
        dtype_name(x->dtype), (long long)k->n, dtype_name(k->dtype), (long long)v->n,
        dtype_name(v->dtype), (long long)d->n, dtype_name(d->dtype));
  if (dtype_class(x->dtype) == DC_COMPLEX)
    return eval_fail(e, TENON_EINVAL, "keys are %s", dtype_name(x->dtype));
  return TENON_OK;
}

tenon_status eval_label_encoder(Eval *e) {
  TRY(check_encoder(e));
  const Value *x = e->in[0], *keys = e->in[1], *values = e->in[2], *dflt = e->in[3];
  Lookup l;
  Value *y;
  lookup_init(&l, &e->run->scratch, keys->dtype == DT_STRING);
  for (int64_t i = 0; i < keys->n; i++) {  // the last of equal keys stands
    if (l.text)
      add_string(&l, val_str(keys, i), i);
    else
      intmap_put(&l.ints, number_key(keys, i), (uint64_t)i);
  }
  TRY(eval_out(e, 0, values->dtype, x->rank, x->dims, &y));
  for (int64_t i = 0; i < x->n; i++) {
    int64_t at = lookup_find(&l, x, i);
    copy_elems(y->dtype, y->data, i, at < 0 ? dflt->data : values->data, MAX(at, 0), 1);
  }
  return TENON_OK;
}

tenon_status eval_category_mapper(Eval *e) {
  const category_mapper_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  bool text = x->dtype == DT_STRING;
  if ((!text && x->dtype != DT_I64) || at->cats_int64s.n != at->cats_strings.n)
    return eval_fail(e, TENON_EINVAL, "x is %s, with %lld integers and %lld strings",
                     dtype_name(x->dtype), (long long)at->cats_int64s.n,
                     (long long)at->cats_strings.n);
  Lookup l;
  Value *y;
  lookup_init(&l, &e->run->scratch, text);
  add_ints(&l, at->cats_int64s);
  add_strings(&l, at->cats_strings);
  TRY(eval_out(e, 0, text ? DT_I64 : DT_STRING, x->rank, x->dims, &y));
  for (int64_t i = 0; i < x->n; i++) {
    int64_t k = lookup_find(&l, x, i);
    if (text)
      ((int64_t *)y->data)[i] = k < 0 ? at->default_int64 : at->cats_int64s.v[k];
    else
      ((Str *)y->data)[i] = run_string(e->run, k < 0 ? at->default_string : at->cats_strings.v[k]);
  }
  return TENON_OK;
}

tenon_status eval_one_hot_encoder(Eval *e) {
  const one_hot_encoder_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  bool text = at->cats_strings.n > 0;
  int64_t n = text ? at->cats_strings.n : at->cats_int64s.n, dims[MAX_RANK];
  if (text != (x->dtype == DT_STRING) || x->rank >= MAX_RANK || dtype_class(x->dtype) == DC_COMPLEX)
    return eval_fail(e, TENON_EINVAL, "x is %s of rank %d, the categories are %s",
                     dtype_name(x->dtype), x->rank, text ? "strings" : "integers");
  Lookup l;
  Value *y;
  lookup_init(&l, &e->run->scratch, text);
  add_ints(&l, at->cats_int64s);
  add_strings(&l, at->cats_strings);
  memcpy(dims, x->dims, sizeof(dims));
  dims[x->rank] = n;
  TRY(eval_out(e, 0, DT_F32, x->rank + 1, dims, &y));
  for (int64_t i = 0; i < x->n; i++) {
    uint64_t v;
    int64_t k = -1;
    if (text)
      k = lookup_find(&l, x, i);
    else if (intmap_get(&l.ints, (uint64_t)val_i64(x, i), &v))  // floats are cut to integers
      k = (int64_t)v;
    if (k < 0 && !at->zeros)
      return eval_fail(e, TENON_EINVAL, "element %lld is no category", (long long)i);
    if (k >= 0) ((float *)y->data)[i * n + k] = 1;
  }
  return TENON_OK;
}

// ---- maps ----

static tenon_status make_key_tensor(Eval *e, const zip_map_attrs *at, Value **out) {
  bool text = at->classlabels_strings.n > 0;
  int64_t n = text ? at->classlabels_strings.n : at->classlabels_int64s.n;
  TRY(value_tensor(e->run, e->at, text ? DT_STRING : DT_I64, 1, &n, out));
  for (int64_t i = 0; i < n; i++) {
    if (text)
      ((Str *)(*out)->data)[i] = run_string(e->run, at->classlabels_strings.v[i]);
    else
      ((int64_t *)(*out)->data)[i] = at->classlabels_int64s.v[i];
  }
  return TENON_OK;
}

tenon_status eval_zip_map(Eval *e) {
  int64_t rows, columns;
  TRY(ml_matrix(e, 0, &rows, &columns));
  const Value *x = e->in[0];
  Value *keys, *seq;
  TRY(make_key_tensor(e, e->attrs, &keys));
  if (keys->n != columns || x->dtype != DT_F32)
    return eval_fail(e, TENON_EINVAL, "x is %s with %lld columns, there are %lld keys",
                     dtype_name(x->dtype), (long long)columns, (long long)keys->n);
  TRY(value_sequence(e->run, TENON_DTYPE_NONE, rows, &seq));
  e->out[0] = seq;
  for (int64_t r = 0; r < rows; r++) {
    Value *values;
    TRY(value_tensor(e->run, e->at, DT_F32, 1, &columns, &values));
    copy_elems(DT_F32, values->data, 0, x->data, r * columns, columns);
    TRY(value_map(e->run, keys, values, &seq->items[r]));
    value_release(values);
  }
  value_release(keys);
  return TENON_OK;
}

static tenon_status need_map(Eval *e, const Value **keys, const Value **values) {
  const Value *m = eval_in(e, 0);
  if (!m || m->kind != VK_MAP || m->nitems != 2 || m->items[0]->kind != VK_TENSOR ||
      m->items[1]->kind != VK_TENSOR || m->items[0]->n != m->items[1]->n)
    return eval_fail(e, TENON_EINVAL, "input 0 must be a map from keys to scalars");
  *keys = m->items[0];
  *values = m->items[1];
  return TENON_OK;
}

tenon_status eval_dict_vectorizer(Eval *e) {
  const dict_vectorizer_attrs *at = e->attrs;
  const Value *keys, *values;
  TRY(need_map(e, &keys, &values));
  bool text = at->string_vocabulary.n > 0;
  int64_t n = text ? at->string_vocabulary.n : at->int64_vocabulary.n;
  if (keys->n && keys->dtype != (text ? DT_STRING : DT_I64))
    return eval_fail(e, TENON_EINVAL, "the keys are %s, the vocabulary is %s",
                     dtype_name(keys->dtype), text ? "strings" : "integers");
  Lookup l;
  Value *y;
  lookup_init(&l, &e->run->scratch, text);
  add_ints(&l, at->int64_vocabulary);
  add_strings(&l, at->string_vocabulary);
  TRY(eval_out(e, 0, values->dtype, 2, (int64_t[]){1, n}, &y));
  for (int64_t i = 0; i < keys->n; i++) {
    int64_t k = lookup_find(&l, keys, i);
    if (k >= 0) copy_elems(y->dtype, y->data, k, values->data, i, 1);
  }
  return TENON_OK;
}

typedef struct Entry {
  int64_t key, at;
} Entry;
static int compare_entries(const void *a, const void *b) {
  const Entry *x = a, *y = b;
  return x->key < y->key ? -1 : x->key > y->key;
}

// The map's values as a row: in order of their keys, or each at its key (the rest as `values`
// zeroes them).
static tenon_status lay_out(Eval *e, const Value *keys, const Value *values,
                            const cast_map_attrs *at, Value **out) {
  bool sparse = at->map_form == 1;
  int64_t dims[2] = {1, sparse ? at->max_map : keys->n};
  Entry *entry = arena_array(&e->run->scratch, Entry, keys->n);
  for (int64_t i = 0; i < keys->n; i++) entry[i] = (Entry){val_i64(keys, i), i};
  if (keys->n) qsort(entry, (size_t)keys->n, sizeof(*entry), compare_entries);
  TRY(value_tensor(e->run, e->at, values->dtype, 2, dims, out));
  for (int64_t i = 0; sparse && values->dtype == DT_STRING && i < dims[1]; i++)
    ((Str *)(*out)->data)[i] = STR("0");
  for (int64_t i = 0; i < keys->n; i++) {
    int64_t to = sparse ? entry[i].key : i;
    if (to < 0 || to >= dims[1])
      return eval_fail(e, TENON_EINVAL, "key %lld is out of range for a row of %lld", (long long)to,
                       (long long)dims[1]);
    copy_elems(values->dtype, (*out)->data, to, values->data, entry[i].at, 1);
  }
  return TENON_OK;
}

tenon_status eval_cast_map(Eval *e) {
  static const DType type[] = {DT_F32, DT_STRING, DT_I64};
  const cast_map_attrs *at = e->attrs;
  const Value *keys, *values;
  TRY(need_map(e, &keys, &values));
  if (keys->n && keys->dtype != DT_I64)
    return eval_fail(e, TENON_EINVAL, "the keys are %s, must be i64", dtype_name(keys->dtype));
  Value *row;
  TRY(lay_out(e, keys, values, at, &row));
  const Value *in[1] = {row};
  Eval cast = *e;
  cast.in = in;
  cast.nin = 1;
  cast.attrs = &(cast_attrs){.to = type[at->cast_to], .saturate = true};
  TRY(eval_cast(&cast));
  value_release(row);
  return TENON_OK;
}
