// contract_deform.c -- deformable and causal convolution, col2im, determinants.
//
// A deformable convolution is the product of contract_conv.c with patches read between the pixels:
// each tap is moved by an offset from data and interpolated linearly; outside the input everything
// is 0.
#include "eval/contract.h"
#include "eval/gemm.h"

#include <math.h>

// ---- deform_conv ----

typedef struct Deform {
  Window w;
  const Value *x, *offset, *mask, *bias;
  Value *y;
  int64_t group, channels, m;       // channels of one group, in and out
  int64_t offset_group, per_group;  // channels that share offsets
} Deform;

// The input plane at a position between its pixels.
static double interpolate(const Deform *f, int64_t plane, const double *pos) {
  const Window *w = &f->w;
  int64_t low[MAX_RANK];
  double part[MAX_RANK], sum = 0;
  for (int d = 0; d < w->nd; d++) {
    if (!(pos[d] > -1 && pos[d] < (double)w->in[d])) return 0;
    double down = floor(pos[d]);
    low[d] = (int64_t)down;
    part[d] = pos[d] - down;
  }
  for (int corner = 0; corner < 1 << w->nd; corner++) {
    double weight = 1;
    int64_t at = 0;
    bool inside = true;
    for (int d = 0; d < w->nd; d++) {
      int up = corner >> (w->nd - 1 - d) & 1;
      int64_t i = low[d] + up;
      weight *= up ? part[d] : 1 - part[d];
      inside = inside && i >= 0 && i < w->in[d];
      at = at * w->in[d] + i;
    }
    if (inside) sum += weight * val_f64(f->x, plane + at);
  }
  return sum;
}

static double deform_patch(const Deform *f, int64_t n, int64_t channel, int64_t tap, int64_t j) {
  const Window *w = &f->w;
  int64_t o[MAX_RANK], k[MAX_RANK], og = channel / f->per_group;
  window_coords(w->nd, w->kernel, tap, k);
  window_coords(w->nd, w->out, j, o);
  double pos[MAX_RANK];
  int64_t tap_at = (n * f->offset_group + og) * w->nkernel + tap;
  for (int d = 0; d < w->nd; d++)
    pos[d] = (double)window_at(w, d, o[d], k[d]) +
             val_f64(f->offset, (tap_at * w->nd + d) * w->nout + j);
  double v = interpolate(f, (n * f->channels * f->group + channel) * w->nin, pos);
  return f->mask ? v * val_f64(f->mask, tap_at * w->nout + j) : v;
}

static void load_deform(const void *ctx, int64_t b, int64_t r, int64_t nr, int64_t k0,
                        const GemmBlock *out) {
  const Deform *f = ctx;
  Word run[GEMM_NC];
  for (int64_t k = 0; k < out->nk; k++) {
    int64_t kk = k0 + k, channel = b % f->group * f->channels + kk / f->w.nkernel;
    for (int64_t i = 0; i < nr; i++)
      run[i].f = deform_patch(f, b / f->group, channel, kk % f->w.nkernel, r + i);
    gemm_put_col(out, k, nr, run);
  }
}

static void store_deform(const void *ctx, int64_t b, int64_t i, int64_t j, int64_t nj, Word *row) {
  const Deform *f = ctx;
  if (f->bias) {
    double bias = val_f64(f->bias, b % f->group * f->m + i);
    for (int64_t q = 0; q < nj; q++) row[q].f += bias;
  }
  store_f64(f->y->dtype, f->y->data, (b * f->m + i) * f->w.nout + j, nj, (double *)row);
}

static tenon_status deform_operand(Eval *e, const Value *v, const char *name, const Deform *f,
                                   int64_t channels) {
  const Window *w = &f->w;
  bool fits = v->rank == f->x->rank && v->dims[0] == f->x->dims[0] && v->dims[1] == channels;
  for (int d = 0; fits && d < w->nd; d++) fits = v->dims[d + 2] == w->out[d];
  if (fits) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s must be [%lld, %lld, then the result's spatial sizes]",
                   name, (long long)f->x->dims[0], (long long)channels);
}

static tenon_status deform_setup(Eval *e, Deform *f) {
  const deform_conv_attrs *at = e->attrs;
  const Value *x = e->in[0], *w = e->in[1];
  if (x->rank < 3 || w->rank != x->rank || x->rank > 8)
    return eval_fail(e, TENON_EINVAL,
                     "x of rank %d and w of rank %d: both must have the same rank, 3 to 8", x->rank,
                     w->rank);
  int nd = x->rank - 2;
  int64_t group = at->group, og = at->offset_group, taps, noff;
  if (group < 1 || og < 1 || w->dims[0] % group || x->dims[1] % group || x->dims[1] % og ||
      w->dims[1] != x->dims[1] / group)
    return eval_fail(e, TENON_EINVAL,
                     "%lld input and %lld output channels do not fit %lld groups, %lld offset "
                     "groups and weights "
                     "for %lld channels",
                     (long long)x->dims[1], (long long)w->dims[0], (long long)group, (long long)og,
                     (long long)w->dims[1]);
  for (int d = 0; at->kernel_shape.n && d < nd; d++)
    if (at->kernel_shape.n != nd || at->kernel_shape.v[d] != w->dims[d + 2])
      return eval_fail(e, TENON_EINVAL, "kernel_shape differs from w's along spatial axis %d", d);
  WindowSpec spec = {.kernel = {nd, w->dims + 2},
                     .strides = at->strides,
                     .pads = at->pads,
                     .dilations = at->dilations};
  *f = (Deform){.x = x,
                .offset = e->in[2],
                .bias = eval_in(e, 3),
                .mask = eval_in(e, 4),
                .group = group,
                .channels = w->dims[1],
                .m = w->dims[0] / group,
                .offset_group = og,
                .per_group = MAX(x->dims[1] / og, 1)};
  TRY(window_init(e, &spec, nd, x->dims + 2, &f->w));
  if (!ck_mul(f->w.nkernel, og, &taps) || !ck_mul(taps, nd, &noff))
    return eval_fail(e, TENON_EINVAL, "too many taps");
  TRY(deform_operand(e, f->offset, "offset", f, noff));
  if (f->mask) TRY(deform_operand(e, f->mask, "mask", f, taps));
  if (f->bias && (f->bias->rank != 1 || f->bias->n != w->dims[0]))
    return eval_fail(e, TENON_EINVAL, "bias has %lld numbers for %lld output channels",
                     (long long)f->bias->n, (long long)w->dims[0]);
  return TENON_OK;
}

tenon_status eval_deform_conv(Eval *e) {
  TRY(eval_need(e, 0, "x", 0));
  DType t = e->in[0]->dtype;
  if (!dtype_is_float(t) || dtype_bits(t) % 8)
    return eval_fail(e, TENON_EUNSUPPORTED, "x of type %s: cast it to a float", dtype_name(t));
  TRY(eval_need(e, 1, "w", t));
  TRY(eval_need(e, 2, "offset", t));
  if (eval_in(e, 3)) TRY(eval_need(e, 3, "b", t));
  if (eval_in(e, 4)) TRY(eval_need(e, 4, "mask", t));
  Deform f;
  TRY(deform_setup(e, &f));
  const Value *x = e->in[0], *w = e->in[1];
  int64_t dims[MAX_RANK] = {x->dims[0], w->dims[0]};
  memcpy(dims + 2, f.w.out, sizeof(int64_t) * (size_t)f.w.nd);
  TRY(eval_out(e, 0, t, x->rank, dims, &f.y));
  if (!f.y->n) return TENON_OK;
  int64_t nk = f.channels * f.w.nkernel, one = 1, count;
  int64_t bdim[2] = {x->dims[0], f.group}, bstride[2] = {0, f.m * nk};
  GemmMat mat = {.dtype = t, .data = w->data, .rows = f.m};
  mat.batch = gemm_offsets(e->run, 2, bdim, bstride, &count);
  mat.row = gemm_offsets(e->run, 1, &f.m, &nk, &count);
  mat.k = gemm_offsets(e->run, 1, &nk, &one, &count);
  Gemm g = {.batch = x->dims[0] * f.group,
            .m = f.m,
            .n = f.w.nout,
            .k = nk,
            .load_a = gemm_load_mat,
            .load_b = load_deform,
            .a = &mat,
            .b = &f,
            .store = store_deform,
            .out = &f};
  gemm_run(e->run, &g);
  return TENON_OK;
}

// ---- causal_conv_with_state ----

typedef struct Causal {
  const Value *x, *w, *bias, *past;
  Value *y, *state;
  int64_t channels, length, taps;
  bool silu;
} Causal;

// Element i of the past followed by the input.
static double causal_at(const Causal *c, int64_t row, int64_t i) {
  int64_t past = c->taps - 1;
  if (i >= past) return val_f64(c->x, row * c->length + i - past);
  return c->past ? val_f64(c->past, row * past + i) : 0;
}

static void run_causal(void *ctx, int64_t begin, int64_t end) {
  const Causal *c = ctx;
  for (int64_t row = begin; row < end; row++) {
    int64_t channel = row % c->channels;
    for (int64_t i = 0; c->y && i < c->length; i++) {
      double sum = 0;
      for (int64_t k = 0; k < c->taps; k++)
        sum += val_f64(c->w, channel * c->taps + k) * causal_at(c, row, i + k);
      if (c->bias) sum += val_f64(c->bias, channel);
      if (c->silu) sum /= 1 + exp(-sum);
      val_put_f64(c->y, row * c->length + i, sum);
    }
    for (int64_t i = 0; c->state && i < c->taps - 1; i++)
      val_put_f64(c->state, row * (c->taps - 1) + i, causal_at(c, row, c->length + i));
  }
}

tenon_status eval_causal_conv_with_state(Eval *e) {
  const causal_conv_with_state_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input", 0));
  DType t = e->in[0]->dtype;
  if (!dtype_is_float(t) || dtype_bits(t) % 8)
    return eval_fail(e, TENON_EUNSUPPORTED, "input of type %s: cast it to a float", dtype_name(t));
  TRY(eval_need(e, 1, "weight", t));
  Causal c = {.x = e->in[0],
              .w = e->in[1],
              .bias = eval_in(e, 2),
              .past = eval_in(e, 3),
              .silu = at->activation != 0};
  if (c.bias) TRY(eval_need(e, 2, "bias", t));
  if (c.past) TRY(eval_need(e, 3, "past_state", t));
  if (c.x->rank != 3 || c.w->rank != 3 || c.w->dims[0] != c.x->dims[1] || c.w->dims[1] != 1 ||
      c.w->dims[2] < 1)
    return eval_fail(e, TENON_EINVAL,
                     "input must be [batch, channels, length], weight [channels, 1, taps]");
  c.channels = c.x->dims[1];
  c.length = c.x->dims[2];
  c.taps = c.w->dims[2];
  if (c.bias && (c.bias->rank != 1 || c.bias->n != c.channels))
    return eval_fail(e, TENON_EINVAL, "bias has %lld numbers for %lld channels",
                     (long long)c.bias->n, (long long)c.channels);
  int64_t state[3] = {c.x->dims[0], c.channels, c.taps - 1};
  if (c.past && (c.past->rank != 3 || memcmp(c.past->dims, state, sizeof state) != 0))
    return eval_fail(e, TENON_EINVAL, "past_state must be [%lld, %lld, %lld]", (long long)state[0],
                     (long long)state[1], (long long)state[2]);
  TRY(eval_out(e, 0, t, 3, c.x->dims, &c.y));
  if (eval_wants(e, 1)) TRY(eval_out(e, 1, t, 3, state, &c.state));
  parallel_for(e->run->pool, c.x->dims[0] * c.channels, 1 + 4096 / (c.length * c.taps + 1),
               run_causal, &c);
  return TENON_OK;
}

// ---- col2im ----

typedef struct Col2im {
  Window w;  // `in` is the image, `out` the blocks
  const Value *x;
  Value *y;
} Col2im;

static void run_col2im(void *ctx, int64_t begin, int64_t end) {
  const Col2im *c = ctx;
  const Window *w = &c->w;
  bool ints = !dtype_is_float(c->y->dtype);
  for (int64_t i = begin; i < end; i++) {
    int64_t plane = i / w->nin, at[MAX_RANK], k[MAX_RANK];
    window_coords(w->nd, w->in, i % w->nin, at);
    Word sum = {.i = 0}, x;
    if (!ints) sum.f = 0;
    for (int64_t tap = 0; tap < w->nkernel; tap++) {
      window_coords(w->nd, w->kernel, tap, k);
      int64_t block = 0;
      bool hit = true;
      for (int d = 0; hit && d < w->nd; d++) {
        int64_t p = at[d] + w->lo[d] - k[d] * w->dilation[d];
        hit = p >= 0 && p % w->stride[d] == 0 && p / w->stride[d] < w->out[d];
        block = block * w->out[d] + p / w->stride[d];
      }
      if (!hit) continue;
      load_words(c->x->dtype, c->x->data, (plane * w->nkernel + tap) * w->nout + block, 1, ints,
                 &x);
      if (ints)
        sum.i = (int64_t)((uint64_t)sum.i + (uint64_t)x.i);
      else
        sum.f += x.f;
    }
    store_words(c->y->dtype, c->y->data, i, 1, ints, &sum);
  }
}

tenon_status eval_col2im(Eval *e) {
  const col2im_attrs *at = e->attrs;
  Ints image, block;
  TRY(eval_need(e, 0, "input", 0));
  TRY(eval_ints(e, 1, &image));
  TRY(eval_ints(e, 2, &block));
  Col2im c = {.x = e->in[0]};
  DType t = c.x->dtype;
  if ((!dtype_is_float(t) && !dtype_is_int(t)) || dtype_bits(t) % 8)
    return eval_fail(e, TENON_EUNSUPPORTED, "input of type %s: cast it first", dtype_name(t));
  if (c.x->rank != 3 || image.n < 1 || image.n > MAX_RANK - 2 || block.n != image.n)
    return eval_fail(e, TENON_EINVAL,
                     "input of rank %d, image of %lld and blocks of %lld dimensions", c.x->rank,
                     (long long)image.n, (long long)block.n);
  for (int64_t i = 0; i < image.n; i++)
    if (image.v[i] < 0 || image.v[i] >= (int64_t)1 << 48)
      return eval_fail(e, TENON_EINVAL, "image size %lld is out of range", (long long)image.v[i]);
  WindowSpec spec = {
      .kernel = block, .strides = at->strides, .pads = at->pads, .dilations = at->dilations};
  TRY(window_init(e, &spec, (int)image.n, image.v, &c.w));
  if (c.x->dims[1] % c.w.nkernel || c.x->dims[2] != c.w.nout)
    return eval_fail(e, TENON_EINVAL,
                     "input [.., %lld, %lld] does not hold %lld blocks of %lld elements",
                     (long long)c.x->dims[1], (long long)c.x->dims[2], (long long)c.w.nout,
                     (long long)c.w.nkernel);
  int64_t dims[MAX_RANK] = {c.x->dims[0], c.x->dims[1] / c.w.nkernel};
  memcpy(dims + 2, image.v, sizeof(int64_t) * (size_t)image.n);
  TRY(eval_out(e, 0, t, (int)image.n + 2, dims, &c.y));
  if (!c.w.nout) return TENON_OK;  // no blocks: all 0
  parallel_for(e->run->pool, c.y->n, 1 + 4096 / c.w.nkernel, run_col2im, &c);
  return TENON_OK;
}

// ---- det ----

// Gaussian elimination with the largest pivot of each column; destroys m.
static double determinant(double *m, int64_t n) {
  double det = 1;
  for (int64_t c = 0; c < n; c++) {
    int64_t best = c;
    for (int64_t r = c + 1; r < n; r++)
      if (fabs(m[r * n + c]) > fabs(m[best * n + c])) best = r;
    double pivot = m[best * n + c];
    if (pivot == 0) return 0;
    if (best != c) {
      det = -det;
      for (int64_t k = 0; k < n; k++) {
        double swap = m[c * n + k];
        m[c * n + k] = m[best * n + k];
        m[best * n + k] = swap;
      }
    }
    det *= pivot;
    for (int64_t r = c + 1; r < n; r++) {
      double f = m[r * n + c] / pivot;
      for (int64_t k = c; k < n; k++) m[r * n + k] -= f * m[c * n + k];
    }
  }
  return det;
}

tenon_status eval_det(Eval *e) {
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  if (!dtype_is_float(x->dtype) || dtype_bits(x->dtype) % 8)
    return eval_fail(e, TENON_EUNSUPPORTED, "x of type %s: cast it to a float",
                     dtype_name(x->dtype));
  if (x->rank < 2 || x->dims[x->rank - 1] != x->dims[x->rank - 2])
    return eval_fail(e, TENON_EINVAL, "x of rank %d must end in two equal sizes", x->rank);
  int64_t n = x->dims[x->rank - 1];
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank - 2, x->dims, &y));
  if (!y->n) return TENON_OK;
  double *m = arena_alloc_array(&e->run->scratch, n, n * (int64_t)sizeof(double));
  for (int64_t i = 0; i < y->n; i++) {
    load_f64(x->dtype, x->data, i * n * n, n * n, m);
    val_put_f64(y, i, determinant(m, n));
  }
  return TENON_OK;
}
