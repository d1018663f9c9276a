// compiled.c -- a compiled model where a model's graph is wanted: its inputs and the names of its
// outputs.
#include "api/model.h"

// Postfix code back to an expression; NULL where it is none.
static Dim dim_of(const Program *p, Graph *g, int32_t expr) {
  Dim stack[PX_STACK];
  int top = 0;
  if (expr < 0) return NULL;
  const ProgExpr *e = &p->expr[expr];
  for (int32_t i = 0; i < e->n; i++) {
    IntPool *pool = &g->dims;
    int64_t op = e->code[i];
    if (op == PX_CONST) {
      stack[top++] = ie_const(pool, e->code[++i]);
      continue;
    }
    if (op == PX_SYM) {
      const ProgSym *s = &p->sym[e->code[++i]];
      stack[top++] = ie_sym(pool, str_of(s->name), s->lo, s->hi);
      continue;
    }
    Dim b = stack[--top], a = stack[top - 1], r = NULL;
    switch ((ProgOp)op) {
    case PX_ADD: r = ie_add(pool, a, b); break;
    case PX_MUL: r = ie_mul(pool, a, b); break;
    case PX_DIV: r = ie_div(pool, a, b); break;
    case PX_MOD: r = ie_mod(pool, a, b); break;
    case PX_MIN: r = ie_min(pool, a, b); break;
    case PX_MAX: r = ie_max(pool, a, b); break;
    case PX_BCAST: r = ie_bcast(pool, a, b); break;
    case PX_CONST:
    case PX_SYM:
    case PX_OPS: break;
    }
    stack[top - 1] = r;
  }
  return stack[0];
}

static const Type *tensor_type(const Program *p, Graph *g, const ProgValue *v) {
  Dim dims[MAX_RANK];
  if (v->rank < 0) return type_unranked(g, v->dtype);
  for (int i = 0; i < v->rank; i++)
    if (!(dims[i] = dim_of(p, g, v->dim[i]))) dims[i] = ie_fresh(&g->dims, "size");
  return type_tensor(g, v->dtype, v->rank, dims);
}

static const Type *type_of_value(const Program *p, Graph *g, const ProgValue *v) {
  const Type *item = type_unranked(g, v->dtype);
  if (v->item == VK_SEQUENCE) item = type_sequence(g, item);
  switch ((ValueKind)v->kind) {
  case VK_TENSOR: break;
  case VK_SEQUENCE: return type_sequence(g, item);
  case VK_OPTIONAL: return type_optional(g, item);
  case VK_MAP: return type_map(g, DT_I64, item);
  }
  return tensor_type(p, g, v);
}

static void build(const Program *p, Graph *g) {
  const ProgFunction *f = p->function[0];
  Node **param = arena_array(&g->arena, Node *, f->nparams + 1);
  Node **result = arena_array(&g->arena, Node *, f->nresults + 1);
  for (int32_t i = 0; i < f->nparams; i++) {
    const ProgValue *v = &f->value[f->param[i]];
    param[i] = node_param(g, type_of_value(p, g, v), v->name);
  }
  for (int32_t i = 0; i < f->nresults; i++) result[i] = node_i64(g, 0);
  g->main = body_new(g, f->name, f->nparams, param, f->nresults, result);
  for (int32_t i = 0; i < f->nresults; i++)
    if (f->result_name[i]) g->main->result_name[i] = str_copy(&g->arena, str_of(f->result_name[i]));
}

tenon_status graph_of_program(const Program *p, Diag *d, Graph **out) {
  TRY(graph_create(d, out));
  build(p, *out);
  return graph_status(*out);
}
