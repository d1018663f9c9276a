// state.c -- the public interface: values that a session keeps from one run to the next.
//
// A state joins an input with an output.  It has two buffers: a run reads `now` and writes `next`,
// and they change places when it has succeeded, so that a run that fails leaves every state as it
// was and none is copied.  Where there is no room of the output's size the run allocates it.
#include "api/api.h"

static bool fixed_shape(const tenon_value_info *v) {
  bool ok = v->kind == TENON_KIND_TENSOR && v->dtype != TENON_DTYPE_NONE &&
            v->dtype != TENON_DTYPE_STRING && v->rank >= 0;
  for (int32_t i = 0; ok && i < v->rank; i++) ok = v->shape[i] >= 0;
  return ok;
}

static bool find_value(const tenon_value_info *v, size_t n, const char *name, size_t *out) {
  for (size_t i = 0; name && i < n; i++)
    if (!strcmp(v[i].name, name)) {
      *out = i;
      return true;
    }
  return false;
}

// A state that its input's shape determines begins as zeros; any other has no value until it is
// set.
static tenon_status make_zero(State *st, const tenon_value_info *v, Diag *d) {
  tenon_tensor_release(&st->now);
  st->has_value = fixed_shape(v);
  return st->has_value ? api_make_tensor(v, d, &st->now) : TENON_OK;
}

static tenon_status declare_one(tenon_session *s, const tenon_state_pair *pair, Diag *d) {
  const tenon_program *p = s->program;
  State *st = &s->state[s->nstates];
  if (!find_value(p->input, p->ninputs, pair->input, &st->input))
    return fail(d, TENON_EINVAL, NOWHERE, "a state is to be input '%s', which the program has not",
                pair->input ? pair->input : "");
  if (!find_value(p->output, p->noutputs, pair->output, &st->output))
    return fail(d, TENON_EINVAL, NOWHERE, "a state is to be output '%s', which the program has not",
                pair->output ? pair->output : "");
  const tenon_value_info *in = &p->input[st->input], *out = &p->output[st->output];
  Where at = {.node = in->name, .op = "state"};
  for (size_t i = 0; i < s->nstates; i++)
    if (s->state[i].input == st->input || s->state[i].output == st->output)
      return fail(d, TENON_EINVAL, at, "its input or its output is already that of another state");
  bool fits = in->kind == TENON_KIND_TENSOR && out->kind == TENON_KIND_TENSOR &&
              in->dtype == out->dtype && in->dtype != TENON_DTYPE_STRING &&
              (in->rank == out->rank || in->rank < 0 || out->rank < 0);
  for (int32_t i = 0; fits && in->rank == out->rank && i < in->rank; i++)
    fits = in->shape[i] == out->shape[i] || in->shape[i] < 0 || out->shape[i] < 0;
  if (!fits)
    return fail(d, TENON_EINVAL, at, "the output %s is no next value of the input %s", out->type,
                in->type);
  s->nstates++;  // from here on it is released with the session
  if (fixed_shape(out)) TRY(api_make_tensor(out, d, &st->next));
  return make_zero(st, in, d);
}

tenon_status state_declare(tenon_session *s, const tenon_state_pair *pairs, size_t n, Diag *d) {
  if (n && !pairs) return fail(d, TENON_EINVAL, NOWHERE, "%zu states, but none is named", n);
  if (n > s->program->ninputs)
    return fail(d, TENON_EINVAL, NOWHERE, "%zu states, but the program has %zu inputs", n,
                s->program->ninputs);
  s->state = arena_array(&s->arena, State, (int64_t)MAX(n, 1));
  for (size_t i = 0; i < n; i++) TRY(declare_one(s, &pairs[i], d));
  return TENON_OK;
}

void state_release(tenon_session *s) {
  for (size_t i = 0; i < s->nstates; i++) {
    tenon_tensor_release(&s->state[i].now);
    tenon_tensor_release(&s->state[i].next);
  }
}

const bool *state_want(const tenon_session *s, Run *r) {
  bool *wanted = arena_dup(&r->scratch, r->wanted, (int64_t)(s->program->noutputs * sizeof(bool)));
  for (size_t i = 0; i < s->nstates; i++) wanted[s->state[i].output] = true;
  return wanted;
}

bool state_is_input(const tenon_session *s, size_t input) {
  for (size_t i = 0; i < s->nstates; i++)
    if (s->state[i].input == input) return true;
  return false;
}

// ---- around a run ----

tenon_status state_enter(const tenon_session *s, tenon_tensor *in, tenon_tensor *out, Diag *d) {
  for (size_t i = 0; i < s->nstates; i++) {
    const State *st = &s->state[i];
    tenon_tensor *t = &in[st->input];
    const tenon_value_info *v = &s->program->output[st->output];
    TRY(api_need_host(&out[st->output], (Where){.node = v->name, .op = "state"}, d));
    out[st->output] = (tenon_tensor){.data = st->next.data, .bytes = st->next.bytes};
    if (t->data || t->dtype != TENON_DTYPE_NONE) continue;  // given for once
    if (!st->has_value)
      return fail(d, TENON_EINVAL,
                  (Where){.node = s->program->input[st->input].name, .op = "state"},
                  "its shape is not fixed, so it begins without a value: set it first");
    *t = st->now;
    t->owner = NULL;
  }
  return TENON_OK;
}

static int64_t size_of(const tenon_tensor *t) {
  return tenon_tensor_size(t->dtype, t->rank, t->shape);
}

static tenon_status too_small(const tenon_value_info *v, const tenon_tensor *got, int64_t room,
                              Diag *d) {
  return fail(d, TENON_EINVAL, (Where){.node = v->name, .op = "output"},
              "%s%s needs %lld bytes, the buffer has %lld", dtype_name((DType)got->dtype),
              shape_text(got->rank, got->shape).s, (long long)size_of(got), (long long)room);
}

// A copy of `from` in the caller's buffer, or where it has none a view.
static void show(const tenon_tensor *from, tenon_tensor *to) {
  tenon_tensor t = *from;
  t.owner = NULL;
  if (to->data) {
    t.data = to->data;
    t.bytes = to->bytes;
    if (size_of(from)) memcpy(t.data, from->data, (size_t)size_of(from));
  }
  *to = t;
}

tenon_status state_leave(tenon_session *s, tenon_tensor *got, tenon_tensor *outputs, Diag *d) {
  tenon_status status = TENON_OK;
  for (size_t i = 0; i < s->nstates && !status; i++) {
    const tenon_tensor *t = &got[s->state[i].output], *room = &outputs[s->state[i].output];
    if (room->data && room->bytes < size_of(t))
      status = too_small(&s->program->output[s->state[i].output], t, room->bytes, d);
  }
  for (size_t i = 0; i < s->nstates; i++) {
    State *st = &s->state[i];
    tenon_tensor *t = &got[st->output];
    if (status) {  // what the run allocated for it
      tenon_tensor_release(t);
      continue;
    }
    tenon_tensor old = st->now;
    if (!t->owner) t->owner = st->next.owner;  // the run wrote into our room
    st->now = *t;
    st->has_value = true;
    // A value that the caller has set may be too small to be room for the next one.
    st->next = (tenon_tensor){0};
    if (fixed_shape(&s->program->output[st->output]) && old.bytes >= size_of(&st->now))
      st->next = old;
    else
      tenon_tensor_release(&old);
    show(&st->now, &outputs[st->output]);
    *t = outputs[st->output];
  }
  return status;
}

// ---- the public functions ----

size_t tenon_session_state_count(const tenon_session *s) { return s ? s->nstates : 0; }

tenon_status tenon_session_state(const tenon_session *s, size_t i, tenon_value_info *out) {
  if (!out) return TENON_EINVAL;
  *out = (tenon_value_info){0};
  if (i >= tenon_session_state_count(s)) return TENON_EINVAL;
  *out = s->program->input[s->state[i].input];
  return TENON_OK;
}

static tenon_status find_state(const tenon_session *s, size_t i, Diag *d) {
  if (i < s->nstates) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE, "there is no state %zu: the session keeps %zu", i,
              s->nstates);
}

static tenon_status get(const tenon_session *s, size_t i, tenon_tensor *out, Diag *d) {
  TRY(find_state(s, i, d));
  const State *st = &s->state[i];
  const tenon_value_info *v = &s->program->input[st->input];
  if (!st->has_value)
    return fail(d, TENON_EINVAL, (Where){.node = v->name, .op = "state"}, "it has no value yet");
  TRY(api_need_host(out, (Where){.node = v->name, .op = "state"}, d));
  if (out->data && out->bytes < size_of(&st->now)) return too_small(v, &st->now, out->bytes, d);
  if (!out->data) TRY(api_copy_tensor(&st->now, d, out));
  tenon_tensor owned = *out;
  show(&st->now, out);
  out->owner = owned.owner;
  return TENON_OK;
}

tenon_status tenon_session_state_get(tenon_session *s, size_t i, tenon_tensor *out,
                                     tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!s || !out) return api_missing(s ? "place for the state" : "session", error);
  return api_error(error, &d, get(s, i, out, &d));
}

static tenon_status set(tenon_session *s, size_t i, const tenon_tensor *value, Diag *d) {
  TRY(find_state(s, i, d));
  State *st = &s->state[i];
  const tenon_value_info *v = &s->program->input[st->input];
  Where at = {.node = v->name, .op = "state"};
  if (!value) return fail(d, TENON_EINVAL, at, "no value is given");
  TRY(api_need_host(value, at, d));
  TRY(api_check_input(&(RunCall){.input = v, .in = value, .nin = 1, .d = d}, 0));
  bool fits = value->dtype == v->dtype && (v->rank < 0 || value->rank == v->rank);
  for (int32_t k = 0; fits && v->rank >= 0 && k < v->rank; k++)
    fits = v->shape[k] < 0 || v->shape[k] == value->shape[k];
  if (!fits)
    return fail(d, TENON_EINVAL, at, "%s%s is no value of %s", dtype_name((DType)value->dtype),
                shape_text(value->rank, value->shape).s, v->type);
  tenon_tensor copy = {0};
  TRY(api_copy_tensor(value, d, &copy));
  tenon_tensor_release(&st->now);
  st->now = copy;
  st->has_value = true;
  return TENON_OK;
}

tenon_status tenon_session_state_set(tenon_session *s, size_t i, const tenon_tensor *value,
                                     tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!s) return api_missing("session", error);
  return api_error(error, &d, set(s, i, value, &d));
}

tenon_status tenon_session_state_reset(tenon_session *s, tenon_error *error) {
  Diag d;
  diag_init(&d);
  tenon_status status = TENON_OK;
  if (!s) return api_missing("session", error);
  for (size_t i = 0; i < s->nstates; i++) {
    tenon_status one = make_zero(&s->state[i], &s->program->input[s->state[i].input], &d);
    if (!status) status = one;
  }
  return api_error(error, &d, status);
}
