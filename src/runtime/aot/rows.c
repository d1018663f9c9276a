// rows.c -- every evaluation as a symbol of its own: tenon_eval_NAME.
//
// A model's object file refers to those that its host steps need.  The archive holds each in a
// member of its own (cmake/split.sh), so that the linker leaves the others out.
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

#define SCALAR(op, ...)                                                                            \
  extern const EvalOp tenon_eval_##op;                                                             \
  const EvalOp tenon_eval_##op = {.name = #op, .eval = eval_##op};
#include "eval/scalar.def"
#undef SCALAR
#define EVAL_ATTRS(at, list) ATTR_TABLE(at, list);
#define EVAL_PLAIN(op, fn)                                                                         \
  extern const EvalOp tenon_eval_##op;                                                             \
  const EvalOp tenon_eval_##op = {.name = #op, .eval = fn};
#define EVAL_WITH(op, fn, at)                                                                      \
  extern const EvalOp tenon_eval_##op;                                                             \
  const EvalOp tenon_eval_##op = {.name = #op,                                                     \
                                  .eval = fn,                                                      \
                                  .attrs = at##_attr_desc,                                         \
                                  .nattrs = sizeof(at##_attr_desc) / sizeof(AttrDesc),             \
                                  .attrs_size = sizeof(at##_attrs)};
#define EVAL_PREPARED(op, fn, fast, at)                                                            \
  extern const EvalOp tenon_eval_##op;                                                             \
  const EvalOp tenon_eval_##op = {.name = #op,                                                     \
                                  .eval = fn,                                                      \
                                  .prepared = fast,                                                \
                                  .attrs = at##_attr_desc,                                         \
                                  .nattrs = sizeof(at##_attr_desc) / sizeof(AttrDesc),             \
                                  .attrs_size = sizeof(at##_attrs)};
#include "eval/table.def"
