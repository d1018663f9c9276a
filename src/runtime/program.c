// program.c -- a compiled model: sizes, and the check that everything it refers to is there.
#include "runtime/program.h"

#include "eval/table.h"

Program *program_create(void) {
  Program *p = mem_alloc((int64_t)sizeof *p);
  if (!p) return NULL;
  arena_init(&p->arena);
  atomic_init(&p->refs, 1);
  return p;
}

Program *program_retain(Program *p) {
  atomic_fetch_add(&p->refs, 1);
  return p;
}

void program_release(Program *p) {
  if (!p || atomic_fetch_sub(&p->refs, 1) > 1) return;
  if (p->unload) p->unload(p);
  arena_deinit(&p->arena);
  mem_free(p, (int64_t)sizeof *p);
}

// ---- sizes ----

static bool floor_div(int64_t a, int64_t b, int64_t *out) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  *out = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
  return true;
}

static bool apply(int64_t op, int64_t a, int64_t b, int64_t *out) {
  int64_t q;
  switch ((ProgOp)op) {
  case PX_ADD: return ck_add(a, b, out);
  case PX_MUL: return ck_mul(a, b, out);
  case PX_DIV: return floor_div(a, b, out);
  case PX_MOD:
    if (!floor_div(a, b, &q)) return false;
    *out = a - q * b;
    return true;
  case PX_MIN: *out = MIN(a, b); return true;
  case PX_MAX: *out = MAX(a, b); return true;
  case PX_BCAST: *out = a == 1 ? b : a; return true;
  case PX_CONST:
  case PX_SYM:
  case PX_OPS: break;
  }
  return false;
}

bool prog_eval(const Program *p, int32_t expr, const int64_t *sym, int64_t *out) {
  if (expr < 0) return false;
  const ProgExpr *e = &p->expr[expr];
  int64_t stack[PX_STACK];
  int top = 0;
  for (int32_t i = 0; i < e->n; i++) {
    int64_t op = e->code[i];
    if (op == PX_CONST) {
      stack[top++] = e->code[++i];
    } else if (op == PX_SYM) {
      int64_t v = sym[e->code[++i]];
      if (v == SYM_UNBOUND) return false;
      stack[top++] = v;
    } else {
      top--;
      if (!apply(op, stack[top - 1], stack[top], &stack[top - 1])) return false;
    }
  }
  *out = stack[0];
  return true;
}

// ---- the check ----

typedef struct Checker {
  const Program *p;
  const ProgFunction *f;
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

static void check_optional_expr(Checker *c, int32_t e) {
  need(c, e == -1 || within(e, c->p->nexprs), "no such expression", e);
}

static int64_t place_count(const Checker *c, int place) {
  switch ((ProgPlace)place) {
  case PLACE_PARAM: return c->f->nparams;
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
  need(c, v->place <= PLACE_HEAP, "no such place", v->place);
  need(c, n < 0 || within(v->slot, n), "no such slot", v->slot);
  need(c, v->kind <= VK_MAP, "no such kind", v->kind);
  need(c, v->rank >= -1 && v->rank <= MAX_RANK, "a rank", v->rank);
  if (c->status) return;
  for (int32_t i = 0; i < v->rank; i++) check_optional_expr(c, v->dim[i]);
  bool sized = v->place == PLACE_ARENA || v->place == PLACE_CONST;
  need(c, !sized || (v->kind == VK_TENSOR && v->rank >= 0), "a place without a size", v->slot);
}

static void check_values(Checker *c, const int32_t *v, int32_t n, bool absent) {
  for (int32_t i = 0; i < n; i++)
    need(c, within(v[i], c->f->nvalues) || (absent && v[i] == -1), "no such value", v[i]);
}

static void check_step(Checker *c, const ProgStep *s) {
  need(c, s->kind <= STEP_COPY, "no such step", s->kind);
  check_values(c, s->in, s->nin, true);
  check_values(c, s->out, s->nout, false);
  check_values(c, s->free, s->nfree, false);
  check_optional_expr(c, s->when);
  if (s->kind == STEP_KERNEL) {
    need(c, within(s->kernel, c->p->nkernels), "no such kernel", s->kernel);
    if (c->status) return;
    const ProgKernel *k = &c->p->kernel[s->kernel];
    need(c, s->nargs == k->nargs && s->ndims == k->ndims, "a call that does not fit", s->kernel);
    check_values(c, s->arg, s->nargs, false);
    for (int32_t i = 0; i < s->ndims; i++)
      need(c, within(s->dim[i], c->p->nexprs), "no such expression", s->dim[i]);
    need(c, within(s->items, c->p->nexprs), "no such expression", s->items);
  } else if (s->kind == STEP_HOST) {
    need(c, s->op && eval_find(s->op), "no such operator", s->kind);
  } else {
    need(c, s->nin == 1 && s->nout == 1 && s->in[0] >= 0, "a view of nothing", s->nin);
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
  for (int32_t i = 0; i < f->nsteps && !c->status; i++) check_step(c, &f->step[i]);
  c->f = NULL;
}

tenon_status program_check(const Program *p, Diag *d) {
  Checker c = {.p = p, .diag = d};
  need(&c, p->nfunctions >= 1, "no function", p->nfunctions);
  for (int32_t i = 0; i < p->nexprs && !c.status; i++) check_expr(&c, &p->expr[i]);
  for (int32_t i = 0; i < p->nconsts && !c.status; i++) {
    const ProgConst *k = &p->constant[i];
    int64_t end;
    need(&c,
         k->offset >= 0 && k->bytes >= 0 && ck_add(k->offset, k->bytes, &end) &&
             end <= p->constants_bytes && k->offset % 64 == 0,
         "a constant outside its section", i);
    need(&c, k->rank >= 0 && k->rank <= MAX_RANK, "a rank", k->rank);
  }
  for (int32_t i = 0; i < p->nkernels && !c.status; i++)
    need(&c,
         (p->invoke || within(p->kernel[i].entry, p->code_bytes)) &&
             p->kernel[i].scratch_bytes >= 0,
         "a kernel outside the code", i);
  for (int32_t i = 0; i < p->nfunctions && !c.status; i++) check_function(&c, p->function[i]);
  return c.status;
}
