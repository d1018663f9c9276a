// call.c -- a call from its head to its status: what is refused, messages to handlers, answers.
//
// The rules are REST's: the same keys, the same largest body, the same time for a body, the same
// bytes of all bodies together.  A call that is refused is answered at once; what its client still
// sends is thrown away.
#include "serve/grpc/call.h"

#include "base/platform.h"
#include "serve/http_conn.h"
#include "serve/keys.h"
#include "serve/serve.h"

static const char *const header_name[GRPC_HEADERS] = {
    ":path", ":method", "content-type", "authorization", "grpc-timeout", "grpc-encoding"};

static int64_t in_seconds(int64_t n) { return platform->now() + n * 1000000000; }

// ---- memory of bodies, which REST and gRPC share ----
// Counts what the call holds now.  False: there is no room for it.
static bool count_bytes(GrpcCall *c) {
  int64_t have = c->held.n + c->in.message.n + c->body.n + c->taken;
  if (have > c->counted && !http_take_body(c->server->http, have - c->counted)) return false;
  if (have < c->counted) http_give_body(c->server->http, c->counted - have);
  c->counted = have;
  return true;
}

static void refuse_bytes(GrpcCall *c) {
  grpc_finish(c, GRPC_UNAVAILABLE, "too many bodies are being read");
}

void grpc_take_body(GrpcCall *c, HttpBuf *out) {
  *out = c->body;
  c->taken += c->body.n;
  c->body = (HttpBuf){0};
  c->x.body = (Str){0};
}

void grpc_give_body(GrpcCall *c, HttpBuf *b) {
  c->taken -= b->n;
  http_buf_free(b);
  (void)count_bytes(c);
}

// ---- the beginning and the end ----
GrpcCall *call_new(GrpcServer *s, struct H2Conn *conn, int32_t stream) {
  GrpcCall *c = mem_alloc(sizeof *c);
  if (!c) return NULL;
  memset(c, 0, sizeof *c);
  arena_init(&c->x.arena);
  c->server = s;
  c->conn = conn;
  c->stream = stream;
  c->x.serve = s->serve;
  c->x.method = HTTP_POST;
  c->x.form = HTTP_FORM_KSERVE;
  c->x.id = s->next_id++;
  c->x.began = platform->now();
  c->in.most = s->o.max_body;
  c->body_until = in_seconds(s->o.body_seconds);
  s->requests++;
  return c;
}

static void free_bodies(GrpcCall *c) {
  grpc_reader_free(&c->in);
  http_buf_free(&c->held);
  http_buf_free(&c->body);
  (void)count_bytes(c);
}

static void log_end_of(GrpcCall *c, int status) { exchange_log(&c->x, status, c->sent); }

void call_free(GrpcCall *c) {
  if (!c->done) {
    log_end_of(c, 499);
    c->done = true;
    if (c->x.on_gone) c->x.on_gone(&c->x);
  }
  free_bodies(c);
  http_buf_free(&c->head);
  http_buf_free(&c->out);
  arena_deinit(&c->x.arena);
  mem_free(c, sizeof *c);
}

// ---- answering ----
// What is still at work for the call is told that it is gone: its client may have sent a message
// that cannot be read behind one that is being answered.
void grpc_finish(GrpcCall *c, GrpcCode code, const char *text) {
  if (c->done) return;
  void (*gone)(HttpExchange * x) = c->x.on_gone;
  c->done = true;
  c->x.on_gone = NULL;
  c->code = code;
  c->ntext = code ? grpc_encode_text(text, c->text, GRPC_TEXT_BYTES) : 0;
  if (gone) gone(&c->x);
  free_bodies(c);
  log_end_of(c, grpc_http_status(code));
  h2_wake(c);
}

static bool put_message(GrpcCall *c, Str message) {
  char prefix[GRPC_PREFIX];
  grpc_write_prefix(prefix, message.n);
  if (message.n > UINT32_MAX || !http_buf_room(&c->out, GRPC_PREFIX + message.n)) {
    grpc_finish(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    return false;
  }
  (void)http_buf_put(&c->out, prefix, GRPC_PREFIX);
  (void)http_buf_put(&c->out, message.p, message.n);
  c->sent += message.n;
  return true;
}

void grpc_send(GrpcCall *c, Str message) {
  if (!c->done && put_message(c, message)) h2_wake(c);
}

void grpc_reply(GrpcCall *c, Str message) {
  if (!c->done && put_message(c, message)) grpc_finish(c, GRPC_OK, "");
}

int64_t grpc_pending(const GrpcCall *c) { return http_buf_full(&c->out); }

// ---- the head ----
static Str value_of(const GrpcCall *c, GrpcHeader h) {
  return (Str){c->has[h] ? c->head.p + c->value_at[h] : NULL, c->value_n[h]};
}

bool call_header(GrpcCall *c, Str name, Str value) {
  c->nheaders++;
  c->head_bytes += name.n + value.n + 32;  // as SETTINGS_MAX_HEADER_LIST_SIZE counts
  if (c->head_bytes > 4 * (int64_t)SERVE_HEAD_BYTES || c->nheaders > 4 * (int64_t)SERVE_HEADERS)
    return false;
  if (c->headed || c->head_bytes > SERVE_HEAD_BYTES || c->nheaders > SERVE_HEADERS) return true;
  for (int h = 0; h < GRPC_HEADERS; h++) {
    if (!str_is(name, header_name[h])) continue;
    if (c->has[h]) c->refused = 400;  // given twice
    c->value_at[h] = c->head.n;
    c->value_n[h] = value.n;
    c->has[h] = true;
    return http_buf_put(&c->head, value.p, value.n);
  }
  return true;
}

static const GrpcMethod *method_of(Str path) {
  for (const GrpcMethod *m = grpc_methods; m->path; m++)
    if (str_is(path, m->path)) return m;
  return NULL;
}

// GRPC_OK, or what refuses the call.
static GrpcCode admit(GrpcCall *c, const char **why) {
  Str timeout = value_of(c, GRPC_TIMEOUT);
  *why = "the metadata of the call are too large";
  if (c->head_bytes > SERVE_HEAD_BYTES || c->nheaders > SERVE_HEADERS)
    return GRPC_RESOURCE_EXHAUSTED;
  c->method = method_of(c->x.path);
  c->x.client = keys_client(c->server->o.keys, value_of(c, GRPC_AUTHORIZATION));
  *why = "there is no API key that fits in the metadata 'authorization'";
  if ((!c->method || !c->method->open) && !c->x.client) return GRPC_UNAUTHENTICATED;
  *why = "this server has no such method";
  if (!c->method) return GRPC_UNIMPLEMENTED;
  *why = "grpc-timeout is no time";
  int64_t ns = timeout.p ? grpc_timeout_ns(timeout) : 0;
  if (ns < 0) return GRPC_INVALID_ARGUMENT;
  if (timeout.p) c->deadline = platform->now() + MAX(ns, 1);
  c->in.coding = grpc_coding(value_of(c, GRPC_ENCODING));
  *why = "grpc-encoding is none of identity, gzip and deflate";
  return c->in.coding == GRPC_NO_CODING ? GRPC_UNIMPLEMENTED : GRPC_OK;
}

void call_headed(GrpcCall *c) {
  const char *why;
  if (c->headed) return;  // trailers, which gRPC's clients do not send
  c->headed = true;
  c->x.path = value_of(c, GRPC_PATH);
  bool large = c->head_bytes > SERVE_HEAD_BYTES || c->nheaders > SERVE_HEADERS;
  if (!large && !c->refused) {
    c->refused = str_is(value_of(c, GRPC_METHOD), "POST")
                     ? grpc_content_type(value_of(c, GRPC_CONTENT_TYPE))
                     : 405;
  }
  if (c->refused) {
    grpc_finish(c, c->refused == 400 ? GRPC_INVALID_ARGUMENT : GRPC_UNKNOWN,
                "this is no call of gRPC");
    return;
  }
  GrpcCode code = admit(c, &why);
  if (code)
    grpc_finish(c, code, why);
  else if (c->method->finished)
    c->body_until = 0;  // the next message of a stream may come at any time
}

// ---- messages ----
// Reads what it can up to the end of one message; what is left is held.
static int64_t read_some(GrpcCall *c, const char *p, int64_t n) {
  const char *why = NULL;
  int64_t used = 0;
  GrpcCode code = grpc_read(&c->in, p, n, &used, &why);
  if (code) {
    grpc_finish(c, code, why);
    return n;
  }
  if (used && grpc_read_begun(&c->in)) {
    if (!c->body_until) c->body_until = in_seconds(c->server->o.body_seconds);
    c->body_until += used * (1000000000 / 1024);
  }
  if (c->in.whole) {
    c->body_until = 0;
    h2_ready(c);
  }
  return used;
}

int64_t call_data(GrpcCall *c, const char *p, int64_t n) {
  int64_t used = 0;
  while (!c->done && used < n && !c->hold && !http_buf_full(&c->held) && !c->in.whole)
    used += read_some(c, p + used, n - used);
  if (c->done) return n;
  if (used < n && !c->method->finished) {
    grpc_finish(c, GRPC_INVALID_ARGUMENT, "this method takes one message");
    return n;
  }
  if (used < n && !http_buf_put(&c->held, p + used, n - used)) {
    grpc_finish(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    return n;
  }
  if (!count_bytes(c)) refuse_bytes(c);
  return c->done ? n : used;
}

void call_ended(GrpcCall *c) {
  c->ended = true;
  h2_ready(c);
}

static void handle(GrpcCall *c, void (*fn)(GrpcCall *c)) {
  Diag d;
  Trap t;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) fn(c);
  trap_leave(&t);
  if (!t.status || c->done) return;
  grpc_finish(c, t.status == TENON_ENOMEM ? GRPC_RESOURCE_EXHAUSTED : GRPC_INTERNAL, d.text);
}

static void take_message(GrpcCall *c) {
  const char *why = NULL;
  http_buf_free(&c->body);
  GrpcCode code = grpc_take(&c->in, &c->body, &why);
  if (code) {
    grpc_finish(c, code, why);
    return;
  }
  if (!count_bytes(c)) {
    refuse_bytes(c);
    return;
  }
  c->messages++;
  c->x.body = (Str){c->body.p ? c->body.p : "", c->body.n};
  handle(c, c->method->message);
}

// A method of one message is called when the client has ended, too: then nothing can follow.
static bool message_is_due(const GrpcCall *c) {
  return c->in.whole && !c->hold && (c->method->finished || c->ended);
}

// The client has ended, and no message is left.
static void run_end(GrpcCall *c) {
  if (c->told || c->hold || c->in.whole || http_buf_full(&c->held)) return;
  c->told = true;
  if (grpc_read_begun(&c->in))
    grpc_finish(c, GRPC_INVALID_ARGUMENT, "the message is cut off");
  else if (c->method->finished)
    handle(c, c->method->finished);
  else if (!c->messages)
    grpc_finish(c, GRPC_INVALID_ARGUMENT, "the call has no message");
}

int64_t call_run(GrpcCall *c) {
  int64_t freed = 0;
  if (c->drained && !c->done && c->messages) handle(c, c->method->sent);
  c->drained = false;
  while (!c->done) {
    if (message_is_due(c)) {
      take_message(c);
    } else if (!c->hold && !c->in.whole && http_buf_full(&c->held)) {
      int64_t used = read_some(c, c->held.p + c->held.at, http_buf_full(&c->held));
      if (c->done) break;
      c->held.at += used;
      if (!http_buf_full(&c->held)) http_buf_free(&c->held);
      freed += used;
    } else {
      break;
    }
  }
  if (!c->done && c->ended) run_end(c);
  if (!c->done && !count_bytes(c)) refuse_bytes(c);
  return freed;
}

void grpc_hold(GrpcCall *c) { c->hold = true; }

void grpc_go_on(GrpcCall *c) {
  if (!c->hold) return;
  c->hold = false;
  h2_ready(c);
}

// ---- time ----
void call_tick(GrpcCall *c, int64_t now) {
  if (c->done) return;
  if (c->deadline && c->deadline < now)
    grpc_finish(c, GRPC_DEADLINE_EXCEEDED, "the call's time is over");
  else if (c->body_until && c->body_until < now && !c->hold)
    grpc_finish(c, GRPC_DEADLINE_EXCEEDED, "the message took too long");
}

void call_drain(GrpcCall *c) {
  if (!c->done && c->method && c->method->drain) handle(c, c->method->drain);
}
