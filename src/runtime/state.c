// state.c -- the states of a session: memory that is bound once and changed by runs.
//
// A state is given to a run as any other input is, by a Value that shows its memory; kernels write
// there.  The memory of a state on a device is the session's, and its Value has a type alone.
//
// Guarantees: the session never copies a state.  What it made it frees; the rest is the caller's.
#include "runtime/session_impl.h"

int32_t session_state_count(const Session *s) { return s->nstates; }

static const ProgValue *value_of(const Session *s, int32_t i) {
  const ProgFunction *f = s->program->function[0];
  return &f->value[f->param[s->state[i].param]];
}

StateInfo session_state(const Session *s, int32_t i) {
  const ProgValue *v = value_of(s, i);
  return (StateInfo){v->name, v->dtype, v->rank, s->state[i].param, v->device > 0};
}

int32_t session_find_state(const Session *s, const char *name) {
  for (int32_t i = 0; i < s->nstates; i++)
    if (value_of(s, i)->name && !strcmp(value_of(s, i)->name, name)) return i;
  return -1;
}

tenon_status session_state_dims(const Session *s, int32_t i, const SymbolValue *sym, int64_t nsyms,
                                int64_t *dims, Diag *d) {
  const Program *p = s->program;
  const ProgValue *v = value_of(s, i);
  int64_t *value = mem_alloc(MAX(p->nsyms, 1) * (int64_t)sizeof *value);
  tenon_status status = TENON_OK;
  if (!value) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  for (int32_t k = 0; k < p->nsyms; k++) {
    value[k] = SYM_UNBOUND;
    for (int64_t n = 0; n < nsyms; n++)
      if (!strcmp(p->sym[k].name, sym[n].name)) value[k] = sym[n].value;
  }
  for (int32_t k = 0; k < v->rank && !status; k++)
    if (!prog_eval(p, v->dim[k], value, &dims[k]) || dims[k] < 0)
      status = fail(d, TENON_EINVAL, (Where){.node = v->name, .op = "state"},
                    "axis %d has no size: a symbol has no value", (int)k);
  mem_free(value, MAX(p->nsyms, 1) * (int64_t)sizeof *value);
  return status;
}

static void forget(SessionState *st) {
  if (st->own_bytes) mem_free(st->value.data, st->own_bytes);
  st->value = (Value){0};
  st->own_bytes = 0;
  st->bound = false;
}

// Memory for a state that the caller gives none for.
static tenon_status make_memory(Session *s, int32_t i, int64_t bytes, Where at, Diag *d,
                                void **out) {
  SessionState *st = &s->state[i];
  *out = NULL;
  if (value_of(s, i)->device) return s->device_run->make_state(s, i, bytes, d);
  if (!(*out = mem_alloc(MAX(bytes, 1))))
    return fail(d, TENON_ENOMEM, at, "out of memory for %lld bytes", (long long)bytes);
  st->own_bytes = MAX(bytes, 1);
  return TENON_OK;
}

void session_free_states(Session *s) {
  for (int32_t i = 0; s->state && i < s->nstates; i++) forget(&s->state[i]);
}

tenon_status session_bind_state(Session *s, int32_t i, void *data, const int64_t *dims, Diag *d) {
  SessionState *st = &s->state[i];
  const ProgValue *v = value_of(s, i);
  Where at = {.node = v->name, .op = "state"};
  int64_t n, bytes;
  if (!shape_count(v->rank, dims, &n) || !dtype_bytes(v->dtype, n, &bytes))
    return fail(d, TENON_EINVAL, at, "%s%s is no size", dtype_name(v->dtype),
                shape_text(v->rank, dims).s);
  if (data && v->device)
    return fail(d, TENON_EINVAL, at, "it is on a device, and memory of the host was given");
  forget(st);
  if (!data) TRY(make_memory(s, i, bytes, at, d, &data));
  st->value = (Value){.kind = VK_TENSOR, .dtype = v->dtype, .rank = v->rank, .n = n, .data = data};
  memcpy(st->value.dims, dims, (size_t)v->rank * sizeof *dims);
  st->value.refs = 1;
  st->value.data_bytes = bytes;
  st->bound = true;
  return TENON_OK;
}

tenon_status session_read_state(Session *s, int32_t i, void *to, Diag *d) {
  const SessionState *st = &s->state[i];
  const ProgValue *v = value_of(s, i);
  if (!st->bound)
    return fail(d, TENON_EINVAL, (Where){.node = v->name, .op = "state"}, "it has no memory yet");
  if (v->device) return s->device_run->read_state(s, i, to, d);
  if (st->value.data_bytes) memcpy(to, st->value.data, (size_t)st->value.data_bytes);
  return TENON_OK;
}

tenon_status session_state_value(Session *s, Run *run, int32_t param, Value **v) {
  int32_t i = 0;
  int64_t dims[MAX_RANK];
  while (s->state[i].param != param) i++;
  SessionState *st = &s->state[i];
  const ProgValue *pv = value_of(s, i);
  if (*v && pv->device)
    return fail(run->diag, TENON_EINVAL, (Where){.node = pv->name, .op = "state"},
                "it is on a device, where the session has its memory: no value can be given");
  if (*v) return TENON_OK;
  if (!st->bound) {
    if (!cell_dims(s, pv, dims))
      return fail(run->diag, TENON_EINVAL, (Where){.node = pv->name, .op = "state"},
                  "its size depends on a symbol: its memory must be given first");
    TRY(session_bind_state(s, i, NULL, dims, run->diag));
  }
  return value_borrow(run, st->value.dtype, st->value.rank, st->value.dims, st->value.data, v);
}
