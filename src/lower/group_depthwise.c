// group_depthwise.c -- convolutions of single channels on groups of threads: the time is that of reading the image and writing the result.
//
// Needs channels last.  A thread has 16 bytes of neighbouring channels of a few neighbouring pixels of a line, and their sums in its registers; it reads every
// pixel of the image once for all the pixels of the result that it is a tap of.  All is summed before anything is stored, and the taps of a sum
// follow one another as the weights do, however many pixels a thread has: its bits do not depend on the schedule.
#include "lower/group_contract.h"

typedef struct Depthwise {
  GroupSums s;
  int64_t side, pixels;     // channels and pixels of a thread
  int64_t threads, across;  // of a group, and along the channels
  int32_t acc;
  Dim t;                // the thread
  ContractPoint first;  // where its first sum is
} Depthwise;

enum { BYTES = 16, MOST_SIDE = 8, MOST_PIXELS = 4, MOST_ALONG = 16 };
enum { WRITTEN_OUT = 32 };  // taps; of more only those along a line are written out
enum { BUSY = 512, SOME_IMAGES = 8, LEAST_THREADS = 64, LEAST_ACROSS = 8 };

static Dim num(Depthwise *w, int64_t v) { return ie_const(w->s.e.pool, v); }

// ---- the choice ----

static bool wants(const Depthwise *w) {
  const Contraction *c = &w->s.c;
  return c->conv && c->depthwise && c->channel == c->nout - 1 && ie_is_const(c->n) &&
         c->space[c->nd - 1].kernel <= MOST_ALONG;
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

// Threads along the channels are a part of all that there are; the one that leaves the fewest places of threads that go in step empty, and of
// several such the largest.
static void arrange(Depthwise *w, int64_t runs, int64_t most, int64_t step) {
  double best = 0;
  for (int64_t a = MIN(runs, most); a >= MIN(runs, LEAST_ACROSS); a--) {
    int64_t all = most / a * a, places = (all + step - 1) / step * step;
    double used = (double)all / (double)places;
    if (runs % a || used <= best) continue;
    best = used;
    w->across = a;
    w->threads = all;
  }
}

// As many pixels as leave every multiprocessor enough threads to wait for memory with; then groups as large as leave none without.
static bool choose(Depthwise *w, const LowerTarget *t) {
  const Contraction *c = &w->s.c;
  int64_t units = MAX(t->units, 1), most = t->group;
  w->side = MIN(BYTES / widest_of(w), MOST_SIDE);
  while (w->side > 1 && c->n->value % w->side) w->side /= 2;
  if (w->side < 2) return false;
  int64_t runs = c->n->value / w->side;
  double all = (double)runs;
  for (int i = 0; i < c->channel; i++)
    all *= ie_is_const(c->out[i]) ? (double)c->out[i]->value : SOME_IMAGES;
  Dim line = c->out[c->channel - 1];
  w->pixels = MOST_PIXELS;
  while (w->pixels > 1 && (!ie_is_const(line) || line->value % w->pixels ||
                           all < (double)(BUSY * units * w->pixels)))
    w->pixels /= 2;
  while (most > LEAST_THREADS && all < (double)(2 * units * w->pixels * most)) most /= 2;
  arrange(w, runs, most, MAX(t->in_step, 1));
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

// Opens the threads, each where its first sum is.
static void open_threads(Depthwise *w, int *depth) {
  Elem *e = &w->s.e;
  IntPool *p = e->pool;
  const Contraction *c = &w->s.c;
  Dim size[MAX_RANK], count = p->one, across = num(w, w->across);
  for (int i = 0; i < c->channel; i++) {
    bool line = w->pixels > 1 && i == c->channel - 1;
    size[i] = line ? num(w, c->out[i]->value / w->pixels) : c->out[i];
    count = ie_mul(p, count, size[i]);
  }
  int64_t down = w->threads / w->across, parts = c->n->value / w->side / w->across;
  Dim items = ie_mulc(p, ie_ceildiv(p, count, num(w, down)), parts);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  w->t = loop_for(&e->b, LOOP_THREAD, "t", num(w, w->threads));
  *depth = 2;
  Dim run = ie_mulc(p, ie_div(p, item, num(w, parts)), down);
  run = group_inside(e, ie_add(p, run, ie_div(p, w->t, across)), count, depth);
  Dim part = ie_mulc(p, ie_mod(p, item, num(w, parts)), w->across);
  w->s.t.panel = w->s.t.group = p->zero;
  w->first = (ContractPoint){.group = p->zero};
  elem_split(e, run, c->channel, size, w->first.out);
  w->first.out[c->channel] = ie_mulc(p, ie_add(p, part, ie_mod(p, w->t, across)), w->side);
  w->first.out[c->channel - 1] = ie_mulc(p, w->first.out[c->channel - 1], w->pixels);
}

// The tap that a pixel of the image, so far along the line from the first, is of one of the thread's pixels; -1: none.
static int64_t tap_of(const Depthwise *w, int64_t along, int64_t pixel) {
  const ContractAxis *line = &w->s.c.space[w->s.c.nd - 1];
  int64_t rest = along - pixel * line->stride;
  bool is = rest >= 0 && rest % line->dilation == 0 && rest / line->dilation < line->kernel;
  return is ? rest / line->dilation : -1;
}

// A pixel of the image meets all taps that it is.
static bool add_pixel(Depthwise *w, int64_t along) {
  GroupSums *s = &w->s;
  Elem *e = &s->e;
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
    loop_store(&e->b, w->acc, to, group_sums_add(s, x, y, loop_load(e->k, w->acc, to)));
  }
  loop_end(&e->b);
  return true;
}

static bool form_sums(Depthwise *w) {
  GroupSums *s = &w->s;
  Elem *e = &s->e;
  const Contraction *c = &s->c;
  const ContractAxis *line = &c->space[c->nd - 1];
  Dim i = loop_for(&e->b, LOOP_UNROLL, "i", num(w, w->pixels * w->side));
  loop_store(&e->b, w->acc, cell(w, 0, i), group_sums_zero(s));
  loop_end(&e->b);
  for (int d = 0; d < c->nd - 1; d++)
    w->first.k[d] =
        loop_for(&e->b, c->depth > WRITTEN_OUT ? LOOP_SERIAL : LOOP_UNROLL, "k", c->k[d]);
  int64_t last = (w->pixels - 1) * line->stride + (line->kernel - 1) * line->dilation;
  for (int64_t along = 0; along <= last; along++)
    if (!add_pixel(w, along)) return false;
  group_close(e, c->nd - 1);
  return true;
}

static bool finish_sums(Depthwise *w) {
  GroupSums *s = &w->s;
  Elem *e = &s->e;
  Dim v = loop_for(&e->b, LOOP_UNROLL, "v", num(w, w->side));
  for (int64_t i = 0; i < w->pixels; i++) {
    ContractPoint at = place(w, i, v);
    Dim *index = arena_dup(e->a, at.out, (int64_t)sizeof at.out);
    elem_forget(e);
    if (!contract_store(&s->f, index, loop_load(e->k, w->acc, cell(w, i, v)), NULL)) return false;
  }
  loop_end(&e->b);
  return true;
}

tenon_status lower_group_depthwise(Lowering *lo, const Node *fused, Lowered *out) {
  Depthwise *w = arena_new(lo->arena, Depthwise);
  GroupSums *s = &w->s;
  int depth;
  if (!group_sums_begin(s, lo, fused) || !wants(w) || !choose(w, &lo->target))
    return TENON_EUNSUPPORTED;
  s->t.s.nr = s->c.n->value;
  if (!group_sums_pack(s)) return TENON_EUNSUPPORTED;
  w->acc = loop_buffer(s->e.k, LOOP_REGISTER, "acc", s->c.acc,
                       num(w, w->threads * w->pixels * w->side), false);
  open_threads(w, &depth);
  if (!form_sums(w) || !finish_sums(w)) return TENON_EUNSUPPORTED;
  group_close(&s->e, depth);
  elem_finish(&s->e,
              str_printf(lo->arena, "group depthwise %dx%dx%d", (int)w->threads, (int)w->pixels,
                         (int)w->side),
              out);
  return TENON_OK;
}
