// budget_test.c -- ceilings of memory, limits of processor time, and the sums of folding
// (base/budget.h).
#include "base/budget.h"
#include "base/limits.h"
#include "base/platform.h"
#include "test.h"

#include <pthread.h>

enum { MIB = 1 << 20 };

// ---- memory ----

TEST(budget_counts_what_is_held) {
  int64_t before = mem_used();
  void *p = mem_alloc(3 * MIB), *q = mem_alloc(0);
  EXPECT(p != NULL);
  EXPECT_INT_EQ(mem_used() - before, 3 * MIB);
  EXPECT(mem_alloc(-1) == NULL);
  EXPECT_INT_EQ(mem_used() - before, 3 * MIB);
  mem_free(NULL, MIB);
  mem_free(p, 3 * MIB);
  mem_free(q, 0);
  EXPECT_INT_EQ(mem_used(), before);
}

TEST(budget_ceiling_refuses) {
  int64_t was = mem_ceiling(mem_used() + MIB);
  EXPECT_INT_EQ(mem_left(), MIB);
  EXPECT(mem_alloc(MIB + 1) == NULL);
  void *p = mem_alloc(MIB);
  EXPECT(p != NULL);
  EXPECT_INT_EQ(mem_left(), 0);
  EXPECT(mem_alloc(1) == NULL);
  mem_free(p, MIB);
  EXPECT_INT_EQ(mem_left(), MIB);
  EXPECT(mem_ceiling(was) > 0);
  if (!was) EXPECT_INT_EQ(mem_left(), INT64_MAX);
}

// A ceiling belongs to one thread, and is handed to others that do a part of its work.
typedef struct Other {
  BudgetShare share;
  bool alone, shared;
} Other;
static void *other_thread(void *ctx) {
  Other *o = ctx;
  void *p = mem_alloc(2 * MIB);
  o->alone = p != NULL;
  mem_free(p, 2 * MIB);
  budget_take(o->share);
  p = mem_alloc(2 * MIB);
  o->shared = p != NULL;
  mem_free(p, 2 * MIB);
  return NULL;
}
TEST(budget_is_of_a_thread) {
  pthread_t t;
  int64_t was = mem_ceiling(mem_used() + MIB);
  Other o = {.share = budget_share()};
  REQUIRE(!pthread_create(&t, NULL, other_thread, &o));
  pthread_join(t, NULL);
  EXPECT(o.alone);
  EXPECT(!o.shared);
  mem_ceiling(was);
}

// Work within work: the smaller limit holds, and the larger again behind it.
TEST(budget_nests) {
  Budget outer, inner, wider;
  Diag d;
  diag_init(&d);
  int64_t was = mem_left();
  budget_begin(&outer, 8 * MIB, 0, 0);
  EXPECT_INT_EQ(mem_left(), 8 * MIB);
  budget_begin(&inner, 2 * MIB, 0, 0);
  EXPECT_INT_EQ(mem_left(), 2 * MIB);
  budget_begin(&wider, 64 * MIB, 0, 0);
  EXPECT_INT_EQ(mem_left(), 2 * MIB);
  EXPECT_STATUS(budget_end(&wider, TENON_OK, &d), TENON_OK);
  EXPECT_STATUS(budget_end(&inner, TENON_EIO, &d), TENON_EIO);
  EXPECT_INT_EQ(mem_left(), 8 * MIB);
  EXPECT_STATUS(budget_end(&outer, TENON_OK, &d), TENON_OK);
  EXPECT_INT_EQ(mem_left(), was);
}

// The message has the limit that was asked for, not what the process held besides; and the node.
TEST(budget_explains_what_was_refused) {
  Budget b;
  Diag d;
  void *held = mem_alloc(5 * MIB);
  for (int refused = 0; refused < 2; refused++) {
    diag_init(&d);
    budget_begin(&b, 3 * MIB, 0, 0);
    budget_subject("conv_7");
    if (refused) EXPECT(mem_alloc(4 * MIB) == NULL);
    tenon_status s = fail(&d, TENON_ENOMEM, NOWHERE, "out of memory");
    EXPECT_STATUS(budget_end(&b, s, &d), TENON_ENOMEM);
    if (refused) {
      EXPECT_CONTAINS(d.text, "limit of 3 MiB");
      EXPECT_CONTAINS(d.text, "conv_7");
    } else {
      EXPECT_CONTAINS(d.text, "out of memory");
    }
  }
  mem_free(held, 5 * MIB);
}

// ---- processor time ----

// Whether budget_check raises.
static tenon_status check_raises(Diag *d) {
  Trap t;
  diag_init(d);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) budget_check();
  trap_leave(&t);
  return t.status;
}

TEST(budget_ends_with_processor_time) {
  enum { SECONDS = 100000 };
  const int64_t second = 1000000000;
  Budget outer, inner;
  Diag d;
  EXPECT_STATUS(check_raises(&d), TENON_OK);
  budget_begin(&outer, 0, 2 * SECONDS, 0);
  budget_begin(&inner, 0, SECONDS, 0);
  budget_subject("loop_3");
  EXPECT_STATUS(check_raises(&d), TENON_OK);
  budget_spend(SECONDS * second);  // as another process would have
  EXPECT_STATUS(check_raises(&d), TENON_ENOMEM);
  EXPECT_CONTAINS(d.text, "limit of 100000 s");
  EXPECT_CONTAINS(d.text, "loop_3");
  EXPECT_STATUS(check_raises(&d), TENON_OK);  // what cleans up takes what it takes
  EXPECT_STATUS(budget_end(&inner, TENON_OK, &d), TENON_OK);
  EXPECT_STATUS(check_raises(&d), TENON_OK);
  budget_spend(SECONDS * second);
  EXPECT_STATUS(check_raises(&d), TENON_ENOMEM);
  EXPECT_CONTAINS(d.text, "limit of 200000 s");
  EXPECT_STATUS(budget_end(&outer, TENON_OK, &d), TENON_OK);
  EXPECT_STATUS(check_raises(&d), TENON_OK);
}

// ---- folding ----

TEST(budget_of_folding) {
  Budget b;
  Diag d;
  int64_t bytes, ops, was_bytes, was_ops;
  diag_init(&d);
  budget_fold_left(&was_bytes, &was_ops);
  budget_begin(&b, 0, 0, 1000);
  budget_fold_left(&bytes, &ops);
  EXPECT_INT_EQ(bytes, ((int64_t)LIMIT_FOLD_MIB << 20) + 4000);
  EXPECT_INT_EQ(ops, (int64_t)LIMIT_FOLD_MEGA_OPS * 1000000 + 64000);
  budget_fold(4000, 64000);
  budget_fold_left(&bytes, &ops);
  EXPECT_INT_EQ(bytes, (int64_t)LIMIT_FOLD_MIB << 20);
  EXPECT_INT_EQ(ops, (int64_t)LIMIT_FOLD_MEGA_OPS * 1000000);
  budget_fold(INT64_MAX, INT64_MAX);
  budget_fold_left(&bytes, &ops);
  EXPECT_INT_EQ(bytes, 0);
  EXPECT_INT_EQ(ops, 0);
  EXPECT_STATUS(budget_end(&b, TENON_OK, &d), TENON_OK);
  budget_fold_left(&bytes, &ops);
  EXPECT_INT_EQ(bytes, was_bytes);
  EXPECT_INT_EQ(ops, was_ops);
  budget_begin(&b, 0, 0, INT64_MAX);  // no weights are too many to count
  budget_fold_left(&bytes, &ops);
  EXPECT_INT_EQ(bytes, INT64_MAX);
  EXPECT_INT_EQ(ops, INT64_MAX);
  EXPECT_STATUS(budget_end(&b, TENON_OK, &d), TENON_OK);
}
