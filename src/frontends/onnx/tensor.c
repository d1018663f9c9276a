// tensor.c -- the elements of an ONNX tensor, in memory form.
//
// A tensor's data is raw bytes (little-endian, sub-byte elements packed: our memory form), or in
// one of six typed fields.  Raw bytes and packed 4- and 8-byte fields in one piece are returned as
// slices of the file, so a model's weights are not touched here; the others are decoded into the
// arena.
//
// Guarantees: the number of elements is that of the dims; a narrow type's values are in its range;
//             bools
// are 0 or 1.  Does not: align.  What lies in the file may lie at any address.
#include "frontends/onnx/onnx.h"
#include "base/wire.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw tensor data is little-endian");

typedef enum { TF_F32, TF_I32, TF_STRING, TF_I64, TF_F64, TF_U64, TF_COUNT } TypedField;
static const char *const field_name[TF_COUNT] = {"float_data", "int32_data",  "string_data",
                                                 "int64_data", "double_data", "uint64_data"};

typedef struct Slices {
  const Str *v;
  int64_t n;
} Slices;

// How a dtype is written in its typed field.  lo..hi: what an entry may be; bit patterns may come
// signed.
typedef struct Form {
  uint8_t field;
  uint8_t width;  // bytes that an entry gives
  int64_t lo, hi;
} Form;
// clang-format off
static const Form form[] = {
  [DT_F32]     = {TF_F32,    4, 0, 0},
  [DT_U8]      = {TF_I32,    1, 0, UINT8_MAX},
  [DT_I8]      = {TF_I32,    1, INT8_MIN, INT8_MAX},
  [DT_U16]     = {TF_I32,    2, 0, UINT16_MAX},
  [DT_I16]     = {TF_I32,    2, INT16_MIN, INT16_MAX},
  [DT_I32]     = {TF_I32,    4, INT32_MIN, INT32_MAX},
  [DT_I64]     = {TF_I64,    8, INT64_MIN, INT64_MAX},
  [DT_STRING]  = {TF_STRING, 0, 0, 0},
  [DT_BOOL]    = {TF_I32,    1, INT32_MIN, INT32_MAX},
  [DT_F16]     = {TF_I32,    2, INT16_MIN, UINT16_MAX},
  [DT_F64]     = {TF_F64,    8, 0, 0},
  [DT_U32]     = {TF_U64,    4, 0, UINT32_MAX},
  [DT_U64]     = {TF_U64,    8, INT64_MIN, INT64_MAX},
  [DT_C64]     = {TF_F32,    4, 0, 0},
  [DT_C128]    = {TF_F64,    8, 0, 0},
  [DT_BF16]    = {TF_I32,    2, INT16_MIN, UINT16_MAX},
  [DT_F8E4M3]  = {TF_I32,    1, INT8_MIN, UINT8_MAX},
  [DT_F8E4M3Z] = {TF_I32,    1, INT8_MIN, UINT8_MAX},
  [DT_F8E5M2]  = {TF_I32,    1, INT8_MIN, UINT8_MAX},
  [DT_F8E5M2Z] = {TF_I32,    1, INT8_MIN, UINT8_MAX},
  [DT_U4]      = {TF_I32,    1, INT8_MIN, UINT8_MAX},
  [DT_I4]      = {TF_I32,    1, INT8_MIN, UINT8_MAX},
  [DT_F4E2M1]  = {TF_I32,    1, INT8_MIN, UINT8_MAX},
  [DT_F8E8M0]  = {TF_I32,    1, INT8_MIN, UINT8_MAX},
  [DT_U2]      = {TF_I32,    1, INT8_MIN, UINT8_MAX},
  [DT_I2]      = {TF_I32,    1, INT8_MIN, UINT8_MAX},
};
// clang-format on

typedef struct Job {
  Arena *arena;
  const OnnxTensor *t;
  Where at;
  Diag *diag;
  DType dtype;
  const char *name;  // NUL-terminated, for messages
  int64_t n, bytes;  // elements by the dims, and their size
} Job;

static tenon_status bad(const Job *j, const char *fmt, ...) PRINTF(2, 3);
static tenon_status bad(const Job *j, const char *fmt, ...) {
  Arena *a = j->arena;
  va_list ap;
  va_start(ap, fmt);
  const char *text = str_vprintf(a, fmt, ap);
  va_end(ap);
  return fail(j->diag, TENON_EFORMAT, j->at, "tensor%s%s%s: %s", j->name[0] ? " '" : "", j->name,
              j->name[0] ? "'" : "", text);
}

static Slices slices_of(const OnnxTensor *t, int field) {
  switch ((TypedField)field) {
  case TF_F32: return (Slices){t->f32_data.v, t->f32_data.n};
  case TF_I32: return (Slices){t->i32_data.v, t->i32_data.n};
  case TF_STRING: return (Slices){t->string_data.v, t->string_data.n};
  case TF_I64: return (Slices){t->i64_data.v, t->i64_data.n};
  case TF_F64: return (Slices){t->f64_data.v, t->f64_data.n};
  case TF_U64: return (Slices){t->u64_data.v, t->u64_data.n};
  case TF_COUNT: break;
  }
  return (Slices){NULL, 0};
}

static const char *dims_text(const Job *j) {
  StrBuf b;
  strbuf_init(&b, j->arena);
  strbuf_putc(&b, '[');
  for (int64_t i = 0; i < MIN(j->t->dims.n, 16); i++)
    strbuf_printf(&b, "%s%lld", i ? ", " : "", (long long)j->t->dims.v[i]);
  strbuf_puts(&b, j->t->dims.n > 16 ? ", ...]" : "]");
  return strbuf_text(&b);
}

static tenon_status count_dims(Job *j) {
  Ints dims = j->t->dims;
  bool empty = false;
  for (int64_t i = 0; i < dims.n; i++) {
    if (dims.v[i] < 0)
      return bad(j, "dimension %lld is negative: %lld", (long long)i, (long long)dims.v[i]);
    if (dims.v[i] == 0) empty = true;
  }
  j->n = empty ? 0 : 1;
  for (int64_t i = 0; i < dims.n && !empty; i++)
    if (!ck_mul(j->n, dims.v[i], &j->n))
      return bad(j, "dims %s have more than 2^63 elements", dims_text(j));
  if (!dtype_bytes(j->dtype, j->n, &j->bytes))
    return bad(j, "dims %s of %s take more than 2^63 bytes", dims_text(j), dtype_name(j->dtype));
  return TENON_OK;
}

// ---- raw ----

static tenon_status take_raw(const Job *j, const void **out, bool *out_in_file) {
  Str raw = j->t->raw;
  if (j->dtype == DT_STRING) return bad(j, "strings cannot be in raw_data");
  if (raw.n != j->bytes)
    return bad(j, "%s%s is %lld bytes, but raw_data has %lld", dtype_name(j->dtype), dims_text(j),
               (long long)j->bytes, (long long)raw.n);
  *out = raw.p;
  *out_in_file = true;
  if (j->dtype != DT_BOOL) return TENON_OK;
  int64_t i = 0;
  while (i < raw.n && (uint8_t)raw.p[i] <= 1) i++;
  if (i == raw.n) return TENON_OK;
  uint8_t *clean = arena_alloc(j->arena, raw.n);
  for (i = 0; i < raw.n; i++) clean[i] = raw.p[i] != 0;
  *out = clean;
  *out_in_file = false;
  return TENON_OK;
}

// ---- typed fields ----

// How many entries the field should have: complex numbers take two, sub-byte elements share one.
static int64_t entries_wanted(const Job *j) {
  return form[j->dtype].width ? j->bytes / form[j->dtype].width : j->n;
}

static int64_t entries_found(const Job *j, Slices s) {
  int field = form[j->dtype].field;
  if (field == TF_STRING) return s.n;
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; i++) {
    if (field == TF_F32 || field == TF_F64)
      n += s.v[i].n / form[j->dtype].width;
    else
      n += wire_count_varints(s.v[i]);
  }
  return n;
}

static tenon_status check_fields(const Job *j) {
  int used = form[j->dtype].field;
  for (int f = 0; f < TF_COUNT; f++)
    if (f != used && slices_of(j->t, f).n)
      return bad(j, "elements of type %s belong in %s, but there is data in %s",
                 dtype_name(j->dtype), field_name[used], field_name[f]);
  int64_t want = entries_wanted(j), found = entries_found(j, slices_of(j->t, used));
  if (want == found) return TENON_OK;
  if (found == 0) return bad(j, "%s%s has no data", dtype_name(j->dtype), dims_text(j));
  return bad(j, "%s%s needs %lld entries in %s, but it has %lld", dtype_name(j->dtype),
             dims_text(j), (long long)want, field_name[used], (long long)found);
}

static tenon_status take_fixed(const Job *j, Slices s, const void **out, bool *out_in_file) {
  if (s.n == 1) {
    *out = s.v[0].p;
    *out_in_file = true;
    return TENON_OK;
  }
  char *to = arena_alloc(j->arena, j->bytes);
  *out = to;
  for (int64_t i = 0; i < s.n; i++) {
    if (s.v[i].n) memcpy(to, s.v[i].p, (size_t)s.v[i].n);
    to += s.v[i].n;
  }
  return TENON_OK;
}

static tenon_status take_varints(const Job *j, Slices s, const void **out) {
  const Form *f = &form[j->dtype];
  char *to = arena_alloc(j->arena, j->bytes);
  *out = to;
  int64_t index = 0;
  for (int64_t i = 0; i < s.n; i++) {
    const uint8_t *at = (const uint8_t *)s.v[i].p, *end = at + s.v[i].n;
    while (at < end) {
      uint64_t u = 0;
      const char *wrong = wire_varint(&at, end, &u);
      if (wrong)
        return bad(j, "entry %lld of %s: %s", (long long)index, field_name[f->field], wrong);
      // As protobuf has it, an int32 is the low half of the number.
      int64_t v = f->field == TF_I32 ? (int64_t)(int32_t)(uint32_t)u : (int64_t)u;
      if (v < f->lo || v > f->hi)
        return bad(j, "entry %lld of %s is %lld, which %s cannot hold", (long long)index,
                   field_name[f->field], (long long)v, dtype_name(j->dtype));
      if (j->dtype == DT_BOOL) v = v != 0;
      memcpy(to, &v, f->width);
      to += f->width;
      index++;
    }
  }
  return TENON_OK;
}

static tenon_status take_typed(const Job *j, const void **out, bool *out_in_file) {
  TRY(check_fields(j));
  int field = form[j->dtype].field;
  Slices s = slices_of(j->t, field);
  if (field == TF_STRING) {
    *out = s.v;  // slices of the file, themselves in the arena
    return TENON_OK;
  }
  if (field == TF_F32 || field == TF_F64) return take_fixed(j, s, out, out_in_file);
  return take_varints(j, s, out);
}

tenon_status onnx_tensor_bytes(Arena *a, const OnnxTensor *t, Where at, Diag *d,
                               const void **out_bytes, int64_t *out_nbytes, int64_t *out_n,
                               bool *out_in_file) {
  *out_bytes = "";
  *out_nbytes = *out_n = 0;
  *out_in_file = false;
  if (!at.has_offset) {
    at.has_offset = true;
    at.offset = t->file_pos;
  }
  Job j = {.arena = a, .t = t, .at = at, .diag = d, .name = str_copy(a, t->name)};
  if (t->dtype == 0) return bad(&j, "the element type is not given");
  if (t->dtype == 27 || t->dtype == 28)
    return fail(d, TENON_EUNSUPPORTED, at, "tensor '%s': 6-bit floats are not supported", j.name);
  if (!dtype_valid(t->dtype))
    return bad(&j, "element type %lld is none of ONNX's", (long long)t->dtype);
  if (t->external) return bad(&j, "the data is in an external file, which cannot be read here");
  j.dtype = (DType)t->dtype;
  TRY(count_dims(&j));
  bool typed = false;
  for (int f = 0; f < TF_COUNT; f++) typed |= slices_of(t, f).n > 0;
  if (t->raw.n && typed) return bad(&j, "data is given twice: in raw_data and in a typed field");
  if (t->has_raw && !typed)
    TRY(take_raw(&j, out_bytes, out_in_file));
  else
    TRY(take_typed(&j, out_bytes, out_in_file));
  if (!*out_bytes || j.n == 0) *out_bytes = "";
  *out_nbytes = j.bytes;
  *out_n = j.n;
  return TENON_OK;
}
