// machine_impl.h -- what the files of machine.h share.
#ifndef TENON_BASE_MACHINE_IMPL_H
#define TENON_BASE_MACHINE_IMPL_H

#include "base/machine.h"

void str_put(char *out, size_t cap, Str s);  // as much as fits, ended by a NUL
void machine_put_features(Machine *m);       // LLVM's names of all that it has
void machine_derive(Machine *m);             // what follows from architecture and features

#endif
