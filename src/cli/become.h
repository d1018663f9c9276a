// become.h -- commands that are programs of their own beside this one.
#ifndef TENON_CLI_BECOME_H
#define TENON_CLI_BECOME_H

#include "cli/cli.h"

// Replaces this process by `program`, with these words, the options as they were given and the
// positionals.  A flag is --name, or with `flag_value` --name=1.  Returns where that fails.
int cli_become(Cli *c, const char *program, const char *word, bool flag_value);

#endif
