// whole.c -- integer requantization for machines without floats (--embedded).
//
// A quantized layer ends in clamp(round(f32(sum) * scale), lo, hi), which rounds twice: the product
// to 24 bits, then to an integer, ties to even.  A scale is m * 2^-S with 24 bits of m, so the
// product is exact in 64 bits.  Rounding it once gives the same integer, except near a tie that f32
// creates: within half a unit in the last place.  That case is part of the emitted code.  All steps
// from lo to hi are then compared with f32.
//
// Needs:      loops are alive and used by this program alone: kernels are rewritten in place.
// Guarantees: bit-equal.  If a scale does not fit, a step differs, or another float remains in the
//             model, nothing is changed.  Untouched kernel arguments are not passed.
#include "targets/c/emit.h"

#include <math.h>

enum { STEPS = 511, MANTISSA = 24, SHIFT_LEAST = 26, SHIFT_MOST = 45 };

typedef struct Requant {
  LoopExpr *root;         // cast(round(clamp(cast(sum) * scale)))
  const LoopExpr *sum;    // i32
  const LoopExpr *scale;  // a load of an argument, or a number
  int64_t lo, hi;
  int shift;       // scale = m * 2^-shift; 0: it is no such number
  int64_t factor;  // m, of a number
} Requant;
typedef struct Whole {
  CModel *m;
  LoopKernel *k;
  int32_t kernel;
  IntMap seen;
  VEC(Requant) found;
  int64_t *loads, *ours;  // of each buffer: all, and by what was found
  bool *touched;
} Whole;

// ---- what a kernel reads, and where it requantises ----

static bool is_op(const LoopExpr *e, LoopOp op) { return e->kind == LX_OP && e->op == op; }

static bool is_number(const LoopExpr *e, double *v) {
  if (e->kind != LX_CONST || e->dtype != DT_F32) return false;
  *v = e->f;
  return true;
}

// One end of a clamp: x < c ? x : c, or c < x ? x : c.
static const LoopExpr *peel(const LoopExpr *y, double *lo, double *hi) {
  double c, other;
  if (is_op(y, LOOP_min) || is_op(y, LOOP_max)) {
    bool first = is_number(y->src[0], &c);
    if (!first && !is_number(y->src[1], &c)) return NULL;
    *(is_op(y, LOOP_min) ? hi : lo) = is_op(y, LOOP_min) ? MIN(*hi, c) : MAX(*lo, c);
    return y->src[first];
  }
  if (!is_op(y, LOOP_select) || !is_op(y->src[0], LOOP_lt) || !is_number(y->src[2], &other))
    return NULL;
  const LoopExpr *a = y->src[0]->src[0], *b = y->src[0]->src[1], *x = y->src[1];
  if (is_number(b, &c) && a == x && c == other)
    *hi = MIN(*hi, c);
  else if (is_number(a, &c) && b == x && c == other)
    *lo = MAX(*lo, c);
  else
    return NULL;
  return x;
}

static bool read_requant(LoopExpr *e, Requant *out) {
  double lo = -INFINITY, hi = INFINITY;
  if (!is_op(e, LOOP_cast) || (e->dtype != DT_I32 && e->dtype != DT_I64)) return false;
  if (!is_op(e->src[0], LOOP_round) || e->src[0]->dtype != DT_F32) return false;
  const LoopExpr *y = e->src[0]->src[0], *next;
  while (!is_op(y, LOOP_mul) && (next = peel(y, &lo, &hi))) y = next;
  if (!is_op(y, LOOP_mul) || !(hi - lo <= STEPS) || lo >= hi || lo != rint(lo) || hi != rint(hi))
    return false;
  bool swapped = !is_op(y->src[0], LOOP_cast);
  const LoopExpr *sum = y->src[swapped], *scale = y->src[!swapped];
  if (!is_op(sum, LOOP_cast) || sum->src[0]->dtype != DT_I32) return false;
  bool load = scale->kind == LX_LOAD && scale->dtype == DT_F32 && !scale->nguards;
  if (!load && scale->kind != LX_CONST) return false;
  *out = (Requant){
      .root = e, .sum = sum->src[0], .scale = scale, .lo = (int64_t)lo, .hi = (int64_t)hi};
  return true;
}

static void walk_expr(Whole *w, const LoopExpr *e) {
  uint64_t have;
  if (!e || intmap_get(&w->seen, (uint64_t)(uintptr_t)e, &have)) return;
  intmap_put(&w->seen, (uint64_t)(uintptr_t)e, 1);
  Requant r;
  if (e->kind == LX_LOAD) {
    w->touched[e->buffer] = true;
    w->loads[e->buffer]++;
  }
  if (read_requant((LoopExpr *)(uintptr_t)e, &r)) {
    vec_push(w->m->arena, &w->found, r);
    if (r.scale->kind == LX_LOAD && !intmap_get(&w->seen, (uint64_t)(uintptr_t)r.scale, &have))
      w->ours[r.scale->buffer]++;
  }
  for (int i = 0; i < 3; i++) walk_expr(w, e->src[i]);
}

static void walk_block(Whole *w, const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    if (s->kind == LS_STORE || s->kind == LS_PREFETCH) w->touched[s->buffer] = true;
    walk_expr(w, s->value);
    walk_block(w, &s->body);
    walk_block(w, &s->orelse);
  }
}

// ---- proving ----

static int64_t by_float(int64_t sum, float scale, const Requant *r) {
  volatile float x = (float)(int32_t)sum;
  volatile float y = x * scale;
  double z = rint((double)y);
  return z < (double)r->lo ? r->lo : z > (double)r->hi ? r->hi : (int64_t)z;
}

// The least sum that gives k or more; INT32_MAX + 1: none does.
static int64_t step_at(int64_t k, float scale, const Requant *r) {
  int64_t low = INT32_MIN, high = (int64_t)INT32_MAX + 1;
  while (low < high) {
    int64_t mid = low + (high - low) / 2;
    if (by_float(mid, scale, r) >= k)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

// The same in whole numbers; what `rewrite` writes.
static int64_t by_whole(int64_t sum, int64_t m, int shift, const Requant *r) {
  int64_t one = (int64_t)1 << shift, most = MAX(MAX(r->hi, -r->hi), MAX(r->lo, -r->lo)) + 1;
  int64_t a = MIN(sum < 0 ? -sum : sum, (int64_t)1 << MANTISSA), p = MIN(a * m, most * one);
  int64_t q = p >> shift, d = (p & (one - 1)) - one / 2, x = q;
  x |= x >> 1;
  x |= x >> 2;
  x |= x >> 4;
  x |= x >> 8;
  int64_t near = (x + 1) << (shift - MANTISSA - 1);
  if (!q && d < 0) near /= 2;
  q += d > near ? 1 : d >= -near ? q & 1 : 0;
  return MIN(MAX(sum < 0 ? -q : q, r->lo), r->hi);
}

// m for one scale; 0: there is none.
static int64_t multiplier(float scale, int shift, const Requant *r) {
  if (!(scale > 0) || !isfinite(scale)) return 0;
  double m = ldexp((double)scale, shift), most = MAX(fabs((double)r->lo), fabs((double)r->hi)) + 1;
  if (m != rint(m) || m > INT32_MAX || ldexp((double)scale, MANTISSA) < most) return 0;
  for (int64_t k = r->lo + 1; k <= r->hi; k++) {
    int64_t at = step_at(k, scale, r);
    for (int64_t v = MAX(at - 2, INT32_MIN); v <= MIN(at + 1, INT32_MAX); v++)
      if (by_whole(v, (int64_t)m, shift, r) != by_float(v, scale, r)) return 0;
  }
  return (int64_t)m;
}

// How far the least scale must be shifted to be a whole number; 0: too far, or not far enough.
static int shift_for(float least) {
  int e;
  if (!(least > 0) || !isfinite(least)) return 0;
  frexpf(least, &e);
  int shift = MANTISSA - e;
  return shift < SHIFT_LEAST || shift > SHIFT_MOST ? 0 : shift;
}

// ---- constants ----

static bool is_of(const ProgFunction *f, int32_t value, int32_t constant) {
  return value >= 0 && f->value[value].place == PLACE_CONST && f->value[value].slot == constant;
}

// Whether the constant is only ever this argument of this kernel.
static bool used_once(const Program *p, int32_t constant, int32_t kernel, int32_t arg) {
  for (int32_t i = 0; i < p->nfunctions; i++) {
    const ProgFunction *f = p->function[i];
    for (int32_t r = 0; r < f->nresults; r++)
      if (is_of(f, f->result[r], constant)) return false;
    for (int32_t s = 0; s < f->nsteps; s++) {
      const ProgStep *st = &f->step[s];
      for (int32_t a = 0; a < st->nin && st->kind != STEP_KERNEL; a++)
        if (is_of(f, st->in[a], constant)) return false;
      for (int32_t a = 0; a < st->nargs && st->kind == STEP_KERNEL; a++)
        if (is_of(f, st->arg[a], constant) && (st->kernel != kernel || a != arg)) return false;
    }
  }
  return true;
}

typedef VEC(int32_t) Constants;
// What the argument is in every call; false where it is not a constant of f32 that has no other
// use.
static bool constants_of(const Whole *w, int32_t arg, Constants *out) {
  const Program *p = w->m->p;
  for (int32_t i = 0; i < p->nfunctions; i++)
    for (int32_t s = 0; s < p->function[i]->nsteps; s++) {
      const ProgStep *st = &p->function[i]->step[s];
      if (st->kind != STEP_KERNEL || st->kernel != w->kernel) continue;
      const ProgValue *v = &p->function[i]->value[st->arg[arg]];
      if (v->place != PLACE_CONST || p->constant[v->slot].dtype != DT_F32) return false;
      if (!used_once(p, v->slot, w->kernel, arg)) return false;
      vec_push(w->m->arena, out, v->slot);
    }
  return out->n > 0;
}

// All scales of the constants as whole numbers; 0: some cannot be.
static int prove_constants(Whole *w, const Constants *list, const Requant *r) {
  const Program *p = w->m->p;
  float least = INFINITY;
  for (int64_t i = 0; i < list->n; i++) {
    const ProgConst *k = &p->constant[list->v[i]];
    for (int64_t j = 0; j < k->bytes / 4; j++) least = MIN(least, ((const float *)k->data)[j]);
  }
  int shift = shift_for(least);
  for (int64_t i = 0; i < list->n && shift > 1; i++) {
    const ProgConst *k = &p->constant[list->v[i]];
    int32_t *whole = arena_array(w->m->arena, int32_t, MAX(k->bytes / 4, 1));
    for (int64_t j = 0; j < k->bytes / 4; j++) {
      whole[j] = (int32_t)multiplier(((const float *)k->data)[j], shift, r);
      if (!whole[j]) return 0;
    }
    w->m->whole[list->v[i]] = whole;
  }
  return shift > 1 ? shift : 0;
}

// ---- the new loops ----

static const LoopExpr *i64(Whole *w, int64_t v) { return loop_int(w->k, DT_I64, v); }

static const LoopExpr *two(Whole *w, LoopOp op, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(w->k, op, x, y, NULL);
}

// x >> n of what is not negative.
static const LoopExpr *right(Whole *w, const LoopExpr *x, int n) {
  x = two(w, LOOP_shift_right, loop_cast(w->k, DT_U64, x), loop_int(w->k, DT_U64, n));
  return loop_cast(w->k, DT_I64, x);
}

// by_whole as loops.  The expression becomes another, for all that refer to it.
static void rewrite(Whole *w, const Requant *r, const LoopExpr *m) {
  LoopKernel *k = w->k;
  int64_t one = (int64_t)1 << r->shift;
  int64_t most = MAX(MAX(r->hi, -r->hi), MAX(r->lo, -r->lo)) + 1;
  const LoopExpr *sum = loop_cast(k, DT_I64, r->sum);
  const LoopExpr *negative = two(w, LOOP_lt, sum, i64(w, 0));
  const LoopExpr *a = loop_op(k, LOOP_select, negative, two(w, LOOP_sub, i64(w, 0), sum), sum);
  a = two(w, LOOP_min, a, i64(w, (int64_t)1 << MANTISSA));
  const LoopExpr *p = two(w, LOOP_min, two(w, LOOP_mul, a, m), i64(w, most * one));
  const LoopExpr *q = right(w, p, r->shift), *x = q;
  const LoopExpr *d = two(w, LOOP_sub, two(w, LOOP_bit_and, p, i64(w, one - 1)), i64(w, one / 2));
  for (int n = 1; n <= 8; n *= 2) x = two(w, LOOP_bit_or, x, right(w, x, n));
  const LoopExpr *near =
      two(w, LOOP_mul, two(w, LOOP_add, x, i64(w, 1)), i64(w, one >> (MANTISSA + 1)));
  const LoopExpr *first = two(w, LOOP_lt, p, i64(w, one / 2));
  near = loop_op(k, LOOP_select, first, i64(w, one >> (MANTISSA + 2)), near);
  const LoopExpr *odd = two(w, LOOP_bit_and, q, i64(w, 1));
  const LoopExpr *below = two(w, LOOP_lt, two(w, LOOP_add, d, near), i64(w, 0));
  const LoopExpr *up = loop_op(k, LOOP_select, two(w, LOOP_lt, near, d), i64(w, 1),
                               loop_op(k, LOOP_select, below, i64(w, 0), odd));
  q = two(w, LOOP_add, q, up);
  q = loop_op(k, LOOP_select, negative, two(w, LOOP_sub, i64(w, 0), q), q);
  q = two(w, LOOP_min, two(w, LOOP_max, q, i64(w, r->lo)), i64(w, r->hi));
  q = r->root->dtype == DT_I64 ? two(w, LOOP_add, q, i64(w, 0)) : loop_cast(k, DT_I32, q);
  *r->root = *q;
}

// ---- whole models ----

static void prove_numbers(Whole *w) {
  for (int64_t i = 0; i < w->found.n; i++) {
    Requant *r = &w->found.v[i];
    if (r->scale->kind != LX_CONST) continue;
    int shift = shift_for((float)r->scale->f);
    r->factor = shift > 1 ? multiplier((float)r->scale->f, shift, r) : 0;
    if (r->factor) r->shift = shift;
  }
}

static void prove_buffer(Whole *w, int32_t buffer) {
  Constants list = {0};
  const Requant *first = NULL;
  for (int64_t i = 0; i < w->found.n; i++) {
    const Requant *r = &w->found.v[i];
    if (r->scale->kind != LX_LOAD || r->scale->buffer != buffer) continue;
    if (!first) first = r;
    if (r->lo != first->lo || r->hi != first->hi) return;
  }
  if (!first || w->loads[buffer] != w->ours[buffer]) return;
  if (!constants_of(w, buffer, &list)) return;
  int shift = prove_constants(w, &list, first);
  for (int64_t i = 0; i < w->found.n; i++) {
    Requant *r = &w->found.v[i];
    if (r->scale->kind == LX_LOAD && r->scale->buffer == buffer) r->shift = shift;
  }
}

static void look_at(CModel *m, int32_t i, Whole *w) {
  LoopKernel *k = (LoopKernel *)(uintptr_t)m->c->kernel[i].lowered->kernel;
  *w = (Whole){.m = m,
               .k = k,
               .kernel = i,
               .loads = arena_array(m->arena, int64_t, MAX(k->nbuffers, 1)),
               .ours = arena_array(m->arena, int64_t, MAX(k->nbuffers, 1)),
               .touched = arena_array(m->arena, bool, MAX(k->nbuffers, 1))};
  intmap_init(&w->seen, m->arena);
  walk_block(w, &k->body);
  m->touched[i] = w->touched;
  for (int32_t b = 0; b < k->nargs; b++)
    if (!w->touched[b]) k->buffer[b].dtype = DT_U8;
  prove_numbers(w);
  for (int32_t b = 0; b < k->nargs; b++) prove_buffer(w, b);
}

static bool is_float(DType t) { return dtype_class(t) == DC_FLOAT; }

// What is left of an expression when its requantisations are whole numbers.
static bool needs_float(Whole *w, const LoopExpr *e) {
  uint64_t have;
  if (!e || intmap_get(&w->seen, (uint64_t)(uintptr_t)e, &have)) return false;
  intmap_put(&w->seen, (uint64_t)(uintptr_t)e, 1);
  for (int64_t i = 0; i < w->found.n; i++)
    if (w->found.v[i].root == e && w->found.v[i].shift) return needs_float(w, w->found.v[i].sum);
  if (is_float(e->dtype)) return true;
  for (int i = 0; i < 3; i++)
    if (needs_float(w, e->src[i])) return true;
  return false;
}

static bool block_needs_float(Whole *w, const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++) {
    const LoopStmt *s = b->v[i];
    if (needs_float(w, s->value) || block_needs_float(w, &s->body) ||
        block_needs_float(w, &s->orelse))
      return true;
  }
  return false;
}

static bool any_float(const ProgFunction *f, const int32_t *v, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if (v[i] >= 0 && is_float(f->value[v[i]].dtype)) return true;
  return false;
}

// Parameters, results, and what is done without a kernel.
static bool values_need_float(const Program *p) {
  for (int32_t i = 0; i < p->nfunctions; i++) {
    const ProgFunction *f = p->function[i];
    if (any_float(f, f->param, f->nparams) || any_float(f, f->result, f->nresults)) return true;
    for (int32_t k = 0; k < f->nsteps; k++) {
      const ProgStep *s = &f->step[k];
      if (s->kind != STEP_KERNEL && (any_float(f, s->in, s->nin) || any_float(f, s->out, s->nout)))
        return true;
    }
  }
  return false;
}

static void rewrite_kernel(Whole *w) {
  for (int64_t i = 0; i < w->found.n; i++) {
    const Requant *r = &w->found.v[i];
    if (r->scale->kind == LX_CONST) {
      rewrite(w, r, loop_int(w->k, DT_I64, r->factor));
      continue;
    }
    w->k->buffer[r->scale->buffer].dtype = DT_I32;
    const LoopExpr *load = loop_load(w->k, r->scale->buffer, r->scale->index);
    rewrite(w, r, loop_cast(w->k, DT_I64, load));
  }
}

void c_whole(CModel *m) {
  const Program *p = m->p;
  m->whole = arena_array(m->arena, const int32_t *, MAX(p->nconsts, 1));
  m->touched = arena_array(m->arena, const bool *, MAX(p->nkernels, 1));
  if (!m->o->embedded) return;
  Whole *w = arena_array(m->arena, Whole, MAX(p->nkernels, 1));
  bool floats = values_need_float(p);
  for (int32_t i = 0; i < p->nkernels; i++) {
    look_at(m, i, &w[i]);
    intmap_init(&w[i].seen, m->arena);
    floats = floats || block_needs_float(&w[i], &w[i].k->body);
  }
  // With floats elsewhere a processor has them, or functions for them, anyway: then products of 64
  // bits are no gain.
  if (floats) {
    memset(m->whole, 0, (size_t)MAX(p->nconsts, 1) * sizeof *m->whole);
    return;
  }
  for (int32_t i = 0; i < p->nkernels; i++) rewrite_kernel(&w[i]);
}
