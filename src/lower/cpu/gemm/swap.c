// swap.c -- template gemm with lanes along the rows: the constant operand becomes lhs.
//
// A 1x1 convolution of an image with channels first reads and writes lines of pixels.  With output
// channels as columns every sum goes to scratch and is transposed.  Here the roles change: output
// channels are the rows, pixels the columns, and vectors load and store runs of pixels.  Axes that
// are not contiguous with the pixels (the batch) are taken one by one.  Where a stride leaves
// pixels out there are no runs of them, and the roles stay.  The same holds for every product by a
// constant whose rows are contiguous in the operand and in the result.
//
// Needs:      contract_map, contract_sizes and split_contracted have run; no packed dot products.
// Guarantees: false, and nothing changed, where the roles stay.  Every sum has the same products in
//             the same order, so that no bit changes; with finite weights a tap beside the image
//             adds 0.
#include "lower/contract/contract.h"

#include "loop/prove.h"

enum { DEPTH = 16, LINE = 1024, PAD = 16 };   // of expressions; in bytes; in elements
enum { LANES_LEAST = 4, MASKED_BYTES = 64 };  // where a transposition gains nothing

static bool one_tap(const Contraction *c) {
  if (c->transposed || c->depthwise || c->sides) return false;
  for (int d = 0; d < c->nd; d++) {
    const ContractAxis *s = &c->space[d];
    bool same = s->stride == 1 && !s->lo && s->in == s->out;
    if (s->kernel != 1 || (!same && s->padded)) return false;
  }
  return true;
}

// Convolutions to few channels, which would fill a part of each vector, or of few products, beside
// which the sums of a tile take long to be transposed.
static bool has_taps(const Contraction *c) {
  enum { STRIDE_MOST = 4, DEPTH_FEW = 16 };  // of pixels that are shuffled from runs; products
  int64_t lanes = c->e->lo->target.vector_bytes / elem_bytes(c->acc);
  bool image = c->conv && c->image && !c->transposed && !c->depthwise && !c->sides;
  if (!image || c->groups != 1 || one_tap(c) || !ie_is_const(c->n) || lanes < LANES_LEAST)
    return false;
  int64_t stride = c->space[c->nd - 1].stride;
  return c->n->value <= lanes ? stride <= STRIDE_MOST : stride == 1 && c->depth <= DEPTH_FEW;
}

// Pixels are left out, and so many channels read each that it pays to gather them once.
static bool gathers(const Contraction *c) {
  enum { VECTORS_MANY = 32 };
  int64_t lanes = MAX(c->e->lo->target.vector_bytes / elem_bytes(c->acc), 1);
  bool strided = false;
  for (int d = 0; d < c->nd; d++) strided |= c->space[d].stride > 1;
  return strided && one_tap(c) && c->n->value >= VECTORS_MANY * lanes;
}

static bool takes(const Contraction *c, const ContractEpilogue *h) {
  bool plain = c->weight && !c->word && !c->pieces && !c->lhs_zero && !c->rhs_zero && !h->blocks &&
               dtype_class(c->acc) == DC_FLOAT && type_of(c->rhs)->dtype == c->acc;
  if (!plain || c->row1 <= c->row0 || c->col1 - c->col0 != 1 || !ie_is_const(c->n)) return false;
  bool taps = has_taps(c);
  for (int i = 0; i < c->nk; i++)
    if (!ie_is_const(c->k[i]) || (!taps && i + 1 < c->nk && c->k[i]->value != 1)) return false;
  return c->nk > 0 && c->depth > 0 && (!c->conv || taps || one_tap(c));
}

// What the loads of an element are along a symbol.
typedef struct Along {
  Dim sym;
  IntPool *pool;
  int64_t step;
  bool contiguous, other;
} Along;

static bool steps_by(const Along *r, Dim index, int64_t step) {
  return contract_coefficient(index, r->sym) == step &&
         !dim_has(ie_sub(r->pool, index, ie_mulc(r->pool, r->sym, step)), r->sym);
}

static void look(Along *r, const LoopExpr *x, int depth) {
  if (!x) return;
  r->other |= depth > DEPTH || (x->kind == LX_INDEX && dim_has(x->index, r->sym));
  if (depth > DEPTH) return;
  if (x->kind == LX_LOAD && steps_by(r, x->index, r->step))
    r->contiguous = true;
  else if (x->kind == LX_LOAD)
    r->other |= dim_has(x->index, r->sym);
  for (int i = 0; i < ARRAY_LEN(x->src); i++) look(r, x->src[i], depth + 1);
}

// Columns that would leave most lanes empty.
static bool is_skinny(const Contraction *c) {
  int64_t lanes = MAX(c->e->lo->target.vector_bytes / elem_bytes(c->acc), 1);
  return lanes >= LANES_LEAST && c->n->value <= MAX(lanes / 8, 1);
}

// Rows from axis `first` on, counted through, as lhs and the first result have them.
static bool lies_along(Contraction *c, ContractEpilogue *h, int first, int last, bool *plain) {
  ElementBuilder *e = c->e;
  const Type *y = e->fused->type[0];
  LoopBuilder kept = e->b;
  ContractPoint at = {.group = e->pool->zero};
  Dim index[MAX_RANK], to[MAX_RANK], shape[MAX_RANK], n = e->pool->one;
  if (y->kind != TK_TENSOR) return false;
  for (int i = first; i < last; i++) n = ie_mul(e->pool, n, c->out[i]);
  for (int i = 0; i < c->nout; i++) at.out[i] = loop_sym(e->k, "p", c->out[i]);
  for (int i = 0; i < c->nk; i++) at.k[i] = loop_sym(e->k, "p", c->k[i]);
  Along r = {.sym = loop_sym(e->k, "p", n), .pool = e->pool, .step = 1};
  if (has_taps(c)) r.step = c->space[c->nd - 1].stride;
  elem_split(e, r.sym, last - first, c->out + first, at.out + first);
  if (!epilogue_index(&h->walk, e->body->result[0], at.out, to)) return false;
  elem_shape(e, y, shape);
  bool skinny = is_skinny(c) && !has_taps(c);
  if (!skinny && !steps_by(&r, elem_linear(e, y->rank, shape, to), 1)) return false;
  loop_begin(&e->b, e->k);
  contract_lhs(c, &at, index);
  const LoopExpr *x = elem_at(e, c->lhs, index);
  e->b = kept;
  elem_forget(e);
  look(&r, x, 0);
  *plain = x && x->kind == LX_LOAD && !x->nguards && r.contiguous;
  return x && (skinny || gathers(c) || (r.contiguous && !r.other));
}

// Lanes that stay empty cost more than a transposed tile, and so do stores under a mask, which are
// slow without AVX-512.
static bool worth(const Contraction *c, Dim n, bool plain) {
  int64_t lanes = MAX(c->e->lo->target.vector_bytes / elem_bytes(c->acc), 1);
  bool whole = ie_is_const(n) && n->value % (2 * lanes) == 0;
  if (plain && !whole && !is_skinny(c) && c->e->lo->target.vector_bytes < MASKED_BYTES)
    return false;
  if (!ie_is_const(n)) return true;
  int64_t filled = (n->value + lanes - 1) / lanes * lanes;
  return n->value >= lanes / 2 && filled * 3 <= n->value * 4;
}

// Weights row by row.  Rows that lie a multiple of LINE bytes apart share a place in the cache.
static bool pack_rows(const Contraction *c, PackSpec *out) {
  if (!contract_pack_rows(c, out)) return false;
  int64_t k = out->extent[c->nk];
  if (k * elem_bytes(c->acc) % LINE == 0) out->extent[c->nk] = k + PAD;
  return true;
}

bool contract_swap(Contraction *c, ContractEpilogue *h, ContractProbe *p, PackSpec *pack) {
  int first = c->conv ? c->first_space : c->row0, last = c->conv ? first + c->nd : c->row1;
  bool plain = false, taps = takes(c, h) && has_taps(c);
  if (!takes(c, h)) return false;
  if (taps) first = last - 1;
  while (first < last && !lies_along(c, h, first, last, &plain)) first++;
  if (first >= last) return false;
  Dim n = c->e->pool->one;
  for (int i = first; i < last; i++) n = ie_mul(c->e->pool, n, c->out[i]);
  if (!worth(c, n, plain && !taps) || !pack_rows(c, pack)) return false;
  const Node *lhs = c->lhs;
  AxisMap axis[MAX_RANK];
  c->swapped = true;
  c->row_weight = c->weight;
  c->tap_pitch = c->row_pitch = pack->extent[c->nk];
  for (int i = 1; i < c->nk; i++) c->row_pitch *= pack->extent[i];
  c->taps = taps;
  c->weight = NULL;
  c->lhs = c->rhs;
  c->rhs = lhs;
  memcpy(axis, c->lhs_axis, sizeof axis);
  memcpy(c->lhs_axis, c->rhs_axis, sizeof axis);
  memcpy(c->rhs_axis, axis, sizeof axis);
  c->row0 = c->col0;
  c->row1 = c->col1;
  c->col0 = first;
  c->col1 = last;
  c->m = c->n;
  c->n = n;
  c->image = c->guarded = c->strided = c->divided_rows = false;
  for (int d = 0; d < c->nd && !taps; d++) c->space[d].padded = false;
  *p = (ContractProbe){.ok = true, .lhs_plain = true, .rhs_plain = plain, .along = -1};
  return true;
}
