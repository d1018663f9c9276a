// kernel_names.c -- what kernels are called, and which of them a pattern means.
//
// A kernel is called after its node, which has the name of its anchor: the contraction, reduction
// or attention that it is made for.  `--schedule` and `explain --kernel` find it by the name of any
// other node in it too.
//
// Needs:      nodes that keep the model's names through all passes (Graph.origin).
// Guarantees: the labels of one program differ; a pattern that is a kernel's label means that
//             kernel alone.
#include "lower/program/builder.h"
#include "lower/schedule.h"
#include "lower/tuned.h"

static const Body *body_of(const Node *n) {
  return n->op == OP_fused ? ((const fused_attrs *)n->attrs)->body : NULL;
}

const char *kernel_label(ProgBuilder *b, const Node *n) {
  const Body *body = body_of(n);
  const char *name = n->name ? n->name : op_info(body ? body->result[0]->op : n->op)->name;
  intptr_t have = (intptr_t)strmap_get(&b->labels, str_of(name)) + 1;
  strmap_put(&b->labels, str_of(name), (void *)have);
  if (have == 1) return str_copy(b->a, str_of(name));  // it may outlive the graph
  return str_printf(b->a, "%s#%lld", name, (long long)have);
}

KernelFit kernel_fit(Graph *g, const Node *n, const char *label, const char *glob, Arena *a) {
  const char *rows = strrchr(label, '@');  // of a row bucket
  if (str_glob(glob, label)) return FIT_LABEL;
  if (rows && str_glob(glob, str_copy(a, (Str){label, rows - label}))) return FIT_LABEL;
  if (n->name && str_glob(glob, n->name)) return FIT_NODE;
  const Body *body = body_of(n);
  if (!body) return FIT_NONE;
  NodeList inner = body_order(g, body, a);
  for (int64_t i = 0; i < inner.n; i++)
    if (inner.v[i]->op != OP_param && inner.v[i]->op != OP_const && inner.v[i]->name &&
        str_glob(glob, inner.v[i]->name))
      return FIT_NODE;
  return FIT_NONE;
}

// ---- schedules that are asked for ----

// What a rule's pattern has to do with a kernel.  One that is the name of a kernel means that
// kernel, and no other that has a node of this name: "x" is not "x#2".
static KernelFit rule_fit(ProgBuilder *b, const Node *n, const char *label, const char *glob) {
  KernelFit fit = kernel_fit(b->g, n, label, glob, b->a);
  return fit == FIT_NODE && strmap_has(&b->kernel_names, str_of(glob)) ? FIT_NONE : fit;
}

ScheduleRule *find_schedule(ProgBuilder *b, const Node *n, const char *label) {
  for (KernelFit want = FIT_LABEL; want > FIT_NONE; want--)
    for (int64_t i = b->rule.n; i-- > 0;)
      if (rule_fit(b, n, label, b->rule.v[i].glob) == want) return &b->rule.v[i];
  return NULL;
}

tenon_status read_schedules(ProgBuilder *b) {
  for (int64_t i = 0; i < b->o->nschedules; i++) {
    ScheduleRule rule;
    TRY(schedule_rule_parse(b->a, b->o->schedule[i], b->diag, &rule));
    vec_push(b->a, &b->rule, rule);
  }
  strmap_init(&b->kernel_names, b->a);
  for (int64_t i = 0; b->rule.n && i < b->g->node.n; i++) {
    const Node *n = b->g->node.v[i];
    if (n->op == OP_fused && n->name)
      strmap_put(&b->kernel_names, str_of(n->name), (void *)n->name);
  }
  return TENON_OK;
}

tenon_status check_schedules(ProgBuilder *b) {
  const char **label = arena_array(b->a, const char *, MAX(b->use.n, 1));
  for (int64_t i = 0; i < b->use.n; i++) label[i] = b->use.v[i].label;
  for (int64_t i = 0; i < b->rule.n; i++) {
    const ScheduleRule *r = &b->rule.v[i];
    bool fits = r->used;  // or another rule had them all
    for (int64_t k = 0; k < b->use.n && !fits; k++)
      fits = rule_fit(b, b->use.v[k].node, label[k], r->glob) != FIT_NONE;
    if (fits) continue;
    const char *nearest = schedule_nearest(b->a, r->glob, label, b->use.n);
    return fail(b->diag, TENON_EINVAL, NOWHERE,
                "schedule '%s': no kernel is '%s'; the nearest is '%s'", r->text, r->glob,
                nearest ? nearest : "none");
  }
  return TENON_OK;
}

tenon_status check_tuned_machine(ProgBuilder *b) {
  const LowerOptions *o = b->o;
  if (!o->tuned) return TENON_OK;
  const char *here = tuned_machine(o->ndevices ? &o->device[o->ndevices - 1] : &o->target, b->a);
  bool fits = !strcmp(o->tuned->machine, tuned_machine(&o->target, b->a));
  for (int i = 1; i < o->ndevices && !fits; i++)
    fits = !strcmp(o->tuned->machine, tuned_machine(&o->device[i], b->a));
  if (fits) return TENON_OK;
  return fail(b->diag, TENON_EINVAL, NOWHERE,
              "%s was tuned for another machine: %s; this one is %s", o->tuned->name,
              o->tuned->machine, here);
}
