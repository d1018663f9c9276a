// frames.c -- messages of gRPC within the bytes of a stream (frames.h).
#include "serve/grpc/frames.h"

#include "base/platform.h"

#include <zlib.h>

enum { INFLATE_BYTES = 65536 };

GrpcCoding grpc_coding(Str name) {
  if (!name.n || str_is(name, "identity")) return GRPC_IDENTITY;
  return str_is(name, "gzip") ? GRPC_GZIP : str_is(name, "deflate") ? GRPC_DEFLATE : GRPC_NO_CODING;
}

static GrpcCode begin_message(GrpcReader *r, const char **why) {
  r->length = 0;
  for (int i = 1; i < GRPC_PREFIX; i++) r->length = r->length << 8 | r->prefix[i];
  if (r->prefix[0] > 1) {
    *why = "the flag of a message is neither 0 nor 1";
    return GRPC_INTERNAL;
  }
  if (r->prefix[0] && r->coding == GRPC_IDENTITY) {
    *why = "a message is compressed, but the call names no coding (grpc-encoding)";
    return GRPC_INTERNAL;
  }
  if (r->length > r->most) {
    *why = "the message is too large (--max-body)";
    return GRPC_RESOURCE_EXHAUSTED;
  }
  return GRPC_OK;
}

GrpcCode grpc_read(GrpcReader *r, const char *p, int64_t n, int64_t *used, const char **why) {
  *used = 0;
  while (r->nprefix < GRPC_PREFIX) {
    if (*used == n) return GRPC_OK;
    r->prefix[r->nprefix++] = (uint8_t)p[(*used)++];
    if (r->nprefix < GRPC_PREFIX) continue;
    GrpcCode code = begin_message(r, why);
    if (code) return code;
  }
  int64_t take = MIN(n - *used, r->length - r->message.n);
  if (!http_buf_put(&r->message, p + *used, take)) {
    *why = "out of memory";
    return GRPC_RESOURCE_EXHAUSTED;
  }
  *used += take;
  r->whole = r->message.n == r->length;
  return GRPC_OK;
}

bool grpc_read_begun(const GrpcReader *r) { return r->nprefix > 0 && !r->whole; }

// gzip and zlib tell themselves apart by their first bytes.
static GrpcCode inflate_message(GrpcReader *r, HttpBuf *out, const char **why) {
  z_stream z = {.next_in = (Bytef *)(void *)r->message.p, .avail_in = (uInt)r->message.n};
  GrpcCode code = GRPC_OK;
  int status = Z_OK;
  *why = "a compressed message is not what grpc-encoding says";
  if (inflateInit2(&z, r->coding == GRPC_GZIP ? 15 + 16 : 15) != Z_OK) {
    *why = "out of memory";
    return GRPC_RESOURCE_EXHAUSTED;
  }
  while (!code && status == Z_OK) {
    int64_t room = MIN(INFLATE_BYTES, r->most + 1 - out->n);  // one more shows that it is too large
    if (!http_buf_room(out, room)) {
      *why = "out of memory";
      code = GRPC_RESOURCE_EXHAUSTED;
      break;
    }
    z.next_out = (Bytef *)(void *)(out->p + out->n);
    z.avail_out = (uInt)room;
    status = inflate(&z, Z_NO_FLUSH);
    out->n += room - z.avail_out;
    if (status != Z_OK && status != Z_STREAM_END) code = GRPC_INTERNAL;
    if (out->n > r->most) {
      *why = "the message is too large once it is uncompressed (--max-body)";
      code = GRPC_RESOURCE_EXHAUSTED;
    }
  }
  if (!code && z.avail_in) code = GRPC_INTERNAL;
  inflateEnd(&z);
  return code;
}

GrpcCode grpc_take(GrpcReader *r, HttpBuf *out, const char **why) {
  GrpcCode code = GRPC_OK;
  *out = (HttpBuf){0};
  if (r->prefix[0]) {
    code = inflate_message(r, out, why);
    http_buf_free(&r->message);
    if (code) http_buf_free(out);
  } else {
    *out = r->message;
    r->message = (HttpBuf){0};
  }
  r->nprefix = 0;
  r->whole = false;
  return code;
}

void grpc_reader_free(GrpcReader *r) { http_buf_free(&r->message); }

void grpc_write_prefix(char out[GRPC_PREFIX], int64_t length) {
  out[0] = 0;
  for (int i = 1; i < GRPC_PREFIX; i++) out[i] = (char)(length >> (8 * (GRPC_PREFIX - 1 - i)));
}
