// aten_make.c -- ATen operators that make tensors, and those that change the type of one.
#include "frontends/pytorch/aten.h"

#include "eval/generate.h"
#include "eval/scalar.h"

// The type of a new tensor: as said, else what the fill value has.
static DType fill_type(AtenCall *c, int dtype_arg, const AtenValue *fill) {
  DType t = fill ? av_dtype(fill) : DT_F32;
  return at_dtype(c, dtype_arg, t ? t : DT_F32);
}
static Node *filled(AtenCall *c, Node *shape, DType t, const AtenValue *fill) {
  return c->g->status ? c->g->poison : N(c->g, expand, av_node(c->g, fill, t), shape);
}

static void full_row(AtenCall *c) {  // (size, fill, *, dtype)
  at_give(c, filled(c, at_shape(c, 0), fill_type(c, 2, at_arg(c, 1)), at_arg(c, 1)));
}
static void constant_row(AtenCall *c) {  // zeros, ones, empty (size, *, dtype)
  AtenValue v = av_int(c->schema->row->op);
  at_give(c, filled(c, at_shape(c, 0), at_dtype(c, 1, DT_F32), &v));
}
static void
empty_strided(AtenCall *c) {  // (size, stride, *, dtype): the layout does not matter here
  at_give(c, bt_full(c->g, at_shape(c, 0), at_dtype(c, 2, DT_F32), 0));
}
static void like_row(AtenCall *c) {  // zeros_like, ones_like (self, *, dtype)
  Node *x = at_tensor(c, 0);
  AtenValue v = av_int(c->schema->row->op);
  if (c->g->status) return;
  at_give(c, filled(c, N(c->g, shape, x), at_dtype(c, 1, type_of(x)->dtype), &v));
}
static void full_like(AtenCall *c) {  // (self, fill, *, dtype)
  Node *x = at_tensor(c, 0);
  if (c->g->status) return;
  at_give(c, filled(c, N(c->g, shape, x), at_dtype(c, 2, type_of(x)->dtype), at_arg(c, 1)));
}
static void fill_row(AtenCall *c) {  // (self, value)
  Node *x = at_tensor(c, 0);
  if (c->g->status) return;
  at_give(c, filled(c, N(c->g, shape, x), type_of(x)->dtype, at_arg(c, 1)));
}
static void new_row(AtenCall *c) {  // new_zeros (self, size, *, dtype)
  Node *x = at_tensor(c, 0);
  AtenValue v = av_int(c->schema->row->op);
  if (c->g->status) return;
  at_give(c, filled(c, at_shape(c, 1), at_dtype(c, 2, type_of(x)->dtype), &v));
}
static void new_full(AtenCall *c) {  // (self, size, fill, *, dtype)
  Node *x = at_tensor(c, 0);
  if (c->g->status) return;
  at_give(c, filled(c, at_shape(c, 1), at_dtype(c, 3, type_of(x)->dtype), at_arg(c, 2)));
}
static void scalar_tensor(AtenCall *c) {  // (s, *, dtype)
  if (c->g->status) return;
  at_give(c, av_node(c->g, at_arg(c, 0), at_dtype(c, 1, DT_F32)));
}

static void range_of(AtenCall *c, const AtenValue *from, const AtenValue *to, const AtenValue *step,
                     int dtype_arg) {
  bool floats = from->kind == AV_FLOAT || to->kind == AV_FLOAT || step->kind == AV_FLOAT;
  DType t = at_dtype(c, dtype_arg, floats ? DT_F32 : DT_I64);
  DType by = floats ? DT_F64 : DT_I64;
  Graph *g = c->g;
  if (g->status) return;
  Node *r = NA(g, range, (&(range_attrs){.stash_type = 1}), av_node(g, from, by),
               av_node(g, to, by), av_node(g, step, by));
  at_give(c, bt_cast(g, r, t));
}
static void arange_end(AtenCall *c) {
  AtenValue zero = av_int(0), one = av_int(1);
  range_of(c, &zero, at_arg(c, 0), &one, 1);
}
static void arange_start(AtenCall *c) {
  AtenValue one = av_int(1);
  range_of(c, at_arg(c, 0), at_arg(c, 1), &one, 2);
}
static void arange_step(AtenCall *c) { range_of(c, at_arg(c, 0), at_arg(c, 1), at_arg(c, 2), 3); }

static void linspace_row(AtenCall *c) {  // (start, end, steps, *, dtype)
  Graph *g = c->g;
  double from = at_f64(c, 0), to = at_f64(c, 1);
  int64_t n = at_int(c, 2);
  DType t = at_dtype(c, 3, DT_F32);
  if (n < 0 || n > 1 << 20) at_fail(c, "%lld steps", (long long)n);
  if (g->status) return;
  double *v = arena_array(&g->arena, double, n + 1);
  for (int64_t i = 0; i < n; i++)
    v[i] = n > 1 ? from + (to - from) * (double)i / (double)(n - 1) : from;
  void *p = arena_alloc(&g->arena, n * 16 + 16);
  store_f64(t, p, 0, n, v);
  at_give(c, node_const(g, t, 1, &n, p, NULL));
}
static void eye_row(AtenCall *c) {  // (n, *, dtype), (n, m, *, dtype)
  Graph *g = c->g;
  bool two = c->schema->row->op;
  int64_t dims[2] = {at_int(c, 0), two ? at_int(c, 1) : at_int(c, 0)};
  DType t = at_dtype(c, two ? 2 : 1, DT_F32);
  if (dims[0] < 0 || dims[1] < 0) at_fail(c, "a negative size");
  eye_like_attrs at = {.dtype = t};
  at_give(c, NA(g, eye_like, &at, bt_full(g, node_i64s(g, 2, dims), t, 0)));
}

// ---- types ----

static void to_type(AtenCall *c) {  // dtype at the row's number; absent: none
  Node *x = at_tensor(c, 0);
  if (c->g->status) return;
  at_give(c, bt_cast(c->g, x, at_dtype(c, c->schema->row->op, type_of(x)->dtype)));
}
static void to_other(AtenCall *c) {
  Node *x = at_tensor(c, 0), *y = at_tensor(c, 1);
  at_give(c, c->g->status ? x : bt_cast(c->g, x, type_of(y)->dtype));
}
static void to_fixed(AtenCall *c) {
  at_give(c, bt_cast(c->g, at_tensor(c, 0), (DType)c->schema->row->op));
}
static void copy_row(AtenCall *c) {  // (self, src): src as self is
  Node *x = at_tensor(c, 0), *y = at_tensor(c, 1);
  if (c->g->status) return;
  y = bt_cast(c->g, y, type_of(x)->dtype);
  at_give(c, type_same_dims(type_of(x), type_of(y)) ? y : N(c->g, expand, y, N(c->g, shape, x)));
}
static void nothing(AtenCall *c) { (void)c; }
static void item_row(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  if (g->status) return;
  DType t = type_of(x)->dtype;
  AvKind kind = t == DT_BOOL ? AV_BOOL : dtype_is_int(t) ? AV_INT : AV_FLOAT;
  Node *n = bt_reshape(g, x, 0, NULL);
  c->out = av_number(g,
                     bt_cast(g, n,
                             kind == AV_INT    ? DT_I64
                             : kind == AV_BOOL ? DT_BOOL
                                               : DT_F64),
                     kind);
}
static void size_row(AtenCall *c) { c->out = aten_size(c->a, at_tensor(c, 0), at_int(c, 1)); }
static void sizes_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  c->out = av_list(c->a->arena, AV_LIST);
  for (int i = 0; i < rank; i++) av_push(c->a->arena, &c->out, aten_size(c->a, x, i));
}
static void numel_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  c->out = av_int(1);
  for (int i = 0; i < rank; i++) {
    AtenValue d = aten_size(c->a, x, i);
    c->out = aten_number_op(c->a, '*', &c->out, &d, c->at);
  }
}
static void dim_row(AtenCall *c) { c->out = av_int(at_rank(c, at_tensor(c, 0))); }
static void is_float_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  c->out = av_bool(!c->g->status && dtype_is_float(type_of(x)->dtype));
}

static const AtenRow rows[] = {
    // clang-format off
    {"full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", full_row, 0, NULL},
    {"zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", constant_row, 0, NULL},
    {"ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", constant_row, 1, NULL},
    {"empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", constant_row, 0, NULL},
    {"empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", empty_strided, 0, NULL},
    {"zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", like_row, 0, NULL},
    {"ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", like_row, 1, NULL},
    {"empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", like_row, 0, NULL},
    {"full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", full_like, 0, NULL},
    {"fill.Scalar(Tensor self, Scalar value) -> Tensor", fill_row, 0, NULL},
    {"fill.Tensor(Tensor self, Tensor value) -> Tensor", fill_row, 0, NULL},
    {"new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", new_row, 0, NULL},
    {"new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", new_row, 1, NULL},
    {"new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", new_row, 0, NULL},
    {"new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", new_full, 0, NULL},
    {"scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", scalar_tensor, 0, NULL},
    {"arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", arange_end, 0, NULL},
    {"arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", arange_start, 0, NULL},
    {"arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", arange_step, 0, NULL},
    {"linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", linspace_row, 0, NULL},
    {"eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", eye_row, 0, NULL},
    {"eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", eye_row, 1, NULL},
    {"to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)", to_type, 1, NULL},
    {"to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)", to_type, 2, NULL},
    {"to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)", to_type, 1, NULL},
    {"to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)", to_other, 0, NULL},
    {"_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor", to_type, 1, NULL},
    {"type_as(Tensor self, Tensor other) -> Tensor", to_other, 0, NULL},
    {"copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", copy_row, 0, NULL},
    {"_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()", nothing, 0, NULL},
    {"_assert_scalar(Scalar self, str assert_msg) -> ()", nothing, 0, NULL},
    {"_assert_async.msg(Tensor self, str assert_msg) -> ()", nothing, 0, NULL},
    {"sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()", nothing, 0, NULL},
    {"item(Tensor self) -> Scalar", item_row, 0, NULL},
    {"_local_scalar_dense(Tensor self) -> Scalar", item_row, 0, NULL},
    {"sym_size.int(Tensor self, int dim) -> SymInt", size_row, 0, NULL},
    {"size.int(Tensor self, int dim) -> int", size_row, 0, NULL},
    {"size(Tensor self) -> int[]", sizes_row, 0, NULL},
    {"sym_numel(Tensor self) -> SymInt", numel_row, 0, NULL},
    {"numel(Tensor self) -> int", numel_row, 0, NULL},
    {"dim(Tensor self) -> int", dim_row, 0, NULL},
    {"is_floating_point(Tensor self) -> bool", is_float_row, 0, NULL},
    {"float(Tensor self) -> Tensor", to_fixed, DT_F32, NULL},
    {"rand(SymInt[] size, *, ScalarType? dtype=None) -> Tensor", NULL, 0, "random numbers depend on PyTorch's generator"},
    {"randn(SymInt[] size, *, ScalarType? dtype=None) -> Tensor", NULL, 0, "random numbers depend on PyTorch's generator"},
    {"rand_like(Tensor self, *, ScalarType? dtype=None) -> Tensor", NULL, 0, "random numbers depend on PyTorch's generator"},
    {"randn_like(Tensor self, *, ScalarType? dtype=None) -> Tensor", NULL, 0, "random numbers depend on PyTorch's generator"},
    {"randperm(SymInt n, *, ScalarType? dtype=None) -> Tensor", NULL, 0, "random numbers depend on PyTorch's generator"},
    {"bernoulli(Tensor self) -> Tensor", NULL, 0, "random numbers depend on PyTorch's generator"},
    // clang-format on
};
ATEN_TABLE(make);
