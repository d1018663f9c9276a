// aten_fft.c -- ATen's Fourier transforms, by the graph's dft, which has both parts of a number
// along the last axis.
#include "eval/movement.h"
#include "eval/scalar.h"
#include "eval/signal.h"
#include "frontends/pytorch/aten_complex.h"

#include <math.h>

typedef enum { NORM_NONE, NORM_ROOT, NORM_N } Norm;

typedef struct Fft {
  Node *x;   // with an axis for the parts: 1 of a real tensor, 2 of a complex one
  int rank;  // without it
  Ints axes;
  int64_t size[MAX_RANK];  // along each axis
  Norm norm;
  bool inverse, from_real, to_real, half;
} Fft;

static Node *operand(AtenCall *c, int i, int *rank) {
  const AtenValue *v = at_arg(c, i);
  bool complex = av_is_complex(v);
  Node *x = complex ? v->box->node : at_tensor(c, i);
  int r = at_rank(c, x);
  *rank = complex ? r - 1 : r;
  if (!complex && !c->g->status && !dtype_is_float(type_of(x)->dtype)) x = bt_cast(c->g, x, DT_F32);
  return complex ? x : bt_unsqueeze(c->g, x, r);
}

static Node *one_axis(AtenCall *c, const Fft *f, Node *x, int64_t k, bool half) {
  dft_attrs at = {.inverse = f->inverse, .onesided = half};
  return NA(c->g, dft, &at, x, node_i64(c->g, f->size[k]), node_i64(c->g, f->axes.v[k]));
}

// The graph's inverse is divided by n already.
static double factor(const Fft *f) {
  double n = 1;
  for (int64_t k = 0; k < f->axes.n; k++) n *= (double)f->size[k];
  double want = f->norm == NORM_N ? 1 / n : f->norm == NORM_ROOT ? 1 / sqrt(n) : 1;
  return f->inverse ? want * n : want;
}

static void transform(AtenCall *c, Fft *f) {
  Graph *g = c->g;
  Node *x = f->x;
  int64_t last = f->axes.n - 1;
  if (last < 0) at_fail(c, "without axes");
  for (int64_t k = 0; k <= last && !g->status; k++)
    if (f->size[k] < 1) at_fail(c, "a length of %lld", (long long)f->size[k]);
  if (g->status) return;
  if (f->from_real) x = one_axis(c, f, x, last, f->half);
  for (int64_t k = 0; k <= last - (f->from_real || f->to_real); k++)
    x = one_axis(c, f, x, k, false);
  if (f->to_real) x = one_axis(c, f, x, last, true);
  double by = factor(f);
  if (by != 1) x = N(g, mul, x, bt_num(g, x, by));
  if (f->to_real)
    at_give(c, bt_squeeze(g, x, f->rank));
  else
    c->out = av_complex(c->a->arena, x);
}

static void own_sizes(AtenCall *c, Fft *f) {
  for (int64_t k = 0; k < f->axes.n && k < MAX_RANK; k++)
    f->size[k] = at_known_dim(c, f->x, (int)f->axes.v[k]);
}

// ---- the primitives: (self, dim, normalization, ...) ----

static Fft primitive(AtenCall *c) {
  Fft f = {0};
  f.x = operand(c, 0, &f.rank);
  f.axes = at_axes(c, 1, f.rank);
  f.norm = (Norm)at_int(c, 2);
  own_sizes(c, &f);
  return f;
}
void aten_fft_c2c(AtenCall *c) {  // (.., forward)
  Fft f = primitive(c);
  f.inverse = !at_bool(c, 3);
  transform(c, &f);
}
void aten_fft_c2r(AtenCall *c) {  // (.., last_dim_size)
  Fft f = primitive(c);
  f.inverse = f.to_real = true;
  if (f.axes.n) f.size[f.axes.n - 1] = at_int(c, 3);
  transform(c, &f);
}
static void r2c(AtenCall *c) {  // (.., onesided)
  Fft f = primitive(c);
  f.from_real = true;
  f.half = at_bool(c, 3);
  transform(c, &f);
}

// ---- torch.fft: (self, n or s, dim, norm) ----

static void read_kind(AtenCall *c, Fft *f) {
  Str name = c->schema->name;
  const char *p = name.p + strlen("fft_");
  bool inverse = p[0] == 'i', real = p[inverse] == 'r';
  f->x = operand(c, 0, &f->rank);
  f->inverse = inverse;
  f->to_real = inverse && real;
  f->from_real = f->half = !inverse && real;
  // "backward", where nothing is said: the inverse is divided by n.
  Str norm = at_none(c, 3) ? STR("backward") : at_arg(c, 3)->s;
  f->norm = str_is(norm, "ortho")                ? NORM_ROOT
            : str_is(norm, "forward") != inverse ? NORM_N
                                                 : NORM_NONE;
  if (f->from_real && av_is_complex(at_arg(c, 0))) at_fail(c, "of complex numbers");
}
// A length that is not given is the axis's own; of half a spectrum, what it is half of.
static void lengths(AtenCall *c, Fft *f, const AtenValue *n) {
  own_sizes(c, f);
  int64_t last = f->axes.n - 1;
  if (f->to_real && last >= 0) f->size[last] = 2 * (f->size[last] - 1);
  for (int64_t k = 0; k <= last && n->kind != AV_NONE && !c->g->status; k++) {
    const AtenValue *one = n->list ? (k < n->list->v.n ? &n->list->v.v[k] : NULL) : n;
    if (!one || !av_is_known(one)) {
      at_fail(c, "lengths that are not known");
      return;
    }
    if (one->i != -1) f->size[k] = one->i;
  }
}
void aten_fft_one(AtenCall *c) {
  Fft f = {0};
  int64_t axis;
  read_kind(c, &f);
  axis = at_axis(c, 2, f.rank);
  f.axes = (Ints){1, &axis};
  lengths(c, &f, at_arg(c, 1));
  transform(c, &f);
}
// Without axes: the last ones for which there are lengths, or all.
void aten_fft_many(AtenCall *c) {
  Fft f = {0};
  int64_t axes[MAX_RANK], n = 0;
  read_kind(c, &f);
  if (at_none(c, 2)) {
    const AtenValue *s = at_arg(c, 1);
    int64_t first = s->list ? f.rank - s->list->v.n : 0;
    for (int64_t i = MAX(first, 0); i < f.rank; i++) axes[n++] = i;
    f.axes = (Ints){n, axes};
  } else {
    f.axes = at_axes(c, 2, f.rank);
  }
  lengths(c, &f, at_arg(c, 1));
  transform(c, &f);
}

// ---- short-time transforms ----

typedef struct Stft {
  int64_t n, hop;
  Node *window;  // NULL: none
  bool center, half, scaled;
  Str mode;
} Stft;

static Node *call2(AtenCall *c, const char *name, AtenValue a, AtenValue b, AtenValue d, int n) {
  const AtenSchema *s = aten_overloads(c->a, str_of(name));
  AtenValue args[3] = {a, b, d}, bound[32] = {{0}}, out;
  if (!s || !aten_bind(s, c->a->arena, args, n, NULL, 0, false, bound)) {
    at_fail(c, "no %s", name);
    return c->g->poison;
  }
  aten_build(c->a, s, bound, c->at, &out);
  return c->g->status ? c->g->poison : out.box->node;
}

// Frames by n, each hop further, [.., frames, n].
static Node *frames_of(AtenCall *c, const Stft *s, Node *x, int rank) {
  Arena *a = c->a->arena;
  Graph *g = c->g;
  if (s->center) {
    AtenValue pads = av_list(a, AV_LIST);
    for (int i = 0; i < 2; i++) av_push(a, &pads, av_int(s->n / 2));
    if (str_is(s->mode, "reflect")) {
      if (rank == 1) x = bt_unsqueeze(g, x, 0);
      x = call2(c, "reflection_pad1d", av_tensor(a, x), pads, av_int(0), 2);
      if (rank == 1) x = bt_squeeze(g, x, 0);
    } else if (str_is(s->mode, "constant")) {
      x = call2(c, "constant_pad_nd", av_tensor(a, x), pads, av_float(0), 3);
    } else {
      at_fail(c, "pad_mode='%.*s'", STR_ARG(s->mode));
    }
  }
  const AtenSchema *u = aten_overloads(c->a, STR("unfold"));
  AtenValue args[4] = {av_tensor(a, x), av_int(rank - 1), av_int(s->n), av_int(s->hop)}, out;
  if (g->status || !u) return g->poison;
  aten_build(c->a, u, args, c->at, &out);
  return g->status ? g->poison : out.box->node;
}

static void run_stft(AtenCall *c, Stft *s, int64_t win, bool complex) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  if (rank < 1 || rank > 2 || s->n < 1 || s->hop < 1 || win < 1 || win > s->n)
    at_fail(c, "of rank %d, by %lld", rank, (long long)s->n);
  if (g->status) return;
  Node *w = s->window ? s->window : bt_vector(g, type_of(x)->dtype, win, 1);
  if (win < s->n) {
    int64_t left = (s->n - win) / 2, pads[] = {left, s->n - win - left};
    w = N(g, pad, w, node_i64s(g, 2, pads), bt_num(g, w, 0));
  }
  x = N(g, mul, frames_of(c, s, x, rank), bt_cast(g, w, type_of(x)->dtype));
  dft_attrs at = {.onesided = s->half};
  x = NA(g, dft, &at, bt_unsqueeze(g, x, rank + 1), node_i64(g, s->n), node_i64(g, rank));
  x = bt_swap(g, x, rank + 2, rank - 1, rank);  // frequencies before frames
  if (s->scaled) x = N(g, mul, x, bt_num(g, x, 1 / sqrt((double)s->n)));
  if (complex)
    c->out = av_complex(c->a->arena, x);
  else
    at_give(c, x);
}

// (self, n_fft, hop_length, win_length, window, [center, pad_mode,] normalized, onesided,
// return_complex)
static void stft_row(AtenCall *c) {
  int more = c->schema->row->op ? 2 : 0;
  int64_t n = at_int(c, 1);
  Stft s = {.n = n,
            .hop = at_none(c, 2) ? n / 4 : at_int(c, 2),
            .window = at_tensor_opt(c, 4),
            .center = more && at_bool(c, 5),
            .mode = more ? at_arg(c, 6)->s : (Str){"", 0},
            .scaled = at_bool(c, 5 + more),
            .half = at_none(c, 6 + more) || at_bool(c, 6 + more)};
  run_stft(c, &s, at_none(c, 3) ? n : at_int(c, 3), at_bool(c, 7 + more));
}

// ---- windows, and spectra with their middle in the middle ----

enum { LONGEST_WINDOW = 1 << 20 };
static const double cosines[3][3] = {{.5, -.5, 0}, {.54, -.46, 0}, {.42, -.5, .08}};
static void window_row(AtenCall *c) {  // (length, [periodic,] *, dtype, ...): row->op says which
  Graph *g = c->g;
  bool said = c->schema->overload.n > 0, periodic = !said || at_bool(c, 1);
  int64_t n = at_int(c, 0), bytes;
  DType t = at_dtype(c, said ? 2 : 1, DT_F32);
  if (n < 0 || n > LONGEST_WINDOW || !dtype_is_float(t) || !dtype_bytes(t, n, &bytes))
    at_fail(c, "a window of %lld", (long long)n);
  if (g->status) return;
  const double *a = cosines[c->schema->row->op];
  void *p = arena_alloc(&g->arena, MAX(bytes, 8));
  for (int64_t i = 0; i < n; i++) {
    double at = 6.28318530717958647692 * (double)i / (double)MAX(periodic ? n : n - 1, 1);
    put_f64(t, p, i, n == 1 ? 1 : a[0] + a[1] * cos(at) + a[2] * cos(2 * at));
  }
  at_give(c, node_const(g, t, 1, &n, p, NULL));
}

static void shift_row(AtenCall *c) {  // (self, dim): by half of each axis; row->op: back
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  Ints axes = at_axes(c, 1, at_rank(c, x));
  for (int64_t i = 0; i < axes.n && !g->status; i++) {
    int64_t n = at_known_dim(c, x, (int)axes.v[i]), half = c->schema->row->op ? n / 2 : n - n / 2;
    Node *part[] = {bt_slice(g, x, axes.v[i], half, n), bt_slice(g, x, axes.v[i], 0, half)};
    if (n > 1) x = bt_concat(g, axes.v[i], 2, part);
  }
  at_give(c, x);
}

static const AtenRow rows[] = {
    // clang-format off
    {"_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", r2c, 0, NULL},
    {"_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor", aten_fft_c2r, 0, NULL},
    {"_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor", aten_fft_c2c, 0, NULL},
    {"fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", aten_fft_one, 0, NULL},
    {"fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", aten_fft_one, 0, NULL},
    {"fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", aten_fft_one, 0, NULL},
    {"fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", aten_fft_one, 0, NULL},
    {"fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor", aten_fft_many, 0, NULL},
    {"fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor", aten_fft_many, 0, NULL},
    {"fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor", aten_fft_many, 0, NULL},
    {"fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor", aten_fft_many, 0, NULL},
    {"fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", aten_fft_many, 0, NULL},
    {"fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", aten_fft_many, 0, NULL},
    {"fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", aten_fft_many, 0, NULL},
    {"fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", aten_fft_many, 0, NULL},
    {"stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor", stft_row, 0, NULL},
    {"stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, str pad_mode=\"reflect\", bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor", stft_row, 1, NULL},
    {"hann_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", window_row, 0, NULL},
    {"hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", window_row, 0, NULL},
    {"hamming_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", window_row, 1, NULL},
    {"hamming_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", window_row, 1, NULL},
    {"blackman_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", window_row, 2, NULL},
    {"blackman_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", window_row, 2, NULL},
    {"fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", shift_row, 0, NULL},
    {"fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", shift_row, 1, NULL},
    // clang-format on
};
ATEN_TABLE(fft);
