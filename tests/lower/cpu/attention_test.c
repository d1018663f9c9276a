// attention_test.c -- attention and recurrent layers as kernels, against their reference
// evaluation.
#include "compiled.h"
#include "ir/interpret.h"
#include "runtime/session.h"
#include "test.h"

#include <math.h>

static uint64_t rng;
static int64_t draw(int64_t n) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (int64_t)((rng >> 33) % (uint64_t)n);
}

// ---- values ----

typedef struct Sizes {  // of the symbols b, s, t, p, by letter
  int64_t of[256];
} Sizes;

static int64_t size_of(const Graph *g, const Sizes *z, Dim d) {
  int64_t bind[16] = {0}, out = -1;
  bool bound[16] = {false};
  for (int32_t i = 0; i < g->dims.nsyms && i < 16; i++) {
    bind[i] = z->of[(uint8_t)g->dims.sym.v[i]->name[0]];
    bound[i] = true;
  }
  return ie_eval(d, bind, bound, MIN(g->dims.nsyms, 16), &out) ? out : -1;
}

// Floats in [-1, 1]; masks of few zeros or minus infinities; lengths within the sequence.
static void fill(Value *v, const Sizes *z, bool mask) {
  for (int64_t i = 0; i < v->n; i++) {
    if (v->dtype == DT_BOOL)
      val_put_i64(v, i, draw(4) != 0);
    else if (!dtype_is_float(v->dtype))
      val_put_i64(v, i, 1 + draw(v->dtype == DT_I64 ? z->of['t'] : z->of['s']));
    else if (mask && draw(4) == 0)
      val_put_f64(v, i, draw(2) ? -INFINITY : -1e30);
    else
      val_put_f64(v, i, (double)(draw(2001) - 1000) / 1000);
  }
}

static bool make_inputs(const Graph *g, const Sizes *z, Run *run, Value **in, uint64_t seed) {
  rng = seed;
  for (int64_t i = 0; i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    int64_t dims[MAX_RANK];
    for (int k = 0; k < t->rank; k++) dims[k] = size_of(g, z, t->dims[k]);
    if (value_tensor(run, NOWHERE, t->dtype, t->rank, dims, &in[i])) return false;
    fill(in[i], z, !strcmp(g->main->param[i]->name, "m"));
  }
  return true;
}

// ---- two ways ----

enum { RESULTS = 3, INPUTS = 8 };
typedef struct Case {
  const char *text;
  Sizes sizes;
  double tol;
  LowerTarget target;
  int64_t host;  // steps that may be the host's
} Case;

static bool interpreted(const Case *c, Run *run, Value **out, Diag *d) {
  Graph *g = NULL;
  Interp *it;
  Value *in[INPUTS] = {NULL};
  if (graph_parse(str_of(c->text), "a.tir", d, &g)) return false;
  bool ok = make_inputs(g, &c->sizes, run, in, 7) && !interp_create(g, NULL, d, &it);
  if (ok) {
    ok = !interp_run(it, run, in, out);
    interp_free(it);
  }
  graph_free(g);
  return ok;
}

typedef struct Built {
  Graph *g;
  Arena arena;
  Compiled c;
} Built;

static tenon_status build(const Case *c, Built *b, Diag *d) {
  CompileOptions o;
  CompileReport r;
  compile_defaults(&o);
  o.fold_limit = 1 << 20;
  o.bisect = o.unroll_limit = 0;  // the graph as it is, but for fusion and layout
  o.target = target_find("ref");
  o.described = &c->target;
  TRY(compile_parsed(c->text, &o, COMPILE_BUILD, &b->arena, d, &b->g, &r));
  b->c = r.compiled;
  return TENON_OK;
}

static bool compiled(const Case *c, const Built *b, int threads, Run *run, Value **out, Diag *d) {
  Session *s;
  Value *in[INPUTS] = {NULL};
  if (session_create(b->c.program, &(SessionOptions){.threads = threads}, d, &s)) return false;
  bool ok = make_inputs(b->g, &c->sizes, run, in, 7) && !session_run(s, run, in, NULL, out);
  session_free(s);
  return ok;
}

static void compare(const Case *c, const Value *got, const Value *want, const char *what) {
  if (got->n != want->n || got->dtype != want->dtype) {
    FAIL("%s: %d elements, not %d\n%s", what, (int)got->n, (int)want->n, c->text);
    return;
  }
  for (int64_t i = 0; i < got->n; i++) {
    double x = val_f64(got, i), y = val_f64(want, i);
    if (fabs(x - y) <= c->tol * (1 + fabs(y)) || (isnan(x) && isnan(y))) continue;
    FAIL("%s, element %d: %.9g, not %.9g\n%s", what, (int)i, x, y, c->text);
    return;
  }
}

// The reference and the kernels agree, whatever the number of threads, which changes no bit.
static void check_case(const Case *c) {
  static Diag d;
  Built b = {0};
  Run run[3];
  Value *out[3][RESULTS] = {{NULL}};
  diag_init(&d);
  arena_init(&b.arena);
  for (int i = 0; i < 3; i++) {
    run_init(&run[i], NULL, &d);
    run[i].max_bytes = (int64_t)1 << 30;
    run[i].budget = 1 << 30;
    run[i].ops_budget = -1;
  }
  bool ok = interpreted(c, &run[0], out[0], &d) && !build(c, &b, &d) &&
            compiled(c, &b, 1, &run[1], out[1], &d) && compiled(c, &b, 3, &run[2], out[2], &d);
  if (!ok) FAIL("%s\n%s", d.text, c->text);
  if (ok && (b.c.nhost != c->host || b.c.ndeclined))
    FAIL("%d steps of the host's, %d not proven: %s\n%s", (int)b.c.nhost, (int)b.c.ndeclined,
         first_declined(&b.c, ""), c->text);
  for (int64_t i = 0; ok && i < b.g->main->nresults; i++) {
    compare(c, out[1][i], out[0][i], b.g->main->result_name[i]);
    int64_t bytes = out[1][i]->n * elem_bytes(out[1][i]->dtype);
    EXPECT(!bytes || !memcmp(out[1][i]->data, out[2][i]->data, (size_t)bytes));
  }
  for (int i = 0; i < 3; i++) run_deinit(&run[i]);
  if (b.c.program) program_release(b.c.program);
  arena_deinit(&b.arena);
  graph_free(b.g);
}

static const LowerTarget targets[] = {
    {.vector_bytes = 64, .vector_registers = 32, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true},
    {.vector_bytes = 32, .vector_registers = 16, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true},
    {.vector_bytes = 16, .vector_registers = 32, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true}};

// ---- attention ----

static const char *dim_text(Arena *a, char symbol, int64_t n) {
  return symbol ? str_printf(a, "%c", symbol) : str_printf(a, "%lld", (long long)n);
}

// A random form of attention; `fixed`: all sizes are numbers.
static void random_attention(Arena *a, bool fixed, Case *c) {
  static const char *const dtypes[] = {"f32", "f32", "f32", "f16", "f64", "bf16"};
  int64_t heads = 1 + draw(3), group = 1 + draw(2), size = 1 + draw(20), vsize = 1 + draw(40);
  const char *t = dtypes[draw(6)];
  bool packed = draw(2), past = draw(3) == 0, nonpad = !past && draw(3) == 0;
  Sizes *z = &c->sizes;
  z->of['b'] = 1 + draw(2);
  z->of['s'] = 1 + draw(draw(3) ? 40 : 5);
  z->of['t'] = fixed && draw(4) == 0 ? 513 + draw(30) : 1 + draw(150);
  z->of['p'] = past ? draw(9) : 0;
  c->tol = t[0] == 'b' ? 2e-2 : t[1] == '1' ? 3e-3 : 2e-6;
  const char *b = dim_text(a, fixed ? 0 : 'b', z->of['b']),
             *s = dim_text(a, fixed ? 0 : 's', z->of['s']);
  const char *k = dim_text(a, fixed ? 0 : 't', z->of['t']),
             *p = dim_text(a, fixed ? 0 : 'p', z->of['p']);
  StrBuf x;
  strbuf_init(&x, a);
  long long h = heads * group, kv = heads, d = size, v = vsize;
  if (packed)
    strbuf_printf(
        &x, "graph @\"g\"(%%q: %s[%s, %s, %lld], %%k: %s[%s, %s, %lld], %%v: %s[%s, %s, %lld]", t,
        b, s, h * d, t, b, k, kv * d, t, b, k, kv * v);
  else
    strbuf_printf(&x,
                  "graph @\"g\"(%%q: %s[%s, %lld, %s, %lld], %%k: %s[%s, %lld, %s, %lld], %%v: "
                  "%s[%s, %lld, %s, %lld]",
                  t, b, h, s, d, t, b, kv, k, d, t, b, kv, k, v);
  const char *total = !past ? k : fixed ? dim_text(a, 0, z->of['t'] + z->of['p']) : "p + t";
  int mask = (int)draw(6);
  z->of['u'] = 1 + draw(z->of['t'] + z->of['p']);
  if (mask == 1) strbuf_printf(&x, ", %%m: %s[%s, %s]", t, s, total);
  if (mask == 2) strbuf_printf(&x, ", %%m: bool[%s, 1, %s, %s]", b, s, total);
  if (mask == 3) strbuf_printf(&x, ", %%m: %s[%s, %lld, 1, %s]", t, b, h, total);
  if (mask == 4) strbuf_printf(&x, ", %%m: bool[%s, %s]", s, fixed ? total : "u");
  if (past)
    strbuf_printf(&x, ", %%pk: %s[%s, %lld, %s, %lld], %%pv: %s[%s, %lld, %s, %lld]", t, b, kv, p,
                  d, t, b, kv, p, v);
  if (nonpad) strbuf_printf(&x, ", %%n: i64[%s]", b);
  if (packed)
    strbuf_printf(&x, ") -> (y: %s[%s, %s, %lld]) {\n", t, b, s, h * v);
  else
    strbuf_printf(&x, ") -> (y: %s[%s, %lld, %s, %lld]) {\n", t, b, h, s, v);
  bool masked = mask >= 1 && mask <= 4;
  strbuf_printf(&x, "  %%y = attention(%%q, %%k, %%v%s%s)",
                masked           ? ", %m"
                : past || nonpad ? ", _"
                                 : "",
                past     ? ", %pk, %pv"
                : nonpad ? ", _, _, %n"
                         : "");
  if (packed) strbuf_printf(&x, " q_num_heads=%lld kv_num_heads=%lld", h, kv);
  if (draw(2)) strbuf_printf(&x, " is_causal=true");
  if (draw(3) == 0) strbuf_printf(&x, " at_end=true");
  if (draw(3) == 0) strbuf_printf(&x, " scale=%g", 0.25 + (double)draw(4));
  if (draw(4) == 0) strbuf_printf(&x, " softcap=1.5");
  if (draw(4) == 0) strbuf_printf(&x, " left_window_size=%d", (int)draw(12));
  if (draw(4) == 0) strbuf_printf(&x, " right_window_size=%d", (int)draw(12));
  strbuf_printf(&x, "\n  return %%y\n}\n");
  c->text = strbuf_text(&x);
}

TEST(lower_attention_random) {
  for (int i = 0; i < 42; i++) {
    Arena a;
    arena_init(&a);
    Case c = {.target = targets[i % 3]};
    rng = 1000 + (uint64_t)i;
    random_attention(&a, i % 2, &c);
    check_case(&c);
    arena_deinit(&a);
  }
}

// Heads out of one product, a mask that is the same for all queries, and what follows: as
// transformers have it.
TEST(lower_attention_between_products) {
  static const char *const text =
      "graph @\"g\"(%x: f32[b, s, 24], %m: f32[b, s], %r: f32[b, s, 8]) -> (y: f32[b, s, 8]) {\n"
      "  %0 = const i64[1] {0}\n  %1 = const i64[1] {8}\n  %2 = const i64[1] {2}\n"
      "  %3 = const i64[1] {16}\n  %4 = const i64[1] {24}\n  %5 = const i64[4] {0, 0, 2, 4}\n"
      "  %6 = slice(%x, %0, %1, %2)\n  %7 = reshape(%6, %5)\n"
      "  %q = transpose(%7) perm=[0, 2, 1, 3]\n"
      "  %8 = slice(%x, %1, %3, %2)\n  %9 = reshape(%8, %5)\n"
      "  %k = transpose(%9) perm=[0, 2, 1, 3]\n"
      "  %a = slice(%x, %3, %4, %2)\n  %c = reshape(%a, %5)\n"
      "  %v = transpose(%c) perm=[0, 2, 1, 3]\n"
      "  %d = const i64[2] {1, 2}\n  %e = unsqueeze(%m, %d)\n"
      "  %f = attention(%q, %k, %v, %e)\n"
      "  %h = transpose(%f) perm=[0, 2, 1, 3]\n  %i = const i64[3] {0, 0, 8}\n"
      "  %j = reshape(%h, %i)\n  %y = add(%j, %r)\n  return %y\n}\n";
  for (int i = 0; i < 6; i++) {
    Case c = {.text = text, .tol = 2e-6, .target = targets[i % 3]};
    c.sizes.of['b'] = 1 + i % 2;
    c.sizes.of['s'] = 1 + 7 * i * i;
    check_case(&c);
  }
}

// ---- recurrent layers ----

static const struct {
  const char *name;
  int gates, acts;
} layers[] = {{"lstm", 4, 3}, {"gru", 3, 2}, {"rnn", 1, 1}};
static const char *const act_names[] = {"Relu",       "Tanh",        "Sigmoid", "Affine",
                                        "LeakyRelu",  "HardSigmoid", "Elu",     "ThresholdedRelu",
                                        "ScaledTanh", "Softsign",    "Softplus"};

static void put_weight(Arena *a, StrBuf *x, const char *name, bool constant, long long n,
                       long long rows, long long cols, StrBuf *body) {
  if (!constant) {
    strbuf_printf(x, ", %%%s: f32[%lld, %lld, %lld]", name, n, rows, cols);
    return;
  }
  (void)a;
  strbuf_printf(body, "  %%%s = const f32[%lld, %lld, %lld] {", name, n, rows, cols);
  for (long long i = 0; i < n * rows * cols; i++)
    strbuf_printf(body, "%s%g", i ? ", " : "", (double)(draw(201) - 100) / 200);
  strbuf_printf(body, "}\n");
}

static void random_layer(Arena *a, bool fixed, Case *c) {
  int kind = (int)draw(3), way = (int)draw(3), nd = way == 2 ? 2 : 1;
  long long input = 1 + draw(9), hidden = 1 + draw(24), rows = layers[kind].gates * hidden;
  bool first = draw(2), constant = draw(3) != 0, bias = draw(2), lens = draw(3) == 0;
  bool state = draw(2), peep = kind == 0 && state && draw(2);
  Sizes *z = &c->sizes;
  z->of['b'] = 1 + draw(3);
  z->of['s'] = 1 + draw(draw(2) ? 3 : fixed ? 20 : 70);
  c->tol = 1e-5;
  const char *b = dim_text(a, fixed ? 0 : 'b', z->of['b']),
             *s = dim_text(a, fixed ? 0 : 's', z->of['s']);
  StrBuf x, body;
  strbuf_init(&x, a);
  strbuf_init(&body, a);
  strbuf_printf(&x, "graph @\"g\"(%%x: f32[%s, %s, %lld]", first ? b : s, first ? s : b, input);
  put_weight(a, &x, "w", constant, nd, rows, input, &body);
  put_weight(a, &x, "r", constant, nd, rows, hidden, &body);
  if (bias) strbuf_printf(&x, ", %%bias: f32[%d, %lld]", nd, 2 * rows);
  if (lens) strbuf_printf(&x, ", %%n: i32[%s]", b);
  const char *d0 = first ? b : dim_text(a, 0, nd), *d1 = first ? dim_text(a, 0, nd) : b;
  if (state) strbuf_printf(&x, ", %%h: f32[%s, %s, %lld]", d0, d1, hidden);
  if (state && !kind) strbuf_printf(&x, ", %%c: f32[%s, %s, %lld]", d0, d1, hidden);
  if (peep) strbuf_printf(&x, ", %%p: f32[%d, %lld]", nd, 3 * hidden);
  if (first)
    strbuf_printf(&x, ") -> (y: f32[%s, %s, %d, %lld]", b, s, nd, hidden);
  else
    strbuf_printf(&x, ") -> (y: f32[%s, %d, %s, %lld]", s, nd, b, hidden);
  strbuf_printf(&x, ", h: f32[%s, %s, %lld]", d0, d1, hidden);
  if (!kind) strbuf_printf(&x, ", c: f32[%s, %s, %lld]", d0, d1, hidden);
  strbuf_printf(&x, ") {\n%s  %%l:%d = %s(%%x, %%w, %%r%s%s%s%s%s)", strbuf_text(&body),
                kind ? 2 : 3, layers[kind].name,
                bias            ? ", %bias"
                : lens || state ? ", _"
                                : "",
                lens    ? ", %n"
                : state ? ", _"
                        : "",
                state ? ", %h" : "", state && !kind ? ", %c" : "", peep ? ", %p" : "");
  static const char *const directions[] = {"forward", "reverse", "bidirectional"};
  strbuf_printf(&x, " direction=%s", directions[way]);
  if (first) strbuf_printf(&x, " layout=1");
  if (z->of['s'] < 4) {  // some let small differences grow from step to step
    strbuf_printf(&x, " activations=[");
    for (int i = 0; i < nd * layers[kind].acts; i++)
      strbuf_printf(&x, "%s\"%s\"", i ? ", " : "", act_names[draw(11)]);
    strbuf_printf(&x, "] clip=1.25");
  } else if (draw(3) == 0) {
    strbuf_printf(&x, " clip=0.5");
  }
  if (kind == 0 && draw(4) == 0) strbuf_printf(&x, " input_forget=true");
  if (kind == 1 && draw(2)) strbuf_printf(&x, " linear_before_reset=true");
  strbuf_printf(&x, "\n  return %%l.0, %%l.1%s\n}\n", kind ? "" : ", %l.2");
  c->text = strbuf_text(&x);
}

// What is made from two of the layer's results has no place in its kernel.
TEST(lower_recurrent_two_states) {
  Case c = {.text = "graph @\"g\"(%x: f32[4, 2, 3], %w: f32[1, 20, 3], %r: f32[1, 20, 5]) -> (z: "
                    "f32[1, 2, 5]) {\n  %l:3 = lstm(%x, %w, %r)\n  %z = add(%l.1, %l.2)\n"
                    "  return %z\n}\n",
            .tol = 1e-5,
            .target = targets[0]};
  c.sizes.of['s'] = 4;
  check_case(&c);
}

TEST(lower_recurrent_random) {
  for (int i = 0; i < 60; i++) {
    Arena a;
    arena_init(&a);
    Case c = {.target = targets[i % 3]};
    rng = 5000 + (uint64_t)i;
    random_layer(&a, i % 2, &c);
    check_case(&c);
    arena_deinit(&a);
  }
}
