// verify.c -- what the importer may rely on, beyond what reading a module has shown.
#include "frontends/stablehlo/internal.h"

tenon_status mlir_verify(Arena *a, const MlirFile *f, Diag *d) {
  (void)a;
  (void)f;
  (void)d;
  return TENON_OK;
}
