// import_control.c -- calls, branches, loops, tuples, and the checks of test programs.
#include "frontends/stablehlo/import.h"

#include "eval/control.h"
#include "frontends/common/close.h"

// ---- values as lists of nodes ----
static void add_nodes(HloCall *c, const HloValue *v, BodyNodes *out) {
  for (int64_t i = 0; i < v->nparts; i++) add_nodes(c, &v->part[i], out);
  if (v->re) vec_push(c->h->arena, out, v->re);
  if (v->im) vec_push(c->h->arena, out, v->im);
}
// The same value over other nodes, which are taken in order.
static HloValue over_nodes(HloCall *c, const HloValue *v, Node *const *node, int64_t *at) {
  HloValue out = *v;
  if (v->nparts) out.part = arena_array(c->h->arena, HloValue, v->nparts);
  for (int64_t i = 0; i < v->nparts; i++) out.part[i] = over_nodes(c, &v->part[i], node, at);
  if (v->re) out.re = node[(*at)++];
  if (v->im) out.im = node[(*at)++];
  return out;
}

static const MlirBlock *block_of(HloCall *c, int64_t region) {
  if (region < c->op->nregions && c->op->regions[region]->nblocks == 1)
    return c->op->regions[region]->blocks[0];
  hlo_refuse(c, "with more than one block, or none");
  return NULL;
}

// ---- calls ----
static void call(HloCall *c) {
  const char *name = mlir_word(mlir_attr(c->op, c->row->op ? "decomposition" : "callee"), "");
  hlo_call_func(c->h, mlir_func(c->h->m, str_of(name)), c->in, c->nin, c->out, c->nout,
                mlir_where(c->op));
}

// ---- branches ----
typedef struct Branch {
  Body *body;
  BodyNodes captures;
  HloValue *out;
} Branch;

static bool make_branch(HloCall *c, int64_t region, Branch *b) {
  const MlirBlock *block = block_of(c, region);
  BodyNodes own = {0}, results = {0};
  uint32_t mark = (uint32_t)c->g->node.n;
  *b = (Branch){.out = arena_array(c->h->arena, HloValue, c->nout + 1)};
  c->h->inside++;
  bool ok = block && hlo_block(c->h, block, NULL, 0, b->out, c->nout);
  c->h->inside--;
  if (!ok) return false;
  for (int64_t i = 0; i < c->nout; i++) add_nodes(c, &b->out[i], &results);
  b->body = close_body(c->g, c->h->arena, mark, &own, &results, &b->captures);
  return !c->g->status;
}

static Node *join(HloCall *c, Node *condition, const Branch *then, const Branch *other) {
  BodyNodes operands = {0};
  vec_push(c->h->arena, &operands, condition);
  for (int64_t i = 0; i < then->captures.n; i++)
    vec_push(c->h->arena, &operands, then->captures.v[i]);
  for (int64_t i = 0; i < other->captures.n; i++)
    vec_push(c->h->arena, &operands, other->captures.v[i]);
  if_attrs at = {
      .then_captures = then->captures.n, .then_branch = then->body, .else_branch = other->body};
  return node_new(c->g, OP_if, (int)operands.n, operands.v, &at, (int)then->body->nresults, NULL);
}

static void give_all(HloCall *c, const HloValue *like, Node *node, int64_t n) {
  Node **v = arena_array(c->h->arena, Node *, n + 1);
  int64_t at = 0;
  for (int64_t i = 0; i < n && !c->g->status; i++) v[i] = node_proj(c->g, node, (int)i);
  for (int64_t i = 0; i < c->nout && !c->g->status; i++) {
    HloValue x = over_nodes(c, &like[i], v, &at);
    hlo_give_value(c, i, x);
  }
}

static void if_(HloCall *c) {
  Branch then, other;
  Node *p = hlo_in(c, 0);
  if (!make_branch(c, 0, &then) || !make_branch(c, 1, &other)) return;
  Node *r = join(c, p, &then, &other);
  give_all(c, then.out, r, then.body->nresults);
}

// A chain of branches from the last: an index that none has takes the last.
static void case_(HloCall *c) {
  Graph *g = c->g;
  int64_t n = c->op->nregions;
  Node *index = hlo_in(c, 0);
  Branch last, b;
  if (!n || !make_branch(c, n - 1, &last)) return;
  for (int64_t i = n - 2; i >= 0; i--) {
    if (!make_branch(c, i, &b)) return;
    uint32_t mark = (uint32_t)g->node.n;
    Node *p = N(g, eq, index, hb_num(g, index, (double)i)), *r = join(c, p, &b, &last);
    if (!i) {
      give_all(c, b.out, r, b.body->nresults);
      return;
    }
    BodyNodes own = {0}, results = {0};
    for (int64_t k = 0; k < b.body->nresults && !g->status; k++)
      vec_push(c->h->arena, &results, node_proj(g, r, (int)k));
    Branch joined = {.out = b.out};
    joined.body = close_body(g, c->h->arena, mark, &own, &results, &joined.captures);
    if (g->status) return;
    last = joined;
  }
  Node *always = node_scalar(g, DT_BOOL, 1);
  give_all(c, last.out, join(c, always, &last, &last), last.body->nresults);
}

// ---- while ----
static void while_(HloCall *c) {
  Graph *g = c->g;
  Arena *a = c->h->arena;
  const MlirBlock *test = block_of(c, 0), *step = block_of(c, 1);
  BodyNodes start = {0}, own = {0}, results = {0}, captures, operands = {0}, next = {0};
  HloValue *args = arena_array(a, HloValue, c->nin + 1),
           *out = arena_array(a, HloValue, c->nin + 1), go, first;
  if (!test || !step || !hlo_block(c->h, test, c->in, c->nin, &first, 1)) return;
  uint32_t mark = (uint32_t)g->node.n;
  for (int64_t i = 0; i < c->nin; i++) add_nodes(c, &c->in[i], &start);
  vec_push(a, &own, node_param(g, type_scalar(g, DT_I64), NULL));
  vec_push(a, &own, node_param(g, type_scalar(g, DT_BOOL), NULL));
  for (int64_t i = 0; i < start.n; i++) vec_push(a, &own, node_param(g, type_of(start.v[i]), NULL));
  int64_t at = 2;
  for (int64_t i = 0; i < c->nin; i++) args[i] = over_nodes(c, &c->in[i], own.v, &at);
  c->h->inside++;
  bool ok = hlo_block(c->h, step, args, c->nin, out, c->nin) &&
            hlo_block(c->h, test, out, c->nin, &go, 1);
  c->h->inside--;
  if (!ok) return;
  if (!go.re || !first.re) {
    hlo_fail(c, "the condition is no tensor");
    return;
  }
  vec_push(a, &results, go.re);
  for (int64_t i = 0; i < c->nin; i++) add_nodes(c, &out[i], &next);
  for (int64_t i = 0; i < next.n; i++) vec_push(a, &results, next.v[i]);
  if (next.n != start.n)
    hlo_fail(c, "the body gives %lld values, must be %lld", (long long)next.n, (long long)start.n);
  Body *body = close_body(g, a, mark, &own, &results, &captures);
  if (g->status) return;
  vec_push(a, &operands, g->none);
  vec_push(a, &operands, first.re);
  for (int64_t i = 0; i < start.n; i++) vec_push(a, &operands, start.v[i]);
  for (int64_t i = 0; i < captures.n; i++) vec_push(a, &operands, captures.v[i]);
  loop_attrs attrs = {.captures = captures.n, .body = body};
  Node *loop = node_new(g, OP_loop, (int)operands.n, operands.v, &attrs, (int)start.n, NULL);
  give_all(c, c->in, loop, start.n);
}

// ---- scan ----
// A parameter for one row of each of a value's tensors: without the axis that is walked.
static void add_rows(HloCall *c, const HloValue *v, int64_t axis, BodyNodes *out) {
  Node *part[] = {v->re, v->im};
  for (int k = 0; k < 2 && part[k] && !c->g->status; k++) {
    const Type *t = type_of(part[k]);
    Dim dims[MAX_RANK];
    int n = 0;
    if (axis < 0 || axis >= t->rank) {
      hlo_fail(c, "dimension %lld of a tensor of rank %d", (long long)axis, t->rank);
      return;
    }
    for (int i = 0; i < t->rank; i++)
      if (i != axis) dims[n++] = t->dims[i];
    vec_push(c->h->arena, out, node_param(c->g, type_tensor(c->g, t->dtype, n, dims), NULL));
  }
}

static Ints same_times(HloCall *c, int64_t n, int64_t x) {
  int64_t *v = arena_array(c->h->arena, int64_t, n + 1);
  for (int64_t i = 0; i < n; i++) v[i] = x;
  return (Ints){n, v};
}

// (inputs, inits) -> (outputs, carries); the graph's scan has the carries in front on all sides.
typedef struct Scan {
  const MlirBlock *block;
  int64_t nin, ncarry, nout, axis, back;
} Scan;

static bool read_scan(HloCall *c, Scan *s) {
  Ints sizes = hlo_ints(c, "operandSegmentSizes");
  s->block = block_of(c, 0);
  s->axis = mlir_int(mlir_attr(c->op, "dimension"), 0);
  s->back = mlir_bool(mlir_attr(c->op, "is_reverse"), false);
  if (!s->block || c->g->status) return false;
  bool ok = sizes.n == 2 && sizes.v[0] >= 0 && sizes.v[0] <= c->nin &&
            sizes.v[1] == c->nin - sizes.v[0] && sizes.v[1] <= c->nout && s->block->nargs == c->nin;
  if (!ok) {
    hlo_fail(c, "%lld operands and %lld results do not fit its segments", (long long)c->nin,
             (long long)c->nout);
    return false;
  }
  s->nin = sizes.v[0];
  s->ncarry = sizes.v[1];
  s->nout = c->nout - s->ncarry;
  if (!s->nin) hlo_refuse(c, "without inputs");
  return s->nin > 0;
}

static void scan(HloCall *c) {
  Graph *g = c->g;
  Arena *a = c->h->arena;
  Scan s;
  if (!read_scan(c, &s)) return;
  BodyNodes own = {0}, operands = {0}, results = {0}, captures;
  HloValue *args = arena_array(a, HloValue, c->nin + 1),
           *out = arena_array(a, HloValue, c->nout + 1);
  uint32_t mark = (uint32_t)g->node.n;
  for (int64_t i = s.nin; i < c->nin; i++) add_nodes(c, &c->in[i], &operands);
  int64_t states = operands.n, at = 0;
  for (int64_t i = 0; i < states; i++)
    vec_push(a, &own, node_param(g, type_of(operands.v[i]), NULL));
  for (int64_t i = 0; i < s.nin; i++) {
    add_nodes(c, &c->in[i], &operands);
    add_rows(c, &c->in[i], s.axis, &own);
  }
  if (g->status) return;
  for (int64_t k = 0; k < c->nin; k++) {
    int64_t i = (s.nin + k) % c->nin;
    args[i] = over_nodes(c, &c->in[i], own.v, &at);
    args[i].type = s.block->args[i]->type;
  }
  c->h->inside++;
  bool ok = hlo_block(c->h, s.block, args, c->nin, out, c->nout);
  c->h->inside--;
  if (!ok) return;
  for (int64_t k = 0; k < c->nout; k++) add_nodes(c, &out[(s.nout + k) % c->nout], &results);
  int64_t rows_in = operands.n - states, rows_out = results.n - states;
  if (rows_out < 0) hlo_fail(c, "the body gives too few values");
  Body *body = close_body(g, a, mark, &own, &results, &captures);
  if (g->status) return;
  for (int64_t i = 0; i < captures.n; i++) vec_push(a, &operands, captures.v[i]);
  scan_attrs attrs = {.captures = captures.n,
                      .num_scan_inputs = rows_in,
                      .scan_input_axes = same_times(c, rows_in, s.axis),
                      .scan_input_directions = same_times(c, rows_in, s.back),
                      .scan_output_axes = same_times(c, rows_out, s.axis),
                      .scan_output_directions = same_times(c, rows_out, s.back),
                      .body = body};
  Node *y = node_new(g, OP_scan, (int)operands.n, operands.v, &attrs, (int)results.n, NULL);
  Node **v = arena_array(a, Node *, results.n + 1);
  for (int64_t i = 0; i < results.n && !g->status; i++) v[i] = node_proj(g, y, (int)i);
  at = 0;
  for (int64_t k = 0; k < c->nout && !g->status; k++) {
    int64_t i = (s.nout + k) % c->nout;
    hlo_give_value(c, i, over_nodes(c, &out[i], v, &at));
  }
}

// ---- values that only pass ----
static void same(HloCall *c) {
  for (int64_t i = 0; i < c->nout && i < c->nin; i++) hlo_give_value(c, i, c->in[i]);
}
static void token(HloCall *c) { (void)c; }
static void zero_id(HloCall *c) { hlo_give(c, node_scalar(c->g, DT_U32, 0)); }
static void tuple(HloCall *c) {
  HloValue v = {.part = arena_array(c->h->arena, HloValue, c->nin + 1), .nparts = c->nin};
  for (int64_t i = 0; i < c->nin; i++) v.part[i] = c->in[i];
  hlo_give_value(c, 0, v);
}
static void get_tuple_element(HloCall *c) {
  int64_t i = mlir_int(mlir_attr(c->op, "index"), 0);
  if (i < 0 || i >= c->in[0].nparts)
    hlo_fail(c, "element %lld of a tuple of %lld", (long long)i, (long long)c->in[0].nparts);
  else
    hlo_give_value(c, 0, c->in[0].part[i]);
}

// ---- checks ----
static void check(HloCall *c) {
  HloCheckKind kind = (HloCheckKind)c->row->op;
  const MlirAttr *value = mlir_attr(c->op, "value");
  HloValue want;
  if (value) {
    want = hlo_const(c, value);
  } else if (c->nin > 1) {
    want = c->in[1];
  } else {
    hlo_fail(c, "nothing to compare with");
    return;
  }
  hlo_check(c, kind, &c->in[0], &want, mlir_float(mlir_attr(c->op, "tolerance"), 1e-4),
            mlir_int(mlir_attr(c->op, "min_ulp_difference"), 0),
            mlir_int(mlir_attr(c->op, "max_ulp_difference"), 3));
}

// Targets that only say where or how: their operands are their results.
static bool passes(const char *name) {
  static const char *const list[] = {"Sharding",
                                     "SPMDFullToShardShape",
                                     "SPMDShardToFullShape",
                                     "LayoutConstraint",
                                     "annotate_device_placement",
                                     "shape_assertion",
                                     "xla.sdy.FuncResultSharding"};
  for (int64_t i = 0; i < ARRAY_LEN(list); i++)
    if (!strcmp(name, list[i])) return true;
  return false;
}

static void custom_call(HloCall *c) {
  const char *name = mlir_word(mlir_attr(c->op, "call_target_name"), "");
  const HloValue *x = c->in;
  if (!strcmp(name, "check.expect_close") && c->nin == 2) {
    hlo_check(c, HLO_CLOSE, &x[0], &x[1], 0, 0, 3);
  } else if (!strcmp(name, "check.expect_eq") && c->nin == 2) {
    hlo_check(c, HLO_EQ, &x[0], &x[1], 0, 0, 0);
  } else if (!strcmp(name, "check.expect_almost_eq") && c->nin == 2) {
    hlo_check(c, HLO_ALMOST, &x[0], &x[1], 1e-3, 0, 0);
  } else if (!strcmp(name, "check.eq") && c->nin == 2) {
    hlo_check(c, HLO_ALMOST, &x[1], &x[0], 1e-4, 0, 0);
    hlo_give(c, node_scalar(c->g, DT_BOOL, 1));
  } else if (!strcmp(name, "stablehlo.dynamic_reduce_window")) {
    hlo_dynamic_reduce_window(c);
  } else if (passes(name)) {
    same(c);
  } else {
    hlo_refuse(c, "@%s", name);
  }
}

// clang-format off
static const HloRow rows[] = {
    {"func.call",                      call,              0,          HLO_OWN, NULL},
    {"call",                           call,              0,          HLO_OWN, NULL},
    {"stablehlo.composite",            call,              1,          HLO_OWN, "by its decomposition"},
    {"stablehlo.if",                   if_,               0,          HLO_OWN, NULL},
    {"stablehlo.case",                 case_,             0,          HLO_OWN, NULL},
    {"stablehlo.while",                while_,            0,          HLO_OWN, NULL},
    {"chlo.scan",                      scan,              0,          HLO_OWN, NULL},
    {"stablehlo.optimization_barrier", same,              0,          HLO_OWN, NULL},
    {"stablehlo.after_all",            token,             0,          HLO_OWN, NULL},
    {"stablehlo.create_token",         token,             0,          HLO_OWN, NULL},
    {"stablehlo.partition_id",         zero_id,           0,          HLO_OWN, "0: one process"},
    {"stablehlo.replica_id",           zero_id,           0,          HLO_OWN, "0: one process"},
    {"stablehlo.tuple",                tuple,             0,          HLO_OWN, NULL},
    {"stablehlo.get_tuple_element",    get_tuple_element, 0,          HLO_OWN, NULL},
    {"stablehlo.custom_call",          custom_call,       0,          HLO_OWN, "by its target's name"},
    {"check.expect_eq",                check,             HLO_EQ,     HLO_OWN, "in test programs"},
    {"check.expect_eq_const",          check,             HLO_EQ,     HLO_OWN, "in test programs"},
    {"check.expect_almost_eq",         check,             HLO_ALMOST, HLO_OWN, "in test programs"},
    {"check.expect_almost_eq_const",   check,             HLO_ALMOST, HLO_OWN, "in test programs"},
    {"check.expect_close",             check,             HLO_CLOSE,  HLO_OWN, "in test programs"},
    {"stablehlo.all_gather",           NULL, 0, HLO_OWN, "several processes that exchange values"},
    {"stablehlo.all_reduce",           NULL, 0, HLO_OWN, "several processes that exchange values"},
    {"stablehlo.all_to_all",           NULL, 0, HLO_OWN, "several processes that exchange values"},
    {"stablehlo.collective_broadcast", NULL, 0, HLO_OWN, "several processes that exchange values"},
    {"stablehlo.collective_permute",   NULL, 0, HLO_OWN, "several processes that exchange values"},
    {"stablehlo.reduce_scatter",       NULL, 0, HLO_OWN, "several processes that exchange values"},
    {"stablehlo.send",                 NULL, 0, HLO_OWN, "several processes that exchange values"},
    {"stablehlo.recv",                 NULL, 0, HLO_OWN, "several processes that exchange values"},
    {"stablehlo.infeed",               NULL, 0, HLO_OWN, "values that come in while it runs"},
    {"stablehlo.outfeed",              NULL, 0, HLO_OWN, "values that go out while it runs"},
    {"stablehlo.async_start",          NULL, 0, HLO_OWN, "several processes that exchange values"},
    {"stablehlo.async_done",           NULL, 0, HLO_OWN, "several processes that exchange values"},
    {"interpreter.run_parallel",       NULL, 0, HLO_OWN, "several processes that exchange values"},
};
// clang-format on
HLO_TABLE(hlo_control);
