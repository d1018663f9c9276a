// contract_conv.c -- convolutions, plain, transposed, integer and quantised, of any rank.
//
// A convolution is a matrix product: rows are a group's output channels, columns its output
// positions, and k runs over input channels and taps.  The right operand ("patches") is never
// stored: each block is gathered from the input when the product asks for it.  A transposed
// convolution differs only in which input position a tap reads.  A group with one output channel
// (depthwise) sums its runs directly.  So does a transposed convolution with a weight that is not
// finite: no input lies between two strides, so no 0 may be multiplied by infinity.
#include "eval/contract.h"
#include "eval/quant.h"
#include "eval/gemm.h"

#include <math.h>

// The input seen as [batch x group][position][channel x tap].
typedef struct Patches {
  Window w;
  bool transposed;
  bool places;  // 1 where an element is read, in place of its value
  DType dtype;
  const void *data;
  double zero;               // zero point, taken off every element; padding is 0 after that
  int64_t groups, channels;  // channels of one group
} Patches;

// x[at + i * step] for i < n, at and the last one in range.
static void load_steps(const Patches *p, int64_t at, int64_t n, int64_t step, double *out) {
  double span[256];
  if (p->places) {
    for (int64_t i = 0; i < n; i++) out[i] = 1;
    return;
  }
  if (step == 1) {
    load_f64(p->dtype, p->data, at, n, out);
  } else if (step > 16) {
    for (int64_t i = 0; i < n; i++) load_f64(p->dtype, p->data, at + i * step, 1, out + i);
  } else {
    int64_t most = (ARRAY_LEN(span) - 1) / step + 1;
    for (int64_t i = 0; i < n; i += most) {
      int64_t m = MIN(most, n - i);
      load_f64(p->dtype, p->data, at + i * step, (m - 1) * step + 1, span);
      for (int64_t j = 0; j < m; j++) out[i + j] = span[j * step];
    }
  }
  if (p->zero != 0)
    for (int64_t i = 0; i < n; i++) out[i] -= p->zero;
}

static int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? -(-a / b) : (a - 1) / b + 1; }

// Tap k of n neighbouring windows from `o` along the last axis; `base` is the row's first element.
static void line_plain(const Patches *p, int64_t base, int64_t o, int64_t k, int64_t n,
                       double *out) {
  const Window *w = &p->w;
  int d = w->nd - 1;
  int64_t at = window_at(w, d, o, k), step = w->stride[d], size = w->in[d];
  int64_t first = MIN(n, at < 0 ? ceil_div(-at, step) : 0);
  int64_t last = MIN(n, at >= size ? 0 : (size - 1 - at) / step + 1);  // one behind
  if (last < first) last = first;
  memset(out, 0, sizeof(double) * (size_t)first);
  if (last > first) load_steps(p, base + at + first * step, last - first, step, out + first);
  memset(out + last, 0, sizeof(double) * (size_t)(n - last));
}

// The same for a transposed convolution: output o reads input (o + lo - k * dilation) / stride, if
// whole.
static void line_transposed(const Patches *p, int64_t base, int64_t o, int64_t k, int64_t n,
                            double *out) {
  const Window *w = &p->w;
  int d = w->nd - 1;
  int64_t stride = w->stride[d], at = o + w->lo[d] - k * w->dilation[d];
  memset(out, 0, sizeof(double) * (size_t)n);
  int64_t from = ceil_div(at, stride);  // first input at or after
  if (from < 0) from = 0;
  double run[GEMM_NC];
  int64_t first = from * stride - at;  // its place in the run
  if (first >= n || from >= w->in[d]) return;
  int64_t count = MIN((n - 1 - first) / stride + 1, w->in[d] - from);
  load_steps(p, base + from, count, 1, run);
  for (int64_t i = 0; i < count; i++) out[first + i * stride] = run[i];
}

// The row that tap coordinates `k` of outputs `o` (last axis aside) read; false when it lies in the
// padding.
static bool row_base(const Patches *p, const int64_t *o, const int64_t *k, int64_t *base) {
  const Window *w = &p->w;
  int64_t off = 0;
  for (int d = 0; d < w->nd - 1; d++) {
    int64_t at = window_at(w, d, o[d], k[d]);
    if (p->transposed) {
      at = o[d] + w->lo[d] - k[d] * w->dilation[d];
      if (at < 0 || at % w->stride[d]) return false;
      at /= w->stride[d];
    }
    if (at < 0 || at >= w->in[d]) return false;
    off = off * w->in[d] + at;
  }
  *base += off * w->in[w->nd - 1];
  return true;
}

// Positions [j, j + n) of channel-and-tap index kk, whose channel plane starts at `plane`.
static void patch_run(const Patches *p, int64_t plane, int64_t kk, int64_t j, int64_t n,
                      double *out) {
  const Window *w = &p->w;
  int last = w->nd - 1;
  int64_t o[MAX_RANK], k[MAX_RANK];
  window_coords(w->nd, w->kernel, kk % w->nkernel, k);
  window_coords(w->nd, w->out, j, o);
  int64_t channel = plane + kk / w->nkernel * w->nin;
  while (n > 0) {
    int64_t m = MIN(n, w->out[last] - o[last]), base = channel;
    if (!row_base(p, o, k, &base))
      memset(out, 0, sizeof(double) * (size_t)m);
    else if (p->transposed)
      line_transposed(p, base, o[last], k[last], m, out);
    else
      line_plain(p, base, o[last], k[last], m, out);
    out += m;
    n -= m;
    o[last] = 0;
    for (int d = last - 1; d >= 0 && ++o[d] == w->out[d]; d--) o[d] = 0;
  }
}

static void load_patches(const void *ctx, int64_t b, int64_t r, int64_t nr, int64_t k0,
                         const GemmBlock *out) {
  const Patches *p = ctx;
  Word run[GEMM_NC];
  int64_t plane = b * p->channels * p->w.nin;
  for (int64_t k = 0; k < out->nk; k++) {
    patch_run(p, plane, k0 + k, r, nr, (double *)run);
    gemm_put_col(out, k, nr, run);
  }
}

// ---- results ----

typedef struct ConvOut {
  Value *y;
  int64_t m, n;  // channels of one group, positions
  int64_t groups;
  const Value *bias;    // one a channel, or NULL
  const double *scale;  // quantised: factor of each output channel; NULL: not quantised
  double y_zero;
  bool i32;  // integer result
} ConvOut;

static void store_conv(const void *ctx, int64_t b, int64_t i, int64_t j, int64_t nj, Word *row) {
  const ConvOut *o = ctx;
  int64_t channel = b % o->groups * o->m + i, at = (b * o->m + i) * o->n + j;
  DType t = o->y->dtype;
  double *v = (double *)row;
  if (o->bias) {
    double bias = val_f64(o->bias, channel);
    for (int64_t q = 0; q < nj; q++) v[q] += bias;
  }
  for (int64_t q = 0; o->scale && q < nj; q++)
    v[q] = quant_result(t, v[q], true, o->scale[channel], o->y_zero);
  if (o->i32)  // sums of 17-bit products are exact in double; the result wraps as 32 bits do
    for (int64_t q = 0; q < nj; q++) row[q].i = (int64_t)v[q];
  store_words(t, o->y->data, at, nj, o->i32, row);
}

typedef struct Direct {
  const Patches *p, *places;  // places: taps without an element are left out; NULL: they are 0
  const GemmMat *w;
  const ConvOut *out;
  int64_t chunks;  // of one channel's positions
} Direct;

static void add_tap(const Direct *d, int64_t plane, int64_t k, int64_t j, int64_t n, double w,
                    Word *acc) {
  double run[GEMM_NC], there[GEMM_NC];
  patch_run(d->p, plane, k, j, n, run);
  if (d->places) patch_run(d->places, plane, k, j, n, there);
  for (int64_t q = 0; q < n; q++)
    if (!d->places || there[q] != 0) acc[q].f += w * run[q];
}

static void run_direct(void *ctx, int64_t begin, int64_t end) {
  const Direct *d = ctx;
  const Patches *p = d->p;
  int64_t nk = p->channels * p->w.nkernel;
  for (int64_t i = begin; i < end; i++) {
    int64_t row = i / d->chunks, b = row / d->out->m, r = row % d->out->m;
    int64_t j = i % d->chunks * GEMM_NC, n = MIN(GEMM_NC, d->out->n - j);
    Word acc[GEMM_NC];
    for (int64_t q = 0; q < n; q++) acc[q].f = 0;
    for (int64_t k = 0; k < nk; k++) {
      double w = get_f64(d->w->dtype, d->w->data, d->w->batch[b] + d->w->row[r] + d->w->k[k]);
      if (d->w->zero) w -= d->w->zero[row].f;
      add_tap(d, b * p->channels * p->w.nin, k, j, n, w, acc);
    }
    store_conv(d->out, b, r, j, n, acc);
  }
}

// A spatial layout in which nothing moves (1 x 1, stride 1, no pads) is one long row.
static void flatten_trivial(Window *w) {
  for (int d = 0; d < w->nd; d++)
    if (w->kernel[d] != 1 || w->stride[d] != 1 || w->lo[d] || w->in[d] != w->out[d]) return;
  w->nd = 1;
  w->in[0] = w->out[0] = w->nin;
  w->kernel[0] = w->stride[0] = w->dilation[0] = 1;
  w->lo[0] = w->hi[0] = 0;
}

// Everything but the shapes: runs the product for weights laid out by row and k offsets.  skip:
// taps without an element add nothing; else they add 0 times their weight.
static void conv_run(Eval *e, Patches *p, GemmMat *w, const ConvOut *out, bool skip) {
  flatten_trivial(&p->w);
  int64_t nk = p->channels * p->w.nkernel, batches = out->y->n / (out->m * out->n);
  if (out->m == 1 || skip) {
    Patches places = *p;
    places.places = true;
    Direct d = {p, skip ? &places : NULL, w, out, (out->n + GEMM_NC - 1) / GEMM_NC};
    parallel_for(e->run->pool, batches * out->m * d.chunks,
                 1 + 4096 / (nk * MIN(GEMM_NC, out->n) + 1), run_direct, &d);
    return;
  }
  Gemm g = {.batch = batches,
            .m = out->m,
            .n = out->n,
            .k = nk,
            .load_a = gemm_load_mat,
            .load_b = load_patches,
            .a = w,
            .b = p,
            .store = store_conv,
            .out = out};
  gemm_run(e->run, &g);
}

// ---- shapes ----

static tenon_status check_ranks(Eval *e, const Value *x, const Value *w) {
  if (x->rank < 3 || w->rank != x->rank)
    return eval_fail(e, TENON_EINVAL,
                     "x of rank %d and w of rank %d: both must have the same rank, 3 or more",
                     x->rank, w->rank);
  return TENON_OK;
}

static tenon_status check_bias(Eval *e, const Value *b, int64_t channels) {
  if (b && (b->rank != 1 || b->n != channels))
    return eval_fail(e, TENON_EINVAL, "bias of rank %d with %lld numbers for %lld output channels",
                     b->rank, (long long)b->n, (long long)channels);
  return TENON_OK;
}

static tenon_status check_kernel(Eval *e, Ints given, const Value *w) {
  for (int64_t i = 0; given.n && i < w->rank - 2; i++)
    if (given.n != w->rank - 2 || given.v[i] != w->dims[i + 2])
      return eval_fail(e, TENON_EINVAL,
                       "kernel_shape differs from w's along spatial axis %lld, which has %lld",
                       (long long)i, (long long)w->dims[i + 2]);
  return TENON_OK;
}

// The weights of a plain convolution, [m][c / group][taps], by batch x group.
static GemmMat plain_weights(Eval *e, const Value *w, int64_t batch, int64_t groups, int64_t m,
                             int64_t nk) {
  int64_t bdim[2] = {batch, groups}, bstride[2] = {0, m * nk}, one = 1, count;
  GemmMat mat = {.dtype = w->dtype, .data = w->data, .rows = m};
  mat.batch = gemm_offsets(e->run, 2, bdim, bstride, &count);
  mat.row = gemm_offsets(e->run, 1, &m, &nk, &count);
  mat.k = gemm_offsets(e->run, 1, &nk, &one, &count);
  return mat;
}

typedef struct ConvSetup {
  Patches p;
  GemmMat w;
  ConvOut out;
} ConvSetup;

// Shapes, checks, result and operands of a plain convolution of inputs x and w.
static tenon_status conv_setup(Eval *e, const Value *x, const Value *w, const Value *bias, DType t,
                               ConvSetup *s) {
  const conv_attrs *at = e->attrs;
  TRY(check_ranks(e, x, w));
  TRY(check_kernel(e, at->kernel_shape, w));
  int64_t group = at->group;
  if (group < 1 || x->dims[1] % group || w->dims[0] % group || w->dims[1] != x->dims[1] / group)
    return eval_fail(
        e, TENON_EINVAL,
        "%lld input and %lld output channels in %lld groups do not fit weights for %lld channels",
        (long long)x->dims[1], (long long)w->dims[0], (long long)group, (long long)w->dims[1]);
  TRY(check_bias(e, bias, w->dims[0]));
  int nd = x->rank - 2;
  WindowSpec spec = {.kernel = {nd, w->dims + 2},
                     .strides = at->strides,
                     .pads = at->pads,
                     .dilations = at->dilations,
                     .auto_pad = at->auto_pad};
  *s = (ConvSetup){
      .p = {.dtype = x->dtype, .data = x->data, .groups = group, .channels = w->dims[1]}};
  TRY(window_init(e, &spec, nd, x->dims + 2, &s->p.w));
  int64_t dims[MAX_RANK] = {x->dims[0], w->dims[0]};
  memcpy(dims + 2, s->p.w.out, sizeof(int64_t) * (size_t)nd);
  s->out = (ConvOut){.m = w->dims[0] / group, .n = s->p.w.nout, .groups = group, .bias = bias};
  TRY(eval_out(e, 0, t, x->rank, dims, &s->out.y));
  if (s->out.y->n)
    s->w = plain_weights(e, w, x->dims[0], group, s->out.m, w->dims[1] * s->p.w.nkernel);
  return TENON_OK;
}

static tenon_status first_conv(Eval *e) {
  TRY(eval_need(e, 0, "x", 0));
  TRY(eval_need(e, 1, "w", e->in[0]->dtype));
  if (!dtype_is_float(e->in[0]->dtype) || dtype_bits(e->in[0]->dtype) % 8)
    return eval_fail(e, TENON_EUNSUPPORTED, "x of type %s: cast it to a float",
                     dtype_name(e->in[0]->dtype));
  ConvSetup s;
  TRY(conv_setup(e, e->in[0], e->in[1], eval_in(e, 2), e->in[0]->dtype, &s));
  if (s.out.y->n) conv_run(e, &s.p, &s.w, &s.out, false);
  return TENON_OK;
}
EVAL_ORDERED(conv, conv_attrs, 1, ORDER_CONV)

static tenon_status need_bytes(Eval *e, int i, const char *name) {
  TRY(eval_need(e, i, name, 0));
  DType t = e->in[i]->dtype;
  if (t == DT_I8 || t == DT_U8) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s is %s, must be i8 or u8", name, dtype_name(t));
}

// One number, or one an output channel, as a table of `channels` words repeated for each batch;
// NULL input: all 0.
static tenon_status channel_table(Eval *e, int input, const char *name, int64_t batch,
                                  int64_t channels, const double **out) {
  const Value *v = eval_in(e, input);
  if (v && v->n != 1 && (v->rank != 1 || v->n != channels))
    return eval_fail(e, TENON_EINVAL, "%s: %lld numbers for %lld output channels", name,
                     (long long)v->n, (long long)channels);
  double *t = arena_alloc_array(&e->run->scratch, batch * channels, sizeof(double));
  for (int64_t i = 0; v && i < batch * channels; i++)
    t[i] = val_f64(v, v->n == 1 ? 0 : i % channels);
  *out = t;
  return TENON_OK;
}

static tenon_status scalar_input(Eval *e, int input, const char *name, double dflt, double *out) {
  const Value *v = eval_in(e, input);
  *out = dflt;
  if (!v) return TENON_OK;
  if (v->n != 1)
    return eval_fail(e, TENON_EINVAL, "%s has %lld numbers, must be one", name, (long long)v->n);
  *out = val_f64(v, 0);
  return TENON_OK;
}

static tenon_status first_conv_integer(Eval *e) {
  TRY(need_bytes(e, 0, "x"));
  TRY(need_bytes(e, 1, "w"));
  const Value *x = e->in[0], *w = e->in[1];
  ConvSetup s;
  TRY(conv_setup(e, x, w, NULL, DT_I32, &s));
  TRY(scalar_input(e, 2, "x_zero_point", 0, &s.p.zero));
  if (!s.out.y->n) return TENON_OK;
  const double *zero;
  TRY(channel_table(e, 3, "w_zero_point", x->dims[0], w->dims[0], &zero));
  s.w.zero = (const Word *)zero;
  s.out.i32 = true;
  conv_run(e, &s.p, &s.w, &s.out, false);
  return TENON_OK;
}
EVAL_ORDERED(conv_integer, conv_attrs, 1, ORDER_CONV)

static tenon_status first_q_linear_conv(Eval *e) {
  TRY(need_bytes(e, 0, "x"));
  TRY(need_bytes(e, 3, "w"));
  TRY(need_bytes(e, 7, "y_zero_point"));
  for (int i = 1; i < 7; i++) TRY(eval_need(e, i, "scale or zero point", 0));
  const Value *x = e->in[0], *w = e->in[3], *bias = eval_in(e, 8);
  if (bias) TRY(eval_need(e, 8, "b", DT_I32));
  ConvSetup s;
  double xs, ys;
  const double *zero, *ws;
  TRY(conv_setup(e, x, w, bias, e->in[7]->dtype, &s));
  TRY(scalar_input(e, 1, "x_scale", 1, &xs));
  TRY(scalar_input(e, 2, "x_zero_point", 0, &s.p.zero));
  TRY(scalar_input(e, 6, "y_scale", 1, &ys));
  TRY(scalar_input(e, 7, "y_zero_point", 0, &s.out.y_zero));
  if (!s.out.y->n) return TENON_OK;
  TRY(channel_table(e, 4, "w_scale", 1, w->dims[0], &ws));
  TRY(channel_table(e, 5, "w_zero_point", x->dims[0], w->dims[0], &zero));
  s.w.zero = (const Word *)zero;
  double *scale = arena_array(&e->run->scratch, double, w->dims[0]);
  for (int64_t c = 0; c < w->dims[0];
       c++)  // joined in f32, as a runtime that folds them beforehand does
    scale[c] = round_to(DT_F32, round_to(DT_F32, xs * ws[c]) / ys);
  s.out.scale = scale;
  conv_run(e, &s.p, &s.w, &s.out, false);
  return TENON_OK;
}
EVAL_ORDERED(q_linear_conv, conv_attrs, 3, ORDER_CONV)

// ---- transposed ----

bool conv_transpose_axis(int auto_pad, int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                         int64_t pad_lo, int64_t pad_hi, int64_t output_padding,
                         int64_t output_shape, int64_t *out_size, int64_t *out_lo) {
  int64_t full;  // what the windows cover, plus the extra size at the end
  *out_size = *out_lo = 0;
  if (!ck_mul(stride, in - 1, &full) || !ck_add(full, (kernel - 1) * dilation + 1, &full) ||
      !ck_add(full, output_padding, &full))
    return false;
  bool same = auto_pad == PAD_SAME_UPPER || auto_pad == PAD_SAME_LOWER;
  if (same && output_shape < 0 && !ck_mul(in, stride, &output_shape)) return false;
  if (output_shape >= 0) {
    int64_t total = MAX(full - output_shape, 0);
    *out_lo = auto_pad == PAD_SAME_UPPER ? total / 2 : total - total / 2;
    *out_size = output_shape;
    return true;
  }
  *out_lo = auto_pad == PAD_VALID ? 0 : pad_lo;
  *out_size = auto_pad == PAD_VALID ? full : full - pad_lo - pad_hi;
  return *out_size >= 0;
}

static tenon_status check_axis_list(Eval *e, Ints l, int nd, int64_t least, const char *what) {
  if (l.n && l.n != nd)
    return eval_fail(e, TENON_EINVAL, "%s has %lld numbers for %d spatial axes", what,
                     (long long)l.n, nd);
  for (int64_t i = 0; i < l.n; i++)
    if (l.v[i] < least || l.v[i] >= (int64_t)WINDOW_MAX << 20)
      return eval_fail(e, TENON_EINVAL, "%s: %lld is out of range", what, (long long)l.v[i]);
  return TENON_OK;
}

static tenon_status transposed_window(Eval *e, const Value *x, const Value *w, Window *out) {
  const conv_transpose_attrs *at = e->attrs;
  int nd = x->rank - 2;
  WindowSpec spec = {.kernel = {nd, w->dims + 2},
                     .strides = at->strides,
                     .pads = at->pads,
                     .dilations = at->dilations};
  int64_t bad;
  const char *message = window_check(&spec, nd, &bad);
  if (message) return eval_fail(e, TENON_EINVAL, message, (long long)bad);
  Ints shape = at->output_shape;
  if (shape.n == x->rank)
    shape = (Ints){nd, shape.v + 2};  // some exporters write batch and channels too
  TRY(check_axis_list(e, at->output_padding, nd, 0, "output_padding"));
  TRY(check_axis_list(e, shape, nd, 0, "output_shape"));
  *out = (Window){.nd = nd};
  for (int d = 0; d < nd; d++) {
    out->in[d] = x->dims[d + 2];
    out->kernel[d] = w->dims[d + 2];
    out->stride[d] = at->strides.n ? at->strides.v[d] : 1;
    out->dilation[d] = at->dilations.n ? at->dilations.v[d] : 1;
    if (!conv_transpose_axis(at->auto_pad, out->in[d], out->kernel[d], out->stride[d],
                             out->dilation[d], at->pads.n ? at->pads.v[d] : 0,
                             at->pads.n ? at->pads.v[nd + d] : 0,
                             at->output_padding.n ? at->output_padding.v[d] : 0,
                             shape.n ? shape.v[d] : -1, &out->out[d], &out->lo[d]))
      return eval_fail(e, TENON_EINVAL,
                       "the result's size along spatial axis %d is negative or too large", d);
  }
  return window_products(e, out);
}

static bool all_finite(const Value *v) {
  bool finite = true;
  for (int64_t i = 0; i < v->n; i++) finite &= isfinite(val_f64(v, i)) != 0;
  return finite;
}

static tenon_status first_conv_transpose(Eval *e) {
  const conv_transpose_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  TRY(eval_need(e, 1, "w", x->dtype));
  const Value *w = e->in[1], *bias = eval_in(e, 2);
  if (!dtype_is_float(x->dtype) || dtype_bits(x->dtype) % 8)
    return eval_fail(e, TENON_EUNSUPPORTED, "x of type %s: cast it to a float",
                     dtype_name(x->dtype));
  TRY(check_ranks(e, x, w));
  TRY(check_kernel(e, at->kernel_shape, w));
  int64_t group = at->group, m = w->dims[1], channels;
  if (group < 1 || w->dims[0] != x->dims[1] || w->dims[0] % group || !ck_mul(m, group, &channels))
    return eval_fail(e, TENON_EINVAL,
                     "%lld input channels in %lld groups do not fit weights for %lld channels",
                     (long long)x->dims[1], (long long)group, (long long)w->dims[0]);
  TRY(check_bias(e, bias, channels));
  Patches p = {.transposed = true,
               .dtype = x->dtype,
               .data = x->data,
               .groups = group,
               .channels = w->dims[0] / group};
  TRY(transposed_window(e, x, w, &p.w));
  int64_t dims[MAX_RANK] = {x->dims[0], channels};
  memcpy(dims + 2, p.w.out, sizeof(int64_t) * (size_t)p.w.nd);
  ConvOut out = {.m = m, .n = p.w.nout, .groups = group, .bias = bias};
  TRY(eval_out(e, 0, x->dtype, x->rank, dims, &out.y));
  if (!out.y->n) return TENON_OK;
  // Weights [c][m][taps]: row m, k = channel and tap.
  int64_t taps = p.w.nkernel, count;
  int64_t bdim[2] = {x->dims[0], group}, bstride[2] = {0, p.channels * m * taps};
  int64_t kdim[2] = {p.channels, taps}, kstride[2] = {m * taps, 1};
  GemmMat mat = {.dtype = w->dtype, .data = w->data, .rows = m};
  mat.batch = gemm_offsets(e->run, 2, bdim, bstride, &count);
  mat.row = gemm_offsets(e->run, 1, &m, &taps, &count);
  mat.k = gemm_offsets(e->run, 2, kdim, kstride, &count);
  conv_run(e, &p, &mat, &out, !all_finite(w));
  return TENON_OK;
}
EVAL_ORDERED(conv_transpose, conv_transpose_attrs, 1, ORDER_CONV_TRANSPOSE)
