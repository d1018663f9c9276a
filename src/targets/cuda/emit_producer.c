// emit_producer.c -- the producer thread of an MMA tile: fetches operands by TMA (emit_wgmma.c).
//
// Columns of constant weights are fetched for all stages as soon as the mbarriers exist; only then
// it waits for the previous kernel.  It lets the next kernel begin after its last fetch: earlier,
// the next one's blocks would gather on the multiprocessors that have none of this one's.
//
// Needs:      TMA descriptors in the CudaRecord; a ring of stages with full and empty mbarriers.
// Guarantees: a stage is written only after the consumers released it.  Nothing that the previous
//             kernel writes is fetched before it has ended.
#include "loop/tile.h"
#include "targets/cuda/emit.h"

const char *cs_tile_first(CEmit *e, const LoopTileOperand *o, Dim var) {
  e->sym[var->slot] = (CSym){.kind = CSYM_NUMBER};
  return cs_dim(e, o->row);
}

const char *cs_tile_place(CEmit *e, const LoopTileOperand *o, Dim var) {
  const char *row = cs_tile_first(e, o, var);
  return o->base ? str_printf(e->arena, "%s + %s", cs_dim(e, o->base), row) : row;
}

// Behind a number of columns or channels: where they begin.
static const char *from_first(CEmit *e, const LoopTileOperand *o) {
  return o->first ? str_printf(e->arena, " + (int)(%s)", cs_dim(e, o->first)) : "";
}

void cs_producer_open(CEmit *e, const LoopTile *t) {
  cs_open(e, "for (int tn_k = 0; tn_k < tn_blocks; tn_k++) {");
  cs_line(e, "const unsigned tn_at = tn_ring + tn_s * %du, tn_full = tn_bars + tn_s * 16u;",
          cs_tile_stage_bytes(t));
}

void cs_producer_acquire(CEmit *e) { cs_line(e, "tn_bar_wait(tn_full + 8, tn_parity);"); }

const char *cs_tile_columns_at(CEmit *e, const LoopTile *t) {
  if (cs_tile_resident_bytes(t))
    return str_printf(e->arena, "tn_ring + %du + tn_k * %du", t->s.stages * cs_tile_stage_bytes(t),
                      t->s.n * TILE_DEPTH_BYTES);
  return str_printf(e->arena, "tn_at + %du", t->s.m * TILE_DEPTH_BYTES);
}

// The number among all of this block of the depth.
static const char *block_number(const LoopTile *t) {
  return t->s.cluster > 1 ? "(tn_start + tn_k)" : "tn_k";
}

// Says what is going to arrive at a stage, and asks for its columns: of a window at tap tn_tap,
// from channel tn_c on.
static void fetch_columns_of_stage(CEmit *e, const LoopTile *t) {
  int rows = t->s.m * TILE_DEPTH_BYTES, both = rows + t->s.n * TILE_DEPTH_BYTES;
  const char *once = cs_tile_resident_bytes(t) ? "if (tn_t == blockIdx.x) " : "",
             *to = cs_tile_columns_at(e, t);
  if (cs_tile_resident_bytes(t))
    cs_line(e, "tn_bar_expect(tn_full, tn_t == blockIdx.x ? %d : %d);", both, rows);
  else
    cs_line(e, "tn_bar_expect(tn_full, %d);", both);
  if (t->a.form == TILE_WINDOW)
    cs_line(e, "%stn_fetch_3(%s, &tn_map_b, tn_c, tn_tap, tn_col, tn_full);", once, to);
  else
    cs_line(e, "%stn_fetch(%s, &tn_map_b, %s * %d%s, tn_col, tn_full);", once, to, block_number(t),
            loop_tile_block(t), from_first(e, &t->b));
}

static bool fetches_early(const CEmit *e, const LoopTile *t) {
  return t->a.form != TILE_VALUE && e->k->buffer[t->b.buffer].constant;
}

// The first round of the first tile's columns, then what the previous kernel writes is there.
void cs_producer_begin(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  int of_tap = (int)((t->a.window.channels + loop_tile_block(t) - 1) / loop_tile_block(t));
  if (fetches_early(e, t)) {
    cs_line(e, "int tn_asked = 0;");
    cs_open(e, "{");
    cs_line(e, "const long long tn_t = blockIdx.x%s;",
            t->s.cluster > 1 ? str_printf(e->arena, " / %d", t->s.cluster) : "");
    cs_tile_item(e, items, t);
    cs_line(e, "const int tn_col = (int)(%s);", cs_tile_place(e, &t->b, t->cols->sym));
    cs_open(e, "for (; tn_asked < tn_blocks && tn_asked < %d; tn_asked++) {", t->s.stages);
    cs_line(e, "const int tn_k = tn_asked;");
    cs_line(e, "const unsigned tn_at = tn_ring + tn_k * %du, tn_full = tn_bars + tn_k * 16u;",
            cs_tile_stage_bytes(t));
    if (t->a.form == TILE_WINDOW)
      cs_line(e, "const int tn_tap = %s / %d, tn_c = %s %% %d * %d;", block_number(t), of_tap,
              block_number(t), of_tap, loop_tile_block(t));
    fetch_columns_of_stage(e, t);
    cs_close(e);
    cs_close(e);
  }
  cs_line(e, "%s", CUDA_WAIT_PREVIOUS);
}

// The columns of a stage, unless they have been asked for.
static void fetch_columns(CEmit *e, const LoopTile *t) {
  if (!fetches_early(e, t)) {
    cs_producer_acquire(e);
    fetch_columns_of_stage(e, t);
    return;
  }
  cs_open(e, "if (tn_asked > 0) {");
  cs_line(e, "tn_asked--;");
  e->indent--;
  cs_open(e, "} else {");
  cs_producer_acquire(e);
  fetch_columns_of_stage(e, t);
  cs_close(e);
}

static void fetch_matrices(CEmit *e, const LoopTile *t) {
  cs_line(e, "const int tn_row = (int)(%s);", cs_tile_place(e, &t->a, t->rows->sym));
  cs_producer_open(e, t);
  fetch_columns(e, t);
  cs_line(e, "tn_fetch(tn_at, &tn_map_a, %s * %d%s, tn_row, tn_full);", block_number(t),
          loop_tile_block(t), from_first(e, &t->a));
  cs_tile_advance(e, t);
  cs_close(e);
}

static void fetch_windows(CEmit *e, const LoopTile *t) {
  const LoopWindow *w = &t->a.window;
  long long line = (long long)w->out[1], image = (long long)(w->out[0] * w->out[1]);
  cs_line(e, "const int tn_row = (int)(%s);", cs_tile_first(e, &t->a, t->rows->sym));
  cs_line(e, "const int tn_image = tn_row / %lld, tn_in = tn_row %% %lld;", image, image);
  cs_line(e, "const int tn_y = tn_in / %lld * %d - %d;", line, (int)w->stride[0], (int)w->lo[0]);
  cs_line(e, "const int tn_x = tn_in %% %lld * %d - %d;", line, (int)w->stride[1], (int)w->lo[1]);
  if (t->s.cluster > 1) {
    int64_t of_tap = (w->channels + loop_tile_block(t) - 1) / loop_tile_block(t);
    cs_line(e, "int tn_tap = tn_start / %d, tn_c = tn_start %% %d * %d;", (int)of_tap, (int)of_tap,
            loop_tile_block(t));
    cs_line(e, "int tn_dx = tn_tap %% %d * %d, tn_dy = tn_tap / %d * %d;", (int)w->taps[1],
            (int)w->dilation[1], (int)w->taps[1], (int)w->dilation[0]);
  } else {
    cs_line(e, "int tn_c = 0, tn_tap = 0, tn_dx = 0, tn_dy = 0;");
  }
  cs_producer_open(e, t);
  fetch_columns(e, t);
  cs_line(e,
          "tn_fetch_window(tn_at, &tn_map_a, tn_c%s, tn_x, tn_y, tn_image, tn_dx, tn_dy, tn_full);",
          from_first(e, &t->a));
  cs_open(e, "if ((tn_c += %d) >= %lld) {", loop_tile_block(t), (long long)w->channels);
  cs_line(e, "tn_c = 0, tn_tap++;");
  cs_line(e, "if ((tn_dx += %d) == %d) tn_dx = 0, tn_dy += %d;", (int)w->dilation[1],
          (int)(w->taps[1] * w->dilation[1]), (int)w->dilation[0]);
  cs_close(e);
  cs_tile_advance(e, t);
  cs_close(e);
}

void cs_producer_blocks(CEmit *e, const LoopTile *t) {
  if (t->a.form == TILE_WINDOW)
    fetch_windows(e, t);
  else
    fetch_matrices(e, t);
}
