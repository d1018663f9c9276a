// copy.c -- a graph with one change (graphfuzz.h).
//
// Every node is made anew in a new graph, so that types follow from the change; what no longer fits
// is refused by the nodes themselves.
#include "graphfuzz/graphfuzz.h"
#include "ir/internal.h"
#include "ir/text.h"

typedef struct Copier {
  Graph *from, *to;
  const Edit *e;
  DimMap dims;
  IntMap node;  // id -> the new node
  Arena *arena;
  bool done, failed;
  const Body *cut;  // loses its parameter `cut_param`
  int64_t cut_param;
  VEC(Node *) added;  // inputs that stand for nodes
} Copier;

static Dim copy_dim(Copier *c, Dim d) {
  const Edit *e = c->e;
  if (e->kind == EDIT_DIM && ie_is(d, e->a)) {
    c->done = true;
    return ie_const(&c->to->dims, e->b);
  }
  if (e->kind == EDIT_SIZES && !ie_is_const(d)) {
    int64_t v = fuzz_dim(d, (int)e->a);
    if (v >= 0) return ie_const(&c->to->dims, v);
  }
  if (d->kind == IE_SYM && d->fresh && !dimmap_has(&c->dims, d))
    dimmap_bind(&c->dims, d, ie_fresh(&c->to->dims, "d"));
  return dimmap_apply(&c->dims, d);
}

static const Type *copy_type(Copier *c, const Type *t) {
  Dim dims[MAX_RANK];
  switch ((TypeKind)t->kind) {
  case TK_SEQUENCE: return type_sequence(c->to, copy_type(c, t->elem));
  case TK_OPTIONAL: return type_optional(c->to, copy_type(c, t->elem));
  case TK_MAP: return type_map(c->to, t->dtype, copy_type(c, t->elem));
  case TK_NONE: return type_none(c->to);
  case TK_TENSOR: break;
  }
  if (t->rank < 0) return type_unranked(c->to, t->dtype);
  for (int i = 0; i < t->rank; i++) {
    dims[i] = copy_dim(c, t->dims[i]);
    c->failed |= ie_is_poison(dims[i]);
  }
  if (c->failed) return type_scalar(c->to, t->dtype);
  return type_tensor(c->to, t->dtype, t->rank, dims);
}

static Node *lookup(Copier *c, const Node *n) {
  uint64_t v = 0;
  if (n == c->from->none) return c->to->none;
  CHECK(intmap_get(&c->node, n->id, &v), "%s %u is not copied yet", op_name(n), (unsigned)n->id);
  return (Node *)(uintptr_t)v;
}

static void set(Copier *c, const Node *n, Node *to) {
  intmap_put(&c->node, n->id, (uint64_t)(uintptr_t)to);
}

static Node *copy_const(Copier *c, const Node *n) {
  int64_t dims[MAX_RANK];
  const Type *t = type_of(n);
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  return node_const(c->to, t->dtype, t->rank, dims, n->data->mem, NULL);
}

static Node *zeros(Copier *c, const Type *t) {
  int64_t dims[MAX_RANK], n = 1, bytes;
  if (t->kind != TK_TENSOR || !type_is_static(t) || t->dtype == DT_STRING) return NULL;
  for (int i = 0; i < t->rank; i++) n *= dims[i] = t->dims[i]->value;
  if (!dtype_bytes(t->dtype, n, &bytes)) return NULL;
  return node_const(c->to, t->dtype, t->rank, dims, arena_alloc(c->arena, bytes + 1), NULL);
}

static Body *copy_body(Copier *c, const Body *b);
static void copy_nodes(Copier *c, const Body *b);

static const Body *attr_body(const Node *n, int index) {
  const OpInfo *op = op_info(n->op);
  if (index >= op->nattrs || op->attrs[index].kind != ATTR_body) return NULL;
  return *(const Body *const *)((const char *)n->attrs + op->attrs[index].offset);
}

// The parts of a node with several results take these in their place.
static Node *spread(Copier *c, const Node *n, int64_t count, Node *const *v) {
  for (int64_t i = 0; i < c->from->node.n; i++) {
    const Node *p = c->from->node.v[i];
    if (p->op != OP_proj || p->src[0] != n) continue;
    int64_t index = ((const proj_attrs *)p->attrs)->index;
    if (index < count) set(c, p, v[index]);
  }
  return v[0];
}

// A branch, or the first round of a loop without stacked results.
static Node *inlined(Copier *c, const Node *n) {
  const Body *b = attr_body(n, (int)c->e->a);
  int64_t first = n->op == OP_loop, at = 0, own = n->op == OP_loop ? 0 : 1;
  if (!b || (n->op != OP_if && n->op != OP_loop) || b->nresults - first != n->nres) return NULL;
  if (n->op == OP_if && c->e->a == 2) at = attr_body(n, 1)->nparams;
  if (n->op == OP_loop && (int64_t)n->nsrc - 2 - *(const int64_t *)n->attrs != n->nres) return NULL;
  for (int64_t i = 0; i < b->nparams; i++) {
    Node *v = lookup(c, n->src[own + at + i]);
    if (n->op == OP_loop && i == 0) v = node_i64(c->to, 0);
    if (n->op == OP_loop && i == 1) v = node_scalar(c->to, DT_BOOL, 1);
    set(c, b->param[i], v);
  }
  copy_nodes(c, b);
  Node **v = arena_array(c->arena, Node *, n->nres + 1);
  for (int i = 0; i < n->nres; i++) v[i] = lookup(c, b->result[first + i]);
  return spread(c, n, n->nres, v);
}

static Node *new_input(Copier *c, const Node *n) {
  Node **v = arena_array(c->arena, Node *, n->nres + 1);
  for (int i = 0; i < n->nres; i++) {
    if (n->type[i]->kind == TK_NONE) return NULL;
    const char *name = str_printf(&c->to->arena, "i%u_%d", (unsigned)n->id, i);
    v[i] = node_param(c->to, copy_type(c, n->type[i]), name);
    vec_push(c->arena, &c->added, v[i]);
  }
  return n->nres == 1 ? v[0] : spread(c, n, n->nres, v);
}

// What the edit puts in a node's place; NULL where that is nothing.
static Node *replaced(Copier *c, const Node *n) {
  const Edit *e = c->e;
  Node *v = NULL;
  if (e->kind == EDIT_PARAM) v = new_input(c, n);
  if (e->kind == EDIT_ZERO && n->nres == 1) v = zeros(c, type_of(n));
  if (e->kind == EDIT_INLINE) v = inlined(c, n);
  if (e->kind == EDIT_BYPASS && e->a < (int64_t)n->nsrc && n->nres == 1 &&
      type_of(n->src[e->a]) == type_of(n))
    v = lookup(c, n->src[e->a]);
  c->done |= v != NULL;
  c->failed |= v == NULL;
  return v;
}

static bool uses(Copier *c, const Body *b, const Node *p) {
  const Body bare = {.nresults = b->nresults, .result = b->result};
  NodeList l = body_order(c->from, &bare, c->arena);
  for (int64_t i = 0; i < l.n; i++)
    if (l.v[i] == p) return true;
  return false;
}

// Which operand the captured value is; its body and parameter are noted.  -1: it cannot go.
static int64_t cut_capture(Copier *c, const Node *n, char *attrs) {
  int64_t k = c->e->a, *count = (int64_t *)(void *)attrs, operand = -1;
  if (n->op == OP_if) {
    bool in_then = k < *count;
    c->cut = attr_body(n, in_then ? 1 : 2);
    c->cut_param = in_then ? k : k - *count;
    operand = 1 + k;
    if (in_then) --*count;
  } else if (n->op != OP_fused && k < *count) {
    for (int i = 0; !c->cut && i < op_info(n->op)->nattrs; i++) c->cut = attr_body(n, i);
    c->cut_param = c->cut->nparams - *count + k;
    operand = n->nsrc - *count + k;
    --*count;
  }
  bool ok = operand >= 0 && operand < n->nsrc && c->cut_param < c->cut->nparams &&
            !uses(c, c->cut, c->cut->param[c->cut_param]);
  c->done |= ok;
  c->failed |= !ok;
  return ok ? operand : -1;
}

static Node *copied(Copier *c, const Node *n) {
  const OpInfo *op = op_info(n->op);
  Node **src = arena_array(c->arena, Node *, n->nsrc + 1);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = lookup(c, n->src[i]);
  if (n->op == OP_proj) return node_proj(c->to, src[0], (int)((const proj_attrs *)n->attrs)->index);
  char *attrs = n->attrs ? arena_dup(c->arena, n->attrs, op->attrs_size) : NULL;
  int64_t gone = -1, nsrc = n->nsrc;
  if (c->e->kind == EDIT_CAPTURE && c->e->node == n->id && (op->flags & OPF_CONTROL)) {
    gone = cut_capture(c, n, attrs);
    if (gone < 0) return NULL;
    for (int64_t i = gone; i + 1 < nsrc; i++) src[i] = src[i + 1];
    nsrc--;
  }
  for (int i = 0; i < op->nattrs; i++) {
    const Body *b = attr_body(n, i);
    if (b) *(const Body **)(attrs + op->attrs[i].offset) = copy_body(c, b);
  }
  if (c->e->kind == EDIT_ATTR && c->e->node == n->id) {
    const AttrDesc *d = &op->attrs[c->e->a];
    char *fresh = arena_alloc(c->arena, op->attrs_size + 16);
    attrs_defaults(op->attrs, op->nattrs, fresh);
    int64_t end = c->e->a + 1 < op->nattrs ? d[1].offset : op->attrs_size;
    memcpy(attrs + d->offset, fresh + d->offset, (size_t)(end - d->offset));
    c->done = true;
  }
  return node_new(c->to, n->op, (int)nsrc, src, attrs, n->nres, n->name);
}

static void copy_nodes(Copier *c, const Body *b) {
  NodeList l = body_order(c->from, b, c->arena);
  uint64_t have;
  for (int64_t i = 0; i < l.n && !c->failed; i++) {
    const Node *n = l.v[i];
    if (n == c->from->none || intmap_get(&c->node, n->id, &have)) continue;
    bool here = c->e->node == n->id && n->op != OP_param && n->op != OP_const && n->op != OP_proj &&
                c->e->kind >= EDIT_PARAM && c->e->kind <= EDIT_INLINE;
    Node *v = n->op == OP_const ? copy_const(c, n) : here ? replaced(c, n) : copied(c, n);
    if (v && !c->failed) set(c, n, v);
    c->failed |= graph_status(c->to) != TENON_OK;
  }
}

static void copy_params(Copier *c, const Body *b) {
  for (int64_t i = 0; i < b->nparams; i++)
    set(c, b->param[i], node_param(c->to, copy_type(c, type_of(b->param[i])), b->param[i]->name));
}

static Body *copy_body(Copier *c, const Body *b) {
  copy_params(c, b);
  copy_nodes(c, b);
  Node **param = arena_array(c->arena, Node *, b->nparams + 1);
  Node **result = arena_array(c->arena, Node *, b->nresults + 1);
  if (c->failed) return NULL;
  int64_t np = 0;
  for (int64_t i = 0; i < b->nparams; i++)
    if (b != c->cut || i != c->cut_param) param[np++] = lookup(c, b->param[i]);
  for (int64_t i = 0; i < b->nresults; i++) result[i] = lookup(c, b->result[i]);
  return body_new(c->to, b->name, np, param, b->nresults, result);
}

// The new main body, with the inputs that it needs (all of them where nothing is cut).
static void copy_main(Copier *c) {
  const Body *b = c->from->main;
  const Edit *e = c->e;
  Graph *g = c->to;
  Node *one[1], **old = b->result, **result = arena_array(c->arena, Node *, b->nresults + 1);
  int64_t n = b->nresults, kept = 0, np = 0;
  if (e->kind == EDIT_RESULT) {
    one[0] = c->from->node.v[e->node];
    old = one;
    n = 1;
    c->done = true;
  }
  const Body part = {.nparams = b->nparams, .param = b->param, .nresults = n, .result = old};
  copy_params(c, b);
  copy_nodes(c, &part);
  if (c->failed) return;
  for (int64_t i = 0; i < n; i++) {
    bool drop = e->kind == EDIT_DROP && e->a == i && n > 1;
    c->done |= drop;
    if (!drop) result[kept++] = lookup(c, old[i]);
  }
  const Body bare = {.nresults = kept, .result = result};
  NodeList l = body_order(g, &bare, c->arena);
  Node **param = arena_array(c->arena, Node *, b->nparams + c->added.n + 1);
  for (int64_t i = 0; i < b->nparams + c->added.n; i++) {
    Node *p = i < b->nparams ? lookup(c, b->param[i]) : c->added.v[i - b->nparams];
    bool used = e->kind == EDIT_NONE || e->kind == EDIT_SIZES;
    for (int64_t k = 0; !used && k < l.n; k++) used = l.v[k] == p;
    if (used) param[np++] = p;
  }
  g->main = body_new(g, b->name, np, param, kept, result);
  g->body.n--;
  for (int64_t i = 0; i < kept; i++)
    g->main->result_name[i] = str_printf(&g->arena, "y%lld", (long long)i);
}

Graph *fuzz_copy(Graph *from, const Edit *e, Diag *d) {
  Graph *to = NULL;
  Arena a;
  arena_init(&a);
  Copier c = {.from = from, .e = e, .arena = &a};
  Trap t;
  volatile bool ok = false;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    t.status = graph_create(d, &to);
    if (!t.status) {
      c.to = to;
      dimmap_init(&c.dims, &to->dims, &a);
      intmap_init(&c.node, &a);
      copy_main(&c);
      ok = !c.failed && !graph_status(to) &&
           (c.done || e->kind == EDIT_NONE || e->kind == EDIT_SIZES);
    }
  }
  trap_leave(&t);
  arena_deinit(&a);
  if (ok) return to;
  graph_free(to);
  return NULL;
}
