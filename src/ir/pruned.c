// pruned.c -- constants with zeros in runs, as pruned weights have them (ir.h).
//
// Guarantees: a pure function of the constant's elements.  A constant that is not pruned is told by
//             a sample of them; one that is moved, by what it is moved from.
#include "ir/ir.h"

enum { RUNS = 16, RUN = 256, LEAST = 25, DEEPEST = 16 };  // of the sample; per cent of zeros

typedef struct Sample {
  int64_t all, zeros;
} Sample;

static bool sample_bytes(Graph *g, const Node *n, Sample *s) {
  const void *bytes;
  if (type_of(n)->dtype != DT_F32 || const_bytes(g, n, &bytes, diag_unread())) return false;
  int64_t count = n->data->n, runs = MAX(MIN(RUNS, count / RUN), 1);
  for (int64_t r = 0; r < runs; r++)
    for (int64_t i = 0; i < MIN(RUN, count); i++) {
      float x;
      memcpy(&x, (const char *)bytes + (r * (count / runs) + i) * (int64_t)sizeof x, sizeof x);
      s->all++;
      s->zeros += x == 0;
    }
  return true;
}

static bool sample(Graph *g, const Node *n, int depth, Sample *s) {
  if (depth > DEEPEST || n->op != OP_const) return false;
  if (!n->data->moved || n->data->mem) return sample_bytes(g, n, s);
  const Node *by = n->data->moved;
  for (uint32_t i = 0; i < by->nsrc; i++)
    if (!sample(g, by->src[i], depth + 1, s)) return false;
  return true;
}

bool const_is_pruned(Graph *g, const Node *n) {
  Sample s = {0};
  return sample(g, n, 0, &s) && s.zeros * 100 >= s.all * LEAST;
}

double const_runs_left(Graph *g, const Node *n, int64_t width) {
  const Type *t = type_of(n);
  const void *bytes;
  if (!t->rank || !const_is_pruned(g, n) || const_bytes(g, n, &bytes, diag_unread())) return 1;
  int64_t row = t->dims[t->rank - 1]->value, left = 0, all = 0;
  for (int64_t at = 0; at < n->data->n; at += row)
    for (int64_t j = 0; j < row; j += width, all++) {
      bool any = false;
      for (int64_t i = j; i < MIN(j + width, row) && !any; i++) {
        float x;
        memcpy(&x, (const char *)bytes + (at + i) * (int64_t)sizeof x, sizeof x);
        any = x != 0;
      }
      left += any;
    }
  return all ? (double)left / (double)all : 1;
}
