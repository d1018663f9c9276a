// factor.c -- the ranges of data types, and constants pair by pair as they broadcast (factor.h).
#include "rules/factor.h"

#include <float.h>
#include <math.h>

// ---- ranges ----

static double most(DType t) {
  switch ((int)t) {
  case DT_F64: return DBL_MAX;
  case DT_F16: return 65504;
  case DT_BF16: return 0x1.fep127;
  default: return (double)FLT_MAX;
  }
}

static double least(DType t) { return t == DT_F64 ? DBL_MIN : t == DT_F16 ? 0x1p-14 : 0x1p-126; }

bool is_finite_in(DType t, double x) { return fabs(x) <= most(t); }
bool is_normal_in(DType t, double x) { return is_finite_in(t, x) && fabs(x) >= least(t); }

// ---- elements ----

// A float constant's elements in place: weights are large.
typedef struct Elements {
  DType t;
  int64_t n;
  const void *at;
} Elements;

static bool elements_of(Graph *g, const Node *n, Elements *out) {
  if (n->op != OP_const || !dtype_is_float(type_of(n)->dtype)) return false;
  *out = (Elements){.t = type_of(n)->dtype, .n = n->data->n};
  Diag *quiet = arena_new(&g->scratch, Diag);
  diag_init(quiet);
  return !const_bytes(g, n, &out->at, quiet);
}

static double element(const Elements *e, int64_t i) { return get_f64(e->t, e->at, i); }

const double *const_numbers(Graph *g, const Node *n, int64_t *count) {
  Elements e;
  if (!elements_of(g, n, &e)) return NULL;
  double *v = arena_array(&g->scratch, double, MAX(e.n, 1));
  load_f64(e.t, e.at, 0, e.n, v);
  *count = e.n;
  return v;
}

// ---- pairs ----

typedef bool FitsFn(DType t, double x, double y);

static bool product(DType t, double x, double y) {
  return x == 0 || y == 0 || !isfinite(x) || !isfinite(y) || is_normal_in(t, x * y);
}
static bool sum(DType t, double x, double y) {
  return !isfinite(x) || !isfinite(y) || is_finite_in(t, x + y);
}
static bool difference(DType t, double x, double y) { return sum(t, x, -y); }

// The distance in the operand's elements of a step along each of `rank` axes; 0 where it repeats.
static void steps_of(const Type *t, int rank, int64_t *step) {
  int64_t all = 1;
  for (int i = rank - 1, k = t->rank - 1; i >= 0; i--, k--) {
    int64_t size = k >= 0 ? t->dims[k]->value : 1;
    step[i] = size == 1 ? 0 : all;
    all *= size;
  }
}

static bool pairs_fit(Graph *g, const Node *b, const Node *c, FitsFn *fits) {
  const Type *tb = type_of(b), *tc = type_of(c);
  int rank = MAX(tb->rank, tc->rank);
  int64_t of_b[MAX_RANK], of_c[MAX_RANK], at[MAX_RANK] = {0}, ib = 0, ic = 0;
  Elements x, y;
  if (!dtype_is_float(tb->dtype)) return true;
  if (!elements_of(g, b, &x) || !elements_of(g, c, &y)) return false;
  if (!x.n || !y.n) return true;
  steps_of(tb, rank, of_b);
  steps_of(tc, rank, of_c);
  for (;;) {
    if (!fits(x.t, element(&x, ib), element(&y, ic))) return false;
    int i = rank - 1;
    for (; i >= 0; i--) {
      const Type *t = of_b[i] ? tb : tc;
      int64_t size = of_b[i] || of_c[i] ? t->dims[i - (rank - t->rank)]->value : 1;
      ib += of_b[i];
      ic += of_c[i];
      if (++at[i] < size) break;
      ib -= size * of_b[i];
      ic -= size * of_c[i];
      at[i] = 0;
    }
    if (i < 0) return true;
  }
}

bool product_fits(Graph *g, const Node *b, const Node *c) { return pairs_fit(g, b, c, product); }
bool sum_fits(Graph *g, const Node *b, const Node *c) { return pairs_fit(g, b, c, sum); }
bool difference_fits(Graph *g, const Node *b, const Node *c) {
  return pairs_fit(g, b, c, difference);
}

bool reciprocal_fits(Graph *g, const Node *b) {
  Elements x;
  if (!elements_of(g, b, &x)) return false;
  for (int64_t i = 0; i < x.n; i++)
    if (!is_normal_in(x.t, 1 / element(&x, i))) return false;
  return true;
}

// ---- weights ----

double const_peak(Graph *g, const Node *n) {
  Elements x;
  double peak = 0;
  if (!elements_of(g, n, &x)) return (double)INFINITY;
  for (int64_t i = 0; i < x.n; i++) {
    double v = fabs(element(&x, i));
    if (!(v <= peak)) peak = v;
  }
  return peak;
}

bool weights_fit(Graph *g, const Node *w, int axis, const double *s, int64_t n) {
  const Type *t = type_of(w);
  int64_t inner = 1, size = t->dims[axis]->value;
  Elements x;
  if (!elements_of(g, w, &x) || (n != 1 && n != size)) return false;
  for (int i = axis + 1; i < t->rank; i++) inner *= t->dims[i]->value;
  double *peak = arena_array(&g->scratch, double, MAX(size, 1));
  for (int64_t i = 0; i < size; i++) peak[i] = 0;
  for (int64_t i = 0; i < x.n; i++) {
    double v = fabs(element(&x, i)), *p = &peak[i / inner % size];
    if (!(v <= *p)) *p = v;  // NaN as well
  }
  for (int64_t i = 0; i < size; i++) {
    double by = s[n == 1 ? 0 : i], v = peak[i] * by;
    bool vanished = !is_normal_in(t->dtype, peak[i]) || !is_normal_in(t->dtype, by);
    if (!is_finite_in(t->dtype, v) || !(vanished || is_normal_in(t->dtype, v))) return false;
  }
  return true;
}
