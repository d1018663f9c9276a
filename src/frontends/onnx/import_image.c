// import_image.c -- older forms of the image operators, and those that are refused.
//
// Before opset 11 Resize and Upsample had no coordinate modes: positions were scaled without an
// offset, and nearest rounded down when scaling up and up when scaling down.
#include "eval/image.h"
#include "frontends/onnx/onnx.h"

static tenon_status resize_mode(ImportNode *n, resize_attrs *at) {
  Str mode = import_str(n, "mode", "nearest");
  attrs_defaults(op_resize.attrs, op_resize.nattrs, at);
  at->coordinate_transformation_mode = RESIZE_ASYMMETRIC;
  at->nearest_mode = RESIZE_FLOOR;
  at->mode =
      str_is(mode, "bilinear") ? RESIZE_LINEAR : attr_choice_find("nearest|linear|cubic", mode);
  if (at->mode < 0)
    return import_fail(n, TENON_EINVAL, "attribute 'mode' is '%.*s', must be nearest or linear",
                       STR_ARG(mode));
  return TENON_OK;
}

static Node *resize_node(ImportNode *n, const resize_attrs *at, Node *x, Node *scales) {
  Node *src[3] = {x, n->g->none, scales};
  return node_new(n->g, OP_resize, 3, src, at, 1, n->name);
}

static tenon_status finish(ImportNode *n, Node *y) {
  if (n->nout > 0) n->out[0] = y;
  return graph_status(n->g);
}

static tenon_status legacy_resize(ImportNode *n) {
  resize_attrs at = {0};
  if (n->nin != 2) return import_fail(n, TENON_EINVAL, "%d inputs, must be 2", n->nin);
  TRY(resize_mode(n, &at));
  Node *x = n->in[0], *scales = n->in[1];
  if (at.mode == RESIZE_NEAREST) {
    const Value *v = node_known(n->g, scales);
    bool up = v != NULL, down = v != NULL;
    for (int64_t i = 0; v && i < v->n; i++) {
      up &= val_f64(v, i) >= 1;
      down &= val_f64(v, i) <= 1;
    }
    if (!up && !down) {  // first the axes that grow, then those that shrink
      Node *one = node_scalar(n->g, DT_F32, 1);
      x = resize_node(n, &at, x, N(n->g, max, scales, one));
      scales = N(n->g, min, scales, one);
    }
    if (!up) at.nearest_mode = RESIZE_CEIL;
  }
  return finish(n, resize_node(n, &at, x, scales));
}

static tenon_status upsample(ImportNode *n) {
  resize_attrs at = {0};
  if (n->nin != 2) return import_fail(n, TENON_EINVAL, "%d inputs, must be 2", n->nin);
  TRY(resize_mode(n, &at));
  return finish(n, resize_node(n, &at, n->in[0], n->in[1]));
}

static Node *scales_const(ImportNode *n, int64_t count, const double *v) {
  float *f = arena_array(&n->g->arena, float, count);
  for (int64_t i = 0; i < count; i++) f[i] = (float)v[i];
  return node_const(n->g, DT_F32, 1, &count, f, NULL);
}

static tenon_status upsample_attrs(ImportNode *n) {  // opset 7: scales are an attribute
  resize_attrs at = {0};
  Floats scales;
  if (n->nin != 1) return import_fail(n, TENON_EINVAL, "%d inputs, must be 1", n->nin);
  TRY(resize_mode(n, &at));
  if (!import_floats(n, "scales", &scales))
    return import_fail(n, TENON_EINVAL, "the attribute 'scales' is missing");
  return finish(n, resize_node(n, &at, n->in[0], scales_const(n, scales.n, scales.v)));
}

static tenon_status upsample_first(ImportNode *n) {  // opset 1: two factors for images
  resize_attrs at = {0};
  if (n->nin != 1) return import_fail(n, TENON_EINVAL, "%d inputs, must be 1", n->nin);
  TRY(resize_mode(n, &at));
  double scales[4] = {1, 1, import_f64(n, "height_scale", 1), import_f64(n, "width_scale", 1)};
  return finish(n, resize_node(n, &at, n->in[0], scales_const(n, 4, scales)));
}

static tenon_status grid_sample(ImportNode *n) {  // opset 16 says bilinear and bicubic
  grid_sample_attrs at = {0};
  Str mode = import_str(n, "mode", "linear"), padding = import_str(n, "padding_mode", "zeros");
  at.align_corners = import_i64(n, "align_corners", 0) != 0;
  at.mode = attr_choice_find("bilinear|nearest|bicubic", mode);
  if (at.mode < 0) at.mode = attr_choice_find("linear|nearest|cubic", mode);
  at.padding_mode = attr_choice_find("zeros|border|reflection", padding);
  if (at.mode < 0 || at.padding_mode < 0)
    return import_fail(n, TENON_EINVAL, "mode is '%.*s' and padding_mode '%.*s'", STR_ARG(mode),
                       STR_ARG(padding));
  return import_as(n, OP_grid_sample, &at, n->nin, n->in);
}

static const ImportRow rows[] = {
    // clang-format off
    {"", "Resize",       10, 10, legacy_resize,  NULL},
    {"", "Upsample",     1,  6,  upsample_first, NULL},
    {"", "Upsample",     7,  8,  upsample_attrs, NULL},
    {"", "Upsample",     9,  0,  upsample,       NULL},
    {"", "GridSample",   16, 0,  grid_sample,    NULL},
    {"", "ImageDecoder", 20, 0,  NULL,
     "image files are not decoded inside a model; decode the image before the model runs and feed it the tensor of pixels"},
    // clang-format on
};
const ImportTable onnx_rows_image = {rows, ARRAY_LEN(rows)};
