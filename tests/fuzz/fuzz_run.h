// fuzz_run.h -- short runs of graphs on small inputs, with every limit set.
#ifndef TENON_TESTS_FUZZ_RUN_H
#define TENON_TESTS_FUZZ_RUN_H

#include "fuzz.h"
#include "ir/interpret.h"

// A symbol is 2 or 3, within its bounds.
static int64_t fuzz_dim(Dim d, const Graph *g, Arena *a) {
  int32_t n = g->dims.nsyms;
  int64_t *bind = arena_array(a, int64_t, n), v;
  bool *bound = arena_array(a, bool, n);
  for (int32_t i = 0; i < n; i++) {
    Dim s = g->dims.sym.v[i];
    bind[i] = MAX(MIN(2 + i % 2, s->hi), s->lo);
    bound[i] = true;
  }
  return ie_eval(d, bind, bound, n, &v) ? v : 2;
}

static void fuzz_fill(Run *run, Value *v) {
  for (int64_t i = 0; i < v->n; i++) {
    if (v->dtype == TENON_DTYPE_STRING)
      ((Str *)v->data)[i] = run_string(run, i % 2 ? STR("b c") : STR("a"));
    else if (dtype_is_float(v->dtype) || dtype_class(v->dtype) == DC_COMPLEX)
      val_put_f64(v, i, (double)(i % 7 - 3) * 0.5);
    else
      val_put_i64(v, i, i % 3);
  }
}

static tenon_status fuzz_value(Run *run, const Graph *g, const Type *t, Arena *a, int depth,
                               Value **out) {
  *out = NULL;
  if (t->kind == TK_NONE || depth > 4) return TENON_OK;
  if (t->kind == TK_TENSOR) {
    int64_t dims[MAX_RANK];
    int rank = t->rank < 0 ? 1 : t->rank;
    for (int i = 0; i < rank; i++) dims[i] = t->rank < 0 ? 2 : fuzz_dim(t->dims[i], g, a);
    TRY(value_tensor(run, NOWHERE, t->dtype ? t->dtype : TENON_DTYPE_F32, rank, dims, out));
    if (dtype_class((*out)->dtype) != DC_COMPLEX && (*out)->n < 1 << 16) fuzz_fill(run, *out);
    return TENON_OK;
  }
  if (t->kind == TK_MAP) {
    Value *k, *v;
    TRY(value_tensor(run, NOWHERE, t->dtype, 1, (int64_t[]){2}, &k));
    fuzz_fill(run, k);
    TRY(fuzz_value(run, g, t->elem, a, depth + 1, &v));
    return v ? value_map(run, k, v, out) : TENON_OK;
  }
  Value *item;
  TRY(fuzz_value(run, g, t->elem, a, depth + 1, &item));
  DType elem = t->elem->kind == TK_TENSOR ? t->elem->dtype : 0;
  if (t->kind == TK_OPTIONAL) return value_optional(run, elem, item, out);
  TRY(value_sequence(run, elem, item ? 2 : 0, out));
  for (int64_t i = 0; i < (*out)->nitems; i++) (*out)->items[i] = value_retain(item);
  return TENON_OK;
}

// Runs on small inputs with every limit set.  `interp` may be used again.
static tenon_status fuzz_run(const Graph *g, const Interp *interp, Arena *a, Diag *d) {
  Run run;
  run_init(&run, NULL, d);
  run.max_bytes = 32 << 20;
  run.budget = 1000;
  run.ops_budget = 1 << 20;
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    const Body *b = g->main;
    Value **in = arena_array(a, Value *, b->nparams + 1);
    Value **out = arena_array(a, Value *, b->nresults + 1);
    for (int64_t i = 0; i < b->nparams && !t.status; i++)
      t.status = fuzz_value(&run, g, type_of(b->param[i]), a, 0, &in[i]);
    if (!t.status) t.status = interp_run(interp, &run, in, out);
  }
  trap_leave(&t);
  run_deinit(&run);
  if (t.status == TENON_EINTERNAL) finding("internal error", d->text);
  if (t.status && !d->len) finding("run", "an error without a message");
  return t.status;
}

#endif
