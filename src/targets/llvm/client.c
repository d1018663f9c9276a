// client.c -- code for kernels from processes of tenon-codegen.
//
// A few processes are kept; a thread takes a free one for each kernel, or starts one.  A process that dies, hangs or answers
// nonsense is killed and forgotten: the kernel fails with a message, and the next one gets a new process.
//
// What is in the cache needs no process.  Its key is everything that the code follows from: the program tenon-codegen
// itself, by its bytes, the machine and the kernel's text.
#include "targets/llvm/codegen.h"

#include "base/platform.h"
#include "base/process.h"
#include "targets/llvm/cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

enum { MAX_PROCESSES = 64, PATH_CAP = 4096 };
static const int64_t usual_deadline_ns = 120 * (int64_t)1000000000;

// Running programs that wait for work.
typedef struct Processes {
  char program[PATH_CAP];
  pthread_mutex_t lock;
  Process idle[MAX_PROCESSES];
  int nidle, most;  // that are kept
  int64_t users;    // under shared_lock
} Processes;

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static Processes *shared;

struct Codegen {
  Processes *processes;
  int nprocesses;
  char cache[PATH_CAP];  // "": none
  char identity[64];     // of the program
  int64_t deadline_ns;
  void (*progress)(void *ctx, int64_t done, int64_t total);
  void *ctx;
  const Watch *watch;
  int64_t nstored;
  pthread_mutex_t lock;
};

// The program's own bytes tell one build from another; they name the LLVM that it was built for.
static tenon_status identify(Codegen *c, Diag *d) {
  File f;
  TRY(file_open(c->processes->program, &f, d));
  snprintf(c->identity, sizeof c->identity, "%016llx%016llx",
           (unsigned long long)hash_bytes(f.bytes, f.size, 1),
           (unsigned long long)hash_bytes(f.bytes, f.size, 2));
  file_close(&f);
  return TENON_OK;
}

static bool copy_path(char *to, const char *from) {
  size_t n = strlen(from);
  if (n >= PATH_CAP) return false;
  memcpy(to, from, n + 1);
  return true;
}

// ---- the processes ----

static tenon_status processes_create(const char *program, Diag *d, Processes **out) {
  Processes *p = *out = mem_alloc((int64_t)sizeof *p);
  if (!p) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  if (program ? copy_path(p->program, program)
              : process_find("tenon-codegen", p->program, sizeof p->program)) {
    p->users = 1;
    pthread_mutex_init(&p->lock, NULL);
    return TENON_OK;
  }
  mem_free(p, (int64_t)sizeof *p);
  *out = NULL;
  return fail(d, TENON_EUNSUPPORTED, NOWHERE,
              "the program tenon-codegen, which makes machine code, is not there: it lies beside "
              "tenon where it was built with LLVM");
}

static tenon_status processes_get(const char *program, Diag *d, Processes **out) {
  if (program) return processes_create(program, d, out);
  tenon_status s = TENON_OK;
  pthread_mutex_lock(&shared_lock);
  if (shared)
    shared->users++;
  else
    s = processes_create(NULL, d, &shared);
  *out = shared;
  pthread_mutex_unlock(&shared_lock);
  return s;
}

static void processes_release(Processes *p) {
  if (!p) return;
  pthread_mutex_lock(&shared_lock);
  bool used = --p->users > 0;
  if (!used && p == shared) shared = NULL;
  pthread_mutex_unlock(&shared_lock);
  if (used) return;
  for (int i = 0; i < p->nidle; i++)
    if (p->idle[i].pid) process_end(&p->idle[i], false);
  pthread_mutex_destroy(&p->lock);
  mem_free(p, (int64_t)sizeof *p);
}

static int start_process(Processes *all, Process *p) {
  const char *argv[] = {all->program, NULL};
  return process_start(all->program, argv, p);
}

static int take_process(Processes *all, Process *p) {
  pthread_mutex_lock(&all->lock);
  bool have = all->nidle > 0;
  if (have) *p = all->idle[--all->nidle];
  pthread_mutex_unlock(&all->lock);
  return have ? 0 : start_process(all, p);
}

static void give_process(Processes *all, Process *p) {
  pthread_mutex_lock(&all->lock);
  bool keep = all->nidle < all->most;
  if (keep) all->idle[all->nidle++] = *p;
  pthread_mutex_unlock(&all->lock);
  if (!keep) process_end(p, false);
}

static tenon_status say_not_started(const Processes *p, int err, Diag *d) {
  return fail(d, TENON_EIO, NOWHERE, "%s cannot be started: %s", p->program, error_text(err).s);
}

// ---- a parent's processes and its children ----

tenon_status codegen_start(Codegen *c, int n, Diag *d) {
  Processes *p = c->processes;
  p->most = MAX(p->most, MIN(n, MAX_PROCESSES));
  for (; p->nidle < MIN(n, MAX_PROCESSES); p->nidle++) {
    int err = start_process(p, &p->idle[p->nidle]);
    if (err) return say_not_started(p, err, d);
  }
  return TENON_OK;
}

void codegen_adopt(Codegen *c, int i) {
  Processes *p = c->processes;
  bool there = i < p->nidle && p->idle[i].pid;
  if (there) p->idle[0] = p->idle[i];
  p->nidle = there;
}

void codegen_restart(Codegen *c, int i) {
  Processes *p = c->processes;
  if (i >= p->nidle) return;
  if (p->idle[i].pid) process_end(&p->idle[i], true);
  if (start_process(p, &p->idle[i])) p->idle[i] = (Process){0};
}

// ---- making and freeing ----

tenon_status codegen_create(const CodegenOptions *o, Diag *d, Codegen **out) {
  static const CodegenOptions none;
  *out = NULL;
  if (!o) o = &none;
  Codegen *c = mem_alloc((int64_t)sizeof *c);
  if (!c) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  c->nprocesses = MAX(1, MIN(o->nprocesses ? o->nprocesses : machine_threads(), MAX_PROCESSES));
  c->deadline_ns = o->deadline_ns ? o->deadline_ns : usual_deadline_ns;
  c->progress = o->progress;
  c->ctx = o->ctx;
  c->watch = o->watch;
  pthread_mutex_init(&c->lock, NULL);
  tenon_status s = processes_get(o->program, d, &c->processes);
  if (!s) {
    pthread_mutex_lock(&c->processes->lock);
    c->processes->most = MAX(c->processes->most, c->nprocesses);
    pthread_mutex_unlock(&c->processes->lock);
  }
  if (!s && o->cache && copy_path(c->cache, o->cache)) s = identify(c, d);
  if (s)
    codegen_release(c);
  else
    *out = c;
  return s;
}

// Whoever adds to the cache also keeps it in bounds.
static void prune(const Codegen *c) {
  static _Thread_local Diag quiet;
  CachePruned pruned;
  Arena a;
  Trap t;
  diag_init(&quiet);
  arena_init(&a);
  trap_enter(&t, &quiet);
  if (setjmp(t.env) == 0) t.status = cache_prune(c->cache, cache_limit(), &a, &quiet, &pruned);
  trap_leave(&t);
  arena_deinit(&a);
}

void codegen_release(Codegen *c) {
  if (!c) return;
  if (c->nstored) prune(c);
  processes_release(c->processes);
  pthread_mutex_destroy(&c->lock);
  mem_free(c, (int64_t)sizeof *c);
}

// ---- one kernel ----

static int send_request(Process *p, const CodeRequest *r, int64_t deadline) {
  uint8_t header[PROTOCOL_HEADER];
  const Str part[] = {r->triple, r->cpu, r->features, r->symbol, r->kernel};
  request_header(r, header);
  int err = process_write(p, header, sizeof header, deadline);
  for (size_t i = 0; !err && i < sizeof part / sizeof part[0]; i++)
    if (part[i].n) err = process_write(p, part[i].p, part[i].n, deadline);
  return err;
}

// The reply's texts lie in memory of `size` bytes, the caller's to free.
static int read_reply(Process *p, CodeReply *out, char **body, int64_t *size, int64_t deadline) {
  uint8_t header[PROTOCOL_HEADER];
  int err = process_read(p, header, sizeof header, deadline);
  if (err) return err;
  if (!reply_parse(header, out, size)) return EPROTO;
  if (!(*body = mem_alloc(MAX(*size, 1)))) return ENOMEM;
  err = process_read(p, *body, *size, deadline);
  if (!err) reply_body(out, *body);
  return err;
}

static tenon_status say_broken(Codegen *c, int err, Diag *d) {
  if (err == ENOMEM) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory for a kernel's code");
  return fail(d, TENON_EINTERNAL, NOWHERE, "%s %s", c->processes->program,
              err == EPIPE       ? "ended while it made code for a kernel"
              : err == ETIMEDOUT ? "took too long for a kernel"
              : err == EPROTO    ? "answered in another protocol: is it of another version?"
                                 : error_text(err).s);
}

typedef struct BuildJob {
  Codegen *c;
  const Machine *m;
  CodeKind kind;
  const Str *text;
  int64_t n, nbegun, ndone;
  Arena *a;  // under the lock
  Code *out;
} BuildJob;

static CodeRequest request_of(const BuildJob *j, int64_t i) {
  return (CodeRequest){.kind = j->kind,
                       .triple = str_of(j->m->triple),
                       .cpu = str_of(j->m->cpu),
                       .features = str_of(j->m->features),
                       .symbol = STR("tenon_kernel"),
                       .kernel = j->text[i]};
}

// A refused allocation must not leave with the lock.
static tenon_status keep(BuildJob *j, int64_t i, Str bytes, int64_t entry, Diag *d) {
  Trap t;
  pthread_mutex_lock(&j->c->lock);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0)
    j->out[i] =
        (Code){.bytes = arena_dup(j->a, bytes.p, MAX(bytes.n, 1)), .n = bytes.n, .entry = entry};
  trap_leave(&t);
  pthread_mutex_unlock(&j->c->lock);
  return t.status;
}

static tenon_status ask(BuildJob *j, int64_t i, const CodeRequest *r, Str key, Diag *d) {
  Codegen *c = j->c;
  Process p;
  CodeReply reply;
  char *body = NULL;
  int64_t size = 0, deadline = platform->now() + c->deadline_ns;
  int err = take_process(c->processes, &p);
  if (err) return say_not_started(c->processes, err, d);
  err = send_request(&p, r, deadline);
  if (!err) err = read_reply(&p, &reply, &body, &size, deadline);
  tenon_status s = err ? say_broken(c, err, d) : reply.status;
  if (!err && reply.status) s = fail(d, reply.status, NOWHERE, "%.*s", STR_ARG(reply.message));
  if (err)
    process_end(&p, true);
  else
    give_process(c->processes, &p);
  if (!s) s = keep(j, i, reply.bytes, reply.entry, d);
  if (!s) {
    bool stored = c->cache[0] && cache_store(c->cache, key, reply.bytes, reply.entry);
    pthread_mutex_lock(&c->lock);
    c->nstored += stored;
    pthread_mutex_unlock(&c->lock);
  }
  mem_free(body, MAX(size, 1));
  return s;
}

// Everything that the code follows from, each part after its length.
static Str key_of(const Codegen *c, const CodeRequest *r, Arena *a) {
  StrBuf b;
  const Str part[] = {str_of(c->identity), r->triple, r->cpu, r->features, r->symbol, r->kernel};
  int64_t kind = r->kind;
  strbuf_init(&b, a);
  strbuf_put(&b, (Str){(const char *)&kind, 8});
  for (int64_t i = 0; i < ARRAY_LEN(part); i++) {
    strbuf_put(&b, (Str){(const char *)&part[i].n, 8});
    strbuf_put(&b, part[i]);
  }
  return strbuf_str(&b);
}

static tenon_status begin_one(BuildJob *j, Diag *d) {
  pthread_mutex_lock(&j->c->lock);
  tenon_status s = watch_step(j->c->watch, d, "make code", "kernel", j->nbegun, j->n);
  j->nbegun++;
  pthread_mutex_unlock(&j->c->lock);
  return s;
}

static tenon_status build_one(BuildJob *j, int64_t i, Arena *a, Diag *d) {
  Codegen *c = j->c;
  int64_t begin = platform->now(), entry;
  CodeRequest r = request_of(j, i);
  File file;
  Str key = c->cache[0] ? key_of(c, &r, a) : STR(""), code;
  bool cached = c->cache[0] && cache_find(c->cache, key, &file, &code, &entry);
  tenon_status s = cached ? keep(j, i, code, entry, d) : ask(j, i, &r, key, d);
  if (cached) file_close(&file);
  TRY(s);
  j->out[i].cached = cached;
  j->out[i].ms = (double)(platform->now() - begin) / 1e6;
  pthread_mutex_lock(&c->lock);
  j->ndone++;
  if (c->progress) c->progress(c->ctx, j->ndone, j->n);
  pthread_mutex_unlock(&c->lock);
  return TENON_OK;
}

static void build_piece(void *ctx, int64_t begin, int64_t end) {
  BuildJob *j = ctx;
  Diag d;
  Arena a;
  Trap t;
  diag_init(&d);
  arena_init(&a);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0)
    for (int64_t i = begin; i < end && !t.status; i++) {
      t.status = begin_one(j, &d);
      if (!t.status) t.status = build_one(j, i, &a, &d);
    }
  trap_leave(&t);
  arena_deinit(&a);
  if (t.status) trap_raise(t.status, "%s", d.text);
}

tenon_status codegen_build(Codegen *c, const Machine *m, CodeKind kind, const Str *text, int64_t n,
                           Arena *a, Code *out, Diag *d) {
  BuildJob job = {.c = c, .m = m, .kind = kind, .text = text, .n = n, .a = a, .out = out};
  Pool *pool = pool_create(c->nprocesses);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) parallel_for(pool, n, 1, build_piece, &job);
  trap_leave(&t);
  pool_release(pool);
  return t.status;
}
