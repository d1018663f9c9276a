// rnn.c -- records of the recurrent layers.
#include "eval/rnn.h"
#include "ops/window.h"

// What differs between the three.
typedef struct RnnSpec {
  int gates, acts, nres;
  bool cell_state;
  Strs activations;
  int direction;
  int64_t hidden, layout;
} RnnSpec;

static tenon_status check_against(Infer *in, int i, const char *name, int rank, const Dim *dims) {
  const Type *t = infer_type(in, i);
  if (!t) return TENON_OK;
  TRY(infer_same_dtype(in, 0, i));
  if (t->rank < 0) return TENON_OK;
  if (t->rank != rank)
    return infer_fail(in, TENON_EINVAL, "%s of rank %d, must be %d", name, t->rank, rank);
  for (int d = 0; d < rank; d++)
    if (dims[d]) TRY(infer_equal_dim(in, t->dims[d], dims[d], name));
  return TENON_OK;
}

// The size of the state: the attribute's, r's, or w's rows by gates.
static tenon_status hidden_size(Infer *in, const RnnSpec *s, Dim *out) {
  IntPool *p = &in->g->dims;
  const Type *r = infer_type(in, 2), *w = infer_type(in, 1);
  *out = NULL;
  if (s->hidden < 0)
    return infer_fail(in, TENON_EINVAL, "hidden_size is %lld", (long long)s->hidden);
  if (s->hidden)
    *out = ie_const(p, s->hidden);
  else if (r->rank == 3)
    *out = r->dims[2];
  else if (w->rank == 3)
    *out = ie_div(p, w->dims[1], ie_const(p, s->gates));
  else
    *out = ie_fresh(p, "hidden");
  return TENON_OK;
}

static tenon_status infer_layer(Infer *in, const RnnSpec *s) {
  for (int i = 0; i < 3; i++) TRY(infer_need(in, i, 0));
  const Type *x = infer_type(in, 0);
  TRY(infer_whole_bytes(in, x->dtype));
  int ndirs = s->direction == RNN_BIDIRECTIONAL ? 2 : 1;
  const char *bad = rnn_check_activations(s->activations, ndirs, s->acts);
  if (bad) return infer_fail(in, TENON_EINVAL, "%s", bad);
  if (s->layout != 0 && s->layout != 1)
    return infer_fail(in, TENON_EINVAL, "layout is %lld, must be 0 or 1", (long long)s->layout);
  if (in->nres > s->nres)
    return infer_fail(in, TENON_EINVAL, "%d results, at most %d", in->nres, s->nres);
  if (x->rank >= 0 && x->rank != 3)
    return infer_fail(in, TENON_EINVAL, "x of rank %d, must be 3", x->rank);
  IntPool *p = &in->g->dims;
  Dim h, nd = ie_const(p, ndirs);
  TRY(hidden_size(in, s, &h));
  Dim seq = x->rank == 3 ? x->dims[s->layout] : ie_fresh(p, "seq");
  Dim batch = x->rank == 3 ? x->dims[!s->layout] : ie_fresh(p, "batch");
  Dim gh = ie_mulc(p, h, s->gates);
  Dim state[3] = {s->layout ? batch : nd, s->layout ? nd : batch, h};
  TRY(check_against(in, 1, "w", 3, (Dim[]){nd, gh, x->rank == 3 ? x->dims[2] : NULL}));
  TRY(check_against(in, 2, "r", 3, (Dim[]){nd, gh, h}));
  TRY(check_against(in, 3, "b", 2, (Dim[]){nd, ie_mulc(p, gh, 2)}));
  TRY(check_against(in, 5, "initial_h", 3, state));
  if (s->cell_state) {
    TRY(check_against(in, 6, "initial_c", 3, state));
    TRY(check_against(in, 7, "p", 2, (Dim[]){nd, ie_mulc(p, h, 3)}));
  }
  Dim y[4] = {seq, nd, batch, h}, y1[4] = {batch, seq, nd, h};
  TRY(infer_set(in, 0, x->dtype, 4, s->layout ? y1 : y));
  for (int i = 1; i < s->nres; i++) TRY(infer_set(in, i, x->dtype, 3, state));
  return TENON_OK;
}

static double layer_cost(const CostIn *c) {
  if (c->in[0].rank != 3 || c->in[1].rank != 3 || c->in[2].rank != 3) return 0;
  double steps = (double)c->in[0].dims[0] * (double)c->in[0].dims[1];
  return 2 * steps * ((double)c->in[1].n + (double)c->in[2].n);
}

ATTR_TABLE(lstm, LSTM_ATTRS);
static tenon_status infer_lstm(Infer *in) {
  const lstm_attrs *at = in->attrs;
  RnnSpec s = {4, 3, 3, true, at->activations, at->direction, at->hidden_size, at->layout};
  return infer_layer(in, &s);
}
const OpInfo op_lstm = {
    .name = "lstm",
    .doc = "long short-term memory over a sequence; gates in the order input, output, forget, cell",
    .onnx = "LSTM",
    .onnx_since = 7,
    .operands = "x w r b? sequence_lens? initial_h? initial_c? p?",
    .results = "y y_h y_c",
    .dtypes = "float",
    .arity = -1,
    .nres = 3,
    .fuse = FUSE_RECURRENT,
    .range = RANGE_recurrent,
    OP_ATTRS(lstm),
    .infer = infer_lstm,
    .eval = eval_lstm,
    .cost = layer_cost,
    SAMPLES("(f32[3,2,4], f32[1,20,4], f32[1,20,5], f32[1,40])",
            "(f32[3,2,4], f32[2,20,4], f32[2,20,5], f32[2,40], i32[2]{3,1}, f32[2,2,5], "
            "f32[2,2,5], f32[2,15]) "
            "direction=bidirectional",
            "(f32[2,3,4], f32[1,20,4], f32[1,20,5]) layout=1 direction=reverse clip=0.5 "
            "input_forget=true",
            "(f16[3,1,2], f16[1,8,2], f16[1,8,2]) activations=[\"HardSigmoid\", \"Relu\", "
            "\"Softsign\"]",
            "(f32[3,2,4], f32[1,20,4], f32[1,20,5]) quantize_state=true",
            "(f32[0,2,4], f32[1,20,4], f32[1,20,5])", "(f32[t,b,4], f32[1,20,4], f32[1,20,5])"),
};

ATTR_TABLE(gru, GRU_ATTRS);
static tenon_status infer_gru(Infer *in) {
  const gru_attrs *at = in->attrs;
  RnnSpec s = {3, 2, 2, false, at->activations, at->direction, at->hidden_size, at->layout};
  return infer_layer(in, &s);
}
const OpInfo op_gru = {
    .name = "gru",
    .doc = "gated recurrent unit over a sequence; gates in the order update, reset, hidden",
    .onnx = "GRU",
    .onnx_since = 7,
    .operands = "x w r b? sequence_lens? initial_h?",
    .results = "y y_h",
    .dtypes = "float",
    .arity = -1,
    .nres = 2,
    .fuse = FUSE_RECURRENT,
    .range = RANGE_recurrent,
    OP_ATTRS(gru),
    .infer = infer_gru,
    .eval = eval_gru,
    .cost = layer_cost,
    SAMPLES("(f32[3,2,4], f32[1,15,4], f32[1,15,5], f32[1,30])",
            "(f32[3,2,4], f32[2,15,4], f32[2,15,5], f32[2,30], i32[2]{3,1}, f32[2,2,5]) "
            "direction=bidirectional "
            "linear_before_reset=true",
            "(f32[2,3,4], f32[1,15,4], f32[1,15,5]) layout=1",
            "(f32[t,b,4], f32[1,15,4], f32[1,15,5])"),
};

ATTR_TABLE(rnn, RNN_ATTRS);
static tenon_status infer_rnn(Infer *in) {
  const rnn_attrs *at = in->attrs;
  RnnSpec s = {1, 1, 2, false, at->activations, at->direction, at->hidden_size, at->layout};
  // The standard's default lists a function for both directions.
  if (s.activations.n == 2 && s.direction != RNN_BIDIRECTIONAL &&
      str_eq(s.activations.v[0], s.activations.v[1]))
    s.activations.n = 1;
  return infer_layer(in, &s);
}
const OpInfo op_rnn = {
    .name = "rnn",
    .doc = "h = f(x w + h r + b) over a sequence",
    .onnx = "RNN",
    .onnx_since = 7,
    .operands = "x w r b? sequence_lens? initial_h?",
    .results = "y y_h",
    .dtypes = "float",
    .arity = -1,
    .nres = 2,
    .fuse = FUSE_RECURRENT,
    .range = RANGE_recurrent,
    OP_ATTRS(rnn),
    .infer = infer_rnn,
    .eval = eval_rnn,
    .cost = layer_cost,
    SAMPLES("(f32[3,2,4], f32[1,5,4], f32[1,5,5], f32[1,10])",
            "(f32[3,2,4], f32[2,5,4], f32[2,5,5], _, i32[2]{3,1}) direction=bidirectional "
            "activations=[\"Affine\", \"Elu\"] activation_alpha=[0.5, 2] activation_beta=[0.25]",
            "(f32[2,3,4], f32[1,5,4], f32[1,5,5]) layout=1 direction=reverse",
            "(f32[t,b,4], f32[1,5,4], f32[1,5,5])"),
};
