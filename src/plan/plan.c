// plan.c -- what needs a buffer, for how long, and which buffers are one.
//
// Steps are the nodes that compute something, in order.  A result lives from the step that makes it
// to the last one that reads it; the graph's results live to the end.
#include "plan/impl.h"

#include "eval/fuse.h"
#include "eval/movement.h"
#include "ir/internal.h"
#include "ir/text.h"
#include "ir/traits.h"

static uint64_t key(const Node *n, int result) { return (uint64_t)n->id << 16 | (uint64_t)result; }

int32_t plan_find(const MemPlan *p, const Node *n, int result) {
  uint64_t v;
  return intmap_get(&p->index, key(n, result), &v) ? (int32_t)v : -1;
}

// The node and result that an operand stands for.
const Node *plan_source(const Node *n, int *result) {
  *result = 0;
  if (n->op != OP_proj) return n;
  *result = (int)((const proj_attrs *)n->attrs)->index;
  return n->src[0];
}

bool plan_is_step(const Graph *g, const Node *n) {
  return n->op != OP_const && n->op != OP_param && n->op != OP_proj && n != g->none;
}

// The symbols that the inputs' own sizes give: a list's elements and sizes written as expressions
// give none.
static void find_given(Graph *g, IntMap *out) {
  for (int64_t i = 0; i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    for (int k = 0; t->kind == TK_TENSOR && k < t->rank; k++)
      if (t->dims[k]->kind == IE_SYM) intmap_put(out, t->dims[k]->id, 1);
  }
}

static bool is_given(Arena *a, Dim d, const IntMap *given) {
  IntMap seen;
  DimVec sym = {0};
  uint64_t unused;
  if (ie_is_const(d)) return true;
  if (d->kind == IE_SYM) return intmap_get(given, d->id, &unused);
  intmap_init(&seen, a);
  dim_symbols(d, &seen, a, &sym);
  for (int64_t i = 0; i < sym.n; i++)
    if (!intmap_get(given, sym.v[i]->id, &unused)) return false;
  return true;
}

// Bytes, whole lines of memory.
static Dim rounded(IntPool *d, Dim bits) {
  return ie_mulc(d, ie_ceildiv(d, bits, ie_const(d, 8 * PLAN_ALIGN)), PLAN_ALIGN);
}

static Dim buffer_bytes(Graph *g, Arena *a, const Type *t, const IntMap *given) {
  if (t->kind != TK_TENSOR || t->rank < 0 || !t->dtype || t->dtype == DT_STRING) return NULL;
  for (int i = 0; i < t->rank; i++)
    if (ie_has_fresh(t->dims[i]) || !is_given(a, t->dims[i], given)) return NULL;
  IntPool *d = &g->dims;
  Dim bits = ie_mulc(d, type_numel(g, t), dtype_bits(t->dtype));
  Dim bytes = rounded(d, bits);
  return ie_is_poison(bytes) ? NULL : bytes;
}

// ---- views and in-place ----

int plan_view_operand(const Node *n) { return node_view_operand(n); }

bool plan_can_join(Graph *g, const Node *concat) {
  const Type *t = type_of(concat);
  IntPool *d = &g->dims;
  int64_t axis = ((const concat_attrs *)concat->attrs)->axis, bits = dtype_bits(t->dtype);
  if (t->rank < 1 || concat->nsrc < 2 || bits % 8) return false;
  for (int64_t i = 0; i < (axis < 0 ? axis + t->rank : axis); i++)
    if (!ie_is(t->dims[i], 1)) return false;
  Dim sum = d->zero;
  for (uint32_t k = 0; k < concat->nsrc; k++) {
    const Type *part = type_of(concat->src[k]);
    if (part->rank != t->rank) return false;
    Dim bytes = rounded(d, ie_mulc(d, type_numel(g, part), bits));
    // The last part may end anywhere.
    if (k + 1 < concat->nsrc && bytes != ie_mulc(d, type_numel(g, part), bits / 8)) return false;
    sum = ie_add(d, sum, bytes);
  }
  return !ie_is_poison(sum) && sum == rounded(d, ie_mulc(d, type_numel(g, t), bits));
}

const Node *plan_joined(const Node *n, const Body **out_body) {
  if (n->op != OP_fused || n->nres != 1) return NULL;
  const fused_attrs *at = n->attrs;
  *out_body = at->body;
  return at->kind == FUSED_VIEW && at->body->result[0]->op == OP_concat ? at->body->result[0]
                                                                        : NULL;
}

int plan_part_operand(const Body *b, const Node *concat, uint32_t part) {
  for (int64_t i = 0; i < b->nparams; i++)
    if (b->param[i] == concat->src[part]) return (int)i;
  return -1;
}

// Whether every element of the result depends on the operand's element at the same place alone.
static bool is_pointwise(const Graph *g, const Node *n) {
  if (n->op != OP_fused) return op_info(n->op)->flags & OPF_ELEMENTWISE;
  const fused_attrs *at = n->attrs;
  (void)g;
  return at->kind == FUSED_POINTWISE;
}

// Whether a kernel that multiplies reads the operand only where it stores: all that is made of it
// is made element by element, in the result's shape.
static bool is_term(const MemPlan *p, const Node *n, uint32_t operand) {
  const fused_attrs *at = n->attrs;
  if (!p->g->traits->mma || p->g->traits->heterogeneous || n->op != OP_fused ||
      at->kind != FUSED_CONTRACTION)
    return false;
  IntMap made;
  uint64_t unused;
  intmap_init(&made, p->arena);
  intmap_put(&made, at->body->param[operand]->id, 1);
  NodeList all = body_order(p->g, at->body, p->arena);
  for (int64_t i = 0; i < all.n; i++) {
    const Node *x = all.v[i];
    bool of_it = false;
    for (uint32_t k = 0; k < x->nsrc; k++) of_it |= intmap_get(&made, x->src[k]->id, &unused);
    if (!of_it) continue;
    if (!(op_info(x->op)->flags & OPF_ELEMENTWISE) || !type_same_dims(type_of(x), n->type[0]))
      return false;
    intmap_put(&made, x->id, 1);
  }
  return true;
}

// ---- lives ----

typedef struct Planner {
  MemPlan *p;
  Arena *a;
  int32_t *root_last;  // by root: last step that reads anything in it
} Planner;

static void extend(MemPlan *p, const Node *operand, int32_t step) {
  int result;
  const Node *n = plan_source(operand, &result);
  int32_t b = plan_find(p, n, result);
  if (b >= 0) p->buffer[b].last = MAX(p->buffer[b].last, step);
}

static void find_lives(MemPlan *p) {
  int32_t step = -1;
  for (int64_t i = 0; i < p->order.n; i++) {
    const Node *n = p->order.v[i];
    if (!plan_is_step(p->g, n)) continue;
    if (plan_is_concurrent(p, i))
      p->nconcurrent += 1 + !plan_is_concurrent(p, i - 1);
    else
      step++;
    for (uint32_t k = 0; k < n->nsrc; k++) extend(p, n->src[k], step);
    for (int r = 0; r < n->nres; r++) {
      int32_t b = plan_find(p, n, r);
      if (b >= 0) p->buffer[b].first = p->buffer[b].last = step;
    }
  }
  p->nsteps = step + 1;
  for (int64_t i = 0; i < p->g->main->nresults; i++) extend(p, p->g->main->result[i], p->nsteps);
}

// Results that are versions of a state have its memory and no buffer.
static void make_buffers(MemPlan *p) {
  VEC(PlanBuffer) v = {0};
  IntMap given;
  p->state = state_versions(p->g, p->order, p->arena);
  p->nnodes = p->g->node.n;
  intmap_init(&given, p->arena);
  find_given(p->g, &given);
  for (int64_t i = 0; i < p->order.n; i++) {
    const Node *n = p->order.v[i];
    if (!plan_is_step(p->g, n) || plan_state(p, n)) continue;
    for (int r = 0; r < n->nres; r++) {
      Dim bytes = buffer_bytes(p->g, p->arena, n->type[r], &given);
      if (!bytes) continue;
      PlanBuffer b = {.node = n, .result = r, .bytes = bytes, .root = (int32_t)v.n, .within = -1};
      b.position = (int32_t)i;
      intmap_put(&p->index, key(n, r), (uint64_t)v.n);
      vec_push(p->arena, &v, b);
    }
  }
  p->buffer = v.v;
  p->n = (int32_t)v.n;
}

static int32_t buffer_of(const MemPlan *p, const Node *operand) {
  int result;
  const Node *n = plan_source(operand, &result);
  return plan_find(p, n, result);
}

static void share(MemPlan *p, int32_t b, int32_t with) {
  int32_t root = p->buffer[with].root;
  p->buffer[b].root = root;
  for (; root >= 0; root = p->buffer[root].within)
    p->buffer[root].live_last = MAX(p->buffer[root].live_last, p->buffer[b].last);
}

// The parts of a joined value, made in its memory.  False, with nothing done, when one has no
// memory to give.
static bool join_parts(MemPlan *p, int32_t b) {
  const Body *body;
  const Node *n = p->buffer[b].node, *concat = plan_joined(n, &body);
  if (!concat || !plan_can_join(p->g, concat)) return false;
  Dim at = p->g->dims.zero;
  uint32_t k;
  for (k = 0; k < concat->nsrc; k++) {
    int operand = plan_part_operand(body, concat, k);
    int32_t o = operand >= 0 ? buffer_of(p, n->src[operand]) : -1;
    PlanBuffer *r = o >= 0 ? &p->buffer[p->buffer[o].root] : NULL;
    // A result of the graph by itself is the caller's, and no part of another.
    if (!r || r->within >= 0 || r->bytes != p->buffer[o].bytes || r->live_last == p->nsteps) break;
    r->within = b;
    r->at = at;
    at = ie_add(&p->g->dims, at, r->bytes);
  }
  PlanBuffer *whole = &p->buffer[b];
  bool all = k == concat->nsrc && at == whole->bytes;
  while (k-- > 0) {
    PlanBuffer *r =
        &p->buffer[p->buffer[buffer_of(p, n->src[plan_part_operand(body, concat, k)])].root];
    if (!all) r->within = -1;
    if (!all) continue;
    whole->live_first = MIN(whole->live_first, r->live_first);
    whole->live_last = MAX(whole->live_last, r->live_last);
  }
  return all;
}

bool plan_meets(const MemPlan *p, int32_t x, int32_t y) {
  int32_t rx = p->buffer[x].root, ry = p->buffer[y].root;
  for (int32_t o = rx; o >= 0; o = p->buffer[o].within)
    if (o == ry) return true;
  for (int32_t o = ry; o >= 0; o = p->buffer[o].within)
    if (o == rx) return true;
  return false;
}

// Whether another node of the step at this position reads what lies with `b`.
static bool is_read_concurrently(const MemPlan *p, int64_t position, int32_t b) {
  int64_t i = position;
  if (!p->concurrent) return false;
  while (plan_is_concurrent(p, i)) i--;
  do {
    const Node *n = p->order.v[i];
    for (uint32_t k = 0; k < n->nsrc && i != position; k++) {
      int32_t o = buffer_of(p, n->src[k]);
      if (o >= 0 && plan_meets(p, o, b)) return true;
    }
  } while (++i < p->order.n && plan_is_concurrent(p, i));
  return false;
}

// Whether what the node stores may lie over the operand: nothing of its memory is read anywhere but
// where that is stored.
static bool may_lie_over(const MemPlan *p, const Node *n, uint32_t operand, int32_t b) {
  if (is_pointwise(p->g, n)) return true;
  for (uint32_t k = 0; k < n->nsrc; k++) {
    int32_t o = k == operand ? -1 : buffer_of(p, n->src[k]);
    if (o >= 0 && plan_meets(p, o, b)) return false;
  }
  return is_term(p, n, operand);
}

// The operand that a node may write over: it dies here, nothing else lives in its buffer beyond,
// and its size is the result's.
static int32_t inplace_operand(const MemPlan *p, const Node *n, int32_t b) {
  if (n->nres != 1) return -1;
  for (uint32_t k = 0; k < n->nsrc; k++) {
    int32_t o = buffer_of(p, n->src[k]);
    if (o < 0 || type_of(n->src[k]) != n->type[0] || !may_lie_over(p, n, k, o)) continue;
    const PlanBuffer *root = &p->buffer[p->buffer[o].root];
    if (root->within < 0 && root->live_last == p->buffer[b].first &&
        root->bytes == p->buffer[b].bytes && !is_read_concurrently(p, p->buffer[b].position, o))
      return o;
  }
  return -1;
}

static void share_buffers(MemPlan *p) {
  for (int32_t b = 0; b < p->n; b++) {
    p->buffer[b].live_first = p->buffer[b].first;
    p->buffer[b].live_last = p->buffer[b].last;
  }
  for (int32_t b = 0; b < p->n; b++) {  // in order of making: what is shared with comes first
    const Node *n = p->buffer[b].node;
    int view = plan_view_operand(n);
    int32_t with = view >= 0 ? buffer_of(p, n->src[view]) : -1;
    if (with >= 0 && p->buffer[with].bytes == p->buffer[b].bytes) {
      share(p, b, with);
      p->nviews++;
      continue;
    }
    if (join_parts(p, b)) {
      p->nviews++;
      continue;
    }
    const Body *body;
    p->ncopies += plan_joined(n, &body) != NULL;
    with = inplace_operand(p, n, b);
    if (with < 0) continue;
    share(p, b, with);
    p->ninplace++;
  }
}

// ---- reference sizes ----

enum { REFERENCE_SIZE = 16 };

// A size that would be negative at the reference (n - 17) has a place all the same, so that others
// are kept apart from it.
// Products of many sizes may be beyond all numbers at these sizes, and small in a run: then they
// count as the largest of which all buffers together still have a sum.
static void reference_sizes(MemPlan *p) {
  int64_t most = INT64_MAX / (2 * ((int64_t)p->n + 1)) / PLAN_ALIGN * PLAN_ALIGN;
  binding_init(&p->reference, p->arena, p->g);
  binding_default(&p->reference, p->g, REFERENCE_SIZE);
  for (int32_t b = 0; b < p->n; b++) {
    int64_t *size = &p->buffer[b].size;
    bool fits =
        ie_eval(p->buffer[b].bytes, p->reference.value, p->reference.known, p->reference.n, size);
    *size = !fits ? most : *size < 0 ? PLAN_ALIGN : MIN(*size, most);
  }
}

// The largest sum of sizes alive at one step.
static int64_t live_bound(const MemPlan *p, Arena *a) {
  int64_t *change = arena_array(a, int64_t, p->nsteps + 2), live = 0, most = 0;
  for (int32_t b = 0; b < p->n; b++) {
    const PlanBuffer *x = &p->buffer[b];
    if (!plan_has_place(p, b)) continue;
    change[x->live_first] += x->size;
    change[x->live_last + 1] -= x->size;
  }
  for (int32_t s = 0; s <= p->nsteps; s++) {
    live += change[s];
    most = MAX(most, live);
  }
  return most;
}

static void prepare(MemPlan *p, NodeList order, const bool *concurrent) {
  p->order = order;
  p->concurrent = concurrent;
  p->nviews = p->ninplace = p->ncopies = p->nconcurrent = 0;
  intmap_init(&p->index, p->arena);
  make_buffers(p);
  find_lives(p);
  share_buffers(p);
  reference_sizes(p);
  p->bound_bytes = live_bound(p, p->arena);
}

static bool keeps_states(const Graph *g, NodeList order, Arena *a) {
  Diag d;
  diag_init(&d);
  return state_check_order(g, order, a, &d) == TENON_OK;
}

// The plan with small kernels that run concurrently, packed, if that takes no more memory than `p`
// does; else `p` itself.
static MemPlan *join_steps(MemPlan *p) {
  static const int reach[] = {24, 8, 3};
  bool packed = false;
  for (size_t i = 0; i < ARRAY_LEN(reach); i++) {
    const bool *concurrent;
    NodeList order = plan_order_concurrent(p, reach[i], p->arena, &concurrent);
    if (!concurrent) break;
    MemPlan *joined = arena_new(p->arena, MemPlan);
    *joined = *p;
    if (!keeps_states(p->g, order, p->arena)) continue;
    prepare(joined, order, concurrent);
    if (joined->bound_bytes > p->bound_bytes) continue;
    plan_pack(joined);
    if (joined->arena_bytes > p->bound_bytes && !packed) {
      plan_pack(p);
      packed = true;
    }
    if (joined->arena_bytes <= (packed ? p->arena_bytes : p->bound_bytes)) return joined;
  }
  return p;
}

tenon_status plan_create(Graph *g, Arena *a, MemPlan **out) {
  MemPlan *p = arena_new(a, MemPlan);
  p->g = g;
  p->arena = a;
  NodeList by_id = state_order(g, body_order(g, g->main, a), a);
  prepare(p, by_id, NULL);
  int64_t import_bytes = p->bound_bytes;
  NodeList deep = state_order(g, plan_order_deep(g, by_id, a), a);
  prepare(p, deep, NULL);
  if (p->bound_bytes >= import_bytes) prepare(p, by_id, NULL);
  p->import_bytes = import_bytes;
  *out = join_steps(p);
  if (*out == p) plan_pack(p);
  return TENON_OK;
}
