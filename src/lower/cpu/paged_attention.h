// paged_attention.h -- what the files of template paged_attention share.
#ifndef TENON_LOWER_CPU_PAGED_ATTENTION_H
#define TENON_LOWER_CPU_PAGED_ATTENTION_H

#include "lower/element/epilogue.h"
#include "lower/template.h"

enum {
  PAGED_Q,
  PAGED_K,
  PAGED_V,
  PAGED_SEQ,
  PAGED_POS,
  PAGED_TABLE,
  PAGED_SINKS,
  PAGED_SLOPES,
  PAGED_K_SCALE,
  PAGED_V_SCALE
};

typedef struct Paged {
  ElementBuilder e;
  EpilogueWalk walk;
  const Node *anchor;
  const struct paged_attention_attrs *at;
  const Node *sinks, *slopes, *k_scale, *v_scale;  // NULL: absent
  Dim rows, pages, row_pages, table_rows;
  int64_t heads, kv_heads, group, size, vsize;
  double scale;
  bool copy_k, copy_v;  // elements are more than a load of f32
  // schedule
  int64_t most;               // rows of a work item, at most
  int64_t key_tile;           // query heads of all rows whose scores are summed at once
  int64_t value_tile, width;  // those of a tile of results, and its columns
  // scratch.  A row of it is a query head of a row of the run: r * group + g.
  int32_t q, s, out, split_out, top, sum, split_top, split_sum, kt, k, v;
  int32_t tile;  // registers
  // where the loops stand
  Dim per_item, t0, head;          // rows of an item; its first row; KV head
  Dim run, run_rows;               // of the run: its first row in the item, its rows
  Dim length, last, first, count;  // keys of its first and last row; first key of its first row;
                                   // all its scratch rows
  Dim seq, split, page, in_split;  // page: of the state; in_split: its number in the split
  const LoopExpr *value;           // of the result's element at hand
} Paged;

// The operands, and what is made of the result; NULL: it is none, or not for kernels.
Paged *paged_begin(Lowering *lo, const Node *fused);
// paged_attention_loops.c: the loops of template paged_attention.  False when an operand has no
// expression.
bool paged_emit(Paged *a);

#endif
