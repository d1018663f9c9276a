// contract.h -- what the files of the contraction template share.
//
// A contraction has rows and columns of sums.  An element of a sum is lhs times rhs at a row, a
// column and a place along the contracted axes; the axes of the result that are neither rows nor
// columns, and the groups of a convolution, are taken one by one.  A tile of rows x columns is held
// in registers; for each contracted place one element of lhs a row meets a run of rhs along the
// columns, which is the vector.
#ifndef TENON_LOWER_CONTRACT_CONTRACT_H
#define TENON_LOWER_CONTRACT_CONTRACT_H

#include "lower/element/epilogue.h"
#include "lower/template.h"

// How a contraction is done.  Whatever the schedule, the products of a sum are added one after the
// other in the order of the contracted axes.  A staged image adds taps in the padding, which are 0,
// where they are otherwise left out; a packed dot product of bf16 rounds once a pair.
#define GEMM_SCHEDULE(I, B, C, T)                                                                  \
  I(T, rows, 0, 1, 64, 1, FREE, "rows of the register tile")                                       \
  I(T, cols, 0, 1, 256, 1, FREE, "columns of the register tile, and of a panel of packed weights") \
  I(T, item_rows, 0, 0, 1 << 24, 1, FREE, "rows of a work item, for images lines; 0: all rows")    \
  I(T, item_panels, 1, 1, 1 << 20, 1, FREE, "panels of `cols` columns of a work item")             \
  I(T, unroll, 1, 1, 64, 1, FREE, "unrolled K steps")                                              \
  I(T, prefetch, 0, 0, 1 << 16, 1, FREE, "prefetch distance of packed weights in bytes")           \
  I(T, k_block, 0, 0, 1 << 24, 1, FREE,                                                            \
    "K steps per block, with partial sums in scratch between blocks; 0: no blocking")              \
  I(T, tap_block, 0, 0, 1 << 16, 1, FREE,                                                          \
    "taps along a line that all its tiles take before the next ones; 0: each tile takes all")      \
  B(T, rows_first, false, FREE, "consecutive work items differ in rows first")                     \
  B(T, stage_lhs, false, FREE, "copy the rows of a tile to scratch first")                         \
  B(T, stage_rhs, false, FREE, "copy the columns of a tile to scratch first")                      \
  B(T, stage_image, false, ORDER,                                                                  \
    "copy the lines of an image with their padding to scratch first")                              \
  B(T, spill, false, FREE, "store sums to scratch before the epilogue")                            \
  B(T, transpose, false, FREE, "with spill: the epilogue reads the sums along the rows")           \
  B(T, packed_dot, false, ORDER, "packed dot products: 4 int8 or 2 bf16 elements along K")         \
  B(T, index_list, false, FREE,                                                                    \
    "leave out K steps whose weights are 0 in a whole panel, by a list of the others")
SCHEDULE_STRUCT(Gemm, GEMM_SCHEDULE);

typedef enum {
  AXIS_ZERO,
  AXIS_OUT,
  AXIS_K
} AxisRole;  // where an operand's index along an axis comes from
typedef struct AxisMap {
  uint8_t role;
  int index;
} AxisMap;

// A spatial axis of a convolution, as in eval/window.h.
typedef struct ContractAxis {
  int64_t kernel, stride, dilation, lo;
  Dim in, out;
  bool padded;  // a tap may lie outside
} ContractAxis;

// What pruned weights have left (lower/cpu/gemm/index_list.c).
enum { CONTRACT_LIST_VECTORS = 4 };
typedef struct ContractListWidth {
  int64_t cols, panels;
  int64_t steps, most;  // K steps of all panels; of the one that has the most
} ContractListWidth;
typedef struct ContractList {
  const float *weight;
  int64_t depth, columns, step, column;  // sizes; distances of two K steps and two columns
  int64_t blocks;                        // of a few columns
  uint8_t *kept;                         // [depth][blocks] whether a weight of it is not 0
  int nwidths;
  ContractListWidth width[CONTRACT_LIST_VECTORS];
} ContractList;

enum { CONTRACT_K = MAX_RANK + 1, CONTRACT_CUTS = 64, CONTRACT_SPLITS = 4 };
typedef struct Contraction {
  ElementBuilder *e;
  const Node *anchor, *lhs, *rhs;
  const Node *weight;  // rhs is this constant, outside the kernel; NULL: it is not one
  DType acc;
  int nout;
  Dim out[MAX_RANK];           // sizes of the anchor's result
  int row0, row1, col0, col1;  // its axes that are rows, and columns; each [a, b) counted through
  Dim m, n;                    // sizes of these; of the columns of one group
  int64_t groups;
  int nk;
  Dim k[CONTRACT_K];
  int64_t depth;  // product of the contracted sizes; 0: not known
  int ncuts;      // lhs is a concatenation along the last contracted axis: where its parts end, if
                  // staged
  int64_t cut[CONTRACT_CUTS];
  bool pieces;  // the one contracted axis is several loops: it is the sum of step[i] times loop i
  int64_t step[CONTRACT_K];
  AxisMap lhs_axis[MAX_RANK], rhs_axis[MAX_RANK];
  // convolutions: taps along the spatial axes are the first contracted ones, channels the last
  bool conv, transposed, depthwise;
  int nd, first_space, channel;  // axes of the result
  int64_t in_channels;           // of one group
  ContractAxis space[MAX_RANK];
  bool image;  // rows are pixels of a line, whose borders are known: no guards
  // Transposed images: pixels of a line that lie so far apart are taken together, since they have
  // the same taps; 0: no such image.  Along the other axes a tap's place is bound where it is found
  // to lie inside, and NULL elsewhere.
  int64_t phases;
  Dim bound[MAX_RANK];
  bool guarded;       // a load may lie outside
  bool divided_rows;  // lhs is read by the coordinates of a row, which are found by dividing by
                      // sizes not known yet
  bool strided;       // pixels are left out, and nothing else
  bool sides;         // the groups are pixels of a block, which all read the same channels
  const ContractList *list;  // of weights that are pruned; NULL: they are not, or it is no use
  bool swapped;              // rhs is what was lhs: rows are the columns of the weights
  const Node *row_weight;    // then lhs is this constant, outside the kernel, packed row by row
  int64_t row_pitch;         // from one of its rows to the next
  int64_t tap_pitch;         // and from one tap's channels to the next
  bool taps;  // swapped, and there are several taps or pads: columns are the pixels of a line
  // integers
  const Node *lhs_zero, *rhs_zero;
  // Words: so many elements along the last contracted axis are multiplied at once; 0: one
  // (lower/cpu/gemm/packed_dot.c)
  int64_t word;
  int word_axis;  // the axis of K that they are packed along: the last, or of depthwise images the
                  // one across lines
  bool direct;    // words of lhs are read in place, else from rows that are staged
  bool flip;      // lhs is signed: its bytes are read as unsigned, 128 more
  bool row_sums;  // the zero points of rhs are not all where words have theirs: rows of lhs are
                  // summed too
  bool biased;    // the bias is in `offset`
  const Node *scale;  // constant: of a quantised result's columns, all three joined; NULL: they are
                      // joined there
  const Node *offset;      // constant: what is added to a column's sum; NULL: nothing
  bool begun;              // the sums begin with it
  const Node *column_sum;  // constant: a column's sum of rhs, times the zero point of lhs taken
                           // off; NULL: it is none
} Contraction;

// One place: of the result, and along the contracted axes.
typedef struct ContractPoint {
  Dim out[MAX_RANK];
  Dim group, k[CONTRACT_K];
} ContractPoint;

// Whether a node behind an anchor is a function of many instructions, which sums go to through
// scratch.
bool contract_is_expensive(const Node *n);

// What the operands' elements are, seen from outside.
typedef struct ContractProbe {
  bool ok;
  bool lhs_plain, rhs_plain;  // loads; of rhs along the columns
  int32_t lhs_size;           // operations of an element of lhs
  bool lhs_looked_up;         // reading lhs takes statements, as of an index from data
  bool rows_contiguous;       // rows are contiguous in the result, columns strided
  bool lhs_k_contiguous;      // lhs is contiguous in the last axis of K
  int divided;                // a contracted loop that lhs divides by `divisor`
  int64_t divisor;            // 0: none
  int along;                  // the loop of K in which lhs is contiguous; -1: none
} ContractProbe;

// Whether the sums are formed of words of bytes or of bf16; then the constants that this takes are
// made.
bool contract_packed_dot(Contraction *c, const ContractProbe *p);
void contract_no_packed_dot(Contraction *c);  // takes it back
void contract_scales(
    Contraction *c);  // joins the scales of a quantised result where they are constants
// Whether the sums take int8 of either sign alone, with a correction per column; then its constants
// are made.
typedef struct ContractInt8 {
  bool rebiased;    // weights have a zero point of 128: they are packed as signed ones, which have
                    // none
  int64_t outside;  // what stands for a tap outside the image: the zero point of lhs
} ContractInt8;
bool contract_int8(Contraction *c, ContractInt8 *out);
bool contract_declare_columns(Contraction *c);  // constants with an element for each column
// The node's constant outside the kernel, or what it is itself; NULL when it is none.
const Node *contract_constant(const Contraction *c, const Node *n);
int64_t contract_steps(const Contraction *c,
                       int64_t elements);  // packed words along their axis

// Sums of so many int8 products are exact in f32.
enum { EXACT_PRODUCTS = 16777216 / (255 * 255) };
// The coefficient of a symbol in a sum.
int64_t contract_coefficient(Dim sum, Dim sym);
// What the operands are; writes their elements once, apart.
ContractProbe contract_probe(Contraction *c);

// False when the anchor is not one that this template does.  `blocks`: behind it channels become
// blocks of so many pixels, each with contiguous channels of its own; 1: blocks are made otherwise;
// 0: there are none.
bool contract_map(Contraction *c, ElementBuilder *e, const Node *anchor, int64_t blocks);
bool contract_sizes(Contraction *c);  // after elem_begin: sizes in the kernel's terms
void contract_lhs(const Contraction *c, const ContractPoint *at, Dim *index);
void contract_rhs(const Contraction *c, const ContractPoint *at, Dim *index);
// rhs as a constant in the order in which it is read: groups, panels, contracted axes, columns.
bool contract_pack(const Contraction *c, int64_t nr, PackSpec *out);
// The same as a matrix: columns of all groups, then the contracted axes.
bool contract_pack_rows(const Contraction *c, PackSpec *out);
void contract_choose(const Contraction *c, const LowerTarget *t, const ContractProbe *p,
                     bool expensive, const ScheduleGiven *given, GemmSchedule *out);
// Rows of a register tile of so many columns, by the registers.
int64_t contract_most_rows(const Contraction *c, const LowerTarget *t, int64_t lanes, int64_t nr);
// Whether the fields go together; `wide`: results have elements of more than 4 bytes.
bool contract_legal(const Contraction *c, const ContractProbe *p, bool wide, const GemmSchedule *s,
                    const char **why);

// ---- what is done with the sums (contract.c), for every template that forms some ----
typedef struct ContractEpilogue {
  EpilogueWalk walk;  // from the anchor's value to the results
  bool expensive;     // functions of many instructions stand behind the anchor
  bool wide;  // elements of more than 4 bytes do: vectors of these are shorter than those of the
              // sums
  int64_t blocks;  // pixels of a block, each with contiguous channels of its own; 1: otherwise; 0:
                   // there are no blocks
} ContractEpilogue;
typedef struct Epilogue {
  Contraction *c;
  ContractEpilogue *h;
  const Dim *index;  // where the sum is
  const LoopExpr *sum;
  const LoopExpr *row_sum;  // of lhs; NULL: not needed
  const LoopExpr *value;    // what the anchor gives there; NULL: not made yet
} Epilogue;
bool contract_epilogue(ContractEpilogue *h,
                       ElementBuilder *e);           // finds the one anchor, and what follows it
bool epilogue_give(Epilogue *f, ElementBuilder *e);  // the anchor's value is the sum at hand
// Stores every result that is made of the sum at an index, under the guards of the elements.
bool epilogue_store_sum(Epilogue *f, const Dim *index, const LoopExpr *sum,
                        const LoopExpr *row_sum);

// lower/cpu/gemm/swap.c: where rows are contiguous in lhs and in the result, they become columns.
bool contract_swap(Contraction *c, ContractEpilogue *h, ContractProbe *p, PackSpec *pack);

// lower/cpu/gemm/loops.c
enum { ROW_LANES = 16 };
typedef struct Tiler {
  Contraction *c;
  ElementBuilder *e;
  GemmSchedule s;
  int32_t packed;            // argument, or -1
  int32_t packed_rows;       // of a constant that is lhs: argument, or -1
  int32_t list;              // with index_list: argument
  int64_t most, list_pitch;  // steps that a panel of packed weights, and its list, have room for
  Dim listed;                // number of the step at hand in the panel's list; NULL: there is none
  bool guard_packed;         // it is read under the guards of the elements
  int32_t acc;               // register tile
  int32_t lhs_buf;           // staged rows, or -1
  int32_t rhs_buf;           // staged columns, or -1
  int32_t lines;             // staged lines of an image, or -1
  int32_t sums;              // spilled sums, or -1
  int32_t so_far;            // sums of the blocks before, or -1
  int32_t row_acc;           // sums of the rows of lhs, the same in each of ROW_LANES lanes, or -1
  int32_t row_sums;          // these spilled, or -1
  ContractPoint at;          // of the tile: what is the same for all of it
  Dim row, col;              // first row and column of the tile
  Dim group, panel;          // numbers
  Dim staged;                // blocks: the tile's first row among those that are staged
  Dim behind;                // blocks: contracted places before the one at hand
  Dim next;  // blocks: elements of the next panel that are fetched during the tile, from here on,
  int64_t each;   // and so many by each round of the innermost loop; NULL: none
  Dim line;       // staged lines: that of the result, counted from the item's first
  int64_t phase;  // of a transposed image: the first pixel of those at hand
  bool looped;    // of an image: taps along a line are loops, at its borders too
  bool border;    // then: the tile at hand may reach beyond the line, so that its loads are guarded
  Dim taps;       // tap_block: the first tap of the block at hand; NULL: none
  bool finished;  // tap_block: all sums are there
  bool (*finish)(struct Tiler *t, const Dim *index,
                 const LoopExpr *sum);  // stores what is made of a sum
  const LoopExpr *row_sum;              // of the row at hand, for `finish`
  void *ctx;
} Tiler;
bool contract_emit(Tiler *t);
// The parallel loop; gives the block of rows, and sets the places that an item stands at.
Dim contract_items(Tiler *t);
// What lower/cpu/gemm/blocked.c needs of it.
// The result's index at a row and a column, both counted through their axes.
void contract_place(Tiler *t, Dim row, Dim col, ContractPoint *at);
bool contract_ragged(const Tiler *t);  // the last panel has fewer columns
const LoopExpr *contract_lhs_value(Tiler *t, const ContractPoint *at);
const LoopExpr *contract_rhs_value(Tiler *t, const ContractPoint *at, Dim col);
Dim contract_packed(Tiler *t, const ContractPoint *at, Dim col);  // the element of packed rhs
int64_t contract_pitch(const Tiler *t);                           // from one staged row to the next
// So many steps from the block's first on, added to the tile.
bool contract_steps_of(Tiler *t, int64_t rows, int64_t count);
bool contract_epilogue_of_tile(Tiler *t, int64_t rows);

// lower/cpu/gemm/stage_lines.c
int64_t contract_lines_size(const Tiler *t);
bool contract_stage_lines(Tiler *t,
                          Dim first);  // for the item whose first line of the result it is
const LoopExpr *contract_staged_pixel(Tiler *t, Dim row, const Dim *k);

// lower/cpu/gemm/index_list.c
void contract_list_find(Contraction *c);  // looks whether the weights are pruned
// What they have left in panels of so many columns; NULL: there are no such panels.
const ContractListWidth *contract_list_width(const Contraction *c, int64_t cols);
// The columns of the fastest tile that walks a list; 0: none is faster than a dense one of
// `dense_cols`.
int64_t contract_list_choose(const Contraction *c, const LowerTarget *t, int64_t dense_cols);
bool contract_list_build(Tiler *t);  // makes the constants, and their arguments
bool contract_list_sums(Tiler *t, int64_t rows);

// lower/cpu/gemm/blocked.c
bool contract_blocks(Tiler *t, Dim row_block);
// A tile's sums so far, from scratch to registers or back.
void contract_move_sums(Tiler *t, int64_t rows, Dim cell, bool back);

// What lower/cpu/gemm/image.c needs of it.
typedef struct Rows {
  int64_t from, to;  // of the tile
} Rows;
// A loop that is not written where it runs once; *depth counts those that are.
Dim contract_open(Tiler *t, LoopKind kind, const char *name, Dim extent, int *depth);
void contract_close(Tiler *t, int depth);
bool contract_step(Tiler *t, Rows rows, const Dim *k);  // each row's element times a run of rhs
bool contract_inner(Tiler *t, Rows rows, Dim *k, int level);  // the innermost contracted loop
// Sums of a tile, and what is done with them.  `first` >= 0: where it begins, for the taps that
// leave the line.
bool contract_tile(Tiler *t, int64_t rows, int64_t first);

// lower/cpu/gemm/image.c
bool contract_image_rows(Tiler *t, Dim block);
bool contract_image_sums(Tiler *t, int64_t rows, int64_t first);
// Whether the taps along a line, which are written out tap by tap and tile by tile where they are
// few, are loops with this schedule.
bool contract_image_looped(const Contraction *c, const GemmSchedule *s);
// Rows of a tile that begins at pixel `first` whose tap `k` lies inside the line; taps along an
// axis that reach a line of the image, *skip before them.
Rows contract_rows_of_tap(const Tiler *t, int64_t first, int64_t rows, int64_t k);
Dim contract_taps_inside(Tiler *t, int d, Dim *skip);
// The sums of a tile of a depthwise image in words.  `first` >= 0: where the tile begins, for the
// taps that leave the line.
bool contract_depth_sums(Tiler *t, int64_t rows, int64_t first);

#endif
