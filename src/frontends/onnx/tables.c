// tables.c -- the import rows of every family.
#include "frontends/onnx/import.h"

#define TABLES(X) X(scalar) X(activation) X(movement) X(reduce) X(index) X(generate) X(control)
#define X(family) extern const ImportTable onnx_rows_##family;
TABLES(X)
#undef X

const ImportTable *const onnx_tables[] = {
#define X(family) &onnx_rows_##family,
    TABLES(X)
#undef X
        NULL,
};
