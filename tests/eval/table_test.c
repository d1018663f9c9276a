// table_test.c -- the table of evaluations that the runtime has, against the records of the ops.
#include "eval/table.h"
#include "ir/opinfo.h"
#include "test.h"

static bool same_attrs(const OpInfo *op, const EvalOp *e) {
  if (op->nattrs != e->nattrs || op->attrs_size != e->attrs_size) return false;
  for (int i = 0; i < op->nattrs; i++)
    if (strcmp(op->attrs[i].name, e->attrs[i].name) || op->attrs[i].kind != e->attrs[i].kind ||
        op->attrs[i].offset != e->attrs[i].offset)
      return false;
  return true;
}

// Every op with an evaluation is there, but for kernels, which are decomposed, and what holds no
// value of its own.
TEST(eval_table_is_whole) {
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *op = op_table[i];
    if (!op->eval || i == OP_fused) continue;
    const EvalOp *e = eval_find(op->name);
    if (!e) FAIL("%s is not in eval/table.def", op->name);
    if (e->eval != op->eval) FAIL("%s has another evaluation in eval/table.def", op->name);
    if (!same_attrs(op, e)) FAIL("%s has other attributes in eval/table.def", op->name);
  }
  EXPECT(!eval_find("no such op"));
}
