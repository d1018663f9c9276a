// schedule_test.c -- schedules: text, rules, and that a field does to results what its declaration
// says.
//
// For each case one kernel is made by its template; then each field of the schedule gets other
// values, one at a time.  A FREE field must not change a bit of the result; with another value of
// an ORDER field the result is near the interpreter's.  Every FREE field of every template must
// have been changed somewhere.  Kernels are interpreted (target ref): thread blocks by
// TENON_BLOCK_THREADS, tensor cores by TENON_MMA.
#include "compiled.h"
#include "schedules.h"
#include "template_cases.h"
#include "targets/target.h"

#include <math.h>
#include <stdlib.h>

// ---- variants ----

typedef struct Made {
  BothWays w;
  Compiled c;
  bool ok;
} Made;

static const char *on = "ref";  // the target

static void make(const char *text, const char *schedule, Made *m) {
  Asked asked = {.compiled = &m->c, .fast = fast_flags(), .schedule = schedule, .advised = true};
  m->c = (Compiled){0};
  m->ok = both_ways_run(&m->w, text, on, template_case_fill, compile_asked, &asked);
}

static bool same_bits(const Made *a, const Made *b) {
  for (int i = 0; i < 2 && a->w.got[i]; i++) {
    int64_t bytes;
    const Value *x = a->w.got[i], *y = b->w.got[i];
    if (!y || x->n != y->n || !dtype_bytes(x->dtype, x->n, &bytes)) return false;
    if (memcmp(x->data, y->data, (size_t)bytes)) return false;
  }
  return true;
}

static bool near_interpreter(const Made *m, double tolerance) {
  for (int i = 0; i < 2 && m->w.got[i]; i++) {
    double largest = 1e-6;
    for (int64_t k = 0; k < m->w.want[i]->n; k++)
      largest = fmax(largest, fabs(val_f64(m->w.want[i], k)));
    for (int64_t k = 0; k < m->w.want[i]->n; k++)
      if (!(fabs(val_f64(m->w.want[i], k) - val_f64(m->w.got[i], k)) <= tolerance * largest))
        return false;
  }
  return true;
}

enum { VALUES = 10 };

// Other values of a field, as text.
static int other_values(Arena *a, const ScheduleField *f, const void *fields, const char **out) {
  const void *at = (const char *)fields + f->attr.offset;
  int n = 0;
  if (f->attr.kind == ATTR_bool) {
    out[n++] = *(const bool *)at ? "false" : "true";
  } else if (f->attr.kind == ATTR_choice) {
    for (int i = 0; i < 8 && n < VALUES; i++) {
      const char *p = f->attr.choices;
      for (int k = 0; k < i && p; k++) p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL;
      if (!p) break;
      if (i != *(const int *)at) out[n++] = str_copy(a, attr_choice_word(f->attr.choices, i));
    }
  } else {
    int64_t v = *(const int64_t *)at, by = f->step > 1 ? f->step : 1;
    const int64_t all[] = {v / 2, v * 2, v - by, v + by, f->lo, 4, 3, v * 3, 24};
    for (int64_t i = 0; i < ARRAY_LEN(all); i++)
      if (all[i] != v) out[n++] = str_printf(a, "%lld", (long long)all[i]);
  }
  return n;
}

// The schedule with one field changed, as a rule for the kernel.
static const char *rule_with(Arena *a, const Made *m, int field, const char *value) {
  const Lowered *lw = m->c.kernel[0].lowered;
  const TemplateCode *c = lw->schedule.t->code;
  const char *text = lw->kernel->schedule;
  const char *at = strstr(text, str_printf(a, " %s=", c->field[field].attr.name));
  int64_t end = (int64_t)strcspn(at + 1, " ") + 1;
  return str_printf(a, "*=%.*s %s=%s%s", (int)(at - text), text, c->field[field].attr.name, value,
                    at + end);
}

static bool changed[64][SCHEDULE_FIELDS];  // by template and field

static void vary_field(const TemplateCase *k, const char *text, const Made *base, int field) {
  Arena a;
  arena_init(&a);
  const Template *t = base->c.kernel[0].lowered->schedule.t;
  const ScheduleField *f = &t->code->field[field];
  const char *value[VALUES];
  int n = other_values(&a, f, base->c.kernel[0].lowered->schedule.fields, value), done = 0;
  for (int i = 0; i < n && done < 3; i++) {
    Made m;
    const char *rule = rule_with(&a, base, field, value[i]);
    make(text, rule, &m);
    if (m.ok) {
      done++;
      changed[t - template_table][field] = true;
      EXPECT(m.c.nkernels == 1 && m.c.kernel[0].lowered->schedule.t == t);
      if (f->effect == EFFECT_FREE && !same_bits(base, &m))
        FAIL("%s is not FREE: other bits with %s\n%.300s", f->attr.name, rule, k->text);
      if (!near_interpreter(&m, k->tolerance != 0 ? k->tolerance : 2e-5))
        FAIL("wrong results with %s\n%.300s", rule, k->text);
    } else if (!strstr(m.w.diag.text, "schedule '") && !strstr(m.w.diag.text, "legal:")) {
      FAIL("%s: %s", rule, m.w.diag.text);
    }
    both_ways_free(&m.w);
  }
  arena_deinit(&a);
}

static void vary(const TemplateCase *k) {
  Arena a;
  Made base;
  arena_init(&a);
  if (k->groups) setenv("TENON_BLOCK_THREADS", k->groups, 1);
  if (k->tiles) setenv("TENON_MMA", k->tiles, 1);
  const char *text = template_case_text(&a, k->text);
  make(text, str_printf(&a, "*=%s %s", k->name, k->base ? k->base : ""), &base);
  if (!base.ok || base.c.nkernels != 1) {
    FAIL("%s: %s, %d kernels\n%.300s", k->name, base.w.diag.text, (int)base.c.nkernels, k->text);
  } else {
    EXPECT(schedule_reads_back(base.c.kernel[0].lowered->schedule));
    if (!near_interpreter(&base, k->tolerance != 0 ? k->tolerance : 2e-5))
      FAIL("wrong results with %s\n%.300s", base.c.kernel[0].name, k->text);
    for (int i = 0; i < base.c.kernel[0].lowered->schedule.t->code->nfields; i++)
      vary_field(k, text, &base, i);
  }
  both_ways_free(&base.w);
  unsetenv("TENON_BLOCK_THREADS");
  unsetenv("TENON_MMA");
  arena_deinit(&a);
}

TEST(schedule_fields_do_what_they_declare) {
  memset(changed, 0, sizeof changed);
  for (int64_t i = 0; i < template_ncases; i++) vary(&template_cases[i]);
  // The field `lhs` of gemm_mma has one legal value for a kernel.
  for (int t = 0; t < template_count; t++) {
    const TemplateCode *c = template_table[t].code;
    for (int i = 0; i < c->nfields; i++)
      if (c->field[i].effect == EFFECT_FREE && !changed[t][i] &&
          strcmp(c->field[i].attr.name, "lhs"))
        FAIL("no case changes field %s of template %s", c->field[i].attr.name,
             template_table[t].name);
  }
}

// Machine code keeps what the loops say.
TEST(schedule_fields_keep_the_bits_of_code) {
  static const int some[] = {0, 6, 11, 18};
  if (!target_available(target_find("cpu"))) SKIP("no tenon-codegen");
  on = "cpu";
  for (int64_t i = 0; i < ARRAY_LEN(some); i++) vary(&template_cases[some[i]]);
  on = "ref";
}

// ---- text ----

// Every field of every template, at some legal values.
static void set_field(const ScheduleField *f, void *fields, int64_t seed) {
  void *at = (char *)fields + f->attr.offset;
  if (f->attr.kind == ATTR_bool)
    *(bool *)at = seed & 1;
  else if (f->attr.kind == ATTR_choice)
    *(int *)at = (int)(seed % 2);
  else if (!f->step)
    *(int64_t *)at = seed & 1 ? f->hi : f->lo;
  else
    *(int64_t *)at = f->lo + seed * f->step % (f->hi - f->lo + f->step);
}

TEST(schedule_text_is_read_back) {
  Arena a;
  arena_init(&a);
  for (int t = 0; t < template_count; t++) {
    const TemplateCode *c = template_table[t].code;
    REQUIRE(c->nfields <= SCHEDULE_FIELDS && c->bytes <= SCHEDULE_BYTES);
    for (int64_t seed = 0; seed < 4; seed++) {
      void *fields = memset(arena_alloc(&a, MAX(c->bytes, 1)), 0, (size_t)MAX(c->bytes, 1));
      Schedule s = {&template_table[t], fields};
      for (int i = 0; i < c->nfields; i++) {
        set_field(&c->field[i], fields, seed * 7 + i);
        if (!schedule_in_range(&c->field[i], fields))
          FAIL("%s of %s is out of its range", c->field[i].attr.name, template_table[t].name);
      }
      if (!schedule_reads_back(s)) FAIL("%s", schedule_text(&a, s));
      EXPECT(strlen(schedule_text(&a, s)) < SCHEDULE_TEXT);
      EXPECT(schedule_hash(s) == schedule_hash(s) && schedule_equal(s, s));
    }
  }
  arena_deinit(&a);
}

static void refused(const char *rule, const char *why) {
  Arena a;
  Made m;
  arena_init(&a);
  make(template_case_text(&a, MATMUL("6", "9", "5", "  return %p\n")), rule, &m);
  if (m.ok)
    FAIL("%s is taken", rule);
  else
    EXPECT_CONTAINS(m.w.diag.text, why);
  both_ways_free(&m.w);
  arena_deinit(&a);
}

TEST(schedule_rules_are_refused_with_the_reason) {
  refused("p=gemn rows=4", "unknown template 'gemn'; templates: gemv,");
  refused("p=", "a schedule begins with a template: gemv,");
  refused("p", "is not 'KERNEL=template field=value ...'");
  refused("=gemm", "is not 'KERNEL=template field=value ...'");
  refused("p=gemm rows", "'rows' is no field=value of template gemm");
  refused("p=gemm row=4", "template gemm has no field 'row'; it has: rows, cols,");
  refused("p=gemm rows=0", "field rows of template gemm cannot be '0'; legal: 1..64");
  refused("p=gemm rows=four", "field rows of template gemm cannot be 'four'; legal: 1..64");
  refused("p=gemm rows=4 rows=5", "field rows is given twice");
  refused("p=gemm spill=yes", "field spill of template gemm cannot be 'yes'; legal: true, false");
  refused("p=winograd tile=3", "cannot be '3'; legal: 2..4, powers of two");
  refused("q=gemm", "no kernel is 'q'; the nearest is 'p'");
  refused("p=winograd", "is illegal for kernel 'p': template winograd does not match because");
  refused("p=attention", "does not match because the kernel is of the kind contraction");
  refused("p=gemm_mma", "the target has no thread blocks");
  refused("p=gemm item_panels=2 stage_lhs=false", "item_panels above 1 needs stage_lhs or k_block");
  refused("p=gemm packed_dot=true", "packed_dot is for int8 and bf16 products");
}

TEST(schedule_rules_change_the_kernel) {
  static const struct {
    const char *rule, *wanted;
  } row[] = {
      {"*=gemm", "gemm"},
      {"p=gemm rows=3", "gemm rows=3"},
      {"?=gemm rows=2 cols=4 unroll=3", "gemm rows=2 cols=4 unroll=3"},
      {"p=gemm stage_lhs=true item_panels=1", "gemm stage_lhs=true item_panels=1"},
  };
  Arena a;
  arena_init(&a);
  const char *text = template_case_text(&a, MATMUL("6", "9", "5", "  return %p\n"));
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Made m;
    make(text, row[i].rule, &m);
    if (!m.ok || !schedule_fits(m.c.kernel[0].lowered, row[i].wanted))
      FAIL("%s: %s", row[i].rule, m.ok ? m.c.kernel[0].name : m.w.diag.text);
    if (m.ok) EXPECT_STR_EQ(m.c.use[0].label, "p");
    if (m.ok) EXPECT_CONTAINS(m.c.kernel[0].text.p, "\n  schedule gemm rows=");
    both_ways_free(&m.w);
  }
  arena_deinit(&a);
}
