// tensor.c -- KServe's element types, and elements from and to JSON (tensor.h).
#include "serve/kserve/tensor.h"

#include "serve/limits.h"

#include <math.h>

static const KsType type_row[] = {
    {DT_BOOL, "BOOL", 1, 1, 1},     {DT_U8, "UINT8", 1, 2, 4},   {DT_U16, "UINT16", 2, 3, 4},
    {DT_U32, "UINT32", 4, 4, 4},    {DT_U64, "UINT64", 8, 5, 5}, {DT_I8, "INT8", 1, 6, 2},
    {DT_I16, "INT16", 2, 7, 2},     {DT_I32, "INT32", 4, 8, 2},  {DT_I64, "INT64", 8, 9, 3},
    {DT_F16, "FP16", 2, 10, 0},     {DT_F32, "FP32", 4, 11, 6},  {DT_F64, "FP64", 8, 12, 7},
    {DT_STRING, "BYTES", 0, 13, 8}, {DT_BF16, "BF16", 2, 14, 0},
};

const KsType *ks_type(DType t) {
  for (int64_t i = 0; i < ARRAY_LEN(type_row); i++)
    if (type_row[i].dtype == t) return &type_row[i];
  return NULL;
}

const KsType *ks_type_named(Str name) {
  for (int64_t i = 0; i < ARRAY_LEN(type_row); i++)
    if (str_is(name, type_row[i].name)) return &type_row[i];
  return NULL;
}

// ---- sizes ----
tenon_status ks_count(KsTensor *t, Diag *d) {
  t->count = 1;
  for (int i = 0; i < t->rank; i++) {
    if (t->shape[i] < 0)
      return fail(d, TENON_EINVAL, NOWHERE, "'%.*s': size %d of the shape is %lld",
                  STR_ARG(t->name), i, (long long)t->shape[i]);
    if (!ck_mul(t->count, t->shape[i], &t->count) || t->count > SERVE_ELEMENTS)
      return fail(d, TENON_EINVAL, NOWHERE, "'%.*s': the shape has more than %lld elements",
                  STR_ARG(t->name), (long long)SERVE_ELEMENTS);
  }
  return TENON_OK;
}

int64_t ks_strings_bytes(const char *p, int64_t size, int64_t n) {
  int64_t at = 0;
  for (int64_t i = 0; i < n; i++) {
    uint32_t bytes;
    if (size - at < 4) return -1;
    memcpy(&bytes, p + at, 4);
    if (size - at - 4 < (int64_t)bytes) return -1;
    at += 4 + (int64_t)bytes;
  }
  return at;
}

tenon_status ks_check_data(const KsTensor *t, Diag *d) {
  if (!t->type->bytes) {
    int64_t used = ks_strings_bytes(t->data.p, t->data.n, t->count);
    if (used == t->data.n) return TENON_OK;
    return fail(d, TENON_EINVAL, NOWHERE,
                "'%.*s': its %lld bytes are not %lld elements of BYTES, each behind its length",
                STR_ARG(t->name), (long long)t->data.n, (long long)t->count);
  }
  int64_t need = t->count * t->type->bytes;
  if (t->data.n != need)
    return fail(d, TENON_EINVAL, NOWHERE, "'%.*s': it has %lld bytes; %lld elements of %s are %lld",
                STR_ARG(t->name), (long long)t->data.n, (long long)t->count, t->type->name,
                (long long)need);
  if (t->type->dtype != DT_BOOL) return TENON_OK;
  for (int64_t i = 0; i < t->data.n; i++)
    if ((uint8_t)t->data.p[i] > 1)
      return fail(d, TENON_EINVAL, NOWHERE, "'%.*s': element %lld of BOOL is %d, not 0 or 1",
                  STR_ARG(t->name), (long long)i, (uint8_t)t->data.p[i]);
  return TENON_OK;
}

// ---- elements from JSON ----
typedef struct Elements {
  Arena *arena;
  const char *p, *end;
  KsTensor *t;
  Diag *diag;
  StrBuf strings;  // of BYTES
  char *out;       // of others
  int64_t n;
} Elements;

static tenon_status not_element(const Elements *e, const char *what) {
  return fail(e->diag, TENON_EINVAL, NOWHERE, "'%.*s': element %lld of the data %s",
              STR_ARG(e->t->name), (long long)e->n, what);
}

static void spaces(Elements *e) {
  while (e->p < e->end && strchr(" \t\r\n", *e->p) && *e->p) e->p++;
}

// The text of a scalar: up to what ends it.
static Str scalar_text(Elements *e) {
  const char *from = e->p;
  if (e->p < e->end && *e->p == '"') {
    for (e->p++; e->p < e->end && *e->p != '"'; e->p++)
      if (*e->p == '\\') e->p++;
    e->p = MIN(e->p + 1, e->end);
  } else {
    while (e->p < e->end && !strchr(" \t\r\n,[]{}\"", *e->p)) e->p++;
  }
  return (Str){from, e->p - from};
}

// Short decimals are exact in a double's arithmetic: at most 15 digits, and a power of ten up
// to 22.
static bool short_decimal(Str s, double *out) {
  static const double power[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  int64_t i = 0, digits = 0, after = 0, v = 0;
  bool minus = s.n && s.p[0] == '-', point = false;
  for (i = minus; i < s.n; i++) {
    char c = s.p[i];
    if (c == '.' && !point && digits && i + 1 < s.n) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9' || ++digits > 15) return false;
    if (digits == 2 && !point && v == 0) return false;  // a leading zero
    v = v * 10 + (c - '0');
    after += point;
  }
  if (!digits) return false;
  *out = (double)v / power[after];
  if (minus) *out = -*out;
  return true;
}

static bool whole_u64(Str s, uint64_t *out) {
  *out = 0;
  for (int64_t i = 0; i < s.n; i++)
    if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(*out, 10, out) ||
        __builtin_add_overflow(*out, (uint64_t)(s.p[i] - '0'), out))
      return false;
  return s.n && (s.n == 1 || s.p[0] != '0');
}

// A whole number or a truth value within the range of the type.
static tenon_status put_whole(Elements *e, const Json *j) {
  DType t = e->t->type->dtype;
  int bits = dtype_bits(t);
  bool sign = dtype_class(t) == DC_INT, truth = t == DT_BOOL;
  if (j->kind != JSON_INT && !(truth && j->kind == JSON_BOOL))
    return not_element(e, truth ? "is neither true nor false" : "is no whole number");
  int64_t v = j->kind == JSON_BOOL ? j->b : j->i;
  int64_t most = truth ? 1 : (int64_t)(UINT64_MAX >> (64 - bits + sign));
  if (v > most || v < (sign ? -most - 1 : 0)) return not_element(e, "is beyond the type's range");
  put_i64(t, e->out, e->n, v);
  return TENON_OK;
}

static tenon_status read_number(Elements *e, Str text) {
  DType t = e->t->type->dtype;
  Json j = {.kind = JSON_FLOAT};
  Diag quiet;
  uint64_t big;
  if (t == DT_U64) {
    if (!whole_u64(text, &big)) return not_element(e, "is no whole number of UINT64");
    memcpy(e->out + 8 * e->n, &big, 8);
    return TENON_OK;
  }
  if (!dtype_is_float(t) || !short_decimal(text, &j.f)) {
    diag_init(&quiet);
    if (json_parse(e->arena, text, &quiet, &j)) return not_element(e, "is no number");
  }
  if (!dtype_is_float(t)) return put_whole(e, &j);
  if (j.kind != JSON_INT && j.kind != JSON_FLOAT) return not_element(e, "is no number");
  put_f64(t, e->out, e->n, j.f);
  return isfinite(get_f64(t, e->out, e->n)) ? TENON_OK
                                            : not_element(e, "is beyond the type's range");
}

static tenon_status read_element(Elements *e) {
  Str text = scalar_text(e);
  if (!text.n) return not_element(e, "is no value");
  if (e->n == e->t->count)
    return fail(e->diag, TENON_EINVAL, NOWHERE,
                "'%.*s': the data has more than the %lld elements of its shape",
                STR_ARG(e->t->name), (long long)e->t->count);
  if (!e->t->type->bytes) {
    Json j;
    Diag quiet;
    diag_init(&quiet);
    if (json_parse(e->arena, text, &quiet, &j) || j.kind != JSON_STRING)
      return not_element(e, "is no string of JSON");
    uint32_t n = (uint32_t)j.s.n;
    strbuf_put(&e->strings, (Str){(const char *)&n, 4});
    strbuf_put(&e->strings, j.s);
  } else {
    TRY(read_number(e, text));
  }
  e->n++;
  return TENON_OK;
}

// The array and all within it.  `value`: an element or an array must follow, `closed`: a comma or
// the end of the array.
static tenon_status read_array(Elements *e) {
  int depth = 0;
  bool value = true, first = true;
  for (;;) {
    spaces(e);
    char c = e->p < e->end ? *e->p : 0;
    if (value && c == '[') {
      if (depth++ == TENON_MAX_RANK) return not_element(e, "is nested too deep");
      e->p++;
      first = true;
    } else if (c == ']' && depth && (!value || first)) {
      e->p++;
      depth--;
      value = first = false;
      if (!depth) return TENON_OK;
    } else if (c == ',' && depth && !value) {
      e->p++;
      value = true;
      first = false;
    } else if (value && depth) {
      TRY(read_element(e));
      value = first = false;
    } else {
      return not_element(e, "is not part of an array");
    }
  }
}

tenon_status ks_read_json(Arena *a, Str text, KsTensor *t, Diag *d) {
  Elements e = {.arena = a, .p = text.p, .end = text.p + text.n, .t = t, .diag = d};
  // Each element takes two characters, so the room is bounded by the text.
  if (t->count > text.n)
    return fail(d, TENON_EINVAL, NOWHERE,
                "'%.*s': the data has fewer elements than its shape, %lld", STR_ARG(t->name),
                (long long)t->count);
  strbuf_init(&e.strings, a);
  if (t->type->bytes) e.out = arena_alloc_array(a, MAX(t->count, 1), t->type->bytes);
  TRY(read_array(&e));
  spaces(&e);
  if (e.p != e.end || e.n != t->count)
    return fail(d, TENON_EINVAL, NOWHERE, "'%.*s': the data has %lld elements; its shape %lld",
                STR_ARG(t->name), (long long)e.n, (long long)t->count);
  t->data = t->type->bytes ? (Str){e.out, t->count * t->type->bytes} : strbuf_str(&e.strings);
  return TENON_OK;
}

// ---- elements to JSON ----
static void write_strings(JsonWriter *w, const KsTensor *t) {
  int64_t at = 0;
  for (int64_t i = 0; i < t->count; i++) {
    uint32_t n;
    memcpy(&n, t->data.p + at, 4);
    json_str(w, (Str){t->data.p + at + 4, (int64_t)n});
    at += 4 + (int64_t)n;
  }
}

void ks_write_json(JsonWriter *w, const KsTensor *t) {
  json_begin_array(w);
  DType type = t->type->dtype;
  if (!t->type->bytes) write_strings(w, t);
  for (int64_t i = 0; t->type->bytes && i < t->count; i++) {
    if (type == DT_BOOL) {
      json_bool(w, t->data.p[i] != 0);
    } else if (type == DT_U64) {
      uint64_t v;
      memcpy(&v, t->data.p + 8 * i, 8);
      json_u64(w, v);
    } else if (dtype_is_int(type)) {
      json_i64(w, get_i64(type, t->data.p, i));
    } else if (type == DT_F64) {
      json_f64(w, get_f64(type, t->data.p, i));
    } else {
      json_f32(w, (float)get_f64(type, t->data.p, i));
    }
  }
  json_end_array(w);
}
