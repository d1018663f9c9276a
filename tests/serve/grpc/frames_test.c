// frames_test.c -- messages within bytes: any cut, sizes at the limit, compression.
#include "serve/grpc/frames.h"

#include "base/platform.h"
#include "test.h"

#include <zlib.h>

enum { MOST = 1000 };

static Str packed(char *out, int64_t cap, const char *body, int64_t n, int bits) {
  z_stream z = {.next_in = (Bytef *)(uintptr_t)body, .avail_in = (uInt)n};
  CHECK(!deflateInit2(&z, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), "deflate");
  z.next_out = (Bytef *)(out + GRPC_PREFIX);
  z.avail_out = (uInt)(cap - GRPC_PREFIX);
  CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END, "deflate");
  int64_t size = cap - GRPC_PREFIX - z.avail_out;
  deflateEnd(&z);
  grpc_write_prefix(out, size);
  out[0] = 1;
  return (Str){out, GRPC_PREFIX + size};
}

// The messages in `bytes`, given `step` at a time: how many, and the code that ends them.
static int read_all(GrpcCoding coding, Str bytes, int64_t step, GrpcCode *code, int64_t *total) {
  GrpcReader r = {.most = MOST, .coding = coding};
  const char *why = NULL;
  int messages = 0;
  *code = GRPC_OK;
  *total = 0;
  for (int64_t at = 0, used; at < bytes.n && !*code; at += used) {
    *code = grpc_read(&r, bytes.p + at, MIN(step, bytes.n - at), &used, &why);
    if (*code || !r.whole) continue;
    HttpBuf body;
    *code = grpc_take(&r, &body, &why);
    if (*code) continue;
    *total += body.n;
    messages++;
    http_buf_free(&body);
  }
  if (!*code && grpc_read_begun(&r)) messages = -1;
  grpc_reader_free(&r);
  return messages;
}

TEST(serve_grpc_frames_cut) {
  char bytes[3 * GRPC_PREFIX + 12];
  GrpcCode code;
  int64_t total;
  memset(bytes, 'x', sizeof bytes);
  grpc_write_prefix(bytes, 7);
  grpc_write_prefix(bytes + 12, 0);
  grpc_write_prefix(bytes + 17, 5);
  for (int64_t step = 1; step <= (int64_t)sizeof bytes; step++)
    EXPECT(read_all(GRPC_IDENTITY, (Str){bytes, 27}, step, &code, &total) == 3 && !code &&
           total == 12);
  for (int64_t n = 1; n < 27; n++) {
    int messages = read_all(GRPC_IDENTITY, (Str){bytes, n}, 4, &code, &total);
    EXPECT(!code && messages == (n == 12 ? 1 : n == 17 ? 2 : -1));
  }
}

TEST(serve_grpc_frames_sizes) {
  static char bytes[GRPC_PREFIX + MOST + 1];
  GrpcCode code;
  int64_t total;
  grpc_write_prefix(bytes, MOST);
  EXPECT(read_all(GRPC_IDENTITY, (Str){bytes, GRPC_PREFIX + MOST}, 100, &code, &total) == 1);
  EXPECT(total == MOST);
  grpc_write_prefix(bytes, MOST + 1);
  (void)read_all(GRPC_IDENTITY, (Str){bytes, GRPC_PREFIX}, 100, &code, &total);
  EXPECT(code == GRPC_RESOURCE_EXHAUSTED);
  grpc_write_prefix(bytes, UINT32_MAX);
  (void)read_all(GRPC_IDENTITY, (Str){bytes, GRPC_PREFIX}, 100, &code, &total);
  EXPECT(code == GRPC_RESOURCE_EXHAUSTED);
  bytes[0] = 2;
  (void)read_all(GRPC_GZIP, (Str){bytes, GRPC_PREFIX}, 100, &code, &total);
  EXPECT(code == GRPC_INTERNAL);
}

TEST(serve_grpc_frames_compressed) {
  static char zeros[MOST + 1], out[4096];
  GrpcCode code;
  int64_t total;
  for (int gzip = 0; gzip < 2; gzip++) {
    GrpcCoding coding = gzip ? GRPC_GZIP : GRPC_DEFLATE;
    Str fits = packed(out, sizeof out, zeros, MOST, gzip ? 31 : 15);
    EXPECT(read_all(coding, fits, 3, &code, &total) == 1 && !code && total == MOST);
    (void)read_all(GRPC_IDENTITY, fits, 3, &code, &total);
    EXPECT(code == GRPC_INTERNAL);
    (void)read_all(gzip ? GRPC_DEFLATE : GRPC_GZIP, fits, 3, &code, &total);
    EXPECT(code == GRPC_INTERNAL);
    out[fits.n] = 0;  // something behind the end
    grpc_write_prefix(out, fits.n + 1 - GRPC_PREFIX);
    out[0] = 1;
    (void)read_all(coding, (Str){out, fits.n + 1}, 9, &code, &total);
    EXPECT(code == GRPC_INTERNAL);
    Str large = packed(out, sizeof out, zeros, MOST + 1, gzip ? 31 : 15);
    (void)read_all(coding, large, 9, &code, &total);
    EXPECT(code == GRPC_RESOURCE_EXHAUSTED);
  }
  EXPECT(grpc_coding(STR("gzip")) == GRPC_GZIP && grpc_coding(STR("br")) == GRPC_NO_CODING);
}
