// import_control.c -- conditions, loops, calls, and variables that calls keep.
//
// Sub-graphs get every value as an argument, so their bodies capture nothing.  A loop's body is
// imported with the types of its first iteration; where an iteration gives another shape than it
// got, the type is widened and the body imported again.
#include "eval/control.h"
#include "frontends/tflite/import.h"

enum { MOST_ROUNDS = 8 };

static Node *flag(TflOp *op, Node *c) {
  if (!op->g->status && type_of(c)->dtype != DT_BOOL)
    return tfl_fail(op, "a condition that is no bool");
  return tfl_rank(op, c) ? tb_reshape(op->g, c, 0, NULL) : c;
}

// ---- IF ----

static Body *branch(TflOp *op, int64_t index, int n, Node *const *args) {
  Graph *g = op->g;
  Node **param = arena_array(&g->arena, Node *, (int64_t)n + 1);
  Node **out = arena_array(&g->arena, Node *, (int64_t)op->nout + 1);
  for (int i = 0; i < n && !g->status; i++) param[i] = node_param(g, type_of(args[i]), NULL);
  if (g->status || !tfl_call(op, index, true, n, param, out, op->nout)) return NULL;
  return body_new(g, op->im->m.sub[index].name, n, param, op->nout, out);
}

static void if_row(TflOp *op) {
  Graph *g = op->g;
  if (!tfl_need(op, 1, 1)) return;
  int n = op->nin - 1;
  Node **src = arena_array(&g->arena, Node *, 2 * (int64_t)n + 1);
  src[0] = flag(op, tfl_in(op, 0));
  for (int i = 0; i < n && !g->status; i++) src[1 + i] = src[1 + n + i] = tfl_in(op, 1 + i);
  if_attrs at = {.then_captures = n};
  at.then_branch = branch(op, tfl_opt_i32(op, 0, 0), n, src + 1);
  at.else_branch = branch(op, tfl_opt_i32(op, 1, 0), n, src + 1);
  if (g->status) return;
  Node *r = node_new(g, OP_if, 2 * n + 1, src, &at, op->nout, op->at.node);
  for (int i = 0; i < op->nout; i++) tfl_give(op, i, node_proj(g, r, i));
}

// ---- WHILE ----

typedef struct While {
  int64_t cond, body;
  int n;
  const Type **type;  // of the carried values
  Node **param, **out;
} While;

static Body *iteration(TflOp *op, While *w) {
  Graph *g = op->g;
  w->param[0] = node_param(g, type_scalar(g, DT_I64), "i");
  w->param[1] = node_param(g, type_scalar(g, DT_BOOL), "go");
  for (int i = 0; i < w->n; i++) w->param[2 + i] = node_param(g, w->type[i], NULL);
  if (!tfl_call(op, w->body, true, w->n, w->param + 2, w->out + 1, w->n)) return NULL;
  if (!tfl_call(op, w->cond, true, w->n, w->out + 1, w->out, 1)) return NULL;
  w->out[0] = flag(op, w->out[0]);
  return g->status ? NULL
                   : body_new(g, op->im->m.sub[w->body].name, 2 + w->n, w->param, 1 + w->n, w->out);
}

// True when every iteration gives what it gets.
static bool settled(TflOp *op, While *w, int round) {
  bool same = true;
  for (int i = 0; i < w->n && !op->g->status; i++) {
    const Type *t = type_join(op->g, w->type[i], type_of(w->out[1 + i]));
    if (!t)
      tfl_fail(op, "value %d changes its type in the loop", i);
    else if (t != w->type[i])
      same = false;
    if (t && round >= MOST_ROUNDS && t->kind == TK_TENSOR) t = type_unranked(op->g, t->dtype);
    w->type[i] = t;
  }
  if (!same && round > MOST_ROUNDS) tfl_fail(op, "the shapes of the carried values do not settle");
  return same || op->g->status;
}

static void while_row(TflOp *op) {
  Graph *g = op->g;
  Arena *a = &g->arena;
  if (!tfl_need(op, 1, 1)) return;
  While w = {.cond = tfl_opt_i32(op, 0, 0), .body = tfl_opt_i32(op, 1, 0), .n = op->nin};
  w.type = arena_array(a, const Type *, w.n + 1);
  w.param = arena_array(a, Node *, (int64_t)w.n + 2);
  w.out = arena_array(a, Node *, (int64_t)w.n + 2);
  Node **src = arena_array(a, Node *, (int64_t)w.n + 2);
  if (op->nout != op->nin) tfl_fail(op, "%d values go in and %d come out", op->nin, op->nout);
  for (int i = 0; i < w.n && !g->status; i++) {
    src[2 + i] = tfl_in(op, i);
    w.type[i] = type_of(src[2 + i]);
  }
  if (g->status || !tfl_call(op, w.cond, false, w.n, src + 2, src + 1, 1)) return;
  src[0] = g->none;
  src[1] = flag(op, src[1]);
  Body *body = NULL;
  for (int round = 0; !g->status; round++) {
    body = iteration(op, &w);
    if (!body || settled(op, &w, round)) break;
  }
  if (g->status || !body) return;
  loop_attrs at = {.body = body};
  Node *r = node_new(g, OP_loop, 2 + w.n, src, &at, w.n, op->at.node);
  for (int i = 0; i < w.n; i++) tfl_give(op, i, node_proj(g, r, i));
}

// ---- calls ----

static void called(TflOp *op, int64_t index) {
  Graph *g = op->g;
  Node **in = arena_array(&g->arena, Node *, (int64_t)op->nin + 1);
  Node **out = arena_array(&g->arena, Node *, (int64_t)op->nout + 1);
  for (int i = 0; i < op->nin && !g->status; i++) in[i] = tfl_in(op, i);
  if (g->status || !tfl_call(op, index, false, op->nin, in, out, op->nout)) return;
  for (int i = 0; i < op->nout; i++) tfl_give(op, i, out[i]);
}
static void call_row(TflOp *op) { called(op, tfl_opt_i32(op, 0, 0)); }
static void composite(TflOp *op) { called(op, fb_i32(&op->o->options2, 1, 0)); }
// What it sets is what variables begin with.
static void call_once(TflOp *op) {
  const TflSubgraph *sub = tfl_subgraph(op, tfl_opt_i32(op, 0, 0));
  if (!sub) return;
  if (op->scope->inside) {
    tfl_fail(op, "inside a condition or a loop");
    return;
  }
  op->im->starting++;
  tfl_call(op, tfl_opt_i32(op, 0, 0), false, 0, NULL, NULL, 0);
  op->im->starting--;
}

// ---- variables ----

// A handle is the variable's number, as a constant: it cannot go through a condition or a loop.
static void var_handle(TflOp *op) {
  Str name = fb_str(&op->o->options, 1);
  if (tfl_need(op, 0, 1)) tfl_give(op, 0, node_i64(op->g, tfl_state(op->im, name)));
}
static TflState *variable(TflOp *op) {
  Ints index = tfl_need_ints(op, 0, "which variable it is");
  if (op->g->status) return NULL;
  bool ok = index.n == 1 && index.v[0] >= 0 && index.v[0] < op->im->states.n;
  if (!ok || op->im->states.v[index.v[0]].tensor || op->scope->inside) {
    tfl_fail(op, ok ? "inside a condition or a loop" : "its operand is no variable");
    return NULL;
  }
  return &op->im->states.v[index.v[0]];
}
static void read_variable(TflOp *op) {
  TflState *s = variable(op);
  if (s && !s->value) tfl_fail(op, "nothing has set the variable '%s'", s->name);
  if (s && s->value) tfl_give(op, 0, s->value);
}
static void assign_variable(TflOp *op) {
  TflState *s = variable(op);
  Node *n = tfl_in(op, 1);
  if (!s || op->g->status) return;
  if (s->value && type_of(s->value)->dtype != type_of(n)->dtype)
    tfl_fail(op, "the variable '%s' changes its type", s->name);
  else if (op->im->starting)
    s->value = tfl_first_value(op->im, s->name, n);
  else
    *s = (TflState){.name = s->name, .value = n, .changed = true};
}

static const TflRow rows[] = {
    // clang-format off
    {31,  "CALL",                call_row,        1, 0},
    {118, "IF",                  if_row,          1, 0},
    {119, "WHILE",               while_row,       1, 0},
    {129, "CALL_ONCE",           call_once,       1, 0},
    {142, "VAR_HANDLE",          var_handle,      1, 0},
    {143, "READ_VARIABLE",       read_variable,   1, 0},
    {144, "ASSIGN_VARIABLE",     assign_variable, 1, 0},
    {206, "STABLEHLO_COMPOSITE", composite,       1, 0},
    // clang-format on
};
TFL_TABLE(control);
