// installed.h -- where Tenon's header, libraries and runtime are: beside this program.
#ifndef TENON_CLI_COMPILE_INSTALLED_H
#define TENON_CLI_COMPILE_INSTALLED_H

#include "cli/cli.h"

// Absolute paths; NULL where there is none.
typedef struct Installed {
  const char *include;     // the folder of tenon/tenon.h
  const char *lib_folder;  // of libtenon.so
  const char *runtime;     // libtenon_runtime.a
} Installed;
Installed installed_find(Cli *c);

#endif
