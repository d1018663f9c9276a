// make.c -- items, operands and whole graphs (make.h).
#include "graphfuzz/make.h"
#include "eval/movement.h"
#include "eval/scalar.h"
#include "ir/internal.h"

#include <stdio.h>

int64_t maker_draw(Maker *m, int64_t n) {
  m->rng += 0x9e3779b97f4a7c15ull;
  return (int64_t)(hash_u64(m->rng) % (uint64_t)n);
}

// ---- evaluating ----

enum { MOST_ELEMENTS = 4096 };

static bool is_small(const Value *v) {
  if (!v || v->kind == VK_TENSOR) return v && v->n <= MOST_ELEMENTS;
  for (int64_t i = 0; i < v->nitems; i++)
    if (!is_small(v->items[i])) return false;
  return v->nitems < 64;
}

static tenon_status eval_directly(Maker *m, int k, const Node *n, const Item *src, Value **out) {
  const Value **in = arena_array(m->arena, const Value *, n->nsrc + 1);
  // Commutative operands may have been put in order.
  for (uint32_t i = 0; i < n->nsrc; i++)
    for (uint32_t j = 0; j < n->nsrc; j++)
      if (src[j].n == n->src[i] && (!in[i] || j == i)) in[i] = src[j].at[k];
  Eval e = {.run = &m->run[k],
            .in = in,
            .nin = (int)n->nsrc,
            .out = out,
            .nout = n->nres,
            .attrs = n->attrs,
            .at = {.op = op_name(n)}};
  Trap t;
  trap_enter(&t, &m->quiet);
  if (setjmp(t.env) == 0) t.status = op_info(n->op)->eval(&e);
  trap_leave(&t);
  return t.status;
}

// Runs the scope up to these nodes, from the values of its parameters.
static tenon_status run_scope(Maker *m, int k, int64_t n, Node **result, Value **out) {
  FuzzScope *s = m->scope;
  Body *before = m->g->main;
  Node **param = arena_array(m->arena, Node *, s->param.n + 1);
  Value **in = arena_array(m->arena, Value *, s->param.n + 1);
  for (int64_t i = 0; i < s->param.n; i++) {
    param[i] = s->param.v[i].n;
    in[i] = s->param.v[i].at[k];
  }
  m->g->main = body_new(m->g, "scope", s->param.n, param, n, result);
  m->g->body.n--;
  Interp *it = NULL;
  tenon_status st = interp_create(m->g, NULL, &m->quiet, &it);
  if (!st) st = interp_run(it, &m->run[k], in, out);
  for (int64_t i = 0; !st && i < n; i++) st = fuzz_own(&m->run[k], &out[i]);
  interp_free(it);
  m->g->main = before;
  return st;
}

static bool evaluate(Maker *m, Node *n, const Item *src, Item *out) {
  const OpInfo *op = op_info(n->op);
  Node **part = arena_array(m->arena, Node *, n->nres);
  for (int i = 0; i < n->nres; i++) part[i] = out[i].n = node_proj(m->g, n, i);
  for (int k = 0; k < m->nsizes; k++) {
    Value **v = arena_array(m->arena, Value *, n->nres);
    diag_init(&m->quiet);
    bool direct = op->eval && !(op->flags & OPF_CONTROL);
    if (direct ? eval_directly(m, k, n, src, v) : run_scope(m, k, n->nres, part, v)) return false;
    for (int i = 0; i < n->nres; i++) {
      if (!is_small(v[i])) return false;
      out[i].at[k] = v[i];
    }
  }
  return true;
}

bool maker_apply(Maker *m, int op, int nsrc, const Item *src, const void *attrs, int nres,
                 Item *out) {
  Graph *g = m->g;
  Node **operand = arena_array(m->arena, Node *, nsrc + 1);
  for (int i = 0; i < nsrc; i++) operand[i] = src[i].n;
  int64_t said = g->diag->len;
  Node *n = node_new(g, op, nsrc, operand, attrs, nres, NULL);
  if (g->status) {  // a refusal at these types: as if it had not been tried
    g->status = TENON_OK;
    g->diag->len = said;
    return false;
  }
  // A result may take the place of an operand: only once all is known.
  Item *part = arena_array(m->arena, Item, n->nres);
  if (!evaluate(m, n, src, part)) return false;
  for (int i = 0; i < n->nres; i++) out[i] = part[i];
  return true;
}

void maker_remember(Maker *m, Item it) {
  if (type_of(it.n)->kind != TK_NONE && it.n->nres == 1) vec_push(m->arena, &m->scope->pool, it);
}

// ---- inputs and constants ----

bool maker_param(Maker *m, const Type *t, Item *out) {
  if (m->scope->outer) {  // a body has no inputs of its own: one from outside is captured
    FuzzScope *inner = m->scope;
    m->scope = inner->outer;
    Item from;
    bool ok = maker_operand(m, t, &from);
    m->scope = inner;
    if (ok) *out = maker_capture(m, from);
    return ok;
  }
  const char *name = str_printf(&m->g->arena, "%c%lld_%llx", m->tame ? 't' : 'x',
                                (long long)m->nparams++, (long long)maker_draw(m, 4096));
  *out = (Item){0};
  for (int k = 0; k < m->nsizes; k++)
    if (fuzz_input(&m->run[k], t, name, k, &out->at[k])) return false;
  out->n = node_param(m->g, t, name);
  vec_push(m->arena, &m->scope->param, *out);
  maker_remember(m, *out);
  return true;
}

Item maker_const(Maker *m, DType t, int rank, const int64_t *dims, const void *bytes) {
  Item it = {.n = node_const(m->g, t, rank, dims, bytes, NULL)};
  for (int k = 0; k < m->nsizes; k++) {
    if (value_tensor(&m->run[k], NOWHERE, t, rank, dims, &it.at[k])) continue;
    copy_elems(t, it.at[k]->data, 0, it.n->data->mem, 0, it.at[k]->n);
  }
  return it;
}

Item maker_i64s(Maker *m, int64_t n, const int64_t *v) { return maker_const(m, DT_I64, 1, &n, v); }

static bool random_const(Maker *m, const Type *t, Item *out) {
  if (t->kind != TK_TENSOR || !type_is_static(t)) return false;
  char name[32];
  snprintf(name, sizeof name, "%c%llx", m->tame ? 't' : 'c', (long long)maker_draw(m, 1 << 20));
  Value *v;
  if (fuzz_input(&m->run[0], t, name, 0, &v)) return false;
  *out = maker_const(m, t->dtype, t->rank, v->dims, v->data);
  return true;
}

Item maker_capture(Maker *m, Item outer) {
  FuzzScope *s = m->scope;
  int64_t own = s->param.n - s->capture.n;
  if (outer.n->op == OP_const) return outer;
  for (int64_t i = 0; i < s->capture.n; i++)
    if (s->capture.v[i].n == outer.n) return s->param.v[own + i];
  Item in = outer;
  in.n = node_param(m->g, type_of(outer.n),
                    str_printf(&m->g->arena, "c%lld", (long long)m->nparams++));
  vec_push(m->arena, &s->capture, outer);
  vec_push(m->arena, &s->param, in);
  maker_remember(m, in);
  return in;
}

// ---- operands ----

// A symbol of the graph as an i64[1]: the size of the input that carries it.
static bool symbol_size(Maker *m, Dim d, Item *out) {
  for (int i = 0; i < m->nsyms; i++) {
    if (d != m->sym[i]) continue;
    Item from = m->carrier[i];
    FuzzScope *chain[8], *inner = m->scope;
    int n = 0;
    for (FuzzScope *s = inner; s->outer && n < 8; s = s->outer) chain[n++] = s;
    while (n--) {
      m->scope = chain[n];
      from = maker_capture(m, from);
    }
    m->scope = inner;
    return maker_apply(m, OP_shape, 1, &from, NULL, 1, out);
  }
  return false;
}

static bool shape_item(Maker *m, const Type *t, Item *out) {
  Item part[MAX_RANK];
  if (type_is_static(t)) {
    int64_t dims[MAX_RANK];
    for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
    *out = maker_i64s(m, t->rank, dims);
    return true;
  }
  for (int i = 0; i < t->rank; i++) {
    if (ie_is_const(t->dims[i]))
      part[i] = maker_i64s(m, 1, &t->dims[i]->value);
    else if (!symbol_size(m, t->dims[i], &part[i]))
      return false;
  }
  return maker_apply(m, OP_concat, t->rank, part, NULL, 1, out);
}

// As many elements as the shape has: the first ones of a flat value, and zeros where there are too
// few.
static bool resize(Maker *m, Item flat, const Type *t, Item shape, Item *out) {
  Dim want = type_numel(m->g, t), have = type_numel(m->g, type_of(flat.n));
  Item count, src[3], zero;
  int64_t none = 0, minus = -1;
  if (want == have) {
    *out = flat;
    return true;
  }
  static const uint8_t bytes[16];
  static const Str empty = {"", 0};
  if (ie_is_const(want)) {
    count = maker_i64s(m, 1, &want->value);
  } else {
    Item prod[2] = {shape};
    if (!maker_apply(m, OP_reduce_prod, 1, prod, NULL, 1, &count)) return false;
    src[0] = count;
    src[1] = maker_i64s(m, 1, &minus);
    if (!maker_apply(m, OP_reshape, 2, src, NULL, 1, &count)) return false;
  }
  if (!ie_is_const(want) || !ie_is_const(have) || have->value < want->value) {
    DType dt = type_of(flat.n)->dtype;
    src[0] = maker_const(m, dt, 0, NULL, dt == DT_STRING ? (const void *)&empty : bytes);
    src[1] = count;
    if (!maker_apply(m, OP_expand, 2, src, NULL, 1, &zero)) return false;
    src[0] = flat;
    src[1] = zero;
    if (!maker_apply(m, OP_concat, 2, src, NULL, 1, &flat)) return false;
  }
  src[0] = flat;
  src[1] = maker_i64s(m, 1, &none);
  src[2] = count;
  return maker_apply(m, OP_slice, 3, src, NULL, 1, out);
}

bool maker_adapt(Maker *m, Item v, const Type *t, Item *out) {
  *out = v;
  const Type *have = type_of(v.n);
  if (have == t) return true;
  if (t->kind != TK_TENSOR || t->rank < 0 || have->kind != TK_TENSOR || have->rank < 0)
    return false;
  Item src[2] = {v}, shape;
  int64_t minus = -1;
  if (have->dtype != t->dtype &&
      !maker_apply(m, OP_cast, 1, src, &(cast_attrs){.to = t->dtype, .saturate = true}, 1, &src[0]))
    return false;
  *out = src[0];
  if (type_of(src[0].n) == t) return true;
  src[1] = maker_i64s(m, 1, &minus);
  if (!shape_item(m, t, &shape)) return false;
  if (have->rank != 1 && !maker_apply(m, OP_reshape, 2, src, NULL, 1, &src[0])) return false;
  // A size that is 0 when run is meant, and not the size of the axis at that place.
  reshape_attrs literally = {.allowzero = true};
  if (!resize(m, src[0], t, shape, &src[0])) return false;
  src[1] = shape;
  return maker_apply(m, OP_reshape, 2, src, &literally, 1, out) && type_of(out->n) == t;
}

static bool is_plain(const Type *t) {
  DTypeClass c = dtype_class(t->dtype);
  return t->kind == TK_TENSOR && t->rank >= 0 && c != DC_STRING && c != DC_COMPLEX && c != DC_NONE;
}

bool maker_some(Maker *m, Item *out) {
  FuzzScope *s = m->scope;
  if (s->outer && (!s->pool.n || maker_one_in(m, 4))) {
    m->scope = s->outer;
    bool found = maker_some(m, out);
    m->scope = s;
    if (found) *out = maker_capture(m, *out);
    return found;
  }
  for (int tries = 0; s->pool.n && tries < 8; tries++) {
    int64_t reach = maker_draw(m, 2) ? 2 : 8, near = MIN(s->pool.n, reach);
    int64_t at = maker_draw(m, 4) ? s->pool.n - 1 - maker_draw(m, near) : maker_draw(m, s->pool.n);
    *out = s->pool.v[at];
    if (is_plain(type_of(out->n))) return true;
  }
  return false;
}

// The latest value of this very type, or of its kind and dtype.
static bool like(Maker *m, const Type *t, Item *out) {
  Items *pool = &m->scope->pool;
  for (int64_t i = pool->n - 1; i >= 0; i--) {
    const Type *have = type_of(pool->v[i].n);
    if (have->kind != t->kind) continue;
    *out = pool->v[i];
    if (t->kind == TK_TENSOR) {
      if (have->dtype == t->dtype && maker_adapt(m, pool->v[i], t, out)) return true;
    } else if (have->dtype == t->dtype && have->elem->kind == t->elem->kind &&
               have->elem->dtype == t->elem->dtype) {
      return true;
    }
  }
  return false;
}

bool maker_operand(Maker *m, const Type *t, Item *out) {
  int64_t luck = maker_draw(m, 16);
  Item v;
  if (is_plain(t)) {
    if (luck < 12 && maker_some(m, &v) && maker_adapt(m, v, t, out)) return true;
    if (luck < 14 && random_const(m, t, out)) return true;
  } else {
    if (luck < 12 && like(m, t, out)) return true;
    if (luck < 14 && dtype_class(t->dtype) == DC_STRING && random_const(m, t, out)) return true;
  }
  return maker_param(m, t, out);
}

// ---- whole graphs ----

static void begin(Maker *m) {
  IntPool *p = &m->g->dims;
  m->tame = maker_one_in(m, 2);
  if (maker_draw(m, 3) == 0) m->nsyms = 1 + (int)maker_draw(m, 2);
  m->nsizes = m->nsyms ? FUZZ_SIZES : 1;
  for (int i = 0; i < m->nsyms; i++) {
    char name[3] = {"nmz"[maker_draw(m, 3)], (char)('2' + i + maker_draw(m, 2) * 2), 0};
    m->sym[i] = ie_sym(p, str_of(name), 0, INT64_MAX);
  }
  for (int i = 0; i < m->nsyms; i++) {
    const Type *t = type_tensor(m->g, DT_F32, 1, &m->sym[i]);
    CHECK(maker_param(m, t, &m->carrier[i]), "an input could not be made");
  }
  Item it;
  for (int64_t i = 1 + maker_draw(m, 2); i > 0; i--)
    (void)maker_param(m, maker_random_type(m), &it);
}

// The inputs that the results need, and now and then one that nothing needs.
static int64_t used_params(Maker *m, int64_t nresults, Node **result, Node **out) {
  Body *b = body_new(m->g, "used", 0, NULL, nresults, result);
  m->g->body.n--;
  NodeList l = body_order(m->g, b, m->arena);
  int64_t n = 0;
  for (int64_t i = 0; i < m->scope->param.n; i++) {
    bool used = maker_one_in(m, 16);
    for (int64_t k = 0; !used && k < l.n; k++) used = l.v[k] == m->scope->param.v[i].n;
    if (used) out[n++] = m->scope->param.v[i].n;
  }
  return n;
}

static void finish(Maker *m) {
  Graph *g = m->g;
  Items *pool = &m->scope->pool;
  Node *result[FUZZ_RESULTS], **param = arena_array(m->arena, Node *, m->scope->param.n + 1);
  int64_t most = MIN(pool->n, FUZZ_RESULTS), n = 1 + maker_draw(m, most);
  bool *used = arena_array(m->arena, bool, g->node.n);
  for (int64_t i = 0; i < pool->n; i++)
    for (uint32_t k = 0; k < pool->v[i].n->nsrc; k++) used[pool->v[i].n->src[k]->id] = true;
  for (int64_t i = 0; i < n; i++) {  // mostly what nothing else needs: little of the graph is dead
    int64_t at = pool->n - 1;
    for (int tries = 0; i && tries < 24; tries++) {
      at = maker_draw(m, pool->n);
      if (!used[pool->v[at].n->id]) break;
    }
    result[i] = pool->v[at].n;
    used[result[i]->id] = true;
  }
  int64_t np = used_params(m, n, result, param);
  g->main = body_new(g, "fuzz", np, param, n, result);
  g->body.n--;
  for (int64_t i = 0; i < n; i++)
    g->main->result_name[i] = str_printf(&g->arena, "y%lld", (long long)i);
}

Graph *fuzz_graph(uint64_t seed, Diag *d) {
  static Maker m;
  Graph *g = NULL;
  Arena a;
  arena_init(&a);
  m = (Maker){.rng = seed * 0x2545f4914f6cdd1dull, .arena = &a};
  diag_init(&m.quiet);
  for (int k = 0; k < FUZZ_SIZES; k++) {
    run_init(&m.run[k], NULL, &m.quiet);
    m.run[k].max_bytes = 16 << 20;
    m.run[k].budget = 4096;
  }
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    t.status = graph_create(d, &g);
    if (!t.status) {
      m.g = g;
      m.scope = arena_new(&a, FuzzScope);
      begin(&m);
      maker_grow(&m, 1 + maker_draw(&m, maker_draw(&m, 4) ? 8 : 30));
      finish(&m);
      t.status = graph_status(g);
    }
  }
  trap_leave(&t);
  for (int k = 0; k < FUZZ_SIZES; k++) run_deinit(&m.run[k]);
  arena_deinit(&a);
  if (!t.status) return g;
  graph_free(g);
  return NULL;
}
