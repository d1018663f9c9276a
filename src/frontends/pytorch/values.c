// values.c -- values of PyTorch programs, arithmetic of numbers, and small constructions (aten.h).
#include "frontends/pytorch/aten.h"

#include "eval/movement.h"
#include "eval/reduce.h"
#include "eval/scalar.h"

#include <math.h>

AtenValue av_tensor(Arena *a, Node *n) {
  AtenValue v = {.kind = AV_TENSOR, .box = arena_new(a, AtenBox)};
  v.box->node = n;
  return v;
}
AtenValue av_int(int64_t i) { return (AtenValue){.kind = AV_INT, .i = i}; }
AtenValue av_float(double f) { return (AtenValue){.kind = AV_FLOAT, .f = f}; }
AtenValue av_bool(bool b) { return (AtenValue){.kind = AV_BOOL, .i = b}; }
AtenValue av_str(Str s) { return (AtenValue){.kind = AV_STR, .s = s}; }
AtenValue av_list(Arena *a, AvKind kind) {
  return (AtenValue){.kind = kind, .list = arena_new(a, AtenList)};
}
void av_push(Arena *a, AtenValue *list, AtenValue v) { vec_push(a, &list->list->v, v); }

AtenValue av_number(Graph *g, Node *n, AvKind kind) {
  AtenValue v = {.kind = kind, .node = n};
  if (g->status) return v;
  Ints known;
  if (kind != AV_FLOAT && node_ints(g, n, &known) && known.n == 1)
    return (AtenValue){.kind = kind, .i = kind == AV_BOOL ? known.v[0] != 0 : known.v[0]};
  const Value *value = node_known(g, n);
  if (!value || value->kind != VK_TENSOR || value->n != 1) return v;
  if (kind == AV_FLOAT) return av_float(val_f64(value, 0));
  return (AtenValue){.kind = kind,
                     .i = kind == AV_BOOL ? val_i64(value, 0) != 0 : val_i64(value, 0)};
}

DType av_dtype(const AtenValue *v) {
  switch (v->kind) {
  case AV_TENSOR: return type_of(v->box->node)->dtype;
  case AV_INT: return DT_I64;
  case AV_FLOAT: return DT_F32;
  case AV_BOOL: return DT_BOOL;
  default: return TENON_DTYPE_NONE;
  }
}

Node *av_node(Graph *g, const AtenValue *v, DType t) {
  if (g->status) return g->poison;
  if (av_is_complex(v))
    return graph_fail(g, TENON_EUNSUPPORTED, NOWHERE,
                      "complex numbers that leave the program; view_as_real gives both parts");
  if (v->kind == AV_TENSOR) return t ? bt_cast(g, v->box->node, t) : v->box->node;
  if (!t) t = av_dtype(v);
  if (!t) return graph_fail(g, TENON_EUNSUPPORTED, NOWHERE, "a value that is no tensor");
  if (v->node) return bt_cast(g, v->node, t);
  if (v->kind == AV_INT && t == DT_I64) return node_i64(g, v->i);
  return node_scalar(g, t, av_f64(v));
}

// ---- promotion, as PyTorch does it: tensors, then tensors of rank 0, then numbers ----

static int category(DType t) {
  switch (dtype_class(t)) {
  case DC_BOOL: return 0;
  case DC_INT:
  case DC_UINT: return 1;
  case DC_FLOAT: return 2;
  default: return 3;
  }
}

static DType wider(DType a, DType b) {
  if (!a) return b;
  if (!b || a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (category(a) == 2) {
    if (dtype_bits(a) == dtype_bits(b)) return DT_F32;  // f16 and bf16
    return dtype_bits(a) > dtype_bits(b) ? a : b;
  }
  bool same_sign = dtype_class(a) == dtype_class(b);
  if (same_sign || dtype_class(dtype_bits(a) > dtype_bits(b) ? a : b) == DC_INT)
    if (dtype_bits(a) != dtype_bits(b)) return dtype_bits(a) > dtype_bits(b) ? a : b;
  int bits = MAX(dtype_bits(a), dtype_bits(b));
  return bits >= 32 ? DT_I64 : bits == 16 ? DT_I32 : DT_I16;
}

static DType join(DType higher, DType lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (category(lower) <= category(higher)) return higher;
  return lower;
}

DType aten_promote(const AtenValue *v, int n) {
  DType level[3] = {0};
  for (int i = 0; i < n; i++) {
    DType t = av_dtype(&v[i]);
    int at = v[i].kind != AV_TENSOR ? 2 : type_of(v[i].box->node)->rank == 0 ? 1 : 0;
    level[at] = wider(level[at], t);
  }
  return join(join(level[0], level[1]), level[2]);
}

// ---- numbers ----

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - (a % b != 0 && (a % b < 0) != (b < 0));
}

static bool known_ints(char op, int64_t x, int64_t y, int64_t *out) {
  bool divides = y != 0 && !(y == -1 && x == INT64_MIN);
  switch (op) {
  case '+': return ck_add(x, y, out);
  case '-': return ck_sub(x, y, out);
  case '*': return ck_mul(x, y, out);
  case 'f': *out = divides ? floor_div(x, y) : 0; return divides;
  case '%': *out = divides ? x - floor_div(x, y) * y : 0; return divides;
  case '<': *out = MIN(x, y); return true;
  case '>': *out = MAX(x, y); return true;
  case 'p': {
    int64_t r = 1;
    for (int64_t i = 0; i < y && y < 64; i++)
      if (!ck_mul(r, x, &r)) return false;
    *out = r;
    return y >= 0 && y < 64;
  }
  default: return false;
  }
}

static double known_floats(char op, double x, double y) {
  switch (op) {
  case '+': return x + y;
  case '-': return x - y;
  case '*': return x * y;
  case '/': return x / y;
  case 'f': return floor(x / y);
  case '%': return x - floor(x / y) * y;
  case 'p': return pow(x, y);
  case '<': return fmin(x, y);
  case '>': return fmax(x, y);
  default: return NAN;
  }
}

static Node *floor_node(Graph *g, Node *x, Node *y) {
  if (g->status || dtype_is_float(type_of(x)->dtype)) return N(g, floor, N(g, div, x, y));
  return N(g, div, N(g, sub, x, N(g, mod, x, y)), y);
}

AtenValue aten_number_op(Aten *a, char op, const AtenValue *x, const AtenValue *y, Where at) {
  Graph *g = a->g;
  bool ints = x->kind != AV_FLOAT && y->kind != AV_FLOAT && op != '/';
  if (op == 'p' && ints && y->i < 0) ints = false;
  if (av_is_known(x) && av_is_known(y)) {
    int64_t i;
    if (!ints) return av_float(known_floats(op, av_f64(x), av_f64(y)));
    if (known_ints(op, x->i, y->i, &i)) return av_int(i);
    graph_fail(g, TENON_EINVAL, at, "%lld %c %lld has no value", (long long)x->i,
               op == 'f' ? '/' : op, (long long)y->i);
    return av_int(0);
  }
  DType t = ints ? DT_I64 : DT_F64;
  Node *l = av_node(g, x, t), *r = av_node(g, y, t), *n = NULL;
  switch (op) {
  case '+': n = N(g, add, l, r); break;
  case '-': n = N(g, sub, l, r); break;
  case '*': n = N(g, mul, l, r); break;
  case '/': n = N(g, div, l, r); break;
  case 'f': n = floor_node(g, l, r); break;
  case '%': n = ints ? N(g, mod, l, r) : N(g, sub, l, N(g, mul, floor_node(g, l, r), r)); break;
  case 'p': n = N(g, pow, l, r); break;
  case '<': n = N(g, min, l, r); break;
  default: n = N(g, max, l, r); break;
  }
  return av_number(g, n, ints ? AV_INT : AV_FLOAT);
}

AtenValue aten_compare(Aten *a, const char *op, const AtenValue *x, const AtenValue *y) {
  Graph *g = a->g;
  bool negate = !strcmp(op, "ne"), swap = op[0] == 'g', equal = negate || !strcmp(op, "eq");
  bool or_equal = op[1] == 'e' && !equal;
  const AtenValue *l = swap ? y : x, *r = swap ? x : y;
  if (av_is_known(l) && av_is_known(r)) {
    bool ints = l->kind != AV_FLOAT && r->kind != AV_FLOAT;
    bool less = ints ? l->i < r->i : av_f64(l) < av_f64(r);
    bool same = ints ? l->i == r->i : av_f64(l) == av_f64(r);
    return av_bool(equal ? same != negate : less || (or_equal && same));
  }
  DType t = l->kind == AV_FLOAT || r->kind == AV_FLOAT ? DT_F64 : DT_I64;
  Node *p = av_node(g, l, t), *q = av_node(g, r, t);
  Node *n = equal ? N(g, eq, p, q) : or_equal ? N(g, le, p, q) : N(g, lt, p, q);
  return av_number(g, negate ? N(g, not, n) : n, AV_BOOL);
}

AtenValue aten_size(Aten *a, Node *x, int64_t axis) {
  Graph *g = a->g;
  if (g->status) return av_int(0);
  const Type *t = type_of(x);
  if (t->kind == TK_TENSOR && t->rank >= 0) {
    if (axis < 0) axis += t->rank;
    if (axis < 0 || axis >= t->rank) {
      graph_fail(g, TENON_EINVAL, NOWHERE, "there is no axis %lld in a tensor of rank %d",
                 (long long)axis, t->rank);
      return av_int(0);
    }
    if (ie_is_const(t->dims[axis])) return av_int(t->dims[axis]->value);
    Node *n = N(g, reshape, bt_dims(g, x, (int)axis, (int)axis + 1), node_i64s(g, 0, NULL));
    return av_number(g, n, AV_INT);
  }
  graph_fail(g, TENON_EUNSUPPORTED, NOWHERE, "the rank of a tensor is not known");
  return av_int(0);
}

// ---- constructions ----

Node *bt_cast(Graph *g, Node *x, DType t) {
  if (g->status || type_of(x)->dtype == t) return x;
  return NA(g, cast, (&(cast_attrs){.to = t, .saturate = true}), x);
}
Node *bt_num(Graph *g, const Node *like, double v) {
  return g->status ? g->poison : node_scalar(g, type_of(like)->dtype, v);
}
Node *bt_reshape(Graph *g, Node *x, int n, const int64_t *dims) {
  bool zero = false, rest = false;
  for (int i = 0; i < n; i++) {
    zero = zero || dims[i] == 0;
    rest = rest || dims[i] == -1;
  }
  return NA(g, reshape, (&(reshape_attrs){.allowzero = zero && !rest}), x, node_i64s(g, n, dims));
}
Node *bt_reshape_to(Graph *g, Node *x, Node *shape) {
  Ints known;
  if (!g->status && node_ints(g, shape, &known)) return bt_reshape(g, x, (int)known.n, known.v);
  return N(g, reshape, x, shape);
}
Node *bt_transpose(Graph *g, Node *x, int n, const int64_t *perm) {
  for (int i = 0; i < n; i++)
    if (perm[i] != i) return NA(g, transpose, (&(transpose_attrs){.perm = {n, perm}}), x);
  return x;
}
Node *bt_swap(Graph *g, Node *x, int rank, int a, int b) {
  int64_t perm[MAX_RANK];
  for (int i = 0; i < rank; i++) perm[i] = i;
  if (rank < 1) return x;
  perm[a] = b;
  perm[b] = a;
  return bt_transpose(g, x, rank, perm);
}
Node *bt_slice(Graph *g, Node *x, int64_t axis, int64_t begin, int64_t end) {
  return N(g, slice, x, node_i64s(g, 1, &begin), node_i64s(g, 1, &end), node_i64s(g, 1, &axis));
}
Node *bt_concat(Graph *g, int64_t axis, int n, Node *const *x) {
  if (n == 1) return x[0];
  return node_new(g, OP_concat, n, x, &(concat_attrs){.axis = axis}, 1, NULL);
}
Node *bt_unsqueeze(Graph *g, Node *x, int64_t axis) {
  return N(g, unsqueeze, x, node_i64s(g, 1, &axis));
}
Node *bt_squeeze(Graph *g, Node *x, int64_t axis) {
  return N(g, squeeze, x, node_i64s(g, 1, &axis));
}
Node *bt_dims(Graph *g, Node *x, int from, int to) {
  if (from >= to) return node_i64s(g, 0, NULL);
  return NA(g, shape, (&(shape_attrs){.start = from, .end = to}), x);
}
Node *bt_reduce(Graph *g, int op, Node *x, Ints axes, bool keep) {
  if (!axes.n) return x;
  Node *src[] = {x, node_i64s(g, axes.n, axes.v)};
  return node_new(g, op, 2, src, &(reduce_attrs){.keepdims = keep}, 0, NULL);
}
Node *bt_full(Graph *g, Node *shape, DType t, double v) {
  return N(g, expand, node_scalar(g, t, v), shape);
}
Node *bt_vector(Graph *g, DType t, int64_t n, double v) {
  int64_t bytes;
  if (g->status || !dtype_bytes(t, n, &bytes) || bytes > 1 << 24)
    return graph_fail(g, TENON_EUNSUPPORTED, NOWHERE, "%lld elements of the same value",
                      (long long)n);
  void *p = arena_alloc(&g->arena, MAX(bytes, 8));
  for (int64_t i = 0; i < n; i++) put_f64(t, p, i, v);
  return node_const(g, t, 1, &n, p, NULL);
}
