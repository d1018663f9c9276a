// opencl_test.c -- kernels as OpenCL C against the interpreter, bit for bit, on the first device
// that there is.
//
// All kernels of a test go into one program.  The few entry points are looked up in the system's
// library, so nothing is needed to build; without a device the tests are skipped.  Arguments lie at
// odd multiples of 64 bytes of their buffers.
#include "base/platform.h"
#include "base/process.h"
#include "codegen_fixture.h"
#include "targets/cstyle/cstyle.h"
#include "test.h"

#include <stdlib.h>

// ---- the library ----

enum { CL_BUILD_LOG = 0x1183, CL_READ_WRITE = 1, CL_ALL = -1, OFFSET = 192 };
typedef struct Cl {
  void *device, *context, *queue;
  int (*platforms)(unsigned, void **, unsigned *);
  int (*devices)(void *, uint64_t, unsigned, void **, unsigned *);
  void *(*make_context)(const void *, unsigned, void *const *, void *, void *, int *);
  void *(*make_queue)(void *, void *, uint64_t, int *);
  void *(*program)(void *, unsigned, const char **, const size_t *, int *);
  int (*build)(void *, unsigned, void *const *, const char *, void *, void *);
  int (*build_info)(void *, void *, unsigned, size_t, void *, size_t *);
  void *(*kernel)(void *, const char *, int *);
  void *(*buffer)(void *, uint64_t, size_t, void *, int *);
  int (*arg)(void *, unsigned, size_t, const void *);
  int (*launch)(void *, void *, unsigned, const size_t *, const size_t *, const size_t *, unsigned,
                const void *, void *);
  int (*read)(void *, void *, unsigned, size_t, size_t, void *, unsigned, const void *, void *);
  int (*write)(void *, void *, unsigned, size_t, size_t, const void *, unsigned, const void *,
               void *);
  int (*free_buffer)(void *), (*free_kernel)(void *), (*free_program)(void *);
} Cl;

static void look_up(void *l, Cl *cl) {
  struct {
    const char *name;
    void *at;
  } entry[] = {{"clGetPlatformIDs", &cl->platforms},
               {"clGetDeviceIDs", &cl->devices},
               {"clCreateContext", &cl->make_context},
               {"clCreateCommandQueue", &cl->make_queue},
               {"clCreateProgramWithSource", &cl->program},
               {"clBuildProgram", &cl->build},
               {"clGetProgramBuildInfo", &cl->build_info},
               {"clCreateKernel", &cl->kernel},
               {"clCreateBuffer", &cl->buffer},
               {"clSetKernelArg", &cl->arg},
               {"clEnqueueNDRangeKernel", &cl->launch},
               {"clEnqueueReadBuffer", &cl->read},
               {"clEnqueueWriteBuffer", &cl->write},
               {"clReleaseMemObject", &cl->free_buffer},
               {"clReleaseKernel", &cl->free_kernel},
               {"clReleaseProgram", &cl->free_program}};
  for (int64_t i = 0; i < ARRAY_LEN(entry); i++) {
    void *f = library_symbol(l, entry[i].name);
    memcpy(entry[i].at, &f, sizeof f);
  }
}

// The first device of all; kept until the process ends, as drivers want it.
static Cl *open_device(void) {
  static Cl cl;
  static bool tried;
  void *platform_id = NULL;
  unsigned n = 0;
  if (tried) return cl.queue ? &cl : NULL;
  tried = true;
  void *l = library_open("libOpenCL.so.1");
  if (!l) return NULL;
  look_up(l, &cl);
  if (!cl.platforms || cl.platforms(1, &platform_id, &n) || !n) return NULL;
  if (cl.devices(platform_id, 0xffffffff, 1, &cl.device, &n) || !n) return NULL;
  cl.context = cl.make_context(NULL, 1, &cl.device, NULL, NULL, NULL);
  if (cl.context) cl.queue = cl.make_queue(cl.context, cl.device, 0, NULL);
  return cl.queue ? &cl : NULL;
}

// ---- kernels of one program ----

typedef struct Batch {
  Arena arena;
  Diag d;
  CStyle style;
  VEC(CodegenFixture *) kernel;
  StrBuf text;
  bool vectors;
} Batch;

static void batch_open(Batch *b, bool vectors) {
  *b = (Batch){.vectors = vectors};
  arena_init(&b->arena);
  diag_init(&b->d);
  strbuf_init(&b->text, &b->arena);
  cstyle_init(&b->style, &spelling_opencl, vectors ? 64 : 0, &b->arena, &b->d);
}

static void batch_add(Batch *b, const char *text, const int64_t *dims) {
  CodegenFixture *f = arena_new(&b->arena, CodegenFixture);
  bool differs;
  if (!codegen_open(f, text, dims)) return;
  const char *name = str_printf(&b->arena, "kernel_%d", (int)b->kernel.n);
  if (cstyle_kernel(&b->style, f->k, name, b->vectors, &b->text, &differs))
    FAIL("%s\n%s", b->d.text, text);
  vec_push(&b->arena, &b->kernel, f);
}

static void *build(Batch *b, Cl *cl) {
  StrBuf all;
  char log[4000] = "";
  strbuf_init(&all, &b->arena);
  cstyle_prelude(&b->style, &all);
  strbuf_put(&all, strbuf_str(&b->text));
  const char *text = strbuf_text(&all);
  void *p = cl->program(cl->context, 1, &text, NULL, NULL);
  if (p && !cl->build(p, 1, &cl->device, "-cl-std=CL1.2 -cl-opt-disable", NULL, NULL)) return p;
  cl->build_info(p, cl->device, CL_BUILD_LOG, sizeof log - 1, log, NULL);
  FAIL("the driver refuses the text: %s", log);
  return NULL;
}

typedef struct Launch {
  Cl *cl;
  void *kernel;
  unsigned next;
} Launch;

static void pass(Launch *l, size_t bytes, const void *v) {
  EXPECT_INT_EQ(l->cl->arg(l->kernel, l->next++, bytes, v), 0);
}

static void *pass_buffer(Launch *l, const void *from, int64_t bytes, int64_t at) {
  void *m = l->cl->buffer(l->cl->context, CL_READ_WRITE, (size_t)(bytes + at + 64), NULL, NULL);
  if (bytes) l->cl->write(l->cl->queue, m, 1, (size_t)at, (size_t)bytes, from, 0, NULL, NULL);
  pass(l, sizeof m, &m);
  return m;
}

// The kernel's fault: 0, or 1 + a check.
static int32_t run(Cl *cl, void *kernel, CodegenFixture *f) {
  Launch l = {cl, kernel, 0};
  void *m[64], *scratch, *slot;
  int32_t fault = 0;
  enum { THREADS = 4 };
  int64_t none = 0;
  int64_t n = codegen_items(f), each = (loop_scratch_bytes(f->k) + 63) / 64 * 64, at = OFFSET;
  char *zeros = calloc(1, (size_t)(each * THREADS + 64));
  for (int i = 0; i < f->k->nargs; i++) {
    m[i] = pass_buffer(&l, f->arg[1][i], codegen_bytes(f, i), OFFSET);
    pass(&l, sizeof at, &at);
  }
  for (int i = 0; i < f->k->ndims; i++) pass(&l, sizeof f->dims[i], &f->dims[i]);
  pass(&l, sizeof n, &n);
  scratch = pass_buffer(&l, zeros, each * THREADS, 0);
  pass(&l, sizeof each, &each);
  slot = pass_buffer(&l, &fault, sizeof fault, 0);
  pass(&l, sizeof none, &none);
  size_t local = (size_t)MAX(loop_threads(f->k), 1), global = THREADS * local;
  EXPECT_INT_EQ(cl->launch(cl->queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL), 0);
  cl->read(cl->queue, slot, 1, 0, sizeof fault, &fault, 0, NULL, NULL);
  for (int i = 0; i < f->k->nargs; i++) {
    int64_t bytes = codegen_bytes(f, i);
    if (bytes) cl->read(cl->queue, m[i], 1, OFFSET, (size_t)bytes, f->arg[1][i], 0, NULL, NULL);
    cl->free_buffer(m[i]);
  }
  cl->free_buffer(scratch);
  cl->free_buffer(slot);
  free(zeros);
  return fault;
}

static void run_both(Cl *cl, void *kernel, CodegenFixture *f, const char *where) {
  int32_t failed;
  tenon_status s =
      loop_interpret(f->k, f->arg[0], f->size, f->dims, 0, codegen_items(f), &f->d, &failed);
  int32_t got = run(cl, kernel, f);
  if (s || failed >= 0) {  // some check of it; which one is first is the device's affair
    EXPECT(got > 0);
    return;
  }
  EXPECT_INT_EQ(got, 0);
  codegen_compare(f, where);
}

static void batch_run(Batch *b, Cl *cl) {
  void *program = build(b, cl);
  for (int64_t i = 0; program && i < b->kernel.n; i++) {
    void *k = cl->kernel(program, str_printf(&b->arena, "kernel_%d", (int)i), NULL);
    EXPECT(k);
    if (!k) continue;
    run_both(cl, k, b->kernel.v[i], b->vectors ? "vectors" : "plain");
    cl->free_kernel(k);
  }
  for (int64_t i = 0; i < b->kernel.n; i++) codegen_close(b->kernel.v[i]);
  if (program) cl->free_program(program);
  arena_deinit(&b->arena);
}

typedef void AddKernels(Batch *b);
static void expect_same(AddKernels *add) {
  Cl *cl = open_device();
  if (!cl) SKIP("there is no OpenCL device");
  for (int form = 0; form < 2; form++) {
    Batch b;
    batch_open(&b, form);
    add(&b);
    batch_run(&b, cl);
  }
}

// ---- kernels ----

static void add_shapes(Batch *b) {
  for (int i = 0; codegen_shapes[i]; i++) batch_add(b, codegen_shapes[i], NULL);
}

static void add_groups(Batch *b) {
  for (int i = 0; codegen_groups[i]; i++) batch_add(b, codegen_groups[i], NULL);
}

static void add_casts(Batch *b) {
  for (int i = 0; i < codegen_ntypes; i++)
    if (test_takes()) batch_add(b, codegen_casts_text(&b->arena, i), NULL);
}

static void add_operations(Batch *b) {
  for (int i = 0; i < codegen_ntypes; i++)
    for (int half = 0; half < 2; half++) {
      const char *text = codegen_ops_text(&b->arena, i, half, b->vectors);
      if (text) batch_add(b, text, NULL);
    }
}

static void add_checks(Batch *b) {
  for (int i = 0; codegen_checks[i].text; i++)
    batch_add(b, codegen_checks[i].text, codegen_checks[i].dims);
}

TEST(opencl_text_shapes) { expect_same(add_shapes); }
TEST(opencl_text_thread_blocks) { expect_same(add_groups); }
TEST(opencl_text_casts) { expect_same(add_casts); }
TEST(opencl_text_operations) { expect_same(add_operations); }
TEST(opencl_text_checks) { expect_same(add_checks); }

// ---- text ----

TEST(opencl_text_of_a_kernel) {
  Batch b;
  batch_open(&b, false);
  batch_add(&b,
            "kernel @scale dims(n in [1, 64]) (%x: f32[4*n], %i: i64[4], out %y: f32[4*n]) {\n"
            " scratch %t: f32[8]\n parallel r < n {\n  for j < 4 {\n   bind k < 4 = %i[j] check "
            "\"index\"\n   store %t[j] = %x[k + 4*r]\n  }\n"
            "  for l < 4 {\n   store %y[l + 4*r] = mul(%t[l], 2.0)\n  }\n }\n}\n",
            (const int64_t[]){3});
  EXPECT_STR_EQ(
      strbuf_text(&b.text),
      "// scale(x: f32[4*n], i: i64[4], out y: f32[4*n])\n"
      "kernel void kernel_0(global uchar *x_base, long x_at, global uchar *i_base, long i_at, "
      "global uchar *y_base, long y_at, long n_, long items, global uchar *scratch, long "
      "scratch_each, global int *fault, long fault_at) {\n"
      "  global const tn_f32 *const x = (global const tn_f32 *)(x_base + x_at);\n"
      "  global const tn_i64 *const i = (global const tn_i64 *)(i_base + i_at);\n"
      "  global tn_f32 *const y = (global tn_f32 *)(y_base + y_at);\n"
      "  fault += fault_at;\n"
      "  scratch += scratch_each * get_global_id(0);\n"
      "  const int n = (int)n_;\n"
      "  global tn_f32 *const t = (global tn_f32 *)(scratch + 0);\n"
      "  for (int r = get_global_id(0); r < items; r += get_global_size(0)) {\n"
      "    for (int j = 0; j < 4; j++) {\n"
      "      const int64_t at = (int64_t)(i[j]);\n"
      "      if (at < 0 || at >= (int64_t)(4)) {\n"
      "        atomic_cmpxchg((volatile global int *)fault, 0, 1);\n"
      "        return;\n"
      "      }\n"
      "      const int k = (int)at;\n"
      "      (void)k;\n"
      "      t[j] = x[4 * r + k];\n"
      "    }\n"
      "    for (int l = 0; l < 4; l++) {\n"
      "      y[4 * r + l] = t[l] * 2.0f;\n"
      "    }\n"
      "  }\n"
      "}\n");
  codegen_close(b.kernel.v[0]);
  arena_deinit(&b.arena);
}

TEST(opencl_text_refuses_f64) {
  Batch b;
  batch_open(&b, false);
  b.style.no_f64 = true;
  CodegenFixture f;
  bool differs;
  REQUIRE(codegen_open(&f,
                       "kernel @wide (%x: f64[4], out %y: f64[4]) {\n parallel r < 4 {\n"
                       "  store %y[r] = neg(%x[r])\n }\n}\n",
                       NULL));
  EXPECT_STATUS(cstyle_kernel(&b.style, f.k, "k", false, &b.text, &differs), TENON_EUNSUPPORTED);
  EXPECT(strstr(b.d.text, "f64"));
  codegen_close(&f);
  arena_deinit(&b.arena);
}
