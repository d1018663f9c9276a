// tile_test.c -- kernels with tiles: text, what the verifier refuses, what they compute, and the
// CUDA text that they become.
#include "base/platform.h"
#include "loop/tile.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

#include "loop_fixture.h"
#include "test.h"

#include <math.h>

// y = a b^T of 100 rows and 40 columns, `depth` long, of numbers of a type.
static LoopKernel *build_of(LoopFixture *f, DType type, LoopMmaKind kind, const LoopTileSchedule *s,
                            int depth) {
  loop_fixture_init(f);
  IntPool *p = &f->pool;
  LoopKernel *k = f->k = loop_kernel(&f->arena, p, "k");
  int32_t a = loop_buffer(k, LOOP_ARG, "a", type, ie_const(p, 100 * depth), false);
  int32_t b = loop_buffer(k, LOOP_ARG, "b", type, ie_const(p, 40 * depth), false);
  int32_t y = loop_buffer(k, LOOP_ARG, "y", DT_F32, ie_const(p, 4000), true);
  LoopBuilder lb;
  loop_begin(&lb, k);
  int rows = s->m, cols = s->n, down = (100 + rows - 1) / rows, across = (40 + cols - 1) / cols;
  Dim item = loop_for(&lb, LOOP_PARALLEL, "item", ie_const(p, down * across));
  Dim two = ie_const(p, across), m = ie_const(p, 100), n = ie_const(p, 40);
  LoopTile *t = loop_tile_begin(&lb, LS_MMA, s, "i", "j");
  Dim i = t->rows->sym, j = t->cols->sym, stride = ie_const(p, depth);
  LoopBound g[2] = {
      {loop_sym(k, "row", m), ie_add(p, ie_mulc(p, ie_div(p, item, two), rows), i), m},
      {loop_sym(k, "col", n), ie_add(p, ie_mulc(p, ie_mod(p, item, two), cols), j), n}};
  loop_mma_depth(&lb, t, ie_const(p, depth));
  t->kind = (uint8_t)kind;
  t->a = (LoopTileOperand){.buffer = a, .sym = g[0].sym, .row = g[0].value, .rows = m};
  t->b = (LoopTileOperand){.buffer = b, .sym = g[1].sym, .row = g[1].value, .rows = n};
  t->a.stride = t->b.stride = stride;
  const LoopExpr *sum = loop_mma_sum(&lb, t);
  loop_store_guarded(&lb, y, ie_add(p, ie_mulc(p, g[0].sym, 40), g[1].sym), 2, g, sum);
  loop_tile_end(&lb);
  loop_end(&lb);
  loop_finish(&lb);
  return k;
}

static LoopKernel *build(LoopFixture *f, int rows, int groups, int stages, int depth) {
  LoopTileSchedule s = {.m = rows, .n = 32, .stages = stages, .warpgroups = groups, .cluster = 1};
  return build_of(f, DT_BF16, MMA_HALF, &s, depth);
}

TEST(tile_kernels_are_accepted_and_read_back) {
  LoopFixture f;
  StrBuf text;
  LoopTile t;
  LoopKernel *k = build(&f, 128, 2, 4, 24);
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_OK);
  REQUIRE(loop_find_tile(k, &t));
  EXPECT_INT_EQ(t.s.m, 128);
  EXPECT_INT_EQ(t.s.n, 32);
  EXPECT_INT_EQ(t.s.stages, 4);
  EXPECT_INT_EQ(t.s.warpgroups, 2);
  EXPECT(ie_is(t.a.stride, 24) && ie_is(t.b.rows, 40));
  EXPECT_INT_EQ(loop_tile_epilogue(&t).n, 1);
  strbuf_init(&text, &f.arena);
  loop_print(k, &text);
  EXPECT_STR_EQ(strbuf_text(&text),
                "kernel @k (%a: bf16[2400], %b: bf16[960], out %y: f32[4000]) {\n"
                "  parallel item < 2 {\n"
                "    mma %v0: f32 = half over i < 128, j < 32, k < 24 stages=4 warpgroups=2 {\n"
                "      a matrix %a[row = i < 100] stride 24\n"
                "      b matrix %b[col = 32*item + j < 40] stride 24\n"
                "      store where(row = i < 100, col = 32*item + j < 40) %y[col + 40*row] = %v0\n"
                "    }\n  }\n}\n");
  loop_fixture_round_trip(&f);
  loop_fixture_free(&f);
}

TEST(tiles_are_interpreted_as_loops) {
  enum { DEPTH = 24 };
  static uint16_t a[100 * DEPTH], b[40 * DEPTH];
  static float y[4000];
  LoopFixture f;
  int32_t failed;
  LoopKernel *k = build(&f, 64, 1, 2, DEPTH);
  for (int i = 0; i < 100 * DEPTH; i++) {
    double v = (i * 7 % 13) - 6;
    store_f64(DT_BF16, a, i, 1, &v);
  }
  for (int i = 0; i < 40 * DEPTH; i++) {
    double v = (i * 5 % 11) - 5;
    store_f64(DT_BF16, b, i, 1, &v);
  }
  void *args[] = {a, b, y};
  int64_t size[] = {100 * DEPTH, 40 * DEPTH, 4000};
  EXPECT_STATUS(loop_interpret(k, args, size, NULL, 0, 4, &f.d, &failed), TENON_OK);
  for (int i = 0; i < 100; i++)
    for (int j = 0; j < 40; j++) {
      double sum = 0;
      for (int s = 0; s < DEPTH; s++)
        sum += (((i * DEPTH + s) * 7 % 13) - 6) * (((j * DEPTH + s) * 5 % 11) - 5);
      EXPECT(y[i * 40 + j] == (float)sum);
    }
  loop_fixture_free(&f);
}

TEST(tiles_become_wgmma) {
  LoopFixture f;
  CStyle style;
  CudaRecord record;
  StrBuf text, head;
  bool differs;
  LoopKernel *k = build(&f, 128, 2, 4, 24);
  strbuf_init(&text, &f.arena);
  strbuf_init(&head, &f.arena);
  cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
  style.extension = &(CudaTensorCores){.record = &record};
  EXPECT_STATUS(cstyle_kernel(&style, k, "tn_kernel", false, &text, &differs), TENON_OK);
  cuda_record_write(&record, &head);
  EXPECT_STR_EQ(strbuf_text(&head), "//tn threads 384\n"
                                    "//tn shared 83136\n"
                                    "//tn persistent\n"
                                    "//tn early\n"
                                    "//tn map 0 bf16 2 24 100 48 64 128\n"
                                    "//tn map 1 bf16 2 24 40 48 64 32\n");
  EXPECT_CONTAINS(strbuf_text(&text), "__launch_bounds__(384, 1) tn_kernel(");
  EXPECT_CONTAINS(strbuf_text(&text),
                  "tn_product(tn_sum[0], tn_a + q * 2 + 0, tn_b + q * 2, tn_k | q)");
  // Without a record, as for a GPU without tensor cores, the same loops are plain.
  style.extension = NULL;
  text.n = 0;
  EXPECT_STATUS(cstyle_kernel(&style, k, "tn_kernel", false, &text, &differs), TENON_OK);
  EXPECT(!strstr(strbuf_text(&text), "tn_product"));
  // TMA wants rows of whole 16 bytes.
  loop_fixture_free(&f);
  k = build(&f, 128, 2, 4, 20);
  cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
  style.extension = &(CudaTensorCores){.record = &record};
  strbuf_init(&text, &f.arena);
  EXPECT_STATUS(cstyle_kernel(&style, k, "tn_kernel", false, &text, &differs), TENON_EUNSUPPORTED);
  loop_fixture_free(&f);
}

// ---- f32 ----

static const LoopTileSchedule two_groups = {128, 32, 4, 2, 1, 0, 0},
                              one_group = {64, 32, 2, 1, 1, 0, 0};

TEST(tiles_take_operands_of_their_kind) {
  static const struct {
    DType type;
    LoopMmaKind kind;
    bool good;
    int block;
  } row[] = {{DT_F32, MMA_F32, true, 32},    {DT_F32, MMA_TF32, true, 32},
             {DT_BF16, MMA_HALF, true, 64},  {DT_F16, MMA_HALF, true, 64},
             {DT_BF16, MMA_TF32, false, 0},  {DT_F64, MMA_F32, false, 0},
             {DT_F32, MMA_HALF, false, 0},   {DT_F8E4M3, MMA_FP8, true, 128},
             {DT_F8E5M2, MMA_HALF, false, 0}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    LoopTile t;
    LoopKernel *k = build_of(&f, row[i].type, row[i].kind, &two_groups, 32);
    EXPECT_STATUS(loop_verify(k, &f.d), row[i].good ? TENON_OK : TENON_EINVAL);
    if (!row[i].good) EXPECT_CONTAINS(f.d.text, "does not take the types of its operands");
    REQUIRE(loop_find_tile(k, &t));
    if (row[i].good) EXPECT_INT_EQ(loop_tile_block(&t), row[i].block);
    if (row[i].good) loop_fixture_round_trip(&f);
    loop_fixture_free(&f);
  }
}

TEST(tiles_of_tf32_are_rounded_first) {
  enum { DEPTH = 8 };
  static float a[100 * DEPTH], b[40 * DEPTH], y[4000];
  // The nearest with 10 mantissa bits; away from zero between two; infinities and NaN stay.
  static const struct {
    float x, want;
  } row[] = {{0x1.002p0f, 0x1.004p0f},
             {-0x1.002p0f, -0x1.004p0f},
             {0x1.001ffep0f, 0x1p0f},
             {0x1.ffep0f, 0x1p1f},
             {0x1.fffffep127f, INFINITY},
             {-INFINITY, -INFINITY},
             {NAN, NAN},
             {0x1p-149f, 0},
             {0x1p-137f, 0x1p-136f}};
  LoopFixture f;
  int32_t failed;
  LoopKernel *k = build_of(&f, DT_F32, MMA_TF32, &one_group, DEPTH);
  for (int i = 0; i < 100; i++) a[i * DEPTH] = row[i % ARRAY_LEN(row)].x;
  for (int i = 0; i < 40; i++) b[i * DEPTH] = 1;
  void *args[] = {a, b, y};
  int64_t size[] = {100 * DEPTH, 40 * DEPTH, 4000};
  EXPECT_STATUS(loop_interpret(k, args, size, NULL, 0, 4, &f.d, &failed), TENON_OK);
  for (int i = 0; i < 100; i++) {
    float want = row[i % ARRAY_LEN(row)].want;
    EXPECT(isnan(want) ? isnan(y[i * 40]) : y[i * 40] == want);
  }
  loop_fixture_free(&f);
}

TEST(tiles_of_f32_become_3xtf32) {
  static const struct {
    LoopMmaKind kind;
    const char *record, *has;
  } row[] = {
      {MMA_F32, "//tn map 0 f32 2 24 100 96 32 128\n", "tn_product(tn_part, tn_y + q * 4, tn_b"},
      {MMA_TF32, "//tn map 0 tf32 2 24 100 96 32 128\n",
       "tn_a + q * 2 + 0, tn_b + q * 2, tn_k | q)"}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    CStyle style;
    CudaRecord record;
    LoopTile t;
    StrBuf text, head;
    bool differs;
    LoopKernel *k = build_of(&f, DT_F32, row[i].kind, &two_groups, 24);
    strbuf_init(&text, &f.arena);
    strbuf_init(&head, &f.arena);
    cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
    style.extension = &(CudaTensorCores){.record = &record};
    EXPECT_STATUS(cstyle_kernel(&style, k, "tn_kernel", false, &text, &differs), TENON_OK);
    cuda_record_write(&record, &head);
    EXPECT_CONTAINS(strbuf_text(&head), row[i].record);
    EXPECT_CONTAINS(strbuf_text(&text), row[i].has);
    // Sums that are not finite are formed again from the operands themselves, of f32 alone.
    EXPECT((strstr(strbuf_text(&text), "tn_again[tn_q] = ") != NULL) == (row[i].kind == MMA_F32));
    REQUIRE(loop_find_tile(k, &t));
    text.n = 0;
    cs_tile_top(&t, &text);
    EXPECT_CONTAINS(strbuf_text(&text), "m64n32k8.f32.tf32.tf32");
    loop_fixture_free(&f);
  }
}

// ---- windows ----

// A convolution of pixels of 16 channels into 32: y = the sums of the window and weights of bf16,
// rows by 64.
static LoopKernel *build_window(LoopFixture *f, const LoopWindow *w) {
  loop_fixture_init(f);
  IntPool *p = &f->pool;
  LoopKernel *k = f->k = loop_kernel(&f->arena, p, "k");
  int64_t rows = w->images->value * w->out[0] * w->out[1];
  int64_t depth = w->taps[0] * w->taps[1] * w->channels;
  int64_t all = w->images->value * w->in[0] * w->line;
  int32_t a = loop_buffer(k, LOOP_ARG, "a", DT_BF16, ie_const(p, all), false);
  int32_t b = loop_buffer(k, LOOP_ARG, "b", DT_BF16, ie_const(p, 32 * depth), false);
  int32_t y = loop_buffer(k, LOOP_ARG, "y", DT_F32, ie_const(p, rows * 32), true);
  LoopBuilder lb;
  loop_begin(&lb, k);
  Dim item = loop_for(&lb, LOOP_PARALLEL, "item", ie_const(p, (rows + 63) / 64));
  Dim m = ie_const(p, rows), n = ie_const(p, 32);
  LoopTileSchedule schedule = {.m = 64, .n = 32, .stages = 4, .warpgroups = 1, .cluster = 1};
  LoopTile *t = loop_tile_begin(&lb, LS_MMA, &schedule, "i", "j");
  Dim row = ie_add(p, ie_mulc(p, item, 64), t->rows->sym);
  LoopBound g[2] = {{loop_sym(k, "row", m), row, m}, {loop_sym(k, "col", n), t->cols->sym, n}};
  loop_mma_depth(&lb, t, ie_const(p, depth));
  t->a = (LoopTileOperand){.form = TILE_WINDOW,
                           .buffer = a,
                           .sym = loop_sym(k, "pixel", m),
                           .row = row,
                           .rows = m,
                           .window = *w};
  t->a.window.images = ie_const(p, w->images->value);
  t->b = (LoopTileOperand){
      .buffer = b, .sym = g[1].sym, .row = g[1].value, .rows = n, .stride = ie_const(p, depth)};
  const LoopExpr *sum = loop_mma_sum(&lb, t);
  loop_store_guarded(&lb, y, ie_add(p, ie_mulc(p, g[0].sym, 32), g[1].sym), 2, g, sum);
  loop_tile_end(&lb);
  loop_end(&lb);
  loop_finish(&lb);
  return k;
}

static double small_number(int64_t i) { return (double)(i * 7 % 13) - 6; }

// The sum by the definition of a convolution.
static double window_sum(const LoopWindow *w, int64_t row, int64_t col) {
  int64_t at[2] = {row / w->out[1] % w->out[0], row % w->out[1]};
  int64_t image = row / (w->out[0] * w->out[1]);
  int64_t depth = w->taps[0] * w->taps[1] * w->channels;
  double sum = 0;
  for (int64_t s = 0; s < depth; s++) {
    int64_t tap[2] = {s / w->channels / w->taps[1], s / w->channels % w->taps[1]}, in[2];
    for (int d = 0; d < 2; d++) in[d] = at[d] * w->stride[d] + tap[d] * w->dilation[d] - w->lo[d];
    if (in[0] < 0 || in[0] >= w->in[0] || in[1] < 0 || in[1] >= w->in[1]) continue;
    int64_t pixel = (image * w->in[0] + in[0]) * w->line + in[1] * w->pixel;
    sum += small_number(pixel + s % w->channels) * small_number(col * depth + s);
  }
  return sum;
}

TEST(tiles_of_windows_are_convolutions) {
  static const struct {
    int64_t images, in[2], out[2], taps[2], stride[2], dilation[2], lo[2];
    int64_t joined;  // pixels besides that count as channels of the one before
  } shape[] = {
      {1, {6, 7}, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0},
      {3, {9, 8}, {5, 4}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0},
      {2, {8, 8}, {4, 4}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, 0},
      {2, {9, 10}, {7, 8}, {3, 3}, {1, 1}, {2, 2}, {1, 1}, 0},
      {1, {1, 30}, {1, 15}, {1, 5}, {1, 2}, {1, 1}, {0, 2}, 0},
      {2, {1, 20}, {1, 20}, {1, 3}, {1, 1}, {1, 1}, {0, 1}, 0},
      {2, {7, 5}, {1, 1}, {7, 5}, {1, 1}, {1, 1}, {0, 0}, 0},
      {2, {9, 6}, {9, 6}, {4, 1}, {1, 1}, {1, 1}, {2, 0}, 3},
      {1, {9, 7}, {5, 4}, {3, 1}, {2, 2}, {1, 1}, {1, 0}, 2},
      {3, {1, 12}, {1, 12}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1},
      {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 3},
  };
  for (int64_t at = 0; at < ARRAY_LEN(shape); at++) {
    LoopFixture f;
    int32_t failed;
    int64_t joined = shape[at].joined;
    LoopWindow w = {.channels = 16 * (1 + joined), .pixel = 16};
    w.line = (shape[at].in[1] + joined) * w.pixel;
    memcpy(w.in, shape[at].in, sizeof w.in);
    memcpy(w.out, shape[at].out, sizeof w.out);
    memcpy(w.taps, shape[at].taps, sizeof w.taps);
    memcpy(w.stride, shape[at].stride, sizeof w.stride);
    memcpy(w.dilation, shape[at].dilation, sizeof w.dilation);
    memcpy(w.lo, shape[at].lo, sizeof w.lo);
    IntPool numbers;
    Arena a;
    arena_init(&a);
    intpool_init(&numbers, &a);
    w.images = ie_const(&numbers, shape[at].images);
    LoopKernel *k = build_window(&f, &w);
    EXPECT_STATUS(loop_verify(k, &f.d), TENON_OK);
    loop_fixture_round_trip(&f);
    int64_t size[3];
    void *args[3];
    for (int i = 0; i < 3; i++) {
      size[i] = k->buffer[i].size->value;
      args[i] = arena_array(&a, float, size[i]);
      for (int64_t q = 0; i < 2 && q < size[i]; q++) {
        double v = small_number(q);
        store_f64(DT_BF16, args[i], q, 1, &v);
      }
    }
    int64_t rows = size[2] / 32;
    EXPECT_STATUS(loop_interpret(k, args, size, NULL, 0, (rows + 63) / 64, &f.d, &failed),
                  TENON_OK);
    for (int64_t row = 0; row < rows; row++)
      for (int64_t col = 0; col < 32; col++)
        EXPECT(((const float *)args[2])[row * 32 + col] == (float)window_sum(&w, row, col));
    arena_deinit(&a);
    loop_fixture_free(&f);
  }
}

TEST(windows_become_maps_of_images) {
  LoopFixture f;
  CStyle style;
  CudaRecord record, back;
  StrBuf text, head;
  bool differs;
  IntPool numbers;
  Arena a;
  arena_init(&a);
  intpool_init(&numbers, &a);
  LoopWindow w = {.channels = 16,
                  .pixel = 16,
                  .line = 8 * 16,
                  .images = ie_const(&numbers, 2),
                  .in = {9, 8},
                  .out = {5, 4},
                  .taps = {3, 3},
                  .stride = {2, 2},
                  .dilation = {1, 1},
                  .lo = {1, 1}};
  LoopKernel *k = build_window(&f, &w);
  strbuf_init(&text, &f.arena);
  strbuf_init(&head, &f.arena);
  cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
  style.extension = &(CudaTensorCores){.record = &record};
  EXPECT_STATUS(cstyle_kernel(&style, k, "tn_kernel", false, &text, &differs), TENON_OK);
  cuda_record_write(&record, &head);
  EXPECT_CONTAINS(strbuf_text(&head), "//tn window 0 bf16 4 16 8 9 2 32 256 2304 64 64 1 1 "
                                      "-1 -1 -2 -1 2 2\n"
                                      "//tn map 1 bf16 3 16 9 32 32 288 64 1 32\n");
  EXPECT_CONTAINS(strbuf_text(&text), "tn_fetch_window(");
  REQUIRE(cuda_record_read(strbuf_str(&head), &back));
  EXPECT(back.nmaps == 2 && back.map[0].window && !back.map[1].window);
  EXPECT(back.map[0].before[0] == -1 && back.map[0].after[0] == -2 && back.map[0].step[1] == 2);
  static const char *const wrong[] = {
      "//tn threads 256\n//tn window 0 bf16 4 16 8 9 2 32 256 2304 64 64 1 1 -1 -1 -2 -1 2\n",
      "//tn threads 256\n//tn window 0 bf16 4 16 8 9 2 32 256 2304 64 64 1 1 -129 -1 -2 -1 2 2\n",
      "//tn threads 256\n//tn window 0 bf16 4 16 8 9 2 32 256 2304 64 64 1 1 -1 -1 -2 -1 2 9\n",
      "//tn threads 256\n//tn window 0 bf16 2 16 8 32 64 64 -1 -1 -2 -1 2 2\n"};
  for (int64_t i = 0; i < ARRAY_LEN(wrong); i++) EXPECT(!cuda_record_read(str_of(wrong[i]), &back));
  arena_deinit(&a);
  loop_fixture_free(&f);
}

// Weights of one column of many tiles are fetched with a block's first tile and stay; those of few
// tiles, or too many blocks, are fetched with each.
TEST(columns_of_many_tiles_are_resident) {
  static const struct {
    int64_t side, taps;
    const char *expect;
    int shared;
  } image[] = {{96, 3, "tn_t == blockIdx.x ? 12288 : 8192", 4 * 8192 + 9 * 4096},
               {40, 3, "tn_full, 12288)", 4 * 12288},
               {96, 7, "tn_full, 12288)", 4 * 12288}};
  for (int64_t i = 0; i < ARRAY_LEN(image); i++) {
    LoopFixture f;
    CStyle style;
    CudaRecord record;
    StrBuf text;
    bool differs;
    IntPool numbers;
    Arena a;
    arena_init(&a);
    intpool_init(&numbers, &a);
    int64_t side = image[i].side, taps = image[i].taps;
    LoopWindow w = {.channels = 16,
                    .pixel = 16,
                    .line = side * 16,
                    .images = ie_const(&numbers, 2),
                    .in = {side, side},
                    .out = {side, side},
                    .taps = {taps, taps},
                    .stride = {1, 1},
                    .dilation = {1, 1},
                    .lo = {taps / 2, taps / 2}};
    LoopKernel *k = build_window(&f, &w);
    strbuf_init(&text, &f.arena);
    cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
    style.extension = &(CudaTensorCores){.record = &record};
    EXPECT_STATUS(cstyle_kernel(&style, k, "tn_kernel", false, &text, &differs), TENON_OK);
    EXPECT_CONTAINS(strbuf_text(&text), image[i].expect);
    EXPECT(record.shared_bytes >= image[i].shared && record.shared_bytes < image[i].shared + 4096);
    arena_deinit(&a);
    loop_fixture_free(&f);
  }
}

// An epilogue operand comes into the ring, where that has so many stages at once, and one more,
// which the last products hold; else threads read it.  Columns stay here, so that a stage has room
// for 32 columns of f32.
TEST(epilogue_operands_fit_the_ring) {
  static const char *const stages[] = {"8", "7"};
  for (int i = 0; i < 2; i++) {
    LoopFixture f;
    CStyle style;
    CudaRecord record;
    StrBuf text;
    bool differs;
    Arena a;
    arena_init(&a);
    const char *kernel = str_printf(
        &a,
        "kernel @k (%%a: bf16[2621440], %%b: bf16[14336], %%r: f32[9175040], "
        "out %%y: f32[9175040]) {\n"
        "  parallel item < 320 {\n"
        "    mma %%v0: f32 = half over i < 128, j < 224, k < 64 stages=%s warpgroups=2 {\n"
        "      a matrix %%a[row = i + 128*item < 40960] stride 64\n"
        "      b matrix %%b[col = j < 224] stride 64\n"
        "      store where(row = i + 128*item < 40960, col = j < 224) %%y[col + 224*row] = "
        "add(%%v0, where(row = i + 128*item < 40960, col = j < 224) %%r[col + 224*row])\n"
        "    }\n  }\n}\n",
        stages[i]);
    if (!loop_fixture_read(&f, kernel)) return;
    strbuf_init(&text, &f.arena);
    cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
    style.extension = &(CudaTensorCores){.record = &record};
    EXPECT_STATUS(cstyle_kernel(&style, f.k, "tn_kernel", false, &text, &differs), TENON_OK);
    EXPECT_CONTAINS(strbuf_text(&text), "tn_t == blockIdx.x ? ");
    EXPECT(!strstr(strbuf_text(&text), "unsigned tn_side[7];") == (i > 0));
    loop_fixture_free(&f);
    arena_deinit(&a);
  }
}

// Kernels that the fuzzer of loops begins with.
TEST(golden_tiles_are_accepted) {
  static const char *const names[] = {"mma", "attention"};
  for (int64_t i = 0; i < ARRAY_LEN(names); i++) {
    LoopFixture f;
    Arena a;
    File file;
    Diag d;
    arena_init(&a);
    diag_init(&d);
    const char *path = str_printf(&a, "%s/tests/golden/%s.loop", TENON_SOURCE_DIR, names[i]);
    REQUIRE(!file_open(path, &file, &d));
    const char *text = str_copy(&a, (Str){(const char *)file.bytes, file.size});
    file_close(&file);
    if (!loop_fixture_read(&f, text)) return;
    EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_OK);
    if (f.d.len) FAIL("%s", f.d.text);
    loop_fixture_round_trip(&f);
    loop_fixture_free(&f);
    arena_deinit(&a);
  }
}
