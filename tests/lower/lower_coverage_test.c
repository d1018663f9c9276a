// lower_coverage_test.c -- what has kernels: every op's samples and random graphs, run as loops,
// against the interpreter.
//
// The interpreter runs the graph as it was, the loops what optimising made of it.  No kernel that a
// template makes may be refused by the verifier, and the ops whose samples stay on the host are
// those of a table, each with a reason.
#include "compiled.h"
#include "codegen.h"
#include "compile/compile.h"
#include "eval/fuse.h"
#include "graphfuzz/graphfuzz.h"
#include "ir/interpret.h"
#include "ir/internal.h"
#include "lower/template.h"
#include "runtime/session.h"
#include "planted.h"
#include "sample.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

// ---- values ----

static uint64_t rng;
static double uniform(void) {
  rng = hash_u64(rng + 0x9e3779b97f4a7c15ull);
  return (double)(rng >> 11) * 0x1p-53;
}

// A symbol's name may say its size: s37.
static int64_t size_of(Dim d) {
  if (ie_is_const(d)) return d->value;
  return d->kind == IE_SYM && d->name[0] == 's' && atoi(d->name + 1) ? atoi(d->name + 1) : 3;
}

static tenon_status make_input(Run *run, const Type *t, bool odd, Value **out) {
  static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
  int64_t dims[MAX_RANK];
  if (t->kind != TK_TENSOR || t->rank < 0) return TENON_EUNSUPPORTED;
  for (int i = 0; i < t->rank; i++) dims[i] = size_of(t->dims[i]);
  TRY(value_tensor(run, NOWHERE, t->dtype, t->rank, dims, out));
  for (int64_t i = 0; i < (*out)->n; i++) {
    double u = uniform();
    switch (dtype_class(t->dtype)) {
    case DC_FLOAT:
      val_put_f64(*out, i, odd && (rng & 63) == 0 ? special[rng / 64 % 5] : 4 * u - 2);
      break;
    case DC_BOOL: val_put_i64(*out, i, u < 0.5); break;
    case DC_INT:
      val_put_i64(*out, i, (int64_t)(dtype_bits(t->dtype) < 8 ? 4 * u - 2 : 20 * u - 10));
      break;
    case DC_UINT: val_put_i64(*out, i, (int64_t)(dtype_bits(t->dtype) < 8 ? 4 * u : 20 * u)); break;
    case DC_STRING: ((Str *)(*out)->data)[i] = u < 0.5 ? STR("one Two") : STR("3"); break;
    default: break;
    }
  }
  return TENON_OK;
}

static tenon_status make_inputs(Graph *g, Run *run, bool odd, Arena *a, Value ***out) {
  *out = arena_array(a, Value *, g->main->nparams + 1);
  rng = 17;
  run->seed = 7;
  run->max_bytes = 64 << 20;
  for (int64_t i = 0; i < g->main->nparams; i++)
    TRY(make_input(run, type_of(g->main->param[i]), odd, &(*out)[i]));
  return TENON_OK;
}

static double tolerance(DType t) {
  switch (t) {
  case DT_F64: return 1e-7;
  case DT_F32: return 2e-4;
  case DT_F16: return 2e-2;
  default: return 0.2;
  }
}

// The first element that differs, or -1.
static int64_t difference(const Value *a, const Value *b) {
  if (!a || !b || a->kind != VK_TENSOR) return a == b || (a && b && a->kind == b->kind) ? -1 : 0;
  if (a->dtype != b->dtype || a->n != b->n || a->rank != b->rank) return 0;
  for (int64_t i = 0; i < a->n; i++) {
    if (a->dtype == DT_STRING || dtype_class(a->dtype) == DC_COMPLEX) continue;
    if (!dtype_is_float(a->dtype)) {
      if (val_i64(a, i) != val_i64(b, i)) return i;
      continue;
    }
    double x = val_f64(a, i), y = val_f64(b, i);
    if (x == y || (x != x && y != y)) continue;
    // Beyond the dtype's range a kernel overflows where evaluation, in double, does not yet.
    if (isinf(x) && !isfinite(y)) continue;
    if (!(fabs(x - y) <= tolerance(a->dtype) * (1 + fmax(fabs(x), fabs(y))))) return i;
  }
  return -1;
}

// ---- running ----

typedef struct Compile {
  Graph *g;
  Arena arena;
  Compiled c;
  Session *session;
  int64_t kernels, host;  // groups of the main body
} Compile;

static Planted *planted;  // a fault of a template; NULL: none

static tenon_status compile(Compile *m, bool cpu, bool optimised, Diag *d) {
  CompileOptions o;
  CompileReport r = {.done = optimised ? COMPILE_OPTIMISE : COMPILE_NOTHING};
  compile_defaults(&o);
  o.target = target_find(cpu ? "cpu" : "ref");
  if (planted) o.tamper = planted_fault, o.tamper_ctx = planted;
  TRY(compile_graph(m->g, &o, COMPILE_BUILD, &m->arena, d, &r));
  m->c = r.compiled;
  return session_create(m->c.program, &(SessionOptions){.threads = 2}, d, &m->session);
}

static void compile_free(Compile *m) {
  session_free(m->session);
  if (m->c.program) program_release(m->c.program);
  graph_free(m->g);
  arena_deinit(&m->arena);
}

// Runs the graph both ways.  False: nothing to compare, or a failed test.  `again` is the same
// graph, to be optimised.
static bool same_results(const char *name, Graph *g, Compile *m, bool odd, Diag *d) {
  Run x, y;
  Value *a[64] = {NULL}, *b[64] = {NULL}, **in;
  Interp *it = NULL;
  Arena arena;
  arena_init(&arena);
  run_init(&x, NULL, d);
  run_init(&y, NULL, d);
  bool ok = !make_inputs(g, &x, odd, &arena, &in) && !interp_create(g, NULL, d, &it) &&
            !interp_run(it, &x, in, a);
  if (ok) {
    tenon_status s = make_inputs(g, &y, odd, &arena, &in);
    if (!s) s = session_run(m->session, &y, in, NULL, b);
    if (s) FAIL("%s: %s", name, d->text);
    for (int64_t i = 0; !s && i < g->main->nresults; i++) {
      int64_t at = difference(a[i], b[i]);
      if (at < 0) continue;
      bool tensor = a[i] && b[i] && a[i]->kind == VK_TENSOR && at < a[i]->n && at < b[i]->n;
      FAIL("%s: result %lld differs at %lld: %g, not %g", name, (long long)i, (long long)at,
           tensor ? val_f64(b[i], at) : 0.0, tensor ? val_f64(a[i], at) : 0.0);
    }
  }
  interp_free(it);
  run_deinit(&x);
  run_deinit(&y);
  arena_deinit(&arena);
  return ok;
}

// ---- samples ----

// Ops of which some sample stays on the host, and why; `yet`: until kernels have a form for it.
typedef struct HostOp {
  const char *op, *why;
  bool yet;
} HostOp;
static const HostOp on_host[] = {
#define HOST_ONLY(op, why) {op, why, false},
#define HOST_YET(op, why)  {op, why, true},
#include "host_only.def"
#undef HOST_ONLY
#undef HOST_YET
};

// Ops of other templates, with tests of their own.
static const char *const elsewhere[] = {"attention",
                                        "causal_conv_with_state",
                                        "conv",
                                        "conv_integer",
                                        "conv_transpose",
                                        "deform_conv",
                                        "dft",
                                        "dot",
                                        "einsum",
                                        "gemm",
                                        "gru",
                                        "linear_attention",
                                        "lstm",
                                        "mat_mul",
                                        "mat_mul_integer",
                                        "q_linear_conv",
                                        "q_linear_mat_mul",
                                        "rnn",
                                        "stft"};

static bool is_elsewhere(const char *op) {
  for (int64_t i = 0; i < ARRAY_LEN(elsewhere); i++)
    if (!strcmp(elsewhere[i], op)) return true;
  return false;
}

static const HostOp *host_op(const char *op) {
  for (int64_t i = 0; i < ARRAY_LEN(on_host); i++)
    if (!strcmp(on_host[i].op, op)) return &on_host[i];
  return NULL;
}

// Random results differ by how they are drawn, not by how they are computed.
static bool is_random(const OpInfo *op) {
  return strstr(op->name, "random") || !strcmp(op->name, "bernoulli") ||
         !strcmp(op->name, "multinomial");
}

// Whatever refuses says why: a template, and the program that leaves a kernel to the host.
static void check_refusals(const char *name, const Compiled *c) {
  for (int64_t i = 0; i < c->nuses; i++)
    for (int64_t j = 0; j < c->use[i].nrefused; j++)
      if (!c->use[i].refused[j].why || !*c->use[i].refused[j].why)
        FAIL("%s: template %s refuses silently", name, c->use[i].refused[j].t->name);
  for (int64_t i = 0; i < c->nhost; i++)
    if (!c->left[i].nrefused || !strcmp(c->left[i].why, "no template takes it"))
      FAIL("%s: is left to the host silently", name);
}

static void check_sample(const Sample *s, bool cpu, int64_t *host) {
  Arena a;
  arena_init(&a);
  static Diag d;
  static Compile m;
  memset(&m, 0, sizeof m);
  diag_init(&d);
  arena_init(&m.arena);
  Graph *g = NULL;
  const char *name = str_printf(&a, "%s%s", s->op->name, s->text);
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    const char *text = sample_graph(&a, s);
    if (!text || graph_parse(str_of(text), NULL, &d, &g) ||
        graph_parse(str_of(text), NULL, &d, &m.g)) {
      FAIL("%s: cannot be read", name);
    } else if (compile(&m, cpu, false, &d)) {
      if (!strstr(d.text, "not supported in compiled models")) FAIL("%s: %s", name, d.text);
    } else {
      if (planted ? planted->hits && !m.c.ndeclined : m.c.ndeclined)
        FAIL("%s: %s", name, first_declined(&m.c, "nothing is said of the planted fault"));
      *host += m.c.nhost;
      if (!planted) check_refusals(name, &m.c);
      if (!planted && m.c.nhost && !host_op(s->op->name) && !is_elsewhere(s->op->name))
        FAIL("%s: stays on the host", name);
      if (!is_random(s->op)) same_results(name, g, &m, false, &d);
    }
  } else {
    FAIL("%s: trap: %s", name, d.text);
  }
  trap_leave(&t);
  compile_free(&m);
  graph_free(g);
  arena_deinit(&a);
}

static void check_samples(bool cpu, int step) {
  int64_t nth = 0;
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = op_table[i];
    int64_t host = 0;
    for (const char *const *s = op->samples; s && *s; s++)
      if (nth++ % step == 0) check_sample(&(Sample){op, *s}, cpu, &host);
    if (op->flags & (OPF_HOST | OPF_CONTROL) || step > 1) continue;
    const HostOp *row = host_op(op->name);
    if (!host && row && row->yet && op->samples)
      FAIL("%s: no sample stays on the host, as host_only.def says", op->name);
  }
}

TEST(lower_samples) { check_samples(false, 1); }

// The words of a refusal: of the kernel that holds `op`, by this template.
static const char *refusal_of(const Compiled *c, const char *template_name) {
  for (int64_t i = 0; i < c->nuses; i++)
    for (int64_t j = 0; j < c->use[i].nrefused; j++)
      if (!strcmp(c->use[i].refused[j].t->name, template_name)) return c->use[i].refused[j].why;
  for (int64_t i = 0; i < c->nhost; i++)
    for (int64_t j = 0; j < c->left[i].nrefused; j++)
      if (!strcmp(c->left[i].refused[j].t->name, template_name)) return c->left[i].refused[j].why;
  return "nothing";
}

static void expect_refusal(const char *graph, const char *template_name, const char *words) {
  static Diag d;
  static Compile m;
  memset(&m, 0, sizeof m);
  diag_init(&d);
  arena_init(&m.arena);
  if (graph_parse(str_of(graph), NULL, &d, &m.g) || compile(&m, false, false, &d)) {
    FAIL("%s", d.text);
  } else {
    const char *said = refusal_of(&m.c, template_name);
    if (!strstr(said, words)) FAIL("%s says: %s", template_name, said);
  }
  compile_free(&m);
}

TEST(refusals_in_a_users_words) {
  expect_refusal("graph @\"rows\"(%x: f32[4, width]) {\n  %k = const i64[1] {3}\n"
                 "  %r:2 = top_k(%x, %k)\n  return %r.0, %r.1\n}\n",
                 "topk", "width is dynamic; --fix width=N avoids it");
  expect_refusal("graph @\"elimination\"(%x: f32[2, 3, 3]) {\n  %r = det(%x)\n  return %r\n}\n",
                 "pointwise", "kernels have no form for 'r' (det)");
}

TEST(lower_samples_code) {
  if (!codegen_there()) SKIP("built without LLVM");
  check_samples(true, 7);
}

// ---- random graphs ----

// Ops that turn a rounding into a jump, or make it large: behind them results cannot be compared.
static bool is_steep(const Node *n) {
  static const int steep[] = {OP_round, OP_floor,      OP_ceil,  OP_sign, OP_mod,
                              OP_fmod,  OP_reciprocal, OP_div,   OP_tan,  OP_pow,
                              OP_log,   OP_acosh,      OP_atanh, OP_proj};
  bool from_float = false;
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR) return true;
  for (uint32_t i = 0; i < n->nsrc; i++)
    from_float |=
        type_of(n->src[i])->kind == TK_TENSOR && dtype_is_float(type_of(n->src[i])->dtype);
  for (int64_t i = 0; i < ARRAY_LEN(steep); i++)
    if (from_float && n->op == steep[i]) return true;
  return (from_float && !dtype_is_float(t->dtype)) || dtype_bits(t->dtype) < 8;
}

static bool has_steep(Graph *g, Arena *a) {
  NodeList l = body_order(g, g->main, a);
  for (int64_t i = 0; i < l.n; i++)
    if (is_steep(l.v[i])) return true;
  return false;
}

// With a fault in one template, which is another for each sample, all samples have right results.
// The faults of code are in every PLANT_STEP-th sample, since code is made for each.
static void check_planted(bool cpu, int step) {
  static const char *const templates[] = {"attention", "rnn",    "conv_chain",      "winograd",
                                          "int4_gemm", "blocks", "blocks_quantize", "blocks_gather",
                                          "gemm",      "scan",   "topk_lanes",      "topk",
                                          "scatter",   "reduce", "pointwise",       "*"};
  int64_t nth = 0, hits = 0, host = 0;
  for (int i = 0; i < OP_COUNT; i++)
    for (const char *const *s = op_table[i]->samples; s && *s; s++) {
      if (nth++ % step) continue;
      for (int t = 0; t < ARRAY_LEN(templates); t++) {
        Planted p = {.template_name = templates[t],
                     .kind = cpu                  ? PLANT_NO_CODE
                             : (nth + t) % 3 == 0 ? PLANT_LARGE
                             : (nth + t) % 3 == 1 ? PLANT_UNPROVEN
                                                  : PLANT_DEFECT};
        planted = &p;
        check_sample(&(Sample){op_table[i], *s}, cpu, &host);
        hits += p.hits;
      }
    }
  planted = NULL;
  EXPECT(hits > (cpu ? 20 : 100));
}

TEST(lower_samples_with_planted_faults) { check_planted(false, 3); }

TEST(lower_samples_code_with_planted_faults) {
  if (!codegen_there()) SKIP("no tenon-codegen");
  setenv("TMPDIR", test_folder(), 1);  // what has no code is kept there
  check_planted(true, 40);
  unsetenv("TMPDIR");
}

static bool has_unproven(const Compiled *c) {
  for (int64_t i = 0; i < c->ndeclined; i++)
    for (int64_t k = 0; k < c->declined[i].ntried; k++)
      if (c->declined[i].tried[k].kind == DECLINED_UNPROVEN) return true;
  return false;
}

static void check_random(uint64_t seed, int64_t *compared, int64_t *declined) {
  static Diag d;
  static Compile m;
  memset(&m, 0, sizeof m);
  diag_init(&d);
  arena_init(&m.arena);
  char name[64];
  snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
  Graph *g = fuzz_graph(seed, &d);
  m.g = fuzz_graph(seed, &d);
  bool steep = !g || has_steep(g, &m.arena);
  CompileOptions o;
  CompileReport r1 = {0}, r2 = {0};
  compile_defaults(&o);
  // Both are optimised, so that only lowering can make them differ.
  if (g && m.g && !compile_graph(g, &o, COMPILE_OPTIMISE, &m.arena, &d, &r1) &&
      !compile_graph(m.g, &o, COMPILE_OPTIMISE, &m.arena, &d, &r2)) {
    if (compile(&m, false, true, &d)) {
      if (!strstr(d.text, "not supported in compiled models")) FAIL("%s: %s", name, d.text);
    } else {
      *declined += has_unproven(&m.c);
      if (!steep) *compared += same_results(name, g, &m, false, &d);
    }
  }
  compile_free(&m);
  graph_free(g);
}

TEST_LONG(lower_random) {
  int64_t compared = 0, declined = 0;
  for (uint64_t seed = 1; seed <= 1000; seed++) check_random(seed, &compared, &declined);
  EXPECT(compared > 50);
  EXPECT(
      declined <=
      20);  // random index maps on top of one another; long convolutions above the statement limit
}

// ---- random shapes ----

static uint64_t dice;
static int64_t draw(int64_t n) {
  dice = hash_u64(dice + 0x9e3779b97f4a7c15ull);
  return (int64_t)((dice >> 17) % (uint64_t)n);
}
static int64_t between(int64_t lo, int64_t hi) { return lo + draw(hi - lo + 1); }

typedef struct Shape {
  int rank;
  int64_t dim[MAX_RANK];
  bool symbolic[MAX_RANK];
} Shape;

static Shape shape_of(int rank, int64_t most, bool symbols) {
  Shape s = {.rank = rank};
  for (int i = 0; i < rank; i++) {
    s.dim[i] = between(1, most);
    s.symbolic[i] = symbols && draw(2) && s.dim[i] > 1;
  }
  return s;
}

static void put_type(StrBuf *b, const char *dtype, const Shape *s) {
  strbuf_printf(b, "%s[", dtype);
  for (int i = 0; i < s->rank; i++)
    strbuf_printf(b, "%s%s%lld", i ? ", " : "", s->symbolic[i] ? "s" : "", (long long)s->dim[i]);
  strbuf_printf(b, "]");
}

static void put_ints(StrBuf *b, int64_t n, const int64_t *v) {
  for (int64_t i = 0; i < n; i++) strbuf_printf(b, "%s%lld", i ? ", " : "", (long long)v[i]);
}

enum {
  TURN,
  NORM,
  REDUCE,
  MAX_POOL,
  AVERAGE_POOL,
  PAD,
  ARG,
  SCAN,
  TOP_K,
  SLICE,
  RESIZE,
  CONCAT,
  KINDS
};

static const char *yes_no(void) { return draw(2) ? "true" : "false"; }

// A list of numbers as a constant.
static void put_const(StrBuf *b, const char *name, int64_t n, const int64_t *v) {
  strbuf_printf(b, "%%%s = const i64[%lld] {", name, (long long)n);
  put_ints(b, n, v);
  strbuf_printf(b, "}\n  ");
}

static void put_turn(StrBuf *b, int rank) {
  int64_t v[MAX_RANK];
  for (int i = 0; i < rank; i++) v[i] = i;
  for (int i = rank - 1; i > 0; i--) {
    int j = (int)draw(i + 1);
    int64_t was = v[i];
    v[i] = v[j];
    v[j] = was;
  }
  strbuf_printf(b, "%%1 = transpose(%%0) perm=[");
  put_ints(b, rank, v);
  strbuf_printf(b, "]\n");
}

static void put_reduce(StrBuf *b, int rank, int axis) {
  static const char *const op[] = {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min",
                                   "reduce_l2"};
  int64_t v[2] = {axis, (axis + 1 + draw(rank - 1)) % rank};
  put_const(b, "a", between(1, 2), v);
  strbuf_printf(b, "%%1 = %s(%%0, %%a) keepdims=%s\n", op[draw(5)], yes_no());
}

static void put_window(StrBuf *b, bool average) {
  int64_t k[2] = {between(1, 4), between(1, 4)}, s[2] = {between(1, 3), between(1, 3)}, pad[4];
  for (int i = 0; i < 4; i++) pad[i] = draw(k[i % 2]);
  strbuf_printf(b, "%%1 = %s(%%0) kernel_shape=[", average ? "average_pool" : "max_pool");
  put_ints(b, 2, k);
  strbuf_printf(b, "] strides=[");
  put_ints(b, 2, s);
  strbuf_printf(b, "] pads=[");
  put_ints(b, 4, pad);
  strbuf_printf(b, "] channels_last=%s ceil_mode=%s", yes_no(), yes_no());
  strbuf_printf(b, average ? " count_include_pad=%s\n" : "\n", yes_no());
}

static void put_pad(StrBuf *b, const Shape *x) {
  static const char *const mode[] = {"constant", "edge", "reflect", "wrap"};
  int64_t v[2 * MAX_RANK];
  for (int i = 0; i < 2 * x->rank; i++) {
    int64_t n = x->dim[i % x->rank];
    v[i] = n > 1 ? draw(MIN(n, 4)) : 0;
  }
  put_const(b, "a", 2 * x->rank, v);
  strbuf_printf(b, "%%1 = pad(%%0, %%a) mode=%s\n", mode[draw(4)]);
}

static void put_slice(StrBuf *b, const Shape *x, int axis) {
  int64_t n = x->dim[axis], from = draw(n), step = between(-3, 3), at = axis;
  if (!step || x->symbolic[axis]) step = 1;
  int64_t to = step > 0 ? between(from, n) : between(-n - 1, -n + from);
  put_const(b, "a", 1, &from);
  put_const(b, "b", 1, &to);
  put_const(b, "c", 1, &at);
  put_const(b, "d", 1, &step);
  strbuf_printf(b, "%%1 = slice(%%0, %%a, %%b, %%c, %%d)\n");
}

static void put_resize(StrBuf *b, const Shape *x) {
  static const char *const way[] = {"half_pixel", "align_corners", "asymmetric",
                                    "pytorch_half_pixel", "half_pixel_symmetric"};
  static const char *const mode[] = {"nearest", "linear", "cubic"};
  static const char *const scale[] = {"1", "2", "0.5", "1.5", "3", "0.7"};
  strbuf_printf(b, "%%a = const f32[%d] {", x->rank);
  for (int i = 0; i < x->rank; i++) {
    bool same = i < x->rank - 2 || x->dim[i] < 3;
    strbuf_printf(b, "%s%s", i ? ", " : "", same ? "1" : scale[draw(x->symbolic[i] ? 5 : 6)]);
  }
  strbuf_printf(b, "}\n  %%1 = resize(%%0, _, %%a) mode=%s coordinate_transformation_mode=%s\n",
                mode[draw(3)], way[draw(5)]);
}

static void put_along(StrBuf *b, int kind, const Shape *x, int axis) {
  int64_t k = between(1, MIN(x->dim[axis], 9)), at = axis;
  if (kind == NORM) {
    const char *op = draw(3) ? "softmax" : draw(2) ? "log_softmax" : "lp_normalization";
    strbuf_printf(b, "%%1 = %s(%%0) axis=%d\n", op, axis);
  } else if (kind == ARG) {
    strbuf_printf(b, "%%1 = %s(%%0) axis=%d select_last_index=%s\n",
                  draw(2) ? "arg_max" : "arg_min", axis, yes_no());
  } else if (kind == SCAN) {
    put_const(b, "a", 1, &at);
    strbuf_printf(b, "%%1 = cum_sum(%%0, %%a) reverse=%s exclusive=%s\n", yes_no(), yes_no());
  } else if (kind == TOP_K) {
    put_const(b, "a", 1, &k);
    strbuf_printf(b, "%%k:2 = top_k(%%0, %%a) axis=%d largest=%s\n  %%1 = abs(%%k.0)\n", axis,
                  yes_no());
  } else {
    strbuf_printf(b, "%%n = neg(%%y)\n  %%1 = concat(%%0, %%n, %%x) axis=%d\n", axis);
  }
}

// A graph around one op of a random shape, with something before and after it.
static const char *random_case(Arena *a, int kind, bool symbols) {
  static const char *const dtypes[] = {"f32", "f32", "f32", "f16", "bf16", "f64", "i32", "i16"};
  StrBuf b;
  strbuf_init(&b, a);
  bool window = kind == MAX_POOL || kind == AVERAGE_POOL;
  int rank = window ? 4 : (int)between(2, 4), axis = (int)draw(rank);
  Shape x = shape_of(rank, rank == 2 ? 150 : 24, symbols && kind != TOP_K);
  for (int i = 0; window && i < 4; i++) x.dim[i] = i ? between(4, 21) : between(1, 2);
  bool floats = kind == NORM || kind == RESIZE || kind == AVERAGE_POOL || kind == REDUCE;
  const char *t = dtypes[draw(floats ? 6 : 8)];
  strbuf_printf(&b, "graph @\"g\"(%%x: ");
  put_type(&b, t, &x);
  strbuf_printf(&b, ", %%y: ");
  put_type(&b, t, &x);
  strbuf_printf(&b, ") {\n  %%0 = %s(%%x, %%y)\n  ", draw(2) ? "add" : "max");
  switch (kind) {
  case TURN: put_turn(&b, rank); break;
  case REDUCE: put_reduce(&b, rank, axis); break;
  case MAX_POOL:
  case AVERAGE_POOL: put_window(&b, kind == AVERAGE_POOL); break;
  case PAD: put_pad(&b, &x); break;
  case SLICE: put_slice(&b, &x, axis); break;
  case RESIZE: put_resize(&b, &x); break;
  default: put_along(&b, kind, &x, axis);
  }
  strbuf_printf(&b, "  %%2 = neg(%%1)\n  return %%2\n}\n");
  return strbuf_text(&b);
}

static void check_case(uint64_t seed, bool cpu, int64_t *compared) {
  static Diag d;
  static Compile m;
  Arena a;
  Graph *g = NULL;
  arena_init(&a);
  memset(&m, 0, sizeof m);
  diag_init(&d);
  arena_init(&m.arena);
  dice = seed;
  const char *text = random_case(&a, (int)(seed % KINDS), draw(2));
  if (graph_parse(str_of(text), NULL, &d, &g) || graph_parse(str_of(text), NULL, &d, &m.g)) {
    FAIL("seed %llu: %s\n%s", (unsigned long long)seed, d.text, text);
  } else if (compile(&m, cpu, false, &d)) {
    FAIL("seed %llu: %s\n%s", (unsigned long long)seed, d.text, text);
  } else {
    if (m.c.ndeclined)
      FAIL("seed %llu: %s\n%s", (unsigned long long)seed, first_declined(&m.c, ""), text);
    if (m.c.nhost) FAIL("seed %llu: on the host\n%s", (unsigned long long)seed, text);
    *compared += same_results(text, g, &m, false, &d);
  }
  compile_free(&m);
  graph_free(g);
  arena_deinit(&a);
}

TEST(lower_shapes) {
  int64_t compared = 0;
  for (uint64_t seed = 1; seed <= 240; seed++) check_case(seed, false, &compared);
  EXPECT(compared > 200);
}

TEST(lower_shapes_code) {
  int64_t compared = 0;
  if (!codegen_there()) SKIP("built without LLVM");
  for (uint64_t seed = 601; seed <= 660; seed++) check_case(seed, true, &compared);
  EXPECT(compared > 50);
}

// ---- sizes with several names ----

// s5 and s05 are two symbols of the same size, s6 is another.  All of these have kernels.
static const char *const several_names[] = {
    "graph @\"g\"(%a: f32[s7, s5], %b: f32[s05, s9]) { %y = mat_mul(%a, %b) return %y }",
    "graph @\"g\"(%a: f32[s7, s5], %b: f32[s05, s9], %c: f32[s9, s8]) {\n"
    "  %0 = mat_mul(%a, %b) %1 = mat_mul(%0, %c) %2 = relu(%1) return %2 }",
    "graph @\"g\"(%a: f32[s7, s5], %b: f32[5, s9]) { %y = mat_mul(%a, %b) return %y }",
    "graph @\"g\"(%a: f32[s7, s5], %b: f32[s9, s05], %c: f32[s9]) {\n"
    "  %y = gemm(%a, %b, %c) transB=true return %y }",
    "graph @\"g\"(%a: f32[s4, s04], %b: f32[s6]) {\n"
    "  %0 = concat(%a, %a) axis=0 %1 = transpose(%0) perm=[1, 0] return %1 }",
    "graph @\"g\"(%a: f32[2, 3, 4], %b: f32[4, 3, 2], %c: f32[2, 2]) {\n"
    "  %y = einsum(%a, %b, %c) equation=\"abc,cbd,ad->b\" return %y }",
    "graph @\"g\"(%a: f32[s4, s4]) { %y = einsum(%a) equation=\"ii->i\" return %y }",
    "graph @\"g\"(%a: f32[s4, s4]) { %y = einsum(%a) equation=\"ii\" return %y }",
    "graph @\"g\"(%a: i32[s4, 3, s5]) { %y = einsum(%a) equation=\"abc->ca\" return %y }",
    "graph @\"g\"(%x: f32[s4, s3, 4], %w: f32[1, 20, 4], %r: f32[1, 20, 5], %b: f32[1, 40], %l: "
    "i32[s03],\n"
    "           %h: f32[1, 3, 5], %c: f32[1, s003, 5]) {\n"
    "  %y:3 = lstm(%x, %w, %r, %b, _, %h, %c) hidden_size=5\n"
    "  return %y.0, %y.1 }",
};

static void check_text(const char *text, bool cpu) {
  static Diag d;
  static Compile m;
  Graph *g = NULL;
  memset(&m, 0, sizeof m);
  diag_init(&d);
  arena_init(&m.arena);
  if (graph_parse(str_of(text), NULL, &d, &g) || graph_parse(str_of(text), NULL, &d, &m.g) ||
      compile(&m, cpu, false, &d)) {
    FAIL("%s\n%s", d.text, text);
  } else {
    if (m.c.nhost) FAIL("on the host: %s\n%s", m.c.left[0].why, text);
    EXPECT(same_results(text, g, &m, false, &d));
  }
  compile_free(&m);
  graph_free(g);
}

TEST(lower_several_names) {
  for (int64_t i = 0; i < ARRAY_LEN(several_names); i++) check_text(several_names[i], false);
}

TEST(lower_several_names_code) {
  if (!codegen_there()) SKIP("built without LLVM");
  for (int64_t i = 0; i < ARRAY_LEN(several_names); i++) check_text(several_names[i], true);
}

// Sizes that should be equal and are not: an error before anything is read, also where nothing
// would be computed.
TEST(lower_sizes_that_differ) {
  static const struct {
    const char *text, *error;
  } cases[] = {
      {"graph @\"g\"(%a: f32[s7, s5], %b: f32[s6, s9]) { %y = mat_mul(%a, %b) return %y }",
       "inner sizes 5 and 6 must be equal"},
      {"graph @\"g\"(%a: f32[0, s5], %b: f32[s6, s9]) { %y = mat_mul(%a, %b) return %y }",
       "inner sizes 5 and 6 must be equal"},
      {"graph @\"g\"(%a: f32[s7, s5], %b: f32[s05, s9], %c: f32[s8, s9]) {\n"
       "  %0 = mat_mul(%a, %b) %1 = mat_mul(%0, %c) return %1 }",
       "inner sizes 9 and 8 must be equal"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    static Diag d;
    static Compile m;
    Run run;
    Value *out[2] = {NULL}, **in;
    memset(&m, 0, sizeof m);
    diag_init(&d);
    arena_init(&m.arena);
    run_init(&run, NULL, &d);
    if (graph_parse(str_of(cases[i].text), NULL, &d, &m.g) || compile(&m, false, false, &d)) {
      FAIL("%s\n%s", d.text, cases[i].text);
    } else {
      EXPECT(!m.c.nhost);
      EXPECT_STATUS(make_inputs(m.g, &run, false, &m.arena, &in), TENON_OK);
      EXPECT_STATUS(session_run(m.session, &run, in, NULL, out), TENON_EINVAL);
      EXPECT_CONTAINS(d.text, cases[i].error);
    }
    run_deinit(&run);
    compile_free(&m);
  }
}
