// contract.c -- the template of contractions: matrix products and convolutions with what comes before and after.
//
// What the operands are computed from is read where they are (elem.h), or staged where that costs; what is done with each
// sum is done while it is in registers.  A result may lie otherwise than the anchor's: its index is
// followed from the anchor through transpositions and views.
#include "lower/contract.h"

#include "eval/contract.h"
#include "eval/movement.h"
#include "ir/internal.h"

// ---- the anchor ----

static bool is_anchor(const Node *n) {
  switch (n->op) {
  case OP_dot:
  case OP_mat_mul:
  case OP_gemm:
  case OP_conv:
  case OP_conv_transpose:
  case OP_einsum:
  case OP_mat_mul_integer:
  case OP_conv_integer:
  case OP_q_linear_mat_mul:
  case OP_q_linear_conv: return true;
  default: return false;
  }
}

bool contract_quantised(const Node *n) {
  return n->op == OP_q_linear_mat_mul || n->op == OP_q_linear_conv;
}

bool contract_sums_bytes(const Node *n) {
  return contract_quantised(n) || n->op == OP_mat_mul_integer || n->op == OP_conv_integer;
}

static bool ranked_tensor(const Node *n) {
  return type_of(n)->kind == TK_TENSOR && elem_dtype(type_of(n)->dtype);
}

bool contract_heavy(const Node *n) {
  switch (n->op) {
  case OP_exp:
  case OP_log:
  case OP_erf:
  case OP_tanh:
  case OP_sigmoid:
  case OP_gelu:
  case OP_sin:
  case OP_cos:
  case OP_pow:
  case OP_softplus:
  case OP_mish:
  case OP_swish:
  case OP_elu:
  case OP_selu:
  case OP_celu: return true;
  default: return false;
  }
}

bool contract_chain(ContractChain *h, Elem *e) {
  NodeList all = body_order(e->lo->g, e->body, e->a);
  const Node *anchor = NULL;
  for (int64_t i = 0; i < all.n; i++) {
    if (!is_anchor(all.v[i])) continue;
    if (anchor) return false;
    anchor = all.v[i];
  }
  if (!anchor) return false;
  Follow *f = &h->follow;
  follow_begin(f, e, anchor);
  f->own = anchor;
  for (int64_t i = 0; i < all.n; i++) {
    const Node *n = all.v[i];
    if (n == anchor || !follow_reads(f, n)) continue;
    // Wider elements make shorter vectors, which a tile in registers cannot be read by.
    if (follow_moves_blocks(n)) {
      const depth_to_space_attrs *at = n->attrs;
      h->blocks = n->op == OP_depth_to_space && at->mode == 0 ? at->blocksize * at->blocksize : 1;
    }
    h->heavy |= contract_heavy(n) || (ranked_tensor(n) && elem_bytes(type_of(n)->dtype) > 4);
  }
  for (int64_t i = 0; i < e->body->nresults; i++)
    if (!follow_reads(f, e->body->result[i])) return false;
  return true;
}

// ---- the anchor's value ----

// Operand `n`, repeated to the shape of the anchor's result.
static const LoopExpr *repeated(Finish *f, const Node *n) {
  const Type *t = type_of(n), *y = type_of(f->c->anchor);
  Dim at[MAX_RANK];
  if (t->kind != TK_TENSOR || t->rank < 0 || t->rank > y->rank) return NULL;
  for (int i = 0; i < t->rank; i++)
    at[i] = ie_is(t->dims[i], 1) ? f->c->e->pool->zero : f->index[i + y->rank - t->rank];
  return elem_at(f->c->e, n, at);
}

static const LoopExpr *scaled(LoopKernel *k, const LoopExpr *x, double by) {
  return by == 1 || !x ? x : loop_op(k, LOOP_mul, x, loop_float(k, x->dtype, by), NULL);
}

// A scale or zero point of a quantised result: one, or one for each row or column.
static const LoopExpr *factor(Finish *f, int operand, int axis) {
  const Node *n = f->c->anchor->src[operand];
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || t->rank < 0 || t->rank > 1) return NULL;
  bool one = t->rank == 0 || ie_is(t->dims[0], 1);
  if (!one && axis < 0) return NULL;
  return elem_at(f->c->e, n, one ? &f->c->e->pool->zero : &f->index[axis]);
}

// Integers up to here are exact in f32.
static const double EXACT_SUM = 16777216;

// The sum with what is taken off and added for its column.
static const LoopExpr *settled(Finish *f) {
  const Contraction *c = f->c;
  LoopKernel *k = c->e->k;
  const LoopExpr *x = f->sum, *more;
  const Dim *col = &f->index[c->col1 - 1];
  if (c->acc == DT_F32) x = loop_cast(k, DT_I32, elem_clamped(k, x, -EXACT_SUM, EXACT_SUM));
  if (c->offset && !c->begun) {
    if (!(more = elem_at(c->e, c->offset, col))) return NULL;
    x = loop_op(k, LOOP_add, x, more, NULL);
  }
  if (c->column_sum) {
    const LoopExpr *zero = elem_at(c->e, c->lhs_zero, &c->e->pool->zero);
    if (!zero || !(more = elem_at(c->e, c->column_sum, col))) return NULL;
    zero = loop_op(k, LOOP_add, loop_cast(k, DT_I32, zero), loop_int(k, DT_I32, c->flip ? 128 : 0),
                   NULL);
    x = loop_op(k, LOOP_sub, x, loop_op(k, LOOP_mul, zero, more, NULL), NULL);
  }
  if (c->row_sums) {
    const LoopExpr *zero = loop_int(k, DT_I32, 0);
    const Type *z = c->rhs_zero ? type_of(c->rhs_zero) : NULL;
    bool one = z && (z->rank == 0 || ie_is(z->dims[0], 1));
    if (z && !(zero = elem_at(c->e, c->rhs_zero, one ? &c->e->pool->zero : col))) return NULL;
    int64_t shift = type_of(c->rhs)->dtype == DT_U8 ? -128 : 0;
    zero = loop_op(k, LOOP_add, loop_cast(k, DT_I32, zero), loop_int(k, DT_I32, shift), NULL);
    x = loop_op(k, LOOP_sub, x, loop_op(k, LOOP_mul, zero, f->row_sum, NULL), NULL);
  }
  const Node *bias = c->anchor->op == OP_q_linear_conv && !c->biased
                         ? src_or_null(c->e->lo->g, c->anchor, 8)
                         : NULL;
  if (bias) {
    if (!(more = elem_at(c->e, bias, f->index + c->channel))) return NULL;
    x = loop_op(k, LOOP_add, x, more, NULL);
  }
  return x;
}

static const LoopExpr *joined_scale(Finish *f) {
  const Contraction *c = f->c;
  LoopKernel *k = c->e->k;
  int row = c->row1 > c->row0 ? c->row1 - 1 : -1, col = c->col1 > c->col0 ? c->col1 - 1 : -1;
  if (c->scale) {
    bool one = c->scale->data->n == 1;
    if (!one && col < 0) return NULL;
    return elem_at(c->e, c->scale, one ? &c->e->pool->zero : &f->index[col]);
  }
  const LoopExpr *a = factor(f, 1, row), *b = factor(f, 4, col), *y = factor(f, 6, -1);
  if (!a || !b || !y || a->dtype != b->dtype || a->dtype != y->dtype) return NULL;
  return loop_op(k, LOOP_div, loop_op(k, LOOP_mul, a, b, NULL), y, NULL);
}

// The sum times the joined scales, which are rounded as they are, to the nearest integer of the result's dtype; see
// quant_result.  The bounds are whole numbers, so rounding and the zero point may come behind them.
static const LoopExpr *requantised(Finish *f) {
  const Contraction *c = f->c;
  LoopKernel *k = c->e->k;
  DType t = type_of(c->anchor)->dtype;
  const LoopExpr *scale = joined_scale(f), *zero = factor(f, 7, -1), *x = settled(f);
  if (!scale || !zero || !x) return NULL;
  double lo = t == DT_I8 ? -128 : 0, hi = t == DT_I8 ? 127 : 255;
  x = loop_op(k, LOOP_mul, loop_cast(k, DT_F32, x), loop_cast(k, DT_F32, scale), NULL);
  if (zero->kind != LX_CONST) {
    x = loop_op(k, LOOP_round, x, NULL, NULL);
    x = elem_clamped(k, loop_op(k, LOOP_add, x, loop_cast(k, DT_F32, zero), NULL), lo, hi);
    return loop_cast(k, t, loop_cast(k, DT_I32, x));
  }
  double z = (double)zero->i;
  return elem_rounded(k, elem_clamped(k, x, lo - z, hi - z), zero->i, t);
}

static const LoopExpr *anchor_value(Finish *f) {
  const Contraction *c = f->c;
  const Node *n = c->anchor;
  LoopKernel *k = c->e->k;
  const LoopExpr *x = f->sum, *other = NULL;
  const Node *third = src_or_null(c->e->lo->g, n, 2);
  if (contract_quantised(n)) return requantised(f);
  if (contract_sums_bytes(n) && !(x = settled(f))) return NULL;
  if (n->op == OP_gemm) {
    const gemm_attrs *at = n->attrs;
    x = scaled(k, x, at->alpha);
    if (third && at->beta != 0) {
      other = repeated(f, third);
      if (!other) return NULL;
      x = loop_op(k, LOOP_add, x, scaled(k, loop_cast(k, c->acc, other), at->beta), NULL);
    }
  } else if ((n->op == OP_conv || n->op == OP_conv_transpose) && third) {
    other = elem_at(c->e, third, f->index + c->channel);
    if (!other) return NULL;
    x = loop_op(k, LOOP_add, x, loop_cast(k, c->acc, other), NULL);
  }
  return loop_cast(k, type_of(n)->dtype, x);
}

static const LoopExpr *give_anchor(void *ctx, const Dim *index) {
  Finish *f = ctx;
  for (int i = 0; i < f->c->nout; i++)
    if (index[i] != f->index[i] && !ie_is(f->c->out[i], 1)) return NULL;
  if (!f->value) f->value = anchor_value(f);
  return f->value;
}

// A node behind the anchor, whose value at the place where the sum goes is that of its operand.
typedef struct Moved {
  Finish *finish;
  const Node *node;
} Moved;

static const LoopExpr *give_moved(void *ctx, const Dim *index) {
  const Moved *m = ctx;
  Finish *f = m->finish;
  Dim here[MAX_RANK], from[MAX_RANK];
  if (!follow_to(&f->h->follow, m->node, f->index, here)) return NULL;
  for (int i = 0; i < type_of(m->node)->rank; i++)
    if (index[i] != here[i]) return NULL;
  return follow_to(&f->h->follow, m->node->src[0], f->index, from)
             ? elem_at(f->c->e, m->node->src[0], from)
             : NULL;
}

bool contract_give(Finish *f, Elem *e) {
  const Follow *w = &f->h->follow;
  elem_give(e, w->anchor, give_anchor, f);
  for (int64_t i = 0; i < w->all.n; i++) {
    const Node *n = w->all.v[i];
    if (!follow_moves_blocks(n) || !follow_reads(w, n)) continue;
    Moved *m = arena_new(e->a, Moved);
    *m = (Moved){f, n};
    if (e->ngive == ELEM_GIVEN) return false;
    elem_give(e, n, give_moved, m);
  }
  return true;
}

// All results are computed before one is stored: what they share is then computed once, whatever they may lie over.
bool contract_store(Finish *f, const Dim *index, const LoopExpr *sum, const LoopExpr *row_sum) {
  Elem *e = f->c->e;
  int n = e->fused->nres;
  const LoopExpr **x = arena_array(e->a, const LoopExpr *, n);
  Dim at[MAX_RANK], shape[MAX_RANK], *linear = arena_array(e->a, Dim, n);
  *f = (Finish){.c = f->c, .h = f->h, .index = index, .sum = sum, .row_sum = row_sum};
  for (int i = 0; i < n; i++) {
    const Type *y = e->fused->type[i];
    if (!follow_to(&f->h->follow, e->body->result[i], index, at)) return false;
    x[i] = elem_at(e, e->body->result[i], at);
    if (!x[i]) return false;
    elem_shape(e, y, shape);
    linear[i] = elem_linear(e, y->rank, shape, at);
  }
  for (int i = 0; n > 1 && i < n; i++) x[i] = loop_let(&e->b, x[i]);
  for (int i = 0; i < n; i++) {
    if (!e->nguards) {
      loop_store(&e->b, elem_result(e, i), linear[i], x[i]);
      continue;
    }
    LoopBound *g = arena_dup(e->a, e->guard, e->nguards * (int64_t)sizeof *g);
    loop_store_guarded(&e->b, elem_result(e, i), linear[i], e->nguards, g, x[i]);
  }
  return true;
}

static bool finish_sum(Tiler *t, const Dim *index, const LoopExpr *sum) {
  return contract_store(t->ctx, index, sum, t->row_sum);
}

// ---- what the operands cost ----

// A number by which the symbol k is divided in d.
static void find_divisor(Dim d, Dim k, int64_t *out) {
  if (d->kind == IE_DIV || d->kind == IE_MOD) {
    if (ie_is_const(d->b) && d->a == k) *out = d->b->value;
    find_divisor(d->a, k, out);
    return;
  }
  if (d->kind != IE_SUM) return;
  for (int i = 0; i < d->nterms; i++)
    for (int j = 0; j < d->term[i].natoms; j++)
      if (d->term[i].atom[j] != d) find_divisor(d->term[i].atom[j], k, out);
}

// A division by a size that is not a number.
static bool divides_by_size(Dim d) {
  if (d->kind == IE_DIV || d->kind == IE_MOD) return !ie_is_const(d->b) || divides_by_size(d->a);
  for (int i = 0; d->kind == IE_SUM && i < d->nterms; i++)
    for (int j = 0; j < d->term[i].natoms; j++)
      if (divides_by_size(d->term[i].atom[j])) return true;
  return false;
}

// Writes the elements of the operands once, apart, to see what they are.
ContractProbe contract_probe(Contraction *c) {
  Elem *e = c->e;
  ContractProbe r = {.along = -1};
  LoopBuilder kept = e->b;
  ContractPoint at = {.group = e->pool->zero};
  Dim index[MAX_RANK];
  loop_begin(&e->b, e->k);
  for (int i = 0; i < c->nout; i++) at.out[i] = loop_sym(e->k, "p", c->out[i]);
  for (int i = 0; i < c->nk; i++) at.k[i] = loop_sym(e->k, "p", c->k[i]);
  if (c->row1 - c->row0 > 1)
    elem_split(e, loop_sym(e->k, "p", c->m), c->row1 - c->row0, c->out + c->row0, at.out + c->row0);
  contract_lhs(c, &at, index);
  const LoopExpr *a = elem_at(e, c->lhs, index);
  contract_rhs(c, &at, index);
  const LoopExpr *b = c->weight ? NULL : elem_at(e, c->rhs, index);
  e->b = kept;
  elem_forget(e);
  r.ok = a && (b || c->weight);
  if (!r.ok) return r;
  r.lhs_plain = a->kind == LX_LOAD;
  c->apart = r.lhs_plain && divides_by_size(a->index);
  for (int k = 0; r.lhs_plain && k < c->nk && !r.divisor; k++) {
    find_divisor(a->index, at.k[k], &r.divisor);
    r.divided = k;
  }
  for (int i = 0; r.lhs_plain && i < a->index->nterms; i++) {
    const IntTerm *t = &a->index->term[i];
    for (int k = 0; k < c->nk; k++)
      if (t->natoms == 1 && t->atom[0] == at.k[k] && t->coef == 1) r.along = k;
  }
  r.lhs_along_k = c->nk && r.along == c->nk - 1;
  r.rhs_plain = !b;
  if (b && b->kind == LX_LOAD && c->col1 > c->col0) {
    Dim col = at.out[c->col1 - 1];
    for (int i = 0; i < b->index->nterms; i++) {
      const IntTerm *t = &b->index->term[i];
      r.rhs_plain |= t->natoms == 1 && t->atom[0] == col && t->coef == 1;
    }
  }
  return r;
}

// The coefficient of a symbol in a sum.
static int64_t coefficient(Dim sum, Dim sym) {
  for (int i = 0; i < sum->nterms; i++)
    if (sum->term[i].natoms == 1 && sum->term[i].atom[0] == sym) return sum->term[i].coef;
  return 0;
}

// Whether the first result lies along the last axis of the rows, and columns at a distance that is not known yet or so far apart
// that they push each other out of the cache: lines of memory that lie 4096 bytes apart share a place in it.
static bool lies_along_rows(Contraction *c, ContractChain *h) {
  Elem *e = c->e;
  Dim index[MAX_RANK], at[MAX_RANK], shape[MAX_RANK];
  const Type *y = e->fused->type[0];
  if (c->row1 <= c->row0 || c->col1 <= c->col0 || y->kind != TK_TENSOR) return false;
  for (int i = 0; i < c->nout; i++) index[i] = loop_sym(e->k, "p", c->out[i]);
  if (!follow_to(&h->follow, e->body->result[0], index, at)) return false;
  elem_shape(e, y, shape);
  Dim linear = elem_linear(e, y->rank, shape, at);
  int64_t apart = coefficient(linear, index[c->col1 - 1]) * elem_bytes(y->dtype);
  return coefficient(linear, index[c->row1 - 1]) == 1 && apart >= 0 && apart % 4096 == 0;
}

// Where lhs is made element by element of a concatenation along the last contracted axis, its parts' ends.
static void find_cuts(Contraction *c) {
  const Node *n = c->lhs;
  int axis = c->conv ? c->channel : -1, rank = type_of(n)->rank;
  for (int i = 0; !c->conv && c->nk == 1 && i < rank; i++)
    if (c->lhs_axis[i].role == AXIS_K) axis = i;
  for (int depth = 0; depth < 16 && n->op != OP_concat; depth++) {
    const Node *next = NULL;
    if (!(op_info(n->op)->flags & OPF_ELEMENTWISE)) return;
    for (uint32_t i = 0; i < n->nsrc && !next; i++)
      if (n->src[i]->op != OP_const && n->src[i]->op != OP_param &&
          type_of(n->src[i])->rank == rank)
        next = n->src[i];
    if (!next) return;
    n = next;
  }
  if (n->op != OP_concat || c->groups > 1 || type_of(n)->rank != rank) return;
  int64_t at = ((const concat_attrs *)n->attrs)->axis, end = 0;
  if ((at < 0 ? at + rank : at) != axis) return;
  for (uint32_t i = 0; i + 1 < n->nsrc && c->ncuts < CONTRACT_CUTS; i++) {
    Dim size = type_of(n->src[i])->dims[axis];
    if (!ie_is_const(size)) return;
    end += size->value;
    if (size->value) c->cut[c->ncuts++] = end;
  }
}

// A contracted axis that lhs reads in pieces is several loops.  Constant weights are packed in any order: the loop along
// which lhs lies side by side is then the innermost.
static ContractProbe split_contracted(Contraction *c) {
  IntPool *p = c->e->pool;
  ContractProbe r = contract_probe(c);
  bool one = c->nk == 1 && !c->conv;
  while (one && r.ok && r.divisor > 1 && c->nk < CONTRACT_SPLITS) {
    int at = r.divided;
    int64_t size = ie_is_const(c->k[at]) ? c->k[at]->value : 0;
    if (!size || size % r.divisor) return r;
    for (int i = c->nk; i > at + 1; i--) c->k[i] = c->k[i - 1], c->step[i] = c->step[i - 1];
    if (!c->pieces) c->step[0] = 1;
    c->pieces = true;
    c->nk++;
    c->k[at] = ie_const(p, size / r.divisor);
    c->k[at + 1] = ie_const(p, r.divisor);
    c->step[at + 1] = c->step[at];
    c->step[at] *= r.divisor;
    r = contract_probe(c);
  }
  if (!c->pieces || !c->weight || !r.ok || r.along < 0 || r.along == c->nk - 1) return r;
  Dim size = c->k[r.along];
  int64_t step = c->step[r.along];
  for (int i = r.along; i < c->nk - 1; i++) c->k[i] = c->k[i + 1], c->step[i] = c->step[i + 1];
  c->k[c->nk - 1] = size;
  c->step[c->nk - 1] = step;
  return contract_probe(c);
}

// One element alone is written into the expression.
bool contract_declare_columns(Contraction *c) {
  const Node *all[] = {c->scale, c->offset, c->column_sum};
  for (int i = 0; i < ARRAY_LEN(all); i++)
    if (all[i] && all[i]->data->n > 1 && elem_constant(c->e, all[i], "column") < 0) return false;
  return true;
}

// ---- the template ----

tenon_status lower_contract(Lowering *lo, const Node *fused, Lowered *out) {
  const fused_attrs *at = fused->attrs;
  if (at->kind != FUSED_CONTRACTION) return TENON_EUNSUPPORTED;
  Elem e = {.lo = lo, .fused = fused, .body = at->body, .a = lo->arena};
  Contraction c;
  ContractChain h = {0};
  if (!contract_chain(&h, &e) || !contract_map(&c, &e, h.follow.anchor, h.blocks))
    return TENON_EUNSUPPORTED;
  const Node *anchor = h.follow.anchor, *skip[1] = {c.weight ? c.rhs : NULL};
  // A byte that is not stored as it is has many instructions behind it.
  bool heavy = h.heavy || (contract_quantised(anchor) && e.body->result[0] != anchor);
  if (!elem_begin(&e, lo, fused, skip, c.weight ? 1 : 0)) return TENON_EUNSUPPORTED;
  if (!contract_map(&c, &e, anchor, h.blocks) || !contract_sizes(&c)) return TENON_EUNSUPPORTED;
  // So many products of bytes stay below 2^31.
  if (contract_quantised(anchor) && (c.depth < 1 || c.depth > 32768)) return TENON_EUNSUPPORTED;
  ContractProbe p = split_contracted(&c);
  if (!p.ok) return TENON_EUNSUPPORTED;
  Tiler t = {.c = &c, .e = &e, .packed = -1, .finish = finish_sum};
  find_cuts(&c);
  contract_words(&c, &p);
  contract_scales(&c);
  p.rows_along = !c.word && lies_along_rows(&c, &h);
  contract_choose(&c, &lo->target, &p, heavy, &t.s);
  if (c.word && !c.direct && !t.s.stage_lhs) {  // rows that are too long to be staged
    contract_no_words(&c);
    contract_choose(&c, &lo->target, &p, heavy, &t.s);
  }
  // One operation for a product and its sum, where integers have two.
  bool few = c.depth > 0 && c.depth <= EXACT_PRODUCTS && !c.depthwise;
  if (contract_sums_bytes(anchor) && !c.word && few) c.acc = DT_F32;
  c.begun = c.word && c.offset;
  if (!contract_declare_columns(&c)) return TENON_EUNSUPPORTED;
  if (c.weight) {
    PackSpec pack;
    if (!contract_pack(&c, t.s.nr, &pack)) return TENON_EUNSUPPORTED;
    t.packed = elem_packed(&e, c.weight, &pack, "w");
    if (t.packed < 0) return TENON_EUNSUPPORTED;
  }
  Finish f = {.c = &c, .h = &h};
  t.ctx = &f;
  if (!contract_give(&f, &e) || !contract_emit(&t)) return TENON_EUNSUPPORTED;
  elem_finish(&e, contract_schedule_print(lo->arena, &t.s), out);
  return TENON_OK;
}
