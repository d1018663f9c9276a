// onnx.c -- fuzz target: any bytes as an ONNX model.
//
// Reads the model and the elements of every initializer, in an arena with a limit.  Any status is fine; a crash,
// a leak, a sanitizer's report or memory beyond the bound is a finding.
#include "frontends/onnx/onnx.h"

static tenon_status read_all(Arena *a, Str bytes, Diag *d) {
  OnnxModel m;
  TRY(onnx_read_model(a, bytes, d, &m));
  for (int64_t i = 0; i < m.graph.initializers.n; i++) {
    const OnnxTensor *t = &m.graph.initializers.v[i];
    const void *p;
    int64_t nbytes, n;
    bool in_file;
    if (t->external) continue;
    TRY(onnx_tensor_bytes(a, t, NOWHERE, d, &p, &nbytes, &n, &in_file));
  }
  return TENON_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  Arena a;
  Trap t;
  diag_init(&d);
  arena_init(&a);
  a.limit = 128 * (int64_t)size + (1 << 20);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = read_all(&a, (Str){(const char *)data, (int64_t)size}, &d);
  trap_leave(&t);
  arena_deinit(&a);
  // The limit is above what the reader promises, so memory cannot run out.
  if (t.status == TENON_ENOMEM || t.status == TENON_EINTERNAL) __builtin_trap();
  return 0;
}
