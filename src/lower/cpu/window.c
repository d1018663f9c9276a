// window.c -- template window: depthwise convolutions and pools of planes, channels first.
//
// The vector goes along the width.  A convolution keeps a few lines of sums in registers, so that a
// staged line is loaded once for all of them.  A pool folds the taps across lines first, then those
// along the line.  A long maximum along an axis takes steps of 1, 2, 4, ... taps.
//
// Needs:      one max_pool, average_pool, or convolution of floats or bytes with one input channel
//             per group; channels first; constant sizes of the planes; results made of its elements
//             one by one.  Batch and channels may be dynamic.  Declines windows that share no
//             pixel.
// Guarantees: `rows` and `band` are FREE.  A convolution adds its taps in row-major order; a pool
//             adds the taps of a column, then the columns.  16-bit floats are summed in f32 and
//             rounded once.  A tap in the padding of a convolution multiplies a zero.  Bytes are
//             less their zero points in f32, where the sum of MOST_TAPS products is exact.
#include "lower/cpu/window.h"

#include "eval/contract.h"
#include "eval/window.h"

SCHEDULE_TABLE(Window, WINDOW_SCHEDULE);

enum { MOST_TAPS = 256, MOST_WIDTH = 4096, MOST_SCRATCH = 1 << 20, MOST_SUMS = 420, ITEMS = 8 };

// ---- what the op says ----

static bool read_axis(WindowAxis *a, const WindowSpec *s, int d, int nd) {
  a->kernel = s->kernel.v[d];
  a->stride = s->strides.n ? s->strides.v[d] : 1;
  a->dilation = s->dilations.n ? s->dilations.v[d] : 1;
  bool given = s->auto_pad == PAD_NOTSET && s->pads.n;
  a->lo = given ? s->pads.v[d] : 0;
  a->hi = given ? s->pads.v[nd + d] : 0;
  if (s->auto_pad == PAD_SAME_UPPER || s->auto_pad == PAD_SAME_LOWER) {
    int64_t total = MAX((a->out - 1) * a->stride + window_extent(a) - a->in, 0);
    a->lo = (total + (s->auto_pad == PAD_SAME_LOWER)) / 2;
    a->hi = total - a->lo;
  }
  return a->in > 0 && a->out > 0 && a->lo >= 0 && a->kernel > 0;
}

static bool read_axes(WindowKernel *w, const WindowSpec *s) {
  const Type *x = type_of(w->image), *y = w->anchor->type[0];
  int64_t bad;
  w->nd = x->rank - 2;
  if (w->nd < 1 || w->nd > WINDOW_AXES || y->rank != x->rank || window_check(s, w->nd, &bad))
    return false;
  for (int i = 0; i < WINDOW_AXES; i++)
    w->axis[i] = (WindowAxis){.kernel = 1, .stride = 1, .dilation = 1, .in = 1, .out = 1};
  for (int d = 0; d < w->nd; d++) {
    WindowAxis *a = &w->axis[WINDOW_AXES - w->nd + d];
    if (!ie_is_const(x->dims[2 + d]) || !ie_is_const(y->dims[2 + d])) return false;
    a->in = x->dims[2 + d]->value;
    a->out = y->dims[2 + d]->value;
    if (!read_axis(a, s, d, w->nd)) return false;
  }
  return true;
}

static bool read_pool(WindowKernel *w, const Node *n) {
  bool max = n->op == OP_max_pool;
  const max_pool_attrs *m = n->attrs;
  const average_pool_attrs *v = n->attrs;
  WindowSpec of_max = {m->kernel_shape, m->strides,  m->pads,
                       m->dilations,    m->auto_pad, m->ceil_mode};
  WindowSpec of_average = {v->kernel_shape, v->strides,  v->pads,
                           v->dilations,    v->auto_pad, v->ceil_mode};
  w->op = max ? WINDOW_MAXIMUM : WINDOW_AVERAGE;
  w->count_padding = !max && v->count_include_pad;
  w->multiplier = 1;
  if ((max ? m->channels_last : v->channels_last) || type_of(n->src[0])->rank < 3) return false;
  return read_axes(w, max ? &of_max : &of_average);
}

// Zero points of 8-bit operands: one of the image, and one of the weights or one for each channel.
static bool read_zeros(WindowKernel *w, const Node *n) {
  w->image_zero = src_or_null(w->e.lo->g, n, 2);
  w->weight_zero = src_or_null(w->e.lo->g, n, 3);
  return (!w->image_zero || type_of(w->image_zero)->rank == 0 ||
          (type_of(w->image_zero)->rank == 1 && ie_is(type_of(w->image_zero)->dims[0], 1))) &&
         (!w->weight_zero ||
          (type_of(w->weight_zero)->rank >= 0 && type_of(w->weight_zero)->rank <= 1));
}

// One input channel for each group of output channels.
static bool read_conv(WindowKernel *w, const Node *n) {
  const conv_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]), *k = type_of(n->src[1]);
  int64_t kernel[MAX_RANK];
  bool whole = n->op == OP_conv_integer;
  if (at->channels_last || x->rank < 3 || k->rank != x->rank || !ie_is(k->dims[1], 1)) return false;
  if ((!dtype_is_float(x->dtype) && !whole) || !ie_is_const(k->dims[0]) || !ie_is_const(x->dims[1]))
    return false;
  if (x->dims[1]->value != at->group || k->dims[0]->value % at->group) return false;
  if (at->group == 1 && k->dims[0]->value > 1) return false;  // a GEMM over one channel
  for (int d = 2; d < k->rank; d++) {
    if (!ie_is_const(k->dims[d])) return false;
    kernel[d - 2] = k->dims[d]->value;
  }
  WindowSpec s = {.kernel = {k->rank - 2, kernel},
                  .strides = at->strides,
                  .pads = at->pads,
                  .dilations = at->dilations,
                  .auto_pad = at->auto_pad};
  w->op = WINDOW_CONV;
  w->weight = n->src[1];
  if (whole && !read_zeros(w, n)) return false;
  if (!whole) w->bias = src_or_null(w->e.lo->g, n, 2);
  w->multiplier = k->dims[0]->value / at->group;
  return read_axes(w, &s);
}

static bool find_anchor(WindowKernel *w) {
  NodeList all = body_order(w->e.lo->g, w->e.body, w->e.a);
  for (int64_t i = 0; i < all.n; i++) {
    const Node *n = all.v[i];
    bool pool = n->op == OP_max_pool || n->op == OP_average_pool;
    if (!pool && n->op != OP_conv && n->op != OP_conv_integer) continue;
    if (w->anchor) return false;
    w->anchor = n;
  }
  if (!w->anchor) return false;
  w->image = w->anchor->src[0];
  DType t = type_of(w->image)->dtype;
  w->sum = elem_sum_dtype(t);
  if (w->anchor->op == OP_conv) return read_conv(w, w->anchor);
  if (w->anchor->op == OP_conv_integer) {
    w->sum = DT_F32;
    return read_conv(w, w->anchor);
  }
  if (w->anchor->op == OP_max_pool) w->sum = t;
  return (w->anchor->op == OP_max_pool || dtype_is_float(t)) && read_pool(w, w->anchor);
}

static bool epilogue_results(WindowKernel *w) {
  epilogue_begin(&w->walk, &w->e, w->anchor);
  w->walk.own = epilogue_value(&w->walk, 0);
  if (!w->walk.own || epilogue_value(&w->walk, 1)) return false;
  for (int i = 0; i < w->e.fused->nres; i++)
    if (!epilogue_reads(&w->walk, w->e.body->result[i])) return false;
  return true;
}

// Whether windows overlap, so that staging a line pays.
static bool overlaps(const WindowKernel *w) {
  bool padded = false, shared = false;
  int64_t taps = 1;
  for (int i = 0; i < WINDOW_AXES; i++) {
    const WindowAxis *a = &w->axis[i];
    taps *= MIN(a->kernel, MOST_TAPS + 1);
    if (taps > MOST_TAPS) return false;
    shared |= a->kernel > a->stride;
    padded |= a->lo > 0;
  }
  return taps > 1 && (shared || padded || w->op == WINDOW_CONV);
}

static void *window_match(Lowering *lo, const Node *fused) {
  WindowKernel *w = arena_new(lo->arena, WindowKernel);
  if (!elem_begin(&w->e, lo, fused, NULL, 0)) return NULL;
  if (!find_anchor(w) || !epilogue_results(w) || !overlaps(w)) return NULL;
  if (type_is_empty(type_of(w->image)) || type_is_empty(w->anchor->type[0])) return NULL;
  const WindowAxis *a = &w->axis[WINDOW_COLUMN];
  if (a->out > MOST_WIDTH || a->stride > MOST_WIDTH) return NULL;
  w->phases = MIN(a->stride, window_extent(a));
  w->pitch = (a->out + (window_extent(a) - 1) / a->stride + 15) / 16 * 16;
  return w;
}

// ---- schedule ----

static int64_t scratch_bytes(const WindowKernel *w, int64_t rows, int64_t band) {
  const WindowAxis *a = &w->axis[WINDOW_LINE];
  int64_t lines = (band - 1) * a->stride + window_extent(a);
  int64_t one = w->phases * w->pitch * elem_bytes(w->sum);
  return (lines * w->axis[WINDOW_DEPTH].kernel + 2 * rows) * one;
}

// The most lines up to `most` that a band consists of; else as many as leave the least over.
static int64_t choose_rows(int64_t band, int64_t most) {
  int64_t best = MIN(most, band), waste = INT64_MAX;
  for (int64_t rows = best; rows >= MAX(most / 2, 1); rows--) {
    int64_t left = (band + rows - 1) / rows * rows - band;
    if (left < waste) best = rows, waste = left;
  }
  return best;
}

// The longest band of up to `most` lines that divides all of them; all where that is too short.
static int64_t choose_band(int64_t out, int64_t most, int64_t least) {
  for (int64_t band = MIN(most, out); band >= MIN(least, out); band--)
    if (out % band == 0) return band;
  return out;
}

static bool window_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                          void *fields) {
  WindowKernel *w = match;
  const WindowAxis *a = &w->axis[WINDOW_LINE];
  int64_t taps = 1, planes = w->axis[WINDOW_DEPTH].out, band = 1;
  (void)given;
  for (int i = 0; i < WINDOW_AXES; i++) taps *= w->axis[i].kernel;
  int64_t most = t->vector_registers >= 32 ? 6 : 4;
  if (w->op == WINDOW_CONV) most = MAX(MIN(most, MOST_SUMS / taps), 1);
  if (w->op != WINDOW_CONV && a->kernel > 4) most = 8;
  for (int d = 0; d < 2; d++) {
    Dim n = type_of(w->image)->dims[d];
    planes *= ie_is_const(n) ? MIN(n->value, ITEMS) : 1;
  }
  while (band < a->out && scratch_bytes(w, most, band + 1) <= t->l1 / 2) band++;
  if (planes < ITEMS) band = MIN(band, MAX(a->out * planes / ITEMS, 1));
  band = choose_band(a->out, band, MIN(most, band));
  // The sums of a pixel are one chain of products, so that more lines cost little more time: a
  // convolution has the fewest tiles.
  int64_t tiles = (band + most - 1) / most, rows = (band + tiles - 1) / tiles;
  if (w->op != WINDOW_CONV) rows = choose_rows(band, most);
  *(WindowSchedule *)fields = (WindowSchedule){.rows = rows, .band = band};
  return scratch_bytes(w, most, band) <= MOST_SCRATCH;
}

static bool window_legal(const void *match, const LowerTarget *t, const void *fields,
                         const char **why) {
  const WindowKernel *w = match;
  const WindowSchedule *s = fields;
  (void)t;
  *why = w->axis[WINDOW_LINE].out % s->band ? "band must divide the lines of the result"
         : s->rows > s->band                ? "rows must not exceed band"
         : scratch_bytes(w, s->rows, s->band) > MOST_SCRATCH
             ? "the staged lines of a band take more than a megabyte"
             : NULL;
  return !*why;
}

static bool window_build(void *match, const void *fields, Lowered *out) {
  WindowKernel *w = match;
  w->s = *(const WindowSchedule *)fields;
  if (!window_build_loops(w)) return false;
  elem_finish(&w->e, out);
  return true;
}

const TemplateCode template_window = {.match = window_match,
                                      .choose = window_choose,
                                      .legal = window_legal,
                                      .build = window_build,
                                      SCHEDULE(Window)};
