// blocks.h -- what the templates of matrices in ggml's block types share: a slab of blocks,
// unpacked.
//
// A slab is some successive blocks of `cols` rows of the matrix, which are columns of the result.
// In scratch it has, with the column as the innermost index,
//   words    four elements of a column as bytes, each its q plus the layout's bias, in order of K;
//   of
//            plain types the words of the file
//   scale    i32 of each part, where parts have scales of their own
//   least    i32 of each part, likewise
//   d        f32 of each block; of plain types the scale of its tile
//   less     f32 of each block: what the minimum is multiplied by, its sign turned
#ifndef TENON_LOWER_CPU_BLOCKS_BLOCKS_H
#define TENON_LOWER_CPU_BLOCKS_BLOCKS_H

#include "eval/blocks.h"
#include "lower/element/epilogue.h"

typedef struct Unpack Unpack;
typedef void UnpackFn(Unpack *u);

// How kernels read a type.
typedef struct BlockLayout {
  int code;     // ggml's
  int bias;     // what bytes are above their q
  bool scales;  // parts have scales of their own
  UnpackFn *unpack;
  DType plain;  // elements of this type, which words hold as they are; else 0
  int bursts;  // parts in which prefetches of a block are issued while it is unpacked; not of plain
} BlockLayout;
const BlockLayout *block_layout(const GgmlType *t);  // NULL: kernels do not read it
// Of a plain type, whose elements are then taken as blocks of whole words; NULL likewise.
const BlockLayout *block_plain(const GgmlType *t);

struct Unpack {
  LoopBuilder *b;
  LoopKernel *k;
  IntPool *p;
  const GgmlType *t;
  const BlockLayout *layout;
  int64_t row_bytes, cols, slab;  // slab: blocks
  int32_t matrix;                 // its argument
  int32_t words, scale, least, d, less, head;
  int32_t tiles;  // plain types: the argument with the tiles' scales; else -1
  int64_t tile_rows, tile_k, tiles_row;  // sizes of a tile, and tiles of a row
  Dim row, block;                        // of column 0, and the first of the slab
  Dim at;                                // block of the slab at hand
  bool prefetch;  // while a block is unpacked, its like of the rows behind these is fetched
};

// Declares the scratch of a slab.
void unpack_buffers(Unpack *u);
void unpack_slab(Unpack *u);  // the slab at row and block
// Whether some prefetches for the rows behind these are left to the product: those with a part of a
// block of the slab.
bool unpack_fetches(const Unpack *u);
void unpack_fetch(const Unpack *u, Dim at, Dim part);

int64_t unpacked_each(const Unpack *u);  // elements of a word
// Where things of a slab's block stand.
Dim unpacked_word(const Unpack *u, Dim at, Dim word, Dim col);
Dim unpacked_part(const Unpack *u, Dim at, Dim part, Dim col);
Dim unpacked_block(const Unpack *u, Dim at, Dim col);
// Element i of a word, as f32, as ggml's decoder gives it.
const LoopExpr *unpacked_float(const Unpack *u, Dim at, Dim part, Dim word, int i, Dim col);

// The node itself or what it is a view of, where that is an argument; else -1.
int32_t blocks_argument(const ElementBuilder *e, const Node *n);
// The one node of this op in the kernel; NULL: none, or several.
const Node *blocks_anchor(ElementBuilder *e, const Node *fused, int op);

#endif
