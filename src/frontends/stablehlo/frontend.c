// frontend.c -- StableHLO as a row of the table of readers.
#include "frontends/stablehlo/import.h"

const Frontend frontend_stablehlo = {
    .name = "stablehlo",
    .doc = "StableHLO: MLIR text, portable bytecode (VHLO), jax.export files",
    .is = mlir_is,
    .import = hlo_import_frontend,
    .ops = hlo_ops};
