// import_index.c -- gather and scatter.
//
// Both address a tensor by rows of start indices and by offsets within a window.  In general each
// element's place is computed as one number, its position in the flat operand, by adding what every
// axis contributes; a gather whose windows are whole slices along one axis is the graph's own.
#include "frontends/stablehlo/import.h"

#include "eval/control.h"
#include "eval/index.h"
#include "frontends/common/close.h"

// Where the elements of a tensor of `rank` and `dims` (gather's result, scatter's updates) lie in
// an operand.
typedef struct Addressing {
  Node *indices;
  int64_t vector_dim;
  Ints map;              // operand axis of each number of an index
  Ints batch, batch_at;  // operand axes that run along with axes of the indices
  Ints dropped;          // operand axes that are in no window
  Ints window;           // axes of the tensor that are offsets
  int rank, operand_rank;
  HloSize dims[MAX_RANK], operand_dims[MAX_RANK];
  // sizes of a window, which is moved to where it fits; NULL: places may lie outside
  const HloSize *slice;
} Addressing;

static bool has(Ints l, int64_t v) {
  for (int64_t i = 0; i < l.n; i++)
    if (l.v[i] == v) return true;
  return false;
}

// The indices with their vector last, as i64.
static Node *vector_last(HloCall *c, Node *x, int64_t axis) {
  Graph *g = c->g;
  if (g->status) return g->poison;
  int rank = type_of(x)->rank;
  x = hb_cast(g, x, DT_I64);
  if (axis == rank) return N(g, unsqueeze, x, node_i64s(g, 1, &axis));
  int64_t perm[MAX_RANK], n = 0;
  for (int i = 0; i < rank; i++)
    if (i != axis) perm[n++] = i;
  perm[n++] = axis;
  return hb_transpose(g, x, rank, perm);
}

// Axes of the tensor that are no offsets, in order.
static int64_t outer_axes(const Addressing *a, int64_t *out) {
  int64_t n = 0;
  for (int i = 0; i < a->rank; i++)
    if (!has(a->window, i)) out[n++] = i;
  return n;
}

static bool addressing_fits(HloCall *c, const Addressing *a) {
  int64_t outer[MAX_RANK], irank = hlo_rank(&(HloValue){.re = a->indices});
  bool fits = a->vector_dim >= 0 && a->vector_dim <= irank && a->batch.n == a->batch_at.n;
  int64_t n = outer_axes(a, outer), expected = a->vector_dim == irank ? irank : irank - 1;
  fits = fits && n == expected && a->window.n + a->dropped.n + a->batch.n == a->operand_rank;
  for (int64_t i = 0; i < a->map.n; i++)
    fits = fits && a->map.v[i] >= 0 && a->map.v[i] < a->operand_rank;
  for (int64_t i = 0; i < a->batch.n; i++)
    fits = fits && a->batch.v[i] >= 0 && a->batch.v[i] < a->operand_rank;
  for (int64_t i = 0; i < a->batch_at.n; i++)
    fits = fits && a->batch_at.v[i] >= 0 && a->batch_at.v[i] < irank;
  for (int64_t i = 0; i < a->window.n; i++)
    fits = fits && a->window.v[i] >= 0 && a->window.v[i] < a->rank;
  if (!fits) hlo_fail(c, "its dimension numbers do not fit its operands");
  return fits;
}

// What each operand axis contributes: NULL, or a node that broadcasts to the tensor.
static void axis_terms(HloCall *c, const Addressing *a, Node **term) {
  Graph *g = c->g;
  Node *rows = vector_last(c, a->indices, a->vector_dim);
  int64_t outer[MAX_RANK], nouter = outer_axes(a, outer);
  HloSize line[MAX_RANK], one = hs_num(1);
  for (int i = 0; i < a->rank; i++) line[i] = has(a->window, i) ? one : a->dims[i];
  for (int64_t k = 0; k < a->map.n && !g->status; k++) {
    Node *x = hs_reshape(g, hb_slice1(g, rows, nouter, k, k + 1, 1), a->rank, line);
    int64_t d = a->map.v[k];
    if (a->slice) {
      HloSize last = hs_max(g, hs_sub(g, a->operand_dims[d], a->slice[d]), 0);
      x = N(g, min, N(g, max, x, node_i64(g, 0)), hs_node(g, last));
    }
    term[d] = x;
  }
  for (int64_t k = 0; k < a->batch.n && !g->status; k++) {
    int64_t at = a->batch_at.v[k] - (a->batch_at.v[k] > a->vector_dim), axis = outer[at];
    for (int i = 0; i < a->rank; i++) line[i] = i == axis ? a->dims[i] : one;
    term[a->batch.v[k]] = hs_iota(g, DT_I64, a->rank, line, axis);
  }
  for (int64_t d = 0, w = 0; d < a->operand_rank && !g->status; d++) {
    if (has(a->dropped, d) || has(a->batch, d)) continue;
    int64_t axis = a->window.v[w++];
    if (hs_is(a->dims[axis], 1)) continue;
    for (int i = 0; i < a->rank; i++) line[i] = i == axis ? a->dims[i] : one;
    Node *x = hs_iota(g, DT_I64, a->rank, line, axis);
    term[d] = term[d] ? N(g, add, term[d], x) : x;
  }
}

// The position of each element, flat; outside of the operand: its number of elements.
static Node *positions(HloCall *c, const Addressing *a) {
  Graph *g = c->g;
  Node *term[MAX_RANK] = {NULL}, *sum = node_i64(g, 0), *inside = NULL;
  HloSize stride = hs_num(1);
  if (!addressing_fits(c, a)) return g->poison;
  axis_terms(c, a, term);
  for (int64_t d = a->operand_rank - 1; d >= 0 && !g->status; d--) {
    HloSize size = a->operand_dims[d];
    if (term[d]) sum = N(g, add, sum, N(g, mul, term[d], hs_node(g, stride)));
    if (term[d] && !a->slice) {
      Node *in = N(g, and, N(g, le, node_i64(g, 0), term[d]), N(g, lt, term[d], hs_node(g, size)));
      inside = inside ? N(g, and, inside, in) : in;
    }
    stride = hs_mul(g, stride, size);
  }
  if (inside) sum = hb_where(g, inside, sum, hs_node(g, stride));
  return hs_expand(g, sum, a->rank, a->dims);
}

static HloSize count_of(Graph *g, int rank, const HloSize *dims) {
  HloSize n = hs_num(1);
  for (int i = 0; i < rank; i++) n = hs_mul(g, n, dims[i]);
  return n;
}

// ---- gather ----
// Whole slices along one axis: the graph's gather, with the offsets moved to their places.
static bool gather_axis(HloCall *c, const Addressing *a) {
  Graph *g = c->g;
  if (a->map.n != 1 || a->batch.n || a->dropped.n != 1 || a->dropped.v[0] != a->map.v[0])
    return false;
  int64_t d = a->map.v[0], outer[MAX_RANK], nouter = outer_axes(a, outer), perm[MAX_RANK];
  HloSize line[MAX_RANK], one = hs_num(1);
  for (int64_t i = 0; i < a->operand_rank; i++)
    if (!hs_same(a->slice[i], i == d ? one : a->operand_dims[i])) return false;
  if (hs_is(a->operand_dims[d], 0) || !addressing_fits(c, a)) return false;
  for (int64_t i = 0; i < nouter; i++) line[i] = a->dims[outer[i]];
  Node *at = hs_reshape(g, vector_last(c, a->indices, a->vector_dim), (int)nouter, line);
  at = N(g, min, N(g, max, at, node_i64(g, 0)), hs_node(g, hs_sub(g, a->operand_dims[d], one)));
  // The gather gives the axes before d, those of the indices, those after d.
  for (int64_t i = 0, w = 0; i < a->operand_rank; i++)
    if (i != d) {
      perm[a->window.v[w++]] = i < d ? i : i - 1 + nouter;
    }
  for (int64_t i = 0; i < nouter; i++) perm[outer[i]] = d + i;
  HloValue out = {0};
  Node *part[] = {c->in[0].re, c->in[0].im}, *got[2] = {NULL, NULL};
  for (int k = 0; k < 2 && part[k]; k++)
    got[k] =
        hb_transpose(g, NA(g, gather, (&(gather_attrs){.axis = d}), part[k], at), a->rank, perm);
  out.re = got[0];
  out.im = got[1];
  hlo_give_value(c, 0, out);
  return true;
}

static bool slice_sizes(HloCall *c, int rank, HloSize *out) {
  if (c->row->op) return hs_read(c, hlo_in(c, 2), out, rank);
  Ints sizes = hlo_ints(c, "slice_sizes");
  if (sizes.n != rank) {
    hlo_fail(c, "%lld slice sizes for rank %d", (long long)sizes.n, rank);
    return false;
  }
  for (int i = 0; i < rank; i++) out[i] = hs_num(sizes.v[i]);
  return true;
}

static void gather(HloCall *c) {
  Graph *g = c->g;
  const MlirAttr *d = mlir_attr(c->op, "dimension_numbers");
  Addressing a = {.indices = hlo_in(c, 1),
                  .map = hlo_field_ints(c, d, "start_index_map"),
                  .batch = hlo_field_ints(c, d, "operand_batching_dims"),
                  .batch_at = hlo_field_ints(c, d, "start_indices_batching_dims"),
                  .dropped = hlo_field_ints(c, d, "collapsed_slice_dims"),
                  .window = hlo_field_ints(c, d, "offset_dims"),
                  .vector_dim = mlir_int(mlir_field(d, "index_vector_dim"), 0)};
  HloSize sizes[MAX_RANK], idims[MAX_RANK];
  if (g->status) return;
  a.operand_rank = hs_all(c, &c->in[0], a.operand_dims);
  if (!slice_sizes(c, a.operand_rank, sizes)) return;
  a.slice = sizes;
  a.rank = (int)c->type[0]->rank;
  // The result's sizes follow from the operands', whatever its type leaves open.
  int64_t outer[MAX_RANK], nouter = outer_axes(&a, outer), irank = hs_all(c, &c->in[1], idims);
  for (int64_t i = 0, k = 0; i < irank && k < nouter; i++)
    if (i != a.vector_dim) a.dims[outer[k++]] = idims[i];
  for (int64_t i = 0, w = 0; i < a.operand_rank && w < a.window.n; i++)
    if (!has(a.dropped, i) && !has(a.batch, i)) a.dims[a.window.v[w++]] = sizes[i];
  if (gather_axis(c, &a) || g->status) return;
  Node *at = positions(c, &a), *part[] = {c->in[0].re, c->in[0].im}, *got[2] = {NULL, NULL};
  HloSize n = count_of(g, a.operand_rank, a.operand_dims);
  for (int k = 0; k < 2 && part[k]; k++) got[k] = N(g, gather, hs_reshape(g, part[k], 1, &n), at);
  hlo_give_value(c, 0, (HloValue){.re = got[0], .im = got[1]});
}

// ---- scatter ----
static int scatter_mode(const HloCall *c, bool complex, DType t) {
  const char *op = hlo_body_op(c->op, 0);
  const MlirBlock *b = c->op->regions[0]->nblocks ? c->op->regions[0]->blocks[0] : NULL;
  if (b && b->nops == 1 && b->nargs == 2 && b->ops[0]->noperands == 1 &&
      b->ops[0]->operands[0] == b->args[1])
    return SCATTER_NONE;
  if (!op || t == DT_BOOL) return -1;
  if (!strcmp(op, "stablehlo.add")) return SCATTER_ADD;
  if (complex) return -1;
  if (!strcmp(op, "stablehlo.multiply")) return SCATTER_MUL;
  if (!strcmp(op, "stablehlo.minimum")) return SCATTER_MIN;
  return strcmp(op, "stablehlo.maximum") ? -1 : SCATTER_MAX;
}

static Node *scattered(Graph *g, Node *data, Node *at, Node *updates, int mode) {
  return NA(g, scatter_elements, (&(scatter_elements_attrs){.axis = 0, .reduction = mode}), data,
            at, updates);
}

// Operands flat, with one more element that takes what lies outside.
typedef struct Scatter {
  int64_t n;       // operands
  HloValue *data;  // flat
  HloValue *update;
  Node *at;  // [rows, window]
  HloSize rows, window;
} Scatter;

// One row of updates: what is there, joined by the body.
static bool join_row(HloCall *c, const Scatter *s, HloValue *data, const HloValue *update,
                     Node *at) {
  Graph *g = c->g;
  HloValue *args = arena_array(c->h->arena, HloValue, 2 * s->n + 1),
           *out = arena_array(c->h->arena, HloValue, s->n + 1);
  for (int64_t i = 0; i < s->n; i++) {
    args[i] = (HloValue){.re = N(g, gather, data[i].re, at), .type = data[i].type};
    if (data[i].im) args[i].im = N(g, gather, data[i].im, at);
    args[s->n + i] = update[i];
  }
  if (!hlo_lifted(c, 0, args, 2 * s->n, out, s->n)) return false;
  for (int64_t i = 0; i < s->n; i++) {
    HloValue v = {.type = data[i].type};
    v.re = scattered(g, data[i].re, at, hs_expand(g, out[i].re, 1, &s->window), SCATTER_NONE);
    if (data[i].im)
      v.im = scattered(g, data[i].im, at, hs_expand(g, out[i].im, 1, &s->window), SCATTER_NONE);
    data[i] = v;
  }
  return true;
}

static Node *row_of(Graph *g, Node *x, Node *i) { return N(g, gather, x, i); }

// Rows one after another, since several may meet in one place.
static bool join_rows(HloCall *c, Scatter *s) {
  Graph *g = c->g;
  Arena *a = c->h->arena;
  BodyNodes own = {0}, results = {0}, captures, operands = {0};
  uint32_t mark = (uint32_t)g->node.n;
  Node *i = node_param(g, type_scalar(g, DT_I64), NULL),
       *go = node_param(g, type_scalar(g, DT_BOOL), NULL);
  vec_push(a, &own, i);
  vec_push(a, &own, go);
  HloValue *data = arena_array(a, HloValue, s->n + 1), *update = arena_array(a, HloValue, s->n + 1);
  vec_push(a, &operands, hs_node(g, s->rows));
  vec_push(a, &operands, g->none);
  for (int64_t k = 0; k < s->n; k++) {
    data[k] = s->data[k];
    Node **part[] = {&data[k].re, &data[k].im};
    for (int p = 0; p < 2 && *part[p]; p++) {
      vec_push(a, &operands, *part[p]);
      *part[p] = node_param(g, type_of(*part[p]), NULL);
      vec_push(a, &own, *part[p]);
    }
    update[k] = (HloValue){.re = row_of(g, s->update[k].re, i), .type = s->update[k].type};
    if (s->update[k].im) update[k].im = row_of(g, s->update[k].im, i);
  }
  c->h->inside++;
  bool ok = join_row(c, s, data, update, row_of(g, s->at, i));
  c->h->inside--;
  if (!ok) return false;
  vec_push(a, &results, go);
  for (int64_t k = 0; k < s->n; k++) {
    vec_push(a, &results, data[k].re);
    if (data[k].im) vec_push(a, &results, data[k].im);
  }
  Body *body = close_body(g, a, mark, &own, &results, &captures);
  if (g->status) return false;
  for (int64_t k = 0; k < captures.n; k++) vec_push(a, &operands, captures.v[k]);
  loop_attrs at = {.captures = captures.n, .body = body};
  Node *loop = node_new(g, OP_loop, (int)operands.n, operands.v, &at, (int)results.n - 1, NULL);
  for (int64_t k = 0, r = 0; k < s->n; k++) {
    s->data[k].re = node_proj(g, loop, (int)r++);
    if (s->data[k].im) s->data[k].im = node_proj(g, loop, (int)r++);
  }
  return true;
}

static bool read_scatter(HloCall *c, Addressing *a, int64_t n) {
  const MlirAttr *d = mlir_attr(c->op, "scatter_dimension_numbers");
  *a = (Addressing){.indices = hlo_in(c, n),
                    .map = hlo_field_ints(c, d, "scatter_dims_to_operand_dims"),
                    .batch = hlo_field_ints(c, d, "input_batching_dims"),
                    .batch_at = hlo_field_ints(c, d, "scatter_indices_batching_dims"),
                    .dropped = hlo_field_ints(c, d, "inserted_window_dims"),
                    .window = hlo_field_ints(c, d, "update_window_dims"),
                    .vector_dim = mlir_int(mlir_field(d, "index_vector_dim"), 0)};
  if (c->g->status) return false;
  a->operand_rank = hs_all(c, &c->in[0], a->operand_dims);
  a->rank = hs_all(c, &c->in[n + 1], a->dims);
  return !c->g->status;
}

// Flat operands with a place for what is outside, updates and places as [rows, window].
static bool lay_out(HloCall *c, const Addressing *a, Scatter *s) {
  Graph *g = c->g;
  int64_t outer[MAX_RANK], perm[MAX_RANK], nouter = outer_axes(a, outer);
  HloSize n = count_of(g, a->operand_rank, a->operand_dims);
  s->rows = s->window = hs_num(1);
  for (int64_t i = 0; i < nouter; i++) perm[i] = outer[i];
  for (int64_t i = 0; i < a->window.n; i++) perm[nouter + i] = a->window.v[i];
  for (int i = 0; i < a->rank; i++) {
    HloSize *part = has(a->window, i) ? &s->window : &s->rows;
    *part = hs_mul(g, *part, a->dims[i]);
  }
  HloSize flat[2] = {s->rows, s->window};
  Node *at = positions(c, a);
  if (g->status) return false;
  s->at = hs_reshape(g, hb_transpose(g, at, a->rank, perm), 2, flat);
  for (int64_t i = 0; i < s->n && !g->status; i++) {
    Node *part[] = {s->data[i].re, s->data[i].im}, *up[] = {s->update[i].re, s->update[i].im};
    for (int k = 0; k < 2 && part[k]; k++) {
      part[k] = N(g, pad, hs_reshape(g, part[k], 1, &n), node_i64s(g, 2, (int64_t[]){0, 1}));
      up[k] = hs_reshape(g, hb_transpose(g, up[k], a->rank, perm), 2, flat);
    }
    s->data[i].re = part[0];
    s->data[i].im = part[1];
    s->update[i].re = up[0];
    s->update[i].im = up[1];
  }
  return !g->status;
}

static void flatten(Graph *g, Scatter *s) {
  HloSize n = hs_mul(g, s->rows, s->window);
  s->at = hs_reshape(g, s->at, 1, &n);
  for (int64_t i = 0; i < s->n; i++) {
    s->update[i].re = hs_reshape(g, s->update[i].re, 1, &n);
    if (s->update[i].im) s->update[i].im = hs_reshape(g, s->update[i].im, 1, &n);
  }
  s->rows = hs_num(1);
  s->window = n;
}

static Node *without_spare(HloCall *c, Node *x, void *ctx) {
  const Addressing *a = ctx;
  HloSize n = count_of(c->g, a->operand_rank, a->operand_dims);
  int64_t zero = 0;
  Node *y = N(c->g, slice, x, node_i64s(c->g, 1, &zero), hs_vector(c->g, 1, &n),
              node_i64s(c->g, 1, &zero));
  return hs_reshape(c->g, y, a->operand_rank, a->operand_dims);
}

static void scatter(HloCall *c) {
  Graph *g = c->g;
  int64_t n = (c->nin - 1) / 2;
  Addressing a;
  if (n < 1 || c->nin != 2 * n + 1 || c->op->nregions != 1) {
    hlo_fail(c, "%lld operands", (long long)c->nin);
    return;
  }
  if (!read_scatter(c, &a, n)) return;
  Scatter s = {.n = n, .data = arena_array(c->h->arena, HloValue, n + 1), .update = c->in + n + 1};
  for (int64_t i = 0; i < n; i++) s.data[i] = c->in[i];
  bool complex = c->in[0].im != NULL;
  int mode = n == 1 ? scatter_mode(c, complex, type_of(c->in[0].re)->dtype) : -1;
  if (!lay_out(c, &a, &s)) return;
  bool unique =
      mlir_bool(mlir_attr(c->op, "unique_indices"), false) || hs_is(s.rows, 1) || hs_is(s.rows, 0);
  if (mode >= 0 || unique) flatten(g, &s);
  if (hs_is(s.rows, 0) || hs_is(s.window, 0)) {
  } else if (mode >= 0) {
    s.data[0].re = scattered(g, s.data[0].re, s.at, s.update[0].re, mode);
    if (complex) s.data[0].im = scattered(g, s.data[0].im, s.at, s.update[0].im, mode);
  } else if (!(unique ? join_row(c, &s, s.data, s.update, s.at) : join_rows(c, &s))) {
    return;
  }
  for (int64_t i = 0; i < n; i++) hlo_give_value(c, i, hlo_moved(c, &s.data[i], without_spare, &a));
}

// clang-format off
static const HloRow rows[] = {
    {"stablehlo.dynamic_gather", gather,  1, HLO_MOVES, NULL},
    {"stablehlo.gather",         gather,  0, HLO_MOVES, NULL},
    {"stablehlo.scatter",        scatter, 0, HLO_PLAIN, NULL},
};
// clang-format on
HLO_TABLE(hlo_index);
