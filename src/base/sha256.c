// sha256.c -- SHA-256 (sha256.h).
#include "base/sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#endif

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// ---- in C ----

static inline uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static inline uint32_t load_big(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void take_block(uint32_t h[8], const uint8_t *p) {
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++) w[i] = load_big(p + 4 * i);
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
    uint32_t s1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  memcpy(v, h, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
    uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
    uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
    uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += t1;
    v[0] = t1 + t2;
  }
  for (int i = 0; i < 8; i++) h[i] += v[i];
}

// ---- by instructions ----

#if defined(__x86_64__)
#define HARD __attribute__((target("sha,sse4.1,ssse3")))

// 1: it has none, 2: it has them.  Threads that ask at once find the same.
static bool hardware(void) {
  static atomic_int known;
  int now = atomic_load_explicit(&known, memory_order_relaxed);
  if (!now) {
    enum { LEAF = 7, SHA = 1 << 29 };
    unsigned a, b = 0, c, d;
    bool sha = __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && b & SHA;
    now = sha && __builtin_cpu_supports("sse4.1") ? 2 : 1;
    atomic_store_explicit(&known, now, memory_order_relaxed);
  }
  return now == 2;
}

// The state as the instructions have it: {a b e f} and {c d g h}.
HARD static void take_blocks(uint32_t h[8], const uint8_t *p, int64_t blocks) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  __m128i t = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)h), 0xB1);
  __m128i s1 = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(h + 4)), 0x1B);
  __m128i s0 = _mm_alignr_epi8(t, s1, 8);
  s1 = _mm_blend_epi16(s1, t, 0xF0);
  for (; blocks > 0; blocks--, p += SHA256_BLOCK) {
    __m128i old0 = s0, old1 = s1, w[4];
    for (int i = 0; i < 4; i++)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i)), swap);
    for (int i = 0; i < 16; i++) {
      __m128i x =
          _mm_add_epi32(w[i & 3], _mm_loadu_si128((const __m128i *)(const void *)&k[4 * i]));
      s1 = _mm_sha256rnds2_epu32(s1, s0, x);
      s0 = _mm_sha256rnds2_epu32(s0, s1, _mm_shuffle_epi32(x, 0x0E));
      if (i >= 12) continue;  // the words of the rounds four from now
      __m128i a = _mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]);
      a = _mm_add_epi32(a, _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4));
      w[i & 3] = _mm_sha256msg2_epu32(a, w[(i + 3) & 3]);
    }
    s0 = _mm_add_epi32(s0, old0);
    s1 = _mm_add_epi32(s1, old1);
  }
  t = _mm_shuffle_epi32(s0, 0x1B);
  s1 = _mm_shuffle_epi32(s1, 0xB1);
  _mm_storeu_si128((__m128i *)(void *)h, _mm_blend_epi16(t, s1, 0xF0));
  _mm_storeu_si128((__m128i *)(void *)(h + 4), _mm_alignr_epi8(s1, t, 8));
}
#else
static bool hardware(void) { return false; }
static void take_blocks(uint32_t h[8], const uint8_t *p, int64_t blocks) {
  for (; blocks > 0; blocks--, p += SHA256_BLOCK) take_block(h, p);
}
#endif

static void take(Sha256 *s, const uint8_t *p, int64_t blocks) {
  if (!s->portable && hardware()) {
    take_blocks(s->h, p, blocks);
    return;
  }
  for (; blocks > 0; blocks--, p += SHA256_BLOCK) take_block(s->h, p);
}

// ---- messages ----

void sha256_init(Sha256 *s) {
  *s = (Sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                      0x1f83d9ab, 0x5be0cd19}};
}

void sha256_init_portable(Sha256 *s) {
  sha256_init(s);
  s->portable = true;
}

void sha256_put(Sha256 *s, const void *p, int64_t n) {
  const uint8_t *at = p;
  int64_t have = (int64_t)(s->n % SHA256_BLOCK);
  if (!n) return;  // of an empty list there may be no address
  s->n += (uint64_t)n;
  if (have) {
    int64_t more = MIN(n, SHA256_BLOCK - have);
    if (more) memcpy(s->block + have, at, (size_t)more);
    at += more;
    n -= more;
    if (have + more < SHA256_BLOCK) return;
    take(s, s->block, 1);
  }
  take(s, at, n / SHA256_BLOCK);
  at += n / SHA256_BLOCK * SHA256_BLOCK;
  if (n % SHA256_BLOCK) memcpy(s->block, at, (size_t)(n % SHA256_BLOCK));
}

// A bit that is 1, zeros, and the number of bits in the last 8 bytes of a block.
void sha256_end(Sha256 *s, uint8_t out[SHA256_BYTES]) {
  static const uint8_t one = 0x80, zeros[SHA256_BLOCK] = {0};
  uint64_t bits = s->n * 8;
  uint8_t length[8];
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
  sha256_put(s, &one, 1);
  int64_t have = (int64_t)(s->n % SHA256_BLOCK);
  sha256_put(s, zeros, (SHA256_BLOCK + 56 - have) % SHA256_BLOCK);
  sha256_put(s, length, sizeof length);
  for (int i = 0; i < SHA256_BYTES; i++) out[i] = (uint8_t)(s->h[i / 4] >> (24 - i % 4 * 8));
}

static void hash_pieces(void *ctx, int64_t begin, int64_t end) {
  Sha256Piece *piece = ctx;
  for (int64_t i = begin; i < end; i++) {
    Sha256 s;
    sha256_init(&s);
    sha256_put(&s, piece[i].p, piece[i].n);
    sha256_end(&s, piece[i].hash);
  }
}

void sha256_pieces(Sha256Piece *piece, int64_t n, Pool *pool) {
  parallel_for(pool, n, 1, hash_pieces, piece);
}
