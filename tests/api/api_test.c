// api_test.c -- the public interface, as a program that links the library uses it.
#include "test.h"

#include <pthread.h>

#define MODELS TENON_SOURCE_DIR "/tests/models/"

static tenon_error error;

static tenon_model *open_text(const char *text, const tenon_open_options *o) {
  tenon_model *m = NULL;
  if (tenon_model_open_memory(text, strlen(text), o, &m, &error)) FAIL("%s", error.message);
  return m;
}

static tenon_model *open_file(const char *path, const tenon_open_options *o) {
  tenon_model *m = NULL;
  if (tenon_model_open_with(path, o, &m, &error)) FAIL("%s", error.message);
  return m;
}

static tenon_tensor vector(void *data, tenon_dtype t, int64_t n) {
  return (tenon_tensor){.data = data, .dtype = t, .rank = 1, .shape = {n}};
}

static tenon_tensor matrix(void *data, tenon_dtype t, int64_t rows, int64_t cols) {
  return (tenon_tensor){.data = data, .dtype = t, .rank = 2, .shape = {rows, cols}};
}

static const char add_text[] = "graph @\"add\"(%x: f32[n, 2], %y: f32[n, 2]) -> (z: f32[n, 2]) {\n"
                               "  %z = add(%x, %y)\n"
                               "  return %z\n"
                               "}\n";

// ---- opening and asking ----

TEST(api_names) {
  EXPECT_STR_EQ(tenon_version(), TENON_VERSION);
  EXPECT_STR_EQ(tenon_status_name(TENON_EUNSUPPORTED), "unsupported");
  EXPECT_STR_EQ(tenon_status_name((tenon_status)99), "?");
  EXPECT_STR_EQ(tenon_dtype_name(TENON_DTYPE_BF16), "bf16");
  EXPECT_STR_EQ(tenon_dtype_name((tenon_dtype)99), "?");
  EXPECT_INT_EQ(tenon_tensor_size(TENON_DTYPE_F32, 2, (int64_t[]){3, 5}), 60);
  EXPECT_INT_EQ(tenon_tensor_size(TENON_DTYPE_U4, 1, (int64_t[]){5}), 3);
  EXPECT_INT_EQ(tenon_tensor_size(TENON_DTYPE_F32, 0, NULL), 4);
  EXPECT_INT_EQ(tenon_tensor_size(TENON_DTYPE_F32, 1, (int64_t[]){-1}), -1);
  EXPECT_INT_EQ(tenon_tensor_size(TENON_DTYPE_F32, 17, (int64_t[17]){0}), -1);
  EXPECT_INT_EQ(tenon_tensor_size(TENON_DTYPE_F64, 1, (int64_t[]){INT64_MAX / 2}), -1);
}

TEST(api_describes_a_model) {
  tenon_model *m = open_file(MODELS "loop.onnx", NULL);
  REQUIRE(m);
  tenon_value_info v;
  EXPECT_INT_EQ(tenon_model_input_count(m), 2);
  EXPECT_INT_EQ(tenon_model_output_count(m), 2);
  EXPECT_INT_EQ(tenon_model_unsupported_count(m), 0);
  EXPECT_STATUS(tenon_model_input(m, 0, &v), TENON_OK);
  EXPECT_STR_EQ(v.name, "trips");
  EXPECT_STR_EQ(v.type, "i64[]");
  EXPECT(v.kind == TENON_KIND_TENSOR && v.dtype == TENON_DTYPE_I64 && v.rank == 0);
  EXPECT_STATUS(tenon_model_input(m, 1, &v), TENON_OK);
  EXPECT(v.rank == 1 && v.shape[0] == -1);
  EXPECT_STR_EQ(v.symbol[0], "n");
  EXPECT_STATUS(tenon_model_output(m, 0, &v), TENON_OK);
  EXPECT_STR_EQ(v.name, "y");
  EXPECT_STR_EQ(v.symbol[0], "n");
  EXPECT_STATUS(tenon_model_output(m, 1, &v), TENON_OK);
  EXPECT(v.rank == 1 && v.shape[0] == -1 && v.symbol[0]);
  EXPECT_STATUS(tenon_model_input(m, 2, &v), TENON_EINVAL);
  EXPECT_STATUS(tenon_model_output(m, 2, &v), TENON_EINVAL);
  tenon_model_close(m);
  m = open_file(MODELS "kinds.onnx", NULL);
  REQUIRE(m);
  EXPECT_STATUS(tenon_model_input(m, 0, &v), TENON_OK);
  EXPECT(v.kind == TENON_KIND_SEQUENCE && v.rank == -1);
  EXPECT_STR_EQ(v.type, "seq(f32[n])");
  tenon_model_close(m);
  tenon_model_close(NULL);
}

TEST(api_open_refuses) {
  tenon_model *m = (tenon_model *)&error;
  EXPECT_STATUS(tenon_model_open("/nonexistent.onnx", &m, &error), TENON_EIO);
  EXPECT(!m);
  EXPECT_STATUS(error.status, TENON_EIO);
  EXPECT_CONTAINS(error.message, "/nonexistent.onnx");
  EXPECT_STATUS(tenon_model_open("/nonexistent.onnx", &m, NULL), TENON_EIO);
  EXPECT_STATUS(tenon_model_open(NULL, &m, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_model_open("x", NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_model_open_memory("junk", 4, NULL, &m, &error), TENON_EFORMAT);
  EXPECT_STATUS(tenon_model_open_memory("", 0, NULL, &m, &error), TENON_EFORMAT);
  EXPECT_STATUS(tenon_model_open_memory(NULL, 0, NULL, &m, &error), TENON_EINVAL);
  tenon_open_options o = {.struct_size = 4};
  EXPECT_STATUS(tenon_model_open_memory(add_text, strlen(add_text), &o, &m, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "struct_size of the options is 4");
  o = (tenon_open_options){.struct_size = sizeof o, .threads = -1};
  EXPECT_STATUS(tenon_model_open_memory(add_text, strlen(add_text), &o, &m, &error), TENON_EINVAL);
  o = (tenon_open_options){.struct_size = sizeof o, .memory_limit = 1000};
  EXPECT_STATUS(tenon_model_open_memory(add_text, strlen(add_text), &o, &m, &error), TENON_ENOMEM);
  EXPECT_CONTAINS(error.message, "memory limit of 1000 bytes");
  EXPECT_STATUS(tenon_model_open_with(MODELS "loop.onnx", &o, &m, &error), TENON_ENOMEM);
  EXPECT(!m);
}

// Options of a later version are longer: what is beyond ours is not read as anything.
TEST(api_longer_options) {
  struct {
    tenon_open_options o;
    char more[64];
  } later = {.o = {.struct_size = sizeof later, .threads = 1}};
  memset(later.more, 0xAA, sizeof later.more);
  tenon_model *m = open_text(add_text, &later.o);
  tenon_model_close(m);
}

// A number for an integer input decides what depends on it while the model is read, and the input
// is gone.
TEST(api_numbers_of_inputs) {
  static const struct {
    const char *type;
    int rank;
    const char *wrong;
  } cases[] = {{"rate=8", 1, NULL},
               {"rate=16", 2, NULL},
               {"speed=8", 0, "there is no input 'speed' that could be 8"},
               {"x=8", 0, "the input is no single integer, but f32[m, n]"}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    tenon_open_options o = {.struct_size = sizeof o, .types = &cases[i].type, .ntypes = 1};
    tenon_model *m = NULL;
    tenon_value_info out;
    tenon_status s = tenon_model_open_with(MODELS "rate.onnx", &o, &m, &error);
    EXPECT_STATUS(s, cases[i].wrong ? TENON_EINVAL : TENON_OK);
    if (s) {
      EXPECT(cases[i].wrong && strstr(error.message, cases[i].wrong));
      continue;
    }
    EXPECT_INT_EQ(tenon_model_input_count(m), 1);
    EXPECT_STATUS(tenon_model_output(m, 0, &out), TENON_OK);
    EXPECT_INT_EQ(out.rank, cases[i].rank);
    tenon_model_close(m);
  }
  tenon_open_options o = {.struct_size = sizeof o, .types = &cases[0].type, .ntypes = 1};
  tenon_model *m = NULL;
  EXPECT_STATUS(tenon_model_open_memory(add_text, strlen(add_text), &o, &m, &error),
                TENON_EUNSUPPORTED);
}

static uint8_t *read_bytes(const char *path, size_t *size) {
  static uint8_t bytes[4096];
  FILE *f = fopen(path, "rb");
  *size = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  if (f) fclose(f);
  return bytes;
}

TEST(api_open_memory) {
  size_t size;
  uint8_t *bytes = read_bytes(MODELS "functions.onnx", &size);
  tenon_model *m = NULL;
  EXPECT_STATUS(tenon_model_open_memory(bytes, size, NULL, &m, &error), TENON_OK);
  EXPECT_STATUS(error.status, TENON_OK);
  EXPECT_STR_EQ(error.message, "");
  tenon_model_close(m);
  bytes = read_bytes(MODELS "external.onnx", &size);
  tenon_status s = tenon_model_open_memory(bytes, size, NULL, &m, &error);
  EXPECT(s == TENON_EINVAL || s == TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(error.message, "external.bin");
}

// ---- running ----

TEST(api_run_allocates) {
  tenon_model *m = open_text(add_text, NULL);
  REQUIRE(m);
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {10, 20, 30, 40, 50, 60};
  tenon_tensor in[2] = {matrix(x, TENON_DTYPE_F32, 3, 2), matrix(y, TENON_DTYPE_F32, 3, 2)};
  tenon_tensor out = {0};
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_OK);
  EXPECT(out.dtype == TENON_DTYPE_F32 && out.rank == 2 && out.shape[0] == 3 && out.shape[1] == 2);
  EXPECT_INT_EQ(out.bytes, 24);
  EXPECT((uintptr_t)out.data % 64 == 0);
  for (int i = 0; i < 6; i++) EXPECT_F64_EQ(((float *)out.data)[i], 11 * (i + 1));
  // The same memory again, for fewer rows.
  void *data = out.data;
  in[0].shape[0] = in[1].shape[0] = 1;
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_OK);
  EXPECT(out.data == data && out.shape[0] == 1 && out.bytes == 24);
  // Nothing at all.
  in[0].shape[0] = in[1].shape[0] = 0;
  in[0].data = in[1].data = NULL;
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_OK);
  EXPECT_INT_EQ(out.shape[0], 0);
  tenon_model_close(m);
  tenon_tensor_release(&out);
  EXPECT(!out.data && !out.owner);
  tenon_tensor_release(&out);
  tenon_tensor_release(NULL);
}

TEST(api_run_into_buffers) {
  tenon_model *m = open_text(add_text, NULL);
  REQUIRE(m);
  float x[6] = {1, 2, 3, 4, 5, 6}, z[6] = {7, 7, 7, 7, 7, 7};
  tenon_tensor in[2] = {matrix(x, TENON_DTYPE_F32, 3, 2), matrix(x, TENON_DTYPE_F32, 3, 2)};
  tenon_tensor out = {.data = z, .bytes = 23};
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "'z' (output): f32[3, 2] needs 24 bytes, the buffer has 23");
  EXPECT(out.data == z && out.rank == 0 && z[0] == 7);
  out.bytes = sizeof z;
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_OK);
  EXPECT(out.data == z && !out.owner && out.rank == 2 && z[5] == 12);
  tenon_tensor_release(&out);  // the caller's memory stays
  EXPECT_F64_EQ(z[5], 12);
  // An address that no float has.
  char odd[40];
  memcpy(odd + 1, x, sizeof x);
  in[0].data = odd + 1;
  out = (tenon_tensor){.data = odd + 3, .bytes = sizeof z};
  memcpy(z, x, sizeof z);
  in[1].data = z;
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_OK);
  float last;
  memcpy(&last, odd + 3 + 20, sizeof last);
  EXPECT_F64_EQ(last, 12);
  tenon_model_close(m);
}

TEST(api_run_refuses_inputs) {
  tenon_model *m = open_text(add_text, NULL);
  REQUIRE(m);
  float x[6] = {0};
  tenon_tensor good = matrix(x, TENON_DTYPE_F32, 3, 2), in[2], out = {0};
#define REFUSED(status, part)                                                                      \
  do {                                                                                             \
    EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), status);                             \
    EXPECT_CONTAINS(error.message, part);                                                          \
    EXPECT(!out.data);                                                                             \
    in[0] = in[1] = good;                                                                          \
  } while (0)
  in[0] = in[1] = good;
  in[0].dtype = TENON_DTYPE_F64;
  in[0].shape[0] = 1;
  REFUSED(TENON_EINVAL, "node 'x' (input): the value is f64[1, 2], must be f32[n, 2]");
  in[1].rank = 1;
  REFUSED(TENON_EINVAL, "'y' (input): the value is f32[3], must be f32[n, 2] with n=3");
  in[1].shape[0] = 2;
  REFUSED(TENON_EINVAL, "'y' (input): the value is f32[2, 2], must be f32[n, 2] with n=3");
  in[1].shape[1] = 1;
  REFUSED(TENON_EINVAL, "f32[3, 1]");
  in[1].rank = 17;
  REFUSED(TENON_EINVAL, "rank 17");
  in[1].rank = -1;
  REFUSED(TENON_EINVAL, "rank -1");
  in[1].dtype = TENON_DTYPE_NONE;
  REFUSED(TENON_EINVAL, "0 is not a dtype");
  in[1].shape[0] = -3;
  REFUSED(TENON_EINVAL, "[-3, 2]");
  in[1].shape[0] = INT64_MAX;
  REFUSED(TENON_EINVAL, "too large");
  in[1].bytes = 8;
  REFUSED(TENON_EINVAL, "takes 24 bytes, the buffer has 8");
  in[1].data = NULL;
  REFUSED(TENON_EINVAL, "'y' (input): the tensor has no data");
#undef REFUSED
  EXPECT_STATUS(tenon_run(m, in, 1, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "takes 2 inputs, 1 are given");
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 0, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_run(m, NULL, 2, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_run(m, in, 2, NULL, 1, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_run(NULL, in, 2, &out, 1, NULL, NULL), TENON_EINVAL);
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, &(tenon_run_options){0}, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_OK);
  tenon_tensor_release(&out);
  tenon_model_close(m);
}

TEST(api_run_limits) {
  tenon_model *m = open_file(MODELS "loop.onnx", NULL);
  REQUIRE(m);
  int64_t trips = INT64_MAX;
  float x[2] = {0, 0};
  tenon_tensor in[2] = {{.data = &trips, .dtype = TENON_DTYPE_I64}, vector(x, TENON_DTYPE_F32, 2)};
  tenon_tensor out[2] = {{0}, {0}};
  tenon_run_options o = {.struct_size = sizeof o, .max_iterations = 50};
  EXPECT(tenon_run(m, in, 2, out, 2, &o, &error) != TENON_OK);  // sums of 0 never reach its limit
  EXPECT_CONTAINS(error.message, "iteration");
  trips = 20;
  EXPECT_STATUS(tenon_run(m, in, 2, out, 2, &o, &error), TENON_OK);
  EXPECT_INT_EQ(out[1].shape[0], 20);
  for (int i = 0; i < 2; i++) tenon_tensor_release(&out[i]);
  o = (tenon_run_options){.struct_size = sizeof o, .max_operations = 1000};
  EXPECT_STATUS(tenon_run(m, in, 2, out, 2, &o, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "operations");
  o.max_operations = 100000;
  EXPECT_STATUS(tenon_run(m, in, 2, out, 2, &o, &error), TENON_OK);
  for (int i = 0; i < 2; i++) tenon_tensor_release(&out[i]);
  o = (tenon_run_options){.struct_size = sizeof o, .memory_limit = 40};
  EXPECT_STATUS(tenon_run(m, in, 2, out, 2, &o, &error), TENON_ENOMEM);
  EXPECT(!out[0].data && !out[1].data);
  tenon_model_close(m);
}

TEST(api_run_kinds) {
  tenon_model *m = open_file(MODELS "kinds.onnx", NULL);
  REQUIRE(m);
  tenon_tensor in[2] = {{0}}, out = {0};
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(error.message, "'xs' (input): seq(f32[n]) is not a tensor");
  EXPECT_CONTAINS(error.message, "tenon_run_values");
  tenon_model_close(m);
}

TEST(api_run_strings) {
  tenon_model *m = open_text("graph(%x: string[n], %y: string[m]) -> (z: string[m + n]) {\n"
                             "  %z = concat(%x, %y) axis=0\n"
                             "  return %z\n"
                             "}\n",
                             NULL);
  REQUIRE(m);
  tenon_string x[2] = {{"oak", 3}, {NULL, 0}}, y[1] = {{"b\xc3\xbc\0che", 7}};
  tenon_tensor in[2] = {vector(x, TENON_DTYPE_STRING, 2), vector(y, TENON_DTYPE_STRING, 1)};
  tenon_tensor out = {0};
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_OK);
  REQUIRE(out.data && out.shape[0] == 3);
  EXPECT_INT_EQ(out.bytes, 3 * (int64_t)sizeof(tenon_string) + 10);
  tenon_string *z = out.data;
  EXPECT(z[0].size == 3 && !memcmp(z[0].data, "oak", 3) && z[0].data != x[0].data);
  EXPECT(z[1].size == 0);
  EXPECT(z[2].size == 7 && !memcmp(z[2].data, y[0].data, 7));
  int64_t need = out.bytes;
  tenon_tensor_release(&out);
  char buffer[200];
  out = (tenon_tensor){.data = buffer, .bytes = need - 1};
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "needs 58 bytes, the buffer has 57");
  out.bytes = need;
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_OK);
  x[1].size = 5;
  EXPECT_STATUS(tenon_run(m, in, 2, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "string 1 has 5 bytes at");
  tenon_model_close(m);
}

TEST(api_run_external_data) {
  tenon_model *m = open_file(MODELS "external.onnx", NULL);
  REQUIRE(m);
  int64_t rows[3] = {5, 0, 5};
  tenon_tensor in = vector(rows, TENON_DTYPE_I64, 3), out = {0};
  EXPECT_STATUS(tenon_run(m, &in, 1, &out, 1, NULL, &error), TENON_OK);
  REQUIRE(out.data);
  EXPECT(!memcmp(out.data, (float *)out.data + 8, 16));
  tenon_tensor_release(&out);
  rows[1] = 6;
  EXPECT_STATUS(tenon_run(m, &in, 1, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "external.onnx: node 'rows'");
  tenon_model_close(m);
}

// ---- several threads ----

typedef struct Runner {
  tenon_model *m;
  const tenon_tensor *in;
  const float *want;
  int64_t n;
  int wrong;
} Runner;

static void *run_often(void *arg) {
  Runner *r = arg;
  for (int i = 0; i < 20; i++) {
    tenon_tensor out = {0};
    if (tenon_run(r->m, r->in, 1, &out, 1, NULL, NULL) ||
        memcmp(out.data, r->want, (size_t)r->n * sizeof(float)))
      r->wrong++;
    tenon_tensor_release(&out);
  }
  return NULL;
}

static const char wave_text[] = "graph(%x: f32[n]) -> (y: f32[n]) {\n"
                                "  %a = sin(%x)\n"
                                "  %b = exp(%a)\n"
                                "  %c = mul(%b, %x)\n"
                                "  %y = tanh(%c)\n"
                                "  return %y\n"
                                "}\n";

TEST(api_threads_share_a_model) {
  enum { N = 30000 };
  static float x[N], want[N];
  for (int i = 0; i < N; i++) x[i] = (float)i * 0.001f - 15;
  tenon_open_options one = {.struct_size = sizeof one, .threads = 1}, four = one;
  four.threads = 4;
  tenon_model *alone = open_text(wave_text, &one), *m = open_text(wave_text, &four);
  REQUIRE(alone && m);
  tenon_tensor in = vector(x, TENON_DTYPE_F32, N), out = {.data = want, .bytes = sizeof want};
  EXPECT_STATUS(tenon_run(alone, &in, 1, &out, 1, NULL, &error), TENON_OK);
  Runner r[2] = {{m, &in, want, N, 0}, {m, &in, want, N, 0}};
  pthread_t t[2];
  for (int i = 0; i < 2; i++) REQUIRE(!pthread_create(&t[i], NULL, run_often, &r[i]));
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  EXPECT_INT_EQ(r[0].wrong + r[1].wrong, 0);
  tenon_model_close(alone);
  tenon_model_close(m);
}

// ---- operators of the user's own ----

TEST(api_unsupported_report) {
  tenon_model *m = open_file(MODELS "custom.onnx", NULL);
  REQUIRE(m);
  tenon_unsupported u;
  REQUIRE(tenon_model_unsupported_count(m) == 2);
  EXPECT_STATUS(tenon_model_unsupported(m, 0, &u), TENON_OK);
  EXPECT_STR_EQ(u.op, "com.example.Ramp");
  EXPECT_STR_EQ(u.node, "ramp1");
  EXPECT_INT_EQ(u.count, 1);
  EXPECT_CONTAINS(u.why, "tenon_open_options.ops");
  EXPECT_STATUS(tenon_model_unsupported(m, 1, &u), TENON_OK);
  EXPECT_STR_EQ(u.op, "com.example.Blur");
  EXPECT_INT_EQ(u.count, 2);
  EXPECT_STATUS(tenon_model_unsupported(m, 2, &u), TENON_EINVAL);
  float x[2] = {0};
  tenon_tensor in = matrix(x, TENON_DTYPE_F32, 1, 2), out[3] = {{0}};
  EXPECT_STATUS(tenon_run(m, &in, 1, out, 3, NULL, &error), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(error.message, "2 operators of this model are not supported");
  EXPECT_CONTAINS(error.message, "com.example.Blur: 2 nodes, first 'blur1'");
  tenon_model_close(m);
}

static tenon_status ramp_shape(tenon_op_call *c, void *user) {
  (void)user;
  tenon_tensor x, none, w;
  EXPECT_STR_EQ(tenon_op_node(c), "ramp1");
  EXPECT(tenon_op_input_count(c) == 3 && tenon_op_output_count(c) == 2);
  EXPECT_STATUS(tenon_op_input(c, 0, &x), TENON_OK);
  EXPECT(x.dtype == TENON_DTYPE_F32 && x.rank == 2 && x.shape[0] == -1 && x.shape[1] == 2);
  EXPECT(!x.data);
  EXPECT_STATUS(tenon_op_input(c, 1, &none), TENON_OK);
  EXPECT(none.rank == -1 && none.dtype == TENON_DTYPE_NONE);
  EXPECT_STATUS(tenon_op_input(c, 2, &w), TENON_OK);
  EXPECT(w.data && w.rank == 1 && w.shape[0] == 2);
  int64_t dims[2] = {-1, 2};
  EXPECT_STATUS(tenon_op_shape(c, 0, TENON_DTYPE_F32, 2, dims), TENON_OK);
  EXPECT_STATUS(tenon_op_shape_dim(c, 0, 0, 0, 0), TENON_OK);
  return tenon_op_shape(c, 1, TENON_DTYPE_I64, 0, NULL);
}

static tenon_status ramp_run(tenon_op_call *c, void *user) {
  tenon_tensor x, none;
  int64_t offsets[2] = {0}, size;
  double power = 0;
  EXPECT_INT_EQ(tenon_op_attr_ints(c, "offsets", offsets, 2), 3);
  EXPECT(offsets[0] == 1 && offsets[1] == -2);
  EXPECT_INT_EQ(tenon_op_attr_floats(c, "power", &power, 1), 1);
  EXPECT_F64_EQ(power, 0.5);
  EXPECT_INT_EQ(tenon_op_attr_floats(c, "offsets", NULL, 0), 3);
  EXPECT_INT_EQ(tenon_op_attr_ints(c, "power", NULL, 0), -1);
  EXPECT_INT_EQ(tenon_op_attr_ints(c, "label", NULL, 0), -1);
  EXPECT_INT_EQ(tenon_op_attr_ints(c, "absent", NULL, 0), -1);
  EXPECT_STR_EQ(tenon_op_attr_text(c, "label", &size), "up");
  EXPECT_INT_EQ(size, 2);
  EXPECT(!tenon_op_attr_text(c, "absent", &size));
  EXPECT_STATUS(tenon_op_input(c, 0, &x), TENON_OK);
  EXPECT_STATUS(tenon_op_input(c, 1, &none), TENON_OK);
  EXPECT(none.rank == -1 && !none.data);
  float *y = tenon_op_output(c, 0, TENON_DTYPE_F32, 2, x.shape);
  int64_t *count = tenon_op_output(c, 1, TENON_DTYPE_I64, 0, NULL);
  if (!y || !count) return TENON_ENOMEM;
  for (int64_t i = 0; i < x.shape[0] * 2; i++) y[i] = ((const float *)x.data)[i] * 2;
  *count = x.shape[0];
  ++*(int *)user;
  return TENON_OK;
}

static tenon_status blur_shape(tenon_op_call *c, void *user) {
  (void)user;
  return tenon_op_shape_like(c, 0, 0);
}

static tenon_status blur_run(tenon_op_call *c, void *user) {
  tenon_tensor x;
  int how = *(int *)user;
  if (tenon_op_input(c, 0, &x)) return TENON_EINVAL;
  if (how == 1) return tenon_op_fail(c, TENON_EDEVICE, "the lens is dirty");
  if (how == 2) return TENON_EIO;
  if (how == 3) return TENON_OK;
  if (how == 4) x.shape[0]++;
  if (how == 5) tenon_op_input(c, 7, &x);
  float *y = tenon_op_output(c, 0, TENON_DTYPE_F32, x.rank, x.shape);
  if (how == 6) tenon_op_output(c, 0, TENON_DTYPE_F32, x.rank, x.shape);
  if (how == 7) tenon_op_output(c, 1, TENON_DTYPE_F32, x.rank, x.shape);
  if (how == 8) return (tenon_status)77;
  for (int64_t i = 0; y && i < x.shape[0] * 2; i++) y[i] = ((const float *)x.data)[i] + 1;
  return TENON_OK;
}

TEST(api_custom_ops) {
  int ramps = 0, how = 0;
  tenon_op ops[2] = {{sizeof *ops, "com.example.Ramp", ramp_shape, ramp_run, &ramps},
                     {sizeof *ops, "com.example.Blur", blur_shape, blur_run, &how}};
  tenon_open_options o = {.struct_size = sizeof o, .ops = ops, .nops = 2};
  tenon_model *m = open_file(MODELS "custom.onnx", &o);
  REQUIRE(m);
  memset(ops, 0, sizeof ops);  // they were copied
  EXPECT_INT_EQ(tenon_model_unsupported_count(m), 0);
  tenon_value_info v;
  tenon_model_output(m, 0, &v);
  EXPECT_STR_EQ(v.type, "f32[n, 2]");
  float x[4] = {1, 2, 3, 4};
  tenon_tensor in = matrix(x, TENON_DTYPE_F32, 2, 2), out[3] = {{0}};
  EXPECT_STATUS(tenon_run(m, &in, 1, out, 3, NULL, &error), TENON_OK);
  REQUIRE(out[0].data && out[1].data && out[2].data);
  EXPECT_F64_EQ(((float *)out[0].data)[3], -8);
  EXPECT_INT_EQ(*(int64_t *)out[1].data, 2);
  EXPECT_F64_EQ(((float *)out[2].data)[3], -7);
  EXPECT_INT_EQ(ramps, 1);
  for (int i = 0; i < 3; i++) tenon_tensor_release(&out[i]);
  static const struct {
    tenon_status status;
    const char *part;
  } bad[] = {
      {TENON_EDEVICE, "node 'blur2' (com.example.Blur): the lens is dirty"},
      {TENON_EIO, "the operator's callback failed (io)"},
      {TENON_EINVAL, "the callback did not make output 0"},
      {TENON_EINVAL, "the result is f32[3, 2], must be f32[n, 2] with n=2"},
      {TENON_EINVAL, "input 7 is asked for; there are 1"},
      {TENON_EINVAL, "output 0 is made twice"},
      {TENON_EINVAL, "output 1 is given; there are 1"},
      {TENON_EINVAL, "callback failed (invalid)"},
  };
  for (how = 1; how <= ARRAY_LEN(bad); how++) {
    EXPECT_STATUS(tenon_run(m, &in, 1, out, 3, NULL, &error), bad[how - 1].status);
    EXPECT_CONTAINS(error.message, bad[how - 1].part);
    EXPECT_CONTAINS(error.message, "custom.onnx: node 'blur2'");
  }
  how = 0;
  EXPECT_STATUS(tenon_run(m, &in, 1, out, 3, NULL, &error), TENON_OK);
  for (int i = 0; i < 3; i++) tenon_tensor_release(&out[i]);
  tenon_model_close(m);
}

// ---- registrations and shape rules that are wrong ----

static tenon_status wrong_shape(tenon_op_call *c, void *user) {
  int64_t dims[2] = {1, 2};
  switch (*(int *)user) {
  case 0: return tenon_op_fail(c, TENON_EINVAL, "no such shape");
  case 1: return TENON_EUNSUPPORTED;
  case 2: tenon_op_shape(c, 1, TENON_DTYPE_F32, 2, dims); return TENON_OK;
  case 3: tenon_op_shape(c, 0, (tenon_dtype)99, 2, dims); return TENON_OK;
  case 4: tenon_op_shape(c, 0, TENON_DTYPE_F32, 17, dims); return TENON_OK;
  case 5: tenon_op_output(c, 0, TENON_DTYPE_F32, 2, dims); return TENON_OK;
  case 6: tenon_op_shape_like(c, 0, 5); return TENON_OK;
  case 7: tenon_op_shape_dim(c, 0, 0, 0, 0); return TENON_OK;
  case 8:
    tenon_op_shape(c, 0, TENON_DTYPE_F32, 2, dims);
    tenon_op_shape_dim(c, 0, 0, 0, 9);
    return TENON_OK;
  }
  return TENON_OK;
}

TEST(api_custom_shape_fails) {
  static const char text[] = "graph(%x: f32[n]) -> (f32[n]) {\n"
                             "  %y = foreign(%x) op=\"a.B\"\n"
                             "  return %y\n"
                             "}\n";
  static const char *const part[] = {"no such shape",
                                     "shape rule failed (unsupported)",
                                     "output 1 is given; there are 1",
                                     "99 is not a dtype",
                                     "rank 17",
                                     "outputs are made by the run callback only",
                                     "like input 5, which is absent",
                                     "give its shape first",
                                     "input 0 has no axis 9"};
  int how;
  tenon_op op = {sizeof op, "a.B", wrong_shape, blur_run, &how};
  tenon_open_options o = {.struct_size = sizeof o, .ops = &op, .nops = 1};
  tenon_model *m;
  for (how = 0; how < ARRAY_LEN(part); how++) {
    EXPECT_STATUS(tenon_model_open_memory(text, strlen(text), &o, &m, &error),
                  how == 1 ? TENON_EUNSUPPORTED : TENON_EINVAL);
    EXPECT_CONTAINS(error.message, part[how]);
    EXPECT_CONTAINS(error.message, "'y' (a.B)");
  }
}

TEST(api_custom_registration_fails) {
  tenon_model *m;
  tenon_op ops[2] = {{sizeof *ops, "a.B", NULL, blur_run, NULL},
                     {sizeof *ops, "a.B", NULL, blur_run, NULL}};
  tenon_open_options o = {.struct_size = sizeof o, .ops = ops, .nops = 2};
#define REFUSED(part)                                                                              \
  do {                                                                                             \
    EXPECT_STATUS(tenon_model_open_memory(add_text, strlen(add_text), &o, &m, &error),             \
                  TENON_EINVAL);                                                                   \
    EXPECT_CONTAINS(error.message, part);                                                          \
  } while (0)
  REFUSED("operator 'a.B' is registered twice");
  ops[1].struct_size = 8;
  REFUSED("struct_size of operator 1 is 8");
  ops[1].struct_size = sizeof *ops;
  ops[1].name = NULL;
  REFUSED("operator 1 has no name");
  ops[1].name = "a.C";
  ops[1].run = NULL;
  REFUSED("operator 1 has no run callback");
  o.ops = NULL;
  REFUSED("2 operators, but no list of them");
#undef REFUSED
}

static tenon_status shout_run(tenon_op_call *c, void *user) {
  tenon_tensor x;
  char text[64];
  tenon_op_input(c, 0, &x);
  tenon_string *y = tenon_op_output(c, 0, TENON_DTYPE_STRING, x.rank, x.shape);
  for (int64_t i = 0; y && i < x.shape[0]; i++) {
    tenon_string s = ((tenon_string *)x.data)[i];
    snprintf(text, sizeof text, "%.*s!", (int)s.size, s.data);
    y[i] = s.size ? (tenon_string){user ? text : "hey!", user ? -1 : 4} : (tenon_string){NULL, 0};
  }
  return TENON_OK;
}

TEST(api_custom_strings) {
  static const char text[] = "graph(%x: string[n]) -> (any[*]) {\n"
                             "  %y = foreign(%x) op=\"Shout\"\n"
                             "  return %y\n"
                             "}\n";
  tenon_op op = {sizeof op, "ai.onnx.Shout", NULL, shout_run, NULL};
  tenon_open_options o = {.struct_size = sizeof o, .ops = &op, .nops = 1};
  tenon_model *m = open_text(text, &o);
  REQUIRE(m);
  tenon_string x[2] = {{"hey", 3}, {"", 0}};
  tenon_tensor in = vector(x, TENON_DTYPE_STRING, 2), out = {0};
  EXPECT_STATUS(tenon_run(m, &in, 1, &out, 1, NULL, &error), TENON_OK);
  REQUIRE(out.data);
  EXPECT(((tenon_string *)out.data)[0].size == 4 && ((tenon_string *)out.data)[1].size == 0);
  tenon_tensor_release(&out);
  tenon_model_close(m);
  op.user = &op;
  m = open_text(text, &o);
  REQUIRE(m);
  EXPECT_STATUS(tenon_run(m, &in, 1, &out, 1, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "string 0 of the result has -1 bytes");
  tenon_model_close(m);
}
