// price.c -- layers timed by themselves (price.h).
#include "compress/price.h"

#include "ir/opinfo.h"

#include <math.h>
#include <stdlib.h>

// All that is owned while layers are timed.
typedef struct Price {
  LayerPrice *layer;
  const RunnerOptions *run;
  Arena *arena;
  Diag *diag;
  Graph *graph[2];
  Runner runner[2];
  Dataset data;
} Price;

// A number from -1 to 1.
static float number(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(*state >> 40) / (float)(1 << 23) - 1;
}

// Whether a step is left, evenly among the others; panels leave others.
static bool is_left(int64_t k, int64_t panel, int zeros) {
  int64_t at = k + panel;
  return at * zeros / 100 == (at + 1) * zeros / 100;
}

static tenon_status open_layer(Price *p, int which, int64_t width, int zeros) {
  const LayerPrice *l = p->layer;
  int64_t dims[] = {l->depth, l->outputs}, bytes = l->depth * l->outputs * (int64_t)sizeof(float);
  runner_close(&p->runner[which]);
  graph_free(p->graph[which]);
  p->graph[which] = NULL;
  TRY(graph_create(p->diag, &p->graph[which]));
  Graph *g = p->graph[which];
  float *w = mem_alloc(bytes);
  if (!w) return fail(p->diag, TENON_ENOMEM, NOWHERE, "no memory to time a layer");
  uint64_t state = 1;
  for (int64_t k = 0; k < l->depth; k++)
    for (int64_t j = 0; j < l->outputs; j++) {
      float x = number(&state);
      w[k * l->outputs + j] = is_left(k, j / width, zeros) ? x : 0;
    }
  Node *weight = node_const_take(g, DT_F32, 2, dims, w, bytes, "w");
  Dim size[] = {ie_const(&g->dims, l->rows), ie_const(&g->dims, l->depth)};
  Node *x = node_param(g, type_tensor(g, DT_F32, 2, size), "x");
  Node *y = N(g, mat_mul, x, weight);
  g->main = body_new(g, "layer", 1, &x, 1, &y);
  g->main->result_name[0] = "y";
  g->body.n--;  // the list holds every body but main
  TRY(graph_status(g));
  return runner_open(g, p->run, p->diag, &p->runner[which]);
}

static tenon_status make_data(Price *p) {
  enum { SAMPLES = 4 };  // the least that a data set has
  const LayerPrice *l = p->layer;
  int64_t n = SAMPLES * l->rows * l->depth;
  float *x = arena_array(p->arena, float, n);
  uint64_t state = 2;
  for (int64_t i = 0; i < n; i++) x[i] = number(&state);
  NdArray v = {.name = str_of("x"), .dtype = DT_F32, .rank = 3, .data = x, .n = n};
  v.dims[0] = SAMPLES;
  v.dims[1] = l->rows;
  v.dims[2] = l->depth;
  v.bytes = n * (int64_t)sizeof *x;
  return dataset_of_arrays(p->graph[0], &(NdArrayList){&v, 1}, NULL, 0, p->arena, p->diag,
                           &p->data);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Single runs of both in turn.  Other work on the machine makes some of them longer: the time is
// their lower quartile.
static tenon_status time_both(Price *p, double *ns) {
  enum { ROUNDS = 200, LEAST = 12 };
  static const double ENOUGH = 3e7;  // nanoseconds
  double *took[2], spent = 0;
  int n = 0;
  for (int k = 0; k < 2; k++) took[k] = arena_array(p->arena, double, ROUNDS);
  for (int i = -2; n < LEAST || (n < ROUNDS && spent < ENOUGH); i++) {
    for (int k = 0; k < 2; k++) {
      Value *const *v;
      int64_t start = platform->now();
      TRY(runner_run(&p->runner[k], &p->data, MAX(i, 0) % p->data.sample.n, p->diag, &v));
      took[k][n] = (double)(platform->now() - start);
      spent += took[k][n];
    }
    n += i >= 0;  // the first runs are not counted
  }
  for (int k = 0; k < 2; k++) {
    qsort(took[k], (size_t)n, sizeof *took[k], ascending);
    ns[k] = took[k][n / 4];
  }
  return TENON_OK;
}

static tenon_status time_one(Price *p, int64_t width, int zeros, double *out) {
  double ns[2];
  TRY(open_layer(p, 1, width, zeros));
  TRY(time_both(p, ns));
  if (!(p->layer->ns[0] > 0)) p->layer->ns[0] = ns[0];
  *out = p->layer->ns[0] * ns[1] / fmax(ns[0], 1);
  return TENON_OK;
}

// Narrow runs lose less: a wider one must be faster by more than the noise.
static tenon_status time_layer(Price *p) {
  static const int64_t widths[] = {16, 32, 48, 64};
  static const double GAIN = 0.95;
  LayerPrice *l = p->layer;
  TRY(open_layer(p, 0, 1, 0));
  TRY(make_data(p));
  for (int i = 0; i < ARRAY_LEN(widths); i++) {
    double ns;
    if (i && widths[i] >= 2 * l->outputs) break;
    TRY(time_one(p, widths[i], 50, &ns));
    if (i && ns > GAIN * l->ns[1]) continue;
    l->ns[1] = ns;
    l->width = widths[i];
  }
  return time_one(p, l->width, 75, &l->ns[2]);
}

tenon_status price_layer(PriceList *list, const RunnerOptions *run, LayerPrice sizes, Arena *a,
                         Diag *d, const LayerPrice **out) {
  for (int64_t i = 0; i < list->n; i++) {
    *out = &list->v[i];
    if (list->v[i].rows == sizes.rows && list->v[i].depth == sizes.depth &&
        list->v[i].outputs == sizes.outputs)
      return TENON_OK;
  }
  Price *p = arena_new(a, Price);
  Trap t;
  *p = (Price){.layer = &sizes, .run = run, .arena = a, .diag = d};
  sizes.width = 1;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = time_layer(p);
  trap_leave(&t);
  for (int k = 0; k < 2; k++) {
    runner_close(&p->runner[k]);
    graph_free(p->graph[k]);
  }
  dataset_close(&p->data);
  if (t.status) return t.status;
  vec_push(a, list, sizes);
  *out = &list->v[list->n - 1];
  return TENON_OK;
}
