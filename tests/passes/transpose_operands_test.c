// transpose_operands_test.c -- products of computed matrices on units for these: which right
// operands are written out transposed, and what is computed.
#include "schedules.h"
#include "compiled.h"
#include "eval/movement.h"
#include "loop/tile.h"
#include "passes/passes.h"
#include "targets/target.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

// Tiles and kernels of a graph on a chip.
typedef struct Made {
  int64_t tiles, kernels;
} Made;

static Made made_of(const char *text, const char *chip, unsigned fast, bool invariant) {
  Arena a;
  Diag d;
  Program *p;
  Compiled c = {0};
  LoopTile t;
  arena_init(&a);
  diag_init(&d);
  Asked asked = {
      .device = chip, .compiled = &c, .fast = fast, .advised = true, .invariant = invariant};
  if (compile_asked(&asked, text, "cuda", &a, &d, &p)) FAIL("%s", d.text);
  Made m = {0, c.nkernels};
  for (int64_t i = 0; i < c.nkernels; i++)
    m.tiles += loop_find_tile(c.kernel[i].lowered->kernel, &t);
  program_release(p);
  arena_deinit(&a);
  return m;
}

#define PRODUCT(type, a, b)                                                                        \
  "graph @\"g\"(%a: " type "[" a "], %b: " type "[" b "]) {\n"                                     \
  "  %y = mat_mul(%a, %b)\n  return %y\n}\n"

TEST(large_products_of_computed_matrices_are_tiles) {
  static const struct {
    const char *text;
    int tiles, kernels;
  } row[] = {
      {PRODUCT("bf16", "4096, 4096", "4096, 4096"), 1, 2},
      {PRODUCT("f16", "64, 1024", "1024, 256"), 1, 2},
      {PRODUCT("bf16", "1, 512, 256", "1, 256, 128"), 1, 2},  // a batch of one
      {PRODUCT("bf16", "4, 128, 256", "256, 128"), 1, 2},
      {PRODUCT("bf16", "4, 128, 256", "4, 256, 128"), 0, 1},
      {PRODUCT("bf16", "64, 512", "512, 256"), 0, 1},      // too few products,
      {PRODUCT("bf16", "32, 4096", "4096, 4096"), 0, 1},   // rows,
      {PRODUCT("bf16", "4096, 4096", "4096, 32"), 0, 1},   // columns,
      {PRODUCT("bf16", "4096, 32", "32, 4096"), 0, 1},     // or terms
      {PRODUCT("bf16", "4096, 1028", "1028, 512"), 0, 1},  // rows in parts of 16 bytes
      {"graph @\"linear\"(%x: bf16[512, 256], %w: bf16[256, 256], %b: bf16[256]) {\n"
       "  %r = relu(%x)\n  %y = gemm(%r, %w, %b)\n  return %y\n}\n",
       1, 3},
      {"graph @\"both made\"(%x: f16[512, 256], %w: f16[256, 256]) {\n"  // w on the way
       "  %r = relu(%x)\n  %s = sigmoid(%w)\n  %y = mat_mul(%r, %s)\n  return %y\n}\n",
       1, 3},
      {"graph @\"both ways\"(%x: bf16[512, 512], %v: bf16[256, 512], %w: bf16[512, 512]) {\n"
       "  %y = mat_mul(%x, %w)\n  %t = transpose(%w) perm=[1, 0]\n  %z = mat_mul(%v, %t)\n"
       "  return %y, %z\n}\n",
       2, 3},
      {"graph @\"one for two\"(%x: bf16[512, 512], %z: bf16[256, 512], %w: bf16[512, 512]) {\n"
       "  %u = mat_mul(%x, %w)\n  %v = mat_mul(%z, %w)\n  return %u, %v\n}\n",
       2, 3},
  };
  unsigned usual = opt_fast_math_flags(3, false, false);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++)
    for (int k = 0; k < 2; k++) {
      Made m = made_of(row[i].text, k ? "sm_80" : "sm_90a", usual, false);
      if (m.tiles != row[i].tiles || m.kernels != row[i].kernels)
        FAIL("%d tiles in %d kernels:\n%s", (int)m.tiles, (int)m.kernels, row[i].text);
    }
  EXPECT_INT_EQ(made_of(row[0].text, "sm_75", usual, false).kernels, 1);
}

TEST(operands_of_f32_are_transposed_where_mma_multiplies_them) {
  static const char text[] = PRODUCT("f32", "512, 256", "256, 256");
  unsigned usual = opt_fast_math_flags(3, false, false);
  EXPECT_INT_EQ(made_of(text, "sm_90a", usual, false).tiles, 1);
  EXPECT_INT_EQ(made_of(text, "sm_90a", 0, false).kernels, 1);
  EXPECT_INT_EQ(made_of(text, "sm_80", usual, false).kernels, 1);
  EXPECT_INT_EQ(made_of(text, "sm_80", usual | FAST_TF32, false).tiles, 1);
}

// Where sums must not depend on the batch neither rows nor a batch of one decide.
TEST(rows_decide_nothing_where_batches_are_alike) {
  unsigned usual = opt_fast_math_flags(3, false, false);
  EXPECT_INT_EQ(made_of(PRODUCT("bf16", "1, 256", "256, 256"), "sm_90a", usual, true).tiles, 1);
  EXPECT_INT_EQ(made_of(PRODUCT("bf16", "1, 512, 256", "1, 256, 256"), "sm_90a", usual, true).tiles,
                0);
}

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++)
    ((float *)v->data)[i] = (float)((i * 7919) % 1013) / 997.0f - 0.5f;
}

static void compare(const char *text) {
  BothWays b;
  Asked asked = {.fast = opt_fast_math_flags(3, false, false) | FAST_TF32, .advised = true};
  double error = 0, largest = 0;
  if (!both_ways_run(&b, text, "ref", fill, compile_asked, &asked)) FAIL("%s", b.diag.text);
  for (int64_t k = 0; b.got[0] && k < b.got[0]->n; k++) {
    double x = val_f64(b.want[0], k), y = val_f64(b.got[0], k);
    largest = fmax(largest, fabs(x));
    error = fmax(error, fabs(x - y));
  }
  both_ways_free(&b);
  if (!(error < 1e-2 * largest)) FAIL("error %g:\n%s", error / largest, text);
  EXPECT(error > 1e-7 * largest);  // rounded to tf32, or summed in another order
}

TEST(products_of_transposed_matrices_are_right) {
  static const char *const text[] = {
      PRODUCT("f32", "S, 64", "64, 192"),
      PRODUCT("f32", "1, S, 72", "1, 72, 67"),
      PRODUCT("f32", "3, S, 64", "64, 128"),
      "graph @\"linear\"(%x: f32[S, 64], %w: f32[64, 96], %b: f32[96]) {\n"
      "  %r = relu(%x)\n  %s = sigmoid(%w)\n"
      "  %y = gemm(%r, %s, %b) alpha=0.5\n  %z = relu(%y)\n  return %z\n}\n",
  };
  setenv("TENON_BLOCK_THREADS", "256", 1);
  for (int warps = 0; warps < 2; warps++) {
    setenv("TENON_MMA", warps ? "warp" : "1", 1);
    for (int64_t i = 0; i < ARRAY_LEN(text); i++) compare(text[i]);
  }
  unsetenv("TENON_MMA");
  unsetenv("TENON_BLOCK_THREADS");
}

// Rows that are not whole blocks of threads are written as they follow one another.
TEST(transposed_matrices_are_written_in_blocks) {
  static const struct {
    const char *text;
    bool transposed;
  } row[] = {
      {"graph @\"whole\"(%x: f32[144, 512]) {\n"
       "  %y = transpose(%x) perm=[1, 0]\n  return %y\n}\n",
       true},
      {"graph @\"made\"(%x: f32[512, 192]) {\n"
       "  %r = relu(%x)\n  %y = transpose(%r) perm=[1, 0]\n  return %y\n}\n",
       true},
      {"graph @\"rows\"(%x: f32[256, 300]) {\n"
       "  %y = transpose(%x) perm=[1, 0]\n  return %y\n}\n",
       false},
  };
  setenv("TENON_BLOCK_THREADS", "256", 1);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    BothWays b;
    Compiled c = {0};
    Asked asked = {.compiled = &c, .advised = true};
    if (!both_ways_run(&b, row[i].text, "ref", fill, compile_asked, &asked))
      FAIL("%s", b.diag.text);
    EXPECT_INT_EQ(memcmp(b.got[0]->data, b.want[0]->data, (size_t)b.want[0]->n * 4), 0);
    EXPECT_INT_EQ(c.nkernels, 1);
    if (schedule_fits(c.kernel[0].lowered, "pointwise_block transpose=true") != row[i].transposed)
      FAIL("%s:\n%s", c.kernel[0].name, row[i].text);
    both_ways_free(&b);
  }
  unsetenv("TENON_BLOCK_THREADS");
}

// ---- the annotation ----

static Graph *optimised(const char *text, const char *stop_after, bool mma, Arena *a) {
  Diag *d = arena_new(a, Diag);
  Graph *g;
  OptOptions o;
  OptReport report = {.arena = a};
  diag_init(d);
  if (graph_parse(str_of(text), NULL, d, &g)) FAIL("%s", d->text);
  opt_defaults(&o);
  o.stop_after = stop_after;
  o.traits = &(const TargetTraits){
      .gpu = mma, .mma = mma ? MMA_WARPGROUP : MMA_NONE, .mma_dtypes = mma ? MMA_DTYPE_BF16 : 0};
  g->diag = d;
  if (graph_optimise(g, &o, &report)) FAIL("%s", d->text);
  return g;
}

static int count_text(Graph *g, const char *word, Arena *a) {
  StrBuf b;
  int n = 0;
  strbuf_init(&b, a);
  graph_print(g, &b);
  for (const char *p = strbuf_text(&b); (p = strstr(p, word)); p++) n++;
  return n;
}

static const Pass *pass_named(const char *name) {
  for (int64_t i = 0; i < graph_npasses; i++)
    if (!strcmp(graph_passes[i].name, name)) return &graph_passes[i];
  return NULL;
}

// The pass marks a transpose, which is then another node, printed and parsed as such; rules leave
// it alone.
TEST(a_materialized_transpose_is_kept) {
  Arena a;
  Diag d;
  OptOptions o;
  Graph *again;
  StrBuf text;
  arena_init(&a);
  diag_init(&d);
  Graph *g = optimised(PRODUCT("bf16", "512, 256", "256, 256"), "transpose-operands", true, &a);
  EXPECT_INT_EQ(count_text(g, " transpose(", &a), 2);
  EXPECT_INT_EQ(count_text(g, "materialize=true", &a), 1);
  EXPECT_INT_EQ(graph_verify(g, &d), TENON_OK);
  Node *x = g->main->param[0], *y = NA(g, transpose, (&(transpose_attrs){0}), x);
  EXPECT(y != NA(g, transpose, (&(transpose_attrs){.materialize = true}), x));
  strbuf_init(&text, &a);
  graph_print(g, &text);
  if (graph_parse(str_of(strbuf_text(&text)), NULL, &d, &again)) FAIL("%s", d.text);
  EXPECT_INT_EQ(count_text(again, "materialize=true", &a), 1);
  opt_defaults(&o);
  OptReport report = {.arena = &a};
  EXPECT_INT_EQ(passes_run(pass_named("simplify-graph"), 1, again, &o, &report), TENON_OK);
  EXPECT_INT_EQ(count_text(again, "materialize=true", &a), 1);
  EXPECT_INT_EQ(count_text(again, " transpose(", &a), 2);
  graph_free(again);
  graph_free(g);
  arena_deinit(&a);
}

// Fusion gives it a kernel on any target, whoever reads it; without the mark there is one kernel.
TEST(a_materialized_transpose_has_its_kernel) {
  static const char *const mark[] = {"", " materialize=true"};
  Arena a;
  arena_init(&a);
  for (int i = 0; i < 2; i++) {
    const char *text = str_printf(&a,
                                  "graph @\"g\"(%%x: f32[8, 16]) {\n"
                                  "  %%t = transpose(%%x) perm=[1, 0]%s\n  %%y = exp(%%t)\n"
                                  "  %%z = softmax(%%y)\n  return %%z\n}\n",
                                  mark[i]);
    Graph *g = optimised(text, NULL, false, &a);
    EXPECT_INT_EQ(count_text(g, " fused(", &a), 1 + i);
    graph_free(g);
  }
  arena_deinit(&a);
}
