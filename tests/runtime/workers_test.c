// workers_test.c -- the threads of a session: every piece of work once, and every thread when all
// must come.
#include "runtime/workers.h"
#include "test.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 200, ROUNDS = 3000 };

typedef struct Shared {
  atomic_int next;
  int n, done[MOST];
} Shared;

static void take(void *ctx, int thread, int nthreads) {
  Shared *s = ctx;
  (void)thread, (void)nthreads;
  for (int i; (i = atomic_fetch_add(&s->next, 1)) < s->n;) s->done[i]++;
}

static void count(void *ctx, int thread, int nthreads) {
  (void)thread, (void)nthreads;
  atomic_fetch_add((atomic_int *)ctx, 1);
}

TEST(workers_do_all_work_once) {
  for (int threads = 1; threads <= 5; threads++) {
    Workers *w = workers_create(threads);
    EXPECT(w != NULL);
    for (int r = 0; r < ROUNDS; r++) {
      Shared s = {.n = 1 + r % MOST};
      workers_share(w, take, &s);
      for (int i = 0; i < s.n; i++)
        if (s.done[i] != 1) FAIL("piece %d was done %d times", i, s.done[i]);
    }
    atomic_int calls = 0;
    workers_run(w, count, &calls);
    EXPECT_INT_EQ(atomic_load(&calls), workers_count(w));
    workers_free(w);
  }
}

// Soon after the last job all but the caller sleep, and come back for the next one.
TEST(idle_workers_sleep) {
  Workers *w = workers_create(3);
  EXPECT(w != NULL);
  for (int r = 0; r < 3; r++) {
    atomic_int calls = 0;
    workers_run(w, count, &calls);
    EXPECT_INT_EQ(atomic_load(&calls), workers_count(w));
    int64_t deadline = platform->now() + 20 * (int64_t)1000000000;
    while (workers_asleep(w) < workers_count(w) - 1 && platform->now() < deadline) thread_yield();
    EXPECT_INT_EQ(workers_asleep(w), workers_count(w) - 1);
  }
  workers_free(w);
}

static int in_child(Workers *w, Pool *p, bool (*work)(Workers *, Pool *)) {
  int status = -1;
  pid_t pid = fork();
  if (!pid) {
    alarm(60);
    _exit(work(w, p) ? 0 : 1);
  }
  return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static void add_up(void *ctx, int64_t begin, int64_t end) {
  atomic_fetch_add((atomic_int *)ctx, (int)(end - begin));
}

static bool free_only(Workers *w, Pool *p) {
  workers_free(w);
  pool_release(p);
  return true;
}

static bool run_and_free(Workers *w, Pool *p) {
  bool ok = true;
  for (int r = 0; r < 100; r++) {
    atomic_int calls = 0, sum = 0;
    workers_run(w, count, &calls);
    parallel_for(p, MOST, 1, add_up, &sum);
    ok = ok && atomic_load(&calls) == workers_count(w) && atomic_load(&sum) == MOST;
  }
  return free_only(w, p) && ok;
}

// A child has none of the threads, neither sleeping ones nor those that spin: it runs with its own,
// and waits for nobody.
TEST(threads_in_a_forked_process) {
  Workers *w = workers_create(4);
  Pool *p = pool_create(4);
  EXPECT(w != NULL && p != NULL);
  for (int r = 0; r < 4; r++) {
    atomic_int calls = 0, sum = 0;
    workers_run(w, count, &calls);
    parallel_for(p, MOST, 1, add_up, &sum);
    EXPECT_INT_EQ(atomic_load(&calls), workers_count(w));
    EXPECT_INT_EQ(atomic_load(&sum), MOST);
    while (r > 1 && workers_asleep(w) < workers_count(w) - 1) thread_yield();
    EXPECT_INT_EQ(in_child(w, p, free_only), 0);
    EXPECT_INT_EQ(in_child(w, p, run_and_free), 0);
  }
  workers_free(w);
  pool_release(p);
}
