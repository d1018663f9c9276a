// bound.c -- running a graph on its own inputs, and how far roundings may take its results
// (graphfuzz.h).
//
// The graph is run again with every value perturbed by a few roundings, those of bodies included;
// what that changes is the bound.  A sum of constants alone has no value that was perturbed before
// it, so its constants are.  A convolution that may be done by Winograd's transforms is perturbed
// by the bound of those (docs/codegen.md).
#include "graphfuzz/graphfuzz.h"
#include "ir/internal.h"
#include "ops/order.h"

#include <math.h>

// ---- nodes ----

typedef VEC(Node *) Nodes;

static void add_nodes(Graph *g, const Body *b, Arena *a, Nodes *out);
static void add_bodies(Graph *g, const Node *n, Arena *a, Nodes *out) {
  const OpInfo *op = op_info(n->op);
  for (int k = 0; k < op->nattrs; k++)
    if (op->attrs[k].kind == ATTR_body)
      add_nodes(g, *(const Body *const *)((const char *)n->attrs + op->attrs[k].offset), a, out);
}
static void add_nodes(Graph *g, const Body *b, Arena *a, Nodes *out) {
  NodeList l = body_order(g, b, a);
  for (int64_t i = 0; i < l.n; i++) {
    vec_push(a, out, l.v[i]);
    add_bodies(g, l.v[i], a, out);
  }
}

NodeList fuzz_nodes(Graph *g, Arena *a) {
  Nodes l = {0};
  add_nodes(g, g->main, a, &l);
  return (NodeList){l.v, l.n};
}

static bool is_float_tensor(const Type *t) {
  return t->kind == TK_TENSOR && dtype_is_float(t->dtype);
}

// ---- running ----

tenon_status fuzz_inputs(Graph *g, Run *run, int k, Arena *a, Value ***out) {
  *out = arena_array(a, Value *, g->main->nparams + 1);
  for (int64_t i = 0; i < g->main->nparams; i++)
    TRY(fuzz_input(run, type_of(g->main->param[i]), g->main->param[i]->name, k, &(*out)[i]));
  return TENON_OK;
}

tenon_status fuzz_run(Graph *g, Run *run, int k, const Placement *p, Value **in, Arena *a,
                      Value **out) {
  Interp *it;
  if (!in) TRY(fuzz_inputs(g, run, k, a, &in));
  TRY(interp_create(g, NULL, run->diag, &it));
  tenon_status s = interp_run_placed(it, run, p, in, out);
  for (int64_t i = 0; !s && i < g->main->nresults; i++) s = fuzz_own(run, &out[i]);
  interp_free(it);
  return s;
}

// ---- what a few roundings do ----

static double rounding(DType t) {
  switch (t) {
  case DT_F64: return 0x1p-53;
  case DT_F32: return 0x1p-24;
  case DT_F16: return 0x1p-11;
  case DT_BF16: return 0x1p-8;
  default: return dtype_is_float(t) ? 0.25 : 0;
  }
}

// Numbers so large that an intermediate result in another order may overflow.
static double too_large(DType t) { return t == DT_F64 ? 1e290 : t == DT_F16 ? 2048 : 1e30; }
// The distance of the smallest numbers.
static double smallest(DType t) {
  return t == DT_F64 ? 0x1p-1074 : t == DT_F32 ? 0x1p-149 : t == DT_F16 ? 0x1p-24 : 0x1p-133;
}

// Below it a kernel may take a number for 0, or make it 0.
static double smallest_normal(DType t) {
  return t == DT_F64 ? 0x1p-1022 : t == DT_F16 ? 0x1p-24 : 0x1p-126;
}

typedef struct Perturb {
  uint64_t rng;
  bool flush;       // numbers too small to be normal become 0
  uint8_t *odd;     // by node: a value that is no finite number was seen
  uint8_t *summed;  // by node: a constant of a sum that has no other floats
  double *most;     // by node: the largest magnitude that was seen
  double all;       // of all nodes
  uint32_t n;
} Perturb;

enum { PERTURBED = 3, ROUNDINGS = 4, BOUND = 24 };

// What a composite loses inside: in gelu 1 + erf(x) rounds like 1 and is then multiplied by x, of
// which no more than 16 gives anything but 0 or x itself.
static double rounds_inside(const Node *n, DType t) {
  return n->op == OP_gelu ? 16 * (t == DT_F64 ? 0x1p-53 : 0x1p-24) : 0;
}

// A convolution that may be done by Winograd's transforms: 3x3 taps, enough channels.
static bool may_be_winograd(const Node *n) {
  if (n->op != OP_conv || n->nsrc < 2 || type_of(n->src[1])->rank != 4) return false;
  const Type *w = type_of(n->src[1]);
  int taps = node_channels_last(n) ? 0 : 2;
  return w->dtype == DT_F32 && ie_is(w->dims[taps], 3) && ie_is(w->dims[taps + 1], 3) &&
         w->dims[taps ? 1 : 2]->hi >= 16;
}

static double most_of(const Perturb *s, const Node *n) {
  double most = 0;
  while (n->op == OP_proj) n = n->src[0];
  if (n->op != OP_const) return n->id < s->n && s->most[n->id] > 0 ? s->most[n->id] : s->all;
  const float *v = n->data->mem;
  if (!v || type_of(n)->dtype != DT_F32) return s->all;
  for (int64_t i = 0; i < n->data->n; i++) most = fmax(most, fabs((double)v[i]));
  return most;
}

// (channels + 11) roundings of 176 times the sum of the magnitudes of all products, each taken for
// the largest.  The bound is a multiple of what shaking does: a part of it is enough.
static double winograd_error(const Perturb *s, const Node *n) {
  enum { GROWN = 176, TAPS = 9 };
  if (!may_be_winograd(n)) return 0;
  const Type *w = type_of(n->src[1]);
  Dim channels = w->dims[node_channels_last(n) ? 2 : 1];
  double c = ie_is_const(channels) ? (double)channels->value : 64;
  double size = TAPS * c * most_of(s, n->src[0]) * most_of(s, n->src[1]);
  return 0x1p-24 * (c + 11) * GROWN * size / (BOUND / 6);
}

static void perturb(Perturb *s, const Node *n, Value *v) {
  if (!v || v->kind != VK_TENSOR || !dtype_is_float(v->dtype)) return;
  double inside = rounds_inside(n, v->dtype) + winograd_error(s, n) / ROUNDINGS;
  for (int64_t i = 0; i < v->n; i++) {
    double x = val_f64(v, i);
    if (n->id < s->n && isfinite(x)) s->most[n->id] = fmax(s->most[n->id], fabs(x));
    if (isfinite(x)) s->all = fmax(s->all, fabs(x));
    if (n->id < s->n) s->odd[n->id] |= !(fabs(x) < too_large(v->dtype));
    s->rng = hash_u64(s->rng + 0x9e3779b97f4a7c15ull);
    double u = (double)(s->rng >> 11) * 0x1p-52 - 1;
    if (s->flush && fabs(x) < smallest_normal(v->dtype)) x = 0;
    x += ROUNDINGS * u * (fabs(x) * rounding(v->dtype) + inside);
    val_put_f64(v, i, x);
  }
}

static tenon_status perturb_begin(void *ctx, Run *run, const int64_t *bind, const bool *bound,
                                  int32_t nbind) {
  (void)ctx, (void)run, (void)bind, (void)bound, (void)nbind;
  return TENON_OK;
}
static tenon_status perturb_place(void *ctx, Run *run, const Node *n, int result, Value **v) {
  const Perturb *s = ctx;
  (void)result;
  if (n->op == OP_const && !(n->id < s->n && s->summed[n->id])) return TENON_OK;
  if (!*v || (*v)->kind != VK_TENSOR || !dtype_is_float((*v)->dtype)) return TENON_OK;
  Value *copy;  // it may share its bytes with another
  TRY(value_tensor(run, NOWHERE, (*v)->dtype, (*v)->rank, (*v)->dims, &copy));
  copy_elems(copy->dtype, copy->data, 0, (*v)->data, 0, copy->n);
  perturb(ctx, n, copy);
  if ((*v)->run) value_release(*v);
  *v = copy;
  return TENON_OK;
}
static void perturb_dead(void *ctx, const Node *n, int result) { (void)ctx, (void)n, (void)result; }

static void widen(FuzzBound *b, Run *run, int64_t i, const Value *want, const Value *got) {
  if (want->kind != VK_TENSOR || got->kind != VK_TENSOR || got->n != want->n ||
      !dtype_is_float(want->dtype)) {
    b->jumps[i] |= !fuzz_same(want, got);
    return;
  }
  if (!b->spread[i] && value_tensor(run, NOWHERE, DT_F64, want->rank, want->dims, &b->spread[i])) {
    b->found = false;
    return;
  }
  for (int64_t e = 0; e < want->n; e++) {
    double off = fabs(val_f64(want, e) - val_f64(got, e));
    if (!isfinite(off)) off = INFINITY;
    val_put_f64(b->spread[i], e, fmax(val_f64(b->spread[i], e), off));
  }
}

// A result is known where nothing that it is made of was odd; a body's values count for the results
// of its node.
static void find_known(Graph *g, const Perturb *s, Arena *a, FuzzBound *b) {
  NodeList all = fuzz_nodes(g, a), l = body_order(g, g->main, a);
  uint8_t *made = arena_array(a, uint8_t, s->n);
  for (int64_t i = 0; i < l.n; i++) {
    Node *n = l.v[i];
    Nodes inside = {0};
    made[n->id] = s->odd[n->id];
    add_bodies(g, n, a, &inside);
    for (int64_t k = 0; k < inside.n; k++) made[n->id] |= s->odd[inside.v[k]->id];
    for (uint32_t k = 0; k < n->nsrc; k++) made[n->id] |= made[n->src[k]->id];
  }
  for (int64_t i = 0; i < all.n; i++) b->found &= !s->odd[all.v[i]->id];
  for (int64_t i = 0; i < g->main->nresults; i++) b->known[i] &= !made[g->main->result[i]->id];
}

// Constants of nodes that compute more than an element from an element, and whose floats are
// constants alone: what such a node loses follows from the magnitudes of what it sums, not from
// that of its result.
static void find_summed(const NodeList *l, uint8_t *summed) {
  for (int64_t i = 0; i < l->n; i++) {
    const Node *n = l->v[i];
    bool alone = n->op > OP_foreign && !(op_info(n->op)->flags & (OPF_ELEMENTWISE | OPF_MOVEMENT));
    for (uint32_t k = 0; k < n->nsrc; k++)
      alone &= n->src[k]->op == OP_const || !is_float_tensor(type_of(n->src[k]));
    for (uint32_t k = 0; alone && k < n->nsrc; k++)
      if (n->src[k]->op == OP_const) summed[n->src[k]->id] = 1;
  }
}

void fuzz_bound(Graph *g, Run *run, int k, Arena *a, Value *const *want, FuzzBound *b) {
  *b = (FuzzBound){.found = true};
  NodeList l = fuzz_nodes(g, a);
  Perturb s = {0};
  for (int64_t i = 0; i < l.n; i++) s.n = MAX(s.n, l.v[i]->id + 1);
  s.odd = arena_array(a, uint8_t, s.n);
  s.most = arena_array(a, double, s.n);
  s.summed = arena_array(a, uint8_t, s.n);
  find_summed(&l, s.summed);
  Placement p = {&s, true, perturb_begin, perturb_place, perturb_dead};
  for (int round = 0; b->found && round < PERTURBED; round++) {
    s.rng = (uint64_t)round * 77 + 5;
    s.flush = round == 0;
    Value **in, *out[FUZZ_RESULTS] = {NULL};
    b->found = !fuzz_inputs(g, run, k, a, &in);
    for (int64_t i = 0; b->found && i < g->main->nparams; i++)
      perturb(&s, g->main->param[i], in[i]);
    b->found = b->found && !fuzz_run(g, run, k, &p, in, a, out);
    for (int64_t i = 0; b->found && i < g->main->nresults; i++) widen(b, run, i, want[i], out[i]);
  }
  for (int64_t i = 0; i < g->main->nresults; i++) b->known[i] = b->found;
  if (b->found) find_known(g, &s, a, b);
}

bool fuzz_within(const FuzzBound *b, int64_t i, const Value *want, const Value *got) {
  if (!b->spread[i]) return b->jumps[i] || fuzz_same(want, got);
  if (got->kind != VK_TENSOR || got->dtype != want->dtype || got->rank != want->rank ||
      memcmp(got->dims, want->dims, (size_t)got->rank * sizeof got->dims[0]))
    return false;
  double largest = 0;
  for (int64_t e = 0; e < want->n; e++) largest = fmax(largest, fabs(val_f64(want, e)));
  for (int64_t e = 0; e < want->n; e++) {
    double x = val_f64(want, e), y = val_f64(got, e);
    double bound = BOUND * val_f64(b->spread[i], e) +
                   BOUND * rounding(want->dtype) * (fabs(x) + largest / 4) +
                   BOUND * (b->flushed ? smallest_normal : smallest)(want->dtype);
    if (!(fabs(x - y) <= bound) && isfinite(bound)) return false;
  }
  return true;
}

// ---- jumps ----

// Ops that turn a rounding into a jump: behind them only exact graphs can be compared.
bool fuzz_node_is_steep(const Node *n) {
  const OpInfo *op = op_info(n->op);
  if (!n->nsrc || n->op == OP_param || n->op == OP_proj) return false;
  bool from_float = false;
  for (uint32_t i = 0; i < n->nsrc; i++) from_float |= is_float_tensor(type_of(n->src[i]));
  for (int i = 0; i < n->nres; i++) {
    const Type *t = n->type[i];
    if (t->kind != TK_TENSOR) return true;
    if (from_float && !dtype_is_float(t->dtype) && n->op != OP_shape && n->op != OP_size &&
        n->op != OP_dims)
      return true;
    if (dtype_is_float(t->dtype) && dtype_bits(t->dtype) <= 8) return true;
  }
  static const int steep[] = {OP_round,    OP_floor,  OP_ceil,
                              OP_sign,     OP_mod,    OP_fmod,
                              OP_max_pool, OP_shrink, OP_dynamic_quantize_linear};
  for (int64_t i = 0; i < ARRAY_LEN(steep); i++)
    if (n->op == steep[i]) return true;
  return from_float && (op->flags & OPF_HOST);
}

bool fuzz_is_steep(Graph *g, Arena *a) {
  NodeList l = fuzz_nodes(g, a);
  for (int64_t i = 0; i < l.n; i++)
    if (fuzz_node_is_steep(l.v[i])) return true;
  return false;
}
