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
  int64_t taken = mem_taken(3 * MIB) + mem_taken(0);
  EXPECT_INT_EQ(mem_used() - before, taken);
  EXPECT(mem_alloc(-1) == NULL);
  EXPECT_INT_EQ(mem_used() - before, taken);
  mem_free(NULL, MIB);
  mem_free(p, 3 * MIB);
  mem_free(q, 0);
  EXPECT_INT_EQ(mem_used(), before);
}

TEST(budget_ceiling_refuses) {
  int64_t most = mem_taken(MIB), was = mem_ceiling(mem_used() + most);
  EXPECT_INT_EQ(mem_left(), most);
  EXPECT(mem_alloc(MIB + 1) == NULL);
  void *p = mem_alloc(MIB);
  EXPECT(p != NULL);
  EXPECT_INT_EQ(mem_left(), 0);
  EXPECT(mem_alloc(1) == NULL);
  mem_free(p, MIB);
  EXPECT_INT_EQ(mem_left(), most);
  EXPECT(mem_ceiling(was) > 0);
  if (!was) EXPECT_INT_EQ(mem_left(), INT64_MAX);
}

// Small blocks count with what the allocator adds: a million of one byte hold more than a megabyte.
TEST(budget_counts_the_overhead_of_small_blocks) {
  enum { BLOCKS = 1000, EACH = 64 };
  static void *block[BLOCKS];
  int64_t before = mem_used(), was = mem_ceiling(before + BLOCKS * EACH), n = 0;
  while (n < BLOCKS && (block[n] = mem_alloc(EACH))) n++;
  EXPECT(n > 0 && n < BLOCKS / 2);
  EXPECT_INT_EQ(mem_used() - before, n * mem_taken(EACH));
  while (n) mem_free(block[--n], EACH);
  EXPECT_INT_EQ(mem_used(), before);
  for (int64_t bytes = 0; bytes < 4096; bytes++) EXPECT(mem_taken(bytes) >= bytes + 16);
  EXPECT_INT_EQ(mem_taken(platform->pages_from), platform->pages_from);
  mem_ceiling(was);
}

// What was freed in small blocks goes back to the system before a mapped block is added.
static int ntrims;
static void count_trim(void) { ntrims++; }
TEST(budget_gives_free_memory_back) {
  static Platform table;
  int64_t was = mem_ceiling(mem_used() + (int64_t)512 * MIB);
  int64_t large = platform->pages_from, small = large - 1;
  table = *platform;
  table.trim = count_trim;
  platform = &table;
  mem_free(mem_alloc(large), large);
  ntrims = 0;
  mem_free(mem_alloc(large), large);
  EXPECT_INT_EQ(ntrims, 0);
  for (int64_t freed = 0; freed < 64 * MIB; freed += small) mem_free(mem_alloc(small), small);
  EXPECT_INT_EQ(ntrims, 0);
  mem_free(mem_alloc(large), large);
  EXPECT_INT_EQ(ntrims, 1);
  mem_free(mem_alloc(large), large);
  EXPECT_INT_EQ(ntrims, 1);
  platform = &platform_posix;
  mem_ceiling(was);
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
  budget_end(&wider);
  budget_end(&inner);
  EXPECT_INT_EQ(mem_left(), 8 * MIB);
  budget_end(&outer);
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
    at_work_node("conv_7");
    if (refused) EXPECT(mem_alloc(4 * MIB) == NULL);
    EXPECT_STATUS(fail(&d, TENON_ENOMEM, NOWHERE, "no room"), TENON_ENOMEM);
    EXPECT_STR_EQ(d.text, refused ? "node 'conv_7': no room within the memory limit of 3 MiB "
                                    "(--max-memory sets another)"
                                  : "node 'conv_7': no room");
    at_work_set((AtWork){0});
    budget_end(&b);
  }
  mem_free(held, 5 * MIB);
}

// What is at work is named where the message names nothing itself; its own node and the Diag's come
// first.
TEST(budget_names_what_is_at_work) {
  Diag d;
  diag_init(&d);
  at_work_part("reading", "initializer", 12);
  fail(&d, TENON_ENOMEM, NOWHERE, "a");
  at_work_part("pass", "fold-constants", -1);
  fail(&d, TENON_ENOMEM, NOWHERE, "b");
  at_work_node("add");
  fail(&d, TENON_ENOMEM, NOWHERE, "c");
  fail(&d, TENON_EINVAL, NOWHERE, "d");
  fail(&d, TENON_ENOMEM, (Where){.node = "own"}, "e");
  d.base.node = "base";
  fail(&d, TENON_ENOMEM, NOWHERE, "f");
  at_work_set((AtWork){0});
  EXPECT_STR_EQ(d.text, "reading initializer 12: a\npass fold-constants: b\nnode 'add': c\nd\n"
                        "node 'own': e\nnode 'base': f");
}

// A name is copied, cut before a character that does not fit; that of a step is not.
TEST(budget_copies_the_name_at_work) {
  enum { ROOM = (int)sizeof((AtWork){0}.node) - 1 };
  char name[ROOM + 3];
  memset(name, 'a', sizeof name);
  name[ROOM - 1] = (char)0xC3, name[ROOM] = (char)0xA9, name[ROOM + 2] = 0;  // an e with an accent
  at_work_node(name);
  memset(name, 'b', ROOM);
  EXPECT_INT_EQ((int64_t)strlen(at_work_name()), ROOM - 1);
  EXPECT_INT_EQ((int64_t)strspn(at_work_name(), "a"), ROOM - 1);
  at_work_step(name);
  EXPECT(at_work_name() == name);
  at_work_node("short");
  EXPECT_STR_EQ(at_work_name(), "short");
  at_work_node(NULL);
  EXPECT_STR_EQ(at_work_name(), "");
  at_work_set((AtWork){0});
}

// A trap puts back what was at work outside of it, so no name outlives what owns it.
TEST(budget_traps_restore_what_is_at_work) {
  Trap outer, inner;
  Diag d;
  diag_init(&d);
  at_work_node("outside");
  trap_enter(&outer, &d);
  if (setjmp(outer.env) == 0) {
    at_work_node("between");
    trap_enter(&inner, &d);
    if (setjmp(inner.env) == 0) {
      at_work_node("inside");
      trap_raise(TENON_ENOMEM, "no room");
    }
    trap_leave(&inner);
    EXPECT_STR_EQ(at_work_name(), "between");
    trap_again(inner.status, d.text);
  }
  trap_leave(&outer);
  EXPECT_STR_EQ(at_work_name(), "outside");
  EXPECT_STATUS(outer.status, TENON_ENOMEM);
  EXPECT_STR_EQ(d.text, "node 'inside': no room");
  at_work_set((AtWork){0});
}

// Threads of a pool keep the caller's limit, and name what it is at work on.
static void take_much(void *ctx, int64_t begin, int64_t end) {
  (void)ctx, (void)end;
  for (volatile int spin = 0; begin == 0 && spin < 10000000; spin++) {}
  Arena a;
  arena_init_scoped(&a);
  if (begin) arena_alloc(&a, 4 * MIB);
  arena_deinit(&a);
}
TEST(budget_holds_in_a_pool) {
  Budget b;
  Diag d;
  Trap t;
  diag_init(&d);
  Pool *pool = pool_create(4);
  budget_begin(&b, 3 * MIB, 0, 0);
  trap_enter(&t, &d);
  at_work_node("conv_7");
  if (setjmp(t.env) == 0) parallel_for(pool, 64, 1, take_much, NULL);
  trap_leave(&t);
  budget_end(&b);
  pool_release(pool);
  EXPECT_STATUS(t.status, TENON_ENOMEM);
  EXPECT_CONTAINS(d.text, "node 'conv_7': ");
  EXPECT_CONTAINS(d.text, "memory limit of 3 MiB");
  EXPECT(strstr(d.text, "node") == strstr(strstr(d.text, "node"), "node"));
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
  at_work_node("loop_3");
  EXPECT_STATUS(check_raises(&d), TENON_OK);
  budget_spend(SECONDS * second);  // as another process would have
  EXPECT_STATUS(check_raises(&d), TENON_ENOMEM);
  EXPECT_CONTAINS(d.text, "limit of 100000 s");
  EXPECT_CONTAINS(d.text, "loop_3");
  at_work_set((AtWork){0});
  EXPECT_STATUS(check_raises(&d), TENON_OK);  // what cleans up takes what it takes
  budget_end(&inner);
  EXPECT_STATUS(check_raises(&d), TENON_OK);
  budget_spend(SECONDS * second);
  EXPECT_STATUS(check_raises(&d), TENON_ENOMEM);
  EXPECT_CONTAINS(d.text, "limit of 200000 s");
  budget_end(&outer);
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
  budget_end(&b);
  budget_fold_left(&bytes, &ops);
  EXPECT_INT_EQ(bytes, was_bytes);
  EXPECT_INT_EQ(ops, was_ops);
  budget_begin(&b, 0, 0, INT64_MAX);  // no weights are too many to count
  budget_fold_left(&bytes, &ops);
  EXPECT_INT_EQ(bytes, INT64_MAX);
  EXPECT_INT_EQ(ops, INT64_MAX);
  budget_end(&b);
}
