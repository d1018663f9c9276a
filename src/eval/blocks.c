// blocks.c -- reference evaluation of products with matrices in ggml's block types.
//
// With `activations` f32 a weight is what ggml's decoder gives, in f32; products are summed in
// double and rounded once.  A scale of a plain type's tile is multiplied with the element, which is
// rounded to f32.  With int8, x is quantised, and a sum is formed block after block of x:
//   acc = fma(f32(sum of s (sum of q x)), d dx, acc), then, for types with minima,
//   acc = fma(f32(sum of m (sum of x)), -(dmin dx), acc)
// where the sums within a block are integers and exact, s and m belong to the parts of a block, and
// d, dmin and dx are the scales of the block and of x.  Each f32 operation is rounded once, and a
// subnormal result is 0, as in compiled kernels; so these give the same bits.
//
// With `group` w is several matrices, and a row of the result is that of x times one of them.
//
// Needs:      rows of whole blocks.
// Guarantees: an infinite or NaN scale or element spreads to the results that it is a part of, and
//             to no others: the rows of x, and the rows of w.
#include "eval/blocks.h"

#include <ctype.h>
#include <float.h>
#include <math.h>

static bool same_name(Str lower, const char *name) {
  int64_t i = 0;
  while (i < lower.n && name[i] && tolower((unsigned char)name[i]) == lower.p[i]) i++;
  return i == lower.n && !name[i];
}

// Plain types that ggml's files do not have, or not as floats.
static const GgmlType more_types[] = {
    {.name = "F8E4M3", .block = 1, .bytes = 1, .plain = DT_F8E4M3},
    {.name = "F8E5M2", .block = 1, .bytes = 1, .plain = DT_F8E5M2},
    {.name = "I8", .block = 1, .bytes = 1, .plain = DT_I8},
};

const GgmlType *block_type(int choice) {
  Str name = attr_choice_word(BLOCK_TYPES, choice);
  for (int i = 0; i < ARRAY_LEN(more_types); i++)
    if (same_name(name, more_types[i].name)) return &more_types[i];
  for (int i = 0; i < GGML_NTYPES; i++)
    if (ggml_type[i].name && same_name(name, ggml_type[i].name)) return &ggml_type[i];
  return NULL;
}

int block_choice(int code) {
  char lower[16] = {0};
  if (code < 0 || code >= GGML_NTYPES || !ggml_type[code].name) return -1;
  for (int i = 0; i < 15 && ggml_type[code].name[i]; i++)
    lower[i] = (char)tolower((unsigned char)ggml_type[code].name[i]);
  return attr_choice_find(BLOCK_TYPES, str_of(lower));
}

bool block_scales(const mat_mul_blocks_attrs *at, int64_t rows, int64_t out[2]) {
  if (at->scale_rows < 0 || at->scale_k < 0 || rows < 0 || at->k < 0) return false;
  int64_t each = at->scale_rows ? at->scale_rows : MAX(rows, 1);
  int64_t of_k = at->scale_k ? at->scale_k : MAX(at->k, 1);
  out[0] = rows / each + (rows % each > 0);
  out[1] = at->k / of_k + (at->k % of_k > 0);
  return true;
}

bool block_row_bytes(const GgmlType *t, int64_t k, int64_t *out) {
  return k >= 0 && k % t->block == 0 && ck_mul(k / t->block, t->bytes, out);
}

bool x_row_bytes(int64_t k, int64_t block, int64_t *out) {
  if ((block != X_BLOCK_LEAST && block != X_BLOCK_MOST) || k < 0 || k % block) return false;
  return ck_mul(k / block, x_block_bytes(block), out);
}

// ---- x ----

// Kernels flush what is below the normal numbers.
static float flushed(float v) { return fabsf(v) < FLT_MIN ? copysignf(0, v) : v; }

static void quantize_block(const float *x, int64_t block, uint8_t *out) {
  int8_t *q = (int8_t *)out;
  float most = 0;
  for (int64_t i = 0; i < block; i++) {
    float a = fabsf(x[i]);
    most = a > most || a != a || most != most ? (most != most ? most : a) : most;
  }
  bool none = most < (float)X_LEAST;
  float d = none ? 0 : most / 127, by = none ? 0 : 127 / most;
  memcpy(out + block, &d, sizeof d);
  for (int64_t i = 0; i < block; i++) {
    float v = rintf(x[i] * by);
    q[i] = (int8_t)(!(v > -127) ? -127 : v > 127 ? 127 : v);  // NaN: -127
  }
  int64_t group = x_group(block);
  for (int64_t i = 0; i < block / group; i++) {
    int32_t s = 0;
    for (int64_t j = 0; j < group; j++) s += q[i * group + j];
    memcpy(out + x_sum_at(block) + 4 * i, &s, sizeof s);
  }
}

typedef struct Quantize {
  int64_t k, block, row_bytes;
  const float *x;
  uint8_t *out;
} Quantize;

static void quantize_rows(void *ctx, int64_t begin, int64_t end) {
  const Quantize *j = ctx;
  for (int64_t r = begin; r < end; r++) {
    uint8_t *row = j->out + r * j->row_bytes;
    for (int64_t b = 0; b < j->k / j->block; b++)
      quantize_block(j->x + r * j->k + b * j->block, j->block, row + b * x_block_bytes(j->block));
  }
}

tenon_status eval_quantize_blocks(Eval *e) {
  const quantize_blocks_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", DT_F32));
  const Value *x = e->in[0];
  int64_t dims[MAX_RANK];
  Quantize j = {.block = at->block, .x = x->data};
  if (x->rank < 1 || !x_row_bytes(x->dims[x->rank - 1], at->block, &j.row_bytes))
    return eval_fail(e, TENON_EINVAL, "x%s in blocks of %lld", shape_text(x->rank, x->dims).s,
                     (long long)at->block);
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  j.k = dims[x->rank - 1];
  dims[x->rank - 1] = j.row_bytes;
  Value *y;
  TRY(eval_out(e, 0, DT_U8, x->rank, dims, &y));
  j.out = y->data;
  if (y->n) parallel_for(e->run->pool, x->n / j.k, 1, quantize_rows, &j);
  return TENON_OK;
}

// ---- products ----

typedef struct Product {
  const GgmlType *t;
  int64_t k, n, m;           // elements of a row, rows of w, rows of y
  int64_t w_bytes, x_bytes;  // of a row
  const uint8_t *w, *xq;     // xq: the quantised rows; NULL: x as it is
  const float *x;
  const float *scale;                   // [of tiles]; NULL: none
  int64_t scale_rows, scale_k, scales;  // of a tile; tiles of a row
  const Value *group;                   // [m] matrix of each row of y; NULL: w is one
  int64_t columns, each;                // rows of a matrix; rows of y from one row of x
  float *y;
  uint8_t *slot;  // SLOTS times slot_bytes
  int64_t slot_bytes, first;
} Product;

enum { SLOTS = 64 };  // rows of w at a time, each with memory of its own

// The elements of a row of w in f32.
static void unpack_row(const GgmlType *t, const uint8_t *w, int64_t k, float *out) {
  if (t->plain) {
    for (int64_t i = 0; i < k; i++) out[i] = (float)get_f64(t->plain, w, i);
    return;
  }
  for (int64_t i = 0; i < k / t->block; i++) ggml_unpack(t, w + i * t->bytes, out + i * t->block);
}

// Whether row i of y takes the matrix that has this row of w, and where the product goes.
static bool takes(const Product *p, int64_t i, int64_t row, float **y) {
  *y = p->y + i * p->columns + row % p->columns;
  return !p->group || get_i64(p->group->dtype, p->group->data, i) == row / p->columns;
}

static void float_row(const Product *p, int64_t row, float *w) {
  unpack_row(p->t, p->w + row * p->w_bytes, p->k, w);
  for (int64_t k = 0; p->scale && k < p->k; k++)
    w[k] *= p->scale[row / p->scale_rows * p->scales + k / p->scale_k];
  float *y;
  for (int64_t i = 0; i < p->m; i++) {
    if (!takes(p, i, row, &y)) continue;
    const float *x = p->x + i / p->each * p->k;
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++) sum += (double)x[k] * (double)w[k];
    *y = (float)sum;
  }
}

// One block of w with one of x.
static float int_block(const GgmlType *t, const GgmlParts *w, const uint8_t *x, float acc) {
  const int8_t *q = (const int8_t *)x;
  const uint8_t *sums = x + x_sum_at(t->x_block);
  uint32_t bits = ggml_u32(x + t->x_block);
  float dx;
  memcpy(&dx, &bits, sizeof dx);
  int64_t total = 0, less = 0, group = x_group(t->x_block);
  for (int k = 0; k < t->block / t->part; k++) {
    int64_t dot = 0, sum = 0;
    for (int i = 0; i < t->part; i++) dot += w->q[k * t->part + i] * q[k * t->part + i];
    for (int64_t i = k * t->part / group; i < (k + 1) * t->part / group; i++)
      sum += (int32_t)ggml_u32(sums + 4 * i);
    total += w->s[k] * dot;
    less += w->m[k] * sum;
  }
  acc = flushed(fmaf((float)(int32_t)total, flushed(flushed(w->d) * dx), acc));
  if (t->has_less) acc = flushed(fmaf((float)(int32_t)less, -flushed(w->dmin * dx), acc));
  return acc;
}

static void int_row(const Product *p, int64_t row, GgmlParts *w) {
  const GgmlType *t = p->t;
  int64_t blocks = p->k / t->block;
  for (int64_t b = 0; b < blocks; b++) ggml_split(t, p->w + row * p->w_bytes + b * t->bytes, &w[b]);
  float *y;
  for (int64_t i = 0; i < p->m; i++) {
    if (!takes(p, i, row, &y)) continue;
    const uint8_t *x = p->xq + i / p->each * p->x_bytes;
    float acc = 0;
    for (int64_t b = 0; b < blocks; b++)
      acc = int_block(t, &w[b], x + b * x_block_bytes(t->x_block), acc);
    *y = acc;
  }
}

static void product_rows(void *ctx, int64_t begin, int64_t end) {
  const Product *p = ctx;
  for (int64_t i = begin; i < end; i++) {
    void *slot = p->slot + i * p->slot_bytes;
    if (p->xq)
      int_row(p, p->first + i, slot);
    else
      float_row(p, p->first + i, slot);
  }
}

static tenon_status need_matrix(Eval *e, int i, const GgmlType *t, int64_t k, int64_t *bytes) {
  TRY(eval_need(e, i, "w", DT_U8));
  const Value *w = e->in[i];
  if (!t || !block_row_bytes(t, k, bytes) || w->rank != 2 || w->dims[1] != *bytes)
    return eval_fail(e, TENON_EINVAL, "w%s for rows of %lld elements of type %s",
                     shape_text(w->rank, w->dims).s, (long long)k, t ? t->name : "?");
  return TENON_OK;
}

// x as the product takes it: quantised here where it is not yet.
static tenon_status take_x(Eval *e, bool ints, Product *p) {
  const Value *x = e->in[0];
  int64_t last = x->rank ? x->dims[x->rank - 1] : 0, size;
  if (ints && (!p->t->x_block || !x_row_bytes(p->k, p->t->x_block, &p->x_bytes)))
    return eval_fail(e, TENON_EINVAL, "there is no product of integers with %s", p->t->name);
  bool whole = x->dtype == DT_U8 ? ints && last == p->x_bytes : x->dtype == DT_F32 && last == p->k;
  if (x->rank < 1 || !whole)
    return eval_fail(e, TENON_EINVAL, "x is %s%s, must have rows of %lld elements",
                     dtype_name(x->dtype), shape_text(x->rank, x->dims).s, (long long)p->k);
  p->m = 1;
  for (int i = 0; i < x->rank - 1; i++) p->m *= x->dims[i];
  p->x = x->data;
  p->xq = x->dtype == DT_U8 ? x->data : NULL;
  if (!ints || p->xq || !p->m || !p->n) return TENON_OK;
  if (!ck_mul(p->m, p->x_bytes, &size)) return eval_fail(e, TENON_EINVAL, "x is too large");
  Quantize j = {.k = p->k, .block = p->t->x_block, .row_bytes = p->x_bytes, .x = p->x};
  p->xq = j.out = arena_array(&e->run->scratch, uint8_t, MAX(size, 1));
  parallel_for(e->run->pool, p->m, 1, quantize_rows, &j);
  return TENON_OK;
}

// Scales of tiles, where there are any.
static tenon_status take_scale(Eval *e, const mat_mul_blocks_attrs *at, Product *p) {
  const Value *s = eval_in(e, 2);
  int64_t tiles[2];
  if (!s) return TENON_OK;
  TRY(eval_need(e, 2, "scale", DT_F32));
  if (!p->t->plain || !block_scales(at, p->n, tiles) || s->rank != 2 || s->dims[0] != tiles[0] ||
      s->dims[1] != tiles[1])
    return eval_fail(e, TENON_EINVAL, "scale%s of tiles of %lld rows and %lld elements",
                     shape_text(s->rank, s->dims).s, (long long)at->scale_rows,
                     (long long)at->scale_k);
  p->scale = s->data;
  p->scales = tiles[1];
  p->scale_rows = at->scale_rows ? at->scale_rows : MAX(p->n, 1);
  p->scale_k = at->scale_k ? at->scale_k : MAX(p->k, 1);
  return TENON_OK;
}

// The matrix of each row, where there are several.  The result has group's axes, then `columns`.
static tenon_status take_group(Eval *e, const mat_mul_blocks_attrs *at, Product *p, int64_t *dims,
                               int *rank) {
  const Value *x = e->in[0], *group = eval_in(e, 3);
  int64_t rows = p->m;
  p->columns = p->n;
  p->each = 1;
  *rank = x->rank;
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  if (!group && at->groups != 1)
    return eval_fail(e, TENON_EINVAL, "%lld matrices, and no group", (long long)at->groups);
  if (group) {
    bool more = group->rank == x->rank;
    bool fits = (more || group->rank == x->rank - 1) && group->rank < MAX_RANK;
    for (int i = 0; fits && i < x->rank - 1; i++) fits = group->dims[i] == x->dims[i];
    if (!fits || p->scale || at->groups < 1 || p->n % at->groups ||
        (group->dtype != DT_I32 && group->dtype != DT_I64))
      return eval_fail(e, TENON_EINVAL, "x%s and w%s as %lld matrices with %s%s as group",
                       shape_text(x->rank, x->dims).s, shape_text(2, e->in[1]->dims).s,
                       (long long)at->groups, dtype_name(group->dtype),
                       shape_text(group->rank, group->dims).s);
    for (int64_t i = 0; i < group->n; i++) {
      int64_t which = get_i64(group->dtype, group->data, i);
      if (which < 0 || which >= at->groups)
        return eval_fail(e, TENON_EINVAL, "group[%lld] is %lld, with %lld matrices", (long long)i,
                         (long long)which, (long long)at->groups);
    }
    p->group = group;
    p->columns = p->n / at->groups;
    p->m = group->n;
    p->each = rows ? MAX(p->m / rows, 1) : 1;
    *rank = group->rank + 1;
    memcpy(dims, group->dims, (size_t)group->rank * sizeof *dims);
  }
  dims[*rank - 1] = p->columns;
  return TENON_OK;
}

tenon_status eval_mat_mul_blocks(Eval *e) {
  const mat_mul_blocks_attrs *at = e->attrs;
  bool ints = at->activations == BLOCKS_INT8;
  Product p = {.t = block_type(at->type), .k = at->k};
  TRY(eval_need(e, 0, "x", 0));
  TRY(need_matrix(e, 1, p.t, p.k, &p.w_bytes));
  p.w = e->in[1]->data;
  p.n = e->in[1]->dims[0];
  TRY(take_x(e, ints, &p));
  TRY(take_scale(e, at, &p));
  int64_t dims[MAX_RANK], size;
  int rank;
  TRY(take_group(e, at, &p, dims, &rank));
  Value *y;
  TRY(eval_out(e, 0, DT_F32, rank, dims, &y));
  if (!y->n) return TENON_OK;
  int64_t each = ints ? p.k / p.t->block * (int64_t)sizeof(GgmlParts) : p.k * 4;
  p.slot_bytes = (each + 63) / 64 * 64;
  if (!ck_mul(SLOTS, p.slot_bytes, &size)) return eval_fail(e, TENON_EINVAL, "a row is too long");
  p.slot = arena_alloc(&e->run->scratch, MAX(size, 1));
  p.y = y->data;
  for (p.first = 0; p.first < p.n; p.first += SLOTS)
    parallel_for(e->run->pool, MIN(SLOTS, p.n - p.first), 1, product_rows, &p);
  return TENON_OK;
}

tenon_status eval_gather_blocks(Eval *e) {
  const gather_blocks_attrs *at = e->attrs;
  const GgmlType *t = block_type(at->type);
  int64_t bytes;
  TRY(need_matrix(e, 0, t, at->k, &bytes));
  TRY(eval_need(e, 1, "ids", 0));
  const Value *w = e->in[0], *ids = e->in[1];
  int64_t dims[MAX_RANK];
  if (ids->rank >= MAX_RANK) return eval_fail(e, TENON_EINVAL, "ids have rank %d", ids->rank);
  if (ids->dtype != DT_I32 && ids->dtype != DT_I64)
    return eval_fail(e, TENON_EINVAL, "ids are %s, must be i32 or i64", dtype_name(ids->dtype));
  memcpy(dims, ids->dims, (size_t)ids->rank * sizeof *dims);
  dims[ids->rank] = at->k;
  Value *y;
  TRY(eval_out(e, 0, DT_F32, ids->rank + 1, dims, &y));
  for (int64_t i = 0; i < ids->n; i++) {
    int64_t id = get_i64(ids->dtype, ids->data, i);
    if (id < 0) id += w->dims[0];
    if (id < 0 || id >= w->dims[0])
      return eval_fail(e, TENON_EINVAL, "index %lld is out of range of %lld rows",
                       (long long)get_i64(ids->dtype, ids->data, i), (long long)w->dims[0]);
    unpack_row(t, (const uint8_t *)w->data + id * bytes, at->k, (float *)y->data + i * at->k);
  }
  return TENON_OK;
}
