// workers_test.c -- the threads of a session: every piece of work once, and every thread when all must come.
#include "runtime/workers.h"
#include "test.h"

#include <stdatomic.h>

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
