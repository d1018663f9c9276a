// loop.c -- a loop or scan over one step of a recurrent layer, as the layer over the whole
// sequence.
//
// The body holds one layer over a sequence of one (recognise_recurrent.c made it).  Its input must
// be a row of a tensor: a scan input, or the row of a captured tensor at the loop's counter.  Its
// states must be the carried values, and its weights must not change.  Then the loop is the layer,
// and the rows that it stacks are the layer's first result.
//
// Needs:      bodies are rewritten before the loops around them.
// Guarantees: NULL where anything else is in the body: the loop stays.
#include "eval/control.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/sequence.h"
#include "ir/internal.h"
#include "passes/recognise_recurrent/recognise_recurrent.h"
#include "rules/shape.h"

typedef struct Rounds {
  Graph *g;
  Arena *arena;
  const Node *n;  // the scan or loop
  const Body *b;
  const Node *step;  // the layer in the body
  int64_t nstates, first_state, captures;
  IntMap outside;  // body node id -> the same value outside
} Rounds;

static int64_t param_of(const Body *b, const Node *p) {
  for (int64_t i = 0; i < b->nparams; i++)
    if (b->param[i] == p) return i;
  return -1;
}

// ---- what does not change, outside ----

static Node *outside(Rounds *r, Node *n, int depth) {
  Graph *g = r->g;
  uint64_t have;
  if (n->op == OP_const || n == g->none) return n;
  if (intmap_get(&r->outside, n->id, &have)) return (Node *)(uintptr_t)have;
  if (!depth || n->op == OP_param || n->op == OP_proj || !n->nsrc || n->nres != 1 ||
      op_info(n->op)->flags & (OPF_RANDOM | OPF_CONTROL))
    return NULL;
  Node **src = arena_array(r->arena, Node *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) {
    src[i] = outside(r, n->src[i], depth - 1);
    if (!src[i]) return NULL;
  }
  Node *y = node_new(g, n->op, (int)n->nsrc, src, n->attrs, 1, n->name);
  if (y == g->poison || type_of(y) != type_of(n)) return NULL;
  intmap_put(&r->outside, n->id, (uint64_t)(uintptr_t)y);
  return y;
}

static bool map_captures(Rounds *r) {
  intmap_init(&r->outside, r->arena);
  for (int64_t i = 0; i < r->captures; i++) {
    const Node *p = r->b->param[r->b->nparams - r->captures + i];
    Node *value = r->n->src[r->n->nsrc - r->captures + i];
    if (type_of(p) == type_of(value)) intmap_put(&r->outside, p->id, (uint64_t)(uintptr_t)value);
  }
  return true;
}

// ---- reading the body ----

static bool is_scalar_true(Graph *g, const Node *n) {
  const Value *v = node_known(g, n);
  return v && v->dtype == DT_BOOL && v->n == 1 && val_i64(v, 0);
}

static bool find_step(Rounds *r) {
  NodeList order = body_order(r->g, r->b, r->arena);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    if (n->op != OP_lstm && n->op != OP_gru) continue;
    if (r->step) return false;
    r->step = n;
  }
  return r->step != NULL;
}

// unsqueeze(x, [0]) => x
static Node *under_axis(Graph *g, const Node *n) {
  Ints axes;
  if (n->op != OP_unsqueeze || !node_ints(g, n->src[1], &axes) || axes.n != 1 || axes.v[0] != 0)
    return NULL;
  return n->src[0];
}

// Which carried value is this operand of the step; -1 when none.
static int64_t state_of(const Rounds *r, int operand) {
  const Node *p = (int)r->step->nsrc > operand ? under_axis(r->g, r->step->src[operand]) : NULL;
  int64_t i = p ? param_of(r->b, p) - r->first_state : -1;
  return i < r->nstates ? i : -1;
}

// Is n result k of the step, without its axis of size 1?
static bool is_result(const Rounds *r, const Node *n, int k) {
  return n->op == OP_squeeze && n->src[0]->op == OP_proj && n->src[0]->src[0] == r->step &&
         ((const proj_attrs *)n->src[0]->attrs)->index == k;
}

// ---- the sequence ----

static Node *rows_first(Graph *g, Node *x, int64_t axis) {
  if (type_of(x)->rank != 3 || axis > 1 || axis < 0) return NULL;
  return axis ? transpose_to(g, x, 3, (int64_t[]){1, 0, 2}) : x;
}

static Node *scanned(Rounds *r, const Node *x) {
  const scan_attrs *at = r->n->attrs;
  int64_t i = param_of(r->b, x) - r->nstates;
  if (i < 0 || i >= at->num_scan_inputs) return NULL;
  int64_t axis = at->scan_input_axes.n ? at->scan_input_axes.v[i] : 0;
  if (at->scan_input_directions.n && at->scan_input_directions.v[i]) return NULL;
  return rows_first(r->g, r->n->src[r->nstates + i], axis < 0 ? axis + 3 : axis);
}

// x = gather(captured, counter), for as many rounds as there are rows.
static Node *counted(Rounds *r, Node *x) {
  Graph *g = r->g;
  if (x->op != OP_gather || x->src[1] != r->b->param[0]) return NULL;
  Node *all = outside(r, x->src[0], 8);
  int64_t axis = ((const gather_attrs *)x->attrs)->axis, n;
  const Dim *trips;
  if (!all || type_of(all)->rank != 3 || r->n->src[0] == g->none ||
      !node_sym(g, r->n->src[0], &n, &trips) || n != 1)
    return NULL;
  if (axis < 0) axis += 3;
  Node *rows = rows_first(g, all, axis);
  Dim have = rows ? type_of(rows)->dims[0] : NULL;
  if (have == trips[0]) return rows;
  if (!rows || !ie_is_const(trips[0]) || trips[0]->value < 1 || have->lo < trips[0]->value)
    return NULL;
  return slice_axis(g, rows, 0, 0, trips[0]->value, 1);
}

// ---- results ----

static bool outputs_plain(const Rounds *r) {
  if (r->n->op != OP_scan) return true;
  const scan_attrs *at = r->n->attrs;
  for (int64_t i = 0; i < at->scan_output_axes.n; i++)
    if (at->scan_output_axes.v[i]) return false;
  for (int64_t i = 0; i < at->scan_output_directions.n; i++)
    if (at->scan_output_directions.v[i]) return false;
  return true;
}

// A list that each round adds h to, from an empty one on.
static bool is_list(const Rounds *r, const Node *inner, int64_t i) {
  return inner->op == OP_sequence_insert && inner->nsrc == 2 &&
         inner->src[0] == r->b->param[r->first_state + i] && is_result(r, inner->src[1], 1) &&
         r->n->src[r->first_state + i]->op == OP_sequence_empty;
}

static Node *rows_of(Graph *g, Node *y) {
  return N(g, squeeze, node_proj(g, y, 0), node_i64s(g, 1, (int64_t[]){1}));
}

static Node *one_result(Rounds *r, Node *y, int64_t i, int64_t h, int64_t c) {
  Graph *g = r->g;
  int64_t skip = r->n->op == OP_loop;  // the loop's condition
  const Node *inner = r->b->result[skip + i];
  if (i >= r->nstates) return is_result(r, inner, 1) ? rows_of(g, y) : NULL;
  if (is_list(r, inner, i))
    return NA(g, split_to_sequence, (&(split_to_sequence_attrs){.keepdims = false}), rows_of(g, y));
  if (inner == r->b->param[r->first_state + i]) return r->n->src[r->first_state + i];
  int k = i == h ? 1 : i == c ? 2 : 0;
  if (!k || !is_result(r, inner, k)) return NULL;
  return N(g, squeeze, node_proj(g, y, k), node_i64s(g, 1, (int64_t[]){0}));
}

static bool setup(Rounds *r) {
  const Node *n = r->n;
  if (n->op == OP_scan) {
    const scan_attrs *at = n->attrs;
    r->b = at->body;
    r->captures = at->captures;
    r->nstates = (int64_t)n->nsrc - at->captures - at->num_scan_inputs;
    return !at->batched && r->nstates > 0;
  }
  const loop_attrs *at = n->attrs;
  r->b = at->body;
  r->captures = at->captures;
  r->first_state = 2;
  r->nstates = (int64_t)n->nsrc - 2 - at->captures;
  const Node *go = n->src[1];
  if (r->nstates < 1 || (go != r->g->none && !is_scalar_true(r->g, go))) return false;
  return r->b->result[0] == r->b->param[1] || is_scalar_true(r->g, r->b->result[0]);
}

// The same type, or one that says more.
static bool type_fits(const Type *t, const Type *old) {
  if (t == old) return true;
  if (t->kind != old->kind) return false;
  if (t->kind == TK_SEQUENCE) return type_fits(t->elem, old->elem);
  return t->kind == TK_TENSOR && old->rank < 0 && t->dtype == old->dtype;
}

Node *cell_list(Graph *g, Node *n, const Node *old) {
  const concat_from_sequence_attrs *at = n->attrs;
  const Node *list = n->src[0];
  if (list->op != OP_split_to_sequence || src_or_null(g, list, 1) || !at->new_axis || at->axis)
    return n;
  const split_to_sequence_attrs *cut = list->attrs;
  Node *x = list->src[0];
  return !cut->keepdims && !cut->axis && type_fits(type_of(x), type_of(old)) ? x : n;
}

Node **cell_loop(Graph *g, Arena *a, const Node *n) {
  Rounds r = {.g = g, .arena = a, .n = n};
  if (!setup(&r) || !outputs_plain(&r) || !find_step(&r) || !map_captures(&r)) return NULL;
  bool lstm = r.step->op == OP_lstm;
  int64_t h = state_of(&r, 5), c = lstm ? state_of(&r, 6) : -1;
  Node *x = under_axis(g, r.step->src[0]);
  if (!x || h < 0 || (lstm && c < 0)) return NULL;
  Node *src[7] = {n->op == OP_scan ? scanned(&r, x) : counted(&r, x)};
  if (!src[0]) return NULL;
  for (int i = 1; i < 4; i++)
    if (!(src[i] = outside(&r, r.step->src[i], 16))) return NULL;
  Node *axis = node_i64s(g, 1, (int64_t[]){0});
  src[4] = g->none;
  // The states' types are the body's own: the layer's sizes have been checked there.
  for (int i = 5; i < (lstm ? 7 : 6); i++) {
    int64_t at = r.first_state + (i == 5 ? h : c);
    if (type_of(n->src[at]) != type_of(r.b->param[at])) return NULL;
    src[i] = N(g, unsqueeze, n->src[at], axis);
  }
  const Type *xt = type_of(src[0]), *st = type_of(r.step->src[0]);
  if (xt->dims[1] != st->dims[1] || xt->dims[2] != st->dims[2]) return NULL;
  Node *y = node_new(g, r.step->op, lstm ? 7 : 6, src, r.step->attrs, r.step->nres, n->name);
  Node **out = arena_array(a, Node *, n->nres);
  for (int64_t i = 0; i < n->nres; i++) {
    out[i] = y == g->poison ? NULL : one_result(&r, y, i, h, c);
    if (!out[i] || out[i] == g->poison || !type_fits(type_of(out[i]), n->type[i])) return NULL;
  }
  return out;
}
