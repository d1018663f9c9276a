// index_order_test.c -- searching and sorting at the limits of every type, against comparisons of
// the values themselves.
//
// Each row has three of a type's limits: least, greatest, 0, 1, and of floats -0, the infinities,
// NaN and a subnormal.  So every value that could be taken for a mark meets every other one, at
// every position.
#include "eval/index.h"
#include "test.h"

#include <math.h>

enum { ROW = 3, MOST = 12 };

typedef struct Limits {
  DType dtype;
  int n;
  double f[MOST];   // of a float type
  int64_t i[MOST];  // of an integer type, the bits
} Limits;

static Limits limits_of(DType t) {
  Limits l = {.dtype = t};
  if (dtype_is_float(t)) {
    const double all[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1, 0x1p-16, 0x1p-14, 448, -448};
    for (int i = 0; i < ARRAY_LEN(all); i++) l.f[l.n++] = all[i];
    return l;
  }
  int bits = dtype_bits(t);
  bool is_signed = dtype_class(t) == DC_INT;
  uint64_t top = 1ull << (bits - 1), ones = top - 1 + top;
  l.i[l.n++] = 0;
  l.i[l.n++] = 1;
  l.i[l.n++] = is_signed ? -1 : (int64_t)(ones - 1);
  l.i[l.n++] = (int64_t)(is_signed ? top - 1 : ones);  // greatest
  l.i[l.n++] = (int64_t)(is_signed ? 0 - top : top);   // least, or the top bit alone
  l.i[l.n++] = (int64_t)(top - 2);
  return l;
}

// Whether element a is before b in ascending order, NaN last.
static bool before(const Value *v, int64_t a, int64_t b) {
  if (dtype_is_float(v->dtype)) {
    double x = val_f64(v, a), y = val_f64(v, b);
    return x < y || (x == x && y != y);
  }
  int64_t x = val_i64(v, a), y = val_i64(v, b);
  return v->dtype == DT_U64 ? (uint64_t)x < (uint64_t)y : x < y;
}
static bool is_nan_at(const Value *v, int64_t i) {
  return dtype_is_float(v->dtype) && val_f64(v, i) != val_f64(v, i);
}

// All rows of three limits.
static Value *rows_of_limits(Run *r, const Limits *l) {
  int64_t n = (int64_t)l->n * l->n * l->n;
  Value *v;
  EXPECT_STATUS(value_tensor(r, NOWHERE, l->dtype, 2, (int64_t[]){n, ROW}, &v), TENON_OK);
  for (int64_t row = 0; row < n; row++)
    for (int64_t k = 0, rest = row; k < ROW; k++, rest /= l->n) {
      if (dtype_is_float(l->dtype))
        val_put_f64(v, row * ROW + k, l->f[rest % l->n]);
      else
        val_put_i64(v, row * ROW + k, l->i[rest % l->n]);
    }
  return v;
}

static bool evaluate(Run *r, EvalFn *fn, const void *attrs, int nin, const Value *const *in,
                     int nout, Value **out) {
  Eval e = {.run = r, .in = in, .nin = nin, .out = out, .nout = nout, .attrs = attrs};
  tenon_status s = fn(&e);
  EXPECT_STATUS(s, TENON_OK);
  return s == TENON_OK;
}

// Where the extreme of a row is: a NaN is one in either direction.
static int64_t extreme(const Value *x, int64_t row, bool least, bool last) {
  int64_t best = 0;
  for (int64_t k = 1; k < ROW; k++) {
    int64_t a = row * ROW + k, b = row * ROW + best;
    bool na = is_nan_at(x, a), nb = is_nan_at(x, b);
    bool better = na || nb ? na && !nb : least ? before(x, a, b) : before(x, b, a);
    bool same = na || nb ? na && nb : !before(x, a, b) && !before(x, b, a);
    if (better || (same && last)) best = k;
  }
  return best;
}

static void check_arg(Run *r, const Value *x, bool least, bool last) {
  arg_attrs at = {.axis = 1, .keepdims = true, .select_last_index = last};
  Value *y = NULL;
  if (!evaluate(r, least ? eval_arg_min : eval_arg_max, &at, 1, &x, 1, &y)) return;
  int64_t wrong = 0;
  for (int64_t row = 0; row < x->dims[0]; row++)
    wrong += val_i64(y, row) != extreme(x, row, least, last);
  if (wrong)
    FAIL("%s of %s, select_last_index=%d: %lld of %lld rows are wrong",
         least ? "arg_min" : "arg_max", dtype_name(x->dtype), last, (long long)wrong,
         (long long)x->dims[0]);
}

static void check_top_k(Run *r, const Value *x, bool largest) {
  top_k_attrs at = {.axis = 1, .largest = largest, .sorted = true};
  Value *k, *y[2] = {NULL, NULL};
  EXPECT_STATUS(value_tensor(r, NOWHERE, DT_I64, 1, (int64_t[]){1}, &k), TENON_OK);
  val_put_i64(k, 0, ROW);
  if (!evaluate(r, eval_top_k, &at, 2, (const Value *const[]){x, k}, 2, y)) return;
  int64_t wrong = 0;
  for (int64_t row = 0; row < x->dims[0]; row++)
    for (int64_t i = 1; i < ROW; i++) {
      int64_t from = row * ROW, p = val_i64(y[1], from + i - 1), q = val_i64(y[1], from + i);
      bool ordered = largest ? before(x, from + q, from + p) : before(x, from + p, from + q);
      bool same = !before(x, from + p, from + q) && !before(x, from + q, from + p);
      wrong += !ordered && !(same && p < q);
    }
  if (wrong)
    FAIL("top_k of %s, largest=%d: %lld pairs are out of order", dtype_name(x->dtype), largest,
         (long long)wrong);
}

static void check_unique(Run *r, const Limits *l) {
  Value *x, *y[4] = {NULL, NULL, NULL, NULL};
  EXPECT_STATUS(value_tensor(r, NOWHERE, l->dtype, 1, (int64_t[]){2 * l->n}, &x), TENON_OK);
  for (int i = 0; i < 2 * l->n; i++) {
    if (dtype_is_float(l->dtype))
      val_put_f64(x, i, l->f[i % l->n]);
    else
      val_put_i64(x, i, l->i[i % l->n]);
  }
  unique_attrs at = {.sorted = true};
  if (!evaluate(r, eval_unique, &at, 1, (const Value *const[]){x}, 4, y)) return;
  for (int64_t i = 1; i < y[0]->n; i++)
    if (!before(y[0], i - 1, i))
      FAIL("unique of %s: results %lld and %lld are not ascending", dtype_name(l->dtype),
           (long long)i - 1, (long long)i);
  for (int64_t i = 0; i < x->n; i++) {
    int64_t group = val_i64(y[2], i), first = val_i64(y[1], group);
    if (before(x, i, first) || before(x, first, i))
      FAIL("unique of %s: element %lld is in the group of another value", dtype_name(l->dtype),
           (long long)i);
  }
}

TEST(search_and_sort_at_the_limits) {
  static const DType types[] = {DT_I8,  DT_I16, DT_I32, DT_I64, DT_U8,     DT_U16,
                                DT_U32, DT_U64, DT_I4,  DT_U4,  DT_F16,    DT_BF16,
                                DT_F32, DT_F64, DT_I2,  DT_U2,  DT_F8E4M3, DT_F8E5M2};
  for (int i = 0; i < ARRAY_LEN(types); i++) {
    static Diag d;
    diag_init(&d);
    Run r;
    run_init(&r, NULL, &d);
    Limits l = limits_of(types[i]);
    const Value *x = rows_of_limits(&r, &l);
    for (int k = 0; k < 4; k++) check_arg(&r, x, k & 1, k >> 1);
    check_top_k(&r, x, true);
    check_top_k(&r, x, false);
    check_unique(&r, &l);
    run_deinit(&r);
  }
}
