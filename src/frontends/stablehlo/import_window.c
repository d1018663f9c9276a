// import_window.c -- reduce_window, select_and_scatter.
//
// A window of w elements along an axis is joined from windows of 1, 2, 4, ... elements, so that it
// takes log w steps over whole tensors, whatever the body is; axes one after another.  Windows
// start at every place; the ones that the strides ask for are picked in the end.
#include "frontends/stablehlo/import.h"

#include "eval/index.h"
#include "eval/window.h"

#include <math.h>

// Joins n values with n others, element by element.
typedef bool Join(HloCall *c, const HloValue *a, const HloValue *b, HloValue *out, int64_t n);

typedef struct Windows {
  int rank;
  Ints size, stride, dilation, base, padding;
  int64_t dims[MAX_RANK];  // windows along each axis, at every place; INT64_MAX: not known
} Windows;

static bool read_windows(HloCall *c, Windows *w, const char *sizes, const char *strides) {
  int64_t span;
  w->rank = hlo_rank(&c->in[0]);
  w->size = hlo_ints_or(c, sizes, w->rank, 1);
  w->stride = hlo_ints_or(c, strides, w->rank, 1);
  w->dilation = hlo_ints_or(c, "window_dilations", w->rank, 1);
  w->base = hlo_ints_or(c, "base_dilations", w->rank, 1);
  w->padding = hlo_ints_or(c, "padding", 2 * w->rank, 0);
  for (int i = 0; i < w->rank && !c->g->status; i++)
    if (w->size.v[i] < 1 || w->stride.v[i] < 1 || w->dilation.v[i] < 1 || w->base.v[i] < 1 ||
        !ck_mul(w->size.v[i], w->dilation.v[i], &span))
      hlo_fail(c, "sizes, strides and dilations must be 1 or more, and have a product");
  return !c->g->status;
}

static Node *padded(HloCall *c, const Windows *w, Node *x, Node *value) {
  int64_t low[MAX_RANK], high[MAX_RANK], gap[MAX_RANK];
  for (int i = 0; i < w->rank; i++) {
    low[i] = w->padding.v[2 * i];
    high[i] = w->padding.v[2 * i + 1];
    gap[i] = w->base.v[i] - 1;
  }
  return hb_pad(c->g, x, value, w->rank, low, high, gap);
}

// Counted from the end, so that the size need not be known.
typedef struct Part {
  int64_t axis, before, after;  // elements that are left out
} Part;
static Node *cut(HloCall *c, Node *x, void *ctx) {
  const Part *p = ctx;
  if (c->g->status) return c->g->poison;
  Dim n = type_of(x)->dims[p->axis];
  int64_t to = ie_is_const(n) ? n->value - p->after : p->after ? -p->after : INT64_MAX;
  return hb_slice1(c->g, x, p->axis, p->before, to, 1);
}
static void cut_all(HloCall *c, const HloValue *v, int64_t n, Part p, HloValue *out) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = hlo_moved(c, &v[i], cut, &p);
    out[i].type = v[i].type;
  }
}

// Windows along one axis.
static bool along(HloCall *c, Join *join, HloValue *v, int64_t n, int64_t axis, int64_t size,
                  int64_t dilation) {
  Arena *a = c->h->arena;
  HloValue *power = arena_array(a, HloValue, n + 1), *sum = arena_array(a, HloValue, n + 1);
  HloValue *x = arena_array(a, HloValue, n + 1), *y = arena_array(a, HloValue, n + 1);
  int64_t done = 0;
  for (int64_t i = 0; i < n; i++) power[i] = v[i];
  for (int64_t p = 1; p <= size; p *= 2) {
    if (size & p) {  // windows of p elements, as many as there are of the whole size
      cut_all(c, power, n, (Part){axis, done * dilation, (size - done - p) * dilation}, y);
      if (!done)
        for (int64_t i = 0; i < n; i++) sum[i] = y[i];
      else if (!join(c, sum, y, sum, n))
        return false;
      done += p;
    }
    if (2 * p > size) break;
    cut_all(c, power, n, (Part){axis, 0, p * dilation}, x);
    cut_all(c, power, n, (Part){axis, p * dilation, 0}, y);
    if (!join(c, x, y, power, n)) return false;
  }
  for (int64_t i = 0; i < n; i++) v[i] = sum[i];
  return !c->g->status;
}

static Node *strided(HloCall *c, Node *x, void *ctx) {
  const Windows *w = ctx;
  int64_t zero[MAX_RANK] = {0};
  return hb_slice(c->g, x, w->rank, zero, w->dims, w->stride.v);
}

// All axes; false also where there is no window at all, with *empty set.
static bool windows(HloCall *c, Join *join, HloValue *v, int64_t n, Windows *w, bool *empty) {
  *empty = false;
  for (int i = 0; i < w->rank; i++) {
    Dim length = type_of(v[0].re)->dims[i];
    w->dims[i] =
        ie_is_const(length) ? length->value - (w->size.v[i] - 1) * w->dilation.v[i] : INT64_MAX;
    *empty = *empty || w->dims[i] < 1;
  }
  if (*empty) return false;
  // The innermost first, so that elements are joined in the order in which they lie.
  for (int i = w->rank - 1; i >= 0; i--)
    if (w->size.v[i] > 1 && !along(c, join, v, n, i, w->size.v[i], w->dilation.v[i])) return false;
  for (int64_t i = 0; i < n; i++) v[i] = hlo_moved(c, &v[i], strided, w);
  return !c->g->status;
}

// ---- reduce_window ----
static bool by_body(HloCall *c, const HloValue *a, const HloValue *b, HloValue *out, int64_t n) {
  HloValue *args = arena_array(c->h->arena, HloValue, 2 * n + 1);
  for (int64_t i = 0; i < n; i++) {
    args[i] = a[i];
    args[n + i] = b[i];
  }
  return hlo_lifted(c, 0, args, 2 * n, out, n);
}

// Sums of halves are added up in f32.
static bool sums_halves(const HloCall *c) {
  const char *op = hlo_body_op(c->op, 0);
  DType t = type_of(c->in[0].re)->dtype;
  return op && c->nin == 2 && (t == DT_F16 || t == DT_BF16);
}

static Node *expand_to(HloCall *c, Node *x, void *ctx) {
  int64_t dims[MAX_RANK];
  (void)ctx;
  return hlo_static_type(c, c->type[0], dims) ? hb_expand(c->g, x, (int)c->type[0]->rank, dims) : x;
}

// ---- pools ---- Windows along all axes but two are the graph's pools: the largest, or the mean of
// as many times the sum.
static bool known_is(Graph *g, const Node *x, double v) {
  const Value *k = node_known(g, x);
  return k && k->n == 1 && val_f64(k, 0) == v;
}

static bool pool_axes(const Windows *w, const Dim *dims, int64_t *perm, int64_t *size) {
  int64_t kept = 0, spatial = 2;
  *size = 1;
  if (w->rank < 3 || w->rank > 5) return false;
  for (int i = 0; i < w->rank; i++) {
    bool plain = w->size.v[i] == 1 && w->stride.v[i] == 1 && !w->padding.v[2 * i] &&
                 !w->padding.v[2 * i + 1];
    // The first two that nothing happens along are batch and channels; pads must lie within the
    // window.
    if (plain && kept < 2) {
      perm[kept++] = i;
    } else {
      if (spatial >= w->rank) return false;
      perm[spatial++] = i;
    }
    int64_t reach = w->size.v[i] * w->dilation.v[i];
    for (int k = 0; k < 2; k++)
      if (w->padding.v[2 * i + k] < 0 || w->padding.v[2 * i + k] >= reach) return false;
    if (w->base.v[i] != 1 || w->size.v[i] > 1 << 10) return false;
    // a size that is not known may be too small for one window; where there is none, nothing
    // depends on it
    if (ie_is_const(dims[i]) ? dims[i]->value < reach : reach > 1) return false;
    *size *= w->size.v[i];
  }
  return kept == 2;
}

static bool pool(HloCall *c, const Windows *w) {
  Graph *g = c->g;
  const char *op = hlo_body_op(c->op, 0);
  int64_t perm[MAX_RANK], back[MAX_RANK], v[5][MAX_RANK], size;
  int n = w->rank - 2;
  if (!op || c->nin != 2 || c->in[0].im || type_of(c->in[0].re)->dtype != DT_F32) return false;
  bool largest = !strcmp(op, "stablehlo.maximum") && known_is(g, c->in[1].re, -INFINITY);
  bool sum = !strcmp(op, "stablehlo.add") && known_is(g, c->in[1].re, 0);
  if ((!largest && !sum) || !pool_axes(w, type_of(c->in[0].re)->dims, perm, &size)) return false;
  for (int i = 0; i < n; i++) {
    int64_t d = perm[2 + i];
    v[0][i] = w->size.v[d];
    v[1][i] = w->stride.v[d];
    v[2][i] = w->dilation.v[d];
    v[3][i] = w->padding.v[2 * d];
    v[3][n + i] = w->padding.v[2 * d + 1];
  }
  for (int i = 0; i < w->rank; i++) back[perm[i]] = i;
  Ints kernel = {n, v[0]}, strides = {n, v[1]}, dilations = {n, v[2]}, pads = {2 * n, v[3]};
  Node *x = hb_transpose(g, c->in[0].re, w->rank, perm), *y;
  if (largest) {
    max_pool_attrs at = {
        .kernel_shape = kernel, .strides = strides, .dilations = dilations, .pads = pads};
    y = node_proj(g, node_new(g, OP_max_pool, 1, &x, &at, 1, NULL), 0);
  } else {
    average_pool_attrs at = {.kernel_shape = kernel,
                             .strides = strides,
                             .dilations = dilations,
                             .pads = pads,
                             .count_include_pad = 1};
    y = NA(g, average_pool, &at, x);
    y = N(g, mul, y, hb_num(g, y, (double)size));
  }
  hlo_give(c, hb_transpose(g, y, w->rank, back));
  return true;
}

static void reduce_window(HloCall *c) {
  Graph *g = c->g;
  Windows w;
  int64_t n = c->nin / 2;
  bool empty;
  for (int64_t i = 0; i < c->nin; i++)
    if (!c->in[i].re) {
      hlo_refuse(c, "operand %lld is no tensor", (long long)i);
      return;
    }
  if (n < 1 || !read_windows(c, &w, "window_dimensions", "window_strides")) return;
  if (pool(c, &w)) return;
  HloValue *v = arena_array(c->h->arena, HloValue, n + 1),
           *out = arena_array(c->h->arena, HloValue, n + 1);
  bool wide = sums_halves(c);
  for (int64_t i = 0; i < n; i++) {
    v[i] = (HloValue){.type = c->in[i].type, .re = padded(c, &w, c->in[i].re, c->in[n + i].re)};
    if (c->in[i].im) v[i].im = padded(c, &w, c->in[i].im, c->in[n + i].im);
    if (wide) v[i].re = hb_cast(g, v[i].re, DT_F32);
  }
  if (g->status) return;
  HloValue *init = c->in + n;
  if (!windows(c, by_body, v, n, &w, &empty)) {
    for (int64_t i = 0; empty && i < n; i++)
      hlo_give_value(c, i, hlo_moved(c, &init[i], expand_to, NULL));
    return;
  }
  for (int64_t i = 0; i < n; i++) out[i] = v[i];
  HloValue first = init[0];
  if (wide) first.re = hb_cast(g, first.re, DT_F32);
  if (!by_body(c, wide ? &first : init, v, out, n)) return;
  for (int64_t i = 0; i < n; i++) {
    if (wide) out[i].re = hb_cast(g, out[i].re, type_of(c->in[i].re)->dtype);
    hlo_give_value(c, i, out[i]);
  }
}

// ---- windows whose sizes are operands ---- As jax writes them:
// @stablehlo.dynamic_reduce_window(operands, initial values, window, strides, base dilations,
// window dilations, padding), the body a function.
enum { WINDOW, STRIDE, BASE, DILATION, PADDING, GIVEN };
typedef struct GivenWindows {
  int64_t n;  // operands
  int rank;
  HloSize v[GIVEN][2 * MAX_RANK];
} GivenWindows;

static bool read_given(HloCall *c, GivenWindows *w) {
  Graph *g = c->g;
  w->n = (c->nin - GIVEN) / 2;
  if (w->n < 1 || c->nin != 2 * w->n + GIVEN) {
    hlo_fail(c, "%lld operands", (long long)c->nin);
    return false;
  }
  for (int64_t i = 0; i < c->nin; i++) hlo_in(c, i);  // each is a real tensor
  w->rank = hlo_rank(&c->in[0]);
  for (int k = 0; k < GIVEN && !g->status; k++) {
    int64_t n = k == PADDING ? 2 * w->rank : w->rank;
    if (!hs_read(c, hb_reshape(g, hlo_in(c, 2 * w->n + k), 1, &n), w->v[k], n)) return false;
  }
  return !g->status;
}

// The call as an operation with the function as its region, and its sizes, where all are numbers,
// as attributes.
static MlirOp *as_operation(HloCall *c, const GivenWindows *w, const MlirFunc *body) {
  static const char *const name[GIVEN] = {"window_dimensions", "window_strides", "base_dilations",
                                          "window_dilations", "padding"};
  Arena *a = c->h->arena;
  MlirOp *op = arena_new(a, MlirOp);
  MlirField *field = arena_array(a, MlirField, GIVEN);
  MlirBlock *block = arena_new(a, MlirBlock), **blocks = arena_array(a, MlirBlock *, 1);
  MlirRegion *region = arena_new(a, MlirRegion), **regions = arena_array(a, MlirRegion *, 1);
  *block = *body->body;
  blocks[0] = block;
  *region = (MlirRegion){blocks, 1};
  regions[0] = region;
  *op = *c->op;
  op->regions = regions;
  op->nregions = 1;
  for (int k = 0; k < GIVEN; k++) {
    int64_t n = k == PADDING ? 2 * w->rank : w->rank;
    int64_t *v = arena_array(a, int64_t, n + 1);
    for (int64_t i = 0; i < n; i++) {
      if (w->v[k][i].node) return op;
      v[i] = w->v[k][i].n;
    }
    MlirAttr *value = arena_new(a, MlirAttr);
    *value = (MlirAttr){.kind = MA_INTS, .ints = v, .n = n};
    field[k] = (MlirField){name[k], value};
  }
  op->attrs = field;
  op->nattrs = GIVEN;
  return op;
}

// Windows that reach from each element to the axis' beginning, or its end: that axis; -1: others.
static int running_axis(Graph *g, const GivenWindows *w, const HloSize *dims, bool *from_end) {
  int axis = -1;
  for (int i = 0; i < w->rank; i++) {
    const HloSize *pad = &w->v[PADDING][2 * i];
    for (int k = STRIDE; k <= DILATION; k++)
      if (!hs_is(w->v[k][i], 1)) return -1;
    if (hs_is(w->v[WINDOW][i], 1) && hs_is(pad[0], 0) && hs_is(pad[1], 0)) continue;
    HloSize others = hs_sub(g, dims[i], hs_num(1));
    *from_end = hs_is(pad[0], 0);
    if (axis >= 0 || !hs_same(w->v[WINDOW][i], dims[i]) || !hs_same(pad[*from_end], others) ||
        !hs_is(pad[!*from_end], 0))
      return -1;
    axis = i;
  }
  return axis;
}

static bool running(HloCall *c, const GivenWindows *w, const char *op) {
  Graph *g = c->g;
  HloSize dims[MAX_RANK];
  bool from_end = false, sum = op && !strcmp(op, "stablehlo.add");
  if (!op || w->n != 1 || (!sum && strcmp(op, "stablehlo.multiply"))) return false;
  hs_all(c, &c->in[0], dims);
  int axis = running_axis(g, w, dims, &from_end);
  if (axis < 0 || type_of(c->in[0].re)->dtype == DT_BOOL) return false;
  if (!known_is(g, c->in[1].re, sum ? 0 : 1)) return false;
  Node *src[] = {c->in[0].re, node_i64(g, axis)};
  cum_attrs at = {.reverse = from_end};
  hlo_give(c, node_new(g, sum ? OP_cum_sum : OP_cum_prod, 2, src, &at, 0, NULL));
  return true;
}

void hlo_dynamic_reduce_window(HloCall *c) {
  GivenWindows w;
  const MlirAttr *called = mlir_attr(c->op, "called_computations");
  const char *name =
      called && called->kind == MA_ARRAY && called->n == 1 ? mlir_word(called->items[0], "") : "";
  const MlirFunc *body = mlir_func(c->h->m, str_of(name));
  if (!body || !body->body) {
    hlo_fail(c, "calls no function of the module");
    return;
  }
  if (c->h->lift) {  // a function could be its own body
    hlo_refuse(c, "@stablehlo.dynamic_reduce_window within a body on scalars");
    return;
  }
  if (!read_given(c, &w)) return;
  HloCall as = *c;
  as.op = as_operation(c, &w, body);
  as.nin = 2 * w.n;
  if (mlir_attr(as.op, "window_dimensions"))
    reduce_window(&as);
  else if (!running(&as, &w, hlo_body_op(as.op, 0)) && !c->g->status)
    hlo_refuse(c, "@stablehlo.dynamic_reduce_window with windows that are data");
}

// ---- select_and_scatter ---- Values of windows are (element, its place, whether it is one and no
// padding); the body says whether to keep the first.
static bool by_choice(HloCall *c, const HloValue *a, const HloValue *b, HloValue *out, int64_t n) {
  Graph *g = c->g;
  HloValue args[2] = {a[0], b[0]}, keep;
  (void)n;
  if (!hlo_lifted(c, 0, args, 2, &keep, 1)) return false;
  Node *first = N(g, or, N(g, not, b[2].re), N(g, and, a[2].re, keep.re));
  HloValue got[3];
  for (int i = 0; i < 3; i++)
    got[i] = (HloValue){.type = a[i].type, .re = hb_where(g, first, a[i].re, b[i].re)};
  got[2].re = N(g, or, a[2].re, b[2].re);
  for (int i = 0; i < 3; i++) out[i] = got[i];
  return true;
}

static void select_and_scatter(HloCall *c) {
  Graph *g = c->g;
  Windows w;
  const char *op = hlo_body_op(c->op, 1);
  int64_t dims[MAX_RANK], count, m;
  bool empty;
  Node *x = hlo_in(c, 0), *source = hlo_in(c, 1), *init = hlo_in(c, 2);
  static const struct {
    const char *op;
    int mode;
  } modes[] = {{"stablehlo.add", SCATTER_ADD},     {"stablehlo.or", SCATTER_MAX},
               {"stablehlo.and", SCATTER_MIN},     {"stablehlo.multiply", SCATTER_MUL},
               {"stablehlo.maximum", SCATTER_MAX}, {"stablehlo.minimum", SCATTER_MIN}};
  int mode = -1;
  for (int64_t i = 0; op && i < ARRAY_LEN(modes); i++)
    if (!strcmp(op, modes[i].op)) mode = modes[i].mode;
  if (mode < 0) hlo_refuse(c, "with another scatter than add, multiply, maximum or minimum");
  if (g->status || !hlo_static(c, &c->in[0], dims) ||
      !read_windows(c, &w, "window_dimensions", "window_strides"))
    return;
  if (!shape_count(w.rank, dims, &count)) return;
  Node *place = hb_reshape(g, hb_iota(g, DT_I64, 1, &count, 0), w.rank, dims);
  Node *real = N(g, eq, place, place);
  HloValue v[3] = {{.type = c->in[0].type, .re = padded(c, &w, x, hb_num(g, x, 0))},
                   {.re = padded(c, &w, place, node_i64(g, count))},
                   {.re = padded(c, &w, real, node_scalar(g, DT_BOOL, 0))}};
  if (g->status) return;
  Node *full = hb_expand(g, init, 1, (int64_t[]){count + 1});
  if (windows(c, by_choice, v, 3, &w, &empty)) {
    Node *at = hb_where(g, v[2].re, v[1].re, node_i64(g, count));
    m = 1;
    for (int i = 0; i < w.rank; i++) m *= type_of(at)->dims[i]->value;
    full = NA(g, scatter_elements, (&(scatter_elements_attrs){.axis = 0, .reduction = mode}), full,
              hb_reshape(g, at, 1, &m), hb_reshape(g, source, 1, &m));
  } else if (!empty) {
    return;
  }
  hlo_give(c, hb_reshape(g, hb_slice1(g, full, 0, 0, count, 1), w.rank, dims));
}

// clang-format off
static const HloRow rows[] = {
    {"stablehlo.reduce_window",      reduce_window,      0, HLO_PLAIN, NULL},
    {"stablehlo.select_and_scatter", select_and_scatter, 0, HLO_PLAIN, "scatters by add, multiply, maximum or minimum"},
};
// clang-format on
HLO_TABLE(hlo_window);
