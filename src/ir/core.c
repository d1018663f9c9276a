// core.c -- the ops that every graph is made of, and the table of all ops.
//
// none, param, const and proj are made by their own constructors (graph.c); foreign stands for an
// operator that the user registered, or that nobody knows: then it has unknown types and cannot be
// run.
#include "ir/custom.h"
#include "ir/internal.h"

const OpInfo *const op_table[OP_COUNT] = {
#define OP(name, arity) [OP_##name] = &op_##name,
#include "ops/ops.def"
};

static const AttrDesc param_desc[] = {{.name = "instance",
                                       .doc = "number of the parameter",
                                       .kind = ATTR_i64,
                                       .offset = offsetof(param_attrs, instance)},
                                      {.name = "state",
                                       .doc = "kept from run to run and written in place",
                                       .kind = ATTR_bool,
                                       .offset = offsetof(param_attrs, state)}};
static const AttrDesc proj_desc[] = {
    {.name = "index", .doc = "which result", .kind = ATTR_i64, .offset = 0}};
ATTR_TABLE(foreign, FOREIGN_ATTRS);

static tenon_status infer_made_elsewhere(Infer *in) {
  return infer_fail(in, TENON_EINVAL, "%s is not an operation", in->op->name);
}

const CustomOp *custom_find(const CustomOp *list, Str name) {
  for (; list; list = list->next)
    if (str_is(name, list->name)) return list;
  return NULL;
}

static tenon_status infer_foreign(Infer *in) {
  const foreign_attrs *at = in->attrs;
  const CustomOp *c = custom_find(in->g->custom, at->op);
  if (c) return c->infer(c, in);
  for (int i = 0; i < in->nres; i++) infer_set_unranked(in, i, TENON_DTYPE_NONE);
  return TENON_OK;
}

static double no_cost(const CostIn *c) {
  (void)c;
  return 0;
}

const OpInfo op_none = {.name = "none",
                        .doc = "an absent optional operand",
                        .infer = infer_made_elsewhere,
                        .nres = 1,
                        .cost = no_cost};
const OpInfo op_param = {.name = "param",
                         .doc = "a parameter of a body",
                         .infer = infer_made_elsewhere,
                         .nres = 1,
                         .cost = no_cost,
                         .attrs = param_desc,
                         .nattrs = sizeof(param_desc) / sizeof(AttrDesc),
                         .attrs_size = sizeof(param_attrs)};
const OpInfo op_const = {.name = "const",
                         .doc = "a constant tensor",
                         .hazard = HAZARD_const,
                         .infer = infer_made_elsewhere,
                         .nres = 1,
                         .cost = no_cost};
const OpInfo op_proj = {.name = "proj",
                        .doc = "one result of a node that has several",
                        .infer = infer_made_elsewhere,
                        .nres = 1,
                        .cost = no_cost,
                        .attrs = proj_desc,
                        .nattrs = 1,
                        .attrs_size = sizeof(proj_attrs),
                        .arity = 1};
const OpInfo op_foreign = {.name = "foreign",
                           .doc = "a registered or unknown operator",
                           .operands = "x*",
                           .results = "y*",
                           .arity = -1,
                           .nres = 1,
                           .attrs = foreign_attr_desc,
                           .nattrs = ARRAY_LEN(foreign_attr_desc),
                           .attrs_size = sizeof(foreign_attrs),
                           .infer = infer_foreign,
                           .flags = OPF_HOST};
