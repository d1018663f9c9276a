// explain_steps.h -- the steps of a program for several machines: where each is done, and what is
// copied between them.
#ifndef TENON_CLI_EXPLAIN_EXPLAIN_STEPS_H
#define TENON_CLI_EXPLAIN_EXPLAIN_STEPS_H

#include "cli/cli.h"

#include "cost/cost.h"
#include "runtime/program.h"

typedef struct MovedStep {
  const ProgStep *step;
  const char *device;        // that does it: "cpu", "opencl"; of a copy, where it goes
  const char *kernel, *why;  // of a kernel: its name; of what the host evaluates: its operator
  int64_t bytes;             // of a copy; -1: not known
  bool copy;                 // between two machines
} MovedStep;
typedef struct MovedSteps {
  VEC(MovedStep) list;
  int64_t copies, copied;  // their number and bytes
} MovedSteps;

// Of the model's function, at these sizes.
void explain_steps(Cli *c, const Program *p, const Graph *g, const DimBinding *sizes,
                   MovedSteps *out);
void print_steps(Cli *c, const MovedSteps *s);
void json_steps(JsonWriter *w, const MovedSteps *s);

#endif
