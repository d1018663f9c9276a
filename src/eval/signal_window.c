// signal_window.c -- windows and the mel weight matrix: results made from a few numbers.
#include "eval/signal.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

static tenon_status one_int(Eval *e, int i, const char *name, int64_t *out) {
  Ints v;
  *out = 0;
  TRY(eval_ints(e, i, &v));
  if (v.n != 1)
    return eval_fail(e, TENON_EINVAL, "%s has %lld elements, must have 1", name, (long long)v.n);
  *out = v.v[0];
  return TENON_OK;
}

// ---- windows ----

typedef double WindowFn(double turn);  // of a position as a fraction of the period

static tenon_status make_window(Eval *e, WindowFn *fn) {
  const signal_window_attrs *at = e->attrs;
  int64_t n;
  Value *y;
  TRY(one_int(e, 0, "size", &n));
  DTypeClass c = dtype_class(at->output_datatype);
  if (c != DC_FLOAT && c != DC_INT && c != DC_UINT)
    return eval_fail(e, TENON_EINVAL, "output_datatype %s is no number type",
                     dtype_name(at->output_datatype));
  TRY(eval_out(e, 0, at->output_datatype, 1, &n, &y));
  int64_t period = at->periodic ? n : n - 1;
  // A symmetric window of one element is its peak.
  for (int64_t i = 0; i < n; i++) val_put_f64(y, i, fn(period ? (double)i / (double)period : 0.5));
  return TENON_OK;
}

static double hann(double t) { return sin(PI * t) * sin(PI * t); }
static double hamming(double t) { return 25.0 / 46 - 21.0 / 46 * cos(2 * PI * t); }
static double blackman(double t) { return -0.5 * cos(2 * PI * t) + 0.08 * cos(4 * PI * t) + 0.42; }

tenon_status eval_hann_window(Eval *e) { return make_window(e, hann); }
tenon_status eval_hamming_window(Eval *e) { return make_window(e, hamming); }
tenon_status eval_blackman_window(Eval *e) { return make_window(e, blackman); }

// ---- mel weights ----

static tenon_status one_f64(Eval *e, int i, const char *name, double *out) {
  Floats v;
  *out = 0;
  TRY(eval_doubles(e, i, &v));
  if (v.n != 1)
    return eval_fail(e, TENON_EINVAL, "%s has %lld elements, must have 1", name, (long long)v.n);
  *out = v.v[0];
  return TENON_OK;
}

static double hertz_to_mel(double f) { return 2595 * log10(1 + f / 700); }
static double mel_to_hertz(double m) { return 700 * (pow(10, m / 2595) - 1); }

static void put(Value *y, int64_t row, int64_t col, double v) {
  val_put_f64(y, row * y->dims[1] + col, v);
}

// The triangle of one band: up from `lo` to 1 at `mid`, down to `hi`.
static void fill_band(Value *y, int64_t col, const int64_t *bin) {
  int64_t lo = bin[0], mid = bin[1], hi = bin[2];
  if (lo == mid) put(y, mid, col, 1);
  for (int64_t r = lo; r <= mid && mid > lo; r++)
    put(y, r, col, (double)(r - lo) / (double)(mid - lo));
  for (int64_t r = mid; r < hi; r++) put(y, r, col, (double)(hi - r) / (double)(hi - mid));
}

tenon_status eval_mel_weight_matrix(Eval *e) {
  const mel_weight_matrix_attrs *at = e->attrs;
  int64_t bands, length, rate, n;
  double lower, upper;
  Value *y;
  TRY(one_int(e, 0, "num_mel_bins", &bands));
  TRY(one_int(e, 1, "dft_length", &length));
  TRY(one_int(e, 2, "sample_rate", &rate));
  TRY(one_f64(e, 3, "lower_edge_hertz", &lower));
  TRY(one_f64(e, 4, "upper_edge_hertz", &upper));
  if (bands < 0 || length < 0 || rate < 1 || !(lower >= 0 && upper >= lower) || isinf(upper) ||
      !ck_add(bands, 2, &n))
    return eval_fail(e, TENON_EINVAL,
                     "%lld bands from %g to %g Hz of %lld points at %lld Hz are not possible",
                     (long long)bands, lower, upper, (long long)length, (long long)rate);
  int64_t dims[2] = {length / 2 + 1, bands};
  TRY(eval_out(e, 0, at->output_datatype, 2, dims, &y));
  double low = hertz_to_mel(lower), step = (hertz_to_mel(upper) - low) / (double)n;
  int64_t *bin = arena_array(&e->run->scratch, int64_t, n);
  for (int64_t i = 0; i < n; i++) {
    double f = mel_to_hertz((double)i * step + low);
    double b = floor(((double)length + 1) * f / (double)rate);
    if (!(b >= 0 && b < (double)dims[0]))
      return eval_fail(e, TENON_EINVAL,
                       "band edge %g Hz lies beyond the spectrum of %lld points at %lld Hz", f,
                       (long long)length, (long long)rate);
    bin[i] = (int64_t)b;
  }
  for (int64_t i = 0; i < bands; i++) fill_band(y, i, bin + i);
  return TENON_OK;
}
