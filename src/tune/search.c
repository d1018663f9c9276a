// search.c -- rounds over tasks: draft, rank, race, confirm; then the whole model (search.h).
//
// A round belongs to the task with the largest expected saving: its time in the model, times what
// its last rounds gained.  It drafts the neighbourhood of the best schedule so far, and takes those
// that the model of rank.h predicts to be fastest, some neighbours and some at random.  They race
// with quick code beside the default.  The winners are built in full, and confirmed by more runs.
//
// At the end the model runs with all winners beside the model without.  If it is slower, halves are
// tried alone, and what does not gain is reverted.
//
// Needs:      tasks of this process.
// Guarantees: a schedule is in the result only if its confirmation and the model's say so.  Drafts
//             and order depend on the seed, the tasks and the log alone.
#include "tune/search.h"

#include "base/platform.h"
#include "lower/tuned.h"
#include "targets/llvm/codegen.h"
#include "tune/draft.h"
#include "tune/measure.h"
#include "tune/rank.h"

#include <math.h>
#include <stdlib.h>

enum {
  RANKED = 9,
  NEIGHBOURS = 4,
  RANDOM = 3,
  BATCH = RANKED + NEIGHBOURS + RANDOM,
  CONFIRMED = 2,
  METERED = 4,  // by energy: the fastest, and such as are as fast as the default
  RACE_ROUNDS = 9,
  CONFIRM_ROUNDS = 25,
  MODEL_ROUNDS = 41,
  ENERGY_ROUNDS = 9,
  PAIRS = 600,
  LEAST_RUNS = 3,  // of each schedule of a round
  STALE = 6,       // rounds without a gain, after which a task is done
};
static const double first_hope = 0.12, fades = 0.55, better = 0.985, model_share = 0.12,
                    round_share = 0.06, round_seconds = 2, energy_seconds = 15, as_fast = 1.03;
static const int64_t batch_bytes = (int64_t)192 << 20;

typedef struct TaskState {
  StrMap seen;
  RankSums own;
  const char *best;  // the fastest so far in races
  double ratio;      // of its time to the default's
  double hope;       // of a round: the share of the task's time that it may save
  double confirmed;  // gain; 1: none
  int stale, rounds;
  bool done;
} TaskState;

typedef struct Search {
  TuneModel *m;
  const TuneSearch *o;
  TrialLog *log;
  TaskState *state;
  RankSums *of_template;  // by number in the table; n 0: not met yet
  int64_t begin, end;
  int64_t trials;
} Search;

// Somebody asks for the end, or nobody is left who times kernels.
static bool stopped(const Search *s) {
  return (s->o->stop && *s->o->stop) || (s->o->workers && !workers_left(s->o->workers));
}

static double seconds_since(int64_t t) { return (double)(platform->now() - t) / 1e9; }

static RankSums *template_sums(Search *s, const char *dflt) {
  Str name = {dflt, (int64_t)strcspn(dflt, " ")};
  const Template *tp = template_find(str_copy(s->m->arena, name));
  RankSums *r = &s->of_template[tp ? tp - template_table : 0];
  if (!r->n) rank_init(r, 4 * (tp ? tp->code->nfields : 1), s->m->arena);
  return r;
}

// ---- what is tried ----

typedef struct Scored {
  const Draft *d;
  double y;
  uint64_t dice;
} Scored;

static int by_prediction(const void *x, const void *y) {
  const Scored *a = x, *b = y;
  if (a->y != b->y) return a->y < b->y ? -1 : 1;
  if (a->d->nchanged != b->d->nchanged) return a->d->nchanged - b->d->nchanged;
  return a->dice != b->dice ? (a->dice < b->dice ? -1 : 1) : strcmp(a->d->schedule, b->d->schedule);
}

static int by_dice(const void *x, const void *y) {
  const Scored *a = x, *b = y;
  return a->dice != b->dice ? (a->dice < b->dice ? -1 : 1) : strcmp(a->d->schedule, b->d->schedule);
}

static double round_time(const Search *s) {
  return fmin(s->o->seconds * round_share, round_seconds);
}

// So many that their constants fit, and that each runs a few times in the time of a round.
static int64_t batch_size(const Search *s, const TuneTask *t) {
  double each = LEAST_RUNS * t->ns / (double)MAX(t->uses, 1) / 1e9;
  int64_t fit = MIN((int64_t)BATCH, batch_bytes / MAX(t->const_bytes, 1));
  if (each * (double)fit > round_time(s)) fit = (int64_t)(round_time(s) / each);
  return MAX(2, fit);
}

static bool is_picked(const char *const *pick, int64_t n, const char *schedule) {
  for (int64_t i = 0; i < n; i++)
    if (!strcmp(pick[i], schedule)) return true;
  return false;
}

static int64_t pick_drafts(Search *s, const TuneTask *t, TaskState *st, const DraftList *d,
                           Arena *a, const char **pick) {
  Scored *v = arena_array(a, Scored, d->n + 1);
  double *y = arena_array(a, double, d->n + 1);
  int64_t n = 0, most = batch_size(s, t), near = 0;
  rank_predict(template_sums(s, t->dflt), &st->own, d, a, y);
  for (int64_t i = 0; i < d->n; i++)
    v[i] = (Scored){&d->v[i], d->v[i].other ? -HUGE_VAL : y[i],  // few, of which nothing is known
                    hash_bytes(d->v[i].schedule, (int64_t)strlen(d->v[i].schedule),
                               s->o->seed + (uint64_t)st->rounds)};
  qsort(v, (size_t)d->n, sizeof *v, by_prediction);
  int64_t ranked = MAX(1, most * RANKED / BATCH);
  for (int64_t i = 0; i < d->n && n < ranked; i++) pick[n++] = v[i].d->schedule;
  qsort(v, (size_t)d->n, sizeof *v, by_dice);
  int64_t neighbours = most * NEIGHBOURS / BATCH;
  for (int64_t i = 0; i < d->n && near < neighbours && n < most; i++) {
    if (v[i].d->nchanged != 1 || is_picked(pick, n, v[i].d->schedule)) continue;
    pick[n++] = v[i].d->schedule;
    near++;
  }
  for (int64_t i = 0; i < d->n && n < most; i++)
    if (!is_picked(pick, n, v[i].d->schedule)) pick[n++] = v[i].d->schedule;
  return n;
}

// `seen` holds what was measured; drafts that were not picked may come again.
static tenon_status choose_batch(Search *s, int64_t i, Arena *a, const char **pick, int64_t *n) {
  TuneModel *m = s->m;
  TaskState *st = &s->state[i];
  DraftList d = {0};
  StrMap seen;
  DraftRules rules = {.reorder = m->reorder,
                      .seed = s->o->seed ^ hash_u64((uint64_t)st->rounds + 1),
                      .pairs = s->o->survey ? 0 : PAIRS};
  strmap_init(&seen, a);
  const char *from = s->o->survey ? m->task[i].dflt : st->best;
  TRY(draft_near(m, &m->task[i], from, &rules, &seen, a, &d));
  int64_t fresh = 0;
  for (int64_t k = 0; k < d.n; k++)
    if (!strmap_has(&st->seen, str_of(d.v[k].schedule)) && (!s->o->survey || d.v[k].nchanged == 1))
      d.v[fresh++] = d.v[k];
  d.n = fresh;
  *n = d.n ? pick_drafts(s, &m->task[i], st, &d, a, pick) : 0;
  for (int64_t k = 0; k < *n; k++) {
    const char *kept = str_copy(m->arena, str_of(pick[k]));
    strmap_put(&st->seen, str_of(kept), st);
  }
  return TENON_OK;
}

// ---- a round ----

// Of task i; -1: of a kernel that is none of the model.
static void learn(Search *s, int64_t i, const Trial *t, Arena *a) {
  double x[DRAFT_FEATURES], gain = trial_gain(t);
  if (gain <= 0 || t->status == TRIAL_WRONG || t->status == TRIAL_FAILED) return;
  if (!trial_is_time(t)) return;
  if (!draft_features(t->dflt, t->schedule, a, x)) return;
  double y = fmax(-1, fmin(1, -log(gain)));
  rank_add(template_sums(s, t->dflt), x, y);
  if (i >= 0) rank_add(&s->state[i].own, x, y);
}

typedef struct Winner {
  const char *schedule;
  double ratio;
} Winner;

static int by_ratio(const void *x, const void *y) {
  const Winner *a = x, *b = y;
  return (a->ratio > b->ratio) - (a->ratio < b->ratio);
}

// So long from now, or the end of the search if that is earlier.
static int64_t in_seconds(const Search *s, double seconds) {
  return MIN(s->end, platform->now() + (int64_t)(seconds * 1e9));
}

static tenon_status measure_here(Search *s, int64_t i, const char *const *pick, int64_t n,
                                 TrialPhase phase, Trial *out) {
  Stage stage;
  bool quick = phase == TRIAL_RACE;
  int64_t until = platform->now() + (int64_t)(round_time(s) * 1e9);
  tenon_status status = stage_open(&stage, s->m, &s->m->task[i], pick, n, quick);
  if (!status && (quick || phase == TRIAL_CONFIRM))
    status = stage_race(&stage, quick ? RACE_ROUNDS : CONFIRM_ROUNDS, until, quick);
  else if (!status)
    status = stage_energy(&stage, ENERGY_ROUNDS, in_seconds(s, energy_seconds));
  for (int64_t k = 0; !status && k < n; k++) stage_trial(&stage, k + 1, phase, &out[k]);
  stage_close(&stage);
  return status;
}

// Trials of some schedules of a task, which join the log.
static tenon_status measure(Search *s, int64_t i, const char *const *pick, int64_t n,
                            TrialPhase phase, Trial *out) {
  WorkersRace race = {.phase = phase,
                      .rounds = phase == TRIAL_RACE ? RACE_ROUNDS : CONFIRM_ROUNDS,
                      .seconds = round_time(s)};
  if (s->o->workers)
    TRY(workers_measure(s->o->workers, s->m, &s->m->task[i], pick, n, &race, out));
  else
    TRY(measure_here(s, i, pick, n, phase, out));
  for (int64_t k = 0; k < n; k++) trial_log_add(s->log, &out[k]);
  s->trials += n;
  return TENON_OK;
}

static tenon_status race(Search *s, int64_t i, const char *const *pick, int64_t n, Arena *a,
                         Winner *win, int64_t *nwins) {
  Trial *t = arena_array(a, Trial, n + 1);
  *nwins = 0;
  TRY(measure(s, i, pick, n, TRIAL_RACE, t));
  for (int64_t k = 0; k < n; k++) {
    learn(s, i, &t[k], a);
    double gain = trial_gain(&t[k]);
    if (t[k].status == TRIAL_OK && gain > 0) win[(*nwins)++] = (Winner){pick[k], 1 / gain};
  }
  if (*nwins) qsort(win, (size_t)*nwins, sizeof *win, by_ratio);
  return TENON_OK;
}

static tenon_status confirm(Search *s, int64_t i, const char *const *pick, int64_t n) {
  Trial t[METERED];
  TaskState *st = &s->state[i];
  TRY(measure(s, i, pick, n, s->m->confirm, t));
  for (int64_t k = 0; k < n; k++)
    if (trial_wins(&t[k])) st->confirmed = MAX(st->confirmed, trial_gain(&t[k]));
  return TENON_OK;
}

// What a round found, if it is better than what there was.
static tenon_status confirm_best(Search *s, int64_t i, const Winner *win, int64_t nwins) {
  TaskState *st = &s->state[i];
  const char *pick[METERED];
  int64_t n = 0, most = s->m->confirm == TRIAL_CONFIRM ? CONFIRMED : METERED;
  double limit = s->m->confirm == TRIAL_CONFIRM ? MIN(st->ratio, 1) * better : as_fast;
  for (int64_t k = 0; k < nwins && n < most; k++)
    if (win[k].ratio < limit) pick[n++] = win[k].schedule;
  if (!n) return TENON_OK;
  if (!s->o->survey && win[0].ratio < MIN(st->ratio, 1) * better) {
    st->best = str_copy(s->m->arena, str_of(pick[0]));
    st->ratio = win[0].ratio;
  }
  return confirm(s, i, pick, n);
}

static tenon_status try_task(Search *s, int64_t i, Arena *a) {
  TaskState *st = &s->state[i];
  const char *pick[BATCH];
  Winner win[BATCH];
  int64_t n, nwins;
  double before = st->confirmed;
  TRY(choose_batch(s, i, a, pick, &n));
  st->rounds++;
  if (!n) {
    st->done = true;
    return TENON_OK;
  }
  TRY(race(s, i, pick, n, a, win, &nwins));
  TRY(confirm_best(s, i, win, nwins));
  double won = 1 - before / st->confirmed;
  st->stale = won > 0.005 ? 0 : st->stale + 1;
  st->hope = MAX(won, st->hope * fades);
  st->done = !s->o->survey && st->stale >= STALE;
  return TENON_OK;
}

// A task that cannot be measured is left as it is; without memory nothing can.
static tenon_status try_guarded(Search *s, int64_t i) {
  static _Thread_local Diag quiet;
  Arena a;
  Diag *was = s->m->diag;
  arena_init_scoped(&a);
  diag_init(&quiet);
  s->m->diag = &quiet;
  tenon_status status = try_task(s, i, &a);
  s->m->diag = was;
  arena_deinit(&a);
  if (status == TENON_ENOMEM || status == TENON_ECANCELLED)
    return diag_again(was, status, quiet.text);
  if (status) s->state[i].done = true;
  return TENON_OK;
}

static int64_t next_task(const Search *s) {
  int64_t best = -1;
  double most = 0;
  for (int64_t i = 0; i < s->m->ntasks; i++) {
    const TaskState *st = &s->state[i];
    double saving = st->done       ? 0
                    : s->o->survey ? 1 / (1.0 + st->rounds)
                                   : s->m->task[i].ns / st->confirmed * st->hope;
    if (saving > most) most = saving, best = i;
  }
  return best;
}

static double model_gain(const Search *s) {
  double saved = 0;
  for (int64_t i = 0; i < s->m->ntasks; i++)
    saved += s->m->task[i].ns * (1 - 1 / s->state[i].confirmed);
  return s->m->ns > saved ? s->m->ns / (s->m->ns - saved) : 1;
}

static tenon_status tell(Search *s, const TuneTask *t, int64_t first) {
  TuneStatus now = {
      .task = t, .trials = s->trials, .seconds = seconds_since(s->begin), .gain = model_gain(s)};
  now.left = MAX(s->o->seconds - now.seconds, 0);
  return s->o->round ? s->o->round(s->o->ctx, &now, s->log, first) : TENON_OK;
}

static tenon_status search_tasks(Search *s) {
  while (!stopped(s) && platform->now() < s->end) {
    int64_t i = next_task(s), first = s->log->n;
    if (i < 0) break;
    TRY(try_guarded(s, i));
    TRY(tell(s, &s->m->task[i], first));
  }
  return TENON_OK;
}

// ---- what earlier runs found ----

static bool was_seen(const Search *s, int64_t i, const char *schedule) {
  return strmap_has(&s->state[i].seen, str_of(schedule));
}

static void learn_similar(Search *s) {
  const TrialLog *l = s->o->similar;
  Arena a;
  arena_init_scoped(&a);
  for (int64_t i = 0; l && i < l->n; i++) learn(s, -1, l->v[i], &a);
  arena_deinit(&a);
}

// Schedules that won at another time are confirmed now.
static tenon_status try_earlier(Search *s) {
  const TrialLog *l = s->o->earlier;
  for (int64_t i = 0; l && i < s->m->ntasks && !stopped(s); i++) {
    const char *pick[CONFIRMED];
    int64_t n = 0, first = s->log->n;
    Arena a;
    arena_init_scoped(&a);
    for (int64_t k = l->n; k-- > 0;) {
      const Trial *t = l->v[k];
      if (strcmp(t->key, s->m->task[i].key) || strcmp(t->dflt, s->m->task[i].dflt)) continue;
      learn(s, i, t, &a);
      if (t->phase == TRIAL_RACE || was_seen(s, i, t->schedule)) continue;
      if (n == CONFIRMED || !trial_wins(t)) continue;
      strmap_put(&s->state[i].seen, str_of(t->schedule), s);
      s->state[i].best = t->schedule;
      pick[n++] = t->schedule;
    }
    arena_deinit(&a);
    if (!n) continue;
    TRY(confirm(s, i, pick, n));
    s->state[i].ratio = 1 / s->state[i].confirmed;
    if (s->state[i].ratio >= 1) s->state[i].best = s->m->task[i].dflt;
    TRY(tell(s, &s->m->task[i], first));
  }
  return TENON_OK;
}

// ---- the whole model ----

static tenon_status model_trial(Search *s, const TunedSchedules *all, const bool *keep,
                                Trial *out) {
  StrBuf reverted;
  TunedSchedules some = *all;
  some.entry = arena_array(s->m->arena, TunedSchedule, all->n + 1);
  some.n = 0;
  strbuf_init(&reverted, s->m->arena);
  for (int64_t i = 0; i < all->n; i++) {
    if (keep[i])
      some.entry[some.n++] = all->entry[i];
    else
      strbuf_printf(&reverted, "%s%s", reverted.n ? " " : "", all->entry[i].key);
  }
  tuned_print(&some, s->m->arena);  // which sorts it
  int64_t until = platform->now() + (int64_t)(s->o->seconds * model_share / 3 * 1e9);
  TRY(measure_model(s->m, &some, MODEL_ROUNDS, until, out));
  out->key = strbuf_text(&reverted);
  trial_log_add(s->log, out);
  return TENON_OK;
}

static bool model_survives(const Trial *t) { return t->status == TRIAL_OK && trial_gain(t) >= 1; }

static tenon_status check_model(Search *s) {
  TunedSchedules all;
  Trial t;
  tune_decide(s->log, s->m->machine_text, s->m->reorder, s->m->arena, &all);
  if (!all.n) return TENON_OK;
  bool *keep = arena_array(s->m->arena, bool, all.n), *good = arena_array(s->m->arena, bool, all.n);
  for (int64_t i = 0; i < all.n; i++) keep[i] = true;
  TRY(model_trial(s, &all, keep, &t));
  if (model_survives(&t)) return TENON_OK;
  bool any = false;
  for (int half = 0; half < 2 && all.n > 1 && t.status != TRIAL_WRONG; half++) {
    for (int64_t i = 0; i < all.n; i++) keep[i] = (i < all.n / 2) == (half == 0);
    TRY(model_trial(s, &all, keep, &t));
    if (!model_survives(&t)) continue;
    for (int64_t i = 0; i < all.n; i++) good[i] |= keep[i];
    any = true;
  }
  if (any) TRY(model_trial(s, &all, good, &t));
  if (any && model_survives(&t)) return TENON_OK;
  memset(good, 0, (size_t)all.n);
  return model_trial(s, &all, good, &t);
}

// The time of each task by workers.  One that they cannot run has none, and is not searched.
static tenon_status profile_by_workers(Search *s) {
  Diag d;
  TuneModel *m = s->m;
  Diag *was = m->diag;
  for (int64_t i = 0; i < m->ntasks && !stopped(s); i++) {
    TuneTask *t = &m->task[i];
    diag_init(&d);
    m->diag = &d;
    tenon_status status = workers_time(s->o->workers, m, t, &t->ns);
    m->diag = was;
    if (status == TENON_ENOMEM || status == TENON_ECANCELLED)
      return diag_again(was, status, d.text);
    if (!workers_left(s->o->workers)) return diag_again(was, status, d.text);
    t->ns = status ? 0 : t->ns * (double)t->uses;
    m->ns += t->ns;
  }
  tune_sort(m);
  return TENON_OK;
}

static tenon_status search_all(Search *s) {
  learn_similar(s);
  TRY(try_earlier(s));
  TRY(search_tasks(s));
  int64_t first = s->log->n;
  if (!s->o->workers && !s->o->survey) TRY(check_model(s));
  return tell(s, NULL, first);
}

tenon_status tune_search(TuneModel *m, const TuneSearch *o, TrialLog *log, double *out_gain) {
  Codegen *codegen;
  *out_gain = 1;
  Search s = {.m = m, .o = o, .log = log, .begin = platform->now()};
  s.end = s.begin + (int64_t)(o->seconds * (1 - model_share) * 1e9);
  s.state = arena_array(m->arena, TaskState, m->ntasks + 1);
  s.of_template = arena_array(m->arena, RankSums, template_count);
  if (o->workers) TRY(profile_by_workers(&s));
  for (int64_t i = 0; i < m->ntasks; i++) {
    TaskState *st = &s.state[i];
    *st = (TaskState){.best = m->task[i].dflt, .ratio = 1, .hope = first_hope, .confirmed = 1};
    strmap_init(&st->seen, m->arena);
    strmap_put(&st->seen, str_of(st->best), st);
    rank_init(&st->own, template_sums(&s, m->task[i].dflt)->n, m->arena);
  }
  // Held all the while, so that its processes are started once.
  TRY(codegen_shared(m->threads, m->diag, &codegen));
  tenon_status status = search_all(&s);
  *out_gain = model_gain(&s);
  codegen_release(codegen);
  return status;
}
