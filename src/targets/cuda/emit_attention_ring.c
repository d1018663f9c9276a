// emit_attention_ring.c -- attention tiles of several warpgroups that share keys and values, as
// CUDA with wgmma (sm_90a).
//
// A thread block is a producer warpgroup and two or three consumer warpgroups with 64 queries each
// of one head.  One producer thread fetches blocks of 128 keys and values by TMA into a ring of
// stages.  A consumer issues the scores of the next block before the weighted values of this one,
// so the tensor cores work while it computes weights.  Two consumers also alternate in issuing
// (ping-pong); three overlap without it.
//
// Blocks of keys go from the last to the first.  Blocks that are masked for some query come first,
// and the others need no mask.  The compiler moves arithmetic within a basic block: the branch of
// the wait for the next keys separates exponentials from the wait for products.
//
// Needs:      operands that are TMA boxes (loop/tile.h), else cs_fail; at most 227 KiB of stages.
// Guarantees: the CudaRecord has threads, shared memory and the three TMA descriptors.  Keys beyond
//             the last are masked.
#include "loop/tile.h"
#include "runtime/cuda/api.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

enum { WARP = 32, WARPGROUP = 128, ROW_BYTES = 128, KEYS = TILE_RING_KEYS, BARRIER_BYTES = 128 };

// ---- sizes ----

static int query_bytes(const LoopTile *t) { return TILE_ROWS * (int)t->attention.size * 2; }
static int key_bytes(const LoopTile *t) { return KEYS * (int)t->attention.size * 2; }
static int value_bytes(const LoopTile *t) { return KEYS * t->s.n * 2; }
static int stage_bytes(const LoopTile *t) { return key_bytes(t) + value_bytes(t); }
static bool is_pingpong(const LoopTile *t) { return t->s.warpgroups == 2; }

static const char *const operand[] = {"q", "k", "v"};

static bool put_map(CEmit *e, const LoopTile *t, int which, const LoopExpr *load, int rows) {
  const LoopTileBox *b = &t->attention.box[which];
  CudaRecord *r = cs_cuda(e)->cores.record;
  CudaMap *m = &r->map[r->nmaps++];
  *m = (CudaMap){.arg = load->buffer,
                 .type = t->a.dtype == DT_BF16 ? CUDA_MAP_BF16 : CUDA_MAP_F16,
                 .rank = 3,
                 .box = {TILE_BOX, (uint32_t)rows, 1}};
  e->buffer_used[load->buffer] = true;
  m->dim[0] = cuda_number(b->stride);
  m->stride[0] = cuda_number(b->stride * 2);
  return cs_number(e, b->rows, 1, &m->dim[1]) && cs_number(e, b->outer, 1, &m->dim[2]) &&
         cs_number(e, b->rows, b->stride * 2, &m->stride[1]);
}

bool cs_attention_maps(CEmit *e, const LoopTile *t, int queries, int keys) {
  const LoopTileAttention *a = &t->attention;
  return put_map(e, t, 0, a->q, queries) && put_map(e, t, 1, a->k, keys) &&
         put_map(e, t, 2, a->v, keys);
}

void cs_attention_prefetch_maps(CEmit *e) {
  for (int i = 0; i < ARRAY_LEN(operand); i++)
    cs_line(e, "asm volatile(\"prefetch.tensormap [%%0];\" :: \"l\"(&tn_map_%s) : \"memory\");",
            operand[i]);
}

static void put_record(CEmit *e, const LoopTile *t) {
  *cs_cuda(e)->cores.record =
      (CudaRecord){.threads = WARPGROUP * (t->s.warpgroups + 1),
                   .shared_bytes = 1024 + t->s.warpgroups * query_bytes(t) +
                                   t->s.stages * stage_bytes(t) + BARRIER_BYTES,
                   .cluster = 1,
                   .early = true};
  if (!cs_attention_maps(e, t, TILE_ROWS, KEYS))
    cs_refuse(e, "TMA cannot fetch an operand of attention");
  if (cs_cuda(e)->cores.record->shared_bytes > 227 << 10)
    cs_refuse(e, "attention needs %d bytes", cs_cuda(e)->cores.record->shared_bytes);
}

// ---- barriers: of queries full and empty, then of each stage's keys full and empty, values full
// and empty ----

static void begin_ring(CEmit *e, const LoopTile *t) {
  int warps = t->s.warpgroups * 4;
  cs_open(e, "if (threadIdx.x == 0) {");
  cs_attention_prefetch_maps(e);
  cs_open(e, "for (int s = 0; s < %d; s++) {", 1 + 2 * t->s.stages);
  cs_line(e, "tn_bar_init(tn_bars + s * 16, 1);");
  cs_line(e, "tn_bar_init(tn_bars + s * 16 + 8, %d);", warps);
  cs_close(e);
  cs_line(e, "asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");");
  cs_close(e);
  cs_line(e, "__syncthreads();");
}

static void advance(CEmit *e, const LoopTile *t, const char *of) {
  cs_line(e, "if (++tn_%ss == %d) tn_%ss = 0, tn_%sp ^= 1u;", of, t->s.stages, of, of);
}

// The loop over items, from the last one: where later queries see more keys they come first.
static void open_items(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  const char *v = cs_name(e, items->sym->name);
  e->sym[items->sym->slot] = (CSym){.kind = CSYM_TEXT, .text = v};
  cs_open(e, "for (long long tn_t = blockIdx.x; tn_t < items; tn_t += gridDim.x) {");
  cs_line(e, "const %s %s = (%s)(items - 1 - tn_t);", e->index, v, e->index);
  cs_name_quotients(e, items->sym, &items->body);
  cs_line(e, "const %s tn_keys = %s;", e->index, cs_dim(e, t->depth));
  cs_line(e, "const int tn_blocks = (int)((tn_keys + %d) / %d);", KEYS - 1, KEYS);
}

// ---- fetching ----

void cs_attention_fetch(CEmit *e, const LoopTile *t, int which, const char *to, int rows, int width,
                        const char *row, const char *bar) {
  const LoopTileBox *b = &t->attention.box[which];
  for (int i = 0; i < width / TILE_BOX; i++)
    cs_line(e, "tn_fetch_3(%s + %d, &tn_map_%s, (int)(%s) + %d, %s, (int)(%s), %s);", to,
            i * rows * ROW_BYTES, operand[which], cs_dim(e, b->x), i * TILE_BOX, row,
            cs_dim(e, b->z), bar);
}

static const char *first_query(CEmit *e, const LoopTile *t) {
  e->sym[t->rows->sym->slot] = (CSym){.kind = CSYM_NUMBER};
  return cs_dim(e, t->a.row);
}

static void emit_producer(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  int size = (int)t->attention.size;
  cs_line(e, "asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %d;\");",
          t->s.warpgroups == 2 ? 24 : 32);
  cs_open(e, "if (threadIdx.x == 0) {");
  cs_line(e, "int tn_ks = 0;");
  cs_line(e, "unsigned tn_kp = 1, tn_qp = 1; /* all begin empty */");
  open_items(e, items, t);
  cs_line(e, "tn_bar_wait(tn_bars + 8, tn_qp);");
  cs_line(e, "tn_qp ^= 1u;");
  cs_line(e, "tn_bar_expect(tn_bars, %d);", t->s.warpgroups * query_bytes(t));
  const char *row = first_query(e, t);
  for (int g = 0; g < t->s.warpgroups; g++)
    cs_attention_fetch(e, t, 0, str_printf(e->arena, "tn_queries + %d", g * query_bytes(t)),
                       TILE_ROWS, size, str_printf(e->arena, "(int)(%s) + %d", row, g * TILE_ROWS),
                       "tn_bars");
  cs_open(e, "for (int tn_block = tn_blocks - 1; tn_block >= 0; tn_block--) {");
  cs_line(e, "const unsigned tn_at = tn_ring + tn_ks * %du, tn_full = tn_bars + 16 + tn_ks * 32u;",
          stage_bytes(t));
  cs_line(e, "tn_bar_wait(tn_full + 8, tn_kp);");
  cs_line(e, "tn_bar_expect(tn_full, %d);", key_bytes(t));
  cs_attention_fetch(e, t, 1, "tn_at", KEYS, size, str_printf(e->arena, "tn_block * %d", KEYS),
                     "tn_full");
  cs_line(e, "tn_bar_wait(tn_full + 24, tn_kp);");
  cs_line(e, "tn_bar_expect(tn_full + 16, %d);", value_bytes(t));
  cs_attention_fetch(e, t, 2, str_printf(e->arena, "tn_at + %d", key_bytes(t)), KEYS, t->s.n,
                     str_printf(e->arena, "tn_block * %d", KEYS), "tn_full + 16");
  advance(e, t, "k");
  cs_close(e);
  cs_close(e);
  cs_close(e);
}

// ---- computing ----

static void wait_keys(CEmit *e) { cs_line(e, "tn_bar_wait(tn_bars + 16 + tn_ks * 32u, tn_kp);"); }
static void wait_values(CEmit *e) { cs_line(e, "tn_bar_wait(tn_bars + 32 + tn_vs * 32u, tn_vp);"); }
static void leave_keys(CEmit *e) {
  cs_line(e, "if (tn_lane == 0) tn_bar_arrive(tn_bars + 24 + tn_ks * 32u);");
}
static void leave_values(CEmit *e) {
  cs_line(e, "if (tn_lane == 0) tn_bar_arrive(tn_bars + 40 + tn_vs * 32u);");
}

static void issue_scores(CEmit *e, const LoopTile *t) {
  cs_attention_scores(e, t, KEYS, "tn_mine",
                      str_printf(e->arena, "tn_ring + tn_ks * %du", stage_bytes(t)));
}

static void issue_values(CEmit *e, const LoopTile *t) {
  cs_attention_values(
      e, KEYS, str_printf(e->arena, "tn_ring + tn_vs * %du + %du", stage_bytes(t), key_bytes(t)));
}

static void pin(CEmit *e, const char *what, int n) {
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) asm volatile(\"\" : \"+f\"(%s[q]) :: \"memory\");", n,
          what);
}

static void first_block(CEmit *e, const LoopTile *t) {
  cs_open(e, "{");
  cs_line(e, "const int tn_block = tn_blocks - 1;");
  wait_keys(e);
  issue_scores(e, t);
  cs_attention_wait(e, "tn_s", KEYS / 2, 0);
  leave_keys(e);
  advance(e, t, "k");
  cs_attention_softmax(e, t, KEYS);
  cs_line(e, "(void)tn_rescale;");
  cs_attention_pack(e, KEYS);
  cs_close(e);
}

static void other_blocks(CEmit *e, const LoopTile *t) {
  cs_line(e, "if (tn_blocks > 1) tn_bar_wait(tn_bars + 16 + tn_ks * 32u, tn_kp);");
  cs_open(e, "for (int tn_block = tn_blocks - 2; tn_block >= 0; tn_block--) {");
  if (is_pingpong(t))
    cs_line(e, "asm volatile(\"bar.sync %%0, 256;\" :: \"r\"(4 + tn_who) : \"memory\");");
  issue_scores(e, t);
  wait_values(e);
  issue_values(e, t);
  if (is_pingpong(t))
    cs_line(e, "asm volatile(\"bar.arrive %%0, 256;\" :: \"r\"(5 - tn_who) : \"memory\");");
  cs_attention_wait(e, "tn_s", KEYS / 2, 1);
  leave_keys(e);
  cs_attention_softmax(e, t, KEYS);
  pin(e, "tn_s", KEYS / 2);
  advance(e, t, "k");
  cs_line(e, "if (tn_block > 0) tn_bar_wait(tn_bars + 16 + tn_ks * 32u, tn_kp);");
  cs_attention_wait(e, "tn_sum", t->s.n / 2, 0);
  pin(e, "tn_s", KEYS / 2);
  leave_values(e);
  cs_attention_rescale(e, t);
  cs_attention_pack(e, KEYS);
  advance(e, t, "v");
  cs_close(e);
}

static void emit_item(CEmit *e, const LoopTile *t) {
  cs_line(e, "float tn_s[%d], tn_sum[%d], tn_top[2] = {-INFINITY, -INFINITY};", KEYS / 2,
          t->s.n / 2);
  cs_line(e, "float tn_l[2] = {0.0f, 0.0f};");
  cs_line(e, "unsigned tn_w[%d];", KEYS / 4);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_sum[q] = 0.0f;", t->s.n / 2);
  cs_line(e, "tn_bar_wait(tn_bars, tn_qp);");
  cs_line(e, "tn_qp ^= 1u;");
  cs_open(e, "if (tn_blocks > 0) {");
  first_block(e, t);
  other_blocks(e, t);
  wait_values(e);
  issue_values(e, t);
  cs_attention_wait(e, "tn_sum", t->s.n / 2, 0);
  leave_values(e);
  advance(e, t, "v");
  cs_close(e);
  cs_line(e, "if (tn_lane == 0) tn_bar_arrive(tn_bars + 8);");
  cs_attention_row_sum(e);
  cs_epilogue(e, t, NULL);
}

static void emit_consumers(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  cs_line(e, "asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %d;\");",
          t->s.warpgroups == 2 ? 240 : 160);
  cs_line(e, "const int tn_who = threadIdx.x / %d - 1, tn_lane = threadIdx.x %% %d;", WARPGROUP,
          WARP);
  cs_line(e, "const int tn_warp = threadIdx.x %% %d / %d;", WARPGROUP, WARP);
  cs_line(e, "const unsigned tn_mine = tn_queries + tn_who * %du;", query_bytes(t));
  cs_line(e, "int tn_ks = 0, tn_vs = 0;");
  cs_line(e, "unsigned tn_kp = 0, tn_vp = 0, tn_qp = 0;");
  if (is_pingpong(t))  // the first goes first
    cs_line(e, "if (tn_who == 1) asm volatile(\"bar.arrive 4, 256;\" ::: \"memory\");");
  open_items(e, items, t);
  emit_item(e, t);
  cs_close(e);
}

void cs_attention_ring(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  put_record(e, t);
  cs_line(e, "extern __shared__ unsigned char tn_raw[];");
  cs_line(e, "const unsigned tn_queries = (tn_shared_at(tn_raw) + 1023u) & ~1023u;");
  cs_line(e, "const unsigned tn_ring = tn_queries + %du;", t->s.warpgroups * query_bytes(t));
  cs_line(e, "const unsigned tn_bars = tn_ring + %du;", t->s.stages * stage_bytes(t));
  begin_ring(e, t);
  cs_line(e, "%s", CUDA_LAUNCH_DEPENDENTS);
  cs_line(e, "%s", CUDA_WAIT_PREVIOUS);
  cs_open(e, "if (threadIdx.x < %d) {", WARPGROUP);
  emit_producer(e, items, t);
  e->indent--;
  cs_open(e, "} else {");
  emit_consumers(e, items, t);
  cs_close(e);
}
