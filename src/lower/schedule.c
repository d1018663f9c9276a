// schedule.c -- prints, parses, hashes and compares schedules by their templates' fields.
//
// All functions walk the ScheduleField table of a template (schedule.h); none knows a template.
// `--schedule` rules are split at the first '=' that a template's name follows, since node names
// may contain '='.
//
// Needs:      the fields of each template fit ScheduleGiven.set: at most 32 of them.
// Guarantees: parsing what schedule_text prints gives equal fields.  Two schedules are equal if and
//             only if their texts are.  EINVAL names the field and its legal values.  All memory is
//             the caller's arena.
#include "lower/template.h"

// ---- fields ----

static bool is_set(const ScheduleGiven *g, int i) { return g->set >> i & 1; }

void schedule_keep(const ScheduleGiven *g, void *fields) {
  const TemplateCode *c = g && g->t ? g->t->code : NULL;
  for (int i = 0; c && i < c->nfields; i++) {
    const AttrDesc *d = &c->field[i].attr;
    size_t bytes = d->kind == ATTR_i64    ? sizeof(int64_t)
                   : d->kind == ATTR_bool ? sizeof(bool)
                                          : sizeof(int);
    if (is_set(g, i))
      memcpy((char *)fields + d->offset, (const char *)g->fields + d->offset, bytes);
  }
}

bool schedule_is_given(const ScheduleGiven *g, const char *field) {
  const TemplateCode *c = g && g->t ? g->t->code : NULL;
  for (int i = 0; c && i < c->nfields; i++)
    if (!strcmp(c->field[i].attr.name, field)) return is_set(g, i);
  return false;
}

static int64_t value_of(const ScheduleField *f, const void *fields) {
  const void *at = (const char *)fields + f->attr.offset;
  if (f->attr.kind == ATTR_i64) return *(const int64_t *)at;
  return f->attr.kind == ATTR_bool ? *(const bool *)at : *(const int *)at;
}

bool schedule_in_range(const ScheduleField *f, const void *fields) {
  int64_t v = value_of(f, fields);
  if (f->attr.kind != ATTR_i64) return true;  // reading gave a legal one
  if (v < f->lo || v > f->hi) return false;
  return f->step ? v % f->step == 0 : v == 0 || (v & (v - 1)) == 0;
}

uint64_t schedule_hash(Schedule s) {
  uint64_t h = s.t ? hash_bytes(s.t->name, (int64_t)strlen(s.t->name), 0) : 0;
  for (int i = 0; s.t && i < s.t->code->nfields; i++)
    h = hash_u64(h ^ attrs_hash(&s.t->code->field[i].attr, 1, s.fields));
  return h;
}

bool schedule_equal(Schedule a, Schedule b) {
  if (a.t != b.t) return false;
  for (int i = 0; a.t && i < a.t->code->nfields; i++)
    if (!attrs_equal(&a.t->code->field[i].attr, 1, a.fields, b.fields)) return false;
  return true;
}

// ---- text ----

static void print_value(StrBuf *b, const ScheduleField *f, const void *fields) {
  int64_t v = value_of(f, fields);
  if (f->attr.kind == ATTR_i64)
    strbuf_printf(b, "%lld", (long long)v);
  else if (f->attr.kind == ATTR_bool)
    strbuf_puts(b, v ? "true" : "false");
  else
    strbuf_printf(b, "%.*s", STR_ARG(attr_choice_word(f->attr.choices, (int)v)));
}

static const char *print(Arena *a, Schedule s, bool all) {
  StrBuf b;
  if (!s.t) return "none";
  strbuf_init(&b, a);
  strbuf_puts(&b, s.t->name);
  for (int i = 0; i < s.t->code->nfields; i++) {
    const ScheduleField *f = &s.t->code->field[i];
    if (!all && attr_is_default(&f->attr, s.fields)) continue;
    strbuf_printf(&b, " %s=", f->attr.name);
    print_value(&b, f, s.fields);
  }
  return strbuf_text(&b);
}

const char *schedule_text(Arena *a, Schedule s) { return print(a, s, true); }
const char *schedule_name(Arena *a, Schedule s) { return print(a, s, false); }

void schedule_json(JsonWriter *w, Schedule s) {
  json_begin_object(w);
  for (int i = 0; s.t && i < s.t->code->nfields; i++) {
    const ScheduleField *f = &s.t->code->field[i];
    int64_t v = value_of(f, s.fields);
    json_key(w, f->attr.name);
    if (f->attr.kind == ATTR_i64)
      json_i64(w, v);
    else if (f->attr.kind == ATTR_bool)
      json_bool(w, v);
    else
      json_str(w, attr_choice_word(f->attr.choices, (int)v));
  }
  json_end_object(w);
}

const char *schedule_legal(Arena *a, const ScheduleField *f) {
  if (f->attr.kind == ATTR_bool) return "true, false";
  if (f->attr.kind == ATTR_choice) {
    StrBuf b;
    strbuf_init(&b, a);
    for (const char *p = f->attr.choices; *p; p++)
      strbuf_puts(&b, *p == '|' ? ", " : (char[]){*p, 0});
    return strbuf_text(&b);
  }
  if (f->lo == f->hi) return str_printf(a, "%lld", (long long)f->lo);
  const char *range = str_printf(a, "%lld..%lld", (long long)f->lo, (long long)f->hi);
  if (f->step == 1) return range;
  return f->step ? str_printf(a, "%s in steps of %lld", range, (long long)f->step)
                 : str_printf(a, "%s, powers of two", range);
}

// ---- reading ----

static Str next_word(const char **at) {
  *at += strspn(*at, " \t\n");
  Str w = {*at, (int64_t)strcspn(*at, " \t\n")};
  *at += w.n;
  return w;
}

static bool read_value(const ScheduleField *f, Str v, void *fields) {
  void *at = (char *)fields + f->attr.offset;
  if (f->attr.kind == ATTR_i64) return str_to_i64(v, at) && schedule_in_range(f, fields);
  int word = attr_choice_find(f->attr.kind == ATTR_bool ? "false|true" : f->attr.choices, v);
  if (word < 0) return false;
  if (f->attr.kind == ATTR_bool)
    *(bool *)at = word;
  else
    *(int *)at = word;
  return true;
}

static const char *field_names(Arena *a, const Template *t) {
  StrBuf b;
  strbuf_init(&b, a);
  for (int i = 0; i < t->code->nfields; i++)
    strbuf_printf(&b, "%s%s", i ? ", " : "", t->code->field[i].attr.name);
  return t->code->nfields ? strbuf_text(&b) : "none";
}

static const char *template_names(Arena *a) {
  StrBuf b;
  strbuf_init(&b, a);
  for (int i = 0; i < template_count; i++)
    strbuf_printf(&b, "%s%s", i ? ", " : "", template_table[i].name);
  return strbuf_text(&b);
}

static tenon_status read_field(Arena *a, Str word, Diag *d, ScheduleGiven *out, void *fields) {
  const Template *t = out->t;
  const char *eq = memchr(word.p, '=', (size_t)word.n);
  Str name = {word.p, eq ? eq - word.p : word.n};
  Str value = {eq ? eq + 1 : word.p + word.n, eq ? word.p + word.n - eq - 1 : 0};
  if (!eq)
    return fail(d, TENON_EINVAL, NOWHERE, "'%.*s' is no field=value of template %s", STR_ARG(word),
                t->name);
  for (int i = 0; i < t->code->nfields; i++) {
    const ScheduleField *f = &t->code->field[i];
    if (!str_eq(name, str_of(f->attr.name))) continue;
    if (is_set(out, i))
      return fail(d, TENON_EINVAL, NOWHERE, "field %s is given twice", f->attr.name);
    if (!read_value(f, value, fields))
      return fail(d, TENON_EINVAL, NOWHERE, "field %s of template %s cannot be '%.*s'; legal: %s",
                  f->attr.name, t->name, STR_ARG(value), schedule_legal(a, f));
    out->set |= 1u << i;
    return TENON_OK;
  }
  return fail(d, TENON_EINVAL, NOWHERE, "template %s has no field '%.*s'; it has: %s", t->name,
              STR_ARG(name), field_names(a, t));
}

tenon_status schedule_parse(Arena *a, const char *text, Diag *d, ScheduleGiven *out) {
  *out = (ScheduleGiven){0};
  Str word = next_word(&text);
  if (!word.n)
    return fail(d, TENON_EINVAL, NOWHERE, "a schedule begins with a template: %s",
                template_names(a));
  out->t = template_find(str_copy(a, word));
  if (!out->t)
    return fail(d, TENON_EINVAL, NOWHERE, "unknown template '%.*s'; templates: %s", STR_ARG(word),
                template_names(a));
  void *fields = arena_alloc(a, MAX(out->t->code->bytes, 1));
  memset(fields, 0, (size_t)MAX(out->t->code->bytes, 1));
  out->fields = fields;
  for (word = next_word(&text); word.n; word = next_word(&text))
    TRY(read_field(a, word, d, out, fields));
  return TENON_OK;
}

// ---- rules ----

// Names of nodes may have '=' in them: the rule's own is the first one before the name of a
// template.
static const char *find_equals(Arena *a, const char *text) {
  for (const char *p = strchr(text, '='); p; p = strchr(p + 1, '=')) {
    const char *at = p + 1;
    if (template_find(str_copy(a, next_word(&at)))) return p;
  }
  return strchr(text, '=');
}

tenon_status schedule_rule_parse(Arena *a, const char *text, Diag *d, ScheduleRule *out) {
  const char *eq = find_equals(a, text);
  if (!eq || eq == text)
    return fail(d, TENON_EINVAL, NOWHERE,
                "schedule '%s' is not 'KERNEL=template field=value ...'; KERNEL may have * and ?",
                text);
  *out = (ScheduleRule){.text = text, .glob = str_copy(a, (Str){text, eq - text})};
  tenon_status s = schedule_parse(a, eq + 1, d, &out->given);
  if (s) diag_note(d, "in the schedule '%s'", text);
  return s;
}

// Letters that are put in, taken out or changed, of names that are not much longer than names are.
static int64_t distance(Arena *a, const char *x, const char *y) {
  enum { LONGEST = 400 };
  int64_t n = MIN((int64_t)strlen(x), LONGEST), m = MIN((int64_t)strlen(y), LONGEST);
  int64_t *row = arena_array(a, int64_t, m + 1);
  for (int64_t j = 0; j <= m; j++) row[j] = j;
  for (int64_t i = 1; i <= n; i++) {
    int64_t above = row[0];
    row[0] = i;
    for (int64_t j = 1; j <= m; j++) {
      int64_t same = above + (x[i - 1] != y[j - 1]);
      above = row[j];
      row[j] = MIN(same, MIN(row[j], row[j - 1]) + 1);
    }
  }
  return row[m];
}

const char *schedule_nearest(Arena *a, const char *name, const char *const *names, int64_t n) {
  const char *best = NULL;
  int64_t least = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!names[i]) continue;
    int64_t far = distance(a, name, names[i]);
    if (best && far >= least) continue;
    best = names[i];
    least = far;
  }
  return best;
}
