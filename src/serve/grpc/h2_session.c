// h2_session.c -- frames of HTTP/2 to calls and back, by nghttp2.
//
// nghttp2 reads and writes frames, HPACK and flow control, and refuses what is no HTTP/2.  What it
// leaves to its user is here:
//
//   floods   Frames that carry nothing cost the server work: pings, settings, resets, window
//            updates, priorities, continuations, empty data.  Each is paid from a credit that
//            answers and time give back; without credit the connection ends.
//   windows  A client may send SERVE_H2_WINDOW bytes of a call ahead of what was read.
//   output   Frames are made while less than OUT_BYTES wait for the socket; the rest stays with the
//            calls.
//
// Callbacks call no handler: a call with a whole message is marked, and handled behind them.
#include "serve/grpc/h2.h"

#include "base/platform.h"
#include "serve/log.h"

#include <stdio.h>

enum {
  OUT_BYTES = 1 << 18,
  CREDIT_PER_SECOND = 128,
  CREDIT_OF_ANSWER = 8,
  RESET_COST = 4,
  CONTINUATION_COST = 16,
  WINDOWS = 4  // of calls, in the window of the connection
};

// ---- memory: nghttp2's blocks have their size in front, and are listed ----
// A session that ran out of memory frees some of it twice (nghttp2 1.52).  So no session is
// deleted: what it has is freed with the connection.
typedef struct H2Block {
  int64_t bytes;
  struct H2Block *prev, *next;
  max_align_t data[];
} H2Block;

static void *take(size_t n, void *user) {
  H2Conn *k = user;
  int64_t bytes;
  if (n > INT64_MAX / 2 || !ck_add((int64_t)n, (int64_t)sizeof(H2Block), &bytes)) return NULL;
  H2Block *b = mem_alloc(bytes);
  if (!b) return NULL;
  *b = (H2Block){.bytes = bytes, .next = k->blocks};
  if (k->blocks) k->blocks->prev = b;
  k->blocks = b;
  return b->data;
}

static H2Block *block_of(void *p) { return (H2Block *)((char *)p - offsetof(H2Block, data)); }

static void give(void *p, void *user) {
  H2Conn *k = user;
  if (!p) return;
  H2Block *b = block_of(p);
  if (b->next) b->next->prev = b->prev;
  *(b->prev ? &b->prev->next : &k->blocks) = b->next;
  mem_free(b, b->bytes);
}

static void *take_zeroed(size_t n, size_t size, void *user) {
  int64_t bytes;
  if (!ck_mul((int64_t)n, (int64_t)size, &bytes)) return NULL;
  void *p = take((size_t)bytes, user);
  if (p) memset(p, 0, (size_t)bytes);
  return p;
}

static void *take_again(void *p, size_t n, void *user) {
  if (!p) return take(n, user);
  int64_t had = block_of(p)->bytes - (int64_t)sizeof(H2Block);
  void *q = take(n, user);
  if (!q) return NULL;
  memcpy(q, p, (size_t)MIN(had, (int64_t)n));
  give(p, user);
  return q;
}

// ---- floods ----
static void spend(H2Conn *k, int64_t cost) {
  int64_t now = platform->now(), ms = (now - k->credit_at) / 1000000;
  if (ms > 0) {
    k->credit = MIN(k->credit + ms * CREDIT_PER_SECOND / 1000, SERVE_H2_CREDIT);
    if (ms * CREDIT_PER_SECOND >= 1000) k->credit_at = now;
  }
  k->credit -= cost;
  if (k->credit >= 0 || k->ending) return;
  log_text(LOG_WARNING, "flood", "a client of gRPC sends too many frames without data");
  (void)nghttp2_session_terminate_session(k->session, NGHTTP2_ENHANCE_YOUR_CALM);
  k->ending = true;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user) {
  H2Conn *k = user;
  (void)session;
  switch (hd->type) {
  case NGHTTP2_DATA:
    if (!hd->length && !(hd->flags & NGHTTP2_FLAG_END_STREAM)) spend(k, 1);
    break;
  case NGHTTP2_RST_STREAM: spend(k, RESET_COST); break;
  case NGHTTP2_CONTINUATION: spend(k, CONTINUATION_COST); break;
  default: spend(k, 1); break;
  }
  return 0;
}

// ---- from the client ----
static GrpcCall *call_of(nghttp2_session *session, int32_t stream) {
  return nghttp2_session_get_stream_user_data(session, stream);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  H2Conn *k = user;
  if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  GrpcCall *c = call_new(k->server, k, frame->hd.stream_id);
  if (!c) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  c->next = k->calls;
  if (k->calls) k->calls->prev = c;
  k->calls = c;
  k->ncalls++;
  k->active_at = c->x.began;
  (void)nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, c);
  return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags,
                     void *user) {
  H2Conn *k = user;
  GrpcCall *c = call_of(session, frame->hd.stream_id);
  (void)flags;
  if (!c || call_header(c, (Str){(const char *)name, (int64_t)name_n},
                        (Str){(const char *)value, (int64_t)value_n}))
    return 0;
  k->dead = true;
  return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  H2Conn *k = user;
  GrpcCall *c = call_of(session, frame->hd.stream_id);
  if (frame->hd.type == NGHTTP2_PING && frame->hd.flags & NGHTTP2_FLAG_ACK) {
    if (k->server->draining) h2_goaway(k, true);
    return 0;
  }
  if (frame->hd.type == NGHTTP2_SETTINGS) k->greeted = true;
  if (!c || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)) return 0;
  if (frame->hd.type == NGHTTP2_HEADERS) call_headed(c);
  if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) call_ended(c);
  return 0;
}

static void allow_more(H2Conn *k, int32_t stream, int64_t n) {
  if (n > 0) (void)nghttp2_session_consume_stream(k->session, stream, (size_t)n);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *p,
                   size_t n, void *user) {
  H2Conn *k = user;
  GrpcCall *c = call_of(session, stream);
  (void)flags;
  k->active_at = platform->now();
  (void)nghttp2_session_consume_connection(session, n);
  allow_more(k, stream, c ? call_data(c, (const char *)p, (int64_t)n) : (int64_t)n);
  return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *user) {
  H2Conn *k = user;
  GrpcCall *c = call_of(session, stream);
  (void)error;
  if (!c) return 0;
  if (c->done && c->closed) k->credit = MIN(k->credit + CREDIT_OF_ANSWER, SERVE_H2_CREDIT);
  (void)nghttp2_session_set_stream_user_data(session, stream, NULL);
  *(c->prev ? &c->prev->next : &k->calls) = c->next;
  if (c->next) c->next->prev = c->prev;
  k->ncalls--;
  call_free(c);
  return 0;
}

// ---- to the client ----
static nghttp2_nv header(const char *name, const char *value, int64_t n) {
  return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                      .value = (uint8_t *)(uintptr_t)value,
                      .namelen = strlen(name),
                      .valuelen = (size_t)n};
}

static nghttp2_nv header_text(const char *name, const char *value) {
  return header(name, value, (int64_t)strlen(value));
}

// grpc-status and grpc-message behind `nv`, whose text lies in `code`.
static size_t put_status(const GrpcCall *c, char code[8], nghttp2_nv *nv, size_t n) {
  snprintf(code, 8, "%d", (int)c->code);
  nv[n++] = header_text("grpc-status", code);
  if (c->ntext) nv[n++] = header("grpc-message", c->text, c->ntext);
  return n;
}

static const char accepts[] = "identity,deflate,gzip";

// Data of a call; behind the last of it its trailers.
static ssize_t read_out(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t length,
                        uint32_t *flags, nghttp2_data_source *source, void *user) {
  GrpcCall *c = source->ptr;
  nghttp2_nv nv[2];
  char code[8];
  (void)buf, (void)user;
  int64_t n = MIN(http_buf_full(&c->out), (int64_t)length);
  if (!n && !c->done) return NGHTTP2_ERR_DEFERRED;
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (c->done && n == http_buf_full(&c->out)) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    if (nghttp2_submit_trailer(session, stream, nv, put_status(c, code, nv, 0)))
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
  return (ssize_t)n;
}

static int send_out(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                    size_t length, nghttp2_data_source *source, void *user) {
  H2Conn *k = user;
  GrpcCall *c = source->ptr;
  (void)session, (void)frame;
  if (!http_buf_room(&k->out, 9 + (int64_t)length)) return NGHTTP2_ERR_CALLBACK_FAILURE;
  (void)http_buf_put(&k->out, head, 9);
  (void)http_buf_put(&k->out, c->out.p + c->out.at, (int64_t)length);
  c->out.at += (int64_t)length;
  if (!http_buf_full(&c->out)) {
    http_buf_free(&c->out);
    c->ready = c->drained = c->method->sent != NULL;
  }
  c->stalled_since = 0;
  k->credit = MIN(k->credit + CREDIT_OF_ANSWER, SERVE_H2_CREDIT);
  k->active_at = platform->now();
  return 0;
}

// A client that is answered before it has sent all need not send the rest.
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  GrpcCall *c = call_of(session, frame->hd.stream_id);
  (void)user;
  if (!c || frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
    return 0;
  c->closed = true;
  if (!c->ended)
    (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                    NGHTTP2_NO_ERROR);
  return 0;
}

// An answer without a message is its trailers alone.
static int submit_end(GrpcCall *c) {
  nghttp2_session *session = c->conn->session;
  nghttp2_nv nv[5];
  char code[8], status[8];
  size_t n = 0;
  snprintf(status, sizeof status, "%d", c->refused ? c->refused : 200);
  nv[n++] = header_text(":status", status);
  if (!c->refused) {
    nv[n++] = header_text("content-type", "application/grpc");
    nv[n++] = header_text("grpc-accept-encoding", accepts);
    n = put_status(c, code, nv, n);
  }
  return nghttp2_submit_response(session, c->stream, nv, n, NULL);
}

static int submit_begin(GrpcCall *c) {
  nghttp2_nv nv[3] = {header_text(":status", "200"),
                      header_text("content-type", "application/grpc"),
                      header_text("grpc-accept-encoding", accepts)};
  nghttp2_data_provider data = {.source.ptr = c, .read_callback = read_out};
  return nghttp2_submit_response(c->conn->session, c->stream, nv, 3, &data);
}

void h2_wake(GrpcCall *c) {
  H2Conn *k = c->conn;
  int err = 0;
  if (c->begun) {
    (void)nghttp2_session_resume_data(k->session, c->stream);
  } else {
    c->begun = true;
    err = c->done && !http_buf_full(&c->out) ? submit_end(c) : submit_begin(c);
  }
  if (err)
    (void)nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, c->stream,
                                    NGHTTP2_INTERNAL_ERROR);
  if (!k->running) h2_pump(k);
}

// ---- calls with whole messages ----
static bool run_ready(H2Conn *k) {
  bool was = k->running, any = false;
  k->running = true;
  for (bool again = true; again;) {
    again = false;
    for (GrpcCall *c = k->calls; c; c = c->next) {
      if (!c->ready) continue;
      c->ready = false;
      any = again = true;
      allow_more(k, c->stream, call_run(c));
    }
  }
  k->running = was;
  return any;
}

void h2_ready(GrpcCall *c) {
  H2Conn *k = c->conn;
  c->ready = true;
  if (k->running) return;
  (void)run_ready(k);
  h2_pump(k);
}

struct H2Conn *grpc_enter(GrpcCall *c) {
  if (c->conn->running) return NULL;
  c->conn->running = true;
  return c->conn;
}

void grpc_leave(struct H2Conn *k) {
  if (!k) return;
  (void)run_ready(k);
  k->running = false;
  h2_pump(k);
}

// ---- the session ----
static int set_callbacks(nghttp2_session_callbacks **out) {
  nghttp2_session_callbacks *b;
  if (nghttp2_session_callbacks_new(&b)) return -1;
  nghttp2_session_callbacks_set_on_begin_frame_callback(b, on_begin_frame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(b, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(b, on_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(b, on_frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(b, on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(b, on_close);
  nghttp2_session_callbacks_set_on_frame_send_callback(b, on_sent);
  nghttp2_session_callbacks_set_send_data_callback(b, send_out);
  *out = b;
  return 0;
}

static int set_options(nghttp2_option **out) {
  nghttp2_option *o;
  if (nghttp2_option_new(&o)) return -1;
  nghttp2_option_set_no_auto_window_update(o, 1);
  nghttp2_option_set_no_closed_streams(o, 1);
  *out = o;
  return 0;
}

bool h2_session_open(H2Conn *k) {
  static const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, SERVE_GRPC_CALLS},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, SERVE_H2_WINDOW},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, SERVE_HEAD_BYTES},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  };
  nghttp2_mem mem = {k, take, give, take_zeroed, take_again};
  nghttp2_session_callbacks *callbacks = NULL;
  nghttp2_option *option = NULL;
  int err = set_callbacks(&callbacks);
  if (!err) err = set_options(&option);
  if (!err) err = nghttp2_session_server_new3(&k->session, callbacks, k, option, &mem);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  if (err) return false;
  k->credit = SERVE_H2_CREDIT;
  k->credit_at = k->active_at = k->heard_at = platform->now();
  return !nghttp2_submit_settings(k->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) &&
         !nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0,
                                                WINDOWS * SERVE_H2_WINDOW);
}

void h2_session_close(H2Conn *k) {
  k->running = true;
  while (k->blocks) give(k->blocks->data, k);
  k->session = NULL;
  for (GrpcCall *c = k->calls, *next; c; c = next) {
    next = c->next;
    call_free(c);
  }
  http_buf_free(&k->out);
}

void h2_feed(H2Conn *k, const char *p, int64_t n) {
  k->running = true;
  k->heard_at = platform->now();
  k->pinged = false;
  ssize_t used = nghttp2_session_mem_recv(k->session, (const uint8_t *)p, (size_t)n);
  if (used == NGHTTP2_ERR_FLOODED)
    (void)nghttp2_session_terminate_session(k->session, NGHTTP2_ENHANCE_YOUR_CALM);
  else if (used < 0)
    k->dead = true;
  (void)run_ready(k);
  k->running = false;
}

static void make_frames(H2Conn *k) {
  while (!k->dead && http_buf_full(&k->out) < OUT_BYTES) {
    const uint8_t *p;
    int64_t before = k->out.n;
    ssize_t n = nghttp2_session_mem_send(k->session, &p);
    if (n < 0 || (n > 0 && !http_buf_put(&k->out, p, n))) k->dead = true;
    if (n <= 0 && k->out.n == before) break;
  }
}

void h2_fill(H2Conn *k) {
  CHECK(!k->running, "frames are made within a handler");
  k->running = true;
  do {
    make_frames(k);
  } while (!k->dead && http_buf_full(&k->out) < OUT_BYTES && run_ready(k));
  k->running = false;
}

void h2_goaway(H2Conn *k, bool final) {
  static const uint8_t mark[8] = "drained";
  if (!final) {
    (void)nghttp2_submit_shutdown_notice(k->session);
    (void)nghttp2_submit_ping(k->session, NGHTTP2_FLAG_NONE, mark);
  } else if (!k->ending) {
    (void)nghttp2_submit_goaway(k->session, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(k->session),
                                NGHTTP2_NO_ERROR, NULL, 0);
  }
}

bool h2_is_over(const H2Conn *k) {
  return !nghttp2_session_want_read(k->session) && !nghttp2_session_want_write(k->session);
}
