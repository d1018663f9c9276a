// graph.c -- graphs and the construction of nodes.
//
// node_new is the only way in: it checks the operand count, puts operands of commutative ops in
// canonical order (constants right, then by id), looks for an equal node, infers types and known
// contents, and interns.  Guarantees: see the invariants in ir.h.
#include "ir/internal.h"
#include "ir/traits.h"

// ---- hash-consing ----

void table_init(Graph *g) { g->table = arena_new(&g->arena, GraphTable); }

// A body by its first result: parameters never merge, so that no two bodies share one by chance.
static uint64_t body_hash(const OpInfo *op, const void *attrs, uint64_t h) {
  for (int i = 0; i < op->nattrs; i++) {
    if (op->attrs[i].kind != ATTR_body) continue;
    const Body *b = *(const Body *const *)((const char *)attrs + op->attrs[i].offset);
    if (b && b->nresults) h = hash_u64(h ^ b->result[0]->id);
  }
  return h;
}

enum {
  SHARED_MAX = 65536
};  // bytes of a constant whose contents decide; a larger one equals itself

static uint64_t data_hash(const Node *n) {
  const ConstData *d = n->data;
  uint64_t h = hash_u64((uint64_t)(uintptr_t)n->type[0] ^ (uint64_t)(uintptr_t)d->source);
  if (d->source) return hash_u64(h ^ (uint64_t)d->offset);
  if (d->moved) return hash_u64(h ^ d->moved->id);
  if (d->bytes > SHARED_MAX) return hash_u64(h ^ (uint64_t)(uintptr_t)d->mem);
  if (type_of(n)->dtype != DT_STRING) return h ^ hash_bytes(d->mem, d->bytes, 7);
  const Str *s = d->mem;
  for (int64_t i = 0; i < d->n; i++) h = hash_u64(h ^ hash_bytes(s[i].p, s[i].n, 7));
  return h;
}

static uint32_t node_hash(const Node *n) {
  uint64_t h = hash_u64((uint64_t)n->op << 32 ^ (uint64_t)n->nres << 16 ^ n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) h = hash_u64(h ^ n->src[i]->id);
  const OpInfo *op = op_table[n->op];
  if (n->attrs) h ^= attrs_hash(op->attrs, op->nattrs, n->attrs);
  if (op->flags & OPF_CONTROL) h = body_hash(op, n->attrs, h);
  if (n->data) h = hash_u64(h ^ data_hash(n));
  return (uint32_t)(h ^ h >> 32);
}

static bool data_equal(const ConstData *a, const ConstData *b, DType t) {
  if (a->source != b->source || a->offset != b->offset || a->bytes != b->bytes) return false;
  if (a->moved || b->moved) return a->moved == b->moved;
  if (a->source || a->mem == b->mem || !a->bytes) return true;
  if (a->bytes > SHARED_MAX) return false;
  if (t != DT_STRING) return !memcmp(a->mem, b->mem, (size_t)a->bytes);
  const Str *x = a->mem, *y = b->mem;
  for (int64_t i = 0; i < a->n; i++)
    if (!str_eq(x[i], y[i])) return false;
  return true;
}

static bool node_equal(const Node *a, const Node *b) {
  if (a->hash != b->hash || a->op != b->op || a->nres != b->nres || a->nsrc != b->nsrc)
    return false;
  for (uint32_t i = 0; i < a->nsrc; i++)
    if (a->src[i] != b->src[i]) return false;
  if (a->data || b->data)
    return a->data && b->data && a->type[0] == b->type[0] &&
           data_equal(a->data, b->data, type_of(a)->dtype);
  const OpInfo *op = op_table[a->op];
  return a->attrs == b->attrs || attrs_equal(op->attrs, op->nattrs, a->attrs, b->attrs);
}

Node *table_find_node(Graph *g, const Node *key) {
  GraphTable *t = g->table;
  if (!t->node_cap) return NULL;
  uint64_t mask = (uint64_t)(t->node_cap - 1);
  for (uint64_t h = key->hash & mask; t->node[h]; h = (h + 1) & mask)
    if (node_equal(t->node[h], key)) return t->node[h];
  return NULL;
}

static void place_node(Node **slot, int64_t cap, Node *n) {
  uint64_t mask = (uint64_t)(cap - 1), h = n->hash & mask;
  while (slot[h]) h = (h + 1) & mask;
  slot[h] = n;
}

void table_add_node(Graph *g, Node *n) {
  GraphTable *t = g->table;
  if (2 * (t->nnodes + 1) > t->node_cap) {
    int64_t cap = t->node_cap ? 2 * t->node_cap : 512;
    Node **slot = arena_array(&g->arena, Node *, cap);
    for (int64_t i = 0; i < t->node_cap; i++)
      if (t->node[i]) place_node(slot, cap, t->node[i]);
    t->node = slot;
    t->node_cap = cap;
  }
  place_node(t->node, t->node_cap, n);
  t->nnodes++;
}

// ---- graphs ----

static Node *make_raw(Graph *g, int op, int nres) {
  Node *n = arena_new(&g->arena, Node);
  n->op = (uint16_t)op;
  n->nres = (uint16_t)nres;
  n->type = arena_array(&g->arena, const Type *, nres);
  return n;
}

static Node *finish(Graph *g, Node *n) {
  n->id = (uint32_t)g->node.n;
  vec_push(&g->arena, &g->node, n);
  table_add_node(g, n);
  return n;
}

static Node *make_singleton(Graph *g) {
  Node *n = make_raw(g, OP_none, 1);
  ((const Type **)n->type)[0] = type_none(g);
  n->id = (uint32_t)g->node.n;
  vec_push(&g->arena, &g->node, n);
  return n;
}

const TargetTraits traits_unknown;

tenon_status graph_create(Diag *d, Graph **out) {
  *out = NULL;
  Graph *g = mem_alloc((int64_t)sizeof *g);
  if (!g) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  g->diag = d;
  arena_init(&g->arena);
  arena_init(&g->scratch);
  *out = g;  // from here on the caller's graph_free cleans up, also after a trap
  intpool_init(&g->dims, &g->arena);
  intern_init(&g->names, &g->arena);
  table_init(g);
  g->none = make_singleton(g);
  g->poison = make_singleton(g);
  g->memory_limit = 64 << 20;
  g->traits = &traits_unknown;
  return TENON_OK;
}

void graph_free(Graph *g) {
  if (!g) return;
  for (int64_t i = 0; i < g->source.n; i++)
    if (g->source.v[i]->opened && g->source.v[i]->path) file_close(&g->source.v[i]->file);
  for (int64_t i = 0; i < g->block.n; i++) mem_free(g->block.v[i].p, g->block.v[i].bytes);
  arena_deinit(&g->scratch);
  arena_deinit(&g->arena);
  mem_free(g, (int64_t)sizeof *g);
}

tenon_status graph_status(const Graph *g) { return g->status; }

Node *graph_fail(Graph *g, tenon_status code, Where at, const char *fmt, ...) {
  if (!g->status) {
    va_list ap;
    va_start(ap, fmt);
    g->status = failv(g->diag, code, at, fmt, ap);
    va_end(ap);
  }
  return g->poison;
}

// ---- nodes ----

void op_operand_range(const OpInfo *op, int *lo, int *hi) {
  *lo = *hi = 0;
  if (!op->operands) {
    *lo = 0;
    *hi = op->arity < 0 ? INT32_MAX : op->arity;
    if (op->arity >= 0) *lo = op->arity;
    return;
  }
  for (const char *p = op->operands; *p;) {
    const char *end = p + strcspn(p, " ");
    if (end > p && end[-1] == '*') {
      *hi = INT32_MAX;
    } else {
      if (end == p || end[-1] != '?') *lo = *hi + 1;
      (*hi)++;
    }
    p = *end ? end + 1 : end;
  }
}

int op_max_results(const OpInfo *op) {
  int n = 1;
  for (const char *p = op->results ? op->results : "y"; *p; p++) {
    if (*p == ' ') n++;
    if (*p == '*') return INT32_MAX;
  }
  return n;
}

static void canonical_order(const OpInfo *op, Node **src, int nsrc) {
  if (!(op->flags & OPF_COMMUTES) || nsrc != 2) return;
  bool c0 = src[0]->op == OP_const, c1 = src[1]->op == OP_const;
  if ((c0 && !c1) || (!c0 && !c1 && src[0]->id > src[1]->id)) {
    Node *t = src[0];
    src[0] = src[1];
    src[1] = t;
  }
}

static bool check_operands(Graph *g, const OpInfo *op, int nsrc, Node *const *src, Where at) {
  int lo, hi;
  op_operand_range(op, &lo, &hi);
  if (nsrc < lo || nsrc > hi) {
    if (lo == hi)
      graph_fail(g, TENON_EINVAL, at, "%d operands, must be %d", nsrc, lo);
    else
      graph_fail(g, TENON_EINVAL, at, "%d operands, must be %s%d", nsrc,
                 nsrc < lo ? "at least " : "at most ", nsrc < lo ? lo : hi);
    return false;
  }
  for (int i = 0; i < nsrc; i++)
    if (src[i]->nres != 1) {
      graph_fail(g, TENON_EINVAL, at, "operand %d has %d results: pick one with proj", i,
                 src[i]->nres);
      return false;
    }
  for (int i = 0; i < lo; i++)
    if (src[i] == g->none && !(op->flags & OPF_CONTROL) && op != &op_foreign) {
      graph_fail(g, TENON_EINVAL, at, "operand %d is required and absent", i);
      return false;
    }
  return true;
}

static const void *own_attrs(Graph *g, const OpInfo *op, const void *attrs) {
  if (!op->attrs_size) return NULL;
  void *own = arena_alloc(&g->arena, op->attrs_size);
  if (attrs)
    attrs_copy(&g->arena, op->attrs, op->nattrs, attrs, own);
  else
    attrs_defaults(op->attrs, op->nattrs, own);
  return own;
}

static bool class_named(Str word, DTypeClass c) {
  bool whole = c == DC_INT || c == DC_UINT;
  if (str_is(word, "any")) return true;
  if (str_is(word, "number")) return whole || c == DC_FLOAT;
  if (str_is(word, "integer")) return whole;
  static const char *const words[] = {
      [DC_BOOL] = "bool",   [DC_INT] = "int",         [DC_UINT] = "uint",
      [DC_FLOAT] = "float", [DC_COMPLEX] = "complex", [DC_STRING] = "string"};
  return c != DC_NONE && str_is(word, words[c]);
}

// Operand 0 must be of a class that the op's record names.
static bool check_dtype(Graph *g, const OpInfo *op, const Node *n, Where at) {
  if (!op->dtypes || !n->nsrc || n->src[0] == g->none) return true;
  const Type *t = type_of(n->src[0]);
  if (t->kind != TK_TENSOR || !t->dtype) return true;
  // f8e8m0 is a scale: it has no sign and no zero, and nothing is computed in it.
  DTypeClass c = t->dtype == DT_F8E8M0 ? DC_NONE : dtype_class(t->dtype);
  for (const char *p = op->dtypes; *p;) {
    const char *end = p + strcspn(p, " ");
    if (class_named((Str){p, end - p}, c)) return true;
    p = *end ? end + 1 : end;
  }
  graph_fail(g, TENON_EINVAL, at, "operand 0 is %s, must be %s", dtype_name(t->dtype), op->dtypes);
  return false;
}

Infer infer_of(Graph *g, const Node *n, const Type **type, Where at, Diag *d) {
  return (Infer){.g = g,
                 .op = op_info(n->op),
                 .attrs = n->attrs,
                 .src = n->src,
                 .nsrc = (int)n->nsrc,
                 .nres = n->nres,
                 .type = type,
                 .at = at,
                 .diag = d};
}

static bool infer_node(Graph *g, const OpInfo *op, Node *n, Where at) {
  Infer in = infer_of(g, n, (const Type **)n->type, at, g->diag);
  if (!check_dtype(g, op, n, at)) return false;
  if (op->infer) {
    tenon_status s = op->infer(&in);
    if (s && !g->status) g->status = s;
  } else {
    CHECK(op->expand, "op %s has neither infer nor expand", op->name);
    Node **out = arena_array(&g->scratch, Node *, n->nres);
    op->expand(g, n, out);
    for (int i = 0; i < n->nres && !g->status; i++) ((const Type **)n->type)[i] = out[i]->type[0];
    if (!g->status && n->nres == 1) {
      in.sym = out[0]->sym;
      in.nsym = out[0]->nsym;
    }
  }
  if (g->status) return false;
  for (int i = 0; i < n->nres; i++)
    CHECK(n->type[i], "%s: result %d was given no type", op->name, i);
  n->sym = in.sym;
  n->nsym = in.nsym;
  return true;
}

// The graph's copy of a name, or the name of what the new node comes from; messages about memory
// name it from here on.
static const char *own_name(Graph *g, const char *name) {
  if (name) name = intern(&g->names, str_of(name));
  if (name || g->origin) at_work_node(name ? name : g->origin);
  return name;
}

Node *node_new(Graph *g, int opcode, int nsrc, Node *const *src, const void *attrs, int nres,
               const char *name) {
  if (g->status) return g->poison;
  const OpInfo *op = op_table[opcode];
  Where at = {.node = name, .op = op->name};
  for (int i = 0; i < nsrc; i++)
    if (src[i] == g->poison) return g->poison;
  while (nsrc > 0 && src[nsrc - 1] == g->none && !(op->flags & OPF_CONTROL)) nsrc--;
  if (!check_operands(g, op, nsrc, src, at)) return g->poison;
  name = own_name(g, name);
  if (nres <= 0) nres = op->nres ? op->nres : 1;
  if (nres > op_max_results(op))
    return graph_fail(g, TENON_EINVAL, at, "%d results, must be at most %d", nres,
                      op_max_results(op));
  Node *n = make_raw(g, opcode, nres);
  Node **own = arena_array(&g->arena, Node *, nsrc);
  for (int i = 0; i < nsrc; i++) own[i] = src[i];
  canonical_order(op, own, nsrc);
  n->src = own;
  n->nsrc = (uint32_t)nsrc;
  n->attrs = own_attrs(g, op, attrs);
  n->hash = node_hash(n);
  Node *same = table_find_node(g, n);
  if (same) return same;
  n->name = name ? name : g->origin;
  if (!infer_node(g, op, n, at)) return g->poison;
  node_compute_known(g, n);
  return finish(g, n);
}

static Node *make_param(Graph *g, const Type *t, const char *name, bool state) {
  if (g->status) return g->poison;
  Node *n = make_raw(g, OP_param, 1);
  param_attrs *at = arena_new(&g->arena, param_attrs);
  at->instance = g->nparams_made++;
  at->state = state;
  n->attrs = at;
  ((const Type **)n->type)[0] = t;
  n->name = name ? intern(&g->names, str_of(name)) : NULL;
  n->hash = node_hash(n);
  return finish(g, n);
}

Node *node_param(Graph *g, const Type *t, const char *name) {
  return make_param(g, t, name, false);
}

Node *node_state(Graph *g, const Type *t, const char *name) { return make_param(g, t, name, true); }

bool node_is_state(const Node *n) {
  return n->op == OP_param && ((const param_attrs *)n->attrs)->state;
}

// `name` is the graph's own.
static Node *const_finish(Graph *g, DType t, int rank, const int64_t *dims, ConstData *c,
                          const char *name) {
  Dim d[MAX_RANK];
  int64_t count = 0;
  if (rank > MAX_RANK || !shape_count(rank, dims, &count))
    return graph_fail(g, TENON_EINVAL, (Where){.node = name, .op = "const"},
                      "constant of rank %d with more elements than can be counted", rank);
  for (int i = 0; i < rank; i++) d[i] = ie_const(&g->dims, dims[i]);
  c->n = count;
  Node *n = make_raw(g, OP_const, 1);
  ((const Type **)n->type)[0] = type_tensor(g, t, rank, d);
  n->data = c;
  n->name = name;
  n->hash = node_hash(n);
  Node *same = table_find_node(g, n);
  return same ? same : finish(g, n);
}

Node *node_const(Graph *g, DType t, int rank, const int64_t *dims, const void *bytes,
                 const char *name) {
  if (g->status) return g->poison;
  int64_t count, nbytes;
  if (rank > MAX_RANK || !shape_count(rank, dims, &count) || !dtype_bytes(t, count, &nbytes))
    return graph_fail(g, TENON_EINVAL, (Where){.node = name, .op = "const"}, "constant too large");
  name = own_name(g, name);
  ConstData *c = arena_new(&g->arena, ConstData);
  c->bytes = nbytes;
  if (t == DT_STRING) {
    Str *s = arena_array(&g->arena, Str, count);
    for (int64_t i = 0; i < count; i++) {
      Str from = ((const Str *)bytes)[i];
      s[i] = (Str){str_copy(&g->arena, from), from.n};
    }
    c->mem = s;
  } else {
    c->mem = nbytes ? arena_dup(&g->arena, bytes, nbytes) : arena_alloc(&g->arena, 1);
  }
  return const_finish(g, t, rank, dims, c, name);
}

Node *node_const_take(Graph *g, DType t, int rank, const int64_t *dims, void *take_block,
                      int64_t block_bytes, const char *name) {
  // Noted first, so that it is freed whatever fails from here on.
  vec_push(&g->arena, &g->block, ((GraphBlock){take_block, block_bytes}));
  int64_t count, nbytes;
  if (g->status) return g->poison;
  if (rank > MAX_RANK || !shape_count(rank, dims, &count) || !dtype_bytes(t, count, &nbytes) ||
      nbytes > block_bytes)
    return graph_fail(g, TENON_EINVAL, (Where){.node = name, .op = "const"}, "constant too large");
  ConstData *c = arena_new(&g->arena, ConstData);
  c->bytes = nbytes;
  c->mem = take_block;
  return const_finish(g, t, rank, dims, c, own_name(g, name));
}

Node *node_const_source(Graph *g, DType t, int rank, const int64_t *dims, Source *s, int64_t offset,
                        int64_t bytes, const char *name) {
  if (g->status) return g->poison;
  ConstData *c = arena_new(&g->arena, ConstData);
  *c = (ConstData){.source = s, .offset = offset, .bytes = bytes};
  return const_finish(g, t, rank, dims, c, own_name(g, name));
}

Node *node_const_moved(Graph *g, const Node *moved) {
  const Type *t = type_of(moved);
  int64_t dims[MAX_RANK], count;
  if (g->status) return g->poison;
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[i]->value;
  ConstData *c = arena_new(&g->arena, ConstData);
  c->moved = moved;
  if (!shape_count(t->rank, dims, &count) || !dtype_bytes(t->dtype, count, &c->bytes))
    return graph_fail(g, TENON_EINVAL, (Where){.node = moved->name, .op = "const"},
                      "constant too large");
  return const_finish(g, t->dtype, t->rank, dims, c, moved->name);
}

Node *node_i64s(Graph *g, int64_t n, const int64_t *v) {
  return node_const(g, DT_I64, 1, &n, v, NULL);
}
Node *node_i64(Graph *g, int64_t v) { return node_const(g, DT_I64, 0, NULL, &v, NULL); }
Node *node_scalar(Graph *g, DType t, double v) {
  uint64_t bits[2] = {0};
  DTypeClass c = dtype_class(t);
  if (g->status) return g->poison;
  if (c == DC_NONE)
    return graph_fail(g, TENON_EUNSUPPORTED, NOWHERE,
                      "a type is not known, since an operator before is not");
  if (c == DC_STRING || c == DC_COMPLEX)
    return graph_fail(g, TENON_EINVAL, NOWHERE, "%s is not a type of real numbers", dtype_name(t));
  put_f64(t, bits, 0, v);
  return node_const(g, t, 0, NULL, bits, NULL);
}

Node *node_proj(Graph *g, Node *n, int index) {
  if (g->status || n == g->poison) return g->poison;
  if (n->nres == 1 && index == 0) return n;
  if (index < 0 || index >= n->nres)
    return graph_fail(g, TENON_EINVAL, (Where){.node = n->name, .op = op_name(n)},
                      "result %d of a node that has %d", index, n->nres);
  Node *p = make_raw(g, OP_proj, 1);
  proj_attrs *at = arena_new(&g->arena, proj_attrs);
  at->index = index;
  p->attrs = at;
  Node **src = arena_array(&g->arena, Node *, 1);
  src[0] = n;
  p->src = src;
  p->nsrc = 1;
  ((const Type **)p->type)[0] = n->type[index];
  if (index == 0) {
    p->sym = n->sym;
    p->nsym = n->nsym;
  }
  p->name = n->name;
  p->hash = node_hash(p);
  Node *same = table_find_node(g, p);
  return same ? same : finish(g, p);
}

Body *body_new(Graph *g, const char *name, int64_t nparams, Node *const *params, int64_t nresults,
               Node *const *results) {
  Body *b = arena_new(&g->arena, Body);
  b->name = name ? intern(&g->names, str_of(name)) : "";
  b->nparams = nparams;
  b->nresults = nresults;
  b->param = arena_dup(&g->arena, params, nparams * (int64_t)sizeof(Node *));
  b->result = arena_dup(&g->arena, results, nresults * (int64_t)sizeof(Node *));
  b->result_name = arena_array(&g->arena, const char *, nresults);
  vec_push(&g->arena, &g->body, b);
  return b;
}

// ---- reading ----

const OpInfo *op_info(int op) { return op_table[op]; }
const char *op_name(const Node *n) { return op_table[n->op]->name; }

int op_find(Str name) {
  for (int i = 0; i < OP_COUNT; i++)
    if (str_is(name, op_table[i]->name)) return i;
  return -1;
}

HintText dim_hint(const Graph *g, Str name, Arena *a) {
  const char **words = arena_array(a, const char *, g->dims.nsyms + 1);
  for (int32_t i = 0; i < g->dims.nsyms; i++)
    words[i] = g->dims.sym.v[i]->fresh ? NULL : g->dims.sym.v[i]->name;
  return did_you_mean(name, words, g->dims.nsyms);
}
