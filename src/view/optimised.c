// optimised.c -- what optimising did, as JSON for the page: where nodes went, kernels, rules,
// passes, the memory plan.
//
// Nodes are given by their number in the drawing of the graph as it was (drawing 0) or of the
// optimised one (opt.drawing).  A size is a number, or an array that the page evaluates at the
// sizes it shows: see put_dim.
#include "view/view.h"

static void put_pair(JsonWriter *w, const char *key, int64_t v) {
  json_key(w, key);
  json_i64(w, v);
}

static void put_text(JsonWriter *w, const char *key, const char *v) {
  json_key(w, key);
  json_cstr(w, v);
}

static void put_real(JsonWriter *w, const char *key, double v) {
  json_key(w, key);
  json_f64(w, v);
}

// ---- sizes ----

static void put_dim(JsonWriter *w, Dim d);

static void put_term(JsonWriter *w, const IntTerm *t) {
  json_begin_flat_array(w);
  json_i64(w, t->coef);
  for (int i = 0; i < t->natoms; i++) put_dim(w, t->atom[i]);
  json_end_array(w);
}

// A number; ["sym", i]; ["sum", [coefficient, factor...]...]; ["div" | "mod" | "min" | "max" |
// "bcast", a, b].
static void put_dim(JsonWriter *w, Dim d) {
  static const char *const word[] = {
      [IE_SYM] = "sym", [IE_SUM] = "sum", [IE_DIV] = "div",    [IE_MOD] = "mod",
      [IE_MIN] = "min", [IE_MAX] = "max", [IE_BCAST] = "bcast"};
  if (d->kind == IE_CONST) {
    json_i64(w, d->value);
    return;
  }
  if (d->kind == IE_POISON) {
    json_null(w);
    return;
  }
  json_begin_flat_array(w);
  json_cstr(w, word[d->kind]);
  if (d->kind == IE_SYM) {
    json_i64(w, d->slot);
  } else if (d->kind == IE_SUM) {
    for (int i = 0; i < d->nterms; i++) put_term(w, &d->term[i]);
  } else {
    put_dim(w, d->a);
    put_dim(w, d->b);
  }
  json_end_array(w);
}

// By slot; null for those that no one can choose: sizes that depend on data.
static void put_symbols(JsonWriter *w, const View *v) {
  const DimBinding *b = v->opt->sizes;
  json_key(w, "dims");
  json_begin_array(w);
  for (int32_t i = 0; i < b->n; i++) {
    Dim s = v->graph->dims.sym.v[i];
    if (s->fresh || !b->known[i]) {
      json_null(w);
      continue;
    }
    json_begin_object(w);
    put_text(w, "name", str_copy(v->arena, (Str){s->name, s->value}));
    put_pair(w, "value", b->value[i]);
    put_pair(w, "least", MAX(s->lo, 0));
    if (s->hi < INT64_MAX) put_pair(w, "most", s->hi);
    json_end_object(w);
  }
  json_end_array(w);
}

// ---- nodes, kernels, rules, passes ----

static IntMap index_of(const View *v, int64_t drawing) {
  IntMap at;
  intmap_init(&at, v->arena);
  const Drawing *d = v->drawing.v[drawing];
  for (int64_t i = 0; i < d->node.n; i++)
    if (d->node.v[i].kind != DRAW_OUTPUT) intmap_put(&at, d->node.v[i].node->id, (uint64_t)i);
  return at;
}

static int64_t find(const IntMap *at, const Node *n) {
  uint64_t i;
  return intmap_get(at, n->id, &i) ? (int64_t)i : -1;
}

static int64_t rule_number(const Explain *x, const RuleFiring *r) {
  uint64_t i;
  return r && intmap_get(&x->rules, (uint64_t)(uintptr_t)r->rule, &i) ? (int64_t)i : -1;
}

static const char *fate(const ExplainNode *n) {
  if (!n->place) return n->constant ? "folded" : n->rule ? "removed" : "unused";
  for (const ExplainPlace *p = n->place; p; p = p->next)
    if (p->kernel >= 0) return "kernel";
  return "host";
}

static void put_nodes(JsonWriter *w, const View *v) {
  const Explain *x = v->opt->explain;
  IntMap at = index_of(v, 0);
  json_key(w, "nodes");
  json_begin_array(w);
  for (int64_t i = 0; i < x->node.n; i++) {
    const ExplainNode *n = &x->node.v[i];
    json_begin_object(w);
    put_pair(w, "node", find(&at, n->node));
    put_text(w, "fate", fate(n));
    json_key(w, "kernels");
    json_begin_flat_array(w);
    for (const ExplainPlace *p = n->place; p; p = p->next)
      if (p->kernel >= 0) json_i64(w, p->kernel);
    json_end_array(w);
    const RuleFiring *r = n->place ? n->own : n->constant ? NULL : n->rule;
    if (r) {
      put_pair(w, "rule", rule_number(x, r));
      put_text(w, "at", r->from);
    }
    if (n->into >= 0) put_pair(w, "into", n->into);
    json_end_object(w);
  }
  json_end_array(w);
}

static void put_kernels(JsonWriter *w, const View *v, const IntMap *at) {
  const Explain *x = v->opt->explain;
  json_key(w, "kernels");
  json_begin_array(w);
  for (int64_t i = 0; i < x->kernel.n; i++) {
    const ExplainKernel *k = &x->kernel.v[i];
    json_begin_object(w);
    put_pair(w, "node", find(at, k->node));
    put_text(w, "name", k->node->name);
    put_text(w, "kind", fused_kind_name[((const fused_attrs *)k->node->attrs)->kind]);
    put_pair(w, "nodes", k->nodes);
    put_pair(w, "bytes", k->bytes);
    put_pair(w, "unfused", k->unfused_bytes);
    put_real(w, "flops", k->flops);
    put_real(w, "intensity", explain_intensity(k));
    json_key(w, "rules");
    json_begin_flat_array(w);
    for (int64_t r = 0; r < k->rule.n; r++) json_i64(w, k->rule.v[r]);
    json_end_array(w);
    json_end_object(w);
  }
  json_end_array(w);
}

static void put_rules(JsonWriter *w, const View *v) {
  const Explain *x = v->opt->explain;
  json_key(w, "rules");
  json_begin_array(w);
  for (int64_t i = 0; i < x->rule.n; i++) {
    const ExplainRule *r = &x->rule.v[i];
    json_begin_object(w);
    put_text(w, "name", r->rule->name);
    put_text(w, "pass", r->pass->name);
    put_pair(w, "fired", r->fired);
    json_key(w, "exact");
    json_bool(w, !r->rule->fast);
    put_text(w, "example", r->rule->example);
    json_end_object(w);
  }
  json_end_array(w);
}

static void put_passes(JsonWriter *w, const OptReport *r) {
  json_key(w, "passes");
  json_begin_array(w);
  for (int64_t i = 0; i < r->npasses; i++) {
    const PassStat *p = &r->pass[i];
    if (!p->ran) continue;
    json_begin_object(w);
    put_text(w, "name", p->pass->name);
    put_text(w, "doc", p->pass->doc);
    put_pair(w, "before", p->nodes_before);
    put_pair(w, "after", p->nodes_after);
    put_pair(w, "rules", p->rules);
    json_end_object(w);
  }
  json_end_array(w);
}

// ---- the plan ----

static bool is_shown_step(const Node *n) {
  return n->op != OP_const && n->op != OP_param && n->op != OP_proj && n->op != OP_none;
}

// The page counts nodes, the plan steps, of which some are several nodes: a buffer is shown from
// the first node of its first step to the last one of its last.
typedef struct NodeSpan {
  int32_t first, last;
} NodeSpan;

static NodeSpan *node_spans(const View *v) {
  const MemPlan *p = v->opt->plan;
  NodeSpan *span = arena_array(v->arena, NodeSpan, p->nsteps + 1);
  int32_t step = -1, node = 0;
  for (int64_t i = 0; i < p->order.n; i++) {
    if (!is_shown_step(p->order.v[i])) continue;
    if (!plan_is_concurrent(p, i)) span[++step].first = node;
    span[step].last = node++;
  }
  span[p->nsteps] = (NodeSpan){node, node};
  return span;
}

static void put_buffer(JsonWriter *w, const View *v, const IntMap *at, const NodeSpan *span,
                       const PlanBuffer *b, int32_t i) {
  json_begin_object(w);
  put_pair(w, "node", find(at, b->node));
  put_pair(w, "result", b->result);
  put_text(w, "type", view_type_text(b->node->type[b->result], v->arena));
  json_key(w, "bytes");
  put_dim(w, b->bytes);
  put_pair(w, "first", span[b->first].first);
  put_pair(w, "last", span[b->last].last);
  put_pair(w, "root", b->root);
  if (b->within >= 0) {
    put_pair(w, "within", b->within);
    json_key(w, "at");
    put_dim(w, b->at);
  } else if (b->root == i) {
    put_pair(w, "firstShared", span[b->live_first].first);
    put_pair(w, "lastShared", span[b->live_last].last);
    json_key(w, "below");
    json_begin_flat_array(w);
    for (int32_t k = 0; k < b->nbelow; k++) json_i64(w, b->below[k]);
    json_end_array(w);
  }
  json_end_object(w);
}

static void put_plan(JsonWriter *w, const View *v, const IntMap *at) {
  const MemPlan *p = v->opt->plan;
  json_begin_object(w);
  json_key(w, "steps");
  json_begin_flat_array(w);
  for (int64_t i = 0; i < p->order.n; i++)
    if (is_shown_step(p->order.v[i])) json_i64(w, find(at, p->order.v[i]));
  json_end_array(w);
  json_key(w, "buffers");
  json_begin_array(w);
  const NodeSpan *span = node_spans(v);
  for (int32_t i = 0; i < p->n; i++) put_buffer(w, v, at, span, &p->buffer[i], i);
  json_end_array(w);
  json_key(w, "order");
  json_begin_flat_array(w);
  for (int32_t i = 0; i < p->nroots; i++) json_i64(w, p->by_offset[i]);
  json_end_array(w);
  put_pair(w, "views", p->nviews);
  put_pair(w, "inplace", p->ninplace);
  json_end_object(w);
}

static void put_totals(JsonWriter *w, const char *key, const GraphCost *c) {
  json_key(w, key);
  json_begin_object(w);
  put_pair(w, "nodes", c->n);
  put_real(w, "flops", c->flops);
  put_pair(w, "bytes", c->bytes);
  put_pair(w, "consts", c->const_bytes);
  json_end_object(w);
}

void view_put_optimised(JsonWriter *w, const View *v) {
  const ViewOpt *o = v->opt;
  IntMap at = index_of(v, o->drawing);
  json_begin_object(w);
  put_pair(w, "drawing", o->drawing);
  put_pair(w, "launches", o->kernels.kernels);
  put_totals(w, "before", &o->before);
  put_totals(w, "after", &o->after);
  put_nodes(w, v);
  put_kernels(w, v, &at);
  put_rules(w, v);
  put_passes(w, o->report);
  put_symbols(w, v);
  json_key(w, "plan");
  if (o->plan)
    put_plan(w, v, &at);
  else
    json_null(w);
  if (o->no_plan) put_text(w, "noPlan", o->no_plan);
  json_end_object(w);
}
