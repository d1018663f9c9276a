// prune.c -- prices, weights and choices of pruned contractions (prune.h).
#include "compress/prune.h"

#include "cost/cost.h"
#include "eval/contract.h"

#include <math.h>
#include <stdlib.h>

typedef struct Prune {
  const PruneTask *t;
  Arena *arena;
  Diag *diag;
  LayerPrice *price;  // by group
  PruneFigures *figures;
  DimBinding sizes;
} Prune;

// ---- prices ----

// Sizes of the symbols, as the first sample has them.
static tenon_status bind_sizes(Prune *p) {
  const Graph *g = p->t->g;
  Run run;
  Value **in = arena_array(p->arena, Value *, MAX(p->t->data->ninputs, 1));
  binding_init(&p->sizes, p->arena, g);
  run_init(&run, NULL, p->diag);
  tenon_status s = dataset_values(p->t->data, 0, &run, in);
  for (int64_t i = 0; !s && i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    for (int k = 0; in[i] && k < t->rank && k < in[i]->rank; k++) {
      if (t->dims[k]->kind != IE_SYM || t->dims[k]->slot >= p->sizes.n) continue;
      p->sizes.value[t->dims[k]->slot] = in[i]->dims[k];
      p->sizes.known[t->dims[k]->slot] = true;
    }
  }
  run_deinit(&run);
  return s;
}

// Why no kernel leaves out zeros of it; NULL: one does.
static const char *no_kernel(const Prune *p, const QuantGroup *q) {
  const conv_attrs *at = q->node->op == OP_conv ? q->node->attrs : NULL;
  if (q->shape.taps != 1) return "since only convolutions of one tap have such kernels";
  if (q->shape.parts != 1) return "since it has groups";
  for (int64_t i = 0; at && i < at->pads.n; i++)
    if (at->pads.v[i]) return "since it has padding";
  if (p->t->pattern == PRUNE_FOURS) {
    if (q->shape.inputs % 4) return "since its inputs are no multiple of 4";
    if (!p->t->any_speed) return "since no kernel leaves out such zeros";
  }
  return q->shape.inputs > GRAM_DEEPEST ? "since it has too many inputs" : NULL;
}

static tenon_status price_group(Prune *p, PriceList *list, int64_t i) {
  static const double GAIN = 0.9;
  QuantGroup *q = &p->t->groups->v[i];
  const LayerPrice *l;
  int64_t bytes;
  if (!q->kept) q->kept = no_kernel(p, q);
  if (q->kept) return TENON_OK;
  if (!cost_type_bytes(type_of(q->node), &p->sizes, &bytes)) {
    q->kept = "since its size depends on data";
    return TENON_OK;
  }
  LayerPrice sizes = {.rows = MAX(bytes / (int64_t)sizeof(float) / q->shape.outputs, 1),
                      .depth = q->shape.inputs,
                      .outputs = q->shape.outputs};
  if (p->t->pattern == PRUNE_FOURS) return TENON_OK;
  TRY(price_layer(list, &p->t->observe.run, sizes, p->arena, p->diag, &l));
  p->price[i] = *l;
  double *ns = p->figures[i].ns;
  ns[CHOICE_F32] = l->ns[0];
  ns[CHOICE_VECTOR50] = l->ns[1];
  ns[CHOICE_VECTOR75] = l->ns[2];
  double now = p->t->zeros == 50 ? l->ns[1] : l->ns[2];
  if (now <= GAIN * l->ns[0] || p->t->any_speed) return TENON_OK;
  q->kept = str_printf(p->arena, "since it would take %.2f of its time", now / l->ns[0]);
  return TENON_OK;
}

// ---- weights ----

static tenon_status make_weights(Prune *p, int64_t i, Choice c, const double *h) {
  const PruneTask *t = p->t;
  const QuantGroup *q = &t->groups->v[i];
  int64_t rows = q->shape.outputs, depth = q->shape.inputs;
  bool four = c == CHOICE_FOURS;
  SparsePattern pattern = {
      .width = four ? 1 : p->price[i].width, .run = four ? 4 : 128, .zeros = choice_row[c].zeros};
  float *w, *out = arena_array(p->arena, float, rows *depth);
  ArenaMark mark = arena_mark(t->scratch);
  TRY(layer_weights(t->g, q, t->scratch, p->diag, &w));
  p->figures[i].error[c] = sparsify(w, rows, depth, &pattern, h, t->scratch, out);
  t->weights[i].w[c] = out;
  arena_reset(t->scratch, mark);
  return TENON_OK;
}

static tenon_status make_group(Prune *p, int64_t i, const double *h) {
  const PruneTask *t = p->t;
  TRY(watch_step(t->observe.run.watch, p->diag, "prune", t->groups->v[i].name, i, t->groups->n));
  if (t->pattern == PRUNE_FOURS) return make_weights(p, i, CHOICE_FOURS, h);
  if (t->zeros != 75) TRY(make_weights(p, i, CHOICE_VECTOR50, h));
  return t->zeros != 50 ? make_weights(p, i, CHOICE_VECTOR75, h) : TENON_OK;
}

static bool same_input(const GramTensor *x, const QuantGroup *q) {
  return x->node == q->node->src[0] && x->channels_first == (q->node->op == OP_conv);
}

static void clear(Arena *scratch) {
  if (scratch->head) arena_deinit(scratch);
  arena_init(scratch);
}

static tenon_status all_weights(Prune *p) {
  const PruneTask *t = p->t;
  const GroupList *l = t->groups;
  GramList grams = {0};
  for (int64_t i = 0; i < l->n; i++) {
    bool known = l->v[i].kept != NULL;
    for (int64_t k = 0; k < grams.n && !known; k++) known = same_input(&grams.v[k], &l->v[i]);
    if (known) continue;
    GramTensor x = {.node = l->v[i].node->src[0],
                    .channels_first = l->v[i].node->op == OP_conv,
                    .n = l->v[i].shape.inputs};
    vec_push(p->arena, &grams, x);
  }
  t->g->main = t->base;
  for (int64_t from = 0, to; from < grams.n; from = to) {
    clear(t->scratch);
    TRY(gram_pass(t->g, t->data, &t->observe, &grams, from, &to, t->scratch, p->arena, p->diag));
    for (int64_t k = from; k < to; k++)
      for (int64_t i = 0; i < l->n; i++)
        if (!l->v[i].kept && same_input(&grams.v[k], &l->v[i])) TRY(make_group(p, i, grams.v[k].h));
    for (int64_t k = from; k < to; k++) grams.v[k].h = NULL;
  }
  clear(t->scratch);
  return TENON_OK;
}

tenon_status prune_layers(const PruneTask *t, Arena *a, Diag *d, PruneFigures **out) {
  Prune p = {.t = t, .arena = a, .diag = d};
  PriceList prices = {0};
  int64_t n = t->groups->n;
  p.price = arena_array(a, LayerPrice, MAX(n, 1));
  *out = p.figures = arena_array(a, PruneFigures, MAX(n, 1));
  TRY(bind_sizes(&p));
  for (int64_t i = 0; i < n; i++) {
    TRY(watch_step(t->observe.run.watch, d, "price", t->groups->v[i].name, i, n));
    TRY(price_group(&p, &prices, i));
  }
  TRY(all_weights(&p));
  Choice c = t->pattern == PRUNE_FOURS ? CHOICE_FOURS
             : t->zeros == 50          ? CHOICE_VECTOR50
                                       : CHOICE_VECTOR75;
  for (int64_t i = 0; i < n; i++)
    if (!t->groups->v[i].kept) t->groups->v[i].choice = c;
  return TENON_OK;
}

// ---- under a limit ----

// One group to more zeros: what that loses by what it gains.
typedef struct Step {
  int64_t group;
  Choice to;
  double ratio;
} Step;
typedef VEC(Step) StepList;

static int by_ratio(const void *a, const void *b) {
  const Step *x = a, *y = b;
  if (x->ratio != y->ratio) return x->ratio < y->ratio ? -1 : 1;
  return x->group != y->group ? (x->group > y->group) - (x->group < y->group)
                              : (x->to > y->to) - (x->to < y->to);
}

static double ratio_of(const PruneFigures *f, Choice from, Choice to) {
  double gain = f->ns[from] - f->ns[to];
  return gain > 0 ? (f->error[to] - f->error[from]) / gain : INFINITY;
}

// Steps along the lower hull of each group's choices, so that a prefix of them is a set of choices.
static void find_steps(const GroupList *l, const PruneFigures *f, Arena *a, StepList *out) {
  for (int64_t i = 0; i < l->n; i++) {
    if (l->v[i].kept) continue;
    double half = ratio_of(&f[i], CHOICE_F32, CHOICE_VECTOR50);
    double more = ratio_of(&f[i], CHOICE_VECTOR50, CHOICE_VECTOR75);
    double both = ratio_of(&f[i], CHOICE_F32, CHOICE_VECTOR75);
    bool hull = half <= both;
    if (hull && half < INFINITY) vec_push(a, out, ((Step){i, CHOICE_VECTOR50, half}));
    if (hull ? more < INFINITY : both < INFINITY)
      vec_push(a, out, ((Step){i, CHOICE_VECTOR75, hull ? more : both}));
  }
  if (out->n) qsort(out->v, (size_t)out->n, sizeof *out->v, by_ratio);
}

static void take_steps(GroupList *l, const StepList *s, int64_t n) {
  for (int64_t i = 0; i < l->n; i++) l->v[i].choice = CHOICE_F32;
  for (int64_t i = 0; i < n; i++) l->v[s->v[i].group].choice = s->v[i].to;
}

tenon_status prune_search(const SearchTask *t, const PruneFigures *f, Arena *a, Diag *d,
                          SearchResult *out) {
  StepList steps = {0};
  *out = (SearchResult){.best = -1};
  find_steps(t->groups, f, a, &steps);
  int64_t will = 0, not = steps.n + 1;  // so many steps
  for (int round = 0; round < SEARCH_ROUNDS && not -will > 1; round++) {
    int64_t at = round ? will + (not -will) / 2 : steps.n;
    bool likely;
    take_steps(t->groups, &steps, at);
    TRY(search_judge(t, a, d, out, &likely));
    if (likely)
      will = at;
    else
      not = at;
  }
  out->best = search_best(out);
  for (int64_t i = 0; i < t->groups->n; i++)
    t->groups->v[i].choice = out->best >= 0 ? out->point.v[out->best].choice[i] : CHOICE_F32;
  return TENON_OK;
}

void prune_figures(GroupList *l, const PruneFigures *f) {
  double total = 0;
  for (int64_t i = 0; i < l->n; i++) total += f[i].error[l->v[i].choice];
  for (int64_t i = 0; i < l->n; i++) {
    QuantGroup *q = &l->v[i];
    q->ns[0] = f[i].ns[CHOICE_F32];
    q->ns[1] = f[i].ns[q->choice];
    q->share = total > 0 ? f[i].error[q->choice] / total : 0;
  }
}
