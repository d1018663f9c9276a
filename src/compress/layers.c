// layers.c -- rounding the chosen contractions, a few H at a time (layers.h).
#include "compress/layers.h"

#include <math.h>

tenon_status layer_weights(Graph *g, const QuantGroup *q, Arena *a, Diag *d, float **out) {
  const void *bytes;
  const WeightShape *s = &q->shape;
  int64_t rows = s->outputs, depth = s->inputs * s->taps;
  TRY(const_elements(g, q->node->src[1], a, &bytes, d));
  const float *w = bytes;
  for (int64_t i = 0; i < rows * depth; i++)
    if (!isfinite(w[i]))
      return fail(d, TENON_EINVAL, (Where){.node = q->name}, "weight %lld is NaN or an infinity",
                  (long long)i);
  *out = arena_array(a, float, rows *depth);
  if (s->axis == 0) memcpy(*out, w, (size_t)(rows * depth) * sizeof *w);
  for (int64_t r = 0; r < rows && s->axis; r++)
    for (int64_t c = 0; c < depth; c++) (*out)[r * depth + c] = w[c * rows + r];
  return TENON_OK;
}

const double *layer_means(const StatsList *stats, const QuantGroup *q) {
  const TensorStats *s = stats ? stats_find(stats, q->node->src[0]) : NULL;
  return s && s->channels == q->shape.inputs * q->shape.parts ? s->channel_mean : NULL;
}

static void clear(Arena *scratch) {
  if (scratch->head) arena_deinit(scratch);
  arena_init(scratch);
}

static tenon_status round_layer(const LayersTask *t, int64_t i, const double *h, Arena *a, Diag *d,
                                BlockWeights *out) {
  const QuantGroup *q = &t->groups->v[i];
  float *w;
  ArenaMark mark = arena_mark(t->scratch);
  TRY(layer_weights(t->g, q, t->scratch, d, &w));
  BlockOptions o = {.block = t->block, .h = h, .mean = layer_means(t->stats, q)};
  rebuild_blocks(w, q->shape.outputs, q->shape.inputs, &o, a, t->scratch, out);
  arena_reset(t->scratch, mark);
  return TENON_OK;
}

static bool is_chosen(const LayersTask *t, int64_t i) {
  return choice_row[t->groups->v[i].choice].weight_bits == 4;
}

static int64_t find_gram(const GramList *l, const Node *x) {
  for (int64_t i = 0; i < l->n; i++)
    if (l->v[i].node == x) return i;
  return -1;
}

static void find_grams(const LayersTask *t, Arena *a, GramList *out) {
  *out = (GramList){0};
  for (int64_t i = 0; i < t->groups->n; i++) {
    const QuantGroup *q = &t->groups->v[i];
    const Node *x = q->node->src[0];
    if (!is_chosen(t, i) || q->shape.inputs > GRAM_DEEPEST || find_gram(out, x) >= 0) continue;
    vec_push(a, out, ((GramTensor){.node = x, .n = q->shape.inputs}));
  }
}

tenon_status layers_round(const LayersTask *t, Arena *a, Diag *d, BlockWeights **out) {
  GramList grams = {0};
  BlockWeights *all = arena_array(a, BlockWeights, MAX(t->groups->n, 1));
  if (t->data) find_grams(t, a, &grams);
  t->g->main = t->base;
  for (int64_t from = 0, to; from < grams.n; from = to) {
    clear(t->scratch);
    TRY(gram_pass(t->g, t->data, &t->observe, &grams, from, &to, t->scratch, a, d));
    for (int64_t i = 0; i < t->groups->n; i++) {
      int64_t at = find_gram(&grams, t->groups->v[i].node->src[0]);
      if (!is_chosen(t, i) || at < from || at >= to) continue;
      TRY(watch_step(t->observe.run.watch, d, "round", t->groups->v[i].name, i, t->groups->n));
      TRY(round_layer(t, i, grams.v[at].h, a, d, &all[i]));
    }
    for (int64_t i = from; i < to; i++) grams.v[i].h = NULL;
  }
  clear(t->scratch);
  for (int64_t i = 0; i < t->groups->n; i++)
    if (is_chosen(t, i) && !all[i].rows) TRY(round_layer(t, i, NULL, a, d, &all[i]));
  *out = all;
  return TENON_OK;
}
