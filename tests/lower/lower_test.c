// lower_test.c -- kernels that lowering makes, interpreted, against the graph's own evaluation.
//
// Sums are compared by their error bound: with d products each of whose sums is rounded, |got -
// want| is at most (d + 2) * u * the sum of |a * b|, which the same graph gives for absolute
// values.
#include "compiled.h"
#include "compile/compile.h"
#include "lower/contract/contract.h"
#include "schedules.h"
#include "runtime/session.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static uint64_t rng = 1;
static int64_t draw(int64_t n) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (int64_t)((rng >> 33) % (uint64_t)n);
}

// A value that is exact in every float dtype of whole bytes.
static double value_at(int64_t i, int64_t which, bool absolute) {
  double v = (double)((i * 29 + which * 13 + i * i % 7) % 33 - 16) / 16;
  return absolute ? fabs(v) : v;
}

// A constant of the text.
static void print_const(StrBuf *b, const char *name, const char *dtype, int rank,
                        const int64_t *dims, bool absolute) {
  int64_t n = 1;
  strbuf_printf(b, "  %%%s = const %s[", name, dtype);
  for (int i = 0; i < rank; i++) {
    strbuf_printf(b, "%s%lld", i ? ", " : "", (long long)dims[i]);
    n *= dims[i];
  }
  strbuf_printf(b, "] {");
  for (int64_t i = 0; i < n; i++) strbuf_printf(b, "%s%g", i ? ", " : "", value_at(i, 1, absolute));
  strbuf_printf(b, "}\n");
}

static Graph *parse(const char *text, Diag *d) {
  Graph *g = NULL;
  diag_init(d);
  if (graph_parse(str_of(text), NULL, d, &g)) FAIL("%s\n%s", d->text, text);
  if (g) g->diag = d;
  return g;
}

static bool make_inputs(Graph *g, Run *run, int64_t size, bool absolute, Value **in) {
  for (int64_t i = 0; i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    int64_t dims[MAX_RANK];
    for (int k = 0; k < t->rank; k++) dims[k] = ie_is_const(t->dims[k]) ? t->dims[k]->value : size;
    if (value_tensor(run, NOWHERE, t->dtype, t->rank, dims, &in[i])) return false;
    for (int64_t k = 0; k < in[i]->n; k++) val_put_f64(in[i], k, value_at(k, i, absolute));
  }
  return true;
}

static bool evaluate(const char *text, int64_t size, bool absolute, Run *run, Value **out) {
  static Diag d;
  Graph *g = parse(text, &d);
  Value *in[8] = {NULL};
  Interp *it = NULL;
  if (!g) return false;
  bool ok = !interp_create(g, NULL, &d, &it) && make_inputs(g, run, size, absolute, in) &&
            !interp_run(it, run, in, out);
  if (!ok) FAIL("%s\n%s", d.text, text);
  interp_free(it);
  graph_free(g);
  return ok;
}

static bool run_program(Program *p, Graph *g, int threads, int64_t size, Run *run, Value **out,
                        Diag *d) {
  Session *s = NULL;
  Value *in[8] = {NULL};
  bool ok = !session_create(p, &(SessionOptions){.threads = threads}, d, &s) &&
            make_inputs(g, run, size, false, in) && !session_run(s, run, in, NULL, out);
  session_free(s);
  return ok;
}

// What kernels are made for.
static LowerTarget made_for = {
    .vector_bytes = 64, .vector_registers = 32, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true};
static const char *expected;  // the first kernel's schedule, some of its fields; NULL: anything

// Compiles by kernels alone, none left to the host, and compares with `want`; `sum` is the sum of
// absolute products.
static void check_kernels(const char *text, int64_t size, int64_t depth, double u,
                          const Value *want, const Value *sum) {
  static Diag d;
  Graph *g = parse(text, &d);
  REQUIRE(g);
  Arena a;
  Run one, three;
  arena_init(&a);
  run_init(&one, NULL, &d);
  run_init(&three, NULL, &d);
  CompileOptions o;
  CompileReport made = {0};
  Value *x[2] = {NULL}, *y[2] = {NULL};
  compile_defaults(&o);
  o.start_from = "fuse-kernels";
  o.target = target_find("ref");
  o.described = &made_for;
  o.strict = true;  // the schedule that was chosen, not the next one
  bool ok = !compile_graph(g, &o, COMPILE_BUILD, &a, &d, &made);
  Compiled c = made.compiled;
  if (!ok) FAIL("%s\n%s", d.text, text);
  if (c.nhost)
    FAIL("%d kernels are left to the host: %s\n%s", (int)c.nhost, first_declined(&c, "no template"),
         text);
  if (ok && expected && !schedule_fits(c.kernel[0].lowered, expected))
    FAIL("%s: not %s\n%s", c.kernel[0].name, expected, text);
  ok = ok && run_program(c.program, g, 1, size, &one, x, &d) &&
       run_program(c.program, g, 3, size, &three, y, &d);
  if (!ok) FAIL("%s\n%s", d.text, text);
  for (int64_t i = 0; ok && i < want->n; i++) {
    double got = val_f64(x[0], i), bound = ((double)depth + 2) * u * val_f64(sum, i);
    if (fabs(got - val_f64(want, i)) <= bound) continue;
    FAIL("element %d is %.9g instead of %.9g, by %s\n%s", (int)i, got, val_f64(want, i),
         c.kernel[0].name, text);
    break;
  }
  EXPECT(!ok || val_f64(x[0], 0) == val_f64(y[0], 0));
  EXPECT(!ok || x[0]->n == want->n);
  for (int64_t i = 0; ok && i < want->n; i++)
    if (val_f64(x[0], i) != val_f64(y[0], i)) {
      FAIL("element %d depends on the threads\n%s", (int)i, text);
      break;
    }
  if (c.program) program_release(c.program);
  run_deinit(&one);
  run_deinit(&three);
  arena_deinit(&a);
  graph_free(g);
}

static void check_both(const char *text, const char *absolute, int64_t size, int64_t depth,
                       double u) {
  static Diag d;
  Run run;
  Value *want[2] = {NULL}, *sum[2] = {NULL};
  diag_init(&d);
  run_init(&run, NULL, &d);
  if (evaluate(text, size, false, &run, want) && evaluate(absolute, size, true, &run, sum))
    check_kernels(text, size, depth, u, want[0], sum[0]);
  run_deinit(&run);
}

// ---- matrix products ----

typedef struct DotCase {
  int64_t batch, m, n, k;
  bool lhs_turned, rhs_turned, constant, symbolic;
  const char *dtype;
} DotCase;

static const char *dot_text(Arena *a, const DotCase *c, bool absolute) {
  StrBuf b;
  char m[24];
  strbuf_init(&b, a);
  snprintf(m, sizeof m, c->symbolic ? "m" : "%lld", (long long)c->m);
  strbuf_printf(&b, "graph @\"dot\"(%%x: %s[", c->dtype);
  if (c->batch) strbuf_printf(&b, "%lld, ", (long long)c->batch);
  if (c->lhs_turned)
    strbuf_printf(&b, "%lld, %s]", (long long)c->k, m);
  else
    strbuf_printf(&b, "%s, %lld]", m, (long long)c->k);
  int64_t dims[3], rank = 0;
  if (c->batch) dims[rank++] = c->batch;
  dims[rank++] = c->rhs_turned ? c->n : c->k;
  dims[rank++] = c->rhs_turned ? c->k : c->n;
  if (!c->constant) {
    strbuf_printf(&b, ", %%w: %s[", c->dtype);
    for (int i = 0; i < rank; i++) strbuf_printf(&b, "%s%lld", i ? ", " : "", (long long)dims[i]);
    strbuf_printf(&b, "]");
  }
  strbuf_printf(&b, ") {\n");
  if (c->constant) print_const(&b, "w", c->dtype, (int)rank, dims, absolute);
  int off = c->batch ? 1 : 0;
  strbuf_printf(&b, "  %%y = dot(%%x, %%w)%s contract_lhs=[%d] contract_rhs=[%d]\n",
                off ? " batch_lhs=[0] batch_rhs=[0]" : "", off + !c->lhs_turned,
                off + c->rhs_turned);
  strbuf_printf(&b, "  return %%y\n}\n");
  return strbuf_text(&b);
}

TEST(lower_products) {
  Arena a;
  arena_init(&a);
  for (int i = 0; i < 60; i++) {
    static const char *const dtype[] = {"f32", "f32", "f32", "f64", "f16"};
    rng = (uint64_t)i * 7919 + 3;
    DotCase c = {.batch = draw(3) ? 0 : 1 + draw(3),
                 .m = 1 + draw(draw(2) ? 9 : 60),
                 .n = 1 + draw(draw(2) ? 20 : 90),
                 .k = 1 + draw(draw(2) ? 6 : 40),
                 .lhs_turned = draw(4) == 0,
                 .rhs_turned = draw(3) == 0,
                 .constant = draw(2),
                 .symbolic = draw(4) == 0,
                 .dtype = dtype[draw(5)]};
    // Narrow floats: summed in f32, and rounded once at the end.
    double u = !strcmp(c.dtype, "f64") ? 0x1p-53 : !strcmp(c.dtype, "f16") ? 0x1p-11 : 0x1p-24;
    check_both(dot_text(&a, &c, false), dot_text(&a, &c, true), c.m, c.k, u);
  }
  arena_deinit(&a);
}

// Rows flattened in another order than they lie in, weights turned within the kernel or before it.
static const char *flat_text(Arena *a, int64_t m, int64_t n, const int64_t *size, bool transposed,
                             bool absolute) {
  StrBuf b;
  strbuf_init(&b, a);
  int64_t k = size[0] * size[1] * size[2], w[2] = {transposed ? n : k, transposed ? k : n};
  strbuf_printf(&b, "graph @\"flat\"(%%x: f32[%lld, %lld, %lld, %lld]) {\n", (long long)m,
                (long long)size[0], (long long)size[1], (long long)size[2]);
  print_const(&b, "w", "f32", 2, w, absolute);
  strbuf_printf(&b, "  %%t = transpose(%%x) perm=[0, 3, 1, 2]\n  %%s = const i64[2] {%lld, %lld}\n",
                (long long)m, (long long)k);
  strbuf_printf(&b, "  %%f = reshape(%%t, %%s)\n");
  if (transposed) strbuf_printf(&b, "  %%u = transpose(%%w) perm=[1, 0]\n");
  strbuf_printf(&b, "  %%y = mat_mul(%%f, %s)\n  return %%y\n}\n", transposed ? "%u" : "%w");
  return strbuf_text(&b);
}

TEST(lower_flattened_products) {
  Arena a;
  arena_init(&a);
  for (int i = 0; i < 24; i++) {
    rng = (uint64_t)i * 6151 + 11;
    int64_t m = draw(2) ? 1 : 1 + draw(20), n = 1 + draw(90);
    int64_t size[3] = {1 + draw(5), 1 + draw(5), 1 + draw(24)}, k = size[0] * size[1] * size[2];
    bool transposed = draw(2);
    check_both(flat_text(&a, m, n, size, transposed, false),
               flat_text(&a, m, n, size, transposed, true), 1, k, 0x1p-24);
  }
  arena_deinit(&a);
}

// ---- convolutions ----

typedef struct ConvCase {
  int nd;
  bool last, transposed, constant, symbolic;
  bool open;                      // lines and pixels are not known
  bool relu;                      // behind it
  const char *dtype;              // NULL: f32
  int64_t batch, group, in, out;  // channels of one group
  int64_t size[3], kernel[3], stride[3], dilation[3], lo[3], hi[3];
} ConvCase;

static void print_list(StrBuf *b, const char *name, const int64_t *v, int n, const int64_t *more) {
  strbuf_printf(b, " %s=[", name);
  for (int i = 0; i < n; i++) strbuf_printf(b, "%s%lld", i ? ", " : "", (long long)v[i]);
  for (int i = 0; more && i < n; i++) strbuf_printf(b, ", %lld", (long long)more[i]);
  strbuf_printf(b, "]");
}

// The axes [from, to) are symbols.
static void print_dims(StrBuf *b, const char *dtype, const int64_t *v, int n, int from, int to) {
  strbuf_printf(b, "%s[", dtype);
  for (int i = 0; i < n; i++) {
    strbuf_printf(b, "%s", i ? ", " : "");
    if (i >= from && i < to)
      strbuf_printf(b, "m%d", i);
    else
      strbuf_printf(b, "%lld", (long long)v[i]);
  }
  strbuf_printf(b, "]");
}

static const char *conv_text(Arena *a, const ConvCase *c, bool absolute) {
  StrBuf b;
  const char *dtype = c->dtype ? c->dtype : "f32";
  int rank = c->nd + 2, space = c->last ? 1 : 2, taps = c->last ? 0 : 2;
  int64_t x[5] = {c->batch}, w[5];
  x[c->last ? rank - 1 : 1] = c->in * c->group;
  int first = c->last ? rank - 2 : 0;
  bool in_first = c->last || c->transposed;
  w[first + !in_first] = c->transposed ? c->in * c->group : c->in;
  w[first + in_first] = c->transposed ? c->out : c->out * c->group;
  for (int d = 0; d < c->nd; d++) {
    x[space + d] = c->size[d];
    w[taps + d] = c->kernel[d];
  }
  strbuf_init(&b, a);
  strbuf_printf(&b, "graph @\"conv\"(%%x: ");
  print_dims(&b, dtype, x, rank, c->open ? space : 0, c->open ? space + c->nd : c->symbolic);
  if (!c->constant) {
    strbuf_printf(&b, ", %%w: ");
    print_dims(&b, dtype, w, rank, 0, 0);
  }
  strbuf_printf(&b, ") {\n");
  if (c->constant) print_const(&b, "w", dtype, rank, w, absolute);
  strbuf_printf(&b, "  %%y = %s(%%x, %%w) group=%lld", c->transposed ? "conv_transpose" : "conv",
                (long long)c->group);
  print_list(&b, "strides", c->stride, c->nd, NULL);
  print_list(&b, "dilations", c->dilation, c->nd, NULL);
  print_list(&b, "pads", c->lo, c->nd, c->hi);
  strbuf_printf(&b, "%s\n", c->last ? " channels_last=true" : "");
  if (c->relu) strbuf_printf(&b, "  %%z = relu(%%y)\n");
  strbuf_printf(&b, "  return %%%s\n}\n", c->relu ? "z" : "y");
  return strbuf_text(&b);
}

static ConvCase random_conv(int i) {
  rng = (uint64_t)i * 104729 + 17;
  ConvCase c = {.nd = 1 + (int)draw(3),
                .last = draw(3) != 0,
                .transposed = draw(6) == 0,
                .constant = draw(3) != 0,
                .symbolic = draw(4) == 0,
                .batch = 1 + draw(2),
                .group = draw(3) ? 1 : 1 + draw(3),
                .in = 1 + draw(6),
                .out = 1 + draw(draw(3) ? 10 : 40)};
  if (draw(4) == 0) {  // every channel by itself
    c.group = 1 + draw(40);
    c.in = c.out = 1;
  }
  for (int d = 0; d < c.nd; d++) {
    c.kernel[d] = 1 + draw(3);
    c.stride[d] = 1 + draw(2);
    c.dilation[d] = 1 + (draw(3) == 0);
    int64_t span = (c.kernel[d] - 1) * c.dilation[d] + 1;
    c.size[d] = span + draw(d == c.nd - 1 ? 20 : 5);
    c.lo[d] = draw(span);
    c.hi[d] = draw(span);
    if (c.transposed) c.lo[d] = c.hi[d] = 0;
  }
  return c;
}

TEST(lower_convolutions) {
  Arena a;
  arena_init(&a);
  for (int i = 0; i < 90; i++) {
    ConvCase c = random_conv(i);
    int64_t depth = c.in;
    for (int d = 0; d < c.nd; d++) depth *= c.kernel[d];
    check_both(conv_text(&a, &c, false), conv_text(&a, &c, true), c.batch, depth, 0x1p-24);
  }
  arena_deinit(&a);
}

// Images of any size: every tap may lie outside.  By single threads, and by groups.
TEST(lower_open_images) {
  LowerTarget kept = made_for;
  Arena a;
  arena_init(&a);
  for (int i = 0; i < 72; i++) {
    rng = (uint64_t)(i % 36) * 6211 + 29;
    made_for.block_threads = i < 36 ? 0 : 64;
    made_for.shared_bytes = i < 36 ? 0 : 48 << 10;
    ConvCase c = {.nd = 1 + (int)draw(2),
                  .last = draw(2),
                  .constant = draw(4) != 0,
                  .open = true,
                  .batch = 1 + draw(2),
                  .group = draw(3) ? 1 : 2,
                  .in = 1 + draw(20),
                  .out = 1 + draw(40)};
    if (draw(2)) {  // every channel by itself
      c.group = 1 + draw(70);
      c.in = c.out = 1;
    }
    int64_t depth = c.in, size = 1 + draw(19);
    for (int d = 0; d < c.nd; d++) {
      c.kernel[d] = 1 + draw(3);
      c.stride[d] = 1 + draw(2);
      c.dilation[d] = draw(4) ? 1 : 2;
      c.lo[d] = c.hi[d] = c.dilation[d] * (c.kernel[d] - 1) / 2;
      depth *= c.kernel[d];
      if (size + c.lo[d] + c.hi[d] <= c.dilation[d] * (c.kernel[d] - 1)) size += 4;
    }
    check_both(conv_text(&a, &c, false), conv_text(&a, &c, true), size, depth, 0x1p-24);
  }
  made_for = kept;
  arena_deinit(&a);
}

// Any size, and another one of the result: pads beyond the kernel's, and steps back.  The strides
// of the result are sums.
TEST(lower_open_results) {
  Arena a;
  arena_init(&a);
  for (int i = 0; i < 48; i++) {
    rng = (uint64_t)i * 9973 + 41;
    ConvCase c = {.nd = 1 + (int)(draw(3) == 0),
                  .last = draw(4) == 0,
                  .transposed = i % 2,
                  .constant = draw(4) != 0,
                  .open = true,
                  .batch = 1 + draw(2),
                  .group = 1 + draw(4),
                  .in = 1 + draw(6),
                  .out = 1 + draw(6)};
    int64_t depth = c.in, size = 5 + draw(30);
    for (int d = 0; d < c.nd; d++) {
      c.kernel[d] = 1 + draw(6);
      c.stride[d] = c.transposed ? 1 + draw(3) : 1;
      c.dilation[d] = draw(4) ? 1 : 2;
      int64_t span = (c.kernel[d] - 1) * c.dilation[d] + 1;
      c.lo[d] = draw(c.transposed ? (span + 1) / 2 : 2 * span);
      c.hi[d] = draw(c.transposed ? (span + 1) / 2 : 2 * span);
      depth *= c.kernel[d];
      if (size + c.lo[d] + c.hi[d] < span) size += span;
    }
    check_both(conv_text(&a, &c, false), conv_text(&a, &c, true), size, depth, 0x1p-24);
  }
  arena_deinit(&a);
}

// Images of few channels: an item's lines are copied with their padding, where the channels that
// come out fill a vector.
TEST(lower_first_layers) {
  Arena a;
  arena_init(&a);
  for (int i = 0; i < 12; i++) {
    bool wide = i % 3 != 0;
    rng = (uint64_t)i * 7727 + 11;
    ConvCase c = {.nd = 2,
                  .last = draw(2),
                  .constant = draw(4) != 0,
                  .symbolic = draw(3) == 0,
                  .batch = 1 + draw(2),
                  .group = draw(4) ? 1 : 2,
                  .in = wide ? 2 + draw(3) : 1 + draw(4),
                  .out = wide ? 16 + draw(12) : 1 + draw(15),
                  .size = {5 + draw(9), 33 + draw(9)}};
    int64_t depth = c.in;
    for (int d = 0; d < 2; d++) {
      c.kernel[d] = wide ? 3 + draw(2) : 2 + draw(3);
      c.stride[d] = 1 + draw(2);
      c.dilation[d] = draw(4) ? 1 : 2;
      c.lo[d] = 1 + draw(3);
      c.hi[d] = draw(4);
      depth *= c.kernel[d];
    }
    c.stride[1] = 1;
    expected = wide ? "gemm stage_image=true" : NULL;
    check_both(conv_text(&a, &c, false), conv_text(&a, &c, true), c.batch, depth, 0x1p-24);
  }
  expected = NULL;
  arena_deinit(&a);
}

// Lines with more weights than the second cache holds: all tiles take the taps in blocks.
TEST(lower_blocks_of_taps) {
  LowerTarget kept = made_for;
  Arena a;
  arena_init(&a);
  made_for.l2 = 1024;
  for (int i = 0; i < 8; i++) {
    rng = (uint64_t)i * 9343 + 5;
    ConvCase c = {.nd = 1,
                  .last = draw(2),
                  .constant = true,
                  .relu = draw(2),
                  .batch = 1 + draw(2),
                  .group = draw(4) ? 1 : 2,
                  .in = 3 + draw(5),
                  .out = 16 + draw(12),
                  .size = {240 + draw(40)}};
    c.kernel[0] = 40 + draw(30);
    c.stride[0] = 1;
    c.dilation[0] = draw(3) ? 1 : 2;
    c.lo[0] = 20 + draw(40);
    c.hi[0] = 20 + draw(40);
    expected = "gemm tap_block=1";
    check_both(conv_text(&a, &c, false), conv_text(&a, &c, true), c.batch, c.in * c.kernel[0],
               0x1p-24);
  }
  expected = NULL;
  made_for = kept;
  arena_deinit(&a);
}

// Channels by themselves, for thread blocks: runs of channels and pixels of all lengths, taps
// outside on every side.
TEST(lower_depthwise_by_groups) {
  LowerTarget kept = made_for;
  Arena a;
  arena_init(&a);
  made_for.block_threads = 64;
  made_for.shared_bytes = 48 << 10;
  expected = "depthwise";
  for (int i = 0; i < 60; i++) {
    rng = (uint64_t)i * 15013 + 3;
    bool half = draw(2);
    ConvCase c = {.nd = draw(4) ? 2 : 1,
                  .last = true,
                  .constant = draw(4) != 0,
                  .symbolic = draw(3) == 0,
                  .relu = draw(2),
                  .dtype = half ? "bf16" : "f32",
                  .batch = 1 + draw(3),
                  .group = (1 << (1 + draw(3))) * (1 + draw(9)),
                  .in = 1,
                  .out = 1};
    int64_t depth = 1;
    for (int d = 0; d < c.nd; d++) {
      c.kernel[d] = 1 + draw(draw(4) ? 5 : 7);
      c.stride[d] = 1 + draw(3);
      c.dilation[d] = draw(3) ? 1 : 2;
      int64_t span = (c.kernel[d] - 1) * c.dilation[d] + 1;
      c.lo[d] = draw(span);
      c.hi[d] = draw(span);
      // Lines of the result are often whole multiples of a thread's pixels.
      int64_t along = (draw(3) ? 4 : 1) * (1 + draw(8));
      c.size[d] = MAX((along - 1) * c.stride[d] + span - c.lo[d] - c.hi[d], 1);
      depth *= c.kernel[d];
    }
    check_both(conv_text(&a, &c, false), conv_text(&a, &c, true), c.batch, depth,
               half ? 0x1p-9 : 0x1p-24);
  }
  expected = NULL;
  made_for = kept;
  arena_deinit(&a);
}

// Planes of 4096 bytes: sums are stored along the rows.
TEST(lower_planes) {
  Arena a;
  arena_init(&a);
  for (int i = 0; i < 12; i++) {
    rng = (uint64_t)i * 9973 + 5;
    int64_t k = draw(2) ? 1 : 3;
    ConvCase c = {.nd = 2,
                  .constant = draw(2),
                  .batch = 1 + draw(2),
                  .group = draw(3) ? 1 : 2,
                  .in = 1 + draw(3),
                  .out = 1 + draw(40),
                  .size = {32, 32},
                  .kernel = {k, k},
                  .stride = {1, 1},
                  .dilation = {1, 1},
                  .lo = {k / 2, k / 2},
                  .hi = {k / 2, k / 2}};
    check_both(conv_text(&a, &c, false), conv_text(&a, &c, true), c.batch, c.in * k * k, 0x1p-24);
  }
  arena_deinit(&a);
}

// Operands beyond a cache that is small enough for a test: rows, columns and depths that do and do
// not come out even.
TEST(lower_products_in_blocks) {
  const DotCase all[] = {{.m = 112, .n = 64, .k = 96},
                         {.m = 115, .n = 70, .k = 101},
                         {.m = 133, .n = 67, .k = 97},
                         {.m = 120, .n = 80, .k = 129, .lhs_turned = true},
                         {.m = 117, .n = 65, .k = 150, .rhs_turned = true}};
  LowerTarget kept = made_for;
  Arena a;
  arena_init(&a);
  made_for.vector_bytes = 16;
  made_for.l2 = 3 << 10;
  expected = "gemm k_block=16";
  for (int i = 0; i < ARRAY_LEN(all); i++) {
    DotCase c = all[i];
    c.constant = true;
    c.dtype = "f32";
    check_both(dot_text(&a, &c, false), dot_text(&a, &c, true), 5, c.k, 0x1p-24);
  }
  expected = NULL;
  made_for = kept;
  arena_deinit(&a);
}
