// image.h -- an ELF object's code and constants as one block without relocations; inside
// tenon-codegen alone.
#ifndef TENON_TARGETS_LLVM_IMAGE_H
#define TENON_TARGETS_LLVM_IMAGE_H

#include "base/base.h"

// The image runs wherever it is mapped, as long as it begins at a multiple of 4096.
MUST_USE tenon_status image_link(Str object, Str symbol, Arena *a, Diag *d, Str *out,
                                 int64_t *out_entry);

#endif
