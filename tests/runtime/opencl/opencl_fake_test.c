// opencl_fake_test.c -- the OpenCL driver on a table of calls that fail on purpose.
//
// The table has one device; buffers are memory, kernels do nothing.  It counts what is alive.  A
// model is compiled, loaded and run twice with the k-th call failing, for every k, with several
// codes, once or from there on: each time an error that names the call, nothing left behind,
// nothing that counts as a result, and a session that can be used again when the device works
// again.
#include "base/cache.h"
#include "compiled.h"
#include "runtime/opencl/api.h"
#include "runtime/opencl/opencl.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

// ---- the table ----

typedef struct Object {
  int kind;
  int64_t bytes;
  char data[];
} Object;
enum { CONTEXT, QUEUE, MEM, PROGRAM, KERNEL, EVENT, KINDS };
static const char *const kind_name[] = {"context", "queue", "buffer", "program", "kernel", "event"};

static struct Fake {
  int64_t calls, fail_at;
  bool for_good;  // all calls from there on
  cl_int code;
  const char *failed;  // the call that failed first
  int64_t live[KINDS];
  int64_t misused;  // calls with an object of another kind, or outside of a buffer
  int64_t launches, sources, binaries;
  cl_int fault;  // that the next launch writes
  int64_t max_buffer;
} fake;

static cl_int step(const char *name) {
  int64_t k = ++fake.calls;
  bool fails = fake.fail_at && (k == fake.fail_at || (fake.for_good && k > fake.fail_at));
  if (fails && !fake.failed) fake.failed = name;
  return fails ? fake.code : 0;
}

static void *make(int kind, int64_t bytes, const char *name, cl_int *code) {
  *code = step(name);
  if (*code) return NULL;
  Object *o = calloc(1, sizeof *o + (size_t)bytes);
  o->kind = kind;
  o->bytes = bytes;
  fake.live[kind]++;
  return o;
}

static Object *object(const void *p, int kind) {
  Object *o = (Object *)(uintptr_t)p;
  if (!o || o->kind != kind) fake.misused++;
  return o;
}

// Whether it says that it worked or not, the object is gone: as of a device that was lost.
static cl_int drop(void *p, int kind, const char *name) {
  object(p, kind);
  fake.live[kind]--;
  free(p);
  return step(name);
}

static char *inside(cl_mem m, size_t at, size_t n) {
  Object *o = object(m, MEM);
  if (!n || at + n > (size_t)o->bytes) fake.misused++;
  return o->data + at;
}

// ---- finding ----

static cl_int fake_platforms(cl_uint n, cl_platform_id *id, cl_uint *out) {
  cl_int code = step("clGetPlatformIDs");
  if (code) return code;
  if (n) id[0] = (cl_platform_id)(void *)&fake;
  *out = 1;
  return 0;
}

static cl_int fake_devices(cl_platform_id p, cl_bits type, cl_uint n, cl_device_id *id,
                           cl_uint *out) {
  cl_int code = step("clGetDeviceIDs");
  (void)p, (void)type;
  if (code) return code;
  if (n) id[0] = (cl_device_id)(void *)&fake;
  *out = 1;
  return 0;
}

static cl_int give(const void *value, size_t bytes, size_t room, void *to, size_t *out) {
  if (out) *out = bytes;
  if (!to) return 0;
  if (room < bytes) return CL_INVALID_VALUE;
  memcpy(to, value, bytes);
  return 0;
}

static cl_int fake_platform_info(cl_platform_id p, cl_uint what, size_t n, void *to, size_t *out) {
  cl_int code = step("clGetPlatformInfo");
  (void)p, (void)what;
  return code ? code : give("fake", 5, n, to, out);
}

static cl_int fake_device_info(cl_device_id d, cl_uint what, size_t n, void *to, size_t *out) {
  cl_int code = step("clGetDeviceInfo");
  cl_ulong number = 1;
  (void)d;
  if (code) return code;
  if (what == CL_DEVICE_NAME || what == CL_DRIVER_VERSION || what == CL_DEVICE_VERSION ||
      what == CL_DEVICE_EXTENSIONS)
    return give("fake", 5, n, to, out);
  if (what == CL_DEVICE_TYPE) number = CL_DEVICE_TYPE_GPU;
  if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE) number = (cl_ulong)fake.max_buffer;
  if (what == CL_DEVICE_GLOBAL_MEM_SIZE) number = 1 << 30;
  if (what == CL_DEVICE_MAX_WORK_GROUP_SIZE) number = 256;
  if (what == CL_DEVICE_LOCAL_MEM_SIZE) number = 32 << 10;
  return give(&number, sizeof number, n, to, out);
}

// ---- objects ----

static cl_context fake_context(const intptr_t *p, cl_uint n, const cl_device_id *d,
                               ClContextNotify *f, void *ctx, cl_int *code) {
  (void)p, (void)n, (void)d, (void)f, (void)ctx;
  return make(CONTEXT, 0, "clCreateContext", code);
}
static cl_command_queue fake_queue(cl_context c, cl_device_id d, cl_bits how, cl_int *code) {
  object(c, CONTEXT);
  (void)d, (void)how;
  return make(QUEUE, 0, "clCreateCommandQueue", code);
}
static cl_mem fake_buffer(cl_context c, cl_bits how, size_t n, void *p, cl_int *code) {
  object(c, CONTEXT);
  (void)how, (void)p;
  return make(MEM, (int64_t)n, "clCreateBuffer", code);
}
static cl_program fake_source(cl_context c, cl_uint n, const char **text, const size_t *bytes,
                              cl_int *code) {
  object(c, CONTEXT);
  (void)n, (void)text, (void)bytes;
  fake.sources++;
  return make(PROGRAM, 0, "clCreateProgramWithSource", code);
}
static cl_program fake_binary(cl_context c, cl_uint n, const cl_device_id *d, const size_t *bytes,
                              const unsigned char **p, cl_int *took, cl_int *code) {
  object(c, CONTEXT);
  (void)n, (void)d, (void)bytes, (void)p;
  *took = 0;
  fake.binaries++;
  return make(PROGRAM, 0, "clCreateProgramWithBinary", code);
}
static cl_kernel fake_kernel(cl_program p, const char *name, cl_int *code) {
  object(p, PROGRAM);
  (void)name;
  return make(KERNEL, 0, "clCreateKernel", code);
}

static cl_int fake_free_context(cl_context o) { return drop(o, CONTEXT, "clReleaseContext"); }
static cl_int fake_free_queue(cl_command_queue o) {
  return drop(o, QUEUE, "clReleaseCommandQueue");
}
static cl_int fake_free_buffer(cl_mem o) { return drop(o, MEM, "clReleaseMemObject"); }
static cl_int fake_free_program(cl_program o) { return drop(o, PROGRAM, "clReleaseProgram"); }
static cl_int fake_free_kernel(cl_kernel o) { return drop(o, KERNEL, "clReleaseKernel"); }
static cl_int fake_free_event(cl_event o) { return drop(o, EVENT, "clReleaseEvent"); }

// ---- programs ----

static cl_int fake_build(cl_program p, cl_uint n, const cl_device_id *d, const char *options,
                         ClBuildNotify *f, void *ctx) {
  object(p, PROGRAM);
  (void)n, (void)d, (void)options, (void)f, (void)ctx;
  return step("clBuildProgram");
}
static cl_int fake_program_info(cl_program p, cl_uint what, size_t n, void *to, size_t *out) {
  cl_int code = step("clGetProgramInfo");
  size_t bytes = 4;
  object(p, PROGRAM);
  if (code) return code;
  if (what == CL_PROGRAM_BINARY_SIZES) return give(&bytes, sizeof bytes, n, to, out);
  memcpy(*(unsigned char **)to, "code", bytes);
  return 0;
}
static cl_int fake_build_info(cl_program p, cl_device_id d, cl_uint what, size_t n, void *to,
                              size_t *out) {
  cl_int code = step("clGetProgramBuildInfo");
  object(p, PROGRAM);
  (void)d, (void)what;
  return code ? code : give("it was made to fail", 20, n, to, out);
}

// ---- queues ----

// The last two arguments of a kernel are the buffer of faults and the number of the slot.
static int64_t last_args[2];
static cl_int fake_arg(cl_kernel k, cl_uint i, size_t n, const void *value) {
  object(k, KERNEL);
  (void)i;
  if (n != 8) fake.misused++;
  last_args[0] = last_args[1];
  memcpy(&last_args[1], value, 8);
  return step("clSetKernelArg");
}
static cl_int fake_launch(cl_command_queue q, cl_kernel k, cl_uint dim, const size_t *offset,
                          const size_t *global, const size_t *local, cl_uint n, const cl_event *w,
                          cl_event *e) {
  cl_int code = step("clEnqueueNDRangeKernel");
  object(q, QUEUE);
  object(k, KERNEL);
  (void)offset, (void)n, (void)w, (void)e;
  if (dim != 1 || !*local || *global % *local) fake.misused++;
  if (code) return code;
  cl_mem faults = (cl_mem)(uintptr_t)last_args[0];
  if (fake.fault) memcpy(inside(faults, (size_t)last_args[1] * 4, 4), &fake.fault, 4);
  fake.launches++;
  return 0;
}
static cl_int fake_read(cl_command_queue q, cl_mem m, cl_uint wait, size_t at, size_t n, void *to,
                        cl_uint nw, const cl_event *w, cl_event *e) {
  cl_int code = step("clEnqueueReadBuffer");
  object(q, QUEUE);
  (void)wait, (void)nw, (void)w, (void)e;
  if (!code) memcpy(to, inside(m, at, n), n);
  return code;
}
static cl_int fake_write(cl_command_queue q, cl_mem m, cl_uint wait, size_t at, size_t n,
                         const void *from, cl_uint nw, const cl_event *w, cl_event *e) {
  cl_int code = step("clEnqueueWriteBuffer");
  object(q, QUEUE);
  (void)wait, (void)nw, (void)w, (void)e;
  if (!code) memcpy(inside(m, at, n), from, n);
  return code;
}
static cl_int fake_copy(cl_command_queue q, cl_mem from, cl_mem to, size_t from_at, size_t to_at,
                        size_t n, cl_uint nw, const cl_event *w, cl_event *e) {
  cl_int code = step("clEnqueueCopyBuffer");
  object(q, QUEUE);
  (void)nw, (void)w, (void)e;
  if (!code) memmove(inside(to, to_at, n), inside(from, from_at, n), n);
  return code;
}
static cl_int fake_fill(cl_command_queue q, cl_mem m, const void *with, size_t width, size_t at,
                        size_t n, cl_uint nw, const cl_event *w, cl_event *e) {
  cl_int code = step("clEnqueueFillBuffer");
  object(q, QUEUE);
  (void)with, (void)width, (void)nw, (void)w, (void)e;
  if (!code) memset(inside(m, at, n), 0, n);
  return code;
}
static cl_int fake_marker(cl_command_queue q, cl_uint n, const cl_event *w, cl_event *e) {
  cl_int code;
  object(q, QUEUE);
  (void)n, (void)w;
  *e = make(EVENT, 0, "clEnqueueMarkerWithWaitList", &code);
  return code;
}
static cl_int fake_time(cl_event e, cl_uint what, size_t n, void *to, size_t *out) {
  cl_int code = step("clGetEventProfilingInfo");
  cl_ulong ns = 1000;
  object(e, EVENT);
  (void)what;
  return code ? code : give(&ns, sizeof ns, n, to, out);
}
static cl_int fake_flush(cl_command_queue q) {
  object(q, QUEUE);
  return step("clFlush");
}
static cl_int fake_finish(cl_command_queue q) {
  object(q, QUEUE);
  return step("clFinish");
}

static const OpenclApi fake_api = {
    fake_platforms,    fake_platform_info, fake_devices,     fake_device_info,  fake_context,
    fake_free_context, fake_queue,         fake_free_queue,  fake_buffer,       fake_free_buffer,
    fake_source,       fake_binary,        fake_build,       fake_program_info, fake_build_info,
    fake_free_program, fake_kernel,        fake_free_kernel, fake_arg,          fake_launch,
    fake_read,         fake_write,         fake_copy,        fake_fill,         fake_marker,
    fake_time,         fake_free_event,    fake_flush,       fake_finish};

// ---- a model with everything: constants, a host step in between, a view, a body, two results ----

static const char model[] =
    "graph(%x: f32[4, 3], %i: i64[3], %c: bool[]) {\n"
    "  %w = const f32[3, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
    "  %m = mat_mul(%x, %w)\n"
    "  %s = gather(%m, %i) axis=0\n"
    "  %n = non_zero(%s)\n"
    "  %f = cast(%n) to=f32\n"
    "  %d = neg(%f)\n"
    "  %p = softmax(%m) axis=1\n"
    "  %z = if(%c, %p, %p) then_captures=1 then_branch={(%q: f32[4, 4]) %e = exp(%q) return %e}\n"
    "    else_branch={(%q: f32[4, 4]) %e = tanh(%q) return %e}\n"
    "  %k = const i64[2] {2, 8}\n"
    "  %v = reshape(%z, %k)\n"
    "  return y = %v, d = %d, s = %s\n}\n";

typedef struct Try {
  Arena arena;
  Diag d;
  Program *program;
  Session *session;
  bool profile;
} Try;

static void fill(Value *v) {
  for (int64_t i = 0; i < v->n; i++)
    if (v->dtype == DT_F32)
      ((float *)v->data)[i] = (float)i;
    else
      ((int64_t *)v->data)[i] = i;
}

static tenon_status run_once(Try *t, Value **out, Run *run) {
  Value *in[3];
  TRY(value_tensor(run, NOWHERE, DT_F32, 2, (int64_t[]){4, 3}, &in[0]));
  TRY(value_tensor(run, NOWHERE, DT_I64, 1, (int64_t[]){3}, &in[1]));
  TRY(value_tensor(run, NOWHERE, DT_BOOL, 0, NULL, &in[2]));
  for (int i = 0; i < 2; i++) fill(in[i]);
  *(uint8_t *)in[2]->data = 1;
  return session_run(t->session, run, in, NULL, out);
}

static tenon_status run_try(Try *t) {
  Run run;
  Value *out[3] = {NULL};
  run_init(&run, NULL, &t->d);
  tenon_status s = run_once(t, out, &run);
  for (int i = 0; i < 3; i++)
    if (s && out[i]) s = TENON_OK;  // what counts as a result although it failed
  run_deinit(&run);
  return s;
}

static tenon_status try_all(Try *t, const char *text) {
  if (!t->program) TRY(compile_text(text, "opencl", &t->arena, &t->d, &t->program));
  SessionOptions o = {.threads = 1, .profile = t->profile};
  if (!t->session) TRY(session_create(t->program, &o, &t->d, &t->session));
  TRY(run_try(t));
  return run_try(t);
}

static void open_try(Try *t, bool profile) {
  *t = (Try){.profile = profile};
  arena_init(&t->arena);
  diag_init(&t->d);
}

static void close_try(Try *t) {
  session_free(t->session);
  program_release(t->program);
  arena_deinit(&t->arena);
}

static void start_fake(int64_t fail_at, cl_int code, bool for_good) {
  memset(&fake, 0, sizeof fake);
  fake.fail_at = fail_at;
  fake.code = code;
  fake.for_good = for_good;
  fake.max_buffer = 1 << 28;
  opencl_use(&fake_api);
}

static void expect_clean(int64_t k) {
  opencl_use(NULL);  // which frees the context
  for (int i = 0; i < KINDS; i++)
    if (fake.live[i])
      FAIL("call %d, %s: %d of kind %s left", (int)k, fake.failed, (int)fake.live[i], kind_name[i]);
  if (fake.misused) FAIL("call %d, %s: %d calls misused", (int)k, fake.failed, (int)fake.misused);
}

// Calls without which everything can still be right: what is asked of a device, the cache, and
// giving things back.
static bool may_fail(const char *call) {
  return !strncmp(call, "clRelease", 9) || !strcmp(call, "clGetDeviceInfo") ||
         !strcmp(call, "clGetProgramInfo") || !strcmp(call, "clCreateProgramWithBinary") ||
         !strcmp(call, "clFlush") ||
         (!strcmp(call, "clBuildProgram") && fake.binaries && fake.sources);
}

static bool names_it(const char *text, const char *call) {
  return strstr(text, call) || strstr(text, "no OpenCL device");
}

// With call k failing.  Returns false when there is no such call.
static bool fail_call(int64_t k, cl_int code, bool for_good, bool profile) {
  Try t;
  start_fake(k, code, for_good);
  open_try(&t, profile);
  tenon_status s = try_all(&t, model);
  const char *failed = fake.failed;
  if (failed && !s && !may_fail(failed) && strcmp(failed, "clFinish"))
    FAIL("call %d, %s with %d: no error", (int)k, failed, (int)code);
  if (s && !failed) FAIL("an error without one: %s", t.d.text);
  if (s && failed && !names_it(t.d.text, failed) && !for_good)
    FAIL("call %d, %s: the message does not name it: %s", (int)k, failed, t.d.text);
  // The device works again: so does the session, where there is one.
  fake.fail_at = 0;
  if (t.session) {
    diag_init(&t.d);
    EXPECT_STATUS(run_try(&t), TENON_OK);
  }
  close_try(&t);
  expect_clean(k);
  return failed != NULL;
}

static int64_t fail_every_call(cl_int code, bool for_good, bool profile) {
  int64_t k = 1;
  while (fail_call(k, code, for_good, profile) && k < 100000) k++;
  return k - 1;
}

static void with_cache(void (*test)(void)) {
  char folder[] = "/tmp/tenon-opencl-XXXXXX";
  Arena a;
  Diag d;
  CachePruned pruned;
  REQUIRE(mkdtemp(folder));
  setenv("TENON_CACHE", folder, 1);
  test();
  arena_init(&a);
  diag_init(&d);
  EXPECT_STATUS(cache_prune(folder, 0, &a, &d, &pruned), TENON_OK);
  arena_deinit(&a);
  rmdir(folder);
  unsetenv("TENON_CACHE");
}

static void fail_once(void) {
  static const cl_int code[] = {CL_OUT_OF_RESOURCES, CL_DEVICE_NOT_AVAILABLE,
                                CL_OUT_OF_HOST_MEMORY};
  setenv("TENON_CACHE_MAX", "0", 1);  // so that each one compiles
  for (int64_t i = 0; i < ARRAY_LEN(code); i++) EXPECT(fail_every_call(code[i], false, false) > 60);
  unsetenv("TENON_CACHE_MAX");
  EXPECT(fail_every_call(CL_OUT_OF_RESOURCES, false, true) > 60);
}
TEST(opencl_every_call_fails_once) { with_cache(fail_once); }

static void fail_for_good(void) {
  EXPECT(fail_every_call(CL_DEVICE_NOT_AVAILABLE, true, false) > 60);
}
TEST(opencl_device_is_lost_at_every_call) { with_cache(fail_for_good); }

static void check_fault(void) {
  Try t;
  start_fake(0, 0, false);
  open_try(&t, false);
  EXPECT_STATUS(try_all(&t, model), TENON_OK);
  EXPECT(fake.launches >= 4);
  fake.fault = 1;
  EXPECT_STATUS(run_try(&t), TENON_EINVAL);
  fake.fault = 0;
  EXPECT_STATUS(run_try(&t), TENON_OK);  // the slots are clean again
  close_try(&t);
  expect_clean(0);
}
TEST(opencl_fault_ends_the_run) { with_cache(check_fault); }

static void check_large(void) {
  Try t;
  start_fake(0, 0, false);
  fake.max_buffer = 16;
  open_try(&t, false);
  EXPECT_STATUS(try_all(&t, model), TENON_ENOMEM);
  EXPECT_CONTAINS(t.d.text, "CL_DEVICE_MAX_MEM_ALLOC_SIZE");
  close_try(&t);
  expect_clean(0);
}
TEST(opencl_buffer_above_the_limit) { with_cache(check_large); }

static void check_cached(void) {
  Try t;
  for (int round = 0; round < 2; round++) {
    start_fake(0, 0, false);
    open_try(&t, false);
    EXPECT_STATUS(try_all(&t, model), TENON_OK);
    close_try(&t);
    EXPECT(round ? !fake.sources : fake.sources >= 4);  // one for each kernel
    expect_clean(0);
  }
}
TEST(opencl_built_code_is_kept) { with_cache(check_cached); }
