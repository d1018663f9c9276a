// emit_attention.c -- attention tiles (loop/tile.h) as CUDA with wgmma (sm_90a): the plain kernel,
// and what all variants share.
//
// A thread block is one warpgroup with 64 queries; several blocks per multiprocessor hide latency.
// Queries stay in shared memory.  Keys and values come in blocks of 64 through two stages; threads
// copy 16 bytes at a time (cp.async), so operands need no TMA box.  The three reductions of the
// body are one pass with an online softmax: where the row max grows, the accumulator is rescaled.
//
// Other variants: emit_attention_ring.c (several warpgroups share keys), emit_attention_short.c
// (few keys, one stage), emit_attention_split_kv.c (few queries), emit_attention_f32.c (f32).
//
// The accumulator of the scores has the layout of wgmma's first operand in registers.  So weights
// are rounded in place and not exchanged.  Row max and row sum of a query are formed by the four
// threads that hold its scores.
//
// Needs:      a tile that loop_tile_check accepts; operands aligned to 16 bytes.
// Guarantees: the CudaRecord says how the kernel is launched.  Keys are taken block by block,
//             within a block in the tensor core's order.
#include "loop/tile.h"
#include "runtime/cuda/cuda.h"
#include "targets/cuda/emit.h"

#include <math.h>

enum { THREADS = 128, STAGES = 2, ROW_BYTES = 128, PIECE = 8 };

// ---- what such kernels call ----

// clang-format off
static const char attention_top[] =
    "TN_FN void tn_copy(unsigned to, const void *from, int there) {\n"
    "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" :: \"r\"(to), \"l\"(from), \"r\"(there ? 16 : 0) : \"memory\");\n}\n"
    "/* Where 8 elements of a row lie: columns by 64, rows of 128 bytes, swizzled. */\n"
    "TN_FN unsigned tn_piece(unsigned at, int rows, int row, int column) {\n"
    "  return at + column / 64 * (rows * 128) + row * 128 + (((column / 8 & 7) ^ (row & 7)) << 4);\n}\n"
    "/* Values are N-major: groups of 8 keys are 1024 bytes apart, of 64 columns `across`. */\n"
    "TN_FN unsigned long long tn_values(unsigned at, unsigned across) {\n"
    "  return (unsigned long long)((at & 0x3ffff) >> 4) | (unsigned long long)(across >> 4) << 16 | 64ull << 32 | 1ull << 62;\n}\n"
    "TN_FN float tn_exp2(float x) {\n"
    "  float y;\n"
    "  asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));\n"
    "  return y;\n}\n"
    "/* What scores are multiplied by: less where the largest would leave f32, as those hidden by its lowest number do. */\n"
    "TN_FN float tn_factor(float most, float by) {\n"
    "  return fabsf(most * by) < INFINITY ? by : by * 0x1p-7f;\n}\n"
    "TN_FN float tn_most(float x) {\n"
    "  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));\n"
    "  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));\n}\n"
    "TN_FN float tn_all(float x) {\n"
    "  x += __shfl_xor_sync(~0u, x, 1);\n"
    "  return x + __shfl_xor_sync(~0u, x, 2);\n}\n";
// clang-format on

// Weights from registers, values from shared memory.
static void put_weighing(const LoopTile *t, StrBuf *out) {
  int regs = t->s.n / 2;
  const char *type = t->a.dtype == DT_BF16 ? "bf16" : "f16";
  strbuf_printf(out,
                "TN_FN void tn_weigh(float (&d)[%d], const unsigned *a, unsigned long long b, "
                "int more) {\n"
                "  asm volatile(\"{ .reg .pred p; setp.ne.b32 p, %%%d, 0; \"\n"
                "    \"wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {\"\n    \"",
                regs, regs + 5, t->s.n, type, type);
  for (int i = 0; i < regs; i++) strbuf_printf(out, "%s%%%d", i ? ", " : "", i);
  strbuf_printf(out, "}, \"\n    \"{%%%d, %%%d, %%%d, %%%d}, %%%d, p, 1, 1, 1; }\"\n    : ", regs,
                regs + 1, regs + 2, regs + 3, regs + 4);
  for (int i = 0; i < regs; i++) strbuf_printf(out, "%s\"+f\"(d[%d])", i ? ", " : "", i);
  strbuf_puts(out, "\n    : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), "
                   "\"r\"(more));\n}\n");
  strbuf_printf(out,
                "TN_FN unsigned tn_pack(float low, float high) {\n  unsigned r;\n"
                "  asm(\"cvt.rn.%sx2.f32 %%0, %%1, %%2;\" : \"=r\"(r) : \"f\"(high), \"f\"(low));\n"
                "  return r;\n}\n",
                type);
}

void cs_attention_top(const LoopTile *t, StrBuf *out) {
  strbuf_puts(out, attention_top);
  if (t->kind != MMA_HALF) {
    cs_attention_f32_top(out);
    return;
  }
  int keys = t->s.stages == 1      ? loop_tile_short_keys(t)
             : t->s.warpgroups > 1 ? TILE_RING_KEYS
                                   : TILE_KEYS;
  cs_tile_product(t, keys, out);
  put_weighing(t, out);
  if (t->s.split_kv) cs_attention_split_kv_top(out);
}

// ---- sizes ----

// Elements of a head in shared memory: by 64.
static int width_of(const LoopTile *t) { return t->attention.size <= 64 ? 64 : 128; }
int cs_attention_query_bytes(const LoopTile *t) { return TILE_ROWS * width_of(t) * 2; }
int cs_attention_key_bytes(const LoopTile *t) { return TILE_KEYS * width_of(t) * 2; }
int cs_attention_stage_bytes(const LoopTile *t) {
  return cs_attention_key_bytes(t) + TILE_KEYS * t->s.n * 2;
}

static void put_record(CEmit *e, const LoopTile *t) {
  *cs_cuda(e)->cores.record = (CudaRecord){.threads = THREADS,
                                           .shared_bytes = 1024 + cs_attention_query_bytes(t) +
                                                           STAGES * cs_attention_stage_bytes(t),
                                           .cluster = 1,
                                           .early = true};
}

// ---- copies ----

// Rows of 16-byte pieces into shared memory at `to`; `within` says which of them there are besides
// the load's guards.
static void copy_rows(CEmit *e, const LoopExpr *load, int rows, const char *to,
                      const char *within) {
  const char *guards = cs_guards(e, load->nguards, load->guard);
  e->buffer_used[load->buffer] = true;
  cs_line(e, "const bool tn_there = %s%s%s;", within, *guards ? " && " : "", guards);
  cs_line(e, "tn_copy(tn_piece(%s, %d, tn_r, tn_d), %s + (tn_there ? %s : 0), tn_there);", to, rows,
          e->buffer[load->buffer], cs_dim(e, load->index));
  cs_drop_guards(e, load->nguards, load->guard);
}

static void open_rows(CEmit *e, const LoopTile *t, int rows, int width) {
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int tn_u = %s; tn_u < %d; tn_u += %d) {",
          t->s.split_kv ? "tn_thread" : "threadIdx.x", rows * width / PIECE, THREADS);
  cs_line(e, "const int tn_r = tn_u / %d, tn_d = tn_u %% %d * %d;", width / PIECE, width / PIECE,
          PIECE);
}

void cs_attention_copy_queries(CEmit *e, const LoopTile *t) {
  const LoopTileAttention *a = &t->attention;
  open_rows(e, t, TILE_ROWS, width_of(t));
  cs_set_text(e, t->rows->sym, "tn_r");
  cs_set_text(e, a->product->sym, "tn_d");
  copy_rows(e, a->q, TILE_ROWS, "tn_queries", str_printf(e->arena, "tn_d < %d", (int)a->size));
  cs_close(e);
}

void cs_attention_copy_keys(CEmit *e, const LoopTile *t, const char *stage) {
  const LoopTileAttention *a = &t->attention;
  const char *within = str_printf(e->arena, "tn_key < tn_keys && tn_d < %d", (int)a->size);
  cs_line(e, "const unsigned tn_to = tn_ring + (%s) * %du;", stage, cs_attention_stage_bytes(t));
  open_rows(e, t, TILE_KEYS, width_of(t));
  cs_line(e, "const %s tn_key = tn_from + tn_r;", e->index);
  cs_set_text(e, t->sum->sym, "tn_key");
  cs_set_text(e, a->product->sym, "tn_d");
  copy_rows(e, a->k, TILE_KEYS, "tn_to", within);
  cs_close(e);
  open_rows(e, t, TILE_KEYS, t->s.n);
  cs_line(e, "const %s tn_key = tn_from + tn_r;", e->index);
  cs_set_text(e, t->cols->sym, "tn_d");
  copy_rows(e, a->v, TILE_KEYS, str_printf(e->arena, "tn_to + %d", cs_attention_key_bytes(t)),
            "tn_key < tn_keys");
  cs_close(e);
  cs_line(e, "asm volatile(\"cp.async.commit_group;\" ::: \"memory\");");
}

void cs_attention_stage(CEmit *e, const LoopTile *t, int keys,
                        void (*copy)(CEmit *e, const LoopTile *t, const char *stage)) {
  cs_open(e, "if (tn_block + 1 < tn_blocks) {");
  cs_line(e, "const %s tn_from = (%s)(tn_block + 1) * %d;", e->index, e->index, keys);
  copy(e, t, "(tn_block + 1) & 1");
  cs_line(e, "asm volatile(\"cp.async.wait_group 1;\" ::: \"memory\");");
  e->indent--;
  cs_open(e, "} else {");
  cs_line(e, "asm volatile(\"cp.async.wait_group 0;\" ::: \"memory\");");
  cs_close(e);
}

static void emit_stage(CEmit *e, const LoopTile *t) {
  cs_attention_stage(e, t, TILE_KEYS, cs_attention_copy_keys);
  cs_line(e, "asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");");
  cs_line(e, "__syncthreads();");
}

// ---- products ----

void cs_attention_wait(CEmit *e, const char *sums, int n, int in_flight) {
  cs_line(e, "asm volatile(\"wgmma.wait_group.sync.aligned %d;\" ::: \"memory\");", in_flight);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) asm volatile(\"\" : \"+f\"(%s[q]) :: \"memory\");", n,
          sums);
}

void cs_attention_scores(CEmit *e, const LoopTile *t, int keys, const char *queries,
                         const char *at) {
  cs_line(e, "asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");");
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int q = 0; q < %d; q++) {", width_of(t) / 16);
  cs_line(e, "tn_product(tn_s, tn_operand(%s + q / 4 * %d) + q %% 4 * 2,", queries,
          TILE_ROWS * ROW_BYTES);
  cs_line(e, "           tn_operand(%s + q / 4 * %d) + q %% 4 * 2, q);", at, keys * ROW_BYTES);
  cs_close(e);
  cs_line(e, "asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");");
}

void cs_attention_values(CEmit *e, int keys, const char *at) {
  cs_line(e, "asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");");
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++)", keys / 16);
  cs_line(e, "  tn_weigh(tn_sum, tn_w + q * 4, tn_values(%s + q * 2048, %d), 1);", at,
          keys * ROW_BYTES);
  cs_line(e, "asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");");
}

// ---- scores ----

// A score that is the product times a number, -infinity where comparisons of places say so: nothing
// of it depends on what is in memory.
typedef struct PlainScore {
  double scale;
  int n;
  const LoopExpr *seen[2];
} PlainScore;

static bool is_off(const LoopExpr *x) {
  return x->kind == LX_CONST && x->dtype == DT_F32 && isinf(x->f) && x->f < 0;
}

static bool read_plain(const LoopTile *t, PlainScore *out) {
  const LoopTileAttention *a = &t->attention;
  const LoopExpr *x = a->score;
  *out = (PlainScore){0};
  if (t->sum->body.n != 1) return false;
  while (x->kind == LX_OP && x->op == LOOP_select && is_off(x->src[2])) {
    const LoopExpr *c = x->src[0];
    bool places = c->kind == LX_OP && c->op == LOOP_le && c->src[0]->kind == LX_INDEX &&
                  c->src[1]->kind == LX_INDEX;
    if (!places || out->n == 2) return false;
    out->seen[out->n++] = c;
    x = x->src[1];
  }
  if (x->kind != LX_OP || x->op != LOOP_mul || x->src[0]->kind != LX_VAR ||
      x->src[0]->var != a->product->var || x->src[1]->kind != LX_CONST)
    return false;
  out->scale = x->src[1]->f;
  return out->scale > 0;
}

// Whether all keys of the block are seen by all queries of the warpgroup: each comparison where it
// is hardest to meet.
static const char *all_seen(CEmit *e, const LoopTile *t, const PlainScore *p, int keys) {
  StrBuf b;
  strbuf_init(&b, e->arena);
  strbuf_printf(&b, "(%s)tn_block * %d + %d <= tn_keys", e->index, keys, keys);
  for (int i = 0; i < p->n; i++) {
    bool last = p->seen[i]->src[0]->index == t->sum->sym;
    cs_set_text(
        e, t->sum->sym,
        str_printf(e->arena, "((%s)tn_block * %d + %d)", e->index, keys, last ? keys - 1 : 0));
    cs_set_text(e, t->rows->sym,
                str_printf(e->arena, "(tn_who * %d + %d)", TILE_ROWS, last ? 0 : TILE_ROWS - 1));
    cs_new_statement(e, p->seen[i]);
    strbuf_printf(&b, " && (%s)", cs_expr(e, p->seen[i]).text);
  }
  return strbuf_text(&b);
}

// Opens a loop over a thread's scores, with its query and key.
static void open_scores(CEmit *e, const LoopTile *t, int keys) {
  const char *i = cs_name(e, t->rows->sym->name), *key = cs_name(e, t->sum->sym->name);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int q = 0; q < %d; q++) {", keys / 2);
  cs_line(e, "const int %s = tn_who * %d + tn_warp * 16 + (tn_lane >> 2) + (q >> 1 & 1) * 8;", i,
          TILE_ROWS);
  cs_line(e, "const %s %s = (%s)tn_block * %d + (q >> 2) * 8 + (tn_lane & 3) * 2 + (q & 1);",
          e->index, key, e->index, keys);
  cs_set_text(e, t->rows->sym, i);
  cs_set_text(e, t->sum->sym, key);
}

static void mask_plain(CEmit *e, const LoopTile *t, const PlainScore *p, int keys) {
  cs_open(e, "if (!(%s)) {", all_seen(e, t, p, keys));
  open_scores(e, t, keys);
  const char *seen = str_printf(e->arena, "%s < tn_keys", e->sym[t->sum->sym->slot].text);
  for (int i = 0; i < p->n; i++) {
    cs_new_statement(e, p->seen[i]);
    seen = str_printf(e->arena, "%s && (%s)", seen, cs_expr(e, p->seen[i]).text);
  }
  cs_line(e, "if (!(%s)) tn_s[q] = -INFINITY;", seen);
  cs_close(e);
  cs_close(e);
}

// Each product becomes its score; keys that are not there count as masked, and are read as the last
// one is: without branches all that is read is in flight at once.
static void compute_scores(CEmit *e, const LoopTile *t, int keys) {
  const LoopTileAttention *a = &t->attention;
  LoopBlock lets = {t->sum->body.n - 1, t->sum->body.v + 1};
  open_scores(e, t, keys);
  const char *key = e->sym[t->sum->sym->slot].text;
  cs_line(e, "const %s tn_key = %s < tn_keys ? %s : tn_keys - 1;", e->index, key, key);
  cs_line(e, "const float tn_x = tn_s[q];");
  cs_set_text(e, t->sum->sym, "tn_key");
  e->var[a->product->var] = (CVal){.text = "tn_x", .dtype = DT_F32};
  cs_block(e, &lets);
  cs_new_statement(e, a->score);
  CVal v = cs_expr(e, a->score);
  cs_line(e, "tn_s[q] = %s < tn_keys ? %s : -INFINITY;", key, cs_atom(e, v).text);
  cs_close(e);
}

const char *cs_attention_masked(CEmit *e, const LoopTile *t, int keys) {
  PlainScore p;
  double unit = 1.4426950408889634;
  if (read_plain(t, &p)) {
    mask_plain(e, t, &p, keys);
    unit *= p.scale;
  } else {
    compute_scores(e, t, keys);
  }
  return cstyle_constant(e->arena, DT_F32, unit, 0);
}

void cs_attention_row_max(CEmit *e, int keys, const char *before) {
  cs_line(e, "float tn_m = %s;", before);
  cs_line(e, "#pragma unroll");
  cs_line(e,
          "for (int j = 0; j < %d; j++) tn_m = fmaxf(tn_m, fmaxf(tn_s[j * 4 + h * 2], "
          "tn_s[j * 4 + h * 2 + 1]));",
          keys / 8);
  cs_line(e, "tn_m = tn_most(tn_m);");
}

// Scores become weights, before they are rounded; tn_rescale is what the sums so far are scaled by.
const char *cs_attention_softmax(CEmit *e, const LoopTile *t, int keys) {
  const char *by = cs_attention_masked(e, t, keys);
  cs_line(e, "float tn_rescale[2];");
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int h = 0; h < 2; h++) {");
  cs_attention_row_max(e, keys, "tn_top[h]");
  cs_line(e, "const float tn_by = tn_factor(tn_m, %s);", by);
  cs_line(e, "const float tn_from = tn_m == -INFINITY ? 0.0f : -tn_m * tn_by;");
  cs_line(e, "tn_rescale[h] = tn_exp2(__fmaf_rn(tn_top[h], tn_by, tn_from));");
  cs_line(e, "tn_top[h] = tn_m;");
  cs_line(e, "float tn_sum_h = 0;");
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int j = 0; j < %d; j++) {", keys / 8);
  cs_line(e, "const float x = tn_exp2(__fmaf_rn(tn_s[j * 4 + h * 2], tn_by, tn_from));");
  cs_line(e, "const float y = tn_exp2(__fmaf_rn(tn_s[j * 4 + h * 2 + 1], tn_by, tn_from));");
  cs_line(e, "tn_sum_h += x + y;");
  cs_line(e, "tn_s[j * 4 + h * 2] = x, tn_s[j * 4 + h * 2 + 1] = y;");
  cs_close(e);
  cs_line(e, "tn_l[h] = tn_l[h] * tn_rescale[h] + tn_sum_h;");
  cs_close(e);
  return by;
}

// Weights, rounded, in pairs, as the products take them.
void cs_attention_pack(CEmit *e, int keys) {
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_w[q] = tn_pack(tn_s[q * 2], tn_s[q * 2 + 1]);",
          keys / 4);
}

void cs_attention_rescale(CEmit *e, const LoopTile *t) {
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_sum[q] *= tn_rescale[q >> 1 & 1];", t->s.n / 2);
}

// The four threads of a query's scores have parts of its sum of weights.
void cs_attention_row_sum(CEmit *e) {
  cs_line(e, "const float tn_whole[2] = {tn_all(tn_l[0]), tn_all(tn_l[1])};");
}

// ---- the kernel ----

static void emit_item(CEmit *e, const LoopTile *t) {
  cs_line(e, "const %s tn_keys = %s;", e->index, cs_dim(e, t->depth));
  cs_line(e, "const int tn_blocks = (int)((tn_keys + %d) / %d);", TILE_KEYS - 1, TILE_KEYS);
  cs_line(e, "float tn_sum[%d], tn_top[2] = {-INFINITY, -INFINITY}, tn_l[2] = {0.0f, 0.0f};",
          t->s.n / 2);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_sum[q] = 0.0f;", t->s.n / 2);
  cs_attention_copy_queries(e, t);
  cs_open(e, "{");
  cs_line(e, "const %s tn_from = 0;", e->index);
  cs_attention_copy_keys(e, t, "0");
  cs_close(e);
  cs_open(e, "for (int tn_block = 0; tn_block < tn_blocks; tn_block++) {");
  cs_line(e, "const unsigned tn_at = tn_ring + (tn_block & 1) * %du;", cs_attention_stage_bytes(t));
  emit_stage(e, t);
  cs_line(e, "float tn_s[%d];", TILE_KEYS / 2);
  cs_line(e, "unsigned tn_w[%d];", TILE_KEYS / 4);
  cs_attention_scores(e, t, TILE_KEYS, "tn_queries", "tn_at");
  cs_attention_wait(e, "tn_s", TILE_KEYS / 2, 0);
  cs_attention_softmax(e, t, TILE_KEYS);
  cs_attention_pack(e, TILE_KEYS);
  cs_attention_rescale(e, t);
  cs_attention_values(e, TILE_KEYS, str_printf(e->arena, "tn_at + %d", cs_attention_key_bytes(t)));
  cs_attention_wait(e, "tn_sum", t->s.n / 2, 0);
  cs_line(e, "__syncthreads();");
  cs_close(e);
  cs_attention_row_sum(e);
  cs_epilogue(e, t, NULL);
  cs_line(e, "__syncthreads();");
}

void cs_attention(CEmit *e, const LoopStmt *items, const LoopTile *t) {
  if (t->s.stages == 1) {
    cs_attention_short(e, items, t);
    return;
  }
  if (t->s.split_kv) {
    cs_attention_split_kv(e, items, t);
    return;
  }
  if (t->s.warpgroups > 1 || t->kind != MMA_HALF) {
    (t->s.warpgroups > 1 ? cs_attention_ring : cs_attention_f32)(e, items, t);
    return;
  }
  put_record(e, t);
  cs_line(e, "extern __shared__ unsigned char tn_raw[];");
  cs_line(e, "const unsigned tn_queries = (tn_shared_at(tn_raw) + 1023u) & ~1023u;");
  cs_line(e, "const unsigned tn_ring = tn_queries + %du;", cs_attention_query_bytes(t));
  cs_line(e, "const int tn_who = 0, tn_lane = threadIdx.x %% 32, tn_warp = threadIdx.x / 32;");
  cs_line(e, "%s", CUDA_LAUNCH_DEPENDENTS);
  cs_line(e, "%s", CUDA_WAIT_PREVIOUS);
  cs_tile_items(e, items, t);
  cs_name_quotients(e, items->sym, &items->body);
  emit_item(e, t);
  cs_close(e);
}
