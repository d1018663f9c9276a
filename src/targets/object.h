// object.h -- a program as an object file to link with, and a C header for it (tenon/aot.h).
#ifndef TENON_TARGETS_OBJECT_H
#define TENON_TARGETS_OBJECT_H

#include "base/machine.h"
#include "runtime/program.h"

// `path`'s file name without its ending as a C identifier, in `a`.
const char *object_symbol(Arena *a, const char *path);
// An ELF object that defines SYMBOL_model.  `weights`: the file that the constants are written to, NULL: in the object.
MUST_USE tenon_status object_write(const Program *p, const Machine *m, const char *symbol,
                                   const char *weights, const char *path, Diag *d);
// The header's text: SYMBOL, a function of the model's inputs and outputs.  EUNSUPPORTED where C has no type for one, or its
// size depends on data.  `external`: for a file that defines the function instead of a header.
MUST_USE tenon_status object_header(const Program *p, const char *symbol, bool external,
                                    StrBuf *out, Diag *d);

#endif
