// recognise.c -- makes composites whole that exporters took apart.
//
// Activations first: a norm or an attention is found from its last node, when what is inside has settled.  Views
// that become neighbours are merged at once.
#include "passes/passes.h"
#include "rules/rules.h"

tenon_status pass_recognise(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_moves,
                                        &rules_recognise_act,
                                        &rules_recognise_norm,
                                        &rules_recognise_attention,
                                        &rules_recognise_mask,
                                        &rules_recognise_move,
                                        &rules_recognise_rotary,
                                        &rules_recognise_bits};
  return pass_rewrite(c, sets, ARRAY_LEN(sets), out_changed);
}

tenon_status pass_past(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_present, &rules_past};
  return pass_rewrite(c, sets, c->o->apart ? 2 : 1, out_changed);
}

tenon_status pass_qdq(PassCtx *c, bool *out_changed) {
  // What is quantised again goes first: a product alone is turned into integers whoever reads it.
  static const RuleSet *const sets[] = {&rules_recognise_quant, &rules_recognise_integer,
                                        &rules_quant_border, &rules_recognise_float8};
  // The last is for units that multiply these: those that have all kinds of products.
  int n = ARRAY_LEN(sets) - !(c->o->tiles && !c->o->only_tf32);
  *out_changed = false;
  for (int i = 0; i < n; i++) {
    bool changed;
    TRY(pass_rewrite(c, &sets[i], 1, &changed));
    *out_changed |= changed;
  }
  return TENON_OK;
}
