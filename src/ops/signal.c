// signal.c -- records of the signal ops.
#include "eval/signal.h"
#include "ir/opinfo.h"

#include <math.h>

// The value of a size operand of one element: an expression, or a fresh symbol.
static Dim size_operand(Infer *in, int i, const char *hint) {
  int64_t n;
  const Dim *sym;
  if (node_sym(in->g, in->src[i], &n, &sym) && n == 1) return sym[0];
  return ie_fresh(&in->g->dims, hint);
}

static Dim half_spectrum(IntPool *p, Dim n) { return ie_addc(p, ie_div(p, n, ie_const(p, 2)), 1); }

static tenon_status check_parts(Infer *in, Dim d) {
  if (ie_is_const(d) && d->value != 1 && d->value != 2)
    return infer_fail(in, TENON_EINVAL,
                      "the last axis is %lld long, must be 1 (real) or 2 (complex)",
                      (long long)d->value);
  return TENON_OK;
}

static tenon_status positive(Infer *in, Dim n, const char *what) {
  if (n->hi < 1)
    return infer_fail(in, TENON_EINVAL, "%s is %lld, must be at least 1", what, (long long)n->hi);
  return TENON_OK;
}

// ---- dft ----

static tenon_status infer_dft(Infer *in) {
  const dft_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  if (x->rank < 2)
    return infer_fail(in, TENON_EINVAL, "x has rank %d, must have 2 or more", x->rank);
  TRY(check_parts(in, x->dims[x->rank - 1]));
  Dim dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  bool half = at->inverse && at->onesided;
  dims[x->rank - 1] = ie_const(p, half ? 1 : 2);
  Ints axis_value = {1, (const int64_t[]){-2}};
  bool resized = infer_src(in, 1) || at->onesided;
  if (infer_src(in, 2) && (!node_ints(in->g, in->src[2], &axis_value) || axis_value.n != 1)) {
    for (int i = 0; i < x->rank - 1 && resized; i++) dims[i] = ie_fresh(p, "dft");
    return infer_set(in, 0, x->dtype, x->rank, dims);
  }
  int axis;
  TRY(infer_axis(in, axis_value.v[0], x->rank, &axis));
  if (axis == x->rank - 1)
    return infer_fail(in, TENON_EINVAL, "axis %d holds the parts of complex numbers", axis);
  Dim n = dims[axis];
  if (half) n = ie_mulc(p, ie_addc(p, n, -1), 2);
  if (infer_src(in, 1)) n = size_operand(in, 1, "dft");
  TRY(positive(in, n, "the transform's length"));
  dims[axis] = at->onesided && !at->inverse ? half_spectrum(p, n) : n;
  return infer_set(in, 0, x->dtype, x->rank, dims);
}

static double fft_cost(double lines, double n) { return n > 1 ? 5 * lines * n * log2(n) : 0; }

// The length is that of the longest axis that changed, or of the axis before the parts.
static double cost_dft(const CostIn *c) {
  const CostShape *y = &c->out[0];
  if (y->rank < 2 || !y->n) return 0;
  double n = (double)y->dims[y->rank - 2];
  for (int i = 0; i < y->rank - 1; i++)
    if (y->dims[i] != c->in[0].dims[i]) n = (double)MAX(y->dims[i], c->in[0].dims[i]);
  return fft_cost((double)y->n / (double)y->dims[y->rank - 1] / n, n);
}

// ---- stft ----

static tenon_status infer_stft(Infer *in) {
  const stft_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  TRY(infer_need(in, 0, 0));
  TRY(infer_need(in, 1, 0));
  const Type *x = infer_type(in, 0), *w = infer_type(in, 2);
  Dim dims[4] = {ie_fresh(p, "batch"), ie_fresh(p, "frames"), ie_fresh(p, "bins"), ie_const(p, 2)};
  if (x->rank < 0) return infer_set(in, 0, x->dtype, 4, dims);
  if (x->rank != 2 && x->rank != 3)
    return infer_fail(in, TENON_EINVAL, "the signal has rank %d, must have 3", x->rank);
  if (x->rank == 3) TRY(check_parts(in, x->dims[2]));
  if (w && w->rank >= 0 && w->rank != 1)
    return infer_fail(in, TENON_EINVAL, "the window has rank %d, must have 1", w->rank);
  Dim n = w && w->rank == 1 ? w->dims[0] : !w ? x->dims[1] : ie_fresh(p, "frame");
  if (infer_src(in, 3)) {
    Dim given = size_operand(in, 3, "frame");
    if (w && w->rank == 1)
      TRY(infer_equal_dim(in, n, given, "length of the window and of a frame"));
    n = given;
  }
  Dim step = size_operand(in, 1, "step");
  TRY(positive(in, n, "the frames' length"));
  TRY(positive(in, step, "the frames' step"));
  if (ie_lt(p, x->dims[1], n) == YES)
    return infer_fail(in, TENON_EINVAL, "the frames are longer than the signal");
  dims[0] = x->dims[0];
  if (step->lo >= 1) dims[1] = ie_addc(p, ie_div(p, ie_sub(p, x->dims[1], n), step), 1);
  dims[2] = at->onesided ? half_spectrum(p, n) : n;
  return infer_set(in, 0, x->dtype, 4, dims);
}

static double cost_stft(const CostIn *c) {
  const stft_attrs *at = c->node->attrs;
  const CostShape *y = &c->out[0];
  if (y->rank != 4) return 0;
  double n = (double)(at->onesided ? 2 * (y->dims[2] - 1) : y->dims[2]);
  return fft_cost((double)y->dims[0] * (double)y->dims[1], n);
}

// ---- windows, mel weights ----

static tenon_status infer_window(Infer *in) {
  const signal_window_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  const Type *t = infer_type(in, 0);
  if (t->dtype && !dtype_is_int(t->dtype))
    return infer_fail(in, TENON_EINVAL, "size is %s, must be an integer", dtype_name(t->dtype));
  DTypeClass c = dtype_class(at->output_datatype);
  if (c != DC_FLOAT && c != DC_INT && c != DC_UINT)
    return infer_fail(in, TENON_EINVAL, "output_datatype %s is no number type",
                      dtype_name(at->output_datatype));
  Dim n = size_operand(in, 0, "window");
  return infer_set(in, 0, at->output_datatype, 1, &n);
}

static tenon_status infer_mel_weight_matrix(Infer *in) {
  const mel_weight_matrix_attrs *at = in->attrs;
  for (int i = 0; i < 5; i++) TRY(infer_need(in, i, 0));
  Dim dims[2] = {half_spectrum(&in->g->dims, size_operand(in, 1, "dft")),
                 size_operand(in, 0, "mel")};
  return infer_set(in, 0, at->output_datatype, 2, dims);
}

ATTR_TABLE(dft, DFT_ATTRS);
ATTR_TABLE(stft, STFT_ATTRS);
ATTR_TABLE(signal_window, SIGNAL_WINDOW_ATTRS);
ATTR_TABLE(mel_weight_matrix, MEL_WEIGHT_MATRIX_ATTRS);

const OpInfo op_dft = {
    .name = "dft",
    .doc = "discrete Fourier transform along an axis; the last axis holds real and imaginary part",
    .onnx = "DFT",
    .onnx_since = 20,
    .operands = "x dft_length? axis?",
    .results = "y",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_CONTRACTION,
    OP_ATTRS(dft),
    .infer = infer_dft,
    .eval = eval_dft,
    .cost = cost_dft,
    SAMPLES("(f32[2,8,1])", "(f32[1,10,4,2], i64[]{12}, i64[]{1}) inverse=true",
            "(f64[2,100,1]) onesided=true", "(f32[3,6,2], _, i64[]{1}) inverse=true onesided=true",
            "(f16[2,16,1], i64[]{7})", "(f32[0,4,1])", "(f32[b,n,1]) onesided=true"),
};
const OpInfo op_stft = {
    .name = "stft",
    .doc = "Fourier transforms of the frames of a signal",
    .onnx = "STFT",
    .onnx_since = 17,
    .operands = "signal frame_step window? frame_length?",
    .results = "y",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_CONTRACTION,
    OP_ATTRS(stft),
    .infer = infer_stft,
    .eval = eval_stft,
    .cost = cost_stft,
    SAMPLES("(f32[1,64,1], i64[]{8}, f32[16])",
            "(f32[2,40,2], i64[]{5}, _, i64[]{12}) onesided=false", "(f64[1,16,1], i64[]{4})",
            "(f32[0,16,1], i64[]{4}, _, i64[]{8})", "(f32[b,n,1], i64[]{1}, f32[2])"),
};

// clang-format off
#define WINDOW(nm, spelling, text)                                                                 \
  .name = #nm, .doc = text, .onnx = spelling, .onnx_since = 17, .operands = "size", .results = "y", .dtypes = "int", .arity = 1,    \
  .nres = 1, .fuse = FUSE_MAP, OP_ATTRS(signal_window), .infer = infer_window, .eval = eval_##nm,                    \
  SAMPLES("(i64[]{10})", "(i32[]{7}) periodic=false", "(i64[]{0})", "(i64[]{1}) output_datatype=f16 periodic=false")

const OpInfo op_hann_window     = {WINDOW(hann_window, "HannWindow", "sin^2(pi i / n)")};
const OpInfo op_hamming_window  = {WINDOW(hamming_window, "HammingWindow", "25/46 - 21/46 cos(2 pi i / n)")};
const OpInfo op_blackman_window = {WINDOW(blackman_window, "BlackmanWindow", "0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n)")};
// clang-format on

const OpInfo op_mel_weight_matrix = {
    .name = "mel_weight_matrix",
    .doc = "triangular bands on the mel scale, one column each, over the bins of a spectrum",
    .onnx = "MelWeightMatrix",
    .onnx_since = 17,
    .operands = "num_mel_bins dft_length sample_rate lower_edge_hertz upper_edge_hertz",
    .results = "y",
    .dtypes = "int",
    .arity = 5,
    .nres = 1,
    .fuse = FUSE_MAP,
    OP_ATTRS(mel_weight_matrix),
    .infer = infer_mel_weight_matrix,
    .eval = eval_mel_weight_matrix,
    SAMPLES("(i64[]{8}, i64[]{16}, i64[]{8192}, f32[]{0}, f32[]{4096})",
            "(i32[]{4}, i32[]{64}, i32[]{16000}, f64[]{20}, f64[]{4000}) output_datatype=f64"),
};
