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
  int64_t *leader;  // by group: the first with the same weights
  int64_t *gram;    // by leader: its H in the list
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
  return TENON_OK;
}

// Layers that share their weights are pruned together or not at all.
static void judge_group(Prune *p, int64_t leader) {
  static const double GAIN = 0.9;
  const PruneTask *t = p->t;
  GroupList *l = t->groups;
  Choice c = t->zeros == 50 ? CHOICE_VECTOR50 : CHOICE_VECTOR75;
  const char *why = NULL, *name = NULL;
  double dense = 0, now = 0;
  for (int64_t i = leader; i < l->n; i++) {
    if (p->leader[i] != leader) continue;
    if (l->v[i].kept && !name) name = l->v[i].name;
    dense += p->figures[i].ns[CHOICE_F32];
    now += p->figures[i].ns[c];
  }
  if (name)
    why = str_printf(p->arena, "since %s, which has the same weights, does", name);
  else if (t->pattern != PRUNE_FOURS && now > GAIN * dense && !t->any_speed)
    why = str_printf(p->arena, "since it would take %.2f of its time", now / dense);
  for (int64_t i = leader; i < l->n && why; i++)
    if (p->leader[i] == leader && !l->v[i].kept) l->v[i].kept = why;
}

static void find_leaders(Prune *p) {
  const GroupList *l = p->t->groups;
  p->leader = arena_array(p->arena, int64_t, MAX(l->n, 1));
  for (int64_t i = 0; i < l->n; i++) {
    int64_t k = 0;
    while (l->v[k].node->src[1] != l->v[i].node->src[1] ||
           l->v[k].shape.axis != l->v[i].shape.axis || l->v[k].shape.inputs != l->v[i].shape.inputs)
      k++;
    p->leader[i] = k;
  }
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

static void clear(Arena *scratch) {
  if (scratch->head) arena_deinit(scratch);
  arena_init(scratch);
}

// The H of a leader: that of its input, to which those of the others with its weights are added.
// Layers that read the same tensor have one together.
static void find_gram(Prune *p, int64_t leader, GramList *grams) {
  const GroupList *l = p->t->groups;
  GramTensor x = {0};
  for (int64_t i = l->n; i-- > leader;) {
    const QuantGroup *q = &l->v[i];
    if (p->leader[i] != leader) continue;
    GramTensor one = {
        .node = q->node->src[0], .channels_first = q->node->op == OP_conv, .n = q->shape.inputs};
    if (x.node) {
      GramTensor *also = arena_new(p->arena, GramTensor);
      *also = x;
      one.also = also;
    }
    x = one;
  }
  for (int64_t k = 0; k < grams->n; k++) {
    const GramTensor *g = &grams->v[k];
    if (x.also || g->also || g->node != x.node || g->channels_first != x.channels_first) continue;
    p->gram[leader] = k;
    return;
  }
  p->gram[leader] = grams->n;
  vec_push(p->arena, grams, x);
}

static tenon_status all_weights(Prune *p) {
  const PruneTask *t = p->t;
  const GroupList *l = t->groups;
  GramList grams = {0};
  p->gram = arena_array(p->arena, int64_t, MAX(l->n, 1));
  for (int64_t i = 0; i < l->n; i++)
    if (!l->v[i].kept && p->leader[i] == i) find_gram(p, i, &grams);
  t->g->main = t->base;
  for (int64_t from = 0, to; from < grams.n; from = to) {
    clear(t->scratch);
    TRY(gram_pass(t->g, t->data, &t->observe, &grams, from, &to, t->scratch, p->arena, p->diag));
    for (int64_t i = 0; i < l->n; i++) {
      if (l->v[i].kept || p->leader[i] != i || p->gram[i] < from || p->gram[i] >= to) continue;
      TRY(make_group(p, i, grams.v[p->gram[i]].h));
    }
    for (int64_t k = from; k < to; k++) grams.v[k].h = NULL;
  }
  for (int64_t i = 0; i < l->n; i++) {
    t->weights[i] = t->weights[p->leader[i]];
    memcpy(p->figures[i].error, p->figures[p->leader[i]].error, sizeof p->figures[i].error);
  }
  clear(t->scratch);
  return TENON_OK;
}

tenon_status prune_layers(const PruneTask *t, Arena *a, Diag *d, PruneFigures **out,
                          const int64_t **out_leader) {
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
  find_leaders(&p);
  for (int64_t i = 0; i < n; i++)
    if (p.leader[i] == i) judge_group(&p, i);
  TRY(all_weights(&p));
  *out_leader = p.leader;
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

// Of a group and those with its weights.
typedef struct Steps {
  const GroupList *groups;
  const PruneFigures *f;
  const int64_t *leader;
  StepList list;
} Steps;

static double ratio_of(const Steps *s, int64_t leader, Choice from, Choice to) {
  double gain = 0, loss = s->f[leader].error[to] - s->f[leader].error[from];
  for (int64_t i = leader; i < s->groups->n; i++)
    if (s->leader[i] == leader) gain += s->f[i].ns[from] - s->f[i].ns[to];
  return gain > 0 ? loss / gain : INFINITY;
}

// Steps along the lower hull of each group's choices, so that a prefix of them is a set of choices.
static void find_steps(Steps *s, Arena *a) {
  for (int64_t i = 0; i < s->groups->n; i++) {
    if (s->groups->v[i].kept || s->leader[i] != i) continue;
    double half = ratio_of(s, i, CHOICE_F32, CHOICE_VECTOR50);
    double more = ratio_of(s, i, CHOICE_VECTOR50, CHOICE_VECTOR75);
    double both = ratio_of(s, i, CHOICE_F32, CHOICE_VECTOR75);
    bool hull = half <= both;
    if (hull && half < INFINITY) vec_push(a, &s->list, ((Step){i, CHOICE_VECTOR50, half}));
    if (hull ? more < INFINITY : both < INFINITY)
      vec_push(a, &s->list, ((Step){i, CHOICE_VECTOR75, hull ? more : both}));
  }
  if (s->list.n) qsort(s->list.v, (size_t)s->list.n, sizeof *s->list.v, by_ratio);
}

static void take_steps(GroupList *l, const Steps *s, int64_t n) {
  for (int64_t i = 0; i < l->n; i++) l->v[i].choice = CHOICE_F32;
  for (int64_t i = 0; i < n; i++) l->v[s->list.v[i].group].choice = s->list.v[i].to;
  for (int64_t i = 0; i < l->n; i++) l->v[i].choice = l->v[s->leader[i]].choice;
}

// Errors of the model's results in the place of the layers': what half of the zeros adds, by coded
// runs.  More of them add more as they do in the layer.
static tenon_status measure_errors(const SearchTask *t, const int64_t *leader, PruneFigures *f,
                                   Arena *a, Diag *d, SearchResult *out) {
  double *error = arena_array(a, double, MAX(t->groups->n, 1));
  TRY(search_errors(t, CHOICE_VECTOR50, leader, a, d, out, error));
  for (int64_t i = 0; i < t->groups->n; i++) {
    double half = f[i].error[CHOICE_VECTOR50], more = f[i].error[CHOICE_VECTOR75];
    f[i].error[CHOICE_VECTOR50] = error[i];
    f[i].error[CHOICE_VECTOR75] = half > 0 ? error[i] * more / half : error[i] + more;
  }
  return TENON_OK;
}

tenon_status prune_search(const SearchTask *t, PruneFigures *f, const int64_t *leader, Arena *a,
                          Diag *d, SearchResult *out) {
  Steps steps = {.groups = t->groups, .f = f, .leader = leader};
  *out = (SearchResult){.best = -1};
  TRY(measure_errors(t, leader, f, a, d, out));
  find_steps(&steps, a);
  int64_t will = 0, not = steps.list.n + 1;  // so many steps
  for (int round = 0; round < SEARCH_ROUNDS && not -will > 1; round++) {
    int64_t at = round ? will + (not -will) / 2 : steps.list.n;
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
