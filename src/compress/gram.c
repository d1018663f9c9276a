// gram.c -- sums of X^T X as results of a compiled graph (gram.h).
#include "compress/gram.h"

#include "rules/shape.h"

#include <math.h>

static const int64_t MOST_BYTES = (int64_t)48 << 20;

static int64_t bytes_of(const GramTensor *t) {
  return t->n * t->n * (int64_t)(sizeof(double) + sizeof(float));
}

static Node *own_product(Graph *g, const GramTensor *t) {
  Node *x = (Node *)(uintptr_t)t->node;
  int64_t perm[MAX_RANK], rank = type_of(x)->rank;
  for (int64_t k = 0; k < rank; k++) perm[k] = k == 0 ? 0 : k + 1 < rank ? k + 1 : 1;
  if (t->channels_first) x = transpose_to(g, x, (int)rank, perm);
  if (rank != 2) x = N(g, reshape, x, node_i64s(g, 2, (int64_t[]){-1, t->n}));
  return N(g, mat_mul, transpose_to(g, x, 2, (int64_t[]){1, 0}), x);
}

static Node *product(Graph *g, const GramTensor *t) {
  Node *sum = own_product(g, t);
  while ((t = t->also)) sum = N(g, add, sum, own_product(g, t));
  return sum;
}

static Body *with_products(Graph *g, const GramList *l, int64_t from, int64_t to, Arena *a) {
  Body *main = g->main;
  Node **result = arena_array(a, Node *, to - from);
  for (int64_t i = from; i < to; i++) result[i - from] = product(g, &l->v[i]);
  Body *b = body_new(g, main->name, main->nparams, main->param, to - from, result);
  g->body.n--;  // the list holds every body but main
  for (int64_t i = from; i < to; i++)
    b->result_name[i - from] = str_printf(&g->arena, "gram_%lld", (long long)i);
  return b;
}

static tenon_status add_product(GramTensor *t, const Value *v, int64_t sample, Diag *d) {
  Where at = {.node = t->node->name, .op = op_name(t->node)};
  if (v->kind != VK_TENSOR || v->dtype != DT_F32 || v->n != t->n * t->n)
    return fail(d, TENON_EUNSUPPORTED, at, "its products are no f32 matrix of %lld",
                (long long)t->n);
  const float *x = v->data;
  for (int64_t i = 0; i < v->n; i++) t->h[i] += (double)x[i];
  for (int64_t i = 0; i < t->n; i++)
    if (!isfinite(t->h[i * t->n + i]))
      return fail(d, TENON_EINVAL, at,
                  "sample %lld of the calibration makes NaN or an infinity here",
                  (long long)sample);
  return TENON_OK;
}

tenon_status gram_pass(Graph *g, const Dataset *s, const ObserveOptions *o, GramList *l,
                       int64_t from, int64_t *out_to, Arena *hold, Arena *a, Diag *d) {
  Body *main = g->main;
  int64_t most = o->most_bytes ? o->most_bytes : MOST_BYTES, bytes = 0, to = from;
  for (; to < l->n && (to == from || bytes + bytes_of(&l->v[to]) <= most); to++) {
    bytes += bytes_of(&l->v[to]);
    l->v[to].h = arena_array(hold, double, l->v[to].n * l->v[to].n);
  }
  *out_to = to;
  g->main = with_products(g, l, from, to, a);
  tenon_status st = graph_status(g);
  if (!st) st = runner_open(g, &o->run, d, o->runner);
  g->main = main;
  TRY(st);
  int64_t n = dataset_count(s, PART_CALIBRATE), begin = dataset_begin(s, PART_CALIBRATE);
  for (int64_t i = 0; i < n; i++) {
    Value *const *out;
    TRY(watch_step(o->run.watch, d, "products", "", from * n + i, l->n * n));
    TRY(runner_run(o->runner, s, begin + i, d, &out));
    for (int64_t k = from; k < to; k++) TRY(add_product(&l->v[k], out[k - from], begin + i, d));
  }
  runner_close(o->runner);
  return TENON_OK;
}
