// proto.h -- protobuf messages under construction.
//
// A message is pieces of memory in order: small fields are put together in a buffer, large ones are
// referred to in place.  So weights go from the model's file to the new one without a copy in
// between.
#ifndef TENON_BASE_PROTO_H
#define TENON_BASE_PROTO_H

#include "base/base.h"

typedef struct Proto {
  Arena *arena;
  StrBuf tail;  // what follows the parts
  VEC(Str) part;
  int64_t total;  // bytes of all
} Proto;
void proto_init(Proto *p, Arena *a);
void proto_varint(Proto *p, uint64_t v);  // alone, for packed lists
void proto_int(Proto *p, int field, int64_t v);
void proto_float(Proto *p, int field, float v);
void proto_bytes(Proto *p, int field, Str s);  // large ones are borrowed
static inline void proto_text(Proto *p, int field, const char *z) {
  proto_bytes(p, field, str_of(z));
}
void proto_message(Proto *p, int field, Proto *m);  // m is done with
void proto_flush(Proto *p);                         // all of it as parts

#endif
