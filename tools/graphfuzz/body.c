// body.c -- control flow with bodies grown like the graph itself (make.h).
//
// A body starts with its own parameters and takes what else it needs from outside as captures.  Its
// values are those of its first round; the whole node is then run, so that one whose later rounds
// fail is not kept.
#include "graphfuzz/make.h"
#include "eval/control.h"

enum { MOST_VALUES = 8 };

static void open_scope(Maker *m, FuzzScope *s) {
  *s = (FuzzScope){.outer = m->scope};
  m->scope = s;
  m->depth++;
}

static void close_scope(Maker *m) {
  m->scope = m->scope->outer;
  m->depth--;
}

static Item own_param(Maker *m, const Type *t, const Item *value) {
  Item it = {0};
  if (value) it = *value;
  it.n = node_param(m->g, t, str_printf(&m->g->arena, "b%lld", (long long)m->nparams++));
  vec_push(m->arena, &m->scope->param, it);
  maker_remember(m, it);
  return it;
}

static Body *close_body(Maker *m, const char *name, int64_t n, const Item *result) {
  FuzzScope *s = m->scope;
  Node **param = arena_array(m->arena, Node *, s->param.n + 1);
  Node **out = arena_array(m->arena, Node *, n + 1);
  for (int64_t i = 0; i < s->param.n; i++) param[i] = s->param.v[i].n;
  for (int64_t i = 0; i < n; i++) out[i] = result[i].n;
  close_scope(m);
  return body_new(m->g, name, s->param.n, param, n, out);
}

static int add_captures(const FuzzScope *s, Item *src, int n) {
  for (int64_t i = 0; i < s->capture.n; i++) src[n++] = s->capture.v[i];
  return n;
}

static bool keep(Maker *m, int op, int nsrc, const Item *src, const void *attrs, int nres) {
  Item out[MOST_VALUES];
  if (!maker_apply(m, op, nsrc, src, attrs, nres, out)) return false;
  for (int i = 0; i < nres; i++) maker_remember(m, out[i]);
  return true;
}

static Item *sources(Maker *m) { return arena_array(m->arena, Item, 4096); }

static bool make_if(Maker *m) {
  FuzzScope then_scope, else_scope;
  Item cond, *src = sources(m), result[2][2];
  int n = 1 + (int)maker_draw(m, 2);
  if (!maker_operand(m, type_scalar(m->g, DT_BOOL), &cond)) return false;
  src[0] = cond;
  open_scope(m, &then_scope);
  maker_grow(m, 1 + maker_draw(m, 4));
  bool ok = true;
  for (int i = 0; i < n; i++) ok &= maker_some(m, &result[0][i]);
  if_attrs at = {.then_branch = close_body(m, "then", ok ? n : 0, result[0])};
  at.then_captures = then_scope.capture.n;
  if (!ok) return false;
  open_scope(m, &else_scope);
  maker_grow(m, maker_draw(m, 4));
  for (int i = 0; i < n; i++)
    ok = ok && maker_operand(m, type_of(result[0][i].n), &result[1][i]) &&
         (type_of(result[1][i].n) == type_of(result[0][i].n));
  at.else_branch = close_body(m, "else", ok ? n : 0, result[1]);
  if (!ok) return false;
  int nsrc = add_captures(&else_scope, src, add_captures(&then_scope, src, 1));
  return keep(m, OP_if, nsrc, src, &at, n);
}

// The condition on which a loop goes on: always, as it came in, or while few rounds have passed.
static bool loop_condition(Maker *m, Item round, Item cond, Item *out) {
  static const uint8_t yes = 1;
  int64_t limit = maker_draw(m, 4);
  *out = cond;
  switch (maker_draw(m, 3)) {
  case 0: *out = maker_const(m, DT_BOOL, 0, NULL, &yes); return true;
  case 1: return true;
  default: {
    Item src[2] = {round, maker_const(m, DT_I64, 0, NULL, &limit)};
    return maker_apply(m, OP_lt, 2, src, NULL, 1, out);
  }
  }
}

static bool make_loop(Maker *m) {
  static const uint8_t yes = 1;
  int64_t trips = maker_draw(m, 4), zero = 0;
  FuzzScope s;
  Item *src = sources(m), result[MOST_VALUES];
  int ncarried = 1 + (int)maker_draw(m, 2), nscan = (int)maker_draw(m, 2);
  src[0] = maker_const(m, DT_I64, 0, NULL, &trips);
  src[1] = maker_const(m, DT_BOOL, 0, NULL, &yes);
  if (maker_one_in(m, 3) && !maker_operand(m, type_scalar(m->g, DT_BOOL), &src[1])) return false;
  if (maker_one_in(m, 4)) src[1] = (Item){.n = m->g->none};
  for (int i = 0; i < ncarried; i++)
    if (!maker_some(m, &src[2 + i])) return false;
  Item first = maker_const(m, DT_I64, 0, NULL, &zero), on = maker_const(m, DT_BOOL, 0, NULL, &yes);
  open_scope(m, &s);
  Item round = own_param(m, type_scalar(m->g, DT_I64), &first);
  Item cond = own_param(m, type_scalar(m->g, DT_BOOL), &on);
  for (int i = 0; i < ncarried; i++) (void)own_param(m, type_of(src[2 + i].n), &src[2 + i]);
  maker_grow(m, 1 + maker_draw(m, 4));
  bool ok = loop_condition(m, round, cond, &result[0]);
  for (int i = 0; ok && i < ncarried; i++)
    ok = maker_operand(m, type_of(src[2 + i].n), &result[1 + i]) &&
         type_of(result[1 + i].n) == type_of(src[2 + i].n);
  for (int i = 0; ok && i < nscan; i++) ok = maker_some(m, &result[1 + ncarried + i]);
  loop_attrs at = {.captures = s.capture.n};
  at.body = close_body(m, "body", ok ? 1 + ncarried + nscan : 0, result);
  if (!ok) return false;
  int nsrc = add_captures(&s, src, 2 + ncarried);
  return keep(m, OP_loop, nsrc, src, &at, ncarried + nscan);
}

// The first row of a value, as the body sees it.
static bool first_row(Maker *m, Item x, Item *out) {
  int64_t zero = 0;
  Item src[2] = {x, maker_const(m, DT_I64, 0, NULL, &zero)};
  return maker_apply(m, OP_gather, 2, src, NULL, 1, out);
}

static bool make_scan(Maker *m) {
  FuzzScope s;
  Item *src = sources(m), row[2], result[MOST_VALUES], state;
  int nstates = (int)maker_draw(m, 2), nscan = 1 + (int)maker_draw(m, 2), nrows = 1;
  Dim length =
      m->nsyms && maker_one_in(m, 2) ? m->sym[0] : ie_const(&m->g->dims, 1 + maker_draw(m, 3));
  if (nstates && !maker_some(m, &src[0])) return false;
  state = src[0];
  for (int i = 0; i < nscan; i++) {
    Dim dims[2] = {length, ie_const(&m->g->dims, 1 + maker_draw(m, 3))};
    const Type *t = type_tensor(m->g, maker_draw(m, 2) ? DT_F32 : DT_I32, 2, dims);
    if (!maker_operand(m, t, &src[nstates + i])) return false;
    if (!first_row(m, src[nstates + i], &row[i])) return false;
  }
  open_scope(m, &s);
  for (int i = 0; i < nstates; i++) (void)own_param(m, type_of(state.n), &state);
  for (int i = 0; i < nscan; i++) (void)own_param(m, type_of(row[i].n), &row[i]);
  maker_grow(m, 1 + maker_draw(m, 4));
  bool ok = true;
  for (int i = 0; ok && i < nstates; i++)
    ok = maker_operand(m, type_of(state.n), &result[i]) && type_of(result[i].n) == type_of(state.n);
  for (int i = 0; ok && i < nrows; i++) ok = maker_some(m, &result[nstates + i]);
  int64_t back[2] = {maker_draw(m, 2), maker_draw(m, 2)};
  scan_attrs at = {.captures = s.capture.n, .num_scan_inputs = nscan};
  at.scan_input_directions = (Ints){nscan, back};
  at.body = close_body(m, "step", ok ? nstates + nrows : 0, result);
  if (!ok) return false;
  int nsrc = add_captures(&s, src, nstates + nscan);
  return keep(m, OP_scan, nsrc, src, &at, nstates + nrows);
}

static bool make_map(Maker *m) {
  FuzzScope s;
  Item *src = sources(m), one, result;
  Dim dims[2] = {ie_const(&m->g->dims, 2), ie_const(&m->g->dims, 3)};
  const Type *t = type_tensor(m->g, DT_F32, 2, dims);
  if (!maker_operand(m, t, &src[1]) || !maker_operand(m, t, &src[2])) return false;
  if (!maker_apply(m, OP_sequence_construct, 2, &src[1], NULL, 1, &src[0])) return false;
  maker_remember(m, src[0]);
  one = src[1];
  open_scope(m, &s);
  (void)own_param(m, t, &one);
  maker_grow(m, 1 + maker_draw(m, 3));
  bool ok = maker_some(m, &result);
  sequence_map_attrs at = {.captures = s.capture.n};
  at.body = close_body(m, "each", ok, &result);
  if (!ok) return false;
  int nsrc = add_captures(&s, src, 1);
  return keep(m, OP_sequence_map, nsrc, src, &at, 1);
}

bool maker_control(Maker *m) {
  switch (maker_draw(m, 8)) {
  case 0:
  case 1:
  case 2: return make_if(m);
  case 3:
  case 4: return make_loop(m);
  case 5:
  case 6: return make_scan(m);
  default: return make_map(m);
  }
}
