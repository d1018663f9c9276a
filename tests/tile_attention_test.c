// tile_attention_test.c -- which kernel attention becomes on chips with units for matrices, and that few keys at once give what the interpreter does.
#include "compiled.h"
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

TEST(attention_over_few_keys_is_done_at_once) {
  static const struct {
    const char *q, *k, *attrs, *schedule;
  } row[] = {
      {"1, 12, 128, 64", "1, 12, 128, 64", "", "64x64 keys 128 stages 1 "},
      {"32, 12, 128, 64", "32, 12, 128, 64", "", "128x64 keys 128 stages 1 "},
      {"1, 12, 197, 64", "1, 12, 197, 64", "", "64x64 keys 208 stages 1 "},
      {"32, 12, 197, 64", "32, 12, 197, 64", "", "256x64 keys 208 stages 1 "},
      {"32, 12, 150, 64", "32, 12, 150, 64", "", "192x64 keys 160 stages 1 "},
      {"b, 12, 128, 64", "b, 12, 128, 64", "", "keys 128 stages 1 "},
      {"2, 4, 90, 128", "2, 2, 192, 128", "", "64x128 keys 192 stages 1 "},
      {"2, 4, 128, 64", "2, 4, 128, 64", " is_causal=true", "64x64 keys 128 stages 1 "},
      // A length that is not known: a kernel for few keys, one for more, and one for any number.
      {"b, 12, n, 64", "b, 12, n, 64", "", "64x64 keys 128 stages 1 "},
      {"b, 12, n, 64", "b, 12, n, 64", "", "64x64 keys 256 stages 1 "},
      {"b, 12, n, 64", "b, 12, n, 64", "", " stages 2 "},
      {"b, 12, n, 64", "b, 12, n, 64", " is_causal=true", "keys 128 stages 1 "},
      // Too many keys, for these heads or where most would be left out; heads that are not whole; as many as nobody knows.
      {"1, 12, 300, 64", "1, 12, 300, 64", "", "keys 64 stages 2 "},
      {"2, 4, 193, 128", "2, 4, 193, 128", "", " stages 2 "},
      {"2, 4, 200, 64", "2, 4, 200, 64", " is_causal=true", "keys 64 stages 2 "},
      {"2, 4, 90, 48", "2, 4, 90, 48", "", "keys 64 stages 2 "},
      {"2, 4, 90, 64", "2, 4, n, 64", "", " stages 2 "},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Arena a;
    Diag d;
    Program *p;
    Compiled c = {0};
    arena_init(&a);
    diag_init(&d);
    Asked asked = {.device = "sm_90a", .compiled = &c};
    const char *text = graph_of(&a, row[i].q, row[i].k, row[i].attrs);
    if (compile_asked(&asked, text, "cuda", &a, &d, &p)) FAIL("%s\n%s", d.text, text);
    bool found = false;
    for (int64_t k = 0; k < c.nkernels; k++) found |= !!strstr(c.kernel[k].name, row[i].schedule);
    if (!found) FAIL("%s is %s", text, c.nkernels ? c.kernel[0].name : "no kernel");
    program_release(p);
    arena_deinit(&a);
  }
}

static void fill(Value *v) {
  static const uint16_t some[] = {0x3f80, 0xbf00, 0x3e80, 0xbf80, 0x3f40, 0x0000, 0x3ec0};
  for (int64_t i = 0; i < v->n; i++) ((uint16_t *)v->data)[i] = some[i * 31 % 7];
}

// Tiles run everywhere as plain loops: queries that end within a tile, keys that two heads share, a length that is open.
TEST(attention_over_few_keys_is_right) {
  Arena a;
  static const char *const row[][2] = {{"1, 2, 70, 64", "1, 1, 20, 64"},
                                       {"1, 2, n, 64", "1, 1, n, 64"}};
  arena_init(&a);
  setenv("TENON_GROUPS", "256", 1);
  setenv("TENON_TILES", "1", 1);
  for (int64_t k = 0; k < ARRAY_LEN(row); k++) {
    BothWays b;
    Asked asked = {0};
    double error = 0;
    if (!both_ways_run(&b, graph_of(&a, row[k][0], row[k][1], ""), "ref", fill, compile_asked,
                       &asked))
      FAIL("%s", b.diag.text);
    for (int64_t i = 0; b.got[0] && i < b.got[0]->n; i++)
      error = fmax(error, fabs(val_f64(b.want[0], i) - val_f64(b.got[0], i)));
    EXPECT(error < 0x1p-7);
    both_ways_free(&b);
  }
  unsetenv("TENON_TILES");
  unsetenv("TENON_GROUPS");
  arena_deinit(&a);
}
