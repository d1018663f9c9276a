// peak.c -- measures the machine's limits (peak.h).
//
// Arithmetic: chains of fused multiply-adds in the widest vector registers, enough of them to hide the latency.  Memory:
// sums over a buffer that no cache holds.  Each is done several times by all threads at once, and the best counts: whatever
// disturbs a measurement makes it slower.  The figures are kept in a file for each machine and number of threads.
#include "cli/peak.h"

#include "base/machine.h"
#include "base/platform.h"
#include "runtime/workers.h"
#include "targets/llvm/cache.h"

#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { CHAINS = 12, ROUNDS = 1 << 16, REPEATS = 12 };
static const int64_t measure_ns = 250000000;  // for each figure, at least
static const int64_t buffer_bytes = (int64_t)256 << 20;

// ---- arithmetic: each function does ROUNDS * CHAINS vector operations and gives their lanes ----

// Written out, so that every chain stays in a register.
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

#if defined(__x86_64__)
#define CHAIN_BEGIN_512(k) __m512 a##k = _mm512_set1_ps(k);
#define CHAIN_STEP_512(k)  a##k = _mm512_fmadd_ps(a##k, x, y);
#define CHAIN_END_512(k)   sum = _mm512_add_ps(sum, a##k);
__attribute__((target("avx512f"))) static int chains_512(float *out) {
  __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f), sum = y;
  EACH(CHAIN_BEGIN_512)
  for (int i = 0; i < ROUNDS; i++) {
    EACH(CHAIN_STEP_512)
  }
  EACH(CHAIN_END_512)
  _mm512_storeu_ps(out, sum);
  return 16;
}

#define CHAIN_BEGIN_256(k) __m256 a##k = _mm256_set1_ps(k);
#define CHAIN_STEP_256(k)  a##k = _mm256_fmadd_ps(a##k, x, y);
#define CHAIN_END_256(k)   sum = _mm256_add_ps(sum, a##k);
__attribute__((target("avx2,fma"))) static int chains_256(float *out) {
  __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f), sum = y;
  EACH(CHAIN_BEGIN_256)
  for (int i = 0; i < ROUNDS; i++) {
    EACH(CHAIN_STEP_256)
  }
  EACH(CHAIN_END_256)
  _mm256_storeu_ps(out, sum);
  return 8;
}
#endif

// Four lanes, in whatever vector registers there are.
typedef float Lanes __attribute__((vector_size(16)));
#define CHAIN_BEGIN_128(k) Lanes a##k = {k, k, k, k};
#define CHAIN_STEP_128(k)  a##k = a##k * x + y;
#define CHAIN_END_128(k)   sum += a##k;
static int chains_128(float *out) {
  Lanes x = {0.999f, 0.999f, 0.999f, 0.999f}, y = {0.001f, 0.001f, 0.001f, 0.001f}, sum = y;
  EACH(CHAIN_BEGIN_128)
  for (int i = 0; i < ROUNDS; i++) {
    EACH(CHAIN_STEP_128)
  }
  EACH(CHAIN_END_128)
  memcpy(out, &sum, sizeof sum);
  return 4;
}

static int run_chains(const Machine *m, float *out) {
#if defined(__x86_64__)
  if (m->has & CPU_AVX512) return chains_512(out);
  if (m->has & CPU_FMA && m->has & CPU_AVX2) return chains_256(out);
#else
  (void)m;
#endif
  return chains_128(out);
}

// ---- all threads ----

typedef struct Job {
  Machine m;
  const uint64_t *buffer;
  int64_t words;
  double ops[256];    // by thread
  uint64_t sum[256];  // so that nothing is left out
} Job;

static void arithmetic_part(void *ctx, int thread, int nthreads) {
  Job *j = ctx;
  float out[16] = {0};
  (void)nthreads;
  j->ops[thread] = 2.0 * ROUNDS * CHAINS * run_chains(&j->m, out);
  memcpy(&j->sum[thread], out, sizeof j->sum[thread]);
}

static void memory_part(void *ctx, int thread, int nthreads) {
  Job *j = ctx;
  int64_t begin = j->words / nthreads * thread, end = j->words / nthreads * (thread + 1);
  uint64_t s[8] = {0};
  for (int64_t i = begin; i + 8 <= end; i += 8)
    for (int k = 0; k < 8; k++) s[k] += j->buffer[i + k];
  for (int k = 0; k < 8; k++) j->sum[thread] += s[k];
}

static double best_seconds(Workers *w, WorkersFn *fn, Job *j) {
  double best = 1e9;
  int64_t begin = platform->now();
  for (int i = 0; i < REPEATS || platform->now() - begin < measure_ns; i++) {
    int64_t start = platform->now();
    workers_run(w, fn, j);
    double s = (double)MAX(platform->now() - start, 1) / 1e9;
    if (s < best) best = s;
  }
  return best;
}

tenon_status peak_measure(int threads, Diag *d, Peak *out) {
  static Job job;
  *out = (Peak){0};
  machine_host(&job.m);
  Workers *w = workers_create(threads);
  uint64_t *buffer = mem_alloc(buffer_bytes);
  if (!w || !buffer) {
    workers_free(w);
    mem_free(buffer, buffer_bytes);
    return fail(d, TENON_ENOMEM, NOWHERE, "out of memory for measuring the machine");
  }
  memset(buffer, 1, (size_t)buffer_bytes);  // memory that was never written is not there
  job.buffer = buffer;
  job.words = buffer_bytes / 8;
  double seconds = best_seconds(w, arithmetic_part, &job);
  out->threads = workers_count(w);
  for (int i = 0; i < out->threads; i++) out->flops += job.ops[i] / seconds;
  out->bandwidth = (double)buffer_bytes / best_seconds(w, memory_part, &job);
  workers_free(w);
  mem_free(buffer, buffer_bytes);
  return TENON_OK;
}

// ---- the file ----

static const char *cache_file(Arena *a, int threads) {
  Machine m;
  char folder[4096];
  if (!cache_folder(folder, sizeof folder)) return NULL;
  machine_host(&m);
  uint64_t h = hash_bytes(m.name, (int64_t)strlen(m.name), machine_hash(&m));
  return str_printf(a, "%s/peak-%016llx-%d", folder, (unsigned long long)h, threads);
}

static bool read_peak(const char *path, int threads, Peak *out) {
  File f;
  Diag quiet;
  char text[128] = {0};
  diag_init(&quiet);
  if (!path || file_open(path, &f, &quiet)) return false;
  if (f.size) memcpy(text, f.bytes, (size_t)MIN(f.size, (int64_t)sizeof text - 1));
  file_close(&f);
  *out = (Peak){.threads = threads};
  char *rest;
  out->flops = strtod(text, &rest);
  out->bandwidth = strtod(rest, NULL);
  return out->flops > 0 && out->bandwidth > 0;
}

tenon_status peak_renew(int threads, Arena *a, Diag *d, Peak *out, const char **out_file) {
  TRY(peak_measure(threads, d, out));
  const char *file = cache_file(a, threads);
  char folder[4096], text[128];
  Diag quiet;
  diag_init(&quiet);
  int n = snprintf(text, sizeof text, "%.0f %.0f\n", out->flops, out->bandwidth);
  if (cache_folder(folder, sizeof folder)) cache_make(folder);
  bool kept = file && !file_write(file, text, n, &quiet);
  if (out_file) *out_file = kept ? file : "";
  return TENON_OK;
}

tenon_status peak_get(int threads, Diag *d, Peak *out) {
  if (threads <= 0) threads = machine_threads();
  Arena a;
  arena_init_scoped(&a);
  tenon_status s = TENON_OK;
  if (!read_peak(cache_file(&a, threads), threads, out)) s = peak_renew(threads, &a, d, out, NULL);
  arena_deinit(&a);
  return s;
}
