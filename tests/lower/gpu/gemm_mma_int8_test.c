// gemm_mma_int8_test.c -- int8 GEMMs and convolutions in MMA tiles: which are, how their operands
// come, and every bit of what they compute.
//
// Tiles run everywhere as plain loops (TENON_MMA), so that zero points, packed weights and
// epilogues are compared with the interpreter.
#include "compiled.h"
#include "loop/tile.h"
#include "loop_fixture.h"
#include "passes/passes.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"
#include "targets/target.h"
#include "test.h"

#include <stdlib.h>

enum { NONE = -1, OPEN = 1000 };  // no tile; a zero point that is given at run time

// A product of m rows, or a convolution of images of `size` by `size`, `k` channels and n results.
typedef struct Case {
  int form;
  const char *x, *w;  // dtypes
  int m, k, n;
  int x_zero, w_zero;
  int size, taps, pad;  // 0: a product
  bool quantised;
} Case;

static const Case cases[] = {
    // clang-format off
    {TILE_MATRIX, "i8", "i8", 70, 48, 40, 0,    0,   0, 0, 0, false},
    {TILE_MATRIX, "u8", "i8", 70, 48, 40, 7,    0,   0, 0, 0, false},
    {TILE_MATRIX, "u8", "u8", 70, 160, 36, 128, 0,   0, 0, 0, false},
    {TILE_MATRIX, "i8", "u8", 70, 48, 37, -128, 128, 0, 0, 0, true},
    {TILE_MATRIX, "u8", "u8", 70, 48, 40, OPEN, 128, 0, 0, 0, false},
    {TILE_MATRIX, "i8", "i8", 70, 48, 40, OPEN, 0,   0, 0, 0, true},
    {TILE_VALUE,  "u8", "u8", 70, 45, 40, 9,    128, 0, 0, 0, false},
    {NONE,        "u8", "i8", 70, 48, 40, 7,    3,   0, 0, 0, false},
    {NONE,        "u8", "u8", 70, 48, 40, 7,    127, 0, 0, 0, true},
    {TILE_WINDOW, "u8", "i8", 2,  32, 24, 0,    0,   9, 3, 1, true},
    {TILE_WINDOW, "u8", "i8", 2,  32, 24, 77,   0,   9, 3, 1, true},  // borders are written out
    {TILE_VALUE,  "i8", "i8", 2,  32, 24, -128, 0,   9, 3, 1, true},
    {TILE_VALUE,  "u8", "u8", 2,  3,  24, 5,    128, 9, 3, 1, false},
    {TILE_MATRIX, "u8", "i8", 2,  32, 24, 5,    0,   9, 1, 0, false},
    // clang-format on
};

static void put_bytes(StrBuf *b, const char *name, const char *type, const char *dims, int n) {
  int less = *type == 'i' ? 128 : 0;
  strbuf_printf(b, "  %%%s = const %s[%s] {", name, type, dims);
  for (int i = 0; i < n; i++)
    strbuf_printf(b, "%s%d", i ? ", " : "", (int)((unsigned)(i + 1) * 2654435761u >> 24) - less);
  strbuf_puts(b, "}\n");
}

static void put_zero(StrBuf *b, const char *name, const char *type, int zero) {
  if (zero != OPEN) strbuf_printf(b, "  %%%s = const %s[] {%d}\n", name, type, zero);
}

// Images are channels last, so that no other kernel transposes them.
static const char *text_of(const Case *c, Arena *a) {
  StrBuf b;
  bool conv = c->taps;
  const char *x = conv ? "t" : "x", *op = conv ? "conv" : "mat_mul";
  strbuf_init(&b, a);
  strbuf_printf(&b, "graph @\"g\"(%%x: %s", c->x);
  if (conv)
    strbuf_printf(&b, "[%d, %d, %d, %d]", c->m, c->size, c->size, c->k);
  else
    strbuf_printf(&b, "[%d, %d]", c->m, c->k);
  strbuf_printf(&b, "%s) {\n", c->x_zero == OPEN ? str_printf(a, ", %%xz: %s[]", c->x) : "");
  put_bytes(&b, "w", c->w,
            conv ? str_printf(a, "%d, %d, %d, %d", c->n, c->k, c->taps, c->taps)
                 : str_printf(a, "%d, %d", c->k, c->n),
            c->k * c->n * (conv ? c->taps * c->taps : 1));
  put_zero(&b, "xz", c->x, c->x_zero);
  put_zero(&b, "wz", c->w, c->w_zero);
  if (conv) strbuf_puts(&b, "  %t = transpose(%x) perm=[0, 3, 1, 2]\n");
  if (c->quantised) {
    strbuf_puts(&b, "  %xs = const f32[] {0.02}\n  %ws = const f32[] {0.003}\n"
                    "  %ys = const f32[] {0.7}\n  %yz = const u8[] {9}\n");
    strbuf_printf(&b, "  %%y = q_linear_%s(%%%s, %%xs, %%xz, %%w, %%ws, %%wz, %%ys, %%yz)", op, x);
  } else {
    strbuf_printf(&b, "  %%y = %s_integer(%%%s, %%w, %%xz, %%wz)", op, x);
  }
  if (c->pad) strbuf_printf(&b, " pads=[%d, %d, %d, %d]", c->pad, c->pad, c->pad, c->pad);
  strbuf_puts(&b, conv ? "\n  %r = transpose(%y) perm=[0, 2, 3, 1]\n  return %r\n}\n"
                       : "\n  return %y\n}\n");
  return strbuf_text(&b);
}

static bool tile_of(Arena *a, const char *text, const char *chip, LoopTile *out) {
  unsigned fast = opt_fast_math_flags(3, false, false);
  return first_tile((Asked){.device = chip, .fast = fast, .advised = true}, text, a, out);
}

TEST(bytes_in_tiles_are_fetched_where_zero_points_allow) {
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    LoopTile t;
    bool has = tile_of(&a, text_of(&cases[i], &a), "sm_90a", &t);
    if (has != (cases[i].form != NONE)) FAIL("case %d", (int)i);
    if (!has) continue;
    EXPECT_INT_EQ(t.kind, MMA_INT8);
    EXPECT_INT_EQ(t.a.form, cases[i].form);
    EXPECT_INT_EQ(loop_tile_block(&t), TILE_DEPTH_BYTES);
    EXPECT_INT_EQ(t.a.dtype, *cases[i].x == 'i' ? DT_I8 : DT_U8);
    // Weights about 128 are signed ones.
    EXPECT_INT_EQ(t.b.dtype, *cases[i].w == 'i' || cases[i].w_zero == 128 ? DT_I8 : DT_U8);
  }
  arena_deinit(&a);
}

// Warps multiply what is copied: no values.
TEST(bytes_in_tiles_of_warps_are_copied) {
  static const char *const chip[] = {"sm_80", "sm_86", "sm_120"};
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++)
    for (int64_t k = 0; k < ARRAY_LEN(chip); k++) {
      LoopTile t;
      LoopTileWarps w;
      const char *why;
      bool has = tile_of(&a, text_of(&cases[i], &a), chip[k], &t);
      if (has != (cases[i].form == TILE_MATRIX || cases[i].form == TILE_WINDOW))
        FAIL("case %d on %s", (int)i, chip[k]);
      if (!has) continue;
      EXPECT_INT_EQ(t.kind, MMA_INT8);
      EXPECT_INT_EQ(t.a.form, cases[i].form);
      EXPECT(loop_tile_warps(&t, &w, &why));
    }
  arena_deinit(&a);
}

// What would keep a product from the units is done by a kernel of its own: a table behind it, whose
// index would be checked, and rows that are moved.
TEST(bytes_in_tiles_leave_tables_and_moves_apart) {
  static const char *const graph[] = {
      "graph @\"table\"(%x: u8[70, 48]) {\n  %c = const i8[] {3}\n  %d = const i64[2] {48, 40}\n"
      "  %w = expand(%c, %d)\n  %z = const u8[] {7}\n  %wz = const i8[] {0}\n"
      "  %s = const f32[] {0.01}\n  %y = q_linear_mat_mul(%x, %s, %z, %w, %s, %wz, %s, %z)\n"
      "  %f = dequantize_linear(%y, %s, %z)\n  %g = sigmoid(%f)\n"
      "  %r = quantize_linear(%g, %s, %z)\n  return %r\n}\n",
      "graph @\"moved\"(%x: u8[2, 12, 35, 4]) {\n  %c = const i8[] {3}\n"
      "  %d = const i64[2] {48, 40}\n  %w = expand(%c, %d)\n  %z = const u8[] {7}\n"
      "  %t = transpose(%x) perm=[0, 2, 1, 3]\n  %to = const i64[2] {70, 48}\n"
      "  %q = reshape(%t, %to)\n  %r = mat_mul_integer(%q, %w, %z)\n  return %r\n}\n"};
  for (int64_t i = 0; i < ARRAY_LEN(graph); i++) {
    LoopTile t = {0};
    Arena a;
    arena_init(&a);
    if (!tile_of(&a, graph[i], "sm_90a", &t)) FAIL("no tile:\n%s", graph[i]);
    EXPECT_INT_EQ(t.a.form, TILE_MATRIX);
    arena_deinit(&a);
  }
}

// ---- the loops, and their text ----

static const char *loops_of(Arena *a, const char *x, const char *w, const char *kind,
                            const char *sum) {
  return str_printf(
      a,
      "kernel @k (%%x: %s[9600], %%w: %s[3840], out %%y: %s[4000]) {\n"
      "  parallel item < 4 {\n"
      "    mma %%v0: %s = %s over i < 64, j < 32, k < 96 stages=4 warpgroups=1 {\n"
      "      a matrix %%x[row = i + 64*floor(item/2) < 100] stride 96\n"
      "      b matrix %%w[col = j + 32*mod(item, 2) < 40] stride 96\n"
      "      store where(row = i + 64*floor(item/2) < 100, col = j + 32*mod(item, 2) < 40) "
      "%%y[col + 40*row] = %%v0\n    }\n  }\n}\n",
      x, w, sum, sum, kind);
}

TEST(bytes_in_tiles_are_verified) {
  static const struct {
    const char *x, *w, *kind, *sum, *why;
  } row[] = {{"u8", "i8", "int8", "i32", NULL},
             {"i8", "i8", "int8", "i32", NULL},
             {"u8", "i8", "int8", "f32", "sums of int8 products are i32, all others f32"},
             {"bf16", "bf16", "half", "i32", "sums of int8 products are i32, all others f32"},
             {"i8", "bf16", "half", "f32", "does not take the types of its operands"},
             {"bf16", "f16", "half", "f32", "does not take the types of its operands"},
             {"i8", "i8", "fp8", "f32", "does not take the types of its operands"},
             {"i16", "i16", "int8", "i32", "does not take the types of its operands"}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    Arena a;
    arena_init(&a);
    if (loop_fixture_read(&f, loops_of(&a, row[i].x, row[i].w, row[i].kind, row[i].sum))) {
      EXPECT_STATUS(loop_verify(f.k, &f.d), row[i].why ? TENON_EINVAL : TENON_OK);
      if (row[i].why) EXPECT_CONTAINS(f.d.text, row[i].why);
      loop_fixture_free(&f);
    }
    arena_deinit(&a);
  }
}

TEST(bytes_in_tiles_become_warpgroup_products) {
  LoopFixture f;
  CStyle style;
  CudaRecord record;
  LoopTile t;
  StrBuf text, head;
  Arena a;
  bool differs;
  arena_init(&a);
  REQUIRE(loop_fixture_read(&f, loops_of(&a, "u8", "i8", "int8", "i32")));
  REQUIRE(loop_find_tile(f.k, &t));
  strbuf_init(&text, &a);
  strbuf_init(&head, &a);
  cstyle_init(&style, &spelling_cuda, 0, &a, &f.d);
  style.extension = &(CudaTensorCores){.record = &record};
  EXPECT_STATUS(cstyle_kernel(&style, f.k, "tn_kernel", false, &text, &differs), TENON_OK);
  cuda_record_write(&record, &head);
  EXPECT_CONTAINS(strbuf_text(&head), "//tn map 0 u8 2 96 100 96 128 64\n");
  EXPECT_CONTAINS(strbuf_text(&text), "int tn_sum[1][16];");
  text.n = 0;
  cs_tile_top(&t, &text);
  EXPECT_CONTAINS(strbuf_text(&text), "m64n32k32.s32.u8.s8 {");
  text.n = 0;
  cs_mma_top(&t, &text);
  EXPECT_CONTAINS(strbuf_text(&text), "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32");
  loop_fixture_free(&f);
  arena_deinit(&a);
}

// ---- what they compute ----

static void fill(Value *v) {
  int64_t less = v->dtype == DT_I8 ? 128 : 0;
  for (int64_t i = 0; i < v->n; i++) val_put_i64(v, i, (i * 7919 + 200) % 256 - less);
}

static void compute_right(const char *tiles) {
  Arena a;
  arena_init(&a);
  setenv("TENON_BLOCK_THREADS", "256", 1);
  setenv("TENON_MMA", tiles, 1);
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    BothWays b;
    Asked asked = {.fast = opt_fast_math_flags(3, false, false)};
    const char *text = text_of(&cases[i], &a);
    if (!both_ways_run(&b, text, "ref", fill, compile_asked, &asked)) FAIL("%s", b.diag.text);
    int64_t wrong = 0;
    for (int64_t e = 0; b.got[0] && e < b.got[0]->n; e++)
      wrong += val_f64(b.want[0], e) != val_f64(b.got[0], e);
    if (!b.got[0] || wrong) FAIL("case %d: %d elements are wrong", (int)i, (int)wrong);
    both_ways_free(&b);
  }
  unsetenv("TENON_MMA");
  unsetenv("TENON_BLOCK_THREADS");
  arena_deinit(&a);
}

TEST(bytes_in_tiles_are_right) {
  compute_right("1");
  compute_right("warp");
}
