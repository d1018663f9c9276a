// math_check.c -- generated math functions against the C library's, in a wider type.
#include "math_check.h"

#include <math.h>
#include <stdlib.h>

static double ref_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static long double ref_sigmoidl(long double x) { return 1 / (1 + expl(-x)); }
#define ROW(f)                                                                                     \
  { #f, f, f##l }
const MathRow math_rows[] = {
    ROW(exp),   ROW(log),   ROW(sin),  ROW(cos),
    ROW(tan),   ROW(asin),  ROW(acos), ROW(atan),
    ROW(sinh),  ROW(cosh),  ROW(tanh), ROW(asinh),
    ROW(acosh), ROW(atanh), ROW(erf),  {"sigmoid", ref_sigmoid, ref_sigmoidl},
    ROW(sqrt)};
const int math_nrows = (int)ARRAY_LEN(math_rows);

enum { BATCH = 1 << 14 };

// ---- distance ----

static double ulp_of(DType t, long double ref) {
  int e;
  frexpl(ref, &e);
  int mant = t == DT_F32 ? 24 : 53, least = t == DT_F32 ? -149 : -1074;
  return ldexp(1, MAX(e - mant, least));
}

static double distance(DType t, double got, long double ref) {
  long double most = t == DT_F32 ? 0x1.ffffffp127L
                                 : 0x1.fffffffffffff8p1023L;  // from here on it rounds to infinity
  if (isnan(ref) || isnan(got)) return isnan(ref) && isnan(got) ? 0 : INFINITY;
  if (fabsl(ref) >= most) ref = ref > 0 ? INFINITY : -INFINITY;
  if (isinf(ref) || isinf(got)) {
    if (isinf(ref) && isinf(got)) return (ref > 0) == (got > 0) ? 0 : INFINITY;
    // One unit beyond the largest number is infinity.
    double edge = t == DT_F32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
    return fabsl(isinf(ref) ? (long double)got : ref) >=
                   edge * (1 - (t == DT_F32 ? 0x1p-22 : 0x1p-51))
               ? 1
               : INFINITY;
  }
  return (double)(fabsl((long double)got - ref) / ulp_of(t, ref));
}

static void note(MathWorst *w, DType t, double x, double y, double got, long double ref) {
  double d = distance(t, got, ref);
  w->tried++;
  if (!(d <= w->ulps)) *w = (MathWorst){d, x, y, got, w->tried};
}

// ---- kernels ----

typedef struct Bench {
  Arena arena;
  Mapped code;
  void *x, *y, *z;
} Bench;

static bool bench_open(Bench *b, const char *name, const char *type, bool two, const Machine *m) {
  IntPool pool;
  Diag d;
  LoopKernel *k;
  *b = (Bench){0};
  arena_init(&b->arena);
  intpool_init(&pool, &b->arena);
  diag_init(&d);
  const char *text = str_printf(
      &b->arena,
      "kernel @%s (%%x: %s[16384], %%y: %s[16384], out %%z: %s[16384]) {\n parallel i < 16 {\n"
      "  vector j < 1024 {\n   store %%z[1024*i + j] = %s(%%x[1024*i + j]%s)\n  }\n }\n}\n",
      name, type, type, type, name, two ? ", %y[1024*i + j]" : "");
  if (loop_parse(str_of(text), NULL, &b->arena, &pool, &d, &k)) return false;
  b->code = codegen_map(k, CODE_IMAGE, m, &b->arena);
  b->x = aligned_alloc(64, BATCH * 8);
  b->y = aligned_alloc(64, BATCH * 8);
  b->z = aligned_alloc(64, BATCH * 8);
  return b->code.fn && b->x && b->y && b->z;
}

static void bench_run(const Bench *b) {
  void *args[] = {b->x, b->y, b->z};
  b->code.fn(args, NULL, 0, 16, NULL);
}

static void bench_close(Bench *b) {
  codegen_unmap(b->code);
  free(b->x);
  free(b->y);
  free(b->z);
  arena_deinit(&b->arena);
}

static double random_f64(uint64_t *state) {
  *state = hash_u64(*state + 0x9E3779B97F4A7C15);
  uint64_t r = *state, bits = hash_u64(r);
  double v;
  if (r % 4 == 0) {  // any pattern
    memcpy(&v, &bits, sizeof v);
    return v;
  }
  v = (double)(int64_t)bits * 0x1p-63;
  return v * ldexp(1, (int)(r >> 8 & 15) - 5);
}

MathWorst math_check_f32(const MathRow *r, const Machine *m, uint32_t first, uint32_t step,
                         int64_t count) {
  Bench b;
  MathWorst w = {.ulps = -1};
  if (!bench_open(&b, r->name, "f32", false, m)) return (MathWorst){.ulps = INFINITY};
  for (int64_t at = 0; at < count; at += BATCH) {
    for (int i = 0; i < BATCH; i++) {
      uint32_t bits = first + (uint32_t)(at + i) * step;
      memcpy((float *)b.x + i, &bits, 4);
    }
    bench_run(&b);
    for (int i = 0; i < BATCH; i++) {
      double x = ((float *)b.x)[i];
      note(&w, DT_F32, x, 0, ((float *)b.z)[i], (long double)r->f32(x));
    }
  }
  bench_close(&b);
  return w;
}

MathWorst math_check_f64(const MathRow *r, const Machine *m, int64_t count, uint64_t seed) {
  Bench b;
  MathWorst w = {.ulps = -1};
  if (!bench_open(&b, r->name, "f64", false, m)) return (MathWorst){.ulps = INFINITY};
  for (int64_t at = 0; at < count; at += BATCH) {
    for (int i = 0; i < BATCH; i++) ((double *)b.x)[i] = random_f64(&seed);
    bench_run(&b);
    for (int i = 0; i < BATCH; i++) {
      double x = ((double *)b.x)[i];
      note(&w, DT_F64, x, 0, ((double *)b.z)[i], r->f64((long double)x));
    }
  }
  bench_close(&b);
  return w;
}

// Operands for which the result is in range more often than not, and the special ones in all pairs.
static double pow_operand(uint64_t *seed, int64_t i, bool second) {
  static const double special[] = {0.0,  -0.0, 1,  -1, INFINITY, -INFINITY, NAN,    0.5,
                                   -0.5, 2,    -2, 3,  -3,       1e300,     -1e300, 1e-310};
  enum { N = ARRAY_LEN(special) };
  if (i < N * N) return special[second ? i % N : i / N];
  double v = random_f64(seed);
  if (second && i % 3 == 0) return trunc(v * 8);
  return i % 5 ? v : second ? v * 100 : fabs(v);
}

MathWorst math_check_pow(DType t, const Machine *m, int64_t count, uint64_t seed) {
  Bench b;
  MathWorst w = {.ulps = -1};
  if (!bench_open(&b, "pow", dtype_name(t), true, m)) return (MathWorst){.ulps = INFINITY};
  for (int64_t at = 0; at < count; at += BATCH) {
    for (int i = 0; i < BATCH; i++) {
      put_f64(t, b.x, i, pow_operand(&seed, at + i, false));
      put_f64(t, b.y, i, pow_operand(&seed, at + i, true));
    }
    bench_run(&b);
    for (int i = 0; i < BATCH; i++) {
      double x = get_f64(t, b.x, i), y = get_f64(t, b.y, i);
      if (isnan(x)) x = NAN;  // a quiet one: what a signalling one does is the library's own affair
      if (isnan(y)) y = NAN;
      // x87's powl takes the power of an infinity for an odd one at -2^63, so it is asked for
      // finite operands alone.
      bool plain = t == DT_F64 && isfinite(x) && isfinite(y);
      note(&w, t, x, y, get_f64(t, b.z, i),
           plain ? powl((long double)x, (long double)y) : (long double)pow(x, y));
    }
  }
  bench_close(&b);
  return w;
}
