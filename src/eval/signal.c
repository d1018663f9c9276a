// signal.c -- discrete Fourier transforms, of whole axes and of frames.
//
// Lengths that are powers of two go through radix 2, short ones through the definition, and all
// others through Bluestein's convolution, so any length takes O(n log n).  Everything is in double,
// complex numbers as pairs.  Tables and line buffers are made before the threads start.
#include "eval/signal.h"

#include <math.h>

enum { DIRECT_MAX = 64 };
static const double TAU = 6.28318530717958647693;

// ---- one line ----

typedef struct Fft {
  int64_t n;        // length of the transform
  int64_t m;        // length of the radix-2 transform behind it; 0: by definition
  double sign;      // -1 forward, 1 inverse
  double *root;     // m / 2 (or n) roots of unity, sign included
  double *chirp;    // Bluestein: exp(sign i pi k^2 / n), n of them
  double *filter;   // Bluestein: the transformed conjugate chirp, divided by m
  int64_t scratch;  // doubles a line needs
} Fft;

static void fill_roots(double *root, int64_t count, int64_t n, double sign) {
  for (int64_t k = 0; k < count; k++) {
    double a = TAU * (double)k / (double)n;
    root[2 * k] = cos(a);
    root[2 * k + 1] = sign * sin(a);
  }
}

// In place, m a power of two.  `conj` runs it with the conjugate roots.
static void radix2(const Fft *f, double *x, bool conj) {
  int64_t m = f->m;
  for (int64_t i = 1, j = 0; i < m; i++) {
    int64_t bit = m >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i >= j) continue;
    double re = x[2 * i], im = x[2 * i + 1];
    x[2 * i] = x[2 * j], x[2 * i + 1] = x[2 * j + 1];
    x[2 * j] = re, x[2 * j + 1] = im;
  }
  for (int64_t half = 1; half < m; half *= 2) {
    int64_t step = m / (2 * half);
    for (int64_t base = 0; base < m; base += 2 * half) {
      for (int64_t k = 0; k < half; k++) {
        double wr = f->root[2 * k * step], wi = f->root[2 * k * step + 1];
        if (conj) wi = -wi;
        double *a = x + 2 * (base + k), *b = a + 2 * half;
        double re = b[0] * wr - b[1] * wi, im = b[0] * wi + b[1] * wr;
        b[0] = a[0] - re, b[1] = a[1] - im;
        a[0] += re, a[1] += im;
      }
    }
  }
}

static void bluestein_init(Arena *s, Fft *f) {
  int64_t n = f->n, square = 0;
  f->chirp = arena_array(s, double, 2 * n);
  f->filter = arena_array(s, double, 2 * f->m);
  for (int64_t k = 0; k < n; k++) {  // square is k^2 mod 2n
    double a = TAU * (double)square / (double)(2 * n), re = cos(a), im = f->sign * sin(a);
    f->chirp[2 * k] = re, f->chirp[2 * k + 1] = im;
    double *at = f->filter + 2 * k, *mirror = f->filter + 2 * (k ? f->m - k : 0);
    at[0] = mirror[0] = re / (double)f->m;
    at[1] = mirror[1] = -im / (double)f->m;
    square = (square + 2 * k + 1) % (2 * n);
  }
  radix2(f, f->filter, false);
}

static void fft_init(Arena *s, Fft *f, int64_t n, bool inverse) {
  *f = (Fft){.n = n, .sign = inverse ? 1 : -1};
  bool power = (n & (n - 1)) == 0;
  if (n <= DIRECT_MAX && !power) {
    f->root = arena_array(s, double, 2 * n);
    fill_roots(f->root, n, n, f->sign);
    f->scratch = 2 * n;
    return;
  }
  f->m = n;
  if (!power) {
    if (n > INT64_MAX / 64)
      trap_raise(TENON_ENOMEM, "a transform of %lld points is too long", (long long)n);
    for (f->m = 1; f->m < 2 * n - 1;) f->m *= 2;
  }
  f->root = arena_array(s, double, MAX(f->m, 2));
  fill_roots(f->root, MAX(f->m / 2, 1), f->m, f->sign);
  if (power) return;
  f->scratch = 2 * f->m;
  bluestein_init(s, f);
}

static void direct(const Fft *f, double *x, double *tmp) {
  int64_t n = f->n;
  memcpy(tmp, x, (size_t)n * 2 * sizeof(double));
  for (int64_t k = 0; k < n; k++) {
    double re = 0, im = 0;
    for (int64_t i = 0, at = 0; i < n; i++, at = at + k >= n ? at + k - n : at + k) {
      double wr = f->root[2 * at], wi = f->root[2 * at + 1];
      re += tmp[2 * i] * wr - tmp[2 * i + 1] * wi;
      im += tmp[2 * i] * wi + tmp[2 * i + 1] * wr;
    }
    x[2 * k] = re, x[2 * k + 1] = im;
  }
}

static void multiply(double *x, const double *by, int64_t n) {
  for (int64_t k = 0; k < n; k++) {
    double re = x[2 * k] * by[2 * k] - x[2 * k + 1] * by[2 * k + 1];
    x[2 * k + 1] = x[2 * k] * by[2 * k + 1] + x[2 * k + 1] * by[2 * k];
    x[2 * k] = re;
  }
}

// Transforms n complex numbers in place; not divided by n.
static void fft_run(const Fft *f, double *x, double *tmp) {
  int64_t n = f->n;
  if (!f->m) {
    direct(f, x, tmp);
  } else if (!f->chirp) {
    radix2(f, x, false);
  } else {
    memcpy(tmp, x, (size_t)n * 2 * sizeof(double));
    memset(tmp + 2 * n, 0, (size_t)(f->m - n) * 2 * sizeof(double));
    multiply(tmp, f->chirp, n);
    radix2(f, tmp, false);
    multiply(tmp, f->filter, f->m);
    radix2(f, tmp, true);
    multiply(tmp, f->chirp, n);
    memcpy(x, tmp, (size_t)n * 2 * sizeof(double));
  }
}

// ---- many lines ----

// Lines are cut into as many pieces as can run at once; each piece has its own buffer.
typedef struct Lines {
  const Fft *f;
  int64_t count, pieces, buffer;  // doubles a piece
  double *memory;
} Lines;

static void lines_init(Eval *e, const Fft *f, int64_t count, Lines *l) {
  *l = (Lines){.f = f, .count = count};
  l->pieces = MIN(count, 4 * (int64_t)MAX(1, pool_threads(e->run->pool)));
  l->buffer = 2 * f->n + f->scratch;
  int64_t total;
  if (!ck_mul(l->pieces, l->buffer, &total)) trap_raise(TENON_ENOMEM, "transform too long");
  l->memory = arena_array(&e->run->scratch, double, total);
}
static int64_t piece_begin(const Lines *l, int64_t piece) {
  return l->count / l->pieces * piece + MIN(piece, l->count % l->pieces);
}

// ---- dft ----

typedef struct DftJob {
  Lines lines;
  const Value *x;
  Value *y;
  int64_t length, bins, inner;  // of x and y along the axis; elements behind it
  int64_t parts, out_parts;     // 1 real, 2 complex
  bool half;                    // the input is half a spectrum
  double scale;
} DftJob;

static void load_line(const DftJob *j, int64_t line, double *buf) {
  int64_t n = j->lines.f->n, used = MIN(j->length, n);
  int64_t base = (line / j->inner * j->length * j->inner + line % j->inner) * j->parts;
  if (j->half) used = MIN(used, n / 2 + 1);
  memset(buf, 0, (size_t)n * 2 * sizeof(double));
  for (int64_t i = 0; i < used; i++)
    load_f64(j->x->dtype, j->x->data, base + i * j->inner * j->parts, j->parts, buf + 2 * i);
  if (!j->half) return;
  buf[1] = 0;  // a real signal's first (and middle) value has no imaginary part
  if (n % 2 == 0) buf[n + 1] = 0;
  for (int64_t i = 1; i < (n + 1) / 2; i++) {
    buf[2 * (n - i)] = buf[2 * i];
    buf[2 * (n - i) + 1] = -buf[2 * i + 1];
  }
}

static void dft_pieces(void *ctx, int64_t begin, int64_t end) {
  const DftJob *j = ctx;
  const Lines *l = &j->lines;
  for (int64_t p = begin; p < end; p++) {
    double *buf = l->memory + p * l->buffer;
    for (int64_t line = piece_begin(l, p); line < piece_begin(l, p + 1); line++) {
      load_line(j, line, buf);
      fft_run(l->f, buf, buf + 2 * l->f->n);
      int64_t to = (line / j->inner * j->bins * j->inner + line % j->inner) * j->out_parts;
      for (int64_t i = 0; i < j->bins; i++) {
        double v[2] = {buf[2 * i] * j->scale, buf[2 * i + 1] * j->scale};
        store_f64(j->y->dtype, j->y->data, to + i * j->inner * j->out_parts, j->out_parts, v);
      }
    }
  }
}

// A size operand of one element.
static tenon_status scalar_operand(Eval *e, int i, const char *name, int64_t dflt, int64_t *out) {
  *out = dflt;
  if (!eval_in(e, i)) return TENON_OK;
  Ints v;
  TRY(eval_ints(e, i, &v));
  if (v.n != 1)
    return eval_fail(e, TENON_EINVAL, "%s has %lld elements, must have 1", name, (long long)v.n);
  *out = v.v[0];
  return TENON_OK;
}

static tenon_status dft_length(Eval *e, const DftJob *j, int64_t *n) {
  TRY(scalar_operand(e, 1, "dft_length", j->half ? 2 * (j->length - 1) : j->length, n));
  if (*n < 1)
    return eval_fail(e, TENON_EINVAL, "the transform has length %lld, must have at least 1",
                     (long long)*n);
  return TENON_OK;
}

tenon_status eval_dft(Eval *e) {
  const dft_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  int64_t axis_value, n, dims[MAX_RANK];
  int axis;
  if (x->rank < 2 || x->dims[x->rank - 1] < 1 || x->dims[x->rank - 1] > 2 ||
      !dtype_is_float(x->dtype))
    return eval_fail(e, TENON_EINVAL, "x is %s%s, must be floats [..., 1] or [..., 2]",
                     dtype_name(x->dtype), shape_text(x->rank, x->dims).s);
  TRY(scalar_operand(e, 2, "axis", -2, &axis_value));
  TRY(eval_axis(e, axis_value, x->rank, &axis));
  if (axis == x->rank - 1)
    return eval_fail(e, TENON_EINVAL, "axis %d holds the parts of complex numbers", axis);
  DftJob j = {.x = x, .length = x->dims[axis], .inner = 1, .half = at->inverse && at->onesided};
  TRY(dft_length(e, &j, &n));
  j.parts = x->dims[x->rank - 1];
  j.out_parts = j.half ? 1 : 2;
  j.bins = at->onesided && !at->inverse ? n / 2 + 1 : n;
  j.scale = at->inverse ? 1 / (double)n : 1;
  memcpy(dims, x->dims, sizeof(dims));
  dims[axis] = j.bins;
  dims[x->rank - 1] = j.out_parts;
  TRY(eval_out(e, 0, x->dtype, x->rank, dims, &j.y));
  if (!j.y->n) return TENON_OK;
  for (int k = axis + 1; k < x->rank - 1; k++) j.inner *= dims[k];
  Fft f;
  fft_init(&e->run->scratch, &f, n, at->inverse);
  lines_init(e, &f, j.y->n / j.bins / j.out_parts, &j.lines);
  parallel_for(e->run->pool, j.lines.pieces, 1, dft_pieces, &j);
  return TENON_OK;
}

// ---- stft ----

typedef struct StftJob {
  Lines lines;
  const Value *x;
  Value *y;
  Floats window;  // empty: all ones
  int64_t step, frames, bins, parts;
} StftJob;

static void stft_pieces(void *ctx, int64_t begin, int64_t end) {
  const StftJob *j = ctx;
  const Lines *l = &j->lines;
  int64_t n = l->f->n;
  for (int64_t p = begin; p < end; p++) {
    double *buf = l->memory + p * l->buffer;
    for (int64_t line = piece_begin(l, p); line < piece_begin(l, p + 1); line++) {
      int64_t at = (line / j->frames * j->x->dims[1] + line % j->frames * j->step) * j->parts;
      for (int64_t i = 0; i < n; i++) {
        double w = j->window.n ? j->window.v[i] : 1;
        buf[2 * i + 1] = 0;
        load_f64(j->x->dtype, j->x->data, at + i * j->parts, j->parts, buf + 2 * i);
        buf[2 * i] *= w, buf[2 * i + 1] *= w;
      }
      fft_run(l->f, buf, buf + 2 * n);
      store_f64(j->y->dtype, j->y->data, line * j->bins * 2, j->bins * 2, buf);
    }
  }
}

static tenon_status stft_sizes(Eval *e, StftJob *j, int64_t *n) {
  int64_t length = j->x->dims[1];
  if (eval_in(e, 2)) TRY(eval_doubles(e, 2, &j->window));
  bool windowed = eval_in(e, 2) != NULL;
  TRY(scalar_operand(e, 3, "frame_length", windowed ? j->window.n : length, n));
  if (!eval_in(e, 1)) return eval_fail(e, TENON_EINVAL, "frame_step is missing");
  TRY(scalar_operand(e, 1, "frame_step", 1, &j->step));
  if (windowed && j->window.n != *n)
    return eval_fail(e, TENON_EINVAL, "the window has %lld elements, the frames %lld",
                     (long long)j->window.n, (long long)*n);
  if (j->step < 1 || *n < 1 || *n > length)
    return eval_fail(e, TENON_EINVAL, "frames of %lld every %lld do not fit a signal of %lld",
                     (long long)*n, (long long)j->step, (long long)length);
  j->frames = (length - *n) / j->step + 1;
  return TENON_OK;
}

tenon_status eval_stft(Eval *e) {
  const stft_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "signal", 0));
  const Value *x = e->in[0];
  int64_t parts = x->rank == 3 ? x->dims[2] : x->rank == 2 ? 1 : 0, n;
  if (parts < 1 || parts > 2 || !dtype_is_float(x->dtype))
    return eval_fail(e, TENON_EINVAL, "signal is %s%s, must be floats [batch, length, 1 or 2]",
                     dtype_name(x->dtype), shape_text(x->rank, x->dims).s);
  StftJob j = {.x = x, .parts = parts};
  TRY(stft_sizes(e, &j, &n));
  j.bins = at->onesided ? n / 2 + 1 : n;
  int64_t dims[4] = {x->dims[0], j.frames, j.bins, 2};
  TRY(eval_out(e, 0, x->dtype, 4, dims, &j.y));
  if (!j.y->n) return TENON_OK;
  Fft f;
  fft_init(&e->run->scratch, &f, n, false);
  lines_init(e, &f, dims[0] * dims[1], &j.lines);
  parallel_for(e->run->pool, j.lines.pieces, 1, stft_pieces, &j);
  return TENON_OK;
}
