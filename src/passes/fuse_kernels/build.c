// build.c -- writes a body again with its groups as `fused` nodes.
//
// Each group becomes a body of its own: its members and the index maps they read through are made
// again over parameters, one for each value that comes from outside.  Small constants are copied
// into it, large ones are operands, so that kernels of one form differ only in their arguments.
// Groups are emitted operands first.
//
// Needs:      convex groups (fuse_kernels.c).
// Guarantees: types and names stay; nothing that the results do not need is emitted.
#include "ir/internal.h"
#include "passes/fuse_kernels/fuse_kernels.h"

#include <stdlib.h>

enum { INLINE_INTS = 64, INLINE_OTHERS = 16 };

typedef struct Kernel {
  Fuser *f;
  int32_t group;
  VEC(Node *) param;   // of the new body
  VEC(Node *) source;  // values of the old body that they stand for
} Kernel;

// ---- values of the new main body ----

static Node *const_of(Fuser *f, const Node *n) {
  const Value *v = n->known;
  return node_const(f->g, v->dtype, v->rank, v->dims, v->data, n->name);
}

static Node *main_value(Fuser *f, Node *n) {
  FuseNode *x = fuse_at(f, n);
  if (x->main) return x->main;
  switch ((FuseClass)x->op.cls) {
  case FC_FREE:
    if (n->op == OP_const || n == f->g->none)
      x->main = n;
    else
      x->main = n->known ? const_of(f, n) : fuse_shape_node(f, n);
    break;
  case FC_INPUT: x->main = n; break;
  case FC_PROJ:
    CHECK(fuse_at(f, n->src[0])->main, "%s is used before it is made", op_name(n->src[0]));
    x->main =
        node_proj(f->g, fuse_at(f, n->src[0])->main, (int)((const proj_attrs *)n->attrs)->index);
    break;
  default:
    CHECK(false, "%s '%s' is used before it is made (class %d)", op_name(n), n->name ? n->name : "",
          x->op.cls);
  }
  return x->main;
}

// ---- a kernel's body ----

static Node *add_param(Kernel *k, Node *value) {
  Fuser *f = k->f;
  Node *p = node_param(f->g, type_of(value), value->name);
  if (p == f->g->poison) return p;
  DType t = type_of(value)->dtype;
  if (value->op != OP_const && (dtype_is_int(t) || t == DT_BOOL)) {
    p->sym = value->sym;
    p->nsym = value->nsym;
  }
  vec_push(f->arena, &k->param, p);
  vec_push(f->arena, &k->source, value);
  return p;
}

static bool goes_along(const Node *n) {
  if (n->op != OP_const) return false;
  return n->data->n <= (dtype_is_float(type_of(n)->dtype) ? INLINE_OTHERS : INLINE_INTS);
}

static Node *clone(Kernel *k, Node *n);

static Node *clone_again(Kernel *k, Node *n) {
  Fuser *f = k->f;
  Node **src = arena_array(f->arena, Node *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = clone(k, n->src[i]);
  return node_new(f->g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name);
}

// The value inside the kernel.  Members were cloned before, in order; index maps are followed.
static Node *clone(Kernel *k, Node *n) {
  Fuser *f = k->f;
  FuseNode *x = fuse_at(f, n);
  if (n == f->g->none) return n;
  if (x->stamp == k->group) return x->clone;
  int32_t w = fuse_work(f, f->pos[n->id]);
  bool inside =
      f->n[w].op.cls == FC_INDEX_MAP || (f->n[w].parent >= 0 && fuse_find(f, w) == k->group);
  Node *r;
  if (x->op.cls == FC_FREE && n->op != OP_const && n->known)
    r = const_of(f, n);
  else if (goes_along(n))
    r = n;
  else if (!inside)
    r = add_param(k, n);
  else if (n->op == OP_proj)
    r = node_proj(f->g, clone(k, n->src[0]), (int)((const proj_attrs *)n->attrs)->index);
  else
    r = clone_again(k, n);
  x->stamp = k->group;
  x->clone = r;
  return r;
}

// ---- groups ----

typedef VEC(int32_t) Members;

static int by_position(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return x < y ? -1 : x > y;
}

static Members members_of(Fuser *f, int32_t group) {
  Members m = {0};
  for (int32_t i = f->group[group].head; i >= 0; i = f->n[i].next) vec_push(f->arena, &m, i);
  qsort(m.v, (size_t)m.n, sizeof *m.v, by_position);
  return m;
}

static FusedKind kind_of(Fuser *f, int32_t group, const Members *m) {
  const FuseGroup *g = &f->group[group];
  if (g->anchor >= 0) return (FusedKind)f->n[g->anchor].op.kind;
  bool view = true, moves = true;
  for (int64_t i = 0; i < m->n; i++) {
    const FuseNode *x = &f->n[m->v[i]];
    view &= x->joined || (x->op.cls == FC_INDEX_MAP && fuse_is_view(f, x->node));
    moves &= x->op.kind == FUSED_MOVEMENT;
  }
  return view ? FUSED_VIEW : moves ? FUSED_MOVEMENT : FUSED_POINTWISE;
}

// That of the anchor, else of the last node that has one.
static const char *name_of(Fuser *f, int32_t group, const Members *m) {
  int32_t anchor = f->group[group].anchor;
  const char *name = anchor >= 0 ? f->n[anchor].node->name : NULL;
  for (int64_t i = m->n; !name && i-- > 0;) name = f->n[m->v[i]].node->name;
  return name;
}

static void emit_kernel(Fuser *f, int32_t group) {
  Kernel k = {.f = f, .group = group};
  Members m = members_of(f, group), outs = {0};
  VEC(Node *) result = {0};
  for (int64_t i = 0; i < m.n; i++) clone(&k, f->n[m.v[i]].node);
  // Results in the order of their positions, projections after what they project.
  for (int64_t i = 0; i < m.n; i++) {
    if (f->n[m.v[i]].out && f->n[m.v[i]].node->nres == 1) vec_push(f->arena, &outs, m.v[i]);
    for (int32_t p = f->n[m.v[i]].projs; p >= 0; p = f->n[p].next)
      if (f->n[p].out) vec_push(f->arena, &outs, p);
  }
  for (int64_t i = 0; i < outs.n; i++) vec_push(f->arena, &result, clone(&k, f->n[outs.v[i]].node));
  CHECK(outs.n > 0, "kernel '%s' has no result", f->n[group].node->name);
  Body *b = body_new(f->g, NULL, k.param.n, k.param.v, result.n, result.v);
  Node **src = arena_array(f->arena, Node *, k.source.n);
  for (int64_t i = 0; i < k.source.n; i++) src[i] = main_value(f, k.source.v[i]);
  fused_attrs at = {.kind = kind_of(f, group, &m), .body = b};
  Node *n = node_new(f->g, OP_fused, (int)k.source.n, src, &at, (int)outs.n, name_of(f, group, &m));
  for (int64_t i = 0; i < outs.n; i++) {
    Node *v = node_proj(f->g, n, (int)i);
    if (v != n && v != f->g->poison) v->name = f->n[outs.v[i]].node->name;
    f->n[outs.v[i]].main = v;
  }
}

// Attributes with the bodies of control flow fused; kernels of an earlier pass stay as they are.
static tenon_status host_attrs(Fuser *f, const Node *n, const void **out) {
  const OpInfo *op = op_info(n->op);
  *out = n->attrs;
  for (int i = 0; n->op != OP_fused && i < op->nattrs; i++) {
    if (op->attrs[i].kind != ATTR_body) continue;
    const Body *b = *(const Body *const *)((const char *)n->attrs + op->attrs[i].offset);
    Body *nb;
    if (!b) continue;
    TRY(fuse_body(f->c, f->bodies, b, &nb));
    if (nb == b) continue;
    if (*out == n->attrs) *out = arena_dup(f->arena, n->attrs, op->attrs_size);
    *(const Body **)((char *)(uintptr_t)*out + op->attrs[i].offset) = nb;
  }
  return TENON_OK;
}

// A node that was made again keeps its types: sizes that depend on data were given new names, and
// what reads them knows the old ones.
static void keep_types(Node *made, const Node *n) {
  for (int i = 0; i < n->nres; i++) ((const Type **)made->type)[i] = n->type[i];
  made->sym = n->sym;
  made->nsym = n->nsym;
}

static tenon_status emit_host(Fuser *f, FuseNode *x) {
  const Node *n = x->node;
  const void *attrs;
  TRY(host_attrs(f, n, &attrs));
  bool same = attrs == n->attrs;
  Node **src = arena_array(f->arena, Node *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) {
    src[i] = main_value(f, n->src[i]);
    same &= src[i] == n->src[i];
  }
  int64_t before = f->g->node.n;
  x->main = same ? x->node : node_new(f->g, n->op, (int)n->nsrc, src, attrs, n->nres, n->name);
  TRY(graph_status(f->g));
  if (x->main->id >= before) keep_types(x->main, n);
  return TENON_OK;
}

// ---- order ----

// A group after all that it reads, without recursion.
static tenon_status emit(Fuser *f, int32_t root) {
  enum { NEW, OPEN, DONE };
  f->stack.n = 0;
  vec_push(f->arena, &f->stack, root);
  while (f->stack.n) {
    int32_t at = f->stack.v[f->stack.n - 1];
    FuseGroup *g = &f->group[at];
    if (g->state == NEW) {
      g->state = OPEN;
      for (int32_t d = g->deps; d >= 0; d = f->dep.v[d].next) {
        int32_t need = fuse_find(f, fuse_work(f, f->dep.v[d].value));
        CHECK(need == at || f->group[need].state != OPEN, "kernels wait for one another at '%s'",
              f->n[at].node->name ? f->n[at].node->name : "");
        if (f->group[need].state == NEW) vec_push(f->arena, &f->stack, need);
      }
      continue;
    }
    f->stack.n--;
    if (g->state == DONE) continue;
    g->state = DONE;
    if (g->host)
      TRY(emit_host(f, &f->n[at]));
    else
      emit_kernel(f, at);
    TRY(graph_status(f->g));
  }
  return TENON_OK;
}

tenon_status fuse_build(Fuser *f, Body **out) {
  const Body *b = f->body;
  for (int64_t i = 0; i < f->order.n; i++) f->n[i].projs = NO_GROUP;
  for (int64_t i = f->order.n - 1; i >= 0; i--)
    if (f->n[i].op.cls == FC_PROJ) {
      FuseNode *of = fuse_at(f, f->n[i].node->src[0]);
      f->n[i].next = of->projs;
      of->projs = (int32_t)i;
    }
  // By their first nodes, so that the order of the model is kept where it can be.
  for (int64_t i = 0; i < f->order.n; i++)
    if (f->n[i].parent >= 0) TRY(emit(f, fuse_find(f, (int32_t)i)));
  Node **result = arena_array(f->arena, Node *, b->nresults);
  bool same = true;
  for (int64_t i = 0; i < b->nresults; i++) {
    result[i] = main_value(f, b->result[i]);
    same &= result[i] == b->result[i];
  }
  *out = (Body *)(uintptr_t)b;
  if (same) return graph_status(f->g);
  *out = body_new(f->g, b->name, b->nparams, b->param, b->nresults, result);
  for (int64_t i = 0; i < b->nresults; i++) (*out)->result_name[i] = b->result_name[i];
  return graph_status(f->g);
}
