// known.c -- contents of tensors that are known before anything runs.
//
// Exporters compute shapes with tensors: Shape, Gather, Concat, Reshape.  Two kinds of knowledge
// follow such chains: `sym`, one integer expression an element, set by the ops' infer; and `known`,
// the value itself, where a small tensor depends on constants alone: then the op's own evaluation
// gives it.
// Needs: eval.  Guarantees: never an error; what cannot be known is left out.
#include "ir/internal.h"

#include <math.h>

enum {
  EXTERNAL_KNOWN_MAX =
      LIMIT_KNOWN_EXTERNAL,  // elements read from a weights file while a graph is built
  // Operations that following contents may take: for one node, for a whole graph, and for each node
  // more.  What would take more is left for the run.
  NODE_WORK_MAX = LIMIT_KNOWN_NODE_OPS,
  GRAPH_WORK = LIMIT_KNOWN_OPS,
  GRAPH_WORK_NODE = 256,
};

static bool small_static(const Type *t) {
  if (t->kind != TK_TENSOR || t->rank < 0 || t->dtype == DT_STRING || !t->dtype) return false;
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) {
    if (!ie_is_const(t->dims[i])) return false;
    if (!ck_mul(n, t->dims[i]->value, &n) || n > KNOWN_MAX) return false;
  }
  return true;
}

Value *known_value(Graph *g, const Type *t, const void *data) {
  Value *v = arena_new(&g->arena, Value);
  v->kind = VK_TENSOR;
  v->dtype = t->dtype;
  v->rank = t->rank;
  v->n = 1;
  for (int i = 0; i < t->rank; i++) {
    v->dims[i] = t->dims[i]->value;
    v->n *= v->dims[i];
  }
  v->data = (void *)(uintptr_t)data;
  v->refs = 1;
  return v;
}

// Of expressions that are all numbers: sizes that are fixed.
static const Value *known_numbers(Graph *g, const Node *n) {
  const Type *t = type_of(n);
  if (!n->sym || !small_static(t) || (t->dtype != DT_I64 && t->dtype != DT_I32)) return NULL;
  for (int64_t i = 0; i < n->nsym; i++)
    if (!ie_is_const(n->sym[i]) ||
        (t->dtype == DT_I32 && n->sym[i]->value != (int32_t)n->sym[i]->value))
      return NULL;
  int64_t bytes = 0;
  if (!dtype_bytes(t->dtype, MAX(n->nsym, 1), &bytes)) return NULL;
  Value *v = known_value(g, t, arena_alloc(&g->arena, bytes));
  if (v->n != n->nsym) return NULL;
  for (int64_t i = 0; i < v->n; i++) val_put_i64(v, i, n->sym[i]->value);
  return ((Node *)(uintptr_t)n)->known = v;
}

const Value *node_known(Graph *g, const Node *n) {
  if (n->known) return n->known;
  if (n->op != OP_const) return known_numbers(g, n);
  if (!small_static(type_of(n))) return NULL;
  const ConstData *c = n->data;
  if (c->source && c->source->folder && !c->source->own && c->n > EXTERNAL_KNOWN_MAX) return NULL;
  const void *bytes = c->mem;
  if (c->source || c->moved) {
    ArenaMark mark = arena_mark(&g->scratch);
    Diag *quiet = arena_new(&g->scratch, Diag);
    diag_init(quiet);
    tenon_status s = const_bytes(g, n, &bytes, quiet);
    arena_reset(&g->scratch, mark);
    if (s) return NULL;
  }
  int64_t size = 0;
  if ((uintptr_t)bytes % 16 && dtype_bytes(type_of(n)->dtype, c->n, &size))
    bytes = size ? arena_dup(&g->arena, bytes, size) : bytes;  // a file gives no alignment
  // A cache, not a change: the node's meaning is the same.
  return ((Node *)(uintptr_t)n)->known = known_value(g, type_of(n), bytes);
}

// Keeps a computed value beside the node, when it is what inference said.
static void keep(Graph *g, Node *n, const Value *v) {
  const Type *t = type_of(n);
  int64_t bytes = 0;
  if (!v || v->kind != VK_TENSOR || v->dtype != t->dtype || v->rank != t->rank) return;
  for (int i = 0; i < v->rank; i++)
    if (v->dims[i] != t->dims[i]->value) return;
  if (!dtype_bytes(v->dtype, v->n, &bytes)) return;
  void *copy = bytes ? arena_dup(&g->arena, v->data, bytes) : arena_alloc(&g->arena, 1);
  n->known = known_value(g, t, copy);
}

static void evaluate(Graph *g, Node *n, const Value *const *in) {
  const OpInfo *op = op_table[n->op];
  int64_t left = GRAPH_WORK + GRAPH_WORK_NODE * g->node.n - g->known_work;
  if (left <= 0) return;
  Diag *quiet = arena_new(&g->scratch, Diag);
  diag_init(quiet);
  Run run;
  run_init(&run, NULL, quiet);
  run.max_bytes = 1 << 20;
  run.ops_budget = MIN(left, NODE_WORK_MAX);
  Value *out[1] = {NULL};
  Eval e = {.run = &run, .in = in, .nin = (int)n->nsrc, .out = out, .nout = 1, .attrs = n->attrs};
  g->known_work += run.ops_budget;  // less what is left of it
  Trap t;
  volatile bool raised = true;
  trap_enter(&t, quiet);
  if (setjmp(t.env) == 0) {
    t.status = work_begin(&e, n);
    if (!t.status) t.status = op->eval(&e);
    if (!t.status) keep(g, n, out[0]);
    raised = false;
  }
  trap_leave(&t);
  g->known_work -= run.ops_budget;
  run_deinit(&run);
  // What the model asks too much is left out; that there is no memory, the caller must hear.
  bool refused = t.status == TENON_ENOMEM && !run.over_limit;
  if (raised || refused) trap_again(t.status, quiet->text);
}

void node_compute_known(Graph *g, Node *n) {
  const OpInfo *op = op_table[n->op];
  if (!op->eval || (op->flags & (OPF_RANDOM | OPF_CONTROL)) || n->nres != 1 || !n->nsrc) return;
  if (!small_static(type_of(n))) return;
  if (n->nsrc > 256) return;
  for (uint32_t i = 0; i < n->nsrc; i++)  // a cheap look before anything is loaded
    if (n->src[i] != g->none && n->src[i]->op != OP_const && !n->src[i]->known && !n->src[i]->sym)
      return;
  ArenaMark mark = arena_mark(&g->scratch);
  const Value **in = arena_array(&g->scratch, const Value *, n->nsrc);
  bool all = true;
  for (uint32_t i = 0; all && i < n->nsrc; i++) {
    if (n->src[i] == g->none) continue;
    in[i] = node_known(g, n->src[i]);
    all = in[i] != NULL;
  }
  if (all) evaluate(g, n, in);
  arena_reset(&g->scratch, mark);
}

// Contents are followed as integers of 64 bits with a sign: also through floats, as long as they
// hold whole numbers, and no zero below zero.
static bool all_whole(const Value *v) {
  bool whole = dtype_is_int(v->dtype) || v->dtype == DT_BOOL;
  for (int64_t i = 0; v->dtype == DT_U64 && i < v->n; i++) whole &= val_i64(v, i) >= 0;
  if (whole) return true;
  if (!dtype_is_float(v->dtype)) return false;
  for (int64_t i = 0; i < v->n; i++) {
    double x = val_f64(v, i);
    if (!(x > -9e15 && x < 9e15) || x != (double)(int64_t)x || (x == 0 && signbit(x))) return false;
  }
  return true;
}

bool node_sym(Graph *g, const Node *n, int64_t *out_n, const Dim **out) {
  if (!n->sym && type_of(n)->kind == TK_TENSOR) {
    const Value *v = node_known(g, n);
    if (v && all_whole(v)) {
      Dim *d = arena_array(&g->arena, Dim, MAX(v->n, 1));
      for (int64_t i = 0; i < v->n; i++) d[i] = ie_const(&g->dims, val_i64(v, i));
      Node *cache = (Node *)(uintptr_t)n;
      cache->sym = d;
      cache->nsym = v->n;
    }
  }
  if (!n->sym) return false;
  *out_n = n->nsym;
  *out = n->sym;
  return true;
}

bool node_ints(Graph *g, const Node *n, Ints *out) {
  int64_t count;
  const Dim *d;
  if (!node_sym(g, n, &count, &d)) return false;
  int64_t *v = arena_array(&g->arena, int64_t, MAX(count, 1));
  for (int64_t i = 0; i < count; i++) {
    if (!ie_is_const(d[i])) return false;
    v[i] = d[i]->value;
  }
  *out = (Ints){count, v};
  return true;
}

tenon_status const_bytes(Graph *g, const Node *n, const void **out, Diag *d) {
  const ConstData *c = n->data;
  *out = NULL;
  if (c->moved && !c->mem) TRY(const_move(g, n, d));
  if (!c->source) {
    *out = c->mem;
    return TENON_OK;
  }
  TRY(source_open(c->source, d));
  int64_t end;
  if (c->offset < 0 || c->bytes < 0 || !ck_add(c->offset, c->bytes, &end) ||
      end > c->source->file.size)
    return fail(d, TENON_EFORMAT, (Where){.node = n->name, .op = "const"},
                "needs bytes %lld to %lld of '%s', which has %lld", (long long)c->offset,
                (long long)c->offset + (long long)c->bytes, c->source->label,
                (long long)c->source->file.size);
  *out = c->source->file.bytes + c->offset;
  return TENON_OK;
}

tenon_status const_elements(Graph *g, const Node *n, Arena *a, const void **out, Diag *d) {
  TRY(const_bytes(g, n, out, d));
  int64_t bytes = 0;
  if ((uintptr_t)*out % 16 && dtype_bytes(type_of(n)->dtype, n->data->n, &bytes) && bytes)
    *out = arena_dup(a, *out, bytes);
  return TENON_OK;
}
