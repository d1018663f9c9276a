// traits.h -- what passes, the memory plan and schedules ask of the machine that kernels are made
// for.
//
// A target fills its traits in one place (target_traits in targets/target.c); everybody else asks
// by meaning and never by a target's name.  A graph points to the traits that it was optimised
// for.  Without a target they are traits_unknown: a CPU, and nothing that only some machines have.
#ifndef TENON_IR_TRAITS_H
#define TENON_IR_TRAITS_H

#include "ir/rule.h"

// Which threads issue one matrix multiply-accumulate (MMA) together.
typedef enum MmaScope {
  MMA_NONE,      // there are no tensor cores
  MMA_WARP,      // mma.sync: sm_80 and later
  MMA_WARPGROUP  // wgmma: sm_90
} MmaScope;

// Types of the operands that MMA multiplies.  The accumulator is f32, or i32 for int8.
enum MmaType {
  MMA_DTYPE_F16 = 1,
  MMA_DTYPE_BF16 = 2,
  MMA_DTYPE_TF32 = 4,  // f32 rounded to tf32
  MMA_DTYPE_F32 = 8,   // f32 to its own precision, from several tf32 products
  MMA_DTYPE_FP8 = 16,
  MMA_DTYPE_INT8 = 32,
};

typedef struct TargetTraits {
  bool gpu;             // a work item is a thread block
  uint8_t mma;          // MmaScope
  uint32_t mma_dtypes;  // MmaType
  int warp_size;        // threads that run in lockstep; 1 or 0 where none do
  int sm_count;         // multiprocessors
  bool heterogeneous;   // some kernels of the graph run on another machine: the host
} TargetTraits;
extern const TargetTraits traits_unknown;

// Whether MMA multiplies operands of f32 under these fast-math flags.
static inline bool traits_mma_f32(const TargetTraits *t, unsigned fast) {
  return (t->mma_dtypes & (fast & FAST_TF32 ? MMA_DTYPE_TF32 : MMA_DTYPE_F32)) != 0;
}

// What passes ask.  Each names the decision, so that a machine between a CPU and a GPU needs a
// change here alone.

// A work item has a core's cache: a band of lines of one convolution stays in it for the next.
static inline bool traits_fuses_conv_chains(const TargetTraits *t) { return !t->gpu; }
// Threads that have nothing else to do compute a broadcast function where it is read: another
// launch takes longer.
static inline bool traits_repeats_functions(const TargetTraits *t) { return t->gpu; }
// A kernel has work items enough only if a long sum is divided in the graph.  Thread blocks have,
// or divide it themselves.
static inline bool traits_needs_split_k(const TargetTraits *t) { return !t->gpu; }
// Work items, cores or thread blocks, that keep the machine at work; and the elements of one item
// from which dividing them among several pays for a second kernel.
static inline int64_t traits_busy_items(const TargetTraits *t) {
  return t->gpu && t->sm_count > 0 ? t->sm_count : 16;
}
static inline int64_t traits_split_elements(const TargetTraits *t) {
  return t->gpu ? 1 << 14 : 1 << 15;
}
// The weights of a recurrent layer are in no cache of a work item: a step is a GEMM over all of
// them.
static inline bool traits_unrolls_recurrent(const TargetTraits *t) { return t->gpu; }
// Attention writes its heads in the order that the next GEMM reads, and reads keys and values as
// plain matrices: a concatenation with the KV cache is materialised.
static inline bool traits_attention_materializes(const TargetTraits *t) { return t->gpu; }
// Kernels other than GEMM read what is stored in bf16 at no cost: attention, gathers, pools,
// depthwise convolutions.
static inline bool traits_reads_bf16(const TargetTraits *t) { return t->gpu; }

#endif
