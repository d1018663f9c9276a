// cmd_serve.c -- `tenon serve`: becomes tenon-serve, which is a program of its own.
//
// The options were checked here; they go on as --name=value (serve/serve_config.def).
#include "cli/become.h"

int cmd_serve(Cli *c) { return cli_become(c, "tenon-serve", NULL, true); }
