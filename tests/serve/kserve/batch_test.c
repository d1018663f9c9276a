// batch_test.c -- forming batches: each case by hand, and rules that hold for any queue.
#include "serve/kserve/batch.h"

#include "test.h"

TEST(serve_batch_cases) {
  static const struct {
    BatchRules rules;
    int64_t row[6], n, waited, want;
  } c[] = {
      {{.most = 1}, {1, 1}, 2, 0, 1},
      {{.most = 1}, {5, 1}, 2, 0, 1},  // larger than a batch: alone
      {{.most = 8}, {1, 2, 3}, 3, 0, 3},
      {{.most = 8}, {0}, 0, 0, 0},
      {{.most = 4}, {1, 2, 3}, 3, 0, 2},
      {{.most = 4, .delay = 10}, {1, 2}, 2, 5, 0},
      {{.most = 4, .delay = 10}, {1, 2}, 2, 10, 2},
      {{.most = 4, .delay = 10}, {1, 2, 1}, 3, 5, 3},
      {{.most = 4, .delay = 10}, {1, 2, 3}, 3, 5, 2},  // the third cannot come along
      {{.most = 4, .delay = 10}, {9, 1}, 2, 0, 1},
      {{.most = 8, .delay = 10, .npreferred = 1, .preferred = {4}}, {1, 1, 1}, 3, 5, 0},
      {{.most = 8, .delay = 10, .npreferred = 1, .preferred = {4}}, {1, 1, 1, 1, 1}, 5, 5, 4},
      {{.most = 8, .delay = 10, .npreferred = 2, .preferred = {2, 4}}, {2, 1, 1, 1}, 4, 5, 3},
      {{.most = 8, .delay = 10, .npreferred = 1, .preferred = {4}}, {1, 1, 1}, 3, 10, 3},
  };
  for (int64_t i = 0; i < ARRAY_LEN(c); i++)
    EXPECT_INT_EQ(batch_take(&c[i].rules, c[i].row, c[i].n, c[i].waited), c[i].want);
}

// Any rules and queue: what is taken fits, nothing waits beyond the delay, and a full batch never
// waits.
TEST(serve_batch_rules) {
  uint64_t random = 1;
  for (int i = 0; i < 20000; i++) {
    random = hash_u64(random + 1);
    BatchRules r = {.most = 1 + (int64_t)(random % 9), .delay = (int64_t)(random >> 8 & 3)};
    if (random >> 16 & 1) r.preferred[r.npreferred++] = 1 + (int64_t)(random >> 20) % r.most;
    int64_t row[8], n = (int64_t)(random >> 32 & 7), waited = (int64_t)(random >> 40 & 3), rows = 0;
    for (int k = 0; k < 8; k++) row[k] = 1 + (int64_t)((random = hash_u64(random)) % 4);
    int64_t take = batch_take(&r, row, n, waited), all = 0;
    EXPECT(take >= 0 && take <= n);
    for (int64_t k = 0; k < take; k++) rows += row[k];
    for (int64_t k = 0; k < n; k++) all += row[k];
    EXPECT(take <= 1 || rows <= r.most);
    EXPECT(!n || take || (waited < r.delay && all < r.most));
  }
}
