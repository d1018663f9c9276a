// needed.c -- which steps of a model a run has to do, where not all results are wanted.
//
// What: one walk backwards over the steps, from the wanted results to what they read.  How:  a
// value needs the steps that write it.  A symbol needs the first host step whose result has it as a
// size of its own,
//       since that step binds it (program.h); the sizes of values and kernels need symbols, and a
//         step with bodies needs all.
// Guarantees: the steps that are left give the wanted results the same bits as all steps do.
#include "runtime/session_impl.h"

#include "eval/table.h"

typedef struct Needs {
  const Program *p;
  const ProgFunction *f;
  bool *value, *sym;  // needed
  int32_t *binder;    // by symbol: the step that binds it; -1: a parameter does, or nothing
} Needs;

static void need_size(const Needs *n, int32_t expr) {
  if (expr < 0) return;
  const ProgExpr *e = &n->p->expr[expr];
  for (int32_t i = 0; i < e->n; i++) {
    if (e->code[i] == PX_SYM) n->sym[e->code[i + 1]] = true;
    if (e->code[i] == PX_SYM || e->code[i] == PX_CONST) i++;
  }
}

static void need_value(const Needs *n, int32_t value) {
  if (value < 0 || n->value[value]) return;
  const ProgValue *v = &n->f->value[value];
  n->value[value] = true;
  need_size(n, v->at);
  for (int32_t i = 0; i < v->rank; i++) need_size(n, v->dim[i]);
}

static bool has_body(const ProgStep *st) {
  for (int i = 0; st->kind == STEP_HOST && i < st->eval->nattrs; i++)
    if (st->eval->attrs[i].kind == ATTR_body) return true;
  return false;
}

static void need_step(const Needs *n, const ProgStep *st) {
  for (int32_t i = 0; i < st->nin; i++) need_value(n, st->in[i]);
  for (int32_t i = 0; i < st->nout; i++) need_value(n, st->out[i]);
  for (int32_t i = 0; i < st->nargs; i++) need_value(n, st->arg[i]);
  for (int32_t i = 0; i < st->ndims; i++) need_size(n, st->dim[i]);
  for (int32_t i = 0; i < st->nsame; i++) {
    need_size(n, st->same[i]);
    need_size(n, st->as[i]);
  }
  need_size(n, st->when);
  if (st->kind == STEP_KERNEL) need_size(n, st->items);
  if (has_body(st)) memset(n->sym, 1, (size_t)n->p->nsyms);
}

static bool step_is_needed(const Needs *n, int32_t step) {
  const ProgStep *st = &n->f->step[step];
  for (int32_t i = 0; i < st->nout; i++)
    if (n->value[st->out[i]]) return true;
  for (int32_t i = 0; st->kind == STEP_HOST && i < n->p->nsyms; i++)
    if (n->sym[i] && n->binder[i] == step) return true;
  return false;
}

static void note_binder(const Needs *n, int32_t step, int32_t value) {
  const ProgValue *v = &n->f->value[value];
  for (int32_t k = 0; k < v->rank; k++) {
    const ProgExpr *e = v->dim[k] < 0 ? NULL : &n->p->expr[v->dim[k]];
    if (!e || e->n != 2 || e->code[0] != PX_SYM) continue;
    int32_t *binder = &n->binder[e->code[1]];
    if (*binder < 0 && !prog_sym_is_input(n->p, (int32_t)e->code[1])) *binder = step;
  }
}

const bool *session_needed_steps(const Session *s, Run *run) {
  const ProgFunction *f = s->program->function[0];
  if (!run->wanted) return NULL;
  Arena *a = &run->scratch;
  Needs n = {s->program, f, arena_array(a, bool, MAX(f->nvalues, 1)),
             arena_array(a, bool, MAX(s->program->nsyms, 1)),
             arena_array(a, int32_t, MAX(s->program->nsyms, 1))};
  for (int32_t i = 0; i < s->program->nsyms; i++) n.binder[i] = -1;
  for (int32_t i = 0; i < f->nsteps; i++)
    for (int32_t k = 0; f->step[i].kind == STEP_HOST && k < f->step[i].nout; k++)
      note_binder(&n, i, f->step[i].out[k]);
  bool *needed = arena_array(a, bool, MAX(f->nsteps, 1));
  for (int32_t i = 0; i < f->nresults; i++)
    if (run_wants(run, i)) need_value(&n, f->result[i]);
  for (int32_t i = 0; i < f->nvalues;
       i++)  // what a state becomes is wanted by the runs that follow
    if (f->value[i].place == PLACE_STATE) need_value(&n, i);
  for (int32_t i = f->nsteps - 1; i >= 0; i--) {
    needed[i] = step_is_needed(&n, i);
    if (needed[i]) need_step(&n, &f->step[i]);
  }
  return needed;
}
