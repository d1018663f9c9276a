// match.c -- does a pattern fit a node, and what does a pattern build.
#include "ir/internal.h"
#include "ir/rule.h"

#include <math.h>

bool pat_is_const(const Match *m, const Node *n) {
  (void)m;
  return n->op == OP_const;
}

bool same_type(const Node *x, const Node *y) { return type_of(x) == type_of(y); }

enum {
  SPLAT_MAX = 65536
};  // a larger constant is not looked at: weights are never read for a rule

bool node_splat(Graph *g, const Node *n, double *out) {
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR ||
      (!dtype_is_float(t->dtype) && !dtype_is_int(t->dtype) && t->dtype != DT_BOOL))
    return false;
  const Value *v = node_known(g, n);
  if (!v || v->n < 1 || v->n > SPLAT_MAX) return false;
  double x = val_f64(v, 0);
  for (int64_t i = 1; i < v->n; i++)
    if (val_f64(v, i) != x) return false;
  *out = x;
  return true;
}

bool node_is_zero(Graph *g, const Node *n) {
  double x;
  const void *bytes;
  if (node_splat(g, n, &x)) return x == 0;
  if (n->op != OP_const || !dtype_is_float(type_of(n)->dtype)) return false;
  Diag *quiet = arena_new(&g->scratch, Diag);
  diag_init(quiet);
  if (const_bytes(g, n, &bytes, quiet)) return false;
  for (int64_t i = 0; i < n->data->n; i++)
    if (get_f64(type_of(n)->dtype, bytes, i) != 0) return false;
  return true;
}

static bool num_fits(const Pat *p, const Match *m, const Node *n) {
  double x;
  if (n->op != OP_const || !node_splat(m->g, n, &x)) return false;
  return x == p->num ? !(x == 0 && signbit(x) != signbit(p->num))
                     : p->near > 0 && fabs(x - p->num) <= p->near * fabs(p->num);
}

bool pat_match(const Pat *p, Node *n, Match *m);

static bool match_operands(const Pat *p, Node *n, Match *m) {
  bool swaps = (op_info(p->op)->flags & OPF_COMMUTES) && p->nsrc == 2;
  for (int swap = 0; swap <= swaps; swap++) {
    Match t = *m;
    bool ok = true;
    for (int i = 0; ok && i < p->nsrc; i++) ok = pat_match(p->src[i], n->src[i ^ swap], &t);
    if (ok) {
      *m = t;
      return true;
    }
  }
  return false;
}

bool pat_match(const Pat *p, Node *n, Match *m) {
  if (p->kind == PAT_NUM) return num_fits(p, m, n);
  if (p->is && !p->is(m, n)) return false;
  if (p->kind == PAT_OP) {
    bool any = p->nsrc == PAT_ANY_SRCS;
    if (n->op != p->op || (!any && n->nsrc != p->nsrc)) return false;
    if (p->once && n != m->root && !match_once(m, n)) return false;
    if (!any && !match_operands(p, n, m)) return false;
  }
  if (p->slot == PAT_NO_SLOT) return true;
  if (m->var[p->slot]) return m->var[p->slot] == n;  // the same letter, the same node
  m->var[p->slot] = n;
  return true;
}

// A number takes the type of what stands beside it: the first operand that is not a number.
static Node *build(Graph *g, const Pat *p, const Match *m, DType like) {
  if (p->kind == PAT_NUM) return node_scalar(g, like, p->num);
  if (p->kind == PAT_VAR) return m->var[p->slot];
  Node *src[PAT_SRCS] = {NULL};
  DType t = like;
  for (int i = 0; i < p->nsrc; i++)
    if (p->src[i]->kind != PAT_NUM) {
      src[i] = build(g, p->src[i], m, like);
      if (src[i] == g->poison) return src[i];
      t = type_of(src[i])->dtype;
    }
  for (int i = 0; i < p->nsrc; i++)
    if (!src[i]) src[i] = build(g, p->src[i], m, t);
  // The root's attributes go over to a right side with the same op.
  const void *attrs = p->op == m->root->op ? m->root->attrs : NULL;
  return node_new(g, p->op, p->nsrc, src, attrs, 1, m->root->name);
}

Node *pat_build(Graph *g, const Pat *p, const Match *m) {
  return build(g, p, m, type_of(m->root)->dtype);
}
