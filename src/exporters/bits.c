// bits.c -- unpacks weight-only quantized weights, for formats that do not have them.
#include "base/platform.h"
#include "eval/contrib.h"
#include "eval/movement.h"
#include "eval/scalar.h"
#include "exporters/export.h"

// What depends on constants alone, as its value.
static Node *evaluated(Graph *g, Node *n) {
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (n->src[i] != g->none && n->src[i]->op != OP_const) return NULL;
  Run *run = arena_new(&g->arena, Run);
  Diag quiet;
  Value *v;
  Node *r = NULL;
  diag_init(&quiet);
  run_init(run, NULL, &quiet);
  run->max_bytes = machine_memory() / 2;
  if (!const_evaluate(g, n, run, &v) && v->kind == VK_TENSOR) {
    int64_t block = 0;
    void *data = value_take_data(v, &block);
    r = data ? node_const_take(g, v->dtype, v->rank, v->dims, data, block, n->name)
             : node_const(g, v->dtype, v->rank, v->dims, v->data, n->name);
  }
  run_deinit(run);
  return r;
}

static Node *shaped(Graph *g, Node *x, int64_t n, const int64_t *sizes) {
  return N(g, reshape, x, node_i64s(g, n, sizes));  // a size of 0 stays what it is
}

static Node *by_block(Graph *g, Node *of_blocks) {
  return N(g, unsqueeze, of_blocks, node_i64s(g, 1, (int64_t[]){2}));
}

// The stored numbers, [rows, blocks, numbers of a block]; NULL: a size of the blocks is not known.
static Node *stored(Graph *g, Node *w, int64_t bits) {
  const Type *t = type_of(w);
  int64_t per = 8 / bits;
  if (t->rank != 3 || !ie_is_const(t->dims[1]) || !ie_is_const(t->dims[2])) return NULL;
  Node *part[8], *mask = node_scalar(g, DT_U8, (double)((1 << bits) - 1));
  for (int64_t i = 0; i < per; i++) {
    Node *low = i ? N(g, shift_right, w, node_scalar(g, DT_U8, (double)(i * bits))) : w;
    Node *own = per > 1 ? N(g, bit_and, low, mask) : low;
    part[i] = N(g, unsqueeze, own, node_i64s(g, 1, (int64_t[]){3}));
  }
  concat_attrs join = {.axis = 3};
  cast_attrs to = {.to = DT_F32, .saturate = true};
  Node *all = per > 1 ? node_new(g, OP_concat, (int)per, part, &join, 1, NULL) : part[0];
  int64_t sizes[] = {0, t->dims[1]->value, t->dims[2]->value * per};
  return NA(g, cast, &to, shaped(g, all, 3, sizes));
}

// [rows, blocks, numbers] as a matrix.
static Node *rows_of(Graph *g, Node *x) {
  const Type *t = type_of(x);
  return shaped(g, x, 2, (int64_t[]){0, t->dims[1]->value * t->dims[2]->value});
}

Node *rewrite_unpack(Graph *g, Node *n) {
  const unpack_n_bits_attrs *at = n->attrs;
  Node *value = evaluated(g, n), *less = src_or_null(g, n, 2);
  if (value) return value;
  Node *x = stored(g, n->src[0], at->bits);
  if (!x) return NULL;
  if (at->zero) x = N(g, sub, x, node_scalar(g, DT_F32, (double)at->zero));
  x = N(g, mul, by_block(g, n->src[1]), x);
  if (less) x = N(g, sub, x, by_block(g, less));
  return rows_of(g, x);
}

Node *rewrite_product_of_bits(Graph *g, Node *n) {
  const mat_mul_n_bits_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]), *w = type_of(n->src[1]);
  Node *zero = src_or_null(g, n, 3), *y;
  if (x->rank < 1 || w->rank != 3 || !ie_is_const(x->dims[x->rank - 1])) return NULL;
  if (zero) {
    Node *s = stored(g, n->src[1], at->bits);
    y = s ? rows_of(g, N(g, mul, N(g, sub, s, by_block(g, zero)), by_block(g, n->src[2]))) : NULL;
  } else {
    unpack_n_bits_attrs half = {.bits = at->bits, .zero = (int64_t)1 << (at->bits - 1)};
    y = NA(g, unpack_n_bits, &half, n->src[1], n->src[2]);
  }
  if (!y) return NULL;
  int64_t depth = x->dims[x->rank - 1]->value;
  Node *begin = node_i64s(g, 1, (int64_t[]){0}), *end = node_i64s(g, 1, &depth),
       *axis = node_i64s(g, 1, (int64_t[]){1});
  if (!ie_is(type_of(y)->dims[1], depth)) y = N(g, slice, y, begin, end, axis);  // the last block's
  int64_t turn[] = {1, 0};
  transpose_attrs swap = {.perm = {2, arena_dup(&g->arena, turn, sizeof turn)}};
  return N(g, mat_mul, n->src[0], NA(g, transpose, &swap, y));
}
