// frames.h -- messages of gRPC within the bytes of a stream: a flag, a length, and so many bytes.
//
// A message may be compressed by gzip or deflate, as the call's header grpc-encoding says.  No
// message is larger than `most`, before and after that; memory grows with what has come, not with
// what a length promises.
#ifndef TENON_SERVE_GRPC_FRAMES_H
#define TENON_SERVE_GRPC_FRAMES_H

#include "serve/grpc/status.h"
#include "serve/http_conn.h"

typedef enum GrpcCoding { GRPC_IDENTITY, GRPC_GZIP, GRPC_DEFLATE, GRPC_NO_CODING } GrpcCoding;
GrpcCoding grpc_coding(Str name);  // GRPC_NO_CODING: this server knows none of that name

enum { GRPC_PREFIX = 5 };
typedef struct GrpcReader {
  int64_t most;
  GrpcCoding coding;
  uint8_t prefix[GRPC_PREFIX];
  int nprefix;
  int64_t length;   // of the message that is being read, as it is sent
  HttpBuf message;  // so much of it
  bool whole;
} GrpcReader;

// Reads from p[0..n): *used is how much.  It stops behind a message: then r->whole.  Not GRPC_OK:
// what is wrong, and *why.
GrpcCode grpc_read(GrpcReader *r, const char *p, int64_t n, int64_t *used, const char **why);
bool grpc_read_begun(const GrpcReader *r);  // a message is cut off here
// The whole message, uncompressed, is the caller's; the reader waits for the next one.
GrpcCode grpc_take(GrpcReader *r, HttpBuf *out, const char **why);
void grpc_reader_free(GrpcReader *r);

void grpc_write_prefix(char out[GRPC_PREFIX], int64_t length);

#endif
