// host.c -- steps that the reference evaluations do: control flow, lists, strings, sizes that
// depend on data.
#include "runtime/session_impl.h"

#include "eval/table.h"

static bool in_some_arena(const Session *s, const char *data) {
  for (int32_t i = 0; i < s->program->nfunctions; i++) {
    const Frame *fr = &s->frame[i];
    if (fr->memory && data >= fr->memory && data < fr->memory + fr->memory_bytes) return true;
  }
  return false;
}

// A list holds its items, and a branch may hand an operand on: what lies in an arena must not be
// kept there, where its place will be another's.
tenon_status value_detach(Session *s, Run *run, Value **v) {
  if ((*v)->kind == VK_TENSOR) {
    if (!in_some_arena(s, (*v)->data)) return TENON_OK;
    Value *copy;
    TRY(value_tensor(run, NOWHERE, (*v)->dtype, (*v)->rank, (*v)->dims, &copy));
    copy_elems(copy->dtype, copy->data, 0, (*v)->data, 0, copy->n);
    value_release(*v);
    *v = copy;
    return TENON_OK;
  }
  for (int64_t i = 0; i < (*v)->nitems; i++) TRY(value_detach(s, run, &(*v)->items[i]));
  return TENON_OK;
}

// A result that has a place is moved there; any other stays where the evaluation made it.
static tenon_status keep(Session *s, Run *run, Frame *fr, int32_t value, Value *v, Where at) {
  const ProgValue *pv = &fr->f->value[value];
  Cell *c = &fr->cell[value];
  if (!bind_shape(s, pv, v)) return wrong_shape(s, run, at, "the result", pv, v);
  int64_t bytes = 0;
  if (c->data && v->kind == VK_TENSOR && v->dtype != DT_STRING) {
    if (!dtype_bytes(v->dtype, v->n, &bytes))
      return fail(run->diag, TENON_EINTERNAL, at, "a result of impossible size");
    if (bytes) memmove(c->data, v->data, (size_t)bytes);
    value_release(v);
    return TENON_OK;
  }
  TRY(value_detach(s, run, &v));
  c->value = v;
  c->data = v->kind == VK_TENSOR ? v->data : NULL;
  return TENON_OK;
}

static tenon_status evaluate(Session *s, Run *run, const ProgStep *st, Eval *e) {
  int64_t said = run->diag->len;
  if (!s->pool) s->pool = pool_create(workers_count(s->workers));
  run->pool = s->pool;
  tenon_status status = st->eval->prepared ? st->eval->prepared(e) : st->eval->eval(e);
  if (status && run->diag->len == said)
    status = fail(run->diag, status, e->at, "evaluation failed (%s)", status_name(status));
  return status;
}

// What the step's prepared evaluation keeps from call to call.
static EvalKeep *keep_of(Session *s, Frame *fr, const ProgStep *st) {
  if (!st->eval->prepared) return NULL;
  if (!fr->keep) fr->keep = arena_array(&s->arena, EvalKeep, MAX(fr->f->nsteps, 1));
  EvalKeep *k = &fr->keep[st - fr->f->step];
  k->arena = &s->arena;
  return k;
}

tenon_status session_host(Session *s, Run *run, Frame *fr, const ProgStep *st) {
  ArenaMark m = arena_mark(&run->scratch);
  Value **in = arena_array(&run->scratch, Value *, MAX(st->nin, 1));
  Value **out = arena_array(&run->scratch, Value *, MAX(st->nout, 1));
  for (int32_t i = 0; i < st->nin; i++)
    if (st->in[i] >= 0 && fr->f->value[st->in[i]].place != PLACE_NONE)
      TRY(cell_value(s, run, fr, st->in[i], &in[i]));
  Eval e = {.run = run,
            .in = (const Value *const *)in,
            .nin = st->nin,
            .out = out,
            .nout = st->nout,
            .attrs = st->attrs,
            .keep = keep_of(s, fr, st),
            .at = {.node = st->node, .op = st->op}};
  TRY(evaluate(s, run, st, &e));
  for (int32_t i = 0; i < st->nout; i++) {
    if (!out[i]) return fail(run->diag, TENON_EINTERNAL, e.at, "result %d was not computed", i);
    TRY(keep(s, run, fr, st->out[i], out[i], e.at));
  }
  for (int32_t i = 0; i < st->nin; i++) value_release(in[i]);
  arena_reset(&run->scratch, m);
  return TENON_OK;
}
