// loops.c -- the loops of template gemm: work items, tiles, K steps, staging, tails.
//
// Images are in image.c, blocks of K in blocked.c, staged lines in stage_lines.c.  A dynamic number
// of rows is whole tiles, then tails of 8, 4, 2 and 1 rows.
//
// Needs:      a Tiler with contraction, schedule and `finish`; packed weights are declared.
// Guarantees: false where an operand has no expression.  One accumulator per sum, products in the
//             order of K.  Nothing outside the operands is read; a tap outside the image is 0.
#include "lower/contract/contract.h"

enum { TRANSPOSED = 16 };  // steps of a block that is transposed

static Dim num(Tiler *t, int64_t v) { return ie_const(t->e->pool, v); }
static Dim add(Tiler *t, Dim a, Dim b) { return ie_add(t->e->pool, a, b); }

// A loop that is not written where it runs once.
Dim contract_open(Tiler *t, LoopKind kind, const char *name, Dim extent, int *depth) {
  if (ie_is(extent, 1)) return t->e->pool->zero;
  ++*depth;
  return loop_for(&t->e->b, kind, name, extent);
}
void contract_close(Tiler *t, int depth) {
  while (depth-- > 0) loop_end(&t->e->b);
}

// ---- places ----

void contract_place(Tiler *t, Dim row, Dim col, ContractPoint *at) {
  Contraction *c = t->c;
  *at = t->at;
  elem_split(t->e, row, c->row1 - c->row0, c->out + c->row0, at->out + c->row0);
  if (c->phases)
    at->out[c->row0] = ie_addc(t->e->pool, ie_mulc(t->e->pool, row, c->phases), t->phase);
  if (c->groups > 1 && c->swapped)
    at->out[c->row0] = add(t, row, ie_mul(t->e->pool, t->group, c->m));
  else if (c->groups > 1)
    col = add(t, col, ie_mul(t->e->pool, t->group, c->n));
  elem_split(t->e, col, c->col1 - c->col0, c->out + c->col0, at->out + c->col0);
  at->group = t->group;
}

bool contract_ragged(const Tiler *t) {
  return !ie_is_const(t->c->n) || t->c->n->value % t->s.cols != 0;
}

// ---- elements of the operands ----

static const LoopExpr *zero_of(Tiler *t, DType d) {
  return dtype_class(d) == DC_FLOAT ? loop_float(t->e->k, d, 0) : loop_int(t->e->k, d, 0);
}

// A zero point: one, or one for each row or column.
static const LoopExpr *less_zero(Tiler *t, const LoopExpr *x, const Node *zero, Dim which) {
  const Type *z;
  if (!zero || !x) return x;
  z = type_of(zero);
  if (z->kind != TK_TENSOR || z->rank < 0 || z->rank > 1) return NULL;
  bool one = z->rank == 0 || ie_is(z->dims[0], 1);
  Dim at[1] = {one ? t->e->pool->zero : which};
  const LoopExpr *v = elem_at(t->e, zero, at);
  return v ? loop_op(t->e->k, LOOP_sub, x, loop_cast(t->e->k, t->c->acc, v), NULL) : NULL;
}

static const LoopExpr *row_weight(Tiler *t, const ContractPoint *at) {
  const Contraction *c = t->c;
  IntPool *p = t->e->pool;
  Dim tap = elem_linear(t->e, c->nk - 1, c->k, at->k);
  Dim place = add(t, ie_mulc(p, at->out[c->row0], c->row_pitch), ie_mulc(p, tap, c->tap_pitch));
  return loop_load(t->e->k, t->packed_rows, add(t, place, at->k[c->nk - 1]));
}

// Outside the image an element is 0, whatever it is made of.
const LoopExpr *contract_lhs_value(Tiler *t, const ContractPoint *at) {
  Contraction *c = t->c;
  ElementBuilder *e = t->e;
  Dim index[MAX_RANK];
  int before = e->nguards;
  if (c->swapped) return row_weight(t, at);
  contract_lhs(c, at, index);
  for (int d = 0; d < c->nd; d++) {
    const ContractAxis *s = &c->space[d];
    int axis = c->first_space + d;
    if (!s->padded || !(c->guarded || (t->border && d == c->nd - 1))) continue;
    if (c->guarded && c->transposed && s->stride > 1) {  // between two elements
      Dim from = ie_sub(e->pool, at->out[axis], ie_mulc(e->pool, at->k[d], s->dilation));
      Dim part = ie_mod(e->pool, ie_addc(e->pool, from, s->lo), num(t, s->stride));
      elem_guard(e, part, e->pool->one);
    }
    index[axis] = elem_guard(e, index[axis], s->in);
  }
  const LoopExpr *x = elem_at(e, c->lhs, index);
  if (x && e->nguards > before && !c->lhs_zero)
    x = elem_guarded(e, before, x, zero_of(t, x->dtype));
  if (x)
    x = less_zero(t, loop_cast(e->k, c->acc, x), c->lhs_zero,
                  c->row1 > c->row0 ? at->out[c->row1 - 1] : e->pool->zero);
  if (x && c->lhs_zero) x = elem_guarded(e, before, x, zero_of(t, c->acc));
  elem_unguard(e, before);
  return x;
}

// The element of lhs as words hold it.
static const LoopExpr *lhs_part(Tiler *t, const ContractPoint *at) {
  LoopKernel *k = t->e->k;
  Dim index[MAX_RANK];
  contract_lhs(t->c, at, index);
  const LoopExpr *x = elem_at(t->e, t->c->lhs, index);
  if (!x || t->c->acc == DT_F32) return x;
  x = loop_bit_cast(k, DT_U8, x);
  return t->c->flip ? loop_op(k, LOOP_bit_xor, x, loop_int(k, DT_U8, 128), NULL) : x;
}

// The word of lhs that begins at a place, read in place.
static const LoopExpr *lhs_word(Tiler *t, const ContractPoint *at) {
  LoopKernel *k = t->e->k;
  const Contraction *c = t->c;
  Dim index[MAX_RANK];
  int before = t->e->nguards, axis = c->first_space + c->nd - 1;
  contract_lhs(c, at, index);
  if (t->border) index[axis] = elem_guard(t->e, index[axis], c->space[c->nd - 1].in);
  const LoopExpr *x = elem_at(t->e, c->lhs, index);
  if (!x || x->kind != LX_LOAD || x->src[0]) return NULL;
  x = loop_wide(k, x);
  if (c->flip) x = loop_op(k, LOOP_bit_xor, x, loop_int(k, DT_U32, 0x80808080), NULL);
  return elem_guarded(t->e, before, x, loop_int(k, DT_U32, 0));
}

Dim contract_packed(Tiler *t, const ContractPoint *at, Dim col) {
  Contraction *c = t->c;
  IntPool *p = t->e->pool;
  Dim i = add(t, ie_mul(p, t->group, ie_ceildiv(p, c->n, num(t, t->s.cols))), t->panel);
  if (t->listed)
    return add(t, ie_mulc(p, add(t, ie_mulc(p, i, t->most), t->listed), t->s.cols), col);
  for (int k = 0; k < c->nk; k++) {
    bool words = c->word && k == c->word_axis;
    Dim size = words ? num(t, contract_steps(c, c->k[k]->value)) : c->k[k];
    Dim place = words ? ie_div(p, at->k[k], num(t, c->word)) : at->k[k];
    i = add(t, ie_mul(p, i, size), place);
  }
  return add(t, ie_mulc(p, i, t->s.cols), col);
}

// A pixel that taps read, or 0 left and right of the line.
static const LoopExpr *tapped_pixel(Tiler *t, const ContractPoint *at) {
  Contraction *c = t->c;
  ElementBuilder *e = t->e;
  Dim index[MAX_RANK];
  int before = e->nguards, axis = c->first_space + c->nd - 1;
  contract_rhs(c, at, index);
  index[axis] = elem_guard(e, index[axis], c->space[c->nd - 1].in);
  const LoopExpr *x = elem_at(e, c->rhs, index);
  if (x) x = elem_guarded(e, before, loop_cast(e->k, c->acc, x), zero_of(t, c->acc));
  elem_unguard(e, before);
  return x;
}

const LoopExpr *contract_rhs_value(Tiler *t, const ContractPoint *at, Dim col) {
  Contraction *c = t->c;
  ElementBuilder *e = t->e;
  Dim index[MAX_RANK];
  const LoopExpr *x;
  if (c->taps) return tapped_pixel(t, at);
  if (t->packed >= 0) {
    x = loop_load_guarded(e->k, t->packed, contract_packed(t, at, col),
                          t->guard_packed ? e->nguards : 0, e->guard, NULL);
  } else {
    contract_rhs(c, at, index);
    x = elem_at(e, c->rhs, index);
  }
  if (!x) return NULL;
  if (c->word) return x;
  Dim which = c->col1 > c->col0 ? at->out[c->col1 - 1] : e->pool->zero;
  return less_zero(t, loop_cast(e->k, c->acc, x), c->rhs_zero, which);
}

// ---- staging ----

// Staged rows lie a line of the cache further apart than they are long.
int64_t contract_pitch(const Tiler *t) {
  const Contraction *c = t->c;
  if (t->s.k_block) return t->s.k_block + 32;
  if (!c->word) return c->depth + 32;
  int64_t last = c->k[c->nk - 1]->value;
  return c->depth / last * contract_steps(c, last) * c->word + 64;
}

// The place of an element in a staged row; whole words for the last axis.
static Dim staged_place(Tiler *t, const Dim *k) {
  const Contraction *c = t->c;
  Dim size[CONTRACT_K];
  memcpy(size, c->k, sizeof size);
  if (c->word) size[c->nk - 1] = num(t, contract_steps(c, c->k[c->nk - 1]->value) * c->word);
  return elem_linear(t->e, c->nk, size, k);
}

// Loops over all contracted axes, the last one a vector over part of it; gives the place counted
// through.
static Dim begin_contracted(Tiler *t, int64_t from, int64_t to, Dim *k, int *depth) {
  Contraction *c = t->c;
  int last = c->nk - 1;
  for (int i = 0; i < last; i++) k[i] = contract_open(t, LOOP_SERIAL, "k", c->k[i], depth);
  k[last] = ie_addc(t->e->pool, loop_for(&t->e->b, LOOP_VECTOR, "k", num(t, to - from)), from);
  ++*depth;
  return staged_place(t, k);
}

// Columns are contiguous along K: lanes go along the columns, and steps that are written out along
// the last contracted axis, so that blocks of both are transposed in registers.
static bool stage_columns(Tiler *t, const Dim *outer, Dim from, int64_t steps) {
  ElementBuilder *e = t->e;
  ContractPoint at;
  Dim k[CONTRACT_K];
  memcpy(k, outer, sizeof k);
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(t, t->s.cols)), col = add(t, t->col, j);
  k[t->c->nk - 1] = add(t, from, loop_for(&e->b, LOOP_UNROLL, "u", num(t, steps)));
  elem_forget(e);
  int before = e->nguards;
  if (contract_ragged(t)) col = elem_guard(e, col, t->c->n);
  e->nidle = e->nguards;
  contract_place(t, t->row, col, &at);
  memcpy(at.k, k, sizeof at.k);
  const LoopExpr *x = contract_rhs_value(t, &at, j);
  elem_unguard(e, before);
  e->nidle = 0;
  if (!x) return false;
  Dim all = staged_place(t, k);
  loop_store(&e->b, t->rhs_buf, add(t, ie_mulc(e->pool, all, t->s.cols), j), x);
  contract_close(t, 2);
  return true;
}

static bool stage_rhs(Tiler *t) {
  Contraction *c = t->c;
  int last = c->nk - 1, depth = 0, inner = 0;
  int64_t size = c->k[last]->value, whole = size / TRANSPOSED, rest = size % TRANSPOSED;
  Dim k[CONTRACT_K] = {0};
  for (int i = 0; i < last; i++) k[i] = contract_open(t, LOOP_SERIAL, "k", c->k[i], &depth);
  if (whole) {
    Dim from =
        ie_mulc(t->e->pool, contract_open(t, LOOP_SERIAL, "k", num(t, whole), &inner), TRANSPOSED);
    if (!stage_columns(t, k, from, TRANSPOSED)) return false;
    contract_close(t, inner);
  }
  if (rest && !stage_columns(t, k, num(t, whole * TRANSPOSED), rest)) return false;
  contract_close(t, depth);
  return true;
}

static bool stage_part(Tiler *t, Dim r, int64_t from, int64_t to) {
  ElementBuilder *e = t->e;
  ContractPoint at;
  Dim k[CONTRACT_K];
  int depth = 0, first = t->c->row0;
  Dim all = begin_contracted(t, from, to, k, &depth);
  elem_forget(e);
  contract_place(t, add(t, t->row, r), t->e->pool->zero, &at);
  // That a quotient of sizes stays below its size is true, and beyond proof.
  if (t->c->divided_rows) at.out[first] = elem_guard(e, at.out[first], t->c->out[first]);
  memcpy(at.k, k, sizeof at.k);
  const LoopExpr *x = t->c->word ? lhs_part(t, &at) : contract_lhs_value(t, &at);
  elem_unguard(e, 0);
  if (!x) return false;
  loop_store(&e->b, t->lhs_buf, add(t, ie_mulc(e->pool, r, contract_pitch(t)), all), x);
  contract_close(t, depth);
  return true;
}

// What a last word has beyond the axis counts in the sums of rows, and must be 0; of integers
// products with it are 0 anyway, but of floats what lay there may be no number.
static void stage_tail(Tiler *t, Dim r) {
  const Contraction *c = t->c;
  ElementBuilder *e = t->e;
  int64_t end = c->k[c->nk - 1]->value, all = c->word ? contract_steps(c, end) * c->word : end;
  Dim k[CONTRACT_K];
  int depth = 0;
  bool floats = c->acc == DT_F32;
  if (!(floats || c->row_sums) || end == all) return;
  Dim at = begin_contracted(t, end, all, k, &depth);
  loop_store(&e->b, t->lhs_buf, add(t, ie_mulc(e->pool, r, contract_pitch(t)), at),
             floats ? loop_float(e->k, DT_BF16, 0) : loop_int(e->k, DT_U8, 0));
  contract_close(t, depth);
}

static bool stage_lhs(Tiler *t, int64_t rows) {
  const Contraction *c = t->c;
  int64_t from = 0, end = c->k[c->nk - 1]->value;
  Dim r = loop_for(&t->e->b, LOOP_SERIAL, "r", num(t, rows));
  for (int i = 0; i < c->ncuts; i++) {
    if (!stage_part(t, r, from, c->cut[i])) return false;
    from = c->cut[i];
  }
  if (from < end && !stage_part(t, r, from, end)) return false;
  stage_tail(t, r);
  loop_end(&t->e->b);
  return true;
}

// ---- sums ----

static const LoopExpr *product(Tiler *t, const LoopExpr *a, const LoopExpr *b,
                               const LoopExpr *sum) {
  LoopKernel *k = t->e->k;
  if (t->c->word) return loop_op(k, LOOP_dot, a, b, sum);
  if (dtype_class(t->c->acc) == DC_FLOAT) return loop_op(k, LOOP_fma, a, b, sum);
  return loop_op(k, LOOP_add, sum, loop_op(k, LOOP_mul, a, b, NULL), NULL);
}

// lhs at a row and a step; where every channel is by itself it has columns too.
static const LoopExpr *step_lhs(Tiler *t, Dim in_tile, Dim col, const Dim *k) {
  ElementBuilder *e = t->e;
  Contraction *c = t->c;
  ContractPoint at;
  if (t->lhs_buf >= 0) {
    Dim row = t->s.k_block ? add(t, t->staged, in_tile) : in_tile;
    Dim at_row = add(t, ie_mulc(e->pool, row, contract_pitch(t)), staged_place(t, k));
    const LoopExpr *x = loop_load(e->k, t->lhs_buf, at_row);
    return c->word ? loop_wide(e->k, x) : x;
  }
  int before = e->nguards;
  Dim row = add(t, t->row, in_tile);
  if (t->lines >= 0) return contract_staged_pixel(t, row, k);
  if (c->depthwise && contract_ragged(t)) col = elem_guard(e, col, c->n);
  contract_place(t, row, col, &at);
  memcpy(at.k, k, sizeof at.k);
  const LoopExpr *x = c->word ? lhs_word(t, &at) : contract_lhs_value(t, &at);
  elem_unguard(e, before);
  return x;
}

// rhs at a step and column j of the panel.
static const LoopExpr *step_rhs(Tiler *t, Dim j, const Dim *k) {
  ElementBuilder *e = t->e;
  Contraction *c = t->c;
  ContractPoint at;
  Dim col = add(t, t->col, j);
  if (t->rhs_buf >= 0) {
    Dim all = elem_linear(e, c->nk, c->k, k);
    return loop_load(e->k, t->rhs_buf, add(t, ie_mulc(e->pool, all, t->s.cols), j));
  }
  int before = e->nguards;
  if (contract_ragged(t) && !c->taps && (t->packed < 0 || (c->rhs_zero && !c->word)))
    col = elem_guard(e, col, c->n);
  contract_place(t, e->pool->zero, col, &at);
  memcpy(at.k, k, sizeof at.k);
  if (t->s.k_block) at.k[0] = add(t, t->behind, k[0]);
  const LoopExpr *x = contract_rhs_value(t, &at, j);
  elem_unguard(e, before);
  return x;
}

// One step: each row's element of lhs times a run of rhs.
bool contract_step(Tiler *t, Rows rows, const Dim *k) {
  ElementBuilder *e = t->e;
  if (rows.to <= rows.from) return true;
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(t, rows.to - rows.from));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(t, t->s.cols));
  Dim in_tile = ie_addc(e->pool, r, rows.from);
  elem_forget(e);
  const LoopExpr *a = step_lhs(t, in_tile, add(t, t->col, j), k);
  const LoopExpr *b = step_rhs(t, j, k);
  if (!a || !b) return false;
  Dim cell = add(t, ie_mulc(e->pool, in_tile, t->s.cols), j);
  loop_store(&e->b, t->acc, cell, product(t, a, b, loop_load(e->k, t->acc, cell)));
  loop_end(&e->b);
  if (t->row_acc >= 0) {
    Dim lane = loop_for(&e->b, LOOP_VECTOR, "j", num(t, ROW_LANES));
    Dim at = add(t, ie_mulc(e->pool, in_tile, ROW_LANES), lane);
    const LoopExpr *ones = loop_int(e->k, DT_U32, 0x01010101);
    loop_store(&e->b, t->row_acc, at, product(t, a, ones, loop_load(e->k, t->row_acc, at)));
    loop_end(&e->b);
  }
  loop_end(&e->b);
  return true;
}

// The weights that are read some steps later.  They lie in the order of reading, beyond the panel's
// end too.
static void prefetch(Tiler *t, const Dim *k) {
  ElementBuilder *e = t->e;
  if (!t->s.prefetch || t->packed < 0) return;
  ContractPoint at = {.group = t->group};
  int64_t bytes = t->c->word ? 4 : elem_bytes(type_of(t->c->rhs)->dtype), line = MAX(64 / bytes, 1);
  memcpy(at.k, k, sizeof at.k);
  if (t->s.k_block) at.k[0] = add(t, t->behind, k[0]);
  for (int64_t i = 0; i < t->s.cols; i += line)
    loop_prefetch(&e->b, t->packed, contract_packed(t, &at, num(t, t->s.prefetch / bytes + i)));
}

// `count` steps, of words where there are any, of the innermost contracted loop from an element on,
// u of them written out.
static bool inner_steps(Tiler *t, Rows rows, Dim *k, int level, Dim from, Dim count, int64_t u) {
  ElementBuilder *e = t->e;
  int depth = 0;
  if (ie_is_const(count) && count->value == u) {
    k[level] = contract_open(t, LOOP_UNROLL, "u", count, &depth);
  } else {
    Dim i = contract_open(t, LOOP_SERIAL, "k", ie_div(e->pool, count, num(t, u)), &depth);
    for (int64_t at = 0; t->next && at < t->each; at += 64 / elem_bytes(t->c->acc))
      loop_prefetch(&e->b, t->packed,
                    add(t, t->next, ie_addc(e->pool, ie_mulc(e->pool, i, t->each), at)));
    Dim sub = contract_open(t, LOOP_UNROLL, "u", num(t, u), &depth);
    k[level] = add(t, ie_mulc(e->pool, i, u), sub);
  }
  if (t->c->word) k[level] = ie_mulc(e->pool, k[level], t->c->word);
  k[level] = add(t, from, k[level]);
  prefetch(t, k);
  bool ok = contract_step(t, rows, k);
  contract_close(t, depth);
  return ok;
}

// The same for any number of steps: those that are left over come one by one.
static bool inner_part(Tiler *t, Rows rows, Dim *k, int level, Dim from, Dim count) {
  int64_t u = t->s.unroll, width = t->c->word ? t->c->word : 1;
  if (t->c->word) count = num(t, contract_steps(t->c, count->value));
  int64_t rest = ie_is_const(count) ? count->value % u : 0;
  if (!rest) return inner_steps(t, rows, k, level, from, count, u);
  int64_t whole = count->value - rest;
  Dim behind = ie_addc(t->e->pool, from, whole * width);
  return (!whole || inner_steps(t, rows, k, level, from, num(t, whole), u)) &&
         inner_steps(t, rows, k, level, behind, num(t, rest), 1);
}

// Whether lhs is read from the parts of a concatenation, each by a loop of its own.
static bool in_parts(const Tiler *t, int level) {
  const Contraction *c = t->c;
  return !t->s.stage_lhs && !c->word && c->ncuts && !c->pieces && level == c->nk - 1 &&
         ie_is_const(c->k[level]);
}

// The innermost contracted loop: one for each part of a concatenation, so that no step asks which
// part it reads.
bool contract_inner(Tiler *t, Rows rows, Dim *k, int level) {
  Contraction *c = t->c;
  if (!in_parts(t, level)) return inner_part(t, rows, k, level, t->e->pool->zero, c->k[level]);
  int64_t from = 0;
  for (int i = 0; i <= c->ncuts; i++) {
    int64_t to = i < c->ncuts ? c->cut[i] : c->k[level]->value;
    if (to > from && !inner_part(t, rows, k, level, num(t, from), num(t, to - from))) return false;
    from = to;
  }
  return true;
}

bool contract_steps_of(Tiler *t, int64_t rows, int64_t count) {
  Dim k[CONTRACT_K];
  return inner_part(t, (Rows){.to = rows}, k, 0, t->e->pool->zero, num(t, count));
}

static bool linear_sums(Tiler *t, Rows rows) {
  Contraction *c = t->c;
  Dim k[CONTRACT_K];
  int depth = 0;
  if (!c->nk) return contract_step(t, rows, k);
  for (int i = 0; i < c->nk - 1; i++) {
    bool lines = c->taps && i < c->nd - 1;
    Dim skip = t->e->pool->zero, n = lines ? contract_taps_inside(t, i, &skip) : c->k[i];
    k[i] = add(t, skip, contract_open(t, LOOP_SERIAL, "k", n, &depth));
  }
  bool ok = contract_inner(t, rows, k, c->nk - 1);
  contract_close(t, depth);
  return ok;
}

// ---- what is done with the sums ----

// A tile of registers, `width` a row, to scratch.
static void spill(Tiler *t, int64_t rows, int64_t width, int32_t from, int32_t to) {
  ElementBuilder *e = t->e;
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(t, rows));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(t, width));
  Dim cell = add(t, ie_mulc(e->pool, r, width), j);
  loop_store(&e->b, to, cell, loop_load(e->k, from, cell));
  loop_end(&e->b);
  loop_end(&e->b);
}

// What is made of the sum at a row and a column of the tile.
static bool finish_sum(Tiler *t, Dim r, Dim j) {
  ElementBuilder *e = t->e;
  int32_t from = t->sums >= 0 ? t->sums : t->acc;
  Dim row = add(t, t->row, r), col = add(t, t->col, j);
  ContractPoint at;
  elem_forget(e);
  const LoopExpr *sum =
      loop_let(&e->b, loop_load(e->k, from, add(t, ie_mulc(e->pool, r, t->s.cols), j)));
  if (t->row_acc >= 0) t->row_sum = loop_load(e->k, t->row_sums, ie_mulc(e->pool, r, ROW_LANES));
  if (contract_ragged(t)) col = elem_guard(e, col, t->c->n);
  e->nidle = e->nguards;
  contract_place(t, row, col, &at);
  bool ok = t->finish(t, at.out, sum);
  elem_unguard(e, 0);
  e->nidle = 0;
  elem_forget(e);
  return ok;
}

// Lanes go along the rows, and steps that are written out along the columns, so that blocks of
// both are transposed in registers.
static bool transposed_epilogue(Tiler *t, int64_t rows) {
  ElementBuilder *e = t->e;
  int64_t whole = t->s.cols / TRANSPOSED, rest = t->s.cols % TRANSPOSED;
  for (int part = 0; part < 2; part++) {
    int depth = 0;
    if (!(part ? rest : whole)) continue;
    Dim first = part ? num(t, whole * TRANSPOSED)
                     : ie_mulc(e->pool, contract_open(t, LOOP_SERIAL, "j", num(t, whole), &depth),
                               TRANSPOSED);
    Dim r = loop_for(&e->b, LOOP_VECTOR, "r", num(t, rows));
    Dim u = loop_for(&e->b, LOOP_UNROLL, "u", num(t, part ? rest : TRANSPOSED));
    if (!finish_sum(t, r, add(t, first, u))) return false;
    contract_close(t, depth + 2);
  }
  return true;
}

bool contract_epilogue_of_tile(Tiler *t, int64_t rows) {
  ElementBuilder *e = t->e;
  if (t->sums >= 0) spill(t, rows, t->s.cols, t->acc, t->sums);
  if (t->row_acc >= 0) spill(t, rows, ROW_LANES, t->row_acc, t->row_sums);
  if (t->s.transpose) return transposed_epilogue(t, rows);
  Dim r = loop_for(&e->b, t->sums >= 0 ? LOOP_SERIAL : LOOP_UNROLL, "r", num(t, rows));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(t, t->s.cols));
  bool ok = finish_sum(t, r, j);
  contract_close(t, 2);
  return ok;
}

static void clear(Tiler *t, int64_t rows, int64_t width, int32_t to) {
  ElementBuilder *e = t->e;
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(t, rows));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(t, width));
  loop_store(&e->b, to, add(t, ie_mulc(e->pool, r, width), j), zero_of(t, t->c->acc));
  loop_end(&e->b);
  loop_end(&e->b);
}

// The sums of a tile begin with what is added to their columns.
static bool begin_sums(Tiler *t, int64_t rows) {
  ElementBuilder *e = t->e;
  ContractPoint at;
  if (!t->c->begun) {
    clear(t, rows, t->s.cols, t->acc);
    return true;
  }
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(t, rows));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(t, t->s.cols)), col = add(t, t->col, j);
  elem_forget(e);
  int before = e->nguards;
  if (contract_ragged(t)) col = elem_guard(e, col, t->c->n);
  contract_place(t, e->pool->zero, col, &at);
  const LoopExpr *x = elem_at(e, t->c->offset, &at.out[t->c->col1 - 1]);
  elem_unguard(e, before);
  elem_forget(e);
  if (!x) return false;
  loop_store(&e->b, t->acc, add(t, ie_mulc(e->pool, r, t->s.cols), j), x);
  loop_end(&e->b);
  loop_end(&e->b);
  return true;
}

// The taps of a block, added to the tile's sums so far; what is done with these where all are
// there.
static bool block_of_taps(Tiler *t, int64_t rows) {
  Dim cell = ie_mulc(t->e->pool, t->row, t->s.cols);
  contract_move_sums(t, rows, cell, false);
  if (t->finished) return contract_epilogue_of_tile(t, rows);
  if (!contract_image_sums(t, rows, -1)) return false;
  contract_move_sums(t, rows, cell, true);
  return true;
}

bool contract_tile(Tiler *t, int64_t rows, int64_t first) {
  if (t->s.tap_block) return block_of_taps(t, rows);
  if (!begin_sums(t, rows)) return false;
  if (t->row_acc >= 0) clear(t, rows, ROW_LANES, t->row_acc);
  bool ok = t->s.index_list ? contract_list_sums(t, rows)
            : t->c->image   ? contract_image_sums(t, rows, first)
                            : linear_sums(t, (Rows){.to = rows});
  return ok && contract_epilogue_of_tile(t, rows);
}

// ---- panels of columns ----

// A tile for each panel of the item, or for the one at hand.
static bool tile_panels(Tiler *t, int64_t rows, int64_t first) {
  ElementBuilder *e = t->e;
  if (!t->s.stage_lhs) return contract_tile(t, rows, first);
  Dim block = t->panel;
  int depth = 0;
  if (!stage_lhs(t, rows)) return false;
  Dim all = ie_ceildiv(e->pool, t->c->n, num(t, t->s.cols)),
      begin = ie_mulc(e->pool, block, t->s.item_panels);
  Dim n = ie_min(e->pool, num(t, t->s.item_panels), ie_sub(e->pool, all, begin));
  t->panel = add(t, begin, contract_open(t, LOOP_SERIAL, "panel", n, &depth));
  t->col = ie_mulc(e->pool, t->panel, t->s.cols);
  bool ok = contract_tile(t, rows, first);
  contract_close(t, depth);
  t->panel = block;
  return ok;
}

// ---- rows ----

// m rows from `from` on: tiles of two heights that differ by one.
static bool even_rows(Tiler *t, Dim from, int64_t m) {
  ElementBuilder *e = t->e;
  int64_t tiles = (m + t->s.rows - 1) / t->s.rows, high = (m + tiles - 1) / tiles;
  int64_t count[2] = {m - tiles * (high - 1), 0}, start = 0;
  count[1] = tiles - count[0];
  for (int i = 0; i < 2; i++) {
    int depth = 0;
    if (!count[i]) continue;
    Dim b = contract_open(t, LOOP_SERIAL, "tile", num(t, count[i]), &depth);
    t->row = add(t, from, ie_addc(e->pool, ie_mulc(e->pool, b, high - i), start));
    if (!tile_panels(t, high - i, -1)) return false;
    contract_close(t, depth);
    start += count[i] * (high - i);
  }
  return true;
}

static const char OUTSIDE[] = "rows lie outside";

// Whole tiles; then tiles of 8, 4, 2 and 1 rows, each where what is left over has that bit.  So a
// few rows, which is what an dynamic size often is, cost no more than they are.
static bool chunk_rows(Tiler *t, Dim block) {
  IntPool *p = t->e->pool;
  int64_t mr = t->s.rows, high = 1;
  Dim start = ie_mulc(p, block, t->s.item_rows);
  Dim rows = ie_min(p, num(t, t->s.item_rows), ie_sub(p, t->c->m, start));
  Dim tiles = ie_div(p, rows, num(t, mr)), done = ie_mulc(p, tiles, mr),
      rest = ie_sub(p, rows, done);
  int depth = 0;
  Dim i = contract_open(t, LOOP_SERIAL, "tile", tiles, &depth);
  t->row = add(t, start, ie_mulc(p, i, mr));
  if (!tile_panels(t, mr, -1)) return false;
  contract_close(t, depth);
  while (2 * high < mr) high *= 2;
  for (; high && mr > 1; high /= 2) {
    depth = 0;
    contract_open(t, LOOP_SERIAL, "rest", ie_mod(p, ie_div(p, rest, num(t, high)), num(t, 2)),
                  &depth);
    Dim before = add(t, done, ie_mulc(p, ie_div(p, rest, num(t, 2 * high)), 2 * high));
    before = loop_bind(&t->e->b, "before", loop_index(t->e->k, before), ie_addc(p, rows, 1 - high),
                       OUTSIDE);
    t->row = add(t, start, before);
    if (!tile_panels(t, high, -1)) return false;
    contract_close(t, depth);
  }
  return true;
}

static bool linear_rows(Tiler *t, Dim block) {
  Dim m = t->c->m;
  int64_t rows = t->s.item_rows;
  if (!rows) return even_rows(t, t->e->pool->zero, m->value);
  if (ie_is_const(m) && m->value % rows == 0)
    return even_rows(t, ie_mulc(t->e->pool, block, rows), rows);
  return chunk_rows(t, block);
}

// ---- work items ----

static Dim row_blocks(Tiler *t) {
  Contraction *c = t->c;
  IntPool *p = t->e->pool;
  if (c->image)
    return c->nd > 1 ? ie_ceildiv(p, c->out[c->row0 - 1], num(t, t->s.item_rows)) : p->one;
  return t->s.item_rows ? ie_ceildiv(p, c->m, num(t, t->s.item_rows)) : p->one;
}

// The parallel loop; gives the block of rows, and sets the places that an item stands at.
Dim contract_items(Tiler *t) {
  Contraction *c = t->c;
  IntPool *p = t->e->pool;
  Dim size[MAX_RANK + 4], index[MAX_RANK + 4], wide[MAX_RANK + 4], part[MAX_RANK + 4];
  Dim items = p->one;
  int axis[MAX_RANK + 1], n = 0, line = c->image && c->nd > 1 ? c->row0 - 1 : -1;
  // A number of blocks that is not known yet comes first: nothing is divided by it.
  bool row_first = !ie_is_const(row_blocks(t));
  if (row_first) size[n++] = row_blocks(t);
  for (int i = 0; i < c->nout; i++) {
    t->at.out[i] = p->zero;
    if ((i >= c->row0 && i < c->row1) || (i >= c->col0 && i < c->col1) || i == line) continue;
    axis[n] = i;
    size[n++] = c->out[i];
  }
  int outer = n, row = t->s.rows_first ? n + 2 : n + 1, panel = t->s.rows_first ? n + 1 : n + 2;
  if (row_first) row = 0, panel = n + 1;
  size[n] = num(t, c->groups);
  size[row] = row_blocks(t);
  size[panel] = ie_ceildiv(p, c->n, num(t, t->s.cols * t->s.item_panels));
  n += row_first ? 2 : 3;
  for (int i = 0; i < n; i++) items = ie_mul(p, items, size[i]);
  Dim item = loop_for(&t->e->b, LOOP_PARALLEL, "item", items);
  if (ie_is(items, 1)) item = p->zero;
  int nwide = 0, at = 0;
  for (int i = 0; i < n; i++)
    if (!ie_is(size[i], 1)) wide[nwide++] = size[i];
  elem_split(t->e, item, nwide, wide, part);
  for (int i = 0; i < n; i++) index[i] = ie_is(size[i], 1) ? p->zero : part[at++];
  for (int i = row_first; i < outer; i++) t->at.out[axis[i]] = index[i];
  t->group = index[outer];
  t->panel = index[panel];
  return index[row];
}

static void declare_buffers(Tiler *t) {
  LoopKernel *k = t->e->k;
  Contraction *c = t->c;
  Dim cells = num(t, t->s.rows * t->s.cols);
  t->lhs_buf = t->rhs_buf = t->lines = t->so_far = t->sums = t->row_acc = t->row_sums = -1;
  t->acc = loop_buffer(k, LOOP_REGISTER, "acc", c->acc, cells, false);
  DType staged = !c->word ? c->acc : c->acc == DT_F32 ? DT_BF16 : DT_U8;
  if (t->s.stage_lhs)
    t->lhs_buf =
        loop_buffer(k, LOOP_SCRATCH, "rows", staged, num(t, t->s.rows * contract_pitch(t)), false);
  if (t->s.stage_rhs)
    t->rhs_buf =
        loop_buffer(k, LOOP_SCRATCH, "columns", c->acc, num(t, c->depth * t->s.cols), false);
  if (t->s.stage_image)
    t->lines = loop_buffer(k, LOOP_SCRATCH, "lines", c->acc, num(t, contract_lines_size(t)), false);
  if (t->s.k_block) {
    int64_t sums = t->s.item_rows * t->s.item_panels * t->s.cols;
    t->lhs_buf = loop_buffer(k, LOOP_SCRATCH, "rows", c->acc,
                             num(t, t->s.item_rows * contract_pitch(t)), false);
    t->so_far = loop_buffer(k, LOOP_SCRATCH, "so_far", c->acc, num(t, sums), false);
  }
  if (t->s.tap_block)
    t->so_far =
        loop_buffer(k, LOOP_SCRATCH, "so_far", c->acc, num(t, c->m->value * t->s.cols), false);
  if (c->row_sums) {
    Dim lanes = num(t, t->s.rows * ROW_LANES);
    t->row_acc = loop_buffer(k, LOOP_REGISTER, "row_acc", c->acc, lanes, false);
    t->row_sums = loop_buffer(k, LOOP_SCRATCH, "row_sums", c->acc, lanes, false);
  }
  if (t->s.spill) t->sums = loop_buffer(k, LOOP_SCRATCH, "sums", c->acc, cells, false);
}

bool contract_emit(Tiler *t) {
  ElementBuilder *e = t->e;
  declare_buffers(t);
  loop_begin(&e->b, e->k);
  Dim block = contract_items(t);
  t->row = e->pool->zero;
  t->col = ie_mulc(e->pool, t->panel, t->s.cols);
  if (t->rhs_buf >= 0 && !stage_rhs(t)) return false;
  bool ok = t->s.k_block  ? contract_blocks(t, block)
            : t->c->image ? contract_image_rows(t, block)
                          : linear_rows(t, block);
  if (ok) loop_end(&e->b);
  return ok;
}
