// emit_attention_split_kv.c -- attention tiles of few queries over many keys (split-KV, as in
// flash-decoding), as CUDA with wgmma (sm_90a).
//
// Decode attention is bound by reading keys and values.  A tile holds the queries of all heads that
// share keys, so these are read once.  The blocks of a cluster, with two warpgroups each, split the
// keys.  A warpgroup copies its keys and values itself (cp.async) through its own stages.  At the
// end the first warpgroup adds the accumulators of the others, each rescaled to the common row max.
//
// Needs:      a tile that loop_tile_check accepts; operands aligned to 16 bytes; stages that fit
//             227 KiB, else cs_fail.
// Guarantees: partial results are added in the order of the parts, so runs give equal bits.  No
//             block leaves before its shared memory has been read.
#include "loop/tile.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

enum { THREADS = 128, PARTS = 2, WARP_ROWS = 16, PIECE = 4 };

// clang-format off
static const char parts_top[] =
    "/* From the place of ours in the memory of another block of the cluster. */\n"
    "TN_FN float4 tn_dsmem_load(unsigned at, int rank) {\n"
    "  float4 x;\n"
    "  asm volatile(\"{ .reg .u32 t; mapa.shared::cluster.u32 t, %4, %5; ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [t]; }\"\n"
    "               : \"=f\"(x.x), \"=f\"(x.y), \"=f\"(x.z), \"=f\"(x.w) : \"r\"(at), \"r\"(rank) : \"memory\");\n"
    "  return x;\n}\n"
    "TN_FN void tn_leave(unsigned at, float x, float y, float z, float w) {\n"
    "  asm volatile(\"st.shared.v4.f32 [%0], {%1, %2, %3, %4};\" :: \"r\"(at), \"f\"(x), \"f\"(y), \"f\"(z), \"f\"(w) : \"memory\");\n}\n";
// clang-format on

void cs_attention_split_kv_top(StrBuf *out) { strbuf_puts(out, parts_top); }

// Of a warpgroup.
static int own_bytes(const LoopTile *t) {
  return cs_attention_query_bytes(t) + t->s.stages * cs_attention_stage_bytes(t);
}

static void put_record(CEmit *e, const LoopTile *t) {
  int shared = 1024 + PARTS * own_bytes(t);
  *cs_cuda(e)->cores.record = (CudaRecord){
      .threads = PARTS * THREADS, .shared_bytes = shared, .cluster = t->s.cluster, .early = true};
  if (shared > 227 << 10) cs_refuse(e, "attention needs %d bytes", shared);
}

static void meet(CEmit *e) {
  cs_line(e, "asm volatile(\"bar.sync %%0, %d;\" :: \"r\"(1 + tn_way) : \"memory\");", THREADS);
}

// ---- keys ----

// Of all blocks of keys, this warpgroup's are those from tn_first up to tn_blocks.
static void put_share(CEmit *e, const LoopTile *t) {
  cs_line(e, "const %s tn_keys = %s;", e->index, cs_dim(e, t->depth));
  cs_line(e, "const int tn_all_blocks = (int)((tn_keys + %d) / %d);", TILE_KEYS - 1, TILE_KEYS);
  cs_line(e, "const int tn_share = (tn_all_blocks + %d) / %d, tn_first = tn_rank * tn_share;",
          t->s.split_kv - 1, t->s.split_kv);
  cs_line(e, "const int tn_blocks = min(tn_first + tn_share, tn_all_blocks);");
}

static void ask_keys(CEmit *e, const LoopTile *t, const char *block, const char *stage) {
  cs_open(e, "if (%s < tn_blocks) {", block);
  cs_line(e, "const %s tn_from = (%s)(%s) * %d;", e->index, e->index, block, TILE_KEYS);
  cs_attention_copy_keys(e, t, stage);
  e->indent--;
  cs_open(e, "} else {");
  cs_line(e, "asm volatile(\"cp.async.commit_group;\" ::: \"memory\");");
  cs_close(e);
}

static void begin_keys(CEmit *e, const LoopTile *t) {
  cs_line(e, "#pragma unroll 1");
  cs_open(e, "for (int tn_stage = 0; tn_stage < %d; tn_stage++) {", t->s.stages - 1);
  ask_keys(e, t, "tn_first + tn_stage", "tn_stage");
  cs_close(e);
}

// A stage is asked for again when all warps have met behind the products that read it.
static void next_stage(CEmit *e, const LoopTile *t) {
  cs_line(e, "asm volatile(\"cp.async.wait_group %d;\" ::: \"memory\");", t->s.stages - 2);
  cs_line(e, "asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");");
  meet(e);
  ask_keys(e, t, str_printf(e->arena, "tn_block + %d", t->s.stages - 1),
           str_printf(e->arena, "tn_stage ? tn_stage - 1 : %d", t->s.stages - 1));
}

// What scores are multiplied by.
static const char *over_keys(CEmit *e, const LoopTile *t) {
  cs_line(e, "int tn_stage = 0;");
  cs_line(e, "#pragma unroll 1");
  cs_open(e, "for (int tn_block = tn_first; tn_block < tn_blocks; tn_block++) {");
  cs_line(e, "const unsigned tn_at = tn_ring + tn_stage * %du;", cs_attention_stage_bytes(t));
  next_stage(e, t);
  cs_line(e, "float tn_s[%d];", TILE_KEYS / 2);
  cs_line(e, "unsigned tn_w[%d];", TILE_KEYS / 4);
  cs_attention_scores(e, t, TILE_KEYS, "tn_queries", "tn_at");
  cs_attention_wait(e, "tn_s", TILE_KEYS / 2, 0);
  cs_open(e, "if (tn_mine) {");
  const char *by = cs_attention_softmax(e, t, TILE_KEYS);
  cs_attention_pack(e, TILE_KEYS);
  cs_attention_rescale(e, t);
  e->indent--;
  cs_open(e, "} else {");
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_w[q] = 0u;", TILE_KEYS / 4);
  cs_close(e);
  cs_attention_values(e, TILE_KEYS, str_printf(e->arena, "tn_at + %d", cs_attention_key_bytes(t)));
  cs_attention_wait(e, "tn_sum", t->s.n / 2, 0);
  cs_line(e, "if (++tn_stage == %d) tn_stage = 0;", t->s.stages);
  cs_close(e);
  return by;
}

// ---- parts ----

static int pieces_of(const LoopTile *t) { return t->s.n / 2 / PIECE; }
static int accumulator_bytes(const LoopTile *t) { return pieces_of(t) * THREADS * 16; }

// Sums, then greatest scores and sums of weights, 16 bytes of each thread contiguous, where the
// keys were.
static void leave_part(CEmit *e, const LoopTile *t) {
  cs_open(e, "if (tn_rank > 0 && tn_mine) {");
  cs_line(e, "#pragma unroll");
  cs_line(e,
          "for (int q = 0; q < %d; q++) tn_leave(tn_part + q * %d, tn_sum[q * 4], tn_sum[q * 4 + "
          "1], tn_sum[q * 4 + 2], tn_sum[q * 4 + 3]);",
          pieces_of(t), THREADS * 16);
  cs_line(e, "tn_leave(tn_part + %d, tn_top[0], tn_top[1], tn_l[0], tn_l[1]);",
          accumulator_bytes(t));
  cs_close(e);
}

// Own sums, to the greatest score of all parts: tn_row_max, with what belongs to it.
static void scale_own(CEmit *e, const LoopTile *t, const char *by) {
  cs_line(e, "float tn_row_max[2] = {tn_top[0], tn_top[1]}, tn_by[2], tn_from[2];");
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int g = 1; g < %d; g++) {", t->s.split_kv);
  cs_line(e, "const float4 tn_of = tn_dsmem_load(tn_part + g %% %d * %du + %d, g / %d);", PARTS,
          own_bytes(t), accumulator_bytes(t), PARTS);
  cs_line(e, "tn_row_max[0] = fmaxf(tn_row_max[0], tn_of.x);");
  cs_line(e, "tn_row_max[1] = fmaxf(tn_row_max[1], tn_of.y);");
  cs_close(e);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int h = 0; h < 2; h++) {");
  cs_line(e, "tn_by[h] = tn_factor(tn_row_max[h], %s);", by);
  cs_line(e, "tn_from[h] = tn_row_max[h] == -INFINITY ? 0.0f : -tn_row_max[h] * tn_by[h];");
  cs_line(e, "const float tn_rescale = tn_exp2(__fmaf_rn(tn_top[h], tn_by[h], tn_from[h]));");
  cs_line(e, "tn_l[h] *= tn_rescale;");
  cs_line(e, "#pragma unroll");
  cs_line(
      e,
      "for (int q = 0; q < %d; q++) tn_sum[q * 4 + h * 2] *= tn_rescale, tn_sum[q * 4 + h * 2 + "
      "1] *= tn_rescale;",
      pieces_of(t));
  cs_close(e);
}

static void add_parts(CEmit *e, const LoopTile *t, const char *by) {
  cs_open(e, "if (tn_rank == 0 && tn_mine) {");
  scale_own(e, t, by);
  cs_line(e, "#pragma unroll 1");
  cs_open(e, "for (int g = 1; g < %d; g++) {", t->s.split_kv);
  cs_line(e, "const float4 tn_of = tn_dsmem_load(tn_part + g %% %d * %du + %d, g / %d);", PARTS,
          own_bytes(t), accumulator_bytes(t), PARTS);
  cs_line(e, "const float tn_a = tn_exp2(__fmaf_rn(tn_of.x, tn_by[0], tn_from[0]));");
  cs_line(e, "const float tn_b = tn_exp2(__fmaf_rn(tn_of.y, tn_by[1], tn_from[1]));");
  cs_line(e, "tn_l[0] += tn_of.z * tn_a, tn_l[1] += tn_of.w * tn_b;");
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int q = 0; q < %d; q++) {", pieces_of(t));
  cs_line(e, "const float4 x = tn_dsmem_load(tn_part + g %% %d * %du + q * %d, g / %d);", PARTS,
          own_bytes(t), THREADS * 16, PARTS);
  static const char part[] = "xyzw";
  for (int i = 0; i < PIECE; i++)
    cs_line(e, "tn_sum[q * 4 + %d] = __fmaf_rn(x.%c, tn_%c, tn_sum[q * 4 + %d]);", i, part[i],
            i < 2 ? 'a' : 'b', i);
  cs_close(e);
  cs_close(e);
  cs_close(e);
}

// A block stays until its parts have been read.
static void join_parts(CEmit *e, const LoopTile *t, const char *by) {
  cs_line(e, "const unsigned tn_part = tn_ring + tn_thread * 16u;");
  meet(e);
  leave_part(e, t);
  cs_line(e, "asm volatile(\"barrier.cluster.arrive.release.aligned;\" ::: \"memory\");");
  cs_line(e, "asm volatile(\"barrier.cluster.wait.acquire.aligned;\" ::: \"memory\");");
  add_parts(e, t, by);
  cs_line(e, "__syncwarp();");
  cs_line(e, "asm volatile(\"barrier.cluster.arrive.release.aligned;\" ::: \"memory\");");
  cs_open(e, "if (tn_rank > 0) {");
  cs_line(e, "asm volatile(\"barrier.cluster.wait.acquire.aligned;\" ::: \"memory\");");
  cs_line(e, "return;");
  cs_close(e);
}

// ---- the kernel ----

static void emit_item(CEmit *e, const LoopTile *t) {
  put_share(e, t);
  cs_set_text(e, t->rows->sym, str_printf(e->arena, "(tn_warp * %d)", WARP_ROWS));
  cs_line(e, "const bool tn_mine = %s < %s;", cs_dim(e, t->a.row), cs_dim(e, t->a.rows));
  cs_line(e, "float tn_sum[%d], tn_top[2] = {-INFINITY, -INFINITY}, tn_l[2] = {0.0f, 0.0f};",
          t->s.n / 2);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_sum[q] = 0.0f;", t->s.n / 2);
  cs_attention_copy_queries(e, t);
  begin_keys(e, t);
  join_parts(e, t, over_keys(e, t));
  cs_attention_row_sum(e);
  cs_epilogue(e, t, NULL);
}

void cs_attention_split_kv(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  put_record(e, t);
  cs_line(e, "extern __shared__ unsigned char tn_raw[];");
  cs_line(e, "const int tn_way = threadIdx.x / %d, tn_thread = threadIdx.x %% %d;", THREADS,
          THREADS);
  cs_line(e,
          "const unsigned tn_queries = ((tn_shared_at(tn_raw) + 1023u) & ~1023u) + tn_way * %du;",
          own_bytes(t));
  cs_line(e, "const unsigned tn_ring = tn_queries + %du;", cs_attention_query_bytes(t));
  cs_line(e, "const int tn_who = 0, tn_lane = tn_thread %% 32, tn_warp = tn_thread / 32;");
  cs_line(e, "const int tn_rank = blockIdx.x %% %d * %d + tn_way;", t->s.cluster, PARTS);
  cs_line(e, "%s", CUDA_LAUNCH_DEPENDENTS);
  cs_line(e, "%s", CUDA_WAIT_PREVIOUS);
  cs_tile_items(e, items, t);
  cs_name_quotients(e, items->sym, &items->body);
  emit_item(e, t);
  cs_close(e);
}
