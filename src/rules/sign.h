// sign.h -- is a tensor known to hold no negative number?
#ifndef TENON_RULES_SIGN_H
#define TENON_RULES_SIGN_H

#include "ir/rule.h"

// No element is negative, whatever the inputs are; -0 and NaN may be among them.
bool node_not_negative(Graph *g, const Node *n);

#endif
