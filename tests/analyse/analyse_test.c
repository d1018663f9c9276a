// analyse_test.c -- every finding on a graph that has it and on one that has not; ranges against
// runs; memory.
#include "analyse/analyse.h"

#include "api/model.h"
#include "compile/compile.h"
#include "graphfuzz/graphfuzz.h"
#include "ir/interpret.h"
#include "sample.h"
#include "test.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>

static Diag diag;

typedef struct Case {
  FindingCode code;
  const char *with, *without;
  const char *says;  // part of the sentence
} Case;

// clang-format off
static const Case cases[] = {
    {FINDING_T0101, "graph(%x: f32[2], %u: f32[2]) { %y = neg(%x) return y = %y }",
                    "graph(%x: f32[2], %u: f32[2]) { %y = add(%x, %u) return y = %y }", "no output depends on it"},
    {FINDING_T0102, "graph(%x: f32[n, 2], %u: f32[n]) { %s = shape(%u) %y = expand(%x, %s) return y = %s }",
                    "graph(%x: f32[n, 2]) { %s = shape(%x) %z = neg(%x) return y = %s, z = %z }", "only its shape"},
    {FINDING_T0103, "graph(%x: f32[2]) { %w = const f32[3] {1, 2, 3} %y = neg(%x) return y = %y }",
                    "graph(%x: f32[2]) { %w = const f32[2] {1, 2} %y = add(%x, %w) return y = %y }", "3 elements"},
    {FINDING_T0104, "graph(%x: f32[2]) { %d = exp(%x) %y = neg(%x) return y = %y }",
                    "graph(%x: f32[2]) { %d = exp(%x) %y = neg(%d) return y = %y }", "no output depends on it"},
    {FINDING_T0105, "graph(%x: f32[2]) { %w = const f32[2] {1, 2} %d = exp(%w) %y = neg(%x) return y = %y, z = %d }",
                    "graph(%x: f32[2]) { %y = neg(%x) return y = %y }", "depends on no input"},
    {FINDING_T0106, "graph(%x: f32[2]) { %y = neg(%x) return y = %y, z = %x }",
                    "graph(%x: f32[2]) { %y = neg(%x) return y = %y }", "input 'x'"},
    {FINDING_T0107, "graph(%x: f32[2]) { %y = neg(%x) return y = %y, z = %y }",
                    "graph(%x: f32[2]) { %y = neg(%x) %z = exp(%x) return y = %y, z = %z }", "output 'y'"},

    {FINDING_T0201, "graph(%x: f32[2]) { %a = const i32[1] {65536} %b = mul(%a, %a) %y = constant_of_shape(%b) return y = %y }",
                    "graph(%x: f32[2]) { %a = const i64[1] {65536} %b = mul(%a, %a) %y = constant_of_shape(%b) return y = %y }",
                    "not fit in i32"},
    {FINDING_T0202, "graph(%x: i32[2]) { %l = const i32[] {0} %h = const i32[] {100000} %c = clip(%x, %l, %h) %y = mul(%c, %c) return y = %y }",
                    "graph(%x: i32[2]) { %l = const i32[] {0} %h = const i32[] {10000} %c = clip(%x, %l, %h) %y = mul(%c, %c) return y = %y }",
                    "[0, 10000000000]"},
    {FINDING_T0203, "graph(%x: i64[3]) { %d = const i64[3] {1, 0, 2} %y = div(%x, %d) return y = %y }",
                    "graph(%x: i64[3]) { %d = const i64[3] {1, 4, 2} %y = div(%x, %d) return y = %y }", "1 of 3 elements"},
    {FINDING_T0204, "graph(%x: i64[2], %u: i64[2]) { %l = const i64[] {0} %h = const i64[] {9} %c = clip(%u, %l, %h) %y = mod(%x, %c) return y = %y }",
                    "graph(%x: i64[2], %u: i64[2]) { %l = const i64[] {1} %h = const i64[] {9} %c = clip(%u, %l, %h) %y = mod(%x, %c) return y = %y }",
                    "[0, 9]"},
    {FINDING_T0205, "graph(%x: f32[2]) { %w = const f32[2] {3e9, 4e9} %c = cast(%w) to=i32 %z = cast(%x) to=i32 %y = add(%c, %z) return y = %y }",
                    "graph(%x: f32[2]) { %w = const f32[2] {3e9, 4e9} %c = cast(%w) to=i64 %z = cast(%x) to=i64 %y = add(%c, %z) return y = %y }",
                    "i32"},
    {FINDING_T0206, "graph(%x: f32[2]) { %s = sigmoid(%x) %w = const f32[] {300} %m = mul(%s, %w) %y = cast(%m) to=u8 return y = %y }",
                    "graph(%x: f32[2]) { %s = sigmoid(%x) %w = const f32[] {255} %m = mul(%s, %w) %y = cast(%m) to=u8 return y = %y }",
                    "[0, 300]"},

    {FINDING_T0301, "graph(%x: f16[2]) { %w = const f32[] {-3.4e38} %c = cast(%w) to=f16 %y = add(%x, %c) return y = %y }",
                    "graph(%x: f16[2]) { %w = const f32[] {-65504} %c = cast(%w) to=f16 %y = add(%x, %c) return y = %y }", "65504"},
    {FINDING_T0302, "graph(%x: f16[2]) { %s = sigmoid(%x) %w = const f16[] {60000} %a = mul(%s, %w) %y = add(%a, %a) return y = %y }",
                    "graph(%x: f16[2]) { %s = sigmoid(%x) %w = const f16[] {30000} %a = mul(%s, %w) %y = add(%a, %a) return y = %y }",
                    "120000"},
    {FINDING_T0303, "graph(%x: f32[2]) { %d = const f32[2] {1, 0} %y = div(%x, %d) return y = %y }",
                    "graph(%x: f32[2]) { %d = const f32[2] {1, 2} %y = div(%x, %d) return y = %y }", "1 of 2"},
    {FINDING_T0304, "graph(%x: f32[2]) { %d = relu(%x) %y = div(%x, %d) return y = %y }",
                    "graph(%x: f32[2]) { %d = relu(%x) %e = const f32[] {0.001} %s = add(%d, %e) %y = div(%x, %s) return y = %y }", "[0, inf]"},
    {FINDING_T0305, "graph(%x: f32[2]) { %a = abs(%x) %e = const f32[] {1} %s = add(%a, %e) %m = neg(%s) %y = sqrt(%m) return y = %y }",
                    "graph(%x: f32[2]) { %a = abs(%x) %e = const f32[] {1} %s = add(%a, %e) %y = sqrt(%s) return y = %y }", "[-inf, -1]"},
    {FINDING_T0306, "graph(%x: f32[2]) { %w = const f32[2] {nan, 1} %y = add(%x, %w) return y = %y }",
                    "graph(%x: f32[2]) { %w = const f32[2] {-inf, 1} %y = add(%x, %w) return y = %y }", "1 of 2 elements"},
    {FINDING_T0307, "graph(%x: f32[2]) { %s = const f32[] {0} %z = const u8[] {3} %y = quantize_linear(%x, %s, %z) return y = %y }",
                    "graph(%x: f32[2]) { %s = const f32[] {0.1} %z = const u8[] {3} %y = quantize_linear(%x, %s, %z) return y = %y }", "first is 0"},

    {FINDING_T0401, "graph(%x: f32[4, 3], %u: f32[3]) { %i = const i64[3, 2] {0, 0, -4, 1, 4, 2} %y = scatter_nd(%x, %i, %u) return y = %y }",
                    "graph(%x: f32[4, 3], %u: f32[3]) { %i = const i64[3, 2] {0, 0, -4, 1, 3, 2} %y = scatter_nd(%x, %i, %u) return y = %y }", "axis of size 4"},
    {FINDING_T0402, "graph(%x: f32[4, n]) { %i = const i64[2] {0, 7} %y = gather(%x, %i) axis=1 return y = %y }",
                    "graph(%x: f32[4, n]) { %i = const i64[2] {0, -1} %y = gather(%x, %i) axis=1 return y = %y }", "at least 8"},
    {FINDING_T0403, "graph(%x: f32[4, 9], %u: f32[4]) { %i = arg_max(%x) axis=1 keepdims=false %y = gather(%u, %i) return y = %y }",
                    "graph(%x: f32[4, 9], %u: f32[9]) { %i = arg_max(%x) axis=1 keepdims=false %y = gather(%u, %i) return y = %y }", "[0, 8]"},

    {FINDING_T0501, "graph(%x: f32[4]) { %y = non_zero(%x) return y = %y }",
                    "graph(%x: f32[4]) { %y = neg(%x) return y = %y }", "1 value"},
};
// clang-format on

static Graph *analyse_text(const char *text, Arena *a, Analysis *out) {
  Graph *g = NULL;
  diag_init(&diag);
  if (graph_parse(str_of(text), NULL, &diag, &g)) {
    FAIL("%s\n%s", diag.text, text);
    return NULL;
  }
  analyse_graph(g, &(AnalyseOptions){.all_nodes = true}, a, out);
  return g;
}

static const Finding *find(const Analysis *an, FindingCode code) {
  for (int64_t i = 0; i < an->finding.n; i++)
    if (an->finding.v[i].code == code) return &an->finding.v[i];
  return NULL;
}

TEST(analyse_every_finding) {
  bool covered[FINDING_COUNT] = {false};
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    const Case *c = &cases[i];
    Arena a;
    Analysis an;
    arena_init(&a);
    Graph *g = analyse_text(c->with, &a, &an);
    const Finding *f = g ? find(&an, c->code) : NULL;
    if (g && !f) FAIL("%s is not found in\n%s", finding_info[c->code].code, c->with);
    if (f) EXPECT_CONTAINS(f->text, c->says);
    if (f) EXPECT_INT_EQ(f->severity, finding_info[c->code].severity);
    graph_free(g);
    g = analyse_text(c->without, &a, &an);
    if (g && find(&an, c->code)) FAIL("%s is found in\n%s", finding_info[c->code].code, c->without);
    graph_free(g);
    arena_deinit(&a);
    covered[c->code] = true;
  }
  for (int i = 0; i < FINDING_COUNT; i++)
    if (!covered[i]) FAIL("no case for %s", finding_info[i].code);
}

TEST(analyse_codes_ascend) {
  for (int i = 0; i < FINDING_COUNT; i++) {
    const FindingInfo *f = &finding_info[i];
    EXPECT(strlen(f->code) == 5 && f->code[0] == 'T');
    EXPECT(f->title[0] && f->meaning[0] && f->hint[0]);
    if (i) EXPECT(strcmp(finding_info[i - 1].code, f->code) < 0);
  }
}

// An error within a branch is a warning: it may not be run.
TEST(analyse_branch_is_not_sure) {
  Arena a;
  Analysis an;
  arena_init(&a);
  Graph *g =
      analyse_text("graph(%c: bool[], %x: i64[2]) {\n"
                   "  %y = if(%c, %x, %x) then_captures=1 then_branch={(%p: i64[2]) %z = const "
                   "i64[] {0} %d = div(%p, %z) return %d}\n"
                   "    else_branch={(%q: i64[2]) %e = neg(%q) return %e}\n  return y = %y }",
                   &a, &an);
  if (g) {
    const Finding *f = find(&an, FINDING_T0203);
    EXPECT(f && f->severity == SEVERITY_WARNING);
    EXPECT_INT_EQ(an.count[SEVERITY_ERROR], 0);
  }
  graph_free(g);
  arena_deinit(&a);
}

static Range range_of_text(const char *text, Arena *a) {
  Analysis an;
  Range r = {0};
  Graph *g = analyse_text(text, a, &an);
  if (g) r = analyse_range(&an, g->main->result[0]);
  graph_free(g);
  return r;
}

TEST(analyse_ranges) {
  Arena a;
  arena_init(&a);
  Range r = range_of_text("graph(%x: u8[4]) { %s = const f32[] {0.5} %z = const u8[] {128} %y = "
                          "dequantize_linear(%x, %s, %z) return y = %y }",
                          &a);
  EXPECT_F64_EQ(r.lo, -64);
  EXPECT_F64_EQ(r.hi, 63.5);
  r = range_of_text("graph(%x: f32[8, 4]) { %s = softmax(%x) %y = reduce_sum(%s) return y = %y }",
                    &a);
  EXPECT_F64_EQ(r.hi, 32);
  r = range_of_text("graph(%x: f32[n, 4]) { %s = shape(%x) %c = const i64[1] {1} %y = add(%s, %c) "
                    "return y = %y }",
                    &a);
  EXPECT(r.kind == RANGE_INT);
  EXPECT_INT_EQ(r.least, 1);
  r = range_of_text("graph(%x: f32[8]) { %m = mul(%x, %x) %e = const f32[] {1e-5} %v = add(%m, %e) "
                    "%y = sqrt(%v) return y = %y }",
                    &a);
  EXPECT(r.lo > 0.003 && r.lo < 0.0032);
  r = range_of_text("graph(%c: bool[], %x: f32[2]) {\n"
                    "  %y = if(%c, %x, %x) then_captures=1 then_branch={(%p: f32[2]) %d = "
                    "sigmoid(%p) return %d}\n"
                    "    else_branch={(%q: f32[2]) %e = tanh(%q) return %e}\n  return y = %y }",
                    &a);
  EXPECT_F64_EQ(r.lo, -1);
  EXPECT_F64_EQ(r.hi, 1);
  // A softmax that an exporter decomposed divides by no zero.
  Analysis an;
  Graph *g = analyse_text("graph(%x: f32[n, 8]) { %k = const i64[1] {1} %m = reduce_max(%x, %k) %d "
                          "= sub(%x, %m) %e = exp(%d) "
                          "%s = reduce_sum(%e, %k) %y = div(%e, %s) return y = %y }",
                          &a, &an);
  if (g) EXPECT_INT_EQ(an.finding.n, 0);
  graph_free(g);
  arena_deinit(&a);
}

// ---- ranges against runs ----

static uint64_t rng_state;
static double uniform(void) {
  rng_state = rng_state * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(rng_state >> 11) * 0x1p-53;
}

static bool make_input(Run *run, const Type *t, Value **out) {
  int64_t dims[MAX_RANK];
  if (t->kind != TK_TENSOR || t->rank < 0 || !range_type(t).kind) return false;
  for (int i = 0; i < t->rank; i++) dims[i] = ie_is_const(t->dims[i]) ? t->dims[i]->value : 3;
  if (value_tensor(run, NOWHERE, t->dtype, t->rank, dims, out)) return false;
  for (int64_t i = 0; i < (*out)->n; i++) {
    double u = uniform();
    if (dtype_is_float(t->dtype))
      val_put_f64(*out, i, t->dtype == DT_F8E8M0 ? 1 + 7 * u : 4 * u - 2);
    else
      val_put_i64(*out, i,
                  (int64_t)(t->dtype == DT_BOOL        ? u < 0.5
                            : dtype_bits(t->dtype) < 8 ? 2 * u
                                                       : 10 * u));
  }
  return true;
}

static bool lies_within(const Value *v, Range r) {
  for (int64_t i = 0; i < v->n; i++) {
    if (r.kind == RANGE_INT) {
      int64_t x = val_i64(v, i);
      bool open = v->dtype == DT_U64 && r.most == INT64_MAX;
      if (!(open && x < 0) && (x < r.least || x > r.most)) return false;
      continue;
    }
    double x = val_f64(v, i), slack = 1e-5 * (1 + fabs(x));
    if (!isnan(x) && (x < r.lo - slack || x > r.hi + slack)) return false;
  }
  return true;
}

static int64_t check_sample(const Sample *s) {
  Arena a;
  Analysis an;
  Run run;
  Interp *in = NULL;
  Value *input[64] = {NULL}, *out[64] = {NULL};
  int64_t known = 0;
  arena_init(&a);
  diag_init(&diag);
  rng_state = 42;
  const char *text = sample_graph(&a, s);
  Graph *g = NULL;
  if (!text || graph_parse(str_of(text), NULL, &diag, &g))
    return 0;  // tests/ops/ops_test.c says what is wrong
  run_init(&run, NULL, &diag);
  bool ok = true;
  for (int64_t i = 0; ok && i < g->main->nparams; i++)
    ok = make_input(&run, type_of(g->main->param[i]), &input[i]);
  if (ok && !interp_create(g, &(InterpOptions){0}, &diag, &in) &&
      !interp_run(in, &run, input, out)) {
    analyse_graph(g, &(AnalyseOptions){0}, &a, &an);
    for (int64_t i = 0; i < g->main->nresults; i++) {
      Range r = analyse_range(&an, g->main->result[i]);
      if (!r.kind || !out[i] || out[i]->kind != VK_TENSOR) continue;
      known += range_is_known(r, out[i]->dtype);
      if (!lies_within(out[i], r))
        FAIL("%s%s: result %lld is not in [%g, %g]", s->op->name, s->text, (long long)i, r.lo,
             r.hi);
    }
  }
  interp_free(in);
  run_deinit(&run);
  graph_free(g);
  arena_deinit(&a);
  return known;
}

TEST(analyse_ranges_hold_for_all_samples) {
  int64_t known = 0;
  for (int i = 0; i < OP_COUNT; i++)
    for (const char *const *s = op_table[i]->samples; s && *s; s++)
      known += check_sample(&(Sample){op_table[i], *s});
  EXPECT(known > 50);
}

// On random graphs, as they are and optimised: results lie in their ranges, and where an error is
// promised, the run has one.
static void check_random(uint64_t seed, bool optimise, int64_t *known) {
  Arena a;
  Analysis an;
  Run run;
  Interp *in = NULL;
  Value *input[256] = {NULL}, *out[256] = {NULL};
  diag_init(&diag);
  Graph *g = fuzz_graph(seed, &diag);
  if (!g || g->main->nparams > 256 || g->main->nresults > 256) {
    graph_free(g);
    return;
  }
  arena_init(&a);
  rng_state = seed;
  run_init(&run, NULL, &diag);
  CompileOptions o;
  CompileReport report = {0};
  compile_defaults(&o);
  bool ok = !optimise || !compile_graph(g, &o, COMPILE_OPTIMISE, &a, &diag, &report);
  for (int64_t i = 0; ok && i < g->main->nparams; i++)
    ok = make_input(&run, type_of(g->main->param[i]), &input[i]);
  if (ok) {
    analyse_graph(g, &(AnalyseOptions){0}, &a, &an);
    ok = !interp_create(g, &(InterpOptions){0}, &diag, &in) && !interp_run(in, &run, input, out);
    const Finding *zero = find(&an, FINDING_T0203), *index = find(&an, FINDING_T0401);
    if (ok && zero && zero->severity == SEVERITY_ERROR)
      FAIL("seed %d: %s: %s", (int)seed, zero->name, zero->text);
    if (ok && index && index->severity == SEVERITY_ERROR)
      FAIL("seed %d: %s: %s", (int)seed, index->name, index->text);
  }
  for (int64_t i = 0; ok && i < g->main->nresults; i++) {
    Range r = analyse_range(&an, g->main->result[i]);
    if (!r.kind || !out[i] || out[i]->kind != VK_TENSOR) continue;
    *known += range_is_known(r, out[i]->dtype);
    if (!lies_within(out[i], r))
      FAIL("seed %d%s: result %d (%s) is not in [%g, %g]", (int)seed, optimise ? ", optimised" : "",
           (int)i, op_name(g->main->result[i]), r.lo, r.hi);
  }
  interp_free(in);
  run_deinit(&run);
  graph_free(g);
  arena_deinit(&a);
}

TEST(analyse_ranges_hold_for_random_graphs) {
  int64_t known = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    check_random(seed, false, &known);
    check_random(seed, true, &known);
  }
  EXPECT(known > 100);
}

// ---- memory ----

// Of the graph as it is, without passes.
static MemPlan *plan_as_is(Graph *g, Arena *a) {
  CompileOptions o;
  CompileReport r = {.done = COMPILE_OPTIMISE};
  compile_defaults(&o);
  if (compile_graph(g, &o, COMPILE_PLAN, a, &diag, &r)) FAIL("%s", diag.text);
  return r.plan;
}

TEST(analyse_memory_formula) {
  Arena a;
  arena_init(&a);
  diag_init(&diag);
  Graph *g = NULL;
  const char *text =
      "graph(%x: f32[n, 64], %w: f32[64, 256], %v: f32[256, 16]) {\n"
      "  %a = mat_mul(%x, %w)\n  %b = softmax(%a)\n  %c = mat_mul(%b, %v)\n  return y = %c }";
  REQUIRE(!graph_parse(str_of(text), NULL, &diag, &g));
  DimBinding b;
  MemoryUse m;
  binding_init(&b, &a, g);
  binding_default(&b, g, 5);
  analyse_memory(plan_as_is(g, &a), &b, &a, &m);
  EXPECT(m.known);
  EXPECT_INT_EQ(m.bytes, 5 * 2 * 256 * 4);
  EXPECT_INT_EQ(m.arena_bytes, m.bytes);
  StrBuf s;
  strbuf_init(&s, &a);
  memory_print_formula(&s, &m);
  EXPECT_STR_EQ(strbuf_text(&s), "2048*n");
  EXPECT_INT_EQ(m.nany, 1);
  graph_free(g);
  arena_deinit(&a);
}

// Which step is the peak depends on the sizes: both sums are in the formula, and each is right at
// its sizes.
TEST(analyse_memory_of_two_peaks) {
  Arena a;
  arena_init(&a);
  diag_init(&diag);
  Graph *g = NULL;
  const char *text =
      "graph(%x: f32[n, 16], %z: f32[m, 16]) {\n  %a = softmax(%x)\n  %b = log_softmax(%a)\n"
      "  %c = reduce_sum(%b)\n  %d = softmax(%z)\n  %e = log_softmax(%d)\n  %f = reduce_sum(%e)\n"
      "  %y = add(%c, %f)\n  return y = %y }";
  REQUIRE(!graph_parse(str_of(text), NULL, &diag, &g));
  for (int k = 0; k < 2; k++) {
    DimBinding b;
    MemoryUse m;
    binding_init(&b, &a, g);
    binding_default(&b, g, 2);
    b.value[k] = 1000;
    analyse_memory(plan_as_is(g, &a), &b, &a, &m);
    EXPECT(m.known && m.bytes >= 128000 && m.bytes < 129000);
    EXPECT_INT_EQ(m.nany, 2);
    int64_t v, most = 0;
    for (int i = 0; i < m.nany; i++)
      if (ie_eval(m.any[i], b.value, b.known, b.n, &v)) most = MAX(most, v);
    EXPECT_INT_EQ(most, m.bytes);
  }
  graph_free(g);
  arena_deinit(&a);
}

// ---- models ----

static void check_model(const char *path, int64_t *count) {
  Arena a;
  Analysis an;
  Model *m = NULL;
  diag_init(&diag);
  if (model_open(path, NULL, &diag, &m))
    return;  // not one of ours, or unsound: tests/system/models_test.py tells them apart
  arena_init(&a);
  analyse_graph(m->graph, &(AnalyseOptions){0}, &a, &an);
  for (int64_t i = 0; i < an.finding.n; i++)
    if (an.finding.v[i].severity == SEVERITY_ERROR)
      FAIL("%s: %s %s '%s': %s", path, finding_info[an.finding.v[i].code].code,
           an.finding.v[i].what, an.finding.v[i].name, an.finding.v[i].text);
  ++*count;
  arena_deinit(&a);
  model_free(m);
}

static void check_folder(const char *path, int depth, int64_t *count) {
  DIR *d = depth < 6 ? opendir(path) : NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    char sub[1200];
    if (e->d_name[0] == '.') continue;
    snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
    if (str_ends(str_of(sub), ".onnx"))
      check_model(sub, count);
    else
      check_folder(sub, depth + 1, count);
  }
  if (d) closedir(d);
}

TEST(analyse_no_false_alarms) {
  const char *data = test_data_dir();
  if (!data) SKIP("no models here");
  int64_t count = 0;
  char path[1100];
  snprintf(path, sizeof path, "%s/models", data);
  check_folder(path, 0, &count);
  snprintf(path, sizeof path, "%s/nets", data);
  check_folder(path, 0, &count);
  EXPECT(count > 20);
}
