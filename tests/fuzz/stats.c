// stats.c -- fuzz target: statistics of a calibration.
//
// An archive has checksums that a fuzzer does not find, so the input edits the arrays of a sound
// one: records of 12 bytes say which array, what of it, where, and the new value.  The input is
// also read as an archive.  What is taken gives ranges that a quantised tensor can have.
#include "compress/observe.h"
#include "compress/range.h"
#include "fuzz.h"

#include <math.h>

enum { TENSORS = 2, CHANNELS = 3, ARRAYS = 10, RECORD = 12 };

static const char *const tensor_name[TENSORS] = {"x", "conv_1"};

static void tensors(StatsList *l, Arena *a) {
  *l = (StatsList){0};
  for (int i = 0; i < TENSORS; i++)
    vec_push(a, l, ((TensorStats){.name = tensor_name[i], .axis = i ? 1 : -1}));
}

static NdArray array(Arena *a, const char *name, DType t, int64_t n, int64_t inner, int64_t width) {
  NdArray v = {.name = str_of(name), .dtype = t, .rank = inner ? 2 : 1};
  v.dims[0] = n;
  v.dims[1] = inner;
  v.n = inner ? n * inner : n;
  v.bytes = v.n * width;
  v.data = arena_array(a, int64_t, v.n + 1);
  return v;
}

// Two tensors of the values -1, 0 and 2.
static void sound(NdArray *v, Arena *a) {
  v[0] = array(a, "about", DT_I64, 2, 0, 8);
  v[1] = array(a, "model", DT_U8, SHA256_BYTES, 0, 1);
  v[2] = array(a, "data", DT_U8, SHA256_BYTES, 0, 1);
  v[3] = array(a, "names", DT_U8, 9, 0, 1);
  v[4] = array(a, "exponents", DT_I32, TENSORS, 0, 4);
  v[5] = array(a, "totals", DT_I64, TENSORS, 2, 8);
  v[6] = array(a, "ranges", DT_F64, TENSORS, 2, 8);
  v[7] = array(a, "counts", DT_I64, TENSORS, HISTOGRAM_BINS, 8);
  v[8] = array(a, "axes", DT_I64, TENSORS, 2, 8);
  v[9] = array(a, "channels", DT_F64, CHANNELS, STATS_MOMENTS, 8);
  int64_t *about = (int64_t *)(uintptr_t)v[0].data;
  about[0] = STATS_MARK;
  about[1] = STATS_VERSION;
  memcpy((char *)(uintptr_t)v[3].data, "x\0conv_1", 9);
  for (int i = 0; i < TENSORS; i++) {
    static const float values[] = {-1, 0, 2};
    Histogram h;
    histogram_init(&h);
    if (!histogram_add(&h, values, ARRAY_LEN(values))) __builtin_trap();
    ((int32_t *)(uintptr_t)v[4].data)[i] = h.exponent;
    int64_t *total = (int64_t *)(uintptr_t)v[5].data, *axis = (int64_t *)(uintptr_t)v[8].data;
    double *range = (double *)(uintptr_t)v[6].data;
    total[2 * i] = h.total, total[2 * i + 1] = h.zeros;
    range[2 * i] = h.min, range[2 * i + 1] = h.max;
    axis[2 * i] = i ? 1 : -1, axis[2 * i + 1] = i ? CHANNELS : 0;
    memcpy((char *)(uintptr_t)v[7].data + (size_t)i * sizeof h.count, h.count, sizeof h.count);
  }
}

// The array's bytes stay large enough for what its shape says, as a reader of archives sees to.
static void edit(NdArray *v, const uint8_t *r) {
  uint32_t where;
  memcpy(&where, r + 2, sizeof where);
  int64_t small = r[6] % 4, width = v->n ? v->bytes / v->n : 1;
  switch (r[1] % 5) {
  case 0:
  case 1: {
    int64_t n = MIN(8, v->bytes), at = v->bytes > n ? where % (v->bytes - n + 1) : 0;
    memcpy((char *)(uintptr_t)v->data + at, r + 4, (size_t)MIN(n, RECORD - 4));
    break;
  }
  case 2: v->dims[0] = MIN(v->dims[0], small); break;
  case 3: v->dims[1] = MIN(v->dims[1], small); break;
  case 4: v->dtype = r[6] % 2 ? DT_F32 : DT_I16; break;
  }
  v->n = v->rank == 2 ? v->dims[0] * v->dims[1] : v->dims[0];
  v->bytes = v->n * width;
}

static void ranges(const StatsList *l) {
  for (int64_t i = 0; i < l->n; i++)
    for (int m = 0; m < RANGE_METHODS; m++) {
      double lo, hi;
      range_of(l->v[i].histogram, (RangeMethod)m, &lo, &hi);
      if (!(lo <= 0) || !(hi >= 0)) __builtin_trap();
      QuantParams p = range_params(lo, hi);
      if (!isnormal(p.scale) || p.scale <= 0 || p.zero < 0 || p.zero > 255) __builtin_trap();
    }
}

static void read_edited(Str file, Arena *a, Diag *d) {
  static const Hash none = {{0}};
  const uint8_t *data = (const uint8_t *)file.p;
  NdArray v[ARRAYS];
  StatsList l;
  int64_t n = ARRAYS;
  sound(v, a);
  for (int64_t at = 0; at + RECORD <= file.n && at < 64 * RECORD; at += RECORD) {
    if (data[at] % 32 == 31)
      n = MIN(n, data[at + 1] % ARRAYS);  // arrays are missing
    else
      edit(&v[data[at] % ARRAYS], data + at);
  }
  tensors(&l, a);
  NdArrayList list = {v, n};
  if (!stats_take(&list, &none, &none, &l, a, d)) ranges(&l);
  tensors(&l, a);
  diag_init(d);
  if (!stats_read(file, &none, &none, &l, a, d)) ranges(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_read(data, size, read_edited);
}
