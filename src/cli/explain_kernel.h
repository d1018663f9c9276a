// explain_kernel.h -- one kernel of a compiled graph, in full.
#ifndef TENON_CLI_EXPLAIN_KERNEL_H
#define TENON_CLI_EXPLAIN_KERNEL_H

#include "cli/opt.h"
#include "targets/target.h"

// Prints the kernels of the optimised graph that `text` means: a number, or a pattern for the names of nodes.  The exit status.
int explain_kernel(Cli *c, const Target *target, Graph *g, const char *text, bool json);

#endif
