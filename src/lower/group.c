// group.c -- which template takes a kernel.
#include "lower/templates.h"

// In order: the most special first.  Those with groups of threads have a second chance: what the verifier does not take of them is
// done by the others.
// clang-format off
static LowerFn *const templates[] = {
    lower_attention,
    lower_recurrent,
    lower_chain,
    lower_winograd,
    lower_n_bits,
    lower_contract,
    lower_scan,
    lower_top_k,
    lower_scatter,
    lower_rows,
    lower_pointwise,
};
// clang-format on

static LowerFn *const with_groups[] = {
    lower_group_stream,    lower_tile,           lower_tile_attention, lower_group_attention,
    lower_group_depthwise, lower_group_contract, lower_group_direct,   lower_group_rows,
    lower_group_pointwise,
};

static tenon_status lower_with_groups(Lowering *lo, const Node *fused, Lowered *out) {
  for (size_t i = 0; i < sizeof with_groups / sizeof with_groups[0]; i++) {
    Diag d;
    *out = (Lowered){0};
    lo->open = NULL;
    diag_init(&d);
    tenon_status s = with_groups[i](lo, fused, out);
    if (!s && !loop_verify(out->kernel, &d)) return s;
    if (s && s != TENON_EUNSUPPORTED) return s;
  }
  return TENON_EUNSUPPORTED;
}

tenon_status lower_group(Lowering *lo, const Node *fused, Lowered *out) {
  tenon_status with = lo->target.group > 1 ? lower_with_groups(lo, fused, out) : TENON_EUNSUPPORTED;
  if (with != TENON_EUNSUPPORTED) return with;
  lo->open = NULL;
  for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
    // A chain is for the cache of a core: where items are threads of a GPU its convolutions are faster one by one.
    if (lo->target.group > 1 && templates[i] == lower_chain) continue;
    *out = (Lowered){0};
    tenon_status s = templates[i](lo, fused, out);
    if (s != TENON_EUNSUPPORTED) return s;
  }
  return TENON_EUNSUPPORTED;
}
