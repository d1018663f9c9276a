// packed_dot.c -- packed dot products of template gemm: four int8 or two bf16 values along K.
//
// The loop operation `dot` multiplies unsigned values of lhs by signed ones of rhs.  Signed lhs is
// biased by +128, unsigned weights by -128, and their zero points alike:
//   sum (x - z) (w - zw) = sum x' w' - z' (sum w' - depth zw') - zw' sum x'
// The second term is a per-column constant where z' is known, and is folded into the bias.  The
// third needs row sums of lhs, which are formed where a zw' is not 0.  A depthwise convolution
// packs the taps of up to four lines (depthwise_int8.c).  Tensor cores multiply both signs, so
// contract_int8 biases only weights with zero point 128, which then have none.
//
// Needs:      constant weights and weight zero points.  A tap outside the image stands for x = z,
//             so there z' must be 0: passes write other borders out beforehand.
// Guarantees: int8: the integers of the products one by one; sums wrap at 32 bits.
#include "lower/contract/contract.h"

#include "eval/contract.h"
#include "ops/order.h"

enum { BYTES = 4, PAIR = 2, SHIFT = 128 };

const Node *contract_constant(const Contraction *c, const Node *n) {
  const ElementBuilder *e = c->e;
  if (n->op == OP_const) return n;
  for (int64_t i = 0; i < e->body->nparams; i++)
    if (e->body->param[i] == n && e->fused->src[i]->op == OP_const) return e->fused->src[i];
  return NULL;
}

int64_t contract_steps(const Contraction *c, int64_t elements) {
  return c->word ? (elements + c->word - 1) / c->word : elements;
}

static bool is_byte(const Node *n) {
  return type_of(n)->dtype == DT_U8 || type_of(n)->dtype == DT_I8;
}

// The one number that all elements of a zero point are.
static bool zero_known(const Contraction *c, const Node *zero, int64_t *out) {
  *out = 0;
  if (!zero) return true;
  const Node *k = contract_constant(c, zero);
  const void *bytes;
  if (!k || !is_byte(k) || k->data->n < 1 || const_bytes(c->e->lo->g, k, &bytes, c->e->lo->diag))
    return false;
  *out = get_i64(type_of(k)->dtype, bytes, 0);
  for (int64_t i = 1; i < k->data->n; i++)
    if (get_i64(type_of(k)->dtype, bytes, i) != *out) return false;
  return true;
}

// Images of which every channel is by itself: the bytes of a word are taps of several lines.
static bool fits_lines(const Contraction *c, const ContractProbe *p) {
  if (c->nd < 2) return false;
  enum { TAPS_MOST = 128, PADDING_MOST = 16 };  // of a window, all written out; of a line
  const ContractAxis *s = &c->space[c->nd - 2], *l = &c->space[c->nd - 1];
  int64_t taps =
      s->kernel <= TAPS_MOST && l->kernel <= TAPS_MOST ? s->kernel * l->kernel : INT64_MAX;
  if (taps > TAPS_MOST || l->lo > PADDING_MOST || !ie_is_const(l->in) || !ie_is_const(l->out))
    return false;
  int64_t behind = (l->out->value - 1) * l->stride - l->lo + (l->kernel - 1) * l->dilation + 1;
  if (behind - l->in->value > PADDING_MOST) return false;
  return c->image && p->lhs_plain && node_channels_last(c->anchor) && s->kernel > 1 &&
         ie_is_const(s->in) && !c->ncuts;
}

static bool fits_words(const Contraction *c, const ContractProbe *p) {
  if (c->acc != DT_I32 || !is_byte(c->lhs) || !is_byte(c->rhs) || !c->weight) return false;
  if (c->transposed || c->guarded || c->nk < 1 || c->depth < 1) return false;
  if (c->depthwise && !fits_lines(c, p)) return false;
  if (c->col1 - c->col0 != 1 || !ie_is_const(c->n)) return false;
  return !c->rhs_zero || contract_constant(c, c->rhs_zero);
}

// ---- constants of the columns ----

// The axis of rhs that the columns are, all groups together.
static int column_axis(const Contraction *c) {
  int rank = type_of(c->rhs)->rank;
  if (c->conv) return node_channels_last(c->anchor) ? rank - 1 : 0;
  for (int i = 0; i < rank; i++)
    if (c->rhs_axis[i].role == AXIS_OUT && c->rhs_axis[i].index == c->col0) return i;
  return -1;
}

// The zero point of a column of the weights as words have it; false when there is none.
static bool column_zero(const Contraction *c, const void *zeros, int64_t column, int64_t *out) {
  const Type *w = type_of(c->weight);
  *out = w->dtype == DT_U8 ? -SHIFT : 0;
  if (!c->rhs_zero) return true;
  const Node *k = contract_constant(c, c->rhs_zero);
  if (!is_byte(k) || (column && k->data->n != 1 && column >= k->data->n) || k->data->n < 1)
    return false;
  *out += get_i64(type_of(k)->dtype, zeros, k->data->n == 1 ? 0 : column);
  return true;
}

// Takes the zero points off the sums of the columns; notes whether that leaves products with rows.
static bool take_zeros(Contraction *c, int32_t *sum, int64_t n) {
  const Node *k = c->rhs_zero ? contract_constant(c, c->rhs_zero) : NULL;
  const void *zeros = NULL;
  int64_t zero;
  if (k && const_bytes(c->e->lo->g, k, &zeros, c->e->lo->diag)) return false;
  if (k && (type_of(k)->rank > 1 || (k->data->n != 1 && k->data->n != n))) return false;
  for (int64_t i = 0; i < n; i++) {
    if (!column_zero(c, zeros, i, &zero)) return false;
    c->row_sums |= zero != 0;
    sum[i] = (int32_t)((uint32_t)sum[i] - (uint32_t)(zero * c->depth));
  }
  return true;
}

// Sums of each column of the weights; `rebiased`: of unsigned ones as signed ones, 128 less.
static int32_t *column_sums(const Contraction *c, bool rebiased, int64_t *out_n) {
  const Type *t = type_of(c->weight);
  const void *bytes;
  int axis = column_axis(c);
  int64_t outer = 1, inner = 1, n;
  if (axis < 0 || const_bytes(c->e->lo->g, c->weight, &bytes, c->e->lo->diag)) return NULL;
  n = t->dims[axis]->value;
  for (int i = 0; i < t->rank; i++)
    *(i < axis ? &outer : &inner) *= i == axis ? 1 : t->dims[i]->value;
  int32_t *sum = arena_array(c->e->a, int32_t, MAX(n, 1));
  const uint8_t *w = bytes;
  int less = t->dtype == DT_U8 && rebiased ? SHIFT : 0;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = 0; i < inner; i++, w++) sum[j] += t->dtype == DT_U8 ? *w - less : (int8_t)*w;
  *out_n = n;
  return sum;
}

// The bias of a quantised convolution, where it is a constant of as many columns.
static const int32_t *constant_bias(const Contraction *c, int64_t n) {
  const ContractionInfo *at = op_contraction(c->anchor);
  const Node *bias =
      is_requantized(c->anchor) ? operand_or_null(c->e->lo->g, c->anchor, at->bias) : NULL;
  const void *bytes;
  if (!bias || !(bias = contract_constant(c, bias)) || bias->data->n != n) return NULL;
  int32_t *copy = arena_array(c->e->a, int32_t, MAX(n, 1));  // a file gives no alignment
  if (const_bytes(c->e->lo->g, bias, &bytes, c->e->lo->diag)) return NULL;
  memcpy(copy, bytes, (size_t)n * sizeof *copy);
  return copy;
}

static const Node *column_constant(const Contraction *c, const int32_t *v, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (v[i]) return node_const(c->e->lo->g, DT_I32, 1, &n, v, NULL);
  return NULL;
}

// What the zero point of lhs takes off the columns: a constant that joins the bias where it is
// known, else their sums.
static void settle_columns(Contraction *c, int32_t *sum, int64_t n, bool known, int64_t zero) {
  const int32_t *bias = known ? constant_bias(c, n) : NULL;
  for (int64_t i = 0; known && i < n; i++)
    sum[i] = (int32_t)((bias ? (uint32_t)bias[i] : 0u) - (uint32_t)sum[i] * (uint32_t)zero);
  *(known ? &c->offset : &c->column_sum) = column_constant(c, sum, n);
  c->biased = bias != NULL;
}

// ---- the choice ----

static bool any_padded(const Contraction *c) {
  bool padded = false;
  for (int d = 0; d < c->nd; d++) padded |= c->space[d].padded;
  return padded;
}

static bool one_zero(const Node *zero) {
  const Type *t = type_of(zero);
  return t->kind == TK_TENSOR && (t->rank == 0 || (t->rank == 1 && ie_is(t->dims[0], 1)));
}

// Whether lhs can be read by words in place.
static bool reads_directly(const Contraction *c, const ContractProbe *p, int64_t word) {
  Dim last = c->k[c->nk - 1];
  return p->lhs_plain && p->lhs_k_contiguous && ie_is_const(last) && last->value % word == 0 &&
         !c->ncuts && !c->pieces && !c->divided_rows && !c->strided;
}

// Pairs of bf16: a tap or an element that is left out is 0, so nothing is to be made good.
static bool pairs(Contraction *c, const ContractProbe *p) {
  if (c->acc != DT_F32 || type_of(c->lhs)->dtype != DT_BF16 || type_of(c->rhs)->dtype != DT_BF16)
    return false;
  if (!c->weight || c->depthwise || c->transposed || c->guarded || c->nk < 1 || c->depth < 1)
    return false;
  c->direct = reads_directly(c, p, PAIR);
  if (!ie_is_const(c->n) || (c->image && !c->direct)) return false;
  c->word = PAIR;
  c->word_axis = c->nk - 1;
  return true;
}

bool contract_packed_dot(Contraction *c, const ContractProbe *p) {
  int64_t zero, n;
  if (pairs(c, p)) return true;
  if (!fits_words(c, p)) return false;
  bool direct = c->depthwise || reads_directly(c, p, BYTES);
  if (c->image && !direct) return false;
  bool known = zero_known(c, c->lhs_zero, &zero);
  bool is_signed = type_of(c->lhs)->dtype == DT_I8;
  zero += is_signed ? SHIFT : 0;
  if (!known && !one_zero(c->lhs_zero)) return false;
  if (any_padded(c) && !(known && zero == 0)) return false;
  int32_t *sum = column_sums(c, true, &n);
  if (!sum || !take_zeros(c, sum, n)) return false;
  if (c->depthwise && c->row_sums) {  // every column would have sums of its own
    c->row_sums = false;
    return false;
  }
  settle_columns(c, sum, n, known, zero);
  c->word = BYTES;
  c->word_axis = c->depthwise ? c->nd - 2 : c->nk - 1;
  c->direct = direct;
  c->flip = is_signed;
  return true;
}

void contract_no_packed_dot(Contraction *c) {
  c->word = 0;
  c->direct = c->flip = c->biased = c->row_sums = false;
  c->offset = c->column_sum = NULL;
}

// ---- bytes as they are ----

bool contract_int8(Contraction *c, ContractInt8 *out) {
  int64_t of_weights, n;
  *out = (ContractInt8){0};
  bool known = zero_known(c, c->lhs_zero, &out->outside);
  if ((!known && !one_zero(c->lhs_zero)) || (!known && any_padded(c)) ||
      !zero_known(c, c->rhs_zero, &of_weights))
    return false;
  if (!c->weight) return known && !out->outside && !of_weights;
  out->rebiased = of_weights == SHIFT;
  if (of_weights && !out->rebiased) return false;
  int32_t *sum = column_sums(c, out->rebiased, &n);
  if (!sum) return false;
  settle_columns(c, sum, n, known, out->outside);
  return true;
}

// ---- scales ----

static const Value *constant_value(const Contraction *c, int operand) {
  const Node *n = contract_constant(c, c->anchor->src[operand]);
  return n ? node_known(c->e->lo->g, n) : NULL;
}

// Joined in f32, one after the other, as the evaluation joins them.
void contract_scales(Contraction *c) {
  const ContractionInfo *at = op_contraction(c->anchor);
  if (!is_requantized(c->anchor)) return;
  const Value *x = constant_value(c, at->lhs_scale), *w = constant_value(c, at->rhs_scale),
              *y = constant_value(c, at->out_scale);
  if (!x || !w || !y || x->n != 1 || y->n != 1 || x->dtype != DT_F32 || w->dtype != DT_F32 ||
      y->dtype != DT_F32 || w->rank > 1)
    return;
  float *scale = arena_array(c->e->a, float, MAX(w->n, 1));
  for (int64_t i = 0; i < w->n; i++)
    scale[i] = (float)val_f64(x, 0) * (float)val_f64(w, i) / (float)val_f64(y, 0);
  c->scale = node_const(c->e->lo->g, DT_F32, 1, &w->n, scale, NULL);
}
