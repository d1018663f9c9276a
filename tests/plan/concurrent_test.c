// concurrent_test.c -- kernels that run concurrently, and values made in adjacent memory: decided
// in the plan, proven, kept in the program, run.
#include "codegen.h"
#include "compiled.h"
#include "ir/interpret.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "runtime/artifact.h"
#include "runtime/session.h"
#include "sample.h"
#include "targets/target.h"
#include "test.h"

// Four branches of one value, of one, two and three kernels, and their concatenation.
static const char branches[] =
    "graph @\"g\"(%x: f32[8, 32], %a: f32[32, 16], %b: f32[32, 24], %c: f32[24, 8]) {\n"
    "  %p = mat_mul(%x, %a)\n"
    "  %q0 = mat_mul(%x, %b)\n"
    "  %q1 = softmax(%q0) axis=-1\n"
    "  %q = mat_mul(%q1, %c)\n"
    "  %r0 = softmax(%x) axis=-1\n"
    "  %r = mat_mul(%r0, %a)\n"
    "  %s = softmax(%x) axis=0\n"
    "  %y = concat(%p, %q, %r, %s) axis=1\n"
    "  return %y, %s\n}\n";

// Values joined along the outermost axis, of which one is
// read again.
static const char joined[] = "graph @\"g\"(%x: f32[16, n], %w: f32[n, 32]) {\n"
                             "  %a = softmax(%x) axis=-1\n"
                             "  %t = tanh(%x)\n"
                             "  %p = mat_mul(%t, %w)\n"
                             "  %q = mat_mul(%a, %w)\n"
                             "  %y = concat(%p, %q, %p) axis=0\n"
                             "  %z = concat(%q, %p) axis=0\n"
                             "  %u = softmax(%q) axis=0\n"
                             "  return %z, %u, %y\n}\n";

// A part without elements, whose memory is that of the next part: not optimised, since that would
// leave it out.
static const char empty_part[] = "graph @\"g\"(%x: f32[5], %n: bool[0]) {\n"
                                 "  %a = cast(%n) to=f32\n"
                                 "  %b = exp(%x)\n"
                                 "  %y = concat(%a, %b) axis=0\n"
                                 "  return %y\n}\n";

typedef struct Case {
  Arena arena;
  Diag d;
  Graph *plain, *g;
  CompileOptions options;
  CompileReport made;
  MemPlan *plan;
  Program *program;
  Run run;
  Interp *interp;
  Session *session;
  Value *in[8], *want[8], *got[8];
} Case;

static tenon_status make(Case *c, const char *text, int64_t level) {
  compile_defaults(&c->options);
  c->options.level = level;
  TRY(graph_parse(str_of(text), NULL, &c->d, &c->plain));
  TRY(compile_parsed(text, &c->options, COMPILE_PLAN, &c->arena, &c->d, &c->g, &c->made));
  c->plan = c->made.plan;
  sample_seed();
  for (int64_t i = 0; i < c->plain->main->nparams; i++)
    TRY(sample_value(&c->run, type_of(c->plain->main->param[i]), &c->in[i]));
  TRY(interp_create(c->plain, NULL, &c->d, &c->interp));
  return interp_run(c->interp, &c->run, c->in, c->want);
}

static void open_case_at(Case *c, const char *text, int64_t level) {
  memset(c, 0, sizeof *c);
  arena_init(&c->arena);
  diag_init(&c->d);
  run_init(&c->run, NULL, &c->d);
  Trap t;
  trap_enter(&t, &c->d);
  if (setjmp(t.env) == 0) t.status = make(c, text, level);
  trap_leave(&t);
  if (t.status) FAIL("%s", c->d.text);
}

static void open_case(Case *c, const char *text) { open_case_at(c, text, 3); }

static void close_case(Case *c) {
  run_deinit(&c->run);
  session_free(c->session);
  program_release(c->program);
  interp_free(c->interp);
  graph_free(c->plain);
  graph_free(c->g);
  arena_deinit(&c->arena);
}

static bool all_close(const Case *c, bool exact) {
  for (int64_t i = 0; i < c->g->main->nresults; i++)
    if (!sample_close(c->got[i], c->want[i], exact)) return false;
  return true;
}

// ---- the plan ----

TEST(concurrent_is_planned_and_proven) {
  static Case c;
  open_case(&c, branches);
  MemPlan *p = c.plan;
  REQUIRE(p && p->concurrent);
  EXPECT(p->nconcurrent >= 4);
  EXPECT_STATUS(plan_verify(p, &c.d), TENON_OK);
  EXPECT_STATUS(plan_run(p, &c.run, c.in, c.got), TENON_OK);
  EXPECT(all_close(&c, false));
  // Each kernel beside the one before: some needs it.
  bool *concurrent = arena_dup(&c.arena, p->concurrent, p->order.n);
  const bool *was = p->concurrent;
  int caught = 0, tried = 0;
  p->concurrent = concurrent;
  for (int64_t i = 1; i < p->order.n; i++) {
    if (concurrent[i] || p->order.v[i]->op != OP_fused) continue;
    concurrent[i] = true;
    tried++;
    caught += plan_verify(p, &c.d) != TENON_OK;
    concurrent[i] = false;
  }
  EXPECT(tried >= 2);
  EXPECT_INT_EQ(caught, tried);
  p->concurrent = was;
  EXPECT_STATUS(plan_verify(p, &c.d), TENON_OK);
  close_case(&c);
}

// What lies apart only because kernels run concurrently may not lie together.
TEST(concurrent_lives_are_apart) {
  static Case c;
  open_case(&c, branches);
  MemPlan *p = c.plan;
  REQUIRE(p && p->concurrent);
  int moved = 0;
  for (int32_t x = 0; x < p->n; x++)
    for (int32_t y = 0; y < p->n; y++) {
      if (x == y || !plan_has_place(p, x) || !plan_has_place(p, y)) continue;
      PlanBuffer *b = &p->buffer[x];
      if (b->first != p->buffer[y].first || !b->size || !p->buffer[y].size) continue;
      int64_t at = b->offset;
      b->offset = p->buffer[y].offset;
      EXPECT_STATUS(plan_verify(p, &c.d), TENON_EINTERNAL);
      b->offset = at;
      moved++;
    }
  EXPECT(moved > 0);
  EXPECT_STATUS(plan_verify(p, &c.d), TENON_OK);
  close_case(&c);
}

// Two kernels read a value that dies with them: neither writes over it.
TEST(concurrent_writes_over_nothing_that_is_read) {
  static Case c;
  open_case(&c, "graph @\"g\"(%x: f32[8, 32], %w: f32[32, 32]) {\n"
                "  %h = mat_mul(%x, %w)\n"
                "  %s = softmax(%h) axis=-1\n"
                "  %t = softmax(%h) axis=0\n"
                "  %a = mat_mul(%s, %w)\n"
                "  %b = mat_mul(%t, %w)\n"
                "  %y = mul(%a, %b)\n"
                "  return %y\n}\n");
  REQUIRE(c.plan && c.plan->concurrent);
  EXPECT_STATUS(plan_verify(c.plan, &c.d), TENON_OK);
  MemPlan *p = c.plan;
  int32_t one = -1, operand = -1;
  for (int64_t i = 1; i < p->order.n; i++)
    if (plan_is_concurrent(p, i) && one < 0) {
      one = plan_find(p, p->order.v[i], 0);
      operand = plan_find(p, p->order.v[i]->src[0], 0);
    }
  REQUIRE(one >= 0 && operand >= 0 && p->buffer[one].bytes == p->buffer[operand].bytes);
  int32_t was = p->buffer[one].root;
  EXPECT_INT_EQ(was, one);
  p->buffer[one].root = p->buffer[operand].root;
  EXPECT_STATUS(plan_verify(p, &c.d), TENON_EINTERNAL);
  EXPECT_CONTAINS(c.d.text, "over one that a concurrent kernel reads");
  p->buffer[one].root = was;
  // The same of the kernel that is named first.
  int32_t first = -1;
  for (int64_t i = p->order.n - 1; i > 0; i--)
    if (plan_is_concurrent(p, i)) first = plan_find(p, p->order.v[i - 1], 0);
  REQUIRE(first >= 0 && first != one);
  p->buffer[first].root = p->buffer[operand].root;
  diag_init(&c.d);
  EXPECT_STATUS(plan_verify(p, &c.d), TENON_EINTERNAL);
  EXPECT_CONTAINS(c.d.text, "over one that a concurrent kernel reads");
  close_case(&c);
}

// Fused graphs by hand: which of their kernels run concurrently, by the names of what they make.
TEST(concurrent_are_small_kernels_that_are_ready) {
#define EXP(in, type)                                                                              \
  "fused(" in ") kind=pointwise body={ (%i: " type ")\n %o = exp(%i)\n return %o\n } : " type "\n"
#define PRODUCT(a, b, type)                                                                        \
  "fused(" a ", " b ") kind=contraction body={ (%i: " type ", %k: " type                           \
  ")\n %o = mat_mul(%i, %k)\n return %o\n } : " type "\n"
  static const struct {
    const char *text, *concurrent;
  } row[] = {
      // Two kernels read the first value and die with it: neither lies over it.
      {"graph(%x: f32[64], %y: f32[64, 64]) {\n %a = " EXP("%x", "f32[64]") " %b = " EXP(
           "%a", "f32[64]") " %c = " EXP("%a",
                                         "f32[64]") " %e = fused(%b, %c, %y) kind=pointwise body={ "
                                                    "(%i: f32[64], %k: f32[64], %l: f32[64, "
                                                    "64])\n %m = add(%i, %l)\n %o = add(%m, %k)\n "
                                                    "return %o\n } : f32[64, 64]\n"
                                                    " return %e\n}\n",
       "c "},
      {"graph(%x: f32[64], %y: f32[64]) {\n %a = " EXP("%x", "f32[64]") " %b = " EXP(
           "%y", "f32[64]") " return %a, %b\n}\n",
       "b "},
      // A view between them launches nothing.
      {"graph(%x: f32[64], %y: f32[8, 8]) {\n %s = const i64[1] {64}\n %a = " EXP(
           "%x", "f32[64]") " %v = reshape(%y, %s) : f32[64]\n %b = " EXP("%v",
                                                                          "f32[64]") " return %a, "
                                                                                     "%b\n}\n",
       "b "},
      // What takes long has the cores to itself.
      {"graph(%x: f32[64, 64], %y: f32[64, 64]) {\n %a = " PRODUCT(
           "%x", "%x", "f32[64, 64]") " %b = " PRODUCT("%y", "%y",
                                                       "f32[64, 64]") " return %a, %b\n}\n",
       "b "},
      {"graph(%x: f32[2048, 2048], %y: f32[2048, 2048]) {\n %a = " PRODUCT(
           "%x", "%x", "f32[2048, 2048]") " %b = " PRODUCT("%y", "%y",
                                                           "f32[2048, 2048]") " return %a, %b\n}\n",
       ""},
  };
  for (int i = 0; i < ARRAY_LEN(row); i++) {
    static Diag d;
    Arena a;
    Graph *g = NULL;
    MemPlan *p = NULL;
    StrBuf got;
    arena_init(&a);
    diag_init(&d);
    strbuf_init(&got, &a);
    if (graph_parse(str_of(row[i].text), NULL, &d, &g)) FAIL("%s", d.text);
    REQUIRE(g && !plan_create(g, &a, &p));
    for (int64_t k = 0; k < p->order.n; k++)
      if (plan_is_concurrent(p, k)) strbuf_printf(&got, "%s ", p->order.v[k]->name);
    EXPECT_STR_EQ(strbuf_text(&got), row[i].concurrent);
    EXPECT_STATUS(plan_verify(p, &d), TENON_OK);
    arena_deinit(&a);
    graph_free(g);
  }
#undef EXP
#undef PRODUCT
}

// ---- the program ----

static void compile_case(Case *c, const char *target) {
  c->options.target = target_find(target);
  if (compile_graph(c->g, &c->options, COMPILE_BUILD, &c->arena, &c->d, &c->made))
    FAIL("%s", c->d.text);
  c->program = c->made.program;
}

static int32_t first_row(const ProgFunction *f) {
  for (int32_t i = 0; i < f->nsteps; i++)
    if (f->step[i].more) return i;
  return -1;
}

static void check_runs(const char *text, const char *target, int64_t level) {
  static Case c;
  Value *first[8] = {NULL};
  open_case_at(&c, text, level);
  compile_case(&c, target);
  REQUIRE(c.program);
  for (int threads = 1; threads <= 5; threads++) {
    if (session_create(c.program, &(SessionOptions){.threads = threads, .profile = threads == 2},
                       &c.d, &c.session) ||
        session_run(c.session, &c.run, c.in, NULL, c.got))
      FAIL("%s", c.d.text);
    EXPECT(all_close(&c, false));
    for (int64_t i = 0; i < c.g->main->nresults; i++) {
      if (threads == 1) first[i] = c.got[i];
      EXPECT(sample_close(c.got[i], first[i], true));
    }
    session_free(c.session);
    c.session = NULL;
  }
  close_case(&c);
}

TEST(concurrent_runs_alike_on_any_threads) {
  check_runs(branches, "ref", 3);
  check_runs(joined, "ref", 3);
  check_runs(empty_part, "ref", 0);
  if (!codegen_there()) return;
  check_runs(branches, "cpu", 3);
  check_runs(joined, "cpu", 3);
}

// Whether some step shows several values that were made in adjacent memory.
static bool has_joined(const ProgFunction *f) {
  for (int32_t i = 0; i < f->nsteps; i++)
    if (f->step[i].kind == STEP_VIEW && f->step[i].nin > 1) return true;
  return false;
}

// Into the caller's memory, where a joined result's parts are made, and where there is not enough
// of it.
TEST(concurrent_results_where_the_caller_wants) {
  static Case c;
  open_case(&c, joined);
  compile_case(&c, "ref");
  REQUIRE(c.program);
  int64_t n = c.g->main->nresults, bytes;
  EXPECT(has_joined(c.program->function[0]));
  for (int small = 0; small < 2; small++) {
    ResultRoom room[8] = {{NULL, 0}};
    for (int64_t i = 0; i < n; i++) {
      Value *v;
      if (value_tensor(&c.run, NOWHERE, c.want[i]->dtype, c.want[i]->rank, c.want[i]->dims, &v) ||
          !dtype_bytes(v->dtype, v->n, &bytes))
        FAIL("%s", c.d.text);
      room[i] = (ResultRoom){v->data, small ? bytes / 2 : bytes};
    }
    if (session_create(c.program, &(SessionOptions){.threads = 2}, &c.d, &c.session) ||
        session_run(c.session, &c.run, c.in, room, c.got))
      FAIL("%s", c.d.text);
    EXPECT(all_close(&c, false));
    for (int64_t i = 0; i < n; i++) EXPECT((c.got[i]->data == room[i].data) == !small);
    session_free(c.session);
    c.session = NULL;
  }
  close_case(&c);
}

TEST(concurrent_is_checked_in_programs) {
  static Case c;
  open_case(&c, branches);
  compile_case(&c, "ref");
  REQUIRE(c.program);
  ProgFunction *f = c.program->function[0];
  int32_t at = first_row(f);
  REQUIRE(at >= 0);
  ProgStep *s = &f->step[at];
  int32_t was = s->more;
  EXPECT_STATUS(program_check(c.program, &c.d), TENON_OK);
  static const int32_t odd[] = {-1, STEP_MORE + 1, INT32_MAX, INT32_MIN};
  for (int i = 0; i < ARRAY_LEN(odd); i++) {
    s->more = odd[i];
    EXPECT_STATUS(program_check(c.program, &c.d), TENON_EFORMAT);
  }
  s->more = was;
  f->step[f->nsteps - 1].more = 1;
  EXPECT_STATUS(program_check(c.program, &c.d), TENON_EFORMAT);
  f->step[f->nsteps - 1].more = 0;
  s[1].more = 1;  // a row within a row
  EXPECT_STATUS(program_check(c.program, &c.d), TENON_EFORMAT);
  s[1].more = 0;
  // Every row that is longer than the plan's takes in what needs one of it, or no kernel, or goes
  // on beyond the end.
  for (int32_t i = 0; i < f->nsteps; i += 1 + f->step[i].more) {
    int32_t more = f->step[i].more;
    f->step[i].more = f->nsteps - i - 1;
    if (f->step[i].more > more) EXPECT_STATUS(program_check(c.program, &c.d), TENON_EFORMAT);
    f->step[i].more = more;
  }
  ProgValue *v = &f->value[s->out[0]], keep = *v;
  *v = f->value[s[1].out[0]];  // both into one memory
  EXPECT_STATUS(program_check(c.program, &c.d), TENON_EFORMAT);
  *v = keep;
  v->at = c.program->nexprs;
  EXPECT_STATUS(program_check(c.program, &c.d), TENON_EFORMAT);
  *v = keep;
  EXPECT_STATUS(program_check(c.program, &c.d), TENON_OK);
  close_case(&c);
}

TEST(concurrent_is_kept_in_artifacts) {
  static Case c;
  StrBuf bytes, again;
  open_case(&c, branches);
  compile_case(&c, "ref");
  REQUIRE(c.program);
  strbuf_init(&bytes, &c.arena);
  strbuf_init(&again, &c.arena);
  if (plan_encode(c.program, &bytes, &c.d)) FAIL("%s", c.d.text);
  Program *q = program_create();
  REQUIRE(q);
  if (plan_decode(q, strbuf_str(&bytes), eval_find, &c.d) || plan_encode(q, &again, &c.d))
    FAIL("%s", c.d.text);
  EXPECT(bytes.n == again.n && !memcmp(bytes.p, again.p, (size_t)bytes.n));
  int32_t at = first_row(c.program->function[0]);
  REQUIRE(at >= 0);
  EXPECT_INT_EQ(q->function[0]->step[at].more, c.program->function[0]->step[at].more);
  program_release(q);
  close_case(&c);
}

// The time of kernels that ran concurrently is divided among them.
TEST(concurrent_times_are_of_each) {
  static Case c;
  open_case(&c, branches);
  compile_case(&c, "ref");
  REQUIRE(c.program);
  if (session_create(c.program, &(SessionOptions){.threads = 2, .profile = true}, &c.d,
                     &c.session) ||
      session_run(c.session, &c.run, c.in, NULL, c.got))
    FAIL("%s", c.d.text);
  const ProgFunction *f = c.program->function[0];
  const StepTime *times = session_times(c.session, 0);
  int32_t at = first_row(f);
  REQUIRE(at >= 0);
  for (int32_t k = 0; k <= f->step[at].more; k++) {
    EXPECT_INT_EQ(times[at + k].calls, 1);
    EXPECT(times[at + k].ns >= 0);
  }
  close_case(&c);
}
