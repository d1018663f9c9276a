// conv_chain_test.c -- chains of convolutions in one kernel, against the reference interpreter:
// expand, depthwise, project, with one of them missing, for vectors of several widths.
#include "schedules.h"
#include "eval/contract.h"
#include "compiled.h"
#include "ir/interpret.h"
#include "lower/cpu/conv_chain.h"
#include "runtime/session.h"
#include "test.h"

#include <math.h>

static uint64_t rng;
static int64_t draw(int64_t n) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (int64_t)((rng >> 33) % (uint64_t)n);
}

// ---- cases ----

typedef struct ChainCase {
  int64_t batch;          // images
  bool symbolic;          // their number is open
  int64_t in, wide, out;  // in 0: no expansion; out 0: no projection
  int64_t groups;         // of the projection; 0: one
  int64_t size[2], kernel[2], stride[2], dilation[2], lo[2], hi[2];
  int act[3];
  bool bias, residual, both;  // both: the image behind the depthwise convolution is a result, too
} ChainCase;

static const char *const acts[] = {
    "",
    "  %%%s = relu(%%%s)\n",
    "  %%%s = clip(%%%s, %%zero, %%six)\n",
    "  %%%s = hard_swish(%%%s)\n",
    "  %%%s = swish(%%%s)\n",
    "  %%%s = leaky_relu(%%%s) alpha=0.25\n",
};

static void print_const(StrBuf *b, const char *name, int rank, const int64_t *dims) {
  int64_t n = 1;
  strbuf_printf(b, "  %%%s = const f32[", name);
  for (int i = 0; i < rank; i++) {
    strbuf_printf(b, "%s%lld", i ? ", " : "", (long long)dims[i]);
    n *= dims[i];
  }
  strbuf_puts(b, "] {");
  for (int64_t i = 0; i < n; i++)
    strbuf_printf(b, "%s%g", i ? ", " : "", (double)(draw(65) - 32) / 64);
  strbuf_puts(b, "}\n");
}

// A convolution of `from` into `to`, with its bias and what is done behind it.
static void print_conv(StrBuf *b, Arena *a, const ChainCase *c, const char *from, const char *to,
                       const int64_t *w, const char *attrs, int act) {
  print_const(b, str_printf(a, "w%s", to), 4, w);
  if (c->bias) print_const(b, str_printf(a, "b%s", to), 1, &w[3]);
  const char *raw = act ? str_printf(a, "%s_raw", to) : to;
  strbuf_printf(b, "  %%%s = conv(%%%s, %%w%s%s) channels_last=true%s\n", raw, from, to,
                c->bias ? str_printf(a, ", %%b%s", to) : "", attrs);
  if (act) strbuf_printf(b, acts[act], to, raw);
}

static const char *depth_attrs(Arena *a, const ChainCase *c) {
  return str_printf(
      a, " group=%lld strides=[%lld, %lld] dilations=[%lld, %lld] pads=[%lld, %lld, %lld, %lld]",
      (long long)c->wide, (long long)c->stride[0], (long long)c->stride[1],
      (long long)c->dilation[0], (long long)c->dilation[1], (long long)c->lo[0],
      (long long)c->lo[1], (long long)c->hi[0], (long long)c->hi[1]);
}

static const char *chain_text(Arena *a, const ChainCase *c) {
  StrBuf b;
  strbuf_init(&b, a);
  const char *images = c->symbolic ? "b" : str_printf(a, "%lld", (long long)c->batch);
  strbuf_printf(&b, "graph @\"chain\"(%%x: f32[%s, %lld, %lld, %lld]) {\n", images,
                (long long)c->size[0], (long long)c->size[1], (long long)(c->in ? c->in : c->wide));
  strbuf_puts(&b, "  %zero = const f32[] {0}\n  %six = const f32[] {6}\n");
  if (c->in) print_conv(&b, a, c, "x", "e", (int64_t[]){1, 1, c->in, c->wide}, "", c->act[0]);
  print_conv(&b, a, c, c->in ? "e" : "x", "d", (int64_t[]){c->kernel[0], c->kernel[1], 1, c->wide},
             depth_attrs(a, c), c->act[1]);
  const char *last = "d";
  if (c->out) {
    int64_t groups = MAX(c->groups, 1);
    print_conv(&b, a, c, "d", "p", (int64_t[]){1, 1, c->wide / groups, c->out},
               str_printf(a, " group=%lld", (long long)groups), c->act[2]);
    last = "p";
  }
  if (c->residual) {
    strbuf_printf(&b, "  %%r = add(%%%s, %%x)\n", last);
    last = "r";
  }
  strbuf_printf(&b, "  return %%%s%s\n}\n", last, c->both ? ", %d" : "");
  return strbuf_text(&b);
}

// ---- both ways ----

typedef struct Built {
  Graph *g;
  Arena arena;
  Compiled c;
} Built;

static tenon_status build(const char *text, const LowerTarget *t, Built *b, Diag *d) {
  CompileOptions o;
  CompileReport r;
  compile_defaults(&o);
  o.fold_limit = 1 << 20;
  o.bisect = o.unroll_limit = 0;  // the graph as it is, but for fusion and layout
  o.target = target_find("ref");
  o.described = t;
  TRY(compile_parsed(text, &o, COMPILE_BUILD, &b->arena, d, &b->g, &r));
  b->c = r.compiled;
  return TENON_OK;
}

static bool make_input(const Graph *g, int64_t batch, Run *run, Value **in) {
  const Type *t = type_of(g->main->param[0]);
  int64_t dims[4] = {batch};
  for (int i = 1; i < 4; i++) dims[i] = t->dims[i]->value;
  if (value_tensor(run, NOWHERE, t->dtype, 4, dims, in)) return false;
  rng = 99;
  for (int64_t i = 0; i < (*in)->n; i++) val_put_f64(*in, i, (double)(draw(257) - 128) / 64);
  return true;
}

static bool interpreted(const char *text, int64_t batch, Run *run, Value **out, Diag *d) {
  Graph *g = NULL;
  Interp *it;
  Value *in[1] = {NULL};
  if (graph_parse(str_of(text), "a.tir", d, &g)) return false;
  bool ok = make_input(g, batch, run, in) && !interp_create(g, NULL, d, &it);
  if (ok) {
    ok = !interp_run(it, run, in, out);
    interp_free(it);
  }
  graph_free(g);
  return ok;
}

static bool compiled(const Built *b, int64_t batch, int threads, Run *run, Value **out, Diag *d) {
  Session *s;
  Value *in[1] = {NULL};
  if (session_create(b->c.program, &(SessionOptions){.threads = threads}, d, &s)) return false;
  bool ok = make_input(b->g, batch, run, in) && !session_run(s, run, in, NULL, out);
  session_free(s);
  return ok;
}

static void compare(const char *text, const Value *got, const Value *want) {
  double most = 1;
  for (int64_t i = 0; i < want->n; i++) most = fmax(most, fabs(val_f64(want, i)));
  for (int64_t i = 0; i < want->n && i < got->n; i++) {
    double x = val_f64(got, i), y = val_f64(want, i);
    if (fabs(x - y) <= 1e-5 * most) continue;
    FAIL("element %d: %.9g, not %.9g\n%.1200s", (int)i, x, y, text);
    return;
  }
  EXPECT_INT_EQ(got->n, want->n);
}

static int64_t chains_in(const Compiled *c) {
  int64_t n = 0;
  for (int64_t i = 0; i < c->nkernels; i++) n += schedule_fits(c->kernel[i].lowered, "conv_chain");
  return n;
}

// The interpreter and the kernels agree; neither one thread, two nor three change a bit.  Gives the
// number of chains.
static int64_t check_chain(const ChainCase *c, const LowerTarget *t, int64_t *out_kernels) {
  enum { WAYS = 4, RESULTS = 2 };
  static Diag d;
  Built b = {0};
  Run run[WAYS];
  Value *out[WAYS][RESULTS] = {{NULL}};
  diag_init(&d);
  arena_init(&b.arena);
  for (int i = 0; i < WAYS; i++) {
    run_init(&run[i], NULL, &d);
    run[i].max_bytes = (int64_t)1 << 30;
    run[i].budget = 1 << 30;
    run[i].ops_budget = -1;
  }
  const char *text = chain_text(&b.arena, c);
  bool ok = interpreted(text, c->batch, &run[0], out[0], &d) && !build(text, t, &b, &d);
  for (int i = 1; i < WAYS && ok; i++) ok = compiled(&b, c->batch, i, &run[i], out[i], &d);
  if (!ok) FAIL("%s\n%.1200s", d.text, text);
  if (ok && (b.c.nhost || b.c.ndeclined))
    FAIL("%d steps of the host's, %d not proven: %s\n%.1200s", (int)b.c.nhost, (int)b.c.ndeclined,
         first_declined(&b.c, ""), text);
  for (int64_t i = 0; ok && i < b.g->main->nresults; i++) {
    compare(text, out[1][i], out[0][i]);
    for (int k = 2; k < WAYS; k++)
      EXPECT(!memcmp(out[1][i]->data, out[k][i]->data, (size_t)out[1][i]->n * 4));
  }
  int64_t chains = ok ? chains_in(&b.c) : 0;
  *out_kernels = ok ? b.c.nkernels : 0;
  for (int i = 0; i < WAYS; i++) run_deinit(&run[i]);
  if (b.c.program) program_release(b.c.program);
  arena_deinit(&b.arena);
  graph_free(b.g);
  return chains;
}

static const LowerTarget targets[] = {
    {.vector_bytes = 64, .vector_registers = 32, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true},
    {.vector_bytes = 32, .vector_registers = 16, .l1 = 32 << 10, .l2 = 16 << 10, .fma = true},
    {.vector_bytes = 16, .vector_registers = 32, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true}};

static ChainCase random_chain(int i) {
  rng = (uint64_t)i * 104729 + 31;
  ChainCase c = {.batch = 1 + draw(3),
                 .symbolic = draw(2),
                 .in = draw(3) ? 1 + draw(24) : 0,
                 .wide = 2 + draw(60),
                 .bias = draw(3) != 0};
  if (!c.in || draw(3)) c.out = 1 + draw(40);
  for (int k = 0; k < 3; k++) c.act[k] = (int)draw(ARRAY_LEN(acts));
  for (int d = 0; d < 2; d++) {
    c.kernel[d] = draw(5) ? 1 + 2 * draw(4) : 2;
    c.stride[d] = 1 + draw(2);
    c.dilation[d] = 1 + (draw(5) == 0);
    int64_t span = (c.kernel[d] - 1) * c.dilation[d] + 1;
    c.size[d] = span + draw(18);
    c.lo[d] = draw(span + 2);
    c.hi[d] = draw(span + 2);
  }
  return c;
}

TEST_LONG(lower_chains_at_random) {
  int64_t chains = 0, kernels;
  for (int i = 0; i < 30; i++) {
    ChainCase c = random_chain(i);
    chains += check_chain(&c, &targets[i % 3], &kernels);
  }
  EXPECT(chains >= 15);
}

// An image whose borders are half a window: what networks have.
static ChainCase usual(int64_t in, int64_t wide, int64_t out, int64_t size, int64_t kernel,
                       int64_t stride) {
  ChainCase c = {.batch = 1, .in = in, .wide = wide, .out = out, .act = {2, 2, 0}, .bias = true};
  for (int d = 0; d < 2; d++) {
    c.size[d] = size;
    c.kernel[d] = kernel;
    c.stride[d] = stride;
    c.dilation[d] = 1;
    c.lo[d] = c.hi[d] = kernel / 2;
  }
  c.residual = stride == 1 && out == (in ? in : wide);
  return c;
}

TEST_LONG(lower_chains_of_networks) {
  static const int64_t shapes[][6] = {{8, 48, 8, 28, 3, 1},   {8, 40, 24, 28, 3, 2},
                                      {0, 32, 16, 28, 3, 1},  {0, 40, 40, 14, 5, 1},
                                      {16, 72, 24, 28, 5, 2}, {12, 144, 12, 28, 3, 1},
                                      {0, 64, 64, 15, 3, 2},  {6, 24, 10, 28, 7, 2}};
  for (int i = 0; i < ARRAY_LEN(shapes); i++) {
    const int64_t *s = shapes[i];
    int64_t kernels;
    ChainCase c = usual(s[0], s[1], s[2], s[3], s[4], s[5]);
    EXPECT_INT_EQ(check_chain(&c, &targets[i % 3], &kernels), 1);
    EXPECT_INT_EQ(kernels, 1);
  }
}

// Two bands of an image with few lines would compute too much twice: the projection stays apart.
TEST(lower_chains_of_few_lines) {
  int64_t kernels;
  ChainCase c = usual(20, 120, 20, 7, 3, 1);
  EXPECT_INT_EQ(check_chain(&c, &targets[0], &kernels), 1);
  EXPECT_INT_EQ(kernels, 2);
  c.batch = 8;  // as many items as images
  EXPECT_INT_EQ(check_chain(&c, &targets[0], &kernels), 1);
  EXPECT_INT_EQ(kernels, 1);
}

// The same with so many channels that their sums are formed in parts, by another kernel's items
// each.
TEST(lower_chains_in_parts) {
  int64_t kernels;
  ChainCase c = usual(64, 384, 64, 7, 3, 1);
  EXPECT_INT_EQ(check_chain(&c, &targets[0], &kernels), 1);
  EXPECT_INT_EQ(kernels, 2);
}

// How many convolutions have a projection's weights in groups, once optimised.
static int64_t parted(const char *text, bool exact) {
  static Diag d;
  Arena a;
  Graph *g = NULL;
  int64_t n = 0;
  arena_init(&a);
  diag_init(&d);
  CompileOptions o;
  CompileReport report;
  compile_defaults(&o);
  o.exact = exact;
  o.fold_limit = 1 << 20;
  o.bisect = o.unroll_limit = 0;
  o.stop_after = "split-k";
  if (compile_parsed(text, &o, COMPILE_OPTIMISE, &a, &d, &g, &report)) FAIL("%s", d.text);
  NodeList all = body_order(g, g->main, &a);
  for (int64_t i = 0; i < all.n; i++)
    n += all.v[i]->op == OP_conv && ((const conv_attrs *)all.v[i]->attrs)->group == 4;
  graph_free(g);
  arena_deinit(&a);
  return n;
}

TEST(sums_are_parted_where_it_pays) {
  Arena a;
  arena_init(&a);
  ChainCase c = usual(64, 384, 64, 7, 3, 1);
  const char *text = chain_text(&a, &c);
  EXPECT_INT_EQ(parted(text, false), 1);
  EXPECT_INT_EQ(parted(text, true), 0);  // not without a fast-math flag
  c.size[0] = c.size[1] = 56;            // bands of lines do
  EXPECT_INT_EQ(parted(chain_text(&a, &c), false), 0);
  c = usual(64, 384, 64, 7, 3, 1);
  c.both = true;  // the wide image is written anyway
  EXPECT_INT_EQ(parted(chain_text(&a, &c), false), 0);
  c = usual(64, 384, 64, 7, 3, 1);
  c.batch = 8;  // as many items as images
  EXPECT_INT_EQ(parted(chain_text(&a, &c), false), 0);
  arena_deinit(&a);
}

// A projection in groups: an item has the channels of one.
TEST(lower_chains_in_groups) {
  int64_t kernels;
  for (int64_t groups = 2; groups <= 4; groups += 2) {
    ChainCase c = usual(8, 48 * groups, 10 * groups, 7, 3, 1);
    c.groups = groups;
    c.act[2] = 3;
    for (int t = 0; t < ARRAY_LEN(targets); t++) {
      EXPECT_INT_EQ(check_chain(&c, &targets[t], &kernels), 1);
      EXPECT_INT_EQ(kernels, 1);
    }
  }
}

// What is read elsewhere, too, is written out.
TEST(lower_chains_that_are_read_twice) {
  int64_t kernels;
  ChainCase c = usual(8, 48, 8, 14, 3, 1);
  c.both = true;
  EXPECT_INT_EQ(check_chain(&c, &targets[0], &kernels), 1);
  EXPECT_INT_EQ(kernels, 2);
}
