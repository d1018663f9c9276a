// kernel_names_test.c -- kernels have the names of the model's nodes, whatever rewrote these, and
// are found by them.
#include "compiled.h"
#include "lower/lower.h"
#include "test.h"

// gemm becomes mat_mul and add, the division a multiplication; all end in three kernels.
#define NETWORK(hidden, logits)                                                                    \
  "graph @\"g\"(%x: f32[9, 8], %w: f32[8, 12], %b: f32[12], %v: f32[12, 7]) {\n"                   \
  "  %d = const f32[] {4}\n  %scale = div(%x, %d)\n  " hidden " = gemm(%scale, %w, %b)\n"          \
  "  %act = relu(" hidden ")\n  " logits " = gemm(%act, %v)\n"                                     \
  "  %prob = softmax(" logits ") axis=1\n  return %prob\n}\n"

typedef struct Made {
  Arena arena;
  Diag diag;
  Graph *g;
  CompileReport report;
  tenon_status status;
} Made;

static void make(Made *m, const char *text, int64_t n, const char *const *schedule) {
  arena_init(&m->arena);
  diag_init(&m->diag);
  CompileOptions o;
  compile_defaults(&o);
  o.target = target_find("ref");
  o.schedule = (TextList){.n = n, .v = schedule};
  m->status = compile_parsed(text, &o, COMPILE_LOWER, &m->arena, &m->diag, &m->g, &m->report);
}
static void end(Made *m) {
  program_release(m->report.program);
  graph_free(m->g);
  arena_deinit(&m->arena);
}
static const char *labels(Made *m) {
  StrBuf b;
  strbuf_init(&b, &m->arena);
  for (int64_t i = 0; i < m->report.compiled.nuses; i++)
    strbuf_printf(&b, "%s ", m->report.compiled.use[i].label);
  return strbuf_text(&b);
}
// The kernels whose schedule has the text, by label.
static const char *with(Made *m, const char *field) {
  StrBuf b;
  strbuf_init(&b, &m->arena);
  for (int64_t i = 0; i < m->report.compiled.nuses; i++) {
    const KernelUse *u = &m->report.compiled.use[i];
    if (strstr(m->report.compiled.kernel[u->kernel].lowered->kernel->schedule, field))
      strbuf_printf(&b, "%s ", u->label);
  }
  return strbuf_text(&b);
}

TEST(kernels_are_named_after_the_models_nodes) {
  static const struct {
    const char *text, *labels;
  } row[] = {
      {NETWORK("%hidden", "%logits"), "hidden logits prob "},
      {NETWORK("%0", "%1"),
       "act mat_mul prob "},  // a member's name, and the op's where none has one
      {"graph @\"g\"(%x: f32[4, 5], %w: f32[5, 5]) {\n  %y = mat_mul(%x, %w)\n"
       "  %z = mat_mul(%y, %w) @\"y\"\n  return %z\n}\n",
       "y y#2 "},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Made m;
    make(&m, row[i].text, 0, NULL);
    EXPECT_STATUS(m.status, TENON_OK);
    EXPECT_STR_EQ(labels(&m), row[i].labels);
    end(&m);
  }
}

TEST(kernels_are_found_by_any_of_their_nodes) {
  static const struct {
    const char *schedule[2], *found;  // kernels with rows=3
  } row[] = {
      {{"hidden=gemm rows=3"}, "hidden "},
      {{"act=gemm rows=3"}, "hidden "},  // in the epilogue
      {{"scale=gemm rows=3"}, "hidden "},
      {{"logits=gemm rows=3", "*i*=gemm rows=5"}, ""},       // the last that fits
      {{"hid*=gemm rows=3", "act=gemm rows=5"}, "hidden "},  // a label before a node
      {{"act=gemm rows=3", "h?dden=gemm rows=5"}, ""},
      {{"logits=gemm rows=3"}, "logits "},
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Made m;
    int64_t n = row[i].schedule[1] ? 2 : 1;
    make(&m, NETWORK("%hidden", "%logits"), n, row[i].schedule);
    if (m.status)
      FAIL("%s: %s", row[i].schedule[0], m.diag.text);
    else
      EXPECT_STR_EQ(with(&m, " rows=3 "), row[i].found);
    end(&m);
  }
}

TEST(schedules_of_no_kernel_name_the_nearest) {
  static const char *const schedule[] = {"hiden=gemm rows=3"};
  Made m;
  make(&m, NETWORK("%hidden", "%logits"), 1, schedule);
  EXPECT_STATUS(m.status, TENON_EINVAL);
  EXPECT(strstr(m.diag.text, "no kernel is 'hiden'; the nearest is 'hidden'"));
  end(&m);
}

// A name that two nodes have is the label of the first kernel alone.
TEST(a_label_means_one_kernel) {
  static const char text[] =
      "graph @\"g\"(%x: f32[4, 5], %w: f32[5, 5]) {\n  %y = mat_mul(%x, %w)\n"
      "  %z = mat_mul(%y, %w) @\"y\"\n  return %z\n}\n";
  static const struct {
    const char *schedule, *found;
  } row[] = {{"y=gemm rows=3", "y "}, {"y#2=gemm rows=3", "y#2 "}, {"y*=gemm rows=3", "y y#2 "}};
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Made m;
    make(&m, text, 1, &row[i].schedule);
    EXPECT_STATUS(m.status, TENON_OK);
    EXPECT_STR_EQ(with(&m, " rows=3 "), row[i].found);
    end(&m);
  }
}
