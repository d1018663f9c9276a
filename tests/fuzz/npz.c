// npz.c -- fuzz target: array files.  What reads must write, and must read back the same.
#include "base/npy.h"
#include "fuzz.h"

static void round_trip(Arena *a, const NdArray *v, Diag *d) {
  StrBuf b;
  NdArray again;
  strbuf_init(&b, a);
  if (npy_format(a, v, &b, d) || npy_read(a, strbuf_str(&b), d, &again)) __builtin_trap();
  if (again.rank != v->rank || again.n != v->n) __builtin_trap();
  if (v->dtype == DT_STRING) {
    const Str *x = v->data, *y = again.data;
    for (int64_t i = 0; i < v->n; i++)
      if (!str_eq(x[i], y[i])) __builtin_trap();
  } else if (again.bytes != v->bytes ||
             (v->bytes && memcmp(again.data, v->data, (size_t)v->bytes))) {
    __builtin_trap();
  }
}

static void read_arrays(Str file, Arena *a, Diag *d) {
  NdArrayList l;
  if (nd_read(a, file, d, &l)) return;
  for (int64_t i = 0; i < l.n; i++)
    if (l.v[i].bytes < 1 << 20) round_trip(a, &l.v[i], d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_read(data, size, read_arrays);
}
