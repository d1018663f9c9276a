// main.c -- tenon-serve: opens the socket, serves until a signal, then finishes what was accepted.
//
// SIGTERM and SIGINT are read as data (signalfd).  Engines inherit that they are blocked, so a
// signal to the whole group does not take an answer away that is being made.
#include "base/platform.h"
#include "serve/grpc/grpc.h"
#include "serve/llm/adapters.h"
#include "serve/log.h"
#include "serve/serve.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct Front {
  Serve serve;
  EventWatch signals;
  EventTimer tick;
  int64_t drain_until;
  int port, grpc_port;  // grpc_port -1: there is no port for gRPC alone
} Front;

// ---- the socket ----
static tenon_status try_address(const struct addrinfo *at, const Front *f, int64_t port, Diag *d,
                                int *out, int *out_port) {
  int one = 1;
  struct sockaddr_storage bound;
  socklen_t size = sizeof bound;
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(d, TENON_EIO, NOWHERE, "socket: %s", error_text(errno).s);
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, 4096) ||
      getsockname(fd, (struct sockaddr *)&bound, &size)) {
    int err = errno;
    (void)platform->close(fd);
    return fail(d, TENON_EIO, NOWHERE, "cannot listen on %s, port %lld: %s", f->serve.config.host,
                (long long)port, error_text(err).s);
  }
  *out_port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&bound)->sin6_port
                                                : ((struct sockaddr_in *)(void *)&bound)->sin_port);
  *out = fd;
  return TENON_OK;
}

static tenon_status listen_on(Front *f, int64_t number, Diag *d, int *out, int *out_port) {
  struct addrinfo want = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  Arena *a = &f->serve.arena;
  const char *port = str_printf(a, "%lld", (long long)number);
  int err = getaddrinfo(f->serve.config.host, port, &want, &found);
  if (err)
    return fail(d, TENON_EINVAL, NOWHERE, "--host=%s: %s", f->serve.config.host, gai_strerror(err));
  tenon_status s = try_address(found, f, number, d, out, out_port);
  freeaddrinfo(found);
  return s;
}

// A connection is a descriptor.
static void allow_descriptors(int64_t connections) {
  struct rlimit r;
  if (getrlimit(RLIMIT_NOFILE, &r)) return;
  rlim_t want = (rlim_t)connections + 256;
  if (r.rlim_cur >= want) return;
  r.rlim_cur = MIN(want, r.rlim_max);
  (void)setrlimit(RLIMIT_NOFILE, &r);
}

// ---- the end ----
static void on_signal(void *arg, uint32_t events) {
  Front *f = arg;
  struct signalfd_siginfo info;
  (void)events;
  while (read(f->signals.fd, &info, sizeof info) == sizeof info) {
    if (f->serve.draining) f->serve.loop.stop = true;  // the second time at once
    f->serve.draining = true;
    f->drain_until = platform->now() + f->serve.config.drain_seconds * 1000000000;
    http_drain(f->serve.http);
    if (f->serve.grpc) grpc_drain(f->serve.grpc);
    log_text(LOG_INFO, "draining", "no further connection is accepted");
  }
}

// Ten times a second: logs are written, and a drained server ends.
static void on_tick(void *arg) {
  Front *f = arg;
  int64_t now = platform->now();
  log_flush();
  models_tick(&f->serve);
  bool answered = http_drained(f->serve.http) && !(f->serve.grpc && grpc_active(f->serve.grpc));
  if (f->serve.draining && (answered || now > f->drain_until)) f->serve.loop.stop = true;
  event_timer(&f->serve.loop, &f->tick, now + 100000000);
}

static tenon_status watch_signals(Front *f, Diag *d) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGPIPE);
  sigprocmask(SIG_BLOCK, &set, NULL);
  sigdelset(&set, SIGPIPE);
  int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  f->signals = (EventWatch){fd, EPOLLIN, on_signal, f};
  f->tick = (EventTimer){.fn = on_tick, .arg = f};
  int err = fd < 0 ? errno : event_add(&f->serve.loop, &f->signals);
  if (err) return fail(d, TENON_EIO, NOWHERE, "signalfd: %s", error_text(err).s);
  event_timer(&f->serve.loop, &f->tick, platform->now() + 100000000);
  return TENON_OK;
}

// ---- the beginning ----
static tenon_status add_models(Serve *s, Diag *d) {
  Model *m;
  for (int64_t i = 0; i < s->config.nmodels; i++) {
    TRY(model_file_there(s->config.model[i], d));
    TRY(models_add(s, s->config.model[i], d, &m));
  }
  TRY(models_read_repository(s, d));
  for (int64_t i = 0; i < s->config.nadapters; i++) TRY(adapters_add(s, s->config.adapter[i], d));
  return TENON_OK;
}

// Models are loaded while the server answers already: /ready tells when all are there.  Within a
// memory budget each waits for its first request, and of several versions the latest is loaded.
static void load_models(Serve *s) {
  for (Model *m = s->models; m && !s->config.memory_budget; m = m->next)
    if (models_find(s, str_of(m->name)) == m) models_want(m);
}

static void unload_models(Serve *s) {
  for (Model *m = s->models; m; m = m->next) {
    if (m->state != MODEL_OUT) m->kind->unload(m);
    if (m->of_kind) m->kind->forget(m);
    mem_free(m->config, m->config_cap);
  }
}

static tenon_status set_log(const char *level, Diag *d) {
  static const char *const name[] = {"error", "warning", "info", "requests"};
  for (int i = 0; i < 4; i++)
    if (!strcmp(level, name[i])) {
      log_level((LogLevel)(LOG_ERROR + i));
      return TENON_OK;
    }
  return fail(d, TENON_EINVAL, NOWHERE, "--log is error, warning, info or requests, not '%s'",
              level);
}

static void say_listening(const Front *f) {
  JsonWriter *w = log_begin(LOG_ALWAYS, "listening");
  json_key(w, "host");
  json_cstr(w, f->serve.config.host);
  json_key(w, "port");
  json_i64(w, f->port);
  if (f->grpc_port >= 0) {
    json_key(w, "grpc_port");
    json_i64(w, f->grpc_port);
  }
  log_end();
  log_flush();
}

// gRPC is answered on the port of HTTP, whose clients begin in another way, and on one of its own.
static tenon_status open_grpc(Front *f, Diag *d) {
  Serve *s = &f->serve;
  ServeConfig *c = &s->config;
  GrpcOptions o = {.max_body = c->max_body,
                   .head_seconds = SERVE_HEAD_SECONDS,
                   .idle_seconds = SERVE_GRPC_IDLE_SECONDS,
                   .ping_seconds = SERVE_H2_PING_SECONDS,
                   .body_seconds = SERVE_BODY_SECONDS,
                   .write_seconds = SERVE_WRITE_SECONDS,
                   .keys = c->api_key_file ? &s->keys : NULL};
  int fd = -1;
  f->grpc_port = -1;
  if (!grpc_is_built()) {
    if (c->grpc_port < 0) return TENON_OK;
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "--grpc-port=%lld: this tenon-serve was built without gRPC, for which it needs "
                "nghttp2 (libnghttp2-dev)",
                (long long)c->grpc_port);
  }
  if (c->grpc_port >= 0) TRY(listen_on(f, c->grpc_port, d, &fd, &f->grpc_port));
  int err = grpc_open(&s->loop, &o, s, s->http, fd, &s->grpc);
  return err ? fail(d, TENON_EIO, NOWHERE, "cannot serve gRPC: %s", error_text(err).s) : TENON_OK;
}

static tenon_status serve(Front *f, Diag *d) {
  Serve *s = &f->serve;
  ServeConfig *c = &s->config;
  HttpOptions o = {.max_body = c->max_body,
                   .connections = c->connections,
                   .head_seconds = SERVE_HEAD_SECONDS,
                   .idle_seconds = SERVE_IDLE_SECONDS,
                   .body_seconds = SERVE_BODY_SECONDS,
                   .write_seconds = SERVE_WRITE_SECONDS,
                   .allow_origin = c->allow_origin};
  int fd = -1;
  TRY(set_log(c->log, d));
  if (c->api_key_file) {
    TRY(keys_read(&s->arena, c->api_key_file, d, &s->keys));
    o.keys = &s->keys;
  }
  TRY(add_models(s, d));
  allow_descriptors(c->connections);
  TRY(listen_on(f, c->port, d, &fd, &f->port));
  int err = event_open(&s->loop);
  if (!err) err = http_open(&s->loop, fd, &o, s, &s->http);
  if (err) return fail(d, TENON_EIO, NOWHERE, "cannot serve: %s", error_text(err).s);
  TRY(open_grpc(f, d));
  TRY(watch_signals(f, d));
  s->began = platform->now();
  say_listening(f);
  if (!s->models && !c->repository)
    log_text(LOG_WARNING, "no model", "nothing is served: give MODEL or --repository");
  load_models(s);
  err = event_run(&s->loop);
  if (s->grpc) grpc_close(s->grpc);
  http_close(s->http);
  unload_models(s);
  event_close(&s->loop);
  log_text(LOG_INFO, "stopped", "");
  log_flush();
  return err ? fail(d, TENON_EIO, NOWHERE, "epoll: %s", error_text(err).s) : TENON_OK;
}

// The program once more, as a worker (worker.h): -1, it is none.
static int work(int argc, char **argv) {
  for (int64_t i = 0; argc > 1 && str_starts(str_of(argv[1]), "--engine=") && model_kinds[i]; i++)
    if (!strcmp(argv[1] + 9, model_kinds[i]->name)) return model_kinds[i]->work(argc - 2, argv + 2);
  return -1;
}

int main(int argc, char **argv) {
  int ended = work(argc, argv);
  if (ended >= 0) return ended;
  static Front f;
  Diag d;
  Trap t;
  diag_init(&d);
  arena_init(&f.serve.arena);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    t.status = serve_config_read(&f.serve.arena, argc, argv, &d, &f.serve.config);
    if (!t.status) t.status = serve(&f, &d);
  }
  trap_leave(&t);
  if (t.status) {
    log_text(LOG_ERROR, "failed", d.text);
  }
  log_close();
  arena_deinit(&f.serve.arena);
  return t.status ? 1 : 0;
}
