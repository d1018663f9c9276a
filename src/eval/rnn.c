// rnn.c -- recurrent layers with all that ONNX lets them have.
//
// The products of the whole sequence with the input weights are one matrix product; then, step by
// step, that of the state with the recurrent weights, and the gates.  State and gates stay in
// double; only what leaves is rounded.  A sequence shorter than the longest keeps its last state,
// gives 0 beyond its end, and is read backwards from its own end.
#include "eval/rnn.h"
#include "eval/gemm.h"

#include <math.h>

// ---- activation functions ----

typedef struct ActInfo {
  const char *name;  // lower case
  int nparams;       // alpha; alpha and beta
  double alpha, beta;
} ActInfo;
// clang-format off
static const ActInfo act_info[] = {
  [RNN_ACT_RELU]             = {"relu",            0, 0,    0},
  [RNN_ACT_TANH]             = {"tanh",            0, 0,    0},
  [RNN_ACT_SIGMOID]          = {"sigmoid",         0, 0,    0},
  [RNN_ACT_AFFINE]           = {"affine",          2, 1,    0},
  [RNN_ACT_LEAKY_RELU]       = {"leakyrelu",       1, 0.01, 0},
  [RNN_ACT_THRESHOLDED_RELU] = {"thresholdedrelu", 1, 1,    0},
  [RNN_ACT_SCALED_TANH]      = {"scaledtanh",      2, 1,    1},
  [RNN_ACT_HARD_SIGMOID]     = {"hardsigmoid",     2, 0.2,  0.5},
  [RNN_ACT_ELU]              = {"elu",             1, 1,    0},
  [RNN_ACT_SOFTSIGN]         = {"softsign",        0, 0,    0},
  [RNN_ACT_SOFTPLUS]         = {"softplus",        0, 0,    0},
};
// clang-format on

static double act(const RnnAct *a, double x) {
  if (a->clip > 0) x = x > a->clip ? a->clip : x < -a->clip ? -a->clip : x;
  switch (a->kind) {
  case RNN_ACT_RELU: return x > 0 || isnan(x) ? x : 0;
  case RNN_ACT_TANH: return tanh(x);
  case RNN_ACT_SIGMOID: return 1 / (1 + exp(-x));
  case RNN_ACT_AFFINE: return a->alpha * x + a->beta;
  case RNN_ACT_LEAKY_RELU: return x >= 0 ? x : a->alpha * x;
  case RNN_ACT_THRESHOLDED_RELU: return x >= a->alpha ? x : 0;
  case RNN_ACT_SCALED_TANH: return a->alpha * tanh(a->beta * x);
  case RNN_ACT_HARD_SIGMOID: {
    double y = a->alpha * x + a->beta;
    return y < 0 ? 0 : y > 1 ? 1 : y;
  }
  case RNN_ACT_ELU: return x >= 0 ? x : a->alpha * expm1(x);
  case RNN_ACT_SOFTSIGN: return x / (1 + fabs(x));
  case RNN_ACT_SOFTPLUS: return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
  }
  return x;
}

static int act_find(Str name) {
  char low[24];
  if (name.n >= (int64_t)sizeof low) return -1;
  for (int64_t i = 0; i < name.n; i++)
    low[i] = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] + 32 : name.p[i]);
  for (int k = 0; k < (int)ARRAY_LEN(act_info); k++)
    if (str_eq((Str){low, name.n}, str_of(act_info[k].name))) return k;
  return -1;
}

const char *rnn_check_activations(Strs names, int ndirs, int each) {
  if (names.n && names.n != (int64_t)ndirs * each) return "the wrong number of activations";
  for (int64_t i = 0; i < names.n; i++)
    if (act_find(names.v[i]) < 0) return "an activation that is not in ONNX's list";
  return NULL;
}

// Parameters are listed for those functions that take them, in order; some writers list one for
// each function.
static double next_param(Floats list, int64_t nacts, int64_t index, int64_t *used, double dflt) {
  int64_t at = list.n == nacts ? index : (*used)++;
  return at < list.n ? list.v[at] : dflt;
}

void rnn_activations(const RnnActs *from, RnnAct *out) {
  int64_t used_alpha = 0, used_beta = 0, count = (int64_t)from->each * from->ndirs;
  for (int i = 0; i < count; i++) {
    RnnActKind k = i % from->each ? RNN_ACT_TANH : from->first;
    if (from->names.n) k = (RnnActKind)act_find(from->names.v[i]);
    RnnAct *a = &out[i];
    *a = (RnnAct){k, act_info[k].alpha, act_info[k].beta, from->clip};
    if (act_info[k].nparams > 0)
      a->alpha = next_param(from->alpha, count, i, &used_alpha, a->alpha);
    if (act_info[k].nparams > 1) a->beta = next_param(from->beta, count, i, &used_beta, a->beta);
  }
}

// ---- the layer ----

typedef enum { CELL_LSTM, CELL_GRU, CELL_RNN } Cell;

typedef struct Layer {
  Cell cell;
  int gates, nacts, ndirs;  // acts of one direction
  int direction;
  bool batch_first, input_forget, linear_before_reset, quantize_state;
  RnnAct acts[RNN_ACTS];
  int64_t seq, batch, input, hidden;
  const Value *x, *w, *r, *b, *h0, *c0, *p;
  const int64_t *lens;  // by batch
  Value *y, *yh, *yc;
  // of the direction at work, in double
  int dir;
  double *xw;                   // [seq * batch][gates * hidden], biases included
  double *h, *c;                // [batch][hidden]
  double *hr;                   // [batch][gates * hidden]: state x recurrent weights
  double *reset;                // [batch][hidden]; gru: reset gates, lstm: the state in 8 bits
  const double *bias_r, *peep;  // of this direction; zeros when absent
} Layer;

static tenon_status check_shape(Eval *e, int i, const char *name, int rank, const int64_t *dims) {
  const Value *v = eval_in(e, i);
  if (!v) return TENON_OK;
  TRY(eval_need(e, i, name, e->in[0]->dtype));
  bool same = v->rank == rank;
  for (int d = 0; same && d < rank; d++) same = v->dims[d] == dims[d];
  if (same) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s has the wrong shape: must be of rank %d, [%lld, %lld%s",
                   name, rank, (long long)dims[0], (long long)dims[1], rank > 2 ? ", ...]" : "]");
}

static tenon_status check_operands(Eval *e, Layer *l, int64_t hidden_attr) {
  TRY(eval_need(e, 0, "x", 0));
  DType t = e->in[0]->dtype;
  if (!dtype_is_float(t) || dtype_bits(t) % 8)
    return eval_fail(e, TENON_EUNSUPPORTED, "x of type %s: cast it to a float", dtype_name(t));
  TRY(eval_need(e, 1, "w", t));
  TRY(eval_need(e, 2, "r", t));
  l->x = e->in[0];
  l->w = e->in[1];
  l->r = e->in[2];
  if (l->x->rank != 3 || l->w->rank != 3 || l->r->rank != 3)
    return eval_fail(e, TENON_EINVAL, "x, w and r of rank %d, %d and %d, must be 3", l->x->rank,
                     l->w->rank, l->r->rank);
  l->seq = l->x->dims[l->batch_first];
  l->batch = l->x->dims[!l->batch_first];
  l->input = l->x->dims[2];
  l->hidden = l->r->dims[2];
  int64_t nd = l->ndirs, gh, gh2, ph;
  if ((hidden_attr && hidden_attr != l->hidden) || !ck_mul(l->hidden, l->gates, &gh) ||
      !ck_mul(gh, 2, &gh2) || !ck_mul(l->hidden, 3, &ph))
    return eval_fail(e, TENON_EINVAL, "hidden_size %lld differs from r's %lld",
                     (long long)hidden_attr, (long long)l->hidden);
  TRY(check_shape(e, 1, "w", 3, (int64_t[]){nd, gh, l->input}));
  TRY(check_shape(e, 2, "r", 3, (int64_t[]){nd, gh, l->hidden}));
  TRY(check_shape(e, 3, "b", 2, (int64_t[]){nd, gh2}));
  int64_t state[3] = {nd, l->batch, l->hidden}, first[3] = {l->batch, nd, l->hidden};
  TRY(check_shape(e, 5, "initial_h", 3, l->batch_first ? first : state));
  l->b = eval_in(e, 3);
  l->h0 = eval_in(e, 5);
  if (l->cell == CELL_LSTM) {
    TRY(check_shape(e, 6, "initial_c", 3, l->batch_first ? first : state));
    TRY(check_shape(e, 7, "p", 2, (int64_t[]){nd, ph}));
    l->c0 = eval_in(e, 6);
    l->p = eval_in(e, 7);
  }
  return TENON_OK;
}

static tenon_status sequence_lengths(Eval *e, Layer *l) {
  int64_t *len = arena_array(&e->run->scratch, int64_t, MAX(l->batch, 1));
  Ints given = {0};
  if (eval_in(e, 4)) {
    TRY(eval_ints(e, 4, &given));
    if (given.n != l->batch)
      return eval_fail(e, TENON_EINVAL, "sequence_lens has %lld numbers for a batch of %lld",
                       (long long)given.n, (long long)l->batch);
  }
  for (int64_t i = 0; i < l->batch; i++) {
    len[i] = given.n ? given.v[i] : l->seq;
    if (len[i] < 0 || len[i] > l->seq)
      return eval_fail(e, TENON_EINVAL, "sequence length %lld is out of range for %lld steps",
                       (long long)len[i], (long long)l->seq);
  }
  l->lens = len;
  return TENON_OK;
}

static tenon_status setup_acts(Eval *e, Layer *l, Strs names, Floats alpha, Floats beta,
                               double clip) {
  static const RnnActKind usual[] = {
      [CELL_LSTM] = RNN_ACT_SIGMOID, [CELL_GRU] = RNN_ACT_SIGMOID, [CELL_RNN] = RNN_ACT_TANH};
  const char *bad = rnn_check_activations(names, l->ndirs, l->nacts);
  if (bad) return eval_fail(e, TENON_EINVAL, "%s", bad);
  RnnActs a = {names, alpha, beta, clip, l->ndirs, l->nacts, usual[l->cell]};
  rnn_activations(&a, l->acts);
  return TENON_OK;
}

static tenon_status make_results(Eval *e, Layer *l) {
  DType t = l->x->dtype;
  int64_t y[4] = {l->seq, l->ndirs, l->batch, l->hidden},
          y1[4] = {l->batch, l->seq, l->ndirs, l->hidden};
  int64_t s[3] = {l->ndirs, l->batch, l->hidden}, s1[3] = {l->batch, l->ndirs, l->hidden};
  if (eval_wants(e, 0)) TRY(eval_out(e, 0, t, 4, l->batch_first ? y1 : y, &l->y));
  if (eval_wants(e, 1)) TRY(eval_out(e, 1, t, 3, l->batch_first ? s1 : s, &l->yh));
  if (eval_wants(e, 2)) TRY(eval_out(e, 2, t, 3, l->batch_first ? s1 : s, &l->yc));
  return TENON_OK;
}

// ---- products ----

static void store_doubles(const void *ctx, int64_t b, int64_t i, int64_t j, int64_t nj, Word *row) {
  const GemmOut *o = ctx;
  (void)b;
  memcpy((double *)o->v->data + i * o->n + j, row, sizeof(Word) * (size_t)nj);
}

// out[rows][n] = a[rows][k] x the first n rows of m[..][k], m at element offset `at`.
static void product(Eval *e, GemmMat *a, int64_t rows, const Value *m, int64_t at, int64_t n,
                    int64_t k, double *out) {
  int64_t one = 1, count, zero = 0;
  a->batch = &zero;
  a->rows = rows;
  a->k = gemm_offsets(e->run, 1, &k, &one, &count);
  GemmMat b = {.dtype = m->dtype, .data = m->data, .batch = &at, .rows = n, .k = a->k};
  b.row = gemm_offsets(e->run, 1, &n, &k, &count);
  Value dst = {.data = out};
  GemmOut o = {&dst, rows, n, false};
  Gemm g = {.batch = 1,
            .m = rows,
            .n = n,
            .k = k,
            .load_a = gemm_load_mat,
            .load_b = gemm_load_mat,
            .a = a,
            .b = &b,
            .store = store_doubles,
            .out = &o};
  gemm_run(e->run, &g);
}

// out[batch][n] = state x rows [from, from + n) of the recurrent weights.
static void recur(Eval *e, const Layer *l, const double *state, int64_t from, int64_t n,
                  double *out) {
  ArenaMark mark = arena_mark(&e->run->scratch);
  int64_t count, rows = l->batch, gh = l->gates * l->hidden;
  GemmMat a = {
      .dtype = DT_F64, .data = state, .row = gemm_offsets(e->run, 1, &rows, &l->hidden, &count)};
  product(e, &a, rows, l->r, (l->dir * gh + from) * l->hidden, n, l->hidden, out);
  arena_reset(&e->run->scratch, mark);
}

// xw: the whole sequence, with the biases that are added before the activations whatever the cell
// does.
static void input_products(Eval *e, Layer *l) {
  ArenaMark mark = arena_mark(&e->run->scratch);
  int64_t gh = l->gates * l->hidden, count, dims[2] = {l->seq, l->batch};
  int64_t stride[2] = {l->batch * l->input, l->input};
  if (l->batch_first) {
    stride[0] = l->input;
    stride[1] = l->seq * l->input;
  }
  GemmMat a = {.dtype = l->x->dtype, .data = l->x->data};
  a.row = gemm_offsets(e->run, 2, dims, stride, &count);
  product(e, &a, count, l->w, l->dir * gh * l->input, gh, l->input, l->xw);
  arena_reset(&e->run->scratch, mark);
  for (int64_t g = 0; l->b && g < gh; g++) {
    double bias = val_f64(l->b, l->dir * 2 * gh + g);
    // The hidden gate of a gru that resets late adds its recurrent bias inside.
    bool inside = l->linear_before_reset && g >= 2 * l->hidden;
    if (!inside) bias += l->bias_r[g];
    for (int64_t i = 0; i < count; i++) l->xw[i * gh + g] += bias;
  }
}

// ---- one step of one sequence: from x's products `xw` and the state's `hr` to the new state ----

static void lstm_step(const Layer *l, const double *xw, const double *hr, double *h, double *c) {
  const RnnAct *f = l->acts + l->dir * l->nacts, *g = f + 1;
  RnnAct last = f[2];  // the cell itself is not clipped, as in the runtimes that have the attribute
  last.clip = 0;
  int64_t n = l->hidden;
  const double *pi = l->peep, *po = pi + n, *pf = po + n;
  for (int64_t k = 0; k < n; k++) {
    double i = act(f, xw[k] + hr[k] + pi[k] * c[k]);
    double forget = l->input_forget ? 1 - i : act(f, xw[2 * n + k] + hr[2 * n + k] + pf[k] * c[k]);
    double cell = forget * c[k] + i * act(g, xw[3 * n + k] + hr[3 * n + k]);
    double o = act(f, xw[n + k] + hr[n + k] + po[k] * cell);
    c[k] = cell;
    h[k] = o * act(&last, cell);
  }
}

// hr: z, r, and the hidden gate's product (of the reset state, or, when linear_before_reset, of the
// state).
static void gru_step(const Layer *l, const double *xw, const double *hr, const double *reset,
                     double *h) {
  const RnnAct *f = l->acts + l->dir * l->nacts, *g = f + 1;
  int64_t n = l->hidden;
  for (int64_t k = 0; k < n; k++) {
    double z = act(f, xw[k] + hr[k]), rec = hr[2 * n + k];
    if (l->linear_before_reset) rec = reset[k] * (rec + l->bias_r[2 * n + k]);
    double cand = act(g, xw[2 * n + k] + rec);
    h[k] = (1 - z) * cand + z * h[k];
  }
}

static int64_t input_row(const Layer *l, int64_t s, int64_t b, bool backward) {
  return (backward ? l->lens[b] - 1 - s : s) * l->batch + b;
}

// gru: the reset gates of step s, and with them what the hidden gate's product needs.
static void gru_reset(Eval *e, Layer *l, int64_t s, bool backward) {
  int64_t n = l->hidden, gh = 3 * n;
  const RnnAct *f = l->acts + l->dir * l->nacts;
  for (int64_t b = 0; b < l->batch; b++)
    for (int64_t k = 0; s < l->lens[b] && k < n; k++) {
      const double *xw = l->xw + input_row(l, s, b, backward) * gh;
      double r = act(f, xw[n + k] + l->hr[b * gh + n + k]);
      l->reset[b * n + k] = l->linear_before_reset ? r : r * l->h[b * n + k];
    }
  if (l->linear_before_reset) return;
  recur(e, l, l->reset, 2 * n, n, l->c);  // c is free in a gru
  for (int64_t b = 0; b < l->batch; b++)
    memcpy(l->hr + b * gh + 2 * n, l->c + b * n, sizeof(double) * (size_t)n);
}

static void rnn_step(const Layer *l, const double *xw, const double *hr, double *h) {
  for (int64_t k = 0; k < l->hidden; k++) h[k] = act(l->acts + l->dir * l->nacts, xw[k] + hr[k]);
}

static void put_y(const Layer *l, int64_t row, int64_t b) {
  if (!l->y) return;
  int64_t t = row / l->batch, n = l->hidden;
  int64_t at = l->batch_first ? (b * l->seq + t) * l->ndirs + l->dir
                              : (t * l->ndirs + l->dir) * l->batch + b;
  store_f64(l->y->dtype, l->y->data, at * n, n, l->h + b * n);
}

// The state as dynamic_quantize_linear and back would leave it, all sequences by one scale.
static const double *quantized_state(const Layer *l) {
  int64_t n = l->batch * l->hidden;
  double lo = 0, hi = 0;
  for (int64_t i = 0; i < n; i++) {
    lo = fmin(lo, l->h[i]);
    hi = fmax(hi, l->h[i]);
  }
  double scale = lo == hi ? 1 : (float)((float)(hi - lo) / 255);
  double zero = nearbyint(fmin(255, fmax(0, (float)(0 - (float)(lo / scale)))));
  for (int64_t i = 0; i < n; i++) {
    double q = nearbyint((float)((float)l->h[i] / scale)) + zero;
    l->reset[i] = (fmin(255, fmax(0, q)) - zero) * scale;
  }
  return l->reset;
}

static void run_direction(Eval *e, Layer *l) {
  bool backward = l->direction == RNN_REVERSE || l->dir == 1;
  int64_t n = l->hidden, gh = l->gates * n;
  input_products(e, l);
  for (int64_t s = 0; s < l->seq; s++) {
    recur(e, l, l->quantize_state ? quantized_state(l) : l->h, 0, gh, l->hr);
    if (l->cell == CELL_GRU) gru_reset(e, l, s, backward);
    for (int64_t b = 0; b < l->batch; b++) {
      if (s >= l->lens[b]) continue;
      int64_t row = input_row(l, s, b, backward);
      const double *xw = l->xw + row * gh, *hr = l->hr + b * gh;
      double *h = l->h + b * n;
      if (l->cell == CELL_LSTM)
        lstm_step(l, xw, hr, h, l->c + b * n);
      else if (l->cell == CELL_GRU)
        gru_step(l, xw, hr, l->reset + b * n, h);
      else
        rnn_step(l, xw, hr, h);
      put_y(l, row, b);
    }
  }
}

// Rows of a state tensor, [dirs][batch] or [batch][dirs], to or from [batch][hidden] of this
// direction.
static int64_t state_row(const Layer *l, int64_t b) {
  return (l->batch_first ? b * l->ndirs + l->dir : l->dir * l->batch + b) * l->hidden;
}
static void load_state(const Layer *l, const Value *v, double *to) {
  for (int64_t b = 0; b < l->batch; b++) {
    if (v)
      load_f64(v->dtype, v->data, state_row(l, b), l->hidden, to + b * l->hidden);
    else
      memset(to + b * l->hidden, 0, sizeof(double) * (size_t)l->hidden);
  }
}
static void store_state(const Layer *l, Value *v, const double *from) {
  for (int64_t b = 0; v && b < l->batch; b++)
    store_f64(v->dtype, v->data, state_row(l, b), l->hidden, from + b * l->hidden);
}

static const double *direction_params(Eval *e, const Value *v, int64_t at, int64_t n) {
  double *p = arena_array(&e->run->scratch, double, MAX(n, 1));
  if (v && n) load_f64(v->dtype, v->data, at, n, p);
  return p;
}

static tenon_status run_layer(Eval *e, Layer *l) {
  TRY(sequence_lengths(e, l));
  TRY(make_results(e, l));
  int64_t gh = l->gates * l->hidden, rows;
  if (!ck_mul(l->seq, l->batch, &rows)) return eval_fail(e, TENON_EINVAL, "x is too large");
  Value *mem[5] = {NULL};
  int64_t shape[5][2] = {{rows, gh},
                         {l->batch, l->hidden},
                         {l->batch, l->hidden},
                         {l->batch, gh},
                         {l->batch, l->hidden}};
  double **slot[5] = {&l->xw, &l->h, &l->c, &l->hr, &l->reset};
  for (int i = 0; i < 5; i++) {
    TRY(value_tensor(e->run, e->at, DT_F64, 2, shape[i], &mem[i]));
    *slot[i] = mem[i]->data;
  }
  for (l->dir = 0; l->dir < l->ndirs && l->batch && l->hidden; l->dir++) {
    l->bias_r = direction_params(e, l->b, l->dir * 2 * gh + gh, gh);
    l->peep = direction_params(e, l->p, l->dir * 3 * l->hidden, 3 * l->hidden);
    load_state(l, l->h0, l->h);
    load_state(l, l->c0, l->c);
    if (l->seq) run_direction(e, l);
    store_state(l, l->yh, l->h);
    store_state(l, l->yc, l->c);
  }
  for (int i = 0; i < 5; i++) value_release(mem[i]);
  return TENON_OK;
}

static tenon_status check_layout(Eval *e, int64_t layout) {
  if (layout == 0 || layout == 1) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "layout is %lld, must be 0 or 1", (long long)layout);
}

tenon_status eval_lstm(Eval *e) {
  const lstm_attrs *at = e->attrs;
  Layer l = {.cell = CELL_LSTM,
             .gates = 4,
             .nacts = 3,
             .direction = at->direction,
             .ndirs = at->direction == RNN_BIDIRECTIONAL ? 2 : 1,
             .batch_first = at->layout == 1,
             .input_forget = at->input_forget,
             .quantize_state = at->quantize_state};
  TRY(check_layout(e, at->layout));
  TRY(check_operands(e, &l, at->hidden_size));
  TRY(setup_acts(e, &l, at->activations, at->activation_alpha, at->activation_beta, at->clip));
  return run_layer(e, &l);
}

tenon_status eval_gru(Eval *e) {
  const gru_attrs *at = e->attrs;
  Layer l = {.cell = CELL_GRU,
             .gates = 3,
             .nacts = 2,
             .direction = at->direction,
             .ndirs = at->direction == RNN_BIDIRECTIONAL ? 2 : 1,
             .batch_first = at->layout == 1,
             .linear_before_reset = at->linear_before_reset};
  TRY(check_layout(e, at->layout));
  TRY(check_operands(e, &l, at->hidden_size));
  TRY(setup_acts(e, &l, at->activations, at->activation_alpha, at->activation_beta, at->clip));
  return run_layer(e, &l);
}

tenon_status eval_rnn(Eval *e) {
  const rnn_attrs *at = e->attrs;
  Layer l = {.cell = CELL_RNN,
             .gates = 1,
             .nacts = 1,
             .direction = at->direction,
             .ndirs = at->direction == RNN_BIDIRECTIONAL ? 2 : 1,
             .batch_first = at->layout == 1};
  TRY(check_layout(e, at->layout));
  TRY(check_operands(e, &l, at->hidden_size));
  Strs names = at->activations;
  // The standard's default is written for two directions; one of them is all that one direction
  // needs.
  if (names.n == 2 && l.ndirs == 1 && str_eq(names.v[0], names.v[1])) names.n = 1;
  TRY(setup_acts(e, &l, names, at->activation_alpha, at->activation_beta, at->clip));
  return run_layer(e, &l);
}
