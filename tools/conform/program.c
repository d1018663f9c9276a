// program.c -- runs a StableHLO program that checks its own results, and judges it.
//
// A file has one or more modules; every function with check operations is one graph, whose outputs
// are what is compared.  The program's constants are inputs of the graph, so that it is computed
// and not folded away.  A file without checks has passed when it was read and verified.
//
// The rules are those of StableHLO's check dialect: expect_eq compares values (a NaN equals
// nothing), expect_almost_eq within an absolute tolerance, expect_close counts the floats between
// the two; NaNs are equal for the last two.
#include "conform/conform.h"

#include "cli/opt.h"
#include "frontends/stablehlo/import.h"
#include "ir/interpret.h"
#include "runtime/session.h"
#include "targets/target.h"

#include <math.h>

typedef struct Test {
  const Case *c;
  const CaseOptions *o;
  Arena *arena;
  Diag *diag;
  const char *reason, *remark;
  bool sums;  // the module adds floats up in an order that the specification leaves open
  Imported import;
  Interp *interp;
  ConformBuilt built;
} Test;

// ---- comparisons ----
static uint64_t float_bits(const Value *v, int64_t i) {
  uint64_t b = 0;
  memcpy(&b, (const uint8_t *)v->data + i * elem_bytes(v->dtype), (size_t)elem_bytes(v->dtype));
  return b;
}

static uint64_t ulps(const Value *a, const Value *b, int64_t i) {
  double x = val_f64(a, i), y = val_f64(b, i);
  uint64_t p = float_bits(a, i), q = float_bits(b, i);
  if (p == q || (x != x && y != y)) return 0;
  if (!isfinite(x) || !isfinite(y)) return UINT64_MAX;
  uint64_t sign = (uint64_t)1 << (elem_bytes(a->dtype) * 8 - 1);
  bool np = p & sign, nq = q & sign;
  p &= ~sign;
  q &= ~sign;
  return np != nq ? p + q : p > q ? p - q : q - p;
}

static bool same(const HloCheck *k, const Value *a, const Value *b, int64_t i) {
  bool real = dtype_is_float(a->dtype);
  if (!real) return val_i64(a, i) == val_i64(b, i);
  double x = val_f64(a, i), y = val_f64(b, i);
  if (k->kind == HLO_EQ) return x == y;
  if (k->kind == HLO_CLOSE && elem_bytes(a->dtype)) {
    uint64_t u = ulps(a, b, i);
    return u <= (uint64_t)k->max_ulp && u >= (uint64_t)k->min_ulp;
  }
  if (x == y || (x != x && y != y)) return true;
  return isfinite(x) && isfinite(y) && fabs(x - y) <= k->tolerance;
}

// Sums of floats depend on their order, which is not specified: what cancels may differ by more
// than a few of its own units.  So they are also held to the units of the largest element.
static const char *const summing[] = {
    "stablehlo.dot_general",   "stablehlo.convolution",        "stablehlo.fft",
    "stablehlo.reduce_window", "stablehlo.select_and_scatter", "stablehlo.scatter",
    "stablehlo.reduce",        "stablehlo.triangular_solve"};
static bool adds_up(const MlirModule *m) {
  for (int64_t f = 0; f < m->nfuncs; f++)
    for (int64_t i = 0; m->funcs[f]->body && i < m->funcs[f]->body->nops; i++)
      for (int64_t k = 0; k < ARRAY_LEN(summing); k++)
        if (!strcmp(m->funcs[f]->body->ops[i]->name, summing[k])) return true;
  return false;
}
static double unit_of(DType t) {
  return t == DT_F64    ? 0x1p-52
         : t == DT_F32  ? 0x1p-23
         : t == DT_F16  ? 0x1p-10
         : t == DT_BF16 ? 0x1p-7
                        : 0;
}
static bool sums_match(Test *t, const Value *got, const Value *want) {
  enum { UNITS = 4 };
  double largest = 0;
  if (!t->sums || !dtype_is_float(got->dtype)) return false;
  for (int64_t i = 0; i < want->n; i++)
    if (isfinite(val_f64(want, i))) largest = fmax(largest, fabs(val_f64(want, i)));
  for (int64_t i = 0; i < want->n; i++) {
    double x = val_f64(got, i), y = val_f64(want, i);
    if (x == y || (x != x && y != y)) continue;
    if (!(fabs(x - y) <= UNITS * unit_of(want->dtype) * largest)) return false;
  }
  t->remark = "sums in another order: held to 4 units of the largest element";
  return true;
}

static bool check_part(Test *t, const HloCheck *k, const Value *got, const Value *want,
                       const char *part) {
  bool fits = got->dtype == want->dtype && got->rank == want->rank;
  for (int i = 0; fits && i < got->rank; i++) fits = got->dims[i] == want->dims[i];
  if (!fits) {
    t->reason = str_printf(t->arena, "line %d: the result is %s%s, must be %s%s", k->line,
                           dtype_name(got->dtype), shape_text(got->rank, got->dims).s,
                           dtype_name(want->dtype), shape_text(want->rank, want->dims).s);
    return false;
  }
  int64_t wrong = 0, first = -1;
  for (int64_t i = 0; i < got->n; i++)
    if (!same(k, got, want, i)) {
      if (!wrong++) first = i;
    }
  if (!wrong || (k->kind == HLO_CLOSE && sums_match(t, got, want))) return true;
  t->reason = str_printf(
      t->arena, "line %d: %lld of %lld elements differ; %selement %lld is %.17g, must be %.17g",
      k->line, (long long)wrong, (long long)got->n, part, (long long)first, val_f64(got, first),
      val_f64(want, first));
  return false;
}

static bool check_all(Test *t, const HloTest *h, Value *const *out) {
  for (int64_t i = 0; i < h->check.n; i++) {
    const HloCheck *k = &h->check.v[i];
    int64_t parts = k->complex ? 2 : 1;
    for (int64_t p = 0; p < parts; p++)
      if (!check_part(t, k, out[k->first + p], out[k->first + parts + p],
                      parts == 1 ? ""
                      : p        ? "imaginary part of "
                                 : "real part of "))
        return false;
  }
  return true;
}

// ---- what the suite itself excuses ----
static bool is_disabled(Str bytes) {
  static const char mark[] = "RUN-DISABLED";
  int64_t n = (int64_t)sizeof mark - 1;
  for (int64_t i = 0; i + n <= MIN(bytes.n, 4096); i++)
    if (!memcmp(bytes.p + i, mark, (size_t)n)) return true;
  return false;
}

// ---- one function ----
static tenon_status run_inputs(Test *t, const HloTest *h, Run *run, bool *out_right) {
  Graph *g = t->import.graph;
  Value **in = arena_array(t->arena, Value *, g->main->nparams + 1),
        **out = arena_array(t->arena, Value *, g->main->nresults + 1);
  run->max_bytes = machine_memory();
  for (int64_t i = 0; i < h->given.n; i++) {
    const HloGiven *v = &h->given.v[i];
    TRY(value_borrow(run, v->dtype, v->rank, v->dims, v->data, &in[i]));
  }
  if (t->built.session)
    TRY(session_run(t->built.session, run, in, NULL, out));
  else if (t->built.plan)
    TRY(plan_run(t->built.plan, run, in, out));
  else
    TRY(interp_run(t->interp, run, in, out));
  *out_right = check_all(t, h, out);
  return TENON_OK;
}

static tenon_status run_import(Test *t, const MlirModule *m, const MlirFunc *f, bool *out_right) {
  HloTest h = {0};
  TRY(import_stablehlo_test(&t->import, m, f, &h, t->diag));
  TRY(graph_verify(t->import.graph, t->diag));
  if (t->o->compile)
    TRY(conform_compile(t->c, t->o, t->import.graph, t->arena, t->diag, &t->built));
  else
    TRY(interp_create(t->import.graph, &(InterpOptions){.expand = t->o->expand}, t->diag,
                      &t->interp));
  Run *run = arena_new(t->arena, Run);
  run_init(run, NULL, t->diag);
  tenon_status s = run_inputs(t, &h, run, out_right);
  run_deinit(run);
  return s;
}

static tenon_status run_func(Test *t, Str bytes, const MlirModule *m, const MlirFunc *f,
                             bool *out_right) {
  t->import = (Imported){.bytes = bytes, .path = t->c->model};
  t->interp = NULL;
  t->built = (ConformBuilt){0};
  tenon_status s = run_import(t, m, f, out_right);
  interp_free(t->interp);
  session_free(t->built.session);
  program_release(t->built.program);
  graph_free(t->import.graph);
  return s;
}

static tenon_status run_file(Test *t, Str bytes, int64_t *out_checked, bool *out_right) {
  MlirFile *f = arena_new(t->arena, MlirFile);
  TRY(mlir_read(t->arena, bytes, f, t->diag));
  for (int64_t i = 0; i < f->nmodules; i++)
    for (int64_t k = 0; k < f->modules[i]->nfuncs; k++) {
      const MlirFunc *fn = f->modules[i]->funcs[k];
      if (!hlo_has_checks(fn)) continue;
      ++*out_checked;
      t->sums = adds_up(f->modules[i]);
      TRY(run_func(t, bytes, f->modules[i], fn, out_right));
      if (!*out_right) return TENON_OK;
    }
  return TENON_OK;
}

Verdict conform_run_program(const Case *c, const CaseOptions *o, Arena *a,
                            const char **out_reason) {
  Test t = {.c = c, .o = o, .arena = a, .diag = arena_new(a, Diag)};
  bool right = true, disabled = false;
  int64_t checked = 0;
  File file;
  diag_init(t.diag);
  t.diag->base.file = c->model;
  tenon_status s = file_open(c->model, &file, t.diag);
  if (!s) {
    disabled = is_disabled((Str){(const char *)file.bytes, file.size});
    s = run_file(&t, (Str){(const char *)file.bytes, file.size}, &checked, &right);
    file_close(&file);
  }
  bool excused = !s && !right && disabled;
  *out_reason = s         ? conform_one_line(a, t.diag->text, c->model)
                : !right  ? t.reason
                : checked ? t.remark
                          : "read and verified: it has no checks";
  if (excused) *out_reason = str_printf(a, "disabled in the suite itself; %s", t.reason);
  if (!s && !excused) return right ? CASE_PASSED : CASE_WRONG;
  if (excused) return CASE_UNSUPPORTED;
  return s == TENON_EINTERNAL      ? CASE_CRASHED
         : s == TENON_EUNSUPPORTED ? CASE_UNSUPPORTED
                                   : CASE_WRONG;
}
