// flatbuffer.h -- a checked view of a FlatBuffer.
//
// Tables are found through offsets and described by vtables; every offset, length and alignment is
// checked when it is followed, so that nothing is read outside the bytes.  A field that a table
// does not have gives the schema's default.  The first fault is kept in the view, with its place:
// accessors give defaults from then on, and whoever reads asks once.
#ifndef TENON_FRONTENDS_COMMON_FLATBUFFER_H
#define TENON_FRONTENDS_COMMON_FLATBUFFER_H

#include "base/base.h"

typedef struct Fb {
  const uint8_t *p;
  int64_t n;  // bytes
  Diag *diag;
  tenon_status status;  // of the first fault
} Fb;
typedef struct FbTable {
  Fb *fb;
  int64_t at, size;       // position and bytes; size 0: there is none
  int64_t vtable, slots;  // fields that the vtable has a place for
} FbTable;
typedef struct FbVector {
  Fb *fb;
  int64_t at, n;  // first element; elements
} FbVector;

tenon_status fb_fail(Fb *fb, int64_t at, const char *fmt, ...) PRINTF(3, 4);
FbTable fb_root(Fb *fb);
static inline bool fb_has(const FbTable *t) { return t->size > 0; }

// Fields of a table by their number in the schema.
bool fb_is_set(const FbTable *t, int field);
int64_t fb_i8(const FbTable *t, int field, int64_t dflt);
int64_t fb_u8(const FbTable *t, int field, int64_t dflt);
int64_t fb_u16(const FbTable *t, int field, int64_t dflt);
int64_t fb_i32(const FbTable *t, int field, int64_t dflt);
int64_t fb_u32(const FbTable *t, int field, int64_t dflt);
int64_t fb_i64(const FbTable *t, int field, int64_t dflt);
double fb_f32(const FbTable *t, int field, double dflt);
FbTable fb_table(const FbTable *t, int field);
Str fb_str(const FbTable *t, int field);  // empty where absent
// A vector whose elements have `bytes` each (1, 2, 4, 8); n is 0 where absent.
FbVector fb_vector(const FbTable *t, int field, int bytes);

// Elements; `i` must be below n.
int64_t fb_u8_at(const FbVector *v, int64_t i);
int64_t fb_u16_at(const FbVector *v, int64_t i);
int64_t fb_i32_at(const FbVector *v, int64_t i);
int64_t fb_i64_at(const FbVector *v, int64_t i);
double fb_f32_at(const FbVector *v, int64_t i);
FbTable fb_table_at(const FbVector *v, int64_t i);
Str fb_str_at(const FbVector *v, int64_t i);

#endif
