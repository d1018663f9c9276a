// device_copies.c -- inserts the copies between devices that the steps of a function need.
//
// A value is on the device of the step that makes it.  Parameters, results and host steps are on
// the host.  Steps are walked in order: an operand that is elsewhere gets a second value, copied
// before the first step that needs it and shared by all later ones.  A view is made again on the
// other device instead of copied, so a value under several shapes is copied once.  A copy has the
// offset of its source, so one memory plan holds for all devices.
//
// A state is where it is written: on the device of the first node that does, and so are all its
// versions.  Whoever reads one elsewhere gets a copy, made before the next version is.
//
// Needs:      every kernel step has its device; steps are in the order of the plan.
// Guarantees: each step reads operands of its own device.  Concurrent kernels stay concurrent only
//             if all run on the host.
#include "lower/program/builder.h"

void place_states(FuncBuilder *f) {
  const LowerOptions *o = f->b->o;
  for (int64_t i = 0; o->ndevices && i < f->plan->order.n; i++) {
    const Node *n = f->plan->order.v[i], *state = plan_state(f->plan, n);
    uint64_t have;
    if (!state || n == state || intmap_get(&f->state_on, (uint64_t)state->id, &have)) continue;
    int device = o->device_of ? o->device_of(o->device_ctx, n) : o->ndevices - 1;
    intmap_put(&f->state_on, (uint64_t)state->id, (uint64_t)device);
  }
}

int32_t state_device(const FuncBuilder *f, const Node *state) {
  uint64_t device = 0;
  intmap_get(&f->state_on, (uint64_t)state->id, &device);
  return (int32_t)device;
}

typedef struct Placing {
  FuncBuilder *f;
  VEC(ProgStep) step;
  IntMap copies;         // value and device -> value
  VEC(int32_t) view_of;  // by value: the operand it is a view of; -1: none
} Placing;

static int32_t device_of(const Placing *p, int32_t value) { return p->f->value.v[value].device; }

static void made_from(Placing *p, int32_t value, int32_t operand) {
  while (p->view_of.n <= value) vec_push(p->f->b->a, &p->view_of, -1);
  p->view_of.v[value] = operand;
}

static int32_t view_of(const Placing *p, int32_t value) {
  return value < p->view_of.n ? p->view_of.v[value] : -1;
}

static int32_t same_value_on(Placing *p, int32_t value, int32_t device) {
  ProgValue v = p->f->value.v[value];
  v.device = (uint8_t)device;
  if (v.place == PLACE_PARAM || v.place == PLACE_STATE) v.place = PLACE_HEAP;
  vec_push(p->f->b->a, &p->f->value, v);
  ValueOrigin from = p->f->origin.v[value];
  vec_push(p->f->b->a, &p->f->origin, from);
  return (int32_t)p->f->value.n - 1;
}

static void put_step(Placing *p, ProgStepKind kind, int32_t in, int32_t out) {
  Arena *pa = &p->f->b->p->arena;
  ProgStep st = {.kind = (uint8_t)kind, .when = -1, .nin = 1, .nout = 1};
  st.op = kind == STEP_COPY ? "copy" : "view";
  st.node = p->f->value.v[in].name;
  st.in = arena_dup(pa, &in, sizeof in);
  st.out = arena_dup(pa, &out, sizeof out);
  vec_push(p->f->b->a, &p->step, st);
}

// The value on that device, once the steps put so far are done.
static int32_t need(Placing *p, int32_t value, int32_t device) {
  uint64_t key = (uint64_t)value << 8 | (uint64_t)device, have;
  int32_t chain[64], n = 0;
  // A view's operand comes first; without recursion, since views may follow one another.
  while (device_of(p, value) != device && !intmap_get(&p->copies, key, &have)) {
    int32_t operand = view_of(p, value);
    chain[n++] = value;
    if (operand < 0 || n == ARRAY_LEN(chain)) break;
    value = operand;
    key = (uint64_t)value << 8 | (uint64_t)device;
  }
  int32_t there = device_of(p, value) == device        ? value
                  : intmap_get(&p->copies, key, &have) ? (int32_t)have
                                                       : -1;
  while (n) {
    int32_t from = chain[--n], to = same_value_on(p, from, device);
    if (there >= 0)
      put_step(p, STEP_VIEW, there, to);
    else if (p->f->value.v[from].place != PLACE_CONST)
      put_step(p, STEP_COPY, from, to);
    intmap_put(&p->copies, (uint64_t)from << 8 | (uint64_t)device, (uint64_t)to);
    there = to;
  }
  return there;
}

static const int32_t *need_all(Placing *p, int32_t n, const int32_t *list, int32_t device) {
  int32_t *v = arena_array(&p->f->b->p->arena, int32_t, MAX(n, 1));
  for (int32_t i = 0; i < n; i++) v[i] = list[i] < 0 ? list[i] : need(p, list[i], device);
  return v;
}

static int32_t step_device(const Placing *p, const ProgStep *st) {
  switch ((ProgStepKind)st->kind) {
  case STEP_KERNEL: return p->f->b->prog_kernel.v[st->kernel].device;
  case STEP_COPY:
    return device_of(p, p->f->value.v[st->out[0]].place == PLACE_STATE ? st->out[0] : st->in[0]);
  case STEP_VIEW: return device_of(p, st->in[0]);
  case STEP_HOST: break;
  }
  return 0;
}

// The step with its operands where it is done; what they need is put before it.
static ProgStep ready(Placing *p, const ProgStep *from) {
  ProgStep st = *from;
  int32_t device = step_device(p, &st);
  for (int32_t i = 0; i < st.nout; i++) p->f->value.v[st.out[i]].device = (uint8_t)device;
  st.in = need_all(p, st.nin, st.in, device);
  if (st.kind == STEP_KERNEL) st.arg = need_all(p, st.nargs, st.arg, device);
  if (st.kind == STEP_VIEW && st.nin == 1) made_from(p, st.out[0], from->in[0]);
  return st;
}

// A row of concurrent kernels: all of the host, else one after another.
static void place_row(Placing *p, const ProgStep *row) {
  ProgStep all[STEP_MORE + 1];
  bool host = true;
  for (int32_t i = 0; i <= row->more; i++) host &= !step_device(p, &row[i]);
  for (int32_t i = 0; i <= row->more; i++) {
    all[i] = ready(p, &row[i]);
    if (host) continue;
    all[i].more = 0;
    vec_push(p->f->b->a, &p->step, all[i]);
  }
  for (int32_t i = 0; host && i <= row->more; i++) vec_push(p->f->b->a, &p->step, all[i]);
}

void place_steps(FuncBuilder *f) {
  Placing p = {.f = f};
  ProgFunction *fn = f->f;
  intmap_init(&p.copies, f->b->a);
  for (int64_t i = 0; i < f->step.n; i += 1 + f->step.v[i].more) place_row(&p, &f->step.v[i]);
  fn->result = need_all(&p, fn->nresults, fn->result, 0);
  f->step.n = 0;
  for (int64_t i = 0; i < p.step.n; i++) vec_push(f->b->a, &f->step, p.step.v[i]);
}
