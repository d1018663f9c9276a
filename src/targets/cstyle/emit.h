// emit.h -- one kernel on its way from the loop tree to text; for targets/cstyle and
// extensions of it (targets/cuda).
//
// Values.  A value is a C expression of its dtype's type: bool is an int that is 0 or 1, and the
// narrow floats are integers that hold their bits.  A vector of bools is a mask, 0 or -1 in each
// lane, with elements as wide as what was compared.
//
// Vectors.  Inside a `vector` loop, or a reduction with lanes, `lanes` values are computed at
// once.  What does not depend on the vector variable stays a scalar until it meets one that does.
// Where lanes go different ways (a branch, an index that is no base + stride
// * lane), `not_vector` is set and the loop is written again as a plain one.
//
// Errors.  `cs_fail` and `cs_refuse` note the first reason why there is no such text; emission goes
// on until it ends.
#ifndef TENON_TARGETS_CSTYLE_EMIT_H
#define TENON_TARGETS_CSTYLE_EMIT_H

#include "loop/tile.h"
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

enum { CS_ROWS_INSIDE = 1, CS_COLS_INSIDE = 2 };  // guards of a tile statement

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
  int64_t threads;    // of a thread block, where the language has them; 0: thread loops are serial
  const LoopTile *tile;  // which the extension emits; NULL: tile statements are plain loops
  uint8_t inside;        // what is known to lie within the tile's result: its rows, its columns
  Dim thread;            // the variable of the thread loop around
  IntMap barrier;        // thread loop -> fences
  bool *shuffled;        // by buffer: shared memory that lies in its threads' registers
  const char *in_pack;   // the variable of the loop whose elements are read and stored at once
  IntMap pack;           // there: load or store -> where its elements are
  IntMap quotient;       // Dim -> name of a quotient or remainder that was computed before
  void *extension;       // the extension's state
  StrBuf before_wait;    // what may be done before the previous kernel has ended
  int divergent;         // blocks around that not all threads enter
  CSym *sym;             // by slot
  CVal *var;             // by variable
  const char **buffer;   // names
  const char **base;     // of arguments: where they are counted from, then by how many bytes
  bool *buffer_used, *var_used, faults;
  StrMap names;
  IntMap memo, uses;  // LoopExpr * -> index in vals, within a statement; how often it is used there
  VEC(CVal) vals;
} CEmit;

// What one language does otherwise than the family's emitter.  A spelling that has an extension has
// all of its functions.
typedef struct CExtension {
  void (*begin)(CEmit *e);                    // sets e->tile and e->extension
  void (*parameters)(CEmit *e, StrBuf *out);  // those behind the kernel's own
  const char *(*launch_bounds)(CEmit *e);     // before the kernel's name
  // The whole kernel, whose work items each are a tile; e->tile is set.
  void (*tile)(CEmit *e, const LoopStmt *items, const LoopTile *t);
  // A serial loop that loads the next round's elements early; false: there are none.
  bool (*prefetch_loop)(CEmit *e, const LoopStmt *s);
  const char *(*prefetched)(CEmit *e, const LoopExpr *load);  // what it loaded early, or NULL
  // Without guards, in a vectorised epilogue; false: the element is accessed by itself.
  bool (*load)(CEmit *e, const LoopExpr *x, CVal *out);
  bool (*store)(CEmit *e, const LoopStmt *s, CVal v);
  bool (*op)(CEmit *e, const LoopExpr *x, CVal *out);  // false: as in all languages
} CExtension;

// From here on the symbol is this text.
static inline void cs_set_text(CEmit *e, Dim sym, const char *text) {
  e->sym[sym->slot] = (CSym){.kind = CSYM_TEXT, .text = text};
}

void cs_fail(CEmit *e, const char *fmt, ...) PRINTF(2, 3);    // EINTERNAL: loops that make no sense
void cs_refuse(CEmit *e, const char *fmt, ...) PRINTF(2, 3);  // EUNSUPPORTED: not for this target
void cs_line(CEmit *e, const char *fmt, ...) PRINTF(2, 3);
void cs_open(CEmit *e, const char *fmt, ...) PRINTF(2, 3);  // a line that ends in {
void cs_close(CEmit *e);
const char *cs_name(CEmit *e, const char *base);  // that no other has
const char *cs_type(CEmit *e, DType t, int lanes);
const char *cs_mask_type(CEmit *e, int bytes, int lanes);
int64_t cs_bytes(DType t);
// Vectors: the same bits as another type, each element converted, a list of elements, one lane of a
// value.
const char *cs_as(CEmit *e, const char *type, const char *text);
const char *cs_convert(CEmit *e, const char *type, const char *text);
const char *cs_list(CEmit *e, const char *type, const char *elements);
const char *cs_lane(CEmit *e, const char *text, int i);
const char *cs_replace(CEmit *e, const char *form, const char *name);  // every @ of form by name

// ---- statements (emit.c), and the function around them (emit_kernel.c) ----
void cs_block(CEmit *e, const LoopBlock *b);
// Whether a block begins with a thread loop that does nothing but ask for memory: what waits for
// the previous kernel comes after it.
bool cs_only_prefetches(const LoopBlock *b);
void cs_fault(CEmit *e, const char *when, int32_t check);  // where `when` is true the check failed

// ---- several elements at once (emit_pack.c) ----
typedef struct CPacks {  // contiguous elements that an unrolled loop reads and stores
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

// ---- indices (emit_index.c) ----
CLin cs_lin(CEmit *e, Dim d);
// Names the quotients and remainders of an item's number by dynamic sizes: they are slow, and would
// be repeated wherever the item's place is computed.
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

// ---- helpers (helpers.c) ---- Notes that the helper is needed, for this dtype and so many lanes.
// False: there is none of that name.
bool helper_need(CStyle *c, const char *name, DType t, int lanes);

#endif
