// close.h -- bodies of control flow from nodes that were made in place.
//
// A reader imports a branch or a loop's body like any other part of the program; what that made is
// then closed over what it uses from outside: nodes from before the region become captured
// parameters, the others are made again over them.
#ifndef TENON_FRONTENDS_COMMON_CLOSE_H
#define TENON_FRONTENDS_COMMON_CLOSE_H

#include "ir/ir.h"

typedef VEC(Node *) BodyNodes;

// `mark`: the graph's number of nodes when the region began.  `own`: parameters of the body itself,
// which come first.  *captures: the outer nodes behind its other parameters.  NULL after an error
// of the graph's.
Body *close_body(Graph *g, Arena *a, uint32_t mark, const BodyNodes *own, const BodyNodes *results,
                 BodyNodes *captures);

#endif
