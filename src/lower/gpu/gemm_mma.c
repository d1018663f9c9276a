// gemm_mma.c -- template gemm_mma: GEMM and convolution on tensor cores, an MMA tile per work item
// (loop/tile.h).
//
// Takes the data types of loop/mma.def with K-major operands: rows of a matrix as lhs, and a
// transposed matrix or packed weights as rhs.  A 1x1 convolution is such a GEMM.  For other
// convolutions TMA fetches windows over the image (implicit GEMM).  Where TMA cannot, for few
// channels or another layout, threads compute the values.  A group of a convolution has tiles of
// its own, whose window begins with the group's first channel.
//
// match maps the contraction and says how operands are fetched.  choose estimates waves of tiles
// over the multiprocessors, each as long as the slower of its MMAs and its copies, and takes the
// cheapest.  build writes the tile.
//
// Needs:      TargetTraits.mma with the operands' data type in mma_dtypes; the fast-math flag that
//             loop/mma.def names, such as FAST_TF32; contract.h maps the contraction.
// Guarantees: the tile passes loop_tile_check.  Without split-K the order of a sum does not depend
//             on the schedule; batch_invariant rules split-K out.  The rest is left to gemm_simt
//             and gemm_naive.
#include "lower/contract/contract.h"

#include "eval/contract.h"
#include "ir/rule.h"
#include "loop/prove.h"
#include "loop/tile.h"
#include "lower/gpu/gemm_mma.h"

// ---- the choice ----

// Cycles of one tile's products, with operands from shared memory at 128 bytes and from L2 at 48.
static double product_cycles(const LoopMmaInfo *r, int m, int n, int64_t depth) {
  double steps = (double)depth * r->bytes / 32, work = 2.0 * m * n * (double)depth / r->rate;
  double once = r->once * (double)n + r->row * (double)m;
  double shared = steps * (m / 64.0 * (2048 + r->column * (double)n) + once) / 128;
  double copies = (double)(m + n) * r->bytes * (double)depth / 48;
  return MAX(MAX(work, shared), copies);
}

// Of a tile's epilogue by so many warpgroups: each element, and waiting for its operands.
static double epilogue_cycles(int m, int n, int groups, double work) {
  return 1000 + m * (double)n * work / (6 * groups);
}

enum { MOST_ODD_COLS = 128 };  // that are stored one by one
enum {
  OTHER_BYTES = 34 << 10,  // of shared memory: results that TMA stores, and barriers
  SHARED_STAGES = 4,
  VALUE_STAGES = 3,
  MOST_VALUE_COLS = 128,
  BEGIN = 1500,
  MEET = 6000,  // cycles that a cluster adds, as measured with four blocks
  MOST_CLUSTER = 4
};

// A multiprocessor has so many tiles, one after the other.  In ping-pong one runs its epilogue
// while the next runs its main loop, unless the epilogue's operand is in the way of the next one's.
static double tile_cycles(const LoopTileSchedule *s, const TileProblem *q, int64_t tiles) {
  double products = product_cycles(&loop_mma[q->kind], s->m, s->n, q->depth / s->cluster);
  double epilogue = epilogue_cycles(s->m, s->n, s->pingpong ? 1 : s->m / TILE_ROWS, q->work);
  if (s->cluster > 1) return products + epilogue + MEET + BEGIN;
  if (!s->pingpong || q->operand) return (double)tiles * (products + epilogue) + BEGIN;
  return products + epilogue + (double)(tiles - 1) * MAX(products, (products + epilogue) / 2) +
         BEGIN;
}

// Small tiles wait for each step of their sums: warpgroups that split a long depth wait at the same
// time.  Which tile is small depends on the number of rows, so a batch-invariant target does not
// split.
static int split_of(const LowerTarget *t, const LoopMmaInfo *r, int n, int64_t depth) {
  int64_t blocks = depth * r->bytes / TILE_DEPTH_BYTES, most = n <= TILE_ROWS ? 3 : 2;
  return t->batch_invariant ? 1 : (int)MIN(MAX(blocks / r->split_blocks, 1), most);
}

// Cluster split-K: a block of the cluster has two blocks of the depth for each of two warpgroups.
static bool may_split(const LowerTarget *t, const LoopMmaInfo *r, int64_t depth, int cluster) {
  return !t->batch_invariant && depth * r->bytes / TILE_DEPTH_BYTES >= 4 * (int64_t)cluster;
}

// Whether a tile is one of those that are tried.
static bool is_candidate(const TileProblem *q, const LoopTileSchedule *s) {
  const LoopMmaInfo *r = &loop_mma[q->kind];
  bool value = q->form == TILE_VALUE;
  if (value && (s->n > MOST_VALUE_COLS || s->m > TILE_ROWS || s->pingpong)) return false;
  if (s->m > TILE_ROWS && s->n == TILE_COLS && q->cols > s->n) return false;  // for narrow layers
  if (s->n > r->most_cols || (s->pingpong && !r->pingpong)) return false;
  return q->cols % 4 == 0 || (s->n <= MOST_ODD_COLS && !s->pingpong);  // each element by itself
}

// Warpgroups and stages of a tile, by what shared memory holds.
static LoopTileSchedule fill(const TileProblem *q, LoopTileSchedule s, bool small) {
  const LowerTarget *t = q->target;
  const LoopMmaInfo *r = &loop_mma[q->kind];
  bool f32 = q->kind == MMA_F32, value = q->form == TILE_VALUE;
  int most = value ? VALUE_STAGES : r->most_stages;
  if (small) s.warpgroups = split_of(t, r, s.n, q->depth / s.cluster);
  if (s.cluster > 1) s.warpgroups = MAX(s.warpgroups, 2);
  int64_t stage = (s.m + (f32 ? 2 : 1) * s.n) * TILE_DEPTH_BYTES, sums = TILE_ROWS * s.n * 4;
  int64_t parts = f32 ? s.warpgroups * TILE_ROWS / s.m - 1 : 0, resident = 0;
  if (!f32 && !value && s.cluster == 1 && s.warpgroups * TILE_ROWS <= s.m && q->parts == 1)
    resident = loop_tile_resident(q->m, q->n, s.m, s.n,
                                  (q->depth * r->bytes + TILE_DEPTH_BYTES - 1) / TILE_DEPTH_BYTES);
  if (resident) stage = s.m * TILE_DEPTH_BYTES;
  if (s.cluster > 1) parts = s.warpgroups - 1 + s.cluster - 1;
  int64_t room = t->tile_bytes - OTHER_BYTES - parts * sums - resident;
  s.stages = (int)MIN(MAX(room / stage, 2), most);
  if (s.warpgroups * TILE_ROWS > s.m) s.stages -= s.stages % (s.warpgroups * TILE_ROWS / s.m);
  return s;
}

static LoopTileSchedule tile_for_warpgroups(const TileProblem *q) {
  static const struct {
    uint16_t m, n, pingpong;
  } tile[] = {{128, 256, 0}, {128, 192, 0}, {128, 160, 0}, {128, 128, 0}, {128, 64, 0},
              {64, 256, 0},  {64, 192, 0},  {64, 128, 0},  {64, 96, 0},   {64, 64, 0},
              {64, 32, 0},   {128, 128, 1}, {128, 64, 1},  {128, 32, 0},  {128, 32, 1},
              {64, 256, 1},  {64, 128, 1},  {64, 64, 1}};
  const LoopMmaInfo *r = &loop_mma[q->kind];
  int64_t units = q->target->traits.sm_count;
  int split_below = q->kind == MMA_F32 ? 128 : TILE_ROWS;
  LoopTileSchedule best = {0};
  double least = 0;
  for (int64_t i = 0; i < ARRAY_LEN(tile); i++) {
    LoopTileSchedule s = {.m = tile[i].m, .n = tile[i].n, .pingpong = tile[i].pingpong};
    if (!is_candidate(q, &s)) continue;
    s.warpgroups = s.pingpong ? 1 : s.m / TILE_ROWS;
    int64_t tiles = ((q->rows + s.m - 1) / s.m) * ((q->cols + s.n - 1) / s.n) * q->parts;
    bool small = s.m == TILE_ROWS && s.n <= split_below && q->form != TILE_VALUE && !s.pingpong;
    for (s.cluster = 1; s.cluster <= (small ? MOST_CLUSTER : 1); s.cluster *= 2) {
      if (s.cluster > 1 &&
          (tiles * s.cluster > units || !may_split(q->target, r, q->depth, s.cluster)))
        break;
      double cycles = tile_cycles(&s, q, (tiles + units - 1) / units);
      if (best.m && cycles >= least) continue;
      LoopTileSchedule full = fill(q, s, small);
      if (s.cluster > 1 && full.stages < SHARED_STAGES) break;
      best = full;
      least = cycles;
    }
  }
  return best;
}

// Functions by approximation are many operations.
static void weigh_epilogue(const ElementBuilder *e, const Contraction *c, TileProblem *out) {
  NodeList all = body_order(e->lo->g, e->body, e->a);
  out->work = 1;
  for (int64_t i = 0; i < all.n; i++) switch (all.v[i]->op) {
    case OP_gelu:
    case OP_erf:
    case OP_tanh:
    case OP_sigmoid:
    case OP_exp:
    case OP_quantize_linear:
    case OP_q_linear_conv:
    case OP_q_linear_mat_mul: out->work += 1; break;
    case OP_param:
      out->operand |= all.v[i] != c->lhs && type_same_dims(type_of(all.v[i]), type_of(e->fused));
      break;
    default: break;
    }
}

// ---- what it takes ----

// The first kind of products that takes the operands, under the graph's fast-math flags; -1: there
// is none.
static int kind_of(const Contraction *c) {
  static const unsigned needs[MMA_KINDS] = {
#define MMA(kind, word, sum, bytes, needs, ...) [MMA_##kind] = needs,
#include "loop/mma.def"
  };
  DType a = type_of(c->lhs)->dtype, b = type_of(c->rhs)->dtype;
  for (int i = 0; i < MMA_KINDS; i++)
    if (loop_mma_takes((LoopMmaKind)i, a, b) && c->acc == loop_mma[i].sum &&
        (!needs[i] || c->e->lo->g->fast & needs[i]))
      return i;
  return -1;
}

// A group's channels are lines of whole 16 bytes.  Those that fill up a block of the depth are the
// next group's, times 0, which --exact does not allow.
static bool takes_groups(const Contraction *c, LoopMmaKind kind) {
  int64_t bytes = c->in_channels * loop_mma[kind].bytes;
  bool fills = bytes % TILE_DEPTH_BYTES != 0;
  return !c->sides && kind != MMA_INT8 && bytes % 16 == 0 &&
         (!fills || c->e->lo->g->fast & FAST_REASSOC);
}

static bool wants(const Contraction *c) {
  int kind = kind_of(c);
  return kind >= 0 && (c->groups == 1 || takes_groups(c, (LoopMmaKind)kind)) && !c->transposed &&
         !c->depthwise && !c->pieces;
}

static bool is_plain(const Contraction *c) {
  for (int d = 0; c->conv && d < c->nd; d++)
    if (c->space[d].kernel != 1 || c->space[d].stride != 1 || c->space[d].lo || c->space[d].padded)
      return false;
  return true;
}

// Rows are all axes of the result but the last, whatever the template of contractions took for
// rows: a convolution's pixels, and before a product's rows a batch of one, unless a larger one
// would have another template.
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

// Elements of 16 bytes, by which TMA counts.
static int64_t line_of(const Contraction *c) { return 16 / elem_bytes(type_of(c->lhs)->dtype); }

// How far TMA's windows reach.
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

// Where no tap is outside the image, those of a line of the window are neighbours in memory: one
// run of channels, of which those of the next pixel are a part.  It is worth it where a tap's own
// channels leave most of a block of the depth empty.
static void join_taps(const Contraction *c, LoopWindow *w) {
  int64_t block = line_of(c) * (TILE_DEPTH_BYTES / 16), joined = w->channels * w->taps[1];
  bool fewer = (joined + block - 1) / block < w->taps[1] * ((w->channels + block - 1) / block);
  if (c->groups > 1 || c->space[c->nd - 1].padded || w->lo[1] || w->dilation[1] != 1 || !fewer)
    return;
  w->in[1] -= w->taps[1] - 1;
  w->channels = joined;
  w->taps[1] = 1;
}

// An axis along which the window does not reach: its places are images by themselves.
static bool is_alone(const ContractAxis *s) {
  return s->kernel == 1 && s->stride == 1 && !s->lo && !s->padded && ie_is_const(s->in) &&
         s->in == s->out;
}

static bool window_of(const Contraction *c, LoopWindow *w) {
  int first = 0;
  *w = (LoopWindow){.channels = c->in_channels,
                    .pixel = c->in_channels * c->groups,
                    .images = c->out[0],
                    .in = {1, 1},
                    .out = {1, 1},
                    .taps = {1, 1},
                    .stride = {1, 1},
                    .dilation = {1, 1}};
  if (!c->conv || c->nd < 1 || c->in_channels % line_of(c)) return false;
  for (; c->nd - first > 1 && is_alone(&c->space[first]); first++)
    w->images = ie_mul(c->e->pool, w->images, c->space[first].out);
  if (c->nd - first > 2) return false;
  for (int d = first; d < c->nd; d++)
    if (!window_axis(&c->space[d], w, 2 - c->nd + d)) return false;
  w->line = w->in[1] * w->pixel;
  join_taps(c, w);
  return true;
}

static bool shape_fits(const Contraction *c) {
  return c->row0 == 0 && c->row1 == c->col0 && c->col1 == c->nout && c->row1 > 0 &&
         c->col1 - c->col0 == 1 && ie_is_const(c->n) && c->depth >= 16;
}

// The argument that holds the rows of lhs, or the image, as it is in memory; -1: none does.
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

// What was matched: the contraction, and how its operands are fetched.
typedef struct TileMatch {
  Contraction c;
  ElementBuilder e;
  ContractEpilogue h;
  Epilogue finish;
  LoopMmaKind kind;
  uint8_t form;  // of lhs
  LoopWindow window;
  Dim k[CONTRACT_K];  // contracted sizes, the last taps filled up to whole 16 bytes of weights
  int64_t depth;      // of all
  int32_t a, b;       // arguments; a -1: a value; b -1: rhs as it is
  Dim group;          // of the item
  ContractInt8 bytes;
} TileMatch;

static LoopTileSchedule tile_of(const GemmMmaSchedule *s) {
  return (LoopTileSchedule){.m = (int)s->m,
                            .n = (int)s->n,
                            .stages = (int)s->stages,
                            .warpgroups = (int)s->warpgroups,
                            .cluster = (int)s->cluster,
                            .pingpong = s->pingpong};
}

static LoopBound bound_of(ElementBuilder *e, const char *name, Dim first, Dim var, Dim extent) {
  return (LoopBound){
      .sym = loop_sym(e->k, name, extent), .value = ie_add(e->pool, first, var), .extent = extent};
}

static LoopTileOperand operand_at(const LoopBound *row) {
  return (LoopTileOperand){.sym = row->sym, .row = row->value, .rows = row->extent, .buffer = -1};
}

// rhs as it is: a transposed matrix is K-major, too.  Its address says where its rows are.
static bool take_matrix(TileMatch *t, const LoopBound *col, Dim k, LoopTileOperand *out) {
  ElementBuilder *e = &t->e;
  Dim index[MAX_RANK], one, rest;
  ContractPoint at = {.group = e->pool->zero, .k = {k}};
  for (int i = 0; i < t->c.nout; i++) at.out[i] = e->pool->zero;
  at.out[t->c.col0] = col->sym;
  e->guard[e->nguards++] = *col;
  contract_rhs(&t->c, &at, index);
  const LoopExpr *x = elem_at(e, t->c.rhs, index);
  elem_unguard(e, e->nguards - 1);
  elem_forget(e);
  if (x && x->kind == LX_OP && x->op == LOOP_cast) x = x->src[0];
  if (!x || x->kind != LX_LOAD || x->src[0] || x->nguards != 1 || x->guard[0].sym != col->sym)
    return false;
  out->buffer = x->buffer;
  return dim_split(e->pool, x->index, k, &one, &rest) && ie_is(one, 1) &&
         dim_split(e->pool, rest, col->sym, &out->stride, &rest) && ie_is(rest, 0);
}

// The contracted axis that is filled up where rows are values: the last taps, or a product's last
// one.
static int filled_axis(const Contraction *c) { return (c->conv ? c->nd : c->nk) - 1; }

// What lhs is at a pixel; taps outside the image and those that fill up are its zero point.
static const LoopExpr *from_value(TileMatch *t, const LoopBound *row, Dim k) {
  Contraction *c = &t->c;
  ElementBuilder *e = &t->e;
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

static bool take_operands(TileMatch *t, LoopTile *tile, const LoopBound *row, const LoopBound *col,
                          Dim k) {
  IntPool *p = t->e.pool;
  Dim depth = ie_const(p, t->depth);
  int64_t groups = t->c.groups;
  tile->a = operand_at(row);
  tile->a.form = t->form;
  tile->a.buffer = t->a;
  tile->a.window = t->window;
  if (t->form == TILE_MATRIX) tile->a.stride = ie_mulc(p, depth, groups);
  if (t->form == TILE_VALUE && !(tile->a.value = from_value(t, row, k))) return false;
  tile->b = operand_at(col);
  if (t->b < 0) return take_matrix(t, col, k, &tile->b);
  tile->b.buffer = t->b;
  tile->b.stride = depth;
  if (groups == 1) return true;
  tile->a.first = ie_mulc(p, t->group, t->c.in_channels);
  tile->b.base = ie_mul(p, t->group, t->c.n);
  tile->b.all = ie_mulc(p, t->c.n, groups);
  return true;
}

static bool store_sum(TileMatch *t, const LoopBound *row, const LoopBound *col,
                      const LoopExpr *sum) {
  ElementBuilder *e = &t->e;
  Dim index[MAX_RANK];
  int before = e->nguards;
  e->guard[e->nguards++] = *row;
  e->guard[e->nguards++] = *col;
  elem_split(e, row->sym, t->c.row1, t->c.out, index);
  index[t->c.col0] = ie_add(e->pool, ie_mul(e->pool, t->group, t->c.n), col->sym);
  bool ok = epilogue_store_sum(&t->finish, index, sum, NULL);
  elem_unguard(e, before);
  return ok;
}

static bool emit_tile(TileMatch *t, const LoopTileSchedule *s) {
  ElementBuilder *e = &t->e;
  IntPool *p = e->pool;
  LoopBuilder *b = &e->b;
  loop_begin(b, e->k);
  Dim m = ie_const(p, s->m), n = ie_const(p, s->n);
  Dim down = ie_ceildiv(p, t->c.m, m), across = ie_ceildiv(p, t->c.n, n);
  Dim groups = ie_const(p, t->c.groups), all = ie_mul(p, ie_mul(p, down, groups), across);
  Dim item = loop_for(b, LOOP_PARALLEL, "item", all), line = ie_div(p, item, across);
  Dim first_row = ie_mul(p, ie_div(p, line, groups), m);
  Dim first_col = ie_mul(p, ie_mod(p, item, across), n);
  t->group = ie_mod(p, line, groups);
  LoopTile *tile = loop_tile_begin(b, LS_MMA, s, "i", "j");
  Dim i = tile->rows->sym, j = tile->cols->sym;
  LoopBound row = bound_of(e, "row", first_row, i, t->c.m), from = row;
  // A window decomposes its row; another name for it keeps whole the one that says where sums are
  // stored.
  if (t->form != TILE_MATRIX) from = bound_of(e, "pixel", first_row, i, t->c.m);
  LoopBound col = bound_of(e, "col", first_col, j, t->c.n);
  Dim k = loop_mma_depth(b, tile, ie_const(p, t->depth));
  tile->kind = (uint8_t)t->kind;
  if (!take_operands(t, tile, &from, &col, k)) return false;
  const LoopExpr *sum = loop_mma_sum(b, tile);
  bool ok = sum && store_sum(t, &row, &col, sum);
  if (!ok) return false;
  loop_tile_end(b);
  loop_end(b);
  return true;
}

// ---- the template ----

enum {
  FEW_ROWS = 16
};  // of a product whose rows are values, for which threads by themselves are as fast

// Whether taps lie outside the image and count as other numbers than 0, which is what TMA gives.
static bool fills_border(const TileMatch *t) {
  bool padded = false;
  for (int d = 0; d < t->c.nd; d++) padded |= t->c.space[d].padded;
  return padded && t->bytes.outside;
}

// How lhs is fetched.
static bool take_lhs(TileMatch *t) {
  Contraction *c = &t->c;
  t->a = rows_of(c);
  t->depth = c->depth;
  memcpy(t->k, c->k, sizeof t->k);
  t->form = TILE_VALUE;
  if (t->a >= 0 && is_plain(c) && c->depth % line_of(c) == 0)
    t->form = TILE_MATRIX;
  else if (t->a >= 0 && !fills_border(t) && window_of(c, &t->window))
    t->form = TILE_WINDOW;
  if (t->form != TILE_VALUE) return true;
  if (c->groups > 1) return false;
  t->a = -1;
  Dim *filled = &t->k[filled_axis(c)];
  int64_t others = c->depth / (*filled)->value, n = (*filled)->value;
  while (others * n % line_of(c)) n++;
  *filled = ie_const(t->e.pool, n);
  t->depth = others * n;
  bool skinny = ie_is_const(c->m) && c->m->value < FEW_ROWS;
  return c->conv || (c->weight && !skinny);
}

static bool take_rhs(TileMatch *t) {
  Contraction *c = &t->c;
  PackSpec pack;
  t->b = -1;
  if (!c->weight) return !c->conv && c->nk == 1;
  if (!contract_pack_rows(c, &pack)) return false;
  for (int i = 0; i < c->nk; i++) pack.extent[1 + i] = t->k[i]->value;
  pack.flip = t->bytes.rebiased ? 128 : 0;
  t->b = elem_packed(&t->e, c->weight, &pack, "w");
  if (t->b >= 0) t->e.k->buffer[t->b].constant = true;
  return t->b >= 0;
}

// What zero points and scales of bytes take.  Sums of so many products stay below 2^31, where they
// must not wrap.
static bool prepare_int8(TileMatch *t) {
  enum { MOST_PRODUCTS = 32768 };
  if (is_requantized(t->c.anchor) && t->c.depth > MOST_PRODUCTS) return false;
  if (!contract_int8(&t->c, &t->bytes)) return false;
  contract_scales(&t->c);
  return contract_declare_columns(&t->c);
}

// Warps multiply what is copied, in numbers that they have.
static bool suits(const TileMatch *t, const LowerTarget *target) {
  bool numbers = loop_mma[t->kind].warp_rate > 0;
  return target->traits.mma == MMA_WARPGROUP || (t->form != TILE_VALUE && numbers);
}

// What is multiplied: a window's channels are filled up for each tap.
static int64_t depth_of(const TileMatch *t) {
  int64_t block = TILE_DEPTH_BYTES / loop_mma[t->kind].bytes;
  if (t->form != TILE_WINDOW) return t->depth;
  return t->depth / t->window.channels * ((t->window.channels + block - 1) / block * block);
}

static void *gemm_mma_match(Lowering *lo, const Node *fused) {
  TileMatch *t = arena_new(lo->arena, TileMatch);
  ElementBuilder *e = &t->e;
  Contraction *c = &t->c;
  *e =
      (ElementBuilder){.lo = lo, .fused = fused, .body = ((const fused_attrs *)fused->attrs)->body};
  e->a = lo->arena;
  lo->why = "tensor cores do not multiply its data types";
  if (!contract_epilogue(&t->h, e) || !contract_map(c, e, t->h.walk.anchor, t->h.blocks) ||
      !wants(c))
    return NULL;
  const Node *skip[1] = {c->weight ? c->rhs : NULL};
  lo->why = "its operands are not K-major, or its sizes are not known";
  if (!elem_begin(e, lo, fused, skip, c->weight ? 1 : 0) ||
      !contract_map(c, e, t->h.walk.anchor, t->h.blocks) || !contract_sizes(c) ||
      !take_pixels(c, &lo->target) || !shape_fits(c))
    return NULL;
  t->finish = (Epilogue){.c = c, .h = &t->h};
  t->kind = (LoopMmaKind)kind_of(c);
  if (t->kind == MMA_INT8 && !prepare_int8(t)) return NULL;
  return take_lhs(t) && suits(t, &lo->target) && take_rhs(t) ? t : NULL;
}

static bool gemm_mma_choose(void *match, const LowerTarget *target, const ScheduleGiven *given,
                            void *fields) {
  const TileMatch *t = match;
  const Contraction *c = &t->c;
  (void)given;
  TileProblem q = {.target = target,
                   .rows = elem_rows(c->e, c->m, TILE_SOME_ROWS),
                   .cols = c->n->value,
                   .depth = depth_of(t),
                   .m = c->m,
                   .n = c->n,
                   .kind = t->kind,
                   .form = t->form,
                   .parts = c->groups};
  weigh_epilogue(&t->e, c, &q);
  LoopTileSchedule s =
      target->traits.mma == MMA_WARP ? tile_for_warps(&q) : tile_for_warpgroups(&q);
  *(GemmMmaSchedule *)fields = (GemmMmaSchedule){.m = s.m,
                                                 .n = s.n,
                                                 .stages = s.stages,
                                                 .warpgroups = s.warpgroups,
                                                 .cluster = s.cluster,
                                                 .pingpong = s.pingpong,
                                                 .lhs = t->form,
                                                 .math = (int)t->kind};
  return true;
}

static bool gemm_mma_legal(const void *match, const LowerTarget *target, const void *fields,
                           const char **why) {
  const TileMatch *t = match;
  const GemmMmaSchedule *s = fields;
  LoopTileSchedule tile = tile_of(s);
  int64_t stage = (s->m + s->n) * TILE_DEPTH_BYTES;
  bool warps = target->traits.mma == MMA_WARP;
  *why = s->lhs != t->form         ? "lhs is fetched otherwise"
         : s->math != (int)t->kind ? "math is what the data types and --precision say"
         : s->stages * stage > target->tile_bytes ? "its stages do not fit in shared memory"
         : warps && (s->cluster > 1 || s->pingpong || s->warpgroups * TILE_ROWS != s->m)
             ? "without wgmma cluster is 1, pingpong false and warpgroups a 64th of m"
             : loop_mma_legal(t->kind, (LoopTileForm)t->form, &tile);
  return !*why;
}

// False: the operands' memory is not what the target's tensor cores take.
static bool gemm_mma_build(void *match, const void *fields, Lowered *out) {
  TileMatch *t = match;
  LoopTileSchedule s = tile_of(fields);
  LoopTileWarps w;
  const char *why;
  if (!epilogue_give(&t->finish, &t->e) || !emit_tile(t, &s)) return false;
  elem_finish(&t->e, out);
  return !out->kernel->nchecks && loop_kernel_tile(out->kernel, &why) &&
         (t->e.lo->target.traits.mma == MMA_WARPGROUP ||
          loop_tile_warps(loop_tile_of(out->kernel), &w, &why));
}

SCHEDULE_TABLE(GemmMma, GEMM_MMA_SCHEDULE);
const TemplateCode template_gemm_mma = {.match = gemm_mma_match,
                                        .choose = gemm_mma_choose,
                                        .legal = gemm_mma_legal,
                                        .build = gemm_mma_build,
                                        SCHEDULE(GemmMma)};
