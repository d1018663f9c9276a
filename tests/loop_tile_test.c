// loop_tile_test.c -- kernels with tiles: text, what the verifier refuses, what they compute, and the CUDA text that they become.
#include "loop/tile.h"
#include "runtime/cuda/cuda.h"
#include "targets/cstyle/cstyle.h"

#include "loop_fixture.h"
#include "test.h"

// y = a b^T of 100 rows and 40 columns, `depth` long.
static LoopKernel *build(LoopFixture *f, int rows, int groups, int stages, int depth) {
  loop_fixture_init(f);
  IntPool *p = &f->pool;
  LoopKernel *k = f->k = loop_kernel(&f->arena, p, "k");
  int32_t a = loop_buffer(k, LOOP_ARG, "a", DT_BF16, ie_const(p, 100 * depth), false);
  int32_t b = loop_buffer(k, LOOP_ARG, "b", DT_BF16, ie_const(p, 40 * depth), false);
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
  const LoopExpr *sum =
      loop_yield(&lb, loop_op(k, LOOP_mul, loop_cast(k, DT_F32, x), loop_cast(k, DT_F32, w), NULL));
  loop_store_guarded(&lb, y, ie_add(p, ie_mulc(p, g[0].sym, 40), g[1].sym), 2, guard, sum);
  for (int depth_of = 0; depth_of < 3; depth_of++) loop_end(&lb);
  loop_finish(&lb);
  return k;
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

TEST(tiles_of_other_forms_are_refused) {
  static const struct {
    int rows, groups, stages;
  } wrong[] = {{128, 1, 4}, {64, 2, 4}, {64, 1, 1}, {64, 1, 9}, {96, 1, 4}};
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
                                    "//tn shared 103552\n"
                                    "//tn persistent\n"
                                    "//tn early\n"
                                    "//tn map 0 bf16 2 24 100 48 64 128\n"
                                    "//tn map 1 bf16 2 24 40 48 64 32\n");
  EXPECT_CONTAINS(strbuf_text(&text), "__launch_bounds__(384, 1) tn_kernel(");
  EXPECT_CONTAINS(strbuf_text(&text), "tn_product(tn_sum, tn_a + q * 2, tn_b + q * 2, tn_k | q)");
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
