// tile.h -- tile statements: an MMA tile (`mma`) and an attention tile (`attention`), which carry
// what they compute and their schedule.
//
//   mma %v0: f32 = half over i < 128, j < 256, k < 768 stages=4 warpgroups=2 {
//     a matrix %x[row = i + 128*floor(item/3) < n] stride 768
//     b matrix %w[col = j + 256*mod(item, 3) < 768] stride 768
//     ...                          epilogue: statements, once for each sum %v0
//   }
//
//   attention %v6: f32 total %v4: f32 = half over i < 64, c < 64, key < n stages=2 warpgroups=1 {
//     rows query = i + 64*item < n
//     columns column = c < 64
//     dot %v5: f32 over d < 64 of <load of q>, <load of k>
//     values <load of v>
//     box q at z, x of outer, rows, stride      optional; of k and v, too
//     ...                          let statements of the score
//     score mul(%v5, 0x1p-3)
//     ...                          epilogue: %v6 the weighted sum of values, %v4 the row sum
//   }
//
// A tile statement stands under the parallel loop alone.  Its `body` is what it means, in plain
// loops, which loop_mma_* and loop_attention_* write from the record:
//
//   for i < m { for j < n { reduce %v0 = add over k { yield mul(a, b) }  epilogue } }
//   for i < m { for c < n { reduce row max; reduce row sum; reduce weights * values; epilogue } }
//
// So whoever walks over statements, proves or runs them sees loops and needs no case for tiles.
// Who has tensor cores takes the record and the epilogue.  There the order of the sums is the
// machine's: the one exception to the rule that the tree has it.
//
// Operands of an MMA tile.  Each is
//  - a matrix that is K-major: element k of a row lies at row*stride + k.  What is beyond its last
//    row counts as 0, as TMA fills it;
//  - as `a`, a window over an image with channels last: rows are pixels of the result, the depth is
//    taps and then channels (implicit GEMM);
//  - as `a`, a value: an expression over the row and k whose loads are guarded by the row.  Threads
//    compute it.
// loop_tile_element gives the element of the first two from the record.
//
// Batches and groups.  `base` is a first row of the matrix that the item has, which is `all` rows
// in memory: that of a batch, or of the weights of a group.  `first` is a first column, or of a
// window a first channel.  Rows beyond `rows` may be another batch's: nothing of them is stored.
// Likewise channels of another group are multiplied with weights that are 0.
//
// Attention.  Weights are exp(score - row max), rounded to the type of the values; they are formed
// in one pass with a running row max.  q, k and v are loads in whole 16 bytes along d and the
// columns.  An operand that is [outer][rows][stride] in memory has a TMA box.
#ifndef TENON_LOOP_TILE_H
#define TENON_LOOP_TILE_H

#include "loop/loop.h"

enum {
  TILE_DEPTH_BYTES = 128,  // of the depth in a stage
  TILE_ROWS = 64,          // of a warpgroup's instruction
  TILE_COLS = 32,
  TILE_MOST_COLS = 256,
  TILE_MOST_SUMS = 192,  // registers of a thread that sums may fill
  TILE_RESIDENT_BYTES = 128 << 10,
  TILE_KEYS = 64,         // of a block, where one warpgroup computes
  TILE_RING_KEYS = 128,   // where several do
  TILE_SHORT_KEYS = 256,  // most of attention in one stage
  TILE_SHORT_SUMS = 160,  // registers of a thread for its scores and results, there
  TILE_SHORT_TILES = 4,   // of queries, there
  TILE_BOX = 64,          // elements of a row of TMA boxes
  TILE_TERMS = 4,         // of a number of rows that TMA is told: a sum of products of sizes,
  TILE_FACTORS = 4        // each of so many
};

// ---- kinds of products (mma.def) ----
typedef enum {
#define MMA(kind, ...) MMA_##kind,
#include "loop/mma.def"
  MMA_KINDS
} LoopMmaKind;
typedef struct LoopMmaInfo {
  const char *word;
  DType sum;
  int bytes;
  bool mixed, pingpong;
  int most_cols, most_stages;
  double rate, warp_rate;
  int column, once, row, split_blocks;
  const char *wgmma, *bits;
} LoopMmaInfo;
extern const LoopMmaInfo loop_mma[MMA_KINDS];
extern const char loop_mma_barred[];  // "|half|tf32|...": of all kinds
#define LOOP_MMA_WORDS (loop_mma_barred + 1)
const char *loop_mma_type(LoopMmaKind kind, DType t);  // as PTX calls it; NULL: none of this kind
bool loop_mma_takes(LoopMmaKind kind, DType a, DType b);

// ---- schedules ----
// F(name, default, doc).  m and n are the extents of the tile's two loops in the text; the others
// follow as name=value where they are not the default.
#define LOOP_TILE_SCHEDULE(F)                                                                      \
  F(stages, 0, "blocks of the depth, or of keys, that are in flight at once")                      \
  F(warpgroups, 0, "consumer warpgroups of a tile: each has 64 rows, or they split the depth")     \
  F(cluster, 1, "blocks of a cluster that split the depth, or attention's keys")                   \
  F(pingpong, 0, "two tiles of a block: one runs its main loop while the other runs its epilogue") \
  F(split_kv, 0, "parts of attention's keys, each a warpgroup's, two in a block; 0: one pass")
typedef struct LoopTileSchedule {
  int m, n;
#define F(name, dflt, doc) int name;
  LOOP_TILE_SCHEDULE(F)
#undef F
} LoopTileSchedule;

// ---- records ----
typedef enum { TILE_MATRIX, TILE_WINDOW, TILE_VALUE } LoopTileForm;
// A convolution of two spatial axes, the outer one first.  Pixels are `pixel` elements apart, lines
// `line`: `channels` and all of a line's, unless what counts as channels is several contiguous
// pixels, which overlap those of the next.
typedef struct LoopWindow {
  int64_t channels, pixel, line;
  Dim images;
  int64_t in[2], out[2], taps[2], stride[2], dilation[2], lo[2];
} LoopWindow;
typedef struct LoopTileOperand {
  uint8_t form;           // LoopTileForm
  const LoopExpr *value;  // the element; loop_tile_element sets it, or for TILE_VALUE who builds it
  LoopWindow window;
  int32_t buffer;  // TILE_VALUE: -1
  DType dtype;
  Dim sym;        // stands for the row where it is below `rows`
  Dim row;        // of the matrix, in terms of the item's symbols and the tile's variable
  Dim rows;       // of the matrix
  Dim stride;     // TILE_MATRIX: elements from one row to the next
  Dim base, all;  // of one batch or group; NULL: the matrix has `rows`
  Dim first;      // column or channel; NULL: 0
} LoopTileOperand;
// A TMA box of an operand of attention, which is [outer][rows][stride]: a head is 64 or 128 columns
// from x on, in the matrix z.
typedef struct LoopTileBox {
  bool is;  // there is one
  Dim x, z;
  Dim outer, rows;
  int64_t stride;  // elements of a row
} LoopTileBox;
typedef struct LoopTileAttention {
  LoopStmt *max, *total;              // reductions; of the weighted values: LoopTile.sum
  LoopStmt *product;                  // in that one: of a query and a key
  const LoopExpr *score, *q, *k, *v;  // in terms of it; q, k and v are loads
  int64_t size, columns;              // of a head's elements, and of the result's
  LoopTileBox box[3];                 // of q, k and v
} LoopTileAttention;
struct LoopTile {
  bool is_attention;
  uint8_t kind;  // LoopMmaKind
  LoopTileSchedule s;
  Dim depth;             // contracted: k, or attention's keys
  LoopTileOperand a, b;  // of attention the rows are queries and the columns those of the result
  LoopTileAttention attention;
  // of the body
  LoopStmt *rows, *cols;  // its loops, whose symbols are the tile's row and column
  LoopStmt *sum;          // the reduction over the depth
  int64_t after;          // statements of `cols` before the epilogue
};
typedef struct LoopTile LoopTile;

// The kernel's tile; NULL: it has none.
const LoopTile *loop_tile_of(const LoopKernel *k);
bool loop_find_tile(const LoopKernel *k, LoopTile *out);  // a copy of it; false: there is none
LoopBlock loop_tile_epilogue(const LoopTile *t);
int loop_tile_block(const LoopTile *t);  // elements of the depth in TILE_DEPTH_BYTES
// Whether record, schedule and body are those of a tile; else *why says what is wrong
// (verify_tile.c).  Of a kernel: whether it has one that is so.
bool loop_tile_check(const LoopKernel *k, const LoopStmt *s, const char **why);
bool loop_kernel_tile(const LoopKernel *k, const char **why);
// Why an MMA tile cannot have the schedule; NULL: it can.
const char *loop_mma_legal(LoopMmaKind kind, LoopTileForm form, const LoopTileSchedule *s);
bool loop_tile_counts(const LoopKernel *k, Dim d);  // whether TMA can be told the number
int loop_tile_short_keys(const LoopTile *t);        // of attention in one stage, by 16
// Bytes of resident weights: all columns there are, where one tile holds them along so many blocks
// of the depth, and there are many rows.  0: too many, or too few rows.
int64_t loop_tile_resident(Dim rows, Dim cols, int m, int n, int64_t blocks);

// ---- building ----
// Opens the statement and its two loops, until loop_tile_end.
LoopTile *loop_tile_begin(LoopBuilder *b, LoopStmtKind kind, const LoopTileSchedule *s,
                          const char *row, const char *col);
void loop_tile_end(LoopBuilder *b);
// The element of a matrix or a window at `k`.
const LoopExpr *loop_tile_element(LoopKernel *k, const LoopTileOperand *o, Dim at);
// Opens the sum, for values that need its variable, which it gives.
Dim loop_mma_depth(LoopBuilder *b, LoopTile *t, Dim depth);
// Kind and operands are set: closes the sum and gives it.  NULL: a value took statements, and there
// is no tile.
const LoopExpr *loop_mma_sum(LoopBuilder *b, LoopTile *t);
// Attention: opens a round over the keys, for statements of the score; gives the key.  Then of the
// dot product of a query and a key, of loads over d.
Dim loop_attention_keys(LoopBuilder *b, LoopTile *t, Dim keys);
Dim loop_attention_elements(LoopBuilder *b, LoopTile *t, int64_t size);
const LoopExpr *loop_attention_dot(LoopBuilder *b, LoopTile *t);  // kind, q and k are set
// The score and v are set: writes the reductions; gives the row sum and the weighted sum of values.
void loop_attention_sums(LoopBuilder *b, LoopTile *t, const LoopExpr **total, const LoopExpr **sum);

// ---- warps ----
// Where each warp multiplies by itself (mma.sync): its part of the tile, and where that is.
typedef struct LoopTileWarps {
  int rows, cols;                // of a warp
  int down, across;              // warps
  int threads, resident_blocks;  // of a block; blocks of a multiprocessor that have registers
  int bytes;                     // of shared memory
} LoopTileWarps;
// Whether mma.sync can do it; else *why says what is in the way.
bool loop_tile_warps(const LoopTile *t, LoopTileWarps *out, const char **why);

#endif
