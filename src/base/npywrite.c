// npywrite.c -- writes .npy files as NumPy does.
//
// Version 1.0 headers padded to a multiple of 64 bytes.  Text is written as '<U': UCS-4, as wide as
// the longest string (or as '|S' where a string is not valid UTF-8).
#include "base/npy.h"

#include "base/platform.h"

enum { OUR_PADDING = 128 };

static int64_t utf8_count(Str s) {
  int64_t n = 0;
  for (int64_t i = 0; i < s.n; i++) n += ((uint8_t)s.p[i] & 0xc0) != 0x80;
  return n;
}

// Decodes valid UTF-8 into little-endian UCS-4.
static void put_ucs4(char *to, Str s) {
  for (int64_t i = 0; i < s.n;) {
    uint8_t c = (uint8_t)s.p[i];
    int w = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    uint32_t v = w == 1 ? c : c & (0x7fu >> w);
    for (int k = 1; k < w; k++) v = v << 6 | ((uint8_t)s.p[i + k] & 0x3f);
    for (int k = 0; k < 4; k++) *to++ = (char)(v >> (8 * k));
    i += w;
  }
}

static tenon_status text_payload(Arena *a, const NdArray *v, StrBuf *descr, Str *out, Diag *d) {
  const Str *s = v->data;
  bool utf8 = true;
  int64_t width = 1;
  for (int64_t i = 0; i < v->n; i++) utf8 &= str_is_utf8(s[i]);
  for (int64_t i = 0; i < v->n; i++) width = MAX(width, utf8 ? utf8_count(s[i]) : s[i].n);
  int64_t elem = utf8 ? 4 * width : width, bytes;
  if (!ck_mul(elem, v->n, &bytes))
    return fail(d, TENON_EINVAL, NOWHERE, "array '%.*s' is too large to write", STR_ARG(v->name));
  char *p = arena_alloc(a, MAX(bytes, 1));
  for (int64_t i = 0; i < v->n; i++) {
    if (utf8)
      put_ucs4(p + i * elem, s[i]);
    else if (s[i].n)
      memcpy(p + i * elem, s[i].p, (size_t)s[i].n);
  }
  strbuf_printf(descr, "%s%lld", utf8 ? "<U" : "|S", (long long)width);
  *out = (Str){p, bytes};
  return TENON_OK;
}

// Sub-byte elements one to a byte.
static Str unpacked_payload(Arena *a, const NdArray *v) {
  int bits = dtype_bits(v->dtype);
  bool is_signed = dtype_class(v->dtype) == DC_INT;
  const uint8_t *from = v->data;
  uint8_t *p = arena_alloc(a, MAX(v->n, 1));
  for (int64_t i = 0; i < v->n; i++) {
    int x = from[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
    if (is_signed && x >> (bits - 1)) x -= 1 << bits;
    p[i] = (uint8_t)x;
  }
  return (Str){(char *)p, v->n};
}

static const char *descr_of(DType t) {
  switch ((int)t) {
  case DT_F16: return "<f2";
  case DT_F32: return "<f4";
  case DT_F64: return "<f8";
  case DT_I16: return "<i2";
  case DT_I32: return "<i4";
  case DT_I64: return "<i8";
  case DT_U16: return "<u2";
  case DT_U32: return "<u4";
  case DT_U64: return "<u8";
  case DT_BOOL: return "|b1";
  case DT_C64: return "<c8";
  case DT_C128: return "<c16";
  case DT_BF16: return "<V2";
  case DT_I8:
  case DT_I4:
  case DT_I2: return "|i1";
  case DT_U8:
  case DT_U4:
  case DT_U2: return "|u1";
  case DT_F8E4M3:
  case DT_F8E4M3Z:
  case DT_F8E5M2:
  case DT_F8E5M2Z:
  case DT_F8E8M0:
  case DT_F4E2M1: return "|V1";
  }
  return NULL;
}

// Header and payload of one array; the payload is the array's own bytes where they can be used.
tenon_status npy_parts(Arena *a, const NdArray *v, Str *out_header, Str *out_payload, Diag *d) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_puts(&b, "{'descr': '");
  *out_payload = (Str){v->data, v->bytes};
  if (v->dtype == DT_STRING) {
    TRY(text_payload(a, v, &b, out_payload, d));
  } else if (!v->dtype) {
    strbuf_printf(&b, v->void_bytes == 1 ? "|V%d" : "<V%d", v->void_bytes);
  } else {
    const char *descr = descr_of(v->dtype);
    if (!descr)
      return fail(d, TENON_EUNSUPPORTED, NOWHERE, "npy: %s cannot be written",
                  dtype_name(v->dtype));
    strbuf_puts(&b, descr);
    if (dtype_bits(v->dtype) < 8) *out_payload = unpacked_payload(a, v);
  }
  strbuf_puts(&b, "', 'fortran_order': False, 'shape': (");
  for (int i = 0; i < v->rank; i++) strbuf_printf(&b, i ? ", %lld" : "%lld", (long long)v->dims[i]);
  strbuf_puts(&b, v->rank == 1 ? ",), }" : "), }");
  // With the magic, a multiple of 64; the padding is longer than another writer's (npy_is_ours).
  int64_t length = (10 + b.n + OUR_PADDING + 1 + 63) / 64 * 64 - 10;
  while (b.n < length - 1) strbuf_putc(&b, ' ');
  strbuf_putc(&b, '\n');
  char *header = arena_alloc(a, 10 + length);
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = (char)(length & 0xff);
  header[9] = (char)(length >> 8);
  memcpy(header + 10, b.p, (size_t)length);
  *out_header = (Str){header, 10 + length};
  return TENON_OK;
}

bool npy_is_ours(Str s) {
  if (s.n < 10 || memcmp(s.p, "\x93NUMPY\x01", 7)) return false;
  int64_t end = 10 + (uint8_t)s.p[8] + ((int64_t)(uint8_t)s.p[9] << 8) - 1, spaces = 0;
  if (end < 10 || end >= s.n || s.p[end] != '\n') return false;
  while (spaces < end - 10 && s.p[end - 1 - spaces] == ' ') spaces++;
  return spaces >= OUR_PADDING;
}

tenon_status npy_format(Arena *scratch, const NdArray *v, StrBuf *out, Diag *d) {
  Str header, payload;
  TRY(npy_parts(scratch, v, &header, &payload, d));
  strbuf_put(out, header);
  strbuf_put(out, payload);
  return TENON_OK;
}

tenon_status npy_write(const char *path, const NdArray *v, Diag *d) {
  Arena arena;
  Trap t;
  arena_init(&arena);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    StrBuf b;
    strbuf_init(&b, &arena);
    t.status = npy_format(&arena, v, &b, d);
    if (!t.status) t.status = file_write(path, b.p, b.n, d);
  }
  trap_leave(&t);
  arena_deinit(&arena);
  return t.status;
}
