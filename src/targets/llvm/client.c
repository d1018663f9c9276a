// client.c -- the pool of tenon-codegen processes, and the kernel cache before it (codegen.h).
//
// A thread takes a free process for each kernel, or starts one.  A process that dies, hangs,
// answers nonsense or fails by its own fault is killed.  Its kernel fails with a message, the
// request is kept in a file, and the next kernel gets a new process.
//
// After a fork the child has no pool: the processes are its parent's.  Children may hold the ends
// of the pipes, so processes that are no longer needed are killed, not left to read the end of
// input.
//
// Needs:      tenon-codegen, found beside the program or library or on the path.
// Guarantees: a cache key has all that code follows from: the build id or bytes of tenon-codegen,
//             the machine, the kernel's text and CodeCall.key.  A broken process fails its kernel
//             alone.  Code is in the caller's arena.
#include "targets/llvm/codegen.h"

#include "base/budget.h"
#include "base/platform.h"
#include "base/process.h"
#include "base/cache.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_PROCESSES = 64, AHEAD = 4, PATH_CAP = 4096 };
static const int64_t own_bytes = (int64_t)48 << 20;  // of a process, for LLVM itself
static const int64_t usual_deadline_ns = 120 * (int64_t)1000000000;

struct Codegen {
  char program[PATH_CAP];
  char cache[PATH_CAP];  // "": none
  char identity[64];     // of the program
  int64_t deadline_ns;
  int64_t memory;  // bytes that each process may take on top of LLVM itself
  pthread_mutex_t lock;
  Process idle[MAX_PROCESSES];
  int nidle, nprocesses;
  int64_t busy[MAX_PROCESSES];  // ids of those that have a kernel
  int nbusy;
  bool background, cancelled, hurry;
  bool shared, started;  // processes ahead of their first kernel
  atomic_bool works;     // it has made code for a small kernel after a failure
};

// The process's own pool.
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t shared_once = PTHREAD_ONCE_INIT;
static Codegen *shared;
static int64_t shared_users;
static pthread_cond_t shared_quiet = PTHREAD_COND_INITIALIZER;  // no users, or somebody hurries

static bool within(const File *f, uint64_t at, uint64_t n) {
  return at <= (uint64_t)f->size && n <= (uint64_t)f->size - at;
}

// The build id among the notes of a segment: the linker's hash of all that it has written.
static Str build_id_in(const File *f, const Elf64_Phdr *h) {
  uint64_t at = h->p_offset, end = h->p_offset + h->p_filesz;
  Elf64_Nhdr n;
  while (within(f, h->p_offset, h->p_filesz) && end - at >= sizeof n) {
    memcpy(&n, f->bytes + at, sizeof n);
    uint64_t name = at + sizeof n, desc = name + (((uint64_t)n.n_namesz + 3) & ~(uint64_t)3);
    uint64_t next = desc + (((uint64_t)n.n_descsz + 3) & ~(uint64_t)3);
    if (next > end) break;
    if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(f->bytes + name, "GNU", 4))
      return (Str){(const char *)f->bytes + desc, (int64_t)n.n_descsz};
    at = next;
  }
  return (Str){0};
}

static Str build_id(const File *f) {
  Elf64_Ehdr e;
  Elf64_Phdr h;
  Str id = {0};
  if (!within(f, 0, sizeof e)) return id;
  memcpy(&e, f->bytes, sizeof e);
  if (memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
      e.e_phentsize != sizeof h)
    return id;
  for (uint64_t i = 0; i < e.e_phnum && within(f, e.e_phoff, (i + 1) * sizeof h) && !id.n; i++) {
    memcpy(&h, f->bytes + e.e_phoff + i * sizeof h, sizeof h);
    if (h.p_type == PT_NOTE) id = build_id_in(f, &h);
  }
  return id;
}

// The program's own bytes tell one build from another; they name the LLVM that it was built for.  A
// build id of 16 bytes or more stands for them: a program that has LLVM inside takes longer to read
// than a small model to compile.
static tenon_status identify(Codegen *c, Diag *d) {
  File f;
  TRY(file_open(c->program, &f, d));
  Str id = build_id(&f);
  if (id.n < 16) id = (Str){(const char *)f.bytes, f.size};
  snprintf(c->identity, sizeof c->identity, "%016llx%016llx",
           (unsigned long long)hash_bytes(id.p, id.n, 1),
           (unsigned long long)hash_bytes(id.p, id.n, 2));
  file_close(&f);
  return TENON_OK;
}

static bool copy_path(char *to, const char *from) {
  size_t n = strlen(from);
  if (n >= PATH_CAP) return false;
  memcpy(to, from, n + 1);
  return true;
}

static tenon_status find_program(Codegen *c, const CodegenOptions *o, Diag *d) {
  if (o->program ? copy_path(c->program, o->program)
                 : process_find("tenon-codegen", c->program, sizeof c->program))
    return TENON_OK;
  return fail(d, TENON_EUNSUPPORTED, NOWHERE,
              "the program tenon-codegen, which makes machine code, is not there: "
              "a build with LLVM puts it into the folder of tenon");
}

// Half of what the caller may still take is for the processes: so many that each has enough.
static void share_memory(Codegen *c, int nprocesses) {
  const int64_t least = (int64_t)128 << 20;  // whatever the limit: no kernel is made with less
  int64_t half = mem_left() / 2, n = nprocesses ? nprocesses : machine_threads();
  n = MAX(MIN(MIN(n, MAX_PROCESSES), half / (least + own_bytes)), 1);
  int64_t each = MAX(MIN(half / n - own_bytes, (int64_t)LIMIT_CODEGEN_MIB << 20), least);
  pthread_mutex_lock(&c->lock);
  // Processes that were started with more.
  while (each < c->memory && c->nidle > 0) process_end(&c->idle[--c->nidle], true);
  c->memory = each;
  c->nprocesses = (int)n;
  pthread_mutex_unlock(&c->lock);
}

tenon_status codegen_create(const CodegenOptions *o, Diag *d, Codegen **out) {
  static const CodegenOptions none;
  *out = NULL;
  if (!o) o = &none;
  Codegen *c = mem_alloc((int64_t)sizeof *c);
  if (!c) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  c->nprocesses = MAX(1, MIN(o->nprocesses ? o->nprocesses : machine_threads(), MAX_PROCESSES));
  c->memory = (int64_t)LIMIT_CODEGEN_MIB << 20;
  c->background = o->background;
  c->deadline_ns = o->deadline_ns ? o->deadline_ns : usual_deadline_ns;
  pthread_mutex_init(&c->lock, NULL);
  if (o->background) share_memory(c, o->nprocesses);
  tenon_status s = find_program(c, o, d);
  if (!s && o->cache && copy_path(c->cache, o->cache)) s = identify(c, d);
  if (s)
    codegen_release(c);
  else
    *out = c;
  return s;
}

static bool still_used(Codegen *c) {
  if (!c->shared) return false;
  pthread_mutex_lock(&shared_lock);
  bool used = --shared_users > 0;
  if (!used) shared = NULL;
  if (!used) pthread_cond_broadcast(&shared_quiet);
  pthread_mutex_unlock(&shared_lock);
  return used;
}

void codegen_release(Codegen *c) {
  if (!c || still_used(c)) return;
  for (int i = 0; i < c->nidle; i++)
    if (c->idle[i].pid) process_end(&c->idle[i], true);
  pthread_mutex_destroy(&c->lock);
  mem_free(c, (int64_t)sizeof *c);
}

// In a forked child: another thread of the parent may have held the lock.
static void forget_parents(void) {
  pthread_mutex_init(&shared_lock, NULL);
  pthread_cond_init(&shared_quiet, NULL);
  shared = NULL;
  shared_users = 0;
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, forget_parents); }

tenon_status codegen_shared(int nprocesses, Diag *d, Codegen **out) {
  tenon_status s = TENON_OK;
  char folder[PATH_CAP];
  bool cache = cache_folder(folder, sizeof folder);
  CodegenOptions o = {.nprocesses = nprocesses, .cache = cache ? folder : NULL};
  pthread_once(&shared_once, watch_forks);
  pthread_mutex_lock(&shared_lock);
  if (!shared) {
    s = codegen_create(&o, d, &shared);
    if (!s)
      shared->shared = true;  // once, before others have it: still_used reads it without the lock
  }
  if (!s && !shared_users++) share_memory(shared, nprocesses);
  *out = shared;
  pthread_mutex_unlock(&shared_lock);
  return s;
}

static int start_process(Codegen *c, Process *p) {
  char self[24];
  char memory[24];
  const char *argv[] = {c->program, "--parent", self,
                        "--memory", memory,     c->background ? "--background" : NULL,
                        NULL};
  snprintf(self, sizeof self, "%lld", (long long)getpid());
  snprintf(memory, sizeof memory, "%lld", (long long)(c->memory >> 20));
  return process_start(c->program, argv, p);
}

static tenon_status say_not_started(const Codegen *c, int err, Diag *d) {
  return fail(d, TENON_EIO, NOWHERE, "%s cannot be started: %s", c->program, error_text(err).s);
}

// ---- a parent's processes and its children ----

tenon_status codegen_start(Codegen *c, int n, Diag *d) {
  c->nprocesses = MAX(c->nprocesses, MIN(n, MAX_PROCESSES));
  for (; c->nidle < MIN(n, MAX_PROCESSES); c->nidle++) {
    int err = start_process(c, &c->idle[c->nidle]);
    if (err) return say_not_started(c, err, d);
  }
  return TENON_OK;
}

void codegen_adopt(Codegen *c, int i) {
  bool there = i < c->nidle && c->idle[i].pid;
  if (there) c->idle[0] = c->idle[i];
  c->nidle = there;
  c->nprocesses = 1;
  if (!c->shared) return;
  shared = c;
  shared_users = 1;
}

void codegen_restart(Codegen *c, int i) {
  if (i >= c->nidle) return;
  if (c->idle[i].pid) process_end(&c->idle[i], true);
  if (start_process(c, &c->idle[i])) c->idle[i] = (Process){0};
}

// Code will have to be made: what starts now is ready when the kernels are.  One that cannot be
// started is started again, with an error, when it is needed.
static void start_ahead(Codegen *c) {
  pthread_mutex_lock(&c->lock);
  bool first = !c->started;
  c->started = true;
  for (int i = c->nidle; first && i < MIN(c->nprocesses, AHEAD); i++) {
    if (start_process(c, &c->idle[c->nidle])) break;
    c->nidle++;
  }
  pthread_mutex_unlock(&c->lock);
}

// ---- one kernel ----

// Threads of one job are no more than MAX_PROCESSES; what several jobs have beyond is not
// cancelled.
static int take_process(Codegen *c, Process *p) {
  int err = 0;
  pthread_mutex_lock(&c->lock);
  bool have = c->nidle > 0, cancelled = c->cancelled;
  if (have) *p = c->idle[--c->nidle];
  pthread_mutex_unlock(&c->lock);
  if (!have) err = cancelled ? ECANCELED : start_process(c, p);
  if (err) return err;
  pthread_mutex_lock(&c->lock);
  if (c->cancelled) process_stop(p->pid);
  if (c->nbusy < MAX_PROCESSES) c->busy[c->nbusy++] = p->pid;
  pthread_mutex_unlock(&c->lock);
  return 0;
}

// Its id is another process's once it was waited for.
static void forget_busy(Codegen *c, const Process *p) {
  for (int i = 0; i < c->nbusy; i++)
    if (c->busy[i] == p->pid) {
      c->busy[i] = c->busy[--c->nbusy];
      return;
    }
}

// What it ended by, as process_end says; 0: it is kept.
static int give_process(Codegen *c, Process *p, bool broken) {
  pthread_mutex_lock(&c->lock);
  bool keep = !broken && c->nidle < c->nprocesses;
  forget_busy(c, p);
  if (keep) c->idle[c->nidle++] = *p;
  pthread_mutex_unlock(&c->lock);
  return keep ? 0 : process_end(p, true);
}

void codegen_cancel(Codegen *c) {
  pthread_mutex_lock(&c->lock);
  c->cancelled = true;
  for (int i = 0; i < c->nbusy; i++) process_stop(c->busy[i]);
  pthread_mutex_unlock(&c->lock);
  codegen_hurry(c);
}

void codegen_hurry(Codegen *c) {
  pthread_mutex_lock(&shared_lock);
  c->hurry = true;
  pthread_cond_broadcast(&shared_quiet);
  pthread_mutex_unlock(&shared_lock);
}

// What somebody waits for goes first.
static void wait_until_quiet(Codegen *c) {
  pthread_mutex_lock(&shared_lock);
  while (shared_users > 0 && !c->hurry) pthread_cond_wait(&shared_quiet, &shared_lock);
  pthread_mutex_unlock(&shared_lock);
}

static bool is_cancelled(Codegen *c) {
  pthread_mutex_lock(&c->lock);
  bool cancelled = c->cancelled;
  pthread_mutex_unlock(&c->lock);
  return cancelled;
}

typedef struct RequestParts {
  uint8_t header[PROTOCOL_HEADER];
  Str part[1 + PROTOCOL_PARTS];
} RequestParts;

static void request_parts(const CodeRequest *r, RequestParts *out) {
  request_header(r, out->header);
  const Str part[] = {{(const char *)out->header, PROTOCOL_HEADER},
                      r->triple,
                      r->cpu,
                      r->features,
                      r->symbol,
                      r->kernel};
  memcpy(out->part, part, sizeof part);
}

static int send_request(Process *p, const CodeRequest *r, int64_t deadline) {
  RequestParts all;
  request_parts(r, &all);
  int err = 0;
  for (int64_t i = 0; !err && i < ARRAY_LEN(all.part); i++)
    if (all.part[i].n) err = process_write(p, all.part[i].p, all.part[i].n, deadline);
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

// What a signal says of the process that it ended; strsignal is not for threads.
static const char *why_signalled(int sig) {
  static const struct {
    int sig;
    const char *why;
  } row[] = {{SIGSYS, "a system call that its sandbox does not allow"},
             {SIGABRT, "LLVM ran out of memory, or met a fault of its own"},
             {SIGXCPU, "too much processor time"},
             {SIGSEGV, "an address that is not mapped, or no more stack"},
             {SIGBUS, "memory that is not there"},
             {SIGILL, "an illegal instruction"},
             {SIGFPE, "an arithmetic fault"},
             {SIGTERM, "somebody ended it"},
             {SIGINT, "somebody ended it"}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++)
    if (row[i].sig == sig) return row[i].why;
  return "not one of its own";
}

// `end`: of the process, as process_end says.
static tenon_status say_broken(Codegen *c, int err, int end, Diag *d) {
  if (err == ENOMEM) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory for a kernel's code");
  if (err == EPIPE && end < 0 && end != -SIGKILL)
    return fail(d, TENON_EINTERNAL, NOWHERE,
                "%s was ended by signal %d while it made code for a kernel: %s", c->program, -end,
                why_signalled(-end));
  return fail(d, TENON_EINTERNAL, NOWHERE, "%s %s", c->program,
              err == EPIPE       ? "ended while it made code for a kernel"
              : err == ETIMEDOUT ? "took too long for a kernel"
              : err == EPROTO    ? "answered in another protocol: is it of another version?"
                                 : error_text(err).s);
}

// A kernel whose process broke is kept as the request, among temporary files: the program reads it
// from standard input.
static void keep_request(const Codegen *c, const CodeRequest *r, Diag *d) {
  Diag *quiet = diag_unread();
  char path[PATH_CAP];
  RequestParts all;
  const char *folder = getenv("TMPDIR");
  uint64_t hash = 0;
  request_parts(r, &all);
  for (int64_t i = 0; i < ARRAY_LEN(all.part); i++)
    hash = hash_bytes(all.part[i].p, all.part[i].n, hash + 1);
  int n = snprintf(path, sizeof path, "%s/tenon-%016llx.request",
                   folder && *folder ? folder : "/tmp", (unsigned long long)hash);
  if (n < 0 || n >= (int)sizeof path) return;
  if (file_write_parts(path, all.part, (int)ARRAY_LEN(all.part), quiet)) return;
  diag_note(d, "the kernel is in %s: run it with", path);
  diag_note(d, "%s < %s > /dev/null", c->program, path);
}

static CodeRequest request_of(const Machine *m, CodeKind kind, Str text) {
  return (CodeRequest){.kind = kind,
                       .triple = str_of(m->triple),
                       .cpu = str_of(m->cpu),
                       .features = str_of(m->features),
                       .symbol = STR("tenon_kernel"),
                       .kernel = text};
}

typedef struct BuildJob {
  Codegen *c;
  const Machine *m;
  CodeKind kind;
  const Str *text;
  Str *body;   // each reply's memory, given back by the caller
  File *file;  // or the file of the cache
  Code *out;
  const CodeCall *call;
  BudgetShare budget;  // the caller's
  // Not the pool's: a watcher may take its time, and others make code meanwhile.
  pthread_mutex_t lock;
  Arena *arena;                // of the caller, under the lock
  Pool *pool;                  // for what is missing
  int64_t *missing, nmissing;  // what the cache does not have
  Diag *failed;                // what the first kernel that failed says, with its notes
  int64_t n, begun, nstored;   // these, too, under the lock
} BuildJob;

static tenon_status say_cancelled(Diag *d) {
  return fail(d, TENON_ECANCELLED, NOWHERE, "code generation was cancelled");
}

static tenon_status ask(BuildJob *j, int64_t i, const CodeRequest *r, Diag *d) {
  Codegen *c = j->c;
  Process p;
  CodeReply reply;
  char *body = NULL;
  int64_t size = 0, deadline = platform->now() + c->deadline_ns;
  if (c->background) wait_until_quiet(c);
  int err = take_process(c, &p);
  if (err && is_cancelled(c)) return say_cancelled(d);
  if (err) return say_not_started(c, err, d);
  int64_t before = process_time(&p);
  err = send_request(&p, r, deadline);
  if (!err) err = read_reply(&p, &reply, &body, &size, deadline);
  budget_spend(MAX(process_time(&p) - before, 0));
  // A process that met its own fault, or a limit, may be about to end.
  tenon_status s = err ? TENON_EINTERNAL : reply.status;
  bool broken = s == TENON_EINTERNAL || s == TENON_ENOMEM;
  int end = give_process(c, &p, broken);
  if (err && is_cancelled(c)) {
    mem_free(body, MAX(size, 1));
    return say_cancelled(d);
  }
  if (err) s = say_broken(c, err, end, d);
  if (!err && s) fail(d, s, NOWHERE, "%.*s", STR_ARG(reply.message));
  if (broken) keep_request(c, r, d);
  j->out[i].limit = s == TENON_ENOMEM || err == ETIMEDOUT || end == -SIGXCPU;
  j->body[i] = (Str){body, MAX(size, 1)};
  if (s) return s;
  j->out[i] =
      (Code){.bytes = (const uint8_t *)reply.bytes.p, .n = reply.bytes.n, .entry = reply.entry};
  j->out[i].quick = r->quick;
  return TENON_OK;
}

static CacheMaker maker_of(const Codegen *c, const CodeRequest *r, Arena *a) {
  const Str part[] = {r->triple, r->cpu, r->features};
  StrBuf machine;
  strbuf_init(&machine, a);
  for (int i = 0; i < ARRAY_LEN(part); i++) {
    if (i) strbuf_putc(&machine, ' ');
    strbuf_put(&machine, part[i]);
  }
  return (CacheMaker){.maker = str_of(str_printf(a, "tenon-codegen %s", c->identity)),
                      .machine = strbuf_str(&machine)};
}

CacheMaker codegen_maker(const Codegen *c, Arena *a) {
  Machine *m = arena_new(a, Machine);
  machine_host(m);
  CodeRequest r = request_of(m, CODE_IMAGE, STR(""));
  return maker_of(c, &r, a);
}

// Everything that the code follows from; parts that are not a line of their own after their
// length.  `more` is what the request does not say.
static Str key_of(const Codegen *c, const CodeRequest *r, const char *more, Arena *a) {
  StrBuf b;
  const Str part[] = {r->symbol, r->kernel};
  const CacheMaker maker = maker_of(c, r, a);
  int64_t kind = r->kind;
  strbuf_init(&b, a);
  cache_put_maker(&b, &maker);
  strbuf_put(&b, (Str){(const char *)&kind, 8});
  for (int64_t i = 0; i < ARRAY_LEN(part); i++) {
    strbuf_put(&b, (Str){(const char *)&part[i].n, 8});
    strbuf_put(&b, part[i]);
  }
  if (more) strbuf_puts(&b, more);
  return strbuf_str(&b);
}

bool codegen_has(Codegen *c, const Machine *m, CodeKind kind, const char *key, Str text) {
  if (!c->cache[0]) return false;
  CodeRequest r = request_of(m, kind, text);
  File file = {0};
  Str code;
  int64_t entry;
  Arena a;
  Trap t;
  Diag *quiet = diag_unread();
  volatile bool found = false;
  arena_init(&a);
  trap_enter(&t, quiet);
  if (setjmp(t.env) == 0)
    found = cache_find(c->cache, key_of(c, &r, key, &a), &file, &code, &entry);
  trap_leave(&t);
  arena_deinit(&a);
  if (found) file_close(&file);
  if (!found) start_ahead(c);
  return found;
}

static tenon_status ask_and_store(BuildJob *j, int64_t i, const CodeRequest *r, Str key, Diag *d) {
  TRY(ask(j, i, r, d));
  const Code *code = &j->out[i];
  bool stored =
      key.n && !code->quick &&
      cache_store(j->c->cache, key, (Str){(const char *)code->bytes, code->n}, code->entry);
  pthread_mutex_lock(&j->lock);
  j->nstored += stored;
  pthread_mutex_unlock(&j->lock);
  return TENON_OK;
}

static bool find_code(BuildJob *j, int64_t i, Str key) {
  Str code;
  if (!key.n || !cache_find(j->c->cache, key, &j->file[i], &code, &j->out[i].entry)) return false;
  j->out[i].bytes = (const uint8_t *)code.p;
  j->out[i].n = code.n;
  j->out[i].cached = true;
  return true;
}

static void forget_reply(BuildJob *j, int64_t i, Diag *d) {
  mem_free((void *)(uintptr_t)j->body[i].p, j->body[i].n);
  j->body[i] = (Str){0};
  j->out[i] = (Code){.ms = j->out[i].ms};
  diag_init(d);
}

static tenon_status build_one(BuildJob *j, int64_t i, bool only_find, Arena *a, Diag *d) {
  int64_t begin = platform->now();
  CodeRequest r = request_of(j->m, j->kind, j->text[i]);
  bool cache = j->c->cache[0] && !j->call->no_cache;
  Str key = cache ? key_of(j->c, &r, j->call->key, a) : STR("");
  bool found = only_find && find_code(j, i, key);
  if (!found && only_find) j->missing[j->nmissing++] = i;
  // The quick form of a kernel is no reason to leave it to another schedule: its full form may do.
  r.quick = !only_find && j->call->quick;
  tenon_status quick = r.quick ? ask_and_store(j, i, &r, key, d) : TENON_EINTERNAL;
  if (!only_find && quick) {
    if (r.quick) forget_reply(j, i, d);
    r.quick = false;
    TRY(ask_and_store(j, i, &r, key, d));
  }
  j->out[i].ms += (double)(platform->now() - begin) / 1e6;
  return TENON_OK;
}

// ---- a kernel that fails alone ----

// Whether the program makes code at all: else each kernel would fail, and for a reason that is not
// its own.
static bool makes_code(BuildJob *j) {
  static const char small[] =
      "kernel @small (out %y: f32[1]) {\n parallel i < 1 {\n  store %y[i] = 1.0\n }\n}\n";
  Diag *quiet = diag_unread();
  if (atomic_load(&j->c->works)) return true;
  Code code[1] = {{0}};
  Str body[1] = {{0}};
  CodeRequest r = request_of(j->m, j->kind, STR(small));
  BuildJob one = {.c = j->c, .m = j->m, .kind = j->kind, .body = body, .out = code, .n = 1};
  bool ok = !ask(&one, 0, &r, quiet);
  if (body[0].p) mem_free((void *)(uintptr_t)body[0].p, body[0].n);
  atomic_store(&j->c->works, ok);
  return ok;
}

static tenon_status fail_alone(BuildJob *j, int64_t i, tenon_status s, const Diag *d) {
  bool started = s != TENON_EIO;
  if (!j->call->go_on || (started && s != TENON_EINTERNAL && s != TENON_ENOMEM)) return s;
  bool none = !started || !makes_code(j);
  pthread_mutex_lock(&j->lock);
  if (none) {
    if (j->call->none) *j->call->none = true;
    pthread_mutex_unlock(&j->lock);
    return s;
  }
  j->out[i].failed = str_copy(j->arena, str_of(d->text));
  pthread_mutex_unlock(&j->lock);
  return TENON_OK;
}

static tenon_status tell(BuildJob *j, int64_t i, Diag *d) {
  const char *node = j->call->node ? j->call->node[i] : NULL;
  pthread_mutex_lock(&j->lock);
  tenon_status s =
      watch_step(j->call->watch, d, "make code", node ? node : "kernel", j->begun, j->n);
  j->begun++;
  pthread_mutex_unlock(&j->lock);
  return s;
}

static void build_piece(void *ctx, int64_t begin, int64_t end) {
  BuildJob *j = ctx;
  Diag d;
  Arena a;
  Trap t;
  diag_init(&d);
  arena_init(&a);
  trap_enter(&t, &d);
  budget_take(j->budget);
  if (setjmp(t.env) == 0)
    for (int64_t i = begin; i < end && !t.status; i++) {
      at_work_part("code generation", NULL, -1);
      if (j->call->node) at_work_node(j->call->node[j->missing[i]]);
      budget_check();
      t.status = tell(j, j->missing[i], &d);
      if (!t.status) t.status = build_one(j, j->missing[i], false, &a, &d);
      if (t.status) t.status = fail_alone(j, j->missing[i], t.status, &d);
      if (!t.status) diag_init(&d);
    }
  trap_leave(&t);
  arena_deinit(&a);
  if (!t.status) return;
  pthread_mutex_lock(&j->lock);
  if (!j->failed->len) *j->failed = d;
  pthread_mutex_unlock(&j->lock);
  trap_again(t.status, d.text);
}

// Kernels with more text take longer, as a rule: begun first, none is left over at the end while
// other processes have nothing to do.
typedef struct ByLength {
  int64_t n, index;
} ByLength;

static int longest_first(const void *x, const void *y) {
  const ByLength *a = x, *b = y;
  return a->n != b->n ? (a->n < b->n ? 1 : -1) : (a->index > b->index) - (a->index < b->index);
}

static void order_missing(BuildJob *j, Arena *a) {
  ByLength *by = arena_array(a, ByLength, MAX(j->nmissing, 1));
  for (int64_t i = 0; i < j->nmissing; i++)
    by[i] = (ByLength){j->text[j->missing[i]].n, j->missing[i]};
  qsort(by, (size_t)j->nmissing, sizeof *by, longest_first);
  for (int64_t i = 0; i < j->nmissing; i++) j->missing[i] = by[i].index;
}

// What the cache has is found sooner than a thread wakes up.
static tenon_status build_all(BuildJob *j, Arena *a, Diag *d) {
  memset(j->out, 0, (size_t)j->n * sizeof *j->out);
  j->arena = a;
  j->file = arena_array(a, File, MAX(j->n, 1));
  j->body = arena_array(a, Str, MAX(j->n, 1));
  j->missing = arena_array(a, int64_t, MAX(j->n, 1));
  j->failed = arena_new(a, Diag);
  for (int64_t i = 0; i < j->n; i++) {
    int64_t before = j->nmissing;
    TRY(build_one(j, i, true, a, d));
    if (before == j->nmissing) TRY(tell(j, i, d));
  }
  // What the processes may take is not ours meanwhile.
  int64_t left = mem_left(), theirs = j->c->nprocesses * (j->c->memory + own_bytes);
  if (j->nmissing && left < INT64_MAX) mem_ceiling(mem_used() + MAX(left - theirs, left / 4));
  j->budget = budget_share();
  order_missing(j, a);
  if (j->nmissing) j->pool = pool_create(j->c->nprocesses);
  parallel_for(j->pool, j->nmissing, 1, build_piece, j);
  for (int64_t i = 0; i < j->n; i++)
    if (!j->out[i].failed) j->out[i].bytes = arena_dup(a, j->out[i].bytes, MAX(j->out[i].n, 1));
  return TENON_OK;
}

// A pool carries the beginning of a message; here is all of it.  `before`: the length of what was
// said before.
static tenon_status say_again(const Diag *failed, int64_t before, Diag *d) {
  d->len = before;
  d->text[before] = 0;
  return diag_again(d, failed->status, failed->text);
}

tenon_status codegen_build_with(Codegen *c, const Machine *m, CodeKind kind, const Str *text,
                                int64_t n, const CodeCall *call, Arena *a, Code *out, Diag *d) {
  BuildJob job = {.c = c, .m = m, .kind = kind, .text = text, .out = out, .call = call, .n = n};
  Trap t;
  int64_t before = d->len;
  BudgetShare budget = budget_share();
  pthread_mutex_init(&job.lock, NULL);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = build_all(&job, a, d);
  trap_leave(&t);
  if (t.status && job.failed && job.failed->len) t.status = say_again(job.failed, before, d);
  for (int64_t i = 0; job.body && i < n; i++) {
    mem_free((void *)(uintptr_t)job.body[i].p, job.body[i].n);
    file_close(&job.file[i]);
  }
  pool_release(job.pool);
  budget_take(budget);
  pthread_mutex_destroy(&job.lock);
  if (job.nstored) cache_tidy(c->cache);
  return t.status;
}

tenon_status codegen_build(Codegen *c, const Machine *m, CodeKind kind, const Str *text, int64_t n,
                           Arena *a, Code *out, Diag *d) {
  return codegen_build_with(c, m, kind, text, n, &(CodeCall){0}, a, out, d);
}
