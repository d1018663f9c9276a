// search.c -- coded runs and the bisection of the path that follows from them (search.h).
//
// Errors of a run are Kullback-Leibler divergences where an output has scores, else squares of the
// relative error: both are quadratic in the disturbance, so that those of groups add up.
#include "compress/search.h"

#include <math.h>

typedef struct Search {
  const SearchTask *t;
  Arena *arena;
  Diag *diag;
  SearchResult *out;
  ChooseProblem problem;
  const int64_t *group;  // of the problem's groups, their numbers
  ChooseModel model;
  double float_ns, noise_ns;
} Search;

static const char stage[] = "search";
static const double LIKELY = 0.8, LITTLE = 1e-3;

// ---- one set of choices ----

static void set_choices(const Search *s, const bool *on) {
  GroupList *l = s->t->groups;
  for (int64_t i = 0; i < l->n; i++) l->v[i].choice = CHOICE_F32;
  for (int64_t i = 0; i < s->problem.n; i++)
    if (on[i]) l->v[s->group[i]].choice = CHOICE_INT8;
}

// Compiles the groups' choices.  What no integer kernel computes next to other choices is f32 here
// alone.
static tenon_status open_choices(const SearchTask *t, Diag *d) {
  GroupList *l = t->groups;
  arena_deinit(t->scratch);
  arena_init(t->scratch);
  const char **kept = arena_array(t->scratch, const char *, MAX(l->n, 1));
  for (int64_t i = 0; i < l->n; i++) kept[i] = l->v[i].kept;
  tenon_status st = rewrite_choices(t->g, t->base, l, t->stats, t->rewrite, t->scratch, d);
  for (int64_t i = 0; i < l->n; i++) l->v[i].kept = kept[i];
  if (!st) st = runner_open(t->g, &t->run, d, t->got);
  t->g->main = t->base;
  return st;
}

// ---- coded runs ----

enum { CODED_SAMPLES = 24 };

static tenon_status coded_run(Search *s, int64_t number, CodedRun *out) {
  static const double ENOUGH = 3e8;
  GroupList *l = s->t->groups;
  TimePair time;
  bool *on = arena_array(s->arena, bool, s->problem.n);
  choose_pattern(number, s->problem.n, on);
  set_choices(s, on);
  TRY(open_choices(s->t, s->diag));
  for (int64_t i = 0; i < s->problem.n; i++) on[i] = l->v[s->group[i]].choice == CHOICE_INT8;
  TRY(evaluate_error(s->t->want, s->t->got, s->t->data, PART_SEARCH, CODED_SAMPLES, s->t->scores,
                     s->diag, &out->error));
  TRY(evaluate_time(s->t->want, s->t->got, s->t->data, PART_SEARCH, ENOUGH, s->diag, &time));
  out->on = on;
  out->ns = time.ratio;
  s->float_ns = number ? fmin(s->float_ns, time.ns[0]) : time.ns[0];
  s->noise_ns = fmax(s->noise_ns, time.noise);
  return TENON_OK;
}

static tenon_status learn(Search *s) {
  static const double LEAST_NOISE = 0.01;
  CodedRuns runs = {0};
  int64_t n = choose_runs(s->problem.n);
  for (int64_t i = 0; i < n; i++) {
    CodedRun r;
    TRY(watch_step(s->t->run.watch, s->diag, stage, "coded run", i, n + SEARCH_ROUNDS));
    TRY(coded_run(s, i, &r));
    vec_push(s->arena, &runs, r);
  }
  for (int64_t i = 0; i < n; i++) runs.v[i].ns = (runs.v[i].ns - 1) * s->float_ns;
  s->noise_ns = fmax(s->noise_ns, LEAST_NOISE) * s->float_ns;
  s->out->runs = n;
  choose_fit(&s->problem, &runs, s->noise_ns, s->arena, &s->model);
  for (int64_t i = 0; s->t->any_speed && i < s->problem.n; i++)
    s->model.ns[i] = fmin(s->model.ns[i], -LITTLE * s->float_ns * s->problem.work[i]);
  return TENON_OK;
}

tenon_status search_errors(const SearchTask *t, Choice c, const int64_t *leader, Arena *a, Diag *d,
                           SearchResult *out, double *error) {
  GroupList *l = t->groups;
  CodedRuns runs = {0};
  ChooseModel model;
  VEC(int64_t) number = {0};
  for (int64_t i = 0; i < l->n; i++) {
    error[i] = 0;
    if (!l->v[i].kept && leader[i] == i) vec_push(a, &number, i);
  }
  ChooseProblem p = {.n = number.n, .work = arena_array(a, double, MAX(number.n, 1))};
  for (int64_t r = 0; p.n && r < choose_runs(p.n); r++) {
    CodedRun run = {0};
    bool *on = arena_array(a, bool, p.n), *has = arena_array(a, bool, l->n);
    TRY(watch_step(t->run.watch, d, stage, "coded run", r, choose_runs(p.n) + SEARCH_ROUNDS));
    choose_pattern(r, p.n, on);
    for (int64_t i = 0; i < p.n; i++) has[number.v[i]] = on[i];
    for (int64_t i = 0; i < l->n; i++) l->v[i].choice = has[leader[i]] ? c : CHOICE_F32;
    TRY(open_choices(t, d));
    TRY(evaluate_error(t->want, t->got, t->data, PART_SEARCH, CODED_SAMPLES, t->scores, d,
                       &run.error));
    run.on = on;
    vec_push(a, &runs, run);
  }
  out->runs = runs.n;
  choose_fit(&p, &runs, 1, a, &model);
  for (int64_t i = 0; i < p.n; i++) error[number.v[i]] = model.error[i];
  return TENON_OK;
}

// ---- the path ----

tenon_status search_judge(const SearchTask *t, Arena *a, Diag *d, SearchResult *r, bool *likely) {
  static const double ENOUGH = 1e9;
  GroupList *l = t->groups;
  Evaluation e;
  SearchPoint p = {.choice = arena_array(a, Choice, MAX(l->n, 1))};
  int64_t done = r->runs + r->point.n;
  TRY(watch_step(t->run.watch, d, stage, "choices", done, r->runs + SEARCH_ROUNDS));
  TRY(open_choices(t, d));
  TRY(evaluate(t->want, t->got, t->data, PART_SEARCH, t->budget.metric, t->scores, t->confidence,
               NULL, t->scratch, d, &e));
  TRY(evaluate_time(t->want, t->got, t->data, PART_SEARCH, ENOUGH, d, &p.time));
  for (int64_t i = 0; i < l->n; i++) {
    p.choice[i] = l->v[i].choice;
    p.quantized += l->v[i].choice != CHOICE_F32;
  }
  p.value = e.value;
  p.bound = e.bound;
  double flips = e.margin[0] ? metric_flips(e.margin[0], e.margin[1], e.n, t->scratch) : -1;
  int64_t others = dataset_count(t->data, PART_CERTIFY);
  p.chance = metric_chance(&t->budget, e.value, e.bound, others, flips, t->confidence);
  *likely = p.chance >= LIKELY;
  vec_push(a, &r->point, p);
  return TENON_OK;
}

// The fastest end first; then the middle between the last that will not do and the first that will.
static tenon_status bisect(Search *s, const ChoicePath *path) {
  int64_t lo = -1, hi = path->n;
  for (int round = 0; round < SEARCH_ROUNDS && hi - lo > 1; round++) {
    int64_t at = round ? lo + (hi - lo) / 2 : 0;
    const bool *on = path->v[at];
    bool likely;
    set_choices(s, on);
    TRY(search_judge(s->t, s->arena, s->diag, s->out, &likely));
    SearchPoint *p = &s->out->point.v[s->out->point.n - 1];
    p->told_ns = choose_ns(&s->problem, &s->model, on);
    p->told_error = choose_error(&s->problem, &s->model, on);
    if (likely)
      hi = at;
    else
      lo = at;
  }
  return TENON_OK;
}

// ---- the result ----

// Where none is likely enough, the likeliest that quantises anything.
int64_t search_best(const SearchResult *r) {
  int64_t best = -1, likeliest = -1;
  for (int64_t i = 0; i < r->point.n; i++) {
    const SearchPoint *p = &r->point.v[i];
    if (!p->quantized || p->chance <= 0) continue;
    if (p->chance >= LIKELY && (best < 0 || p->time.ratio < r->point.v[best].time.ratio)) best = i;
    if (likeliest < 0 || p->chance > r->point.v[likeliest].chance) likeliest = i;
  }
  return best >= 0 ? best : likeliest;
}

static void put_figures(Search *s) {
  GroupList *l = s->t->groups;
  double total = 0;
  for (int64_t i = 0; i < s->problem.n; i++)
    if (l->v[s->group[i]].choice != CHOICE_F32) total += s->model.error[i];
  for (int64_t i = 0; i < s->problem.n; i++) {
    QuantGroup *q = &l->v[s->group[i]];
    bool on = q->choice != CHOICE_F32;
    q->ns[0] = s->problem.work[i] * s->float_ns;
    q->ns[1] = fmax(q->ns[0] + (on ? s->model.ns[i] : 0), 0);
    q->share = on && total > 0 ? s->model.error[i] / total : 0;
  }
}

// The groups that could be int8, as a list of their own: `groups` of the problem.
static void find_problem(Search *s) {
  GroupList *l = s->t->groups, mine = {0};
  VEC(int64_t) number = {0};
  for (int64_t i = 0; i < l->n; i++) {
    if (l->v[i].kept) continue;
    vec_push(s->arena, &mine, l->v[i]);
    vec_push(s->arena, &number, i);
  }
  s->group = number.v;
  groups_problem(s->t->g, &mine, s->arena, &s->problem);
}

tenon_status search_choices(const SearchTask *t, Arena *a, Diag *d, SearchResult *out) {
  Search s = {.t = t, .arena = a, .diag = d, .out = out};
  ChoicePath path;
  *out = (SearchResult){.best = -1};
  find_problem(&s);
  if (!s.problem.n) return TENON_OK;
  TRY(learn(&s));
  choose_path(&s.problem, &s.model, a, &path);
  while (path.n && choose_error(&s.problem, &s.model, path.v[path.n - 1]) <= 0) path.n--;
  TRY(bisect(&s, &path));
  out->best = search_best(out);
  for (int64_t i = 0; i < t->groups->n; i++)
    t->groups->v[i].choice = out->best >= 0 ? out->point.v[out->best].choice[i] : CHOICE_F32;
  put_figures(&s);
  return TENON_OK;
}
