// outputs.c -- writes the outputs of a run to .npz, .npy and .json files (outputs.h has the forms).
//
// Needs:      values that live until it returns.
// Guarantees: each file is replaced at once or left as it was; F.npz.json is written before F.npz,
//             so that whoever sees the new archive sees what belongs to it.
#include "cli/run/outputs.h"

#include "base/json.h"
#include "base/platform.h"
#include "cli/files.h"

#include <math.h>

const Value *outputs_held(const Value *v) {
  return v && v->kind == VK_OPTIONAL ? (v->nitems ? outputs_held(v->items[0]) : NULL) : v;
}

// ---- JSON ----

static void put_base64(StrBuf *b, Str s) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int64_t i = 0; i < s.n; i += 3) {
    uint32_t bits = 0;
    for (int k = 0; k < 3; k++) bits = bits << 8 | (i + k < s.n ? (uint8_t)s.p[i + k] : 0);
    for (int k = 0; k < 4; k++)
      strbuf_putc(b, i + k > s.n ? '=' : digit[bits >> (18 - 6 * k) & 63]);
  }
}

static void put_text(JsonWriter *w, Arena *a, Str s) {
  if (str_is_utf8(s)) {
    json_str(w, s);
    return;
  }
  StrBuf b;
  strbuf_init(&b, a);
  put_base64(&b, s);
  json_begin_object(w);
  json_key(w, "base64");
  json_cstr(w, strbuf_text(&b));
  json_end_object(w);
}

static void put_real(JsonWriter *w, double x, bool single) {
  if (isnan(x))
    json_cstr(w, "NaN");
  else if (isinf(x))
    json_cstr(w, x < 0 ? "-Infinity" : "Infinity");
  else if (single)
    json_f32(w, (float)x);
  else
    json_f64(w, x);
}

static void put_element(JsonWriter *w, Arena *a, const Value *v, int64_t i) {
  DType part = v->dtype == DT_C64 ? DT_F32 : DT_F64;
  switch (dtype_class(v->dtype)) {
  case DC_BOOL: json_bool(w, val_i64(v, i) != 0); return;
  case DC_INT: json_i64(w, val_i64(v, i)); return;
  case DC_UINT: json_u64(w, (uint64_t)val_i64(v, i)); return;
  case DC_STRING: put_text(w, a, val_str(v, i)); return;
  case DC_FLOAT: put_real(w, val_f64(v, i), dtype_bits(v->dtype) <= 32); return;
  case DC_COMPLEX:
    json_begin_flat_array(w);
    for (int k = 0; k < 2; k++) put_real(w, get_f64(part, v->data, 2 * i + k), part == DT_F32);
    json_end_array(w);
    return;
  case DC_NONE: json_null(w); return;
  }
}

static void put_axis(JsonWriter *w, Arena *a, const Value *v, int axis, int64_t *at) {
  if (axis == v->rank) {
    put_element(w, a, v, (*at)++);
    return;
  }
  if (axis == v->rank - 1 || !v->n)
    json_begin_flat_array(w);
  else
    json_begin_array(w);
  for (int64_t i = 0; i < v->dims[axis]; i++) put_axis(w, a, v, axis + 1, at);
  json_end_array(w);
}

static void put_value(JsonWriter *w, Arena *a, const Value *v);

// Keys of JSON are text: an integer is its digits, and what is not UTF-8 is in base64.
static void put_key(JsonWriter *w, Arena *a, const Value *keys, int64_t i) {
  StrBuf b;
  strbuf_init(&b, a);
  if (keys->dtype != DT_STRING)
    print_element(&b, keys, i);
  else if (str_is_utf8(val_str(keys, i)))
    strbuf_put(&b, val_str(keys, i));
  else
    put_base64(&b, val_str(keys, i));
  json_key_str(w, (Str){b.p, b.n});
}

static void put_map(JsonWriter *w, Arena *a, const Value *v) {
  const Value *keys = v->items[0], *values = v->items[1];
  if (values->kind == VK_TENSOR)
    json_begin_flat_object(w);
  else
    json_begin_object(w);
  for (int64_t i = 0; i < keys->n; i++) {
    put_key(w, a, keys, i);
    if (values->kind == VK_TENSOR)
      put_element(w, a, values, i);
    else
      put_value(w, a, values->items[i]);
  }
  json_end_object(w);
}

static void put_value(JsonWriter *w, Arena *a, const Value *v) {
  v = outputs_held(v);
  int64_t at = 0;
  if (!v) {
    json_null(w);
  } else if (v->kind == VK_TENSOR) {
    put_axis(w, a, v, 0, &at);
  } else if (v->kind == VK_MAP) {
    put_map(w, a, v);
  } else {
    json_begin_array(w);
    for (int64_t i = 0; i < v->nitems; i++) put_value(w, a, v->items[i]);
    json_end_array(w);
  }
}

static tenon_status write_json(Cli *c, const Outputs *o, const bool *taken, const char *path) {
  Arena arena;
  Trap t;
  arena_init(&arena);
  trap_enter(&t, &c->diag);
  if (setjmp(t.env) == 0) {
    StrBuf b;
    JsonWriter w;
    strbuf_init(&b, &arena);
    json_init(&w, &b, false);
    json_begin_object(&w);
    strbuf_puts(&b, FILE_JSON_SPACES);
    for (int64_t i = 0; i < o->n; i++) {
      if (!o->value[i] || !taken[i]) continue;
      json_key(&w, o->name[i]);
      put_value(&w, &arena, o->value[i]);
    }
    json_end_object(&w);
    strbuf_putc(&b, '\n');
    t.status = file_write(path, b.p, b.n, &c->diag);
  }
  trap_leave(&t);
  arena_deinit(&arena);
  return t.status;
}

// ---- arrays ----

// A tensor, or a sequence of some: what arrays can hold.
static bool is_arrays(const Value *v) {
  v = outputs_held(v);
  if (!v || v->kind == VK_TENSOR) return v != NULL;
  for (int64_t i = 0; i < v->nitems; i++)
    if (v->kind != VK_SEQUENCE || !v->items[i] || v->items[i]->kind != VK_TENSOR) return false;
  return v->kind == VK_SEQUENCE && v->nitems;
}

typedef VEC(NdArray) Arrays;

static tenon_status add_arrays(Cli *c, const char *name, const Value *v, Arrays *out) {
  NdArray one;
  v = outputs_held(v);
  bool many = v->kind == VK_SEQUENCE;
  for (int64_t k = 0; k < (many ? v->nitems : 1); k++) {
    const char *label = many ? str_printf(&c->arena, "%s.%lld", name, (long long)k) : name;
    TRY(array_of_value(many ? v->items[k] : v, label, &c->diag, &one));
    vec_push(&c->arena, out, one);
  }
  return TENON_OK;
}

// ---- both ----

static bool is_plain(const Type *t) {
  while (t && t->kind == TK_OPTIONAL) t = t->elem;
  if (t && t->kind == TK_SEQUENCE) t = t->elem;
  return !t || t->kind == TK_TENSOR || t->kind == TK_NONE;
}

bool outputs_need_json(int64_t n, Node *const *result) {
  for (int64_t i = 0; i < n; i++)
    if (!is_plain(type_of(result[i]))) return true;
  return false;
}

const char *outputs_json_path(Arena *a, const char *path) { return str_printf(a, "%s.json", path); }

// Where outputs go that no array holds: beside the archive.
static tenon_status write_rest(Cli *c, const Outputs *o, const bool *rest, int64_t first,
                               const char *path, bool rest_checked) {
  static const char *const kind[] = {[VK_TENSOR] = "a tensor",
                                     [VK_SEQUENCE] = "a sequence",
                                     [VK_OPTIONAL] = "an optional",
                                     [VK_MAP] = "a map"};
  bool archive = strcmp(path, "-") != 0 && !str_ends(str_of(path), ".npy");
  if (!archive)
    return fail(&c->diag, TENON_EINVAL, NOWHERE,
                "output '%s' is %s, which %s cannot hold; write F.json, or F.npz and F.npz.json",
                o->name[first], kind[o->value[first]->kind],
                strcmp(path, "-") ? "an .npy file" : "an archive on standard output");
  const char *json = outputs_json_path(&c->arena, path);
  if (!rest_checked && files_output(c, json, "the rest of --output")) {
    c->misused = true;
    return TENON_EINVAL;
  }
  return write_json(c, o, rest, json);
}

tenon_status outputs_write(Cli *c, const Outputs *o, const char *path, bool compress,
                           bool rest_checked) {
  Diag *d = &c->diag;
  Arrays all = {0};
  bool *rest = arena_array(&c->arena, bool, MAX(o->n, 1));
  int64_t first = -1;
  bool json = str_ends(str_of(path), ".json");
  for (int64_t i = 0; i < o->n; i++) {
    if (!o->value[i]) continue;
    rest[i] = json || !is_arrays(o->value[i]);
    if (rest[i] && first < 0) first = i;
    if (!rest[i]) TRY(add_arrays(c, o->name[i], o->value[i], &all));
  }
  if (json) return write_json(c, o, rest, path);
  if (first >= 0) TRY(write_rest(c, o, rest, first, path, rest_checked));
  if (!str_ends(str_of(path), ".npy")) return npz_write(path, all.v, all.n, compress, d);
  if (all.n != 1)
    return fail(d, TENON_EINVAL, (Where){.file = path},
                "%lld outputs do not fit one .npy file; write an .npz, or pick one with --only",
                (long long)all.n);
  return npy_write(path, all.v, d);
}
