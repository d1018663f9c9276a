// table.c -- evaluations by the op's name.
//
// The records of src/ops say more of an op, but know the graph; the runtime has this table and no
// graph.  A test holds the two to be the same.
#include "eval/table.h"

#include "eval/activation.h"
#include "eval/attention.h"
#include "eval/blocks.h"
#include "eval/contract.h"
#include "eval/contrib.h"
#include "eval/control.h"
#include "eval/dims.h"
#include "eval/foreign.h"
#include "eval/generate.h"
#include "eval/grouped.h"
#include "eval/image.h"
#include "eval/index.h"
#include "eval/loss.h"
#include "eval/ml.h"
#include "eval/movement.h"
#include "eval/norm.h"
#include "eval/paged.h"
#include "eval/ragged.h"
#include "eval/quant.h"
#include "eval/reduce.h"
#include "eval/rnn.h"
#include "eval/scalar.h"
#include "eval/sequence.h"
#include "eval/signal.h"
#include "eval/text.h"
#include "eval/window.h"

#define EVAL_PLAIN(op, fn)
#define EVAL_WITH(op, fn, at)
#define EVAL_PREPARED(op, fn, fast, at)
#define EVAL_ATTRS(at, list) ATTR_TABLE(at, list);
#include "eval/table.def"
#undef EVAL_PLAIN
#undef EVAL_WITH
#undef EVAL_PREPARED
#undef EVAL_ATTRS

const EvalOp eval_table[] = {
#define SCALAR(op, ...) {.name = #op, .eval = eval_##op},
#include "eval/scalar.def"
#undef SCALAR
#define EVAL_ATTRS(at, list)
#define EVAL_PLAIN(op, fn) {.name = #op, .eval = fn},
#define EVAL_WITH(op, fn, at)                                                                      \
  {.name = #op,                                                                                    \
   .eval = fn,                                                                                     \
   .attrs = at##_attr_desc,                                                                        \
   .nattrs = sizeof(at##_attr_desc) / sizeof(AttrDesc),                                            \
   .attrs_size = sizeof(at##_attrs)},
#define EVAL_PREPARED(op, fn, fast, at)                                                            \
  {.name = #op,                                                                                    \
   .eval = fn,                                                                                     \
   .prepared = fast,                                                                               \
   .attrs = at##_attr_desc,                                                                        \
   .nattrs = sizeof(at##_attr_desc) / sizeof(AttrDesc),                                            \
   .attrs_size = sizeof(at##_attrs)},
#include "eval/table.def"
};
const int64_t eval_ntable = (int64_t)(sizeof eval_table / sizeof eval_table[0]);

const EvalOp *eval_find(const char *name) {
  for (int64_t i = 0; i < eval_ntable; i++)
    if (!strcmp(eval_table[i].name, name)) return &eval_table[i];
  return NULL;
}
