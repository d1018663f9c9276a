// import_shape.c -- shapes, joining and cutting.
#include "eval/movement.h"
#include "frontends/tflite/import.h"

// ---- shapes ----

// The shape that is known while reading: input 1, or the options of older files; false: it is not.
static bool known_shape(TflOp *op, int64_t *dims, int *n) {
  Node *shape = tfl_in_opt(op, 1);
  Ints known;
  if (shape && tfl_rank(op, shape) == 1) {
    if (!tfl_ints(op, 1, &known)) return false;
    *n = (int)MIN(known.n, MAX_RANK);
    for (int i = 0; i < *n; i++) dims[i] = known.v[i];
    return known.n <= MAX_RANK;
  }
  FbVector v = fb_vector(&op->o->options, 0, 4);
  *n = (int)MIN(v.n, MAX_RANK);
  for (int i = 0; i < *n; i++) dims[i] = fb_i32_at(&v, i);
  if (*n == 1 && dims[0] == 0) *n = 0;  // a scalar, as older converters wrote it
  return v.n <= MAX_RANK;
}

static void reshape_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int64_t dims[MAX_RANK];
  int n;
  bool known = known_shape(op, dims, &n);
  if (g->status) return;
  if (!known && !tfl_in_opt(op, 1)) {
    tfl_fail(op, "to a shape that is not known, or of too high a rank");
    return;
  }
  tfl_give(op, 0,
           known ? tb_reshape(g, x, n, dims)
                 : NA(g, reshape, (&(reshape_attrs){.allowzero = true}), x, tfl_in_i64(op, 1)));
}

static void squeeze_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  FbVector v = fb_vector(&op->o->options, 0, 4);
  int rank = tfl_rank(op, x);
  int64_t axes[MAX_RANK];
  if (g->status) return;
  if (!v.n) {
    tfl_give(op, 0, N(g, squeeze, x));
    return;
  }
  if (v.n > MAX_RANK) tfl_fail(op, "%lld axes", (long long)v.n);
  for (int64_t i = 0; i < v.n && !g->status; i++) axes[i] = tfl_axis(op, fb_i32_at(&v, i), rank);
  tfl_give(op, 0, N(g, squeeze, x, node_i64s(g, MIN(v.n, MAX_RANK), axes)));
}

static void expand_dims(TflOp *op) {
  Node *x = tfl_in(op, 0);
  int rank = tfl_rank(op, x);
  Ints axis = tfl_need_ints(op, 1, "the axis");
  if (!op->g->status && axis.n != 1) tfl_fail(op, "%lld axes", (long long)axis.n);
  if (op->g->status) return;
  tfl_give(op, 0, tb_unsqueeze(op->g, x, tfl_axis(op, axis.v[0], rank + 1)));
}

static void shape_row(TflOp *op) {
  Node *x = tfl_in(op, 0);
  int rank = tfl_rank(op, x);
  if (tfl_need(op, 1, 1))
    tfl_give(op, 0, tb_cast(op->g, tb_dims(op->g, x, 0, rank), tfl_out_tensor(op, 0)->dtype));
}
static void rank_row(TflOp *op) {
  int rank = tfl_rank(op, tfl_in(op, 0));
  if (!op->g->status) tfl_give(op, 0, node_scalar(op->g, DT_I32, rank));
}

static void fill(TflOp *op) { tfl_give(op, 0, N(op->g, expand, tfl_in(op, 1), tfl_in_i64(op, 0))); }
static void range_row(TflOp *op) {
  tfl_give(op, 0, N(op->g, range, tfl_in(op, 0), tfl_in(op, 1), tfl_in(op, 2)));
}
static void tile_row(TflOp *op) {
  tfl_give(op, 0, N(op->g, tile, tfl_in(op, 0), tfl_in_i64(op, 1)));
}
static void broadcast_to(TflOp *op) {
  tfl_give(op, 0, N(op->g, expand, tfl_in(op, 0), tfl_in_i64(op, 1)));
}

// The shape that two shapes broadcast to.
static void broadcast_args(TflOp *op) {
  Graph *g = op->g;
  Node *s[] = {tfl_in(op, 0), tfl_in(op, 1)};
  int64_t n[2];
  for (int i = 0; i < 2; i++)
    if (tfl_rank(op, s[i]) != 1) tfl_fail(op, "shapes must have rank 1");
  for (int i = 0; i < 2; i++) n[i] = tfl_size(op, s[i], 0);
  if (g->status) return;
  if (n[0] > MAX_RANK || n[1] > MAX_RANK) {
    tfl_fail(op, "shapes of rank %lld and %lld", (long long)n[0], (long long)n[1]);
    return;
  }
  int shorter = n[0] < n[1] ? 0 : 1;
  int64_t missing = n[1 - shorter] - n[shorter];
  Node *one = tb_num(g, s[0], 1);
  if (missing > 0)
    s[shorter] =
        tb_concat(g, 0, 2, (Node *[]){N(g, expand, one, node_i64s(g, 1, &missing)), s[shorter]});
  tfl_give(op, 0, N(g, where, N(g, eq, s[0], one), s[1], s[0]));
}

// ---- joining and cutting ----

static Node *joined(TflOp *op, int64_t axis, bool stack) {
  Graph *g = op->g;
  if (op->nin < 1) return tfl_fail(op, "nothing to join");
  Node **x = arena_array(&g->arena, Node *, op->nin);
  for (int i = 0; i < op->nin && !g->status; i++) {
    x[i] = tfl_in(op, i);
    if (stack) x[i] = tb_unsqueeze(g, x[i], tfl_axis(op, axis, tfl_rank(op, x[i]) + 1));
  }
  if (g->status) return g->poison;
  return tb_concat(g, tfl_axis(op, axis, tfl_rank(op, x[0])), op->nin, x);
}
static void concatenation(TflOp *op) {
  Node *y = joined(op, tfl_opt_i32(op, 0, 0), false);
  tfl_give(op, 0, tfl_activate(op, y, tfl_opt_i8(op, 1, 0)));
}
static void hlo_concatenate(TflOp *op) {
  tfl_give(op, 0, joined(op, fb_i64(&op->o->options2, 0, 0), false));
}
static void pack(TflOp *op) {
  Graph *g = op->g;
  int64_t axis = tfl_opt_i32(op, 1, 0);
  int rank = tfl_rank(op, tfl_in(op, 0));
  if (!g->status) tfl_give(op, 0, joined(op, tfl_axis(op, axis, rank + 1), true));
}

enum { MOST_PARTS = 4096 };

static void give_parts(TflOp *op, Node *x, Node *sizes, int64_t axis, bool squeeze) {
  Graph *g = op->g;
  if (op->nout < 1 || op->nout > MOST_PARTS) tfl_fail(op, "%d parts", op->nout);
  if (g->status) return;
  split_attrs at = {.axis = axis, .num_outputs = sizes ? 0 : op->nout};
  Node *src[] = {x, sizes};
  Node *y = node_new(g, OP_split, sizes ? 2 : 1, src, &at, op->nout, NULL);
  for (int i = 0; i < op->nout; i++) {
    Node *part = node_proj(g, y, i);
    tfl_give(op, i, squeeze ? tb_squeeze(g, part, axis) : part);
  }
}

static int64_t axis_input(TflOp *op, int i, int rank) {
  Ints axis = tfl_need_ints(op, i, "the axis");
  if (!op->g->status && axis.n != 1) tfl_fail(op, "%lld axes", (long long)axis.n);
  return op->g->status ? 0 : tfl_axis(op, axis.v[0], rank);
}
static void split_row(TflOp *op) {  // (axis, x)
  Node *x = tfl_in(op, 1);
  int64_t axis = axis_input(op, 0, tfl_rank(op, x)), size = tfl_size(op, x, (int)axis);
  if (!op->g->status && (op->nout < 1 || size % op->nout || tfl_opt_i32(op, 0, 0) != op->nout))
    tfl_fail(op, "%d parts of %lld", op->nout, (long long)size);
  give_parts(op, x, NULL, axis, false);
}
static void split_v(TflOp *op) {  // (x, sizes, axis)
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  Ints sizes = tfl_need_ints(op, 1, "the sizes");
  int64_t axis = axis_input(op, 2, tfl_rank(op, x)), rest = -1, sum = 0;
  if (g->status) return;
  int64_t *part = arena_array(&g->arena, int64_t, sizes.n + 1);
  for (int64_t i = 0; i < sizes.n; i++) {
    part[i] = sizes.v[i];
    if (part[i] == -1 && rest < 0)
      rest = i;
    else if (part[i] < 0 || !ck_add(sum, part[i], &sum))
      tfl_fail(op, "a part of %lld", (long long)part[i]);
  }
  if (rest >= 0) part[rest] = tfl_size(op, x, (int)axis) - sum;
  if (rest >= 0 && part[rest] < 0) tfl_fail(op, "the parts are larger than the whole");
  if (sizes.n != op->nout) tfl_fail(op, "%lld sizes, %d parts", (long long)sizes.n, op->nout);
  give_parts(op, x, g->status ? NULL : node_i64s(g, sizes.n, part), axis, false);
}
static void unpack(TflOp *op) {
  Node *x = tfl_in(op, 0);
  int64_t axis = tfl_axis(op, tfl_opt_i32(op, 1, 0), tfl_rank(op, x));
  int64_t size = tfl_size(op, x, (int)axis);
  if (!op->g->status && size != op->nout)
    tfl_fail(op, "%lld rows, %d outputs", (long long)size, op->nout);
  give_parts(op, x, NULL, axis, true);
}

// ---- slices ----

static void slice_row(TflOp *op) {  // (x, begin, size)
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *begin = tfl_in_i64(op, 1);
  Node *size = tfl_in_i64(op, 2);
  Node *whole = N(g, eq, size, node_i64(g, -1));
  Node *end = N(g, where, whole, node_i64(g, INT64_MAX), N(g, add, begin, size));
  tfl_give(op, 0, N(g, slice, x, begin, end));
}

typedef struct Strided {
  int64_t begin_mask, end_mask, ellipsis, new_axis, shrink;
  bool offset;
  Node *begin, *end;
  Ints stride;
  int n;
  Node *from[MAX_RANK], *to[MAX_RANK];  // of each axis that is cut, i64[1]
  int64_t step[MAX_RANK], axis[MAX_RANK];
  int64_t squeezed[MAX_RANK], added[2 * MAX_RANK];
  int ncut, nsqueezed, nadded;
} Strided;

static Node *number(Graph *g, int64_t v) { return node_i64s(g, 1, &v); }

// Entry i of the operands cuts axis `axis`.
static void cut_axis(TflOp *op, Strided *s, int i, int axis) {
  Graph *g = op->g;
  int64_t step = s->stride.v[i], bit = INT64_C(1) << i;
  bool shrink = (s->shrink & bit) != 0;
  Node *from = tb_slice(g, s->begin, 0, i, i + 1), *to = tb_slice(g, s->end, 0, i, i + 1);
  if (s->offset) to = N(g, add, from, to);
  if (s->begin_mask & bit) from = number(g, step > 0 ? 0 : INT64_MAX);
  if (s->end_mask & bit) to = number(g, step > 0 ? INT64_MAX : INT64_MIN);
  if (shrink) {  // the element at `begin`, whatever end and stride say
    step = 1;
    to = N(g, where, N(g, eq, from, number(g, -1)), number(g, INT64_MAX),
           N(g, add, from, number(g, 1)));
    s->squeezed[s->nsqueezed++] = axis;
  }
  s->from[s->ncut] = from;
  s->to[s->ncut] = to;
  s->step[s->ncut] = step;
  s->axis[s->ncut++] = axis;
}

// Where each entry goes: an ellipsis stands for as many axes as the others leave.
static void walk_entries(TflOp *op, Strided *s, int rank) {
  int taken = 0, axis = 0, place = 0;
  for (int i = 0; i < s->n; i++) {
    int64_t bit = INT64_C(1) << i;
    if (!(s->ellipsis & bit) && !(s->new_axis & bit)) taken++;
  }
  bool seen = false;
  for (int i = 0; i < s->n && !op->g->status; i++) {
    int64_t bit = INT64_C(1) << i;
    if (s->ellipsis & bit) {
      if (seen || taken > rank) tfl_fail(op, "an ellipsis too many, or too many entries");
      seen = true;
      axis += rank - taken;
      place += rank - taken;
    } else if (s->new_axis & bit) {
      s->added[s->nadded++] = place++;
    } else if (axis >= rank) {
      tfl_fail(op, "%d entries for rank %d", taken, rank);
    } else {
      cut_axis(op, s, i, axis++);
      if (!(s->shrink & bit)) place++;
    }
  }
}

static void strided_slice(TflOp *op) {  // (x, begin, end, strides)
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  Strided s = {.begin_mask = tfl_opt_i32(op, 0, 0),
               .end_mask = tfl_opt_i32(op, 1, 0),
               .ellipsis = tfl_opt_i32(op, 2, 0),
               .new_axis = tfl_opt_i32(op, 3, 0),
               .shrink = tfl_opt_i32(op, 4, 0),
               .offset = tfl_opt_bool(op, 5, false),
               .begin = tfl_in_i64(op, 1),
               .end = tfl_in_i64(op, 2),
               .stride = tfl_need_ints(op, 3, "the strides")};
  int rank = tfl_rank(op, x);
  if (g->status) return;
  s.n = (int)MIN(s.stride.n, MAX_RANK + 1);
  if (s.n > MAX_RANK || tfl_rank(op, s.begin) != 1 || tfl_rank(op, s.end) != 1 ||
      tfl_size(op, s.begin, 0) != s.n || tfl_size(op, s.end, 0) != s.n)
    tfl_fail(op, "begin, end and strides must have one length");
  for (int i = 0; i < s.n && !g->status; i++)
    if (!s.stride.v[i]) tfl_fail(op, "stride 0 never ends");
  walk_entries(op, &s, rank);
  if (g->status) return;
  if (s.ncut) {
    Node *from = tb_concat(g, 0, s.ncut, s.from), *to = tb_concat(g, 0, s.ncut, s.to);
    x = N(g, slice, x, from, to, node_i64s(g, s.ncut, s.axis), node_i64s(g, s.ncut, s.step));
  }
  if (s.nsqueezed) x = N(g, squeeze, x, node_i64s(g, s.nsqueezed, s.squeezed));
  if (s.nadded) x = N(g, unsqueeze, x, node_i64s(g, s.nadded, s.added));
  tfl_give(op, 0, x);
}

static void hlo_slice(TflOp *op) {
  Graph *g = op->g;
  Node *part[3];
  for (int k = 0; k < 3; k++) {
    FbVector v = fb_vector(&op->o->options2, k, 8);
    int64_t list[MAX_RANK];
    if (v.n > MAX_RANK || (k == 2 && v.n == 0)) tfl_fail(op, "no limits or strides");
    for (int64_t i = 0; i < v.n && !g->status; i++) list[i] = fb_i64_at(&v, i);
    for (int64_t i = 0; i < v.n && k == 2 && !g->status; i++)
      if (list[i] < 1) tfl_fail(op, "stride %lld", (long long)list[i]);
    if (g->status) return;
    part[k] = node_i64s(g, v.n, list);
  }
  tfl_give(op, 0,
           node_new(g, OP_slice, 5, (Node *[]){tfl_in(op, 0), part[0], part[1], g->none, part[2]},
                    NULL, 0, NULL));
}

static const TflRow rows[] = {
    // clang-format off
    {2,   "CONCATENATION",         concatenation,   4, 0},
    {22,  "RESHAPE",               reshape_row,     2, 0},
    {43,  "SQUEEZE",               squeeze_row,     3, 0},
    {45,  "STRIDED_SLICE",         strided_slice,   8, 0},
    {49,  "SPLIT",                 split_row,       4, 0},
    {65,  "SLICE",                 slice_row,       7, 0},
    {69,  "TILE",                  tile_row,        3, 0},
    {70,  "EXPAND_DIMS",           expand_dims,     2, 0},
    {77,  "SHAPE",                 shape_row,       1, 0},
    {83,  "PACK",                  pack,            5, 0},
    {88,  "UNPACK",                unpack,          4, 0},
    {94,  "FILL",                  fill,            4, 0},
    {96,  "RANGE",                 range_row,       2, 0},
    {102, "SPLIT_V",               split_v,         3, 0},
    {110, "RANK",                  rank_row,        1, 0},
    {130, "BROADCAST_TO",          broadcast_to,    4, 0},
    {145, "BROADCAST_ARGS",        broadcast_args,  1, 0},
    {169, "STABLEHLO_CONCATENATE", hlo_concatenate, 1, 0},
    {172, "STABLEHLO_SLICE",       hlo_slice,       1, 0},
    // clang-format on
};
TFL_TABLE(shape);
