// gemm.c -- template gemm: matrix products and convolutions with fused prologue and epilogue.
//
// The prologue is evaluated where an operand's element is read, or once into scratch (stage_lhs,
// stage_rhs).  The epilogue runs on the register tile, or from scratch (spill).  A result may have
// another layout than the anchor: epilogue_index follows transposes and views.  The epilogue here
// also serves the Winograd and GPU templates.
//
// Needs:      one contraction that contract_map maps, and results that all depend on it.  Constant
//             rhs is packed.  Requantized ops need a constant K of at most 32768.  Rows, batch and
//             image sizes may be dynamic.
// Guarantees: products are added in the order of K, whatever the tile.  stage_image and packed_dot
//             alone change bits.  Up to EXACT_PRODUCTS int8 products are summed in f32, exactly.
#include "lower/contract/contract.h"

#include "eval/contract.h"
#include "eval/movement.h"
#include "ir/internal.h"

// ---- the anchor ----

static bool is_anchor(const Node *n) {
  return op_contraction(n) && op_contraction(n)->form != CF_OTHER;
}

static bool ranked_tensor(const Node *n) {
  return type_of(n)->kind == TK_TENSOR && elem_dtype(type_of(n)->dtype);
}

bool contract_is_expensive(const Node *n) {
  return op_info(n->op)->expense >= EXPENSE_TRANSCENDENTAL;
}

bool contract_epilogue(ContractEpilogue *h, ElementBuilder *e) {
  NodeList all = body_order(e->lo->g, e->body, e->a);
  const Node *anchor = NULL;
  for (int64_t i = 0; i < all.n; i++) {
    if (!is_anchor(all.v[i])) continue;
    if (anchor) return false;
    anchor = all.v[i];
  }
  if (!anchor) return false;
  EpilogueWalk *f = &h->walk;
  epilogue_begin(f, e, anchor);
  f->own = anchor;
  for (int64_t i = 0; i < all.n; i++) {
    const Node *n = all.v[i];
    if (n == anchor || !epilogue_reads(f, n)) continue;
    // Wider elements make shorter vectors, which a tile in registers cannot be read by.
    if (epilogue_moves_blocks(n)) {
      const depth_to_space_attrs *at = n->attrs;
      h->blocks = n->op == OP_depth_to_space && at->mode == 0 ? at->blocksize * at->blocksize : 1;
    }
    h->wide |= ranked_tensor(n) && elem_bytes(type_of(n)->dtype) > 4;
    h->expensive |= contract_is_expensive(n) || h->wide;
  }
  for (int64_t i = 0; i < e->body->nresults; i++)
    if (!epilogue_reads(f, e->body->result[i])) return false;
  return true;
}

// ---- the anchor's value ----

// Operand `n`, repeated to the shape of the anchor's result.
static const LoopExpr *repeated(Epilogue *f, const Node *n) {
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
static const LoopExpr *factor(Epilogue *f, int operand, int axis) {
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
static const LoopExpr *settled(Epilogue *f) {
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
  const Node *bias =
      c->biased ? NULL : operand_or_null(c->e->lo->g, c->anchor, op_contraction(c->anchor)->bias);
  if (bias) {
    if (!(more = elem_at(c->e, bias, f->index + c->channel))) return NULL;
    x = loop_op(k, LOOP_add, x, more, NULL);
  }
  return x;
}

static const LoopExpr *joined_scale(Epilogue *f) {
  const Contraction *c = f->c;
  LoopKernel *k = c->e->k;
  int row = c->row1 > c->row0 ? c->row1 - 1 : -1, col = c->col1 > c->col0 ? c->col1 - 1 : -1;
  if (c->scale) {
    bool one = c->scale->data->n == 1;
    if (!one && col < 0) return NULL;
    return elem_at(c->e, c->scale, one ? &c->e->pool->zero : &f->index[col]);
  }
  const ContractionInfo *at = op_contraction(c->anchor);
  const LoopExpr *a = factor(f, at->lhs_scale, row), *b = factor(f, at->rhs_scale, col),
                 *y = factor(f, at->out_scale, -1);
  if (!a || !b || !y || a->dtype != b->dtype || a->dtype != y->dtype) return NULL;
  return loop_op(k, LOOP_div, loop_op(k, LOOP_mul, a, b, NULL), y, NULL);
}

// The sum times the joined scales, which are rounded as they are, to the nearest integer of the
// result's dtype; see quant_result.  The bounds are whole numbers, so rounding and the zero point
// may come behind them.
static const LoopExpr *requantised(Epilogue *f) {
  const Contraction *c = f->c;
  LoopKernel *k = c->e->k;
  DType t = type_of(c->anchor)->dtype;
  const LoopExpr *scale = joined_scale(f), *x = settled(f);
  const LoopExpr *zero = factor(f, op_contraction(c->anchor)->out_zero, -1);
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

static const LoopExpr *anchor_value(Epilogue *f) {
  const Contraction *c = f->c;
  const Node *n = c->anchor;
  LoopKernel *k = c->e->k;
  const LoopExpr *x = f->sum, *other = NULL;
  const Node *bias = operand_or_null(c->e->lo->g, n, op_contraction(n)->bias);
  if (is_requantized(n)) return requantised(f);
  if (sums_int8(n)) {
    if (!(x = settled(f))) return NULL;
  } else if (is_form(n, CF_GEMM)) {
    const gemm_attrs *at = n->attrs;
    x = scaled(k, x, at->alpha);
    if (bias && at->beta != 0) {
      other = repeated(f, bias);
      if (!other) return NULL;
      x = loop_op(k, LOOP_add, x, scaled(k, loop_cast(k, c->acc, other), at->beta), NULL);
    }
  } else if (bias) {
    other = elem_at(c->e, bias, f->index + c->channel);
    if (!other) return NULL;
    x = loop_op(k, LOOP_add, x, loop_cast(k, c->acc, other), NULL);
  }
  return loop_cast(k, type_of(n)->dtype, x);
}

static const LoopExpr *give_anchor(void *ctx, const Dim *index) {
  Epilogue *f = ctx;
  for (int i = 0; i < f->c->nout; i++)
    if (index[i] != f->index[i] && !ie_is(f->c->out[i], 1)) return NULL;
  if (!f->value) f->value = anchor_value(f);
  return f->value;
}

// A node behind the anchor, whose value at the place where the sum goes is that of its operand.
typedef struct Moved {
  Epilogue *finish;
  const Node *node;
} Moved;

static const LoopExpr *give_moved(void *ctx, const Dim *index) {
  const Moved *m = ctx;
  Epilogue *f = m->finish;
  Dim here[MAX_RANK], from[MAX_RANK];
  if (!epilogue_index(&f->h->walk, m->node, f->index, here)) return NULL;
  for (int i = 0; i < type_of(m->node)->rank; i++)
    if (index[i] != here[i]) return NULL;
  return epilogue_index(&f->h->walk, m->node->src[0], f->index, from)
             ? elem_at(f->c->e, m->node->src[0], from)
             : NULL;
}

bool epilogue_give(Epilogue *f, ElementBuilder *e) {
  const EpilogueWalk *w = &f->h->walk;
  elem_give(e, w->anchor, give_anchor, f);
  for (int64_t i = 0; i < w->all.n; i++) {
    const Node *n = w->all.v[i];
    if (!epilogue_moves_blocks(n) || !epilogue_reads(w, n)) continue;
    Moved *m = arena_new(e->a, Moved);
    *m = (Moved){f, n};
    if (e->ngive == ELEM_GIVEN) return false;
    elem_give(e, n, give_moved, m);
  }
  return true;
}

// All results are computed before one is stored: what they share is then computed once, whatever
// they may lie over.
bool epilogue_store_sum(Epilogue *f, const Dim *index, const LoopExpr *sum,
                        const LoopExpr *row_sum) {
  ElementBuilder *e = f->c->e;
  int n = e->fused->nres;
  const LoopExpr **x = arena_array(e->a, const LoopExpr *, n);
  Dim at[MAX_RANK], shape[MAX_RANK], *linear = arena_array(e->a, Dim, n);
  *f = (Epilogue){.c = f->c, .h = f->h, .index = index, .sum = sum, .row_sum = row_sum};
  for (int i = 0; i < n; i++) {
    const Type *y = e->fused->type[i];
    if (!epilogue_index(&f->h->walk, e->body->result[i], index, at)) return false;
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

static bool store_epilogue(Tiler *t, const Dim *index, const LoopExpr *sum) {
  return epilogue_store_sum(t->ctx, index, sum, t->row_sum);
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

// A quotient, or a remainder, by a size that is not a number.
static bool divides_by_size(Dim d, bool div, bool mod) {
  if (d->kind == IE_DIV || d->kind == IE_MOD)
    return (!ie_is_const(d->b) && (d->kind == IE_DIV ? div : mod)) ||
           divides_by_size(d->a, div, mod);
  for (int i = 0; d->kind == IE_SUM && i < d->nterms; i++)
    for (int j = 0; j < d->term[i].natoms; j++)
      if (divides_by_size(d->term[i].atom[j], div, mod)) return true;
  return false;
}

// Whether an operand of a prologue is read by a quotient of the row alone, as the scale of a
// squeeze-and-excite block is by the image: with the remainder the verifier would put the row
// together again, and prove that the load stays inside.
static bool reads_by_quotient(const LoopExpr *x, int depth) {
  enum { DEPTH = 16 };  // of a prologue; nodes may be shared, so that a search has an end
  if (!x || depth > DEPTH) return false;
  if (x->kind == LX_LOAD && divides_by_size(x->index, true, false) &&
      !divides_by_size(x->index, false, true))
    return true;
  for (int i = 0; i < ARRAY_LEN(x->src); i++)
    if (reads_by_quotient(x->src[i], depth + 1)) return true;
  return false;
}

int64_t contract_coefficient(Dim sum, Dim sym) {
  for (int i = 0; i < sum->nterms; i++)
    if (sum->term[i].natoms == 1 && sum->term[i].atom[0] == sym) return sum->term[i].coef;
  return 0;
}

// Writes the elements of the operands once, apart, to see what they are.
ContractProbe contract_probe(Contraction *c) {
  ElementBuilder *e = c->e;
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
  r.lhs_looked_up = e->b.stmt.n > 0;
  contract_rhs(c, &at, index);
  const LoopExpr *b = c->weight ? NULL : elem_at(e, c->rhs, index);
  e->b = kept;
  elem_forget(e);
  r.ok = a && (b || c->weight);
  if (!r.ok) return r;
  r.lhs_plain = a->kind == LX_LOAD;
  r.lhs_size = a->size;
  c->divided_rows = r.lhs_plain ? divides_by_size(a->index, true, true) : reads_by_quotient(a, 0);
  for (int k = 0; r.lhs_plain && k < c->nk && !r.divisor; k++) {
    find_divisor(a->index, at.k[k], &r.divisor);
    r.divided = k;
  }
  for (int i = 0; r.lhs_plain && i < a->index->nterms; i++) {
    const IntTerm *t = &a->index->term[i];
    for (int k = 0; k < c->nk; k++)
      if (t->natoms == 1 && t->atom[0] == at.k[k] && t->coef == 1) r.along = k;
  }
  r.lhs_k_contiguous = c->nk && r.along == c->nk - 1;
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

// Whether the first result is contiguous in the last axis of the rows, as channels first are.  Sums
// of a few columns are stored in place all the same, unless they lie at a distance that is not
// known yet or push each other out of the cache: cache lines 4096 bytes apart share a place in it.
enum { COLUMNS_MANY = 8, REGISTERS_MANY = 32 };

static bool rows_are_contiguous(Contraction *c, ContractEpilogue *h) {
  ElementBuilder *e = c->e;
  Dim index[MAX_RANK], at[MAX_RANK], shape[MAX_RANK];
  const Type *y = e->fused->type[0];
  if (c->row1 <= c->row0 || c->col1 <= c->col0 || y->kind != TK_TENSOR) return false;
  for (int i = 0; i < c->nout; i++) index[i] = loop_sym(e->k, "p", c->out[i]);
  if (!epilogue_index(&h->walk, e->body->result[0], index, at)) return false;
  elem_shape(e, y, shape);
  Dim linear = elem_linear(e, y->rank, shape, at);
  int64_t stride = contract_coefficient(linear, index[c->col1 - 1]) * elem_bytes(y->dtype);
  if (contract_coefficient(linear, index[c->row1 - 1]) != 1 || stride < 0) return false;
  // A tile of few pixels would fill few lanes.
  bool high = !c->depthwise || c->e->lo->target.vector_registers >= REGISTERS_MANY;
  bool wide = c->acc == DT_F32 || (c->acc == DT_I32 && high);
  bool many = ie_is_const(c->n) && c->n->value >= COLUMNS_MANY && wide && c->phases < 2 &&
              (!ie_is_const(c->m) || c->m->value >= COLUMNS_MANY);
  return many || stride % 4096 == 0;
}

// The parts' ends of a concatenation that begins at a place; those of a part that is one itself are
// between them.  False: they are not all known, or too many.
static bool cut_parts(Contraction *c, const Node *n, int axis, int64_t end, int depth) {
  enum { DEPTH = 16 };
  int rank = type_of(n)->rank;
  int64_t at = ((const concat_attrs *)n->attrs)->axis;
  if ((at < 0 ? at + rank : at) != axis || depth > DEPTH) return true;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const Node *part = n->src[i];
    Dim size = type_of(part)->dims[axis];
    if (part->op == OP_concat && !cut_parts(c, part, axis, end, depth + 1)) return false;
    if (!ie_is_const(size) || c->ncuts == CONTRACT_CUTS) return false;
    end += size->value;
    bool inside = ie_is_const(c->k[c->nk - 1]) && end < c->k[c->nk - 1]->value;
    if (size->value && inside && (!c->ncuts || end > c->cut[c->ncuts - 1]))
      c->cut[c->ncuts++] = end;
  }
  return true;
}

// Where lhs is made element by element of a concatenation along the last contracted axis, its
// parts' ends.
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
  if (n->op == OP_concat && c->groups == 1 && type_of(n)->rank == rank) cut_parts(c, n, axis, 0, 0);
}

// A contracted axis that lhs reads in pieces is several loops.  Constant weights are packed in any
// order: the loop along which lhs is contiguous is then the innermost.
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

typedef struct Gemm {
  ElementBuilder e;
  Contraction c;
  ContractEpilogue h;
  ContractProbe p;
  PackSpec rows;  // of a constant that is lhs
  Tiler t;
  Epilogue f;
  bool expensive;
} Gemm;

static void *gemm_match(Lowering *lo, const Node *fused) {
  Gemm *g = arena_new(lo->arena, Gemm);
  ElementBuilder *e = &g->e;
  Contraction *c = &g->c;
  *e =
      (ElementBuilder){.lo = lo, .fused = fused, .body = ((const fused_attrs *)fused->attrs)->body};
  e->a = lo->arena;
  lo->why = "it has no single matrix product or convolution with an epilogue that can be fused";
  if (!contract_epilogue(&g->h, e) || !contract_map(c, e, g->h.walk.anchor, g->h.blocks))
    return NULL;
  const Node *anchor = g->h.walk.anchor, *skip[1] = {c->weight ? c->rhs : NULL};
  // A byte that is not stored as it is has many instructions behind it.
  g->expensive = g->h.expensive || (is_requantized(anchor) && e->body->result[0] != anchor);
  lo->why = "a data type or size is not supported in kernels";
  if (!elem_begin(e, lo, fused, skip, c->weight ? 1 : 0)) return NULL;
  if (!contract_map(c, e, anchor, g->h.blocks) || !contract_sizes(c)) return NULL;
  // So many int8 products stay below 2^31.
  if (is_requantized(anchor) && (c->depth < 1 || c->depth > 32768)) return NULL;
  lo->why = "an operand has no expression";
  g->p = split_contracted(c);
  if (!g->p.ok) return NULL;
  g->t = (Tiler){.c = c, .e = e, .packed = -1, .finish = store_epilogue};
  find_cuts(c);
  contract_packed_dot(c, &g->p);
  contract_scales(c);
  if (!contract_swap(c, &g->h, &g->p, &g->rows))
    g->p.rows_contiguous = rows_are_contiguous(c, &g->h);
  contract_list_find(c);
  return g;
}

// The contraction as it is where packed dot products are left out.
static Contraction without_words(const Gemm *g) {
  Contraction c = g->c;
  contract_no_packed_dot(&c);
  return c;
}

static bool gemm_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                        void *fields) {
  const Gemm *g = match;
  GemmSchedule *s = fields;
  contract_choose(&g->c, t, &g->p, g->expensive, given, s);
  schedule_keep(given, s);
  bool unstaged = g->c.word && !g->c.direct && !s->stage_lhs;  // rows are too long to be staged
  if (!g->c.word || (s->packed_dot && !unstaged)) return true;
  Contraction plain = without_words(g);
  contract_choose(&plain, t, &g->p, g->expensive, given, s);
  return true;
}

static bool gemm_legal(const void *match, const LowerTarget *t, const void *fields,
                       const char **why) {
  const Gemm *g = match;
  const GemmSchedule *s = fields;
  (void)t;
  Contraction c = s->packed_dot ? g->c : without_words(g);
  return contract_legal(&c, &g->p, g->h.wide, s, why);
}

static bool gemm_build(void *match, const void *fields, Lowered *out) {
  Gemm *g = match;
  Contraction *c = &g->c;
  g->t.s = *(const GemmSchedule *)fields;
  if (c->word && !g->t.s.packed_dot) contract_no_packed_dot(c);
  // One operation for a product and its sum, where integers have two.
  bool exact = c->depth > 0 && c->depth <= EXACT_PRODUCTS && !c->depthwise;
  if (sums_int8(c->anchor) && !c->word && exact) c->acc = DT_F32;
  c->begun = c->word && c->offset;
  if (!contract_declare_columns(c)) return false;
  if (g->t.s.index_list) {
    if (!contract_list_build(&g->t)) return false;
  } else if (c->weight) {
    PackSpec pack;
    if (!contract_pack(c, g->t.s.cols, &pack)) return false;
    g->t.packed = elem_packed(&g->e, c->weight, &pack, "w");
    if (g->t.packed < 0) return false;
  }
  if (c->swapped) {
    g->t.packed_rows = elem_packed(&g->e, c->row_weight, &g->rows, "w");
    if (g->t.packed_rows < 0) return false;
  }
  g->f = (Epilogue){.c = c, .h = &g->h};
  g->t.ctx = &g->f;
  if (!epilogue_give(&g->f, &g->e) || !contract_emit(&g->t)) return false;
  elem_finish(&g->e, out);
  return true;
}

SCHEDULE_TABLE(Gemm, GEMM_SCHEDULE);
static const char *const cheaper[] = {"gemm rows=4 unroll=1 item_panels=1",
                                      "gemm rows=1 unroll=1 item_panels=1", NULL};
const TemplateCode template_gemm = {.match = gemm_match,
                                    .choose = gemm_choose,
                                    .legal = gemm_legal,
                                    .build = gemm_build,
                                    .cheaper = cheaper,
                                    SCHEDULE(Gemm)};
