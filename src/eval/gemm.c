// gemm.c -- blocked matrix product in double or wrapping 64-bit integers.
//
// The output is cut into tiles; each thread takes tiles in turn, packs the operands' blocks into
// panels and runs a 6 x 8 register tile over them.  The tile's sums stay in a buffer between blocks
// of k, so each element's additions happen in ascending order of k whatever the blocking.
// Needs: loaders that fill panels (see gemm.h).  Takes its buffers from run->scratch before it
//        starts.
#include "eval/gemm.h"

#include <stdatomic.h>

// The kernel is compiled once for each vector unit and chosen when the library is loaded.
// Contraction of multiply and add is off for all of them, so they give the same bits.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__) &&   \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PER_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PER_CPU
#endif

// The register tile's loops must vanish, at any level of optimisation.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

typedef double V4 __attribute__((vector_size(32), aligned(8), may_alias));

// acc += a panel (6 rows) x b panel (8 columns), over nk.
static inline __attribute__((always_inline)) void
tile_f64(int64_t nk, const double *a, const double *b, double *c, int64_t ldc) {
  V4 acc[GEMM_MR][2];
  UNROLL for (int i = 0; i < GEMM_MR; i++) {
    acc[i][0] = *(const V4 *)(c + i * ldc);
    acc[i][1] = *(const V4 *)(c + i * ldc + 4);
  }
  for (int64_t k = 0; k < nk; k++, a += GEMM_MR, b += GEMM_NR) {
    V4 b0 = *(const V4 *)b, b1 = *(const V4 *)(b + 4);
    UNROLL for (int i = 0; i < GEMM_MR; i++) {
      V4 x = {a[i], a[i], a[i], a[i]};
      acc[i][0] += x * b0;
      acc[i][1] += x * b1;
    }
  }
  UNROLL for (int i = 0; i < GEMM_MR; i++) {
    *(V4 *)(c + i * ldc) = acc[i][0];
    *(V4 *)(c + i * ldc + 4) = acc[i][1];
  }
}

PER_CPU static void block_f64(int64_t npa, int64_t npb, int64_t nk, const double *a,
                              const double *b, double *c, int64_t ldc) {
  for (int64_t j = 0; j < npb; j++)
    for (int64_t i = 0; i < npa; i++)
      tile_f64(nk, a + i * nk * GEMM_MR, b + j * nk * GEMM_NR, c + i * GEMM_MR * ldc + j * GEMM_NR,
               ldc);
}

PER_CPU static void block_i64(int64_t npa, int64_t npb, int64_t nk, const uint64_t *a,
                              const uint64_t *b, uint64_t *c, int64_t ldc) {
  for (int64_t j = 0; j < npb; j++)
    for (int64_t i = 0; i < npa; i++) {
      const uint64_t *pa = a + i * nk * GEMM_MR, *pb = b + j * nk * GEMM_NR;
      uint64_t *pc = c + i * GEMM_MR * ldc + j * GEMM_NR;
      for (int64_t k = 0; k < nk; k++, pa += GEMM_MR, pb += GEMM_NR)
        for (int ii = 0; ii < GEMM_MR; ii++)
          for (int jj = 0; jj < GEMM_NR; jj++) pc[ii * ldc + jj] += pa[ii] * pb[jj];
    }
}

void gemm_put_col(const GemmBlock *o, int64_t k, int64_t nr, const Word *run) {
  int64_t w = o->width;
  Word *p = o->panel + k * w;
  int64_t r = 0;
  for (; r + w <= nr; r += w, p += w * o->nk)
    for (int64_t i = 0; i < w; i++) p[i] = run[r + i];
  for (int64_t i = 0; r + i < nr; i++) p[i] = run[r + i];
}

typedef struct Tiles {
  const Gemm *g;
  int64_t mc, nc, kc;             // block sizes
  int64_t mtiles, ntiles, count;  // tiles of one batch, tiles in all
  Word *scratch;
  int64_t words;  // scratch of one worker
  atomic_llong next;
} Tiles;

static int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

static void fetch(GemmLoad *load, const void *ctx, int64_t b, int64_t r, int64_t nr, int64_t k0,
                  const GemmBlock *o) {
  if (nr % o->width)  // rows beyond the edge are zero: computed, never stored
    memset(o->panel + nr / o->width * o->width * o->nk, 0,
           (size_t)(o->width * o->nk) * sizeof(Word));
  load(ctx, b, r, nr, k0, o);
}

static void run_tile(const Tiles *t, int64_t tile, Word *mem) {
  const Gemm *g = t->g;
  int64_t per = t->mtiles * t->ntiles, batch = tile / per, at = tile % per;
  int64_t i0 = at % t->mtiles * t->mc, j0 = at / t->mtiles * t->nc;
  int64_t ni = MIN(t->mc, g->m - i0), nj = MIN(t->nc, g->n - j0);
  int64_t npa = round_up(ni, GEMM_MR) / GEMM_MR, npb = round_up(nj, GEMM_NR) / GEMM_NR;
  Word *pa = mem, *pb = pa + t->mc * t->kc, *c = pb + t->nc * t->kc;
  int64_t ldc = npb * GEMM_NR;
  memset(c, 0, (size_t)(npa * GEMM_MR * ldc) * sizeof(Word));
  for (int64_t k0 = 0; k0 < g->k; k0 += t->kc) {
    int64_t nk = MIN(t->kc, g->k - k0);
    fetch(g->load_a, g->a, batch, i0, ni, k0, &(GemmBlock){pa, GEMM_MR, nk, g->ints});
    fetch(g->load_b, g->b, batch, j0, nj, k0, &(GemmBlock){pb, GEMM_NR, nk, g->ints});
    if (g->ints)
      block_i64(npa, npb, nk, (const uint64_t *)pa, (const uint64_t *)pb, (uint64_t *)c, ldc);
    else
      block_f64(npa, npb, nk, (const double *)pa, (const double *)pb, (double *)c, ldc);
  }
  for (int64_t i = 0; i < ni; i++) g->store(g->out, batch, i0 + i, j0, nj, c + i * ldc);
}

static void run_worker(void *ctx, int64_t begin, int64_t end) {
  Tiles *t = ctx;
  for (int64_t w = begin; w < end; w++)
    for (;;) {
      int64_t tile = atomic_fetch_add(&t->next, 1);
      if (tile >= t->count) break;
      run_tile(t, tile, t->scratch + w * t->words);
    }
}

void gemm_run(Run *run, const Gemm *g) {
  if (g->batch <= 0 || g->m <= 0 || g->n <= 0) return;
  int64_t threads = run->pool ? pool_threads(run->pool) : 1;
  Tiles t = {.g = g, .mc = GEMM_MC, .nc = GEMM_NC, .kc = GEMM_KC};
  t.mc = MIN(t.mc, round_up(g->m, GEMM_MR));
  t.nc = MIN(t.nc, round_up(g->n, GEMM_NR));
  t.kc = MIN(t.kc, MAX(g->k, 1));
  t.mtiles = (g->m + t.mc - 1) / t.mc;
  t.ntiles = (g->n + t.nc - 1) / t.nc;
  CHECK(ck_mul(t.mtiles, t.ntiles, &t.count) && ck_mul(t.count, g->batch, &t.count),
        "gemm of %lld x %lld x %lld", (long long)g->batch, (long long)g->m, (long long)g->n);
  threads = MIN(threads, t.count);
  t.words = t.mc * t.kc + t.nc * t.kc + t.mc * t.nc;
  t.scratch = arena_alloc_array(&run->scratch, threads * t.words, sizeof(Word));
  atomic_init(&t.next, 0);
  // Below some thousand multiply-adds waking the pool costs more than it gives.
  double work = (double)g->batch * (double)g->m * (double)g->n * (double)MAX(g->k, 1);
  if (threads == 1 || work < 32768)
    run_worker(&t, 0, 1);
  else
    parallel_for(run->pool, threads, 1, run_worker, &t);
}

// ---- tensors through offset tables ----

static void subtract(Word *run, int64_t n, Word zero, bool ints) {
  for (int64_t i = 0; i < n; i++) {
    if (ints)
      run[i].i = (int64_t)((uint64_t)run[i].i - (uint64_t)zero.i);
    else
      run[i].f -= zero.f;
  }
}

// n elements at base + off[0..n), consecutive ones together.
static void gather(const GemmMat *m, int64_t base, const int64_t *off, int64_t n, bool ints,
                   Word *out) {
  for (int64_t i = 0; i < n;) {
    int64_t len = 1;
    while (i + len < n && off[i + len] == off[i] + len) len++;
    load_words(m->dtype, m->data, base + off[i], len, ints, out + i);
    i += len;
  }
}

void gemm_load_mat(const void *ctx, int64_t b, int64_t r, int64_t nr, int64_t k0,
                   const GemmBlock *o) {
  const GemmMat *m = ctx;
  Word run[GEMM_KC > GEMM_NC ? GEMM_KC : GEMM_NC];
  const int64_t *row = m->row + r, *k = m->k + k0;
  const Word *zero = m->zero ? m->zero + b * m->rows + r : NULL;
  bool by_row = o->nk > 1 ? k[1] - k[0] == 1 : nr <= 1;
  if (!by_row && nr > 1 && row[1] - row[0] != 1) by_row = true;
  if (by_row) {
    for (int64_t i = 0; i < nr; i++) {
      gather(m, m->batch[b] + row[i], k, o->nk, o->ints, run);
      if (zero) subtract(run, o->nk, zero[i], o->ints);
      gemm_put_row(o, i, run);
    }
    return;
  }
  for (int64_t i = 0; i < o->nk; i++) {
    gather(m, m->batch[b] + k[i], row, nr, o->ints, run);
    if (zero)
      for (int64_t j = 0; j < nr; j++) subtract(run + j, 1, zero[j], o->ints);
    gemm_put_col(o, i, nr, run);
  }
}

const int64_t *gemm_offsets(Run *run, int n, const int64_t *dims, const int64_t *strides,
                            int64_t *out_count) {
  int64_t count = 1;
  bool empty = false;
  for (int d = 0; d < n; d++) empty = empty || dims[d] == 0;
  for (int d = 0; d < n && !empty; d++)
    CHECK(ck_mul(count, dims[d], &count), "more offsets than can be counted");
  if (empty) count = 0;
  int64_t *off = arena_alloc_array(&run->scratch, MAX(count, 1), sizeof(int64_t));
  *out_count = count;
  if (count == 0) return off;
  int64_t filled = 1;  // the table of the inner dims, repeated outward
  for (int d = n - 1; d >= 0; d--) {
    for (int64_t i = 1; i < dims[d]; i++)
      for (int64_t j = 0; j < filled; j++) off[i * filled + j] = off[j] + i * strides[d];
    filled *= dims[d];
  }
  return off;
}

void gemm_store_dense(const void *ctx, int64_t b, int64_t i, int64_t j, int64_t nj, Word *row) {
  const GemmOut *o = ctx;
  store_words(o->v->dtype, o->v->data, (b * o->m + i) * o->n + j, nj, o->ints, row);
}
