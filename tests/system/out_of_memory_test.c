// out_of_memory_test.c -- every allocation, file call and thread start made to fail while models
// are opened and run.
//
// A table of the test's own counts the calls of one kind and fails the k-th, once or for good.  For
// every k until the whole scenario passes: the failure is an error of the right kind with a
// message, or harmless; nothing is leaked; and the same call, repeated without the failure, gives
// the same bits as ever.
#include "test.h"
#include "base/platform.h"

#include <errno.h>
#include <stdatomic.h>

#define MODELS TENON_SOURCE_DIR "/tests/models/"

// ---- the table ----

typedef enum { ON_ALLOC, ON_OPEN, ON_MAP, ON_READ, ON_REAL_PATH, ON_THREAD, NKINDS } CallKind;

static atomic_int_least64_t calls[NKINDS];
static atomic_int_least64_t blocks, files, maps, threads;  // not given back yet
static CallKind fail_kind;
static atomic_int_least64_t fail_at;  // -1: never
static bool fail_forever;
static int fail_errno;

static bool fails(CallKind kind) {
  int64_t k = atomic_fetch_add(&calls[kind], 1), at = atomic_load(&fail_at);
  return kind == fail_kind && at >= 0 && (fail_forever ? k >= at : k == at);
}

static void *test_alloc(int64_t bytes) {
  if (fails(ON_ALLOC)) return NULL;
  void *p = platform_posix.alloc(bytes);
  if (p) atomic_fetch_add(&blocks, 1);
  return p;
}

static void test_free(void *p, int64_t bytes) {
  atomic_fetch_sub(&blocks, 1);
  platform_posix.free(p, bytes);
}

static int test_open(const char *path, int *out_fd, int64_t *out_size) {
  if (fails(ON_OPEN)) return fail_errno;
  int err = platform_posix.open_read(path, out_fd, out_size);
  if (!err) atomic_fetch_add(&files, 1);
  return err;
}

static int test_close(int fd) {
  atomic_fetch_sub(&files, 1);
  return platform_posix.close(fd);
}

static int test_map(int fd, int64_t bytes, const void **out) {
  if (fails(ON_MAP)) return fail_errno;
  int err = platform_posix.map(fd, bytes, out);
  if (!err) atomic_fetch_add(&maps, 1);
  return err;
}

static void test_unmap(const void *p, int64_t bytes) {
  atomic_fetch_sub(&maps, 1);
  platform_posix.unmap(p, bytes);
}

// Standard input: the bytes of a model, some at a time.
static uint8_t input_bytes[4096];
static int64_t input_size, input_at;

static int test_read(int fd, void *p, int64_t bytes, int64_t *out_got) {
  (void)fd;
  *out_got = 0;
  if (fails(ON_READ)) return fail_errno;
  *out_got = MIN(MIN(bytes, 100), input_size - input_at);
  memcpy(p, input_bytes + input_at, (size_t)*out_got);
  input_at += *out_got;
  return 0;
}

static int test_real_path(const char *path, char *out, int64_t cap) {
  return fails(ON_REAL_PATH) ? fail_errno : platform_posix.real_path(path, out, cap);
}

static int test_thread_start(void *(*fn)(void *), void *arg, void **out) {
  if (fails(ON_THREAD)) return fail_errno;
  int err = platform_posix.thread_start(fn, arg, out);
  if (!err) atomic_fetch_add(&threads, 1);
  return err;
}

static void test_thread_join(void *thread) {
  atomic_fetch_sub(&threads, 1);
  platform_posix.thread_join(thread);
}

static Platform table;

static void use_table(void) {
  table = platform_posix;
  table.alloc = test_alloc;
  table.free = test_free;
  table.open_read = test_open;
  table.close = test_close;
  table.map = test_map;
  table.unmap = test_unmap;
  table.read = test_read;
  table.real_path = test_real_path;
  table.thread_start = test_thread_start;
  table.thread_join = test_thread_join;
  platform = &table;
}

static void arm(CallKind kind, int64_t at, bool forever, int err) {
  for (int i = 0; i < NKINDS; i++) atomic_store(&calls[i], 0);
  fail_kind = kind;
  fail_forever = forever;
  fail_errno = err;
  atomic_store(&fail_at, at);
}

static void disarm(void) { atomic_store(&fail_at, -1); }

// ---- the models ----

static tenon_status like_first(tenon_op_call *c, void *user) {
  (void)user;
  if (tenon_op_output_count(c) > 1) tenon_op_shape(c, 1, TENON_DTYPE_I64, 0, NULL);
  tenon_tensor w;
  for (size_t i = 0; i < tenon_op_input_count(c); i++) tenon_op_input(c, i, &w);
  int64_t dims[2] = {-1, 2};
  tenon_op_shape(c, 0, TENON_DTYPE_F32, 2, dims);
  return tenon_op_shape_dim(c, 0, 0, 0, 0);
}

static tenon_status add_one(tenon_op_call *c, void *user) {
  (void)user;
  tenon_tensor x;
  if (tenon_op_input(c, 0, &x)) return TENON_EINVAL;
  float *y = tenon_op_output(c, 0, TENON_DTYPE_F32, x.rank, x.shape);
  if (!y) return TENON_ENOMEM;
  for (int64_t i = 0; i < x.shape[0] * x.shape[1]; i++) y[i] = ((float *)x.data)[i] + 1;
  if (tenon_op_output_count(c) > 1) tenon_op_output(c, 1, TENON_DTYPE_I64, 0, NULL);
  return TENON_OK;
}

static const tenon_op custom_ops[] = {
    {sizeof(tenon_op), "com.example.Ramp", like_first, add_one, NULL},
    {sizeof(tenon_op), "com.example.Blur", like_first, add_one, NULL},
};

static const char *const models[] = {
    "mlp.onnx",   "conv.onnx",    "shapes.onnx",   "branch.onnx",   "loop.onnx",
    "scan.onnx",  "strings.onnx", "sequence.onnx", "external.onnx", "functions.onnx",
    "quant.onnx", "custom.onnx",  "text.tir"};

enum { MAX_VALUES = 4, MAX_ELEMS = 1024 };
typedef struct Inputs {
  tenon_tensor t[MAX_VALUES];
  _Alignas(16) uint8_t bytes[MAX_VALUES][MAX_ELEMS * sizeof(tenon_string)];
} Inputs;
static Inputs in;

static void fill_input(const tenon_value_info *v, size_t i) {
  tenon_tensor *t = &in.t[i];
  *t = (tenon_tensor){.data = in.bytes[i], .dtype = v->dtype, .rank = v->rank};
  int64_t n = 1;
  for (int k = 0; k < v->rank; k++) {
    t->shape[k] = !v->symbol[k] ? v->shape[k] : !strcmp(v->symbol[k], "h") ? 9 : 3;
    n *= t->shape[k];
  }
  for (int64_t k = 0; k < n && n <= MAX_ELEMS; k++) {
    if (v->dtype == TENON_DTYPE_STRING)
      ((tenon_string *)t->data)[k] = (tenon_string){"birch", k % 6};
    else if (v->dtype == TENON_DTYPE_I64)
      ((int64_t *)t->data)[k] = v->rank ? k % 3 : 5;
    else if (v->dtype == TENON_DTYPE_F32)
      ((float *)t->data)[k] = (float)(k * 5 % 7) / 4 - 0.5f;
  }
}

// ---- one scenario ----

typedef struct Scenario {
  const char *path;
  tenon_model *m;
  uint64_t want;  // hash of the outputs
  bool first;     // `want` is not known yet
  int failed;     // calls that gave an error
  CallKind kind;
  const char *target;  // compiled for it; NULL: interpreted
} Scenario;

static tenon_error error;

static uint64_t hash_tensor(const tenon_tensor *t, uint64_t h) {
  h = hash_bytes(t->shape, (int64_t)sizeof t->shape, h + t->dtype);
  if (t->dtype != TENON_DTYPE_STRING)
    return hash_bytes(t->data, tenon_tensor_size(t->dtype, t->rank, t->shape), h);
  int64_t n = tenon_tensor_size(t->dtype, t->rank, t->shape) / (int64_t)sizeof(tenon_string);
  for (int64_t i = 0; i < n; i++) {
    tenon_string s = ((tenon_string *)t->data)[i];
    h = hash_bytes(s.data, s.size, h);
  }
  return h;
}

static tenon_status open_model(Scenario *s) {
  tenon_open_options o = {.struct_size = sizeof o, .threads = 2, .ops = custom_ops};
  o.nops = ARRAY_LEN(custom_ops);
  input_at = 0;
  tenon_status st = tenon_model_open_with(s->path, &o, &s->m, &error);
  EXPECT((st == TENON_OK) == (s->m != NULL));
  return st;
}

static tenon_status run_compiled(Scenario *s, size_t nin, tenon_tensor *out, size_t nout) {
  tenon_options o = {.struct_size = sizeof o, .target = s->target, .threads = 2};
  tenon_session_options so = {.struct_size = sizeof so, .threads = 2, .profile = 1};
  tenon_program *p = NULL;
  tenon_session *session = NULL;
  tenon_status st = tenon_compile(s->m, &o, &p, &error);
  EXPECT((st == TENON_OK) == (p != NULL));
  if (!st) st = tenon_session_create(p, &so, &session, &error);
  if (!st) st = tenon_session_run(session, in.t, nin, out, nout, NULL, &error);
  tenon_session_release(session);
  tenon_program_release(p);
  return st;
}

static tenon_status run_model(Scenario *s) {
  size_t nin = tenon_model_input_count(s->m), nout = tenon_model_output_count(s->m);
  tenon_tensor out[MAX_VALUES] = {{0}};
  tenon_value_info v;
  for (size_t i = 0; i < nin && i < MAX_VALUES; i++)
    if (!tenon_model_input(s->m, i, &v)) fill_input(&v, i);
  tenon_status st = s->target ? run_compiled(s, nin, out, nout)
                              : tenon_run(s->m, in.t, nin, out, nout, NULL, &error);
  uint64_t h = 0;
  for (size_t i = 0; i < nout; i++) {
    EXPECT((st == TENON_OK) == (out[i].data != NULL));
    if (!st) h = hash_tensor(&out[i], h);
    tenon_tensor_release(&out[i]);
  }
  if (st) return st;
  if (s->first) s->want = h;
  s->first = false;
  if (h != s->want) FAIL("%s: other results", s->path);
  return st;
}

// The error that a failed call must give.
static void check_error(Scenario *s, tenon_status st) {
  s->failed++;
  bool ok = st == TENON_ENOMEM || (s->kind != ON_ALLOC && st == TENON_EIO);
  if (!ok || !error.message[0] || error.status != st)
    FAIL("%s: call %lld failing %s gave %s: %s", s->path, (long long)fail_at,
         fail_forever ? "for good" : "once", tenon_status_name(st), error.message);
}

// Opens and runs with the failure, and each that failed once more without it.
static void play(Scenario *s) {
  s->m = NULL;
  s->failed = 0;
  tenon_status st = open_model(s);
  if (st) {
    check_error(s, st);
    disarm();
    st = open_model(s);
    if (st) FAIL("%s: opening again gives %s", s->path, error.message);
  }
  if (!st) st = run_model(s);
  if (st && s->m) {
    check_error(s, st);
    disarm();
    if (run_model(s)) FAIL("%s: running again gives %s", s->path, error.message);
  }
  disarm();
  tenon_model_close(s->m);
  if (blocks || files || maps || threads)
    FAIL("%s: %lld blocks, %lld files, %lld maps, %lld threads leaked", s->path, (long long)blocks,
         (long long)files, (long long)maps, (long long)threads);
  blocks = files = maps = threads = 0;
}

// Fails calls of the kind one after the other, about `most` of them, evenly spread, where there are
// more; the number of calls.
static int64_t play_on(const char *target, const char *model, CallKind kind, int err,
                       int64_t most) {
  char path[512];
  snprintf(path, sizeof path, "%s%s", strcmp(model, "-") ? MODELS : "", model);
  Scenario s = {.path = path, .first = true, .kind = kind, .target = target};
  arm(kind, -1, false, 0);
  play(&s);
  if (s.failed) return 0;
  int64_t points = calls[kind];
  for (int forever = 0; forever < 2; forever++)
    for (int64_t k = 0; k < points; k += 1 + points / most) {
      arm(kind, k, forever, err);
      play(&s);
    }
  return points;
}

static int64_t play_all(const char *model, CallKind kind, int err, int64_t most) {
  return play_on(NULL, model, kind, err, most);
}

static void fail_every(CallKind kind, int err, int64_t least) {
  use_table();
  int64_t points = 0;
  for (int64_t i = 0; i < ARRAY_LEN(models); i++)
    points += play_all(models[i], kind, err, INT64_MAX);
  platform = &platform_posix;
  EXPECT(points >= least);
}

TEST(oom_every_allocation) { fail_every(ON_ALLOC, 0, 13 * 20); }

// Arenas ask for each object apart: a thousand points a model.  Under AddressSanitizer a share of
// them.
#ifdef UNDER_ASAN
enum { MOST_POINTS = 150 };
#else
enum { MOST_POINTS = INT32_MAX };
#endif

TEST(oom_objects_of_arenas) {
  use_table();
  table.chunk_bytes = 0;
  for (int64_t i = 0; i < ARRAY_LEN(models); i++) {
    int64_t points = play_all(models[i], ON_ALLOC, 0, MOST_POINTS);
    EXPECT(points > 200);
  }
  platform = &platform_posix;
}

TEST(io_every_open) { fail_every(ON_OPEN, EACCES, 14); }
TEST(io_every_map) { fail_every(ON_MAP, ENOMEM, 14); }
TEST(io_every_real_path) { fail_every(ON_REAL_PATH, EACCES, 1); }

TEST(io_every_read) {
  FILE *f = fopen(MODELS "mlp.onnx", "rb");
  REQUIRE(f);
  input_size = (int64_t)fread(input_bytes, 1, sizeof input_bytes, f);
  fclose(f);
  use_table();
  EXPECT(play_all("-", ON_READ, EIO, INT64_MAX) > 3);
  EXPECT(play_all("-", ON_ALLOC, 0, INT64_MAX) > 10);
  platform = &platform_posix;
}

TEST(threads_that_do_not_start) {
  use_table();
  for (int64_t i = 0; i < ARRAY_LEN(models); i++)
    EXPECT_INT_EQ(play_all(models[i], ON_THREAD, EAGAIN, INT64_MAX), 1);
  platform = &platform_posix;
}

#ifdef UNDER_ASAN
enum { COMPILED_POINTS = 6, COMPILED_OBJECTS = 3 };  // as long as more without it
#else
enum { COMPILED_POINTS = 20, COMPILED_OBJECTS = 10 };
#endif

// Compiling, making a session and running it: allocations, then objects of arenas, a share of each.
static void fail_compiled(const char *target) {
  use_table();
  for (int64_t i = 0; i < ARRAY_LEN(models); i++) {
    EXPECT(play_on(target, models[i], ON_ALLOC, 0, COMPILED_POINTS) > 20);
    EXPECT(play_on(target, models[i], ON_THREAD, EAGAIN, INT64_MAX) >= 1);
  }
  table.chunk_bytes = 0;
  for (int64_t i = 0; i < ARRAY_LEN(models); i++)
    EXPECT(play_on(target, models[i], ON_ALLOC, 0, COMPILED_OBJECTS) > 500);
  platform = &platform_posix;
}

TEST(oom_compiled_for_host) { fail_compiled("host"); }
TEST(oom_compiled_for_ref) { fail_compiled("ref"); }
