// expand.h -- decomposes composites of a graph.
#ifndef TENON_IR_EXPAND_H
#define TENON_IR_EXPAND_H

#include "ir/ir.h"

// Replaces every node of these ops (their names; NULL-terminated) that has an expansion by it.
MUST_USE tenon_status graph_expand(Graph *g, const char *const *ops, bool *out_changed);

#endif
