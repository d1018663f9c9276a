// status.h -- how calls of gRPC end: codes, their texts in headers, and times.
#ifndef TENON_SERVE_GRPC_STATUS_H
#define TENON_SERVE_GRPC_STATUS_H

#include "base/base.h"

typedef enum GrpcCode {
  GRPC_OK = 0,
  GRPC_CANCELLED = 1,
  GRPC_UNKNOWN = 2,
  GRPC_INVALID_ARGUMENT = 3,
  GRPC_DEADLINE_EXCEEDED = 4,
  GRPC_NOT_FOUND = 5,
  GRPC_PERMISSION_DENIED = 7,
  GRPC_RESOURCE_EXHAUSTED = 8,
  GRPC_UNIMPLEMENTED = 12,
  GRPC_INTERNAL = 13,
  GRPC_UNAVAILABLE = 14,
  GRPC_UNAUTHENTICATED = 16
} GrpcCode;

// Both ways, as google.rpc.Code pairs them with HTTP.
GrpcCode grpc_code_of(int http_status);
int grpc_http_status(GrpcCode c);

enum { GRPC_TEXT_BYTES = 2048 };
// Writes `text` percent-encoded for the header grpc-message, at most `cap` bytes and no cut escape.
int64_t grpc_encode_text(const char *text, char *out, int64_t cap);

// The header grpc-timeout, `10S` or `250m`, in nanoseconds; -1: it is none.
int64_t grpc_timeout_ns(Str value);

// What a content type says: 0, or the status of HTTP that refuses it.
int grpc_content_type(Str value);

#endif
