// program.c -- a compiled model and its sizes.
#include "runtime/program.h"

#include "runtime/device_run.h"

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
  if (p->stop_keeper) p->stop_keeper(p);
  if (p->device_kept) p->device_run->unload(p);
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

int64_t prog_const_align(int ndevices, DType t) {
  return ndevices || t == DT_STRING ? 64 : MAX(elem_bytes(t), 1);
}

int32_t prog_symbol(const Program *p, const char *name) {
  for (int32_t i = 0; i < p->nsyms; i++)
    if (!strcmp(p->sym[i].name, name)) return i;
  return -1;
}

int32_t prog_state_param(const Program *p, int32_t i) {
  const ProgFunction *f = p->function[0];
  for (int32_t k = 0; k < f->nparams; k++)
    if (f->value[f->param[k]].place == PLACE_STATE && !i--) return k;
  return -1;
}

int32_t prog_state_count(const Program *p) {
  const ProgFunction *f = p->function[0];
  int32_t n = 0;
  for (int32_t k = 0; k < f->nparams; k++) n += f->value[f->param[k]].place == PLACE_STATE;
  return n;
}

bool prog_sym_is_input(const Program *p, int32_t sym) {
  const ProgFunction *f = p->function[0];
  for (int32_t i = 0; i < f->nparams; i++) {
    const ProgValue *v = &f->value[f->param[i]];
    for (int32_t k = 0; k < v->rank; k++) {
      const ProgExpr *e = v->dim[k] < 0 ? NULL : &p->expr[v->dim[k]];
      if (e && e->n == 2 && e->code[0] == PX_SYM && e->code[1] == sym) return true;
    }
  }
  return false;
}
