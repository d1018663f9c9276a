// quantize.c -- the stages of quantisation, from files to files (quantize.h).
#include "api/quantize.h"

#include "cost/cost.h"
#include "exporters/export.h"

#include <math.h>

// All that is owned; in the caller's arena, since a trap may pass over the frames below.
typedef struct Quantize {
  const QuantizeOptions *o;
  Arena *arena;
  Diag *diag;
  QuantizeResult *result;
  Model *from, *work, *made;  // as it is; as it is changed; the bytes that are written, read again
  Body *base;                 // of work: optimised, and in floats
  Dataset data;
  bool has_data;
  GroupList groups;
  StatsList stats;
  RewriteOptions rewrite;
  RangeMethod method;
  bool gptq;  // 4-bit weights: with H
  Migration migrate;
  PruneTask prune;
  Metric metric;
  int scores;
  Runner float_runner, runner, other;
  Arena scratch;  // of one set of choices
  StrBuf bytes;   // of the quantised model
  bool *misused;
} Quantize;

static tenon_status misuse(Quantize *q) {
  *q->misused = true;
  return TENON_EINVAL;
}

static RunnerOptions runs(const Quantize *q) {
  return (RunnerOptions){.target = q->o->target, .threads = q->o->threads, .watch = q->o->watch};
}

static void close_all(Quantize *q) {
  runner_close(&q->other);
  runner_close(&q->runner);
  runner_close(&q->float_runner);
  if (q->scratch.head) arena_deinit(&q->scratch);
  dataset_close(&q->data);
  model_free(q->made);
  model_free(q->work);
  model_free(q->from);
}

// ---- what is asked for ----

static const char AUTO[] = "auto";

static tenon_status no_choice(Quantize *q) {
  const char *to = q->o->to, *names[CHOICES + 1];
  int n = 0;
  for (int i = 0; i < CHOICES; i++)
    if (!choice_row[i].zeros) names[n++] = choice_row[i].name;
  names[n++] = AUTO;
  fail(q->diag, TENON_EINVAL, NOWHERE, "there is no choice '%s'%s", to,
       did_you_mean(str_of(to), names, n).s);
  for (int i = CHOICE_F32 + 1; i < CHOICES; i++)
    if (!choice_row[i].zeros) diag_note(q->diag, "%s: %s", choice_row[i].name, choice_row[i].doc);
  diag_note(q->diag, "%s: int8 or f32 for each contraction, the fastest that meets --budget", AUTO);
  return misuse(q);
}

// How ranges are found, and for 4-bit weights how they are rounded.
static tenon_status take_method(Quantize *q, Choice c) {
  static const char *const rounding[] = {"rtn", "gptq"};
  const char *m = q->o->method, *const *names = range_method_name;
  bool blocks = choice_row[c].weight_bits == 4;
  int n = blocks ? ARRAY_LEN(rounding) : RANGE_METHODS, i = 0;
  if (blocks) names = rounding;
  q->method = RANGE_MSE;
  q->gptq = q->has_data;
  if (!m) return TENON_OK;
  while (i < n && strcmp(m, names[i])) i++;
  if (i == n) {
    fail(q->diag, TENON_EINVAL, NOWHERE, "%s has no method '%s'%s", q->o->to, m,
         did_you_mean(str_of(m), names, n).s);
    return misuse(q);
  }
  if (!blocks) {
    q->method = (RangeMethod)i;
    return TENON_OK;
  }
  q->gptq = i == 1;
  if (!q->gptq || q->has_data) return TENON_OK;
  fail(q->diag, TENON_EINVAL, NOWHERE, "gptq needs samples: give --data, or take --method rtn");
  return misuse(q);
}

static tenon_status take_block(Quantize *q) {
  int64_t b = q->o->block;
  if (!b || (b >= 16 && b <= 256 && !(b & (b - 1)))) return TENON_OK;
  fail(q->diag, TENON_EINVAL, NOWHERE,
       "blocks of %lld weights: 16, 32, 64, 128 or 256 are possible", (long long)b);
  return misuse(q);
}

// Which migrations can be: of choices of 8 or 4 bits, with samples.
static tenon_status take_migration(Quantize *q, Choice c) {
  const char *to = q->o->migrate, *names[MIGRATIONS];
  const ChoiceRow *row = &choice_row[c];
  bool bytes = row->activation_bits == 8;
  bool fit = bytes || (row->weight_bits && row->weight_bits <= 8 && !row->activation_bits);
  for (int i = 0; i < MIGRATIONS; i++) names[i] = migration_row[i].name;
  int i = to ? migration_find(str_of(to)) : MIGRATION_AUTO;
  if (i < 0) {
    fail(q->diag, TENON_EINVAL, NOWHERE, "there is no migration '%s'%s", to,
         did_you_mean(str_of(to), names, MIGRATIONS).s);
    for (int k = 0; k < MIGRATIONS; k++)
      diag_note(q->diag, "%s: %s", migration_row[k].name, migration_row[k].doc);
    return misuse(q);
  }
  q->migrate = fit && q->has_data ? (Migration)i : MIGRATION_NONE;
  if (i == MIGRATION_NONE || i == MIGRATION_AUTO) return TENON_OK;
  if (!fit || !(bytes ? migration_row[i].bytes : migration_row[i].floats))
    fail(q->diag, TENON_EINVAL, NOWHERE, "--migrate %s is not for %s: it is for %s", to, q->o->to,
         !migration_row[i].floats  ? "int8 and int8-dynamic"
         : !migration_row[i].bytes ? "w8 and w4"
                                   : "choices of 8 or 4 bits");
  else if (!q->has_data)
    fail(q->diag, TENON_EINVAL, NOWHERE, "--migrate %s needs samples: give --data", to);
  else
    return TENON_OK;
  return misuse(q);
}

static tenon_status take_choice(Quantize *q, Choice *out) {
  const char *to = q->o->to;
  bool search = !strcmp(to, AUTO);
  int c = search ? CHOICE_INT8 : choice_find(str_of(to));
  if (c <= CHOICE_F32 || choice_row[c].zeros) return no_choice(q);
  if (search && !q->o->budget) {
    fail(q->diag, TENON_EINVAL, NOWHERE,
         "--to auto needs a limit: give --budget, such as --budget 'agreement>=99%%'");
    return misuse(q);
  }
  q->result->searched = search;
  *out = (Choice)c;
  if (choice_row[c].needs_data && !q->has_data) {
    fail(q->diag, TENON_EINVAL, NOWHERE,
         "%s needs samples: give --data, or take --to int8-dynamic or w8", to);
    return misuse(q);
  }
  TRY(take_method(q, *out));
  return take_migration(q, *out);
}

// What `tenon prune` is asked for: the zeros of all layers, or a search.
static tenon_status take_pattern(Quantize *q) {
  static const char *const names[] = {AUTO, "vector", "2:4"};
  const QuantizeOptions *o = q->o;
  int i = 0;
  while (i < ARRAY_LEN(names) && strcmp(o->pattern, names[i])) i++;
  if (i == ARRAY_LEN(names)) {
    fail(q->diag, TENON_EINVAL, NOWHERE, "there is no pattern '%s'%s; vector, 2:4 and auto are",
         o->pattern, did_you_mean(str_of(o->pattern), names, ARRAY_LEN(names)).s);
    return misuse(q);
  }
  q->prune.pattern = i == 2 ? PRUNE_FOURS : PRUNE_VECTOR;
  q->prune.zeros = o->zeros ? o->zeros : i == 2 || !o->budget ? 50 : 0;
  q->result->searched = !q->prune.zeros;
  if ((i == 2 && q->prune.zeros != 50) ||
      (q->prune.zeros && q->prune.zeros != 50 && q->prune.zeros != 75)) {
    fail(q->diag, TENON_EINVAL, NOWHERE, "%d %% of zeros: 50 or 75 are possible, with 2:4 50",
         q->prune.zeros);
    return misuse(q);
  }
  if (q->has_data) return TENON_OK;
  fail(q->diag, TENON_EINVAL, NOWHERE, "pruning needs samples: give --data");
  return misuse(q);
}

static tenon_status take_metric(Quantize *q) {
  QuantizeResult *r = q->result;
  q->scores = metric_scores(q->from->graph);
  q->metric = q->scores >= 0 ? METRIC_AGREEMENT : METRIC_RMS;
  if (q->o->metric) {
    int m = metric_find(str_of(q->o->metric));
    if (m < 0) {
      fail(q->diag, TENON_EINVAL, NOWHERE, "there is no metric '%s'", q->o->metric);
      return misuse(q);
    }
    q->metric = (Metric)m;
  }
  if (q->o->budget) {
    if (budget_parse(str_of(q->o->budget), q->diag, &r->budget)) return misuse(q);
    r->has_budget = true;
    q->metric = r->budget.metric;
  }
  const MetricRow *m = &metric_row[q->metric];
  if (m->labels && !q->o->labels) {
    fail(q->diag, TENON_EINVAL, NOWHERE, "%s needs labels: give --labels NAME", m->name);
    return misuse(q);
  }
  if (q->scores < 0 && q->metric != METRIC_RMS && q->metric != METRIC_COSINE) {
    fail(q->diag, TENON_EINVAL, NOWHERE,
         "%s needs an output of scores, [batch, classes] of floats, and the model has none",
         m->name);
    return misuse(q);
  }
  return TENON_OK;
}

static const double CONFIDENCE = 0.95;

static tenon_status enough_samples(Quantize *q) {
  const QuantizeResult *r = q->result;
  if (!r->has_budget) return TENON_OK;
  if (!q->has_data) {
    fail(q->diag, TENON_EINVAL, NOWHERE, "--budget needs samples: give --data");
    return misuse(q);
  }
  int64_t need = budget_samples(&r->budget, CONFIDENCE);
  int64_t have = dataset_count(&q->data, PART_CERTIFY);
  if (r->searched) have = MIN(have, dataset_count(&q->data, PART_SEARCH));
  if (have >= need) return TENON_OK;
  if (need == INT64_MAX)
    fail(q->diag, TENON_EINVAL, NOWHERE, "no number of samples certifies %s", q->o->budget);
  else
    fail(q->diag, TENON_EINVAL, NOWHERE,
         "%s with 95%% confidence needs %lld different samples to certify, so %lld in all; there "
         "are %lld to certify, and %lld in all",
         q->o->budget, (long long)need, (long long)ceil((double)need * 100 / split_percent[2]),
         (long long)have, (long long)q->data.sample.n);
  return misuse(q);
}

// ---- models and samples ----

static tenon_status open_models(Quantize *q) {
  const Model *source = q->o->source;
  ModelOptions o = {0};
  TRY(source ? model_copy(source, &o, q->diag, &q->from)
             : model_open(q->o->model, NULL, q->diag, &q->from));
  TRY(model_need_supported(q->from, q->diag));
  TRY(source ? model_copy(source, &o, q->diag, &q->work)
             : model_open(q->o->model, NULL, q->diag, &q->work));
  return TENON_OK;
}

// Copies of all samples that the caller gives, and labels.
static tenon_status collect(Quantize *q, SampleArrays *out) {
  const QuantizeOptions *o = q->o;
  int64_t n = q->from->graph->main->nparams;
  *out = (SampleArrays){.labels = o->labels != NULL};
  for (;;) {
    NdArray *v = arena_array(q->arena, NdArray, MAX(n, 1));
    int64_t label = -1;
    TRY(watch_step(o->watch, q->diag, "samples", "", out->sample.n, out->sample.n + 1));
    int got = o->next(o->next_ctx, v, n, &label);
    if (!got) return TENON_OK;
    if (got != 1)
      return fail(q->diag, TENON_ECANCELLED, NOWHERE, "the samples ended with an error behind %lld",
                  (long long)out->sample.n);
    for (int64_t i = 0; i < n; i++) v[i].data = arena_dup(q->arena, v[i].data, v[i].bytes);
    vec_push(q->arena, &out->sample, v);
    vec_push(q->arena, &out->label, label);
  }
}

static tenon_status open_data(Quantize *q) {
  const QuantizeOptions *o = q->o;
  SampleArrays given;
  if (!o->data && !o->next) return TENON_OK;
  q->has_data = true;
  if (o->next) {
    TRY(collect(q, &given));
    TRY(dataset_of_samples(q->from->graph, &given, o->seed, q->arena, q->diag, &q->data));
  } else {
    TRY(dataset_read(q->from->graph, o->data, o->labels, o->seed, q->arena, q->diag, &q->data));
  }
  q->result->samples = q->data.sample.n;
  q->result->duplicates = q->data.duplicates;
  return TENON_OK;
}

// Rules of all formats are applied: batch normalisation is in the weights, constants are folded.
static tenon_status optimise(Quantize *q) {
  CompileOptions o;
  CompileReport made = {0};
  compile_defaults(&o);
  o.watch = q->o->watch;
  o.stop_after = "simplify-graph";
  q->work->spent = true;
  q->work->graph->diag = q->diag;
  TRY(compile_graph(q->work->graph, &o, COMPILE_OPTIMISE, q->arena, q->diag, &made));
  q->base = q->work->graph->main;
  groups_find(q->work->graph, q->o->keep, q->o->nkeep, q->arena, &q->groups);
  q->result->groups = q->groups.n;
  q->rewrite = (RewriteOptions){.method = q->method,
                                .search_weights = q->method == RANGE_MSE,
                                .correct_bias = !q->o->no_correction};
  if (q->groups.n) return TENON_OK;
  return fail(q->diag, TENON_EINVAL, (Where){.file = q->o->model},
              "there is nothing to %s: no convolution or matrix product of floats has "
              "constant weights. Is the model quantised already?",
              q->o->pattern ? "prune" : "quantise");
}

static Hash model_hash(const Model *m) {
  return hash_of_bytes((Str){(const char *)m->file.bytes, m->file.size});
}

static tenon_status calibrate(Quantize *q) {
  Graph *g = q->work->graph;
  Hash model = model_hash(q->from), data = dataset_hash(&q->data, PART_CALIBRATE);
  tensors_observe(g, &q->groups, q->arena, &q->stats);
  if (q->o->stats && !platform->info(q->o->stats, &(FileInfo){0})) {
    File f;
    TRY(file_open(q->o->stats, &f, q->diag));
    Where base = q->diag->base;
    q->diag->base = (Where){.file = q->o->stats};
    tenon_status s = stats_read((Str){(const char *)f.bytes, f.size}, &model, &data, &q->stats,
                                q->arena, q->diag);
    q->diag->base = base;
    file_close(&f);
    return s;
  }
  ObserveOptions o = {.run = runs(q), .runner = &q->other};
  TRY(observe_run(g, &q->data, PART_CALIBRATE, &o, &q->stats, q->arena, q->diag));
  if (!q->o->stats) return TENON_OK;
  return stats_write(q->o->stats, &q->stats, &model, &data, q->arena, q->diag);
}

// ---- one set of choices ----

// The quantised model's bytes, by the groups' choices; read again and compiled.
static tenon_status make_model(Quantize *q) {
  Graph *g = q->work->graph;
  ExportOptions eo = {.memory = &q->bytes};
  TRY(rewrite_choices(g, q->base, &q->groups, &q->stats, &q->rewrite, q->arena, q->diag));
  const char *name = q->o->output ? q->o->output : "model.onnx";
  strbuf_init(&q->bytes, q->arena);
  TRY(export_onnx(g, name, &eo, q->diag));
  g->main = q->base;
  runner_close(&q->runner);
  model_free(q->made);
  q->made = NULL;
  TRY(model_open_memory(q->bytes.p, q->bytes.n, name, NULL, q->diag, &q->made));
  RunnerOptions o = runs(q);
  return runner_open(q->made->graph, &o, q->diag, &q->runner);
}

static int64_t count_quantized(const Quantize *q) {
  int64_t n = 0;
  for (int64_t i = 0; i < q->groups.n; i++) n += q->groups.v[i].choice != CHOICE_F32;
  return n;
}

static tenon_status round_blocks(Quantize *q) {
  BlockWeights *w;
  LayersTask t = {.g = q->work->graph,
                  .base = q->base,
                  .groups = &q->groups,
                  .block = q->o->block ? q->o->block : 32,
                  .data = q->gptq ? &q->data : NULL,
                  .stats = &q->stats,
                  .observe = {.run = runs(q), .runner = &q->other},
                  .scratch = &q->scratch};
  TRY(layers_round(&t, q->arena, q->diag, &w));
  q->rewrite.blocks = w;
  return TENON_OK;
}

static tenon_status choose_all(Quantize *q, Choice c) {
  const ChoiceRow *row = &choice_row[c];
  for (int64_t i = 0; i < q->groups.n; i++) {
    QuantGroup *k = &q->groups.v[i];
    if (!k->kept && row->products && k->node->op == OP_conv)
      k->kept = str_printf(q->arena, "since %s is for matrix products", row->name);
    if (!k->kept) k->choice = c;
  }
  if (row->weight_bits == 4 && !q->rewrite.blocks) TRY(round_blocks(q));
  return make_model(q);
}

static SearchTask search_of(Quantize *q) {
  return (SearchTask){.g = q->work->graph,
                      .base = q->base,
                      .groups = &q->groups,
                      .stats = &q->stats,
                      .rewrite = &q->rewrite,
                      .data = &q->data,
                      .run = runs(q),
                      .want = &q->float_runner,
                      .got = &q->runner,
                      .scratch = &q->scratch,
                      .budget = q->result->budget,
                      .scores = q->scores,
                      .confidence = CONFIDENCE,
                      .any_speed = q->o->allow_slower};
}

static tenon_status choose_best(Quantize *q) {
  SearchTask t = search_of(q);
  q->rewrite.kept = arena_array(q->arena, KeptWeights, q->groups.n);
  q->rewrite.keep = q->arena;
  TRY(search_choices(&t, q->arena, q->diag, &q->result->search));
  return q->result->search.best < 0 ? TENON_OK : make_model(q);
}

// ---- moving scale ----

// How much the model that was made loses.
static tenon_status loss_of(Quantize *q, double *out) {
  enum { SAMPLES = 64 };
  SplitPart part = dataset_count(&q->data, PART_SEARCH) ? PART_SEARCH : PART_CALIBRATE;
  return evaluate_error(&q->float_runner, &q->runner, &q->data, part, SAMPLES, q->scores, q->diag,
                        out);
}

static const char *migration_text(Quantize *q, const MigratePlan *p, const char *what) {
  StrBuf b;
  int64_t of[MIGRATIONS] = {0}, told = 0;
  strbuf_init(&b, q->arena);
  for (int64_t i = 0; i < p->site.n; i++) of[p->site.v[i].kind]++;
  strbuf_puts(&b, what);
  for (int i = 0; i < MIGRATIONS; i++)
    if (of[i])
      strbuf_printf(&b, "%s%s of %lld tensor%s", told++ ? ", " : " ", migration_row[i].name,
                    (long long)of[i], of[i] > 1 ? "s" : "");
  if (p->even) strbuf_printf(&b, "%s%lld would not gain", told++ ? ", " : " ", (long long)p->even);
  if (p->refused)
    strbuf_printf(&b, "%s%lld without anything that could take it", told++ ? ", " : " ",
                  (long long)p->refused);
  if (!told) strbuf_puts(&b, " there is no tensor to take it from");
  return strbuf_text(&b);
}

// Statistics of the graph as it is now, from at most so many samples; 0: from all that calibrate.
static tenon_status observe_again(Quantize *q, int64_t samples) {
  ObserveOptions o = {.run = runs(q), .runner = &q->other, .most_samples = samples};
  q->stats = (StatsList){0};
  tensors_observe(q->work->graph, &q->groups, q->arena, &q->stats);
  q->work->graph->main = q->base;
  return observe_run(q->work->graph, &q->data, PART_CALIBRATE, &o, &q->stats, q->arena, q->diag);
}

// The graph with scale moved, and its groups.
static tenon_status move_scale(Quantize *q, const MigrateTask *t, const MigratePlan *p) {
  const Node **made;
  Graph *g = q->work->graph;
  g->main = q->base;
  TRY(migrate_apply(t, p, q->arena, q->diag, &made));
  q->base = g->main;
  for (int64_t i = 0; i < q->groups.n; i++) {
    q->groups.v[i].node = made[i];
    if (p->of[i] != MIGRATION_NONE) q->groups.v[i].migrated = migration_row[p->of[i]].name;
  }
  q->rewrite.blocks = NULL;
  return TENON_OK;
}

typedef struct Variant {  // of the graph: with or without scale moved
  Body *base;
  GroupList groups;
  StatsList stats;
  const BlockWeights *blocks;
  double loss;
} Variant;

static GroupList copy_groups(Quantize *q, const GroupList *l) {
  return (GroupList){arena_dup(q->arena, l->v, l->n * (int64_t)sizeof *l->v), l->n, l->n};
}

static void restore(Quantize *q, const Variant *v) {
  q->base = v->base;
  q->groups = copy_groups(q, &v->groups);
  q->stats = v->stats;
  q->rewrite.blocks = v->blocks;
}

// Makes the model of the graph as it is now, judges it, and forgets the choices.
static tenon_status try_variant(Quantize *q, Choice c, Variant *v) {
  *v = (Variant){.base = q->base, .groups = copy_groups(q, &q->groups), .stats = q->stats};
  TRY(choose_all(q, c));
  v->blocks = q->rewrite.blocks;
  TRY(loss_of(q, &v->loss));
  restore(q, v);
  return TENON_OK;
}

// Leaves the graph as it loses less.  Few samples tell which one that is.
static tenon_status move_if_better(Quantize *q, Choice c, const MigrateTask *t,
                                   const MigratePlan *p) {
  enum { FEW = 64 };
  static const double GAIN = 0.9;
  Variant plain, moved;
  TRY(try_variant(q, c, &plain));
  TRY(move_scale(q, t, p));
  TRY(observe_again(q, FEW));
  TRY(try_variant(q, c, &moved));
  q->result->migrated = moved.loss < GAIN * plain.loss;
  if (!q->result->migrated) restore(q, &plain);
  return TENON_OK;
}

static tenon_status migrate(Quantize *q, Choice c) {
  MigratePlan p;
  QuantizeResult *r = q->result;
  GroupList groups = copy_groups(q, &q->groups);
  MigrateTask t = {.g = q->work->graph,
                   .groups = &groups,
                   .stats = &q->stats,
                   .choice = c,
                   .block = q->o->block ? q->o->block : 32,
                   .how = q->migrate};
  q->work->graph->main = q->base;
  TRY(migrate_find(&t, q->arena, q->diag, &p));
  if (p.site.n && q->migrate != MIGRATION_AUTO) {
    TRY(move_scale(q, &t, &p));
    r->migrated = true;
  } else if (p.site.n) {
    TRY(move_if_better(q, c, &t, &p));
  }
  if (r->migrated) TRY(observe_again(q, 0));
  r->migration = migration_text(q, &p,
                                r->migrated ? "scale moved:"
                                : p.site.n  ? "scale stays, moving it gains less than a tenth:"
                                            : "scale stays:");
  return TENON_OK;
}

// ---- pruning ----

static tenon_status choose_pruned(Quantize *q) {
  PruneTask *t = &q->prune;
  PruneFigures *f;
  const int64_t *leader;
  t->g = q->work->graph;
  t->base = q->base;
  t->groups = &q->groups;
  t->data = &q->data;
  t->observe = (ObserveOptions){.run = runs(q), .runner = &q->other};
  t->any_speed = q->o->allow_slower;
  t->scratch = &q->scratch;
  t->weights = arena_array(q->arena, PrunedWeights, q->groups.n);
  q->rewrite.pruned = t->weights;
  TRY(prune_layers(t, q->arena, q->diag, &f, &leader));
  if (q->result->searched) {
    SearchTask s = search_of(q);
    TRY(prune_search(&s, f, leader, q->arena, q->diag, &q->result->search));
  }
  prune_figures(&q->groups, f);
  if (count_quantized(q)) return make_model(q);
  q->result->search.best = -1;
  return TENON_OK;
}

// ---- the certificate ----

// Samples that a target which interprets can run in a second or so; 0: not even one.
static int64_t samples_for(Quantize *q, const Target *t) {
  enum { SAMPLES = 4 };
  static const double INTERPRETED = 2e7;  // operations
  DimBinding b;
  GraphCost cost;
  if (!t->keeps_loops) return SAMPLES;
  binding_init(&b, q->arena, q->from->graph);
  binding_typical(&b, q->from->graph);
  cost_graph(q->from->graph, &b, q->arena, &cost);
  return MIN((int64_t)(INTERPRETED / fmax(cost.flops, 1)), SAMPLES);
}

// Targets whose results have the same bits as those of the target that was asked for.
static tenon_status find_exact(Quantize *q, QuantCertificate *c) {
  static const char *const asked[] = {"cpu", "ref"};
  for (int64_t i = 0; i < ARRAY_LEN(asked); i++) {
    const Target *t = target_find(asked[i]);
    bool same = t == q->o->target;
    if (!t || !target_available(t)) continue;
    int64_t samples = samples_for(q, t);
    if (!same && samples) {
      RunnerOptions o = runs(q);
      o.target = t;
      TRY(runner_open(q->made->graph, &o, q->diag, &q->other));
      TRY(evaluate_same(&q->runner, &q->other, &q->data, PART_CERTIFY, samples, q->diag, &same));
      runner_close(&q->other);
    }
    if (same) vec_push(q->arena, &c->exact_on, t->name);
  }
  return TENON_OK;
}

// How often these samples have certified a model of this origin, as far as the file says that is
// replaced.
static int64_t looks_before(const Quantize *q, const QuantCertificate *c) {
  File f;
  Diag *quiet = arena_new(q->arena, Diag);
  QuantCertificate old;
  diag_init(quiet);
  const char *path = q->result->certificate_path;
  if (!path || platform->info(path, &(FileInfo){0})) return 0;
  if (file_open(path, &f, quiet)) return 0;
  tenon_status s =
      quant_certificate_parse((Str){(const char *)f.bytes, f.size}, q->arena, quiet, &old);
  file_close(&f);
  bool same = !s && !memcmp(&old.from, &c->from, sizeof old.from) &&
              !memcmp(&old.data, &c->data, sizeof old.data);
  return same ? old.looks : 0;
}

static const char *options_text(const Quantize *q) {
  StrBuf b;
  strbuf_init(&b, q->arena);
  if (!q->o->pattern)
    strbuf_printf(&b, "--to %s", q->o->to);
  else
    strbuf_printf(&b, "--pattern %s", q->o->pattern);
  if (q->prune.zeros) strbuf_printf(&b, " --zeros %d", q->prune.zeros);
  if (q->rewrite.blocks)
    strbuf_printf(&b, " --method %s --block %lld", q->gptq ? "gptq" : "rtn",
                  (long long)(q->o->block ? q->o->block : 32));
  else if (!q->o->pattern)
    strbuf_printf(&b, " --method %s", range_method_name[q->method]);
  if (q->migrate != MIGRATION_NONE)
    strbuf_printf(&b, " --migrate %s", migration_row[q->migrate].name);
  for (int64_t i = 0; i < q->o->nkeep; i++) strbuf_printf(&b, " --keep '%s'", q->o->keep[i]);
  return strbuf_text(&b);
}

static tenon_status certify(Quantize *q) {
  QuantizeResult *r = q->result;
  QuantCertificate *c = &r->certificate;
  Evaluation e;
  TRY(evaluate(&q->float_runner, &q->runner, &q->data, PART_CERTIFY, q->metric, q->scores,
               CONFIDENCE, q->o->watch, q->arena, q->diag, &e));
  *c = (QuantCertificate){.metric = q->metric,
                          .value = e.value,
                          .bound = e.bound,
                          .confidence = CONFIDENCE,
                          .seed = q->o->seed,
                          .labels = q->o->labels,
                          .source = q->o->model,
                          .budget = q->o->budget,
                          .target = q->o->target->name,
                          .options = options_text(q)};
  c->model = hash_of_bytes(strbuf_str(&q->bytes));
  c->from = model_hash(q->from);
  c->data = dataset_hash(&q->data, PART_CERTIFY);
  c->samples = dataset_hash(&q->data, PARTS);
  c->has_samples = true;
  for (int k = 0; k < PARTS; k++) c->split[k] = dataset_count(&q->data, (SplitPart)k);
  c->looks = looks_before(q, c) + 1;
  quant_certificate_layers(c, &q->groups, q->arena);
  r->certified = true;
  return find_exact(q, c);
}

// ---- the result ----

tenon_status quantize_save(const QuantizeResult *r, const char *path, Arena *a, Diag *d) {
  const char *paths[] = {path, str_printf(a, "%s.certificate.json", path)};
  if (!r->certified) return file_write(path, r->model.p, r->model.n, d);
  return file_write_both(paths, (Str[]){r->model, r->certificate_text}, d);
}

// The report says why, where there is no model.
static tenon_status write_files(Quantize *q) {
  const QuantizeOptions *o = q->o;
  QuantizeResult *r = q->result;
  StrBuf text;
  if (o->output && r->verdict == QUANTIZE_WRITTEN)
    TRY(quantize_save(r, o->output, q->arena, q->diag));
  if (!o->report) return TENON_OK;
  strbuf_init(&text, q->arena);
  quantize_report(o, r, &text);
  return file_write(o->report, text.p, text.n, q->diag);
}

// Noise and the size of a file speak for what was asked for by name; the search has to gain.
static bool is_slower(const Quantize *q) {
  static const double NOISE = 1.05, GAIN = 0.98;
  return q->result->time.ratio > (q->result->searched ? GAIN : NOISE);
}

static tenon_status judge(Quantize *q) {
  static const double ENOUGH = 3e9;  // nanoseconds to measure the time in
  QuantizeResult *r = q->result;
  r->quantized = count_quantized(q);
  r->bytes[0] = q->from->file.size;
  for (int64_t i = 0; i < q->from->graph->source.n; i++)
    if (q->from->graph->source.v[i]->folder) r->bytes[0] += q->from->graph->source.v[i]->file.size;
  r->bytes[1] = q->bytes.n;
  r->model = strbuf_str(&q->bytes);
  if (q->has_data) {
    TRY(evaluate_time(&q->float_runner, &q->runner, &q->data, PART_CALIBRATE, ENOUGH, q->diag,
                      &r->time));
    TRY(certify(q));
  }
  if (r->certified) {
    StrBuf text;
    strbuf_init(&text, q->arena);
    quant_certificate_print(&r->certificate, &text);
    r->certificate_text = strbuf_str(&text);
  }
  if (r->has_budget && !budget_met(&r->budget, r->certificate.bound))
    r->verdict = QUANTIZE_MISSED;
  else if (q->has_data && !q->o->allow_slower && is_slower(q))
    r->verdict = QUANTIZE_SLOWER;
  return write_files(q);
}

static tenon_status quantize(Quantize *q) {
  Choice c = CHOICE_INT8;
  TRY(open_models(q));
  TRY(take_metric(q));
  TRY(open_data(q));
  TRY(q->o->pattern ? take_pattern(q) : take_choice(q, &c));
  TRY(take_block(q));
  TRY(enough_samples(q));
  TRY(optimise(q));
  if (q->has_data && !q->o->pattern) TRY(calibrate(q));
  RunnerOptions o = runs(q);
  if (q->has_data) TRY(runner_open(q->from->graph, &o, q->diag, &q->float_runner));
  q->result->search.best = 0;
  if (q->migrate != MIGRATION_NONE) TRY(migrate(q, c));
  TRY(q->o->pattern ? choose_pruned(q) : q->result->searched ? choose_best(q) : choose_all(q, c));
  if (q->result->search.best < 0) {
    q->result->verdict = q->result->search.point.n ? QUANTIZE_MISSED : QUANTIZE_SLOWER;
    if (q->o->pattern) quant_certificate_layers(&q->result->certificate, &q->groups, q->arena);
    return write_files(q);
  }
  return judge(q);
}

tenon_status quantize_model(const QuantizeOptions *o, Arena *a, Diag *d, bool *misused,
                            QuantizeResult *out) {
  Quantize *q = arena_new(a, Quantize);
  Trap t;
  *q = (Quantize){.o = o, .arena = a, .diag = d, .result = out, .misused = misused};
  *out = (QuantizeResult){0};
  if (o->output) out->certificate_path = str_printf(a, "%s.certificate.json", o->output);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = quantize(q);
  trap_leave(&t);
  close_all(q);
  return t.status;
}
