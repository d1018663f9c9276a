// zipcrc.c -- CRC-32 of zip entries: by multiplication without carries where the CPU has it, else
// by zlib.
//
// Checking weights is most of what opening a model does.  Four pieces of 128 bits are folded at a
// time (Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction"); the last bytes are zlib's.
#include "base/zip.h"

#include <zlib.h>

static uint32_t by_zlib(uint32_t crc, Str s) {
  for (int64_t i = 0; i < s.n; i += 1 << 30)
    crc = (uint32_t)crc32(crc, (const Bytef *)s.p + i, (uInt)MIN(s.n - i, 1 << 30));
  return crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define HARD __attribute__((target("pclmul,sse4.1")))
enum { LEAST = 64, PIECE = 16 };

HARD static inline __m128i load(const char *p) {
  return _mm_loadu_si128((const __m128i *)(const void *)p);
}

// x * x^n mod P, for the n that k stands for, plus what lies there.
HARD static inline __m128i fold(__m128i x, __m128i k, __m128i there) {
  __m128i low = _mm_clmulepi64_si128(x, k, 0x00), high = _mm_clmulepi64_si128(x, k, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

// 128 bits to 32, by Barrett's reduction.
HARD static uint32_t reduce(__m128i x, __m128i k) {
  const __m128i mask = _mm_setr_epi32(-1, 0, -1, 0), to_64 = _mm_set_epi64x(0, 0x0163cd6124),
                p = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, k, 0x10));
  __m128i high = _mm_srli_si128(x, 4);
  x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, mask), to_64, 0x00), high);
  __m128i q = _mm_clmulepi64_si128(_mm_and_si128(x, mask), p, 0x10);
  q = _mm_clmulepi64_si128(_mm_and_si128(q, mask), p, 0x00);
  return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, q), 1);
}

// Of a whole number of pieces, four at least; before and after the inversions.
HARD static uint32_t hard(uint32_t crc, const char *p, int64_t n) {
  const __m128i by_4 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4),
                by_1 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  __m128i x[4];
  for (int i = 0; i < 4; i++) x[i] = load(p + i * PIECE);
  x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)crc));
  for (p += LEAST, n -= LEAST; n >= LEAST; p += LEAST, n -= LEAST)
    for (int i = 0; i < 4; i++) x[i] = fold(x[i], by_4, load(p + i * PIECE));
  for (int i = 1; i < 4; i++) x[0] = fold(x[0], by_1, x[i]);
  for (; n >= PIECE; p += PIECE, n -= PIECE) x[0] = fold(x[0], by_1, load(p));
  return reduce(x[0], by_1);
}

uint32_t zip_crc(uint32_t crc, Str s) {
  int64_t whole = s.n / PIECE * PIECE;
  if (whole < LEAST || !__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1"))
    return by_zlib(crc, s);
  return by_zlib(~hard(~crc, s.p, whole), (Str){s.p + whole, s.n - whole});
}
#else
uint32_t zip_crc(uint32_t crc, Str s) { return by_zlib(crc, s); }
#endif
