// emit_wgmma_f32.c -- MMA tiles of f32 by 3xTF32: what emit_wgmma.c has besides for them.
//
// Tensor cores read the first 10 mantissa bits of an f32.  So x = high + low: high is what they
// read of x, and low = x - high, exact, is rounded to 10 bits.  A product is low*high + high*low +
// high*high.  Tensor cores add 32 products, small ones first; these sums are added in f32, since
// tensor cores truncate instead of rounding.
//
// Rows are loaded into registers, where each thread splits its numbers.  Columns are read from
// shared memory as fetched.  Three warps of the producer warpgroup write their low parts behind
// them, with an mbarrier of their own.
//
// Needs:      kind MMA_F32; stages with room for the low parts of the columns.
// Guarantees: a product is within 2^-20 of the f32 one.  The low part of an infinity is NaN, so
//             sums that are not finite are formed again in f32, in order.
#include "loop/tile.h"
#include "targets/cuda/emit.h"

enum { WARP = 32, STEPS = 4, ROWS_PITCH = TILE_ROWS * TILE_DEPTH_BYTES };

// clang-format off
static const char f32_top[] =
    "TN_FN float tn_high(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }\n"
    "TN_FN float tn_low(float x) {\n"
    "  const float r = x - tn_high(x);\n"
    "  return __uint_as_float(__float_as_uint(r) + 0x1000u);\n}\n"
    "TN_FN float tn_word(unsigned at) {\n"
    "  float x;\n"
    "  asm volatile(\"ld.shared.f32 %0, [%1];\" : \"=f\"(x) : \"r\"(at) : \"memory\");\n"
    "  return x;\n}\n"
    "TN_FN void tn_write_low(unsigned from, unsigned to, int first, int step, int count) {\n"
    "  #pragma unroll 4\n"
    "  for (int i = first; i < count; i += step) {\n"
    "    float x, y, z, w;\n"
    "    asm volatile(\"ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\" : \"=f\"(x), \"=f\"(y), \"=f\"(z), \"=f\"(w) : \"r\"(from + i * 16) : \"memory\");\n"
    "    asm volatile(\"st.shared.v4.f32 [%0], {%1, %2, %3, %4};\" :: \"r\"(to + i * 16), \"f\"(tn_low(x)), \"f\"(tn_low(y)), \"f\"(tn_low(z)), \"f\"(tn_low(w)) : \"memory\");\n"
    "  }\n}\n"
    "/* What is infinite or no number. */\n"
    "TN_FN bool tn_odd(float x) { return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u; }\n";
// clang-format on

// The instruction with the rows in registers.
void cs_tile_f32_top(const LoopTile *t, StrBuf *out) {
  int regs = t->s.n / 2;
  strbuf_puts(out, f32_top);
  strbuf_printf(out,
                "TN_FN void tn_product(float (&d)[%d], const float *a, unsigned long long b, int "
                "more) {\n  asm volatile(\"{ .reg .pred p; setp.ne.b32 p, %%%d, 0; \"\n"
                "    \"wgmma.mma_async.sync.aligned.m64n%dk8.f32.tf32.tf32 {\"\n    \"",
                regs, regs + 5, t->s.n);
  for (int i = 0; i < regs; i++) strbuf_printf(out, "%s%%%d", i ? ", " : "", i);
  strbuf_printf(out, "}, \"\n    \"{%%%d, %%%d, %%%d, %%%d}, %%%d, p, 1, 1; }\"\n    : ", regs,
                regs + 1, regs + 2, regs + 3, regs + 4);
  for (int i = 0; i < regs; i++) strbuf_printf(out, "%s\"+f\"(d[%d])", i ? ", " : "", i);
  strbuf_puts(out, "\n    : ");
  for (int i = 0; i < 4; i++) strbuf_printf(out, "\"r\"(__float_as_uint(a[%d])), ", i);
  strbuf_puts(out, "\"l\"(b), \"r\"(more));\n}\n");
}

// ---- the low parts of columns ----

static const char *ready(CEmit *e, const LoopTile *t) {
  return str_printf(e->arena, "tn_bars + %du + tn_s * 8u", t->s.stages * 16);
}

void cs_tile_f32_low(CEmit *e, const LoopTile *t, int first, int threads) {
  int columns = t->s.m * TILE_DEPTH_BYTES, low = columns + t->s.n * TILE_DEPTH_BYTES;
  cs_line(e, "tn_bar_wait(tn_full, tn_round);");
  cs_line(e, "tn_write_low(tn_at + %du, tn_at + %du, threadIdx.x - %d, %d, %d);", columns, low,
          first, threads, t->s.n * TILE_DEPTH_BYTES / 16);
  cs_line(e, "asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");");
  cs_line(e, "__syncwarp();");
  cs_line(e, "if (threadIdx.x %% %d == 0) tn_bar_arrive(%s);", WARP, ready(e, t));
}

// ---- products ----

static void take_rows(CEmit *e, bool split_k) {
  cs_line(e, "const unsigned tn_from = tn_at + %s * %du + tn_place;", split_k ? "0" : "tn_who",
          ROWS_PITCH);
  cs_line(e, "float tn_x[%d], tn_y[%d];", STEPS * 4, STEPS * 4);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int q = 0; q < %d; q++) {", STEPS * 4);
  cs_line(e, "const float x = tn_word((tn_from ^ (q / 2 * 16u)) + q %% 2 * 1024u);");
  cs_line(e, "tn_x[q] = tn_high(x), tn_y[q] = tn_low(x);");
  cs_close(e);
}

// Of one stage, which is given back as soon as they are done: while this warpgroup adds and
// fetches, another one's are in flight.
void cs_tile_f32_products(CEmit *e, const LoopTile *t, bool split_k) {
  take_rows(e, split_k);
  cs_line(e, "tn_bar_wait(%s, tn_parity);", ready(e, t));
  cs_line(e, "const unsigned long long tn_b = tn_operand(tn_at + %du);", t->s.m * TILE_DEPTH_BYTES);
  cs_line(e, "const unsigned long long tn_c = tn_operand(tn_at + %du);",
          (t->s.m + t->s.n) * TILE_DEPTH_BYTES);
  cs_line(e, "float tn_part[%d];", t->s.n / 2);
  cs_line(e, "asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");");
  static const char *const product[] = {"tn_y + q * 4, tn_b + q * 2, q",
                                        "tn_x + q * 4, tn_c + q * 2, 1",
                                        "tn_x + q * 4, tn_b + q * 2, 1"};
  for (int i = 0; i < 3; i++) {
    cs_line(e, "#pragma unroll");
    cs_line(e, "for (int q = 0; q < %d; q++) tn_product(tn_part, %s);", STEPS, product[i]);
  }
  cs_line(e, "asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");");
  cs_line(e, "asm volatile(\"wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");");
  cs_line(e, "if (tn_lane == 0) tn_bar_arrive(tn_bars + tn_s * 16u + 8);");
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int q = 0; q < %d; q++) {", t->s.n / 2);
  cs_line(e, "asm volatile(\"\" : \"+f\"(tn_part[q]) :: \"memory\");");
  cs_line(e, "tn_sum[0][q] += tn_part[q];");
  cs_close(e);
}

// Where a thread's rows begin in a tile of 64.
void cs_tile_f32_place(CEmit *e) {
  cs_line(e,
          "const unsigned tn_place = (tn_warp * 16 + (tn_lane >> 2)) * %du + (tn_lane >> 2) * "
          "16u + (tn_lane & 3) * 4u;",
          TILE_DEPTH_BYTES);
}

// ---- sums that are not finite ----

void cs_tile_f32_check(CEmit *e, const LoopTile *t) {
  const char *i = cs_name(e, t->rows->sym->name), *j = cs_name(e, t->cols->sym->name);
  LoopBlock sum = {1, t->cols->body.v};
  int regs = t->s.n / 2;
  cs_line(e, "bool tn_any = false;");
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_any |= tn_odd(tn_sum[0][q]);", regs);
  cs_open(e, "if (tn_any) {");
  cs_line(e, "float tn_again[%d];", regs);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_again[q] = tn_sum[0][q];", regs);
  cs_line(e, "#pragma unroll 1");
  cs_open(e, "for (int tn_q = 0; tn_q < %d; tn_q++) {", regs);
  cs_line(e, "if (!tn_odd(tn_again[tn_q])) continue;");
  cs_line(e, "const int %s = tn_who * %d + tn_warp * 16 + (tn_lane >> 2) + (tn_q & 2) * 4;", i,
          TILE_ROWS);
  cs_line(e, "const int %s = (tn_q >> 2) * 8 + (tn_lane & 3) * 2 + (tn_q & 1);", j);
  e->sym[t->rows->sym->slot] = (CSym){.kind = CSYM_TEXT, .text = i};
  e->sym[t->cols->sym->slot] = (CSym){.kind = CSYM_TEXT, .text = j};
  cs_block(e, &sum);
  cs_line(e, "tn_again[tn_q] = %s;", e->var[t->sum->var].text);
  cs_close(e);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int q = 0; q < %d; q++) tn_sum[0][q] = tn_again[q];", regs);
  cs_close(e);
}
