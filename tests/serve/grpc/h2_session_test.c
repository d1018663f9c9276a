// h2_session_test.c -- a connection without a socket: a call is answered, and any allocation may
// fail.
#include "serve/grpc/h2.h"

#include "base/platform.h"
#include "serve/http_conn.h"
#include "serve/kserve/message_json.h"
#include "serve/serve.h"
#include "test.h"

static Platform failing;
static int64_t calls, fail_at, live;

static void *alloc_some(int64_t bytes) {
  if (++calls == fail_at) return NULL;
  void *p = platform_posix.alloc(bytes);
  live += p != NULL;
  return p;
}

static void free_counted(void *p, int64_t bytes) {
  live -= p != NULL;
  platform_posix.free(p, bytes);
}

static void put_header(StrBuf *b, const char *name, const char *value) {
  strbuf_putc(b, 0);
  strbuf_putc(b, (char)strlen(name));
  strbuf_puts(b, name);
  strbuf_putc(b, (char)strlen(value));
  strbuf_puts(b, value);
}

static void put_frame(StrBuf *b, int type, int flags, int stream, Str payload) {
  char head[9] = {
      0, (char)(payload.n >> 8), (char)payload.n, (char)type, (char)flags, 0, 0, 0, (char)stream};
  strbuf_put(b, (Str){head, 9});
  strbuf_put(b, payload);
}

// A call of `method` with `body` as its message.
static void put_call(StrBuf *b, int stream, const char *method, Str body) {
  StrBuf head, data;
  char prefix[GRPC_PREFIX];
  strbuf_init(&head, b->arena);
  strbuf_init(&data, b->arena);
  put_header(&head, ":method", "POST");
  put_header(&head, ":scheme", "http");
  put_header(&head, ":authority", "test");
  put_header(&head, ":path", method);
  put_header(&head, "content-type", "application/grpc");
  grpc_write_prefix(prefix, body.n);
  strbuf_put(&data, (Str){prefix, GRPC_PREFIX});
  if (body.n) strbuf_put(&data, body);
  put_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, stream, strbuf_str(&head));
  put_frame(b, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, stream, strbuf_str(&data));
}

static Str make_bytes(Arena *a) {
#define SERVICE "/inference.GRPCInferenceService/"
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_puts(&b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  put_frame(&b, NGHTTP2_SETTINGS, 0, 0, (Str){"", 0});
  put_call(&b, 1, SERVICE "ServerMetadata", (Str){"", 0});
  put_call(&b, 3, SERVICE "ModelInfer", STR("\x0a\x01m\x2a\x03\x0a\x01x"));
  put_call(&b, 5, SERVICE "ModelStreamInfer", STR("\x0a\x01m"));
  put_call(&b, 7, SERVICE "RepositoryIndex", STR("\x10\x01"));
  return strbuf_str(&b);
}

// Feeds it all, and says how many DATA frames came back.
static int answers(Serve *serve, Str bytes) {
  HttpServer http = {0};
  GrpcServer server = {.serve = serve, .http = &http, .o.max_body = 1 << 20};
  H2Conn k = {.server = &server, .watch.fd = -1};
  int data = 0;
  if (h2_session_open(&k)) {
    h2_feed(&k, bytes.p, bytes.n);
    for (int i = 0; i < 8 && !k.dead; i++) h2_fill(&k);
    for (int64_t at = k.out.at; at + 9 <= k.out.n; at += 9) {
      const uint8_t *p = (const uint8_t *)k.out.p + at;
      data += p[3] == NGHTTP2_DATA && (p[1] || p[2]);
      at += p[0] << 16 | p[1] << 8 | p[2];
    }
  }
  h2_session_close(&k);
  EXPECT(http.bodies == 0);
  return data;
}

TEST(serve_grpc_h2_session_answers) {
  Arena a;
  Serve serve = {0};
  arena_init(&a);
  EXPECT(answers(&serve, make_bytes(&a)) == 3);  // ModelInfer has a status alone
  arena_deinit(&a);
}

TEST(serve_grpc_h2_session_memory) {
  Arena a;
  Serve serve = {0};
  arena_init(&a);
  Str bytes = make_bytes(&a);
  const Platform *before = platform;
  failing = platform_posix;
  failing.alloc = alloc_some;
  failing.free = free_counted;
  for (fail_at = 1;; fail_at++) {
    platform = &failing;
    calls = live = 0;
    (void)answers(&serve, bytes);
    platform = before;
    EXPECT(live == 0);
    if (calls < fail_at) break;
  }
  EXPECT(fail_at > 30);
  arena_deinit(&a);
}
