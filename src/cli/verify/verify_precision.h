// verify_precision.h -- measuring what a precision does to a model (verify_precision.c).
#ifndef TENON_CLI_VERIFY_VERIFY_PRECISION_H
#define TENON_CLI_VERIFY_VERIFY_PRECISION_H

#include "cli/cli.h"
#include "passes/passes.h"

int verify_precision(Cli *c);
// Of the largest value: half a step of bf16 for each rounding of a value and of a product's operand
// on the way, which add up as errors that do not depend on each other.
double precision_expected(const PrecisionReport *r);

#endif
