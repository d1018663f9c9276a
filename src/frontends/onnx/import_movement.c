// import_movement.c -- movement operators whose ONNX form differs from ours.
//
// Early operator sets pass as attributes what later ones (and our ops) take as operands.
#include "eval/movement.h"
#include "frontends/onnx/onnx.h"

static tenon_status need_inputs(ImportNode *n, int lo, int hi) {
  if (n->nin >= lo && n->nin <= hi) return TENON_OK;
  return import_fail(n, TENON_EINVAL, "%d inputs, must be %d%s", n->nin, lo,
                     hi > lo ? " or more" : "");
}

// A list attribute as an operand; none where it is absent.
static Node *list_operand(ImportNode *n, const char *name) {
  Ints v;
  return import_ints(n, name, &v) ? node_i64s(n->g, v.n, v.v) : n->g->none;
}

static tenon_status identity(ImportNode *n) {
  TRY(need_inputs(n, 1, 1));
  if (n->in[0] == n->g->none) return import_fail(n, TENON_EINVAL, "the input is absent");
  if (n->nout > 0) n->out[0] = n->in[0];
  return TENON_OK;
}

static tenon_status reshape_1(ImportNode *n) {
  TRY(need_inputs(n, 1, 1));
  return import_as(n, OP_reshape, NULL, 2, (Node *[]){n->in[0], list_operand(n, "shape")});
}

static tenon_status squeeze_1(ImportNode *n) {
  TRY(need_inputs(n, 1, 1));
  return import_as(n, OP_squeeze, NULL, 2, (Node *[]){n->in[0], list_operand(n, "axes")});
}

static tenon_status unsqueeze_1(ImportNode *n) {
  TRY(need_inputs(n, 1, 1));
  return import_as(n, OP_unsqueeze, NULL, 2, (Node *[]){n->in[0], list_operand(n, "axes")});
}

static tenon_status slice_1(ImportNode *n) {
  TRY(need_inputs(n, 1, 1));
  Node *src[] = {n->in[0], list_operand(n, "starts"), list_operand(n, "ends"),
                 list_operand(n, "axes")};
  return import_as(n, OP_slice, NULL, 4, src);
}

static tenon_status concat(ImportNode *n) {
  if (n->opset >= 4 && !import_attr(n, "axis"))
    return import_fail(n, TENON_EINVAL, "attribute 'axis' is required and absent");
  concat_attrs at;
  TRY(import_attrs(n, &op_concat, NULL, &at));
  if (!import_attr(n, "axis")) at.axis = 1;
  return import_as(n, OP_concat, &at, n->nin, n->in);
}

// A split whose input's contents are known is imported as slices: contents are followed through
// results one at a time.
static tenon_status split_contents(ImportNode *n, int64_t axis, Node *sizes) {
  Graph *g = n->g;
  Ints size;
  int64_t dim = type_of(n->in[0])->dims[0]->value, at = 0;
  bool given = sizes != g->none;
  if (axis != 0 && axis != -1)
    return import_fail(n, TENON_EINVAL, "axis %lld of a list", (long long)axis);
  if (given && (!node_ints(g, sizes, &size) || size.n != n->nout))
    return import_fail(n, TENON_EINVAL, "%d outputs do not fit the sizes", n->nout);
  int64_t part = dim / n->nout + (dim % n->nout != 0);
  for (int i = 0; i < n->nout; i++) {
    int64_t len = given ? size.v[i] : MIN(part, dim - at), end;
    if (len < 0 || !ck_add(at, len, &end) || end > dim)
      return import_fail(n, TENON_EINVAL, "output %d takes %lld of %lld elements", i,
                         (long long)len, (long long)dim);
    n->out[i] = N(g, slice, n->in[0], node_i64s(g, 1, &at), node_i64s(g, 1, &end));
    at = end;
  }
  if (at != dim)
    return import_fail(n, TENON_EINVAL, "sizes sum to %lld, the axis has %lld elements",
                       (long long)at, (long long)dim);
  return graph_status(g);
}

static tenon_status split(ImportNode *n) {
  TRY(need_inputs(n, 1, n->opset == 1 || n->opset >= 13 ? 2 : 1));
  if (n->nout < 1) return import_fail(n, TENON_EINVAL, "no outputs");
  split_attrs at;
  TRY(import_attrs(n, &op_split, n->opset < 13 ? "split" : NULL, &at));
  Node *sizes = n->nin > 1 ? n->in[1] : n->g->none;
  if (n->opset < 13 && sizes == n->g->none) sizes = list_operand(n, "split");
  TRY(graph_status(n->g));
  const Type *t = type_of(n->in[0]);
  int64_t count;
  const Dim *sym;
  Ints known;
  bool list = t->kind == TK_TENSOR && t->rank == 1 && ie_is_const(t->dims[0]) &&
              node_sym(n->g, n->in[0], &count, &sym) &&
              (sizes == n->g->none || node_ints(n->g, sizes, &known));
  if (list && !at.num_outputs) return split_contents(n, at.axis, sizes);
  return import_as(n, OP_split, &at, 2, (Node *[]){n->in[0], sizes});
}

static tenon_status pad_2(ImportNode *n) {
  TRY(need_inputs(n, 1, 1));
  const char *name = n->opset < 2 ? "paddings" : "pads";
  pad_attrs at;
  TRY(import_attrs(n, &op_pad, n->opset < 2 ? "paddings value" : "pads value", &at));
  double value = import_f64(n, "value", 0);
  DType t = type_of(n->in[0])->dtype;
  bool real = t && dtype_class(t) != DC_STRING && dtype_class(t) != DC_COMPLEX;
  Node *fill = value != 0 && real ? node_scalar(n->g, t, value) : n->g->none;
  return import_as(n, OP_pad, &at, 3, (Node *[]){n->in[0], list_operand(n, name), fill});
}

static tenon_status tile_1(ImportNode *n) {
  TRY(need_inputs(n, 3, 3));
  Ints tiles, axis;
  const Type *t = type_of(n->in[0]);
  if (t->kind != TK_TENSOR || t->rank < 0 || !node_ints(n->g, n->in[1], &tiles) || tiles.n != 1 ||
      !node_ints(n->g, n->in[2], &axis) || axis.n != 1)
    return import_fail(
        n, TENON_EUNSUPPORTED,
        "Tile of opset 1 needs constant tiles and axis; convert the model to opset 6");
  int64_t repeats[MAX_RANK];
  for (int i = 0; i < t->rank; i++) repeats[i] = 1;
  if (axis.v[0] < 0 || axis.v[0] >= t->rank)
    return import_fail(n, TENON_EINVAL, "axis %lld is out of range for rank %d",
                       (long long)axis.v[0], t->rank);
  repeats[axis.v[0]] = tiles.v[0];
  return import_as(n, OP_tile, NULL, 2, (Node *[]){n->in[0], node_i64s(n->g, t->rank, repeats)});
}

static const ImportRow rows[] = {
    {"", "Identity", 1, 0, identity, NULL},  {"", "Reshape", 1, 4, reshape_1, NULL},
    {"", "Squeeze", 1, 12, squeeze_1, NULL}, {"", "Unsqueeze", 1, 12, unsqueeze_1, NULL},
    {"", "Slice", 1, 9, slice_1, NULL},      {"", "Concat", 1, 0, concat, NULL},
    {"", "Split", 1, 0, split, NULL},        {"", "Pad", 1, 10, pad_2, NULL},
    {"", "Tile", 1, 5, tile_1, NULL},
};
const ImportTable onnx_rows_movement = {rows, ARRAY_LEN(rows)};
