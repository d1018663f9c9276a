// import_names.c -- the names that jax gives the dynamic dimensions of a program's arguments.
//
// An exported program computes its sizes from its arguments and passes each to a function that says
// its name:
//   %0 = get_dimension_size %arg0, dim = 0
//   call @_wrapped_jax_export_main(%0, ...)   with {jax.global_constant = "b"}
// Another argument of the same size is held to it by an assertion that both are equal.
#include "frontends/stablehlo/import.h"

// The argument's size that a value is; false: it is none.
static bool size_of(const MlirFunc *f, const MlirValue *v, int64_t *arg, int64_t *axis) {
  const MlirOp *op = v->op;
  if (!op || strcmp(op->name, "stablehlo.get_dimension_size") || op->noperands != 1) return false;
  *arg = op->operands[0]->index;
  *axis = mlir_int(mlir_attr(op, "dimension"), -1);
  if (op->operands[0]->op || *arg >= f->body->nargs || f->body->args[*arg] != op->operands[0])
    return false;
  return *axis >= 0 && *axis < f->body->args[*arg]->type->rank;
}

static void name_by_call(Hlo *h, const MlirFunc *f, const MlirOp *op) {
  const MlirFunc *callee = mlir_func(h->m, str_of(mlir_word(mlir_attr(op, "callee"), "")));
  int64_t arg, axis;
  if (!callee || !callee->arg_attrs) return;
  for (int64_t i = 0; i < op->noperands && i < callee->nargs; i++) {
    const MlirAttr *dict = callee->arg_attrs[i];
    const char *name = dict ? mlir_word(mlir_field(dict, "jax.global_constant"), "") : "";
    if (*name && size_of(f, op->operands[i], &arg, &axis)) h->names[arg * MAX_RANK + axis] = name;
  }
}

static void name_by_assertion(Hlo *h, const MlirFunc *f, const MlirOp *op) {
  const MlirOp *eq = op->noperands ? op->operands[0]->op : NULL;
  int64_t arg[2], axis[2];
  if (!eq || strcmp(eq->name, "stablehlo.compare") || eq->noperands != 2 ||
      strcmp(mlir_word(mlir_attr(eq, "comparison_direction"), ""), "EQ"))
    return;
  for (int k = 0; k < 2; k++)
    if (!size_of(f, eq->operands[k], &arg[k], &axis[k])) return;
  const char **a = &h->names[arg[0] * MAX_RANK + axis[0]],
             **b = &h->names[arg[1] * MAX_RANK + axis[1]];
  if (!*a) *a = *b;
  if (!*b) *b = *a;
}

void hlo_name_sizes(Hlo *h, const MlirFunc *f) {
  const MlirBlock *b = f->body;
  h->names = arena_array(h->arena, const char *, (b->nargs + 1) * MAX_RANK);
  for (int64_t i = 0; i < b->nargs; i++)
    if (b->args[i]->type->rank > MAX_RANK) return;  // refused later
  for (int64_t i = 0; i < b->nops; i++)
    if (!strcmp(b->ops[i]->name, "func.call") || !strcmp(b->ops[i]->name, "call"))
      name_by_call(h, f, b->ops[i]);
  for (int64_t i = 0; i < b->nops; i++)
    if (!strcmp(mlir_word(mlir_attr(b->ops[i], "call_target_name"), ""), "shape_assertion"))
      name_by_assertion(h, f, b->ops[i]);
}
