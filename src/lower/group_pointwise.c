// group_pointwise.c -- kernels without an anchor on groups of threads: a thread for each element, or for a few.
//
// Elements are counted through; neighbours go to neighbouring threads, so that what they read and write lies together.
#include "lower/group_loops.h"

enum { MANY = 1 << 18, EACH = 4 };  // elements from which on a thread does several

static bool store_element(Elem *e, int rank, const Dim *shape, Dim at, bool flat) {
  Dim index[MAX_RANK];
  const LoopExpr **x = arena_array(e->a, const LoopExpr *, MAX(e->fused->nres, 1));
  for (int i = 0; i < MAX_RANK; i++) index[i] = e->pool->zero;
  e->flat = flat ? at : NULL;
  if (!flat) elem_split(e, at, rank, shape, index);
  for (int i = 0; i < e->fused->nres; i++)
    if (!(x[i] = elem_at(e, e->body->result[i], index))) return false;
  for (int i = 0; i < e->fused->nres; i++) loop_store(&e->b, elem_result(e, i), at, x[i]);
  return true;
}

tenon_status lower_group_pointwise(Lowering *lo, const Node *fused, Lowered *out) {
  Elem e;
  const Type *t = fused->type[0];
  Dim shape[MAX_RANK], all;
  if (fused->nres < 1) return TENON_EUNSUPPORTED;
  for (int i = 0; i < fused->nres; i++)
    if (elem_never(fused->type[i]) || !type_same_dims(t, fused->type[i])) return TENON_EUNSUPPORTED;
  if (!elem_begin(&e, lo, fused, NULL, 0)) return TENON_EUNSUPPORTED;
  IntPool *p = e.pool;
  elem_shape(&e, t, shape);
  all = p->one;
  for (int i = 0; i < t->rank; i++) all = ie_mul(p, all, shape[i]);
  int64_t threads = lo->target.group, each = ie_is_const(all) && all->value < MANY ? 1 : EACH;
  loop_begin(&e.b, e.k);
  Dim item = loop_for(&e.b, LOOP_PARALLEL, "item", ie_ceildiv(p, all, ie_const(p, threads * each)));
  Dim at = ie_add(p, ie_mulc(p, item, threads * each), group_threads(&e));
  int depth = 0;
  if (each > 1) {
    Dim j = loop_for(&e.b, LOOP_UNROLL, "j", ie_const(p, each));
    at = ie_add(p, at, ie_mulc(p, j, threads));
    depth++;
  }
  at = group_inside(&e, at, all, &depth);
  if (!store_element(&e, t->rank, shape, at, pointwise_is_flat(&e))) return TENON_EUNSUPPORTED;
  group_close(&e, depth + 2);
  elem_finish(&e, str_printf(lo->arena, "group pointwise %dx%d", (int)threads, (int)each), out);
  return TENON_OK;
}
