// family.c -- the family of every op: that of the list it stands in (ops/*.def).
#include "view/view.h"

const FamilyInfo family_info[FAMILY_COUNT] = {
#define X(id, text, light, dark) [FAMILY_##id] = {text, light, dark},
    FAMILIES(X)
#undef X
};

// clang-format off
static const uint8_t family_table[OP_COUNT] = {
#define OP(name, arity) [OP_##name] = FAMILY_contract,
#include "ops/contract.def"
#include "ops/attention.def"
#include "ops/rnn.def"
#include "ops/contrib.def"
#undef OP
#define OP(name, arity) [OP_##name] = FAMILY_arith,
#include "ops/scalar_ops.def"
#undef OP
#define OP(name, arity) [OP_##name] = FAMILY_activate,
#include "ops/activation.def"
#undef OP
#define OP(name, arity) [OP_##name] = FAMILY_move,
#include "ops/movement.def"
#include "ops/index.def"
#undef OP
#define OP(name, arity) [OP_##name] = FAMILY_window,
#include "ops/window.def"
#include "ops/image.def"
#include "ops/signal.def"
#undef OP
#define OP(name, arity) [OP_##name] = FAMILY_reduce,
#include "ops/reduce.def"
#include "ops/norm.def"
#include "ops/loss.def"
#undef OP
#define OP(name, arity) [OP_##name] = FAMILY_quant,
#include "ops/quant.def"
#undef OP
#define OP(name, arity) [OP_##name] = FAMILY_make,
#include "ops/generate.def"
#undef OP
#define OP(name, arity) [OP_##name] = FAMILY_control,
#include "ops/control.def"
#include "ops/sequence.def"
#undef OP
#define OP(name, arity) [OP_##name] = FAMILY_table,
#include "ops/text.def"
#include "ops/ml.def"
#undef OP
  [OP_const] = FAMILY_make,
  [OP_foreign] = FAMILY_foreign,
};
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
  Family f = (Family)family_table[op];
  if (f != FAMILY_contract) return f;
  // The contributed operators are a mixture: most are fused contractions, the others say what they are.
  uint16_t flags = op_info(op)->flags;
  return flags & OPF_MOVEMENT ? FAMILY_move : flags & OPF_ELEMENTWISE ? FAMILY_activate : f;
}
