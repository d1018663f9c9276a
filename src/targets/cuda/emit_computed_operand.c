// emit_computed_operand.c -- an MMA tile's lhs that threads compute (TILE_VALUE).
//
// For operands that TMA cannot fetch, such as im2col of few channels.  Each thread of the producer
// warpgroup computes a 32-bit word of elements along K and stores it where TMA would have put it.
//
// Needs:      emit_wgmma.c emits the kernel and calls cs_tile_values in the producer.
// Guarantees: elements beyond K are 0; their loads are clamped to the last one, without branches.
//             The stage's mbarrier completes after all words are visible to the async proxy.
#include "loop/tile.h"
#include "targets/cuda/emit.h"

enum { WARP = 32, WARPGROUP = 128 };

// How many neighbours along the depth make the word that a thread stores.
static int elements_of_word(const LoopTile *t) { return 4 / (int)cs_bytes(t->a.dtype); }

// Rows of a thread whose loads are in flight at once.
static int rows_together(const LoopTile *t) { return elements_of_word(t) == 4 ? 4 : 8; }

// One of them; 0 beyond the depth.  No branches, which would keep loads from overlapping.
static void put_element(CEmit *e, const LoopTile *t, const char *name, const char *at) {
  cs_set_text(e, t->sum->sym, at);
  cs_new_statement(e, t->a.value);
  CVal v = cs_expr(e, t->a.value);
  cs_line(e, "const unsigned %s = %s_in ? %s(%s) : 0u;", name, at, loop_mma[t->kind].bits, v.text);
}

// Places of a thread's word along the depth, and whether they are there; the last one
// stands in for those that are not.
static void put_places(CEmit *e, const LoopTile *t) {
  static const char *const name[] = {"tn_first_k", "tn_second_k", "tn_third_k", "tn_fourth_k"};
  const char *depth = cs_dim(e, t->depth);
  for (int i = 0; i < elements_of_word(t); i++) {
    cs_line(e, "int %s = tn_k * %d + tn_pair * %d + %d;", name[i], loop_tile_block(t),
            elements_of_word(t), i);
    cs_line(e, "const bool %s_in = %s < %s;", name[i], name[i], depth);
    cs_line(e, "if (!%s_in) %s = (int)(%s) - 1;", name[i], name[i], depth);
  }
}

// The word that a thread's neighbours make.
static void put_word(CEmit *e, const LoopTile *t) {
  put_element(e, t, "tn_first", "tn_first_k");
  if (elements_of_word(t) == 1) {
    cs_line(e, "tn_v[tn_r] = tn_first;");
    return;
  }
  put_element(e, t, "tn_second", "tn_second_k");
  if (elements_of_word(t) == 2) {
    cs_line(e, "tn_v[tn_r] = (tn_first & 0xffffu) | tn_second << 16;");
    return;
  }
  put_element(e, t, "tn_third", "tn_third_k");
  put_element(e, t, "tn_fourth", "tn_fourth_k");
  cs_line(e, "tn_v[tn_r] = (tn_first & 0xffu) | (tn_second & 0xffu) << 8 | "
             "(tn_third & 0xffu) << 16 | tn_fourth << 24;");
}

void cs_tile_values(CEmit *e, const LoopTile *t) {
  const char *i = cs_name(e, t->rows->sym->name);
  int together = rows_together(t);
  cs_line(e, "const int tn_pair = threadIdx.x %% %d;", WARP);
  cs_producer_open(e, t);
  cs_producer_acquire(e);
  cs_open(e, "if (threadIdx.x == 0) {");
  cs_line(e, "tn_bar_expect(tn_full, %d);", t->s.n * TILE_DEPTH_BYTES);
  cs_line(e, "tn_fetch(tn_at + %d, &tn_map_b, tn_k * %d, tn_col, tn_full);",
          t->s.m * TILE_DEPTH_BYTES, loop_tile_block(t));
  cs_close(e);
  put_places(e, t);
  cs_open(e, "for (int tn_g = 0; tn_g < %d; tn_g++) {", t->s.m / (together * WARPGROUP / WARP));
  cs_line(e, "unsigned tn_v[%d];", together);
  cs_line(e, "#pragma unroll");
  cs_open(e, "for (int tn_r = 0; tn_r < %d; tn_r++) {", together);
  cs_line(e, "const int %s = threadIdx.x / %d + (tn_g * %d + tn_r) * 4;", i, WARP, together);
  cs_set_text(e, t->rows->sym, i);
  put_word(e, t);
  cs_close(e);
  cs_line(e, "#pragma unroll");
  cs_line(e, "for (int tn_r = 0; tn_r < %d; tn_r++)", together);
  cs_line(e,
          "  tn_put_pair(tn_at, threadIdx.x / %d + (tn_g * %d + tn_r) * 4, tn_pair, tn_v[tn_r]);",
          WARP, together);
  cs_close(e);
  cs_line(e, "asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");");
  cs_line(e, "__syncwarp();");
  cs_line(e, "if (tn_pair == 0) tn_bar_arrive(tn_full);");
  if (t->kind == MMA_F32) {
    cs_line(e, "const unsigned tn_round = tn_parity ^ 1u;");
    cs_tile_f32_low(e, t, 0, WARPGROUP);
  }
  cs_tile_advance(e, t);
  cs_close(e);
}
