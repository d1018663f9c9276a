// expand.h -- composites of a graph taken apart.
#ifndef TENON_IR_EXPAND_H
#define TENON_IR_EXPAND_H

#include "ir/ir.h"

// Puts its expansion in the place of every node of these ops (their names; NULL-terminated) that can be taken apart.
MUST_USE tenon_status graph_expand(Graph *g, const char *const *ops, bool *out_changed);

#endif
