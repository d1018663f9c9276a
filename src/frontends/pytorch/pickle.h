// pickle.h -- between the pickle machine and the names that it knows.
#ifndef TENON_FRONTENDS_PYTORCH_PICKLE_H
#define TENON_FRONTENDS_PYTORCH_PICKLE_H

#include "frontends/pytorch/pytorch.h"

typedef struct PickleMachine {
  Arena *arena;
  Diag *diag;
  Where at;
  int64_t offset;  // of the opcode
  bool code;
  tenon_status status;  // sticky
} PickleMachine;

tenon_status pickle_bad(PickleMachine *m, const char *fmt, ...) PRINTF(2, 3);
Pickled *pickle_new(PickleMachine *m, PickleKind kind);
// The name as a value; one that is not listed is an error.
Pickled *pickle_name(PickleMachine *m, Str module, Str name);
// What a listed name means with these arguments.  Nothing is called: each meaning is a construction
// of ours.
Pickled *pickle_apply(PickleMachine *m, const Pickled *fn, Pickled *args, bool new_object);
Pickled *pickle_persistent(PickleMachine *m, Pickled *id);

#endif
