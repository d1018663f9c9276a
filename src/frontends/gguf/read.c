// read.c -- decode a GGUF file: header, metadata, tensor table.
//
// Every length is checked against what is left of the file before it is used; nothing is allocated
// in proportion to a number in the file that the file's own size does not bear out.  Messages name
// the byte offset.
#include "frontends/gguf/gguf.h"

enum {
  KEY_MAX = 65535,
  NAME_MAX_BYTES = 64,
  DIMS_MAX = 4,
  NEST_MAX = 4,
  LEAST_KV = 13,
  LEAST_TENSOR = 24
};

typedef struct Reader {
  const uint8_t *p;
  int64_t at, n;
  Imported *in;
  Diag *d;
  tenon_status status;  // sticky
} Reader;

static const int8_t kind_bytes[GV_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static tenon_status bad(Reader *r, int64_t at, const char *fmt, ...) PRINTF(3, 4);
static tenon_status bad(Reader *r, int64_t at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (!r->status)
    r->status = failv(r->d, TENON_EFORMAT, (Where){.has_offset = true, .offset = at}, fmt, ap);
  va_end(ap);
  return r->status;
}

static uint64_t number(Reader *r, int bytes) {
  if (r->status) return 0;
  if (bytes > r->n - r->at) {
    bad(r, r->at, "the file ends within a number of %d bytes" CUT_OFF, bytes);
    return 0;
  }
  uint64_t v = 0;
  for (int i = 0; i < bytes; i++) v |= (uint64_t)r->p[r->at + i] << (8 * i);
  r->at += bytes;
  return v;
}

static Str string(Reader *r) {
  int64_t at = r->at;
  uint64_t n = number(r, 8);
  if (r->status) return (Str){0};
  if (n > (uint64_t)(r->n - r->at)) {
    bad(r, at, "a string of %llu bytes in a file that has %lld left", (unsigned long long)n,
        (long long)(r->n - r->at));
    return (Str){0};
  }
  Str s = {(const char *)r->p + r->at, (int64_t)n};
  r->at += (int64_t)n;
  return s;
}

// Walks over an array's items; its slice is what was walked over.
static void skip_items(Reader *r, GgufKind elem, uint64_t count, int depth) {
  int64_t left = r->n - r->at;
  if (elem == GV_ARRAY) {
    bad(r, r->at, depth < NEST_MAX ? "an array of arrays" : "arrays are nested too deep");
  } else if (elem == GV_STRING) {
    if (count > (uint64_t)left / 8)
      bad(r, r->at, "an array of %llu strings does not fit the file" CUT_OFF,
          (unsigned long long)count);
    for (uint64_t i = 0; i < count && !r->status; i++) string(r);
  } else if (count > (uint64_t)left / (uint64_t)kind_bytes[elem]) {
    bad(r, r->at, "an array of %llu items does not fit the file" CUT_OFF,
        (unsigned long long)count);
  } else {
    r->at += (int64_t)count * kind_bytes[elem];
  }
}

static GgufKind kind_at(Reader *r) {
  int64_t at = r->at;
  uint64_t k = number(r, 4);
  if (k >= GV_TYPES) bad(r, at, "a value of type %llu, which is none", (unsigned long long)k);
  return r->status ? GV_U8 : (GgufKind)k;
}

static void read_scalar(Reader *r, GgufValue *v) {
  int64_t at = r->at;
  uint64_t bits = number(r, kind_bytes[v->kind]);
  v->i = (int64_t)bits;
  switch (v->kind) {
  case GV_I8: v->i = (int8_t)bits; break;
  case GV_I16: v->i = (int16_t)bits; break;
  case GV_I32: v->i = (int32_t)bits; break;
  case GV_BOOL:
    if (bits > 1) bad(r, at, "a bool of %llu", (unsigned long long)bits);
    break;
  case GV_F32: {
    uint32_t b32 = (uint32_t)bits;
    float f;
    memcpy(&f, &b32, sizeof f);
    v->f = (double)f;
    break;
  }
  case GV_F64: memcpy(&v->f, &bits, sizeof v->f); break;
  default: break;
  }
}

static GgufValue read_value(Reader *r) {
  GgufValue v = {0};
  int64_t start = r->at;
  v.key = string(r);
  if (!r->status && (!v.key.n || v.key.n > KEY_MAX || !str_is_utf8(v.key)))
    bad(r, start, "a key that is empty, too long or not UTF-8");
  v.kind = kind_at(r);
  if (r->status) return v;
  if (v.kind == GV_STRING) {
    v.s = string(r);
  } else if (v.kind == GV_ARRAY) {
    v.elem = kind_at(r);
    uint64_t n = number(r, 8);
    int64_t at = r->at;
    if (!r->status) skip_items(r, v.elem, n, 0);
    v.n = (int64_t)n;
    v.s = (Str){(const char *)r->p + at, r->at - at};
  } else {
    read_scalar(r, &v);
  }
  return v;
}

static void read_metadata(Reader *r, uint64_t count, GgufFile *f) {
  Arena *a = &r->in->graph->arena;
  StrMap seen;
  strmap_init(&seen, a);
  f->alignment = 32;
  for (uint64_t i = 0; i < count && !r->status; i++) {
    int64_t at = r->at;
    GgufValue v = read_value(r);
    if (r->status) return;
    if (strmap_has(&seen, v.key)) {
      bad(r, at, "the key '%.*s' is there twice", STR_ARG(v.key));
      return;
    }
    strmap_put(&seen, v.key, f);
    if (str_is(v.key, "general.alignment")) {
      bool fine =
          v.kind == GV_U32 && v.i > 0 && v.i <= 1 << 16 && !(v.i & (v.i - 1)) && v.i % 8 == 0;
      if (!fine) bad(r, at, "general.alignment must be a u32, a multiple of 8 and a power of two");
      f->alignment = v.i;
    }
    vec_push(a, &f->kv, v);
  }
}

static void unpack(const Weight *w, void *out) {
  const GgmlType *t = &ggml_type[w->packing];
  for (int64_t i = 0; i < w->n / t->block; i++)
    ggml_unpack(t, w->data + i * t->bytes, (float *)out + i * t->block);
}

// As unpack_n_bits has it: a part of ggml's block is a block there.
static void pack(const Weight *w, uint8_t *q, float *scale, float *less) {
  const GgmlType *t = &ggml_type[w->packing];
  int parts = t->block / t->part, per_byte = 8 / t->bits;
  for (int64_t i = 0; i < w->n / t->block; i++) {
    GgmlParts p;
    ggml_split(t, w->data + i * t->bytes, &p);
    uint8_t *to = q + i * t->block / per_byte;
    memset(to, 0, (size_t)(t->block / per_byte));
    for (int k = 0; k < t->block; k++)
      to[k / per_byte] |= (uint8_t)((p.q[k] - t->low) << k % per_byte * t->bits);
    memcpy(scale + i * parts, p.scale, (size_t)parts * sizeof *scale);
    if (less) memcpy(less + i * parts, p.less, (size_t)parts * sizeof *less);
  }
}

static const WeightBits *few_bits(const GgmlType *t, Arena *a) {
  if (!t->split) return NULL;
  WeightBits *f = arena_new(a, WeightBits);
  *f = (WeightBits){
      .block = t->part, .bits = t->bits, .zero = -t->low, .has_less = t->has_less, .pack = pack};
  return f;
}

static bool read_dims(Reader *r, Weight *w) {
  int64_t at = r->at;
  uint64_t n = number(r, 4), dims[DIMS_MAX];
  if (n > DIMS_MAX)
    bad(r, at, "tensor '%s' has %llu dimensions, the limit is %d", w->name, (unsigned long long)n,
        DIMS_MAX);
  if (r->status) return false;
  for (uint64_t i = 0; i < n; i++) dims[i] = number(r, 8);
  w->rank = (int)n;
  for (uint64_t i = 0; i < n; i++) {
    if (dims[i] > INT64_MAX) bad(r, at, "tensor '%s' has a negative dimension", w->name);
    w->dims[n - 1 - i] = (int64_t)dims[i];  // the file has the innermost first
  }
  if (!r->status && !shape_count(w->rank, w->dims, &w->n))
    bad(r, at, "the number of elements of tensor '%s' overflows", w->name);
  return !r->status;
}

typedef struct Placed {
  uint64_t offset;
  int64_t at;  // of its entry
} Placed;

// One entry of the tensor table; its place is checked when the data section's start is known.
static Placed read_tensor(Reader *r, Weight *w) {
  Placed p = {.at = r->at};
  Str name = string(r);
  if (r->status) return p;
  if (!name.n || name.n >= NAME_MAX_BYTES || !str_is_utf8(name) ||
      memchr(name.p, 0, (size_t)name.n))
    bad(r, p.at, "a tensor's name must have 1 to 63 bytes of UTF-8");
  w->name = str_copy(&r->in->graph->arena, name);
  if (r->status || !read_dims(r, w)) return p;
  int64_t at = r->at;
  uint64_t code = number(r, 4);
  p.offset = number(r, 8);
  if (r->status) return p;
  const GgmlType *t = code < GGML_NTYPES ? &ggml_type[code] : NULL;
  if (!t || !t->name) {
    bad(r, at, "tensor '%s' has type %llu, which ggml does not have or has removed", w->name,
        (unsigned long long)code);
    return p;
  }
  int64_t inner = w->rank ? w->dims[w->rank - 1] : 1;
  if (inner % t->block)
    bad(r, at, "tensor '%s': rows of %lld elements are not whole blocks of %d (%s)", w->name,
        (long long)inner, t->block, t->name);
  int64_t unpacked;
  if (!ck_mul(w->n / t->block, t->bytes, &w->bytes) || !ck_mul(w->n, 8, &unpacked))
    bad(r, at, "the bytes of tensor '%s' overflow", w->name);
  w->kind = t->name;
  w->dtype = t->plain ? t->plain : DT_F32;
  w->unpack = t->plain ? NULL : unpack;
  w->packing = (int)code;
  w->packed = few_bits(t, &r->in->graph->arena);
  return p;
}

static void place_tensors(Reader *r, const Placed *place, int64_t alignment) {
  Weights *all = &r->in->weights;
  int64_t start;
  if (!ck_add(r->at, alignment - 1, &start)) start = r->n;
  start = start / alignment * alignment;
  for (int64_t i = 0; i < all->v.n && !r->status; i++) {
    Weight *w = &all->v.v[i];
    int64_t begin, end;
    if (place[i].offset % (uint64_t)alignment)
      bad(r, place[i].at, "tensor '%s' lies at %llu, not at a multiple of %lld", w->name,
          (unsigned long long)place[i].offset, (long long)alignment);
    else if (place[i].offset > INT64_MAX || !ck_add(start, (int64_t)place[i].offset, &begin) ||
             !ck_add(begin, w->bytes, &end) || end > r->n)
      bad(r, place[i].at, "tensor '%s' of %lld bytes at %llu lies past the end of the file" CUT_OFF,
          w->name, (long long)w->bytes, (unsigned long long)place[i].offset);
    else
      w->data = r->p + begin;
  }
}

// Tensors follow one another in the order of the table; so none can overlap another.
static void check_order(Reader *r, const Placed *place, int64_t alignment) {
  const Weights *all = &r->in->weights;
  uint64_t want = 0;
  for (int64_t i = 0; i < all->v.n && !r->status; i++) {
    int64_t bytes = all->v.v[i].bytes, padded;
    if (place[i].offset < want)
      bad(r, place[i].at, "tensor '%s' at %llu overlaps the one before, which ends at %llu",
          all->v.v[i].name, (unsigned long long)place[i].offset, (unsigned long long)want);
    else if (!ck_add(bytes, alignment - 1, &padded) ||
             place[i].offset > (uint64_t)(INT64_MAX - padded))
      bad(r, place[i].at, "the sizes of the tensors overflow");
    else
      want = place[i].offset + (uint64_t)bytes;
  }
}

tenon_status gguf_read(Imported *in, Diag *d, GgufFile *out) {
  Reader r = {.p = (const uint8_t *)in->bytes.p, .n = in->bytes.n, .at = 4, .in = in, .d = d};
  Arena *a = &in->graph->arena;
  out->version = (uint32_t)number(&r, 4);
  uint64_t ntensors = number(&r, 8), nkv = number(&r, 8);
  if (r.status) return r.status;
  if (out->version >> 16 && !(out->version & 0xffff))
    return bad(&r, 4, "the file is big-endian; only little-endian files are read");
  if (out->version != 2 && out->version != 3)
    return fail(d, out->version > 3 ? TENON_EUNSUPPORTED : TENON_EFORMAT,
                (Where){.has_offset = true, .offset = 4}, "GGUF version %u; 2 and 3 are read",
                out->version);
  if (nkv > (uint64_t)in->bytes.n / LEAST_KV || ntensors > (uint64_t)in->bytes.n / LEAST_TENSOR)
    return bad(&r, 8, "%llu tensors and %llu keys do not fit a file of %lld bytes",
               (unsigned long long)ntensors, (unsigned long long)nkv, (long long)in->bytes.n);
  read_metadata(&r, nkv, out);
  out->table = r.at;
  Placed *place = arena_array(a, Placed, (int64_t)ntensors + 1);
  for (uint64_t i = 0; i < ntensors && !r.status; i++) {
    Weight w = {0};
    place[i] = read_tensor(&r, &w);
    if (!r.status && !weights_add(&in->weights, a, &w))
      bad(&r, place[i].at, "the tensor '%s' is there twice", w.name);
  }
  if (!r.status) check_order(&r, place, out->alignment);
  if (!r.status) place_tensors(&r, place, out->alignment);
  return r.status;
}

bool gguf_next_string(const GgufValue *array, int64_t *at, Str *out) {
  if (*at >= array->s.n) return false;
  const uint8_t *p = (const uint8_t *)array->s.p + *at;
  int64_t n = (int64_t)((uint64_t)ggml_u32(p) | (uint64_t)ggml_u32(p + 4) << 32);
  *out = (Str){(const char *)p + 8, n};
  *at += 8 + n;
  return true;
}
