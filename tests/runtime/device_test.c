// device_test.c -- programs on a device that is there: copies, host steps in between, faults,
// sizes, concurrent sessions.
//
// The device is OpenCL's; without one the tests are skipped.  What the driver's failures do is in
// opencl_fake_test.c.
#include "base/platform.h"
#include "compiled.h"
#include "runtime/device.h"
#include "targets/target.h"
#include "test.h"

#include <math.h>

static bool there(const char **why) { return target_there(target_find("opencl"), why); }

#define NEED_DEVICE()                                                                              \
  do {                                                                                             \
    const char *why;                                                                               \
    if (!there(&why)) SKIP(why);                                                                   \
  } while (0)

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++) switch (v->dtype) {
    case DT_F32: ((float *)v->data)[i] = (float)((i * 7 + 3) % 11) / 4 - 1; break;
    case DT_I64: ((int64_t *)v->data)[i] = (i * 2 + 1) % 4; break;
    case DT_BOOL: ((uint8_t *)v->data)[i] = 1; break;
    default: memset(v->data, 0, (size_t)elem_bytes(v->dtype)); break;
    }
}

static bool near(const Value *a, const Value *b) {
  if (a->n != b->n || a->dtype != b->dtype) return false;
  for (int64_t i = 0; i < a->n; i++) {
    double x = val_f64(a, i), y = val_f64(b, i);
    if (fabs(x - y) > 1e-5 * (1 + fabs(y))) return false;
  }
  return true;
}

// ---- what a plan can have ----

static const char *const cases[] = {
    // a parameter goes over once, though two kernels and a view need it; two results come back
    "graph(%x: f32[4, 6]) { %k = const i64[2] {6, 4} %v = reshape(%x, %k) %a = softmax(%x) axis=1 "
    "%b = mat_mul(%x, %v) %c = exp(%v) %d = mat_mul(%c, %b) return y = %a, z = %d }",
    // the host in between: what it makes has a size that depends on data
    "graph(%x: f32[4, 6]) { %w = const f32[6, 2] {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12} %m "
    "= mat_mul(%x, %w) %r = relu(%m) %n = non_zero(%r) %f = cast(%n) to=f32 %e = neg(%f) %s = "
    "softmax(%m) axis=0 return y = %e, z = %s }",
    // a branch and a loop, whose bodies are on the device, too
    "graph(%x: f32[4], %c: bool[]) { %y = if(%c, %x, %x) then_captures=1 then_branch={(%p: f32[4]) "
    "%a = exp(%p) %b = tanh(%a) return %b} else_branch={(%q: f32[4]) %e = neg(%q) return %e} %z = "
    "sigmoid(%y) return z = %z }",
    // adjacent parts of a result
    "graph(%x: f32[16, 16], %y: f32[16, 16]) { %w = const f32[1] {0.5} %a = mat_mul(%x, %y) %b = "
    "mat_mul(%y, %x) %c = concat(%a, %b) axis=0 %d = mul(%b, %w) return c = %c, d = %d }",
    // dynamic shapes
    "graph(%x: f32[n, 8], %y: f32[8, n]) { %a = mat_mul(%x, %y) %b = softmax(%a) axis=1 %c = "
    "mat_mul(%b, %x) return a = %a, c = %c }",
    // a result that is an input, and one that is a constant
    "graph(%x: f32[3]) { %k = const f32[3] {1, 2, 3} %a = add(%x, %k) return x = %x, a = %a }",
    // nothing at all in it
    "graph(%x: f32[0, 4], %y: f32[4]) { %a = exp(%x) %b = exp(%y) return a = %a, b = %b }",
};

TEST(device_runs_what_the_interpreter_does) {
  static BothWays b;
  NEED_DEVICE();
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    bool ok = both_ways_run(&b, cases[i], "opencl", fill, NULL, NULL);
    if (!ok) FAIL("%s\n%s", b.diag.text, cases[i]);
    for (int k = 0; ok && k < 2 && b.want[k]; k++)
      if (!near(b.got[k], b.want[k])) FAIL("result %d is another\n%s", k, cases[i]);
    both_ways_free(&b);
  }
}

// ---- copies ----

static int64_t count_moves(const Program *p) {
  int64_t n = 0;
  const ProgFunction *f = p->function[0];
  for (int32_t i = 0; i < f->nsteps; i++)
    n += f->step[i].kind == STEP_COPY &&
         f->value[f->step[i].in[0]].device != f->value[f->step[i].out[0]].device;
  return n;
}

static Program *compiled(const char *text, Arena *a, Diag *d) {
  Program *p = NULL;
  arena_init(a);
  diag_init(d);
  if (compile_text(text, "opencl", a, d, &p)) FAIL("%s", d->text);
  return p;
}

TEST(device_copies_no_more_than_needed) {
  NEED_DEVICE();
  Arena a;
  Diag d;
  // x over once for all, y and z back
  Program *p = compiled(cases[0], &a, &d);
  REQUIRE(p);
  EXPECT_INT_EQ(count_moves(p), 3);
  // every number of the plan is looked at before it runs
  ProgFunction *f = p->function[0];
  for (int32_t i = 0; i < f->nsteps; i++) {
    if (f->step[i].kind != STEP_KERNEL) continue;
    ProgValue *v = &f->value[f->step[i].arg[0]];
    v->device ^= 1;
    EXPECT(program_check(p, &d) != TENON_OK);
    v->device ^= 1;
  }
  for (int32_t i = 0; i < p->nkernels; i++) {
    p->kernel[i].device = 7;
    EXPECT(program_check(p, &d) != TENON_OK);
    p->kernel[i].device = 1;
  }
  EXPECT_STATUS(program_check(p, &d), TENON_OK);
  program_release(p);
  arena_deinit(&a);
}

// ---- faults ----

static tenon_status run_within(Session *s, int64_t index, int64_t limit, Diag *d, float *out) {
  Run run;
  Value *in[2] = {NULL}, *got[1] = {NULL};
  diag_init(d);
  run_init(&run, NULL, d);
  tenon_status st = value_tensor(&run, NOWHERE, DT_F32, 2, (int64_t[]){4, 2}, &in[0]);
  if (!st) st = value_tensor(&run, NOWHERE, DT_I64, 1, (int64_t[]){1}, &in[1]);
  if (!st) {
    fill(in[0]);
    *(int64_t *)in[1]->data = index;
    run.max_bytes = limit;
    st = session_run(s, &run, in, NULL, got);
  }
  if (!st) *out = ((float *)got[0]->data)[0];
  run_deinit(&run);
  return st;
}

static tenon_status run_gather(Session *s, int64_t index, Diag *d, float *out) {
  return run_within(s, index, 0, d, out);
}

// The host holds three values, the device a block for each.
TEST(device_memory_counts_against_the_limit) {
  NEED_DEVICE();
  Arena a;
  Diag d;
  Session *s;
  float y = 0;
  Program *p = compiled(
      "graph(%x: f32[4, 2], %i: i64[1]) { %g = gather(%x, %i) axis=0 return y = %g }", &a, &d);
  REQUIRE(p);
  EXPECT_STATUS(session_create(p, &(SessionOptions){.threads = 1}, &d, &s), TENON_OK);
  EXPECT_STATUS(run_within(s, 2, 100, &d, &y), TENON_ENOMEM);
  EXPECT_CONTAINS(d.text, "memory of devices");
  EXPECT_STATUS(run_within(s, 2, 10000, &d, &y), TENON_OK);
  session_free(s);
  program_release(p);
  arena_deinit(&a);
}

TEST(device_check_that_fails_ends_the_run) {
  NEED_DEVICE();
  Arena a;
  Diag d;
  Session *s;
  float first = 0, again = 1;
  Program *p =
      compiled("graph(%x: f32[4, 2], %i: i64[1]) { %e = exp(%x) %g = gather(%e, %i) axis=0 "
               "%t = tanh(%g) return y = %t }",
               &a, &d);
  REQUIRE(p);
  EXPECT_STATUS(session_create(p, &(SessionOptions){.threads = 1}, &d, &s), TENON_OK);
  EXPECT_STATUS(run_gather(s, 2, &d, &first), TENON_OK);
  EXPECT_STATUS(run_gather(s, 9, &d, &again), TENON_EINVAL);
  EXPECT_CONTAINS(d.text, "index");
  EXPECT_STATUS(run_gather(s, 2, &d, &again), TENON_OK);
  EXPECT_F64_EQ(again, first);
  session_free(s);
  program_release(p);
  arena_deinit(&a);
}

// ---- profiles and observers ----

static tenon_status see(void *ctx, const ProgStep *st, int32_t value, const Value *v) {
  (void)st, (void)value;
  *(int64_t *)ctx += v->n;
  return TENON_OK;
}

TEST(device_steps_are_measured_and_shown) {
  NEED_DEVICE();
  Arena a;
  Diag d;
  Session *s;
  int64_t seen = 0;
  float out;
  Program *p =
      compiled("graph(%x: f32[4, 2], %i: i64[1]) { %e = exp(%x) %g = gather(%e, %i) axis=0 "
               "%t = softmax(%g) axis=1 return y = %t }",
               &a, &d);
  REQUIRE(p);
  SessionOptions o = {.threads = 1, .profile = true, .observe = see, .observe_ctx = &seen};
  EXPECT_STATUS(session_create(p, &o, &d, &s), TENON_OK);
  EXPECT_STATUS(run_gather(s, 1, &d, &out), TENON_OK);
  const StepTime *t = session_times(s, 0);
  for (int32_t i = 0; i < p->function[0]->nsteps; i++) EXPECT_INT_EQ(t[i].calls, 1);
  EXPECT(seen >= 10);
  session_free(s);
  program_release(p);
  arena_deinit(&a);
}

// ---- sessions at the same time ----

typedef struct Job {
  Program *program;
  float out[8];
  tenon_status status;
} Job;

static void *work(void *ctx) {
  Job *j = ctx;
  Diag d;
  Session *s;
  diag_init(&d);
  j->status = session_create(j->program, &(SessionOptions){.threads = 1}, &d, &s);
  for (int i = 0; i < 8 && !j->status; i++) j->status = run_gather(s, i % 4, &d, &j->out[i]);
  session_free(s);
  return NULL;
}

TEST(device_sessions_at_the_same_time) {
  enum { SESSIONS = 3 };
  NEED_DEVICE();
  Arena a;
  Diag d;
  Job job[SESSIONS];
  void *thread[SESSIONS];
  Program *p =
      compiled("graph(%x: f32[4, 2], %i: i64[1]) { %e = exp(%x) %g = gather(%e, %i) axis=0 "
               "%t = tanh(%g) return y = %t }",
               &a, &d);
  REQUIRE(p);
  for (int i = 0; i < SESSIONS; i++) {
    job[i] = (Job){.program = p};
    REQUIRE(!platform->thread_start(work, &job[i], &thread[i]));
  }
  for (int i = 0; i < SESSIONS; i++) platform->thread_join(thread[i]);
  for (int i = 0; i < SESSIONS; i++) {
    EXPECT_STATUS(job[i].status, TENON_OK);
    EXPECT(!memcmp(job[i].out, job[0].out, sizeof job[0].out));
  }
  program_release(p);
  arena_deinit(&a);
}

// ---- choosing ----

TEST(device_that_is_not_there) {
  const DeviceDriver *v = device_driver("opencl");
  Diag d;
  int index;
  diag_init(&d);
  EXPECT(v && !device_driver("none"));
  EXPECT(v->find("no such device", &d, &index) != TENON_OK);
  EXPECT_CONTAINS(d.text, "no OpenCL device");
}
