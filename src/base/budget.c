// budget.c -- the counters and limits of budget.h, and mem_alloc, which asks them.
#include "base/budget.h"

#include "base/platform.h"
#include "base/process.h"

#include <stdatomic.h>

enum { TRIM_FROM = 32 << 20 };

static atomic_int_least64_t used;   // bytes
static atomic_int_least64_t loose;  // freed since the last trim, of what has no pages of its own
static atomic_int_least64_t spent;  // by other processes, nanoseconds
static _Thread_local int64_t ceiling;
static _Thread_local int64_t limit;    // that the ceiling was made of, for the message
static _Thread_local int64_t until;    // of processor_time; 0: no limit
static _Thread_local int64_t allowed;  // seconds, for the message
static _Thread_local bool refused;
// What folding may still take; outside of a compilation as much as one without weights.
static _Thread_local int64_t fold_bytes = (int64_t)LIMIT_FOLD_MIB << 20;
static _Thread_local int64_t fold_ops = (int64_t)LIMIT_FOLD_MEGA_OPS * 1000000;

int64_t mem_used(void) { return atomic_load_explicit(&used, memory_order_relaxed); }

int64_t mem_ceiling(int64_t bytes) {
  int64_t was = ceiling;
  ceiling = bytes;
  if (!limit || !bytes) limit = bytes;  // a part of a limit is no other limit
  return was;
}

int64_t mem_left(void) { return ceiling ? MAX(ceiling - mem_used(), 0) : INT64_MAX; }

// Upper bounds of glibc's malloc: a head and a size in steps of 16; an aligned block is cut from
// one that is larger by the alignment and the smallest block, and small rests are hardly used
// again.
int64_t mem_taken(int64_t bytes) {
  enum { ALIGNED_FROM = 64, HEAD = 24, ALIGNED_HEAD = 128 };
  if (bytes >= platform->pages_from) return bytes;
  return bytes + (bytes < ALIGNED_FROM ? HEAD : ALIGNED_HEAD);
}

// One small block that is in use keeps the allocator from giving back all those below it, and a
// mapped block would come on top of them.
static void give_back(void) {
  if (atomic_load_explicit(&loose, memory_order_relaxed) < TRIM_FROM) return;
  atomic_store_explicit(&loose, 0, memory_order_relaxed);
  platform->trim();
}

void *mem_alloc(int64_t bytes) {
  if (bytes < 0) return NULL;
  if (ceiling && mem_taken(bytes) > mem_left()) {
    refused = true;
    return NULL;
  }
  if (ceiling && bytes >= platform->pages_from) give_back();
  void *p = platform->alloc(bytes);
  if (p) atomic_fetch_add_explicit(&used, mem_taken(bytes), memory_order_relaxed);
  return p;
}

void mem_free(void *p, int64_t bytes) {
  if (!p) return;
  atomic_fetch_sub_explicit(&used, mem_taken(bytes), memory_order_relaxed);
  if (bytes < platform->pages_from)
    atomic_fetch_add_explicit(&loose, mem_taken(bytes), memory_order_relaxed);
  platform->free(p, bytes);
}

// ---- processor time ----

static int64_t processor_time(void) {
  return thread_time() + atomic_load_explicit(&spent, memory_order_relaxed);
}

void budget_spend(int64_t nanoseconds) {
  atomic_fetch_add_explicit(&spent, nanoseconds, memory_order_relaxed);
}

void budget_check(void) {
  if (!until || processor_time() <= until) return;
  until = 0;  // what is released from here on takes what it takes
  trap_raise(TENON_ENOMEM, "compiling takes more than the limit of %lld s of processor time",
             (long long)allowed);
}

BudgetShare budget_share(void) {
  int64_t left = until ? MAX(until - processor_time(), 1) : 0;
  return (BudgetShare){ceiling, limit, left, allowed, at_work()};
}

void budget_take(BudgetShare s) {
  ceiling = s.ceiling;
  limit = s.limit;
  until = s.time_left ? processor_time() + s.time_left : 0;
  allowed = s.allowed;
  at_work_set(s.work);
}

// ---- limits for some work ----

// `base` and `each` times the weights.
static int64_t by_weights(int64_t base, int64_t each, int64_t weights) {
  int64_t more, most;
  return ck_mul(each, weights, &more) && ck_add(base, more, &most) ? most : INT64_MAX;
}

void budget_begin(Budget *b, int64_t bytes, int64_t seconds, int64_t weights) {
  int64_t most, now = processor_time();
  *b = (Budget){.was_ceiling = ceiling,
                .was_limit = limit,
                .was_until = until,
                .seconds = allowed,
                .fold_bytes = fold_bytes,
                .fold_ops = fold_ops};
  fold_bytes = by_weights((int64_t)LIMIT_FOLD_MIB << 20, 4, weights);
  fold_ops = by_weights((int64_t)LIMIT_FOLD_MEGA_OPS * 1000000, 64, weights);
  refused = false;
  if (bytes && ck_add(mem_used(), bytes, &most) && (!ceiling || most < ceiling))
    ceiling = most, limit = bytes;
  if (seconds && seconds < INT64_MAX / 2000000000) {
    int64_t end = now + seconds * 1000000000;
    if (!until || end < until) until = end, allowed = seconds;
  }
}

void budget_fold_left(int64_t *out_bytes, int64_t *out_ops) {
  *out_bytes = fold_bytes;
  *out_ops = fold_ops;
}

void budget_fold(int64_t bytes, int64_t ops) {
  fold_bytes = MAX(fold_bytes - bytes, 0);
  fold_ops = MAX(fold_ops - ops, 0);
}

int64_t budget_refused(void) {
  int64_t most = refused ? limit : 0;
  refused = false;
  return most;
}

void budget_end(Budget *b) {
  ceiling = b->was_ceiling;
  limit = b->was_limit;
  until = b->was_until;
  allowed = b->seconds;
  fold_bytes = b->fold_bytes;
  fold_ops = b->fold_ops;
  refused = false;
}
