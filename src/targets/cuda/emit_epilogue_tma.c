// emit_epilogue_tma.c -- epilogue operands and results of an MMA tile by TMA.
//
// Both are matrices with the layout of the result.  An epilogue operand is fetched into stages of
// the ring behind those of the main loop, so it is there when the products are formed.  Results of
// large tiles go through buffers of their warpgroup, from which TMA stores them.
//
// Both are boxes of 64 rows and 128 bytes, or 64 bytes where a tile's columns are no multiple of
// that.  A stage has the boxes of the first columns one below the other, then those of the next.
//
// Needs:      a result with constant columns in lines of whole 16 bytes; room in shared memory
//             behind the ring.  A TMA store needs an epilogue with one store, its last statement.
//             Where lines are not whole 16 bytes, warps store a box line by line, so that lanes
//             write neighbours: then the epilogue reads nothing that differs by column.
// Guarantees: TMA reads 0 and stores nothing outside the matrix.  Where a condition does not hold,
//             threads load or store instead (emit_epilogue.c).
#include "loop/tile.h"
#include "runtime/cuda/api.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

enum { WARPGROUP = 128, BOX_BYTES = 128, STORED_SUMS = 64, LEAST_BUFFERS = 2, MOST_BUFFERS = 4 };

// ---- what it takes ----

static int map_type(DType t) {
  return t == DT_BF16  ? CUDA_MAP_BF16
         : t == DT_F16 ? CUDA_MAP_F16
         : t == DT_F32 ? CUDA_MAP_F32
                       : -1;
}

// Whether this is the element of a matrix with the layout of the result, in lines of whole 16
// bytes.
static bool has_layout(const CEmit *e, const LoopTile *t, int32_t buffer, Dim index, int n,
                       const LoopBound *guard) {
  const LoopBuffer *b = &e->k->buffer[buffer];
  IntPool *p = e->k->pool;
  Dim row = NULL, col = NULL;
  CudaNumber rows;
  if (b->space != LOOP_ARG || map_type(b->dtype) < 0 || !ie_is_const(t->b.rows)) return false;
  for (int i = 0; i < n; i++) {
    if (guard[i].value == t->a.row && guard[i].extent == t->a.rows)
      row = guard[i].sym;
    else if (guard[i].value == t->b.row && guard[i].extent == t->b.rows)
      col = guard[i].sym;
    else
      return false;
  }
  return row && col && cs_number(e, t->a.rows, 1, &rows) &&
         index == ie_add(p, col, ie_mulc(p, row, t->b.rows->value));
}

static bool in_lines(const CEmit *e, const LoopTile *t, int32_t buffer) {
  return t->b.rows->value * cs_bytes(e->k->buffer[buffer].dtype) % 16 == 0;
}

static bool is_like_result(const CEmit *e, const LoopTile *t, int32_t buffer, Dim index, int n,
                           const LoopBound *guard) {
  return has_layout(e, t, buffer, index, n, guard) && in_lines(e, t, buffer);
}

static const LoopExpr *find_load(const CEmit *e, const LoopTile *t, const LoopExpr *x) {
  if (!x) return NULL;
  if (x->kind == LX_LOAD && is_like_result(e, t, x->buffer, x->index, x->nguards, x->guard))
    return x;
  const LoopExpr *found = NULL;
  for (int i = 0; i < 3 && !found; i++) found = find_load(e, t, x->src[i]);
  return found;
}

static TmaBoxes boxes_of(const CEmit *e, const LoopTile *t, int32_t buffer) {
  int bytes = (int)cs_bytes(e->k->buffer[buffer].dtype), cols = BOX_BYTES / bytes;
  if (t->s.n % cols) cols /= 2;
  TmaBoxes b = {.buffer = buffer, .cols = cols, .bytes = TILE_ROWS * cols * bytes};
  int across = t->s.n / cols;
  b.of_stage = cs_tile_stage_bytes(t) / (t->s.m / TILE_ROWS * b.bytes);
  b.stages = (across + b.of_stage - 1) / b.of_stage;
  return b;
}

// Sums of a thread, from which on it pays that others store them.
static bool is_large(const LoopTile *t) {
  int rows = MAX(t->s.m / t->s.warpgroups, TILE_ROWS);
  return cs_tile_split_k(t) == 1 && rows / TILE_ROWS * t->s.n / 2 >= STORED_SUMS;
}

static const LoopStmt *only_store(const LoopTile *t) {
  LoopBlock body = loop_tile_epilogue(t);
  const LoopStmt *last = body.n > 0 ? body.v[body.n - 1] : NULL;
  for (int64_t i = 0; i < body.n - 1; i++)
    if (body.v[i]->kind != LS_LET) return NULL;
  return last && last->kind == LS_STORE ? last : NULL;
}

void cs_epilogue_tma_find(CEmit *e, const LoopTile *t, int room, EpilogueTma *a) {
  const LoopStmt *s = only_store(t);
  *a = (EpilogueTma){0};
  if (t->a.form == TILE_VALUE || t->kind == MMA_F32 || !s) return;
  LoopBlock epilogue = loop_tile_epilogue(t);
  for (int64_t i = 0; i < epilogue.n && !a->load; i++)
    a->load = find_load(e, t, epilogue.v[i]->value);
  if (a->load && e->k->buffer[a->load->buffer].written) a->load = NULL;
  if (a->load) a->in = boxes_of(e, t, a->load->buffer);
  if (a->in.stages >= t->s.stages) a->load = NULL;  // the last products hold one, too
  a->stages = a->load ? a->in.stages : 0;
  if (!is_large(t) || !has_layout(e, t, s->buffer, s->index, s->nguards, s->guard)) return;
  a->by_warps = !in_lines(e, t, s->buffer);
  if (a->by_warps && (a->load || cs_epilogue_reads_columns(e, t))) return;
  a->out = boxes_of(e, t, s->buffer);
  a->buffers = MIN(room / (cs_tile_consumers(t) * a->out.bytes), MOST_BUFFERS);
  if (a->buffers >= LEAST_BUFFERS) a->store = s;
}

int cs_epilogue_tma_bytes(const EpilogueTma *a, const LoopTile *t) {
  return a->store ? cs_tile_consumers(t) * a->buffers * a->out.bytes : 0;
}

static void put_map(CEmit *e, const LoopTile *t, const TmaBoxes *b) {
  DType type = e->k->buffer[b->buffer].dtype;
  CudaRecord *r = cs_cuda(e)->cores.record;
  CudaMap *m = &r->map[r->nmaps++];
  *m = (CudaMap){.arg = b->buffer,
                 .type = map_type(type),
                 .rank = 2,
                 .dim = {cuda_number(t->b.rows->value)},
                 .stride = {cuda_number(t->b.rows->value * cs_bytes(type))},
                 .box = {(uint32_t)b->cols, TILE_ROWS}};
  if (!cs_number(e, t->a.rows, 1, &m->dim[1]))
    cs_refuse(e, "a tile's result has no number of rows");
  e->buffer_used[b->buffer] = true;
}

void cs_epilogue_tma_maps(CEmit *e, const LoopTile *t) {
  if (cs_cuda(e)->epilogue_tma->load) put_map(e, t, &cs_cuda(e)->epilogue_tma->in);
  if (cs_cuda(e)->epilogue_tma->store && !cs_cuda(e)->epilogue_tma->by_warps)
    put_map(e, t, &cs_cuda(e)->epilogue_tma->out);
}

// ---- the producer ----

void cs_epilogue_tma_load(CEmit *e, const LoopTile *t) {
  const EpilogueTma *a = cs_cuda(e)->epilogue_tma;
  const TmaBoxes *b = &a->in;
  int below = t->s.m / TILE_ROWS;
  if (!a->load) return;
  if (t->s.cluster > 1) cs_open(e, "if (tn_rank == 0) {");
  cs_open(e, "for (int tn_c = 0; tn_c < %d; tn_c += %d) {", t->s.n / b->cols, b->of_stage);
  cs_line(e, "const unsigned tn_at = tn_ring + tn_s * %du, tn_full = tn_bars + tn_s * 16u;",
          cs_tile_stage_bytes(t));
  cs_line(e, "const int tn_left = %d - tn_c, tn_boxes = tn_left < %d ? tn_left : %d;",
          t->s.n / b->cols, b->of_stage, b->of_stage);
  cs_line(e, "tn_bar_wait(tn_full + 8, tn_parity);");
  cs_line(e, "tn_bar_expect(tn_full, tn_boxes * %d);", below * b->bytes);
  cs_line(e, "for (int tn_b = 0; tn_b < tn_boxes * %d; tn_b++)", below);
  cs_line(e,
          "  tn_fetch(tn_at + tn_b * %du, &tn_map_c, tn_col + (tn_c + tn_b / %d) * %d, tn_row + "
          "tn_b %% %d * %d, tn_full);",
          b->bytes, below, b->cols, below, TILE_ROWS);
  cs_tile_advance(e, t);
  cs_close(e);
  if (t->s.cluster > 1) cs_close(e);
}

// ---- the consumers ----

// Where warpgroups split the depth or ping-pong, one that waits must come after all have seen their
// blocks: a stage of another's may not have had its first round yet.
void cs_epilogue_tma_wait(CEmit *e, const LoopTile *t, bool by_number) {
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int q = 0; q < %d; q++) {", cs_cuda(e)->epilogue_tma->stages);
  if (by_number) {
    cs_line(e, "const unsigned tn_number = tn_done + tn_blocks + q;");
    cs_line(e, "const unsigned tn_s = tn_number %% %du, tn_parity = tn_number / %du & 1u;",
            t->s.stages, t->s.stages);
  }
  cs_line(e, "tn_bar_wait(tn_bars + tn_s * 16u, tn_parity);");
  cs_line(e, "tn_side[q] = tn_ring + tn_s * %du;", cs_tile_stage_bytes(t));
  if (!by_number) cs_tile_advance(e, t);
  cs_close(e);
}

void cs_epilogue_tma_release(CEmit *e, const LoopTile *t) {
  if (!cs_cuda(e)->epilogue_tma->stages) return;
  cs_line(e, "__syncwarp();");
  cs_line(e, "if (tn_lane == 0)");
  cs_line(e, "  for (int q = 0; q < %d; q++)", cs_cuda(e)->epilogue_tma->stages);
  cs_line(e, "    tn_bar_arrive(tn_bars + (tn_side[q] - tn_ring) / %du * 16u + 8);",
          cs_tile_stage_bytes(t));
}

static int element_bytes(const TmaBoxes *b) { return b->bytes / (TILE_ROWS * b->cols); }

static const char *place_in(CEmit *e, const TmaBoxes *b, const char *box) {
  int bytes = element_bytes(b);
  return str_printf(
      e->arena, "tn_in_box(%s, %d, tn_warp * 16 + tn_h * 8 + (tn_lane >> 2), tn_first %% %d * %d)",
      box, b->cols * bytes, b->cols, bytes);
}

// Which of the boxes below one another is this thread's.
static const char *block_of(const LoopTile *t) {
  return t->s.pingpong ? "tn_b" : t->s.warpgroups > 1 && cs_tile_split_k(t) == 1 ? "tn_who" : "0";
}

const char *cs_epilogue_tma_place(CEmit *e) {
  const LoopTile *t = e->tile;
  const TmaBoxes *b = &cs_cuda(e)->epilogue_tma->in;
  const char *across = str_printf(e->arena, "%s / %d", cs_cuda(e)->vector->column, b->cols);
  const char *box =
      str_printf(e->arena, "tn_side[%s / %d] + (%s %% %d * %d + %s) * %du", across, b->of_stage,
                 across, b->of_stage, t->s.m / TILE_ROWS, block_of(t), b->bytes);
  return place_in(e, b, box);
}

const char *cs_epilogue_tma_out(CEmit *e) {
  return place_in(e, &cs_cuda(e)->epilogue_tma->out, "tn_box");
}

// ---- results ----

static void all_meet(CEmit *e) {
  cs_line(e, "asm volatile(\"bar.sync %%0, %d;\" :: \"r\"(4 + tn_who) : \"memory\");", WARPGROUP);
}

void cs_epilogue_tma_place_out(CEmit *e, const LoopTile *t) {
  const EpilogueTma *a = cs_cuda(e)->epilogue_tma;
  if (a->store)
    cs_line(e, "const unsigned tn_out = tn_ring + %du + tn_who * %du;", cs_tile_ring_bytes(t),
            a->buffers * a->out.bytes);
}

// A buffer is free when TMA has read all but the last ones; boxes are counted from a
// tile's first.
// Warps that store a box themselves have it to themselves: the rows that they wrote.
void cs_epilogue_tma_begin_box(CEmit *e, const LoopTile *t) {
  const EpilogueTma *a = cs_cuda(e)->epilogue_tma;
  if (a->by_warps) {
    cs_line(e, "const unsigned tn_box = tn_out;");
    cs_line(e, "__syncwarp();");
    return;
  }
  int below = MAX(t->s.m / (t->s.warpgroups * TILE_ROWS), 1);
  bool even = t->s.n / a->out.cols * below % a->buffers == 0;
  cs_line(e, "const unsigned tn_box = tn_out + (tn_c * %d + tn_b) %% %d * %du;", below, a->buffers,
          a->out.bytes);
  cs_open(e, "if (threadIdx.x %% %d == 0) {", WARPGROUP);
  if (!even) {
    cs_line(e, "if (tn_c + tn_b == 0)");
    cs_line(e, "  asm volatile(\"cp.async.bulk.wait_group.read 0;\" ::: \"memory\");");
    cs_line(e, "else");
  }
  cs_line(e, "asm volatile(\"cp.async.bulk.wait_group.read %d;\" ::: \"memory\");", a->buffers - 1);
  cs_close(e);
  all_meet(e);
}

// A lane has the columns that lie 32 apart, so that a warp's are contiguous.
static void store_by_warps(CEmit *e, const LoopTile *t) {
  const EpilogueTma *a = cs_cuda(e)->epilogue_tma;
  const TmaBoxes *b = &a->out;
  int bytes = element_bytes(b);
  const char *type = bytes == 4 ? "unsigned" : "unsigned short";
  e->buffer_used[b->buffer] = true;
  e->sym[t->rows->sym->slot] = e->sym[t->cols->sym->slot] = (CSym){.kind = CSYM_NUMBER};
  const char *rows = cs_dim(e, t->a.rows), *cols = cs_dim(e, t->b.rows);
  cs_line(e, "__syncwarp();");
  cs_line(e, "const long long tn_line = (%s) + %s * %d + tn_warp * 16;", cs_dim(e, t->a.row),
          block_of(t), TILE_ROWS);
  cs_line(e, "const long long tn_at = (%s) + tn_c * %d + tn_lane;", cs_dim(e, t->b.row), b->cols);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < 16; q++)");
  cs_line(e, "  #pragma unroll");
  cs_line(e, "  for (int v = 0; v < %d; v++)", b->cols / 32);
  cs_line(e, "    if (tn_line + q < %s && tn_at + v * 32 < %s)", rows, cols);
  cs_line(e, "      ((%s *)%s)[(tn_line + q) * (%s) + tn_at + v * 32] = ", type,
          e->buffer[b->buffer], cols);
  cs_line(e,
          "          tn_get_%d(tn_in_box(tn_box, %d, tn_warp * 16 + q, (tn_lane + v * 32) * %d));",
          8 * bytes, b->cols * bytes, bytes);
}

void cs_epilogue_tma_end_box(CEmit *e, const LoopTile *t) {
  if (cs_cuda(e)->epilogue_tma->by_warps) {
    store_by_warps(e, t);
    return;
  }
  cs_line(e, "asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");");
  all_meet(e);
  cs_open(e, "if (threadIdx.x %% %d == 0) {", WARPGROUP);
  e->sym[t->rows->sym->slot] = e->sym[t->cols->sym->slot] = (CSym){.kind = CSYM_NUMBER};
  cs_line(e, "tn_tma_store(&tn_map_d, tn_box, (int)(%s) + tn_c * %d, (int)(%s) + %s * %d);",
          cs_dim(e, t->b.row), cs_cuda(e)->epilogue_tma->out.cols, cs_dim(e, t->a.row), block_of(t),
          TILE_ROWS);
  cs_line(e, "asm volatile(\"cp.async.bulk.commit_group;\" ::: \"memory\");");
  cs_close(e);
}

// Shared memory is there until TMA has read all of it.
void cs_epilogue_tma_end(CEmit *e) {
  if (!cs_cuda(e)->epilogue_tma->store || cs_cuda(e)->epilogue_tma->by_warps) return;
  cs_line(e, "if (threadIdx.x %% %d == 0)", WARPGROUP);
  cs_line(e, "  asm volatile(\"cp.async.bulk.wait_group.read 0;\" ::: \"memory\");");
}
