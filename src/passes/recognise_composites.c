// recognise_composites.c -- the pass recognise-composites: rebuilds composites that exporters
// decomposed.
//
// Applies the rules of rules/recognise/: activations, norms, softmax, attention, causal masks,
// shuffles, rotary embedding, GEMM with packed weights.  Activations come first: a norm or an
// attention is found from its last node, when its inner nodes have settled.  Views that become
// neighbours are merged at once.
//
// Needs:      scales and epsilons are constants (fold-constants); simplify-algebra has reduced the
//             number of spellings.
// Guarantees: results stay within rounding; a rule that uses another formula needs FAST_APPROX.
#include "passes/passes.h"
#include "rules/rules.h"

tenon_status pass_recognise_composites(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_movement,         &rules_recognise_act,
                                        &rules_recognise_norm,   &rules_recognise_attention,
                                        &rules_recognise_mask,   &rules_recognise_move,
                                        &rules_recognise_rotary, &rules_recognise_int4};
  return pass_rewrite(c, sets, ARRAY_LEN(sets), out_changed);
}
