// internal.h -- what the readers of StableHLO's forms share, beside mlir.h.
#ifndef TENON_FRONTENDS_STABLEHLO_INTERNAL_H
#define TENON_FRONTENDS_STABLEHLO_INTERNAL_H

#include "frontends/stablehlo/mlir.h"

enum { MLIR_DEPTH_MAX = 100 };  // regions in ops, types in types, attributes in attributes

MlirElem mlir_elem_of(Str name);  // "f32", "ui8", "complex<f32>"; ME_NONE: there is none
bool mlir_elem_is_int(MlirElem e);
bool mlir_elem_is_unsigned(MlirElem e);
bool mlir_elem_is_float(MlirElem e);
bool mlir_elem_is_complex(MlirElem e);

// The module of a file's top-level operations: a builtin.module alone is it, else they are in one
// without a name.
MUST_USE tenon_status mlir_make_module(Arena *a, const MlirBlock *top, int64_t nvalues,
                                       MlirModule **out, Diag *d);

// Loads of constants that are kept outside of functions become constants (globals.c).
void mlir_inline_globals(Arena *a, MlirModule *m);
bool mlir_is_jax(Str bytes);  // a jax.export file (jax.c)

// ---- constants (dense.c) ---- Bytes that `n` elements take in MlirAttr.data; false: not counted
// in int64, or the type has no elements.
bool mlir_dense_bytes(MlirElem e, int64_t n, int64_t *out);
// One element's bits, put at index i.
void mlir_dense_put(MlirElem e, uint8_t *data, int64_t i, uint64_t bits);
// A real number as the bits of a float element.
uint64_t mlir_float_bits(MlirElem e, double x);
// The constant of `type` whose elements are given as MLIR keeps them: little-endian, one element a
// byte below 8 bits, i1 packed eight a byte or one a byte; one element alone is a splat.  NULL: the
// size fits neither, `why` says it.
MlirAttr *mlir_dense_raw(Arena *a, const MlirType *type, Str raw, const char **why);
// Renews old spellings of attributes: lists that are given as dense<> become MA_INTS.
const MlirAttr *mlir_plain_attr(Arena *a, const char *name, const MlirAttr *attr);
// Fields that a structured attribute ("gather", "dot", ...) may leave out get their defaults.
const MlirAttr *mlir_struct_defaults(Arena *a, Str mnemonic, const MlirAttr *dict);

#endif
