// object.h -- a program as an object file to link with, and a C header for it (tenon/aot.h).
#ifndef TENON_TARGETS_OBJECT_H
#define TENON_TARGETS_OBJECT_H

#include "base/machine.h"
#include "runtime/program.h"

// `path`'s file name without its ending as a C identifier, in `a`.
const char *object_symbol(Arena *a, const char *path);
// An ELF object that defines SYMBOL_model.  `weights`: the file that the constants are written to,
// NULL: in the object.
MUST_USE tenon_status object_write(const Program *p, const Machine *m, const char *symbol,
                                   const char *weights, const char *path, Diag *d);
// The function SYMBOL of the model's inputs and outputs: a header that holds it, for an object; a
// header that declares it, for a shared library; or a source that defines it.
typedef enum { HEADER_HOLDS, HEADER_DECLARES, HEADER_SOURCE } HeaderKind;
// EUNSUPPORTED where C has no type for an input or output, or its size depends on data.
MUST_USE tenon_status object_header(const Program *p, const char *symbol, HeaderKind kind,
                                    StrBuf *out, Diag *d);
const char *c_type(DType t);  // what C calls elements; NULL: there is no word

#endif
