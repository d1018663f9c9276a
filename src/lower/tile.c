// tile.c -- matrix products for machines with units for matrices: one tile of sums an item (loop/tile.h).
//
// Takes products of bytes, of floats of 16 bits, and of f32 and floats of 8 bits where sums may be reordered, whose operands lie along the contracted axis: rows as they are in memory, columns too, or weights that
// are packed so.  A convolution of single pixels is such a product; of others the rows are windows over the image, or, where the
// copy engine does not take these (few channels, another order of axes), values that threads compute.  All else is another template's.
//
// The size of a tile is chosen by what it takes the machine: waves of tiles over its multiprocessors, each as long as the slower of its products
// and its copies.  The order of sums within a tile does not depend on that size, nor does any bit.
#include "lower/contract.h"

#include "eval/contract.h"
#include "ir/rule.h"
#include "loop/tile.h"
#include "lower/tile.h"

// ---- the choice ----

// What kinds of products take: operations a cycle, bytes of an element, bytes of shared memory that a step of 32 bytes along the contracted axis
// reads for a column and 64 rows, and touches once for a column and for a row.
typedef struct TileRate {
  double rate;
  int bytes, column, once, row, blocks_of_turn, most_stages;
} TileRate;
static const TileRate rate[] = {[TILE_HALF] = {4096, 2, 32, 0, 0, 6, 8},
                                [TILE_TF32] = {2048, 4, 32, 0, 0, 6, 8},
                                [TILE_F32] = {2048 / 3.0, 4, 96, 96, 32, 2, TILE_F32_STAGES},
                                [TILE_INT8] = {8192, 1, 32, 0, 0, 6, 8},
                                [TILE_FP8] = {8192, 1, 32, 0, 0, 6, 8}};

// Cycles of one tile's products, with operands from shared memory at 128 bytes and from L2 at 48.
static double product_cycles(const TileRate *r, int m, int n, int64_t depth) {
  double steps = (double)depth * r->bytes / 32, work = 2.0 * m * n * (double)depth / r->rate;
  double once = r->once * (double)n + r->row * (double)m;
  double shared = steps * (m / 64.0 * (2048 + r->column * (double)n) + once) / 128;
  double copies = (double)(m + n) * r->bytes * (double)depth / 48;
  return MAX(MAX(work, shared), copies);
}

// Of what is done with a tile's sums by so many warpgroups: each element, and waiting for what is read.
static double finish_cycles(int m, int n, int groups, double work) {
  return 1000 + m * (double)n * work / (6 * groups);
}

enum { MOST_ODD_COLS = 128 };  // that are stored one by one
enum {
  OTHER_BYTES = 34 << 10,  // of shared memory: what results are put into, and barriers
  SHARED_STAGES = 4,
  VALUE_STAGES = 3,
  MOST_VALUE_COLS = 128,
  BEGIN = 1500,
  MEET = 6000,  // what a cluster takes longer, as measured with four blocks
  MOST_CLUSTER = 4
};

// A multiprocessor has so many tiles, one after the other.  Two at once: one finishes while the next multiplies, unless what it reads is in the
// way of the next one's operands.
static double tile_cycles(const TileSchedule *s, const TileRate *r, int64_t tiles, int64_t depth,
                          TileFinish f) {
  double products = product_cycles(r, s->m, s->n, depth / s->cluster);
  double finish = finish_cycles(s->m, s->n, s->at_once > 1 ? 1 : s->m / TILE_ROWS, f.work);
  if (s->cluster > 1) return products + finish + MEET + BEGIN;
  if (s->at_once == 1 || f.beside) return (double)tiles * (products + finish) + BEGIN;
  return products + finish + (double)(tiles - 1) * MAX(products, (products + finish) / 2) + BEGIN;
}

// Small tiles wait for each step of their sums: warpgroups that take turns along a long axis wait at the same time.
// Which tile is small depends on the rows, so where sums must not there are no turns.
static int turns_for(const LowerTarget *t, const TileRate *r, int n, int64_t depth) {
  int64_t blocks = depth * r->bytes / TILE_DEPTH_BYTES, most = n <= TILE_ROWS ? 3 : 2;
  return t->batch_invariant ? 1 : (int)MIN(MAX(blocks / r->blocks_of_turn, 1), most);
}

// Blocks that share a tile have two blocks of the contracted axis for each of two warpgroups.
static bool may_share(const LowerTarget *t, const TileRate *r, int64_t depth, int cluster) {
  return !t->batch_invariant && depth * r->bytes / TILE_DEPTH_BYTES >= 4 * (int64_t)cluster;
}

static TileSchedule choose(const Contraction *c, const LowerTarget *t, LoopTileProduct product,
                           int64_t depth, bool value, TileFinish f) {
  static const struct {
    uint16_t m, n, at_once;
  } tile[] = {{128, 256, 1}, {128, 192, 1}, {128, 160, 1}, {128, 128, 1}, {128, 64, 1},
              {64, 256, 1},  {64, 192, 1},  {64, 128, 1},  {64, 96, 1},   {64, 64, 1},
              {64, 32, 1},   {128, 128, 2}, {128, 64, 2},  {128, 32, 1},  {128, 32, 2},
              {64, 256, 2},  {64, 128, 2},  {64, 64, 2}};
  int64_t rows = elem_rows(c->e, c->m, TILE_SOME_ROWS), cols = c->n->value, units = t->units;
  TileSchedule best = {0};
  double least = 0;
  const TileRate *r = &rate[product];
  bool f32 = product == TILE_F32;
  int most = value ? VALUE_STAGES : r->most_stages, turns_below = f32 ? 128 : TILE_ROWS;
  for (int64_t i = 0; i < ARRAY_LEN(tile); i++) {
    int m = tile[i].m, n = tile[i].n;
    if (value && (n > MOST_VALUE_COLS || m > TILE_ROWS || tile[i].at_once > 1)) continue;
    if (m > TILE_ROWS && n == TILE_COLS && cols > n) continue;  // for narrow layers alone
    if (f32 && (n > TILE_F32_COLS || tile[i].at_once > 1)) continue;
    if (product == TILE_FP8 && tile[i].at_once > 1) continue;
    if (cols % 4 && (n > MOST_ODD_COLS || tile[i].at_once > 1)) continue;  // each element by itself
    int64_t tiles = ((rows + m - 1) / m) * ((cols + n - 1) / n);
    bool small = m == TILE_ROWS && n <= turns_below && !value && tile[i].at_once == 1;
    TileSchedule s = {.m = m, .n = n, .groups = m / TILE_ROWS, .at_once = tile[i].at_once};
    if (s.at_once > 1) s.groups = 1;
    for (s.cluster = 1; s.cluster <= (small ? MOST_CLUSTER : 1); s.cluster *= 2) {
      if (s.cluster > 1 && (tiles * s.cluster > units || !may_share(t, r, depth, s.cluster))) break;
      double cycles = tile_cycles(&s, r, (tiles + units - 1) / units, depth, f);
      if (best.m && cycles >= least) continue;
      TileSchedule full = s;
      if (small) full.groups = turns_for(t, r, n, depth / s.cluster);
      if (s.cluster > 1) full.groups = MAX(full.groups, 2);
      int64_t stage = (m + (f32 ? 2 : 1) * n) * TILE_DEPTH_BYTES, sums = TILE_ROWS * n * 4;
      int64_t parts = f32 ? full.groups * TILE_ROWS / m - 1 : 0, stay = 0;
      if (!f32 && !value && s.cluster == 1 && full.groups * TILE_ROWS <= m)
        stay = loop_tile_stay(c->m, c->n, m, n,
                              (depth * r->bytes + TILE_DEPTH_BYTES - 1) / TILE_DEPTH_BYTES);
      if (stay) stage = m * TILE_DEPTH_BYTES;
      if (s.cluster > 1) parts = full.groups - 1 + s.cluster - 1;
      int64_t room = t->tile_bytes - OTHER_BYTES - parts * sums - stay;
      full.stages = (int)MIN(MAX(room / stage, 2), most);
      if (full.groups * TILE_ROWS > m) full.stages -= full.stages % (full.groups * TILE_ROWS / m);
      if (s.cluster > 1 && full.stages < SHARED_STAGES) break;
      best = full;
      least = cycles;
    }
  }
  return best;
}

// Functions by approximation are many operations.
static TileFinish finish_of(const Elem *e, const Contraction *c) {
  NodeList all = body_order(e->lo->g, e->body, e->a);
  double work = 1;
  bool beside = false;
  for (int64_t i = 0; i < all.n; i++) switch (all.v[i]->op) {
    case OP_gelu:
    case OP_erf:
    case OP_tanh:
    case OP_sigmoid:
    case OP_exp:
    case OP_quantize_linear:
    case OP_q_linear_conv:
    case OP_q_linear_mat_mul: work += 1; break;
    case OP_param:
      beside |= all.v[i] != c->lhs && type_same_dims(type_of(all.v[i]), type_of(e->fused));
      break;
    default: break;
    }
  return (TileFinish){work, beside};
}

// ---- what it takes ----

static bool is_byte(DType t) { return t == DT_I8 || t == DT_U8; }

static bool multiplies_bytes(const Contraction *c) {
  return is_byte(type_of(c->lhs)->dtype) && is_byte(type_of(c->rhs)->dtype) && c->acc == DT_I32;
}

static bool multiplies_float8(const Contraction *c) {
  return elem_float8(type_of(c->lhs)->dtype) && elem_float8(type_of(c->rhs)->dtype) &&
         c->acc == DT_F32 && c->e->lo->g->fast & FAST_REASSOC;
}

static bool wants(const Contraction *c) {
  DType t = type_of(c->lhs)->dtype;
  bool f32 = t == DT_F32 && c->e->lo->g->fast & (FAST_REASSOC | FAST_TF32);
  bool floats =
      (t == DT_BF16 || t == DT_F16 || f32) && type_of(c->rhs)->dtype == t && c->acc == DT_F32;
  return (floats || multiplies_bytes(c) || multiplies_float8(c)) && c->groups == 1 &&
         !c->transposed && !c->depthwise && !c->pieces;
}

static LoopTileProduct product_of(const Contraction *c) {
  if (multiplies_bytes(c)) return TILE_INT8;
  if (multiplies_float8(c)) return TILE_FP8;
  if (type_of(c->lhs)->dtype != DT_F32) return TILE_HALF;
  return c->e->lo->g->fast & FAST_TF32 ? TILE_TF32 : TILE_F32;
}

static bool is_plain(const Contraction *c) {
  for (int d = 0; c->conv && d < c->nd; d++)
    if (c->space[d].kernel != 1 || c->space[d].stride != 1 || c->space[d].lo || c->space[d].padded)
      return false;
  return true;
}

// Rows are all axes of the result but the last, whatever the template of contractions took for rows: a convolution's pixels, and before a
// product's rows a batch of one, unless a larger one would have another template.
static bool take_pixels(Contraction *c, const LowerTarget *t) {
  bool one = !c->conv && (c->weight || !t->batch_invariant);
  while (one && c->row0 > 0 && ie_is(c->out[c->row0 - 1], 1)) c->row0--;
  if (!c->conv) return true;
  c->row0 = 0;
  c->row1 = c->nout - 1;
  c->col0 = c->nout - 1;
  c->col1 = c->nout;
  c->m = c->e->pool->one;
  for (int i = 0; i < c->row1; i++) c->m = ie_mul(c->e->pool, c->m, c->out[i]);
  return c->channel == c->nout - 1;
}

// Elements of 16 bytes, by which the copy engine counts.
static int64_t line_of(const Contraction *c) { return 16 / elem_bytes(type_of(c->lhs)->dtype); }

// How far the copy engine's windows reach.
enum { WINDOW_REACH = 127, WINDOW_STEP = 8 };

static bool window_axis(const ContractAxis *s, LoopWindow *w, int axis) {
  if (!ie_is_const(s->in) || !ie_is_const(s->out)) return false;
  w->in[axis] = s->in->value;
  w->out[axis] = s->out->value;
  w->taps[axis] = s->kernel;
  w->stride[axis] = s->stride;
  w->dilation[axis] = s->dilation;
  w->lo[axis] = s->lo;
  int64_t end = (w->out[axis] - 1) * s->stride + 1 - w->in[axis] - s->lo;
  return w->in[axis] > 0 && s->kernel <= WINDOW_REACH && s->dilation <= WINDOW_REACH &&
         (s->kernel - 1) * s->dilation <= WINDOW_REACH && s->stride <= WINDOW_STEP &&
         s->lo >= -WINDOW_REACH && s->lo <= WINDOW_REACH && end >= -WINDOW_REACH &&
         end <= WINDOW_REACH;
}

// Where no tap lies beside the image, those of a line of the window are neighbours in memory: one run of channels, of which those of the next pixel
// are a part.  It is worth it where a tap's own channels leave most of a block of the contracted axis empty.
static void join_taps(const Contraction *c, LoopWindow *w) {
  int64_t block = line_of(c) * (TILE_DEPTH_BYTES / 16), joined = w->channels * w->taps[1];
  bool fewer = (joined + block - 1) / block < w->taps[1] * ((w->channels + block - 1) / block);
  if (c->space[c->nd - 1].padded || w->lo[1] || w->dilation[1] != 1 || !fewer) return;
  w->in[1] -= w->taps[1] - 1;
  w->channels = joined;
  w->taps[1] = 1;
}

static bool window_of(const Contraction *c, LoopWindow *w) {
  *w = (LoopWindow){.channels = c->in_channels,
                    .pixel = c->in_channels,
                    .images = c->out[0],
                    .in = {1, 1},
                    .out = {1, 1},
                    .taps = {1, 1},
                    .stride = {1, 1},
                    .dilation = {1, 1}};
  if (!c->conv || c->nd < 1 || c->nd > 2 || c->in_channels % line_of(c)) return false;
  for (int d = 0; d < c->nd; d++)
    if (!window_axis(&c->space[d], w, 2 - c->nd + d)) return false;
  w->line = w->in[1] * w->pixel;
  join_taps(c, w);
  return true;
}

static bool shape_fits(const Contraction *c) {
  return c->row0 == 0 && c->row1 == c->col0 && c->col1 == c->nout && c->row1 > 0 &&
         c->col1 - c->col0 == 1 && ie_is_const(c->n) && c->depth >= 16;
}

// The argument that holds the rows of lhs, or the image, as it lies in memory; -1: none does.
static int32_t rows_of(const Contraction *c) {
  const Node *n = c->lhs;
  const Type *t = type_of(n);
  bool in_order = t->rank == c->row1 + 1;
  for (int i = 0; !c->conv && in_order && i < t->rank; i++) {
    uint8_t role = i < c->row1 ? AXIS_OUT : AXIS_K;
    in_order = c->lhs_axis[i].role == role && (role == AXIS_K || c->lhs_axis[i].index == i);
    if (role == AXIS_OUT && ie_is(t->dims[i], 1)) in_order = ie_is(c->out[i], 1);
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
  LoopTileProduct product;
  uint8_t form;  // of lhs
  LoopWindow window;
  Dim k
      [CONTRACT_K];  // contracted sizes, the last taps filled up so that rows of weights are whole 16 bytes
  int64_t depth;  // of all
  int32_t a, b;   // arguments; a -1: a value; b -1: rhs as it is
  ContractBytes bytes;
} TileBuilder;

static const char *print_schedule(Arena *a, const TileBuilder *t) {
  static const char *const lhs[] = {"", " window", " value"};
  static const char *const product[] = {"", " tf32", " f32", " int8", " fp8"};
  const char *shared = t->s.cluster > 1 ? str_printf(a, " of %d blocks", t->s.cluster) : "";
  bool warps = t->e->lo->target.tiles == TILES_WARP;
  return str_printf(a, "tile %dx%d k%d stages %d %s %d%s%s%s%s", t->s.m, t->s.n,
                    TILE_DEPTH_BYTES / rate[t->product].bytes, t->s.stages,
                    warps ? "warps" : "warpgroups", (warps ? 4 : 1) * t->s.groups * t->s.at_once,
                    shared, t->s.at_once > 1 ? " by turns" : "", lhs[t->form], product[t->product]);
}

static LoopBound bound_of(Elem *e, const char *name, Dim first, Dim var, Dim extent) {
  return (LoopBound){
      .sym = loop_sym(e->k, name, extent), .value = ie_add(e->pool, first, var), .extent = extent};
}

// An argument that holds a matrix with the contracted axis along its rows.
static const LoopExpr *from_matrix(TileBuilder *t, int32_t buffer, const LoopBound *row, Dim k) {
  IntPool *p = t->e->pool;
  LoopBound *g = arena_dup(t->e->a, row, sizeof *row);
  Dim at = ie_add(p, ie_mulc(p, row->sym, t->depth), k);
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

// The contracted axis that is filled up where rows are values: the last taps, or a product's last one.
static int filled_axis(const Contraction *c) { return (c->conv ? c->nd : c->nk) - 1; }

// What lhs is at a pixel; taps outside the image and those that fill up are its zero point.
static const LoopExpr *from_value(TileBuilder *t, const LoopBound *row, Dim k) {
  Contraction *c = t->c;
  Elem *e = t->e;
  Dim index[MAX_RANK];
  ContractPoint at = {.group = e->pool->zero};
  int before = e->nguards;
  e->guard[e->nguards++] = *row;
  int since = e->nguards;
  elem_split(e, row->sym, c->row1, c->out, at.out);
  at.out[c->col0] = e->pool->zero;
  elem_split(e, k, c->nk, t->k, at.k);
  for (int d = c->conv ? 0 : c->nk - 1; d < filled_axis(c) + 1; d++)
    if (!(at.k[d] = elem_guard(e, at.k[d], c->k[d]))) return NULL;
  contract_lhs(c, &at, index);
  for (int d = 0; d < c->nd; d++) {
    Dim *x = &index[c->first_space + d];
    if (c->space[d].padded && !(*x = elem_guard(e, *x, c->space[d].in))) return NULL;
  }
  const LoopExpr *x = elem_at(e, c->lhs, index);
  DType type = type_of(c->lhs)->dtype;
  if (x && x->dtype != type) x = loop_cast(e->k, type, x);
  if (x && e->nguards > since)
    x = elem_guarded(e, since, x, elem_number(e, type, (double)t->bytes.outside));
  elem_unguard(e, before);
  elem_forget(e);
  return x;
}

static const LoopExpr *from_lhs(TileBuilder *t, const LoopBound *row, Dim k) {
  LoopBound *g = arena_dup(t->e->a, row, sizeof *row);
  if (t->form == TILE_WINDOW) return loop_tile_window(t->e->k, t->a, &t->window, g, k);
  return t->form == TILE_VALUE ? from_value(t, g, k) : from_matrix(t, t->a, g, k);
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

static const LoopExpr *factor_of(TileBuilder *t, const LoopExpr *x) {
  x = loop_cast(t->e->k, t->product == TILE_INT8 ? DT_I32 : DT_F32, x);
  return t->product == TILE_TF32 ? loop_op(t->e->k, LOOP_tf32, x, NULL, NULL) : x;
}

static bool emit_tile(TileBuilder *t) {
  Elem *e = t->e;
  IntPool *p = e->pool;
  LoopBuilder *b = &e->b;
  loop_begin(b, e->k);
  Dim m = ie_const(p, t->s.m), n = ie_const(p, t->s.n);
  Dim down = ie_ceildiv(p, t->c->m, m), across = ie_ceildiv(p, t->c->n, n);
  Dim item = loop_for(b, LOOP_PARALLEL, "item", ie_mul(p, down, across));
  if (t->s.at_once > 1) loop_at_once(b, t->s.at_once);
  Dim first_row = ie_mul(p, ie_div(p, item, across), m);
  Dim first_col = ie_mul(p, ie_mod(p, item, across), n);
  Dim i = loop_tile(b, "i", t->s.m, t->s.stages);
  Dim j = loop_tile(b, "j", t->s.n, t->s.groups * t->s.cluster);
  LoopBound row = bound_of(e, "row", first_row, i, t->c->m), from = row;
  // A window takes its row apart; another name for it keeps whole the one that says where sums are stored.
  if (t->form != TILE_MATRIX) from = bound_of(e, "pixel", first_row, i, t->c->m);
  LoopBound col = bound_of(e, "col", first_col, j, t->c->n);
  Dim k = loop_reduce(b, LOOP_add, "k", ie_const(p, t->depth), 1);
  const LoopExpr *x = from_lhs(t, &from, k);
  const LoopExpr *y = t->b < 0 ? from_rhs(t, &col, k) : from_matrix(t, t->b, &col, k);
  if (!x || !y) return false;
  x = factor_of(t, x);
  y = factor_of(t, y);
  const LoopExpr *sum = loop_yield(b, loop_op(e->k, LOOP_mul, x, y, NULL));
  bool ok = store_sum(t, &row, &col, sum);
  for (int depth = 0; depth < 3; depth++) loop_end(b);
  return ok;
}

// ---- the template ----

enum {
  FEW_ROWS = 16
};  // of a product whose rows are values, for which threads by themselves are as fast

// Whether taps lie outside the image and count as other numbers than 0, which is what the copy engine gives.
static bool fills_border(const TileBuilder *t) {
  bool padded = false;
  for (int d = 0; d < t->c->nd; d++) padded |= t->c->space[d].padded;
  return padded && t->bytes.outside;
}

// How lhs is fetched.
static bool take_lhs(TileBuilder *t) {
  Contraction *c = t->c;
  t->a = rows_of(c);
  t->depth = c->depth;
  memcpy(t->k, c->k, sizeof t->k);
  t->form = TILE_VALUE;
  if (t->a >= 0 && is_plain(c) && c->depth % line_of(c) == 0)
    t->form = TILE_MATRIX;
  else if (t->a >= 0 && !fills_border(t) && window_of(c, &t->window))
    t->form = TILE_WINDOW;
  if (t->form != TILE_VALUE) return true;
  t->a = -1;
  Dim *filled = &t->k[filled_axis(c)];
  int64_t others = c->depth / (*filled)->value, n = (*filled)->value;
  while (others * n % line_of(c)) n++;
  *filled = ie_const(t->e->pool, n);
  t->depth = others * n;
  bool few = ie_is_const(c->m) && c->m->value < FEW_ROWS;
  return c->conv || (c->weight && !few);
}

static bool take_rhs(TileBuilder *t) {
  Contraction *c = t->c;
  PackSpec pack;
  t->b = -1;
  if (!c->weight) return !c->conv && c->nk == 1;
  if (!contract_pack_rows(c, &pack)) return false;
  for (int i = 0; i < c->nk; i++) pack.extent[1 + i] = t->k[i]->value;
  pack.flip = t->bytes.turned ? 128 : 0;
  t->b = elem_packed(t->e, c->weight, &pack, "w");
  if (t->b >= 0) t->e->k->buffer[t->b].constant = true;
  return t->b >= 0;
}

// What zero points and scales of bytes take.  Sums of so many products stay below 2^31, where they must not wrap.
static bool settle_bytes(TileBuilder *t) {
  enum { MOST_PRODUCTS = 32768 };
  if (contract_quantised(t->c->anchor) && t->c->depth > MOST_PRODUCTS) return false;
  if (!contract_bytes(t->c, &t->bytes)) return false;
  contract_scales(t->c);
  return contract_declare_columns(t->c);
}

// Warps multiply what is copied, in numbers that they have.
static bool suits(const TileBuilder *t, const LowerTarget *target) {
  bool numbers = t->product == TILE_HALF || t->product == TILE_TF32 || t->product == TILE_INT8;
  return target->tiles == TILES_WARPGROUP || (t->form != TILE_VALUE && numbers);
}

// Whether the machine has units for what was made.
static bool is_done(const LoopTile *t, const LowerTarget *target) {
  LoopTileWarps w;
  const char *why;
  return target->tiles == TILES_WARPGROUP || loop_tile_warps(t, &w, &why);
}

// What is multiplied: a window's channels are filled up for each tap.
static int64_t depth_of(const TileBuilder *t) {
  int64_t block = TILE_DEPTH_BYTES / rate[t->product].bytes;
  if (t->form != TILE_WINDOW) return t->depth;
  return t->depth / t->window.channels * ((t->window.channels + block - 1) / block * block);
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
      !contract_map(&c, &e, h.follow.anchor, h.blocks) || !contract_sizes(&c) ||
      !take_pixels(&c, &lo->target) || !shape_fits(&c))
    return TENON_EUNSUPPORTED;
  Finish f = {.c = &c, .h = &h};
  TileBuilder t = {.c = &c, .e = &e, .finish = &f, .product = product_of(&c)};
  if (t.product == TILE_INT8 && !settle_bytes(&t)) return TENON_EUNSUPPORTED;
  if (!take_lhs(&t) || !suits(&t, &lo->target) || !take_rhs(&t)) return TENON_EUNSUPPORTED;
  t.s = lo->target.tiles == TILES_WARP ? tile_for_warps(&c, &lo->target, t.product, depth_of(&t),
                                                        t.form == TILE_WINDOW, finish_of(&e, &c))
                                       : choose(&c, &lo->target, t.product, depth_of(&t),
                                                t.form == TILE_VALUE, finish_of(&e, &c));
  if (!contract_give(&f, &e) || !emit_tile(&t)) return TENON_EUNSUPPORTED;
  elem_finish(&e, print_schedule(lo->arena, &t), out);
  LoopTile found;
  return loop_find_tile(out->kernel, &found) && found.a.form == t.form && !out->kernel->nchecks &&
                 is_done(&found, &lo->target)
             ? TENON_OK
             : TENON_EUNSUPPORTED;
}
