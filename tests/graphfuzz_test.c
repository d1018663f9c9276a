// graphfuzz_test.c -- two thousand random graphs with fixed seeds; GRAPH_FUZZ=N and GRAPH_FUZZ_SEED=S for more.
//
// A failing graph is reduced and written as a text file that is a test of its own: put into tests/graphfuzz/cases, it is
// checked from then on (GRAPH_FUZZ_OUT names the folder, build/graphfuzz when not set).
#include "graphfuzz/graphfuzz.h"
#include "test.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

static void save_case(uint64_t seed, const char *said, const FuzzWay *way) {
  static Diag d;
  Arena a;
  arena_init(&a);
  StrBuf text;
  int64_t nodes = 0;
  strbuf_init(&text, &a);
  diag_init(&d);
  Graph *g = fuzz_graph(seed, &d);
  if (g) fuzz_reduce(g, way, &text, &nodes);
  graph_free(g);
  const char *dir = getenv("GRAPH_FUZZ_OUT");
  if (!dir) dir = TENON_SOURCE_DIR "/build/graphfuzz";
  mkdir(dir, 0777);
  const char *path = str_printf(&a, "%s/seed%llu.tir", dir, (unsigned long long)seed);
  if (file_write(path, text.p, text.n, &d)) path = "(not written)";
  FAIL("seed %llu: %s\n  reduced to %lld nodes in %s:\n%s", (unsigned long long)seed, said,
       (long long)nodes, path, strbuf_text(&text));
  arena_deinit(&a);
}

static void report(const FuzzStats *st, const char *first_invalid) {
  int64_t rare = 0, ops = 0;
  for (int i = 0; i < OP_COUNT; i++) {
    if (i <= OP_foreign) continue;  // no op of a model, but what graphs are made of
    ops++;
    rare += st->used[i] < 20;
    printf("%s%s%s %lld", ops > 1 ? ", " : "  ", st->used[i] < 20 ? "*" : "", op_table[i]->name,
           (long long)st->used[i]);
  }
  printf("\n  dtypes:");
  for (int i = 1; i <= DT_I2; i++) printf(" %s %lld", dtype_name((DType)i), (long long)st->dtype[i]);
  printf("\n  ranks:");
  for (int i = 0; i < 8; i++) printf(" %d: %lld", i, (long long)st->rank[i]);
  printf("\n  with tensors of no elements %lld, with bodies %lld, with symbols %lld\n",
         (long long)st->empty, (long long)st->bodies, (long long)st->symbolic);
  printf("  %lld runs compared bit for bit, %lld within a bound, %lld without one\n",
         (long long)st->exact, (long long)st->bounded, (long long)st->unbounded);
  printf("%lld graphs, %lld invalid, %lld of %lld ops in fewer than 20\n", (long long)st->graphs,
         (long long)st->invalid, (long long)rare, (long long)ops);
  if (st->invalid) printf("  the first invalid one: %s\n", first_invalid);
}

TEST(graph_fuzz) {
  const char *count = getenv("GRAPH_FUZZ"), *from = getenv("GRAPH_FUZZ_SEED");
  const char *most = getenv("GRAPH_FUZZ_FAILURES");
  int64_t n = count ? atoll(count) : 2000, first = from ? atoll(from) : 1, failed = 0;
  static FuzzStats st;
  static Diag d, invalid;
  for (int64_t i = 0; i < n && failed < (most ? atoll(most) : 5); i++) {
    uint64_t seed = (uint64_t)(first + i);
    FuzzWay way = {.seed = seed};
    int64_t before = st.invalid;
    diag_init(&d);
    if (!fuzz_check(seed, &way, &st, &d)) {
      save_case(seed, d.text, &way);
      failed++;
    }
    if (st.invalid > before && (before == 0 || getenv("GRAPH_FUZZ_INVALID"))) {
      invalid = d;
      if (before) printf("  invalid %llu: %s\n", (unsigned long long)seed, d.text);
    }
  }
  EXPECT(st.invalid * 100 <= st.graphs);
  if (count) report(&st, invalid.text);
  for (int i = OP_foreign + 1; n >= 20000 && i < OP_COUNT; i++)
    if (st.used[i] < 20) FAIL("%s is in %lld graphs", op_table[i]->name, (long long)st.used[i]);
}
