// image_test.c -- the code of a convolution does not grow with its kernel or its padding, and its
// borders are right.
//
// Each case is lowered for three kinds of vectors, counted, and run by the loop interpreter beside
// the reference interpreter.
#include "compiled.h"
#include "ir/interpret.h"
#include "loop/survey.h"
#include "runtime/session.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

typedef struct ImageCase {
  const char *op;             // conv, conv_transpose
  const char *x, *w, *attrs;  // shapes and attributes
  bool bytes;                 // int8
} ImageCase;

static const ImageCase cases[] = {
    // Padding on both sides, before alone (causal), far more than the kernel, and a line that no
    // kernel fits into.
    {"conv", "2, 4, 300", "8, 4, 64", "pads=[32, 31]", false},
    {"conv", "1, 2, 200", "3, 2, 256", "pads=[255, 0]", false},
    {"conv", "1, 1, 4", "1, 1, 1", "pads=[3000, 3000]", false},
    {"conv", "1, 3, 50", "5, 3, 129", "pads=[200, 100] strides=[3] dilations=[2]", false},
    {"conv", "1, 3, 9, 40", "5, 3, 5, 33", "pads=[2, 16, 2, 16]", false},
    // Groups, and every channel by itself.
    {"conv", "1, 8, 100", "12, 2, 64", "group=4 pads=[40, 50] strides=[2]", false},
    {"conv", "1, 20, 150", "20, 1, 65", "group=20 pads=[64, 64]", false},
    {"conv", "1, 17, 6, 70", "17, 1, 5, 31", "group=17 pads=[2, 15, 2, 15] dilations=[1, 2]",
     false},
    // Transposed: strides that share a factor with the dilation, and that do not.
    {"conv_transpose", "1, 4, 60", "4, 6, 64", "strides=[4] pads=[30, 30]", false},
    {"conv_transpose", "1, 4, 30", "4, 3, 40", "strides=[6] dilations=[4] pads=[7, 0]", false},
    {"conv_transpose", "1, 4, 20", "4, 3, 50", "strides=[16] dilations=[3]", false},
    {"conv_transpose", "1, 4, 80", "4, 2, 100", "group=2 pads=[50, 99]", false},
    {"conv_transpose", "1, 3, 5, 20", "3, 4, 3, 33", "strides=[2, 3] pads=[1, 16, 0, 16]", false},
    // Bytes, in words of several taps or channels.
    {"conv_integer", "1, 8, 90", "5, 8, 64", "pads=[40, 63]", true},
    {"conv_integer", "1, 16, 9, 90", "16, 1, 9, 33", "group=16 pads=[4, 60, 4, 60]", true},
};

static const LowerTarget targets[] = {
    {.vector_bytes = 64, .vector_registers = 32, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true},
    {.vector_bytes = 32, .vector_registers = 16, .l1 = 32 << 10, .l2 = 256 << 10, .fma = true},
    {.vector_bytes = 16, .vector_registers = 16, .l1 = 32 << 10, .l2 = 256 << 10},
};

// More than any of them takes with borders as loops; with borders written out they take up to 100
// times as much.
enum { STATEMENTS_MOST = 6000, LINE_STATEMENTS_MOST = 9000 };

static int64_t product(const char *dims) {
  int64_t n = 1;
  for (const char *at = dims; at; at = strchr(at, ','), at = at ? at + 1 : NULL) n *= atoll(at);
  return n;
}

static const char *text_of(Arena *a, const ImageCase *c) {
  StrBuf b;
  uint64_t rng = 7;
  const char *t = c->bytes ? "i8" : "f32";
  strbuf_init(&b, a);
  strbuf_printf(&b, "graph @\"image\"(%%x: %s[%s]) {\n  %%w = const %s[%s] {", t, c->x, t, c->w);
  for (int64_t i = 0; i < product(c->w); i++) {
    rng = rng * 6364136223846793005ull + 1442695040888963407ull;
    int v = (int)(rng >> 40) % 65 - 32;
    strbuf_printf(&b, "%s%g", i ? ", " : "", c->bytes ? (double)v : (double)v / 256);
  }
  strbuf_printf(&b, "}\n  %%y = %s(%%x, %%w) %s\n  return %%y\n}\n", c->op, c->attrs);
  return strbuf_text(&b);
}

static bool make_input(const Graph *g, Run *run, Value **in) {
  const Type *t = type_of(g->main->param[0]);
  int64_t dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  if (value_tensor(run, NOWHERE, t->dtype, t->rank, dims, in)) return false;
  bool floats = t->dtype == DT_F32;
  for (int64_t i = 0; i < (*in)->n; i++)
    val_put_f64(*in, i, (double)(i * 37 % 127 - 63) / (floats ? 64 : 1));
  return true;
}

static bool interpreted(const Graph *g, Run *run, Value **out, Diag *d) {
  Interp *it;
  Value *in[1] = {NULL};
  if (!make_input(g, run, in) || interp_create((Graph *)(uintptr_t)g, NULL, d, &it)) return false;
  bool ok = !interp_run(it, run, in, out);
  interp_free(it);
  return ok;
}

static bool compiled(const Graph *g, const Compiled *c, Run *run, Value **out, Diag *d) {
  Session *s;
  Value *in[1] = {NULL};
  if (session_create(c->program, &(SessionOptions){.threads = 1}, d, &s)) return false;
  bool ok = make_input(g, run, in) && !session_run(s, run, in, NULL, out);
  session_free(s);
  return ok;
}

static void compare(const ImageCase *c, const Value *got, const Value *want) {
  EXPECT_INT_EQ(got->n, want->n);
  for (int64_t i = 0; i < want->n && i < got->n; i++) {
    double x = val_f64(got, i), y = val_f64(want, i);
    if (fabs(x - y) <= (c->bytes ? 0 : 1e-4 * (1 + fabs(y)))) continue;
    FAIL("%s x [%s] w [%s] %s: element %d is %.9g, not %.9g", c->op, c->x, c->w, c->attrs, (int)i,
         x, y);
    return;
  }
}

static void count(const ImageCase *c, const Compiled *all, int64_t most) {
  if (all->nhost || all->ndeclined)
    FAIL("%s %s: %d kernels of the host's: %s", c->op, c->attrs, (int)all->nhost,
         first_declined(all, ""));
  for (int64_t i = 0; i < all->nkernels; i++) {
    int64_t n = loop_statements(all->kernel[i].lowered->kernel);
    if (n > most)
      FAIL("%s x [%s] w [%s] %s: %lld statements", c->op, c->x, c->w, c->attrs, (long long)n);
  }
}

static void check(const ImageCase *c, const LowerTarget *t) {
  static Diag d;
  Graph *g = NULL, *plain = NULL;
  Arena arena;
  Run run[2];
  Value *out[2] = {NULL, NULL};
  CompileOptions o;
  CompileReport r = {0};
  diag_init(&d);
  arena_init(&arena);
  for (int i = 0; i < 2; i++) {
    run_init(&run[i], NULL, &d);
    run[i].max_bytes = (int64_t)1 << 30;
    run[i].budget = run[i].ops_budget = -1;
  }
  compile_defaults(&o);
  o.target = target_find("ref");
  o.described = t;
  const char *text = text_of(&arena, c);
  bool ok = !graph_parse(str_of(text), "a.tir", &d, &plain) &&
            !compile_parsed(text, &o, COMPILE_BUILD, &arena, &d, &g, &r) &&
            interpreted(plain, &run[0], &out[0], &d) &&
            compiled(g, &r.compiled, &run[1], &out[1], &d);
  if (!ok) FAIL("%s %s: %s", c->op, c->attrs, d.text);
  if (ok) count(c, &r.compiled, STATEMENTS_MOST);
  if (ok) compare(c, out[1], out[0]);
  for (int i = 0; i < 2; i++) run_deinit(&run[i]);
  if (r.compiled.program) program_release(r.compiled.program);
  arena_deinit(&arena);
  graph_free(g);
  graph_free(plain);
}

TEST_LONG(image_borders_are_loops) {
  for (int i = 0; i < ARRAY_LEN(cases); i++)
    for (int t = 0; t < ARRAY_LEN(targets); t++)
      if (test_takes()) check(&cases[i], &targets[t]);
}

// ---- lines of every kind ----

// Shapes at random: kernels longer than their line, padding on either side, groups, steps and
// dilations of any size.
static ImageCase draw_line(uint64_t seed, Arena *a) {
  uint64_t rng = seed * 0x9e3779b97f4a7c15ull;
#define DRAW(n)                                                                                    \
  ((int64_t)((rng = rng * 6364136223846793005ull + 1442695040888963407ull) >> 33) % (n))
  int64_t group = 1 + DRAW(3), in = 1 + DRAW(6), out = group * (1 + DRAW(6));
  int64_t taps = DRAW(2) ? 1 + DRAW(12) : 30 + DRAW(60), dilation = DRAW(2) ? 1 : 1 + DRAW(9);
  int64_t reach = (taps - 1) * dilation + 1, size = 1 + DRAW(140), before = DRAW(reach + 1);
  int64_t after = DRAW(2) ? 0 : DRAW(reach + 1), stride = DRAW(2) ? 1 + DRAW(2) : 1 + DRAW(40);
  if (before + size + after < reach) before = reach - size - after;
  bool across = DRAW(4) == 0, transposed = !across && DRAW(4) == 0;
#undef DRAW
  const char *attrs =
      str_printf(a,
                 across ? "group=%d strides=[1, %d] dilations=[1, %d] pads=[1, %d, 0, %d]"
                        : "group=%d strides=[%d] dilations=[%d] pads=[%d, %d]",
                 (int)group, (int)stride, (int)dilation, (int)before, (int)after);
  if (transposed)  // as large as it comes
    attrs = str_printf(a, "group=%d strides=[%d] dilations=[%d]", (int)group, (int)MIN(stride, 9),
                       (int)dilation);
  return (ImageCase){
      transposed ? "conv_transpose" : "conv",
      str_printf(a, across ? "2, %d, 3, %d" : "2, %d, %d", (int)(group * in), (int)size),
      str_printf(a, across ? "%d, %d, 2, %d" : "%d, %d, %d", (int)(transposed ? group * in : out),
                 (int)(transposed ? out / group : in), (int)taps),
      attrs, false};
}

// No first schedule is too large: none is left for a cheaper one.
TEST(image_lines_stay_small) {
  enum { LINES = 150 };
  static Diag d;
  for (uint64_t i = 1; i <= LINES; i++) {
    Arena arena;
    arena_init(&arena);
    ImageCase c = draw_line(i, &arena);
    const char *text = text_of(&arena, &c);
    for (int t = 0; t < ARRAY_LEN(targets) && test_takes(); t++) {
      Graph *g = NULL;
      CompileOptions o;
      CompileReport r = {0};
      compile_defaults(&o);
      o.target = target_find("ref");
      o.described = &targets[t];
      diag_init(&d);
      if (compile_parsed(text, &o, COMPILE_LOWER, &arena, &d, &g, &r))
        FAIL("%s x [%s] w [%s] %s: %s", c.op, c.x, c.w, c.attrs, d.text);
      else
        count(&c, &r.compiled, LINE_STATEMENTS_MOST);
      program_release(r.program);
      graph_free(g);
    }
    arena_deinit(&arena);
  }
}
