// constant.c -- what a constant holds, for people: its first elements, least, largest and mean.
//
// A constant whose bytes cannot be read (weights that are not there) is shown without them; that is
// no error here.  The number of elements read is bounded over the whole view, so that the time is,
// too.
#include "view/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { VALUES_MAX = 16, STRING_MAX = 80, BLOCK = 1024 };

static const char *element_text(DType t, const void *data, int64_t i, Arena *a) {
  switch (dtype_class(t)) {
  case DC_BOOL: return get_i64(t, data, i) ? "true" : "false";
  case DC_INT: return str_printf(a, "%" PRId64, get_i64(t, data, i));
  case DC_UINT: return str_printf(a, "%" PRIu64, (uint64_t)get_i64(t, data, i));
  case DC_FLOAT: return str_printf(a, "%.6g", get_f64(t, data, i));
  case DC_COMPLEX: {
    DType part = t == DT_C64 ? DT_F32 : DT_F64;
    return str_printf(a, "%.6g%+.6gi", get_f64(part, data, 2 * i), get_f64(part, data, 2 * i + 1));
  }
  case DC_STRING: {
    Str s = ((const Str *)data)[i];
    return view_text_cut(str_copy(a, (Str){s.p, MIN(s.n, 4 * STRING_MAX)}), STRING_MAX, a);
  }
  case DC_NONE: break;
  }
  return "?";
}

// A block of elements, copied: a mapped file gives no alignment.
typedef union Block {
  max_align_t align;
  uint8_t bytes[BLOCK * 16];
} Block;

// Elements [at, at + n), n <= BLOCK; `at` is a multiple of BLOCK, so a whole byte of packed ones.
static const void *copy_block(Block *b, DType t, const void *data, int64_t at, int64_t n) {
  int64_t bits = dtype_bits(t);
  memcpy(b->bytes, (const uint8_t *)data + at / 8 * bits, (size_t)((n * bits + 7) / 8));
  return b->bytes;
}

static void read_stats(ConstView *c, DType t, const void *data, int64_t n) {
  double sum = 0, block[BLOCK];
  Block raw;
  int64_t count = 0;
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t m = MIN(n - at, BLOCK);
    load_f64(t, copy_block(&raw, t, data, at, m), 0, m, block);
    for (int64_t i = 0; i < m; i++) {
      double x = block[i];
      if (!isfinite(x)) continue;
      c->min = count ? fmin(c->min, x) : x;
      c->max = count ? fmax(c->max, x) : x;
      sum += x;
      count++;
    }
  }
  c->nonfinite = n - count;
  c->has_stats = count > 0;
  if (count) c->mean = sum / (double)count;
}

static void read_constant(View *v, ConstView *c) {
  const Node *n = c->node;
  DType t = type_of(n)->dtype;
  const void *data;
  diag_init(v->quiet);
  if (!n->data || n->data->n < 1 || const_bytes(v->graph, n, &data, v->quiet)) return;
  c->readable = true;
  c->nvalues = MIN(n->data->n, VALUES_MAX);
  c->value = arena_array(v->arena, const char *, c->nvalues);
  Block raw;
  const void *first = t == DT_STRING ? data : copy_block(&raw, t, data, 0, c->nvalues);
  for (int64_t i = 0; i < c->nvalues; i++) c->value[i] = element_text(t, first, i, v->arena);
  bool real = dtype_is_float(t) || dtype_is_int(t);
  if (!real || n->data->n > v->stats_budget) return;
  v->stats_budget -= n->data->n;
  read_stats(c, t, data, n->data->n);
}

int64_t view_constant(View *v, const Node *n) {
  uint64_t at;
  if (intmap_get(&v->const_index, n->id, &at)) return (int64_t)at;
  ConstView c = {.node = n};
  read_constant(v, &c);
  intmap_put(&v->const_index, n->id, (uint64_t)v->constant.n);
  vec_push(v->arena, &v->constant, c);
  return v->constant.n - 1;
}
