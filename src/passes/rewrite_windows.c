// rewrite_windows.c -- the pass rewrite-windows: convolutions and pools as cheaper ops.
//
// The order of channels that depth_to_space wants goes into the weights of the convolution before
// it, and a large max pool becomes two, one along each axis (rules/windows.c).  Where tensor cores
// multiply the data type, a strided convolution of few channels becomes one of stride 1 over
// space_to_depth (rules/space_to_depth.c), a transposed one becomes one whose channels are blocks
// of pixels (rules/subpixel.c), and one over three axes one over planes (rules/planes.c).  Where
// products are of 16 bits, one to a few channels becomes a product and shifted sums
// (rules/shifted_sums.c), and small groups are joined (rules/groups.c). New weights are folded at
// once.
//
// Needs:   simplify-graph has merged norms, sums and pads into convolutions and pools; values are
//             channels first.
// Guarantees: bit-equal, except for rules that need a fast-math flag the caller allows.
#include "passes/passes.h"
#include "rules/rules.h"

tenon_status pass_rewrite_windows(PassCtx *c, bool *out_changed) {
  static const RuleSet *const first[] = {&rules_windows, &rules_space_to_depth, &rules_subpixel,
                                         &rules_planes};
  static const RuleSet *const then[] = {&rules_shifted_sums, &rules_groups};
  bool folded, more;
  const TargetTraits *t = c->g->traits;
  bool depth = t->mma && (c->o->precision || traits_mma_f32(t, c->o->fast));
  TRY(pass_rewrite(c, first, depth ? ARRAY_LEN(first) : 1, out_changed));
  if (*out_changed) TRY(pass_fold_constants(c, &folded));
  if (!depth || !c->o->precision) return TENON_OK;
  // These ask for constant weights, which the rules before them made.
  TRY(pass_rewrite(c, then, ARRAY_LEN(then), &more));
  *out_changed |= more;
  return more ? pass_fold_constants(c, &folded) : TENON_OK;
}
