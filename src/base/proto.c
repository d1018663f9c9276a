// proto.c -- protobuf messages under construction (proto.h).
#include "base/proto.h"

enum { BORROW_FROM = 4096, WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_32 = 5 };

void proto_init(Proto *p, Arena *a) {
  *p = (Proto){.arena = a};
  strbuf_init(&p->tail, a);
}

void proto_varint(Proto *p, uint64_t v) {
  char byte[10];
  int n = 0;
  do {
    byte[n++] = (char)((v & 127) | (v > 127 ? 128 : 0));
    v >>= 7;
  } while (v);
  strbuf_put(&p->tail, (Str){byte, n});
  p->total += n;
}

static void put_tag(Proto *p, int field, int wire) {
  proto_varint(p, (uint64_t)field << 3 | (uint64_t)wire);
}

void proto_int(Proto *p, int field, int64_t v) {
  put_tag(p, field, WIRE_VARINT);
  proto_varint(p, (uint64_t)v);
}

void proto_float(Proto *p, int field, float v) {
  uint32_t bits;
  char byte[4];
  memcpy(&bits, &v, sizeof bits);
  for (int i = 0; i < 4; i++) byte[i] = (char)(bits >> (8 * i));
  put_tag(p, field, WIRE_32);
  strbuf_put(&p->tail, (Str){byte, 4});
  p->total += 4;
}

void proto_flush(Proto *p) {
  if (!p->tail.n) return;
  vec_push(p->arena, &p->part, strbuf_str(&p->tail));
  strbuf_init(&p->tail, p->arena);
}

static void put_piece(Proto *p, Str s) {
  if (s.n < BORROW_FROM) {
    if (s.n) strbuf_put(&p->tail, s);
  } else {
    proto_flush(p);
    vec_push(p->arena, &p->part, s);
  }
  p->total += s.n;
}

void proto_bytes(Proto *p, int field, Str s) {
  put_tag(p, field, WIRE_BYTES);
  proto_varint(p, (uint64_t)s.n);
  put_piece(p, s);
}

void proto_message(Proto *p, int field, Proto *m) {
  put_tag(p, field, WIRE_BYTES);
  proto_varint(p, (uint64_t)m->total);
  for (int64_t i = 0; i < m->part.n; i++) put_piece(p, m->part.v[i]);
  put_piece(p, strbuf_str(&m->tail));
}
