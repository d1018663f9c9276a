// script_control.c -- conditions and loops of TorchScript that are decided when the graph runs.
//
// A branch or a loop's body is run like any other code; the nodes that it makes are then closed
// over what they use from outside: nodes from before the region become captured parameters, the
// others are made again over them.
#include "frontends/pytorch/script.h"

#include "eval/control.h"
#include "frontends/common/close.h"

typedef BodyNodes Nodes;

// ---- what the program knows at a point ----

typedef struct Snapshot {
  VEC(Binding) names;
  VEC(Attribute) attrs;
  Nodes boxes;
} Snapshot;

static void snapshot(Script *s, Snapshot *out) {
  *out = (Snapshot){0};
  for (int64_t i = 0; i < s->frame->v.n; i++) vec_push(s->arena, &out->names, s->frame->v.v[i]);
  for (int64_t i = 0; i < s->attrs.n; i++) vec_push(s->arena, &out->attrs, s->attrs.v[i]);
}

// Attributes that were looked up since stay known: the files' own values.
static void restore(Script *s, const Snapshot *from) {
  s->frame->v.n = 0;
  for (int64_t i = 0; i < from->names.n; i++) vec_push(s->arena, &s->frame->v, from->names.v[i]);
  for (int64_t i = 0; i < from->attrs.n; i++) s->attrs.v[i] = from->attrs.v[i];
}

static bool identical(const AtenValue *a, const AtenValue *b) {
  if (a->kind != b->kind) return false;
  switch (a->kind) {
  case AV_TENSOR: return a->box == b->box || a->box->node == b->box->node;
  case AV_INT:
  case AV_BOOL: return a->node == b->node && (a->node || a->i == b->i);
  case AV_FLOAT: return a->node == b->node && (a->node || a->f == b->f);
  case AV_STR: return str_eq(a->s, b->s);
  case AV_LIST:
  case AV_TUPLE:
  case AV_DICT: {
    if (a->list == b->list) return true;
    if (a->list->v.n != b->list->v.n) return false;
    for (int64_t i = 0; i < a->list->v.n; i++)
      if (!identical(&a->list->v.v[i], &b->list->v.v[i])) return false;
    return true;
  }
  default: return a->object == b->object;
  }
}

// ---- if ----

typedef struct Join {
  Script *s;
  Nodes then, other;     // results of the branches
  VEC(AtenValue *) out;  // where the joined value goes
} Join;

static bool can_join(const AtenValue *a, const AtenValue *b) {
  return (a->kind == AV_TENSOR || av_is_number(a)) && (b->kind == AV_TENSOR || av_is_number(b));
}

// The value after the `if`: one of the two, or a result of it, whose node is filled in later.
static AtenValue join(Join *j, const AtenValue *a, const AtenValue *b) {
  Script *s = j->s;
  Graph *g = s->g;
  if (identical(a, b)) return *a;
  if (av_is_unknown(a)) return *b;
  if (av_is_unknown(b)) return *a;
  if (can_join(a, b)) {
    AtenValue *v = arena_new(s->arena, AtenValue);
    bool tensor = a->kind == AV_TENSOR || b->kind == AV_TENSOR;
    DType t = tensor                                       ? av_dtype(a->kind == AV_TENSOR ? a : b)
              : a->kind == AV_FLOAT || b->kind == AV_FLOAT ? DT_F64
              : a->kind == AV_BOOL && b->kind == AV_BOOL   ? DT_BOOL
                                                           : DT_I64;
    *v = tensor ? av_tensor(s->arena, g->none)
                : (AtenValue){.kind = t == DT_F64    ? AV_FLOAT
                                      : t == DT_BOOL ? AV_BOOL
                                                     : AV_INT};
    vec_push(s->arena, &j->then, av_node(g, a, t));
    vec_push(s->arena, &j->other, av_node(g, b, t));
    vec_push(s->arena, &j->out, v);
    AtenValue slot = *v;
    slot.object = v;  // numbers: found again when the node is there
    return slot;
  }
  if (a->list && b->list && a->kind == b->kind && a->list->v.n == b->list->v.n) {
    AtenValue list = av_list(s->arena, a->kind);
    for (int64_t i = 0; i < a->list->v.n; i++)
      av_push(s->arena, &list, join(j, &a->list->v.v[i], &b->list->v.v[i]));
    return list;
  }
  return av_unknown();
}

// Numbers get their nodes; tensors had them put into their boxes.
static void settle(AtenValue *v) {
  if (av_is_number(v) && v->object) {
    const AtenValue *from = v->object;
    *v = *from;
    v->object = NULL;
  }
  if (v->kind == AV_TENSOR) v->object = NULL;
  if (v->kind == AV_LIST || v->kind == AV_TUPLE)
    for (int64_t i = 0; i < v->list->v.n; i++)
      if (v->list->v.v[i].object && v->list->v.v[i].kind != AV_OBJECT) settle(&v->list->v.v[i]);
}

static tenon_status run_branch(Script *s, const PyBlock *b, uint32_t mark) {
  uint32_t outer = s->mark;
  s->dynamic++;
  s->mark = mark;
  TRY(script_block(s, b));
  s->dynamic--;
  s->mark = outer;
  if (s->frame->returned)
    return script_fail(s, "a return where it depends on the inputs whether it is");
  return TENON_OK;
}

static void join_states(Join *j, const Snapshot *then) {
  Script *s = j->s;
  for (int64_t i = 0; i < s->frame->v.n; i++) {
    Binding *b = &s->frame->v.v[i];
    const AtenValue *other = NULL;
    for (int64_t k = 0; k < then->names.n && !other; k++)
      if (str_eq(then->names.v[k].name, b->name)) other = &then->names.v[k].value;
    b->value = other ? join(j, other, &b->value) : av_unknown();
  }
  for (int64_t i = 0; i < then->attrs.n; i++) {
    Attribute *a = &s->attrs.v[i];
    a->value = join(j, &then->attrs.v[i].value, &a->value);
    a->assigned = a->assigned || then->attrs.v[i].assigned;
  }
}

static tenon_status build_if(Join *j, Node *condition, uint32_t mark) {
  Script *s = j->s;
  Graph *g = s->g;
  Nodes none = {0}, first, second, operands = {0};
  if (!j->out.n) return TENON_OK;
  Body *then = close_body(s->g, s->arena, mark, &none, &j->then, &first);
  Body *other = then ? close_body(s->g, s->arena, mark, &none, &j->other, &second) : NULL;
  if (!other) return g->status;
  vec_push(s->arena, &operands, condition);
  for (int64_t i = 0; i < first.n; i++) vec_push(s->arena, &operands, first.v[i]);
  for (int64_t i = 0; i < second.n; i++) vec_push(s->arena, &operands, second.v[i]);
  if_attrs at = {.then_captures = first.n, .then_branch = then, .else_branch = other};
  Node *n = node_new(g, OP_if, (int)operands.n, operands.v, &at, (int)j->out.n, NULL);
  TRY(graph_status(g));
  for (int64_t i = 0; i < j->out.n; i++) {
    AtenValue *v = j->out.v[i];
    Node *r = node_proj(g, n, (int)i);
    if (v->kind == AV_TENSOR)
      v->box->node = r;
    else
      v->node = r;
  }
  return graph_status(g);
}

tenon_status script_dynamic_if(Script *s, const PyStmt *st, Node *condition) {
  uint32_t mark = (uint32_t)s->g->node.n;
  Snapshot before, then;
  Where at = s->at;
  snapshot(s, &before);
  TRY(run_branch(s, &st->body, mark));
  snapshot(s, &then);
  restore(s, &before);
  TRY(run_branch(s, &st->other, mark));
  s->at = at;
  Join j = {.s = s};
  join_states(&j, &then);
  TRY(graph_status(s->g));
  TRY(build_if(&j, condition, mark));
  for (int64_t i = 0; i < s->frame->v.n; i++) settle(&s->frame->v.v[i].value);
  for (int64_t i = 0; i < s->attrs.n; i++) settle(&s->attrs.v[i].value);
  return TENON_OK;
}

// ---- loops ----

typedef struct Carried {
  int64_t at;  // position in the frame
  AtenValue first;
  const Type *type;
  Node *param;
} Carried;
typedef struct Loop {
  Script *s;
  const PyStmt *st;
  VEC(Carried) carried;
  uint32_t mark;
  Nodes own, results;
} Loop;

static void assigned_names(Script *s, const PyExpr *target, StrMap *out) {
  if (target->kind == PE_NAME) strmap_put(out, target->s, s);
  for (int64_t i = 0; target->kind == PE_TUPLE && i < target->item.n; i++)
    assigned_names(s, target->item.v[i], out);
}
static void assigned_in(Script *s, const PyBlock *b, StrMap *out) {
  for (int64_t i = 0; i < b->n; i++) {
    if (b->v[i]->target) assigned_names(s, b->v[i]->target, out);
    assigned_in(s, &b->v[i]->body, out);
    assigned_in(s, &b->v[i]->other, out);
  }
}

static AtenValue carried_value(Script *s, const Carried *c, Node *n) {
  if (c->first.kind == AV_TENSOR) return av_tensor(s->arena, n);
  return (AtenValue){.kind = c->first.kind, .node = n};
}

// Names from before the loop that its body gives other values.
static tenon_status find_carried(Loop *l) {
  Script *s = l->s;
  StrMap names;
  strmap_init(&names, s->arena);
  assigned_in(s, &l->st->body, &names);
  for (int64_t i = 0; i < s->frame->v.n; i++) {
    Binding *b = &s->frame->v.v[i];
    if (!strmap_has(&names, b->name)) continue;
    if (l->st->target && l->st->target->kind == PE_NAME && str_eq(l->st->target->s, b->name))
      continue;
    if (b->value.kind != AV_TENSOR && !av_is_number(&b->value))
      continue;  // must not change, see below
    Carried c = {.at = i, .first = b->value};
    DType t = b->value.kind == AV_TENSOR ? 0
              : b->value.kind == AV_INT  ? DT_I64
              : b->value.kind == AV_BOOL ? DT_BOOL
                                         : DT_F64;
    c.type = type_of(av_node(s->g, &b->value, t));
    vec_push(s->arena, &l->carried, c);
  }
  return graph_status(s->g);
}

// One reading of the body with the types that are thought to hold.
static tenon_status read_body(Loop *l, const Snapshot *before) {
  Script *s = l->s;
  Graph *g = s->g;
  l->own = (Nodes){0};
  l->results = (Nodes){0};
  restore(s, before);
  Node *index = node_param(g, type_scalar(g, DT_I64), NULL);
  Node *go_on = node_param(g, type_scalar(g, DT_BOOL), NULL);
  vec_push(s->arena, &l->own, index);
  vec_push(s->arena, &l->own, go_on);
  for (int64_t i = 0; i < l->carried.n; i++) {
    Carried *c = &l->carried.v[i];
    c->param = node_param(g, c->type, NULL);
    vec_push(s->arena, &l->own, c->param);
    s->frame->v.v[c->at].value = carried_value(s, c, c->param);
  }
  bool is_for = l->st->kind == PS_FOR;
  if (is_for) TRY(script_assign(s, l->st->target, (AtenValue){.kind = AV_INT, .node = index}));
  TRY(run_branch(s, &l->st->body, l->mark));
  AtenValue again = av_bool(true);
  if (!is_for) {
    AtenValue v;
    TRY(script_eval(s, l->st->value, &v));
    TRY(script_truth(s, &v, &again));
  }
  vec_push(s->arena, &l->results, av_node(g, &again, DT_BOOL));
  for (int64_t i = 0; i < l->carried.n; i++) {
    const Carried *c = &l->carried.v[i];
    vec_push(s->arena, &l->results,
             av_node(g, &s->frame->v.v[c->at].value, type_of(c->param)->dtype));
  }
  return graph_status(g);
}

// Whether the body keeps the types; else they are widened.
static tenon_status settled(Loop *l, bool *out) {
  Graph *g = l->s->g;
  *out = true;
  for (int64_t i = 0; i < l->carried.n; i++) {
    Carried *c = &l->carried.v[i];
    const Type *t = type_join(g, c->type, type_of(l->results.v[i + 1]));
    if (!t) return script_fail(l->s, "a value changes its type from one iteration to the next");
    if (t != c->type) *out = false;
    c->type = t;
  }
  return TENON_OK;
}

static tenon_status unchanged(Loop *l, const Snapshot *before) {
  Script *s = l->s;
  for (int64_t i = 0; i < before->names.n; i++) {
    bool carried = false;
    for (int64_t k = 0; k < l->carried.n; k++) carried = carried || l->carried.v[k].at == i;
    bool target = l->st->target && l->st->target->kind == PE_NAME &&
                  str_eq(l->st->target->s, before->names.v[i].name);
    // What had no value before has none after: the loop may not have run.
    if (av_is_unknown(&before->names.v[i].value)) {
      s->frame->v.v[i].value = av_unknown();
      continue;
    }
    if (!carried && !target && !identical(&before->names.v[i].value, &s->frame->v.v[i].value))
      return script_fail(s, "'%.*s' changes in a loop, and is neither tensor nor number",
                         STR_ARG(before->names.v[i].name));
  }
  for (int64_t i = 0; i < before->attrs.n; i++)
    if (!identical(&before->attrs.v[i].value, &s->attrs.v[i].value))
      return script_fail(s, "the attribute '%.*s' changes in a loop whose length is not known",
                         STR_ARG(before->attrs.v[i].name));
  return TENON_OK;
}

static tenon_status build_loop(Loop *l, const AtenValue *trips, const AtenValue *condition) {
  Script *s = l->s;
  Graph *g = s->g;
  Nodes captures, operands = {0};
  Body *body = close_body(s->g, s->arena, l->mark, &l->own, &l->results, &captures);
  if (!body) return g->status;
  vec_push(s->arena, &operands, trips ? av_node(g, trips, DT_I64) : g->none);
  vec_push(s->arena, &operands, condition ? av_node(g, condition, DT_BOOL) : g->none);
  for (int64_t i = 0; i < l->carried.n; i++)
    vec_push(s->arena, &operands,
             av_node(g, &l->carried.v[i].first, type_of(l->carried.v[i].param)->dtype));
  for (int64_t i = 0; i < captures.n; i++) vec_push(s->arena, &operands, captures.v[i]);
  loop_attrs at = {.captures = captures.n, .body = body};
  Node *n = node_new(g, OP_loop, (int)operands.n, operands.v, &at, (int)l->carried.n, NULL);
  TRY(graph_status(g));
  for (int64_t i = 0; i < l->carried.n; i++)
    s->frame->v.v[l->carried.v[i].at].value =
        carried_value(s, &l->carried.v[i], node_proj(g, n, (int)i));
  return graph_status(g);
}

enum { MOST_ROUNDS = 8 };

tenon_status script_dynamic_loop(Script *s, const PyStmt *st, const AtenValue *trips,
                                 const AtenValue *condition) {
  Loop l = {.s = s, .st = st};
  Snapshot before;
  Where at = s->at;
  snapshot(s, &before);
  TRY(find_carried(&l));
  for (int round = 0;; round++) {
    bool done;
    l.mark = (uint32_t)s->g->node.n;
    TRY(read_body(&l, &before));
    s->at = at;
    TRY(settled(&l, &done));
    if (done) break;
    if (round > MOST_ROUNDS) return script_fail(s, "the shapes in a loop do not settle");
  }
  TRY(unchanged(&l, &before));
  restore(s, &before);
  return build_loop(&l, trips, condition);
}
