// tile_attention_test.c -- attention tiles: text, what the verifier refuses, what they compute, and
// the CUDA text that they become.
#include "loop/tile.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

#include "loop_fixture.h"
#include "test.h"

#include <math.h>

static double small_number(int64_t i) { return (double)(i * 7 % 13) - 6; }

// 70 queries and 50 keys of 16 elements, 8 columns.
static const char ATTENTION[] =
    "kernel @k (%q: bf16[1120], %k: bf16[800], %w: bf16[400], out %y: f32[560]) {\n"
    "  parallel item < 2 {\n"
    "    attention %v6: f32 total %v4: f32 = half over i < 64, c < 64, key < 50 stages=2 "
    "warpgroups=1 {\n"
    "      rows query = i + 64*item < 70\n"
    "      columns column = c < 8\n"
    "      dot %v5: f32 over d < 16 of where(query = i + 64*item < 70) %q[d + 16*query], "
    "%k[d + 16*key]\n"
    "      values where(column = c < 8) %w[column + 8*key]\n"
    "      score mul(%v5, 0x1p-2)\n"
    "      store where(row = i + 64*item < 70, g = c < 8) %y[g + 8*row] = div(%v6, %v4)\n"
    "    }\n  }\n}\n";

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
  if (!loop_fixture_read(&f, ATTENTION)) return;
  EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_OK);
  loop_fixture_round_trip(&f);
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

// The score stands in three reductions: let statements and guards of its own are copied with it.
TEST(attention_copies_its_score) {
  static uint16_t q[1120], k[800], v[400];
  static float m[60], y[560];
  static const char *const from[] = {"out %y: f32[560]", "score mul(%v5, 0x1p-2)"},
                           *const to[] = {"%m: f32[60], out %y: f32[560]",
                                          "let %v7: f32 = where(near = key - 3 < 40) %m[near]\n"
                                          "      score add(mul(%v5, 0x1p-2), %v7)"};
  LoopFixture f;
  Arena a;
  int32_t failed;
  arena_init(&a);
  const char *text = ATTENTION;
  for (int i = 0; i < 2; i++) {
    const char *at = strstr(text, from[i]);
    text = str_printf(&a, "%.*s%s%s", (int)(at - text), text, to[i], at + strlen(from[i]));
  }
  if (!loop_fixture_read(&f, text)) return;
  EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_OK);
  loop_fixture_round_trip(&f);
  for (int i = 0; i < 400; i++) store_f64(DT_BF16, v, i, 1, &(double){i / 8});
  for (int i = 0; i < 60; i++) m[i] = i == 20 ? 100 : -1;
  void *args[] = {q, k, v, m, y};
  int64_t size[] = {1120, 800, 400, 60, 560};
  EXPECT_STATUS(loop_interpret(f.k, args, size, NULL, 1, 2, &f.d, &failed), TENON_OK);
  for (int i = 64 * 8; i < 560; i++) EXPECT(y[i] == 23);  // all weight is on key 20 + 3
  loop_fixture_free(&f);
  arena_deinit(&a);
}

// Every line of the verifier on operands of attention.
TEST(attention_of_other_operands_is_refused) {
  static const struct {
    const char *from, *to, *why;
  } row[] = {
      {"= half", "= int8", "16-bit types, tf32 or 3xtf32"},
      {"= half", "= tf32", "loads of its type in whole 16 bytes"},
      {"rows query = i + 64*item < 70", "rows query = 2*i + 64*item < 70", "defined twice"},
      {"columns column = c < 8", "columns column = 2*c < 8", "defined twice"},
      {"rows query = i + 64*item < 70", "rows other = i + 64*item < 70", "guarded by their row"},
      {"columns column = c < 8", "columns other = c < 8", "whole 16 bytes"},
      {"%q[d + 16*query]", "%q[2*d + 8*query]", "loads of its type in whole 16 bytes"},
      {"%q[d + 16*query]", "%q[d + 15*query]", "loads of its type in whole 16 bytes"},
      {"%k[d + 16*key]", "%k[d + 8*i]", "keys by neither"},
      {"d < 16 of", "d < 12 of", "heads of attention are whole 16 bytes"},
      {"c < 64, key", "c < 96, key", "64 or 128 columns"},
      {"warpgroups=1", "warpgroups=1 pingpong=1", "has no ping-pong"},
      {"stages=2", "stages=9", "2 to 8 stages"},
      {"stages=2", "stages=1", "attention in one stage has one warpgroup, TMA boxes"},
      {"warpgroups=1", "warpgroups=1 cluster=2", "two parts in each block of its cluster"},
      {"warpgroups=1", "warpgroups=1 split_kv=3", "two parts in each block of its cluster"},
      {"score", "box q at 0, 0 of 1, 70, 16 score", "a TMA box does not hold"},
      {"mul(%v5, 0x1p-2)", "mul(%v5, cast[f32]([c]))", "the same for all columns"},
      {"mul(%v5, 0x1p-2)", "mul(%v5, where(row = i + 64*item < 70) %y[8*row])",
       "reads inputs, the same for all columns"},
      {"score", "store %y[0] = 0.0 score", "let statements and plain reductions alone"},
      {"mul(%v5, 0x1p-2)", "%v6", "%v6 is not defined here"},
  };
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    loop_fixture_init(&f);
    const char *at = strstr(ATTENTION, row[i].from);
    REQUIRE(at);
    const char *text = str_printf(&a, "%.*s%s%s", (int)(at - ATTENTION), ATTENTION, row[i].to,
                                  at + strlen(row[i].from));
    tenon_status read = loop_parse(str_of(text), "t", &f.arena, &f.pool, &f.d, &f.k);
    if (!read) read = loop_verify(f.k, &f.d);
    EXPECT_STATUS(read, TENON_EINVAL);
    EXPECT_CONTAINS(f.d.text, row[i].why);
    loop_fixture_free(&f);
  }
  arena_deinit(&a);
}

// Heads of up to 128 elements of 16 bits, or 64 of 32.
TEST(attention_heads_have_so_many_elements) {
  static const struct {
    const char *type, *kind;
    int size;
    bool fits;
  } row[] = {{"bf16", "half", 128, true},  {"bf16", "half", 136, false},
             {"f32", "tf32", 64, true},    {"f32", "tf32", 68, false},
             {"f32", "3xtf32", 64, true},  {"f32", "3xtf32", 128, false},
             {"bf16", "half", 124, false}, {"f32", "tf32", 62, false}};
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    int n = row[i].size;
    const char *t = row[i].type;
    const char *text = str_printf(
        &a,
        "kernel @k (%%q: %s[%d], %%k: %s[%d], %%w: %s[400], out %%y: f32[560]) {\n"
        "  parallel item < 2 {\n"
        "    attention %%v6: f32 total %%v4: f32 = %s over i < 64, c < 64, key < 50 stages=2 "
        "warpgroups=1 {\n"
        "      rows query = i + 64*item < 70\n      columns column = c < 8\n"
        "      dot %%v5: f32 over d < %d of where(query = i + 64*item < 70) %%q[d + %d*query], "
        "%%k[d + %d*key]\n"
        "      values where(column = c < 8) %%w[column + 8*key]\n      score mul(%%v5, 0x1p-2)\n"
        "      store where(row = i + 64*item < 70, g = c < 8) %%y[g + 8*row] = div(%%v6, %%v4)\n"
        "    }\n  }\n}\n",
        t, 70 * n, t, 50 * n, t, row[i].kind, n, n, n);
    if (!loop_fixture_read(&f, text)) continue;
    tenon_status s = loop_verify(f.k, &f.d);
    if (!s != row[i].fits)
      FAIL("heads of %d %s: %s", n, t, s ? f.d.text : "accepted");
    else if (s)
      EXPECT_CONTAINS(f.d.text, "whole 16 bytes");
    loop_fixture_free(&f);
  }
  arena_deinit(&a);
}

TEST(attention_in_tiles_becomes_one_pass) {
  LoopFixture f;
  CStyle style;
  CudaRecord record;
  StrBuf text;
  bool differs;
  if (!loop_fixture_read(&f, ATTENTION)) return;
  strbuf_init(&text, &f.arena);
  cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
  style.extension = &(CudaTensorCores){.record = &record};
  EXPECT_STATUS(cstyle_kernel(&style, f.k, "tn_kernel", false, &text, &differs), TENON_OK);
  EXPECT_INT_EQ(record.threads, 128);
  EXPECT_INT_EQ(record.nmaps, 0);
  EXPECT_CONTAINS(strbuf_text(&text), "tn_weigh(tn_sum, tn_w + q * 4");
  // The factor of the scores is in that of their exponents.
  EXPECT_CONTAINS(strbuf_text(&text), "tn_by = tn_factor(tn_m, 0.36067376f);");
  loop_fixture_free(&f);
}

// Heads of 64 elements, with TMA boxes.
static const char *attention_of(Arena *a, const char *type, const char *kind, int groups, int tiles,
                                int stages, int parts) {
  return str_printf(
      a,
      "kernel @k (%%q: %s[13440], %%k: %s[19200], %%w: %s[19200], out %%y: f32[13440]) {\n"
      "  parallel item < 3 {\n"
      "    attention %%v6: f32 total %%v4: f32 = %s over i < %d, c < 64, key < 100 stages=%d "
      "warpgroups=%d cluster=%d split_kv=%d {\n"
      "      rows query = i < 70\n"
      "      columns column = c < 64\n"
      "      dot %%v5: f32 over d < 64 of where(query = i < 70) %%q[d + 64*query + 4480*item], "
      "%%k[d + 64*key + 6400*item]\n"
      "      values where(column = c < 64) %%w[column + 64*key + 6400*item]\n"
      "      box q at item, 0 of 3, 70, 64\n"
      "      box k at item, 0 of 3, 100, 64\n"
      "      box v at item, 0 of 3, 100, 64\n"
      "      score mul(%%v5, 0x1p-2)\n"
      "      store where(row = i < 70, g = c < 64) %%y[g + 64*row + 4480*item] = "
      "div(%%v6, %%v4)\n    }\n  }\n}\n",
      type, type, type, kind, 64 * groups * tiles, stages, groups, MAX(parts / 2, 1), parts);
}

TEST(attention_of_warpgroups_and_of_f32) {
  static const struct {
    const char *type, *kind;
    int groups, threads, maps;
    const char *has;
    int tiles;  // of queries, with all keys in one stage
    int parts;  // split-KV
  } row[] = {
      {"bf16", "half", 2, 384, 3, "bar.sync %0, 256", 0, 0},
      {"f16", "half", 3, 512, 3, "tn_fetch_3(", 0, 0},
      {"f32", "3xtf32", 1, 128, 0, "tn_mma(tn_s + j * 4, tn_q_low[c][0], tn_b0, tn_b1)", 0, 0},
      {"f32", "tf32", 1, 128, 0, "tn_mma(tn_s + j * 4, tn_q[c][0], tn_b0, tn_b1)", 0, 0},
      {"bf16", "tf32", 1, 0, 0, "operands of attention", 0, 0},
      {"f32", "3xtf32", 2, 0, 0, "several warpgroups has TMA boxes", 0, 0},
      {"bf16", "half", 1, 128, 3, "tn_s[56], tn_sum[32]", 1, 0},
      {"f16", "half", 1, 128, 3, "tn_who < 2 &&", 2, 0},
      {"f16", "half", 1, 0, 0, "up to 256 keys and 4 tiles", 5, 0},
      {"f32", "3xtf32", 1, 0, 0, "attention in one stage", 1, 0},
      {"bf16", "half", 1, 256, 0, "= tn_dsmem_load(tn_part", 0, 8},
      {"f16", "half", 1, 0, 0, "two parts in each block", 0, 5},
      {"f16", "half", 1, 0, 0, "1, 2, 4 or 8 blocks", 0, 6},
      {"f32", "3xtf32", 1, 0, 0, "split-KV has 64 queries of 16-bit types", 0, 2}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    LoopFixture f;
    CStyle style;
    CudaRecord record;
    StrBuf text;
    Arena a;
    bool differs;
    arena_init(&a);
    if (!loop_fixture_read(&f,
                           attention_of(&a, row[i].type, row[i].kind, row[i].groups,
                                        MAX(row[i].tiles, 1), row[i].tiles ? 1 : 2, row[i].parts)))
      return;
    if (!row[i].threads) {
      EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_EINVAL);
      EXPECT_CONTAINS(f.d.text, row[i].has);
    } else {
      EXPECT_STATUS(loop_verify(f.k, &f.d), TENON_OK);
      strbuf_init(&text, &f.arena);
      cstyle_init(&style, &spelling_cuda, 0, &f.arena, &f.d);
      style.extension = &(CudaTensorCores){.record = &record};
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
