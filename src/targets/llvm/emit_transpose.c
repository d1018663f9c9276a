// emit_transpose.c -- strided loads of an unrolled loop as blocks that are transposed in registers.
//
// In `vector j { unroll u { store to[u][j] = from[j][u] } }` each step reads one element per lane,
// a stride apart, and the next step reads the next element of each.  As many steps as lanes are a
// square block: its rows are loaded as vectors and transposed by shuffles, once for all its steps.
// Where there are fewer steps, four of them are a block: four elements of each lane are loaded, and
// those of every fourth lane make one vector.  Wide loads of bytes are elements of four bytes.
//
// Needs:      an unrolled loop in a chunk of lanes, whose body only computes and stores.
// Guarantees: reads what the loop's own steps read, and nothing else.  NULL where the load has
//             another form; the caller then loads lane by lane.
#include "targets/llvm/emit.h"

enum { FEWEST = 4, MOST = 16, STRIDE_LEAST = 5 };  // lanes; smaller strides are shuffled from runs

static bool mentions(Dim d, Dim sym) {
  if (d == sym) return true;
  if (d->kind == IE_CONST || d->kind == IE_SYM) return false;
  if (d->kind != IE_SUM) return mentions(d->a, sym) || mentions(d->b, sym);
  for (int i = 0; i < d->nterms; i++)
    for (int j = 0; j < d->term[i].natoms; j++)
      if (mentions(d->term[i].atom[j], sym)) return true;
  return false;
}

// Whether the next step of the loop reads the element `by_step` behind, under the same guards.
static bool steps_by(const LoopExpr *x, Dim sym, int64_t by_step) {
  int64_t by = 0;
  for (int i = 0; i < x->index->nterms; i++) {
    const IntTerm *t = &x->index->term[i];
    if (t->natoms == 1 && t->atom[0] == sym) {
      by = t->coef;
      continue;
    }
    for (int j = 0; j < t->natoms; j++)
      if (mentions(t->atom[j], sym)) return false;
  }
  for (int i = 0; i < x->nguards; i++)
    if (mentions(x->guard[i].value, sym) || mentions(x->guard[i].extent, sym)) return false;
  return by == by_step;
}

// Whether the loop's stores cannot change what its later steps load from the buffer.
static bool loads_before_stores(const Emit *e, const LoopStmt *loop, int32_t from) {
  bool own = e->k->buffer[from].space == LOOP_SCRATCH;
  for (int64_t i = 0; i < loop->body.n; i++) {
    const LoopStmt *s = loop->body.v[i];
    if (s->kind == LS_LET) continue;
    if (s->kind != LS_STORE || s->buffer == from) return false;
    LoopSpace to = e->k->buffer[s->buffer].space;
    if (!own && to != LOOP_SCRATCH && to != LOOP_REGISTER) return false;
  }
  return true;
}

static LV picked(Emit *e, LV a, LV b, int lanes, const int *pick) {
  LV v[MOST];
  for (int i = 0; i < lanes; i++) v[i] = const_int(e, NULL, e->i32, pick[i]);
  return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(v, (unsigned)lanes), "");
}

// Of each four lanes of a and b the first or last two, in turn, by units of one or two.
static LV unpack(Emit *e, LV a, LV b, int lanes, int unit, bool high) {
  int pick[MOST];
  for (int i = 0; i < lanes; i++) {
    int in = i % 4, from = unit == 1 ? in % 2 : in / 2, at = unit == 1 ? in / 2 : in % 2;
    pick[i] = i / 4 * 4 + (high ? 2 : 0) + at + from * lanes;
  }
  return picked(e, a, b, lanes, pick);
}

// Of each two groups of four lanes of a, then of b, the one that `odd` says; or of a and b the
// first or last half.
static LV groups(Emit *e, LV a, LV b, int lanes, bool halves, bool second) {
  int pick[MOST], half = lanes / 2;
  for (int i = 0; i < lanes; i++) {
    int from = i / half, in = i % half;
    int at = halves ? in + (second ? half : 0) : in / 4 * 8 + in % 4 + (second ? 4 : 0);
    pick[i] = at + from * lanes;
  }
  return picked(e, a, b, lanes, pick);
}

// Each four of `n` rows become, in each group of four lanes, four columns.
static void transpose_fours(Emit *e, LV *v, int n, int lanes) {
  for (int i = 0; i < n; i += 4) {
    LV lo = unpack(e, v[i], v[i + 1], lanes, 1, false),
       hi = unpack(e, v[i], v[i + 1], lanes, 1, true);
    LV lo2 = unpack(e, v[i + 2], v[i + 3], lanes, 1, false);
    LV hi2 = unpack(e, v[i + 2], v[i + 3], lanes, 1, true);
    v[i] = unpack(e, lo, lo2, lanes, 2, false);
    v[i + 1] = unpack(e, lo, lo2, lanes, 2, true);
    v[i + 2] = unpack(e, hi, hi2, lanes, 2, false);
    v[i + 3] = unpack(e, hi, hi2, lanes, 2, true);
  }
}

static void transpose_block(Emit *e, LV *v, int lanes) {
  transpose_fours(e, v, lanes, lanes);
  for (int m = 0; m < 4 && lanes == 8; m++) {
    LV a = v[m], b = v[m + 4];
    v[m] = groups(e, a, b, 8, true, false);
    v[m + 4] = groups(e, a, b, 8, true, true);
  }
  for (int m = 0; m < 4 && lanes == 16; m++) {
    LV lo = groups(e, v[m], v[m + 4], 16, true, false),
       hi = groups(e, v[m], v[m + 4], 16, true, true);
    LV lo2 = groups(e, v[m + 8], v[m + 12], 16, true, false);
    LV hi2 = groups(e, v[m + 8], v[m + 12], 16, true, true);
    v[m] = groups(e, lo, lo2, 16, false, false);
    v[m + 4] = groups(e, lo, lo2, 16, false, true);
    v[m + 8] = groups(e, hi, hi2, 16, false, false);
    v[m + 12] = groups(e, hi, hi2, 16, false, true);
  }
}

// `n` elements of a lane's row; of a lane that is not there, 0.
static LV load_row(Emit *e, Lin at, LV base, LT elem, int n, int lane, LV uniform, LV mask,
                   int64_t unit) {
  LV index = LLVMBuildAdd(e->b, at.base, const_i64(e, at.stride * lane), "");
  LV p = at_byte(e, base, index, unit), there = uniform;
  if (mask) {
    LV one = LLVMBuildExtractElement(e->b, mask, const_int(e, NULL, e->i32, lane), "");
    there = there ? LLVMBuildAnd(e->b, there, one, "") : one;
  }
  if (there) p = LLVMBuildSelect(e->b, there, p, e->zeros, "");
  LV v = LLVMBuildLoad2(e->b, LLVMVectorType(elem, (unsigned)n), p, "");
  LLVMSetAlignment(v, (unsigned)unit);
  return v;
}

// n vectors of as many lanes, one behind the other; n is a power of two.
static LV joined(Emit *e, LV *v, int n) {
  for (; n > 1; n /= 2)
    for (int i = 0; i < n / 2; i++) {
      int lanes = 2 * value_lanes(v[2 * i]), pick[MOST];
      for (int l = 0; l < lanes; l++) pick[l] = l;
      v[i] = picked(e, v[2 * i], v[2 * i + 1], lanes, pick);
    }
  return v[0];
}

// The columns of a block of `steps` from the elements at hand.
static void load_block(Emit *e, Lin at, LV base, LT elem, int steps, LV uniform, LV mask,
                       int64_t unit, LV *v) {
  int lanes = e->lanes, n = lanes / steps;
  for (int i = 0; i < steps; i++) {
    LV row[MOST];
    for (int j = 0; j < n; j++)
      row[j] = load_row(e, at, base, elem, steps, i + j * steps, uniform, mask, unit);
    v[i] = joined(e, row, n);
  }
  if (steps == lanes)
    transpose_block(e, v, lanes);
  else
    transpose_fours(e, v, steps, lanes);
}

// Steps of a block of the loop at hand; 0: it has none.  Several wide loads are held at once, and
// share the registers.
static int block_steps(const Emit *e, bool wide) {
  int64_t extent = e->across.loop->extent->value;
  if (extent >= e->lanes && !wide) return e->lanes;
  return extent >= FEWEST && extent % FEWEST == 0 ? FEWEST : 0;
}

LV emit_transposed(Emit *e, const LoopExpr *x, Lin at, LV uniform, LV mask) {
  Across *a = &e->across;
  int lanes = e->lanes;
  int64_t unit = elem_bytes(e->k->buffer[x->buffer].dtype), bytes = elem_bytes(x->dtype);
  if (!a->loop || e->checked || at.vec || at.stride < STRIDE_LEAST * (bytes / unit) ||
      lanes < FEWEST || lanes > MOST || (lanes & (lanes - 1)) || bytes != 4 ||
      (unit != 4 && unit != 1))
    return NULL;
  int steps = block_steps(e, unit != bytes);
  if (!steps) return NULL;
  int64_t first = a->step - a->step % steps;
  for (int i = 0; i < a->nblocks; i++)
    if (a->block[i].load == x && a->block[i].first == first)
      return a->block[i].mask == e->mask ? a->block[i].column[a->step - first] : NULL;
  if (a->nblocks && a->block[0].first != first) a->nblocks = 0;
  if (a->step != first || a->nblocks == (unit == bytes ? 1 : ACROSS_BLOCKS) || !a->always)
    return NULL;
  if (first + steps > a->loop->extent->value || !steps_by(x, a->loop->sym, bytes / unit) ||
      !loads_before_stores(e, a->loop, x->buffer))
    return NULL;
  struct AcrossBlock *b = &a->block[a->nblocks++];
  load_block(e, at, e->base[x->buffer], mem_type(e, x->dtype), steps, uniform, mask, unit,
             b->column);
  b->load = x;
  b->first = first;
  b->mask = e->mask;
  return b->column[0];
}
