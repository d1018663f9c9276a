// family.c -- the family of every op: that of the list it stands in (ops/*.def).
#include "view/view.h"

const FamilyInfo family_info[FAMILY_COUNT] = {
#define X(id, text, light, dark) [FAMILY_##id] = {text, light, dark},
    FAMILIES(X)
#undef X
};

// clang-format off
static Family family_of_op(int op) {
  switch (op) {
#define OP(name, arity) case OP_##name:
#include "ops/contract.def"
#include "ops/attention.def"
#include "ops/paged.def"
#include "ops/rnn.def"
#include "ops/contrib.def"
#undef OP
    return FAMILY_contract;
#define OP(name, arity) case OP_##name:
#include "ops/scalar_ops.def"
#undef OP
    return FAMILY_arith;
#define OP(name, arity) case OP_##name:
#include "ops/activation.def"
#undef OP
    return FAMILY_activate;
#define OP(name, arity) case OP_##name:
#include "ops/movement.def"
#include "ops/index.def"
#undef OP
    return FAMILY_move;
#define OP(name, arity) case OP_##name:
#include "ops/window.def"
#include "ops/image.def"
#include "ops/signal.def"
#undef OP
    return FAMILY_window;
#define OP(name, arity) case OP_##name:
#include "ops/reduce.def"
#include "ops/norm.def"
#include "ops/loss.def"
#undef OP
    return FAMILY_reduce;
#define OP(name, arity) case OP_##name:
#include "ops/quant.def"
#undef OP
    return FAMILY_quant;
#define OP(name, arity) case OP_##name:
#include "ops/generate.def"
#undef OP
    return FAMILY_make;
#define OP(name, arity) case OP_##name:
#include "ops/control.def"
#include "ops/sequence.def"
#undef OP
    return FAMILY_control;
#define OP(name, arity) case OP_##name:
#include "ops/text.def"
#include "ops/ml.def"
#undef OP
    return FAMILY_table;
  case OP_const: return FAMILY_make;
  case OP_foreign: return FAMILY_foreign;
  default: return (Family)0;
  }
}
// clang-format on

// A kernel looks like what it is built around.
static const uint8_t kernel_family[FUSED_KINDS] = {
    [FUSED_POINTWISE] = FAMILY_arith,    [FUSED_CONTRACTION] = FAMILY_contract,
    [FUSED_REDUCTION] = FAMILY_reduce,   [FUSED_WINDOW] = FAMILY_window,
    [FUSED_ATTENTION] = FAMILY_activate, [FUSED_RECURRENT] = FAMILY_quant,
    [FUSED_MOVEMENT] = FAMILY_move,      [FUSED_HOST] = FAMILY_table,
    [FUSED_VIEW] = FAMILY_make,
};

Family family_of(const Node *n) {
  int op = n->op;
  if (op == OP_fused) return (Family)kernel_family[((const fused_attrs *)n->attrs)->kind];
  if (op == OP_relu || op == OP_sigmoid || op == OP_tanh || op == OP_clip) return FAMILY_activate;
  Family f = family_of_op(op);
  if (f != FAMILY_contract) return f;
  // The contributed operators are a mixture: most are fused contractions, the others say what they
  // are.
  uint16_t flags = op_info(op)->flags;
  return flags & OPF_MOVEMENT ? FAMILY_move : flags & OPF_ELEMENTWISE ? FAMILY_activate : f;
}
