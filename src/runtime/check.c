// check.c -- whether a program is whole: everything that it refers to is there, in the order in
// which it is used.
//
// Run over every program before it runs, whether it was just built or read from a file.  Time and
// memory are linear in the program's size, and nothing recurses.
#include "runtime/program.h"

#include "eval/table.h"

typedef struct Checker {
  const Program *p;
  const ProgFunction *f;
  bool *made;      // [f->nvalues]: there when the step is done
  int32_t *now;    // [f->nparams]: of a state: its latest version, a value
  int32_t *shows;  // [f->nvalues]: the version of a state that it is or is a view of; -1: none
  Arena arena;
  Diag *diag;
  tenon_status status;
} Checker;

static void refuse(Checker *c, const char *what, int64_t number) {
  if (c->status) return;
  c->status = fail(c->diag, TENON_EFORMAT, (Where){.node = c->f ? c->f->name : NULL},
                   "the program is damaged: %s (%lld)", what, (long long)number);
}

static void need(Checker *c, bool ok, const char *what, int64_t number) {
  if (!ok) refuse(c, what, number);
}

static bool within(int64_t i, int64_t n) { return i >= 0 && i < n; }

// ---- tables of the program ----

static void check_expr(Checker *c, const ProgExpr *e) {
  int top = 0;
  for (int32_t i = 0; i < e->n; i++) {
    int64_t op = e->code[i];
    if (op == PX_CONST || op == PX_SYM) {
      need(c, i + 1 < e->n && top < PX_STACK, "an expression ends early", i);
      if (c->status) return;
      i++;
      if (op == PX_SYM) need(c, within(e->code[i], c->p->nsyms), "no such symbol", e->code[i]);
      top++;
    } else {
      need(c, within(op, PX_OPS) && top >= 2, "an expression does not work out", op);
      if (c->status) return;
      top--;
    }
  }
  need(c, top == 1, "an expression does not work out", top);
}

static void check_const(Checker *c, int32_t i) {
  const ProgConst *k = &c->p->constant[i];
  int64_t end, n, bytes;
  need(c, dtype_valid(k->dtype), "no such element type", k->dtype);
  need(c, k->rank >= 0 && k->rank <= MAX_RANK, "a rank", k->rank);
  if (c->status) return;
  need(c,
       k->offset >= 0 && k->bytes >= 0 && ck_add(k->offset, k->bytes, &end) &&
           end <= c->p->constants_bytes &&
           k->offset % prog_const_align(c->p->ndevices, k->dtype) == 0,
       "a constant outside its section", i);
  bool sized = shape_count(k->rank, k->dims, &n) && dtype_bytes(k->dtype, n, &bytes);
  need(c, sized && (k->dtype == DT_STRING || bytes == k->bytes), "a constant of another size", i);
}

static bool is_word(const char **at) {
  size_t n = strspn(*at, "abcdefghijklmnopqrstuvwxyz0123456789_");
  *at += n;
  return n > 0;
}

// "field=value field=value ...", or nothing: what somebody may print.
static bool is_schedule(const char *s) {
  enum { LONGEST = 1024 };
  if (!s || strlen(s) > LONGEST) return false;
  while (*s) {
    if (!is_word(&s) || *s++ != '=' || !is_word(&s)) return false;
    if (*s == ' ' && s[1]) s++;
  }
  return true;
}

static bool is_template(const char *s) { return s && is_word(&s) && !*s; }

static void check_kernel(Checker *c, const ProgKernel *k, int32_t i) {
  need(c, !k->device || k->device < c->p->ndevices, "a kernel of no device", i);
  need(c, c->p->invoke || k->device || within(k->entry, c->p->code_bytes),
       "a kernel outside the code", i);
  need(c, k->group >= 0 && k->shared_bytes >= 0, "a kernel's group", i);
  need(c, k->name && k->scratch_bytes >= 0, "a kernel's name or scratch", i);
  need(c, is_template(k->template_name), "a kernel's template", i);
  need(c, is_schedule(k->schedule), "a kernel's schedule", i);
  need(c, k->nargs >= 0 && k->ndims >= 0 && k->nchecks >= 0, "a kernel's arguments", i);
  for (int32_t m = 0; m < k->nchecks && !c->status; m++) need(c, k->check[m], "no message", m);
}

tenon_status program_check_const(const Program *p, int32_t i, Diag *d) {
  Checker c = {.p = p, .diag = d};
  check_const(&c, i);
  return c.status;
}

// ---- functions ----

static void check_optional_expr(Checker *c, int32_t e) {
  need(c, e == -1 || within(e, c->p->nexprs), "no such expression", e);
}

static int64_t place_count(const Checker *c, int place) {
  switch ((ProgPlace)place) {
  case PLACE_PARAM:
  case PLACE_STATE: return c->f->nparams;
  case PLACE_CONST: return c->p->nconsts;
  case PLACE_ARENA: return c->f->nroots;
  case PLACE_RESULT: return c->f->nresults;
  case PLACE_NONE:
  case PLACE_HEAP: break;
  }
  return -1;
}

static void check_value(Checker *c, const ProgValue *v) {
  int64_t n = place_count(c, v->place);
  need(c, v->place <= PLACE_STATE, "no such place", v->place);
  need(c, n < 0 || within(v->slot, n), "no such slot", v->slot);
  need(c, v->kind <= VK_MAP && v->item <= VK_MAP, "no such kind", v->kind);
  need(c, !v->dtype || dtype_valid(v->dtype), "no such element type", v->dtype);
  need(c, v->rank >= -1 && v->rank <= MAX_RANK, "a rank", v->rank);
  need(c, !v->device || v->device < c->p->ndevices, "no such device", v->device);
  need(c, !v->device || v->place != PLACE_PARAM, "a parameter on a device", v->device);
  need(c, !v->device || (v->kind == VK_TENSOR && v->rank >= 0 && v->dtype && v->dtype != DT_STRING),
       "a list on a device", v->device);
  need(c, v->at == -1 || v->place == PLACE_ARENA || v->place == PLACE_RESULT, "a part of nothing",
       v->at);
  check_optional_expr(c, v->at);
  if (c->status) return;
  for (int32_t i = 0; i < v->rank; i++) check_optional_expr(c, v->dim[i]);
  bool sized = v->place == PLACE_ARENA || v->place == PLACE_CONST || v->place == PLACE_RESULT ||
               v->place == PLACE_STATE;
  need(c, !sized || (v->kind == VK_TENSOR && v->rank >= 0 && v->dtype), "a place without a size",
       v->slot);
  if (c->status || v->place != PLACE_CONST) return;
  const ProgConst *k = &c->p->constant[v->slot];
  need(c, k->dtype == v->dtype && k->rank == v->rank, "a constant of another type", v->slot);
}

// A version has the type of its state, a parameter.
static void check_version(Checker *c, const ProgValue *v) {
  if (v->place != PLACE_STATE) return;
  const ProgValue *state = &c->f->value[c->f->param[v->slot]];
  need(c, !c->f->index && v->dtype != DT_STRING, "a state that is not the model's", v->slot);
  need(c,
       state->place == PLACE_STATE && state->slot == v->slot && state->dtype == v->dtype &&
           state->rank == v->rank && state->device == v->device,
       "a version of no state", v->slot);
  for (int32_t i = 0; i < v->rank && !c->status; i++)
    need(c, v->dim[i] >= 0 && state->dim[i] == v->dim[i], "a version of another size", i);
}

// A part of a result begins in a result that is no part itself: placing one never leads to another.
static void check_part(Checker *c, const ProgValue *v) {
  if (v->at < 0 || v->place != PLACE_RESULT) return;
  const ProgValue *whole = &c->f->value[c->f->result[v->slot]];
  need(c, whole->place == PLACE_RESULT && whole->slot == v->slot && whole->at < 0,
       "a part of a part", v->slot);
}

static void check_values(Checker *c, const int32_t *v, int32_t n, bool absent) {
  for (int32_t i = 0; i < n; i++)
    need(c, within(v[i], c->f->nvalues) || (absent && v[i] == -1), "no such value", v[i]);
}

// Every operand was made by an earlier step, and neither freed nor written over since.
static void check_made(Checker *c, const int32_t *v, int32_t n) {
  for (int32_t i = 0; i < n && !c->status; i++) {
    if (v[i] < 0) continue;
    int32_t version = c->shows[v[i]];
    need(c, c->made[v[i]], "a value is used before it is made", v[i]);
    need(c, version < 0 || c->now[c->f->value[version].slot] == version,
         "a state is read after it was written over", v[i]);
  }
}

// Operands are checked, results are not made yet.
static void check_kernel_args(Checker *c, const ProgStep *s) {
  for (int32_t i = 0; i < s->nargs && !c->status; i++) {
    bool own = false;
    for (int32_t k = 0; k < s->nout; k++) own |= s->out[k] == s->arg[i];
    if (!own) check_made(c, &s->arg[i], 1);
  }
}

static void make_result(Checker *c, const ProgStep *s, int32_t v) {
  const ProgValue *x = &c->f->value[v];
  need(c, x->place != PLACE_PARAM && x->place != PLACE_CONST && x->place != PLACE_NONE,
       "a step changes what is not its own", v);
  if (x->place == PLACE_STATE) {
    need(c, (s->kind == STEP_KERNEL || s->kind == STEP_COPY) && !c->made[v],
         "a version of a state is made twice, or by no kernel", v);
    c->now[x->slot] = v;
    c->shows[v] = v;
  } else if (s->kind == STEP_VIEW) {
    for (int32_t i = 0; i < s->nin; i++)
      if (s->in[i] >= 0) c->shows[v] = MAX(c->shows[v], c->shows[s->in[i]]);
  }
  c->made[v] = true;
}

static void check_call(Checker *c, const ProgStep *s) {
  need(c, within(s->kernel, c->p->nkernels), "no such kernel", s->kernel);
  check_values(c, s->arg, s->nargs, false);
  if (c->status) return;
  const ProgKernel *k = &c->p->kernel[s->kernel];
  need(c, s->nargs == k->nargs && s->ndims == k->ndims, "a call that does not fit", s->kernel);
  for (int32_t i = 0; i < s->ndims; i++)
    need(c, within(s->dim[i], c->p->nexprs), "no such expression", s->dim[i]);
  need(c, within(s->items, c->p->nexprs), "no such expression", s->items);
  need(c, s->grain > 0, "shares of no items", s->grain);
  for (int32_t i = 0; i < s->nsame; i++) {
    need(c, within(s->same[i], c->p->nexprs), "no such expression", s->same[i]);
    need(c, within(s->as[i], c->p->nexprs), "no such expression", s->as[i]);
    need(c, s->what[i], "sizes of nothing", i);
  }
  for (int32_t i = 0; i < s->nargs && !c->status; i++) {
    const ProgValue *v = &c->f->value[s->arg[i]];
    need(c, v->kind == VK_TENSOR && v->dtype != DT_STRING, "a kernel of lists", s->arg[i]);
    need(c, v->device == k->device, "an argument on another device", s->arg[i]);
  }
}

// Evaluations read and make values of the host; a view lies where its operands do.
static void check_devices(Checker *c, const ProgStep *s) {
  int device = s->kind == STEP_VIEW ? c->f->value[s->out[0]].device : 0;
  for (int32_t i = 0; i < s->nin; i++)
    need(c, s->in[i] < 0 || c->f->value[s->in[i]].device == device, "an operand on another device",
         s->in[i]);
  for (int32_t i = 0; i < s->nout; i++)
    need(c, c->f->value[s->out[i]].device == device, "a result on another device", s->out[i]);
}

static void check_step(Checker *c, const ProgStep *s) {
  need(c, s->kind <= STEP_COPY, "no such step", s->kind);
  check_values(c, s->in, s->nin, true);
  check_values(c, s->out, s->nout, false);
  check_values(c, s->free, s->nfree, false);
  check_optional_expr(c, s->when);
  if (c->status) return;
  check_made(c, s->in, s->nin);
  if (s->kind == STEP_KERNEL) check_call(c, s);
  if (s->kind == STEP_KERNEL && !c->status) check_kernel_args(c, s);
  for (int32_t i = 0; i < s->nout && !c->status; i++) make_result(c, s, s->out[i]);
  if (s->kind == STEP_KERNEL) {
    if (c->status) return;
  } else if (s->kind == STEP_HOST) {
    need(c, s->op && s->eval, "no such operator", s->kind);
  } else {
    bool one = s->nin == 1 || (s->nin > 1 && s->kind == STEP_VIEW);
    need(c, one && s->nout == 1 && s->in[0] >= 0, "a view of nothing", s->nin);
  }
  if (!c->status && (s->kind == STEP_HOST || s->kind == STEP_VIEW)) check_devices(c, s);
  for (int32_t i = 0; i < s->nfree && !c->status; i++) {
    need(c, c->f->value[s->free[i]].place == PLACE_HEAP, "a place is freed", s->free[i]);
    c->made[s->free[i]] = false;
  }
}

// Of no elements whatever the sizes are: it has no memory.
static bool is_empty(const Checker *c, const ProgValue *v) {
  for (int32_t i = 0; i < v->rank; i++) {
    const ProgExpr *e = v->dim[i] >= 0 ? &c->p->expr[v->dim[i]] : NULL;
    if (e && e->n == 2 && e->code[0] == PX_CONST && e->code[1] == 0) return true;
  }
  return false;
}

// Whether two values may be in the same memory, as far as their places and sizes tell.
static bool may_meet(const Checker *c, int32_t a, int32_t b) {
  const ProgValue *x = &c->f->value[a], *y = &c->f->value[b];
  if (is_empty(c, x) || is_empty(c, y)) return false;
  if (a == b) return true;
  if (x->device != y->device) return false;
  if (x->place == PLACE_STATE && y->place == PLACE_STATE) return x->slot == y->slot;
  if (x->place != y->place || (x->place != PLACE_ARENA && x->place != PLACE_RESULT)) return false;
  return x->slot == y->slot && (x->at == y->at || x->at < 0 || y->at < 0);
}

// What `s` writes is neither read nor written by `o`.
static void check_apart(Checker *c, const ProgStep *s, const ProgStep *o) {
  for (int32_t i = 0; i < s->nout; i++) {
    for (int32_t k = 0; k < o->nin; k++)
      need(c, o->in[k] < 0 || !may_meet(c, s->out[i], o->in[k]),
           "a step concurrent with its operand", i);
    for (int32_t k = 0; k < o->nargs; k++)
      need(c, !may_meet(c, s->out[i], o->arg[k]), "steps that meet", i);
    for (int32_t k = 0; k < o->nout; k++)
      need(c, !may_meet(c, s->out[i], o->out[k]), "steps that write one memory", i);
  }
}

// Steps that run concurrently.
static void check_concurrent(Checker *c, int32_t first) {
  const ProgStep *s = &c->f->step[first];
  need(c, s->more >= 0 && s->more <= STEP_MORE && s->more < c->f->nsteps - first,
       "no such concurrent steps", s->more);
  for (int32_t i = 0; i <= s->more && s->more && !c->status; i++) {
    need(c, s[i].kind == STEP_KERNEL && s[i].when < 0 && (!i || !s[i].more),
         "a step that cannot run concurrently", first + i);
    need(c, s[i].kind != STEP_KERNEL || !c->p->kernel[s[i].kernel].device,
         "concurrent steps of a device", first + i);
    for (int32_t k = 0; k <= s->more && !c->status; k++)
      if (i != k) check_apart(c, &s[i], &s[k]);
  }
}

// What is there before the first step.
static void begin_function(Checker *c, const ProgFunction *f) {
  c->made = arena_array(&c->arena, bool, MAX(f->nvalues, 1));
  c->shows = arena_array(&c->arena, int32_t, MAX(f->nvalues, 1));
  c->now = arena_array(&c->arena, int32_t, MAX(f->nparams, 1));
  for (int32_t i = 0; i < f->nvalues; i++) {
    int place = f->value[i].place;
    c->made[i] = place == PLACE_PARAM || place == PLACE_CONST || place == PLACE_NONE;
    c->shows[i] = -1;
  }
  for (int32_t i = 0; i < f->nparams && !c->status; i++) {
    const ProgValue *v = &f->value[f->param[i]];
    bool state = v->place == PLACE_STATE;
    need(c, v->place == PLACE_PARAM || (state && v->slot == i), "a parameter elsewhere", i);
    if (!state) continue;
    c->made[f->param[i]] = true;
    c->shows[f->param[i]] = c->now[i] = f->param[i];
  }
}

static void check_function(Checker *c, const ProgFunction *f) {
  c->f = f;
  for (int32_t i = 0; i < f->nvalues && !c->status; i++) check_value(c, &f->value[i]);
  for (int32_t i = 0; i < f->nroots && !c->status; i++) {
    need(c, within(f->root[i].bytes, c->p->nexprs), "no such expression", f->root[i].bytes);
    for (int32_t k = 0; k < f->root[i].nbelow; k++)
      need(c, within(f->root[i].below[k], i), "roots out of order", f->root[i].below[k]);
  }
  check_values(c, f->param, f->nparams, false);
  check_values(c, f->result, f->nresults, false);
  need(c, f->nranges >= 0 && f->nranges <= f->nparams, "ranges of no parameter", f->nranges);
  if (c->status) return;
  for (int32_t i = 0; i < f->nvalues; i++) check_part(c, &f->value[i]);
  for (int32_t i = 0; i < f->nvalues && !c->status; i++) check_version(c, &f->value[i]);
  begin_function(c, f);
  for (int32_t i = 0; i < f->nresults; i++)
    need(c, !f->value[f->result[i]].device, "a result on a device", i);
  for (int32_t i = 0; i < f->nsteps && !c->status; i++) check_step(c, &f->step[i]);
  for (int32_t i = 0; i < f->nsteps && !c->status; i++) check_concurrent(c, i);
  check_made(c, f->result, f->nresults);
  c->f = NULL;
}

// ---- bodies ----

// The k-th body that a function calls; NULL when there is none.
static const ProgFunction *body_of(const ProgFunction *f, int64_t *step, int *attr) {
  for (; *step < f->nsteps; (*step)++, *attr = 0) {
    const ProgStep *s = &f->step[*step];
    if (s->kind != STEP_HOST || !s->attrs) continue;
    while (*attr < s->eval->nattrs) {
      const AttrDesc *a = &s->eval->attrs[(*attr)++];
      const ProgFunction *body = NULL;
      if (a->kind == ATTR_body) memcpy(&body, (const char *)s->attrs + a->offset, sizeof(void *));
      if (body) return body;
    }
  }
  return NULL;
}

typedef struct Visit {
  const ProgFunction *f;
  int64_t step;
  int attr;
  int32_t below;  // bodies inside bodies that were found in it
} Visit;

// A body of the function on top of the stack is done.
static void leave_body(Checker *c, Visit *v, int32_t below) {
  v->below = MAX(v->below, below + 1);
  need(c, v->below <= BODIES_DEEP, "bodies are nested too deep", v->f->index);
}

// Depth first: a body that is still open has come back to itself.
static void check_bodies(Checker *c) {
  enum { NEW, OPEN, DONE };
  int32_t n = c->p->nfunctions, depth = 0;
  uint8_t *state = arena_array(&c->arena, uint8_t, n);
  int32_t *below = arena_array(&c->arena, int32_t, n);
  Visit *stack = arena_array(&c->arena, Visit, n);
  for (int32_t root = 0; root < n && !c->status; root++) {
    if (state[root] != NEW) continue;
    stack[depth++] = (Visit){.f = c->p->function[root]};
    state[root] = OPEN;
    while (depth && !c->status) {
      Visit *v = &stack[depth - 1];
      const ProgFunction *body = body_of(v->f, &v->step, &v->attr);
      if (!body) {
        state[v->f->index] = DONE;
        below[v->f->index] = v->below;
        if (--depth) leave_body(c, &stack[depth - 1], v->below);
      } else if (state[body->index] == NEW) {
        state[body->index] = OPEN;
        stack[depth++] = (Visit){.f = body};
      } else {
        need(c, state[body->index] == DONE, "a function calls itself", body->index);
        leave_body(c, v, below[body->index]);
      }
    }
  }
}

static void check_device_table(Checker *c) {
  const Program *p = c->p;
  need(c, !p->ndevices || (p->ndevices >= 2 && p->ndevices <= DEVICES_MAX), "a table of devices",
       p->ndevices);
  for (int32_t i = 0; i < p->ndevices && !c->status; i++)
    need(c, !p->device[i].driver == !i, "a device without a driver", i);
}

static void check_all(Checker *c) {
  const Program *p = c->p;
  check_device_table(c);
  need(c, p->nfunctions >= 1, "no function", p->nfunctions);
  for (int32_t i = 0; i < p->nsyms && !c->status; i++)
    need(c, p->sym[i].name, "a symbol without a name", i);
  for (int32_t i = 0; i < p->noptions && !c->status; i++)
    need(c, p->option[i], "an option without a text", i);
  for (int32_t i = 0; i < p->nexprs && !c->status; i++) check_expr(c, &p->expr[i]);
  for (int32_t i = 0; i < p->nconsts && !c->status; i++) check_const(c, i);
  for (int32_t i = 0; i < p->nkernels && !c->status; i++) check_kernel(c, &p->kernel[i], i);
  for (int32_t i = 0; i < p->nfunctions && !c->status; i++) {
    ArenaMark m = arena_mark(&c->arena);
    check_function(c, p->function[i]);
    arena_reset(&c->arena, m);
  }
  if (!c->status) check_bodies(c);
}

tenon_status program_check(const Program *p, Diag *d) {
  Checker c = {.p = p, .diag = d};
  Trap t;
  arena_init(&c.arena);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) check_all(&c);
  trap_leave(&t);
  arena_deinit(&c.arena);
  return t.status ? t.status : c.status;
}
