// simplify_graph.c -- the pass simplify-graph: all simplifications together, to a fixed point.
//
// One round folds control flow, shapes and constants, then applies all simplifying rule sets:
// algebra, contractions, channels, data movement, slices, Fourier transforms, classical models,
// block types, forms without a template, sinking and strength reduction.  The pipeline repeats the
// pass until a round changes nothing.
//
// Needs:   recognise-composites has run: sinking data movement destroys the spellings it looks for.
// Guarantees: bit-equal, except for rules that need a fast-math flag the caller allows.
#include "passes/passes.h"
#include "rules/rules.h"

tenon_status pass_simplify_graph(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_algebra,  &rules_contract,      &rules_channels,
                                        &rules_movement, &rules_slices,        &rules_signal,
                                        &rules_features, &rules_linear_models, &rules_ggml,
                                        &rules_forms,    &rules_sink,          &rules_strength};
  bool decided, shapes, folded, rewritten;
  TRY(pass_fold_control_flow(c, &decided));  // conditions that folding has found
  TRY(pass_fold_shapes(c, &shapes));
  TRY(pass_fold_constants(c, &folded));
  TRY(pass_rewrite(c, sets, ARRAY_LEN(sets), &rewritten));
  *out_changed = decided || shapes || folded || rewritten;
  return TENON_OK;
}
