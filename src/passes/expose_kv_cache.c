// expose_kv_cache.c -- the pass expose-kv-cache: the KV cache of attention as graph values.
//
// An attention op that returns present keys and values becomes one with a single result beside
// explicit concatenations.  On GPUs the past keys and values are concatenated with the new ones in
// front of the attention as well (rules/kv_cache.c).
//
// Needs:      recognise-composites has run: its rules about attention need one result and all keys.
// Guarantees: bit-equal.
#include "passes/passes.h"
#include "rules/rules.h"

tenon_status pass_expose_kv_cache(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_kv_present, &rules_kv_cache};
  return pass_rewrite(c, sets, traits_attention_materializes(c->g->traits) ? 2 : 1, out_changed);
}
