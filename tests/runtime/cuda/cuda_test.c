// cuda_test.c -- the CUDA driver of the device table over a fake library, with every call failing
// in turn.
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/impl.h"

#include "cuda_fake.h"
#include "test.h"

#include <stdlib.h>

enum { N = 3000 };
static const ProgKernel adds = {.name = "adds", .device = 1, .nargs = 3};
static const ProgKernel nothing = {.name = "nothing", .device = 1, .entry = 1};

// Everything given back, nothing left.
static void end_with(Device *dev, DeviceQueue *q, DeviceBuffer *b) {
  device_cuda.queue_free(q);
  device_cuda.buffer_free(dev, b);
  device_cuda.close(dev);
  cuda_shut();
  EXPECT_INT_EQ(cuda_fake_left(), 0);
  cuda_fake_end();
}

typedef struct Use {
  Device *dev;
  DeviceQueue *queue;
  DeviceCode *code;
  DeviceGraph *graph;
  DeviceBuffer *a, *b, *out, *large;
  Arena arena;
} Use;

static DevicePlace at(DeviceBuffer *b) { return (DevicePlace){b, 0}; }

static tenon_status load(Use *u, Diag *d) {
  const ProgKernel *kernels[] = {&adds, &nothing};
  StrBuf code;
  strbuf_init(&code, &u->arena);
  cuda_put_piece(&code, str_of(CUDA_FAKE_ADD "extern \"C\" __global__ void tn_kernel();\n"));
  cuda_put_piece(&code, STR("//tn threads 128\n//tn shared 100000\n//tn early\n"));
  return device_cuda.code(u->dev, strbuf_str(&code), kernels, 2, false, d, &u->code);
}

static tenon_status launch(Use *u, Diag *d) {
  DevicePlace args[] = {at(u->a), at(u->b), at(u->out)};
  DeviceLaunch l = {.kernel = &adds, .nargs = 3, .arg = args, .items = N, .slots = N};
  TRY(device_cuda.launch(u->queue, u->code, &l, d));
  DeviceLaunch other = {.kernel = &nothing, .number = 1, .items = 5, .slots = 5};
  return device_cuda.launch(u->queue, u->code, &other, d);
}

static tenon_status calls(Use *u, const float *x, float *got, Diag *d) {
  const DeviceDriver *v = &device_cuda;
  int64_t bytes = N * (int64_t)sizeof *x;
  const char *why;
  int index;
  double ns;
  if (!v->count(&why)) return fail(d, TENON_EDEVICE, NOWHERE, "%s", why);
  TRY(v->find("0", d, &index));
  TRY(v->open(index, d, &u->dev));
  TRY(load(u, d));
  TRY(v->queue(u->dev, d, &u->queue));
  TRY(v->buffer(u->dev, bytes, d, &u->a));
  TRY(v->buffer(u->dev, bytes, d, &u->b));
  TRY(v->buffer(u->dev, bytes, d, &u->out));
  TRY(v->write(u->queue, at(u->a), x, bytes, d));
  TRY(v->fill(u->queue, at(u->out), bytes, d));
  TRY(v->copy(u->queue, at(u->b), at(u->a), bytes, d));
  TRY(v->mark(u->queue, 0, d));
  TRY(launch(u, d));
  TRY(v->mark(u->queue, 1, d));
  TRY(v->finish(u->queue, d));
  TRY(v->between(u->queue, 0, 1, &ns, d));
  // out = a + b twice more, by a recorded sequence: 2x, then 3x after b = out.
  TRY(v->record(u->queue, d));
  TRY(v->copy(u->queue, at(u->b), at(u->out), bytes, d));
  TRY(launch(u, d));
  TRY(v->recorded(u->queue, d, &u->graph));
  TRY(v->replay(u->queue, u->graph, d));
  TRY(v->buffer(u->dev, 1 << 20, d, &u->large));
  // The same again and again: from the second time on it is a graph.
  for (int i = 0; i < 3; i++) {
    TRY(launch(u, d));
    TRY(v->finish(u->queue, d));
  }
  return v->read(u->queue, got, at(u->out), bytes, d);
}

static tenon_status use_all(float *got, Diag *d) {
  const DeviceDriver *v = &device_cuda;
  Use u = {0};
  float *x = calloc(N, sizeof *x);
  for (int i = 0; i < N; i++) x[i] = (float)i;
  arena_init(&u.arena);
  tenon_status s = calls(&u, x, got, d);
  if (u.dev) {
    v->buffer_free(u.dev, u.a);
    v->buffer_free(u.dev, u.b);
    v->graph_free(u.dev, u.graph);
    v->queue_free(u.queue);
    v->buffer_free(u.dev, u.out);
    v->buffer_free(u.dev, u.large);
    v->code_free(u.dev, u.code);
    v->close(u.dev);
  }
  cuda_shut();
  arena_deinit(&u.arena);
  free(x);
  return s;
}

static bool right(const float *got) {
  for (int i = 0; i < N; i++)
    if (got[i] != 3 * (float)i) return false;
  return true;
}

TEST(cuda_runs_kernels_and_graphs) {
  static float got[N];
  Diag d;
  cuda_fake_begin();
  diag_init(&d);
  EXPECT(!use_all(got, &d));
  EXPECT(right(got));
  EXPECT_INT_EQ(cuda_fake.launches, 6);  // once as it is, once recorded by hand, once by itself
  EXPECT_INT_EQ(cuda_fake.replays, 4);   // by hand, and thrice by itself
  EXPECT_INT_EQ(cuda_fake_left(), 0);
  EXPECT_INT_EQ(cuda_fake.device_bytes, 0);
  cuda_fake_end();
}

// TENON_CUDA_ARCH: code of an older chip, which the driver translates.  Not of one that is newer,
// nor of one whose code no other takes.
TEST(cuda_stands_in_for_an_older_chip) {
  static const struct {
    const char *arch, *option, *said;
    int64_t shared;
  } row[] = {{"sm_80", "--gpu-architecture=compute_80", NULL, 166912},
             {"sm_86", "--gpu-architecture=compute_80", NULL, 101376},
             {"sm_90", "--gpu-architecture=sm_90a", NULL, 232448},
             {"sm_100", NULL, "no chip that Fake GPU can stand in for", 0},
             {"ampere", NULL, "no chip that Fake GPU can stand in for", 0}};
  static float got[N];
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Diag d;
    cuda_fake_begin();
    diag_init(&d);
    setenv("TENON_CUDA_ARCH", row[i].arch, 1);
    tenon_status s = use_all(got, &d);
    EXPECT_STATUS(s, row[i].said ? TENON_EINVAL : TENON_OK);
    if (row[i].said)
      EXPECT_CONTAINS(d.text, row[i].said);
    else
      EXPECT_STR_EQ(cuda_fake.option, row[i].option);
    Device *dev;
    if (!s && !device_cuda.open(0, &d, &dev)) {
      EXPECT_INT_EQ(device_cuda.info(dev)->shared_bytes, row[i].shared);
      device_cuda.close(dev);
      cuda_shut();
    }
    EXPECT_INT_EQ(cuda_fake_left(), 0);
    cuda_fake_end();
  }
  unsetenv("TENON_CUDA_ARCH");
}

TEST(cuda_every_call_may_fail) {
  static float got[N];
  int64_t errors = 0;
  cuda_fake_begin();
  for (int64_t c = 0; c < CUDA_FAKE_CODES; c++)
    for (int64_t k = 1;; k++) {
      Diag d;
      diag_init(&d);
      cuda_fake_reset();
      cuda_fake.fail_at = k;
      cuda_fake.code = cuda_fake_codes[c];
      memset(got, 0xff, sizeof got);
      tenon_status s = use_all(got, &d);
      if (cuda_fake_left() || cuda_fake.device_bytes)
        test_failed(__FILE__, __LINE__, "code %d at call %d: %d objects left", cuda_fake_codes[c],
                    (int)k, cuda_fake_left());
      // Giving something back may fail: what was read before is right all the same.
      if (!s && !right(got))
        test_failed(__FILE__, __LINE__, "code %d at call %d: a wrong result", cuda_fake_codes[c],
                    (int)k);
      if (s && !d.len)
        test_failed(__FILE__, __LINE__, "code %d at call %d: no message", cuda_fake_codes[c],
                    (int)k);
      errors += s != 0;
      if (!cuda_fake.failed) break;
    }
  EXPECT(errors > 12 * 40);
  cuda_fake_end();
}

TEST(cuda_a_lost_device_stays_lost) {
  static float got[N];
  Diag d;
  Device *dev;
  DeviceBuffer *b = NULL;
  cuda_fake_begin();
  diag_init(&d);
  REQUIRE(!device_cuda.open(0, &d, &dev));
  REQUIRE(!device_cuda.buffer(dev, 64, &d, &b));
  DeviceQueue *q;
  REQUIRE(!device_cuda.queue(dev, &d, &q));
  cuda_fake.fail_at = cuda_fake.calls + 2;
  cuda_fake.code = 700;
  EXPECT(device_cuda.finish(q, &d) == TENON_EDEVICE);
  EXPECT_CONTAINS(d.text, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
  cuda_fake.sticky = 0;  // even if the library forgot
  EXPECT(device_cuda.read(q, got, at(b), 64, &d) == TENON_EDEVICE);
  EXPECT_CONTAINS(d.text, "lost by an earlier error");
  end_with(dev, q, b);
}

TEST(cuda_errors_name_the_kernel) {
  Use u = {0};
  Diag d;
  cuda_fake_begin();
  diag_init(&d);
  arena_init(&u.arena);
  REQUIRE(!device_cuda.open(0, &d, &u.dev));
  REQUIRE(!load(&u, &d));
  REQUIRE(!device_cuda.queue(u.dev, &d, &u.queue));
  REQUIRE(!device_cuda.buffer(u.dev, N * 4, &d, &u.a));
  u.b = u.out = u.a;
  EXPECT(!launch(&u, &d));
  cuda_fake.fail_at = cuda_fake.calls + 2;
  cuda_fake.code = 719;
  EXPECT(device_cuda.finish(u.queue, &d) == TENON_EDEVICE);
  EXPECT_CONTAINS(d.text, "kernel 'adds', cuLaunchKernelEx");
  device_cuda.queue_free(u.queue);
  device_cuda.buffer_free(u.dev, u.a);
  device_cuda.code_free(u.dev, u.code);
  device_cuda.close(u.dev);
  cuda_shut();
  arena_deinit(&u.arena);
  EXPECT_INT_EQ(cuda_fake_left(), 0);
  cuda_fake_end();
}

TEST(cuda_memory_is_kept_and_given_back) {
  Device *dev;
  DeviceBuffer *b, *again;
  Diag d;
  cuda_fake_begin();
  diag_init(&d);
  REQUIRE(!device_cuda.open(0, &d, &dev));
  cuda_fake.limit_bytes = 3 << 20;
  REQUIRE(!device_cuda.buffer(dev, 2 << 20, &d, &b));
  CudaAddress first = b->at;
  device_cuda.buffer_free(dev, b);
  EXPECT_INT_EQ(cuda_fake.buffers, 1);
  REQUIRE(!device_cuda.buffer(dev, (2 << 20) - 5, &d, &again));
  EXPECT(again->at == first);
  device_cuda.buffer_free(dev, again);
  // What is kept makes room for what does not fit beside it.
  REQUIRE(!device_cuda.buffer(dev, 3 << 20, &d, &b));
  EXPECT_INT_EQ(cuda_fake.buffers, 1);
  EXPECT(device_cuda.buffer(dev, 1 << 20, &d, &again) == TENON_ENOMEM);
  EXPECT(device_cuda.buffer(dev, INT64_MAX, &d, &again) == TENON_ENOMEM);
  device_cuda.buffer_free(dev, b);
  device_cuda.close(dev);
  cuda_shut();
  EXPECT_INT_EQ(cuda_fake_left(), 0);
  cuda_fake_end();
}

TEST(cuda_copies_stay_inside_buffers) {
  Device *dev;
  DeviceQueue *q;
  DeviceBuffer *b;
  Diag d;
  char byte = 0;
  cuda_fake_begin();
  diag_init(&d);
  REQUIRE(!device_cuda.open(0, &d, &dev));
  REQUIRE(!device_cuda.queue(dev, &d, &q));
  REQUIRE(!device_cuda.buffer(dev, 1 << 16, &d, &b));
  EXPECT(device_cuda.write(q, (DevicePlace){b, 1 << 16}, &byte, 1, &d) == TENON_EINTERNAL);
  EXPECT(device_cuda.read(q, &byte, (DevicePlace){b, -1}, 1, &d) == TENON_EINTERNAL);
  EXPECT(device_cuda.fill(q, (DevicePlace){NULL, 0}, 1, &d) == TENON_EINTERNAL);
  REQUIRE(!device_cuda.record(q, &d));
  EXPECT(device_cuda.read(q, &byte, at(b), 1, &d) == TENON_EINTERNAL);
  EXPECT(device_cuda.finish(q, &d) == TENON_EINTERNAL);
  end_with(dev, q, b);
}

TEST(cuda_records_read_back) {
  CudaRecord r = {
      .threads = 384,
      .shared_bytes = 200000,
      .cluster = 2,
      .persistent = true,
      .early = true,
      .nmaps = 1,
      .map = {{.arg = 1,
               .type = CUDA_MAP_BF16,
               .rank = 2,
               .dim = {cuda_number(4096), {{{3, 2, {2, 0}}, {-7, 1, {1}}, {5, 0, {0}}}}},
               .stride = {cuda_number(8192)},
               .box = {64, 128}}}};
  CudaRecord back;
  Arena a;
  arena_init(&a);
  StrBuf b, again;
  strbuf_init(&b, &a);
  strbuf_init(&again, &a);
  cuda_record_write(&r, &b);
  strbuf_puts(&b, "int x;\n");
  REQUIRE(cuda_record_read(strbuf_str(&b), &back));
  cuda_record_write(&back, &again);
  strbuf_puts(&again, "int x;\n");
  EXPECT_STR_EQ(strbuf_text(&b), strbuf_text(&again));
  EXPECT(strstr(strbuf_text(&b), " 4096 @2*@0*3+@1*-7+5 8192 "));
  static const char *const wrong[] = {"//tn threads\n",
                                      "//tn threads 2000\n",
                                      "//tn what 1\n",
                                      "//tn shared 1 2\n",
                                      "//tn persistent\n",
                                      "//tn map 0 bf16 9\n",
                                      "//tn threads 5",
                                      "//tn map 0 i8 1 5 5\n",
                                      "//tn threads 1\n//tn map 0 bf16 1 @0*@1 5\n",
                                      "//tn threads 1\n//tn map 0 bf16 1 1+1+1+1+1 5\n",
                                      "//tn threads 1\n//tn map 0 bf16 1 @0*2+ 5\n",
                                      "//tn threads 1\n//tn map 0 bf16 1 0 5\n",
                                      "//tn threads 1\n//tn map 0 bf16 1 @0*@1*@2*@3*@4*1 5\n"};
  for (int64_t i = 0; i < ARRAY_LEN(wrong); i++) EXPECT(!cuda_record_read(str_of(wrong[i]), &back));
  Str code = STR("//tn kernel 99999\nabc"), piece;
  bool bad;
  EXPECT(!cuda_next_piece(&code, &piece, &bad) && bad);
  arena_deinit(&a);
}

// ---- a GPU, where there is one ----

static const char add_text[] =
    "extern \"C\" __global__ void tn_kernel(const float *a, const float *b, float *out,\n"
    "    long long items, unsigned char *scratch, long long scratch_each, int *fault) {\n"
    "  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < items;\n"
    "       i += gridDim.x * (long long)blockDim.x) out[i] = a[i] + b[i];\n}\n";

TEST(cuda_runs_on_a_gpu) {
  const ProgKernel *kernels[] = {&adds};
  const DeviceDriver *v = &device_cuda;
  static float x[N], got[N];
  const char *why = NULL;
  Use u = {0};
  Diag d;
  StrBuf code;
  double ns = 0;
  diag_init(&d);
  if (!v->count(&why)) SKIP(why);
  arena_init(&u.arena);
  strbuf_init(&code, &u.arena);
  cuda_put_piece(&code, str_of(add_text));
  for (int i = 0; i < N; i++) x[i] = (float)i;
  int64_t bytes = sizeof x;
  REQUIRE(!v->open(0, &d, &u.dev));
  tenon_status s = v->code(u.dev, strbuf_str(&code), kernels, 1, false, &d, &u.code);
  if (!s) s = v->queue(u.dev, &d, &u.queue);
  if (!s) s = v->buffer(u.dev, bytes, &d, &u.a);
  if (!s) s = v->buffer(u.dev, bytes, &d, &u.out);
  if (!s) s = v->write(u.queue, at(u.a), x, bytes, &d);
  DevicePlace args[] = {at(u.a), at(u.a), at(u.out)};
  DeviceLaunch l = {.kernel = &adds, .nargs = 3, .arg = args, .items = N, .slots = N};
  if (!s) s = v->mark(u.queue, 0, &d);
  if (!s) s = v->launch(u.queue, u.code, &l, &d);
  if (!s) s = v->mark(u.queue, 1, &d);
  if (!s) s = v->finish(u.queue, &d);
  if (!s) s = v->between(u.queue, 0, 1, &ns, &d);
  if (!s) s = v->fill(u.queue, at(u.out), bytes, &d);
  if (!s) s = v->record(u.queue, &d);
  if (!s) s = v->launch(u.queue, u.code, &l, &d);
  if (!s) s = v->recorded(u.queue, &d, &u.graph);
  if (!s) s = v->replay(u.queue, u.graph, &d);
  if (!s) s = v->read(u.queue, got, at(u.out), bytes, &d);
  EXPECT_STR_EQ(d.text, "");
  EXPECT(ns > 0);
  for (int i = 0; i < N && !s; i++) EXPECT(got[i] == 2 * x[i]);
  v->graph_free(u.dev, u.graph);
  v->queue_free(u.queue);
  v->buffer_free(u.dev, u.a);
  v->buffer_free(u.dev, u.out);
  v->code_free(u.dev, u.code);
  v->close(u.dev);
  arena_deinit(&u.arena);
}
