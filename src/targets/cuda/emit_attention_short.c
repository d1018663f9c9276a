// emit_attention_short.c -- attention tiles over up to 256 keys, as CUDA with wgmma (sm_90a).
//
// All keys and values of a head are in one stage of shared memory, and all scores of a query in
// registers.  So there is no loop over keys, and nothing is rescaled.  A thread block is one
// warpgroup.  One thread fetches queries, keys and values by TMA, each with its own mbarrier, so
// scores are formed before the values arrive.  Where there are enough heads, a block takes several
// tiles of queries and fetches the keys once.
//
// Needs:      operands that are TMA boxes (loop/tile.h), else cs_fail; one stage holds all keys.
// Guarantees: keys beyond the last arrive as zeros and are masked.  Launch bounds leave registers
//             for as many resident blocks as cs_attention_resident_blocks says.
#include "loop/tile.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

enum { THREADS = 128, ROW_BYTES = 128, BARRIER_BYTES = 32 };

// ---- sizes ----

static int keys_of(const LoopTile *t) { return loop_tile_short_keys(t); }
static int tiles_of(const LoopTile *t) { return t->s.m / TILE_ROWS; }
static int query_bytes(const LoopTile *t) { return TILE_ROWS * (int)t->attention.size * 2; }
static int key_bytes(const LoopTile *t) { return keys_of(t) * (int)t->attention.size * 2; }
static int value_bytes(const LoopTile *t) { return keys_of(t) * t->s.n * 2; }

// As many as registers for the scores leave room for; blocks of one tile are few, and have what
// they want.
int cs_attention_resident_blocks(const LoopTile *t) {
  int sums = keys_of(t) / 2 + t->s.n / 2;
  if (tiles_of(t) == 1) return 1;
  return sums <= 96 ? 4 : sums <= 136 ? 3 : 2;
}

static void put_record(CEmit *e, const LoopTile *t) {
  *cs_cuda(e)->cores.record = (CudaRecord){.threads = THREADS,
                                           .shared_bytes = 1024 + query_bytes(t) + key_bytes(t) +
                                                           value_bytes(t) + BARRIER_BYTES,
                                           .cluster = 1,
                                           .early = true};
  if (!cs_attention_maps(e, t, TILE_ROWS, keys_of(t)))
    cs_refuse(e, "TMA cannot fetch an operand of attention");
  if (cs_cuda(e)->cores.record->shared_bytes > 227 << 10)
    cs_refuse(e, "attention needs %d bytes", cs_cuda(e)->cores.record->shared_bytes);
}

// ---- fetching ----

static void begin(CEmit *e, const LoopTile *t) {
  cs_line(e, "extern __shared__ unsigned char tn_raw[];");
  cs_line(e, "const unsigned tn_queries = (tn_shared_at(tn_raw) + 1023u) & ~1023u;");
  cs_line(e, "const unsigned tn_at = tn_queries + %du, tn_values_at = tn_at + %du;", query_bytes(t),
          key_bytes(t));
  cs_line(e, "const unsigned tn_bars = tn_values_at + %du;", value_bytes(t));
  cs_line(e, "const int tn_lane = threadIdx.x %% 32, tn_warp = threadIdx.x / 32;");
  cs_line(e, "const int tn_block = 0;");
  cs_line(e, "unsigned tn_parity = 0, tn_query_parity = 0; /* of keys and values; of queries */");
  cs_open(e, "if (threadIdx.x == 0) {");
  cs_attention_prefetch_maps(e);
  cs_line(e, "for (int s = 0; s < 3; s++) tn_bar_init(tn_bars + s * 8, 1);");
  cs_line(e, "asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");");
  cs_close(e);
  cs_line(e, "__syncthreads();");
}

static void fetch_queries(CEmit *e, const LoopTile *t, const char *tile) {
  cs_line(e, "tn_bar_expect(tn_bars, %d);", query_bytes(t));
  cs_attention_fetch(e, t, 0, "tn_queries", TILE_ROWS, (int)t->attention.size,
                     str_printf(e->arena, "tn_row + (%s) * %d", tile, TILE_ROWS), "tn_bars");
}

// The addresses of operands are known before the previous kernel has ended.
static void fetch_all(CEmit *e, const LoopTile *t) {
  e->sym[t->rows->sym->slot] = (CSym){.kind = CSYM_NUMBER};
  cs_line(e, "const int tn_row = (int)(%s), tn_rows = (int)(%s);", cs_dim(e, t->a.row),
          cs_dim(e, t->attention.box[0].rows));
  cs_line(e, "const %s tn_keys = %s;", e->index, cs_dim(e, t->depth));
  cs_line(e, "%s", CUDA_WAIT_PREVIOUS);
  cs_open(e, "if (threadIdx.x == 0) {");
  fetch_queries(e, t, "0");
  cs_line(e, "tn_bar_expect(tn_bars + 8, %d);", key_bytes(t));
  cs_attention_fetch(e, t, 1, "tn_at", keys_of(t), (int)t->attention.size, "0", "tn_bars + 8");
  cs_line(e, "tn_bar_expect(tn_bars + 16, %d);", value_bytes(t));
  cs_attention_fetch(e, t, 2, "tn_values_at", keys_of(t), t->s.n, "0", "tn_bars + 16");
  cs_close(e);
}

// When all warps have their scores.
static void fetch_next(CEmit *e, const LoopTile *t) {
  cs_line(e, "__syncthreads();");
  cs_open(e, "if (threadIdx.x == 0 && tn_who + 1 < %d && tn_row + (tn_who + 1) * %d < tn_rows) {",
          tiles_of(t), TILE_ROWS);
  fetch_queries(e, t, "tn_who + 1");
  cs_close(e);
}

// ---- the kernel ----

static void open_tiles(CEmit *e, const LoopTile *t) {
  if (tiles_of(t) == 1) {
    cs_open(e, "{");
    cs_line(e, "const int tn_who = 0;");
    return;
  }
  cs_line(e, "#pragma unroll 1");
  cs_open(e, "for (int tn_who = 0; tn_who < %d && tn_row + tn_who * %d < tn_rows; tn_who++) {",
          tiles_of(t), TILE_ROWS);
}

static void find_row_max(CEmit *e, int keys, const char *by) {
  cs_line(e, "float tn_from[2], tn_by[2];");
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int h = 0; h < 2; h++) {");
  cs_attention_row_max(e, keys, "-INFINITY");
  cs_line(e, "tn_by[h] = tn_factor(tn_m, %s);", by);
  cs_line(e, "tn_from[h] = tn_m == -INFINITY ? 0.0f : -tn_m * tn_by[h];");
  cs_close(e);
}

// A weight takes the place of its score at once, rounded: so four blocks' registers hold them.  The
// first product does not add, and nothing need be zero before.
static void weigh(CEmit *e, int keys) {
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int j = 0; j < %d; j++) {", keys / 8);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int h = 0; h < 2; h++) {");
  for (int i = 0; i < 2; i++)
    cs_line(
        e,
        "const float tn_%c = tn_exp2(__fmaf_rn(tn_s[j * 4 + h * 2 + %d], tn_by[h], tn_from[h]));",
        "xy"[i], i);
  cs_line(e, "tn_l[h] += tn_x + tn_y;");
  cs_line(e, "tn_w[j * 2 + h] = tn_pack(tn_x, tn_y);");
  cs_close(e);
  cs_close(e);
  cs_line(e, "tn_bar_wait(tn_bars + 16, tn_parity);");
  cs_line(e, "asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");");
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++)", keys / 16);
  cs_line(e, "  tn_weigh(tn_sum, tn_w + q * 4, tn_values(tn_values_at + q * 2048, %d), q);",
          keys * ROW_BYTES);
  cs_line(e, "asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");");
}

static void emit_tile(CEmit *e, const LoopTile *t) {
  int keys = keys_of(t);
  cs_line(e, "float tn_s[%d], tn_sum[%d], tn_l[2] = {0.0f, 0.0f};", keys / 2, t->s.n / 2);
  cs_line(e, "unsigned tn_w[%d];", keys / 4);
  cs_line(e, "tn_bar_wait(tn_bars, tn_query_parity);");
  cs_line(e, "tn_query_parity ^= 1u;");
  cs_line(e, "tn_bar_wait(tn_bars + 8, tn_parity);");
  cs_attention_scores(e, t, keys, "tn_queries", "tn_at");
  cs_attention_wait(e, "tn_s", keys / 2, 0);
  if (tiles_of(t) > 1) fetch_next(e, t);
  cs_line(e, "%s", CUDA_LAUNCH_DEPENDENTS);
  const char *by = cs_attention_masked(e, t, keys);
  find_row_max(e, keys, by);
  weigh(e, keys);
  cs_attention_wait(e, "tn_sum", t->s.n / 2, 0);
  cs_attention_row_sum(e);
  LoopTile all = *t;  // rows as of so many warpgroups, of which this is one
  all.s.warpgroups = tiles_of(t);
  cs_epilogue(e, &all, NULL);
}

void cs_attention_short(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  put_record(e, t);
  begin(e, t);
  cs_tile_items(e, items, t);
  fetch_all(e, t);
  open_tiles(e, t);
  emit_tile(e, t);
  cs_close(e);
  cs_line(e, "tn_parity ^= 1u;");
  cs_line(e, "if (tn_t + gridDim.x < items) __syncthreads();");
  cs_close(e);
}
