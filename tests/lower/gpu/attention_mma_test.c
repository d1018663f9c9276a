// attention_mma_test.c -- which kernel attention becomes on GPUs with tensor cores, and that few
// keys at once give what the interpreter does.
#include "schedules.h"
#include "compiled.h"
#include "loop/tile.h"
#include "lower/lower.h"
#include "passes/passes.h"
#include "targets/target.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static const char *graph_of(Arena *a, const char *q, const char *k, const char *attrs) {
  return str_printf(a,
                    "graph @\"g\"(%%q: bf16[%s], %%k: bf16[%s], %%v: bf16[%s]) {\n"
                    "  %%y = attention(%%q, %%k, %%v)%s\n  return %%y\n}\n",
                    q, k, k, attrs);
}

typedef struct Chosen {
  const char *q, *k, *attrs, *schedule;
  int columns;  // of a tile; 0: any
} Chosen;

static void is_chosen(const Chosen *row, const char *text) {
  Arena a;
  Diag d;
  Program *p;
  Compiled c = {0};
  arena_init(&a);
  diag_init(&d);
  Asked asked = {.device = "sm_90a", .compiled = &c};
  if (!text) text = graph_of(&a, row->q, row->k, row->attrs);
  if (compile_asked(&asked, text, "cuda", &a, &d, &p)) FAIL("%s\n%s", d.text, text);
  bool found = false;
  const char *fields = str_printf(&a, "attention_mma %s", row->schedule);
  const char *columns = row->columns ? str_printf(&a, " c < %d, key", row->columns) : "";
  for (int64_t k = 0; k < c.nkernels; k++)
    found |= schedule_fits(c.kernel[k].lowered, fields) && strstr(c.kernel[k].text.p, columns);
  if (!found) FAIL("%s is %s", text, c.nkernels ? c.kernel[c.nkernels - 1].name : "no kernel");
  program_release(p);
  arena_deinit(&a);
}

TEST(attention_over_few_keys_is_done_at_once) {
  static const Chosen row[] = {
      {"1, 12, 128, 64", "1, 12, 128, 64", "", "keys=128 stages=1 warpgroups=1 tiles=1", 64},
      {"32, 12, 128, 64", "32, 12, 128, 64", "", "keys=128 stages=1 warpgroups=1 tiles=2", 64},
      {"1, 12, 197, 64", "1, 12, 197, 64", "", "keys=208 stages=1 warpgroups=1 tiles=1", 64},
      {"32, 12, 197, 64", "32, 12, 197, 64", "", "keys=208 stages=1 warpgroups=1 tiles=4", 64},
      {"32, 12, 150, 64", "32, 12, 150, 64", "", "keys=160 stages=1 warpgroups=1 tiles=3", 64},
      {"b, 12, 128, 64", "b, 12, 128, 64", "", "keys=128 stages=1", 0},
      {"2, 4, 90, 128", "2, 2, 192, 128", "", "keys=192 stages=1 warpgroups=1 tiles=1", 128},
      {"2, 4, 128, 64", "2, 4, 128, 64", " is_causal=true",
       "keys=128 stages=1 warpgroups=1 tiles=1", 64},
      // A length that is not known: a kernel for few keys, one for more, and one for any number.
      {"b, 12, n, 64", "b, 12, n, 64", "", "keys=128 stages=1 warpgroups=1 tiles=1", 64},
      {"b, 12, n, 64", "b, 12, n, 64", "", "keys=256 stages=1 warpgroups=1 tiles=1", 64},
      {"b, 12, n, 64", "b, 12, n, 64", "", "stages=2", 0},
      {"b, 12, n, 64", "b, 12, n, 64", " is_causal=true", "keys=128 stages=1", 0},
      // Too many keys, for these heads or where most would be left out; heads that are not whole;
      // as many as nobody knows.
      {"1, 12, 300, 64", "1, 12, 300, 64", "", "keys=64 stages=2", 0},
      {"2, 4, 193, 128", "2, 4, 193, 128", "", "stages=2", 0},
      {"2, 4, 200, 64", "2, 4, 200, 64", " is_causal=true", "keys=64 stages=2", 0},
      {"2, 4, 90, 48", "2, 4, 90, 48", "", "keys=64 stages=2", 0},
      {"2, 4, 90, 64", "2, 4, n, 64", "", "stages=2", 0},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) is_chosen(&row[i], NULL);
}

TEST(attention_of_few_queries_has_its_keys_in_parts) {
  static const Chosen row[] = {
      {"8, 32, 1, 128", "8, 8, 8192, 128", "", "keys=64 stages=3 warpgroups=1 parts=4", 128},
      {"1, 32, 1, 128", "1, 8, 8192, 128", "", "stages=3 warpgroups=1 parts=16", 0},
      {"2, 12, 4, 96", "2, 4, 600, 96", " is_causal=true at_end=true", "parts=8", 0},
      {"b, 32, 1, 64", "b, 8, t, 64", "", "keys=64 stages=6 warpgroups=1 parts=16", 64},
      {"b, 32, s, 128", "b, 8, t, 128", " is_causal=true", "parts=16", 0},
      // Blocks enough without parts; more queries than a few, over all keys that there are.
      {"64, 32, 1, 128", "64, 8, 8192, 128", "", "keys=64 stages=2 warpgroups=1", 128},
      {"1, 32, 512, 128", "1, 8, 2048, 128", " is_causal=true at_end=true", "keys=128 warpgroups=2",
       128},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) is_chosen(&row[i], NULL);
}

// Present keys, and past keys of dynamic length: one matrix; a mask may have a length of its own.
TEST(attention_with_a_past_reads_what_it_hands_on) {
  Arena a;
  static const struct {
    const char *mask_type, *mask, *schedule;
    int columns;
  } row[] = {
      {", %m: bool[b, 1, s, t]", "%m", "keys=64 stages=3 warpgroups=1 parts=16", 128},
      {"", "_", "keys=64 stages=3 warpgroups=1 parts=16", 128},
      {"", "_", "keys=128 stages=2 warpgroups=2", 128},
  };
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    const char *text = str_printf(
        &a,
        "graph @\"g\"(%%q: f16[b, 16, s, 128], %%k: f16[b, 2, s, 128], %%v: f16[b, 2, s, 128]%s, "
        "%%o: f16[b, 2, p, 128], %%w: f16[b, 2, p, 128]) {\n"
        "  %%a:3 = attention(%%q, %%k, %%v, %s, %%o, %%w) is_causal=true\n"
        "  return %%a.0, %%a.1, %%a.2\n}\n",
        row[i].mask_type, row[i].mask);
    is_chosen(&(Chosen){.schedule = row[i].schedule, .columns = row[i].columns}, text);
  }
  arena_deinit(&a);
}

// Fewer queries than keys, of which the last block sees all: TMA is told of all.
TEST(attention_behind_a_past_fetches_all_keys) {
  Arena a;
  Diag d;
  Program *p;
  Compiled c = {0};
  arena_init(&a);
  diag_init(&d);
  Asked asked = {.device = "sm_90a", .compiled = &c};
  const char *text =
      graph_of(&a, "1, 32, 512, 128", "1, 8, 2048, 128", " is_causal=true at_end=true");
  LoopTile t;
  if (compile_asked(&asked, text, "cuda", &a, &d, &p)) FAIL("%s\n%s", d.text, text);
  REQUIRE(c.nkernels == 1 && loop_find_tile(c.kernel[0].lowered->kernel, &t));
  EXPECT(t.attention.box[1].is && ie_is(t.attention.box[1].rows, 2048));
  program_release(p);
  arena_deinit(&a);
}

static void fill(Value *v) {
  static const uint16_t some[] = {0x3f80, 0xbf00, 0x3e80, 0xbf80, 0x3f40, 0x0000, 0x3ec0};
  for (int64_t i = 0; i < v->n; i++) ((uint16_t *)v->data)[i] = some[i * 31 % 7];
}

static void text_is_right(const char *text) {
  BothWays b;
  Asked asked = {0};
  double error = 0;
  setenv("TENON_BLOCK_THREADS", "256", 1);
  setenv("TENON_MMA", "1", 1);
  if (!both_ways_run(&b, text, "ref", fill, compile_asked, &asked)) FAIL("%s", b.diag.text);
  for (int64_t i = 0; b.got[0] && i < b.got[0]->n; i++)
    error = fmax(error, fabs(val_f64(b.want[0], i) - val_f64(b.got[0], i)));
  EXPECT(error < 0x1p-7);
  both_ways_free(&b);
  unsetenv("TENON_MMA");
  unsetenv("TENON_BLOCK_THREADS");
}

static void is_right(const char *q, const char *k, const char *attrs) {
  Arena a;
  arena_init(&a);
  text_is_right(graph_of(&a, q, k, attrs));
  arena_deinit(&a);
}

// Tiles run everywhere as plain loops: queries that end within a tile, keys that two heads share, a
// dynamic length.
TEST_LONG(attention_over_few_keys_is_right) {
  is_right("1, 2, 70, 64", "1, 1, 20, 64", "");
  is_right("1, 2, n, 64", "1, 1, n, 64", "");
}

TEST(attention_of_few_queries_is_right) {
  is_right("1, 3, 2, 8", "1, 1, 257, 8", " is_causal=true at_end=true");
}

// A query stands behind the KV cache, at the last key only where there are as many queries as keys.
TEST(attention_with_a_past_and_other_queries_than_keys_is_right) {
  static const char *const attrs[] = {"is_causal=true", "left_window_size=2", "right_window_size=1",
                                      ""};
  static const int keys[] = {2, 5, 3};
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(attrs) * ARRAY_LEN(keys); i++) {
    int k = keys[i % ARRAY_LEN(keys)];
    text_is_right(
        str_printf(&a,
                   "graph @\"g\"(%%q: bf16[1, 2, 3, 8], %%k: bf16[1, 1, %d, 8], %%v: bf16[1, 1, "
                   "%d, 8], %%o: bf16[1, 1, 4, 8], %%w: bf16[1, 1, 4, 8]) {\n"
                   "  %%y = attention(%%q, %%k, %%v, _, %%o, %%w) %s\n  return %%y\n}\n",
                   k, k, attrs[i / ARRAY_LEN(keys)]));
  }
  arena_deinit(&a);
}
