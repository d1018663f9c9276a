// residual.c -- applies rules to a chosen schedule (residual.h).
//
// Needs:      every field of the schedule.
// Guarantees: one FREE field differs, and lies in its range.  Rules of unknown templates or fields
//             fit nothing.
#include "lower/residual.h"

#include "lower/template.h"

const char *const residual_how_name[RESIDUAL_HOWS] = {"SET", "TIMES", "OVER"};

#define RESIDUAL(template_name, field, how, value, when, least, most)                              \
  {template_name, field, RESIDUAL_##how, value, when, least, most},
const ResidualRule residual_table[] = {
#include "cost/residual.def"
    {"", "", RESIDUAL_SET, 0, "", 0, 0},  // fits nothing
};
const int64_t residual_count = ARRAY_LEN(residual_table) - 1;

int64_t schedule_value(const ScheduleField *f, const void *fields) {
  const void *at = (const char *)fields + f->attr.offset;
  if (f->attr.kind == ATTR_i64) return *(const int64_t *)at;
  return f->attr.kind == ATTR_bool ? *(const bool *)at : *(const int *)at;
}

void schedule_put_value(const ScheduleField *f, void *fields, int64_t v) {
  void *at = (char *)fields + f->attr.offset;
  if (f->attr.kind == ATTR_i64)
    *(int64_t *)at = v;
  else if (f->attr.kind == ATTR_bool)
    *(bool *)at = v != 0;
  else
    *(int *)at = (int)v;
}

static const ScheduleField *find_field(const Template *t, const char *name) {
  for (int i = 0; i < t->code->nfields; i++)
    if (!strcmp(t->code->field[i].attr.name, name)) return &t->code->field[i];
  return NULL;
}

bool residual_fits(const ResidualRule *r, const LowerTarget *t, Schedule chosen) {
  if (!chosen.t || strcmp(chosen.t->name, r->template_name)) return false;
  if (!*r->when) return true;
  const ScheduleField *f = find_field(chosen.t, r->when);
  bool vector = !strcmp(r->when, "vector");
  if (!f && !vector) return false;
  int64_t v = vector ? t->vector_bytes : schedule_value(f, chosen.fields);
  return v >= r->least && v <= r->most;
}

// False: there is no such value.
static bool changed_value(const ResidualRule *r, int64_t now, int64_t *out) {
  if (r->how == RESIDUAL_SET) *out = r->value;
  if (r->how == RESIDUAL_TIMES) return now > 0 && ck_mul(now, r->value, out);
  if (r->how == RESIDUAL_OVER) {
    if (r->value <= 0 || now <= 0 || now % r->value) return false;
    *out = now / r->value;
  }
  return true;
}

static int64_t most_of(const ScheduleField *f) {
  int64_t n = 1;
  if (f->attr.kind == ATTR_i64) return f->hi;
  if (f->attr.kind == ATTR_bool) return 1;
  for (const char *p = f->attr.choices; *p; p++) n += *p == '|';
  return n - 1;
}

const char *residual_schedule(const ResidualRule *rule, int64_t n, const LowerTarget *t,
                              Schedule chosen, Arena *a) {
  for (int64_t i = 0; i < n; i++) {
    int64_t v;
    if (!residual_fits(&rule[i], t, chosen)) continue;
    const ScheduleField *f = find_field(chosen.t, rule[i].field);
    if (!f || f->effect != EFFECT_FREE) return NULL;
    int64_t now = schedule_value(f, chosen.fields);
    if (!changed_value(&rule[i], now, &v) || v == now) return NULL;
    if (v < (f->attr.kind == ATTR_i64 ? f->lo : 0) || v > most_of(f)) return NULL;
    void *fields = arena_dup(a, chosen.fields, MAX(chosen.t->code->bytes, 1));
    schedule_put_value(f, fields, v);
    return schedule_in_range(f, fields) ? schedule_text(a, (Schedule){chosen.t, fields}) : NULL;
  }
  return NULL;
}
