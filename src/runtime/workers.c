// workers.c -- the threads of a session.
//
// A job is announced by counting `generation` up; `open` holds the job's number until it is
// closed.  Both are on one cache line with all that a worker must know of the job, so that one
// transfer brings it.  A worker says on a line of its own how far it is: 2 n + 1 while it is at job
// n, 2 n when it is done with it or did not take part; before it begins it looks whether the job is
// still open.  The caller is done when all workers are done with the job; one that has not come is
// shut out, by closing the job and then looking whether it came after all.  So one that wakes late
// finds the job gone, and what it reads of a job is never of the next one.  Before it sleeps, a
// worker says so in `asleep` under the lock and looks once more; who announces a job looks at
// `asleep` afterwards: so no wake is lost.
//
// Workers that take all the CPUs that the process may use are pinned, each to its own, so that
// caches stay warm; the caller is not.  Fewer are left to the system: several sessions, or
// processes, would else share the first CPUs while others idle.
//
// A forked process has none of its parent's threads: it starts its own for its first job, and waits
// for nobody when they go.
#include "runtime/workers.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_WORKERS = 256, LINE = 64, SPINS = 20000 };

typedef struct Member {
  _Alignas(LINE) atomic_ullong state;  // written by the worker alone
  _Alignas(LINE) Workers *all;
  int index;
  void *thread;
} Member;

struct Workers {
  _Alignas(LINE) atomic_ullong generation;  // 64 bits: a number never comes again
  atomic_ullong open;                       // number of the job, 0: none
  WorkersFn *fn;
  void *ctx;
  atomic_bool quit;
  _Alignas(LINE) atomic_int asleep;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  int count, capacity;
  int forks;  // of the process that has the threads
  bool pinned;
  Member member[];
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Waits until the generation is another than `seen`, spinning first.
static unsigned long long await_job(Workers *w, unsigned long long seen) {
  for (int i = 0; i < SPINS; i++) {
    unsigned long long g = atomic_load_explicit(&w->generation, memory_order_acquire);
    if (g != seen) return g;
    relax();
  }
  pthread_mutex_lock(&w->lock);
  atomic_fetch_add(&w->asleep, 1);
  unsigned long long g;
  while ((g = atomic_load(&w->generation)) == seen) pthread_cond_wait(&w->wake, &w->lock);
  atomic_fetch_sub(&w->asleep, 1);
  pthread_mutex_unlock(&w->lock);
  return g;
}

static void *serve(void *arg) {
  Member *m = arg;
  Workers *w = m->all;
  if (w->pinned) thread_pin(m->index);
  for (unsigned long long seen = 0;;) {
    seen = await_job(w, seen);
    if (atomic_load(&w->quit)) return NULL;
    atomic_store(&m->state, 2 * seen + 1);
    if (atomic_load(&w->open) == seen) w->fn(w->ctx, m->index, w->count);
    atomic_store_explicit(&m->state, 2 * seen, memory_order_release);
  }
}

static void announce(Workers *w) {
  atomic_fetch_add(&w->generation, 1);
  if (atomic_load(&w->asleep) == 0) return;
  pthread_mutex_lock(&w->lock);
  pthread_cond_broadcast(&w->wake);
  pthread_mutex_unlock(&w->lock);
}

static int64_t workers_bytes(int capacity) {
  return (int64_t)sizeof(Workers) + capacity * (int64_t)sizeof(Member);
}

// As many threads as can be had up to `most`, with everything as before a first job.
static void start_threads(Workers *w, int most) {
  w->forks = process_forks();
  atomic_store(&w->generation, 0);
  atomic_store(&w->open, 0);
  atomic_store(&w->asleep, 0);
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->wake, NULL);
  // `count` is read by workers only once a job is announced.
  int n = 1;
  for (; n < most; n++) {
    w->member[n] = (Member){.all = w, .index = n};
    if (platform->thread_start(serve, &w->member[n], &w->member[n].thread)) break;
  }
  w->count = n;
}

Workers *workers_create(int nthreads) {
  if (nthreads <= 0) nthreads = machine_threads();
  int capacity = MIN(nthreads, MAX_WORKERS);
  Workers *w = mem_alloc(workers_bytes(capacity));
  if (!w) return NULL;
  w->capacity = capacity;
  w->pinned = capacity == machine_cpus();
  start_threads(w, capacity);
  return w;
}

static void end_threads(Workers *w) {
  atomic_store(&w->quit, true);
  announce(w);
  for (int i = 1; i < w->count; i++) platform->thread_join(w->member[i].thread);
  pthread_cond_destroy(&w->wake);
  pthread_mutex_destroy(&w->lock);
}

void workers_free(Workers *w) {
  if (!w) return;
  if (w->forks == process_forks()) end_threads(w);
  mem_free(w, workers_bytes(w->capacity));
}

int workers_count(const Workers *w) { return w->count; }
int workers_asleep(Workers *w) { return atomic_load(&w->asleep); }

// Waits until a worker is no longer in a state.  More threads than CPUs: whoever is waited for may
// be waiting for our CPU.
static unsigned long long await_other(atomic_ullong *state, unsigned long long than) {
  for (int i = 0;; i++) {
    unsigned long long now = atomic_load(state);
    if (now != than) return now;
    if (i < SPINS)
      relax();
    else
      thread_yield();
  }
}

// Until all are done with the job, or, unless all must do it, all that have come.
static void finish(Workers *w, unsigned long long number, bool all) {
  bool late = false;
  for (int i = 1; i < w->count; i++) {
    atomic_ullong *state = &w->member[i].state;
    unsigned long long now = await_other(state, 2 * number + 1);
    while (all && now != 2 * number) now = await_other(state, now);
    late |= now != 2 * number;
  }
  if (!late) return;
  atomic_store(&w->open, 0);
  for (int i = 1; i < w->count; i++) (void)await_other(&w->member[i].state, 2 * number + 1);
}

static void run_job(Workers *w, WorkersFn *fn, void *ctx, bool all) {
  if (w->count == 1) {
    fn(ctx, 0, 1);
    return;
  }
  if (w->forks != process_forks()) start_threads(w, w->count);
  unsigned long long number = atomic_load_explicit(&w->generation, memory_order_relaxed) + 1;
  w->fn = fn;
  w->ctx = ctx;
  atomic_store_explicit(&w->open, number, memory_order_release);
  announce(w);
  fn(ctx, 0, w->count);
  finish(w, number, all);
}

void workers_run(Workers *w, WorkersFn *fn, void *ctx) { run_job(w, fn, ctx, true); }

void workers_share(Workers *w, WorkersFn *fn, void *ctx) { run_job(w, fn, ctx, false); }
