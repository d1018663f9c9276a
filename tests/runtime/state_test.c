// state_test.c -- states: written in place by the interpreter, the plan interpreter and compiled
// code, kept from run to run; and graphs, plans and programs that break their rules.
#include "runtime/session.h"
#include "codegen.h"
#include "compiled.h"
#include "eval/table.h"
#include "plan/plan.h"
#include "runtime/artifact.h"
#include "targets/target.h"
#include "test.h"

enum {
  PAGES = 3,
  HEADS = 2,
  PLACES = 32,
  SIZE = 8,
  ROWS = 4,
  CELLS = PAGES * HEADS * PLACES * SIZE
};

// Each version is read, the first one by a node that comes last in the text.
static const char chain[] =
    "graph @\"kv\"(state %k: f32[n, 2, 32, 8], %x: f32[t, 2, 8], %slot: i32[t], %y: f32[t, 2, 8], "
    "%z: i32[t]) -> (first: f32[1, 1, 1, 1], second: f32[1, 1, 1, 1], third: f32[1, 1, 1, 1]) {\n"
    "  %a = mul(%x, %x)\n"
    "  %k1 = kv_append(%k, %a, %slot)\n"
    "  %s1 = reduce_sum(%k1)\n"
    "  %k2 = kv_append(%k1, %y, %z)\n"
    "  %s2 = reduce_sum(%k2)\n"
    "  %s0 = reduce_sum(%k)\n"
    "  return %s0, %s1, %s2\n}\n";

typedef enum { BY_INTERP, BY_PLAN, BY_TARGET } Way;

typedef struct StateCase {
  Arena arena;
  Diag d;
  Graph *g;
  CompileReport made;
  Interp *interp;
  Session *session;
  float state[CELLS], want[CELLS];
} StateCase;

static tenon_status make(StateCase *c, const char *text, Way way, const char *target) {
  CompileOptions o;
  compile_defaults(&o);
  o.target = target ? target_find(target) : NULL;
  TRY(compile_parsed(text, &o, target ? COMPILE_BUILD : COMPILE_PLAN, &c->arena, &c->d, &c->g,
                     &c->made));
  if (way == BY_INTERP) TRY(interp_create(c->g, NULL, &c->d, &c->interp));
  if (!target) return TENON_OK;
  return session_create(c->made.program, &(SessionOptions){.threads = 3}, &c->d, &c->session);
}

static void open_case(StateCase *c, const char *text, Way way, const char *target) {
  memset(c, 0, sizeof *c);
  arena_init(&c->arena);
  diag_init(&c->d);
  Trap t;
  trap_enter(&t, &c->d);
  if (setjmp(t.env) == 0) t.status = make(c, text, way, target);
  trap_leave(&t);
  if (t.status) FAIL("%s", c->d.text);
}

static void close_case(StateCase *c) {
  session_free(c->session);
  program_release(c->made.program);
  interp_free(c->interp);
  graph_free(c->g);
  arena_deinit(&c->arena);
}

// Adds up in the order of the elements, as no target need do: sums are of small integers.
static double sum_of(const float *x) {
  double s = 0;
  for (int i = 0; i < CELLS; i++) s += (double)x[i];
  return s;
}

static void append(float *state, const float *x, const int32_t *slot) {
  for (int t = 0; t < ROWS; t++)
    for (int h = 0; h < HEADS && slot[t] >= 0; h++)
      memcpy(&state[((slot[t] / PLACES * HEADS + h) * PLACES + slot[t] % PLACES) * SIZE],
             &x[(t * HEADS + h) * SIZE], SIZE * sizeof(float));
}

static tenon_status run_once(StateCase *c, Way way, Run *run, Value *const *in, Value **out) {
  if (way == BY_INTERP) return interp_run(c->interp, run, in, out);
  if (way == BY_PLAN) return plan_run(c->made.plan, run, in, out);
  return session_run(c->session, run, in, NULL, out);
}

// Four runs over one state, of which each sees what those before it wrote.
static void check_rows(StateCase *c, Way way, bool bound) {
  for (int round = 0; round < 4; round++) {
    float x[ROWS * HEADS * SIZE], y[ROWS * HEADS * SIZE], squares[ROWS * HEADS * SIZE];
    int32_t slot[ROWS] = {round, 70 + round, -1, 33}, z[ROWS] = {95 - round, -1, 40, -5};
    for (int i = 0; i < ROWS * HEADS * SIZE; i++) {
      x[i] = (float)((i + round) % 7);
      y[i] = (float)(i % 5 - round);
      squares[i] = x[i] * x[i];
    }
    Run run;
    Value *in[5] = {NULL}, *out[3] = {NULL};
    run_init(&run, NULL, &c->d);
    REQUIRE(
        !value_borrow(&run, DT_F32, 4, (int64_t[]){PAGES, HEADS, PLACES, SIZE}, c->state, &in[0]));
    REQUIRE(!value_borrow(&run, DT_F32, 3, (int64_t[]){ROWS, HEADS, SIZE}, x, &in[1]));
    REQUIRE(!value_borrow(&run, DT_I32, 1, (int64_t[]){ROWS}, slot, &in[2]));
    REQUIRE(!value_borrow(&run, DT_F32, 3, (int64_t[]){ROWS, HEADS, SIZE}, y, &in[3]));
    REQUIRE(!value_borrow(&run, DT_I32, 1, (int64_t[]){ROWS}, z, &in[4]));
    if (bound) in[0] = NULL;
    double want[3] = {sum_of(c->want)};
    append(c->want, squares, slot);
    want[1] = sum_of(c->want);
    append(c->want, y, z);
    want[2] = sum_of(c->want);
    if (run_once(c, way, &run, in, out)) FAIL("%s", c->d.text);
    for (int i = 0; i < 3 && out[i]; i++) EXPECT_F64_EQ(val_f64(out[i], 0), want[i]);
    run_deinit(&run);
  }
}

static void check_runs(StateCase *c, Way way, bool bound) {
  check_rows(c, way, bound);
  EXPECT(!memcmp(c->state, c->want, sizeof c->state));
}

// A state on a device begins with zeros of the session's own.
TEST(state_is_on_the_device) {
  static StateCase c;
  const char *why;
  if (!target_there(target_find("opencl"), &why)) SKIP(why);
  open_case(&c, chain, BY_TARGET, "opencl");
  REQUIRE(c.session);
  const int64_t dims[] = {PAGES, HEADS, PLACES, SIZE};
  const ProgFunction *f = c.made.program->function[0];
  EXPECT(session_state(c.session, 0).on_device);
  for (int32_t i = 0; i < f->nsteps; i++)  // never copied
    for (int32_t k = 0; k < f->step[i].nin; k++)
      EXPECT(f->step[i].kind != STEP_COPY || f->value[f->step[i].in[k]].place != PLACE_STATE);
  EXPECT_STATUS(session_read_state(c.session, 0, c.state, &c.d), TENON_EINVAL);
  EXPECT_STATUS(session_bind_state(c.session, 0, c.state, dims, &c.d), TENON_EINVAL);
  EXPECT_STATUS(session_bind_state(c.session, 0, NULL, dims, &c.d), TENON_OK);
  for (int i = 0; i < 2; i++) {
    EXPECT_STATUS(session_read_state(c.session, 0, c.state, &c.d), TENON_OK);
    EXPECT(!memcmp(c.state, c.want, sizeof c.state));
    check_rows(&c, BY_TARGET, true);
  }
  EXPECT_STATUS(session_bind_state(c.session, 0, NULL, dims, &c.d), TENON_OK);  // zeros again
  EXPECT_STATUS(session_read_state(c.session, 0, c.state, &c.d), TENON_OK);
  for (int i = 0; i < CELLS; i++) EXPECT_F64_EQ(c.state[i], 0);
  // A copy of another state's version would go unseen: the program says which device it is on.
  ProgValue *v = &c.made.program->function[0]->value[f->param[0]];
  v->device = 0;
  EXPECT(program_check(c.made.program, &c.d) != TENON_OK);
  v->device = 1;
  close_case(&c);
}

static void check_way(const char *text, Way way, const char *target, bool bound) {
  static StateCase c;
  open_case(&c, text, way, target);
  for (int i = 0; i < CELLS; i++) c.state[i] = c.want[i] = (float)(i % 11);
  if (bound)
    EXPECT_STATUS(
        session_bind_state(c.session, 0, c.state, (int64_t[]){PAGES, HEADS, PLACES, SIZE}, &c.d),
        TENON_OK);
  if (way != BY_TARGET || c.session) check_runs(&c, way, bound);
  close_case(&c);
}

TEST(state_is_written_in_place) {
  check_way(chain, BY_INTERP, NULL, false);
  check_way(chain, BY_PLAN, NULL, false);
  for (int bound = 0; bound < 2; bound++) {
    check_way(chain, BY_TARGET, "ref", bound);
    check_way(chain, BY_TARGET, "host", bound);
    if (codegen_there()) check_way(chain, BY_TARGET, "cpu", bound);
  }
}

// The graph as it was read, not optimised.
TEST(state_order_puts_readers_first) {
  Diag d;
  Graph *g = NULL;
  diag_init(&d);
  REQUIRE(!graph_parse(str_of(chain), NULL, &d, &g));
  EXPECT_STATUS(graph_verify(g, &d), TENON_OK);
  NodeList by_id = body_order(g, g->main, &g->arena), o = state_order(g, by_id, &g->arena);
  EXPECT_INT_EQ(o.n, by_id.n);
  EXPECT(state_check_order(g, by_id, &g->arena, &d) != TENON_OK);
  diag_init(&d);
  EXPECT_STATUS(state_check_order(g, o, &g->arena, &d), TENON_OK);
  StrBuf b;
  strbuf_init(&b, &g->arena);
  graph_print(g, &b);
  EXPECT_CONTAINS(strbuf_text(&b), "(state %k: f32[n, 2, 32, 8], %x:");
  graph_free(g);
}

static void refuse(const char *text, const char *why) {
  Diag d;
  Graph *g = NULL;
  diag_init(&d);
  if (!graph_parse(str_of(text), NULL, &d, &g)) {
    EXPECT(graph_verify(g, &d) != TENON_OK);
    graph_free(g);
  }
  EXPECT_CONTAINS(d.text, why);
}

#define HEAD "graph @\"g\"(state %k: f32[2, 1, 32, 4], %x: f32[3, 1, 4], %s: i32[3]) {\n"
TEST(state_rules_are_verified) {
  refuse(HEAD "  %a = kv_append(%k, %x, %s)\n  %y = exp(%x)\n  %b = kv_append(%k, %y, %s)\n"
              "  %c = add(%a, %b)\n  return %c\n}\n",
         "written by two nodes");
  refuse(HEAD "  %a = kv_append(%k, %x, %s)\n  %b = exp(%a)\n  return %k, %b\n}\n",
         "is written over");
  // What the first version is read for needs the second one.
  refuse(HEAD "  %a = kv_append(%k, %x, %s)\n  %b = reduce_sum(%a)\n  %c = add(%k, %b)\n"
              "  return %c\n}\n",
         "needs a later version");
  refuse("graph @\"g\"(state %k: i4[2]) {\n  return %k\n}\n", "whole bytes");
  // A view of what is written over.
  refuse(HEAD "  %a = kv_append(%k, %x, %s)\n  %b = reduce_sum(%a)\n  %f = flatten(%k)\n"
              "  %c = add(%f, %b)\n  return %c\n}\n",
         "needs a later version");
}

// ---- sessions ----

static const char fixed[] =
    "graph @\"g\"(state %k: f32[2, 1, 32, 4], %x: f32[1, 1, 4], %s: i32[1]) -> (k1: f32[2, 1, 32, "
    "4]) {\n"
    "  %a = kv_append(%k, %x, %s)\n  return %a\n}\n";

static tenon_status put_one(StateCase *c, float x, int32_t slot, float *out_first, void **data) {
  float row[4] = {x, x, x, x};
  Run run;
  Value *in[3] = {NULL}, *out[1] = {NULL};
  run_init(&run, NULL, &c->d);
  tenon_status s = value_borrow(&run, DT_F32, 3, (int64_t[]){1, 1, 4}, row, &in[1]);
  if (!s) s = value_borrow(&run, DT_I32, 1, (int64_t[]){1}, &slot, &in[2]);
  if (!s) s = session_run(c->session, &run, in, NULL, out);
  if (!s) *out_first = (float)val_f64(out[0], 0);
  if (!s) *data = out[0]->data;
  run_deinit(&run);
  return s;
}

TEST(state_of_the_session) {
  static StateCase c;
  float first = -1, own[2 * 32 * 4] = {0};
  void *at = NULL, *again = NULL;
  open_case(&c, fixed, BY_TARGET, "ref");
  REQUIRE(c.session);
  EXPECT_INT_EQ(session_state_count(c.session), 1);
  EXPECT_INT_EQ(session_find_state(c.session, "k"), 0);
  EXPECT_INT_EQ(session_find_state(c.session, "x"), -1);
  EXPECT_STR_EQ(session_state(c.session, 0).name, "k");
  int64_t dims[MAX_RANK];
  EXPECT_STATUS(session_state_dims(c.session, 0, NULL, 0, dims, &c.d), TENON_OK);
  EXPECT_INT_EQ(dims[0], 2);
  // Zero at first; then what was written is there; an output that is a state is its memory.
  EXPECT_STATUS(put_one(&c, 3, 5, &first, &at), TENON_OK);
  EXPECT_F64_EQ(first, 0);
  EXPECT_STATUS(put_one(&c, 4, 0, &first, &again), TENON_OK);
  EXPECT_F64_EQ(first, 4);
  EXPECT_F64_EQ(((float *)at)[5 * 4], 3);
  EXPECT(at == again);
  EXPECT(put_one(&c, 4, 64, &first, &again) != TENON_OK);
  EXPECT_CONTAINS(c.d.text, "outside the KV cache");
  EXPECT_STATUS(session_bind_state(c.session, 0, own, dims, &c.d), TENON_OK);
  EXPECT_STATUS(put_one(&c, 9, 33, &first, &again), TENON_OK);
  EXPECT(again == own && own[33 * 4 + 3] == 9);
  close_case(&c);
  open_case(&c, chain, BY_TARGET, "ref");
  REQUIRE(c.session);
  EXPECT(session_state_dims(c.session, 0, NULL, 0, dims, &c.d) != TENON_OK);
  SymbolValue n = {"n", 7};
  EXPECT_STATUS(session_state_dims(c.session, 0, &n, 1, dims, &c.d), TENON_OK);
  EXPECT_INT_EQ(dims[0], 7);
  close_case(&c);
}

// ---- programs ----

static bool refused(StateCase *c, const char *why) {
  diag_init(&c->d);
  return program_check(c->made.program, &c->d) && strstr(c->d.text, why);
}

TEST(state_program_is_checked) {
  static StateCase c;
  open_case(&c, chain, BY_TARGET, "ref");
  REQUIRE(c.session);
  ProgFunction *f = c.made.program->function[0];
  int32_t writer = -1, reader = -1;
  for (int32_t i = 0; i < f->nsteps; i++) {
    bool writes = f->value[f->step[i].out[0]].place == PLACE_STATE;
    if (writes && writer < 0) writer = i;
    if (!writes && reader < 0) reader = i;
  }
  REQUIRE(writer == reader + 1);
  EXPECT_STATUS(program_check(c.made.program, &c.d), TENON_OK);
  // The first reader behind the first writer.
  ProgStep s = f->step[reader];
  f->step[reader] = f->step[writer];
  f->step[writer] = s;
  EXPECT(refused(&c, "read after it was written over"));
  f->step[writer] = f->step[reader];
  f->step[reader] = s;
  ProgValue *v = &f->value[f->step[writer].out[0]], was = *v;
  v->slot = 1;
  EXPECT(refused(&c, "a version of no state"));
  *v = was;
  v->dtype = DT_I32;
  EXPECT(refused(&c, "a version of no state"));
  *v = was;
  v->place = PLACE_PARAM;
  EXPECT(refused(&c, "changes what is not its own"));
  *v = was;
  EXPECT_STATUS(program_check(c.made.program, &c.d), TENON_OK);
  close_case(&c);
}

TEST(state_is_kept_in_an_artifact) {
  static const ArtifactLoad every = {.find = eval_find};
  static StateCase c;
  if (!codegen_there()) SKIP("there is no code generator");
  open_case(&c, chain, BY_TARGET, "cpu");
  REQUIRE(c.session);
  Str bytes;
  Program *p = NULL;
  REQUIRE(!artifact_bytes(c.made.program, &c.arena, &c.d, &bytes));
  session_free(c.session);
  program_release(c.made.program);
  c.made.program = NULL;
  c.session = NULL;
  if (artifact_load_memory(bytes.p, bytes.n, NULL, &every, &c.d, &p) ||
      session_create(p, &(SessionOptions){.threads = 2}, &c.d, &c.session)) {
    FAIL("%s", c.d.text);
  } else {
    EXPECT_INT_EQ(session_state_count(c.session), 1);
    check_runs(&c, BY_TARGET, false);
  }
  program_release(p);
  close_case(&c);
}

// ---- plans ----

TEST(state_plan_is_verified) {
  static StateCase c;
  open_case(&c, chain, BY_PLAN, NULL);
  MemPlan *p = c.made.plan;
  REQUIRE(p);
  EXPECT_STATUS(plan_verify(p, &c.d), TENON_OK);
  int64_t writer = -1;
  for (int64_t i = 0; i < p->order.n; i++)
    if (plan_state(p, p->order.v[i]) && p->order.v[i]->op != OP_param && writer < 0) writer = i;
  REQUIRE(writer > 0);
  int caught = 0;
  for (int64_t i = writer; i > 0; i--) {  // the writer earlier and earlier
    Node *n = p->order.v[i];
    p->order.v[i] = p->order.v[i - 1];
    p->order.v[i - 1] = n;
    diag_init(&c.d);
    caught += plan_verify(p, &c.d) && strstr(c.d.text, "read after it was written over");
  }
  EXPECT(caught > 0);
  close_case(&c);
}
