// work.c -- what evaluating a node takes, for runs whose work is limited.
//
// Charged before the evaluation: starting it, and reading its inputs.  Charged when result 0 has
// its shape, by eval_out: the op's own cost function, asked with the sizes that the values have and
// not with those that were inferred, so that a size which depends on data counts too.
//
// Guarantees: an op whose work is not in proportion to this charges the rest itself, with
//             eval_work.
#include "ir/internal.h"

enum { STEP_OPS = 64 };  // starting an op: as much as so many elements

static CostShape shape_of_value(const Value *v) {
  if (!v || v->kind != VK_TENSOR) return (CostShape){.rank = -1};
  return (CostShape){.dtype = v->dtype, .rank = v->rank, .dims = v->dims, .n = v->n};
}

static double cost_of(const Eval *e) {
  const Node *n = e->node;
  CostShape *in = arena_array(&e->run->scratch, CostShape, e->nin + 1);
  CostShape *out = arena_array(&e->run->scratch, CostShape, e->nout + 1);
  for (int i = 0; i < e->nin; i++) in[i] = shape_of_value(e->in[i]);
  for (int i = 0; i < e->nout; i++) out[i] = shape_of_value(e->out[i]);
  CostIn c = {.node = n, .nin = e->nin, .nout = e->nout, .in = in, .out = out};
  double ops = op_info(n->op)->cost(&c);
  return ops > 0 ? ops : 0;
}

// Elements that are read at least once; of a string, its bytes.  Ops that only move elements mostly
// look at those alone that they take.
static double reading(const Value *v, bool moves) {
  if (!v) return 0;
  if (v->kind != VK_TENSOR) return (double)v->nitems;
  if (v->n && moves) return 0;
  double sum = eval_extent(v);
  for (int64_t i = 0; v->dtype == DT_STRING && i < v->n; i++) sum += (double)val_str(v, i).n;
  return sum;
}

tenon_status work_begin(Eval *e, const Node *n) {
  const OpInfo *op = op_info(n->op);
  double ops = STEP_OPS + e->nin;
  bool moves = (op->flags & (OPF_MOVEMENT | OPF_HOST)) == OPF_MOVEMENT;
  for (int i = 0; !(op->flags & OPF_CONTROL) && i < e->nin; i++) ops += reading(e->in[i], moves);
  e->node = n;
  e->cost = op->cost ? cost_of : NULL;
  return eval_work(e, ops);
}
