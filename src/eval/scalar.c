// scalar.c -- turns scalar.def into evaluations.
//
// Floats are computed in double and rounded once; integers exactly in 64 bits, signed or unsigned,
// and wrapped to the result's width.  Mixed operand types (pow) are computed in double when one is
// a float.
#include "eval/elementwise.h"
#include "eval/meaning.h"
#include "eval/scalar.h"

#include <math.h>

// One kernel a row and kind.  `fault` is set when an integer meaning has no result for its
// operands.
typedef struct ScalarKernel {
  int arity, classes;
  bool to_bool, mixed;
  void (*f64)(const double *x, const double *y, double *out, int64_t n);
  void (*i64)(const int64_t *x, const int64_t *y, int64_t *out, int64_t n, bool *fault);
  void (*u64)(const uint64_t *x, const uint64_t *y, uint64_t *out, int64_t n, bool *fault);
} ScalarKernel;

enum { F = SC_F, I = SC_I, S = SC_S, B = SC_B, X = SC_X, T = SC_T, MIXED = SC_MIXED };
#define SAME  false
#define BOOL  true
#define NA    0
#define FAULT (*fault = true, (Int)0)

#define LOOP(expr)                                                                                 \
  for (int64_t i = 0; i < n; i++) {                                                                \
    const Num x = xs[i], y = ys[i];                                                                \
    (void)x, (void)y;                                                                              \
    out[i] = (Num)(expr);                                                                          \
  }

#define SCALAR(name, ar, cls, res, onnx, since, fl, fexpr, iexpr, doc, ...)                        \
  static void f64_##name(const double *xs, const double *ys, double *out, int64_t n) {             \
    typedef double Num;                                                                            \
    LOOP(fexpr)                                                                                    \
  }
#include "eval/scalar.def"
#undef SCALAR

// The signed and the unsigned reading of an integer meaning.
#include "eval/meaning_signed.h"
#define SCALAR(name, ar, cls, res, onnx, since, fl, fexpr, iexpr, doc, ...)                        \
  __attribute__((no_sanitize("signed-integer-overflow"))) static void i64_##name(                  \
      const int64_t *xs, const int64_t *ys, int64_t *out, int64_t n, bool *fault) {                \
    typedef int64_t Num, Int;                                                                      \
    (void)fault, (void)sizeof(Int);                                                                \
    LOOP(iexpr)                                                                                    \
  }
#include "eval/scalar.def"
#undef SCALAR
#include "eval/meaning_unsigned.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
#define SCALAR(name, ar, cls, res, onnx, since, fl, fexpr, iexpr, doc, ...)                        \
  static void u64_##name(const uint64_t *xs, const uint64_t *ys, uint64_t *out, int64_t n,         \
                         bool *fault) {                                                            \
    typedef uint64_t Num, Int;                                                                     \
    (void)fault, (void)sizeof(Int);                                                                \
    LOOP(iexpr)                                                                                    \
  }
#include "eval/scalar.def"
#undef SCALAR
#pragma GCC diagnostic pop

// ---- the driver ----

typedef struct ScalarJob {
  const ScalarKernel *k;
  Broadcast b;
  Value *out;
  bool is_float, is_unsigned, fault;
} ScalarJob;

static void run_float(const ScalarJob *j, int64_t at, int64_t n) {
  double x[EW_BLOCK], y[EW_BLOCK], r[EW_BLOCK];
  broadcast_f64(&j->b, 0, at, n, x);
  if (j->b.n > 1) broadcast_f64(&j->b, 1, at, n, y);
  j->k->f64(x, j->b.n > 1 ? y : x, r, n);
  store_f64(j->out->dtype, j->out->data, at, n, r);
}

static void run_int(ScalarJob *j, int64_t at, int64_t n) {
  int64_t x[EW_BLOCK], y[EW_BLOCK], r[EW_BLOCK];
  bool fault = false;
  broadcast_i64(&j->b, 0, at, n, x);
  if (j->b.n > 1) broadcast_i64(&j->b, 1, at, n, y);
  const int64_t *ys = j->b.n > 1 ? y : x;
  if (j->is_unsigned)
    j->k->u64((const uint64_t *)x, (const uint64_t *)ys, (uint64_t *)r, n, &fault);
  else
    j->k->i64(x, ys, r, n, &fault);
  if (fault) __atomic_store_n(&j->fault, true, __ATOMIC_RELAXED);
  store_i64(j->out->dtype, j->out->data, at, n, r);
}

static void scalar_blocks(void *ctx, int64_t begin, int64_t end) {
  ScalarJob *j = ctx;
  for (int64_t b = begin; b < end; b++) {
    int64_t at = b * EW_BLOCK, n = MIN(EW_BLOCK, j->b.count - at);
    if (j->is_float)
      run_float(j, at, n);
    else
      run_int(j, at, n);
  }
}

static int class_bit(DType t) {
  switch (dtype_class(t)) {
  case DC_FLOAT: return SC_F;
  case DC_INT:
  case DC_UINT: return SC_I;
  case DC_BOOL: return SC_B;
  case DC_COMPLEX: return SC_X;
  case DC_STRING: return SC_T;
  case DC_NONE: break;
  }
  return 0;
}

// ---- complex numbers and strings: few ops, plain loops ----

typedef struct Cplx {
  double re, im;
} Cplx;
static Cplx load_complex(const Value *v, int64_t i) {
  if (v->dtype == DT_C64) {
    const float *p = (const float *)v->data + 2 * i;
    return (Cplx){p[0], p[1]};
  }
  const double *p = (const double *)v->data + 2 * i;
  return (Cplx){p[0], p[1]};
}
static void store_complex(Value *v, int64_t i, Cplx c) {
  if (v->dtype == DT_C64) {
    ((float *)v->data)[2 * i] = (float)c.re;
    ((float *)v->data)[2 * i + 1] = (float)c.im;
  } else {
    ((double *)v->data)[2 * i] = c.re;
    ((double *)v->data)[2 * i + 1] = c.im;
  }
}

typedef enum { CX_ADD, CX_SUB, CX_MUL, CX_DIV, CX_NEG, CX_EQ, CX_NONE } ComplexOp;
static ComplexOp complex_op(const char *name) {
  static const char *const names[] = {"add", "sub", "mul", "div", "neg", "eq"};
  for (int i = 0; i < CX_NONE; i++)
    if (!strcmp(name, names[i])) return (ComplexOp)i;
  return CX_NONE;
}
static Cplx complex_apply(ComplexOp op, Cplx a, Cplx b) {
  switch (op) {
  case CX_ADD: return (Cplx){a.re + b.re, a.im + b.im};
  case CX_SUB: return (Cplx){a.re - b.re, a.im - b.im};
  case CX_MUL: return (Cplx){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  case CX_DIV: {
    double m = b.re * b.re + b.im * b.im;
    return (Cplx){(a.re * b.re + a.im * b.im) / m, (a.im * b.re - a.re * b.im) / m};
  }
  case CX_NEG: return (Cplx){-a.re, -a.im};
  case CX_EQ: return (Cplx){a.re == b.re && a.im == b.im, 0};
  case CX_NONE: break;
  }
  return (Cplx){0, 0};
}

static void eval_others(const Broadcast *b, const char *name, Value *out) {
  ComplexOp op = complex_op(name);
  for (int64_t i = 0; i < b->count; i++) {
    int64_t p, q;
    broadcast_index(b, 0, i, 1, &p);
    broadcast_index(b, b->n - 1, i, 1, &q);
    if (b->in[0]->dtype == DT_STRING) {
      ((uint8_t *)out->data)[i] = str_eq(val_str(b->in[0], p), val_str(b->in[1], q));
      continue;
    }
    Cplx r = complex_apply(op, load_complex(b->in[0], p), load_complex(b->in[b->n - 1], q));
    if (op == CX_EQ)
      ((uint8_t *)out->data)[i] = r.re != 0;
    else
      store_complex(out, i, r);
  }
}

static tenon_status eval_scalar(Eval *e, const ScalarKernel *k, const char *name) {
  for (int i = 0; i < k->arity; i++) {
    TRY(eval_need(e, i, i ? "y" : "x", i && !k->mixed ? e->in[0]->dtype : 0));
    if (!(class_bit(e->in[i]->dtype) & k->classes))
      return eval_fail(e, TENON_EINVAL, "operand %d has type %s, which %s does not take", i,
                       dtype_name(e->in[i]->dtype), name);
  }
  ScalarJob j = {.k = k};
  TRY(broadcast_init(e, e->in, k->arity, &j.b));
  DType in = e->in[0]->dtype;
  TRY(eval_out(e, 0, k->to_bool ? DT_BOOL : in, j.b.rank, j.b.dims, &j.out));
  if (dtype_class(in) == DC_COMPLEX || in == DT_STRING) {
    for (int64_t i = 0; in == DT_STRING && i < e->in[0]->n; i++)  // again for each that it meets
      TRY(eval_work(e, (double)val_str(e->in[0], i).n * (double)j.b.count / (double)e->in[0]->n));
    eval_others(&j.b, name, j.out);
    return TENON_OK;
  }
  for (int i = 0; i < k->arity; i++) j.is_float |= dtype_is_float(e->in[i]->dtype);
  j.is_unsigned = dtype_class(in) == DC_UINT;
  parallel_for(e->run->pool, (j.b.count + EW_BLOCK - 1) / EW_BLOCK, 8, scalar_blocks, &j);
  if (j.fault) return eval_fail(e, TENON_EINVAL, "integer division by zero");
  return TENON_OK;
}

#define SCALAR(nm, ar, cls, res, onnx, since, fl, fexpr, iexpr, doc, ...)                          \
  tenon_status eval_##nm(Eval *e) {                                                                \
    static const ScalarKernel k = {.arity = ar,                                                    \
                                   .classes = cls,                                                 \
                                   .to_bool = res,                                                 \
                                   .mixed = ((cls)&MIXED) != 0,                                    \
                                   .f64 = f64_##nm,                                                \
                                   .i64 = i64_##nm,                                                \
                                   .u64 = u64_##nm};                                               \
    return eval_scalar(e, &k, #nm);                                                                \
  }
#include "eval/scalar.def"
#undef SCALAR
