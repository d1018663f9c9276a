// tables.c -- the import rows of every family.
#include "frontends/onnx/import.h"

// clang-format off
#define TABLES(X) \
  X(activation) \
  X(attention) \
  X(contract) \
  X(contrib) \
  X(contrib_attention) \
  X(contrib_quant) \
  X(contrib_rare) \
  X(control) \
  X(generate) \
  X(image) \
  X(index) \
  X(ml) \
  X(movement) \
  X(norm) \
  X(reduce) \
  X(rnn) \
  X(scalar) \
  X(sequence) \
  X(signal) \
  X(window)
// clang-format on
#define X(family) extern const ImportTable onnx_rows_##family;
TABLES(X)
#undef X

const ImportTable *const onnx_tables[] = {
#define X(family) &onnx_rows_##family,
    TABLES(X)
#undef X
        NULL,
};
