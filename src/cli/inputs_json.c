// inputs_json.c -- inputs from JSON files, in the form that `run --output F.json` writes
// (outputs.h).
//
// How:        a value is read by the type of its input: nested lists are a tensor or a sequence, an
// object a map, null an empty optional; "NaN" and "Infinity" are numbers of float tensors.
// Needs:      a graph whose inputs have types; a tensor of unknown rank takes that of the lists.
// Guarantees: numbers that the element type does not hold, and lists of unequal lengths, are
// refused with the input's name.  Nesting is bounded by the reader of JSON and by MAX_RANK.
#include "cli/inputs_json.h"

#include "base/json.h"

#include <math.h>

typedef struct JsonInput {
  Inputs *in;
  Run *run;
  const Node *param;
  const char *file;
} JsonInput;

static const char *const word[] = {
    [JSON_NULL] = "null",       [JSON_BOOL] = "a bool",   [JSON_INT] = "a number",
    [JSON_FLOAT] = "a number",  [JSON_STRING] = "a text", [JSON_ARRAY] = "a list",
    [JSON_OBJECT] = "an object"};

static tenon_status wrong(const JsonInput *j, const char *needed, const Type *t, const Json *x) {
  return fail(j->run->diag, TENON_EINVAL, (Where){.file = j->file},
              "input '%s': %s is needed for %s, not %s", j->param->name, needed,
              type_text(j->in->arena, t), word[x->kind]);
}

// ---- elements ----

static bool real_of(const Json *x, double *out) {
  static const struct {
    const char *name;
    double value;
  } special[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
  if (x->kind == JSON_INT || x->kind == JSON_FLOAT) {
    *out = x->f;
    return true;
  }
  for (int i = 0; x->kind == JSON_STRING && i < ARRAY_LEN(special); i++)
    if (str_eq(x->s, str_of(special[i].name))) {
      *out = special[i].value;
      return true;
    }
  return false;
}

static bool fits(DType t, int64_t x) {
  int bits = dtype_bits(t);
  if (dtype_class(t) == DC_UINT) return x >= 0 && (bits > 62 || x < (int64_t)1 << bits);
  return bits > 63 || (x >= -((int64_t)1 << (bits - 1)) && x < (int64_t)1 << (bits - 1));
}

static bool put_json(JsonInput *j, Value *v, int64_t i, const Json *x) {
  double part[2];
  switch (dtype_class(v->dtype)) {
  case DC_BOOL:
    if (x->kind == JSON_BOOL) val_put_i64(v, i, x->b);
    return x->kind == JSON_BOOL;
  case DC_INT:
  case DC_UINT:
    if (x->kind != JSON_INT || !fits(v->dtype, x->i)) return false;
    val_put_i64(v, i, x->i);
    return true;
  case DC_FLOAT:
    if (!real_of(x, &part[0])) return false;
    val_put_f64(v, i, part[0]);
    return true;
  case DC_COMPLEX:
    if (x->kind != JSON_ARRAY || x->n != 2) return false;
    for (int k = 0; k < 2; k++) {
      if (!real_of(&x->item[k], &part[k])) return false;
      put_f64(v->dtype == DT_C64 ? DT_F32 : DT_F64, v->data, 2 * i + k, part[k]);
    }
    return true;
  case DC_STRING:
    if (x->kind == JSON_STRING) ((Str *)v->data)[i] = str_of(str_copy(j->in->arena, x->s));
    return x->kind == JSON_STRING;
  case DC_NONE: break;
  }
  return false;
}

static tenon_status put_checked(JsonInput *j, Value *v, int64_t i, const Json *x) {
  if (put_json(j, v, i, x)) return TENON_OK;
  return fail(j->run->diag, TENON_EINVAL, (Where){.file = j->file},
              "input '%s': element %lld is %s that %s does not hold", j->param->name, (long long)i,
              word[x->kind], dtype_name(v->dtype));
}

// ---- tensors ----

static tenon_status fill(JsonInput *j, Value *v, const Json *x, int axis, int64_t *at) {
  if (axis == v->rank) return put_checked(j, v, (*at)++, x);
  if (x->kind != JSON_ARRAY || x->n != v->dims[axis])
    return fail(j->run->diag, TENON_EINVAL, (Where){.file = j->file},
                "input '%s': before element %lld, %s where a list of %lld is needed",
                j->param->name, (long long)*at, word[x->kind], (long long)v->dims[axis]);
  for (int64_t i = 0; i < x->n; i++) TRY(fill(j, v, &x->item[i], axis + 1, at));
  return TENON_OK;
}

static int depth_of(const Json *x) {
  int n = 0;
  for (; x->kind == JSON_ARRAY; x = &x->item[0], n++)
    if (!x->n) return n + 1;
  return n;
}

static tenon_status tensor(JsonInput *j, const Type *t, const Json *x, Value **out) {
  int64_t dims[MAX_RANK], at = 0;
  int rank = t->rank, pair = dtype_class(t->dtype) == DC_COMPLEX;
  const Json *first = x;
  if (rank < 0) rank = MAX(depth_of(x) - pair, 0);
  if (!t->dtype || rank > MAX_RANK) return wrong(j, "an array", t, x);
  for (int k = 0; k < rank; k++) {
    bool known = k < t->rank && t->dims[k]->kind == IE_CONST;
    if (first && first->kind != JSON_ARRAY) return wrong(j, "a nested list", t, first);
    // Behind an empty list the sizes are not told.
    dims[k] = first ? first->n : known ? t->dims[k]->value : 0;
    first = first && first->n ? &first->item[0] : NULL;
  }
  Where where = {.node = j->param->name, .op = "input"};
  TRY(value_tensor(j->run, where, t->dtype, rank, dims, out));
  return (*out)->n ? fill(j, *out, x, 0, &at) : TENON_OK;
}

// ---- the rest ----

static tenon_status value(JsonInput *j, const Type *t, const Json *x, Value **out);

// Keys of JSON are text.  What a compiled model's keys are is not known: integers where all are.
static tenon_status keys_of(JsonInput *j, const Type *t, const Json *x, Value **out) {
  int64_t number, n = 0;
  while (n < x->n && str_to_i64(x->key[n], &number)) n++;
  bool text = t->dtype == DT_STRING || (j->in->program && n < x->n);
  TRY(value_tensor(j->run, NOWHERE, text ? DT_STRING : DT_I64, 1, &x->n, out));
  for (int64_t i = 0; i < x->n; i++) {
    if (text)
      ((Str *)(*out)->data)[i] = str_of(str_copy(j->in->arena, x->key[i]));
    else if (str_to_i64(x->key[i], &number))
      val_put_i64(*out, i, number);
    else
      return fail(j->run->diag, TENON_EINVAL, (Where){.file = j->file},
                  "input '%s': the key '%.*s' is no integer", j->param->name, STR_ARG(x->key[i]));
  }
  return TENON_OK;
}

static tenon_status map(JsonInput *j, const Type *t, const Json *x, Value **out) {
  Value *keys, *values;
  bool scalars = t->elem->kind == TK_TENSOR;
  if (x->kind != JSON_OBJECT) return wrong(j, "an object", t, x);
  TRY(keys_of(j, t, x, &keys));
  if (scalars && !t->elem->dtype) return wrong(j, "a known type", t, x);
  if (scalars)
    TRY(value_tensor(j->run, NOWHERE, t->elem->dtype, 1, &x->n, &values));
  else
    TRY(value_sequence(j->run, TENON_DTYPE_NONE, x->n, &values));
  for (int64_t i = 0; i < x->n; i++) {
    if (scalars)
      TRY(put_checked(j, values, i, &x->item[i]));
    else
      TRY(value(j, t->elem, &x->item[i], &values->items[i]));
  }
  TRY(value_map(j->run, keys, values, out));
  value_release(keys);
  value_release(values);
  return TENON_OK;
}

static tenon_status sequence(JsonInput *j, const Type *t, const Json *x, Value **out) {
  DType dtype = t->elem->kind == TK_TENSOR ? t->elem->dtype : TENON_DTYPE_NONE;
  if (x->kind != JSON_ARRAY) return wrong(j, "a list", t, x);
  TRY(value_sequence(j->run, dtype, x->n, out));
  for (int64_t i = 0; i < x->n; i++) TRY(value(j, t->elem, &x->item[i], &(*out)->items[i]));
  return TENON_OK;
}

static tenon_status optional(JsonInput *j, const Type *t, const Json *x, Value **out) {
  Value *held = NULL;
  if (x->kind != JSON_NULL) TRY(value(j, t->elem, x, &held));
  DType dtype = t->elem->kind == TK_TENSOR ? t->elem->dtype : TENON_DTYPE_NONE;
  TRY(value_optional(j->run, dtype, held, out));
  value_release(held);
  return TENON_OK;
}

static tenon_status value(JsonInput *j, const Type *t, const Json *x, Value **out) {
  switch ((TypeKind)t->kind) {
  case TK_TENSOR: return tensor(j, t, x, out);
  case TK_SEQUENCE: return sequence(j, t, x, out);
  case TK_OPTIONAL: return optional(j, t, x, out);
  case TK_MAP: return map(j, t, x, out);
  case TK_NONE: break;
  }
  return fail(j->run->diag, TENON_EUNSUPPORTED, (Where){.file = j->file},
              "the type of input '%s' is not known; give an array", j->param->name);
}

bool is_json_path(const char *path) { return str_ends(str_of(path), ".json"); }

tenon_status json_input_read(Inputs *in, Diag *d, const char *path, Json *out) {
  File f;
  TRY(file_open(path, &f, d));
  vec_push(in->arena, in->files, f);
  Where base = d->base;
  d->base.file = path;
  tenon_status s = json_parse(in->arena, (Str){(const char *)f.bytes, f.size}, d, out);
  d->base = base;
  return s;
}

tenon_status json_input_value(Inputs *in, Run *run, const Node *param, const char *path,
                              const Json *x, Value **out) {
  JsonInput j = {.in = in, .run = run, .param = param, .file = path};
  return value(&j, type_of(param), x, out);
}
