// export_control.c -- cond, while_loop and scan of torch.export: calls of graphs inside of the
// program.
//
// Their graphs are read in place over their operands, or over parameters where they run more than
// once, and then closed over what they use from outside (close.h).
#include "eval/control.h"
#include "frontends/common/close.h"
#include "frontends/pytorch/export.h"

typedef struct Control {
  ExportProgram *p;
  Graph *g;
  Arena *a;
  Where at;
  const Json *graph[2];
  AtenValue list[3];  // lists of operands, in their order
  AtenValue first;    // what stands before the graphs
  int ngraphs, nlists;
} Control;

static tenon_status misfit(const Control *c) {
  return fail(c->p->diag, TENON_EFORMAT, c->at, "a graph inside that does not fit its call");
}

static tenon_status read_control(Control *c, const Json *node) {
  const Json *inputs = json_get(node, "inputs");
  for (int64_t i = 0; inputs && inputs->kind == JSON_ARRAY && i < inputs->n; i++) {
    const Json *arg = json_get(&inputs->item[i], "arg"),
               *inside = json_get(json_get(arg, "as_graph"), "graph");
    AtenValue v;
    if (inside && c->ngraphs < 2) {
      c->graph[c->ngraphs++] = inside;
      continue;
    }
    TRY(export_arg(c->p, arg, &v));
    if (!c->ngraphs)
      c->first = v;
    else if (v.kind == AV_LIST && c->nlists < 3)
      c->list[c->nlists++] = v;
    else if (v.kind != AV_NONE)
      return misfit(c);
  }
  return TENON_OK;
}

static int64_t count(const AtenValue *list) { return list->list ? list->list->v.n : 0; }

// All operands in one row: those of the lists from..to-1.
static AtenValue *operands(const Control *c, int from, int to, int64_t *n) {
  *n = 0;
  for (int i = from; i < to; i++) *n += count(&c->list[i]);
  AtenValue *out = arena_array(c->a, AtenValue, *n + 1);
  int64_t k = 0;
  for (int i = from; i < to; i++)
    for (int64_t j = 0; j < count(&c->list[i]); j++) out[k++] = c->list[i].list->v.v[j];
  return out;
}

// A value of the same kind that another node gives.
static AtenValue over(const Control *c, const AtenValue *v, Node *n) {
  if (v->kind == AV_TENSOR) return av_tensor(c->a, n);
  return (AtenValue){.kind = v->kind, .node = n};
}

static tenon_status add_results(const Control *c, const AtenValue *v, BodyNodes *out) {
  for (int64_t i = 0; i < count(v); i++) {
    const AtenValue *one = &v->list->v.v[i];
    if (one->kind != AV_TENSOR && !av_is_number(one))
      return fail(c->p->diag, TENON_EUNSUPPORTED, c->at,
                  "a result of a graph inside that is no tensor");
    vec_push(c->a, out, av_node(c->g, one, 0));
  }
  return graph_status(c->g);
}

static void give(const Control *c, Node *n, int64_t from, int64_t to, AtenValue *out) {
  for (int64_t i = from; i < to && !c->g->status; i++)
    av_push(c->a, out, av_tensor(c->a, node_proj(c->g, n, (int)i)));
}

// ---- cond: (condition, graph, graph, operands) ----
static tenon_status cond(Control *c, AtenValue *out) {
  Graph *g = c->g;
  Body *body[2];
  BodyNodes captures[2], all = {0};
  int64_t n;
  AtenValue *args = operands(c, 0, c->nlists, &n);
  if (c->ngraphs != 2 || (c->first.kind != AV_TENSOR && !av_is_number(&c->first))) return misfit(c);
  vec_push(c->a, &all, av_node(g, &c->first, DT_BOOL));
  for (int i = 0; i < 2; i++) {
    BodyNodes own = {0}, results = {0};
    AtenValue given;
    uint32_t mark = (uint32_t)g->node.n;
    TRY(export_run_inside(c->p, c->graph[i], args, n, &given));
    TRY(add_results(c, &given, &results));
    body[i] = close_body(g, c->a, mark, &own, &results, &captures[i]);
    TRY(graph_status(g));
    for (int64_t k = 0; k < captures[i].n; k++) vec_push(c->a, &all, captures[i].v[k]);
  }
  if_attrs at = {.then_captures = captures[0].n, .then_branch = body[0], .else_branch = body[1]};
  int64_t results = body[0]->nresults;
  if (results != body[1]->nresults) return misfit(c);
  give(c, node_new(g, OP_if, (int)all.n, all.v, &at, (int)results, NULL), 0, results, out);
  return graph_status(g);
}

// ---- while_loop: (condition, body, carried values, others) ----
static tenon_status test_of(const Control *c, const AtenValue *args, int64_t n, Node **out) {
  AtenValue v;
  TRY(export_run_inside(c->p, c->graph[0], args, n, &v));
  if (count(&v) != 1) return misfit(c);
  *out = av_node(c->g, &v.list->v.v[0], DT_BOOL);
  if (!c->g->status && type_of(*out)->rank) *out = bt_reshape(c->g, *out, 0, NULL);
  return graph_status(c->g);
}

static tenon_status while_loop(Control *c, AtenValue *out) {
  Graph *g = c->g;
  BodyNodes own = {0}, results = {0}, next = {0}, captures, all = {0};
  int64_t n, carried = count(&c->list[0]);
  AtenValue *args = operands(c, 0, c->nlists, &n), given;
  Node *first, *go;
  if (c->ngraphs != 2 || !c->nlists) return misfit(c);
  TRY(test_of(c, args, n, &first));
  vec_push(c->a, &all, g->none);
  vec_push(c->a, &all, first);
  uint32_t mark = (uint32_t)g->node.n;
  vec_push(c->a, &own, node_param(g, type_scalar(g, DT_I64), NULL));
  vec_push(c->a, &own, node_param(g, type_scalar(g, DT_BOOL), NULL));
  for (int64_t i = 0; i < carried; i++) {
    if (args[i].kind != AV_TENSOR && !av_is_number(&args[i])) return misfit(c);
    Node *start = av_node(g, &args[i], 0);
    TRY(graph_status(g));
    vec_push(c->a, &all, start);
    vec_push(c->a, &own, node_param(g, type_of(start), NULL));
    args[i] = over(c, &args[i], own.v[own.n - 1]);
  }
  TRY(export_run_inside(c->p, c->graph[1], args, n, &given));
  if (count(&given) != carried) return misfit(c);
  for (int64_t i = 0; i < carried; i++) args[i] = given.list->v.v[i];
  TRY(add_results(c, &given, &next));
  TRY(test_of(c, args, n, &go));
  vec_push(c->a, &results, go);
  for (int64_t i = 0; i < carried; i++) vec_push(c->a, &results, next.v[i]);
  Body *body = close_body(g, c->a, mark, &own, &results, &captures);
  TRY(graph_status(g));
  for (int64_t i = 0; i < captures.n; i++) vec_push(c->a, &all, captures.v[i]);
  loop_attrs at = {.captures = captures.n, .body = body};
  give(c, node_new(g, OP_loop, (int)all.n, all.v, &at, (int)carried, NULL), 0, carried, out);
  return graph_status(g);
}

// ---- scan: (body, states, walked along their first axis, others) -> states, rows ----
static tenon_status scan(Control *c, AtenValue *out) {
  Graph *g = c->g;
  BodyNodes own = {0}, results = {0}, captures, all = {0};
  int64_t n, states = count(&c->list[0]), walked = count(&c->list[1]);
  AtenValue *args = operands(c, 0, c->nlists, &n), given;
  if (c->ngraphs != 1 || c->nlists < 2 || !walked) return misfit(c);
  uint32_t mark = (uint32_t)g->node.n;
  for (int64_t i = 0; i < states + walked; i++) {
    if (args[i].kind != AV_TENSOR) return misfit(c);
    const Type *t = type_of(args[i].box->node);
    if (i >= states && t->rank < 1) return misfit(c);
    if (i >= states) t = type_tensor(g, t->dtype, t->rank - 1, t->dims + 1);
    vec_push(c->a, &all, args[i].box->node);
    vec_push(c->a, &own, node_param(g, t, NULL));
    args[i] = av_tensor(c->a, own.v[i]);
  }
  TRY(export_run_inside(c->p, c->graph[0], args, n, &given));
  TRY(add_results(c, &given, &results));
  if (results.n < states) return misfit(c);
  Body *body = close_body(g, c->a, mark, &own, &results, &captures);
  TRY(graph_status(g));
  for (int64_t i = 0; i < captures.n; i++) vec_push(c->a, &all, captures.v[i]);
  scan_attrs at = {.captures = captures.n, .num_scan_inputs = walked, .body = body};
  Node *y = node_new(g, OP_scan, (int)all.n, all.v, &at, (int)results.n, NULL);
  give(c, y, 0, results.n, out);
  return graph_status(g);
}

static const struct {
  const char *target;
  tenon_status (*build)(Control *c, AtenValue *out);
} rows[] = {{"torch.ops.higher_order.cond", cond},
            {"torch.ops.higher_order.while_loop", while_loop},
            {"torch.ops.higher_order.scan", scan}};

static int row_of(Str target) {
  for (int i = 0; i < (int)ARRAY_LEN(rows); i++)
    if (str_is(target, rows[i].target)) return i;
  return -1;
}

bool export_is_control(Str target) { return row_of(target) >= 0; }

tenon_status export_control(ExportProgram *p, const Json *node, Str target, Where at,
                            AtenValue *out) {
  Control c = {.p = p, .g = p->g, .a = &p->g->arena, .at = at};
  TRY(read_control(&c, node));
  *out = av_list(c.a, AV_TUPLE);
  return rows[row_of(target)].build(&c, out);
}
