// pb.c -- the encoder of pb.h.
#include "pb.h"

#include <stdio.h>
#include <stdlib.h>

static void stop(const char *at) {
  fprintf(stderr, "pb_encode: cannot read '%.40s'\n", at);
  abort();
}

static void put_varint(StrBuf *b, uint64_t v) {
  for (; v >= 0x80; v >>= 7) strbuf_putc(b, (char)(v | 0x80));
  strbuf_putc(b, (char)v);
}

static const char *skip_space(const char *p) {
  while (*p == ' ' || *p == '\n') p++;
  return p;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const char *put_hex(StrBuf *b, const char *p) {
  for (p++; *p != '>'; p += 2) {
    if (hex_digit(p[0]) < 0 || hex_digit(p[1]) < 0) stop(p);
    strbuf_putc(b, (char)(hex_digit(p[0]) << 4 | hex_digit(p[1])));
  }
  return p + 1;
}

static const char *put_string(StrBuf *b, const char *p) {
  for (p++; *p != '\''; p++) {
    if (!*p) stop(p);
    if (*p == '\\') p++;
    strbuf_putc(b, *p);
  }
  return p + 1;
}

static const char *encode(StrBuf *b, const char *p, char end);

static const char *put_delimited(StrBuf *b, uint64_t field, const char *p) {
  StrBuf inner;
  strbuf_init(&inner, b->arena);
  if (*p == '{')
    p = encode(&inner, p + 1, '}');
  else if (*p == '<')
    p = put_hex(&inner, p);
  else
    p = put_string(&inner, p);
  put_varint(b, field << 3 | 2);
  put_varint(b, (uint64_t)inner.n);
  strbuf_put(b, strbuf_str(&inner));
  return p;
}

static const char *put_field(StrBuf *b, const char *p) {
  char *q;
  uint64_t field = strtoull(p, &q, 10);
  if (q == p || *q != ':') stop(p);
  p = q + 1;
  if (*p == '{' || *p == '<' || *p == '\'') return put_delimited(b, field, p);
  if (*p == '~') {
    float f = strtof(p + 1, &q);
    put_varint(b, field << 3 | 5);
    for (size_t i = 0; i < sizeof f; i++) strbuf_putc(b, ((const char *)&f)[i]);
    return q;
  }
  long long v = strtoll(p, &q, 10);
  if (q == p) stop(p);
  put_varint(b, field << 3);
  put_varint(b, (uint64_t)v);
  return q;
}

static const char *encode(StrBuf *b, const char *p, char end) {
  for (p = skip_space(p); *p != end; p = skip_space(p)) {
    if (!*p) stop(p);
    p = *p == '<' ? put_hex(b, p) : put_field(b, p);
  }
  return end ? p + 1 : p;
}

void pb_encode(StrBuf *out, const char *text) { encode(out, text, 0); }
