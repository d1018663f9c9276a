// contrib_bits.c -- weight-only quantization (2, 4 or 8 bits): GEMM with packed weights, and
// unpacking them.
//
// In a product a weight is (stored - zero) scale, rounded to f32 as a whole; sums are formed in
// double.
#include "eval/contrib.h"

bool int4_fits(NBits *q) {
  int64_t all;
  if (q->bits != 2 && q->bits != 4 && q->bits != 8) return false;
  if (q->rows < 0 || q->blocks < 0 || q->bytes < 1 || q->depth < 0 || q->bytes > INT32_MAX)
    return false;
  q->block = q->bytes * 8 / q->bits;
  return ck_mul(q->blocks, q->block, &all) && all >= q->depth && all - q->depth < q->block;
}

typedef struct Job {
  NBits q;
  const Value *x, *w, *scale, *zero;
  Value *y;
  double *row;  // a thread's: its weights, and x
  int64_t first;
} Job;

// One row of weights with every row of x.
static void weight_row(const Job *j, int64_t row, double *w, double *x) {
  const NBits *q = &j->q;
  int64_t m = q->rows ? j->y->n / q->rows : 0;
  for (int64_t k = 0; k < q->depth; k++) {
    int64_t at = row * q->blocks + k / q->block;
    double zero = j->zero ? val_f64(j->zero, at) : (double)(1 << (q->bits - 1));
    double less = round_to(DT_F32, (double)n_bits_at(q, j->w->data, row, k) - zero);
    w[k] = round_to(DT_F32, less * val_f64(j->scale, at));
  }
  for (int64_t i = 0; i < m; i++) {
    double sum = 0;
    load_f64(DT_F32, j->x->data, i * q->depth, q->depth, x);
    for (int64_t k = 0; k < q->depth; k++) sum += x[k] * w[k];
    store_f64(DT_F32, j->y->data, i * q->rows + row, 1, &sum);
  }
}

enum { SLOTS = 64 };  // rows of weights at a time, each with memory of its own

static void weight_rows(void *ctx, int64_t begin, int64_t end) {
  const Job *j = ctx;
  for (int64_t i = begin; i < end; i++) {
    double *w = j->row + i * 2 * j->q.depth;
    weight_row(j, j->first + i, w, w + j->q.depth);
  }
}

tenon_status eval_mat_mul_n_bits(Eval *e) {
  const mat_mul_n_bits_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", DT_F32));
  TRY(eval_need(e, 1, "w", DT_U8));
  TRY(eval_need(e, 2, "scale", DT_F32));
  if (eval_in(e, 3)) TRY(eval_need(e, 3, "zero", DT_F32));
  Job j = {.x = e->in[0], .w = e->in[1], .scale = e->in[2], .zero = eval_in(e, 3)};
  if (j.x->rank < 1 || j.w->rank != 3)
    return eval_fail(e, TENON_EINVAL, "x%s and w%s", shape_text(j.x->rank, j.x->dims).s,
                     shape_text(j.w->rank, j.w->dims).s);
  j.q = (NBits){.rows = j.w->dims[0],
                .blocks = j.w->dims[1],
                .bytes = j.w->dims[2],
                .bits = at->bits,
                .depth = j.x->dims[j.x->rank - 1]};
  if (!int4_fits(&j.q))
    return eval_fail(e, TENON_EINVAL, "w%s, %lld bits each, for x%s",
                     shape_text(j.w->rank, j.w->dims).s, (long long)at->bits,
                     shape_text(j.x->rank, j.x->dims).s);
  const Value *block_params[] = {j.scale, j.zero};
  for (int i = 0; i < 2; i++)
    if (block_params[i] && (block_params[i]->rank != 2 || block_params[i]->dims[0] != j.q.rows ||
                            block_params[i]->dims[1] != j.q.blocks))
      return eval_fail(e, TENON_EINVAL, "scale or zero%s for w%s",
                       shape_text(block_params[i]->rank, block_params[i]->dims).s,
                       shape_text(j.w->rank, j.w->dims).s);
  int64_t dims[MAX_RANK], size;
  memcpy(dims, j.x->dims, (size_t)j.x->rank * sizeof *dims);
  dims[j.x->rank - 1] = j.q.rows;
  TRY(eval_out(e, 0, DT_F32, j.x->rank, dims, &j.y));
  if (!j.y->n) return TENON_OK;
  if (!ck_mul(2 * SLOTS, j.q.depth, &size)) return eval_fail(e, TENON_EINVAL, "x is too long");
  j.row = arena_array(&e->run->scratch, double, MAX(size, 1));
  for (j.first = 0; j.first < j.q.rows; j.first += SLOTS)
    parallel_for(e->run->pool, MIN(SLOTS, j.q.rows - j.first), 1, weight_rows, &j);
  return TENON_OK;
}

// ---- the numbers themselves ----

typedef struct Unpack {
  NBits q;
  const Value *w, *scale, *less;
  float *y;
  int64_t zero;
} Unpack;

// Rounded after the product and after the difference, as those do who made the weights.
static void unpack_rows(void *ctx, int64_t begin, int64_t end) {
  const Unpack *u = ctx;
  const NBits *q = &u->q;
  const float *scale = u->scale->data, *less = u->less ? u->less->data : NULL;
  for (int64_t row = begin; row < end; row++)
    for (int64_t k = 0; k < q->depth; k++) {
      int64_t at = row * q->blocks + k / q->block;
      float v = scale[at] * (float)(n_bits_at(q, u->w->data, row, k) - u->zero);
      u->y[row * q->depth + k] = less ? v - less[at] : v;
    }
}

tenon_status eval_unpack_n_bits(Eval *e) {
  const unpack_n_bits_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "w", DT_U8));
  TRY(eval_need(e, 1, "scale", DT_F32));
  if (eval_in(e, 2)) TRY(eval_need(e, 2, "less", DT_F32));
  Unpack u = {.w = e->in[0], .scale = e->in[1], .less = eval_in(e, 2), .zero = at->zero};
  if (u.w->rank != 3)
    return eval_fail(e, TENON_EINVAL, "w%s, must have rank 3", shape_text(u.w->rank, u.w->dims).s);
  u.q = (NBits){.rows = u.w->dims[0],
                .blocks = u.w->dims[1],
                .bytes = u.w->dims[2],
                .bits = at->bits,
                .depth = 0};
  // Whole blocks: their number times what each holds is the depth.
  if (at->bits < 1 || at->zero < 0 || at->zero > UINT8_MAX ||
      !ck_mul(u.q.blocks, u.q.bytes * 8 / at->bits, &u.q.depth) || !int4_fits(&u.q))
    return eval_fail(e, TENON_EINVAL, "w%s with %lld bits each", shape_text(3, u.w->dims).s,
                     (long long)at->bits);
  const Value *block_params[] = {u.scale, u.less};
  for (int i = 0; i < 2; i++)
    if (block_params[i] && (block_params[i]->rank != 2 || block_params[i]->dims[0] != u.q.rows ||
                            block_params[i]->dims[1] != u.q.blocks))
      return eval_fail(e, TENON_EINVAL, "scale or less%s for w%s",
                       shape_text(block_params[i]->rank, block_params[i]->dims).s,
                       shape_text(u.w->rank, u.w->dims).s);
  Value *y;
  int64_t dims[] = {u.q.rows, u.q.depth};
  TRY(eval_out(e, 0, DT_F32, 2, dims, &y));
  u.y = y->data;
  if (y->n) parallel_for(e->run->pool, u.q.rows, 1, unpack_rows, &u);
  return TENON_OK;
}
