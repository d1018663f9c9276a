// aten_complex.c -- ATen operators on complex tensors.
//
// A complex tensor is a real one whose last axis holds both parts, and a mark in its box.  An
// operator that gets one is looked up in the list below; what only moves elements, or is linear, is
// done for each part by its ordinary row.  Others are refused.
#include "frontends/pytorch/aten_complex.h"

#include "eval/movement.h"
#include "eval/scalar.h"

bool av_is_complex(const AtenValue *v) {
  if (v->kind == AV_TENSOR) return v->box->complex;
  for (int64_t i = 0; v->list && i < v->list->v.n; i++)
    if (v->list->v.v[i].kind == AV_TENSOR && v->list->v.v[i].box->complex) return true;
  return false;
}

AtenValue av_complex(Arena *a, Node *n) {
  AtenValue v = av_tensor(a, n);
  v.box->complex = true;
  return v;
}

static Node *part_of(Graph *g, Node *x, int k) {
  if (g->status) return g->poison;
  int64_t axis = type_of(x)->rank - 1;
  return bt_squeeze(g, bt_slice(g, x, axis, k, k + 1), axis);
}

static Node *joined(Graph *g, Node *re, Node *im) {
  if (g->status) return g->poison;
  int axis = type_of(re)->rank;
  return bt_concat(g, axis, 2, (Node *[]){bt_unsqueeze(g, re, axis), bt_unsqueeze(g, im, axis)});
}

AtenComplex at_complex(AtenCall *c, int i) {
  const AtenValue *v = at_arg(c, i);
  if (!av_is_complex(v)) return (AtenComplex){at_tensor(c, i), NULL};
  return (AtenComplex){part_of(c->g, v->box->node, 0), part_of(c->g, v->box->node, 1)};
}

void at_give_complex(AtenCall *c, Node *re, Node *im) {
  c->out = av_complex(c->a->arena, joined(c->g, re, im));
}

AtenValue aten_weight(Aten *a, const Weight *w, Str name, Where at) {
  bool complex = w->dtype == DT_C64 || w->dtype == DT_C128;
  Weight real = *w;
  if (complex) {
    int64_t *strides = arena_array(a->arena, int64_t, MAX_RANK + 1);
    if (w->rank == MAX_RANK || w->unpack) {
      graph_fail(a->g, TENON_EUNSUPPORTED, at, "complex numbers of rank %d", w->rank);
      return av_tensor(a->arena, a->g->poison);
    }
    for (int i = 0; w->strides && i < w->rank; i++) strides[i] = 2 * w->strides[i];
    strides[w->rank] = 1;
    real.dtype = w->dtype == DT_C64 ? DT_F32 : DT_F64;
    real.dims[real.rank++] = 2;
    real.n = 2 * w->n;
    if (w->strides) real.strides = strides;
  }
  Node *n = weights_attach(a->g, a->in->attach, name, real.dtype, real.rank, real.dims, at);
  if (!n) n = weight_const(a->g, &real, a->g->source.v[0], w->name);
  return complex ? av_complex(a->arena, n) : av_tensor(a->arena, n);
}

// ---- part by part ----

static AtenValue real_part(AtenCall *c, const AtenValue *v, int k) {
  if (v->kind == AV_TENSOR)
    return v->box->complex ? av_tensor(c->a->arena, part_of(c->g, v->box->node, k)) : *v;
  if (!av_is_complex(v)) return *v;
  AtenValue out = av_list(c->a->arena, v->kind);
  for (int64_t i = 0; i < v->list->v.n; i++)
    av_push(c->a->arena, &out, real_part(c, &v->list->v.v[i], k));
  return out;
}

static AtenValue joined_value(AtenCall *c, const AtenValue *re, const AtenValue *im) {
  Arena *a = c->a->arena;
  if (re->kind == AV_TENSOR && im->kind == AV_TENSOR)
    return av_complex(a, joined(c->g, re->box->node, im->box->node));
  AtenValue out = av_list(a, re->kind);
  for (int64_t i = 0; re->list && im->list && i < re->list->v.n && i < im->list->v.n; i++)
    av_push(a, &out, joined_value(c, &re->list->v.v[i], &im->list->v.v[i]));
  return out;
}

static void by_parts(AtenCall *c) {
  AtenValue out[2];
  int n = c->schema->nargs;
  for (int k = 0; k < 2; k++) {
    AtenCall part = *c;
    part.arg = arena_array(c->a->arena, AtenValue, n + 1);
    for (int i = 0; i < n; i++) part.arg[i] = real_part(c, &c->arg[i], k);
    c->schema->row->fn(&part);
    if (c->g->status) return;
    out[k] = part.out;
  }
  c->out = joined_value(c, &out[0], &out[1]);
}

// Joining takes complex tensors alone, so that every part has all of them.
static void join_parts(AtenCall *c) {
  const AtenValue *v = at_arg(c, 0);
  for (int64_t i = 0; v->list && i < v->list->v.n; i++)
    if (!av_is_complex(&v->list->v.v[i])) {
      at_fail(c, "of real and complex tensors");
      return;
    }
  by_parts(c);
}

// ---- arithmetic ----

static void sum(AtenCall *c) {  // (self, other, *, alpha): row->op is the operator of real numbers
  Graph *g = c->g;
  bool minus = str_is(c->schema->name, "sub");
  AtenComplex x = at_complex(c, 0), y = at_complex(c, 1);
  if (c->schema->nargs > 2 && at_f64(c, 2) != 1) at_fail(c, "with alpha, of complex numbers");
  if (g->status) return;
  Node *re = minus ? N(g, sub, x.re, y.re) : N(g, add, x.re, y.re);
  Node *zero = bt_num(g, re, 0), *xi = x.im ? x.im : zero, *yi = y.im ? y.im : zero;
  Node *im = minus ? N(g, sub, xi, yi) : N(g, add, xi, yi);
  if (!x.im || !y.im) im = N(g, expand, im, N(g, shape, re));
  at_give_complex(c, re, im);
}
static void product(AtenCall *c) {
  Graph *g = c->g;
  AtenComplex x = at_complex(c, 0), y = at_complex(c, 1);
  if (g->status) return;
  if (!x.im || !y.im) {
    AtenComplex z = x.im ? x : y;
    Node *by = bt_cast(g, x.im ? y.re : x.re, type_of(z.re)->dtype);
    at_give_complex(c, N(g, mul, z.re, by), N(g, mul, z.im, by));
    return;
  }
  at_give_complex(c, N(g, sub, N(g, mul, x.re, y.re), N(g, mul, x.im, y.im)),
                  N(g, add, N(g, mul, x.re, y.im), N(g, mul, x.im, y.re)));
}
static void quotient(AtenCall *c) {
  Graph *g = c->g;
  AtenComplex x = at_complex(c, 0), y = at_complex(c, 1);
  if (g->status) return;
  if (!y.im) {
    Node *by = bt_cast(g, y.re, type_of(x.re)->dtype);
    at_give_complex(c, N(g, div, x.re, by), N(g, div, x.im, by));
    return;
  }
  Node *size = N(g, add, N(g, mul, y.re, y.re), N(g, mul, y.im, y.im));
  Node *re = N(g, mul, x.re, y.re), *im = N(g, neg, N(g, mul, x.re, y.im));
  if (x.im) {
    re = N(g, add, re, N(g, mul, x.im, y.im));
    im = N(g, add, im, N(g, mul, x.im, y.re));
  }
  at_give_complex(c, N(g, div, re, size), N(g, div, im, size));
}
static void magnitude(AtenCall *c) {
  AtenComplex z = at_complex(c, 0);
  at_give(c, N(c->g, sqrt, N(c->g, add, N(c->g, mul, z.re, z.re), N(c->g, mul, z.im, z.im))));
}
static void angle(AtenCall *c) {
  AtenComplex z = at_complex(c, 0);
  const AtenSchema *s = aten_find(c->a, STR("atan2"), (Str){"", 0});
  AtenValue args[2] = {av_tensor(c->a->arena, z.im), av_tensor(c->a->arena, z.re)};
  aten_build(c->a, s, args, c->at, &c->out);
}
static void conjugate(AtenCall *c) {
  AtenComplex z = at_complex(c, 0);
  at_give_complex(c, z.re, N(c->g, neg, z.im));
}
static void both_parts(AtenCall *c) { at_give(c, at_arg(c, 0)->box->node); }
static void re_part(AtenCall *c) { at_give(c, at_complex(c, 0).re); }
static void im_part(AtenCall *c) { at_give(c, at_complex(c, 0).im); }

// ---- rows of real operands that give complex ones ----

static void as_complex(AtenCall *c) { c->out = av_complex(c->a->arena, at_tensor(c, 0)); }
static void complex_row(AtenCall *c) { at_give_complex(c, at_tensor(c, 0), at_tensor(c, 1)); }
static void polar_row(AtenCall *c) {  // (abs, angle)
  Graph *g = c->g;
  Node *r = at_tensor(c, 0), *a = at_tensor(c, 1);
  at_give_complex(c, N(g, mul, r, N(g, cos, a)), N(g, mul, r, N(g, sin, a)));
}
static void same(AtenCall *c) { at_give(c, at_tensor(c, 0)); }
static void needs_complex(AtenCall *c) { at_fail(c, "of a real tensor"); }

static const AtenRow rows[] = {
    // clang-format off
    {"view_as_complex(Tensor(a) self) -> Tensor(a)", as_complex, 0, NULL},
    {"view_as_real(Tensor(a) self) -> Tensor(a)", needs_complex, 0, NULL},
    {"complex(Tensor real, Tensor imag) -> Tensor", complex_row, 0, NULL},
    {"polar(Tensor abs, Tensor angle) -> Tensor", polar_row, 0, NULL},
    {"real(Tensor(a) self) -> Tensor(a)", same, 0, NULL},
    {"imag(Tensor(a) self) -> Tensor(a)", needs_complex, 0, NULL},
    {"angle(Tensor self) -> Tensor", needs_complex, 0, NULL},
    {"conj(Tensor(a) self) -> Tensor(a)", same, 0, NULL},
    {"_conj(Tensor(a) self) -> Tensor(a)", same, 0, NULL},
    {"_conj_physical(Tensor self) -> Tensor", same, 0, NULL},
    {"resolve_conj(Tensor(a) self) -> Tensor(a)", same, 0, NULL},
    {"resolve_neg(Tensor(a) self) -> Tensor(a)", same, 0, NULL},
    // clang-format on
};
ATEN_TABLE(complex);

// ---- what complex operands do ----

static const struct {
  const char *name;  // of all overloads
  AtenFn *fn;
} with_complex[] = {
    // clang-format off
    {"abs", magnitude}, {"angle", angle}, {"real", re_part}, {"imag", im_part}, {"view_as_real", both_parts},
    {"conj", conjugate}, {"_conj", conjugate}, {"_conj_physical", conjugate}, {"resolve_conj", by_parts}, {"resolve_neg", by_parts},
    {"add", sum}, {"sub", sum}, {"mul", product}, {"div", quotient}, {"neg", by_parts},
    {"sum", by_parts}, {"mean", by_parts}, {"cumsum", by_parts},
    {"clone", by_parts}, {"contiguous", by_parts}, {"detach", by_parts}, {"alias", by_parts}, {"view", by_parts}, {"reshape", by_parts},
    {"flatten", by_parts}, {"unflatten", by_parts}, {"permute", by_parts}, {"transpose", by_parts}, {"movedim", by_parts}, {"t", by_parts},
    {"unsqueeze", by_parts}, {"squeeze", by_parts}, {"select", by_parts}, {"slice", by_parts}, {"narrow", by_parts}, {"expand", by_parts},
    {"repeat", by_parts}, {"split", by_parts}, {"split_with_sizes", by_parts}, {"chunk", by_parts}, {"unbind", by_parts}, {"roll", by_parts},
    {"flip", by_parts}, {"index", by_parts}, {"index_select", by_parts}, {"cat", join_parts}, {"stack", join_parts},
    {"_fft_c2c", aten_fft_c2c}, {"_fft_c2r", aten_fft_c2r}, {"fft_fft", aten_fft_one}, {"fft_ifft", aten_fft_one}, {"fft_irfft", aten_fft_one},
    {"fft_fftshift", by_parts}, {"fft_ifftshift", by_parts}, {"fft_fft2", aten_fft_many}, {"fft_ifft2", aten_fft_many}, {"fft_irfft2", aten_fft_many},
    {"fft_fftn", aten_fft_many}, {"fft_ifftn", aten_fft_many}, {"fft_irfftn", aten_fft_many},
    // clang-format on
};

AtenFn *aten_complex_fn(const AtenSchema *s) {
  for (int64_t i = 0; i < (int64_t)ARRAY_LEN(with_complex); i++)
    if (str_is(s->name, with_complex[i].name)) return with_complex[i].fn;
  return NULL;
}
