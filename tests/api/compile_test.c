// compile_test.c -- programs and sessions through the public interface.
//
// Every model of tests/models is compiled for every target that is there, at every level, and run
// on one, two and three threads: the same bits on each, and within rounding what tenon_run gives.
#include "test.h"
#include "base/platform.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MODELS TENON_SOURCE_DIR "/tests/models/"

static tenon_error error;

// ---- the models ----

static tenon_status like_first(tenon_op_call *c, void *user) {
  (void)user;
  for (size_t i = 1; i < tenon_op_output_count(c); i++)
    tenon_op_shape(c, i, TENON_DTYPE_I64, 0, NULL);
  return tenon_op_shape_like(c, 0, 0);
}

// Every element with the constant that `user` points to added.
static tenon_status add_user(tenon_op_call *c, void *user) {
  tenon_tensor x;
  tenon_op_input(c, 0, &x);
  float *y = tenon_op_output(c, 0, TENON_DTYPE_F32, x.rank, x.shape);
  int64_t n = 1;
  for (int i = 0; i < x.rank; i++) n *= x.shape[i];
  for (int64_t i = 0; y && i < n; i++) y[i] = ((float *)x.data)[i] + *(float *)user;
  for (size_t i = 1; i < tenon_op_output_count(c); i++)
    tenon_op_output(c, i, TENON_DTYPE_I64, 0, NULL);
  return TENON_OK;
}

static float added = 1;
static const tenon_op ops[] = {
    {sizeof(tenon_op), "com.example.Ramp", like_first, add_user, &added},
    {sizeof(tenon_op), "com.example.Blur", like_first, add_user, &added},
};

static tenon_model *open_model(const char *path) {
  tenon_open_options o = {.struct_size = sizeof o, .ops = ops, .nops = ARRAY_LEN(ops)};
  tenon_model *m = NULL;
  if (tenon_model_open_with(path, &o, &m, &error)) FAIL("%s", error.message);
  return m;
}

static tenon_model *open_text(const char *text) {
  tenon_model *m = NULL;
  tenon_open_options o = {.struct_size = sizeof o, .ops = ops, .nops = ARRAY_LEN(ops)};
  if (tenon_model_open_memory(text, strlen(text), &o, &m, &error)) FAIL("%s", error.message);
  return m;
}

static tenon_program *compile(const tenon_model *m, const char *target, int level) {
  tenon_options o = {.struct_size = sizeof o, .target = target, .opt_level = level, .threads = 2};
  tenon_program *p = NULL;
  tenon_status s = tenon_compile(m, &o, &p, &error);
  EXPECT((s == TENON_OK) == (p != NULL));
  // C cannot hold every model, and says so.
  if (s && (s != TENON_EUNSUPPORTED || strcmp(target, "c")))
    FAIL("%s -O%d: %s", target, level, error.message);
  return p;
}

static tenon_session *session(tenon_program *p, int threads, bool profile) {
  tenon_session_options o = {.struct_size = sizeof o, .threads = threads, .profile = profile};
  tenon_session *s = NULL;
  if (tenon_session_create(p, &o, &s, &error)) FAIL("%s", error.message);
  return s;
}

enum { MAX_VALUES = 4, MAX_BYTES = 1 << 16 };
typedef struct Inputs {
  tenon_tensor t[MAX_VALUES];
  _Alignas(64) char bytes[MAX_VALUES][MAX_BYTES];
} Inputs;
static Inputs in;

static void fill_input(const tenon_value_info *v, size_t i, int64_t size) {
  tenon_tensor *t = &in.t[i];
  *t = (tenon_tensor){.data = in.bytes[i], .dtype = v->dtype, .rank = v->rank};
  int64_t n = 1;
  for (int k = 0; k < v->rank; k++) {
    t->shape[k] = !v->symbol[k] ? v->shape[k] : !strcmp(v->symbol[k], "h") ? 3 * size : size;
    n *= t->shape[k];
  }
  for (int64_t k = 0; k < n; k++) {
    if (v->dtype == TENON_DTYPE_STRING)
      ((tenon_string *)t->data)[k] = (tenon_string){"birch", k % 6};
    else if (v->dtype == TENON_DTYPE_I64)
      ((int64_t *)t->data)[k] = v->rank ? k % 3 : 5;
    else if (v->dtype == TENON_DTYPE_F32)
      ((float *)t->data)[k] = (float)(k * 5 % 7) / 4 - 0.5f;
  }
}

static bool fill_inputs(const tenon_model *m, int64_t size) {
  tenon_value_info v;
  for (size_t i = 0; i < tenon_model_input_count(m); i++) {
    tenon_model_input(m, i, &v);
    if (v.kind != TENON_KIND_TENSOR) return false;
    fill_input(&v, i, size);
  }
  for (size_t i = 0; i < tenon_model_output_count(m); i++)
    if (tenon_model_output(m, i, &v) || v.kind != TENON_KIND_TENSOR) return false;
  return true;
}

static bool same(const tenon_tensor *a, const tenon_tensor *b, bool exact) {
  if (a->dtype != b->dtype || a->rank != b->rank ||
      memcmp(a->shape, b->shape, sizeof a->shape[0] * (size_t)a->rank))
    return false;
  int64_t bytes = tenon_tensor_size(a->dtype, a->rank, a->shape);
  if (a->dtype == TENON_DTYPE_STRING) {
    const tenon_string *x = a->data, *y = b->data;
    for (int64_t i = 0; i < bytes / (int64_t)sizeof *x; i++)
      if (x[i].size != y[i].size || memcmp(x[i].data, y[i].data, (size_t)x[i].size)) return false;
    return true;
  }
  if (exact || a->dtype != TENON_DTYPE_F32) return !memcmp(a->data, b->data, (size_t)bytes);
  for (int64_t i = 0; i < bytes / 4; i++) {
    float x = ((float *)a->data)[i], y = ((float *)b->data)[i];
    if (!(fabsf(x - y) <= 1e-6f + 1e-5f * fabsf(y))) return false;
  }
  return true;
}

static void release(tenon_tensor *t, size_t n) {
  for (size_t i = 0; i < n; i++) tenon_tensor_release(&t[i]);
}

// ---- every model on every target ----

static const char *const models[] = {
    "mlp.onnx",     "conv.onnx",     "shapes.onnx",    "branch.onnx", "loop.onnx",   "scan.onnx",
    "strings.onnx", "external.onnx", "functions.onnx", "quant.onnx",  "custom.onnx", "text.tir"};

static void check_program(const tenon_model *m, tenon_program *p, bool device, const char *what) {
  size_t nin = tenon_program_input_count(p), nout = tenon_program_output_count(p);
  EXPECT_INT_EQ(nin, tenon_model_input_count(m));
  EXPECT_INT_EQ(nout, tenon_model_output_count(m));
  tenon_tensor first[2][MAX_VALUES] = {{{0}}};
  for (int threads = 1; threads <= 3; threads++) {
    tenon_session *s = session(p, threads, false);
    REQUIRE(s);
    EXPECT_INT_EQ(tenon_session_threads(s), threads);
    if (!device) EXPECT_INT_EQ(tenon_session_device_bytes(s), 0);
    // Two sizes in one session: nothing is compiled again.
    for (int64_t size = 3; size <= 4; size++) {
      tenon_tensor want[MAX_VALUES] = {{0}}, got[MAX_VALUES] = {{0}};
      fill_inputs(m, size);
      if (tenon_run((tenon_model *)(uintptr_t)m, in.t, nin, want, nout, NULL, &error)) continue;
      if (tenon_session_run(s, in.t, nin, got, nout, NULL, &error))
        FAIL("%s: %s", what, error.message);
      for (size_t i = 0; got[i].data && i < nout; i++) {
        if (!same(&got[i], &want[i], false)) FAIL("%s: output %zu is another", what, i);
        if (threads > 1 && !same(&got[i], &first[size - 3][i], true))
          FAIL("%s: output %zu differs on %d threads", what, i, threads);
      }
      release(want, nout);
      if (threads == 1)
        memcpy(first[size - 3], got, sizeof got);
      else
        release(got, nout);
    }
    tenon_session_release(s);
  }
  release(first[0], nout);
  release(first[1], nout);
}

TEST_LONG(compiled_models_run) {
  tenon_target_info t;
  for (size_t k = 0; !tenon_target(k, &t); k++) {
    int64_t ran = 0;
    for (int64_t i = 0; t.available && i < ARRAY_LEN(models); i++) {
      char path[512], what[600];
      snprintf(path, sizeof path, "%s%s", MODELS, models[i]);
      tenon_model *m = open_model(path);
      REQUIRE(m);
      // Drivers take long to compile: one level there.
      bool device = !strcmp(t.name, "opencl") || !strcmp(t.name, "cuda");
      for (int level = device ? 3 : -1; level <= 3 && fill_inputs(m, 3);
           level += level < 0 ? 2 : 1) {
        tenon_program *p = compile(m, t.name, level);
        snprintf(what, sizeof what, "%s on %s at -O%d", models[i], t.name, level);
        if (p) check_program(m, p, device, what), ran++;
        tenon_program_release(p);
      }
      tenon_model_close(m);
    }
    bool once = !strcmp(t.name, "opencl") || !strcmp(t.name, "cuda");
    EXPECT(!t.available ||
           ran >= (once ? 1 : 4) * ARRAY_LEN(models) / 2);  // half of them, at each level
  }
  EXPECT_STATUS(tenon_target(tenon_target_count(), &t), TENON_EINVAL);
}

// ---- what a program says of itself ----

static const char add_text[] = "graph @\"add\"(%x: f32[n, 2], %y: f32[n, 2]) -> (z: f32[n, 2]) {\n"
                               "  %a = add(%x, %y)\n"
                               "  %z = mul(%a, %a)\n"
                               "  return %z\n"
                               "}\n";
static const char big_text[] =
    "graph @\"big\"(%x: f32[512, 1024], %y: f32[512, 1024]) -> (z: f32[512, 1024]) {\n"
    "  %a = add(%x, %y)\n"
    "  %z = mul(%a, %x)\n"
    "  return %z\n"
    "}\n";

TEST(program_describes_itself) {
  tenon_model *m = open_text(add_text);
  tenon_program *p = compile(m, "ref", 3);
  tenon_model_close(m);  // the program needs it no more
  REQUIRE(p);
  tenon_value_info v;
  tenon_program_info info;
  EXPECT_STATUS(tenon_program_input(p, 1, &v), TENON_OK);
  EXPECT_STR_EQ(v.name, "y");
  EXPECT_STR_EQ(v.type, "f32[n, 2]");
  EXPECT_STR_EQ(v.symbol[0], "n");
  EXPECT(v.shape[0] == -1 && v.shape[1] == 2 && !v.symbol[1]);
  EXPECT_STATUS(tenon_program_output(p, 0, &v), TENON_OK);
  EXPECT_STR_EQ(v.name, "z");
  EXPECT_STATUS(tenon_program_input(p, 2, &v), TENON_EINVAL);
  EXPECT_STATUS(tenon_program_output(p, 1, &v), TENON_EINVAL);
  tenon_program_describe(p, &info);
  EXPECT_STR_EQ(info.target, "ref");
  EXPECT(info.kernels == 1 && info.host_steps == 0 && info.steps >= 1);
  EXPECT(tenon_program_retain(p) == p);
  tenon_program_release(p);
  tenon_session *s = session(p, 1, false);
  REQUIRE(s);
  EXPECT(tenon_session_program(s) == p);
  tenon_program_release(p);  // the session has one of its own
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {1, 1, 1, 1, 1, 1}, z[6];
  tenon_tensor t[2] = {{.data = x, .dtype = TENON_DTYPE_F32, .rank = 2, .shape = {3, 2}},
                       {.data = y, .dtype = TENON_DTYPE_F32, .rank = 2, .shape = {3, 2}}};
  tenon_tensor out = {.data = z, .bytes = sizeof z};
  EXPECT_STATUS(tenon_session_run(s, t, 2, &out, 1, NULL, &error), TENON_OK);
  EXPECT(z[0] == 4 && z[5] == 49 && out.shape[0] == 3 && out.rank == 2);
  tenon_session_release(s);
  tenon_session_release(NULL);
  tenon_program_release(NULL);
}

TEST(compile_fixes_sizes) {
  tenon_model *m = open_text(add_text);
  tenon_dim dims[] = {{"n", 5}};
  tenon_options o = {.struct_size = sizeof o, .target = "host", .dims = dims, .ndims = 1};
  tenon_program *p = NULL;
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_OK);
  REQUIRE(p);
  tenon_value_info v;
  tenon_program_input(p, 0, &v);
  EXPECT_STR_EQ(v.type, "f32[5, 2]");
  tenon_model_input(m, 0, &v);
  EXPECT_STR_EQ(v.type, "f32[n, 2]");
  tenon_session *s = session(p, 1, false);
  fill_inputs(m, 3);
  tenon_tensor out = {0};
  EXPECT_STATUS(tenon_session_run(s, in.t, 2, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "must be f32[5, 2]");
  fill_inputs(m, 5);
  EXPECT_STATUS(tenon_session_run(s, in.t, 2, &out, 1, NULL, &error), TENON_OK);
  tenon_tensor_release(&out);
  tenon_session_release(s);
  tenon_program_release(p);
  dims[0].name = "batch";
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "no symbolic dimension 'batch'");
  tenon_model_close(m);
}

// ---- errors ----

TEST(compile_refuses) {
  tenon_model *m = open_text(add_text);
  tenon_program *p;
  tenon_options o = {.struct_size = 8};
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "struct_size of the options is 8");
  o = (tenon_options){.struct_size = sizeof o, .target = "abacus"};
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "no target 'abacus'");
  o = (tenon_options){.struct_size = sizeof o, .opt_level = 4};
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  o = (tenon_options){.struct_size = sizeof o, .math = (tenon_math)7};
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  o = (tenon_options){.struct_size = sizeof o, .threads = -1};
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  o = (tenon_options){.struct_size = sizeof o, .ndims = 1};
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  tenon_dim bad[] = {{NULL, 1}, {"n", -1}};
  o = (tenon_options){.struct_size = sizeof o, .dims = bad, .ndims = 1};
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  o.dims = bad + 1;
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EINVAL);
  EXPECT(!p);
  EXPECT_STATUS(tenon_compile(NULL, NULL, &p, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_compile(m, NULL, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_compile(m, NULL, NULL, NULL), TENON_EINVAL);
  tenon_model_close(m);
  m = NULL;
  EXPECT_STATUS(tenon_model_open(MODELS "custom.onnx", &m, &error), TENON_OK);
  o = (tenon_options){.struct_size = sizeof o, .target = "host"};
  EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(error.message, "com.example.");
  tenon_model_close(m);
}

TEST(session_refuses) {
  tenon_model *m = open_text(add_text);
  tenon_program *p = compile(m, "ref", 3);
  REQUIRE(p);
  tenon_session *s = NULL;
  tenon_session_options o = {.struct_size = 3};
  EXPECT_STATUS(tenon_session_create(p, &o, &s, &error), TENON_EINVAL);
  o = (tenon_session_options){.struct_size = sizeof o, .threads = -1};
  EXPECT_STATUS(tenon_session_create(p, &o, &s, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_create(NULL, NULL, &s, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_create(p, NULL, NULL, &error), TENON_EINVAL);
  EXPECT(!s);
  s = session(p, 2, false);
  REQUIRE(s);
  fill_inputs(m, 3);
  tenon_tensor out = {0}, t[2] = {in.t[0], in.t[1]};
  EXPECT_STATUS(tenon_session_run(NULL, t, 2, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_run(s, t, 1, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "takes 2 inputs");
  EXPECT_STATUS(tenon_session_run(s, t, 2, &out, 0, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_run(s, NULL, 2, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_run(s, t, 2, &out, 1, &(tenon_run_options){.struct_size = 1}, &error),
                TENON_EINVAL);
  t[1].shape[0] = 2;
  EXPECT_STATUS(tenon_session_run(s, t, 2, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "must be f32[3, 2]");
  t[1] = in.t[1];
  t[1].dtype = TENON_DTYPE_I32;
  EXPECT_STATUS(tenon_session_run(s, t, 2, &out, 1, NULL, &error), TENON_EINVAL);
  t[1] = in.t[1];
  t[1].data = NULL;
  EXPECT_STATUS(tenon_session_run(s, t, 2, &out, 1, NULL, &error), TENON_EINVAL);
  t[1] = in.t[1];
  char small[4];
  out = (tenon_tensor){.data = small, .bytes = sizeof small};
  EXPECT_STATUS(tenon_session_run(s, t, 2, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "needs 24 bytes, the buffer has 4");
  tenon_run_options limit = {.struct_size = sizeof limit, .memory_limit = 1};
  out = (tenon_tensor){0};
  EXPECT_STATUS(tenon_session_run(s, t, 2, &out, 1, &limit, &error), TENON_ENOMEM);
  EXPECT(!out.data);
  // After all that it runs.
  EXPECT_STATUS(tenon_session_run(s, t, 2, &out, 1, NULL, &error), TENON_OK);
  tenon_tensor_release(&out);
  tenon_session_release(s);
  tenon_program_release(p);
  tenon_model_close(m);
}

TEST(session_takes_tensors_only) {
  tenon_model *m = open_model(MODELS "kinds.onnx");
  REQUIRE(m);
  tenon_program *p = compile(m, "host", 3);
  tenon_session *s = session(p, 1, false);
  tenon_value_info v;
  EXPECT_STATUS(tenon_program_input(p, 0, &v), TENON_OK);
  EXPECT(v.kind == TENON_KIND_SEQUENCE && v.rank == -1);
  tenon_tensor t[MAX_VALUES] = {{0}}, out[MAX_VALUES] = {{0}};
  EXPECT_STATUS(tenon_session_run(s, t, tenon_program_input_count(p), out,
                                  tenon_program_output_count(p), NULL, &error),
                TENON_EUNSUPPORTED);
  tenon_session_release(s);
  tenon_program_release(p);
  tenon_model_close(m);
}

// ---- buffers ----

static _Alignas(64) float big[3][512 * 1024 + 64];
static _Atomic int64_t largest_alloc;  // by any thread of the session

static void *watch_alloc(int64_t bytes) {
  int64_t seen = largest_alloc;
  while (bytes > seen && !atomic_compare_exchange_weak(&largest_alloc, &seen, bytes)) continue;
  return platform_posix.alloc(bytes);
}

// The largest block that a run asks for, with the output at `offset` floats from an aligned place.
static int64_t largest_block(tenon_session *s, int64_t in_offset, int64_t out_offset) {
  Platform table = platform_posix;
  table.alloc = watch_alloc;
  int64_t shape[2] = {512, 1024}, bytes = 512 * 1024 * 4;
  tenon_tensor t[2] = {{.data = big[0] + in_offset, .dtype = TENON_DTYPE_F32, .rank = 2},
                       {.data = big[1] + in_offset, .dtype = TENON_DTYPE_F32, .rank = 2}};
  for (int i = 0; i < 2; i++) memcpy(t[i].shape, shape, sizeof shape);
  for (int i = 0; i < 512 * 1024 + 64; i++) big[0][i] = big[1][i] = (float)(i % 100);
  tenon_tensor out = {.data = big[2] + out_offset, .bytes = bytes};
  memset(big[2], 0, sizeof big[2]);
  platform = &table;
  largest_alloc = 0;
  tenon_status st = tenon_session_run(s, t, 2, &out, 1, NULL, &error);
  platform = &platform_posix;
  if (st) FAIL("%s", error.message);
  float x = big[0][in_offset + 77];
  EXPECT_F64_EQ(big[2][out_offset + 77], (x + x) * x);
  EXPECT(out.data == big[2] + out_offset && out.shape[1] == 1024);
  return largest_alloc;
}

// A copy of a tensor of 2 MiB needs a block of that size: no run asks for one, wherever the
// elements lie.
TEST(buffers_are_not_copied) {
  tenon_model *m = open_text(big_text);
  tenon_target_info target;
  for (size_t k = 0; !tenon_target(k, &target); k++) {
    if (!target.available || !strcmp(target.name, "host")) continue;
    tenon_program *p = compile(m, target.name, 3);
    tenon_session *s = session(p, 2, false);
    REQUIRE(s);
    EXPECT(largest_block(s, 0, 0) < 1 << 20);
    EXPECT(largest_block(s, 1, 0) < 1 << 20);
    EXPECT(largest_block(s, 3, 1) < 1 << 20);
    tenon_session_release(s);
    tenon_program_release(p);
  }
  tenon_model_close(m);
}

static _Atomic int64_t allocs;

static void *count_alloc(int64_t bytes) {
  allocs++;
  return platform_posix.alloc(bytes);
}

// Blocks that ten bound runs ask for, after some that found their memory.
static int64_t allocs_of_runs(tenon_session *s) {
  Platform table = platform_posix;
  tenon_status st = TENON_OK;
  table.alloc = count_alloc;
  for (int i = 0; i < 13 && !st; i++) {
    if (i == 3) {
      allocs = 0;
      platform = &table;
    }
    st = tenon_session_run_bound(s, NULL, &error);
  }
  platform = &platform_posix;
  if (st) FAIL("%s", error.message);
  return allocs;
}

// Under AddressSanitizer values are not used again.
#ifdef UNDER_ASAN
enum { FEW = 100 };
#else
enum { FEW = 0 };
#endif

TEST(bound_runs_allocate_nothing) {
  tenon_model *m = open_text(add_text);
  tenon_target_info target;
  for (size_t k = 0; !tenon_target(k, &target); k++) {
    if (!target.available || strcmp(target.name, "cpu")) continue;
    tenon_program *p = compile(m, target.name, 3);
    for (int threads = 1; threads <= 3; threads++) {
      tenon_session *s = session(p, threads, false);
      REQUIRE(s);
      fill_inputs(m, 3);
      for (size_t i = 0; i < 2; i++)
        EXPECT_STATUS(tenon_session_bind_input(s, i, &in.t[i], &error), TENON_OK);
      EXPECT(allocs_of_runs(s) <= FEW);
      tenon_session_release(s);
    }
    tenon_program_release(p);
  }
  tenon_model_close(m);
}

TEST(session_binds_buffers) {
  tenon_model *m = open_text(add_text);
  tenon_program *p = compile(m, "ref", 3);
  tenon_session *s = session(p, 2, false);
  REQUIRE(s);
  tenon_tensor got;
  fill_inputs(m, 3);
  EXPECT_STATUS(tenon_session_output(s, 0, &got, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_bind_input(s, 0, &in.t[0], &error), TENON_OK);
  EXPECT_STATUS(tenon_session_run_bound(s, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "nothing is bound");
  EXPECT_STATUS(tenon_session_bind_input(s, 2, &in.t[0], &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_bind_input(s, 1, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_bind_input(s, 1, &(tenon_tensor){.rank = 99}, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_bind_input(s, 1, &in.t[1], &error), TENON_OK);
  EXPECT_STATUS(tenon_session_bind_output(s, 1, NULL, &error), TENON_EINVAL);
  // In memory of the session, then in the caller's, and back.
  EXPECT_STATUS(tenon_session_run_bound(s, NULL, &error), TENON_OK);
  EXPECT_STATUS(tenon_session_output(s, 0, &got, &error), TENON_OK);
  EXPECT(got.data && got.shape[0] == 3 && !got.owner);
  static _Alignas(64) float z[6];
  tenon_tensor room = {.data = z, .bytes = sizeof z};
  float want = ((float *)got.data)[5];
  EXPECT_STATUS(tenon_session_bind_output(s, 0, &(tenon_tensor){.data = z}, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_bind_output(s, 0, &room, &error), TENON_OK);
  EXPECT_STATUS(tenon_session_output(s, 0, &got, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_run_bound(s, NULL, &error), TENON_OK);
  EXPECT_STATUS(tenon_session_output(s, 0, &got, &error), TENON_OK);
  EXPECT(got.data == z);
  EXPECT_F64_EQ(z[5], want);
  EXPECT_STATUS(tenon_session_output(s, 1, &got, &error), TENON_EINVAL);
  // Another size of the input no longer fits the room: the run says so, and unbinding helps.
  in.t[0].shape[0] = in.t[1].shape[0] = 4;
  EXPECT_STATUS(tenon_session_bind_input(s, 0, &in.t[0], &error), TENON_OK);
  EXPECT_STATUS(tenon_session_bind_input(s, 1, &in.t[1], &error), TENON_OK);
  EXPECT_STATUS(tenon_session_run_bound(s, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_session_bind_output(s, 0, NULL, &error), TENON_OK);
  EXPECT_STATUS(tenon_session_run_bound(s, NULL, &error), TENON_OK);
  EXPECT_STATUS(tenon_session_output(s, 0, &got, &error), TENON_OK);
  EXPECT_INT_EQ(got.shape[0], 4);
  // The session's memory is used again, for smaller results too.
  void *first = got.data;
  for (int64_t n = 4; n >= 3; n--) {
    in.t[0].shape[0] = in.t[1].shape[0] = n;
    EXPECT_STATUS(tenon_session_bind_input(s, 0, &in.t[0], &error), TENON_OK);
    EXPECT_STATUS(tenon_session_bind_input(s, 1, &in.t[1], &error), TENON_OK);
    EXPECT_STATUS(tenon_session_run_bound(s, NULL, &error), TENON_OK);
    EXPECT_STATUS(tenon_session_output(s, 0, &got, &error), TENON_OK);
    EXPECT(got.data == first && got.shape[0] == n);
  }
  EXPECT_F64_EQ(((float *)got.data)[5], want);
  EXPECT_STATUS(tenon_session_run_bound(NULL, NULL, &error), TENON_EINVAL);
  tenon_session_release(s);
  tenon_program_release(p);
  tenon_model_close(m);
}

// ---- profile ----

TEST(session_profiles_steps) {
  tenon_model *m = open_text(big_text);
  tenon_program *p = compile(m, "ref", 3);
  tenon_session *s = session(p, 1, true);
  tenon_step st;
  int64_t kernels = 0;
  largest_block(s, 0, 0);
  largest_block(s, 0, 0);
  for (size_t i = 0; i < tenon_session_step_count(s); i++) {
    EXPECT_STATUS(tenon_session_step(s, i, &st), TENON_OK);
    EXPECT_INT_EQ(st.calls, 2);
    if (st.kind != TENON_STEP_KERNEL) continue;
    kernels++;
    EXPECT(st.ns > 0 && st.name[0]);
    EXPECT_F64_EQ(st.flops, 2 * 512 * 1024.0);
    EXPECT_F64_EQ(st.bytes, 3 * 512 * 1024 * 4.0);
  }
  EXPECT_INT_EQ(kernels, 1);
  EXPECT_STATUS(tenon_session_step(s, tenon_session_step_count(s), &st), TENON_EINVAL);
  tenon_session_profile_reset(s);
  EXPECT_STATUS(tenon_session_step(s, 0, &st), TENON_OK);
  EXPECT(st.calls == 0 && st.ns == 0);
  tenon_session_release(s);
  s = session(p, 1, false);
  largest_block(s, 0, 0);
  tenon_session_profile_reset(s);
  EXPECT_STATUS(tenon_session_step(s, 0, &st), TENON_OK);
  EXPECT_INT_EQ(st.calls, 0);
  tenon_session_release(s);
  tenon_program_release(p);
  tenon_model_close(m);
}

// ---- views ----

// What only gives elements another shape has no kernel, but sizes that do not fit are an error all
// the same.
TEST(views_check_their_sizes) {
  static const char *const texts[] = {
      "graph @\"g\"(%x: f32[n]) -> (f32[2, 3]) {\n  %s = const i64[2] {2, 3}\n"
      "  %y = reshape(%x, %s) : f32[2, 3]\n  return %y\n}\n",
      "graph @\"g\"(%x: f32[n]) -> (f32[6, floor(n/6)]) {\n  %s = const i64[2] {6, -1}\n"
      "  %y = reshape(%x, %s) : f32[6, floor(n/6)]\n  return %y\n}\n",
      "graph @\"g\"(%x: f32[n]) -> (f32[6]) {\n  %s = const i64[2] {-1, 6}\n  %a = const i64[1] "
      "{0}\n"
      "  %r = reshape(%x, %s) : f32[floor(n/6), 6]\n  %y = squeeze(%r, %a) : f32[6]\n  return "
      "%y\n}\n"};
  tenon_target_info t;
  float x[12] = {0}, y[12];
  for (size_t k = 0; !tenon_target(k, &t); k++)
    for (size_t i = 0; t.available && i < ARRAY_LEN(texts); i++) {
      tenon_model *m = open_text(texts[i]);
      tenon_program *p = compile(m, t.name, 3);
      tenon_session *s = p ? session(p, 1, false) : NULL;
      for (int64_t n = 5; s && n < 8; n++) {
        tenon_tensor given = {.dtype = TENON_DTYPE_F32, .rank = 1, .shape = {n}, .data = x};
        tenon_tensor out = {.data = y, .bytes = sizeof y};
        tenon_status status = tenon_session_run(s, &given, 1, &out, 1, NULL, &error);
        if ((status == TENON_OK) != (n == 6))
          FAIL("%s: graph %zu of %lld elements gives %s", t.name, i, (long long)n,
               tenon_status_name(status));
      }
      tenon_session_release(s);
      tenon_program_release(p);
      tenon_model_close(m);
    }
}

// ---- subnormals ----

// Compiled code takes them for zeros; but no step up or down is lost with that.
TEST(floor_and_ceil_see_subnormals) {
  static const char text[] =
      "graph @\"g\"(%x: f32[4]) -> (f32[4], f32[4]) {\n  %c = ceil(%x) : f32[4]\n"
      "  %f = floor(%x) : f32[4]\n  return %c, %f\n}\n";
  float x[4] = {0x1p-149F, -0x1p-127F, 0, 0x1p-126F}, up[4], down[4];
  tenon_target_info cpu = {0};
  for (size_t k = 0; !tenon_target(k, &cpu) && strcmp(cpu.name, "cpu"); k++) {}
  if (!cpu.available) SKIP("the target cpu is not there");
  tenon_model *m = open_text(text);
  tenon_program *p = compile(m, "cpu", 3);
  tenon_session *s = session(p, 1, false);
  tenon_tensor given = {.dtype = TENON_DTYPE_F32, .rank = 1, .shape = {4}, .data = x};
  tenon_tensor out[2] = {{.data = up, .bytes = sizeof up}, {.data = down, .bytes = sizeof down}};
  EXPECT_STATUS(tenon_session_run(s, &given, 1, out, 2, NULL, &error), TENON_OK);
  EXPECT(up[0] == 1 && up[1] == 0 && up[2] == 0 && up[3] == 1);
  EXPECT(down[0] == 0 && down[1] == -1 && down[2] == 0 && down[3] == 0);
  tenon_session_release(s);
  tenon_program_release(p);
  tenon_model_close(m);
}

// ---- progress and cancelling ----

typedef struct EpilogueWalk {
  int calls, stop_at;
  bool stages[5];
} EpilogueWalk;

static int walk(const tenon_progress *p, void *user) {
  static const char *const stage[] = {"read", "optimise", "plan", "lower", "make code"};
  EpilogueWalk *f = user;
  bool known = false;
  for (int i = 0; i < 5; i++)
    if (!strcmp(stage[i], p->stage)) known = f->stages[i] = true;
  EXPECT(known && p->what && p->done >= 0 && p->done < p->total);
  return f->calls++ == f->stop_at;
}

TEST(compile_can_be_cancelled_at_every_step) {
  tenon_model *m = open_text(add_text);
  tenon_target_info t;
  for (size_t k = 0; !tenon_target(k, &t); k++) {
    if (!t.available) continue;
    EpilogueWalk f = {.stop_at = -1};
    tenon_options o = {.struct_size = sizeof o, .target = t.name, .progress = walk, .user = &f};
    tenon_program *p = NULL;
    EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_OK);
    tenon_program_release(p);
    EXPECT(f.stages[0] && f.stages[1] && f.stages[2] && f.stages[3]);
    EXPECT_INT_EQ(f.stages[4], !strcmp(t.name, "cpu"));
    for (int calls = f.calls, i = 0; i < calls; i++) {
      f = (EpilogueWalk){.stop_at = i};
      EXPECT_STATUS(tenon_compile(m, &o, &p, &error), TENON_ECANCELLED);
      EXPECT(!p);
      EXPECT_CONTAINS(error.message, "cancelled");
    }
  }
  tenon_model_close(m);
}

// ---- programs in files ----

static void check_loaded(const tenon_model *m, tenon_program *p, tenon_program *loaded) {
  size_t nin = tenon_model_input_count(m), nout = tenon_model_output_count(m);
  tenon_tensor a[MAX_VALUES] = {{0}}, b[MAX_VALUES] = {{0}};
  tenon_session *one = session(p, 2, false), *two = session(loaded, 3, false);
  REQUIRE(one && two);
  fill_inputs(m, 3);
  EXPECT_STATUS(tenon_session_run(one, in.t, nin, a, nout, NULL, &error), TENON_OK);
  EXPECT_STATUS(tenon_session_run(two, in.t, nin, b, nout, NULL, &error), TENON_OK);
  for (size_t i = 0; i < nout; i++) {
    tenon_value_info x, y;
    EXPECT(same(&a[i], &b[i], true));
    EXPECT(!tenon_program_output(p, i, &x) && !tenon_program_output(loaded, i, &y));
    EXPECT_STR_EQ(x.name, y.name);
    EXPECT_STR_EQ(x.type, y.type);
  }
  release(a, nout);
  release(b, nout);
  tenon_session_release(one);
  tenon_session_release(two);
}

TEST(programs_are_saved_and_loaded) {
  static _Alignas(64) char bytes[1 << 20];
  char path[500];
  snprintf(path, sizeof path, "%s/saved.tenon", test_folder());
  tenon_model *m = open_model(MODELS "custom.onnx");
  REQUIRE(m);
  tenon_program *p = compile(m, "auto", 3), *q = NULL;
  EXPECT_STATUS(tenon_program_save(p, path, &error), TENON_OK);
  tenon_load_options o = {.struct_size = sizeof o, .ops = ops, .nops = ARRAY_LEN(ops)};
  EXPECT_STATUS(tenon_program_load(path, &o, &q, &error), TENON_OK);
  if (q) check_loaded(m, p, q);
  tenon_program_release(q);
  EXPECT_STATUS(tenon_program_load(path, NULL, &q, &error), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(error.message, "is not given");
  FILE *f = fopen(path, "rb");
  REQUIRE(f);
  size_t n = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  EXPECT_STATUS(tenon_program_load_memory(bytes, n, &o, &q, &error), TENON_OK);
  if (q) check_loaded(m, p, q);
  tenon_program_release(q);
  bytes[n / 2] ^= 1;
  EXPECT_STATUS(tenon_program_load_memory(bytes, n, &o, &q, &error), TENON_EFORMAT);
  EXPECT(!q);
  EXPECT_STATUS(tenon_program_load_memory(bytes + 1, n - 1, &o, &q, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_program_load(NULL, &o, &q, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_program_load(path, &o, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_program_load("/nonexistent.tenon", &o, &q, &error), TENON_EIO);
  EXPECT_STATUS(tenon_program_load(MODELS "mlp.onnx", &o, &q, &error), TENON_EFORMAT);
  o.struct_size = 2;
  EXPECT_STATUS(tenon_program_load(path, &o, &q, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_program_save(p, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_program_save(NULL, path, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_program_save(p, "/nonexistent/x.tenon", &error), TENON_EIO);
  tenon_program_release(p);
  p = compile(m, "ref", 3);
  EXPECT_STATUS(tenon_program_save(p, path, &error), TENON_EUNSUPPORTED);
  tenon_program_release(p);
  tenon_model_close(m);
}

TEST(variants_are_saved_and_one_is_loaded) {
  char path[500];
  snprintf(path, sizeof path, "%s/variants.tenon", test_folder());
  tenon_model *m = open_model(MODELS "custom.onnx");
  REQUIRE(m);
  tenon_program *host = compile(m, "host", 3), *cpu = compile(m, "auto", 3), *q = NULL;
  tenon_program_info info;
  tenon_program_describe(cpu, &info);
  const char *best = info.target;
  if (strcmp(best, "host")) {
    const tenon_program *both[] = {host, cpu}, *twice[] = {cpu, cpu}, *gap[] = {cpu, NULL};
    EXPECT_STATUS(tenon_programs_save(both, 2, path, &error), TENON_OK);
    tenon_load_options o = {.struct_size = sizeof o, .ops = ops, .nops = ARRAY_LEN(ops)};
    EXPECT_STATUS(tenon_program_load(path, &o, &q, &error), TENON_OK);
    REQUIRE(q);
    tenon_program_describe(q, &info);
    EXPECT_STR_EQ(info.target, best);
    check_loaded(m, cpu, q);
    tenon_program_release(q);
    o.target = "host";
    EXPECT_STATUS(tenon_program_load(path, &o, &q, &error), TENON_OK);
    REQUIRE(q);
    tenon_program_describe(q, &info);
    EXPECT_STR_EQ(info.target, "host");
    tenon_program_release(q);
    // The struct of the version before had no target.
    o.struct_size = offsetof(tenon_load_options, target);
    EXPECT_STATUS(tenon_program_load(path, &o, &q, &error), TENON_OK);
    REQUIRE(q);
    tenon_program_describe(q, &info);
    EXPECT_STR_EQ(info.target, best);
    tenon_program_release(q);
    o.struct_size = sizeof o;
    o.target = "abacus";
    EXPECT_STATUS(tenon_program_load(path, &o, &q, &error), TENON_EUNSUPPORTED);
    EXPECT_CONTAINS(error.message, "it was not compiled for abacus");
    EXPECT_STATUS(tenon_programs_save(twice, 2, path, &error), TENON_EINVAL);
    EXPECT_STATUS(tenon_programs_save(gap, 2, path, &error), TENON_EINVAL);
    EXPECT_STATUS(tenon_programs_save(both, 0, path, &error), TENON_EINVAL);
    EXPECT_STATUS(tenon_programs_save(both, 2, NULL, &error), TENON_EINVAL);
    tenon_model *another = open_text(add_text);
    tenon_program *sum = compile(another, "host", 3);
    const tenon_program *two_models[] = {cpu, sum};
    EXPECT_STATUS(tenon_programs_save(two_models, 2, path, &error), TENON_EINVAL);
    EXPECT_CONTAINS(error.message, "variants are of one model");
    tenon_program_release(sum);
    tenon_model_close(another);
  }
  tenon_program_release(host);
  tenon_program_release(cpu);
  tenon_model_close(m);
}
