// custom.h -- operators that the user registered: known by name, with a shape rule and a callback.
#ifndef TENON_IR_CUSTOM_H
#define TENON_IR_CUSTOM_H

#include "ir/opinfo.h"

// One registration.  The list is built before a graph is and read-only after.
typedef struct CustomOp {
  const struct CustomOp *next;
  const char *name;  // "domain.Op", or "Op" for the default domain
  // Fills in->type for in->nres results.
  tenon_status (*infer)(const struct CustomOp *op, Infer *in);
  tenon_status (*eval)(const struct CustomOp *op, Eval *e);
  void *user;  // the API's own record
} CustomOp;
const CustomOp *custom_find(const CustomOp *list, Str name);  // NULL when absent

#endif
