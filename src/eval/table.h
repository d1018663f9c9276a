// table.h -- evaluations by the op's name: for whoever has a plan and no graph.
#ifndef TENON_EVAL_TABLE_H
#define TENON_EVAL_TABLE_H

#include "eval/eval.h"

typedef struct EvalOp {
  const char *name;
  EvalFn *eval;
  // The same results, bit for bit, by data structures that it makes in its first call and keeps in
  // e->keep.  Sessions call it; the interpreter does not, so that it can judge.  NULL: none.
  EvalFn *prepared;
  const AttrDesc *attrs;
  uint16_t nattrs, attrs_size;
} EvalOp;
const EvalOp *eval_find(const char *name);  // NULL when there is none
extern const EvalOp eval_table[];
extern const int64_t eval_ntable;

#endif
