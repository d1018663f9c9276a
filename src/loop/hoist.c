// hoist.c -- what is the same in all rounds of an unrolled loop, before it.
//
// Templates write what an element needs where it is asked for: a row's index that comes from data
// is then read and checked for each of its elements.  Statements that a body begins with, and that
// neither its loop's variable nor anything the kernel writes goes into, move in front of the loop,
// which has rounds.
#include "loop/loop.h"
#include "loop/prove.h"

static bool steady(const LoopKernel *k, const LoopExpr *x, Dim sym) {
  if (!x) return true;
  if (x->kind == LX_LOAD &&
      (k->buffer[x->buffer].space != LOOP_ARG || k->buffer[x->buffer].written))
    return false;
  if (x->index && dim_has(x->index, sym)) return false;
  for (int i = 0; i < x->nguards; i++)
    if (dim_has(x->guard[i].value, sym) || dim_has(x->guard[i].extent, sym)) return false;
  for (int i = 0; i < ARRAY_LEN(x->src); i++)
    if (!steady(k, x->src[i], sym)) return false;
  return true;
}

static bool may_leave(const LoopKernel *k, const LoopStmt *s, Dim sym) {
  if (s->kind != LS_LET && s->kind != LS_BIND) return false;
  return s->value->size <= LOOP_HOIST_MOST && steady(k, s->value, sym) &&
         (s->kind == LS_LET || !dim_has(s->extent, sym));
}

static void hoist_block(const LoopKernel *k, LoopBlock *b) {
  VEC(LoopStmt *) all = {0};
  for (int64_t i = 0; i < b->n; i++) {
    LoopStmt *s = b->v[i];
    hoist_block(k, &s->body);
    hoist_block(k, &s->orelse);
    bool rounds = s->kind == LS_FOR && s->loop == LOOP_UNROLL && ie_is_const(s->extent) &&
                  s->extent->value > 0;
    while (rounds && s->body.n > 1 && may_leave(k, s->body.v[0], s->sym)) {
      vec_push(k->arena, &all, s->body.v[0]);
      s->body = (LoopBlock){s->body.n - 1, s->body.v + 1};
    }
    vec_push(k->arena, &all, s);
  }
  *b = (LoopBlock){all.n, all.v};
}

void loop_hoist(LoopKernel *k) { hoist_block(k, &k->body); }
