// import.c -- safetensors.
//
// A file is the length of a JSON header, the header, and the tensors' bytes.  The header's ranges
// must cover these bytes exactly, without overlap or hole; every shape must fit its range.
#include "frontends/common/frontend.h"

#include "base/json.h"

#include <stdlib.h>

enum { HEADER_MAX = 100 * 1000 * 1000, LENGTH_BYTES = 8 };

typedef struct SafeType {
  const char *name;
  DType dtype;
} SafeType;
static const SafeType safe_types[] = {
    {"BOOL", DT_BOOL},
    {"U8", DT_U8},
    {"I8", DT_I8},
    {"U16", DT_U16},
    {"I16", DT_I16},
    {"U32", DT_U32},
    {"I32", DT_I32},
    {"U64", DT_U64},
    {"I64", DT_I64},
    {"F16", DT_F16},
    {"BF16", DT_BF16},
    {"F32", DT_F32},
    {"F64", DT_F64},
    {"F8_E4M3", DT_F8E4M3},
    {"F8_E5M2", DT_F8E5M2},
    {"F8_E8M0", DT_F8E8M0},
    {"F8_E4M3FNUZ", DT_F8E4M3Z},
    {"F8_E5M2FNUZ", DT_F8E5M2Z},
    {"C64", DT_C64},
    {"F4", DT_F4E2M1},
};

static int64_t header_length(Str s) {
  uint64_t n = 0;
  for (int i = 0; i < LENGTH_BYTES; i++) n |= (uint64_t)(uint8_t)s.p[i] << (8 * i);
  return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

// The length of the header is a plausible one, and the header begins as one; what is wrong
// otherwise is then said.
static bool is_safetensors(Str s) {
  return s.n > LENGTH_BYTES && s.p[LENGTH_BYTES] == '{' && s.p[LENGTH_BYTES - 1] == 0;
}

typedef struct Reader {
  Imported *in;
  Diag *d;
  Str bytes;         // of one file
  const char *file;  // of a part of a split model; NULL: the model's own
  int64_t start;     // of the data
} Reader;

static tenon_status bad(const Reader *r, const char *fmt, ...) PRINTF(2, 3);
static tenon_status bad(const Reader *r, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  Where at = {.file = r->file, .has_offset = true, .offset = LENGTH_BYTES};
  tenon_status s = failv(r->d, TENON_EFORMAT, at, fmt, ap);
  va_end(ap);
  return s;
}

static tenon_status read_shape(const Reader *r, const Json *shape, Weight *w) {
  if (!shape || shape->kind != JSON_ARRAY)
    return bad(r, "tensor '%s' has no list as its shape", w->name);
  if (shape->n > MAX_RANK)
    return fail(r->d, TENON_EUNSUPPORTED, (Where){.file = r->file},
                "tensor '%s' has rank %lld, the limit is %d", w->name, (long long)shape->n,
                MAX_RANK);
  w->rank = (int)shape->n;
  for (int i = 0; i < w->rank; i++) {
    if (shape->item[i].kind != JSON_INT || shape->item[i].i < 0)
      return bad(r, "tensor '%s': dimension %d is no size", w->name, i);
    w->dims[i] = shape->item[i].i;
  }
  if (!shape_count(w->rank, w->dims, &w->n))
    return bad(r, "tensor '%s': the number of elements overflows", w->name);
  return TENON_OK;
}

static tenon_status read_dtype(const Reader *r, const Json *type, Weight *w) {
  if (!type || type->kind != JSON_STRING) return bad(r, "tensor '%s' has no dtype", w->name);
  for (int64_t i = 0; i < ARRAY_LEN(safe_types); i++)
    if (str_is(type->s, safe_types[i].name)) w->dtype = safe_types[i].dtype;
  if (w->dtype) return TENON_OK;
  return fail(r->d, TENON_EUNSUPPORTED, (Where){.file = r->file},
              "tensor '%s' has dtype '%.*s', which is not known", w->name, STR_ARG(type->s));
}

static tenon_status read_range(const Reader *r, const Json *range, Weight *w) {
  bool pair = range && range->kind == JSON_ARRAY && range->n == 2 &&
              range->item[0].kind == JSON_INT && range->item[1].kind == JSON_INT;
  if (!pair) return bad(r, "tensor '%s' has no pair of data_offsets", w->name);
  int64_t begin = range->item[0].i, end = range->item[1].i, room = r->bytes.n - r->start, need;
  if (begin < 0 || begin > end || end > room)
    return bad(r, "tensor '%s' has the range %lld to %lld of %lld bytes%s", w->name,
               (long long)begin, (long long)end, (long long)room, end > room ? CUT_OFF : "");
  int64_t bits;
  if (!dtype_bytes(w->dtype, w->n, &need) || need != end - begin ||
      !ck_mul(w->n, dtype_bits(w->dtype), &bits) || bits % 8)
    return bad(r, "tensor '%s': %s%s does not take %lld bytes", w->name, dtype_name(w->dtype),
               shape_text(w->rank, w->dims).s, (long long)(end - begin));
  w->data = (const uint8_t *)r->bytes.p + r->start + begin;
  w->bytes = need;
  return TENON_OK;
}

static tenon_status read_metadata(const Reader *r, const Json *m) {
  if (m->kind != JSON_OBJECT) return bad(r, "__metadata__ is no object");
  for (int64_t i = 0; i < m->n; i++) {
    if (m->item[i].kind != JSON_STRING)
      return bad(r, "__metadata__ '%.*s' is no string", STR_ARG(m->key[i]));
    if (!r->file)
      frontend_fact(r->in, str_copy(&r->in->graph->arena, m->key[i]), "%.*s",
                    STR_ARG(m->item[i].s));
  }
  return TENON_OK;
}

static int by_place(const void *a, const void *b) {
  const Weight *x = *(const Weight *const *)a, *y = *(const Weight *const *)b;
  if (x->data != y->data) return x->data < y->data ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

// The tensors from number `first` on cover the data exactly.
static tenon_status check_cover(const Reader *r, int64_t first) {
  const Weights *all = &r->in->weights;
  int64_t n = all->v.n - first;
  const Weight **sorted = arena_array(&r->in->graph->scratch, const Weight *, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) sorted[i] = &all->v.v[first + i];
  if (n) qsort(sorted, (size_t)n, sizeof *sorted, by_place);
  const uint8_t *at = (const uint8_t *)r->bytes.p + r->start;
  for (int64_t i = 0; i < n; i++) {
    if (sorted[i]->data != at)
      return bad(r, "tensor '%s' %s", sorted[i]->name,
                 sorted[i]->data < at ? "overlaps another" : "has unused bytes before it");
    at += sorted[i]->bytes;
  }
  int64_t rest = (const uint8_t *)r->bytes.p + r->bytes.n - at;
  return rest ? bad(r, "%lld bytes follow the last tensor", (long long)rest) : TENON_OK;
}

static tenon_status read_file(Reader *r) {
  if (r->bytes.n < LENGTH_BYTES)
    return bad(r, "%lld bytes are too few for a safetensors file", (long long)r->bytes.n);
  int64_t n = header_length(r->bytes), first = r->in->weights.v.n;
  if (n > r->bytes.n - LENGTH_BYTES || n > HEADER_MAX)
    return bad(r, "the header has %lld bytes, in a file of %lld" CUT_OFF, (long long)n,
               (long long)r->bytes.n);
  Arena *a = &r->in->graph->arena;
  Json root;
  Str text = {r->bytes.p + LENGTH_BYTES, n};
  if (!str_is_utf8(text)) return bad(r, "the header is not UTF-8");
  TRY(json_parse(a, text, r->d, &root));
  if (root.kind != JSON_OBJECT) return bad(r, "the header is no object");
  r->start = LENGTH_BYTES + n;
  for (int64_t i = 0; i < root.n; i++) {
    if (str_is(root.key[i], "__metadata__")) {
      TRY(read_metadata(r, &root.item[i]));
      continue;
    }
    Weight w = {.name = str_copy(a, root.key[i])};
    TRY(read_dtype(r, json_get(&root.item[i], "dtype"), &w));
    TRY(read_shape(r, json_get(&root.item[i], "shape"), &w));
    TRY(read_range(r, json_get(&root.item[i], "data_offsets"), &w));
    if (!weights_add(&r->in->weights, a, &w))
      return bad(r, "the tensor '%s' is there twice", w.name);
  }
  return check_cover(r, first);
}

static tenon_status read_part(Imported *in, Str bytes, const char *file, Diag *d) {
  Reader r = {.in = in, .d = d, .bytes = bytes, .file = file};
  return read_file(&r);
}

static tenon_status import_safetensors(Imported *in, Diag *d) {
  TRY(frontend_begin(in, d));
  TRY(read_part(in, in->bytes, NULL, d));
  in->about = "safetensors";
  frontend_no_graph(
      in, "a safetensors file holds weights and no graph; give it as --weights to a model");
  return TENON_OK;
}

const Frontend frontend_safetensors = {.name = "safetensors",
                                       .doc = "safetensors",
                                       .is = is_safetensors,
                                       .import = import_safetensors,
                                       .part = read_part};
