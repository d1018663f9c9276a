// orphan.h -- tenon-codegen ends with the process that started it.
#ifndef TENON_TARGETS_LLVM_ORPHAN_H
#define TENON_TARGETS_LLVM_ORPHAN_H

#include "base/base.h"

// From now on this process ends when its parent has ended.  `parent`: the parent as it calls
// itself; 0: not told.  False: it has ended already.
bool orphan_watch(int64_t parent);
// Between the two it also ends when standard input does, though nobody reads it.
void orphan_busy(void);
void orphan_idle(void);

#endif
