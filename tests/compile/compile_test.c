// compile_test.c -- the compile driver: its stages, what each leaves behind, and what reaches
// passes and targets on the way.
#include "compile/compile.h"

#include "test.h"

static const char product[] =
    "graph @\"g\"(%x: f32[8, 16]) {\n"
    "  %w = const f32[16, 1] {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 2}\n"
    "  %p = mat_mul(%x, %w)\n  %y = relu(%p)\n  return y = %y\n}\n";

typedef struct Driven {
  Arena arena;
  Diag diag;
  Graph *g;
  CompileOptions o;
  CompileReport r;
} Driven;

static void drive_init(Driven *t, const char *target) {
  memset(t, 0, sizeof *t);
  arena_init(&t->arena);
  diag_init(&t->diag);
  compile_defaults(&t->o);
  if (target) t->o.target = target_find(target);
}

static void drive(Driven *t, CompileStage until) {
  if (compile_graph(t->g, &t->o, until, &t->arena, &t->diag, &t->r)) FAIL("%s", t->diag.text);
  EXPECT_INT_EQ(t->r.done, until);
}

static void drive_free(Driven *t) {
  program_release(t->r.program);
  graph_free(t->g);
  arena_deinit(&t->arena);
}

static int64_t count_kernels(const Graph *g, Arena *a) {
  NodeList all = body_order((Graph *)(uintptr_t)g, g->main, a);
  int64_t n = 0;
  for (int64_t i = 0; i < all.n; i++) n += all.v[i]->op == OP_fused;
  return n;
}

TEST(compile_stops_and_goes_on) {
  Driven t;
  drive_init(&t, "ref");
  REQUIRE(!graph_parse(str_of(product), NULL, &t.diag, &t.g));
  drive(&t, COMPILE_NOTHING);
  EXPECT_INT_EQ(count_kernels(t.g, &t.arena), 0);
  drive(&t, COMPILE_OPTIMISE);
  EXPECT_INT_EQ(count_kernels(t.g, &t.arena), 1);
  EXPECT(!t.r.plan && t.r.opt.npasses > 10);
  drive(&t, COMPILE_PLAN);
  EXPECT(t.r.plan && !t.r.program);
  drive(&t, COMPILE_LOWER);
  EXPECT_INT_EQ(t.r.compiled.nkernels, 1);
  EXPECT(t.r.program && !t.r.program->invoke);  // loops, and nothing that runs them
  drive(&t, COMPILE_BUILD);
  EXPECT(t.r.program && t.r.program->invoke);
  EXPECT_INT_EQ(t.r.target.nkernels, 1);
  drive(&t, COMPILE_BUILD);  // all is done
  drive_free(&t);
}

// A graph as it is, and a plan that the caller has.
TEST(compile_begins_later) {
  Driven t;
  drive_init(&t, "host");
  REQUIRE(!graph_parse(str_of(product), NULL, &t.diag, &t.g));
  t.r.done = COMPILE_OPTIMISE;
  drive(&t, COMPILE_PLAN);
  EXPECT_INT_EQ(count_kernels(t.g, &t.arena), 0);
  CompileReport again = {.done = COMPILE_PLAN, .plan = t.r.plan};
  EXPECT_STATUS(compile_graph(t.g, &t.o, COMPILE_BUILD, &t.arena, &t.diag, &again), TENON_OK);
  EXPECT_INT_EQ(again.compiled.nkernels, 0);
  program_release(again.program);
  drive_free(&t);
}

TEST(compile_refuses_options_first) {
  Driven t;
  drive_init(&t, "ref");
  REQUIRE(!graph_parse(str_of(product), NULL, &t.diag, &t.g));
  t.o.exact = t.o.fast = true;
  EXPECT_STATUS(compile_graph(t.g, &t.o, COMPILE_BUILD, &t.arena, &t.diag, &t.r), TENON_EINVAL);
  EXPECT_INT_EQ(t.r.done, COMPILE_NOTHING);
  t.o.fast = false;
  t.o.device = "0";  // of a target that has none: refused when it is compiled for
  EXPECT_STATUS(compile_graph(t.g, &t.o, COMPILE_BUILD, &t.arena, &t.diag, &t.r), TENON_EINVAL);
  EXPECT_INT_EQ(t.r.done, COMPILE_PLAN);
  EXPECT(!t.r.program);
  drive_free(&t);
}

TEST(compile_records_options_in_the_program) {
  Driven t;
  drive_init(&t, "ref");
  REQUIRE(!graph_parse(str_of(product), NULL, &t.diag, &t.g));
  t.o.level = 2;
  t.o.no_cache = true;  // changes nothing about the program
  t.o.batch_invariant = true;
  drive(&t, COMPILE_BUILD);
  REQUIRE(t.r.program->noptions == 2);
  EXPECT_STR_EQ(t.r.program->option[0], "batch_invariant=1");
  EXPECT_STR_EQ(t.r.program->option[1], "level=2");
  drive_free(&t);
}

// ---- the target's advice ----

// A GEMM may store over the term that it adds where all kernels are the GPU's.  A CPU kernel may
// store a sum before it reads what is added to it, so that of two machines no plan may say so.
static bool stores_over_term(const char *target) {
  static const char text[] =
      "graph @\"g\"(%x: f32[128, 256], %u: f32[256, 256], %w: f32[256, 256], "
      "%v: f32[256, 256]) {\n"
      "  %r = softmax(%x)\n  %a = mat_mul(%x, %w)\n  %q = add(%a, %r)\n"
      "  %z = mat_mul(%q, %v)\n  return z = %z\n}\n";
  Driven t;
  bool over = false;
  drive_init(&t, target);
  t.o.device = "sm_90a";
  if (graph_parse(str_of(text), NULL, &t.diag, &t.g)) FAIL("%s", t.diag.text);
  drive(&t, COMPILE_PLAN);
  over = t.r.plan && t.r.plan->ninplace > 0;
  drive_free(&t);
  return over;
}

TEST(compile_tells_passes_that_two_machines_share_a_graph) {
  EXPECT(stores_over_term("cuda"));
  EXPECT(!stores_over_term("cpu,cuda"));
}
