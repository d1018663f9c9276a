// equal_sizes.c -- run-time checks for sizes that must be equal but have two names.
//
// Operands of a matrix product may name their inner sizes differently.  Inference notes which sizes
// an op requires to be equal (ir/infer.c) and cannot decide.  The step checks them before it reads
// anything, and the kernel is rebuilt with one name for both, so that its loops can be proven.
//
// Needs:      the `fused` node of the step; symbols have their values when the step runs.
// Guarantees: a step relies on its own checks alone, in any order of steps.  The rebuilt kernel is
//             no part of the graph.  Contradicting sizes leave the kernel as it was, and the
//             evaluation reports them.
#include "lower/program/builder.h"

#include "ir/internal.h"
#include "ir/opinfo.h"
#include "loop/prove.h"

// ---- what stands for a symbol ----

static Dim stands_for(void *ctx, Dim sym) {
  const SameSizes *s = ctx;
  for (int64_t i = 0; i < s->sub.n; i++)
    if (s->sub.v[i].sym == sym) return s->sub.v[i].to;
  return sym;
}

static Dim settled(FuncBuilder *f, Dim d) {
  return f->same.sub.n ? ie_map(&f->b->g->dims, d, stands_for, &f->same) : d;
}

// A symbol that counts once in what must be 0, and what it then is.
static bool solve(IntPool *p, Dim zero, Dim *sym, Dim *to) {
  for (int i = zero->nterms - 1; i >= 0; i--) {
    const IntTerm *t = &zero->term[i];
    Dim c, r;
    if (t->natoms != 1 || t->atom[0]->kind != IE_SYM || (t->coef != 1 && t->coef != -1)) continue;
    if (!dim_split(p, zero, t->atom[0], &c, &r) || !ie_is_const(c) || dim_has(r, t->atom[0]))
      continue;
    *sym = t->atom[0];
    *to = ie_mulc(p, r, -t->coef);
    if (!ie_is_poison(*to)) return true;
  }
  return false;
}

static void replace(FuncBuilder *f, Dim sym, Dim to) {
  SameSizes one = {0};
  vec_push(f->b->a, &one.sub, ((SameSub){sym, to}));
  for (int64_t i = 0; i < f->same.sub.n; i++)
    f->same.sub.v[i].to = ie_map(&f->b->g->dims, f->same.sub.v[i].to, stands_for, &one);
  vec_push(f->b->a, &f->same.sub, one.sub.v[0]);
}

// ---- what must be equal in a kernel ----

static bool has_symbols(const Node *n) {
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (type_of(n->src[i])->kind == TK_TENSOR && !type_is_static(type_of(n->src[i]))) return true;
  return false;
}

static tenon_status ask_node(FuncBuilder *f, const Node *n, SameDims *out) {
  Graph *g = f->b->g;
  Diag quiet;
  const OpInfo *op = op_info(n->op);
  if (!op->infer || n->op == OP_foreign || n->op == OP_fused || !has_symbols(n)) return TENON_OK;
  diag_init(&quiet);
  Infer in = infer_of(g, n, arena_array(f->b->a, const Type *, n->nres),
                      (Where){.node = n->name, .op = op->name}, &quiet);
  g->same = out;
  tenon_status s = op->infer(&in);
  g->same = NULL;
  return s;
}

static void ask(FuncBuilder *f, const Node *n, SameDims *out) {
  if (n->op != OP_fused) {
    if (ask_node(f, n, out)) out->v.n = 0;  // the evaluation says what is wrong
    return;
  }
  NodeList all = body_order(f->b->g, ((const fused_attrs *)n->attrs)->body, f->b->a);
  for (int64_t i = 0; i < all.n; i++)
    if (ask_node(f, all.v[i], out)) return;
}

// ---- the kernel with one name for each size ----

static const Type *settled_type(FuncBuilder *f, const Type *t) {
  Dim dims[MAX_RANK];
  if (t->kind != TK_TENSOR || t->rank < 0) return t;
  for (int i = 0; i < t->rank; i++) dims[i] = settled(f, t->dims[i]);
  return type_tensor(f->b->g, t->dtype, t->rank, dims);
}

static Node *settled_param(FuncBuilder *f, const Node *p, bool *changed) {
  const Type *t = settled_type(f, type_of(p));
  Node *n = node_param(f->b->g, t, p->name);
  *changed |= t != type_of(p);
  if (!p->sym || n == f->b->g->poison) return n;
  Dim *sym = arena_array(&f->b->g->arena, Dim, MAX(p->nsym, 1));
  for (int64_t i = 0; i < p->nsym; i++) sym[i] = settled(f, p->sym[i]);
  n->sym = sym;
  n->nsym = p->nsym;
  return n;
}

static Node *made_again(FuncBuilder *f, const IntMap *to, Node *n) {
  Graph *g = f->b->g;
  uint64_t at;
  if (intmap_get(to, n->id, &at)) return (Node *)(uintptr_t)at;
  if (n->op == OP_const || n == g->none || n->op == OP_param) return n;
  Node **src = arena_array(f->b->a, Node *, MAX(n->nsrc, 1));
  for (uint32_t i = 0; i < n->nsrc; i++) {
    src[i] = n->src[i];
    if (intmap_get(to, n->src[i]->id, &at)) src[i] = (Node *)(uintptr_t)at;
  }
  if (n->op == OP_proj) return node_proj(g, src[0], (int)((const proj_attrs *)n->attrs)->index);
  return node_new(g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name);
}

static Node *rebuild(FuncBuilder *f, const Node *n) {
  Graph *g = f->b->g;
  const fused_attrs *at = n->attrs;
  const Body *body = at->body;
  IntMap to;
  bool changed = false;
  intmap_init(&to, f->b->a);
  Node **param = arena_array(f->b->a, Node *, MAX(body->nparams, 1));
  Node **result = arena_array(f->b->a, Node *, MAX(body->nresults, 1));
  for (int64_t i = 0; i < body->nparams; i++) {
    param[i] = settled_param(f, body->param[i], &changed);
    intmap_put(&to, body->param[i]->id, (uint64_t)(uintptr_t)param[i]);
  }
  if (!changed) return NULL;
  NodeList all = body_order(g, body, f->b->a);
  for (int64_t i = 0; i < all.n; i++)
    intmap_put(&to, all.v[i]->id, (uint64_t)(uintptr_t)made_again(f, &to, all.v[i]));
  for (int64_t i = 0; i < body->nresults; i++) result[i] = made_again(f, &to, body->result[i]);
  if (graph_status(g)) return NULL;
  fused_attrs mine = *at;
  mine.body = body_new(g, body->name, body->nparams, param, body->nresults, result);
  if (g->body.n) g->body.n--;  // no part of the graph
  Node *r = node_new(g, OP_fused, (int)n->nsrc, n->src, &mine, n->nres, n->name);
  return graph_status(g) ? NULL : r;
}

// What the step must check; f->same has what then stands for what.
static void find_checks(FuncBuilder *f, const Node *n, SameDims *checks) {
  Graph *g = f->b->g;
  SameDims all = {.arena = f->b->a};
  f->same = (SameSizes){0};
  ask(f, n, &all);
  for (int64_t i = 0; i < all.v.n; i++) {
    SameDim *s = &all.v.v[i];
    Dim sym, to, zero = ie_sub(&g->dims, settled(f, s->a), settled(f, s->b));
    if (ie_is(zero, 0) || ie_is_poison(zero) || !size_bound(f, s->a) || !size_bound(f, s->b))
      continue;
    vec_push(f->b->a, &checks->v, *s);
    if (solve(&g->dims, zero, &sym, &to)) replace(f, sym, to);
  }
}

void same_checked(FuncBuilder *f, const Node *n, ProgStep *st) {
  SameDims checks = {.arena = f->b->a};
  find_checks(f, n, &checks);
  build_checks(f, &checks, st);
}

const Node *same_sizes(FuncBuilder *f, const Node *n, SameDims *checks) {
  Graph *g = f->b->g;
  find_checks(f, n, checks);
  if (!f->same.sub.n) return n;
  Diag quiet, *was = g->diag;
  diag_init(&quiet);
  g->diag = &quiet;
  const Node *r = rebuild(f, n);
  g->diag = was;
  g->status = TENON_OK;  // sizes that contradict each other: the evaluation says so
  return r ? r : n;
}
