// tuned_test.c -- files of tuned schedules: text, damage, and what compiling with one does.
#include "lower/tuned.h"
#include "compile/compile.h"
#include "compile/declined.h"
#include "lower/template.h"
#include "lower/workload.h"
#include "targets/target.h"
#include "test.h"

#include <math.h>

static const char product[] = "graph @\"g\"(%x: f32[96, 64], %w: f32[64, 48]) {\n"
                              "  %p = mat_mul(%x, %w)\n  %y = relu(%p)\n  return y = %y\n}\n";
static const char renamed[] = "graph @\"h\"(%image: f32[96, 64], %k: f32[64, 48]) {\n"
                              "  %q = mat_mul(%image, %k)\n  %z = relu(%q)\n  return out = %z\n}\n";
static const char wider[] = "graph @\"g\"(%x: f32[96, 64], %w: f32[64, 49]) {\n"
                            "  %p = mat_mul(%x, %w)\n  %y = relu(%p)\n  return y = %y\n}\n";

enum { ENTRIES = 3 };
static const char keys[ENTRIES][WORKLOAD_KEY + 1] = {"0123456789abcdef0123456789abcdef",
                                                     "00000000000000000000000000000000",
                                                     "ffffffffffffffffffffffffffffffff"};

static TunedSchedules some(TunedSchedule *e, Arena *a) {
  LowerTarget t = {.vector_bytes = 32, .vector_registers = 16};
  for (int i = 0; i < ENTRIES; i++) e[i] = (TunedSchedule){keys[i], "gemm rows=4 cols=16", i};
  return (TunedSchedules){.name = "f", .machine = tuned_machine(&t, a), .entry = e, .n = ENTRIES};
}

TEST(tuned_schedules_go_to_text_and_back) {
  Arena a;
  Diag d;
  TunedSchedule e[ENTRIES];
  TunedSchedules back;
  arena_init(&a);
  diag_init(&d);
  for (int reorder = 0; reorder < 2; reorder++) {
    TunedSchedules s = some(e, &a);
    s.reorder = reorder;
    const char *text = tuned_print(&s, &a);
    EXPECT_STATUS(tuned_parse(str_of(text), "f", &a, &d, &back), TENON_OK);
    EXPECT_INT_EQ(back.n, ENTRIES);
    EXPECT_INT_EQ(back.reorder, reorder);
    EXPECT_STR_EQ(back.machine, s.machine);
    EXPECT_STR_EQ(tuned_print(&back, &a), text);
    EXPECT_STR_EQ(tuned_find(&back, keys[0])->schedule, "gemm rows=4 cols=16");
    EXPECT(tuned_find(&back, keys[2])->gain > 1.9 && !tuned_find(&back, keys[0])->gain);
    EXPECT(!tuned_find(&back, "10000000000000000000000000000000"));
  }
  arena_deinit(&a);
}

// A gain that rounds to 0, or whose text is too long, is left out; the rest of the file stays.
TEST(tuned_gains_without_a_text_are_left_out) {
  static const double none[] = {1e-9, 1e300, INFINITY, NAN, -1};
  for (int i = 0; i < ARRAY_LEN(none); i++) {
    Arena a;
    Diag d;
    TunedSchedule e[ENTRIES];
    TunedSchedules back;
    arena_init(&a);
    diag_init(&d);
    TunedSchedules s = some(e, &a);
    e[2].gain = none[i];
    EXPECT_STATUS(tuned_parse(str_of(tuned_print(&s, &a)), "f", &a, &d, &back), TENON_OK);
    EXPECT_INT_EQ(back.n, ENTRIES);
    EXPECT(!tuned_find(&back, e[2].key)->gain);
    arena_deinit(&a);
  }
}

TEST(tuned_schedules_refuse_every_change) {
  Arena a;
  Diag d;
  TunedSchedule e[ENTRIES];
  TunedSchedules back;
  arena_init(&a);
  TunedSchedules s = some(e, &a);
  Str text = str_of(tuned_print(&s, &a));
  char *copy = arena_dup(&a, text.p, text.n);
  for (int64_t i = 0; i < text.n; i++) {
    diag_init(&d);
    EXPECT_STATUS(tuned_parse((Str){text.p, i}, "f", &a, &d, &back), TENON_EFORMAT);
    for (int bit = 0; bit < 8; bit += 3) {
      copy[i] = (char)(text.p[i] ^ (1 << bit));
      diag_init(&d);
      EXPECT_STATUS(tuned_parse((Str){copy, text.n}, "f", &a, &d, &back), TENON_EFORMAT);
      EXPECT(strstr(d.text, "byte"));
    }
    copy[i] = text.p[i];
  }
  arena_deinit(&a);
}

// The hash is right and the content is not: what somebody may write by hand.
TEST(tuned_schedules_name_the_line) {
  static const struct {
    const char *key, *schedule, *said;
  } bad[] = {{"0123", "gemm rows=4", "line 3"},
             {"0123456789abcdef0123456789abcdeF", "gemm", "WORKLOAD-KEY"},
             {"0123456789abcdef0123456789abcdef", "gemm # x", "no number"},
             {"0123456789abcdef0123456789abcdef", "gemm # -1", "no number"},
             {"0123456789abcdef0123456789abcdef", "gemm # 0.0001", "no number"},
             {"0123456789abcdef0123456789abcdef", "gemm # 1e300", "no number"},
             {"0123456789abcdef0123456789abcdef", "gemm # inf", "no number"},
             {"0123456789abcdef0123456789abcdef", "gemm # 1.25", "no number"},
             {"0123456789abcdef0123456789abcdef", "gemm\x01", "ASCII"},
             {"0123456789abcdef0123456789abcdef", "gemm\n0123456789abcdef0123456789abcdef gemm",
              "sorted"}};
  for (int i = 0; i < ARRAY_LEN(bad); i++) {
    Arena a;
    Diag d;
    TunedSchedule e[ENTRIES];
    TunedSchedules back;
    arena_init(&a);
    diag_init(&d);
    TunedSchedules s = some(e, &a);
    s.n = 1;
    e[0] = (TunedSchedule){bad[i].key, bad[i].schedule, 0};
    EXPECT_STATUS(tuned_parse(str_of(tuned_print(&s, &a)), "f", &a, &d, &back), TENON_EFORMAT);
    if (!strstr(d.text, bad[i].said)) FAIL("%s: %s", bad[i].schedule, d.text);
    arena_deinit(&a);
  }
}

// ---- compiling ----

typedef struct Made {
  Arena arena;
  Diag diag;
  Graph *g;
  CompileOptions o;
  CompileReport r;
  tenon_status s;
} Made;

static void compile(Made *m, const char *text, const TunedSchedules *tuned, bool strict) {
  static const LowerTarget small = {
      .vector_bytes = 32, .vector_registers = 16, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true};
  *m = (Made){.s = TENON_OK};
  arena_init(&m->arena);
  diag_init(&m->diag);
  REQUIRE(!graph_parse(str_of(text), NULL, &m->diag, &m->g));
  compile_defaults(&m->o);
  m->o.target = target_find("ref");
  m->o.described = &small;
  m->o.workloads = true;
  m->o.schedules = tuned;
  m->o.tuned_strict = strict;
  m->s = compile_graph(m->g, &m->o, COMPILE_LOWER, &m->arena, &m->diag, &m->r);
}

static void drop(Made *m) {
  program_release(m->r.program);
  graph_free(m->g);
  arena_deinit(&m->arena);
}

// The file that has this schedule for the model's only kernel.
static TunedSchedules file_of(const Made *m, const char *schedule, TunedSchedule *e, Arena *a) {
  *e = (TunedSchedule){workload_key(m->r.compiled.use[0].workload, a), schedule, 1.5};
  return (TunedSchedules){
      .name = "f.schedules", .machine = tuned_machine(m->o.described, a), .entry = e, .n = 1};
}

static const char *only_schedule(const Made *m) {
  return m->r.compiled.kernel[0].lowered->kernel->schedule;
}

// The schedule with another value of a field.
static const char *with(const Made *m, const char *field, const char *value, Arena *a) {
  const char *text = only_schedule(m), *at = strstr(text, str_printf(a, " %s=", field));
  if (!at) return text;
  const char *end = at + 1 + strcspn(at + 1, " ");
  return str_printf(a, "%.*s %s=%s%s", (int)(at - text), text, field, value, end);
}

TEST(workloads_have_no_names) {
  Made x, y, z;
  compile(&x, product, NULL, false);
  compile(&y, renamed, NULL, false);
  compile(&z, wider, NULL, false);
  REQUIRE(x.r.compiled.nuses == 1 && y.r.compiled.nuses == 1 && z.r.compiled.nuses == 1);
  EXPECT(str_eq(x.r.compiled.use[0].workload, y.r.compiled.use[0].workload));
  EXPECT(!str_eq(x.r.compiled.use[0].workload, z.r.compiled.use[0].workload));
  drop(&x);
  drop(&y);
  drop(&z);
}

TEST(tuned_schedules_are_taken) {
  Made plain, tuned;
  TunedSchedule e;
  compile(&plain, product, NULL, false);
  REQUIRE(plain.r.compiled.nuses == 1);
  const char *want = with(&plain, "item_rows", "8", &plain.arena);
  EXPECT(strcmp(want, only_schedule(&plain)) != 0);
  TunedSchedules file = file_of(&plain, want, &e, &plain.arena);
  compile(&tuned, renamed, &file, true);
  if (tuned.s) FAIL("%s", tuned.diag.text);
  EXPECT_STR_EQ(only_schedule(&tuned), want);
  EXPECT_INT_EQ(tuned.r.compiled.ntuned, 1);
  EXPECT(tuned.r.compiled.use[0].tuned == &e);
  EXPECT_INT_EQ(compile_warnings(&tuned.r, &tuned.arena).n, 0);
  drop(&tuned);
  drop(&plain);
}

// What does not fit leaves the default schedule and a reason; with tuned_strict it is an error.
TEST(tuned_schedules_that_do_not_fit) {
  static const struct {
    const char *field, *value, *schedule, *said;
  } bad[] = {{"item_panels", "2", NULL, "needs stage_lhs"},
             {"unroll", "0", NULL, "legal:"},
             {NULL, NULL, "gemm item_rows=8", "every field"},
             {NULL, NULL, "no_template x=1", "unknown template"},
             {NULL, NULL, "window rows=1 band=1", "order of sums"}};
  for (int i = 0; i < ARRAY_LEN(bad); i++) {
    Made plain, tuned;
    TunedSchedule e;
    compile(&plain, product, NULL, false);
    REQUIRE(plain.r.compiled.nuses == 1);
    const char *schedule =
        bad[i].schedule ? bad[i].schedule : with(&plain, bad[i].field, bad[i].value, &plain.arena);
    TunedSchedules file = file_of(&plain, schedule, &e, &plain.arena);
    compile(&tuned, product, &file, false);
    if (tuned.s) FAIL("%s: %s", schedule, tuned.diag.text);
    EXPECT_STR_EQ(only_schedule(&tuned), only_schedule(&plain));
    EXPECT_INT_EQ(tuned.r.compiled.nuntuned, 1);
    TextList said = compile_warnings(&tuned.r, &tuned.arena);
    if (said.n != 1 || !strstr(said.v[0], bad[i].said)) FAIL("%s: %s", schedule, said.v[0]);
    drop(&tuned);
    compile(&tuned, product, &file, true);
    EXPECT_STATUS(tuned.s, TENON_EINVAL);
    drop(&tuned);
    drop(&plain);
  }
}

TEST(tuned_schedules_of_another_machine) {
  Made plain, tuned;
  TunedSchedule e;
  LowerTarget other = {.vector_bytes = 64, .vector_registers = 32};
  compile(&plain, product, NULL, false);
  REQUIRE(plain.r.compiled.nuses == 1);
  TunedSchedules file = file_of(&plain, only_schedule(&plain), &e, &plain.arena);
  file.machine = tuned_machine(&other, &plain.arena);
  compile(&tuned, product, &file, false);
  EXPECT_STATUS(tuned.s, TENON_EINVAL);
  EXPECT(strstr(tuned.diag.text, "another machine"));
  drop(&tuned);
  file = file_of(&plain, only_schedule(&plain), &e, &plain.arena);
  compile(&tuned, wider, &file, true);
  EXPECT_STATUS(tuned.s, TENON_EINVAL);
  EXPECT(strstr(tuned.diag.text, "no schedule for its workload"));
  drop(&tuned);
  drop(&plain);
}
