// make.c -- random graphs from the ops' samples (graphfuzz.h).
#include "graphfuzz/graphfuzz.h"
#include "ir/internal.h"
#include "eval/scalar.h"
#include "sample.h"

typedef struct Maker {
  Graph *g;
  uint64_t rng;
  NodeList pool;  // values to draw from, most recent last
  int64_t cap;
  VEC(Node *) param;
} Maker;

static uint64_t next(Maker *m) {
  m->rng += 0x9e3779b97f4a7c15ull;
  return hash_u64(m->rng);
}
static int64_t draw(Maker *m, int64_t n) { return (int64_t)(next(m) % (uint64_t)n); }

static void remember(Maker *m, Node *n) {
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || t->rank < 0 || m->pool.n == m->cap) return;
  DTypeClass c = dtype_class(t->dtype);
  if (c == DC_STRING || c == DC_COMPLEX || c == DC_NONE) return;
  m->pool.v[m->pool.n++] = n;
}

static Node *new_param(Maker *m, const Type *t) {
  Node *p = node_param(m->g, t, str_printf(&m->g->arena, "x%lld", (long long)m->param.n));
  vec_push(&m->g->arena, &m->param, p);
  remember(m, p);
  return p;
}

// The first `want` elements of a value, repeated as often as needed.
static Node *resize(Maker *m, Node *v, int64_t want) {
  Graph *g = m->g;
  Dim n = type_numel(g, type_of(v));
  if (!n || !ie_is_const(n) || n->value == 0) return NULL;
  int64_t have = n->value;
  v = N(g, reshape, v, node_i64s(g, 1, &(int64_t){-1}));
  if (have == want) return v;
  if (have < want) v = N(g, tile, v, node_i64s(g, 1, &(int64_t){(want + have - 1) / have}));
  return N(g, slice, v, node_i64s(g, 1, &(int64_t){0}), node_i64s(g, 1, &want));
}

// A value brought to a type; NULL where that cannot be.
static Node *adapt(Maker *m, Node *v, const Type *t) {
  Graph *g = m->g;
  if (type_of(v) == t) return v;
  if (!type_is_static(t)) return NULL;
  int64_t dims[MAX_RANK], want = 1;
  for (int i = 0; i < t->rank; i++) want *= dims[i] = t->dims[i]->value;
  if (want == 0) return NULL;
  v = resize(m, v, want);
  if (!v) return NULL;
  if (type_of(v)->dtype != t->dtype)
    v = NA(g, cast, (&(cast_attrs){.to = t->dtype, .saturate = true}), v);
  return N(g, reshape, v, node_i64s(g, t->rank, dims));
}

static Node *operand(Maker *m, const Type *t) {
  DTypeClass c = dtype_class(t->dtype);
  bool plain = t->kind == TK_TENSOR && c != DC_STRING && c != DC_COMPLEX;
  if (plain && m->pool.n && draw(m, 8)) {
    int64_t near = MIN(m->pool.n, 8);
    Node *v = m->pool.v[draw(m, 3) ? m->pool.n - 1 - draw(m, near) : draw(m, m->pool.n)];
    Node *r = adapt(m, v, t);
    if (r) return r;
  }
  return t->kind == TK_TENSOR ? new_param(m, t) : NULL;
}

// Types of a sample in our graph: a symbol stands for one number in the whole graph.
static const Type *own_type(Maker *m, const Type *t) {
  if (t->kind != TK_TENSOR || t->rank < 0) return NULL;
  Dim dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    dims[i] = ie_const(&m->g->dims, ie_is_const(t->dims[i]) ? t->dims[i]->value : 3);
  return type_tensor(m->g, t->dtype, t->rank, dims);
}

static bool add_sample(Maker *m, const Graph *s) {
  const Node *n = s->main->result[0];
  if (n->op == OP_proj) n = n->src[0];
  Node *src[64];
  if (n->nsrc > 64) return false;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const Node *o = n->src[i];
    if (o == s->none) {
      src[i] = m->g->none;
    } else if (o->op == OP_const) {
      int64_t dims[MAX_RANK];
      for (int k = 0; k < type_of(o)->rank; k++) dims[k] = type_of(o)->dims[k]->value;
      src[i] = node_const(m->g, type_of(o)->dtype, type_of(o)->rank, dims, o->data->mem, NULL);
    } else {
      const Type *t = own_type(m, type_of(o));
      src[i] = t ? operand(m, t) : NULL;
    }
    if (!src[i]) return false;
  }
  Node *r = node_new(m->g, n->op, (int)n->nsrc, src, n->attrs, n->nres, NULL);
  if (graph_status(m->g)) return false;
  for (int i = 0; i < r->nres; i++) remember(m, node_proj(m->g, r, i));
  return true;
}

static bool usable(const OpInfo *op) {
  return op->samples && op->samples[0] && !(op->flags & (OPF_RANDOM | OPF_CONTROL));
}

static void grow(Maker *m, int64_t nnodes, Arena *a) {
  static Diag d;
  for (int64_t k = 0, tries = 0; k < nnodes && tries < 10 * nnodes; tries++) {
    const OpInfo *op = op_table[draw(m, OP_COUNT)];
    if (!usable(op)) continue;
    int64_t n = 0;
    while (op->samples[n]) n++;
    const char *text = sample_graph(a, &(Sample){op, op->samples[draw(m, n)]});
    Graph *s = NULL;
    diag_init(&d);
    if (!text || graph_parse(str_of(text), NULL, &d, &s)) continue;
    int64_t said = m->g->diag->len;
    if (add_sample(m, s)) k++;
    graph_free(s);
    if (m->g->status) {  // a refusal at these types: as if it had not been tried
      m->g->status = TENON_OK;
      m->g->diag->len = said;
    }
  }
}

static void finish(Maker *m) {
  Graph *g = m->g;
  int64_t n = MIN(m->pool.n, 4);
  Node *result[4];
  for (int64_t i = 0; i < n; i++) result[i] = m->pool.v[m->pool.n - 1 - i * (m->pool.n / n)];
  g->main = body_new(g, "fuzz", m->param.n, m->param.v, n, result);
  g->body.n--;
  for (int64_t i = 0; i < n; i++)
    g->main->result_name[i] = str_printf(&g->arena, "y%lld", (long long)i);
}

Graph *fuzz_graph(uint64_t seed, Diag *d) {
  Graph *g = NULL;
  Arena a;
  arena_init(&a);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    t.status = graph_create(d, &g);
    if (!t.status) {
      Maker m = {.g = g, .rng = seed * 0x2545f4914f6cdd1dull, .cap = 4096};
      m.pool.v = arena_array(&g->arena, Node *, m.cap);
      Dim dims[2] = {ie_const(&g->dims, 2 + draw(&m, 4)), ie_const(&g->dims, 1 + draw(&m, 6))};
      new_param(&m, type_tensor(g, DT_F32, 2, dims));
      grow(&m, 1 + draw(&m, 40), &a);
      finish(&m);
      t.status = graph_status(g);
    }
  }
  trap_leave(&t);
  arena_deinit(&a);
  if (!t.status) return g;
  graph_free(g);
  return NULL;
}
