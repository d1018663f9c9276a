// status_test.c -- times, codes and texts in headers of gRPC.
#include "serve/grpc/status.h"

#include "test.h"

TEST(serve_grpc_status_timeouts) {
  EXPECT(grpc_timeout_ns(STR("250m")) == 250000000);
  EXPECT(grpc_timeout_ns(STR("1n")) == 1 && grpc_timeout_ns(STR("7u")) == 7000);
  EXPECT(grpc_timeout_ns(STR("10S")) == 10000000000 && grpc_timeout_ns(STR("2M")) == 120000000000);
  EXPECT(grpc_timeout_ns(STR("99999999H")) == INT64_MAX / 4);
  static const char *const bad[] = {"", "m", "1", "-1m", "1.5S", "123456789m", "10x", " 1m", "1m "};
  for (int64_t i = 0; i < ARRAY_LEN(bad); i++) EXPECT(grpc_timeout_ns(str_of(bad[i])) == -1);
}

TEST(serve_grpc_status_texts) {
  char out[16];
  EXPECT(str_eq((Str){out, grpc_encode_text("a %\n", out, 16)}, STR("a %25%0A")));
  EXPECT(grpc_encode_text("abc\xc3\xa4", out, 8) == 6);  // no cut escape
}

TEST(serve_grpc_status_codes) {
  static const GrpcCode code[] = {GRPC_OK,        GRPC_INVALID_ARGUMENT, GRPC_NOT_FOUND,
                                  GRPC_CANCELLED, GRPC_UNAVAILABLE,      GRPC_DEADLINE_EXCEEDED};
  for (int64_t i = 0; i < ARRAY_LEN(code); i++)
    EXPECT(grpc_code_of(grpc_http_status(code[i])) == code[i]);
  EXPECT(grpc_code_of(418) == GRPC_UNKNOWN);
  EXPECT(!grpc_content_type(STR("application/grpc")));
  EXPECT(!grpc_content_type(STR("application/grpc+proto;charset=utf-8")));
  EXPECT(grpc_content_type(STR("application/grpc-web")) == 415);
  EXPECT(grpc_content_type(STR("application/grpc+json")) == 415);
  EXPECT(grpc_content_type(STR("application/json")) == 415 && grpc_content_type(STR("")) == 415);
  EXPECT(grpc_content_type((Str){0}) == 415);
}
