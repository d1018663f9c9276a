// workers.c -- the threads of a session.
//
// A job is announced by counting `generation` up; `open` holds the job's number until it is closed.  A worker that sees a number it
// has not served says that it is `busy`, and takes part if the job is still open; the caller closes the job and
// waits until nobody is busy.  So one that wakes late finds the job gone, and what it reads of a job is never of the next one.  All are spun on,
// each on its own cache line.  Before it sleeps, a worker says so in `asleep` under the lock and looks once more; who
// announces a job looks at `asleep` afterwards: so no wake is lost.
//
// Workers that take all the CPUs that the process may use are pinned, each to its own, so that caches stay warm; the caller is
// not.  Fewer are left to the system: several sessions, or processes, would else share the first CPUs while others idle.
#include "runtime/workers.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_WORKERS = 256, LINE = 64, SPINS = 20000 };

typedef struct Member {
  Workers *all;
  int index;
  void *thread;
} Member;

struct Workers {
  _Alignas(LINE) atomic_ullong generation;  // 64 bits: a number never comes again
  _Alignas(LINE) atomic_ullong open;        // number of the job, 0: none
  _Alignas(LINE) atomic_int busy;
  _Alignas(LINE) atomic_int left;  // of a job that every thread must do
  _Alignas(LINE) atomic_int asleep;
  WorkersFn *fn;
  void *ctx;
  atomic_bool quit;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  int count, capacity;
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
    atomic_fetch_add(&w->busy, 1);
    if (atomic_load(&w->open) == seen) {
      w->fn(w->ctx, m->index, w->count);
      atomic_fetch_sub(&w->left, 1);
    }
    atomic_fetch_sub(&w->busy, 1);
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

Workers *workers_create(int nthreads) {
  if (nthreads <= 0) nthreads = machine_threads();
  int capacity = MIN(nthreads, MAX_WORKERS);
  Workers *w = mem_alloc(workers_bytes(capacity));
  if (!w) return NULL;
  w->capacity = capacity;
  w->pinned = capacity == machine_cpus();
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->wake, NULL);
  // `count` is read by workers only once a job is announced.
  int n = 1;
  for (; n < capacity; n++) {
    w->member[n] = (Member){.all = w, .index = n};
    if (platform->thread_start(serve, &w->member[n], &w->member[n].thread)) break;
  }
  w->count = n;
  return w;
}

void workers_free(Workers *w) {
  if (!w) return;
  atomic_store(&w->quit, true);
  announce(w);
  for (int i = 1; i < w->count; i++) platform->thread_join(w->member[i].thread);
  pthread_cond_destroy(&w->wake);
  pthread_mutex_destroy(&w->lock);
  mem_free(w, workers_bytes(w->capacity));
}

int workers_count(const Workers *w) { return w->count; }
int workers_asleep(Workers *w) { return atomic_load(&w->asleep); }

// More threads than CPUs: whoever is waited for may be waiting for our CPU.
static void await_zero(atomic_int *n) {
  for (int i = 0; atomic_load_explicit(n, memory_order_acquire) > 0; i++)
    if (i < SPINS)
      relax();
    else
      thread_yield();
}

static void run_job(Workers *w, WorkersFn *fn, void *ctx, bool all) {
  if (w->count == 1) {
    fn(ctx, 0, 1);
    return;
  }
  unsigned long long number = atomic_load(&w->generation) + 1;
  w->fn = fn;
  w->ctx = ctx;
  atomic_store(&w->left, w->count - 1);
  atomic_store(&w->open, number);
  announce(w);
  fn(ctx, 0, w->count);
  if (all) await_zero(&w->left);
  atomic_store(&w->open, 0);
  await_zero(&w->busy);
}

void workers_run(Workers *w, WorkersFn *fn, void *ctx) { run_job(w, fn, ctx, true); }

void workers_share(Workers *w, WorkersFn *fn, void *ctx) { run_job(w, fn, ctx, false); }
