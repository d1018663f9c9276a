// stablehlo.c -- fuzz target: StableHLO text, bytecode and jax.export files, read and verified.
#include "frontends/stablehlo/mlir.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Diag d;
  fuzz_begin();
  Arena a;
  Trap t;
  MlirFile f;
  diag_init(&d);
  arena_init(&a);
  a.limit = (int64_t)64 << 20;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0)
    t.status = mlir_read(&a, (Str){(const char *)data, (int64_t)size}, &f, &d);
  trap_leave(&t);
  arena_deinit(&a);
  fuzz_end();
  return 0;
}
