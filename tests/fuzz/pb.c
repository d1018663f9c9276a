// pb.c -- fuzz target: any bytes as the value in a .pb file: a tensor, a sequence, an optional.
#include "frontends/onnx/onnx.h"
#include "fuzz.h"

static tenon_status read_tensor(Arena *a, const OnnxTensor *t, Diag *d) {
  const void *p;
  int64_t nbytes, n;
  bool in_file;
  if (t->external) return TENON_OK;
  return onnx_tensor_bytes(a, t, NOWHERE, d, &p, &nbytes, &n, &in_file);
}

static tenon_status read_items(Arena *a, const OnnxSequence *s, Diag *d) {
  for (int64_t i = 0; i < s->tensors.n; i++) TRY(read_tensor(a, &s->tensors.v[i], d));
  for (int64_t i = 0; i < s->sequences.n; i++) TRY(read_items(a, &s->sequences.v[i], d));
  return TENON_OK;
}

static tenon_status read_as(Arena *a, int kind, Str bytes, Diag *d) {
  OnnxTensor t;
  OnnxSequence s;
  if (kind == 0) {
    TRY(onnx_read_tensor(a, bytes, d, &t));
    return read_tensor(a, &t, d);
  }
  TRY(kind == 1 ? onnx_read_sequence(a, bytes, d, &s) : onnx_read_optional(a, bytes, d, &s));
  return read_items(a, &s, d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  fuzz_begin();
  for (int kind = 0; kind < 3; kind++) {
    Arena a;
    Trap t;
    diag_init(&d);
    arena_init(&a);
    a.limit = 128 * (int64_t)size + (1 << 20);
    trap_enter(&t, &d);
    if (setjmp(t.env) == 0)
      t.status = read_as(&a, kind, (Str){(const char *)data, (int64_t)size}, &d);
    trap_leave(&t);
    arena_deinit(&a);
    if (t.status == TENON_ENOMEM || t.status == TENON_EINTERNAL) __builtin_trap();
  }
  fuzz_end();
  return 0;
}
