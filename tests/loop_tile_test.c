// loop_tile_test.c -- kernels with tiles: text, what the verifier refuses, what they compute, and the CUDA text that they become.
#include "loop/tile.h"
#include "runtime/cuda/cuda.h"
#include "targets/cstyle/cstyle.h"

#include "loop_fixture.h"
#include "test.h"

#include <math.h>

static const LoopExpr *factor(LoopKernel *k, const LoopExpr *x, bool rounded) {
  x = loop_cast(k, DT_F32, x);
  return rounded ? loop_op(k, LOOP_tf32, x, NULL, NULL) : x;
}

// y = a b^T of 100 rows and 40 columns, `depth` long, of numbers of a type; rounded to tf32: lhs, rhs.
static LoopKernel *build_of(LoopFixture *f, DType type, const bool *rounded, int rows, int groups,
                            int stages, int depth) {
  loop_fixture_init(f);
  IntPool *p = &f->pool;
  LoopKernel *k = f->k = loop_kernel(&f->arena, p, "k");
  int32_t a = loop_buffer(k, LOOP_ARG, "a", type, ie_const(p, 100 * depth), false);
  int32_t b = loop_buffer(k, LOOP_ARG, "b", type, ie_const(p, 40 * depth), false);
  int32_t y = loop_buffer(k, LOOP_ARG, "y", DT_F32, ie_const(p, 4000), true);
  LoopBuilder lb;
  loop_begin(&lb, k);
  int down = (100 + rows - 1) / rows;
  Dim item = loop_for(&lb, LOOP_PARALLEL, "item", ie_const(p, down * 2));
  Dim two = ie_const(p, 2), m = ie_const(p, 100), n = ie_const(p, 40);
  Dim i = loop_tile(&lb, "i", rows, stages), j = loop_tile(&lb, "j", 32, groups);
  LoopBound g[2] = {
      {loop_sym(k, "row", m), ie_add(p, ie_mulc(p, ie_div(p, item, two), rows), i), m},
      {loop_sym(k, "col", n), ie_add(p, ie_mulc(p, ie_mod(p, item, two), 32), j), n}};
  LoopBound *guard = arena_dup(&f->arena, g, sizeof g);
  Dim s = loop_reduce(&lb, LOOP_add, "s", ie_const(p, depth), 1);
  const LoopExpr *x =
      loop_load_guarded(k, a, ie_add(p, ie_mulc(p, g[0].sym, depth), s), 1, &guard[0], NULL);
  const LoopExpr *w =
      loop_load_guarded(k, b, ie_add(p, ie_mulc(p, g[1].sym, depth), s), 1, &guard[1], NULL);
  const LoopExpr *sum = loop_yield(
      &lb, loop_op(k, LOOP_mul, factor(k, x, rounded[0]), factor(k, w, rounded[1]), NULL));
  loop_store_guarded(&lb, y, ie_add(p, ie_mulc(p, g[0].sym, 40), g[1].sym), 2, guard, sum);
  for (int depth_of = 0; depth_of < 3; depth_of++) loop_end(&lb);
  loop_finish(&lb);
  return k;
}

static const bool never[2] = {false, false}, both[2] = {true, true};

static LoopKernel *build(LoopFixture *f, int rows, int groups, int stages, int depth) {
  return build_of(f, DT_BF16, never, rows, groups, stages, depth);
}

TEST(tile_kernels_are_accepted_and_read_back) {
  LoopFixture f, again;
  StrBuf text, second;
  LoopTile t;
  LoopKernel *k = build(&f, 128, 2, 4, 24);
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_OK);
  REQUIRE(loop_find_tile(k, &t));
  EXPECT_INT_EQ(t.m, 128);
  EXPECT_INT_EQ(t.n, 32);
  EXPECT_INT_EQ(t.stages, 4);
  EXPECT_INT_EQ(t.groups, 2);
  EXPECT(ie_is(t.a.stride, 24) && ie_is(t.b.rows, 40));
  strbuf_init(&text, &f.arena);
  loop_print(k, &text);
  EXPECT_CONTAINS(strbuf_text(&text), "tile i < 128 by 4 {");
  if (!loop_fixture_read(&again, strbuf_text(&text))) return;
  strbuf_init(&second, &again.arena);
  loop_print(again.k, &second);
  EXPECT_STR_EQ(strbuf_text(&second), strbuf_text(&text));
  EXPECT_STATUS(loop_verify(again.k, &again.d), TENON_OK);
  loop_fixture_free(&again);
  loop_fixture_free(&f);
}

// A stage that goes from one warpgroup to another could be taken for its own next round.
TEST(warpgroups_that_take_turns_have_their_own_stages) {
  static const struct {
    int groups, stages;
    bool good;
  } row[] = {{2, 8, true},  {2, 7, false}, {3, 6, true},
             {3, 8, false}, {3, 3, false}, {2, 2, false}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    LoopKernel *k = build(&f, 64, row[i].groups, row[i].stages, 24);
    EXPECT_STATUS(loop_verify(k, &f.d), row[i].good ? TENON_OK : TENON_EINVAL);
    if (!row[i].good) EXPECT_CONTAINS(f.d.text, "a stage is always the same one's");
    loop_fixture_free(&f);
  }
}

TEST(tiles_of_other_forms_are_refused) {
  static const struct {
    int rows, groups, stages;
  } wrong[] = {{128, 1, 4}, {192, 2, 4}, {64, 1, 1}, {64, 1, 9}, {96, 1, 4}};
  for (int64_t i = 0; i < ARRAY_LEN(wrong); i++) {
    LoopFixture f;
    LoopKernel *k = build(&f, wrong[i].rows, wrong[i].groups, wrong[i].stages, 24);
    EXPECT_STATUS(loop_verify(k, &f.d), TENON_EINVAL);
    EXPECT_CONTAINS(f.d.text, "a tile has 64 rows for each of 1 to 3 warpgroups");
    loop_fixture_free(&f);
  }
  LoopFixture f;
  static const char text[] = "kernel @k (out %y: f32[4096]) {\n"
                             "  parallel item < 1 {\n"
                             "    tile i < 64 by 2 {\n"
                             "      store %y[64*i] = 0.0\n"
                             "    }\n"
                             "  }\n"
                             "}\n";
  if (!loop_fixture_read(&f, text)) return;
  EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_EINVAL);
  EXPECT_CONTAINS(f.d.text, "tile loops are two, one in the other");
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

TEST(tiles_become_warpgroup_products) {
  LoopFixture f;
  CStyle style;
  CudaRecord record;
  StrBuf text, head;
  bool differs;
  LoopKernel *k = build(&f, 128, 2, 4, 24);
  strbuf_init(&text, &f.arena);
  strbuf_init(&head, &f.arena);
  cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
  style.record = &record;
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
  // Without a record, as for a chip that has none of it, the same loops are plain.
  style.record = NULL;
  text.n = 0;
  EXPECT_STATUS(cstyle_kernel(&style, k, "tn_kernel", false, &text, &differs), TENON_OK);
  EXPECT(!strstr(strbuf_text(&text), "tn_product"));
  // The copy engine wants rows of whole 16 bytes.
  loop_fixture_free(&f);
  k = build(&f, 128, 2, 4, 20);
  cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
  style.record = &record;
  strbuf_init(&text, &f.arena);
  EXPECT_STATUS(cstyle_kernel(&style, k, "tn_kernel", false, &text, &differs), TENON_EUNSUPPORTED);
  loop_fixture_free(&f);
}

// ---- f32 ----

TEST(tiles_of_f32_say_how_they_multiply) {
  static const struct {
    DType type;
    bool rounded[2];
    int stages, product;  // -1: refused
    const char *why;
  } row[] = {
      {DT_F32, {false, false}, 6, TILE_F32, ""},
      {DT_F32, {true, true}, 8, TILE_TF32, ""},
      {DT_F32, {false, false}, 7, -1, "a tile of f32 has up to 160 columns and 6 stages"},
      {DT_F32, {true, false}, 4, -1, "rounded to tf32, or neither is"},
      {DT_F32, {false, true}, 4, -1, "rounded to tf32, or neither is"},
      {DT_BF16, {true, true}, 4, -1, "operands that are rounded to tf32 are f32"},
      {DT_F64, {false, false}, 4, -1, "both bf16, both f16, both f32, both bytes, or both floats"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f, again;
    LoopTile t;
    StrBuf text;
    LoopKernel *k = build_of(&f, row[i].type, row[i].rounded, 128, 2, row[i].stages, 24);
    if (row[i].product < 0) {
      EXPECT_STATUS(loop_verify(k, &f.d), TENON_EINVAL);
      EXPECT_CONTAINS(f.d.text, row[i].why);
      loop_fixture_free(&f);
      continue;
    }
    EXPECT_STATUS(loop_verify(k, &f.d), TENON_OK);
    strbuf_init(&text, &f.arena);
    loop_print(k, &text);
    if (!loop_fixture_read(&again, strbuf_text(&text))) return;
    REQUIRE(loop_find_tile(again.k, &t));
    EXPECT_INT_EQ(t.product, row[i].product);
    EXPECT_INT_EQ(t.block, 32);
    loop_fixture_free(&again);
    loop_fixture_free(&f);
  }
}

TEST(tiles_of_tf32_are_rounded_first) {
  enum { DEPTH = 8 };
  static float a[100 * DEPTH], b[40 * DEPTH], y[4000];
  // The nearest with 10 bits behind the point; away from zero between two; infinities and what is no number stay.
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
  LoopKernel *k = build_of(&f, DT_F32, both, 64, 1, 2, DEPTH);
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

TEST(tiles_of_f32_become_products_of_tf32) {
  static const struct {
    const bool *rounded;
    const char *record, *has;
  } row[] = {
      {never, "//tn map 0 f32 2 24 100 96 32 128\n", "tn_product(tn_part, tn_y + q * 4, tn_b"},
      {both, "//tn map 0 tf32 2 24 100 96 32 128\n", "tn_a + q * 2 + 0, tn_b + q * 2, tn_k | q)"}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    CStyle style;
    CudaRecord record;
    LoopTile t;
    StrBuf text, head;
    bool differs;
    LoopKernel *k = build_of(&f, DT_F32, row[i].rounded, 128, 2, 4, 24);
    strbuf_init(&text, &f.arena);
    strbuf_init(&head, &f.arena);
    cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
    style.record = &record;
    EXPECT_STATUS(cstyle_kernel(&style, k, "tn_kernel", false, &text, &differs), TENON_OK);
    cuda_record_write(&record, &head);
    EXPECT_CONTAINS(strbuf_text(&head), row[i].record);
    EXPECT_CONTAINS(strbuf_text(&text), row[i].has);
    // Sums that are not finite are formed again from the operands themselves, of f32 alone.
    EXPECT((strstr(strbuf_text(&text), "tn_again[tn_q] = ") != NULL) == (row[i].rounded == never));
    REQUIRE(loop_find_tile(k, &t));
    text.n = 0;
    cs_tile_top(&t, &text);
    EXPECT_CONTAINS(strbuf_text(&text), "m64n32k8.f32.tf32.tf32");
    loop_fixture_free(&f);
  }
}

// ---- windows ----

// A convolution of pixels of 16 channels into 32: y = the sums of the window and weights of bf16, rows by 64.
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
  Dim i = loop_tile(&lb, "i", 64, 4), j = loop_tile(&lb, "j", 32, 1);
  Dim row = ie_add(p, ie_mulc(p, item, 64), i);
  LoopBound g[3] = {{loop_sym(k, "row", m), row, m},
                    {loop_sym(k, "col", n), j, n},
                    {loop_sym(k, "pixel", m), row, m}};
  LoopBound *guard = arena_dup(&f->arena, g, sizeof g);
  Dim s = loop_reduce(&lb, LOOP_add, "s", ie_const(p, depth), 1);
  const LoopExpr *x = loop_tile_window(k, a, w, &guard[2], s);
  const LoopExpr *v =
      loop_load_guarded(k, b, ie_add(p, ie_mulc(p, g[1].sym, depth), s), 1, &guard[1], NULL);
  const LoopExpr *sum =
      loop_yield(&lb, loop_op(k, LOOP_mul, loop_cast(k, DT_F32, x), loop_cast(k, DT_F32, v), NULL));
  loop_store_guarded(&lb, y, ie_add(p, ie_mulc(p, g[0].sym, 32), g[1].sym), 2, guard, sum);
  for (int open = 0; open < 3; open++) loop_end(&lb);
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

static void same_window(const LoopWindow *a, const LoopWindow *b) {
  EXPECT(a->channels == b->channels && a->images == b->images);
  EXPECT(a->pixel == b->pixel && a->line == b->line);
  for (int d = 0; d < 2; d++) {
    EXPECT(a->in[d] == b->in[d] && a->out[d] == b->out[d] && a->taps[d] == b->taps[d]);
    EXPECT(a->lo[d] == b->lo[d]);
    if (b->out[d] > 1) EXPECT_INT_EQ(a->stride[d], b->stride[d]);
    if (b->taps[d] > 1) EXPECT_INT_EQ(a->dilation[d], b->dilation[d]);
  }
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
    LoopTile t;
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
    w.images = ie_const(&f.pool, shape[at].images);
    EXPECT_STATUS(loop_verify(k, &f.d), TENON_OK);
    REQUIRE(loop_find_tile(k, &t));
    EXPECT_INT_EQ(t.a.form, TILE_WINDOW);
    same_window(&t.a.window, &w);
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
  style.record = &record;
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

// Weights of one column of many tiles are fetched with a block's first tile and stay; those of few tiles, or too many blocks, are fetched with each.
TEST(columns_of_many_tiles_stay) {
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
    style.record = &record;
    EXPECT_STATUS(cstyle_kernel(&style, k, "tn_kernel", false, &text, &differs), TENON_OK);
    EXPECT_CONTAINS(strbuf_text(&text), image[i].expect);
    EXPECT(record.shared_bytes >= image[i].shared && record.shared_bytes < image[i].shared + 4096);
    arena_deinit(&a);
    loop_fixture_free(&f);
  }
}

// What is read beside the sums comes into the ring, where that has so many stages at once, and one more, which the last products hold; else threads read
// it.  Columns stay here, so that a stage has room for 32 columns of f32.
TEST(what_is_read_beside_sums_fits_the_ring) {
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
        "  parallel item < 320 {\n    tile i < 128 by %s {\n      tile j < 224 by 2 {\n"
        "        reduce %%v0: f32 = add over k < 64 {\n"
        "          yield mul(cast[f32](where(row = i + 128*item < 40960) %%a[k + 64*row]), "
        "cast[f32](where(col = j < 224) %%b[k + 64*col]))\n        }\n"
        "        store where(row = i + 128*item < 40960, col = j < 224) %%y[col + 224*row] = "
        "add(%%v0, where(row = i + 128*item < 40960, col = j < 224) %%r[col + 224*row])\n"
        "      }\n    }\n  }\n}\n",
        stages[i]);
    if (!loop_fixture_read(&f, kernel)) return;
    strbuf_init(&text, &f.arena);
    cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
    style.record = &record;
    EXPECT_STATUS(cstyle_kernel(&style, f.k, "tn_kernel", false, &text, &differs), TENON_OK);
    EXPECT_CONTAINS(strbuf_text(&text), "tn_t == blockIdx.x ? ");
    EXPECT(!strstr(strbuf_text(&text), "unsigned tn_side[7];") == (i > 0));
    loop_fixture_free(&f);
    arena_deinit(&a);
  }
}

// ---- attention ----

// 70 queries and 50 keys of 16 elements, 8 columns; SCORE and AGAIN are the scores of the first and the last reduction.
#define PRODUCT(s, d, key)                                                                         \
  "          reduce %" s ": f32 = add over " d " < 16 {\n"                                         \
  "            yield mul(cast[f32](where(query = i + 64*item < 70) %q[" d " + 16*query]), "        \
  "cast[f32](%k[" d " + 16*" key "]))\n          }\n"
#define ATTENTION(score, again)                                                                    \
  "kernel @k (%q: bf16[1120], %k: bf16[800], %w: bf16[400], out %y: f32[560]) {\n"                 \
  "  parallel item < 2 {\n    tile i < 64 by 2 {\n      tile c < 64 by 1 {\n"                      \
  "        reduce %v1: f32 = max over a < 50 {\n" PRODUCT(                                         \
      "v0", "d1",                                                                                  \
      "a") "          yield " score "\n        }\n"                                                \
           "        let %v2: f32 = select(eq(%v1, -inf), 0.0, %v1)\n"                              \
           "        reduce %v4: f32 = add over b < 50 {\n" PRODUCT(                                \
               "v3", "d2",                                                                         \
               "b") "          yield exp(sub(mul(%v3, 0x1p-2), %v2))\n        }\n"                 \
                    "        reduce %v6: f32 = add over e < 50 {\n" PRODUCT(                       \
                        "v5", "d3",                                                                \
                        "e") "          yield mul(cast[f32](cast[bf16](exp(sub(" again             \
                             ", %v2)))), "                                                         \
                             "cast[f32](where(column = c < 8) %w[column + 8*e]))\n        }\n"     \
                             "        store where(row = i + 64*item < 70, g = c < 8) %y[g + "      \
                             "8*row] = div(%v6, %v4)\n"                                            \
                             "      }\n    }\n  }\n}\n"

static void softmax_row(const uint16_t *q, const uint16_t *k, const uint16_t *v, double *out) {
  double weight[50], all = 0, x, y;
  for (int key = 0; key < 50; key++) {
    weight[key] = 0;
    for (int d = 0; d < 16; d++) {
      load_f64(DT_BF16, q, d, 1, &x);
      load_f64(DT_BF16, k, key * 16 + d, 1, &y);
      weight[key] += x * y;
    }
    all += weight[key] = exp(weight[key] * 0.25);
  }
  for (int c = 0; c < 8; c++) {
    out[c] = 0;
    for (int key = 0; key < 50; key++) {
      load_f64(DT_BF16, v, key * 8 + c, 1, &x);
      out[c] += weight[key] / all * x;
    }
  }
}

TEST(attention_in_tiles_is_softmax) {
  static uint16_t q[1120], k[800], v[400];
  static float y[560];
  LoopFixture f;
  LoopTile t;
  int32_t failed;
  if (!loop_fixture_read(&f, ATTENTION("mul(%v0, 0x1p-2)", "mul(%v5, 0x1p-2)"))) return;
  EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_OK);
  REQUIRE(loop_find_tile(f.k, &t));
  EXPECT(t.is_attention && t.attention.size == 16 && t.attention.columns == 8);
  uint16_t *to[] = {q, k, v};
  for (int i = 0; i < 3; i++)
    for (int64_t at = 0; at < f.k->buffer[i].size->value; at++) {
      double x = small_number(at + i) / 8;
      store_f64(DT_BF16, to[i], at, 1, &x);
    }
  void *args[] = {q, k, v, y};
  int64_t size[] = {1120, 800, 400, 560};
  EXPECT_STATUS(loop_interpret(f.k, args, size, NULL, 0, 2, &f.d, &failed), TENON_OK);
  for (int row = 0; row < 70; row++) {
    double want[8];
    softmax_row(q + row * 16, k, v, want);
    for (int c = 0; c < 8; c++) EXPECT(fabs(y[row * 8 + c] - want[c]) < 0.01);
  }
  loop_fixture_free(&f);
}

TEST(attention_of_several_scores_is_refused) {
  static const char *const text[] = {ATTENTION("mul(%v0, 0x1p-2)", "mul(%v5, 0x1p-1)"),
                                     ATTENTION("mul(%v0, 0x1p-1)", "mul(%v5, 0x1p-2)"),
                                     ATTENTION("%v0", "mul(%v5, 0x1p-2)")};
  for (int64_t i = 0; i < ARRAY_LEN(text); i++) {
    LoopFixture f;
    if (!loop_fixture_read(&f, text[i])) return;
    EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_EINVAL);
    EXPECT_CONTAINS(f.d.text, "three reductions over the keys with one score");
    loop_fixture_free(&f);
  }
}

TEST(attention_in_tiles_becomes_one_pass) {
  LoopFixture f;
  CStyle style;
  CudaRecord record;
  StrBuf text;
  bool differs;
  if (!loop_fixture_read(&f, ATTENTION("mul(%v0, 0x1p-2)", "mul(%v5, 0x1p-2)"))) return;
  strbuf_init(&text, &f.arena);
  cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
  style.record = &record;
  EXPECT_STATUS(cstyle_kernel(&style, f.k, "tn_kernel", false, &text, &differs), TENON_OK);
  EXPECT_INT_EQ(record.threads, 128);
  EXPECT_INT_EQ(record.nmaps, 0);
  EXPECT_CONTAINS(strbuf_text(&text), "tn_weigh(tn_sum, tn_w + q * 4");
  // The factor of the scores is in that of their exponents.
  EXPECT_CONTAINS(strbuf_text(&text), "tn_by = tn_factor(tn_m, 0.36067376f);");
  loop_fixture_free(&f);
}

// Heads of 64 elements; factors and weights in operations that end in as many brackets.
static const char *end_of(Arena *a, const char *text) {
  StrBuf b;
  strbuf_init(&b, a);
  for (; *text; text++)
    if (*text == '(') strbuf_putc(&b, ')');
  return strbuf_text(&b);
}

// An element in the operations of `with`.
static const char *in_these(Arena *a, const char *with, const char *text) {
  return str_printf(a, "%s%s%s", with, text, end_of(a, with));
}

static void put_reduction(StrBuf *b, Arena *a, int r, const char *factor, const char *weight) {
  int sum = r ? 2 * r + 1 : 0;
  const char *q = str_printf(a, "where(query = i < 70) %%q[d%d + 64*query + 4480*item]", r);
  const char *k = str_printf(a, "%%k[d%d + 64*key%d + 6400*item]", r, r);
  const char *v = str_printf(a, "where(column = c < 64) %%w[column + 64*key%d + 6400*item]", r);
  const char *score = str_printf(a, "mul(%%v%d, 0x1p-2)", sum);
  const char *w = str_printf(a, "exp(sub(%s, %%v2))", score);
  strbuf_printf(b, "        reduce %%v%d: f32 = %s over key%d < 100 {\n", sum + 1,
                r ? "add" : "max", r);
  strbuf_printf(b, "          reduce %%v%d: f32 = add over d%d < 64 {\n", sum, r);
  strbuf_printf(b, "            yield mul(%s, %s)\n          }\n", in_these(a, factor, q),
                in_these(a, factor, k));
  if (r == 2) w = str_printf(a, "mul(%s, %s)", in_these(a, weight, w), in_these(a, factor, v));
  strbuf_printf(b, "          yield %s\n        }\n", r ? w : score);
  if (!r) strbuf_puts(b, "        let %v2: f32 = select(eq(%v1, -inf), 0.0, %v1)\n");
}

static const char *attention_of(Arena *a, const char *type, const char *factor, const char *weight,
                                int groups, int tiles, int stages, int parts) {
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_printf(
      &b,
      "kernel @k (%%q: %s[13440], %%k: %s[19200], %%w: %s[19200], out %%y: f32[13440]) {\n"
      "  parallel item < 3 {\n    tile i < %d by %d {\n      tile c < 64 by %d {\n",
      type, type, type, 64 * groups * tiles, stages, groups * parts);
  for (int r = 0; r < 3; r++) put_reduction(&b, a, r, factor, weight);
  strbuf_puts(&b, "        store where(row = i < 70, g = c < 64) %y[g + 64*row + 4480*item] = "
                  "div(%v6, %v4)\n      }\n    }\n  }\n}\n");
  return strbuf_text(&b);
}

TEST(attention_of_warpgroups_and_of_f32) {
  static const struct {
    const char *type, *factor, *weight;
    int groups, threads, maps;
    const char *has;
    int tiles;  // of queries, with all keys at once
    int parts;  // of the keys, where it is more than one
  } row[] = {
      {"bf16", "cast[f32](", "cast[f32](cast[bf16](", 2, 384, 3, "bar.sync %0, 256", 0, 1},
      {"f16", "cast[f32](", "cast[f32](cast[f16](", 3, 512, 3, "tn_fetch_3(", 0, 1},
      {"f32", "", "", 1, 128, 0, "tn_mma(tn_s + j * 4, tn_q_low[c][0], tn_b0, tn_b1)", 0, 1},
      {"f32", "tf32(", "tf32(", 1, 128, 0, "tn_mma(tn_s + j * 4, tn_q[c][0], tn_b0, tn_b1)", 0, 1},
      {"f32", "tf32(", "", 1, 0, 0, "operands of attention", 0, 1},
      {"f32", "", "", 2, 0, 0, "one warpgroup and several stages unless", 0, 1},
      {"bf16", "cast[f32](", "cast[f32](cast[bf16](", 1, 128, 3, "tn_s[56], tn_sum[32]", 1, 1},
      {"f16", "cast[f32](", "cast[f32](cast[f16](", 1, 128, 3, "tn_who < 2 &&", 2, 1},
      {"f16", "cast[f32](", "cast[f32](cast[f16](", 1, 0, 0, "one warpgroup and several", 5, 1},
      {"f32", "", "", 1, 0, 0, "one warpgroup and several stages unless", 1, 1},
      {"bf16", "cast[f32](", "cast[f32](cast[bf16](", 1, 256, 0, "= tn_take(tn_part", 0, 8},
      {"f16", "cast[f32](", "cast[f32](cast[f16](", 1, 0, 0, "1, 2, 4 or 8 blocks", 0, 5},
      {"f32", "", "", 1, 0, 0, "parts of attention's keys multiply 16", 0, 2}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    CStyle style;
    CudaRecord record;
    StrBuf text;
    Arena a;
    bool differs;
    arena_init(&a);
    if (!loop_fixture_read(&f, attention_of(&a, row[i].type, row[i].factor, row[i].weight,
                                            row[i].groups, MAX(row[i].tiles, 1),
                                            row[i].tiles ? 1 : 2, row[i].parts)))
      return;
    if (!row[i].threads) {
      EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_EINVAL);
      EXPECT_CONTAINS(f.d.text, row[i].has);
    } else {
      EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_OK);
      strbuf_init(&text, &f.arena);
      cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
      style.record = &record;
      EXPECT_STATUS(cstyle_kernel(&style, f.k, "tn_kernel", false, &text, &differs), TENON_OK);
      EXPECT_INT_EQ(record.threads, row[i].threads);
      EXPECT_INT_EQ(record.nmaps, row[i].maps);
      EXPECT_INT_EQ(record.cluster, MAX(row[i].parts / 2, 1));
      EXPECT_CONTAINS(strbuf_text(&text), row[i].has);
    }
    loop_fixture_free(&f);
    arena_deinit(&a);
  }
}
