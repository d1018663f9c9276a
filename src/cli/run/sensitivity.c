// sensitivity.c -- perturbed runs of the interpreter (sensitivity.h).
//
// How:        each run multiplies every element of every float result by 1 + u, u random within a
// few roundings of its type.
// Guarantees: the same factors on every machine, for the same model and inputs.
#include "cli/run/sensitivity.h"

#include <math.h>

// Runs; roundings of a value; how much further than those runs a result may be: few runs seldom
// find the worst case, and kernels such as Winograd's round more than once.
enum { RUNS = 2, ROUNDINGS = 4, ROOM = 8 };

typedef struct Perturb {
  uint64_t rng;
} Perturb;

static double rounding(DType t) {
  return t == DT_F64    ? 0x1p-53
         : t == DT_F32  ? 0x1p-24
         : t == DT_F16  ? 0x1p-11
         : t == DT_BF16 ? 0x1p-8
                        : 0;
}

static tenon_status begin(void *ctx, Run *run, const int64_t *bind, const bool *bound,
                          int32_t nbind) {
  (void)ctx, (void)run, (void)bind, (void)bound, (void)nbind;
  return TENON_OK;
}

static void dead(void *ctx, const Node *n, int result) { (void)ctx, (void)n, (void)result; }

// Only what the step made itself: an alias shows another's elements, and what is borrowed is the
// caller's.
static tenon_status perturb(void *ctx, Run *run, const Node *n, int result, Value **v) {
  Perturb *p = ctx;
  (void)run, (void)n, (void)result;
  if (!*v || (*v)->kind != VK_TENSOR || !(*v)->owns_data || (*v)->owner || (*v)->refs != 1)
    return TENON_OK;
  double most = ROUNDINGS * rounding((*v)->dtype);
  for (int64_t i = 0; most > 0 && i < (*v)->n; i++) {
    double x = val_f64(*v, i);
    p->rng = hash_u64(p->rng + 1);
    if (isfinite(x))
      val_put_f64(*v, i, x * (1 + most * (2 * (double)(p->rng >> 11) * 0x1p-53 - 1)));
  }
  return TENON_OK;
}

// How many times its tolerance a tensor was moved; of what is no float, elements.
static double moved(const Value *got, const Value *want) {
  Tolerance t = tolerance_scaled(want);
  bool is_float = dtype_class(want->dtype) == DC_FLOAT;
  double most = 0, n = 0;
  if (got->n != want->n || got->dtype != want->dtype) return INFINITY;  // roundings decide its size
  for (int64_t i = 0; i < want->n && dtype_class(want->dtype) != DC_STRING; i++) {
    if (!is_float) {
      n += dtype_class(want->dtype) != DC_COMPLEX && val_i64(got, i) != val_i64(want, i);
      continue;
    }
    double x = val_f64(got, i), y = val_f64(want, i);
    if (isfinite(x) && isfinite(y) && x != y)
      most = fmax(most, fabs(x - y) / (t.atol + t.rtol * fabs(y)));
  }
  return is_float ? most : n;
}

static tenon_status run_once(const Sensitivity *s, int k, Diag *d, double *out) {
  Run run;
  Perturb p = {.rng = hash_u64((uint64_t)k + 1)};
  Placement place = {.ctx = &p, .everywhere = true, .begin = begin, .place = perturb, .dead = dead};
  run_init(&run, s->pool, d);
  run.seed = s->seed;
  run.max_bytes = s->max_bytes;
  Value **got = arena_array(s->arena, Value *, s->nresults + 1);
  tenon_status status = interp_run_placed(s->interp, &run, &place, s->inputs, got);
  for (int64_t i = 0; !status && i < s->nresults; i++) {
    const Value *want = s->reference[i];
    if (got[i] && want && got[i]->kind == VK_TENSOR && want->kind == VK_TENSOR)
      out[i] = fmax(out[i], ROOM * moved(got[i], want));
  }
  run_deinit(&run);
  return status;
}

tenon_status sensitivity_factors(const Sensitivity *s, Diag *d, double *out) {
  for (int64_t i = 0; i < s->nresults; i++) out[i] = 1;
  for (int k = 0; k < RUNS; k++) TRY(run_once(s, k, d, out));
  return TENON_OK;
}
