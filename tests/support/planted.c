// planted.c -- faults of templates (planted.h).
#include "planted.h"

static LoopStmt *first_store(const LoopKernel *k, const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++) {
    LoopStmt *s = b->v[i];
    if (s->kind == LS_STORE && k->buffer[s->buffer].written) return s;
    if ((s = first_store(k, &b->v[i]->body))) return s;
    if ((s = first_store(k, &b->v[i]->orelse))) return s;
  }
  return NULL;
}

// More work at the end of each work item: functions of scratch that nothing reads, written out.
static void add_work(LoopKernel *k, int64_t n) {
  LoopBlock *items = &k->body.v[0]->body;
  LoopBuilder b;
  int32_t scratch = loop_buffer(k, LOOP_SCRATCH, "planted", DT_F32, ie_const(k->pool, n), false);
  loop_begin(&b, k);
  Dim i = loop_for(&b, LOOP_UNROLL, "p", ie_const(k->pool, n));
  loop_store(&b, scratch, i, loop_op(k, LOOP_exp, loop_load(k, scratch, i), NULL, NULL));
  loop_end(&b);
  LoopStmt **v = arena_array(k->arena, LoopStmt *, items->n + 1);
  for (int64_t j = 0; j < items->n; j++) v[j] = items->v[j];
  v[items->n] = b.stmt.v[0];
  *items = (LoopBlock){.v = v, .n = items->n + 1};
}

void planted_fault(void *planted, const char *template_name, LoopKernel *k) {
  Planted *p = planted;
  if (!str_glob(p->template_name, template_name)) return;
  LoopStmt *s = first_store(k, &k->body);
  if (p->kind == PLANT_UNPROVEN && (!s || ie_is(k->buffer[s->buffer].size, 0))) {
    p->nowhere++;
    return;
  }
  p->hits++;
  switch (p->kind) {
  case PLANT_UNPROVEN: s->index = ie_add(k->pool, s->index, k->buffer[s->buffer].size); break;
  case PLANT_DEFECT: trap_raise(TENON_EINTERNAL, "a planted defect");
  case PLANT_NO_CODE:
    loop_buffer(k, LOOP_SCRATCH, "planted", DT_U8, ie_const(k->pool, INT32_MAX), false);
    break;
  case PLANT_LARGE: add_work(k, 1 << 15); break;
  case PLANT_KINDS: break;
  }
}
