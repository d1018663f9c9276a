// stats_file.c -- statistics of a calibration as an .npz archive, written and read (observe.h).
//
// Arrays: `about` i64[2] (a mark, the version), `model` and `data` u8[32], `names` u8 (texts, each
// with a NUL behind it), `exponents` i32[T], `totals` i64[T, 2], `ranges` f64[T, 2], `counts`
// i64[T, 2048], `axes` i64[T, 2], `channels` f64[C, 3] (largest magnitude, mean, mean
// square) one tensor after the other.
#include "compress/observe.h"

#include <math.h>

enum {
  S_ABOUT,
  S_MODEL,
  S_DATA,
  S_NAMES,
  S_EXPONENTS,
  S_TOTALS,
  S_RANGES,
  S_COUNTS,
  S_AXES,
  S_CHANNELS,
  STATS_ARRAYS
};
static const struct {
  const char *name;
  DType dtype;
  int rank;
} arrays[STATS_ARRAYS] = {
    {"about", DT_I64, 1},     {"model", DT_U8, 1},     {"data", DT_U8, 1},    {"names", DT_U8, 1},
    {"exponents", DT_I32, 1}, {"totals", DT_I64, 2},   {"ranges", DT_F64, 2}, {"counts", DT_I64, 2},
    {"axes", DT_I64, 2},      {"channels", DT_F64, 2},
};

static NdArray array_for(int which, int64_t n, int64_t inner, const void *data) {
  NdArray v = {.name = str_of(arrays[which].name), .dtype = arrays[which].dtype, .data = data};
  v.rank = arrays[which].rank;
  v.dims[0] = n;
  v.dims[1] = inner;
  v.n = v.rank == 2 ? n * inner : n;
  (void)dtype_bytes(v.dtype, v.n, &v.bytes);
  return v;
}

tenon_status stats_write(const char *path, const StatsList *l, const Hash *model, const Hash *data,
                         Arena *a, Diag *d) {
  int64_t n = l->n, channels = 0;
  for (int64_t i = 0; i < n; i++) channels += l->v[i].channels;
  int64_t about[2] = {STATS_MARK, STATS_VERSION};
  int32_t *exponent = arena_array(a, int32_t, n + 1);
  int64_t *total = arena_array(a, int64_t, 2 * n + 1), *axis = arena_array(a, int64_t, 2 * n + 1);
  int64_t *count = arena_array(a, int64_t, n * HISTOGRAM_BINS + 1);
  double *range = arena_array(a, double, 2 * n + 1),
         *moment = arena_array(a, double, STATS_MOMENTS *channels + 1);
  StrBuf names;
  strbuf_init(&names, a);
  for (int64_t i = 0, c = 0; i < n; i++) {
    const TensorStats *s = &l->v[i];
    const Histogram *h = s->histogram;
    strbuf_put(&names, (Str){s->name, (int64_t)strlen(s->name) + 1});
    exponent[i] = h->exponent;
    total[2 * i] = h->total, total[2 * i + 1] = h->zeros;
    range[2 * i] = h->min, range[2 * i + 1] = h->max;
    axis[2 * i] = s->axis, axis[2 * i + 1] = s->channels;
    memcpy(count + i * HISTOGRAM_BINS, h->count, sizeof h->count);
    for (int64_t k = 0; k < s->channels; k++, c++) {
      double *to = moment + STATS_MOMENTS * c;
      to[0] = s->channel_max[k], to[1] = s->channel_mean[k], to[2] = s->channel_square[k];
    }
  }
  NdArray v[STATS_ARRAYS] = {array_for(S_ABOUT, 2, 1, about),
                             array_for(S_MODEL, SHA256_BYTES, 1, model->b),
                             array_for(S_DATA, SHA256_BYTES, 1, data->b),
                             array_for(S_NAMES, names.n, 1, names.p),
                             array_for(S_EXPONENTS, n, 1, exponent),
                             array_for(S_TOTALS, n, 2, total),
                             array_for(S_RANGES, n, 2, range),
                             array_for(S_COUNTS, n, HISTOGRAM_BINS, count),
                             array_for(S_AXES, n, 2, axis),
                             array_for(S_CHANNELS, channels, STATS_MOMENTS, moment)};
  return npz_write(path, v, STATS_ARRAYS, true, d);
}

// ---- reading ----

typedef struct StatsFile {
  NdArray v[STATS_ARRAYS];
  int64_t n;  // tensors
} StatsFile;

static tenon_status wrong(Diag *d, int which, const char *why) {
  return fail(d, TENON_EFORMAT, (Where){.node = arrays[which].name, .op = "array"}, "%s", why);
}

static tenon_status find_arrays(const NdArrayList *l, StatsFile *f, Diag *d) {
  for (int k = 0; k < STATS_ARRAYS; k++) {
    const NdArray *v = nd_find(l, str_of(arrays[k].name));
    if (!v) return wrong(d, k, "the statistics lack it");
    if (v->dtype != arrays[k].dtype || v->rank != arrays[k].rank)
      return wrong(d, k, "it has another type or rank than statistics have");
    f->v[k] = *v;
  }
  const int64_t *about = f->v[S_ABOUT].data;
  if (f->v[S_ABOUT].n != 2 || about[0] != STATS_MARK) return wrong(d, S_ABOUT, "no statistics");
  if (about[1] != STATS_VERSION) return wrong(d, S_ABOUT, "statistics of another version");
  f->n = f->v[S_EXPONENTS].n;
  static const struct {
    int which;
    int64_t inner;
  } sized[] = {{S_TOTALS, 2}, {S_RANGES, 2}, {S_COUNTS, HISTOGRAM_BINS}, {S_AXES, 2}};
  for (int k = 0; k < ARRAY_LEN(sized); k++) {
    const NdArray *v = &f->v[sized[k].which];
    if (v->dims[0] != f->n || v->dims[1] != sized[k].inner)
      return wrong(d, sized[k].which, "its shape is not that of the other arrays");
  }
  if (f->v[S_CHANNELS].dims[1] != STATS_MOMENTS) return wrong(d, S_CHANNELS, "its shape is wrong");
  return TENON_OK;
}

static tenon_status same_hash(const NdArray *v, const Hash *h, int which, Diag *d) {
  if (v->n != SHA256_BYTES || memcmp(v->data, h->b, SHA256_BYTES))
    return wrong(d, which,
                 which == S_MODEL ? "the statistics are of another model"
                                  : "the statistics are of other samples");
  return TENON_OK;
}

// Tensor i of the file into `s`; its channels begin at *at.
static tenon_status take_stats(const StatsFile *f, int64_t i, int64_t *at, TensorStats *s, Arena *a,
                               Diag *d) {
  const int64_t *total = f->v[S_TOTALS].data, *axis = f->v[S_AXES].data;
  const double *range = f->v[S_RANGES].data, *moment = f->v[S_CHANNELS].data;
  Histogram *h = arena_new(a, Histogram);
  h->exponent = ((const int32_t *)f->v[S_EXPONENTS].data)[i];
  h->total = total[2 * i], h->zeros = total[2 * i + 1];
  h->min = range[2 * i], h->max = range[2 * i + 1];
  memcpy(h->count, (const int64_t *)f->v[S_COUNTS].data + i * HISTOGRAM_BINS, sizeof h->count);
  const char *why = histogram_wrong(h);
  if (why)
    return fail(d, TENON_EFORMAT, (Where){.node = s->name, .op = "tensor"},
                "the statistics are damaged: %s that no values have", why);
  s->histogram = h;
  s->channels = axis[2 * i + 1];
  if (s->channels < 0 || s->channels > f->v[S_CHANNELS].dims[0] - *at || axis[2 * i] != s->axis)
    return wrong(d, S_AXES, "the channels do not fit");
  s->channel_max = arena_array(a, double, MAX(s->channels, 1));
  s->channel_mean = arena_array(a, double, MAX(s->channels, 1));
  s->channel_square = arena_array(a, double, MAX(s->channels, 1));
  for (int64_t k = 0; k < s->channels; k++, ++*at) {
    const double *from = moment + STATS_MOMENTS * *at;
    s->channel_max[k] = from[0];
    s->channel_mean[k] = from[1];
    s->channel_square[k] = from[2];
    if (!(from[0] >= 0) || !(from[2] >= 0) || !isfinite(from[0] + from[1] + from[2]))
      return wrong(d, S_CHANNELS, "a moment is no number");
  }
  return TENON_OK;
}

tenon_status stats_take(const NdArrayList *list, const Hash *model, const Hash *data, StatsList *l,
                        Arena *a, Diag *d) {
  StatsFile f;
  TRY(find_arrays(list, &f, d));
  TRY(same_hash(&f.v[S_MODEL], model, S_MODEL, d));
  TRY(same_hash(&f.v[S_DATA], data, S_DATA, d));
  if (f.n != l->n) return wrong(d, S_EXPONENTS, "the statistics have another number of tensors");
  Str names = {f.v[S_NAMES].data, f.v[S_NAMES].n};
  for (int64_t i = 0, at = 0; i < f.n; i++) {
    int64_t n = (int64_t)strlen(l->v[i].name) + 1;
    if (names.n < n || memcmp(names.p, l->v[i].name, (size_t)n))
      return wrong(d, S_NAMES, "the statistics are of other tensors");
    names = (Str){names.p + n, names.n - n};
    TRY(take_stats(&f, i, &at, &l->v[i], a, d));
  }
  return TENON_OK;
}

tenon_status stats_read(Str bytes, const Hash *model, const Hash *data, StatsList *l, Arena *a,
                        Diag *d) {
  NdArrayList list;
  TRY(npz_read(a, bytes, d, &list));
  return stats_take(&list, model, data, l, a, d);
}
