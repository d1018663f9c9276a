// pool.c -- the thread pool behind parallel_for.
//
// Pieces are taken from a counter, so they begin in order.  A piece that raises stops the counter;
// every piece before it has begun by then and is let finish, and of several that raised the lowest
// is reported: so the error is the same for any number of threads.  A worker that wakes late finds
// the job gone and sleeps on; the caller waits only for those that joined.
//
// The caller's limits and what it is at work on hold in the workers as well.
//
// In a forked process the threads are not there: the caller does it all, and nothing is waited for
// when the pool goes.
//
// Guarantees: pieces have the same bounds for any number of threads; the caller's thread takes
//             part.
#include "base/budget.h"
#include "base/platform.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_THREADS = 1024 };

typedef struct Job {
  PoolFn *fn;
  void *ctx;
  int64_t n, grain;
  atomic_int_least64_t next;  // piece to be taken
  atomic_bool stop;
  BudgetShare budget;  // the caller's
} Job;

// One per thread, the caller's at 0.  Large (a Diag), so not on anybody's stack.
typedef struct Worker {
  Pool *pool;
  void *thread;
  Diag diag;
} Worker;

struct Pool {
  pthread_mutex_t caller;  // held by the thread whose job is running
  pthread_mutex_t lock;    // all below
  pthread_cond_t work, done;
  Job *job;             // NULL: none open
  uint64_t generation;  // counts jobs
  int busy;             // workers inside the job
  bool quit;
  int64_t failed_piece;  // lowest that raised; -1 = none
  tenon_status failed_status;
  const Diag *failed_diag;
  int nthreads, capacity;  // workers[0 .. nthreads) are running
  int forks;               // of the process that has them
  Worker workers[];
};

// Inside a piece: calls from there run serially.
static _Thread_local bool inside;

static void note_failure(Worker *w, int64_t piece, tenon_status status) {
  Pool *p = w->pool;
  pthread_mutex_lock(&p->lock);
  if (p->failed_piece < 0 || piece < p->failed_piece) {
    p->failed_piece = piece;
    p->failed_status = status;
    p->failed_diag = &w->diag;
  }
  pthread_mutex_unlock(&p->lock);
}

// Takes pieces until none is left.  `piece` is volatile: it is read after a longjmp.
static void work_on(Worker *w, Job *job) {
  volatile int64_t piece = 0;
  Trap t;
  diag_init(&w->diag);
  trap_enter(&t, &w->diag);
  if (w != w->pool->workers) budget_take(job->budget);
  inside = true;
  if (setjmp(t.env) == 0) {
    // `stop` is read before a piece is taken and never after: a piece taken is a piece run.
    while (!atomic_load(&job->stop)) {
      piece = atomic_fetch_add(&job->next, 1);
      if (piece > (job->n - 1) / job->grain) break;
      int64_t begin = piece * job->grain;
      job->fn(job->ctx, begin, begin + MIN(job->grain, job->n - begin));
    }
  }
  inside = false;
  if (w != w->pool->workers) budget_take((BudgetShare){0});
  trap_leave(&t);
  if (t.status) {
    atomic_store(&job->stop, true);
    note_failure(w, piece, t.status);
  }
}

static void *worker_main(void *arg) {
  Worker *w = arg;
  Pool *p = w->pool;
  uint64_t seen = 0;
  pthread_mutex_lock(&p->lock);
  while (!p->quit) {
    if (!p->job || p->generation == seen) {
      pthread_cond_wait(&p->work, &p->lock);
      continue;
    }
    Job *job = p->job;
    seen = p->generation;
    p->busy++;
    pthread_mutex_unlock(&p->lock);
    work_on(w, job);
    pthread_mutex_lock(&p->lock);
    if (--p->busy == 0) pthread_cond_signal(&p->done);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

static int64_t pool_bytes(int capacity) {
  return (int64_t)sizeof(Pool) + capacity * (int64_t)sizeof(Worker);
}

Pool *pool_create(int nthreads) {
  if (nthreads <= 0) nthreads = machine_threads();
  int capacity = MIN(nthreads, MAX_THREADS);
  Pool *p = mem_alloc(pool_bytes(capacity));
  if (!p) return NULL;
  pthread_mutex_init(&p->caller, NULL);
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->work, NULL);
  pthread_cond_init(&p->done, NULL);
  p->capacity = capacity;
  p->forks = process_forks();
  p->workers[0].pool = p;
  int n = 1;
  for (; n < capacity; n++) {
    Worker *w = &p->workers[n];
    w->pool = p;
    if (platform->thread_start(worker_main, w, &w->thread)) break;
  }
  p->nthreads = n;
  return p;
}

static void end_threads(Pool *p) {
  pthread_mutex_lock(&p->lock);
  p->quit = true;
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
  for (int i = 1; i < p->nthreads; i++) platform->thread_join(p->workers[i].thread);
  pthread_cond_destroy(&p->done);
  pthread_cond_destroy(&p->work);
  pthread_mutex_destroy(&p->lock);
  pthread_mutex_destroy(&p->caller);
}

void pool_release(Pool *p) {
  if (!p) return;
  if (p->forks == process_forks()) end_threads(p);
  mem_free(p, pool_bytes(p->capacity));
}

int pool_threads(const Pool *p) { return p ? p->nthreads : 1; }

static void run_serially(int64_t n, int64_t grain, PoolFn *fn, void *ctx) {
  for (int64_t begin = 0; begin < n;) {
    int64_t end = begin + MIN(grain, n - begin);
    fn(ctx, begin, end);
    begin = end;
  }
}

void parallel_for(Pool *p, int64_t n, int64_t grain, PoolFn *fn, void *ctx) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (!p || p->nthreads == 1 || inside || n <= grain || p->forks != process_forks() ||
      pthread_mutex_trylock(&p->caller)) {
    run_serially(n, grain, fn, ctx);
    return;
  }
  Job job = {.fn = fn, .ctx = ctx, .n = n, .grain = grain, .budget = budget_share()};
  pthread_mutex_lock(&p->lock);
  p->failed_piece = -1;
  p->generation++;
  p->job = &job;
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
  work_on(&p->workers[0], &job);
  pthread_mutex_lock(&p->lock);
  p->job = NULL;
  while (p->busy) pthread_cond_wait(&p->done, &p->lock);
  bool failed = p->failed_piece >= 0;
  tenon_status status = p->failed_status;
  // The next job may write over the message, so it is copied before the pool is let go.
  char text[1024];
  text[0] = 0;
  if (failed) {
    size_t len = (size_t)MIN(p->failed_diag->len, (int64_t)sizeof(text) - 1);
    memcpy(text, p->failed_diag->text, len);
    text[len] = 0;
  }
  pthread_mutex_unlock(&p->lock);
  pthread_mutex_unlock(&p->caller);
  if (failed) trap_again(status, text);
}
