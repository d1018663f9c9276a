// attention.h -- what the files of the attention template share.
#ifndef TENON_LOWER_CPU_ATTENTION_H
#define TENON_LOWER_CPU_ATTENTION_H

#include "lower/element/epilogue.h"
#include "lower/template.h"

// A contiguous run of keys and values: those of the KV cache, or the current ones.
typedef struct KeyRun {
  const Node *k, *v;
  Dim first;            // number of its first key among all
  Dim count;            // keys
  bool copy_k, copy_v;  // elements cost more than a load: computed once for a block
} KeyRun;

typedef struct Attention {
  ElementBuilder e;
  EpilogueWalk walk;
  const Node *anchor;
  const struct attention_attrs *at;
  DType t;  // of the sums
  Dim batch, seq, total, past;
  int64_t heads, kv_heads, size, vsize;
  double scale;
  KeyRun run[2];
  int nruns;
  const Node *mask, *nonpad;  // NULL: absent
  Dim mask_keys;              // that the mask reaches, where it may be fewer than all; else NULL
  // schedule
  int64_t share;    // heads whose queries lie together, query by query: 1, or all that share keys
  int64_t queries;  // of a work item, of all these heads
  int64_t rows;     // queries of a tile of results
  int64_t keys;     // of a tile of scores
  bool lane_sums;   // queries: a score is a sum over lanes, and queries are read in place
  int64_t width;    // columns of a tile of results
  int64_t block;    // keys at a time
  bool online;      // there may be more than one block
  bool ragged;      // the last item may have fewer queries
  // scratch: queries and scores are transposed, [element][query] and [key][query]
  int32_t q, s, k, v, top, before, sum, rescale, out, never;
  int32_t tile;  // registers
  int32_t raw;   // what scores are summed in: the tile, or scratch
  // where the loops stand
  Dim b, h, kv_head,
      q0;      // q0: of the item's first query, among those of all heads that lie together
  Dim offset;  // position of query 0 among the keys
  const LoopExpr *value;  // of the result's element at hand
} Attention;

// attention.c: finds the operands; false when the kernel is none.  The result's element is
// a->value.
bool attention_begin(Attention *a, Lowering *lo, const Node *fused);
// attention_loops.c: the loops.  False when an operand has no expression.
bool attention_emit(Attention *a);
// Opens the loop over items, each a block of a head's queries.
void attention_items(Attention *a);
// Keys that causal queries up to `end` see.
Dim attention_causal(Attention *a, Dim end);
// The score x with the mask's element m, which hides the keys that it does not reach.
const LoopExpr *attention_hidden(Attention *a, const LoopExpr *x, const LoopExpr *m, Dim key);
// Element x of row s of a head, in the sums' dtype.
const LoopExpr *attention_head(Attention *a, const Node *n, Dim head, int64_t size, Dim s, Dim x);
// The element of the result that `x` is, for query q0 + i and column c, stored with all that is
// done with it.
bool attention_store(Attention *a, const LoopExpr *x, Dim i, Dim c);
// Queries of the heads that lie together; and of one of these, its number in the sequence and its
// head.
Dim attention_rows(Attention *a);
Dim attention_query(Attention *a, Dim row);
Dim attention_row_head(Attention *a, Dim row);

#endif
