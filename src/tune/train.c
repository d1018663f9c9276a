// train.c -- chooses rules by measurements (train.h).
//
// Candidates are changes that were measured (a field set to a value, or multiplied or divided)
// under conditions on one field of the default or on the vector width.  For each template a table
// holds the logarithm of each change's gain on each task.  A change that a task did not measure
// counts as no change.
//
// Needs:      records that record_check accepts.
// Guarantees: no sum depends on the order of the records: tasks are sorted first.  Rules name
//             fields and values that the templates have.
#include "tune/train.h"

#include "lower/template.h"

#include <math.h>
#include <stdlib.h>

enum { FOLDS = 5, LEAST_TASKS = 5, LEAST_AFFECTED = 8, RULES = 8, VECTOR_MOST = 1024 };
// Logarithms: what a rule must gain on average, and may lose on one of its tasks; the same of a
// template's rules on tasks that did not choose them; beyond what samples are noise.
static const double least_mean = 0.02, least_one = -0.02, held_mean = 0.01, held_one = -0.03,
                    most_one = 0.7;

typedef struct Task {
  const char *machine, *key, *dflt;
  ScheduleGiven given;  // the default's fields
  LowerTarget target;   // what rules ask of it
  int fold;
  bool listed;
  StrMap gain;  // schedule -> Gain
  VEC(const char *) schedule;
  double best;  // logarithm of the best confirmed gain
} Task;
typedef struct Gain {
  double y;
  bool confirmed;
} Gain;

typedef struct Move {
  const ScheduleField *field;
  ResidualHow how;
  int64_t value;
} Move;
typedef struct Condition {
  const char *when;
  int64_t least, most;
} Condition;

typedef struct Table {  // of one template
  const Template *t;
  Arena *a;
  Task **task;
  int64_t ntasks;
  VEC(Move) move;
  VEC(Condition) cond;
  double *y;       // [move][task]; NaN: not measured there
  uint8_t *holds;  // [condition][task]
} Table;
typedef struct Chosen {
  ResidualRule v[RULES];
  int64_t n;
} Chosen;

// ---- tasks ----

static int order_of(const char *a, const char *b, int otherwise) {
  int x = strcmp(a, b);
  return x ? x : otherwise;
}

static int by_task(const void *x, const void *y) {
  const Task *a = *(Task *const *)x, *b = *(Task *const *)y;
  return order_of(a->machine, b->machine, order_of(a->key, b->key, strcmp(a->dflt, b->dflt)));
}

static int64_t vector_of(const char *machine) {
  const char *at = strstr(machine, " vector=");
  return at ? strtol(at + 8, NULL, 10) : 0;
}

static Task *task_of(StrMap *map, const char *machine, const Trial *t, Arena *a) {
  const char *id = str_printf(a, "%s|%s|%s", machine, t->key, t->dflt);
  Task *k = strmap_get(map, str_of(id));
  if (k) return k;
  k = arena_new(a, Task);
  *k = (Task){.machine = machine, .key = t->key, .dflt = t->dflt};
  k->target.vector_bytes = (int)vector_of(machine);
  k->fold = (int)(hash_bytes(t->key, (int64_t)strlen(t->key), 0) % FOLDS);
  strmap_init(&k->gain, a);
  strmap_put(map, str_of(id), k);
  Diag *quiet = diag_unread();
  if (schedule_parse(a, t->dflt, quiet, &k->given)) k->given.t = NULL;
  return k;
}

// A confirmed gain replaces that of a race; of equal kinds the smaller one counts, whatever came
// first.
static void add_trial(Task *k, const Trial *t, Arena *a) {
  double gain = trial_gain(t);
  if (gain <= 0 || (t->status != TRIAL_OK && t->status != TRIAL_SLOW)) return;
  Gain g = {.y = fmax(-most_one, fmin(most_one, log(gain))),
            .confirmed = t->phase == TRIAL_CONFIRM};
  if (trial_wins(t)) k->best = fmax(k->best, g.y);
  Gain *had = strmap_get(&k->gain, str_of(t->schedule));
  if (!had) {
    strmap_put(&k->gain, str_of(t->schedule), arena_dup(a, &g, sizeof g));
    vec_push(a, &k->schedule, t->schedule);
    return;
  }
  if (had->confirmed == g.confirmed ? g.y < had->y : g.confirmed) *had = g;
}

static Task **read_tasks(const Records *r, Arena *a, int64_t *out_n) {
  StrMap map;
  VEC(Task *) all = {0};
  strmap_init(&map, a);
  for (int64_t i = 0; i < r->nruns; i++)
    for (int64_t k = 0; k < r->log[i].n; k++) {
      const Trial *t = r->log[i].v[k];
      if (!trial_is_time(t) || r->run[i].reorder) continue;
      Task *x = task_of(&map, r->run[i].machine, t, a);
      if (!x->listed && x->given.t) vec_push(a, &all, x);
      x->listed = true;
      add_trial(x, t, a);
    }
  if (all.n) qsort(all.v, (size_t)all.n, sizeof *all.v, by_task);
  *out_n = all.n;
  return all.v;
}

// ---- changes and conditions ----

static void add_move(Table *t, const ScheduleField *f, ResidualHow how, int64_t value) {
  for (int64_t i = 0; i < t->move.n; i++)
    if (t->move.v[i].field == f && t->move.v[i].how == how && t->move.v[i].value == value) return;
  vec_push(t->a, &t->move, ((Move){f, how, value}));
}

// What the schedule changes, where that is one FREE field.
static void add_moves(Table *t, const Task *k, const char *schedule) {
  ScheduleGiven s;
  const ScheduleField *changed = NULL;
  if (schedule_parse(t->a, schedule, diag_unread(), &s) || s.t != t->t) return;
  for (int i = 0; i < t->t->code->nfields; i++) {
    const ScheduleField *f = &t->t->code->field[i];
    if (schedule_value(f, s.fields) == schedule_value(f, k->given.fields)) continue;
    if (changed || f->effect != EFFECT_FREE) return;
    changed = f;
  }
  if (!changed) return;
  int64_t now = schedule_value(changed, k->given.fields), v = schedule_value(changed, s.fields);
  add_move(t, changed, RESIDUAL_SET, v);
  if (changed->attr.kind != ATTR_i64 || now <= 0 || v <= 0) return;
  if (v % now == 0) add_move(t, changed, RESIDUAL_TIMES, v / now);
  if (now % v == 0) add_move(t, changed, RESIDUAL_OVER, now / v);
}

static void add_condition(Table *t, const char *when, int64_t least, int64_t most) {
  for (int64_t i = 0; i < t->cond.n; i++) {
    const Condition *c = &t->cond.v[i];
    if (!strcmp(c->when, when) && c->least == least && c->most == most) return;
  }
  vec_push(t->a, &t->cond, ((Condition){when, least, most}));
}

static void add_conditions(Table *t, const Task *k) {
  int64_t bytes = k->target.vector_bytes;
  add_condition(t, "", 0, 0);
  add_condition(t, "vector", bytes, bytes);
  for (int i = 0; i < t->t->code->nfields; i++) {
    const ScheduleField *f = &t->t->code->field[i];
    int64_t v = schedule_value(f, k->given.fields);
    add_condition(t, f->attr.name, v, v);
    if (f->attr.kind != ATTR_i64) continue;
    add_condition(t, f->attr.name, f->lo, v);
    add_condition(t, f->attr.name, v, f->hi);
  }
}

static ResidualRule rule_of(const Table *t, const Move *m, const Condition *c) {
  return (ResidualRule){.template_name = t->t->name,
                        .field = m->field->attr.name,
                        .how = m->how,
                        .value = m->value,
                        .when = c->when,
                        .least = c->least,
                        .most = c->most};
}

// The logarithm of the gain of some rules on a task; NaN: they change it, and nobody measured that.
static double gain_of(const ResidualRule *r, int64_t n, const Task *k, Arena *a, bool *affects) {
  Schedule chosen = {k->given.t, k->given.fields};
  const char *text = residual_schedule(r, n, &k->target, chosen, a);
  const Gain *g = text ? strmap_get(&k->gain, str_of(text)) : NULL;
  *affects = g != NULL;
  return g ? g->y : NAN;
}

static void fill_table(Table *t) {
  static const Condition always = {"", 0, 0};
  bool affects;
  t->y = arena_array(t->a, double, t->move.n * t->ntasks + 1);
  t->holds = arena_array(t->a, uint8_t, t->cond.n * t->ntasks + 1);
  for (int64_t m = 0; m < t->move.n; m++) {
    ResidualRule r = rule_of(t, &t->move.v[m], &always);
    for (int64_t k = 0; k < t->ntasks; k++)
      t->y[m * t->ntasks + k] = gain_of(&r, 1, t->task[k], t->a, &affects);
  }
  for (int64_t c = 0; c < t->cond.n; c++) {
    ResidualRule r = {.template_name = t->t->name,
                      .when = t->cond.v[c].when,
                      .least = t->cond.v[c].least,
                      .most = t->cond.v[c].most};
    for (int64_t k = 0; k < t->ntasks; k++)
      t->holds[c * t->ntasks + k] =
          residual_fits(&r, &t->task[k]->target, (Schedule){t->t, t->task[k]->given.fields});
  }
}

static int by_move(const void *x, const void *y) {
  const Move *a = x, *b = y;
  if (a->field != b->field) return a->field < b->field ? -1 : 1;
  if (a->how != b->how) return a->how < b->how ? -1 : 1;
  return (a->value > b->value) - (a->value < b->value);
}

static int by_condition(const void *x, const void *y) {
  const Condition *a = x, *b = y;
  int w = strcmp(a->when, b->when);
  if (w) return w;
  if (a->least != b->least) return a->least < b->least ? -1 : 1;
  return (a->most > b->most) - (a->most < b->most);
}

// What differs from the default in one field, in an order of its own.
static void make_table(const Template *tp, Task **all, int64_t n, Arena *a, Table *t) {
  *t = (Table){.t = tp, .a = a, .task = arena_array(a, Task *, n + 1)};
  for (int64_t i = 0; i < n; i++)
    if (all[i]->given.t == tp) t->task[t->ntasks++] = all[i];
  for (int64_t i = 0; i < t->ntasks; i++) {
    Task *k = t->task[i];
    add_conditions(t, k);
    for (int64_t s = 0; s < k->schedule.n; s++) add_moves(t, k, k->schedule.v[s]);
  }
  if (t->move.n) qsort(t->move.v, (size_t)t->move.n, sizeof *t->move.v, by_move);
  if (t->cond.n) qsort(t->cond.v, (size_t)t->cond.n, sizeof *t->cond.v, by_condition);
  fill_table(t);
}

// ---- choosing ----

// The sum of logarithms of a change under a condition over tasks that are still open; 0: it is not
// good enough.
static double worth(const Table *t, int64_t m, int64_t c, const bool *open) {
  double sum = 0, least = 0;
  int64_t n = 0;
  const double *y = &t->y[m * t->ntasks];
  const uint8_t *holds = &t->holds[c * t->ntasks];
  for (int64_t k = 0; k < t->ntasks; k++) {
    if (!open[k] || !holds[k] || isnan(y[k])) continue;
    sum += y[k];
    least = fmin(least, y[k]);
    n++;
  }
  return n >= LEAST_TASKS && sum >= least_mean * (double)n && least >= least_one ? sum : 0;
}

// Tasks that the condition holds for are done: the first rule that fits counts.
static void choose_rules(const Table *t, const bool *use, Arena *a, Chosen *out) {
  bool *open = arena_dup(a, use, t->ntasks + 1);
  out->n = 0;
  while (out->n < RULES) {
    double most = 0;
    int64_t bm = 0, bc = 0;
    for (int64_t m = 0; m < t->move.n; m++)
      for (int64_t c = 0; c < t->cond.n; c++) {
        double w = worth(t, m, c, open);
        if (w > most) most = w, bm = m, bc = c;
      }
    if (most <= 0) return;
    out->v[out->n++] = rule_of(t, &t->move.v[bm], &t->cond.v[bc]);
    for (int64_t k = 0; k < t->ntasks; k++) open[k] &= !t->holds[bc * t->ntasks + k];
  }
}

typedef struct Sum {
  int64_t tasks, affected;
  double y, least, best;
} Sum;

static void add_score(const Chosen *c, const Task *k, Arena *a, Sum *s) {
  bool affects;
  double y = gain_of(c->v, c->n, k, a, &affects);
  s->tasks++;
  s->best += k->best;
  if (!affects) return;
  s->affected++;
  s->y += y;
  s->least = fmin(s->least, y);
}

static TrainScore score_of(const Sum *s) {
  return (TrainScore){.tasks = s->tasks,
                      .affected = s->affected,
                      .gain = s->affected ? exp(s->y / (double)s->affected) : 1,
                      .least = s->affected ? exp(s->least) : 1,
                      .recovered = s->best > 0 ? s->y / s->best : 0};
}

// Rules that the other folds choose, on the tasks of each fold.
static Sum hold_out(const Table *t, Arena *a) {
  Sum s = {0};
  bool *use = arena_array(a, bool, t->ntasks + 1);
  for (int f = 0; f < FOLDS; f++) {
    Chosen c;
    for (int64_t k = 0; k < t->ntasks; k++) use[k] = t->task[k]->fold != f;
    choose_rules(t, use, a, &c);
    for (int64_t k = 0; k < t->ntasks; k++)
      if (!use[k]) add_score(&c, t->task[k], a, &s);
  }
  return s;
}

// ---- machines ----

// Rules that the tasks of other machines choose, on those of the machine with this vector.
static void leave_machine_out(const Table *t, int64_t bytes, Arena *a, Sum *s) {
  Chosen c;
  bool *use = arena_array(a, bool, t->ntasks + 1);
  for (int64_t k = 0; k < t->ntasks; k++) use[k] = t->task[k]->target.vector_bytes != bytes;
  choose_rules(t, use, a, &c);
  for (int64_t k = 0; k < t->ntasks; k++)
    if (!use[k]) add_score(&c, t->task[k], a, s);
}

// Enough gain on other workloads, and no loss on a machine that nobody measured: of one machine
// alone nothing follows for others.
static bool is_sure(const Table *t, const Sum *s, Arena *a) {
  int machines = 0;
  if (s->affected < LEAST_AFFECTED || s->y < held_mean * (double)s->affected || s->least < held_one)
    return false;
  for (int64_t bytes = VECTOR_MOST; bytes > 0; bytes /= 2) {
    Sum there = {0};
    leave_machine_out(t, bytes, a, &there);
    if (there.y < 0 || there.least < held_one) return false;
    machines += there.tasks > 0;
  }
  return machines > 1;
}

static void leave_each_out(const Table *table, int64_t n, Arena *a, Training *out) {
  VEC(TrainMachine) all = {0};
  for (int64_t bytes = VECTOR_MOST; bytes > 0; bytes /= 2) {
    Sum s = {0};
    for (int64_t i = 0; i < n; i++) leave_machine_out(&table[i], bytes, a, &s);
    if (!s.tasks) continue;
    vec_push(a, &all,
             ((TrainMachine){.name = str_printf(a, "vector=%lld", (long long)bytes),
                             .score = score_of(&s)}));
  }
  out->machine = all.v;
  out->nmachines = all.n;
}

// ---- all of it ----

static void train_template(const Table *t, Arena *a, Training *out) {
  TrainTemplate *of = &out->of[out->ntemplates++];
  Sum s = hold_out(t, a);
  *of = (TrainTemplate){.name = t->t->name, .held_out = score_of(&s), .first = out->nrules};
  if (!is_sure(t, &s, a)) return;
  Chosen c;
  bool *use = arena_array(a, bool, t->ntasks + 1);
  for (int64_t k = 0; k < t->ntasks; k++) use[k] = true;
  choose_rules(t, use, a, &c);
  of->n = c.n;
  for (int64_t i = 0; i < c.n; i++) out->rule[out->nrules++] = c.v[i];
}

void train(const Records *r, Arena *a, Training *out) {
  *out = (Training){.of = arena_array(a, TrainTemplate, template_count),
                    .rule = arena_array(a, ResidualRule, (int64_t)RULES * template_count)};
  Task **task = read_tasks(r, a, &out->tasks);
  Table *table = arena_array(a, Table, template_count);
  int64_t n = 0;
  for (int i = 0; i < template_count; i++) {
    make_table(&template_table[i], task, out->tasks, a, &table[n]);
    if (table[n].ntasks) n++;
  }
  for (int64_t i = 0; i < n; i++) train_template(&table[i], a, out);
  leave_each_out(table, n, a, out);
}

static const char head[] =
    "// residual.def -- what measurements say that the formulas of the templates get wrong.  "
    "Written by\n"
    "// `tenon tune train`; docs/tuning.md says from which records.\n"
    "//\n"
    "//   RESIDUAL(template, field, how, value, when, least, most)\n"
    "//\n"
    "// Where a template chose a schedule in which `when` (a field of it, or \"vector\": the bytes "
    "of a\n"
    "// vector register; \"\": always) lies between `least` and `most`, the field is SET to the "
    "value, or\n"
    "// the chosen one TIMES or OVER it.  The first row that fits a kernel counts.\n"
    "// " FILE_MARK "\n"
    "// clang-format off\n";

void train_print(const Training *t, StrBuf *out) {
  strbuf_puts(out, head);
  for (int64_t i = 0; i < t->ntemplates; i++) {
    const TrainTemplate *of = &t->of[i];
    if (of->n)
      strbuf_printf(out, "// %s: held out, %.3f on %lld of %lld tasks, least %.3f\n", of->name,
                    of->held_out.gain, (long long)of->held_out.affected,
                    (long long)of->held_out.tasks, of->held_out.least);
    for (int64_t k = of->first; k < of->first + of->n; k++) {
      const ResidualRule *r = &t->rule[k];
      strbuf_printf(out, "RESIDUAL(\"%s\", \"%s\", %s, %lld, \"%s\", %lld, %lld)\n",
                    r->template_name, r->field, residual_how_name[r->how], (long long)r->value,
                    r->when, (long long)r->least, (long long)r->most);
    }
  }
  strbuf_puts(out, "// clang-format on\n#undef RESIDUAL\n");
}
