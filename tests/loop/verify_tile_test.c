// verify_tile_test.c -- every line of the verifier on tile statements: schedules, operands,
// records; and text that is none.
#include "loop/tile.h"

#include "loop_fixture.h"
#include "test.h"

// A tile of this schedule of 100 rows and 40 columns, 24 long.
static const char *scheduled(Arena *a, const LoopTileSchedule *s, LoopMmaKind kind) {
  const char *type = kind == MMA_F32 ? "f32" : "bf16";
  int across = (40 + s->n - 1) / s->n, items = across * ((100 + s->m - 1) / s->m);
  return str_printf(a,
                    "kernel @k (%%a: %s[2400], %%b: %s[960], out %%y: f32[4000]) {\n"
                    "  parallel item < %d {\n"
                    "    mma %%v0: f32 = %s over i < %d, j < %d, k < 24 stages=%d warpgroups=%d "
                    "cluster=%d pingpong=%d split_kv=%d {\n"
                    "      a matrix %%a[row = i + %d*floor(item/%d) < 100] stride 24\n"
                    "      b matrix %%b[col = j + %d*mod(item, %d) < 40] stride 24\n"
                    "      store where(row = i + %d*floor(item/%d) < 100, col = j + %d*mod(item, "
                    "%d) < 40) %%y[col + 40*row] = %%v0\n    }\n  }\n}\n",
                    type, type, items, loop_mma[kind].word, s->m, s->n, s->stages, s->warpgroups,
                    s->cluster, s->pingpong, s->split_kv, s->m, across, s->n, across, s->m, across,
                    s->n, across);
}

// Every line of the verifier on schedules of MMA tiles.
TEST(illegal_schedules_are_refused) {
  static const struct {
    LoopTileSchedule s;
    LoopMmaKind kind;
    const char *why;  // NULL: legal
  } row[] = {
      {{128, 32, 4, 2, 1, 0, 0}, MMA_HALF, NULL},
      {{128, 32, 4, 1, 1, 0, 0}, MMA_HALF, "64 rows for each consumer warpgroup, or for all"},
      {{192, 32, 4, 2, 1, 0, 0}, MMA_HALF, "64 rows for each consumer warpgroup, or for all"},
      {{96, 32, 4, 1, 1, 0, 0}, MMA_HALF, "64 rows for each consumer warpgroup, or for all"},
      {{64, 32, 4, 0, 1, 0, 0}, MMA_HALF, "1 to 3 consumer warpgroups"},
      {{256, 32, 4, 4, 1, 0, 0}, MMA_HALF, "1 to 3 consumer warpgroups"},
      {{64, 32, 1, 1, 1, 0, 0}, MMA_HALF, "2 to 8 stages"},
      {{64, 32, 9, 1, 1, 0, 0}, MMA_HALF, "2 to 8 stages"},
      {{64, 48, 4, 1, 1, 0, 0}, MMA_HALF, "32 to 256 columns, by 32"},
      {{64, 288, 4, 1, 1, 0, 0}, MMA_HALF, "32 to 256 columns, by 32"},
      // A stage that goes from one warpgroup to another could be taken for its own next round.
      {{64, 32, 8, 2, 1, 0, 0}, MMA_HALF, NULL},
      {{64, 32, 6, 3, 1, 0, 0}, MMA_HALF, NULL},
      {{64, 32, 7, 2, 1, 0, 0}, MMA_HALF, "a stage is always the same one's"},
      {{64, 32, 8, 3, 1, 0, 0}, MMA_HALF, "a stage is always the same one's"},
      {{64, 32, 3, 3, 1, 0, 0}, MMA_HALF, "a stage is always the same one's"},
      {{64, 32, 2, 2, 1, 0, 0}, MMA_HALF, "a stage is always the same one's"},
      {{64, 96, 4, 2, 1, 0, 0}, MMA_HALF, "split the depth of tiles of up to 64 columns"},
      {{64, 96, 4, 2, 1, 0, 0}, MMA_F32, NULL},
      {{64, 96, 6, 3, 1, 0, 0}, MMA_F32, "split the depth of tiles of up to 64 columns"},
      {{64, 32, 4, 2, 4, 0, 0}, MMA_HALF, NULL},
      {{64, 32, 4, 2, 8, 0, 0}, MMA_HALF, NULL},
      {{64, 32, 4, 2, 3, 0, 0}, MMA_HALF, "1, 2, 4 or 8 blocks"},
      {{64, 32, 4, 2, 16, 0, 0}, MMA_HALF, "1, 2, 4 or 8 blocks"},
      {{128, 32, 4, 2, 2, 0, 0}, MMA_HALF, "cluster split-K has tiles of 64 rows"},
      {{64, 32, 4, 1, 2, 0, 0}, MMA_HALF, "cluster split-K has two or three warpgroups"},
      {{128, 128, 4, 1, 1, 1, 0}, MMA_HALF, NULL},
      {{64, 256, 4, 1, 1, 1, 0}, MMA_HALF, NULL},
      {{128, 128, 4, 2, 1, 1, 0}, MMA_HALF, "ping-pong has one warpgroup for each tile"},
      {{192, 64, 4, 1, 1, 1, 0}, MMA_HALF, "ping-pong has one warpgroup for each tile"},
      {{128, 256, 4, 1, 1, 1, 0}, MMA_HALF, "192 registers for sums"},
      {{128, 128, 4, 1, 1, 1, 0}, MMA_F32, "not of 3xtf32 or fp8"},
      {{128, 192, 4, 2, 1, 0, 0}, MMA_F32, "take fewer columns or stages"},
      {{128, 64, 7, 2, 1, 0, 0}, MMA_F32, "take fewer columns or stages"},
      {{64, 32, 4, 1, 1, 0, 2}, MMA_HALF, "split-KV is attention's"},
  };
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    if (!loop_fixture_read(&f, scheduled(&a, &row[i].s, row[i].kind))) return;
    EXPECT_STATUS(loop_verify(f.k, &f.d), row[i].why ? TENON_EINVAL : TENON_OK);
    if (row[i].why) EXPECT_CONTAINS(f.d.text, row[i].why);
    if (!row[i].why) loop_fixture_round_trip(&f);
    loop_fixture_free(&f);
  }
  arena_deinit(&a);
}

// What stands in the braces of a tile of 64 rows and 32 columns, 24 long.
static const char *tile_text(Arena *a, const char *statements) {
  return str_printf(a,
                    "kernel @k dims(n in [1, *]) (%%a: bf16[2400], %%b: bf16[768], %%d: "
                    "bf16[24*n], %%i: f32[100], out %%y: f32[3200]) {\n  parallel item < 2 {\n"
                    "    mma %%v0: f32 = half over i < 64, j < 32, k < 24 stages=4 warpgroups=1 "
                    "{\n%s\n    }\n  }\n}\n",
                    statements);
}

// Every line of the verifier on operands of MMA tiles, and on where a tile stands.
TEST(tiles_of_other_operands_are_refused) {
  static const struct {
    const char *text, *why;  // NULL: accepted
  } row[] = {
      {"a matrix %a[row = i + 64*item < 100] stride 24 b matrix %b[col = j < 32] stride 24", NULL},
      {"a matrix %a[row = 2*i + 64*item < 100] stride 24 b matrix %b[col = j < 32] stride 24",
       "the item's first and then the tile's variable"},
      {"a matrix %a[row = i + 64*item < 100] stride 24 b matrix %b[col = i < 32] stride 24",
       "the item's first and then the tile's variable"},
      {"a matrix %y[row = i + 64*item < 100] stride 24 b matrix %b[col = j < 32] stride 24",
       "a tile's operand is an input"},
      {"a matrix %a[row = i + 64*item < 100] stride 25 b matrix %b[col = j < 32] stride 24",
       "cannot prove that the index is below 2400"},
      {"a matrix %d[row = i + 64*item < n] stride 24 b matrix %b[col = j < 32] stride 24", NULL},
      {"a matrix %d[row = i + 64*item < floor(n/2)] stride 24 b matrix %b[col = j < 32] stride 24",
       "a matrix' rows as a sum of products of sizes"},
      {"a matrix %i[row = i + 64*item < 4] stride 24 b matrix %b[col = j < 32] stride 24",
       "does not take the types of its operands"},
      {"a value[row = i + 64*item < 100] = where(row = i + 64*item < 100) %a[k + 24*row] "
       "b matrix %b[col = j < 32] stride 24",
       NULL},
      {"a value[row = i + 64*item < 100] = %a[k] b matrix %b[col = j < 32] stride 24",
       "reads inputs, guarded by its row"},
      {"a matrix %a[row = i + 64*item < 100] stride 24 b value[col = j < 32] = %b[k]",
       "the second operand of a tile is a matrix"},
      {"a window %a[row = i + 64*item < 100] images 1 channels 24 pixel 24 line 240 in 10, 10 "
       "out 10, 10 taps 1, 1 stride 1, 1 dilation 1, 1 lo 0, 0 b matrix %b[col = j < 32] stride 24",
       NULL},
      {"a window %a[row = i + 64*item < 100] images 1 channels 12 pixel 24 line 240 in 10, 10 "
       "out 10, 10 taps 1, 1 stride 1, 1 dilation 1, 1 lo 0, 0 b matrix %b[col = j < 32] stride 24",
       "a window's pixels are the rows"},
  };
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    if (!loop_fixture_read(&f, tile_text(&a, row[i].text))) return;
    EXPECT_STATUS(loop_verify(f.k, &f.d), row[i].why ? TENON_EINVAL : TENON_OK);
    if (row[i].why) EXPECT_CONTAINS(f.d.text, row[i].why);
    loop_fixture_free(&f);
  }
  LoopFixture f;
  const char *one = tile_text(&a, row[0].text), *from = strstr(one, "    mma");
  const char *two = str_printf(&a, "%.*s    for u < 2 {\n%.*s    }\n  }\n}\n", (int)(from - one),
                               one, (int)(strlen(from) - 6), from);
  if (!loop_fixture_read(&f, two)) return;
  EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_EINVAL);
  EXPECT_CONTAINS(f.d.text, "stands under the parallel loop alone");
  loop_fixture_free(&f);
  arena_deinit(&a);
}

// A record that was changed behind its loops.
TEST(tiles_are_what_their_records_say) {
  LoopFixture f;
  Arena a;
  arena_init(&a);
  LoopTileSchedule s = {64, 32, 4, 1, 1, 0, 0};
  if (!loop_fixture_read(&f, scheduled(&a, &s, MMA_HALF))) return;
  LoopKernel *k = f.k;
  LoopTile *t = k->body.v[0]->body.v[0]->tile;
  LoopTile was = *t;
  t->a.stride = ie_const(&f.pool, 12);
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_EINVAL);
  EXPECT_CONTAINS(f.d.text, "does not read what its record says");
  *t = was;
  t->kind = MMA_TF32;
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_EINVAL);
  *t = was;
  t->b.value = t->a.value;
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_EINVAL);
  *t = was;
  t->s.m = 128;
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_EINVAL);
  EXPECT_CONTAINS(f.d.text, "has a record and its loops");
  *t = was;
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_OK);
  // The product of one operand with itself.
  LoopExpr *product = (LoopExpr *)(uintptr_t)t->sum->value;
  REQUIRE(product->kind == LX_OP && product->op == LOOP_mul);
  const LoopExpr *first = product->src[0];
  product->src[0] = product->src[1];
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_EINVAL);
  EXPECT_CONTAINS(f.d.text, "the loops of a tile are not its record's");
  product->src[0] = first;
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_OK);
  t->sum->value = t->sum->value->src[0];
  EXPECT_STATUS(loop_verify(k, &f.d), TENON_EINVAL);
  EXPECT_CONTAINS(f.d.text, "the loops of a tile are not its record's");
  loop_fixture_free(&f);
  arena_deinit(&a);
}

// Text that is no tile statement.
TEST(malformed_tiles_are_not_read) {
  static const struct {
    const char *from, *to, *why;
  } row[] = {
      {"half", "quarter", "'quarter' is no kind of products"},
      {"stages", "steps", "a tile's schedule has no 'steps'"},
      {"stages=4", "stages=5000", "5000 is not in [0, 1024]"},
      {"i < 64", "i < n", "the sizes of a tile are numbers up to 1024"},
      {"matrix %a", "matrix %z", "there is no buffer %z"},
      {"a matrix", "a tensor", "expected 'matrix', found 'tensor'"},
      {"stride 24 b", "b", "expected 'stride', found 'b'"},
  };
  Arena a;
  arena_init(&a);
  const char *good = tile_text(
      &a, "a matrix %a[row = i + 64*item < 100] stride 24 b matrix %b[col = j < 32] stride 24");
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Arena own;
    IntPool pool;
    Diag d;
    LoopKernel *k;
    arena_init(&own);
    intpool_init(&pool, &own);
    diag_init(&d);
    const char *at = strstr(good, row[i].from);
    REQUIRE(at);
    const char *text =
        str_printf(&a, "%.*s%s%s", (int)(at - good), good, row[i].to, at + strlen(row[i].from));
    EXPECT_STATUS(loop_parse(str_of(text), "t", &own, &pool, &d, &k), TENON_EINVAL);
    EXPECT_CONTAINS(d.text, row[i].why);
    arena_deinit(&own);
  }
  arena_deinit(&a);
}
