// target.h -- what turns the kernels of a program into something that runs.
//
// Each target is a row.  `build` completes a program that lower_program made: gives it code, or a way to
// interpret its kernels.  The texts and their loops live in the arena that lower_program was given, which must then live as
// long as the program where a target says so.
#ifndef TENON_TARGETS_TARGET_H
#define TENON_TARGETS_TARGET_H

#include "lower/lower.h"

typedef struct Target {
  const char *name, *doc;
  bool host_only;  // no kernel is lowered
  // What schedules are chosen by.
  void (*describe)(LowerTarget *out);
  MUST_USE tenon_status (*build)(const Compiled *c, Diag *d);
} Target;

const Target *target_find(const char *name);  // NULL when there is none
extern const Target *const target_table[];    // NULL-terminated

// Lowers a planned graph and builds its kernels.
MUST_USE tenon_status target_compile(const Target *t, Graph *g, const MemPlan *plan, Arena *a,
                                     Diag *d, Program **out);

#endif
