// emit.h -- what the emitters of CUDA share: tile statements, their epilogues, and prefetch loops.
//
// The C family's emitter (targets/cstyle/emit.h) calls these by the extension of spelling_cuda.
#ifndef TENON_TARGETS_CUDA_EMIT_H
#define TENON_TARGETS_CUDA_EMIT_H

#include "loop/tile.h"
#include "targets/cstyle/emit.h"

extern const Spelling spelling_cuda;

// The GPU's tensor cores, as CStyle.extension.  Without them tile statements are plain loops.
typedef struct CudaTensorCores {
  struct CudaRecord *record;  // gets how a kernel with a tile is launched; threads 0: it has none
  bool warps;                 // mma.sync: a warp multiplies; else wgmma: a warpgroup does
  int64_t tile_bytes;         // warps: of shared memory, at most
} CudaTensorCores;

#define CUDA_WAIT_PREVIOUS     "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");"
#define CUDA_LAUNCH_DEPENDENTS "asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");"

// Epilogue operands that are the same for all rows of a tile (a bias): loaded before the main loop
// ends, a thread's contiguous columns of each of its column groups.
typedef struct EarlyLoads {
  const char *slot;  // the column group at hand, of so many
  int slots, n, registers;
  StrBuf rooms, loads;
  struct {
    int32_t buffer;
    Dim index;
    const char *name;
  } known[4];
} EarlyLoads;

// A vectorised epilogue: one vector load before, and one vector store behind, the loop over a
// thread's contiguous columns.
typedef struct EpilogueVector {
  Dim sym;            // the loop's variable
  const char *first;  // what it is in the first round, a multiple of their number
  const char *round;
  int count;
  const char *column;  // of a tile: the first of those that a warp has
  bool asks;           // stores whether the row is there
  EarlyLoads *early;   // NULL: nothing is read early
  StrBuf before, after;
  StrBuf odd;  // not 0 where a buffer does not begin where pieces may
  int32_t stored[8];
  int nstored;
  int pieces;   // how many there are
  bool failed;  // it may not be done so
} EpilogueVector;
// A matrix with the layout of the result, in TMA boxes of 64 rows (emit_epilogue_tma.c).
typedef struct TmaBoxes {
  int32_t buffer;
  int cols, bytes;       // of a box
  int of_stage, stages;  // how many times all rows' boxes a stage has, and how many stages it takes
} TmaBoxes;
typedef struct EpilogueTma {
  const LoopExpr *load;   // the epilogue operand that TMA loads; NULL: there is none
  const LoopStmt *store;  // what a TMA store writes; NULL: threads store
  TmaBoxes in, out;
  int stages;     // of the ring, behind those of the products
  int buffers;    // of a warpgroup, a box each
  bool by_warps;  // they store the boxes, since lines of the result are not whole 16 bytes
} EpilogueTma;

// Of a kernel, as CEmit.extension.
typedef struct CudaEmit {
  CudaTensorCores cores;            // record NULL: there are none
  const EpilogueTma *epilogue_tma;  // of a tile; NULL: threads load and store
  EpilogueVector *vector;           // in a vectorised epilogue
  const struct Prefetch *prefetch;  // in a prefetch loop
  int prefetched_runs;              // the most runs of such a loop: they take registers
} CudaEmit;
static inline CudaEmit *cs_cuda(const CEmit *e) { return e->extension; }

// What goes between the top of a file and a kernel with a tile: of wgmma, of mma.sync.
void cs_tile_top(const LoopTile *t, StrBuf *out);
void cs_mma_top(const LoopTile *t, StrBuf *out);

// ---- tiles (emit_wgmma.c), and attention in them (emit_attention.c) ----
void cs_tile(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_tile_items(CEmit *e, const LoopStmt *items, const LoopTile *t);  // opens the loop over them
// The one whose number is tn_t.
void cs_tile_item(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_tile_product(const LoopTile *t, int n, StrBuf *out);  // the instruction for n columns
const char *cs_tile_sum(const LoopTile *t);                   // the type of its sums
void cs_tile_values(CEmit *e,
                    const LoopTile *t);  // all stages of a tile whose rows are values
// What all kernels with tiles call: an address in shared memory; the order of tiles, and a function
// of epilogues.
extern const char cs_tile_address[], cs_tile_ending[];
// mma.sync: each warp multiplies by itself (emit_mma_sync.c).
void cs_mma(CEmit *e, const LoopStmt *items, const LoopTile *t);
int cs_mma_resident_blocks(const LoopTile *t);  // blocks of it on a multiprocessor
// Of f32 (emit_wgmma_f32.c): the instruction; low parts of the columns of a stage by threads of the
// producer; where a thread's rows begin; products of a stage; sums that are not finite once more.
void cs_tile_f32_top(const LoopTile *t, StrBuf *out);
void cs_tile_f32_low(CEmit *e, const LoopTile *t, int first, int threads);
void cs_tile_f32_place(CEmit *e);
void cs_tile_f32_products(CEmit *e, const LoopTile *t, bool split_k);
void cs_tile_f32_check(CEmit *e, const LoopTile *t);
// The epilogue (emit_epilogue.c).  `early` gets the loads that need not wait for the main loop; it
// may be NULL.
void cs_epilogue(CEmit *e, const LoopTile *t, StrBuf *early);
// Which part of the tile a warp's accumulator is: tn_sum[tn_b] are 16 rows from `row` on, by groups
// tn_p of 16 columns from `column` on.
typedef struct EpiloguePlace {
  int blocks, cols;
  const char *row, *column;
} EpiloguePlace;
void cs_epilogue_at(CEmit *e, const LoopTile *t, const EpiloguePlace *p, StrBuf *early);
int cs_tile_stage_bytes(const LoopTile *t);
// Of resident weights, which are fetched with a block's first tile only.
int cs_tile_resident_bytes(const LoopTile *t);
int cs_tile_ring_bytes(const LoopTile *t);          // all stages, and resident weights
int cs_tile_consumers(const LoopTile *t);           // consumer warpgroups
int cs_tile_split_k(const LoopTile *t);             // warpgroups that split K inside the block
void cs_tile_advance(CEmit *e, const LoopTile *t);  // to the next stage
// The producer (emit_producer.c).  It begins, and has waited for the previous kernel; for every
// tile it fetches the blocks of the depth.
void cs_producer_begin(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_producer_blocks(CEmit *e, const LoopTile *t);
void cs_producer_open(CEmit *e,
                      const LoopTile *t);  // opens the loop over blocks, each with its stage
void cs_producer_acquire(CEmit *e);        // waits until the stage is free
const char *cs_tile_columns_at(CEmit *e,
                               const LoopTile *t);  // where those of block tn_k are
// An operand's first row of a tile.
const char *cs_tile_first(CEmit *e, const LoopTileOperand *o, Dim var);
// The same as a row of the matrix in memory.
const char *cs_tile_place(CEmit *e, const LoopTileOperand *o, Dim var);
// Epilogue operand and results by TMA (emit_epilogue_tma.c): which, their maps, and what each role
// does about them.
bool cs_epilogue_reads_columns(const CEmit *e, const LoopTile *t);  // what differs by column
void cs_epilogue_tma_find(CEmit *e, const LoopTile *t, int room, EpilogueTma *a);
void cs_epilogue_tma_maps(CEmit *e, const LoopTile *t);
void cs_epilogue_tma_load(CEmit *e, const LoopTile *t);
void cs_epilogue_tma_wait(CEmit *e, const LoopTile *t, bool by_number);
const char *cs_epilogue_tma_place(CEmit *e);  // where a thread's neighbours came to
const char *cs_epilogue_tma_out(CEmit *e);    // where they go to
void cs_epilogue_tma_place_out(CEmit *e,
                               const LoopTile *t);  // where a warpgroup's buffers begin
void cs_epilogue_tma_begin_box(CEmit *e, const LoopTile *t);
void cs_epilogue_tma_end_box(CEmit *e, const LoopTile *t);
void cs_epilogue_tma_end(CEmit *e);
void cs_epilogue_tma_release(CEmit *e, const LoopTile *t);
int cs_epilogue_tma_bytes(const EpilogueTma *a, const LoopTile *t);
// In a vectorised epilogue; false: the element is accessed by itself.
bool cs_epilogue_load(CEmit *e, const LoopExpr *x, CVal *out);
bool cs_epilogue_store(CEmit *e, const LoopStmt *s, CVal v);
struct CudaNumber;
// d * times, where d is a number or a number times a dim of the kernel.
bool cs_number(const CEmit *e, Dim d, int64_t times, struct CudaNumber *out);
void cs_attention_top(const LoopTile *t, StrBuf *out);
void cs_attention(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_attention_f32_top(StrBuf *out);
void cs_attention_f32(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_attention_ring(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_attention_split_kv_top(StrBuf *out);
void cs_attention_split_kv(CEmit *e, const LoopStmt *items, const LoopTile *t);
void cs_attention_short(CEmit *e, const LoopStmt *items, const LoopTile *t);
int cs_attention_resident_blocks(const LoopTile *t);  // blocks of it on a multiprocessor
// Of kernels whose operands are boxes: their maps, asked for, and a box of `width` columns from a
// row on.
bool cs_attention_maps(CEmit *e, const LoopTile *t, int queries, int keys);
void cs_attention_prefetch_maps(CEmit *e);
void cs_attention_fetch(CEmit *e, const LoopTile *t, int which, const char *to, int rows, int width,
                        const char *row, const char *bar);
// Parts of all these kernels: products of a block of keys, which are then waited for; scores to
// weights; weights as operands.
void cs_attention_scores(CEmit *e, const LoopTile *t, int keys, const char *queries,
                         const char *at);
void cs_attention_values(CEmit *e, int keys, const char *at);
// Where threads copy operands into shared memory: bytes of queries, keys, and a stage of keys and
// values; all of these from tn_from on.
int cs_attention_query_bytes(const LoopTile *t);
int cs_attention_key_bytes(const LoopTile *t);
int cs_attention_stage_bytes(const LoopTile *t);
void cs_attention_copy_queries(CEmit *e, const LoopTile *t);
void cs_attention_copy_keys(CEmit *e, const LoopTile *t, const char *stage);
// The next block's keys and values are asked for, this one's waited for.
void cs_attention_stage(CEmit *e, const LoopTile *t, int keys,
                        void (*copy)(CEmit *e, const LoopTile *t, const char *stage));
void cs_attention_wait(CEmit *e, const char *sums, int n, int in_flight);
// Products become scores but for the factor that is given back, which is that of an exponent of 2.
const char *cs_attention_masked(CEmit *e, const LoopTile *t, int keys);
void cs_attention_row_max(CEmit *e, int keys, const char *before);  // tn_m: the largest score
const char *cs_attention_softmax(CEmit *e, const LoopTile *t, int keys);
void cs_attention_pack(CEmit *e, int keys);
void cs_attention_rescale(CEmit *e, const LoopTile *t);
void cs_attention_row_sum(CEmit *e);

// ---- prefetch loops (emit_prefetch.c) ----
bool cs_prefetch_loop(CEmit *e,
                      const LoopStmt *s);  // false: it prefetches nothing
const char *cs_prefetched(CEmit *e,
                          const LoopExpr *load);  // what was prefetched for it; NULL: nothing

#endif
