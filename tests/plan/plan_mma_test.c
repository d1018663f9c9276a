// plan_mma_test.c -- what programs for tensor cores keep: sums over a term that is added to them,
// and what repeats once.
#include "compiled.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++)
    ((float *)v->data)[i] = (float)((i * 7919) % 1013) / 997 - 0.5f;
}

static double largest_error(const BothWays *b) {
  double error = 0;
  for (int64_t i = 0; b->got[0] && i < b->got[0]->n; i++)
    error = fmax(error, fabs(val_f64(b->want[0], i) - val_f64(b->got[0], i)));
  return error;
}

// Kernels whose result lies in the arena where one of their operands does; those for few and for
// many rows are one.
static int over_operands(const Program *p) {
  const ProgFunction *f = p->function[0];
  int n = 0;
  for (int32_t i = 0; i < f->nsteps; i++) {
    const ProgStep *st = &f->step[i];
    if (st->kind != STEP_KERNEL ||
        (i && f->step[i - 1].kind == STEP_KERNEL && f->step[i - 1].out[0] == st->out[0]))
      continue;
    const ProgValue *to = &f->value[st->out[0]];
    for (int32_t k = 0; k < st->nin; k++) {
      const ProgValue *from = &f->value[st->in[k]];
      n += to->place == PLACE_ARENA && from->place == PLACE_ARENA && to->slot == from->slot;
    }
  }
  return n;
}

// %a is a term of %s, and dies there.  Where it is multiplied in the same kernel, or read later, %s
// has a place of its own.
TEST(sums_lie_over_a_term_that_is_added) {
  static const struct {
    const char *product, *result;
    int over;
  } row[] = {{"%h", "%z", 1}, {"%a", "%z", 0}, {"%h", "%l", 0}};
  setenv("TENON_BLOCK_THREADS", "64", 1);
  setenv("TENON_MMA", "1", 1);
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Arena a;
    BothWays b;
    Asked asked = {.fast = fast_flags(), .advised = true};
    arena_init(&a);
    const char *text =
        str_printf(&a,
                   "graph @\"g\"(%%x: f32[n, 64], %%v: f32[64, 64], %%w: f32[64, 64]) {\n"
                   "  %%a = softmax(%%x)\n  %%p = mat_mul(%%a, %%v)\n  %%h = softmax(%%p)\n"
                   "  %%q = mat_mul(%s, %%w)\n  %%s = add(%%q, %%a)\n  %%z = softmax(%%s)\n"
                   "  %%l = mul(%%z, %%a)\n  return %s\n}\n",
                   row[i].product, row[i].result);
    if (!both_ways_run(&b, text, "ref", fill, compile_asked, &asked)) FAIL("%s", b.diag.text);
    EXPECT(largest_error(&b) < 1e-5);
    if (over_operands(b.program) != row[i].over)
      FAIL("%d kernels write over an operand\n%s", over_operands(b.program), text);
    both_ways_free(&b);
    arena_deinit(&a);
  }
  unsetenv("TENON_MMA");
  unsetenv("TENON_BLOCK_THREADS");
}

// Where some kernels run on another machine, %s has a place of its own: a copy may still read the
// term.
TEST(sums_of_two_machines_lie_over_nothing) {
  static const char text[] =
      "graph @\"g\"(%x: f32[8, 64], %v: f32[64, 64], %w: f32[64, 64]) {\n"
      "  %a = softmax(%x)\n  %p = mat_mul(%a, %v)\n  %h = softmax(%p)\n"
      "  %q = mat_mul(%h, %w)\n  %s = add(%q, %a)\n  %z = softmax(%s)\n  return %z\n}\n";
  int32_t shared[2];
  for (int i = 0; i < 2; i++) {
    TargetTraits traits = {.gpu = true,
                           .mma = MMA_WARPGROUP,
                           .mma_dtypes = MMA_DTYPE_TF32 | MMA_DTYPE_F32,
                           .heterogeneous = i == 1};
    OptOptions o;
    Arena a;
    Diag d;
    Graph *g;
    MemPlan *plan = NULL;
    arena_init(&a);
    diag_init(&d);
    OptReport report = {.arena = &a};
    opt_defaults(&o);
    o.traits = &traits;
    if (graph_parse(str_of(text), NULL, &d, &g)) FAIL("%s", d.text);
    if (graph_optimise(g, &o, &report) || plan_create(g, &a, &plan)) FAIL("%s", d.text);
    shared[i] = 0;
    for (int32_t b = 0; plan && b < plan->n; b++) shared[i] += plan->buffer[b].root != b;
    graph_free(g);
    arena_deinit(&a);
  }
  EXPECT_INT_EQ(shared[1], shared[0] - 1);
}

// A graph keeps its own copy of what it was optimised for, since the plan asks later.
TEST(traits_stay_with_the_graph) {
  static const char text[] = "graph @\"g\"(%x: f32[4]) {\n  %y = relu(%x)\n  return %y\n}\n";
  TargetTraits given = {.gpu = true, .mma = MMA_WARP};
  OptOptions o;
  Diag d;
  Graph *g;
  Arena a;
  arena_init(&a);
  diag_init(&d);
  if (graph_parse(str_of(text), NULL, &d, &g)) FAIL("%s", d.text);
  EXPECT(g->traits == &traits_unknown);
  opt_defaults(&o);
  o.traits = &given;
  OptReport report = {.arena = &a};
  EXPECT_INT_EQ(graph_optimise(g, &o, &report), TENON_OK);
  given = (TargetTraits){0};
  EXPECT(g->traits->gpu && g->traits->mma == MMA_WARP);
  graph_free(g);
  arena_deinit(&a);
}

// As folding leaves embeddings of positions that are the same for every item of a batch.
TEST(what_repeats_is_kept_once) {
  static const char text[] =
      "graph @\"g\"(%x: f32[512, 1024]) {\n"
      "  %o = const f32[] {0}\n  %m = const f32[] {1024}\n  %d = const f32[] {1}\n"
      "  %r = range(%o, %m, %d)\n  %k = const i64[2] {512, 1024}\n  %e = expand(%r, %k)\n"
      "  %c = cos(%e)\n  %y = add(%x, %c)\n  return %y\n}\n";
  BothWays b;
  if (!both_ways_run(&b, text, "ref", fill, NULL, NULL)) FAIL("%s", b.diag.text);
  EXPECT(largest_error(&b) == 0);
  EXPECT(b.program->constants_bytes >= 4096 && b.program->constants_bytes < 8192);
  both_ways_free(&b);
}
