// print.h -- what the optimiser did, as text: --time-passes and --rule-stats.
#ifndef TENON_COMPILE_PRINT_H
#define TENON_COMPILE_PRINT_H

#include "ir/pass.h"

typedef void PrintFn(void *ctx, Str text);
void print_pass_times(const OptReport *r, Arena *a, PrintFn *print, void *ctx);
void print_rule_counts(const OptReport *r, Arena *a, PrintFn *print, void *ctx);

#endif
