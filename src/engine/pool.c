// pool.c -- one vector of a text: the mean of its rows' hidden states, one of them, or scores.
//
// Rows are summed in order of their positions, in double.  So the vector does not depend on how the
// text was cut into steps.
#include "engine/engine.h"

void pool_rows(Engine *e, Seq *s) {
  int32_t n = s->pool == POOL_SCORES ? e->model.scores : e->model.hidden, pick = s->pick;
  const float *from = s->pool == POOL_SCORES ? e->scores : e->hidden;
  if (!s->done) memset(s->sum, 0, (size_t)e->model.hidden * sizeof *s->sum);
  for (int32_t at = s->done; at < s->done + s->rows; at++) {
    if (!seq_picks(e, s, at)) continue;
    const float *row = from + (int64_t)pick++ * n;
    if (s->pool == POOL_MEAN)
      for (int32_t i = 0; i < n; i++) s->sum[i] += (double)row[i];
    else
      memcpy(s->vector, row, (size_t)n * sizeof *row);
  }
}

const float *pool_vector(Engine *e, Seq *s, int32_t *out_n) {
  *out_n = s->pool == POOL_SCORES ? e->model.scores : e->model.hidden;
  for (int32_t i = 0; s->pool == POOL_MEAN && i < *out_n; i++)
    s->vector[i] = (float)(s->sum[i] / s->len);
  return s->vector;
}
