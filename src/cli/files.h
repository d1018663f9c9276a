// files.h -- the files that a command reads and writes, known and checked before it runs.
//
// Rows of options.def say which arguments are files (READS, WRITES).  files_declare lists them in
// Cli.files before the command runs.  A command adds a file that follows from others: a default
// output, a header beside an object, external data of a model.
//
// Three rules hold for every command, and are kept here alone:
//   an output is no input, nor another output: compared by device and inode, so through links and
//     redirections too;
//   a file that Tenon did not write is replaced only with --force;
//   all is checked before anything is written.
#ifndef TENON_CLI_FILES_H
#define TENON_CLI_FILES_H

#include "cli/cli.h"

// Lists and checks what the command line names.  CLI_OK, or CLI_USAGE with the message in c->diag.
int files_declare(Cli *c);
// One more output that the command will write; `what` is for messages: "the header".
int files_output(Cli *c, const char *path, const char *what);
// One more input, which the command has found in another one.  The status is EINVAL, the exit
// status CLI_USAGE.
MUST_USE tenon_status files_input(Cli *c, const char *path, const char *what);

// Whether a file may be replaced without --force: it is not there, is empty, is no regular file, or
// is one that Tenon wrote.
bool file_replaceable(const char *path);

#endif
