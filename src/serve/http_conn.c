// http_conn.c -- connections: bytes to requests, deadlines, and who is sent away.
//
// A connection has one request at a time; what a client sends ahead stays in the socket.  What
// cannot be served is answered before its body is read, and then the connection closes: it is
// closed for writing first, so that the client gets the answer and no reset.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // accept4
#endif
#include "serve/http_conn.h"

#include "base/platform.h"
#include "serve/keys.h"
#include "serve/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  READ_BYTES = 16384,
  BODY_READ_BYTES = 1 << 18,
  LINGER_SECONDS = 2,
  PIPELINE_BYTES = 1 << 18,  // of answers that wait: no further request is begun
  SMALL_BODY = 4096,         // a body that came with its head is copied into the arena
  ARENA_BYTES = 16000,       // first chunk of an exchange's arena: most requests need no other
  SPARES = 256,              // exchanges that are kept for the next request
  BODIES_BYTES = 1 << 30,    // of all bodies together
  SWEEP_MS = 250,
  SWEEP_MOST = 64  // connections that are sent away before others have their turn
};

static int64_t in_seconds(int64_t n) { return platform->now() + n * 1000000000; }

// ---- the end of a connection ----
static void exchange_free(HttpExchange *x) {
  arena_deinit(&x->arena);
  mem_free(x, sizeof *x);
}

static void drop_exchange(HttpConn *c) {
  HttpServer *s = c->server;
  HttpExchange *x = c->x;
  c->x = NULL;
  s->nactive--;
  if (s->nspare < SPARES) {
    arena_clear(&x->arena);
    x->user = s->spare;
    s->spare = x;
    s->nspare++;
  } else {
    exchange_free(x);
  }
  s->bodies -= c->budgeted;
  c->budgeted = 0;
  http_buf_free(&c->body);
  c->more = NULL;
}

static void pause_listening(HttpServer *s, bool pause) {
  if (s->paused == pause) return;
  s->paused = pause;
  for (int i = 0; i < HTTP_LISTENS; i++)
    if (s->listen[i].open) (void)event_change(s->loop, &s->listen[i].watch, pause ? 0 : EPOLLIN);
}

static void conn_free(HttpConn *c) {
  HttpServer *s = c->server;
  if (c->watch.fd >= 0) {
    event_remove(s->loop, &c->watch);
    (void)platform->close(c->watch.fd);
  }
  if (c->x) drop_exchange(c);
  http_buf_free(&c->in);
  http_buf_free(&c->out);
  *(c->prev ? &c->prev->next : &s->conns) = c->next;
  if (c->next) c->next->prev = c->prev;
  s->nconns--;
  mem_free(c, sizeof *c);
  pause_listening(s, false);
}

// The connection goes on as HTTP/2, elsewhere.
static void hand_over(HttpConn *c) {
  HttpServer *s = c->server;
  event_remove(s->loop, &c->watch);
  Str first = {c->in.p + c->in.at, http_buf_full(&c->in)};
  bool taken = s->take_h2(s->take_arg, c->watch.fd, first);
  s->nconns += taken;
  if (taken) c->watch.fd = -1;
  conn_free(c);
}

void conn_lost(HttpConn *c) {
  if (c->x && c->state == CONN_ACTIVE) {
    HttpExchange *x = c->x;
    exchange_log(x, 499, c->sent);
    if (x->on_gone) x->on_gone(x);
  }
  conn_free(c);
}

// Whoever is at work with the connection goes on; the loop then sees that it is gone.
static void conn_kill(HttpConn *c) {
  c->dead = true;
  (void)shutdown(c->watch.fd, SHUT_RDWR);
}

static void linger(HttpConn *c) {
  (void)shutdown(c->watch.fd, SHUT_WR);
  c->state = CONN_LINGER;
  c->deadline = in_seconds(LINGER_SECONDS);
  (void)event_change(c->server->loop, &c->watch, EPOLLIN);
}

// ---- writing ----
enum { READS = EPOLLIN | EPOLLRDHUP };

static bool is_reading(const HttpConn *c) {
  return c->state == CONN_HEAD || c->state == CONN_BODY || c->state == CONN_LINGER;
}

// Most requests come and go without a change of what is waited for: while one is answered the
// connection stays with READS, until the client sends ahead (on_conn).
static void wait_for(HttpConn *c) {
  uint32_t events = http_buf_full(&c->out) ? EPOLLOUT : 0;
  if (is_reading(c) && http_buf_full(&c->out) < PIPELINE_BYTES) events |= READS;
  if (c->state == CONN_ACTIVE) events |= !events && c->watch.events == READS ? READS : EPOLLRDHUP;
  (void)event_change(c->server->loop, &c->watch, events);
}

void conn_flush(HttpConn *c) {
  int64_t before = http_buf_full(&c->out);
  while (!c->dead && http_buf_full(&c->out)) {
    ssize_t n =
        send(c->watch.fd, c->out.p + c->out.at, (size_t)http_buf_full(&c->out), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) conn_kill(c);
    if (n > 0) c->out.at += n;
  }
  int64_t left = http_buf_full(&c->out);
  if (c->stream && left > SERVE_STREAM_BYTES) conn_kill(c);
  if (!left && c->out.cap > READ_BYTES) http_buf_free(&c->out);
  if (left && (left < before || !c->stalled))
    c->deadline = in_seconds(c->server->o.write_seconds);
  else if (!left && c->state == CONN_ACTIVE)
    c->deadline = 0;
  c->stalled = left > 0;
  wait_for(c);
}

// ---- a request ----
static void next_request(HttpConn *c) {
  c->state = CONN_HEAD;
  c->seen = 0;
  c->blank = false;
  c->deadline =
      in_seconds(http_buf_full(&c->in) ? c->server->o.head_seconds : c->server->o.idle_seconds);
}

static void proceed(HttpConn *c);

// The exchange was answered: on to the next one, or to the end.
static void after_reply(HttpConn *c) {
  drop_exchange(c);
  c->stream = false;
  if (c->dead) {
    conn_kill(c);
    return;
  }
  if (c->keep)
    next_request(c);
  else
    c->state = CONN_FLUSH;
  conn_flush(c);
  if (c->state == CONN_FLUSH && !http_buf_full(&c->out)) linger(c);
}

void conn_finished(HttpConn *c) {
  if (c->running) {
    c->running = false;  // begun by `call`, which goes on from here
    return;
  }
  after_reply(c);
  if (c->state == CONN_HEAD) proceed(c);
}

static void call(HttpConn *c, void (*handle)(HttpExchange *x)) {
  Diag d;
  Trap t;
  diag_init(&d);
  c->state = CONN_ACTIVE;
  c->deadline = 0;
  c->running = true;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) handle(c->x);
  trap_leave(&t);
  if (t.status && c->running) {
    c->more = NULL;
    if (c->stream)
      conn_kill(c);
    else
      http_reply(c->x, 503, "application/json",
                 STR("{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\","
                     "\"param\":null,\"code\":null}}"));
  }
  if (!c->running)
    after_reply(c);
  else
    wait_for(c);
  c->running = false;
}

static HttpExchange *exchange_new(HttpConn *c) {
  HttpServer *s = c->server;
  HttpExchange *x = s->spare;
  if (x) {
    s->spare = x->user;
    s->nspare--;
    *x = (HttpExchange){.arena = x->arena};
  } else {
    x = mem_alloc(sizeof *x);
    if (!x) return NULL;
    arena_init(&x->arena);
  }
  x->serve = s->serve;
  x->conn = c;
  x->id = s->next_id++;
  x->began = platform->now();
  x->body = STR("");
  s->nactive++;
  s->requests++;
  c->x = x;
  c->served = c->keep = true;
  c->more = NULL;
  return x;
}

// What is wrong with a request, for a handler that says it.
static void say_wrong(HttpExchange *x) {
  const char *why = x->user;
  x->conn->keep = false;
  http_fail(x, x->conn->status, "%s", why ? why : http_reason(x->conn->status));
}

static void refuse(HttpConn *c, int status, const char *why) {
  if (!c->x && !exchange_new(c)) {
    conn_kill(c);
    return;
  }
  c->status = status;
  c->x->user = (void *)(uintptr_t)why;
  call(c, say_wrong);
}

static void say_options(HttpExchange *x) { http_reply(x, 204, "text/plain", STR("")); }

static void say_methods(HttpExchange *x) {
  int methods = x->conn->status;
  http_header(x, "Allow",
              str_printf(&x->arena, "OPTIONS%s%s%s%s", methods & HTTP_GET ? ", GET, HEAD" : "",
                         methods & HTTP_POST ? ", POST" : "", methods & HTTP_PUT ? ", PUT" : "",
                         methods & HTTP_DELETE ? ", DELETE" : ""));
  http_fail(x, 405, "this path is not for that method");
}

// A page of another site must not reach a server on the user's own machine.
static bool origin_fits(HttpExchange *x) {
  Str origin = http_header_of(x, "origin"), host = http_header_of(x, "host");
  const char *allowed = x->conn->server->o.allow_origin;
  if (!origin.p) return true;
  if (allowed && (!strcmp(allowed, "*") || str_is(origin, allowed))) {
    http_header(x, "Access-Control-Allow-Origin", allowed);
    http_header(x, "Access-Control-Allow-Headers", "Authorization, Content-Type");
    http_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    return true;
  }
  int64_t scheme = str_starts(origin, "http://") ? 7 : str_starts(origin, "https://") ? 8 : 0;
  return scheme && str_eq((Str){origin.p + scheme, origin.n - scheme}, host);
}

// The route of c->x, as c->handle: 0, or the status that refuses it.
static int admit(HttpConn *c, const char **why) {
  HttpExchange *x = c->x;
  int methods = 0;
  const HttpRoute *r = http_route(x, x->path, x->method, &methods);
  x->form =
      str_starts(x->path, "/v2/") || str_is(x->path, "/v2") ? HTTP_FORM_KSERVE : HTTP_FORM_OPENAI;
  *why = "the page that sends this is of another site (--allow-origin)";
  if (!origin_fits(x)) return 403;
  if (x->method == HTTP_OPTIONS) {
    c->handle = say_options;
    return 0;
  }
  *why = "there is no API key that fits in the header Authorization";
  x->client = keys_client(c->server->o.keys, http_header_of(x, "authorization"));
  if ((!r || !r->open) && !x->client) return 401;
  *why = "there is nothing at this path";
  if (!r && !methods) return 404;
  c->handle = r ? r->handle : say_methods;
  if (!r) c->status = methods;
  return 0;
}

static void begin_body(HttpConn *c) {
  c->state = CONN_BODY;
  c->chunks = (HttpChunks){0};
  c->deadline = in_seconds(c->server->o.body_seconds);
  if (c->x->head->expects && !http_buf_full(&c->in)) {
    if (!http_buf_put(&c->out, "HTTP/1.1 100 Continue\r\n\r\n", 25)) c->dead = true;
    conn_flush(c);
  }
}

static void whole(HttpConn *c) {
  if (c->body.n) c->x->body = (Str){c->body.p, c->body.n};
  call(c, c->handle);
}

// A head is in c->in, `n` bytes.
static void begin_request(HttpConn *c, int64_t n) {
  HttpServer *s = c->server;
  HttpExchange *x = exchange_new(c);
  const char *why = NULL;
  if (!x) {
    conn_kill(c);
    return;
  }
  if (!x->arena.head) {
    (void)arena_alloc(&x->arena, ARENA_BYTES);
    arena_clear(&x->arena);
  }
  HttpHead *h = arena_new(&x->arena, HttpHead);
  char *text = arena_dup(&x->arena, c->in.p + c->in.at, n);
  c->in.at += n;
  x->head = h;
  int status = http_parse_head(text, n, h, &why);
  x->method = h->method;
  x->path = h->path;
  x->query = h->query;
  c->keep = h->keep_alive;
  if (!status) status = admit(c, &why);
  if (!status && h->length > s->o.max_body) {
    status = 413;
    why = "the body is too large (--max-body)";
  }
  if (!status && s->bodies + h->length > BODIES_BYTES) {
    status = 503;
    why = "too many bodies are being read";
  }
  if (status) {
    refuse(c, status, why);
  } else if (h->length && h->length <= MIN(SMALL_BODY, http_buf_full(&c->in))) {
    x->body = (Str){arena_dup(&x->arena, c->in.p + c->in.at, h->length), h->length};
    c->in.at += h->length;
    call(c, c->handle);
  } else if (h->length || h->chunked) {
    begin_body(c);
  } else {
    call(c, c->handle);
  }
}

// An arena may raise here, before any handler runs.
static void begin_guarded(HttpConn *c, int64_t n) {
  Diag d;
  Trap t;
  diag_init(&d);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) begin_request(c, n);
  trap_leave(&t);
  if (t.status) conn_kill(c);
}

// Whether a connection begins as HTTP/2 does: 1, 0, or -1: that is open.
static int begins_h2(const HttpConn *c) {
  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  int64_t n = MIN(http_buf_full(&c->in), (int64_t)sizeof preface - 1);
  if (c->served || !c->server->take_h2 || memcmp(c->in.p + c->in.at, preface, (size_t)n)) return 0;
  return n == (int64_t)sizeof preface - 1 ? 1 : -1;
}

static void head_bytes(HttpConn *c) {
  HttpBuf *in = &c->in;
  int h2 = begins_h2(c);
  c->h2 = h2 > 0;
  if (h2) return;
  // An empty line behind the last body, which old clients send, is let pass once.
  if (!c->blank && http_buf_full(in) >= 2 && !memcmp(in->p + in->at, "\r\n", 2)) {
    in->at += 2;
    c->blank = true;
    c->seen = 0;
  }
  if (!http_buf_full(in)) return;
  int64_t end = http_head_end(in->p + in->at, http_buf_full(in), &c->seen);
  if (end > SERVE_HEAD_BYTES) end = -431;
  if (end < 0)
    refuse(c, (int)-end, end == -400 ? "this is not a request of HTTP/1.1" : NULL);
  else if (end)
    begin_guarded(c, end);
}

static bool take_body(HttpConn *c, const char *p, int64_t n) {
  HttpServer *s = c->server;
  if (s->bodies + n > BODIES_BYTES || !http_buf_put(&c->body, p, n)) {
    refuse(c, 503, "too many bodies are being read");
    return false;
  }
  s->bodies += n;
  c->budgeted += n;
  c->deadline += n * (1000000000 / 1024);
  return true;
}

static void body_bytes(HttpConn *c) {
  HttpBuf *in = &c->in;
  int64_t used, got;
  const char *why = NULL;
  if (c->x->head->chunked) {
    int r = http_chunks(&c->chunks, in->p + in->at, http_buf_full(in), &used, &got, &why);
    const char *p = in->p + in->at;
    in->at += used;
    if (r <= 1 && c->body.n + got > c->server->o.max_body) {
      r = 413;
      why = "the body is too large (--max-body)";
    }
    if (r > 1)
      refuse(c, r, why);
    else if (take_body(c, p, got) && r)
      whole(c);
    return;
  }
  got = MIN(http_buf_full(in), c->x->head->length - c->body.n);
  in->at += got;
  if (take_body(c, in->p + in->at - got, got) && c->body.n == c->x->head->length) whole(c);
}

// Requests that are whole, one after the other.
static void proceed(HttpConn *c) {
  while (!c->dead && http_buf_full(&c->in) && http_buf_full(&c->out) < PIPELINE_BYTES) {
    int64_t before = http_buf_full(&c->in);
    ConnState state = c->state;
    if (state == CONN_HEAD)
      head_bytes(c);
    else if (state == CONN_BODY)
      body_bytes(c);
    else
      break;
    if (c->state == state && http_buf_full(&c->in) == before) break;
  }
  if (!http_buf_full(&c->in) && c->in.p && !c->shares) http_buf_free(&c->in);
}

// ---- events ----
// A connection that waits for a request has no buffer: it reads into the server's, and keeps what
// is not a whole request yet.
static void keep_rest(HttpConn *c) {
  HttpBuf rest = c->in;
  c->in = (HttpBuf){0};
  c->shares = false;
  if (!http_buf_put(&c->in, rest.p + rest.at, http_buf_full(&rest))) conn_kill(c);
}

static void read_bytes(HttpConn *c) {
  HttpServer *s = c->server;
  bool lingers = c->state == CONN_LINGER;
  int64_t room = c->state == CONN_BODY ? BODY_READ_BYTES : READ_BYTES;
  c->shares = !c->in.p && c->state == CONN_HEAD;
  if (c->shares) c->in = (HttpBuf){.p = s->input, .cap = READ_BYTES};
  if (!lingers && !c->shares && !http_buf_room(&c->in, room)) {
    conn_kill(c);
    return;
  }
  ssize_t n = recv(c->watch.fd, lingers ? s->input : c->in.p + c->in.n, (size_t)room, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    n = 0;
  else if (n <= 0)
    c->dead = true;
  if (n > 0 && !lingers) {
    if (c->state == CONN_HEAD && !http_buf_full(&c->in))
      c->deadline = in_seconds(s->o.head_seconds);
    c->in.n += n;
    proceed(c);
  }
  if (c->shares) keep_rest(c);
}

static void on_conn(void *arg, uint32_t events) {
  HttpConn *c = arg;
  if (events & (EPOLLERR | EPOLLHUP) || (c->state == CONN_ACTIVE && events & EPOLLRDHUP)) {
    conn_lost(c);
    return;
  }
  if (events & EPOLLOUT) {
    conn_flush(c);
    if (!c->dead && c->state == CONN_FLUSH && !http_buf_full(&c->out)) linger(c);
    if (!c->dead && c->state <= CONN_BODY) proceed(c);
  }
  if (!c->dead && events & EPOLLIN) {
    if (is_reading(c))
      read_bytes(c);
    else  // it sends ahead: that stays in the socket
      (void)event_change(c->server->loop, &c->watch, c->watch.events & ~(uint32_t)EPOLLIN);
  }
  if (c->dead)
    conn_lost(c);
  else if (c->h2)
    hand_over(c);
}

static void accept_one(HttpServer *s, int fd) {
  int one = 1;
  HttpConn *c = mem_alloc(sizeof *c);
  if (!c) {
    (void)platform->close(fd);
    return;
  }
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  *c = (HttpConn){.server = s, .next = s->conns, .keep = true};
  c->watch = (EventWatch){fd, READS, on_conn, c};
  if (s->conns) s->conns->prev = c;
  s->conns = c;
  s->nconns++;
  c->deadline = in_seconds(s->o.head_seconds);
  if (event_add(s->loop, &c->watch)) conn_free(c);
}

static void accept_h2(HttpServer *s, int fd) {
  int one = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (s->take_h2(s->take_arg, fd, (Str){0}))
    s->nconns++;
  else
    (void)platform->close(fd);
}

static void on_accept(void *arg, uint32_t events) {
  HttpListen *l = arg;
  HttpServer *s = l->server;
  (void)events;
  for (int i = 0; i < 64; i++) {
    int fd = s->nconns < s->o.connections
                 ? accept4(l->watch.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)
                 : (errno = EMFILE, -1);
    if (fd < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      pause_listening(s, true);  // until a connection closes, or for a moment
      return;
    }
    if (l->h2)
      accept_h2(s, fd);
    else
      accept_one(s, fd);
  }
}

// ---- deadlines ----
static void late(HttpConn *c) {
  if (c->state == CONN_BODY || (c->state == CONN_HEAD && http_buf_full(&c->in))) {
    refuse(c, 408, "the request took too long");
    if (c->dead) conn_lost(c);
  } else {
    conn_lost(c);
  }
}

// Thousands that came together are late together: they go in parts.
static void on_sweep(void *arg) {
  HttpServer *s = arg;
  int64_t now = platform->now(), n = 0;
  for (HttpConn *c = s->conns, *next; c && n < SWEEP_MOST; c = next) {
    next = c->next;
    if (!c->deadline || c->deadline >= now) continue;
    late(c);
    n++;
  }
  if (s->nconns < s->o.connections) pause_listening(s, false);
  event_timer(s->loop, &s->sweep, now + (n < SWEEP_MOST ? SWEEP_MS : 2) * 1000000LL);
}

// ---- the server ----
static int listen_at(HttpServer *s, int at, int fd, bool h2) {
  HttpListen *l = &s->listen[at];
  *l = (HttpListen){.server = s, .watch = {fd, EPOLLIN, on_accept, l}, .open = true, .h2 = h2};
  int err = event_add(s->loop, &l->watch);
  if (err) l->open = false;
  return err;
}

int http_open(EventLoop *l, int fd, const HttpOptions *o, struct Serve *serve, HttpServer **out) {
  HttpServer *s = mem_alloc(sizeof *s);
  char *input = mem_alloc(READ_BYTES);
  if (!s || !input) {
    mem_free(s, sizeof *s);
    mem_free(input, READ_BYTES);
    return ENOMEM;
  }
  *s = (HttpServer){.loop = l, .serve = serve, .o = *o, .input = input};
  s->next_id = platform->random_u64();
  s->sweep = (EventTimer){.fn = on_sweep, .arg = s};
  int err = listen_at(s, 0, fd, false);
  if (err) {
    mem_free(input, READ_BYTES);
    mem_free(s, sizeof *s);
    return err;
  }
  event_timer(l, &s->sweep, platform->now() + SWEEP_MS * 1000000LL);
  *out = s;
  return 0;
}

int http_open_h2(HttpServer *s, int fd, bool (*take)(void *arg, int fd, Str first), void *arg) {
  s->take_h2 = take;
  s->take_arg = arg;
  return fd < 0 ? 0 : listen_at(s, 1, fd, true);
}

void http_h2_closed(HttpServer *s) {
  s->nconns--;
  pause_listening(s, false);
}

bool http_take_body(HttpServer *s, int64_t n) {
  if (s->bodies + n > BODIES_BYTES) return false;
  s->bodies += n;
  return true;
}

void http_give_body(HttpServer *s, int64_t n) { s->bodies -= n; }

void http_stop_listening(HttpServer *s) {
  for (int i = 0; i < HTTP_LISTENS; i++) {
    HttpListen *l = &s->listen[i];
    if (!l->open) continue;
    l->open = false;
    event_remove(s->loop, &l->watch);
    (void)platform->close(l->watch.fd);
  }
}

// ---- shutting down ----
bool conn_sends_more(const HttpConn *c) {
  char b;
  return http_buf_full(&c->in) || recv(c->watch.fd, &b, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

// A connection that waits for a request is closed for writing, so that its client sends none that
// would be lost; one whose request is on its way gets the answer.
void http_drain(HttpServer *s) {
  http_stop_listening(s);
  s->draining = true;
  for (HttpConn *c = s->conns, *next; c; c = next) {
    next = c->next;
    if (c->state == CONN_HEAD && !http_buf_full(&c->out) && !conn_sends_more(c)) linger(c);
  }
}

bool http_drained(const HttpServer *s) {
  for (const HttpConn *c = s->conns; c; c = c->next)
    if (!c->dead) return false;
  return true;
}

int64_t http_active(const HttpServer *s) { return s->nactive; }
int64_t http_connections(const HttpServer *s) { return s->nconns; }
uint64_t http_requests(const HttpServer *s) { return s->requests; }

void http_close(HttpServer *s) {
  http_stop_listening(s);
  while (s->conns) conn_lost(s->conns);
  event_timer_stop(s->loop, &s->sweep);
  for (HttpExchange *x = s->spare, *next; x; x = next) {
    next = x->user;
    exchange_free(x);
  }
  mem_free(s->input, READ_BYTES);
  mem_free(s, sizeof *s);
}

Str http_header_of(const HttpExchange *x, const char *name) {
  for (int64_t i = 0; x->head && i < x->head->nheaders; i++)
    if (str_is(x->head->header[i].name, name)) return x->head->header[i].value;
  return (Str){0};
}

Str http_query_of(HttpExchange *x, const char *name) {
  Str q = x->query;
  while (q.n) {
    const char *end = memchr(q.p, '&', (size_t)q.n);
    int64_t n = end ? end - q.p : q.n;
    const char *mark = memchr(q.p, '=', (size_t)n);
    if (mark && str_is((Str){q.p, mark - q.p}, name))
      return http_decode(&x->arena, (Str){mark + 1, q.p + n - mark - 1}, true);
    q.p += MIN(n + 1, q.n);
    q.n -= MIN(n + 1, q.n);
  }
  return (Str){0};
}
