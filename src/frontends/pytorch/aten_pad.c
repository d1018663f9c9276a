// aten_pad.c -- ATen operators that pad, resample and sample images.
#include "frontends/pytorch/aten.h"

#include "eval/image.h"
#include "eval/movement.h"

// PyTorch's pads are pairs from the last axis on; ours begins, then ends, of all axes.
static void padded(AtenCall *c, int mode, const AtenValue *value) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  Ints p = at_ints(c, 1);
  int rank = at_rank(c, x);
  int64_t pads[2 * MAX_RANK] = {0};
  if (g->status) return;
  if (p.n % 2 || p.n / 2 > rank) {
    at_fail(c, "%lld pads for rank %d", (long long)p.n, rank);
    return;
  }
  for (int64_t i = 0; i < p.n / 2; i++) {
    pads[rank - 1 - i] = p.v[2 * i];
    pads[2 * rank - 1 - i] = p.v[2 * i + 1];
  }
  pad_attrs at = {.mode = mode};
  Node *v =
      value && value->kind != AV_NONE ? av_node(g, value, type_of(x)->dtype) : bt_num(g, x, 0);
  if (mode)
    at_give(c, NA(g, pad, &at, x, node_i64s(g, 2 * rank, pads)));
  else
    at_give(c, NA(g, pad, &at, x, node_i64s(g, 2 * rank, pads), v));
}
static void constant_pad(AtenCall *c) { padded(c, 0, at_arg(c, 2)); }
static void pad_as(AtenCall *c) { padded(c, c->schema->row->op, NULL); }
static void pad_row(AtenCall *c) {  // (self, pad, mode, value?)
  Str mode = at_arg(c, 2)->s;
  if (str_is(mode, "constant"))
    padded(c, 0, at_arg(c, 3));
  else
    padded(c, str_is(mode, "reflect") ? 1 : str_is(mode, "replicate") ? 2 : 3, NULL);
}

// ---- resampling ----

typedef enum { NEAREST, LINEAR, CUBIC } Filter;

static Node *scale_list(AtenCall *c, const double *v, int spatial) {
  int64_t n = spatial + 2;
  float f[MAX_RANK] = {1, 1};
  for (int i = 0; i < spatial; i++) f[i + 2] = (float)v[i];
  return node_const(c->g, DT_F32, 1, &n, f, NULL);
}

static void resized(AtenCall *c, Node *sizes, const double *scales, bool align) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x), filter = c->schema->row->op;
  if (g->status) return;
  resize_attrs at = {.cubic_coeff_a = -0.75, .mode = filter};
  const char *where = filter == NEAREST ? "asymmetric"
                      : align           ? "align_corners"
                                        : "pytorch_half_pixel";
  at.coordinate_transformation_mode = at_choice(OP_resize, "coordinate_transformation_mode", where);
  at.nearest_mode = at_choice(OP_resize, "nearest_mode", "floor");
  if (sizes) {
    Node *both[] = {bt_dims(g, x, 0, 2), sizes};
    at_give(c, NA(g, resize, &at, x, g->none, g->none, bt_concat(g, 0, 2, both)));
  } else {
    at_give(c, NA(g, resize, &at, x, g->none, scale_list(c, scales, rank - 2)));
  }
}
static bool take_scales(AtenCall *c, int i, double *out) {
  const AtenValue *v = at_arg(c, i);
  for (int64_t k = 0; v->list && k < v->list->v.n && k < 3; k++) out[k] = av_f64(&v->list->v.v[k]);
  return v->kind != AV_NONE;
}
static void upsample_vec(AtenCall *c) {  // (input, output_size?, [align_corners], scale_factors?)
  bool aligned = c->schema->nargs > 3;
  double scales[3] = {1, 1, 1};
  bool given = take_scales(c, aligned ? 3 : 2, scales);
  resized(c, at_none(c, 1) ? NULL : at_shape(c, 1), scales, aligned && at_bool(c, 2));
  if (at_none(c, 1) && !given) at_fail(c, "neither sizes nor scales");
}
// (self, output_size, [align_corners], scales...): a scale that is given is the one that counts.
static void upsample_sizes(AtenCall *c) {
  bool aligned = c->schema->nargs > 2 && c->schema->arg[2].type == AT_BOOL;
  resized(c, at_shape(c, 1), NULL, aligned && at_bool(c, 2));
}

static void grid_sampler(AtenCall *c) {  // (input, grid, interpolation, padding, align_corners)
  static const int mode[] = {0, 1, 2};   // bilinear, nearest, bicubic: in the same order as ours
  int64_t how = at_int(c, 2), pad = at_int(c, 3);
  if (how < 0 || how > 2 || pad < 0 || pad > 2) at_fail(c, "mode %lld", (long long)how);
  if (c->g->status) return;
  grid_sample_attrs at = {
      .mode = mode[how], .padding_mode = (int)pad, .align_corners = at_bool(c, 4)};
  at_give(c, NA(c->g, grid_sample, &at, at_tensor(c, 0), at_tensor(c, 1)));
}

static const AtenRow rows[] = {
    // clang-format off
    {"constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", constant_pad, 0, NULL},
    {"pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", pad_row, 0, NULL},
    {"reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor", pad_as, 1, NULL},
    {"reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor", pad_as, 1, NULL},
    {"reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor", pad_as, 1, NULL},
    {"replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor", pad_as, 2, NULL},
    {"replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor", pad_as, 2, NULL},
    {"replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor", pad_as, 2, NULL},
    {"upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample_vec, NEAREST, NULL},
    {"upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample_vec, NEAREST, NULL},
    {"upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample_vec, NEAREST, NULL},
    {"upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample_vec, LINEAR, NULL},
    {"upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample_vec, LINEAR, NULL},
    {"upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample_vec, LINEAR, NULL},
    {"upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample_vec, CUBIC, NULL},
    {"upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor", upsample_sizes, NEAREST, NULL},
    {"upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_sizes, NEAREST, NULL},
    {"upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_sizes, NEAREST, NULL},
    {"upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor", upsample_sizes, LINEAR, NULL},
    {"upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_sizes, LINEAR, NULL},
    {"upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor", upsample_sizes, CUBIC, NULL},
    {"grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor", grid_sampler, 0, NULL},
    {"grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor", grid_sampler, 0, NULL},
    // clang-format on
};
ATEN_TABLE(pad);
