// graphfuzz_test.c -- two thousand random graphs with fixed seeds, of which a quarter are compiled
// for cpu and an eighth for ref; GRAPH_FUZZ=N and GRAPH_FUZZ_SEED=S for more, TEST_EVERY=N for each
// Nth of them.
//
// A failing graph is reduced and written as a text file that is a test of its own: put into
// tools/graphfuzz/cases, it is checked from then on (GRAPH_FUZZ_OUT names the folder,
// build/graphfuzz when not set).  GRAPH_FUZZ_FILES names a folder into which the graphs themselves
// are written, for others who want some.
#include "graphfuzz/graphfuzz.h"
#include "base/process.h"
#include "targets/llvm/codegen.h"
#include "targets/target.h"
#include "test.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

static void save_case(uint64_t seed, const char *said, const FuzzWay *way) {
  static Diag d;
  Arena a;
  arena_init(&a);
  StrBuf text;
  int64_t nodes = 0;
  strbuf_init(&text, &a);
  diag_init(&d);
  Graph *g = fuzz_graph(seed, &d);
  if (g) fuzz_reduce(g, way, &text, &nodes);
  graph_free(g);
  const char *dir = getenv("GRAPH_FUZZ_OUT");
  if (!dir) dir = TENON_SOURCE_DIR "/build/graphfuzz";
  mkdir(dir, 0777);
  const char *path = str_printf(&a, "%s/seed%llu.tir", dir, (unsigned long long)seed);
  if (file_write(path, text.p, text.n, &d)) path = "(not written)";
  FAIL("seed %llu: %s\n  reduced to %lld nodes in %s:\n%s", (unsigned long long)seed, said,
       (long long)nodes, path, strbuf_text(&text));
  arena_deinit(&a);
}

static void report(const FuzzStats *st, const char *first_invalid) {
  int64_t rare = 0, ops = 0;
  for (int i = 0; i < OP_COUNT; i++) {
    if (i <= OP_foreign) continue;  // no op of a model, but what graphs are made of
    ops++;
    rare += st->used[i] < 20;
    printf("%s%s%s %lld", ops > 1 ? ", " : "  ", st->used[i] < 20 ? "*" : "", op_table[i]->name,
           (long long)st->used[i]);
  }
  printf("\n  dtypes:");
  for (int i = 1; i <= DT_I2; i++)
    printf(" %s %lld", dtype_name((DType)i), (long long)st->dtype[i]);
  printf("\n  ranks:");
  for (int i = 0; i < 8; i++) printf(" %d: %lld", i, (long long)st->rank[i]);
  printf("\n  %.1f nodes a graph", (double)st->nodes / (double)MAX(st->graphs, 1));
  printf("; with tensors of no elements %lld, with bodies %lld, with symbols %lld\n",
         (long long)st->empty, (long long)st->bodies, (long long)st->symbolic);
  printf("  %lld runs compared bit for bit, %lld within a bound, %lld without one\n",
         (long long)st->exact, (long long)st->bounded, (long long)st->unbounded);
  printf("  %lld nodes channels last\n", (long long)st->channels_last);
  if (st->kernels)
    printf("  compiled: %lld kernels, %lld groups on the host; %lld graphs refused\n",
           (long long)st->kernels, (long long)st->host, (long long)st->refused);
  printf("  schedules left: %lld not proven, %lld above a limit\n", (long long)st->unproven,
         (long long)st->limited);
  printf("%lld graphs, %lld invalid, %lld of %lld ops in fewer than 20\n", (long long)st->graphs,
         (long long)st->invalid, (long long)rare, (long long)ops);
  if (st->invalid) printf("  the first invalid one: %s\n", first_invalid);
}

#ifdef UNDER_ASAN
enum { GRAPHS = 400, COMPILED = 100, INTERPRETED = 100 };  // as long as the others without it
#else
enum { GRAPHS = 2000, COMPILED = 500, INTERPRETED = 250 };
#endif

static void fuzz(const struct Target *target, int64_t usual, FuzzStats *st) {
  const char *count = getenv("GRAPH_FUZZ"), *from = getenv("GRAPH_FUZZ_SEED");
  const char *most = getenv("GRAPH_FUZZ_FAILURES");
  int64_t n = count ? atoll(count) : usual, first = from ? atoll(from) : 1, failed = 0;
  static Diag d, invalid;
  for (int64_t i = 0; i < n && failed < (most ? atoll(most) : 5); i++) {
    if (!test_takes()) continue;
    uint64_t seed = (uint64_t)(first + i);
    FuzzWay way = {.seed = seed, .target = target};
    int64_t before = st->invalid;
    diag_init(&d);
    if (!fuzz_check(seed, &way, st, &d)) {
      save_case(seed, d.text, &way);
      failed++;
    }
    if (st->invalid > before && (before == 0 || getenv("GRAPH_FUZZ_INVALID"))) {
      invalid = d;
      if (before) printf("  invalid %llu: %s\n", (unsigned long long)seed, d.text);
    }
  }
  EXPECT(st->invalid * 100 <= st->graphs);
  if (count) report(st, invalid.text);
}

TEST_LONG(graph_fuzz) {
  static FuzzStats st;
  fuzz(NULL, GRAPHS, &st);
  for (int i = OP_foreign + 1; st.graphs >= 20000 && i < OP_COUNT; i++)
    if (st.used[i] < 20) FAIL("%s is in %lld graphs", op_table[i]->name, (long long)st.used[i]);
}

TEST(graph_fuzz_files) {
  const char *dir = getenv("GRAPH_FUZZ_FILES"), *count = getenv("GRAPH_FUZZ");
  const char *from = getenv("GRAPH_FUZZ_SEED");
  static Diag d;
  if (!dir) SKIP("GRAPH_FUZZ_FILES names no folder");
  for (int64_t i = 0; i < (count ? atoll(count) : 1); i++) {
    Arena a;
    StrBuf text;
    uint64_t seed = (uint64_t)((from ? atoll(from) : 1) + i);
    arena_init(&a);
    strbuf_init(&text, &a);
    diag_init(&d);
    Graph *g = fuzz_graph(seed, &d);
    if (g) graph_print(g, &text);
    graph_free(g);
    const char *path = str_printf(&a, "%s/seed%llu.tir", dir, (unsigned long long)seed);
    if (text.n && file_write(path, text.p, text.n, &d)) FAIL("%s: %s", path, d.text);
    arena_deinit(&a);
  }
}

// ---- compiled ----

TEST(compiled_graph_fuzz_ref) {
  static FuzzStats st;
  fuzz(target_find("ref"), INTERPRETED, &st);
  EXPECT(st.kernels > st.graphs);
}

TEST_LONG(compiled_graph_fuzz_cpu) {
  static FuzzStats st;
  static Diag d;
  Codegen *kept;  // one set of processes for all graphs
  if (!target_available(target_find("cpu"))) SKIP("built without LLVM");
  REQUIRE(!codegen_shared(0, &d, &kept));
  fuzz(target_find("cpu"), COMPILED, &st);
  codegen_release(kept);
  EXPECT(st.kernels > st.graphs);
}

TEST(compiled_graph_fuzz_cuda) {
  static FuzzStats st;
  if (!target_available(target_find("cuda"))) SKIP("there is no NVIDIA GPU");
  fuzz(target_find("cuda"), COMPILED, &st);
  EXPECT(st.kernels > st.graphs);
}

// Each graph that C can hold is a call of the C compiler.
TEST(compiled_graph_fuzz_c) {
  enum { SOURCES = 40 };
  static FuzzStats st;
  char cc[4096];
  if (!process_find("cc", cc, sizeof cc)) SKIP("there is no C compiler");
  fuzz(target_find("c"), SOURCES, &st);
}

// Each graph is a program for the driver's compiler.
TEST(compiled_graph_fuzz_opencl) {
  enum { PROGRAMS = 15 };
  static FuzzStats st;
  const char *why;
  if (!target_there(target_find("opencl"), &why)) SKIP(why);
  fuzz(target_find("opencl"), PROGRAMS, &st);
}

// Every other kernel on the device.
TEST(compiled_graph_fuzz_split) {
  enum { PROGRAMS = 15 };
  static FuzzStats st;
  const char *why;
  if (!target_there(target_find("cpu,opencl"), &why)) SKIP(why);
  fuzz(target_find("cpu,opencl"), PROGRAMS, &st);
}

// ---- what was found once ----

// Optimised only, and compiled for each target of the host that is there.
static bool check_targets(Graph *g, FuzzStats *st, bool *valid, Diag *d) {
  if (!fuzz_compare(g, &(FuzzWay){0}, st, valid, d)) return false;
  for (const Target *const *t = target_table; *valid && *t; t++)
    if (!(*t)->driver && target_available(*t) &&
        !fuzz_compare(g, &(FuzzWay){.target = *t}, st, valid, d))
      return false;
  return true;
}

static void check_case(const char *path, Arena *a) {
  static Diag d;
  static FuzzStats st;
  File f;
  Graph *g = NULL;
  diag_init(&d);
  if (file_open(path, &f, &d)) {
    FAIL("%s", d.text);
    return;
  }
  Str text = {str_copy(a, (Str){(const char *)f.bytes, f.size}), f.size};
  file_close(&f);
  bool valid = false;
  if (graph_parse(text, path, &d, &g) || !check_targets(g, &st, &valid, &d))
    FAIL("%s: %s", path, d.text);
  else if (!valid)
    FAIL("%s cannot be run: %s", path, d.text);
  graph_free(g);
}

TEST(graph_cases) {
  const char *folder = TENON_SOURCE_DIR "/tools/graphfuzz/cases";
  DIR *dir = opendir(folder);
  REQUIRE(dir != NULL);
  Arena a;
  arena_init(&a);
  int64_t n = 0;
  for (struct dirent *e = readdir(dir); e; e = readdir(dir))
    if (str_glob("*.tir", e->d_name)) {
      check_case(str_printf(&a, "%s/%s", folder, e->d_name), &a);
      n++;
    }
  closedir(dir);
  arena_deinit(&a);
  EXPECT(n >= 5);
}

// ---- bounds ----

// The same sum of f32 everywhere: as large terms cancel, it may differ by a rounding of 2^24, of
// which the result itself shows nothing.
static const char *const sums[] = {
    "graph @\"constants\"() -> (y: f64[]) {\n"
    "  %0 = const f32[3] {16777216, 1, -16777216}\n"
    "  %1 = const i64[1] {0}\n"
    "  %2 = reduce_sum(%0, %1) keepdims=false\n"
    "  %3 = cast(%2) to=f64\n"
    "  return %3\n}\n",
    "graph @\"input\"(%x: f32[3]) -> (y: f64[]) {\n"
    "  %0 = const f32[3] {16777216, 0, -16777216}\n"
    "  %1 = add(%x, %0)\n"
    "  %2 = const i64[1] {0}\n"
    "  %3 = reduce_sum(%1, %2) keepdims=false\n"
    "  %4 = cast(%3) to=f64\n"
    "  return %4\n}\n",
    "graph @\"body\"(%c: bool[]) -> (y: f64[]) {\n"
    "  %0 = if(%c) then_branch={ @\"then\" ()\n"
    "    %0 = const f32[3] {16777216, 1, -16777216}\n"
    "    %1 = const i64[1] {0}\n"
    "    %2 = reduce_sum(%0, %1) keepdims=false\n"
    "    %3 = cast(%2) to=f64\n"
    "    return %3\n"
    "  } else_branch={ @\"else\" ()\n"
    "    %0 = const f32[3] {1, 16777216, -16777216}\n"
    "    %1 = const i64[1] {0}\n"
    "    %2 = neg(%0)\n"
    "    %3 = reduce_sum(%2, %1) keepdims=false\n"
    "    %4 = cast(%3) to=f64\n"
    "    return %4\n"
    "  } : f64[]\n"
    "  return %0\n}\n",
};

TEST(bounds_see_constants_and_bodies) {
  static Diag d;
  for (int64_t i = 0; i < ARRAY_LEN(sums); i++) {
    Arena a;
    Run run;
    Graph *g = NULL;
    FuzzBound b = {0};
    Value *out[FUZZ_RESULTS] = {NULL};
    arena_init(&a);
    diag_init(&d);
    run_init(&run, NULL, &d);
    if (graph_parse(str_of(sums[i]), "sums", &d, &g) || fuzz_run(g, &run, 0, NULL, NULL, &a, out)) {
      FAIL("%s", d.text);
    } else {
      fuzz_bound(g, &run, 0, &a, out, &b);
      if (!b.found || !b.spread[0] || !(val_f64(b.spread[0], 0) > 0.01))
        FAIL("%s: %g", sums[i], b.spread[0] ? val_f64(b.spread[0], 0) : -1);
    }
    run_deinit(&run);
    graph_free(g);
    arena_deinit(&a);
  }
}

// ---- a miscompile on purpose ----

// Deep inside a kernel an operand is swapped, a number is off, a sign is lost.
static Node *swap_operands(Graph *g, const Match *m) {
  Node *x = m->root->src[0], *y = m->root->src[1];
  return x->id < y->id ? N(g, sub, y, x) : NULL;
}
static Node *wrong_mean(Graph *g, const Match *m) {
  if (m->root->nsrc < 2 || m->root->src[0]->op == OP_abs) return NULL;
  return NA(g, reduce_mean, m->root->attrs, N(g, abs, m->root->src[0]), m->root->src[1]);
}
static Node *lost_index(Graph *g, const Match *m) {
  if (m->root->src[1]->op == OP_mul) return NULL;
  Node *first = N(g, mul, m->root->src[1], node_scalar(g, type_of(m->root->src[1])->dtype, 0));
  return NA(g, gather, m->root->attrs, m->root->src[0], first);
}
static const Rule swapped[] = {RULE("planted.swap", ANY(sub), .make = swap_operands)};
static const Rule off[] = {RULE("planted.mean", ANY(reduce_mean), .make = wrong_mean)};
static const Rule lost[] = {RULE("planted.gather", ANY(gather), .make = lost_index)};
static const RuleSet planted[] = {RULES("planted", swapped, "never"),
                                  RULES("planted", off, "never"), RULES("planted", lost, "never")};

// The next graph from a seed on in which the miscompile shows; `end`: none does.
static uint64_t find_planted(uint64_t seed, uint64_t end, FuzzWay *way) {
  static Diag d;
  static FuzzStats st;
  for (; seed < end; seed++) {
    way->seed = seed;
    diag_init(&d);
    if (!fuzz_check(seed, way, &st, &d)) break;
  }
  return seed;
}

// Nodes that are left of it, with what differs.
static int64_t reduced_nodes(uint64_t seed, const FuzzWay *way) {
  static Diag d;
  Arena a;
  StrBuf text;
  int64_t nodes = 0;
  arena_init(&a);
  strbuf_init(&text, &a);
  Graph *g = fuzz_graph(seed, &d), *again = NULL;
  if (g) fuzz_reduce(g, way, &text, &nodes);
  graph_free(g);
  EXPECT_CONTAINS(strbuf_text(&text), "differs");
  diag_init(&d);
  if (graph_parse(strbuf_str(&text), "reduced.tir", &d, &again)) FAIL("%s", d.text);
  graph_free(again);
  arena_deinit(&a);
  return nodes;
}

// A graph in which several things come together may stay larger: not every one of those in which it
// is found.
TEST_LONG(planted_miscompiles_are_found_and_reduced) {
  enum { FOUND = 4, END = 2000, SMALL = 3 };
  for (int64_t i = 0; i < ARRAY_LEN(planted); i++) {
    FuzzWay way = {.planted = &planted[i]};
    int64_t least = INT64_MAX;
    uint64_t seed = 1;
    for (int k = 0; k < FOUND && least > SMALL; k++, seed++) {
      seed = find_planted(seed, END, &way);
      if (seed == END) break;
      least = MIN(least, reduced_nodes(seed, &way));
    }
    if (least > SMALL) FAIL("%s is not found, or not reduced", planted[i].rule->name);
    EXPECT(least >= 1);
  }
}
