// merge_movement.c -- the pass merge-movement: data movement in one canonical form.
//
// Merges reshapes, transposes, expands, slices, gathers and concatenations that follow one another
// (rules/movement.c, rules/slices.c), and removes those that do nothing.
//
// Needs:      constant shapes (fold-shapes).
// Guarantees: bit-equal, except for rules that need a fast-math flag the caller allows.
#include "passes/passes.h"
#include "rules/rules.h"

tenon_status pass_merge_movement(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_movement, &rules_slices};
  return pass_rewrite(c, sets, ARRAY_LEN(sets), out_changed);
}
