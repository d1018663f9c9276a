// peak_measure.c -- measures the machine's limits (peak.h).
//
// Arithmetic: chains of operations in the widest vector registers, enough of them to hide the
// latency.  Memory: sums over, and copies of, buffers that just one level holds.  Each is done many
// times by all threads at once, in jobs so short that some fall between two interruptions, and the
// best counts: whatever disturbs a measurement makes it slower.  Where several threads do much less
// than as many times what one does, other work has a CPU: then it is tried for longer.
#include "cli/bench/peak.h"

#include "base/machine.h"
#include "base/platform.h"
#include "runtime/workers.h"

#include <stdatomic.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { CHAINS = 12, ROUNDS = 1 << 13, REPEATS = 8, MAX_THREADS = 256, LINE = 64 };
static const int64_t measure_ns = 40000000, patience_ns = 600000000;  // for each figure
static const int64_t memory_bytes = (int64_t)192 << 20;

// ---- arithmetic: each function does ROUNDS * CHAINS vector operations and gives the operations of
// one ----

// Written out, so that every chain stays in a register.
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define CHAINS_OF(name, with, V, ops, first, step, add)                                            \
  __attribute__((target(with))) static int name(void *out) {                                       \
    V x = first(1), y = first(2), sum = first(3);                                                  \
    EACH(CHAIN_##name)                                                                             \
    for (int i = 0; i < ROUNDS; i++) {                                                             \
      EACH(STEP_##name)                                                                            \
    }                                                                                              \
    EACH(END_##name)                                                                               \
    sum = add(sum, step(x, x, y));                                                                 \
    memcpy(out, &sum, sizeof sum);                                                                 \
    return ops;                                                                                    \
  }

#if defined(__x86_64__)
#define FIRST_512(k)     _mm512_set1_ps(1.0f / (k + 2))
#define FMA_512(a, x, y) _mm512_fmadd_ps(a, x, y)
#define CHAIN_f32_512(k) __m512 a##k = FIRST_512(k);
#define STEP_f32_512(k)  a##k = FMA_512(a##k, x, y);
#define END_f32_512(k)   sum = _mm512_add_ps(sum, a##k);
CHAINS_OF(f32_512, "avx512f", __m512, 32, FIRST_512, FMA_512, _mm512_add_ps)

#define FIRST_256(k)     _mm256_set1_ps(1.0f / (k + 2))
#define FMA_256(a, x, y) _mm256_fmadd_ps(a, x, y)
#define CHAIN_f32_256(k) __m256 a##k = FIRST_256(k);
#define STEP_f32_256(k)  a##k = FMA_256(a##k, x, y);
#define END_f32_256(k)   sum = _mm256_add_ps(sum, a##k);
CHAINS_OF(f32_256, "avx2,fma", __m256, 16, FIRST_256, FMA_256, _mm256_add_ps)

// Sums of products of two bf16, of four bytes: what x and y hold does not matter.
#define BITS_BF16(v)      ((__m512bh)(v))
#define DOT_BF16(a, x, y) _mm512_dpbf16_ps(a, BITS_BF16(x), BITS_BF16(y))
#define CHAIN_bf16_512(k) __m512 a##k = FIRST_512(k);
#define STEP_bf16_512(k)  a##k = DOT_BF16(a##k, x, y);
#define END_bf16_512(k)   sum = _mm512_add_ps(sum, a##k);
CHAINS_OF(bf16_512, "avx512f,avx512bf16", __m512, 64, FIRST_512, DOT_BF16, _mm512_add_ps)

#define FIRST_I8(k)     _mm512_set1_epi32(k)
#define DOT_I8(a, x, y) _mm512_dpbusd_epi32(a, x, y)
#define CHAIN_i8_512(k) __m512i a##k = FIRST_I8(k);
#define STEP_i8_512(k)  a##k = DOT_I8(a##k, x, y);
#define END_i8_512(k)   sum = _mm512_add_epi32(sum, a##k);
CHAINS_OF(i8_512, "avx512f,avx512vnni", __m512i, 128, FIRST_I8, DOT_I8, _mm512_add_epi32)
#endif

// Four lanes, in whatever vector registers there are.
typedef float Lanes __attribute__((vector_size(16)));
static int f32_128(void *out) {
  enum { LANES = 4 };
  Lanes a[CHAINS], x = {0.999f, 0.999f, 0.999f, 0.999f}, y = x, sum = x;
  for (int k = 0; k < CHAINS; k++) a[k] = x;
  for (int i = 0; i < ROUNDS; i++) {
#define STEP_128(k) a[k] = a[k] * x + y;
    EACH(STEP_128)
  }
  for (int k = 0; k < CHAINS; k++) sum += a[k];
  memcpy(out, &sum, sizeof sum);
  return 2 * LANES;
}

typedef int ChainsFn(void *out);
// The fastest way to do operations of a kind; NULL: the machine has none of its own, and does them
// as f32.
static ChainsFn *chains_of(const Machine *m, OpsKind kind) {
#if defined(__x86_64__)
  bool wide = m->has & CPU_AVX512;
  if (kind == OPS_BF16) return m->has & CPU_BF16 ? bf16_512 : NULL;
  if (kind == OPS_I8) return wide && m->has & CPU_VNNI ? i8_512 : NULL;
  if (wide) return f32_512;
  if (m->has & CPU_FMA && m->has & CPU_AVX2) return f32_256;
#else
  (void)m;
#endif
  return kind == OPS_F32 ? f32_128 : NULL;
}

// ---- memory: each function goes `times` times over a thread's part ----

#define SUM_OF(name, with, bytes_)                                                                 \
  with static uint64_t sum_##name(const char *from, int64_t bytes, int64_t times) {                \
    typedef uint64_t V __attribute__((vector_size(bytes_)));                                       \
    V s[4] = {{0}};                                                                                \
    for (int64_t t = 0; t < times; t++)                                                            \
      for (const V *p = (const V *)(const void *)from, *end = p + bytes / bytes_; p < end; p += 4) \
        s[0] += p[0], s[1] += p[1], s[2] += p[2], s[3] += p[3];                                    \
    s[0] += s[1] + s[2] + s[3];                                                                    \
    return s[0][0] + s[0][1];                                                                      \
  }                                                                                                \
  with static void copy_##name(char *to, const char *from, int64_t bytes, int64_t times) {         \
    typedef uint64_t V __attribute__((vector_size(bytes_)));                                       \
    for (int64_t t = 0; t < times; t++)                                                            \
      for (int64_t i = 0; i < bytes; i += 4 * bytes_) {                                            \
        const V *p = (const V *)(const void *)(from + i);                                          \
        V *q = (V *)(void *)(to + i);                                                              \
        V a = p[0], b = p[1], c = p[2], d = p[3];                                                  \
        q[0] = a, q[1] = b, q[2] = c, q[3] = d;                                                    \
        __asm__ volatile("" ::: "memory");                                                         \
      }                                                                                            \
  }
#if defined(__x86_64__)
SUM_OF(512, __attribute__((target("avx512f"))), 64)
SUM_OF(256, __attribute__((target("avx2"))), 32)
#endif
SUM_OF(128, , 16)

// ---- all threads ----

typedef struct Job {
  Machine m;
  ChainsFn *chains;
  char *buffer;
  int64_t part, times;  // bytes of a thread, and how often it goes over them
  bool copies;
  double ops[MAX_THREADS];    // by thread
  uint64_t sum[MAX_THREADS];  // so that nothing is left out
} Job;

static void arithmetic_part(void *ctx, int thread, int nthreads) {
  Job *j = ctx;
  char out[LINE] = {0};
  (void)nthreads;
  j->ops[thread] = (double)ROUNDS * CHAINS * j->chains(out);
  memcpy(&j->sum[thread], out, sizeof j->sum[thread]);
}

static void memory_part(void *ctx, int thread, int nthreads) {
  Job *j = ctx;
  char *at = j->buffer + j->part * thread;
  int64_t half = j->part / 2;
  (void)nthreads;
#if defined(__x86_64__)
  if (j->m.has & CPU_AVX512) {
    if (j->copies)
      copy_512(at + half, at, half, j->times);
    else
      j->sum[thread] += sum_512(at, j->part, j->times);
    return;
  }
  if (j->m.has & CPU_AVX2) {
    if (j->copies)
      copy_256(at + half, at, half, j->times);
    else
      j->sum[thread] += sum_256(at, j->part, j->times);
    return;
  }
#endif
  if (j->copies)
    copy_128(at + half, at, half, j->times);
  else
    j->sum[thread] += sum_128(at, j->part, j->times);
}

// The least seconds of a job; tried on for a while as long as they are more than `hoped`.
static double best_seconds(Workers *w, WorkersFn *fn, Job *j, double hoped) {
  double best = 1e9;
  int64_t begin = platform->now(), spent = 0;
  for (int i = 0; i < REPEATS || spent < measure_ns || (best > hoped && spent < patience_ns); i++) {
    int64_t start = platform->now();
    workers_run(w, fn, j);
    int64_t end = platform->now();
    best = MIN(best, (double)MAX(end - start, 1) / 1e9);
    spent = end - begin;
  }
  return best;
}

// `one`: seconds of the same job on one thread; 0 when that was not measured.
static double patience(double one) { return one > 0 ? one * 1.1 : 1e9; }

static void measure_ops(Workers *w, Job *job, double *alone, Peak *out) {
  for (int kind = 0; kind < OPS_MEASURED; kind++) {
    job->chains = chains_of(&job->m, (OpsKind)kind);
    if (!job->chains) {
      out->ops[kind] = out->ops[OPS_F32];
      continue;
    }
    double seconds = best_seconds(w, arithmetic_part, job, patience(alone[kind]));
    if (workers_count(w) == 1) alone[kind] = seconds;
    out->ops[kind] = 0;
    for (int i = 0; i < workers_count(w); i++) out->ops[kind] += job->ops[i] / seconds;
  }
}

// Buffers of half of what a level holds, so that all of it stays there; of memory more than any
// cache holds.
static void measure_memory(Workers *w, Job *job, Peak *out) {
  int n = workers_count(w);
  int64_t hold[LEVELS] = {job->m.l1_bytes / 2, job->m.l2_bytes / 2, job->m.l3_bytes / 2 / n,
                          memory_bytes / n};
  for (int level = 0; level < LEVELS; level++) {
    enum { LEAST = 4096, JOB = 8 << 20 };
    job->part = MIN(MAX(hold[level], LEAST), memory_bytes / n) / 1024 * 1024;
    job->times = MAX(JOB / job->part, 1);
    for (int copies = 0; copies < 2; copies++) {
      job->copies = copies;
      double bytes = (double)job->part * (double)job->times * n;
      double rate = bytes / best_seconds(w, memory_part, job, 1e9);
      *(copies ? &out->copy[level] : &out->read[level]) = rate;
    }
  }
}

tenon_status peak_measure(int threads, Diag *d, Peak *out) {
  static Job job;
  double alone[OPS_MEASURED] = {0};
  *out = (Peak){.fresh = true};
  machine_host(&job.m);
  Workers *one = threads > 1 ? workers_create(1) : NULL;
  if (one) measure_ops(one, &job, alone, out);  // only for what to hope for
  workers_free(one);
  Workers *w = workers_create(threads);
  job.buffer = mem_alloc(memory_bytes);
  if (!w || !job.buffer) {
    workers_free(w);
    mem_free(job.buffer, memory_bytes);
    return fail(d, TENON_ENOMEM, NOWHERE, "out of memory for measuring the machine");
  }
  memset(job.buffer, 1, (size_t)memory_bytes);  // memory that was never written is not there
  out->threads = workers_count(w);
  out->l2 = job.m.l2_bytes * out->threads;
  out->l3 = job.m.l3_bytes;
  measure_ops(w, &job, alone, out);
  measure_memory(w, &job, out);
  workers_free(w);
  mem_free(job.buffer, memory_bytes);
  return TENON_OK;
}

// ---- between cores ----

enum { TRIPS = 500, LEAST_BATCHES = 3, BATCHES = 40 };
typedef struct Line {
  _Alignas(LINE) atomic_int turn;
} Line;

// The line goes to and fro between the first two threads.
static void trips_part(void *ctx, int thread, int nthreads) {
  atomic_int *turn = ctx;
  if (thread > 1 || nthreads < 2) return;
  for (int i = 0; i < TRIPS; i++) {
    while (atomic_load_explicit(turn, memory_order_acquire) != thread) continue;
    atomic_store_explicit(turn, !thread, memory_order_release);
  }
}

static void empty_part(void *ctx, int thread, int nthreads) {
  (void)ctx;
  (void)thread;
  (void)nthreads;
}

tenon_status latency_measure(int threads, Diag *d, Latency *out) {
  *out = (Latency){0};
  Workers *w = workers_create(threads);
  if (!w) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory for measuring the machine");
  static Line line;
  if (workers_count(w) > 1) {
    out->round_trip_ns = out->job_ns = 1e9;
    int64_t begin = platform->now();
    for (int b = 0; b < LEAST_BATCHES || (b < BATCHES && platform->now() - begin < measure_ns);
         b++) {
      atomic_store(&line.turn, 0);
      int64_t start = platform->now();
      workers_run(w, trips_part, &line.turn);
      int64_t middle = platform->now();
      for (int i = 0; i < TRIPS; i++) workers_run(w, empty_part, NULL);
      int64_t end = platform->now();
      out->round_trip_ns = MIN(out->round_trip_ns, (double)(middle - start) / TRIPS);
      out->job_ns = MIN(out->job_ns, (double)(end - middle) / TRIPS);
    }
  }
  workers_free(w);
  return TENON_OK;
}
