// fuzz_serve.h -- a whole front for the fuzz targets http and requests, without engines.
//
// It has a compiled model `m`, whose signature is known, and a language model `l`; both are being
// loaded for ever.  So every handler does all it does before an engine is asked, and what it then
// has waiting is cancelled with the connection.  Neither can be started: they never fit into the
// budget.
#ifndef TENON_TESTS_FUZZ_SERVE_H
#define TENON_TESTS_FUZZ_SERVE_H

#include "fuzz.h"
#include "serve/kserve/graph_impl.h"
#include "serve/log.h"
#include "serve/serve.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_BYTES = 1 << 17, QUIET_ROUNDS = 3 };

typedef struct FuzzFront {
  Serve s;
  EventTimer turn;
  struct sockaddr_un at;
} FuzzFront;

typedef struct FuzzAnswer {
  int64_t n;
  char bytes[ANSWER_BYTES];  // of all answers; what goes beyond is read and dropped
} FuzzAnswer;

static void end_turn(void *arg) { ((FuzzFront *)arg)->s.loop.stop = true; }

// One round of epoll, which waits for nothing.
static void turn(FuzzFront *f) {
  f->s.loop.stop = false;
  event_timer(&f->s.loop, &f->turn, 1);
  if (event_run(&f->s.loop)) finding("epoll", strerror(errno));
}

static void add_models(FuzzFront *f, Diag *d) {
  static const char signature[] =
      "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-1,4]},"
      "{\"name\":\"s\",\"datatype\":\"BYTES\",\"shape\":[-1,2]},"
      "{\"name\":\"b\",\"datatype\":\"BOOL\",\"shape\":[-1]}],"
      "\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[-1,3]}],"
      "\"rows\":true,\"why_not\":\"\",\"target\":\"cpu\",\"bytes\":7}";
  Model *m, *l;
  bool wrong = models_add(&f->s, "m=/none.tenon", d, &m) ||
               models_add(&f->s, "l=/none.gguf", d, &l) ||
               ks_signature_read(&graph_get(m)->arena, STR(signature), &graph_get(m)->signature, d);
  if (wrong) finding("set-up", d->text);
  graph_get(m)->known = true;
  graph_get(m)->options.batch.most = 8;
  m->state = l->state = MODEL_LOADING;
  m->bytes = l->bytes = 100;
}

static void front_open(FuzzFront *f) {
  char program[] = "tenon-serve", *argv[] = {program};
  Diag d;
  HttpOptions o = {.max_body = 1 << 20,
                   .connections = 16,
                   .head_seconds = 600,
                   .idle_seconds = 600,
                   .body_seconds = 600,
                   .write_seconds = 600};
  memset(f, 0, sizeof *f);
  diag_init(&d);
  log_level(LOG_ERROR);
  arena_init(&f->s.arena);
  f->turn = (EventTimer){.fn = end_turn, .arg = f};
  if (serve_config_read(&f->s.arena, 1, argv, &d, &f->s.config)) finding("set-up", d.text);
  f->s.config.memory_budget = 1;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  f->at.sun_family = AF_UNIX;  // the system gives it a name of its own
  socklen_t n = sizeof f->at;
  if (fd < 0 || bind(fd, (struct sockaddr *)&f->at, sizeof f->at.sun_family) || listen(fd, 16) ||
      getsockname(fd, (struct sockaddr *)&f->at, &n) || event_open(&f->s.loop) ||
      http_open(&f->s.loop, fd, &o, &f->s, &f->s.http))
    finding("set-up", strerror(errno));
  add_models(f, &d);
}

static void front_close(FuzzFront *f) {
  http_close(f->s.http);
  for (Model *m = f->s.models; m; m = m->next) {
    if (m->of_kind) m->kind->forget(m);
    mem_free(m->config, m->config_cap);
  }
  event_close(&f->s.loop);
  log_close();
  arena_deinit(&f->s.arena);
}

static int client_open(const FuzzFront *f) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (const struct sockaddr *)&f->at, sizeof(sa_family_t) + 6))
    finding("connect", strerror(errno));
  return fd;
}

// Sends what the socket takes and reads what there is; false: nothing of either, or the end.
static bool exchange(int fd, const uint8_t *p, int64_t n, int64_t *sent, FuzzAnswer *a) {
  static char rest[ANSWER_BYTES];
  int64_t room = ANSWER_BYTES - a->n;
  ssize_t put = *sent < n ? send(fd, p + *sent, (size_t)(n - *sent), MSG_NOSIGNAL) : 0;
  ssize_t got = recv(fd, room ? a->bytes + a->n : rest, (size_t)(room ? room : ANSWER_BYTES), 0);
  if (put > 0) *sent += put;
  if (got > 0 && room) a->n += got;
  return put > 0 || got > 0;
}

// Gives the front these bytes as a connection, in two parts where 0 < cut < n, and goes away.
static void front_ask(FuzzFront *f, const uint8_t *p, int64_t n, int64_t cut, FuzzAnswer *a) {
  int fd = client_open(f);
  int64_t sent = 0;
  a->n = 0;
  for (int64_t to = cut > 0 && cut < n ? cut : n;; to = n) {
    for (int quiet = 0; quiet < QUIET_ROUNDS; turn(f))
      quiet = exchange(fd, p, to, &sent, a) ? 0 : quiet + 1;
    if (to == n) break;
  }
  close(fd);
  for (int i = 0; i < 4 && http_connections(f->s.http); i++) turn(f);
  if (http_connections(f->s.http)) finding("connections", "one stays when its client is gone");
  if (http_active(f->s.http)) finding("exchanges", "one stays when its client is gone");
}

#endif
