// emit_mma_sync.c -- MMA tiles (loop/tile.h) as CUDA with mma.sync (sm_80 and later).
//
// All threads of a block copy and multiply.  A stage has 128 bytes of K of every row and column.  A
// thread copies 16 bytes at a time (cp.async), always the same piece of each eighth row.  One stage
// is multiplied while the others are in flight; one barrier per stage frees the one before it.
// Pieces of a row are swizzled by its number, so that ldmatrix has no bank conflicts.
//
// A warp has a part of the tile, in steps of 16 x 8 sums and 32 bytes of K.  The operands of the
// next step are loaded while this one is multiplied.
//
// Needs:      a tile that loop_tile_check accepts, with matrix or window operands; tile_bytes of
//             shared memory, else cs_fail.  emit_wgmma.c has sm_90a.
// Guarantees: rows beyond the last and taps outside the image are 0.  The order of a sum is the
//             same for every tile size.  The CudaRecord says how the kernel is launched.
#include "loop/tile.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

enum { WARP = 32, PIECE = 16, PIECES = TILE_DEPTH_BYTES / PIECE, STEPS = 4, STEP_BYTES = 32 };

typedef struct Mma {
  CEmit *e;
  const LoopTile *t;
  LoopTileWarps w;
  int lines;  // rows that all threads copy at once
  int bytes;  // of an element
} Mma;

// ---- what such kernels call ----

// clang-format off
static const char mma_top[] =
    "TN_FN void tn_copy(unsigned to, const char *from, bool there) {\n"
    "  asm volatile(\"{ .reg .u64 g; cvta.to.global.u64 g, %1; cp.async.cg.shared.global.L2::128B [%0], [g], 16, %2; }\"\n"
    "               :: \"r\"(to), \"l\"(from), \"r\"(there ? 16 : 0) : \"memory\");\n}\n"
    "TN_FN void tn_get_four(unsigned at, unsigned *x) {\n"
    "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\"\n"
    "               : \"=r\"(x[0]), \"=r\"(x[1]), \"=r\"(x[2]), \"=r\"(x[3]) : \"r\"(at) : \"memory\");\n}\n"
    "TN_FN void tn_round_four(unsigned *x) {\n"
    "  #pragma unroll\n"
    "  for (int i = 0; i < 4; i++) asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(x[i]) : \"f\"(__uint_as_float(x[i])));\n}\n";
// clang-format on

void cs_mma_top(const LoopTile *t, StrBuf *out) {
  bool integers = loop_mma[t->kind].sum == DT_I32;
  const char *sum = integers ? "s32" : "f32";
  char in = integers ? 'r' : 'f';
  strbuf_puts(out, cs_tile_address);
  strbuf_puts(out, mma_top);
  strbuf_printf(out,
                "TN_FN void tn_multiply(%s *d, const unsigned *a, const unsigned *b) {\n"
                "  asm(\"mma.sync.aligned.m16n8k%d.row.col.%s.%s.%s.%s \"\n"
                "      \"{%%0, %%1, %%2, %%3}, {%%4, %%5, %%6, %%7}, {%%8, %%9}, "
                "{%%0, %%1, %%2, %%3};\"\n"
                "      : \"+%c\"(d[0]), \"+%c\"(d[1]), \"+%c\"(d[2]), \"+%c\"(d[3])\n"
                "      : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), "
                "\"r\"(b[1]));\n}\n",
                cs_tile_sum(t), STEP_BYTES / (int)cs_bytes(t->a.dtype), sum,
                loop_mma_type(t->kind, t->a.dtype), loop_mma_type(t->kind, t->b.dtype), sum, in, in,
                in, in);
  strbuf_puts(out, cs_tile_ending);
}

int cs_mma_resident_blocks(const LoopTile *t) {
  LoopTileWarps w;
  const char *why;
  return loop_tile_warps(t, &w, &why) ? w.resident_blocks : 1;
}

// ---- what is copied ----

static bool is_window(const Mma *m) { return m->t->a.form == TILE_WINDOW; }
static int stage_bytes(const Mma *m) { return (m->t->s.m + m->t->s.n) * TILE_DEPTH_BYTES; }

// Whether the depth, or of a window a tap's channels, is whole blocks.
static bool whole_blocks(const Mma *m) {
  const LoopTile *t = m->t;
  if (is_window(m)) return t->a.window.channels % loop_tile_block(t) == 0;
  return ie_is_const(t->depth) && t->depth->value % loop_tile_block(t) == 0;
}

// The thread's first row of an operand, and its piece of it.
static void put_rows(Mma *m, const LoopTileOperand *o, Dim var, const char *row, const char *at) {
  CEmit *e = m->e;
  e->buffer_used[o->buffer] = true;
  cs_line(e, "int %s = (int)(%s) + tn_line;", row, cs_tile_first(e, o, var));
  if (o->form == TILE_WINDOW) return;
  const char *base = o->base ? str_printf(e->arena, "(%s + %s)", cs_dim(e, o->base), row) : row;
  const char *first = o->first ? str_printf(e->arena, "%s + ", cs_dim(e, o->first)) : "";
  cs_line(e, "const char *%s = (const char *)%s + ((long long)%s * (%s) + %stn_piece * %d) * %d;",
          at, e->buffer[o->buffer], base, cs_dim(e, o->stride), first, PIECE / m->bytes, m->bytes);
}

// Of each of a thread's pixels its first tap.  One beyond the last row lies outside of every image.
static void put_pixels(Mma *m) {
  CEmit *e = m->e;
  const LoopWindow *w = &m->t->a.window;
  int count = m->t->s.m / m->lines;
  long long line = (long long)w->out[1], image = (long long)(w->out[0] * w->out[1]);
  cs_line(e, "%s tn_pixel[%d];", e->index, count);
  cs_line(e, "int tn_y[%d], tn_x[%d];", count, count);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int i = 0; i < %d; i++) {", count);
  cs_line(e, "const int tn_r = tn_row + i * %d, tn_image = tn_r / %lld, tn_in = tn_r %% %lld;",
          m->lines, image, image);
  cs_line(e, "tn_y[i] = tn_in / %lld * %d - %d;", line, (int)w->stride[0], (int)w->lo[0]);
  cs_line(e, "tn_x[i] = tn_in %% %lld * %d - %d;", line, (int)w->stride[1], (int)w->lo[1]);
  const Dim at = m->t->a.first;
  cs_line(e,
          "tn_pixel[i] = ((%s)tn_image * %lld + tn_y[i]) * %lld + tn_x[i] * %lld + tn_piece * "
          "%d%s%s;",
          e->index, (long long)w->in[0], (long long)w->line, (long long)w->pixel, PIECE / m->bytes,
          at ? " + " : "", at ? cs_dim(e, at) : "");
  cs_line(e, "if (tn_r >= %s) tn_y[i] = -(1 << 30);", cs_dim(e, m->t->a.rows));
  cs_close(e);
  cs_line(e, "int tn_c = 0, tn_tap = 0, tn_dx = 0, tn_dy = 0;");
}

static const char *both(Mma *m, const char *x, const char *y) {
  return !*x ? y : !*y ? x : str_printf(m->e->arena, "%s && %s", x, y);
}

// All rows of an operand from the stage's byte `to` on.
static void copy_rows(Mma *m, const LoopTileOperand *o, int count, int tile, const char *row,
                      const char *at, int to) {
  CEmit *e = m->e;
  bool inside = ie_is_const(o->rows) && o->rows->value % tile == 0;
  const char *in =
      inside ? "" : str_printf(e->arena, "%s + i * %d < %s", row, m->lines, cs_dim(e, o->rows));
  const char *there = both(m, in, whole_blocks(m) ? "" : "tn_whole");
  if (!inside)
    cs_line(
        e,
        "asm volatile(\"\" : \"+r\"(%s)); /* asked anew each time: answers would fill registers */",
        row);
  cs_line(e, "#pragma unroll");
  cs_line(e,
          "for (int i = 0; i < %d; i++) tn_copy(tn_to + %du + i * %du, %s + (long long)i * %d * "
          "(%s) * %d, %s);",
          count, to, m->lines * TILE_DEPTH_BYTES, at, m->lines, cs_dim(e, o->stride), m->bytes,
          *there ? there : "true");
}

static void copy_matrix(Mma *m) {
  CEmit *e = m->e;
  const LoopTile *t = m->t;
  int step = PIECE / m->bytes;
  if (!whole_blocks(m))
    cs_line(e, "const bool tn_whole = tn_next * %d + tn_piece * %d < %s;", loop_tile_block(t), step,
            cs_dim(e, t->depth));
  copy_rows(m, &t->a, t->s.m / m->lines, t->s.m, "tn_row", "tn_a", 0);
  copy_rows(m, &t->b, t->s.n / m->lines, t->s.n, "tn_col", "tn_b", t->s.m * TILE_DEPTH_BYTES);
  cs_line(e, "tn_a += %d, tn_b += %d;", TILE_DEPTH_BYTES, TILE_DEPTH_BYTES);
}

static void copy_window(Mma *m) {
  CEmit *e = m->e;
  const LoopTile *t = m->t;
  const LoopWindow *w = &t->a.window;
  const char *whole = whole_blocks(m) ? "" : " && tn_whole";
  if (*whole)
    cs_line(e, "const bool tn_whole = tn_c + tn_piece * %d < %lld;", PIECE / m->bytes,
            (long long)w->channels);
  cs_line(e, "const %s tn_shift = (%s)tn_dy * %lld + tn_dx * %lld + tn_c;", e->index, e->index,
          (long long)w->line, (long long)w->pixel);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int i = 0; i < %d; i++)", t->s.m / m->lines);
  cs_line(e,
          "  tn_copy(tn_to + i * %du, (const char *)(%s + (tn_pixel[i] + tn_shift)), "
          "(unsigned)(tn_y[i] + tn_dy) < %lldu && (unsigned)(tn_x[i] + tn_dx) < %lldu%s);",
          m->lines * TILE_DEPTH_BYTES, e->buffer[t->a.buffer], (long long)w->in[0],
          (long long)w->in[1], whole);
  cs_line(e, "const char *const tn_taps = tn_b + ((long long)tn_tap * %lld + tn_c) * %d;",
          (long long)w->channels, m->bytes);
  copy_rows(m, &t->b, t->s.n / m->lines, t->s.n, "tn_col", "tn_taps", t->s.m * TILE_DEPTH_BYTES);
  cs_open(e, "if ((tn_c += %d) >= %lld) {", loop_tile_block(t), (long long)w->channels);
  cs_line(e, "tn_c = 0, tn_tap++;");
  cs_line(e, "if ((tn_dx += %d) == %d) tn_dx = 0, tn_dy += %d;", (int)w->dilation[1],
          (int)(w->taps[1] * w->dilation[1]), (int)w->dilation[0]);
  cs_close(e);
}

// Asks for the next block, where there is one.
static void copy_block(Mma *m) {
  CEmit *e = m->e;
  cs_open(e, "if (tn_next < tn_blocks) {");
  cs_line(e, "const unsigned tn_to = tn_copies + tn_put * %du;", stage_bytes(m));
  if (is_window(m))
    copy_window(m);
  else
    copy_matrix(m);
  cs_close(e);
  cs_line(e, "tn_next++;");
  cs_line(e, "if (++tn_put == %d) tn_put = 0;", m->t->s.stages);
  cs_line(e, "asm volatile(\"cp.async.commit_group;\" ::: \"memory\");");
}

// The oldest block in flight is there, and all threads are done with the one before it.
static void wait_block(Mma *m) {
  cs_line(m->e, "asm volatile(\"cp.async.wait_group %d;\" ::: \"memory\");", m->t->s.stages - 2);
  cs_line(m->e, "__syncthreads();");
}

// ---- what is multiplied ----

// Operands of a step of the stage tn_get.
static void get_operands(Mma *m, const char *into, const char *step) {
  CEmit *e = m->e;
  cs_line(e, "#pragma unroll");
  cs_line(e,
          "for (int i = 0; i < %d; i++) tn_get_four(tn_ring + tn_get * %du + ((tn_rows_at + i * "
          "%du) ^ ((%s) * 32u)), tn_x_of[%s][i]);",
          m->w.rows / 16, stage_bytes(m), 16 * TILE_DEPTH_BYTES, step, into);
  cs_line(e, "#pragma unroll");
  cs_line(e,
          "for (int i = 0; i < %d; i++) tn_get_four(tn_ring + tn_get * %du + ((tn_cols_at + i * "
          "%du) ^ ((%s) * 32u)), tn_y_of[%s][i]);",
          m->w.cols / 16, stage_bytes(m), 16 * TILE_DEPTH_BYTES, step, into);
}

static void multiply(Mma *m) {
  CEmit *e = m->e;
  int down = m->w.rows / 16, across = m->w.cols / 16;
  if (m->t->kind == MMA_TF32) {
    cs_line(e, "#pragma unroll");
    cs_line(e, "for (int i = 0; i < %d; i++) tn_round_four(tn_x_of[q & 1][i]);", down);
    cs_line(e, "#pragma unroll");
    cs_line(e, "for (int i = 0; i < %d; i++) tn_round_four(tn_y_of[q & 1][i]);", across);
  }
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int i = 0; i < %d; i++)", down);
  cs_line(e, "  #pragma unroll");
  cs_line(e,
          "  for (int j = 0; j < %d; j++) tn_multiply(tn_sum[i] + j * 4, tn_x_of[q & 1][i], "
          "tn_y_of[q & 1][j / 2] + j %% 2 * 2);",
          2 * across);
}

static void emit_products(Mma *m) {
  CEmit *e = m->e;
  int down = m->w.rows / 16, regs = m->w.cols / 2;
  cs_line(e, "unsigned tn_x_of[2][%d][4], tn_y_of[2][%d][4];", down, m->w.cols / 16);
  cs_line(e, "%s tn_sum[%d][%d];", cs_tile_sum(m->t), down, regs);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_sum[q / %d][q %% %d] = %s;", down * regs, regs, regs,
          loop_mma[m->t->kind].sum == DT_I32 ? "0" : "0.0f");
  cs_line(e, "int tn_next = 0, tn_put = 0, tn_get = 0;");
  cs_line(e, "#pragma unroll 1");
  cs_open(e, "for (int s = 0; s < %d; s++) {", m->t->s.stages - 1);
  copy_block(m);
  cs_close(e);
  wait_block(m);
  get_operands(m, "0", "0");
  cs_line(e, "#pragma unroll 1");
  cs_open(e, "for (int tn_k = 0; tn_k < tn_blocks; tn_k++) {");
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int q = 0; q < %d; q++) {", STEPS);
  cs_open(e, "if (q == %d) {", STEPS - 1);
  wait_block(m);
  cs_line(e, "if (++tn_get == %d) tn_get = 0;", m->t->s.stages);
  cs_close(e);
  get_operands(m, "(q + 1) & 1", str_printf(e->arena, "(q + 1) %% %d", STEPS));
  cs_open(e, "if (q == 0) {");
  copy_block(m);
  cs_close(e);
  multiply(m);
  cs_close(e);
  cs_close(e);
}

// ---- the kernel ----

static void put_record(Mma *m) {
  CudaRecord *r = cs_cuda(m->e)->cores.record;
  *r = (CudaRecord){.threads = m->w.threads, .shared_bytes = m->w.bytes, .cluster = 1};
  if (r->shared_bytes > cs_cuda(m->e)->cores.tile_bytes)
    cs_refuse(m->e, "a tile needs %d bytes", r->shared_bytes);
}

static void put_blocks(Mma *m) {
  const LoopTile *t = m->t;
  const LoopWindow *w = &t->a.window;
  if (is_window(m))
    cs_line(m->e, "const int tn_blocks = %lld;",
            (long long)(w->taps[0] * w->taps[1] *
                        ((w->channels + loop_tile_block(t) - 1) / loop_tile_block(t))));
  else
    cs_line(m->e, "const int tn_blocks = (int)((%s + %d) / %d);", cs_dim(m->e, t->depth),
            loop_tile_block(t) - 1, loop_tile_block(t));
}

// Where a thread's operands lie in a stage, and where it copies to.
static void put_places(Mma *m) {
  CEmit *e = m->e;
  cs_line(e, "extern __shared__ unsigned char tn_raw[];");
  cs_line(e, "const unsigned tn_ring = (tn_shared_at(tn_raw) + %du) & ~%du;", TILE_DEPTH_BYTES - 1,
          TILE_DEPTH_BYTES - 1);
  cs_line(e, "const int tn_lane = threadIdx.x %% %d, tn_warp = threadIdx.x / %d;", WARP, WARP);
  cs_line(e, "const int tn_down = tn_warp / %d, tn_across = tn_warp %% %d;", m->w.across,
          m->w.across);
  cs_line(e,
          "const unsigned tn_rows_at = (tn_down * %du + (tn_lane & 15)) * %du + (((tn_lane >> 4) ^ "
          "(tn_lane & 7)) << 4);",
          m->w.rows, TILE_DEPTH_BYTES);
  cs_line(e,
          "const unsigned tn_cols_at = (%du + tn_across * %du + (tn_lane & 7) + (tn_lane >> 4) * "
          "8) * %du + (((tn_lane >> 3 & 1) ^ (tn_lane & 7)) << 4);",
          m->t->s.m, m->w.cols, TILE_DEPTH_BYTES);
  cs_line(e, "const int tn_piece = threadIdx.x %% %d, tn_line = threadIdx.x / %d;", PIECES, PIECES);
  cs_line(e,
          "const unsigned tn_copies = tn_ring + tn_line * %du + ((tn_piece ^ (tn_line & 7)) << 4);",
          TILE_DEPTH_BYTES);
}

static void emit_sums(Mma *m) {
  EpiloguePlace place = {.blocks = m->w.rows / 16,
                         .cols = m->w.cols,
                         .row = str_printf(m->e->arena, "tn_down * %d + tn_b * 16", m->w.rows),
                         .column =
                             str_printf(m->e->arena, "(tn_across * %d + tn_p * 16)", m->w.cols)};
  cs_epilogue_at(m->e, m->t, &place, NULL);
}

void cs_mma(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  Mma m = {.e = e, .t = t, .bytes = (int)cs_bytes(t->a.dtype)};
  const char *why;
  if (!loop_tile_warps(t, &m.w, &why)) {
    cs_refuse(e, "%s", why);
    return;
  }
  m.lines = m.w.threads / PIECES;
  put_record(&m);
  put_places(&m);
  put_blocks(&m);
  if (e->c->dependent_launch) {
    cs_line(e, "%s", CUDA_LAUNCH_DEPENDENTS);
    cs_line(e, "%s", CUDA_WAIT_PREVIOUS);
  }
  cs_tile_items(e, items, t);
  put_rows(&m, &t->a, t->rows->sym, "tn_row", "tn_a");
  put_rows(&m, &t->b, t->cols->sym, "tn_col", "tn_b");
  if (is_window(&m)) put_pixels(&m);
  emit_products(&m);
  emit_sums(&m);
  cs_line(e, "__syncthreads();");
  cs_close(e);
}
