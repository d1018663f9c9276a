// norm.c -- normalisations by mean and variance.
//
// One routine serves all: the tensor is split into sets over which the statistics are taken, an
// element's place being set offset + member offset, and its scale and bias are found the same way.
// Mean and variance are two passes in double, members in order.
#include "eval/norm.h"
#include "eval/gemm.h"

#include <math.h>

enum { BLOCK = 256 };

// Where a parameter (scale, bias) is read for an element of a set: at set[s] + member[m].
typedef struct Param {
  const Value *v;  // NULL: none
  const int64_t *set, *member;
} Param;

typedef struct Norm {
  const Value *x;
  Value *y, *mean, *inv;  // the last two optional: one a set
  const int64_t *set, *member;
  int64_t nsets, nmembers;
  Param scale, bias;
  double eps;
  bool rms;                    // no mean: by the root of the mean square
  bool eps_outside;            // 1 / (sqrt(var) + eps) instead of 1 / sqrt(var + eps)
  double *out_mean, *out_var;  // optional, one a set
} Norm;

static tenon_status need_float(Eval *e, int i, const char *name) {
  TRY(eval_need(e, i, name, 0));
  DType t = e->in[i]->dtype;
  if (dtype_is_float(t) && dtype_bits(t) % 8 == 0) return TENON_OK;
  return eval_fail(e, TENON_EUNSUPPORTED, "%s of type %s: cast it to a float", name, dtype_name(t));
}

// Offsets ascend, so that equal distance of the ends means a run.
static bool is_run(const int64_t *off, int64_t n) { return off[n - 1] - off[0] == n - 1; }

static void load_at(const Value *v, int64_t base, const int64_t *off, int64_t n, double *out) {
  if (is_run(off, n)) {
    load_f64(v->dtype, v->data, base + off[0], n, out);
    return;
  }
  for (int64_t i = 0; i < n; i++) out[i] = val_f64(v, base + off[i]);
}

static void store_at(Value *v, int64_t base, const int64_t *off, int64_t n, const double *in) {
  if (is_run(off, n)) {
    store_f64(v->dtype, v->data, base + off[0], n, in);
    return;
  }
  for (int64_t i = 0; i < n; i++) val_put_f64(v, base + off[i], in[i]);
}

static void statistics(const Norm *m, int64_t s, double *mean, double *var) {
  double v[BLOCK], sum = 0, square = 0;
  for (int64_t k = 0; !m->rms && k < m->nmembers; k += BLOCK) {
    int64_t n = MIN(BLOCK, m->nmembers - k);
    load_at(m->x, m->set[s], m->member + k, n, v);
    for (int64_t i = 0; i < n; i++) sum += v[i];
  }
  *mean = m->rms ? 0 : sum / (double)m->nmembers;
  for (int64_t k = 0; k < m->nmembers; k += BLOCK) {
    int64_t n = MIN(BLOCK, m->nmembers - k);
    load_at(m->x, m->set[s], m->member + k, n, v);
    for (int64_t i = 0; i < n; i++) square += (v[i] - *mean) * (v[i] - *mean);
  }
  *var = square / (double)m->nmembers;
}

static void run_norm(void *ctx, int64_t begin, int64_t end) {
  const Norm *m = ctx;
  for (int64_t s = begin; s < end; s++) {
    double mean, var, v[BLOCK], p[BLOCK];
    statistics(m, s, &mean, &var);
    double inv = m->eps_outside ? 1 / (sqrt(var) + m->eps) : 1 / sqrt(var + m->eps);
    for (int64_t k = 0; k < m->nmembers; k += BLOCK) {
      int64_t n = MIN(BLOCK, m->nmembers - k);
      load_at(m->x, m->set[s], m->member + k, n, v);
      for (int64_t i = 0; i < n; i++) v[i] = (v[i] - mean) * inv;
      for (int64_t i = 0; m->y->dtype != m->x->dtype && i < n; i++)
        v[i] = round_to(m->x->dtype, v[i]);  // 'cast Normalized back to the original type of X'
      for (int i = 0; m->scale.v && i < n; i++)
        p[i] = val_f64(m->scale.v, m->scale.set[s] + m->scale.member[k + i]);
      for (int i = 0; m->scale.v && i < n; i++) v[i] *= p[i];
      for (int i = 0; m->bias.v && i < n; i++)
        v[i] += val_f64(m->bias.v, m->bias.set[s] + m->bias.member[k + i]);
      store_at(m->y, m->set[s], m->member + k, n, v);
    }
    if (m->mean) val_put_f64(m->mean, s, mean);
    if (m->inv) val_put_f64(m->inv, s, inv);
    if (m->out_mean) m->out_mean[s] = mean;
    if (m->out_var) m->out_var[s] = var;
  }
}

// Without elements there is nothing to do but the statistics that a caller keeps.
static void norm_run(Eval *e, Norm *m) {
  if (m->y->n || m->out_mean)
    parallel_for(e->run->pool, m->nsets, 1 + 2048 / (m->nmembers + 1), run_norm, m);
}

// Splits x's axes: those marked in `over` are members, the others sets.
static void split_axes(Eval *e, Norm *m, const bool *over) {
  int64_t stride[MAX_RANK], sd[MAX_RANK], ss[MAX_RANK], md[MAX_RANK], ms[MAX_RANK];
  int ns = 0, nm = 0;
  shape_strides(m->x->rank, m->x->dims, stride);
  for (int d = 0; d < m->x->rank; d++) {
    if (over[d]) {
      md[nm] = m->x->dims[d];
      ms[nm++] = stride[d];
    } else {
      sd[ns] = m->x->dims[d];
      ss[ns++] = stride[d];
    }
  }
  m->set = gemm_offsets(e->run, ns, sd, ss, &m->nsets);
  m->member = gemm_offsets(e->run, nm, md, ms, &m->nmembers);
}

static void fill_f64(Value *v, double x) {
  for (int64_t i = 0; i < v->n; i++) val_put_f64(v, i, x);
}

// ---- layer and rms: over the last axes, parameters broadcast ----

static tenon_status broadcast_param(Eval *e, const Norm *m, int axis, int input, const char *name,
                                    Param *out) {
  const Value *v = eval_in(e, input), *x = m->x;
  if (!v) return TENON_OK;
  TRY(need_float(e, input, name));
  int pad = x->rank - v->rank;
  for (int d = 0; d < v->rank; d++)
    if (pad < 0 || (v->dims[d] != 1 && v->dims[d] != x->dims[pad + d]))
      return eval_fail(e, TENON_EINVAL, "%s of rank %d with size %lld does not broadcast to x",
                       name, v->rank, (long long)v->dims[d]);
  if (!x->n) return TENON_OK;
  int64_t stride[MAX_RANK], count;
  out->v = v;
  broadcast_strides(v, x->rank, stride);
  out->set = gemm_offsets(e->run, axis, x->dims, stride, &count);
  out->member = gemm_offsets(e->run, x->rank - axis, x->dims + axis, stride + axis, &count);
  return TENON_OK;
}

static tenon_status over_last(Eval *e, Norm *m, int64_t axis, int *out_axis) {
  bool over[MAX_RANK] = {false};
  TRY(need_float(e, 0, "x"));
  TRY(need_float(e, 1, "scale"));
  m->x = e->in[0];
  TRY(eval_axis(e, axis, m->x->rank, out_axis));
  for (int d = *out_axis; d < m->x->rank; d++) over[d] = true;
  if (m->x->n) split_axes(e, m, over);
  return broadcast_param(e, m, *out_axis, 1, "scale", &m->scale);
}

tenon_status eval_layer_normalization(Eval *e) {
  const layer_normalization_attrs *at = e->attrs;
  Norm m = {.eps = at->epsilon};
  int axis;
  TRY(over_last(e, &m, at->axis, &axis));
  TRY(broadcast_param(e, &m, axis, 2, "b", &m.bias));
  TRY(eval_out(e, 0, m.x->dtype, m.x->rank, m.x->dims, &m.y));
  if (!dtype_valid(at->stash_type) || !dtype_is_float((DType)at->stash_type))
    return eval_fail(e, TENON_EINVAL, "stash_type %lld is not a float type",
                     (long long)at->stash_type);
  int64_t dims[MAX_RANK];
  for (int d = 0; d < m.x->rank; d++) dims[d] = d < axis ? m.x->dims[d] : 1;
  if (eval_wants(e, 1)) TRY(eval_out(e, 1, (DType)at->stash_type, m.x->rank, dims, &m.mean));
  if (eval_wants(e, 2)) TRY(eval_out(e, 2, (DType)at->stash_type, m.x->rank, dims, &m.inv));
  norm_run(e, &m);
  // Mean and variance of no elements, as reduce_mean gives them.
  if (!m.x->n && m.mean) fill_f64(m.mean, NAN);
  if (!m.x->n && m.inv) fill_f64(m.inv, NAN);
  return TENON_OK;
}

tenon_status eval_rms_normalization(Eval *e) {
  const rms_normalization_attrs *at = e->attrs;
  Norm m = {.eps = at->epsilon, .rms = true};
  int axis;
  TRY(over_last(e, &m, at->axis, &axis));
  TRY(eval_out(e, 0, e->in[1]->dtype, m.x->rank, m.x->dims, &m.y));
  norm_run(e, &m);
  return TENON_OK;
}

// ---- by channel: instance, group, batch ----

static tenon_status channel_inputs(Eval *e, Norm *m, int least_rank, const char *const *name,
                                   int count) {
  TRY(need_float(e, 0, "x"));
  m->x = e->in[0];
  if (m->x->rank < least_rank)
    return eval_fail(e, TENON_EINVAL, "x of rank %d, must be at least %d", m->x->rank, least_rank);
  for (int i = 1; i <= count; i++) {
    TRY(need_float(e, i, name[i - 1]));
    if (e->in[i]->rank != 1)
      return eval_fail(e, TENON_EINVAL, "%s of rank %d, must be 1", name[i - 1], e->in[i]->rank);
  }
  return TENON_OK;
}

static tenon_status need_count(Eval *e, int i, const char *name, int64_t channels) {
  if (e->in[i]->n == channels) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s has %lld numbers for %lld channels", name,
                   (long long)e->in[i]->n, (long long)channels);
}

// Sets are [batch][group], members [channel of the group][plane]; parameters are by channel, or by
// group.
static tenon_status by_group(Eval *e, Norm *m, int64_t groups) {
  const Value *x = m->x;
  int64_t channels = x->dims[1], each = channels / groups;
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &m->y));
  for (int i = 1; i <= 2; i++)
    if (e->in[i]->n != groups) TRY(need_count(e, i, i == 1 ? "scale" : "bias", channels));
  if (!x->n) return TENON_OK;
  int64_t plane = x->n / x->dims[0] / channels, count;
  int64_t set_dim[2] = {x->dims[0], groups}, mem_dim[2] = {each, plane};
  int64_t set_stride[2] = {channels * plane, each * plane}, mem_stride[2] = {plane, 1};
  m->set = gemm_offsets(e->run, 2, set_dim, set_stride, &m->nsets);
  m->member = gemm_offsets(e->run, 2, mem_dim, mem_stride, &m->nmembers);
  for (int i = 1; i <= 2; i++) {
    Param *p = i == 1 ? &m->scale : &m->bias;
    bool per_group = e->in[i]->n == groups && groups != channels;
    int64_t ps[2] = {0, per_group ? 1 : each}, pm[2] = {per_group ? 0 : 1, 0};
    p->v = e->in[i];
    p->set = gemm_offsets(e->run, 2, set_dim, ps, &count);
    p->member = gemm_offsets(e->run, 2, mem_dim, pm, &count);
  }
  norm_run(e, m);
  return TENON_OK;
}

static const char *const channel_names[] = {"scale", "b", "mean", "var"};

static tenon_status first_instance_normalization(Eval *e) {
  Norm m = {.eps = ((const instance_normalization_attrs *)e->attrs)->epsilon};
  TRY(channel_inputs(e, &m, 2, channel_names, 2));
  return by_group(e, &m, MAX(m.x->dims[1], 1));
}
EVAL_ORDERED(instance_normalization, instance_normalization_attrs, 0, ORDER_DATA)

static tenon_status first_group_normalization(Eval *e) {
  const group_normalization_attrs *at = e->attrs;
  Norm m = {.eps = at->epsilon};
  TRY(channel_inputs(e, &m, 2, channel_names, 2));
  if (at->num_groups < 1 || m.x->dims[1] % at->num_groups)
    return eval_fail(e, TENON_EINVAL, "%lld channels do not divide into %lld groups",
                     (long long)m.x->dims[1], (long long)at->num_groups);
  return by_group(e, &m, at->num_groups);
}
EVAL_ORDERED(group_normalization, group_normalization_attrs, 0, ORDER_DATA)

// A batch of plain numbers has one channel.
static int64_t channels_of(const Value *x) { return x->rank > 1 ? x->dims[1] : 1; }

typedef struct Affine {
  const Value *x;
  Value *y;
  const double *factor, *mean, *bias;  // by channel
  int64_t channels, plane;
} Affine;

static void run_affine(void *ctx, int64_t begin, int64_t end) {
  const Affine *a = ctx;
  double v[BLOCK];
  for (int64_t i = begin; i < end; i++) {
    int64_t c = i % a->channels;
    for (int64_t k = 0; k < a->plane; k += BLOCK) {
      int64_t n = MIN(BLOCK, a->plane - k);
      load_f64(a->x->dtype, a->x->data, i * a->plane + k, n, v);
      for (int64_t q = 0; q < n; q++) v[q] = (v[q] - a->mean[c]) * a->factor[c] + a->bias[c];
      store_f64(a->y->dtype, a->y->data, i * a->plane + k, n, v);
    }
  }
}

// Inference: mean and variance are given.
static tenon_status batch_inference(Eval *e, const Value *x, Value *y, double eps) {
  Affine a = {.x = x, .y = y, .channels = channels_of(x)};
  Floats scale, bias, mean, var;
  TRY(eval_doubles(e, 1, &scale));
  TRY(eval_doubles(e, 2, &bias));
  TRY(eval_doubles(e, 3, &mean));
  TRY(eval_doubles(e, 4, &var));
  double *factor = arena_array(&e->run->scratch, double, MAX(a.channels, 1));
  for (int64_t c = 0; c < a.channels; c++) factor[c] = scale.v[c] / sqrt(var.v[c] + eps);
  a.factor = factor;
  a.mean = mean.v;
  a.bias = bias.v;
  if (!x->n) return TENON_OK;
  a.plane = x->n / x->dims[0] / a.channels;
  parallel_for(e->run->pool, x->dims[0] * a.channels, 1 + 4096 / a.plane, run_affine, &a);
  return TENON_OK;
}

// Training: results 1 and 2 are the running mean and variance, 3 and 4 the batch's own.
static tenon_status batch_training(Eval *e, Norm *m, double momentum) {
  const Value *x = m->x;
  int64_t channels = channels_of(x), count, zero = 0;
  bool over[MAX_RANK];
  for (int d = 0; d < x->rank; d++) over[d] = d != 1;
  split_axes(e, m, over);
  m->out_mean = arena_array(&e->run->scratch, double, MAX(channels, 1));
  m->out_var = arena_array(&e->run->scratch, double, MAX(channels, 1));
  const int64_t one = 1, *by_channel = gemm_offsets(e->run, 1, &channels, &one, &count);
  const int64_t *none = gemm_offsets(e->run, 1, &m->nmembers, &zero, &count);
  m->scale = (Param){e->in[1], by_channel, none};
  m->bias = (Param){e->in[2], by_channel, none};
  norm_run(e, m);
  for (int i = 1; i < 5 && eval_wants(e, i); i++) {
    const Value *old = e->in[i % 2 ? 3 : 4];
    const double *now = i % 2 ? m->out_mean : m->out_var;
    Value *v;
    TRY(eval_out(e, i, old->dtype, 1, &channels, &v));
    for (int64_t c = 0; c < channels; c++)
      val_put_f64(v, c, i > 2 ? now[c] : val_f64(old, c) * momentum + now[c] * (1 - momentum));
  }
  return TENON_OK;
}

static tenon_status first_batch_normalization(Eval *e) {
  const batch_normalization_attrs *at = e->attrs;
  Norm m = {.eps = at->epsilon};
  TRY(channel_inputs(e, &m, 1, channel_names, 4));
  for (int i = 1; i <= 4; i++) TRY(need_count(e, i, channel_names[i - 1], channels_of(m.x)));
  TRY(eval_out(e, 0, m.x->dtype, m.x->rank, m.x->dims, &m.y));
  if (at->training_mode) return batch_training(e, &m, at->momentum);
  if (e->nout > 1)
    return eval_fail(e, TENON_EINVAL,
                     "%d results: running mean and variance need training_mode=true", e->nout);
  return batch_inference(e, m.x, m.y, at->epsilon);
}
EVAL_ORDERED(batch_normalization, batch_normalization_attrs, 0, ORDER_DATA)

// ---- any axes ----

tenon_status eval_mean_variance_normalization(Eval *e) {
  static const int64_t usual[] = {0, 2, 3};
  Ints axes = ((const mean_variance_normalization_attrs *)e->attrs)->axes;
  if (!axes.n) axes = (Ints){3, usual};
  // The standard's own definition, which adds to the root.
  Norm m = {.eps = 1e-9, .eps_outside = true};
  bool over[MAX_RANK] = {false};
  TRY(need_float(e, 0, "x"));
  m.x = e->in[0];
  for (int64_t i = 0; i < axes.n; i++) {
    int axis;
    TRY(eval_axis(e, axes.v[i], m.x->rank, &axis));
    if (over[axis]) return eval_fail(e, TENON_EINVAL, "axis %d is named twice", axis);
    over[axis] = true;
  }
  TRY(eval_out(e, 0, m.x->dtype, m.x->rank, m.x->dims, &m.y));
  if (m.x->n) split_axes(e, &m, over);
  norm_run(e, &m);
  return TENON_OK;
}
