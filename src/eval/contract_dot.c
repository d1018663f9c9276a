// contract_dot.c -- dot and the matrix products, on the one product of gemm.c.
//
// Each op only says how its operands are seen as batch x row x k, through tables of offsets.
// Floats are summed in double; integers exactly: 8- and 16-bit products in double where no sum can
// pass 2^53, all else in 64 bits that wrap.
#include "eval/contract.h"
#include "eval/quant.h"
#include "eval/gemm.h"

#include <math.h>

// Elements that threads may write concurrently.
static tenon_status need_whole_bytes(Eval *e, DType t) {
  if (dtype_bits(t) % 8 == 0 && dtype_class(t) != DC_STRING && dtype_class(t) != DC_COMPLEX)
    return TENON_OK;
  return eval_fail(e, TENON_EUNSUPPORTED, "results of type %s: cast the operands first",
                   dtype_name(t));
}

static bool sums_as_ints(DType t) { return dtype_is_int(t) || t == DT_BOOL; }

// ---- dot ----

typedef struct Side {  // one operand's axes, sorted into roles
  int nbatch, nfree, ncontract;
  int64_t batch_dim[MAX_RANK], batch_stride[MAX_RANK];
  int64_t free_dim[MAX_RANK], free_stride[MAX_RANK];
  int64_t contract_dim[MAX_RANK], contract_stride[MAX_RANK];
} Side;

static tenon_status sort_axes(Eval *e, const Value *v, Ints batch, Ints contract, Side *s) {
  int64_t stride[MAX_RANK];
  bool used[MAX_RANK] = {false};
  shape_strides(v->rank, v->dims, stride);
  *s = (Side){0};
  for (int64_t i = 0; i < batch.n + contract.n; i++) {
    bool is_batch = i < batch.n;
    int axis;
    TRY(eval_axis(e, is_batch ? batch.v[i] : contract.v[i - batch.n], v->rank, &axis));
    if (used[axis]) return eval_fail(e, TENON_EINVAL, "axis %d is named twice", axis);
    used[axis] = true;
    int at = is_batch ? s->nbatch++ : s->ncontract++;
    (is_batch ? s->batch_dim : s->contract_dim)[at] = v->dims[axis];
    (is_batch ? s->batch_stride : s->contract_stride)[at] = stride[axis];
  }
  for (int d = 0; d < v->rank; d++)
    if (!used[d]) {
      s->free_dim[s->nfree] = v->dims[d];
      s->free_stride[s->nfree++] = stride[d];
    }
  return TENON_OK;
}

static GemmMat side_mat(Eval *e, const Value *v, const Side *s, int64_t *nb, int64_t *rows,
                        int64_t *k) {
  GemmMat m = {.dtype = v->dtype, .data = v->data};
  m.batch = gemm_offsets(e->run, s->nbatch, s->batch_dim, s->batch_stride, nb);
  m.row = gemm_offsets(e->run, s->nfree, s->free_dim, s->free_stride, rows);
  m.k = gemm_offsets(e->run, s->ncontract, s->contract_dim, s->contract_stride, k);
  m.rows = *rows;
  return m;
}

static tenon_status same_sizes(Eval *e, int n, const int64_t *a, int m, const int64_t *b,
                               const char *what) {
  if (n != m)
    return eval_fail(e, TENON_EINVAL, "%d %s axes of lhs and %d of rhs must pair up", n, what, m);
  for (int i = 0; i < n; i++)
    if (a[i] != b[i])
      return eval_fail(e, TENON_EINVAL, "%s sizes %lld and %lld must be equal", what,
                       (long long)a[i], (long long)b[i]);
  return TENON_OK;
}

tenon_status eval_dot(Eval *e) {
  const dot_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "lhs", 0));
  TRY(eval_need(e, 1, "rhs", 0));
  const Value *a = e->in[0], *b = e->in[1];
  if (sums_as_ints(a->dtype) != sums_as_ints(b->dtype))
    return eval_fail(e, TENON_EINVAL, "operands %s and %s: both must be floats or both integers",
                     dtype_name(a->dtype), dtype_name(b->dtype));
  DType t = at->out_dtype ? at->out_dtype : a->dtype;
  TRY(need_whole_bytes(e, t));
  Side sa, sb;
  TRY(sort_axes(e, a, at->batch_lhs, at->contract_lhs, &sa));
  TRY(sort_axes(e, b, at->batch_rhs, at->contract_rhs, &sb));
  TRY(same_sizes(e, sa.nbatch, sa.batch_dim, sb.nbatch, sb.batch_dim, "batch"));
  TRY(same_sizes(e, sa.ncontract, sa.contract_dim, sb.ncontract, sb.contract_dim, "contracted"));
  int rank = sa.nbatch + sa.nfree + sb.nfree;
  if (rank > MAX_RANK)
    return eval_fail(e, TENON_EUNSUPPORTED, "rank %d is above the limit of %d", rank, MAX_RANK);
  int64_t dims[MAX_RANK];
  memcpy(dims, sa.batch_dim, sizeof(int64_t) * (size_t)sa.nbatch);
  memcpy(dims + sa.nbatch, sa.free_dim, sizeof(int64_t) * (size_t)sa.nfree);
  memcpy(dims + sa.nbatch + sa.nfree, sb.free_dim, sizeof(int64_t) * (size_t)sb.nfree);
  Value *y;
  TRY(eval_out(e, 0, t, rank, dims, &y));
  if (y->n == 0) return TENON_OK;
  Gemm g = {.ints = sums_as_ints(a->dtype)};
  GemmMat ma = side_mat(e, a, &sa, &g.batch, &g.m, &g.k);
  GemmMat mb = side_mat(e, b, &sb, &g.batch, &g.n, &g.k);
  GemmOut out = {y, g.m, g.n, g.ints};
  g.load_a = g.load_b = gemm_load_mat;
  g.a = &ma;
  g.b = &mb;
  g.store = gemm_store_dense;
  g.out = &out;
  if (g.ints && dtype_is_float(t))
    return eval_fail(e, TENON_EUNSUPPORTED, "integer operands with a result of type %s",
                     dtype_name(t));
  gemm_run(e->run, &g);
  return TENON_OK;
}

// ---- numpy's matmul ----

typedef struct MatMul {
  int rank, nbatch;
  int64_t dims[MAX_RANK];  // of the result
  int64_t batch, m, n, k;
  GemmMat a, b;
  int64_t a_stride[MAX_RANK], b_stride[MAX_RANK];  // of the batch dims; 0 where broadcast
} MatMul;

// Batch dims of v, right-aligned under the result's, checked and merged.
static tenon_status merge_batch(Eval *e, const Value *v, MatMul *s) {
  int nb = MAX(v->rank - 2, 0);
  for (int d = 0; d < nb; d++) {
    int64_t *slot = &s->dims[s->nbatch - nb + d], size = v->dims[d];
    if (*slot == 1)
      *slot = size;
    else if (size != 1 && size != *slot)
      return eval_fail(e, TENON_EINVAL, "batch sizes %lld and %lld do not broadcast",
                       (long long)*slot, (long long)size);
  }
  return TENON_OK;
}

static void batch_strides(const Value *v, const MatMul *s, int64_t *out) {
  int64_t stride[MAX_RANK];
  int nb = MAX(v->rank - 2, 0);
  shape_strides(v->rank, v->dims, stride);
  for (int d = 0; d < s->nbatch; d++) {
    int at = d - (s->nbatch - nb);
    out[d] = at < 0 || v->dims[at] == 1 ? 0 : stride[at];
  }
}

static tenon_status mat_mul_setup(Eval *e, const Value *a, const Value *b, MatMul *s) {
  if (a->rank == 0 || b->rank == 0)
    return eval_fail(e, TENON_EINVAL, "operands of rank %d and %d: a scalar has no matrix product",
                     a->rank, b->rank);
  *s = (MatMul){.nbatch = MAX(MAX(a->rank, b->rank) - 2, 0)};
  int64_t ka = a->dims[a->rank - 1], kb = b->rank == 1 ? b->dims[0] : b->dims[b->rank - 2];
  if (ka != kb)
    return eval_fail(e, TENON_EINVAL, "inner sizes %lld and %lld must be equal", (long long)ka,
                     (long long)kb);
  s->k = ka;
  s->m = a->rank == 1 ? 1 : a->dims[a->rank - 2];
  s->n = b->rank == 1 ? 1 : b->dims[b->rank - 1];
  for (int d = 0; d < s->nbatch; d++) s->dims[d] = 1;
  TRY(merge_batch(e, a, s));
  TRY(merge_batch(e, b, s));
  s->rank = s->nbatch;
  if (a->rank > 1) s->dims[s->rank++] = s->m;
  if (b->rank > 1) s->dims[s->rank++] = s->n;
  batch_strides(a, s, s->a_stride);
  batch_strides(b, s, s->b_stride);
  return TENON_OK;
}

// Tables of offsets; only for results that have elements.
static void mat_mul_tables(Eval *e, const Value *a, const Value *b, MatMul *s) {
  const int64_t one = 1;
  int64_t count;
  s->a = (GemmMat){.dtype = a->dtype, .data = a->data, .rows = s->m};
  s->b = (GemmMat){.dtype = b->dtype, .data = b->data, .rows = s->n};
  s->a.batch = gemm_offsets(e->run, s->nbatch, s->dims, s->a_stride, &s->batch);
  s->b.batch = gemm_offsets(e->run, s->nbatch, s->dims, s->b_stride, &s->batch);
  s->a.k = gemm_offsets(e->run, 1, &s->k, &one, &count);
  s->b.k = gemm_offsets(e->run, 1, &s->k, &s->n, &count);
  s->b.row = gemm_offsets(e->run, 1, &s->n, &one, &count);
  int64_t rows = s->m;
  if (b->rank <= 2 &&
      a->rank > 2) {  // one matrix for all batches: their rows are rows of one product
    rows *= s->batch;
    s->batch = 1;
  }
  s->a.row = gemm_offsets(e->run, 1, &rows, &s->k, &count);
  s->a.rows = rows;
}

static void mat_mul_run(Eval *e, const MatMul *s, bool ints, GemmStore *store, const void *out) {
  Gemm g = {.batch = s->batch,
            .m = s->a.rows,
            .n = s->n,
            .k = s->k,
            .ints = ints,
            .load_a = gemm_load_mat,
            .load_b = gemm_load_mat,
            .a = &s->a,
            .b = &s->b,
            .store = store,
            .out = out};
  gemm_run(e->run, &g);
}

tenon_status eval_mat_mul(Eval *e) {
  TRY(eval_need(e, 0, "a", 0));
  const Value *a = e->in[0];
  TRY(eval_need(e, 1, "b", a->dtype));
  TRY(need_whole_bytes(e, a->dtype));
  MatMul s;
  Value *y;
  TRY(mat_mul_setup(e, a, e->in[1], &s));
  TRY(eval_out(e, 0, a->dtype, s.rank, s.dims, &y));
  if (y->n == 0) return TENON_OK;
  mat_mul_tables(e, a, e->in[1], &s);
  GemmOut out = {y, s.a.rows, s.n, sums_as_ints(a->dtype)};
  mat_mul_run(e, &s, out.ints, gemm_store_dense, &out);
  return TENON_OK;
}

// ---- gemm ----

typedef struct GemmEpilogue {
  GemmOut out;
  const Value *c;
  int64_t row_stride, col_stride;  // of c
  double alpha, beta;
} GemmEpilogue;

static bool is_whole(double x) { return x == nearbyint(x) && fabs(x) < 0x1p63; }

// Integers by whole factors: in 64 bits that wrap, as mul and add do.
static void gemm_whole(const GemmEpilogue *p, int64_t at, int64_t nj, Word *row) {
  uint64_t alpha = (uint64_t)(int64_t)p->alpha, beta = (uint64_t)(int64_t)p->beta;
  for (int64_t q = 0; q < nj; q++, at += p->col_stride) {
    uint64_t v = alpha * (uint64_t)row[q].i;
    if (p->c) v += beta * (uint64_t)val_i64(p->c, at);
    row[q].i = (int64_t)v;
  }
}

// In double; a sum of integers is truncated toward zero, as a cast would.
static void gemm_scaled(const GemmEpilogue *p, int64_t at, int64_t nj, Word *row) {
  DType wide = p->out.v->dtype == DT_U64 ? DT_U64 : DT_I64;
  for (int64_t q = 0; q < nj; q++, at += p->col_stride) {
    double v = p->alpha * (p->out.ints ? get_f64(wide, &row[q].i, 0) : row[q].f);
    if (p->c && p->beta != 0) v += p->beta * val_f64(p->c, at);
    if (p->out.ints)
      put_f64(wide, &row[q].i, 0, v);
    else
      row[q].f = v;
  }
}

static void store_gemm(const void *ctx, int64_t b, int64_t i, int64_t j, int64_t nj, Word *row) {
  const GemmEpilogue *p = ctx;
  int64_t at = i * p->row_stride + j * p->col_stride;
  if (p->out.ints && is_whole(p->alpha) && (!p->c || is_whole(p->beta)))
    gemm_whole(p, at, nj, row);
  else
    gemm_scaled(p, at, nj, row);
  gemm_store_dense(&p->out, b, i, j, nj, row);
}

static tenon_status gemm_bias(Eval *e, GemmEpilogue *p, const int64_t *dims) {
  const Value *c = p->c;
  if (!c) return TENON_OK;
  if (c->dtype != e->in[0]->dtype)
    return eval_fail(e, TENON_EINVAL, "c is %s, must be %s", dtype_name(c->dtype),
                     dtype_name(e->in[0]->dtype));
  int64_t stride[2];
  for (int d = 0; d < 2; d++) {
    int at = c->rank - 2 + d;
    int64_t size = at < 0 ? 1 : c->dims[at];
    if (c->rank > 2 || (size != 1 && size != dims[d]))
      return eval_fail(e, TENON_EINVAL,
                       "c of rank %d with size %lld does not broadcast to [%lld, %lld]", c->rank,
                       (long long)size, (long long)dims[0], (long long)dims[1]);
    stride[d] = size == 1 ? 0 : d == 1 ? 1 : c->dims[c->rank - 1];
  }
  p->row_stride = stride[0];
  p->col_stride = stride[1];
  return TENON_OK;
}

tenon_status eval_gemm(Eval *e) {
  const gemm_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "a", 0));
  TRY(eval_need(e, 1, "b", e->in[0]->dtype));
  const Value *a = e->in[0], *b = e->in[1];
  TRY(need_whole_bytes(e, a->dtype));
  if (a->rank != 2 || b->rank != 2)
    return eval_fail(e, TENON_EINVAL, "operands of rank %d and %d, must be 2", a->rank, b->rank);
  int ta = at->transA, tb = at->transB;
  int64_t dims[2] = {a->dims[ta], b->dims[!tb]}, k = a->dims[!ta];
  if (k != b->dims[tb])
    return eval_fail(e, TENON_EINVAL, "inner sizes %lld and %lld must be equal", (long long)k,
                     (long long)b->dims[tb]);
  GemmEpilogue p = {.c = eval_in(e, 2), .alpha = at->alpha, .beta = at->beta};
  TRY(gemm_bias(e, &p, dims));
  Value *y;
  TRY(eval_out(e, 0, a->dtype, 2, dims, &y));
  if (y->n == 0) return TENON_OK;
  int64_t zero = 0, one = 1, count;
  const int64_t *sa[2] = {&a->dims[1], &one}, *sb[2] = {&b->dims[1], &one};
  GemmMat ma = {.dtype = a->dtype, .data = a->data, .batch = &zero, .rows = dims[0]};
  GemmMat mb = {.dtype = b->dtype, .data = b->data, .batch = &zero, .rows = dims[1]};
  ma.row = gemm_offsets(e->run, 1, &dims[0], sa[ta], &count);
  ma.k = gemm_offsets(e->run, 1, &k, sa[!ta], &count);
  mb.row = gemm_offsets(e->run, 1, &dims[1], sb[!tb], &count);
  mb.k = gemm_offsets(e->run, 1, &k, sb[tb], &count);
  p.out = (GemmOut){y, dims[0], dims[1], sums_as_ints(a->dtype)};
  Gemm g = {.batch = 1,
            .m = dims[0],
            .n = dims[1],
            .k = k,
            .ints = p.out.ints,
            .load_a = gemm_load_mat,
            .load_b = gemm_load_mat,
            .a = &ma,
            .b = &mb,
            .store = store_gemm,
            .out = &p};
  gemm_run(e->run, &g);
  return TENON_OK;
}

// ---- integer and quantised products ----

// A scale or zero point for each row of an operand (its columns, for the right one) and batch, as
// doubles: a scalar, one number a row, or the operand's shape with 1 along k.
static tenon_status per_row(Eval *e, const MatMul *s, int input, const Value *of, bool right,
                            const char *what, const double **out) {
  const Value *v = eval_in(e, input);
  *out = NULL;
  if (!v) return TENON_OK;
  int64_t rows = right ? s->n : s->m;
  int nrow = right ? of->rank - 1 : of->rank - 2;  // the axis of the rows
  bool full =
      v->rank == of->rank && v->rank >= 2 && v->dims[right ? v->rank - 2 : v->rank - 1] == 1;
  for (int d = 0; full && d < v->rank - 2; d++) full = v->dims[d] == of->dims[d] || v->dims[d] == 1;
  full = full && (v->dims[nrow] == rows || v->dims[nrow] == 1);
  if (v->n != 1 && !(v->rank == 1 && v->n == rows) && !full)
    return eval_fail(e, TENON_EINVAL, "%s: %lld numbers fit neither the whole operand nor its %s",
                     what, (long long)v->n, right ? "columns" : "rows");
  double *t = arena_alloc_array(&e->run->scratch, s->batch * rows, sizeof(double));
  int64_t stride[MAX_RANK] = {0}, own[MAX_RANK], count;
  if (v->n != 1 && full) {
    shape_strides(v->rank, v->dims, own);
    for (int d = 0; d < s->nbatch; d++) {
      int at = d - (s->nbatch - (v->rank - 2));
      stride[d] = at < 0 || v->dims[at] == 1 ? 0 : own[at];
    }
  }
  const int64_t *base = gemm_offsets(e->run, s->nbatch, s->dims, stride, &count);
  int64_t step = v->n == 1 ? 0 : full ? (v->dims[nrow] == 1 ? 0 : own[nrow]) : 1;
  for (int64_t b = 0; b < count; b++)
    for (int64_t r = 0; r < rows; r++) t[b * rows + r] = val_f64(v, base[b] + r * step);
  *out = t;
  return TENON_OK;
}

static tenon_status need_byte_ints(Eval *e, int i, const char *name) {
  TRY(eval_need(e, i, name, 0));
  DType t = e->in[i]->dtype;
  if (t == DT_I8 || t == DT_U8) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s is %s, must be i8 or u8", name, dtype_name(t));
}

static void store_i32(const void *ctx, int64_t b, int64_t i, int64_t j, int64_t nj, Word *row) {
  const GemmOut *o = ctx;
  for (int64_t q = 0; q < nj; q++) row[q].i = (int64_t)row[q].f;  // exact: 17-bit products
  store_i64(DT_I32, o->v->data, (b * o->m + i) * o->n + j, nj, (const int64_t *)row);
}

tenon_status eval_mat_mul_integer(Eval *e) {
  TRY(need_byte_ints(e, 0, "a"));
  TRY(need_byte_ints(e, 1, "b"));
  MatMul s;
  Value *y;
  TRY(mat_mul_setup(e, e->in[0], e->in[1], &s));
  TRY(eval_out(e, 0, DT_I32, s.rank, s.dims, &y));
  if (y->n == 0) return TENON_OK;
  const double *za, *zb;
  mat_mul_tables(e, e->in[0], e->in[1], &s);
  int64_t folded = s.batch;
  s.batch = s.batch * s.a.rows / MAX(s.m, 1);
  TRY(per_row(e, &s, 2, e->in[0], false, "a_zero_point", &za));
  TRY(per_row(e, &s, 3, e->in[1], true, "b_zero_point", &zb));
  s.batch = folded;
  s.a.zero = (const Word *)za;
  s.b.zero = (const Word *)zb;
  GemmOut out = {y, s.a.rows, s.n, false};
  mat_mul_run(e, &s, false, store_i32, &out);
  return TENON_OK;
}

typedef struct Requant {
  GemmOut out;
  const double *a_scale, *b_scale;  // by batch and row
  double y_scale, y_zero;
  DType scale_type;
  bool whole;  // sums of integers
} Requant;

static void store_requant(const void *ctx, int64_t b, int64_t i, int64_t j, int64_t nj, Word *row) {
  const Requant *q = ctx;
  DType t = q->out.v->dtype;
  uint8_t *y = (uint8_t *)q->out.v->data + (b * q->out.m + i) * q->out.n + j;
  for (int64_t c = 0; c < nj; c++) {
    // The scales are joined in their own type, as a runtime that folds them beforehand does.
    double scale =
        round_to(q->scale_type, q->a_scale[b * q->out.m + i] * q->b_scale[b * q->out.n + j + c]);
    scale = round_to(q->scale_type, scale / q->y_scale);
    if (dtype_is_float(t))
      y[c] = minifloat_from_f64(t, row[c].f * scale + q->y_zero, true);
    else
      y[c] = (uint8_t)(int)quant_result(t, row[c].f, q->whole, scale, q->y_zero);
  }
}

static tenon_status need_quantised(Eval *e, int i, const char *name) {
  TRY(eval_need(e, i, name, 0));
  DType t = e->in[i]->dtype;
  if (t == DT_I8 || t == DT_U8 || (dtype_is_float(t) && dtype_bits(t) == 8 && t != DT_F8E8M0))
    return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s is %s, must be an 8-bit integer or float", name,
                   dtype_name(t));
}

tenon_status eval_q_linear_mat_mul(Eval *e) {
  static const char *const name[] = {"a",       "a_scale",      "a_zero_point", "b",
                                     "b_scale", "b_zero_point", "y_scale",      "y_zero_point"};
  for (int i = 0; i < 8; i++) {
    if (i == 1 || i == 4 || i == 6) {
      TRY(eval_need(e, i, name[i], 0));
      if (!dtype_is_float(e->in[i]->dtype))
        return eval_fail(e, TENON_EINVAL, "%s is %s, must be a float", name[i],
                         dtype_name(e->in[i]->dtype));
    } else {
      TRY(need_quantised(e, i, name[i]));
    }
  }
  if (e->in[6]->n != 1 || e->in[7]->n != 1)
    return eval_fail(e, TENON_EINVAL, "y_scale and y_zero_point must be one number each");
  MatMul s;
  Value *y;
  TRY(mat_mul_setup(e, e->in[0], e->in[3], &s));
  TRY(eval_out(e, 0, e->in[7]->dtype, s.rank, s.dims, &y));
  if (y->n == 0) return TENON_OK;
  mat_mul_tables(e, e->in[0], e->in[3], &s);
  int64_t folded = s.batch;
  s.batch = s.batch * s.a.rows / MAX(s.m, 1);
  const double *za, *zb;
  Requant q = {.y_scale = val_f64(e->in[6], 0),
               .y_zero = val_f64(e->in[7], 0),
               .scale_type = e->in[6]->dtype,
               .whole = dtype_is_int(e->in[0]->dtype) && dtype_is_int(e->in[3]->dtype)};
  TRY(per_row(e, &s, 2, e->in[0], false, name[2], &za));
  TRY(per_row(e, &s, 5, e->in[3], true, name[5], &zb));
  TRY(per_row(e, &s, 1, e->in[0], false, name[1], &q.a_scale));
  TRY(per_row(e, &s, 4, e->in[3], true, name[4], &q.b_scale));
  s.batch = folded;
  s.a.zero = (const Word *)za;
  s.b.zero = (const Word *)zb;
  q.out = (GemmOut){y, s.a.rows, s.n, false};
  mat_mul_run(e, &s, false, store_requant, &q);
  return TENON_OK;
}
