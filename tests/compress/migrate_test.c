// migrate_test.c -- scale that moves between tensors and weights: what takes the inverse, that the
// floats keep their bits, and what is left alone.
#include "compress/migrate.h"
#include "ir/interpret.h"

#include "test.h"

#include <math.h>
#include <stdlib.h>

typedef struct Moved {
  Arena arena;
  Diag diag;
  Graph *g;
  GroupList groups;
  StatsList stats;
  MigrateTask task;
  MigratePlan plan;
} Moved;

// Every other of eight parts of the channels is wide.
static bool is_wide(int64_t c, int64_t channels) {
  return (channels < 8 ? c : c * 8 / channels) % 2;
}

// "f32[2, 3] draw" with six numbers around 0; "thin": rows of wide channels are small.
static Str unfold(const char *text, Arena *a) {
  StrBuf b;
  uint64_t r = 1;
  strbuf_init(&b, a);
  for (const char *at; (at = strstr(text, " draw")); text = at + 5) {
    const char *dims = at;
    long n = 1, rows = 0;
    bool thin = str_starts(str_of(at), " draw thin");
    char *end;
    while (*dims != '[') dims--;
    for (end = (char *)(uintptr_t)dims; *end != ']';) {
      long d = strtol(end + 1, &end, 10);
      n *= d;
      rows = rows ? rows : d;
    }
    strbuf_put(&b, (Str){text, at - text});
    for (long i = 0; i < n; i++) {
      r = hash_u64(r + 1);
      double v = (double)(r >> 40) * 0x1p-24 - 0.5;
      if (thin && is_wide(i * rows / n, rows)) v /= 256;
      strbuf_printf(&b, "%s%g", i ? ", " : " {", v);
    }
    strbuf_puts(&b, "}");
    if (thin) at += 5;
  }
  strbuf_puts(&b, text);
  return strbuf_str(&b);
}

// Wide channels are `wide` times as wide as the others.
static void make_stats(Moved *m, double wide) {
  static const float x[] = {-1, -0.5F, 0.25F, 1};
  tensors_observe(m->g, &m->groups, &m->arena, &m->stats);
  for (int64_t i = 0; i < m->stats.n; i++) {
    TensorStats *s = &m->stats.v[i];
    s->histogram = arena_new(&m->arena, Histogram);
    histogram_init(s->histogram);
    EXPECT(histogram_add(s->histogram, x, ARRAY_LEN(x)));
    if (s->axis < 0) continue;
    s->channels = type_of(s->node)->dims[s->axis]->value;
    s->channel_max = arena_array(&m->arena, double, s->channels);
    s->channel_mean = arena_array(&m->arena, double, s->channels);
    s->channel_square = arena_array(&m->arena, double, s->channels);
    for (int64_t c = 0; c < s->channels; c++) {
      s->channel_max[c] = is_wide(c, s->channels) ? wide : 1;
      s->channel_square[c] = s->channel_max[c] * s->channel_max[c] / 3;
    }
  }
}

static void begin(Moved *m, const char *text, Choice c, Migration how, double wide) {
  memset(m, 0, sizeof *m);
  arena_init(&m->arena);
  diag_init(&m->diag);
  if (graph_parse(unfold(text, &m->arena), NULL, &m->diag, &m->g)) FAIL("%s", m->diag.text);
  groups_find(m->g, NULL, 0, &m->arena, &m->groups);
  make_stats(m, wide);
  m->task = (MigrateTask){m->g, &m->groups, &m->stats, c, 32, how};
  EXPECT_STATUS(migrate_find(&m->task, &m->arena, &m->diag, &m->plan), TENON_OK);
}

static void end(Moved *m) {
  graph_free(m->g);
  arena_deinit(&m->arena);
}

static Value *random_value(Run *run, const Type *t) {
  int64_t dims[MAX_RANK];
  Value *v = NULL;
  uint64_t r = 3;
  for (int k = 0; k < t->rank; k++) dims[k] = t->dims[k]->value;
  EXPECT_STATUS(value_tensor(run, NOWHERE, t->dtype, t->rank, dims, &v), TENON_OK);
  for (int64_t i = 0; v && i < v->n; i++) {
    r = hash_u64(r + 1);
    val_put_f64(v, i, (double)(r >> 40) * 0x1p-22 - 2);
  }
  return v;
}

static Value *run_graph(Moved *m, Run *run, Interp **in) {
  Value *input[4] = {NULL}, *out[4] = {NULL};
  run_init(run, NULL, &m->diag);
  for (int64_t i = 0; i < m->g->main->nparams; i++)
    input[i] = random_value(run, type_of(m->g->main->param[i]));
  EXPECT_STATUS(interp_create(m->g, NULL, &m->diag, in), TENON_OK);
  EXPECT_STATUS(interp_run(*in, run, input, out), TENON_OK);
  return out[0];
}

// Scale moves, the groups keep their names, and results keep their bits.
static void expect_same(Moved *m) {
  Run run[2];
  Interp *in[2];
  const Node **made;
  Value *before = run_graph(m, &run[0], &in[0]);
  Body *old = m->g->main;
  EXPECT_STATUS(migrate_apply(&m->task, &m->plan, &m->arena, &m->diag, &made), TENON_OK);
  EXPECT(m->g->main != old);
  EXPECT_STATUS(graph_verify(m->g, &m->diag), TENON_OK);
  for (int64_t i = 0; i < m->groups.n; i++) {
    EXPECT_STR_EQ(made[i]->name, m->groups.v[i].name);
    if (m->plan.of[i] != MIGRATION_NONE) EXPECT(made[i] != m->groups.v[i].node);
  }
  Value *after = run_graph(m, &run[1], &in[1]);
  REQUIRE(before && after);
  EXPECT_INT_EQ(before->n, after->n);
  const float *x = before->data, *y = after->data;
  int64_t differ = 0, zeros = 0;
  for (int64_t i = 0; i < before->n; i++) differ += x[i] != y[i], zeros += x[i] == 0;
  EXPECT_INT_EQ(differ, 0);
  EXPECT(zeros < before->n);
  for (int k = 0; k < 2; k++) {
    run_deinit(&run[k]);
    interp_free(in[k]);
  }
}

typedef struct Case {
  const char *what, *text, *by;  // by: NULL: a product
  Migration kind;
  int64_t factors;
} Case;
#define PARAM "graph @\"g\"(%x: "
static const Case cases[] = {
    {"gemm, relu, gemm",
     PARAM "f32[3, 5]) {\n  %w = const f32[5, 8] draw\n  %b = const f32[8] draw\n"
           "  %p = gemm(%x, %w, %b)\n  %r = relu(%p)\n  %v = const f32[8, 4] draw thin\n"
           "  %c = mat_mul(%r, %v)\n  return c = %c\n}\n",
     "p", MIGRATION_EQUALISE, 8},
    {"mat_mul, sum, leaky_relu, transposed weights",
     PARAM "f32[3, 5]) {\n  %w = const f32[5, 8] draw\n  %b = const f32[1] draw\n"
           "  %p = mat_mul(%x, %w)\n  %s = add(%b, %p)\n  %r = leaky_relu(%s) alpha=0.1\n"
           "  %v = const f32[4, 8] draw\n"
           "  %c = gemm(%r, %v) transB=true\n  return c = %c\n}\n",
     "p", MIGRATION_EQUALISE, 8},
    {"conv, max_pool, a convolution by groups",
     PARAM "f32[1, 2, 6, 6]) {\n  %w = const f32[8, 2, 3, 3] draw\n  %b = const f32[8] draw\n"
           "  %p = conv(%x, %w, %b) pads=[1, 1, 1, 1]\n  %r = relu(%p)\n"
           "  %m = max_pool(%r) kernel_shape=[2, 2] strides=[2, 2]\n"
           "  %v = const f32[16, 4, 3, 3] draw\n"
           "  %c = conv(%m, %v) group=2 pads=[1, 1, 1, 1]\n  return c = %c\n}\n",
     "p", MIGRATION_EQUALISE, 8},
    {"a depthwise convolution after a pointwise one",
     PARAM "f32[1, 2, 6, 6]) {\n  %w = const f32[8, 2, 1, 1] draw\n"
           "  %p = conv(%x, %w)\n  %v = const f32[8, 1, 3, 3] draw\n"
           "  %c = conv(%p, %v) group=8\n  return c = %c\n}\n",
     "p", MIGRATION_EQUALISE, 8},
    {"flattened pictures: a factor for each channel of the convolution",
     PARAM "f32[2, 2, 4, 4]) {\n  %w = const f32[8, 2, 1, 1] draw\n"
           "  %p = conv(%x, %w)\n  %r = relu(%p)\n  %a = average_pool(%r) kernel_shape=[2, 2]\n"
           "  %f = flatten(%a)\n  %v = const f32[72, 4] draw thin\n"
           "  %c = mat_mul(%f, %v)\n  return c = %c\n}\n",
     "p", MIGRATION_EQUALISE, 8},
    {"channels last, by a transpose",
     PARAM "f32[2, 2, 4, 4]) {\n  %w = const f32[8, 2, 1, 1] draw\n"
           "  %p = conv(%x, %w)\n  %t = transpose(%p) perm=[0, 2, 3, 1]\n"
           "  %v = const f32[8, 4] draw thin\n  %c = mat_mul(%t, %v)\n  return c = %c\n}\n",
     "p", MIGRATION_EQUALISE, 8},
    {"a layer norm that two products read",
     PARAM "f32[3, 8]) {\n  %g = const f32[8] draw\n  %b = const f32[8] draw\n"
           "  %n = layer_normalization(%x, %g, %b)\n  %w = const f32[8, 4] draw thin\n"
           "  %v = const f32[4, 8] draw\n  %c = mat_mul(%n, %w)\n  %d = gemm(%n, %v) transB=true\n"
           "  %s = mul(%c, %d)\n  return s = %s\n}\n",
     "n", MIGRATION_SMOOTH, 8},
    {"an rms norm",
     PARAM "f32[3, 8]) {\n  %g = const f32[8] draw\n  %n = rms_normalization(%x, %g)\n"
           "  %w = const f32[8, 4] draw thin\n  %c = mat_mul(%n, %w)\n  return c = %c\n}\n",
     "n", MIGRATION_SMOOTH, 8},
    {"a product with a scalar, of channels that come first",
     PARAM "f32[1, 8, 4, 4]) {\n  %g = const f32[] {0.5}\n  %e = exp(%x)\n  %n = mul(%e, %g)\n"
           "  %w = const f32[4, 8, 1, 1] draw\n  %c = conv(%n, %w)\n  return c = %c\n}\n",
     "n", MIGRATION_SMOOTH, 8},
    {"a quotient",
     PARAM "f32[3, 8]) {\n  %g = const f32[8] draw\n  %n = div(%x, %g)\n"
           "  %w = const f32[8, 4] draw thin\n  %c = mat_mul(%n, %w)\n  return c = %c\n}\n",
     "n", MIGRATION_SMOOTH, 8},
    {"a gate: the product beside it",
     PARAM "f32[3, 5]) {\n  %w = const f32[5, 8] draw\n  %u = const f32[5, 8] draw\n"
           "  %a = mat_mul(%x, %w)\n  %g = sigmoid(%a)\n  %p = mat_mul(%x, %u)\n"
           "  %m = mul(%g, %p)\n  %v = const f32[8, 4] draw thin\n"
           "  %c = mat_mul(%m, %v)\n  return c = %c\n}\n",
     "p", MIGRATION_EQUALISE, 8},
    {"behind an activation that does not scale",
     PARAM "f32[3, 8]) {\n  %t = gelu(%x)\n  %w = const f32[8, 4] draw thin\n"
           "  %c = mat_mul(%t, %w)\n  return c = %c\n}\n",
     NULL, MIGRATION_SMOOTH, 8},
    {"a residual reads the tensor, too",
     PARAM "f32[3, 8]) {\n  %g = const f32[8] draw\n  %n = mul(%x, %g)\n"
           "  %w = const f32[8, 8] draw thin\n  %c = mat_mul(%n, %w)\n  %s = add(%c, %n)\n"
           "  return s = %s\n}\n",
     NULL, MIGRATION_SMOOTH, 8},
    {"the model's result is the tensor, too",
     PARAM "f32[3, 8]) {\n  %g = const f32[8] draw\n  %n = mul(%x, %g)\n"
           "  %w = const f32[8, 8] draw thin\n  %c = mat_mul(%n, %w)\n"
           "  return c = %c, n = %n\n}\n",
     NULL, MIGRATION_SMOOTH, 8},
};

#define HOLDS(cond)                                                                                \
  do {                                                                                             \
    if (!(cond)) FAIL("%s: %s", what, #cond);                                                      \
  } while (0)

// The site of the last contraction, whose tensor has the wide channels.
TEST(migrate_moves_and_keeps_bits) {
  for (int i = 0; i < ARRAY_LEN(cases); i++) {
    Moved m;
    begin(&m, cases[i].text, CHOICE_INT8, MIGRATION_AUTO, 256);
    const char *what = cases[i].what;
    HOLDS(m.plan.site.n > 0);
    if (!m.plan.site.n) continue;
    const MigrateSite *s = &m.plan.site.v[m.plan.site.n - 1];
    HOLDS(cases[i].by ? s->by && !strcmp(s->by, cases[i].by) : !s->by);
    HOLDS(s->kind == cases[i].kind);
    HOLDS(s->factors == cases[i].factors);
    HOLDS(s->after < 0.8 * s->before);
    expect_same(&m);
    end(&m);
  }
}

// Wide channels are divided by more than narrow ones; by all that they are wider where weights cost
// nothing.
TEST(migrate_factors_follow_widths) {
  Moved m;
  begin(&m, cases[3].text, CHOICE_INT8, MIGRATION_AUTO, 256);
  REQUIRE(m.plan.site.n > 0);
  const MigrateSite *s = &m.plan.site.v[m.plan.site.n - 1];
  for (int64_t k = 0; k + 1 < s->factors; k += 2) EXPECT(s->exponent[k + 1] - s->exponent[k] >= 6);
  end(&m);
}

TEST(migrate_leaves_what_is_even) {
  for (int i = 0; i < ARRAY_LEN(cases); i++) {
    Moved m;
    begin(&m, cases[i].text, CHOICE_INT8, MIGRATION_AUTO, 1);
    const char *what = cases[i].what;
    for (int64_t k = 0; k < m.plan.site.n; k++)
      HOLDS(m.plan.site.v[k].by);  // weights alone: never a product more
    end(&m);
  }
}

// Between layers alone: other tensors are counted, and nothing is put before them.
TEST(migrate_equalise_needs_a_layer_before) {
  for (int i = 0; i < ARRAY_LEN(cases); i++) {
    Moved m;
    begin(&m, cases[i].text, CHOICE_INT8, MIGRATION_EQUALISE, 256);
    const char *what = cases[i].what;
    for (int64_t k = 0; k < m.plan.site.n; k++) HOLDS(m.plan.site.v[k].kind == MIGRATION_EQUALISE);
    if (cases[i].kind != MIGRATION_EQUALISE) HOLDS(!m.plan.site.n && m.plan.refused);
    end(&m);
  }
}

// Clipping at a constant is no scaling: nothing goes through it.
TEST(migrate_stops_at_a_clip) {
  Moved m;
  begin(&m,
        PARAM "f32[3, 5]) {\n  %w = const f32[5, 8] draw\n  %p = mat_mul(%x, %w)\n"
              "  %lo = const f32[] {0}\n  %hi = const f32[] {6}\n  %r = clip(%p, %lo, %hi)\n"
              "  %v = const f32[8, 4] draw thin\n  %c = mat_mul(%r, %v)\n  return c = %c\n}\n",
        CHOICE_INT8, MIGRATION_EQUALISE, 256);
  EXPECT_INT_EQ(m.plan.site.n, 0);
  EXPECT_INT_EQ(m.plan.refused, 2);  // the model's input, and what is clipped
  end(&m);
}

// Weights in floats' arithmetic: what large activations meet gets finer steps.
TEST(migrate_awq) {
  static const Choice choices[] = {CHOICE_W8, CHOICE_W4};
  for (int i = 0; i < ARRAY_LEN(choices); i++) {
    Moved m;
    begin(&m, cases[6].text, choices[i], MIGRATION_AWQ, 256);
    REQUIRE(m.plan.site.n == 1);
    EXPECT_INT_EQ(m.plan.of[0], MIGRATION_AWQ);
    EXPECT_INT_EQ(m.plan.of[1], MIGRATION_AWQ);
    EXPECT(m.plan.site.v[0].exponent[1] > m.plan.site.v[0].exponent[0]);
    expect_same(&m);
    end(&m);
  }
}

// What would overflow stays.
TEST(migrate_leaves_huge_weights) {
  Moved m;
  begin(&m,
        PARAM
        "f32[3, 2]) {\n  %g = const f32[2] {1e30, 1}\n  %n = mul(%x, %g)\n"
        "  %w = const f32[2, 2] {1, 2, 0.004, 0.003}\n  %c = mat_mul(%n, %w)\n  return c = %c\n}\n",
        CHOICE_INT8, MIGRATION_AUTO, 256);
  EXPECT_INT_EQ(m.plan.site.n, 0);
  EXPECT_INT_EQ(m.plan.refused, 1);
  end(&m);
}

// Layers that share their weights still share them, so no factors go into these.
TEST(migrate_leaves_shared_weights) {
  for (int how = MIGRATION_AUTO; how < MIGRATIONS; how++) {
    Moved m;
    begin(&m,
          PARAM "f32[3, 8]) {\n  %w = const f32[8, 8] draw thin\n  %p = mat_mul(%x, %w)\n"
                "  %r = relu(%p)\n  %c = mat_mul(%r, %w)\n  return c = %c\n}\n",
          CHOICE_INT8, (Migration)how, 256);
    EXPECT_INT_EQ(m.plan.site.n, 0);
    EXPECT_INT_EQ(m.plan.refused, 2);
    end(&m);
  }
}

// Nothing is lost, so nothing is gained.
TEST(migrate_leaves_zero_weights) {
  Moved m;
  begin(&m,
        PARAM "f32[3, 2]) {\n  %g = const f32[2] {2, 1}\n  %n = mul(%x, %g)\n"
              "  %w = const f32[2, 2] {0, 0, 0, 0}\n  %c = mat_mul(%n, %w)\n  return c = %c\n}\n",
        CHOICE_W8, MIGRATION_AUTO, 256);
  EXPECT_INT_EQ(m.plan.site.n, 0);
  EXPECT_INT_EQ(m.plan.even, 1);
  end(&m);
}

TEST(migrate_rows) {
  for (int i = 0; i < MIGRATIONS; i++)
    EXPECT_INT_EQ(migration_find(str_of(migration_row[i].name)), i);
  EXPECT_INT_EQ(migration_find(STR("equalize")), -1);
}
