// survey.c -- what a loop's body computes with.
#include "loop/survey.h"

typedef struct Walk {
  const LoopKernel *k;
  LoopWidth *width;
  IntMap seen;  // expressions are a DAG
  LoopSurvey r;
} Walk;

bool loop_computes(const LoopExpr *x) {
  return x->kind == LX_OP && x->op != LOOP_select && x->op != LOOP_bit_cast;
}

static void walk_expr(Walk *w, const LoopExpr *x) {
  uint64_t known;
  if (!x || intmap_get(&w->seen, (uint64_t)(uintptr_t)x, &known)) return;
  intmap_put(&w->seen, (uint64_t)(uintptr_t)x, 1);
  w->r.nodes++;
  w->r.widest = MAX(w->r.widest, w->width(x));
  if (x->kind == LX_LOAD) w->r.tile |= w->k->buffer[x->buffer].space == LOOP_REGISTER;
  for (int i = 0; i < ARRAY_LEN(x->src); i++) walk_expr(w, x->src[i]);
}

static void walk_block(Walk *w, const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    walk_expr(w, s->value);
    if (s->kind == LS_STORE) w->r.tile |= w->k->buffer[s->buffer].space == LOOP_REGISTER;
    walk_block(w, &s->body);
    walk_block(w, &s->orelse);
  }
}

LoopSurvey loop_survey(const LoopKernel *k, Arena *a, const LoopStmt *s, LoopWidth *width) {
  Walk w = {.k = k, .width = width, .r = {.widest = 1}};
  intmap_init(&w.seen, a);
  walk_expr(&w, s->value);
  walk_block(&w, &s->body);
  return w.r;
}

static int64_t sum(int64_t a, int64_t b) {
  int64_t r;
  return ck_add(a, b, &r) ? r : INT64_MAX;
}

static int64_t count_expr(IntMap *seen, const LoopExpr *x) {
  uint64_t known;
  if (!x || intmap_get(seen, (uint64_t)(uintptr_t)x, &known)) return 0;
  intmap_put(seen, (uint64_t)(uintptr_t)x, 1);
  int64_t n = x->kind == LX_OP || x->kind == LX_LOAD;
  for (int i = 0; i < ARRAY_LEN(x->src); i++) n += count_expr(seen, x->src[i]);
  return n;
}

static int64_t count_block(IntMap *seen, const LoopBlock *b) {
  int64_t n = 0;
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    int64_t body = sum(count_block(seen, &s->body), count_block(seen, &s->orelse)), all;
    body = sum(body, count_expr(seen, s->value));
    bool unrolled = s->kind == LS_FOR && s->loop == LOOP_UNROLL && ie_is_const(s->extent);
    if (unrolled) body = ck_mul(body, MAX(s->extent->value, 1), &all) ? all : INT64_MAX;
    n = sum(n, sum(body, 1));
  }
  return n;
}

int64_t loop_statements(const LoopKernel *k) {
  IntMap seen;
  Arena a;
  arena_init_scoped(&a);
  intmap_init(&seen, &a);
  int64_t n = count_block(&seen, &k->body);
  arena_deinit(&a);
  return n;
}
