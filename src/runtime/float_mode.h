// float_mode.h -- how the processor rounds and what it does with denormals, the same whatever the
// caller's own setting.
//
// Generated code: to nearest, denormals count as zero (RISC-V cannot do that), no traps.  Reference
// evaluations: to nearest, nothing else.
#ifndef TENON_RUNTIME_FLOAT_MODE_H
#define TENON_RUNTIME_FLOAT_MODE_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
static inline uint64_t float_mode_enter(bool flush) {
  enum { MASKED = 0x1f80, FLUSH = 0x8040 };  // all exceptions masked, to nearest; FTZ and DAZ
  uint64_t was = _mm_getcsr();
  _mm_setcsr(flush ? MASKED | FLUSH : MASKED);
  return was;
}
static inline void float_mode_leave(uint64_t was) { _mm_setcsr((unsigned)was); }
#elif defined(__aarch64__)
static inline uint64_t float_mode_enter(bool flush) {
  uint64_t was, now = flush ? (uint64_t)1 << 24 : 0;  // FZ; to nearest, no traps
  __asm__ volatile("mrs %0, fpcr" : "=r"(was));
  __asm__ volatile("msr fpcr, %0" : : "r"(now));
  return was;
}
static inline void float_mode_leave(uint64_t was) { __asm__ volatile("msr fpcr, %0" : : "r"(was)); }
#elif defined(__riscv)
static inline uint64_t float_mode_enter(bool flush) {
  uint64_t was;
  (void)flush;
  __asm__ volatile("fsrm %0, %1" : "=r"(was) : "r"((uint64_t)0));  // to nearest
  return was;
}
static inline void float_mode_leave(uint64_t was) { __asm__ volatile("fsrm %0" : : "r"(was)); }
#else
static inline uint64_t float_mode_enter(bool flush) { return flush; }
static inline void float_mode_leave(uint64_t was) { (void)was; }
#endif

#endif
