// tile.c -- matrix products for machines with units for matrices: one tile of sums an item (loop/tile.h).
//
// Takes products of 16-bit floats whose operands lie along the contracted axis: rows as they are in memory, columns too, or weights that
// are packed so.  A convolution of single pixels is such a product.  All else is another template's.
//
// The size of a tile is chosen by what it takes the machine: waves of tiles over its multiprocessors, each as long as the slower of its products
// and its copies.  The order of sums within a tile does not depend on that size, nor does any bit.
#include "lower/contract.h"

#include "eval/contract.h"
#include "loop/tile.h"

typedef struct TileSchedule {
  int m, n, stages, groups;
} TileSchedule;

static const char *print_schedule(Arena *a, const TileSchedule *s) {
  return str_printf(a, "tile %dx%d k64 stages %d warpgroups %d", s->m, s->n, s->stages, s->groups);
}

// ---- the choice ----

// Cycles of a wave: products at 4096 operations a cycle, operands from shared memory at 128 bytes and from L2 at 48, what is done with
// the sums, and what it takes to begin.
static double wave_cycles(int m, int n, int64_t depth) {
  double steps = (double)depth / 16, work = 2.0 * m * n * (double)depth / 4096;
  double shared = m / 64.0 * steps * (2048 + 32.0 * n) / 128;
  double copies = (double)(m + n) * 2 * (double)depth / 48;
  return MAX(MAX(work, shared), copies) + m * (double)n / 12 + 1500;
}

static TileSchedule choose(const Contraction *c, const LowerTarget *t) {
  static const struct {
    int m, n;
  } tile[] = {{128, 256}, {128, 128}, {128, 64}, {64, 256}, {64, 128}, {64, 64}, {64, 32}};
  int64_t rows = ie_is_const(c->m) ? c->m->value : 4096, cols = c->n->value, units = t->units;
  TileSchedule best = {0};
  double least = 0;
  for (int64_t i = 0; i < ARRAY_LEN(tile); i++) {
    int m = tile[i].m, n = tile[i].n;
    int64_t tiles = ((rows + m - 1) / m) * ((cols + n - 1) / n),
            waves = (tiles + units - 1) / units;
    double cycles = (double)waves * wave_cycles(m, n, c->depth);
    if (best.m && cycles >= least) continue;
    int room = (int)((t->tile_bytes - (24 << 10)) / ((m + n) * TILE_DEPTH_BYTES));
    best = (TileSchedule){.m = m, .n = n, .groups = m / TILE_ROWS, .stages = MIN(MAX(room, 2), 6)};
    least = cycles;
  }
  return best;
}

// ---- what it takes ----

static bool wants(const Contraction *c) {
  DType t = type_of(c->lhs)->dtype;
  return (t == DT_BF16 || t == DT_F16) && type_of(c->rhs)->dtype == t && c->acc == DT_F32 &&
         c->groups == 1 && !c->transposed && !c->depthwise && !c->pieces;
}

// Rows are all axes of the result but the last, whatever the template of contractions took for rows: a convolution's pixels.
static bool take_pixels(Contraction *c) {
  if (!c->conv) return true;
  for (int d = 0; d < c->nd; d++)
    if (c->space[d].kernel != 1 || c->space[d].stride != 1 || c->space[d].lo || c->space[d].padded)
      return false;
  c->row0 = 0;
  c->row1 = c->nout - 1;
  c->col0 = c->nout - 1;
  c->col1 = c->nout;
  c->m = c->e->pool->one;
  for (int i = 0; i < c->row1; i++) c->m = ie_mul(c->e->pool, c->m, c->out[i]);
  return c->channel == c->nout - 1;
}

static bool shape_fits(const Contraction *c) {
  return c->row0 == 0 && c->row1 == c->col0 && c->col1 == c->nout && c->row1 > 0 &&
         c->col1 - c->col0 == 1 && ie_is_const(c->n) && c->depth >= 16 && c->depth % 8 == 0;
}

// The argument that holds the rows of lhs one after the other, or -1.
static int32_t rows_of(const Contraction *c) {
  const Node *n = c->lhs;
  const Type *t = type_of(n);
  bool in_order = t->rank == c->row1 + 1;
  for (int i = 0; !c->conv && in_order && i < t->rank; i++) {
    uint8_t role = i < c->row1 ? AXIS_OUT : AXIS_K;
    in_order = c->lhs_axis[i].role == role && (role == AXIS_K || c->lhs_axis[i].index == i);
  }
  while (n->op != OP_param && elem_is_view(n)) n = n->src[0];
  return in_order ? elem_buffer(c->e, n) : -1;
}

// ---- the loops ----

typedef struct TileBuilder {
  Contraction *c;
  Elem *e;
  Finish *finish;
  TileSchedule s;
  int32_t a, b;  // arguments; b -1: rhs as it is
} TileBuilder;

static LoopBound bound_of(Elem *e, const char *name, Dim first, Dim var, Dim extent) {
  return (LoopBound){
      .sym = loop_sym(e->k, name, extent), .value = ie_add(e->pool, first, var), .extent = extent};
}

// An argument that holds a matrix with the contracted axis along its rows.
static const LoopExpr *from_matrix(TileBuilder *t, int32_t buffer, const LoopBound *row, Dim k) {
  IntPool *p = t->e->pool;
  LoopBound *g = arena_dup(t->e->a, row, sizeof *row);
  Dim at = ie_add(p, ie_mulc(p, row->sym, t->c->depth), k);
  return loop_load_guarded(t->e->k, buffer, at, 1, g, NULL);
}

// What rhs is at a column: a transposed matrix lies along the contracted axis, too.
static const LoopExpr *from_rhs(TileBuilder *t, const LoopBound *col, Dim k) {
  Elem *e = t->e;
  Dim index[MAX_RANK];
  ContractPoint at = {.group = e->pool->zero, .k = {k}};
  for (int i = 0; i < t->c->nout; i++) at.out[i] = e->pool->zero;
  at.out[t->c->col0] = col->sym;
  e->guard[e->nguards++] = *col;
  contract_rhs(t->c, &at, index);
  const LoopExpr *x = elem_at(e, t->c->rhs, index);
  elem_unguard(e, e->nguards - 1);
  elem_forget(e);
  return x;
}

static bool store_sum(TileBuilder *t, const LoopBound *row, const LoopBound *col,
                      const LoopExpr *sum) {
  Elem *e = t->e;
  Dim index[MAX_RANK];
  int before = e->nguards;
  e->guard[e->nguards++] = *row;
  e->guard[e->nguards++] = *col;
  elem_split(e, row->sym, t->c->row1, t->c->out, index);
  index[t->c->col0] = col->sym;
  bool ok = contract_store(t->finish, index, sum, NULL);
  elem_unguard(e, before);
  return ok;
}

static bool emit_tile(TileBuilder *t) {
  Elem *e = t->e;
  IntPool *p = e->pool;
  LoopBuilder *b = &e->b;
  loop_begin(b, e->k);
  Dim m = ie_const(p, t->s.m), n = ie_const(p, t->s.n);
  Dim down = ie_ceildiv(p, t->c->m, m), across = ie_ceildiv(p, t->c->n, n);
  Dim item = loop_for(b, LOOP_PARALLEL, "item", ie_mul(p, down, across));
  Dim first_row = ie_mul(p, ie_div(p, item, across), m);
  Dim first_col = ie_mul(p, ie_mod(p, item, across), n);
  Dim i = loop_tile(b, "i", t->s.m, t->s.stages);
  Dim j = loop_tile(b, "j", t->s.n, t->s.groups);
  LoopBound row = bound_of(e, "row", first_row, i, t->c->m);
  LoopBound col = bound_of(e, "col", first_col, j, t->c->n);
  Dim k = loop_reduce(b, LOOP_add, "k", ie_const(p, t->c->depth), 1);
  const LoopExpr *x = from_matrix(t, t->a, &row, k);
  const LoopExpr *y = t->b < 0 ? from_rhs(t, &col, k) : from_matrix(t, t->b, &col, k);
  if (!y) return false;
  x = loop_cast(e->k, DT_F32, x);
  y = loop_cast(e->k, DT_F32, y);
  const LoopExpr *sum = loop_yield(b, loop_op(e->k, LOOP_mul, x, y, NULL));
  bool ok = store_sum(t, &row, &col, sum);
  for (int depth = 0; depth < 3; depth++) loop_end(b);
  return ok;
}

tenon_status lower_tile(Lowering *lo, const Node *fused, Lowered *out) {
  const fused_attrs *at = fused->attrs;
  if (!lo->target.tiles || at->kind != FUSED_CONTRACTION) return TENON_EUNSUPPORTED;
  Elem e = {.lo = lo, .fused = fused, .body = at->body, .a = lo->arena};
  Contraction c;
  ContractChain h = {0};
  if (!contract_chain(&h, &e) || !contract_map(&c, &e, h.follow.anchor, h.blocks) || !wants(&c))
    return TENON_EUNSUPPORTED;
  const Node *skip[1] = {c.weight ? c.rhs : NULL};
  if (!elem_begin(&e, lo, fused, skip, c.weight ? 1 : 0) ||
      !contract_map(&c, &e, h.follow.anchor, h.blocks) || !contract_sizes(&c) || !take_pixels(&c) ||
      !shape_fits(&c))
    return TENON_EUNSUPPORTED;
  Finish f = {.c = &c, .h = &h};
  TileBuilder t = {.c = &c, .e = &e, .finish = &f, .a = rows_of(&c), .s = choose(&c, &lo->target)};
  PackSpec pack;
  t.b = -1;
  if (c.weight &&
      (!contract_pack_rows(&c, &pack) || (t.b = elem_packed(&e, c.weight, &pack, "w")) < 0))
    return TENON_EUNSUPPORTED;
  if ((!c.weight && (c.conv || c.nk != 1)) || t.a < 0) return TENON_EUNSUPPORTED;
  if (!contract_give(&f, &e) || !emit_tile(&t)) return TENON_EUNSUPPORTED;
  elem_finish(&e, print_schedule(lo->arena, &t.s), out);
  LoopTile found;
  return loop_find_tile(out->kernel, &found) && !out->kernel->nchecks ? TENON_OK
                                                                      : TENON_EUNSUPPORTED;
}
