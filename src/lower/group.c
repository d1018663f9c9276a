// group.c -- which template takes a kernel.
#include "lower/templates.h"

// In order: the most special first.
// clang-format off
static LowerFn *const templates[] = {
    lower_attention,
    lower_recurrent,
    lower_chain,
    lower_winograd,
    lower_n_bits,
    lower_tile,
    lower_contract,
    lower_scan,
    lower_top_k,
    lower_scatter,
    lower_rows,
    lower_pointwise,
};
// clang-format on

tenon_status lower_group(Lowering *lo, const Node *fused, Lowered *out) {
  for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
    *out = (Lowered){0};
    tenon_status s = templates[i](lo, fused, out);
    if (s != TENON_EUNSUPPORTED) return s;
  }
  return TENON_EUNSUPPORTED;
}
