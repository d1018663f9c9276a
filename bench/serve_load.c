// serve_load.c -- many clients of an HTTP server in one thread, for bench/serve.py.
//
// Connections are opened once and kept.  `--active N` requests are under way at a time, on
// connections drawn at random where there are more (closed loop), or `--rate R` begin each second
// whatever the server answers (open loop).  Each connection sends `--pipeline N` requests at once.
// Of streams the events are timed.  P percent of the requests are dropped (`--drop P`): their
// connection is reset within `--drop-within` seconds and opened anew.  `--churn N` connections
// without a request are reset each second.  It ends after `--requests` or `--seconds` and prints
// one line of JSON; what `--warmup` seconds bring is not counted.
//
//   serve_load PORT --path /v2/models/m/infer --body FILE [--lines] [--header 'Name: value']...
//
// FILE is the body of each request; with --lines each of its lines is one, and they take turns.
// Only 127.0.0.1 is called.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  READ_BYTES = 65536,
  HEAD_BYTES = 8192,
  EVENTS = 256,
  STATUSES = 600,
  PIPELINE_MOST = 64,
  REQUESTS_MOST = 100000000
};

typedef struct Sample {
  float *at;
  size_t n, cap;
} Sample;

typedef enum { FREE, BUSY, CLOSED } State;

typedef struct Client {
  int fd;
  State state;
  int free_at;  // index in the list of free ones
  int sent, answered;
  const char *out;
  size_t out_left;
  // the answer that is read
  char head[HEAD_BYTES];
  size_t nhead;
  bool body, chunked;
  long long left;  // of the body or the chunk; -1: the chunk's size is read
  int status, line;
  bool last_chunk, ends;  // ends: the server closes the connection behind this answer
  double began, first, last;
  double drop_at;  // 0: it stays
  long long events;
} Client;

typedef struct Text {
  char *p;
  size_t n;
} Text;

static struct Options {
  int port, connections, active, pipeline;
  long long requests;
  double seconds, rate, drop, drop_within, churn, warmup;
  const char *path, *body, *header[16];
  int nheaders;
  bool lines, stream;
  uint64_t seed;
} o = {.connections = 1,
       .pipeline = 1,
       .requests = REQUESTS_MOST,
       .seconds = 10,
       .drop_within = 0.05,
       .seed = 1};

static struct Run {
  int epoll;
  Client *client;
  int *free, nfree, busy;
  Text *request;
  int nrequests;
  long long next, begun, done, errors, dropped, reconnects, unable, bytes, events, skipped;
  long long status[STATUSES];
  Sample ok, refused, first, gap;
  double start, now, next_arrival;
} run;

static _Noreturn void die(const char *what) {
  fprintf(stderr, "serve_load: %s: %s\n", what, strerror(errno));
  exit(2);
}

static void *checked(void *p) {
  if (!p) die("memory");
  return p;
}

static double clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double draw(void) {  // [0, 1)
  o.seed ^= o.seed << 13;
  o.seed ^= o.seed >> 7;
  o.seed ^= o.seed << 17;
  return (double)(o.seed >> 11) * 0x1p-53;
}

static void sample_put(Sample *s, double seconds) {
  if (s->n == s->cap) {
    s->cap = s->cap ? 2 * s->cap : 4096;
    s->at = checked(realloc(s->at, s->cap * sizeof *s->at));
  }
  s->at[s->n++] = (float)(seconds * 1000);
}

// ---- connections ----
static void set_free(Client *c) {
  c->state = FREE;
  c->free_at = run.nfree;
  run.free[run.nfree++] = (int)(c - run.client);
}

static void take(Client *c) {
  int last = run.free[--run.nfree];
  run.free[c->free_at] = last;
  run.client[last].free_at = c->free_at;
  c->state = BUSY;
}

// Waits for the handshake alone: the kernel of the server's side answers it.
static bool open_client(Client *c) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o.port)};
  int one = 1;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  memset(c, 0, offsetof(Client, head));
  c->state = CLOSED;
  c->nhead = 0;
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (c->fd < 0) return false;
  if (connect(c->fd, (struct sockaddr *)&to, sizeof to)) {
    close(c->fd);
    return false;
  }
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
  if (epoll_ctl(run.epoll, EPOLL_CTL_ADD, c->fd, &e)) die("epoll_ctl");
  set_free(c);
  return true;
}

static void close_client(Client *c) {
  if (c->state == FREE) take(c);
  if (c->state == BUSY && c->sent > c->answered) run.busy--;
  // A reset frees the port at once, as clients that crash do.
  struct linger now = {1, 0};
  setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(c->fd);
  c->state = CLOSED;
  run.reconnects++;
  if (!open_client(c)) run.unable++;
}

// ---- requests ----
static void wants(Client *c, uint32_t events) {
  struct epoll_event e = {.events = events, .data.ptr = c};
  if (epoll_ctl(run.epoll, EPOLL_CTL_MOD, c->fd, &e)) die("epoll_ctl");
}

static bool send_some(Client *c) {
  while (c->out_left) {
    ssize_t n = send(c->fd, c->out, c->out_left, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n < 0) return false;
    c->out += n;
    c->out_left -= (size_t)n;
  }
  return true;
}

// The requests of a pipeline are one text: run.request has it for each place of the turn.
static void begin(Client *c, double now) {
  const Text *t = &run.request[run.next++ % run.nrequests];
  take(c);
  run.busy++;
  run.begun += o.pipeline;
  c->sent = o.pipeline;
  c->answered = 0;
  c->events = 0;
  c->out = t->p;
  c->out_left = t->n;
  c->began = now;
  c->first = c->last = 0;
  c->drop_at = o.drop && draw() * 100 < o.drop ? now + draw() * o.drop_within : 0;
  if (!send_some(c)) {
    run.errors++;
    close_client(c);
  } else if (c->out_left) {
    wants(c, EPOLLIN | EPOLLOUT);
  }
}

static void answered(Client *c, double now) {
  double took = now - c->began;
  if (now - run.start >= o.warmup) {
    run.done++;
    if (c->status > 0 && c->status < STATUSES) run.status[c->status]++;
    sample_put(c->status == 200 ? &run.ok : &run.refused, took);
    if (c->status == 200 && c->first) sample_put(&run.first, c->first - c->began);
  }
  c->body = c->chunked = c->last_chunk = false;
  c->nhead = 0;
  if (++c->answered < c->sent) return;
  run.busy--;
  set_free(c);
  if (c->ends) close_client(c);
}

// ---- answers ----
static long long header_number(const char *head, const char *name) {
  const char *at = strcasestr(head, name);
  return at ? atoll(at + strlen(name)) : -1;
}

// True: the head is whole, and c->left says what follows.
static bool read_head(Client *c, const char **p, const char *end) {
  while (*p < end && c->nhead < HEAD_BYTES - 1) {
    char ch = *(*p)++;
    c->head[c->nhead++] = ch;
    if (ch == '\n' && c->nhead >= 4 && !memcmp(c->head + c->nhead - 4, "\r\n\r\n", 4)) {
      c->head[c->nhead] = 0;
      c->status = atoi(c->head + 9);
      c->left = header_number(c->head, "\r\ncontent-length:");
      c->chunked = c->left < 0;
      c->ends = strcasestr(c->head, "\r\nconnection: close") != NULL;
      c->line = 0;
      if (c->chunked) c->left = 0;
      return c->body = true;
    }
  }
  return false;
}

// Events of a stream are counted by the `data:` that begins each.
static void count_events(Client *c, const char *p, size_t n, double now, bool *seen) {
  for (const char *end = p + n; (p = memmem(p, (size_t)(end - p), "data:", 5)); p += 5) {
    c->events++;
    if (now - run.start >= o.warmup) {
      run.events++;
      if (c->last && c->status == 200) sample_put(&run.gap, *seen ? 0 : now - c->last);
    }
    if (!c->first) c->first = now;
    *seen = true;
  }
}

// A byte of the line with a chunk's size, or of the line ends around chunks.
static void chunk_byte(Client *c, char ch, bool *whole) {
  if (ch == '\n') {
    if (c->last_chunk && c->line == 0) *whole = true;
    if (c->line > 0 && c->left == 0 && !c->last_chunk) c->last_chunk = true;
    c->line = 0;
  } else if (ch != '\r' && !c->last_chunk) {
    int digit = ch <= '9' ? ch - '0' : (ch | 32) - 'a' + 10;
    c->left = c->line++ ? c->left * 16 + digit : digit;
  }
}

static void read_body(Client *c, const char **p, const char *end, double now, bool *seen,
                      bool *whole) {
  *whole = !c->chunked && !c->left;
  while (*p < end && !*whole) {
    bool data = c->chunked ? c->left > 0 && c->line == 0 : true;
    if (!data) {
      chunk_byte(c, *(*p)++, whole);
      continue;
    }
    long long n = c->left < end - *p ? c->left : end - *p;
    if (o.stream) count_events(c, *p, (size_t)n, now, seen);
    *p += n;
    c->left -= n;
    *whole = !c->chunked && !c->left;
  }
}

static void take_bytes(Client *c, const char *p, size_t n) {
  const char *end = p + n;
  bool seen = false, whole;
  run.bytes += (long long)n;
  while (p < end && c->state == BUSY) {
    if (!c->body && !read_head(c, &p, end)) {
      if (c->nhead == HEAD_BYTES - 1) run.errors++;
      break;
    }
    read_body(c, &p, end, run.now, &seen, &whole);
    if (whole) answered(c, run.now);
  }
  if (seen) c->last = run.now;
}

static void on_client(Client *c, uint32_t events) {
  static char bytes[READ_BYTES];
  if (c->state == CLOSED) return;
  if (events & EPOLLOUT) {
    if (!send_some(c)) events |= EPOLLERR;
    if (!c->out_left) wants(c, EPOLLIN);
  }
  if (!(events & (EPOLLIN | EPOLLERR | EPOLLHUP))) return;
  ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {  // also idle connections, which the server closes after a time
    if (c->state == BUSY) run.errors++;
    close_client(c);
    return;
  }
  take_bytes(c, bytes, (size_t)n);
}

// ---- the load ----
static Client *draw_free(void) {
  if (!run.nfree) return NULL;
  int i = o.active < o.connections || o.rate ? (int)(draw() * run.nfree) : run.nfree - 1;
  return &run.client[run.free[i]];
}

static void begin_more(void) {
  Client *c;
  if (o.rate) {
    for (; run.next_arrival <= run.now && run.begun < o.requests; run.next_arrival += 1 / o.rate)
      if ((c = draw_free()))
        begin(c, run.now);
      else
        run.skipped++;
    return;
  }
  while (run.busy < o.active && run.begun < o.requests && (c = draw_free())) begin(c, run.now);
}

static void drop_some(void) {
  static double next;
  if (!o.drop && !o.churn) return;
  if (run.now < next) return;
  next = run.now + 0.005;
  for (int i = 0; o.drop && i < o.connections; i++) {
    Client *c = &run.client[i];
    if (c->state != BUSY || !c->drop_at || c->drop_at > run.now) continue;
    run.dropped++;
    close_client(c);
  }
  for (double left = o.churn * 0.005; run.nfree && draw() < left; left--)
    close_client(&run.client[run.free[(int)(draw() * run.nfree)]]);
}

static void loop(void) {
  struct epoll_event ready[EVENTS];
  run.start = run.next_arrival = run.now = clock_now();
  while (run.now - run.start < o.seconds && (run.begun < o.requests || run.busy)) {
    begin_more();
    drop_some();
    int n = epoll_wait(run.epoll, ready, EVENTS, o.rate || o.drop || o.churn ? 1 : 100);
    if (n < 0 && errno != EINTR) die("epoll_wait");
    run.now = clock_now();
    for (int i = 0; i < n; i++) on_client(ready[i].data.ptr, ready[i].events);
  }
}

// ---- the report ----
static int by_value(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static void print_sample(const char *name, Sample *s) {
  if (!s->n) return;
  qsort(s->at, s->n, sizeof *s->at, by_value);
  double sum = 0;
  for (size_t i = 0; i < s->n; i++) sum += (double)s->at[i];
  printf(", \"%s_ms\": {\"n\": %zu, \"mean\": %.3f, \"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f, "
         "\"max\": %.3f}",
         name, s->n, sum / (double)s->n, (double)s->at[s->n / 2], (double)s->at[s->n * 9 / 10],
         (double)s->at[s->n * 99 / 100], (double)s->at[s->n - 1]);
}

static void report(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  double seconds = clock_now() - run.start - o.warmup;
  int open = 0;
  for (int i = 0; i < o.connections; i++) open += run.client[i].state != CLOSED;
  printf("{\"seconds\": %.3f, \"requests\": %lld, \"ok\": %lld, \"per_second\": %.1f, "
         "\"errors\": %lld, \"dropped\": %lld, \"reconnects\": %lld, \"unable\": %lld, "
         "\"skipped\": %lld, \"open\": %d, \"under_way\": %d, \"bytes\": %lld, \"events\": %lld, "
         "\"cpu_seconds\": %.3f, \"status\": {",
         seconds, run.done, run.status[200], (double)run.status[200] / seconds, run.errors,
         run.dropped, run.reconnects, run.unable, run.skipped, open, run.busy, run.bytes,
         run.events,
         (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
             (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6);
  const char *comma = "";
  for (int i = 0; i < STATUSES; i++)
    if (run.status[i]) printf("%s\"%d\": %lld", comma, i, run.status[i]), comma = ", ";
  printf("}");
  print_sample("ok", &run.ok);
  print_sample("refused", &run.refused);
  print_sample("first", &run.first);
  print_sample("gap", &run.gap);
  printf("}\n");
}

// ---- the beginning ----
static Text read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) die(path);
  Text t = {0};
  size_t cap = 1 << 16, n;
  t.p = checked(malloc(cap));
  while ((n = fread(t.p + t.n, 1, cap - t.n, f)) > 0)
    if ((t.n += n) == cap) t.p = checked(realloc(t.p, cap *= 2));
  fclose(f);
  return t;
}

static Text request_of(const char *body, size_t n) {
  Text t;
  FILE *f = open_memstream(&t.p, &t.n);
  checked(f);
  for (int k = 0; k < o.pipeline; k++) {
    fprintf(f, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", body ? "POST" : "GET", o.path);
    for (int i = 0; i < o.nheaders; i++) fprintf(f, "%s\r\n", o.header[i]);
    if (body) fprintf(f, "Content-Length: %zu\r\n", n);
    fprintf(f, "\r\n");
    fwrite(body, 1, n, f);
  }
  fclose(f);
  return t;
}

static void make_requests(void) {
  Text all = o.body ? read_file(o.body) : (Text){0};
  size_t lines = 1;
  for (size_t i = 0; o.lines && i < all.n; i++) lines += all.p[i] == '\n';
  run.request = checked(calloc(lines + 1, sizeof *run.request));
  if (!o.lines) {
    run.request[run.nrequests++] = request_of(all.p, all.n);
    return;
  }
  for (size_t at = 0; at < all.n;) {
    const char *end = memchr(all.p + at, '\n', all.n - at);
    size_t n = end ? (size_t)(end - all.p) - at : all.n - at;
    if (n) run.request[run.nrequests++] = request_of(all.p + at, n);
    at += n + 1;
  }
}

static bool option(const char *name, const char *value) {
  struct {
    const char *name;
    int *i;
    double *f;
    const char **s;
  } row[] = {{"--connections", &o.connections, NULL, NULL},
             {"--active", &o.active, NULL, NULL},
             {"--pipeline", &o.pipeline, NULL, NULL},
             {"--seconds", NULL, &o.seconds, NULL},
             {"--rate", NULL, &o.rate, NULL},
             {"--drop", NULL, &o.drop, NULL},
             {"--churn", NULL, &o.churn, NULL},
             {"--drop-within", NULL, &o.drop_within, NULL},
             {"--warmup", NULL, &o.warmup, NULL},
             {"--path", NULL, NULL, &o.path},
             {"--body", NULL, NULL, &o.body}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    if (strcmp(row[i].name, name)) continue;
    if (row[i].i) *row[i].i = atoi(value);
    if (row[i].f) *row[i].f = atof(value);
    if (row[i].s) *row[i].s = value;
    return true;
  }
  if (!strcmp(name, "--requests")) return (o.requests = atoll(value)) > 0;
  if (!strcmp(name, "--seed")) return (o.seed = strtoull(value, NULL, 10) * 2 + 1) > 0;
  if (!strcmp(name, "--header") && o.nheaders < 16) {
    o.header[o.nheaders++] = value;
    return true;
  }
  return false;
}

// A connection that waits in a pool has had a request.
static bool greet(const Client *c) {
  static const char text[] = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  char answer[HEAD_BYTES];
  return send(c->fd, text, sizeof text - 1, MSG_NOSIGNAL) == sizeof text - 1 &&
         recv(c->fd, answer, sizeof answer, 0) > 0;
}

int main(int argc, char **argv) {
  o.port = argc > 1 ? atoi(argv[1]) : 0;
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "--lines"))
      o.lines = true;
    else if (!strcmp(argv[i], "--stream"))
      o.stream = true;
    else if (i + 1 < argc && option(argv[i], argv[i + 1]))
      i++;
    else
      return fprintf(stderr, "serve_load: what is %s?\n", argv[i]), 2;
  }
  if (!o.port || !o.path || o.connections < 1 || o.pipeline < 1 || o.pipeline > PIPELINE_MOST)
    return fprintf(stderr, "serve_load PORT --path PATH [OPTION]...: see the file's head\n"), 2;
  if (!o.active || o.active > o.connections) o.active = o.connections;
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  make_requests();
  run.epoll = epoll_create1(EPOLL_CLOEXEC);
  run.client = checked(calloc((size_t)o.connections, sizeof *run.client));
  run.free = checked(calloc((size_t)o.connections, sizeof *run.free));
  for (int i = 0; i < o.connections; i++)
    if (!open_client(&run.client[i]) ||
        ((o.rate || o.active < o.connections) && !greet(&run.client[i])))
      die("connect");
  loop();
  report();
  return 0;
}
