// map.c -- maps the axes of a contraction to rows, columns, K and groups.
//
// One function per form of ContractionInfo: dot, matmul, gemm, einsum of two operands, convolution,
// transposed convolution.  contract_lhs and contract_rhs turn a point of the map into operand
// indices.  contract_pack and contract_pack_rows describe packed weights as a PackSpec.
//
// Needs:      an op with a ContractionInfo and one result; ranked operands.  Convolutions need
//             constant kernel sizes and channel counts, and pads that do not depend on dynamic
//             sizes.  Call contract_sizes after elem_begin.
// Guarantees: false where no form fits; the graph is not changed.  Rows, batch and image sizes may
//             be dynamic.  16-bit floats accumulate in f32.
#include "lower/contract/contract.h"

#include "eval/contract.h"
#include "eval/movement.h"
#include "ir/internal.h"
#include "ops/order.h"

static int positive(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

static const Type *ranked(const ElementBuilder *e, const Node *n) {
  const Type *t = type_of(n);
  return t->kind == TK_TENSOR && t->rank >= 0 && elem_has_dtype(e, t->dtype) ? t : NULL;
}

// ---- dot ----

static void map_dot(Contraction *c) {
  const dot_attrs *at = c->anchor->attrs;
  int lr = type_of(c->lhs)->rank, rr = type_of(c->rhs)->rank, n = 0;
  bool lused[MAX_RANK] = {false}, rused[MAX_RANK] = {false};
  for (int64_t i = 0; i < at->batch_lhs.n; i++) {
    int l = positive(at->batch_lhs.v[i], lr), r = positive(at->batch_rhs.v[i], rr);
    lused[l] = rused[r] = true;
    c->lhs_axis[l] = c->rhs_axis[r] = (AxisMap){AXIS_OUT, n++};
  }
  for (int64_t i = 0; i < at->contract_lhs.n; i++) {
    int l = positive(at->contract_lhs.v[i], lr), r = positive(at->contract_rhs.v[i], rr);
    lused[l] = rused[r] = true;
    c->lhs_axis[l] = c->rhs_axis[r] = (AxisMap){AXIS_K, (int)i};
    c->k[c->nk++] = type_of(c->lhs)->dims[l];
  }
  c->row0 = n;
  for (int i = 0; i < lr; i++)
    if (!lused[i]) c->lhs_axis[i] = (AxisMap){AXIS_OUT, n++};
  c->row1 = c->col0 = n;
  for (int i = 0; i < rr; i++)
    if (!rused[i]) c->rhs_axis[i] = (AxisMap){AXIS_OUT, n++};
  c->col1 = n;
}

// ---- matrix products, as numpy's ----

// Batch axes are the result's; where an operand has size 1 it is repeated.
static bool map_batch(const Contraction *c, const Type *t, int n, AxisMap *axis) {
  const Type *y = type_of(c->anchor);
  int own = MAX(t->rank - 2, 0);
  for (int i = 0; i < own; i++) {
    int o = n - own + i;
    if (ie_is(t->dims[i], 1))
      axis[i] = (AxisMap){AXIS_ZERO, 0};
    else if (ie_eq(&c->e->lo->g->dims, t->dims[i], y->dims[o]) == YES)
      axis[i] = (AxisMap){AXIS_OUT, o};
    else
      return false;
  }
  return true;
}

static bool map_mat_mul(Contraction *c) {
  const Type *a = type_of(c->lhs), *b = type_of(c->rhs);
  if (a->rank < 1 || b->rank < 1) return false;
  int n = MAX(MAX(a->rank, b->rank) - 2, 0);
  if (!map_batch(c, a, n, c->lhs_axis) || !map_batch(c, b, n, c->rhs_axis)) return false;
  bool shared = true;  // rhs is the same for all batches: these are rows too
  for (int i = 0; i < b->rank - 2; i++) shared &= c->rhs_axis[i].role == AXIS_ZERO;
  for (int i = 0; i < a->rank - 2; i++) shared &= c->lhs_axis[i].role == AXIS_OUT;
  c->row0 = shared ? 0 : n;
  c->row1 = n;
  if (a->rank > 1) c->lhs_axis[a->rank - 2] = (AxisMap){AXIS_OUT, c->row1++};
  c->lhs_axis[a->rank - 1] = (AxisMap){AXIS_K, 0};
  c->col0 = c->col1 = c->row1;
  c->rhs_axis[b->rank == 1 ? 0 : b->rank - 2] = (AxisMap){AXIS_K, 0};
  if (b->rank > 1) c->rhs_axis[b->rank - 1] = (AxisMap){AXIS_OUT, c->col1++};
  c->k[c->nk++] = a->dims[a->rank - 1];
  return true;
}

static bool map_gemm(Contraction *c) {
  const gemm_attrs *at = c->anchor->attrs;
  const Type *a = type_of(c->lhs), *b = type_of(c->rhs);
  if (a->rank != 2 || b->rank != 2 || dtype_class(a->dtype) != DC_FLOAT) return false;
  c->lhs_axis[at->transA] = (AxisMap){AXIS_OUT, 0};
  c->lhs_axis[!at->transA] = (AxisMap){AXIS_K, 0};
  c->rhs_axis[at->transB] = (AxisMap){AXIS_K, 0};
  c->rhs_axis[!at->transB] = (AxisMap){AXIS_OUT, 1};
  c->row1 = c->col0 = 1;
  c->col1 = 2;
  c->k[c->nk++] = a->dims[!at->transA];
  return true;
}

// ---- einsum of two operands ----

static int axis_of(const uint8_t *label, int n, uint8_t which) {
  for (int i = 0; i < n; i++)
    if (label[i] == which) return i;
  return -1;
}

static bool map_term(Contraction *c, const Einsum *s, int op, AxisMap *axis, uint8_t *summed) {
  const Type *t = type_of(op ? c->rhs : c->lhs), *y = type_of(c->anchor);
  for (int i = 0; i < s->nlabels[op]; i++) {
    uint8_t which = s->label[op][i];
    int o = axis_of(s->out, s->nout, which);
    if (axis_of(s->label[op], i, which) >= 0) return false;  // a diagonal
    Dim size = o >= 0 ? y->dims[o] : NULL;
    if (o < 0) {
      int k = axis_of(summed, c->nk, which);
      if (k < 0) {
        if (c->nk == CONTRACT_K) return false;
        k = c->nk++;
        summed[k] = which;
        c->k[k] = t->dims[i];
      }
      axis[i] = (AxisMap){AXIS_K, k};
      size = c->k[k];
    } else {
      axis[i] = (AxisMap){AXIS_OUT, o};
    }
    if (ie_eq(&c->e->lo->g->dims, t->dims[i], size) != YES) return false;
  }
  return true;
}

// Columns are the last axes that rhs alone has, rows those before them that lhs alone has.
static bool map_einsum(Contraction *c) {
  const einsum_attrs *at = c->anchor->attrs;
  int rank[2] = {type_of(c->lhs)->rank, type_of(c->rhs)->rank};
  uint8_t summed[CONTRACT_K];
  int64_t bad;
  Einsum s;
  if (c->anchor->nsrc != 2 || einsum_parse(at->equation, 2, rank, &s, &bad)) return false;
  if (s.nout != c->nout) return false;
  if (s.nout && axis_of(s.label[1], s.nlabels[1], s.out[s.nout - 1]) <
                    0) {  // it is lhs that has the last one
    const Node *n = c->lhs;
    Einsum swapped = s;
    c->lhs = c->rhs;
    c->rhs = n;
    for (int i = 0; i < 2; i++) {
      swapped.nlabels[i] = s.nlabels[1 - i];
      memcpy(swapped.label[i], s.label[1 - i], sizeof s.label[i]);
    }
    s = swapped;
  }
  if (!map_term(c, &s, 0, c->lhs_axis, summed) || !map_term(c, &s, 1, c->rhs_axis, summed))
    return false;
  c->col0 = c->col1 = s.nout;
  while (c->col0 > 0 && axis_of(s.label[0], s.nlabels[0], s.out[c->col0 - 1]) < 0) c->col0--;
  c->row0 = c->row1 = c->col0;
  while (c->row0 > 0 && axis_of(s.label[1], s.nlabels[1], s.out[c->row0 - 1]) < 0) c->row0--;
  return true;
}

// ---- convolutions ----

enum { PHASES_MOST = 16 };  // each has loops of its own

static int64_t item(Ints l, int i, int64_t otherwise) { return l.n ? l.v[i] : otherwise; }

// The pad at the beginning of an axis; false where only the sizes of a run tell it.
static bool pad_before(const conv_attrs *at, const ContractAxis *s, int d, int64_t *lo) {
  *lo = at->auto_pad == PAD_NOTSET ? item(at->pads, d, 0) : 0;
  if (at->auto_pad == PAD_NOTSET || at->auto_pad == PAD_VALID) return true;
  int64_t need = (s->kernel - 1) * s->dilation;  // where windows are adjacent, whatever the size
  if (s->stride != 1) {
    if (!ie_is_const(s->in) || !ie_is_const(s->out)) return false;
    need += (s->out->value - 1) * s->stride + 1 - s->in->value;
  }
  if (need < 0) need = 0;
  *lo = at->auto_pad == PAD_SAME_UPPER ? need / 2 : need - need / 2;
  return true;
}

static bool transposed_before(const conv_transpose_attrs *at, const ContractAxis *s, int d, int nd,
                              int64_t *lo) {
  Ints shape = at->output_shape;
  if (shape.n == nd + 2) shape = (Ints){nd, shape.v + 2};
  bool plain = !shape.n && (at->auto_pad == PAD_NOTSET || at->auto_pad == PAD_VALID);
  *lo = at->auto_pad == PAD_NOTSET ? item(at->pads, d, 0) : 0;
  if (plain) return true;
  int64_t size;
  if (!ie_is_const(s->in)) return false;
  return conv_transpose_axis(at->auto_pad, s->in->value, s->kernel, s->stride, s->dilation,
                             item(at->pads, d, 0), item(at->pads, nd + d, 0),
                             item(at->output_padding, d, 0), shape.n ? shape.v[d] : -1, &size, lo);
}

static bool map_space(Contraction *c, const Type *w, bool last) {
  const conv_attrs *at = c->anchor->attrs;
  const conv_transpose_attrs *tr = c->anchor->attrs;
  const Type *x = type_of(c->lhs), *y = type_of(c->anchor);
  for (int d = 0; d < c->nd; d++) {
    ContractAxis *s = &c->space[d];
    Dim kernel = w->dims[last ? d : d + 2];
    if (!ie_is_const(kernel)) return false;
    s->kernel = kernel->value;
    s->stride = item(c->transposed ? tr->strides : at->strides, d, 1);
    s->dilation = item(c->transposed ? tr->dilations : at->dilations, d, 1);
    s->in = x->dims[c->first_space + d];
    s->out = y->dims[c->first_space + d];
    bool known =
        c->transposed ? transposed_before(tr, s, d, c->nd, &s->lo) : pad_before(at, s, d, &s->lo);
    if (!known || s->kernel < 1 || s->stride < 1 || s->dilation < 1) return false;
    s->padded = true;
    if (!c->transposed && s->lo <= 0 && ie_is_const(s->in) && ie_is_const(s->out)) {
      int64_t most = (s->out->value - 1) * s->stride - s->lo + (s->kernel - 1) * s->dilation;
      s->padded = s->lo < 0 || most >= s->in->value;
    }
  }
  return true;
}

// One tap, no pads: a matrix product.
static bool trivial_space(Contraction *c) {
  bool strided = false;
  if (c->transposed || c->groups != 1) return false;
  for (int d = 0; d < c->nd; d++) {
    const ContractAxis *s = &c->space[d];
    bool same = s->stride == 1 && !s->lo && s->in == s->out;
    if (s->kernel != 1 || (!same && s->padded)) return false;
    strided |= !same;
  }
  c->strided = strided;
  return true;
}

// Channels that become blocks: lines are kept apart, since a line of the result is made of several;
// and so are the pixels of a block, where all do not fit into one tile.
static void map_blocks(Contraction *c, int64_t blocks) {
  int64_t lanes = MAX(c->e->lo->target.vector_bytes / elem_bytes(c->acc), 1);
  Dim n = type_of(c->anchor)->dims[c->channel];
  if (c->groups != 1 || c->transposed || c->depthwise || !ie_is_const(n) || n->value % blocks)
    return;
  c->sides = n->value / blocks >= lanes || n->value > 2 * lanes;
  if (c->sides) c->groups = blocks;
}

static bool padded_space(const Contraction *c) {
  bool padded = false;
  for (int d = 0; d < c->nd; d++) padded |= c->space[d].padded;
  return padded;
}

static bool exact_floats(const Contraction *c) {
  return !(c->e->lo->g->fast & FAST_REASSOC) && dtype_is_float(type_of(c->anchor)->dtype);
}

static bool map_conv(Contraction *c, bool transposed, int64_t blocks) {
  const conv_attrs *at = c->anchor->attrs;
  const Type *x = type_of(c->lhs), *w = type_of(c->rhs);
  bool last = node_channels_last(c->anchor);
  if (x->rank < 3 || x->rank != w->rank) return false;
  c->conv = true;
  c->transposed = transposed;
  c->nd = x->rank - 2;
  c->channel = last ? x->rank - 1 : 1;
  c->first_space = last ? 1 : 2;
  c->groups = transposed ? ((const conv_transpose_attrs *)c->anchor->attrs)->group : at->group;
  if (!map_space(c, w, last)) return false;
  Dim cin = x->dims[c->channel], cout = type_of(c->anchor)->dims[c->channel];
  if (!ie_is_const(cin) || !ie_is_const(cout) || c->groups < 1) return false;
  c->in_channels = cin->value / c->groups;
  c->depthwise = !transposed && c->in_channels == 1 && cout->value == c->groups;
  if (c->depthwise) c->groups = 1;
  for (int d = 0; d < c->nd; d++) c->k[c->nk++] = ie_const(&c->e->lo->g->dims, c->space[d].kernel);
  if (!c->depthwise) c->k[c->nk++] = ie_const(&c->e->lo->g->dims, c->in_channels);
  c->col0 = c->channel;
  c->col1 = c->col0 + 1;
  if (!blocks && trivial_space(c) && !c->depthwise) {
    c->row0 = last ? 0 : 2;  // channels first: an image at a time
    c->row1 = last ? c->channel : x->rank;
    for (int d = 0; d < c->nd; d++) c->space[d].padded = false;
    return true;
  }
  c->row0 = c->first_space + c->nd - 1;
  c->row1 = c->row0 + 1;
  const ContractAxis *line = &c->space[c->nd - 1];
  c->image = ie_is_const(line->in) && ie_is_const(line->out);
  if (transposed) c->image &= line->stride <= PHASES_MOST;
  for (int d = 0; d < c->nd - 1 && !transposed; d++)  // where a line begins is computed from sizes
    c->image &= c->space[d].lo >= 0;
  // A weight that is not finite times a pixel of the padding is NaN, which loops over the taps
  // inside leave out.  Between two strides of a transposed convolution there is no pixel: a guard
  // that reads 0 there would make that NaN.
  if (exact_floats(c) && !transposed) c->image &= !padded_space(c);
  if (exact_floats(c) && transposed && !c->image) return false;
  c->phases = c->image && transposed ? line->stride : 0;
  c->guarded = !c->image;
  if (blocks) map_blocks(c, blocks);
  return true;
}

// ---- the anchor ----

// A constant too large to be stored transposed is read through its transposition.
static void transpose_weight(Contraction *c) {
  const Node *n = c->rhs, *x = n->op == OP_transpose ? n->src[0] : NULL;
  if (!x || c->conv || type_of(x)->rank != type_of(n)->rank) return;
  const ElementBuilder *e = c->e;
  bool constant = x->op == OP_const;
  for (int64_t i = 0; i < e->body->nparams; i++)
    constant |= e->body->param[i] == x && e->fused->src[i]->op == OP_const;
  if (!constant) return;
  Ints perm = ((const transpose_attrs *)n->attrs)->perm;
  int rank = type_of(n)->rank;
  AxisMap axis[MAX_RANK];
  for (int i = 0; i < rank; i++)
    axis[perm.n ? positive(perm.v[i], rank) : rank - 1 - i] = c->rhs_axis[i];
  memcpy(c->rhs_axis, axis, sizeof axis);
  c->rhs = x;
}

// Whether rhs is a constant that all batches share.
static void find_weight(Contraction *c) {
  const ElementBuilder *e = c->e;
  transpose_weight(c);
  for (int i = 0; !c->conv && i < type_of(c->rhs)->rank; i++) {
    const AxisMap *a = &c->rhs_axis[i];
    if (a->role == AXIS_OUT && (a->index < c->col0 || a->index >= c->col1)) return;
  }
  if (c->rhs->op == OP_const) c->weight = c->rhs;
  for (int64_t i = 0; i < e->body->nparams; i++)
    if (e->body->param[i] == c->rhs && e->fused->src[i]->op == OP_const)
      c->weight = e->fused->src[i];
}

static DType sum_dtype(DType t) { return t == DT_F16 || t == DT_BF16 ? DT_F32 : t; }

bool contract_map(Contraction *c, ElementBuilder *e, const Node *anchor, int64_t blocks) {
  *c = (Contraction){.e = e, .anchor = anchor, .groups = 1};
  const Node *n = anchor;
  const ContractionInfo *at = op_contraction(n);
  if (!at || (int)n->nsrc <= at->rhs || n->nres != 1 || !ranked(e, n)) return false;
  c->lhs = n->src[at->lhs];
  c->rhs = n->src[at->rhs];
  if (!ranked(e, c->lhs) || !ranked(e, c->rhs)) return false;
  c->nout = type_of(n)->rank;
  c->acc = at->flags & CONTRACT_REQUANTIZED ? DT_I32 : sum_dtype(type_of(n)->dtype);
  c->lhs_zero = operand_or_null(e->lo->g, n, at->lhs_zero);
  c->rhs_zero = operand_or_null(e->lo->g, n, at->rhs_zero);
  bool ok = false;
  switch ((ContractionForm)at->form) {
  case CF_DOT: map_dot(c), ok = true; break;
  case CF_MATMUL: ok = map_mat_mul(c); break;
  case CF_GEMM: ok = map_gemm(c); break;
  case CF_CONV: ok = map_conv(c, false, blocks); break;
  case CF_CONV_TRANSPOSE: ok = map_conv(c, true, 0); break;
  case CF_EINSUM: ok = map_einsum(c); break;
  case CF_OTHER: break;
  }
  if (ok) find_weight(c);
  return ok && c->nk <= CONTRACT_K;
}

bool contract_sizes(Contraction *c) {
  ElementBuilder *e = c->e;
  c->m = c->n = e->pool->one;
  elem_shape(e, type_of(c->anchor), c->out);
  for (int i = 0; i < c->nk; i++) c->k[i] = elem_dim(e, c->k[i]);
  for (int d = 0; d < c->nd; d++) {
    c->space[d].in = elem_dim(e, c->space[d].in);
    c->space[d].out = elem_dim(e, c->space[d].out);
  }
  for (int i = c->row0; i < c->row1; i++) c->m = ie_mul(e->pool, c->m, c->out[i]);
  for (int i = c->col0; i < c->col1; i++) c->n = ie_mul(e->pool, c->n, c->out[i]);
  if (c->phases) c->m = ie_ceildiv(e->pool, c->m, ie_const(e->pool, c->phases));
  c->depth = 1;
  for (int i = 0; i < c->nk; i++) c->depth *= ie_is_const(c->k[i]) ? c->k[i]->value : 0;
  if (c->groups > 1) c->n = ie_const(e->pool, c->n->value / c->groups);
  for (int i = 0; i < c->nout; i++)
    if (ie_is_poison(c->out[i]) || ie_is(c->out[i], 0)) return false;
  return !ie_is_poison(c->m) && !ie_is_poison(c->n);
}

// ---- indices ----

static Dim contracted_at(const Contraction *c, const ContractPoint *at, int i) {
  Dim sum = c->e->pool->zero;
  if (!c->pieces) return at->k[i];
  for (int k = 0; k < c->nk; k++)
    sum = ie_add(c->e->pool, sum, ie_mulc(c->e->pool, at->k[k], c->step[k]));
  return sum;
}

static void by_roles(const Contraction *c, const AxisMap *axis, int rank, const ContractPoint *at,
                     Dim *index) {
  for (int i = 0; i < rank; i++)
    index[i] = axis[i].role == AXIS_OUT ? at->out[axis[i].index]
               : axis[i].role == AXIS_K ? contracted_at(c, at, axis[i].index)
                                        : c->e->pool->zero;
}

static void image_index(const Contraction *c, const ContractPoint *at, Dim *index) {
  IntPool *p = c->e->pool;
  index[0] = at->out[0];
  index[c->channel] = c->depthwise ? at->out[c->channel]
                      : c->sides
                          ? at->k[c->nk - 1]
                          : ie_add(p, ie_mulc(p, at->group, c->in_channels), at->k[c->nk - 1]);
  for (int d = 0; d < c->nd; d++) {
    const ContractAxis *s = &c->space[d];
    Dim o = at->out[c->first_space + d], tap = ie_mulc(p, at->k[d], s->dilation);
    if (c->bound[d]) {
      index[c->first_space + d] = c->bound[d];
    } else if (c->transposed) {
      Dim from = ie_addc(p, ie_sub(p, o, tap), s->lo);
      index[c->first_space + d] = ie_div(p, from, ie_const(p, s->stride));
    } else {
      index[c->first_space + d] = ie_addc(p, ie_add(p, ie_mulc(p, o, s->stride), tap), -s->lo);
    }
  }
}

static void kernel_index(const Contraction *c, const ContractPoint *at, Dim *index) {
  IntPool *p = c->e->pool;
  bool last = node_channels_last(c->anchor);
  int rank = c->nd + 2, taps = last ? 0 : 2;
  Dim in = c->depthwise ? p->zero : at->k[c->nk - 1], out = at->out[c->channel];
  for (int d = 0; d < c->nd; d++) index[taps + d] = at->k[d];
  if (c->transposed) {  // all input channels, and the group's own output channels
    in = ie_add(p, ie_mulc(p, at->group, c->in_channels), in);
    out = ie_sub(p, out, ie_mul(p, at->group, c->n));
  }
  int first = last ? rank - 2 : 0;
  bool in_first = last ? true : c->transposed;
  index[first] = in_first ? in : out;
  index[first + 1] = in_first ? out : in;
}

void contract_lhs(const Contraction *c, const ContractPoint *at, Dim *index) {
  if (!c->conv)
    by_roles(c, c->lhs_axis, type_of(c->lhs)->rank, at, index);
  else if (c->swapped)
    kernel_index(c, at, index);
  else
    image_index(c, at, index);
}

void contract_rhs(const Contraction *c, const ContractPoint *at, Dim *index) {
  if (!c->conv)
    by_roles(c, c->rhs_axis, type_of(c->rhs)->rank, at, index);
  else if (c->swapped)
    image_index(c, at, index);
  else
    kernel_index(c, at, index);
}

// ---- packing ----

// e as a sum of multiples of the symbols; false when it is none.
static bool multiples(Dim e, const Dim *sym, int n, int64_t *coef) {
  for (int i = 0; i < n; i++) coef[i] = 0;
  for (int i = 0; i < e->nterms; i++) {
    const IntTerm *t = &e->term[i];
    int at = -1;
    if (t->natoms != 1) return false;
    for (int k = 0; k < n; k++)
      if (sym[k] == t->atom[0]) at = k;
    if (at < 0) return false;
    coef[at] = t->coef;
  }
  return true;
}

// The loops are: group, panel, contracted axes, column of the panel, and elements of a word.
bool contract_pack(const Contraction *c, int64_t nr, PackSpec *out) {
  ElementBuilder *e = c->e;
  IntPool *p = e->pool;
  const Type *t = type_of(c->rhs);
  *out = (PackSpec){0};
  int inner = c->nk + 1, n = c->nk + 3 + (c->word != 0);
  out->words = c->word != 0;
  if (n > PACK_LOOPS || t->rank + 1 > PACK_COORDS || !ie_is_const(c->n)) return false;
  Dim sym[PACK_LOOPS], index[MAX_RANK];
  for (int i = 0; i < n; i++)
    sym[i] = ie_sym(p, str_of(str_printf(e->a, "pack%d", i)), 0, INT64_MAX);
  ContractPoint at = {.group = sym[0]};
  for (int i = 0; i < c->nout; i++) at.out[i] = p->zero;
  for (int i = 0; i < c->nk; i++) {
    if (!ie_is_const(c->k[i])) return false;
    at.k[i] = sym[2 + i];
    out->extent[2 + i] = c->k[i]->value;
  }
  int along = c->word_axis;
  if (c->word) {  // the elements of a word are the innermost loop
    out->extent[2 + along] = contract_steps(c, c->k[along]->value);
    out->extent[n - 1] = c->word;
    out->flip = t->dtype == DT_U8 ? 128 : 0;
    at.k[along] = ie_add(p, ie_mulc(p, sym[2 + along], c->word), sym[n - 1]);
  }
  out->nloops = n;
  out->extent[0] = c->groups;
  out->extent[1] = (c->n->value + nr - 1) / nr;
  int column = inner + 1;
  out->extent[column] = nr;
  Dim col = ie_add(p, ie_mulc(p, sym[1], nr), sym[column]);
  if (c->col1 - c->col0 > 1) {  // several axes of rhs that lie together count as one
    int first = -1;
    for (int i = 0; i < t->rank; i++)
      if (c->rhs_axis[i].role == AXIS_OUT && c->rhs_axis[i].index == c->col0) first = i;
    if (first < 0 || first + (c->col1 - c->col0) != t->rank) return false;
    at.out[c->col1 - 1] = col;
  } else if (c->col1 > c->col0) {
    at.out[c->col0] = ie_add(p, col, ie_mul(p, sym[0], c->n));
  }
  contract_rhs(c, &at, index);
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    out->stride[i] = stride;
    out->limit[i] = t->dims[i]->value;
    if (!multiples(index[i], sym, n, out->coef[i])) return false;
    stride *= t->dims[i]->value;
  }
  out->ncoords = t->rank;
  if (c->col1 - c->col0 > 1) out->limit[t->rank - 1] = c->n->value;
  if (c->col1 > c->col0) {  // columns behind the last one are 0
    for (int i = 0; i < n; i++) out->coef[t->rank][i] = 0;
    out->coef[t->rank][1] = nr;
    out->coef[t->rank][column] = 1;
    out->limit[t->rank] = c->n->value;
    out->stride[t->rank] = 0;
    out->ncoords = t->rank + 1;
  }
  return true;
}

bool contract_pack_rows(const Contraction *c, PackSpec *out) {
  ElementBuilder *e = c->e;
  IntPool *p = e->pool;
  const Type *t = type_of(c->rhs);
  int n = c->nk + 1;
  Dim sym[PACK_LOOPS], index[MAX_RANK];
  *out = (PackSpec){.nloops = n, .ncoords = t->rank};
  if (n > PACK_LOOPS || t->rank > PACK_COORDS || !ie_is_const(c->n) || c->col1 - c->col0 != 1)
    return false;
  for (int i = 0; i < n; i++)
    sym[i] = ie_sym(p, str_of(str_printf(e->a, "pack%d", i)), 0, INT64_MAX);
  ContractPoint at = {.group = p->zero};
  for (int i = 0; i < c->nout; i++) at.out[i] = p->zero;
  at.out[c->col0] = sym[0];
  out->extent[0] = c->n->value * c->groups;
  for (int i = 0; i < c->nk; i++) {
    if (!ie_is_const(c->k[i])) return false;
    at.k[i] = sym[1 + i];
    out->extent[1 + i] = c->k[i]->value;
  }
  contract_rhs(c, &at, index);
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    out->stride[i] = stride;
    out->limit[i] = t->dims[i]->value;
    if (!multiples(index[i], sym, n, out->coef[i])) return false;
    stride *= t->dims[i]->value;
  }
  return true;
}
