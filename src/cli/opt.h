// opt.h -- the compile driver on the command line: the options that every command that compiles
// shares.
#ifndef TENON_CLI_OPT_H
#define TENON_CLI_OPT_H

#include "cli/cli.h"
#include "compile/compile.h"

// What the command line says (compile/options.def), else the defaults; for no target.  Dumps go to
// standard error, and a pass that breaks leaves a file behind with the graph that it was given; the
// message names it.
MUST_USE tenon_status opt_compile(Cli *c, CompileOptions *out);
// What was not compiled as it was chosen, to standard error.
void warn_declined(Cli *c, const CompileReport *r);
void json_declined(JsonWriter *w, const CompileReport *r);  // the key "declined" and its list
// The same reproducer for who makes the options otherwise, such as one test among many.
typedef struct OptCall {
  const char *
      sibling_of;  // the file is written beside this one, if it can be; NULL: among temporary files
  const char *label, *command;
} OptCall;
void opt_guard(CompileOptions *o, const OptCall *call);  // `call` lives as long as the options

#endif
