// sets.c -- the list of all rule sets, for tests and statistics.
#include "rules/rules.h"

const RuleSet *const rule_sets[] = {
    &rules_algebra,
    &rules_moves,
    &rules_picks,
    NULL,
};
