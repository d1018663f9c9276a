// per_node.c -- compares a compiled model with the reference, step by step (per_node.h).
#include "cli/run/per_node.h"

static uint64_t key(const ValueOrigin *o) {
  return (uint64_t)o->node->id << 16 | (uint64_t)o->result;
}

// A copy: the original's memory is used again by later steps.
static tenon_status keep(void *ctx, const ProgStep *st, int32_t value, const Value *v) {
  PerNode *p = ctx;
  const ValueOrigin *o = &p->origin[value];
  Value *copy;
  (void)st;
  if (!o->node || v->kind != VK_TENSOR) return TENON_OK;
  TRY(value_tensor(p->run, NOWHERE, v->dtype, v->rank, v->dims, &copy));
  copy_elems(v->dtype, copy->data, 0, v->data, 0, v->n);
  intmap_put(&p->kept, key(o), (uint64_t)(uintptr_t)copy);
  return TENON_OK;
}

static tenon_status compare(void *ctx, const ProgStep *st, int32_t value, const Value *v) {
  PerNode *p = ctx;
  const ValueOrigin *o = &p->tested[value];
  uint64_t kept;
  if (!o->node || v->kind != VK_TENSOR || !intmap_get(&p->kept, key(o), &kept)) return TENON_OK;
  const Value *want = (const Value *)(uintptr_t)kept;
  Comparison c = {.arena = p->arena, .given = p->given, .scaled = true};
  bool same = values_match(&c, v, want);
  p->ncompared++;
  if (c.max_abs > p->max_abs) p->max_abs = c.max_abs;
  if (same || p->why) return TENON_OK;
  Tolerance t = p->given ? *p->given : tolerance_scaled(want);
  p->why = str_printf(p->arena,
                      "%s '%s' (%s), result %d: %s; the largest error is %.6g, the bound %g + %g * "
                      "|expected|",
                      st->kind == STEP_KERNEL ? "kernel" : "step", st->node ? st->node : "-",
                      st->op ? st->op : "-", o->result, c.why, c.max_abs, t.atol, t.rtol);
  return TENON_OK;
}

tenon_status per_node_start(PerNode *p, Graph *g, const MemPlan *plan, const Compiled *tested,
                            Value *const *inputs, SessionOptions *so) {
  Diag *d = p->run->diag;
  intmap_init(&p->kept, p->arena);
  p->tested = tested->origin;
  so->observe = compare;
  so->observe_ctx = p;
  CompileOptions host;
  CompileReport made = {.done = COMPILE_PLAN, .plan = (MemPlan *)(uintptr_t)plan};
  compile_defaults(&host);
  host.target = target_find("host");
  TRY(compile_graph(g, &host, COMPILE_BUILD, p->arena, d, &made));
  p->program = made.program;
  p->origin = made.compiled.origin;
  SessionOptions o = {.threads = so->threads, .observe = keep, .observe_ctx = p};
  TRY(session_create(p->program, &o, d, &p->session));
  Value **out = arena_array(p->arena, Value *, p->program->function[0]->nresults + 1);
  return session_run(p->session, p->run, inputs, NULL, out);
}

void per_node_end(PerNode *p) {
  session_free(p->session);
  program_release(p->program);
}
