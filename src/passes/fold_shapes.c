// fold_shapes.c -- the pass fold-shapes: replaces shape arithmetic by its result.
//
// Exporters compute sizes with tensors.  Inference follows the contents of such a tensor.  Each
// integer tensor with known contents becomes a constant.  Where symbols remain it becomes one
// `dims` node over values that have these symbols as sizes: the body's parameters, else the first
// node with a size that only running tells.
//
// A tensor that holds one number everywhere, however it was cut out of constants, becomes that
// number broadcast.
//
// Needs:      Node.sym, the contents that inference knows.
// Guarantees: bit-equal; the nodes that computed the shape are dead; nothing but sizes is read.
#include "eval/dims.h"
#include "ir/text.h"
#include "passes/passes.h"

typedef struct Sized {
  Node *node;
  int axis;
} Sized;
typedef struct Region {
  struct Region *outer;
  IntMap sized;  // symbol's slot -> Sized *
} Region;
typedef struct Shapes {
  PassCtx *c;
  Arena *arena;
  Region *region;  // of the body being walked
} Shapes;

static void note_sizes(Shapes *s, Node *n) {
  for (int r = 0; r < n->nres && n->nres == 1; r++) {
    const Type *t = n->type[r];
    uint64_t unused;
    if (t->kind != TK_TENSOR) continue;
    for (int i = 0; i < t->rank; i++) {
      if (t->dims[i]->kind != IE_SYM ||
          intmap_get(&s->region->sized, (uint64_t)t->dims[i]->slot, &unused))
        continue;
      Sized *at = arena_new(s->arena, Sized);
      *at = (Sized){n, i};
      intmap_put(&s->region->sized, (uint64_t)t->dims[i]->slot, (uint64_t)(uintptr_t)at);
    }
  }
}

static void begin_body(void *ctx, const Body *b, NodeList order) {
  Shapes *s = ctx;
  (void)order;
  Region *r = arena_new(s->arena, Region);
  r->outer = s->region;
  intmap_init(&r->sized, s->arena);
  s->region = r;
  for (int64_t i = 0; i < b->nparams; i++) note_sizes(s, b->param[i]);
}

static void end_body(void *ctx) {
  Shapes *s = ctx;
  s->region = s->region->outer;
}

// The operands of a dims node, as symbols are met.
typedef struct Carriers {
  Node *v[64];
  int n;
} Carriers;

static bool bind_symbols(Shapes *s, const DimVec *syms, IntPool *pool, DimMap *map, Carriers *out) {
  for (int64_t i = 0; i < syms->n; i++) {
    uint64_t at;
    if (!intmap_get(&s->region->sized, (uint64_t)syms->v[i]->slot, &at)) return false;
    const Sized *from = (const Sized *)(uintptr_t)at;
    int k = 0;
    while (k < out->n && out->v[k] != from->node) k++;
    if (k == ARRAY_LEN(out->v)) return false;
    if (k == out->n) out->v[out->n++] = from->node;
    const char *name = str_printf(s->c->scratch, "x%d_%d", k, from->axis);
    dimmap_bind(map, syms->v[i], ie_sym(pool, str_of(name), 0, INT64_MAX));
  }
  return true;
}

static Node *make_dims(Shapes *s, const Node *n, int64_t count, const Dim *sym, bool scalar) {
  Graph *g = s->c->g;
  Arena *a = s->c->scratch;
  IntPool *pool = arena_new(a, IntPool);
  intpool_init(pool, a);
  DimMap map;
  dimmap_init(&map, pool, a);
  IntMap seen;
  intmap_init(&seen, a);
  DimVec syms = {0};
  for (int64_t i = 0; i < count; i++) dim_symbols(sym[i], &seen, a, &syms);
  Carriers from = {.n = 0};
  if (!bind_symbols(s, &syms, pool, &map, &from)) return NULL;
  StrBuf text;
  strbuf_init(&text, a);
  for (int64_t i = 0; i < count; i++) {
    Dim d = dimmap_apply(&map, sym[i]);
    if (ie_is_poison(d)) return NULL;
    if (i) strbuf_puts(&text, ", ");
    ie_print(&text, d);
  }
  dims_attrs at = {.sizes = strbuf_str(&text), .scalar = scalar};
  return node_new(g, OP_dims, from.n, from.v, &at, 1, n->name);
}

static Node *splat_const(Graph *g, const Node *n) {
  const Value *v = node_known(g, n);
  int64_t size = v ? elem_bytes(v->dtype) : 0;
  if (!size || v->n < 1) return NULL;
  for (int64_t i = 1; i < v->n; i++)
    if (memcmp(v->data, (const char *)v->data + i * size, (size_t)size)) return NULL;
  return node_const(g, v->dtype, 0, NULL, v->data, NULL);
}

// The one number that every element of n is, as a node of rank 0; NULL when it is not known.
static Node *splat_of(Graph *g, const Node *n) {
  enum { DEPTH = 16 };
  for (int depth = 0; depth < DEPTH; depth++) {
    if (n->op == OP_const) return splat_const(g, n);
    if (!(op_info(n->op)->flags & OPF_SELECTS)) return NULL;
    n = n->src[0];
  }
  return NULL;
}

static Node *make_splat(Shapes *s, Node *n) {
  Graph *g = s->c->g;
  const Type *t = type_of(n);
  if (n->op == OP_expand || n->op == OP_const || t->rank < 1 || type_is_static(t)) return n;
  Node *value = splat_of(g, n), *shape = value ? make_dims(s, n, t->rank, t->dims, false) : NULL;
  if (!shape || shape == g->poison) return n;
  Node *r = N(g, expand, value, shape);
  return r != g->poison && type_of(r) == t ? r : n;
}

static Node *make_const(Graph *g, const Node *n, int64_t count, const Dim *sym) {
  const Type *t = type_of(n);
  int64_t bytes = 0, dims[MAX_RANK];
  if (!dtype_bytes(t->dtype, count, &bytes)) return NULL;
  void *data = arena_alloc(&g->scratch, MAX(bytes, 8));
  for (int64_t i = 0; i < count; i++) put_i64(t->dtype, data, i, sym[i]->value);
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  return node_const(g, t->dtype, t->rank, dims, data, n->name);
}

static Node *replace(Shapes *s, Node *n) {
  Graph *g = s->c->g;
  const Type *t = type_of(n);
  int64_t count;
  const Dim *sym;
  if (n->nres != 1 || t->kind != TK_TENSOR || n->op == OP_const || n->op == OP_proj) return n;
  if (!type_is_static(t)) return make_splat(s, n);
  if (n->op == OP_dims || !dtype_is_int(t->dtype) || !node_sym(g, n, &count, &sym) ||
      count > DIMS_MAX)
    return n;
  bool fixed = true;
  for (int64_t i = 0; i < count; i++) fixed &= ie_is_const(sym[i]);
  Node *r = NULL;
  if (fixed)
    r = make_const(g, n, count, sym);
  else if (t->dtype == DT_I64 && t->rank <= 1)
    r = make_dims(s, n, count, sym, t->rank == 0);
  return r && r != g->poison && type_of(r) == t ? r : n;
}

static Node *shapes_node(void *ctx, Node *n, Node *old) {
  Shapes *s = ctx;
  (void)old;
  ArenaMark mark = arena_mark(s->c->scratch), inner = arena_mark(&s->c->g->scratch);
  Node *r = replace(s, n);
  arena_reset(&s->c->g->scratch, inner);
  arena_reset(s->c->scratch, mark);
  note_sizes(s, r);
  return r;
}

tenon_status pass_fold_shapes(PassCtx *c, bool *out_changed) {
  Arena a;
  arena_init_scoped(&a);
  Shapes s = {.c = c, .arena = &a};
  GraphMap m = {
      .g = c->g, .fn = shapes_node, .ctx = &s, .begin_body = begin_body, .end_body = end_body};
  tenon_status st = graph_map(&m, out_changed);
  arena_deinit(&a);
  return st;
}
