// import_audio.c -- TensorFlow's custom operators for sound: AudioSpectrogram and Mfcc.
//
// What: short-time Fourier transforms with Hann windows, and cosine transforms of mel bands.
// How: as ops of the graph, in double where the reference kernels are.
// Needs: options as a FlexBuffer (flexbuffer.h), sizes that are known while reading.
// Guarantees: constants made here have at most MOST elements; a sample rate may be a run-time
// value.
#include "eval/signal.h"
#include "frontends/tflite/import.h"

#include <math.h>

enum { MOST = 1 << 24 };

// ---- AudioSpectrogram ----

// A periodic Hann window of n samples, followed by zeros.
static Node *hann(Graph *g, int64_t n, int64_t padded) {
  double *w = arena_array(&g->arena, double, padded);
  for (int64_t i = 0; i < padded; i++)
    w[i] = i < n ? 0.5 - 0.5 * cos(2 * acos(-1) * (double)i / (double)n) : 0;
  return tb_vector(g, DT_F32, padded, w);
}

// x [samples, channels] to [channels, frames, bins].  Frames have `window` samples and are filled
// up with zeros to a power of two; so is the signal's end, for its last frame.
static void audio_spectrogram(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int64_t window = tfl_flex_int(op, "window_size", 0), stride = tfl_flex_int(op, "stride", 0);
  bool squared = tfl_flex_int(op, "magnitude_squared", 0) != 0;
  if (tfl_rank(op, x) != 2) tfl_fail(op, "the sound must have rank 2");
  int64_t samples = tfl_size(op, x, 0), channels = tfl_size(op, x, 1), length = 1;
  if (g->status) return;
  if (window < 2 || window > MOST || stride < 1 || stride > MOST) {
    tfl_fail(op, "a window of %lld samples every %lld", (long long)window, (long long)stride);
    return;
  }
  while (length < window) length *= 2;
  int64_t bins = length / 2 + 1;
  if (samples < window) {  // no frame fits
    tfl_give(op, 0, tb_full(g, node_i64s(g, 3, (int64_t[]){channels, 0, bins}), DT_F32, 0));
    return;
  }
  x = tb_transpose(g, x, 2, (const int64_t[]){1, 0});
  x = N(g, pad, x, node_i64s(g, 4, (int64_t[]){0, 0, 0, length - window}), tb_num(g, x, 0));
  stft_attrs at = {.onesided = true};
  Node *y = NA(g, stft, &at, tb_unsqueeze(g, x, 2), node_i64(g, stride), hann(g, window, length),
               node_i64(g, length));
  int64_t last[] = {3};
  y = tb_reduce(g, OP_reduce_sum, N(g, mul, y, y), (Ints){1, last}, false);
  tfl_give(op, 0, squared ? y : N(g, sqrt, y));
}

// ---- Mfcc ----

typedef struct Mel {
  double low, high;  // Hz
  int64_t bands, coefficients;
} Mel;

static double mel_of(double hz) { return 1127.0 * log1p(hz / 700.0); }

// The middle of each band, in mel; they have the same distance from each other.
static Node *middles(Graph *g, const Mel *m, double *distance) {
  double *v = arena_array(&g->arena, double, m->bands), low = mel_of(m->low);
  *distance = (mel_of(m->high) - low) / (double)(m->bands + 1);
  for (int64_t i = 0; i < m->bands; i++) v[i] = low + *distance * (double)(i + 1);
  return tb_vector(g, DT_F64, m->bands, v);
}

// [bands, coefficients] of the cosine transform.
static Node *cosines(Graph *g, const Mel *m) {
  double *v = arena_array(&g->arena, double, m->bands * m->coefficients), n = (double)m->bands;
  for (int64_t j = 0; j < m->bands; j++)
    for (int64_t i = 0; i < m->coefficients; i++)
      v[j * m->coefficients + i] = sqrt(2 / n) * cos((double)i * acos(-1) / n * ((double)j + 0.5));
  return tb_reshape(g, tb_vector(g, DT_F64, m->bands * m->coefficients, v), 2,
                    (const int64_t[]){m->bands, m->coefficients});
}

static Node *f64(Graph *g, double v) { return node_scalar(g, DT_F64, v); }

// The bins' numbers; the distance of bins in Hz, which depends on the sample rate.
typedef struct Bins {
  Node *at, *hz;
  int64_t n;
} Bins;

static Bins bins_of(Graph *g, Node *rate, int64_t n) {
  double *v = arena_array(&g->arena, double, n);
  for (int64_t i = 0; i < n; i++) v[i] = (double)i;
  Node *r = tb_reshape(g, tb_cast(g, rate, DT_F64), 0, NULL);
  return (Bins){tb_vector(g, DT_F64, n, v), N(g, mul, r, f64(g, 0.5 / (double)(n - 1))), n};
}

// The number of the last bin below the upper limit.
static Node *last_bin(Graph *g, const Mel *m, const Bins *b) {
  return N(g, floor, N(g, div, f64(g, m->high), b->hz));
}

// Which bins count: all within the limits but the first, as HTK has it.
static Node *used(Graph *g, const Mel *m, const Bins *b) {
  Node *first = N(g, floor, N(g, add, f64(g, 1.5), N(g, div, f64(g, m->low), b->hz)));
  return N(g, and, N(g, le, first, b->at), N(g, le, b->at, last_bin(g, m, b)));
}

// [bins, bands]: a triangle over each band's middle.
static Node *triangles(Graph *g, const Mel *m, const Bins *b) {
  double distance;
  Node *middle = middles(g, m, &distance);
  Node *mel = N(g, log, N(g, add, f64(g, 1), N(g, mul, b->at, N(g, div, b->hz, f64(g, 700)))));
  mel = tb_unsqueeze(g, N(g, mul, mel, f64(g, 1127)), 1);
  Node *away = N(g, div, N(g, abs, N(g, sub, mel, middle)), f64(g, distance));
  return N(g, relu, N(g, sub, f64(g, 1), away));
}

static bool read_mel(TflOp *op, int64_t bins, Mel *m) {
  m->high = (double)tfl_flex_int(op, "upper_frequency_limit", 0);
  m->low = (double)tfl_flex_int(op, "lower_frequency_limit", 0);
  m->bands = tfl_flex_int(op, "filterbank_channel_count", 0);
  m->coefficients = tfl_flex_int(op, "dct_coefficient_count", 0);
  if (op->g->status) return false;
  if (m->low < 0 || m->high <= m->low || bins < 2 || m->bands < 1 || m->coefficients < 1 ||
      m->coefficients > m->bands || m->bands > MOST / bins || m->bands > MOST / m->coefficients)
    tfl_fail(op, "%lld of %lld bands from %g to %g Hz over %lld bins", (long long)m->coefficients,
             (long long)m->bands, m->low, m->high, (long long)bins);
  return !op->g->status;
}

// (squared magnitudes [channels, frames, bins], the sample rate) to [channels, frames,
// coefficients].  Where the upper limit is above the last bin, the reference gives zeros.
static void mfcc(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *rate = tfl_in(op, 1);
  if (tfl_rank(op, x) != 3) tfl_fail(op, "the spectrogram must have rank 3");
  int64_t bins = tfl_size(op, x, 2);
  Mel m;
  if (g->status || !read_mel(op, bins, &m)) return;
  Bins b = bins_of(g, rate, bins);
  x = tb_cast(g, x, DT_F64);
  x = N(g, sqrt, N(g, where, used(g, &m, &b), x, f64(g, 0)));
  Node *y = N(g, mat_mul, x, triangles(g, &m, &b));
  y = N(g, mat_mul, N(g, log, N(g, max, y, f64(g, 1e-12))), cosines(g, &m));
  Node *fits = N(g, lt, last_bin(g, &m, &b), f64(g, (double)bins));
  tfl_give(op, 0, tb_cast(g, N(g, where, fits, y, f64(g, 0)), DT_F32));
}

static const TflRow rows[] = {
    {TFL_CUSTOM, "AudioSpectrogram", audio_spectrogram, 1, 0},
    {TFL_CUSTOM, "Mfcc", mfcc, 1, 0},
};
TFL_TABLE(audio);
