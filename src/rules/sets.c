// sets.c -- the list of all rule sets, for tests and statistics.
#include "rules/rules.h"

const RuleSet *const rule_sets[] = {
    // clang-format off
    &rules_algebra,
    &rules_recognise_fp8,
    &rules_recognise_act,
    &rules_recognise_attention,
    &rules_recognise_int4,
    &rules_recognise_integer,
    &rules_recognise_mask,
    &rules_recognise_move,
    &rules_recognise_norm,
    &rules_recognise_quant,
    &rules_recognise_rotary,
    &rules_quant_border,
    &rules_contract,
    &rules_channels,
    &rules_windows,
    &rules_space_to_depth,
    &rules_groups,
    &rules_subpixel,
    &rules_planes,
    &rules_shifted_sums,
    &rules_movement,
    &rules_kv_cache,
    &rules_slices,
    &rules_kv_present,
    &rules_signal,
    &rules_features,
    &rules_linear_models,
    &rules_ggml,
    &rules_forms,
    &rules_sink,
    &rules_strength,
    NULL,
    // clang-format on
};
