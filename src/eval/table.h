// table.h -- evaluations by the op's name: for whoever has a plan and no graph.
#ifndef TENON_EVAL_TABLE_H
#define TENON_EVAL_TABLE_H

#include "eval/eval.h"

typedef struct EvalOp {
  const char *name;
  EvalFn *eval;
  const AttrDesc *attrs;
  uint16_t nattrs, attrs_size;
} EvalOp;
const EvalOp *eval_find(const char *name);  // NULL when there is none
extern const EvalOp eval_table[];
extern const int64_t eval_ntable;

#endif
