// h2_conn.c -- connections of gRPC: sockets, deadlines, and who is sent away.
//
// A connection whose client takes no byte for SERVE_WRITE_SECONDS is dropped, one without calls is
// closed after SERVE_GRPC_IDLE_SECONDS, with notice.  One that is silent is pinged, and dropped
// where no answer comes: its client may be gone without a word.  While answers wait for the socket
// nothing is read, so a client that does not read cannot ask for more.
#include "serve/grpc/h2.h"

#include "base/platform.h"
#include "serve/log.h"
#include "serve/serve.h"

#include <errno.h>
#include <sys/socket.h>

enum {
  READ_BYTES = 65536,
  READ_BELOW = 1 << 18,
  SENDS_MOST = 16,
  LINGER_SECONDS = 2,
  SWEEP_MS = 250
};

static int64_t in_seconds(int64_t n) { return platform->now() + n * 1000000000; }

bool grpc_is_built(void) { return true; }

// ---- the end of a connection ----
static void conn_close(H2Conn *k) {
  GrpcServer *s = k->server;
  event_remove(s->loop, &k->watch);
  (void)platform->close(k->watch.fd);
  *(k->prev ? &k->prev->next : &s->conns) = k->next;
  if (k->next) k->next->prev = k->prev;
  h2_session_close(k);
  mem_free(k, sizeof *k);
  http_h2_closed(s->http);
}

// Whoever is at work with the connection goes on; the loop then sees that it is gone.
static void conn_kill(H2Conn *k) {
  k->dead = true;
  (void)shutdown(k->watch.fd, SHUT_RDWR);
}

// ---- writing ----
static void wait_for(H2Conn *k) {
  uint32_t events = http_buf_full(&k->out) ? EPOLLOUT : 0;
  if (k->lingers || http_buf_full(&k->out) < READ_BELOW) events |= EPOLLIN;
  (void)event_change(k->server->loop, &k->watch, events);
}

// Closed for writing; what the client still sends is thrown away.
static void linger(H2Conn *k) {
  if (k->lingers) return;
  k->lingers = true;
  k->deadline = in_seconds(LINGER_SECONDS);
  (void)shutdown(k->watch.fd, SHUT_WR);
}

static int64_t send_bytes(H2Conn *k) {
  int64_t sent = 0;
  while (!k->dead && http_buf_full(&k->out)) {
    ssize_t n =
        send(k->watch.fd, k->out.p + k->out.at, (size_t)http_buf_full(&k->out), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) {
      conn_kill(k);
      break;
    }
    k->out.at += n;
    sent += n;
  }
  return sent;
}

void h2_pump(H2Conn *k) {
  if (k->watch.fd < 0) return;
  int64_t sent = 0;
  h2_fill(k);
  for (int i = 0; i < SENDS_MOST && http_buf_full(&k->out) && !k->dead; i++) {
    int64_t n = send_bytes(k);
    sent += n;
    if (!n) break;
    h2_fill(k);
  }
  if (k->dead) {
    conn_kill(k);
    return;
  }
  bool left = http_buf_full(&k->out) > 0;
  if (!left && k->out.p) http_buf_free(&k->out);
  if (!k->lingers) {
    if (left && (sent || !k->stalled)) k->deadline = in_seconds(k->server->o.write_seconds);
    if (!left) k->deadline = 0;
    k->stalled = left;
    if (!left && h2_is_over(k)) linger(k);
  }
  wait_for(k);
}

// ---- reading ----
static void read_bytes(H2Conn *k) {
  char bytes[READ_BYTES];
  ssize_t n = recv(k->watch.fd, bytes, sizeof bytes, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0)
    k->dead = true;
  else if (!k->lingers)
    h2_feed(k, bytes, n);
}

static void on_conn(void *arg, uint32_t events) {
  H2Conn *k = arg;
  if (events & (EPOLLERR | EPOLLHUP)) k->dead = true;
  if (!k->dead && events & EPOLLIN) read_bytes(k);
  if (!k->dead) h2_pump(k);
  if (k->dead) conn_close(k);
}

bool grpc_connect(GrpcServer *s, int fd, Str first) {
  H2Conn *k = mem_alloc(sizeof *k);
  if (!k) return false;
  *k = (H2Conn){.server = s, .next = s->conns, .watch = {fd, EPOLLIN, on_conn, k}};
  if (!h2_session_open(k) || event_add(s->loop, &k->watch)) {
    if (k->session) h2_session_close(k);
    mem_free(k, sizeof *k);
    return false;
  }
  if (s->conns) s->conns->prev = k;
  s->conns = k;
  if (first.n) h2_feed(k, first.p, first.n);
  h2_pump(k);
  return true;
}

// ---- deadlines ----
// A call whose answer waits for the client's window is dropped as one whose client does not read.
static void tick_calls(H2Conn *k, int64_t now) {
  k->running = true;  // until grpc_leave
  for (GrpcCall *c = k->calls; c; c = c->next) {
    call_tick(c, now);
    if (!grpc_pending(c) && !(c->done && !c->closed)) {
      c->stalled_since = 0;
    } else if (!c->stalled_since) {
      c->stalled_since = now;
    } else if (now - c->stalled_since > k->server->o.write_seconds * 1000000000) {
      (void)nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, c->stream, NGHTTP2_CANCEL);
    }
  }
  grpc_leave(k);
}

// A client that took nothing, did not begin, or gave no sign of life.
static bool is_late(const H2Conn *k, int64_t now) {
  const GrpcOptions *o = &k->server->o;
  if (k->deadline && k->deadline < now) return true;
  if (!k->greeted) return now - k->active_at > o->head_seconds * 1000000000;
  return now - k->heard_at > (o->ping_seconds + o->write_seconds) * 1000000000;
}

static void tick(H2Conn *k, int64_t now) {
  if (k->dead || is_late(k, now)) {
    conn_close(k);
    return;
  }
  if (k->lingers) return;
  tick_calls(k, now);
  if (!k->pinged && now - k->heard_at > k->server->o.ping_seconds * 1000000000) {
    k->pinged = true;
    (void)nghttp2_submit_ping(k->session, NGHTTP2_FLAG_NONE, NULL);
    h2_pump(k);
  }
  if (!k->ncalls && now - k->active_at > k->server->o.idle_seconds * 1000000000 && !k->ending) {
    k->ending = true;
    (void)nghttp2_session_terminate_session(k->session, NGHTTP2_NO_ERROR);
    h2_pump(k);
  }
}

static void on_sweep(void *arg) {
  GrpcServer *s = arg;
  int64_t now = platform->now();
  for (H2Conn *k = s->conns, *next; k; k = next) {
    next = k->next;
    tick(k, now);
  }
  event_timer(s->loop, &s->sweep, now + SWEEP_MS * 1000000LL);
}

// ---- the server ----
static bool take_conn(void *arg, int fd, Str first) { return grpc_connect(arg, fd, first); }

int grpc_open(EventLoop *l, const GrpcOptions *o, struct Serve *serve, HttpServer *http, int fd,
              GrpcServer **out) {
  GrpcServer *s = mem_alloc(sizeof *s);
  if (!s) return ENOMEM;
  *s = (GrpcServer){.loop = l, .serve = serve, .http = http, .o = *o};
  s->next_id = platform->random_u64();
  s->sweep = (EventTimer){.fn = on_sweep, .arg = s};
  int err = http_open_h2(http, fd, take_conn, s);
  if (err) {
    mem_free(s, sizeof *s);
    return err;
  }
  event_timer(l, &s->sweep, platform->now() + SWEEP_MS * 1000000LL);
  *out = s;
  return 0;
}

void grpc_drain(GrpcServer *s) {
  if (s->draining) return;
  s->draining = true;
  for (H2Conn *k = s->conns; k; k = k->next) {
    h2_goaway(k, false);
    k->running = true;
    for (GrpcCall *c = k->calls; c; c = c->next) call_drain(c);
    grpc_leave(k);
  }
}

int64_t grpc_active(const GrpcServer *s) {
  int64_t n = 0;
  for (const H2Conn *k = s->conns; k; k = k->next)
    n += k->ncalls + (!k->lingers && http_buf_full(&k->out) > 0);
  return n;
}

uint64_t grpc_requests(const GrpcServer *s) { return s->requests; }

void grpc_close(GrpcServer *s) {
  while (s->conns) conn_close(s->conns);
  event_timer_stop(s->loop, &s->sweep);
  mem_free(s, sizeof *s);
}
