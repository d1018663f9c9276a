// compile_c.h -- `tenon compile --target c`: its options, and the files that it writes.
#ifndef TENON_CLI_COMPILE_COMPILE_C_H
#define TENON_CLI_COMPILE_COMPILE_C_H

#include "base/machine.h"
#include "cli/cli.h"
#include "ir/ir.h"
#include "targets/c/c.h"

typedef struct CompileC {
  CSourceOptions options;
  CSource source;
  const char *output, *header, *weights;  // files; header and weights may be NULL
} CompileC;

// What the command line asks for; CLI_USAGE with a message where it does not fit.  An embedded
// machine has small caches.
int compile_c_choose(Cli *c, const char *output, Machine *m, CompileC *out);
MUST_USE tenon_status compile_c_write(Cli *c, const CompileC *o);
// --constant NAME=F.npy
MUST_USE tenon_status compile_constants(Cli *c, Graph *g);

#endif
