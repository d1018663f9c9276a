// shape.c -- shapes as a function of the body's parameters.
//
// Exporters compute a shape from whatever tensor is at hand.  If that tensor is inside a kernel,
// the kernel could not read the shape: it would wait for itself.  So contents known as expressions
// over sizes are made again from the sizes of the parameters, which are there before anything runs.
//
// Needs:      Node.sym.
// Guarantees: the same numbers; a symbol that no parameter's dimension names is left alone.
#include "eval/movement.h"
#include "eval/scalar.h"
#include "passes/fuse_kernels/fuse_kernels.h"

void fuse_find_symbols(Fuser *f) {
  f->nsyms = f->g->dims.nsyms;
  f->sym = arena_array(f->arena, SymSource, f->nsyms);
  for (int64_t i = 0; i < f->body->nparams; i++) {
    const Type *t = type_of(f->body->param[i]);
    for (int k = 0; t->kind == TK_TENSOR && k < t->rank; k++) {
      Dim d = t->dims[k];
      if (d->kind != IE_SYM || d->slot >= f->nsyms || f->sym[d->slot].param) continue;
      f->sym[d->slot] = (SymSource){f->body->param[i], k};
    }
  }
}

static bool can_make(const Fuser *f, Dim d) {
  switch ((IntExprKind)d->kind) {
  case IE_CONST: return true;
  case IE_SYM: return d->slot < f->nsyms && f->sym[d->slot].param;
  case IE_SUM:
    for (int i = 0; i < d->nterms; i++)
      for (int k = 0; k < d->term[i].natoms; k++)
        if (!can_make(f, d->term[i].atom[k])) return false;
    return true;
  case IE_DIV:
  case IE_MOD:
  case IE_MIN:
  case IE_MAX: return can_make(f, d->a) && can_make(f, d->b);
  default: return false;
  }
}

bool fuse_is_sized(Fuser *f, const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (!can_make(f, t->dims[i])) return false;
  return true;
}

bool fuse_is_shape(Fuser *f, const Node *n) {
  const Type *t = type_of(n);
  if (!n->sym || n->nres != 1 || t->kind != TK_TENSOR || !type_is_static(t) || !n->nsym)
    return false;
  for (int64_t i = 0; i < n->nsym; i++)
    if (!can_make(f, n->sym[i])) return false;
  return true;
}

static Node *make(Fuser *f, Dim d);

static Node *make_sum(Fuser *f, Dim d) {
  Graph *g = f->g;
  Node *sum = NULL;
  for (int i = 0; i < d->nterms; i++) {
    const IntTerm *t = &d->term[i];
    Node *x = t->coef != 1 || !t->natoms ? node_i64s(g, 1, &t->coef) : NULL;
    for (int k = 0; k < t->natoms; k++) {
      Node *a = make(f, t->atom[k]);
      x = x ? N(g, mul, x, a) : a;
    }
    sum = sum ? N(g, add, sum, x) : x;
  }
  int64_t zero = 0;
  return sum ? sum : node_i64s(g, 1, &zero);
}

// One expression as i64[1].
static Node *make(Fuser *f, Dim d) {
  Graph *g = f->g;
  switch ((IntExprKind)d->kind) {
  case IE_CONST: return node_i64s(g, 1, &d->value);
  case IE_SYM: {
    const SymSource *s = &f->sym[d->slot];
    shape_attrs at = {.start = s->dim, .end = s->dim + 1};
    return NA(g, shape, &at, s->param);
  }
  case IE_DIV: {  // rounded down, where the op's division rounds to zero
    Node *a = make(f, d->a), *b = make(f, d->b);
    return N(g, div, N(g, sub, a, N(g, mod, a, b)), b);
  }
  case IE_MOD: return N(g, mod, make(f, d->a), make(f, d->b));
  case IE_MIN: return N(g, min, make(f, d->a), make(f, d->b));
  case IE_MAX: return N(g, max, make(f, d->a), make(f, d->b));
  default: return make_sum(f, d);
  }
}

Node *fuse_shape_node(Fuser *f, const Node *n) {
  Graph *g = f->g;
  const Type *t = type_of(n);
  Node **part = arena_array(f->arena, Node *, n->nsym);
  for (int64_t i = 0; i < n->nsym; i++) part[i] = make(f, n->sym[i]);
  Node *r = part[0];
  if (n->nsym > 1)
    r = node_new(g, OP_concat, (int)n->nsym, part, &(concat_attrs){.axis = 0}, 0, n->name);
  if (t->rank != 1) {
    int64_t dims[MAX_RANK];
    for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
    r = N(g, reshape, r, node_i64s(g, t->rank, dims));
  }
  cast_attrs to = {.to = t->dtype, .saturate = true};
  if (t->dtype != DT_I64) r = NA(g, cast, &to, r);
  if (r != g->poison && !r->sym) {  // what was known stays known
    r->sym = n->sym;
    r->nsym = n->nsym;
  }
  return r;
}
