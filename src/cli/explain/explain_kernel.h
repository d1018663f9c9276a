// explain_kernel.h -- one kernel of a compiled graph, in full.
#ifndef TENON_CLI_EXPLAIN_EXPLAIN_KERNEL_H
#define TENON_CLI_EXPLAIN_EXPLAIN_KERNEL_H

#include "cli/opt.h"

// The keys `template`, `schedule` (an object of its fields) and `schedule_text`, which --schedule
// takes.
void json_schedule(JsonWriter *w, const Lowered *lw);
// The key `refused`: templates that looked at the kernel and left it, each with the reason.
void json_refused(JsonWriter *w, const Refusal *refused, int64_t n);
void json_no_schedule(JsonWriter *w);  // of a kernel that the host evaluates: the same keys
// Compiles the graph, which `made` says to be optimised, and prints the kernels that `text` means:
// a number, or a pattern for the names of nodes.  The exit status.
int explain_kernel(Cli *c, const CompileOptions *o, Graph *g, CompileReport *made, const char *text,
                   bool json);

#endif
