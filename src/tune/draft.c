// draft.c -- drafts schedules by a template's own match, choose and legal (draft.h).
//
// Each field takes the values of a ladder: near ones, multiples, powers of two and what its range
// begins with.  A changed field is tried twice: with all other fields kept, and with all other
// fields left to `choose`.  Then pairs of changes that are legal alone are drawn at random.  Where
// sums may be reordered, every other template that matches gives its own choice.
//
// Needs:      a task; schedules with every field.
// Guarantees: each draft is in the ranges of its fields and `legal`; whether it can be built, the
//             builder and the verifier say.
#include "tune/draft.h"

#include "lower/residual.h"

#include <math.h>

enum { LADDER = 96, MULTIPLES = 8 };

typedef struct Drafter {
  TuneModel *m;
  const TuneTask *t;
  const DraftRules *rules;
  StrMap *seen;
  Arena *a;
  DraftList *out;
  Lowering lo;
  const Template *tp;
  void *match;
  const void *from;
  ScheduleGiven dflt;
} Drafter;

// ---- features ----

// Of a field: the logarithm of its ratio to the default's, its size, whether it is another, and
// whether one of both is 0.
static void field_features(const ScheduleField *f, const void *fields, const void *dflt,
                           double *x) {
  int64_t v = schedule_value(f, fields), w = schedule_value(f, dflt);
  x[0] = x[1] = x[2] = x[3] = 0;
  if (v == w) return;
  x[2] = 1;
  if (v > 0 && w > 0 && f->attr.kind == ATTR_i64) {
    x[0] = fmax(-6, fmin(6, log2((double)v / (double)w)));
    x[1] = fabs(x[0]);
  } else {
    x[3] = v > w ? 1 : -1;
  }
}

static void features(const Template *tp, const void *fields, const void *dflt, double *x) {
  for (int i = 0; i < tp->code->nfields; i++)
    field_features(&tp->code->field[i], fields, dflt, x + (ptrdiff_t)4 * i);
}

static bool parse(Arena *a, const char *text, ScheduleGiven *out) {
  Diag *quiet = diag_unread();
  return !schedule_parse(a, text, quiet, out) &&
         out->set == (uint32_t)((1ull << out->t->code->nfields) - 1);
}

bool draft_features(const char *dflt, const char *schedule, Arena *a, double *x) {
  ScheduleGiven s, d;
  memset(x, 0, DRAFT_FEATURES * sizeof *x);
  if (!parse(a, schedule, &s) || !parse(a, dflt, &d) || s.t != d.t) return false;
  features(s.t, s.fields, d.fields, x);
  return true;
}

// ---- one draft ----

static bool keeps_order(const Drafter *d, const void *fields) {
  for (int i = 0; i < d->tp->code->nfields; i++) {
    const ScheduleField *f = &d->tp->code->field[i];
    if (f->effect == EFFECT_ORDER && schedule_value(f, fields) != schedule_value(f, d->dflt.fields))
      return false;
  }
  return true;
}

static bool is_legal(Drafter *d, const void *fields) {
  const TemplateCode *c = d->tp->code;
  const char *why;
  for (int i = 0; i < c->nfields; i++)
    if (!schedule_in_range(&c->field[i], fields)) return false;
  if (!d->rules->reorder && !keeps_order(d, fields)) return false;
  return !c->legal || c->legal(d->match, &d->lo.target, fields, &why);
}

// Its text; NULL: it was seen, or there are enough.
static const char *fresh(Drafter *d, const Template *tp, const void *fields) {
  Schedule s = {tp, arena_dup(d->a, fields, MAX(tp->code->bytes, 1))};
  const char *text = schedule_text(d->a, s);
  if (strmap_has(d->seen, str_of(text)) || d->out->n >= DRAFT_MOST) return NULL;
  strmap_put(d->seen, str_of(str_copy(d->seen->arena, str_of(text))), d->seen);
  return text;
}

static void add(Drafter *d, const void *fields) {
  const TemplateCode *c = d->tp->code;
  Draft x = {.schedule = fresh(d, d->tp, fields)};
  if (!x.schedule) return;
  for (int i = 0; i < c->nfields; i++)
    x.nchanged += schedule_value(&c->field[i], fields) != schedule_value(&c->field[i], d->from);
  if (d->tp == d->dflt.t) features(d->tp, fields, d->dflt.fields, x.x);
  vec_push(d->a, d->out, x);
}

static void *copy_of(const Drafter *d, const void *fields) {
  return arena_dup(d->a, fields, MAX(d->tp->code->bytes, 1));
}

// With all other fields kept.
static bool try_kept(Drafter *d, const ScheduleField *f, int64_t v) {
  void *fields = copy_of(d, d->from);
  schedule_put_value(f, fields, v);
  if (!is_legal(d, fields)) return false;
  add(d, fields);
  return true;
}

// With the fields in `set` given, and the others chosen around them.  `choose` may raise where it
// was never asked for such values.
static bool choose_guarded(Drafter *d, const ScheduleGiven *g, void **match, void *fields) {
  static _Thread_local Diag quiet;
  volatile bool ok = false;
  Trap t;
  diag_init(&quiet);
  trap_enter(&t, &quiet);
  if (setjmp(t.env) == 0) {
    *match = g->t->code->match(&d->lo, d->t->node);  // of its own: `choose` may change it
    ok = *match && (!g->t->code->choose || g->t->code->choose(*match, &d->lo.target, g, fields));
  }
  trap_leave(&t);
  if (t.status && t.status != TENON_EINTERNAL) trap_again(t.status, quiet.text);
  return ok && !t.status;
}

static void try_chosen(Drafter *d, int i, int64_t v) {
  const TemplateCode *c = d->tp->code;
  void *given = copy_of(d, d->from), *fields = copy_of(d, d->from), *match;
  ScheduleGiven g = {.t = d->tp, .set = 1u << i, .fields = given};
  if (!c->choose) return;
  schedule_put_value(&c->field[i], given, v);
  for (int k = 0; k < c->nfields && !d->rules->reorder; k++)
    if (c->field[k].effect == EFFECT_ORDER) g.set |= 1u << k;
  memset(fields, 0, (size_t)MAX(c->bytes, 1));
  if (!choose_guarded(d, &g, &match, fields)) return;
  schedule_keep(&g, fields);
  if (is_legal(d, fields)) add(d, fields);
}

// ---- values of a field ----

typedef struct Ladder {
  int64_t v[LADDER];
  int n;
} Ladder;

static void rung(const ScheduleField *f, int64_t now, int64_t v, Ladder *l) {
  if (v == now || v < f->lo || v > f->hi || l->n == LADDER) return;
  if (f->step ? v % f->step != 0 : v != 0 && (v & (v - 1)) != 0) return;
  for (int i = 0; i < l->n; i++)
    if (l->v[i] == v) return;
  l->v[l->n++] = v;
}

static int64_t words_in(const char *choices) {
  int64_t n = 1;
  for (const char *p = choices; *p; p++) n += *p == '|';
  return n;
}

static void ladder(const ScheduleField *f, int64_t now, int64_t vector_bytes, Ladder *l) {
  l->n = 0;
  if (f->attr.kind != ATTR_i64) {
    int64_t n = f->attr.kind == ATTR_bool ? 2 : words_in(f->attr.choices);
    for (int64_t v = 0; v < n && l->n < LADDER; v++)
      if (v != now) l->v[l->n++] = v;
    return;
  }
  int64_t lanes = vector_bytes / 4;
  rung(f, now, now * 2, l);
  rung(f, now, now / 2, l);
  for (int64_t k = 1; k <= 3; k++) rung(f, now, now + k, l), rung(f, now, now - k, l);
  for (int64_t k = 3; k <= MULTIPLES; k++) rung(f, now, now * k / 2, l), rung(f, now, now / k, l);
  for (int64_t k = 1; k <= MULTIPLES; k++) rung(f, now, lanes * k, l);
  rung(f, now, f->lo, l);
  rung(f, now, 0, l);
  for (int64_t v = 1; v <= f->hi && v <= 65536; v *= 2) rung(f, now, v, l);
  for (int64_t v = 3; v <= 16; v++) rung(f, now, v, l);
}

// ---- drafts ----

static uint64_t next_random(uint64_t *s) {
  *s += 0x9e3779b97f4a7c15u;
  return hash_u64(*s);
}

static bool may_vary(const Drafter *d, int i) {
  return d->rules->reorder || d->tp->code->field[i].effect == EFFECT_FREE;
}

typedef struct Change {
  int field;
  int64_t value;
} Change;

static void draft_pairs(Drafter *d, const Change *change, int64_t n) {
  uint64_t seed = d->rules->seed;
  const TemplateCode *c = d->tp->code;
  for (int64_t i = 0; n > 1 && i < d->rules->pairs; i++) {
    void *fields = copy_of(d, d->from);
    int64_t count = 2 + (int64_t)(next_random(&seed) % 2);
    for (int64_t k = 0; k < count; k++) {
      const Change *x = &change[next_random(&seed) % (uint64_t)n];
      schedule_put_value(&c->field[x->field], fields, x->value);
    }
    if (is_legal(d, fields)) add(d, fields);
  }
}

static void draft_all(Drafter *d) {
  const TemplateCode *c = d->tp->code;
  VEC(Change) change = {0};
  Ladder l;
  for (int i = 0; i < c->nfields; i++) {
    if (!may_vary(d, i)) continue;
    ladder(&c->field[i], schedule_value(&c->field[i], d->from), d->lo.target.vector_bytes, &l);
    for (int k = 0; k < l.n; k++) {
      Change x = {i, l.v[k]};
      try_kept(d, &c->field[i], l.v[k]);
      vec_push(d->a, &change, x);
      try_chosen(d, i, l.v[k]);
    }
  }
  draft_pairs(d, change.v, change.n);
}

// ---- other templates ----

static void draft_other(Drafter *d, const Template *tp) {
  const TemplateCode *c = tp->code;
  const char *why;
  void *match, *fields = arena_array(d->a, char, MAX(c->bytes, 1));
  ScheduleGiven g = {.t = tp, .fields = arena_array(d->a, char, MAX(c->bytes, 1))};
  if (!template_suits(tp, &d->lo.target, &why) || !template_takes(tp, d->t->node)) return;
  if (!choose_guarded(d, &g, &match, fields)) return;
  for (int i = 0; i < c->nfields; i++)
    if (!schedule_in_range(&c->field[i], fields)) return;
  if (c->legal && !c->legal(match, &d->lo.target, fields, &why)) return;
  Draft x = {.schedule = fresh(d, tp, fields), .nchanged = 1, .other = true};
  if (x.schedule) vec_push(d->a, d->out, x);
}

tenon_status draft_near(TuneModel *m, const TuneTask *t, const char *from, const DraftRules *rules,
                        StrMap *seen, Arena *a, DraftList *out) {
  Drafter d = {.m = m, .t = t, .rules = rules, .seen = seen, .a = a, .out = out};
  ScheduleGiven f;
  const char *why;
  d.lo = (Lowering){.g = m->g, .arena = a, .target = m->target, .diag = m->diag};
  if (!parse(a, from, &f) || !parse(a, t->dflt, &d.dflt))
    return fail(m->diag, TENON_EINVAL, NOWHERE, "'%s' is no whole schedule", from);
  if (f.t != d.dflt.t && !rules->reorder) return TENON_OK;
  if (!template_suits(f.t, &m->target, &why)) return TENON_OK;
  d.tp = f.t;
  d.from = f.fields;
  strmap_put(seen, str_of(str_copy(seen->arena, str_of(from))), seen);
  for (int i = 0; rules->reorder && i < template_count; i++)
    if (&template_table[i] != f.t) draft_other(&d, &template_table[i]);
  if (f.t->code->nfields && (d.match = f.t->code->match(&d.lo, t->node))) draft_all(&d);
  return TENON_OK;
}
