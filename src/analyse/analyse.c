// analyse.c -- the walk of the static analysis, and what no result needs.
//
// A body's nodes are visited in order of their ids, so that operands come first; on the way back,
// from users to operands, it is marked from which integers a shape follows.  The bodies of control
// flow are walked where their node stands, with what is known of the values they capture.
//
// Needs:      inferred types.
// Guarantees: the same findings in the same order for the same graph; never an error of its own.
#include "analyse/analyse.h"

#include "ir/internal.h"

#include <stdlib.h>

const FindingInfo finding_info[FINDING_COUNT] = {
#define FINDING(code, severity, title, meaning, hint)                                              \
  [FINDING_##code] = {#code, title, meaning, hint, SEVERITY_##severity},
#include "analyse/diagnostics.def"
};

const char *severity_name(Severity s) {
  return s == SEVERITY_ERROR ? "error" : s == SEVERITY_WARNING ? "warning" : "note";
}

// ---- findings ----

// Names are copied: a report may outlive the graph.
static void add(Analysis *an, Finding f) {
  f.name = str_copy(an->arena, str_of(f.name));
  f.op = str_copy(an->arena, str_of(f.op));
  vec_push(an->arena, &an->finding, f);
  an->count[f.severity]++;
}

void analyse_add(Analysis *an, FindingCode code, const char *what, const char *name, const char *op,
                 const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  Finding f = {code,         finding_info[code].severity,    what, name ? name : "",
               op ? op : "", str_vprintf(an->arena, fmt, ap)};
  va_end(ap);
  add(an, f);
}

void ranger_report(Ranger *r, FindingCode code, const Node *n, const char *fmt, ...) {
  if (r->flag[n->id] & RF_CHECKED) return;
  va_list ap;
  va_start(ap, fmt);
  Finding f = {code,
               finding_info[code].severity,
               n->op == OP_const ? "weight" : "node",
               n->name ? n->name : "",
               op_name(n),
               str_vprintf(r->arena, fmt, ap)};
  va_end(ap);
  if (f.severity == SEVERITY_ERROR && !r->sure) f.severity = SEVERITY_WARNING;
  add(r->an, f);
}

// ---- a body's nodes ----

static int by_id(const void *a, const void *b) {
  const Node *x = *(Node *const *)a, *y = *(Node *const *)b;
  return x->id < y->id ? -1 : x->id > y->id;
}

// As body_order, in time of the body's own size: a graph may have very many.
static NodeList nodes_of(Ranger *r, const Body *b) {
  VEC(Node *) found = {0};
  uint32_t stamp = ++r->nbodies;
  for (int64_t i = 0; i < b->nparams + b->nresults; i++) {
    Node *n = i < b->nparams ? b->param[i] : b->result[i - b->nparams];
    if (r->stamp[n->id] == stamp) continue;
    r->stamp[n->id] = stamp;
    vec_push(r->arena, &found, n);
  }
  for (int64_t at = 0; at < found.n; at++) {
    const Node *n = found.v[at];
    for (uint32_t i = 0; i < n->nsrc; i++) {
      if (r->stamp[n->src[i]->id] == stamp) continue;
      r->stamp[n->src[i]->id] = stamp;
      vec_push(r->arena, &found, n->src[i]);
    }
  }
  if (found.n) qsort(found.v, (size_t)found.n, sizeof *found.v, by_id);
  return (NodeList){found.v, found.n};
}

// ---- shapes ----

// Whether the contents of operand i decide a size.
static bool decides_size(const Node *n, uint32_t i) {
  switch (n->op) {
  case OP_constant_of_shape: return i == 0;
  case OP_range: return true;
  case OP_reshape:
  case OP_expand:
  case OP_tile:
  case OP_center_crop_pad: return i == 1;
  case OP_slice: return i >= 1;
  case OP_pad:
  case OP_split: return i == 1;
  case OP_resize: return i == 3;
  default: return false;
  }
}

// A node whose integers come from its operands' integers.
static bool passes_integers(const Node *n) {
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || !dtype_is_int(t->dtype)) return false;
  return op_info(n->op)->flags & (OPF_ELEMENTWISE | OPF_MOVEMENT) || n->op == OP_cast ||
         n->op == OP_reduce_prod;
}

static void mark_shapes(Ranger *r, NodeList list) {
  for (int64_t k = list.n; k-- > 0;) {
    const Node *n = list.v[k];
    bool on = r->flag[n->id] & RF_SHAPE && passes_integers(n);
    for (uint32_t i = 0; i < n->nsrc; i++)
      if (on || decides_size(n, i)) r->flag[n->src[i]->id] |= RF_SHAPE;
  }
}

// ---- the walk ----

static void visit(Ranger *r, const Node *n) {
  uint8_t *flag = &r->flag[n->id];
  Range one[1], *out = n->nres > 1 ? arena_array(r->arena, Range, n->nres) : one;
  *flag |= RF_REACHED;
  if (op_info(n->op)->flags & OPF_RANDOM) *flag |= RF_VARIES;
  for (uint32_t i = 0; i < n->nsrc; i++) *flag |= r->flag[n->src[i]->id] & RF_VARIES;
  if (n->op == OP_param) {
    *flag |= RF_VARIES;
    return;
  }
  if (n->op == OP_proj) {
    const Node *from = n->src[0];
    int64_t index = ((const proj_attrs *)n->attrs)->index;
    r->an->range[n->id] = r->more[from->id] ? r->more[from->id][index] : range_type(type_of(n));
    return;
  }
  if (!n->nres) return;
  range_node(r, n, out);
  if (n->nres > 1) r->more[n->id] = out;
  r->an->range[n->id] = out[0];
  hazard_node(r, n);
  if (*flag & RF_CHECKED || n->op == OP_const || n->op == OP_none) return;
  *flag |= RF_CHECKED;
  for (int i = 0; i < n->nres; i++) {
    if (!out[i].kind || n->type[i]->dtype == DT_BOOL) continue;
    r->an->nvalues++;
    r->an->nbounded += range_is_known(out[i], n->type[i]->dtype);
  }
}

void range_body(Ranger *r, const Body *b) {
  NodeList list = nodes_of(r, b);
  mark_shapes(r, list);
  for (int64_t i = 0; i < b->nparams; i++) {  // what the caller knows stands there already
    Range *x = &r->an->range[b->param[i]->id];
    if (!x->kind) *x = range_type(type_of(b->param[i]));
  }
  for (int64_t i = 0; i < list.n; i++) {
    visit(r, list.v[i]);
    if (list.v[i]->op == OP_const) r->flag[list.v[i]->id] |= RF_CHECKED;
    bool sizes = list.v[i]->op == OP_shape || list.v[i]->op == OP_size || list.v[i]->op == OP_dims;
    for (uint32_t k = 0; k < list.v[i]->nsrc; k++)
      if (!sizes) r->flag[list.v[i]->src[k]->id] |= RF_ELEMENTS;
  }
}

// ---- what no result needs ----

static void dead_inputs(Ranger *r) {
  const Body *b = r->g->main;
  NodeList list = nodes_of(r, &(Body){.nresults = b->nresults, .result = b->result});
  uint32_t stamp = r->nbodies;
  (void)list;
  for (int64_t i = 0; i < b->nresults; i++) r->flag[b->result[i]->id] |= RF_ELEMENTS;
  for (int64_t i = 0; i < b->nparams; i++) {
    const Node *p = b->param[i];
    const char *name = p->name ? p->name : "";
    if (r->stamp[p->id] != stamp)
      analyse_add(r->an, FINDING_T0101, "input", name, NULL, "no output depends on it");
    else if (!(r->flag[p->id] & RF_ELEMENTS))
      analyse_add(r->an, FINDING_T0102, "input", name, NULL, "only its shape is used");
  }
}

static void idle_outputs(Ranger *r) {
  const Body *b = r->g->main;
  IntMap first;
  intmap_init(&first, r->arena);
  for (int64_t i = 0; i < b->nresults; i++) {
    const Node *n = b->result[i];
    const char *name = b->result_name && b->result_name[i] ? b->result_name[i] : "";
    uint64_t before;
    if (n->op == OP_param)
      analyse_add(r->an, FINDING_T0106, "output", name, NULL, "it is input '%s', unchanged",
                  n->name ? n->name : "");
    else if (!(r->flag[n->id] & RF_VARIES))
      analyse_add(r->an, FINDING_T0105, "output", name, NULL, "it depends on no input");
    if (intmap_get(&first, n->id, &before))
      analyse_add(r->an, FINDING_T0107, "output", name, NULL, "it is the same value as output '%s'",
                  b->result_name && b->result_name[before] ? b->result_name[before] : "");
    else
      intmap_put(&first, n->id, (uint64_t)i);
  }
}

static void dead_nodes(Ranger *r) {
  for (int64_t i = 0; i < r->an->nranges; i++) {
    const Node *n = r->g->node.v[i];
    if (r->flag[i] & RF_REACHED || n->op == OP_proj || n->op == OP_none || n->op == OP_param ||
        n == r->g->poison)
      continue;
    if (!n->name) continue;
    if (n->op == OP_const)
      analyse_add(r->an, FINDING_T0103, "weight", n->name, NULL,
                  "no output depends on it (%lld element%s)", (long long)n->data->n,
                  n->data->n == 1 ? "" : "s");
    else
      analyse_add(r->an, FINDING_T0104, "node", n->name, op_name(n), "no output depends on it");
  }
}

static void sizes_by_data(Ranger *r, NodeList list) {
  int64_t count = 0;
  const Node *first = NULL;
  for (int64_t i = 0; i < list.n; i++) {
    const Node *n = list.v[i];
    for (int k = 0; n->op != OP_proj && k < n->nres; k++) {
      const Type *t = n->type[k];
      bool open = t->kind == TK_TENSOR && t->rank < 0;
      for (int d = 0; t->kind == TK_TENSOR && d < t->rank; d++) open |= ie_has_fresh(t->dims[d]);
      if (open && !first) first = n;
      count += open;
    }
  }
  if (first)
    analyse_add(r->an, FINDING_T0501, "node", first->name, op_name(first),
                "the first of %lld value%s whose size is found while running", (long long)count,
                count == 1 ? "" : "s");
}

void analyse_graph(Graph *g, const AnalyseOptions *o, Arena *a, Analysis *out) {
  int64_t n = g->node.n;
  *out = (Analysis){.g = g, .arena = a, .nranges = n, .range = arena_array(a, Range, n)};
  Ranger r = {.g = g, .arena = a, .an = out, .o = o, .sure = true};
  r.more = arena_array(a, Range *, n);
  r.flag = arena_array(a, uint8_t, n);
  r.stamp = arena_array(a, uint32_t, n);
  range_body(&r, g->main);
  dead_inputs(&r);
  idle_outputs(&r);
  if (o->all_nodes) dead_nodes(&r);
  sizes_by_data(&r, nodes_of(&r, g->main));
}
