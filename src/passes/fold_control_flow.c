// fold_control_flow.c -- the pass fold-control-flow: control flow whose condition is known.
//
// An `if` whose condition is known becomes its branch.  A `loop` or `scan` that is known to run a
// few times is unrolled (OptOptions.unroll_limit); one that never runs becomes its initial values.
// A value that a loop carries and never changes becomes a capture.
// Bodies that stay lose the captured values that they do not use, and get constants as such instead
// of through a capture, so that folding sees them.  Loop-invariant code of a loop, scan or map
// moves in front of it.
//
// Needs:      recognise-recurrent has run: an unrolled loop over a step is no longer one layer.
// Guarantees: bit-equal.  Only nodes that cannot fail are computed earlier: a loop may run no
//             iteration at all.
#include "eval/control.h"
#include "eval/movement.h"
#include "ir/internal.h"
#include "passes/passes.h"
#include "rules/shape.h"

enum { UNROLL_ROUNDS = 16, MAX_VALUES = 256 };

typedef struct Cleaner {
  PassCtx *c;
  Arena *arena;
  IntMap results;  // old id of a decided node -> Node **, one a result
  bool many;       // a body is copied several times: each copy's nodes need bodies of their own
} Cleaner;

// ---- copying a body's nodes ----

static Node *mapped(const IntMap *m, Node *n) {
  uint64_t v;
  return intmap_get(m, n->id, &v) ? (Node *)(uintptr_t)v : n;
}

static Node *copy_node(Graph *g, Arena *a, const IntMap *m, Node *n) {
  if (n->op == OP_param || n->op == OP_const || n == g->none) return mapped(m, n);
  if (n->op == OP_proj)
    return node_proj(g, mapped(m, n->src[0]), (int)((const proj_attrs *)n->attrs)->index);
  Node **src = arena_array(a, Node *, n->nsrc);
  bool same = true;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    src[i] = mapped(m, n->src[i]);
    same &= src[i] == n->src[i];
  }
  return same ? n : node_new(g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name);
}

static Node *copy_control(Cleaner *cl, const IntMap *m, Node *n);

// A body like this one, with parameters of its own: no parameter belongs to two bodies.
static Body *body_again(Cleaner *cl, const Body *b) {
  Graph *g = cl->c->g;
  NodeList order = body_order(g, b, cl->arena);
  Node **param = arena_array(cl->arena, Node *, MAX(b->nparams, 1));
  Node **result = arena_array(cl->arena, Node *, MAX(b->nresults, 1));
  IntMap m;
  intmap_init(&m, cl->arena);
  for (int64_t i = 0; i < b->nparams; i++) {
    const Node *p = b->param[i];
    param[i] = node_param(g, type_of(p), p->name);
    param[i]->sym = p->sym;
    param[i]->nsym = p->nsym;
    param[i]->known = p->known;
    intmap_put(&m, p->id, (uint64_t)(uintptr_t)param[i]);
  }
  for (int64_t i = 0; i < order.n; i++) {
    Node *r = copy_control(cl, &m, order.v[i]);
    if (r == g->poison) return NULL;
    if (r != order.v[i]) intmap_put(&m, order.v[i]->id, (uint64_t)(uintptr_t)r);
  }
  for (int64_t i = 0; i < b->nresults; i++) result[i] = mapped(&m, b->result[i]);
  Body *nb = body_new(g, b->name, b->nparams, param, b->nresults, result);
  for (int64_t i = 0; i < b->nresults; i++) nb->result_name[i] = b->result_name[i];
  return nb;
}

// copy_node, with new bodies for a node that holds some.
static Node *copy_control(Cleaner *cl, const IntMap *m, Node *n) {
  Graph *g = cl->c->g;
  const OpInfo *op = op_info(n->op);
  if (!(op->flags & OPF_CONTROL)) return copy_node(g, cl->arena, m, n);
  char *attrs = arena_dup(cl->arena, n->attrs, op->attrs_size);
  for (int i = 0; i < op->nattrs; i++) {
    const Body **b = (const Body **)(attrs + op->attrs[i].offset);
    if (op->attrs[i].kind != ATTR_body || !*b) continue;
    *b = body_again(cl, *b);
    if (!*b) return g->poison;
  }
  Node **src = arena_array(cl->arena, Node *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = mapped(m, n->src[i]);
  return node_new(g, n->op, (int)n->nsrc, src, attrs, n->nres, n->name);
}

// The body's results with the values in place of its parameters.
static bool inline_body(Cleaner *cl, const Body *b, Node *const *value, Node **out) {
  Graph *g = cl->c->g;
  NodeList order = body_order(g, b, cl->arena);
  IntMap m;
  intmap_init(&m, cl->arena);
  for (int64_t i = 0; i < b->nparams; i++)
    intmap_put(&m, b->param[i]->id, (uint64_t)(uintptr_t)value[i]);
  for (int64_t i = 0; i < order.n; i++) {
    Node *r = cl->many ? copy_control(cl, &m, order.v[i]) : copy_node(g, cl->arena, &m, order.v[i]);
    if (r == g->poison) return false;
    if (r != order.v[i]) intmap_put(&m, order.v[i]->id, (uint64_t)(uintptr_t)r);
  }
  for (int64_t i = 0; i < b->nresults; i++) out[i] = mapped(&m, b->result[i]);
  return true;
}

static bool flag_known(Graph *g, const Node *n, bool *out) {
  const Value *v = node_known(g, n);
  if (!v || v->dtype != DT_BOOL || v->n != 1) return false;
  *out = val_i64(v, 0) != 0;
  return true;
}

typedef struct Contents {
  int64_t nodes;
  bool random;
} Contents;

// What a body holds, with the bodies of its nodes, which are copied with it.
static void add_contents(Cleaner *cl, const Body *b, Contents *sum) {
  NodeList order = body_order(cl->c->g, b, cl->arena);
  sum->nodes += order.n;
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    const OpInfo *op = op_info(n->op);
    sum->random |= op->flags & OPF_RANDOM;
    for (int k = 0; op->flags & OPF_CONTROL && k < op->nattrs; k++) {
      if (op->attrs[k].kind != ATTR_body) continue;
      const Body *inner = *(const Body *const *)((const char *)n->attrs + op->attrs[k].offset);
      if (inner) add_contents(cl, inner, sum);
    }
  }
}

// ---- if ----

static Node **decided_if(Cleaner *cl, Node *n) {
  const if_attrs *at = n->attrs;
  bool yes;
  if (!flag_known(cl->c->g, n->src[0], &yes)) return NULL;
  const Body *b = yes ? at->then_branch : at->else_branch;
  Node **out = arena_array(cl->arena, Node *, b->nresults);
  Node *const *captured = n->src + 1 + (yes ? 0 : at->then_captures);
  return inline_body(cl, b, captured, out) ? out : NULL;
}

// ---- loop ----

// The condition never stops the loop: it starts as true, and the body gives true, or what it was
// given.
static bool runs_on(Graph *g, const Node *n, const Body *b) {
  bool go = true;
  Node *start = src_or_null(g, n, 1);
  if (start && (!flag_known(g, start, &go) || !go)) return false;
  return b->result[0] == b->param[1] || (flag_known(g, b->result[0], &go) && go);
}

// One row of each round along a new axis.
static Node *stacked(Graph *g, Node *const *row, int64_t n, int64_t axis, bool backwards) {
  Node *part[UNROLL_ROUNDS];
  concat_attrs at = {.axis = axis};
  for (int64_t i = 0; i < n; i++) {
    Node *r = row[backwards ? n - 1 - i : i];
    const Type *t = type_of(r);
    if (t->kind != TK_TENSOR || t->rank < 0 || axis > t->rank || axis < -t->rank - 1) return NULL;
    part[i] = N(g, unsqueeze, r, node_i64s(g, 1, &axis));
  }
  return node_new(g, OP_concat, (int)n, part, &at, 1, NULL);
}

// A value whose type the body does not say exactly is not unrolled: inference would meet types it
// never saw.
static bool same_types(Node *const *param, Node *const *value, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (type_of(value[i]) != type_of(param[i])) return false;
  return true;
}

// A random op draws by its instance and the iterations it is in: an unrolled copy would draw
// otherwise.
static bool small_enough(Cleaner *cl, const Body *b, int64_t rounds) {
  Contents in = {0};
  if (rounds > UNROLL_ROUNDS || b->nparams > MAX_VALUES || b->nresults > MAX_VALUES) return false;
  add_contents(cl, b, &in);
  return !in.random && rounds * in.nodes <= cl->c->o->unroll_limit;
}

static Node **unrolled(Cleaner *cl, Node *n) {
  Graph *g = cl->c->g;
  const loop_attrs *at = n->attrs;
  const Body *b = at->body;
  int64_t ncarried = n->nsrc - 2 - at->captures, nscan = n->nres - ncarried;
  Ints trips;
  bool go = true;
  if (n->src[0] == g->none || !node_ints(g, n->src[0], &trips) || trips.n != 1) return NULL;
  int64_t rounds = MAX(trips.v[0], 0);
  if (n->src[1] != g->none && flag_known(g, n->src[1], &go) && !go) rounds = 0;
  if (!small_enough(cl, b, rounds)) return NULL;
  if ((rounds && !runs_on(g, n, b)) || (!rounds && nscan)) return NULL;
  Node *value[MAX_VALUES], *result[MAX_VALUES];
  Node **rows = arena_array(cl->arena, Node *, MAX(nscan * rounds, 1));
  for (int64_t i = 0; i < b->nparams; i++) value[i] = n->src[i];
  for (int64_t r = 0; r < rounds; r++) {
    value[0] = node_i64(g, r);
    value[1] = node_scalar(g, DT_BOOL, 1);
    cl->many = rounds > 1;
    bool done = same_types(b->param + 2, value + 2, ncarried) && inline_body(cl, b, value, result);
    cl->many = false;
    if (!done) return NULL;
    for (int64_t i = 0; i < ncarried; i++) value[2 + i] = result[1 + i];
    for (int64_t i = 0; i < nscan; i++) rows[i * rounds + r] = result[1 + ncarried + i];
  }
  Node **out = arena_array(cl->arena, Node *, n->nres);
  for (int64_t i = 0; i < ncarried; i++) out[i] = value[2 + i];
  for (int64_t i = 0; i < nscan; i++) {
    out[ncarried + i] = stacked(g, rows + i * rounds, rounds, 0, false);
    if (!out[ncarried + i] || out[ncarried + i] == g->poison) return NULL;
  }
  return out;
}

// ---- carried values that never change ----

// Whether each round hands carried value i on as it got it.
static bool is_handed_on(const Node *n, const Body *b, int64_t i) {
  const Node *p = b->param[2 + i], *value = n->src[2 + i];
  return b->result[1 + i] == p && type_of(p) == type_of(value) && n->type[i] == type_of(value);
}

// The loop with such values captured, and its results; NULL: it has none.
static Node **without_unchanged(Cleaner *cl, const Node *n) {
  Graph *g = cl->c->g;
  loop_attrs at = *(const loop_attrs *)n->attrs;
  const Body *b = at.body;
  int64_t ncarried = n->nsrc - 2 - at.captures, kept = 0, nparams = 2, nresults = 1, nsrc = 2;
  for (int64_t i = 0; i < ncarried; i++) kept += !is_handed_on(n, b, i);
  if (kept == ncarried) return NULL;
  Node **param = arena_array(cl->arena, Node *, b->nparams),
       **src = arena_array(cl->arena, Node *, n->nsrc);
  Node **result = arena_array(cl->arena, Node *, b->nresults),
       **out = arena_array(cl->arena, Node *, n->nres);
  const char **name = arena_array(cl->arena, const char *, b->nresults);
  for (int i = 0; i < 2; i++) param[i] = b->param[i], src[i] = n->src[i];
  result[0] = b->result[0], name[0] = b->result_name[0];
  for (int64_t i = 0; i < n->nres; i++) {
    if (i < ncarried && is_handed_on(n, b, i)) continue;
    if (i < ncarried) param[nparams++] = b->param[2 + i], src[nsrc++] = n->src[2 + i];
    name[nresults] = b->result_name[1 + i];
    result[nresults++] = b->result[1 + i];
  }
  for (int64_t i = 0; i < at.captures; i++)
    param[nparams++] = b->param[2 + ncarried + i], src[nsrc++] = n->src[2 + ncarried + i];
  for (int64_t i = 0; i < ncarried; i++)
    if (is_handed_on(n, b, i)) param[nparams++] = b->param[2 + i], src[nsrc++] = n->src[2 + i];
  at.captures += ncarried - kept;
  Body *nb = body_new(g, b->name, nparams, param, nresults, result);
  for (int64_t i = 0; i < nresults; i++) nb->result_name[i] = name[i];
  at.body = nb;
  Node *y =
      nresults == 1 ? NULL : node_new(g, OP_loop, (int)nsrc, src, &at, (int)nresults - 1, n->name);
  if (y == g->poison) return NULL;
  int next = 0;
  for (int64_t i = 0; i < n->nres; i++) {
    bool same = i < ncarried && is_handed_on(n, b, i);
    out[i] = same ? n->src[2 + i] : node_proj(g, y, next++);
  }
  return out;
}

// ---- scan ----

static int64_t scan_option(Ints v, int64_t i) { return i < v.n ? v.v[i] : 0; }

// How often a scan runs, and along which axis each of its inputs; -1 when that is not known.
static int64_t scan_rounds(const Node *n, int64_t nstates, int64_t *axis) {
  const scan_attrs *at = n->attrs;
  int64_t rounds = -1;
  for (int64_t i = 0; i < at->num_scan_inputs; i++) {
    const Type *t = type_of(n->src[nstates + i]);
    int64_t a = scan_option(at->scan_input_axes, i);
    if (t->kind != TK_TENSOR || t->rank < 1) return -1;
    axis[i] = a < 0 ? a + t->rank : a;
    if (axis[i] < 0 || axis[i] >= t->rank || !ie_is_const(t->dims[axis[i]])) return -1;
    int64_t size = t->dims[axis[i]]->value;
    if (rounds >= 0 && rounds != size) return -1;
    rounds = size;
  }
  return rounds;
}

static Node *scan_row(Graph *g, Node *x, int64_t axis, int64_t at) {
  Node *row = slice_axis(g, x, axis, at, at + 1, 1);
  return N(g, squeeze, row, node_i64s(g, 1, &axis));
}

static Node **unrolled_scan(Cleaner *cl, Node *n) {
  Graph *g = cl->c->g;
  const scan_attrs *at = n->attrs;
  const Body *b = at->body;
  int64_t nin = at->num_scan_inputs, nstates = (int64_t)n->nsrc - at->captures - nin;
  int64_t nscan = n->nres - nstates, axis[MAX_VALUES];
  if (at->batched || nstates < 0 || nin < 1 || nin > MAX_VALUES) return NULL;
  int64_t rounds = scan_rounds(n, nstates, axis);
  if (rounds < 1 || !small_enough(cl, b, rounds)) return NULL;
  Node *value[MAX_VALUES], *result[MAX_VALUES];
  Node **rows = arena_array(cl->arena, Node *, MAX(nscan * rounds, 1));
  for (int64_t i = 0; i < b->nparams; i++) value[i] = n->src[i];
  for (int64_t r = 0; r < rounds; r++) {
    for (int64_t i = 0; i < nin; i++) {
      bool back = scan_option(at->scan_input_directions, i);
      value[nstates + i] = scan_row(g, n->src[nstates + i], axis[i], back ? rounds - 1 - r : r);
    }
    cl->many = rounds > 1;
    bool done = !graph_status(g) && same_types(b->param, value, nstates + nin) &&
                inline_body(cl, b, value, result);
    cl->many = false;
    if (!done) return NULL;
    for (int64_t i = 0; i < nstates; i++) value[i] = result[i];
    for (int64_t i = 0; i < nscan; i++) rows[i * rounds + r] = result[nstates + i];
  }
  Node **out = arena_array(cl->arena, Node *, n->nres);
  for (int64_t i = 0; i < nstates; i++) out[i] = value[i];
  for (int64_t i = 0; i < nscan; i++) {
    Node *y = stacked(g, rows + i * rounds, rounds, scan_option(at->scan_output_axes, i),
                      scan_option(at->scan_output_directions, i));
    if (!y || y == g->poison || type_of(y) != n->type[nstates + i]) return NULL;
    out[nstates + i] = y;
  }
  return out;
}

// ---- captures ----

// A body of a control-flow node, and where its captures lie: operand `first + k` is parameter
// `param + k`.
typedef struct Region {
  const Body *body;
  int64_t first, param, n;
  int offset;  // of the body in the attributes
} Region;

static int regions_of(const Node *n, Region *out) {
  const void *at = n->attrs;
  int64_t nsrc = n->nsrc;
  if (n->op == OP_if) {
    const if_attrs *a = at;
    out[0] = (Region){a->then_branch, 1, 0, a->then_captures, offsetof(if_attrs, then_branch)};
    out[1] = (Region){a->else_branch, 1 + a->then_captures, 0, nsrc - 1 - a->then_captures,
                      offsetof(if_attrs, else_branch)};
    return 2;
  }
  const Body *b = NULL;
  int64_t captures = 0;
  int offset = 0;
  if (n->op == OP_loop) {
    b = ((const loop_attrs *)at)->body;
    captures = ((const loop_attrs *)at)->captures;
    offset = offsetof(loop_attrs, body);
  } else if (n->op == OP_scan) {
    b = ((const scan_attrs *)at)->body;
    captures = ((const scan_attrs *)at)->captures;
    offset = offsetof(scan_attrs, body);
  } else if (n->op == OP_sequence_map) {
    b = ((const sequence_map_attrs *)at)->body;
    captures = ((const sequence_map_attrs *)at)->captures;
    offset = offsetof(sequence_map_attrs, body);
  } else {
    return 0;
  }
  out[0] = (Region){b, nsrc - captures, b->nparams - captures, captures, offset};
  return 1;
}

static void set_captures(const Node *n, void *attrs, int region, int64_t count) {
  if (n->op == OP_if && region == 0) ((if_attrs *)attrs)->then_captures = count;
  if (n->op == OP_loop) ((loop_attrs *)attrs)->captures = count;
  if (n->op == OP_scan) ((scan_attrs *)attrs)->captures = count;
  if (n->op == OP_sequence_map) ((sequence_map_attrs *)attrs)->captures = count;
}

// ---- what does not change from round to round ----

// What is larger than all that it is made from is kept for the time of the loop only where it is
// small.
static bool worth_keeping(const Cleaner *cl, Graph *g, const Node *n) {
  int64_t bytes, count = 1;
  const Type *t = type_of(n);
  Dim size = type_numel(g, t);
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (n->src[i] != g->none && type_of(n->src[i])->kind == TK_TENSOR &&
        type_of(n->src[i])->rank >= 0 && type_numel(g, type_of(n->src[i])) == size)
      return true;
  if (!type_is_static(t)) return n->op == OP_mat_mul;
  for (int i = 0; i < t->rank; i++)
    if (!ck_mul(count, t->dims[i]->value, &count)) return false;
  return dtype_bytes(t->dtype, count, &bytes) && bytes <= cl->c->o->fold_limit;
}

// Moves elements by numbers that inference has checked.
static bool moves_safely(Graph *g, const Node *n) {
  if (n->op != OP_unsqueeze && n->op != OP_squeeze && n->op != OP_slice && n->op != OP_concat &&
      n->op != OP_reshape)
    return false;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    if (n->src[i] == g->none) continue;
    if (!type_is_static(type_of(n->src[i])) || type_of(n->src[i])->dtype == DT_STRING) return false;
    if (i && n->op != OP_concat && n->src[i]->op != OP_const) return false;
  }
  return type_is_static(type_of(n));
}

// Cannot fail, whatever the values are, given these types.
static bool safe_early(Graph *g, const Node *n) {
  int flags = op_info(n->op)->flags;
  const Type *t = n->nres == 1 ? type_of(n) : NULL;
  if (!t || t->kind != TK_TENSOR || t->rank < 0 || (flags & (OPF_RANDOM | OPF_CONTROL | OPF_HOST)))
    return false;
  for (int i = 0; i < t->rank; i++)
    if (ie_has_fresh(t->dims[i])) return false;
  if (n->op == OP_transpose) return type_of(n->src[0])->rank >= 0;
  if (moves_safely(g, n)) return true;
  if (n->op == OP_mat_mul) {
    const Type *a = type_of(n->src[0]), *b = type_of(n->src[1]);
    return dtype_is_float(t->dtype) && a->rank >= 2 && b->rank == 2 &&
           a->dims[a->rank - 1] == b->dims[0];
  }
  if (!(flags & OPF_ELEMENTWISE) || !dtype_is_float(t->dtype)) return false;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    if (n->src[i] == g->none) continue;
    const Type *s = type_of(n->src[i]);
    if (s->kind != TK_TENSOR || s->rank < 0 || s->dtype == DT_STRING) return false;
    for (int k = 0; k < s->rank; k++) {
      Dim own = s->dims[k], out = t->dims[k + t->rank - s->rank];
      if (own != out && !ie_is(own, 1)) return false;
    }
  }
  return true;
}

// ---- rebuilding a node with tidied bodies ----

typedef struct Tidy {
  Cleaner *cl;
  const Node *node;
  Region r;
  IntMap inside;               // body node id -> its copy in the new body
  IntMap outside;              // body node id -> the same value outside, when it does not change
  VEC(Node *) operand, param;  // the new captures
  bool changed;
} Tidy;

// The value of an outside node within the new body, where `inner` stood for it.
static Node *capture(Tidy *t, Node *value, Node *inner) {
  if (value->op == OP_const) return value;
  for (int64_t i = 0; i < t->operand.n; i++)
    if (t->operand.v[i] == value && type_of(t->param.v[i]) == type_of(inner)) return t->param.v[i];
  Node *p = inner;
  if (inner->op != OP_param) {
    p = node_param(t->cl->c->g, type_of(value), inner->name);
    p->sym = inner->sym;  // what is known of it stays known
    p->nsym = inner->nsym;
    p->known = inner->known;
  }
  vec_push(t->cl->arena, &t->operand, value);
  vec_push(t->cl->arena, &t->param, p);
  return p;
}

static bool lookup(const IntMap *m, const Node *n, Node **out) {
  uint64_t v;
  bool found = intmap_get(m, n->id, &v);
  if (found) *out = (Node *)(uintptr_t)v;
  return found;
}

static bool unchanging(const Tidy *t, const Node *n) {
  Node *unused;
  if (n->op == OP_const || n == t->cl->c->g->none) return true;
  return lookup(&t->outside, n, &unused);
}

// Copies one node of the body: outside, when nothing that it needs changes, else inside.
static bool place_node(Tidy *t, Node *n) {
  Graph *g = t->cl->c->g;
  if (n->op == OP_param || n->op == OP_const || n == g->none) return true;
  bool early = t->node->op != OP_if && n->nsrc && safe_early(g, n) && worth_keeping(t->cl, g, n);
  for (uint32_t i = 0; early && i < n->nsrc; i++) early = unchanging(t, n->src[i]);
  Node *copy;
  if (early) {
    copy = copy_node(g, t->cl->arena, &t->outside, n);
    // Inside a body its dims may be told in other symbols: only what keeps its type goes out.
    if (copy != g->poison && type_of(copy) == type_of(n)) {
      intmap_put(&t->outside, n->id, (uint64_t)(uintptr_t)copy);
      t->changed = true;
      return true;
    }
    if (copy == g->poison) return false;
  }
  for (uint32_t i = 0; i < n->nsrc; i++) {
    Node *value, *have;
    if (lookup(&t->inside, n->src[i], &have) || !lookup(&t->outside, n->src[i], &value)) continue;
    intmap_put(&t->inside, n->src[i]->id, (uint64_t)(uintptr_t)capture(t, value, n->src[i]));
  }
  copy = copy_node(g, t->cl->arena, &t->inside, n);
  if (copy == g->poison || copy->nres != n->nres) return false;
  for (int i = 0; i < n->nres; i++)
    if (copy->type[i] != n->type[i]) return false;
  if (copy != n) intmap_put(&t->inside, n->id, (uint64_t)(uintptr_t)copy);
  return true;
}

// The body over its new captures; NULL when it stays as it is.
static Body *tidy_body(Tidy *t) {
  Graph *g = t->cl->c->g;
  const Body *b = t->r.body;
  NodeList order = body_order(g, b, t->cl->arena);
  intmap_init(&t->inside, t->cl->arena);
  intmap_init(&t->outside, t->cl->arena);
  for (int64_t i = 0; i < t->r.n; i++) {
    Node *p = b->param[t->r.param + i], *value = t->node->src[t->r.first + i];
    // Only where both sides say the same type may one stand for the other.
    if (type_of(p) == type_of(value)) {
      intmap_put(&t->outside, p->id, (uint64_t)(uintptr_t)value);
    } else {
      vec_push(t->cl->arena, &t->operand, value);
      vec_push(t->cl->arena, &t->param, p);
    }
  }
  for (int64_t i = 0; i < order.n; i++)
    if (!place_node(t, order.v[i])) return NULL;
  Node **result = arena_array(t->cl->arena, Node *, b->nresults);
  for (int64_t i = 0; i < b->nresults; i++) {
    Node *value;
    result[i] = b->result[i];
    if (lookup(&t->inside, b->result[i], &value))
      result[i] = value;
    else if (lookup(&t->outside, b->result[i], &value))
      result[i] = capture(t, value, b->result[i]);
  }
  if (!t->changed && t->operand.n == t->r.n) return NULL;
  int64_t own = t->r.param;
  Node **param = arena_array(t->cl->arena, Node *, own + t->param.n);
  for (int64_t i = 0; i < own; i++) param[i] = b->param[i];
  for (int64_t i = 0; i < t->param.n; i++) param[own + i] = t->param.v[i];
  Body *nb = body_new(g, b->name, own + t->param.n, param, b->nresults, result);
  for (int64_t i = 0; i < b->nresults; i++) nb->result_name[i] = b->result_name[i];
  return nb;
}

static Node *tidy(Cleaner *cl, Node *n) {
  Graph *g = cl->c->g;
  Region r[2];
  int count = regions_of(n, r);
  if (!count) return n;
  void *attrs = arena_dup(cl->arena, n->attrs, op_info(n->op)->attrs_size);
  VEC(Node *) src = {0};
  bool changed = false;
  for (int64_t i = 0; i < r[0].first; i++) vec_push(cl->arena, &src, n->src[i]);
  for (int k = 0; k < count; k++) {
    Tidy *t = arena_new(cl->arena, Tidy);
    t->cl = cl;
    t->node = n;
    t->r = r[k];
    Body *b = tidy_body(t);
    changed |= b != NULL;
    for (int64_t i = 0; !b && i < r[k].n; i++) vec_push(cl->arena, &src, n->src[r[k].first + i]);
    if (!b) continue;
    for (int64_t i = 0; i < t->operand.n; i++) vec_push(cl->arena, &src, t->operand.v[i]);
    *(const Body **)((char *)attrs + r[k].offset) = b;
    set_captures(n, attrs, k, t->operand.n);
  }
  if (!changed || graph_status(g)) return n;
  Node *y = node_new(g, n->op, (int)src.n, src.v, attrs, n->nres, n->name);
  if (y == g->poison) return n;
  return y;
}

// ---- the pass ----

static Node *clean_node(void *ctx, Node *n, Node *old) {
  Cleaner *cl = ctx;
  uint64_t v;
  if (n->op == OP_proj && intmap_get(&cl->results, old->src[0]->id, &v))
    return ((Node **)(uintptr_t)v)[((const proj_attrs *)n->attrs)->index];
  if (n->op == OP_fused || !(op_info(n->op)->flags & OPF_CONTROL)) return n;
  Node **decided = n->op == OP_if     ? decided_if(cl, n)
                   : n->op == OP_loop ? unrolled(cl, n)
                   : n->op == OP_scan ? unrolled_scan(cl, n)
                                      : NULL;
  if (!decided && n->op == OP_loop) decided = without_unchanged(cl, n);
  if (!decided) return tidy(cl, n);
  if (n->nres == 1) return decided[0];
  intmap_put(&cl->results, old->id, (uint64_t)(uintptr_t)decided);
  return n;
}

tenon_status pass_fold_control_flow(PassCtx *c, bool *out_changed) {
  Arena a;
  arena_init_scoped(&a);
  Cleaner cl = {.c = c, .arena = &a};
  intmap_init(&cl.results, &a);
  GraphMap m = {.g = c->g, .fn = clean_node, .ctx = &cl};
  tenon_status s = graph_map(&m, out_changed);
  arena_deinit(&a);
  return s;
}
