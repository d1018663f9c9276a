// check.c -- a graph and its optimised forms must agree (graphfuzz.h).
//
// Oracles: without licences the plan interpreter's bits equal the reference interpreter's; with the usual ones they
// stay within rounding (graphs with ops that turn a rounding into a jump are left out there); a random subset of passes;
// the text form, printed and read back.
#include "graphfuzz/graphfuzz.h"
#include "ir/internal.h"

#include <math.h>

// ---- running ----

static tenon_status make_input(Run *run, const Type *t, uint64_t *rng, Value **out) {
  int64_t dims[MAX_RANK];
  if (t->kind != TK_TENSOR || t->rank < 0) return TENON_EUNSUPPORTED;
  for (int i = 0; i < t->rank; i++) dims[i] = ie_is_const(t->dims[i]) ? t->dims[i]->value : 3;
  TRY(value_tensor(run, NOWHERE, t->dtype, t->rank, dims, out));
  static const double special[] = {0.0, -0.0, 1, -1, 1e-30, 65504, INFINITY, -INFINITY, NAN};
  for (int64_t i = 0; i < (*out)->n; i++) {
    *rng = hash_u64(*rng + 0x9e3779b97f4a7c15ull);
    double u = (double)(*rng >> 11) * 0x1p-53;
    bool odd = (*rng & 63) == 0;
    switch (dtype_class(t->dtype)) {
    case DC_FLOAT: val_put_f64(*out, i, odd ? special[*rng / 64 % 9] : 4 * u - 2); break;
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

static tenon_status run_graph(Graph *g, bool planned, Run *run, Arena *a, Value **out) {
  Value **in = arena_array(a, Value *, g->main->nparams + 1);
  uint64_t rng = 99;
  run->max_bytes = 64 << 20;
  for (int64_t i = 0; i < g->main->nparams; i++)
    TRY(make_input(run, type_of(g->main->param[i]), &rng, &in[i]));
  if (planned) {
    MemPlan *p;
    g->diag = run->diag;
    TRY(plan_create(g, a, &p));
    TRY(plan_verify(p, run->diag));
    return plan_run(p, run, in, out);
  }
  Interp *it;
  TRY(interp_create(g, NULL, run->diag, &it));
  tenon_status s = interp_run(it, run, in, out);
  interp_free(it);
  return s;
}

// ---- comparing ----

static double tolerance(DType t) {
  switch (t) {
  case DT_F64: return 1e-7;
  case DT_F32: return 1e-3;
  case DT_F16: return 5e-2;
  default: return 0.3;
  }
}

static bool same_element(const Value *a, const Value *b, int64_t i, bool exact) {
  if (a->dtype == DT_STRING) return str_eq(val_str(a, i), val_str(b, i));
  if (dtype_class(a->dtype) == DC_COMPLEX) {
    int64_t size = elem_bytes(a->dtype);
    return !exact || !memcmp((char *)a->data + i * size, (char *)b->data + i * size, (size_t)size);
  }
  if (dtype_is_int(a->dtype)) return val_i64(a, i) == val_i64(b, i);
  double x = val_f64(a, i), y = val_f64(b, i);
  if (x != x || y != y) return x != x && y != y;
  if (x == y) return !exact || signbit(x) == signbit(y);
  if (exact) return false;
  return fabs(x - y) <= tolerance(a->dtype) * (1 + fmax(fabs(x), fabs(y)));
}

static bool same(const Value *a, const Value *b, bool exact) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind) return false;
  if (a->kind != VK_TENSOR) {
    if (a->nitems != b->nitems) return false;
    for (int64_t i = 0; i < a->nitems; i++)
      if (!same(a->items[i], b->items[i], exact)) return false;
    return true;
  }
  if (a->dtype != b->dtype || a->rank != b->rank ||
      memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]))
    return false;
  for (int64_t i = 0; i < a->n; i++)
    if (!same_element(a, b, i, exact)) return false;
  return true;
}

// Ops that turn a rounding into a jump: behind them only exact graphs can be compared.
static bool is_steep(const Node *n) {
  const OpInfo *op = op_info(n->op);
  const Type *t = type_of(n);
  if (!n->nsrc || n->op == OP_param) return false;
  if (t->kind != TK_TENSOR) return true;
  bool from_float = false;
  for (uint32_t i = 0; i < n->nsrc; i++)
    from_float |=
        type_of(n->src[i])->kind == TK_TENSOR && dtype_is_float(type_of(n->src[i])->dtype);
  if (from_float && !dtype_is_float(t->dtype)) return true;
  static const int steep[] = {OP_round, OP_floor,      OP_ceil,  OP_sign, OP_mod,
                              OP_fmod,  OP_reciprocal, OP_div,   OP_tan,  OP_pow,
                              OP_log,   OP_acosh,      OP_atanh, OP_proj};
  for (int64_t i = 0; i < ARRAY_LEN(steep); i++)
    if (n->op == steep[i]) return true;
  return dtype_bits(t->dtype) <= 8 || n->nres > 1 || (op->flags & OPF_HOST) ||
         (!(op->flags & (OPF_ELEMENTWISE | OPF_MOVEMENT)) && !op->expand);
}

static bool can_be_loose(Graph *g, Arena *a) {
  NodeList l = body_order(g, g->main, a);
  for (int64_t i = 0; i < l.n; i++)
    if (is_steep(l.v[i])) return false;
  return true;
}

// ---- one graph ----

typedef struct Variant {
  const char *what;
  unsigned fast;
  const char *disable;
  bool channels_last;
} Variant;

static bool differs(Diag *d, const char *what, const char *why) {
  fail(d, TENON_EINTERNAL, NOWHERE, "%s: %s", what, why);
  return false;
}

static bool check_variant(Str text, Value **want, tenon_status status, int64_t nout,
                          const Variant *v, FuzzStats *st, Arena *a, Diag *d) {
  static Diag quiet;
  diag_init(&quiet);
  Graph *g = NULL;
  if (graph_parse(text, NULL, &quiet, &g)) return differs(d, "its own text is refused", quiet.text);
  OptOptions o;
  opt_defaults(&o);
  o.fast = v->fast;
  o.disable = v->disable;
  o.channels_last = v->channels_last;
  o.verify_each = true;
  OptReport report = {.arena = a};
  g->diag = &quiet;
  Run run;
  run_init(&run, NULL, &quiet);
  Value *got[8] = {NULL};
  bool ok = true;
  if (graph_optimise(g, &o, &report)) {
    ok = differs(d, v->what, quiet.text);
  } else {
    tenon_status s = run_graph(g, true, &run, a, got);
    if (!s != !status)
      ok = differs(d, v->what, s ? quiet.text : "runs, where the unoptimised graph fails");
    for (int64_t i = 0; ok && !s && i < nout; i++)
      if (!same(want[i], got[i], !v->fast))
        ok = differs(d, v->what, str_printf(a, "result %lld differs", (long long)i));
  }
  st->turned += report.layout.turned;
  run_deinit(&run);
  graph_free(g);
  return ok;
}

static bool check_graph(Graph *g, uint64_t seed, FuzzStats *st, Arena *a, Diag *d) {
  static Diag quiet;
  diag_init(&quiet);
  StrBuf text;
  strbuf_init(&text, a);
  graph_print(g, &text);
  Run run;
  run_init(&run, NULL, &quiet);
  Value *want[8] = {NULL};
  tenon_status s = run_graph(g, false, &run, a, want);
  if (s) st->refused++;
  bool loose = !s && can_be_loose(g, a);
  const Variant all[] = {
      {"exact", 0, NULL, false},
      {"without some passes", 0,
       seed % 3 == 0   ? "algebra"
       : seed % 3 == 1 ? "fold"
                       : NULL,
       false},
      {"channels last wherever it can be", 0, NULL, true},
      {"with the usual licences", opt_licences(3, false, false), NULL, seed % 2 == 0},
  };
  bool ok = true;
  for (int i = 0; ok && i < 3 + loose; i++)
    ok = check_variant(strbuf_str(&text), want, s, g->main->nresults, &all[i], st, a, d);
  st->compared++;
  st->loose += loose;
  run_deinit(&run);
  return ok;
}

bool fuzz_check(uint64_t seed, FuzzStats *st, Diag *d) {
  st->graphs++;
  Graph *g = fuzz_graph(seed, d);
  if (!g) {
    st->invalid++;
    diag_init(d);
    return true;
  }
  Arena a;
  arena_init(&a);
  Trap t;
  volatile bool ok = true;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    NodeList l = body_order(g, g->main, &a);
    uint8_t *seen = arena_array(&a, uint8_t, OP_COUNT);
    for (int64_t i = 0; i < l.n; i++) {
      st->used[l.v[i]->op] += !seen[l.v[i]->op];
      seen[l.v[i]->op] = 1;
    }
    ok = check_graph(g, seed, st, &a, d);
  } else {
    ok = false;
  }
  trap_leave(&t);
  arena_deinit(&a);
  graph_free(g);
  return ok;
}

// ---- reducing ----

// The first node, in order, that fails as the only result is where the trouble starts.
void fuzz_reduce(uint64_t seed, StrBuf *out) {
  static Diag d;
  diag_init(&d);
  Graph *g = fuzz_graph(seed, &d);
  if (!g) return;
  Arena a;
  arena_init(&a);
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) {
    NodeList l = body_order(g, g->main, &a);
    Body *whole = g->main;
    FuzzStats st = {0};
    bool found = false;
    for (int64_t i = 0; !found && i < l.n; i++) {
      if (l.v[i]->op == OP_param || l.v[i]->op == OP_const || l.v[i]->nres != 1 ||
          type_of(l.v[i])->kind == TK_NONE)
        continue;
      g->main = body_new(g, "reduced", whole->nparams, whole->param, 1, &l.v[i]);
      g->body.n--;
      g->main->result_name[0] = "y";
      diag_init(&d);
      found = !check_graph(g, seed, &st, &a, &d);
    }
    if (!found) g->main = whole;
    graph_print(g, out);
  }
  trap_leave(&t);
  arena_deinit(&a);
  graph_free(g);
}
