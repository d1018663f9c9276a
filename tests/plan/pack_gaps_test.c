// pack_gaps_test.c -- packing by itself: gaps that meet become one, and how close to the bound
// random buffers are packed.
#include "plan/impl.h"
#include "test.h"

// A gap that is given back joins what is free below and above it, the open end included.
TEST(gaps_that_meet_become_one) {
  Arena a;
  GapTree t;
  arena_init(&a);
  gaptree_init(&t, &a, 16);
  EXPECT_INT_EQ(gaptree_take(&t, 64), 0);
  EXPECT_INT_EQ(gaptree_take(&t, 64), 64);
  EXPECT_INT_EQ(gaptree_take(&t, 0), 0);
  gaptree_give(&t, 64, 64);  // meets the open end
  EXPECT_INT_EQ(gaptree_take(&t, 128), 64);
  EXPECT_INT_EQ(gaptree_take(&t, 64), 192);
  EXPECT_INT_EQ(gaptree_take(&t, 64), 256);
  gaptree_give(&t, 0, 64);
  gaptree_give(&t, 192, 64);
  gaptree_give(&t, 64, 128);  // between two gaps
  EXPECT_INT_EQ(gaptree_take(&t, 320), 320);
  EXPECT_INT_EQ(gaptree_take(&t, 256), 0);
  gaptree_give(&t, 256, 64);
  EXPECT_INT_EQ(gaptree_take(&t, 64), 256);
  arena_deinit(&a);
}

static uint64_t rng;
static int64_t draw(int64_t n) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (int64_t)((rng >> 33) % (uint64_t)n);
}

// Packs `n` buffers of random lives and sizes; what the arena takes above the bound, in lines of
// PLAN_ALIGN.
static int64_t lines_above_bound(Arena *a, int32_t n, uint64_t seed) {
  MemPlan p = {.arena = a, .n = n, .nsteps = n};
  p.buffer = arena_array(a, PlanBuffer, n);
  int64_t *live = arena_array(a, int64_t, n + 1);
  rng = seed;
  for (int32_t b = 0; b < n; b++) {
    PlanBuffer *x = &p.buffer[b];
    int32_t lives = 1 + (int32_t)draw(draw(4) ? 4 : n), last = MIN(b + lives, n);
    *x = (PlanBuffer){.root = b, .within = -1, .first = b, .last = last, .live_first = b};
    x->live_last = last;
    x->size = PLAN_ALIGN * (1 + draw(draw(3) ? 8 : 40));
    for (int32_t s = b; s <= last; s++) live[s] += x->size;
  }
  for (int32_t s = 0; s <= n; s++) p.bound_bytes = MAX(p.bound_bytes, live[s]);
  plan_pack(&p);
  for (int32_t i = 0; i < n; i++)
    for (int32_t k = 0; k < i; k++) {
      const PlanBuffer *x = &p.buffer[i], *y = &p.buffer[k];
      if (x->live_first > y->live_last || y->live_first > x->live_last) continue;
      EXPECT(x->offset + x->size <= y->offset || y->offset + y->size <= x->offset);
    }
  EXPECT(p.arena_bytes >= p.bound_bytes);
  return (p.arena_bytes - p.bound_bytes) / PLAN_ALIGN;
}

// Every sequence that packing tries is worth it: without one of them the sum grows.  A better
// packing may lower the numbers.
TEST(packing_comes_close_to_the_bound) {
  static const struct {
    int32_t nbuffers;
    int64_t most;  // lines above the bound, of 40 packings
  } row[] = {{12, 1}, {40, 2}, {120, 100}};
  Arena a;
  arena_init(&a);
  for (int i = 0; i < ARRAY_LEN(row); i++) {
    int64_t sum = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) sum += lines_above_bound(&a, row[i].nbuffers, seed);
    if (sum > row[i].most)
      FAIL("%d buffers: %lld lines above the bound, were %lld", (int)row[i].nbuffers,
           (long long)sum, (long long)row[i].most);
  }
  arena_deinit(&a);
}
