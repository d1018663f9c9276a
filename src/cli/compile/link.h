// link.h -- compiled models as shared libraries and programs, with the system's C compiler.
#ifndef TENON_CLI_COMPILE_LINK_H
#define TENON_CLI_COMPILE_LINK_H

#include "cli/cli.h"
#include "runtime/program.h"

// `shared`: a library that has the model's function; else a program that reads and writes .npy
// files.  `weights` as in object_write.
MUST_USE tenon_status link_program(Cli *c, const Program *p, const char *symbol, bool shared,
                                   const char *weights, const char *path);

#endif
