// precision_test.c -- contractions in bf16: what is narrowed, and how far results then lie from the
// model's.
#include "schedules.h"
#include "compiled.h"
#include "eval/scalar.h"
#include "ir/interpret.h"
#include "ir/internal.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "runtime/session.h"
#include "targets/cpu.h"
#include "targets/target.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static uint64_t rng;
static double uniform(void) {
  rng = hash_u64(rng + 0x9e3779b97f4a7c15ull);
  return (double)(rng >> 11) * 0x1p-52 - 1;
}

static void print_floats(StrBuf *b, const char *name, int rank, const int64_t *dims, double scale) {
  int64_t n = 1;
  strbuf_printf(b, "  %%%s = const f32[", name);
  for (int i = 0; i < rank; i++) {
    strbuf_printf(b, "%s%lld", i ? ", " : "", (long long)dims[i]);
    n *= dims[i];
  }
  strbuf_printf(b, "] {");
  for (int64_t i = 0; i < n; i++) strbuf_printf(b, "%s%.6g", i ? ", " : "", scale * uniform());
  strbuf_printf(b, "}\n");
}

static void fill(Value *v) {
  for (int64_t k = 0; k < v->n; k++) val_put_f64(v, k, 2 * uniform());
}

static tenon_status compile_narrow(void *report, const char *text, const char *target, Arena *a,
                                   Diag *d, Program **out) {
  CompileOptions o;
  CompileReport r;
  Graph *g;
  compile_defaults(&o);
  o.precision = PRECISION_BF16;
  o.target = target_find(target);
  tenon_status s = compile_parsed(text, &o, COMPILE_BUILD, a, d, &g, &r);
  *(PrecisionReport *)report = r.opt.precision;
  *out = r.program;
  graph_free(g);
  return s;
}

// Results beside those of the model as it is: within the share of the largest value, and not the
// same, which would mean that nothing was narrowed.
static void check(const char *text, const char *target, int64_t contractions, int64_t depth,
                  double share) {
  static BothWays b;
  rng = 3;
  PrecisionReport report = {0};
  bool ok = both_ways_run(&b, text, target, fill, compile_narrow, &report);
  if (!ok) FAIL("%s\n%s", b.diag.text, text);
  EXPECT_INT_EQ(report.contractions, contractions);
  EXPECT_INT_EQ(report.depth, depth);
  double error = 0, largest = 0;
  for (int64_t i = 0; ok && i < b.want[0]->n; i++) {
    error = fmax(error, fabs(val_f64(b.want[0], i) - val_f64(b.got[0], i)));
    largest = fmax(largest, fabs(val_f64(b.want[0], i)));
  }
  if (ok && !(error <= share * largest && error > 0))
    FAIL("%s: the largest error is %g, the largest value %g\n%s", target, error, largest, text);
  both_ways_free(&b);
}

static void check_all(const char *text, int64_t contractions, int64_t depth, double share) {
  check(text, "ref", contractions, depth, share);
  if (target_available(target_find("cpu"))) check(text, "cpu", contractions, depth, share);
}

// Odd channels at first, a residual that two read, a depthwise convolution that stays in f32, and a
// product at the end.
TEST(precision_of_convolutions) {
  Arena a;
  arena_init(&a);
  StrBuf b;
  strbuf_init(&b, &a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[b, 3, 8, 9]) {\n");
  print_floats(&b, "w1", 4, (int64_t[]){16, 3, 3, 3}, 0.4);
  print_floats(&b, "b1", 1, (int64_t[]){16}, 0.4);
  print_floats(&b, "w2", 4, (int64_t[]){16, 1, 3, 3}, 0.4);
  print_floats(&b, "w3", 4, (int64_t[]){16, 16, 1, 1}, 0.3);
  print_floats(&b, "w4", 4, (int64_t[]){10, 8, 3, 3}, 0.2);
  strbuf_printf(&b, "  %%c1 = conv(%%x, %%w1, %%b1) pads=[1, 1, 1, 1]\n  %%r1 = relu(%%c1)\n"
                    "  %%c2 = conv(%%r1, %%w2) pads=[1, 1, 1, 1] group=16\n"
                    "  %%c3 = conv(%%r1, %%w3)\n  %%s = add(%%c2, %%c3)\n  %%r2 = relu(%%s)\n"
                    "  %%c4 = conv(%%r2, %%w4) strides=[2, 2] group=2\n  %%y = tanh(%%c4)\n"
                    "  return %%y\n}\n");
  check_all(strbuf_text(&b), 3, 3, 0.05);
  arena_deinit(&a);
}

TEST(precision_of_products) {
  Arena a;
  arena_init(&a);
  StrBuf b;
  strbuf_init(&b, &a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[b, 7, 38]) {\n");
  print_floats(&b, "w1", 2, (int64_t[]){38, 24}, 0.3);
  print_floats(&b, "w2", 2, (int64_t[]){35, 24}, 0.3);
  print_floats(&b, "w3", 2, (int64_t[]){35, 9}, 0.3);
  print_floats(&b, "c", 1, (int64_t[]){35}, 0.3);
  print_floats(&b, "g", 1, (int64_t[]){24}, 1);
  strbuf_printf(&b, "  %%sh = const i64[2] {-1, 24}\n  %%m1 = mat_mul(%%x, %%w1)\n"
                    "  %%n = layer_normalization(%%m1, %%g)\n  %%f = reshape(%%n, %%sh)\n"
                    "  %%m2 = gemm(%%f, %%w2, %%c) transB=true\n"
                    "  %%m3 = mat_mul(%%m2, %%w3)\n  return %%m3\n}\n");
  check_all(strbuf_text(&b), 3, 3, 0.05);  // the last one has odd rows, which are filled up
  arena_deinit(&a);
}

// Weights that are large and only turned and joined: what is cast is what they are made from, and
// they are read through the moves.
TEST(precision_of_moved_weights) {
  Arena a;
  arena_init(&a);
  StrBuf b;
  strbuf_init(&b, &a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[b, 120]) {\n");
  print_floats(&b, "w1", 2, (int64_t[]){160, 120}, 0.2);
  print_floats(&b, "w2", 2, (int64_t[]){200, 120}, 0.2);
  strbuf_printf(&b, "  %%j = concat(%%w1, %%w2) axis=0\n  %%t = transpose(%%j) perm=[1, 0]\n"
                    "  %%y = mat_mul(%%x, %%t)\n  return %%y\n}\n");
  check_all(strbuf_text(&b), 1, 1, 0.05);
  arena_deinit(&a);
}

// A weight that two read, one of them transposed: a table of words and the head of a language
// model.
TEST(precision_of_tied_weights) {
  Arena a;
  arena_init(&a);
  StrBuf b;
  strbuf_init(&b, &a);
  strbuf_printf(&b, "graph @\"g\"(%%i: i64[b, 5]) {\n");
  print_floats(&b, "w", 2, (int64_t[]){33, 24}, 0.5);
  strbuf_printf(&b, "  %%x = gather(%%w, %%i)\n  %%r = tanh(%%x)\n"
                    "  %%t = transpose(%%w) perm=[1, 0]\n  %%y = mat_mul(%%r, %%t)\n"
                    "  return %%y\n}\n");
  for (int limit = 0; limit < 2; limit++) {  // a transpose that is folded, and one that is not
    Diag d;
    CompileOptions o;
    CompileReport r;
    Graph *g;
    diag_init(&d);
    compile_defaults(&o);
    o.precision = PRECISION_BF16;
    o.target = target_find("ref");
    if (limit) o.fold_limit = 16;
    if (compile_parsed(strbuf_text(&b), &o, COMPILE_PLAN, &a, &d, &g, &r)) FAIL("%s", d.text);
    EXPECT_INT_EQ(r.opt.precision.contractions, 1);
    graph_free(g);
  }
  arena_deinit(&a);
}

// f32 to bf16 in bulk: every upper half with lower halves that are rounded down, up, and to even;
// NaN stays NaN.
TEST(precision_rounds_as_one_by_one) {
  static const uint32_t low[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  enum { N = 6 << 16 };
  Run run;
  Diag d;
  Value *x, *y;
  diag_init(&d);
  run_init(&run, NULL, &d);
  REQUIRE(!value_tensor(&run, NOWHERE, DT_F32, 1, (int64_t[]){N}, &x));
  for (uint32_t i = 0; i < N; i++) {
    uint32_t bits = (i / 6) << 16 | low[i % 6];
    memcpy((char *)x->data + 4 * (size_t)i, &bits, 4);
  }
  cast_attrs at = {.to = DT_BF16, .saturate = true};
  Eval e = {.run = &run, .in = (const Value *[]){x}, .nin = 1, .out = &y, .nout = 1, .attrs = &at};
  EXPECT_STATUS(eval_cast(&e), TENON_OK);
  int64_t wrong = 0;
  for (int64_t i = 0; i < N; i++)
    wrong += ((const uint16_t *)y->data)[i] != bf16_from_f64(val_f64(x, i));
  EXPECT_INT_EQ(wrong, 0);
  run_deinit(&run);
}

// A large table is kept in bf16 on GPUs.
TEST(precision_of_tables) {
  Arena a;
  arena_init(&a);
  StrBuf b;
  strbuf_init(&b, &a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[b, 256]) {\n");
  print_floats(&b, "t", 2, (int64_t[]){300, 256}, 1);
  print_floats(&b, "w", 2, (int64_t[]){256, 16}, 0.2);
  strbuf_printf(&b,
                "  %%i = cast(%%x) to=i64\n  %%k = const i64[1] {299}\n  %%z = mod(%%i, %%k)\n"
                "  %%g = gather(%%t, %%z) axis=0\n  %%y = mat_mul(%%g, %%w)\n  return %%y\n}\n");
  setenv("TENON_BLOCK_THREADS", "32", 1);
  check(strbuf_text(&b), "ref", 1, 1, 0.05);
  unsetenv("TENON_BLOCK_THREADS");
  arena_deinit(&a);
}

// What a graph becomes for a device with tensor cores.
static Program *compile_mma(const char *text, bool advised, Arena *a, Compiled *out) {
  Diag d;
  Program *p = NULL;
  diag_init(&d);
  Asked asked = {.device = "sm_90a", .compiled = out, .advised = advised, .precision = DT_BF16};
  if (compile_asked(&asked, text, "cuda", a, &d, &p)) FAIL("%s", d.text);
  return p;
}

static Program *compile_for_mma(const char *text, Arena *a, Compiled *out) {
  return compile_mma(text, false, a, out);
}

// Attention behind narrowed products is done by units for 16-bit numbers, though its operands are
// f32 in the graph.
TEST(precision_keeps_attention_on_mma) {
  Arena a;
  StrBuf b;
  Compiled c = {0};
  arena_init(&a);
  strbuf_init(&b, &a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[2, 2, 100, 64]) {\n");
  print_floats(&b, "w", 2, (int64_t[]){64, 64}, 0.3);
  strbuf_printf(&b,
                "  %%q = mat_mul(%%x, %%w)\n  %%y = attention(%%q, %%q, %%q)\n  return %%y\n}\n");
  Program *p = compile_for_mma(strbuf_text(&b), &a, &c);
  int64_t tiles = 0;
  for (int64_t i = 0; i < c.nkernels; i++)
    tiles += schedule_fits(c.kernel[i].lowered, "attention_mma math=half");
  EXPECT_INT_EQ(tiles, 1);
  program_release(p);
  arena_deinit(&a);
}

// So is attention of the graph's inputs, where its heads are whole lines of 16-bit numbers.
TEST(precision_of_attention_of_inputs) {
  static const struct { int size, tiles; } heads[] = {{96, 1}, {64, 1}, {36, 0}};
  for (int64_t k = 0; k < ARRAY_LEN(heads); k++) {
    Arena a;
    Compiled c = {0};
    arena_init(&a);
    int size = heads[k].size;
    const char *text = str_printf(
        &a,
        "graph @\"g\"(%%q: f32[1, 4, 70, %d], %%k: f32[1, 4, 79, %d], %%v: f32[1, 4, 79, %d], "
        "%%m: f32[1, 1, 1, 79]) {\n  %%y = attention(%%q, %%k, %%v, %%m)\n  return %%y\n}\n",
        size, size, size);
    Program *p = compile_mma(text, true, &a, &c);
    int64_t tiles = 0;
    for (int64_t i = 0; i < c.nkernels; i++)
      tiles += schedule_fits(c.kernel[i].lowered, "attention_mma math=half");
    EXPECT_INT_EQ(tiles, heads[k].tiles);
    EXPECT_INT_EQ(c.nkernels > 1, heads[k].tiles);
    program_release(p);
    arena_deinit(&a);
  }
}

// The channels of a window, and rows of an input, are filled up to whole lines for tiles.
TEST(precision_fills_up_lines) {
  static const struct {
    const char *in;
    int rank;
    int64_t dims[4];
    const char *op, *schedule;
  } row[] = {
      {"1, 26, 20, 20", 4, {16, 26, 3, 3}, "conv", "gemm_mma lhs=window"},
      {"1, 12, 20, 20", 4, {16, 12, 3, 3}, "conv", "gemm_mma lhs=value"},
      {"200, 154", 2, {154, 48}, "mat_mul", "gemm_mma lhs=matrix"},
  };
  for (int64_t k = 0; k < ARRAY_LEN(row); k++) {
    Arena a;
    StrBuf b;
    Compiled c = {0};
    arena_init(&a);
    strbuf_init(&b, &a);
    strbuf_printf(&b, "graph @\"g\"(%%x: f32[%s]) {\n", row[k].in);
    print_floats(&b, "w", row[k].rank, row[k].dims, 0.3);
    strbuf_printf(&b, "  %%y = %s(%%x, %%w)\n  return %%y\n}\n", row[k].op);
    Program *p = compile_mma(strbuf_text(&b), true, &a, &c);
    int64_t tiles = 0;
    for (int64_t i = 0; i < c.nkernels; i++)
      tiles += schedule_fits(c.kernel[i].lowered, row[k].schedule);
    if (tiles != 1) FAIL("%s of %s: no %s", row[k].op, row[k].in, row[k].schedule);
    program_release(p);
    arena_deinit(&a);
  }
}

// A norm of heads goes to memory in bf16 for the rotary embedding that makes queries of it.
TEST(precision_of_rotated_heads) {
  Arena a;
  StrBuf b;
  Compiled c = {0};
  arena_init(&a);
  strbuf_init(&b, &a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[2, 2, 100, 64], %%c: f32[2, 100, 32], "
                    "%%s: f32[2, 100, 32]) {\n");
  print_floats(&b, "w", 2, (int64_t[]){64, 64}, 0.3);
  print_floats(&b, "g", 1, (int64_t[]){64}, 0.3);
  strbuf_printf(&b, "  %%p = mat_mul(%%x, %%w)\n  %%n = rms_normalization(%%p, %%g)\n"
                    "  %%q = rotary_embedding(%%n, %%c, %%s)\n"
                    "  %%y = attention(%%q, %%q, %%p)\n  return %%y\n}\n");
  Program *p = compile_for_mma(strbuf_text(&b), &a, &c);
  int64_t norms = 0;
  for (int64_t i = 0; i < c.nkernels; i++) {
    const LoopKernel *k = c.kernel[i].lowered->kernel;
    if (strcmp(c.kernel[i].lowered->schedule.t->name, "reduce_block")) continue;
    norms += k->buffer[k->nargs - 1].dtype == DT_BF16;  // the result is the last argument
  }
  EXPECT_INT_EQ(norms, 1);
  program_release(p);
  arena_deinit(&a);
}

// A pool between convolutions reads bf16 on devices, as well as it gives it.
TEST(precision_of_pools) {
  Arena a;
  StrBuf b;
  Compiled c = {0};
  arena_init(&a);
  strbuf_init(&b, &a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[2, 8, 9, 8]) {\n");
  print_floats(&b, "v", 4, (int64_t[]){16, 8, 3, 3}, 0.3);
  print_floats(&b, "w", 4, (int64_t[]){8, 16, 1, 1}, 0.3);
  strbuf_printf(&b, "  %%p = conv(%%x, %%v) pads=[1, 1, 1, 1]\n  %%q = relu(%%p)\n"
                    "  %%m = max_pool(%%q) kernel_shape=[3, 3] strides=[2, 2] pads=[1, 1, 1, 1]\n"
                    "  %%y = conv(%%m, %%w)\n  return %%y\n}\n");
  Program *p = compile_for_mma(strbuf_text(&b), &a, &c);
  int64_t pools = 0;
  for (int64_t i = 0; i < c.nkernels; i++) {
    const LoopKernel *k = c.kernel[i].lowered->kernel;
    if (k->nbuffers != 2) continue;  // a pool reads no weights
    pools += k->buffer[0].dtype == DT_BF16 && k->buffer[1].dtype == DT_BF16;
  }
  EXPECT_INT_EQ(pools, 1);
  program_release(p);
  check(strbuf_text(&b), "ref", 2, 2, 0.05);
  setenv("TENON_BLOCK_THREADS", "32", 1);
  check(strbuf_text(&b), "ref", 2, 2, 0.05);
  unsetenv("TENON_BLOCK_THREADS");
  arena_deinit(&a);
}

// On devices a sum of branches that is normalised goes to memory in bf16: only the graph's result
// is f32.
TEST(precision_of_normalised_sums) {
  Arena a;
  StrBuf b;
  Compiled c = {0};
  arena_init(&a);
  strbuf_init(&b, &a);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[128, 64]) {\n");
  print_floats(&b, "w", 2, (int64_t[]){64, 64}, 0.3);
  print_floats(&b, "s", 1, (int64_t[]){64}, 0.3);
  strbuf_printf(&b, "  %%p = mat_mul(%%x, %%w)\n  %%q = add(%%p, %%x)\n"
                    "  %%y = layer_normalization(%%q, %%s) axis=-1\n  return %%y\n}\n");
  Program *p = compile_for_mma(strbuf_text(&b), &a, &c);
  int64_t wide = 0, written = 0;
  for (int64_t i = 0; i < c.nkernels; i++) {
    const LoopKernel *k = c.kernel[i].lowered->kernel;
    for (int32_t j = 0; j < k->nargs; j++) {
      written += k->buffer[j].written;
      wide += k->buffer[j].written && k->buffer[j].dtype == DT_F32;
    }
  }
  EXPECT(written >= 2);
  EXPECT_INT_EQ(wide, 1);
  program_release(p);
  arena_deinit(&a);
}

TEST(precision_is_asked_for) {
  Diag d;
  Graph *g;
  Arena a;
  OptOptions o;
  diag_init(&d);
  arena_init(&a);
  OptReport r = {.arena = &a};
  opt_defaults(&o);
  REQUIRE(!graph_parse(STR("graph @\"g\"(%x: f32[4, 2]) { %w = const f32[2, 2] {1, 2, 3, 4} %y = "
                           "mat_mul(%x, %w) return %y }"),
                       NULL, &d, &g));
  g->diag = &d;
  EXPECT_STATUS(graph_optimise(g, &o, &r), TENON_OK);
  EXPECT_INT_EQ(r.precision.contractions, 0);
  EXPECT_INT_EQ(r.precision.dtype, TENON_DTYPE_NONE);
  graph_free(g);
  arena_deinit(&a);
}
