// upgrade.c -- the thread that has a program's kernels made in full (upgrade.h).
//
// The threads of several programs use it one at a time, so that there is one set of processes.
// These begin no kernel while somebody compiles (CodegenOptions.background).
//
// The thread has what is left of the compilation's limits, and so have its processes.  What it
// fails to make is tried again whenever the program is written to a file, by the processes of the
// shared pool.  A kernel whose full form cannot be made then keeps its quick one: it runs, but the
// program is not written.
//
// Needs:      a program with quick code, whose owner calls upgrade_stop before it frees it.
// Guarantees: nothing of the program changes but Program.swapped, once for an attempt.  No run
// waits, and none
//             fails because of it.  A forked child has no such thread: it keeps the code that it
//             has, and frees nothing that the thread may have been changing.
#include "targets/upgrade.h"

#include "base/budget.h"
#include "base/process.h"

#include <pthread.h>

enum { CODE_ALIGN = 64 };

typedef struct Made Made;
struct Made {
  ProgCode code;
  Made *before;  // a run may still use it
};

typedef struct Upgrade {
  Program *program;
  Arena arena;  // the caller's until the thread begins, then the thread's until it is joined
  Machine machine;
  UpgradeKernels k;  // whose code becomes full
  Code *code;        // k.code
  BudgetShare budget;
  int64_t memory_left;  // below the ceiling, when the compilation ended; INT64_MAX: there is none
  Codegen *codegen;
  void *thread;  // NULL: joined
  int forks;     // of the process that has it
  bool stop;     // under turn_lock
  pthread_mutex_t joining;
  Diag diag;         // why the full code is not there
  const char *lack;  // or the code of one kernel
  Made *made;
  bool full;  // the last one has full code alone
} Upgrade;

// One program's kernels at a time.
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_over = PTHREAD_COND_INITIALIZER;
static pthread_once_t turn_once = PTHREAD_ONCE_INIT;
static bool turn_taken;

// In a forked child: the thread whose turn it was is the parent's.
static void forget_turn(void) {
  pthread_mutex_init(&turn_lock, NULL);
  pthread_cond_init(&turn_over, NULL);
  turn_taken = false;
}
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, forget_turn); }

static bool take_turn(Upgrade *u) {
  pthread_mutex_lock(&turn_lock);
  while (turn_taken && !u->stop) pthread_cond_wait(&turn_over, &turn_lock);
  bool mine = !u->stop;
  if (mine) turn_taken = true;
  pthread_mutex_unlock(&turn_lock);
  return mine;
}

// The processes go, too: who cancels them does so under the lock.
static void give_turn(Upgrade *u) {
  pthread_mutex_lock(&turn_lock);
  Codegen *codegen = u->codegen;
  u->codegen = NULL;
  turn_taken = false;
  pthread_cond_broadcast(&turn_over);
  pthread_mutex_unlock(&turn_lock);
  codegen_release(codegen);
}

Str join_code(const Code *code, const int64_t *kernel, int64_t n, const Machine *m, Arena *a,
              int64_t *entry) {
  int64_t total = 0, align = m->arch == ARCH_AARCH64 ? PAGE : CODE_ALIGN;
  for (int64_t i = 0; i < n; i++) {
    entry[kernel[i]] = total + code[i].entry;
    total += (code[i].n + align - 1) / align * align;
  }
  char *all = arena_alloc(a, MAX(total, 1));
  for (int64_t i = 0; i < n; i++)
    memcpy(all + entry[kernel[i]] - code[i].entry, code[i].bytes, (size_t)code[i].n);
  return (Str){all, MAX(total, 1)};
}

// ---- the thread ----

// Puts all code into place.
static tenon_status publish(Upgrade *u, Diag *d) {
  Program *p = u->program;
  Made *made = arena_new(&u->arena, Made);
  int64_t *entry = arena_array(&u->arena, int64_t, p->nkernels);
  for (int32_t i = 0; i < p->nkernels; i++) entry[i] = p->kernel[i].entry;
  Str all = join_code(u->code, u->k.kernel, u->k.n, &u->machine, &u->arena, entry);
  char *mapped = code_map(all.p, all.n);
  if (!mapped) return fail(d, TENON_EIO, NOWHERE, "the system gives no memory for code");
  made->code = (ProgCode){.code = mapped, .code_bytes = all.n, .entry = entry};
  made->before = u->made;
  u->made = made;
  atomic_store(&p->swapped, &made->code);
  return TENON_OK;
}

// Full code for the kernels that have none.
static tenon_status make_code(Upgrade *u, Codegen *codegen, Diag *d) {
  UpgradeKernels *k = &u->k;
  Code *code = arena_array(&u->arena, Code, k->n);
  Str *text = arena_array(&u->arena, Str, k->n);
  int64_t *which = arena_array(&u->arena, int64_t, k->n), n = 0, nfull = 0;
  CodeCall call = {.no_cache = k->no_cache, .key = k->key, .go_on = true};
  u->lack = NULL;
  for (int64_t i = 0; i < k->n; i++)
    if (u->code[i].quick) text[n] = k->text[i], which[n++] = i;
  TRY(codegen_build_with(codegen, &u->machine, CODE_IMAGE, text, n, &call, &u->arena, code, d));
  for (int64_t i = 0; i < n; i++) {
    bool large = !code[i].failed && code[i].n > k->most_bytes;
    if (code[i].failed || large)
      u->lack = large ? "it has too much machine code" : code[i].failed;
    else
      u->code[which[i]] = code[i], nfull++;
  }
  if (n && !nfull) return TENON_OK;
  TRY(publish(u, d));
  u->full = !u->lack;
  return TENON_OK;
}

static tenon_status make_shared(Upgrade *u, Diag *d) {
  Codegen *shared;
  TRY(codegen_shared(u->k.threads, d, &shared));
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = make_code(u, shared, d);
  trap_leave(&t);
  codegen_release(shared);
  return t.status;
}

// With what was left of the compilation's limits.  Others may hold more by now than they did then.
static void attempt(Upgrade *u, bool background) {
  BudgetShare was = budget_share(), b = u->budget;
  int64_t ceiling;
  Trap t;
  if (b.ceiling) b.ceiling = ck_add(mem_used(), u->memory_left, &ceiling) ? ceiling : INT64_MAX;
  diag_init(&u->diag);
  trap_enter(&t, &u->diag);
  if (setjmp(t.env) == 0) {
    budget_take(b);
    t.status = background ? make_code(u, u->codegen, &u->diag) : make_shared(u, &u->diag);
  }
  trap_leave(&t);
  budget_take(was);
}

static void *run_upgrade(void *ctx) {
  Upgrade *u = ctx;
  if (!take_turn(u)) return NULL;
  attempt(u, true);
  give_turn(u);
  return NULL;
}

// ---- its owner ----

static void join_thread(Upgrade *u) {
  pthread_mutex_lock(&u->joining);
  if (u->thread) platform->thread_join(u->thread);
  u->thread = NULL;
  pthread_mutex_unlock(&u->joining);
}

// Another schedule of the kernel may do, which takes another compilation.
static tenon_status say_lack(const Upgrade *u, Diag *d) {
  const char *why = u->lack ? u->lack : u->diag.text;
  tenon_status s = u->lack ? TENON_EUNSUPPORTED : u->diag.status ? u->diag.status : TENON_EIO;
  fail(d, s, NOWHERE, "%s no full code: %.*s", u->lack ? "a kernel has" : "the kernels have",
       (int)strcspn(why, "\n"), why);
  diag_note(d, "compile with tier=full to write the model to a file");
  return s;
}

// What is written to a file is full code.
static tenon_status settle(const Program *p, Diag *d) {
  Upgrade *u = p->upgrade;
  if (u->forks != process_forks())
    return u->full
               ? TENON_OK
               : fail(d, TENON_EUNSUPPORTED, NOWHERE,
                      "a forked process has the quick code of its parent, which is not written: "
                      "compile with tier=full");
  pthread_mutex_lock(&turn_lock);
  if (u->codegen) codegen_hurry(u->codegen);
  pthread_mutex_unlock(&turn_lock);
  join_thread(u);
  pthread_mutex_lock(&u->joining);
  if (!u->full && u->code) attempt(u, false);
  tenon_status made = u->full ? TENON_OK : say_lack(u, d);
  pthread_mutex_unlock(&u->joining);
  return made;
}

static void copy_kernels(Upgrade *u, const UpgradeKernels *k) {
  Arena *a = &u->arena;
  Str *text = arena_array(a, Str, k->n);
  Code *code = arena_array(a, Code, k->n);
  u->k = *k;
  u->machine = *k->machine;
  for (int64_t i = 0; i < k->n; i++) {
    text[i] = (Str){arena_dup(a, k->text[i].p, k->text[i].n), k->text[i].n};
    code[i] = k->code[i];
    code[i].bytes = arena_dup(a, k->code[i].bytes, MAX(k->code[i].n, 1));
  }
  u->k.text = text;
  u->k.code = u->code = code;
  u->k.kernel = arena_dup(a, k->kernel, k->n * (int64_t)sizeof *k->kernel);
  u->k.key = k->key ? str_copy(a, str_of(k->key)) : NULL;
  u->k.machine = &u->machine;
}

static void start(Upgrade *u, const UpgradeKernels *k, Diag *d) {
  char folder[4096];
  bool cache = cache_folder(folder, sizeof folder);
  CodegenOptions o = {.nprocesses = k->threads, .cache = cache ? folder : NULL, .background = true};
  copy_kernels(u, k);
  if (codegen_create(&o, d, &u->codegen)) return;
  pthread_once(&turn_once, watch_forks);
  int err = platform->thread_start(run_upgrade, u, &u->thread);
  if (err) fail(d, TENON_EIO, NOWHERE, "no thread can be started: %s", error_text(err).s);
}

static void release(Upgrade *u) {
  codegen_release(u->codegen);
  for (const Made *m = u->made; m; m = m->before)
    code_unmap((void *)(uintptr_t)m->code.code, m->code.code_bytes);
  arena_deinit(&u->arena);
  pthread_mutex_destroy(&u->joining);
  mem_free(u, (int64_t)sizeof *u);
}

void upgrade_start(Program *p, const UpgradeKernels *k) {
  Upgrade *u = mem_alloc((int64_t)sizeof *u);
  if (!u) return;
  Trap t;
  u->program = p;
  u->forks = process_forks();
  u->budget = budget_share();
  u->budget.work = (AtWork){0};  // it may be named by memory of the compilation
  u->memory_left = mem_left();
  arena_init(&u->arena);
  diag_init(&u->diag);
  pthread_mutex_init(&u->joining, NULL);
  p->upgrade = u;
  p->settle = settle;
  trap_enter(&t, &u->diag);
  if (setjmp(t.env) == 0) start(u, k, &u->diag);
  trap_leave(&t);
}

bool upgrade_wait(const Program *p) {
  Upgrade *u = p->upgrade;
  if (!u) return true;
  join_thread(u);
  pthread_mutex_lock(&u->joining);
  bool full = u->full;
  pthread_mutex_unlock(&u->joining);
  return full;
}

void upgrade_cancel(const Program *p) {
  Upgrade *u = p->upgrade;
  if (!u || u->forks != process_forks()) return;
  pthread_mutex_lock(&turn_lock);
  u->stop = true;
  if (u->codegen) codegen_cancel(u->codegen);
  pthread_cond_broadcast(&turn_over);
  pthread_mutex_unlock(&turn_lock);
}

void upgrade_stop(Program *p) {
  Upgrade *u = p->upgrade;
  if (!u || u->forks != process_forks()) return;
  upgrade_cancel(p);
  join_thread(u);
  p->upgrade = NULL;
  release(u);
}
