// cstyle.h -- kernels as text of the C family: one emitter, and a table of spellings for each
// target.
//
// The emitter walks a kernel's loops as the code generator of `cpu` does, and writes text instead
// of instructions: what differs between C, OpenCL and CUDA is in the table.  A kernel is written in
// one of two forms.  *Vectors*: `vector` loops run in chunks of lanes with the compiler's vector
// types, unrolled loops are written out, and register tiles are arrays that are indexed by numbers
// alone, so that compilers keep them in registers.  *Plain*: every loop is a loop, every value a
// scalar.  Both compute the same bits: the order of every sum is in the loops.
//
// What kernels call (functions of the math library that have no vector form, saturating casts,
// narrow floats) are helpers, written once for all kernels that need them, in the order of their
// table.
//
// Needs:      kernels that loop_verify accepts.
// Guarantees: equal kernels give equal text; no memory is touched but what the loops say.
#ifndef TENON_TARGETS_CSTYLE_CSTYLE_H
#define TENON_TARGETS_CSTYLE_CSTYLE_H

#include "loop/loop.h"

// How one language of the family spells what all of them have.
//
// A kernel of a *device* is launched by a driver.  Its arguments, in order: for each buffer its
// base and the bytes from there (`offsets`; else an address); the dims; `items`, the number of work
// items; `scratch` and `scratch_each`, the bytes of it that belong to one thread; `fault`, an int
// that gets 1 + the number of a check that failed, where it was 0, and with `offsets` how many ints
// it lies behind there.  Numbers are 64 bits.
typedef struct Spelling {
  const char *name;
  const char *function;     // what a kernel's definition begins with
  const char *index;        // the type of indices and sizes
  const char *small_index;  // of indices where 31 bits hold all of a kernel; NULL: the same
  const char *local;        // what the declaration of a tile begins with
  const char *items;        // the loop over work items, @ is its variable and # its type
  const char *unroll;       // the line before a loop that is to be written out; NULL: none
  const char *prefetch;     // of an address; NULL: none
  const char *top;          // what a file begins with: headers, and macros that kernels use
  const char *math_f32;     // what ends the names of functions of f32
  const char *const
      *type;         // by DType: of values; of narrow floats, the integer that holds their bits
  int lanes;         // of a vector, at most
  const char *once;  // tn_once: 16 bytes that are read once; NULL: there is none
  bool packs;        // has tn_run: neighbouring elements that a thread reads or stores at once
  bool has_vload;    // vload, vstore and as_ take the place of memcpy
  // Devices:
  bool is_device, offsets;
  const char *global;   // what stands before the types of arguments
  const char *scratch;  // makes `scratch` the memory of this thread
  const char *fault;    // writes the number @ into the slot
  const char *f64;      // what a file with numbers of f64 needs
  const char *from_f16, *to_f16,
      *to_bf16;  // bodies of these conversions, where the machine has them; NULL: by integers
  const char *min_f32, *max_f32;  // likewise, where an operand that is NaN must be the result
  // Thread blocks: the loop over work items, scratch of a block, the thread's index, shared memory,
  // and barriers that make stores visible: to shared memory, to other memory, to both.
  const char *block_items, *block_scratch, *thread, *shared, *barrier[3];
  // A shuffle within a warp: the value of the lane whose index differs in one bit; @ is the value
  // and the bit.  NULL: there is none.
  const char *shuffle;
  int warp_size;
  // Dependent launches (CStyle.dependent_launch): lets the next kernel begin; waits until the
  // previous one has ended.
  const char *launch_dependents, *wait_previous;
  // What the language does otherwise (emit.h); NULL: nothing.
  const struct CExtension *extension;
} Spelling;
extern const Spelling spelling_c, spelling_opencl;

// What a set of kernels needs of the helpers, in both forms.
typedef struct HelperUse {
  int32_t id;
  int lanes;  // 0: of a scalar
  DType dtype;
} HelperUse;
typedef struct CStyle {
  const Spelling *spelling;
  Arena *arena;
  Diag *diag;
  int vector_bytes;  // 0: plain alone
  bool no_f64;       // the device has no such numbers: kernels with them are refused
  bool uses_f64, uses_once;
  const void *extension;  // what the spelling's extension is told of the device; NULL: nothing
  bool dependent_launch;  // kernels begin before the previous one has ended, and wait for it
                          // themselves
  VEC(HelperUse) use;
} CStyle;
void cstyle_init(CStyle *c, const Spelling *s, int vector_bytes, Arena *a, Diag *d);

// The function `name`: (arguments, dims, begin, end[, scratch]) -> int32_t, as KernelFn means
// them.  `vectors` says which form; *out_differs whether the other form would be another text.
// EUNSUPPORTED where the language has no such kernel.
MUST_USE tenon_status cstyle_kernel(CStyle *c, const LoopKernel *k, const char *name, bool vectors,
                                    StrBuf *out, bool *out_differs);
// The helpers of sizes (tn_floor_div and its like), for code around the kernels.
void cstyle_need_sizes(CStyle *c);
// What a file begins with: the language's own top, types, and helpers that the kernels so far need.
void cstyle_prelude(CStyle *c, StrBuf *out);
// A word that is no keyword of the family, nor a name of ours: letters, digits and _.
const char *cstyle_identifier(Arena *a, Str text);

// ---- numbers as text ----
const char *cstyle_constant(Arena *a, DType t, double f, int64_t i);

#endif
