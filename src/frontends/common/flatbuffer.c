// flatbuffer.c -- a checked view of a FlatBuffer (flatbuffer.h).
//
// A table begins with the signed distance back to its vtable; the vtable has its own length, the
// table's, and one 16-bit offset a field, 0 for a field that is not there.  Vectors and strings
// begin with their length.
#include "frontends/common/flatbuffer.h"

tenon_status fb_fail(Fb *fb, int64_t at, const char *fmt, ...) {
  if (fb->status) return fb->status;
  va_list ap;
  va_start(ap, fmt);
  fb->status = failv(fb->diag, TENON_EFORMAT, (Where){.offset = at, .has_offset = true}, fmt, ap);
  va_end(ap);
  return fb->status;
}

// Little-endian, wherever it lies; the caller has checked the place.
static uint64_t raw(const Fb *fb, int64_t at, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; i++) v |= (uint64_t)fb->p[at + i] << 8 * i;
  return v;
}

static bool inside(Fb *fb, int64_t at, int64_t bytes, const char *what) {
  if (fb->status) return false;
  if (at >= 0 && at <= fb->n && bytes <= fb->n - at) return true;
  fb_fail(fb, MIN(MAX(at, 0), fb->n),
          "%s reaches past the end of the file, which has %lld bytes" CUT_OFF, what,
          (long long)fb->n);
  return false;
}

static bool aligned(Fb *fb, int64_t at, int bytes, const char *what) {
  if (at % bytes == 0) return true;
  fb_fail(fb, at, "%s is not aligned to %d bytes", what, bytes);
  return false;
}

static FbTable table_from(Fb *fb, int64_t at) {
  FbTable none = {.fb = fb}, t = {.fb = fb, .at = at};
  if (!inside(fb, at, 4, "a table") || !aligned(fb, at, 4, "a table")) return none;
  int64_t back = (int32_t)(uint32_t)raw(fb, at, 4);
  t.vtable = at - back;
  if (!inside(fb, t.vtable, 4, "a vtable") || !aligned(fb, t.vtable, 2, "a vtable")) return none;
  int64_t vbytes = (int64_t)raw(fb, t.vtable, 2);
  t.size = (int64_t)raw(fb, t.vtable + 2, 2);
  if (vbytes < 4 || vbytes % 2 || t.size < 4) {
    fb_fail(fb, t.vtable, "a vtable of %lld bytes for a table of %lld", (long long)vbytes,
            (long long)t.size);
    return none;
  }
  if (!inside(fb, t.vtable, vbytes, "a vtable") || !inside(fb, at, t.size, "a table")) return none;
  t.slots = (vbytes - 4) / 2;
  return t;
}

FbTable fb_root(Fb *fb) {
  if (!inside(fb, 0, 8, "the header")) return (FbTable){.fb = fb};
  return table_from(fb, (int64_t)raw(fb, 0, 4));
}

// The position of a field's value; -1: the table has none.
static int64_t find(const FbTable *t, int field, int bytes) {
  if (!fb_has(t) || t->fb->status || field >= t->slots) return -1;
  int64_t offset = (int64_t)raw(t->fb, t->vtable + 4 + 2 * (int64_t)field, 2);
  if (!offset) return -1;
  if (offset < 4 || offset + bytes > t->size) {
    fb_fail(t->fb, t->at, "field %d lies outside of its table", field);
    return -1;
  }
  return aligned(t->fb, t->at + offset, bytes, "a field") ? t->at + offset : -1;
}

bool fb_is_set(const FbTable *t, int field) { return find(t, field, 1) >= 0; }

int64_t fb_i8(const FbTable *t, int field, int64_t dflt) {
  int64_t at = find(t, field, 1);
  return at < 0 ? dflt : (int8_t)raw(t->fb, at, 1);
}
int64_t fb_u8(const FbTable *t, int field, int64_t dflt) {
  int64_t at = find(t, field, 1);
  return at < 0 ? dflt : (int64_t)raw(t->fb, at, 1);
}
int64_t fb_u16(const FbTable *t, int field, int64_t dflt) {
  int64_t at = find(t, field, 2);
  return at < 0 ? dflt : (int64_t)raw(t->fb, at, 2);
}
int64_t fb_i32(const FbTable *t, int field, int64_t dflt) {
  int64_t at = find(t, field, 4);
  return at < 0 ? dflt : (int32_t)(uint32_t)raw(t->fb, at, 4);
}
int64_t fb_u32(const FbTable *t, int field, int64_t dflt) {
  int64_t at = find(t, field, 4);
  return at < 0 ? dflt : (int64_t)raw(t->fb, at, 4);
}
int64_t fb_i64(const FbTable *t, int field, int64_t dflt) {
  int64_t at = find(t, field, 8);
  return at < 0 ? dflt : (int64_t)raw(t->fb, at, 8);
}

static double f32_of(uint64_t bits) {
  uint32_t u = (uint32_t)bits;
  float f;
  memcpy(&f, &u, 4);
  return (double)f;
}
double fb_f32(const FbTable *t, int field, double dflt) {
  int64_t at = find(t, field, 4);
  return at < 0 ? dflt : f32_of(raw(t->fb, at, 4));
}

FbTable fb_table(const FbTable *t, int field) {
  int64_t at = find(t, field, 4);
  if (at < 0) return (FbTable){.fb = t->fb};
  return table_from(t->fb, at + (int64_t)raw(t->fb, at, 4));
}

// What the offset at `at` leads to.
static FbVector vector_from(Fb *fb, int64_t at, int bytes) {
  FbVector none = {.fb = fb};
  at += (int64_t)raw(fb, at, 4);
  if (!inside(fb, at, 4, "a vector") || !aligned(fb, at, 4, "a vector")) return none;
  FbVector v = {fb, at + 4, (int64_t)raw(fb, at, 4)};
  if (!inside(fb, v.at, v.n * bytes, "a vector")) return none;
  return v.n == 0 || aligned(fb, v.at, bytes, "a vector's elements") ? v : none;
}

FbVector fb_vector(const FbTable *t, int field, int bytes) {
  int64_t at = find(t, field, 4);
  return at < 0 ? (FbVector){.fb = t->fb} : vector_from(t->fb, at, bytes);
}

static Str text_of(const FbVector *v) {
  if (!v->at || !inside(v->fb, v->at, v->n + 1, "a string")) return (Str){"", 0};
  if (v->fb->p[v->at + v->n]) {
    fb_fail(v->fb, v->at, "a string of %lld bytes that no zero ends", (long long)v->n);
    return (Str){"", 0};
  }
  return (Str){(const char *)v->fb->p + v->at, v->n};
}

Str fb_str(const FbTable *t, int field) {
  FbVector v = fb_vector(t, field, 1);
  return text_of(&v);
}

int64_t fb_u8_at(const FbVector *v, int64_t i) { return (int64_t)raw(v->fb, v->at + i, 1); }
int64_t fb_u16_at(const FbVector *v, int64_t i) { return (int64_t)raw(v->fb, v->at + 2 * i, 2); }
int64_t fb_i32_at(const FbVector *v, int64_t i) {
  return (int32_t)(uint32_t)raw(v->fb, v->at + 4 * i, 4);
}
int64_t fb_i64_at(const FbVector *v, int64_t i) { return (int64_t)raw(v->fb, v->at + 8 * i, 8); }
double fb_f32_at(const FbVector *v, int64_t i) { return f32_of(raw(v->fb, v->at + 4 * i, 4)); }
FbTable fb_table_at(const FbVector *v, int64_t i) {
  if (v->fb->status) return (FbTable){.fb = v->fb};
  int64_t at = v->at + 4 * i;
  return table_from(v->fb, at + (int64_t)raw(v->fb, at, 4));
}
Str fb_str_at(const FbVector *v, int64_t i) {
  if (v->fb->status) return (Str){"", 0};
  FbVector text = vector_from(v->fb, v->at + 4 * i, 1);
  return text_of(&text);
}
