// simplify_algebra.c -- the pass simplify-algebra: algebraic identities.
//
// Applies rules/algebra.c to every body until no rule matches.
//
// Needs:      folded constants: most identities look for a constant operand.
// Guarantees: bit-equal, except for rules that need a fast-math flag the caller allows.
#include "passes/passes.h"
#include "rules/rules.h"

tenon_status pass_simplify_algebra(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_algebra};
  return pass_rewrite(c, sets, ARRAY_LEN(sets), out_changed);
}
