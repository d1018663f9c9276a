// confine.h -- what the program gives up once the command line says which files it needs.
//
// No sockets; programs are executed only if the command needs them: its own code generator, or the
// compilers that the user named; files are written only in the folders of its outputs, the cache
// and the temporary folder.  A layer that the kernel lacks is left out, and `tenon doctor` says
// so.  TENON_CONFINE=0 switches all of it off.
#ifndef TENON_CLI_CONFINE_H
#define TENON_CLI_CONFINE_H

#include "base/confine.h"
#include "cli/cli.h"

// Before the command runs; its files are in c->files.
void cli_confine(Cli *c);
// The same for `tenon tune worker`, which takes kernels from elsewhere: it may start tenon-codegen,
// and has no outputs and no cache.
void cli_confine_worker(Cli *c);
// The same for `tenon doctor`, which has no rights left afterwards: as a command that compiles and
// has no outputs.
void cli_confine_report(Cli *c, Layers *out);

#endif
