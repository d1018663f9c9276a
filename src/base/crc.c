// crc.c -- CRC32C: by the CPU's instruction where it has one, else by table.
//
// The instruction takes 8 bytes in one cycle but answers after three, so three blocks go through it
// at a time.
#include "base/crc.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

enum { BLOCK = 1 << 16, LANES = 3, GRAIN = 16 };

// Eight tables, so that eight bytes go in one step.
typedef struct Table {
  uint32_t t[8][256];
} Table;

static uint32_t entry(uint32_t i) {
  for (int k = 0; k < 8; k++) i = (i >> 1) ^ (i & 1 ? 0x82F63B78u : 0);
  return i;
}

uint32_t crc32c_table(uint32_t crc, const void *p, int64_t n) {
  Table one;
  const uint8_t *at = p;
  for (uint32_t i = 0; i < 256; i++) one.t[0][i] = entry(i);
  for (int k = 1; k < 8; k++)
    for (uint32_t i = 0; i < 256; i++)
      one.t[k][i] = (one.t[k - 1][i] >> 8) ^ one.t[0][one.t[k - 1][i] & 255];
  crc = ~crc;
  for (; n >= 8; n -= 8, at += 8) {
    uint32_t lo = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                         (uint32_t)at[3] << 24);
    crc = one.t[7][lo & 255] ^ one.t[6][lo >> 8 & 255] ^ one.t[5][lo >> 16 & 255] ^
          one.t[4][lo >> 24] ^ one.t[3][at[4]] ^ one.t[2][at[5]] ^ one.t[1][at[6]] ^
          one.t[0][at[7]];
  }
  for (; n > 0; n--) crc = (crc >> 8) ^ one.t[0][(crc ^ *at++) & 255];
  return ~crc;
}

// ---- the instruction ----

#if defined(__x86_64__)
#define HARD __attribute__((target("sse4.2")))
static bool hardware(void) { return __builtin_cpu_supports("sse4.2"); }
HARD static inline uint64_t step8(uint64_t crc, uint64_t x) { return _mm_crc32_u64(crc, x); }
HARD static inline uint64_t step1(uint64_t crc, uint8_t x) {
  return _mm_crc32_u8((uint32_t)crc, x);
}
#elif defined(__ARM_FEATURE_CRC32)
#define HARD
static bool hardware(void) { return true; }
static inline uint64_t step8(uint64_t crc, uint64_t x) { return __crc32cd((uint32_t)crc, x); }
static inline uint64_t step1(uint64_t crc, uint8_t x) { return __crc32cb((uint32_t)crc, x); }
#else
#define HARD
static bool hardware(void) { return false; }
static inline uint64_t step8(uint64_t crc, uint64_t x) { return crc ^ x; }
static inline uint64_t step1(uint64_t crc, uint8_t x) { return crc ^ x; }
#endif

static inline uint64_t load8(const uint8_t *p) {
  uint64_t x;
  memcpy(&x, p, 8);
  return x;
}

HARD static uint32_t hard(uint32_t crc, const uint8_t *p, int64_t n) {
  uint64_t c = ~crc;
  for (; n >= 8; n -= 8, p += 8) c = step8(c, load8(p));
  for (; n > 0; n--) c = step1(c, *p++);
  return ~(uint32_t)c;
}

HARD static void hard_lanes(const uint8_t *p, uint32_t *out) {
  uint64_t a = UINT32_MAX, b = UINT32_MAX, c = UINT32_MAX;
  for (int64_t i = 0; i < BLOCK; i += 8) {
    a = step8(a, load8(p + i));
    b = step8(b, load8(p + BLOCK + i));
    c = step8(c, load8(p + 2 * BLOCK + i));
  }
  out[0] = ~(uint32_t)a;
  out[1] = ~(uint32_t)b;
  out[2] = ~(uint32_t)c;
}

uint32_t crc32c(uint32_t crc, const void *p, int64_t n) {
  return hardware() ? hard(crc, p, n) : crc32c_table(crc, p, n);
}

// ---- many blocks ----

// A round's CRCs lie on the stack, so that checking a file needs no memory.
enum { ROUND = 1024 };
typedef struct Round {
  const uint8_t *p;
  int64_t n;  // bytes from there to the end of everything
  bool hardware;
  uint32_t crc[ROUND];
} Round;

static void do_blocks(void *ctx, int64_t begin, int64_t end) {
  Round *r = ctx;
  int64_t i = begin;
  for (; r->hardware && i + LANES <= end && (i + LANES) * BLOCK <= r->n; i += LANES)
    hard_lanes(r->p + i * BLOCK, &r->crc[i]);
  for (; i < end; i++) r->crc[i] = crc32c(0, r->p + i * BLOCK, MIN(BLOCK, r->n - i * BLOCK));
}

uint32_t crc32c_blocks(const void *p, int64_t n, Pool *pool) {
  Round r;
  uint32_t crc = 0;
  int64_t total = (n + BLOCK - 1) / BLOCK;
  for (int64_t at = 0; at < total; at += ROUND) {
    int64_t count = MIN(ROUND, total - at);
    r.p = (const uint8_t *)p + at * BLOCK;
    r.n = n - at * BLOCK;
    r.hardware = hardware();
    parallel_for(pool, count, GRAIN, do_blocks, &r);
    crc = crc32c(crc, r.crc, count * 4);
  }
  return crc;
}
