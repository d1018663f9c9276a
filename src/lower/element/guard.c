// guard.c -- guards: loads whose index may be out of range, and the value used instead.
//
// A guard binds a new index symbol that is in [0, extent) where the guard holds.  Where it does not
// hold nothing is read, and another value stands in: padding, or the next part of a concatenation.
//
// Needs:      each elem_guard is undone by elem_unguard before the builder leaves its scope.
// Guarantees: a guard's own value is in loop variables alone.  No guard is made where the range is
//             already proven.  NULL after LOOP_GUARDS guards.
#include "lower/element/element.h"

#include <math.h>

// A guard speaks of loop variables alone: where an index is already a guard's, of what that is.
static Dim without_guards(void *ctx, Dim sym) {
  const ElementBuilder *e = ctx;
  for (int i = 0; i < e->nguards; i++)
    if (e->guard[i].sym == sym) return e->guard[i].value;
  return sym;
}

Dim elem_unguarded(ElementBuilder *e, Dim index) {
  return e->nguards ? ie_map(e->pool, index, without_guards, e) : index;
}

const LoopExpr *elem_in_range(ElementBuilder *e, Dim value, Dim extent) {
  LoopKernel *k = e->k;
  value = elem_unguarded(e, value);
  const LoopExpr *v = loop_index(k, value), *yes = loop_int(k, DT_BOOL, 1), *lo = yes, *hi = yes;
  if (value->lo < 0) lo = loop_op(k, LOOP_le, loop_int(k, DT_I64, 0), v, NULL);
  if (ie_lt(e->pool, value, extent) != YES)
    hi = loop_op(k, LOOP_lt, v, loop_index(k, extent), NULL);
  return lo == yes ? hi : hi == yes ? lo : loop_op(k, LOOP_and, lo, hi, NULL);
}

Dim elem_guard(ElementBuilder *e, Dim value, Dim extent) {
  Dim plain = elem_unguarded(e, value);
  if (plain->lo >= 0 && ie_lt(e->pool, plain, extent) == YES) return value;
  return elem_named(e, plain, extent);
}

Dim elem_named(ElementBuilder *e, Dim value, Dim extent) {
  Dim plain = elem_unguarded(e, value);
  if (e->nguards == LOOP_GUARDS) return NULL;
  Dim sym = loop_sym(e->k, "g", extent);
  e->guard[e->nguards++] = (LoopBound){.sym = sym, .value = plain, .extent = extent};
  return sym;
}

void elem_unguard(ElementBuilder *e, int nguards) { e->nguards = nguards; }

const LoopExpr *elem_holds(ElementBuilder *e, int since) {
  const LoopExpr *all = loop_int(e->k, DT_BOOL, 1);
  for (int i = since; i < e->nguards; i++)
    all =
        loop_op(e->k, LOOP_and, all, elem_in_range(e, e->guard[i].value, e->guard[i].extent), NULL);
  return all;
}

// What a guarded load gives by itself: not -0, by which some models pad.
static bool is_zero(const LoopExpr *x) {
  if (x->kind != LX_CONST) return false;
  return dtype_is_float(x->dtype) ? x->f == 0 && !signbit(x->f) : x->i == 0;
}

bool type_is_empty(const Type *t) {
  for (int i = 0; t->kind == TK_TENSOR && i < t->rank; i++)
    if (ie_is(t->dims[i], 0)) return true;
  return false;
}

const LoopExpr *elem_guarded(ElementBuilder *e, int since, const LoopExpr *value,
                             const LoopExpr *other) {
  if (!value || !other || e->nguards == since) return value;
  // A load says by itself what stands where its guards do not hold.
  if (value->kind == LX_LOAD && value->nguards == e->nguards && !value->src[0]) {
    if (is_zero(other)) return value;
    return loop_load_guarded(e->k, value->buffer, value->index, value->nguards, value->guard,
                             other);
  }
  return loop_op(e->k, LOOP_select, elem_holds(e, since), value, other);
}

// A sum of multiples of symbols: what is known of its range can be proven again.
static bool is_plain_sum(Dim d) {
  if (d->kind == IE_CONST || d->kind == IE_SYM) return true;
  bool plain = d->kind == IE_SUM;
  for (int i = 0; plain && i < d->nterms; i++) {
    const IntTerm *t = &d->term[i];
    plain = t->natoms == 0 || (t->natoms == 1 && t->atom[0]->kind == IE_SYM);
  }
  return plain;
}

Dim elem_checked(ElementBuilder *e, const LoopExpr *index, Dim extent, const char *message) {
  if (index->kind == LX_INDEX && is_plain_sum(index->index) && index->index->lo >= 0 &&
      ie_lt(e->pool, index->index, extent) == YES)
    return index->index;
  if (e->nguards && extent->lo < 1) return NULL;
  // What stands where guards do not hold is element 0.
  if (e->nguards)
    index = loop_op(e->k, LOOP_select, elem_holds(e, 0), index, loop_int(e->k, DT_I64, 0));
  return loop_bind(&e->b, "j", index, extent, message);
}
