// machine_impl.h -- what the files of machine.h share.
#ifndef TENON_BASE_MACHINE_IMPL_H
#define TENON_BASE_MACHINE_IMPL_H

#include "base/machine.h"

void str_put(char *out, size_t cap, Str s);  // as much as fits, ended by a NUL
void machine_put_features(Machine *m);       // LLVM's names of all that it has
void machine_derive(Machine *m);             // what follows from architecture and features
// What an x86 machine has without these, "-avx512f,-fma", and without what depends on them.
MUST_USE tenon_status machine_without(const Machine *m, Str features, uint32_t *has, Diag *d);

#endif
