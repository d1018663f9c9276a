// emit.h -- one kernel on its way from the loop tree to text; inside targets/cstyle alone.
//
// Values.  A value is a C expression of its dtype's type: bool is an int that is 0 or 1, and the narrow floats are integers that hold their bits.
// A vector of bools is a mask, 0 or -1 in each lane, with elements as wide as what was compared.
//
// Vectors.  Inside a `vector` loop, or a reduction with lanes, `lanes` values are computed at once.  What does not depend on the
// vector variable stays a scalar until it meets one that does.  Where lanes go different ways (a branch, an index that is no base + stride
// * lane), `not_vector` is set and the loop is written again as a plain one.
//
// Errors.  `cs_fail` notes the first reason why there is no such text; emission goes on until it ends.
#ifndef TENON_TARGETS_CSTYLE_EMIT_H
#define TENON_TARGETS_CSTYLE_EMIT_H

#include "targets/cstyle/cstyle.h"

typedef struct CVal {
  const char *text;
  DType dtype;
  int lanes;  // 0: a scalar
  int mask;   // bytes of an element of a vector of bools
  bool sum;   // has operators outside of parentheses
  bool constant;
  double f;  // constant: of a float dtype
  int64_t i;
} CVal;

// An index over the lanes: text + c + stride * lane.
typedef struct CLin {
  const char *text;  // NULL: 0
  bool sum;
  int64_t c, stride;
  int64_t align;  // text + c is a multiple of this; 0 for the number 0
} CLin;

typedef enum { CSYM_NONE, CSYM_TEXT, CSYM_NUMBER, CSYM_DIM } CSymKind;
typedef struct CSym {
  uint8_t kind;
  bool varies;  // one more in each lane
  const char *text;
  int64_t value;  // CSYM_NUMBER
  Dim dim;        // CSYM_DIM: a guarded index, by its value
} CSym;

// What is one row for all rows of a tile, and read before it is needed: a thread's neighbours of each of its groups of columns.
typedef struct CEarly {
  const char *slot;  // the group at hand, of so many
  int slots, n, registers;
  StrBuf rooms, loads;
  struct {
    int32_t buffer;
    Dim index;
    const char *name;
  } known[4];
} CEarly;

// Elements of neighbouring rounds of a loop that go to memory and back in one piece: loads before the loop, stores behind it.
typedef struct CWide {
  Dim sym;            // the loop's variable
  const char *first;  // what it is in the first round, a multiple of their number
  const char *round;
  int count;
  const char *column;  // of a tile: the first of those that a warp has
  bool asks;           // stores whether the row is there
  CEarly *early;       // NULL: nothing is read early
  StrBuf before, after;
  StrBuf odd;  // not 0 where a buffer does not begin where pieces may
  int32_t stored[8];
  int nstored;
  int pieces;   // how many there are
  bool failed;  // it may not be done so
} CWide;
// A matrix that goes through a tile's ring (emit_aside.c), in boxes of 64 rows.
typedef struct CBoxes {
  int32_t buffer;
  int cols, bytes;       // of a box
  int of_stage, stages;  // how many times all rows' boxes a stage has, and how many stages it takes
} CBoxes;
typedef struct CAside {
  const LoopExpr *load;   // what comes through the ring; NULL: nothing does
  const LoopStmt *store;  // what the copy engine takes to memory; NULL: threads store
  CBoxes in, out;
  int stages;   // of the ring, behind those of the products
  int buffers;  // of a warpgroup, a box each
} CAside;
enum { CS_ROWS_INSIDE = 1, CS_COLS_INSIDE = 2 };

typedef struct CEmit {
  CStyle *c;
  const Spelling *sp;
  const LoopKernel *k;
  Arena *arena;
  tenon_status status;
  StrBuf *out;
  int indent;
  bool vectors, not_vector;
  bool chunked;       // something was written in chunks of lanes, or written out
  int lanes;          // 0: scalar code
  const char *index;  // the type of indices
  int64_t threads;    // of a group, where the language has groups; 0: thread loops are serial ones
  const LoopTile *tile;  // for the units for matrices; NULL: tile loops are serial ones
  uint8_t inside;        // what is known to lie within the tile's result: its rows, its columns
  const CAside *aside;   // of a tile
  CWide *wide;           // memory goes in pieces; NULL: by elements
  Dim thread;            // the variable of the thread loop around
  IntMap barrier;        // thread loop -> fences
  bool *swapped;         // by buffer: shared memory that lies in its threads' registers
  const char *in_pack;   // the variable of the loop whose elements are read and stored at once
  IntMap pack;           // there: load or store -> where its elements are
  IntMap quotient;       // Dim -> name of a quotient or remainder that was computed before
  const struct Ahead *ahead;  // in a loop that reads a round ahead: what it reads
  int runs_ahead;             // the most of such a loop: they take registers
  StrBuf early;               // what may be done before the kernel before has ended
  int where;                  // blocks around that not all threads enter
  CSym *sym;                  // by slot
  CVal *var;                  // by variable
  const char **buffer;        // names
  const char **base;          // of arguments: where they are counted from, then by how many bytes
  bool *buffer_used, *var_used, faults;
  StrMap names;
  IntMap memo, uses;  // LoopExpr * -> index in vals, within a statement; how often it is used there
  VEC(CVal) vals;
} CEmit;

// From here on the symbol is this text.
static inline void cs_set_text(CEmit *e, Dim sym, const char *text) {
  e->sym[sym->slot] = (CSym){.kind = CSYM_TEXT, .text = text};
}

void cs_fail(CEmit *e, const char *fmt, ...) PRINTF(2, 3);
void cs_line(CEmit *e, const char *fmt, ...) PRINTF(2, 3);
void cs_open(CEmit *e, const char *fmt, ...) PRINTF(2, 3);  // a line that ends in {
void cs_close(CEmit *e);
const char *cs_name(CEmit *e, const char *base);  // that no other has
const char *cs_type(CEmit *e, DType t, int lanes);
const char *cs_mask_type(CEmit *e, int bytes, int lanes);
int64_t cs_bytes(DType t);
// Vectors: the same bits as another type, each element converted, a list of elements, one lane of a value.
const char *cs_as(CEmit *e, const char *type, const char *text);
const char *cs_convert(CEmit *e, const char *type, const char *text);
const char *cs_list(CEmit *e, const char *type, const char *elements);
const char *cs_lane(CEmit *e, const char *text, int i);
const char *cs_replace(CEmit *e, const char *form, const char *name);  // every @ of form by name

// ---- statements (emit.c), and the function around them (emit_kernel.c) ----
void cs_block(CEmit *e, const LoopBlock *b);
// Whether a block begins with a thread loop that does nothing but ask for memory: what waits for the kernel before comes after it.
bool cs_asks_only(const LoopBlock *b);
#define CS_WAIT     "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");"
#define CS_LET_NEXT "asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");"
void cs_fault(CEmit *e, const char *when, int32_t check);  // where `when` is true the check failed

// ---- tiles (emit_tile.c), and attention in them (emit_attention.c) ----
void cs_tile(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_tile_items(CEmit *e, const LoopStmt *items, const LoopTile *t);  // opens the loop over them
// The one whose number is tn_t.
void cs_tile_item(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_tile_product(const LoopTile *t, int n, StrBuf *out);  // the instruction for n columns
const char *cs_tile_sum(const LoopTile *t);                   // the type of its sums
const char *cs_tile_type(const LoopTile *t, DType d);         // what instructions call an operand's
void cs_tile_values(CEmit *e,
                    const LoopTile *t);  // all stages of a tile whose rows are values
// What all kernels with tiles call: an address in shared memory; the order of tiles, and a function that follows products.
extern const char cs_tile_address[], cs_tile_ending[];
// Where each warp multiplies by itself (emit_mma.c).
void cs_mma(CEmit *e, const LoopStmt *items, const LoopTile *t);
int cs_mma_beside(const LoopTile *t);  // blocks of it on a multiprocessor
// Of f32 (emit_tile_f32.c): the instruction; low parts of the columns of a stage by threads of the warpgroup that fetches; where a thread's rows begin;
// products of a stage; sums that are not finite once more.
void cs_tile_f32_top(const LoopTile *t, StrBuf *out);
void cs_tile_f32_low(CEmit *e, const LoopTile *t, int first, int threads);
void cs_tile_f32_place(CEmit *e);
void cs_tile_f32_products(CEmit *e, const LoopTile *t, bool turns);
void cs_tile_f32_check(CEmit *e, const LoopTile *t);
// What is done with each sum; what it reads before that comes into `early`, which may be NULL.
void cs_tile_sums(CEmit *e, const LoopTile *t, StrBuf *early);
// Where a warp's sums lie in the tile: tn_sum[tn_b] are 16 rows from `row` on, by groups tn_p of 16 columns from `column` on.
typedef struct CSumsPlace {
  int blocks, cols;
  const char *row, *column;
} CSumsPlace;
void cs_tile_sums_at(CEmit *e, const LoopTile *t, const CSumsPlace *p, StrBuf *early);
int cs_tile_stage_bytes(const LoopTile *t);
// Of columns that are fetched with a block's first tile only.
int cs_tile_stay_bytes(const LoopTile *t);
int cs_tile_ring_bytes(const LoopTile *t);  // all stages, and columns that stay
int cs_tile_crew(const LoopTile *t);        // warpgroups that compute
int cs_tile_ways(const LoopTile *t);        // warpgroups that take turns along the contracted axis
void cs_tile_advance(CEmit *e, const LoopTile *t);  // to the next stage
// emit_fetch.c: the one that fetches.  It begins, and has waited for the kernel before; for every tile it fetches the blocks of the contracted axis.
void cs_fetch_begin(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_fetch_blocks(CEmit *e, const LoopTile *t);
void cs_fetch_open(CEmit *e,
                   const LoopTile *t);  // opens the loop over blocks, each with its stage
void cs_fetch_room(CEmit *e);           // waits until the stage is free
const char *cs_tile_columns_at(CEmit *e,
                               const LoopTile *t);  // where those of block tn_k lie
// An operand's first row of a tile.
const char *cs_tile_first(CEmit *e, const LoopTileOperand *o, Dim var);
// Through the ring (emit_aside.c): what does, its maps, and what each role does about it.
void cs_aside_find(CEmit *e, const LoopTile *t, int room, CAside *a);
void cs_aside_maps(CEmit *e, const LoopTile *t);
void cs_aside_fetch(CEmit *e, const LoopTile *t);
void cs_aside_wait(CEmit *e, const LoopTile *t, bool by_number);
const char *cs_aside_place(CEmit *e);  // where a thread's neighbours came to
const char *cs_aside_out(CEmit *e);    // where they go to
void cs_aside_place_out(CEmit *e,
                        const LoopTile *t);  // where a warpgroup's buffers begin
void cs_aside_begin_box(CEmit *e, const LoopTile *t);
void cs_aside_end_box(CEmit *e, const LoopTile *t);
void cs_aside_end(CEmit *e);
void cs_aside_release(CEmit *e, const LoopTile *t);
int cs_aside_bytes(const CAside *a, const LoopTile *t);
// In e->wide: false where the element goes by itself.
bool cs_wide_load(CEmit *e, const LoopExpr *x, CVal *out);
bool cs_wide_store(CEmit *e, const LoopStmt *s, CVal v);
struct CudaNumber;
// d * times, where d is a number or a number times a dim of the kernel.
bool cs_number(const CEmit *e, Dim d, int64_t times, struct CudaNumber *out);
void cs_attention_top(const LoopTile *t, StrBuf *out);
void cs_attention(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_attention_f32_top(StrBuf *out);
void cs_attention_f32(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_attention_ring(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_attention_parts_top(StrBuf *out);
void cs_attention_parts(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_attention_short(CEmit *e, const LoopStmt *items, const LoopTile *t);
int cs_attention_beside(const LoopTile *t);  // blocks of it on a multiprocessor
// Of kernels whose operands are boxes: their maps, asked for, and a box of `width` columns from a row on.
bool cs_attention_maps(CEmit *e, const LoopTile *t, int queries, int keys);
void cs_attention_ask_maps(CEmit *e);
void cs_attention_fetch(CEmit *e, const LoopTile *t, int which, const char *to, int rows, int width,
                        const char *row, const char *bar);
// Parts of all these kernels: products of a block of keys, which are then waited for; scores to weights; weights as operands.
void cs_attention_scores(CEmit *e, const LoopTile *t, int keys, const char *queries,
                         const char *at);
void cs_attention_values(CEmit *e, int keys, const char *at);
// Where threads copy operands into shared memory: bytes of queries, keys, and a stage of keys and values; all of these from tn_from on.
int cs_attention_query_bytes(const LoopTile *t);
int cs_attention_key_bytes(const LoopTile *t);
int cs_attention_stage_bytes(const LoopTile *t);
void cs_attention_copy_queries(CEmit *e, const LoopTile *t);
void cs_attention_copy_keys(CEmit *e, const LoopTile *t, const char *stage);
// The next block's keys and values are asked for, this one's waited for.
void cs_attention_stage(CEmit *e, const LoopTile *t, int keys,
                        void (*copy)(CEmit *e, const LoopTile *t, const char *stage));
void cs_attention_wait(CEmit *e, const char *sums, int n, int under_way);
// Products become scores but for the factor that is given back, which is that of an exponent of 2.
const char *cs_attention_masked(CEmit *e, const LoopTile *t, int keys);
void cs_attention_most(CEmit *e, int keys, const char *before);  // tn_m: the largest score
const char *cs_attention_softmax(CEmit *e, const LoopTile *t, int keys);
void cs_attention_pack(CEmit *e, int keys);
void cs_attention_fade(CEmit *e, const LoopTile *t);
void cs_attention_totals(CEmit *e);

// ---- several elements at once (emit_pack.c) ----
typedef struct CPacks {  // what an unrolled loop reads and stores side by side
  CEmit *e;
  const LoopStmt *loop;
  int64_t n;  // elements
  IntMap seen;
  VEC(const LoopExpr *) load;
  VEC(const LoopStmt *) store;
} CPacks;
bool cs_packs(CEmit *e, const LoopStmt *s,
              CPacks *out);  // false: there is none
const char *cs_pack_type(CEmit *e, DType t, int64_t n);
const char *cs_pack_place(const CPacks *p, int32_t buffer,
                          Dim index);  // the first one's address
bool cs_pack_loop(CEmit *e,
                  const LoopStmt *s);  // false: the loop is none of such elements
const char *cs_packed(CEmit *e,
                      const void *what);  // a load's or store's element; NULL: by itself
const char *cs_packed_bf16(CEmit *e,
                           const LoopExpr *load);  // likewise, as f32

// ---- a round ahead (emit_ahead.c) ----
bool cs_ahead_loop(CEmit *e,
                   const LoopStmt *s);  // false: nothing in it is read ahead
const char *cs_ahead(CEmit *e,
                     const LoopExpr *load);  // what was read ahead for it; NULL: nothing

// ---- indices (emit_index.c) ----
CLin cs_lin(CEmit *e, Dim d);
// Names the quotients and remainders of an item's number by open sizes: they take long, and would stand wherever the item is asked for its place.
void cs_name_quotients(CEmit *e, Dim item, const LoopBlock *b);
const char *cs_lin_text(CEmit *e, CLin x);  // without the lanes' part
const char *cs_operand(CEmit *e, CLin x);   // the same, fit for * and /
CLin cs_place(CEmit *e, int32_t buffer,
              Dim d);  // an element of a buffer as the code has it
const char *cs_dim(CEmit *e,
                   Dim d);  // a scalar; not a vector's where it varies
// "" where all guards always hold, else a condition; not_vector where it differs between lanes.
const char *cs_guards(CEmit *e, int n, const LoopBound *g);
void cs_drop_guards(CEmit *e, int n, const LoopBound *g);

// Whether numbers of 31 bits hold every index of the kernel, and whatever is computed on the way.
bool cs_small(const LoopKernel *k);

// ---- expressions and memory (emit_expr.c) ----
void cs_new_statement(CEmit *e, const LoopExpr *x);
CVal cs_expr(CEmit *e, const LoopExpr *x);
CVal cs_constant(CEmit *e, DType t, double f, int64_t i);
CVal cs_widen(CEmit *e, CVal v);  // to the lanes of the code around
CVal cs_atom(CEmit *e, CVal v);   // fit for being written several times
void cs_store(CEmit *e, const LoopStmt *s);

// ---- operations (emit_op.c) ----
CVal cs_op(CEmit *e, LoopOp op, DType t, CVal x, CVal y,
           CVal z);  // t: the operands' dtype
CVal cs_cast(CEmit *e, const LoopExpr *x, CVal v);
CVal cs_select(CEmit *e, CVal m, CVal x, CVal y);
CVal cs_mask(CEmit *e, CVal m, int bytes);  // of elements as wide
CVal cs_call(CEmit *e, const char *helper, DType t, DType to, int n, CVal x, CVal y, CVal z);

// ---- helpers (helpers.c) ----
// Notes that the helper is needed, for this dtype and so many lanes.  False: there is none of that name.
bool helper_need(CStyle *c, const char *name, DType t, int lanes);

#endif
