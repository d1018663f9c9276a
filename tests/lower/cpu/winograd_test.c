// winograd_test.c -- 3x3 convolutions by Winograd: against sums in double, within the bound that
// docs/codegen.md states, on every vector width, for any number of threads; what takes the form and
// what does not.
#include "compiled.h"
#include "schedules.h"
#include "ir/interpret.h"
#include "lower/cpu/winograd.h"
#include "runtime/session.h"
#include "test.h"

#include <math.h>

static uint64_t rng;
static int64_t draw(int64_t n) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (int64_t)((rng >> 33) % (uint64_t)n);
}
static double number(void) { return (double)(draw(2049) - 1024) / 1024; }

// ---- cases ----

typedef struct Case {
  int64_t n, h, w, in, out, pad[4];  // pads: begins, then ends
  bool symbolic;                     // n, h and w are not known when it is compiled
  bool after;                        // a residual and a function behind it, a function before it
  bool expensive;                    // a function of many instructions behind it
} Case;

typedef struct Data {
  double *x, *w, *b, *r;
} Data;

static int64_t high(const Case *c) { return c->h + c->pad[0] + c->pad[2] - 2; }
static int64_t wide(const Case *c) { return c->w + c->pad[1] + c->pad[3] - 2; }

static void put_numbers(StrBuf *b, const double *v, int64_t n) {
  strbuf_printf(b, " {");
  for (int64_t i = 0; i < n; i++) strbuf_printf(b, "%s%.9g", i ? ", " : "", v[i]);
  strbuf_printf(b, "}\n");
}

static const char *text_of(const Case *c, const Data *v, Arena *a) {
  StrBuf b;
  const char *x = str_printf(a, "f32[%lld, %lld, %lld, %lld]", (long long)c->n, (long long)c->h,
                             (long long)c->w, (long long)c->in);
  if (c->symbolic) x = str_printf(a, "f32[n, h, w, %lld]", (long long)c->in);
  strbuf_init(&b, a);
  strbuf_printf(&b, "graph @\"conv\"(%%x: %s", x);
  if (c->after)
    strbuf_printf(&b, ", %%r: f32[%lld, %lld, %lld, %lld]", (long long)c->n, (long long)high(c),
                  (long long)wide(c), (long long)c->out);
  strbuf_printf(&b, ") {\n  %%w = const f32[3, 3, %lld, %lld]", (long long)c->in,
                (long long)c->out);
  put_numbers(&b, v->w, 9 * c->in * c->out);
  strbuf_printf(&b, "  %%b = const f32[%lld]", (long long)c->out);
  put_numbers(&b, v->b, c->out);
  if (c->after) strbuf_printf(&b, "  %%z = neg(%%x)\n");
  strbuf_printf(&b,
                "  %%c = conv(%%%s, %%w, %%b) pads=[%lld, %lld, %lld, %lld] channels_last=true\n",
                c->after ? "z" : "x", (long long)c->pad[0], (long long)c->pad[1],
                (long long)c->pad[2], (long long)c->pad[3]);
  if (c->after) strbuf_printf(&b, "  %%s = add(%%c, %%r)\n  %%y = relu(%%s)\n");
  if (c->expensive) strbuf_printf(&b, "  %%y = sigmoid(%%c)\n");
  strbuf_printf(&b, "  return %%%s\n}\n", c->after || c->expensive ? "y" : "c");
  return strbuf_text(&b);
}

static double *numbers(Arena *a, int64_t n) {
  double *v = arena_array(a, double, n);
  for (int64_t i = 0; i < n; i++) v[i] = number();
  return v;
}

static Data data_of(const Case *c, Arena *a) {
  return (Data){.x = numbers(a, c->n * c->h * c->w * c->in),
                .w = numbers(a, 9 * c->in * c->out),
                .b = numbers(a, c->out),
                .r = numbers(a, c->n * high(c) * wide(c) * c->out)};
}

// ---- the bound ----

// The sum of a pixel in double, and what its rounding errors are multiples of: the largest pixels
// that a tile may read times the weights, channel by channel.
typedef struct Pixel {
  double sum, size, plain;  // plain: the sum of the products' magnitudes
} Pixel;

static Pixel pixel(const Case *c, const Data *v, int64_t n, int64_t y, int64_t x, int64_t k) {
  enum { REACH = 5 };  // of a tile that the pixel may stand in
  Pixel p = {.sum = v->b[k]};
  double sign = c->after ? -1 : 1;
  for (int64_t i = 0; i < c->in; i++) {
    double most = 0, weights = 0;
    for (int64_t dy = -REACH; dy <= REACH; dy++)
      for (int64_t dx = -REACH; dx <= REACH; dx++) {
        int64_t sy = y + dy - c->pad[0], sx = x + dx - c->pad[1];
        if (sy < 0 || sy >= c->h || sx < 0 || sx >= c->w) continue;
        double d = sign * v->x[((n * c->h + sy) * c->w + sx) * c->in + i];
        most = fmax(most, fabs(d));
        if (dy < 0 || dy > 2 || dx < 0 || dx > 2) continue;
        p.sum += d * v->w[((dy * 3 + dx) * c->in + i) * c->out + k];
        p.plain += fabs(d * v->w[((dy * 3 + dx) * c->in + i) * c->out + k]);
      }
    for (int64_t t = 0; t < 9; t++) weights += fabs(v->w[(t * c->in + i) * c->out + k]);
    p.size += most * weights;
  }
  return p;
}

// As docs/codegen.md has it: (channels + 11) roundings of what the transforms may make of it, and
// those of what follows.
static double bound_of(const Case *c, const Pixel *p, int64_t m) {
  double grown = m == 2 ? 16 : 176, unit = 0x1p-24;
  return unit * ((double)(c->in + 11) * grown * p->size + 4 * (fabs(p->sum) + 1));
}

// ---- two ways ----

typedef struct Built {
  Graph *g;
  Arena arena;
  Compiled c;
} Built;

static tenon_status build(const char *text, const LowerTarget *t, bool exact, Built *b, Diag *d) {
  CompileOptions o;
  CompileReport r;
  compile_defaults(&o);
  o.exact = exact;
  o.target = target_find(t ? "ref" : "cpu");
  o.described = t;
  if (!t) o.checked = o.no_cache = true, o.threads = 1;  // code that checks every access
  TRY(compile_parsed(text, &o, COMPILE_BUILD, &b->arena, d, &b->g, &r));
  b->c = r.compiled;
  return TENON_OK;
}

static bool is_winograd(const Built *b, WinogradSchedule *s) {
  for (int64_t i = 0; i < b->c.nkernels; i++)
    if (schedule_fits(b->c.kernel[i].lowered, "winograd")) {
      *s = *(const WinogradSchedule *)b->c.kernel[i].lowered->schedule.fields;
      return true;
    }
  return false;
}

static bool run(const Case *c, const Data *v, const Built *b, int threads, Run *r, Value **out,
                Diag *d) {
  Session *s;
  Value *in[2] = {NULL};
  int64_t x[] = {c->n, c->h, c->w, c->in}, y[] = {c->n, high(c), wide(c), c->out};
  if (value_tensor(r, NOWHERE, DT_F32, 4, x, &in[0]) ||
      value_tensor(r, NOWHERE, DT_F32, 4, y, &in[1]))
    return false;
  for (int64_t i = 0; i < in[0]->n; i++) val_put_f64(in[0], i, v->x[i]);
  for (int64_t i = 0; i < in[1]->n; i++) val_put_f64(in[1], i, v->r[i]);
  if (session_create(b->c.program, &(SessionOptions){.threads = threads}, d, &s)) return false;
  bool ok = !session_run(s, r, in, NULL, out);
  session_free(s);
  return ok;
}

static void compare(const Case *c, const Data *v, const Value *got, int64_t m, const char *text) {
  for (int64_t i = 0; i < got->n; i++) {
    int64_t k = i % c->out, x = i / c->out % wide(c), y = i / c->out / wide(c) % high(c);
    Pixel p = pixel(c, v, i / c->out / wide(c) / high(c), y, x, k);
    double want = c->after ? fmax(p.sum + v->r[i], 0) : p.sum;
    if (c->expensive) want = 1 / (1 + exp(-p.sum));
    double off = fabs(val_f64(got, i) - want);
    // What random numbers give is far below the bound, which no pixel may reach.
    if (off <= bound_of(c, &p, m) && off <= 4e-6 * (p.plain + 1)) continue;
    FAIL("element %d: %.9g, not %.9g (m %d)\n%.300s", (int)i, val_f64(got, i), want, (int)m, text);
    return;
  }
}

// Gives the m that was chosen; 0: the direct form.
static int64_t check(const Case *c, const LowerTarget *t, bool exact) {
  static Diag d;
  Built b = {0};
  Run r[2];
  Value *out[2][1] = {{NULL}};
  WinogradSchedule s = {0};
  Arena a;
  diag_init(&d);
  arena_init(&a);
  arena_init(&b.arena);
  Data v = data_of(c, &a);
  const char *text = text_of(c, &v, &a);
  for (int i = 0; i < 2; i++) run_init(&r[i], NULL, &d);
  bool ok = !build(text, t, exact, &b, &d) && run(c, &v, &b, 1, &r[0], out[0], &d) &&
            run(c, &v, &b, 3, &r[1], out[1], &d);
  if (!ok) FAIL("%s\n%.300s", d.text, text);
  if (b.c.nhost || b.c.ndeclined)
    FAIL("%d steps of the host's: %s\n%.300s", (int)b.c.nhost, first_declined(&b.c, ""), text);
  if (ok && is_winograd(&b, &s)) EXPECT(schedule_reads_back(b.c.kernel[0].lowered->schedule));
  if (ok) {
    compare(c, &v, out[0][0], s.tile ? s.tile : 2, text);
    EXPECT(!memcmp(out[0][0]->data, out[1][0]->data, (size_t)out[0][0]->n * 4));
  }
  for (int i = 0; i < 2; i++) run_deinit(&r[i]);
  if (b.c.program) program_release(b.c.program);
  graph_free(b.g);
  arena_deinit(&b.arena);
  arena_deinit(&a);
  return s.tile;
}

static const LowerTarget targets[] = {
    {.vector_bytes = 64, .vector_registers = 32, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true},
    {.vector_bytes = 32, .vector_registers = 16, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true},
    {.vector_bytes = 16, .vector_registers = 32, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true}};

static Case random_case(int i) {
  rng = (uint64_t)i * 7919 + 3;
  Case c = {.n = 1 + draw(3),
            .h = 3 + draw(9),
            .w = 3 + draw(9),
            .in = 16 + draw(10),
            .out = 1 + draw(40),
            .symbolic = draw(3) == 0,
            .after = draw(2) == 0};
  for (int k = 0; k < 4; k++) c.pad[k] = draw(3);
  c.expensive = !c.after && draw(3) == 0;
  if (c.after) c.symbolic = false;
  for (int k = 0; k < 4 && c.symbolic; k++) c.pad[k] = 1;
  return c;
}

TEST(winograd_is_within_its_bound) {
  int taken = 0;
  for (int i = 0; i < 12; i++) {
    Case c = random_case(i);
    taken += check(&c, &targets[i % ARRAY_LEN(targets)], false) != 0;
  }
  EXPECT(taken >= 6);
}

TEST(winograd_code_is_within_its_bound) {
  if (!target_available(target_find("cpu"))) SKIP("no tenon-codegen");
  int taken = 0;
  for (int i = 100; i < 106; i++) {
    Case c = random_case(i);
    taken += check(&c, NULL, false) != 0;
  }
  EXPECT(taken >= 3);
}

TEST(winograd_is_chosen_by_sizes) {
  const Case large = {.n = 1, .h = 14, .w = 14, .in = 64, .out = 32, .pad = {1, 1, 1, 1}};
  Case small = large, thin = large;
  small.h = small.w = 7;
  small.in = 128;
  thin.in = 3;
  EXPECT_INT_EQ(check(&large, &targets[0], false), 4);
  EXPECT_INT_EQ(check(&small, &targets[0], false), 2);
  EXPECT_INT_EQ(check(&thin, &targets[0], false), 0);
  EXPECT_INT_EQ(check(&large, &targets[0], true), 0);  // --exact
}

// Heads of a few outputs, as heat maps have: most lanes of a vector of outputs are beyond the last
// one.
static const Case heads[] = {
    {.n = 1, .h = 14, .w = 15, .in = 32, .out = 1, .pad = {1, 1, 1, 1}},
    {.n = 2, .h = 9, .w = 12, .in = 48, .out = 1, .pad = {1, 1, 1, 1}, .after = true},
    {.n = 1, .h = 12, .w = 12, .in = 33, .out = 1, .pad = {1, 1, 1, 1}, .expensive = true},
    {.n = 1, .h = 12, .w = 12, .in = 32, .out = 1, .pad = {1, 1, 1, 1}, .symbolic = true},
    {.n = 1, .h = 13, .w = 11, .in = 32, .out = 2, .pad = {1, 1, 1, 1}},
    {.n = 1, .h = 12, .w = 12, .in = 32, .out = 3, .pad = {1, 1, 1, 1}, .expensive = true},
    {.n = 1, .h = 16, .w = 12, .in = 32, .out = 4, .pad = {1, 1, 1, 1}, .after = true}};

TEST(winograd_code_of_few_outputs) {
  if (!target_available(target_find("cpu"))) SKIP("no tenon-codegen");
  for (int i = 0; i < ARRAY_LEN(heads); i++)
    if (!check(&heads[i], NULL, false)) FAIL("head %d is no Winograd convolution", i);
}

// Code for machines that this one need not be.
TEST(winograd_code_of_few_outputs_elsewhere) {
  enum { SOME = 3 };  // of the heads
  static const char *const machines[][2] = {{"x86_64-pc-linux-gnu", "x86-64"},
                                            {"x86_64-pc-linux-gnu", "x86-64-v3"},
                                            {"x86_64-pc-linux-gnu", "x86-64-v4"},
                                            {"aarch64-unknown-linux-gnu", "generic"}};
  if (!target_available(target_find("cpu"))) SKIP("no tenon-codegen");
  for (int i = 0; i < ARRAY_LEN(machines) * SOME; i++) {
    static Diag d;
    const Case *c = &heads[i / ARRAY_LEN(machines)];
    const char *const *on = machines[i % ARRAY_LEN(machines)];
    CompileOptions o;
    CompileReport r = {0};
    Graph *g = NULL;
    Machine m;
    Arena a;
    diag_init(&d);
    arena_init(&a);
    Data v = data_of(c, &a);
    compile_defaults(&o);
    o.target = target_find("cpu");
    o.no_cache = true;
    o.threads = 1;
    o.machine = &m;
    if (machine_make(str_of(on[0]), str_of(on[1]), STR(""), &m, &d) ||
        compile_parsed(text_of(c, &v, &a), &o, COMPILE_BUILD, &a, &d, &g, &r))
      FAIL("%s, head %d: %s", on[1], (int)(i / ARRAY_LEN(machines)), d.text);
    program_release(r.program);
    graph_free(g);
    arena_deinit(&a);
  }
}
