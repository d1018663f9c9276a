// schedule_test.c -- schedules: text, rules, and that a field does to results what its declaration says.
//
// For each case one kernel is made by its template; then each field of the schedule gets other values, one at a time.  A FREE field must not
// change a bit of the result; with another value of an ORDER field the result is near the interpreter's.  Every FREE field of every
// template must have been changed somewhere.  Kernels are interpreted (target ref): thread blocks by TENON_GROUPS, tensor cores by TENON_TILES.
#include "compiled.h"
#include "schedules.h"
#include "targets/target.h"

#include <math.h>
#include <stdlib.h>

typedef struct Case {
  const char *name;  // of the template
  const char *text;  // a line "!w f32[3, 4]" is a constant with random numbers
  const char *base;  // fields that all variants have; NULL: those that are chosen
  const char *groups, *tiles;
  double tolerance;  // 0: 2e-5
} Case;

#define G(args, body) "graph @\"g\"(" args ") {\n" body "}\n"
#define MATMUL(m, k, n, more)                                                                      \
  G("%x: f32[" m ", " k "]", "!w f32[" k ", " n "]\n  %p = mat_mul(%x, %w)\n" more)
#define ATTENTION(q, k, attrs)                                                                     \
  G("%q: f32[" q "], %k: f32[" k "], %v: f32[" k "]",                                              \
    "  %y = attention(%q, %k, %v)" attrs "\n  return %y\n")
#define CONV(x, w, attrs)                                                                          \
  G("%x: f32[" x "]",                                                                              \
    "!w f32[" w "]\n  %y = conv(%x, %w) channels_last=true" attrs "\n  return %y\n")

static const Case cases[] = {
    {.name = "gemm", .text = MATMUL("29", "30", "50", "  return %p\n")},
    {.name = "gemm", .text = MATMUL("17", "20", "50", "  %y = gelu(%p)\n  return %y\n")},
    {.name = "gemm",
     .text = MATMUL("20", "30", "100", "  return %p\n"),
     .base = "stage_lhs=true item_panels=2"},
    {.name = "gemm",
     .text = MATMUL("41", "40", "70", "  return %p\n"),
     .base = "k_block=16 rows=6 cols=16 item_rows=24 item_panels=2 stage_lhs=false"},
    {.name = "gemm",
     .text = G("%x: f32[9, 33], %y: f32[33, 40]",
               "  %r = sin(%y)\n  %p = mat_mul(%x, %r)\n  return %p\n")},
    {.name = "gemm", .text = CONV("1, 9, 23, 3", "3, 3, 3, 20", " pads=[1, 1, 1, 1]")},
    {.name = "gemm",
     .text = CONV("2, 7, 9, 12", "3, 2, 12, 20", " pads=[1, 0, 1, 1] strides=[1, 2]")},
    {.name = "gemm",
     .text = G("%x: u8[9, 32]", "!w i8[32, 24]\n  %p = mat_mul_integer(%x, %w)\n  return %p\n")},
    {.name = "conv_chain",
     .text = G("%x: f32[1, 6, 7, 5]",
               "!a f32[1, 1, 5, 32]\n!b f32[3, 3, 1, 32]\n!c f32[1, 1, 32, 12]\n"
               "  %e = conv(%x, %a) channels_last=true\n  %r = relu(%e)\n"
               "  %d = conv(%r, %b) channels_last=true group=32 pads=[1, 1, 1, 1]\n"
               "  %s = relu(%d)\n  %y = conv(%s, %c) channels_last=true\n  return %y\n")},
    {.name = "winograd",
     .text = CONV("1, 8, 6, 17", "3, 3, 17, 20", " pads=[1, 1, 1, 1]"),
     .base = "tile=2 cols=8 item_rows=2",
     .tolerance = 1e-4},
    {.name = "attention", .text = ATTENTION("1, 1, 9, 8", "1, 1, 270, 8", "")},
    {.name = "attention", .text = ATTENTION("1, 2, 20, 4", "1, 1, 20, 4", " is_causal=true")},
    {.name = "attention",
     .text = G("%q: f32[1, 2, 5, 8], %k: f32[1, 2, 5, 8], %v: f32[1, 2, 5, 8], "
               "%o: f32[1, 2, 20, 8], %u: f32[1, 2, 20, 8]",
               "  %a:3 = attention(%q, %k, %v, _, %o, %u) is_causal=true\n  return %a.0\n")},
    {.name = "rnn",
     .text = G("%x: f32[20, 1, 6]", "!w f32[1, 36, 6]\n!r f32[1, 36, 9]\n"
                                    "  %l:3 = lstm(%x, %w, %r)\n  return %l.0\n"),
     .tolerance = 1e-3},
    {.name = "int4_gemm",
     .text = G("%x: f32[30, 40]", "!w u8[70, 3, 8]\n!s f32[70, 3]\n"
                                  "  %y = mat_mul_n_bits(%x, %w, %s) bits=4\n  return %y\n")},
    {.name = "scan",
     .text = G("%x: f32[7, 150]", "  %a = const i64[] {0}\n  %y = cum_sum(%x, %a)\n  return %y\n")},
    {.name = "topk",
     .text = G("%x: f32[3, 400]", "  %k = const i64[1] {5}\n  %y:2 = top_k(%x, %k)\n"
                                  "  return %y.0, %y.1\n")},
    {.name = "scatter",
     .text = G("%x: f32[9, 4], %i: i64[1, 4], %u: f32[1, 4]",
               "  %y = scatter_elements(%x, %i, %u) axis=0\n  return %y\n")},
    {.name = "reduce", .text = G("%x: f32[7, 150]", "  %y = softmax(%x) axis=-1\n  return %y\n")},
    {.name = "reduce", .text = G("%x: f32[7, 150]", "  %y = softmax(%x) axis=0\n  return %y\n")},
    {.name = "pointwise",
     .text = G("%x: f32[2, 40, 50]", "  %y = transpose(%x) perm=[0, 2, 1]\n  return %y\n")},
    {.name = "pointwise",
     .text = G("%x: f32[3, 5000], %z: f32[3, 70]",
               "  %c = concat(%x, %z) axis=1\n  %y = sin(%c)\n  return %y\n")},
    // thread blocks
    {.name = "gemv", .groups = "64", .text = MATMUL("3", "320", "64", "  return %p\n")},
    {.name = "gemm_simt", .groups = "256", .text = MATMUL("70", "20", "70", "  return %p\n")},
    {.name = "gemm_simt", .groups = "64", .text = MATMUL("19", "35", "20", "  return %p\n")},
    {.name = "gemm_naive", .groups = "64", .text = MATMUL("3", "150", "50", "  return %p\n")},
    {.name = "depthwise",
     .groups = "64",
     .text = CONV("1, 9, 12, 16", "3, 3, 1, 16", " group=16 pads=[1, 1, 1, 1]")},
    {.name = "attention_simt",
     .groups = "64",
     .text = ATTENTION("1, 2, 21, 12", "1, 2, 70, 12", " is_causal=true")},
    {.name = "reduce_block",
     .groups = "64",
     .text = G("%x: f32[20, 128], %s: f32[128], %b: f32[128]",
               "  %y = layer_normalization(%x, %s, %b)\n  return %y\n")},
    {.name = "reduce_block",
     .groups = "64",
     .text = G("%x: f32[70, 40]", "  %y = softmax(%x) axis=0\n  return %y\n")},
    {.name = "pointwise_block",
     .groups = "64",
     .text = G("%x: f32[300, 260]", "  %y = sin(%x)\n  return %y\n")},
    {.name = "pointwise_block",
     .groups = "64",
     .text = G("%x: f32[256, 256]", "  %y = transpose(%x) perm=[1, 0]\n  return %y\n")},
    {.name = "gemm_mma",
     .groups = "128",
     .tiles = "1",
     .text = G("%x: bf16[40, 32]", "!w bf16[32, 40]\n  %p = mat_mul(%x, %w)\n  return %p\n"),
     .tolerance = 1e-2},
    {.name = "attention_mma",
     .groups = "128",
     .tiles = "1",
     .text = G("%q: f16[1, 1, 9, 64], %k: f16[1, 1, 2, 64], %v: f16[1, 1, 2, 64]",
               "  %y = attention(%q, %k, %v)\n  return %y\n"),
     .tolerance = 1e-2},
    {.name = "attention_mma",
     .groups = "128",
     .tiles = "1",
     .text = G("%q: f16[1, 1, 9, 64], %k: f16[1, 1, 2, 64], %v: f16[1, 1, 2, 64]",
               "  %y = attention(%q, %k, %v)\n  return %y\n"),
     .base = "warpgroups=2 keys=128 stages=2",
     .tolerance = 1e-2},
};

// Numbers whose sums are rounded; bytes are whole.
static double number_at(int64_t i, DType t) {
  int64_t v = (i * 7919 + i / 13 * 31) % 1013;
  return dtype_is_float(t) ? (double)v / 997 - 0.45 : (double)(v % 100);
}

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++)
    val_put_f64(v, i, v->dtype == DT_I64 ? (double)(i % 4) : number_at(i, v->dtype));
}

// The text with its constants written out.
static const char *written_out(Arena *a, const char *text) {
  StrBuf b;
  strbuf_init(&b, a);
  while (*text) {
    int64_t line = (int64_t)strcspn(text, "\n"), n = 1;
    if (*text != '!') {
      strbuf_put(&b, (Str){text, line + (text[line] != 0)});
    } else {
      const char *type = strchr(text, ' ') + 1, *dims = strchr(type, '[');
      bool floats = *type == 'f' || *type == 'b';
      for (const char *p = dims; *p != ']';) {
        n *= strtol(p + 1, (char **)&p, 10);
      }
      strbuf_printf(&b, "  %%%.*s = const %.*s {", (int)(type - text - 2), text + 1,
                    (int)(text + line - type), type);
      for (int64_t i = 0; i < n; i++)
        strbuf_printf(&b, "%s%.9g", i ? ", " : "", number_at(i + 7, floats ? DT_F32 : DT_U8));
      strbuf_puts(&b, "}\n");
    }
    text += line + (text[line] != 0);
  }
  return strbuf_text(&b);
}

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
  m->ok = both_ways_run(&m->w, text, on, fill, compile_asked, &asked);
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

static void vary_field(const Case *k, const char *text, const Made *base, int field) {
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

static void vary(const Case *k) {
  Arena a;
  Made base;
  arena_init(&a);
  if (k->groups) setenv("TENON_GROUPS", k->groups, 1);
  if (k->tiles) setenv("TENON_TILES", k->tiles, 1);
  const char *text = written_out(&a, k->text);
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
  unsetenv("TENON_GROUPS");
  unsetenv("TENON_TILES");
  arena_deinit(&a);
}

TEST(schedule_fields_do_what_they_declare) {
  memset(changed, 0, sizeof changed);
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) vary(&cases[i]);
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
  for (int64_t i = 0; i < ARRAY_LEN(some); i++) vary(&cases[some[i]]);
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
  make(written_out(&a, MATMUL("6", "9", "5", "  return %p\n")), rule, &m);
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
  const char *text = written_out(&a, MATMUL("6", "9", "5", "  return %p\n"));
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
