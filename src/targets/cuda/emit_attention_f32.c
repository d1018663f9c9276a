// emit_attention_f32.c -- attention tiles of f32 as CUDA with mma.sync of tf32.
//
// A thread block is four warps with 16 queries each of one head.  Keys and values come in blocks of
// 64 through two stages of shared memory, copied by the threads.  Kind tf32 is one MMA.  Kind
// 3xtf32 splits a number into its high 11 bits and the remainder and uses three MMAs: high by high,
// high by low, low by high.
//
// The order of a dot product's terms is free.  So a thread loads four contiguous elements of a row
// at once for two MMAs, and weights stay in the registers that held their scores.
//
// Needs:      a tile that loop_tile_check accepts, kind MMA_F32 or tf32; FAST_TF32 for tf32.
// Guarantees: 3xtf32 is within some 2^-21 of the f32 product.  An infinity in queries, keys or
//             values makes NaN of the elements that it meets.
#include "loop/tile.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

enum { THREADS = 128, STAGES = 2, PIECE = 4, KEYS = TILE_KEYS, CHUNK = 16 };

// ---- what such kernels call ----

// clang-format off
static const char f32_top[] =
    "TN_FN void tn_mma(float *d, const unsigned *a, unsigned b0, unsigned b1) {\n"
    "  asm volatile(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"
    "               : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])\n"
    "               : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b0), \"r\"(b1));\n}\n"
    "/* To the nearest tf32, away from zero where two are as near. */\n"
    "TN_FN unsigned tn_high(float x) { return (__float_as_uint(x) + 0x1000u) & 0xffffe000u; }\n"
    "TN_FN unsigned tn_rest(float x, unsigned high) { return __float_as_uint(x - __uint_as_float(high)); }\n";
// clang-format on

void cs_attention_f32_top(StrBuf *out) { strbuf_puts(out, f32_top); }

// ---- sizes ----

static bool is_f32(const LoopTile *t) { return t->kind == MMA_F32; }
// Elements of a row of keys, filled up with zeros; the eight rows that four neighbouring threads
// each read lie in different banks.
static int width_of(const LoopTile *t) {
  return ((int)t->attention.size + CHUNK - 1) / CHUNK * CHUNK;
}
static int key_pitch(const LoopTile *t) { return width_of(t) + (width_of(t) % 32 ? 0 : CHUNK); }
static int value_pitch(const LoopTile *t) { return t->s.n + PIECE; }
static int key_floats(const LoopTile *t) { return KEYS * key_pitch(t); }
static int stage_floats(const LoopTile *t) { return key_floats(t) + KEYS * value_pitch(t); }

// ---- copies ----

static void copy_rows(CEmit *e, const LoopExpr *load, const char *to, int width, int size,
                      int pitch, Dim along, Dim key) {
  cs_line(e, "#pragma unroll 4");
  cs_open(e, "for (int tn_u = threadIdx.x; tn_u < %d; tn_u += %d) {", KEYS * width / PIECE,
          THREADS);
  cs_line(e, "const int tn_r = tn_u / %d, tn_d = tn_u %% %d * %d;", width / PIECE, width / PIECE,
          PIECE);
  cs_line(e, "const %s tn_key = tn_from + tn_r;", e->index);
  cs_set_text(e, key, "tn_key");
  cs_set_text(e, along, "tn_d");
  const char *guards = cs_guards(e, load->nguards, load->guard);
  e->buffer_used[load->buffer] = true;
  cs_line(e, "const bool tn_there = tn_key < tn_keys && tn_d < %d%s%s;", size,
          *guards ? " && " : "", guards);
  cs_line(e, "tn_copy(tn_shared_at(%s + tn_r * %d + tn_d), %s + (tn_there ? %s : 0), tn_there);",
          to, pitch, e->buffer[load->buffer], cs_dim(e, load->index));
  cs_drop_guards(e, load->nguards, load->guard);
  cs_close(e);
}

// Keys and values from tn_from on into a stage.
static void copy_keys(CEmit *e, const LoopTile *t, const char *stage) {
  const LoopTileAttention *a = &t->attention;
  cs_line(e, "float *const tn_to = tn_ring + (%s) * %d;", stage, stage_floats(t));
  copy_rows(e, a->k, "tn_to", width_of(t), (int)a->size, key_pitch(t), a->product->sym,
            t->sum->sym);
  copy_rows(e, a->v, str_printf(e->arena, "tn_to + %d", key_floats(t)), t->s.n, (int)a->columns,
            value_pitch(t), t->cols->sym, t->sum->sym);
  cs_line(e, "asm volatile(\"cp.async.commit_group;\" ::: \"memory\");");
}

static void emit_stage(CEmit *e, const LoopTile *t) {
  cs_attention_stage(e, t, KEYS, copy_keys);
  cs_line(e, "__syncthreads();");
}

// A thread's queries: of rows lane / 4 and 8 below, four neighbours of every 16, as operands of two
// products.
static void load_queries(CEmit *e, const LoopTile *t) {
  const LoopTileAttention *a = &t->attention;
  int chunks = width_of(t) / CHUNK;
  cs_line(e, "unsigned tn_q[%d][2][4]%s;", chunks,
          is_f32(t) ? str_printf(e->arena, ", tn_q_low[%d][2][4]", chunks) : "");
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int h = 0; h < 2; h++) {");
  cs_line(e, "const int tn_r = tn_warp * 16 + (tn_lane >> 2) + h * 8;");
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int c = 0; c < %d; c++) {", chunks);
  cs_line(e, "const int tn_d = c * %d + (tn_lane & 3) * %d;", CHUNK, PIECE);
  cs_set_text(e, t->rows->sym, "tn_r");
  cs_set_text(e, a->product->sym, "tn_d");
  const char *guards = cs_guards(e, a->q->nguards, a->q->guard);
  e->buffer_used[a->q->buffer] = true;
  cs_line(e, "float4 tn_x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);");
  cs_line(e, "if (tn_d < %d%s%s) tn_x = *(const float4 *)(%s + (%s));", (int)a->size,
          *guards ? " && " : "", guards, e->buffer[a->q->buffer], cs_dim(e, a->q->index));
  cs_drop_guards(e, a->q->nguards, a->q->guard);
  static const char *const part[] = {"x", "y", "z", "w"};
  for (int i = 0; i < PIECE; i++) {
    cs_line(e, "tn_q[c][%d][h + %d] = tn_high(tn_x.%s);", i / 2, i % 2 * 2, part[i]);
    if (is_f32(t))
      cs_line(e, "tn_q_low[c][%d][h + %d] = tn_rest(tn_x.%s, tn_q[c][%d][h + %d]);", i / 2,
              i % 2 * 2, part[i], i / 2, i % 2 * 2);
  }
  cs_close(e);
  cs_close(e);
}

// ---- products ----

// sums += a * b, of one operand in registers and two numbers of the other, x and y.
static void product(CEmit *e, const LoopTile *t, const char *sums, const char *a, const char *low,
                    const char *x, const char *y) {
  cs_open(e, "{");
  cs_line(e, "const unsigned tn_b0 = tn_high(%s), tn_b1 = tn_high(%s);", x, y);
  if (is_f32(t)) {
    cs_line(e, "tn_mma(%s, %s, tn_rest(%s, tn_b0), tn_rest(%s, tn_b1));", sums, a, x, y);
    cs_line(e, "tn_mma(%s, %s, tn_b0, tn_b1);", sums, low);
  }
  cs_line(e, "tn_mma(%s, %s, tn_b0, tn_b1);", sums, a);
  cs_close(e);
}

static void emit_scores(CEmit *e, const LoopTile *t) {
  cs_line(e, "float tn_s[%d];", KEYS / 2);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_s[q] = 0.0f;", KEYS / 2);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int c = 0; c < %d; c++) {", width_of(t) / CHUNK);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int j = 0; j < %d; j++) {", KEYS / 8);
  cs_line(e,
          "const float4 tn_k = *(const float4 *)(tn_at + (j * 8 + (tn_lane >> 2)) * %d + c * %d "
          "+ (tn_lane & 3) * %d);",
          key_pitch(t), CHUNK, PIECE);
  product(e, t, "tn_s + j * 4", "tn_q[c][0]", "tn_q_low[c][0]", "tn_k.x", "tn_k.y");
  product(e, t, "tn_s + j * 4", "tn_q[c][1]", "tn_q_low[c][1]", "tn_k.z", "tn_k.w");
  cs_close(e);
  cs_close(e);
}

static void emit_values(CEmit *e, const LoopTile *t) {
  cs_line(e, "const float *const tn_v = tn_at + %d + (tn_lane & 3) * %d + (tn_lane >> 2);",
          key_floats(t), 2 * value_pitch(t));
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int q = 0; q < %d; q++) {", KEYS / 8);
  cs_line(e, "unsigned tn_w[4]%s;", is_f32(t) ? ", tn_w_low[4]" : "");
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int p = 0; p < 4; p++) {");
  cs_line(e, "const float tn_x = tn_s[q * 4 + (p & 1) * 2 + (p >> 1)];");
  cs_line(e, "tn_w[p] = tn_high(tn_x);");
  if (is_f32(t)) cs_line(e, "tn_w_low[p] = tn_rest(tn_x, tn_w[p]);");
  cs_close(e);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int j = 0; j < %d; j++) {", t->s.n / 8);
  cs_line(e, "const float tn_x = tn_v[q * %d + j * 8], tn_y = tn_v[q * %d + %d + j * 8];",
          8 * value_pitch(t), 8 * value_pitch(t), value_pitch(t));
  product(e, t, "tn_sum + j * 4", "tn_w", "tn_w_low", "tn_x", "tn_y");
  cs_close(e);
  cs_close(e);
}

// ---- the kernel ----

static void emit_item(CEmit *e, const LoopTile *t) {
  cs_line(e, "const %s tn_keys = %s;", e->index, cs_dim(e, t->depth));
  cs_line(e, "const int tn_blocks = (int)((tn_keys + %d) / %d);", KEYS - 1, KEYS);
  cs_line(e, "float tn_sum[%d], tn_top[2] = {-INFINITY, -INFINITY}, tn_l[2] = {0.0f, 0.0f};",
          t->s.n / 2);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_sum[q] = 0.0f;", t->s.n / 2);
  cs_open(e, "{");
  cs_line(e, "const %s tn_from = 0;", e->index);
  copy_keys(e, t, "0");
  cs_close(e);
  load_queries(e, t);
  cs_line(e, "#pragma unroll 1");
  cs_open(e, "for (int tn_block = 0; tn_block < tn_blocks; tn_block++) {");
  cs_line(e, "const float *const tn_at = tn_ring + (tn_block & 1) * %d;", stage_floats(t));
  emit_stage(e, t);
  emit_scores(e, t);
  cs_attention_softmax(e, t, KEYS);
  cs_attention_rescale(e, t);
  emit_values(e, t);
  cs_line(e, "__syncthreads();");
  cs_close(e);
  cs_attention_row_sum(e);
  cs_epilogue(e, t, NULL);
  cs_line(e, "__syncthreads();");
}

void cs_attention_f32(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  *cs_cuda(e)->cores.record =
      (CudaRecord){.threads = THREADS,
                   .shared_bytes = STAGES * stage_floats(t) * (int)sizeof(float),
                   .cluster = 1,
                   .early = true};
  cs_line(e, "extern __shared__ __align__(16) float tn_ring[];");
  cs_line(e, "const int tn_who = 0, tn_lane = threadIdx.x %% 32, tn_warp = threadIdx.x / 32;");
  cs_line(e, "%s", CUDA_LAUNCH_DEPENDENTS);
  cs_line(e, "%s", CUDA_WAIT_PREVIOUS);
  cs_tile_items(e, items, t);
  cs_name_quotients(e, items->sym, &items->body);
  emit_item(e, t);
  cs_close(e);
}
