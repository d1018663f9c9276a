// algebra.c -- rule tables that simplify.
#include "passes/passes.h"
#include "rules/rules.h"

tenon_status pass_algebra(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_algebra};
  return pass_rewrite(c, sets, ARRAY_LEN(sets), out_changed);
}

tenon_status pass_moves(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_moves, &rules_picks};
  return pass_rewrite(c, sets, ARRAY_LEN(sets), out_changed);
}

tenon_status pass_simplify(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_algebra, &rules_contract, &rules_channels,
                                        &rules_moves,   &rules_picks,    &rules_sink,
                                        &rules_strength};
  bool decided, shapes, folded, rewritten;
  TRY(pass_clean(c, &decided));  // conditions that folding has found
  TRY(pass_shapes(c, &shapes));
  TRY(pass_fold(c, &folded));
  TRY(pass_rewrite(c, sets, ARRAY_LEN(sets), &rewritten));
  *out_changed = decided || shapes || folded || rewritten;
  return TENON_OK;
}

tenon_status pass_blocks(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_blocks, &rules_depth};
  bool folded;
  bool as_f32 = !c->o->precision && !(c->o->fast & FAST_TF32);
  bool depth = c->o->tiles && !(as_f32 && c->o->only_tf32);
  TRY(pass_rewrite(c, sets, depth ? 2 : 1, out_changed));
  if (*out_changed) TRY(pass_fold(c, &folded));
  return TENON_OK;
}
