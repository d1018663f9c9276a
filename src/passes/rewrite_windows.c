// rewrite_windows.c -- the pass rewrite-windows: convolutions and pools as cheaper ops.
//
// The order of channels that depth_to_space wants goes into the weights of the convolution before
// it, and a large max pool becomes two, one along each axis (rules/windows.c).  Where tensor cores
// multiply the data type, a strided convolution of few channels becomes one of stride 1 over
// space_to_depth (rules/space_to_depth.c).  Small groups are joined where products are of 16 bits
// (rules/groups.c).  New weights are folded at once.
//
// Needs:   simplify-graph has merged norms, sums and pads into convolutions and pools; values are
//             channels first.
// Guarantees: bit-equal, except for rules that need a fast-math flag the caller allows.
#include "passes/passes.h"
#include "rules/rules.h"

tenon_status pass_rewrite_windows(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_windows, &rules_space_to_depth, &rules_groups};
  bool folded;
  const TargetTraits *t = c->g->traits;
  bool depth = t->mma && (c->o->precision || traits_mma_f32(t, c->o->fast));
  TRY(pass_rewrite(c, sets, !depth ? 1 : c->o->precision ? 3 : 2, out_changed));
  if (*out_changed) TRY(pass_fold_constants(c, &folded));
  return TENON_OK;
}
