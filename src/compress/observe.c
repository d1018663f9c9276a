// observe.c -- statistics of tensors as results of a compiled graph (observe.h).
#include "compress/observe.h"

#include "cost/cost.h"

#include <math.h>

static const int64_t MOST_BYTES = (int64_t)48 << 20;

int64_t observe_tensor(StatsList *l, const Node *n, int axis, Arena *a) {
  for (int64_t i = 0; i < l->n; i++) {
    if (l->v[i].node != n) continue;
    if (l->v[i].axis < 0) l->v[i].axis = axis;
    return i;
  }
  TensorStats s = {.node = n, .axis = axis};
  s.name = str_printf(a, "%lld:%s", (long long)l->n, n->name ? n->name : op_name(n));
  vec_push(a, l, s);
  return l->n - 1;
}

const TensorStats *stats_find(const StatsList *l, const Node *n) {
  for (int64_t i = 0; i < l->n; i++)
    if (l->v[i].node == n) return &l->v[i];
  return NULL;
}

// ---- one value ----

// Sums and largest magnitude of neighbours, in lanes that compile to vectors.
static void add_run(const float *x, int64_t n, double *sum, double *square, double *most) {
  enum { LANES = 8 };
  double part[LANES] = {0}, squares[LANES] = {0}, rest = 0, more = 0;
  float top[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) {
      float m = fabsf(x[i + k]);
      top[k] = m > top[k] ? m : top[k];
      part[k] += (double)x[i + k];
      squares[k] += (double)x[i + k] * (double)x[i + k];
    }
  for (; i < n; i++) {
    rest += (double)x[i];
    more += (double)x[i] * (double)x[i];
    top[0] = fmaxf(top[0], fabsf(x[i]));
  }
  for (int k = 0; k < LANES; k++) {
    rest += part[k];
    more += squares[k];
    *most = fmax(*most, (double)top[k]);
  }
  *sum += rest;
  *square += more;
}

// Channels are the last axis: each row has one value of each.
static void add_row(TensorStats *s, const float *x) {
  double *most = s->channel_max, *sum = s->channel_mean, *square = s->channel_square;
  for (int64_t c = 0; c < s->channels; c++) {
    double m = (double)fabsf(x[c]);
    most[c] = m > most[c] ? m : most[c];
    sum[c] += (double)x[c];
    square[c] += (double)x[c] * (double)x[c];
  }
}

static void add_channels(TensorStats *s, const Value *v, Arena *a) {
  int64_t inner = 1, n = v->dims[s->axis];
  for (int k = s->axis + 1; k < v->rank; k++) inner *= v->dims[k];
  if (!s->channel_max) {
    s->channels = n;
    s->channel_max = arena_array(a, double, MAX(n, 1));
    s->channel_mean = arena_array(a, double, MAX(n, 1));
    s->channel_square = arena_array(a, double, MAX(n, 1));
  }
  const float *x = v->data;
  s->seen += v->n / n;
  if (inner == 1) {
    for (int64_t at = 0; at < v->n; at += n) add_row(s, x + at);
    return;
  }
  for (int64_t at = 0, c = 0; at < v->n; at += inner, c = c + 1 < n ? c + 1 : 0)
    add_run(x + at, inner, &s->channel_mean[c], &s->channel_square[c], &s->channel_max[c]);
}

static tenon_status add_value(TensorStats *s, const Value *v, int64_t sample, Arena *a, Diag *d) {
  Where at = {.node = s->node->name, .op = op_name(s->node)};
  if (v->kind != VK_TENSOR || v->dtype != DT_F32)
    return fail(d, TENON_EUNSUPPORTED, at, "its values are no f32 tensor");
  if (!histogram_add(s->histogram, v->data, v->n))
    return fail(d, TENON_EINVAL, at, "sample %lld of the calibration makes NaN or an infinity here",
                (long long)sample);
  if (s->axis < 0 || !v->n) return TENON_OK;
  if (s->axis >= v->rank || (s->channel_max && s->channels != v->dims[s->axis]))
    return fail(d, TENON_EUNSUPPORTED, at, "the number of channels differs between samples");
  add_channels(s, v, a);
  return TENON_OK;
}

// ---- one pass ----

// The tensors [from, to) behind the model's own results, which no pass needs.
static Body *with_results(Graph *g, const StatsList *l, int64_t from, int64_t to, Arena *a) {
  Body *main = g->main;
  Node **result = arena_array(a, Node *, to - from);
  for (int64_t i = from; i < to; i++) result[i - from] = (Node *)(uintptr_t)l->v[i].node;
  Body *b = body_new(g, main->name, main->nparams, main->param, to - from, result);
  g->body.n--;  // the list holds every body but main
  for (int64_t i = from; i < to; i++) b->result_name[i - from] = l->v[i].name;
  return b;
}

static tenon_status one_sample(Runner *r, const Dataset *s, int64_t sample, StatsList *l,
                               int64_t from, Arena *a, Diag *d) {
  Value *const *out;
  TRY(runner_run(r, s, sample, d, &out));
  for (int64_t i = 0; i < r->nresults; i++) TRY(add_value(&l->v[from + i], out[i], sample, a, d));
  return TENON_OK;
}

// More samples would no longer move a range or a mean.
static bool is_enough(const StatsList *l, int64_t from, int64_t to, int64_t samples) {
  if (samples < OBSERVE_SAMPLES) return false;
  for (int64_t i = from; i < to; i++)
    if (l->v[i].histogram->total < OBSERVE_VALUES) return false;
  return true;
}

static tenon_status one_pass(Graph *g, const Dataset *s, SplitPart part, const ObserveOptions *o,
                             StatsList *l, int64_t from, int64_t to, Arena *a, Diag *d) {
  Body *main = g->main;
  g->main = with_results(g, l, from, to, a);
  tenon_status st = graph_status(g);
  if (!st) st = runner_open(g, &o->run, d, o->runner);
  g->main = main;
  TRY(st);
  int64_t n = dataset_count(s, part), begin = dataset_begin(s, part);
  if (o->most_samples) n = MIN(n, o->most_samples);
  for (int64_t i = 0; i < n && !is_enough(l, from, to, i); i++) {
    TRY(watch_step(o->run.watch, d, "calibrate", "", i, n));
    TRY(one_sample(o->runner, s, begin + i, l, from, a, d));
  }
  runner_close(o->runner);
  return TENON_OK;
}

static int64_t value_bytes(Graph *g, const Node *n, Arena *a) {
  DimBinding b;
  int64_t bytes = 0;
  binding_init(&b, a, g);
  binding_typical(&b, g);
  return cost_type_bytes(type_of(n), &b, &bytes) ? bytes : 0;
}

tenon_status observe_run(Graph *g, const Dataset *s, SplitPart part, const ObserveOptions *o,
                         StatsList *l, Arena *a, Diag *d) {
  int64_t most = o->most_bytes ? o->most_bytes : MOST_BYTES;
  for (int64_t i = 0; i < l->n; i++) {
    l->v[i].histogram = arena_new(a, Histogram);
    histogram_init(l->v[i].histogram);
  }
  for (int64_t from = 0, to; from < l->n; from = to) {
    int64_t bytes = value_bytes(g, l->v[from].node, a);
    for (to = from + 1; to < l->n; to++) {
      bytes += value_bytes(g, l->v[to].node, a);
      if (bytes > most) break;
    }
    TRY(one_pass(g, s, part, o, l, from, to, a, d));
  }
  for (int64_t i = 0; i < l->n; i++)
    for (int64_t c = 0; c < l->v[i].channels; c++) {
      l->v[i].channel_mean[c] /= (double)MAX(l->v[i].seen, 1);
      l->v[i].channel_square[c] /= (double)MAX(l->v[i].seen, 1);
    }
  return TENON_OK;
}
