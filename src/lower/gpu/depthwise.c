// depthwise.c -- template depthwise: depthwise convolution on thread blocks, bound by memory.
//
// A thread owns 16 bytes of contiguous channels of a few adjacent pixels of a line, with their sums
// in registers.  It reads each pixel of the image once for all taps that use it.
//
// Needs:      LowerTarget.block_threads; a depthwise convolution, channels last, with a constant
//             number of channels that at least two channels per thread divide.  Along a line at
//             most 16 taps; strides and dilations up to 64.  Batch and image size may be dynamic.
// Guarantees: taps are added in the order of the weights, so every field is FREE.  All sums are
//             formed before one is stored.  Other depthwise convolutions go to gemm_naive.
#include "lower/gpu/gemm_simt.h"

#include <math.h>

#define DEPTHWISE_SCHEDULE(I, B, C, T)                                                             \
  I(T, channels, 0, 1, 16, 0, FREE, "channels per thread")                                         \
  I(T, pixels, 0, 1, 16, 1, FREE, "pixels of a line per thread")                                   \
  I(T, across, 0, 1, 1024, 1, FREE, "threads per block along the channels")                        \
  I(T, along, 0, 1, 1024, 1, FREE, "threads per block along a line")                               \
  I(T, down, 0, 1, 1024, 1, FREE, "threads per block along the lines")
SCHEDULE_STRUCT(Depthwise, DEPTHWISE_SCHEDULE);
SCHEDULE_TABLE(Depthwise, DEPTHWISE_SCHEDULE);

typedef struct Depthwise {
  SimtGemm s;
  int64_t side, pixels;         // channels and pixels of a thread
  int64_t across, along, down;  // threads of a group along the channels, a line, and the lines
  int32_t acc;
  Dim t;                // the thread
  ContractPoint first;  // where its first sum is
} Depthwise;

enum { BYTES = 16, MOST_SIDE = 8, MOST_PIXELS = 4, MOST_ALONG = 16, MOST_APART = 64 };
enum { WRITTEN_OUT = 32 };  // taps; of more only those along a line are written out
enum { BUSY = 512, USUAL = 8, LEAST_THREADS = 64, LEAST_ACROSS = 8 };

static Dim num(Depthwise *w, int64_t v) { return ie_const(w->s.e.pool, v); }

// ---- the choice ----

static int64_t size_of(const Contraction *c, int axis) {
  return ie_is_const(c->out[axis]) ? c->out[axis]->value : USUAL;
}

static bool wants(const Depthwise *w) {
  const Contraction *c = &w->s.c;
  if (!c->conv || !c->depthwise || c->channel != c->nout - 1 || !ie_is_const(c->n)) return false;
  const ContractAxis *line = &c->space[c->nd - 1];
  return line->kernel <= MOST_ALONG && line->stride <= MOST_APART && line->dilation <= MOST_APART;
}

// Bytes of the widest element that is read along the channels or stored.
static int64_t widest_of(const Depthwise *w) {
  const Node *lhs = w->s.c.lhs;
  while (lhs->op == OP_cast) lhs = lhs->src[0];
  int64_t widest = elem_bytes(type_of(lhs)->dtype);
  for (int i = 0; i < w->s.e.fused->nres; i++)
    widest = MAX(widest, elem_bytes(w->s.e.fused->type[i]->dtype));
  return widest;
}

// What a group reads and stores for each of its results, where threads without any count as others
// do.
static double cost_of(const Depthwise *w, int64_t across, int64_t along, int64_t down,
                      int64_t step) {
  const Contraction *c = &w->s.c;
  int64_t threads = across * along * down, places = (threads + step - 1) / step * step;
  double side[2] = {(double)(along * w->pixels), (double)down};
  double read = 1, idle = (double)places / (double)threads;
  for (int i = 0; i < MIN(c->nd, 2); i++) {
    const ContractAxis *s = &c->space[c->nd - 1 - i];
    double size = (double)size_of(c, c->channel - 1 - i);
    idle *= ceil(size / side[i]) * side[i] / size;
    read *= (side[i] - 1) * (double)s->stride + (double)(s->kernel - 1) * (double)s->dilation + 1;
  }
  return idle * (1 + read / (side[0] * side[1]));
}

// Threads along the channels, pixels and lines.
static void arrange(Depthwise *w, int64_t runs, int64_t most, int64_t step) {
  const Contraction *c = &w->s.c;
  double best = (double)INFINITY;
  int64_t lines = c->nd > 1 ? size_of(c, c->channel - 2) : 1;
  int64_t line = size_of(c, c->channel - 1) / w->pixels;
  for (int64_t a = MIN(runs, most); a >= MIN(runs, LEAST_ACROSS); a--)
    for (int64_t x = 1; runs % a == 0 && x <= MIN(line, most / a); x++)
      for (int64_t y = 1; y <= MIN(lines, most / (a * x)); y++) {
        double cost = cost_of(w, a, x, y, step);
        if (cost >= best) continue;
        best = cost;
        w->across = a, w->along = x, w->down = y;
      }
}

// As many pixels as leave every multiprocessor enough threads to wait for memory with; then groups
// as large as leave none without.
static bool choose(Depthwise *w, const LowerTarget *t, const ScheduleGiven *given) {
  const Contraction *c = &w->s.c;
  int64_t units = MAX(t->traits.sm_count, 1), most = t->block_threads;
  w->side = MIN(BYTES / widest_of(w), MOST_SIDE);
  while (w->side > 1 && c->n->value % w->side) w->side /= 2;
  DepthwiseSchedule s = {.channels = w->side};
  schedule_keep(given, &s);
  w->side = s.channels;
  if ((w->side < 2 && !given->t) || c->n->value % w->side) return false;
  int64_t runs = c->n->value / w->side;
  Dim places = w->s.e.pool->one, line = c->out[c->channel - 1];
  int64_t some = 1;
  for (int i = 0; i < c->channel; i++) {
    places = ie_mul(w->s.e.pool, places, c->out[i]);
    some *= size_of(c, i);
  }
  double all = (double)runs * (double)elem_rows(&w->s.e, places, some);
  w->pixels = MOST_PIXELS;
  while (w->pixels > 1 && (!ie_is_const(line) || line->value % w->pixels ||
                           all < (double)(BUSY * units * w->pixels)))
    w->pixels /= 2;
  s.pixels = w->pixels;
  schedule_keep(given, &s);
  w->pixels = s.pixels;
  while (most > LEAST_THREADS && all < (double)(2 * units * w->pixels * most)) most /= 2;
  arrange(w, runs, most, MAX(t->traits.warp_size, 1));
  return true;
}

// ---- the loops ----

static Dim cell(Depthwise *w, int64_t pixel, Dim v) {
  IntPool *p = w->s.e.pool;
  return ie_add(p, ie_mulc(p, w->t, w->pixels * w->side), ie_addc(p, v, pixel * w->side));
}

// The place of a channel at one of the thread's pixels.
static ContractPoint place(const Depthwise *w, int64_t pixel, Dim v) {
  const Contraction *c = &w->s.c;
  ContractPoint at = w->first;
  Dim *x = &at.out[c->channel - 1], *channel = &at.out[c->channel];
  *x = ie_addc(w->s.e.pool, *x, pixel);
  *channel = ie_add(w->s.e.pool, *channel, v);
  return at;
}

// An index along an axis of so many, `each` adjacent threads of a block.
static Dim inside(Depthwise *w, Dim block, Dim thread, int64_t each, Dim size, int *depth) {
  IntPool *p = w->s.e.pool;
  return thread_guard(&w->s.e, ie_add(p, ie_mulc(p, block, each), thread), size, depth);
}

// Opens the threads, each where its first sum is.
static void open_threads(Depthwise *w, int *depth) {
  ElementBuilder *e = &w->s.e;
  IntPool *p = e->pool;
  const Contraction *c = &w->s.c;
  int line = c->channel - 1, lines = c->nd > 1 ? line - 1 : -1;
  Dim blocks[MAX_RANK], items = p->one, *at = w->first.out;
  Dim runs = w->pixels > 1 ? num(w, c->out[line]->value / w->pixels) : c->out[line];
  for (int i = 0; i < c->channel; i++) blocks[i] = c->out[i];
  blocks[line] = ie_ceildiv(p, runs, num(w, w->along));
  if (lines > 0) blocks[lines] = ie_ceildiv(p, c->out[lines], num(w, w->down));
  blocks[c->channel] = num(w, c->n->value / w->side / w->across);
  for (int i = 0; i < c->nout; i++) items = ie_mul(p, items, blocks[i]);
  w->s.t.panel = w->s.t.group = w->first.group = p->zero;
  elem_split(e, loop_for(&e->b, LOOP_PARALLEL, "item", items), c->nout, blocks, at);
  w->t = loop_for(&e->b, LOOP_THREAD, "t", num(w, w->across * w->along * w->down));
  *depth = 2;
  Dim channel = ie_mod(p, w->t, num(w, w->across)), pixel = ie_div(p, w->t, num(w, w->across));
  Dim x = ie_mod(p, pixel, num(w, w->along)), y = ie_div(p, pixel, num(w, w->along));
  at[line] = ie_mulc(p, inside(w, at[line], x, w->along, runs, depth), w->pixels);
  if (lines > 0) at[lines] = inside(w, at[lines], y, w->down, c->out[lines], depth);
  at[c->channel] = ie_mulc(p, ie_add(p, ie_mulc(p, at[c->channel], w->across), channel), w->side);
}

// The tap that a pixel of the image, so far along the line from the first, is of one of the
// thread's pixels; -1: none.
static int64_t tap_of(const Depthwise *w, int64_t along, int64_t pixel) {
  const ContractAxis *line = &w->s.c.space[w->s.c.nd - 1];
  int64_t rest = along - pixel * line->stride;
  bool is = rest >= 0 && rest % line->dilation == 0 && rest / line->dilation < line->kernel;
  return is ? rest / line->dilation : -1;
}

// A pixel of the image meets all taps that it is.
static bool add_pixel(Depthwise *w, int64_t along) {
  SimtGemm *s = &w->s;
  ElementBuilder *e = &s->e;
  int64_t some = 0;
  while (some < w->pixels && tap_of(w, along, some) < 0) some++;
  if (some == w->pixels) return true;
  elem_forget(e);
  Dim v = loop_for(&e->b, LOOP_UNROLL, "v", num(w, w->side));
  ContractPoint at = place(w, some, v);
  at.k[s->c.nd - 1] = num(w, tap_of(w, along, some));
  const LoopExpr *x = contract_lhs_value(&s->t, &at);
  if (!x) return false;
  x = loop_let(&e->b, x);
  for (int64_t i = some; i < w->pixels; i++) {
    if (tap_of(w, along, i) < 0) continue;
    at = place(w, i, v);
    at.k[s->c.nd - 1] = num(w, tap_of(w, along, i));
    const LoopExpr *y = contract_rhs_value(&s->t, &at, at.out[s->c.channel]);
    if (!y) return false;
    Dim to = cell(w, i, v);
    loop_store(&e->b, w->acc, to, simt_gemm_add(s, x, y, loop_load(e->k, w->acc, to)));
  }
  loop_end(&e->b);
  return true;
}

static bool form_sums(Depthwise *w) {
  SimtGemm *s = &w->s;
  ElementBuilder *e = &s->e;
  const Contraction *c = &s->c;
  const ContractAxis *line = &c->space[c->nd - 1];
  Dim i = loop_for(&e->b, LOOP_UNROLL, "i", num(w, w->pixels * w->side));
  loop_store(&e->b, w->acc, cell(w, 0, i), simt_gemm_zero(s));
  loop_end(&e->b);
  for (int d = 0; d < c->nd - 1; d++)
    w->first.k[d] =
        loop_for(&e->b, c->depth > WRITTEN_OUT ? LOOP_SERIAL : LOOP_UNROLL, "k", c->k[d]);
  int64_t last = (w->pixels - 1) * line->stride + (line->kernel - 1) * line->dilation;
  for (int64_t along = 0; along <= last; along++)
    if (!add_pixel(w, along)) return false;
  thread_close(e, c->nd - 1);
  return true;
}

static bool emit_epilogue(Depthwise *w) {
  SimtGemm *s = &w->s;
  ElementBuilder *e = &s->e;
  Dim v = loop_for(&e->b, LOOP_UNROLL, "v", num(w, w->side));
  for (int64_t i = 0; i < w->pixels; i++) {
    ContractPoint at = place(w, i, v);
    Dim *index = arena_dup(e->a, at.out, (int64_t)sizeof at.out);
    elem_forget(e);
    if (!epilogue_store_sum(&s->f, index, loop_load(e->k, w->acc, cell(w, i, v)), NULL))
      return false;
  }
  loop_end(&e->b);
  return true;
}

static void *depthwise_match(Lowering *lo, const Node *fused) {
  Depthwise *w = arena_new(lo->arena, Depthwise);
  lo->why = "it is not a depthwise convolution, channels last";
  return simt_gemm_begin(&w->s, lo, fused) && wants(w) ? w : NULL;
}

static bool depthwise_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                             void *fields) {
  Depthwise *w = match;
  w->across = w->along = w->down = 1;
  if (!choose(w, t, given)) return false;
  *(DepthwiseSchedule *)fields = (DepthwiseSchedule){.channels = w->side,
                                                     .pixels = w->pixels,
                                                     .across = w->across,
                                                     .along = w->along,
                                                     .down = w->down};
  return true;
}

static bool depthwise_legal(const void *match, const LowerTarget *t, const void *fields,
                            const char **why) {
  enum { THREADS_MOST = 1024 };
  const Contraction *c = &((const Depthwise *)match)->s.c;
  const DepthwiseSchedule *s = fields;
  Dim line = c->out[c->channel - 1];
  (void)t;
  *why = c->n->value % s->channels ? "channels does not divide the channels of the image"
         : c->n->value / s->channels % s->across ? "across does not divide the runs of channels"
         : s->pixels > 1 && (!ie_is_const(line) || line->value % s->pixels)
             ? "pixels does not divide a line"
         : s->across * s->along * s->down > THREADS_MOST ? "a block has at most 1024 threads"
                                                         : NULL;
  return !*why;
}

static bool depthwise_build(void *match, const void *fields, Lowered *out) {
  Depthwise *w = match;
  SimtGemm *s = &w->s;
  const DepthwiseSchedule *from = fields;
  int depth;
  w->side = from->channels;
  w->pixels = from->pixels;
  w->across = from->across;
  w->along = from->along;
  w->down = from->down;
  s->t.s.cols = s->c.n->value;
  if (!simt_gemm_pack(s)) return false;
  w->acc = loop_buffer(s->e.k, LOOP_REGISTER, "acc", s->c.acc,
                       num(w, w->across * w->along * w->down * w->pixels * w->side), false);
  open_threads(w, &depth);
  if (!form_sums(w) || !emit_epilogue(w)) return false;
  thread_close(&s->e, depth);
  elem_finish(&s->e, out);
  return true;
}

const TemplateCode template_depthwise = {.match = depthwise_match,
                                         .choose = depthwise_choose,
                                         .legal = depthwise_legal,
                                         .build = depthwise_build,
                                         SCHEDULE(Depthwise)};
