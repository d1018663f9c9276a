// import_control.c -- If, Loop, Scan, SequenceMap.
//
// A loop's body is imported with the types of its first iteration; where an iteration gives another
// shape than it got, the parameter's type is widened and the body imported again, until it holds
// for every one.  A loop within it is then imported again, too: it begins with what was widened the
// last time, since the types around it only get wider.  So a body is imported a few times for each
// level around it, not that often to the power of the levels.
#include "eval/control.h"
#include "frontends/onnx/import.h"
#include "base/limits.h"

static tenon_status finish(ImportNode *n, int op, const void *attrs, const NodeVec *operands) {
  return import_as(n, op, attrs, (int)operands->n, operands->v);
}

static void append(ImportNode *n, NodeVec *to, Node *const *v, int64_t count) {
  for (int64_t i = 0; i < count; i++) vec_push(&n->g->arena, to, v[i]);
}

static tenon_status inline_nodes(ImportNode *n, const OnnxGraph *og) {
  Import *im = n->im;
  TRY(import_initializers(im, og));
  TRY(import_nodes(im, og->nodes.v, og->nodes.n));
  if (og->outputs.n < n->nout)
    return import_fail(n, TENON_EINVAL, "the branch gives %lld values, the node has %d outputs",
                       (long long)og->outputs.n, n->nout);
  for (int i = 0; i < n->nout; i++) {
    n->out[i] = scope_find(im, im->scope, og->outputs.v[i].name);
    if (!n->out[i])
      return import_fail(n, TENON_EINVAL, "the sub-graph does not compute its output '%.*s'",
                         STR_ARG(og->outputs.v[i].name));
  }
  return graph_status(im->g);
}

// Where sizes that are numbers decide the condition, the branch that runs stands in the place of
// the node: exporters ask whether an axis has one element before they squeeze it, and the other
// branch need not make sense at these sizes.
static tenon_status inline_branch(ImportNode *n, const char *attr) {
  Import *im = n->im;
  const OnnxAttr *a = import_attr(n, attr);
  if (!a || a->type != OA_GRAPH || !a->g || a->g->inputs.n)
    return import_fail(n, TENON_EINVAL, "'%s' must be a sub-graph without inputs", attr);
  if (im->depth >= LIMIT_ONNX_BODIES)
    return import_fail(n, TENON_EUNSUPPORTED, "sub-graphs are nested over %d deep",
                       LIMIT_ONNX_BODIES);
  Scope scope = {.outer = im->scope, .inlined = true};
  strmap_init(&scope.value, im->arena);
  im->scope = &scope;
  im->depth++;
  tenon_status s = inline_nodes(n, a->g);
  im->depth--;
  im->scope = scope.outer;
  return s;
}

static tenon_status import_if(ImportNode *n) {
  if (n->nin != 1) return import_fail(n, TENON_EINVAL, "%d inputs, must be 1", n->nin);
  NodeVec then_captures = {0}, else_captures = {0}, operands = {0};
  Body *then_body, *else_body;
  const Value *flag = node_known(n->g, n->in[0]);
  if (n->in[0]->op != OP_const && flag && flag->dtype == DT_BOOL && flag->n == 1)
    return inline_branch(n, val_i64(flag, 0) ? "then_branch" : "else_branch");
  TRY(import_body(n, "then_branch", NULL, 0, &then_captures, &then_body));
  TRY(import_body(n, "else_branch", NULL, 0, &else_captures, &else_body));
  append(n, &operands, n->in, 1);
  append(n, &operands, then_captures.v, then_captures.n);
  append(n, &operands, else_captures.v, else_captures.n);
  if (then_body->nresults < n->nout || else_body->nresults != then_body->nresults)
    return import_fail(n, TENON_EINVAL,
                       "the branches give %lld and %lld values, the node has %d outputs",
                       (long long)then_body->nresults, (long long)else_body->nresults, n->nout);
  if_attrs at = {
      .then_captures = then_captures.n, .then_branch = then_body, .else_branch = else_body};
  Node *r =
      node_new(n->g, OP_if, (int)operands.n, operands.v, &at, (int)then_body->nresults, n->name);
  for (int i = 0; i < n->nout; i++) n->out[i] = node_proj(n->g, r, i);
  return graph_status(n->g);
}

// Widens types[first..first+count) by what the body gives back.  True when nothing changed.
static bool widen(ImportNode *n, const Type **types, int64_t count, Node *const *results,
                  tenon_status *status) {
  bool same = true;
  for (int64_t i = 0; i < count; i++) {
    const Type *t = type_join(n->g, types[i], type_of(results[i]));
    if (!t) {
      *status = import_fail(n, TENON_EINVAL, "carried value %lld changes its type in the body",
                            (long long)i);
      return true;
    }
    if (t != types[i]) same = false;
    types[i] = t;
  }
  return same;
}

enum { MAX_ROUNDS = 8 };

// What was found out about a loop's body when it was imported last: the types it began with, and
// those that held.
typedef struct CarriedBody {
  const OnnxGraph *of;
  int64_t n;
  const Type **from, **to;
  bool taken;                                 // in this round of the loop around it
  struct CarriedBody *first, *last, *cursor;  // of the loops within; the next of this round
  struct CarriedBody *next;
} CarriedBody;

// The record of a loop within the one that is being imported.  A round meets them in the same order
// as the one before, but for branches that are no longer known.
static CarriedBody *carried_body(Import *im, const OnnxGraph *of) {
  CarriedBody *outer = im->carried, *b = outer ? outer->cursor : NULL;
  if (b && (b->taken || b->of != of))
    for (b = outer->first; b && (b->taken || b->of != of);) b = b->next;
  if (!b) {
    b = arena_new(im->arena, CarriedBody);
    b->of = of;
    if (outer && outer->last) outer->last->next = b;
    if (outer && !outer->first) outer->first = b;
    if (outer) outer->last = b;
  }
  b->taken = true;
  if (outer) outer->cursor = b->next;
  return b;
}

static void begin_round(CarriedBody *b) {
  b->cursor = b->first;
  for (CarriedBody *c = b->first; c; c = c->next) c->taken = false;
}

// The type with what was widened between `from` and `to` widened as well.
static const Type *as_wide(Graph *g, const Type *t, const Type *from, const Type *to) {
  if (from == to || t->kind != to->kind || from->kind != to->kind) return t;
  if (t->kind == TK_SEQUENCE) return type_sequence(g, as_wide(g, t->elem, from->elem, to->elem));
  if (t->kind == TK_OPTIONAL) return type_optional(g, as_wide(g, t->elem, from->elem, to->elem));
  if (t->kind != TK_TENSOR) return t;
  if (t->rank < 0 || to->rank != t->rank || from->rank != t->rank)
    return type_unranked(g, t->dtype);
  Dim dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    dims[i] = from->dims[i] == to->dims[i] ? t->dims[i] : ie_fresh(&g->dims, "d");
  return type_tensor(g, t->dtype, t->rank, dims);
}

// Begins with what was widened the last time, and notes what is now.
static void begin_carried(ImportNode *n, CarriedBody *b, const Type **types, int64_t count) {
  const Type **from = arena_array(&n->g->arena, const Type *, count);
  for (int64_t i = 0; i < count; i++) {
    from[i] = types[i];
    if (b->n == count) types[i] = as_wide(n->g, types[i], b->from[i], b->to[i]);
  }
  b->n = count;
  b->from = from;
  b->to = types;
}

static tenon_status carried_rounds(ImportNode *n, const Type **types, int64_t nparams,
                                   int64_t first, int64_t count, int64_t from, NodeVec *captures,
                                   Body **out) {
  for (int round = 0;; round++) {
    captures->n = 0;
    begin_round(n->im->carried);
    TRY(import_body(n, "body", types, nparams, captures, out));
    if ((*out)->nresults < from + count)
      return import_fail(n, TENON_EINVAL, "the body gives %lld values, must be at least %lld",
                         (long long)(*out)->nresults, (long long)(from + count));
    tenon_status s = TENON_OK;
    bool same = widen(n, types + first, count, (*out)->result + from, &s);
    TRY(s);
    if (same) return TENON_OK;
    if (round >= MAX_ROUNDS)
      for (int64_t i = 0; i < count; i++)
        if (types[first + i]->kind == TK_TENSOR)
          types[first + i] = type_unranked(n->g, types[first + i]->dtype);
    if (round > MAX_ROUNDS)
      return import_fail(n, TENON_EUNSUPPORTED, "the shapes of the carried values do not settle");
  }
}

// Imports a body whose values [first, first+count) of the parameters are its results [from,
// from+count).
static tenon_status import_carried(ImportNode *n, const Type **types, int64_t nparams,
                                   int64_t first, int64_t count, int64_t from, NodeVec *captures,
                                   Body **out) {
  const OnnxAttr *a = import_attr(n, "body");
  CarriedBody *outer = n->im->carried, *b = carried_body(n->im, a ? a->g : NULL);
  begin_carried(n, b, types + first, count);
  n->im->carried = b;
  tenon_status s = carried_rounds(n, types, nparams, first, count, from, captures, out);
  n->im->carried = outer;
  return s;
}

// What the model declares of the rows of scan results [first, ...) where the body does not say it
// (row_shapes).
static Ints declared_rows(ImportNode *n, const Body *body, int64_t first) {
  const OnnxGraph *og = import_attr(n, "body")->g;
  VEC(int64_t) list = {0};
  bool any = false;
  for (int64_t i = first; i < body->nresults; i++) {
    const OnnxType *said = &og->outputs.v[i].type;
    const Type *is = type_of(body->result[i]);
    bool open = is->kind == TK_TENSOR && is->rank < 0;
    for (int d = 0; is->kind == TK_TENSOR && d < is->rank; d++)
      open |= said->ndims == is->rank && ie_has_fresh(is->dims[d]) && said->dims[d].has_value;
    open &= said->kind == OT_TENSOR && said->has_shape && said->ndims < MAX_RANK;
    any |= open;
    vec_push(&n->g->arena, &list, open ? said->ndims : -1);
    for (int64_t d = 0; open && d < said->ndims; d++) {
      const OnnxDim *dim = &said->dims[d];
      vec_push(&n->g->arena, &list, dim->has_value && dim->value >= 0 ? dim->value : -1);
    }
  }
  return any ? (Ints){list.n, list.v} : (Ints){0};
}

static tenon_status import_loop(ImportNode *n) {
  int64_t ncarried = MAX(n->nin - 2, 0);
  const Type **types = arena_array(&n->g->arena, const Type *, 2 + ncarried);
  types[0] = type_scalar(n->g, DT_I64);
  types[1] = type_scalar(n->g, DT_BOOL);
  for (int64_t i = 0; i < ncarried; i++) types[2 + i] = type_of(n->in[2 + i]);
  NodeVec captures = {0}, operands = {0};
  Body *body;
  TRY(import_carried(n, types, 2 + ncarried, 2, ncarried, 1, &captures, &body));
  append(n, &operands, n->in, n->nin);
  while (operands.n < 2) vec_push(&n->g->arena, &operands, n->g->none);
  append(n, &operands, captures.v, captures.n);
  if (body->nresults - 1 < n->nout)
    return import_fail(n, TENON_EINVAL, "the body gives %lld values, the node has %d outputs",
                       (long long)body->nresults - 1, n->nout);
  loop_attrs at = {
      .captures = captures.n, .body = body, .row_shapes = declared_rows(n, body, 1 + ncarried)};
  Node *r =
      node_new(n->g, OP_loop, (int)operands.n, operands.v, &at, (int)body->nresults - 1, n->name);
  for (int i = 0; i < n->nout; i++) n->out[i] = node_proj(n->g, r, i);
  return graph_status(n->g);
}

// A scan input's row: its type without the scanned axis (and, in opset 8, without the batch).
static const Type *row_type(ImportNode *n, const Type *t, int64_t axis, bool batched) {
  if (t->kind != TK_TENSOR || t->rank < 0) return t;
  Dim dims[MAX_RANK];
  int rank = t->rank - (batched ? 1 : 0), r = 0;
  if (axis < 0) axis += rank;
  if (rank < 1 || axis < 0 || axis >= rank) return type_unranked(n->g, t->dtype);
  for (int i = 0; i < rank; i++)
    if (i != axis) dims[r++] = t->dims[i + (batched ? 1 : 0)];
  return type_tensor(n->g, t->dtype, r, dims);
}

static const Type *without_batch(ImportNode *n, const Type *t) {
  if (t->kind != TK_TENSOR || t->rank < 1) return t;
  return type_tensor(n->g, t->dtype, t->rank - 1, t->dims + 1);
}

static tenon_status import_scan(ImportNode *n, bool batched, Node *const *in, int nin,
                                Ints directions) {
  scan_attrs at = {.num_scan_inputs = import_i64(n, "num_scan_inputs", 0), .batched = batched};
  if (at.num_scan_inputs < 1 || at.num_scan_inputs > nin)
    return import_fail(n, TENON_EINVAL, "num_scan_inputs is %lld with %d inputs",
                       (long long)at.num_scan_inputs, nin);
  import_ints(n, "scan_input_axes", &at.scan_input_axes);
  import_ints(n, "scan_output_axes", &at.scan_output_axes);
  import_ints(n, "scan_input_directions", &at.scan_input_directions);
  import_ints(n, "scan_output_directions", &at.scan_output_directions);
  if (batched) at.scan_input_directions = directions;
  int64_t nstates = nin - at.num_scan_inputs;
  const Type **types = arena_array(&n->g->arena, const Type *, nin);
  for (int64_t i = 0; i < nin; i++) {
    const Type *t = type_of(in[i]);
    int64_t k = i - nstates;
    types[i] = i < nstates ? (batched ? without_batch(n, t) : t)
                           : row_type(n, t, k < at.scan_input_axes.n ? at.scan_input_axes.v[k] : 0,
                                      batched);
  }
  NodeVec captures = {0}, operands = {0};
  Body *body;
  TRY(import_carried(n, types, nin, 0, nstates, 0, &captures, &body));
  append(n, &operands, in, nin);
  append(n, &operands, captures.v, captures.n);
  at.captures = captures.n;
  at.body = body;
  at.row_shapes = declared_rows(n, body, nstates);
  Node *r = node_new(n->g, OP_scan, (int)operands.n, operands.v, &at, (int)body->nresults, n->name);
  if (body->nresults < n->nout)
    return import_fail(n, TENON_EINVAL, "the body gives %lld values, the node has %d outputs",
                       (long long)body->nresults, n->nout);
  for (int i = 0; i < n->nout; i++) n->out[i] = node_proj(n->g, r, i);
  return graph_status(n->g);
}

static tenon_status scan_9(ImportNode *n) {
  return import_scan(n, false, n->in, n->nin, (Ints){0});
}

static tenon_status scan_8(ImportNode *n) {
  if (n->nin < 2) return import_fail(n, TENON_EINVAL, "%d inputs", n->nin);
  if (n->in[0] != n->g->none)
    return import_fail(n, TENON_EUNSUPPORTED,
                       "sequence_lens of opset 8; convert the model to opset 9 or later");
  Ints directions;
  import_ints(n, "directions", &directions);
  return import_scan(n, true, n->in + 1, n->nin - 1, directions);
}

static tenon_status import_sequence_map(ImportNode *n) {
  const Type **types = arena_array(&n->g->arena, const Type *, n->nin);
  for (int i = 0; i < n->nin; i++)
    types[i] = type_of(n->in[i])->kind == TK_SEQUENCE ? type_of(n->in[i])->elem : type_of(n->in[i]);
  NodeVec captures = {0}, operands = {0};
  Body *body;
  TRY(import_body(n, "body", types, n->nin, &captures, &body));
  append(n, &operands, n->in, n->nin);
  append(n, &operands, captures.v, captures.n);
  sequence_map_attrs at = {.captures = captures.n, .body = body};
  return finish(n, OP_sequence_map, &at, &operands);
}

static const ImportRow rows[] = {
    // clang-format off
    {"", "If",          1,  0, import_if,           NULL},
    {"", "Loop",        1,  0, import_loop,         NULL},
    {"", "Scan",        8,  8, scan_8,              NULL},
    {"", "Scan",        9,  0, scan_9,              NULL},
    {"", "SequenceMap", 17, 0, import_sequence_map, NULL},
    // clang-format on
};
const ImportTable onnx_rows_control = {rows, ARRAY_LEN(rows)};
