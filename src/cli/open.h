// open.h -- how every command opens a model.
#ifndef TENON_CLI_OPEN_H
#define TENON_CLI_OPEN_H

#include "api/model.h"
#include "cli/cli.h"

// Opens a model for the command, with messages in `d`.  A compiled one is run only as ArtifactTrust
// says: the options --compiled and --max-... of any command count.  The files that it keeps data in
// are inputs of the command (files.h).
MUST_USE tenon_status cli_open(Cli *c, const char *path, const ModelOptions *o, Diag *d,
                               Model **out);

#endif
