// index_order.c -- reference evaluation of the ops that search and sort: top_k, arg_max, arg_min,
// hardmax, non_zero, compress, cum_sum, cum_prod.
//
// Values are compared through a 64-bit key that orders every real dtype exactly, so one sort serves
// all.  Sorting is a heap sort with the position as the last criterion: in place, and the result is
// unique.
//
// No key is a mark: of integers every key is a value.  Only keys of floats have one that stands for
// NaN.
//
// Guarantees: of equal values the lower position comes first; NaN counts as the largest.
#include "eval/index.h"
#include "eval/move.h"

uint64_t order_key(DType t, const void *base, int64_t i) {
  if (!dtype_is_float(t)) {
    int64_t v = get_i64(t, base, i);
    return t == DT_U64 ? (uint64_t)v : (uint64_t)v ^ 1ull << 63;
  }
  double x = get_f64(t, base, i);
  if (x != x) return UINT64_MAX;  // above infinity's
  x += 0.0;                       // -0 becomes 0
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}

// The key of the reversed order, in which NaN is the largest too.
static uint64_t reversed_key(DType t, const void *base, int64_t i) {
  uint64_t key = order_key(t, base, i);
  return dtype_is_float(t) && key == UINT64_MAX ? key : ~key;
}

static tenon_status need_numbers(Eval *e, int i, const char *name) {
  TRY(eval_need(e, i, name, TENON_DTYPE_NONE));
  DTypeClass c = dtype_class(e->in[i]->dtype);
  if (c != DC_STRING && c != DC_COMPLEX) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s is %s, which has no order", name,
                   dtype_name(e->in[i]->dtype));
}

// A tensor as rows along one axis: element k of row r lies at start(r) + k x inner.
typedef struct Rows {
  int64_t n, dim, inner;
} Rows;
static Rows rows_of(const Value *x, int axis) {
  int64_t inner = dims_product(x->dims, axis + 1, x->rank);
  return (Rows){dims_product(x->dims, 0, axis) * inner, x->dims[axis], inner};
}
static int64_t row_start(const Rows *r, int64_t row, int64_t dim) {
  return row / r->inner * dim * r->inner + row % r->inner;
}

// ---- sorting ----

typedef struct Item {
  uint64_t key;
  int64_t at;
} Item;

static bool item_before(const Item *a, const Item *b) {
  return a->key != b->key ? a->key < b->key : a->at < b->at;
}

// Moves v[i] down until no child comes after it: the item that comes last is at the top.
static void sift(Item *v, int64_t i, int64_t n) {
  Item x = v[i];
  for (int64_t c; (c = 2 * i + 1) < n; i = c) {
    if (c + 1 < n && item_before(&v[c], &v[c + 1])) c++;
    if (!item_before(&x, &v[c])) break;
    v[i] = v[c];
  }
  v[i] = x;
}

static void sort_items(Item *v, int64_t n) {
  for (int64_t i = n / 2 - 1; i >= 0; i--) sift(v, i, n);
  for (int64_t i = n - 1; i > 0; i--) {
    Item last = v[0];
    v[0] = v[i];
    v[i] = last;
    sift(v, 0, i);
  }
}

// ---- top_k ----

typedef struct TopK {
  const Value *x;
  Value *values, *indices;  // indices may be NULL
  Rows rows;
  int64_t k, grain;
  bool largest;
  Item *heap;  // k for each piece of work
} TopK;

// Keeps the k first of a row in a heap whose top is the last of them.
static void top_k_row(const TopK *t, int64_t row, Item *heap) {
  int64_t n = 0, from = row_start(&t->rows, row, t->rows.dim), to = row_start(&t->rows, row, t->k);
  for (int64_t i = 0; i < t->rows.dim; i++) {
    uint64_t key = order_key(t->x->dtype, t->x->data, from + i * t->rows.inner);
    Item item = {t->largest ? ~key : key, i};
    if (n < t->k) {
      heap[n++] = item;
      if (n == t->k)
        for (int64_t j = n / 2 - 1; j >= 0; j--) sift(heap, j, n);
    } else if (item_before(&item, &heap[0])) {
      heap[0] = item;
      sift(heap, 0, n);
    }
  }
  sort_items(heap, n);
  for (int64_t i = 0; i < n; i++) {
    int64_t out = to + i * t->rows.inner;
    copy_elems(t->x->dtype, t->values->data, out, t->x->data, from + heap[i].at * t->rows.inner, 1);
    if (t->indices) ((int64_t *)t->indices->data)[out] = heap[i].at;
  }
}

static void top_k_piece(void *ctx, int64_t begin, int64_t end) {
  const TopK *t = ctx;
  for (int64_t i = begin; i < end; i++) top_k_row(t, i, t->heap + i / t->grain * t->k);
}

tenon_status eval_top_k(Eval *e) {
  const top_k_attrs *at = e->attrs;
  TRY(need_numbers(e, 0, "X"));
  const Value *x = e->in[0];
  Ints k;
  TRY(eval_ints(e, 1, &k));
  int axis;
  TRY(eval_axis(e, at->axis, x->rank, &axis));
  if (k.n != 1) return eval_fail(e, TENON_EINVAL, "K has %lld elements, must be 1", (long long)k.n);
  if (k.v[0] < 0 || k.v[0] > x->dims[axis])
    return eval_fail(e, TENON_EINVAL, "K is %lld, the axis has %lld elements", (long long)k.v[0],
                     (long long)x->dims[axis]);
  int64_t dims[MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  dims[axis] = k.v[0];
  TopK t = {.x = x, .k = k.v[0], .largest = at->largest};
  TRY(eval_out(e, 0, x->dtype, x->rank, dims, &t.values));
  if (eval_wants(e, 1)) TRY(eval_out(e, 1, DT_I64, x->rank, dims, &t.indices));
  if (t.values->n == 0) return TENON_OK;
  t.rows = rows_of(x, axis);
  t.grain = MAX(t.rows.n / 16, MAX(1, (1 << 12) / t.rows.dim));  // few pieces: each has a heap
  t.heap = arena_alloc_array(&e->run->scratch, (t.rows.n / t.grain + 1) * t.k, sizeof(Item));
  parallel_for(move_pool(e->run, x->dtype), t.rows.n, t.grain, top_k_piece, &t);
  return TENON_OK;
}

// ---- arg_max, arg_min, hardmax ----

typedef struct Arg {
  const Value *x;
  Value *y;
  Rows rows;
  bool least, last, mark;  // mark: a 1 at the place, not its index
} Arg;

static void arg_piece(void *ctx, int64_t begin, int64_t end) {
  const Arg *a = ctx;
  for (int64_t r = begin; r < end; r++) {
    int64_t from = row_start(&a->rows, r, a->rows.dim), best = 0;
    uint64_t top = 0;
    for (int64_t i = 0; i < a->rows.dim; i++) {
      int64_t at = from + i * a->rows.inner;
      uint64_t key = a->least ? reversed_key(a->x->dtype, a->x->data, at)
                              : order_key(a->x->dtype, a->x->data, at);
      if (i == 0 || key > top || (key == top && a->last)) {
        top = key;
        best = i;
      }
    }
    if (a->mark)
      val_put_f64(a->y, from + best * a->rows.inner, 1);
    else
      ((int64_t *)a->y->data)[r] = best;
  }
}

static tenon_status run_arg(Eval *e, Arg *a, int axis) {
  a->rows = rows_of(a->x, axis);
  int64_t grain = MAX(1, (1 << 13) / a->rows.dim);
  parallel_for(move_pool(e->run, a->x->dtype), a->rows.n, grain, arg_piece, a);
  return TENON_OK;
}

static tenon_status find_extreme(Eval *e, bool least) {
  const arg_attrs *at = e->attrs;
  TRY(need_numbers(e, 0, "data"));
  const Value *x = e->in[0];
  int axis, rank = 0;
  TRY(eval_axis(e, at->axis, x->rank, &axis));
  int64_t dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++)
    if (i != axis || at->keepdims) dims[rank++] = i == axis ? 1 : x->dims[i];
  Arg a = {.x = x, .least = least, .last = at->select_last_index};
  TRY(eval_out(e, 0, DT_I64, rank, dims, &a.y));
  if (a.y->n == 0) return TENON_OK;
  if (x->dims[axis] == 0)
    return eval_fail(e, TENON_EINVAL, "axis %d has no element to choose", axis);
  return run_arg(e, &a, axis);
}
tenon_status eval_arg_max(Eval *e) { return find_extreme(e, false); }
tenon_status eval_arg_min(Eval *e) { return find_extreme(e, true); }

tenon_status eval_hardmax(Eval *e) {
  const hardmax_attrs *at = e->attrs;
  TRY(need_numbers(e, 0, "input"));
  const Value *x = e->in[0];
  int axis;
  TRY(eval_axis(e, at->axis, x->rank, &axis));
  Arg a = {.x = x, .mark = true};
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &a.y));
  return a.y->n ? run_arg(e, &a, axis) : TENON_OK;
}

// ---- non_zero ----

static bool is_zero(const Value *x, int64_t i) {
  if (x->dtype == DT_STRING) return val_str(x, i).n == 0;
  if (dtype_class(x->dtype) == DC_COMPLEX) {
    DType part = x->dtype == DT_C64 ? DT_F32 : DT_F64;
    return get_f64(part, x->data, 2 * i) == 0 && get_f64(part, x->data, 2 * i + 1) == 0;
  }
  return dtype_is_float(x->dtype) ? val_f64(x, i) == 0 : val_i64(x, i) == 0;
}

// The bits of an element that are not all 0 where it is not 0; 0: bits do not tell.
static uint64_t value_bits(DType t) {
  switch (t) {
  case DT_BOOL:
  case DT_U8:
  case DT_I8: return UINT8_MAX;
  case DT_U16:
  case DT_I16: return UINT16_MAX;
  case DT_F16:
  case DT_BF16: return INT16_MAX;
  case DT_U32:
  case DT_I32: return UINT32_MAX;
  case DT_F32: return INT32_MAX;
  case DT_U64:
  case DT_I64: return UINT64_MAX;
  case DT_F64: return INT64_MAX;
  default: return 0;
  }
}

// Places of elements that are not 0 among `len` from `first` on; no more than `most` are wanted.  A
// place is written before it is known to be one, so that nothing is guessed.
#define FIND_BITS(T)                                                                               \
  for (int64_t j = 0; j < len && n < most; j++) {                                                  \
    place[n] = j;                                                                                  \
    n += (((const T *)x->data)[first + j] & bits) != 0;                                            \
  }                                                                                                \
  return n

static int64_t find_places(const Value *x, uint64_t bits, int64_t first, int64_t len, int64_t most,
                           int64_t *place) {
  int64_t n = 0, bytes = bits ? dtype_bits(x->dtype) / 8 : 0;
  if (bytes == 1) {
    FIND_BITS(uint8_t);
  }
  if (bytes == 2) {
    FIND_BITS(uint16_t);
  }
  if (bytes == 4) {
    FIND_BITS(uint32_t);
  }
  if (bytes == 8) {
    FIND_BITS(uint64_t);
  }
  for (int64_t j = 0; j < len && n < most; j++)
    if (!is_zero(x, first + j)) place[n++] = j;
  return n;
}

#define COUNT_BITS(T)                                                                              \
  for (int64_t i = 0; i < x->n; i++) n += (((const T *)x->data)[i] & bits) != 0;                   \
  return n

static int64_t count_places(const Value *x, uint64_t bits) {
  int64_t n = 0, bytes = bits ? dtype_bits(x->dtype) / 8 : 0;
  if (bytes == 1) {
    COUNT_BITS(uint8_t);
  }
  if (bytes == 2) {
    COUNT_BITS(uint16_t);
  }
  if (bytes == 4) {
    COUNT_BITS(uint32_t);
  }
  if (bytes == 8) {
    COUNT_BITS(uint64_t);
  }
  for (int64_t i = 0; i < x->n; i++) n += !is_zero(x, i);
  return n;
}

// Row by row along the last axis; the coordinates of a row are counted up.
tenon_status eval_non_zero(Eval *e) {
  TRY(eval_need(e, 0, "X", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  uint64_t bits = value_bits(x->dtype);
  int64_t n = count_places(x, bits), col = 0, at[MAX_RANK] = {0};
  int last = x->rank - 1;
  Value *y;
  TRY(eval_out(e, 0, DT_I64, 2, (int64_t[]){x->rank, n}, &y));
  int64_t *out = y->data, len = x->rank ? x->dims[last] : 0;
  for (int64_t first = 0; len && first < x->n && col < n; first += len) {
    int64_t found = find_places(x, bits, first, len, n - col, out + last * n + col);
    for (int d = 0; d < last; d++)
      for (int64_t i = 0; i < found; i++) out[d * n + col + i] = at[d];
    col += found;
    for (int d = last - 1; d >= 0 && ++at[d] == x->dims[d]; d--) at[d] = 0;
  }
  return TENON_OK;
}

// ---- compress ----

tenon_status eval_compress(Eval *e) {
  const compress_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  Ints cond;
  TRY(eval_ints(e, 1, &cond));
  int axis = 0, rank = 1;
  int64_t dims[MAX_RANK] = {x->n}, inner = 1, outer = 1;
  if (at->axis.given) {
    TRY(eval_axis(e, at->axis.v, x->rank, &axis));
    rank = x->rank;
    memcpy(dims, x->dims, sizeof dims);
  }
  int64_t dim = dims[axis], n = 0;
  int64_t *keep = arena_array(&e->run->scratch, int64_t, cond.n);
  for (int64_t i = 0; i < cond.n; i++) {
    if (!cond.v[i]) continue;
    if (i >= dim)
      return eval_fail(e, TENON_EINVAL, "condition %lld is true, there are %lld elements",
                       (long long)i, (long long)dim);
    keep[n++] = i;
  }
  dims[axis] = n;
  Value *y;
  TRY(eval_out(e, 0, x->dtype, rank, dims, &y));
  if (y->n == 0) return TENON_OK;
  outer = dims_product(dims, 0, axis);
  inner = dims_product(dims, axis + 1, rank);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < n; i++)
      copy_elems(x->dtype, y->data, (o * n + i) * inner, x->data, (o * dim + keep[i]) * inner,
                 inner);
  return TENON_OK;
}

// ---- cumulative sums and products ----

typedef struct Cum {
  const Value *x;
  Value *y;
  Rows rows;
  bool product, exclusive, reverse;
} Cum;

static void cum_row(const Cum *c, int64_t row) {
  int64_t from = row_start(&c->rows, row, c->rows.dim), n = c->rows.dim;
  bool real = dtype_is_float(c->x->dtype);
  double f = c->product;
  uint64_t u = c->product;
  for (int64_t k = 0; k < n; k++) {
    int64_t i = from + (c->reverse ? n - 1 - k : k) * c->rows.inner;
    double before = f;
    uint64_t ubefore = u;
    if (real) {
      double v = val_f64(c->x, i);
      f = c->product ? f * v : f + v;
      val_put_f64(c->y, i, c->exclusive ? before : f);
    } else {
      uint64_t v = (uint64_t)val_i64(c->x, i);
      u = c->product ? u * v : u + v;
      val_put_i64(c->y, i, (int64_t)(c->exclusive ? ubefore : u));
    }
  }
}

static void cum_piece(void *ctx, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) cum_row(ctx, i);
}

static tenon_status cumulate(Eval *e, bool product) {
  const cum_attrs *at = e->attrs;
  TRY(need_numbers(e, 0, "x"));
  const Value *x = e->in[0];
  Ints ax;
  int axis;
  TRY(eval_ints(e, 1, &ax));
  if (ax.n != 1)
    return eval_fail(e, TENON_EINVAL, "axis has %lld elements, must be 1", (long long)ax.n);
  TRY(eval_axis(e, ax.v[0], x->rank, &axis));
  Cum c = {.x = x, .product = product, .exclusive = at->exclusive, .reverse = at->reverse};
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &c.y));
  if (x->n == 0) return TENON_OK;
  c.rows = rows_of(x, axis);
  parallel_for(move_pool(e->run, x->dtype), c.rows.n, MAX(1, (1 << 12) / c.rows.dim), cum_piece,
               &c);
  return TENON_OK;
}
tenon_status eval_cum_sum(Eval *e) { return cumulate(e, false); }
tenon_status eval_cum_prod(Eval *e) { return cumulate(e, true); }
