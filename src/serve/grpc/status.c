// status.c -- codes, messages and times of gRPC (status.h).
#include "serve/grpc/status.h"

static const struct {
  int http;
  GrpcCode code;
} row[] = {{200, GRPC_OK},
           {400, GRPC_INVALID_ARGUMENT},
           {401, GRPC_UNAUTHENTICATED},
           {403, GRPC_PERMISSION_DENIED},
           {404, GRPC_NOT_FOUND},
           {429, GRPC_RESOURCE_EXHAUSTED},
           {413, GRPC_RESOURCE_EXHAUSTED},
           {499, GRPC_CANCELLED},
           {500, GRPC_INTERNAL},
           {501, GRPC_UNIMPLEMENTED},
           {503, GRPC_UNAVAILABLE},
           {504, GRPC_DEADLINE_EXCEEDED}};

GrpcCode grpc_code_of(int http_status) {
  for (int64_t i = 0; i < ARRAY_LEN(row); i++)
    if (row[i].http == http_status) return row[i].code;
  return GRPC_UNKNOWN;
}

int grpc_http_status(GrpcCode c) {
  for (int64_t i = 0; i < ARRAY_LEN(row); i++)
    if (row[i].code == c) return row[i].http;
  return 500;
}

int64_t grpc_encode_text(const char *text, char *out, int64_t cap) {
  static const char digit[] = "0123456789ABCDEF";
  int64_t n = 0;
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    bool plain = *p >= 0x20 && *p <= 0x7e && *p != '%';
    if (n + (plain ? 1 : 3) > cap) break;
    if (plain) {
      out[n++] = (char)*p;
    } else {
      out[n++] = '%';
      out[n++] = digit[*p >> 4];
      out[n++] = digit[*p & 15];
    }
  }
  return n;
}

int64_t grpc_timeout_ns(Str value) {
  static const struct {
    char unit;
    int64_t ns;
  } unit[] = {{'n', 1},          {'u', 1000},          {'m', 1000000},
              {'S', 1000000000}, {'M', 60000000000LL}, {'H', 3600000000000LL}};
  int64_t n = 0, out;
  if (value.n < 2 || value.n > 9) return -1;  // at most 8 digits
  for (int64_t i = 0; i + 1 < value.n; i++) {
    if (value.p[i] < '0' || value.p[i] > '9') return -1;
    n = n * 10 + (value.p[i] - '0');
  }
  for (int64_t i = 0; i < ARRAY_LEN(unit); i++)
    if (value.p[value.n - 1] == unit[i].unit)
      return ck_mul(n, unit[i].ns, &out) ? MIN(out, INT64_MAX / 4) : INT64_MAX / 4;
  return -1;
}

int grpc_content_type(Str value) {
  static const char name[] = "application/grpc";
  if (!value.p || !str_starts(value, name)) return 415;
  Str rest = {value.p + sizeof name - 1, value.n - (int64_t)sizeof name + 1};
  if (!rest.n || rest.p[0] == ';' || str_is(rest, "+proto") || str_starts(rest, "+proto;"))
    return 0;
  return 415;
}
