// grpc.c -- fuzz target: any bytes as a connection of gRPC, as messages within a stream, and as
// messages of each type.
//
// The first byte says which.  A connection has no socket and no model: its frames go to the session
// in two parts, and what it answers is thrown away.
#include "fuzz.h"
#include "serve/grpc/h2.h"
#include "serve/http_conn.h"
#include "serve/kserve/infer_message.h"
#include "serve/kserve/message_json.h"
#include "serve/log.h"
#include "serve/serve.h"

enum { MOST = 1 << 16, LOG_BYTES = 1 << 17 };

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

static void feed(H2Conn *k, const char *p, int64_t n) {
  if (!k->dead) h2_feed(k, p, n);
  for (int i = 0; i < 64 && !k->dead; i++) {
    h2_fill(k);
    if (!http_buf_full(&k->out)) break;
    k->out.at = k->out.n;
  }
}

static void connection(Str bytes) {
  static Serve serve;
  static HttpServer http;
  static GrpcServer server;
  serve = (Serve){0};
  http = (HttpServer){0};
  server = (GrpcServer){.serve = &serve, .http = &http, .o.max_body = MOST};
  arena_init(&serve.arena);
  H2Conn k = {.server = &server, .watch.fd = -1};
  log_level(LOG_ERROR);
  if (h2_session_open(&k)) {
    int64_t half = bytes.n / 2;
    feed(&k, preface, sizeof preface - 1);
    feed(&k, bytes.p, half);
    feed(&k, bytes.p + half, bytes.n - half);
    if (!k.dead) h2_goaway(&k, true);
    feed(&k, preface, 0);
    h2_session_close(&k);
  }
  if (http.bodies) finding("count", "bytes of bodies are still counted");
  arena_deinit(&serve.arena);
}

// Cut anywhere, the messages are the same.
static uint64_t messages(Str bytes, GrpcCoding coding, int64_t step, GrpcCode *code) {
  GrpcReader r = {.most = MOST, .coding = coding};
  const char *why = NULL;
  uint64_t sum = 0;
  *code = GRPC_OK;
  for (int64_t at = 0, used; at < bytes.n && !*code; at += used) {
    HttpBuf body;
    *code = grpc_read(&r, bytes.p + at, MIN(step, bytes.n - at), &used, &why);
    if (*code || !r.whole) continue;
    *code = grpc_take(&r, &body, &why);
    if (*code) continue;
    if (body.n > MOST) finding("size", "a message is larger than the limit");
    sum = sum * 31 + (uint64_t)body.n + 1;
    http_buf_free(&body);
  }
  grpc_reader_free(&r);
  return sum;
}

static tenon_status json_of(Arena *a, KsMessage m, Str bytes, Diag *d) {
  StrBuf b;
  JsonWriter w;
  Json j;
  Proto p;
  strbuf_init(&b, a);
  json_init(&w, &b, true);
  TRY(ks_message_to_json(a, m, bytes, &w, d));
  if (json_parse(a, strbuf_str(&b), d, &j)) return TENON_EFORMAT;  // a key of a map twice
  bool written = m < KS_InferParameter && m != KS_RepositoryModelLoadRequest &&
                 m != KS_RepositoryModelUnloadRequest && m != KS_ModelRepositoryParameter;
  proto_init(&p, a);
  if (written) ks_message_from_json(&p, m, &j);
  return TENON_OK;
}

static tenon_status message(Arena *a, int kind, Str bytes, Diag *d) {
  InferTarget target;
  InferRequest r;
  if (kind >= 0 && kind <= KS_ModelStreamInferResponse) return json_of(a, kind, bytes, d);
  TRY(infer_message_read(a, bytes, &target, &r, d));
  for (int64_t i = 0; i < r.ninputs; i++) TRY(ks_check_data(&r.input[i], d));
  return TENON_OK;
}

static void one_message(int kind, Str bytes) {
  static Diag d;
  Arena a;
  Trap t;
  diag_init(&d);
  arena_init(&a);
  a.limit = 512 * bytes.n + (1 << 20);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = message(&a, kind, bytes, &d);
  trap_leave(&t);
  arena_deinit(&a);
  if (t.status == TENON_ENOMEM || t.status == TENON_EINTERNAL) finding("message", d.text);
}

// The log's buffer is made before memory is counted.
static void prepare(void) {
  static char text[LOG_BYTES];
  static bool done;
  if (done) return;
  done = true;
  memset(text, 'x', sizeof text - 1);
  log_level(LOG_ERROR);
  log_text(LOG_ERROR, "fuzz", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { CONNECTION, FRAMES = 200, INFER = 210 };
  Str bytes = {(const char *)data + 1, (int64_t)size - 1};
  prepare();
  if (!size) return 0;
  fuzz_begin();
  if (data[0] == CONNECTION) {
    connection(bytes);
  } else if (data[0] >= FRAMES && data[0] < INFER) {
    GrpcCode a, b;
    GrpcCoding coding = (GrpcCoding)(data[0] % 3);
    uint64_t one = messages(bytes, coding, bytes.n, &a), cut = messages(bytes, coding, 3, &b);
    if (one != cut || a != b) finding("frames", "a cut makes a difference");
  } else {
    one_message(data[0] < FRAMES ? data[0] - 1 : -1, bytes);
  }
  fuzz_end();
  return 0;
}
