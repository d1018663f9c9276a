// tile.h -- what stands in `tile` loops: a matrix of sums of products, and where its operands lie.
//
//   parallel item < N by 2 {       two tiles under way in a block, each with one warpgroup of its own; without `by` one
//   tile i < 128 by 4 {            rows; 4 blocks of the contracted axis under way at once
//     tile j < 256 by 2 {          columns; 2 warpgroups share the tile: its rows, or with 64 rows the contracted axis, by turns; more than 3
//                                  are those of 2, 4 or 8 blocks, of which each has its part of that axis
//       reduce %v0: f32 = add over k < K { yield mul(cast f32 (a[g*lda + k] if g = row0 + i < M),
//                                                    cast f32 (b[h*ldb + k] if h = col0 + j < N)) }
//       ...                        what is done with each sum
//
// Operands are both bf16, both f16, or both f32.  Numbers of f32 may each be rounded by tf32(), which the units do when they fetch them; where
// they are not, a product is formed of three that the units have (targets/cstyle/emit_tile_f32.c), within some 2^-21 of itself.
// Or they are bytes of either sign, each its own, as i32 with sums of i32, which wrap; or floats of 8 bits, f8e4m3 and f8e5m2, each its own, with sums
// of f32, of which the units cut off what lies 13 bits behind the largest of 128 products.
//
// An operand is
//  - a matrix that lies along the contracted axis, as above: what is beyond its last row counts as 0, so units that copy boxes of a matrix
//    into shared memory can fetch it;
//  - as lhs, a window over an image with channels last, as loop_tile_window writes it: rows are pixels of the result, the contracted axis is
//    taps and then channels, or lines of taps and then the channels of a whole line.  Units that walk over images fetch it;
//  - as lhs, any value of a row and a place along the contracted axis whose loads are guarded by the row: threads compute it.
// Attention is another form: rows are queries, columns those of the result, and three reductions over the keys follow one another, which machines
// do in one pass, with a running maximum.  `score` is the same function of the products in all three (let statements may belong to it):
//
//   reduce %m: f32 = max over key < n { reduce %s: f32 = add over d < D { yield mul(q, k) }  yield score(%s) }
//   let %top = select(eq(%m, -inf), 0, %m)
//   reduce %l: f32 = add over key < n { ...                      yield exp(sub(score(%s), %top)) }
//   reduce %o: f32 = add over key < n { ...                      yield mul(cast f32 (cast T (exp(sub(score(%s), %top)))), v) }
//   ...                            what is done with %o and %l
//
// q, k and v are loads of T along d and the columns, elsewhere in steps of 8 elements; q is guarded by the query, v by the column.
// Two or three warpgroups have 64 queries each and share keys and values, which must be boxes that the copy engine takes: whole heads of 64 or 128.  With one stage,
// of such boxes too, all keys are there at once, up to 256, and one warpgroup has up to four tiles of 64 queries, one after the other.
// With 64 queries and several ways the keys are in so many parts, each for a warpgroup, of which a block has two: blocks are a cluster, and the parts are added up in the end.
#ifndef TENON_LOOP_TILE_H
#define TENON_LOOP_TILE_H

#include "loop/loop.h"

enum {
  TILE_DEPTH_BYTES = 128,
  TILE_ROWS = 64,
  TILE_COLS = 32,
  TILE_MOST_COLS = 256,
  TILE_F32_COLS = 160,  // most of a tile of f32, whose sums take twice the registers
  TILE_F32_STAGES = 6,
  TILE_MOST_SUMS = 192,  // registers of a thread that sums may fill
  TILE_STAY_BYTES = 128 << 10,
  TILE_KEYS = 64,         // of a block, where one warpgroup computes
  TILE_RING_KEYS = 128,   // where several do
  TILE_SHORT_KEYS = 256,  // most of attention in one stage
  TILE_SHORT_SUMS = 160,  // registers of a thread for its scores and results, there
  TILE_SHORT_TILES = 4,   // of queries, there
  TILE_BOX = 64,          // elements of a row of boxes
  TILE_TERMS = 4,   // of a number of rows that the copy engine is told: a sum of products of sizes,
  TILE_FACTORS = 4  // each of so many
};

typedef enum { TILE_HALF, TILE_TF32, TILE_F32, TILE_INT8, TILE_FP8 } LoopTileProduct;
typedef enum { TILE_MATRIX, TILE_WINDOW, TILE_VALUE } LoopTileForm;
// A convolution of two spatial axes, the outer one first.  Pixels lie `pixel` elements apart, lines `line`: `channels` and all of a line's, unless
// what counts as channels is several pixels side by side, which overlap those of the next.
typedef struct LoopWindow {
  int64_t channels, pixel, line;
  Dim images;
  int64_t in[2], out[2], taps[2], stride[2], dilation[2], lo[2];
} LoopWindow;
typedef struct LoopTileOperand {
  uint8_t form;           // LoopTileForm
  const LoopExpr *value;  // below its conversion to the dtype of the sums
  LoopWindow window;
  int32_t buffer;  // TILE_VALUE: -1
  DType dtype;
  Dim row;     // of the matrix, in terms of the item's symbols and the tile's variable
  Dim rows;    // of the matrix
  Dim stride;  // TILE_MATRIX: elements from one row to the next
} LoopTileOperand;
// An operand of attention as the copy engine takes it: [outer][rows][stride], of which a head is 64 or 128 columns from x on, in the matrix z.
typedef struct LoopTileBox {
  bool is;  // it lies so
  Dim x, z;
  Dim outer, rows;
  int64_t stride;  // elements of a row
} LoopTileBox;
typedef struct LoopTileAttention {
  const LoopStmt *max, *total;        // reductions; of the weighted values: LoopTile.sum
  const LoopStmt *product;            // in that one: of a query and a key
  const LoopExpr *score, *q, *k, *v;  // in terms of it
  int64_t size, columns;              // of a head's elements, and of the result's
  LoopTileBox box[3];                 // of q, k and v
} LoopTileAttention;
typedef struct LoopTile {
  const LoopStmt *rows, *cols, *sum;
  bool is_attention;
  LoopTileAttention attention;
  uint8_t product;  // LoopTileProduct
  int block;        // elements of the contracted axis in TILE_DEPTH_BYTES
  int64_t after;    // statements before what is done with the sums
  LoopTileOperand a, b;
  int m, n, stages, groups;  // groups: of each tile, in one block
  int cluster;               // blocks that share a tile, along the contracted axis
  int parts;                 // of attention's keys, two in each block; else 0
  int at_once;               // tiles of a block
  Dim depth;
} LoopTile;

// Whether the copy engine can be told the number.
bool loop_tile_counts(const LoopKernel *k, Dim d);
// Whether the loop is the outer one of a tile; else *why says what is wrong.
bool loop_tile_match(const LoopKernel *k, const LoopStmt *s, LoopTile *out, const char **why);
// tile_attention.c: likewise of the statements in the two loops.
bool loop_tile_attention(const LoopKernel *k, LoopTile *t, const char **why);
int loop_tile_short_keys(const LoopTile *t);  // of attention in one stage, by 16
// The element of a window at a row (an index of the result's pixels) and a place along the contracted axis.
const LoopExpr *loop_tile_window(LoopKernel *k, int32_t buffer, const LoopWindow *w,
                                 const LoopBound *row, Dim at);
// Bytes of columns that stay in shared memory while one tile below the other is computed: all there are, where one tile holds them along so many
// blocks of the contracted axis, and there are many rows.  0: too many.
int64_t loop_tile_stay(Dim rows, Dim cols, int m, int n, int64_t blocks);
// Where each warp multiplies by itself (mma.sync): its part of the tile, and how these lie in it.
typedef struct LoopTileWarps {
  int rows, cols;       // of a warp
  int down, across;     // warps
  int threads, beside;  // of a block; blocks of a multiprocessor that have registers
  int bytes;            // of shared memory
} LoopTileWarps;
// Whether such units can do it; else *why says what is in the way.
bool loop_tile_warps(const LoopTile *t, LoopTileWarps *out, const char **why);
// The tile of a kernel; false: it has none.
bool loop_find_tile(const LoopKernel *k, LoopTile *out);

#endif
