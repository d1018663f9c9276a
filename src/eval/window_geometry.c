// window_geometry.c -- sizes and pads of sliding windows from attributes and a concrete input.
//
// Guarantees: kernel, stride and dilation are at least 1 and below WINDOW_MAX, so that positions of
//             windows
// never overflow; output sizes are not negative.
#include "eval/window.h"

static const char *check_list(Ints l, int n, int64_t least, const char *bad_count,
                              const char *bad_item, int64_t *out_bad) {
  if (l.n != 0 && l.n != n) {
    *out_bad = l.n;
    return bad_count;
  }
  for (int64_t i = 0; i < l.n; i++)
    if (l.v[i] < least || l.v[i] >= WINDOW_MAX) {
      *out_bad = l.v[i];
      return bad_item;
    }
  return NULL;
}

const char *window_check(const WindowSpec *s, int nd, int64_t *out_bad) {
  *out_bad = 0;
  const char *m =
      check_list(s->kernel, nd, 1, "kernel_shape has %lld numbers, not one a spatial axis",
                 "kernel size %lld is out of range", out_bad);
  if (m) return m;
  if (s->kernel.n != nd) {
    *out_bad = nd;
    return "kernel_shape is missing for %lld spatial axes";
  }
  m = check_list(s->strides, nd, 1, "strides has %lld numbers, not one a spatial axis",
                 "stride %lld is out of range", out_bad);
  if (m) return m;
  m = check_list(s->dilations, nd, 1, "dilations has %lld numbers, not one a spatial axis",
                 "dilation %lld is out of range", out_bad);
  if (m) return m;
  return check_list(s->pads, 2 * nd, -(int64_t)WINDOW_MAX + 1,
                    "pads has %lld numbers, not two a spatial axis", "pad %lld is out of range",
                    out_bad);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// b > 0 throughout; sizes of tensors are far below 2^62, the rest below 2^61.
static int64_t out_size(const WindowSpec *s, const Window *w, int d, int64_t extent) {
  int64_t stride = w->stride[d], in = w->in[d];
  if (s->auto_pad == PAD_SAME_UPPER || s->auto_pad == PAD_SAME_LOWER)
    return in / stride + (in % stride != 0);
  int64_t room = in + w->lo[d] + w->hi[d] - extent;
  if (!s->ceil_mode || s->auto_pad == PAD_VALID) return floor_div(room, stride) + 1;
  int64_t out = -floor_div(-room, stride) + 1;
  if ((out - 1) * stride >= in + w->lo[d]) out--;  // the last window starts in the padding
  return out;
}

tenon_status window_init(Eval *e, const WindowSpec *s, int nd, const int64_t *in, Window *w) {
  int64_t bad;
  const char *message = window_check(s, nd, &bad);
  if (message)  // the texts are those of window_check, each with one %lld
    return eval_fail(e, TENON_EINVAL, message, (long long)bad);
  *w = (Window){.nd = nd};
  for (int d = 0; d < nd; d++) {
    w->in[d] = in[d];
    w->kernel[d] = s->kernel.v[d];
    w->stride[d] = s->strides.n ? s->strides.v[d] : 1;
    w->dilation[d] = s->dilations.n ? s->dilations.v[d] : 1;
    if (s->auto_pad == PAD_NOTSET && s->pads.n) {
      w->lo[d] = s->pads.v[d];
      w->hi[d] = s->pads.v[nd + d];
    }
    int64_t extent = (w->kernel[d] - 1) * w->dilation[d] + 1;  // below 2^60
    int64_t out = out_size(s, w, d, extent), reach;
    if (out < 0)
      return eval_fail(
          e, TENON_EINVAL,
          "window of extent %lld along spatial axis %d does not fit into size %lld with pads %lld "
          "and %lld",
          (long long)extent, d, (long long)in[d], (long long)w->lo[d], (long long)w->hi[d]);
    if (!ck_mul(out, w->stride[d], &reach) || !ck_add(reach, extent, &reach))
      return eval_fail(e, TENON_EINVAL, "windows along spatial axis %d reach beyond 64 bits", d);
    w->out[d] = out;
    if (s->auto_pad == PAD_SAME_UPPER || s->auto_pad == PAD_SAME_LOWER) {
      int64_t total = out ? MAX((out - 1) * w->stride[d] + extent - in[d], 0) : 0;
      w->lo[d] = s->auto_pad == PAD_SAME_UPPER ? total / 2 : total - total / 2;
      w->hi[d] = total - w->lo[d];
    }
  }
  return window_products(e, w);
}

tenon_status window_products(Eval *e, Window *w) {
  if (!shape_count(w->nd, w->in, &w->nin) || !shape_count(w->nd, w->out, &w->nout) ||
      !shape_count(w->nd, w->kernel, &w->nkernel))
    return eval_fail(e, TENON_EINVAL, "window sizes do not fit in 64 bits");
  return TENON_OK;
}
