// verify.c -- check every invariant of a graph (ir.h).
//
// First each node by itself, by id, so that a later check can follow any operand; then each body:
// that it reaches no parameter but its own; last the types: inference is run again and must say the
// same, up to the names of the fresh dimensions that it makes.
//
// Needs:      a finished graph (graph_status OK, main set); nothing else is taken for granted.
// Guarantees: TENON_OK, or the first node that is wrong, with what is wrong about it.  Running
//             inference again may add nodes to the graph that nothing uses (the expansions of
//             composites), and no others.
#include "ir/custom.h"
#include "ir/internal.h"

typedef struct Verifier {
  Graph *g;
  Diag *d;
  Arena *arena;
  int64_t nnodes;
  const Body **owner;  // by node id: the body whose parameter it is
  uint32_t *stamp;     // by node id: the last body that was found to reach it
  bool *live;          // by node id: reached from main, through bodies too
  uint32_t nbodies;
  IntMap listed;              // the graph's bodies and sources, by address
  IntMap seen;                // bodies that were checked
  VEC(const Body *) pending;  // bodies found, to be checked
} Verifier;

static tenon_status wrong(Verifier *v, const Node *n, const char *fmt, ...) PRINTF(3, 4);
static tenon_status wrong(Verifier *v, const Node *n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  Where at = {.node = n->name, .op = n->op < OP_COUNT ? op_name(n) : NULL};
  if (!n->name) at.node = str_printf(v->arena, "#%u", (unsigned)n->id);
  tenon_status s = failv(v->d, TENON_EINVAL, at, fmt, ap);
  va_end(ap);
  return s;
}

// ---- one node ----

static bool in_pool(const Graph *g, Dim d) {
  if (d->kind != IE_SYM) return true;
  return d->slot >= 0 && d->slot < g->dims.sym.n && g->dims.sym.v[d->slot] == d;
}

static tenon_status check_type(Verifier *v, const Node *n, int i, const Type *t) {
  if (!t) return wrong(v, n, "result %d has no type", i);
  if (t->kind == TK_NONE) return TENON_OK;
  if (t->dtype && !dtype_valid(t->dtype)) return wrong(v, n, "result %d has dtype %d", i, t->dtype);
  if (t->kind != TK_TENSOR) return check_type(v, n, i, t->elem);
  if (t->rank < -1 || t->rank > MAX_RANK) return wrong(v, n, "result %d has rank %d", i, t->rank);
  for (int k = 0; k < t->rank; k++) {
    if (!t->dims[k] || ie_is_poison(t->dims[k]))
      return wrong(v, n, "dimension %d of result %d is no number", k, i);
    if (t->dims[k]->hi < 0) return wrong(v, n, "dimension %d of result %d is negative", k, i);
    if (!in_pool(v->g, t->dims[k]))
      return wrong(v, n, "dimension %d of result %d belongs to another graph", k, i);
  }
  return TENON_OK;
}

static tenon_status check_moved(Verifier *v, const Node *n) {
  const Node *m = n->data->moved;
  if ((m->op != OP_transpose && m->op != OP_concat) || type_of(m) != type_of(n) || n->data->source)
    return wrong(v, n, "a constant is said to be moved by %s", op_name(m));
  for (uint32_t i = 0; i < m->nsrc; i++)
    if (m->src[i]->op != OP_const) return wrong(v, n, "what is moved is no constant");
  return TENON_OK;
}

static tenon_status check_const(Verifier *v, const Node *n) {
  const ConstData *c = n->data;
  const Type *t = type_of(n);
  int64_t dims[MAX_RANK], count, nbytes, end;
  if (!c) return wrong(v, n, "a constant without contents");
  if (t->kind != TK_TENSOR || !t->dtype || !type_is_static(t))
    return wrong(v, n, "a constant must be a tensor of known type and shape");
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  if (!shape_count(t->rank, dims, &count) || !dtype_bytes(t->dtype, count, &nbytes) ||
      count != c->n || nbytes != c->bytes)
    return wrong(v, n, "%lld elements in %lld bytes do not fit the type", (long long)c->n,
                 (long long)c->bytes);
  if (c->moved) return check_moved(v, n);
  if (!c->source) return c->mem ? TENON_OK : wrong(v, n, "a constant without bytes");
  if (c->offset < 0 || !ck_add(c->offset, c->bytes, &end))
    return wrong(v, n, "the constant lies at offset %lld", (long long)c->offset);
  uint64_t unused;
  if (intmap_get(&v->listed, (uint64_t)(uintptr_t)c->source, &unused)) return TENON_OK;
  return wrong(v, n, "the constant's source is not the graph's");
}

static tenon_status check_proj(Verifier *v, const Node *n) {
  if (n->nsrc != 1 || !n->attrs) return wrong(v, n, "a projection without what it projects");
  int64_t index = ((const proj_attrs *)n->attrs)->index;
  if (n->src[0]->nres == 1) return wrong(v, n, "a projection of a node that has one result");
  if (index < 0 || index >= n->src[0]->nres)
    return wrong(v, n, "projects result %lld of %d", (long long)index, n->src[0]->nres);
  if (type_of(n) != n->src[0]->type[index])
    return wrong(v, n, "has another type than the result that it projects");
  return TENON_OK;
}

static tenon_status check_operands(Verifier *v, const Node *n) {
  const OpInfo *op = op_info(n->op);
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const Node *s = n->src[i];
    if (!s) return wrong(v, n, "operand %u is missing", (unsigned)i);
    if (s->id >= n->id || v->g->node.v[s->id] != s)
      return wrong(v, n, "operand %u was not made before the node", (unsigned)i);
    if (s == v->g->poison) return wrong(v, n, "operand %u is poison", (unsigned)i);
    if (s->nres != 1 && n->op != OP_proj)
      return wrong(v, n, "operand %u has %d results and no projection", (unsigned)i, s->nres);
  }
  if (n->op == OP_proj) return check_proj(v, n);
  int lo, hi;
  op_operand_range(op, &lo, &hi);
  if ((int64_t)n->nsrc < lo || (int64_t)n->nsrc > hi)
    return wrong(v, n, "%u operands, must be %d to %d", (unsigned)n->nsrc, lo, hi);
  if (n->nsrc && n->src[n->nsrc - 1] == v->g->none && !(op->flags & OPF_CONTROL))
    return wrong(v, n, "a trailing operand is absent and was not dropped");
  return TENON_OK;
}

static tenon_status check_attrs(Verifier *v, const Node *n) {
  const OpInfo *op = op_info(n->op);
  if (op->attrs_size && !n->attrs) return wrong(v, n, "the attributes are missing");
  for (int i = 0; i < op->nattrs; i++) {
    const AttrDesc *a = &op->attrs[i];
    const void *field = (const char *)n->attrs + a->offset;
    if (a->kind == ATTR_dtype) {
      DType t = *(const DType *)field;
      if (t && !dtype_valid(t)) return wrong(v, n, "attribute %s is dtype %d", a->name, t);
    }
    if (a->kind == ATTR_choice) {
      int c = *(const int *)field, words = 1;
      for (const char *p = a->choices; *p; p++) words += *p == '|';
      if (c < 0 || c >= words)
        return wrong(v, n, "attribute %s is choice %d of %d", a->name, c, words);
    }
  }
  return TENON_OK;
}

static tenon_status check_node(Verifier *v, const Node *n, int64_t id) {
  if (n->id != id) return wrong(v, n, "stands at place %lld", (long long)id);
  if (n->op >= OP_COUNT) return wrong(v, n, "there is no op %d", n->op);
  if (n->nres < 1) return wrong(v, n, "the node has no result");
  TRY(check_operands(v, n));
  for (int i = 0; i < n->nres; i++) TRY(check_type(v, n, i, n->type[i]));
  if (n->op == OP_const) return check_const(v, n);
  return check_attrs(v, n);
}

// ---- bodies ----

static tenon_status check_body_parts(Verifier *v, const Body *b) {
  const char *name = b->name ? b->name : "";
  uint64_t unused;
  if (!intmap_get(&v->listed, (uint64_t)(uintptr_t)b, &unused))
    return fail(v->d, TENON_EINVAL, NOWHERE, "body '%s' is not among the graph's bodies", name);
  for (int64_t i = 0; i < b->nparams; i++) {
    const Node *n = b->param[i];
    if (!n || n->op != OP_param || v->g->node.v[n->id] != n)
      return fail(v->d, TENON_EINVAL, NOWHERE, "body '%s': parameter %lld is no parameter", name,
                  (long long)i);
    if (v->owner[n->id]) return wrong(v, n, "a parameter of two bodies, or twice of one");
    v->owner[n->id] = b;
  }
  for (int64_t i = 0; i < b->nresults; i++) {
    const Node *n = b->result[i];
    if (!n || n == v->g->poison || v->g->node.v[n->id] != n)
      return fail(v->d, TENON_EINVAL, NOWHERE, "body '%s': result %lld is no node", name,
                  (long long)i);
    if (n->nres != 1) return wrong(v, n, "result %lld of a body has no projection", (long long)i);
  }
  return TENON_OK;
}

static void find_bodies(Verifier *v, const Node *n) {
  const OpInfo *op = op_info(n->op);
  for (int i = 0; i < op->nattrs; i++) {
    if (op->attrs[i].kind != ATTR_body) continue;
    const Body *b = *(const Body *const *)((const char *)n->attrs + op->attrs[i].offset);
    if (b) vec_push(v->arena, &v->pending, b);
  }
}

// Everything that the results need: constants, and what hangs on the body's own parameters.
static tenon_status check_body(Verifier *v, const Body *b) {
  TRY(check_body_parts(v, b));
  uint32_t mark = ++v->nbodies;
  VEC(const Node *) stack = {0};
  for (int64_t i = 0; i < b->nresults; i++) vec_push(v->arena, &stack, b->result[i]);
  while (stack.n) {
    const Node *n = stack.v[--stack.n];
    if (v->stamp[n->id] == mark) continue;
    v->stamp[n->id] = mark;
    v->live[n->id] = true;
    if (n->op == OP_param && v->owner[n->id] != b)
      return wrong(v, n, "body '%s' uses a parameter that is not its own", b->name ? b->name : "");
    find_bodies(v, n);
    for (uint32_t i = 0; i < n->nsrc; i++) vec_push(v->arena, &stack, n->src[i]);
  }
  return TENON_OK;
}

static tenon_status check_bodies(Verifier *v) {
  vec_push(v->arena, &v->pending, v->g->main);
  while (v->pending.n) {
    const Body *b = v->pending.v[--v->pending.n];
    uint64_t unused;
    if (intmap_get(&v->seen, (uint64_t)(uintptr_t)b, &unused)) continue;
    intmap_put(&v->seen, (uint64_t)(uintptr_t)b, 1);
    TRY(check_body(v, b));
  }
  return TENON_OK;
}

static tenon_status check_names(Verifier *v) {
  const Body *b = v->g->main;
  StrMap params, results;
  strmap_init(&params, v->arena);
  strmap_init(&results, v->arena);
  for (int64_t i = 0; i < b->nparams; i++) {
    if (!b->param[i]->name) continue;
    Str name = str_of(b->param[i]->name);
    if (strmap_has(&params, name)) return wrong(v, b->param[i], "two inputs have this name");
    strmap_put(&params, name, b->param[i]);
  }
  for (int64_t i = 0; i < b->nresults; i++) {
    if (!b->result_name || !b->result_name[i]) continue;
    Str name = str_of(b->result_name[i]);
    if (strmap_has(&results, name))
      return fail(v->d, TENON_EINVAL, NOWHERE, "two outputs are called '%s'", b->result_name[i]);
    strmap_put(&results, name, b->result[i]);
  }
  return TENON_OK;
}

// ---- types ----

// Equal, but that fresh symbols of one inference stand for those of the other.  Where they are part
// of an expression its order depends on their names, so it is only asked that both sides have some.
static bool same_dim(Dim a, Dim b, IntMap *renamed) {
  if (a == b) return true;
  if (!ie_has_fresh(a) || !ie_has_fresh(b)) return false;
  if (a->kind != IE_SYM || b->kind != IE_SYM) return a->kind == b->kind;
  uint64_t other;
  if (intmap_get(renamed, a->id, &other)) return other == b->id;
  intmap_put(renamed, a->id, b->id);
  return true;
}

static bool same_type(const Type *a, const Type *b, IntMap *renamed) {
  if (a == b) return true;
  if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (!same_dim(a->dims[i], b->dims[i], renamed)) return false;
  return !a->elem || !b->elem ? a->elem == b->elem : same_type(a->elem, b->elem, renamed);
}

static const char *type_text(Verifier *v, const Type *t) {
  StrBuf b;
  strbuf_init(&b, v->arena);
  type_print(&b, t);
  return strbuf_text(&b);
}

static tenon_status infer_again(Verifier *v, Node *n, const Type **type) {
  const OpInfo *op = op_info(n->op);
  Infer in = {.g = v->g,
              .op = op,
              .attrs = n->attrs,
              .src = n->src,
              .nsrc = (int)n->nsrc,
              .nres = n->nres,
              .type = type,
              .at = {.node = n->name, .op = op->name},
              .diag = v->d};
  if (op->infer) return op->infer(&in);
  Node **out = arena_array(v->arena, Node *, n->nres);
  op->expand(v->g, n, out);
  TRY(graph_status(v->g));
  for (int i = 0; i < n->nres; i++) type[i] = type_of(out[i]);
  return TENON_OK;
}

static bool is_inferred(const Graph *g, const Node *n) {
  if (n->op == OP_none || n->op == OP_param || n->op == OP_const || n->op == OP_proj) return false;
  if (n->op != OP_foreign) return true;
  return custom_find(g->custom, ((const foreign_attrs *)n->attrs)->op) != NULL;
}

static tenon_status check_inference(Verifier *v, Node *n) {
  IntMap renamed;
  const Type **type = arena_array(v->arena, const Type *, n->nres);
  TRY(infer_again(v, n, type));
  intmap_init(&renamed, v->arena);
  for (int i = 0; i < n->nres; i++) {
    if (!type[i]) return wrong(v, n, "result %d: inference gives no type", i);
    if (!same_type(type[i], n->type[i], &renamed))
      return wrong(v, n, "result %d is %s, but inference says %s", i, type_text(v, n->type[i]),
                   type_text(v, type[i]));
  }
  return TENON_OK;
}

static void list_owned(Verifier *v) {
  Graph *g = v->g;
  intmap_init(&v->listed, v->arena);
  intmap_init(&v->seen, v->arena);
  intmap_put(&v->listed, (uint64_t)(uintptr_t)g->main, 1);
  for (int64_t i = 0; i < g->body.n; i++)
    intmap_put(&v->listed, (uint64_t)(uintptr_t)g->body.v[i], 1);
  for (int64_t i = 0; i < g->source.n; i++)
    intmap_put(&v->listed, (uint64_t)(uintptr_t)g->source.v[i], 1);
}

static tenon_status verify(Verifier *v) {
  Graph *g = v->g;
  if (g->status) return fail(v->d, g->status, NOWHERE, "the graph was not built to its end");
  if (!g->main) return fail(v->d, TENON_EINVAL, NOWHERE, "the graph has no main body");
  list_owned(v);
  for (int64_t i = 0; i < v->nnodes; i++) TRY(check_node(v, g->node.v[i], i));
  TRY(check_bodies(v));
  TRY(check_names(v));
  TRY(state_verify(g, body_order(g, g->main, v->arena), v->arena, v->d));
  for (int64_t i = 0; i < v->nnodes; i++)
    if (v->live[i] && is_inferred(g, g->node.v[i])) TRY(check_inference(v, g->node.v[i]));
  return TENON_OK;
}

tenon_status graph_verify(Graph *g, Diag *d) {
  ArenaMark mark = arena_mark(&g->scratch);
  Verifier v = {.g = g, .d = d, .arena = &g->scratch, .nnodes = g->node.n};
  v.owner = arena_array(v.arena, const Body *, v.nnodes);
  v.stamp = arena_array(v.arena, uint32_t, v.nnodes);
  v.live = arena_array(v.arena, bool, v.nnodes);
  tenon_status s = verify(&v);
  arena_reset(&g->scratch, mark);
  return s;
}
