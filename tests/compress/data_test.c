// data_test.c -- samples: what is refused, what counts once, and the split.
#include "compress/data.h"

#include "test.h"

#include <math.h>

enum { N = 100, LEN = 6 };
static const char model[] = "graph @\"g\"(%x: f32[batch, 6], %k: i64[batch]) {\n  %y = relu(%x)\n  "
                            "return y = %y, k = %k\n}\n";

typedef struct Samples {
  Arena arena;
  Diag diag;
  Graph *g;
  float x[N * LEN];
  int64_t k[N];
  NdArray v[2];
  Dataset set;
} Samples;

static void begin(Samples *s) {
  memset(s, 0, sizeof *s);
  arena_init(&s->arena);
  diag_init(&s->diag);
  if (graph_parse(str_of(model), NULL, &s->diag, &s->g)) FAIL("%s", s->diag.text);
  for (int i = 0; i < N * LEN; i++) s->x[i] = (float)(hash_u64((uint64_t)i) % 1000) / 8;
  for (int i = 0; i < N; i++) s->k[i] = i;
  s->v[0] = (NdArray){.name = STR("x"),
                      .dtype = DT_F32,
                      .rank = 2,
                      .dims = {N, LEN},
                      .data = s->x,
                      .n = N * LEN,
                      .bytes = sizeof s->x};
  s->v[1] = (NdArray){.name = STR("k"),
                      .dtype = DT_I64,
                      .rank = 1,
                      .dims = {N},
                      .data = s->k,
                      .n = N,
                      .bytes = sizeof s->k};
}

static tenon_status take(Samples *s, const char *labels, uint64_t seed) {
  NdArrayList l = {s->v, 2};
  diag_init(&s->diag);
  return dataset_of_arrays(s->g, &l, labels, seed, &s->arena, &s->diag, &s->set);
}

static void end(Samples *s) {
  graph_free(s->g);
  arena_deinit(&s->arena);
}

TEST(data_split_follows_from_hashes) {
  Samples s;
  begin(&s);
  EXPECT_STATUS(take(&s, NULL, 0), TENON_OK);
  EXPECT_INT_EQ(s.set.of[PART_CALIBRATE], 40);
  EXPECT_INT_EQ(s.set.of[PART_CERTIFY], 30);
  Hash before = dataset_hash(&s.set, PART_CERTIFY);
  // The samples the other way round.
  for (int i = 0; i < N / 2; i++) {
    for (int j = 0; j < LEN; j++) {
      float t = s.x[i * LEN + j];
      s.x[i * LEN + j] = s.x[(N - 1 - i) * LEN + j];
      s.x[(N - 1 - i) * LEN + j] = t;
    }
    int64_t t = s.k[i];
    s.k[i] = s.k[N - 1 - i], s.k[N - 1 - i] = t;
  }
  EXPECT_STATUS(take(&s, NULL, 0), TENON_OK);
  Hash after = dataset_hash(&s.set, PART_CERTIFY);
  EXPECT(!memcmp(&before, &after, sizeof before));
  EXPECT_STATUS(take(&s, NULL, 1), TENON_OK);
  after = dataset_hash(&s.set, PART_CERTIFY);
  EXPECT(memcmp(&before, &after, sizeof before));
  end(&s);
}

TEST(data_duplicates_count_once) {
  Samples s;
  begin(&s);
  memcpy(s.x + LEN, s.x, LEN * sizeof *s.x);
  s.k[1] = s.k[0];
  EXPECT_STATUS(take(&s, NULL, 0), TENON_OK);
  EXPECT_INT_EQ(s.set.sample.n, N - 1);
  EXPECT_INT_EQ(s.set.duplicates, 1);
  end(&s);
}

TEST(data_values_are_rows) {
  Samples s;
  Run run;
  Value *in[2];
  begin(&s);
  EXPECT_STATUS(take(&s, NULL, 0), TENON_OK);
  run_init(&run, NULL, &s.diag);
  EXPECT_STATUS(dataset_values(&s.set, 5, &run, in), TENON_OK);
  EXPECT_INT_EQ(in[0]->rank, 2);
  EXPECT_INT_EQ(in[0]->dims[0], 1);
  EXPECT_INT_EQ(in[1]->rank, 1);
  int64_t row = s.set.sample.v[5].row;
  EXPECT(val_f64(in[0], 0) == (double)s.x[row * LEN] && val_i64(in[1], 0) == s.k[row]);
  run_deinit(&run);
  end(&s);
}

TEST(data_refused) {
  Samples s;
  begin(&s);
  s.x[3 * LEN + 2] = NAN;
  EXPECT_STATUS(take(&s, NULL, 0), TENON_EINVAL);
  EXPECT_CONTAINS(s.diag.text, "sample 3 has NaN at element 2");
  s.x[3 * LEN + 2] = 0;
  s.v[0].dtype = DT_F64;
  EXPECT_STATUS(take(&s, NULL, 0), TENON_EINVAL);
  EXPECT_CONTAINS(s.diag.text, "has type f64, the model takes f32");
  s.v[0].dtype = DT_F32;
  s.v[0].dims[0] = N * LEN / 5, s.v[0].dims[1] = 5;
  EXPECT_STATUS(take(&s, NULL, 0), TENON_EINVAL);
  EXPECT_CONTAINS(s.diag.text, "[120, 5]");
  EXPECT_CONTAINS(s.diag.text, "f32[batch, 6]");
  s.v[0].dims[0] = N, s.v[0].dims[1] = LEN;
  s.v[0].name = STR("xx");
  EXPECT_STATUS(take(&s, NULL, 0), TENON_EINVAL);
  EXPECT_CONTAINS(s.diag.text, "'xx', which is no input");
  s.v[0].name = STR("x");
  EXPECT_STATUS(take(&s, "label", 0), TENON_EINVAL);
  EXPECT_CONTAINS(s.diag.text, "no array 'label'");
  s.v[1].dims[0] = N - 1, s.v[1].n = N - 1;
  EXPECT_STATUS(take(&s, NULL, 0), TENON_EINVAL);
  EXPECT_CONTAINS(s.diag.text, "99 samples, another array has 100");
  end(&s);
}
