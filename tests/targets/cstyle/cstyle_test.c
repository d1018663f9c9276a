// cstyle_test.c -- kernels as C against the interpreter, bit for bit; and their text.
//
// All kernels of a test go into one file, which the system's C compiler makes a library of, in both
// forms: with vectors and as plain loops.  Every argument ends at a page that nobody may touch, so
// that an access past it ends the test.  The C is compiled at -O3, or at CSTYLE_LEVEL, where only
// the code that writes it is looked at.
#include "base/machine.h"
#include "base/platform.h"
#include "base/process.h"
#include "codegen_fixture.h"
#include "targets/cstyle/cstyle.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

typedef struct Batch {
  Arena arena;
  Diag d;
  CStyle style;
  VEC(CodegenFixture *) kernel;
  StrBuf text;
  bool vectors;
} Batch;

static void batch_open(Batch *b, bool vectors, int vector_bytes) {
  *b = (Batch){.vectors = vectors};
  arena_init(&b->arena);
  diag_init(&b->d);
  strbuf_init(&b->text, &b->arena);
  cstyle_init(&b->style, &spelling_c, vector_bytes, &b->arena, &b->d);
}

// The function as KernelFn has it.
static void put_entry(Batch *b, const LoopKernel *k, int64_t i) {
  bool scratch = loop_scratch_bytes(k) > 0;
  strbuf_printf(
      &b->text,
      "int32_t entry_%d(void *const *a, const int64_t *d, int64_t begin, int64_t end, void "
      "*s) {\n  (void)a, (void)d, (void)s;\n  return kernel_%d(",
      (int)i, (int)i);
  for (int32_t j = 0; j < k->nargs; j++) strbuf_printf(&b->text, "a[%d], ", j);
  for (int32_t j = 0; j < k->ndims; j++) strbuf_printf(&b->text, "(ptrdiff_t)d[%d], ", j);
  strbuf_printf(&b->text, "(ptrdiff_t)begin, (ptrdiff_t)end%s);\n}\n", scratch ? ", s" : "");
}

static void batch_add(Batch *b, const char *text, const int64_t *dims) {
  CodegenFixture *f = arena_new(&b->arena, CodegenFixture);
  bool differs;
  if (!codegen_open(f, text, dims)) return;
  const char *name = str_printf(&b->arena, "kernel_%d", (int)b->kernel.n);
  if (cstyle_kernel(&b->style, f->k, name, b->vectors, &b->text, &differs))
    FAIL("%s\n%s", b->d.text, text);
  put_entry(b, f->k, b->kernel.n);
  vec_push(&b->arena, &b->kernel, f);
}

static void *compile(Batch *b) {
  StrBuf all;
  int status = 0;
  const char *cc = getenv("CC"), *level = getenv("CSTYLE_LEVEL");
  const char *base = str_printf(&b->arena, "%s/cstyle", test_folder());
  const char *source = str_printf(&b->arena, "%s.c", base),
             *library = str_printf(&b->arena, "%s.so", base);
  strbuf_init(&all, &b->arena);
  cstyle_prelude(&b->style, &all);
  strbuf_put(&all, strbuf_str(&b->text));
  EXPECT_STATUS(file_write(source, all.p, all.n, &b->d), TENON_OK);
  const char *argv[] = {cc && *cc ? cc : "cc",
                        "-std=c11",
                        "-pedantic",
                        "-Wall",
                        "-Wextra",
                        "-Werror",
                        level ? level : "-O3",
                        "-march=native",
                        "-ffp-contract=off",
                        b->vectors ? "-DTN_VECTORS=1" : "-DTN_VECTORS=0",
                        "-shared",
                        "-fPIC",
                        "-o",
                        library,
                        source,
                        "-lm",
                        NULL};
  if (process_run(argv, &status) || status) {
    FAIL("the C compiler refuses %s", source);
    return NULL;
  }
  void *l = library_open(library);
  platform->unlink(source);
  platform->unlink(library);
  return l;
}

static void run_both(CodegenFixture *f, KernelFn *fn, const char *where) {
  int64_t n = codegen_items(f);
  int32_t failed, got = 0;
  tenon_status s = loop_interpret(f->k, f->arg[0], f->size, f->dims, 0, n, &f->d, &failed);
  void *scratch = aligned_alloc(64, (size_t)(loop_scratch_bytes(f->k) + 63) / 64 * 64 + 64);
  for (int64_t i = 0; i < n && !got; i += 3)  // in pieces, as threads would take them
    got = fn(f->arg[1], f->dims, i, MIN(i + 3, n), scratch);
  free(scratch);
  if (s) {  // an operation without result
    EXPECT_INT_EQ(got, f->k->nchecks + 1);
  } else if (failed >= 0) {
    EXPECT_INT_EQ(got, failed + 1);
  } else {
    EXPECT_INT_EQ(got, 0);
    codegen_compare(f, where);
  }
}

static void batch_run(Batch *b) {
  void *l = compile(b);
  for (int64_t i = 0; l && i < b->kernel.n; i++) {
    KernelFn *fn;
    void *entry = library_symbol(l, str_printf(&b->arena, "entry_%d", (int)i));
    memcpy(&fn, &entry, sizeof fn);
    run_both(b->kernel.v[i], fn, b->vectors ? "vectors" : "plain");
  }
  for (int64_t i = 0; i < b->kernel.n; i++) codegen_close(b->kernel.v[i]);
  library_close(l);
  arena_deinit(&b->arena);
}

static bool has_compiler(void) {
  char path[4096];
  const char *cc = getenv("CC");
  return process_find(cc && *cc ? cc : "cc", path, sizeof path);
}

static int host_vectors(void) {
  Machine m;
  machine_host(&m);
  return m.vector_bytes;
}

typedef void AddKernels(Batch *b);
static void expect_same(AddKernels *add) {
  if (!has_compiler()) SKIP("there is no C compiler");
  for (int form = 0; form < 2; form++) {
    Batch b;
    batch_open(&b, form, host_vectors());
    add(&b);
    batch_run(&b);
  }
}

// ---- kernels ----

static void add_shapes(Batch *b) {
  for (int i = 0; codegen_shapes[i]; i++) batch_add(b, codegen_shapes[i], NULL);
}

static void add_groups(Batch *b) {
  for (int i = 0; codegen_groups[i]; i++) batch_add(b, codegen_groups[i], NULL);
}

static void add_casts(Batch *b) {
  for (int i = 0; i < codegen_ntypes; i++)
    if (test_takes()) batch_add(b, codegen_casts_text(&b->arena, i), NULL);
}

static void add_operations(Batch *b) {
  for (int i = 0; i < codegen_ntypes; i++)
    for (int vector = 0; vector < 2; vector++)
      for (int half = 0; half < 2; half++) {
        const char *text = codegen_ops_text(&b->arena, i, half, vector);
        if (text && test_takes()) batch_add(b, text, NULL);
      }
}

static void add_reductions(Batch *b) {
  static const char *const ops[][2] = {
      {"add", "f32"}, {"mul", "f64"},  {"max", "f32"},  {"min", "f16"},     {"add", "i32"},
      {"max", "u8"},  {"and", "bool"}, {"xor", "bool"}, {"bit_xor", "i64"}, {"add", "bf16"}};
  static const int sizes[] = {1, 5, 16, 65, 200};
  for (int i = 0; i < ARRAY_LEN(ops); i++)
    for (int lanes = 1; lanes <= 64; lanes *= 4)
      for (int j = 0; j < ARRAY_LEN(sizes); j++) {
        if ((i + j + lanes / 4) % 3 || !test_takes()) continue;
        const char *t = ops[i][1], *op = ops[i][0];
        const char *text = str_printf(
            &b->arena,
            "kernel @reduce dims(n in [0, 4096]) (%%x: %s[2*n], out %%y: %s[2], %%u: %s[2*%d], out "
            "%%v: %s[2]) {\n parallel i < 2 {\n  reduce %%v0: %s = %s lanes %d over k < n {\n   "
            "yield %%x[n*i + k]\n  }\n  store %%y[i] = %%v0\n  reduce %%v1: %s = %s lanes %d over "
            "l < %d {\n   yield %%u[%d*i + l]\n  }\n  store %%v[i] = %%v1\n }\n}\n",
            t, t, t, sizes[j], t, t, op, lanes, t, op, lanes, sizes[j], sizes[j]);
        batch_add(b, text, (const int64_t[]){sizes[j] % 100});
      }
}

static void add_checks(Batch *b) {
  for (int i = 0; codegen_checks[i].text; i++)
    batch_add(b, codegen_checks[i].text, codegen_checks[i].dims);
}

static void add_sizes(Batch *b) {
  static const int64_t sizes[] = {1, 3, 8, 15, 16, 17, 33, 100};
  for (int i = 0; i < ARRAY_LEN(sizes); i++) {
    int n = (int)sizes[i];
    batch_add(
        b,
        str_printf(&b->arena,
                   "kernel @fixed (%%x: f32[3*%d], %%b: f32[%d], out %%y: f32[3*%d]) {\n "
                   "parallel r < 3 {\n  vector i < %d {\n   let %%v0: f32 = mul(%%x[%d*r + i], "
                   "%%b[i])\n   store %%y[%d*r + i] = add(relu(%%v0), 0x1.8p-1)\n  }\n }\n}\n",
                   n, n, n, n, n, n),
        NULL);
    batch_add(
        b,
        "kernel @symbolic dims(n in [0, 4096]) (%x: f32[3*n], %b: f32[n], out %y: f32[3*n]) {\n"
        " parallel r < 3 {\n  vector i < n {\n   store %y[n*r + i] = max(min(div(%x[n*r + i], "
        "%b[i]), %x[n*r + i]), %b[i])\n  }\n }\n}\n",
        &sizes[i]);
  }
}

TEST(cstyle_shapes) { expect_same(add_shapes); }
TEST(cstyle_thread_blocks) { expect_same(add_groups); }
TEST_LONG(cstyle_casts) { expect_same(add_casts); }
TEST_LONG(cstyle_operations) { expect_same(add_operations); }
TEST(cstyle_reductions) { expect_same(add_reductions); }
TEST(cstyle_checks) { expect_same(add_checks); }
TEST(cstyle_sizes) { expect_same(add_sizes); }

// ---- math functions of our own: at most 2 units in the last place off ----

enum { SAMPLES = 1 << 16 };
static double sigmoid_f64(double x) { return 1 / (1 + exp(-x)); }
static const struct {
  const char *name;
  double (*want)(double);
} functions[] = {
    {"exp", exp}, {"log", log}, {"tanh", tanh}, {"sigmoid", sigmoid_f64}, {"erf", erf}};

static double units_off(float got, double want) {
  if (isnan(want)) return isnan(got) ? 0 : (double)INFINITY;
  if (got == (float)want) return 0;
  double unit = ldexp(1, MAX(ilogb(want), -126) - 23);
  return fabs((double)got - want) / unit;
}

static void check_function(Batch *b, int64_t i, KernelFn *fn) {
  CodegenFixture *f = b->kernel.v[i];
  float *x = f->arg[1][0], *y = f->arg[1][1];
  for (int64_t k = 0; k < SAMPLES; k++) {
    uint32_t bits = (uint32_t)(k * 65521 + 1);
    memcpy(&x[k], &bits, sizeof bits);
  }
  EXPECT_INT_EQ(fn(f->arg[1], f->dims, 0, SAMPLES / 1024, NULL), 0);
  for (int64_t k = 0; k < SAMPLES; k++) {
    double off = units_off(y[k], functions[i].want((double)x[k]));
    if (off <= 2) continue;
    FAIL("%s, %s of %a is %a, %g units off", b->vectors ? "vectors" : "plain", functions[i].name,
         (double)x[k], (double)y[k], off);
    return;
  }
}

TEST(cstyle_math) {
  if (!has_compiler()) SKIP("there is no C compiler");
  for (int form = 0; form < 2; form++) {
    Batch b;
    batch_open(&b, form, host_vectors());
    for (int64_t i = 0; i < ARRAY_LEN(functions); i++)
      batch_add(
          &b,
          str_printf(&b.arena,
                     "kernel @math (%%x: f32[65536], out %%y: f32[65536]) {\n parallel i < 64 {\n"
                     "  vector j < 1024 {\n   store %%y[1024*i + j] = %s(%%x[1024*i + j])\n"
                     "  }\n }\n}\n",
                     functions[i].name),
          NULL);
    void *l = compile(&b);
    for (int64_t i = 0; l && i < b.kernel.n; i++) {
      KernelFn *fn;
      void *entry = library_symbol(l, str_printf(&b.arena, "entry_%d", (int)i));
      memcpy(&fn, &entry, sizeof fn);
      check_function(&b, i, fn);
    }
    for (int64_t i = 0; i < b.kernel.n; i++) codegen_close(b.kernel.v[i]);
    library_close(l);
    arena_deinit(&b.arena);
  }
}

// ---- text ----

static const char *text_of(Batch *b, const char *kernel) {
  batch_add(b, kernel, NULL);
  char *end = strstr(b->text.p, "int32_t entry_0");
  if (end) *end = 0;
  return strbuf_text(&b->text);
}

static const char tile[] =
    "kernel @tile (%x: f32[12], %w: f32[32], out %y: f32[24]) {\n  register %acc: f32[16]\n"
    "  parallel i < 1 {\n    unroll r < 2 {\n      vector j < 8 {\n        store %acc[j + 8*r] = "
    "0.0\n"
    "      }\n    }\n    for k < 4 {\n      unroll r_1 < 2 {\n        vector j_1 < 8 {\n"
    "          store %acc[j_1 + 8*r_1] = fma(%x[k + 4*r_1], %w[j_1 + 8*k], %acc[j_1 + 8*r_1])\n"
    "        }\n      }\n    }\n    unroll r_2 < 2 {\n      vector j_2 < 8 {\n"
    "        store %y[j_2 + 8*r_2] = max(%acc[j_2 + 8*r_2], 0.0)\n      }\n    }\n  }\n}\n";

TEST(cstyle_text_of_a_tile) {
  Batch b;
  batch_open(&b, true, 32);
  EXPECT_STR_EQ(
      text_of(&b, tile),
      "// tile(x: f32[12], w: f32[32], out y: f32[24])\n"
      "static int32_t kernel_0(const tn_f32 *x, const tn_f32 *w, tn_f32 *y, ptrdiff_t begin, "
      "ptrdiff_t end) {\n"
      "  _Alignas(64) tn_f32 acc[16];\n"
      "  for (ptrdiff_t i = begin; i < end; i++) {\n"
      "    tn_store_f32x8(acc, tn_set_f32x8(0.0f));\n"
      "    tn_store_f32x8(acc + 8, tn_set_f32x8(0.0f));\n"
      "    for (ptrdiff_t k = 0; k < 4; k++) {\n"
      "      tn_store_f32x8(acc, tn_fma_f32x8(tn_set_f32x8(x[k]), tn_load_f32x8(w + 8 * k), "
      "tn_load_f32x8(acc)));\n"
      "      tn_store_f32x8(acc + 8, tn_fma_f32x8(tn_set_f32x8(x[k + 4]), tn_load_f32x8(w + 8 * "
      "k), "
      "tn_load_f32x8(acc + 8)));\n"
      "    }\n"
      "    const tn_f32x8 t = tn_load_f32x8(acc);\n"
      "    tn_store_f32x8(y, tn_sel_f32x8(t <= 0.0f, tn_set_f32x8(0.0f), t));\n"
      "    const tn_f32x8 t_1 = tn_load_f32x8(acc + 8);\n"
      "    tn_store_f32x8(y + 8, tn_sel_f32x8(t_1 <= 0.0f, tn_set_f32x8(0.0f), t_1));\n"
      "  }\n"
      "  return 0;\n"
      "}\n");
  codegen_close(b.kernel.v[0]);
  arena_deinit(&b.arena);
}

TEST(cstyle_text_of_plain_loops) {
  Batch b;
  batch_open(&b, false, 32);
  EXPECT_STR_EQ(text_of(&b, tile),
                "// tile(x: f32[12], w: f32[32], out y: f32[24])\n"
                "static int32_t kernel_0(const tn_f32 *x, const tn_f32 *w, tn_f32 *y, ptrdiff_t "
                "begin, ptrdiff_t end) {\n"
                "  _Alignas(64) tn_f32 acc[16];\n"
                "  for (ptrdiff_t i = begin; i < end; i++) {\n"
                "    for (ptrdiff_t r = 0; r < 2; r++) {\n"
                "      for (ptrdiff_t j = 0; j < 8; j++) {\n"
                "        acc[8 * r + j] = 0.0f;\n"
                "      }\n"
                "    }\n"
                "    for (ptrdiff_t k = 0; k < 4; k++) {\n"
                "      for (ptrdiff_t r_1 = 0; r_1 < 2; r_1++) {\n"
                "        for (ptrdiff_t j_1 = 0; j_1 < 8; j_1++) {\n"
                "          acc[8 * r_1 + j_1] = tn_fma_f32(x[4 * r_1 + k], w[8 * k + j_1], acc[8 * "
                "r_1 + j_1]);\n"
                "        }\n"
                "      }\n"
                "    }\n"
                "    for (ptrdiff_t r_2 = 0; r_2 < 2; r_2++) {\n"
                "      for (ptrdiff_t j_2 = 0; j_2 < 8; j_2++) {\n"
                "        const float t = acc[8 * r_2 + j_2];\n"
                "        y[8 * r_2 + j_2] = (t <= 0.0f) ? 0.0f : t;\n"
                "      }\n"
                "    }\n"
                "  }\n"
                "  return 0;\n"
                "}\n");
  codegen_close(b.kernel.v[0]);
  arena_deinit(&b.arena);
}

// The parameters have these names already.
TEST(cstyle_text_of_names_that_are_taken) {
  Batch b;
  batch_open(&b, false, 32);
  EXPECT_STR_EQ(text_of(&b, "kernel @k (%end: f32[4], out %y: f32[4]) {\n  scratch %begin: f32[4]\n"
                            "  parallel i < 4 {\n    store %begin[i] = %end[i]\n"
                            "    store %y[i] = %begin[i]\n  }\n}\n"),
                "// k(end_1: f32[4], out y: f32[4])\n"
                "static int32_t kernel_0(const tn_f32 *end_1, tn_f32 *y, ptrdiff_t begin, "
                "ptrdiff_t end, unsigned char *scratch) {\n"
                "  tn_f32 *const begin_1 = (tn_f32 *)(void *)(scratch + 0);\n"
                "  (void)scratch;\n"
                "  for (ptrdiff_t i = begin; i < end; i++) {\n"
                "    begin_1[i] = end_1[i];\n"
                "    y[i] = begin_1[i];\n"
                "  }\n"
                "  return 0;\n"
                "}\n");
  codegen_close(b.kernel.v[0]);
  arena_deinit(&b.arena);
}
