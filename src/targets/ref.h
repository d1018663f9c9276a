// ref.h -- the target that interprets loops: slow, and checks every access.  A new target begins as
// a copy of it.
#ifndef TENON_TARGETS_REF_H
#define TENON_TARGETS_REF_H

#include "targets/target.h"

MUST_USE tenon_status ref_build(const Compiled *c, const TargetOptions *o, Arena *a, Diag *d);

#endif
