// graphfuzz_test.c -- two thousand random graphs with fixed seeds; GRAPH_FUZZ=N and GRAPH_FUZZ_SEED=S for more.
#include "graphfuzz/graphfuzz.h"
#include "test.h"

#include <stdlib.h>

TEST(graph_fuzz) {
  const char *count = getenv("GRAPH_FUZZ"), *from = getenv("GRAPH_FUZZ_SEED");
  int64_t n = count ? atoll(count) : 2000, first = from ? atoll(from) : 1, failed = 0;
  static FuzzStats st;
  static Diag d;
  for (int64_t seed = first; seed < first + n && failed < 5; seed++) {
    diag_init(&d);
    if (fuzz_check((uint64_t)seed, &st, &d)) continue;
    Arena a;
    arena_init(&a);
    StrBuf text;
    strbuf_init(&text, &a);
    FAIL("seed %lld: %s", (long long)seed, d.text);
    fuzz_reduce((uint64_t)seed, &text);
    fprintf(stderr, "%s\n", strbuf_text(&text));
    arena_deinit(&a);
    failed++;
  }
  EXPECT(st.invalid * 100 <= st.graphs);
  EXPECT(failed || st.turned * 4 >= st.graphs);  // channels last where that can be
  if (count) {
    int64_t rare = 0, usable = 0;
    for (int i = 0; i < OP_COUNT; i++) {
      bool drawn = op_table[i]->samples && !(op_table[i]->flags & (OPF_RANDOM | OPF_CONTROL));
      usable += drawn;
      rare += drawn && st.used[i] < 20;
      if (drawn && st.used[i] < 20)
        printf("  %s is in %lld graphs\n", op_table[i]->name, (long long)st.used[i]);
    }
    printf("%lld graphs, %lld invalid, %lld refused at run time, %lld compared loosely, %lld "
           "nodes channels last, %lld of %lld ops in fewer than 20\n",
           (long long)st.graphs, (long long)st.invalid, (long long)st.refused, (long long)st.loose,
           (long long)st.turned, (long long)rare, (long long)usable);
  }
}
