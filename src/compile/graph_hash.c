// graph_hash.c -- SHA-256 of a graph (graph_hash.h).
//
// Every node that the model's results need, those of bodies included, in the order of their ids:
// op, attributes, operands by number, types, names.  Types and sizes are written where they are met
// first, and by number after that.  Each list has its length before it, so that no two graphs are
// one sequence of bytes.
//
// Constants are most of the bytes.  Large ones are cut into pieces, which threads hash by
// themselves; the graph's hash is over theirs.
//
// Needs:      a graph as it was read: what inference found follows from its nodes.
// Guarantees: names and origins count, since a program has them in its steps and messages.
#include "compile/graph_hash.h"

#include "ir/opinfo.h"

enum { PIECE = 1 << 20, ALONE = 4 << 20 };  // bytes; fewer in all need no threads

typedef struct Hasher {
  Graph *g;
  Arena *a;
  Sha256 s;
  uint32_t *number;  // by node id, from 1; 0: no part of it
  IntMap type, dim, seen;
  VEC(const Body *) body;
  VEC(Sha256Piece) piece;
  int64_t next_piece;
} Hasher;

static void feed_i64(Hasher *h, int64_t v) { sha256_put(&h->s, &v, sizeof v); }

static void feed_str(Hasher *h, Str s) {
  feed_i64(h, s.n);
  sha256_put(&h->s, s.p, s.n);
}

static void feed_name(Hasher *h, const char *s) {
  if (s)
    feed_str(h, str_of(s));
  else
    feed_i64(h, -1);
}

// Whether it was met before; its number is written either way.
static bool feed_number(Hasher *h, IntMap *of, const void *p) {
  uint64_t known, key = (uint64_t)(uintptr_t)p;
  bool met = intmap_get(of, key, &known);
  if (!met) intmap_put(of, key, known = (uint64_t)of->n + 1);
  feed_i64(h, (int64_t)known);
  return met;
}

// ---- sizes and types ----

static void feed_dim(Hasher *h, Dim d) {
  if (feed_number(h, &h->dim, d)) return;
  feed_i64(h, d->kind);
  feed_i64(h, d->lo);
  feed_i64(h, d->hi);
  switch ((IntExprKind)d->kind) {
  case IE_CONST: feed_i64(h, d->value); return;
  case IE_SYM:
    feed_str(h, (Str){d->name, d->value});
    feed_i64(h, d->slot);
    feed_i64(h, d->fresh);
    return;
  case IE_SUM:
    feed_i64(h, d->nterms);
    for (int i = 0; i < d->nterms; i++) {
      feed_i64(h, d->term[i].coef);
      feed_i64(h, d->term[i].natoms);
      for (int k = 0; k < d->term[i].natoms; k++) feed_dim(h, d->term[i].atom[k]);
    }
    return;
  case IE_DIV:
  case IE_MOD:
  case IE_MIN:
  case IE_MAX:
  case IE_BCAST:
    feed_dim(h, d->a);
    feed_dim(h, d->b);
    return;
  case IE_POISON: return;
  }
}

static void feed_type(Hasher *h, const Type *t) {
  if (feed_number(h, &h->type, t)) return;
  feed_i64(h, t->kind);
  feed_i64(h, t->dtype);
  feed_i64(h, t->rank);
  for (int i = 0; t->kind == TK_TENSOR && i < t->rank; i++) feed_dim(h, t->dims[i]);
  feed_i64(h, t->elem != NULL);
  if (t->elem) feed_type(h, t->elem);
}

// ---- attributes ----

static void feed_body_number(Hasher *h, const Body *b) {
  uint64_t known = 0;
  CHECK(!b || intmap_get(&h->seen, (uint64_t)(uintptr_t)b, &known), "bodies were collected");
  feed_i64(h, (int64_t)known);
}

static void feed_attr(Hasher *h, const AttrDesc *d, const void *attrs) {
  const void *at = (const char *)attrs + d->offset;
  switch (d->kind) {
  case ATTR_i64: feed_i64(h, *(const int64_t *)at); return;
  case ATTR_opt_i64:
    feed_i64(h, ((const OptInt *)at)->given);
    feed_i64(h, ((const OptInt *)at)->v);
    return;
  case ATTR_bool: feed_i64(h, *(const bool *)at); return;
  case ATTR_f64: sha256_put(&h->s, at, sizeof(double)); return;
  case ATTR_dtype: feed_i64(h, *(const DType *)at); return;
  case ATTR_str: feed_str(h, *(const Str *)at); return;
  case ATTR_body: feed_body_number(h, *(const Body *const *)at); return;
  case ATTR_choice: feed_i64(h, *(const int *)at); return;
  case ATTR_i64s: {
    const Ints *l = at;
    feed_str(h, (Str){(const char *)l->v, l->n * (int64_t)sizeof *l->v});
    return;
  }
  case ATTR_f64s: {
    const Floats *l = at;
    feed_str(h, (Str){(const char *)l->v, l->n * (int64_t)sizeof *l->v});
    return;
  }
  case ATTR_strs: break;
  }
  const Strs *l = at;
  feed_i64(h, l->n);
  for (int64_t i = 0; i < l->n; i++) feed_str(h, l->v[i]);
}

// ---- constants ----

// Their bytes; false: they cannot be read, which whoever needs them says.
static bool bytes_of(Hasher *h, const Node *n, const void **out) {
  Diag *quiet = diag_unread();
  return !const_bytes(h->g, n, out, quiet);
}

static bool is_text(const Node *n) { return type_of(n)->dtype == DT_STRING; }

// Those of `moved` are constants of their own, which were collected.
static bool has_bytes(const Node *n) { return n->op == OP_const && !n->data->moved && !is_text(n); }

static bool add_pieces(Hasher *h, const Node *n) {
  const void *p;
  if (!bytes_of(h, n, &p)) return false;
  for (int64_t at = 0; at < n->data->bytes; at += PIECE) {
    Sha256Piece x = {.p = (const char *)p + at, .n = MIN(PIECE, n->data->bytes - at)};
    vec_push(h->a, &h->piece, x);
  }
  return true;
}

static void feed_const(Hasher *h, const Node *n) {
  const ConstData *c = n->data;
  feed_i64(h, c->n);
  feed_i64(h, c->bytes);
  feed_i64(h, c->moved ? h->number[c->moved->id] : 0);
  if (is_text(n)) {
    const Str *s = c->mem;
    for (int64_t i = 0; i < c->n; i++) feed_str(h, s[i]);
  } else if (has_bytes(n)) {
    for (int64_t at = 0; at < c->bytes; at += PIECE)
      sha256_put(&h->s, h->piece.v[h->next_piece++].hash, SHA256_BYTES);
  }
}

// ---- nodes ----

// What a body's parameter is known to hold; of all other nodes that follows from their operands.
static void feed_known(Hasher *h, const Node *n) {
  feed_i64(h, n->sym ? n->nsym : -1);
  for (int64_t i = 0; n->sym && i < n->nsym; i++) feed_dim(h, n->sym[i]);
  const Value *v = n->known;
  int64_t bytes = 0;
  feed_i64(h, v != NULL);
  if (!v) return;
  feed_i64(h, v->dtype);
  feed_i64(h, v->n);
  if (dtype_bytes(v->dtype, v->n, &bytes)) feed_str(h, (Str){v->data, bytes});
}

static void feed_node(Hasher *h, const Node *n) {
  const OpInfo *op = op_info(n->op);
  feed_i64(h, n->op);
  feed_i64(h, n->nres);
  feed_i64(h, n->nsrc);
  feed_name(h, n->name);
  for (uint32_t i = 0; i < n->nsrc; i++) feed_i64(h, h->number[n->src[i]->id]);
  for (int i = 0; i < n->nres; i++) feed_type(h, n->type[i]);
  feed_i64(h, n->attrs != NULL);
  for (int i = 0; n->attrs && i < op->nattrs; i++) feed_attr(h, &op->attrs[i], n->attrs);
  if (n->op == OP_const) feed_const(h, n);
  if (n->op == OP_param) feed_known(h, n);
}

static void feed_body(Hasher *h, const Body *b) {
  feed_name(h, b->name);
  feed_i64(h, b->nparams);
  feed_i64(h, b->nresults);
  for (int64_t i = 0; i < b->nparams; i++) feed_i64(h, h->number[b->param[i]->id]);
  for (int64_t i = 0; i < b->nresults; i++) {
    feed_i64(h, h->number[b->result[i]->id]);
    feed_name(h, b->result_name ? b->result_name[i] : NULL);
  }
}

// ---- the graph ----

static void collect_body(Hasher *h, const Body *b);

static void collect_node(Hasher *h, const Node *n) {
  const OpInfo *op = op_info(n->op);
  if (h->number[n->id]) return;
  h->number[n->id] = 1;
  for (uint32_t i = 0; i < n->nsrc; i++) collect_node(h, n->src[i]);
  if (n->op == OP_const && n->data->moved) collect_node(h, n->data->moved);
  for (int i = 0; n->attrs && i < op->nattrs; i++)
    if (op->attrs[i].kind == ATTR_body)
      collect_body(
          h, *(const Body *const *)(const void *)((const char *)n->attrs + op->attrs[i].offset));
}

// Operands come first in a body's order, so that collect_node goes one step down, and further only
// into what a moved constant is made of.
static void collect_body(Hasher *h, const Body *b) {
  uint64_t known;
  if (!b || intmap_get(&h->seen, (uint64_t)(uintptr_t)b, &known)) return;
  vec_push(h->a, &h->body, b);
  intmap_put(&h->seen, (uint64_t)(uintptr_t)b, (uint64_t)h->body.n);
  NodeList l = body_order(h->g, b, h->a);
  for (int64_t i = 0; i < l.n; i++) collect_node(h, l.v[i]);
}

// Gives the nodes their numbers, and finds the bytes of constants; false: too many, or some are
// not there.
static bool number_nodes(Hasher *h, int64_t most_bytes) {
  uint32_t n = 0;
  int64_t sum = 0;
  for (int64_t i = 0; i < h->g->node.n; i++) {
    const Node *x = h->g->node.v[i];
    if (!h->number[i]) continue;
    h->number[i] = ++n;
    if (!has_bytes(x)) continue;
    if (!ck_add(sum, x->data->bytes, &sum) || sum > most_bytes) return false;
  }
  for (int64_t i = 0; i < h->g->node.n; i++)
    if (h->number[i] && has_bytes(h->g->node.v[i]) && !add_pieces(h, h->g->node.v[i])) return false;
  Pool *pool = sum > ALONE ? pool_create(0) : NULL;
  sha256_pieces(h->piece.v, h->piece.n, pool);
  pool_release(pool);
  return true;
}

static void feed_graph(Hasher *h) {
  const Graph *g = h->g;
  feed_i64(h, g->dims.sym.n);
  for (int64_t i = 0; i < g->dims.sym.n; i++) feed_dim(h, g->dims.sym.v[i]);
  feed_i64(h, g->dims.next_fresh);
  feed_i64(h, g->memory_limit);
  feed_i64(h, g->expanded_bytes);
  feed_i64(h, g->known_work);
  feed_i64(h, g->fast);
  feed_name(h, g->origin);
  for (int64_t i = 0; i < g->node.n; i++)
    if (h->number[i]) feed_node(h, g->node.v[i]);
  feed_i64(h, h->body.n);
  for (int64_t i = 0; i < h->body.n; i++) feed_body(h, h->body.v[i]);
}

bool graph_hash(Graph *g, int64_t most_bytes, Arena *a, uint8_t out[SHA256_BYTES]) {
  Hasher *h = arena_new(a, Hasher);
  h->g = g;
  h->a = a;
  if (g->custom || g->status) return false;
  h->number = arena_array(a, uint32_t, MAX(g->node.n, 1));
  intmap_init(&h->type, a);
  intmap_init(&h->dim, a);
  intmap_init(&h->seen, a);
  collect_body(h, g->main);
  if (!number_nodes(h, most_bytes)) return false;
  sha256_init(&h->s);
  feed_graph(h);
  sha256_end(&h->s, out);
  return true;
}
