// cuda_session_test.c -- sessions on a GPU over a fake library: the host's memory and the caller's
// on the device, streams, graphs that get other addresses, faults that are told late, and every
// call of the library failing in turn.
//
// The program is made by hand, of kernels that the fake library has: t = a + b, r = t + b, with
// results r, t, and r under another shape.
#include "api/api.h"
#include "runtime/cuda/cuda.h"
#include "runtime/device.h"

#include "cuda_fake.h"
#include "test.h"

#include <stdlib.h>

enum { N = 512, PAD = 16, OUTS = 4 };

// ---- the program ----

enum { A, B, A_THERE, B_THERE, T, R_THERE, R, T_HERE, R_VIEW, VALUES };
enum { E_N, E_BYTES, E_HALF, E_TWO, EXPRS };

static int32_t *ints(Program *p, int n, const int32_t *v) {
  return arena_dup(&p->arena, v, n * (int64_t)sizeof *v);
}

static ProgValue value(Program *p, ProgPlace place, int slot, int device, const char *name) {
  return (ProgValue){.place = (uint8_t)place,
                     .kind = VK_TENSOR,
                     .device = (uint8_t)device,
                     .dtype = DT_F32,
                     .rank = 1,
                     .slot = slot,
                     .at = -1,
                     .dim = ints(p, 1, (int32_t[]){E_N}),
                     .name = name};
}

static ProgStep moves(Program *p, ProgStepKind kind, int32_t from, int32_t to) {
  return (ProgStep){.kind = (uint8_t)kind,
                    .when = -1,
                    .op = "copy",
                    .nin = 1,
                    .nout = 1,
                    .in = ints(p, 1, &from),
                    .out = ints(p, 1, &to)};
}

static ProgStep adds(Program *p, int32_t a, int32_t b, int32_t out) {
  return (ProgStep){.kind = STEP_KERNEL,
                    .when = -1,
                    .op = "add",
                    .node = "sum",
                    .nout = 1,
                    .out = ints(p, 1, &out),
                    .nargs = 3,
                    .arg = ints(p, 3, (int32_t[]){a, b, out}),
                    .items = E_N,
                    .grain = 1};
}

static void fill_function(Program *p, ProgFunction *f, bool returns_input) {
  static const char *names[] = {"r", "t", "view", "a again"};
  ProgValue v[VALUES] = {value(p, PLACE_PARAM, 0, 0, "a"),    value(p, PLACE_PARAM, 1, 0, "b"),
                         value(p, PLACE_HEAP, 0, 1, "a"),     value(p, PLACE_HEAP, 1, 1, "b"),
                         value(p, PLACE_ARENA, 0, 1, "t"),    value(p, PLACE_RESULT, 0, 1, "r"),
                         value(p, PLACE_RESULT, 0, 0, "r"),   value(p, PLACE_RESULT, 1, 0, "t"),
                         value(p, PLACE_RESULT, 2, 0, "view")};
  v[R_VIEW].rank = 2;
  v[R_VIEW].dim = ints(p, 2, (int32_t[]){E_HALF, E_TWO});
  ProgStep st[] = {moves(p, STEP_COPY, A, A_THERE), moves(p, STEP_COPY, B, B_THERE),
                   adds(p, A_THERE, B_THERE, T),    adds(p, T, B_THERE, R_THERE),
                   moves(p, STEP_COPY, R_THERE, R), moves(p, STEP_COPY, T, T_HERE),
                   moves(p, STEP_VIEW, R, R_VIEW)};
  *f = (ProgFunction){.name = "main",
                      .nvalues = VALUES,
                      .nroots = 1,
                      .nsteps = ARRAY_LEN(st),
                      .nparams = 2,
                      .nresults = returns_input ? OUTS : OUTS - 1,
                      .value = arena_dup(&p->arena, v, sizeof v),
                      .step = arena_dup(&p->arena, st, sizeof st),
                      .param = ints(p, 2, (int32_t[]){A, B}),
                      .result = ints(p, OUTS, (int32_t[]){R, T_HERE, R_VIEW, A}),
                      .result_name = arena_dup(&p->arena, names, sizeof names)};
  f->root = arena_new(&p->arena, ProgRoot);
  f->root->bytes = E_BYTES;
}

// `returns_input`: a result more, which is the first input.
static tenon_program *make_program(bool returns_input) {
  static const char *checks[] = {"a sum is too large"};
  tenon_program *out = mem_alloc(sizeof *out);
  Program *p = program_create();
  StrBuf code;
  arena_init(&out->arena);
  int64_t number[EXPRS] = {N, N * 4, N / 2, 2};
  p->nexprs = EXPRS;
  p->expr = arena_array(&p->arena, ProgExpr, EXPRS);
  for (int i = 0; i < EXPRS; i++) {
    int64_t words[] = {PX_CONST, number[i]};
    p->expr[i] = (ProgExpr){2, arena_dup(&p->arena, words, sizeof words)};
  }
  p->nfunctions = 1;
  p->function = arena_array(&p->arena, ProgFunction *, 1);
  p->function[0] = arena_new(&p->arena, ProgFunction);
  fill_function(p, p->function[0], returns_input);
  p->nkernels = 1;
  p->kernel = arena_new(&p->arena, ProgKernel);
  *p->kernel = (ProgKernel){.name = "adds",
                            .template_name = "pointwise_block",
                            .schedule = "",
                            .device = 1,
                            .group = 1,
                            .nargs = 3,
                            .nchecks = 1,
                            .check = arena_dup(&p->arena, checks, sizeof checks)};
  strbuf_init(&code, &p->arena);
  cuda_put_piece(&code, str_of(CUDA_FAKE_ADD "extern \"C\" __global__ void tn_kernel();\n"));
  p->ndevices = 2;
  p->device = arena_array(&p->arena, ProgDevice, 2);
  p->device[1] = (ProgDevice){.driver = "cuda", .made_for = "a fake", .code = strbuf_str(&code)};
  p->target = "cuda";
  program_use_devices(p);
  out->program = p;
  out->target = "cuda";
  atomic_init(&out->refs, 1);
  api_describe_program(out);
  return out;
}

// ---- tensors ----

// Memory that is the host's or, by what is said of it, the device's: the fake library's is all the
// same.
typedef struct Set {
  _Alignas(16) float a[N + PAD], b[N + PAD], out[OUTS][N + PAD];
  tenon_tensor in[2], outs[OUTS];
} Set;

static tenon_tensor tensor(float *at, tenon_memory memory) {
  return (tenon_tensor){.data = at,
                        .dtype = TENON_DTYPE_F32,
                        .rank = 1,
                        .shape = {N},
                        .bytes = N * (int64_t)sizeof *at,
                        .memory = memory};
}

// `off`: elements from where memory is aligned.
static void make_set(Set *s, int seed, int off, tenon_memory in, tenon_memory out) {
  for (int i = 0; i < N; i++) {
    s->a[off + i] = (float)(i + seed);
    s->b[off + i] = (float)(2 * i - seed);
  }
  s->in[0] = tensor(s->a + off, in);
  s->in[1] = tensor(s->b + off, in);
  memset(s->out, 0xff, sizeof s->out);
  for (int i = 0; i < OUTS; i++) s->outs[i] = tensor(s->out[i] + off, out);
}

static bool right(const Set *s, size_t n) {
  const float *a = s->in[0].data, *b = s->in[1].data;
  for (size_t k = 0; k < n; k++) {
    const float *got = s->outs[k].data;
    for (int i = 0; i < N; i++) {
      float want = k == 1 ? a[i] + b[i] : k == 3 ? a[i] : a[i] + b[i] + b[i];
      if (got[i] != want) return false;
    }
  }
  return n < 3 || (s->outs[2].rank == 2 && s->outs[2].shape[0] == N / 2);
}

static tenon_status call(tenon_session *s, Set *set, size_t nouts, void *stream,
                         tenon_error *error) {
  tenon_run_options o = {.struct_size = sizeof o, .stream = stream};
  return tenon_session_run(s, set->in, 2, set->outs, nouts, &o, error);
}

// ---- what runs do ----

typedef struct IoPlacement {
  const char *name;
  tenon_memory in, out;
  int off;
  bool stream, returns_input;
} IoPlacement;
static const IoPlacement placements[] = {
    {"host", TENON_MEMORY_HOST, TENON_MEMORY_HOST, 0, false, false},
    {"device", TENON_MEMORY_CUDA, TENON_MEMORY_CUDA, 0, false, false},
    {"device, stream", TENON_MEMORY_CUDA, TENON_MEMORY_CUDA, 0, true, false},
    {"device, not aligned", TENON_MEMORY_CUDA, TENON_MEMORY_CUDA, 1, true, false},
    {"from the device", TENON_MEMORY_CUDA, TENON_MEMORY_HOST, 0, true, false},
    {"to the device", TENON_MEMORY_HOST, TENON_MEMORY_CUDA, 0, true, false},
    {"handed on", TENON_MEMORY_CUDA, TENON_MEMORY_CUDA, 0, true, true},
    {"host, stream", TENON_MEMORY_HOST, TENON_MEMORY_HOST, 3, true, true},
};
enum { SETS = 4 };

typedef struct Case {
  tenon_program *program;
  tenon_session *session;
  CudaStream stream;
  Set *set;
  size_t nouts;
} Case;

// Four runs with other memory each; waits for them.
static tenon_status run_all(Case *c, const IoPlacement *w, tenon_error *error) {
  for (int i = 0; i < SETS; i++) make_set(&c->set[i], i, w->off, w->in, w->out);
  for (int i = 0; i < SETS; i++) TRY(call(c->session, &c->set[i], c->nouts, c->stream, error));
  return tenon_session_wait(c->session, error);
}

static bool all_right(const Case *c) {
  for (int i = 0; i < SETS; i++)
    if (!right(&c->set[i], c->nouts)) return false;
  return true;
}

static tenon_status open_case(Case *c, const IoPlacement *w, tenon_error *error) {
  *c = (Case){.nouts = w->returns_input ? OUTS : OUTS - 1};
  c->set = aligned_alloc(16, SETS * sizeof *c->set);
  c->program = make_program(w->returns_input);
  // The caller's stream is made before anything fails.
  int64_t fail_at = cuda_fake.fail_at;
  cuda_fake.fail_at = 0;
  if (w->stream && cuda_fake_api.stream_create(&c->stream, 0)) return TENON_EDEVICE;
  cuda_fake.calls = 0;
  cuda_fake.fail_at = fail_at;
  return tenon_session_create(c->program, NULL, &c->session, error);
}

static void close_case(Case *c) {
  tenon_session_release(c->session);
  tenon_program_release(c->program);
  if (c->stream) cuda_fake_api.stream_destroy(c->stream);
  free(c->set);
  cuda_shut();
}

TEST(cuda_session_takes_memory_where_it_lies) {
  tenon_error error;
  cuda_fake_begin();
  for (int64_t i = 0; i < ARRAY_LEN(placements); i++) {
    const IoPlacement *w = &placements[i];
    Case c;
    cuda_fake_reset();
    EXPECT_STATUS(open_case(&c, w, &error), TENON_OK);
    Diag d;
    diag_init(&d);
    if (program_check(c.program->program, &d)) FAIL("%s", d.text);
    EXPECT_STATUS(run_all(&c, w, &error), TENON_OK);
    if (!all_right(&c)) FAIL("%s: a wrong result (%s)", w->name, error.message);
    // Two kernels issued, and two recorded: after that addresses are put into the graph.
    EXPECT_INT_EQ(cuda_fake.launches, 4);
    if (w->in == w->out && !w->returns_input) EXPECT_INT_EQ(cuda_fake.replays, SETS - 1);
    if (w->in == TENON_MEMORY_CUDA && !w->off) EXPECT(cuda_fake.updates > 0);
    if (w->stream) EXPECT(cuda_fake.stream == c.stream);
    // Its arena at least, and no more than the library gave.
    int64_t held = tenon_session_device_bytes(c.session);
    EXPECT(held >= N * (int64_t)sizeof(float) && held <= cuda_fake.device_bytes);
    close_case(&c);
    EXPECT_INT_EQ(cuda_fake_left(), 0);
    EXPECT_INT_EQ(cuda_fake.device_bytes, 0);
  }
  cuda_fake_end();
}

TEST(cuda_session_without_graphs) {
  static const char *const variable[] = {"TENON_CUDA_GRAPHS", "TENON_CUDA_SYNC"}, *const said[] = {
                                                                                      "0", "1"};
  tenon_error error;
  cuda_fake_begin();
  for (int v = 0; v < 2; v++) {
    setenv(variable[v], said[v], 1);
    for (int64_t i = 0; i < ARRAY_LEN(placements); i++) {
      Case c;
      cuda_fake_reset();
      EXPECT_STATUS(open_case(&c, &placements[i], &error), TENON_OK);
      EXPECT_STATUS(run_all(&c, &placements[i], &error), TENON_OK);
      EXPECT(all_right(&c));
      EXPECT_INT_EQ(cuda_fake.replays, 0);
      EXPECT_INT_EQ(cuda_fake.launches, 2 * SETS);
      close_case(&c);
      EXPECT_INT_EQ(cuda_fake_left(), 0);
    }
    unsetenv(variable[v]);
  }
  cuda_fake_end();
}

// Nothing is copied but what the plan copies on the device, and the host waits for nothing.
TEST(cuda_session_with_a_stream_does_not_wait) {
  tenon_error error;
  Case c;
  cuda_fake_begin();
  const IoPlacement *w = &placements[2];
  REQUIRE(!open_case(&c, w, &error));
  EXPECT_STATUS(run_all(&c, w, &error), TENON_OK);
  int64_t waits = cuda_fake.waits, pages = cuda_fake.pages;
  for (int i = 0; i < 5; i++)
    EXPECT_STATUS(call(c.session, &c.set[i % SETS], c.nouts, c.stream, &error), TENON_OK);
  EXPECT_INT_EQ(cuda_fake.waits, waits);
  EXPECT_INT_EQ(cuda_fake.pages, pages);  // no staging: there is nothing to move
  EXPECT_INT_EQ(pages, 1);                // where faults are told
  int64_t orders = cuda_fake.orders;
  CudaStream other;
  REQUIRE(!cuda_fake_api.stream_create(&other, 0));
  EXPECT_STATUS(call(c.session, &c.set[0], c.nouts, other, &error), TENON_OK);
  EXPECT(cuda_fake.orders > orders);
  EXPECT(cuda_fake.stream == other);
  cuda_fake_api.stream_destroy(other);  // the session does not need it any more
  EXPECT_STATUS(call(c.session, &c.set[0], c.nouts, (void *)1, &error), TENON_OK);
  EXPECT_STATUS(call(c.session, &c.set[0], c.nouts, NULL, &error), TENON_OK);
  EXPECT(cuda_fake.waits > waits);
  EXPECT_STATUS(tenon_session_wait(c.session, &error), TENON_OK);
  close_case(&c);
  EXPECT_INT_EQ(cuda_fake_left(), 0);
  cuda_fake_end();
}

// A call while the caller's stream is captured becomes a part of that graph: nothing is waited for,
// nothing runs until the graph is launched, and calls go on afterwards.
TEST(cuda_session_in_a_captured_stream) {
  tenon_error error;
  Case c;
  CudaStream s;
  CudaGraph graph;
  CudaGraphExec exec;
  cuda_fake_begin();
  REQUIRE(!open_case(&c, &placements[2], &error));
  EXPECT_STATUS(run_all(&c, &placements[2], &error), TENON_OK);
  REQUIRE(!cuda_fake_api.stream_create(&s, 0));
  int64_t orders = cuda_fake.orders, waits = cuda_fake.waits, replays = cuda_fake.replays;
  REQUIRE(!cuda_fake_api.capture_begin(s, CUDA_CAPTURE_THREAD));
  EXPECT_STATUS(call(c.session, &c.set[0], c.nouts, s, &error), TENON_OK);
  REQUIRE(!cuda_fake_api.capture_end(s, &graph));
  EXPECT_INT_EQ(cuda_fake.orders, orders);
  EXPECT_INT_EQ(cuda_fake.waits, waits);
  EXPECT_INT_EQ(cuda_fake.replays, replays);
  memset(c.set[0].out, 0xff, sizeof c.set[0].out);
  EXPECT(!all_right(&c));
  REQUIRE(!cuda_fake_api.graph_make(&exec, graph, 0));
  REQUIRE(!cuda_fake_api.graph_launch(exec, s));
  EXPECT(all_right(&c));
  EXPECT_STATUS(call(c.session, &c.set[1], c.nouts, c.stream, &error), TENON_OK);
  cuda_fake_api.graph_exec_destroy(exec);
  cuda_fake_api.graph_destroy(graph);
  cuda_fake_api.stream_destroy(s);
  close_case(&c);
  EXPECT_INT_EQ(cuda_fake_left(), 0);
  cuda_fake_end();
}

// Each call of the library fails, for every k until all went well: an error, or right results;
// nothing left; and a session that works again.
static int64_t fail_every_call(const IoPlacement *w, CudaResult code) {
  int64_t errors = 0;
  for (int64_t k = 1;; k++) {
    tenon_error error = {0};
    Case c;
    cuda_fake_reset();
    cuda_fake.fail_at = k;
    cuda_fake.code = code;
    tenon_status s = open_case(&c, w, &error);
    bool open = !s;
    if (!s) s = run_all(&c, w, &error);
    bool failed = cuda_fake.failed, lost = cuda_fake.sticky != 0;
    if (!s && !all_right(&c)) FAIL("%s, code %d at call %d: a wrong result", w->name, code, (int)k);
    if (s && !*error.message) FAIL("%s, code %d at call %d: no message", w->name, code, (int)k);
    errors += s != 0;
    cuda_fake.fail_at = 0;
    if (open && failed && !lost && code != 101) {
      s = run_all(&c, w, &error);
      if (s || !all_right(&c))
        FAIL("%s, code %d at call %d: not again: %s", w->name, code, (int)k, error.message);
    }
    close_case(&c);
    if (cuda_fake_left() || cuda_fake.device_bytes)
      FAIL("%s, code %d at call %d: %d objects left", w->name, code, (int)k, cuda_fake_left());
    if (!failed) return errors;
  }
}

// Every code for the host's memory and for the device's; elsewhere one that passes, and one that
// ends the context.
TEST(cuda_session_every_call_may_fail) {
  cuda_fake_begin();
  for (int64_t i = 0; i < ARRAY_LEN(placements); i++)
    for (int64_t c = 0; c < CUDA_FAKE_CODES; c++)
      if (i == 0 || i == 2 || cuda_fake_codes[c] == 1 || cuda_fake_codes[c] == 719)
        EXPECT(fail_every_call(&placements[i], cuda_fake_codes[c]) > 20);
  cuda_fake_end();
}

// What a kernel finds wrong in a run that is not waited for is told by the next one, or by waiting.
TEST(cuda_session_tells_faults_late) {
  tenon_error error;
  Case c;
  cuda_fake_begin();
  const IoPlacement *w = &placements[2];
  REQUIRE(!open_case(&c, w, &error));
  EXPECT_STATUS(run_all(&c, w, &error), TENON_OK);
  for (int how = 0; how < 3; how++) {
    cuda_fake.fault = 1;
    EXPECT_STATUS(call(c.session, &c.set[0], c.nouts, c.stream, &error), TENON_OK);
    cuda_fake.fault = 0;
    tenon_status s = how == 0   ? tenon_session_wait(c.session, &error)
                     : how == 1 ? call(c.session, &c.set[1], c.nouts, c.stream, &error)
                                : call(c.session, &c.set[1], c.nouts, NULL, &error);
    EXPECT(s != TENON_OK);
    EXPECT_CONTAINS(error.message, "a sum is too large");
    EXPECT_STATUS(tenon_session_wait(c.session, &error), TENON_OK);
    EXPECT_STATUS(run_all(&c, w, &error), TENON_OK);
    EXPECT(all_right(&c));
  }
  close_case(&c);
  EXPECT_INT_EQ(cuda_fake_left(), 0);
  cuda_fake_end();
}

TEST(cuda_session_refuses_memory_of_others) {
  tenon_error error;
  Case c;
  cuda_fake_begin();
  const IoPlacement *w = &placements[1];
  REQUIRE(!open_case(&c, w, &error));
  EXPECT_STATUS(run_all(&c, w, &error), TENON_OK);
  Set *s = &c.set[0];
  cuda_fake.other_device = (CudaAddress)(uintptr_t)s->a;
  EXPECT_STATUS(call(c.session, s, c.nouts, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "is memory of CUDA device 1, the program runs on device 0");
  cuda_fake.other_device = 0;
  cuda_fake.host_address = (CudaAddress)(uintptr_t)c.set[1].out[0];
  EXPECT_STATUS(call(c.session, &c.set[1], c.nouts, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "no address of a CUDA device's memory");
  cuda_fake.host_address = 0;
  s->in[1].device = 3;
  EXPECT_STATUS(call(c.session, s, c.nouts, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "cuda device 3");
  s->in[1].device = -1;
  EXPECT_STATUS(call(c.session, s, c.nouts, NULL, &error), TENON_EINVAL);
  s->in[1].device = 0;
  s->in[1].memory = (tenon_memory)77;
  EXPECT_STATUS(call(c.session, s, c.nouts, NULL, &error), TENON_EINVAL);
  s->in[1].memory = TENON_MEMORY_CUDA;
  s->outs[1].bytes -= 4;
  EXPECT_STATUS(call(c.session, s, c.nouts, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "needs 2048 bytes, the buffer has 2044");
  s->outs[1].bytes += 4;
  s->outs[2].data = NULL;
  EXPECT_STATUS(call(c.session, s, c.nouts, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "no memory of the device is given");
  EXPECT_STATUS(run_all(&c, w, &error), TENON_OK);
  EXPECT(all_right(&c));
  close_case(&c);
  EXPECT_INT_EQ(cuda_fake_left(), 0);
  cuda_fake_end();
}

TEST(cuda_session_binds_memory_of_the_device) {
  tenon_error error;
  Case c;
  cuda_fake_begin();
  REQUIRE(!open_case(&c, &placements[1], &error));
  Set *s = &c.set[0];
  make_set(s, 5, 0, TENON_MEMORY_CUDA, TENON_MEMORY_CUDA);
  for (size_t i = 0; i < 2; i++)
    EXPECT_STATUS(tenon_session_bind_input(c.session, i, &s->in[i], &error), TENON_OK);
  for (size_t i = 0; i < c.nouts; i++)
    EXPECT_STATUS(tenon_session_bind_output(c.session, i, &s->outs[i], &error), TENON_OK);
  for (int i = 0; i < 3; i++)
    EXPECT_STATUS(tenon_session_run_bound(c.session, NULL, &error), TENON_OK);
  for (size_t i = 0; i < c.nouts; i++) {
    tenon_tensor got;
    EXPECT_STATUS(tenon_session_output(c.session, i, &got, &error), TENON_OK);
    EXPECT(got.data == s->outs[i].data && got.memory == TENON_MEMORY_CUDA);
    s->outs[i] = got;
  }
  EXPECT(right(s, c.nouts));
  EXPECT_INT_EQ(cuda_fake.updates, 0);
  close_case(&c);
  EXPECT_INT_EQ(cuda_fake_left(), 0);
  cuda_fake_end();
}

// ---- where no GPU is ----

TEST(cuda_memory_is_refused_by_the_host) {
  static const char text[] = "graph(%a: f32[512], %b: f32[512]) { %c = add(%a, %b) return c = %c }";
  tenon_error error;
  tenon_model *m;
  tenon_program *p;
  tenon_session *s;
  static Set set;
  REQUIRE(!tenon_model_open_memory(text, sizeof text - 1, NULL, &m, &error));
  tenon_options o = {.struct_size = sizeof o, .target = "ref"};
  REQUIRE(!tenon_compile(m, &o, &p, &error));
  tenon_state_pair pair = {"a", "c"};
  tenon_session_options so = {.struct_size = sizeof so, .states = &pair, .nstates = 1};
  REQUIRE(!tenon_session_create(p, NULL, &s, &error));
  make_set(&set, 1, 0, TENON_MEMORY_CUDA, TENON_MEMORY_HOST);
  EXPECT_STATUS(call(s, &set, 1, NULL, &error), TENON_EINVAL);
  EXPECT_CONTAINS(error.message, "the program runs on the host");
  EXPECT_STATUS(tenon_run(m, set.in, 2, set.outs, 1, NULL, &error), TENON_EUNSUPPORTED);
  make_set(&set, 1, 0, TENON_MEMORY_HOST, TENON_MEMORY_CUDA);
  EXPECT_STATUS(call(s, &set, 1, NULL, &error), TENON_EINVAL);
  EXPECT_STATUS(tenon_run(m, set.in, 2, set.outs, 1, NULL, &error), TENON_EUNSUPPORTED);
  make_set(&set, 1, 0, TENON_MEMORY_HOST, TENON_MEMORY_HOST);
  EXPECT_STATUS(call(s, &set, 1, (void *)1, &error), TENON_OK);  // nothing to order
  EXPECT_STATUS(tenon_session_wait(s, &error), TENON_OK);
  EXPECT(set.out[0][3] == set.a[3] + set.b[3]);
  tenon_session_release(s);
  REQUIRE(!tenon_session_create(p, &so, &s, &error));  // states are the host's
  set.outs[0].memory = TENON_MEMORY_CUDA;
  EXPECT_STATUS(call(s, &set, 1, NULL, &error), TENON_EUNSUPPORTED);
  set.in[0].memory = TENON_MEMORY_CUDA;
  EXPECT_STATUS(tenon_session_state_set(s, 0, &set.in[0], &error), TENON_EUNSUPPORTED);
  EXPECT_STATUS(tenon_session_state_get(s, 0, &set.in[0], &error), TENON_EUNSUPPORTED);
  tenon_session_release(s);
  tenon_program_release(p);
  tenon_model_close(m);
  tenon_named_tensor w = {"w", set.in[0]};
  tenon_open_options wo = {.struct_size = sizeof wo, .tensors = &w, .ntensors = 1};
  EXPECT_STATUS(tenon_model_open_memory(text, sizeof text - 1, &wo, &m, &error),
                TENON_EUNSUPPORTED);
}
