// batch.c -- forming batches (batch.h).
#include "serve/kserve/batch.h"

int64_t batch_take(const BatchRules *r, const int64_t *row, int64_t n, int64_t waited) {
  int64_t fit = 0, rows = 0, preferred = 0;
  if (!n) return 0;
  while (fit < n && rows + row[fit] <= r->most) {
    rows += row[fit++];
    for (int i = 0; i < r->npreferred; i++)
      if (rows == r->preferred[i]) preferred = fit;
  }
  if (!fit) return 1;
  if (waited >= r->delay || rows == r->most) return fit;
  if (preferred) return preferred;
  return fit < n ? fit : 0;  // the next one does not fit: waiting adds nothing
}
