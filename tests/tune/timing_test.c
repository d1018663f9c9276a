// timing_test.c -- what a worker does with a task: times and hashes of kernels that fit, and a
// reason for each that does not.
#include "support/codegen.h"
#include "test.h"
#include "tune/timing.h"

typedef struct Task {
  FrameTask t;
  FrameTensor tensor[2];
  FrameKernel kernel[3];
  FrameArg arg[3];
} Task;

// A kernel, itself again, and one with another text.
static void make(Task *x, const char *text, const char *last) {
  *x = (Task){.tensor = {{.dtype = DT_F32, .n = 24}, {.dtype = DT_F32, .n = 6, .weight = true}},
              .arg = {{.index = 0}, {.result = true}, {.index = 1}}};
  for (int i = 0; i < 3; i++)
    x->kernel[i] = (FrameKernel){.text = str_of(i == 2 ? last : text), .nargs = 2, .arg = x->arg};
  x->t = (FrameTask){.rounds = 3,
                     .milliseconds = 50,
                     .cold_bytes = 1 << 16,
                     .tensor = x->tensor,
                     .kernel = x->kernel,
                     .ntensors = 2,
                     .nkernels = 3};
}

static FrameTimes run(const Task *x, Arena *a) {
  FrameTimes times = {0};
  Machine m;
  static Diag d;
  diag_init(&d);
  machine_host(&m);
  EXPECT_STATUS(timing_run(&x->t, &m, 1, a, &d, &times), TENON_OK);
  return times;
}

// y = 3 * x
static const char *printed(Arena *a) {
  static Diag d;
  IntPool pool;
  LoopKernel *k;
  StrBuf b;
  diag_init(&d);
  intpool_init(&pool, a);
  strbuf_init(&b, a);
  k = loop_kernel(a, &pool, "k");
  int32_t x = loop_buffer(k, LOOP_ARG, "x", DT_F32, ie_const(&pool, 24), false);
  int32_t y = loop_buffer(k, LOOP_ARG, "y", DT_F32, ie_const(&pool, 24), true);
  LoopBuilder lb;
  loop_begin(&lb, k);
  Dim p = loop_for(&lb, LOOP_PARALLEL, "p", ie_const(&pool, 24));
  loop_store(&lb, y, p, loop_op(k, LOOP_mul, loop_load(k, x, p), loop_float(k, DT_F32, 3), NULL));
  loop_end(&lb);
  loop_finish(&lb);
  loop_print(k, &b);
  return strbuf_text(&b);
}

TEST(timing_runs_what_is_proven) {
  if (!codegen_there()) SKIP("no tenon-codegen");
  Arena a;
  Task x;
  arena_init(&a);
  const char *text = printed(&a);
  make(&x, text, text);
  FrameTimes t = run(&x, &a);
  REQUIRE(t.n == 3);
  for (int i = 0; i < 3; i++) {
    EXPECT(t.time[i].status == TRIAL_OK && t.time[i].n >= 2 && t.time[i].code_bytes > 0);
    EXPECT_STR_EQ(t.time[i].hash, t.time[0].hash);
  }
  FrameTimes again = run(&x, &a);
  EXPECT_STR_EQ(again.time[0].hash, t.time[0].hash);
  arena_deinit(&a);
}

static void refuses(Task *x, Arena *a, const char *why) {
  FrameTimes t = run(x, a);
  EXPECT_INT_EQ(t.time[2].status, TRIAL_FAILED);
  EXPECT_CONTAINS(t.time[2].why, why);
  EXPECT(!t.time[2].n);
}

TEST(timing_refuses_what_does_not_fit) {
  if (!codegen_there()) SKIP("no tenon-codegen");
  Arena a;
  Task x;
  arena_init(&a);
  const char *text = printed(&a);
  make(&x, text, "no kernel at all");
  refuses(&x, &a, "no kernel");
  const char *at = strstr(text, "24");  // the size of the first argument: the load is outside
  REQUIRE(at);
  make(&x, text, str_printf(&a, "%.*s23%s", (int)(at - text), text, at + 2));
  refuses(&x, &a, "verifier");
  make(&x, text, text);
  x.kernel[2].nargs = 1;
  refuses(&x, &a, "number of arguments");
  make(&x, text, text);
  x.kernel[2].ndims = 1;
  x.kernel[2].dim = (int64_t[]){1};
  refuses(&x, &a, "number of sizes");
  make(&x, text, text);
  x.kernel[2].arg = (FrameArg[]){{.index = 1}, {.result = true}};
  refuses(&x, &a, "another size");
  make(&x, text, text);
  x.kernel[2].arg = (FrameArg[]){{.result = true}, {.result = true}};
  refuses(&x, &a, "a result where it reads");
  make(&x, text, text);
  x.kernel[2].arg = (FrameArg[]){{.index = 0}, {.index = 0}};
  refuses(&x, &a, "a result where it reads");
  arena_deinit(&a);
}

// A weight of 2 x 3, packed into 2 x 12 with zeros behind.
TEST(timing_packs_constants) {
  if (!codegen_there()) SKIP("no tenon-codegen");
  Arena a;
  Task x;
  arena_init(&a);
  const char *text = printed(&a);
  make(&x, text, text);
  FrameArg packed = {.index = 1,
                     .packed = true,
                     .pack = {.nloops = 2,
                              .ncoords = 2,
                              .extent = {2, 12},
                              .coef = {{1, 0}, {0, 1}},
                              .limit = {2, 3},
                              .stride = {3, 1}}};
  x.kernel[2].arg = (FrameArg[]){packed, {.result = true}};
  FrameTimes t = run(&x, &a);
  EXPECT_INT_EQ(t.time[2].status, TRIAL_OK);
  EXPECT(strcmp(t.time[2].hash, t.time[0].hash) != 0);
  arena_deinit(&a);
}
